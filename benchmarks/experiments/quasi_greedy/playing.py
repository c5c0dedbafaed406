"""One run of an experiment: learning, and at places on the way evaluations, each of them a row."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from afterstate.agents.game2048.learning.ntuple_learner import Learner, Settings, evaluate
from afterstate.agents.game2048.values.ntuple import network
from benchmarks.experiments.quasi_greedy.settings import DEPTHS, Experiment, Run, Scale
from benchmarks.machine import machine

Row = dict[str, Any]

LEARNING_SPEED = {"greedy": 9e5, "search": 6e4}
"""About how many moves a second self-play makes, to foretell how long a run takes."""

PLAYING_SPEED = {"greedy": 1e6, "3-ply": 3e3}
"""And so evaluation."""

SEARCH_GAME = 0.4
"""Moves of a game by search, to those of a greedy game with all its rounds of restart."""


class Plan(NamedTuple):
    """How long runs are, and where and with how many games they are evaluated."""

    scale: Scale
    shares: tuple[float, ...]  # of the run, ascending, the last is 1
    search_shares: tuple[float, ...]  # those where 3-ply is played
    games: dict[str, int]  # by the way to play

    def asked(self, share: float) -> dict[str, int]:
        """How many games are played after a share of a run, by the way to play."""
        return {
            measure: n_games
            for measure, n_games in self.games.items()
            if n_games > 0 and (measure == "greedy" or share in self.search_shares)
        }


def plan(
    experiment: Experiment,
    scale: Scale,
    points: int,
    games: dict[str, int],
    search_shares: list[float] | None = None,
) -> Plan:
    """Evaluations at places equally far apart, and where 3-ply search is played.

    Args:
        experiment: which.
        scale: how long a run is.
        points: how many places equally far apart.
        games: how many games each way to play has in an evaluation.
        search_shares: where 3-ply search is played; by default half way, at the end, and where
            the paper has a value of it.
    """
    if search_shares is None:
        anchors = [anchor for run in experiment.runs for anchor in run.published]
        search_shares = [0.5, 1.0, *(a.share for a in anchors if "3-ply" in a.values)]
    searched = tuple(sorted({round(share, 6) for share in search_shares}))
    even = {round((i + 1) / points, 6) for i in range(points)}
    return Plan(scale, tuple(sorted({*even, *searched})), searched, games)


def play(
    experiment: Experiment, run: Run, seed: int, plan: Plan, report: Callable[[float], object]
) -> list[Row]:
    """Plays one run.

    Args:
        experiment: which.
        run: which of its runs.
        seed: of the learner.
        plan: how long it is, and its evaluations.
        report: called about twice a second with how much of its `cost` is done.

    Returns:
        A row for each evaluation, the last one with the machine.
    """
    running = _Running(experiment, run, seed, plan, report)
    switch = experiment.switch(run, plan.scale.axis)
    rows = []
    for share in sorted({*plan.shares, *([] if switch is None else [switch])}):
        running.learn_until(share)
        if share == switch:
            running.learner.settings = Settings(**run.learner)
        if share in plan.shares:
            rows.append(running.evaluation(share))
    rows[-1]["machine"] = machine()
    return rows


class _Running:
    """A run under way."""

    def __init__(
        self,
        experiment: Experiment,
        run: Run,
        seed: int,
        plan: Plan,
        report: Callable[[float], object],
    ) -> None:
        self.experiment, self.run, self.seed, self.plan = experiment, run, seed, plan
        self.learner = Learner(network(**experiment.network), Settings(**run.first), seed)
        self.seconds = 0.0  # of the processor, in self-play and learning
        self._report, self._evaluated = report, 0.0

    def done(self) -> float:
        """How much it has of the run's length, in the unit of the scale."""
        return self.learner.n_moves if self.plan.scale.axis == "moves" else self.seconds

    def learn_until(self, share: float) -> None:
        """Learns up to a share of the run, and to the end of the game."""
        axis, amount = self.plan.scale
        goal, chunk = share * amount, 1_000.0
        while (left := goal - self.done()) > 0:
            n_before, began = self.learner.n_moves, time.thread_time()
            self.learner.play(max(1, int(min(chunk, left) if axis == "moves" else chunk)))
            took = max(1e-6, time.thread_time() - began)
            self.seconds += took
            time_left = 0.5 if axis == "moves" else min(0.5, max(1e-3, left - took))
            rate = (self.learner.n_moves - n_before) / took
            chunk = min(2 * chunk, rate * time_left)
            self.report()

    def evaluation(self, share: float) -> Row:
        """Plays without learning, and returns a row."""
        asked = self.plan.asked(share)
        found = evaluate(self.learner.network, {DEPTHS[m]: asked[m] for m in asked})
        self._evaluated += evaluation_cost(self.experiment, self.run, self.plan, share)
        self.report()
        return {
            **key(self.experiment, self.run, self.seed, self.plan.scale),
            "share": share,
            "moves": self.learner.n_moves,
            "games": self.learner.n_games,
            "learned": self.learner.n_learned,
            "seconds": round(self.seconds, 2),
            **{measure: found[f"{DEPTHS[measure]}-ply"] for measure in asked},
        }

    def report(self) -> None:
        """Reports how much of the cost is done."""
        share = min(1.0, self.done() / self.plan.scale.amount)
        learned = learning_cost(self.experiment, self.run, self.plan.scale, share)
        self._report(learned + self._evaluated)


def key(experiment: Experiment, run: Run, seed: int, scale: Scale) -> Row:
    """What all rows of one run have in common, and no others."""
    return {
        "experiment": experiment.name,
        "run": run.name,
        "settings": experiment.digest(run),
        "seed": seed,
        "scale": {scale.axis: scale.amount},
    }


# How long it takes


def cost(experiment: Experiment, run: Run, plan: Plan) -> float:
    """About how many seconds of the processor a run takes."""
    evaluations = sum(evaluation_cost(experiment, run, plan, share) for share in plan.shares)
    return learning_cost(experiment, run, plan.scale, 1) + evaluations


def learning_cost(experiment: Experiment, run: Run, scale: Scale, share: float) -> float:
    """About how many seconds self-play and learning take up to a share of a run."""
    if scale.axis == "seconds":
        return share * scale.amount
    switch = experiment.switch(run, "moves") or 0.0
    before, after = min(share, switch), max(0.0, share - switch)
    seconds = before / _speed(run.first) + after / _speed(run.learner)
    return scale.amount * seconds


def evaluation_cost(experiment: Experiment, run: Run, plan: Plan, share: float) -> float:
    """About how many seconds an evaluation takes, by the length of games after so much learning."""
    learned = share * plan.scale.amount
    if plan.scale.axis == "seconds":
        learned *= _speed(run.learner)
    n_moves = {"greedy": 4e3, "3-ply": 1e4}
    longer: float = (learned / 2e8) ** 0.3
    asked = plan.asked(share)
    return sum(asked[m] * n_moves[m] * longer / PLAYING_SPEED[m] for m in asked)


def _speed(learner: dict[str, Any]) -> float:
    """About how many moves a second self-play with such settings makes."""
    games: float = learner.get("search_share", 0)
    searched = SEARCH_GAME * games / (SEARCH_GAME * games + 1 - games)
    return 1 / (searched / LEARNING_SPEED["search"] + (1 - searched) / LEARNING_SPEED["greedy"])
