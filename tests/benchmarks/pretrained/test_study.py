"""The study of learning: its settings, and the scores and differences of its table."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from afterstate.agents.config import from_dict
from afterstate.agents.game2048.learning.runs import NTupleRun
from afterstate.envs import json_files
from afterstate.leaderboard.row_files import Row
from benchmarks.pretrained import study


def row(mean: float, interval: float) -> Row:
    """Return a row of a run with a greedy score."""
    score = {"mean": mean, "interval": interval, "n_games": 9}
    reached = dict.fromkeys(study.TILES, 0.25)
    return {"n_moves": 1_000, "seconds": 1800.0, "1-ply": {**score, "reached": reached}}


@pytest.mark.parametrize("name", study.RUNS)
def test_settings_are_those_of_learners(name: str) -> None:
    from_dict(study.RUNS[name], NTupleRun)
    assert Path(study.file_name(name)).name == study.file_name(name)


def test_differences_are_from_the_first_run() -> None:
    lines = study.table({"one stage": [row(1, 1), row(1_000, 30)], "restart": [row(1_200, 40)]})
    first, second = lines.splitlines()[2:]
    assert first == "| one stage | 1e+03 | 0.50 | 1,000 ± 30 |  | 25.0% | 25.0% | 25.0% |"
    assert f"| 1,200 ± 40 | +200 ± {math.hypot(30, 40):.0f} |" in second


def test_unknown_runs_are_named() -> None:
    with pytest.raises(ValueError, match=r"only must be some of one stage, .*, got 'restrat'"):
        study.Args(only=["restrat"])


@pytest.mark.slow
def test_a_run_is_learned_once_and_its_rows_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--moves", "4000"]
    words += ["--evaluate", "1:4", "--only", "restart"]
    study.main(words)
    rows = json_files.rows(tmp_path / "out" / "restart.jsonl")
    assert len(rows) == 4 and rows[-1]["n_moves"] >= 4_000
    capsys.readouterr()
    study.main(words)
    assert json_files.rows(tmp_path / "out" / "restart.jsonl") == rows
    assert "| restart | " in capsys.readouterr().out
    assert '`{"learner": {"restart": 10}}`' in (tmp_path / "out" / "README.md").read_text()
