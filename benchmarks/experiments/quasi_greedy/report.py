"""The page of an experiment: our scores and the published ones, and the order of runs in both."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from afterstate.envs.json_files import Row
from afterstate.text_tables import markdown
from benchmarks.experiments.harness import Estimate, difference, over_runs, processors
from benchmarks.experiments.quasi_greedy.playing import POINTS, default_search_shares
from benchmarks.experiments.quasi_greedy.rows import Curves, Point, at
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
PAPER_RUNS = 5
"""Runs that an interval of the paper is over."""


class Order(NamedTuple):
    """Two runs that the paper orders, or whose difference it calls none, with our scores."""

    measure: str
    share: float
    better: str
    worse: str
    says: str  # the paper's reason
    scores: tuple[Estimate | None, Estimate | None]  # of the better and the worse run, here
    differs: bool = True  # whether the paper says that one is better
    spread: float = math.nan  # half of the difference's interval by the paper's spread of runs

    @property
    def agrees(self) -> bool | None:
        """True if our runs have the same order, or do not differ significantly either.

        None if one of them was not measured, or their difference has no interval to tell.
        """
        better, worse = self.scores
        if better is None or worse is None:
            return None
        if self.differs:
            return better.mean > worse.mean
        return None if self.is_significant is None else not self.is_significant

    @property
    def gap(self) -> float:
        """Our score of the better run minus that of the worse one; nan if one was not measured."""
        better, worse = self.scores
        return math.nan if better is None or worse is None else better.mean - worse.mean

    @property
    def is_significant(self) -> bool | None:
        """True if the 95% interval of our difference is on one side of zero.

        None if one of them was not measured, or their difference has no interval.
        """
        better, worse = self.scores
        if better is None or worse is None:
            return None
        apart = difference(better, worse)
        return None if math.isnan(apart.half_interval) else abs(apart.mean) > apart.half_interval

    def verdict(self) -> str:
        """Return the verdict in words."""
        if None in self.scores:
            return "not measured"
        words = {None: "no interval", True: "significant", False: "not significant"}
        if self.differs:
            order = "same" if self.agrees else "opposite"
            return f"{order}, {words[self.is_significant]}"
        words |= {True: "a significant difference", False: "no significant difference"}
        return words[self.is_significant]


def orders_of_scores(
    measure: str,
    share: float,
    published: Mapping[str, Published],
    ours: Mapping[str, Estimate | None],
) -> Iterator[Order]:
    """Yield the pairs of runs that the paper's means or bounds compare.

    Published means are compared by Welch's interval of their difference, bounds by being apart.

    Args:
        measure: the way to play.
        share: the share of the run after which all scores were measured.
        published: published scores by run.
        ours: our scores by run; None or missing if a run was not measured.
    """
    for pair in combinations(published, 2):
        low, high = sorted(pair, key=lambda run: published[run].middle)
        scores = ours.get(high), ours.get(low)
        apart = _difference(published[high], published[low])
        if apart is not None:
            differs = apart.mean > apart.half_interval
            says = f"{'a' if differs else 'no'} significant difference"
            spread = _spread((published[high], published[low]), scores)
            yield Order(measure, share, high, low, says, scores, differs, spread)
        elif published[low].high < published[high].low:
            yield Order(measure, share, high, low, "bounds apart", scores)


def _spread(published: Iterable[Published], ours: tuple[Estimate | None, Estimate | None]) -> float:
    """Return half of the 95% interval of our difference by the paper's spread of runs.

    Runs have the standard deviation of the paper's, relative to their mean, which is known from
    five runs. It is nan if a run was not measured.
    """
    measured = [each for each in ours if each is not None]
    if len(measured) < 2:
        return math.nan
    by_spread = [
        Estimate(
            each.mean,
            each.mean * paper.half_interval / paper.middle * math.sqrt(PAPER_RUNS / each.runs),
            PAPER_RUNS,
        )
        for each, paper in zip(measured, published, strict=True)
    ]
    return difference(*by_spread).half_interval


def _difference(one: Published, other: Published) -> Estimate | None:
    """Return the difference of two published means; None unless both have an interval."""
    if not (one.half_interval and other.half_interval):
        return None
    means = (Estimate(each.middle, each.half_interval, PAPER_RUNS) for each in (one, other))
    return difference(*means)


def orders(experiment: Experiment, curves: Curves) -> list[Order]:
    """Return all pairs that the paper compares, by its scores or in words about the end of runs."""
    result: list[Order] = []
    anchors = [(run, anchor) for run in experiment.runs for anchor in run.published]
    for share in sorted({experiment.share(anchor) for _, anchor in anchors}):
        for measure in DEPTHS:
            published = {
                run.name: anchor.scores[measure]
                for run, anchor in anchors
                if experiment.share(anchor) == share and measure in anchor.scores
            }
            ours = {name: at(points, share, measure) for name, points in curves.items()}
            result += orders_of_scores(measure, share, published, ours)
    for claim in experiment.claims:
        for worse in claim.worse:
            ours = {run: at(curves.get(run, []), 1, claim.measure) for run in (claim.better, worse)}
            scores = ours[claim.better], ours[worse]
            result.append(Order(claim.measure, 1, claim.better, worse, claim.says, scores))
    return result


def counts(pairs: Sequence[Order]) -> str:
    """Return the number of pairs that agree at the end of the runs, in one line."""
    pairs = [order for order in pairs if order.share == 1]
    measured = [order for order in pairs if order.agrees is not None and order.differs]
    significant = [order for order in measured if order.is_significant]
    equal = [order for order in pairs if order.agrees is not None and not order.differs]
    text = (
        f"At the end, {_n_agree(measured)} of {len(measured)} pairs of runs that the paper orders "
        f"have the same order here. {len(significant)} of them differ significantly here, "
        f"{_n_agree(significant)} in the paper's order."
    )
    if equal:
        text += (
            f" Of {len(equal)} pairs without a significant difference in the paper, "
            f"{_n_agree(equal)} have none here."
        )
    return text + _counts_by_spread(pairs)


def _counts_by_spread(pairs: Iterable[Order]) -> str:
    """Return the numbers of pairs that differ by more than the paper's spread of runs, as text."""
    known = [order for order in pairs if not math.isnan(order.spread)]
    if not known:
        return ""
    ordered, others = ([o for o in known if o.differs == differs] for differs in (True, False))
    apart = [order for order in ordered if abs(order.gap) > order.spread]
    n_near = sum(abs(order.gap) <= order.spread for order in others)
    text = (
        " Games of one run leave out what another run would learn, and a few runs tell little of "
        f"their spread: if ours spread about their mean as the paper's do, {len(apart)} of "
        f"{len(ordered)} pairs that its scores order differ significantly here, "
        f"{_n_agree(apart)} in its order"
    )
    return text + (f", and {n_near} of {len(others)} others do not." if others else ".")


def _n_agree(pairs: Sequence[Order]) -> int:
    """Return the number of pairs that agree."""
    return sum(bool(order.agrees) for order in pairs)


def tables(experiment: Experiment, scale: Scale, curves: Curves, rows: Sequence[Row]) -> list[str]:
    """Return the setup, the scores, the count of orders, the orders, and further comparisons."""
    pairs = orders(experiment, curves)
    return [
        f"{_setup(experiment, scale, rows)}\n",
        _scores_table(experiment, curves) + "\n",
        f"{counts(pairs)}\n",
        _orders_table(pairs) + "\n",
        _equal_moves(experiment, scale, curves) + _extrapolation(experiment, scale, curves),
    ]


def page(
    experiment: Experiment, parts: Sequence[str], picture: str, verdicts: Sequence[str] = ()
) -> str:
    """Return the page of an experiment.

    Args:
        experiment: the experiment.
        parts: those of `tables`.
        picture: name of its picture.
        verdicts: its section of verdicts, if it has one.
    """
    setup, scores, n_agree, order_table, further = parts
    lines = [
        f"# {experiment.title}\n",
        f"{experiment.shows} of: {experiment.paper}.\n",
        f"{experiment.measured}\n",
        setup,
        *(f"{section}\n" for section in verdicts),
        "## Scores\n",
        scores,
        f"![{experiment.title}: our curves, and their ends with the paper's]({picture})\n",
        "## Orders\n",
        n_agree,
        "<details><summary>All pairs</summary>\n",
        order_table,
        "</details>\n",
        *([further] if further else []),
        "## Readings\n",
        *(f"- {reading}" for reading in experiment.readings),
    ]
    return "\n".join(lines) + "\n"


def _setup(experiment: Experiment, scale: Scale, rows: Sequence[Row]) -> str:
    """Return the setup of our runs, and the meaning of the intervals."""
    n_seeds = Counter(run for run, _ in {(row["run"], row["seed"]) for row in rows})
    fewest, most = min(n_seeds.values()), max(n_seeds.values())
    seeds = str(most) if fewest == most else f"{fewest} to {most}"
    games = ", ".join(f"{measure} {n:,}" for measure, n in _n_games(rows).items())
    length = experiment.length.get(scale.axis)
    whole = Scale(scale.axis, length) if length else None
    part = f", {100 * scale.amount / whole.amount:.2g}% of the paper's {whole}" if whole else ""
    if scale.axis != experiment.axis:
        part += f", where the paper compares after equal {experiment.axis}"
    several = "runs by Student's t, where a run has several seeds, and otherwise over games"
    over = "games of one run" if most == 1 else several
    hours = sum(row["seconds"] for row in rows if "machine" in row) / 3600
    ends = [
        f"The weights of {row['run']} diverged after {short(row['moves'])} moves. "
        for row in rows
        if "diverged" in row
    ]
    return (
        f"Here: {scale} per run{part}; seeds per run: {seeds}; games per evaluation: {games}; "
        f"{'; '.join(processors(rows))}. "
        f"± is the 95% interval over {over}; where the paper gives intervals "
        "they are over five runs, so the two cannot be compared. Our scores are taken after the "
        f"same share of the run as the published ones. {''.join(ends)}"
        f"Self-play of these rows took {hours:.1f} core hours. "
        f"Command: {_command(experiment, rows, scale, n_seeds)}."
    )


def _command(
    experiment: Experiment, rows: Sequence[Row], scale: Scale, n_seeds: Mapping[str, int]
) -> str:
    """Return the command that repeats the runs, and what it has for those with more seeds."""
    fewest, *more = sorted(set(n_seeds.values()))
    amount = short(scale.amount) if float(short(scale.amount)) == scale.amount else scale.amount
    played = [run.name for run in experiment.runs if run.name in n_seeds]
    command = (
        f"`python -m benchmarks.experiments.quasi_greedy.run {experiment.given} learn "
        f"--{scale.axis} {amount} {_options_of_evaluations(experiment, rows)} "
        f"--repeats {fewest}{_only(played) if len(played) < len(experiment.runs) else ''}`"
    )
    for n in more:
        several = _only(name for name in played if n_seeds[name] == n)
        command += f", and the same with `--repeats {n}{several}`"
    return command


def _only(names: Iterable[str]) -> str:
    """Return the option of a command for runs of these names, behind a space."""
    return " --only " + " ".join(f'"{name}"' for name in names)


def _n_games(rows: Sequence[Row]) -> dict[str, int]:
    """Return the most games of an evaluation by the way to play."""
    games = {
        measure: [row[measure]["n_games"] for row in rows if measure in row] for measure in DEPTHS
    }
    return {measure: max(each) for measure, each in games.items() if each}


def _options_of_evaluations(experiment: Experiment, rows: Sequence[Row]) -> str:
    """Return the options of the command that has as many evaluations and games."""
    shares = {row["share"] for row in rows}
    fitting = (n for n in range(1, 101) if shares >= {round((i + 1) / n, 6) for i in range(n)})
    points = max(fitting, default=POINTS)
    options = [] if points == POINTS else [f"--points {points}"]
    names = {"greedy": "--greedy-games", "3-ply": "--search-games"}
    games = _n_games(rows)
    games.setdefault("3-ply", 0)  # by default there are some
    options += [f"{names[measure]} {n}" for measure, n in games.items()]
    searched = {row["share"] for row in rows if "3-ply" in row}
    if not searched <= default_search_shares(experiment):
        options.append(f"--search-at {' '.join(f'{share:g}' for share in sorted(searched))}")
    return " ".join(options)


def _scores_table(experiment: Experiment, curves: Curves) -> str:
    """Return the table of scores."""
    with_learned = any(a.learned is not None for run in experiment.runs for a in run.published)
    head = ["run", "in the paper", "share of the run", "seeds"]
    for measure in DEPTHS:
        head += [f"{measure}, here", "paper"]
    if with_learned:
        head += ["moves learned, here", "paper"]
    end = Anchor(at=experiment.length[experiment.axis])
    body = [
        _row_cells(experiment, run, anchor, curves, with_learned)
        for run in experiment.runs
        for anchor in run.published or (end,)
    ]
    return markdown(head, body)


def _row_cells(
    experiment: Experiment, run: Run, anchor: Anchor, curves: Curves, with_learned: bool
) -> list[str]:
    """Return the cells of a run after one share of it."""
    share = experiment.share(anchor)
    points = [point for point in curves.get(run.name, []) if point.share == share]
    seeds = {len(means) for point in points for means in point.repeats.values()}
    cells = [run.name, run.label, _percent(share), str(max(seeds, default=0))]
    for measure in DEPTHS:
        pair = at(points, share, measure), anchor.scores.get(measure)
        cells += [NOTHING if score is None else str(score) for score in pair]
    if with_learned:
        has_share = experiment.axis == "moves"
        ours = _learned(points[0].learned, points[0].moves, has_share) if points else NOTHING
        cells += [ours, _learned(anchor.learned, anchor.at, has_share)]
    return cells


def _equal_moves(experiment: Experiment, scale: Scale, curves: Curves) -> str:
    """Return the ends of runs next to the first run after as many moves; empty if moves are equal.

    The first run is compared at its evaluation with the nearest number of moves.
    """
    first = curves.get(experiment.runs[0].name, [])
    if scale.axis == "moves" or not first:
        return ""
    body = []
    for run in experiment.runs[1:]:
        for point in curves.get(run.name, [])[-1:]:
            near = min(first, key=lambda each: abs(each.moves - point.moves))
            cells = [run.name, short(point.moves), short(near.moves)]
            for measure in DEPTHS:
                pair = point.scores.get(measure), near.scores.get(measure)
                cells += [NOTHING if score is None else str(score) for score in pair]
            body.append(cells)
    head = ["run", "moves", f"moves of {experiment.runs[0].name}"]
    for measure in DEPTHS:
        head += [measure, f"{measure}, {experiment.runs[0].name}"]
    return (
        f"## After equal moves\n\n{experiment.runs[0].name.capitalize()} at its evaluation "
        f"with the nearest number of moves.\n\n{markdown(head, body)}\n\n"
    )


def _extrapolation(experiment: Experiment, scale: Scale, curves: Curves) -> str:
    """Return the last gains of runs, and their scores at the paper's length by these gains.

    It is empty if the paper's length is not known, and has no runs that change their settings.
    """
    length = experiment.length.get(scale.axis)
    if not length:
        return ""
    body = []
    for run in experiment.runs:
        if run.name in curves and not run.switch:
            cells = [run.name]
            for measure in DEPTHS:
                cells += _gains(curves[run.name], measure, math.log2(length / scale.amount))
            body.append(cells)
    head = ["run"]
    for measure in DEPTHS:
        head += [f"{measure}, second half", f"after {Scale(scale.axis, length)}"]
    return (
        "## At the paper's length\n\n"
        "What runs gained in their second half, and where this is significantly more than nothing "
        "the scores that they would have at the paper's length if each doubling gained as much. "
        "This is no forecast: the gains of a doubling may grow or shrink. Intervals over games do "
        "not cover what another run would learn."
        f"\n\n{markdown(head, body)}\n"
    )


def _gains(points: Sequence[Point], measure: str, n: float) -> list[str]:
    """Return the gain of the second half, and the score after n doublings that gain as much.

    There is no such score if the gain is not significant.
    """
    half, end = at(points, 0.5, measure), at(points, 1, measure)
    if half is None or end is None:
        return [NOTHING, NOTHING]
    if end.runs == 1:
        gain = difference(end, half)
        errors = math.hypot((1 + n) * end.half_interval, n * half.half_interval)
        far = Estimate(end.mean + n * gain.mean, errors)
    else:  # halves and ends of a run depend on each other
        halves, ends = (p.repeats[measure] for p in points if p.share in (0.5, 1))
        if len(halves) != len(ends):  # not of the same seeds
            return [NOTHING, NOTHING]
        gains = [after - before for before, after in zip(halves, ends, strict=True)]
        gain = over_runs([Estimate(each, math.nan) for each in gains])
        far = over_runs([Estimate(e + n * g, math.nan) for e, g in zip(ends, gains, strict=True)])
    return [str(gain), str(far) if gain.mean > gain.half_interval else NOTHING]


def _percent(share: float) -> str:
    """Return a share in percent, without a decimal 0."""
    return f"{share:.1%}".replace(".0%", "%")


def _learned(learned: float | None, played: float, has_share: bool) -> str:
    """Return the number of moves learned from, with its share of those played if there is one."""
    if learned is None:
        return NOTHING
    number = short(learned) if learned >= 1e6 else f"{learned:,.0f}"
    return number + (f" ({100 * learned / played:.3g}%)" if has_share else "")


def _orders_table(pairs: Sequence[Order]) -> str:
    """Return the table of orders."""
    head = ["", "share of the run", "higher", "lower", "in the paper", "here"]
    body = [
        [each.measure, _percent(each.share), each.better, each.worse, each.says, each.verdict()]
        for each in pairs
    ]
    return markdown(head, body)
