"""Validity of game records: every position of games is valid, and damaged ones are not."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.env import raw_env
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.players import check_turn
from afterstate.envs.daihinmin.records.validity import (
    Status,
    check_game,
    check_record,
    status,
)
from afterstate.envs.daihinmin.rules import GAME, Game, Rules, draw_play, give, give_card, play
from afterstate.envs.daihinmin.views import determinise, view
from tests.support.daihinmin.env_checks import path, refused, started

RULES = [
    Rules(),
    Rules(idle_limit=3),
    Rules(exchanges=False, sequences=False, class_reset_every=0),
    Rules(locks=False, eight_cuts=False, revolutions=False, reseat_every=0),
]


def positions(rules: Rules, n_games: int, seed: int) -> Iterator[Game]:
    """Yield a match before and after each of its moves, which are random."""
    match, rng, out = new_match(seed, rules), random.Random(seed), np.empty(2422, np.int64)
    for _ in range(n_games):
        next_game(match)
        yield match
        while match["turn"] >= 0:
            if match["to_give"] and rng.random() < 0.5:
                hand = int(match["hands"][match["turn"]]) & ~int(match["gift"])
                give_card(match, rng.choice([i for i in range(53) if hand >> i & 1]))
            elif match["to_give"]:
                give(match, 0)
            else:
                play(match, plays.PASS if rng.random() < 0.3 else draw_play(match, out))
            yield match


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_all_positions_and_views_of_games_are_valid(rules: Rules) -> None:
    for game in positions(rules, 12, 5):
        assert status(game) is Status.VALID, game
        for player in range(5):
            assert status(view(game, player)) is Status.VALID, (player, game)


def test_determinised_views_are_valid() -> None:
    rng = np.random.default_rng(1)
    for game in positions(Rules(), 4, 6):
        for player in range(5):
            assert status(determinise(view(game, player), rng)) is Status.VALID


def test_a_match_before_its_first_game_is_not_valid() -> None:
    assert status(new_match(1)) is Status.CARDS


@pytest.mark.parametrize("record", [None, 5, {}, np.zeros(1, GAME), np.zeros((), "u8")], ids=str)
def test_other_objects_are_no_records(record: Any) -> None:
    assert status(record) is Status.RECORD


def test_a_record_in_an_array_without_axes_is_a_record() -> None:
    game = example(5)
    assert status(np.array(game)) is Status.VALID
    player = int(game["turn"])
    seen: Any = view(game, player)
    heuristic: Any = agents.make("daihinmin-heuristic")
    assert heuristic.choose(np.array(seen)) == heuristic.choose(seen)


def example(n: int) -> Game:
    """Return a position after `n` moves of the third game of a match."""
    games = positions(Rules(), 3, 3)
    seen = [game.copy() for game in games if game["number"] == 3]
    return seen[n]


def damage(game: Game, name: str, index: int | None, value: int) -> Game:
    """Return a copy with another value of a field."""
    copied = game.copy()
    if index is None:
        copied[name] = value
    else:
        copied[name][index] = value
    return copied


@pytest.mark.parametrize(
    ("name", "index", "value", "fault"),
    [
        ("number", None, -1, Status.RANGES),
        ("idle_limit", None, 0, Status.RANGES),
        ("idle_limit", None, 21, Status.RANGES),
        ("sequences", None, 2, Status.RANGES),
        ("seats", 0, 1, Status.PLAYERS),
        ("hands", 0, 1, Status.CARDS),
        ("points", 0, -1, Status.RANGES),
        ("reseat_every", None, -1, Status.RANGES),
        ("turn", None, 5, Status.RANGES),
        ("turn", None, -2, Status.RANGES),
        ("starter", None, 9, Status.RANGES),
        ("viewer", None, 5, Status.RANGES),
        ("last", None, -1, Status.RANGES),
        ("seats", 0, 7, Status.RANGES),
        ("classes", 3, -1, Status.PLAYERS),
        ("left", 2, 14, Status.RANGES),
        ("left", 2, -1, Status.RANGES),
        ("hands", 1, 1 << 53, Status.RANGES),
        ("hands", 1, 0, Status.CARDS),
        ("played", 4, cards.DECK, Status.CARDS),
        ("given", 0, 1 << 60, Status.RANGES),
        ("given", 0, cards.DECK, Status.EXCHANGE),
        ("gift", None, 1, Status.EXCHANGE),
        ("to_give", None, 1, Status.CARDS),
        ("field", None, 2422, Status.RANGES),
        ("field", None, -1, Status.RANGES),
        ("revolution", None, 7, Status.RANGES),
        ("lock", None, -1, Status.RANGES),
        ("cut", None, 1, Status.ACTIONS),
        ("passed", None, 1 << 40, Status.RANGES),
        ("idle", None, 20, Status.ACTIONS),
        ("places", 0, 1, Status.ACTIONS),
        ("n_out", None, 4, Status.ACTIONS),
        ("n_actions", None, -1, Status.RANGES),
        ("n_actions", None, 2000, Status.RANGES),
        ("actions", 0, 65535, Status.RANGES),
        ("joker_column", None, 15, Status.RANGES),
    ],
)
def test_a_fault_is_named(name: str, index: int | None, value: int, fault: Status) -> None:
    game = example(9)
    assert status(game) is Status.VALID
    damaged = damage(game, name, index, value)
    assert status(damaged) is fault
    words = name if fault is Status.RANGES else f"wrong {fault.name.lower()}"
    with pytest.raises(ValueError, match=words):
        check_record(damaged)


def test_a_view_is_no_whole_game() -> None:
    with pytest.raises(ValueError, match="whole game, got a view"):
        check_game(view(example(9), 2))


CHANGED = [name for name in GAME.names or () if name not in ("seed", "rng")]


def mutated(game: Game, rng: random.Random) -> Game:
    """Return a copy with one to three random changes."""
    copied = game.copy()
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(CHANGED)
        before = copied[name]
        index = rng.randrange(before.size) if before.ndim else None
        number = int(before if index is None else before[index])
        near, flipped = number + rng.choice((-2, -1, 1, 2)), number ^ 1 << rng.randrange(63)
        limits = np.iinfo(before.dtype)
        value = rng.choice((near, flipped, rng.randint(-3, 60), limits.max))
        copied = damage(copied, name, index, min(max(value, limits.min), limits.max))
    return copied


PLAYERS = ("daihinmin-random", "daihinmin-sample", "daihinmin-heuristic", "daihinmin-policy")


@pytest.mark.parametrize(
    "n_inputs",
    [
        600,
        pytest.param(5_000, marks=pytest.mark.slow),
        pytest.param(200_000, marks=pytest.mark.exhaustive),
    ],
)
def test_mutated_records_do_no_harm(n_inputs: int) -> None:
    """Players neither crash nor hang; games that are valid are played to their ends."""
    rng, players = random.Random(1), [agents.make(name) for name in PLAYERS]
    games = [game.copy() for game in positions(Rules(), 12, 9)]
    games += [view(game, int(game["turn"])) for game in games if game["turn"] >= 0]
    out, n_valid = np.empty(2422, np.int64), 0
    for _ in range(n_inputs):
        game = mutated(rng.choice(games), rng)
        n = int(game["to_give"])
        for player in players:
            with contextlib.suppress(ValueError):
                player.give(game, n) if n else player.choose(game)
        if status(game) is not Status.VALID:
            continue
        n_valid += 1
        if game["viewer"] < 0:
            for _ in range(2000):
                if game["turn"] < 0:
                    break
                give(game, 0) if game["to_give"] else play(game, draw_play(game, out))
            assert game["turn"] == -1
    assert n_valid > n_inputs // 50


def test_states_with_damaged_records_change_nothing() -> None:
    rng, env = random.Random(2), started(3)
    path(env, 60, 1)
    state = env.get_state()
    n_refused = 0
    for _ in range(300):
        damaged = {**state, "game": mutated(state["game"], rng)}
        if status(damaged["game"]) is not Status.VALID:
            refused(env, lambda damaged=damaged: env.set_state(damaged))  # type: ignore[misc]
            n_refused += 1
        else:
            raw_env().set_state(damaged)
    assert n_refused > 200


def test_the_selected_agent_of_a_state_is_the_player_in_turn() -> None:
    env = started(3)
    path(env, 60, 1)
    state: dict[str, Any] = env.get_state()
    other = next(agent for agent in env.agents if agent != env.agent_selection)
    selected = env.agent_selection
    env.set_state({**state, "agent_selection": other})
    assert env.agent_selection == selected


def test_a_state_that_goes_on_needs_a_game_that_is_not_over() -> None:
    env = started(3)
    path(env, 60, 1)
    state = env.get_state()
    over = next(game.copy() for game in positions(Rules(), 1, 1) if game["turn"] < 0)
    refused(env, lambda: env.set_state({**state, "game": over}))


@pytest.mark.parametrize("name", PLAYERS)
def test_a_player_that_lacks_the_cards_to_give_is_refused(name: str) -> None:
    game = next(game.copy() for game in positions(Rules(), 2, 4) if game["to_give"] == 2)
    game["hands"][game["turn"]] = 1
    with pytest.raises(ValueError, match="1 to 13 cards, as many as left says, and those to give"):
        agents.make(name).give(game, 2)


@pytest.mark.parametrize("name", PLAYERS)
def test_a_player_without_cards_is_refused(name: str) -> None:
    """It has no legal play if it leads; a rank network found no afterstate to value."""
    game = next(game.copy() for game in positions(Rules(), 2, 9) if game["to_give"] == 0)
    game["hands"][game["turn"]] = game["left"][game["turn"]] = game["field"] = 0
    with pytest.raises(ValueError, match="must be 1 to 13 cards"):
        agents.make(name).choose(game)


def test_the_reason_says_why_a_view_is_not_that_of_the_player_in_turn() -> None:
    leads = next(game.copy() for game in positions(Rules(), 2, 9) if game["to_give"] == 0)
    gives = next(game.copy() for game in positions(Rules(), 2, 4) if game["to_give"] == 2)
    over = next(game.copy() for game in positions(Rules(), 1, 1) if game["turn"] < 0)
    turn = int(leads["turn"])
    other = view(leads, (turn + 1) % 5)
    for asked, is_to_play, message in (
        (other, None, f"viewer must be the player in turn, {turn}, got {(turn + 1) % 5}"),
        (gives, True, "view must be one that asks for a play, got one with 2 cards to give"),
        (leads, False, "view must be one that asks for cards to give, got one that asks for a"),
        (over, None, "view must be of a game that is not over, got 5 players out"),
    ):
        with pytest.raises(ValueError, match=message):
            check_turn(asked, is_to_play)


@pytest.mark.parametrize("n_out", [1, 3, 4, 5])
def test_a_search_refuses_a_view_in_which_the_game_might_not_end(n_out: int) -> None:
    """It played on without end before."""
    game = next(game.copy() for game in positions(Rules(), 2, 9) if game["to_give"] == 0)
    game["n_out"] = n_out
    with pytest.raises(ValueError, match=r"n_out|players out"):
        agents.make("daihinmin-mc", playouts=20).choose(game)


@pytest.mark.parametrize("n", [0, 1, 3, None, 10**30, 2.5])
def test_players_give_only_as_many_cards_as_the_view_says(n: Any) -> None:
    game = next(game.copy() for game in positions(Rules(), 2, 4) if game["to_give"] == 2)
    for name in ("daihinmin-random", "daihinmin-sample", "daihinmin-heuristic", "daihinmin-policy"):
        with pytest.raises(ValueError, match="n must be 2, the number of cards to give"):
            agents.make(name).give(game, n)


def test_a_record_read_by_numpy_is_the_same_record(tmp_path: Path) -> None:
    """Its type is not marked as aligned, which kernels need."""
    np.save(tmp_path / "game.npy", np.array(example(9)))
    game = np.load(tmp_path / "game.npy")[()]
    assert not game.dtype.isalignedstruct
    assert status(game) is Status.VALID
    assert agents.make("daihinmin-random", seed=1).choose(game) >= 0
