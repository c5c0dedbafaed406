"""Expectimax search: the best move when chance is averaged over and the player maximises.

An *n-ply* search has n moves of the player: 1-ply is greedy, 2-ply is max-chance-max, 3-ply is
max-chance-max-chance-max. Afterstates at the end are valued by an N-tuple network, and a board
without a legal move is worth 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import float64, int64, njit, uint64, void

from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.ntuple import NETWORK, Indices, Network, best_move, look_up, total
from afterstate.envs.game2048.rules import (
    Word,
    Words,
    afterstates,
    check_words,
    field,
    occupied,
    whole,
)

MAX_DEPTH = 5


@njit(float64(NETWORK, uint64, int64, int64[::1]), cache=True)
def _chance(net: Network, after: Word, depth: int, indices: Indices) -> float:
    """The value of an afterstate with `depth` moves of the player to look ahead, from 1.

    The last move needs no search: it is the network's greedy one.
    """
    empty: Word = field(net.size[0], net.size[1]) & ~occupied(after)
    expected, n_empty = 0.0, 0
    while empty != 0:
        cell = empty & (~empty + np.uint64(1))
        empty ^= cell
        n_empty += 1
        for exponent in range(1, 3):
            board = after | cell * np.uint64(exponent)
            best = -np.inf
            if depth == 1:
                best = float(best_move(net, board, indices)[3])
            else:
                boards, rewards = afterstates(board, net.moves)
                for action in range(4):
                    if boards[action] != board:
                        value = _chance(net, boards[action], depth - 1, indices)
                        best = max(best, rewards[action] + value)
            if best > -np.inf:  # else the game is over, and nothing is to come
                expected += best * (0.9 if exponent == 1 else 0.1)
    return expected / n_empty


@njit(void(NETWORK, uint64[::1], int64, float64[:, ::1]), cache=True)
def _search(net: Network, boards: Words, depth: int, values: npt.NDArray[np.float64]) -> None:
    """The values of the four moves of every board: see `ExpectimaxAgent.evaluate`."""
    n = net.symmetric * net.masks.size
    indices = np.empty(4 * n, np.int64)
    for i in range(boards.size):
        afters, rewards = afterstates(boards[i], net.moves)
        for action in range(4):
            values[i, action] = -np.inf
            if afters[action] == boards[i]:
                continue
            if depth > 1:
                value = _chance(net, afters[action], depth - 1, indices)
            else:
                look_up(net, afters[action], indices, 0)
                value = float(total(net.weights, indices, 0, n))
            values[i, action] = rewards[action] + value


class ExpectimaxAgent(Agent):
    """Plays the move that an n-ply expectimax search values most.

    Args:
        net: values the afterstates at the end of the search.
        depth: how many moves of the player the search looks ahead, from 1.

    Raises:
        ValueError: not a depth in 1..5.
    """

    def __init__(self, net: Network, depth: int = 3) -> None:
        if not 1 <= (whole(depth) or 0) <= MAX_DEPTH:
            raise ValueError(f"depth is a number of moves in 1..{MAX_DEPTH}, got {depth!r}")
        self.network, self.depth = net, int(depth)
        self.size = net.size

    def evaluate(self, boards: Any) -> npt.NDArray[np.float64]:
        """The values of the moves up, right, down and left of board words `uint64[...]`.

        Returns:
            Expected score still to come `float64[..., 4]`, minus infinity where a move is illegal.
        """
        array = check_words(boards, *self.size)
        values = np.empty((array.size, 4))
        _search(self.network, array.reshape(-1), self.depth, values)
        return values.reshape(*array.shape, 4)

    def _act(self, boards: Words) -> npt.NDArray[np.int8]:
        actions: npt.NDArray[np.int8] = self.evaluate(boards).argmax(axis=1).astype(np.int8)
        return actions
