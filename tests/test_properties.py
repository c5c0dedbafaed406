"""Whatever is given to public functions, they work or raise a declared error and change nothing.

`make test` tries the same examples each time. `make slow` and `make fuzz` try many new ones, and
print how to reproduce those that fail (see `conftest.py`).
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import json
from dataclasses import fields
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st

from afterstate import agents
from afterstate.agents import config
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.agents.training.learners import LEARNERS, run_settings
from afterstate.envs import daihinmin_v0
from afterstate.envs.daihinmin import cards
from afterstate.envs.daihinmin.env import raw_env
from afterstate.envs.daihinmin.records.validity import Status, status
from afterstate.envs.daihinmin.rules import Game, is_legal
from afterstate.envs.daihinmin.views import view
from afterstate.envs.game2048.rules import afterstates, table
from tests.support.arbitrary import (
    ANYTHING,
    BOARDS,
    JSON,
    actions_of,
    damaged_record,
    damaged_state,
    with_names,
)
from tests.support.daihinmin.env_checks import assert_same_state, legal_action, path
from tests.support.daihinmin.env_checks import started as started_daihinmin
from tests.support.env_checks import MODES, assert_same

REFUSED = (ValueError, TypeError)

# Players by name, with settings that make them fast.
PLAYERS_2048: dict[str, dict[str, Any]] = {
    "random": {},
    "reward": {},
    "ntuple": {},
    "expectimax": {"depth": 2},
    "mc-softmax": {"simulations": 9},
    "alphabeta": {"depth": 2},
    "value-net": {},
    "policy-net": {},
}
PLAYERS: dict[str, dict[str, Any]] = {
    "daihinmin-random": {},
    "daihinmin-sample": {},
    "daihinmin-heuristic": {},
    "daihinmin-policy": {},
    "daihinmin-mc": {"playouts": 9},
    "daihinmin-rank": {},
    "daihinmin-mc-rank": {"playouts": 9},
    "daihinmin-actor": {},
}
NEURAL = ("value-net", "policy-net", "daihinmin-rank", "daihinmin-mc-rank", "daihinmin-actor")
START: dict[str, dict[str, Any]] = {
    "ntuple": {"tuples": [[0]]},
    "expectimax": {"tuples": [[0]], "depth": 1},
    "mc-softmax": {"tuples": [[0]], "simulations": 5},
    "alphabeta": {"depth": 1},
    "daihinmin-mc": {"playouts": 5},
    "daihinmin-mc-rank": {"playouts": 5},
}
"""Settings to begin with, so that a player is made and plays in a moment."""
CHEAP: dict[str, st.SearchStrategy[Any]] = {
    "depth": st.integers(1, 2),
    "seconds": st.floats(1e-4, 1e-3),
    "patience": st.floats(1, 2),
    **dict.fromkeys(("simulations", "playouts", "trees", "leaves"), st.integers(1, 8)),
}
"""Valid values of settings on which the time of a search depends."""
SIZES = st.tuples(st.integers(1, 4), st.integers(1, 4))


def states_like(state: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return anything, also dictionaries with all parts of a state."""
    parts = st.fixed_dictionaries(dict.fromkeys(state, ANYTHING | BOARDS))
    return parts | with_names(state, ANYTHING) | ANYTHING


def share(part: int) -> settings:
    """Return settings of a test that is slow: fewer examples."""
    return settings(max_examples=settings().max_examples // part)


def by_player(players: dict[str, dict[str, Any]]) -> pytest.MarkDecorator:
    """Return the parameters of a test of each player; those with neural networks are slow."""
    names = [pytest.param(n, marks=pytest.mark.slow) if n in NEURAL else n for n in players]
    return pytest.mark.parametrize("name", names)


@functools.cache
def player_of(name: str) -> Any:
    """Return a fast player; skip the test if it needs what is not installed."""
    if name in NEURAL and not importlib.util.find_spec("torch"):
        pytest.skip("needs torch")
    return agents.make(name, **{**PLAYERS_2048, **PLAYERS}[name])


def test_all_players_are_tested() -> None:
    assert [*PLAYERS_2048, *PLAYERS] == agents.names()


# 2048


@given(
    start=BOARDS | ANYTHING,
    seed=st.integers(0, 9) | ANYTHING,
    actions=st.lists(ANYTHING, max_size=4),
)
def test_2048_plays_on_after_any_arguments(start: Any, seed: Any, actions: list[Any]) -> None:
    env: Any = gym.make("afterstate:Game2048-v0").unwrapped
    observation, _ = env.reset(seed=1)
    try:
        observation, _ = env.reset(seed=seed, options={"board": start})
    except ValueError:
        np.testing.assert_array_equal(env.get_state()["board"], observation)
    for action in [*actions, 0, 1, 2, 3]:
        try:
            observation, *_ = env.step(action)
        except REFUSED:
            assert type(action) is not int or not 0 <= action < 4
        assert env.observation_space.contains(observation)


@given(data=st.data())
def test_2048_plays_on_from_any_state_or_refuses_it(data: st.DataObject) -> None:
    envs: Any = gym.make_vec("afterstate:Game2048-v0", num_envs=2, vectorization_mode="sync")
    envs.reset(seed=1)
    env = envs.envs[0].unwrapped
    before = env.get_state()
    is_near = data.draw(st.booleans())
    try:
        env.set_state(damaged_state(data, before) if is_near else data.draw(states_like(before)))
    except REFUSED:
        assert_same(env.get_state(), before)
    for action in range(4):
        observations, *_ = envs.step(np.full(2, action))
        assert envs.observation_space.contains(observations)
        state = env.get_state()
        env.set_state(state)
        assert_same(env.get_state(), state)


@given(name=st.sampled_from(["Game2048-v0", "Daihinmin-v0"]), data=st.data())
def test_vector_environments_play_on_after_any_arguments(name: str, data: st.DataObject) -> None:
    mode, n = data.draw(st.sampled_from(MODES)), data.draw(st.integers(1, 3))
    envs: Any = gym.make_vec(f"afterstate:{name}", n, autoreset_mode=mode, max_episode_steps=3)
    envs.reset(seed=1)
    names = ["board", "deal", "classes", "seats", "reset_mask"]
    masks = st.lists(st.booleans(), min_size=n, max_size=n).map(np.array)
    options = st.none() | with_names(names, ANYTHING | masks | BOARDS) | ANYTHING
    for _ in range(data.draw(st.integers(1, 4))):
        twin = copy.deepcopy(envs)
        try:
            if data.draw(st.booleans()):
                envs.reset(seed=data.draw(st.none() | ANYTHING), options=data.draw(options))
            else:
                envs.step(data.draw(actions_of(n, int(envs.single_action_space.n) - 1)))
        except (*REFUSED, gym.error.ResetNeeded):
            assert_same(envs.sample_legal(), twin.sample_legal())
            assert_same(envs.action_masks(), twin.action_masks())
    envs.reset()
    for _ in range(3):
        observations, *_ = envs.step(envs.sample_legal())
        assert envs.observation_space.contains(observations)


@pytest.mark.slow
@by_player(PLAYERS_2048)
@given(boards=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=3) | ANYTHING)
@share(4)
def test_players_of_2048_refuse_or_answer_any_boards(name: str, boards: Any) -> None:
    try:
        actions = player_of(name).act(boards)
    except REFUSED:
        return
    words = np.array(boards, np.uint64).reshape(-1)
    for board, action in zip(words, np.reshape(actions, -1), strict=True):
        after, _ = afterstates(board, table(4, 4))
        assert after[action] != board or np.all(after == board)


# Daihinmin


@given(options=with_names(["deal", "classes", "seats"], ANYTHING | st.permutations(range(5))))
def test_daihinmin_starts_by_any_options_or_refuses_them(options: Any) -> None:
    env = daihinmin_v0.raw_env()
    env.reset(seed=1)
    before = env.get_state()
    try:
        env.reset(options=options)
    except ValueError:
        assert env.get_state()["game"] == before["game"]
    assert status(env.get_state()["game"]) is Status.VALID


@given(actions=st.lists(ANYTHING | st.integers(0, 9), min_size=1, max_size=9))
def test_daihinmin_plays_on_after_any_actions(actions: list[Any]) -> None:
    env = daihinmin_v0.raw_env()
    env.reset(seed=2)
    for action in actions:
        before = env.get_state()["game"]
        try:
            env.step(action)
        except REFUSED:
            assert env.get_state()["game"] == before
        assert status(env.get_state()["game"]) is Status.VALID


@functools.cache
def environments() -> list[raw_env]:
    """Return environments before and in a game, in the exchange, and after the last action."""
    options = [None, {"classes": [4, 2, 0, 1, 3]}, None, None]
    envs = [started_daihinmin(seed, each, games=2) for seed, each in enumerate(options)]
    for env, n in zip(envs, (0, 1, 30, 99), strict=True):
        path(env, n, 1)
    last = started_daihinmin(4)
    while not last.terminations[last.agent_selection]:
        last.step(legal_action(last, np.random.default_rng(1)))
    return [*envs, last]


def play_to_the_end(env: raw_env) -> None:
    """Play the rest of an episode, of two games at most, then start another."""
    rng = np.random.default_rng(1)
    for _ in range(1000):
        if not env.agents:
            break
        agent = env.agent_selection
        is_done = env.terminations[agent] or env.truncations[agent]
        env.step(None if is_done else legal_action(env, rng))
    assert not env.agents
    env.reset()


@given(data=st.data())
def test_daihinmin_plays_on_from_any_state_or_refuses_it(data: st.DataObject) -> None:
    env = copy.deepcopy(data.draw(st.sampled_from(environments())))
    before = env.get_state()
    try:
        env.set_state(damaged_state(data, before))
    except REFUSED:
        assert_same_state(env.get_state(), before)
    env._games_left = min(env._games_left, 2)
    play_to_the_end(env)


@given(data=st.data())
def test_a_state_of_daihinmin_has_all_parts(data: st.DataObject) -> None:
    env = started_daihinmin(1)
    before = env.get_state()
    with pytest.raises(REFUSED):
        env.set_state(data.draw(states_like(before)))
    assert_same_state(env.get_state(), before)


@functools.cache
def games() -> list[Game]:
    """Return positions of a match with an exchange."""
    env, positions = started_daihinmin(3, {"classes": [0, 1, 2, 3, 4]}), []
    rng = np.random.default_rng(1)
    while not env.terminations[env.agent_selection]:
        positions.append(env.get_state()["game"])
        env.step(legal_action(env, rng))
    return positions


def answer(player: Any, game: Game) -> None:
    """Ask the player in turn of a game or view; check that its answer is legal."""
    if (n := int(game["to_give"])) == 0:
        assert 0 <= (move := player.choose(game)) < 2422
        assert is_legal(game, move) or status(game) is not Status.VALID
    else:
        gift = int(player.give(game, n))
        assert gift & ~int(game["hands"][game["turn"]]) == 0 and cards.count(gift) == n


@by_player(PLAYERS)
@given(data=st.data())
@share(2)
def test_players_of_daihinmin_refuse_or_answer_any_record(name: str, data: st.DataObject) -> None:
    game = data.draw(st.sampled_from(games()))
    if data.draw(st.booleans()):
        game = view(game, int(game["turn"]))
    damaged = damaged_record(data, game)
    try:
        answer(player_of(name), damaged)
    except ValueError as error:
        assert " must be " in str(error)
        own = damaged["viewer"] in (-1, damaged["turn"]) and damaged["turn"] >= 0
        assert status(damaged) is not Status.VALID or not own


@by_player(PLAYERS)
def test_players_of_daihinmin_answer_all_valid_records(name: str) -> None:
    for game in games()[::3]:
        for asked in (game, view(game, int(game["turn"]))):
            assert status(asked) is Status.VALID
            answer(player_of(name), asked)


# Settings


@by_player({**PLAYERS_2048, **PLAYERS})
@given(data=st.data())
@share(4)
def test_players_are_made_by_any_settings_or_refuse_them(name: str, data: st.DataObject) -> None:
    values = data.draw(with_names(agents.setting_names(name), ANYTHING | SIZES))
    for cost in values.keys() & CHEAP.keys():
        values[cost] = data.draw(CHEAP[cost] | st.none() | st.text() | st.floats(max_value=0))
    try:
        player = agents.make(name, **{**START.get(name, {}), **values})
    except (*REFUSED, OSError):
        return
    if name in PLAYERS_2048:
        assert 0 <= player.act([0x1])[0] < 4
    else:
        answer(player, games()[20])


@pytest.mark.parametrize("learner", LEARNERS)
@given(data=st.data())
@share(2)
def test_settings_are_made_or_refused_in_one_line(learner: str, data: st.DataObject) -> None:
    kind = run_settings(learner)
    values = data.draw(with_names([field.name for field in fields(kind)], JSON))
    try:
        run = config.from_dict(values, kind)
    except ValueError as error:
        assert str(error) and "\n" not in str(error)
    else:
        assert config.from_dict(json.loads(json.dumps(values)), kind) == run


@given(values=with_names(["rule", "order", "lam", "rate", "delay", "restart", "epsilon"], ANYTHING))
@share(2)
def test_learners_learn_by_any_settings_that_are_not_refused(values: Any) -> None:
    try:
        learner = NTupleLearner(network([[0, 1], [4, 5]]), NTupleSettings(**values), 1)
    except REFUSED:
        return
    learner.learn(200)
    assert learner.n_moves >= 200
    assert np.isfinite(learner.network.weights).all()
