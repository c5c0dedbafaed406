"""Games of 2048 that players make in the environment, to be compared with play logs."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import afterstate.envs  # noqa: F401
from afterstate import agents
from afterstate.agents.game2048.learning.play_logs import Moves
from afterstate.agents.game2048.values.ntuple_file import save
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.envs.game2048.rules import words

Move = tuple[int, int]
"""Board and action."""


def save_players(folder: Path) -> list[str]:
    """Save two greedy players with random values, and return their files."""
    names = []
    for seed in (1, 2):
        net = network([[0, 1, 4], [5, 6]])
        net.weights[:] = np.random.default_rng(seed).normal(0, 50, net.weights.size)
        names.append(str(folder / f"player{seed}.npz"))
        save(net, names[-1])
    return names


@cache
def game(player: str, seed: int) -> tuple[list[Move], int]:
    """Return the moves that a player makes in the environment, and the score."""
    agent, moves = agents.load(player), []
    env = gym.make("Game2048-v0", illegal="raise")
    (observation, info), over = env.reset(seed=seed), False
    while not over:
        action, _ = agent.predict(observation)
        moves.append((int(words(observation)), int(action)))
        observation, _, over, _, info = env.step(int(action))
    env.close()
    return moves, int(info["score"])


def games(player: str, seeds: range, skip: int = 0) -> Counter[Move]:
    """Return the counts of the moves of games, without the first ones of each game."""
    return Counter(move for seed in seeds for move in game(player, seed)[0][skip:])


def counted(moves: Moves) -> Counter[Move]:
    """Return the counts of moves."""
    return Counter((int(board), int(action)) for board, action in moves.tolist())


def assert_even(places: Any, n_places: int) -> None:
    """Assert that numbers are spread evenly over a table of 10x10 by position and number.

    The statistic is that of chi squared with 81 degrees of freedom: P(> 150) is 1 in 200,000.
    """
    rows, columns = 10 * np.arange(len(places)) // len(places), 10 * places // n_places
    table = np.histogram2d(rows, columns, bins=np.arange(11))[0]
    expected = len(places) / 100
    assert ((table - expected) ** 2 / expected).sum() < 150
