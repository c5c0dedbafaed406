"""`afterstate eval`: scores of players on the same games, with intervals."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from statistics import mean
from typing import Any

from afterstate.agents.training.evaluation import MAX_GAMES, half_interval, of_student, summary
from afterstate.commands.options import Eval
from afterstate.commands.players import (
    check_players,
    check_settings,
    fill_seats,
    game_of,
    move_once,
    player_2048,
    player_daihinmin,
)
from afterstate.envs.checks import check_seed
from afterstate.envs.daihinmin.uecda.settings import N_SEATS
from afterstate.envs.messages import named
from afterstate.text_tables import aligned

TILES = (2048, 4096, 8192, 16384, 32768)
"""Tiles whose reach rates are columns of the table."""

OPPONENTS = ("daihinmin-sample",)
"""Opponents in Daihinmin if none are given."""


def run(options: Eval) -> None:
    """Evaluate players and print the results.

    Raises:
        OSError, ValueError, ImportError: a wrong option, or a player that is not found.
    """
    if not 1 <= options.games <= MAX_GAMES:
        raise ValueError(f"games must be in 1..{MAX_GAMES:,}, got {options.games:,}")
    check_seed(options.seed, optional=False)
    evaluate: Callable[[str, Eval], dict[str, Any]]
    game = _game(options)
    check_settings(options.players)
    if game == "2048":
        _check_2048(options)
        evaluate, table = _evaluate_2048, _table_2048
    else:
        evaluate = partial(_evaluate_daihinmin, opponents=_opponents(options))
        table = _table_daihinmin
    results = []
    for name in options.players:
        results.append({"player": name, "seed": options.seed, **evaluate(name, options)})
    print(json.dumps(results, indent=1) if options.json else table(results))


def _game(options: Eval) -> str:
    """Return the game of the players; with opponents `random` is the player of Daihinmin."""
    if options.opponents:
        with suppress(ValueError):
            check_players(options.players, "daihinmin")
            return "daihinmin"
    return game_of(options.players)


def _check_2048(options: Eval) -> None:
    """Raise ValueError for options that games of 2048 do not have."""
    if options.opponents:
        raise ValueError("opponents must be left out for players of 2048: it has a single player")


def _opponents(options: Eval) -> list[str]:
    """Return the names of the opponents in Daihinmin; raise ValueError for a wrong option."""
    from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE

    if options.games % GAMES_PER_CYCLE:
        raise ValueError(f"games must be a multiple of 100 in Daihinmin, got {options.games}")
    with named("opponents"):
        names = fill_seats(options.opponents or OPPONENTS, N_SEATS - 1)
        for name in names:
            player_daihinmin(name)
    return names


def _move_once(name: str, player: Any) -> None:
    """Let a player move once, with its name in errors."""
    with named(name):
        move_once(player)


def _evaluate_2048(name: str, options: Eval) -> dict[str, Any]:
    """Return the summary of a player's games of 2048."""
    from afterstate.agents.game2048.play import play
    from afterstate.agents.game2048.simple import RandomAgent
    from afterstate.agents.progress import progress_bar

    play(RandomAgent(), 1)  # compiles the games
    _move_once(name, player_2048(name, options.seed))  # another: moves may draw from its stream
    player = player_2048(name, options.seed)
    start = time.process_time()
    with progress_bar(total=options.games, desc=name, unit="games", leave=False) as bar:

        def report(n_games: int, n_moves: int) -> None:
            bar.set_postfix_str(f"{n_moves:,} moves", refresh=False)
            bar.update(n_games - bar.n)

        with named(name):
            games = play(player, options.games, options.seed, report=report)
    seconds = round(time.process_time() - start, 3)
    result = summary(games)
    if result["interval"] is not None:
        result["interval"] = round(of_student(result["interval"], options.games), 1)
    return {**result, "n_moves": int(games.n_moves.sum()), "cpu_seconds": seconds}


def _table_2048(results: list[dict[str, Any]]) -> str:
    """Return the table of players of 2048, the best first."""
    head = ["player", "games", "mean score", "best", *map(str, TILES), "CPU time per move"]
    rows = []
    for each in sorted(results, key=lambda each: -each["mean"]):
        half = "" if each["interval"] is None else f" ± {each['interval']:,.0f}"
        reached = [f"{each['reached'][str(tile)]:.1%}" for tile in TILES]
        micro = 1e6 * each["cpu_seconds"] / max(each["n_moves"], 1)
        score = f"{each['mean']:,.0f}{half}"
        name, games = each["player"], f"{each['n_games']:,}"
        rows.append([name, games, score, f"{each['max']:,}", *reached, f"{micro:,.1f} µs"])
    note = "± is half the 95% confidence interval of the mean."
    if any(each["interval"] is None for each in results):
        note = "One game has no interval: play more with --games."
    return f"{aligned(head, rows)}\n\n{note}"


def _evaluate_daihinmin(name: str, options: Eval, opponents: list[str]) -> dict[str, Any]:
    """Return a player's points per 100 games of Daihinmin."""
    from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE, Counted, points_per_cycle
    from afterstate.agents.progress import progress_bar

    n_cycles = options.games // GAMES_PER_CYCLE
    points: list[int] = []
    n_illegal = 0
    _move_once(name, player_daihinmin(name, 0))
    start = time.process_time()
    seeds = range(options.seed, options.seed + n_cycles)
    for seed in progress_bar(seeds, desc=name, unit="cycles", leave=False):
        player = Counted(player_daihinmin(name, seed))
        with named(name):
            points += points_per_cycle(player, opponents, 1, seed)
        n_illegal += player.n_illegal
    half = of_student(half_interval(points), n_cycles)
    return {
        "cpu_seconds": round(time.process_time() - start, 3),
        "n_games": options.games,
        "n_illegal": n_illegal,
        "points_per_100_games": round(mean(points), 2),
        "interval": None if n_cycles == 1 else round(half, 2),
        "opponents": opponents,
    }


def _table_daihinmin(results: list[dict[str, Any]]) -> str:
    """Return the table of players of Daihinmin, the best first."""
    rows = []
    for each in sorted(results, key=lambda each: -each["points_per_100_games"]):
        half = "" if each["interval"] is None else f" ± {each['interval']:.1f}"
        points = f"{each['points_per_100_games']:.1f}{half}"
        milli = 1e3 * each["cpu_seconds"] / each["n_games"]
        rows.append([each["player"], f"{each['n_games']:,}", points, f"{milli:,.1f} ms"])
    head = ["player", "games", "points per 100 games", "CPU time per game"]
    note = f"Opponents: {', '.join(results[0]['opponents'])}. Five equal players have 300 points."
    illegal = ", ".join(
        f"{each['n_illegal']:,} by {each['player']}" for each in results if each["n_illegal"]
    )
    if illegal:
        note += f" Illegal moves, which pass or are punished: {illegal}."
    interval = "± is half the 95% confidence interval of the mean over cycles."
    if any(each["interval"] is None for each in results):
        interval = "One cycle of 100 games has no interval: play more with --games."
    return f"{aligned(head, rows)}\n\n{note} {interval}"
