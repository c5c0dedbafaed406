"""What the experiments share: options, calls in parallel, learners that go on, means over runs.

An experiment is divided into calls that do not depend on each other: runs of learning, players that
play, parts of searched positions. They are made by the processes of this machine or of a Ray
cluster, each once; what a call returns is written when it ends, so that the same command goes on
after an interruption.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import sem, t
from tqdm import tqdm

from afterstate.agents.config import from_dict
from afterstate.agents.training import __main__ as training
from afterstate.agents.training.workers import Call, Workers
from afterstate.envs import json_files
from afterstate.envs.messages import listed
from afterstate.leaderboard.row_files import Row


def check_options(args: Any, commands: Mapping[str, Sequence[str]]) -> None:
    """Check that a command is given no options that only others use.

    Args:
        args: settings with the field `command`.
        commands: the commands that use an option, by its name; all use the options without a line.

    Raises:
        ValueError: an option has no effect.
    """
    defaults = {each.name: each.default for each in fields(args)}
    for name, using in commands.items():
        if args.command not in using and getattr(args, name) != defaults[name]:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is for {listed(using)}, got {args.command}")


def results(
    calls: Sequence[Call],
    workers: Workers,
    hours: float | None,
    unit: str,
    in_order: bool = False,
) -> Iterator[Any]:
    """Yield the results of calls, those first that end first, and show the progress.

    Args:
        calls: the calls.
        workers: processes that make them.
        hours: time after which no more calls are begun; None: no limit.
        unit: what calls are, for the progress bar.
        in_order: yield them in the order of the calls instead.

    Raises:
        OSError: a process was killed.
    """
    made = workers.results if in_order else workers.as_they_end
    yield from tqdm(made(within(calls, hours)), total=len(calls), unit=f" {unit}")


def within(calls: Iterable[Call], hours: float | None) -> Iterator[Call]:
    """Yield calls until the time is over; None: all of them."""
    end = math.inf if hours is None else time.monotonic() + 3600 * hours
    yield from takewhile(lambda _: time.monotonic() < end, calls)


def train(learner: str, settings: Row, folder: Path, **options: Any) -> None:
    """Train a learner in a folder, or go on with the one that is there.

    Args:
        learner: one of `afterstate train`.
        settings: those of the run, as in a settings file.
        folder: the folder of the run, which is made.
        options: those of `afterstate train`, with underscores.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: wrong settings, or a folder that does not fit them.
        SystemExit: the learned values diverged.
    """
    kind = training.run_settings(learner)
    run = from_dict(settings, kind)
    resume = any((folder / name).exists() for name in run.checkpoints)
    training.run(run, kind.options(out=folder, resume=resume, **options))


def copy_rows(path: Path, runs: Iterable[tuple[Row, Sequence[Row]]]) -> None:
    """Write the rows of runs of learning to a file of results.

    Args:
        path: the file.
        runs: what identifies each run, and its rows; a run without rows keeps those in the file.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    before, rows = json_files.rows(path), list[Row]()
    for key, new in runs:
        old = [row for row in before if key.items() <= row.items()]
        rows += [{**key, **row} for row in new] or old
    json_files.write_rows(path, rows)


class Estimate(NamedTuple):
    """A mean with half of its 95% interval, nan if it is unknown."""

    mean: float
    interval: float

    def __str__(self) -> str:
        spread = "" if math.isnan(self.interval) else f" ± {self.interval:,.0f}"
        return f"{self.mean:,.0f}{spread}"


def over_runs(runs: Sequence[Estimate]) -> Estimate:
    """Return the result of one run, or the mean of several with Student's 95% interval over runs.

    The interval of one run is that over its games.
    """
    if len(runs) == 1:
        return runs[0]
    means = [each.mean for each in runs]
    half_width = t.ppf(0.975, len(runs) - 1) * sem(means)
    return Estimate(float(np.mean(means)), float(half_width))
