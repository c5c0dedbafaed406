"""Learning curves of training runs, from `rows.jsonl` in their folders, against moves.

    python -m benchmarks.pretrained.curves runs/mine runs/other --out curves.png

One panel per quantity: mean scores by search depth with 95% intervals, the mean of the last
training games, the loss, and the accuracy of predicted moves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from afterstate.agents.config import settings
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.json_files import Row
from afterstate.leaderboard import figures

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
        ValueError: the run has none.
    """
    path = folder / "rows.jsonl"
    rows = [{RENAMED.get(name, name): row[name] for name in row} for row in json_files.rows(path)]
    if not rows:
        raise ValueError(f"{path} has no rows: let a run evaluate itself first")
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
    """Draw the panels of all quantities to a file."""
    names = panels(runs)
    size = (4.6 * len(names) + 2.5, max(3.6, 0.24 * len(runs)))
    figure, axes = plt.subplots(1, len(names), figsize=size, layout="constrained", squeeze=False)
    lines: dict[str, Any] = {}
    for panel, name in zip(axes[0], names, strict=True):
        for i, (run, rows) in enumerate(runs.items()):
            if drawn := list(points(rows, name)):
                style = {"color": f"C{i % 10}", "marker": "osv^D"[i // 10 % 5], "markersize": 3}
                lines[run] = panel.errorbar(*zip(*drawn, strict=True), **style)
        panel.set_title(TITLES.get(name, f"mean score, {name} play"), fontsize=10)
        panel.set_xlabel("moves learned from")
        panel.grid(alpha=0.3)
    figure.legend(lines.values(), lines, loc="outside right upper", fontsize="small")
    out.parent.mkdir(parents=True, exist_ok=True)
    figures.save(figure, out)


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
        raise ValueError("runs must be at least one folder, got none")
    draw({folder.name: read(folder) for folder in args.runs}, args.out)
    print(f"written: {args.out}")


if __name__ == "__main__":
    sys.exit(run_process(main))
