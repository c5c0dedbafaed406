"""The leaderboard's committed results and rows, as the page shows them.

They are in a checkout only, of which an editable installation reads them; the wheel has none.
"""

from __future__ import annotations

import csv
import json
import threading
import zlib
from functools import lru_cache
from pathlib import Path

from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE
from afterstate.envs import json_files
from afterstate.leaderboard import games, rows
from afterstate.leaderboard.games import OPPONENTS, Entry
from afterstate.web import choices, game_daihinmin
from afterstate.web.answers import Json
from afterstate.web.game_daihinmin import Match

FOLDER = games.ROOT / "benchmarks" / "results" / "leaderboard"
SHOWN = 30
"""Rows of a player that are sent at once."""

_TEXTS = ("player", "machine")
_KEYS = ("seed", "score", "max_tile", "moves", "number", "places", "players")
_READING = threading.Lock()
MISSING = (
    "The results of the leaderboard are in the repository only: "
    'install a checkout of it by pip install --editable ".[web]".'
)


def table(game: str, folder: Path = FOLDER) -> Json:
    """Return the results of all players of a game, best first.

    Raises:
        OSError: there are no results here, or they are damaged.
    """
    entries, path = _entries(game), folder / f"{game}.csv"
    try:
        lines = json_files.read_bytes(path).decode().splitlines()
        results = [_result(row, entries) for row in csv.DictReader(lines)]
    except (csv.Error, LookupError, TypeError, ValueError) as error:
        raise OSError(f"{path} is damaged: {error}") from error
    return {"game": game, "results": results, "opponents": list(OPPONENTS)}


def _result(row: dict[str, str], entries: dict[str, Entry]) -> Json:
    """Return a result with its numbers, and the player if the page can make it."""
    name = row.pop("player")
    numbers = {key: _number(value) for key, value in row.items() if key not in _TEXTS}
    entry = entries.get(name)
    return {
        "name": name,
        **numbers,
        "machine": row.get("machine", ""),
        "player": None if entry is None else _spec(entry),
    }


def _number(text: str) -> float | None:
    """Return a number; None for a blank."""
    return float(text) if text else None


def _spec(entry: Entry) -> Json | None:
    """Return the player of an entry, None if visitors cannot choose it."""
    if entry.timed:
        return None
    try:
        return choices.of_player(entry.game, entry.player, entry.settings)
    except ValueError:
        return None


def _entries(game: str) -> dict[str, Entry]:
    """Return the package's entries of a game by name."""
    return {each.name: each for each in games.entries(games.OWN) if each.game == game}


def played(game: str, name: str, first: int, folder: Path = FOLDER) -> Json:
    """Return rows of a player from a place on.

    Raises:
        LookupError: there is no such player.
        OSError: there are no rows here.
    """
    each, packed = _entries(game)[name].rows_each, _rows(game, name, folder)
    seeds = list(packed)[first // each : (first + SHOWN) // each + 1]
    part = [row for seed in seeds for row in _unpacked(packed[seed])][first % each :]
    return {"n": each * len(packed), "rows": part[:SHOWN], "shown": SHOWN}


def match(name: str, seed: int, number: int, folder: Path = FOLDER) -> Match:
    """Return a match that begins with a game of a cycle, as a player of Daihinmin played it.

    Raises:
        LookupError: there is no such player or game.
        OSError: there are no rows here.
        ValueError: visitors cannot choose the player.
    """
    cycle = _unpacked(_rows("daihinmin", name, folder)[seed])
    entry = _entries("daihinmin")[name]
    own = choices.of_player("daihinmin", entry.player, entry.settings)
    names = cycle[number - 1]["players"]
    players: list[Json | None] = [
        own if each == name else choices.player_spec("daihinmin", each, {}) for each in names
    ]
    places = [row["places"] for row in cycle[: number - 1]]
    return game_daihinmin.new(players, seed, GAMES_PER_CYCLE, places)


def _rows(game: str, name: str, folder: Path) -> dict[int, bytes]:
    """Return the rows of a player that count, by seed, packed; one file is read at a time."""
    with _READING:
        return _read(game, name, folder)


def _unpacked(packed: bytes) -> list[Json]:
    """Return the rows of a seed."""
    part: list[Json] = json.loads(zlib.decompress(packed))
    return part


@lru_cache(maxsize=100)  # those of all players
def _read(game: str, name: str, folder: Path) -> dict[int, bytes]:
    """Return what is shown of the rows of a player."""
    entry = _entries(game)[name]
    if not rows.rows_file(folder, entry).exists():
        raise FileNotFoundError(MISSING)
    current = rows.current(entry, rows.read(folder, entry))
    return {seed: _packed(current[seed]) for seed in sorted(current)}


def _packed(part: list[Json]) -> bytes:
    """Return what is shown of the rows of a seed."""
    shown = [{key: row[key] for key in _KEYS if key in row} for row in part]
    return zlib.compress(json.dumps(shown).encode())
