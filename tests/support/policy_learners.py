"""Logs and comparisons for the tests of policy learners."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from afterstate.agents.game2048.learning.play_logs import MOVE, Moves
from afterstate.agents.game2048.learning.policy_imitation import Learner
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.simple import RewardAgent
from afterstate.envs.game2048 import rules
from afterstate.envs.words import Words


def log_of(boards: Any, actions: Any) -> Moves:
    """Return a log of these moves."""
    log = np.empty(len(boards), MOVE)
    log["board"], log["action"] = boards, actions
    return log


def numbered_boards(n: int) -> Words:
    """Return up to 225 boards of two tiles in opposite corners; all four moves are legal."""
    cells = np.zeros((n, 4, 4), np.uint8)
    cells[:, 0, 0], cells[:, 3, 3] = np.arange(n) % 15 + 1, np.arange(n) // 15 + 1
    return rules.words(cells)


def reward_log(n_games: int, seed: int, most: int = 10**9) -> Moves:
    """Return the first moves of games of the player `reward`, shuffled."""
    parts: list[Moves] = []

    def watch(games: Any, boards: Words, actions: npt.NDArray[np.int64]) -> None:
        if len(parts) < most:
            parts.append(log_of(boards, actions))

    play(RewardAgent(seed), n_games, seed, watch=watch)
    return np.random.default_rng(seed).permutation(np.concatenate(parts))


def assert_same(one: Learner, other: Learner) -> None:
    """Assert that two learners have learned the same moves and have equal weights and states."""
    assert one.n_moves == other.n_moves
    assert one.fitter.n_steps == other.fitter.n_steps
    for first, second in (
        (one.fitter.tensors(), other.fitter.tensors()),
        (one.net.state_dict(), other.net.state_dict()),
    ):
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)
