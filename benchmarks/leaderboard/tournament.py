"""A tournament of Daihinmin players: points per 100 games, with intervals over whole cycles.

    afterstate leaderboard tournament heuristic sample sample sample sample --cycles 200
    afterstate leaderboard tournament heuristic sample random my_bots:Bot --cycles 500

A cycle is 100 games, from one class reset to the next: five players are drawn from the given ones
and get random seats. Games depend on each other through the classes, so intervals are over cycles.
A player is a name of `afterstate.agents.make` (without `daihinmin-`) or your own `module:factory`,
with settings after commas; repeat a player to seat it several times.

With `--duplicate` five cycles have the same deals, with the players moved on by one number each
time, and the five together are one unit.

Each game is one JSON line of `--rows`: cycle, rotation, game, seed, players and places (from 0) by
player number. They are on the disk when a cycle ends; a tournament that is interrupted or cannot
write them reports the finished cycles.
"""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small networks gain nothing from more threads

import numpy as np
from scipy.stats import t
from tqdm import tqdm

from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE, play_match
from afterstate.agents.training.workers import Workers
from afterstate.commands.players import player_daihinmin
from afterstate.envs import durable_files, json_files
from afterstate.envs.commands import print_error
from afterstate.envs.daihinmin.render import PLACES
from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.envs.json_files import Row
from afterstate.envs.messages import named
from afterstate.envs.signals import sigterm_raises, uninterrupted
from afterstate.leaderboard.options import Tournament
from afterstate.text_tables import markdown

POOL_MEAN = 300.0
"""Mean points per 100 games of all players: five share 15 points a game."""


class Cycle(NamedTuple):
    """Five players and the seed of their deals."""

    number: int
    rotation: int
    seed: int
    players: list[str]


class PlayerResult(NamedTuple):
    """Result of a player."""

    name: str
    games: int
    points: float  # per 100 games
    half_interval: float  # half the 95% confidence interval, over cycles; nan for a single one
    places: list[float]  # share of each place


def draw_cycles(pool: Sequence[str], n_cycles: int, seed: int, duplicate: bool) -> list[Cycle]:
    """Return the cycles of a tournament.

    Args:
        pool: the players, at least five.
        n_cycles: number of draws; each is five cycles if `duplicate`.
        seed: seed of the draws and the deals.
        duplicate: if True, a draw plays its deals five times, moved on by one number each time.

    Raises:
        ValueError: fewer than five players.
    """
    if len(pool) < N_PLAYERS:
        raise ValueError(f"players must be at least {N_PLAYERS}, got {len(pool)}")
    rng = np.random.default_rng(seed)
    cycles = []
    for number in range(n_cycles):
        drawn = [pool[i] for i in rng.choice(len(pool), N_PLAYERS, replace=False)]
        deals = int(rng.integers(2**63))
        for rotation in range(N_PLAYERS if duplicate else 1):
            players = drawn[rotation:] + drawn[:rotation]
            cycles.append(Cycle(number, rotation, deals, players))
    return cycles


def play_cycle(cycle: Cycle, n_games: int = GAMES_PER_CYCLE) -> list[Row]:
    """Play a cycle and return a row for each game."""
    seeds = np.random.default_rng([cycle.seed, cycle.rotation]).integers(2**63, size=N_PLAYERS)
    players = [player_daihinmin(*pair) for pair in zip(cycle.players, seeds.tolist(), strict=True)]
    key = {"cycle": cycle.number, "rotation": cycle.rotation}
    with named(f"cycle of {', '.join(cycle.players)}"):
        return [
            key
            | {"game": int(match["number"]), "seed": cycle.seed, "players": cycle.players}
            | {"places": match["places"].tolist()}
            for match in play_match(players, n_games, cycle.seed)
        ]


def play_cycles(cycles: Iterable[Cycle], n_games: int, workers: Workers) -> Iterator[list[Row]]:
    """Play cycles in parallel processes and yield their rows in order."""
    return workers.results(partial(play_cycle, cycle, n_games) for cycle in cycles)


def check(rows: Sequence[Row]) -> None:
    """Raise ValueError unless each game has five players and their five places."""
    for row in rows:
        if sorted(row["places"]) != list(range(N_PLAYERS)) or len(row["players"]) != N_PLAYERS:
            raise ValueError(f"places must be 0 to 4 once each, got {row}")


def cycles_half_interval(points: Sequence[float], games: Sequence[int]) -> float:
    """Return half the 95% confidence interval of points per 100 games, nan for a single cycle.

    The error is that of a ratio of sums over independent cycles with unequal numbers of games; the
    interval has Student's t.
    """
    n = len(points)
    if n < 2:
        return math.nan
    ratio = sum(points) / sum(games)
    squares = sum((p - ratio * g) ** 2 for p, g in zip(points, games, strict=True))
    error = math.sqrt(n / (n - 1) * squares) / sum(games)
    return float(t.ppf(0.975, n - 1)) * error


def player_results(rows: Sequence[Row]) -> list[PlayerResult]:
    """Return the results of the players, best first; intervals are over cycles."""
    check(rows)
    by_cycle: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for name, place in zip(row["players"], row["places"], strict=True):
            by_cycle[name][row["cycle"]].append(place)
    result = []
    for name, cycles in by_cycle.items():
        places = [place for cycle in cycles.values() for place in cycle]
        games = [len(cycle) for cycle in cycles.values()]
        points = [100.0 * (N_PLAYERS * len(cycle) - sum(cycle)) for cycle in cycles.values()]
        share = [places.count(place) / len(places) for place in range(N_PLAYERS)]
        half = cycles_half_interval(points, games)
        result.append(PlayerResult(name, len(places), sum(points) / len(places), half, share))
    return sorted(result, key=lambda each: -each.points)


def head_to_head(rows: Sequence[Row]) -> dict[tuple[str, str], float]:
    """Return how often the first of two players finished before the second in common games."""
    before: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for row in rows:
        seats = list(zip(row["players"], row["places"], strict=True))
        for (a, place_a), (b, place_b) in combinations(seats, 2):
            if a != b:
                before[a, b].append(place_a < place_b)
                before[b, a].append(place_b < place_a)
    return {pair: mean(wins) for pair, wins in before.items()}


def report(rows: Sequence[Row]) -> str:
    """Return the tables of a tournament in Markdown."""
    ranked = player_results(rows)
    cycles = len({(row["cycle"], row["rotation"]) for row in rows})
    pool = sum(each.points * each.games for each in ranked) / sum(each.games for each in ranked)
    head = f"{len(rows):,} games in {cycles:,} cycle{'s' * (cycles > 1)}; mean of all players "
    parts = [head + f"{pool:.1f} (must be {POOL_MEAN:.1f})", results_table(ranked)]
    if len(ranked) > 1:
        parts.append(wins_table([each.name for each in ranked], head_to_head(rows)))
    return "\n\n".join(parts)


def as_json(rows: Sequence[Row]) -> str:
    """Return the results of the players as a JSON list, best first."""
    of_players = [
        {
            "player": each.name,
            "n_games": each.games,
            "points_per_100_games": round(each.points, 2),
            "interval": None if math.isnan(each.half_interval) else round(each.half_interval, 2),
            "places": each.places,
        }
        for each in player_results(rows)
    ]
    return json.dumps(of_players, indent=1)


def results_table(ranked: Sequence[PlayerResult]) -> str:
    """Return the points and the places of the players."""
    body = []
    for name, games, points, half, places in ranked:
        error = "" if math.isnan(half) else f" ± {half:.1f}"
        shares = [f"{share:.1%}" for share in places]
        body.append([name, f"{games:,}", f"{points:.1f}{error}", *shares])
    return markdown(["player", "games", "points per 100 games", *PLACES], body)


def wins_table(names: Sequence[str], wins: dict[tuple[str, str], float]) -> str:
    """Return how often each player finished before each other."""
    body = [[a, *(f"{wins[a, b]:.1%}" if (a, b) in wins else "" for b in names)] for a in names]
    return markdown(["finishes before", *names], body)


class _RowFile:
    """The new file of the rows of a tournament.

    Raises:
        OSError: there is such a file, or it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.is_dir():
            raise IsADirectoryError(f"rows must be a new file, got the folder {path}")
        if path.exists():
            raise FileExistsError(f"rows must be a new file, got {path}, which exists")
        path.touch(exist_ok=False)
        durable_files.sync_folder(path.parent)
        self._file = durable_files.open_to_append(path)

    def append(self, rows: Sequence[Row]) -> None:
        """Append rows; raise OSError if the file was removed, replaced or cannot be written."""
        if not self._is_there():
            message = "the file was removed or replaced during the tournament"
            raise OSError(errno.EIO, message, str(self._path))
        durable_files.append_to(self._file, json_files.to_lines(rows))

    def close(self) -> None:
        """Close the file; remove it if it has no row."""
        with self._file:
            is_empty = self._is_there() and not os.fstat(self._file.fileno()).st_size
        if is_empty:
            self._path.unlink(missing_ok=True)

    def _is_there(self) -> bool:
        """Return True if the file is still at its path."""
        return durable_files.is_at(self._path, os.fstat(self._file.fileno()))


def run(args: Tournament) -> int:
    """Run a tournament and return the exit code."""
    for name in sorted(set(args.players)):
        player_daihinmin(name)
    cycles = draw_cycles(args.players, args.cycles, args.seed, args.duplicate)
    file = _RowFile(args.rows) if args.rows else None
    rows: list[Row] = []
    try:
        with sigterm_raises(KeyboardInterrupt()):
            workers = Workers(args.jobs, args.backend)
            for played in tqdm(play_cycles(cycles, args.games, workers), total=len(cycles)):
                with uninterrupted():
                    if file:
                        file.append(played)
                    rows += played
    except KeyboardInterrupt:
        finished = "results of the finished cycles:" if rows else "no cycle has finished"
        print(f"interrupted; {finished}", file=sys.stderr)
        return 130
    except OSError as error:
        print_error(error)
        return 1
    finally:  # also if a player raises an error
        if rows:
            print(as_json(rows) if args.json else report(rows))
        if file:
            file.close()
    return 0
