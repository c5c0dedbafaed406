"""Symmetries of Daihinmin: hearts, diamonds and clubs can be permuted without changing the game.

Spades cannot, since the spade 3 beats the lone joker. (The diamond 3 only decides who leads first,
which is no part of an afterstate.) So every afterstate is one of six of the same value.
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
def permute_suits(cards: Word, symmetry: int) -> Word:
    """Return a set of cards with its suits permuted."""
    cards = np.uint64(cards)
    naturals = cards & np.uint64(NATURALS)
    out = cards ^ naturals
    for row in range(4):
        suit = naturals >> np.uint64(row) & SPADES
        out |= suit << np.uint64(_ROWS[symmetry, row])
    return out


@njit(AfterstateType[::1](AfterstateType[::1], int64[::1]), cache=True)
def permuted(afters: Afterstates, symmetries: Numbers) -> Afterstates:
    """Return afterstates, each permuted by one of the six symmetries; 0 is the identity."""
    out = afters.copy()
    for i in range(len(out)):
        after, symmetry = out[i], symmetries[i]
        after.hand = permute_suits(after.hand, symmetry)
        after.unseen = permute_suits(after.unseen, symmetry)
        for player in range(N_PLAYERS):
            after.played[player] = permute_suits(after.played[player], symmetry)
        for other in range(N_PLAYERS - 1):
            after.known[other] = permute_suits(after.known[other], symmetry)
        after.field = _PLAYS[symmetry, after.field]
    return out
