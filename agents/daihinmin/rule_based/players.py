"""Players of Daihinmin that follow fixed rules: random, the sample client and the heuristic player.

`RandomAgent` is the environments' `afterstate.envs.daihinmin.players.RandomPlayer`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit
from numba.np.unsafe.ndarray import to_fixed_tuple

from afterstate.agents.daihinmin.rule_based.heuristic import Weights, heuristic_gift, heuristic_play
from afterstate.agents.daihinmin.rule_based.sample_client import sample_play
from afterstate.envs.daihinmin.cards import weakest
from afterstate.envs.daihinmin.players import MOVE, CheckedPlayer, CompiledPlayer
from afterstate.envs.daihinmin.players import RandomPlayer as RandomAgent
from afterstate.envs.daihinmin.rules import Game
from afterstate.envs.messages import shown
from afterstate.envs.words import Words

__all__ = ["HeuristicAgent", "RandomAgent", "SampleAgent"]


_N_WEIGHTS = len(Weights._fields)


@njit(MOVE, cache=True)
def sample_move(view: Game, parameters: npt.NDArray[np.float64], stream: Words) -> int:
    """Return the move of a `SampleAgent`."""
    if view.to_give > 0:
        return int(weakest(view.hands[view.turn], view.to_give))
    return sample_play(view)


@njit(MOVE, cache=True)
def heuristic_move(view: Game, parameters: npt.NDArray[np.float64], stream: Words) -> int:
    """Return the move of a `HeuristicAgent`, whose weights are the parameters."""
    weights = Weights(*to_fixed_tuple(parameters, _N_WEIGHTS))  # type: ignore[call-arg]
    if view.to_give > 0:
        return int(heuristic_gift(view, weights))
    return heuristic_play(view, weights)


class SampleAgent(CheckedPlayer):
    """The competition's sample client, which is deterministic."""

    def choose_play(self, view: Game) -> int:
        """Return the play that the client submits: see `sample_play`."""
        return int(sample_play(view))

    def choose_gift(self, view: Game, n: int) -> int:
        """Return the weakest natural cards."""
        return int(weakest(view["hands"][view["turn"]], n))

    def compiled(self) -> CompiledPlayer:
        """Return the player as a kernel."""
        return CompiledPlayer(sample_move)


class HeuristicAgent(CheckedPlayer):
    """A rule-based player that divides its hand into melds and counts the cards that beat them.

    It keeps groups and sequences whole, gets rid of cards that lose tricks, saves 8s, 2s and the
    joker for the lead, and goes out as soon as nobody can stop it.

    Args:
        weights: the costs of melds; by default `Weights()`.

    Raises:
        ValueError: weights are not a `Weights` record of finite numbers.
    """

    def __init__(self, weights: Weights | None = None) -> None:
        weights = Weights() if weights is None else weights
        is_valid = isinstance(weights, Weights) and all(
            isinstance(w, (int, float)) and math.isfinite(w) for w in weights
        )
        if not is_valid:
            raise ValueError(
                f"weights must be a Weights record of finite numbers, got {shown(weights)}"
            )
        self._weights = Weights(*map(float, weights))

    def choose_play(self, view: Game) -> int:
        """Return the play of least cost: see `heuristic_play`."""
        return int(heuristic_play(view, self._weights))

    def choose_gift(self, view: Game, n: int) -> int:
        """Return the cards whose loss costs the hand least: see `heuristic_gift`."""
        return int(heuristic_gift(view, self._weights))

    def compiled(self) -> CompiledPlayer:
        """Return the player as a kernel."""
        return CompiledPlayer(heuristic_move, np.array(self._weights))
