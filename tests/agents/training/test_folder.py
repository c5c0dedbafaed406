"""The folder of a run."""

from __future__ import annotations

import errno
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from afterstate.agents.training.folder import FolderLock, RunFolder
from afterstate.agents.training.run import Limits, advance


@pytest.mark.parametrize("how", ["renamed", "removed", "replaced", "unlocked"])
def test_rows_are_not_written_to_another_folder(tmp_path: Path, how: str) -> None:
    path = tmp_path / "run"
    folder = RunFolder(path, False, ())
    folder.open({}, "n_moves", 0)
    folder.add_row({"n_moves": 5})
    if how == "unlocked":
        (path / "lock").unlink()
    elif how == "removed":
        shutil.rmtree(path)
    else:
        path.rename(tmp_path / "moved")
    if how == "replaced":  # as by another process
        path.mkdir()
        (path / "lock").touch()
    with pytest.raises(OSError, match="was removed or replaced during the run") as error:
        folder.add_row({"n_moves": 6})
    assert error.value.filename == str(path)
    assert path.exists() == (how in ("replaced", "unlocked"))
    if how == "replaced":
        assert [each.name for each in path.iterdir()] == ["lock"]


class Trainee:
    """A learner of numbers, whose checkpoint is the number."""

    amount, chunk, end, saves_each_chunk = 0, 1, None, False

    def __init__(self, file: Path, before_saving: Callable[[], Any]) -> None:
        self.file, self.before_saving = file, before_saving

    def advance(self, amount: int) -> None:
        """Count on."""
        self.amount += amount

    def save(self) -> None:
        """Write the number."""
        self.before_saving()
        self.file.write_text(str(self.amount))


@pytest.mark.parametrize("when", ["before a save", "in a save"])
def test_a_checkpoint_is_not_written_to_another_folder(tmp_path: Path, when: str) -> None:
    path = tmp_path / "run"
    folder = RunFolder(path, False, ())
    folder.open({}, "n_moves", 0)

    def replace() -> None:
        if trainee.amount and not (tmp_path / "moved").exists():
            path.rename(tmp_path / "moved")
            path.mkdir()
            (path / "lock").touch()
            (path / "learner").write_text("theirs")
            if when == "in a save":
                raise FileNotFoundError("learner.part")

    is_before = when == "before a save"
    trainee: Any = Trainee(path / "learner", (lambda: None) if is_before else replace)
    report = replace if is_before else (lambda: None)
    with pytest.raises(OSError, match="was removed or replaced during the run") as error:
        advance(trainee, Limits(end=5, save_every=0.0), report, check=folder.check)
    assert error.value.errno == errno.EIO  # the exit code is that of a failed run
    assert (path / "learner").read_text() == "theirs"
    assert sorted(each.name for each in path.iterdir()) == ["learner", "lock"]


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_folder_that_was_removed_can_be_locked_again(tmp_path: Path, is_made_again: bool) -> None:
    path = tmp_path / "run"
    first = FolderLock(path)
    shutil.rmtree(path)
    if is_made_again:
        path.mkdir()
        (path / "lock").touch()
    second, third = FolderLock(path), FolderLock(path)
    second.check()
    third.check()
    with pytest.raises(OSError, match="was removed or replaced"):
        first.check()
    first.release()  # not the lock of the new folder
    code = f"from afterstate.agents.training.folder import *; FolderLock(Path({str(path)!r}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "another process writes to" in run.stderr


def test_a_run_that_ended_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """Two new runs begin at the same time, before the folder exists."""
    first, second = (RunFolder(tmp_path / "run", False, ()) for _ in range(2))
    first.open({}, "n_moves", 0)
    first.add_row({"n_moves": 5, "1-ply": {"mean": math.nan}})
    (tmp_path / "run" / "learner.npz").write_bytes(b"learned")
    with pytest.raises(ValueError, match=r"learner\.npz exists"):
        second.open({}, "n_moves", 0)
    assert first.rows() == [{"n_moves": 5, "1-ply": {"mean": None}}]


def test_a_lock_is_released_once(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path), FolderLock(tmp_path)
    first.release()
    first.release()
    second.check()
    with pytest.raises(OSError, match="was removed or replaced"):
        first.check()
    code = f"from afterstate.agents.training.folder import *; FolderLock(Path({str(tmp_path)!r}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "another process writes to" in run.stderr


def test_rows_have_null_for_what_json_has_not(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", False, ())
    folder.open({}, "n_moves", 0)
    folder.add_row({"n_moves": 1, "inner": {"searched": math.inf}, "values": [math.nan, 2.0]})
    text = (tmp_path / "run" / "rows.jsonl").read_text()
    assert json.loads(text) == {"n_moves": 1, "inner": {"searched": None}, "values": [None, 2.0]}
