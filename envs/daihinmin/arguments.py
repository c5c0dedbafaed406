"""Checks of the arguments of the Daihinmin environments: settings, actions, deals and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from afterstate.envs.checks import as_index, as_int, check_count, check_length, check_one_of
from afterstate.envs.daihinmin import cards
from afterstate.envs.daihinmin.match import CLASS_VALUES, POINTS
from afterstate.envs.daihinmin.plays import N_PLAYS, Numbers
from afterstate.envs.daihinmin.records.validity import check_game
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game
from afterstate.envs.messages import shown
from afterstate.envs.words import Words

AGENTS = tuple(f"player_{number}" for number in range(N_PLAYERS))
"""Agents by player number."""
EXCHANGES = ("agent", "auto")
OBSERVATIONS = ("dict", "planes")
ILLEGAL = ("pass", "terminate", "raise")
REWARDS = {
    "points": POINTS,
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
    number = as_index(action)
    if number is None or not 0 <= number < N_PLAYS:
        raise ValueError(f"action must be an integer in 0..{N_PLAYS - 1}, got {shown(action)}")
    return number


OPTIONS = ("deal", "classes", "seats")
"""Options of a reset: the start of the first game."""


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
    if not isinstance(options, Mapping):
        raise ValueError(f"options must be None or a dict, got {shown(options)}")
    given = {name: value for name, value in options.items() if value is not None}
    seats, classes = (
        check_order(name, given[name]) if name in given else [] for name in ("seats", "classes")
    )
    hands = check_deal(given["deal"]) if "deal" in given else []
    return Opening(
        np.array(seats, np.int64), np.array(classes, np.int64), np.array(hands, np.uint64)
    )


def check_order(name: str, order: Any) -> list[int]:
    """Return an order of the numbers 0 to 4 as a list.

    Raises:
        ValueError: it does not have each number exactly once.
    """
    check_length(name, order, N_PLAYERS)
    numbers = [as_int(number) for number in order] if _is_list(order) else []
    if set(numbers) != set(range(N_PLAYERS)) or len(numbers) != N_PLAYERS:
        raise ValueError(f"{name} must have each number from 0 to 4 once, got {shown(order)}")
    return [number for number in numbers if number is not None]


def _is_list(values: Any) -> bool:
    """Return True for a list and for an array of one axis; their entries are not looked at."""
    is_list = isinstance(values, Sequence) and not isinstance(values, str)
    return is_list or (isinstance(values, np.ndarray) and values.ndim == 1)


def check_deal(hands: Any) -> list[int]:
    """Return five hands in notation as card sets.

    Raises:
        ValueError: they are not the whole pack, or a hand does not have 10 or 11 cards.
    """
    check_length("deal", hands, N_PLAYERS)
    if not _is_list(hands) or not all(isinstance(hand, str) for hand in hands):
        raise ValueError(f"deal must be five hands in notation, got {shown(hands)}")
    parsed = [cards.parse(hand) for hand in hands]
    sizes = [cards.count(hand) for hand in parsed]
    if len(parsed) != N_PLAYERS or not set(sizes) <= {10, 11} or sum(sizes) != cards.N_CARDS:
        raise ValueError(
            f"deal must be five hands of 10 or 11 cards, 53 in all, got hands of {sizes} cards"
        )
    cards.parse(" ".join(hands))  # raises if a card is dealt twice
    return parsed


def check_names(names: Any) -> None:
    """Raise ValueError unless names are one text for each player."""
    check_length("names", names, N_PLAYERS)
    if not _is_list(names) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"names must be {N_PLAYERS} texts, got {shown(names)}")


_Agent = Literal["player_0", "player_1", "player_2", "player_3", "player_4"]
STATE_ATTRIBUTES: dict[str, Any] = {
    "agents": list[_Agent],
    "agent_selection": _Agent,
    **dict.fromkeys(("rewards", "_cumulative_rewards"), dict[_Agent, float]),
    **dict.fromkeys(("terminations", "truncations"), dict[_Agent, bool]),
    "infos": dict[_Agent, dict[str, str | bool | int | np.ndarray]],
    "_skip_agent_selection": _Agent | None,
    "_rewarded": bool,
    **dict.fromkeys(("_games_left", "_n_actions"), int),
    "_generator": np.random.Generator,
}
"""The attributes in a state, besides the game, and their types."""


def check_state(state: Any) -> Game:
    """Return the game record of a state from `get_state`.

    Raises:
        ValueError: not such a state.
    """
    if not isinstance(state, dict) or set(state) != {"game", *STATE_ATTRIBUTES}:
        raise ValueError(f"state must be a dict from get_state(), got {type(state).__name__}")
    for name, adapter in _state_checks().items():
        try:
            adapter.validate_python(state[name])
        except ValueError:
            wrong = f"got {shown(state[name])}"
            raise ValueError(f"{name} of a state must be from get_state(), {wrong}") from None
    _check_agents(state)
    for name, least in (("_games_left", 0 if is_over(state) else 1), ("_n_actions", 0)):
        if state[name] < least:
            raise ValueError(f"{name} of a state must be >= {least}, got {shown(state[name])}")
    game = check_game(state["game"])
    if game["turn"] < 0 and not is_over(state):
        raise ValueError("game of a state must go on while its agents do, got one that is over")
    return game


def _check_agents(state: dict[str, Any]) -> None:
    """Raise ValueError unless all agents of a state play on, or those that are left are done.

    Agents that are done leave in their order.
    """
    agents, over = state["agents"], is_over(state)
    if agents != list(AGENTS[N_PLAYERS - len(agents) if over else 0 :]):
        raise ValueError(
            f"agents of a state must be all, or the last that are left, got {shown(agents)}"
        )
    for name in ("rewards", "terminations", "truncations", "infos", "_cumulative_rewards"):
        if set(state[name]) != set(agents):
            raise ValueError(
                f"{name} of a state must be those of its agents, got {shown(state[name])}"
            )
    done = [a for a in agents if state["terminations"][a] or state["truncations"][a]]
    if over and done != agents:
        raise ValueError(f"agents of a state must be done all or none, got {shown(done)} done")
    selected = state["agent_selection"]
    if over and agents and selected != agents[0]:
        raise ValueError(f"agent_selection of a state must be {agents[0]}, got {shown(selected)}")


@cache
def _state_checks() -> dict[str, Any]:
    """Return the checks of the attributes in a state."""
    from pydantic import ConfigDict, TypeAdapter

    config = ConfigDict(strict=True, arbitrary_types_allowed=True)
    return {name: TypeAdapter(kind, config=config) for name, kind in STATE_ATTRIBUTES.items()}


def is_over(state: dict[str, Any]) -> bool:
    """Return True if the episode of a state has ended."""
    ends = *state["terminations"].values(), *state["truncations"].values()
    return any(ends) or not state["agents"]
