"""Copies of all environments play independently, and results belong to the caller."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import pytest
from gymnasium.vector import AutoresetMode

from afterstate.envs import daihinmin_v0
from afterstate.envs.daihinmin.env import raw_env
from afterstate.envs.daihinmin.seat_env import DaihinminEnv
from afterstate.envs.daihinmin.vector_env import DaihinminVectorEnv
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.vector_env import Game2048VectorEnv
from tests.support.daihinmin.env_checks import path, play_seat, play_seats
from tests.support.env_checks import assert_same, by_duplicate, play, play_batch, spoil


class Case(NamedTuple):
    """An environment, a function that plays steps of it, and methods that return arrays."""

    make: Callable[..., Any]
    play: Callable[[Any, int, int], list[Any]]
    methods: tuple[str, ...] = ()


GAME = ("afterstates", "action_masks", "get_state")
BATCH = partial(Game2048VectorEnv, 4, (2, 3), max_episode_steps=9)
MATCH = partial(raw_env, games=2)
SEATS = partial(DaihinminVectorEnv, 4, games=2, max_episode_steps=9)

CASES = {
    "2048": Case(Game2048Env, play, GAME),
    "2048, planes": Case(partial(Game2048Env, observation="onehot"), play, GAME),
    "2048, wrapped": Case(partial(gym.make, "Game2048-v0"), play),
    "2048, batch": Case(BATCH, play_batch, GAME[:2]),
    "2048, batch of planes, same step": Case(
        partial(BATCH, observation="onehot", autoreset_mode=AutoresetMode.SAME_STEP),
        *(play_batch, GAME[:2]),
    ),
    "Daihinmin": Case(MATCH, path, ("state", "get_state")),
    "Daihinmin, planes": Case(partial(MATCH, observation="planes"), path, ("state", "get_state")),
    "Daihinmin, wrapped": Case(partial(daihinmin_v0.env, games=2), path),
    "Daihinmin, one seat": Case(partial(DaihinminEnv, games=2), play_seat, ("action_masks",)),
    "Daihinmin, batch": Case(SEATS, play_seats, ("action_masks", "views")),
    "Daihinmin, batch, same step": Case(
        partial(SEATS, opponents="sample", autoreset_mode=AutoresetMode.SAME_STEP),
        *(play_seats, ("action_masks", "views")),
    ),
    "Daihinmin, one seat, wrapped": Case(partial(gym.make, "Daihinmin-v0"), play_seat),
}
by_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def started(case: Case) -> Any:
    """Return an environment after its reset."""
    env = case.make()
    env.reset(seed=2)
    return env


@by_case
@by_duplicate
def test_a_copy_plays_the_same_games_independently(
    case: Case, duplicate: Callable[[Any], Any]
) -> None:
    env = started(case)
    case.play(env, 20, 1)
    twin, third = duplicate(env), duplicate(env)
    expected = case.play(env, 150, 2)
    case.play(third, 5, 3)
    assert_same(case.play(twin, 150, 2), expected)
    assert_same(env.reset(), twin.reset())
    assert_same(env.reset(seed=8), third.reset(seed=8))
    assert_same(case.play(env, 5, 4), case.play(third, 5, 4))


@by_case
@by_duplicate
def test_a_copy_before_the_first_reset_plays_the_same_games(
    case: Case, duplicate: Callable[[Any], Any]
) -> None:
    env, twin = case.make(), duplicate(case.make())
    assert_same(env.reset(seed=1), twin.reset(seed=1))
    assert_same(case.play(env, 5, 1), case.play(twin, 5, 1))


@by_case
def test_changing_results_does_not_change_the_game(case: Case) -> None:
    env, twin = started(case), started(case)
    spoil(env.reset(seed=5))
    twin.reset(seed=5)
    for seed in range(80):
        for method in case.methods:
            spoil(getattr(env, method)())
        steps = case.play(env, 1, seed)
        assert_same(steps, case.play(twin, 1, seed))
        spoil(steps)


@by_case
def test_later_steps_do_not_change_earlier_results(case: Case) -> None:
    env = started(case)
    results = [env.reset(seed=9), *case.play(env, 60, 3)]
    copies = copy.deepcopy(results)
    case.play(env, 60, 4)
    assert_same(results, copies)


@pytest.mark.parametrize("make", [Game2048Env, partial(Game2048Env, (2, 3)), BATCH])
def test_a_pickle_is_small(make: Callable[[], Any]) -> None:
    """The move table is shared."""
    env = make()
    assert len(pickle.dumps(env)) < 20_000
    env.reset(seed=1)
    assert len(pickle.dumps(env)) < 20_000
