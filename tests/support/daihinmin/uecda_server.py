"""The server's command in a process of its own, with random players."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.daihinmin.uecda_peers import SOON

SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN if {ignored} else signal.default_int_handler)
from tests.support.daihinmin.uecda_peers import RandomPlayer
from afterstate.envs.daihinmin import players
from afterstate.__main__ import main
players.resolve = lambda name, seed=None: RandomPlayer(len(name))
sys.exit(main(["serve", *sys.argv[1:]]))
"""
SEATS = ["a", "bb", "ccc", "dddd", "eeeee"]


def start_command(
    folder: Path, built_in: int, *options: str, ignored: bool = False, **streams: Any
) -> subprocess.Popen[str]:
    """Start the command with random players in the first seats; log and events are in a folder.

    With `ignored` it ignores Ctrl-C, as shells without job control start it in the background.
    """
    script = SCRIPT.format(ignored=ignored)
    files = ["--log", str(folder / "games.jsonl"), "--events", str(folder / "events.jsonl")]
    seats = ["--seats", *SEATS[:built_in]] if built_in else []
    words = [sys.executable, "-c", script, "--port", "0", "--seed", "1", *files, *options, *seats]
    paths = os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": paths}
    return subprocess.Popen(words, text=True, env=env, **streams)


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind, without a line that is not complete yet."""
    file = folder / "events.jsonl"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    entries = [json.loads(line) for line in lines if line.endswith("\n")]
    return [entry for entry in entries if entry["event"] == kind]


class Serving:
    """A server that runs in another process."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process, self.folder = process, folder
        self.port = 0

    def wait_until_listening(self) -> None:
        """Wait until clients can connect."""
        deadline = time.monotonic() + SOON
        while not self.port and time.monotonic() < deadline:
            assert self.process.poll() is None, "the server ended"
            time.sleep(0.05)
            self.port = next((each["port"] for each in self.events("listening")), 0)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind."""
        return events(self.folder, kind)

    def wait_for(self, kind: str, n: int) -> None:
        """Wait until there are this many events of one kind."""
        deadline = time.monotonic() + SOON
        while len(self.events(kind)) < n:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def stop(self) -> None:
        """End the server, which writes its last events."""
        self.process.terminate()
        self.process.wait(SOON)


@contextmanager
def serving_command(folder: Path, built_in: int, *options: str) -> Iterator[Serving]:
    """Run a server in another process, which is killed at the end."""
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with start_command(folder, built_in, *options, **quiet) as process:
        try:
            serving = Serving(process, folder)
            serving.wait_until_listening()
            yield serving
        finally:
            process.kill()
