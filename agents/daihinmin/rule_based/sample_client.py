"""What the competition's sample client plays, down to its illegal submissions.

The yardstick that all published clients can be measured on. It is deterministic and knows no played
cards, no other player and no plan; a move is a look-up in tables of the cards it holds, here as
masks of the cells where an entry has the wanted value. Cells are bits 4 * column + row.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, int64, njit

from afterstate.envs.daihinmin.cards import (
    JOKER,
    NATURALS,
    count,
    lowest,
)
from afterstate.envs.daihinmin.plays import (
    HIGH,
    KIND,
    LONE_JOKER,
    LOW,
    MAX_SIZE,
    N_PLAYS,
    PASS,
    REVOLVES,
    ROWS,
    SEQUENCE,
    SIZE,
    SPADES,
    group,
    runs,
    sequence,
)
from afterstate.envs.daihinmin.rules import Game, GameType
from afterstate.envs.words import Word


@njit("uint64(uint64, int64, boolean)", cache=True)
def _run_starts(cells: Word, size: int, joker: bool) -> Word:
    """The cells that are the start of a run of exactly this value.

    Without the joker: as many cards from there to the very end of their run. With it: the first
    column that is missing is filled, and the run ends before the second.
    """
    cells = np.uint64(cells)
    starts: Word = np.uint64(0)
    if not joker:
        starts = runs(cells, size)
    for place in range(size if joker else 0):
        here = runs(cells, place) & ~(cells >> np.uint64(4 * place))
        if place < size - 1:
            here &= runs(cells, size - 1 - place) >> np.uint64(4 * (place + 1))
        starts |= here & np.uint64((1 << 60) - 1) >> np.uint64(4 * (size - 1))
    return starts & ~(cells >> np.uint64(4 * size))


@njit("int64(uint64)", cache=True)
def _highest(cells: Word) -> int:
    """The number of the highest bit of a word that is not 0."""
    highest = -1
    cells = np.uint64(cells)
    while cells:
        highest += 1
        cells >>= np.uint64(1)
    return highest


@njit("int64(uint64, uint64, int64)", cache=True)
def _write_run(hand: Word, start: Word, size: int) -> int:
    """The run from a start cell: the joker stands where the whole hand has no card."""
    row, first = int(start) % 4, int(start) // 4
    joker_place = -1
    for i in range(size):
        if not np.uint64(hand) >> np.uint64(4 * (first + i) + row) & np.uint64(1):
            joker_place = i
    return sequence(row, first, size, joker_place)


@njit("int64(uint64, uint64, int64, boolean, boolean)", cache=True)
def _run(hand: Word, kept: Word, size: int, joker: bool, high: bool) -> int:
    """The lowest or highest run of a size, of the cells that are kept; the pass if there is none.

    The highest starts at a card that is held. From there it goes down as long as the start below
    has the same value, which puts a joker that would stand on top below instead.
    """
    starts = _run_starts(kept, size, joker)
    if not high:
        return _write_run(hand, lowest(starts), size) if starts else PASS
    held = starts & np.uint64(hand)
    if not held:
        return PASS
    start = _highest(held)
    while start >= 4 and starts >> np.uint64(start - 4) & np.uint64(1):
        start -= 4
    return _write_run(hand, start, size)


@njit("int64(uint64, int64, boolean)", cache=True)
def _group_value(cells: Word, column: int, joker: bool) -> int:
    """How many cards a group in a column has, with the joker if it is held; 0 if it is none."""
    n = count(np.uint64(cells) >> np.uint64(4 * column) & np.uint64(15))
    if joker:
        return n + 1 if n else 0
    return n if n > 1 else 0


@njit("int64(uint64, uint64, int64, int64, int64)", cache=True)
def _write_group(hand: Word, kept: Word, column: int, size: int, rows: int) -> int:
    """The group of a column. The joker stands in the first of `rows` in which no card is held."""
    suits = int(np.uint64(kept) >> np.uint64(4 * column) & np.uint64(15))
    held = int(np.uint64(hand) >> np.uint64(4 * column) & np.uint64(15))
    if count(np.uint64(suits)) == size or (size == 5 and column == 1):
        return group(column, suits, -1)  # beside four 3s the joker is forgotten
    if size == 5:
        return group(column, suits, 4)
    return group(column, suits, lowest(np.uint64(~held & rows & 15)))


@njit("int64(uint64, uint64, int64, boolean, boolean, int64)", cache=True)
def _group(hand: Word, kept: Word, size: int, joker: bool, high: bool, rows: int) -> int:
    """The lowest or highest group of a size, of the cells that are kept, or the pass."""
    for i in range(1, 14):
        column = 14 - i if high else i
        if _group_value(kept, column, joker) == size:
            return _write_group(hand, kept, column, size, rows)
    return PASS


@njit("int64(uint64, boolean, boolean)", cache=True)
def _single(kept: Word, joker: bool, high: bool) -> int:
    """The lowest or highest card that is kept, spades first; else the joker, else the pass."""
    if not kept:
        return LONE_JOKER if joker else PASS
    cell = lowest(kept)
    if high:
        column = _highest(kept) // 4
        cell = 4 * column + lowest(np.uint64(kept) >> np.uint64(4 * column))
    return cell - 3


@njit("int64(uint64, boolean, boolean)", cache=True)
def _sample_lead(hand: Word, joker: bool, high: bool) -> int:
    """A lead: the longest run, else the largest group, else a single card."""
    for i in range(MAX_SIZE - 2):
        if _run_starts(hand, MAX_SIZE - i, joker):
            return _run(hand, hand, MAX_SIZE - i, joker, high)
    for size in range(5, 1, -1):
        play = _group(hand, hand, size, joker, high, 15)
        if play != PASS:
            return play
    return _single(hand, joker, high)


@njit("uint64(uint64)", cache=True)
def _loose(hand: Word) -> Word:
    """The cards that belong to no run of three and share their rank with no other card."""
    hand = np.uint64(hand)
    bound = np.uint64(0)
    starts = runs(hand, 3)
    for i in range(3):
        bound |= starts << np.uint64(4 * i)
    for column in range(1, 14):
        suits = hand >> np.uint64(4 * column) & np.uint64(15)
        if count(suits) > 1:
            bound |= suits << np.uint64(4 * column)
    return hand & ~bound


@njit(int64(GameType), cache=True)
def _last_play(view: Game) -> int:
    """The last action of a game that has one."""
    return int(view.actions[view.n_actions - 1]) % N_PLAYS


@njit(boolean(GameType), cache=True)
def _joker_after_run(view: Game) -> bool:
    """Whether a lone joker in column 14 is misread, because the play before it was a run."""
    if view.joker_column != 14:
        return False
    before = PASS
    for i in range(view.n_actions):
        play = int(view.actions[i]) % N_PLAYS
        if play == LONE_JOKER:
            break
        if play != PASS:
            before = play
    return bool(KIND[before] == SEQUENCE)


@njit(int64(GameType), cache=True)
def _order_value(view: Game) -> int:
    """The column that must be beaten, as the client reads it.

    Of a run it is the end by the order *before* the last action: so the player after a run that
    has turned the order around reads the wrong end.
    """
    field = view.field
    if field == LONE_JOKER:
        return 0 if view.revolution and not _joker_after_run(view) else 14
    turned = view.revolutions and REVOLVES[_last_play(view)]
    old_revolution = view.revolution ^ 1 if turned else view.revolution
    return int(LOW[field] if old_revolution else HIGH[field])


@njit("uint64(uint64, int64, boolean, int64)", cache=True)
def _beating(cells: Word, value: int, revolution: bool, rows: int) -> Word:
    """The cells of a set on the strong side of a column, in some suits."""
    above = np.uint64(0) if value >= 14 else ~np.uint64(0) << np.uint64(4 * (value + 1))
    below = ~(~np.uint64(0) << np.uint64(4 * value))
    return np.uint64(cells) & (below if revolution else above) & SPADES * np.uint64(rows)


@njit(int64(GameType), cache=True)
def sample_play(view: Game) -> int:
    """What the competition's sample client submits; it may be illegal, which is a pass.

    Args:
        view: what the player in turn sees.
    """
    own = view.hands[view.turn]
    joker = bool(own >> np.uint64(JOKER))
    hand = (own & np.uint64(NATURALS)) << np.uint64(4)
    high = view.revolution != 0
    field = view.field
    if field == PASS:
        return _sample_lead(hand, joker, high)
    rows = int(ROWS[field]) & 15 if view.lock else 15
    value, size = _order_value(view), int(SIZE[field])
    if size == 1:
        return _single(_beating(_loose(hand), value, high, rows), joker, high)
    kept = _beating(hand, value, high, rows)
    for with_joker in range(1 + joker):
        if KIND[field] == SEQUENCE:
            play = _run(hand, kept, size, with_joker != 0, high)
        else:
            play = _group(hand, kept, size, with_joker != 0, high, rows)
        if play != PASS:
            return play
    return PASS
