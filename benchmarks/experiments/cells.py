"""Players that are measured: each is a *cell*, a dictionary that gets one row of results."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import t
from tqdm import tqdm

from afterstate.agents.game2048.play import play
from afterstate.agents.training.folder import FolderLock
from afterstate.agents.training.run import EVALUATION_SEED, half_interval, summary
from afterstate.agents.training.workers import Workers
from afterstate.envs import json_files
from afterstate.leaderboard.machine import machine
from afterstate.leaderboard.row_files import Row
from benchmarks.experiments.harness import Estimate, results


def name(cell: Row) -> str:
    """Return a text that identifies a cell, and the same text for its row."""
    keys = ("group", "player", "settings", "games", "network_sha256")
    return json.dumps([cell.get(key) for key in keys])


def latest(path: Path, cells: Iterable[Row]) -> list[Row]:
    """Return the latest row of each cell that has one, in the order of the cells."""
    rows = {name(row): row for row in json_files.rows(path)}
    return [rows[name(cell)] for cell in cells if name(cell) in rows]


def mean_text(row: Row) -> str:
    """Return the mean of scores or regrets with its 95% interval, as text."""
    if "regret" in row:
        return f"{row['regret']:,.1f} ± {row['interval']:,.1f}"
    return str(score(row))


def mean_regret(regrets: npt.NDArray[np.float64]) -> Row:
    """Return the mean of regrets with its 95% interval over positions (normal), for a row."""
    return {
        "regret": round(float(regrets.mean()), 2),
        "interval": round(half_interval(regrets), 2),
    }


def interval(row: Row) -> float:
    """Return Student's 95% interval of a mean score; rows have the normal distribution's."""
    n_games = row["n_games"]
    return (
        float(row["interval"]) * float(t.ppf(0.975, n_games - 1)) / 1.96
        if n_games > 1
        else math.nan
    )


def score(row: Row) -> Estimate:
    """Return the mean score of a row with its interval."""
    return Estimate(row["mean"], interval(row))


def cost(row: Row) -> str:
    """Return the CPU time of a move in microseconds, as text."""
    return f"{row['cpu_us_per_move']:,.0f}"


def play_games(cell: Row, player: Any, tiles: Iterable[int] = ()) -> Row:
    """Play the games of a cell and return its row.

    Args:
        cell: the cell, with its number of games.
        player: the player of the cell.
        tiles: tiles whose rates are in the row, in addition to those of `summary`.
    """
    start = time.process_time()
    games = play(player, cell["games"], EVALUATION_SEED)
    seconds, moves = time.process_time() - start, int(games.n_moves.sum())
    result = summary(games)
    rates = {str(tile): float((games.max_tiles >= tile).mean()) for tile in tiles}
    result["reached"] = {**rates, **result["reached"]}
    per_move = {"moves": moves, "cpu_us_per_move": round(1e6 * seconds / moves, 1)}
    return {**cell, **result, "seed": EVALUATION_SEED, **per_move, "machine": machine()}


def fill(
    path: Path,
    cells: Iterable[Row],
    measure: Callable[[Row], Row],
    workers: Workers,
    hours: float | None = None,
) -> None:
    """Measure the cells without a row, and append each row to the file when it is complete.

    Args:
        path: the file of rows.
        cells: what is measured.
        measure: returns the row of a cell.
        workers: processes that measure.
        hours: time after which no more cells are begun; None: no limit.

    Raises:
        OSError: the file cannot be written.
        ValueError: another process writes to its folder.
    """
    _held = FolderLock(path.parent)
    done = {name(row) for row in json_files.rows(path)}
    missing = [cell for cell in cells if name(cell) not in done]
    calls = [partial(measure, cell) for cell in missing]
    for row in results(calls, workers, hours, "players"):
        json_files.append(path, [row])
        tqdm.write(f"{row['player']} {row['settings']}: {mean_text(row)}")
