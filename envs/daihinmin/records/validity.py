"""Checks of the record of a game of Daihinmin: its ranges, its cards, and the game it tells.

Kernels check nothing. `check_fields` and `check_view` make a record safe for them; `status` replays
its actions, too.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any

import numpy as np
from numba import literal_unroll, njit

from afterstate.envs.checks import check_one_of
from afterstate.envs.daihinmin.cards import D3, DECK, JOKER, N_CARDS, count
from afterstate.envs.daihinmin.plays import N_PLAYS, Numbers
from afterstate.envs.daihinmin.rules import (
    DAIFUGO,
    FUGO,
    GAME,
    HEIMIN,
    LAST_NUMBER,
    MAX_ACTIONS,
    MAX_IDLE,
    MAX_POINTS,
    N_PLAYERS,
    Game,
    Games,
    Rules,
    advance,
    as_record,
    check_type,
    holder,
    is_legal,
    n_exchanged,
    partner,
    rewind,
    submit,
)


class Status(IntEnum):
    """Faults of a game record; `VALID` stands for none."""

    VALID = 0
    RECORD = auto()
    """It is no record of `rules.GAME`."""
    RANGES = auto()
    """A number or a card is out of its range, for example a play above 2421."""
    PLAYERS = auto()
    """Seats or classes are not an order of the players."""
    CARDS = auto()
    """Hands and played cards are not the pack, each card once, or have wrong sizes."""
    EXCHANGE = auto()
    """The turn, the gift or the gifts before it do not agree with the classes."""
    ACTIONS = auto()
    """The actions are not a game by the rules which ends in this position."""


_LIMITS = {
    "left": (0, 13),
    "classes": (-1, N_PLAYERS - 1),
    "to_give": (0, 2),
    "turn": (-1, N_PLAYERS - 1),
    "field": (0, N_PLAYS - 1),
    "joker_column": (0, 14),
    "revolution": (0, 1),
    "lock": (0, 1),
    "cut": (0, 1),
    "passed": (0, 31),
    "last": (0, N_PLAYERS - 1),
    "idle": (0, MAX_IDLE),
    "starter": (-1, N_PLAYERS - 1),
    "places": (-1, N_PLAYERS - 1),
    "n_out": (0, N_PLAYERS),
    "actions": (0, N_PLAYERS * N_PLAYS - 1),
    "n_actions": (0, MAX_ACTIONS),
    "number": (0, LAST_NUMBER),
    "seats": (0, N_PLAYERS - 1),
    "points": (0, MAX_POINTS),
    "viewer": (-1, N_PLAYERS - 1),
    "reseat_every": (0, 2**62),
    "class_reset_every": (0, 2**62),
    "idle_limit": (1, MAX_IDLE),
    **dict.fromkeys(("hands", "played", "given", "gift"), (0, DECK)),
    **dict.fromkeys(Rules._fields[:5], (0, 1)),
}
"""The least and the largest value of each field but the random states."""

_LOW_AND_HIGH = np.zeros(2, GAME)
for _name in _LIMITS:
    _LOW_AND_HIGH[_name][0], _LOW_AND_HIGH[_name][1] = _LIMITS[_name]
_NUMBERS = tuple(name for name in _LIMITS if GAME[name].shape == ())
_LISTS = tuple(name for name in _LIMITS if GAME[name].shape != ())


@njit(cache=True)
def _is_within(game: Game, limits: Games) -> bool:
    """Return True if all fields of a record are from those of one to those of another."""
    valid, low, high = True, limits[0], limits[1]
    for name in literal_unroll(_NUMBERS):
        valid &= low[name] <= game[name] <= high[name]
    for name in literal_unroll(_LISTS):
        numbers, least, most = game[name], low[name], high[name]
        for i in range(numbers.size):
            valid &= least[i] <= numbers[i] <= most[i]
    return valid


@njit(cache=True)
def _is_order(numbers: Numbers) -> bool:
    """Return True if the numbers are 0 to 4, each once."""
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits == (1 << N_PLAYERS) - 1


@njit(cache=True)
def _has_valid_players(game: Game) -> bool:
    """Return True if seats and classes, if there are any, are orders of the players."""
    has_classes = False
    for player in range(N_PLAYERS):
        has_classes |= game.classes[player] != -1
    if not has_classes:
        return bool(_is_order(game.seats))
    for player in range(N_PLAYERS):
        if game.classes[player] < 0:
            return False
    return bool(_is_order(game.seats) and _is_order(game.classes))


@njit(cache=True)
def _n_given(game: Game, player: int) -> int:
    """Return how many cards a player has given away so far."""
    class_ = game.classes[player]
    if not game.exchanges or class_ < 0:
        return 0
    has_given = class_ > HEIMIN or game.to_give == 0 or class_ < game.classes[game.turn]
    return n_exchanged(class_) if has_given else 0


@njit(cache=True)
def _has_valid_cards(game: Game) -> bool:
    """Return True if all cards that are seen are cards of the pack, once, in hands of their sizes.

    Players are dealt 10 or 11 cards, 53 in all.
    """
    if game.to_give != 0 and game.turn < 0:
        return False
    seen, n_dealt = np.uint64(0), 0
    for player in range(N_PLAYERS):
        hidden = game.viewer >= 0 and player != game.viewer
        hand, played, left = game.hands[player], game.played[player], game.left[player]
        if (hand | played) & seen or hand & played:
            return False
        if (hidden and hand != 0) or (not hidden and left != count(hand)):
            return False
        other = partner(game, player)
        received = _n_given(game, other) if other >= 0 else 0
        dealt = left + count(played) + _n_given(game, player) - received
        if not 10 <= dealt <= 11:
            return False
        seen |= hand | played
        n_dealt += dealt
    return bool(n_dealt == N_CARDS and (game.viewer >= 0 or seen == np.uint64(DECK)))


@njit(cache=True)
def _has_valid_exchange(game: Game) -> bool:
    """Return True if turn and gifts agree with the classes, and the starter with the hands."""
    for player in range(N_PLAYERS):
        given = game.given[player]
        if given != 0 and count(given) != _n_given(game, player):
            return False
    if game.to_give == 0:
        first = holder(game, np.uint64(D3))
        for player in range(N_PLAYERS):
            first = player if game.played[player] & np.uint64(D3) else first
        return bool(game.gift == 0 and game.starter >= 0 and first in (-1, game.starter))
    class_ = game.classes[game.turn]
    if not game.exchanges or not DAIFUGO <= class_ <= FUGO or game.to_give != n_exchanged(class_):
        return False
    chosen = game.gift & ~game.hands[game.turn] == 0 and count(game.gift) < game.to_give
    return bool(chosen and game.starter == -1)


@njit(cache=True)
def _is_same(game: Game, other: Game) -> bool:
    """Return True if all that plays change is the same.

    Points, random state and the column of a lone joker, which clients choose, may differ.
    """
    same = game.turn == other.turn and game.field == other.field and game.lock == other.lock
    same &= game.revolution == other.revolution and game.cut == other.cut
    same &= game.passed == other.passed and game.last == other.last and game.idle == other.idle
    same &= game.n_out == other.n_out
    for player in range(N_PLAYERS):
        same &= game.hands[player] == other.hands[player]
        same &= game.played[player] == other.played[player]
        same &= game.left[player] == other.left[player]
        same &= game.places[player] == other.places[player]
    return bool(same)


@njit(cache=True)
def _replays(game: Game, again: Game) -> bool:
    """Return True if the actions, played again in a copy, are legal and end in this position."""
    if game.to_give > 0 and game.n_actions > 0:
        return False
    turn = game.turn if game.to_give > 0 else game.starter
    rewind(again)
    again.turn, again.last = turn, game.last if game.to_give > 0 else turn
    for i in range(game.n_actions):
        player, move = divmod(int(game.actions[i]), N_PLAYS)
        if again.turn != player or not is_legal(again, move):
            return False
        submit(again, move)
        if again.idle >= game.idle_limit:  # the remaining places were drawn
            if not _is_order(game.places):
                return False
            again.n_out = N_PLAYERS
            for other in range(N_PLAYERS):
                if again.places[other] == -1:
                    again.places[other] = game.places[other]
        advance(again)
    return _is_same(game, again)


_CHECKS = {
    Status.PLAYERS: _has_valid_players,
    Status.CARDS: _has_valid_cards,
    Status.EXCHANGE: _has_valid_exchange,
}
"""The faults of records that are in their ranges, but the last one, and the checks for them."""


def status(game: Any) -> Status:
    """Return the first fault of a game record or view, `Status.VALID` if there is none.

    A valid record is one that the rules can reach from a deal, as far as the record tells: its
    actions are played again. Of a view, the hidden cards are not checked. A match before its first
    game has no cards and is not valid. Each check needs what those before it have found valid, so
    that one fault is named: wrong classes make all numbers of cards look wrong.
    """
    game = as_record(game)
    if game is None:
        return Status.RECORD
    if not _is_within(game, _LOW_AND_HIGH):
        return Status.RANGES
    for fault, is_valid in _CHECKS.items():
        if not is_valid(game):
            return fault
    return Status.VALID if _replays(game, game.copy()) else Status.ACTIONS


def check_game(game: Any) -> Game:
    """Return the record of a whole game.

    Raises:
        ValueError: a view, or a record that is not valid; `status` says in what.
    """
    record = as_record(game)
    if record is not None and record["viewer"] >= 0:
        raise ValueError("game must be the record of a whole game, got a view")
    return check_record(game)


def check_record(game: Any) -> Game:
    """Return a game record or view.

    Raises:
        ValueError: it is not valid; `status` says in what.
    """
    fault = status(game)
    if fault is Status.RANGES:
        _check_ranges(game)
    if fault:
        raise ValueError(f"game must be valid, got one with wrong {str(fault.name).lower()}")
    return check_type(game)


@njit(cache=True)
def _is_asked(view: Game, limits: Games) -> bool:
    """Return True if a view is in its ranges, and its player is in turn, to play or to give."""
    own = view.viewer == -1 or view.viewer == view.turn
    if not own or view.turn < 0 or not _is_within(view, limits):
        return False
    held, least = count(view.hands[view.turn]), max(view.to_give, 1)
    is_held = held == view.left[view.turn] and least <= held <= limits[1].left[view.turn]
    is_held &= held - (view.hands[view.turn] >> np.uint64(JOKER)) >= view.to_give
    return bool(is_held and view.n_out < N_PLAYERS - 1)


def check_fields(game: Any) -> Game:
    """Return a game record or view whose fields are in their ranges, as kernels can take it.

    Raises:
        ValueError: no record, or a field out of its range.
    """
    aligned = check_type(game)
    if not _is_within(aligned, _LOW_AND_HIGH):
        _check_ranges(aligned)
    return aligned


def check_view(view: Any) -> Game:
    """Return a view whose fields are in their ranges, as kernels can take it.

    Raises:
        ValueError: no view, or a field out of its range.
    """
    checked = check_fields(view)
    if checked["viewer"] < 0:
        raise ValueError("view must be what one player sees, got a whole game")
    return checked


def check_asked(view: Any, plays: bool | None = None) -> Game:
    """Return a game or view whose player in turn must play (`plays`), give, or either (None).

    Ranges and the size of the hand are checked, but not the other cards, so that players can be
    asked about positions that no game has.

    Raises:
        ValueError: no record, a field out of its range, a hand that is too large or too small, or
            another player is in turn.
    """
    asked = check_type(view)
    is_to_play = bool(asked["to_give"] == 0)
    check_one_of((None, True, False), plays=plays)
    if plays not in (None, is_to_play) or not _is_asked(asked, _LOW_AND_HIGH):
        _check_ranges(asked)
        raise ValueError(_why_not_asked(asked, plays))
    return asked


def _why_not_asked(view: Game, plays: bool | None) -> str:
    """Return why a view is not that of a player who must play, give, or either."""
    viewer, turn, to_give = (int(view[name]) for name in ("viewer", "turn", "to_give"))
    if turn < 0 or view["n_out"] >= N_PLAYERS - 1:
        return f"view must be of a game that is not over, got {view['n_out']} players out"
    if viewer not in (-1, turn):
        return f"viewer must be the player in turn, {turn}, got {viewer}"
    if plays is True and to_give:
        return f"view must be one that asks for a play, got one with {to_give} cards to give"
    if plays is False and not to_give:
        return "view must be one that asks for cards to give, got one that asks for a play"
    held, left = int(view["hands"][turn]).bit_count(), int(view["left"][turn])
    return (
        f"hand of player {turn} must be 1 to {_LOW_AND_HIGH[1]['left'][turn]} cards, as many as "
        f"left says, and those to give besides the joker, got {held}, left {left} and {to_give} "
        "cards to give"
    )


def check_out(view: Game) -> None:
    """Raise ValueError unless as many players are out as have no cards left.

    Otherwise a game that is played on from the view might not end. The view is checked already.
    """
    n_out = int(np.count_nonzero(view["left"] == 0))
    if view["n_out"] != n_out:
        raise ValueError(f"n_out of a game must be {n_out}, got {view['n_out']}")


def _check_ranges(game: Game) -> None:
    """Raise ValueError if a field is out of its range."""
    for name, (low, high) in _LIMITS.items():
        if np.any(game[name] < low) or np.any(game[name] > high):
            given = game[name].tolist()
            raise ValueError(f"{name} of a game must be in {low}..{high}, got {given}")
