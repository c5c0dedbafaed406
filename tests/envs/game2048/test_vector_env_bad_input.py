"""Arguments of `Game2048VectorEnv`: wrong settings, actions, options and seeds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from afterstate.envs.game2048.vector_env import Game2048VectorEnv
from tests.support.env_checks import (
    FULL,
    assert_same,
    boards_of,
    by_mode,
    play_legal,
    started,
    unchanged_batch,
)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_envs": 0},
        {"num_envs": -2},
        {"num_envs": 2.0},
        {"num_envs": True},
        {"size": (5, 4)},
        {"size": (1, 1)},
        {"size": 4},
        {"observation": "pixels"},
        {"illegal": "skip"},
        {"start_tiles": 17},
        {"render_mode": "human"},
        {"autoreset_mode": "Never"},
        {"autoreset_mode": None},
        {"max_episode_steps": 0},
        {"max_episode_steps": -1},
        {"max_episode_steps": 1.5},
        {"max_episode_steps": "9"},
    ],
)
def test_wrong_settings_raise_errors_that_name_them(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Game2048VectorEnv(**settings)


@pytest.mark.parametrize(
    "actions",
    [
        [0, 1, 2],
        [[0, 1, 2, 3, 0]],
        2,
        None,
        [0, 1, 2, 3, 4],
        [0, 1, -1, 3, 0],
        [2**40, 0, 0, 0, 0],
        np.array([255, 0, 0, 0, 0], np.uint8),
        [0.0, 1.0, 2.0, 3.0, 0.0],
        [0, 1, 2, 3, 1.5],
        [True, False, True, False, True],
        ["up"] * 5,
        [0, 1, 2, 3, None],
        [0, 1, 2, 3, [0]],
    ],
    ids=str,
)
@by_mode
def test_wrong_actions_raise_errors_and_change_nothing(actions: Any, mode: AutoresetMode) -> None:
    envs = started(5, autoreset_mode=mode)
    play_legal(envs, 3)
    unchanged_batch(envs, lambda: envs.step(actions)).match("action|shape")


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64, list])
def test_actions_may_be_of_any_integer_type(dtype: Any) -> None:
    envs, twin = started(4), started(4)
    actions = np.array([0, 1, 2, 3])
    given = actions.tolist() if dtype is list else actions.astype(dtype)
    assert_same(envs.step(given), twin.step(actions))
    strided: Any = np.repeat(actions, 2)[::2]
    assert_same(envs.step(strided), twin.step(actions))


@pytest.mark.parametrize(
    ("options", "noun"),
    [
        ({"boards": FULL}, "options"),
        ({"board": FULL, "mask": 1}, "options"),
        ({"board": [[1, 2], [3, 4]]}, "board|exponents"),
        ({"board": np.zeros((2, 4, 4), int)}, "board|exponents"),
        ({"board": np.zeros((3, 4, 3), int)}, "board|exponents"),
        ({"board": np.zeros((3, 5, 4), int)}, "board|exponents"),
        ({"board": np.zeros((1, 3, 4, 4), int)}, "board|exponents"),
        ({"board": [FULL, FULL, [*FULL[:3], [5, 6, 7, 18]]]}, "board|exponents"),
        ({"board": [FULL, FULL, [*FULL[:3], [5, 6, 7, -1]]]}, "board|exponents"),
        ({"board": np.array([FULL] * 3, float)}, "board|exponents"),
        ({"board": np.array(FULL, float)}, "board|exponents"),
        ({"board": [FULL, FULL, FULL[:3]]}, "board|exponents"),
        ({"board": [1, 2]}, "board|exponents"),
        ({"board": -1}, "board|exponents"),
        ({"reset_mask": np.zeros(3, bool)}, "reset_mask"),
        ({"reset_mask": np.ones(2, bool)}, "reset_mask"),
        ({"reset_mask": np.ones(3, int)}, "reset_mask"),
        ({"reset_mask": np.ones((3, 1), bool)}, "reset_mask"),
        ({"reset_mask": None}, "reset_mask"),
        ({"reset_mask": "all"}, "reset_mask"),
        ({"reset_mask": np.array([True, False, True]), "board": -1}, "board"),
    ],
    ids=str,
)
def test_wrong_reset_options_raise_errors_and_change_nothing(
    options: dict[str, Any], noun: str
) -> None:
    envs = started(3)
    play_legal(envs, 5)
    seeds: list[Any] = [None, 9, [1, 2, 3]]
    for seed in seeds:
        unchanged_batch(envs, partial(envs.reset, seed=seed, options=options)).match(noun)


@pytest.mark.parametrize(
    "seed", [[1, 2], [1, 2, 3, 4], [], [1, 2, -3], [1, 2, 1.5], [1, 2, "3"], 1.5, -1, "abc"]
)
def test_wrong_seeds_raise_errors_and_change_nothing(seed: Any) -> None:
    envs = started(3)
    play_legal(envs, 5)
    unchanged_batch(envs, lambda: envs.reset(seed=seed), (ValueError, TypeError, gym.error.Error))


def test_options_of_the_caller_are_not_changed() -> None:
    envs = started(3)
    mask, board = np.array([True, False, True]), np.array([FULL] * 3, np.uint8)
    options = {"reset_mask": mask, "board": board}
    observations, infos = envs.reset(options=options)
    assert options.keys() == {"reset_mask", "board"}
    observations[:], infos["_score"][:] = 0, True
    assert mask.tolist() == [True, False, True] and (board == FULL).all()
    board[:] = 1
    assert boards_of(envs)[0] == boards_of(envs)[2] == FULL


def test_methods_raise_errors_before_the_first_reset() -> None:
    envs = Game2048VectorEnv(3, render_mode="ansi")
    methods: list[Callable[[], Any]] = [
        lambda: envs.step(np.zeros(3, int)),
        lambda: envs.boards,
        envs.action_masks,
        envs.afterstates,
        envs.sample_legal,
        envs.render,
        lambda: envs.reset(options={"reset_mask": np.array([True, False, True])}),
    ]
    for method in methods:
        with pytest.raises(ResetNeeded, match="reset"):
            method()
    with pytest.raises(ValueError, match="options"):
        envs.reset(options={"boards": FULL})
    with pytest.raises(ResetNeeded):
        envs.boards  # noqa: B018
