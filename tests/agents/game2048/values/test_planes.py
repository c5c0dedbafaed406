"""Forms of a board: text, arrays and words; their errors; and tiles above 32768 in words."""

from __future__ import annotations

import random
from itertools import chain, product
from typing import Any

import numpy as np
import pytest

from afterstate.envs.game2048.rules import (
    LEFT,
    cells,
    check_cells,
    check_size,
    from_text,
    move,
    table,
    to_text,
    words,
)
from tests.oracles import game2048 as oracle
from tests.support.rules_checks import SIZES, by_size, random_board

# Forms


@by_size
def test_text_and_arrays_round_trip_on_every_size(rows: int, cols: int) -> None:
    rng = random.Random(11)
    boards = [random_board(rng, rows, cols) for _ in range(200)]
    for board in boards:
        word = oracle.to_word(board)
        tiles = [[str(2**tile) if tile else "_" for tile in row] for row in board]
        text = " / ".join(" ".join(row) for row in tiles)
        assert from_text(text) == word
        assert to_text(word, rows, cols) == text
        assert int(words(board)) == word
        assert cells(word, rows, cols).tolist() == board
    batch = words(np.array(boards).reshape(20, 10, rows, cols))
    assert batch.shape == (20, 10)
    assert batch.dtype == np.uint64
    assert batch.reshape(-1).tolist() == [oracle.to_word(board) for board in boards]
    assert (
        cells(batch, rows, cols).tolist() == np.array(boards).reshape(20, 10, rows, cols).tolist()
    )
    assert cells(batch, rows, cols).dtype == np.uint8


def test_text_is_read_in_every_spelling() -> None:
    word = 0x100A0021
    for text in (
        "2 4 _ _ / 1024 . 0 2",
        "2 4 . . / 1024 _ . 2",
        "2 4 0 0/1024 0 0 2",
        "\n  2 4 0 0\n  1024 0 0 2\n\n",
    ):
        assert from_text(text) == word


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rows of equal length, got ''"),
        (" / \n", "rows of equal length"),
        ("2 4 / 2", r"rows of equal length, got '2 4 / 2'"),
        ("2 65536", "power of two from 2 to 32768, got '65536'"),
        ("2 131072", "got '131072'"),
        ("2 1", "got '1'"),
        ("2 3", "got '3'"),
        ("2 -2", "got '-2'"),
        ("2 2.0", "got '2.0'"),
        ("2 x", "got 'x'"),
        ("2 __", "got '__'"),
        ("2 00", "got '00'"),
        ("2 \N{SUPERSCRIPT TWO}", "got '\N{SUPERSCRIPT TWO}'"),
        ("2", r"1 to 4 rows and columns of a board, at least two cells, got \(1, 1\)"),
        ("2 2 2 2 2", r"got \(1, 5\)"),
        ("2 2 / 2 2 / 2 2 / 2 2 / 2 2", r"got \(5, 2\)"),
    ],
)
def test_bad_text_is_refused_with_its_reason(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_text(text)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (3, "rows of equal length, got 3"),
        ([1, 2], r"exponents \[rows, cols\] in rows of equal length, got \[1, 2\]"),
        ([[1]], r"at least two cells, got \(1, 1\)"),
        (np.zeros((5, 4), int), r"1 to 4 rows and columns .* got \(5, 4\)"),
        (np.zeros((7, 4, 5), int), r"got \(4, 5\)"),
        (np.zeros((4, 0), int), r"got \(4, 0\)"),
        ([[1.0, 2.0]], "exponents .* got float64"),
        ([[True, False]], "got bool"),
        ([["2", "4"]], "got <U1"),
        ([[1, -1]], r"exponents .* got -1 to 1"),
        ([[1, 18]], "got 1 to 18"),
        ([[1, 258]], "got 1 to 258"),
        (np.array([[1, 2**64 - 1]], np.uint64), "got 1 to 18446744073709551615"),
        ([[1, 2], [3]], "rows of equal length"),
    ],
)
def test_bad_arrays_are_refused_with_their_reason(bad: Any, message: str) -> None:
    for check in (words, check_cells):
        with pytest.raises(ValueError, match=message):
            check(bad)


def test_tiles_outside_the_field_are_refused() -> None:
    for rows, cols in SIZES[:-1]:
        outside = [cell for cell in range(16) if cell // 4 >= rows or cell % 4 >= cols]
        for cell, form in product(outside, (cells, to_text)):
            with pytest.raises(ValueError, match=f"{rows} rows and {cols} columns"):
                form(1 << 4 * cell, rows, cols)
    with pytest.raises(ValueError, match="2 rows and 2 columns"):
        cells([0x11, 0x111], 2, 2)


@pytest.mark.parametrize("size", [(1, 1), (0, 4), (4, 0), (5, 4), (4, 5), (-1, 4), (2.5, 2)])
def test_bad_sizes_are_refused(size: Any) -> None:
    for check in (check_size, table):
        with pytest.raises(ValueError, match="rows and columns"):
            check(*size)


@pytest.mark.parametrize("size", [(2.0, 2), (True, 2), (np.float64(4), 4)])
def test_sides_of_wrong_types_are_refused_even_if_the_table_is_cached(size: Any) -> None:
    """A look-up by equal keys would return the cached table of the valid size."""
    table(*map(int, size))
    for check in (check_size, table):
        with pytest.raises(ValueError, match="rows and columns"):
            check(*size)


def test_tables_are_cached_by_size() -> None:
    assert table(4, 4) is table(4, 4)
    assert table() is table(4, 4)
    assert table(rows=2, cols=3) is table(2, 3)


def test_checked_cells_are_contiguous_small_and_equal() -> None:
    board = np.array([[1, 17, 0], [3, 4, 11]], np.int64)
    for given in (board, board.T, board[:, ::-1], board.tolist(), np.asfortranarray(board)):
        checked = check_cells(given)
        assert checked.dtype == np.uint8
        assert checked.flags.c_contiguous
        assert checked.tolist() == np.asarray(given).tolist()


def test_no_boards_give_no_words() -> None:
    assert words(np.zeros((0, 4, 4), np.uint8)).shape == (0,)
    assert cells(np.zeros(0, np.uint64)).shape == (0, 4, 4)


# Tiles above 32768 in words


@pytest.mark.parametrize(
    ("board", "downgraded"),
    [
        ([[16, 15], [1, 2]], [[15, 14], [1, 2]]),
        ([[17, 16], [3, 1]], [[15, 14], [3, 1]]),
        ([[16, 14], [1, 2]], [[15, 14], [1, 2]]),
        ([[17, 15], [14, 13]], [[15, 14], [13, 12]]),
        ([[17, 17], [16, 0]], [[15, 15], [14, 0]]),
        ([[17, 0], [0, 0]], [[15, 0], [0, 0]]),
        ([[15, 15], [3, 1]], [[15, 15], [3, 1]]),
    ],
)
def test_downgrading_by_hand(board: oracle.Board, downgraded: oracle.Board) -> None:
    assert int(words(board)) == oracle.to_word(downgraded)


def test_a_board_of_every_value_has_nothing_to_halve_and_is_clamped() -> None:
    every = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]
    clamped = [*every[:3], [13, 14, 15, 15]]
    assert int(words(every)) == oracle.to_word(clamped)
    one_halving = [[1, 2, 3, 4], [5, 6, 8, 9], [10, 11, 12, 13], [14, 15, 16, 17]]
    halved_once = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 15]]
    assert int(words(one_halving)) == oracle.to_word(halved_once)


@by_size
def test_downgrading_equals_the_oracle_and_keeps_the_order(rows: int, cols: int) -> None:
    rng = random.Random(12)
    boards = []
    for k in range(300):
        drawn = rng.sample(range(1, 18), k=rows * cols)
        if k % 2:
            drawn = rng.choices([0, 1, 2, 13, 14, 15, 16, 17], k=rows * cols)
        boards.append([drawn[cols * r : cols * (r + 1)] for r in range(rows)])
    given = np.array(boards, np.uint8)
    untouched = given.copy()
    read = cells(words(given), rows, cols)
    assert (given == untouched).all()
    assert read.tolist() == [oracle.downgrade(board) for board in boards]
    for before, after in zip(boards, read.tolist(), strict=True):
        if len({tile for row in before for tile in row} - {0}) == 16:
            continue  # every value is on the board: the two largest become one
        pairs = list(zip(chain(*before), chain(*after), strict=True))
        for (a, a_after), (b, b_after) in product(pairs, pairs):
            assert (a < b) == (a_after < b_after)
            assert (a == 0) == (a_after == 0)


def test_words_end_at_32768_but_rewards_do_not() -> None:
    row = from_text("32768 32768 32768 32768")
    assert move(row, LEFT, table()) == (from_text("32768 32768 _ _"), 2 * 65_536)
