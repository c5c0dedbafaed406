"""Tests of players of one's own, named `module:factory`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from afterstate import agents
from afterstate.agents.daihinmin.learning.policy_learner import play_share
from afterstate.agents.daihinmin.play import find_player
from afterstate.agents.game2048.learning.play_logs import main, read
from afterstate.envs.daihinmin import players

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
    return agents.make("daihinmin-random", seed=seed)
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The module in the working folder, imported anew by each test."""
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
        main([path, "--player", player, "--games", "2"])
    assert np.array_equal(read(tmp_path / "own.npy"), read(tmp_path / "ours.npy"))
    with pytest.raises(ValueError, match="must play 2048"):
        main(["no.npy", "--player", f"{NAME}:of_daihinmin", "--games", "2"])


def test_a_factory_plays_daihinmin() -> None:
    own = play_share(f"{NAME}:of_daihinmin", 2, 1)
    assert np.array_equal(own.chosen, play_share("random", 2, 1).chosen)
    assert players.resolve(f"{NAME}:of_daihinmin") is not None
    with pytest.raises(ValueError, match="choose"):
        find_player(f"{NAME}:of_2048")
