"""Tables and figures of the study of Monte-Carlo Softmax search."""

from __future__ import annotations

import argparse
import bisect
import math

from matplotlib import pyplot as plt

from afterstate.agents.training.commands import markdown
from benchmarks import figures
from benchmarks.experiments.cells import cost, interval, latest, mean_text
from benchmarks.experiments.mc_softmax.study import HERE, RESULTS, cells, study
from benchmarks.row_files import Row, read_lines

FILES = {
    "judged": "regrets.jsonl",
    "plays": "games.jsonl",
    "learn": "learning.jsonl",
    "temperature": "temperature.json",
}
"""The files of rows, by what they tell of."""

NETWORKS = {
    "ntuple": "the N-tuple network",
    "ntuple, asked": "the N-tuple network, boards in one batch",
    "value-net": "CNN22",
}


def rows(what: str, group: str) -> list[Row]:
    """The latest rows of a group of `cells`, as `study.json` has it now, in its order."""
    return latest(RESULTS / FILES[what], cells(what, [group]))


def policies(what: str) -> str:
    """Regrets or scores of all pairs of policies."""
    pairs = {(r["settings"]["select"], r["settings"]["backup"]): r for r in rows(what, "policies")}
    names = list(dict.fromkeys(backup for _, backup in pairs))
    body = [
        [select, *(mean_text(pairs[select, b]) if (select, b) in pairs else "" for b in names)]
        for select in dict.fromkeys(select for select, _ in pairs)
    ]
    return markdown(["select, back up by", *names], body)


FEW = 3
"""Games of which no interval is drawn: it would be larger than the figure."""


def simulations(network: str) -> str:
    """Scores by simulations, with those of other searches of the same network; also drawn.

    The published scores, which are of a network that has learned far longer, are the last column.
    """
    published = study()["published"]
    _, axes = plt.subplots(figsize=(7, 4.5))
    body = []
    every = [r for r in rows("plays", "simulations") if r["settings"]["network"] == network]
    for label, of in by_kind(every).items():
        at = [row["settings"]["simulations"] for row in of]
        spreads = [interval(row) if row["n_games"] > FEW else math.nan for row in of]
        axes.errorbar(at, [r["mean"] for r in of], spreads, marker="o", capsize=3, label=label)
        for n, row in zip(at, of, strict=True):
            theirs = published["simulations"].get(str(n)) if label.startswith(STUDY) else None
            told = "" if theirs is None else f"{theirs:,}"
            games = f"{row['n_games']}"
            body.append([f"{n:,} simulations", label, mean_text(row), games, cost(row), told])
    own = ("ntuple", "expectimax") if network == "ntuple" else ("value-net",)
    for i, row in enumerate(r for r in rows("plays", "lines") if r["player"] in own):
        ply = f"{row['settings'].get('depth', 1)}-ply"
        axes.axhline(row["mean"], color=f"C{3 + i}", linestyle="--", label=ply)
        told = f"{published[ply]:,}" if ply in published else ""
        body.append([ply, "", mean_text(row), f"{row['n_games']}", cost(row), told])
    axes.set(xscale="log", xlabel="simulations a move", ylabel="mean score", ylim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    figures.save(axes.figure, RESULTS / f"simulations_{network}.svg")
    head = ["", "", "mean score", "games", "µs of CPU a move", "published, CNN22"]
    return markdown(head, body)


STUDY = "the paper's settings: L-max, best"


def by_kind(every: list[Row]) -> dict[str, list[Row]]:
    """Rows by what they select, what stands for unseen outcomes, and leaves asked for together."""
    found: dict[str, list[Row]] = {}
    for row in every:
        how = row["settings"]
        kind = f"{how['select']}, unseen: {how['unseen']}"
        kind = STUDY if kind == "L-max, unseen: outcomes" else kind
        leaves = f", batches of {how['leaves']} leaves" if "leaves" in how else ""
        found.setdefault(kind + leaves, []).append(row)
    return found


def others(what: str, group: str) -> str:
    """Players told by their settings: regret and share of best moves, or score."""
    measured = ["regret", "best moves, %"] if what == "judged" else ["mean score"]
    body = []
    for row in rows(what, group):
        told = {k: v for k, v in row["settings"].items() if k != "network"}
        said = ", ".join(f"{k} {v}" for k, v in told.items())
        best = [f"{100 * row['best_moves']:.1f}"] if what == "judged" else []
        network = NETWORKS[row["settings"].get("network", "ntuple")]
        body.append([row["player"], said, network, mean_text(row), *best, cost(row)])
    return markdown(["player", "settings", "network", *measured, "µs of CPU a move"], body)


ENOUGH = 20
"""Games that must have ended for a mean score."""


def scores(of: list[Row], window: float | None) -> list[tuple[int, float]]:
    """Moves learned from, and the mean score of the games that ended lately.

    Rows have that of the last 1,000 games. If a learner has played fewer, their sum is known, and
    so is that of the games since an earlier row.

    Args:
        of: the rows of a learner.
        window: how many moves that earlier row is behind; by default all are the last 1,000.
    """
    if window is None:
        return [(row["n_moves"], row["mean_score"]) for row in of if row["n_games"] >= ENOUGH]
    moves = [0, *(row["n_moves"] for row in of)]
    games = [0, *(row["n_games"] for row in of)]
    sums = [0.0, *(row["n_games"] * (row["mean_score"] or 0) for row in of)]
    found = []
    for i in range(1, len(moves)):
        before = bisect.bisect_left(moves, moves[i] - window)
        n_games = games[i] - games[before]
        if n_games >= ENOUGH:
            found.append((moves[i], (sums[i] - sums[before]) / n_games))
    return found


def learning(experiment: str) -> str:
    """What the learners of an experiment came to; also drawn.

    The curves are of the games that they learn from, as in the paper.
    """
    found = [row for row in read_lines(RESULTS / FILES["learn"]) if row["experiment"] == experiment]
    window = study()["learn"][experiment].get("window")
    _, axes = plt.subplots(figsize=(7, 4.5))
    body = []
    for run in dict.fromkeys(row["run"] for row in found):
        of = [row for row in found if row["run"] == run]
        whole = [row for row in of if "1-ply" in row]
        curve = scores(whole, window)
        axes.plot([n for n, _ in curve], [mean for _, mean in curve], marker=".", label=run)
        played = [mean_text(row["search_play"]) for row in of if "search_play" in row]
        moves = max(row["n_moves"] for row in of)
        means = [mean for _, mean in curve]
        learned = [f"{max(means):,.0f}", f"{means[-1]:,.0f}"] if means else ["", ""]
        greedy = mean_text(whole[-1]["1-ply"]) if whole else ""
        gone = [f"diverged: {away(row)}" for row in of if "diverged" in row]
        body.append([run, f"{moves:,}", *learned, *(played or [""]), greedy, *(gone or [""])])
    lately = "last 1,000 games, or all so far" if window is None else f"last {window:,.0f} moves"
    axes.set(xlabel="moves", ylabel=f"mean score, {lately}", ylim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    path = RESULTS / f"{experiment.replace(' ', '_')}.svg"
    figures.save(axes.figure, path)
    n_games = f"then, {study()['searched']} games"
    head = ["learner", "moves", f"best mean score while learning, {lately}", "at the end", n_games]
    return markdown([*head, "greedy, 100 games", ""], body)


def away(row: Row) -> str:
    """What boards were worth when values had run away."""
    told = row["diverged"]
    return f"boards were worth {told['searched']:,.0f} on average" if told else "no numbers"


def growth(experiment: str) -> str:
    """What boards are worth in the course of learning, drawn; returns the figure's name."""
    _, axes = plt.subplots(figsize=(7, 4.5))
    every = [row for row in read_lines(RESULTS / FILES["learn"]) if row["experiment"] == experiment]
    for run in dict.fromkeys(row["run"] for row in every):
        told = [
            (row["n_moves"], {**row, **row.get("diverged", {})}["searched"])
            for row in every
            if row["run"] == run and ("diverged" in row or "searched" in row)
        ]
        moves, values = [n for n, _ in told], [value for _, value in told]
        axes.plot(moves, values, marker=".", label=run)
    axes.set(xlabel="moves", ylabel="points that boards are worth", yscale="log")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    name = f"{experiment.replace(' ', '_')}_values.svg"
    figures.save(axes.figure, RESULTS / name)
    return name


def parts() -> list[str]:
    """The sections, of what there is."""
    found = []
    for what, head in (("judged", "Regrets"), ("plays", "Mean scores")):
        if rows(what, "policies"):
            found += [f"## Policies of selection and backup: {head.lower()}", policies(what)]
    for network, called in NETWORKS.items():
        if any(r["settings"]["network"] == network for r in rows("plays", "simulations")):
            found += [f"## Simulations, {called}", simulations(network)]
            found += [f"![](simulations_{network}.svg)"]
    for what, groups in (("judged", study()["judged"]), ("plays", study()["plays"])):
        for group in groups:
            if group not in ("policies", "simulations", "lines") and rows(what, group):
                head = "regrets" if what == "judged" else "scores"
                found += [f"## {group[0].upper()}{group[1:]}: {head}", others(what, group)]
    learned = {row["experiment"] for row in read_lines(RESULTS / FILES["learn"])}
    for experiment in (each for each in study()["learn"] if each in learned):
        found += [f"## Learning, {experiment}", study()["learn"][experiment]["about"]]
        found += [learning(experiment), f"![]({experiment.replace(' ', '_')}.svg)"]
        found += [f"![]({growth(experiment)})"]
    return found


WORDS = ("text.md", "verdicts.md", "added.md")
"""What is said before the tables."""


def write(chosen: argparse.Namespace) -> None:
    """Writes tables and figures of what there is."""
    words = ((HERE / name).read_text(encoding="utf-8").rstrip() for name in WORDS)
    path, head = RESULTS / "README.md", "# " + study()["title"]
    path.write_text("\n\n".join([head, *words, *parts()]) + "\n", encoding="utf-8")
    print(f"written: {path}")
