"""Figures of the leaderboard, drawn without a display, the same bytes for the same data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.path import Path as Line
from matplotlib.text import Text
from matplotlib.ticker import EngFormatter
from matplotlib.transforms import Bbox

from afterstate.leaderboard.results import Result, front, time_text

N_STRONGEST = 6
"""Number of players in the part of the figure for the strongest."""


def save(figure: Any, path: Path, salt: str = "afterstate", **options: Any) -> None:
    """Write a figure of matplotlib, as SVG without a date or random names, and close it.

    Args:
        figure: the figure.
        path: a file of any format that matplotlib writes.
        salt: text that determines the names in an SVG.
        options: other arguments of `savefig`; by default margins are cut off.
    """
    options = {"bbox_inches": "tight"} | options
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    with plt.rc_context({"svg.hashsalt": salt}):
        figure.savefig(path, metadata=metadata, **options)
    plt.close(figure)


def draw(ranked: Sequence[Result], game: str, folder: Path) -> dict[str, Path]:
    """Draw strength against time, and distributions; return the files by title."""
    unit = "score" if game == "2048" else "points per 100 games"
    paths = {
        "Strength against time": folder / f"{game}_strength.svg",
        "Distribution of points": folder / f"{game}_points.svg",
    }
    with plt.rc_context({"font.size": 9}):
        for path, drawing in zip(paths.values(), (strength, distributions), strict=True):
            save(drawing(ranked[::-1], unit), path)
    return paths


def distributions(ascending: Sequence[Result], unit: str) -> Any:
    """Return a figure with a box for each player: quartiles, and 95% between the whiskers."""
    figure, axes = plt.subplots(figsize=(11.0, 0.22 * len(ascending) + 1.3), layout="constrained")
    boxes = axes.boxplot(
        [list(each.each.values()) for each in ascending],
        orientation="horizontal",
        whis=(2.5, 97.5),
        sym="",
        widths=0.6,
        patch_artist=True,
        medianprops={"color": "white", "linewidth": 1.5},
        tick_labels=[each.name for each in ascending],
    )
    for i, each in enumerate(ascending):
        pairs = [boxes[of][2 * i + k] for of in ("whiskers", "caps") for k in (0, 1)]
        plt.setp([boxes["boxes"][i], *pairs], color=family_color(each.name))
    over, scale = ("of games", "log") if unit == "score" else ("in cycles of 100 games", "linear")
    label = f"{unit} {over}: median, quartiles, and 95% between the ends"
    axes.set(xlabel=label, xscale=scale)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    _add_legend(axes, ascending)
    axes.grid(axis="x", alpha=0.3)
    return figure


def strength(ascending: Sequence[Result], unit: str) -> Any:
    """Return a figure of points against time, with a line through the best for their time.

    The strongest players of 2048 have a part of their own, on a linear scale.
    """
    figure = plt.figure(figsize=(11.0, 6.0), layout="constrained")
    if unit != "score" or len(ascending) <= N_STRONGEST:
        axes, named = figure.subplots(), ascending
    else:
        axes, right = figure.subplots(1, 2, width_ratios=(2.2, 1))
        named = ascending[:-N_STRONGEST]
        _plot_strongest(right, ascending[-N_STRONGEST:])
        axes.set_yscale("log")
    axes.set(xlabel=f"CPU time per {'move' if unit == 'score' else 'decision'}", ylabel=unit)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(EngFormatter("s"))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _plot(axes, ascending)
    _name(axes, named, ascending)
    return figure


def _plot(axes: Any, shown: Sequence[Result]) -> None:
    """Plot players in the colors of their families, and the line through the best."""
    for each in shown:
        color = family_color(each.name)
        axes.errorbar(each.seconds, each.points, _error(each), marker="o", color=color, capsize=2)
    best = front(shown)
    line = [each.seconds for each in best], [each.points for each in best]
    axes.plot(*line, color="0.6", zorder=0, label="stronger than all faster players")
    _add_legend(axes, shown)
    axes.grid(alpha=0.3)
    times = [each.seconds for each in shown]
    axes.set_xlim(min(times) / 5, max(times) * 5)  # room for names
    axes.margins(y=0.08)


def _add_legend(axes: Any, shown: Sequence[Result]) -> None:
    """Name the families of players in the legend, the strongest first."""
    for color in dict.fromkeys(family_color(each.name) for each in shown[::-1]):
        axes.plot([], [], marker="o", linestyle="", color=color, label=METHODS[color])
    axes.legend(loc="lower right", fontsize="small")


def _plot_strongest(axes: Any, ascending: Sequence[Result]) -> None:
    """Plot a line for each player, with its interval, name and time."""
    for i, each in enumerate(ascending):
        color = family_color(each.name)
        axes.errorbar(each.points, i, xerr=_error(each), marker="o", color=color, capsize=2)
    names = [f"{e.name.replace(', ', chr(10), 1)}\n{time_text(e.seconds)}" for e in ascending]
    axes.set_yticks(range(len(names)), names, fontsize="small")
    axes.set(xlabel="mean score", title=f"the {len(ascending)} strongest, time per move")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params(axis="x", nbins=4)
    axes.grid(alpha=0.3)
    axes.margins(y=0.1)


def _error(each: Result) -> list[list[float]]:
    """Return the ends of an interval, as distances below and above the mean."""
    return [[max(0, each.points - each.low)], [max(0, each.high - each.points)]]


FAMILIES = {
    "Softmax": "C0",
    "Monte Carlo": "C0",
    "by alpha-beta": "C2",
    "alpha-beta": "C2",
    "expectimax": "C1",
    "N-tuple": "C1",
    "network": "C3",
    "policy": "C3",
    "PPO": "C4",
    "DQN": "C4",
}
"""Colors by a part of the name: players of one method have one color."""

METHODS = {
    "C0": "Monte Carlo",
    "C1": "N-tuple network",
    "C2": "alpha-beta's evaluation",
    "C3": "neural network or linear policy",
    "C4": "stable-baselines3",
    "0.4": "rules and chance",
}
"""Methods by their colors, for the legend."""


def family_color(name: str) -> str:
    """Return the color of a player's family, gray for players without one."""
    return next((color for part, color in FAMILIES.items() if part in name), "0.4")


def _name(axes: Any, named: Sequence[Result], shown: Sequence[Result]) -> None:
    """Write names near their marks, where they cover no name, mark, interval or line."""
    axes.figure.draw_without_rendering()  # fixes the size of the axes
    axes.figure.set_layout_engine("none")
    taken = [axes.get_legend().get_window_extent(), *_boxes(axes, shown)]
    line = Line(axes.transData.transform([(each.seconds, each.points) for each in front(shown)]))
    for each in named[::-1]:
        text = axes.annotate(
            each.name,
            (each.seconds, each.points),
            xytext=_PLACES[0],
            textcoords="offset points",
            va="center",
            fontsize="small",
            arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkB": _GAP},
        )
        place = next((place for place in _PLACES if _is_free(text, place, taken, line)), _PLACES[0])
        taken.append(_move(text, place))
        text.arrow_patch.set_visible(np.hypot(*place) > 2 * _GAP)


_GAP = 8
"""From the middle of a mark to the line to its name, in points."""
_PLACES = [
    (distance * np.cos(angle), distance * np.sin(angle))
    for distance in (9, 14, 20, 28, 38, 50, 64)
    for angle in np.linspace(0, 2 * np.pi, 16, endpoint=False)
]
"""Places of a name, from its mark in points, the nearest first."""


def _boxes(axes: Any, shown: Sequence[Result]) -> Iterator[Bbox]:
    """Yield the boxes of pixels that marks and their intervals fill."""
    for each in shown:
        (below,), (above,) = _error(each)
        heights = each.points, each.points - below, each.points + above
        ends = [(each.seconds, height) for height in heights]
        (x, y), (_, low), (_, high) = axes.transData.transform(ends)
        yield Bbox.from_extents(x - 5, min(low, y - 5), x + 5, max(high, y + 5))


def _move(text: Any, place: tuple[float, float]) -> Bbox:
    """Move a name to a place, and return the pixels that it then fills."""
    text.set_position(place)
    text.set_ha("center" if abs(place[0]) < 1 else "left" if place[0] > 0 else "right")
    text.update_positions(text.figure.canvas.get_renderer())
    return Text.get_window_extent(text).padded(2)


def _is_free(text: Any, place: tuple[float, float], taken: Sequence[Bbox], line: Line) -> bool:
    """Return True if a name at a place is within the axes and covers nothing, nor its own line."""
    box, axes = _move(text, place), text.axes
    if not all(axes.bbox.contains(*corner) for corner in box.corners()):
        return False
    mark, end = axes.transData.transform(text.xy), np.array(place) * axes.figure.dpi / 72
    own = Line([mark + end * _GAP / np.hypot(*place), mark + end])
    covers = any(box.overlaps(each) or own.intersects_bbox(each) for each in taken)
    return not covers and not line.intersects_bbox(box, filled=False)
