"""The harness finds each kind of fault in a small program, and none in one without faults."""

from __future__ import annotations

import doctest
import sys
import time
from pathlib import Path
from random import Random
from signal import SIGINT, SIGKILL, SIGTERM

import pytest

if sys.platform == "win32":
    pytest.skip("needs POSIX signals", allow_module_level=True)

from tests.soak import growth
from tests.soak.growth import Usage
from tests.soak.harness import (
    Death,
    Fault,
    Job,
    Soak,
    Times,
    interruptible,
    plan,
    run,
)

PROGRAM = """
import os, signal, sys, threading, time
folder, fault = sys.argv[1:]
kept = []
code = 4 if fault == "code" else 3
if fault == "crash":
    sys.exit(1)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN if fault == "deaf" else lambda *_: sys.exit(code))
if fault in ("litter", "hoard"):
    for i in range(2 if fault == "litter" else 1):
        open(f"{folder}/{i}.{os.getpid()}.0123abcd.part", "w").close()
if fault != "idle":
    print("works", flush=True)
file = open(f"{folder}/bytes", "wb" if fault == "lose" else "ab", buffering=0)
while True:
    file.write(b"" if fault == "empty" else b"1")
    if fault == "memory":
        kept.append(b"1" * (1 << 20))
    if fault == "files":
        kept.append(open(os.devnull))
    if fault == "threads":
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    time.sleep(0.02)
"""

SEED = 0
"""The first lives end by SIGTERM, SIGINT and SIGKILL."""

TIMES = Times(
    life=(0.3, 0.4), long=6, start=20, settle=0.1, warm_up=0.1, stop=20, step=0.02, n_samples=20
)


class Counting(Job):
    """A program that writes one byte after the other, perhaps with a fault."""

    codes = {SIGTERM: 3, SIGINT: 3}
    unit, n_temporary = "bytes", 1
    limit = Usage(memory=4 << 20, files=3, threads=3)

    def __init__(self, folder: Path, fault: str) -> None:
        super().__init__("counting", folder)
        self._fault = fault

    def command(self) -> list[str]:
        """Return the arguments of Python."""
        return ["-I", "-S", "-c", PROGRAM, str(self.folder), self._fault]

    def works(self, output: str) -> bool:
        """Return True if it says so."""
        return "works" in output

    def check(self, death: Death) -> int:
        """Return the number of bytes."""
        path = self.folder / "bytes"
        return path.stat().st_size if path.exists() else 0


@pytest.fixture(autouse=True)
def hears_signals() -> None:
    interruptible()


def soak(folder: Path, fault: str, **times: float) -> Soak:
    limits = TIMES._replace(**times)  # type: ignore[arg-type]
    return Soak([Counting(folder / "job", fault)], folder, SEED, limits)


@pytest.mark.slow
def test_a_program_without_faults_lives_often(tmp_path: Path) -> None:
    programs, deadline = soak(tmp_path, "none"), time.monotonic() + 60
    while not programs.ends.keys() >= {"SIGKILL", "SIGTERM", "SIGINT"}:
        assert time.monotonic() < deadline
        programs.step()
        time.sleep(TIMES.step)
    programs.close()
    summary = programs.summary()
    n_lives = sum(summary["ends"].values())
    assert summary["checks"]["exit codes"] == summary["checks"]["files"] == n_lives
    assert summary["amounts"]["counting"] == (tmp_path / "job" / "bytes").stat().st_size > 20
    assert f"counting {summary['amounts']['counting']:,} bytes" in programs.text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "text", "times"),
    [
        ("crash", r"ended with 1: see .* \(after its own end\)", {}),
        ("code", r"ended with 4: see .* \(after SIG(TERM|INT)\)", {}),
        ("deaf", "did not end within 0.5 seconds of SIG(TERM|INT)", {"stop": 0.5}),
        ("idle", "has not begun to work in 0.5 seconds", {"start": 0.5}),
        ("lose", r"had \d+ bytes and now has \d+", {}),
        ("litter", r"left temporary files: 0\.\d+\.\w+\.part, 1\.\d+\.\w+\.part", {}),
        ("hoard", r"left temporary files: 0\.\d+\.\w+\.part", {}),
        ("memory", "grew in .* memory by", {}),
        ("files", "grew in .* files by", {}),
        ("threads", "grew in .* threads by", {}),
    ],
)
def test_faults_are_found_and_named(
    tmp_path: Path, fault: str, text: str, times: dict[str, float]
) -> None:
    if fault in ("memory", "files", "threads") and not Path("/proc/self/statm").exists():
        pytest.skip("there is no /proc")
    with pytest.raises(Fault, match=f"^counting {text}"):
        run(soak(tmp_path, fault, **times), seconds=30)


def test_a_program_that_does_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(Fault, match=r"^counting has done nothing"):
        run(soak(tmp_path, "empty", progress=1), seconds=1)


def test_of_ten_lives_one_is_long_and_six_are_killed() -> None:
    lives = plan(Random(1), first_long=3)
    tens = [[next(lives) for _ in range(10)] for _ in range(20)]
    assert [is_long for is_long, _ in tens[0]].index(True) == 3
    for ten in tens:
        longs, signals = zip(*ten, strict=True)
        assert sum(longs) == 1
        assert [signals.count(each) for each in (SIGKILL, SIGTERM, SIGINT)] == [6, 2, 2]


def test_growth_is_that_of_medians() -> None:
    assert doctest.testmod(growth) == doctest.TestResults(failed=0, attempted=2)
