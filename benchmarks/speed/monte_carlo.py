"""Speed of the Monte-Carlo player: playouts a second, and milliseconds a decision.

    python -m benchmarks.speed.monte_carlo --out benchmarks/results/speed_monte_carlo.txt

Decisions are those of the search player in a match with four sample clients, as they come: gifts,
leads and answers, early and late. What it decides without a search (sure wins, only choices) is
left out. The time of a decision is all of it: dealing the hidden cards and weighing the deals, too.
Where torch is installed the search that a rank network advises is timed as well, in one thread.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any

from afterstate import agents
from afterstate.agents.daihinmin.afterstates.endgame import sure_play
from afterstate.agents.daihinmin.rule_based.players import SampleAgent
from afterstate.agents.daihinmin.search.monte_carlo import MonteCarloAgent
from afterstate.agents.daihinmin.values.softmax_policy import PolicyAgent
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game
from benchmarks.speed.decisions import Recorder, recorded, show, time_decisions
from benchmarks.speed.timing import Figure, Steps, Subject, in_turn

PLAYOUTS = 2_000
GAMES = 50


def decisions(n_games: int = GAMES, seed: int = 0) -> list[Game]:
    """What a player sees in the decisions of a match that need a search."""
    search = MonteCarloAgent(1, seed=0)

    def asks(view: Game) -> bool:
        if view["to_give"]:
            return True
        return sure_play(view) < 0 and bool(search.values(view).visits.any())

    others = [SampleAgent() for _ in range(N_PLAYERS - 1)]
    return recorded(Recorder(PolicyAgent(), asks), others, n_games, seed)


def start_search() -> Steps:
    """Searches of one decision after the other, counted in playouts."""
    agent, views = MonteCarloAgent(PLAYOUTS, seed=0), cycle(decisions())

    def steps(n: int) -> int:
        done = 0
        while done < n:
            done += int(agent.values(next(views)).visits.sum())
        return done

    return steps


def decision_times() -> list[Figure]:
    """How long each decision of a match takes, without advice and with it."""
    views, name = decisions(seed=1), f"decision, {PLAYOUTS:,} playouts"
    alone = MonteCarloAgent(PLAYOUTS, seed=0)
    figures = [time_decisions(name, alone.values, views)]
    try:
        advised: Any = agents.make("daihinmin-mc-rank", playouts=PLAYOUTS, seed=0)
    except ImportError as error:
        print(f"The advised search is left out: {error}", file=sys.stderr)
        return figures
    import_module("torch").set_num_threads(1)
    return [*figures, time_decisions(f"{name}, advised", advised.values, views)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Times the Monte-Carlo player of Daihinmin.")
    parser.add_argument("--rounds", type=int, default=10, help="of about a CPU second (10)")
    parser.add_argument("--out", type=Path, help="file for the figures")
    chosen = parser.parse_args(arguments)
    name = f"playouts of decisions with {PLAYOUTS:,} of them"
    figures = in_turn([Subject(name, start_search, "playouts/CPU s")], chosen.rounds)
    show([*figures, *decision_times()], chosen.out)


if __name__ == "__main__":
    main()
