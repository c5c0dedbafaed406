"""Public functions of the environments raise ValueError, and nothing else, for wrong arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from copy import deepcopy
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from afterstate.envs import checks, words
from afterstate.envs.daihinmin import arguments, cards, match, observation, plays, views
from afterstate.envs.daihinmin import players as daihinmin_players
from afterstate.envs.daihinmin import render as daihinmin_render
from afterstate.envs.daihinmin.records import recording, validity
from afterstate.envs.daihinmin.rules import Rules
from afterstate.envs.game2048 import batch, games, render, rules

WRONG: list[Any] = [
    *(None, "", "x", b"x", True, -1, 1.5, float("nan"), 2**70, object(), print),
    *([], [1], [[]], ["a", "b"], {}, {1: 2}, {3, 4}, range(3), (4, 4, 4), [[1, 2], [3]]),
    *(np.array(1.5), np.zeros((2, 2)), np.zeros((0, 4), np.uint8), np.zeros((8, 1), np.int8)),
    *(np.zeros((3, 2, 5), np.uint8), np.full((1, 2, 2), 99, np.uint8), np.array(["a"])),
    *(np.array([None]), np.datetime64("2020-01-01"), np.zeros(2, [("turn", "i8")])),
]
_BOARD, _WORD = [[1, 0], [2, 3]], 0x10021
_GAMES = games.new_games(1)
_GAME = match.new_match(5)
match.begin(_GAME)
_VIEW = views.view(_GAME, int(_GAME["turn"]))
_PIECES = {"generator": np.random.default_rng(1), "rng": np.random.default_rng(2)}
_SIZE = {"rows": 2, "cols": 2}

VALID: dict[Callable[..., Any], dict[str, Any]] = {
    rules.table: _SIZE,
    rules.check_size: _SIZE,
    rules.size_of: {"size": (2, 2)},
    rules.words: {"exponents": _BOARD},
    rules.cells: {"boards": _WORD, **_SIZE},
    rules.check_words: {"boards": _WORD, **_SIZE},
    rules.check_word: {"board": _WORD, **_SIZE},
    rules.check_tile: {"name": "until", "tile": 4},
    rules.check_cells: {"exponents": _BOARD},
    rules.from_text: {"text": "2 _"},
    rules.to_text: {"board": _WORD, **_SIZE},
    games.new_games: {"n": 1},
    games.are_games: {"games": _GAMES},
    games.check_games: {"games": _GAMES},
    games.outcomes: {"after": np.array(_BOARD, np.uint8)},
    batch.read: {"games": _GAMES, "at": games.BOARD, **_SIZE},
    batch.board_words: {"games": _GAMES, **_SIZE},
    batch.max_tiles: {"games": _GAMES},
    batch.masks: {"games": _GAMES},
    batch.afterstates: {"games": _GAMES, **_SIZE},
    batch.one_hot: {"boards": np.array([_BOARD], np.uint8)},
    batch.put: {"games": _GAMES, "boards": np.array([_BOARD], np.uint8)},
    render.ansi: {"cells": _BOARD, "score": 8},
    render.rgb_array: {"cells": _BOARD, "score": 8, "tile": 20},
    render.svg: {"cells": _BOARD, "score": 8},
    words.stream_of: {"generator": _PIECES["generator"]},
    checks.check_seed: {"seed": 3},
    words.seed_word: {"seed": 3},
    words.draw_word: {"generator": _PIECES["generator"]},
    checks.as_array: {"values": [1]},
    checks.as_index: {"value": 1},
    checks.as_int: {"number": 1},
    cards.check_card: {"card": 3},
    cards.check_set: {"cards": 3},
    cards.card_text: {"card": 3},
    cards.text: {"cards": 3},
    cards.numbers: {"cards": 3},
    cards.parse: {"text": "S3 H3"},
    plays.cells: {"play": 60},
    plays.text: {"play": 60},
    plays.parse: {"text": "S3 H3"},
    plays.single: {"card": 3},
    match.new_match: {"seed": 3, "rules": Rules()},
    views.view: {"game": _GAME, "player": 1},
    views.determinise: {"view": _VIEW, "rng": _PIECES["rng"]},
    observation.view_planes: {"view": _VIEW},
    observation.view_mask: {"view": _VIEW},
    observation.state_planes: {"game": _GAME},
    views.legal_plays: {"game": _GAME},
    recording.deal_entry: {"game": _GAME, "names": list("abcde"), "match": "m"},
    recording.give_and_record: {"game": _GAME, "chosen": 1},
    recording.lead_entry: {"game": _GAME},
    recording.play_and_record: {"game": _GAME, "play": 0, "text": None, "legal": True},
    recording.finishing_order: {"game": _GAME},
    arguments.check_action: {"action": 1},
    arguments.check_opening: {"options": {}},
    arguments.check_deal: {"hands": []},
    validity.status: {"game": _GAME},
    validity.check_game: {"game": _GAME},
    validity.check_record: {"game": _GAME},
    validity.check_fields: {"game": _GAME},
    validity.check_view: {"view": _VIEW},
    validity.check_asked: {"view": _VIEW, "plays": True},
    arguments.check_state: {"state": {}},
    daihinmin_players.check_turn: {"view": _VIEW, "plays": True},
    daihinmin_players.actions_of: {"player": daihinmin_players.RandomPlayer(1), "view": _VIEW},
    daihinmin_players.check_player: {"player": daihinmin_players.RandomPlayer(1)},
    daihinmin_players.is_random: {"player": "random"},
    daihinmin_players.resolve: {"player": "random", "seed": 1},
    daihinmin_players.compiled: {"player": "random"},
    daihinmin_render.ansi: {"game": _GAME, "names": list("abcde")},
    daihinmin_render.rgb_array: {"game": _GAME, "names": list("abcde")},
    daihinmin_render.history: {"game": _GAME, "names": list("abcde")},
}
"""Valid arguments of the public functions."""

CALLED_WITH_CHECKED_VALUES = {
    *(checks.check_count, checks.check_text, checks.check_length, checks.check_one_of),
    *(
        checks.check_options,
        checks.described,
        arguments.check_settings,
        arguments.check_order,
        validity.check_out,
    ),
    *(arguments.check_names, arguments.is_over, daihinmin_players.returned, recording.counts),
}
"""Functions that only other checks call, with names of settings or with records they checked."""


def _functions(module: ModuleType) -> Iterator[Callable[..., Any]]:
    """Yield the public functions that a module defines in Python, which are no kernels."""
    for name, value in vars(module).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            if value.__module__ == module.__name__:
                yield value


def test_all_public_functions_are_tested() -> None:
    modules = [rules, games, batch, render, checks, words, cards, plays, match, views, observation]
    modules += [recording, validity, arguments, daihinmin_players, daihinmin_render]
    public = {function for module in modules for function in _functions(module)}
    assert public == VALID.keys() | CALLED_WITH_CHECKED_VALUES


@pytest.mark.parametrize("function", VALID, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_wrong_arguments_raise_nothing_but_value_errors(function: Callable[..., Any]) -> None:
    for name in VALID[function]:
        for wrong in WRONG:
            try:
                function(**deepcopy(VALID[function]) | {name: wrong})
            except ValueError:
                pass
            except Exception as error:
                pytest.fail(f"{name}={wrong!r}: {type(error).__name__}: {error}")
