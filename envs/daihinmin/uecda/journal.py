"""The files that a server writes: a log of the games, and events."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from pathlib import Path
from typing import IO, Any

from afterstate.envs import durable_files, json_files
from afterstate.envs.daihinmin.records.recording import Entry
from afterstate.envs.daihinmin.rules import ACCEPTED, N_PLAYERS
from afterstate.envs.daihinmin.uecda.metrics import Metrics

LOGGER = logging.getLogger(__name__)
PROGRESS_SECONDS = 10.0
"""Minimum time between two INFO lines about finished games."""
MAX_VISITS, VISITS_SECONDS = 50, 10.0
"""Maximum number of events of a kind about strangers in a period of this length; more are only
counted."""


def _open(path: str, flags: int) -> int:
    """Open a file such that writing to a pipe whose reader has stopped is an error."""
    return os.open(path, flags | (0 if os.name == "nt" else os.O_NONBLOCK), 0o666)


class Lines:
    """A file of JSON lines. Each line is written immediately, and whole or not at all.

    A file that is removed or renamed meanwhile is reported in the log, and a new one is begun.

    Args:
        path: the file; an incomplete last line is ended first. None: nothing is written.
        synced: whether lines survive a power loss, too, as soon as they are written.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path | None, synced: bool = False) -> None:
        self._path, self._synced = path, synced
        self._file = self._opened(path) if path else None

    @staticmethod
    def _opened(path: Path) -> IO[bytes]:
        """Return the file, opened for appending after the end of its last line."""
        file = open(path, "a+b", buffering=0, opener=_open)
        durable_files.sync_folder(path.parent)
        if json_files.is_cut_off(path):
            file.write(b"\n")
        return file

    def _follow(self, path: Path, file: IO[bytes]) -> IO[bytes]:
        """Return the file, or a new one if there is no longer this one at its path."""
        if durable_files.is_at(path, os.fstat(file.fileno())):
            return file
        LOGGER.warning("%s was removed or replaced: later lines are written to a new file", path)
        file.close()
        return self._opened(path)

    def append(self, entry: Entry) -> None:
        """Append a line.

        Raises:
            OSError: the line cannot be written; the part already written is removed.
        """
        if self._path is None or self._file is None:
            return
        self._file = self._follow(self._path, self._file)
        data = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        durable_files.append_to(self._file, data, self._synced)

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()
        self._file = None


class Journal:
    """The record of a match in progress: its games, its events, and log messages.

    A server that is killed or loses power loses only the running game, and in the latter case the
    last events. A game that cannot be written ends the match; an event that cannot be written only
    ends the file of events. Nothing is written before `open`.

    Args:
        log: file of the games; None: they are not written.
        events: file of the events; None: they are not written.

    Raises:
        NotADirectoryError: a file has no folder.
        IsADirectoryError: a file is a folder.

    Attributes:
        metrics: counts of what happened, also of events that were not written.
    """

    def __init__(self, log: Path | None, events: Path | None) -> None:
        self.metrics = Metrics()
        self._paths = log, events
        for path in self._paths:
            if path and not path.parent.is_dir():
                raise NotADirectoryError(f"{path.parent} is not a folder, so {path} has no place")
            if path and path.is_dir():
                raise IsADirectoryError(f"{path} is a folder, and not a file")
        self._log = self._events = Lines(None)
        self._last_progress = time.monotonic()
        self._visits: Counter[str] = Counter()
        self._first_visit = time.monotonic()

    def open(self) -> None:
        """Open the files, to append to them.

        Raises:
            OSError: a file cannot be written.
        """
        log, events = self._paths
        self._log, self._events = Lines(log, synced=True), Lines(events)

    def event(self, kind: str, text: str, level: int = logging.INFO, **facts: Any) -> None:
        """Log an event: a sentence for people, facts for programs."""
        LOGGER.log(level, "%s", text)
        seconds = round(time.time(), 3)
        try:
            self._events.append({"time": seconds, "event": kind, "text": text} | facts)
        except OSError as error:
            LOGGER.warning("events are no longer written: %s", error)
            self._events.close()

    def visit(self, kind: str, text: str, level: int = logging.INFO, **facts: Any) -> None:
        """Log an event that anyone can cause, unless there were too many of its kind lately."""
        now = time.monotonic()
        if now - self._first_visit > VISITS_SECONDS:
            self._visits, self._first_visit = Counter(), now
        self._visits[kind] += 1
        if self._visits[kind] <= MAX_VISITS:
            self.event(kind, text, level, **facts)

    def report_metrics(self) -> None:
        """Log the metrics as an event."""
        facts = self.metrics.facts()
        refused = sum(facts["refused"].values())
        text = f"{facts['accepted']:,} clients accepted, {refused:,} connections refused"
        self.event("metrics", text, logging.DEBUG, **facts)

    def game(self, game: Entry, points: list[int]) -> None:
        """Log a finished game.

        Raises:
            OSError: the game cannot be written.
        """
        self._log.append(game)
        self.metrics.games += 1
        illegal = [0] * N_PLAYERS
        for action in game["actions"]:
            illegal[action["p"]] += action["ack"] != ACCEPTED and action["m"] != "pass"
        facts: dict[str, Any] = {"game": game["game"], "finish": game["finish"], "points": points}
        text = f"game {game['game']} is over, points {points}"
        self.event("game", text, self._level(), **facts, illegal=illegal)

    def _level(self) -> int:
        """Return the log level of the next result: INFO at most once per `PROGRESS_SECONDS`."""
        if time.monotonic() - self._last_progress < PROGRESS_SECONDS:
            return logging.DEBUG
        self._last_progress = time.monotonic()
        return logging.INFO

    def close(self) -> None:
        """Close the files."""
        self._log.close()
        self._events.close()
