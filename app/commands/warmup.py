"""`afterstate warmup`: compile what environments and players need."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import gymnasium as gym
import numpy as np

from afterstate import agents
from afterstate.agents.progress import progress_bar
from afterstate.commands.options import Warmup
from afterstate.commands.players import check_settings, game_of, move_once
from afterstate.envs.messages import installed_by, listed

ENVIRONMENTS = ("Game2048-v0", "Game2048Flat-v0", "Daihinmin-v0")


def run(options: Warmup) -> None:
    """Compile, with a progress bar.

    Raises:
        OSError, ValueError, ImportError: a player that is not found.
    """
    names = _installed() if "all" in options.players else list(options.players)
    for name in names:
        game_of([name])  # before anything is compiled
    check_settings(names)
    steps: dict[str, Callable[[], Any]] = {
        **{name: partial(_step, name) for name in ENVIRONMENTS},
        "vector environments": _step_vectors,
        "daihinmin_v0": _step_table,
        **{name: partial(_move, name) for name in names},
    }
    with progress_bar(steps.items(), unit="parts") as bar:
        for name, step in bar:
            bar.set_description(name)
            step()
    print(f"compiled: {', '.join(steps)}")


def _installed() -> list[str]:
    """Return the names of all players whose packages are installed; print the others' on stderr."""
    left_out = [name for name in agents.names() if agents.missing_packages(name)]
    if left_out:
        command = installed_by(*chain.from_iterable(map(agents.missing_packages, left_out)))
        print(f"left out: {listed(left_out)}: {command}", file=sys.stderr)
    return [name for name in agents.names() if name not in left_out]


def _step(name: str) -> None:
    """Step a Gymnasium environment."""
    env = gym.make(f"afterstate:{name}")
    env.reset(seed=1)
    env.step(0)
    env.close()


def _step_vectors() -> None:
    """Step the vector environments."""
    for name in ("Game2048-v0", "Daihinmin-v0"):
        envs = gym.make_vec(f"afterstate:{name}", 2, vectorization_mode="vector_entry_point")
        envs.reset(seed=1)
        envs.step(np.zeros(2, np.int64))
        envs.close()


def _step_table() -> None:
    """Step the PettingZoo environment."""
    from afterstate.envs import daihinmin_v0

    env = daihinmin_v0.env()
    env.reset(seed=1)
    env.step(0)
    env.close()


def _move(name: str) -> None:
    """Let a player move, and compile the games in which it is evaluated."""
    from afterstate.agents.game2048.play import play
    from afterstate.agents.game2048.simple import RandomAgent

    player = agents.find(name)
    move_once(player)
    if hasattr(player, "act"):
        play(player if hasattr(player, "finish") else RandomAgent(), 1)
