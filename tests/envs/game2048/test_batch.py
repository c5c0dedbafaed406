"""Kernels on all games at once equal those on one game."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afterstate.envs.game2048 import batch, games
from afterstate.envs.game2048.games import AFTER, BOARD, EXCESS, FLAGS, RNG, new_games
from afterstate.envs.game2048.rules import table
from afterstate.envs.words import Words
from tests.support.rules_checks import by_size

N_GAMES = 61  # not a multiple of the games that one vector instruction plays


def mixed_games(rows: int, cols: int) -> Words:
    """Return games of all kinds: new ones, full boards, and tiles up to 131072."""
    rng = np.random.default_rng(10 * rows + cols)
    boards = rng.integers(0, 5, (N_GAMES, rows, cols), dtype=np.uint8)
    boards[::2] = rng.choice([0, 11, 12, 13, 14], boards[::2].shape)
    boards[::5] = rng.choice([0, 14, 15, 15, 16], boards[::5].shape)
    mixed = rng.integers(0, 2**64, (8, N_GAMES), dtype=np.uint64)
    batch.put(mixed, boards)
    return mixed


@by_size
def test_playing_all_games_equals_playing_one_game_after_the_other(rows: int, cols: int) -> None:
    rng = np.random.default_rng(3)
    together = mixed_games(rows, cols)
    alone, moves, n_exact = together.copy(), table(rows, cols), 0
    for _ in range(150):
        actions = rng.integers(0, 4, N_GAMES)
        restart = rng.random(N_GAMES) < 0.02
        n_exact += int((alone[EXCESS] > 0).sum())
        batch.play_all(together, actions, restart, 2, moves, rows, cols)
        for i in range(N_GAMES):
            if restart[i]:
                games.start(alone, i, 2, rows, cols)
            else:
                games.play(alone, i, actions[i], moves, rows, cols)
        assert together.tolist() == alone.tolist()
    assert n_exact > 0


@pytest.mark.parametrize("illegal_ends", [False, True])
def test_step_all_reports_rewards_and_ends(illegal_ends: bool) -> None:
    """Game 0 merges, 1 is illegal, 2 ends, 3 reaches the limit of steps, 4 starts anew."""
    boards = [[[1, 1], [0, 0]], [[1, 0], [2, 0]], [[1, 2], [3, 3]], [[1, 1], [0, 0]], [[1, 2]] * 2]
    states = np.full((8, 5), 7, np.uint64)
    batch.put(states, np.array(boards, np.uint8))
    actions, over = np.full(5, 3), np.array([0, 0, 0, 0, 1], np.bool_)
    while True:  # until the tile after the merge of game 2 leaves no legal action
        trial = states[:, 2:3].copy()
        games.play(trial, 0, 3, table(2, 2), 2, 2)
        if trial[FLAGS, 0] >> np.uint64(40) & np.uint64(1):
            break
        states[RNG, 2] += np.uint64(1)
    elapsed = np.array([0, 0, 0, 9, 5])
    rewards, terminated, truncated = np.empty(5), np.empty(5, np.bool_), np.empty(5, np.bool_)
    following, afters = np.empty((2, 5, 2, 2), np.uint8)
    infos = np.empty((5, 4), np.int8), afters, *np.empty((2, 5), np.int64), np.empty(5, np.bool_)
    n_over = batch.step_all(
        *(states, actions, elapsed, over, 10, illegal_ends, 2048, 2, table(2, 2)),
        *(rewards, terminated, truncated, following, *infos),
    )
    assert following.tolist() == batch.read(states, BOARD, 2, 2).tolist()
    assert afters.tolist() == batch.read(states, AFTER, 2, 2).tolist()
    assert rewards.tolist() == [4, 0, 16, 4, 0]
    assert terminated.tolist() == [False, illegal_ends, True, False, False]
    assert truncated.tolist() == [False, False, False, True, False]
    assert over.tolist() == [False, illegal_ends, True, True, False]
    assert n_over == 2 + illegal_ends
    assert elapsed.tolist() == [1, 1, 1, 10, 0]


@pytest.mark.parametrize("exponent", [18, 40, 200, 255])
def test_planes_are_of_exponents_up_to_17(exponent: int) -> None:
    boards = np.zeros((200, 4, 4), np.uint8)
    boards[150, 3, 3] = exponent
    with pytest.raises(ValueError, match=r"boards must have exponents 0\.\.17"):
        batch.one_hot(boards)


@pytest.mark.parametrize(
    "boards", [np.full((1, 4, 4), 18, np.uint8), np.zeros((1, 4, 4)), np.zeros((2, 4, 4), np.uint8)]
)
def test_only_boards_of_all_games_are_put(boards: Any) -> None:
    with pytest.raises(
        ValueError,
        match=r"one per game, got 2|0..17, got 18|must be uint8\[B, rows, cols\], got float64",
    ):
        batch.put(new_games(1), boards)


@pytest.mark.parametrize(
    "games", [np.zeros((7, 3), np.uint64), np.zeros(8, np.uint64), np.zeros((8, 3), np.int64)]
)
def test_other_arrays_than_games_are_refused(games: Any) -> None:
    with pytest.raises(ValueError, match=r"games must be uint64\[8, B\], got u?int64 of shape"):
        batch.read(games, BOARD, 4, 4)
    with pytest.raises(ValueError, match=r"games must be uint64\[8, B\]"):
        batch.put(games, np.zeros((3, 4, 4), np.uint8))
    with pytest.raises(ValueError, match=r"at must be one of 0, 2, got 7"):
        batch.read(new_games(1), 7, 4, 4)
