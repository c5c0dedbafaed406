"""The hand-made evaluation of the program 2048-AI, used by alpha-beta search.

The program is by Matt Overlan, 2014, MIT licence: https://github.com/ovolve/2048-AI. The value of a
board is the weighted sum of

- *smoothness*: minus the differences between each tile and the next tile to the right and below,
  skipping empty cells;
- *monotonicity*: minus the sum of all rises or of all falls along the rows, whichever is smaller;
  the same along the columns;
- *empty*: the natural logarithm of the number of empty cells;
- *largest*: the largest tile,

where tiles are exponents:

>>> from afterstate.envs.game2048.rules import from_text
>>> evaluate(from_text("8 2 2 _ / _ 4 4 _ / _ 2 2 2 / 2 2 _ _"))
1.037750566915749
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

import numba
import numpy as np
from numba import float64, int64, njit, uint64

from afterstate.agents.config import Number, settings
from afterstate.agents.game2048.kernels import KERNEL
from afterstate.envs.checks import as_array
from afterstate.envs.game2048.rules import (
    LOW_BITS,
    check_words,
    count_cells,
    largest,
    occupied,
    transpose,
    words,
)
from afterstate.envs.messages import listed, shown
from afterstate.envs.words import Floats, Word, Words

WIN, BOUND = 9_900.0, 10_000.0
"""A value above WIN is a won game; BOUND is the largest value, and -BOUND a lost game."""

_16 = np.uint64(16)
_ROW = np.uint64(0xFFFF)


@settings
class Weights:
    """Weights of the terms of the evaluation, by default those of 2048-AI.

    Raises:
        ValueError: not numbers, or so large that an evaluation could exceed `WIN`.
    """

    smoothness: Number = 0.1
    """Weight of minus the differences between neighboring tiles."""
    monotonicity: Number = 1.0
    """Weight of minus the rises or falls along rows and columns, whichever are smaller."""
    empty: Number = 2.7
    """Weight of the logarithm of the number of empty cells."""
    largest: Number = 1.0
    """Weight of the exponent of the largest tile."""

    def __post_init__(self) -> None:
        if self.most() >= WIN:
            by = " + ".join(f"{most:.4g} |{term}|" for term, most in _MOST.items())
            raise ValueError(f"weights: {by} must be < {WIN:,.0f} (a win), got {self.most():,.0f}")

    def most(self) -> float:
        """Return the largest absolute value of a board after a move.

        >>> round(Weights().most())
        236
        """
        return sum(most * abs(float(getattr(self, term))) for term, most in _MOST.items())


_MOST = {
    "smoothness": 8 * 3 * 14,  # 8 lines of 3 differences between tiles from 1 to 15
    "monotonicity": 8 * 3 * 15 / 2,  # the smaller half of 8 * 3 differences between cells 0 to 15
    "empty": math.log(16),
    "largest": 15,
}
"""The largest absolute value of each term after a move, which leaves an empty cell."""


ROUGHNESS, RISES, FALLS = range(0, 30, 10)
NUMBER = np.uint64(1023)
"""Bit offsets of the three numbers packed for a row, and the mask of one; eight rows do not
overflow it."""


class Heuristic(NamedTuple):
    """An evaluation, as kernels take it."""

    lines: Words  # [65536], by row: see `lines`
    weights: Floats  # [4], in the order of `Weights`
    empty: Floats  # [17]: the term of the empty cells, by their number; the last entry is none


Compared = Literal["occupied", "adjacent"]
COMPARED: tuple[Compared, ...] = get_args(Compared)
"""Cells that monotonicity compares: `"occupied"`, each tile and the next tile, as in the code of
2048-AI; or `"adjacent"`, all neighbors with empty cells as 0, as its author describes it."""


@cache
def lines(compared: str) -> Words:
    """Return the sums of differences, rises and falls of each row of four nibbles.

    As in 2048-AI, the first cell is compared with the next tile even if it is empty, and the last
    tile with the last cell.

    Args:
        compared: one of `COMPARED`.

    Returns:
        `[65536]`: for each row one word with the three numbers at the bits ROUGHNESS, RISES, FALLS.
    """
    cells = np.arange(1 << 16) >> np.arange(0, 16, 4)[:, None] & 15
    full, packed = cells > 0, np.zeros(1 << 16, np.int64)
    for a, b in itertools.combinations(range(4), 2):
        rise, is_next = cells[b] - cells[a], ~full[a + 1 : b].any(0)
        is_compared = is_next & (full[a] | (a == 0)) & (full[b] | (b == 3))
        if compared == "adjacent":
            is_compared = np.full(1 << 16, b == a + 1)
        packed += (np.abs(rise) * (is_next & full[a] & full[b])) << ROUGHNESS
        packed += (np.maximum(rise, 0) * is_compared) << RISES
        packed += (np.maximum(-rise, 0) * is_compared) << FALLS
    return packed.astype(np.uint64)


def heuristic(weights: Weights | None = None, compared: str = "occupied") -> Heuristic:
    """Return the evaluation by these weights and one of `COMPARED`."""
    if compared not in COMPARED:
        raise ValueError(f"compared must be one of {listed(COMPARED)}, got {shown(compared)}")
    if not isinstance(weights, (Weights, type(None))):
        raise ValueError(f"weights must be Weights(smoothness=0.1, ...), got {shown(weights)}")
    weights = weights or Weights()
    each = [weights.smoothness, weights.monotonicity, weights.empty, weights.largest]
    empty = [math.log(n) * weights.empty for n in range(1, 17)]
    none = -math.inf * weights.empty if weights.empty else 0.0
    return Heuristic(lines(compared), np.array(each, np.float64), np.array([none, *empty]))


HEURISTIC = numba.typeof(heuristic())


@njit(int64(uint64, int64), **KERNEL)
def _number(numbers: Word, at: int) -> int:
    """Return the number packed at a bit offset."""
    return int(numbers >> np.uint64(at) & NUMBER)


@njit(float64(uint64, HEURISTIC), **KERNEL)
def value_of(board: Word, heuristic: Heuristic) -> float:
    """Return the value of a board word: see `evaluate`."""
    table, across, down = heuristic.lines, np.uint64(board), transpose(board)
    rows = columns = np.uint64(0)  # sums of the packed numbers, which do not overflow
    for _ in range(4):
        rows += table[across & _ROW]
        columns += table[down & _ROW]
        across, down = across >> _16, down >> _16
    weights = heuristic.weights
    disorder = min(_number(rows, RISES), _number(rows, FALLS))
    disorder += min(_number(columns, RISES), _number(columns, FALLS))
    value = -_number(rows + columns, ROUGHNESS) * weights[0]
    value -= disorder * weights[1]  # added in the order of 2048-AI, so that ties are the same
    empty = ~occupied(board) & LOW_BITS
    value += heuristic.empty[16 if empty == LOW_BITS else count_cells(empty)]
    return float(value + largest(board) * weights[3])


def terms(board: Any, compared: str = "occupied") -> dict[str, float]:
    """Return the unweighted terms of a board by name; the arguments are those of `evaluate`.

    >>> terms([[3, 1, 1, 0], [0, 2, 2, 0], [0, 1, 1, 1], [1, 1, 0, 0]])["smoothness"]
    -8.0
    """
    alone = {term: Weights(**{other: float(other == term) for other in _MOST}) for term in _MOST}
    return {term: evaluate(board, weights, compared) for term, weights in alone.items()}


def evaluate(board: Any, weights: Weights | None = None, compared: str = "occupied") -> float:
    """Return the value of a board.

    Args:
        board: a board word, or exponents `[4, 4]` from 0 to 15.
        weights: weights of the terms, by default those of 2048-AI.
        compared: one of `COMPARED`.

    Returns:
        The weighted sum; minus infinity for a full board if the weight of `empty` is above 0.

    Raises:
        ValueError: not a board, not `Weights`, or not one of `COMPARED`.
    """
    array = as_array(board)
    if array.shape not in ((), (4, 4)):
        raise ValueError(f"board must be a word or exponents [4, 4], got shape {array.shape}")
    word = check_words(words(array) if array.ndim else board, 4, 4)
    if array.ndim and array.max() > 15:
        raise ValueError(f"exponents of a board must be <= 15 here, got {array.max()}")
    return float(value_of(np.uint64(word), heuristic(weights, compared)))
