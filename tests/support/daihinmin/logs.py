"""Comparisons of the games of logs."""

from __future__ import annotations

import numpy as np

from afterstate.agents.daihinmin.learning.game_records import Log
from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.rules import GAME, Game


def same(first: Log, second: Log) -> bool:
    """Return True if two logs have the same games."""
    if not np.array_equal(first.last_random, second.last_random):
        return False
    return all(np.array_equal(first.games[name], second.games[name]) for name in GAME.names or ())


def moves_of(game: Game) -> list[tuple[int, int]]:
    """Return the player and the play of each action of a game."""
    return [divmod(int(a), plays.N_PLAYS) for a in game["actions"][: game["n_actions"]]]
