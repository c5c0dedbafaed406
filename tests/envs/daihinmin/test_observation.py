"""Planes and masks equal slow versions written from the table of channels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.observation import (
    CHANNELS,
    STATE_CHANNELS,
    state_planes,
    view_mask,
    view_planes,
)
from afterstate.envs.daihinmin.rules import (
    N_PLAYERS,
    Game,
    Rules,
    draw_play,
    give_card,
    partner,
    play,
    write_legal,
)
from afterstate.envs.daihinmin.views import view

PLAYERS = range(N_PLAYERS)
SUITS = "SHDC"
KINDS = ("empty", "single", "group", "sequence", "joker")


def bits(word: Any) -> set[int]:
    return {card for card in range(53) if int(word) >> card & 1}


def positions(seed: int, games: int, rules: Rules | None = None) -> Iterator[Game]:
    """Yield every position of a random match, gifts one card at a time, and the ends of games."""
    match, rng = new_match(seed, rules), np.random.default_rng(seed)
    out = np.empty(plays.N_PLAYS, np.int64)
    for _ in range(games):
        next_game(match)
        while match["turn"] >= 0:
            yield match
            if match["to_give"]:
                hand = bits(match["hands"][match["turn"]])
                give_card(match, int(rng.choice(sorted(hand - bits(match["gift"])))))
            else:
                play(match, draw_play(match, out))
        yield match


def order(game: Game, first: int) -> list[int]:
    """Return the players in the order of play, from the first on."""
    seats = game["seats"].tolist()
    at = seats.index(first)
    return [*seats[at:], *seats[:at]]


def played(game: Game) -> list[set[int]]:
    """Return the cards that each player has played, from the list of actions."""
    sets: list[set[int]] = [set() for _ in PLAYERS]
    for action in game["actions"][: game["n_actions"]].tolist():
        sets[action // 2422] |= bits(plays.CARDS[action % 2422])
    return sets


def row(columns: Any) -> list[int]:
    return [int(column in columns) for column in range(15)]


def flag(value: Any) -> list[int]:
    return [int(bool(value))] * 15


def digits(number: int) -> list[int]:
    return [int(digit) for digit in reversed(f"{number:015b}")]


def image(name: str, held: set[int]) -> dict[str, list[int]]:
    planes = {
        f"{name} {suit}": row({card // 4 + 1 for card in held - {52} if card % 4 == i})
        for i, suit in enumerate(SUITS)
    }
    return {**planes, f"{name} JO": flag(52 in held)}


def field_planes(number: int) -> dict[str, list[int]]:
    naturals, joker = plays.cells(number)
    stands = [joker] if joker is not None and number != plays.LONE_JOKER else []
    planes = {}
    for i, suit in enumerate("SHDCX"):
        planes[f"field {suit}"] = row({column for r, column in naturals + stands if r == i})
        planes[f"joker {suit}"] = row({column for r, column in stands if r == i})
    for i, kind in enumerate(KINDS):
        planes[f"kind {kind}"] = flag(plays.KIND[number] == i)
    return {**planes, "size": row({plays.SIZE[number]})}


def open_planes(game: Game, first: int) -> dict[str, list[int]]:
    every, before = int(game["class_reset_every"]), int(game["number"]) - 1
    planes = field_planes(int(game["field"]))
    planes["revolution"], planes["lock"] = flag(game["revolution"]), flag(game["lock"])
    planes["idle"], planes["to give"] = digits(int(game["idle"])), row({game["to_give"]})
    planes["game"] = digits(before % every if every else before)
    laid = played(game)
    for i, player in enumerate(order(game, first)):
        planes |= image(f"played {i}", laid[player])
        planes[f"left {i}"] = row({game["left"][player]})
        planes[f"passed {i}"] = flag(int(game["passed"]) & 1 << player)
        planes[f"place {i}"] = row({game["places"][player]})
        planes[f"class {i}"] = row({game["classes"][player]})
        planes[f"owner {i}"] = flag(game["field"] != 0 and game["last"] == player)
        planes[f"turn {i}"] = flag(game["turn"] == player)
    return planes


def observed(game: Game, viewer: int) -> dict[str, list[int]]:
    """Return the planes of an observation, from the whole game."""
    hand, seen = bits(game["hands"][viewer]), set().union(*played(game))
    gave = bits(game["given"][viewer])
    planes = image("hand", hand) | image("unseen", set(range(53)) - hand - seen)
    planes |= image("gave", gave)
    planes |= image("gift", bits(game["gift"]) if game["turn"] == viewer else set())
    for i, player in enumerate(order(game, viewer)):
        known = set(gave) if player == partner(game, viewer) else set()
        known |= {2} if player == game["starter"] else set()
        if i:
            planes |= image(f"known {i}", known - hand - seen)
    return planes | open_planes(game, viewer)


def stated(game: Game) -> dict[str, list[int]]:
    """Return the planes of a state."""
    planes: dict[str, list[int]] = {}
    for i, player in enumerate(order(game, 0)):
        planes |= image(f"hand {i}", bits(game["hands"][player]))
        planes |= image(f"gave {i}", bits(game["given"][player]))
    return planes | image("gift", bits(game["gift"])) | open_planes(game, 0)


def named(channels: tuple[str, ...], planes: Any) -> dict[str, list[int]]:
    return dict(zip(channels, planes.tolist(), strict=True))


def test_channels_have_the_numbers_of_the_documentation() -> None:
    assert len(CHANNELS) == len(set(CHANNELS)) == 116
    assert len(STATE_CHANNELS) == len(set(STATE_CHANNELS)) == 131
    table = {
        **{0: "hand S", 5: "unseen S", 10: "gave S", 15: "gift S", 20: "known 1 S"},
        **{39: "known 4 JO", 40: "field S", 44: "field X", 45: "joker S", 50: "kind empty"},
        **{54: "kind joker", 55: "size", 56: "revolution", 57: "lock", 58: "idle"},
        **{59: "to give", 60: "game", 61: "played 0 S", 85: "played 4 JO", 86: "left 0"},
        **{91: "passed 0", 96: "place 0", 101: "class 0", 106: "owner 0", 111: "turn 0"},
    }
    assert {i: CHANNELS[i] for i in table} == table
    assert STATE_CHANNELS[55:] == CHANNELS[40:]
    assert STATE_CHANNELS[:50:5] == tuple(
        f"{name} {i} S" for name in ("hand", "gave") for i in PLAYERS
    )


@pytest.mark.parametrize(
    "rules", [None, Rules(class_reset_every=0), Rules(class_reset_every=2)], ids=str
)
def test_observations_and_states_equal_slow_versions(rules: Rules | None) -> None:
    used: set[str] = set()
    for number, game in enumerate(positions(seed=1, games=2, rules=rules)):
        for viewer in {number % N_PLAYERS, max(int(game["turn"]), 0)}:
            planes = view_planes(view(game, viewer))
            assert planes.shape == (116, 15) and planes.dtype == np.int8
            expected = observed(game, viewer)
            assert named(CHANNELS, planes) == expected
            used |= {name for name, plane in expected.items() if any(plane)}
        if number % 3 == 0:
            assert named(STATE_CHANNELS, state_planes(game)) == stated(game)
    assert any(name.startswith("known") for name in used)
    rare = ("joker", "known", "gift", "field X", "kind", "revolution", "lock")
    assert all(name.startswith((*rare, "gave")) for name in set(CHANNELS) - used)


def test_every_play_on_the_field_has_its_own_planes() -> None:
    game, seen, names = next(positions(1, 1)), set(), set(field_planes(0))
    for number in range(plays.N_PLAYS):
        game["field"] = number
        planes = view_planes(view(game, 0))
        assert {k: v for k, v in named(CHANNELS, planes).items() if k in names} == (
            field_planes(number)
        )
        seen.add(planes.tobytes())
    assert len(seen) == plays.N_PLAYS


def test_flags_and_numbers_have_their_planes() -> None:
    game = next(positions(1, 1))
    for name, value in {"revolution": 1, "lock": 1, "idle": 19, "number": 88}.items():
        game[name] = value
    planes = named(CHANNELS, view_planes(view(game, 3)))
    assert planes["revolution"] == planes["lock"] == [1] * 15
    assert planes["idle"] == [1, 1, 0, 0, 1] + [0] * 10
    assert sum(digit << i for i, digit in enumerate(planes["game"])) == 87


def test_masks_mark_the_legal_actions() -> None:
    out = np.empty(plays.N_PLAYS, np.int64)
    for game in positions(seed=3, games=3):
        turn = int(game["turn"])
        for player in PLAYERS:
            mask = view_mask(view(game, player))
            assert mask.dtype == np.int8
            legal: set[int] = {plays.PASS}
            if player == turn and game["to_give"]:
                legal = {1 + card for card in bits(game["hands"][turn]) - bits(game["gift"])}
            elif player == turn:
                legal |= set(out[: write_legal(game, out)].tolist())
            assert set(np.flatnonzero(mask)) == legal


def test_drawing_planes_does_not_change_game_or_view() -> None:
    for game in positions(seed=4, games=2):
        seen = view(game, 2)
        before = game.tobytes(), seen.tobytes()
        view_planes(seen)
        view_mask(seen)
        state_planes(game)
        assert (game.tobytes(), seen.tobytes()) == before
