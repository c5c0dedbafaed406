"""Learning curve of the N-tuple player: mean score of the last 1,000 games against moves.

    python -m benchmarks.pretrained.learning_curve --moves 5.4e7 --seeds 1 2 3
    python -m benchmarks.pretrained.learning_curve --moves 4e8 --tuples 8x6 --restart 10 --seeds 1

With `--greedy 2000` the network plays 2,000 games at the end, without learning. A line is printed
every five million moves, and one JSON row per run is appended to the results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from afterstate.agents.config import Count, Positive, Share, Whole, settings
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner, play_evaluation
from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.play import Games
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.leaderboard.machine import machine

RESULT = Path(__file__).parents[1] / "results" / "learning_curve.jsonl"


def run(
    tuples: str, rule: NTupleSettings, seed: int, n_moves: int, every: int, n_greedy: int
) -> dict[str, Any]:
    """Return the row of a run; a point has moves, games, mean of the last 1,000 games, CPU seconds.

    Kernels are compiled before, which takes no time of the run.
    With `n_greedy` the network plays greedily at the end, without learning.
    """
    NTupleLearner(network(tuples), rule, seed=0).learn(1)
    learner = NTupleLearner(network(tuples), rule, seed)
    scores: list[int] = []
    points = []
    start = time.process_time()
    while learner.n_moves < n_moves:
        games: Games = learner.learn(min(every, n_moves - learner.n_moves))
        scores = (scores + games.scores.tolist())[-1_000:]
        point = {
            "moves": learner.n_moves,
            "games": learner.n_games,
            "mean_last_1000": float(np.mean(scores)),
            "cpu_seconds": round(time.process_time() - start, 2),
        }
        points.append(point)
        print(seed, point, flush=True)
    row = {"settings": vars(rule), "tuples": tuples, "seed": seed, "points": points}
    if n_greedy:
        row["greedy"] = play_evaluation(learner.network, {1: n_greedy})["1-ply"]
        print(seed, row["greedy"], flush=True)
    return row


@settings
class Args:
    """Measure the learning curve of the N-tuple player."""

    moves: Count = 50_000_000
    """Moves of a run."""
    every: Count = 5_000_000
    """Moves from one point to the next."""
    seeds: tuple[Whole, ...] = (1, 2, 3)
    """Seeds, one for each run."""
    greedy: Whole = 0
    """Games of greedy play at the end."""
    tuples: str = "4x6"
    """Name of the tuples."""
    rule: Literal["td", "tc"] = "tc"
    """Learning rule."""
    order: Literal["forward", "backward"] = "backward"
    """Order of the updates of a game."""
    lam: Share | None = None
    """Lambda; by default that of the order."""
    rate: Positive | None = None
    """Step size; by default that of the rule."""
    restart: Whole | None = None
    """Restart games until this number of moves is left; by default never."""
    out: Path = RESULT
    """File that the rows are appended to."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.pretrained.learning_curve", arguments)
    rule = NTupleSettings(args.rule, args.order, args.lam, args.rate, restart=args.restart)
    for seed in args.seeds:
        row = run(args.tuples, rule, seed, args.moves, args.every, args.greedy)
        json_files.append(args.out, [{**row, "machine": machine()}])


if __name__ == "__main__":
    sys.exit(run_process(main))
