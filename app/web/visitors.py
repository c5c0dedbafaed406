"""The games of visitors, kept in files, so that a reload or a restart of the server keeps them.

A visitor is known by a cookie of 256 random bits. Its file is named by a hash of the cookie, so
that the files do not tell the cookies.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import secrets
import time
from pathlib import Path

from pydantic import BaseModel, ValidationError

from afterstate.web.game_2048 import Game as Game2048
from afterstate.web.game_daihinmin import Match
from afterstate.web.settings import Limits
from afterstate.web.thinking.pool import Refusal

LOGGER = logging.getLogger(__name__)

DAY = 86_400.0


class Games(BaseModel):
    """The record of a visitor."""

    game_2048: Game2048 | None = None
    match: Match | None = None


class Visitor:
    """A visitor, and what is kept of it."""

    def __init__(self, key: str, games: Games) -> None:
        self.key, self.games = key, games
        self.seen = time.time()

    @property
    def game(self) -> Game2048:
        """The game of 2048.

        Raises:
            Refusal: there is none.
        """
        if self.games.game_2048 is None:
            raise Refusal(404, "there is no game of 2048: start one")
        return self.games.game_2048

    @property
    def match(self) -> Match:
        """The match of Daihinmin.

        Raises:
            Refusal: there is none.
        """
        if self.games.match is None:
            raise Refusal(404, "there is no match of Daihinmin: start one")
        return self.games.match


class Visitors:
    """All visitors.

    Args:
        folder: of their files; it is made if it is missing.
        limits: the number of visitors, and the age and size of their files.
    """

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder, self._limits = folder, limits
        self._by_key: dict[str, Visitor] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in sorted(folder.glob("*.json"), key=lambda each: each.stat().st_mtime):
            self._load(path)
        self._forget()

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, cookie: str | None) -> Visitor | None:
        """Return the visitor of a cookie, if there is one."""
        visitor = self._by_key.get(_key(cookie)) if cookie else None
        if visitor is not None:
            visitor.seen = time.time()
        return visitor

    def new(self) -> tuple[str, Visitor]:
        """Return a new cookie and its visitor."""
        cookie = secrets.token_urlsafe(32)
        visitor = Visitor(_key(cookie), Games())
        self._by_key[visitor.key] = visitor
        self._forget()
        return cookie, visitor

    def save(self, visitor: Visitor) -> None:
        """Write the games of a visitor to its file; a kill of the server does not lose them.

        Raises:
            Refusal: they are too large, or cannot be written.
        """
        data = visitor.games.model_dump_json().encode()
        if len(data) > self._limits.file:
            raise Refusal(413, f"games must have at most {self._limits.file:,} bytes")
        path = self._path(visitor.key)
        temporary = path.with_suffix(".new")
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        except OSError as error:
            LOGGER.error("%s cannot be written: %s", path, error)
            raise Refusal(507, "the game cannot be saved: the server's disk may be full") from error

    def _path(self, key: str) -> Path:
        """Return the file of a visitor."""
        return self._folder / f"{key}.json"

    def _load(self, path: Path) -> None:
        """Read the file of a visitor; a damaged one is reported and left out."""
        if time.time() - path.stat().st_mtime > self._limits.days * DAY:
            path.unlink()
            return
        try:
            if path.stat().st_size > self._limits.file:
                raise ValueError("it is too large")
            visitor = Visitor(path.stem, Games.model_validate_json(path.read_bytes()))
        except (OSError, ValidationError, ValueError) as error:
            LOGGER.warning("%s is left out: %.200s", path, error)
            return
        visitor.seen = path.stat().st_mtime
        self._by_key[visitor.key] = visitor

    def _forget(self) -> None:
        """Forget the visitors longest away that are too many, those without a game first."""
        n = len(self._by_key) - self._limits.visitors
        if n <= 0:
            return
        ranked = sorted(self._by_key.values(), key=lambda each: (each.games != Games(), each.seen))
        for visitor in ranked[:n]:
            del self._by_key[visitor.key]
            with contextlib.suppress(FileNotFoundError):
                self._path(visitor.key).unlink()


def _key(cookie: str) -> str:
    """Return the name of a cookie's file."""
    return hashlib.sha256(cookie.encode()).hexdigest()
