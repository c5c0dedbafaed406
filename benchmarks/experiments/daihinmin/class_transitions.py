"""How often a player of a class has each place in the next game, between players of the policy.

    python -m benchmarks.experiments.daihinmin.class_transitions

Prints the matrix that `class_values.TRANSITIONS` has by default, counted
anew in 20,000 games: 200 matches of 100 games, at temperature 0.5. The first games of the matches,
in which there are no classes, are left out.
"""

from __future__ import annotations

import numpy as np

from afterstate.agents.daihinmin.afterstates.class_values import TRANSITIONS, count_transitions
from afterstate.agents.daihinmin.learning.self_play import play_games
from afterstate.envs.daihinmin.rules import N_PLAYERS


def main() -> None:
    """Plays and prints."""
    games = play_games(["policy"] * N_PLAYERS, 20_000, n_matches=200, temperature=0.5).games
    found = count_transitions(games["classes"], games["places"])
    print(np.round(found, 3))
    print(f"the largest difference from the default: {np.abs(found - TRANSITIONS).max():.3f}")


if __name__ == "__main__":
    main()
