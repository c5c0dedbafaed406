"""Wrappers of RLlib, SuperSuit and Tianshou play whole games of Daihinmin.

`test_dependencies.py` installs them and runs these tests.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from afterstate.envs import daihinmin_v0
from tests.docs.run_page import ROOT, blocks

REWARDS = [1.0, 2.0, 3.0, 4.0, 5.0]


def first_legal(mask: Any) -> int:
    """Return the first action of a mask."""
    return int(np.flatnonzero(mask)[0])


@pytest.fixture(autouse=True)
def _own_warnings() -> Any:
    """Warnings of these packages about others are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_the_page_shows_all_wrappers() -> None:
    for library in ("ray.rllib", "supersuit", "tianshou"):
        pytest.importorskip(library)
    page = ROOT / "docs" / "environments" / "daihinmin.md"
    (block,) = (b for b in blocks(page.read_text(encoding="utf-8")) if "supersuit" in b.code)
    exec(block.code, {})


def test_tianshou_plays_a_game() -> None:
    wrapper = pytest.importorskip("tianshou.env.pettingzoo_env")
    env = wrapper.PettingZooEnv(daihinmin_v0.env())
    seen, _ = env.reset(seed=1)
    assert seen["obs"].shape == (116, 15)
    over = False
    while not over:
        assert len(seen["mask"]) == 2422
        seen, rewards, terminated, truncated, _ = env.step(first_legal(seen["mask"]))
        over = terminated or truncated
    assert sorted(rewards) == REWARDS


def test_rllib_plays_a_game_by_turns() -> None:
    wrappers = pytest.importorskip("ray.rllib.env.wrappers.pettingzoo_env")
    env = wrappers.PettingZooEnv(daihinmin_v0.env())
    seen, _ = env.reset(seed=1)
    over = {"__all__": False}
    while not over["__all__"]:
        ((agent, observation),) = seen.items()
        action = {agent: first_legal(observation["action_mask"])}
        seen, rewards, over, _, _ = env.step(action)
    assert sorted(rewards.values()) == REWARDS


def test_rllib_plays_a_game_of_all_at_once() -> None:
    wrappers = pytest.importorskip("ray.rllib.env.wrappers.pettingzoo_env")
    env = wrappers.ParallelPettingZooEnv(daihinmin_v0.parallel_env())
    seen, _ = env.reset(seed=1)
    over = {"__all__": False}
    while not over["__all__"]:
        actions = {agent: first_legal(each["action_mask"]) for agent, each in seen.items()}
        seen, rewards, over, _, _ = env.step(actions)
    assert sorted(rewards.values()) == REWARDS


def test_supersuit_steps_many_games() -> None:
    supersuit = pytest.importorskip("supersuit")
    vector = supersuit.pettingzoo_env_to_vec_env_v1(daihinmin_v0.parallel_env(observation="planes"))
    games = supersuit.concat_vec_envs_v1(vector, 2, base_class="gymnasium")
    seen, _ = games.reset(seed=1)
    assert seen.shape == (10, 116, 15)
    seen, rewards, *_ = games.step(np.zeros(10, np.int64))
    assert rewards.shape == (10,)
