"""Templates of players for the leaderboard: copy this file and improve them.

    afterstate leaderboard play --entries examples/my_entries.json
    afterstate leaderboard report --entries examples/my_entries.json

A player of 2048 gets boards as 64-bit words: 4 bits a cell hold the exponent of its tile (0 empty,
1 for 2, 2 for 4, ...), row by row, the first cell in the lowest bits. A player of Daihinmin gets
the part of the game that it may see: `envs/daihinmin/views.py`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.rules import Game
from afterstate.envs.daihinmin.views import legal_plays
from afterstate.envs.game2048.rules import afterstates, occupied, table


class MostEmptyCells:
    """Player of 2048 that weighs empty cells against the reward.

    Args:
        weight: value of an empty cell, in points.
    """

    def __init__(self, weight: float = 100.0) -> None:
        self.weight = weight

    def act(self, boards: npt.NDArray[np.uint64]) -> npt.NDArray[np.int8]:
        """Return actions `int8[B]` of boards `uint64[B]`: 0 up, 1 right, 2 down, 3 left."""
        return np.array([self._best(board) for board in boards], np.int8)

    def _best(self, board: np.uint64) -> int:
        """Return the best action on one board."""
        values = []
        for after, reward in zip(*afterstates(board, table()), strict=True):
            n_empty = 16 - int(occupied(after)).bit_count()
            values.append(-np.inf if after == board else reward + self.weight * n_empty)
        return int(np.argmax(values))


class WeakestFirst:
    """Player of Daihinmin that plays as many cards as possible, the weakest first."""

    def choose(self, view: Game) -> int:
        """Return the number of a legal play, or `plays.PASS`."""
        legal = legal_plays(view)  # without the pass
        return max(legal, key=lambda play: (plays.SIZE[play], -play), default=plays.PASS)

    def give(self, view: Game, n: int) -> int:
        """Return the set of `n` cards to give away."""
        return int(cards.weakest(view["hands"][view["turn"]], n))
