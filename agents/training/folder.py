"""The folder of a run: its settings, its rows, and the lock of the process that learns in it.

It has the files of the learner and

- `rows.jsonl`: one JSON object for each evaluation (and generation); pandas reads it with
  `pd.read_json("rows.jsonl", lines=True)`;
- `settings.json`: all settings of the run;
- `lock`: a file that the process that learns has locked.
"""

from __future__ import annotations

import json
import os
import sys
import weakref
from pathlib import Path
from typing import Any

from afterstate.agents import files
from afterstate.envs import json_files

if sys.platform != "win32":
    import fcntl

SETTINGS_FILE = "settings.json"

_LEARNED = (
    *("learner.npz", "learner.safetensors", "net.safetensors"),
    *("policy.npz", "ascent.npz", "00000.npz"),
)
"""Files of learners: a folder with one of them has a run."""


class RunFolder:
    """The folder of a run, locked for one process.

    Args:
        path: the folder; `open` makes it.
        resume: continue the run in the folder.
        checkpoints: the files from any of which a run is resumed.

    Raises:
        ValueError: the folder has a run without `resume`, none with it, or is locked.
    """

    def __init__(self, path: Path, resume: bool, checkpoints: tuple[str, ...]) -> None:
        self.path, self._lock_file = path, -1
        self._writer: Any = None
        names = checkpoints if resume else _LEARNED
        existing = [path / name for name in names if (path / name).exists()]
        if resume and not existing:
            missing = " or ".join(str(path / name) for name in names)
            raise ValueError(f"{missing} does not exist: there is nothing to resume")
        if existing and not resume:
            raise ValueError(f"{existing[0]} exists: use --resume, or choose another --out")
        if path.is_dir():
            self._lock()

    def _lock(self) -> None:
        """Lock the folder as long as this object lives; on Windows there is no lock.

        Raises:
            ValueError: another process has the lock.
        """
        if sys.platform == "win32" or self._lock_file >= 0:
            return
        self._lock_file = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT)
        weakref.finalize(self, os.close, self._lock_file)
        try:
            fcntl.lockf(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(
                f"another process learns in {self.path}: stop it, or choose another --out"
            ) from error

    def open(self, settings: dict[str, Any], key: str, amount: int) -> None:
        """Make the folder, write the settings, and delete unfinished files of a killed run.

        Args:
            settings: settings of the run, fit for JSON.
            key: name of the amount in rows.
            amount: amount of the learner; later rows are deleted.

        Raises:
            OSError: the folder cannot be written.
            ValueError: another process learns in it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock()
        for name in (*_LEARNED, "rows.jsonl"):
            for unfinished in self.path.glob(f"{name}.*.part"):
                unfinished.unlink()
        files.truncate_rows(self.path / "rows.jsonl", key, amount)
        text = json.dumps(settings, indent=1, default=str) + "\n"
        files.write_bytes(self.path / SETTINGS_FILE, text.encode())

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows."""
        path = self.path / "rows.jsonl"
        lines = json_files.lines(path) if path.exists() else ()
        return [json_files.parse(line) for line in lines]

    def write_to_tensorboard(self) -> None:
        """Write the numbers of all rows from now on to TensorBoard, too.

        Raises:
            ImportError: TensorBoard is not installed.
        """
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(self.path / "tensorboard"))

    def add_row(self, row: dict[str, Any]) -> None:
        """Append a row; NaN becomes null, since JSON has no NaN."""
        row = {name: None if value != value else value for name, value in row.items()}
        with (self.path / "rows.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self._writer is not None:
            step = next(value for name, value in row.items() if name in _AMOUNTS)
            for name, value in _numbers(row):
                self._writer.add_scalar(name, value, step)
            self._writer.flush()


_AMOUNTS = ("n_moves", "generation", "step")
"""Names that the amount has in rows."""


def _numbers(row: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    """Return the names and numbers of a row, those of nested objects as `1-ply/mean`."""
    numbers: list[tuple[str, float]] = []
    for name, value in row.items():
        if isinstance(value, dict):
            numbers += _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)) and name not in _AMOUNTS:
            numbers.append((prefix + name, float(value)))
    return numbers
