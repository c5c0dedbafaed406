"""Actions of Daihinmin as chains of plays, and the afterstates that they lead to.

After some plays the player moves again. Kuwabara and Hoki (2018) call them *re-submittable*:

1. an 8, which ends the trick;
2. the spade 3 on a lone joker, which ends the trick, too;
3. a play that nobody can answer: all who have not passed hold too few cards, or no unseen cards
   answer it. Then all others pass, and the player may follow on its own play;
4. a pass when all others have passed, if the player leads next.

An *action* is a chain of such plays and one play that ends the turn. The position after it, as the
player sees it, is its *afterstate*. A depth-first search over the positions in which the player
moves again finds all actions; a position that is reached twice is searched once.

A pass on the lead is legal but no action here: it only gives the lead away.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from numba import boolean, from_dtype, int8, int32, int64, njit, types, uint64, void

from afterstate.envs.daihinmin.cards import count
from afterstate.envs.daihinmin.plays import CARDS, N_PLAYS, PASS, SIZE, Numbers, write_plays
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
from afterstate.envs.words import Word, Words

AFTERSTATE = np.dtype(
    [
        ("hand", "u8"),  # the player's own cards
        ("unseen", "u8"),  # cards that the others hold
        ("played", "u8", N_PLAYERS),  # by player: the player itself, then the others in seat order
        ("known", "u8", N_PLAYERS - 1),  # cards given to each other player that it still holds
        ("left", "i1", N_PLAYERS),  # the number of cards that each player holds
        ("out", "i1"),  # bits of the players that passed in this trick or finished, itself lowest
        ("revolution", "i1"),
        ("lock", "i1"),
        ("field", "i2"),  # the play on the field
        ("play", "i2"),  # the first play of the action that leads here; 0 in the exchange
    ],
    align=True,
)
"""A position as one player sees it, without the history of the game."""

AfterstateType = from_dtype(AFTERSTATE)
Afterstates = npt.NDArray[np.void]
"""Records of `AFTERSTATE`."""


class Afterstate(Protocol):
    """One record of `AFTERSTATE`, as kernels see it."""

    hand: Word
    unseen: Word
    played: Words
    known: Words
    left: npt.NDArray[np.int8]
    out: int
    revolution: int
    lock: int
    field: int
    play: int

    def __getitem__(self, name: str, /) -> Any:
        """Return a field by its name, as Python code reads it."""


MAX_POSITIONS = 1 << 15
"""The most positions that the search of one decision keeps; it ignores any others."""


class Position(NamedTuple):
    """A position of the search, in which the player moves or its turn has ended."""

    hand: Word
    field: int
    revolution: int
    lock: int
    alone: int  # 1 if no other player can answer any more: they have passed or are out
    flowed: int  # 1 if the trick has ended since the decision, so that nobody has passed
    passed: int  # 1 if the player has passed: the leaf of a pass


PositionType = types.NamedTuple((uint64, *[int64] * 6), Position)

MOVES_AGAIN, ENDED = 1, 0  # the turn after a play


@njit(boolean(GameType, uint64, PositionType, int64, int64[::1]), cache=True)
def can_answer(view: Game, unseen: Word, at: Position, largest: int, out: Numbers) -> bool:
    """Return True if another player may be able to answer the play on the field.

    Args:
        view: the view, for its rules.
        unseen: the cards that the others hold.
        at: the position after the play.
        largest: the largest hand of a player that has not passed.
        out: `int64[N_PLAYS]`, overwritten.
    """
    if largest == 0:
        return False
    if view.idle_limit <= N_PLAYERS:
        return True  # places may be drawn before all have passed
    if largest < SIZE[at.field]:
        return False
    revolution, lock, runs = at.revolution != 0, at.lock != 0, view.sequences != 0
    return bool(write_plays(unseen, at.field, revolution, lock, runs, out) > 0)


@njit(PositionType(GameType), cache=True)
def root(view: Game) -> Position:
    """Return the position in which the player in turn decides."""
    alone = int(largest_hand(view, False) == 0)
    field, revolution, lock = int(view.field), int(view.revolution), int(view.lock)
    return Position(view.hands[view.turn], field, revolution, lock, alone, 0, 0)


@njit(types.Tuple((int64, PositionType))(GameType, PositionType), cache=True)
def after_pass(view: Game, at: Position) -> tuple[int, Position]:
    """Return the turn after a pass (condition 4 may bring it back) and the position."""
    if at.alone == 0:
        return ENDED, Position(at.hand, at.field, at.revolution, at.lock, 0, at.flowed, 1)
    flowed = Position(at.hand, PASS, at.revolution, 0, 0, 1, 0)
    # If the player has played since the decision, it played last. Otherwise others passed before.
    has_played = at.hand != view.hands[view.turn]
    goes_on = view.idle + 1 < view.idle_limit and leader(view) == view.turn
    leads = (has_played and view.idle_limit > 1) or goes_on
    return (MOVES_AGAIN if leads else ENDED), flowed


@njit(
    types.Tuple((int64, PositionType))(GameType, uint64, PositionType, int64, int64[::1]),
    cache=True,
)
def after_play(
    view: Game, unseen: Word, at: Position, play: int, out: Numbers
) -> tuple[int, Position]:
    """Return the turn after a play (conditions 1 to 3 may bring it back) and the position.

    Args:
        view: the view of the player in turn.
        unseen: the cards that the others hold.
        at: the position before the play.
        play: a legal play, not the pass.
        out: `int64[N_PLAYS]`, overwritten.
    """
    hand = at.hand & ~CARDS[play]
    revolution = order_after(view, at.revolution, play)
    if cuts(view, at.field, play):
        return MOVES_AGAIN, Position(hand, PASS, revolution, 0, 0, 1, 0)
    lock = lock_after(view, at.field, at.lock, play)
    laid = Position(hand, play, revolution, lock, at.alone, at.flowed, 0)
    largest = largest_hand(view, at.flowed != 0)
    if at.alone == 0 and can_answer(view, unseen, laid, largest, out):
        return ENDED, laid
    return MOVES_AGAIN, Position(hand, play, revolution, lock, 1, at.flowed, 0)


# The search keeps positions in the order in which it reaches them. An open-addressing hash table of
# their numbers finds those that were reached before.


class Positions(NamedTuple):
    """The positions that the actions of a decision reach."""

    hands: Words  # [n]
    rests: Numbers  # [n] everything but the hand: see `_pack`
    firsts: Numbers  # [n] the first play of an action that leads to the position
    ends: npt.NDArray[np.int8]  # [n] 1 for an afterstate
    table: npt.NDArray[np.int32]  # [2 n] hash table: the number of a position + 1, 0 if empty


PositionsType = types.NamedTuple(
    (uint64[::1], int64[::1], int64[::1], int8[::1], int32[::1]),
    Positions,
)


@njit(PositionsType(int64), cache=True)
def _empty(capacity: int) -> Positions:
    """Return an empty set for a number of positions, a power of two."""
    return Positions(
        np.empty(capacity, np.uint64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int8),
        np.zeros(2 * capacity, np.int32),
    )


@njit(int64(PositionType), cache=True)
def _pack(at: Position) -> int:
    """Return a position without its hand as one number."""
    bits = at.field << 1 | at.revolution
    return bits << 4 | at.lock << 3 | at.alone << 2 | at.flowed << 1 | at.passed


@njit(PositionType(uint64, int64), cache=True)
def _unpack(hand: Word, rest: int) -> Position:
    """Return the position of a hand and a number of `_pack`."""
    flags = rest >> 4 & 1, rest >> 3 & 1, rest >> 2 & 1, rest >> 1 & 1, rest & 1
    return Position(hand, rest >> 5, *flags)


@njit(boolean(PositionsType, int64, PositionType, int64, int64), cache=True)
def _add(reached: Positions, n: int, at: Position, ends: int, first: int) -> bool:
    """Add a position to the `n` others; return True if it was not among them."""
    rest, mask = _pack(at), len(reached.table) - 1
    bits = (np.uint64(at.hand) ^ np.uint64(rest) << np.uint64(46)) * np.uint64(
        0x9E37_79B9_7F4A_7C15
    )
    place = np.int64((bits ^ bits >> np.uint64(29)) >> np.uint64(13)) & mask
    while reached.table[place] > 0:
        number = reached.table[place] - 1
        if reached.hands[number] == at.hand and reached.rests[number] == rest:
            return False
        place = (place + 1) & mask
    reached.table[place] = n + 1
    reached.hands[n], reached.rests[n] = at.hand, rest
    reached.firsts[n], reached.ends[n] = first, ends
    return True


@njit(types.Tuple((int64, int64, PositionsType))(GameType, boolean, int64), cache=True)
def search(view: Game, with_ends: bool, capacity: int) -> tuple[int, int, Positions]:
    """Search the actions of the player in turn, depth first, for one that empties its hand.

    Args:
        view: the view of the player in turn.
        with_ends: keep afterstates, too, and not only the positions in which the player moves.
        capacity: the most positions to keep, a power of two; others are ignored.

    Returns:
        The first play of an action that empties the hand, at which the search stops, or -1; the
        number of positions reached before it; and these positions.
    """
    unseen, reached = unseen_cards(view, view.turn), _empty(capacity)
    plays, scratch = np.empty(N_PLAYS, np.int64), np.empty(N_PLAYS, np.int64)
    stack, depth = np.empty(capacity, np.int64), 1
    _add(reached, 0, root(view), 0, -1)  # not an afterstate
    stack[0], n = 0, 1
    while depth > 0:
        depth -= 1
        number = stack[depth]
        at = _unpack(reached.hands[number], reached.rests[number])
        revolution, lock = at.revolution != 0, at.lock != 0
        n_plays = write_plays(at.hand, at.field, revolution, lock, view.sequences != 0, plays)
        for i in range(-1 if at.field != PASS else 0, n_plays):
            play = plays[i] if i >= 0 else PASS
            first = reached.firsts[number] if number > 0 else play
            if CARDS[play] == at.hand:
                return first, n, reached
            if play == PASS:
                again, child = after_pass(view, at)
            else:
                again, child = after_play(view, unseen, at, play, scratch)
            if again == MOVES_AGAIN or with_ends:
                if n < capacity and _add(reached, n, child, 1 - again, first):
                    stack[depth] = n
                    depth += again
                    n += 1
    return -1, n, reached


# Afterstates


@njit(void(GameType, PositionType, int64, AfterstateType), cache=True)
def write_afterstate(view: Game, at: Position, first: int, out: Afterstate) -> None:
    """Write a position after an action, as the player in turn sees it.

    Args:
        view: the view before the action.
        at: the position after it.
        first: the first play of the action.
        out: the record, overwritten.
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
    """Return the afterstates of all actions of the player in turn.

    Args:
        view: the player's view, or the whole game, of which only its hand and open cards count.

    Returns:
        `AFTERSTATE[n]`, n >= 1; a single one with an empty hand if an action empties the hand.
    """
    finish, n, reached = search(view, True, MAX_POSITIONS)
    if finish >= 0:
        out = np.empty(1, AFTERSTATE)
        empty = Position(np.uint64(0), PASS, 0, 0, 0, 0, 0)
        write_afterstate(view, empty, finish, out[0])
        return out
    out = np.empty(reached.ends[:n].sum(), AFTERSTATE)
    n_ends = 0
    for i in range(n):
        if reached.ends[i]:
            at = _unpack(reached.hands[i], reached.rests[i])
            write_afterstate(view, at, reached.firsts[i], out[n_ends])
            n_ends += 1
    return out
