"""Observations of Daihinmin: planes over the 15 columns of the table.

All planes are 0 or 1. Players are counted from the viewer on: it is 0, then those that follow in
the order of play. A *card image* is five planes: S, H, D and C with a 1 in the column of each card,
and JO, 1 everywhere if the joker is among them. Ranks keep their columns under a revolution.

    channels  name               1 where
      0 -   4 hand S .. JO       card image: own cards
      5 -   9 unseen S .. JO     card image: cards not seen yet, which the others hold
     10 -  14 gave S .. JO       card image: gift in the exchange before this game
     15 -  19 gift S .. JO       card image: cards chosen to give so far
     20 -  39 known 1 S .. 4 JO  card images: cards known to be in the hands of players 1 to 4:
                                 the viewer's gift and the first leader's diamond 3
     40 -  44 field S .. X       the cells of the play on the field, with its joker's; X is
                                 the fifth card of a rank; a lone joker has no cell
     45 -  49 joker S .. X       the cell of the field that the joker stands at
     50 -  54 kind empty, single, group, sequence, joker
                                 all columns: the kind of the play on the field
     55       size               the column of that number: cards on the field
     56       revolution         all columns: the order of the ranks is reversed
     57       lock               all columns: the suits are locked
     58       idle               columns as binary digits, the lowest first: passes since a play
     59       to give            the column of that number: cards that the player in turn must give
     60       game               columns as binary digits, the lowest first: games since the last
                                 reset of the classes, 0 where there are none
     61 -  85 played 0 S .. 4 JO card images: cards each player has played
     86 -  90 left 0 .. 4        the column of that number: cards left in each hand
     91 -  95 passed 0 .. 4      all columns: the player has passed in this trick
     96 - 100 place 0 .. 4       the column of the place, from 0, of a player that has finished
    101 - 105 class 0 .. 4       the column of the class, 0 daifugo to 4 daihinmin, if there are any
    106 - 110 owner 0 .. 4       all columns: the play on the field is the player's
    111 - 115 turn 0 .. 4        all columns: it is the player's turn

`CHANNELS` has these names in this order. The *state*, for critics that see everything, counts the
players from number 0 on and has all hands and gifts before channels 40 to 115:

      0 -  24 hand 0 S .. 4 JO   card images: each player's cards
     25 -  49 gave 0 S .. 4 JO   card images: each player's gift in the exchange
     50 -  54 gift S .. JO       card image: cards the player in turn has chosen to give so far
     55 - 130                    as channels 40 - 115
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import int8, int64, njit, uint64, void

from afterstate.envs.daihinmin.cards import N_CARDS, NATURALS, lowest
from afterstate.envs.daihinmin.plays import (
    CARDS,
    JOKER_CELL,
    KIND,
    LONE_JOKER,
    N_PLAYS,
    PASS,
    SIZE,
    Numbers,
)
from afterstate.envs.daihinmin.records.validity import check_fields, check_view
from afterstate.envs.daihinmin.rules import (
    GAME,
    N_PLAYERS,
    Game,
    Games,
    GameType,
    is_givable,
    seat_of,
    write_legal,
)
from afterstate.envs.daihinmin.views import known_cards, unseen_cards, write_view
from afterstate.envs.words import Word

N_COLUMNS = 15
"""Columns of the table: ranks 1 to 13, and the joker's places below and above."""

Planes = npt.NDArray[np.int8]

_IMAGE = ("S", "H", "D", "C", "JO")
_CELLS = ("S", "H", "D", "C", "X")
_KINDS = ("empty", "single", "group", "sequence", "joker")


def _names(group: str, *parts: Any) -> list[str]:
    """Return the channels of a group: its name with each of the parts."""
    return [f"{group} {part}" for part in parts]


def _images(group: str, players: range) -> list[str]:
    """Return the channels of a card image for each player."""
    return [f"{group} {player} {row}" for player in players for row in _IMAGE]


_ALL = range(N_PLAYERS)
_OWN = [
    _names("hand", *_IMAGE),
    _names("unseen", *_IMAGE),
    _names("gave", *_IMAGE),
    _names("gift", *_IMAGE),
    _images("known", range(1, N_PLAYERS)),
]
_PUBLIC = [
    _names("field", *_CELLS),
    _names("joker", *_CELLS),
    _names("kind", *_KINDS),
    *([name] for name in ("size", "revolution", "lock", "idle", "to give", "game")),
    _images("played", _ALL),
    *(_names(name, *_ALL) for name in ("left", "passed", "place", "class", "owner", "turn")),
]
_HANDS = [_images("hand", _ALL), _images("gave", _ALL), _names("gift", *_IMAGE)]

CHANNELS = tuple(chain(*_OWN, *_PUBLIC))
"""Names of the planes of an observation."""
STATE_CHANNELS = tuple(chain(*_HANDS, *_PUBLIC))
"""Names of the planes of a state."""


def _starts(groups: list[list[str]]) -> Iterator[int]:
    """Return the first channel of each group, and the number of channels."""
    return accumulate(map(len, groups), initial=0)


_HAND, _UNSEEN, _GAVE, _GIFT, _KNOWN, _FIRST_PUBLIC = _starts(_OWN)
_STATE_HANDS, _STATE_GAVE, _STATE_GIFT, _STATE_PUBLIC = _starts(_HANDS)
_FIELD, _JOKER, _KIND, _SIZE, *_REST = _starts(_PUBLIC)
_REVOLUTION, _LOCK, _IDLE, _TO_GIVE, _GAME, *_BY_PLAYER = _REST
_PLAYED, _LEFT, _PASSED, _PLACE, _CLASS, _OWNER, _TURN, _ = _BY_PLAYER


@njit(void(uint64, int8[:, ::1], int64), cache=True)
def _write_cards(cards: Word, planes: Planes, at: int) -> None:
    """Write a card image from channel `at` on."""
    rest = np.uint64(cards) & np.uint64(NATURALS)
    if cards != rest:
        planes[at + 4] = 1
    while rest:
        card = lowest(rest)
        planes[at + card % 4, card // 4 + 1] = 1
        rest &= rest - np.uint64(1)


@njit(void(int64, int8[:, ::1], int64), cache=True)
def _write_number(number: int, planes: Planes, at: int) -> None:
    """Write the binary digits of a number >= 0, the lowest first."""
    for digit in range(N_COLUMNS):
        planes[at, digit] = number >> digit & 1


@njit(void(int64, int8[:, ::1], int64), cache=True)
def _write_field(play: int, planes: Planes, at: int) -> None:
    """Write the play on the field: its cells, its kind and its size."""
    _write_cards(CARDS[play] & np.uint64(NATURALS), planes, at + _FIELD)
    cell = JOKER_CELL[play]
    if cell >= 0 and play != LONE_JOKER:
        row, column = cell // N_COLUMNS, cell % N_COLUMNS
        planes[at + _FIELD + row, column] = 1
        planes[at + _JOKER + row, column] = 1
    planes[at + _KIND + KIND[play]] = 1
    planes[at + _SIZE, SIZE[play]] = 1


@njit(void(GameType, int8[:, ::1], int64), cache=True)
def _write_flags(game: Game, planes: Planes, at: int) -> None:
    """Write the flags, the numbers of passes and cards to give, and the number of the game."""
    planes[at + _REVOLUTION] = game.revolution
    planes[at + _LOCK] = game.lock
    _write_number(game.idle, planes, at + _IDLE)
    planes[at + _TO_GIVE, game.to_give] = 1
    before = max(game.number - 1, 0)
    every = game.class_reset_every
    _write_number(before % every if every > 0 else before, planes, at + _GAME)


@njit(void(GameType, int64, int64, int8[:, ::1], int64), cache=True)
def _write_player(game: Game, player: int, i: int, planes: Planes, at: int) -> None:
    """Write the public information about the `i`-th player."""
    _write_cards(game.played[player], planes, at + _PLAYED + 5 * i)
    planes[at + _LEFT + i, game.left[player]] = 1
    planes[at + _PASSED + i] = game.passed >> player & 1
    if game.places[player] >= 0:
        planes[at + _PLACE + i, game.places[player]] = 1
    if game.classes[player] >= 0:
        planes[at + _CLASS + i, game.classes[player]] = 1
    planes[at + _OWNER + i] = game.field != PASS and game.last == player
    planes[at + _TURN + i] = game.turn == player


@njit(void(GameType, int64, int8[:, ::1], int64), cache=True)
def _write_public(game: Game, first: int, planes: Planes, at: int) -> None:
    """Write public information from channel `at` on; players are counted from `first` on."""
    _write_field(game.field, planes, at)
    _write_flags(game, planes, at)
    seat = seat_of(game, first)
    for i in range(N_PLAYERS):
        _write_player(game, game.seats[(seat + i) % N_PLAYERS], i, planes, at)


@njit(void(GameType[::1], int8[:, ::1]), cache=True)
def write_view_planes(views: Games, planes: Planes) -> None:
    """Write the planes of the view `views[0]`."""
    view = views[0]
    viewer = view.viewer
    hand = view.hands[viewer]
    _write_cards(hand, planes, _HAND)
    _write_cards(unseen_cards(view, viewer), planes, _UNSEEN)
    _write_cards(view.given[viewer], planes, _GAVE)
    _write_cards(view.gift, planes, _GIFT)
    seat = seat_of(view, viewer)
    for i in range(1, N_PLAYERS):
        other = view.seats[(seat + i) % N_PLAYERS]
        _write_cards(known_cards(view, other), planes, _KNOWN + 5 * (i - 1))
    _write_public(view, viewer, planes, _FIRST_PUBLIC)


@njit(void(GameType[::1], int8[:, ::1]), cache=True)
def write_state_planes(games: Games, planes: Planes) -> None:
    """Write the state of the game `games[0]`."""
    game = games[0]
    seat = seat_of(game, 0)
    for i in range(N_PLAYERS):
        player = game.seats[(seat + i) % N_PLAYERS]
        _write_cards(game.hands[player], planes, _STATE_HANDS + 5 * i)
        _write_cards(game.given[player], planes, _STATE_GAVE + 5 * i)
    _write_cards(game.gift, planes, _STATE_GIFT)
    _write_public(game, 0, planes, _STATE_PUBLIC)


@njit(int64(GameType, int64, int64[::1]), cache=True)
def write_actions(game: Game, player: int, out: Numbers) -> int:
    """Write the legal actions of a player; return their number.

    The player in turn may pass or make a legal play; in the exchange it may give each card that it
    has not chosen yet. All others may only pass.

    Args:
        game: the game, or the player's view.
        player: the player.
        out: `int64[N_PLAYS]`, written from its start.
    """
    n = 0
    if game.turn == player and game.to_give > 0:
        for card in range(N_CARDS):
            if is_givable(game, card):
                out[n] = 1 + card
                n += 1
        return n
    if game.turn == player:
        n = write_legal(game, out)
    out[n] = PASS
    return n + 1


@njit(void(GameType[::1], int64, int8[::1]), cache=True)
def write_mask(games: Games, player: int, mask: Planes) -> None:
    """Write the legal actions of a player (see `write_actions`) in `games[0]`."""
    actions = np.empty(N_PLAYS, np.int64)
    for i in range(write_actions(games[0], player, actions)):
        mask[actions[i]] = 1


@njit(void(GameType[::1], int64, GameType[::1], int8[:, ::1]), cache=True)
def observe(games: Games, player: int, views: Games, planes: Planes) -> None:
    """Write the observation of a player of the game `games[0]`; overwrites `views[0]`."""
    write_view(games[0], player, views)
    write_view_planes(views, planes)


def view_planes(view: Game) -> Planes:
    """Return the observation of a view: `int8[116, 15]`.

    Raises:
        ValueError: a whole game, or a field out of its range.
    """
    planes = np.zeros((len(CHANNELS), N_COLUMNS), np.int8)
    write_view_planes(_as_array(check_view(view)), planes)
    return planes


def view_mask(view: Game) -> Planes:
    """Return the legal actions of a view's player: `int8[2422]`, see `write_mask`.

    Raises:
        ValueError: a whole game, or a field out of its range.
    """
    mask = np.zeros(N_PLAYS, np.int8)
    write_mask(_as_array(check_view(view)), int(view["viewer"]), mask)
    return mask


def state_planes(game: Game) -> Planes:
    """Return the state of a whole game: `int8[131, 15]`.

    Raises:
        ValueError: a field out of its range.
    """
    planes = np.zeros((len(STATE_CHANNELS), N_COLUMNS), np.int8)
    write_state_planes(_as_array(check_fields(game)), planes)
    return planes


def _as_array(game: Game) -> Games:
    """Return a copy of a game record as an array of one, which kernels take faster."""
    games = np.empty(1, GAME)
    games[0] = game
    return games
