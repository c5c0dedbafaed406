"""The rows of the leaderboard: their files, whether they are as they should be, and which count."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from afterstate.envs.daihinmin.rules import N_PLAYERS
from benchmarks import row_files
from benchmarks.leaderboard.games import GAMES, OPPONENTS, Entry, plain, seeds
from benchmarks.row_files import Row

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
"""What a row has to say, and of which kind it is."""


def rows_file(folder: Path, entry: Entry) -> Path:
    """The file of an entry's rows."""
    return folder / entry.game / f"{plain(entry)}.jsonl.gz"


def read(folder: Path, entry: Entry) -> list[Row]:
    """The rows of an entry, checked.

    Raises:
        ValueError: the file is damaged, or has a row that no game makes; the message names both.
    """
    path = rows_file(folder, entry)
    rows = row_files.read(path)
    for i, row in enumerate(rows, 1):
        wrong = what_is_wrong(row, entry.game)
        if wrong:
            raise ValueError(f"{path}, row {i}: {wrong}")
    return rows


def what_is_wrong(row: Row, game: str) -> str:
    """What is wrong with a row of a game; empty if nothing is."""
    if not isinstance(row, dict):
        return f"not an object, but {row!r:.40}"
    fields = _FIELDS_OF[game]
    wrong = [name for name, kind in fields.items() if not _is(row.get(name, ...), kind)]
    if wrong:
        return f"{wrong} not there, or not of their kind"
    numbers = [row[of] for of, kind in fields.items() if kind in (int, _NUMBER)]
    if not all(0 <= number < math.inf for number in numbers):
        return "a number is not finite, or below 0"
    if row["game"] != game or not isinstance(row["machine"].get("cpu"), str):
        return f"it is not of {game}, or tells no processor"
    if game == "2048":
        tile = row["max_tile"]
        fits = row["moves"] > 0 and tile >= 2 and tile & (tile - 1) == 0
        return "" if fits else f"it has no moves, or {tile} is no tile"
    if sorted(row["places"], key=str) != list(range(N_PLAYERS)):
        return f"places are 0 to 4 once each, got {row['places']}"
    if sorted(row["players"], key=str) != sorted([row["name"], *OPPONENTS]):
        return f"players are {[row['name'], *OPPONENTS]}, got {row['players']}"
    return ""


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind; true and false are no numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)


OF_PLAYER = (
    *("name", "player", "settings", "at_once"),
    *("weights", "code", "env", "opponents"),
)
"""What rows of the same player have in common."""


def alike(rows: Sequence[Row], head: Row) -> list[Row]:
    """The rows of the same player, with the same weights, rules and opponents, as a head."""
    return [row for row in rows if all(row.get(of) == head.get(of) for of in OF_PLAYER)]


def current(entry: Entry, rows: Sequence[Row]) -> dict[int, list[Row]]:
    """The rows that count, by the entry's seeds: of its player as it was last; see `games`.

    Rows of an environment with other rules do not.
    """
    now = {"name": entry.name, "player": entry.player, "settings": entry.settings}
    now["env"] = GAMES[entry.game]
    last = next((row for row in reversed(rows) if row | now == row), None)
    return games(entry, alike(rows, last)) if last is not None else {}


def games(entry: Entry, rows: Sequence[Row]) -> dict[int, list[Row]]:
    """The rows of each of the entry's seeds that is played: one of 2048, or those of a whole cycle.

    Of a game that was played twice the later row counts.
    """
    found: dict[int, dict[int, Row]] = defaultdict(dict)
    for row in rows:
        found[row["seed"]][row.get("number", 1)] = row
    whole = set(range(1, entry.rows_each + 1))
    told = seeds(entry.game)[: entry.games]
    return {seed: list(found[seed].values()) for seed in told if found[seed].keys() == whole}


def missing(entry: Entry, played: Collection[int]) -> list[list[int]]:
    """The chunks of an entry that are not played yet, of the seeds of its games those that are."""
    return [chunk for chunk in entry.chunks() if any(seed not in played for seed in chunk)]
