"""Episodes, seeds, deals, states and copies of `daihinmin_v0`."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from afterstate.envs import daihinmin_v0
from afterstate.envs.daihinmin import cards, plays, views
from afterstate.envs.daihinmin.env import raw_env
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.rules import draw_play, give, play
from tests.support.daihinmin.env_checks import (
    in_exchange,
    legal_action,
    path,
    refused,
    same_game,
    started,
)
from tests.support.env_checks import assert_same, by_duplicate, spoil


def test_a_seed_determines_later_episodes() -> None:
    env, twin, other = started(11), started(11), started(12)
    for _ in range(3):
        games = [each.get_state()["game"] for each in (env, twin, other)]
        assert same_game(games[0], games[1])
        assert not np.array_equal(games[0]["hands"], games[2]["hands"])
        for each in (env, twin, other):
            each.reset()
    first, second = (raw_env() for _ in range(2))
    first.reset()
    second.reset()
    assert first.get_state()["game"]["seed"] != second.get_state()["game"]["seed"]


def test_an_episode_can_be_repeated_by_the_seed_of_its_game() -> None:
    env = started(3)
    env.reset()
    game = env.get_state()["game"]
    assert same_game(started(int(game["seed"])).get_state()["game"], game)


@pytest.mark.parametrize("seed", [1.5, "1", True])
def test_wrong_seeds_change_nothing(seed: Any) -> None:
    env = started()
    refused(env, lambda: env.reset(seed))


def test_reset_accepts_a_deal() -> None:
    deal = [cards.text(hand) for hand in started(4).get_state()["game"]["hands"]]
    env = started(5, {"deal": deal, "seats": [4, 2, 0, 1, 3], "other": 1})
    game = env.get_state()["game"]
    assert [cards.text(hand) for hand in game["hands"]] == deal
    assert game["seats"].tolist() == [4, 2, 0, 1, 3]
    assert "D3" in deal[int(env.agent_selection[-1])].split()
    env.reset(5, {"deal": deal, "classes": [4, 3, 2, 1, 0]})
    game = env.get_state()["game"]
    assert env.agent_selection == "player_4" and game["to_give"] == 2
    assert int(game["given"][0]) == cards.strongest(cards.parse(deal[0]), 2)
    assert int(game["given"][1]) == cards.strongest(cards.parse(deal[1]), 1)


def test_reset_deals_by_classes_and_seats() -> None:
    match = new_match(6)
    for _ in range(2):
        next_game(match)
        out = np.empty(2422, np.int64)
        while match["turn"] >= 0:
            if match["to_give"]:
                give(match, 0)
            else:
                play(match, draw_play(match, out))
    options = {"classes": match["places"].tolist(), "seats": match["seats"].tolist()}
    env = started(6, options)
    game = env.get_state()["game"]
    assert game["classes"].tolist() == options["classes"]
    at = options["seats"].index(options["classes"].index(0))
    order = [*options["seats"][at:], *options["seats"][:at]]  # from the dealer, the daifugo, on
    moved = {0: 2, 1: 1, 2: 0, 3: -1, 4: -2}  # by class, before the rich give
    sizes = [game["left"][player] - moved[options["classes"][player]] for player in order]
    assert sizes == [11, 11, 11, 10, 10]


@pytest.mark.parametrize(
    "options",
    [
        {"deal": ["S3", "H3", "D3", "C3", "S4"]},
        {"deal": ["S3 H3"]},
        {"deal": ["S3 H3 D3 C3 S4 H4 D4 C4 S5 H5 D5"] * 3 + ["S6 H6 D6 C6 S7 H7 D7 C7 S8 H8"] * 2},
        {"deal": ["X3"] * 5},
        {"classes": [0, 1, 2, 3, 3]},
        {"classes": [0, 1, 2, 3]},
        {"seats": [0, 1, 2, 3, 5]},
        {"seats": [0, 1, 2, 3, 4.0]},
        {"seats": "01234"},
        {"seats": np.zeros((5, 5), np.int64)},
        {"seats": [range(2**62), 1, 2, 3, 4]},
        {"classes": [range(10**9)] * 5},
        {"deal": [range(10**9)] * 5},
        {"deal": "S3H34"},
    ],
    ids=lambda options: str(options)[:60],
)
def test_wrong_deals_change_nothing(options: dict[str, Any]) -> None:
    env = started()
    refused(env, lambda: env.reset(1, options))


def test_episodes_are_truncated_after_max_cycles_unless_they_end() -> None:
    env = started(max_cycles=3)
    rng = np.random.default_rng(1)
    for n in range(15):
        assert not any(env.truncations.values()), n
        env.step(legal_action(env, rng))
    assert all(env.truncations.values()) and not any(env.terminations.values())
    n, env = 0, started()
    while not any(env.terminations.values()):
        env.step(0)
        n += 1
    assert n == 20  # all players pass
    env = started(max_cycles=4)
    for _ in range(n):
        env.step(0)
    assert all(env.terminations.values()) and not any(env.truncations.values())
    assert sorted(env.rewards.values()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("settings", [{"games": 3}, {"games": 2, "observation": "planes"}], ids=str)
def test_play_continues_equally_from_a_state(settings: dict[str, Any]) -> None:
    for n_before in (0, 40, 170):
        env = started(3, **settings)
        path(env, n_before, 1, 0.1)
        state = env.get_state()
        copied = pickle.loads(pickle.dumps(state))
        expected = path(env, 250, 2, 0.1)
        env.set_state(state)
        assert_same(path(env, 250, 2, 0.1), expected)
        other = raw_env(**settings)
        other.set_state(copied)
        assert_same(path(other, 250, 2, 0.1), expected)
        spoil([other.rewards, other.infos])
        env.set_state(copied)
        assert_same(path(env, 250, 2, 0.1), expected)


def test_states_are_restored_at_the_end_of_an_episode() -> None:
    env = started(2)
    rng = np.random.default_rng(1)
    while not env.terminations[env.agent_selection]:
        env.step(legal_action(env, rng))
    for _ in range(4):
        state = env.get_state()
        env.step(None)
        after = env.last(), env.agents[:]
        env.reset()
        env.set_state(state)
        env.step(None)
        assert_same((env.last(), env.agents[:]), after)
    env.step(None)
    state = env.get_state()
    env.reset()
    env.set_state(state)
    assert env.agents == []


def test_a_determinised_game_can_be_continued() -> None:
    env, rng = in_exchange(), np.random.default_rng(1)
    path(env, 20, 1)
    agent = env.agent_selection
    view = env.view(agent)
    game = daihinmin_v0.determinise(view, rng)
    assert daihinmin_v0.determinise is views.determinise
    other = raw_env()
    other.set_state({**env.get_state(), "game": game})
    assert same_game(other.view(agent), view)
    assert_same(other.observe(agent), env.observe(agent))
    assert (other.state() != env.state()).any()
    path(other, 200, 1)


@pytest.mark.slow
def test_hidden_cards_do_not_change_what_an_agent_gets() -> None:
    """Observation, mask, info and picture are the same for another deal of the hidden cards."""
    rng = np.random.default_rng(3)
    env, other = started(games=3, render_mode="ansi"), raw_env(games=3, render_mode="ansi")
    n_different = 0
    for _ in range(60):
        path(env, 5, int(rng.integers(1 << 30)))
        for player, agent in enumerate(env.agents):
            game = views.determinise(views.view(env.get_state()["game"], player), rng)
            other.set_state({**env.get_state(), "game": game})
            n_different += not np.array_equal(game["hands"], env.get_state()["game"]["hands"])
            assert_same(other.observe(agent), env.observe(agent))
            if agent == env.agent_selection:
                first, second = copy.deepcopy(env), copy.deepcopy(other)
                first.step(plays.PASS)
                second.step(plays.PASS)
                assert_same(second.infos[agent], first.infos[agent])
            env.shown_to = other.shown_to = agent
            assert other.render() == env.render()
    assert n_different > 100


@by_duplicate
def test_the_parallel_environment_can_be_copied(duplicate: Callable[[Any], Any]) -> None:
    env = daihinmin_v0.parallel_env()
    env.reset(seed=1)
    twin = duplicate(env)
    for _ in range(20):
        actions = dict.fromkeys(env.agents, 0)
        if not actions:
            break
        assert_same(env.step(actions), twin.step(actions))


@pytest.mark.parametrize("state", [None, {}, {"game": 1}, "game"])
def test_wrong_states_change_nothing(state: Any) -> None:
    env = started()
    refused(env, lambda: env.set_state(state), "get_state")


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_actions", 10**8), ("turn", 9), ("field", 3_000), ("seats", 5), ("left", 10**8)],
)
def test_states_with_impossible_values_change_nothing(name: str, value: int) -> None:
    env = started()
    state = env.get_state()
    state["game"][name] = value
    refused(env, lambda: env.set_state(state), name)


def test_a_state_with_the_most_points_can_be_played_on() -> None:
    env = started()
    state = env.get_state()
    state["game"]["points"] = 2**40 - 2
    env.set_state(state)
    while not any(env.terminations.values()):
        env.step(int(np.flatnonzero(env.observe(env.agent_selection)["action_mask"])[0]))
        env.set_state(env.get_state())
    assert env.get_state()["game"]["points"].max() == 2**40


def test_states_of_views_and_unknown_agents_change_nothing() -> None:
    env = started()
    state = env.get_state()
    refused(env, lambda: env.set_state({**state, "game": env.view("player_1")}), "view")
    refused(env, lambda: env.set_state({**state, "game": 3}), "record")
    refused(env, lambda: env.set_state({**state, "agent_selection": "zzz"}), "agent")


def of(names: tuple[str, ...], value: Any, *agents: str) -> dict[str, Any]:
    """Return parts of a state, each with one value for some agents."""
    return {name: dict.fromkeys(agents, value) for name in names}


EVERYBODY = raw_env().possible_agents


@pytest.mark.parametrize(
    "parts",
    [
        {"agents": EVERYBODY[:1]},
        {"agents": [EVERYBODY[0]] * 5},
        {"agents": EVERYBODY[::-1]},
        {"agents": []},
        *(of((name,), 1.0, *EVERYBODY[:4]) for name in ("rewards", "_cumulative_rewards")),
        of(("terminations", "truncations"), False, *EVERYBODY[:4]),
        of(("infos",), {}, *EVERYBODY[:4]),
        {"terminations": {**dict.fromkeys(EVERYBODY, False), "player_1": True}},
        {**of(("truncations",), True, *EVERYBODY), "agents": EVERYBODY[1:]},
        {**of(("truncations",), True, *EVERYBODY), "agent_selection": "player_2"},
        {"_games_left": 0},
        {"infos": {agent: {"play": threading.Lock()} for agent in EVERYBODY}},
    ],
    ids=lambda parts: ",".join(parts),
)
def test_states_of_agents_that_cannot_play_on_change_nothing(parts: dict[str, Any]) -> None:
    env = started()
    refused(env, lambda: env.set_state({**env.get_state(), **parts}), "of a state must .* got ")


def test_the_mask_is_that_of_the_record_that_is_set() -> None:
    env, other = raw_env(observation="planes"), raw_env(observation="planes")
    env.reset(seed=1)
    for seed in range(2, 12):
        other.reset(seed=seed)
        path(other, seed, seed)
        if not other.agents or any(other.terminations.values()):
            continue
        env.set_state({**env.get_state(), "game": other.get_state()["game"]})
        agent = env.agent_selection
        assert agent == other.agent_selection
        mask = env.infos[agent]["action_mask"]
        np.testing.assert_array_equal(mask, other.infos[agent]["action_mask"])
