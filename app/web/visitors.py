"""The games of visitors, kept in files, so that a reload or a restart of the server keeps them.

A visitor is known by a cookie of 256 random bits. Its file is named by a hash of the cookie, so
that the files do not tell the cookies.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import secrets
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel

from afterstate.agents.training.folder import FolderLock
from afterstate.envs import durable_files
from afterstate.web.answers import Refusal
from afterstate.web.game_2048 import Game as Game2048
from afterstate.web.game_daihinmin import Match
from afterstate.web.settings import Limits

LOGGER = logging.getLogger(__name__)


class Games(BaseModel):
    """The record of a visitor."""

    game_2048: Game2048 | None = None
    match: Match | None = None

    def restore(self, before: Games) -> None:
        """Take over the games of an earlier record that differ; a game that does not stays here."""
        now, then = self.model_dump(), before.model_dump()
        for name in then:
            if now[name] != then[name]:
                setattr(self, name, getattr(before, name))


_NO_GAMES = Games().model_dump_json().encode()


class Visitor:
    """A visitor, and what is kept of it.

    Args:
        key: the name of its file.
        games: its games.
        address: address from which it came; empty if that was before the server's start.

    Attributes:
        saved: the games as they are in its file.
    """

    def __init__(self, key: str, games: Games, address: str = "") -> None:
        self.key, self.games, self.address = key, games, address
        self.saved = games.model_dump_json().encode()

    @property
    def game(self) -> Game2048:
        """The game of 2048.

        Raises:
            Refusal: there is none.
        """
        if self.games.game_2048 is None:
            raise Refusal(404, "there is no game of 2048: start one, with cookies allowed")
        return self.games.game_2048

    @property
    def match(self) -> Match:
        """The match of Daihinmin.

        Raises:
            Refusal: there is none.
        """
        if self.games.match is None:
            raise Refusal(404, "there is no match of Daihinmin: start one, with cookies allowed")
        return self.games.match


class Visitors:
    """All visitors.

    Args:
        folder: folder of their files; it is made if it is missing.
        limits: the number of visitors, and the size of their files.

    Raises:
        OSError: the folder cannot be made.
        ValueError: another server has the folder.
    """

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder, self._limits = folder, limits
        self._by_key: dict[str, Visitor] = {}  # least recently seen first
        self._by_address: defaultdict[str, dict[str, Visitor]] = defaultdict(dict)  # likewise
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "must be a folder, got a file", str(folder))
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        message = f"the page runs already on {folder}: choose another folder with --folder"
        self._held = FolderLock(folder, message)
        durable_files.remove_unfinished(folder.glob("*.part"))
        for _, visitor in sorted(self._files(), key=lambda each: each[0]):
            self._add(visitor)
        self._forget(limits.visitors, self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Visitor]:
        return iter(self._by_key.values())

    def __contains__(self, visitor: Visitor) -> bool:
        return self._by_key.get(visitor.key) is visitor

    def find(self, cookie: str | None, address: str | None = None) -> Visitor | None:
        """Return the visitor of a cookie, if there is one, who now comes from an address."""
        visitor = self._by_key.get(_key(cookie)) if cookie else None
        if visitor is not None:
            self._remove(visitor)
            visitor.address = visitor.address if address is None else address
            self._add(visitor)
        return visitor

    def new(self, address: str) -> tuple[str, Visitor]:
        """Return a new cookie and its visitor, who comes from an address.

        The least recently seen are dropped for it: of the address, if it has too many, else of all.
        """
        n, n_of_address = self._limits.visitors, self._limits.visitors_of_address
        self._forget(min(n_of_address, (n + 1) // 2) - 1, self._by_address[address])
        self._forget(n - 1, self._by_key)
        cookie = secrets.token_urlsafe(32)
        visitor = Visitor(_key(cookie), Games(), address)
        self._add(visitor)
        return cookie, visitor

    def _add(self, visitor: Visitor) -> None:
        """Add a visitor as the one of the last visit."""
        self._by_key[visitor.key] = visitor
        self._by_address[visitor.address][visitor.key] = visitor

    def _remove(self, visitor: Visitor) -> None:
        """Remove a visitor."""
        del self._by_key[visitor.key]
        same = self._by_address[visitor.address]
        del same[visitor.key]
        if not same:
            del self._by_address[visitor.address]

    @contextlib.contextmanager
    def changing(self, visitor: Visitor) -> Iterator[Games]:
        """Change the games of a visitor, and write them to its file.

        If the change or the writing fails, the games stay as they were.

        Raises:
            Refusal: see `_save`.
        """
        try:
            yield visitor.games
            self._save(visitor)
        except BaseException:
            visitor.games.restore(Games.model_validate_json(visitor.saved))
            raise

    def _save(self, visitor: Visitor) -> None:
        """Write the games of a visitor to its file; a kill of the server does not lose them.

        Raises:
            Refusal: they are too large, or cannot be written, or the visitor is forgotten.
        """
        if visitor not in self:
            raise Refusal(503, "there are too many visitors: start again")
        data = visitor.games.model_dump_json().encode()
        if len(data) > self._limits.file:
            raise Refusal(413, f"games must have at most {self._limits.file:,} bytes")
        path = self._path(visitor.key)
        try:  # not synced, which would take longer than the move
            self._held.check()
            durable_files.write(path, data, synced=False)
        except OSError as error:
            LOGGER.error("%s cannot be written: %s", path, error)
            why = "the server's disk may be full, or its folder was changed"
            raise Refusal(507, f"the game cannot be saved: {why}") from error
        visitor.saved = data

    def _path(self, key: str) -> Path:
        """Return the file of a visitor."""
        return self._folder / f"{key}.json"

    def _files(self) -> Iterator[tuple[float, Visitor]]:
        """Yield the visitors who have files, with the times of these; report damaged files."""
        for path in self._folder.glob("*.json"):
            try:
                yield self._read(path)
            except (OSError, ValueError) as error:
                LOGGER.warning("%s is left out: %.200s", path, error)

    def _read(self, path: Path) -> tuple[float, Visitor]:
        """Return the time of a visitor's file, and the visitor.

        Raises:
            OSError: it cannot be read.
            ValueError: it is damaged or too large.
        """
        with durable_files.open_to_read(path) as file:
            about = os.fstat(file.fileno())
            if about.st_size > self._limits.file:
                raise ValueError("it is too large")
            return about.st_mtime, Visitor(path.stem, Games.model_validate_json(file.read()))

    def _forget(self, n_left: int, visitors: Mapping[str, Visitor]) -> None:
        """Drop the least recently seen until this many are left, those without a game first."""
        if len(visitors) <= n_left:
            return
        ranked = sorted(visitors.values(), key=lambda each: each.saved != _NO_GAMES)
        for visitor in ranked[: len(ranked) - n_left]:
            self._remove(visitor)
            with contextlib.suppress(FileNotFoundError):
                self._path(visitor.key).unlink()


def _key(cookie: str) -> str:
    """Return the name of a cookie's file."""
    return hashlib.sha256(cookie.encode()).hexdigest()
