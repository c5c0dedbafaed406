"""One game of 2048, exact up to the 131072 tile, for environments and matches.

A *game* is eight words:

    0  BOARD         the board to move on, with nibbles that stop at 15
    1  EXCESS        the part of its exponents above 15, in the same nibbles; almost always 0
    2  AFTER         afterstate of the last action, in the same two words
    3  AFTER_EXCESS
    4  RNG           random state
    5  SCORE         sum of rewards
    6  REWARD        reward of the last action
    7  FLAGS         bytes: 0-3 legal moves (up, right, down, left), 4 is 1 if the last action was
                     legal, 5 is 1 if the game is over; then 5 bits of the largest exponent and 11
                     of the number of illegal actions since the last legal one, at most 2047

While all exponents are below 15, a step takes the word path of `rules.py`; beyond that it goes cell
by cell. Kernels here work on game `i` of an array of games `uint64[8, B]`, a column each; those on
all games are in `batch.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from afterstate.envs.checks import as_array, check_count, described
from afterstate.envs.game2048.rules import (
    LOW_BITS,
    MAX_EXPONENT,
    P_FOUR,
    P_TWO,
    Cells,
    check_cells,
    field,
    largest,
    legal,
    legal_beyond,
    move,
    occupied,
    slide,
    spawn,
    spawn_cell,
)
from afterstate.envs.words import Word, Words

N_WORDS = 8
"""Number of words of a game."""
START_TILES = 2
"""Number of tiles at the start of a game, unless an environment has another number."""
BOARD, EXCESS, AFTER, AFTER_EXCESS, RNG, SCORE, REWARD, FLAGS = range(N_WORDS)

LEGAL_BIT, OVER_BIT, EXPONENT_BIT, ILLEGAL_BIT = 32, 40, 48, 53
"""The first bits of the parts of `FLAGS` after the legal moves."""
LEGAL: Word = np.uint64(1 << LEGAL_BIT)
OVER: Word = np.uint64(1 << OVER_BIT)
EXPONENTS: Word = np.uint64(31)
"""The exponent of the largest tile, shifted down to bit 0."""
MAX_ILLEGAL = 2047
"""The largest number of illegal actions in a row that is counted."""

_0, _15 = np.uint64(0), np.uint64(15)
_EXPONENT, _ILLEGAL = np.uint64(EXPONENT_BIT), np.uint64(ILLEGAL_BIT)


@njit("uint64(int64, uint64)", cache=True)
def _flags(moves: int, exponent: Word) -> Word:
    """Return the `FLAGS` word after a legal action, given the next moves and largest exponent."""
    mask = np.uint64(moves) * np.uint64(0x0020_4081) & np.uint64(0x0101_0101)
    over = np.uint64(moves == 0) * OVER
    return mask | LEGAL | over | np.uint64(exponent) << _EXPONENT


@njit("uint64(uint64, uint64, uint64)", cache=True)
def next_flags(flags: Word, board: Word, board_field: Word) -> Word:
    """Return the `FLAGS` word after a legal action, given the one before and the next board.

    No tile grows by more than one exponent, so the largest one is compared with one number only.
    """
    exponent = np.uint64(flags) >> _EXPONENT & EXPONENTS
    larger = (exponent + np.uint64(1)) * LOW_BITS
    exponent += np.uint64(occupied(np.uint64(board) ^ larger) != LOW_BITS)
    return _flags(legal(board, board_field), exponent)


@njit("uint64(uint64)", cache=True)
def illegal_flags(flags: Word) -> Word:
    """Return the `FLAGS` word after an illegal action, given the one before."""
    counts = np.uint64(flags >> _ILLEGAL < np.uint64(MAX_ILLEGAL))
    return (np.uint64(flags) & ~LEGAL) + (counts << _ILLEGAL)


@njit("boolean(uint64)", cache=True)
def fits(board: Word) -> bool:
    """Return True if no nibble of `BOARD` is 15, so that every move stays within the word."""
    return bool(occupied(~np.uint64(board)) == LOW_BITS)


@njit("void(uint64[:, ::1], int64, uint64, int64, uint64)", cache=True, forceinline=True)
def _play_on(games: Words, i: int, after: Word, reward: int, board_field: Word) -> None:
    """Play a legal action of a game without a 15, but for its flags."""
    games[AFTER, i] = after
    games[BOARD, i], games[RNG, i] = spawn(after, games[RNG, i], board_field)
    games[REWARD, i] = np.uint64(reward)
    games[SCORE, i] += np.uint64(reward)


@njit("boolean(uint64[:, ::1], int64, int64, uint64[::1], uint64)", cache=True)
def _play_word(games: Words, i: int, action: int, move_table: Words, board_field: Word) -> bool:
    """Play an action of a game without a 15; return False, without a change, if it is illegal."""
    after, reward = move(games[BOARD, i], action, move_table)
    if after == games[BOARD, i]:
        return False
    _play_on(games, i, after, reward, board_field)
    games[FLAGS, i] = next_flags(games[FLAGS, i], games[BOARD, i], board_field)
    return True


@njit("uint64(uint64, uint64, int64)", cache=True)
def _exponent(board: Word, excess: Word, cell: int) -> Word:
    """Return the exponent of a cell, from a board and its excess."""
    shift = np.uint64(4 * cell)
    return (np.uint64(board) >> shift & _15) + (np.uint64(excess) >> shift & _15)


@njit("uint64(uint64, uint64)", cache=True)
def largest_exponent(board: Word, excess: Word) -> Word:
    """Return the largest exponent of a board and excess, which is 0 below nibbles of 15."""
    return np.uint64(largest(board) + largest(excess))


@njit("int64(uint64)", cache=True, forceinline=True)
def max_tile(flags: Word) -> int:
    """Return the largest tile, 0 on an empty board, given the `FLAGS` word."""
    exponent = int(np.int64(np.uint64(flags) >> _EXPONENT & EXPONENTS))
    return (1 << exponent) & ~1


@njit("void(uint64, uint64, uint8[:, ::1])", cache=True)
def unpack(board: Word, excess: Word, cells: Cells) -> None:
    """Write the exponents of a board and its excess into `[rows, cols]`."""
    for row in range(cells.shape[0]):
        for col in range(cells.shape[1]):
            cells[row, col] = np.uint8(_exponent(board, excess, 4 * row + col))


@njit("void(uint8[::1], uint64[:, ::1], int64, int64)", cache=True)
def pack(cells: Cells, games: Words, i: int, at: int) -> None:
    """Write 16 exponents to `BOARD` or `AFTER`."""
    board, excess = _0, _0
    for cell in range(16):
        exponent, shift = np.uint64(cells[cell]), np.uint64(4 * cell)
        nibble = min(exponent, _15)
        board |= nibble << shift
        excess |= (exponent - nibble) << shift
    games[at, i], games[at + 1, i] = board, excess


@njit("int64(uint8[::1], int64, int64, int64)", cache=True)
def _slide_cells(cells: Cells, action: int, rows: int, cols: int) -> int:
    """Slide and merge 16 exponents in place, line by line; return the reward."""
    vertical = action % 2 == 0
    length, n_lines = (rows, cols) if vertical else (cols, rows)
    along, across = (4, 1) if vertical else (1, 4)
    line = np.empty(length, np.uint8)
    reward = 0
    for n in range(n_lines):
        first, stride = across * n, along
        if action == 1 or action == 2:  # right and down slide toward the last cell
            first, stride = first + along * (length - 1), -along
        for i in range(length):
            line[i] = cells[first + stride * i]
        reward += slide(line, MAX_EXPONENT)
        for i in range(length):
            cells[first + stride * i] = line[i]
    return reward


@njit("boolean(uint64[:, ::1], int64, int64, int64, int64)", cache=True)
def slide_game(games: Words, i: int, action: int, rows: int, cols: int) -> bool:
    """Write afterstate and reward of an action of any game; return True if it is legal."""
    cells = np.empty(16, np.uint8)
    unpack(games[BOARD, i], games[EXCESS, i], cells.reshape(4, 4))
    games[REWARD, i] = np.uint64(_slide_cells(cells, action, rows, cols))
    pack(cells, games, i, AFTER)
    return bool(games[AFTER, i] != games[BOARD, i])  # a legal move changes which cells are empty


@njit("void(uint64[:, ::1], int64, int64, int64)", cache=True)
def refresh_flags(games: Words, i: int, rows: int, cols: int) -> None:
    """Write `FLAGS` from the board, with the last action as legal."""
    board, excess = games[BOARD, i], games[EXCESS, i]
    moves = legal_beyond(board, excess, field(rows, cols))
    games[FLAGS, i] = _flags(moves, largest_exponent(board, excess))


@njit("boolean(uint64[:, ::1], int64, int64, int64, int64)", cache=True)
def _play_cells(games: Words, i: int, action: int, rows: int, cols: int) -> bool:
    """Play an action of any game; return False, without a change, if it is illegal."""
    if not slide_game(games, i, action, rows, cols):
        return False
    games[SCORE, i] += games[REWARD, i]
    empty = field(rows, cols) & ~occupied(games[AFTER, i])
    tile, games[RNG, i] = spawn_cell(empty, games[RNG, i])
    games[BOARD, i] = games[AFTER, i] | tile
    games[EXCESS, i] = games[AFTER_EXCESS, i]
    refresh_flags(games, i, rows, cols)
    return True


@njit("void(uint64[:, ::1], int64, int64, uint64[::1], int64, int64)", cache=True)
def play(games: Words, i: int, action: int, move_table: Words, rows: int, cols: int) -> None:
    """Play one action of game `i`: move, reward, tile.

    An illegal action gives reward 0, is counted and makes the board its own afterstate; it changes
    nothing else.
    """
    if fits(games[BOARD, i]):
        played = _play_word(games, i, action, move_table, field(rows, cols))
    else:
        played = _play_cells(games, i, action, rows, cols)
    if not played:
        games[AFTER, i], games[AFTER_EXCESS, i] = games[BOARD, i], games[EXCESS, i]
        games[REWARD, i] = _0
        games[FLAGS, i] = illegal_flags(games[FLAGS, i])


@njit(cache=True, forceinline=True)
def play_after(
    games: Words, i: int, action: int, after: Word, reward: int, rows: int, cols: int
) -> None:
    """Play a legal action, whose afterstate word and reward are known.

    This is faster than `play`, but `FLAGS` are not up to date until `refresh_flags`; `play` must
    not be called before.
    """
    if fits(games[BOARD, i]):
        _play_on(games, i, after, reward, field(rows, cols))
    else:
        _play_cells(games, i, action, rows, cols)


@njit("void(uint64[:, ::1], int64, int64, int64, int64)", cache=True)
def start(games: Words, i: int, n_tiles: int, rows: int, cols: int) -> None:
    """Start game `i` with `n_tiles` tiles drawn from `RNG`; its afterstate is the board itself."""
    board: Word = _0
    for _ in range(n_tiles):
        board, games[RNG, i] = spawn(board, games[RNG, i], field(rows, cols))
    games[BOARD, i], games[EXCESS, i] = board, _0
    games[AFTER, i], games[AFTER_EXCESS, i] = board, _0
    games[SCORE, i], games[REWARD, i] = _0, _0
    refresh_flags(games, i, rows, cols)


@njit(cache=True)
def step(games: Words, action: int, move_table: Words, boards: Cells) -> None:
    """Play game 0 and write its afterstate and its board into `boards[2, rows, cols]`."""
    play(games, 0, action, move_table, boards.shape[1], boards.shape[2])
    unpack(games[AFTER, 0], games[AFTER_EXCESS, 0], boards[0])
    unpack(games[BOARD, 0], games[EXCESS, 0], boards[1])


def new_games(n: int) -> Words:
    """Return `n` games `uint64[8, n]` whose words are all 0, to be started.

    Raises:
        ValueError: not an integer >= 0.
    """
    return np.zeros((N_WORDS, check_count("n", n, least=0)), np.uint64)


def are_games(games: Any) -> bool:
    """Return True for an array `uint64[8, B]`."""
    is_array = isinstance(games, np.ndarray) and games.dtype == np.uint64
    return is_array and games.ndim == 2 and len(games) == N_WORDS


def check_games(games: Any) -> None:
    """Raise ValueError unless an array holds games that kernels can play on, as described above."""
    if not are_games(games):
        given = described(games, as_array(games))
        raise ValueError(f"games must be uint64[{N_WORDS}, B], got {given}")
    if not (games.flags.c_contiguous and games.flags.writeable):
        given = "another order" if games.flags.writeable else "a read-only array"
        raise ValueError(f"games must be a writable array in C order, got {given}")


def outcomes(after: Cells) -> tuple[Cells, npt.NDArray[np.float64]]:
    """Return the possible boards after an afterstate of exponents `[rows, cols]`.

    Returns:
        Boards `uint8[n, rows, cols]`, each empty cell with a 2 and then with a 4, and their
        probabilities `[n]`. A full board stays as it is.

    Raises:
        ValueError: no such afterstate.
    """
    after = check_cells(after)
    if after.ndim != 2:
        raise ValueError(f"after must be one board [rows, cols], got {after.shape}")
    empty = np.argwhere(after == 0).repeat(2, axis=0)
    if len(empty) == 0:
        return after[None].copy(), np.ones(1)
    boards = np.repeat(after[None], len(empty), axis=0)
    n_cells = len(empty) // 2
    boards[np.arange(len(empty)), empty[:, 0], empty[:, 1]] = np.tile([1, 2], n_cells)
    return boards, np.tile([P_TWO, P_FOUR], n_cells) / n_cells
