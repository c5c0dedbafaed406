"""Tables and figure of an experiment with rank networks, with the published results.

The sets of a draw have the same five players, so their points are not independent: standard errors
are over draws, never over sets. Pages have 95% intervals, of two standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from afterstate.agents.daihinmin.learning.rank_settings import RankRun
from afterstate.envs.json_files import Row
from afterstate.leaderboard import figures
from afterstate.text_tables import markdown
from benchmarks.experiments.daihinmin.settings import (
    FOLDER,
    Claim,
    Experiment,
    Player,
    without_seed,
)
from benchmarks.experiments.harness import (
    Estimate,
    difference,
    most,
    over_runs,
    processors,
    published_texts,
)

EQUAL_WITHIN = 9
"""Points per 100 games: the paper calls 300 and 309 different, with 32 and 64 channels."""

OURS, PAPER = "#0072b2", "#9a9a9a"
MARKERS = "so^Dv<>P*Xdhp"
"""Of the players, in their order."""

Curves = Mapping[str, Sequence[Row]]
"""The rows of training runs, by name."""


class Result(NamedTuple):
    """Result of a player."""

    draws: pd.Series[float]  # points per 100 games of each draw of five players, by its seed
    rmse: float  # of the network's values against points; nan without a network
    rmse_error: float  # its standard error; nan without a network or with one draw

    @property
    def points(self) -> float:
        """Mean over draws."""
        return float(self.draws.mean())

    @property
    def error(self) -> float:
        """Standard error of the points; nan with one draw."""
        return float(self.draws.sem())

    def contributions(self) -> pd.Series[float]:
        """Return the part of each draw in the standard error, which is the root of their squares.

        They are nan with one draw.
        """
        n = len(self.draws)
        return (self.draws - self.points) / (math.sqrt(n * (n - 1)) if n > 1 else math.nan)


def results(rows: Sequence[Row]) -> dict[str, Result]:
    """Return the results by player."""
    columns = ["players", "points", "visits", "squared_error"]
    seats = pd.DataFrame(rows)[["seed", *columns]].explode(columns)
    seats = seats.astype({name: float for name in columns[1:]})
    by_player = seats.groupby("players", sort=False)
    points = seats.groupby(["players", "seed"])["points"].mean()
    return {str(name): Result(points[name], *_rmse(each)) for name, each in by_player}


def _rmse(seats: pd.DataFrame) -> tuple[float, float]:
    """Return the error of a network's values over its decisions, and its standard error.

    Both are nan without a network. The standard error is that of a ratio of sums over draws.
    """
    with_network = seats.dropna(subset=["squared_error"])
    sums = with_network.groupby("seed")[["squared_error", "visits"]].sum()
    n, visits = len(sums), sums["visits"].sum()
    if not visits:
        return math.nan, math.nan
    square = sums["squared_error"].sum() / visits
    parts = (sums["squared_error"] - square * sums["visits"]) / visits
    error = math.sqrt((parts**2).sum() * n / (n - 1)) if n > 1 else math.nan
    return math.sqrt(square), error / (2 * math.sqrt(square))


def gap(one: Result, other: Result) -> tuple[float, float]:
    """Return the lead of one player over another in points, with its standard error.

    In a draw with both, their points are not independent: one player's gain is the others' loss.
    """
    parts = one.contributions(), other.contributions()
    draws = parts[0].index.union(parts[1].index)
    ours, theirs = (each.reindex(draws, fill_value=0.0) for each in parts)
    return one.points - other.points, math.hypot(*(ours - theirs))


def runs_of(name: str, by_player: Mapping[str, Result]) -> list[Result]:
    """Return the results of a player: of its network, or of one for each seed it learned with."""
    return [result for player, result in by_player.items() if without_seed(player) == name]


def points_of(runs: Sequence[Result]) -> Estimate:
    """Return the points of a player with half of the interval, over runs if there are several."""
    return over_runs([Estimate(each.points, 2 * each.error) for each in runs])


def rmse_of(runs: Sequence[Result]) -> Estimate:
    """Return the RMSE of a player with half of the interval, over runs if there are several."""
    return over_runs([Estimate(each.rmse, 2 * each.rmse_error) for each in runs])


def lead(first: Sequence[Result], second: Sequence[Result]) -> tuple[float, float]:
    """Return the lead of one player over another in points, with half of its 95% interval.

    It is over draws if each learned once, and over runs (Welch) if each has several; a player with
    one run has no interval over runs.
    """
    if len(first) == len(second) == 1:
        points, error = gap(first[0], second[0])
        return points, 2 * error
    apart = difference(points_of(first), points_of(second))
    return apart.mean, apart.half_interval


def comparison(claim: Claim, by_player: Mapping[str, Result]) -> str:
    """Return how the players of a claim of the paper compare here, in words."""
    first, second = (runs_of(name, by_player) for name in claim.players)
    if not first or not second:
        return "not measured"
    points, half = lead(first, second)
    if math.isnan(half):
        return f"{points:+.1f}: too few draws or runs for an interval"
    is_significant = abs(points) > half
    if claim.equal:
        word = "a significant difference" if is_significant else "no significant difference"
        word += f", less than {EQUAL_WITHIN} apart" if abs(points) + half < EQUAL_WITHIN else ""
    else:
        word = "same, " if points > 0 else "opposite, "
        word += "significant" if is_significant else "not significant"
    return f"{points:+.1f} ± {half:.1f}: {word}"


def learned(run: RankRun, rows: Sequence[Row]) -> tuple[int, float, float]:
    """Return the extent of a network's training, by its settings and rows.

    Returns:
        Number of iterations, number of samples, and mean number of uses of a sample.
    """
    n_held = math.ceil(run.window / run.games)  # generations whose games are in the window
    trained = [row for row in rows if "samples" in row]
    iterations = most(trained, "iterations")
    samples = sum(row["samples"] / min(row["generation"], n_held) for row in trained)
    used = iterations * run.learner.batch
    return iterations, samples, used / samples if samples else math.nan


# Tables


def _cell(value: float | None, digits: int = 1, error: float | None = None) -> str:
    """Return a number of a table, with the 95% interval of its standard error."""
    if value is None or math.isnan(value):
        return "-"
    spread = "" if error is None or math.isnan(error) else f" ± {2 * error:.{digits}f}"
    return f"{value:.{digits}f}{spread}"


def training_table(experiment: Experiment, curves: Curves) -> str:
    """Return the table of the extent of training, as in Table 5 of the paper."""
    head = ["network", "iterations", "samples", "uses of each", "paper: iterations", "paper: uses"]
    players = experiment.players
    names = [
        name
        for name, player in players.items()
        if name in curves or (player.published and player.published.iterations)
    ]
    body, runs = [], experiment.runs()
    for name in [*names, *(name for name in curves if name not in players)]:
        iterations, ours = 0, ["-"] * 3
        if (run := runs.get(without_seed(name))) is not None:
            iterations, samples, uses = learned(run, curves.get(name, []))
        if iterations:
            ours = [f"{iterations:,}", f"{samples:,.0f}", f"{uses:.2f}"]
        body.append([name, *ours, *_published_training(experiment, players.get(name, Player()))])
    return markdown(head, body)


def _published_training(experiment: Experiment, player: Player) -> list[str]:
    """Return the published iterations of a network, and the uses of each sample."""
    iterations = player.published.iterations if player.published else None
    if iterations is None:
        return ["-", "-"]
    # An iteration of the paper is a game; self-play adds new games during training.
    is_new = player.is_from_self_play
    return [f"{iterations:,.0f}", "-" if is_new else f"{iterations / experiment.paper_games:.0f}"]


def points_table(experiment: Experiment, by_player: Mapping[str, Result]) -> str:
    """Return the table of points and errors of values."""
    head = ["player", "runs", "draws", "points per 100", "RMSE", "paper: points", "paper: RMSE"]
    body = []
    for name, player in experiment.players.items():
        ours, theirs, cells = runs_of(name, by_player), player.published, ["-"] * 4
        if ours:
            points, rmse = points_of(ours), rmse_of(ours)
            n_runs = "-" if math.isnan(rmse.mean) else str(len(ours))
            numbers = [n_runs, str(sum(len(each.draws) for each in ours))]
            cells = [*numbers, _cell(points.mean, 1, points.half_interval / 2)]
            cells += [_cell(rmse.mean, 3, rmse.half_interval / 2)]
        published = [_cell(theirs.points, 1, theirs.error), _cell(theirs.rmse, 3)] if theirs else []
        body.append([name, *cells, *(published or ["-", "-"])])
    others = experiment.others.items()
    error = experiment.others_error
    return markdown(head, [*body, *([n, *["-"] * 4, _cell(p, 1, error), "-"] for n, p in others)])


def claims_table(experiment: Experiment, by_player: Mapping[str, Result]) -> str:
    """Return the table of the pairs of players that the paper compares."""
    head = ["the paper says", "points of", "here"]
    body = []
    for claim in experiment.claims:
        pair = (" as " if claim.equal else " above ").join(claim.players)
        body.append([claim.says, pair, comparison(claim, by_player)])
    return markdown(head, body)


def correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the correlation of points and errors of values; nan for fewer than three pairs."""
    return float(np.corrcoef(np.transpose(pairs))[0, 1]) if len(pairs) > 2 else math.nan


def correlations(experiment: Experiment, by_player: Mapping[str, Result]) -> str:
    """Return the correlation of points and errors, ours and the paper's.

    Ours comes with the range without any one network: an outlier shows in it.
    """
    names = dict.fromkeys(map(without_seed, by_player))
    every = [runs_of(name, by_player) for name in names]
    means = [(points_of(runs).mean, rmse_of(runs).mean) for runs in every]
    ours = [(points, rmse) for points, rmse in means if not math.isnan(rmse)]
    without = [correlation([*ours[:i], *ours[i + 1 :]]) for i in range(len(ours))] or [math.nan]
    published = [each.published for each in experiment.players.values() if each.published]
    theirs = [(each.points, each.rmse) for each in published]
    return (
        "Correlation of points and RMSE over networks: "
        f"{_cell(correlation(ours), 2)} (without any one of them {_cell(min(without), 2)} to "
        f"{_cell(max(without), 2)}), in the paper {_cell(correlation(theirs), 2)} "
        "(its text: the stronger, the smaller the RMSE)."
    )


def commands(
    experiment: Experiment, name: str, by_player: Mapping[str, Result], n_draws: int
) -> tuple[str, str]:
    """Return the commands that train the networks and play the draws."""
    command = f"python -m benchmarks.experiments.daihinmin.run {name}"
    n_seeds = max((len(runs_of(player, by_player)) for player in experiment.players), default=1)
    runs = "--runs runs" + (f" --repeats {n_seeds}" if n_seeds > 1 else "")
    play = f"{command} play {runs} --draws {n_draws}"
    if "Self" in experiment.players:
        play += " --self-play runs/generations/all/net.safetensors"
    return f"{command} train {runs}", play


def took(rows: Sequence[Row], curves: Curves) -> str:
    """Return the hours of learning, and where rows have them core hours of play and processors."""
    learned = [max((row.get("seconds", 0) for row in run), default=0) for run in curves.values()]
    played = sum(row.get("seconds", 0) for row in rows)
    every = [*rows, *(row for run in curves.values() for row in run)]
    text = f"Learning took {sum(learned) / 3600:.1f} hours"
    if played:
        text += f" and playing {played / 3600:.1f} core hours"
    cpus = processors(every)
    return f"{text} ({', '.join(cpus)})." if cpus else f"{text}."


def n_games(experiment: Experiment) -> int:
    """Return the number of games that a network learns from in all."""
    return experiment.generations * max(run.games for run in experiment.runs().values())


def shares_of_uses(experiment: Experiment, curves: Curves) -> list[float]:
    """Return the shares of the paper's samples, counting each use, of networks that it has."""
    return [
        learned(run, curves[name])[2] * n_games(experiment) / published.iterations
        for name, run in experiment.runs().items()
        if name in curves and (published := experiment.players.get(name, Player()).published)
        if published.iterations
    ]


def scale(experiment: Experiment, shares: Sequence[float]) -> str:
    """Return how many games the networks learn from, and how often, here and in the paper."""
    ours, theirs = n_games(experiment), experiment.paper_games
    text = (
        f"Scale: networks learn from {ours:,} games in all, {ours / theirs:.1%} of the paper's "
        f"{theirs:,}."
    )
    if shares:
        text += f" Counting each use, they learn from at most {max(shares):.2%} of its samples."
    return text


def page(
    experiment: Experiment,
    name: str,
    rows: Sequence[Row],
    curves: Curves,
    verdicts: Sequence[str] = (),
) -> str:
    """Return the page of an experiment in Markdown.

    Args:
        experiment: the experiment.
        name: its name or settings file, for the commands of the page.
        rows: those of its draws.
        curves: those of its training runs.
        verdicts: its section of verdicts, if it has one.
    """
    by_player = results(rows)
    n_draws = len({row["seed"] for row in rows})
    train, play = commands(experiment, name, by_player, n_draws)
    shares = shares_of_uses(experiment, curves)
    sections = [
        f"# {experiment.title}",
        f"{experiment.paper}: {experiment.shows}. {scale(experiment, shares)}",
        f"`{train}`, then `{play}`, repeat this page. "
        f"{took(rows, curves)} {100 * len(rows):,} games: {n_draws:,} draws of five, who "
        f"played {len(rows):,} sets of 100. ± is half the 95% confidence interval over draws, "
        "twice the standard error, also of the paper. Intervals and verdicts do not cover learning "
        "where a network learned once; with several runs they are over runs, by Student's "
        "distribution.",
        *verdicts,
        "## Points",
        points_table(experiment, by_player),
        claims_table(experiment, by_player),
        correlations(experiment, by_player),
        "## Learning",
        "Training samples, and the number of times that each was used; in the paper an iteration "
        "uses the samples of about one game.",
        training_table(experiment, curves),
        "## Readings",
        "\n".join(f"- {reading}" for reading in experiment.readings),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


# Figure


def _draw_points(axes: Axes, experiment: Experiment, by_player: Mapping[str, Result]) -> None:
    """Draw points by player, ours and the paper's."""
    for i, (name, player) in enumerate(experiment.players.items()):
        theirs, ours = player.published, runs_of(name, by_player)
        if theirs:
            axes.errorbar(theirs.points, i, xerr=2 * theirs.error, fmt="o", color=PAPER)
        if ours:
            points = points_of(ours)
            axes.errorbar(points.mean, i, xerr=points.half_interval, fmt="s", color=OURS)
    axes.set_yticks(range(len(experiment.players)), list(experiment.players))
    axes.invert_yaxis()
    axes.set_xlabel("points per 100 games")
    axes.plot([], [], "s", color=OURS, label="here")
    axes.plot([], [], "o", color=PAPER, label="paper, other opponents")
    axes.legend(frameon=False)


def _draw_scatter(axes: Axes, experiment: Experiment, by_player: Mapping[str, Result]) -> None:
    """Draw errors of values against points, a marker for each player."""
    for (name, player), marker in zip(experiment.players.items(), cycle(MARKERS), strict=False):
        theirs, ours = player.published, runs_of(name, by_player)
        if theirs:
            axes.plot(theirs.points, theirs.rmse, marker, color=PAPER)
        if ours and not math.isnan(rmse_of(ours).mean):
            axes.plot(points_of(ours).mean, rmse_of(ours).mean, marker, color=OURS, label=name)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, title="gray: in the paper")
    axes.set_xlabel("points per 100 games")
    axes.set_ylabel("RMSE of value against points")


def _draw_curves(axes: Axes, curves: Curves, key: str, label: str) -> None:
    """Draw a quantity against generations."""
    for name, rows in curves.items():
        points = [(row["generation"], row[key]) for row in rows if row.get(key) is not None]
        if points:
            axes.plot(*np.transpose(points), marker=".", label=name)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("generation")
    axes.set_ylabel(label)
    if len(axes.lines) > 1:
        axes.legend(frameon=False, fontsize=7)


def write(
    experiment: Experiment, name: str, rows: Sequence[Row], curves: Curves, path: Path
) -> None:
    """Write the page and the figure, the same files for the same rows.

    Args:
        experiment: the experiment.
        name: its name or settings file, for the commands of the page.
        rows: those of its draws.
        curves: those of its training runs.
        path: of the files, without the ends of their names.
    """
    verdicts = published_texts(FOLDER, path.parent, [f"{path.stem}.md"], path.stem)
    text = page(experiment, name, rows, curves, verdicts)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    by_player = results(rows)
    with plt.rc_context({"font.size": 9}):
        figure, panels = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
        figure.suptitle(experiment.title)
        _draw_points(panels[0, 0], experiment, by_player)
        _draw_scatter(panels[0, 1], experiment, by_player)
        against = "points per 100 against sample clients"
        _draw_curves(panels[1, 0], curves, "against_sample", against)
        _draw_curves(panels[1, 1], curves, "rmse", "RMSE on new games")
        figures.save(figure, path.with_suffix(".svg"), experiment.title, bbox_inches=None)
