"""The page of an experiment: our values and the published ones, and whether orders agree."""

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
    """Two runs that the paper orders, and the order here."""

    measure: str
    share: float
    better: str
    worse: str
    agrees: bool | None  # None if one was not measured
    is_clear: bool  # whether our intervals are apart
    says: str  # where the paper orders them

    def verdict(self) -> str:
        """Return the verdict in words."""
        if self.agrees is None:
            return "not measured"
        word = "same" if self.agrees else "opposite"
        return f"{word}, significant" if self.is_clear else f"{word}, not significant"


def orders_of_values(
    measure: str,
    share: float,
    published: Mapping[str, Published],
    ours: Mapping[str, Estimate | None],
) -> list[Order]:
    """Return the pairs of runs whose published intervals do not overlap, with their order here.

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
            pairs = _agreement(ours.get(high), ours.get(low))
            result.append(Order(measure, share, high, low, *pairs, "intervals apart"))
    return result


def _agreement(better: Estimate | None, worse: Estimate | None) -> tuple[bool | None, bool]:
    """Return whether ours have the order of the paper, and whether their intervals are apart."""
    if better is None or worse is None:
        return None, False
    return better.mean > worse.mean, abs(
        better.mean - worse.mean
    ) > better.interval + worse.interval


def orders(experiment: Experiment, curves: Curves) -> list[Order]:
    """Return all pairs that the paper orders, by its values or in words about the end."""
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
            pairs = _agreement(*pair)
            result.append(Order(said.measure, 1, said.better, worse, *pairs, said.says))
    return result


def counts(pairs: Sequence[Order]) -> str:
    """Return how many orders agree, in one line."""
    measured = [order for order in pairs if order.agrees is not None]
    agree = [order for order in measured if order.agrees]
    clear = [order for order in measured if order.is_clear]
    clearly = sum(order.is_clear for order in agree)
    return (
        f"{len(agree)} of {len(measured)} pairs of runs that the paper orders have the same "
        f"order here; of the {len(clear)} pairs whose 95% intervals here do not overlap, "
        f"{clearly}. Pairs whose published intervals overlap are not counted, so a claim of no "
        "difference is not tested."
    )


def tables(experiment: Experiment, scale: Scale, curves: Curves, rows: Sequence[Row]) -> list[str]:
    """Return the setup, the table of values, the count of orders and the table of orders."""
    pairs = orders(experiment, curves)
    return [
        f"{_setup(experiment, scale, rows)}\n",
        _table(_cells(experiment, curves)) + "\n",
        f"{counts(pairs)}\n",
        _table(_order_cells(pairs)) + "\n",
    ]


def markdown(experiment: Experiment, parts: Sequence[str], picture: str) -> str:
    """Return the page of an experiment, with the parts of `tables` and the name of its picture."""
    setup, values, n_agree, order_table = parts
    page = [
        f"# {experiment.title}\n",
        f"{experiment.shows} of: {experiment.study}.\n",
        f"{experiment.measured}\n",
        setup,
        values,
        f"![{experiment.title}: our curves, and their ends with the paper's]({picture})\n",
        "## Orders\n",
        n_agree,
        order_table,
        "## Readings\n",
        *(f"- {reading}" for reading in experiment.readings),
    ]
    return "\n".join(page) + "\n"


def _setup(experiment: Experiment, scale: Scale, rows: Sequence[Row]) -> str:
    """Return the setup of our runs, and what the intervals are over."""
    n_seeds = len({row["seed"] for row in rows})
    games = ", ".join(
        f"{measure} {max(row[measure]['n_games'] for row in rows if measure in row):,}"
        for measure in DEPTHS
        if any(measure in row for row in rows)
    )
    length = experiment.length.get(scale.axis)
    whole = f", {scale.amount / length:.2g} of the paper's {short(length)}" if length else ""
    if scale.axis != experiment.axis:
        whole += f", where the paper compares after equal {experiment.axis}"
    over = "games of one run" if n_seeds == 1 else "runs, by Student's t"
    cpus = sorted({row["machine"]["cpu"] for row in rows if "machine" in row})
    return (
        f"Here: {scale} a run{whole}; repeats: {n_seeds}; games an evaluation: {games}; "
        f"{'; '.join(cpus)}. ± is the 95% interval over {over}; where the paper gives intervals "
        "they are over five runs, so the two cannot be compared. Our values are taken after the "
        "same share of the run as the published ones."
    )


def _cells(experiment: Experiment, curves: Curves) -> list[list[str]]:
    """Return the head and the rows of the table of values."""
    with_learned = any(a.learned is not None for run in experiment.runs for a in run.published)
    head = ["run", "in the paper", "of the run"]
    for measure in DEPTHS:
        head += [f"{measure}, here", "paper"]
    if with_learned:
        head += ["moves learned, here", "paper"]
    result = [head]
    for run in experiment.runs:
        for anchor in run.published or (Anchor(0, 1, {}, None),):
            result.append(_row_cells(run, anchor, curves, with_learned, experiment.axis))
    return result


def _row_cells(
    run: Run, anchor: Anchor, curves: Curves, with_learned: bool, axis: str
) -> list[str]:
    """Return the cells of a run after one share of it."""
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
    """Return the number of moves learned from and, if known, their share of those played."""
    if learned is None:
        return NOTHING
    return short(learned) + (f" ({100 * learned / played:.3g}%)" if played else "")


def _order_cells(pairs: Sequence[Order]) -> list[list[str]]:
    """Return the table of orders."""
    head = ["", "of the run", "higher", "lower", "in the paper", "here"]
    body = [
        [o.measure, f"{o.share:.1%}".replace(".0%", "%"), o.better, o.worse, o.says, o.verdict()]
        for o in pairs
    ]
    return [head, *body]


def _table(cells: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with columns of even width, which reads well as text too."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])
