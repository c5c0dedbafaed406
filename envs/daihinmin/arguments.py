"""Checks of the arguments of the Daihinmin environments: settings, actions and deals."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from afterstate.envs.daihinmin import cards
from afterstate.envs.daihinmin.match import CLASS_VALUES, first_game
from afterstate.envs.daihinmin.plays import N_PLAYS, Numbers
from afterstate.envs.daihinmin.rules import GAME, MAX_ACTIONS, N_PLAYERS, Game
from afterstate.envs.words import Words, check_count, check_one_of, whole

EXCHANGES = ("agent", "auto")
OBSERVATIONS = ("dict", "planes")
ILLEGAL = ("pass", "terminate", "raise")
REWARDS = {
    "points": (5.0, 4.0, 3.0, 2.0, 1.0),
    "zero_sum": (2.0, 1.0, 0.0, -1.0, -2.0),
    "class_value": CLASS_VALUES,
}
"""Reward of each finishing place, by the name of the setting `reward`."""


def check_settings(games: int, exchange: str, reward: str, observation: str, illegal: str) -> None:
    """Raise ValueError for a wrong setting of an environment."""
    check_count("games", games)
    check_one_of(EXCHANGES, exchange=exchange)
    check_one_of(tuple(REWARDS), reward=reward)
    check_one_of(OBSERVATIONS, observation=observation)
    check_one_of(ILLEGAL, illegal=illegal)


def check_action(action: Any) -> int:
    """Return the action as an int.

    Raises:
        ValueError: not an integer in 0..2421.
    """
    try:
        number = operator.index(action)
    except TypeError:
        number = -1
    if not 0 <= number < N_PLAYS or isinstance(action, bool):
        raise ValueError(f"action must be an integer in 0..{N_PLAYS - 1}, got {action!r}")
    return number


class Opening(NamedTuple):
    """Seats, classes and hands of a first game: see `match.first_game`."""

    seats: Numbers = np.empty(0, np.int64)
    classes: Numbers = np.empty(0, np.int64)
    hands: Words = np.empty(0, np.uint64)


def check_opening(options: dict[str, Any]) -> Opening:
    """Return seats, classes and deal of the reset options.

    Raises:
        ValueError: wrong options.
    """
    given = {name: value for name, value in options.items() if value is not None}
    seats, classes = (
        check_order(name, given[name]) if name in given else [] for name in ("seats", "classes")
    )
    hands = check_deal(given["deal"]) if "deal" in given else []
    return Opening(
        np.array(seats, np.int64), np.array(classes, np.int64), np.array(hands, np.uint64)
    )


def start_match(match: Game, options: dict[str, Any]) -> None:
    """Start the first game of a match, with seats, classes and deal of the reset options, if any.

    Raises:
        ValueError: wrong options.
    """
    first_game(match, *check_opening(options))


def check_order(name: str, order: Any) -> list[int]:
    """Return an order of the numbers 0 to 4 as a list.

    Raises:
        ValueError: it does not have each number exactly once.
    """
    numbers = [whole(number) for number in order] if isinstance(order, Iterable) else []
    if set(numbers) != set(range(N_PLAYERS)) or len(numbers) != N_PLAYERS:
        raise ValueError(f"{name} must have each number from 0 to 4 once, got {order!r}")
    return [number for number in numbers if number is not None]


def check_deal(hands: Any) -> list[int]:
    """Return five hands in notation as card sets.

    Raises:
        ValueError: they are not the whole pack, or a hand does not have 10 or 11 cards.
    """
    if not isinstance(hands, Iterable) or not all(isinstance(hand, str) for hand in hands):
        raise ValueError(f"deal must be five hands in notation, got {hands!r}")
    parsed = [cards.parse(hand) for hand in hands]
    sizes = [cards.count(hand) for hand in parsed]
    if len(parsed) != N_PLAYERS or not set(sizes) <= {10, 11} or sum(sizes) != cards.N_CARDS:
        raise ValueError(
            f"deal must be five hands of 10 or 11 cards, 53 in all, got hands of {sizes} cards"
        )
    cards.parse(" ".join(hands))  # raises if a card is dealt twice
    return parsed


_RANGES = {
    "to_give": (0, 2),
    "turn": (-1, N_PLAYERS - 1),
    "field": (0, N_PLAYS - 1),
    "joker_column": (0, 14),
    "revolution": (0, 1),
    "lock": (0, 1),
    "cut": (0, 1),
    "passed": (0, 31),
    "last": (0, N_PLAYERS - 1),
    "idle": (0, 20),
    "starter": (-1, N_PLAYERS - 1),
    "places": (-1, N_PLAYERS - 1),
    "classes": (-1, N_PLAYERS - 1),
    "n_out": (0, N_PLAYERS),
    "n_actions": (0, MAX_ACTIONS),
    "viewer": (-1, -1),
}
"""Ranges of the fields of a whole game, which kernels do not check."""


def check_game(game: Any) -> Game:
    """Return the record of a whole game.

    Raises:
        ValueError: not a record, a view, or a record with impossible values.
    """
    if getattr(game, "dtype", None) != GAME or game.shape != () or game["viewer"] >= 0:
        raise ValueError("the game of a state must be the record of a whole game, not a view")
    for name, (low, high) in _RANGES.items():
        if np.any(game[name] < low) or np.any(game[name] > high):
            raise ValueError(f"{name} of a game must be in {low}..{high}, got {game[name]}")
    counts = [cards.count(hand) for hand in game["hands"]]
    if sorted(game["seats"]) != list(range(N_PLAYERS)) or game["left"].tolist() != counts:
        raise ValueError(
            "seats of a game must be the numbers 0 to 4, and left the sizes of its hands, "
            f"got {game['seats']} and {game['left']}"
        )
    checked: Game = game
    return checked
