"""What to give in the exchange: by the parts of a hand, or by what each gift would leave.

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
from afterstate.envs.daihinmin.plays import PASS
from afterstate.envs.daihinmin.rules import (
    DAIFUGO,
    FUGO,
    GAME,
    HINMIN,
    Game,
    GameType,
    of_class,
    partner,
)
from afterstate.envs.words import Word, Words

_THREE, _EIGHT, _JACK, _QUEEN = 1, 6, 9, 10  # columns
LOOSE, LOOSE_3, LOOSE_8, LOOSE_JQ, GROUPED, IN_SEQUENCE, STRONG, JOKERS = range(8)
"""What is given first, and in the same class the weakest card first."""


@njit(uint64(uint64, int64, int64), cache=True)
def _run(hand: Word, row: int, first: int) -> Word:
    """The cards of a run of a suit from a column on, the joker filling one gap."""
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
    """The cards of sequences, set aside from the weakest on; the joker helps in one of them."""
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
    """When a card is given that is in no sequence, by its rank and how many there are of it."""
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
    """The `n` cards of a hand to give away.

    Sequences and groups are kept together. Of the loose cards the weakest go first, but 3s, 8s and
    all from J on are kept; if there are too few, loose 3s go, then 8s, J and Q, groups, sequences,
    and last the strong ones and the joker.
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
def hands_left(view: Game) -> tuple[Afterstates, Words]:
    """What the player in turn can give, and the position after the exchange as he sees it.

    Args:
        view: what he sees, in the exchange, or the whole game.

    Returns:
        `AFTERSTATE[n]` and the gifts, card sets `uint64[n]`.
    """
    me, n = view.turn, view.to_give
    hand = view.hands[me]
    gifts = np.empty(JOKER * (JOKER + 1), np.uint64)
    found = 0
    for first in range(JOKER + 1):
        for second in range(first, JOKER + 1 if n == 2 else first + 1):
            cards = np.uint64(1) << np.uint64(first) | np.uint64(1) << np.uint64(second)
            if cards & ~hand == 0 and count(cards) == n:
                gifts[found] = cards
                found += 1
    out, games = np.empty(found, AFTERSTATE), np.empty(1, GAME)
    for i in range(found):
        games[0] = view
        after = games[0]
        after.hands[me], after.given[me] = hand & ~gifts[i], gifts[i]
        after.left[me] -= n
        after.left[partner(view, me)] += n
        if view.classes[me] == DAIFUGO:  # the fugo, who has received a card, has still to give one
            after.left[of_class(view, FUGO)] -= 1
            after.left[of_class(view, HINMIN)] += 1
        write_afterstate(after, root(after), PASS, out[i])
    return out, gifts[:found]
