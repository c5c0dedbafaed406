"""A softmax policy over features of a play and of the hand that it leaves.

Every legal play (and the pass, where one must follow) gets a score, a sum of weights of the
features that it has (see `features.py`); it is chosen with probability proportional to
exp(score / temperature). A play that empties the hand is always made. Gifts are chosen likewise.

The policy in the package was learned from 2.4 million games against itself, from weights of 0, and
then from what the rank network of the package chose in 5,000 games: see `policy.json`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float64, int16, int64, njit, types, uint64, void

from afterstate.agents import files
from afterstate.agents.daihinmin.values.features import (
    MOST,
    N_CONTEXTS,
    N_FEATURES,
    Features,
    describe,
    describe_gifts,
    list_gifts,
    list_options,
)
from afterstate.envs.daihinmin.plays import N_PLAYS, Numbers
from afterstate.envs.daihinmin.rules import Game, GameType, draw
from afterstate.envs.words import Word

KIND = "daihinmin-policy"
"""The kind of a policy's file."""

Scores = npt.NDArray[np.float64]


class Room(NamedTuple):
    """Working memory of one simulated player, overwritten at will: see `new_room`."""

    options: Numbers
    beaters: Numbers
    features: Features
    sizes: Numbers
    scores: Scores


RoomType = types.NamedTuple((int64[::1], int64[::1], int16[:, ::1], int64[::1], float64[::1]), Room)


def new_room() -> Room:
    """Memory for the kernels that play by a policy."""
    features = np.empty((N_PLAYS, MOST), np.int16)
    options, beaters, sizes = (np.empty(N_PLAYS, np.int64) for _ in range(3))
    return Room(options, beaters, features, sizes, np.empty(N_PLAYS))


@njit(void(int64, float64[::1], float64, RoomType), cache=True)
def weigh(n: int, weights: Scores, temperature: float, room: Room) -> None:
    """Writes exp(score / temperature) of the `n` options, of which the largest is made 1."""
    best = -np.inf
    for i in range(n):
        score = 0.0
        for j in range(room.sizes[i]):
            score += weights[room.features[i, j]]
        room.scores[i] = score / temperature
        best = max(best, score / temperature)
    for i in range(n):
        room.scores[i] = math.exp(room.scores[i] - best)


@njit(int64(GameType, float64[::1], float64, RoomType), cache=True)
def weigh_options(game: Game, weights: Scores, temperature: float, room: Room) -> int:
    """Writes the options of the player in turn, and how likely each is.

    Args:
        game: a view or a whole game.
        weights: all weights of a policy, row after row.
        temperature: scores are divided by it.
        room: gets `options`, their `features` and `sizes`, and in `scores` numbers proportional to
            the probabilities, the largest 1. With one option there are no features.

    Returns:
        The number of options.
    """
    n = list_options(game, room.options)
    room.scores[0] = 1.0
    room.sizes[0] = 0
    if n == 1:
        return n
    describe(game, room.options, n, room.beaters, room.features, room.sizes)
    weigh(n, weights, temperature, room)
    return n


@njit(int64(GameType, int64, RoomType), cache=True)
def draw_option(game: Game, n: int, room: Room) -> int:
    """The place of an option drawn from the `n` of `weigh_options`; advances the game's `rng`."""
    if n == 1:
        return 0
    total = 0.0
    for i in range(n):
        total += room.scores[i]
    chosen = draw(game, 1 << 32) / (1 << 32) * total
    for i in range(n - 1):
        chosen -= room.scores[i]
        if chosen < 0:
            return i
    return n - 1


@njit(int64(GameType, float64[::1], float64, RoomType), cache=True)
def policy_play(game: Game, weights: Scores, temperature: float, room: Room) -> int:
    """A play drawn by a policy: see `weigh_options`. Advances the game's `rng`."""
    n = weigh_options(game, weights, temperature, room)
    return int(room.options[draw_option(game, n, room)])


@njit(int64(GameType, float64[::1], float64, RoomType), cache=True)
def weigh_gifts(game: Game, weights: Scores, temperature: float, room: Room) -> int:
    """The same as `weigh_options` for the gifts of the player in turn, as card sets."""
    n = list_gifts(game, room.options)
    describe_gifts(game, room.options, n, room.features, room.sizes)
    weigh(n, weights, temperature, room)
    return n


@njit(uint64(GameType, float64[::1], float64, RoomType), cache=True)
def policy_gift(game: Game, weights: Scores, temperature: float, room: Room) -> Word:
    """A gift drawn by a policy. Advances the game's `rng`."""
    n = weigh_gifts(game, weights, temperature, room)
    return np.uint64(room.options[draw_option(game, n, room)])


# Policies and their files


class Policy(NamedTuple):
    """A softmax policy."""

    weights: Scores
    """`float64[N_CONTEXTS, N_FEATURES]`, in units of log probability at temperature 1."""


PRETRAINED = Path(__file__).parents[1] / "pretrained" / "policy.npz"
"""The learned policy in the package."""


def new_policy() -> Policy:
    """A policy of zero weights: all options are as likely."""
    return Policy(np.zeros((N_CONTEXTS, N_FEATURES)))


def save(policy: Policy, path: str | Path, **header: Any) -> None:
    """Writes a policy to a file, with further entries of its header, fit for JSON.

    Raises:
        OSError: it cannot be written.
    """
    weights = np.asarray(policy.weights, np.float32)
    files.write(path, KIND, header, {"weights": weights}, level=9)


def load(path: str | Path) -> Policy:
    """Reads a policy that `save` wrote.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is no policy, or one of other features.
    """
    _, arrays = files.read(path, KIND)
    weights = arrays.get("weights")
    if weights is None or weights.shape != (N_CONTEXTS, N_FEATURES):
        raise ValueError(f"{path} holds a policy of other features: learn it again")
    if not np.isfinite(weights).all():
        raise ValueError(f"{path} holds weights that are no numbers")
    return Policy(np.asarray(weights, np.float64))


def find_policy(policy: Policy | str | Path | None) -> Policy:
    """A policy as it is, from its file, or the one in the package.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is no policy.
    """
    if policy is None or isinstance(policy, (str, Path)):
        return load(PRETRAINED if policy is None else policy)
    if not isinstance(policy, Policy) or np.shape(policy.weights) != (N_CONTEXTS, N_FEATURES):
        raise ValueError(f"policy is a file or a Policy, got {policy!r}")
    return Policy(np.ascontiguousarray(policy.weights, np.float64))


class PolicyAgent:
    """Plays by a policy alone.

    Args:
        policy: the policy or its file; by default the one in the package.
        temperature: of the softmax; 0 plays the best option.
        seed: of its choices.

    Raises:
        OSError: the file cannot be opened.
        ValueError: no policy, or a temperature that is not from 0 on.
    """

    def __init__(
        self,
        policy: Policy | str | Path | None = None,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> None:
        if not 0 <= temperature < math.inf:
            raise ValueError(f"temperature is a number from 0 on, got {temperature!r}")
        self.policy = find_policy(policy)
        self._weights = self.policy.weights.reshape(-1)
        self._temperature = max(float(temperature), 1e-9)
        self._generator = np.random.default_rng(seed)
        self._room = new_room()

    def choose(self, view: Game) -> int:
        """A play drawn by the policy."""
        return self._draw(weigh_options(view, self._weights, self._temperature, self._room))

    def give(self, view: Game, n: int) -> int:
        """A gift drawn by the policy."""
        return self._draw(weigh_gifts(view, self._weights, self._temperature, self._room))

    def _draw(self, n: int) -> int:
        """One of `n` options."""
        shares = self._room.scores[:n].cumsum()
        chosen = np.searchsorted(shares, self._generator.random() * shares[-1], side="right")
        return int(self._room.options[min(int(chosen), n - 1)])
