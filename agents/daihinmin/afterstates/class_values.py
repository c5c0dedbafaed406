"""What a finishing place is worth: its points, and what its class brings until the next reset.

The daifugo of a game gets the best cards of the daihinmin in the next one, and so is often daifugo
again. How often is a matrix of transitions, and what a place is worth with g games to come is

    values(0) = points,   values(g) = points + transitions @ values(g - 1)

for the classes are the places of the game before. A sum over many games grows without end, but the
differences between places settle within some ten games; `class_values` gives these differences.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from afterstate.envs.daihinmin.rules import N_PLAYERS, Game

Values = npt.NDArray[np.float64]

HORIZON = 32
"""So many games are looked ahead at most: more of them change nothing."""
POINTS = (5.0, 4.0, 3.0, 2.0, 1.0)
"""Points of the places, from the daifugo's down."""
TRANSITIONS = np.array(
    [
        [0.556, 0.256, 0.106, 0.048, 0.035],
        [0.286, 0.353, 0.195, 0.101, 0.065],
        [0.094, 0.192, 0.292, 0.236, 0.186],
        [0.036, 0.111, 0.229, 0.320, 0.304],
        [0.029, 0.089, 0.177, 0.296, 0.410],
    ]
)
"""How often a player of a class (row) has each place in the next game (column): of 20,000 games of
five players of an earlier policy at temperature 0.5, in 200 matches of 100 games. Of the policy in
the package: `python -m benchmarks.experiments.daihinmin.class_transitions`."""


def games_left(view: Game) -> int:
    """How many games come after this one before there are no classes again, at most `HORIZON`.

    Where a class brings nothing, because cards are not exchanged, it is 0.

    Args:
        view: what a player sees of a game, or the whole game.
    """
    if not view["exchanges"]:
        return 0
    every = int(view["class_reset_every"])
    return HORIZON if every == 0 else min(-int(view["number"]) % every, HORIZON)


def class_values(games_left: int, transitions: npt.ArrayLike = TRANSITIONS) -> Values:
    """What each finishing place is worth in points, this game's and those of the games after it.

    Args:
        games_left: games after this one before the next class reset; see the function of this name.
        transitions: `[5, 5]`, how often a player of a class (row) has each place (column) in the
            next game; rows add up to 1.

    Returns:
        `float64[5]` by place, less that of the last place, which is therefore 0.

    Raises:
        ValueError: a negative number of games, or no such matrix.

    >>> class_values(0).tolist()
    [4.0, 3.0, 2.0, 1.0, 0.0]
    """
    matrix = _checked(transitions)
    if games_left < 0:
        raise ValueError(f"games_left is a number of games from 0 on, got {games_left!r}")
    values = points = np.array(POINTS)
    for _ in range(games_left):
        values = points + matrix @ (values - values[-1])
    return np.asarray(values - values[-1])


def _checked(transitions: npt.ArrayLike) -> Values:
    """The matrix, if it is one of probabilities."""
    matrix = np.asarray(transitions, np.float64)
    is_square = matrix.shape == (N_PLAYERS, N_PLAYERS)
    if (
        not is_square
        or not (matrix >= 0).all()
        or not np.allclose(matrix.sum(axis=1), 1, atol=2e-3)
    ):
        raise ValueError("transitions is a 5x5 matrix of probabilities whose rows add up to 1")
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def count_transitions(classes: Any, places: Any) -> Values:
    """The matrix of transitions of games that were played.

    Args:
        classes: `[G, 5]`, classes before each game by player; games without classes have -1.
        places: `[G, 5]`, finishing places by player.

    Returns:
        `float64[5, 5]`: shares of the places (columns) by class (rows).

    Raises:
        ValueError: a class was never there.
    """
    before, after = np.ravel(classes), np.ravel(places)
    counts = np.zeros((N_PLAYERS, N_PLAYERS))
    np.add.at(counts, (before[before >= 0], after[before >= 0]), 1)
    if not counts.any(axis=1).all():
        raise ValueError("some class does not occur: give whole matches of several games")
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))
