"""What the stable-baselines3 examples have learned of 2048, beside the table player.

    python examples/sb3_2048.py maskable-ppo
    python benchmarks/sb3_baselines.py --runs runs/sb3

Reads the evaluations of all runs in the folder, lets an N-tuple network learn for as many moves,
and writes the rows, a figure and a table to `benchmarks/results/sb3`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fresh_kernels  # noqa: F401 - first of all that uses numba
import matplotlib
import numpy as np
from row_files import Row

from afterstate.agents.game2048.inside import markdown
from afterstate.agents.game2048.learning import Learner
from afterstate.agents.game2048.ntuple import NTupleAgent
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.runs import EVALUATION_SEED, summary

matplotlib.use("Agg")
from matplotlib import pyplot as plt

RESULTS = Path(__file__).parent / "results" / "sb3"
TABLE = "N-tuple network, TC"
N_POINTS, N_GAMES = 25, 100
"""Of the table player's curve, and of each of its points."""

ABOUT = """# stable-baselines3 on 2048, and the table player after as many moves

Mean scores of the evaluations while the algorithms of `examples/sb3_2048.py` learn, with 95 %
intervals over games; the table player plays greedily. MaskablePPO takes the best legal action; the
others draw theirs, and may lose turns by illegal ones. `python benchmarks/sb3_baselines.py` says
how to repeat this.
"""


def evaluations(folder: Path) -> Iterator[Row]:
    """The rows of a run: one an evaluation."""
    with np.load(folder / "evaluations.npz") as told:
        for moves, scores in zip(told["timesteps"], told["results"], strict=True):
            spread = 1.96 * float(scores.std(ddof=1)) / len(scores) ** 0.5
            yield {
                "player": folder.name,
                "moves": int(moves),
                "mean": round(float(scores.mean()), 1),
                "interval": round(spread, 1),
                "games": len(scores),
            }


def table_rows(n_moves: int) -> Iterator[Row]:
    """The rows of an N-tuple network that learns for so many moves."""
    learner = Learner(seed=1)
    for point in range(1, N_POINTS + 1):
        learner.play(max(1, n_moves * point // N_POINTS - learner.n_moves))
        found = summary(play(NTupleAgent(learner.network), N_GAMES, seed=EVALUATION_SEED))
        told = {"mean": found["mean"], "interval": found["interval"], "games": N_GAMES}
        yield {"player": TABLE, "moves": learner.n_moves, **told}


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draws scores against moves, with their intervals as bands."""
    with plt.rc_context({"svg.hashsalt": "afterstate"}):
        figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
        for player in dict.fromkeys(row["player"] for row in rows):
            of = [row for row in rows if row["player"] == player]
            moves, means, spreads = (
                np.array([row[name] for row in of]) for name in ("moves", "mean", "interval")
            )
            axes.plot(moves, means, label=player)
            axes.fill_between(moves, means - spreads, means + spreads, alpha=0.2)
        axes.set(xlabel="moves", ylabel="mean score", yscale="log")
        axes.grid(alpha=0.3)
        axes.legend()
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


def ends(rows: Sequence[Row]) -> str:
    """What each player came to, as a table."""
    last = {row["player"]: row for row in rows}
    body: list[list[Any]] = []
    for player, row in sorted(last.items(), key=lambda pair: -pair[1]["mean"]):
        reached = f"{row['mean']:,.0f} ± {row['interval']:,.0f}"
        body.append([player, f"{row['moves']:,}", reached, f"{row['games']}"])
    return markdown(["player", "moves", "mean score", "games"], body)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Collects what stable-baselines3 has learned.")
    parser.add_argument("--runs", type=Path, default=Path("runs/sb3"), help="(%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="(%(default)s)")
    chosen = parser.parse_args(arguments)
    folders = sorted(path.parent for path in chosen.runs.glob("*/evaluations.npz"))
    if not folders:
        raise SystemExit(f"{chosen.runs} has no evaluations: run examples/sb3_2048.py first")
    rows = [row for folder in folders for row in evaluations(folder)]
    rows += table_rows(max(row["moves"] for row in rows))
    chosen.out.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (chosen.out / "curves.jsonl").write_text(text, encoding="utf-8")
    draw(rows, chosen.out / "curves.svg")
    found = "\n".join([ABOUT, ends(rows), "", "![](curves.svg)"])
    (chosen.out / "README.md").write_text(found + "\n", encoding="utf-8")
    print(ends(rows))


if __name__ == "__main__":
    main()
