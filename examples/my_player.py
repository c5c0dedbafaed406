"""Templates of players for the leaderboard: copy this file, and let them do better.

    python -m benchmarks.leaderboard play --entries examples/my_entries.json
    python -m benchmarks.leaderboard report --entries examples/my_entries.json

A player of 2048 is shown boards as words: 16 nibbles, the exponents of the cells row by row, the
first cell lowest. A player of Daihinmin is shown what it may see: `envs/daihinmin/views.py`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.rules import Game, list_legal
from afterstate.envs.game2048.rules import afterstates, occupied, table


class MostEmptyCells:
    """Plays 2048: the move that leaves the most empty cells, the largest reward among equals.

    Args:
        weight: what an empty cell is worth, in points.
    """

    def __init__(self, weight: float = 100.0) -> None:
        self.weight = weight

    def act(self, boards: npt.NDArray[np.uint64]) -> npt.NDArray[np.int8]:
        """The actions of boards `uint64[B]`: 0 up, 1 right, 2 down, 3 left, `int8[B]`."""
        return np.array([self._best(board) for board in boards], np.int8)

    def _best(self, board: np.uint64) -> int:
        """The move of one board."""
        values = []
        for after, reward in zip(*afterstates(board, table()), strict=True):
            n_empty = 16 - int(occupied(after)).bit_count()
            values.append(-np.inf if after == board else reward + self.weight * n_empty)
        return int(np.argmax(values))


class WeakestFirst:
    """Plays Daihinmin: a play of the most cards, the weakest of those."""

    def choose(self, view: Game) -> int:
        """The number of a play, `plays.PASS` to pass."""
        listed = np.empty(plays.N_PLAYS, np.int64)
        legal = listed[: list_legal(view, listed)].tolist()
        return max(legal, key=lambda play: (plays.SIZE[play], -play), default=plays.PASS)

    def give(self, view: Game, n: int) -> int:
        """The set of the `n` cards to give away."""
        return int(cards.weakest(view["hands"][view["turn"]], n))
