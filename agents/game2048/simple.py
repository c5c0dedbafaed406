"""Baseline players without learning: random moves, and the largest immediate reward."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from afterstate.agents.game2048.agent import Agent
from afterstate.envs.game2048.rules import afterstates, size_of, table
from afterstate.envs.words import Word, Words, below, next_random, seed_word


@njit("uint64(uint64[::1], uint64, uint64[::1], boolean, int8[::1])", cache=True)
def _choose(
    boards: Words, rng: Word, move_table: Words, by_reward: bool, actions: npt.NDArray[np.int8]
) -> Word:
    """Draw among the legal moves, or among those with the largest reward; return the new `rng`."""
    for i in range(boards.size):
        afters, rewards = afterstates(boards[i], move_table)
        best, n_best = -1, 0
        for action in range(4):
            value = rewards[action] if by_reward else 0
            if afters[action] == boards[i] or value < best:
                continue
            n_best = n_best + 1 if value == best else 1
            best = value
            rng, bits = next_random(rng)
            if below(bits, n_best) == 0:
                actions[i] = action
    return rng


class RandomAgent(Agent):
    """Plays a random legal move.

    Args:
        seed: seed of its random moves.
        size: rows and columns of the boards it plays on.

    Raises:
        ValueError: not a size.
    """

    _by_reward = False

    def __init__(self, seed: int | None = None, size: tuple[int, int] = (4, 4)) -> None:
        self.size = size_of(size)
        self._rng: Word = seed_word(seed)

    def choose_actions(self, boards: Words) -> npt.NDArray[np.int8]:
        """Return legal moves `int8[B]`, random among equal ones."""
        actions = np.zeros(len(boards), np.int8)
        self._rng = _choose(boards, self._rng, table(*self.size), self._by_reward, actions)
        return actions


class RewardAgent(RandomAgent):
    """Plays the move with the largest immediate reward, a random one among equals."""

    _by_reward = True
