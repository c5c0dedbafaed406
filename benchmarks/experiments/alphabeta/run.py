"""Repeat the claims of 2048-AI, and measure the contribution of each term of its evaluation.

    python -m benchmarks.experiments.alphabeta.run play --jobs 2
    python -m benchmarks.experiments.alphabeta.run reach
    python -m benchmarks.experiments.alphabeta.run report

`play` plays the games of `settings.json`, or of `--settings`, that have no row in `games.jsonl` in
`benchmarks/results/experiments/alphabeta`, or in `--out`: three searches use each evaluation, and
each search uses the full evaluation at several depths. `reach` plays games with the original's
limit of 100 ms a move until they have a 2048 tile, and appends each to `reached.jsonl` there; they
take two to three minutes each, and nothing else may use the core. `report` writes tables and a
figure to `README.md` there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium as gym

from afterstate import agents
from afterstate.agents.config import read, settings
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from afterstate.envs.json_files import Row
from afterstate.leaderboard.machine import machine
from benchmarks.experiments import harness
from benchmarks.experiments.alphabeta import report
from benchmarks.experiments.alphabeta.settings import SETTINGS, Experiment, Reach
from benchmarks.experiments.entries import play_entries, play_part
from benchmarks.experiments.harness import (
    ExperimentArgs,
    ExperimentFolder,
    check_options,
    rows_lock,
    run_calls,
)

RESULTS = harness.RESULTS / "alphabeta"


@settings
class Args(ExperimentArgs):
    """Repeat the claims of 2048-AI, and measure the terms of its evaluation."""

    command: Literal["play", "reach", "report"]
    """Play the games that have no row, those with a limit of time, or write the report."""
    settings: Path = SETTINGS
    """File of the settings of players and games."""
    out: Path = field(default=RESULTS, kw_only=True)
    """Folder of rows, page and figure."""

    @cached_property
    def folder(self) -> ExperimentFolder[Experiment]:
        """The settings, and the folder of the results."""
        return ExperimentFolder(read(self.settings, Experiment), self.out)


def play(args: Args) -> None:
    """Play the games of all players."""
    file, entries = args.out / report.GAMES, args.folder.experiment.entries()
    play_entries(file, entries, play_entry, args.workers, args.hours, report.TILES)


def play_entry(entry: Row, seeds: range) -> Row:
    """Play some games of a player and return their results."""
    return play_part(entry, seeds, ready_player(entry["settings"]))


def ready_player(options: Row) -> Any:
    """Return a player whose kernels are loaded, before a clock starts."""
    player = agents.make("alphabeta", **options)
    player.act(0x11)
    return player


# Games with a limit of time


def reach(args: Args) -> None:
    """Play the games with a limit of time that have no row, and append each when it ends.

    Raises:
        ValueError: more processes than this machine has processors, which would share its time.
    """
    cores = os.cpu_count() or 1
    if args.backend == "local" and args.jobs > cores:
        raise ValueError(f"jobs must be <= {cores}, the processors here, got {args.jobs}")
    folder, path = args.folder, args.out / report.REACHED
    with rows_lock(path):
        done = {row["seed"] for row in report.reached_rows(folder)}
        plan = folder.experiment.reach
        calls = [partial(reach_tile, plan, seed) for seed in plan.seeds if seed not in done]
        for row in run_calls(calls, args.workers, args.hours, "games"):
            json_files.append(path, [row])


def reach_tile(plan: Reach, seed: int) -> Row:
    """Play a game with a limit of time until it has the tile, or is lost; return its row."""
    player = ready_player(plan.player)
    start, began = time.process_time(), time.monotonic()
    game = play_until(player, plan.tile, seed)
    seconds, passed = time.process_time() - start, time.monotonic() - began
    row = {"seed": seed, **plan.player, "tile": plan.tile, **game._asdict()}
    row["ms_per_move"] = round(1e3 * passed / game.moves, 1)
    row["cpu_ms_per_move"] = round(1e3 * seconds / game.moves, 1)
    return {**row, "machine": machine()}


class Game(NamedTuple):
    """A game until it has a tile, or is lost."""

    max_tile: int
    score: int
    moves: int


def play_until(player: Any, tile: int, seed: int) -> Game:
    """Play a game until it has a tile, or is lost."""
    env: Any = gym.make("Game2048-v0").unwrapped
    env.reset(seed=seed)
    game, is_over = Game(0, 0, 0), False
    while not is_over and game.max_tile < tile:
        _, reward, is_over, _, info = env.step(player.act(env.board))
        game = Game(info["max_tile"], game.score + int(reward), game.moves + 1)
    return game


# Command line


def write_report(args: Args) -> None:
    """Write tables and the figure."""
    report.write(args.folder)


COMMANDS = {"play": play, "reach": reach, "report": write_report}
OPTIONS = dict.fromkeys(("jobs", "backend", "hours"), ("play", "reach"))
"""The commands that use an option, where not all do."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.experiments.alphabeta.run", arguments)
    check_options(args, OPTIONS)
    COMMANDS[args.command](args)


if __name__ == "__main__":
    from benchmarks.experiments.alphabeta import run  # other processes import its functions

    sys.exit(run_process(run.main))
