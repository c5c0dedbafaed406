"""States of `Game2048Env` repeat its games."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np

from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.rules import DOWN, LEFT
from tests.support.env_checks import (
    FULL,
    ONLY_SIDEWAYS,
    assert_same,
    by_size,
    on_board,
    play,
    unchanged,
)


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


def test_a_state_with_the_largest_score_can_be_played_in_a_vector() -> None:
    """The infos of Gymnasium's vector environments hold scores as int64."""
    envs: Any = gym.make_vec("Game2048-v0", 1, vectorization_mode="sync")
    envs.reset(seed=1)
    env = envs.envs[0].unwrapped
    state = {"board": np.ones((4, 4), np.int64), "score": 2**62 - 1, "rng": 5}
    env.set_state(state)
    assert envs.step(np.array([LEFT]))[-1]["score"] == [2**62 + 31]
    unchanged(env, lambda: env.set_state({**state, "score": 2**62}))
    env.set_state(env.get_state())  # the score of a state stays in range
    assert env.get_state()["score"] == 2**62 - 1


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
