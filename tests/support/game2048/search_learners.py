"""Small value functions and boards for the tests of learning from searches."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from tests.oracles import game2048 as oracle
from tests.oracles import softmax

Boards = npt.NDArray[np.uint64]

TUPLES = {(2, 3): [[0, 1, 2], [0, 4], [1, 5]], (4, 4): [[0, 1, 4], [5, 6], [1, 2, 5, 6]]}
"""Tuples of N-tuple networks by size of the board."""

SCALE = 100.0
"""Value scale of the neural networks."""


class Tiny(nn.Sequential):
    """One hidden layer."""

    def __init__(self, hidden: int = 8) -> None:
        last = (nn.Linear(hidden, 1), nn.Flatten(0))
        super().__init__(nn.Flatten(), nn.Linear(256, hidden), nn.Tanh(), *last)
        self.settings = {"hidden": hidden}


class Script:
    """Values by a function; records the targets that it is given, and does not learn them."""

    def __init__(self, function: Callable[[Boards], Any], size: tuple[int, int] = (4, 4)) -> None:
        self.function, self.size, self.loss = function, size, 0.25
        self.fits: list[tuple[list[int], list[float], int]] = []

    def estimate(self, boards: Boards) -> Any:
        """Return the function's values."""
        return np.asarray(self.function(boards), np.float64)

    def fit(self, afters: Boards, targets: npt.NDArray[np.float64], n_moves: int) -> float:
        """Return `loss`."""
        self.fits.append((afters.tolist(), targets.tolist(), n_moves))
        return self.loss


def scattered(boards: Boards) -> npt.NDArray[np.float64]:
    """Return values from 0 to 100 without any symmetry, as `scattered_value` of the oracle."""
    bits = boards * np.uint64(softmax.GAMMA) >> np.uint64(44)
    return bits.astype(np.float64) * (100 / 2**20)


def random_boards(n: int, size: tuple[int, int] = (4, 4)) -> Boards:
    """Return boards of small tiles with empty cells."""
    rng = random.Random(1)
    tiles = [rng.choices([0, 0, 1, 2, 3, 5], k=size[0] * size[1]) for _ in range(n)]
    split = [[each[i : i + size[1]] for i in range(0, len(each), size[1])] for each in tiles]
    return np.array([oracle.to_word(board) for board in split], np.uint64)
