"""Hearts, diamonds and clubs can be exchanged: the same game is played with other suits.

Spades cannot, for the spade 3 beats the lone joker. (The diamond 3 only says who leads first, of
which an afterstate tells nothing.) So every afterstate is one of six that are worth the same.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numba import int64, njit, uint64

from afterstate.agents.daihinmin.afterstates.chains import Afterstates, AfterstateType
from afterstate.envs.daihinmin.cards import NATURALS, SUITS
from afterstate.envs.daihinmin.plays import N_PLAYS, SPADES, Numbers, parse, text
from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.envs.words import Word

_ORDERS = [(0, *order) for order in permutations((1, 2, 3))]
N_SYMMETRIES = len(_ORDERS)
_ROWS = np.array(_ORDERS)  # the new row of each row
_PLAYS = np.array(
    [
        [
            parse(text(play).translate(str.maketrans(SUITS, "".join(SUITS[row] for row in order))))
            for play in range(N_PLAYS)
        ]
        for order in _ORDERS
    ]
)  # the new number of each play


@njit(uint64(uint64, int64), cache=True)
def exchange_suits(cards: Word, symmetry: int) -> Word:
    """A set of cards with its suits exchanged."""
    cards = np.uint64(cards)
    naturals = cards & np.uint64(NATURALS)
    exchanged = cards ^ naturals
    for row in range(4):
        suit = naturals >> np.uint64(row) & SPADES
        exchanged |= suit << np.uint64(_ROWS[symmetry, row])
    return exchanged


@njit(AfterstateType[::1](AfterstateType[::1], int64[::1]), cache=True)
def exchanged(afters: Afterstates, symmetries: Numbers) -> Afterstates:
    """Afterstates in other suits, each by one of the six ways; 0 leaves it as it is."""
    out = afters.copy()
    for i in range(len(out)):
        after, symmetry = out[i], symmetries[i]
        after.hand = exchange_suits(after.hand, symmetry)
        after.unseen = exchange_suits(after.unseen, symmetry)
        for player in range(N_PLAYERS):
            after.played[player] = exchange_suits(after.played[player], symmetry)
        for other in range(N_PLAYERS - 1):
            after.known[other] = exchange_suits(after.known[other], symmetry)
        after.field = _PLAYS[symmetry, after.field]
    return out
