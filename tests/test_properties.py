"""Whatever is given to public functions, they work or raise a declared error and change nothing."""

from __future__ import annotations

import copy
import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from afterstate import agents
from afterstate.agents import config
from afterstate.agents.game2048.learning.ntuple_learner import (
    NTupleLearner,
    NTupleRun,
    NTupleSettings,
)
from afterstate.agents.game2048.values.ntuple import network
from afterstate.envs import daihinmin_v0
from afterstate.envs.daihinmin.arguments import Status, status
from afterstate.envs.daihinmin.rules import GAME

settings.register_profile(
    "afterstate", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("afterstate")

NUMBERS = st.integers() | st.floats() | st.booleans() | st.none() | st.complex_numbers()
ARRAYS = arrays.arrays(
    st.sampled_from([np.uint64, np.int64, np.int8, np.float32, np.bool_, np.object_]),
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda each: (
        st.lists(each, max_size=4) | st.dictionaries(st.text(max_size=5), each, max_size=4)
    ),
    max_leaves=8,
)
ANYTHING = NUMBERS | ARRAYS | JSON | st.text(max_size=9) | st.binary(max_size=9)
BOARDS = st.integers(0, 2**64 - 1) | arrays.arrays(np.int64, (4, 4), elements=st.integers(-1, 18))


def with_names(names: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return dictionaries with some of the names, or with others."""
    return st.dictionaries(st.sampled_from(names) | st.text(max_size=5), values, max_size=3)


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
        except (ValueError, TypeError):
            assert type(action) is not int or not 0 <= action < 4
        assert env.observation_space.contains(observation)


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
        except (ValueError, TypeError):
            assert env.get_state()["game"] == before
        assert status(env.get_state()["game"]) is Status.VALID


@given(data=st.data())
def test_players_of_daihinmin_refuse_or_answer_any_record(data: st.DataObject) -> None:
    env = daihinmin_v0.raw_env()
    env.reset(seed=3)
    game = copy.deepcopy(env.get_state()["game"])
    name = data.draw(st.sampled_from(GAME.names or ()))
    numbers = np.atleast_1d(game[name])
    at = data.draw(st.integers(0, numbers.size - 1))
    limits = np.iinfo(numbers.dtype)
    numbers.reshape(-1)[at] = data.draw(st.integers(int(limits.min), int(limits.max)))
    game[name] = numbers.reshape(np.shape(game[name]))
    for player in ("daihinmin-random", "daihinmin-sample", "daihinmin-heuristic"):
        try:
            play = agents.make(player).choose(game)
        except ValueError:
            continue
        assert isinstance(play, int)


@given(values=with_names(["network", "learner", "seed", "start"], JSON))
def test_settings_are_made_or_refused_in_one_line(values: Any) -> None:
    try:
        run = config.from_dict(values, NTupleRun)
    except ValueError as error:
        assert str(error) and "\n" not in str(error)
    else:
        assert config.from_dict(json.loads(json.dumps(values)), NTupleRun) == run


@given(values=with_names(["rule", "order", "lam", "rate", "delay", "restart", "epsilon"], ANYTHING))
@settings(max_examples=60)
def test_learners_learn_by_any_settings_that_are_not_refused(values: Any) -> None:
    try:
        learner = NTupleLearner(network([[0, 1], [4, 5]]), NTupleSettings(**values), 1)
    except (ValueError, TypeError):
        return
    learner.play(200)
    assert learner.n_moves >= 200
    assert np.isfinite(learner.network.weights).all()


@given(name=st.sampled_from(["random", "reward", "expectimax", "daihinmin-random"]), data=st.data())
def test_players_are_made_by_any_settings_or_refuse_them(name: str, data: st.DataObject) -> None:
    values = data.draw(with_names(agents.setting_names(name), ANYTHING))
    try:
        player = agents.make(name, **values)
    except (ValueError, TypeError, OSError):
        return
    assert hasattr(player, "act") or hasattr(player, "choose")
