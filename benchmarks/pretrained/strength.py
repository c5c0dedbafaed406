"""Strength of the N-tuple players of 2048 against moves learned and against time per move.

    python -m benchmarks.pretrained.strength

Draws `benchmarks/results/ntuple_network/strength.svg` from the rows of the runs that the package's
network is made of and from the leaderboard, with published results, and prints the slope of the
greedy score per tenfold number of moves. Times are those of `benchmarks.pretrained.regrets`, which
measures all searches on one machine; games of the leaderboard were played on several.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib import pyplot as plt
from scipy.stats import linregress, t

from afterstate.agents.config import settings
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.json_files import Row
from afterstate.leaderboard.figures import save

RESULTS = Path(__file__).parents[1] / "results"

BASE, EARLY, JOINED = 4e9, 1e9, 14e9
"""Moves before `late`, which begins with the weights of `base`, before `early_end`, which begins
with those of `early`, and before the network that is joined of `late` and `early_end`."""

CHANGED = 7.85e9
"""Moves after which `late_end` goes on with `late`, without restart and at a smaller rate."""

SEARCHES = {
    "N-tuple network": "depth=1",
    "expectimax, 2-ply": "depth=2",
    "expectimax, 3-ply": "depth=3",
    "expectimax, 4-ply": "depth=4",
    "expectimax, 500 nodes": "nodes=500",
    "expectimax, 7-ply, cutoff 0.001": "depth=7,cutoff=1e-3",
}
"""Players of the leaderboard, and their searches in the rows of regrets."""

LEARNED = [(4e10, 324_710)]
"""Greedy scores of Jaskowski (2018) by moves learned."""

PLAYED = [(1e-3, 527_099), (0.05, 576_655), (1.0, 609_104)]
"""Scores of Jaskowski (2018) by seconds per move."""

OPTIMISTIC = {"Guei et al. 2021, 2e8 games": 412_785}
"""Greedy scores that were published without the number of moves."""

SEARCHED = {
    "Guei et al. 2021, 3-ply": 563_316,
    "Guei et al. 2021, 6-ply": 625_377,
    "macroxue, 8-ply": 711_769,
    "2048EndgameTablebase": 772_353,
}
"""Scores of searches that were published without the time per move."""


class Point(NamedTuple):
    """A mean score with half of its 95% interval."""

    x: float
    score: float
    half_interval: float


def greedy_scores(name: str, before: float = 0) -> list[Point]:
    """Return the greedy scores of a run by moves learned, with those `before` the run."""
    rows = json_files.rows(RESULTS / "ntuple_network" / f"{name}.jsonl")
    greedy = [(before + row["n_moves"], row["1-ply"]) for row in rows]
    return [Point(moves, each["mean"], each["interval"]) for moves, each in greedy]


def measured_searches(rows: Sequence[Row]) -> Row:
    """Return the last row of regrets in whole games that has all searches of the leaderboard.

    Raises:
        ValueError: there is none.
    """
    for row in reversed(rows):
        searches = {line["search"] for line in row["lines"]}
        if not row.get("last") and searches.issuperset(SEARCHES.values()):
            return row
    needed = " ".join(SEARCHES.values())
    raise ValueError(f"rows must have one of python -m benchmarks.pretrained.regrets {needed}")


def player_scores(*players: str) -> list[Point]:
    """Return the scores of players of the leaderboard by seconds per move, in ascending order."""
    measured = measured_searches(json_files.rows(RESULTS / "search_regrets.jsonl"))
    seconds = {line["search"]: line["us"] / 1e6 for line in measured["lines"]}
    with (RESULTS / "leaderboard" / "2048.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["player"] in players]
    points = [
        Point(
            seconds[SEARCHES[row["player"]]],
            float(row["mean"]),
            (float(row["high"]) - float(row["low"])) / 2,
        )
        for row in rows
    ]
    return sorted(points)


def slope(points: list[Point]) -> tuple[float, float]:
    """Return the gain in score by ten times as many moves, with half of its 95% interval."""
    line = linregress([math.log10(each.x) for each in points], [each.score for each in points])
    return float(line.slope), float(t.ppf(0.975, len(points) - 2) * line.stderr)


def _curve(axis: Any, points: list[Point], label: str) -> None:
    """Draw points with their intervals."""
    x, score, half_interval = zip(*points, strict=True)
    axis.errorbar(x, score, half_interval, marker=".", capsize=2, label=label)


def draw(runs: dict[str, list[Point]], path: Path) -> None:
    """Draw both curves."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.5), layout="constrained")
    for name, points in runs.items():
        _curve(left, points, name)
    plies = [f"expectimax, {depth}-ply" for depth in (2, 3, 4)]
    _curve(right, player_scores("N-tuple network", *plies), "package, 1-ply to 4-ply")
    _curve(right, player_scores("expectimax, 500 nodes"), "package, 500 nodes")
    _curve(right, player_scores("expectimax, 7-ply, cutoff 0.001"), "package, 7-ply, cutoff 0.001")
    for axis, published, levels in ((left, LEARNED, OPTIMISTIC), (right, PLAYED, SEARCHED)):
        axis.plot(*zip(*published, strict=True), "k^", label="Jaśkowski 2018")
        for (name, score), line in zip(levels.items(), (":", "--", "-.", "-"), strict=False):
            axis.axhline(score, color="grey", linewidth=1, linestyle=line, label=name)
        axis.set_xscale("log")
        axis.yaxis.set_major_formatter("{x:,.0f}")
        axis.grid(alpha=0.3)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncol=2, fontsize="small")
    left.set(xlabel="moves learned", ylabel="mean score", title="greedy play")
    right.set(xlabel="seconds per move (ours: a busy Intel Xeon)", title="search")
    save(figure, path)


@settings
class Args:
    """Draw the strength of the N-tuple players and print slopes."""

    out: Path = RESULTS / "ntuple_network" / "strength.svg"
    """Figure to write."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.pretrained.strength", arguments)
    base, late = greedy_scores("base"), greedy_scores("late", before=BASE)
    runs = {
        "first network": base + late,
        "second network": greedy_scores("early_end", before=EARLY),
        "joined": greedy_scores("joined", before=JOINED),
    }
    draw(runs, args.out)
    parts = {
        "first network": base + late,
        "its first 4e9 moves": base,
        "from there to 7.8e9": [each for each in late if each.x < CHANGED],
        "from 7.8e9 on": [each for each in late if each.x > CHANGED],
    }
    for name, points in parts.items():
        gain, half = slope(points)
        print(f"{name}: {gain:,.0f} ± {half:,.0f} points for ten times as many moves")


if __name__ == "__main__":
    sys.exit(run_process(main))
