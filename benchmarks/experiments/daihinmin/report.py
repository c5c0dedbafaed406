"""The table and the figure of an experiment with rank networks, beside the published values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

Row = dict[str, Any]

OURS, STUDY = "#0072b2", "#9a9a9a"


class Result(NamedTuple):
    """What a player reached."""

    sets: int
    points: float  # per 100 games
    error: float  # standard error over sets
    rmse: float  # of its values against points; nan without a network


def results(rows: list[Row]) -> dict[str, Result]:
    """The results by player."""
    points: dict[str, list[float]] = {}
    squares: dict[str, list[tuple[float, int]]] = {}
    for row in rows:
        for i, name in enumerate(row["players"]):
            points.setdefault(name, []).append(row["points"][i])
            if row["squared_error"][i] is not None:
                squares.setdefault(name, []).append((row["squared_error"][i], row["visits"][i]))
    found = {}
    for name, scores in points.items():
        error = np.std(scores, ddof=1) / math.sqrt(len(scores)) if len(scores) > 1 else math.nan
        total, visits = np.sum(squares.get(name, [(math.nan, 1)]), axis=0)
        rmse = math.sqrt(total / visits) if visits else math.nan
        found[name] = Result(len(scores), float(np.mean(scores)), float(error), rmse)
    return found


def _cell(value: float | None, digits: int = 1, error: float | None = None) -> str:
    """A number of the table, with its standard error."""
    if value is None or value != value:
        return "-"
    return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error is not None else "")


def verdict(order: dict[str, str], found: dict[str, Result]) -> str:
    """Whether our results have an order of the study."""
    one, other = found.get(order["better"]), found.get(order["worse"])
    if one is None or other is None:
        return "not measured"
    gap, error = one.points - other.points, math.hypot(one.error, other.error)
    clearly = ", clearly" if abs(gap) > 2 * error else ", within two standard errors"
    return ("agrees" if gap > 0 else "opposite") + clearly + f" ({gap:+.1f} ± {error:.1f})"


def correlation(pairs: list[tuple[float, float]]) -> float:
    """The correlation of points and errors of values; nan for fewer than three."""
    return float(np.corrcoef(np.transpose(pairs))[0, 1]) if len(pairs) > 2 else math.nan


def table(told: dict[str, Any], rows: list[Row]) -> str:
    """The table, in Markdown."""
    found = results(rows)
    lines = [
        f"# {told['title']}",
        "",
        f"{told['study']}: {told['shows']}.",
        "",
        *[f"- {reading}" for reading in told["readings"]],
        "",
        f"{100 * len(rows):,} games in {len(rows):,} sets of 100, five players drawn for each "
        f"{told['sets']}; standard errors over sets.",
        "",
        "| player | sets | points per 100 | RMSE | study: points | study: RMSE |",
        "|---|---|---|---|---|---|",
    ]
    for name, player in told["players"].items():
        ours, study = found.get(name), player.get("published", {})
        published = _cell(study.get("points"), 1, study.get("error"))
        cells = ["-"] * 3
        if ours is not None:
            cells = [str(ours.sets), _cell(ours.points, 1, ours.error), _cell(ours.rmse, 3)]
        lines.append(
            f"| {name} | {' | '.join(cells)} | {published} | {_cell(study.get('rmse'), 3)} |"
        )
    for name, points in told.get("others", {}).items():
        lines.append(f"| {name} | - | - | - | {points} ± 2 | - |")
    lines += ["", "| the study says | points of | ours |", "|---|---|---|"]
    for order in told["orders"]:
        pair = f"{order['better']} above {order['worse']}"
        lines.append(f"| {order['says']} | {pair} | {verdict(order, found)} |")
    ours_pairs = [(r.points, r.rmse) for r in found.values() if r.rmse == r.rmse]
    study_pairs = [
        (p["published"]["points"], p["published"]["rmse"])
        for p in told["players"].values()
        if "published" in p
    ]
    lines += [
        "",
        "Correlation of points and RMSE over networks: "
        f"{_cell(correlation(ours_pairs), 2)}, in the study {_cell(correlation(study_pairs), 2)} "
        "(its text: the stronger, the smaller the RMSE).",
    ]
    return "\n".join(lines) + "\n"


def _draw_points(axes: Axes, told: dict[str, Any], found: dict[str, Result]) -> None:
    """Points by player, ours and the study's."""
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
    axes.plot([], [], "o", color=STUDY, label="study, other opponents")
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
        points = [(row["generation"], row[key]) for row in rows if key in row]
        if points:
            axes.plot(*np.transpose(points), marker=".", label=name)
    axes.set_xlabel("generation")
    axes.set_ylabel(label)
    if len(curves) > 1:
        axes.legend(frameon=False, fontsize=7)


def write(told: dict[str, Any], rows: list[Row], curves: dict[str, list[Row]], path: Path) -> None:
    """Writes the table and the figure, the same files for the same rows."""
    path.with_suffix(".md").write_text(table(told, rows), encoding="utf-8")
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
