"""Regrets of expectimax searches against time: what their moves lose by a much deeper search.

    python -m benchmarks.pretrained.regrets
    python -m benchmarks.pretrained.regrets depth=4 nodes=500 --positions 500 --out out/some.jsonl
    python -m benchmarks.pretrained.regrets depth=5 depth=6 --last 150 --out out/late.jsonl

Positions are drawn from games of the 2-ply search, the same number from each. The regret of a move
is its value below the best one, both by the deep search, which trusts the same network; regrets
compare searches, they are no points of games. Intervals are over games. A JSON row is appended to
the results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from afterstate.agents.config import Count, Positive, Whole, settings
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.agents.progress import progress_bar
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.options import POSITIONAL, settings_of
from afterstate.envs.words import Ints, Word, Words
from afterstate.leaderboard.games import fingerprint
from afterstate.leaderboard.machine import machine
from afterstate.text_tables import markdown
from benchmarks.experiments.entries import mean_regret, mean_text
from benchmarks.pretrained.ntuple import network_of

RESULT = Path(__file__).parents[1] / "results" / "search_regrets.jsonl"
SEARCHES = (
    *("depth=1", "depth=2", "depth=3", "depth=4", "depth=4,cutoff=1e-3", "depth=5,cutoff=1e-3"),
    *("depth=6,cutoff=1e-3", "depth=7,cutoff=3e-3", "depth=7,cutoff=1e-3"),
    *("depth=5", "depth=6", "depth=3,extend=3", "depth=4,extend=2", "depth=4,extend=3"),
    *("nodes=200", "nodes=500", "nodes=1000", "nodes=2000", "nodes=4000"),
)
LARGEST = 3000.0
"""Largest regret of a move that counts, so that a few lost positions do not decide the mean."""


def positions(net: Network, n_games: int, n: int, seed: int, last: int = 0) -> Words:
    """Return different positions of each game of the 2-ply search, `uint64[n_games, n]`.

    Args:
        net: plays the games.
        n_games: number of games.
        n: positions of each game.
        seed: of the games and positions.
        last: number of moves at the end of each game from which they are drawn; 0: all.

    Raises:
        ValueError: a game has fewer positions.
    """
    games: list[list[Word]] = [[] for _ in range(n_games)]

    def watch(indices: Ints, boards: Words, _: Ints) -> None:
        for i, board in zip(indices, boards, strict=True):
            games[i].append(board)

    play(ExpectimaxAgent(net, 2), n_games, seed, watch=watch)
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(np.array(game[-last:]), n, replace=False) for game in games])


def regret(
    net: Network, search: str, boards: Words, values: npt.NDArray[np.float64]
) -> dict[str, Any]:
    """Return the times, the searched afterstates and the regret of a search.

    Args:
        net: values the afterstates at the end.
        search: settings of `ExpectimaxAgent`, such as `depth=4,cutoff=1e-3`.
        boards: the positions, `uint64[games, n]`.
        values: of their moves by the deep search, `float64[games, n, 4]`.
    """
    player = ExpectimaxAgent(net, **settings_of(search.split(",")))
    player.act(boards[0, :1])
    before, start, start_cpu = player.n_searched, time.perf_counter(), time.process_time()
    actions = player.act(boards.reshape(-1)).reshape(*boards.shape, 1)
    cpu_seconds, seconds = time.process_time() - start_cpu, time.perf_counter() - start
    lost = values.max(axis=2) - np.take_along_axis(values, actions, 2)[..., 0]
    return {
        "search": search,
        "us": round(1e6 * cpu_seconds / boards.size, 1),
        "wall_us": round(1e6 * seconds / boards.size, 1),
        "nodes": round((player.n_searched - before) / boards.size, 1),
        **mean_regret(np.minimum(lost, LARGEST).mean(axis=1)),
        "best": round(float((lost == 0).mean()), 4),
        "beyond": round(float((lost > LARGEST).mean()), 5),
    }


@settings
class Args:
    """Measure regrets of expectimax searches against their time."""

    searches: Annotated[tuple[str, ...], POSITIONAL] = SEARCHES
    """Settings of searches, such as depth=4,cutoff=1e-3."""
    player: str = "ntuple"
    """Player whose network is searched, by its name or file."""
    games: Count = 100
    """Games from which positions are drawn."""
    positions: Count = 20
    """Positions of each game."""
    last: Whole = 0
    """Moves at the end of each game from which positions are drawn; 0: all moves."""
    depth: Count = 7
    """Depth of the deep search."""
    cutoff: Positive = 2e-5
    """Cutoff of the deep search."""
    seed: Whole = 5_000_000
    """Seed of the games and positions."""
    out: Path = RESULT
    """File that the row is appended to."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.pretrained.regrets", arguments)
    net = network_of(args.player)
    boards = positions(net, args.games, args.positions, args.seed, args.last)
    deep = ExpectimaxAgent(net, args.depth, cutoff=args.cutoff, table_bits=18)
    values = np.array([deep.evaluate(each) for each in progress_bar(boards, unit="games")])
    lines = [regret(net, search, boards, values) for search in tqdm(args.searches)]
    cells = [
        [
            each["search"],
            f"{each['us']:,.0f} µs",
            f"{each['wall_us']:,.0f} µs",
            f"{each['nodes']:,.0f}",
            mean_text(each),
            f"{each['best']:.1%}",
            f"{each['beyond']:.2%}",
        ]
        for each in lines
    ]
    head = ["search", "CPU time per move", "wall time", "nodes", "regret", "best move"]
    head += [f"beyond {LARGEST:,.0f}"]
    print(markdown(head, cells))
    about = {
        name: getattr(args, name) for name in ("player", "games", "positions", "last", "depth")
    }
    about |= {"weights": fingerprint(net), "cutoff": args.cutoff, "seed": args.seed}
    row = {**about, "largest": LARGEST, "lines": lines}
    json_files.append(args.out, [{**row, "machine": machine()}])


if __name__ == "__main__":
    sys.exit(run_process(main))
