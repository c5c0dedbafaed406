"""The 2,422 plays of Daihinmin and the search for the legal ones.

A *play* is a number. The card that the joker stands for is part of it, as in the rules: `S8 JO=H8`
and `S8 JO=D8` are two plays, since the lock compares suits.

    0             pass
    1 - 53        one card: 1 + the number of its bit, so 53 is the lone joker
    54 - 573      groups: 40 a rank, 11 without the joker and 29 with it
    574 - 825     sequences: by size 3 to 11, then by first card
    826 - 2421    sequences with the joker: by size, the joker's place in it, then by first cell

Every play has a row in the tables below. `follows` compares the row of a play with that of the play
on the field; `write_plays` finds all plays of a hand by masks on the hand's word.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import numpy.typing as npt
from numba import njit

from afterstate.envs.checks import as_int, check_text
from afterstate.envs.daihinmin.cards import JOKER, NATURALS, RANKS, SUITS, check_card, lowest
from afterstate.envs.messages import shown
from afterstate.envs.words import Word

PASS, LONE_JOKER = 0, 53
"""Numbers of the pass and of the lone joker."""
NO_PLAY, SINGLE, GROUP, SEQUENCE, JOKER_SINGLE = range(5)
"""Kinds of plays. Kind 0 is the pass."""
MAX_SIZE = 11
"""Cards in the largest play, as in the largest hand."""

_FIRST_GROUP, _FIRST_SEQUENCE = 54, 574
_COLUMNS = np.uint64(0x0FFF_FFFF_FFFF_FFFF)  # 15 columns of 4 suits, column 0 lowest
SPADES = np.uint64(0x0111_1111_1111_1111)
"""The spades of all 15 columns, where cells are bits 4 * column + row; times 15 all four suits."""

Cell = tuple[int, int]
"""Row and column of a card on the table. Row 4 is for a joker added to four of a rank."""
Numbers = npt.NDArray[np.int64]


def _groups(column: int) -> Iterator[tuple[list[Cell], Cell | None]]:
    """Yield the 40 groups of a rank: natural cells, and the joker's cell."""
    for size in range(2, 5):
        for rows in combinations(range(4), size):
            yield [(row, column) for row in rows], None
    for size in range(1, 4):
        for rows in combinations(range(4), size):
            for joker in sorted({0, 1, 2, 3} - set(rows)):
                yield [(row, column) for row in rows], (joker, column)
    yield [(row, column) for row in range(4)], (4, column)


def _sequences(size: int) -> Iterator[tuple[list[Cell], Cell | None]]:
    """Yield the sequences of one size without the joker."""
    for first in range(1, 15 - size):
        for row in range(4):
            yield [(row, first + i) for i in range(size)], None


def _joker_sequences(size: int) -> Iterator[tuple[list[Cell], Cell | None]]:
    """Yield the sequences of one size with the joker; only it may stand in column 0 or 14."""
    for place in range(size):
        for first in range(place > 0, 15 - size + (place == size - 1)):
            for row in range(4):
                cells = [(row, first + i) for i in range(size)]
                joker = cells.pop(place)
                yield cells, joker


def _all_plays() -> Iterator[tuple[int, list[Cell], Cell | None]]:
    """Yield kind, natural cells and the joker's cell of every play, in the order of numbers."""
    yield NO_PLAY, [], None
    for card in range(JOKER):
        yield SINGLE, [(card % 4, card // 4 + 1)], None
    yield JOKER_SINGLE, [], (0, 14)
    for column in range(1, 14):
        for cells, joker in _groups(column):
            yield GROUP, cells, joker
    for makers in (_sequences, _joker_sequences):
        for size in range(3, MAX_SIZE + 1):
            for cells, joker in makers(size):
                yield SEQUENCE, cells, joker


_PLAYS = list(_all_plays())
_CELLS = [naturals + ([joker] if joker else []) for _, naturals, joker in _PLAYS]
N_PLAYS = len(_PLAYS)
"""The number of plays, 2,422."""

KIND = np.array([kind for kind, _, _ in _PLAYS], np.int8)
"""Kind of a play."""
SIZE = np.array([len(cells) for cells in _CELLS], np.int8)
"""Number of cards of a play."""
CARDS = np.array(
    [
        sum(1 << 4 * (column - 1) + row for row, column in naturals) | (joker is not None) << JOKER
        for _, naturals, joker in _PLAYS
    ],
    np.uint64,
)
"""The card set that a play takes from the hand."""
ROWS = np.array([sum({1 << row for row, _ in cells}) for cells in _CELLS], np.int8)
"""The suits of a play as bits of rows, including the joker's; the lock compares them. Bit 4 is a
joker added to four of a rank."""
LOW = np.array([min([column for _, column in cells], default=0) for cells in _CELLS], np.int8)
"""The lowest column of a play."""
HIGH = np.array([max([column for _, column in cells], default=0) for cells in _CELLS], np.int8)
"""The highest column of a play."""
JOKER_CELL = np.array([15 * j[0] + j[1] if j else -1 for _, _, j in _PLAYS], np.int8)
"""15 * row + column of the joker's cell, or -1. (A lone joker may lie anywhere.)"""
REVOLVES = (KIND == GROUP) & (SIZE >= 4) | (KIND == SEQUENCE) & (SIZE >= 5)
"""True for plays that reverse the order of the ranks."""
CUTS_AS_8 = (KIND != JOKER_SINGLE) & (LOW <= 6) & (HIGH >= 6)
"""True for plays with an 8 (the joker may stand for it), which end the trick."""


def cells(play: int) -> tuple[list[Cell], Cell | None]:
    """Return the cells of a play on the table: those of its natural cards, and its joker's.

    >>> cells(parse("S3 JO=H3"))
    ([(0, 1)], (1, 1))

    Raises:
        ValueError: it is not the number of a play.
    """
    _check(play)
    _, naturals, joker = _PLAYS[play]
    return list(naturals), joker


def _play_text(play: int) -> str:
    """Return a play in the notation of recorded games."""
    kind, naturals, joker = _PLAYS[play]
    if kind == NO_PLAY:
        return "pass"
    if kind == JOKER_SINGLE:
        return "JO"
    names = {(column, row): SUITS[row] + RANKS[column] for row, column in naturals}
    if joker is not None:
        row, column = joker
        names[column, row] = "JO=" + (SUITS + "X")[row] + RANKS[column]
    return " ".join(names[cell] for cell in sorted(names))


_TEXTS = [_play_text(play) for play in range(N_PLAYS)]
_NUMBERS = {frozenset(play.split()): number for number, play in enumerate(_TEXTS)}


def text(play: int) -> str:
    """Return a play in the notation of recorded games: its cells by column, then suit.

    `JO=H8` is the joker standing for the 8 of hearts, `JO=S-` and `JO=S+` the joker below the 3 and
    above the 2 of spades, `JO=X8` the joker added to four 8s, `JO` the lone joker.

    >>> text(54), text(826), text(2421)
    ('S3 H3', 'JO=S- S3 S4', 'C6 C7 C8 C9 CT CJ CQ CK CA C2 JO=C+')

    Raises:
        ValueError: it is not the number of a play.
    """
    _check(play)
    return _TEXTS[play]


def _check(play: int) -> None:
    """Raise ValueError unless it is the number of a play."""
    if as_int(play) not in range(N_PLAYS):
        raise ValueError(f"play must be an integer in 0..{N_PLAYS - 1}, got {shown(play)}")


def parse(text: str) -> int:
    """Return the number of a play.

    >>> parse("pass"), parse("S3"), parse("JO"), parse("H3 S3")
    (0, 1, 53, 54)

    Raises:
        ValueError: not a play.
    """
    check_text("play", text)
    names = text.split()
    play = _NUMBERS.get(frozenset(names))
    if play is None or len(names) != len(set(names)):
        raise ValueError(
            "a play must be 'pass', a card, a group like 'S8 JO=H8' "
            f"or a sequence like 'S3 S4 S5', got {shown(text)}"
        )
    return play


def single(card: int) -> int:
    """Return the play of one card, which is also the action that gives the card away.

    >>> text(single(0))
    'S3'

    Raises:
        ValueError: not the number of a card.
    """
    return 1 + check_card(card)


def _group_masks() -> tuple[npt.NDArray[np.uint64], ...]:
    """Return masks of the 40 groups of a rank.

    Returns:
        Groups of a hand, by joker and suits held `[2, 16]`; groups of a size, 0 for any `[6]`;
        groups that show some suits, 32 for any `[33]`.
    """
    held = np.zeros((2, 16), np.uint64)
    sized = np.zeros(6, np.uint64)
    shown = np.zeros(33, np.uint64)
    for i, (naturals, joker) in enumerate(_groups(1)):
        bit = np.uint64(1 << i)
        need = sum(1 << row for row, _ in naturals)
        for suits in range(16):
            if need & ~suits == 0:
                held[1, suits] |= bit
                held[0, suits] |= bit * np.uint64(joker is None)
        rows = need | (1 << joker[0] if joker else 0)
        for size in (0, len(naturals) + (joker is not None)):
            sized[size] |= bit
        for suits in (rows, 32):
            shown[suits] |= bit
    return held, sized, shown


def _first_numbers() -> tuple[Numbers, Numbers]:
    """Return what to add to the bit number of a sequence's first cell to get the play.

    Returns:
        Without the joker: by size `[12]`, where the bit is that of the card set. With the joker: by
        size and the joker's position `[12, 11]`, where the bit is 4 * column + row.
    """
    plain = np.zeros(MAX_SIZE + 1, np.int64)
    joker = np.zeros((MAX_SIZE + 1, MAX_SIZE), np.int64)
    number = _FIRST_SEQUENCE
    for size in range(3, MAX_SIZE + 1):
        plain[size] = number
        number += 4 * (14 - size)
    for size in range(3, MAX_SIZE + 1):
        for place in range(size):
            joker[size, place] = number - 4 * (place > 0)
            number += 4 * (14 - size + (place in (0, size - 1)))
    return plain, joker


_HELD, _SIZED, _SHOWN = _group_masks()
_PLAIN, _WITH_JOKER = _first_numbers()
_ANY_SUITS = 32


_NO_JOKER = 5
_GROUP_PLACES = np.full((16, 6), -1, np.int64)
for _place, (_naturals, _joker) in enumerate(_groups(1)):
    _suits = sum(1 << row for row, _ in _naturals)
    _GROUP_PLACES[_suits, _joker[0] if _joker else _NO_JOKER] = _place


@njit("int64(int64, int64, int64)", cache=True)
def group(column: int, suits: int, joker_row: int) -> int:
    """Return the number of a group, or -1 if the cells are no group.

    Args:
        column: its rank.
        suits: its natural cards, as bits of rows.
        joker_row: row of the joker, 4 next to four natural cards; -1 without the joker.
    """
    if not 1 <= column <= 13 or joker_row > 4:
        return -1
    place = _GROUP_PLACES[suits & 15, joker_row if joker_row >= 0 else _NO_JOKER]
    return _FIRST_GROUP + 40 * (column - 1) + int(place) if place >= 0 else -1


@njit("int64(int64, int64, int64, int64)", cache=True)
def sequence(row: int, first: int, size: int, joker_place: int) -> int:
    """Return the number of a sequence, without a check that there is one.

    Args:
        row: its suit.
        first: its lowest column.
        size: number of cells, 3 to 11.
        joker_place: the joker's position in it, from 0; -1 without the joker.
    """
    if joker_place < 0:
        return int(_PLAIN[size]) + 4 * (first - 1) + row
    return int(_WITH_JOKER[size, joker_place]) + 4 * first + row


@njit("boolean(int64, int64, boolean, boolean)", cache=True)
def follows(play: int, field: int, revolution: bool, lock: bool) -> bool:
    """Return True if a play (not the pass) beats the play on the field, regardless of the hand.

    Args:
        play: the number of the play.
        field: the play on the field, 0 if it is empty.
        revolution: True if the order of the ranks is reversed.
        lock: True if the suits are locked.
    """
    if not (0 < play < N_PLAYS and 0 <= field < N_PLAYS):
        return False
    if field == PASS:
        return True
    if field == LONE_JOKER:
        return play == 1  # the spade 3, alone
    if play == LONE_JOKER:
        return bool(SIZE[field] == 1)
    if KIND[play] != KIND[field] or SIZE[play] != SIZE[field]:
        return False
    if lock and ROWS[play] != ROWS[field]:
        return False
    return bool(HIGH[play] < LOW[field] if revolution else LOW[play] > HIGH[field])


@njit("int64(uint64, int64, int64[::1], int64)", cache=True)
def _list(bits: Word, first: int, out: Numbers, n: int) -> int:
    """Append `first` + the number of each bit to the `n` entries of `out`; return their count."""
    bits = np.uint64(bits)
    while bits:
        out[n] = first + lowest(bits)
        bits &= bits - np.uint64(1)
        n += 1
    return n


@njit("int64(uint64, int64, int64, int64, int64, int64[::1], int64)", cache=True)
def _list_groups(
    hand: Word, size: int, rows: int, first: int, last: int, out: Numbers, n: int
) -> int:
    """Append the groups of a size (0: any) and suits (32: any) in columns `first` to `last`."""
    hand = np.uint64(hand)
    joker = np.int64(hand >> np.uint64(JOKER))
    wanted = _SIZED[size] & _SHOWN[rows]
    for column in range(first, last + 1):
        suits = np.int64(hand >> np.uint64(4 * column - 4) & np.uint64(15))
        n = _list(_HELD[joker, suits] & wanted, _FIRST_GROUP + 40 * (column - 1), out, n)
    return n


@njit("uint64(uint64, int64)", cache=True)
def runs(columns: Word, size: int) -> Word:
    """Return the first cells of runs of a size (0: all cells) as bits 4 * column + row."""
    starts = _COLUMNS
    for i in range(size):
        starts &= np.uint64(columns) >> np.uint64(4 * i)
    return starts


@njit("int64(uint64, int64, uint64, int64[::1], int64)", cache=True)
def _list_sequences(hand: Word, size: int, starts: Word, out: Numbers, n: int) -> int:
    """Append the sequences of a size whose first cells are in `starts` (bits 4 * column + row)."""
    hand, starts = np.uint64(hand), np.uint64(starts)
    columns = (hand & np.uint64(NATURALS)) << np.uint64(4)
    n = _list(runs(columns, size) & starts, _PLAIN[size] - 4, out, n)
    if hand >> np.uint64(JOKER) == 0:
        return n
    for place in range(size):
        firsts = runs(columns, place) & starts
        if place < size - 1:
            firsts &= runs(columns, size - 1 - place) >> np.uint64(4 * (place + 1))
        n = _list(firsts, _WITH_JOKER[size, place], out, n)
    return n


@njit("uint64(int64, int64)", cache=True)
def _between(first: int, last: int) -> Word:
    """Return the cells of the columns `first` to `last` as bits 4 * column + row."""
    if first > last:
        return np.uint64(0)
    below = np.uint64(0xFFFF_FFFF_FFFF_FFFF) << np.uint64(4 * first)
    return _COLUMNS >> np.uint64(4 * (14 - last)) & below


@njit("int64(uint64, boolean, int64[::1])", cache=True)
def _leads(hand: Word, sequences: bool, out: Numbers) -> int:
    """Write all plays of a hand on an empty field; return their number."""
    n = _list(hand, 1, out, 0)
    n = _list_groups(hand, 0, _ANY_SUITS, 1, 13, out, n)
    size = 3
    while sequences and size <= MAX_SIZE:
        n_before = n
        n = _list_sequences(hand, size, _COLUMNS, out, n)
        if n == n_before:
            break  # a longer sequence contains one of this size
        size += 1
    return n


@njit("int64(uint64, int64, boolean, boolean, boolean, int64[::1])", cache=True)
def write_plays(
    hand: Word, field: int, revolution: bool, lock: bool, sequences: bool, out: Numbers
) -> int:
    """Write the legal plays of a hand, without the pass (always legal); return their number.

    Args:
        hand: the card set.
        field: the play on the field, 0 if it is empty.
        revolution: True if the order of the ranks is reversed.
        lock: True if the suits are locked.
        sequences: True if the rules have sequences.
        out: `int64[N_PLAYS]`, written from its start.
    """
    hand = np.uint64(hand)
    if field == PASS:
        return _leads(hand, sequences, out)
    if field == LONE_JOKER:
        return _list(hand & np.uint64(1), 1, out, 0)
    if not 0 < field < N_PLAYS:
        return 0
    size, rows = int(SIZE[field]), int(ROWS[field])
    first, last = (0, int(LOW[field]) - 1) if revolution else (int(HIGH[field]) + 1, 14)
    if KIND[field] == SEQUENCE:
        starts = _between(first, last - (size - 1))
        if lock:
            starts &= np.uint64(rows) * SPADES
        return _list_sequences(hand, size, starts, out, 0)
    first, last = max(first, 1), min(last, 13)
    if KIND[field] == GROUP:
        return _list_groups(hand, size, rows if lock else _ANY_SUITS, first, last, out, 0)
    higher = _between(first, last) >> np.uint64(4)
    if lock:
        higher &= np.uint64(rows) * SPADES
    joker = hand & np.uint64(1) << np.uint64(JOKER)
    return _list(hand & (higher | joker), 1, out, 0)
