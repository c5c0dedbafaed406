"""Training of N-tuple networks from the command line.

    python -m afterstate.agents.game2048.learning.ntuple_training RUN.json --out RUN --moves 1e9

A settings file is a JSON object with the arguments of `ntuple.network` and the fields of
`learning.Settings`, all optional:

    {"network": {"tuples": "4x6", "stages": [512, 1024]}, "learner": {"restart": 10}, "seed": 1}

The folder of a run has `learner.npz`, the whole learner, from which it goes on and which
`agents.load` reads, `rows.jsonl` and `settings.json`: see `runs.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from afterstate.agents.config import check_names
from afterstate.agents.game2048.learning.ntuple_learner import Learner, Settings, in_threads
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple import Network, NTupleAgent, network, pack_network
from afterstate.agents.training import run
from afterstate.agents.training.run import EVALUATION_SEED, Kind, check_seed, summary


def evaluate(net: Network, plies: dict[int, int], threads: int = 1) -> dict[str, Any]:
    """Plays a network without learning.

    Args:
        net: the network.
        plies: how many games for each depth: 1 is greedy, more is expectimax.
        threads: how many share the games, which are the same for any number of them.

    Returns:
        For each depth, as `"1-ply"`, the `summary` of its games.
    """
    return {
        f"{depth}-ply": summary(_play_out(net, depth, n_games, min(threads, n_games)))
        for depth, n_games in plies.items()
    }


def _play_out(net: Network, depth: int, n_games: int, threads: int) -> Games:
    """Plays the evaluation games."""
    if n_games < 1:
        raise ValueError(f"an evaluation has at least one game, not {n_games}")
    bounds = [n_games * i // threads for i in range(threads + 1)]

    def run(me: int) -> Games:
        player = NTupleAgent(net) if depth == 1 else ExpectimaxAgent(net, depth)
        return play(player, bounds[me + 1] - bounds[me], EVALUATION_SEED + bounds[me])

    parts = [run(0)] if threads == 1 else in_threads(run, threads)
    return Games(*(np.concatenate(column) for column in zip(*parts, strict=True)))


# Runs of the command line


def new_learner(settings: dict[str, Any], threads: int = 1) -> Learner:
    """A learner from settings.

    Raises:
        ValueError: wrong settings.
    """
    how = _learner_settings(settings)
    check_seed(settings["seed"])
    return Learner(_network(settings), how, settings["seed"], threads)


def _network(settings: dict[str, Any], **others: Any) -> Network:
    """The network of settings, some of them replaced."""
    check_names("network", settings["network"], signature(network).parameters)
    return network(**{**settings["network"], **others})


def _learner_settings(settings: dict[str, Any]) -> Settings:
    """How to learn."""
    check_names("learner", settings["learner"], signature(Settings).parameters)
    return Settings(**settings["learner"])


def resume(path: Path, settings: dict[str, Any], threads: int) -> Learner:
    """The learner of a run that goes on, with the learner's settings as they are asked for now.

    Raises:
        ValueError: wrong settings, or the run has another network or another rule of learning.
    """
    asked, net = _learner_settings(settings), _network(settings, start_value=0)  # no page of it
    learner = Learner.load(path)
    if pack_network(net)[0] != pack_network(learner.network)[0]:
        raise ValueError(f"{path} has another network than the settings ask for")
    learner.settings = asked
    learner.threads = threads
    return learner


def _evaluate(learner: Learner, chosen: argparse.Namespace) -> dict[str, Any]:
    """What rows say of a learner."""
    found = evaluate(learner.network, chosen.evaluate, chosen.threads)
    return {"n_learned": learner.n_learned, **found}


def _begin_ntuple(
    settings: dict[str, Any], chosen: argparse.Namespace, path: Path | None
) -> Learner:
    """A learner from settings and options, or that of a file."""
    if path is None:
        return new_learner(settings, chosen.threads)
    return resume(path, settings, chosen.threads)


NTUPLE = Kind(
    module="training",
    what="an N-tuple network",
    file=lambda settings: "learner.npz",
    settings={"network": {}, "learner": {}, "seed": None},
    begin=_begin_ntuple,
    evaluate=_evaluate,
    evaluate_every=1e9,
    plies="1:1000,3:10",
    devices=False,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    run.run(NTUPLE, arguments)


if __name__ == "__main__":
    main()
