"""The folder of a run."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from afterstate.agents.training.folder import RunFolder


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


def test_a_run_that_ended_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """Two new runs begin at the same time, before the folder exists."""
    first, second = (RunFolder(tmp_path / "run", False, ()) for _ in range(2))
    first.open({}, "n_moves", 0)
    first.add_row({"n_moves": 5, "1-ply": {"mean": math.nan}})
    (tmp_path / "run" / "learner.npz").write_bytes(b"learned")
    with pytest.raises(ValueError, match=r"learner\.npz exists"):
        second.open({}, "n_moves", 0)
    assert first.rows() == [{"n_moves": 5, "1-ply": {"mean": None}}]
