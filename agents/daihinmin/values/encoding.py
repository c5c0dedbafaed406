"""Inputs of rank networks: afterstates as planes or vectors (Kuwabara and Hoki 2018, section 6).

`planes`: 151 planes over the 15 columns of the competition's table. Under a revolution the columns
are mirrored, so that strength always grows to the right. The player that decides comes first, then
the others in seat order. A *card image* is five planes: S, H, D and C with a 1 in the column of
each card, and JO, 1 everywhere if the joker is among them.

      0 -  12  constants              1 in column 1, 2, ... 13
     13 -  17  own hand               card image
     18 -  22  unseen                 card image: cards that the others hold
     23        strength of the field  the column that must be beaten
     24 -  28  sequence of 3 .. 7     everywhere, by the size of the field; the last also if longer
     29        lock                   everywhere
     30        revolution             everywhere
     31 -  35  group of 1 .. 5        everywhere, by the size of the field
     36 -  40  field                  card image
     41 -  65  played                 card image for each player
     66 - 125  cards left, 0 .. 11    everywhere: 12 planes for each player
    126 - 130  passed or finished     everywhere: a plane for each player
    131 - 150  known                  card image for each other player: cards that it got from the
                                      deciding player in the exchange and still holds

The list in Kuwabara and Hoki (2018) omits the lock and has 150 planes.

`units`: the same as 750 inputs of a fully connected network, which the paper does not specify:
12 sets of 53 cards (own hand, unseen, field, played by each, known of each), cards left (60),
passed or finished (5), revolution, lock, and of the field its lowest and highest column (15 each),
its suits with that of the joker (5), sequence of 3 to 7 (5), group of 1 to 5 (5), whether it is
empty, and whether it is the lone joker.

`history.py` writes these planes for every move of a game.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64, njit, uint64, void

from afterstate.agents.daihinmin.afterstates.chains import Afterstate, Afterstates, AfterstateType
from afterstate.envs.daihinmin.cards import JOKER, NATURALS, lowest
from afterstate.envs.daihinmin.observation import N_COLUMNS
from afterstate.envs.daihinmin.plays import (
    CARDS,
    HIGH,
    KIND,
    LONE_JOKER,
    LOW,
    PASS,
    ROWS,
    SEQUENCE,
    SIZE,
)
from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.envs.words import Float32s, Word, Words

N_PLANES, N_UNITS = 151, 750

_HAND, _UNSEEN, _STRENGTH, _SEQUENCE, _LOCK, _REVOLUTION = 13, 18, 23, 24, 29, 30
_GROUP, _FIELD, _PLAYED, _LEFT, _OUT, _KNOWN = 31, 36, 41, 66, 126, 131

N_IMAGES = 12
_IMAGES = np.array([_HAND, _UNSEEN, _FIELD, *range(_PLAYED, _LEFT, 5), *range(_KNOWN, N_PLANES, 5)])


@njit(uint64[::1](AfterstateType), cache=True)
def _card_sets(after: Afterstate) -> Words:
    """Return the card sets: own hand, unseen, field, played by each player, known of each other."""
    sets = np.empty(N_IMAGES, np.uint64)
    sets[0], sets[1], sets[2] = after.hand, after.unseen, CARDS[after.field]
    for i in range(N_PLAYERS):
        sets[3 + i] = after.played[i]
    for i in range(N_PLAYERS - 1):
        sets[3 + N_PLAYERS + i] = after.known[i]
    return sets


@njit(int64(int64, int64), cache=True)
def _strength(field: int, revolution: int) -> int:
    """Return the column that must be beaten, mirrored under a revolution."""
    if field == LONE_JOKER:
        return 14
    return 14 - int(LOW[field]) if revolution else int(HIGH[field])


@njit(void(AfterstateType, uint64[::1], float32[::1], int64), cache=True)
def _write_flags(after: Afterstate, sets: Words, column: Float32s, at: int) -> None:
    """Write the planes that have the same value in every column."""
    column[at + _LOCK], column[at + _REVOLUTION] = after.lock, after.revolution
    size = int(SIZE[after.field])
    if KIND[after.field] == SEQUENCE:
        column[at + _SEQUENCE + min(size, 7) - 3] = 1
    elif size:
        column[at + _GROUP + size - 1] = 1
    for i in range(N_PLAYERS):
        column[at + _LEFT + 12 * i + min(max(after.left[i], 0), 11)] = 1
        column[at + _OUT + i] = after.out >> i & 1
    for i in range(N_IMAGES):
        column[at + _IMAGES[i] + 4] = sets[i] >> np.uint64(JOKER)


@njit(void(float32[:, ::1], int64), cache=True)
def fill(planes: Float32s, channel: int) -> None:
    """Write 1 to a whole plane of `planes[column, channel]`."""
    for column in range(N_COLUMNS):
        planes[column, channel] = 1


@njit(void(uint64, int64, float32[:, ::1], int64), cache=True)
def write_cards(cards: Word, revolution: int, planes: Float32s, at: int) -> None:
    """Write a card image without its joker plane to `planes[column, channel]`, from `at` on."""
    rest = np.uint64(cards) & np.uint64(NATURALS)
    while rest:
        card = lowest(rest)
        column = card // 4 + 1
        planes[14 - column if revolution else column, at + card % 4] = 1
        rest &= rest - np.uint64(1)


@njit(void(AfterstateType, uint64[::1], float32[:, ::1], int64), cache=True)
def _write_cells(after: Afterstate, sets: Words, planes: Float32s, at: int) -> None:
    """Write the planes that differ between columns."""
    for i in range(13):
        planes[i + 1, at + i] = 1
    if after.field != PASS:
        planes[_strength(after.field, after.revolution), at + _STRENGTH] = 1
    for i in range(N_IMAGES):
        write_cards(sets[i], after.revolution, planes, at + _IMAGES[i])


@njit(void(AfterstateType, float32[:, ::1], int64), cache=True)
def write_position_planes(after: Afterstate, planes: Float32s, at: int) -> None:
    """Write the planes of a position to `planes[column, channel]`, whose column 0 must be 0."""
    sets = _card_sets(after)
    _write_flags(after, sets, planes[0], at)
    for column in range(1, N_COLUMNS):
        for channel in range(at, at + N_PLANES):
            planes[column, channel] = planes[0, channel]
    _write_cells(after, sets, planes, at)


@njit(void(AfterstateType[::1], float32[:, :, ::1]), cache=True)
def write_planes(afters: Afterstates, out: Float32s) -> None:
    """Write the planes of afterstates to `out[n, 15, 151]`, channels last."""
    for i in range(len(afters)):
        for channel in range(N_PLANES):
            out[i, 0, channel] = 0
        write_position_planes(afters[i], out[i], 0)


def planes(afters: Afterstates) -> Float32s:
    """Return the planes of afterstates, `float32[n, 151, 15]`, channels last in memory."""
    out = np.empty((len(afters), N_COLUMNS, N_PLANES), np.float32)
    write_planes(np.ascontiguousarray(afters), out)
    return out.transpose(0, 2, 1)


# Units


@njit(int64(uint64, int64, float32[::1], int64), cache=True)
def _write_card_units(cards: Word, revolution: int, units: Float32s, at: int) -> int:
    """Write a set of cards as 53 units from `at` on; return the index after them."""
    rest = np.uint64(cards)
    while rest:
        card = lowest(rest)
        mirrored = 4 * (12 - card // 4) + card % 4
        units[at + (mirrored if revolution and card != JOKER else card)] = 1
        rest &= rest - np.uint64(1)
    return at + JOKER + 1


@njit(void(int64, int64, float32[::1], int64), cache=True)
def _write_field_units(field: int, revolution: int, units: Float32s, at: int) -> None:
    """Write the 47 units of the field from `at` on."""
    if field == PASS or field == LONE_JOKER:
        units[at + (46 if field else 45)] = 1
        return
    low, high = int(LOW[field]), int(HIGH[field])
    units[at + (14 - high if revolution else low)] = 1
    units[at + 15 + (14 - low if revolution else high)] = 1
    for row in range(5):
        units[at + 30 + row] = ROWS[field] >> row & 1
    size = int(SIZE[field])
    if KIND[field] == SEQUENCE:
        units[at + 35 + min(size, 7) - 3] = 1
    else:
        units[at + 40 + size - 1] = 1


@njit(void(AfterstateType, float32[::1]), cache=True)
def _write_units(after: Afterstate, units: Float32s) -> None:
    """Write the units of an afterstate to an array of zeros."""
    revolution = int(after.revolution)
    at, sets = 0, _card_sets(after)
    for i in range(N_IMAGES):
        at = _write_card_units(sets[i], revolution, units, at)
    for i in range(N_PLAYERS):
        units[at + 12 * i + min(max(after.left[i], 0), 11)] = 1
        units[at + 60 + i] = after.out >> i & 1
    units[at + 65], units[at + 66] = after.revolution, after.lock
    _write_field_units(after.field, revolution, units, at + 67)


@njit(float32[:, ::1](AfterstateType[::1]), cache=True)
def units(afters: Afterstates) -> Float32s:
    """Return the inputs of fully connected networks, `float32[n, 750]`."""
    listed = np.zeros((len(afters), N_UNITS), np.float32)
    for i in range(len(afters)):
        _write_units(afters[i], listed[i])
    return listed
