"""Afterstates, outcomes, board words and large tiles of `Game2048Env`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.rules import DOWN, LEFT, RIGHT, words
from tests.oracles import game2048 as oracle
from tests.support.env_checks import ACTIONS, FULL, assert_same, by_size, on_board


@by_size
def test_afterstates_equal_the_oracle(size: tuple[int, int]) -> None:
    env, rng = Game2048Env(size), np.random.default_rng(2)
    for _ in range(100):
        drawn = rng.integers(0, rng.integers(2, 17), size)
        env.reset(options={"board": drawn})
        boards, rewards, legal = env.afterstates()
        expected = [oracle.move(drawn.tolist(), action) for action in ACTIONS]
        assert boards.dtype == np.uint8 and rewards.dtype == np.float64 and legal.dtype == np.bool_
        assert boards.tolist() == [board for board, _ in expected]
        assert rewards.tolist() == [reward for _, reward in expected]
        assert np.flatnonzero(legal).tolist() == oracle.legal_moves(drawn.tolist())


def test_a_step_adds_a_tile_to_the_afterstate_of_its_action() -> None:
    env, rng = Game2048Env(), np.random.default_rng(3)
    env.reset(seed=3)
    for _ in range(300):
        boards, rewards, legal = env.afterstates()
        action = int(rng.integers(4))
        board, reward, terminated, _, info = env.step(action)
        assert_same(info["afterstate"], boards[action])
        assert reward == rewards[action]
        assert info["legal"] is bool(legal[action])
        assert np.count_nonzero(board != info["afterstate"]) == int(info["legal"])
        if terminated:
            env.reset()


@by_size
def test_outcomes_equal_the_oracle(size: tuple[int, int]) -> None:
    env, rng = Game2048Env(size), np.random.default_rng(4)
    for _ in range(30):
        after = rng.integers(0, 3, size)
        after.flat[rng.integers(after.size)] = 0
        boards, probabilities = env.outcomes(after)
        expected = oracle.spawn_outcomes(after.tolist())
        assert boards.dtype == np.uint8 and probabilities.dtype == np.float64
        result = {str(b): p for b, p in zip(boards.tolist(), probabilities, strict=True)}
        assert result == pytest.approx({str(board): p for board, p in expected})
        assert len(result) == len(boards)
        assert probabilities.sum() == pytest.approx(1)
        assert_same(env.outcomes(int(words(after)))[0], boards)


def test_a_full_afterstate_has_one_outcome() -> None:
    boards, probabilities = Game2048Env().outcomes(FULL)
    assert boards.tolist() == [FULL]
    assert probabilities.tolist() == [1]


def test_outcomes_are_as_frequent_as_their_probabilities() -> None:
    """A chi-square of 5 degrees of freedom exceeds 20.5 once in a thousand times."""
    board = [[0, 3, 0], [4, 0, 5]]
    env = Game2048Env((2, 3))
    env.reset(seed=8)
    n_steps, counts = 4_000, Counter[str]()
    after: Any = None
    for _ in range(n_steps):
        env.reset(options={"board": board})
        result, *_, info = env.step(DOWN)
        after = info["afterstate"]
        counts[str(result.tolist())] += 1
    boards, probabilities = env.outcomes(after)
    assert len(boards) == 6
    expected = {
        str(b): n_steps * p for b, p in zip(boards.tolist(), probabilities.tolist(), strict=True)
    }
    assert counts.keys() <= expected.keys()
    assert sum((counts[key] - n) ** 2 / n for key, n in expected.items()) < 20.5


def test_board_is_a_word() -> None:
    env = on_board([[1, 2, 3], [0, 11, 15]])
    assert type(env.board) is int
    assert env.board == 0x0FB0_0321
    env.reset(options={"board": 0x0001_0100})
    assert env.board == 0x0001_0100
    assert env.get_state()["board"].tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    "board", [[[17, 16], [3, 1]], [[16, 15], [14, 13]], [[17, 0], [0, 17]], [[16, 14], [0, 1]]]
)
def test_board_word_of_a_large_tile_is_downgraded(board: oracle.Board) -> None:
    env = on_board(board)
    assert env.board == oracle.to_word(oracle.downgrade(board))
    assert env.get_state()["board"].tolist() == board


def test_a_board_word_may_use_all_64_bits() -> None:
    env = Game2048Env()
    board, _ = env.reset(options={"board": 0xF123_4567_1234_5671})
    assert env.board == 0xF123_4567_1234_5671
    assert board[3].tolist() == [3, 2, 1, 15]
    env.reset(options={"board": np.uint64(0xF123_4567_1234_5671)})
    assert env.board == 0xF123_4567_1234_5671


@pytest.mark.parametrize("exponent", [15, 16])
@pytest.mark.parametrize("action", ACTIONS)
def test_the_largest_tiles_are_made_and_shown(exponent: int, action: int) -> None:
    """32768 + 32768 = 65536 and 65536 + 65536 = 131072, among smaller tiles, in each direction."""
    line = [exponent, exponent, 0, 0]
    board = [line, [1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4]]
    board = board if action in (RIGHT, LEFT) else oracle.transpose(board)
    env = on_board(board)
    boards, rewards, legal = env.afterstates()
    observation, reward, terminated, _, info = env.step(action)
    expected, _ = oracle.move(board, action)
    assert reward == rewards[action] == 2.0 ** (exponent + 1)
    assert legal[action] and not terminated
    assert info["afterstate"].tolist() == boards[action].tolist() == expected
    assert info["max_tile"] == 2 ** (exponent + 1)
    assert observation.max() == exponent + 1
    assert env.observation_space.contains(observation)
    after = [b.tolist() for b in env.outcomes(info["afterstate"])[0]]
    assert observation.tolist() in after


def test_two_of_the_largest_tiles_stay_the_largest() -> None:
    env = on_board([[17, 17]])
    board, reward, *_, info = env.step(LEFT)
    assert board[0, 0] == 17 and reward == 262_144 and info["max_tile"] == 131_072
