"""The hand-made evaluation of the program 2048-AI, which `alphabeta` searches with.

It is by Matt Overlan, 2014, under the MIT licence: https://github.com/ovolve/2048-AI. A board is
worth the weighted sum of

- its *smoothness*: minus the differences of tiles and their next ones to the right and below, over
  empty cells;
- its *monotonicity*: along the rows, minus the differences of tiles that rise or of those that
  fall, whichever are less in all rows together; the same along the columns;
- the natural logarithm of the number of its *empty* cells;
- its *largest* tile,

where tiles are exponents:

>>> from afterstate.envs.game2048.rules import from_text
>>> evaluate(from_text("8 2 2 _ / _ 4 4 _ / _ 2 2 2 / 2 2 _ _"))
1.037750566915749
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba import float64, int64, njit, uint64

from afterstate.agents.config import check_fields
from afterstate.agents.game2048.values.ntuple import KERNEL
from afterstate.envs.game2048.rules import (
    LOW_BITS,
    check_words,
    count_cells,
    largest,
    occupied,
    transpose,
    words,
)
from afterstate.envs.words import Word, Words

Values = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

WIN, BOUND = 9_900.0, 10_000.0
"""A score above the first is a win; none is above the second. A lost game is minus the second."""

_16 = np.uint64(16)
_ROW = np.uint64(0xFFFF)


@dataclass(frozen=True)
class Weights:
    """What the terms of the evaluation weigh, by default as in the original.

    Raises:
        ValueError: not numbers, or so large that an evaluation could be taken for a win or a loss.
    """

    smoothness: float = 0.1
    monotonicity: float = 1.0
    empty: float = 2.7
    largest: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self, {})
        if self.most() >= WIN:
            by = " + ".join(f"{most:.4g} |{term}|" for term, most in _MOST.items())
            raise ValueError(f"{by} is below {WIN:,.0f}, for a win is more, got {self.most():,.0f}")

    def most(self) -> float:
        """Boards that moves leave are worth no more than this, and no less than minus this.

        >>> round(Weights().most())
        236
        """
        return sum(most * abs(float(getattr(self, term))) for term, most in _MOST.items())


_MOST = {
    "smoothness": 8 * 3 * 14,  # in each of 8 lines 3 differences of tiles, which are from 1 to 15
    "monotonicity": 8 * 3 * 15 / 2,  # of cells, from 0 to 15: rises or falls, whichever are less
    "empty": math.log(16),
    "largest": 15,
}
"""The sizes that terms do not exceed after a move, which leaves an empty cell."""


ROUGHNESS, RISES, FALLS = range(0, 30, 10)
NUMBER = np.uint64(1023)
"""The bits at which a row's numbers begin, and those of a number: sums of eight rows stay below."""


class Heuristic(NamedTuple):
    """An evaluation in the form that kernels take."""

    lines: Words  # [65536]: what rows of four nibbles add: see `lines`
    weights: Values  # [4], in the order of `Weights`
    empty: Values  # [17]: what numbers of empty cells are worth


COMPARED = ("occupied", "adjacent")
"""Which cells monotonicity compares: a tile and the next one, as the original program does, or all
neighbours, an empty cell being 0, as the words of its author go."""


def _compared(line: list[int], of: str) -> list[tuple[int, int]]:
    """The pairs of exponents of a line whose order counts.

    Over empty cells the first cell is compared with the next tile, whether it is empty or not, and
    the last tile with the last cell.
    """
    if of == "adjacent":
        return list(itertools.pairwise(line))
    places = [0, *(i for i in range(1, 4) if line[i])]
    if places[-1] != 3:
        places.append(3)
    return [(line[a], line[b]) for a, b in itertools.pairwise(places)]


@cache
def lines(compared: str) -> Words:
    """What rows of four nibbles add to an evaluation, by one of `COMPARED`.

    Returns:
        Of each row in one word, the differences of its tiles and the next ones, and by how much it
        rises and falls toward the last cell, at the bits above.
    """
    found = np.zeros(1 << 16, np.uint64)
    for row in range(1 << 16):
        line = [row >> 4 * i & 15 for i in range(4)]
        pairs = _compared(line, compared)
        roughness = sum(abs(a - b) for a, b in itertools.pairwise(filter(None, line)))
        rises = sum(max(0, b - a) for a, b in pairs)
        falls = sum(max(0, a - b) for a, b in pairs)
        found[row] = roughness << ROUGHNESS | rises << RISES | falls << FALLS
    return found


def heuristic(weights: Weights | None = None, compared: str = "occupied") -> Heuristic:
    """The evaluation of weights and of one of `COMPARED`."""
    if compared not in COMPARED:
        raise ValueError(f"compared is one of {COMPARED}, got {compared!r}")
    if not isinstance(weights, (Weights, type(None))):
        raise ValueError(f"weights are Weights(smoothness=0.1, ...), got {weights!r}")
    told = weights or Weights()
    each = [told.smoothness, told.monotonicity, told.empty, told.largest]
    empty = [math.log(n) * told.empty for n in range(1, 17)]
    none = -math.inf * told.empty if told.empty else 0.0
    return Heuristic(lines(compared), np.array(each, np.float64), np.array([none, *empty]))


HEURISTIC = numba.typeof(heuristic())


@njit(int64(uint64, int64), **KERNEL)
def _number(numbers: Word, at: int) -> int:
    """A number that begins at a bit."""
    return int(numbers >> np.uint64(at) & NUMBER)


@njit(float64(uint64, HEURISTIC), **KERNEL)
def worth(board: Word, heuristic: Heuristic) -> float:
    """What a board word is worth, see `evaluate`."""
    table, across, down = heuristic.lines, np.uint64(board), transpose(board)
    rows = columns = np.uint64(0)  # of all of them: numbers do not carry into the next
    for _ in range(4):
        rows += table[across & _ROW]
        columns += table[down & _ROW]
        across, down = across >> _16, down >> _16
    weights = heuristic.weights
    disorder = min(_number(rows, RISES), _number(rows, FALLS))
    disorder += min(_number(columns, RISES), _number(columns, FALLS))
    found = -_number(rows + columns, ROUGHNESS) * weights[0]
    found -= disorder * weights[1]  # in the order of the original, so that ties are the same
    empty = ~occupied(board) & LOW_BITS
    found += heuristic.empty[16 if empty == LOW_BITS else count_cells(empty)]
    return float(found + largest(board) * weights[3])


def terms(board: Any, compared: str = "occupied") -> dict[str, float]:
    """What the terms of a board are before they are weighed; the arguments are those of `evaluate`.

    >>> terms([[3, 1, 1, 0], [0, 2, 2, 0], [0, 1, 1, 1], [1, 1, 0, 0]])["smoothness"]
    -8.0
    """
    alone = {term: Weights(**{other: float(other == term) for other in _MOST}) for term in _MOST}
    return {term: evaluate(board, weights, compared) for term, weights in alone.items()}


def evaluate(board: Any, weights: Weights | None = None, compared: str = "occupied") -> float:
    """What a board is worth.

    Args:
        board: a board word, or exponents `[4, 4]` from 0 to 15.
        weights: of the terms.
        compared: one of `COMPARED`.

    Returns:
        The weighted sum, with the logarithm of no empty cell as minus infinity: a full board is
        worth that, if `empty` is above 0.

    Raises:
        ValueError: not a board, no `Weights`, or not one of `COMPARED`.
    """
    array = np.asarray(board)
    if array.shape not in ((), (4, 4)):
        raise ValueError(f"a board is a word or exponents [4, 4], got shape {array.shape}")
    word = check_words(words(array) if array.ndim else board, 4, 4)
    if array.ndim and array.max() > 15:
        raise ValueError(f"exponents are 0 to 15 here, got {array.max()}")
    return float(worth(np.uint64(word), heuristic(weights, compared)))
