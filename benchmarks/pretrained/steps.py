"""Shares of games in which searches pass a score, from positions shortly before a large tile.

    python -m benchmarks.pretrained.steps
    python -m benchmarks.pretrained.steps depth=4 depth=5 --positions 500

Whole games differ most in whether they make the next large tile, so this part of a game tells
searches apart with fewer moves. The positions are those at which games of the 2-ply search pass a
score, one of each game; from each of them every search plays on with the same random state, until
it passes a later score or the game ends. The results have a JSON row of each search, written every
few games; games that are there are not played again. Only one process writes to the file.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Annotated

import numpy as np

from afterstate.agents.config import Count, Whole, settings
from afterstate.agents.game2048.kernels import kernel
from afterstate.agents.game2048.search.expectimax import CUTOFF, TABLE_BITS, ExpectimaxAgent
from afterstate.agents.game2048.search.expectimax_search import Search, new_search, search_move
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.agents.progress import progress_bar
from afterstate.agents.training.evaluation import half_interval, of_student
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.game2048 import batch, games
from afterstate.envs.json_files import Row
from afterstate.envs.options import POSITIONAL, settings_of
from afterstate.envs.words import Words, seed_word
from afterstate.leaderboard.games import fingerprint
from afterstate.leaderboard.machine import machine
from afterstate.text_tables import markdown
from benchmarks.experiments.harness import rows_lock, share_of
from benchmarks.pretrained.ntuple import network_of

RESULT = Path(__file__).parents[1] / "results" / "search_steps.jsonl"
CHUNK = 10
"""Games after which the row of a search is written."""
SEARCHES = ("depth=2", "depth=3", "depth=4", "depth=3,extend=3", "depth=4,extend=3")


@kernel
def play_to(net: Network, search: Search, depth: int, game: Words, score: int) -> None:
    """Play a game `uint64[8, 1]` until it has a score or is over."""
    while game[games.EXCESS, 0] == 0 and game[games.SCORE, 0] < score:
        action = search_move(net, search, game[games.BOARD, 0], depth)
        if action < 0:
            break
        games.play(game, 0, action, net.move_table, net.size[0], net.size[1])


def positions(net: Network, n: int, score: int, seed: int) -> list[Words]:
    """Return games of the 2-ply search when they pass a score, each `uint64[8, 1]`."""

    def starts() -> Iterator[Words]:
        search = new_search(CUTOFF, TABLE_BITS)
        for i in count(seed):
            game = games.new_games(1)
            game[games.RNG] = seed_word(i)
            batch.start_all(game, np.ones(1, np.bool_), games.START_TILES, *net.size)
            play_to(net, search, 2, game, score)
            if game[games.SCORE, 0] >= score:
                yield game

    return list(islice(progress_bar(starts(), total=n, unit="positions"), n))


def searches_of(net: Network, names: Sequence[str]) -> dict[str, ExpectimaxAgent]:
    """Return the players of searches such as `depth=4,extend=3`, by these names.

    Raises:
        ValueError: wrong settings, or those of a search that is limited or has several threads.
    """
    players = {}
    for name in names:
        options = settings_of(name.split(","))
        if other := options.keys() - {"depth", "cutoff", "extend"}:
            raise ValueError(f"searches must have depth, cutoff and extend, got {min(other)}")
        players[name] = ExpectimaxAgent(net, **options)
    return players


def passed(player: ExpectimaxAgent, starts: Sequence[Words], score: int) -> str:
    """Return a digit for each game: 1 if it passes the score, else 0.

    Args:
        player: plays with its depth, cutoff and extension.
        starts: the games to play on, each `uint64[8, 1]`.
        score: where a game ends that has not ended before.
    """
    search = new_search(player.cutoff or 0.0, player.table_bits, player.extend)
    ends = [start.copy() for start in starts]
    for end in ends:
        play_to(player.network, search, player.depth, end, score)
    return "".join("01"[int(end[games.SCORE, 0]) >= score] for end in ends)


def cells(row: Row, first: Row) -> list[str]:
    """Return the cells of a search: its share, the gain over the first one, and its time.

    The gain is that on the games which both have played. Intervals are Wilson's and Student's.
    """
    own, other = (np.array([*each["passed"]], int) for each in (row, first))
    n = min(len(own), len(other))
    gain = own[:n] - other[:n]
    share, low, high = share_of(int(own.sum()), len(own))
    return [
        row["search"],
        f"{len(own)}",
        f"{share:.1f}% ({low:.1f}% to {high:.1f}%)",
        f"{gain.mean():+.1%} ± {of_student(half_interval(gain), n):.1%}",
        f"{row['cpu_seconds'] / len(own):.2f} s",
    ]


@settings
class Args:
    """Measure how often searches get beyond a large tile."""

    searches: Annotated[tuple[str, ...], POSITIONAL] = SEARCHES
    """Searches by depth, cutoff and extension, such as depth=4,extend=3."""
    player: str = "ntuple"
    """Player whose network is searched, by its name or file."""
    positions: Count = 200
    """Games that are played on."""
    start: Count = 370_000
    """Score at which they begin; a 32768 is due at some 387,000."""
    end: Count = 400_000
    """Score that is passed when the tile and those next to it have been merged."""
    seed: Whole = 7_000_000
    """First seed of the games."""
    out: Path = RESULT
    """File of the rows."""

    def __post_init__(self) -> None:
        if self.end <= self.start:
            raise ValueError(f"end must be larger than start ({self.start:,}), got {self.end:,}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.pretrained.steps", arguments)
    net = network_of(args.player)
    players = searches_of(net, args.searches)
    with rows_lock(args.out):
        rows = played(net, players, args)
    head = ["search", "games", "pass the score", f"more than {args.searches[0]}"]
    lines = [cells(rows[name], rows[args.searches[0]]) for name in players]
    print(markdown([*head, "CPU time of a game"], lines))


def played(net: Network, players: dict[str, ExpectimaxAgent], args: Args) -> dict[str, Row]:
    """Play the games that searches lack, write their rows, and return them by the searches."""
    key = {name: getattr(args, name) for name in ("player", "start", "end", "seed")}
    key["weights"] = fingerprint(net)
    rows = {
        name: {**key, "search": name, "passed": "", "cpu_seconds": 0.0, "machine": machine()}
        for name in players
    }
    kept = json_files.rows(args.out)
    rows |= {row["search"]: row for row in kept if key.items() <= row.items()}
    others = [row for row in kept if not key.items() <= row.items()]
    n = args.positions
    if any(len(rows[name]["passed"]) < n for name in players):
        starts = positions(net, n, args.start, args.seed)
        for name, player in players.items():
            row = rows[name]
            chunks = range(len(row["passed"]), n, CHUNK)
            for done in progress_bar(chunks, desc=name, unit="chunks"):
                begun = time.process_time()
                row["passed"] += passed(player, starts[done : done + CHUNK], args.end)
                row["cpu_seconds"] = round(row["cpu_seconds"] + time.process_time() - begun, 3)
                json_files.write_rows(args.out, [*others, *rows.values()])
    return rows


if __name__ == "__main__":
    sys.exit(run_process(main))
