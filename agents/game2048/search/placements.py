"""The tiles that annoy most, which is what alpha-beta search of 2048 expects, as in 2048-AI.

A tile annoys by how much less smooth it makes the board, and by how many more *islands* there are
then, groups of equal neighbours. The original makes each board and looks at all of it; here tables
tell by how much a row gets rougher, and groups are counted only where an equal tile is near.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from afterstate.agents.game2048.kernels import count_zeros
from afterstate.agents.game2048.values.heuristic import COMPARED, NUMBER, ROUGHNESS, lines
from afterstate.agents.game2048.values.ntuple import KERNEL
from afterstate.envs.game2048.rules import LOW_BITS, occupied, transpose
from afterstate.envs.words import Word, Words

ORDER = np.array([16 * row + 4 * col for col in range(4) for row in range(4)], np.uint64)
"""The bits of cells in the order in which tiles are tried: column by column."""

_1, _4, _8, _15, _16 = (np.uint64(n) for n in (1, 4, 8, 15, 16))
_FIRST, _LAST = np.uint64(0x0001_0001_0001_0001), np.uint64(0x1000_1000_1000_1000)
_BYTE, _ROW = np.uint64(0xFF), np.uint64(0xFFFF)


@njit("uint64(uint64)", **KERNEL)
def _beside(cells: Word) -> Word:
    """The cells that touch one of a set, as low bits of nibbles."""
    return (cells & ~_LAST) << _4 | (cells & ~_FIRST) >> _4 | cells << _16 | cells >> _16


@njit("uint64(uint64, uint64)", **KERNEL)
def group(cell: Word, cells: Word) -> Word:
    """The cells of a set that are connected with one of them, as low bits of nibbles."""
    found, before = np.uint64(cell), np.uint64(0)
    while found != before:
        before = found
        found |= _beside(found) & cells
    return found


@njit("uint64(uint64, uint64)", **KERNEL)
def cells_of(board: Word, tile: Word) -> Word:
    """The cells that hold a tile, as low bits of nibbles."""
    return ~occupied(board ^ (LOW_BITS * np.uint64(tile))) & LOW_BITS


@njit("int64(uint64)", **KERNEL)
def islands(board: Word) -> int:
    """How many groups of equal neighbours a board has."""
    left, n = occupied(board), 0
    while left != 0:
        cell = left & (~left + _1)
        tile = np.uint64(board) >> count_zeros(cell) & _15
        left &= ~group(cell, cells_of(board, tile))
        n += 1
    return n


@njit("int64(uint64, uint64)", **KERNEL)
def _groups_beside(cell: Word, cells: Word) -> int:
    """How many groups of a set of cells a cell touches."""
    left, n = _beside(cell) & cells, 0
    while left != 0:
        first = left & (~left + _1)
        left &= ~group(first, cells) if left != first else ~first  # of the last no more is needed
        n += 1
    return n


@cache
def rougher() -> Words:
    """By how much rougher a tile in an empty cell makes rows of four nibbles, `[65536]`.

    Returns:
        Of each row in one word, a byte each for a 2 in its first to last cell, then for a 4.
    """
    rows, found = np.arange(1 << 16), np.zeros(1 << 16, np.uint64)
    roughness = lines(COMPARED[0]) >> np.uint64(ROUGHNESS) & NUMBER
    for i in range(8):
        tile, at = 1 + i // 4, 4 * (i % 4)
        more = roughness[rows | tile << at] - roughness  # never less than before
        found |= np.where(rows >> at & 15 == 0, more, 0).astype(np.uint64) << np.uint64(8 * i)
    return found


@njit("int64(uint64, uint64, int64, int64, uint64[::1])", **KERNEL)
def _roughened(across: Word, down: Word, i: int, tile: int, rougher: Words) -> int:
    """By how much rougher a tile makes a board, given by rows and by columns, in empty cell i."""
    row, column = np.uint64(i % 4), np.uint64(i // 4)
    first = np.uint64(32 * (tile - 1))
    by_row = rougher[across >> _16 * row & _ROW] >> first + _8 * column & _BYTE
    by_column = rougher[down >> _16 * column & _ROW] >> first + _8 * row & _BYTE
    return int(by_row + by_column)


@njit("uint64(uint64, boolean, uint64[::1])", **KERNEL)
def placements(board: Word, pruned: bool, rougher: Words) -> Word:
    """The tiles that are tried on a board, all or the most annoying ones.

    A tile is an island of its own, but for the groups that it joins to one.

    Returns:
        Bit `i` for a 2, bit `16 + i` for a 4, in cell `i`, counted column by column.
    """
    down = transpose(board)
    empty = ~occupied(down) & LOW_BITS
    found, worst = np.uint64(0), -1_000
    for tile in range(1, 3):
        equal = cells_of(down, np.uint64(tile))
        touched, left = _beside(equal), empty
        while left != 0:
            cell = left & (~left + _1)
            left ^= cell
            i = int(count_zeros(cell)) // 4
            annoyance = _roughened(board, down, i, tile, rougher) if pruned else 0
            if pruned and annoyance >= worst and cell & touched != 0:
                annoyance -= _groups_beside(cell, equal)
            if annoyance > worst:
                found, worst = np.uint64(0), annoyance
            if annoyance == worst:
                found |= _1 << np.uint64(16 * (tile - 1) + i)
    return found
