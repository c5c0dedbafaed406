"""The settings of a server, and defaults that it shares with clients; imports no rules."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from afterstate.envs.messages import is_text, shown
from afterstate.envs.options import Address, File, Name

N_SEATS = 5
"""Number of players of a match."""
PORT = 42485
"""Default port of the competition."""
SILENCE_SECONDS = 3600.0
"""Time limit for each message of a server; a server is silent while players are missing."""
MATCH_SECONDS_PER_GAME = 30.0
"""Default limit of a client's time for a match, in seconds per game."""


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server and of its matches."""

    host: Address = "127.0.0.1"
    """Address to listen on; the default is reachable from this machine only, 0.0.0.0 from all
    networks."""
    port: int = PORT
    """Port to listen on; 0: any free port."""
    matches: int = 1
    """Number of matches, one after the other; 0: until interrupted."""
    games: int = 100
    """Number of games of a match."""
    seed: int | None = None
    """Seed of deals, seats, drawn places and built-in random players; by default random. Each
    further match has the next number."""
    match: Name | None = None
    """Name of the match in the log; by default the time of its start with a random number. Give
    each match of a log a name of its own. Further matches have their number appended."""
    log: File | None = None
    """File to which finished games are appended, in the format of recorded games."""
    events: File | None = None
    """File to which events (connections, drops, results, metrics) are appended, as JSON lines."""
    handshake_seconds: float = 5.0
    """Time limit for a client to send its profile, in seconds."""
    reply_seconds: float = 10.0
    """Time limit for each answer of a client, in seconds; a late client is dropped."""
    game_seconds: float = 120.0
    """Time limit for all answers of a client in a game, in seconds."""
    match_seconds: float | None = None
    """Time limit for all answers of a client in a match, in seconds; by default 30 per game."""
    wait_seconds: float = 0.0
    """Time limit for all seats to be filled, in seconds; 0: none."""
    connections: int = 512
    """Maximum number of connections that have no seat yet."""
    connections_per_address: int = 32
    """Maximum number of connections of one address that have not sent their profile yet; further
    ones take the places of its oldest."""
    seats_per_address: int = N_SEATS
    """Maximum number of clients of one address in a match."""
    sharing_seconds: float = 0.5
    """Time in seconds that an address waits for another seat of a match. It waits for its first
    seat, too, if it opens more than 30 connections in a quarter of a second, and five seconds if it
    opens more than 150."""

    def client_match_seconds(self) -> float:
        """Return the time limit for all answers of a client in a match."""
        if self.match_seconds is None:
            return MATCH_SECONDS_PER_GAME * self.games
        return self.match_seconds


MAX_MATCH_NAME = 200
"""Characters of the name of a match."""

_RANGES = (
    ("matches", 0, 1e9),
    ("games", 1, 1e6),
    ("connections", 1, 1e5),
    ("connections_per_address", 1, 1e5),
    ("seats_per_address", 1, 1e5),
    ("wait_seconds", 0, 1e6),
    ("sharing_seconds", 0, 1e6),
    ("handshake_seconds", 1e-3, 1e6),
    ("reply_seconds", 1e-3, 1e6),
    ("game_seconds", 1e-3, 1e6),
    ("match_seconds", 1e-3, 1e9),
)
"""The least and the largest value of settings."""


def _is_same(file: Path | None, other: Path | None) -> bool:
    """Return True if two files are given and are the same one, also by links."""
    if file is None or other is None:
        return False
    if file.exists() and other.exists():
        return file.samefile(other)
    return os.path.realpath(file) == os.path.realpath(other)


def check(settings: ServerSettings, n_built_in: int) -> None:
    """Raise ValueError for settings that no match can be played with.

    Args:
        settings: the settings.
        n_built_in: number of built-in players.
    """
    if not settings.host:
        raise ValueError("host must be an address, got ''")
    if not 0 <= settings.port < 2**16:
        raise ValueError(f"port must be in 0..65535, got {shown(settings.port)}")
    if n_built_in > N_SEATS:
        raise ValueError(f"seats must be at most {N_SEATS}, got {n_built_in}")
    if settings.seed is not None and not 0 <= settings.seed < 2**64:
        raise ValueError(f"seed must be in 0..2**64 - 1, got {shown(settings.seed)}")
    if _is_same(settings.log, settings.events):
        raise ValueError(f"events must be another file than log, got {settings.events}")
    if settings.match is not None and not 0 < len(settings.match) <= MAX_MATCH_NAME:
        raise ValueError(
            f"match must have 1 to {MAX_MATCH_NAME} characters, got {len(settings.match)}"
        )
    if not is_text(settings.match or ""):
        raise ValueError(f"match must be text that UTF-8 can encode, got {shown(settings.match)}")
    for name, least, most in _RANGES:
        value = getattr(settings, name)
        if value is not None and not least <= value <= most:
            raise ValueError(f"{name} must be in {least:g}..{most:,.0f}, got {shown(value)}")
