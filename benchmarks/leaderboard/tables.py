"""What the rows of the leaderboard say: standings, tables, and figures."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from adjustText import adjust_text
from matplotlib import pyplot as plt
from scipy.stats import bootstrap

from afterstate.agents.training.commands import markdown
from afterstate.envs.daihinmin.rules import N_PLAYERS
from benchmarks import figures
from benchmarks.leaderboard.games import OPPONENTS
from benchmarks.leaderboard.tournament import ORDINALS, half_interval
from benchmarks.row_files import Row

TILES = (2048, 4096, 8192, 16384, 32768, 65536)


class Standing(NamedTuple):
    """One player's result: in points, of games of 2048 or of 100 games of Daihinmin."""

    game: str
    name: str
    machine: str  # the processor
    at_once: int  # how many games were played side by side
    games: int
    points: float  # the mean
    low: float  # the 95 % interval of the mean
    high: float
    seconds: float  # of CPU time a move or a decision
    more: dict[str, float]  # further columns of the table
    each: dict[int, float]  # the points by seed, of games or of cycles
    asked: int = 0  # how many games there should be


def standing(rows: Sequence[Row], asked: int) -> Standing:
    """The result of the rows of one entry, which has asked for so many games."""
    of = _standing_2048 if rows[0]["game"] == "2048" else _standing_daihinmin
    return of(rows)._replace(asked=asked)


def _standing_2048(rows: Sequence[Row]) -> Standing:
    """The result of games of 2048; intervals are by bootstrap over games."""
    scores = np.array([row["score"] for row in rows], np.float64)
    largest = np.array([row["max_tile"] for row in rows])
    moves = sum(row["moves"] for row in rows)
    low, high = _interval(scores, np.mean)
    more = {"median": float(np.median(scores))}
    more["median from"], more["median to"] = _interval(scores, np.median)
    more |= {str(tile): float((largest >= tile).mean()) for tile in TILES}
    each = {row["seed"]: float(row["score"]) for row in rows}
    mean = float(scores.mean())
    return Standing(*_common(rows), mean, low, high, _seconds(rows) / moves, more, each)


def _seconds(rows: Sequence[Row]) -> float:
    """CPU time of the player, which rows tell to the microsecond."""
    return max(1e-6, sum(float(row["cpu_seconds"]) for row in rows))


def _common(rows: Sequence[Row]) -> tuple[str, str, str, int, int]:
    """What a result begins with."""
    row, machines = rows[0], sorted({str(row["machine"]["cpu"]) for row in rows})
    return row["game"], row["name"], " and ".join(machines), row["at_once"], len(rows)


def _interval(values: npt.NDArray[np.float64], of: Any) -> tuple[float, float]:
    """The 95 % interval of a statistic, by bootstrap; not a number for a single value."""
    if len(values) < 2:
        return np.nan, np.nan
    found = bootstrap((values,), of, batch=500, method="percentile", random_state=1)
    low, high = found.confidence_interval
    return float(low), float(high)


def _standing_daihinmin(rows: Sequence[Row]) -> Standing:
    """The result of games of Daihinmin; the unit of the interval is the cycle."""
    places, cycles = [], defaultdict[int, list[float]](list)
    ahead: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        found = dict(zip(row["players"], row["places"], strict=True))
        mine = found[row["name"]]
        places.append(mine)
        cycles[row["seed"]].append(100.0 * (N_PLAYERS - mine))
        for name in OPPONENTS:
            ahead[name].append(mine < found[name])
    sums, n_games = [sum(each) for each in cycles.values()], [len(each) for each in cycles.values()]
    mean, half = sum(sums) / len(rows), half_interval(sums, n_games)
    each = {seed: sum(points) / len(points) for seed, points in cycles.items()}
    more = {of: places.count(i) / len(places) for i, of in enumerate(ORDINALS)}
    more |= {name: float(np.mean(wins)) for name, wins in ahead.items()}
    decisions = max(1, sum(row["decisions"] for row in rows))
    ends = mean - half, mean + half
    return Standing(*_common(rows), mean, *ends, _seconds(rows) / decisions, more, each)


def write(found: Sequence[Standing], game: str, folder: Path) -> str:
    """Writes tables, comma-separated values and figures; returns the page in Markdown."""
    ranked = sorted(found, key=lambda each: -each.points)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{game}.csv").write_text(as_csv(ranked), encoding="utf-8")
    (folder / f"{game}_pairs.csv").write_text(pairs(ranked), encoding="utf-8")
    drawn = [f"![{name}]({path.name})" for name, path in draw(ranked, game, folder).items()]
    text = "\n\n".join([table(ranked, game), note(ranked, game), *drawn]) + "\n"
    (folder / f"{game}.md").write_text(text, encoding="utf-8")
    return text


# Tables


def table(ranked: Sequence[Standing], game: str) -> str:
    """The standings as a table in Markdown."""
    return _table_2048(ranked) if game == "2048" else _table_daihinmin(ranked)


def note(ranked: Sequence[Standing], game: str) -> str:
    """What is to be known of a table."""
    machines = ", ".join(sorted({each.machine for each in ranked}))
    how = NOTES[game].format(opponents=", ".join(OPPONENTS))
    files = f"[All numbers]({game}.csv), and [who is better on how many seeds]({game}_pairs.csv)."
    return f"{how} CPU time of one core: {machines}. {files}"


NOTES = {
    "2048": "With 95 % intervals by bootstrap over games, those of the differences over the games "
    "that both have played; the order of players who are not told apart says nothing. As many "
    "games as the column *at once* says were played side by side, which is faster with neural "
    "networks. The N-tuple network plays whole games in compiled code, others are asked for moves. "
    "A tile that no game reached has no share.",
    "daihinmin": "With 95 % intervals over cycles of 100 games. Always at the table: {opponents}; "
    "*before* one of them is the share of games that are ended before it.",
}
"""How the players of a game were measured."""


def _table_2048(ranked: Sequence[Standing]) -> str:
    """Scores, tiles and times."""
    head = ["player", "games", "mean score", LEAD, "median", *(f"{tile}" for tile in TILES)]
    body = []
    for each, more in zip(ranked, leads(ranked), strict=True):
        mean = f"{each.points:,.0f}{_ends(each.low, each.high)}"
        tiles = [_percent(each.more[str(tile)]) for tile in TILES]
        ends = _ends(each.more["median from"], each.more["median to"])
        median = f"{each.more['median']:,.0f}{ends}"
        speed = [str(each.at_once), f"{1 / each.seconds:,.0f}", _time(each.seconds)]
        body.append([each.name, _games(each), mean, more, median, *tiles, *speed])
    return markdown([*head, "at once", "moves/s", "a move"], body)


def _table_daihinmin(ranked: Sequence[Standing]) -> str:
    """Points, places, who is ahead of whom, and times."""
    head = ["player", "games", "points per 100 games", LEAD, *ORDINALS]
    ahead = [f"before {name.removeprefix('daihinmin-')}" for name in OPPONENTS]
    body = []
    for each, more in zip(ranked, leads(ranked), strict=True):
        half = "" if np.isnan(each.high) else f" ± {each.high - each.points:.1f}"
        points = f"{each.points:.1f}{half}"
        shares = [_percent(each.more[name]) for name in (*ORDINALS, *OPPONENTS)]
        body.append([each.name, _games(each), points, more, *shares, _time(each.seconds)])
    return markdown([*head, *ahead, "a decision"], body)


LEAD = "more than the next"


def leads(ranked: Sequence[Standing]) -> list[str]:
    """By how much players are better than the next ones, on the seeds of both."""
    return [*(_lead(one, other) for one, other in pairwise(ranked)), ""]


def _lead(one: Standing, other: Standing) -> str:
    """The 95 % interval of what one player has more than another, if he has more for certain."""
    low, high = _interval(np.array(_differences(one, other)), np.mean)
    return f"{low:,.0f} to {high:,.0f}" if low > 0 else "not told apart"


def _differences(one: Standing, other: Standing) -> list[float]:
    """What one player has more than another, on each seed of both."""
    return [one.each[seed] - other.each[seed] for seed in one.each if seed in other.each]


def _games(each: Standing) -> str:
    """How many games were played, and how many should be if that is another number."""
    return f"{each.games:,}" + (f" of {each.asked:,}" if each.games < each.asked else "")


def _ends(low: float, high: float) -> str:
    """An interval, which one game does not have."""
    return "" if np.isnan(low) else f" ({low:,.0f} to {high:,.0f})"


def _percent(share: float) -> str:
    """A share; nothing if it is none."""
    return f"{100 * share:.1f}%" if share else ""


def _time(seconds: float) -> str:
    """A time in the unit that suits it."""
    unit, factor = ("ms", 1e3) if seconds >= 1e-3 else ("µs", 1e6)
    return f"{seconds * factor:,.3g} {unit}"


def as_csv(ranked: Sequence[Standing]) -> str:
    """The standings as comma-separated values, times in seconds."""
    head = ["player", "games", "mean", "low", "high", "cpu_seconds_each", *ranked[0].more]
    head += ["at_once", "machine"]
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for each in ranked:
        numbers = (each.points, each.low, each.high, each.seconds, *each.more.values())
        told = [f"{x:.8g}" for x in numbers]
        writer.writerow([each.name, each.games, *told, each.at_once, each.machine])
    return text.getvalue()


def pairs(ranked: Sequence[Standing]) -> str:
    """Who has more points than whom on which share of the seeds of both, a tie for half."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["more points than", *(each.name for each in ranked)])
    for one in ranked:
        writer.writerow([one.name, *(_ahead(one, other) for other in ranked)])
    return text.getvalue()


def _ahead(one: Standing, other: Standing) -> str:
    """The share of common seeds on which one player has more points than another."""
    if one is other:
        return ""
    both = _differences(one, other)
    return f"{np.mean(np.heaviside(both, 0.5)):.3f}" if both else ""


# Figures


def draw(ranked: Sequence[Standing], game: str, folder: Path) -> dict[str, Path]:
    """Draws how points are distributed, and strength against time; returns the files by title."""
    unit = "score" if game == "2048" else "points per 100 games"
    paths = {
        "Strength against time": folder / f"{game}_strength.svg",
        "How points are distributed": folder / f"{game}_points.svg",
    }
    with plt.rc_context({"font.size": 9}):
        for path, drawn in zip(paths.values(), (_strength, _distributions), strict=True):
            figure, axes = plt.subplots(figsize=(8, 0.4 * len(ranked) + 1.5), layout="constrained")
            drawn(axes, ranked[::-1], unit)
            figures.save(figure, path)
    return paths


def _distributions(axes: Any, ranked: Sequence[Standing], unit: str) -> None:
    """A box for each player: quartiles, and 95 % of the games between the whiskers."""
    axes.boxplot(
        [list(each.each.values()) for each in ranked],
        orientation="horizontal",
        whis=(2.5, 97.5),
        sym="",
        tick_labels=[each.name for each in ranked],
    )
    what, scale = ("of games", "log") if unit == "score" else ("in cycles of 100 games", "linear")
    about = f"{unit} {what}: median, quartiles, and 95 % between the ends"
    axes.set(xlabel=about, xscale=scale)
    axes.grid(axis="x", alpha=0.3)


def _strength(axes: Any, ranked: Sequence[Standing], unit: str) -> None:
    """Points against time, with those that no faster player reaches joined by a line."""
    for each in ranked:
        error = [[max(0, each.points - each.low)], [max(0, each.high - each.points)]]
        axes.errorbar(1e3 * each.seconds, each.points, error, marker="o", color="C0", capsize=2)
    best = front(ranked)
    line = [[1e3 * each.seconds for each in best], [each.points for each in best]]
    axes.plot(*line, color="C1", label="stronger than all that are faster")
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    asked = (
        "a decision" if unit != "score" else "a move, as many games side by side as in the table"
    )
    yscale = "log" if unit == "score" else "linear"
    axes.set(xscale="log", yscale=yscale, xlabel=f"ms of CPU time {asked}", ylabel=unit)
    axes.margins(x=0.18, y=0.08)
    _name(axes, ranked)


def _name(axes: Any, ranked: Sequence[Standing]) -> None:
    """Writes names beside their points, so that none is on another."""
    axes.figure.draw_without_rendering()  # gives the axes their size, which names are not to change
    axes.figure.set_layout_engine("none")
    places = [(1e3 * each.seconds, each.points) for each in ranked]
    texts = [axes.text(*place, of.name) for place, of in zip(places, ranked, strict=True)]
    right = axes.bbox.x1 - axes.bbox.width / 6
    for text in texts:  # names of players at the right begin left of them
        if axes.transData.transform(text.get_position())[0] > right:
            text.set_ha("right")
    lines = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.6}
    how = {"iter_lim": 500, "expand": (1.1, 2.0), "arrowprops": lines}
    adjust_text(texts, *zip(*places, strict=True), ax=axes, **how)


def front(found: Sequence[Standing]) -> list[Standing]:
    """The players that are better than all faster ones, fastest first."""
    best: list[Standing] = []
    for each in sorted(found, key=lambda each: (each.seconds, -each.points)):
        if not best or each.points > best[-1].points:
            best.append(each)
    return best
