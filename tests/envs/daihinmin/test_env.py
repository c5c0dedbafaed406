"""`daihinmin_v0` passes PettingZoo's checkers and plays the matches of the rules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pettingzoo  # type: ignore[import-untyped]
import pytest
from gymnasium.error import ResetNeeded

from afterstate.envs import daihinmin_v0
from afterstate.envs.daihinmin import cards, plays, views
from afterstate.envs.daihinmin.arguments import AGENTS
from afterstate.envs.daihinmin.env import raw_env
from afterstate.envs.daihinmin.match import CLASS_VALUES, new_match, next_game
from afterstate.envs.daihinmin.observation import state_planes, view_mask, view_planes
from afterstate.envs.daihinmin.rules import (
    N_PLAYERS,
    Rules,
    give,
    give_card,
    play,
)
from afterstate.envs.daihinmin.seat_env import DaihinminEnv
from tests.support.daihinmin.env_checks import (
    by_observation,
    following,
    in_exchange,
    legal_action,
    mask_of,
    path,
    refused,
    same_game,
    started,
)
from tests.support.env_checks import assert_same

with warnings.catch_warnings():  # PettingZoo's tests import its games in a deprecated way
    warnings.simplefilter("ignore", DeprecationWarning)
    from pettingzoo.test import (  # type: ignore[import-untyped]
        api_test,
        max_cycles_test,
        parallel_api_test,
        parallel_seed_test,
        render_test,
        seed_test,
    )

SETTINGS: list[dict[str, Any]] = [
    {},
    {"games": 2, "exchange": "auto", "reward": "zero_sum"},
    {"games": 2, "illegal": "terminate", "reward": "class_value"},
    {"max_cycles": 7},
    {"games": 2, "rules": Rules(reseat_every=1, sequences=False)},
]
by_settings = pytest.mark.parametrize("settings", SETTINGS, ids=str)


@by_settings
@pytest.mark.parametrize("maker", ["env", "raw_env"])
def test_api_test_passes_with_planes(settings: dict[str, Any], maker: str) -> None:
    """Any complaint is a warning, which is an error here."""
    api_test(getattr(daihinmin_v0, maker)(observation="planes", **settings), num_cycles=300)


@by_settings
@pytest.mark.filterwarnings("default")
def test_api_test_warns_about_dicts_only(settings: dict[str, Any]) -> None:
    """It warns about all dicts except those of PettingZoo's own games."""
    with pytest.warns(UserWarning) as caught:
        api_test(daihinmin_v0.env(**settings), num_cycles=300)
    assert {str(warning.message)[:60] for warning in caught} == {
        "Observation is not a NumPy array",
        "Observation space for each agent probably should be gymnasiu",
    }


@by_settings
@by_observation
def test_a_seed_determines_everything(settings: dict[str, Any], observation: str) -> None:
    seed_test(lambda: daihinmin_v0.env(observation=observation, **settings), num_cycles=200)


@by_observation
def test_render_test_passes_in_all_modes(observation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(raw_env.metadata, "render_fps", 1_000)

    def make(**settings: Any) -> Any:
        return daihinmin_v0.env(observation=observation, illegal="pass", **settings)

    render_test(make)


def seeded(maker: Callable[..., Any]) -> Callable[..., Any]:
    """Return a maker of environments with seeded action spaces: random actions may be legal."""

    def make(**settings: Any) -> Any:
        env = maker(**settings)
        for agent in env.possible_agents:
            env.action_space(agent).seed(1)
        return env

    return make


def test_a_cycle_is_five_actions_or_one_parallel_step() -> None:
    makers = {name: seeded(getattr(daihinmin_v0, name)) for name in ("env", "parallel_env")}
    max_cycles_test(SimpleNamespace(**makers))


@by_settings
@by_observation
def test_parallel_api_test_and_seed_test_pass(settings: dict[str, Any], observation: str) -> None:
    settings = {**settings, "observation": observation}
    parallel_api_test(daihinmin_v0.parallel_env(**settings), num_cycles=300)
    parallel_seed_test(lambda: daihinmin_v0.parallel_env(**settings), num_cycles=100)


def test_environments_are_in_the_registry_of_pettingzoo() -> None:
    if not hasattr(pettingzoo, "make"):
        pytest.skip("this version has no registry")
    env = pettingzoo.make("aec", "Daihinmin-v0", games=2)
    assert type(env.unwrapped) is raw_env and env.unwrapped.games == 2
    parallel = pettingzoo.make("parallel", "Daihinmin-v0", max_cycles=3)
    assert type(parallel) is daihinmin_v0.parallel_env and parallel.max_cycles == 3


def kernel_match(seed: int, games: int, auto: bool, rules: Rules | None) -> list[Any]:
    """Return turns and actions, points by game, and the end of a match played by the kernels."""
    match, rng, history = new_match(seed, rules), np.random.default_rng(seed), list[Any]()
    for _ in range(games):
        next_game(match)
        while match["to_give"] and auto:
            hand = match["hands"][match["turn"]]
            give(match, cards.weakest(hand, int(match["to_give"])))
        while match["turn"] >= 0:
            turn = int(match["turn"])
            mask = view_mask(views.view(match, turn))
            legal = np.flatnonzero(mask)
            action = int(legal[rng.integers(len(legal) > 1, len(legal))])
            history.append((turn, action))
            if match["to_give"]:
                give_card(match, action - 1)
            else:
                play(match, action)
        history.append(match["points"].tolist())
    return [*history, match.copy()]


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("rules", [None, Rules(reseat_every=1, class_reset_every=3)], ids=str)
def test_a_match_equals_that_of_the_kernels(auto: bool, rules: Rules | None) -> None:
    expected = kernel_match(7, 5, auto, rules)
    env = daihinmin_v0.env(games=5, exchange="auto" if auto else "agent", rules=rules)
    env.reset(seed=7)
    rng, history = np.random.default_rng(7), list[Any]()
    while not any(env.terminations.values()):
        action = legal_action(env, rng)
        history.append((AGENTS.index(env.agent_selection), action))
        env.step(action)
        if any(env.rewards.values()):
            history.append(env.get_state()["game"]["points"].tolist())
    assert history == expected[:-1]
    assert same_game(env.get_state()["game"], expected[-1])


def test_observations_masks_and_states_are_drawn_from_the_game() -> None:
    env, other = started(games=2), started(games=2, observation="planes")
    for number, _ in enumerate(path(env, 150, 1)):
        game = env.get_state()["game"]
        if number % 10 == 0:
            other.set_state({**other.get_state(), "game": game})
            assert_same(env.state(), state_planes(game))
            assert env.state_space.contains(env.state())
            for agent, player in zip(AGENTS, range(N_PLAYERS), strict=True):
                view = views.view(game, player)
                assert same_game(env.view(agent), view)
                expected = {"observation": view_planes(view), "action_mask": view_mask(view)}
                assert_same(env.observe(agent), expected)
                assert_same(other.observe(agent), expected["observation"])


def test_infos_have_the_masks_if_observations_are_planes() -> None:
    env, other = started(observation="planes", games=2), started(games=2)
    for _ in range(300):
        agent = env.agent_selection
        assert agent == other.agent_selection
        for each in AGENTS:
            mask = env.infos[each]["action_mask"]
            expected: Any = other.observe(each)["action_mask"]
            assert mask.dtype == np.int8 and mask[0] >= (each != agent)
            assert (mask == expected).all() if each == agent else mask.sum() == 1
        if env.terminations[agent]:
            break
        action = int(np.flatnonzero(mask_of(env))[-1])
        env.step(action)
        other.step(action)
    else:
        pytest.fail("the match did not end")


@pytest.mark.parametrize(
    ("reward", "values"),
    [
        ("points", [5.0, 4.0, 3.0, 2.0, 1.0]),
        ("zero_sum", [2.0, 1.0, 0.0, -1.0, -2.0]),
        ("class_value", list(CLASS_VALUES)),
    ],
)
def test_rewards_are_the_values_of_places_at_the_end_of_each_game(
    reward: str, values: list[float]
) -> None:
    env = daihinmin_v0.env(games=3, reward=reward)
    env.reset(seed=5)
    rng, n_games = np.random.default_rng(1), 0
    total, cumulative = np.zeros(5), np.zeros(5)
    for agent in env.agent_iter():
        _, since_last_action, terminated, truncated, _ = env.last()
        cumulative[AGENTS.index(agent)] += since_last_action
        assert not truncated
        if terminated:
            env.step(None)
            continue
        env.step(legal_action(env, rng))
        rewards = [env.rewards[agent] for agent in AGENTS]
        if any(rewards):
            n_games += 1
            places = [env.infos[agent]["place"] for agent in AGENTS]
            assert sorted(places) == [0, 1, 2, 3, 4]
            assert rewards == [values[place] for place in places]
            total += rewards
            if not any(env.terminations.values()):
                assert env.get_state()["game"]["classes"].tolist() == places
    assert n_games == 3 and env.agents == []
    np.testing.assert_allclose(cumulative, total)


def test_infos_have_the_last_action_in_notation() -> None:
    env = in_exchange(games=2)
    assert env.infos == {agent: {"play": "", "legal": True} for agent in AGENTS}
    hand = [card for card in range(53) if int(env.view("player_0")["hands"][0]) >> card & 1]
    env.step(plays.single(hand[0]))
    assert env.infos["player_0"] == {"play": f"gives {cards.card_text(hand[0])}", "legal": True}
    assert env.agent_selection == "player_0"
    env.step(plays.single(hand[3]))
    assert env.agent_selection == "player_1"
    rng = np.random.default_rng(1)
    while env.get_state()["game"]["to_give"]:
        env.step(legal_action(env, rng))
    placed = set()
    for _ in range(500):
        agent = env.agent_selection
        if env.terminations[agent]:
            break
        giving = bool(env.get_state()["game"]["to_give"])
        action = legal_action(env, rng)
        env.step(action)
        info = dict(env.infos[agent])
        placed |= {info.pop("place")} if "place" in info else set()
        text = f"gives {cards.card_text(action - 1)}" if giving else plays.text(action)
        assert info == {"play": text, "legal": True}
    assert placed


def test_the_rich_give_card_by_card() -> None:
    env = in_exchange()
    for agent, n in (("player_0", 2), ("player_1", 1)):
        player, poor = int(agent[-1]), 4 - int(agent[-1])
        before = env.get_state()["game"]
        received = int(before["given"][poor])
        assert cards.count(received) == n and received & ~int(before["hands"][player]) == 0
        for left in range(n, 0, -1):
            assert env.agent_selection == agent
            mask = env.observe(agent)["action_mask"]
            assert mask.sum() == int(before["left"][player]) - (n - left) and not mask[0]
            assert env.observe("player_2")["action_mask"].sum() == 1
            env.step(int(np.flatnonzero(mask)[-1]))
        game = env.get_state()["game"]
        assert cards.count(game["given"][player]) == n
        assert int(game["hands"][poor]) & int(game["given"][player]) == int(game["given"][player])
    assert game["starter"] == AGENTS.index(env.agent_selection) and not game["to_give"]
    assert sorted(game["left"]) == [10, 10, 11, 11, 11]


def test_a_card_cannot_be_given_twice() -> None:
    env = in_exchange(illegal="raise")
    action = int(np.flatnonzero(mask_of(env))[4])
    env.step(action)
    assert not mask_of(env)[action]
    refused(env, lambda: env.step(action), "action")


def test_auto_exchange_gives_the_weakest_natural_cards() -> None:
    env, manual = in_exchange(exchange="auto"), in_exchange()
    dealt, game = manual.get_state()["game"], env.get_state()["game"]
    for player, n in ((0, 2), (1, 1)):
        assert int(game["given"][player]) == cards.weakest(dealt["hands"][player], n)
    assert not game["to_give"] and env.agent_selection == AGENTS[int(game["starter"])]
    assert all(info == {"play": "", "legal": True} for info in env.infos.values())


def test_an_illegal_play_is_a_pass() -> None:
    env, twin = following(), following()
    agent = env.agent_selection
    illegal = int(np.flatnonzero(mask_of(env) == 0)[5])
    env.step(illegal)
    twin.step(plays.PASS)
    assert env.infos[agent] == {"play": "pass", "legal": False}
    assert twin.infos[agent] == {"play": "pass", "legal": True}
    assert same_game(env.get_state()["game"], twin.get_state()["game"])


@pytest.mark.parametrize("action", [0, 54, 2421, None])
def test_an_illegal_gift_costs_the_strongest_cards(action: int | None) -> None:
    env = in_exchange()
    mask = mask_of(env)
    strongest = cards.strongest(env.view("player_0")["hands"][0], 2)
    env.step(int(np.flatnonzero(mask[1:54] == 0)[0]) + 1 if action is None else action)
    assert env.infos["player_0"] == {"play": f"gives {cards.text(strongest)}", "legal": False}
    assert env.agent_selection == "player_1"
    assert int(env.get_state()["game"]["given"][0]) == strongest


@pytest.mark.parametrize("make", [following, in_exchange])
def test_an_illegal_action_ends_the_episode_with_terminate(make: Callable[..., raw_env]) -> None:
    env = make(illegal="terminate", games=2)
    agent, game = env.agent_selection, env.get_state()["game"]
    env.step(int(np.flatnonzero(mask_of(env) == 0)[-1]))
    assert env.rewards == {each: -1.0 if each == agent else 0.0 for each in AGENTS}
    assert all(env.terminations.values()) and not any(env.truncations.values())
    assert env.infos[agent]["legal"] is False
    assert same_game(env.get_state()["game"], game)
    for _ in AGENTS:
        env.step(None)
    assert env.agents == []
    env.reset()
    assert env.agents == list(AGENTS) and not any(env.rewards.values())


@pytest.mark.parametrize("make", [following, in_exchange])
def test_an_illegal_action_raises_an_error_with_raise(make: Callable[..., raw_env]) -> None:
    env = make(illegal="raise")
    for action in np.flatnonzero(mask_of(env) == 0)[::100]:
        refused(env, lambda action=action: env.step(action), "action")  # type: ignore[misc]
    env.step(int(np.flatnonzero(mask_of(env))[-1]))


@pytest.mark.parametrize("action", [-1, 2422, 1.0, "pass", True, None, [1]])
def test_wrong_actions_change_nothing(action: Any) -> None:
    env = started()
    refused(env, lambda: env.step(action), "action")


def test_actions_may_have_any_integer_type() -> None:
    for kind in (np.int8, np.uint8, np.int32, np.int64, np.uint64):
        env = started()
        env.step(kind(0))
        assert env.infos[AGENTS[int(env.get_state()["game"]["starter"])]]["play"] == "pass"


def test_methods_need_a_reset() -> None:
    env = raw_env(render_mode="ansi")
    methods: list[Callable[[], Any]] = [
        env.state,
        env.get_state,
        env.render,
        env.last,
        daihinmin_v0.env().last,
        lambda: env.observe(AGENTS[0]),
        lambda: env.view(AGENTS[0]),
    ]
    for method in methods:
        with pytest.raises(ResetNeeded, match="reset"):
            method()
    with pytest.raises(AssertionError, match="reset"):
        daihinmin_v0.env().step(0)


@pytest.mark.parametrize(
    "settings",
    [
        *({name: "none"} for name in ("exchange", "reward", "illegal", "render_mode")),
        *({"games": 0}, {"games": 1.5}, {"rules": Rules(idle_limit=0)}),
        *({"observation": "words"}, {"max_cycles": 0}, {"max_cycles": "4"}),
    ],
)
def test_errors_name_the_wrong_setting(settings: dict[str, Any]) -> None:
    noun = "idle_limit" if "rules" in settings else next(iter(settings))
    makers: list[Callable[..., Any]] = [daihinmin_v0.env, raw_env, daihinmin_v0.parallel_env]
    if not {"observation", "max_cycles"} & settings.keys():
        makers.append(DaihinminEnv)
    for maker in makers:
        with pytest.raises(ValueError, match=noun):
            maker(**settings)


@by_observation
def test_the_parallel_environment_plays_the_same_match(observation: str) -> None:
    env = daihinmin_v0.parallel_env(games=2, observation=observation)
    other = started(9, games=2, observation=observation)
    observations, infos = env.reset(seed=9)
    rng, total = np.random.default_rng(1), dict.fromkeys(AGENTS, 0.0)
    while env.agents:
        for agent in AGENTS:
            assert_same(observations[agent], other.observe(agent))
            assert_same(infos[agent], other.infos[agent])
        turn = other.agent_selection
        masks = {
            a: (observations[a] if observation == "dict" else infos[a])["action_mask"]
            for a in AGENTS
        }
        assert all(masks[a].sum() == 1 and masks[a][0] for a in AGENTS if a != turn)
        actions = {a: int(rng.choice(np.flatnonzero(masks[a]))) for a in AGENTS}
        actions |= {a: int(rng.integers(2422)) for a in AGENTS if a != turn}  # ignored
        other.step(actions[turn])
        observations, rewards, terminations, truncations, infos = env.step(actions)
        assert rewards == other.rewards and terminations == other.terminations
        assert not any(truncations.values())
        assert_same(env.state(), other.state())
        total = {agent: total[agent] + rewards[agent] for agent in AGENTS}
    assert all(terminations.values())
    assert sum(total.values()) == 30


def test_the_parallel_environment_needs_the_action_of_the_player_in_turn() -> None:
    env = daihinmin_v0.parallel_env(render_mode="ansi")
    env.reset(seed=1)
    turn = env.aec.agent_selection
    with pytest.raises(ValueError, match=turn):
        env.step({agent: 0 for agent in AGENTS if agent != turn})
    for actions in (None, 0, [0] * 5, np.zeros(5, int), {("a", 1): 0, 3: 0}):
        wrong: Any = actions
        with pytest.raises(ValueError, match="actions must"):
            env.step(wrong)
    env.step({turn: 0})
    assert env.aec.infos[turn]["play"] == "pass"
    assert env.render() == env.aec.render()
    env.close()


def test_a_refused_reset_changes_nothing() -> None:
    """The next episode has the same deal as without the refused one."""
    envs = [daihinmin_v0.raw_env() for _ in range(2)]
    for env in envs:
        env.reset(seed=1)
    with pytest.raises(ValueError, match="deal"):
        envs[0].reset(options={"deal": 1})
    for env in envs:
        env.reset()
    assert envs[0].get_state()["game"] == envs[1].get_state()["game"]


def test_after_the_episode_a_reset_is_needed() -> None:
    env = daihinmin_v0.raw_env(games=1)
    env.reset(seed=1)
    while env.agents:
        env.step(None if env.terminations[env.agent_selection] else _first_legal(env))
    for call in (lambda: env.step(0), lambda: env.step(None), env.last):
        with pytest.raises(ResetNeeded, match="the episode has ended"):
            call()
    assert env.view("player_0")["turn"] < 0  # the last position can be looked at


def _first_legal(env: Any) -> int:
    """Return the first legal action."""
    return int(env.observe(env.agent_selection)["action_mask"].argmax())


@pytest.mark.parametrize(
    "agent", ["player_9", 0, None, np.broadcast_to(np.uint64(1), 10**11), np.zeros(2, "i4,i4")]
)
def test_an_unknown_agent_is_named(agent: Any) -> None:
    env = daihinmin_v0.raw_env()
    env.reset(seed=1)
    for call in (env.view, env.observe):
        with pytest.raises(ValueError, match="agent must be one of"):
            call(agent)
