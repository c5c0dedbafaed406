"""Actions of Daihinmin as chains of plays, and the afterstates that they lead to.

Some plays bring the turn back to the player who makes them, so that he has not decided yet where
his turn ends. Kuwabara and Hoki (2018) call them *re-submittable*:

1. an 8, which makes the trick flow;
2. the spade 3 on a lone joker, which does so, too;
3. a play that nobody can answer: all who have not passed hold too few cards for it, or there is no
   answer to it among the unseen cards. Then all others pass, and he may go on, on his own play;
4. a pass when all others have passed, if he leads next.

An *action* is any number of such plays, and one that ends the turn. The position after it, as the
player sees it, is its *afterstate*. All actions are found by depth first search over the positions
in which he is asked again; a position that is reached twice is searched once.

To pass when one leads is legal, but no action here: it only gives the lead away.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import boolean, from_dtype, int8, int32, int64, njit, types, uint64, void

from afterstate.envs.daihinmin.cards import count
from afterstate.envs.daihinmin.plays import CARDS, N_PLAYS, PASS, SIZE, Numbers, legal_plays
from afterstate.envs.daihinmin.rules import (
    N_PLAYERS,
    Game,
    GameType,
    cuts,
    largest_hand,
    leader,
    lock_after,
    order_after,
    partner,
    seat_of,
)
from afterstate.envs.daihinmin.views import unseen_cards
from afterstate.envs.words import Word

AFTERSTATE = np.dtype(
    [
        ("hand", "u8"),  # the player's own cards
        ("unseen", "u8"),  # cards that the others hold
        ("played", "u8", N_PLAYERS),  # by player: himself first, then in seat order
        ("known", "u8", N_PLAYERS - 1),  # what he gave them and they still hold, in seat order
        ("left", "i1", N_PLAYERS),  # how many cards each holds, himself first
        ("out", "i1"),  # who has passed in this trick or has finished, as bits, himself lowest
        ("revolution", "i1"),
        ("lock", "i1"),
        ("field", "i2"),  # the play on the field
        ("play", "i2"),  # the first play of the action that leads here; in the exchange nothing
    ],
    align=True,
)
"""A position as one player sees it, without what the game was before it."""

AfterstateType = from_dtype(AFTERSTATE)
Afterstates = npt.NDArray[np.void]

MAX_POSITIONS = 1 << 15
"""So many positions of one decision are told apart; what else it could lead to is left out."""


class Position(NamedTuple):
    """A position in which the player may be asked, or a leaf: what differs within a decision."""

    hand: Word
    field: int
    revolution: int
    lock: int
    alone: int  # whether no other player can answer any more: they have passed or are out
    flowed: int  # whether the trick has flowed since the decision, so that nobody has passed
    passed: int  # whether he has passed: the leaf of a pass


PositionType = types.NamedTuple((uint64, *[int64] * 6), Position)

ASKED_AGAIN, ENDED = 1, 0  # whose turn it is after a play


@njit(boolean(GameType, uint64, PositionType, int64, int64[::1]), cache=True)
def can_answer(view: Game, unseen: Word, at: Position, largest: int, out: Numbers) -> bool:
    """Whether other players may be able to answer the play on the field.

    Args:
        view: gives the rules.
        unseen: the cards that the others hold.
        at: the position after the play.
        largest: how many cards those who have not passed hold at most.
        out: `int64[N_PLAYS]`, overwritten.
    """
    if largest == 0:
        return False
    if view.idle_limit <= N_PLAYERS:
        return True  # places may be drawn before all have passed
    if largest < SIZE[at.field]:
        return False
    revolution, lock, runs = at.revolution != 0, at.lock != 0, view.sequences != 0
    return bool(legal_plays(unseen, at.field, revolution, lock, runs, out) > 0)


@njit(PositionType(GameType), cache=True)
def root(view: Game) -> Position:
    """The position in which a player decides."""
    alone = int(largest_hand(view, False) == 0)
    field, revolution, lock = int(view.field), int(view.revolution), int(view.lock)
    return Position(view.hands[view.turn], field, revolution, lock, alone, 0, 0)


@njit(types.Tuple((int64, PositionType))(GameType, PositionType), cache=True)
def after_pass(view: Game, at: Position) -> tuple[int, Position]:
    """What a pass leads to; by condition 4 he may be asked again."""
    if at.alone == 0:
        return ENDED, Position(at.hand, at.field, at.revolution, at.lock, 0, at.flowed, 1)
    flowed = Position(at.hand, PASS, at.revolution, 0, 0, 1, 0)
    # Where he has played since the decision, he played last. Otherwise others have passed before.
    has_played = at.hand != view.hands[view.turn]
    goes_on = view.idle + 1 < view.idle_limit and leader(view) == view.turn
    leads = (has_played and view.idle_limit > 1) or goes_on
    return (ASKED_AGAIN if leads else ENDED), flowed


@njit(
    types.Tuple((int64, PositionType))(GameType, uint64, PositionType, int64, int64[::1]),
    cache=True,
)
def after_play(
    view: Game, unseen: Word, at: Position, play: int, out: Numbers
) -> tuple[int, Position]:
    """What a play leads to: whether he is asked again by conditions 1 to 3, and the position.

    Args:
        view: what the player in turn sees.
        unseen: the cards that the others hold.
        at: where he plays.
        play: a legal play, not the pass.
        out: `int64[N_PLAYS]`, overwritten.
    """
    hand = at.hand & ~CARDS[play]
    revolution = order_after(view, at.revolution, play)
    if cuts(view, at.field, play):
        return ASKED_AGAIN, Position(hand, PASS, revolution, 0, 0, 1, 0)
    lock = lock_after(view, at.field, at.lock, play)
    laid = Position(hand, play, revolution, lock, at.alone, at.flowed, 0)
    largest = largest_hand(view, at.flowed != 0)
    if at.alone == 0 and can_answer(view, unseen, laid, largest, out):
        return ENDED, laid
    return ASKED_AGAIN, Position(hand, play, revolution, lock, 1, at.flowed, 0)


# The search. Positions are kept in the order in which they are found. A table of their numbers
# tells those that are known: each is where its hash points, or at the next place that was free.


class Found(NamedTuple):
    """The positions that a decision can lead to."""

    hands: Any  # uint64[n]
    rests: Numbers  # all but the hand: see `_pack`
    firsts: Numbers  # the first play of an action that leads there
    ends: Any  # int8[n], whether it is an afterstate
    table: Any  # int32[2 n], number + 1 of a position, 0 where there is none


FoundType = types.NamedTuple(
    (uint64[::1], int64[::1], int64[::1], int8[::1], int32[::1]),
    Found,
)


@njit(FoundType(int64), cache=True)
def _nothing(capacity: int) -> Found:
    """Room for positions, a power of two of them."""
    return Found(
        np.empty(capacity, np.uint64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int8),
        np.zeros(2 * capacity, np.int32),
    )


@njit(int64(PositionType), cache=True)
def _pack(at: Position) -> int:
    """A position without the hand, as a number."""
    bits = at.field << 1 | at.revolution
    return bits << 4 | at.lock << 3 | at.alone << 2 | at.flowed << 1 | at.passed


@njit(PositionType(uint64, int64), cache=True)
def _unpack(hand: Word, rest: int) -> Position:
    """The position of a hand and such a number."""
    flags = rest >> 4 & 1, rest >> 3 & 1, rest >> 2 & 1, rest >> 1 & 1, rest & 1
    return Position(hand, rest >> 5, *flags)


@njit(boolean(FoundType, int64, PositionType, int64, int64), cache=True)
def _add(found: Found, n: int, at: Position, ends: int, first: int) -> bool:
    """Adds a position to `n` others unless it is among them; returns whether it was new."""
    rest, mask = _pack(at), len(found.table) - 1
    bits = (np.uint64(at.hand) ^ np.uint64(rest) << np.uint64(46)) * np.uint64(
        0x9E37_79B9_7F4A_7C15
    )
    place = np.int64((bits ^ bits >> np.uint64(29)) >> np.uint64(13)) & mask
    while found.table[place] > 0:
        number = found.table[place] - 1
        if found.hands[number] == at.hand and found.rests[number] == rest:
            return False
        place = (place + 1) & mask
    found.table[place] = n + 1
    found.hands[n], found.rests[n], found.firsts[n], found.ends[n] = at.hand, rest, first, ends
    return True


@njit(types.Tuple((int64, int64, FoundType))(GameType, boolean, int64), cache=True)
def search(view: Game, ends_too: bool, capacity: int) -> tuple[int, int, Found]:
    """Searches all actions of the player in turn, depth first, for one that empties his hand.

    Args:
        view: what he sees.
        ends_too: whether to keep afterstates, or only the positions in which he is asked again.
        capacity: how many positions are kept, a power of two; others are left out.

    Returns:
        The first play of an action that empties the hand, at which the search stops, or -1; the
        number of positions found before; and these.
    """
    unseen, found = unseen_cards(view, view.turn), _nothing(capacity)
    plays, scratch = np.empty(N_PLAYS, np.int64), np.empty(N_PLAYS, np.int64)
    stack, depth = np.empty(capacity, np.int64), 1
    _add(found, 0, root(view), 0, -1)  # no afterstate
    stack[0], n = 0, 1
    while depth > 0:
        depth -= 1
        number = stack[depth]
        at = _unpack(found.hands[number], found.rests[number])
        revolution, lock = at.revolution != 0, at.lock != 0
        n_plays = legal_plays(at.hand, at.field, revolution, lock, view.sequences != 0, plays)
        for i in range(-1 if at.field != PASS else 0, n_plays):
            play = plays[i] if i >= 0 else PASS
            first = found.firsts[number] if number > 0 else play
            if CARDS[play] == at.hand:
                return first, n, found
            if play == PASS:
                asked, child = after_pass(view, at)
            else:
                asked, child = after_play(view, unseen, at, play, scratch)
            if asked == ASKED_AGAIN or ends_too:
                if n < capacity and _add(found, n, child, 1 - asked, first):
                    stack[depth] = n
                    depth += asked
                    n += 1
    return -1, n, found


# Afterstates


@njit(void(GameType, PositionType, int64, AfterstateType), cache=True)
def write_afterstate(view: Game, at: Position, first: int, out: Any) -> None:
    """Writes a position that the player in turn comes to, as he sees it.

    Args:
        view: what he sees before his action.
        at: the position.
        first: the first play of the action.
        out: the record.
    """
    me = view.turn
    seat, bound = seat_of(view, me), partner(view, me)
    unseen = unseen_cards(view, view.turn)
    out.hand, out.unseen, out.out = at.hand, unseen, at.passed
    for i in range(N_PLAYERS):
        player = view.seats[(seat + i) % N_PLAYERS]
        out.played[i] = view.played[player]
        out.left[i] = view.left[player]
        if i > 0:
            out.known[i - 1] = view.given[me] & unseen if player == bound else np.uint64(0)
            passed = view.passed >> player & 1 and not at.flowed
            out.out |= int(passed or view.left[player] == 0) << i
    out.played[0] |= view.hands[me] & ~at.hand
    out.left[0] = count(at.hand)
    out.revolution, out.lock, out.field, out.play = at.revolution, at.lock, at.field, first


@njit(AfterstateType[::1](GameType), cache=True)
def afterstates(view: Game) -> Afterstates:
    """The afterstates of all actions of the player in turn.

    Args:
        view: what he sees, or the whole game, of which only his hand and the open cards are used.

    Returns:
        `AFTERSTATE[n]`, at least one. Where he can play out his hand it is one with an empty hand.
    """
    finish, n, found = search(view, True, MAX_POSITIONS)
    if finish >= 0:
        out = np.empty(1, AFTERSTATE)
        empty = Position(np.uint64(0), PASS, 0, 0, 0, 0, 0)
        write_afterstate(view, empty, finish, out[0])
        return out
    out = np.empty(found.ends[:n].sum(), AFTERSTATE)
    at = 0
    for i in range(n):
        if found.ends[i]:
            write_afterstate(
                view, _unpack(found.hands[i], found.rests[i]), found.firsts[i], out[at]
            )
            at += 1
    return out
