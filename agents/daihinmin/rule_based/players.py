"""Players of Daihinmin by rules alone: random, the sample client, and a better one.

`RandomAgent` is `afterstate.envs.daihinmin.players.RandomPlayer`, which the environments have too.
"""

from __future__ import annotations

from afterstate.agents.daihinmin.rule_based.heuristic import Weights, heuristic_gift, heuristic_play
from afterstate.agents.daihinmin.rule_based.sample_client import sample_play
from afterstate.envs.daihinmin.cards import weakest
from afterstate.envs.daihinmin.players import RandomPlayer as RandomAgent
from afterstate.envs.daihinmin.rules import Game

__all__ = ["HeuristicAgent", "RandomAgent", "SampleAgent"]


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

    Args:
        weights: what it thinks of cards.

    Raises:
        ValueError: not `Weights` of numbers.
    """

    def __init__(self, weights: Weights | None = None) -> None:
        chosen = Weights() if weights is None else weights
        if not isinstance(chosen, Weights) or not all(isinstance(w, (int, float)) for w in chosen):
            raise ValueError(f"weights are a `Weights` of numbers, got {weights!r}")
        self._weights = Weights(*map(float, chosen))

    def choose(self, view: Game) -> int:
        """The play of least cost: see `heuristic_play`."""
        return int(heuristic_play(view, self._weights))

    def give(self, view: Game, n: int) -> int:
        """The cards that the rest of the hand misses least: see `heuristic_gift`."""
        return int(heuristic_gift(view, self._weights))
