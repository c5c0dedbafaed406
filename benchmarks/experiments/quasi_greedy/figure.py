"""The figure of an experiment: our curves, and their ends next to the published scores."""

from __future__ import annotations

import math
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator, NullLocator, StrMethodFormatter

from afterstate.leaderboard import figures
from benchmarks.experiments.quasi_greedy.rows import Curves, Point
from benchmarks.experiments.quasi_greedy.settings import DEPTHS, Experiment, Published, Scale

COLORS = ("#111111", "#d55e00", "#0072b2", "#009e73", "#9a9a9a", "#e69f00", "#56b4e9", "#cc79a7")
MARKERS = "osD^vP*X"
GREY = "#666666"
DASHES = (0, (2, 1))
MEASURES = {"greedy": "greedy play", "3-ply": "3-ply expectimax"}


def _color(i: int) -> str:
    """Return the color of a run by its place."""
    return COLORS[i % len(COLORS)]


def _marker(i: int) -> str:
    """Return the marker of a run by its place: runs of the same color have different ones."""
    return MARKERS[(i + i // len(COLORS)) % len(MARKERS)]


def draw(experiment: Experiment, scale: Scale, curves: Curves, path: Path) -> None:
    """Draw the figure to a file, the same file for the same scores."""
    lines = 0.36 * len(experiment.runs)
    with plt.rc_context({"font.size": 10}):
        figure, panels = plt.subplots(
            *(2, len(DEPTHS)),
            figsize=(11, 4.6 + lines),
            height_ratios=(3.4, lines),
            layout="constrained",
        )
        figure.suptitle(f"{experiment.title}: {scale} per run")
        for i, measure in enumerate(DEPTHS):
            _draw_curves(panels[0, i], experiment, scale, curves, measure)
            _draw_ends(panels[1, i], experiment, curves, measure)
            panels[1, i].tick_params(labelleft=i == 0)
        _draw_legend(figure, experiment, scale)
        figures.save(figure, path, experiment.name, bbox_inches=None, dpi=120)


# Curves


def _draw_curves(
    axes: Axes, experiment: Experiment, scale: Scale, curves: Curves, measure: str
) -> None:
    """Draw mean scores against moves or seconds."""
    top = 1.0
    for i, run in enumerate(experiment.runs):
        points = [point for point in curves.get(run.name, []) if measure in point.scores]
        if points:
            shift = 0.006 * (i - (len(experiment.runs) - 1) / 2)
            _draw_curve(axes, i, points, measure, scale, shift)
            top = max([top, *(_height(point, measure) for point in points)])
    axes.set_title(MEASURES[measure], fontsize=11)
    axes.set_xlabel("self-play " + ("(million moves)" if scale.axis == "moves" else "(minutes)"))
    axes.set_ylabel("mean score")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylim(0, 1.08 * top)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _height(point: Point, measure: str) -> float:
    """Return the height of a point: its repeats, and its interval unless it is huge."""
    mean, half_interval, _ = point.scores[measure]
    return max(*point.repeats[measure], min(mean + _known(half_interval), 1.3 * mean))


def _draw_curve(
    axes: Axes, i: int, points: list[Point], measure: str, scale: Scale, shift: float
) -> None:
    """Draw a run's means, its repeats as dots, and intervals as a band, or bars for few points.

    Bars are shifted by a share of the axis, so that bars of several runs do not overlap.
    """
    divisor = 1e6 if scale.axis == "moves" else 60.0
    has_bars = len(points) <= 4
    offset = shift * scale.amount / divisor if has_bars else 0.0
    xs = [getattr(point, scale.axis) / divisor + offset for point in points]
    means = [point.scores[measure].mean for point in points]
    halves = [_known(point.scores[measure].half_interval) for point in points]
    if has_bars:
        axes.errorbar(xs, means, halves, fmt="none", color=_color(i), alpha=0.5, capsize=2)
    else:
        low, high = ([m + s * d for m, d in zip(means, halves, strict=True)] for s in (-1, 1))
        axes.fill_between(xs, low, high, color=_color(i), alpha=0.12, linewidth=0)
    for x, point in zip(xs, points, strict=True):
        each = point.repeats[measure]
        axes.plot([x] * len(each), each, ".", color=_color(i), alpha=0.4, markersize=4)
    axes.plot(xs, means, color=_color(i), marker=_marker(i), markersize=5, linewidth=1.6)


def _known(half_interval: float) -> float:
    """Return half of an interval, 0 if it is unknown."""
    return 0.0 if math.isnan(half_interval) else half_interval


# Ends


def _draw_ends(axes: Axes, experiment: Experiment, curves: Curves, measure: str) -> None:
    """Draw a line per run: the end of ours, and below it the last published score."""
    for i, run in enumerate(experiment.runs):
        for point in curves.get(run.name, []):
            if point.share == 1 and measure in point.scores:
                _draw_end(axes, i, point, measure)
        published = [each.scores[measure] for each in run.published if measure in each.scores]
        if published:
            _draw_published(axes, i, published[-1])
    axes.set_ylim(len(experiment.runs) - 0.5, -0.5)
    axes.set_yticks(range(len(experiment.runs)), [run.name for run in experiment.runs])
    axes.tick_params(axis="y", length=0)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    subs = (1.0, 2.0, 5.0) if high > 8 * low else (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("mean score at the end of the run, logarithmic")
    axes.grid(alpha=0.3, axis="x")
    axes.spines[["top", "right", "left"]].set_visible(False)


def _draw_end(axes: Axes, i: int, point: Point, measure: str) -> None:
    """Draw the end of our run."""
    mean, half_interval, _ = point.scores[measure]
    low = max(mean - _known(half_interval), 0.5 * mean)  # a logarithmic axis has no 0
    axes.plot([low, mean + _known(half_interval)], [i - 0.15] * 2, color=_color(i), linewidth=2)
    axes.plot([mean], [i - 0.15], marker=_marker(i), color=_color(i), markersize=7)


def _draw_published(axes: Axes, i: int, score: Published) -> None:
    """Draw the end of the paper's run, hollow and dashed; an arrow if only a bound is known."""
    y = i + 0.18
    is_open = math.isinf(score.high)
    if not is_open:
        axes.plot([score.low, score.high], [y, y], linestyle=DASHES, color=_color(i))
    mark = score.low if is_open else score.mean
    if mark is not None:
        marker = ">" if is_open else _marker(i)
        axes.plot([mark], [y], color=_color(i), marker=marker, markersize=7, markerfacecolor="w")


def _draw_legend(figure: Figure, experiment: Experiment, scale: Scale) -> None:
    """Draw the legend below the panels: colors of runs, and line styles of ours and the paper's."""
    handles = [
        Line2D([], [], color=_color(i), marker=_marker(i), markersize=6, label=run.name)
        for i, run in enumerate(experiment.runs)
    ]
    length = Scale(experiment.axis, experiment.length[experiment.axis])
    ours = Line2D([], [], color=GREY, marker="o", markersize=7, label=f"here, {scale}")
    theirs = Line2D([], [], color=GREY, marker="o", markersize=7, label=f"the paper, {length}")
    theirs.set(linestyle=DASHES, markerfacecolor="w")
    handles += [ours, theirs]
    n_columns = len(handles) if len(handles) < 5 else -(-len(handles) // 2)
    figure.legend(handles=handles, loc="outside lower center", ncols=n_columns, frameon=False)
