"""Players of Daihinmin by rules alone: random, the sample client, and a better one."""

from __future__ import annotations

import numpy as np

from afterstate.agents.daihinmin.heuristic import Weights, heuristic_gift, heuristic_play
from afterstate.agents.daihinmin.sample_client import sample_play
from afterstate.envs.daihinmin.cards import (
    N_CARDS,
    weakest,
)
from afterstate.envs.daihinmin.plays import (
    N_PLAYS,
    PASS,
)
from afterstate.envs.daihinmin.rules import Game, list_legal


class RandomAgent:
    """A random legal play, all alike; it passes only where it must follow."""

    def __init__(self, seed: int | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._out = np.empty(N_PLAYS, np.int64)

    def choose(self, view: Game) -> int:
        """A random legal play, or the pass with the same chance as each of them."""
        n = list_legal(view, self._out)
        chosen = int(self._rng.integers(n + (view["field"] != PASS)))
        return int(self._out[chosen]) if chosen < n else PASS

    def give(self, view: Game, n: int) -> int:
        """Random cards."""
        hand = int(view["hands"][view["turn"]])
        held = [card for card in range(N_CARDS) if hand >> card & 1]
        return sum(1 << int(card) for card in self._rng.choice(held, n, replace=False))


class SampleAgent:
    """The competition's sample client, which is deterministic."""

    def choose(self, view: Game) -> int:
        """The client's submission: see `sample_play`."""
        return int(sample_play(view))

    def give(self, view: Game, n: int) -> int:
        """The weakest natural cards."""
        return int(weakest(view["hands"][view["turn"]], n))


class HeuristicAgent:
    """A player by rules: it divides its hand, and counts what can still beat its parts.

    It keeps groups and sequences whole, gets rid of what loses tricks, saves 8s, 2s and the joker
    for the lead, and plays out as soon as nobody can hinder it.
    """

    def __init__(self, weights: Weights | None = None) -> None:
        self._weights = weights or Weights()

    def choose(self, view: Game) -> int:
        """The play of least cost: see `heuristic_play`."""
        return int(heuristic_play(view, self._weights))

    def give(self, view: Game, n: int) -> int:
        """The cards that the rest of the hand misses least: see `heuristic_gift`."""
        return int(heuristic_gift(view, self._weights))
