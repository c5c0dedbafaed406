"""A process that reads mutated files under limits, and the watch over it."""

from __future__ import annotations

import logging
import multiprocessing
import random
import resource
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from tests.fuzz.mutations import Packing, mutate, mutate_part

MEMORY = 1 << 30
"""Bytes that a reader may take, beyond those that the process has when all modules are loaded."""

SECONDS = 10
"""Time of an input after which the process interrupts it."""

DEAF = 60
"""Time of an input after which the process is killed: compiled code hears no signals."""

LONGEST = 2_000
"""Most characters of a message."""


class Target(NamedTuple):
    """A reader of files, and files that it reads."""

    name: str
    file: str
    """Name of the file, below a folder of its own."""
    samples: Callable[[Path], Sequence[bytes]]
    """Return the contents of valid files; a folder for temporary files is given."""
    read: Callable[[Path], object]
    """Read a file and use what it holds; AssertionError if that is wrong."""
    packing: Packing | None = None


class Fault(NamedTuple):
    """An input that was neither read nor refused."""

    target: str
    error: str
    file: Path


class _TooLong(BaseException):
    """An input took more than `SECONDS`."""


def _raise_too_long(_: int, __: FrameType | None) -> NoReturn:
    raise _TooLong


def check(target: Target, path: Path) -> str:
    """Read a file; return what is wrong with the reader, empty if it reads or refuses the file."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        target.read(path)
    except OSError:
        return ""
    except ValueError as error:
        if str(path.parent) not in str(error):  # the file or its folder
            return f"does not name the file: {error!r:.300}"
        return "" if len(str(error)) < LONGEST else f"says too much: {error!r:.300}"
    except _TooLong:
        return f"took more than {SECONDS} seconds\n{traceback.format_exc()}"
    except Exception as error:
        return f"{error!r:.300}\n{traceback.format_exc()[-3000:]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ""


def _limit() -> None:
    """Limit the memory of this process, and leave no core dump."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _work(
    module: str, names: Sequence[str], seed: int, first: int, folder: Path, report: Connection
) -> None:
    """Read mutated files from the input `first` on.

    It reports the paths of the files by target, then the name and the fault of each input, with the
    input if it has one.
    """
    signal.signal(signal.SIGALRM, _raise_too_long)
    logging.disable(logging.WARNING)  # readers report what they leave out
    targets = [import_module(module).TARGETS[name] for name in names]
    samples = {target.name: _samples(target, folder) for target in targets}
    _limit()
    report.send({target.name: _path(folder, target) for target in targets})
    for number in count(first):
        target = targets[number % len(targets)]
        path = _path(folder, target)
        data = mutated(target, samples[target.name], seed, number)
        path.write_bytes(data)
        # A second reading decides: the first may have waited for kernels that were compiled.
        error = check(target, path) and check(target, path)
        report.send((target.name, error, data if error else b""))


def _path(folder: Path, target: Target) -> Path:
    """Return the path of a target's files."""
    return folder / "work" / target.name / target.file


def _samples(target: Target, folder: Path) -> Sequence[bytes]:
    """Return the samples of a target, each of which it can read."""
    path, scratch = _path(folder, target), folder / "scratch" / target.name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(scratch, ignore_errors=True)  # of an earlier process
    scratch.mkdir(parents=True)
    samples = target.samples(scratch)
    for sample in samples:
        path.write_bytes(sample)
        target.read(path)
    return samples


def mutated(target: Target, samples: Sequence[bytes], seed: int, number: int) -> bytes:
    """Return an input, which depends on nothing else."""
    rng = random.Random(f"{seed} {number} {target.name}")
    sample = rng.choice(samples)
    if target.packing is not None and rng.random() < 0.7:
        return mutate_part(sample, target.packing, rng)
    return mutate(sample, rng)


class Run(NamedTuple):
    """Numbers of inputs and the faults of a run."""

    tried: dict[str, int]
    faults: list[Fault]


def run(
    names: Sequence[str],
    folder: Path,
    seed: int = 0,
    n_inputs: int | None = None,
    seconds: float | None = None,
    progress: Callable[[str, Fault | None], object] = lambda name, fault: None,
    module: str = "tests.fuzz.targets",
) -> Run:
    """Fuzz some targets; a process that dies or hangs is a fault and is started again.

    Args:
        names: of the targets, which take turns.
        folder: for temporary files, and for those that fail, in its folder `failing`.
        seed: of the mutations.
        n_inputs: stop after this many inputs of all targets together.
        seconds: stop after this time.
        progress: called after each input with the name of its target and its fault, if any.
        module: has the targets, by name, in `TARGETS`.
    """
    result, start = Run(dict.fromkeys(names, 0), []), time.monotonic()
    while not _is_done(result, start, n_inputs, seconds):
        first = sum(result.tried.values())
        with _Process((module, names, seed, first, folder)) as process:
            for number in count(first):
                name, error, data = process.next(names[number % len(names)])
                kept = folder / "failing" / f"{name}-{seed}-{number}" / process.paths[name].name
                fault = _keep(kept, data, name, error) if error else None
                result.tried[name] += 1
                result.faults.extend([fault] if fault else [])
                progress(name, fault)
                if process.is_dead or _is_done(result, start, n_inputs, seconds):
                    break
    return result


def _is_done(result: Run, start: float, n_inputs: int | None, seconds: float | None) -> bool:
    """Return True if there are enough inputs, or the time is over."""
    enough = n_inputs is not None and sum(result.tried.values()) >= n_inputs
    return enough or (seconds is not None and time.monotonic() - start >= seconds)


def _keep(kept: Path, data: bytes, name: str, error: str) -> Fault:
    """Keep the input of a fault in a file, with the error next to it."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(data)
    kept.with_name("error.txt").write_text(error)
    return Fault(name, error, kept)


class _Process:
    """A process of `_work`, killed at the end of the block.

    Args:
        arguments: of `_work`, all but the last.

    Attributes:
        paths: of the files that it writes and reads, by target.
        is_dead: True if it has died or hung.

    Raises:
        RuntimeError: it cannot read its samples.
    """

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self._answers, report = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(*arguments, report), daemon=True)
        self._process.start()
        report.close()
        self.is_dead = False
        self.paths: dict[str, Path] = {}

    def next(self, name: str) -> tuple[str, str, bytes]:
        """Return the target and the fault of the next input, and the input if it has a fault.

        The process goes on with other inputs meanwhile, unless it is dead; `name` is the expected
        target.
        """
        try:
            return (name, *self._receive(DEAF)[1:])
        except (EOFError, TimeoutError) as error:
            self.is_dead = True
            self._process.join(1)
            text = f"{error!r}: the process ended with {self._process.exitcode}"
            return name, text, self.paths[name].read_bytes()

    def _receive(self, seconds: float) -> Any:
        """Return what the process reports next."""
        if not self._answers.poll(seconds):
            raise TimeoutError(f"hung for {seconds} seconds")
        return self._answers.recv()

    def __enter__(self) -> _Process:
        try:
            self.paths = self._receive(20 * DEAF)  # kernels may have to be compiled first
        except (EOFError, TimeoutError) as error:
            self.__exit__()
            raise RuntimeError("the samples cannot be read") from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._answers.close()
