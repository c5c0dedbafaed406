"""Runs of the training command and ways to interrupt them, for the tests of all learners."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.training.__main__ import main
from afterstate.envs import durable_files

ENDS = (OSError, ValueError, ImportError, KeyboardInterrupt, SystemExit)
"""Exceptions with which a command ends early."""


class TrainingCommand:
    """The training command of a learner, with its settings file and its runs in a folder.

    Args:
        learner: name of the learner.
        folder: an existing folder.
        settings: settings of a run, a JSON object or the text of its file.
        options: options of every run.
    """

    def __init__(self, learner: str, folder: Path, settings: Any, *options: str) -> None:
        self.learner, self.folder, self.settings, self.options = learner, folder, settings, options

    def __call__(self, *arguments: str, settings: Any = None, out: str = "run") -> Path:
        """Run the command, and return the folder of the run."""
        file, place = self.folder / "settings.json", self.folder / out
        settings = self.settings if settings is None else settings
        file.write_text(settings if isinstance(settings, str) else json.dumps(settings))
        main([self.learner, str(file), "--out", str(place), *self.options, *arguments])
        return place

    def error(self, *arguments: str, settings: Any = None, out: str = "run") -> str:
        """Run the command, and return the one line with which it fails."""
        with pytest.raises(ENDS) as caught:
            self(*arguments, settings=settings, out=out)
        message = str(caught.value)
        assert message and "\n" not in message
        return message


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder and its subfolders by name."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def load_json(text: str) -> Any:
    """Return a JSON value, which must have neither NaN nor infinity."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a run, each a complete line of JSON."""
    text = (folder / "rows.jsonl").read_text()
    assert text.endswith("\n")
    return [load_json(line) for line in text.splitlines()]


def interrupt(*_: Any) -> NoReturn:
    """Raise the exception of Ctrl-C."""
    raise KeyboardInterrupt


def disk_full(*_: Any) -> NoReturn:
    """Raise the error of a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _FullDisk(io.FileIO):
    """A file on a full disk."""

    def write(self, data: Any, /) -> NoReturn:
        """Fail."""
        disk_full()


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every write of a checkpoint fail, as on a full disk."""
    monkeypatch.setattr(durable_files, "open", _FullDisk, raising=False)


@contextlib.contextmanager
def lock_of_another_process(folder: Path) -> Iterator[None]:
    """Let another process hold the lock of a folder during the block; then it is killed."""
    program = (
        "import filelock, sys; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(folder / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None and other.stdout.readline().strip() == b"locked"
            yield
        finally:
            other.kill()


def assert_same_learner(one: NTupleLearner, other: NTupleLearner) -> None:
    """Assert that two learners of N-tuple networks have learned the same from the same games."""
    for name in ("n_games", "n_moves", "n_learned", "rng"):
        assert getattr(one, name) == getattr(other, name)
    np.testing.assert_array_equal(one.network.weights, other.network.weights)
    np.testing.assert_array_equal(one.sums, other.sums)
