"""Actions, board sizes and random boards for tests of the rules of 2048."""

from __future__ import annotations

import random
from itertools import product

import pytest

from afterstate.envs.game2048.rules import DOWN, LEFT, RIGHT, UP
from tests.oracles import game2048 as oracle

ACTIONS = (UP, RIGHT, DOWN, LEFT)
SIZES = [size for size in product((1, 2, 3, 4), repeat=2) if size != (1, 1)]

PALETTES = [
    [0, 0, 0, 0, 0, 1, 2],
    [0, 0, 1, 1, 2, 3],
    [1, 2],
    [1, 2, 3],
    [0, 12, 13, 14, 15],
    [14, 15],
    [0, 0, 0, *range(1, 16)],
    list(range(1, 16)),
]
"""Sparse, dense, low and high boards: the exponents to draw cells from."""

by_size = pytest.mark.parametrize(("rows", "cols"), SIZES)


def random_board(rng: random.Random, rows: int = 4, cols: int = 4) -> oracle.Board:
    """Return a board of cells drawn from one of the palettes."""
    drawn = rng.choices(rng.choice(PALETTES), k=rows * cols)
    return [drawn[cols * r : cols * (r + 1)] for r in range(rows)]
