"""The folder of a run."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from afterstate.agents.training.folder import RunFolder


def test_a_run_that_ended_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """Two new runs begin at the same time, before the folder exists."""
    first, second = (RunFolder(tmp_path / "run", False, ()) for _ in range(2))
    first.open({}, "n_moves", 0)
    first.add_row({"n_moves": 5, "1-ply": {"mean": math.nan}})
    (tmp_path / "run" / "learner.npz").write_bytes(b"learned")
    with pytest.raises(ValueError, match=r"learner\.npz exists"):
        second.open({}, "n_moves", 0)
    assert first.rows() == [{"n_moves": 5, "1-ply": {"mean": None}}]
