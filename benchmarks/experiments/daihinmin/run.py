r"""Repeat the experiments of Kuwabara and Hoki (2018) with rank networks, at a smaller scale.

    python -m benchmarks.experiments.daihinmin.run generations train --runs runs
    python -m benchmarks.experiments.daihinmin.run generations play --runs runs
    python -m benchmarks.experiments.daihinmin.run logs train --runs runs --jobs 2
    python -m benchmarks.experiments.daihinmin.run logs play --runs runs --jobs 2 \
        --self-play runs/generations/all/net.safetensors
    python -m benchmarks.experiments.daihinmin.run logs report

`train` trains the networks of the settings file `NAME.json`, each in a folder of `--runs`, with
`--repeats` each with several seeds. `play` draws five of the players again and
again, and lets them play sets of 100 games, from one class reset to the next. Each set is a row of
`NAME.jsonl` in `benchmarks/results/experiments/daihinmin`, or in `--out`; a file has rows of the
same players only. Both commands continue after an interruption. `play` and `report` then write the
tables with the published values, `NAME.md`, and the figure, `NAME.svg`.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from afterstate.agents import nets
from afterstate.agents.config import Count, settings
from afterstate.agents.daihinmin.learning.game_records import Log, join, play_log
from afterstate.agents.daihinmin.learning.rank_learner import errors, samples_of
from afterstate.agents.daihinmin.learning.rank_settings import RULE_PLAYERS, RankOptions
from afterstate.agents.daihinmin.learning.rank_training import RankTraining
from afterstate.agents.daihinmin.learning.self_play import play_games
from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE, find_player
from afterstate.agents.daihinmin.values import rank_net
from afterstate.agents.daihinmin.values.rank_net import RankAgent
from afterstate.agents.progress import progress_bar
from afterstate.agents.training import learners
from afterstate.agents.training.workers import ALONE, Call, Workers
from afterstate.envs import durable_files, json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.envs.json_files import Row
from afterstate.leaderboard.machine import machine
from benchmarks.experiments import harness
from benchmarks.experiments.daihinmin import report
from benchmarks.experiments.daihinmin.settings import Experiment, read, seeded
from benchmarks.experiments.harness import (
    NetworkArgs,
    check_defaults,
    check_options,
    most,
    record_settings,
    rows_lock,
    run_calls,
    selected,
)

RESULTS = harness.RESULTS / "daihinmin"
OPTIONS = {
    **dict.fromkeys(("only", "threads"), ("train",)),
    **dict.fromkeys(("jobs", "backend", "hours", "device"), ("train", "play")),
    **dict.fromkeys(("draws", "self_play"), ("play",)),
    "out": ("play", "report"),
}
"""The commands that use an option, where not all do."""

Players: TypeAlias = Mapping[str, nn.Module | str]
"""Networks, and players of the package by name, by their names in the experiment."""


@settings
class Args(NetworkArgs):
    """Repeat an experiment with rank networks."""

    name: str
    """Experiment: generations, logs, or a settings file NAME.json like theirs."""
    command: Literal["train", "play", "report"]
    """Train the networks, play games, or only write the tables and the figure."""
    runs: Path | None = None
    """Folder of the training runs."""
    only: tuple[str, ...] = ()
    """Names of the networks to train; by default all."""
    self_play: Path | None = None
    """File of the network of self-play, for the player Self."""
    repeats: Count = 1
    """Number of seeds of each network: 1, 2, ..."""
    draws: Count = 100
    """Number of draws of five players."""
    out: Path = field(default=RESULTS, kw_only=True)
    """Folder of rows, page and figure."""


# Training


def train(experiment: Experiment, folder: Path, args: Args) -> None:
    """Train the networks up to the last generation: several at a time, unless there is one run.

    Then the processes play the games of its generations.
    """
    end = math.inf if args.hours is None else time.time() + 3600 * args.hours
    only = [seeded(name, seed) for name in args.only for seed in range(1, args.repeats + 1)]
    names = selected(experiment.runs(args.repeats), only)
    of_run, workers = (ALONE, args.workers) if len(names) > 1 else (args.workers, ALONE)
    calls = [partial(train_run, experiment, name, folder, args, of_run, end) for name in names]
    for _ in run_calls(calls, workers, args.hours, "networks", save=True):
        pass


def train_run(
    experiment: Experiment, name: str, folder: Path, args: Args, workers: Workers, end: float
) -> None:
    """Train a network, or all generations of a run, in a folder.

    Args:
        experiment: the experiment.
        name: the run, with its seed.
        folder: of all runs.
        args: arguments of the command.
        workers: processes that play the games to learn from.
        end: time at which no more generations are begun.
    """
    total, out = experiment.generations, run_folder(folder, name)
    options = RankOptions(
        out,
        resume=(out / "net.safetensors").exists(),
        evaluate=1_000,
        generations=total,
        jobs=workers.jobs or 1,
        backend=workers.backend,
        device=args.device,
        threads=args.threads,
    )
    run = experiment.runs(args.repeats)[name]
    record_settings(out / "config.json", asdict(run))
    trainee = cast(RankTraining, learners.start(run, options)[0])
    generations = experiment.players if experiment.has_one_run else ()
    saved = [int(player) for player in generations if player.isdecimal()]
    with progress_bar(total=total, initial=trainee.amount, desc=name, unit="generations") as bar:
        advance(trainee, total, saved, bar, end)


def run_folder(folder: Path, name: str) -> Path:
    """Return the folder of a training run."""
    return folder / name.replace(", ", "_").replace(" ", "_")


def advance(
    trainee: RankTraining, total: int, saved: Collection[int], bar: Any, end: float = math.inf
) -> None:
    """Train a network up to a generation, and evaluate every generation.

    Args:
        trainee: the run.
        total: the last generation.
        saved: generations that are copied to `players/`, since the pool drops the oldest.
        bar: the progress bar, in generations.
        end: time at which no more generations are begun.
    """
    trainee.prepare()
    while True:
        if trainee.generation in saved:
            latest = trainee.pool()[-1]
            durable_files.write(trainee.out / "players" / latest.name, latest.read_bytes())
        rows = [row for row in trainee.folder.rows() if row["generation"] == trainee.generation]
        if trainee.generation > 0 and not any("against_sample" in row for row in rows):
            of_machine = {"machine": {"cpu": machine()["cpu"]}}
            trainee.folder.add_row({**trainee.counters(), **trainee.evaluate(), **of_machine})
        if trainee.generation >= total or time.time() > end:
            return
        trainee.advance()
        trainee.save()
        bar.update()
        bar.set_postfix(trainee.report())


# Playing


def load_players(
    experiment: Experiment,
    folder: Path,
    self_play: Path | None,
    device: str = "cpu",
    repeats: int = 1,
) -> dict[str, nn.Module | str]:
    """Return the players of an experiment that exist, of all seeds of its networks."""
    players: dict[str, nn.Module | str] = {}
    for seed in range(1, repeats + 1):
        for name, player in experiment.players.items():
            if name in RULE_PLAYERS or player.player:
                players[name] = player.player or name
                continue
            path = network_file(experiment, name, folder, self_play, seed)
            if path.exists():
                players[seeded(name, seed)] = rank_net.load(path, device)
    return players


def network_file(
    experiment: Experiment, name: str, folder: Path, self_play: Path | None, seed: int = 1
) -> Path:
    """Return the file of a player's network that learned with a seed."""
    if experiment.has_one_run:
        run = run_folder(folder, seeded("all", seed))
        path = run / "pool" / f"{int(name):05}.safetensors"
        return path if path.exists() else run / "players" / path.name
    if seed == 1 and experiment.players[name].is_from_self_play and self_play is not None:
        return self_play
    return run_folder(folder, seeded(name, seed)) / "net.safetensors"


def play_draw(
    players: Players, names: Sequence[str], n_sets: int, seed: int, n_games: int
) -> list[Row]:
    """Play sets of `n_games` games with five players; return a row for each set."""
    torch.set_num_threads(1)
    seated = [players[name] for name in names]
    log = play_sets(seated, n_sets, seed, n_games)
    match_seeds, sets = np.unique(log.games["seed"], return_inverse=True)
    visits, squares = squared_errors(seated, log, sets, len(match_seeds))
    points = N_PLAYERS - log.games["places"]
    return [
        {
            "seed": seed,
            "set": i,
            "sets": n_sets,
            "players": names,
            "points": points[sets == i].sum(axis=0).tolist(),
            "visits": visits[i].tolist(),
            "squared_error": [None if np.isnan(x) else round(x, 2) for x in squares[i].tolist()],
        }
        for i in range(len(match_seeds))
    ]


def squared_errors(
    seated: Sequence[nn.Module | str], log: Log, sets: npt.NDArray[np.int64], n_sets: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the decisions of networks and the sums of their squared errors, `[n_sets, 5]` each.

    The sums are nan for players that are no networks.

    Args:
        seated: the five players.
        log: their games.
        sets: the set of each game.
        n_sets: number of sets.
    """
    every = samples_of(log)
    visits = np.zeros((n_sets, N_PLAYERS), np.int64)
    squares = np.full((n_sets, N_PLAYERS), np.nan)
    for player, net in enumerate(seated):
        if isinstance(net, nn.Module):
            part = every.part(np.flatnonzero(every.moments.players == player))
            of_set = sets[part.moments.origins]
            visits[:, player] = np.bincount(of_set, minlength=n_sets)
            squares[:, player] = np.bincount(of_set, errors(net, part) ** 2, n_sets)
    return visits, squares


def play_sets(seated: Sequence[nn.Module | str], n_sets: int, seed: int, n_games: int) -> Log:
    """Return sets of games of five players, those of a set one after the other in a match.

    Sets are played in parallel, unless a player searches; then one decision is made at a time.
    """
    if all(isinstance(each, nn.Module) or each in RULE_PLAYERS for each in seated):
        return play_games(seated, n_games * n_sets, seed, n_matches=n_sets)
    logs = []
    for match_seed in np.random.default_rng(seed).integers(0, 2**63, n_sets).tolist():
        players = [
            find_player(each, match_seed + i) if isinstance(each, str) else RankAgent(network=each)
            for i, each in enumerate(seated)
        ]
        logs.append(play_log(players, n_games, match_seed))
    return join(logs)


def timed_draw(
    players: Players, names: Sequence[str], n_sets: int, seed: int, n_games: int
) -> list[Row]:
    """Return the rows of `play_draw`; the first has the CPU time and the processor."""
    start = time.process_time()
    first, *others = play_draw(players, names, n_sets, seed, n_games)
    seconds = round(time.process_time() - start, 2)
    return [{**first, "seconds": seconds, "machine": {"cpu": machine()["cpu"]}}, *others]


def draws(players: Players, n_draws: int, n_sets: int, first: int) -> Iterator[Call]:
    """Draw five players without replacement for each seed from the first on; yield their games."""
    for draw in range(first, n_draws):
        rng = np.random.default_rng([1, draw])
        names = [str(name) for name in rng.choice(list(players), N_PLAYERS, replace=False)]
        five = {name: players[name] for name in names}
        yield partial(timed_draw, five, names, n_sets, draw, GAMES_PER_CYCLE)


def fingerprint(players: Players) -> str:
    """Return twelve characters that identify players: names, order and weights of networks."""
    digest = hashlib.sha256()
    for name, player in players.items():
        digest.update(f"{name}\n".encode())
        if isinstance(player, str) and player != name:
            digest.update(f"{player}\n".encode())
        if isinstance(player, nn.Module):
            for weights in player.state_dict().values():
                digest.update(weights.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:12]


def play(
    experiment: Experiment,
    players: Players,
    n_draws: int,
    path: Path,
    workers: Workers = ALONE,
    hours: float | None = None,
) -> None:
    """Play the draws that are missing in the file of rows, and add each when it ends.

    Args:
        experiment: the experiment.
        players: at least five.
        n_draws: number of draws in the end.
        path: the file of rows.
        workers: processes that play.
        hours: time after which no more draws are begun; None: no limit.

    Raises:
        ValueError: the rows are of other players, or another process writes to them.
    """
    with rows_lock(path):
        before, among = complete_draws(json_files.rows(path)), fingerprint(players)
        if any((row.get("among"), row["sets"]) != (among, experiment.sets) for row in before):
            raise ValueError(
                f"{path} has draws of other players, of networks that have learned since, or of "
                f"another number of sets than {experiment.sets}: move it away or delete it"
            )
        last = max((row["seed"] for row in before), default=-1)
        json_files.truncate(path, "seed", last)
        calls = list(draws(players, n_draws, experiment.sets, last + 1))
        for rows in run_calls(calls, workers, hours, "draws", in_order=True):
            json_files.append(path, [{**row, "among": among} for row in rows])


def complete_draws(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the draws that have all sets."""
    n_sets = Counter(row["seed"] for row in rows)
    return [row for row in rows if n_sets[row["seed"]] == row["sets"]]


# Command line


def check(experiment: Experiment, args: Args) -> None:
    """Raise ValueError if the arguments do not fit the experiment."""
    check_options(args, OPTIONS)
    selected(experiment.runs(), args.only)
    if args.self_play is not None:
        if not any(player.is_from_self_play for player in experiment.players.values()):
            raise ValueError("--self-play is not used: no player is a network of self-play")
        if not args.self_play.is_file():
            raise ValueError(f"--self-play: there is no file {args.self_play}")
    if args.runs is None:
        if args.command != "report":
            raise ValueError("--runs is required: the folder of the training runs")
        check_defaults(args, ["repeats"], "with report without --runs")
    if args.runs is not None and args.command != "train":
        folder = args.runs / Path(args.name).stem
        if not folder.is_dir():
            raise ValueError(f"there is no folder {folder}: train first")
    nets.check_device(args.device)


def existing_players(experiment: Experiment, folder: Path, args: Args) -> Players:
    """Return the players that exist, and print the names of the others.

    Raises:
        ValueError: they are fewer than five, or one of them cannot be read.
    """
    players = load_players(experiment, folder, args.self_play, args.device, args.repeats)
    if len(players) < N_PLAYERS:
        raise ValueError(f"five players are required, got {list(players)}: train them first")
    every = [
        seeded(name, seed)
        for seed in range(1, args.repeats + 1)
        for name, player in experiment.players.items()
        if seed == 1 or player.network is not None or experiment.has_one_run
    ]
    if missing := [name for name in every if name not in players]:
        print(f"Players without a network here: {', '.join(missing)}", file=sys.stderr)
    return players


def training_rows(
    experiment: Experiment, folder: Path | None, copy: Path, repeats: int
) -> dict[str, list[Row]]:
    """Return the rows of the training runs in a folder, and of others those by the results.

    Raises:
        ValueError: neither is there.
    """
    if folder is not None:
        files = {name: run_folder(folder, name) / "rows.jsonl" for name in experiment.runs(repeats)}
        by_run = json_files.read(copy) if copy.exists() else {}
        for name, file in files.items():
            learned, before = json_files.rows(file), by_run.get(name, [])
            if most(learned, "iterations") >= most(before, "iterations"):
                by_run[name] = learned
            else:
                print(f"{copy} keeps the rows of {name}, a longer run than that of {file}")
        durable_files.write(copy, (json.dumps(by_run, indent=0) + "\n").encode())
    if not copy.exists():
        raise ValueError(f"{copy} is not there: --runs is required")
    rows: dict[str, list[Row]] = json.loads(copy.read_text(encoding="utf-8"))
    return rows


def show(
    experiment: Experiment, name: str, folder: Path | None, out: Path, repeats: int = 1
) -> None:
    """Write the page and the figure, and print the page.

    Args:
        experiment: the experiment.
        name: its name or settings file, as it was given.
        folder: the folder of the training runs; None: their rows are those of the results.
        out: the file of rows.
        repeats: number of seeds.

    Raises:
        ValueError: there are no rows.
    """
    rows = complete_draws(json_files.rows(out))
    if not rows:
        raise ValueError(f"{out} has no draws: play some first")
    curves = training_rows(experiment, folder, out.with_suffix(".training.json"), repeats)
    report.write(experiment, name, rows, curves, out.with_suffix(""))
    print(out.with_suffix(".md").read_text(encoding="utf-8"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.experiments.daihinmin.run", arguments)
    torch.set_num_threads(1)
    stem = Path(args.name).stem
    out = args.out / f"{stem}.jsonl"
    folder = None if args.runs is None else args.runs / stem
    experiment = read(args.name)
    check(experiment, args)
    if args.command == "train" and folder is not None:
        train(experiment, folder, args)
        return
    if args.command == "play" and folder is not None:
        players, workers = existing_players(experiment, folder, args), args.workers
        play(experiment, players, args.draws, out, workers, args.hours)
    show(experiment, args.name, folder, out, args.repeats)


if __name__ == "__main__":
    from benchmarks.experiments.daihinmin import run  # other processes import its functions

    sys.exit(run_process(run.main))
