r"""Decision time of rank networks, their rates of learning, and games per second of self-play.

    python -m benchmarks.speed.rank_nets --out benchmarks/results/speed_rank_nets.txt
    python -m benchmarks.speed.rank_nets --only learning \
        --out benchmarks/results/speed_rank_learning.txt

Decisions are positions of games between heuristic players with more than one legal play, timed as
CPU time of one thread. The networks are untrained, which costs the same. They learn by SGD from
batches of 25 samples, as in the paper, and take turns. Self-play is measured in wall time, in two
processes of one thread each, after a first round that is not counted.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
import torch
from torch import nn

from afterstate.agents import nets
from afterstate.agents.config import Count, settings
from afterstate.agents.daihinmin.learning.game_records import play_log
from afterstate.agents.daihinmin.learning.rank_learner import RankLearner, Samples, samples_of
from afterstate.agents.daihinmin.learning.rank_settings import RankRun, RankSettings
from afterstate.agents.daihinmin.learning.rank_training import generate
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent
from afterstate.agents.daihinmin.values import rank_net
from afterstate.agents.daihinmin.values.rank_net import RankAgent
from afterstate.agents.progress import progress_bar
from afterstate.agents.training.workers import Workers
from afterstate.envs.commands import parse, run_process
from afterstate.envs.daihinmin.plays import N_PLAYS, PASS
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game, write_legal
from benchmarks.speed.decisions import Recorder, recorded, show, time_decisions
from benchmarks.speed.timing import Figure, Steps, Subject, in_turn

CHANNELS = (16, 32, 64, 128)
PRINTED = RankSettings(optimizer="sgd", rate=3e-4, momentum=0.9, batch=25)
"""Settings with which networks learn in the paper."""


def positions(n_games: int, seed: int = 1) -> list[Game]:
    """Return the views of heuristic players in which they have a choice."""
    listed = np.empty(N_PLAYS, np.int64)

    def has_choice(view: Game) -> bool:
        plays = 0 if view["to_give"] else write_legal(view, listed) + (view["field"] != PASS)
        return bool(plays > 1)

    recorder = Recorder(HeuristicAgent(), has_choice)
    return recorded(recorder, [recorder] * (N_PLAYERS - 1), n_games, seed)


def decision_times(n_games: int) -> list[Figure]:
    """Time the networks on every decision of some games."""
    views = positions(n_games)
    timed = {f"BaseCNN{n}": rank_net.network("BaseCNN", channels=n) for n in CHANNELS}
    return [
        time_decisions(f"decision, {name}", RankAgent(net).choose, views)
        for name, net in timed.items()
    ]


def learning(n_games: int, rounds: int) -> list[Figure]:
    """Measure the samples that networks learn from in a second of CPU time."""
    samples = samples_of(play_log([HeuristicAgent()] * N_PLAYERS, n_games, seed=1))
    networks = {f"BaseCNN{n}": rank_net.network("BaseCNN", channels=n) for n in CHANNELS}
    networks["HistoryCNN"] = rank_net.network("HistoryCNN")
    subjects = [
        Subject(f"learns, {name}, batches of 25", partial(learner, net, samples), "samples/CPU s")
        for name, net in networks.items()
    ]
    return in_turn(subjects, rounds, least=10 * PRINTED.batch)


def learner(net: nn.Module, samples: Samples) -> Steps:
    """Return the steps of a network that learns: samples."""
    made = RankLearner(net, PRINTED)

    def steps(n: int) -> int:
        n_batches = math.ceil(n / PRINTED.batch)
        made.fit(samples, n_batches)
        return n_batches * PRINTED.batch

    return steps


def self_play(channels: int, bf16: bool, rounds: int) -> Figure:
    """Measure self-play games per second of wall time, in two processes."""
    run = RankRun(
        network={"name": "BaseCNN", "channels": channels},
        learner=RankSettings(bf16=bf16),
        games=1_000,
        table=500,
    )
    name = f"self-play, BaseCNN{channels}, {16 if bf16 else 32}-bit, two processes"
    speeds = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.safetensors"
        torch.manual_seed(1)
        nets.save(run.new_network(), path)
        for number in progress_bar(range(rounds + 1), desc=name, unit="rounds", leave=False):
            start = time.monotonic()
            generate(run, [path], [number], Workers(2), device="cpu")
            speeds.append(run.games / (time.monotonic() - start))
    return Figure(name, "games/s", speeds[1:])


@settings
class Args:
    """Time rank networks."""

    games: Count = 20
    """Games whose decisions are timed."""
    rounds: Count = 5
    """Rounds of learning, and of self-play."""
    only: Literal["decisions", "learning", "self-play"] | None = None
    """Part to time; by default decisions and self-play."""
    out: Path | None = None
    """File for the figures."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.speed.rank_nets", arguments)
    torch.set_num_threads(1)
    figures = []
    if args.only in (None, "decisions"):
        figures += decision_times(args.games)
    if args.only == "learning":
        figures += learning(args.games, args.rounds)
    if args.only in (None, "self-play"):
        figures += [self_play(32, bf16, args.rounds) for bf16 in (False, True)]
    show(figures, args.out)


if __name__ == "__main__":
    sys.exit(run_process(main))
