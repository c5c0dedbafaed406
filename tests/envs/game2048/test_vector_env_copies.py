"""Copies and pickles of `Game2048VectorEnv`; its results belong to the caller."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from afterstate.envs.game2048.vector_env import Game2048VectorEnv
from tests.support.env_checks import (
    DISABLED,
    NEXT_STEP,
    SAME_STEP,
    assert_same,
    by_duplicate,
    by_mode,
    play_batch,
    play_legal,
    spoil,
    started,
)


@by_mode
def test_changing_results_does_not_change_the_games(mode: AutoresetMode) -> None:
    """Games whose results are overwritten stay equal to their twins."""
    settings: dict[str, Any] = {"size": (2, 3), "max_episode_steps": 9, "autoreset_mode": mode}
    envs, twin = (Game2048VectorEnv(4, **settings) for _ in range(2))
    rng = np.random.default_rng(5)

    spoil(envs.reset(seed=5))
    twin.reset(seed=5)
    for _ in range(80):
        for result in (envs.afterstates(), envs.action_masks(), envs.boards):
            spoil(result)
        actions = rng.integers(4, size=4)
        step = envs.step(actions)
        assert_same(step, twin.step(actions))
        over = step[2] | step[3]
        spoil(step)
        actions[:] = 77
        if mode is DISABLED and over.any():
            spoil(envs.reset(options={"reset_mask": over.copy()}))
            twin.reset(options={"reset_mask": over})
        assert_same(envs.afterstates(), twin.afterstates())
        assert_same(envs.action_masks(), twin.action_masks())
        assert_same(envs.boards, twin.boards)


@by_mode
def test_later_steps_do_not_change_earlier_results(mode: AutoresetMode) -> None:
    envs = Game2048VectorEnv(4, (3, 3), autoreset_mode=mode)
    results: list[Any] = [envs.reset(seed=9), *play_legal(envs, 15)]
    copies = copy.deepcopy(results)
    play_legal(envs, 5)
    envs.reset(seed=3)
    assert_same(results, copies)


@by_duplicate
@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_a_copy_plays_the_same_games_independently(
    duplicate: Callable[[Any], Any], mode: AutoresetMode
) -> None:
    envs = started(4, size=(2, 3), autoreset_mode=mode, max_episode_steps=11)
    play_batch(envs, 15, 1)
    twin, third = duplicate(envs), duplicate(envs)
    assert_same(play_batch(envs, 100, 2), play_batch(twin, 100, 2))
    play_batch(third, 7, 3)
    assert_same(envs.sample_legal(), twin.sample_legal())
    assert_same(envs.reset(), twin.reset())
    assert_same(envs.reset(seed=4), third.reset(seed=4))


@by_duplicate
def test_a_copy_of_a_new_environment_is_a_new_environment(
    duplicate: Callable[[Any], Any],
) -> None:
    twin = duplicate(Game2048VectorEnv(3))
    with pytest.raises(ResetNeeded):
        twin.sample_legal()
    assert_same(twin.reset(seed=1), Game2048VectorEnv(3).reset(seed=1))


def test_a_pickle_is_small() -> None:
    envs = gym.make_vec("Game2048-v0", num_envs=4)
    envs.reset(seed=1)
    assert len(pickle.dumps(envs)) < 20_000
