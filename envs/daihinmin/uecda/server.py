"""A server of the competition's protocol 20070: a match of five clients, or of players of our own.

    python -m afterstate.envs.daihinmin.uecda.server --games 100 --log games.jsonl --seats random

Whatever a client does, the match goes on: who is refused or dropped, and why, is logged, and the
seat of a client that is dropped passes. Nothing tells a late answer from the next one, so that a
client which does not answer in time is dropped for good.

Own players have the lowest numbers, clients the next ones in the order of their profiles.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from afterstate.envs.daihinmin import players, recording
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.plays import LONE_JOKER, Cell
from afterstate.envs.daihinmin.rules import ACCEPTED, N_PLAYERS, submit
from afterstate.envs.daihinmin.uecda import tables
from afterstate.envs.daihinmin.uecda.seats import (
    MAX_EARLY,
    ClientSeat,
    Gone,
    OwnSeat,
    Seat,
    read_table,
)
from afterstate.envs.words import draw_word

LOGGER = logging.getLogger(__name__)
MAX_GREETINGS = 32
"""Connections that may be without a seat at the same time."""
GOODBYE_SECONDS = 2.0
"""How long clients may read what is left when the match is over."""
PROGRESS_SECONDS = 10.0
"""Between two lines about the games played."""


class Settings(NamedTuple):
    """What a match is played with."""

    host: str = "127.0.0.1"
    port: int = tables.PORT
    """0: any that is free."""
    games: int = 100
    seed: int | None = None
    """Of deals, seats and drawn places; None: drawn."""
    own: tuple[tuple[str, players.Player], ...] = ()
    """Names and players that fill seats in the server's process."""
    match: str = ""
    """The name of the match in the log; by default the time of its start."""
    log: Path | None = None
    """Finished games are appended, a line each, in the recorded format."""
    events: Path | None = None
    """What happens is appended, a JSON object a line."""
    handshake_seconds: float = 5.0
    """Within which a client must send its profile."""
    reply_seconds: float = 10.0
    """Within which a client must answer."""
    wait_seconds: float = 0.0
    """Within which the seats must be filled; 0: for ever."""


class Standing(NamedTuple):
    """One player's part in a match."""

    name: str
    points: int


class Journal:
    """What is written of a match as it goes: games, events, and lines for people.

    Every line is written at once and in one piece: who kills the server loses the running game.
    """

    def __init__(self, log: Path | None, events: Path | None) -> None:
        self._log = open(log, "ab", buffering=0) if log else None
        self._events = open(events, "ab", buffering=0) if events else None
        self._told = time.monotonic()

    def event(self, kind: str, text: str, level: int = logging.INFO, **facts: Any) -> None:
        """Something happened: a sentence for people, facts for programs."""
        LOGGER.log(level, "%s", text)
        seconds = round(time.time(), 3)
        _write(self._events, {"time": seconds, "event": kind, "text": text} | facts)

    def game(self, game: recording.Entry, points: list[int]) -> None:
        """A game is over."""
        _write(self._log, game)
        refused = [0] * N_PLAYERS
        for action in game["actions"]:
            refused[action["p"]] += action["ack"] != ACCEPTED and action["m"] != "pass"
        is_due = time.monotonic() - self._told > PROGRESS_SECONDS
        self._told = time.monotonic() if is_due else self._told
        text = f"game {game['game']} is over, points {points}"
        facts = {"game": game["game"], "finish": game["finish"], "points": points}
        self.event("game", text, logging.INFO if is_due else logging.DEBUG, **facts, illegal=refused)

    def close(self) -> None:
        """Closes the files."""
        for file in (self._log, self._events):
            if file:
                file.close()


def _write(file: BinaryIO | Any, entry: recording.Entry) -> None:
    """Appends a line to a file, if there is one."""
    if file:
        file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
