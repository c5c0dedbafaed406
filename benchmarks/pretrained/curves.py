"""Learning curves of training runs, from `rows.jsonl` in their folders, against moves.

    python -m benchmarks.pretrained.curves runs/mine runs/other --out curves.png

One panel per quantity: mean scores by search depth with 95% intervals, the mean of the last
training games, the loss, and the accuracy of predicted moves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from afterstate.agents.config import settings
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.leaderboard.row_files import Row

TITLES = {
    "mean_score": "mean score of the last 1,000 training games",
    "loss": "loss",
    "accuracy": "accuracy of predicted moves",
    "rmse": "root mean squared error",
}

RENAMED = {"foreseen": "accuracy"}
"""Names in rows of earlier versions."""


def read(folder: Path) -> list[Row]:
    """Return the rows of a run.

    Raises:
        SystemExit: the run has none.
    """
    path = folder / "rows.jsonl"
    rows = [{RENAMED.get(name, name): row[name] for name in row} for row in json_files.rows(path)]
    if not rows:
        raise SystemExit(f"{path} has no rows: let a run evaluate itself first")
    return rows


def panels(runs: dict[str, list[Row]]) -> list[str]:
    """Return the quantities that a row of any run has, in the order of a row."""
    names = [
        name for rows in runs.values() for row in rows for name in row if row[name] is not None
    ]
    return [name for name in dict.fromkeys(names) if name in TITLES or name.endswith("-ply")]


def points(rows: Sequence[Row], name: str) -> Iterator[tuple[float, float, float]]:
    """Yield moves, value and half of the interval, for the rows that have the quantity."""
    for row in rows:
        value = row.get(name)
        if isinstance(value, dict):
            yield row["n_moves"], value["mean"], value["interval"] or 0
        elif value is not None:
            yield row["n_moves"], value, 0


def draw(runs: dict[str, list[Row]], out: Path) -> None:
    """Draw the panels to a file."""
    names = panels(runs)
    figure, axes = plt.subplots(
        1, len(names), figsize=(4.6 * len(names), 3.6), layout="constrained", squeeze=False
    )
    for panel, name in zip(axes[0], names, strict=True):
        for run, rows in runs.items():
            if drawn := list(points(rows, name)):
                moves, values, errors = zip(*drawn, strict=True)
                panel.errorbar(moves, values, errors, marker="o", markersize=3, label=run)
        panel.set_title(TITLES.get(name, f"mean score, {name} play"), fontsize=10)
        panel.set_xlabel("moves learned from")
        panel.grid(alpha=0.3)
    axes[0, 0].legend()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    plt.close(figure)


@settings
class Args:
    """Draw the curves of training runs."""

    runs: tuple[Path, ...]
    """Folders of runs."""
    out: Path = Path("curves.png")
    """Picture to write."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.pretrained.curves", arguments)
    if not args.runs:
        raise SystemExit("error: runs must be at least one folder")
    draw({folder.name: read(folder) for folder in args.runs}, args.out)
    print(f"written: {args.out}")


if __name__ == "__main__":
    sys.exit(run_process(main))
