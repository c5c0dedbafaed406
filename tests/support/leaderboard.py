"""Entries, players and commands for tests of the leaderboard."""

from __future__ import annotations

import json
from pathlib import Path

import afterstate.envs  # noqa: F401 - registers the environments
from afterstate.envs.json_files import Row
from afterstate.leaderboard import gzip_rows
from afterstate.leaderboard.__main__ import main
from afterstate.leaderboard.games import (
    Entry,
)

RANDOM = Entry("2048", "random", "random", {}, 6, 3)
SAMPLE = Entry("daihinmin", "the sample client", "daihinmin-sample", {}, 1, 1)


def file_of(folder: Path, content: Row) -> Path:
    """Write a file of entries and return it."""
    path = folder / "entries.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def run(command: str, folder: Path, *more: str) -> None:
    """Run a command on the entries and rows of a folder."""
    main([command, "--entries", str(folder / "entries.json"), "--rows", str(folder), *more])


def all_rows(folder: Path) -> list[Row]:
    """Return all rows of a folder."""
    return [row for path in sorted(folder.rglob("*.gz")) for row in gzip_rows.rows(path)]


ENTRIES: Row = {
    "2048": {
        "random": {"player": "random", "games": 6, "chunk": 3},
        "a table": {"player": "bots:table_of", "settings": {"value": 2}, "games": 4, "chunk": 2},
    },
    "daihinmin": {"the sample client": {"player": "daihinmin-sample", "games": 2}},
}
