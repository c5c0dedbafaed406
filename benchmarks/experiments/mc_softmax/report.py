"""Tables and figures of the Monte-Carlo Softmax experiments."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from afterstate.agents.training.run import N_RECENT
from afterstate.envs import json_files
from afterstate.envs.json_files import Row
from afterstate.leaderboard import figures
from afterstate.text_tables import markdown
from benchmarks.experiments.entries import (
    cost,
    half_interval_of,
    latest,
    mean_text,
    rows_by_id,
    score,
    took,
)
from benchmarks.experiments.harness import (
    INTERVALS,
    Estimate,
    ExperimentFolder,
    over_runs,
    published_texts,
)
from benchmarks.experiments.mc_softmax.settings import HERE, Experiment, Measure

FILES = {
    "regrets": "regrets.jsonl",
    "scores": "games.jsonl",
    "learners": "learning.jsonl",
    "temperature": "temperature.json",
}
"""Files of the results."""

NETWORKS = {
    "ntuple": "the N-tuple network",
    "ntuple, batched": "the N-tuple network, boards in one batch",
    "value-net": "CNN22",
}

PAPER = "the paper's settings: L-max, best"

Curve: TypeAlias = list[tuple[int, float]]
"""Numbers of moves with a value."""

MIN_GAMES_SHOWN = 4
"""Games that an interval needs to be shown: of fewer it would be larger than the figure."""

MIN_GAMES = 20
"""Games that a mean score needs while learning."""


def rows(folder: ExperimentFolder[Experiment], measure: Measure, group: str) -> list[Row]:
    """Return the latest rows of a group in a folder, in the order of the settings.

    There are none if the settings do not have the group.
    """
    if group not in folder.experiment.groups(measure):
        return []
    return latest(folder.path / FILES[measure], folder.experiment.entries(measure, [group]))


def policies(folder: ExperimentFolder[Experiment], measure: Measure) -> str:
    """Return the regrets or scores of all pairs of policies."""
    pairs = {
        (row["settings"]["select"], row["settings"]["backup"]): mean_text(row)
        for row in rows(folder, measure, "policies")
    }
    backups = list(dict.fromkeys(backup for _, backup in pairs))
    body = [
        [select, *(pairs.get((select, backup), "") for backup in backups)]
        for select in dict.fromkeys(select for select, _ in pairs)
    ]
    return markdown(["select, back up by", *backups], body)


def simulations(folder: ExperimentFolder[Experiment], network: str) -> str:
    """Return and draw the scores by simulations, with those of other searches of the network.

    The published scores are of a network that learned far longer.
    """
    every = rows(folder, "scores", "simulations")
    played = by_kind([row for row in every if row["settings"]["network"] == network])
    others = by_ply(folder, network)
    draw_simulations(folder, network, played, others)
    body = []
    for kind, group in played.items():
        for row in group:
            n = row["settings"]["simulations"]
            theirs = published_score(folder, kind, n)
            body.append([f"{n:,} simulations", kind, *score_cells(row), theirs])
    for ply, row in others.items():
        theirs = number(folder.experiment.published.searches.get(ply))
        body.append([ply, "", *score_cells(row), theirs])
    head = ["", "", "mean score", "games", "µs of CPU a move", "published, CNN22"]
    return markdown(head, body)


def by_ply(folder: ExperimentFolder[Experiment], network: str) -> dict[str, Row]:
    """Return the rows of the other searches of a network, by their depth."""
    players = ("ntuple", "expectimax") if network == "ntuple" else ("value-net",)
    lines = [row for row in rows(folder, "scores", "lines") if row["player"] in players]
    return {f"{row['settings'].get('depth', 1)}-ply": row for row in lines}


def draw_simulations(
    folder: ExperimentFolder[Experiment],
    network: str,
    played: Mapping[str, Sequence[Row]],
    others: Mapping[str, Row],
) -> None:
    """Draw the scores by simulations, those of other searches as lines, and the published ones."""
    _, axes = plt.subplots(figsize=(7, 4.5))
    for kind, group in played.items():
        x, means = [row["settings"]["simulations"] for row in group], [r["mean"] for r in group]
        halves = [half_interval_of(row) if has_interval(row) else math.nan for row in group]
        axes.errorbar(x, means, halves, marker="o", capsize=3, label=kind)
    for i, (ply, row) in enumerate(others.items()):
        axes.axhline(row["mean"], color=f"C{3 + i}", linestyle="--", label=ply)
    published = folder.experiment.published
    numbers, points = list(published.simulations), list(published.simulations.values())
    axes.plot(numbers, points, "k*", label="published, CNN22")
    for i, (ply, mean) in enumerate(published.searches.items()):
        style = (":", "-.")[i % 2]
        axes.axhline(mean, color="black", linestyle=style, label=f"published, {ply}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set(xscale="log", xlabel="simulations per move", ylabel="mean score", ylim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    figures.save(axes.figure, folder.path / f"simulations_{network}.svg")


def has_interval(row: Row) -> bool:
    """Return True if a row has enough games for an interval to be shown."""
    return bool(row["n_games"] >= MIN_GAMES_SHOWN)


def score_cells(row: Row) -> list[str]:
    """Return the cells of a score, its games and its cost."""
    mean = mean_text(row) if has_interval(row) else f"{row['mean']:,.0f}"
    return [mean, f"{row['n_games']}", cost(row)]


def number(score: int | None) -> str:
    """Return a score of the paper as text, empty if it has none."""
    return "" if score is None else f"{score:,}"


def by_kind(played: list[Row]) -> dict[str, list[Row]]:
    """Return rows by their selection, the value of unvisited outcomes, and the size of batches."""
    groups: dict[str, list[Row]] = {}
    for row in played:
        options = row["settings"]
        kind = f"{options['select']}, unvisited: {options['unvisited']}"
        kind = PAPER if kind == "L-max, unvisited: outcomes" else kind
        leaves = f", batches of {options['leaves']} leaves" if "leaves" in options else ""
        groups.setdefault(kind + leaves, []).append(row)
    return groups


def of_other_networks(folder: ExperimentFolder[Experiment]) -> str:
    """Return the scores by simulations of networks that are not the experiment's."""
    known, names = {*folder.experiment.networks.values()}, folder.experiment.other_networks
    every = rows_by_id(folder.path / FILES["scores"]).values()
    played = [row for row in every if row["group"] == "simulations"]
    body: list[list[str]] = []
    for kind, group in by_kind(played).items():
        for row in group:
            if (digits := row["network_sha256"]) not in known:
                n = row["settings"]["simulations"]
                network = names[digits] if digits in names else digits
                theirs = published_score(folder, kind, n)
                body.append([network, f"{n:,}", kind, *score_cells(row), theirs])
    head = ["network", "simulations", "", "mean score", "games", "µs of CPU a move"]
    return markdown([*head, "published, CNN22"], body) if body else ""


def published_score(folder: ExperimentFolder[Experiment], kind: str, n: int) -> str:
    """Return the published score of a number of simulations as text, empty if there is none."""
    scores = folder.experiment.published.simulations if kind.startswith(PAPER) else {}
    return number(scores.get(n))


def by_settings(folder: ExperimentFolder[Experiment], measure: Measure, group: str) -> str:
    """Return players by their settings: regret and share of best moves, or score and time."""
    of_regrets, of_scores = ["regret", "best moves, %"], ["mean score", "µs of CPU a move"]
    body = []
    for row in rows(folder, measure, group):
        options = {k: v for k, v in row["settings"].items() if k != "network"}
        text = ", ".join(f"{name} {value}" for name, value in options.items())
        network = NETWORKS[row["settings"].get("network", "ntuple")]
        last = f"{100 * row['best_moves']:.1f}" if measure == "regrets" else cost(row)
        body.append([row["player"], text, network, mean_text(row), last])
    heads = of_regrets if measure == "regrets" else of_scores
    return markdown(["player", "settings", "network", *heads], body)


def scores(evaluations: list[Row], window: float | None) -> Curve:
    """Return numbers of moves, and the mean score of the games that ended in the moves before.

    Rows have the mean of the last 1,000 games. If a learner has played fewer, their sum is known,
    and so is that of the games since an earlier row. The mean of a later row is that of the last
    1,000 games.

    Args:
        evaluations: rows of a learner.
        window: number of moves of the mean; by default it is that of the last 1,000 games.
    """
    recent = [(row["n_moves"], row["mean_score"]) for row in evaluations if _has_mean(row)]
    if window is None:
        return recent
    n_known = sum(row["n_games"] <= N_RECENT for row in evaluations)
    later, evaluations = evaluations[n_known:], evaluations[:n_known]
    moves = [0, *(row["n_moves"] for row in evaluations)]
    games = [0, *(row["n_games"] for row in evaluations)]
    sums = [0.0, *(row["n_games"] * (row["mean_score"] or 0) for row in evaluations)]
    curve = []
    for i in range(1, len(moves)):
        before = bisect.bisect_left(moves, moves[i] - window)
        n_games = games[i] - games[before]
        if n_games >= MIN_GAMES:
            curve.append((moves[i], (sums[i] - sums[before]) / n_games))
    return curve + recent[len(recent) - len(later) :]


def _has_mean(row: Row) -> bool:
    """Return True if a row is of enough games for their mean."""
    return bool(row["n_games"] >= MIN_GAMES)


def learner_rows(
    folder: ExperimentFolder[Experiment], experiment: str
) -> dict[str, list[list[Row]]]:
    """Return the rows of an experiment by the name of the learner, a list for each of its seeds.

    Rows of learners with other settings than those of the experiment do not count.
    """
    groups: dict[str, dict[int, list[Row]]] = {}
    for row in json_files.rows(folder.path / FILES["learners"]):
        if row["experiment"] == experiment and _is_of(folder.experiment, row):
            groups.setdefault(row["run"], {}).setdefault(row["seed"], []).append(row)
    return {run: list(seeds.values()) for run, seeds in groups.items()}


def _is_of(experiment: Experiment, row: Row) -> bool:
    """Return True if a row is of a learner with the settings of the experiment."""
    known = row["run"] in experiment.learners[row["experiment"]].runs
    names = row["experiment"], row["run"], row["seed"]
    return known and row.get("settings") == experiment.learner_plan(*names).digest


def evaluated(rows: list[Row]) -> list[Row]:
    """Return the rows of a learner that have an evaluation."""
    return [row for row in rows if "1-ply" in row]


def learner_cells(seeds: list[list[Row]], window: float | None) -> list[str]:
    """Return the results of a learner, by the rows of each of its runs."""
    curves = [curve for rows in seeds if (curve := scores(evaluated(rows), window))]
    moves = [max(row["n_moves"] for row in rows) for rows in seeds]
    best = [max(mean for _, mean in curve) for curve in curves]
    last = [curve[-1][1] for curve in curves]
    searches = [score(row["search_play"]) for row in chain(*seeds) if "search_play" in row]
    greedy = [score(rows[-1]["1-ply"]) for rows in map(evaluated, seeds) if rows]
    while_learning = ([Estimate(mean, math.nan) for mean in means] for means in (best, last))
    results = [mean_of(each, len(seeds)) for each in (*while_learning, searches, greedy)]
    diverged = [f"diverged: {divergence(row)}" for row in chain(*seeds) if "diverged" in row]
    n_moves = f"{sum(moves) / len(moves):,.0f}"
    return [str(len(seeds)), n_moves, *results, "; ".join(diverged)]


def mean_of(runs: list[Estimate], n_runs: int) -> str:
    """Return the mean over runs, with the number of runs that have a result if not all have one."""
    if not runs:
        return ""
    return str(over_runs(runs)) + (f" ({len(runs)} runs)" if len(runs) < n_runs else "")


def draw_curves(axes: Axes, curves: Sequence[Curve], label: str, color: str) -> None:
    """Draw the curves of a learner's runs in one color."""
    for i, curve in enumerate(curves):
        x, y = [n for n, _ in curve], [value for _, value in curve]
        axes.plot(x, y, marker=".", color=color, label="" if i else label)


def learning(folder: ExperimentFolder[Experiment], experiment: str) -> str:
    """Return the results of the learners of an experiment, and draw their curves.

    The curves are of the games that they learn from, as in the paper.
    """
    window = folder.experiment.learners[experiment].window
    learned = learner_rows(folder, experiment)
    _, axes = plt.subplots(figsize=(7, 4.5))
    body = []
    for i, (run, seeds) in enumerate(learned.items()):
        draw_curves(axes, [scores(evaluated(rows), window) for rows in seeds], run, f"C{i}")
        body.append([run, *learner_cells(seeds, window)])
    lately = _lately(window, [row for seeds in learned.values() for row in chain(*seeds)])
    axes.set(xlabel="moves", ylabel=f"mean score, {lately}", ylim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    figures.save(axes.figure, folder.path / f"{file_name(experiment)}.svg")
    n_games = f"then, {folder.experiment.searched} games"
    head = ["learner", "runs", "moves", f"best mean score while learning, {lately}"]
    table = markdown([*head, "at the end", n_games, "greedy, 100 games", ""], body)
    return f"{INTERVALS}\n\n{table}"


def _lately(window: float | None, rows: Sequence[Row]) -> str:
    """Return what the mean scores while learning are of."""
    if window is None:
        return "last 1,000 games, or all so far"
    has_more = any(row.get("n_games", 0) > N_RECENT for row in rows)
    return f"last {window:,.0f} moves" + (", or 1,000 games from then on" if has_more else "")


def divergence(row: Row) -> str:
    """Return the mean value of boards when values had diverged, as text."""
    last = row["diverged"]
    return f"boards were worth {last['searched']:,.0f} on average" if last else "no numbers"


def board_values(rows: list[Row]) -> Curve:
    """Return numbers of moves, and the mean value of boards after them."""
    return [
        (row["n_moves"], {**row, **row.get("diverged", {})}["searched"])
        for row in rows
        if "diverged" in row or "searched" in row
    ]


def growth(folder: ExperimentFolder[Experiment], experiment: str) -> str:
    """Draw the mean value of boards in the course of learning; return the figure's name."""
    _, axes = plt.subplots(figsize=(7, 4.5))
    for i, (run, seeds) in enumerate(learner_rows(folder, experiment).items()):
        draw_curves(axes, [board_values(rows) for rows in seeds], run, f"C{i}")
    axes.set(xlabel="moves", ylabel="mean value of boards", yscale="log")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    name = f"{file_name(experiment)}_values.svg"
    figures.save(axes.figure, folder.path / name)
    return name


def file_name(experiment: str) -> str:
    """Return the name of an experiment in files."""
    return experiment.replace(" ", "_")


def player_sections(folder: ExperimentFolder[Experiment]) -> list[str]:
    """Return the sections of players that have rows."""
    heads: dict[Measure, str] = {"regrets": "regrets", "scores": "mean scores"}
    parts = []
    for measure, head in heads.items():
        if rows(folder, measure, "policies"):
            parts += [f"## Policies of selection and backup: {head}", policies(folder, measure)]
    networks = {row["settings"]["network"] for row in rows(folder, "scores", "simulations")}
    for network in (each for each in NETWORKS if each in networks):
        parts += [f"## Simulations, {NETWORKS[network]}", simulations(folder, network)]
        parts += [f"![](simulations_{network}.svg)"]
    if others := of_other_networks(folder):
        parts += ["## Simulations, other networks", others]
    for measure in heads:
        for group in folder.experiment.groups(measure):
            if group not in ("policies", "simulations", "lines") and rows(folder, measure, group):
                parts += [f"## {group[0].upper()}{group[1:]}: {measure}"]
                parts += [by_settings(folder, measure, group)]
    return parts


def learner_sections(folder: ExperimentFolder[Experiment]) -> list[str]:
    """Return the sections of experiments that have rows."""
    parts = []
    for experiment, plan in folder.experiment.learners.items():
        if learner_rows(folder, experiment):
            parts += [f"## Learning, {experiment}", plan.about, learning(folder, experiment)]
            parts += [f"![]({file_name(experiment)}.svg)", f"![]({growth(folder, experiment)})"]
    return parts


def write(folder: ExperimentFolder[Experiment]) -> None:
    """Write the page and the figures of the rows that a folder has.

    The text is about the published rows, and left out with others.
    """
    folder.path.mkdir(parents=True, exist_ok=True)
    texts = published_texts(HERE, folder.path, ["text.md", "verdicts.md", "added.md"])
    players = player_sections(folder)
    played = [*rows_by_id(folder.path / FILES["scores"]).values()]
    time = [took(played)] if players else []
    parts = ["# " + folder.experiment.title, *texts[:1], *time, *texts[1:]]
    readings = (HERE / "readings.md").read_text(encoding="utf-8").rstrip()
    parts += [*players, *learner_sections(folder), readings]
    path = folder.path / "README.md"
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"written: {path}")
