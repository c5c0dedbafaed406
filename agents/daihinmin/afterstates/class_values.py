"""Values of finishing places: their points, and the points to expect until the next class reset.

The daifugo of a game gets the best cards of the daihinmin in the next game, and so is often daifugo
again. With a matrix of transitions between classes, the value of a place with g games to come is

    values(0) = points,   values(g) = points + transitions @ values(g - 1)

since the places of a game are the classes of the next. These sums grow with g, but the differences
between places converge within about ten games; `class_values` returns these differences.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from afterstate.envs.checks import as_array, check_count
from afterstate.envs.daihinmin.match import CLASS_VALUES, POINTS
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game
from afterstate.envs.messages import shown

Values = npt.NDArray[np.float64]

HORIZON = 32
"""The most games to look ahead; values have converged by then."""
TRANSITIONS = np.array(
    [
        [0.556, 0.256, 0.106, 0.048, 0.035],
        [0.286, 0.353, 0.195, 0.101, 0.065],
        [0.094, 0.192, 0.292, 0.236, 0.186],
        [0.036, 0.111, 0.229, 0.320, 0.304],
        [0.029, 0.089, 0.177, 0.296, 0.410],
    ]
)
"""Probability that a player of a class (row) has each place in the next game (column): from 20,000
games of five players of an earlier policy at temperature 0.5, in 200 matches of 100 games. For the
pretrained policy: `python -m benchmarks.experiments.daihinmin.class_transitions`."""


def place_values(points: str | Sequence[float]) -> tuple[float, ...]:
    """Return the values of the places that a network plays for.

    Args:
        points: `"game"` for `POINTS`, `"classes"` for these and those of later games
            (`CLASS_VALUES`, both of `envs.daihinmin.match`), or the five values.
    """
    if isinstance(points, str):
        return {"game": POINTS, "classes": CLASS_VALUES}[points]
    return tuple(map(float, points))


def games_left(view: Game) -> int:
    """Return the number of games after this one before the next class reset, at most `HORIZON`.

    Without an exchange of cards classes have no effect, and the number is 0.

    Args:
        view: a player's view of a game, or the whole game.
    """
    if not view["exchanges"]:
        return 0
    every = int(view["class_reset_every"])
    return HORIZON if every == 0 else min(-int(view["number"]) % every, HORIZON)


def class_values(games_left: int, transitions: npt.ArrayLike = TRANSITIONS) -> Values:
    """Return the value of each finishing place, in points of this game and the games after it.

    Args:
        games_left: number of games after this one before the next class reset: see `games_left`.
        transitions: `[5, 5]`, the probability that a player of a class (row) has each place
            (column) in the next game; rows add up to 1.

    Returns:
        `float64[5]` by place, less the value of the last place, which is therefore 0.

    Raises:
        ValueError: a negative number of games, or not a matrix of transitions.

    >>> class_values(0).tolist()
    [4.0, 3.0, 2.0, 1.0, 0.0]
    """
    matrix = _checked(transitions)
    n = check_count("games_left", games_left, least=0)
    values = points = np.array(POINTS)
    for _ in range(n):
        values = points + matrix @ (values - values[-1])
    return np.asarray(values - values[-1])


def _checked(transitions: npt.ArrayLike) -> Values:
    """Return the matrix with rows scaled to 1; raise ValueError if it holds no probabilities."""
    matrix = as_array(transitions, np.float64)
    is_square = matrix.shape == (N_PLAYERS, N_PLAYERS) and bool((matrix >= 0).all())
    if not is_square or not np.allclose(matrix.sum(axis=1), 1, atol=2e-3):
        raise ValueError(
            "transitions must be a 5x5 matrix of probabilities whose rows add up to 1, "
            f"got {shown(transitions)}"
        )
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def count_transitions(classes: npt.ArrayLike, places: npt.ArrayLike) -> Values:
    """Return the matrix of transitions of played games.

    Args:
        classes: `[G, 5]`, the classes before each game by player, -1 in games without classes.
        places: `[G, 5]`, the finishing places by player.

    Returns:
        `float64[5, 5]`: frequencies of the places (columns) by class (rows).

    Raises:
        ValueError: a class does not occur.
    """
    before, after = np.ravel(classes), np.ravel(places)
    counts = np.zeros((N_PLAYERS, N_PLAYERS))
    np.add.at(counts, (before[before >= 0], after[before >= 0]), 1)
    if not counts.any(axis=1).all():
        raise ValueError("classes must contain every class: pass whole matches of several games")
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))
