"""Slow oracle of the rules of 2048, with lists and loops, written from the text of the rules.

A board is a list of rows of exponents, as large as the game. Tiles have no upper bound; a test
that compares with a bounded form of a board states it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

Board = list[list[int]]

UP, RIGHT, DOWN, LEFT = 0, 1, 2, 3


@cache  # a million moves slide the same rows again and again
def slide(row: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Slide a row to the left; return the row and the sum of the newly made tiles."""
    waiting = [tile for tile in row if tile != 0]
    slid: list[int] = []
    reward = 0
    while waiting:
        tile = waiting.pop(0)
        if waiting and waiting[0] == tile:
            waiting.pop(0)
            tile += 1
            reward += 2**tile
        slid.append(tile)
    while len(slid) < len(row):
        slid.append(0)
    return tuple(slid), reward


def transpose(board: Board) -> Board:
    """The columns of a board as rows."""
    return [[row[col] for row in board] for col in range(len(board[0]))]


def mirror(board: Board) -> Board:
    """Every row reversed."""
    return [row[::-1] for row in board]


def flip(board: Board) -> Board:
    """The order of the rows reversed."""
    return board[::-1]


def move(board: Board, action: int) -> tuple[Board, int]:
    """The board after a move, and the reward."""
    lines = transpose(board) if action in (UP, DOWN) else board
    if action in (RIGHT, DOWN):
        lines = mirror(lines)
    after: Board = []
    total = 0
    for line in lines:
        slid, reward = slide(tuple(line))
        after.append(list(slid))
        total += reward
    if action in (RIGHT, DOWN):
        after = mirror(after)
    return transpose(after) if action in (UP, DOWN) else after, total


def legal_moves(board: Board) -> list[int]:
    """The actions that change the board."""
    return [action for action in (UP, RIGHT, DOWN, LEFT) if move(board, action)[0] != board]


def is_over(board: Board) -> bool:
    """Return True if no action changes the board."""
    return not legal_moves(board)


def empty_cells(board: Board) -> list[tuple[int, int]]:
    """Row and column of the empty cells, row by row."""
    return [(r, c) for r, row in enumerate(board) for c, tile in enumerate(row) if tile == 0]


def with_tile(board: Board, row: int, col: int, tile: int) -> Board:
    """A copy of a board with one more tile."""
    copy = [list(line) for line in board]
    copy[row][col] = tile
    return copy


def spawn_outcomes(after: Board) -> list[tuple[Board, float]]:
    """Every board that chance can make of an afterstate, with its probability."""
    empty = empty_cells(after)
    outcomes = []
    for row, col in empty:
        outcomes.append((with_tile(after, row, col, 1), 0.9 / len(empty)))
        outcomes.append((with_tile(after, row, col, 2), 0.1 / len(empty)))
    return outcomes


def perft(board: Board, depth: int) -> int:
    """The leaves at a depth, where a ply is a legal move and then any tile in any empty cell."""
    if depth == 0:
        return 1
    leaves = 0
    for action in legal_moves(board):
        for outcome, _ in spawn_outcomes(move(board, action)[0]):
            leaves += perft(outcome, depth - 1)
    return leaves


def splitmix64(state: int) -> tuple[int, int]:
    """The next state and 64 bits, after the C program of Steele, Lea and Flood 2014."""
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    bits = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % 2**64
    return state, bits ^ (bits >> 31)


def spawn(board: Board, state: int) -> tuple[Board, int]:
    """Add a tile: the high 32 bits choose the empty cell, the low 32 bits a 4 in one of ten."""
    state, bits = splitmix64(state)
    high, low = bits // 2**32, bits % 2**32
    empty = empty_cells(board)
    if not empty:
        return board, state
    row, col = empty[high * len(empty) // 2**32]
    return with_tile(board, row, col, 2 if low < 429_496_730 else 1), state


def start(rows: int, cols: int, n_tiles: int, state: int) -> tuple[Board, int]:
    """An empty board to which tiles are added."""
    board = [[0] * cols for _ in range(rows)]
    for _ in range(n_tiles):
        board, state = spawn(board, state)
    return board, state


def downgrade(board: Board) -> Board:
    """Halve the tiles above the largest missing value until none is above 32768 (Guei 2021).

    Without a missing value nothing can be halved, and tiles above 32768 become 32768.
    """
    largest = max(max(row) for row in board)
    if largest <= 15:
        return board
    held = {tile for row in board for tile in row}
    missing = [tile for tile in range(1, largest) if tile not in held]
    if not missing:
        return [[min(tile, 15) for tile in row] for row in board]
    return downgrade([[t - 1 if t > missing[-1] else t for t in row] for row in board])


@cache
def _row_word(row: tuple[int, ...]) -> int:
    return sum(min(tile, 15) * 16**col for col, tile in enumerate(row))


def to_word(board: Sequence[Sequence[int]]) -> int:
    """The board word: cell (r, c) is hexadecimal digit 4r + c from the right, which ends at 15."""
    return sum(_row_word(tuple(row)) * 65_536**r for r, row in enumerate(board))


def from_word(word: int, rows: int, cols: int) -> Board:
    """The board of a word."""
    return [[word // 16 ** (4 * r + c) % 16 for c in range(cols)] for r in range(rows)]
