"""Tests of the curves of training runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from afterstate.envs.json_files import Row
from benchmarks.pretrained import curves

ROWS: list[Row] = [
    {"n_moves": 10, "loss": None, "mean_score": None, "1-ply": {"mean": 5.0, "interval": None}},
    {"n_moves": 20, "loss": 2.5, "mean_score": 7.0, "1-ply": {"mean": 6.0, "interval": 1.5}},
]


def run(folder: Path, rows: list[Row]) -> Path:
    """Write a run with these rows and return its folder."""
    folder.mkdir()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_points_are_the_values_of_rows_with_half_their_intervals() -> None:
    assert list(curves.points(ROWS, "1-ply")) == [(10, 5.0, 0), (20, 6.0, 1.5)]
    assert list(curves.points(ROWS, "loss")) == [(20, 2.5, 0)]


def test_each_quantity_of_any_run_has_a_panel() -> None:
    other: list[Row] = [{"n_moves": 5, "accuracy": 0.4, "seconds": 3.0}]
    assert curves.panels({"a": ROWS, "b": other}) == ["1-ply", "loss", "mean_score", "accuracy"]


def test_a_picture_is_written_and_runs_without_rows_are_rejected(tmp_path: Path) -> None:
    picture = tmp_path / "pictures" / "curves.png"
    curves.main([str(run(tmp_path / "mine", ROWS)), "--out", str(picture)])
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"rows\.jsonl has no rows"):
        curves.main([str(tmp_path / "none"), "--out", str(picture)])
