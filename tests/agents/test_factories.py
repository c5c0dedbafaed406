"""Tests of players of one's own, named `module:factory`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from afterstate import agents
from afterstate.agents import config
from afterstate.agents.daihinmin.learning.policy_learner import play_part
from afterstate.agents.daihinmin.learning.policy_settings import DaihinminPolicyRun
from afterstate.agents.daihinmin.learning.rank_settings import RankRun
from afterstate.agents.daihinmin.play import find_player
from afterstate.agents.game2048.learning.play_logs import read
from afterstate.envs.daihinmin import players
from tests.support.game2048.commands import run_log

NAME = "own_players_of_a_test"
SOURCE = """
from afterstate import agents

def of_2048(seed=0):
    player = agents.make("reward", seed=seed)
    player.given = seed
    return player

def without_seed():
    return of_2048(3)

def of_daihinmin(seed=0):
    return agents.make("daihinmin-policy", seed=seed)
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The module in the working directory, imported anew by each test."""
    (tmp_path / f"{NAME}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop(NAME, None)


def test_find_makes_a_player_with_its_settings_and_seed() -> None:
    assert agents.find(f"{NAME}:of_2048,seed=7").given == 7
    assert agents.find(f"{NAME}:of_2048", 5).given == 5
    assert agents.find(f"{NAME}:of_2048,seed=7", 5).given == 7
    assert agents.find(f"{NAME}:without_seed", 5).given == 3


def test_takes_seed_asks_the_factory() -> None:
    assert agents.takes_seed(f"{NAME}:of_2048")
    assert not agents.takes_seed(f"{NAME}:without_seed")


def test_a_log_has_the_moves_of_a_factory(tmp_path: Path) -> None:
    """Each round's player has a seed of its own, as a player by name has."""
    for path, player in (("own.npy", f"{NAME}:of_2048"), ("ours.npy", "reward")):
        run_log(path, "--player", player, "--games", "2")
    assert np.array_equal(read(tmp_path / "own.npy"), read(tmp_path / "ours.npy"))
    with pytest.raises(ValueError, match="must play 2048"):
        run_log("no.npy", "--player", f"{NAME}:of_daihinmin", "--games", "2")


@pytest.mark.parametrize("text", ["os:getcwd", f"{NAME}:of_daihinmin,seed=1"])
def test_settings_name_no_code(text: str, tmp_path: Path) -> None:
    """Settings may come from others: only command lines and Python make players of factories."""
    (tmp_path / "settings.json").write_text(json.dumps({"teacher": [text]}))
    with pytest.raises(ValueError, match="a player of settings must be a name or a file, got"):
        config.read(tmp_path / "settings.json", RankRun)
    with pytest.raises(ValueError, match="a player of settings must be a name or a file, got"):
        config.from_dict({"player": text}, DaihinminPolicyRun)


def test_a_path_with_a_colon_is_a_file() -> None:
    with pytest.raises(FileNotFoundError):
        agents.find("runs:1/net.npz")


def test_opponents_of_an_environment_follow_its_seed() -> None:
    """A factory's players are made anew with seeds of the environment's, as players by name are."""
    played = []
    for opponents in (f"{NAME}:of_daihinmin", "daihinmin-policy"):
        env = gym.make("afterstate:Daihinmin-v0", opponents=opponents)
        seen, info = env.reset(seed=3)
        for _ in range(20):
            seen, _, ended, _, info = env.step(int(np.flatnonzero(info["action_mask"])[-1]))
            played.append(seen)
            if ended:
                break
    half = len(played) // 2
    assert half > 1
    for own, ours in zip(played[:half], played[half:], strict=True):
        assert np.array_equal(own, ours)


def test_a_factory_plays_daihinmin() -> None:
    own = play_part(f"{NAME}:of_daihinmin", 2, 1)
    assert np.array_equal(own.chosen, play_part("policy", 2, 1).chosen)
    assert players.resolve(f"{NAME}:of_daihinmin") is not None
    with pytest.raises(ValueError, match="choose"):
        find_player(f"{NAME}:of_2048")
