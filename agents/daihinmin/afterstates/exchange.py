"""Gifts of the exchange: the rule of the champion snowl, and the afterstates of all gifts.

The champion of 2010, snowl, gave cards by `gift`; so do the players of Kuwabara and Hoki (2018).
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit, types, uint64

from afterstate.agents.daihinmin.afterstates.chains import (
    AFTERSTATE,
    Afterstates,
    AfterstateType,
    root,
    write_afterstate,
)
from afterstate.envs.daihinmin.cards import JOKER, count
from afterstate.envs.daihinmin.plays import N_PLAYS, PASS
from afterstate.envs.daihinmin.rules import (
    DAIFUGO,
    FUGO,
    GAME,
    HINMIN,
    Game,
    GameType,
    of_class,
    partner,
    write_gifts,
)
from afterstate.envs.words import Word, Words

_THREE, _EIGHT, _JACK, _QUEEN = 1, 6, 9, 10  # columns
LOOSE, LOOSE_3, LOOSE_8, LOOSE_JQ, GROUPED, IN_SEQUENCE, STRONG, JOKERS = range(8)
"""Classes of cards in the order in which they are given; within a class the weakest goes first."""


@njit(uint64(uint64, int64, int64), cache=True)
def _run(hand: Word, row: int, first: int) -> Word:
    """Return the cards of a run of a suit that starts in a column, the joker filling one gap."""
    hand = np.uint64(hand)
    taken, joker = np.uint64(0), hand & np.uint64(1) << np.uint64(JOKER)
    column = first
    while column <= 13:
        card = np.uint64(1) << np.uint64(4 * column - 4 + row)
        if not hand & card:
            if not joker or not taken:
                break
            taken, joker = taken | joker, np.uint64(0)
        taken |= hand & card
        column += 1
    return taken


@njit(uint64(uint64), cache=True)
def in_sequences(hand: Word) -> Word:
    """Return the cards of sequences, taken from the weakest on; the joker completes one of them."""
    rest, aside = np.uint64(hand), np.uint64(0)
    for first in range(1, 14):
        for row in range(4):
            run = _run(rest, row, first)
            if count(run) >= 3:
                aside |= run
                rest &= ~run
    return aside


@njit(int64(int64, int64), cache=True)
def _loose_class(column: int, n_alike: int) -> int:
    """Return the class of a card in no sequence, by its rank and the number of its rank."""
    if n_alike >= 2:
        return GROUPED
    if column == _THREE:
        return LOOSE_3
    if column == _EIGHT:
        return LOOSE_8
    if column in (_JACK, _QUEEN):
        return LOOSE_JQ
    return LOOSE if column < _JACK else STRONG


@njit(uint64(uint64, int64), cache=True)
def gift(hand: Word, n: int) -> Word:
    """Return the `n` cards of a hand to give away.

    Sequences and groups stay together. The weakest loose cards from 4 to T, except 8s, go first. If
    they are too few, loose 3s follow, then 8s, J and Q, groups, sequences, and last K, A, 2 and the
    joker.
    """
    hand = np.uint64(hand)
    runs = in_sequences(hand)
    given = np.uint64(0)
    for wanted in range(JOKERS + 1):
        for card in range(JOKER + 1):
            bit = np.uint64(1) << np.uint64(card)
            if not hand & bit or count(given) >= n:
                continue
            column = card // 4 + 1
            alike = (hand & ~runs) >> np.uint64(4 * column - 4) & np.uint64(15)
            if card == JOKER:
                class_ = JOKERS
            elif runs & bit:
                class_ = IN_SEQUENCE
            else:
                class_ = _loose_class(column, count(alike))
            if class_ == wanted:
                given |= bit
    return given


@njit(types.Tuple((AfterstateType[::1], uint64[::1]))(GameType), cache=True)
def gift_afterstates(view: Game) -> tuple[Afterstates, Words]:
    """Return the positions after each gift of the player in turn, as it sees them, and the gifts.

    Args:
        view: the player's view in the exchange, or the whole game.

    Returns:
        `AFTERSTATE[n]` and the gifts, card sets `uint64[n]`.
    """
    me, n = view.turn, view.to_give
    hand = view.hands[me]
    numbers = np.empty(N_PLAYS, np.int64)  # more than there are gifts
    n_gifts = write_gifts(view, numbers)
    gifts = numbers.astype(np.uint64)
    out, games = np.empty(n_gifts, AFTERSTATE), np.empty(1, GAME)
    for i in range(n_gifts):
        games[0] = view
        after = games[0]
        after.hands[me], after.given[me] = hand & ~gifts[i], gifts[i]
        after.left[me] -= n
        after.left[partner(view, me)] += n
        if view.classes[me] == DAIFUGO:  # the fugo has received a card and still has to give one
            after.left[of_class(view, FUGO)] -= 1
            after.left[of_class(view, HINMIN)] += 1
        write_afterstate(after, root(after), PASS, out[i])
    return out, gifts[:n_gifts]
