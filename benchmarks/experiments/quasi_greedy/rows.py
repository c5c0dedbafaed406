"""The file of an experiment's rows, and what its runs reached: means with their intervals."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.experiments.quasi_greedy.playing import Plan, Row, key
from benchmarks.experiments.quasi_greedy.settings import DEPTHS, Experiment, Run, Scale

_KEY = ("experiment", "run", "settings", "seed", "scale")
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


class Estimate(NamedTuple):
    """A mean with its 95% interval, not a number if it is not known."""

    mean: float
    interval: float

    def __str__(self) -> str:
        spread = "" if math.isnan(self.interval) else f" ± {self.interval:,.0f}"
        return f"{self.mean:,.0f}{spread}"


class Point(NamedTuple):
    """What a run reached after a share of its length, over all its repeats."""

    share: float
    moves: float  # means
    seconds: float
    learned: float
    values: dict[str, Estimate]  # by the way to play
    repeats: dict[str, list[float]]  # the mean of each repeat, by the way to play


Curves = dict[str, list[Point]]
"""The points of each run that has any, ascending."""


def read(path: Path) -> list[Row]:
    """The rows of a file, none if it is not there."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(ValueError):  # a line that was cut off
            rows.append(json.loads(line))
    return rows


def add(path: Path, rows: list[Row]) -> None:
    """Appends the rows of one run to a file; they replace those of the same run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = read(path)
    kept = [row for row in before if not _same(row, rows[0])]
    if len(kept) < len(before) or not _ends_with_a_line(path):
        beside = path.with_suffix(".part")
        beside.write_text(_lines(kept), encoding="utf-8")
        os.replace(beside, path)
    with path.open("a", encoding="utf-8") as file:
        file.write(_lines(rows))


def _same(row: Row, other: Row) -> bool:
    """Whether two rows are of one run."""
    return all(row[name] == other[name] for name in _KEY)


def _ends_with_a_line(path: Path) -> bool:
    """Whether a file can be appended to."""
    return not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")


def _lines(rows: list[Row]) -> str:
    """The rows as text."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def is_finished(rows: list[Row], experiment: Experiment, run: Run, seed: int, plan: Plan) -> bool:
    """Whether a run has all evaluations that are asked for, each with enough games."""
    name = key(experiment, run, seed, plan.scale)
    found = {row["share"]: row for row in rows if _same(row, name)}
    return all(
        found.get(share, {}).get(measure, {"n_games": 0})["n_games"] >= n_games
        for share in plan.shares
        for measure, n_games in plan.asked(share).items()
    )


def latest_scale(rows: list[Row]) -> Scale | None:
    """The scale of the last run in a file, None if there is none."""
    return Scale(*next(iter(rows[-1]["scale"].items()))) if rows else None


def of_scale(rows: list[Row], experiment: Experiment, scale: Scale) -> list[Row]:
    """The rows of all repeats of a scale, of runs with the settings that they have now."""
    names = [key(experiment, run, 0, scale) for run in experiment.runs]
    return [row for row in rows if any(_same({**row, "seed": 0}, name) for name in names)]


def curves(rows: list[Row], experiment: Experiment, scale: Scale) -> Curves:
    """What the runs of a scale reached."""
    result: Curves = {}
    for run in experiment.runs:
        mine = [row for row in of_scale(rows, experiment, scale) if row["run"] == run.name]
        shares = sorted({row["share"] for row in mine})
        if shares:
            result[run.name] = [_point([r for r in mine if r["share"] == s]) for s in shares]
    return result


def at(points: Iterable[Point], share: float, measure: str) -> Estimate | None:
    """What a run reached after a share of its length, None if that was not measured."""
    found = (point.values.get(measure) for point in points if point.share == share)
    return next(found, None)


def _point(repeats: list[Row]) -> Point:
    """The point of the rows of all repeats."""
    values, means = {}, {}
    for measure in DEPTHS:
        found = [row[measure] for row in repeats if measure in row]
        if found:
            means[measure] = [float(games["mean"]) for games in found]
            interval = found[0]["interval"]
            alone = Estimate(means[measure][0], math.nan if interval is None else interval)
            values[measure] = estimate(means[measure]) if len(found) > 1 else alone
    moves, seconds, learned = (
        float(np.mean([row[name] for row in repeats])) for name in ("moves", "seconds", "learned")
    )
    return Point(repeats[0]["share"], moves, seconds, learned, values, means)


def estimate(values: list[float]) -> Estimate:
    """The mean of repeats, with its interval by Student's t."""
    n = len(values)
    if n < 2:
        return Estimate(float(np.mean(values)), math.nan)
    spread = float(np.std(values, ddof=1)) / n**0.5
    return Estimate(float(np.mean(values)), quantile(n - 1) * spread)


def quantile(freedom: int) -> float:
    """The 97.5% quantile of Student's t, to two decimals.

    >>> round(quantile(1), 2), round(quantile(12), 2), round(quantile(1000), 2)
    (12.71, 2.18, 1.96)
    """
    return _T[freedom - 1] if freedom <= len(_T) else 1.96 + 2.372 / freedom + 2.82 / freedom**2
