"""Timing decisions of Daihinmin players: recording positions, timing, and printing figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.progress import progress_bar
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import Game
from afterstate.leaderboard.machine import machine
from benchmarks.speed.timing import Figure, lines, output


class Recorder:
    """A player that records the views of its decisions.

    Args:
        player: decides.
        records: returns True if a view, at a play or in the exchange, is recorded.
    """

    def __init__(self, player: Player, records: Callable[[Game], bool]) -> None:
        self._player, self._records = player, records
        self.views: list[Game] = []

    def choose(self, view: Game) -> int:
        """Return the player's play."""
        if self._records(view):
            self.views.append(view)
        return self._player.choose(view)

    def give(self, view: Game, n: int) -> int:
        """Return the player's gift."""
        if self._records(view):
            self.views.append(view)
        return self._player.give(view, n)


def recorded(recorder: Recorder, others: Sequence[Player], n_games: int, seed: int) -> list[Game]:
    """Return the views recorded in a match with four others, which may be the recorder itself."""
    for _ in play_match([recorder, *others], n_games, seed):
        pass
    return recorder.views


def time_decisions(name: str, decide: Callable[[Game], Any], views: Sequence[Game]) -> Figure:
    """Time each decision in CPU milliseconds; a first one is not counted, since it may compile."""
    decide(views[0])
    times = []
    for view in progress_bar(views, desc=name, unit="decisions", leave=False):
        start = time.process_time()
        decide(view)
        times.append(1e3 * (time.process_time() - start))
    return Figure(name, "CPU ms", times)


def printed(figures: Sequence[Figure]) -> list[str]:
    """Return the machine and a line for each figure; those of decisions have two figures more."""
    result = [", ".join(f"{name} {value}" for name, value in machine().items())]
    for figure, line in zip(figures, lines(figures), strict=True):
        if figure.unit == "CPU ms":
            most = quantiles(figure.values, n=20, method="inclusive")[-1]
            line += f", mean {mean(figure.values):,.2f}, 95% within {most:,.2f}"
        result.append(line)
    return result


def show(figures: Sequence[Figure], out: Path | None) -> None:
    """Print the figures, and write them to a file if one is given."""
    output(printed(figures), out)
