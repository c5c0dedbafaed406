"""Transition probabilities from a class to the place in the next game, among policy players.

    python -m benchmarks.experiments.daihinmin.class_transitions

Prints the matrix of `class_values.TRANSITIONS`, estimated again from 20,000 games: 200 matches of
100 games at temperature 0.5. The first game of each match is left out, since it has no classes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from afterstate.agents.config import Count, settings
from afterstate.agents.daihinmin.afterstates.class_values import TRANSITIONS, count_transitions
from afterstate.agents.daihinmin.learning.self_play import play_games
from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE
from afterstate.envs.commands import parse, run_process
from afterstate.envs.daihinmin.rules import N_PLAYERS


@settings
class Args:
    """Estimate the transition probabilities from a class to the place in the next game."""

    matches: Count = 200
    """Matches of 100 games."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: play the games and print the matrix."""
    args = parse(Args, "python -m benchmarks.experiments.daihinmin.class_transitions", arguments)
    n, players = args.matches, ["policy"] * N_PLAYERS
    games = play_games(players, GAMES_PER_CYCLE * n, n_matches=n, temperature=0.5).games
    transitions = count_transitions(games["classes"], games["places"])
    print(np.round(transitions, 3))
    print(f"largest difference from the default: {np.abs(transitions - TRANSITIONS).max():.3f}")


if __name__ == "__main__":
    sys.exit(run_process(main))
