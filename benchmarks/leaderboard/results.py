"""Results of the leaderboard, from its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import bootstrap

from afterstate.envs.daihinmin.render import PLACES
from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.envs.json_files import Row
from afterstate.leaderboard.games import OPPONENTS
from afterstate.leaderboard.tournament import cycles_half_interval

TILES = (2048, 4096, 8192, 16384, 32768, 65536)


class Result(NamedTuple):
    """A player's result, in points: of a game of 2048, or of 100 games of Daihinmin."""

    game: str
    name: str
    machine: str  # the processor
    batch: int  # games played in parallel
    games: int
    points: float  # the mean
    low: float  # the 95% interval of the mean
    high: float
    seconds: float  # of CPU time a move or a decision
    more: dict[str, float]  # further columns of the table
    each: dict[int, float]  # the points by seed, of games or of cycles
    expected: int = 0  # the number of games of the entry


def result(rows: Sequence[Row], expected: int) -> Result:
    """Return the result of the rows of one entry, which expects this number of games."""
    of_game = _result_2048 if rows[0]["game"] == "2048" else _result_daihinmin
    return of_game(rows)._replace(expected=expected)


def _result_2048(rows: Sequence[Row]) -> Result:
    """Return the result of games of 2048; intervals are by bootstrap over games."""
    scores = np.array([row["score"] for row in rows], np.float64)
    largest = np.array([row["max_tile"] for row in rows])
    moves = sum(row["moves"] for row in rows)
    low, high = interval(scores, np.mean)
    more = {"median": float(np.median(scores))}
    more["median from"], more["median to"] = interval(scores, np.median)
    more |= {str(tile): float((largest >= tile).mean()) for tile in TILES}
    each = {row["seed"]: float(row["score"]) for row in rows}
    mean = float(scores.mean())
    return Result(*_common(rows), mean, low, high, _seconds(rows) / moves, more, each)


def _seconds(rows: Sequence[Row]) -> float:
    """Return the CPU time of the player, at least a microsecond."""
    return max(1e-6, sum(float(row["cpu_seconds"]) for row in rows))


def _common(rows: Sequence[Row]) -> tuple[str, str, str, int, int]:
    """Return the first fields of a result."""
    row, machines = rows[0], sorted({str(row["machine"]["cpu"]) for row in rows})
    return row["game"], row["name"], " and ".join(machines), row["at_once"], len(rows)


def interval(values: npt.NDArray[np.float64], statistic: Any) -> tuple[float, float]:
    """Return the 95% interval of a statistic, by bootstrap; nan for a single value."""
    if len(values) < 2:
        return np.nan, np.nan
    result = bootstrap((values,), statistic, batch=500, method="percentile", random_state=1)
    low, high = result.confidence_interval
    return float(low), float(high)


def _result_daihinmin(rows: Sequence[Row]) -> Result:
    """Return the result of games of Daihinmin; intervals are over cycles."""
    places, cycles = [], defaultdict[int, list[float]](list)
    ahead: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        place_of = dict(zip(row["players"], row["places"], strict=True))
        mine = place_of[row["name"]]
        places.append(mine)
        cycles[row["seed"]].append(100.0 * (N_PLAYERS - mine))
        for name in OPPONENTS:
            ahead[name].append(mine < place_of[name])
    sums, n_games = [sum(each) for each in cycles.values()], [len(each) for each in cycles.values()]
    mean, half = sum(sums) / len(rows), cycles_half_interval(sums, n_games)
    each = {seed: sum(points) / len(points) for seed, points in cycles.items()}
    more = {of: places.count(i) / len(places) for i, of in enumerate(PLACES)}
    more |= {name: float(np.mean(wins)) for name, wins in ahead.items()}
    decisions = max(1, sum(row["decisions"] for row in rows))
    ends = mean - half, mean + half
    return Result(*_common(rows), mean, *ends, _seconds(rows) / decisions, more, each)


def front(results: Sequence[Result]) -> list[Result]:
    """Return the players that are better than all faster ones, fastest first."""
    best: list[Result] = []
    for each in sorted(results, key=lambda each: (each.seconds, -each.points)):
        if not best or each.points > best[-1].points:
            best.append(each)
    return best


def time_text(seconds: float) -> str:
    """Return a time in ms or µs."""
    unit, factor = ("ms", 1e3) if seconds >= 1e-3 else ("µs", 1e6)
    return f"{seconds * factor:,.3g} {unit}"
