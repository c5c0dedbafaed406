"""Bit planes, their symmetries and indices in Z-order, compared with loops over cells and bits."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit

from afterstate.agents.game2048.values import bit_planes
from afterstate.agents.game2048.values.bit_planes import (
    cells_mask,
    index_by_runs,
    planes_by_shifts,
    symmetries,
    z_order,
)
from afterstate.envs.words import Word, Words
from tests.oracles import game2048 as oracle
from tests.oracles.ntuple import entry, symmetric_boards
from tests.support.game2048.agents import random_boards

_to_planes, _table_index = bit_planes.to_planes, bit_planes.table_index


@njit("uint64(uint64)")
def to_planes(board: Word) -> Word:
    return _to_planes(board)


@njit("void(uint64[::1], uint64[::1], uint64[::1])")
def _index_all(planes: Words, masks: Words, indices: Words) -> None:
    for i in range(planes.size):
        indices[i] = _table_index(planes[i], masks[i])


def table_index(planes: int, mask: int) -> int:
    """Return the index as the kernels of this processor compute it."""
    index = np.zeros(1, np.uint64)
    _index_all(np.array([planes], np.uint64), np.array([mask], np.uint64), index)
    return int(index[0])


def expected_planes(board: oracle.Board) -> int:
    """Return the planes of a board of exponents up to 15, bit by bit."""
    return sum(
        (tile >> plane & 1) << 16 * plane + 4 * row + col
        for row, tiles in enumerate(board)
        for col, tile in enumerate(tiles)
        for plane in range(4)
    )


def boards(size: tuple[int, int], n: int) -> list[oracle.Board]:
    some: list[oracle.Board] = random_boards(n, size).tolist()
    return some + [[[tile] * size[1]] * size[0] for tile in range(16)]


@pytest.mark.parametrize("convert", [to_planes, planes_by_shifts])
def test_plane_k_has_bit_k_of_every_exponent(convert: Callable[[Any], Word]) -> None:
    for board in boards((4, 4), 300):
        word = np.uint64(oracle.to_word(board))
        assert int(convert(word)) == expected_planes(board)


@pytest.mark.parametrize("index_of", [table_index, index_by_runs])
def test_index_has_the_bits_of_the_exponents_interleaved(
    index_of: Callable[[Any, Any], Word],
) -> None:
    rng = random.Random(2)
    for board in boards((4, 4), 300):
        cells = sorted(rng.sample(range(16), rng.randint(1, 7)))
        planes, mask = np.uint64(expected_planes(board)), np.uint64(cells_mask(cells))
        exponents = [board[cell // 4][cell % 4] for cell in cells]
        assert int(index_of(planes, mask)) == entry(exponents), (board, cells)


@pytest.mark.parametrize("size", [(4, 4), (3, 4), (4, 3), (2, 3), (1, 4), (4, 1), (3, 3), (2, 2)])
def test_symmetric_boards_are_those_of_the_rules(size: tuple[int, int]) -> None:
    for board in boards(size, 50):
        planes = symmetries(np.uint64(expected_planes(board)), *size)
        expected = [expected_planes(each) for each in symmetric_boards(board)]
        assert [int(each) for each in planes][: len(expected)] == expected


@pytest.mark.parametrize("n_cells", range(1, 5))
def test_z_order_lists_every_entry_once(n_cells: int) -> None:
    nibbles = np.arange(16**n_cells)
    places = z_order(nibbles, n_cells)
    assert sorted(places.tolist()) == nibbles.tolist()
    for index in random.Random(1).sample(range(16**n_cells), min(200, 16**n_cells)):
        assert places[index] == entry([index >> 4 * cell & 15 for cell in range(n_cells)])


def test_16_neighbors_are_the_boards_that_differ_by_one_in_four_cells() -> None:
    """Exponents 2k and 2k + 1 of the first four cells, all others equal."""
    first = entry([2, 6, 0, 4, 9, 11])
    steps = itertools.product((0, 1), repeat=4)
    line = {entry([2 + a, 6 + b, c, 4 + d, 9, 11]) for a, b, c, d in steps}
    assert line == set(range(first, first + 16))
