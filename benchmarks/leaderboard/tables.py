"""Tables of the leaderboard in Markdown and as comma-separated values, from its results."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from io import StringIO
from itertools import pairwise
from pathlib import Path

import numpy as np

from afterstate.agents.training.evaluation import half_interval
from afterstate.envs.daihinmin.render import PLACES
from afterstate.leaderboard.figures import draw
from afterstate.leaderboard.games import OPPONENTS
from afterstate.leaderboard.results import TILES, Result, interval, time_text
from afterstate.text_tables import markdown


def write(results: Sequence[Result], game: str, folder: Path) -> str:
    """Write tables, comma-separated values and figures; return the page in Markdown."""
    ranked = sorted(results, key=lambda each: -each.points)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{game}.csv").write_text(as_csv(ranked), encoding="utf-8")
    for name, (head, cell) in PAIRS.items():
        text = pairs(ranked, head, cell)
        (folder / f"{game}_{name}.csv").write_text(text, encoding="utf-8")
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
    text = NOTES[game].format(opponents=", ".join(OPPONENTS))
    files = (
        f"[All numbers]({game}.csv); by pair, on the seeds of both: [share of seeds won]"
        f"({game}_pairs.csv) and [mean difference with its 95% interval]({game}_differences.csv)."
    )
    return f"{text} {machines(ranked)} {files}"


def machines(ranked: Sequence[Result]) -> str:
    """Return the sentence that says which machines played; with several, which players on each."""
    names: dict[str, list[str]] = {}
    for each in sorted(ranked, key=lambda each: each.machine):
        names.setdefault(each.machine, []).append(f"*{each.name}*")
    if len(names) == 1:
        return f"Times are CPU times of one core: {next(iter(names))}."
    parts = "; ".join(f"{machine}: {', '.join(players)}" for machine, players in names.items())
    return f"Times are CPU times of one core, not comparable between machines: {parts}."


NOTES = {
    "2048": "Brackets and leads are 95% confidence intervals by bootstrap over games; leads are "
    "over the seeds that both players have played. Players whose lead is not significant cannot be "
    "ranked. "
    "*batch*: games played in parallel, which is faster with neural networks. The N-tuple network "
    "and expectimax play whole games in compiled code; the others return one move per call. Blank: "
    "never reached.",
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
        speed = [str(each.batch), f"{1 / each.seconds:,.0f}", time_text(each.seconds)]
        body.append([each.name, _games_text(each), mean, more, median, *tiles, *speed])
    return markdown([*head, "batch", "moves/s", "time per move"], body)


def _table_daihinmin(ranked: Sequence[Result]) -> str:
    """Return points, places, wins against each opponent, and times."""
    head = ["player", "games", "points", LEAD, *PLACES]
    ahead = [f"before {name.removeprefix('daihinmin-')}" for name in OPPONENTS]
    body = []
    for each, more in zip(ranked, leads(ranked), strict=True):
        points = _points(each, "\u00a0±\u00a0")
        shares = [_percent(each.more[name]) for name in (*PLACES, *OPPONENTS)]
        body.append([each.name, _games_text(each), points, more, *shares, time_text(each.seconds)])
    return markdown([*head, *ahead, "time per decision"], body)


def top(ranked: Sequence[Result], game: str, n: int = 5) -> str:
    """Return the first players with their main figures, as a short table in Markdown."""
    if game == "2048":
        head = ["player", "games", "mean score (95% CI)", "2048", "8192", "16384"]
        body = [
            [
                *(each.name, f"{each.games:,}", f"{each.points:,.0f}{_ends(each.low, each.high)}"),
                *(_percent(each.more[tile]) for tile in head[3:]),
                time_text(each.seconds),
            ]
            for each in ranked[:n]
        ]
        return markdown([*head, "CPU time per move"], body)
    head = ["player", "games", "points per 100 games", *PLACES[:1], "CPU time per decision"]
    body = [
        [
            *(each.name, f"{each.games:,}", _points(each, " ± ")),
            *(_percent(each.more[PLACES[0]]), time_text(each.seconds)),
        ]
        for each in ranked[:n]
    ]
    return markdown(head, body)


def _points(result: Result, sign: str) -> str:
    """Return points with half of their interval, if it is known."""
    half = result.high - result.points
    return f"{result.points:.1f}" if np.isnan(half) else f"{result.points:.1f}{sign}{half:.1f}"


LEAD = "lead over next"


def leads(ranked: Sequence[Result]) -> list[str]:
    """Return the lead of each player over the next, on the seeds of both."""
    return [*(_lead(one, other) for one, other in pairwise(ranked)), ""]


def _lead(one: Result, other: Result) -> str:
    """Return the 95% interval of the difference of two players, if it is significant."""
    low, high = interval(np.array(_differences(one, other)), np.mean)
    return f"{low:,.0f} to {high:,.0f}" if low > 0 else "not significant"


def _differences(one: Result, other: Result) -> list[float]:
    """Return the difference of two players on each seed of both."""
    return [one.each[seed] - other.each[seed] for seed in one.each if seed in other.each]


def _games_text(each: Result) -> str:
    """Return the number of games, and the expected one if more are missing."""
    return f"{each.games:,}" + (f" of {each.expected:,}" if each.games < each.expected else "")


def _ends(low: float, high: float) -> str:
    """Return an interval in brackets, which stays on one line; nothing for a single game."""
    return "" if np.isnan(low) else f" ({low:,.0f}\u00a0to\u00a0{high:,.0f})"


def _percent(share: float) -> str:
    """Return a share in percent, nothing for 0."""
    return f"{100 * share:.1f}%" if share else ""


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


def pairs(ranked: Sequence[Result], head: str, cell: Callable[[Sequence[float]], str]) -> str:
    """Return a table of all pairs of players, as comma-separated values.

    Args:
        ranked: the players.
        head: what the first player of a pair, whose name is to the left, has more or less.
        cell: the text of a pair, by the differences of points on the seeds of both.
    """
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([head, *(each.name for each in ranked)])
    for one in ranked:
        cells = ["" if other is one else cell(_differences(one, other)) for other in ranked]
        writer.writerow([one.name, *cells])
    return text.getvalue()


def share_won(differences: Sequence[float]) -> str:
    """Return the share of positive differences; ties are half."""
    return f"{np.mean(np.heaviside(differences, 0.5)):.3f}" if differences else ""


def mean_difference(differences: Sequence[float]) -> str:
    """Return the mean with half of its 95% interval, from two differences on."""
    if len(differences) < 2:
        return ""
    return f"{np.mean(differences):.1f} ± {half_interval(differences):.1f}"


PAIRS = {
    "pairs": ("more points than", share_won),
    "differences": ("points more than", mean_difference),
}
"""The tables of all pairs, by the ends of their names, with head and cell: see `pairs`."""
