"""Copies, pickles and states of `Game2048Env`; its results belong to the caller."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.rules import DOWN, LEFT
from tests.support.env_checks import (
    FULL,
    ONLY_SIDEWAYS,
    assert_same,
    by_duplicate,
    by_observation,
    by_size,
    make,
    on_board,
    play,
    spoil,
)


@by_observation
def test_changing_results_does_not_change_the_game(observation: str) -> None:
    """A game whose results are overwritten stays equal to its twin."""
    env, twin = (Game2048Env(observation=observation) for _ in range(2))
    rng = np.random.default_rng(5)

    spoil(env.reset(seed=5))
    twin.reset(seed=5)
    for _ in range(60):
        for method in (env.afterstates, env.action_masks, env.get_state):
            spoil(method())
        boards, _ = env.outcomes(FULL)
        spoil(boards)
        action = int(rng.integers(4))
        step = env.step(action)
        assert_same(step, twin.step(action))
        assert_same(env.get_state(), twin.get_state())
        spoil(step)
        assert_same(env.get_state(), twin.get_state())
        assert_same(env.afterstates(), twin.afterstates())
        assert_same(env.action_masks(), twin.action_masks())
    assert env.outcomes(FULL)[0].tolist() == [FULL]


def test_later_steps_do_not_change_earlier_results() -> None:
    env = Game2048Env()
    results: list[Any] = [env.reset(seed=9), *play(env, 100, 3)]
    copies = copy.deepcopy(results)
    play(env, 100, 4)
    assert_same(results, copies)


def test_a_board_given_to_the_environment_is_copied() -> None:
    board = np.array(ONLY_SIDEWAYS, np.uint8)
    env = on_board(board)
    state = env.get_state()
    board[...] = 5
    assert env.get_state()["board"].tolist() == ONLY_SIDEWAYS
    env.set_state(state)
    state["board"][...] = 5
    assert env.get_state()["board"].tolist() == ONLY_SIDEWAYS
    after = np.array(FULL, np.uint8)
    env.outcomes(after)[0][...] = 0
    assert after.tolist() == FULL


@by_duplicate
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_copy_plays_the_same_game_independently(
    duplicate: Callable[[Any], Any], wrapped: bool
) -> None:
    env: Any = gym.make("Game2048-v0")
    env = env if wrapped else env.unwrapped
    env.reset(seed=2)
    play(env, 20, 1)
    twin, third = duplicate(env), duplicate(env)
    path = play(env, 400, 2)
    assert_same(tuple(path), tuple(play(twin, 400, 2)))
    play(third, 5, 3)
    assert_same(env.unwrapped.get_state(), twin.unwrapped.get_state())
    assert_same(env.reset(), twin.reset())
    assert_same(env.reset(seed=8), third.reset(seed=8))


@by_duplicate
def test_a_copy_of_a_new_environment_is_a_new_environment(
    duplicate: Callable[[Any], Any],
) -> None:
    twin = duplicate(Game2048Env((2, 3)))
    with pytest.raises(ResetNeeded):
        twin.step(0)
    assert_same(twin.reset(seed=1), Game2048Env((2, 3)).reset(seed=1))


def test_a_pickle_is_small() -> None:
    env = make()
    assert len(pickle.dumps(env)) < 20_000
    env.reset(seed=1)
    play(env, 10, 1)
    assert len(pickle.dumps(env)) < 20_000
    assert len(pickle.dumps(Game2048Env((2, 3)))) < 20_000


@by_size
def test_play_continues_equally_from_a_state(size: tuple[int, int]) -> None:
    env = Game2048Env(size)
    env.reset(seed=12)
    play(env, 15, 1)
    if env.get_state()["board"].all() and not env.action_masks().any():
        env.reset()
    state = env.get_state()
    path = (*play(env, 300, 2), env.reset(), *play(env, 20, 3))
    env.set_state(state)
    assert_same(env.get_state(), state)
    assert_same((*play(env, 300, 2), env.reset(), *play(env, 20, 3)), path)
    other = Game2048Env(size)
    other.set_state(pickle.loads(pickle.dumps(state)))
    assert_same((*play(other, 300, 2), other.reset(), *play(other, 20, 3)), path)
    seeded = Game2048Env(size)
    seeded.reset(seed=99)
    play(seeded, 5, 4)
    seeded.set_state(state)
    assert_same((*play(seeded, 300, 2), seeded.reset(), *play(seeded, 20, 3)), path)


def test_a_state_holds_score_and_large_tiles() -> None:
    env = on_board([[16, 16], [15, 0]])
    env.step(LEFT)
    state = env.get_state()
    assert state["score"] == 131_072 and type(state["score"]) is int
    assert 17 in state["board"]
    other = Game2048Env((2, 2))
    other.set_state(state)
    assert_same(other.step(DOWN), env.step(DOWN))


def test_a_seed_after_set_state_starts_the_games_of_that_seed() -> None:
    env = Game2048Env()
    env.reset(seed=1)
    state = env.get_state()
    expected = Game2048Env().reset(seed=5)
    env.set_state(state)
    assert_same(env.reset(seed=5), expected)
    fresh = Game2048Env()
    fresh.set_state(state)
    assert_same(fresh.reset(seed=5), expected)
