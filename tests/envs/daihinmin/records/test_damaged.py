"""Functions of Python that take a record of a game: they show it, or name what is wrong with it.

A record with a field out of its range would make kernels read and write beyond arrays; with
`NUMBA_BOUNDSCHECK=1` that is an IndexError.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from afterstate.envs.daihinmin import observation, render, views
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.plays import cells, text
from afterstate.envs.daihinmin.records import recording
from afterstate.envs.daihinmin.rules import GAME, Game, draw_play, give, play

READERS: dict[str, Callable[[Game], Any]] = {
    "view_planes": observation.view_planes,
    "view_mask": observation.view_mask,
    "state_planes": observation.state_planes,
    "determinise": lambda game: views.determinise(game, np.random.default_rng(1)),
    "view": lambda game: views.view(game, 1),
    "ansi": render.ansi,
    "rgb_array": render.rgb_array,
    "history": render.history,
    "legal_plays": views.legal_plays,
    "play_and_record": lambda game: recording.play_and_record(game, 5),
    "give_and_record": lambda game: recording.give_and_record(game, 1),
    "deal_entry": lambda game: recording.deal_entry(game, ["a"] * 5, "x"),
}
CHECKED = [name for name in READERS if name not in ("view", "deal_entry")]
FAR = [2**40, -9_999_999, 10**9, -(10**9), 6, 53, 255, -2, 127, 2422]


def positions() -> Iterator[Game]:
    """Yield some positions of a match, and what a player sees of each."""
    match, out = new_match(3), np.empty(2422, np.int64)
    for _ in range(2):
        next_game(match)
        while match["to_give"]:
            yield from (match.copy(), views.view(match, int(match["turn"])))
            give(match, 0)
        for _ in range(8):
            play(match, draw_play(match, out))
        yield from (match.copy(), views.view(match, int(match["turn"])))
        while match["turn"] >= 0:
            play(match, draw_play(match, out))


def damaged(n: int, seed: int) -> Iterator[tuple[str, Game]]:
    """Yield records with one wrong number, and the field that has it."""
    rng, starts = random.Random(seed), list(positions())
    for _ in range(n):
        game, name = rng.choice(starts).copy(), rng.choice(list(GAME.names or ()))
        field = game[name]
        limits = np.iinfo(field.dtype) if field.dtype.kind in "iu" else None
        value: Any = rng.choice([*FAR, rng.randrange(2**63)])
        if limits is not None:
            value = max(limits.min, min(limits.max, value))
        if field.shape:
            game[name][rng.randrange(len(field))] = value
        else:
            game[name] = value
        yield name, game


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_wrong_number_does_no_harm(name: str) -> None:
    if name == "rgb_array":
        pytest.importorskip("PIL")
    for _, game in damaged(100 if name == "rgb_array" else 1_000, 7):
        try:
            READERS[name](game)
        except ValueError as error:
            assert str(error)


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize(
    ("field", "place", "value"),
    [
        ("field", None, 2**40),
        ("seats", 0, 10**7),
        ("left", 2, 10**9),
        ("classes", 0, 10**8),
        ("places", 0, 10**9),
        ("viewer", None, 10**6),
        ("n_actions", None, 10**9),
    ],
)
def test_a_field_out_of_its_range_is_named(
    name: str, field: str, place: int | None, value: int
) -> None:
    if name == "rgb_array":
        pytest.importorskip("PIL")
    *_, game = positions()
    if place is None:
        game[field] = value
    else:
        game[field][place] = value
    with pytest.raises(ValueError, match=f"{field} of a game must be in"):
        READERS[name](game)


def test_a_whole_game_is_no_view() -> None:
    game = next(positions())
    for name in ("view_planes", "view_mask", "determinise"):
        with pytest.raises(ValueError, match="got a whole game"):
            READERS[name](game)


def test_four_names_are_too_few() -> None:
    for shown in (render.ansi, render.history):
        with pytest.raises(ValueError, match="names must have 5 entries, got 4"):
            shown(next(positions()), ["a"] * 4)


@pytest.mark.parametrize("number", [-1, 2422, 10**9])
def test_plays_have_numbers_below_2422(number: int) -> None:
    for shown in (text, cells):
        with pytest.raises(ValueError, match=r"play must be an integer in 0\.\.2421"):
            shown(number)
