"""Matches: games in which seats, classes and points are carried on.

A match is one record of `rules.GAME`, from game to game:

    match = new_match(seed=1)
    next_game(match)            # deals game 1
    ...                         # `rules.play` until match["turn"] is -1
    next_game(match)            # deals game 2, with the classes of game 1
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, void

from afterstate.envs.daihinmin.rules import (
    DAIFUGO,
    GAME,
    N_PLAYERS,
    Game,
    GameType,
    Options,
    deal,
    draw,
    of_class,
    start,
)
from afterstate.envs.words import next_random, whole

CLASS_VALUES = (9.72, 7.23, 3.66, 1.44, 0.0)
"""What a finishing place is worth among good players, far from the next class reset: its points and
those that its class brings in the games that follow, from daifugo to daihinmin, whose is 0. (The
points alone would be 4, 3, 2, 1, 0.)"""


def new_match(seed: Any = 0, options: Options | None = None) -> Game:
    """A match before its first game.

    Args:
        seed: a whole number, or 64 random bits. How the pack of game n is shuffled, and what else
            chance does in it, depends on the seed and on n alone; the deal begins at the daifugo.
        options: the rules, by default the competition's.

    Raises:
        ValueError: a wrong seed or option.
    """
    chosen = Options() if options is None else options
    number = whole(seed)
    if number is None:
        raise ValueError(f"seed is a whole number, got {seed!r}")
    _check(chosen)
    match = np.zeros(1, GAME)[0]
    match["seed"] = number % 2**64
    match["viewer"] = match["turn"] = match["starter"] = match["classes"] = -1
    match["joker_column"] = 14
    match["seats"] = range(N_PLAYERS)
    for option, value in chosen._asdict().items():
        match[option] = int(value)
    return match


def _check(options: Any) -> None:
    """Raises a ValueError unless these are options of the rules."""
    if not isinstance(options, Options):
        raise ValueError(f"the rules are an `Options` record, got {options!r}")
    numbers = [whole(n) for n in options[-3:]]
    if any(n is None or not 0 <= n < 2**62 for n in numbers) or not 1 <= options.idle_limit <= 20:
        raise ValueError(f"periods are numbers from 0 on, idle_limit 1 to 20, got {options}")


def options_of(game: Game) -> Options:
    """The rules of a game."""
    return Options(*(type(value)(game[name]) for name, value in Options()._asdict().items()))


@njit(void(GameType), cache=True)
def _clear(game: Game) -> None:
    """Empties what belongs to one game; the hands are dealt anew anyway."""
    for player in range(N_PLAYERS):
        game.played[player] = game.given[player] = 0
        game.places[player] = -1
    game.gift = 0
    game.field = game.revolution = game.lock = game.cut = game.passed = game.idle = 0
    game.n_out = game.n_actions = 0
    game.joker_column = 14
    game.starter = -1


@njit(void(GameType), cache=True)
def _seat(game: Game) -> None:
    """Draws the seats."""
    for i in range(N_PLAYERS):
        j = i + draw(game, N_PLAYERS - i)
        game.seats[i], game.seats[j] = game.seats[j], game.seats[i]


@njit(void(GameType), cache=True)
def set_up(game: Game) -> None:
    """Numbers the next game and gives it classes and seats, before its cards are dealt."""
    before = game.number
    game.number += 1
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
    """Deals the cards of a game that is set up, and starts it."""
    dealer = of_class(game, DAIFUGO)
    if dealer < 0:
        dealer = draw(game, N_PLAYERS)
    deal(game, dealer)
    start(game)


@njit(void(GameType), cache=True)
def next_game(game: Game) -> None:
    """Starts the next game of a match: classes, seats, deal, and what the poor give away."""
    set_up(game)
    begin(game)
