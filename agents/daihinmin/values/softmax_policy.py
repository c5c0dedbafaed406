"""A softmax policy over features of a play and of the hand that it leaves.

The score of a legal play (or of the pass, unless the player leads) is the sum of the weights of its
features (see `features.py`); its probability is proportional to exp(score / temperature). A play
that empties the hand is always made. Gifts are chosen in the same way.

The pretrained policy was learned from zero weights in 2.4 million games of self-play, and then from
the choices of the pretrained rank network in 5,000 games: see `policy.json`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float64, int16, int64, njit, types, uint64, void

from afterstate.agents import files
from afterstate.agents.config import LEAST_TEMPERATURE, NonNegative, checked
from afterstate.agents.daihinmin.values.features import (
    MOST,
    N_CONTEXTS,
    N_FEATURES,
    Features,
    describe,
    describe_gifts,
    list_options,
)
from afterstate.agents.locks import Lock
from afterstate.envs.checks import check_seed
from afterstate.envs.daihinmin.players import CheckedPlayer
from afterstate.envs.daihinmin.plays import N_PLAYS, Numbers
from afterstate.envs.daihinmin.rules import Game, GameType, draw, write_gifts
from afterstate.envs.messages import shown
from afterstate.envs.words import Word

KIND = "daihinmin-policy"
"""The kind in the header of a policy's file."""

Scores = npt.NDArray[np.float64]


class Workspace(NamedTuple):
    """Arrays that the policy's kernels overwrite: see `new_workspace`."""

    options: Numbers
    beaters: Numbers
    features: Features
    sizes: Numbers
    masses: Scores  # of probability, not normalized: see `weigh`


WorkspaceType = types.NamedTuple(
    (int64[::1], int64[::1], int16[:, ::1], int64[::1], float64[::1]), Workspace
)


def new_workspace() -> Workspace:
    """Return arrays for the kernels that play by a policy."""
    features = np.empty((N_PLAYS, MOST), np.int16)
    options, beaters, sizes = (np.empty(N_PLAYS, np.int64) for _ in range(3))
    return Workspace(options, beaters, features, sizes, np.empty(N_PLAYS))


@njit(void(int64, float64[::1], float64, WorkspaceType), cache=True)
def weigh(n: int, weights: Scores, temperature: float, workspace: Workspace) -> None:
    """Write exp(score / temperature) of the `n` options, scaled so that the largest is 1."""
    best = -np.inf
    for i in range(n):
        score = 0.0
        for j in range(workspace.sizes[i]):
            score += weights[workspace.features[i, j]]
        workspace.masses[i] = score / temperature
        best = max(best, score / temperature)
    for i in range(n):
        workspace.masses[i] = math.exp(workspace.masses[i] - best)


@njit(int64(GameType, float64[::1], float64, WorkspaceType), cache=True)
def weigh_options(game: Game, weights: Scores, temperature: float, workspace: Workspace) -> int:
    """Write the options of the player in turn and their unnormalized probabilities.

    Args:
        game: a view or a whole game.
        weights: all weights of a policy, row after row.
        temperature: divides the scores.
        workspace: gets `options`, their `features` and `sizes`, and in `masses` numbers
            proportional to the probabilities, the largest 1. A single option gets no features.

    Returns:
        The number of options.
    """
    n = list_options(game, workspace.options)
    workspace.masses[0] = 1.0
    workspace.sizes[0] = 0
    if n == 1:
        return n
    describe(game, workspace.options, n, workspace.beaters, workspace.features, workspace.sizes)
    weigh(n, weights, temperature, workspace)
    return n


@njit(int64(GameType, int64, WorkspaceType), cache=True)
def draw_option(game: Game, n: int, workspace: Workspace) -> int:
    """Return the index of an option drawn from `n` of `weigh_options`; advance the `rng`."""
    if n == 1:
        return 0
    total = 0.0
    for i in range(n):
        total += workspace.masses[i]
    point = draw(game, 1 << 32) / (1 << 32) * total
    for i in range(n - 1):
        point -= workspace.masses[i]
        if point < 0:
            return i
    return n - 1


@njit(int64(GameType, float64[::1], float64, WorkspaceType), cache=True)
def policy_play(game: Game, weights: Scores, temperature: float, workspace: Workspace) -> int:
    """Return a play drawn by a policy (see `weigh_options`); advance the game's `rng`."""
    n = weigh_options(game, weights, temperature, workspace)
    return int(workspace.options[draw_option(game, n, workspace)])


@njit(int64(GameType, float64[::1], float64, WorkspaceType), cache=True)
def weigh_gifts(game: Game, weights: Scores, temperature: float, workspace: Workspace) -> int:
    """Write the gifts of the player in turn, as card sets, and weigh them: see `weigh_options`."""
    n = write_gifts(game, workspace.options)
    describe_gifts(game, workspace.options, n, workspace.features, workspace.sizes)
    weigh(n, weights, temperature, workspace)
    return n


@njit(uint64(GameType, float64[::1], float64, WorkspaceType), cache=True)
def policy_gift(game: Game, weights: Scores, temperature: float, workspace: Workspace) -> Word:
    """Return a gift drawn by a policy; advance the game's `rng`."""
    n = weigh_gifts(game, weights, temperature, workspace)
    return np.uint64(workspace.options[draw_option(game, n, workspace)])


# Policies and their files


class Policy(NamedTuple):
    """A softmax policy."""

    weights: Scores
    """`float64[N_CONTEXTS, N_FEATURES]`: differences of log probability at temperature 1."""


PRETRAINED = Path(__file__).parents[1] / "pretrained" / "policy.npz"
"""The file of the pretrained policy."""


def new_policy() -> Policy:
    """Return a policy of zero weights, for which all options have the same probability."""
    return Policy(np.zeros((N_CONTEXTS, N_FEATURES)))


def save(policy: Policy, path: str | Path, **header: Any) -> None:
    """Write a policy to a file.

    Args:
        policy: the policy.
        path: the file.
        **header: metadata for the file's header, fit for JSON.

    Raises:
        OSError: the file cannot be written.
        ValueError: weights are NaN, infinite, or too large for the file.
    """
    with np.errstate(over="ignore"):
        weights = np.asarray(policy.weights, np.float32)
    if not files.is_finite(weights):
        raise ValueError(f"weights are NaN, infinite or too large, so {path} is not changed")
    files.write(path, KIND, header, {"weights": weights}, level=9)


def load(path: str | Path) -> Policy:
    """Return the policy of a file of `save`.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file holds no policy, or one for other features.
    """
    _, arrays = files.read(path, KIND, only=("weights",))
    weights = arrays.get("weights")
    if weights is None or weights.shape != (N_CONTEXTS, N_FEATURES):
        raise ValueError(f"{path} holds weights for other features: train the policy again")
    if not files.is_finite(weights):
        raise ValueError(f"{path} holds weights that are NaN or infinite")
    return Policy(np.asarray(weights, np.float64))


def find_policy(policy: Policy | str | Path | None) -> Policy:
    """Return a policy: the one given, the one of a file, or for None the pretrained one.

    Raises:
        OSError: the file cannot be opened.
        ValueError: neither a policy nor a file of one.
    """
    if policy is None or isinstance(policy, (str, Path)):
        return load(PRETRAINED if policy is None else policy)
    if not isinstance(policy, Policy) or np.shape(policy.weights) != (N_CONTEXTS, N_FEATURES):
        raise ValueError(f"policy must be a Policy or a file of one, got {shown(policy)}")
    if not files.is_finite(np.asarray(policy.weights)):
        raise ValueError("policy must have finite weights, got NaN or infinite ones")
    return Policy(np.ascontiguousarray(policy.weights, np.float64))


class PolicyAgent(CheckedPlayer):
    """A player that follows a policy without search.

    Args:
        policy: the policy or its file; by default the pretrained one.
        temperature: temperature of the softmax; 0 plays the best option.
        seed: seed of the draws.

    Raises:
        OSError: the file cannot be opened.
        ValueError: not a policy, or a negative temperature.
    """

    def __init__(
        self,
        policy: Policy | str | Path | None = None,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> None:
        temperature = checked("temperature", temperature, NonNegative)
        check_seed(seed)
        self.policy = find_policy(policy)
        self._weights = self.policy.weights.reshape(-1)
        self._temperature = max(temperature, LEAST_TEMPERATURE)
        self._generator = np.random.default_rng(seed)
        self._workspace, self._lock = new_workspace(), Lock()

    def choose_play(self, view: Game) -> int:
        """Return a play drawn by the policy."""
        with self._lock:
            n = weigh_options(view, self._weights, self._temperature, self._workspace)
            return self._draw(n)

    def choose_gift(self, view: Game, n: int) -> int:
        """Return a gift drawn by the policy."""
        with self._lock:
            n = weigh_gifts(view, self._weights, self._temperature, self._workspace)
            return self._draw(n)

    def _draw(self, n: int) -> int:
        """Return one of `n` weighed options, drawn by their probabilities."""
        cumulative = self._workspace.masses[:n].cumsum()
        point = self._generator.random() * cumulative[-1]
        index = int(np.searchsorted(cumulative, point, side="right"))
        return int(self._workspace.options[min(index, n - 1)])
