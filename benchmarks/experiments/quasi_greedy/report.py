"""The table of an experiment: our values beside the published ones, and whether orders agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from benchmarks.experiments.quasi_greedy.playing import Row
from benchmarks.experiments.quasi_greedy.rows import Curves, Estimate, at
from benchmarks.experiments.quasi_greedy.settings import (
    DEPTHS,
    Anchor,
    Experiment,
    Published,
    Run,
    Scale,
    short,
)

NOTHING = "-"


class Order(NamedTuple):
    """Two runs that the study orders, and how ours stand."""

    measure: str
    share: float
    better: str
    worse: str
    agrees: bool | None  # None if one was not measured
    is_clear: bool  # whether our intervals are apart
    says: str  # where the study orders them

    def verdict(self) -> str:
        """Whether ours agree, in words."""
        if self.agrees is None:
            return "not measured"
        found = "agrees" if self.agrees else "opposite"
        return f"{found}, clearly" if self.is_clear else found


def orders_of_values(
    measure: str,
    share: float,
    published: Mapping[str, Published],
    ours: Mapping[str, Estimate | None],
) -> list[Order]:
    """The pairs of runs whose published values are apart, with what ours say of them.

    Args:
        measure: the way to play.
        share: of the run, at which all values are.
        published: by run.
        ours: by run; None or missing if it was not measured.
    """
    result = []
    for one, other in combinations(published, 2):
        low, high = sorted((one, other), key=lambda run: published[run].low)
        if published[low].high < published[high].low:
            found = _agreement(ours.get(high), ours.get(low))
            result.append(Order(measure, share, high, low, *found, "values apart"))
    return result


def _agreement(better: Estimate | None, worse: Estimate | None) -> tuple[bool | None, bool]:
    """Whether ours have the order of the study, and whether their intervals are apart."""
    if better is None or worse is None:
        return None, False
    return better.mean > worse.mean, abs(
        better.mean - worse.mean
    ) > better.interval + worse.interval


def orders(experiment: Experiment, curves: Curves) -> list[Order]:
    """All pairs that the study orders: by its values, or in words, which are of the end."""
    result = []
    places = {anchor.share for run in experiment.runs for anchor in run.published}
    for share in sorted(places):
        for measure in DEPTHS:
            published = {
                run.name: anchor.values[measure]
                for run in experiment.runs
                for anchor in run.published
                if anchor.share == share and measure in anchor.values
            }
            ours = {name: at(points, share, measure) for name, points in curves.items()}
            result += orders_of_values(measure, share, published, ours)
    for said in experiment.orders:
        for worse in said.worse:
            pair = (at(curves.get(run, []), 1, said.measure) for run in (said.better, worse))
            found = _agreement(*pair)
            result.append(Order(said.measure, 1, said.better, worse, *found, said.says))
    return result


def counts(found: Sequence[Order]) -> str:
    """How many orders agree, in one line."""
    measured = [order for order in found if order.agrees is not None]
    agree = [order for order in measured if order.agrees]
    clear = [order for order in measured if order.is_clear]
    clearly = sum(order.is_clear for order in agree)
    return (
        f"{len(agree)} of {len(measured)} pairs of runs that the study orders have that order "
        f"here; of the {len(clear)} whose 95% intervals here are apart, {clearly}."
    )


def tables(experiment: Experiment, scale: Scale, curves: Curves, rows: Sequence[Row]) -> list[str]:
    """What was found: how, the table of values, how many orders agree, the table of orders."""
    found = orders(experiment, curves)
    return [
        f"{_how(experiment, scale, rows)}\n",
        _table(_cells(experiment, curves)) + "\n",
        f"{counts(found)}\n",
        _table(_order_cells(found)) + "\n",
    ]


def markdown(experiment: Experiment, found: Sequence[str], picture: str) -> str:
    """The report of an experiment, with what `tables` found and the name of its picture."""
    how, values, n_agree, orders_found = found
    parts = [
        f"# {experiment.title}\n",
        f"{experiment.shows} of: {experiment.study}.\n",
        f"{experiment.measured}\n",
        how,
        values,
        f"![{experiment.title}: our curves, and their ends beside the study's]({picture})\n",
        "## Orders\n",
        n_agree,
        orders_found,
        "## Readings\n",
        *(f"- {reading}" for reading in experiment.readings),
    ]
    return "\n".join(parts) + "\n"


def _how(experiment: Experiment, scale: Scale, rows: Sequence[Row]) -> str:
    """What ours were measured with, and what the intervals are."""
    n_seeds = len({row["seed"] for row in rows})
    games = ", ".join(
        f"{measure} {max(row[measure]['n_games'] for row in rows if measure in row):,}"
        for measure in DEPTHS
        if any(measure in row for row in rows)
    )
    length = experiment.length.get(scale.axis)
    whole = f", {scale.amount / length:.2g} of the study's {short(length)}" if length else ""
    if scale.axis != experiment.axis:
        whole += f", where the study compares after equal {experiment.axis}"
    over = "games" if n_seeds == 1 else "repeats, by Student's t"
    cpus = sorted({row["machine"]["cpu"] for row in rows if "machine" in row})
    return (
        f"Here: {scale} a run{whole}; repeats: {n_seeds}; games an evaluation: {games}; "
        f"{'; '.join(cpus)}. ± is the 95% interval over {over}. A value is taken after the same "
        f"share of the run as the published one beside it."
    )


def _cells(experiment: Experiment, curves: Curves) -> list[list[str]]:
    """The table's head and its rows."""
    with_learned = any(a.learned is not None for run in experiment.runs for a in run.published)
    head = ["run", "in the study", "of the run"]
    for measure in DEPTHS:
        head += [f"{measure}, here", "study"]
    if with_learned:
        head += ["moves learned, here", "study"]
    result = [head]
    for run in experiment.runs:
        for anchor in run.published or (Anchor(0, 1, {}, None),):
            result.append(_row_cells(run, anchor, curves, with_learned, experiment.axis))
    return result


def _row_cells(
    run: Run, anchor: Anchor, curves: Curves, with_learned: bool, axis: str
) -> list[str]:
    """The cells of a run at one place."""
    points = [point for point in curves.get(run.name, []) if point.share == anchor.share]
    cells = [run.name, run.label, f"{anchor.share:.1%}".replace(".0%", "%")]
    for measure in DEPTHS:
        pair = (at(points, anchor.share, measure), anchor.values.get(measure))
        cells += [NOTHING if value is None else str(value) for value in pair]
    if with_learned:
        is_part = axis == "moves"
        ours = points[0] if points else None
        cells += [
            _learned(ours.learned, is_part and ours.moves) if ours else NOTHING,
            _learned(anchor.learned, is_part and anchor.at),
        ]
    return cells


def _learned(learned: float | None, played: float) -> str:
    """How many moves were learned from, and if it is known their share of those played."""
    if learned is None:
        return NOTHING
    return short(learned) + (f" ({100 * learned / played:.3g}%)" if played else "")


def _order_cells(found: Sequence[Order]) -> list[list[str]]:
    """The table of orders."""
    head = ["", "of the run", "higher", "lower", "the study", "here"]
    body = [
        [o.measure, f"{o.share:.1%}".replace(".0%", "%"), o.better, o.worse, o.says, o.verdict()]
        for o in found
    ]
    return [head, *body]


def _table(cells: Sequence[Sequence[str]]) -> str:
    """A table in markdown, in columns of even width so that it reads well as text too."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])
