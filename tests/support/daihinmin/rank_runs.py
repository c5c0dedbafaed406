"""Tiny runs that train rank networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("joblib")
pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

import safetensors.torch
import torch
from torch import Tensor

from afterstate.agents.training.__main__ import main
from tests.support.training_runs import ENDS

DATA = Path(__file__).parents[2] / "data" / "daihinmin"
RECORDED = str(DATA / "default5.jsonl.gz")
TINY: dict[str, Any] = {
    "network": {"name": "FCNN", "hidden": 4},
    "learner": {"batch": 32},
    "games": 10,
    "table": 4,
    "window": 25,
    "pool": 3,
    "iterations": 3,
    "seed": 5,
}


def run(folder: Path, generations: int, *more: str, **settings: Any) -> Path:
    """Run the command for a tiny network and return the folder of the run."""
    folder.mkdir(exist_ok=True)
    (folder / "tiny.json").write_text(json.dumps({**TINY, **settings}))
    arguments = [str(folder / "tiny.json"), "--out", str(folder / "run"), "--evaluate", "4"]
    main(["rank", *arguments, "--generations", str(generations), *more])
    return folder / "run"


def weights_of(out: Path) -> dict[str, Tensor]:
    """Return the weights of the network and of the learner."""
    learner = safetensors.torch.load_file(out / "learner.safetensors")
    return {**safetensors.torch.load_file(out / "net.safetensors"), **learner}


def same_weights(first: Path, second: Path) -> bool:
    """Return True if two runs have the same weights."""
    one, other = weights_of(first), weights_of(second)
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def rows_of(out: Path) -> list[dict[str, Any]]:
    """Return the rows of a run without times."""
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if "second" not in k} for row in rows]


def learned(out: Path) -> list[dict[str, Any]]:
    """Return the rows of generations, without those of evaluations."""
    return [row for row in rows_of(out) if "loss" in row]


def rejected(capsys: pytest.CaptureFixture[str], folder: Path, *more: str, **settings: Any) -> str:
    """Return the error of a command that is rejected."""
    capsys.readouterr()
    with pytest.raises(ENDS) as stopped:
        run(folder, 2, *more, **settings)
    error = f"{stopped.value} {capsys.readouterr().err}"
    assert "Traceback" not in error
    return error


def files_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder."""
    return sorted(path.name for path in folder.iterdir())
