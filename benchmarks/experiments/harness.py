"""Parts that experiments share: options, calls in parallel, logs, learning, means over runs.

An experiment is divided into calls that do not depend on each other: runs of learning, players that
play, parts of searched positions. They are made by the processes of this machine or of a Ray
cluster, each once; what a call returns is written when it ends, so that the same command goes on
after an interruption.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from scipy.stats import binomtest, sem, t

from afterstate.agents.config import Backend, Count, Jobs, Positive, from_dict, settings
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.learning.options import LogOptions
from afterstate.agents.progress import progress_bar
from afterstate.agents.training import learners
from afterstate.agents.training.folder import FolderLock
from afterstate.agents.training.workers import Call, Workers
from afterstate.envs import durable_files, json_files
from afterstate.envs.json_files import Row
from afterstate.envs.messages import listed, shown

T = TypeVar("T")

RESULTS = Path(__file__).parents[1] / "results" / "experiments"
"""Folder of the results of all experiments."""


@dataclass(frozen=True)
class ExperimentFolder(Generic[T]):
    """An experiment, and the folder of its results."""

    experiment: T
    """Its settings."""
    path: Path
    """Folder of rows, page and figures."""


@settings
class ExperimentArgs:
    """Arguments of the commands of all experiments."""

    _: KW_ONLY
    jobs: Jobs = 1
    """Processes that play, search or learn."""
    backend: Backend = "local"
    """Host of the processes: this machine (local), or a Ray cluster (ray)."""
    hours: Positive | None = None
    """Hours after which nothing more begins; by default there is no limit."""
    out: Path = RESULTS
    """Folder of rows, pages and figures."""

    @property
    def workers(self) -> Workers:
        """The processes."""
        return Workers(self.jobs, self.backend)


@settings
class LearningArgs(ExperimentArgs):
    """Arguments of the commands of experiments that learn."""

    _: KW_ONLY
    threads: Count = 1
    """CPU threads of each process."""

    @property
    def workers(self) -> Workers:
        """The processes, with their threads."""
        return Workers(self.jobs, self.backend, self.threads)


@settings
class NetworkArgs(LearningArgs):
    """Arguments of the commands of experiments whose networks learn and play on a device."""

    _: KW_ONLY
    device: str = "cpu"
    """Device on which networks learn and play: cpu or cuda."""

    @property
    def workers(self) -> Workers:
        """The processes, with their threads and, unless they are on the CPU, a GPU each."""
        gpus = int(self.device != "cpu")
        return Workers(self.jobs, self.backend, self.threads, gpus=gpus)


def check_options(args: Any, commands: Mapping[str, Sequence[str]]) -> None:
    """Check that a command is given no options that only others use.

    Args:
        args: settings with the field `command`.
        commands: the commands that use an option, by its name; all use the options without a line.

    Raises:
        ValueError: an option has no effect.
    """
    for name, using in commands.items():
        if args.command not in using and is_given(args, name):
            raise ValueError(f"{option(name)} is for {listed(using)}, got {args.command}")


def check_defaults(args: Any, names: Iterable[str], reason: str) -> None:
    """Check that options without effect are not given.

    Args:
        args: settings.
        names: the options.
        reason: where they have no effect, such as `with --smoke`.

    Raises:
        ValueError: one is given.
    """
    for name in names:
        if is_given(args, name):
            raise ValueError(f"{option(name)} has no effect {reason}")


def is_given(args: Any, name: str) -> bool:
    """Return True if a setting is not its default."""
    defaults = {each.name: each.default for each in fields(args)}
    return bool(getattr(args, name) != defaults[name])


def option(name: str) -> str:
    """Return a setting's name on the command line."""
    return f"--{name.replace('_', '-')}"


def settings_file(name: str, folder: Path) -> Path:
    """Return the settings file of an experiment, by its name or a path `NAME.json`.

    Args:
        name: the experiment.
        folder: the settings files of all experiments with a name.

    Raises:
        ValueError: there is no experiment of this name.
    """
    if name.endswith(".json"):
        return Path(name)
    files = {path.stem: path for path in sorted(folder.glob("*.json"))}
    if name not in files:
        raise ValueError(f"name must be {', '.join(files)} or a file NAME.json, got {shown(name)}")
    return files[name]


def selected(every: Iterable[str], only: Sequence[str] = ()) -> list[str]:
    """Return the names that `--only` has, in the order of all; by default all of them.

    Raises:
        ValueError: an unknown name.
    """
    names = list(every)
    for name in only:
        if name not in names:
            raise ValueError(f"--only must be of {listed(names)}, got {shown(name)}")
    return [name for name in names if not only or name in only]


def run_calls(
    calls: Sequence[Call],
    workers: Workers,
    hours: float | None,
    unit: str,
    in_order: bool = False,
    save: bool = False,
) -> Iterator[Any]:
    """Yield the results of calls as they end, and show the progress.

    Args:
        calls: the calls.
        workers: processes that make them.
        hours: time after which no more calls are begun; None: no limit.
        unit: what calls are, for the progress bar.
        in_order: yield them in the order of the calls instead.
        save: True if calls save when Ctrl-C interrupts them, which is waited for.

    Raises:
        OSError: a process was killed. Errors of calls are raised as well.
    """
    begun, n_made = within(calls, hours), 0
    made = workers.results(begun) if in_order else workers.as_they_end(begun, save=save)
    for result in progress_bar(made, total=len(calls), unit=unit):
        n_made += 1
        yield result
    if n_made < len(calls):
        print(f"{len(calls) - n_made} of {len(calls)} {unit} are left: the same command goes on")


def within(calls: Iterable[Call], hours: float | None) -> Iterator[Call]:
    """Yield calls until the time is over; None: all of them."""
    end = math.inf if hours is None else time.monotonic() + 3600 * hours
    yield from takewhile(lambda _: time.monotonic() < end, calls)


def record_settings(path: Path, options: Row) -> None:
    """Write the settings of a file to another file, or check that they are the same in JSON.

    Raises:
        ValueError: the file was made with other settings.
    """
    text = json.dumps(options, indent=1) + "\n"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        durable_files.write(path, text.encode())
    if json_files.read(path) != json.loads(text):
        raise ValueError(f"{path} has other settings: give another folder with --runs")


def write_log(path: Path, options: Mapping[str, Any]) -> None:
    """Write a play log of 2048, or continue one that was interrupted.

    Args:
        path: the log.
        options: those of `afterstate log`, with one player.
    """
    files = {"log": str(path), "resume": path.with_suffix(".parts").exists()}
    player = [str(options["player"])]
    play_logs.write(from_dict({**options, **files, "player": player}, LogOptions))


def train(learner: str, settings: Row, folder: Path, **options: Any) -> None:
    """Train a learner in a folder, or go on with the one that is there.

    Args:
        learner: one of `afterstate train`.
        settings: those of the run, as in a settings file.
        folder: the folder of the run, which is made.
        options: those of `afterstate train`, with underscores.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: wrong settings, or a folder that was made with others.
        Diverged: the learned values diverged; the last row says so.
        KeyboardInterrupt: the run was interrupted and saved.
    """
    kind = learners.run_settings(learner)
    run = from_dict(settings, kind)
    record_settings(folder / "config.json", settings)
    resume = any((folder / name).exists() for name in run.checkpoints)
    try:
        learners.run(run, kind.options(out=folder, resume=resume, **options))
    except KeyboardInterrupt:
        message = f"saved in {folder}: the same command goes on"
        raise KeyboardInterrupt(message) from None


def rows_lock(path: Path, seconds: float = 0.0) -> FolderLock:
    """Return the lock of a file of rows, for a block in which no other process writes to it.

    Args:
        path: the file of rows; another one of its folder may be written meanwhile.
        seconds: time for which another process is waited for.

    Raises:
        OSError: the folder cannot be made.
        ValueError: another process writes to the file.
    """
    message = f"another process writes to {path}: stop it, or choose another folder"
    return FolderLock(path.parent, message, f"{path.name}.lock", seconds)


WAIT = 60.0
"""Seconds for which a process waits before it replaces rows, which take others less to write."""


def last_row(folder: Path) -> Row:
    """Return the last row of a run of learning, empty if there is none."""
    row: Row = (json_files.rows(folder / "rows.jsonl") or [{}])[-1]
    return row


def copy_rows(path: Path, key: Row, folder: Path, *names: str) -> None:
    """Copy the rows of a run that has ended to a file of results, in place of earlier ones.

    Rows of a run with more moves stay, so that a short trial does not replace them.

    Args:
        path: the file of results.
        key: what the rows of the run, and no others, have in common.
        folder: the folder of the run.
        names: files of its rows.

    Raises:
        OSError: the file cannot be written.
        ValueError: another process goes on writing to it.
    """
    with rows_lock(path, WAIT):
        new = [{**key, **row} for name in names for row in json_files.rows(folder / name)]
        before = json_files.rows(path)
        own = [i for i, row in enumerate(before) if key.items() <= row.items()]
        first = own[0] if own else len(before)
        others = [row for i, row in enumerate(before) if i not in own]
        if most([before[i] for i in own], "n_moves") > most(new, "n_moves"):
            print(f"{path} keeps the rows of a longer run; those of this one are in {folder}")
            return
        json_files.write_rows(path, [*others[:first], *new, *others[first:]])


def most(rows: Iterable[Row], name: str) -> int:
    """Return the largest number that rows have by this name, 0 if none has one."""
    return max((row.get(name, 0) for row in rows), default=0)


def processors(rows: Iterable[Row]) -> list[str]:
    """Return the processors of the rows that name their machine, sorted."""
    return sorted({row["machine"]["cpu"] for row in rows if "machine" in row})


def published_texts(folder: Path, out: Path, texts: Sequence[str], stem: str = "") -> list[str]:
    """Return texts of a page about the published rows; none for other rows, and print why.

    Args:
        folder: of the experiment, with the texts; its `published.sha256`, as of `sha256sum`, has
            the digest of each file of rows that they are about.
        out: the folder of the rows.
        texts: files of the texts, in the order of the page.
        stem: name of the rows that the page is of, without `.jsonl`; by default all.
    """
    lines = (folder / "published.sha256").read_text(encoding="utf-8").splitlines()
    published = (line.split() for line in lines)
    expected = {name: digest for digest, name in published if stem in ("", Path(name).stem)}
    if not expected:
        return []
    for name in expected:
        file = out / name
        digest = sha256(file.read_bytes()).hexdigest() if file.exists() else "no file"
        if digest != expected[name]:
            print(f"The page has no verdicts: they are about other rows than {file} has ({digest})")
            return []
    return [(folder / text).read_text(encoding="utf-8").rstrip() for text in texts]


INTERVALS = "Intervals are over games, and where there are several runs over these."
"""Text of tables whose means are by `over_runs`."""


class Estimate(NamedTuple):
    """A mean with half of its 95% interval, nan if it is unknown."""

    mean: float
    half_interval: float
    runs: int = 1
    """Number of runs that the interval is over; with 1 it is over the games of one run."""

    def __str__(self) -> str:
        half = "" if math.isnan(self.half_interval) else f" ± {self.half_interval:,.0f}"
        return f"{self.mean:,.0f}{half}"


def share_of(n: int, n_games: int) -> tuple[float, float, float]:
    """Return the share of n games and the ends of its 95% interval (Wilson), in percent."""
    ends = binomtest(n, n_games).proportion_ci(method="wilson")
    return 100 * n / n_games, 100 * ends.low, 100 * ends.high


def over_runs(runs: Sequence[Estimate]) -> Estimate:
    """Return the result of one run, or the mean of several with Student's 95% interval over runs.

    One run keeps the interval that it has, such as that over its games.
    """
    if len(runs) == 1:
        return runs[0]
    means = [each.mean for each in runs]
    half_interval = t.ppf(0.975, len(runs) - 1) * sem(means)
    return Estimate(float(np.mean(means)), float(half_interval), len(runs))


def difference(one: Estimate, other: Estimate) -> Estimate:
    """Return a mean minus another one; its interval is Welch's if both are over several runs.

    It is nan if only one of them is: an interval over the games of one run has less in it.
    """
    half_interval = math.hypot(one.half_interval, other.half_interval)
    if (one.runs > 1) != (other.runs > 1):
        half_interval = math.nan
    elif one.runs > 1:
        freedom = np.array([one.runs - 1, other.runs - 1])
        halves = np.array([one.half_interval, other.half_interval])
        variances = (halves / t.ppf(0.975, freedom)) ** 2
        both = variances.sum() ** 2 / (variances**2 / freedom).sum()
        half_interval = float(t.ppf(0.975, both) * math.sqrt(variances.sum()))
    return Estimate(one.mean - other.mean, half_interval)
