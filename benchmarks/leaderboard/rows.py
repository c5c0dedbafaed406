"""Rows of the leaderboard: their files, their checks, and the rows that count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.envs.json_files import Row
from afterstate.envs.messages import shown
from afterstate.leaderboard import gzip_rows
from afterstate.leaderboard.games import GAMES, OPPONENTS, Entry, file_name, seeds

_MOST = 1 << 63
"""Numbers of a row are below this one."""

_NUMBER = (int, float)
_TEXT = (str, type(None))
_FIELDS: dict[str, Any] = {
    "game": str,
    "name": str,
    "player": str,
    "settings": dict,
    "at_once": int,
    "weights": _TEXT,
    "code": _TEXT,
    "env": str,
    "afterstate": str,
    "commit": _TEXT,
    "machine": dict,
    "seed": int,
    "cpu_seconds": _NUMBER,
}
_FIELDS_OF: dict[str, dict[str, Any]] = {
    "2048": {**_FIELDS, "score": int, "max_tile": int, "moves": int},
    "daihinmin": {
        **_FIELDS,
        "opponents": dict,
        "number": int,
        "players": list,
        "places": list,
        "decisions": int,
    },
}
"""Fields of a row and their types, by game."""


def rows_file(folder: Path, entry: Entry) -> Path:
    """Return the file of an entry's rows."""
    return folder / entry.game / f"{file_name(entry)}.jsonl.gz"


def read(folder: Path, entry: Entry) -> list[Row]:
    """Return the rows of an entry, checked.

    Raises:
        ValueError: the file is damaged or has an invalid row; the message names both.
    """
    path = rows_file(folder, entry)
    rows = []
    for i, row in enumerate(gzip_rows.rows(path), 1):
        if error := row_error(row, entry.game):
            raise ValueError(f"{path}, row {i}: {error}")
        rows.append(row)
    return rows


def row_error(row: Row, game: str) -> str:
    """Return the error of a row of a game; empty if it is valid."""
    if not isinstance(row, dict):
        return f"must be an object, got {shown(row)}"
    fields = _FIELDS_OF[game]
    wrong = [name for name, kind in fields.items() if not _is(row.get(name, ...), kind)]
    if wrong:
        return f"{wrong} missing or of another type"
    numbers = [row[of] for of, kind in fields.items() if kind in (int, _NUMBER)]
    if not all(0 <= number < _MOST for number in numbers):
        return f"numbers must be finite, >= 0 and < {_MOST}"
    if row["game"] != game or not isinstance(row["machine"].get("cpu"), str):
        return f"game must be {game}, machine must have cpu"
    if game == "2048":
        tile = row["max_tile"]
        fits = row["moves"] > 0 and 2 <= tile <= 1 << 17 and tile & (tile - 1) == 0
        return (
            "" if fits else f"moves must be > 0 and max_tile a tile, got {row['moves']} and {tile}"
        )
    if sorted(row["places"], key=str) != list(range(N_PLAYERS)):
        return f"places must be 0 to 4 once each, got {shown(row['places'])}"
    if sorted(row["players"], key=str) != sorted([row["name"], *OPPONENTS]):
        return f"players must be {[row['name'], *OPPONENTS]}, got {shown(row['players'])}"
    return ""


def _is(value: Any, kind: Any) -> bool:
    """Return True if a value is of a type; true and false are not numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)


PLAYER_FIELDS = (
    *("name", "player", "settings", "at_once"),
    *("weights", "code", "env", "opponents"),
)
"""Fields that are equal in all rows of the same player."""


def of_same_player(rows: Sequence[Row], head: Row) -> list[Row]:
    """Return the rows with the same player, weights, rules and opponents as `head`."""
    return [row for row in rows if all(row.get(key) == head.get(key) for key in PLAYER_FIELDS)]


def current(entry: Entry, rows: Sequence[Row]) -> dict[int, list[Row]]:
    """Return the rows that count by seed: those of the entry's latest weights and code.

    Rows of another version of the environment do not count. See `rows_by_seed`.
    """
    now = {"name": entry.name, "player": entry.player, "settings": entry.settings}
    now["env"] = GAMES[entry.game]
    last = next((row for row in reversed(rows) if row | now == row), None)
    return rows_by_seed(entry, of_same_player(rows, last)) if last is not None else {}


def rows_by_seed(entry: Entry, rows: Sequence[Row]) -> dict[int, list[Row]]:
    """Return the rows of each finished seed: one game of 2048, or a whole cycle of Daihinmin.

    If a game was played twice, the later row counts.
    """
    by_seed: dict[int, dict[int, Row]] = defaultdict(dict)
    for row in rows:
        by_seed[row["seed"]][row.get("number", 1)] = row
    whole = set(range(1, entry.rows_each + 1))
    wanted = seeds(entry.game)[: entry.games]
    return {seed: list(by_seed[seed].values()) for seed in wanted if by_seed[seed].keys() == whole}


def missing(entry: Entry, played: Collection[int]) -> list[list[int]]:
    """Return the chunks of an entry that have seeds without rows."""
    return [chunk for chunk in entry.chunks() if any(seed not in played for seed in chunk)]
