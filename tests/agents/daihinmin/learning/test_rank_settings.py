"""Tests of the settings and the command of runs that train rank networks."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("joblib")
pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

import torch

from afterstate.agents.daihinmin.learning import rank_training
from afterstate.agents.daihinmin.learning.rank_settings import RankRun
from afterstate.agents.training.__main__ import main
from tests.support.daihinmin.rank_runs import (
    files_in,
    rejected,
    run,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_resuming_needs_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = rejected(capsys, tmp_path, "--resume")
    assert "nothing to resume" in error
    assert not (tmp_path / "run").exists()


def test_an_error_says_that_no_game_can_be_learned_from(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"teacher": ["policy"], "games": 1, "table": 1, "epsilon": 0.99}
    with pytest.raises(ValueError, match=r"generation 1.*epsilon"):
        run(tmp_path, 1, **settings)


def test_a_teacher_may_have_its_full_name() -> None:
    names = ["daihinmin-policy", "sample"]
    assert RankRun(teacher=names).teacher == ["policy", "sample"]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"gams": 3}, "gams"),
        ({"games": 0}, "games"),
        ({"games": -1}, "games"),
        ({"games": 2.5}, "games"),
        ({"games": None}, "games"),
        ({"pool": True}, "pool"),
        ({"window": -1}, "window"),
        ({"iterations": 0}, "iterations"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"seed": 1 << 70}, "seed"),
        ({"epsilon": 1}, "epsilon"),
        ({"epsilon": "x"}, "epsilon"),
        ({"temperature": 0}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"lam": 2}, "lam"),
        ({"final_rate": "x"}, "final_rate"),
        ({"final_rate": -1}, "final_rate"),
        ({"final_rate": 0}, "final_rate"),
        ({"guest_share": 1.5}, "guest_share"),
        ({"guests": ["nobody"]}, "guests"),
        ({"learned_gifts": "no"}, "learned_gifts"),
        ({"points": "much"}, "points"),
        ({"points": [1, 2]}, "points"),
        ({"points": [float("nan")] * 5}, "points"),
        ({"points": 5}, "points"),
        ({"learner": {"optimizer": "lbfgs"}}, "learner"),
        ({"learner": {"speed": 1}}, "learner"),
        ({"learner": {"batch": 1.5}}, "learner"),
        ({"learner": []}, "learner"),
        ({"network": {"channels": 8}}, "network"),
        ({"network": {"name": ["FCNN"]}}, "network"),
        ({"network": "BaseCNN"}, "network"),
        ({"network": {"name": "LeNet"}}, "LeNet"),
        ({"network": {"name": "FCNN", "channels": 3}}, "FCNN"),
        ({"start": "missing.safetensors"}, "missing"),
        ({"start": 1}, "start"),
        ({"logs": ["missing.jsonl"]}, "missing"),
        ({"logs": "x.jsonl"}, "logs"),
        ({"teacher": ["nobody"]}, "nobody"),
        ({"teacher": "policy"}, "teacher"),
    ],
)
def test_wrong_settings_are_rejected_before_anything_is_written(
    settings: dict[str, Any], match: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert re.search(match, rejected(capsys, tmp_path, **settings))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", [None, "", "[]", "{", '"x"', "[" * 100_000 + "]" * 100_000])
def test_a_settings_file_must_exist_and_be_json(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises((OSError, ValueError), match=r"settings\.json"):
        main(["rank", str(path), "--out", str(tmp_path / "run"), "--generations", "1"])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("device", ["foo", "meta", "cpu:x", "", "cuda:99"])
def test_a_device_must_exist(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = rejected(capsys, tmp_path, "--device", device)
    assert "device" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_must_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "torch has no device 'cuda' here" in rejected(capsys, tmp_path, "--device", "cuda")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("package", ["joblib", "torch"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, rank_training.__name__)
    with pytest.raises(ImportError, match=r'pip install "afterstate\[neural,train\]"'):
        runpy.run_module(rank_training.__name__)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--generations", "x"],
        ["--generations", "0"],
        ["--generations", "-3"],
        ["--hours", "0"],
        ["--hours", "nan"],
        ["--generations", "1", "--jobs", "0"],
        ["--generations", "1", "--evaluate", "0"],
    ],
)
def test_a_wrong_command_line_is_rejected(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises((SystemExit, ValueError)) as stopped:
        main(["rank", "--out", str(tmp_path / "run"), *arguments])
    assert getattr(stopped.value, "code", 2) == 2
    assert not files_in(tmp_path)
