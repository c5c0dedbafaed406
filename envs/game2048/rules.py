"""The rules of 2048 on board words, compiled by numba.

A *board* is a `uint64` of 16 nibbles, each the exponent of a tile (0 = empty, 11 = the 2048 tile).
Cell 0 is the top left cell and the lowest nibble; cells go row by row:

     0  1  2  3        board = sum(exponent[cell] << 4 * cell)
     4  5  6  7
     8  9 10 11        A smaller board lies in the top left corner of the same 16 cells.
    12 13 14 15

A move slides and merges tiles (the *afterstate*), then chance adds a tile. Functions here use no
API, file or clock, and randomness is an argument. Kernels take the table of `table(rows, cols)`, so
that every board size up to 4x4 runs the same code.

A nibble holds exponents up to 15: in a board word, two 32768 tiles merge into one tile that still
reads 32768, with the true reward. Exact play up to 131072 is in `games.py`.

Every word is a board on 16 cells, so kernels check nothing; `check_words` finds words with tiles
outside of a smaller board.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from afterstate.envs.checks import as_array, as_int, check_text
from afterstate.envs.messages import shown
from afterstate.envs.words import Word, Words, below, next_random

UP, RIGHT, DOWN, LEFT = 0, 1, 2, 3
"""The actions."""
MAX_EXPONENT = 17
"""Exponent of 131072, the largest tile that a game on 16 cells can reach."""
P_TWO, P_FOUR = 0.9, 0.1
"""The probabilities that a new tile is a 2 or a 4."""

Cells = npt.NDArray[np.uint8]


def _word(number: int) -> Word:
    """Return a constant for kernels; numba would treat a plain number as signed."""
    return np.uint64(number)


LOW_BITS = _word(0x1111_1111_1111_1111)
"""The lowest bit of every cell."""
FOUR_HALF_WORDS = _word(429_496_730)
"""The number of half words that make a 4, the lowest ones: `P_FOUR` of 2**32."""

_ROW = _word(0xFFFF)
_0, _1, _2, _4, _8 = (_word(n) for n in (0, 1, 2, 4, 8))
_12, _16, _24, _32 = (_word(n) for n in (12, 16, 24, 32))


@njit("int64(uint8[::1], int64)", cache=True)
def slide(line: Cells, top: int) -> int:
    """Slide one line of exponents toward its first cell, in place; return the reward.

    Equal neighbors merge, those at the far end first, and a merged tile does not merge again in
    the same move. Two tiles of exponent `top` merge into one of exponent `top`.
    """
    placed, reward = 0, 0
    mergeable = False
    for i in range(line.size):
        tile = line[i]
        if tile == 0:
            continue
        line[i] = 0
        if mergeable and line[placed - 1] == tile:
            line[placed - 1] = min(tile + 1, top)
            reward += 2 << int(tile)
            mergeable = False
        else:
            line[placed] = tile
            placed += 1
            mergeable = True
    return reward


@njit("void(uint64[::1], int64)", cache=True)
def _fill(entries: Words, width: int) -> None:
    """Fill the table of one line width: see `table`."""
    line = np.zeros(4, np.uint8)
    for row in range(1 << 4 * width):
        entry = _0
        for side in range(2):
            for i in range(width):
                j = i if side == 0 else width - 1 - i
                line[i] = row >> 4 * j & 15
            reward = slide(line[:width], 15)
            for i in range(width):
                j = i if side == 0 else width - 1 - i
                entry |= np.uint64(line[i]) << np.uint64(16 * side + 4 * j)
        entries[row] = entry | np.uint64(reward) << _32


def table(rows: int = 4, cols: int = 4) -> Words:
    """Return the move table of a board size, which is cached and shared: do not write to it.

    An entry belongs to a row of four nibbles: bits 0-15 are the row slid toward its first cell,
    bits 16-31 the row slid toward its last cell, bits 32-63 the reward (the same for both).
    The first 65,536 entries slide rows, the last 65,536 columns; on square boards they are one.

    Raises:
        ValueError: a side is not in 1..4, or the board has a single cell.
    """
    return _table(*check_size(rows, cols))


@cache
def _table(rows: int, cols: int) -> Words:
    """Return the move table of a board size, without a check of the size."""
    widths = (cols,) if rows == cols else (cols, rows)
    entries = np.zeros(65_536 * len(widths), np.uint64)
    for i, width in enumerate(widths):
        _fill(entries[65_536 * i : 65_536 * (i + 1)], width)
    return entries


@njit("uint64(int64, int64)", cache=True)
def field(rows: int, cols: int) -> Word:
    """Return the cells of a board size, as a word with the lowest bit of each cell's nibble set.

    >>> hex(field(2, 3))
    '0x1110111'
    """
    row = np.uint64(0x1111) >> np.uint64(16 - 4 * cols)
    rows_below = np.uint64(0xFFFF_FFFF_FFFF_FFFF) >> np.uint64(64 - 16 * rows)
    return row * np.uint64(0x0001_0001_0001_0001) & rows_below


def check_size(rows: Any, cols: Any) -> tuple[int, int]:
    """Return rows and columns as ints.

    Raises:
        ValueError: not integers in 1..4, or a single cell.
    """
    sides = as_int(rows), as_int(cols)
    if not all(side is not None and 1 <= side <= 4 for side in sides) or sides == (1, 1):
        expected = "1 to 4 rows and columns of a board, at least two cells"
        raise ValueError(f"size must be {expected}, got {shown((rows, cols))}")
    return int(rows), int(cols)


def size_of(size: Any) -> tuple[int, int]:
    """Return rows and columns of a pair as ints.

    Raises:
        ValueError: not a tuple or list of two integers in 1..4, or a single cell.
    """
    if not isinstance(size, (tuple, list)) or len(size) != 2:
        raise ValueError(f"size must be [rows, cols], got {shown(size)}")
    return check_size(*size)


@njit("uint64(uint64)", cache=True)
def transpose(board: Word) -> Word:
    """Swap rows and columns: cells (0,1) and (1,0) of every 2x2 block, then the blocks."""
    board = np.uint64(board)
    swap = (board ^ (board >> _12)) & np.uint64(0x0000_F0F0_0000_F0F0)
    board ^= swap ^ (swap << _12)
    swap = (board ^ (board >> _24)) & np.uint64(0x0000_0000_FF00_FF00)
    return board ^ swap ^ (swap << _24)


@njit("uint64(uint64, int64)", cache=True)
def mirror(board: Word, cols: int) -> Word:
    """Reverse every row of a board with `cols` columns."""
    board = np.uint64(board)
    nibbles, pairs = np.uint64(0x0F0F_0F0F_0F0F_0F0F), np.uint64(0x00FF_00FF_00FF_00FF)
    board = (board & nibbles) << _4 | (board >> _4) & nibbles
    board = (board & pairs) << _8 | (board >> _8) & pairs
    return board >> np.uint64(4 * (4 - cols))


@njit("uint64(uint64, int64)", cache=True)
def flip(board: Word, rows: int) -> Word:
    """Reverse the order of the rows of a board with `rows` rows."""
    board = np.uint64(board)
    halves = np.uint64(0x0000_FFFF_0000_FFFF)
    board = board << _32 | board >> _32
    board = (board & halves) << _16 | (board >> _16) & halves
    return board >> np.uint64(16 * (4 - rows))


@njit("UniTuple(uint64, 8)(uint64, int64, int64)", cache=True)
def symmetries(board: Word, rows: int, cols: int) -> tuple[Word, ...]:
    """Return the board, its mirror, flip and half turn, then the transposes of these four.

    The first four have the board's size. The last four have `cols` rows and `rows` columns, so all
    eight are boards of one game when the board is square.
    """
    mirrored = mirror(board, cols)
    flipped = flip(board, rows)
    turned = flip(mirrored, rows)
    return (
        board,
        mirrored,
        flipped,
        turned,
        transpose(board),
        transpose(mirrored),
        transpose(flipped),
        transpose(turned),
    )


@njit("uint64(uint64, int64, int64, int64)", cache=True)
def canonical(board: Word, rows: int, cols: int, n: int) -> Word:
    """Return the least word among the first `n` of the board's symmetries."""
    boards = symmetries(board, rows, cols)
    least = boards[0]
    for i in range(1, 8):
        if i < n:
            least = min(least, boards[i])
    return least


@njit("uint64(uint64)", cache=True)
def occupied(board: Word) -> Word:
    """Return the lowest bit of the nibble of every cell that holds a tile."""
    board = np.uint64(board)
    board |= board >> _2
    return (board | board >> _1) & LOW_BITS


@njit("int64(uint64)", cache=True)
def count_cells(bits: Word) -> int:
    """Return the number of cells (up to 15) of a word that has only lowest bits of cells."""
    return int(np.uint64(bits) * LOW_BITS >> np.uint64(60))


@njit("uint64(uint64)", cache=True, forceinline=True)
def lowest_cell(cells: Word) -> Word:
    """Return the lowest one of a word that has only lowest bits of cells, 0 if it has none.

    >>> hex(lowest_cell(0x1010))
    '0x10'
    """
    cells = np.uint64(cells)
    return cells & (~cells + _1)


@njit("int64(uint64)", cache=True)
def largest(board: Word) -> int:
    """Return the largest exponent on a board.

    It is found bit by bit, among the cells that have all bits so far.

    >>> largest(from_text("2 1024 _ 8"))
    10
    """
    board = np.uint64(board)
    exponent, candidates = 0, LOW_BITS
    for bit in range(3, -1, -1):
        with_bit = board >> np.uint64(bit) & candidates
        if with_bit != 0:
            candidates = with_bit
            exponent |= 1 << bit
    return exponent


@njit("uint64(uint64, int64)", cache=True)
def downgrade(board: Word, top: int) -> Word:
    """Halve all tiles above the largest missing value until every exponent is below `top`.

    This keeps the order of the tiles (Guei, Chen and Wu 2021). A board with all values up to
    its largest stays unchanged.

    >>> to_text(downgrade(from_text("32768 16384 4 2"), 15), 1, 4)
    '16384 8192 4 2'
    """
    board = np.uint64(board)
    highest = largest(board)
    while highest >= top:
        seen = 0
        for cell in range(16):
            seen |= 1 << int(np.int64(board >> np.uint64(4 * cell) & np.uint64(15)))
        missing = highest - 1
        while missing > 0 and seen >> missing & 1:
            missing -= 1
        if missing == 0:
            break
        for cell in range(16):
            shift = np.uint64(4 * cell)
            if np.int64(board >> shift & np.uint64(15)) > missing:
                board -= _1 << shift
        highest -= 1
    return board


@njit("Tuple((uint64, int64))(uint64, int64, uint64[::1])", cache=True)
def move(board: Word, action: int, move_table: Words) -> tuple[Word, int]:
    """Return the afterstate of a move and its reward; for an illegal move the board and 0.

    >>> after, reward = move(from_text("2 2 2 _"), RIGHT, table(1, 4))
    >>> to_text(after, 1, 4), reward
    ('_ _ 2 4', 4)
    """
    board = np.uint64(board)
    vertical = ~action & 1  # no branches: actions are too random for branch prediction
    first = np.uint64(vertical * (move_table.size - 65_536))
    side = np.uint64((action ^ action >> 1) & 1) << _4
    turn = _0 - np.uint64(vertical)
    lines = board ^ ((board ^ transpose(board)) & turn)
    after, reward = _0, _0
    for i in range(4):
        shift = np.uint64(16 * i)
        entry = move_table[first + (lines >> shift & _ROW)]
        after |= (entry >> side & _ROW) << shift
        reward += entry >> _32
    return after ^ ((after ^ transpose(after)) & turn), int(reward)


@njit("Tuple((uint64, uint64, int64))(uint64, uint64[::1], uint64)", cache=True)
def _both_ways(lines: Word, move_table: Words, first: Word) -> tuple[Word, Word, int]:
    """Slide all four rows of `lines` both ways by the entries from `first` on."""
    lines, first = np.uint64(lines), np.uint64(first)  # numba tests signed indices for a sign
    toward_first, toward_last, reward = _0, _0, _0
    for i in range(4):
        shift = np.uint64(16 * i)
        entry = move_table[first + (lines >> shift & _ROW)]
        toward_first |= (entry & _ROW) << shift
        toward_last |= (entry >> _16 & _ROW) << shift
        reward += entry >> _32
    return toward_first, toward_last, int(reward)


@njit("Tuple((UniTuple(uint64, 4), UniTuple(int64, 4)))(uint64, uint64[::1])", cache=True)
def afterstates(board: Word, move_table: Words) -> tuple[tuple[Word, ...], tuple[int, ...]]:
    """Return the afterstates of up, right, down and left, and their rewards.

    A move is illegal exactly if its afterstate equals the board.
    """
    left, right, horizontal = _both_ways(board, move_table, _0)
    columns = np.uint64(move_table.size - 65_536)
    up, down, vertical = _both_ways(transpose(board), move_table, columns)
    boards = (transpose(up), right, transpose(down), left)
    return boards, (vertical, horizontal, vertical, horizontal)


@njit("int64(uint64, uint64, uint64)", cache=True)
def legal_beyond(board: Word, excess: Word, board_field: Word) -> int:
    """Return the legal moves of a board whose exponents above 15 are split over two words.

    The nibbles of `board` stop at 15 and those of `excess` hold the rest: see `legal`.
    """
    board, excess, board_field = np.uint64(board), np.uint64(excess), np.uint64(board_field)
    tiles = occupied(board)
    side_by_side = board_field & board_field >> _4 & np.uint64(0x0111_0111_0111_0111)
    one_above_other = board_field & board_field >> _16
    differ = occupied(board ^ board >> _4 | excess ^ excess >> _4)
    equal = tiles & ~differ & side_by_side
    right = equal | (tiles & ~(tiles >> _4) & side_by_side)
    left = equal | (~tiles & (tiles >> _4) & side_by_side)
    differ = occupied(board ^ board >> _16 | excess ^ excess >> _16)
    equal = tiles & ~differ & one_above_other
    down = equal | (tiles & ~(tiles >> _16) & one_above_other)
    up = equal | (~tiles & (tiles >> _16) & one_above_other)
    vertical = int(up != 0) | int(down != 0) << 2
    return vertical | int(right != 0) << 1 | int(left != 0) << 3


@njit("int64(uint64, uint64)", cache=True)
def legal(board: Word, board_field: Word) -> int:
    """Return the legal moves as four bits: bit `a` is set if action `a` changes the board.

    A line moves toward its first cell if some tile has a gap before it, toward its last cell if
    some tile has a gap after it, and both ways if two neighbors are equal.
    """
    return legal_beyond(board, _0, board_field)


@njit("boolean(uint64, uint64)", cache=True)
def is_over(board: Word, board_field: Word) -> bool:
    """Return True if no move is legal."""
    return legal(board, board_field) == 0


@njit("UniTuple(uint64, 2)(uint64, uint64)", cache=True)
def spawn_cell(empty: Word, rng: Word) -> tuple[Word, Word]:
    """Draw a tile for one of the cells of `empty`; return it in its nibble, and the advanced `rng`.

    The high half of the random bits picks the cell, uniform within 2**-28; the low half makes a 2
    with probability 0.9 or a 4. The k-th empty cell is where the running count of empty cells,
    a prefix sum by one multiplication, is k (mod 16). Without an empty cell the tile is 0.
    """
    empty = np.uint64(empty)
    rng, bits = next_random(rng)
    pairs = (empty + (empty >> _4)) & np.uint64(0x0F0F_0F0F_0F0F_0F0F)
    n_empty = pairs * np.uint64(0x0101_0101_0101_0101) >> np.uint64(56)
    k = below(bits, n_empty) + _1 & np.uint64(15)
    other = (empty * LOW_BITS) ^ (k * LOW_BITS)
    cell = empty & ~occupied(other)
    tile = _2 if bits & np.uint64(0xFFFF_FFFF) < FOUR_HALF_WORDS else _1
    return cell * tile, rng


@njit("UniTuple(uint64, 2)(uint64, uint64, uint64)", cache=True)
def spawn(board: Word, rng: Word, board_field: Word) -> tuple[Word, Word]:
    """Add a tile to an empty cell of `board_field`; return the board and the advanced state.

    A 2 comes with probability 0.9, a 4 with 0.1; every empty cell is equally likely. A full board
    is returned unchanged.
    """
    board = np.uint64(board)
    tile, rng = spawn_cell(np.uint64(board_field) & ~occupied(board), rng)
    return board | tile, rng


@njit(cache=True)
def _missing(exponents: Cells) -> int:
    """Return the largest exponent below the board's largest that no cell holds, or 0."""
    seen = 0
    for row in exponents:
        for exponent in row:
            seen |= 1 << exponent
    missing = 0
    for exponent in range(1, MAX_EXPONENT):
        if not seen >> exponent & 1 and seen >> exponent:
            missing = exponent
    return missing


@njit(cache=True)
def _pack(boards: Cells, packed: Words) -> None:
    """Pack boards into words; downgrade those with an exponent above 15. Changes `boards`."""
    for i in range(len(packed)):
        word, fits = _0, False
        while not fits:
            word, fits = _0, True
            missing = _missing(boards[i])
            for row in range(boards.shape[1]):
                for col in range(boards.shape[2]):
                    exponent = boards[i, row, col]
                    fits = fits and (exponent <= 15 or missing == 0)
                    word |= np.uint64(min(exponent, 15)) << np.uint64(4 * (4 * row + col))
                    boards[i, row, col] -= np.uint8(missing > 0 and exponent > missing)
        packed[i] = word


def words(exponents: Any) -> Words:
    """Return the board words of exponents: `[..., rows, cols]` to `uint64[...]`.

    A board with a tile above 32768 does not fit and is *downgraded* (Guei, Chen and Wu 2021): all
    tiles above the largest value that is missing on the board are halved, which keeps their order.

    >>> hex(words([[1, 2], [0, 11]]))
    '0xb00021'
    >>> cells(words([[17, 16], [3, 1]]), 2, 2).tolist()
    [[15, 14], [3, 1]]

    Raises:
        ValueError: not exponents in 0..17 on at most 4x4 cells.
    """
    boards = check_cells(exponents)
    shape = boards.shape
    result: Words = np.empty(shape[:-2], np.uint64)
    _pack(boards.reshape(-1, *shape[-2:]).copy(), result.reshape(-1))
    return result if result.ndim else result[()]


def cells(boards: Any, rows: int = 4, cols: int = 4) -> Cells:
    """Return the exponents of board words: `uint64[...]` to `uint8[..., rows, cols]`.

    Raises:
        ValueError: not words, a wrong size, or a tile outside the board's `rows` and `cols`.
    """
    array = check_words(boards, rows, cols)
    shifts = np.arange(0, 64, 4, dtype=np.uint64).reshape(4, 4)[:rows, :cols]
    return (array[..., None, None] >> shifts & np.uint64(15)).astype(np.uint8)


def check_words(boards: Any, rows: int, cols: int) -> Words:
    """Return board words as `uint64[...]`, a copy of a read-only array, which kernels do not take.

    Raises:
        ValueError: not integers of 64 bits, a wrong size, a tile outside the board, or exponents,
            which `words` converts to a board word.
    """
    rows, cols = check_size(rows, cols)
    array = boards if isinstance(boards, np.ndarray) else as_array(boards, object)
    if array.dtype == object:
        numbers = [as_int(word) for word in array.ravel()]  # numpy would make floats of large ones
        fits = all(number is not None and 0 <= number < 1 << 64 for number in numbers)
    else:
        is_wide = array.dtype.kind in "iu" and array.dtype.itemsize == 8
        fits = is_wide and not (array.dtype.kind == "i" and (array < 0).any())
    if not fits:
        raise ValueError(
            f"boards must be board words, integers in 0..2**64 - 1, got {shown(boards)}"
        )
    array = np.require(array, np.uint64, ["C", "W"])
    if array.shape[-2:] == (rows, cols) and array.any() and (array <= MAX_EXPONENT).all():
        raise ValueError("boards must be board words, got exponents: see `rules.words`")
    if (array & np.uint64(~(15 * field(rows, cols)) & (1 << 64) - 1)).any():
        raise ValueError(f"a board must have no tiles outside its {rows} rows and {cols} columns")
    return array


def check_tile(name: str, tile: Any, most: int = 1 << MAX_EXPONENT) -> int:
    """Return the tile that an argument names, one that moves make.

    Raises:
        ValueError: it is not a tile from 4 to the largest that is allowed.
    """
    number = as_int(tile) or 0
    if not 4 <= number <= most or number & (number - 1):
        raise ValueError(f"{name} must be a power of two from 4 to {most}, got {shown(tile)}")
    return number


def check_word(board: Any, rows: int, cols: int) -> np.uint64:
    """Return one board word; raise ValueError if it is none: see `check_words`."""
    array = check_words(board, rows, cols)
    if array.ndim:
        raise ValueError(f"board must be one word, got shape {array.shape}")
    return np.uint64(array)


def check_cells(exponents: Any) -> Cells:
    """Return exponents as a contiguous `uint8[..., rows, cols]`.

    Raises:
        ValueError: not integers in 0..17, or not boards of at most 4x4 cells.
    """
    array = as_array(exponents)
    if array.ndim < 2:
        expected = "exponents [rows, cols] in rows of equal length"
        raise ValueError(f"a board must be {expected}, got {shown(exponents)}")
    check_size(*array.shape[-2:])
    if array.dtype.kind not in "iu":
        raise ValueError(f"exponents must be integers (0 = empty, 11 = 2048), got {array.dtype}")
    if array.size and not (0 <= array.min() and array.max() <= MAX_EXPONENT):
        raise ValueError(
            f"exponents must be in 0 (empty)..{MAX_EXPONENT} (131072), "
            f"got {array.min()} to {array.max()}"
        )
    return np.ascontiguousarray(array, np.uint8)


def from_text(text: str) -> int:
    """Return the board word of a text: rows end at `/` or a line break; `_`, `.` or 0 is empty.

    >>> hex(from_text("2 4 _ _ / 1024 . . 2"))
    '0x100a0021'

    Raises:
        ValueError: no text, rows of different lengths, a wrong size, or not a tile of 2 to 32768.
    """
    check_text("board", text)
    lines = [line.split() for line in text.strip().replace("\n", "/").split("/")]
    if not lines[0] or len({len(line) for line in lines}) > 1:
        raise ValueError(f"a board must have rows of equal length, got {shown(text)}")
    exponents = [[_exponent(tile) for tile in line] for line in lines]
    return int(words(exponents))


_TILES = ("_", *(str(1 << exponent) for exponent in range(1, 16)))


def _exponent(tile: str) -> int:
    """Return the exponent of one tile of a text."""
    if tile in ("_", ".", "0"):
        return 0
    if tile not in _TILES:
        raise ValueError(f"a tile must be _ or a power of two from 2 to 32768, got {shown(tile)}")
    return _TILES.index(tile)


def to_text(board: Word, rows: int = 4, cols: int = 4) -> str:
    """Return the tiles of a board word in rows, as `from_text` reads them.

    >>> to_text(from_text("2 _ / 4 2048"), 2, 2)
    '2 _ / 4 2048'

    Raises:
        ValueError: not one board word, a wrong size, or a tile outside the board.
    """
    exponents = cells(board, rows, cols)
    if exponents.ndim != 2:
        raise ValueError(f"board must be one board word, got {shown(board)}")
    tiles = [[str(1 << e) if e else "_" for e in row] for row in exponents.tolist()]
    return " / ".join(" ".join(row) for row in tiles)
