"""Speed of the Monte-Carlo player: playouts a second, and milliseconds a decision.

    python benchmarks/speed_monte_carlo.py --rounds 10

Decisions are those of the search player in a match with four sample clients, as they come: gifts,
leads and answers, early and late. What it decides without a search (sure wins, only choices) is
left out. The time of a decision is all of it: dealing the hidden cards and weighing the deals, too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import cycle
from statistics import quantiles

import fresh_kernels  # noqa: F401 - first of all that uses numba
from timing import Figure, Steps, Subject, in_turn, lines

from afterstate.agents.daihinmin.endgame import sure_play
from afterstate.agents.daihinmin.monte_carlo import MonteCarloAgent
from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.daihinmin.policy import PolicyAgent
from afterstate.agents.daihinmin.rule_based import SampleAgent
from afterstate.envs.daihinmin.rules import Game

PLAYOUTS = 2_000
GAMES = 50


class _Watched(PolicyAgent):
    """The policy, which keeps the views in which a search would be made."""

    def __init__(self) -> None:
        super().__init__()
        self.views: list[Game] = []
        self._search = MonteCarloAgent(1, seed=0)

    def choose(self, view: Game) -> int:
        """The policy's play."""
        if sure_play(view) < 0 and self._search.values(view).visits.any():
            self.views.append(view)
        return super().choose(view)

    def give(self, view: Game, n: int) -> int:
        """The policy's gift."""
        self.views.append(view)
        return super().give(view, n)


def decisions(n_games: int = GAMES, seed: int = 0) -> list[Game]:
    """What a player sees in the decisions of a match that need a search."""
    watched = _Watched()
    for _ in play_match([watched, *(SampleAgent() for _ in range(4))], n_games, seed):
        pass
    return watched.views


def start_search() -> Steps:
    """Searches of one decision after the other, counted in playouts."""
    agent, views = MonteCarloAgent(PLAYOUTS, seed=0), cycle(decisions())

    def steps(n: int) -> int:
        done = 0
        while done < n:
            done += int(agent.values(next(views)).visits.sum())
        return done

    return steps


def decision_times() -> Figure:
    """CPU milliseconds of each decision of a match."""
    agent, times = MonteCarloAgent(PLAYOUTS, seed=0), []
    for view in decisions(seed=1):
        start = time.process_time()
        agent.values(view)
        times.append(1000 * (time.process_time() - start))
    return Figure(f"decision, {PLAYOUTS:,} playouts", "CPU ms", times)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description="Times the Monte-Carlo player of Daihinmin.")
    parser.add_argument("--rounds", type=int, default=10, help="of about a CPU second (10)")
    options = parser.parse_args(arguments)
    name = f"playouts of decisions with {PLAYOUTS:,} of them"
    figures = in_turn([Subject(name, start_search, "playouts/CPU s")], options.rounds)
    figures.append(decision_times())
    print("\n".join(lines(figures)))
    print(f"95% of the decisions take at most {quantiles(figures[-1].values, n=20)[-1]:.0f} CPU ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
