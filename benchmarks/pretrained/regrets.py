"""Regrets of expectimax searches against time: what their moves lose by a much deeper search.

    python -m benchmarks.pretrained.regrets
    python -m benchmarks.pretrained.regrets depth=4 nodes=500 --positions 500

Positions are drawn from games of the 3-ply search. The regret of a move is its value below the best
one, both by the deep search, which trusts the same network; regrets compare searches, they are no
points of games. A JSON row is appended to the results.
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

from afterstate import agents
from afterstate.agents.config import Count, Positive, Whole, settings
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.agents.training.commands import markdown
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.options import POSITIONAL, settings_of
from afterstate.envs.words import Words
from afterstate.leaderboard.machine import machine
from benchmarks.experiments.cells import mean_regret, mean_text

RESULT = Path(__file__).parents[1] / "results" / "search_regrets.jsonl"
SEARCHES = (
    *("depth=1", "depth=2", "depth=3", "depth=4", "depth=4,cutoff=1e-3", "depth=5,cutoff=1e-3"),
    *("depth=6,cutoff=1e-3", "depth=7,cutoff=3e-3", "depth=7,cutoff=1e-3"),
    *("nodes=200", "nodes=500", "nodes=1000", "nodes=2000", "nodes=4000"),
)
LARGEST = 3000.0
"""Largest regret of a move that counts, so that a few lost positions do not decide the mean."""


def positions(net: Network, n_games: int, n: int, seed: int) -> Words:
    """Return positions drawn from games of the 3-ply search, `uint64[n]`."""
    boards: list[Words] = []
    play(ExpectimaxAgent(net, 3), n_games, seed, watch=lambda _, words, __: boards.append(words))
    sample: Words = np.random.default_rng(seed).choice(np.concatenate(boards), n)
    return sample


def regret(
    net: Network, search: str, boards: Words, values: npt.NDArray[np.float64]
) -> dict[str, Any]:
    """Return the time, the searched afterstates and the regret of a search.

    Args:
        net: values the afterstates at the end.
        search: settings of `ExpectimaxAgent`, such as `depth=4,cutoff=1e-3`.
        boards: the positions.
        values: of their moves by the deep search, `float64[n, 4]`.
    """
    player = ExpectimaxAgent(net, **settings_of(search.split(",")))
    player.act(boards[:1])
    before, start = player.n_searched, time.process_time()
    actions = player.act(boards)
    seconds, n = time.process_time() - start, len(boards)
    lost = values.max(axis=1) - values[np.arange(n), actions]
    return {
        "search": search,
        "us": round(1e6 * seconds / n, 1),
        "nodes": round((player.n_searched - before) / n, 1),
        **mean_regret(np.minimum(lost, LARGEST)),
        "best": round(float((lost == 0).mean()), 4),
    }


@settings
class Args:
    """Measure regrets of expectimax searches against their time."""

    searches: Annotated[tuple[str, ...], POSITIONAL] = SEARCHES
    """Settings of searches, such as depth=4,cutoff=1e-3."""
    player: str = "ntuple"
    """Player whose network is searched, by its name or file."""
    games: Count = 16
    """Games from which positions are drawn."""
    positions: Count = 2_000
    """Number of positions."""
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
    net: Network = agents.find(args.player).network
    boards = positions(net, args.games, args.positions, args.seed)
    deep = ExpectimaxAgent(net, args.depth, cutoff=args.cutoff, table_bits=18)
    values = np.concatenate([deep.evaluate(each) for each in tqdm(np.split(boards, len(boards)))])
    lines = [regret(net, search, boards, values) for search in tqdm(args.searches)]
    cells = [
        [
            each["search"],
            f"{each['us']:,.0f} µs",
            f"{each['nodes']:,.0f}",
            mean_text(each),
            f"{each['best']:.1%}",
        ]
        for each in lines
    ]
    print(markdown(["search", "time per move", "nodes", "regret", "best move"], cells))
    about = {name: getattr(args, name) for name in ("player", "games", "positions", "depth")}
    row = {**about, "cutoff": args.cutoff, "seed": args.seed, "lines": lines}
    json_files.append(args.out, [{**row, "machine": machine()}])


if __name__ == "__main__":
    sys.exit(run_process(main))
