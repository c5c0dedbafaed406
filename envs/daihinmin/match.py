"""Matches: series of games that carry over seats, classes and points.

A match is one record of `rules.GAME`, which each game reuses:

    match = new_match(seed=1)
    next_game(match)            # deals game 1
    ...                         # `rules.play` until match["turn"] is -1
    next_game(match)            # deals game 2, with the classes of game 1
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit, uint64, void

from afterstate.envs.checks import as_int
from afterstate.envs.daihinmin.cards import count
from afterstate.envs.daihinmin.plays import Numbers
from afterstate.envs.daihinmin.rules import (
    DAIFUGO,
    GAME,
    LAST_NUMBER,
    MAX_IDLE,
    N_PLAYERS,
    Game,
    GameType,
    Rules,
    clear_play,
    deal,
    draw,
    of_class,
    start,
)
from afterstate.envs.messages import shown
from afterstate.envs.words import Words, next_random

POINTS = (5.0, 4.0, 3.0, 2.0, 1.0)
"""Points of each finishing place, from daifugo to daihinmin."""
CLASS_VALUES = (9.72, 7.23, 3.66, 1.44, 0.0)
"""Value of each finishing place among good players, far from the next class reset: its points and
the points that its class brings in the following games, from daifugo to daihinmin, less those of
daihinmin. (The points alone would be 4, 3, 2, 1, 0.) By the places of the games in
`agents.daihinmin.afterstates.class_values.TRANSITIONS` they are the same within 0.1."""


def new_match(seed: Any = 0, rules: Rules | None = None) -> Game:
    """Return a match before its first game.

    Args:
        seed: an integer >= 0, of which the lowest 64 bits count. The shuffle of game n and all
            other chance in it depend on the seed and n alone; the deal begins at the daifugo.
        rules: the rules, by default the competition's.

    Raises:
        ValueError: a wrong seed or rule.
    """
    rules = Rules() if rules is None else _checked(rules)
    number = as_int(seed)
    if number is None or number < 0:
        raise ValueError(f"seed must be an integer >= 0, got {shown(seed)}")
    match: Game = np.zeros(1, GAME)[0]
    match["seed"] = number % 2**64
    match["viewer"] = match["turn"] = match["starter"] = match["classes"] = -1
    match["joker_column"] = 14
    match["seats"] = range(N_PLAYERS)
    for name, value in rules._asdict().items():
        match[name] = int(value)
    return match


def _checked(rules: Any) -> Rules:
    """Return rules, which may be a list of them all, as JSON has a record.

    Raises:
        ValueError: they are none.
    """
    if isinstance(rules, list) and len(rules) == len(Rules._fields):
        rules = Rules(*rules)
    if not isinstance(rules, Rules):
        raise ValueError(f"rules must be a `Rules` record, got {shown(rules)}")
    for name, value in zip(rules._fields[:-3], rules[:-3], strict=True):
        if not isinstance(value, (bool, np.bool_)) and as_int(value) not in (0, 1):
            raise ValueError(f"{name} of rules must be True or False, got {shown(value)}")
    numbers = [as_int(n) for n in rules[-3:]]
    is_in_range = all(n is not None and 0 <= n < 2**62 for n in numbers)
    if not is_in_range or not 1 <= rules.idle_limit <= MAX_IDLE:
        raise ValueError(
            "reseat_every and class_reset_every must be integers >= 0, and idle_limit in "
            f"1..{MAX_IDLE}, got {shown(rules)}"
        )
    return rules


@njit(void(GameType), cache=True)
def _clear(game: Game) -> None:
    """Clear the fields of one game, but for the hands, which are dealt later."""
    clear_play(game)
    for player in range(N_PLAYERS):
        game.given[player] = 0
    game.gift = 0
    game.starter = -1


@njit(void(GameType), cache=True)
def _seat(game: Game) -> None:
    """Draw the seats."""
    for i in range(N_PLAYERS):
        j = i + draw(game, N_PLAYERS - i)
        game.seats[i], game.seats[j] = game.seats[j], game.seats[i]


@njit(void(GameType), cache=True)
def set_up(game: Game) -> None:
    """Set number, classes and seats of the next game, before its cards are dealt."""
    before = game.number
    game.number = min(game.number + 1, LAST_NUMBER)
    _, game.rng = next_random(game.seed + np.uint64(game.number) * np.uint64(0xD134_2543_DE82_EF95))
    every = game.class_reset_every
    reset = before == 0 or (every > 0 and before % every == 0)
    for player in range(N_PLAYERS):
        game.classes[player] = -1 if reset else game.places[player]
    if before == 0 or (game.reseat_every > 0 and before % game.reseat_every == 0):
        _seat(game)
    _clear(game)


@njit(void(GameType), cache=True)
def begin(game: Game) -> None:
    """Deal the cards of a game after `set_up`, and start it."""
    dealer = of_class(game, DAIFUGO)
    if dealer < 0:
        dealer = draw(game, N_PLAYERS)
    deal(game, dealer)
    start(game)


@njit(void(GameType, int64[::1], int64[::1], uint64[::1]), cache=True)
def first_game(game: Game, seats: Numbers, classes: Numbers, hands: Words) -> None:
    """Start the first game of a match, with seats, classes and dealt hands where they are given.

    Args:
        game: the match.
        seats: the player at each seat; drawn if empty.
        classes: classes by player; none if empty.
        hands: hands by player; dealt at random if empty.
    """
    set_up(game)
    for seat in range(len(seats)):  # assigning a whole array takes three seconds more to compile
        game.seats[seat] = seats[seat]
    for player in range(len(classes)):
        game.classes[player] = classes[player]
    if not len(hands):
        begin(game)
        return
    for player in range(N_PLAYERS):
        game.hands[player] = hands[player]
        game.left[player] = count(hands[player])
    start(game)


@njit(void(GameType), cache=True)
def next_game(game: Game) -> None:
    """Start the next game of a match: classes, seats, deal, and the gifts of the poor."""
    set_up(game)
    begin(game)
