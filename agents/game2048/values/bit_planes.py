"""Boards as four bit planes, from which the indices of table entries are packed.

Plane `k` has bit `k` of every cell's exponent; bit `16 * k + cell` of the word is that of a cell:

    exponents   1 2 0 3     planes 0 to 3   1 0 0 1   0 1 0 1   0 0 0 0   0 0 0 0
                0 0 0 4                     0 0 0 0   0 0 0 0   0 0 0 1   0 0 0 0

The index of a tuple's entry is its cells' bits, plane after plane, so the bits of all exponents are
interleaved. In this *Z-order* (Morton 1966) entries of boards that differ by a small tile or two
lie close together: 16 floats, a cache line, are the tuples whose first four cells differ in their
lowest bits only. With the usual index, the exponents side by side as nibbles, they are one cell
with all 16 exponents, of which a position has one or two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from afterstate.agents.game2048.kernels import (
    HAS_FAST_PEXT,
    inlined,
    kernel,
    pack_bits,
    trailing_zeros,
)
from afterstate.envs.words import Word

PLANES = 0x0001_0001_0001_0001
"""The bits of cell 0 in all planes."""

_LOW_BITS = 0x1111_1111_1111_1111


def cells_mask(cells: Iterable[int]) -> int:
    """Return the bits of cells in all planes."""
    return sum(PLANES << int(cell) for cell in cells)


@inlined
def planes_by_shifts(board: Word) -> Word:
    """Return the planes of a board without PEXT."""
    planes = np.uint64(0)
    for k in range(4):
        plane = np.uint64(board) >> np.uint64(k) & np.uint64(_LOW_BITS)
        plane = (plane | plane >> np.uint64(3)) & np.uint64(0x0303_0303_0303_0303)
        plane = (plane | plane >> np.uint64(6)) & np.uint64(0x000F_000F_000F_000F)
        plane = (plane | plane >> np.uint64(12)) & np.uint64(0x0000_00FF_0000_00FF)
        plane = (plane | plane >> np.uint64(24)) & np.uint64(0xFFFF)
        planes |= plane << np.uint64(16 * k)
    return planes


@inlined
def _planes_by_pext(board: Word) -> Word:
    """Return the planes of a board, each packed by one instruction."""
    planes = np.uint64(0)
    for k in range(4):
        plane = pack_bits(board, np.uint64(_LOW_BITS) << np.uint64(k))
        planes |= plane << np.uint64(16 * k)
    return planes


@inlined
def index_by_runs(planes: Word, mask: Word) -> Word:
    """Return the bits of `planes` under `mask`, packed, without PEXT.

    Cells of one run move together, in all planes at once; then the planes are joined.
    """
    cells = np.uint64(mask) & np.uint64(0xFFFF)
    packed, n_cells = np.uint64(0), np.uint64(0)
    while cells != 0:
        first = trailing_zeros(cells)
        rest = cells & (cells + (np.uint64(1) << first))  # the carry runs past the run of ones
        run = cells ^ rest
        packed |= (np.uint64(planes) & run * np.uint64(PLANES)) >> (first - n_cells)
        n_cells += trailing_zeros(~(run >> first))
        cells = rest
    index, plane = np.uint64(0), (np.uint64(1) << n_cells) - np.uint64(1)
    for k in range(4):
        index |= (packed >> np.uint64(16 * k) & plane) << np.uint64(k) * n_cells
    return index


to_planes: Callable[[Word], Word] = _planes_by_pext if HAS_FAST_PEXT else planes_by_shifts
"""Return the four bit planes of a board."""

table_index: Callable[[Word, Word], Word] = pack_bits if HAS_FAST_PEXT else index_by_runs
"""Return the index of the entry of a tuple, whose cells are the mask, from the planes."""


@kernel
def _to_z_order(indices: npt.NDArray[np.int64], mask: Word) -> None:
    """Replace indices: an index of nibbles is read as the board of its first cells."""
    for i in range(indices.size):
        indices[i] = np.int64(table_index(to_planes(np.uint64(indices[i])), mask))


def z_order(indices: npt.ArrayLike, n_cells: int) -> npt.NDArray[np.int64]:
    """Return the indices of a tuple's entries, given by their exponents side by side as nibbles.

    >>> z_order([0x31], 2)  # exponent 1, bits 01, in the first cell and 3, bits 11, in the second
    array([11])
    """
    entries = np.array(indices, np.int64, order="C")
    _to_z_order(entries.reshape(-1), np.uint64(cells_mask(range(n_cells))))
    return entries


@inlined
def _transpose(planes: Word) -> Word:
    """Swap rows and columns: single cells of every 2x2 block, then the blocks."""
    swap = (planes ^ planes >> np.uint64(3)) & np.uint64(0x0A0A_0A0A_0A0A_0A0A)
    planes ^= swap ^ swap << np.uint64(3)
    swap = (planes ^ planes >> np.uint64(6)) & np.uint64(0x00CC_00CC_00CC_00CC)
    return planes ^ swap ^ swap << np.uint64(6)


@inlined
def _mirror(planes: Word, cols: int) -> Word:
    """Reverse every row of a board with `cols` columns."""
    single, pairs = np.uint64(0x5555_5555_5555_5555), np.uint64(0x3333_3333_3333_3333)
    planes = (planes & single) << np.uint64(1) | planes >> np.uint64(1) & single
    planes = (planes & pairs) << np.uint64(2) | planes >> np.uint64(2) & pairs
    return planes >> np.uint64(4 - cols)


@inlined
def _flip(planes: Word, rows: int) -> Word:
    """Reverse the order of the rows of a board with `rows` rows."""
    single, pairs = np.uint64(0x0F0F_0F0F_0F0F_0F0F), np.uint64(0x00FF_00FF_00FF_00FF)
    planes = (planes & single) << np.uint64(4) | planes >> np.uint64(4) & single
    planes = (planes & pairs) << np.uint64(8) | planes >> np.uint64(8) & pairs
    return planes >> np.uint64(4 * (4 - rows))


@inlined
def symmetries(planes: Word, rows: int, cols: int) -> tuple[Word, ...]:
    """Return the planes of a board's symmetric boards, in the order of `rules.symmetries`."""
    mirrored, flipped = _mirror(planes, cols), _flip(planes, rows)
    turned = _flip(mirrored, rows)
    return (
        *(planes, mirrored, flipped, turned),
        *(_transpose(planes), _transpose(mirrored), _transpose(flipped), _transpose(turned)),
    )
