"""Whole games of 2048, exact up to the 131072 tile, for environments and matches.

A *game* is eight words, one cache line:

    0  BOARD         the board to move on, with nibbles that stop at 15
    1  EXCESS        the part of its exponents above 15, in the same nibbles; almost always 0
    2  AFTER         afterstate of the last action, in the same two words
    3  AFTER_EXCESS
    4  RNG           random state
    5  SCORE         sum of rewards
    6  REWARD        reward of the last action
    7  FLAGS         bytes: 0-3 legal moves (up, right, down, left), 4 is 1 if the last action was
                     legal, 5 is 1 if the game is over, 6 the largest exponent

While all exponents are below 15, a step takes the word path of `rules.py`; beyond that it goes cell
by cell. Kernels work on game `i` of an array of games `uint64[B, 8]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from afterstate.envs.game2048.rules import (
    LOW_BITS,
    MAX_EXPONENT,
    Cells,
    field,
    legal,
    move,
    occupied,
    slide,
    spawn,
    spawn_cell,
    table,
    words,
)
from afterstate.envs.game2048.rules import afterstates as slides
from afterstate.envs.words import Word, Words, next_random

BOARD, EXCESS, AFTER, AFTER_EXCESS, RNG, SCORE, REWARD, FLAGS = range(8)

_INLINED: Any = {"cache": True, "forceinline": True}  # makes a vector environment 20% faster
_LEGAL: Word = np.uint64(1 << 32)
_0, _4, _15, _32 = (np.uint64(n) for n in (0, 4, 15, 32))


@njit("uint64(int64, uint64)", cache=True)
def _flags(moves: int, largest: Word) -> Word:
    """Return the `FLAGS` word after a legal action, given the next legal moves as bits."""
    mask = np.uint64(moves) * np.uint64(0x0020_4081) & np.uint64(0x0101_0101)
    over = np.uint64(moves == 0) << np.uint64(40)
    return mask | _LEGAL | over | np.uint64(largest) << np.uint64(48)


@njit("boolean(uint64)", cache=True)
def _fits(board: Word) -> bool:
    """Return True if no nibble of `BOARD` is 15, so that every move stays within the word."""
    return bool(occupied(~np.uint64(board)) == LOW_BITS)


@njit("void(uint64[:, ::1], int64, uint64, int64, uint64)", **_INLINED)
def _play_on(games: Words, i: int, after: Word, reward: int, field: Word) -> None:
    """Play a legal action of a game without a 15, but for its flags."""
    games[i, AFTER] = after
    games[i, BOARD], games[i, RNG] = spawn(after, games[i, RNG], field)
    games[i, REWARD] = np.uint64(reward)
    games[i, SCORE] += np.uint64(reward)


@njit("boolean(uint64[:, ::1], int64, int64, uint64[::1], uint64)", **_INLINED)
def _play_word(games: Words, i: int, action: int, table: Words, field: Word) -> bool:
    """Play an action of a game without a 15; return False, without a change, if it is illegal."""
    after, reward = move(games[i, BOARD], action, table)
    if after == games[i, BOARD]:
        return False
    _play_on(games, i, after, reward, field)
    board = games[i, BOARD]
    largest = games[i, FLAGS] >> np.uint64(48)
    larger = (largest + np.uint64(1)) * LOW_BITS  # no tile grows by more than one exponent
    largest += np.uint64(occupied(board ^ larger) != LOW_BITS)
    games[i, FLAGS] = _flags(legal(board, field), largest)
    return True


@njit("uint64(uint64, uint64, int64)", cache=True)
def _exponent(board: Word, excess: Word, cell: int) -> Word:
    """Return the exponent of a cell, from a board and its excess."""
    shift = np.uint64(4 * cell)
    return (np.uint64(board) >> shift & _15) + (np.uint64(excess) >> shift & _15)


@njit("uint64(uint64, uint64)", cache=True)
def largest_exponent(board: Word, excess: Word) -> Word:
    """Return the largest exponent of a board and its excess."""
    largest: Word = _0
    for cell in range(16):
        largest = max(largest, _exponent(board, excess, cell))
    return largest


@njit("void(uint64[:, ::1], int64, int64, uint8[::1])", cache=True)
def _unpack(games: Words, i: int, at: int, cells: Cells) -> None:
    """Read the 16 exponents of `BOARD` or `AFTER`."""
    for cell in range(16):
        cells[cell] = np.uint8(_exponent(games[i, at], games[i, at + 1], cell))


@njit("void(uint8[::1], uint64[:, ::1], int64, int64)", cache=True)
def _pack(cells: Cells, games: Words, i: int, at: int) -> None:
    """Write 16 exponents to `BOARD` or `AFTER`."""
    board, excess = _0, _0
    for cell in range(16):
        exponent, shift = np.uint64(cells[cell]), np.uint64(4 * cell)
        nibble = min(exponent, _15)
        board |= nibble << shift
        excess |= (exponent - nibble) << shift
    games[i, at], games[i, at + 1] = board, excess


@njit("int64(uint8[::1], int64, int64, int64)", cache=True)
def _slide_cells(cells: Cells, action: int, rows: int, cols: int) -> int:
    """Slide and merge 16 exponents in place, line by line; return the reward."""
    vertical = action % 2 == 0
    length, n_lines = (rows, cols) if vertical else (cols, rows)
    along, across = (4, 1) if vertical else (1, 4)
    line = np.empty(length, np.uint8)
    reward = 0
    for n in range(n_lines):
        first, step = across * n, along
        if action == 1 or action == 2:  # right and down slide toward the last cell
            first, step = first + along * (length - 1), -along
        for i in range(length):
            line[i] = cells[first + step * i]
        reward += slide(line, MAX_EXPONENT)
        for i in range(length):
            cells[first + step * i] = line[i]
    return reward


@njit("boolean(uint64[:, ::1], int64, int64, int64, int64)", cache=True)
def _slide_game(games: Words, i: int, action: int, rows: int, cols: int) -> bool:
    """Write afterstate and reward of an action of any game; return True if it is legal."""
    cells = np.empty(16, np.uint8)
    _unpack(games, i, BOARD, cells)
    games[i, REWARD] = np.uint64(_slide_cells(cells, action, rows, cols))
    _pack(cells, games, i, AFTER)
    return bool(games[i, AFTER] != games[i, BOARD])  # a legal move changes which cells are empty


@njit("int64(uint64[:, ::1], int64, int64, int64)", cache=True)
def _legal_cells(games: Words, i: int, rows: int, cols: int) -> int:
    """Return the legal moves of any game as four bits, by trying them."""
    trial = games[i : i + 1].copy()
    moves = 0
    for action in range(4):
        moves |= int(_slide_game(trial, 0, action, rows, cols)) << action
    return moves


@njit("void(uint64[:, ::1], int64, int64, int64)", cache=True)
def look(games: Words, i: int, rows: int, cols: int) -> None:
    """Write `FLAGS` from the board, with the last action as legal."""
    if _fits(games[i, BOARD]):
        moves = legal(games[i, BOARD], field(rows, cols))
    else:
        moves = _legal_cells(games, i, rows, cols)
    games[i, FLAGS] = _flags(moves, largest_exponent(games[i, BOARD], games[i, EXCESS]))


@njit("boolean(uint64[:, ::1], int64, int64, int64, int64)", cache=True)
def _play_cells(games: Words, i: int, action: int, rows: int, cols: int) -> bool:
    """Play an action of any game; return False, without a change, if it is illegal."""
    if not _slide_game(games, i, action, rows, cols):
        return False
    games[i, SCORE] += games[i, REWARD]
    empty = field(rows, cols) & ~occupied(games[i, AFTER])
    tile, games[i, RNG] = spawn_cell(empty, games[i, RNG])
    games[i, BOARD] = games[i, AFTER] | tile
    games[i, EXCESS] = games[i, AFTER_EXCESS]
    look(games, i, rows, cols)
    return True


@njit("void(uint64[:, ::1], int64, int64, uint64[::1], int64, int64)", **_INLINED)
def play(games: Words, i: int, action: int, table: Words, rows: int, cols: int) -> None:
    """Play one action of game `i`: move, reward, tile.

    An illegal action gives reward 0, clears its flag and makes the board its own afterstate; it
    changes nothing else.
    """
    if _fits(games[i, BOARD]):
        played = _play_word(games, i, action, table, field(rows, cols))
    else:
        played = _play_cells(games, i, action, rows, cols)
    if not played:
        games[i, AFTER], games[i, AFTER_EXCESS] = games[i, BOARD], games[i, EXCESS]
        games[i, REWARD] = _0
        games[i, FLAGS] &= ~_LEGAL


@njit("void(uint64[:, ::1], int64, int64, uint64, int64, int64, int64)", **_INLINED)
def play_after(
    games: Words, i: int, action: int, after: Word, reward: int, rows: int, cols: int
) -> None:
    """Play a legal action, whose afterstate word and reward are known.

    This is faster than `play`, but `FLAGS` are not up to date until `look` writes them; `play` must
    not be called before.
    """
    if _fits(games[i, BOARD]):
        _play_on(games, i, after, reward, field(rows, cols))
    else:
        _play_cells(games, i, action, rows, cols)


@njit("void(uint64[:, ::1], int64, int64, int64, int64)", cache=True)
def start(games: Words, i: int, n_tiles: int, rows: int, cols: int) -> None:
    """Start game `i` with `n_tiles` tiles drawn from `RNG`; its afterstate is the board itself."""
    board: Word = _0
    for _ in range(n_tiles):
        board, games[i, RNG] = spawn(board, games[i, RNG], field(rows, cols))
    games[i, BOARD], games[i, EXCESS] = board, _0
    games[i, AFTER], games[i, AFTER_EXCESS] = board, _0
    games[i, SCORE], games[i, REWARD] = _0, _0
    look(games, i, rows, cols)


@njit(
    "void(uint64[:, ::1], int64[::1], boolean[::1], int64, uint64[::1], int64, int64)", cache=True
)
def play_all(
    games: Words,
    actions: npt.NDArray[np.int64],
    over: npt.NDArray[np.bool_],
    n_tiles: int,
    table: Words,
    rows: int,
    cols: int,
) -> None:
    """Play one action of every game, or restart it where `over` is set."""
    for i in range(len(games)):
        if over[i]:
            start(games, i, n_tiles, rows, cols)
        else:
            play(games, i, actions[i], table, rows, cols)


@njit("void(uint64[:, ::1], boolean[::1], int64, int64, int64)", cache=True)
def start_all(
    games: Words, mask: npt.NDArray[np.bool_], n_tiles: int, rows: int, cols: int
) -> None:
    """Start the games of a mask."""
    for i in range(len(games)):
        if mask[i]:
            start(games, i, n_tiles, rows, cols)


@njit(
    "int64(uint64[:, ::1], int64[::1], int64[::1], boolean[::1], int64, boolean, int64, "
    "uint64[::1], int64, int64, float64[::1], boolean[::1], boolean[::1])",
    cache=True,
)
def step_all(
    games: Words,
    actions: npt.NDArray[np.int64],
    elapsed: npt.NDArray[np.int64],
    over: npt.NDArray[np.bool_],
    limit: int,
    illegal_ends: bool,
    n_tiles: int,
    table: Words,
    rows: int,
    cols: int,
    rewards: npt.NDArray[np.float64],
    terminated: npt.NDArray[np.bool_],
    truncated: npt.NDArray[np.bool_],
) -> int:
    """Play one action of every game, or restart it if it is over; return how many are over then.

    Args:
        games: `uint64[B, 8]`, changed in place.
        actions: `[B]` in 0..3.
        elapsed: steps of each game, changed in place.
        over: games to restart; set to those that are over after the step.
        limit: steps after which a game is truncated.
        illegal_ends: True if an illegal action ends the game.
        n_tiles: tiles at the start.
        table: the move table.
        rows: of the board.
        cols: of the board.
        rewards: are written to.
        terminated: is written to.
        truncated: is written to.
    """
    n_over = 0
    for i in range(len(games)):
        terminated[i] = False
        if over[i]:
            start(games, i, n_tiles, rows, cols)
            elapsed[i] = 0
        else:
            play(games, i, actions[i], table, rows, cols)
            elapsed[i] += 1
            flags = games[i, FLAGS]
            terminated[i] = flags >> np.uint64(40) & np.uint64(1) != 0
            if illegal_ends and flags & _LEGAL == 0:
                terminated[i] = True
        truncated[i] = elapsed[i] >= limit
        rewards[i] = np.float64(games[i, REWARD])
        over[i] = terminated[i] or truncated[i]
        n_over += int(over[i])
    return n_over


@njit("uint64(uint64[:, ::1], uint64, int64[::1])", cache=True)
def sample_legal(games: Words, rng: Word, actions: npt.NDArray[np.int64]) -> Word:
    """Draw a legal action of every game, 0 where none is; return the advanced random state."""
    rng = np.uint64(rng)
    for i in range(len(games)):
        rng, bits = next_random(rng)
        mask = games[i, FLAGS] & np.uint64(0x0101_0101)
        n_legal = (mask * np.uint64(0x0101_0101) >> np.uint64(24)) & np.uint64(7)
        drawn = (bits >> _32) * n_legal >> _32
        before = mask * np.uint64(0x0101_0100)  # byte a: legal actions before a
        action = 0
        for a in range(4):
            at = np.uint64(8 * a)
            hit = (mask >> at & np.uint64(1)) & np.uint64(before >> at & np.uint64(7) == drawn)
            action += a * int(hit)
        actions[i] = action
    return rng


@njit("void(uint64, uint64, uint8[:, ::1])", cache=True)
def _unpack_rows(board: Word, excess: Word, cells: Cells) -> None:
    """Write the exponents of a board and its excess into `[rows, cols]`."""
    for row in range(cells.shape[0]):
        for col in range(cells.shape[1]):
            cells[row, col] = np.uint8(_exponent(board, excess, 4 * row + col))


@njit("void(uint64[:, ::1], int64, uint64[::1], uint8[:, :, ::1])", cache=True)
def step(games: Words, action: int, table: Words, boards: Cells) -> None:
    """Play game 0 and write its afterstate and its board into `boards[2, rows, cols]`."""
    play(games, 0, action, table, boards.shape[1], boards.shape[2])
    _unpack_rows(games[0, AFTER], games[0, AFTER_EXCESS], boards[0])
    _unpack_rows(games[0, BOARD], games[0, EXCESS], boards[1])


@njit("uint64(uint64)", cache=True)
def _spread(eight_nibbles: Word) -> Word:
    """Unpack the low eight nibbles into eight bytes."""
    x = np.uint64(eight_nibbles) & np.uint64(0xFFFF_FFFF)
    x = (x | x << np.uint64(16)) & np.uint64(0x0000_FFFF_0000_FFFF)
    x = (x | x << np.uint64(8)) & np.uint64(0x00FF_00FF_00FF_00FF)
    return (x | x << _4) & np.uint64(0x0F0F_0F0F_0F0F_0F0F)


@njit("void(uint64[:, ::1], int64, uint64[:, ::1])", cache=True)
def _read(games: Words, at: int, cells: Words) -> None:
    """Write the exponents of `BOARD` or `AFTER` of every game as 16 bytes."""
    for i in range(len(games)):
        cells[i, 0], cells[i, 1] = _spread(games[i, at]), _spread(games[i, at] >> _32)
        if games[i, at + 1] != 0:
            cells[i, 0] += _spread(games[i, at + 1])
            cells[i, 1] += _spread(games[i, at + 1] >> _32)


@njit(
    "void(uint64[:, ::1], uint32[::1], uint64[:, ::1], int64[::1], int64[::1], boolean[::1])",
    cache=True,
)
def read_infos(
    games: Words,
    masks: npt.NDArray[np.uint32],
    afters: Words,
    scores: npt.NDArray[np.int64],
    max_tiles: npt.NDArray[np.int64],
    legal: npt.NDArray[np.bool_],
) -> None:
    """Write legal moves, a byte each, afterstates, 16 bytes each, scores, largest tiles and flags.

    `legal` is whether the last action was.
    """
    _read(games, AFTER, afters)
    for i in range(len(games)):
        flags = games[i, FLAGS]
        masks[i] = np.uint32(flags)
        scores[i] = np.int64(games[i, SCORE])
        largest = np.int64(flags >> np.uint64(48))
        max_tiles[i] = (1 << largest) if largest > 0 else 0
        legal[i] = flags & _LEGAL != 0


def read(games: Words, at: int, rows: int, cols: int) -> Cells:
    """Return `BOARD` or `AFTER` of games `uint64[B, 8]` as exponents `uint8[B, rows, cols]`."""
    cells = np.empty((len(games), 2), np.uint64)
    _read(games, at, cells)
    return as_boards(cells, rows, cols)


def as_boards(cells: Words, rows: int, cols: int) -> Cells:
    """Return cells `uint64[B, 2]`, a byte each, as exponents `uint8[B, rows, cols]`."""
    boards = cells.view(np.uint8).reshape(-1, 4, 4)
    return boards if rows == cols == 4 else boards[:, :rows, :cols].copy()


def board_words(games: Words, rows: int, cols: int) -> Words:
    """Return the boards of games `uint64[B, 8]` as words `uint64[B]`, downgraded where needed."""
    if games[:, EXCESS].any():
        return words(read(games, BOARD, rows, cols))
    return games[:, BOARD].copy()


def masks(games: Words) -> npt.NDArray[np.int8]:
    """Return the legal moves of games `uint64[B, 8]`: `int8[B, 4]` of zeros and ones."""
    bytes_low: npt.NDArray[np.int8] = games[:, FLAGS].astype(np.uint32).view(np.int8)
    return bytes_low.reshape(-1, 4)


@njit(
    "void(uint64[:, ::1], uint64[::1], int64, int64, uint64[:, ::1], float64[:, ::1])", cache=True
)
def _slide_all(
    games: Words,
    table: Words,
    rows: int,
    cols: int,
    cells: Words,
    rewards: npt.NDArray[np.float64],
) -> None:
    """Write the four afterstates of every game as 16 bytes each, and their rewards."""
    for i in range(len(games)):
        if _fits(games[i, BOARD]):
            boards, gains = slides(games[i, BOARD], table)
            for action in range(4):
                rewards[i, action] = gains[action]
                cells[4 * i + action, 0] = _spread(boards[action])
                cells[4 * i + action, 1] = _spread(boards[action] >> _32)
        else:
            trial = games[i : i + 1].copy()
            for action in range(4):
                _slide_game(trial, 0, action, rows, cols)
                rewards[i, action] = trial[0, REWARD]
                _read(trial, AFTER, cells[4 * i + action : 4 * i + action + 1])


def afterstates(
    games: Words, rows: int, cols: int
) -> tuple[Cells, npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the four moves of games `uint64[B, 8]`, in the order up, right, down, left.

    Returns:
        Afterstates `uint8[B, 4, rows, cols]`, rewards `[B, 4]` and legal moves `bool[B, 4]`.
        An illegal move leaves the board as it is, with reward 0.
    """
    cells = np.empty((4 * len(games), 2), np.uint64)
    rewards = np.empty((len(games), 4))
    _slide_all(games, table(rows, cols), rows, cols, cells, rewards)
    boards = cells.view(np.uint8).reshape(-1, 4, 4, 4)[:, :, :rows, :cols]
    return np.ascontiguousarray(boards), rewards, masks(games).astype(np.bool_)


@njit("void(uint8[:, :, ::1], float32[:, :, :, ::1])", cache=True)
def _one_hot(boards: Cells, planes: npt.NDArray[np.float32]) -> None:
    """Set the plane of each cell's exponent: see `one_hot`."""
    for i in range(boards.shape[0]):
        for row in range(boards.shape[1]):
            for col in range(boards.shape[2]):
                planes[i, boards[i, row, col], row, col] = 1.0


def one_hot(boards: Cells) -> npt.NDArray[np.float32]:
    """Return boards `uint8[B, rows, cols]` as planes `float32[B, 18, rows, cols]`."""
    planes = np.zeros((len(boards), MAX_EXPONENT + 1, *boards.shape[1:]), np.float32)
    _one_hot(boards, planes)
    return planes


def outcomes(after: Cells) -> tuple[Cells, npt.NDArray[np.float64]]:
    """Return the possible boards after an afterstate of exponents `[rows, cols]`.

    Returns:
        Boards `uint8[n, rows, cols]`, each empty cell with a 2 and then with a 4, and their
        probabilities `[n]`. A full board stays as it is.
    """
    empty = np.argwhere(after == 0).repeat(2, axis=0)
    if len(empty) == 0:
        return after[None].copy(), np.ones(1)
    boards = np.repeat(after[None], len(empty), axis=0)
    n_cells = len(empty) // 2
    boards[np.arange(len(empty)), empty[:, 0], empty[:, 1]] = np.tile([1, 2], n_cells)
    return boards, np.tile([0.9, 0.1], n_cells) / n_cells


def put(games: Words, cells: Cells) -> None:
    """Start every game of `uint64[B, 8]` from its board of exponents `uint8[B, rows, cols]`."""
    _, rows, cols = cells.shape
    padded = np.zeros((len(games), 4, 4), np.uint8)
    padded[:, :rows, :cols] = cells
    games[:, SCORE] = games[:, REWARD] = 0
    for i in range(len(games)):
        for at in (BOARD, AFTER):
            _pack(padded[i].reshape(16), games, i, at)
        look(games, i, rows, cols)
