"""Random play and starting environments for tests of the Daihinmin environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from afterstate.envs.daihinmin.env import raw_env
from afterstate.envs.daihinmin.rules import GAME, Game
from tests.support.env_checks import assert_same

by_observation = pytest.mark.parametrize("observation", ["dict", "planes"])


def same_game(first: Game, second: Game) -> bool:
    return all(np.array_equal(first[name], second[name]) for name in GAME.names or ())


def mask_of(env: Any) -> Any:
    """Return the mask of the selected agent."""
    observation, *_, info = env.last()
    return (observation if isinstance(observation, dict) else info)["action_mask"]


def legal_action(env: Any, rng: np.random.Generator) -> int:
    """Return a random legal action, and the pass only if no play is legal."""
    legal = np.flatnonzero(mask_of(env))
    return int(legal[rng.integers(len(legal) > 1, len(legal))])


def started(seed: int = 1, options: Any = None, **settings: Any) -> raw_env:
    env = raw_env(**settings)
    env.reset(seed, options)
    return env


def path(env: Any, n_steps: int, seed: int, rate: float = 0.0) -> list[Any]:
    """Return the steps of random actions, some illegal; episodes follow one another."""
    rng, steps = np.random.default_rng(seed), []
    for _ in range(n_steps):
        steps.append((env.agent_selection, env.last(), dict(env.rewards), list(env.agents)))
        if env.terminations[env.agent_selection] or env.truncations[env.agent_selection]:
            env.step(None)
            if not env.agents:
                env.reset()
        else:
            illegal = rng.random() < rate
            env.step(int(rng.integers(2422)) if illegal else legal_action(env, rng))
    return steps


def play_seat(env: Any, n_steps: int, seed: int) -> list[Any]:
    """Return the steps of random legal actions of one seat; episodes follow one another."""
    rng, steps = np.random.default_rng(seed), []
    for _ in range(n_steps):
        legal = np.flatnonzero(env.get_wrapper_attr("action_masks")())
        steps.append(env.step(int(legal[rng.integers(len(legal) > 1, len(legal))])))
        if steps[-1][2]:
            steps.append(env.reset())
    return steps


def play_seats(envs: Any, n_steps: int, seed: int) -> list[Any]:
    """Return the steps of random legal actions of an environment of many games."""
    rng, steps = np.random.default_rng(seed), []
    for _ in range(n_steps):
        legal = [np.flatnonzero(mask) for mask in envs.action_masks()]
        steps.append(envs.step(np.array([rng.choice(each) for each in legal])))
    return steps


def assert_same_state(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Check that two states of an environment are equal."""
    one, other = first.copy(), second.copy()
    assert same_game(one.pop("game"), other.pop("game"))
    generators = one.pop("_generator"), other.pop("_generator")
    assert_same(*(generator.bit_generator.state for generator in generators))
    assert_same(one, other)


def refused(env: raw_env, action: Callable[[], Any], match: str = "[a-z]") -> None:
    """Check that an action raises ValueError and leaves the environment unchanged."""
    before = env.get_state()
    with pytest.raises(ValueError, match=match):
        action()
    assert_same_state(env.get_state(), before)


def in_exchange(seed: int = 1, **settings: Any) -> raw_env:
    """Return an environment in which the daifugo, player_0, must give two cards."""
    return started(seed, {"classes": [0, 1, 2, 3, 4]}, **settings)


def following(**settings: Any) -> raw_env:
    """Return an environment with a play on the field."""
    env = started(**settings)
    env.step(int(np.flatnonzero(mask_of(env))[1]))
    assert env.get_state()["game"]["field"]
    return env
