"""Fixtures of the leaderboard's tests."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import afterstate.envs  # noqa: F401 - registers the environments
from afterstate import agents
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.leaderboard import command as leaderboard
from afterstate.leaderboard import games as leaderboard_games


@pytest.fixture
def short_cycles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make cycles short, and publish no rows."""
    monkeypatch.setattr(leaderboard_games, "CYCLE", 3)
    monkeypatch.setattr(leaderboard, "PUBLISHED", tmp_path / "published")


@pytest.fixture
def bots(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module of a third party with players of 2048."""
    module = ModuleType("bots")

    def by_chance(seed: int) -> Any:
        return agents.make("random", seed=seed)

    def table_of(value: float = 1.0) -> Any:
        net = network([[0, 1, 2]])
        net.weights[:] = value * np.arange(net.weights.size)
        return agents.make("ntuple", network=net)

    def broken() -> Any:
        raise KeyError("no such thing")

    def quits() -> Any:
        sys.exit("not today")

    class Stuck:
        """A player that makes an illegal move sooner or later."""

        def act(self, boards: Any) -> Any:
            return np.zeros(len(boards), np.int8)

    class Forger:
        """A player that would play whole games itself, with its own score."""

        size = 5

        def act(self, boards: Any) -> Any:
            return agents.make("alphabeta", depth=1).act(boards)

        def finish(self, games: Any) -> Any:
            raise AssertionError("finish was called")

    for made in (by_chance, table_of, broken, quits, Stuck, Forger):
        monkeypatch.setattr(module, made.__name__, made, raising=False)
    monkeypatch.setitem(sys.modules, "bots", module)
    return module
