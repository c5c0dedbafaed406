"""What `Game2048VectorEnv` refuses: settings, actions, options, seeds; and what it takes."""

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
    ("settings", "allowed"),
    [
        ({"num_envs": 0}, "from 1 on"),
        ({"num_envs": -2}, "from 1 on"),
        ({"num_envs": 2.0}, "from 1 on"),
        ({"num_envs": True}, "from 1 on"),
        ({"size": (5, 4)}, "1 to 4"),
        ({"size": (1, 1)}, "at least two cells"),
        ({"size": 4}, r"\(rows, cols\)"),
        ({"observation": "pixels"}, "'exponents', 'onehot'"),
        ({"illegal": "skip"}, "'noop', 'terminate', 'raise'"),
        ({"start_tiles": 17}, r"1\.\.16"),
        ({"render_mode": "human"}, "'ansi', 'rgb_array'"),
        ({"autoreset_mode": "Never"}, "'NextStep', 'SameStep', 'Disabled'"),
        ({"autoreset_mode": None}, "'NextStep', 'SameStep', 'Disabled'"),
        ({"max_episode_steps": 0}, "None or from 1 on"),
        ({"max_episode_steps": -1}, "None or from 1 on"),
        ({"max_episode_steps": 1.5}, "None or from 1 on"),
        ({"max_episode_steps": "9"}, "None or from 1 on"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed):
        Game2048VectorEnv(**settings)


@pytest.mark.parametrize(
    ("actions", "allowed"),
    [
        ([0, 1, 2], r"\(5,\)"),
        ([[0, 1, 2, 3, 0]], r"\(5,\)"),
        (2, r"\(5,\)"),
        (None, r"\(5,\)"),
        ([0, 1, 2, 3, 4], "0 up, 1 right, 2 down or 3 left"),
        ([0, 1, -1, 3, 0], "0 up, 1 right, 2 down or 3 left"),
        ([2**40, 0, 0, 0, 0], "0 up, 1 right, 2 down or 3 left"),
        (np.array([255, 0, 0, 0, 0], np.uint8), "0 up, 1 right, 2 down or 3 left"),
        ([0.0, 1.0, 2.0, 3.0, 0.0], "integers"),
        ([0, 1, 2, 3, 1.5], "integers"),
        ([True, False, True, False, True], "integers"),
        (["up"] * 5, "integers"),
        ([0, 1, 2, 3, None], "integers"),
        ([0, 1, 2, 3, [0]], r"integers|\(5,\)"),
    ],
    ids=str,
)
@by_mode
def test_wrong_actions_are_refused(actions: Any, allowed: str, mode: AutoresetMode) -> None:
    envs = started(5, autoreset_mode=mode)
    play_legal(envs, 3)
    unchanged_batch(envs, lambda: envs.step(actions)).match(allowed)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64, list])
def test_actions_may_be_of_any_integer_type(dtype: Any) -> None:
    envs, twin = started(4), started(4)
    actions = np.array([0, 1, 2, 3])
    given = actions.tolist() if dtype is list else actions.astype(dtype)
    assert_same(envs.step(given), twin.step(actions))
    strided: Any = np.repeat(actions, 2)[::2]
    assert_same(envs.step(strided), twin.step(actions))


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"boards": FULL}, "'board' and 'reset_mask'"),
        ({"board": FULL, "mask": 1}, "'board' and 'reset_mask'"),
        ({"board": [[1, 2], [3, 4]]}, r"\(4, 4\)"),
        ({"board": np.zeros((2, 4, 4), int)}, r"\(3, 4, 4\)"),
        ({"board": np.zeros((3, 4, 3), int)}, r"\(3, 4, 4\)"),
        ({"board": np.zeros((3, 5, 4), int)}, r"\(3, 4, 4\)|1 to 4"),
        ({"board": np.zeros((1, 3, 4, 4), int)}, r"\(4, 4\)"),
        ({"board": [FULL, FULL, [*FULL[:3], [5, 6, 7, 18]]]}, "17"),
        ({"board": [FULL, FULL, [*FULL[:3], [5, 6, 7, -1]]]}, "0"),
        ({"board": np.array([FULL] * 3, float)}, "whole exponents"),
        ({"board": np.array(FULL, float)}, "whole exponents"),
        ({"board": [FULL, FULL, FULL[:3]]}, r"\(3, 4, 4\)|\(4, 4\)"),
        ({"board": [1, 2]}, r"\(4, 4\)"),
        ({"board": -1}, "word"),
        ({"reset_mask": np.zeros(3, bool)}, "at least one True"),
        ({"reset_mask": np.ones(2, bool)}, r"bool\[3\]"),
        ({"reset_mask": np.ones(3, int)}, r"bool\[3\]"),
        ({"reset_mask": np.ones((3, 1), bool)}, r"bool\[3\]"),
        ({"reset_mask": None}, r"bool\[3\]"),
        ({"reset_mask": "all"}, r"bool\[3\]"),
        ({"reset_mask": np.array([True, False, True]), "board": -1}, "word"),
    ],
    ids=str,
)
def test_wrong_reset_options_are_refused(options: dict[str, Any], allowed: str) -> None:
    envs = started(3)
    play_legal(envs, 5)
    seeds: list[Any] = [None, 9, [1, 2, 3]]
    for seed in seeds:
        unchanged_batch(envs, partial(envs.reset, seed=seed, options=options)).match(allowed)


@pytest.mark.parametrize(
    "seed", [[1, 2], [1, 2, 3, 4], [], [1, 2, -3], [1, 2, 1.5], [1, 2, "3"], 1.5, -1, "abc"]
)
def test_wrong_seeds_are_refused(seed: Any) -> None:
    envs = started(3)
    play_legal(envs, 5)
    unchanged_batch(envs, lambda: envs.reset(seed=seed), (ValueError, TypeError, gym.error.Error))


def test_options_stay_the_callers() -> None:
    envs = started(3)
    mask, board = np.array([True, False, True]), np.array([FULL] * 3, np.uint8)
    options = {"reset_mask": mask, "board": board}
    observations, infos = envs.reset(options=options)
    assert options.keys() == {"reset_mask", "board"}
    observations[:], infos["_score"][:] = 0, True
    assert mask.tolist() == [True, False, True] and (board == FULL).all()
    board[:] = 1
    assert boards_of(envs)[0] == boards_of(envs)[2] == FULL


def test_nothing_can_be_asked_before_the_first_reset() -> None:
    envs = Game2048VectorEnv(3, render_mode="ansi")
    asked: list[Callable[[], Any]] = [
        lambda: envs.step(np.zeros(3, int)),
        lambda: envs.boards,
        envs.action_masks,
        envs.afterstates,
        envs.sample_legal,
        envs.render,
        lambda: envs.reset(options={"reset_mask": np.array([True, False, True])}),
    ]
    for ask in asked:
        with pytest.raises(ResetNeeded, match="reset"):
            ask()
    with pytest.raises(ValueError, match="options"):
        envs.reset(options={"boards": FULL})
    with pytest.raises(ResetNeeded):
        envs.boards  # noqa: B018
