"""Results, tables and figures of the leaderboard, from its rows."""

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
from afterstate.leaderboard import figures
from afterstate.leaderboard.games import OPPONENTS
from afterstate.leaderboard.row_files import Row
from afterstate.leaderboard.tournament import ORDINALS, cycles_half_interval

TILES = (2048, 4096, 8192, 16384, 32768, 65536)


class Result(NamedTuple):
    """A player's result, in points: of a game of 2048, or of 100 games of Daihinmin."""

    game: str
    name: str
    machine: str  # the processor
    batch: int  # games played in parallel
    games: int
    points: float  # the mean
    low: float  # the 95% interval of the mean
    high: float
    seconds: float  # of CPU time a move or a decision
    more: dict[str, float]  # further columns of the table
    each: dict[int, float]  # the points by seed, of games or of cycles
    expected: int = 0  # the number of games of the entry


def result(rows: Sequence[Row], expected: int) -> Result:
    """Return the result of the rows of one entry, which expects this number of games."""
    of_game = _result_2048 if rows[0]["game"] == "2048" else _result_daihinmin
    return of_game(rows)._replace(expected=expected)


def _result_2048(rows: Sequence[Row]) -> Result:
    """Return the result of games of 2048; intervals are by bootstrap over games."""
    scores = np.array([row["score"] for row in rows], np.float64)
    largest = np.array([row["max_tile"] for row in rows])
    moves = sum(row["moves"] for row in rows)
    low, high = _interval(scores, np.mean)
    more = {"median": float(np.median(scores))}
    more["median from"], more["median to"] = _interval(scores, np.median)
    more |= {str(tile): float((largest >= tile).mean()) for tile in TILES}
    each = {row["seed"]: float(row["score"]) for row in rows}
    mean = float(scores.mean())
    return Result(*_common(rows), mean, low, high, _seconds(rows) / moves, more, each)


def _seconds(rows: Sequence[Row]) -> float:
    """Return the CPU time of the player, at least a microsecond."""
    return max(1e-6, sum(float(row["cpu_seconds"]) for row in rows))


def _common(rows: Sequence[Row]) -> tuple[str, str, str, int, int]:
    """Return the first fields of a result."""
    row, machines = rows[0], sorted({str(row["machine"]["cpu"]) for row in rows})
    return row["game"], row["name"], " and ".join(machines), row["at_once"], len(rows)


def _interval(values: npt.NDArray[np.float64], of: Any) -> tuple[float, float]:
    """Return the 95% interval of a statistic, by bootstrap; nan for a single value."""
    if len(values) < 2:
        return np.nan, np.nan
    result = bootstrap((values,), of, batch=500, method="percentile", random_state=1)
    low, high = result.confidence_interval
    return float(low), float(high)


def _result_daihinmin(rows: Sequence[Row]) -> Result:
    """Return the result of games of Daihinmin; intervals are over cycles."""
    places, cycles = [], defaultdict[int, list[float]](list)
    ahead: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        place_of = dict(zip(row["players"], row["places"], strict=True))
        mine = place_of[row["name"]]
        places.append(mine)
        cycles[row["seed"]].append(100.0 * (N_PLAYERS - mine))
        for name in OPPONENTS:
            ahead[name].append(mine < place_of[name])
    sums, n_games = [sum(each) for each in cycles.values()], [len(each) for each in cycles.values()]
    mean, half = sum(sums) / len(rows), cycles_half_interval(sums, n_games)
    each = {seed: sum(points) / len(points) for seed, points in cycles.items()}
    more = {of: places.count(i) / len(places) for i, of in enumerate(ORDINALS)}
    more |= {name: float(np.mean(wins)) for name, wins in ahead.items()}
    decisions = max(1, sum(row["decisions"] for row in rows))
    ends = mean - half, mean + half
    return Result(*_common(rows), mean, *ends, _seconds(rows) / decisions, more, each)


def write(results: Sequence[Result], game: str, folder: Path) -> str:
    """Write tables, comma-separated values and figures; return the page in Markdown."""
    ranked = sorted(results, key=lambda each: -each.points)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{game}.csv").write_text(as_csv(ranked), encoding="utf-8")
    (folder / f"{game}_pairs.csv").write_text(pairs(ranked), encoding="utf-8")
    drawn = [f"![{name}]({path.name})" for name, path in draw(ranked, game, folder).items()]
    text = "\n\n".join([table(ranked, game), note(ranked, game), *drawn]) + "\n"
    (folder / f"{game}.md").write_text(text, encoding="utf-8")
    (folder / f"{game}_top.md").write_text(top(ranked, game) + "\n", encoding="utf-8")
    return text


# Tables


def table(ranked: Sequence[Result], game: str) -> str:
    """Return all results as a table in Markdown."""
    return _table_2048(ranked) if game == "2048" else _table_daihinmin(ranked)


def note(ranked: Sequence[Result], game: str) -> str:
    """Return the text below a table."""
    machines = ", ".join(sorted({each.machine for each in ranked}))
    text = NOTES[game].format(opponents=", ".join(OPPONENTS))
    files = f"[All numbers]({game}.csv); [share of seeds won, by pair]({game}_pairs.csv)."
    return f"{text} Times are CPU times of one core: {machines}. {files}"


NOTES = {
    "2048": "Brackets and leads are 95% confidence intervals by bootstrap over games; leads are "
    "over the seeds that both players have played. Players whose lead is not significant cannot be "
    "ranked. "
    "*batch*: games played in parallel, which is faster with neural networks. The N-tuple network "
    "plays whole games in compiled code; the others return one move per call. Blank: never "
    "reached.",
    "daihinmin": "Points are per 100 games; ± and leads are 95% confidence intervals over cycles "
    "of 100 games. Players whose lead is not significant cannot be ranked. Always at the table: "
    "{opponents}; *before* one of them is the share of games finished before it.",
}
"""The text below the table of each game."""


def _table_2048(ranked: Sequence[Result]) -> str:
    """Return scores, tiles that any player reached, and times."""
    reached = [str(tile) for tile in TILES if any(each.more[str(tile)] for each in ranked)]
    head = ["player", "games", "mean score", LEAD, "median", *reached]
    body = []
    for each, more in zip(ranked, leads(ranked), strict=True):
        mean = f"{each.points:,.0f}{_ends(each.low, each.high)}"
        tiles = [_percent(each.more[tile]) for tile in reached]
        ends = _ends(each.more["median from"], each.more["median to"])
        median = f"{each.more['median']:,.0f}{ends}"
        speed = [str(each.batch), f"{1 / each.seconds:,.0f}", _time(each.seconds)]
        body.append([each.name, _games(each), mean, more, median, *tiles, *speed])
    return markdown([*head, "batch", "moves/s", "time per move"], body)


def _table_daihinmin(ranked: Sequence[Result]) -> str:
    """Return points, places, wins against each opponent, and times."""
    head = ["player", "games", "points", LEAD, *ORDINALS]
    ahead = [f"before {name.removeprefix('daihinmin-')}" for name in OPPONENTS]
    body = []
    for each, more in zip(ranked, leads(ranked), strict=True):
        half = "" if np.isnan(each.high) else f"\u00a0±\u00a0{each.high - each.points:.1f}"
        points = f"{each.points:.1f}{half}"
        shares = [_percent(each.more[name]) for name in (*ORDINALS, *OPPONENTS)]
        body.append([each.name, _games(each), points, more, *shares, _time(each.seconds)])
    return markdown([*head, *ahead, "time per decision"], body)


def top(ranked: Sequence[Result], game: str, n: int = 5) -> str:
    """Return the first players with their main figures, as a short table in Markdown."""
    if game == "2048":
        head = ["player", "games", "mean score (95% CI)", "2048", "8192", "16384"]
        body = [
            [
                *(each.name, f"{each.games:,}", f"{each.points:,.0f}{_ends(each.low, each.high)}"),
                *(_percent(each.more[tile]) for tile in head[3:]),
                _time(each.seconds),
            ]
            for each in ranked[:n]
        ]
        return markdown([*head, "CPU time per move"], body)
    head = ["player", "games", "points per 100 games", *ORDINALS[:1], "CPU time per decision"]
    body = [
        [
            *(each.name, f"{each.games:,}", f"{each.points:.1f} ± {each.high - each.points:.1f}"),
            *(_percent(each.more[ORDINALS[0]]), _time(each.seconds)),
        ]
        for each in ranked[:n]
    ]
    return markdown(head, body)


LEAD = "lead over next"


def leads(ranked: Sequence[Result]) -> list[str]:
    """Return the lead of each player over the next, on the seeds of both."""
    return [*(_lead(one, other) for one, other in pairwise(ranked)), ""]


def _lead(one: Result, other: Result) -> str:
    """Return the 95% interval of the difference of two players, if it is significant."""
    low, high = _interval(np.array(_differences(one, other)), np.mean)
    return f"{low:,.0f} to {high:,.0f}" if low > 0 else "not significant"


def _differences(one: Result, other: Result) -> list[float]:
    """Return the difference of two players on each seed of both."""
    return [one.each[seed] - other.each[seed] for seed in one.each if seed in other.each]


def _games(each: Result) -> str:
    """Return the number of games, and the expected one if more are missing."""
    return f"{each.games:,}" + (f" of {each.expected:,}" if each.games < each.expected else "")


def _ends(low: float, high: float) -> str:
    """Return an interval in brackets, which stays on one line; nothing for a single game."""
    return "" if np.isnan(low) else f" ({low:,.0f}\u00a0to\u00a0{high:,.0f})"


def _percent(share: float) -> str:
    """Return a share in percent, nothing for 0."""
    return f"{100 * share:.1f}%" if share else ""


def _time(seconds: float) -> str:
    """Return a time in ms or µs."""
    unit, factor = ("ms", 1e3) if seconds >= 1e-3 else ("µs", 1e6)
    return f"{seconds * factor:,.3g} {unit}"


def as_csv(ranked: Sequence[Result]) -> str:
    """Return the results as comma-separated values, times in seconds."""
    head = ["player", "games", "mean", "low", "high", "cpu_seconds_each", *ranked[0].more]
    head += ["batch", "machine"]
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for each in ranked:
        numbers = (each.points, each.low, each.high, each.seconds, *each.more.values())
        cells = [f"{x:.8g}" for x in numbers]
        writer.writerow([each.name, each.games, *cells, each.batch, each.machine])
    return text.getvalue()


def pairs(ranked: Sequence[Result]) -> str:
    """Return the share of common seeds that each player wins against each other; ties are half."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["more points than", *(each.name for each in ranked)])
    for one in ranked:
        writer.writerow([one.name, *(_ahead(one, other) for other in ranked)])
    return text.getvalue()


def _ahead(one: Result, other: Result) -> str:
    """Return the share of common seeds on which one player has more points than another."""
    if one is other:
        return ""
    both = _differences(one, other)
    return f"{np.mean(np.heaviside(both, 0.5)):.3f}" if both else ""


# Figures


def draw(ranked: Sequence[Result], game: str, folder: Path) -> dict[str, Path]:
    """Draw distributions, and strength against time; return the files by title."""
    unit = "score" if game == "2048" else "points per 100 games"
    paths = {
        "Strength against time": folder / f"{game}_strength.svg",
        "Distribution of points": folder / f"{game}_points.svg",
    }
    with plt.rc_context({"font.size": 9}):
        sizes = (11.0, 6.0), (8.0, 0.4 * len(ranked) + 1.5)
        drawings = zip(paths.values(), (_strength, _distributions), sizes, strict=True)
        for path, drawing, size in drawings:
            figure, axes = plt.subplots(figsize=size, layout="constrained")
            drawing(axes, ranked[::-1], unit)
            figures.save(figure, path)
    return paths


def _distributions(axes: Any, ranked: Sequence[Result], unit: str) -> None:
    """Draw a box for each player: quartiles, and 95% of the games between the whiskers."""
    axes.boxplot(
        [list(each.each.values()) for each in ranked],
        orientation="horizontal",
        whis=(2.5, 97.5),
        sym="",
        tick_labels=[each.name for each in ranked],
    )
    over, scale = ("of games", "log") if unit == "score" else ("in cycles of 100 games", "linear")
    label = f"{unit} {over}: median, quartiles, and 95% between the ends"
    axes.set(xlabel=label, xscale=scale)
    axes.grid(axis="x", alpha=0.3)


def _strength(axes: Any, ranked: Sequence[Result], unit: str) -> None:
    """Draw points against time; a line joins the players that no faster one reaches.

    The strongest players of 2048 have a second plot, on a linear scale.
    """
    per = "move" if unit == "score" else "decision"
    label = f"CPU time per {per} (ms)"
    if unit != "score" or len(ranked) <= N_STRONGEST:
        _plot_strength(axes, ranked, front(ranked))
        axes.set(xscale="log", xlabel=label, ylabel=unit)
        _name(axes, ranked, ranked)
        return
    figure = axes.figure
    axes.remove()
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    _plot_strength(left, ranked, front(ranked))
    left.set(xscale="log", yscale="log", xlabel=label, ylabel=unit)
    strongest = sorted(ranked, key=lambda each: each.points)[-N_STRONGEST:]
    _plot_strongest(right, strongest)
    right.set(xlabel=f"mean {unit}", title=f"the strongest {N_STRONGEST}, time per {per}")
    _name(left, [each for each in ranked if each not in strongest], ranked)


N_STRONGEST = 6
"""Number of players in the part of the figure for the strongest."""


def _plot_strength(axes: Any, shown: Sequence[Result], best: Sequence[Result]) -> None:
    """Plot players in the colors of their families, and the line through the best."""
    for each in shown:
        color = family_color(each.name)
        axes.errorbar(
            1e3 * each.seconds, each.points, _error(each), marker="o", color=color, capsize=2
        )
    line = [[1e3 * each.seconds for each in best], [each.points for each in best]]
    axes.plot(*line, color="0.6", zorder=0, label="stronger than all faster players")
    for color in dict.fromkeys(family_color(each.name) for each in shown[::-1]):
        axes.plot([], [], marker="o", linestyle="", color=color, label=METHODS[color])
    axes.legend(loc="lower right", fontsize="small")
    axes.grid(alpha=0.3)
    axes.margins(x=0.18, y=0.08)


def _plot_strongest(axes: Any, ascending: Sequence[Result]) -> None:
    """Plot a line for each player, with its interval, name and time."""
    for i, each in enumerate(ascending):
        color = family_color(each.name)
        axes.errorbar(each.points, i, xerr=_error(each), marker="o", color=color, capsize=2)
    names = [f"{each.name.replace(', ', chr(10), 1)}\n{_time(each.seconds)}" for each in ascending]
    axes.set_yticks(range(len(names)), names)
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


def _name(axes: Any, ranked: Sequence[Result], shown: Sequence[Result]) -> None:
    """Write names next to their points, so that none covers another name or a point."""
    axes.figure.draw_without_rendering()  # fixes the size of the axes, which names must not change
    axes.figure.set_layout_engine("none")
    places = [(1e3 * each.seconds, each.points) for each in ranked]
    texts = [axes.text(*place, of.name) for place, of in zip(places, ranked, strict=True)]
    right = axes.bbox.x1 - axes.bbox.width / 6
    for text in texts:  # names at the right edge go to the left of their points
        if axes.transData.transform(text.get_position())[0] > right:
            text.set_ha("right")
    lines = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.6}
    options = {"iter_lim": 500, "expand": (1.2, 2.0), "arrowprops": lines}
    points = zip(*((1e3 * each.seconds, each.points) for each in shown), strict=True)
    adjust_text(texts, *points, ax=axes, **options)


def front(results: Sequence[Result]) -> list[Result]:
    """Return the players that are better than all faster ones, fastest first."""
    best: list[Result] = []
    for each in sorted(results, key=lambda each: (each.seconds, -each.points)):
        if not best or each.points > best[-1].points:
            best.append(each)
    return best
