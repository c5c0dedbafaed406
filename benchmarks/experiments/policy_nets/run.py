"""Repeat the experiments of Matsuzaki and Teramura on policy networks, at a smaller scale.

    python -m benchmarks.experiments.policy_nets.run log --jobs 2
    python -m benchmarks.experiments.policy_nets.run train --repeats 3 --jobs 2
    python -m benchmarks.experiments.policy_nets.run play --repeats 3 --jobs 2
    python -m benchmarks.experiments.policy_nets.run report
    python -m benchmarks.experiments.policy_nets.run renew

`log` writes the play log. `train` trains the networks of `settings.json`, or of `--settings`, on
it, each in a folder of `--runs`, or only those of `--layers`, with `--repeats` each with several
seeds, and copies their rows to `learning.jsonl` in `benchmarks/results/experiments/policy_nets`, or
in `--out`. `play` plays the games of table 2 with the trained networks that have no row, and
appends a row for each to `games.jsonl` there. All three continue where they were interrupted.
`report` plays games with the network that has the most layers, for the positions of section 6 and
the probes, and writes tables and pictures with the published values to `README.md` there, by the
networks of the first seed. `renew` writes the text, table 2 and tables 4 to 7 of that page again,
by the rows of games and the pretrained networks.

With `--moves 6e8` log, train, play and report take as many moves as the paper; with `--device cuda`
networks learn and play on a GPU.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, field
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import torch

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.config import Count, read, settings
from afterstate.agents.game2048.values.policy_net import PolicyNetAgent, load
from afterstate.agents.training.evaluation import EVALUATION_SEED
from afterstate.envs.commands import parse, run_process
from afterstate.envs.json_files import Row
from afterstate.envs.messages import listed
from benchmarks.experiments.entries import play_entries, play_part
from benchmarks.experiments.harness import (
    ExperimentFolder,
    NetworkArgs,
    check_options,
    copy_rows,
    record_settings,
    run_calls,
    train,
    write_log,
)
from benchmarks.experiments.policy_nets import report
from benchmarks.experiments.policy_nets.settings import (
    RESULTS,
    SETTINGS,
    Experiment,
    network_file,
    run_folder,
)


@settings
class Args(NetworkArgs):
    """Repeat the experiments of Matsuzaki and Teramura on policy networks."""

    command: Literal["log", "train", "play", "report", "renew"]
    """Part to run."""
    runs: Path = Path("runs/policy_nets")
    """Folder of the log and the networks."""
    layers: tuple[int, ...] = ()
    """Layers of the networks to train; by default all of settings.json."""
    repeats: Count = 1
    """Number of seeds of each network: 1, 2, ..."""
    games: Count | None = None
    """Games of table 2 for each network, at least 2; by default those of settings.json."""
    moves: Count | None = None
    """Moves to log and to learn from; by default those of settings.json."""
    settings: Path = SETTINGS
    """File of the settings of log, networks, games and learner."""
    out: Path = field(default=RESULTS, kw_only=True)
    """Folder of rows, page and pictures."""

    def __post_init__(self) -> None:
        if self.games == 1:
            raise ValueError("games must be >= 2, got 1")
        known = self.folder.experiment.layers
        if unknown := [layers for layers in self.layers if layers not in known]:
            raise ValueError(f"layers must be of {listed(known)}, got {unknown[0]}")

    @cached_property
    def folder(self) -> ExperimentFolder[Experiment]:
        """The settings, and the folder of the results."""
        return ExperimentFolder(read(self.settings, Experiment), self.out)

    @property
    def n_moves(self) -> int:
        """Number of moves that networks learn from."""
        return self.moves or self.folder.experiment.moves


def log(args: Args) -> None:
    """Write the log that networks learn from, unless it is complete.

    Raises:
        ValueError: the folder has a log with other settings.
    """
    plan = args.folder.experiment.log
    options = {**asdict(plan), "moves": args.moves or plan.moves}
    path = args.runs / "moves.npy"
    record_settings(path.with_suffix(".config.json"), options)
    if not path.exists():
        write_log(path, {**options, "jobs": args.jobs, "backend": args.backend})


def train_networks(args: Args) -> None:
    """Train the networks that have not learned from all moves yet."""
    calls = [
        partial(train_network, args, layers, seed)
        for seed in range(1, args.repeats + 1)
        for layers in args.layers or args.folder.experiment.layers
    ]
    path = args.out / report.LEARNING
    for key in run_calls(calls, args.workers, args.hours, "networks", save=True):
        copy_rows(path, key, run_folder(args.runs, **key), "rows.jsonl")


def train_network(args: Args, layers: int, seed: int) -> Row:
    """Train a network in its folder, and return its layers and seed."""
    learner = {**args.folder.experiment.learner, "decay": args.n_moves}
    of_run = {"network": {"layers": layers}, "log": str(args.runs / "moves.npy")}
    train(
        "policy",
        {**of_run, "learner": learner, "seed": seed},
        run_folder(args.runs, layers, seed),
        moves=args.n_moves,
        evaluate=None,
        evaluate_every=max(1, args.n_moves // 20),
        save_minutes=5,
        device=args.device,
        threads=args.threads,
    )
    return {"layers": layers, "seed": seed}


def trained_networks(args: Args) -> dict[tuple[int, int], Path]:
    """Return the files of the networks that have learned from all moves, by layers and seed.

    Raises:
        ValueError: there is none.
    """
    seeds, every_layers = range(1, args.repeats + 1), args.folder.experiment.layers
    every: list[tuple[int, int]] = [(layers, seed) for layers in every_layers for seed in seeds]
    files = {key: network_file(args.runs, *key) for key in every}
    trained = {
        key: file
        for key, file in files.items()
        if file.exists() and nets.metadata(file).get("n_moves", 0) >= args.n_moves
    }
    if not trained:
        raise ValueError(f"no network in {args.runs} has learned all moves: train some first")
    return trained


def entries(args: Args) -> list[Row]:
    """Return the players of table 2: random moves, and networks with what they learned from."""
    experiment = args.folder.experiment
    games = {"games": args.games or experiment.games, "chunk": experiment.chunk}
    rows: list[Row] = [{"player": "random", "settings": {"seed": 1}, **games}]
    for (layers, seed), file in trained_networks(args).items():
        metadata = nets.metadata(file)
        log = metadata.get("log")
        checksum = log["crc32"] if isinstance(log, dict) else log
        learned = {"moves": metadata["n_moves"], "log": checksum, "learner": digest(metadata)}
        of_network = {"layers": layers, "seed": seed, **learned}
        rows.append({"player": "policy-net", "settings": of_network, **games})
    return rows


def digest(metadata: Row) -> str:
    """Return twelve characters that identify the learner's settings of a network."""
    learner = json.dumps(metadata.get("learner"), sort_keys=True)
    return hashlib.sha256(learner.encode()).hexdigest()[:12]


def play_entry(args: Args, entry: Row, seeds: range) -> Row:
    """Play some games of a player and return their results."""
    if entry["player"] == "random":
        seed = entry["settings"]["seed"] + seeds[0] - EVALUATION_SEED
        return play_part(entry, seeds, agents.make("random", seed=seed))
    torch.set_num_threads(args.threads)
    file = network_file(args.runs, entry["settings"]["layers"], entry["settings"]["seed"])
    seconds = nets.metadata(file).get("seconds")
    player = PolicyNetAgent(load(file, args.device))
    return play_part(entry, seeds, player, learning_seconds=seconds)


def play(args: Args) -> None:
    """Play the games of table 2."""
    path, play_some = args.out / report.GAMES, partial(play_entry, args)
    play_entries(path, entries(args), play_some, args.workers, args.hours)


def write_report(args: Args) -> None:
    """Write the page with its tables and pictures."""
    networks = {layers: load(file) for (layers, _), file in trained_networks(args).items()}
    report.write(args.folder, networks, args.runs, args.n_moves)


def renew(args: Args) -> None:
    """Write those sections of the page again that need no trained networks."""
    report.renew(args.folder)


COMMANDS = {
    "log": log,
    "train": train_networks,
    "play": play,
    "report": write_report,
    "renew": renew,
}
OPTIONS = {
    "jobs": ("log", "train", "play"),
    "backend": ("log", "train", "play"),
    "hours": ("train", "play"),
    "repeats": ("train", "play"),
    "device": ("train", "play"),
    "threads": ("train", "play"),
    "layers": ("train",),
    **dict.fromkeys(("runs", "moves"), ("log", "train", "play", "report")),
    "games": ("play",),
    "out": ("train", "play", "report", "renew"),
}
"""The commands that use an option, where not all do."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.experiments.policy_nets.run", arguments)
    check_options(args, OPTIONS)
    COMMANDS[args.command](args)


if __name__ == "__main__":
    from benchmarks.experiments.policy_nets import run  # other processes import its functions

    sys.exit(run_process(run.main))
