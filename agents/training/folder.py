"""The folder of a run: its settings, its rows, and the lock of the process that learns in it.

It has the files of the learner and

- `rows.jsonl`: one JSON object for each evaluation (and generation); pandas reads it with
  `pd.read_json("rows.jsonl", lines=True)`;
- `settings.json`: all settings of the run;
- `recent.json`: the last 1,000 games of a learner of 2048, whose mean score is in the rows;
- `lock`: a file that the process that learns has locked.
"""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from afterstate.envs import durable_files, json_files

SETTINGS_FILE, RECENT_FILE = "settings.json", "recent.json"
LOCK_FILE = "lock"

_LEARNED = ("*.npz", "*.safetensors")
"""Files of learners and networks: a folder with one of them has a run."""


class FolderLock:
    """The lock of a folder, which holds as long as the object and the process live, or a block.

    The folder is made if it is missing.

    Args:
        path: the folder.
        message: message of the error if another process has it.
        name: its file that is locked, which others lock by the same name.
        seconds: time for which another process is waited for.

    Raises:
        OSError: the folder cannot be made.
        ValueError: another process has it.
    """

    def __init__(
        self, path: Path, message: str | None = None, name: str = LOCK_FILE, seconds: float = 0.0
    ) -> None:
        from filelock import FileLock, Timeout

        durable_files.make_folder(path)
        self._path = path / name
        self._held = FileLock(self._path, is_singleton=True)  # one process may lock it twice
        if self._held.is_locked and not _is_same(self._path, _FILES.get(self._held)):
            self._held.release(force=True)  # of a folder that was removed
        is_new = not self._held.is_locked
        try:
            self._held.acquire(timeout=seconds)
        except Timeout as error:
            default = f"another process writes to {path}: stop it, or choose another folder"
            raise ValueError(message or default) from error
        if is_new:
            _FILES[self._held] = os.stat(self._path)
        self._file: os.stat_result | None = _FILES[self._held]

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def check(self) -> None:
        """Raise OSError if the folder is no longer the one that is locked, or has lost its lock."""
        if not self._is_held or not _is_same(self._path, self._file):
            name = self._path.name
            message = f"the folder or its file `{name}` was removed or replaced during the run"
            raise OSError(errno.EIO, message, str(self._path.parent))

    def release(self) -> None:
        """Let other processes lock the folder, unless it is another one than was locked."""
        if self._is_held:
            self._held.release()
        self._file = None

    @property
    def _is_held(self) -> bool:
        """True if the process still has this file: a later one may have the same inode."""
        return self._file is not None and _FILES.get(self._held) is self._file


_FILES: WeakKeyDictionary[Any, os.stat_result] = WeakKeyDictionary()
"""The files that this process has locked, by lock."""


def _is_same(path: Path, file: os.stat_result | None) -> bool:
    """Return True if the lock at a path is still that file."""
    return file is not None and durable_files.is_at(path, file)


class RunFolder:
    """The folder of a run, locked for one process.

    Args:
        path: the folder; `open` makes it.
        resume: continue the run in the folder.
        checkpoints: the files from any of which a run is resumed.

    Raises:
        ValueError: not a folder, or it has a run without `resume`, none with it, or is locked.
    """

    def __init__(self, path: Path, resume: bool, checkpoints: tuple[str, ...]) -> None:
        self.path, self._resume, self._checkpoints = path, resume, checkpoints
        self._writer: Any = None
        self._key = ""
        self._check()
        self._lock = FolderLock(path) if path.is_dir() else None

    def _check(self) -> None:
        """Raise ValueError unless the folder has a run to resume, or none for a new one."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"--out must be a folder, got the file {self.path}")
        names = self._checkpoints if self._resume else _LEARNED
        existing = [path for name in names for path in sorted(self.path.glob(name))]
        if self._resume and not existing:
            missing = " or ".join(str(self.path / name) for name in names)
            raise ValueError(f"{missing} does not exist: there is nothing to resume")
        if existing and not self._resume:
            raise ValueError(f"{existing[0]} exists: use --resume, or choose another --out")

    def open(self, settings: dict[str, Any], key: str, amount: int) -> None:
        """Make the folder, write the settings, and delete unfinished files of a killed run.

        Args:
            settings: settings of the run, fit for JSON.
            key: name of the amount in rows.
            amount: amount of the learner; later rows are deleted.

        Raises:
            OSError: the folder cannot be written.
            ValueError: another process learns in it, or has learned in it meanwhile.
        """
        self._lock = self._lock or FolderLock(self.path)
        self._check()
        self._key = key
        durable_files.remove_unfinished(self.path.rglob("*.part"))
        json_files.truncate(self.path / "rows.jsonl", key, amount)
        text = json.dumps(settings, indent=1, default=str) + "\n"
        durable_files.write(self.path / SETTINGS_FILE, text.encode())

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows."""
        return json_files.rows(self.path / "rows.jsonl")

    def write_to_tensorboard(self) -> None:
        """Write the numbers of all rows from now on to TensorBoard, too.

        Raises:
            ImportError: TensorBoard is not installed.
        """
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(self.path / "tensorboard"))

    def check(self) -> None:
        """Raise OSError if the folder is no longer the one that `open` has locked."""
        if self._lock is not None:
            self._lock.check()

    def add_row(self, row: dict[str, Any]) -> None:
        """Append a row; NaN and infinity become null, since JSON has neither.

        Raises:
            OSError: the row cannot be written, or the folder is no longer the one of the run.
        """
        self.check()
        row = _finite(row)
        json_files.append(self.path / "rows.jsonl", [row])
        if self._writer is not None:
            for name, value in _numbers(row):
                if name != self._key:
                    self._writer.add_scalar(name, value, row[self._key])
            self._writer.flush()


def _finite(value: Any) -> Any:
    """Return a JSON value with null in place of NaN and infinity."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(row: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    """Return the names and numbers of a row, those of nested objects as `1-ply/mean`."""
    numbers: list[tuple[str, float]] = []
    for name, value in row.items():
        if isinstance(value, dict):
            numbers += _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)):
            numbers.append((prefix + name, float(value)))
    return numbers
