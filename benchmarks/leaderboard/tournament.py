"""A tournament of Daihinmin players: points per 100 games, with intervals over whole cycles.

    python -m benchmarks.leaderboard.tournament heuristic sample sample sample sample --cycles 200
    python -m benchmarks.leaderboard.tournament heuristic sample random my_bots:Bot --cycles 500

A cycle is 100 games, from one class reset to the next: five players are drawn from those named and
take the seats by chance. Because classes carry from game to game, the cycle is the unit of every
interval. A player is named as in `afterstate.agents.make` (without `daihinmin-`), or `module:name`
of what makes it, called without arguments; name it several times to seat it several times.

With `--duplicate` five cycles are played with the same deals, the players moved on by one number
each time, and the five together are one unit.

Each game is one JSON line of `--rows`: cycle, rotation, game, seed, players and places (from 0) by
player number. Rows of whole cycles are written as they end; an interrupted tournament reports them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread a player: small networks gain by no more

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import t
from tqdm import tqdm

from afterstate.agents.daihinmin.play import find_player, play_match
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import N_PLAYERS

GAMES = 100
"""Games from one class reset to the next."""

ORDINALS = ("1st", "2nd", "3rd", "4th", "5th")

POOL_MEAN = 300.0
"""Points per 100 games of all players together: 15 points a game for five."""

Row = dict[str, Any]


class Cycle(NamedTuple):
    """Five players and the deals that they get."""

    number: int
    rotation: int
    seed: int
    players: list[str]


class Standing(NamedTuple):
    """One player's result."""

    name: str
    games: int
    points: float  # per 100 games
    interval: float  # half of the 95% interval, over cycles; nan for a single one
    places: list[float]  # share of each place


def factory(path: str) -> Any:
    """What `module:name` names: it makes players.

    Raises:
        ImportError: there is no such module.
        ValueError: there is nothing of this name in it.
    """
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except AttributeError as error:
        raise ValueError(f"{path}: {error}") from error


def make(name: str, seed: int | None = None) -> Player:
    """A player by its name, or by `module:name` of what makes it; the seed is for `random`."""
    return find_player(factory(name)()) if ":" in name else find_player(name, seed)


def draw_cycles(pool: Sequence[str], n_cycles: int, seed: int, duplicate: bool) -> list[Cycle]:
    """The cycles of a tournament.

    Args:
        pool: the players, at least five.
        n_cycles: how many draws; each is five cycles if `duplicate`.
        seed: of the draws and the deals.
        duplicate: whether a draw plays its deals five times, moved on by one number each time.

    Raises:
        ValueError: fewer than five players.
    """
    if len(pool) < N_PLAYERS:
        raise ValueError(f"five players sit down: name at least five, got {len(pool)}")
    rng = np.random.default_rng(seed)
    cycles = []
    for number in range(n_cycles):
        drawn = [pool[i] for i in rng.choice(len(pool), N_PLAYERS, replace=False)]
        deals = int(rng.integers(2**63))
        for rotation in range(N_PLAYERS if duplicate else 1):
            players = drawn[rotation:] + drawn[:rotation]
            cycles.append(Cycle(number, rotation, deals, players))
    return cycles


def play_cycle(cycle: Cycle, n_games: int = GAMES) -> list[Row]:
    """Plays a cycle: a row for each game."""
    seeds = np.random.default_rng([cycle.seed, cycle.rotation]).integers(2**63, size=N_PLAYERS)
    players = [make(*pair) for pair in zip(cycle.players, seeds.tolist(), strict=True)]
    head = {"cycle": cycle.number, "rotation": cycle.rotation}
    return [
        head
        | {"game": int(match["number"]), "seed": cycle.seed, "players": cycle.players}
        | {"places": match["places"].tolist()}
        for match in play_match(players, n_games, cycle.seed)
    ]


def play_cycles(cycles: Iterable[Cycle], n_games: int, jobs: int) -> Iterator[list[Row]]:
    """Plays cycles in processes side by side and yields their rows in order."""
    run = Parallel(n_jobs=jobs, return_as="generator")
    yield from run(delayed(play_cycle)(cycle, n_games) for cycle in cycles)


def check(rows: Sequence[Row]) -> None:
    """Checks that each game has five players and their five places, so that the mean is 300.

    Raises:
        ValueError: a row is wrong.
    """
    for row in rows:
        if sorted(row["places"]) != list(range(N_PLAYERS)) or len(row["players"]) != N_PLAYERS:
            raise ValueError(f"places of five players are 0 to 4 once each, got {row}")


def half_interval(points: Sequence[float], games: Sequence[int]) -> float:
    """Half of the 95% interval of points per game, by cycles of unequal numbers of games.

    The error of a ratio of sums over independent cycles, with Student's t for their number; nan for
    a single cycle.
    """
    n = len(points)
    if n < 2:
        return math.nan
    ratio = sum(points) / sum(games)
    squares = sum((p - ratio * g) ** 2 for p, g in zip(points, games, strict=True))
    error = math.sqrt(n / (n - 1) * squares) / sum(games)
    return float(t.ppf(0.975, n - 1)) * error


def standings(rows: Sequence[Row]) -> list[Standing]:
    """The players' results, best first; the interval's unit is the cycle (with its rotations)."""
    check(rows)
    by_cycle: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for name, place in zip(row["players"], row["places"], strict=True):
            by_cycle[name][row["cycle"]].append(place)
    found = []
    for name, cycles in by_cycle.items():
        places = [place for cycle in cycles.values() for place in cycle]
        games = [len(cycle) for cycle in cycles.values()]
        points = [100.0 * (N_PLAYERS * len(cycle) - sum(cycle)) for cycle in cycles.values()]
        share = [places.count(place) / len(places) for place in range(N_PLAYERS)]
        half = half_interval(points, games)
        found.append(Standing(name, len(places), sum(points) / len(places), half, share))
    return sorted(found, key=lambda standing: -standing.points)


def head_to_head(rows: Sequence[Row]) -> dict[tuple[str, str], float]:
    """How often the first of two players finished before the second, of their games together."""
    before: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for row in rows:
        seats = list(zip(row["players"], row["places"], strict=True))
        for (a, place_a), (b, place_b) in combinations(seats, 2):
            if a != b:
                before[a, b].append(place_a < place_b)
                before[b, a].append(place_b < place_a)
    return {pair: mean(wins) for pair, wins in before.items()}


def report(rows: Sequence[Row]) -> str:
    """The tables of a tournament, as Markdown."""
    ranked = standings(rows)
    cycles = len({(row["cycle"], row["rotation"]) for row in rows})
    total = sum(standing.points * standing.games for standing in ranked)
    pool = total / sum(standing.games for standing in ranked)
    lines = [
        f"{len(rows):,} games in {cycles:,} cycles; mean of all players {pool:.1f} "
        f"(must be {POOL_MEAN:.1f})",
        "",
        "| player | games | points per 100 games | " + " | ".join(ORDINALS) + " |",
        "|---|---|---|" + "---|" * N_PLAYERS,
    ]
    for name, games, points, half, places in ranked:
        shares = " | ".join(f"{share:.1%}" for share in places)
        error = "" if math.isnan(half) else f" ± {half:.1f}"
        lines.append(f"| {name} | {games:,} | {points:.1f}{error} | {shares} |")
    names = [standing.name for standing in ranked]
    if len(names) > 1:
        wins = head_to_head(rows)
        lines += [
            "",
            "| finishes before | " + " | ".join(names) + " |",
            "|---|" + "---|" * len(names),
        ]
        for a in names:
            cells = [f"{wins[a, b]:.1%}" if (a, b) in wins else "" for b in names]
            lines.append(f"| {a} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a tournament."""
    parser = argparse.ArgumentParser(description="Runs a tournament of Daihinmin players.")
    parser.add_argument("players", nargs="+", help="names, or module:name; at least five")
    parser.add_argument("--cycles", type=int, default=20, help="draws of five players (20)")
    parser.add_argument("--games", type=int, default=GAMES, help="games a cycle (100)")
    parser.add_argument("--duplicate", action="store_true", help="each deal five times, rotated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (1)")
    parser.add_argument("--rows", type=Path, help="a new file for a JSON line a game")
    options = parser.parse_args(arguments)
    if min(options.cycles, options.games) < 1 or options.jobs == 0:
        parser.error("cycles and games are at least 1, and jobs not 0")
    try:
        for name in sorted(set(options.players)):
            make(name)
        cycles = draw_cycles(options.players, options.cycles, options.seed, options.duplicate)
        file = options.rows.open("x", encoding="utf-8") if options.rows else None
    except (ValueError, TypeError, ImportError, AttributeError, OSError) as error:
        parser.error(str(error))
    rows: list[Row] = []
    try:
        for played in tqdm(play_cycles(cycles, options.games, options.jobs), total=len(cycles)):
            rows += played
            if file:
                file.writelines(json.dumps(row) + "\n" for row in played)
                file.flush()
    except KeyboardInterrupt:
        print("interrupted; what has been played:", file=sys.stderr)
    finally:
        if file:
            file.close()
    if rows:
        print(report(rows))
    return 0 if len(rows) == len(cycles) * options.games else 130


if __name__ == "__main__":
    sys.exit(main())
