"""The other card games that Python can call, each as something to time.

Every program plays uniformly random legal actions and deals again when a game is over. A step is a
player's action; what chance does is part of it. No program is imported before it is started, so any
of them may be missing.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks.speed.timing import Peer, Steps


def start_open_spiel(name: str) -> Steps:
    """Start a C++ game of open_spiel, called through pyspiel; no observation is made."""
    game = import_module("pyspiel").load_game(name)
    draw = random.Random(0).random
    state = game.new_initial_state()

    def steps(n: int) -> int:
        nonlocal state
        done = 0
        while done < n:
            if state.is_terminal():
                state = game.new_initial_state()
            elif state.is_chance_node():
                outcomes = state.chance_outcomes()
                state.apply_action(outcomes[int(draw() * len(outcomes))][0])
            else:
                actions = state.legal_actions()
                state.apply_action(actions[int(draw() * len(actions))])
                done += 1
        return done

    return steps


def start_rlcard(name: str) -> Steps:
    """Start a game of RLCard, with its observations."""
    env = import_module("rlcard").make(name)
    draw = random.Random(0).random
    state, _ = env.reset()

    def steps(n: int) -> int:
        nonlocal state
        for _ in range(n):
            actions = list(state["legal_actions"])
            state, _ = env.step(actions[int(draw() * len(actions))])
            if env.is_over():
                state, _ = env.reset()
        return n

    return steps


def step_pettingzoo(env: Any) -> Steps:
    """Random legal steps of an AEC environment whose observations have an action mask."""
    draw = random.Random(0).random
    env.reset(seed=0)

    def steps(n: int) -> int:
        done = 0
        while done < n:
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.reset()
                continue
            legal = observation["action_mask"].nonzero()[0]
            env.step(legal[int(draw() * len(legal))])
            done += 1
        return done

    return steps


def start_pettingzoo(name: str) -> Steps:
    """Start a classic game of PettingZoo, with its wrappers and observations."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    return step_pettingzoo(import_module(f"pettingzoo.classic.{name}").env())


def _peers(
    name: str, kind: str, start: Callable[[str], Steps], module: str, *games: str
) -> list[Peer]:
    """The games of one program."""
    return [Peer(name, kind, partial(start, game), module, game) for game in games]


PEERS: list[Peer] = [
    *_peers("open_spiel", "playout", start_open_spiel, "pyspiel", "hearts", "dou_dizhu", "tarok"),
    *_peers("rlcard", "env", start_rlcard, "rlcard", "doudizhu"),
    *_peers("pettingzoo", "env", start_pettingzoo, "rlcard", "texas_holdem_v4"),
    *_peers("pettingzoo", "env", start_pettingzoo, "pygame", "connect_four_v3"),
]
