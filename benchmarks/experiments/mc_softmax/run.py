"""Repeats the study of Monte-Carlo Softmax search, and measures what was added to it.

    python -m benchmarks.experiments.mc_softmax.run judge --jobs 2
    python -m benchmarks.experiments.mc_softmax.run temperature
    python -m benchmarks.experiments.mc_softmax.run play --jobs 2
    python -m benchmarks.experiments.mc_softmax.run learn
    python -m benchmarks.experiments.mc_softmax.run report

`judge` asks the players of `study.json` for moves on the same positions, and compares each with
the best move of a search of five moves: what it is worth less is the *regret*. Scores of games
differ by a tenth of their mean from sample to sample, regrets on some thousand positions by far
less. `play` plays games. Both take `--only` some groups and leave out players that have a row; rows
go to `regrets.jsonl` and `games.jsonl` in `benchmarks/results/experiments/mc_softmax`.
`temperature` learns one for selection and writes it to `temperature.json` there. `learn` lets the
learners of the study play, each in a folder of `--runs`, and copies their rows. `report` writes
tables and figures, with the published values beside ours, to `README.md` there.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from afterstate import agents
from afterstate.agents import files
from afterstate.agents.config import current_names, from_dict
from afterstate.agents.game2048 import players
from afterstate.agents.game2048.learning import from_search, play_logs
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent, learned_temperature
from afterstate.agents.game2048.search.mc_softmax import Settings as Search
from afterstate.agents.game2048.values.ntuple import estimate, load
from afterstate.agents.training import __main__ as training
from afterstate.agents.training.commands import whole_above_0
from afterstate.agents.training.run import EVALUATION_SEED, summary
from afterstate.envs.words import Words
from benchmarks.experiments.cells import fill, play_games
from benchmarks.experiments.mc_softmax import report
from benchmarks.experiments.mc_softmax.study import (
    RESULTS,
    Plan,
    cells,
    check_groups,
    learners,
    of_package,
    study,
)
from benchmarks.machine import has_bfloat16, machine
from benchmarks.row_files import Row, read_lines

Values = npt.NDArray[np.float64]


class Asked:
    """The network of tables in the package, asked for many boards at a time as neural ones are."""

    def __init__(self) -> None:
        self._net = load(players.PRETRAINED)
        self.size = self._net.size

    def estimate(self, boards: Words) -> Any:
        """The values of afterstates."""
        return estimate(self._net, boards)


def player(cell: Row, **more: Any) -> Any:
    """The player of a cell."""
    settings = {**cell["settings"], **more}
    if is_neural(cell):
        settings["bf16"] = has_bfloat16()
    elif settings.get("network") == "ntuple, asked":
        settings["network"] = Asked()
    return agents.make(cell["player"], **current_names(settings))


def is_neural(cell: Row) -> bool:
    """Whether a player has the neural network in the package."""
    return "value-net" in (cell["player"], cell["settings"].get("network"))


def prepared(cell: Row) -> Row:
    """What rows tell of the network beside the settings; one that is neural gets one thread."""
    file = of_package("value.safetensors" if is_neural(cell) else "ntuple.npz")
    told: Row = {"network_sha256": sha256(file.read_bytes()).hexdigest()[:16]}
    if is_neural(cell):
        import torch

        torch.set_num_threads(1)
        told["bits"] = 16 if has_bfloat16() else 32
    return told


# Positions


def same(path: Path, told: Row) -> None:
    """Writes what a folder's files are made of, or sees that they are made of the same.

    Raises:
        ValueError: they are not.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and json.loads(path.read_text(encoding="utf-8")) != told:
        raise ValueError(f"{path} tells of other settings: give another folder with --runs")
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def logged(log: Path, told: Row) -> Words:
    """Boards of games, which are played if they were not: `uint64[n]`."""
    same(log.with_suffix(".asked.json"), told)
    if not log.exists():
        of = ["--player", told["player"], "--games", str(told["games"]), "--skip", "0"]
        of += ["--share", str(told["share"]), "--seed", str(told["seed"])]
        goes_on = ["--resume"] if log.with_suffix(".parts").exists() else []
        play_logs.main([str(log), *of, *goes_on])
    return np.array(play_logs.read(log)["board"][: told["n"]], np.uint64)


def positions(runs: Path) -> tuple[Words, Values]:
    """Boards, and what their moves are worth by a search of five moves; made if they are not there.

    Returns:
        `uint64[n]` and `float64[n, 4]`.
    """
    told, values = study()["positions"], runs / "values.npy"
    boards = logged(runs / "positions.npy", told)
    if not values.exists():
        search: Any = agents.make("expectimax", **told["reference"])
        hundredths = tqdm(np.array_split(boards, 100), unit=" %", desc="reference")
        parts = [search.evaluate(part) for part in hundredths]
        with files.atomic_write(values) as file:
            np.save(file, np.concatenate(parts))
    return boards, np.load(values)


def judge_cell(runs: Path, cell: Row) -> Row:
    """The row of a cell that is judged by positions.

    It has the mean regret in points, each at most `most`, the 95 % interval over positions, and the
    share of the best moves; of all seeds together.
    """
    told, (boards, values) = study()["positions"], positions(runs)
    is_random, told_of_network = cell["player"] == "mc-softmax", prepared(cell)
    seeds, found = range(told["seeds"] if is_random else 1), []
    began = time.process_time()
    for seed in seeds:
        actions = player(cell, **({"seed": seed} if is_random else {})).act(boards)
        found.append(values.max(1) - values[np.arange(len(values)), actions])
    seconds = time.process_time() - began
    regrets = np.minimum(found, told["most"]).mean(0)
    return {
        **cell,
        **told_of_network,
        "regret": round(float(regrets.mean()), 2),
        "interval": round(1.96 * float(regrets.std(ddof=1)) / len(regrets) ** 0.5, 2),
        "best_moves": round(float((np.array(found) == 0).mean()), 4),
        "positions": len(boards),
        "seeds": len(seeds),
        "cpu_us_per_move": round(1e6 * seconds / len(boards) / len(seeds), 1),
        "machine": machine(),
    }


def judge(chosen: argparse.Namespace) -> None:
    """Judges players by positions."""
    asked = list(cells("judged", chosen.only))
    positions(chosen.runs)  # once, before several processes need them
    work = functools.partial(judge_cell, chosen.runs)
    fill(RESULTS / report.FILES["judged"], asked, work, chosen.jobs)


def learn_temperature(chosen: argparse.Namespace) -> None:
    """Learns the temperature of selection from searches of positions that nobody is judged by."""
    told = study()["temperature"]
    boards = logged(chosen.runs / "temperature.npy", told["positions"])
    player = MCSoftmaxAgent(load(players.PRETRAINED), Search(**current_names(told["searches"])))
    found = learned_temperature(player, boards)
    row = {**told, "boards": len(boards), "temperature": round(found, 4), "machine": machine()}
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps(row, indent=1) + "\n"
    (RESULTS / report.FILES["temperature"]).write_text(text, encoding="utf-8")
    print(f"temperature {row['temperature']}")


# Games


def play_cell(cell: Row) -> Row:
    """The row of a cell that plays games."""
    told = prepared(cell)
    return {**play_games(cell, player(cell)), **told}


def play_all(chosen: argparse.Namespace) -> None:
    """Plays games."""
    fill(RESULTS / report.FILES["plays"], cells("plays", chosen.only), play_cell, chosen.jobs)


# Learning


def folder(runs: Path, plan: Plan) -> Path:
    """Where a learner is."""
    return runs / f"{plan.experiment}, {plan.run}".replace(" ", "_")


def learn(chosen: argparse.Namespace) -> None:
    """Lets learners play as many moves as they have left, and copies the rows of all."""
    asked = check_groups(study()["learn"], chosen.only)
    for plan in learners():
        if plan.experiment in asked:
            print(f"{plan.experiment}, {plan.run}:", file=sys.stderr)
            train(folder(chosen.runs, plan), plan)
            search_games(folder(chosen.runs, plan), plan)
    write_rows(chosen.runs)


def write_rows(runs: Path) -> None:
    """Copies the rows of all learners; those that did not learn here keep what they have."""
    path, written = RESULTS / report.FILES["learn"], []
    before = read_lines(path)
    for plan in learners():
        named, place = {"experiment": plan.experiment, "run": plan.run}, folder(runs, plan)
        here = read_lines(place / "rows.jsonl") + read_lines(place / "search_play.jsonl")
        old = [row for row in before if named.items() <= row.items()]
        written += [{**named, **row} for row in here] or old
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(path, "".join(json.dumps(row) + "\n" for row in written).encode())


def train(place: Path, plan: Plan) -> None:
    """Lets a learner play the moves that it has left, or until its values run away."""
    last = (read_lines(place / "rows.jsonl") or [{"n_moves": 0}])[-1]
    if "diverged" in last or last["n_moves"] >= plan.moves:
        return
    asked = place / "asked.json"
    same(asked, plan.settings)
    goes_on = ["--resume"] if learned_by(place, plan).exists() else []
    how = ["--moves", f"{plan.moves:.0f}", "--evaluate-every", str(plan.every)]
    try:
        training.main(["search", str(asked), "--out", str(place), *how, *goes_on])
    except SystemExit as error:
        if "diverged" not in (read_lines(place / "rows.jsonl") or [{}])[-1]:
            raise
        print(error, file=sys.stderr)


def learned_by(place: Path, plan: Plan) -> Path:
    """The file of a learner."""
    return place / from_dict(plan.settings, from_search.Run).checkpoints[0]


def search_games(place: Path, plan: Plan) -> None:
    """Lets what was learned play by the search that it was learned with, if that was not done.

    Of values that have run away these are the last that were saved.
    """
    file, path, n_games = learned_by(place, plan), place / "search_play.jsonl", study()["searched"]
    if not file.exists():
        return
    learner = from_dict(plan.settings, from_search.Run).new()
    learner.resume(file)
    done = [(row["n_moves"], row["search_play"]["n_games"]) for row in read_lines(path)]
    if (learner.n_moves, n_games) not in done:
        how = current_names({"network": learner.model.player(), **plan.settings["search"]})
        played = summary(play(agents.make("mc-softmax", **how), n_games, EVALUATION_SEED))
        row = {"n_moves": learner.n_moves, "search_play": played}
        path.write_text(json.dumps(row) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Repeats the study of MC Softmax search.")
    commands = {
        "judge": judge,
        "temperature": learn_temperature,
        "play": play_all,
        "learn": learn,
        "report": report.write,
    }
    parser.add_argument("command", choices=list(commands))
    parser.add_argument(
        "--runs",
        type=Path,
        default=Path("runs/mc_softmax"),
        help="folder of learners (%(default)s)",
    )
    parser.add_argument("--only", nargs="+", help="groups of players, or experiments (all)")
    parser.add_argument("--jobs", type=whole_above_0, default=1, help="(%(default)s)")
    chosen = parser.parse_args(arguments)
    try:
        commands[chosen.command](chosen)
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
