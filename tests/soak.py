"""Training, serving and playing for hours, killed about once a minute: nothing may be lost or grow.

    make soak                          # an hour
    make soak ARGS="--minutes 10 --out out/soak"

Each job is a program of the package that writes to a folder of its own. After every kill its files
must be whole and have lost no more than an interval; then it goes on. Between kills its memory may
not grow, and no temporary files may be left. The command ends with 1 at the first fault, and keeps
the folder.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.envs import json_files
from afterstate.envs.daihinmin.players import RandomPlayer
from afterstate.envs.daihinmin.records.replay import replay
from afterstate.envs.daihinmin.uecda.client import play_match
from afterstate.envs.daihinmin.uecda.tables import ProtocolError
from tests.support.memory import resident

INTERVAL = 2_000_000
"""Moves from one save of the learner to the next."""

LIFE = (30.0, 90.0)
"""Time of a program from its start to its kill, in seconds; one in ten lives ten times as long."""

GROWTH = 64 << 20
"""Bytes by which a program may grow after its first half minute."""


class Job(Protocol):
    """A program that goes on where it was killed."""

    name: str

    def command(self) -> list[str]:
        """Return the arguments of Python that start it or let it go on."""

    def check(self) -> int:
        """Check what it has left, and return an amount that may never become less."""


class Training:
    """A small N-tuple network learns."""

    name = "training"

    def __init__(self, folder: Path) -> None:
        self._folder, self._settings = folder / "run", folder / "run.json"
        self._settings.write_text(
            '{"network": {"tuples": [[0, 1, 4, 5], [4, 5, 8, 9]]}, "seed": 1}'
        )

    def command(self) -> list[str]:
        """Return the arguments of Python."""
        amounts = ["--moves", "1e13", "--evaluate-every", str(INTERVAL), "--evaluate", "1:20"]
        resume = ["--resume"] if (self._folder / "learner.npz").exists() else []
        module = ["-m", "afterstate.agents.training", "ntuple", str(self._settings)]
        return [*module, "--out", str(self._folder), *amounts, *resume]

    def check(self) -> int:
        """Return the moves that are saved; there must be a row for each interval of them."""
        if not (self._folder / "learner.npz").exists():
            return 0
        n_moves = NTupleLearner.load(self._folder / "learner.npz").n_moves
        steps = np.diff(
            [0] + [row["n_moves"] for row in json_files.rows(self._folder / "rows.jsonl")]
        )
        assert (steps > 0).all() and (steps < 1.5 * INTERVAL).all(), f"rows are missing: {steps}"
        assert steps.sum() >= n_moves - 1.5 * INTERVAL, "the last rows are missing"
        return n_moves


class PlayLog:
    """The moves of games are logged; a log that is whole must be that of a run without kills."""

    name = "play log"

    def __init__(self, folder: Path) -> None:
        self._folder, self._n_logs = folder, 0
        self._log, self._expected = folder / "moves.npy", folder / "expected.npy"
        subprocess.run(
            [sys.executable, *self._play(self._expected)], check=True, capture_output=True
        )

    def _play(self, log: Path) -> list[str]:
        """Return the arguments of Python for a log."""
        amounts = ["--player", "ntuple", "reward", "--games", "3000", "--batch", "100"]
        module = ["-m", "afterstate.agents.game2048.learning.play_logs", str(log)]
        return [*module, *amounts, "--share", "0.05"]

    def command(self) -> list[str]:
        """Return the arguments of Python."""
        self._compare()
        return self._play(self._log) + ["--resume"] * self._log.with_suffix(".parts").exists()

    def _compare(self) -> None:
        """Compare a log that is whole, and remove it."""
        if self._log.exists() and not self._log.with_suffix(".parts").exists():
            for suffix in (".npy", ".json"):
                mine, expected = (each.with_suffix(suffix) for each in (self._log, self._expected))
                assert mine.read_bytes() == expected.read_bytes(), f"{mine} differs from {expected}"
                mine.unlink()
            self._n_logs += 1

    def check(self) -> int:
        """Return the number of whole logs."""
        return self._n_logs


class Serving:
    """A server of endless matches, with four clients that come again whenever they are lost."""

    name = "server"

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._log, self._port = folder, folder / "games.jsonl", port
        self._n_games, self._is_old = 0, False
        for seed in range(4):
            threading.Thread(target=self._join, args=(seed,), daemon=True).start()

    def _join(self, seed: int) -> None:
        """Play one match after the other, also when the server is away."""
        while True:
            with suppress(OSError, ProtocolError):
                play_match(("127.0.0.1", self._port), RandomPlayer(seed), "soak", 20.0)
            time.sleep(0.5)

    def command(self) -> list[str]:
        """Return the arguments of Python."""
        files = ["--log", str(self._log), "--events", str(self._folder / "events.jsonl")]
        server = ["-m", "afterstate.envs.daihinmin.uecda.server", "--port", str(self._port)]
        return [*server, "--matches", "0", "--games", "30", "--seats", "random", *files]

    def check(self) -> int:
        """Return the number of games so far; each must be by the rules.

        A log is that of two lives, and each of them may have cut one line off.
        """
        if self._log.exists():
            report = replay(self._log)
            assert not report.mismatches, report.first
            assert report.damaged <= 2, f"{report.damaged} damaged lines: {report.damage}"
            self._is_old = not self._is_old
            if not self._is_old:
                self._n_games += report.games
                self._log.unlink()
        return self._n_games


class Life(NamedTuple):
    """A program that runs."""

    job: Job
    process: subprocess.Popen[bytes]
    start: float
    end: float
    """When it is killed."""


class Soak:
    """The jobs, their kills and what was found.

    Args:
        jobs: the jobs.
        folder: for the output of their programs.
        seed: of the times of kills.
    """

    def __init__(self, jobs: list[Job], folder: Path, seed: int) -> None:
        self._folder, self._rng = folder, random.Random(seed)
        self._lives = [self._start(job) for job in jobs]
        self._amounts = {job.name: 0 for job in jobs}
        self._young: dict[int, int] = {}
        self.n_kills = 0

    def _start(self, job: Job) -> Life:
        """Start a program or let it go on."""
        now = time.monotonic()
        with (self._folder / f"{job.name}.log").open("wb") as log:
            process = subprocess.Popen([sys.executable, *job.command()], stdout=log, stderr=log)
        seconds = self._rng.uniform(*LIFE) * self._rng.choice([1] * 9 + [10])
        return Life(job, process, now, now + seconds)

    def step(self) -> None:
        """Look at all programs, and kill and check those whose time is over."""
        for i, life in enumerate(self._lives):
            self._look(life)
            if time.monotonic() >= life.end or life.process.poll() is not None:
                self._lives[i] = self._end(life)

    def _look(self, life: Life) -> None:
        """Compare the memory of a program with that of its first seconds."""
        age, number = time.monotonic() - life.start, life.process.pid
        used = resident(number) if life.process.poll() is None else 0
        if age > 30 and used:
            young = self._young.setdefault(number, used)
            assert used < young + GROWTH, f"{life.job.name} grew from {young:,} to {used:,} bytes"

    def _end(self, life: Life) -> Life:
        """Kill a program, check what it left, and let it go on."""
        code = life.process.poll()
        assert code in (None, 0), f"{life.job.name} ended with {code}: see its log"
        life.process.kill()
        life.process.wait()
        self.n_kills += code is None
        self._check(life.job)
        return self._start(life.job)

    def _check(self, job: Job) -> None:
        """Check what a job has left."""
        amount = job.check()
        assert amount >= self._amounts[job.name], f"{job.name} lost {self._amounts[job.name]:,}"
        self._amounts[job.name] = amount
        left = sorted(self._folder.rglob("*.part"))
        assert len(left) <= len(self._lives), f"temporary files are left: {left}"

    def close(self) -> None:
        """End all programs as a person would, and check them once more."""
        for life in self._lives:
            life.process.terminate()
        for life in self._lives:
            life.process.wait(60)
            self._check(life.job)

    def text(self) -> str:
        """Return what was done so far."""
        done = ", ".join(f"{name} {amount:,}" for name, amount in self._amounts.items())
        return f"{self.n_kills} kills; {done}"


def run(
    folder: Path, minutes: float, seed: int, port: int, report: Callable[[str], object]
) -> None:
    """Let all jobs run for some time.

    Raises:
        AssertionError: a fault.
    """
    folders = [folder / name for name in ("training", "logs", "server")]
    for each in folders:
        each.mkdir(parents=True)
    soak = Soak(
        [Training(folders[0]), PlayLog(folders[1]), Serving(folders[2], port)], folder, seed
    )
    end, next_report = time.monotonic() + 60 * minutes, 0.0
    try:
        while time.monotonic() < end:
            soak.step()
            if time.monotonic() > next_report:
                report(soak.text())
                next_report = time.monotonic() + 60
            time.sleep(1)
    finally:
        soak.close()
    report(soak.text())


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="time to run (default 60)")
    parser.add_argument("--out", type=Path, default=Path("out/soak"), help="folder of all files")
    parser.add_argument("--seed", type=int, default=1, help="of the times of kills")
    parser.add_argument("--port", type=int, default=42_500, help="of the server, on loopback")
    args = parser.parse_args()
    shutil.rmtree(args.out, ignore_errors=True)
    try:
        run(args.out, args.minutes, args.seed, args.port, lambda text: print(text, flush=True))
    except AssertionError as error:
        print(f"fault: {error}; the files are in {args.out}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
