"""Players that are measured, each a *cell* that gets one row."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import joblib
from tqdm import tqdm

from afterstate.agents.game2048.play import play
from afterstate.agents.training.run import EVALUATION_SEED, summary
from benchmarks.experiments.quasi_greedy.rows import quantile, read
from benchmarks.machine import machine

Row = dict[str, Any]


def name(cell: Row) -> str:
    """What tells a cell, or the row of it, from others."""
    return json.dumps([cell.get(key) for key in ("group", "player", "settings", "games")])


def latest(path: Path, cells: Iterable[Row]) -> list[Row]:
    """The latest rows of those cells that have any, in the order of the cells."""
    found = {name(row): row for row in read(path)}
    return [found[name(cell)] for cell in cells if name(cell) in found]


def reached(row: Row) -> str:
    """Mean and interval, of scores or of regrets."""
    if "regret" in row:
        return f"{row['regret']:,.1f} ± {row['interval']:,.1f}"
    return f"{row['mean']:,.0f} ± {interval(row):,.0f}"


def interval(row: Row) -> float:
    """The interval of a mean score: Student's, which for few games is wider than the normal."""
    games = row["n_games"]
    return float(row["interval"]) * quantile(games - 1) / 1.96 if games > 1 else math.nan


def cost(row: Row) -> str:
    """What a move costs."""
    return f"{row['cpu_us_per_move']:,.0f}"


def played(cell: Row, player: Any, tiles: Iterable[int] = ()) -> Row:
    """The row of a cell whose player plays games.

    Args:
        cell: with the number of games.
        player: plays them.
        tiles: whose rates are told beside those of `summary`.
    """
    began = time.process_time()
    games = play(player, cell["games"], EVALUATION_SEED)
    seconds, moves = time.process_time() - began, int(games.n_moves.sum())
    found = summary(games)
    rates = {str(tile): float((games.max_tiles >= tile).mean()) for tile in tiles}
    found["reached"] = {**rates, **found["reached"]}
    per_move = {"moves": moves, "cpu_us_per_move": round(1e6 * seconds / moves, 1)}
    return {**cell, **found, "seed": EVALUATION_SEED, **per_move, "machine": machine()}


def fill(path: Path, cells: Iterable[Row], work: Callable[[Row], Row], n_jobs: int) -> None:
    """Adds the rows of cells that have none to a file, each when it is known."""
    done = {name(row) for row in read(path)}
    missing = [cell for cell in cells if name(cell) not in done]
    found = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        joblib.delayed(work)(cell) for cell in missing
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for row in tqdm(found, total=len(missing), unit=" players"):
            file.write(json.dumps(row) + "\n")
            file.flush()
            tqdm.write(f"{row['player']} {row['settings']}: {reached(row)}")
