"""One run of an experiment: it learns, and each evaluation on the way is a row."""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner, play_evaluation
from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.agents.training.folder import FolderLock
from afterstate.agents.training.run import Diverged
from afterstate.envs import durable_files, json_files
from afterstate.envs.json_files import Row
from afterstate.envs.signals import sigterm_raises, uninterrupted
from afterstate.leaderboard.machine import machine
from benchmarks.experiments.quasi_greedy.settings import DEPTHS, Experiment, Measure, Run, Scale

POINTS = 10
"""Evaluations of a run, unless another number is given."""
SAVE_SECONDS = 1800
"""Seconds of learning after which the learner is saved between evaluations."""


class Plan(NamedTuple):
    """Length of runs, with the places and numbers of games of their evaluations."""

    scale: Scale
    shares: tuple[float, ...]  # of the run, ascending, the last is 1
    search_shares: tuple[float, ...]  # those with 3-ply games
    games: Mapping[Measure, int]  # by the way to play

    def games_at(self, share: float) -> dict[Measure, int]:
        """Return the number of games after a share of a run, by the way to play."""
        return {
            measure: n_games
            for measure, n_games in self.games.items()
            if n_games > 0 and (measure == "greedy" or share in self.search_shares)
        }


def make_plan(
    experiment: Experiment,
    scale: Scale,
    points: int,
    games: Mapping[Measure, int],
    search_shares: Collection[float] | None = None,
) -> Plan:
    """Return a plan with evaluations at equal distances, and wherever 3-ply search plays.

    Args:
        experiment: the experiment.
        scale: the length of a run.
        points: number of evaluations at equal distances.
        games: number of games of an evaluation, by the way to play.
        search_shares: shares of the run after which 3-ply search plays; by default a half, the
            end, and those with published scores of it.
    """
    if search_shares is None:
        search_shares = default_search_shares(experiment)
    rounded = {round(share, 6) for share in search_shares}
    even = {round((i + 1) / points, 6) for i in range(points)}
    return Plan(scale, tuple(sorted(even | rounded)), tuple(sorted(rounded)), games)


def default_search_shares(experiment: Experiment) -> set[float]:
    """Return the shares of a run after which 3-ply search plays unless others are given."""
    anchors = [anchor for run in experiment.runs for anchor in run.published]
    searched = [experiment.share(anchor) for anchor in anchors if "3-ply" in anchor.scores]
    return {round(share, 6) for share in (0.5, 1.0, *searched)}


def key(experiment: Experiment, run: Run, seed: int, scale: Scale) -> Row:
    """Return the entries that all rows of a run, and no others, have in common."""
    return {
        "experiment": experiment.name,
        "run": run.name,
        "settings": experiment.digest(run),
        "seed": seed,
        "scale": {scale.axis: scale.amount},
    }


def play(
    experiment: Experiment, run: Run, seed: int, plan: Plan, threads: int, folder: Path
) -> list[Row]:
    """Play one run, or the rest of it; print each evaluation.

    Args:
        experiment: the experiment.
        run: one of its runs.
        seed: of the games.
        plan: its length and evaluations.
        threads: number of threads that learn; a run repeats its games with one.
        folder: of the checkpoints, each in a folder of its own, written after each evaluation,
            every half hour, and on Ctrl-C or SIGTERM.

    Returns:
        A row for each evaluation, the last one with the machine. If the weights diverge, the run
        ends after its last evaluation, whose row says so.

    Raises:
        Diverged: the weights diverged before any evaluation.
    """
    of_run = key(experiment, run, seed, plan.scale)
    _load_kernels(experiment, run)
    progress = _Progress(experiment, run, seed, plan, threads)
    checkpoint = _Checkpoint(folder_of(folder, of_run, plan))
    rows = checkpoint.resume(progress)
    switch = experiment.switch_of(run, plan.scale.axis)
    try:
        with sigterm_raises(KeyboardInterrupt()):
            for share in sorted({*plan.shares, *([] if switch is None else [switch])}):
                if rows and share <= rows[-1]["share"]:
                    continue
                progress.learn_until(share, checkpoint)
                if share == switch:
                    progress.learner.settings = NTupleSettings(**experiment.learner_of(run))
                if share in plan.shares:
                    rows.append({**of_run, **progress.evaluation(share)})
                    checkpoint.write(rows[-1], progress)
    except KeyboardInterrupt:
        with uninterrupted():
            checkpoint.save(progress)
        raise
    except Diverged as error:
        if not rows:
            raise
        print(f"{progress.title}: {error}", file=sys.stderr)
        rows[-1]["diverged"] = error.last
    rows[-1]["machine"] = machine()
    return rows


def _load_kernels(experiment: Experiment, run: Run) -> None:
    """Play games as the run does: to compile takes no time of it."""
    first, last = experiment.first_learner_of(run), experiment.learner_of(run)
    for options in [first] if first == last else [first, last]:
        net = network(**experiment.network)
        NTupleLearner(net, NTupleSettings(**options), seed=0).learn(1)


def folder_of(folder: Path, row: Row, plan: Plan) -> Path:
    """Return the folder that has the run of a row, played by a plan, while it is in progress."""
    identity = [row["settings"], row["scale"], plan.shares, plan.search_shares, {**plan.games}]
    digest = zlib.crc32(json.dumps(identity).encode())
    return folder / f"{row['experiment']}_{digest:08x}_seed_{row['seed']}"


class _Checkpoint:
    """The checkpoint of a run in progress: its rows, the learner, and the seconds it learned."""

    def __init__(self, folder: Path) -> None:
        self._held = FolderLock(folder)
        self._rows, self._learner = folder / "rows.jsonl", folder / "learner.npz"
        self._seconds = folder / "seconds.json"
        self._seconds_at: dict[str, float] = {}  # by the number of moves at each save
        durable_files.remove_unfinished(folder.glob("*.part"))

    def resume(self, progress: _Progress) -> list[Row]:
        """Return the rows so far; the run goes on where its learner was saved."""
        if not self._learner.exists():
            self._rows.unlink(missing_ok=True)
            return []
        progress.load(self._learner)
        json_files.truncate(self._rows, "moves", progress.learner.n_moves)
        rows: list[Row] = json_files.rows(self._rows)
        self._seconds_at = json_files.read(self._seconds)
        progress.seconds = self._seconds_at[str(progress.learner.n_moves)]
        return rows

    def write(self, row: Row, progress: _Progress) -> None:
        """Write a row, and then the learner: a row that is ahead of it is measured again."""
        json_files.append(self._rows, [row])
        self.save(progress)

    def save(self, progress: _Progress) -> None:
        """Save the learner; the seconds come first, with those of the learner that is there."""
        self._seconds_at[str(progress.learner.n_moves)] = progress.seconds
        durable_files.write(self._seconds, json.dumps(self._seconds_at).encode())
        progress.learner.save(self._learner)


class _Progress:
    """A run in progress."""

    def __init__(
        self, experiment: Experiment, run: Run, seed: int, plan: Plan, threads: int
    ) -> None:
        first = NTupleSettings(**experiment.first_learner_of(run))
        self.title, self.plan = f"{run.name}, seed {seed}", plan
        self.learner = NTupleLearner(network(**experiment.network), first, seed, threads)
        self.seconds = 0.0  # CPU time of self-play and learning

    def load(self, path: Path) -> None:
        """Go on with the learner of a file."""
        threads = self.learner.threads
        self.learner = NTupleLearner.load(path)
        self.learner.threads = threads

    def done(self) -> float:
        """Return the length so far, in the unit of the scale."""
        return self.learner.n_moves if self.plan.scale.axis == "moves" else self.seconds

    def learn_until(self, share: float, checkpoint: _Checkpoint) -> None:
        """Learn up to a share of the run, and to the end of the game, in chunks of half a second.

        Kernels cannot be interrupted, so Ctrl-C ends a run after a chunk.
        """
        axis, amount = self.plan.scale
        goal, chunk, saved = share * amount, 1_000.0, time.monotonic()
        while (remaining := goal - self.done()) > 0:
            n_before, start = self.learner.n_moves, time.process_time()
            n = max(1, int(min(chunk, remaining) if axis == "moves" else chunk))
            with uninterrupted():
                self.learner.learn(n)
                seconds = max(1e-6, time.process_time() - start)
                self.seconds += seconds
            limit = 0.5 if axis == "moves" else min(0.5, max(1e-3, remaining - seconds))
            chunk = min(2 * chunk, (self.learner.n_moves - n_before) / seconds * limit)
            if time.monotonic() - saved > SAVE_SECONDS:
                checkpoint.save(self)
                saved = time.monotonic()

    def evaluation(self, share: float) -> Row:
        """Play evaluation games, and return and print their results."""
        n_games = self.plan.games_at(share)
        depths, threads = {DEPTHS[m]: n for m, n in n_games.items()}, self.learner.threads
        results = play_evaluation(self.learner.network, depths, threads)
        scores: Row = {measure: results[f"{DEPTHS[measure]}-ply"] for measure in n_games}
        means = ", ".join(f"{measure} {score['mean']:,.0f}" for measure, score in scores.items())
        print(f"{self.title}, {share:.1%}: {means}", flush=True)
        return {
            "share": share,
            "moves": self.learner.n_moves,
            "games": self.learner.n_games,
            "learned": self.learner.n_learned,
            "seconds": round(self.seconds, 2),
            "threads": self.learner.threads,
            **scores,
        }
