"""Boards, settings, random play and deep equality for tests of the environments."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit

from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.rules import DOWN, LEFT, RIGHT, UP
from afterstate.envs.game2048.vector_env import Game2048VectorEnv
from tests.oracles import game2048 as oracle

ACTIONS = (UP, RIGHT, DOWN, LEFT)
SIZES = [(4, 4), (3, 4), (2, 3), (1, 2), (4, 1)]
NEXT_STEP, SAME_STEP, DISABLED = (
    AutoresetMode.NEXT_STEP,
    AutoresetMode.SAME_STEP,
    AutoresetMode.DISABLED,
)
MODES = [NEXT_STEP, SAME_STEP, DISABLED]
FULL = [[1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4], [5, 6, 7, 8]]
ONLY_SIDEWAYS = [[0, 1, 2, 0], [0, 2, 1, 0], [0, 1, 2, 0], [0, 2, 1, 0]]

by_size = pytest.mark.parametrize("size", SIZES)
by_observation = pytest.mark.parametrize("observation", ["exponents", "onehot"])
by_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)


def make(**settings: Any) -> Game2048Env:
    """Return the registered environment without wrappers."""
    env = gym.make("Game2048-v0", **settings).unwrapped
    assert isinstance(env, Game2048Env)
    return env


def on_board(board: Any, **settings: Any) -> Game2048Env:
    """Return an environment that starts from a board."""
    env = Game2048Env(size=np.shape(board), **settings)
    env.reset(seed=3, options={"board": board})
    return env


def single(max_episode_steps: int | None = None, **settings: Any) -> gym.Env[Any, Any]:
    """Return one environment with the settings of a vector environment."""
    env: gym.Env[Any, Any] = Game2048Env(**settings)
    return env if max_episode_steps is None else TimeLimit(env, max_episode_steps)


def started(num_envs: int = 5, seed: int = 1, **settings: Any) -> Game2048VectorEnv:
    """Return a vector environment after its reset."""
    envs = Game2048VectorEnv(num_envs, **settings)
    envs.reset(seed=seed)
    return envs


def boards_of(envs: Game2048VectorEnv) -> list[oracle.Board]:
    """Return the boards as lists of exponents."""
    return [oracle.from_word(word, *envs.size) for word in envs.boards.tolist()]


def copied(env: Any) -> Any:
    """Return a deep copy."""
    return copy.deepcopy(env)


def pickled(env: Any) -> Any:
    """Return a copy made by pickle."""
    return pickle.loads(pickle.dumps(env))


by_duplicate = pytest.mark.parametrize("duplicate", [copied, pickled])


def play(env: gym.Env[Any, Any], n_steps: int, seed: int) -> list[Any]:
    """Return the steps of random actions, legal or not; games follow one another."""
    rng = np.random.default_rng(seed)
    path: list[Any] = []
    for _ in range(n_steps):
        path.append(env.step(int(rng.integers(4))))
        if path[-1][2] or path[-1][3]:
            path.append(env.reset())
    return path


def play_batch(envs: Any, n_steps: int, seed: int) -> list[Any]:
    """Return the steps of random actions, legal or not, in an environment of many games."""
    rng = np.random.default_rng(seed)
    return [envs.step(rng.integers(4, size=envs.num_envs)) for _ in range(n_steps)]


def play_legal(envs: Game2048VectorEnv, n_steps: int) -> list[Any]:
    """Return the steps of the first legal actions."""
    return [envs.step(envs.action_masks().argmax(axis=1)) for _ in range(n_steps)]


def assert_same(first: Any, second: Any) -> None:
    """Check for equal values of equal types in tuples, lists, dicts and arrays of objects."""
    assert type(first) is type(second)
    if isinstance(first, np.ndarray):
        assert (first.dtype, first.shape) == (second.dtype, second.shape)
        if first.dtype == object:
            assert_same(first.tolist(), second.tolist())
        else:
            np.testing.assert_array_equal(first, second)
    elif isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, (tuple, list)):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    else:
        assert first == second


def masked(infos: dict[str, Any]) -> dict[str, Any]:
    """Return infos as Gymnasium has them: zeros where a mask is False, and no key without games."""
    result = {}
    for key, value in infos.items():
        if key.startswith("_") or not infos[f"_{key}"].any():
            continue
        result[f"_{key}"] = infos[f"_{key}"]
        if isinstance(value, dict):
            result[key] = masked(value)
        else:
            result[key] = value.copy()
            result[key][~infos[f"_{key}"]] = None if value.dtype == object else 0
    return result


def unchanged(env: Game2048Env, action: Callable[[], Any]) -> pytest.ExceptionInfo[ValueError]:
    """Check that a call raises ValueError and leaves this game and later games unchanged."""
    before, twin = env.get_state(), copy.deepcopy(env)
    with pytest.raises(ValueError) as error:
        action()
    assert_same(env.get_state(), before)
    follower = copy.deepcopy(env)
    follower.illegal = twin.illegal = "noop"
    assert_same(play(follower, 30, 1), play(twin, 30, 1))
    assert_same(follower.reset(), twin.reset())
    return error


def unchanged_batch(
    envs: Game2048VectorEnv,
    action: Callable[[], Any],
    expected: type[Exception] | tuple[type[Exception], ...] = ValueError,
) -> pytest.ExceptionInfo[Exception]:
    """Check that a call raises and leaves these games and later games unchanged."""
    twin = copy.deepcopy(envs)
    with pytest.raises(expected) as error:
        action()
    assert_same(envs.boards, twin.boards)
    follower = copy.deepcopy(envs)
    assert_same(follower.sample_legal(), twin.sample_legal())
    assert_same(play_legal(follower, 20), play_legal(twin, 20))
    assert_same(follower.reset(), twin.reset())
    assert_same(play_legal(follower, 5), play_legal(twin, 5))
    return error


def spoil(value: Any) -> None:
    """Overwrite every array and empty every dict, within tuples, lists and dicts."""
    if isinstance(value, np.ndarray):
        value[...] = 1
    elif isinstance(value, (tuple, list)):
        for part in value:
            spoil(part)
    elif isinstance(value, dict):
        for part in value.values():
            spoil(part)
        value.clear()
