"""Learning curve of the N-tuple player: mean score of the last 1,000 games against moves.

    python -m benchmarks.pretrained.learning_curve --moves 5.4e7 --seeds 1 2 3
    python -m benchmarks.pretrained.learning_curve --moves 4e8 --tuples 8x6 --restart 10 --seeds 1

With `--greedy 2000` the network plays 2,000 games at the end, without learning. A line is printed
every five million moves, and one JSON row per run is appended to the results.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from afterstate.agents.game2048.learning.ntuple_learner import Learner, Settings, evaluate
from afterstate.agents.game2048.play import Games
from afterstate.agents.game2048.values.ntuple import network
from benchmarks.machine import machine

RESULT = Path(__file__).parents[1] / "results" / "learning_curve.jsonl"


def run(
    tuples: str, settings: Settings, seed: int, n_moves: int, every: int, n_greedy: int
) -> dict[str, Any]:
    """Return the row of a run; a point has moves, games, mean of the last 1,000 games, CPU seconds.

    With `n_greedy` the network plays greedily at the end, without learning.
    """
    learner = Learner(network(tuples), settings, seed)
    scores: list[int] = []
    points = []
    start = time.process_time()
    while learner.n_moves < n_moves:
        games: Games = learner.play(min(every, n_moves - learner.n_moves))
        scores = (scores + games.scores.tolist())[-1_000:]
        point = {
            "moves": learner.n_moves,
            "games": learner.n_games,
            "mean_last_1000": float(np.mean(scores)),
            "cpu_seconds": round(time.process_time() - start, 2),
        }
        points.append(point)
        print(seed, point, flush=True)
    row = {"settings": vars(settings), "tuples": tuples, "seed": seed, "points": points}
    if n_greedy:
        row["greedy"] = evaluate(learner.network, {1: n_greedy})["1-ply"]
        print(seed, row["greedy"], flush=True)
    return row


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Measures how well the N-tuple player learns.")
    parser.add_argument("--moves", type=float, default=5e7)
    parser.add_argument("--every", type=float, default=5e6)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--greedy", type=int, default=0, help="games of greedy play at the end")
    parser.add_argument("--tuples", default="4x6")
    parser.add_argument("--rule", default="tc")
    parser.add_argument("--order", default="backward")
    parser.add_argument("--lam", type=float)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--restart", type=int)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    settings = Settings(
        options.rule, options.order, options.lam, options.rate, restart=options.restart
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        moves, every = int(options.moves), int(options.every)
        row = run(options.tuples, settings, seed, moves, every, options.greedy)
        with options.out.open("a") as file:
            file.write(json.dumps({**row, "machine": machine()}) + "\n")


if __name__ == "__main__":
    main()
