"""The plays of the competition's sample client, including its illegal submissions.

It is the baseline for all published clients. It is deterministic and ignores played cards and the
other players: a move is a look-up in tables of the cards it holds, represented here by masks of the
cells whose entry has the wanted value. Cells are bits 4 * column + row.
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
    """Return the cells in which a run of exactly `size` cards starts.

    Without the joker, `size` counts the cards from there to the end of their run. With it, the
    joker fills the first missing column, and the run ends before the second.
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
    """Return the number of the highest set bit of a nonzero word."""
    highest = -1
    cells = np.uint64(cells)
    while cells:
        highest += 1
        cells >>= np.uint64(1)
    return highest


@njit("int64(uint64, uint64, int64)", cache=True)
def _run_from(hand: Word, start: Word, size: int) -> int:
    """Return the run from a start cell, the joker standing where the whole hand has no card."""
    row, first = int(start) % 4, int(start) // 4
    joker_place = -1
    for i in range(size):
        if not np.uint64(hand) >> np.uint64(4 * (first + i) + row) & np.uint64(1):
            joker_place = i
    return sequence(row, first, size, joker_place)


@njit("int64(uint64, uint64, int64, boolean, boolean)", cache=True)
def _run(hand: Word, kept: Word, size: int, joker: bool, high: bool) -> int:
    """Return the lowest or highest run of a size among the kept cells; the pass if there is none.

    The highest run starts at a card of the hand. From there it moves down while the start below has
    the same value, which puts a joker below the run instead of on top.
    """
    starts = _run_starts(kept, size, joker)
    if not high:
        return _run_from(hand, lowest(starts), size) if starts else PASS
    held = starts & np.uint64(hand)
    if not held:
        return PASS
    start = _highest(held)
    while start >= 4 and starts >> np.uint64(start - 4) & np.uint64(1):
        start -= 4
    return _run_from(hand, start, size)


@njit("int64(uint64, int64, boolean)", cache=True)
def _group_value(cells: Word, column: int, joker: bool) -> int:
    """Return the size of the group in a column, with the joker if held; 0 if there is no group."""
    n = count(np.uint64(cells) >> np.uint64(4 * column) & np.uint64(15))
    if joker:
        return n + 1 if n else 0
    return n if n > 1 else 0


@njit("int64(uint64, uint64, int64, int64, int64)", cache=True)
def _group_in(hand: Word, kept: Word, column: int, size: int, rows: int) -> int:
    """Return the group of a column, the joker standing in the first of `rows` without a card."""
    suits = int(np.uint64(kept) >> np.uint64(4 * column) & np.uint64(15))
    held = int(np.uint64(hand) >> np.uint64(4 * column) & np.uint64(15))
    if count(np.uint64(suits)) == size or (size == 5 and column == 1):
        return group(column, suits, -1)  # with four 3s the client forgets its joker
    if size == 5:
        return group(column, suits, 4)
    return group(column, suits, lowest(np.uint64(~held & rows & 15)))


@njit("int64(uint64, uint64, int64, boolean, boolean, int64)", cache=True)
def _group(hand: Word, kept: Word, size: int, joker: bool, high: bool, rows: int) -> int:
    """Return the lowest or highest group of a size among the kept cells, or the pass."""
    for i in range(1, 14):
        column = 14 - i if high else i
        if _group_value(kept, column, joker) == size:
            return _group_in(hand, kept, column, size, rows)
    return PASS


@njit("int64(uint64, boolean, boolean)", cache=True)
def _single(kept: Word, joker: bool, high: bool) -> int:
    """Return the lowest or highest kept card, spades first; else the joker, else the pass."""
    if not kept:
        return LONE_JOKER if joker else PASS
    cell = lowest(kept)
    if high:
        column = _highest(kept) // 4
        cell = 4 * column + lowest(np.uint64(kept) >> np.uint64(4 * column))
    return cell - 3


@njit("int64(uint64, boolean, boolean, boolean)", cache=True)
def _sample_lead(hand: Word, joker: bool, high: bool, sequences: bool) -> int:
    """Return the lead: the longest run, else the largest group, else a single card.

    The competition's client always leads runs; where the rules have none, this one does not.
    """
    for i in range(MAX_SIZE - 2 if sequences else 0):
        if _run_starts(hand, MAX_SIZE - i, joker):
            return _run(hand, hand, MAX_SIZE - i, joker, high)
    for size in range(5, 1, -1):
        play = _group(hand, hand, size, joker, high, 15)
        if play != PASS:
            return play
    return _single(hand, joker, high)


@njit("uint64(uint64)", cache=True)
def _loose(hand: Word) -> Word:
    """Return the cards that are in no run of three and share their rank with no other card."""
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
    """Return the last action of a game that has one."""
    return int(view.actions[view.n_actions - 1]) % N_PLAYS


@njit(boolean(GameType), cache=True)
def _joker_after_run(view: Game) -> bool:
    """Return True if the client misreads a lone joker in column 14, led after a run."""
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
    """Return the column that must be beaten, as the client reads it.

    It reads the end of a run by the order *before* the last action, so the player after a run that
    has reversed the order reads the wrong end.
    """
    field = view.field
    if field == LONE_JOKER:
        return 0 if view.revolution and not _joker_after_run(view) else 14
    turned = view.revolutions and REVOLVES[_last_play(view)]
    old_revolution = view.revolution ^ 1 if turned else view.revolution
    return int(LOW[field] if old_revolution else HIGH[field])


@njit("uint64(uint64, int64, boolean, int64)", cache=True)
def _beating(cells: Word, value: int, revolution: bool, rows: int) -> Word:
    """Return the cells of a set that are stronger than a column, in the given suits."""
    above = np.uint64(0) if value >= 14 else ~np.uint64(0) << np.uint64(4 * (value + 1))
    below = ~(~np.uint64(0) << np.uint64(4 * value))
    return np.uint64(cells) & (below if revolution else above) & SPADES * np.uint64(rows)


@njit(int64(GameType), cache=True)
def sample_play(view: Game) -> int:
    """Return the submission of the competition's sample client; an illegal one counts as a pass.

    Args:
        view: the view of the player in turn.
    """
    own = view.hands[view.turn]
    joker = bool(own >> np.uint64(JOKER))
    hand = (own & np.uint64(NATURALS)) << np.uint64(4)
    high = view.revolution != 0
    field = view.field
    if field == PASS:
        return _sample_lead(hand, joker, high, view.sequences != 0)
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
