"""Shares of games in which searches make a large tile, from positions shortly before it.

    python -m benchmarks.pretrained.steps
    python -m benchmarks.pretrained.steps depth=4 depth=5 --positions 500

Whole games differ most in whether they make the next large tile, so this part of a game tells
searches apart with fewer moves. The positions are those at which games of the 2-ply search pass a
score, one of each game; from each of them every search plays on with the same random state, until
it passes a later score or the game ends. A JSON row is appended to the results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from afterstate.agents.config import Count, Whole, settings
from afterstate.agents.game2048.kernels import kernel
from afterstate.agents.game2048.search.expectimax import (
    CUTOFF,
    TABLE_BITS,
    Search,
    new_search,
    search_move,
)
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.agents.training.commands import markdown
from afterstate.agents.training.run import half_interval
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.game2048 import batch, games
from afterstate.envs.options import POSITIONAL, settings_of
from afterstate.envs.words import Words, seed_word
from afterstate.leaderboard.games import fingerprint
from afterstate.leaderboard.machine import machine
from afterstate.leaderboard.row_files import Row
from benchmarks.pretrained.ntuple import network_of

RESULT = Path(__file__).parents[1] / "results" / "search_steps.jsonl"
SEARCHES = ("depth=2", "depth=3", "depth=4", "depth=3,extend=3", "depth=4,extend=3")


@kernel
def play_to(net: Network, search: Search, depth: int, game: Words, score: int) -> None:
    """Play a game `uint64[8, 1]` until it has a score or is over."""
    while game[games.EXCESS, 0] == 0 and game[games.SCORE, 0] < score:
        action = search_move(net, search, game[games.BOARD, 0], depth)
        if action < 0:
            break
        games.play(game, 0, action, net.moves, net.size[0], net.size[1])


def positions(net: Network, n: int, score: int, seed: int) -> list[Words]:
    """Return games of the 2-ply search when they pass a score, each `uint64[8, 1]`."""

    def passed() -> Iterator[Words]:
        search = new_search(CUTOFF, TABLE_BITS)
        for i in count(seed):
            game = np.zeros((games.N_WORDS, 1), np.uint64)
            game[games.RNG] = seed_word(i)
            batch.start_all(game, np.ones(1, np.bool_), 2, *net.size)
            play_to(net, search, 2, game, score)
            if game[games.SCORE, 0] >= score:
                yield game

    return list(islice(tqdm(passed(), total=n, unit=" positions"), n))


def row_of(net: Network, search: str, starts: Sequence[Words], score: int) -> Row:
    """Return which games pass a score by a search, and their CPU time.

    Args:
        net: values the afterstates at the end of the search.
        search: its depth, cutoff and extension, such as `depth=4,extend=3`.
        starts: the games to play on, each `uint64[8, 1]`.
        score: where a game ends that has not ended before.
    """
    options = settings_of(search.split(","))
    depth = options.pop("depth")
    memory = new_search(options.pop("cutoff", CUTOFF), TABLE_BITS, **options)
    ends = [start.copy() for start in starts]
    start = time.process_time()
    for end in tqdm(ends, desc=search, unit=" games"):
        play_to(net, memory, depth, end, score)
    made = "".join("01"[int(end[games.SCORE, 0]) >= score] for end in ends)
    seconds = (time.process_time() - start) / len(starts)
    return {"search": search, "made": made, "seconds": round(seconds, 3), "machine": machine()}


def made(row: Row) -> npt.NDArray[np.int64]:
    """Return 1 for each game of a row that passed the score, else 0."""
    return np.array([int(digit) for digit in row["made"]])


def cells(row: Row, first: Row) -> list[str]:
    """Return the cells of a search: its share, the gain over the first one, and its time."""
    own, gain = made(row), made(row) - made(first)
    return [
        row["search"],
        f"{own.mean():.1%} ± {half_interval(own):.1%}",
        f"{gain.mean():+.1%} ± {half_interval(gain):.1%}",
        f"{row['seconds']:.2f} s",
    ]


@settings
class Args:
    """Measure how often searches make a large tile."""

    searches: Annotated[tuple[str, ...], POSITIONAL] = SEARCHES
    """Searches by depth, cutoff and extension, such as depth=4,extend=3."""
    player: str = "ntuple"
    """Player whose network is searched, by its name or file."""
    positions: Count = 200
    """Games that are played on."""
    start: Count = 370_000
    """Score at which they begin; a 32768 is due at some 387,000."""
    end: Count = 400_000
    """Score at which the tile is made."""
    seed: Whole = 7_000_000
    """First seed of the games."""
    out: Path = RESULT
    """File that the row is appended to."""

    def __post_init__(self) -> None:
        if self.end <= self.start:
            raise ValueError(f"end must be larger than start ({self.start:,}), got {self.end:,}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.pretrained.steps", arguments)
    net = network_of(args.player)
    key = {name: getattr(args, name) for name in ("player", "positions", "start", "end", "seed")}
    key["weights"] = fingerprint(net)
    before = {row["search"]: row for row in json_files.rows(args.out) if key.items() <= row.items()}
    missing = [search for search in args.searches if search not in before]
    starts = positions(net, args.positions, args.start, args.seed) if missing else []
    for search in missing:
        before[search] = {**key, **row_of(net, search, starts, args.end)}
        json_files.append(args.out, [before[search]])
    rows = [before[search] for search in args.searches]
    head = ["search", "makes the tile", f"more than {args.searches[0]}", "CPU time of a game"]
    print(markdown(head, [cells(row, rows[0]) for row in rows]))


if __name__ == "__main__":
    sys.exit(run_process(main))
