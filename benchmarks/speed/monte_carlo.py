"""Speed of the Monte-Carlo player: playouts per second and milliseconds per decision.

    python -m benchmarks.speed.monte_carlo --out benchmarks/results/speed_monte_carlo.txt

Decisions are those of the search player in a match with four sample clients: gifts, leads and
answers, early and late. Decisions without a search (forced wins, only choices) are left out. The
time of a decision includes dealing the hidden cards and weighting the deals. If torch is installed,
the search with a rank network as prior is timed as well, in one thread.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any

from afterstate import agents
from afterstate.agents.config import Count, settings
from afterstate.agents.daihinmin.afterstates.endgame import forced_win
from afterstate.agents.daihinmin.rule_based.players import SampleAgent
from afterstate.agents.daihinmin.search.monte_carlo import MonteCarloAgent
from afterstate.agents.daihinmin.values.softmax_policy import PolicyAgent
from afterstate.envs.commands import parse, run_process
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game
from benchmarks.speed.decisions import Recorder, recorded, show, time_decisions
from benchmarks.speed.timing import Figure, Steps, Subject, in_turn

PLAYOUTS = 2_000
GAMES = 50


def decisions(n_games: int = GAMES, seed: int = 0) -> list[Game]:
    """Return the views of the decisions of a match that need a search."""
    search = MonteCarloAgent(1, seed=0)

    def needs_search(view: Game) -> bool:
        if view["to_give"]:
            return True
        return forced_win(view) < 0 and bool(search.values(view).visits.any())

    others = [SampleAgent() for _ in range(N_PLAYERS - 1)]
    return recorded(Recorder(PolicyAgent(), needs_search), others, n_games, seed)


def start_search() -> Steps:
    """Start searches of one decision after the other, counted in playouts."""
    agent, views = MonteCarloAgent(PLAYOUTS, seed=0), cycle(decisions())

    def steps(n: int) -> int:
        done = 0
        while done < n:
            done += int(agent.values(next(views)).visits.sum())
        return done

    return steps


def decision_times() -> list[Figure]:
    """Time each decision of a match, without a prior and with one."""
    views, name = decisions(seed=1), f"decision, {PLAYOUTS:,} playouts"
    alone = MonteCarloAgent(PLAYOUTS, seed=0)
    figures = [time_decisions(name, alone.values, views)]
    try:
        with_prior: Any = agents.make("daihinmin-mc-rank", playouts=PLAYOUTS, seed=0)
    except ImportError as error:
        print(f"The search with a prior is left out: {error}", file=sys.stderr)
        return figures
    import_module("torch").set_num_threads(1)
    return [*figures, time_decisions(f"{name}, with prior", with_prior.values, views)]


@settings
class Args:
    """Time the Monte-Carlo player of Daihinmin."""

    rounds: Count = 10
    """Rounds of about one CPU second."""
    out: Path | None = None
    """File for the figures."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.speed.monte_carlo", arguments)
    name = f"playouts of decisions with {PLAYOUTS:,} of them"
    figures = in_turn([Subject(name, start_search, "playouts/CPU s")], args.rounds)
    show([*figures, *decision_times()], args.out)


if __name__ == "__main__":
    sys.exit(run_process(main))
