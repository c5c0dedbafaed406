"""Players that are measured: each is an *entry*, a dictionary that gets one row of results.

Parts of its games, which wait in files until all have ended, have the entry as `cell`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.stats import t
from tqdm import tqdm

from afterstate.agents.game2048.play import Games, play
from afterstate.agents.training.evaluation import EVALUATION_SEED, half_interval, summary
from afterstate.agents.training.workers import Workers
from afterstate.envs import json_files
from afterstate.envs.checks import as_int
from afterstate.envs.json_files import Row
from afterstate.envs.messages import shown
from afterstate.leaderboard.machine import machine
from benchmarks.experiments.harness import Estimate, processors, rows_lock, run_calls


def entry_id(entry: Row) -> str:
    """Return a text that identifies an entry, and the same text for its row."""
    keys = ("group", "player", "settings", "games", "network_sha256", "measured_on")
    return json.dumps([entry.get(key) for key in keys])


def rows_by_id(path: Path) -> dict[str, Row]:
    """Return the latest row of a file for each entry that it has, by its identity."""
    return {entry_id(row): row for row in json_files.rows(path)}


def latest(path: Path, entries: Iterable[Row]) -> list[Row]:
    """Return the latest row of each entry that has one, in the order of the entries."""
    rows = rows_by_id(path)
    return [rows[entry_id(entry)] for entry in entries if entry_id(entry) in rows]


def mean_text(row: Row) -> str:
    """Return the mean of scores or regrets with half of its 95% interval, as text."""
    if "regret" in row:
        return f"{row['regret']:,.1f} ± {row['interval']:,.1f}"
    return str(score(row))


def mean_regret(regrets: npt.NDArray[np.float64]) -> Row:
    """Return the mean of regrets with half of its 95% interval over positions, for a row."""
    return {
        "regret": round(float(regrets.mean()), 2),
        "interval": round(half_interval(regrets), 2),
    }


def half_interval_of(row: Row) -> float:
    """Return half of Student's 95% interval of a row's mean score; rows have that of the normal."""
    n_games = row["n_games"]
    return (
        float(row["interval"]) * float(t.ppf(0.975, n_games - 1)) / 1.96
        if n_games > 1
        else math.nan
    )


def score(row: Row) -> Estimate:
    """Return the mean score of a row with half of its interval."""
    return Estimate(row["mean"], half_interval_of(row))


def cost(row: Row) -> str:
    """Return the CPU time of a move in microseconds, as text."""
    return f"{row['cpu_us_per_move']:,.0f}"


def took(rows: Sequence[Row]) -> str:
    """Return the core hours of players' games and their processors, as a sentence.

    Rows without moves or their time do not count.
    """
    hours = sum(row.get("moves", 0) * row.get("cpu_us_per_move", 0) / 3.6e9 for row in rows)
    return f"The players took {hours:.1f} core hours ({', '.join(processors(rows))})."


def fill(
    path: Path,
    entries: Iterable[Row],
    measure: Callable[[Row], Row],
    workers: Workers,
    hours: float | None = None,
) -> None:
    """Measure the entries without a row, and append each row to the file when it ends.

    Args:
        path: the file of rows.
        entries: what is measured.
        measure: returns the row of an entry.
        workers: processes that measure.
        hours: time after which no more entries are begun; None: no limit.

    Raises:
        OSError: the file cannot be written.
        ValueError: another process writes to it.
    """
    with rows_lock(path):
        calls = [partial(measure, entry) for entry in _missing(path, entries)]
        for row in run_calls(calls, workers, hours, "players"):
            _append(path, row)


def chunks(entry: Row) -> list[range]:
    """Return the seeds of an entry's games, divided into parts of `chunk` games if it has that.

    Raises:
        ValueError: a number is not an integer of at least 1.
    """
    for key in ("games", "chunk"):
        if (as_int(entry.get(key, 1)) or 0) < 1:
            raise ValueError(f"{key} must be an integer >= 1, got {shown(entry[key])}")
    seeds = range(EVALUATION_SEED, EVALUATION_SEED + entry["games"])
    size = entry.get("chunk", len(seeds))
    return [seeds[i : i + size] for i in range(0, len(seeds), size)]


def play_part(entry: Row, seeds: range, player: Any, **fields: Any) -> Row:
    """Play some games of an entry and return their results, of which `row_of` makes its row.

    Args:
        entry: the entry.
        seeds: those of the games.
        player: the player of the entry.
        fields: other fields of the entry's row.
    """
    start = time.process_time()
    games = play(player, len(seeds), seeds[0])
    part = {"cell": entry, "seed": seeds[0], "seconds": time.process_time() - start}
    part |= {key: values.tolist() for key, values in games._asdict().items()}
    return {**part, "fields": {"machine": machine(), **fields}}


def row_of(parts: Sequence[Row], tiles: Iterable[int] = ()) -> Row:
    """Return the row of an entry; its machine is that of the first games.

    Args:
        parts: all parts of the entry, in the order of their seeds.
        tiles: tiles whose rates are in the row, in addition to those of `summary`.
    """
    games = Games(*(np.concatenate([part[each] for part in parts]) for each in Games._fields))
    seconds, moves = sum(part["seconds"] for part in parts), int(games.n_moves.sum())
    result, first = summary(games), parts[0]
    rates = {str(tile): float((games.max_tiles >= tile).mean()) for tile in tiles}
    result["reached"] = {**rates, **result["reached"]}
    per_move = {"moves": moves, "cpu_us_per_move": round(1e6 * seconds / moves, 1)}
    return {**first["cell"], **result, "seed": first["seed"], **per_move, **first["fields"]}


def play_entries(
    path: Path,
    entries: Iterable[Row],
    play_seeds: Callable[[Row, range], Row],
    workers: Workers,
    hours: float | None = None,
    tiles: Sequence[int] = (),
) -> None:
    """Play the games of the entries without a row, and append each row when it is complete.

    Processes share the parts of an entry, see `chunks`. Those that have ended wait for the others
    in a file next to that of the rows, so that an interruption does not lose them.

    Args:
        path: the file of rows.
        entries: the players.
        play_seeds: returns the results of a part by the entry and the seeds, see `play_part`.
        workers: processes that play.
        hours: time after which no more parts are begun; None: no limit.
        tiles: those of `row_of`.

    Raises:
        OSError: a file cannot be written.
        ValueError: another process writes to the file of rows, that of parts has something else,
            or an entry has a wrong number of games.
    """
    with rows_lock(path):
        every, waiting = list(entries), path.with_suffix(".parts.jsonl")
        ended = _write_complete(path, waiting, every, tiles)
        calls = [
            partial(play_seeds, entry, seeds)
            for entry in _missing(path, every)
            for seeds in chunks(entry)
            if _key(entry, seeds) not in ended
        ]
        for part in run_calls(calls, workers, hours, "parts"):
            json_files.append(waiting, [part])
            _write_complete(path, waiting, every, tiles)


Key: TypeAlias = tuple[str, int, int]
"""Identity of a part: the identity of its entry, its first seed and its number of games."""


def _write_complete(
    path: Path, waiting: Path, entries: Iterable[Row], tiles: Sequence[int]
) -> set[Key]:
    """Append the rows of entries whose parts have all ended, and return the parts that wait."""
    ended = _waiting_parts(waiting)
    done = {entry_id(row) for row in json_files.rows(path)}  # also of those killed after it
    for entry in entries:
        if entry_id(entry) in done:
            continue
        keys = [_key(entry, seeds) for seeds in chunks(entry)]
        if all(key in ended for key in keys):
            _append(path, row_of([ended[key] for key in keys], tiles))
            done.add(entry_id(entry))
    left = {key: part for key, part in ended.items() if key[0] not in done}
    if not left:
        waiting.unlink(missing_ok=True)
    elif len(left) < len(ended):
        json_files.write_rows(waiting, list(left.values()))
    return set(left)


def _waiting_parts(waiting: Path) -> dict[Key, Row]:
    """Return the parts in a file.

    Raises:
        ValueError: it has something else.
    """
    parts: dict[Key, Row] = {}
    needed = {"cell", "seed", "seconds", "fields", *Games._fields}
    for part in json_files.rows(waiting):
        if not isinstance(part, dict) or not needed <= part.keys():
            raise ValueError(f"{waiting} must have parts of games, got {shown(part)}: delete it")
        parts[entry_id(part["cell"]), part["seed"], len(part["scores"])] = part
    return parts


def _key(entry: Row, seeds: range) -> Key:
    """Return the identity of a part."""
    return entry_id(entry), seeds[0], len(seeds)


def _missing(path: Path, entries: Iterable[Row]) -> list[Row]:
    """Return the entries without a row."""
    done = {entry_id(row) for row in json_files.rows(path)}
    return [entry for entry in entries if entry_id(entry) not in done]


def _append(path: Path, row: Row) -> None:
    """Append a row to a file, and print its result."""
    json_files.append(path, [row])
    tqdm.write(f"{row['player']} {row['settings']}: {mean_text(row)}")
