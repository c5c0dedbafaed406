"""Repeats the study of Monte-Carlo Softmax search, and measures what was added to it.

    python benchmarks/experiments/mc_softmax/run.py play --jobs 2
    python benchmarks/experiments/mc_softmax/run.py learn --runs runs/mcs
    python benchmarks/experiments/mc_softmax/run.py report

`play` plays the games of `study.json`, with `--only` those of some groups; a row for each player
goes to `benchmarks/results/experiments/mc_softmax/games.jsonl`, and players that have one are not
played again. `learn` lets the learners of the study play, each in a folder of `--runs`, and copies
their rows. `report` writes tables and figures, with the published values beside ours, to
`README.md` there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import fresh_kernels  # noqa: F401 - first of all that uses numba
import joblib
import matplotlib
from machine import machine
from tqdm import tqdm

from afterstate import agents
from afterstate.agents.commands import whole_above_0
from afterstate.agents.game2048 import search_learning
from afterstate.agents.game2048.inside import markdown
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.runs import EVALUATION_SEED, summary

matplotlib.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).parent
RESULTS = Path(__file__).parents[2] / "results" / "experiments" / "mc_softmax"

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """The rows of a file; none if there is no such file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def study() -> dict[str, Any]:
    """The settings and the published values."""
    told: dict[str, Any] = json.loads((HERE / "study.json").read_text(encoding="utf-8"))
    return told


# Games


def cells(groups: Sequence[str] | None = None) -> Iterator[Row]:
    """What is to be played: group, player, its settings, and games."""
    for group, plans in study()["plays"].items():
        for plan in plans if groups is None or group in groups else ():
            varied = plan.get("vary", {})
            each = [dict(zip(varied, v, strict=True)) for v in itertools.product(*varied.values())]
            for more in plan.get("each", each):
                settings = {**plan.get("settings", {}), **more}
                if "network" in plan:
                    settings["network"] = plan["network"]
                player = plan.get("player", "mc-softmax")
                yield {
                    "group": group,
                    "player": player,
                    "settings": settings,
                    "games": plan["games"],
                }


def name(cell: Row) -> str:
    """What tells a cell from others."""
    return json.dumps([cell[key] for key in ("group", "player", "settings", "games")])


def player(cell: Row) -> Any:
    """The player of a cell."""
    settings = dict(cell["settings"])
    if settings.get("network") == "value-net":
        settings["network"] = agents.make("value-net", mixed=True)
    elif "network" in settings:
        del settings["network"]  # the one in the package
    return agents.make(cell["player"], **settings)


def play_cell(cell: Row) -> Row:
    """The row of a cell."""
    if cell["settings"].get("network") == "value-net" or cell["player"] == "value-net":
        import torch

        torch.set_num_threads(1)
    made = player(cell)
    began = time.process_time()
    games = play(made, cell["games"], EVALUATION_SEED)
    seconds, moves = time.process_time() - began, int(games.n_moves.sum())
    per_move = {"moves": moves, "cpu_us_per_move": round(1e6 * seconds / moves, 1)}
    return {**cell, **summary(games), **per_move, "machine": machine()}


def play_all(chosen: argparse.Namespace) -> None:
    """Plays what has not been played."""
    rows = RESULTS / "games.jsonl"
    done = {name(row) for row in read(rows)}
    missing = [cell for cell in cells(chosen.only) if name(cell) not in done]
    RESULTS.mkdir(parents=True, exist_ok=True)
    found = joblib.Parallel(n_jobs=chosen.jobs, return_as="generator_unordered")(
        joblib.delayed(play_cell)(cell) for cell in missing
    )
    with rows.open("a", encoding="utf-8") as file:
        for row in tqdm(found, total=len(missing), unit=" players"):
            file.write(json.dumps(row) + "\n")
            file.flush()
            tqdm.write(f"{row['player']} {row['settings']}: {score(row)}")


# Learning


def learners() -> Iterator[tuple[str, str, Row, float]]:
    """Experiment, name, settings and hours of each learner."""
    for experiment, plan in study()["learn"].items():
        for run, more in plan["runs"].items():
            yield experiment, run, {**plan["base"], **more}, plan["hours"]


def folder(runs: Path, experiment: str, run: str) -> Path:
    """Where a learner is."""
    return runs / f"{experiment}, {run}".replace(" ", "_")


def learn(chosen: argparse.Namespace) -> None:
    """Lets learners play for as long as they have left, and copies the rows of all."""
    for experiment, run, settings, hours in learners():
        place = folder(chosen.runs, experiment, run)
        last = (read(place / "rows.jsonl") or [{"seconds": 0}])[-1]
        left = 0.0 if "diverged" in last else hours - last["seconds"] / 3600
        if left > 1e-3 and (chosen.only is None or experiment in chosen.only):
            print(f"{experiment}, {run}:", file=sys.stderr)
            train(place, settings, left)
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "learning.jsonl").open("w", encoding="utf-8") as file:
        for experiment, run, *_ in learners():
            for row in read(folder(chosen.runs, experiment, run) / "rows.jsonl"):
                file.write(json.dumps({"experiment": experiment, "run": run, **row}) + "\n")


def train(place: Path, settings: Row, hours: float) -> None:
    """Lets a learner play so long, or until its values run away."""
    place.mkdir(parents=True, exist_ok=True)
    asked = place / "asked.json"
    asked.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    goes_on = ["--resume"] if list(place.glob("learner.*")) else []
    how = ["--hours", str(hours), "--evaluate-every", "2e5", "--evaluate", "1:100"]
    try:
        search_learning.main([str(asked), "--out", str(place), *how, *goes_on])
    except SystemExit as error:
        if "diverged" not in (read(place / "rows.jsonl") or [{}])[-1]:
            raise
        print(error, file=sys.stderr)


# The report


def score(row: Row) -> str:
    """Mean and interval."""
    return f"{row['mean']:,.0f} ± {row['interval']:,.0f}"


def of_group(group: str) -> list[Row]:
    """The rows of a group, as `study.json` has it now, in its order."""
    found = {name(row): row for row in read(RESULTS / "games.jsonl")}
    return [found[name(cell)] for cell in cells([group]) if name(cell) in found]


def policies() -> str:
    """Mean scores of all pairs of policies."""
    played = of_group("policies")
    pairs = {(row["settings"]["select"], row["settings"]["backup"]): row for row in played}
    names = list(dict.fromkeys(backup for _, backup in pairs))
    body = [
        [select, *(score(pairs[select, b]) if (select, b) in pairs else "" for b in names)]
        for select in dict.fromkeys(select for select, _ in pairs)
    ]
    return markdown(["select, back up by", *names], body)


def lines() -> dict[str, Row]:
    """The players without this search, by what they are."""
    return {f"{row['player']} {row['settings'].get('depth', 1)}": row for row in of_group("lines")}


def simulations(network: str, path: Path) -> str:
    """Scores by simulations, with those of other searches of the same network; also drawn."""
    played = [r for r in of_group("simulations") if r["settings"]["network"] == network]
    figure, axes = plt.subplots(figsize=(7, 4.5))
    body = []
    for unseen, label in (("outcomes", "as in the study"), ("value", 'unseen = "value"')):
        of = [row for row in played if row["settings"]["unseen"] == unseen]
        at = [row["settings"]["simulations"] for row in of]
        means, spreads = [row["mean"] for row in of], [row["interval"] for row in of]
        axes.errorbar(at, means, spreads, marker="o", capsize=3, label=label)
        body += [
            [str(n), label, score(row), f"{row['cpu_us_per_move']:,.0f}"]
            for n, row in zip(at, of, strict=True)
        ]
    own = ("ntuple", "expectimax") if network == "ntuple" else ("value-net",)
    for i, (what, row) in enumerate((w, r) for w, r in lines().items() if w.split()[0] in own):
        ply = f"{what.split()[1]}-ply"
        axes.axhline(row["mean"], color=f"C{2 + i}", linestyle="--", label=ply)
        body.append([ply, "", score(row), f"{row['cpu_us_per_move']:,.0f}"])
    axes.set(xscale="log", xlabel="simulations a move", ylabel="mean score", ylim=(0, None))
    axes.legend()
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    return markdown(["simulations", "", "mean score", "µs of CPU a move"], body)


def improvements() -> str:
    """What was added to the search, each beside the search as it was."""
    body = []
    for row in of_group("improvements"):
        settings = {k: v for k, v in row["settings"].items() if k != "network"}
        what = ", ".join(f"{k} {v}" for k, v in settings.items())
        network = row["settings"]["network"]
        body.append([network, what, score(row), f"{row['cpu_us_per_move']:,.0f}"])
    return markdown(["network", "settings", "mean score", "µs of CPU a move"], body)


def learning(experiment: str, path: Path) -> str:
    """What the learners of an experiment came to; also drawn."""
    rows = read(RESULTS / "learning.jsonl")
    found = [row for row in rows if row["experiment"] == experiment]
    figure, axes = plt.subplots(figsize=(7, 4.5))
    body = []
    for run in dict.fromkeys(row["run"] for row in found):
        of = [row for row in found if row["run"] == run]
        whole = [row for row in of if "1-ply" in row]
        if whole:
            minutes = [row["seconds"] / 60 for row in whole]
            axes.plot(minutes, [row["mean_score"] for row in whole], label=run)
        last = whole[-1] if whole else {}
        greedy = score(last["1-ply"]) if last else ""
        searched = f"{last['mean_score']:,.0f}" if last.get("mean_score") else ""
        gone = [row for row in of if "diverged" in row]
        end = f"run away after {gone[0]['n_moves']:,} moves: {gone[0]['diverged']}" if gone else ""
        body.append([run, f"{of[-1]['n_moves']:,}", searched, greedy, end])
    axes.set(xlabel="minutes", ylabel="mean score of the last 1,000 games of search")
    if axes.lines:  # some may have run away before they were evaluated
        axes.legend()
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    return markdown(["learner", "moves", "search, last 1,000 games", "greedy, 100 games", ""], body)


def report(chosen: argparse.Namespace) -> None:
    """Writes tables and figures of what there is."""
    plt.rcParams["svg.hashsalt"] = "afterstate"
    parts = ["# " + study()["title"], (HERE / "text.md").read_text(encoding="utf-8").rstrip()]
    parts += ["## Policies of selection and backup", policies()]
    for network, what in (("ntuple", "the network of tables"), ("value-net", "the value network")):
        drawn = RESULTS / f"simulations_{network}.svg"
        if not any(r["settings"]["network"] == network for r in of_group("simulations")):
            continue
        parts += [f"## Simulations, {what}", simulations(network, drawn), f"![]({drawn.name})"]
    parts += ["## What was added", improvements()]
    learned = {row["experiment"] for row in read(RESULTS / "learning.jsonl")}
    for experiment in (each for each in study()["learn"] if each in learned):
        drawn = RESULTS / f"{experiment.replace(' ', '_')}.svg"
        parts += [f"## Learning, {experiment}", learning(experiment, drawn), f"![]({drawn.name})"]
    (RESULTS / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"written: {RESULTS / 'README.md'}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Repeats the study of MC Softmax search.")
    commands = {"play": play_all, "learn": learn, "report": report}
    parser.add_argument("command", choices=list(commands))
    parser.add_argument("--runs", type=Path, default=Path("runs/mcs"), help="folder of learners")
    parser.add_argument("--only", nargs="+", help="groups of games, or experiments (all)")
    parser.add_argument("--jobs", type=whole_above_0, default=1, help="(%(default)s)")
    chosen = parser.parse_args(arguments)
    try:
        commands[chosen.command](chosen)
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
