"""The package `afterstate` itself: version, command and the one-line way to make it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import afterstate
from afterstate import agents

ROOT = Path(__file__).parents[2]


def run(*command: str, cwd: Path) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        [sys.executable, *command], cwd=cwd, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_the_version_is_that_of_the_distribution() -> None:
    assert afterstate.__version__ == metadata.version("afterstate")


def test_submodules_are_attributes_and_others_are_not() -> None:
    assert afterstate.agents is agents
    assert {"agents", "envs", "__version__"} <= set(dir(afterstate))
    with pytest.raises(AttributeError, match="'agent'"):
        _ = afterstate.agent


@pytest.mark.parametrize("from_root", [True, False], ids=["checkout", "elsewhere"])
def test_the_command_prints_its_version_from_any_folder(tmp_path: Path, from_root: bool) -> None:
    cwd = ROOT if from_root else tmp_path
    version = f"afterstate {afterstate.__version__}\n"
    assert run("-m", "afterstate", "--version", cwd=cwd) == version
    script = Path(sys.executable).with_name("afterstate")
    if script.exists():
        assert run(str(script), "--version", cwd=cwd) == version


@pytest.mark.slow
def test_the_command_lists_environments_and_players(tmp_path: Path) -> None:
    listed = json.loads(run("-m", "afterstate", "list", "--json", cwd=tmp_path))
    ids = [each["id"] for each in listed["environments"]]
    assert ids == ["Game2048-v0", "Game2048Flat-v0", "Daihinmin-v0", "daihinmin_v0"]
    assert [each["name"] for each in listed["players"]] == agents.names()
    by_player = {each["player"]: each["file"] for each in listed["networks"]}
    assert by_player["ntuple"] == "ntuple.npz" and by_player["daihinmin-rank"] == "rank.safetensors"
    assert by_player["policy-net,layers=5"] == "policy_5.safetensors"
    assert len(by_player) == len(listed["networks"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Game2048-v0", "Daihinmin-v0"])
def test_a_game_is_made_in_one_line(tmp_path: Path, name: str) -> None:
    code = f"import gymnasium; print(gymnasium.make('afterstate:{name}').reset(seed=1)[0].ndim)"
    assert run("-W", "error", "-c", code, cwd=tmp_path) in ("2\n", "3\n")
