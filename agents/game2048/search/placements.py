"""Worst-case tile placements for alpha-beta search, as in 2048-AI.

The annoyance of a new tile is the loss of smoothness plus the change in the number of *islands*,
groups of equal neighbors. 2048-AI counts the islands of each whole board; here tables give the loss
of smoothness of a row, and only islands next to the new tile are counted.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from afterstate.agents.game2048.kernels import KERNEL, trailing_zeros
from afterstate.agents.game2048.values.heuristic import COMPARED, NUMBER, ROUGHNESS, lines
from afterstate.envs.game2048.rules import LOW_BITS, lowest_cell, occupied, transpose
from afterstate.envs.words import Word, Words

ORDER = np.array([16 * row + 4 * col for col in range(4) for row in range(4)], np.uint64)
"""Bit offsets of cells in the order in which tiles are tried: column by column."""

_1, _4, _8, _16 = (np.uint64(n) for n in (1, 4, 8, 16))
_FIRST, _LAST = np.uint64(0x0001_0001_0001_0001), np.uint64(0x1000_1000_1000_1000)
_BYTE, _ROW = np.uint64(0xFF), np.uint64(0xFFFF)


@njit("uint64(uint64)", **KERNEL)
def _neighbors(cells: Word) -> Word:
    """Return the neighbors of a set of cells, as low bits of nibbles."""
    return (cells & ~_LAST) << _4 | (cells & ~_FIRST) >> _4 | cells << _16 | cells >> _16


@njit("uint64(uint64, uint64)", **KERNEL)
def group(cell: Word, cells: Word) -> Word:
    """Return the cells of a set that are connected with one of them, as low bits of nibbles."""
    connected, before = np.uint64(cell), np.uint64(0)
    while connected != before:
        before = connected
        connected |= _neighbors(connected) & cells
    return connected


@njit("uint64(uint64, uint64)", **KERNEL)
def cells_of(board: Word, tile: Word) -> Word:
    """Return the cells that hold a tile, as low bits of nibbles."""
    return ~occupied(board ^ (LOW_BITS * np.uint64(tile))) & LOW_BITS


@njit("int64(uint64, uint64)", **KERNEL)
def _touched_groups(cell: Word, cells: Word) -> int:
    """Return the number of groups of a set of cells that a cell touches."""
    left, n = _neighbors(cell) & cells, 0
    while left != 0:
        first = lowest_cell(left)
        left &= ~group(first, cells) if left != first else ~first  # the last one needs no search
        n += 1
    return n


@cache
def smoothness_losses() -> Words:
    """Return the loss of smoothness by a tile in each empty cell of rows of four nibbles.

    Returns:
        `[65536]`: for each row one word, a byte each for a 2 in its first to last cell, then for a
        4.
    """
    rows, losses = np.arange(1 << 16), np.zeros(1 << 16, np.uint64)
    roughness = lines(COMPARED[0]) >> np.uint64(ROUGHNESS) & NUMBER
    for i in range(8):
        tile, at = 1 + i // 4, 4 * (i % 4)
        more = roughness[rows | tile << at] - roughness  # never less than before
        losses |= np.where(rows >> at & 15 == 0, more, 0).astype(np.uint64) << np.uint64(8 * i)
    return losses


@njit("int64(uint64, uint64, int64, int64, uint64[::1])", **KERNEL)
def _smoothness_loss(across: Word, down: Word, i: int, tile: int, losses: Words) -> int:
    """Return the loss by a tile in empty cell `i` of a board, given by rows and by columns."""
    row, column = np.uint64(i % 4), np.uint64(i // 4)
    first = np.uint64(32 * (tile - 1))
    by_row = losses[across >> _16 * row & _ROW] >> first + _8 * column & _BYTE
    by_column = losses[down >> _16 * column & _ROW] >> first + _8 * row & _BYTE
    return int(by_row + by_column)


@njit("uint64(uint64, boolean, uint64[::1])", **KERNEL)
def placements(board: Word, pruned: bool, losses: Words) -> Word:
    """Return the tiles to try on a board: all, or if `pruned` only those worst by a quick measure.

    A new tile is an island of its own, minus the groups that it joins.

    Returns:
        A set of bits: `i` for a 2 and `16 + i` for a 4 in cell `i`, counted column by column.
    """
    down = transpose(board)
    empty = ~occupied(down) & LOW_BITS
    tried, worst = np.uint64(0), -1_000
    for tile in range(1, 3):
        equal = cells_of(down, np.uint64(tile))
        touched, left = _neighbors(equal), empty
        while left != 0:
            cell = lowest_cell(left)
            left ^= cell
            i = int(trailing_zeros(cell)) // 4
            annoyance = _smoothness_loss(board, down, i, tile, losses) if pruned else 0
            if pruned and annoyance >= worst and cell & touched != 0:
                annoyance -= _touched_groups(cell, equal)
            if annoyance > worst:
                tried, worst = np.uint64(0), annoyance
            if annoyance == worst:
                tried |= _1 << np.uint64(16 * (tile - 1) + i)
    return tried
