"""Players that are measured, each a *cell* that gets one row."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import joblib
from experiments.rows import quantile, read
from tqdm import tqdm

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
    games = row.get("n_games", 1000)
    return float(row["interval"]) * quantile(games - 1) / 1.96 if games > 1 else math.nan


def cost(row: Row) -> str:
    """What a move costs."""
    return f"{row['cpu_us_per_move']:,.0f}"


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
