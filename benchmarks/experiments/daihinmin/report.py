"""The tables and the figure of an experiment with rank networks, beside the published values.

The sets of a draw have the same five players, and so their points go up and down together: what a
standard error is taken over are draws, never sets.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from afterstate.agents.config import from_dict
from afterstate.agents.daihinmin.learning.rank_learner import Settings

Row = dict[str, Any]

OURS, STUDY = "#0072b2", "#9a9a9a"


class Result(NamedTuple):
    """What a player reached."""

    draws: dict[int, float]  # the points per 100 games in each draw of five players, by its seed
    rmse: float  # of the values against points; nan without a network

    @property
    def points(self) -> float:
        """The mean over draws."""
        return float(np.mean(list(self.draws.values())))

    @property
    def error(self) -> float:
        """The standard error of the points; nan with one draw."""
        return math.hypot(*self.shares().values())

    def shares(self) -> dict[int, float]:
        """What each draw adds to the standard error, whose square is the sum of their squares."""
        n = len(self.draws)
        scale = math.sqrt(n * (n - 1)) if n > 1 else math.nan
        return {seed: (points - self.points) / scale for seed, points in self.draws.items()}


def results(rows: list[Row]) -> dict[str, Result]:
    """The results by player."""
    points: dict[str, dict[int, list[float]]] = {}
    squares: dict[str, list[tuple[float, int]]] = {}
    for row in rows:
        for i, name in enumerate(row["players"]):
            points.setdefault(name, {}).setdefault(row["seed"], []).append(row["points"][i])
            if row["squared_error"][i] is not None:
                squares.setdefault(name, []).append((row["squared_error"][i], row["visits"][i]))
    found = {}
    for name, draws in points.items():
        total, visits = np.sum(squares.get(name, [(math.nan, 1)]), axis=0)
        rmse = math.sqrt(total / visits) if visits else math.nan
        found[name] = Result({seed: float(np.mean(sets)) for seed, sets in draws.items()}, rmse)
    return found


def gap(one: Result, other: Result) -> tuple[float, float]:
    """How many points one player is ahead of another, and the standard error of that.

    What one gains the others lose: where both were in a draw, their points are not independent.
    """
    mine, theirs = one.shares(), other.shares()
    seeds = sorted(mine.keys() | theirs.keys())
    error = math.hypot(*(mine.get(seed, 0.0) - theirs.get(seed, 0.0) for seed in seeds))
    return one.points - other.points, error


def _cell(value: float | None, digits: int = 1, error: float | None = None) -> str:
    """A number of the table, with its standard error."""
    if value is None or value != value:
        return "-"
    return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error is not None else "")


def verdict(order: dict[str, Any], found: dict[str, Result]) -> str:
    """Return the verdict on an order, or an equality, of the paper."""
    names = order.get("equal") or (order["better"], order["worse"])
    one, other = (found.get(name) for name in names)
    if one is None or other is None:
        return "not measured"
    points, error = gap(one, other)
    if math.isnan(error):
        return f"too few draws for an error ({points:+.1f})"
    is_clear = abs(points) > 2 * error
    if "equal" in order:
        verdict = (
            "not reproduced: they differ" if is_clear else "reproduced: no significant difference"
        )
    elif is_clear:
        verdict = "reproduced" if points > 0 else "opposite"
    else:
        verdict = "not significant"
    return f"{verdict} ({points:+.1f} ± {error:.1f})"


def correlation(pairs: list[tuple[float, float]]) -> float:
    """The correlation of points and errors of values; nan for fewer than three."""
    return float(np.corrcoef(np.transpose(pairs))[0, 1]) if len(pairs) > 2 else math.nan


def learned(told: dict[str, Any], rows: list[Row]) -> tuple[int, float, float]:
    """What a network learned from, by the rows of its training.

    Returns:
        Iterations, samples that were there in all, and how many times each was used in the mean.
    """
    run = told["run"]
    held = math.ceil(run["window"] / run["games"])  # generations whose games are in the window
    made = [row for row in rows if "samples" in row]
    iterations = max((row["iterations"] for row in made), default=0)
    samples = sum(row["samples"] / min(row["generation"], held) for row in made)
    used = iterations * from_dict(run.get("learner", {}), Settings).batch
    return iterations, samples, used / samples if samples else math.nan


def training_table(told: dict[str, Any], curves: dict[str, list[Row]]) -> list[str]:
    """Return the lines of the table of what networks learned from, as in Table 5 of the paper."""
    players = told["players"]
    published = {name: player.get("published", {}) for name, player in players.items()}
    names = [name for name in players if name in curves or "iterations" in published[name]]
    lines = [
        "| network | iterations | samples | uses of each | paper: iterations | paper: uses |",
        "|---|---|---|---|---|---|",
    ]
    for name in [*names, *(name for name in curves if name not in players)]:
        iterations, samples, uses = learned(told, curves.get(name, []))
        cells = [f"{iterations:,}", f"{samples:,.0f}", f"{uses:.2f}"] if iterations else ["-"] * 3
        study = published.get(name, {}).get("iterations")
        # An iteration of the paper is a game; self-play makes new ones as it goes.
        games = None if players.get(name, {}).get("file") else told.get("study_games")
        cells.append("-" if study is None else f"{study:,.0f}")
        cells.append("-" if study is None or games is None else f"{study / games:.0f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def points_table(told: dict[str, Any], found: dict[str, Result]) -> list[str]:
    """The lines of the table of points and errors of values."""
    lines = [
        "| player | draws | points per 100 | RMSE | paper: points | paper: RMSE |",
        "|---|---|---|---|---|---|",
    ]
    for name, player in told["players"].items():
        ours, study = found.get(name), player.get("published", {})
        published = _cell(study.get("points"), 1, study.get("error"))
        cells = ["-"] * 3
        if ours is not None:
            cells = [str(len(ours.draws)), _cell(ours.points, 1, ours.error), _cell(ours.rmse, 3)]
        lines.append(
            f"| {name} | {' | '.join(cells)} | {published} | {_cell(study.get('rmse'), 3)} |"
        )
    others = told.get("others", {}).items()
    return lines + [f"| {name} | - | - | - | {points} ± 2 | - |" for name, points in others]


def orders_table(told: dict[str, Any], found: dict[str, Result]) -> list[str]:
    """Return the lines of the table of the paper's claims."""
    lines = ["| the paper says | points of | here (± standard error) |", "|---|---|---|"]
    for order in told["orders"]:
        pair = " as ".join(order.get("equal", ())) or f"{order['better']} above {order['worse']}"
        lines.append(f"| {order['says']} | {pair} | {verdict(order, found)} |")
    return lines


def correlations(told: dict[str, Any], found: dict[str, Result]) -> str:
    """Return the correlation of points and errors, ours and the paper's."""
    ours = [(result.points, result.rmse) for result in found.values() if result.rmse == result.rmse]
    published = [
        player["published"] for player in told["players"].values() if "published" in player
    ]
    study = [(player["points"], player["rmse"]) for player in published]
    return (
        "Correlation of points and RMSE over networks: "
        f"{_cell(correlation(ours), 2)}, in the paper {_cell(correlation(study), 2)} "
        "(its text: the stronger, the smaller the RMSE)."
    )


def table(told: dict[str, Any], rows: list[Row], curves: dict[str, list[Row]]) -> str:
    """The tables, in Markdown."""
    found = results(rows)
    n_draws = len({row["seed"] for row in rows})
    sections = [
        [f"# {told['title']}"],
        [f"{told['study']}: {told['shows']}."],
        [f"- {reading}" for reading in told["readings"]],
        [
            f"{100 * len(rows):,} games: {n_draws:,} draws of five players, who played "
            f"{len(rows):,} sets of 100; standard errors over draws."
        ],
        points_table(told, found),
        orders_table(told, found),
        [correlations(told, found)],
        [
            "What was learned from, and how many times each sample was used; in the paper an "
            "iteration uses the samples of about one game."
        ],
        training_table(told, curves),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _draw_points(axes: Axes, told: dict[str, Any], found: dict[str, Result]) -> None:
    """Draw points by player, ours and the paper's."""
    names = list(told["players"])
    for i, name in enumerate(names):
        study = told["players"][name].get("published")
        if study:
            axes.errorbar(study["points"], i, xerr=2 * study["error"], fmt="o", color=STUDY)
        if name in found:
            axes.errorbar(found[name].points, i, xerr=2 * found[name].error, fmt="s", color=OURS)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("points per 100 games")
    axes.plot([], [], "s", color=OURS, label="here")
    axes.plot([], [], "o", color=STUDY, label="paper, other opponents")
    axes.legend(frameon=False)


def _draw_scatter(axes: Axes, told: dict[str, Any], found: dict[str, Result]) -> None:
    """RMSE against points."""
    for name, player in told["players"].items():
        study = player.get("published")
        if study:
            axes.plot(study["points"], study["rmse"], "o", color=STUDY)
        if name in found and found[name].rmse == found[name].rmse:
            axes.plot(found[name].points, found[name].rmse, "s", color=OURS)
            axes.annotate(name, (found[name].points, found[name].rmse), fontsize=7)
    axes.set_xlabel("points per 100 games")
    axes.set_ylabel("RMSE of value against points")


def _draw_curves(axes: Axes, curves: dict[str, list[Row]], key: str, label: str) -> None:
    """A quantity against generations."""
    for name, rows in curves.items():
        points = [(row["generation"], row[key]) for row in rows if row.get(key) is not None]
        if points:
            axes.plot(*np.transpose(points), marker=".", label=name)
    axes.set_xlabel("generation")
    axes.set_ylabel(label)
    if len(axes.lines) > 1:
        axes.legend(frameon=False, fontsize=7)


def write(told: dict[str, Any], rows: list[Row], curves: dict[str, list[Row]], path: Path) -> None:
    """Writes the tables and the figure, the same files for the same rows."""
    path.with_suffix(".md").write_text(table(told, rows, curves), encoding="utf-8")
    found = results(rows)
    with plt.rc_context({"svg.hashsalt": told["title"], "font.size": 9}):
        figure, panels = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
        figure.suptitle(told["title"])
        _draw_points(panels[0, 0], told, found)
        _draw_scatter(panels[0, 1], told, found)
        _draw_curves(
            panels[1, 0], curves, "against_sample", "points per 100 against sample clients"
        )
        _draw_curves(panels[1, 1], curves, "rmse", "RMSE on new games")
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        plt.close(figure)
