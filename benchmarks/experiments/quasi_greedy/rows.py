"""Rows of an experiment, and the results of its runs: means with their intervals."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from afterstate.envs import json_files
from afterstate.envs.json_files import Row
from benchmarks.experiments.entries import score
from benchmarks.experiments.harness import WAIT, Estimate, over_runs, rows_lock
from benchmarks.experiments.quasi_greedy.playing import Plan, key
from benchmarks.experiments.quasi_greedy.settings import DEPTHS, Experiment, Run, Scale

_KEY = ("experiment", "run", "settings", "seed", "scale")


class Point(NamedTuple):
    """Results of a run after a share of its length, over all its repeats."""

    share: float
    moves: float  # means
    seconds: float
    learned: float
    scores: dict[str, Estimate]  # by the way to play
    repeats: dict[str, list[float]]  # the mean score of each repeat, by the way to play


Curves = dict[str, list[Point]]
"""The points of each run that has any, in ascending order."""


def add(path: Path, rows: list[Row]) -> None:
    """Add the rows of one run to a file, in place of earlier rows of that run."""
    with rows_lock(path, WAIT):
        others = [row for row in json_files.rows(path) if not _same_run(row, rows[0])]
        json_files.write_rows(path, [*others, *rows])


def _same_run(row: Row, other: Row) -> bool:
    """Return True if two rows are of one run."""
    return all(row[name] == other[name] for name in _KEY)


def is_finished(rows: list[Row], experiment: Experiment, run: Run, seed: int, plan: Plan) -> bool:
    """Return True if a run has all evaluations of the plan, with enough games, or has diverged."""
    of_run = key(experiment, run, seed, plan.scale)
    by_share = {row["share"]: row for row in rows if _same_run(row, of_run)}
    if any("diverged" in row for row in by_share.values()):
        return True
    return all(
        by_share.get(share, {}).get(measure, {"n_games": 0})["n_games"] >= n_games
        for share in plan.shares
        for measure, n_games in plan.games_at(share).items()
    )


def has_more_games(
    rows: list[Row], experiment: Experiment, run: Run, seed: int, plan: Plan
) -> bool:
    """Return True if a row of a run has more games than the plan, which would replace it."""
    of_run = key(experiment, run, seed, plan.scale)
    own = [row for row in rows if _same_run(row, of_run)]
    return any(
        row[measure]["n_games"] > plan.games_at(row["share"]).get(measure, 0)
        for row in own
        for measure in DEPTHS
        if measure in row
    )


def largest_scale(rows: list[Row], experiment: Experiment) -> Scale | None:
    """Return the largest scale of runs on the paper's axis, or else on another; None without runs.

    Runs with other settings than the experiment's do not count.
    """
    scales = {Scale(*item) for row in rows for item in row["scale"].items()}
    played = [scale for scale in scales if of_scale(rows, experiment, scale)]
    return max(played, key=lambda each: (each.axis == experiment.axis, each.amount), default=None)


def of_scale(rows: list[Row], experiment: Experiment, scale: Scale) -> list[Row]:
    """Return the rows of a scale, of all seeds, whose runs still have the same settings."""
    keys = [key(experiment, run, 0, scale) for run in experiment.runs]
    return [row for row in rows if any(_same_run({**row, "seed": 0}, each) for each in keys)]


def curves(rows: list[Row], experiment: Experiment, scale: Scale) -> Curves:
    """Return the results of the runs of a scale."""
    used = of_scale(rows, experiment, scale)
    names = {row["run"] for row in used}
    result: Curves = {run.name: [] for run in experiment.runs if run.name in names}
    if used:
        for (run, share), repeats in pd.DataFrame(used).groupby(["run", "share"]):
            result[run].append(_point(share, repeats))
    return result


def _point(share: float, repeats: pd.DataFrame) -> Point:
    """Return the point of the rows of all repeats."""
    scores: dict[str, Estimate] = {}
    means: dict[str, list[float]] = {}
    for measure in DEPTHS:
        games = repeats[measure].dropna().tolist() if measure in repeats else []
        if games:
            means[measure] = [float(each["mean"]) for each in games]
            scores[measure] = over_runs([score(each) for each in games])
    moves, seconds, learned = repeats[["moves", "seconds", "learned"]].mean()
    return Point(share, moves, seconds, learned, scores, means)


def at(points: Iterable[Point], share: float, measure: str) -> Estimate | None:
    """Return the mean score after a share of the run, None if it was not measured."""
    return next((point.scores.get(measure) for point in points if point.share == share), None)
