"""Repeat the experiments of Watanabe and Matsuzaki with Monte-Carlo Softmax search.

    python -m benchmarks.experiments.mc_softmax.run regrets --jobs 2
    python -m benchmarks.experiments.mc_softmax.run temperature
    python -m benchmarks.experiments.mc_softmax.run scores --jobs 2
    python -m benchmarks.experiments.mc_softmax.run learn --repeats 4 --jobs 2
    python -m benchmarks.experiments.mc_softmax.run report

`regrets` compares the moves of the players of `settings.json`, or of `--settings`, on the same
positions with the best move of 5-ply search: the value that a move loses is its *regret*. A few
thousand positions measure a mean regret far more precisely than a few hundred games measure a mean
score. `scores` plays games. Both take `--only` some groups and leave out players that have a row;
rows go to `regrets.jsonl` and `games.jsonl` in `benchmarks/results/experiments/mc_softmax`, or in
`--out`. `temperature` learns a temperature of selection and writes it to `temperature.json` there.
`learn` trains the learners of the experiments, with `--repeats` each with several seeds, in folders
of `--runs`, and copies their rows to `learning.jsonl`. `report` writes tables and figures with the
published values to `README.md` there.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from afterstate import agents
from afterstate.agents.config import Count, from_dict, read, settings
from afterstate.agents.game2048 import players
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.learning.run_settings import SearchValueRun
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent, learned_temperature
from afterstate.agents.game2048.search.softmax_settings import MCSoftmaxSettings
from afterstate.agents.game2048.values.ntuple import estimate
from afterstate.agents.training.evaluation import EVALUATION_SEED, summary
from afterstate.agents.training.run import Diverged
from afterstate.agents.training.workers import ALONE, Workers
from afterstate.envs import durable_files, json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.json_files import Row
from afterstate.envs.words import Floats, Words
from afterstate.leaderboard.machine import has_bfloat16, machine
from benchmarks.experiments import harness
from benchmarks.experiments.entries import fill, mean_regret, play_entries, play_part
from benchmarks.experiments.harness import (
    ExperimentFolder,
    LearningArgs,
    check_options,
    copy_rows,
    last_row,
    record_settings,
    run_calls,
    selected,
    train,
    write_log,
)
from benchmarks.experiments.mc_softmax import report
from benchmarks.experiments.mc_softmax.settings import (
    SETTINGS,
    Experiment,
    LearnerPlan,
    Positions,
    network_name,
)

RESULTS = harness.RESULTS / "mc_softmax"


@settings
class Args(LearningArgs):
    """Repeat the experiments of Watanabe and Matsuzaki with Monte-Carlo Softmax search."""

    command: Literal["regrets", "temperature", "scores", "learn", "report"]
    """Part to run."""
    runs: Path = Path("runs/mc_softmax")
    """Folder of positions and learners."""
    only: tuple[str, ...] = ()
    """Groups of players, or experiments; by default all."""
    repeats: Count = 1
    """Number of seeds of each learner: 1, 2, ..."""
    settings: Path = SETTINGS
    """File of the settings of players, games and learners."""
    out: Path = field(default=RESULTS, kw_only=True)
    """Folder of rows, page and figures."""

    @functools.cached_property
    def folder(self) -> ExperimentFolder[Experiment]:
        """The settings, and the folder of the results."""
        return ExperimentFolder(read(self.settings, Experiment), self.out)


class BatchedNetwork:
    """The pretrained N-tuple network as a value function that is called with batches of boards."""

    def __init__(self) -> None:
        self._net = players.pretrained()
        self.size = self._net.size

    def estimate(self, boards: Words) -> Any:
        """Return the values of afterstates."""
        return estimate(self._net, boards)


def make_player(entry: Row, **changes: Any) -> Any:
    """Return the player of an entry, with some settings changed."""
    options = {**entry["settings"], **changes}
    if network_name(entry) == "value-net":
        options["bf16"] = has_bfloat16()
    elif options.get("network") == "ntuple, batched":
        options["network"] = BatchedNetwork()
    else:
        options["network"] = players.pretrained()
    return agents.make(entry["player"], **options)


def network_fields(experiment: Experiment, entry: Row) -> Row:
    """Return the fields of a row that describe its network; limit torch to one thread.

    Raises:
        ValueError: the installed network is not that of the entry.
    """
    experiment.check_network(network_name(entry))
    if network_name(entry) == "ntuple":
        return {}
    import torch

    torch.set_num_threads(1)
    return {"bits": 16 if has_bfloat16() else 32}


def logged_boards(log: Path, plan: Positions, **fields: str) -> Words:
    """Return boards of games, `uint64[n]`; the games are played if there is no log.

    Args:
        log: the file.
        plan: the games.
        fields: what else must be the same for a log that exists.
    """
    record_settings(log.with_suffix(".config.json"), {**asdict(plan), **fields})
    if not log.exists():
        played = {name: getattr(plan, name) for name in ("player", "games", "share", "seed")}
        write_log(log, {**played, "skip": 0})
    return np.array(play_logs.read(log)["board"][: plan.n], np.uint64)


@functools.cache
def reference(settings_json: str) -> Any:
    """Return the search that positions are measured with, made once in a process."""
    return agents.make("expectimax", **json.loads(settings_json))


def searched(file: Path, settings_json: str, boards: Words) -> tuple[Path, Floats]:
    """Return the values of the moves of boards by a search, `float64[n, 4]`, and their file."""
    return file, reference(settings_json).evaluate(boards)


def boards_of_positions(experiment: Experiment, runs: Path) -> Words:
    """Return the boards that players are measured on, `uint64[n]`."""
    network = experiment.networks["ntuple"]
    return logged_boards(runs / "positions.npy", experiment.positions, network_sha256=network)


def search_positions(
    experiment: Experiment, runs: Path, workers: Workers = ALONE, hours: float | None = None
) -> bool:
    """Search the positions by 5-ply search, and save the values of each part when it ends.

    Args:
        experiment: has the settings of the positions.
        runs: folder of the files.
        workers: processes that search.
        hours: time after which no more parts are begun; None: no limit.

    Returns:
        True if all parts have values.
    """
    boards, files = boards_of_positions(experiment, runs), value_files(runs)
    search = json.dumps(experiment.positions.reference)
    calls = [
        functools.partial(searched, file, search, part)
        for file, part in zip(files, np.array_split(boards, len(files)), strict=True)
        if not file.exists()
    ]
    for file, values in run_calls(calls, workers, hours, "parts") if calls else ():
        with durable_files.replace(file) as opened:
            np.save(opened, values)
    return all(file.exists() for file in files)


def positions(experiment: Experiment, runs: Path) -> tuple[Words, Floats]:
    """Return boards and the values of their moves by 5-ply search, `uint64[n]` and `float64[n, 4]`.

    Raises:
        OSError: a part has no values yet, see `search_positions`.
    """
    values = np.concatenate([np.load(file) for file in value_files(runs)])
    return boards_of_positions(experiment, runs), values


def value_files(runs: Path) -> list[Path]:
    """Return the files of the reference's values, one for each part of the positions."""
    return [runs / "values" / f"{i:02}.npy" for i in range(100)]


def load_kernels(entry: Row) -> None:
    """Load the kernels of a player, before a clock starts."""
    make_player(entry).act(0x11)


def measure_regret(experiment: Experiment, runs: Path, entry: Row) -> Row:
    """Return the row of a player that is measured by positions.

    It has the mean regret in points, each at most `most`, half of its 95% interval over
    positions, and the share of the best moves, over all seeds.
    """
    plan = experiment.positions
    boards, values = positions(experiment, runs)
    is_random, fields = entry["player"] == "mc-softmax", network_fields(experiment, entry)
    seeds = range(plan.seeds if is_random else 1)
    searchers = [make_player(entry, **({"seed": seed} if is_random else {})) for seed in seeds]
    load_kernels(entry)
    start = time.process_time()
    actions = [player.act(boards) for player in searchers]
    seconds = time.process_time() - start
    losses = values.max(1) - values[np.arange(len(values)), actions]
    regrets = np.minimum(losses, plan.most).mean(0)
    return {
        **entry,
        **fields,
        **mean_regret(regrets),
        "best_moves": round(float((losses == 0).mean()), 4),
        "positions": len(boards),
        "seeds": len(seeds),
        "cpu_us_per_move": round(1e6 * seconds / len(boards) / len(seeds), 1),
        "machine": machine(),
    }


def measure_regrets(args: Args) -> None:
    """Measure players by positions."""
    experiment = args.folder.experiment
    measured = list(experiment.entries("regrets", args.only))
    experiment.check_network("ntuple")  # of the reference
    check_networks(experiment, measured)
    start, hours = time.monotonic(), args.hours
    if not search_positions(experiment, args.runs, args.workers, hours):
        return
    if hours is not None:
        hours -= (time.monotonic() - start) / 3600
    measure = functools.partial(measure_regret, experiment, args.runs)
    fill(args.out / report.FILES["regrets"], measured, measure, args.workers, hours)


def check_networks(experiment: Experiment, measured: Sequence[Row]) -> None:
    """Raise ValueError if the installed networks are not those of the players."""
    for name in sorted(set(map(network_name, measured))):
        experiment.check_network(name)


def learn_temperature(args: Args) -> None:
    """Learn the temperature of selection from searches of other positions.

    Raises:
        ValueError: the installed network is not that of the experiment.
    """
    experiment = args.folder.experiment
    experiment.check_network("ntuple")
    plan = experiment.temperature
    network = experiment.networks["ntuple"]
    boards = logged_boards(args.runs / "temperature.npy", plan.positions, network_sha256=network)
    player = MCSoftmaxAgent(players.pretrained(), MCSoftmaxSettings(**plan.searches))
    temperature = round(learned_temperature(player, boards), 4)
    row = {**asdict(plan), "boards": len(boards), "temperature": temperature, "machine": machine()}
    args.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(row, indent=1) + "\n"
    durable_files.write(args.out / report.FILES["temperature"], text.encode())
    print(f"temperature {temperature}")


def play_entry(experiment: Experiment, entry: Row, seeds: range) -> Row:
    """Play some games of a player and return their results.

    Searches of other games have other seeds.
    """
    fields, changes = network_fields(experiment, entry), {}
    if entry["player"] == "mc-softmax":
        changes["seed"] = entry["settings"].get("seed", 0) + seeds[0] - EVALUATION_SEED
    load_kernels(entry)
    return play_part(entry, seeds, make_player(entry, **changes), **fields)


def measure_scores(args: Args) -> None:
    """Play games."""
    file = args.out / report.FILES["scores"]
    experiment = args.folder.experiment
    measured = list(experiment.entries("scores", args.only))
    check_networks(experiment, measured)
    play_some = functools.partial(play_entry, experiment)
    play_entries(file, measured, play_some, args.workers, args.hours)


def folder(runs: Path, plan: LearnerPlan) -> Path:
    """Return the folder of a learner."""
    return runs / f"{plan.experiment}, {plan.run}, seed {plan.seed}".replace(" ", "_")


def learn(args: Args) -> None:
    """Train learners to their number of moves, and copy the rows of each that has ended."""
    experiment = args.folder.experiment
    names = selected(experiment.learners, args.only)
    plans = [plan for plan in experiment.learner_plans(args.repeats) if plan.experiment in names]
    learn_each = functools.partial(learn_by_plan, experiment, args.runs, args.threads)
    calls = [functools.partial(learn_each, plan) for plan in plans]
    path = args.out / report.FILES["learners"]
    for plan in run_calls(calls, args.workers, args.hours, "learners", save=True):
        copy_rows(path, key_of(plan), folder(args.runs, plan), "rows.jsonl", "search_play.jsonl")


def learn_by_plan(
    experiment: Experiment, runs: Path, threads: int, plan: LearnerPlan
) -> LearnerPlan:
    """Train a learner to its number of moves, play games by its search, and return the plan."""
    place = folder(runs, plan)
    print(f"{place.name}:", file=sys.stderr)
    learn_until_end(experiment, place, plan, threads)
    play_by_search(place, plan, experiment.searched)
    return plan


def key_of(plan: LearnerPlan) -> Row:
    """Return the entries that the rows of a learner, and no others, have in common."""
    names = {"experiment": plan.experiment, "run": plan.run, "seed": plan.seed}
    return {**names, "settings": plan.digest}


def learn_until_end(experiment: Experiment, place: Path, plan: LearnerPlan, threads: int) -> None:
    """Train a learner to its number of moves, or until its values diverge."""
    record_settings(place / "config.json", plan.settings)
    last = last_row(place)
    if "diverged" in last or last.get("n_moves", 0) >= plan.moves:
        return
    if "start" in plan.settings:
        experiment.check_network("ntuple")
    is_neural = from_dict(plan.settings, SearchValueRun).is_neural
    options = {"moves": plan.moves, "evaluate_every": plan.every}
    options["threads"] = threads if is_neural else 1
    try:
        train("search", plan.settings, place, **options)
    except Diverged as error:
        print(error, file=sys.stderr)


def checkpoint(place: Path, plan: LearnerPlan) -> Path:
    """Return the file of a learner."""
    return place / from_dict(plan.settings, SearchValueRun).checkpoints[0]


def play_by_search(place: Path, plan: LearnerPlan, n_games: int) -> None:
    """Play games by the search of a learner and its values, unless that was done.

    The values of a learner that diverged are the last saved ones.
    """
    file, path = checkpoint(place, plan), place / "search_play.jsonl"
    if not file.exists():
        return
    learner = from_dict(plan.settings, SearchValueRun).new()
    learner.resume(file)
    done = [(row["n_moves"], row["search_play"]["n_games"]) for row in json_files.rows(path)]
    if (learner.n_moves, n_games) not in done:
        options = {"network": learner.model.player(), **plan.settings["search"]}
        player = agents.make("mc-softmax", **options)
        result = summary(play(player, n_games, EVALUATION_SEED))
        json_files.write_rows(path, [{"n_moves": learner.n_moves, "search_play": result}])


def write_report(args: Args) -> None:
    """Write tables and figures."""
    report.write(args.folder)


COMMANDS = {
    "regrets": measure_regrets,
    "temperature": learn_temperature,
    "scores": measure_scores,
    "learn": learn,
    "report": write_report,
}
OPTIONS = {
    **dict.fromkeys(("repeats", "threads"), ("learn",)),
    **dict.fromkeys(("only", "jobs", "backend", "hours"), ("regrets", "scores", "learn")),
    "runs": ("regrets", "temperature", "learn"),
}
"""The commands that use an option, where not all do."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.experiments.mc_softmax.run", arguments)
    check_options(args, OPTIONS)
    COMMANDS[args.command](args)


if __name__ == "__main__":
    from benchmarks.experiments.mc_softmax import run  # other processes import its functions

    sys.exit(run_process(run.main))
