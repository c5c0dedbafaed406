"""Timing in turn, so that a change in the machine's speed meets all subjects alike.

Subjects of one process are timed by `in_turn`. A program that runs by itself prints its steps as it
makes them, and `section` times it from outside, whatever it is written in: the clocks are read when
a line arrives, so that starting, loading tables and compiling are not counted for any program.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeAlias

from afterstate.leaderboard.machine import machine

Steps: TypeAlias = Callable[[int], int]
"""Continue from the last call for about n steps; return the number of steps made."""

ROOT = Path(__file__).parents[2]

ROUND_SECONDS = 1.0
"""CPU seconds of a subject in a round of `in_turn`, about."""

HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "NUMPY_MADVISE_HUGEPAGE": "1"}
"""Environment variables that ask for huge pages: the first in C++ programs, the second in numpy."""

SHORTEST = 0.05
"""The least CPU seconds timed: the clock of another process advances in steps of milliseconds."""

REFUSE_HUGE_PAGES = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE, which a new program inherits
os.execv(sys.argv[1], sys.argv[1:])
"""


class Subject(NamedTuple):
    """A subject to time: `start` loads it. The first call of its steps may compile."""

    name: str
    start: Callable[[], Steps]
    unit: str = "steps/CPU s"


class Figure(NamedTuple):
    """One line of the table."""

    name: str
    unit: str
    values: list[float]


def in_turn(subjects: Sequence[Subject], rounds: int, least: int = 2_000) -> list[Figure]:
    """Time the subjects in turn, in each round for about `ROUND_SECONDS` and at least some steps.

    The first call of each is not counted.
    """
    running = [subject.start() for subject in subjects]
    sizes = []
    for steps in running:
        steps(1)
        start = time.process_time()
        done = steps(least)
        rate = done / (time.process_time() - start + 1e-9)
        sizes.append(max(least, int(rate * ROUND_SECONDS)))
    values: list[list[float]] = [[] for _ in running]
    for _ in range(rounds):
        for i, steps in enumerate(running):
            start = time.process_time()
            done = steps(sizes[i])
            values[i].append(done / (time.process_time() - start))
    return [Figure(s.name, s.unit, rates) for s, rates in zip(subjects, values, strict=True)]


def _number(line: str) -> int:
    """Return the number that a line consists of, 0 for other lines."""
    return int(line) if line.strip().isdigit() else 0


class Program(NamedTuple):
    """A program that makes steps until it is terminated.

    `command` gets the seed as its last word; `steps` returns the steps that a printed line reports.
    """

    command: list[str]
    steps: Callable[[str], int] = _number


class Span(NamedTuple):
    """The part of a program's run that is timed.

    It begins with the first line at which `after` steps are made, and ends with the first one at
    which it has `steps` steps and `seconds` CPU seconds.
    """

    after: int = 1
    steps: int = 1
    seconds: float = 0.0

    def scaled(self, by: float) -> Span:
        """Return a span that is shorter or longer in all parts."""
        return Span(
            max(1, round(by * self.after)), max(1, round(by * self.steps)), by * self.seconds
        )


class Section(NamedTuple):
    """A timed part of a run: its steps, its seconds by both clocks, its memory and other load."""

    steps: int
    cpu_seconds: float
    wall_seconds: float
    huge_mib: float  # memory in huge pages at the end
    others: float  # cores that other processes kept busy


def section(program: Program, span: Span, seed: int, huge_pages: bool | None = None) -> Section:
    """Run a program in a process of its own and time a part of its run.

    Args:
        program: it is terminated at the end of the part.
        span: the part to time.
        seed: the seed of the run.
        huge_pages: True to ask for them, False to refuse them, None for the system's default.

    Raises:
        RuntimeError: the program ended before the part did; the message has its last words.
    """
    with tempfile.TemporaryFile("w+") as errors, _running(program, seed, huge_pages, errors) as run:
        assert run.stdout is not None
        total, start, last = 0, None, ""
        for line in run.stdout:
            last = line.strip() or last
            total += program.steps(line)
            now = (total, *_clocks(run.pid), busy_seconds())
            if start is None:
                start = now if total >= span.after else None
                continue
            steps, cpu, wall, busy = (b - a for a, b in zip(start, now, strict=True))
            if steps >= span.steps and cpu >= max(span.seconds, SHORTEST):
                others = max(0.0, busy - cpu) / wall
                return Section(int(steps), cpu, wall, _huge_mib(run.pid), others)
        errors.seek(0)
        words = errors.read().strip().splitlines()[-1:] or [last]
    raise RuntimeError(f"it ended after {total:,} steps: {words[0]}")


@contextmanager
def _running(
    program: Program, seed: int, huge_pages: bool | None, errors: Any
) -> Iterator[subprocess.Popen[str]]:
    """Start a program in a process group, which is terminated at the end."""
    refuse = [sys.executable, "-c", REFUSE_HUGE_PAGES] if huge_pages is False else []
    run = subprocess.Popen(
        [*refuse, *program.command, str(seed)],
        env={**os.environ, **(HUGE_PAGES if huge_pages else {})},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )
    try:
        yield run
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(run.pid, number)
                run.wait(timeout=10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        if run.stdout is not None:
            run.stdout.close()


def _clocks(pid: int) -> tuple[float, float]:
    """Return the CPU seconds of a process with all of its threads, and wall time."""
    return time.clock_gettime((~pid << 3) | 2), time.perf_counter()  # as clock_getcpuclockid(3)


def _huge_mib(pid: int) -> float:
    """Return how much memory of a process lies in huge pages, in MiB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("AnonHugePages:"):
            return int(line.split()[1]) / 1024
    return 0.0


def busy_seconds() -> float:
    """Return the seconds for which the cores have been busy since the system's start, together."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    idle = ticks[3] + ticks[4]  # and waiting for a disk
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK")


def print_steps(start: str, settings: str, seed: str, seconds: float = 0.25) -> None:
    """Make the steps of a subject until terminated; print their number a few times a second.

    Args:
        start: module and function that starts it, as `module:function`.
        settings: the function's keyword arguments, a JSON object.
        seed: another keyword argument.
        seconds: the time between two lines, in wall time and at least.
    """
    module, function = start.split(":")
    steps: Steps = getattr(import_module(module), function)(**json.loads(settings), seed=int(seed))
    steps(1)
    n = 1
    while True:
        before = time.perf_counter()
        print(steps(n), flush=True)
        if time.perf_counter() - before < seconds:
            n *= 2


def fresh_process(code: str, cache: str | None = None, before: str = "") -> float:
    """Return the CPU seconds that code takes in a new Python process.

    Args:
        code: a program.
        cache: folder of compiled kernels; by default the usual one.
        before: code that runs first and is not timed.
    """
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    clock = "time.process_time()"
    timed = f"{before}\nimport time; t = {clock}\n{code}\nprint({clock} - t)"
    command = [sys.executable, "-c", timed]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(run.stdout)


def lines(figures: Sequence[Figure]) -> list[str]:
    """Return one line per figure: median, unit, range and number of values."""
    result = []
    for name, unit, values in figures:
        digits = 0 if "/" in unit else 2
        middle, low, high = (f"{v:,.{digits}f}" for v in (median(values), min(values), max(values)))
        spread = f"({low} to {high}, n = {len(values)})"
        result.append(f"{name:52}{middle:>14} {unit:12} {spread}")
    return result


def show(figures: Sequence[Figure], out: Path | None = None, **facts: Any) -> None:
    """Print the machine, further facts and the figures; write them to a file if one is given."""
    head = ", ".join(f"{name} {value}" for name, value in {**machine(), **facts}.items())
    output([head, *lines(figures)], out)


def output(printed: Sequence[str], out: Path | None) -> None:
    """Print lines, and write them to a file if one is given."""
    text = "\n".join(printed)
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    print_steps(sys.argv[1], sys.argv[2], sys.argv[3])
