"""Programs that run side by side, are stopped or killed from time to time, and go on.

Of ten lives of a program six end by SIGKILL, two by SIGTERM and two by SIGINT, in random order, and
one is ten times as long as the others. After each life the program's exit code, its temporary files
and what it wrote are checked; after a long one also the growth of its memory, files and threads.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals
from typing import Any, NamedTuple

from afterstate.envs import durable_files
from tests.soak.growth import Usage, excess, growth, usage

ENDS = [SIGKILL] * 6 + [SIGTERM] * 2 + [SIGINT] * 2
"""Signals that end ten lives."""


class Fault(AssertionError):
    """A fault of a program, with its name."""


class Times(NamedTuple):
    """Times in seconds."""

    life: tuple[float, float] = (30.0, 90.0)
    """Shortest and longest time of a life."""
    long: float = 10.0
    """Factor of the life of ten that is longer."""
    start: float = 240.0
    """Time limit of a program to begin its work."""
    settle: float = 3.0
    """From the first sign of work to the first polite signal: then handlers are installed."""
    warm_up: float = 30.0
    """From the first sign of work to the first sample of memory."""
    stop: float = 60.0
    """Time limit of a program to end after a polite signal."""
    step: float = 1.0
    """From one look at all programs to the next."""
    n_samples: int = 120
    """Samples of memory from which on growth is checked."""
    progress: float = 1200.0
    """Time after which each program must have done something that a check has seen."""


class Death(NamedTuple):
    """The end of a life."""

    signal: int
    """The signal that ended it; 0: it ended by itself."""
    time: float
    """When the signal was sent, in seconds of `time.time`."""
    code: int
    """Exit code; -n if signal n killed it."""
    worked: float
    """Seconds since its first sign of work; 0 without one."""
    output: str

    @property
    def cause(self) -> str:
        """The name of the signal."""
        return Signals(self.signal).name if self.signal else "its own end"

    @property
    def is_polite(self) -> bool:
        """True if the program could save before it ended."""
        return self.code != -SIGKILL and self.worked > 0


class Job(ABC):
    """A program that goes on where it was stopped or killed.

    Attributes:
        name: in the summary.
        folder: all that it writes.
    """

    codes: dict[int, int]
    """Exit codes by polite signal."""
    unit: str
    """Unit of its amount."""
    n_temporary = 0
    """Largest number of temporary files that a kill may leave."""
    limit = Usage(memory=16 << 20, files=4, threads=2)
    """Largest growth from the middle third of a life to the last."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        folder.mkdir(parents=True)

    @abstractmethod
    def command(self) -> list[str]:
        """Return the arguments of Python that start it or let it go on."""

    @abstractmethod
    def works(self, output: str) -> bool:
        """Return True if its output shows that it has begun to work."""

    def is_done(self) -> bool:
        """Return True if all its work is done, after which `check` begins anew."""
        return False

    @abstractmethod
    def check(self, death: Death) -> int:
        """Check what a life has left, and return an amount that never becomes less.

        Raises:
            AssertionError, OSError, ValueError, LookupError, EOFError: a fault.
        """


@dataclass(eq=False)
class Life:
    """A program from its start to its end."""

    job: Job
    process: subprocess.Popen[bytes]
    output: Path
    start: float
    end: float
    """When it is ended, by `signal`."""
    signal: Signals
    work: float | None = None
    """Time of its first sign of work."""
    usages: list[Usage] = field(default_factory=list)

    def text(self) -> str:
        """Return its output so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def worked(self) -> float:
        """Return the seconds since its first sign of work; 0 without one."""
        return 0.0 if self.work is None else time.monotonic() - self.work


def plan(rng: random.Random, first_long: int) -> Iterator[tuple[bool, Signals]]:
    """Yield for each life of a program whether it is long, and the signal that ends it.

    Args:
        rng: draws the order of signals, and which of the later lives are long.
        first_long: which of the first ten lives is long.
    """
    long = first_long
    while True:
        for i, number in enumerate(rng.sample(ENDS, len(ENDS))):
            yield i == long, number
        long = rng.randrange(len(ENDS))


@contextmanager
def named(job: Job, when: str) -> Iterator[None]:
    """Turn an error of a check into a fault of a program."""
    try:
        yield
    except (AssertionError, OSError, ValueError, LookupError, EOFError) as error:
        raise Fault(f"{job.name} {error} ({when})") from error


class Soak:
    """The programs, how their lives ended, and the checks that were made.

    Args:
        jobs: the programs, of different names.
        folder: for their output.
        seed: of the times and signals.
        times: of lives and limits.

    Raises:
        Fault: this and all methods report the first fault.
    """

    def __init__(
        self, jobs: Sequence[Job], folder: Path, seed: int, times: Times | None = None
    ) -> None:
        self._folder, self.times, self._rng = folder, times or Times(), random.Random(seed)
        self._amounts = {job.name: 0 for job in jobs}
        self._units = {job.name: job.unit for job in jobs}
        self._plans = {job.name: plan(self._rng, (i + 1) % 10) for i, job in enumerate(jobs)}
        self._dead: dict[str, set[int]] = defaultdict(set)
        """Processes by job whose temporary files may be left."""
        self.ends: Counter[str] = Counter()
        """Number of lives by the signal that ended them."""
        self.checks: Counter[str] = Counter()
        """Number of checks by kind."""
        self._lives = [self._start(job) for job in jobs]

    def _start(self, job: Job) -> Life:
        """Start a program or let it go on."""
        is_long, number = next(self._plans[job.name])
        output, now = self._folder / f"{job.name}.log", time.monotonic()
        with output.open("wb") as log:
            process = subprocess.Popen([sys.executable, *job.command()], stdout=log, stderr=log)
        seconds = self._rng.uniform(*self.times.life) * (self.times.long if is_long else 1)
        return Life(job, process, output, now, now + seconds, number)

    def step(self) -> None:
        """Look at all programs, and end and check those whose time is over."""
        for i, life in enumerate(self._lives):
            self._look(life)
            if time.monotonic() >= life.end or life.process.poll() is not None:
                self._end(life)
                self._lives[i] = self._start(life.job)

    def _look(self, life: Life) -> None:
        """Notice the first sign of work, and sample the memory of a warm program."""
        if life.work is None:
            self._await_work(life)
        elif life.worked() >= self.times.warm_up and life.process.poll() is None:
            life.usages += filter(None, [usage(life.process.pid)])

    def _await_work(self, life: Life) -> None:
        """Notice the first sign of work, when no older temporary file may be left."""
        if life.job.works(life.text()):
            life.work = time.monotonic()
            self._dead[life.job.name].clear()
            with named(life.job, "when it went on"):
                self._check_temporary(life.job, {life.process.pid})
        elif time.monotonic() - life.start > self.times.start:
            raise Fault(f"{life.job.name} has not begun to work in {self.times.start:g} seconds")

    def _end(self, life: Life) -> None:
        """End a life, unless it has ended, and check what it left."""
        death = self._stop(life)
        self.ends[death.cause] += 1
        pids = self._dead[life.job.name]
        pids |= set() if death.is_polite else {life.process.pid}
        with named(life.job, f"after {death.cause}"):
            self._check_code(life, death)
            self._check_temporary(life.job, pids)
            self._check_growth(life)
            self._check_files(life.job, death)

    def _stop(self, life: Life) -> Death:
        """End a program, politely if it can understand that."""
        number, worked, now = 0, life.worked(), time.time()
        if life.process.poll() is None:
            number = life.signal if worked > self.times.settle else SIGKILL
            life.process.send_signal(number)
        try:
            code = life.process.wait(self.times.stop)
        except subprocess.TimeoutExpired:
            life.process.kill()
            life.process.wait()
            text = f"did not end within {self.times.stop:g} seconds of {Signals(number).name}"
            raise Fault(f"{life.job.name} {text}") from None
        return Death(number, now, code, worked, life.text())

    def _check_code(self, life: Life, death: Death) -> None:
        """Check the exit code; a program that has done all its work may just have ended."""
        self.checks["exit codes"] += 1
        number = death.signal
        expected = {life.job.codes.get(number, -number)} if number else set()
        if death.code not in expected and life.job.is_done():
            expected |= {0, -number}
        assert death.code in expected, f"ended with {death.code}: see {life.output}"

    def _check_temporary(self, job: Job, pids: set[int]) -> None:
        """Check that only these processes have left temporary files, and no more than they may."""
        self.checks["temporary files"] += 1
        files = (name for _, _, names in os.walk(job.folder) for name in names)
        left = sorted(name for name in files if name.endswith(".part"))
        times = Counter(map(durable_files.process_of, left))
        is_right = all(pid in pids and n <= job.n_temporary for pid, n in times.items())
        assert is_right, f"left temporary files: {', '.join(left)}"

    def _check_growth(self, life: Life) -> None:
        """Check that a program has not grown, if there are enough samples."""
        if len(life.usages) < self.times.n_samples:
            return
        self.checks["growth"] += 1
        text = excess(growth(life.usages), life.job.limit)
        assert not text, f"grew in {life.worked():,.0f} seconds: {text}"

    def _check_files(self, job: Job, death: Death) -> None:
        """Check what a program has written."""
        self.checks["files"] += 1
        amount, before = job.check(death), self._amounts[job.name]
        assert amount >= before, f"had {before:,} {job.unit} and now has {amount:,}"
        self._amounts[job.name] = amount

    def close(self) -> None:
        """Stop all programs politely, and check them once more; report the first fault."""
        faults = []
        for life in self._lives:
            life.signal = SIGTERM
            try:
                self._end(life)
            except Fault as fault:
                faults.append(fault)
        if faults:
            raise faults[0]

    def check_progress(self) -> None:
        """Report the programs of which no check has seen any work: their checks were empty."""
        if idle := [name for name, amount in self._amounts.items() if not amount]:
            raise Fault(f"{', '.join(idle)} has done nothing that was checked")

    def kill(self) -> None:
        """Kill all programs that run."""
        for life in self._lives:
            life.process.kill()
            life.process.wait()

    def summary(self) -> dict[str, Any]:
        """Return the numbers of lives, checks and amounts so far."""
        return {"ends": dict(self.ends), "checks": dict(self.checks), "amounts": self._amounts}

    def text(self) -> str:
        """Return the summary as a line."""
        ends = ", ".join(f"{n:,} {name}" for name, n in sorted(self.ends.items()))
        checks = ", ".join(f"{n:,} of {name}" for name, n in sorted(self.checks.items()))
        done = (f"{name} {n:,} {self._units[name]}" for name, n in self._amounts.items())
        return f"ends: {ends or 'none'}; checks: {checks or 'none'}; {', '.join(done)}"


def run(soak: Soak, seconds: float, report: Callable[[str], object] | None = None) -> None:
    """Let the programs of a soak run for some time, then stop them.

    Args:
        soak: the programs.
        seconds: time to run.
        report: called with the summary about once a minute.

    Raises:
        Fault: the first fault; all programs are killed.
    """
    end, next_report = time.monotonic() + seconds, time.monotonic() + 60
    try:
        while time.monotonic() < end:
            soak.step()
            if report is not None and time.monotonic() > next_report:
                report(soak.text())
                next_report += 60
            time.sleep(soak.times.step)
        soak.close()
        if seconds >= soak.times.progress:
            soak.check_progress()
    finally:
        soak.kill()


def interruptible() -> None:
    """Let programs hear SIGINT, which a shell in the background has them ignore."""
    signal.signal(SIGINT, signal.default_int_handler)
