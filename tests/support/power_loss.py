"""A disk that loses power: what a folder may hold then, after what a block of code wrote to it.

A system keeps writes in memory until they are synced. When the power fails, a file that was written
since its last sync may have its old content, the new one, or a part of the new one with zeros for
the rest; names that were made, changed or removed since their folder's last sync may or may not
have been, each of them by itself. A folder that is lost takes all that is in it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

Names = dict[str, int | None]
"""Files by their paths below the folder, as numbers; None: no such file. The path of a folder ends
with a slash, and its number is `FOLDER`."""

FOLDER = -1


class Moment(NamedTuple):
    """Names and contents that are on the disk at one time, and those that may be."""

    names: Names
    """Names whose folders were synced."""
    changes: list[Names]
    """Later changes of names, each of which happens at once."""
    synced: dict[int, bytes]
    """Contents at the last sync, by number."""
    written: dict[int, bytes]
    """Contents that the program sees."""


class Disk:
    """The folder of a program, watched at every sync, renaming and removal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.moments: list[Moment] = []
        names, written = self._look()
        self._seen, self._names, self._changes = names, dict(names), list[Names]()
        self._synced = dict(written)

    def _look(self) -> tuple[Names, dict[int, bytes]]:
        """Return the names and contents that the program sees."""
        names: Names = {}
        contents = {}
        for path in sorted(self._folder.rglob("*")):
            name = str(path.relative_to(self._folder))
            if path.is_dir():
                names[f"{name}/"] = FOLDER
            elif path.is_file():
                names[name] = number = path.stat().st_ino
                contents[number] = path.read_bytes()
        return names, contents

    def watch(self) -> None:
        """Note what changed since the last call."""
        names, written = self._look()
        every = names.keys() | self._seen.keys()
        change = {n: names.get(n) for n in every if names.get(n) != self._seen.get(n)}
        if change:
            self._changes.append(change)
        self._seen = names
        for number in written.keys() - self._synced.keys():
            self._synced[number] = b""
        moment = Moment(dict(self._names), list(self._changes), dict(self._synced), written)
        if not self.moments or moment != self.moments[-1]:
            self.moments.append(moment)

    def sync(self, path: Path) -> None:
        """Note that a file or a folder was synced."""
        if path.is_dir():
            self._sync_names(path.relative_to(self._folder))
        else:
            self._synced[path.stat().st_ino] = path.read_bytes()
        self.watch()

    def _sync_names(self, folder: Path) -> None:
        """Note that the names in a folder were synced."""
        waiting = []
        for change in self._changes:
            here = {name for name in change if Path(name).parent == folder}
            self._names |= {name: change[name] for name in here}
            rest = {name: number for name, number in change.items() if name not in here}
            waiting += [rest] if rest else []
        self._changes = waiting

    def states(self, rng: random.Random, n: int) -> Iterator[dict[str, bytes]]:
        """Yield what the folder may hold after a power loss: `n` states of each moment."""
        for moment in self.moments:
            for i in range(n):
                yield _state(moment, rng, i)


def _state(moment: Moment, rng: random.Random, i: int) -> dict[str, bytes]:
    """Return one state: number 0 has nothing that was not synced, number 1 all of it."""
    names = dict(moment.names)
    for change in moment.changes:
        if i == 1 or (i > 1 and rng.random() < 0.5):
            names |= change
    state = {}
    for name, number in names.items():
        if number == FOLDER and not _is_lost(name, names):
            state[name] = b""
        elif number is not None and not _is_lost(name, names):
            old = moment.synced[number]
            new = moment.written.get(number, old)  # a removed file is no longer written
            state[name] = (old, new)[i] if i < 2 else _torn(old, new, rng)
    return state


def _is_lost(name: str, names: Names) -> bool:
    """Return True if one of the folders above a name is not there."""
    above = [f"{folder}/" for folder in Path(name).parents if folder != Path()]
    return any(names.get(folder) is None for folder in above)


def _torn(old: bytes, new: bytes, rng: random.Random) -> bytes:
    """Return a content between an old and a new one."""
    cut = rng.randint(min(len(old), len(new)), max(len(old), len(new)))
    start = old if new.startswith(old) else b""  # appended to, or written from the beginning
    kinds = (old, new, new[:cut], (start + bytes(len(new)))[: len(new)], _holes(start, new, rng))
    return rng.choice(kinds)


def _holes(start: bytes, new: bytes, rng: random.Random) -> bytes:
    """Return the new content with zeros in a part after its start."""
    a, b = sorted(rng.randint(len(start), len(new)) for _ in range(2))
    return new[:a] + bytes(b - a) + new[b:]


@contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """Watch a folder, which must exist; the last moment is that at the end of the block."""
    watched = Disk(folder)
    fsync = os.fsync
    with pytest.MonkeyPatch.context() as patch:

        def note_sync(file: int) -> None:
            watched.watch()
            fsync(file)
            path = Path(os.readlink(f"/proc/self/fd/{file}"))
            if path == folder or folder in path.parents:
                watched.sync(path)

        patch.setattr(os, "fsync", note_sync)
        for name in ("replace", "rename", "unlink", "remove", "rmdir"):
            patch.setattr(os, name, _noted(getattr(os, name), watched))
        yield watched
    watched.watch()


def _noted(function: Callable[..., Any], watched: Disk) -> Callable[..., Any]:
    """Return a function that notes what the folder holds before and after its call."""

    def noted(*args: Any, **kwargs: Any) -> Any:
        watched.watch()
        result = function(*args, **kwargs)
        watched.watch()
        return result

    return noted


def write_state(state: dict[str, bytes], folder: Path) -> None:
    """Write a state to a folder."""
    folder.mkdir(parents=True)
    for name, content in sorted(state.items()):
        if name.endswith("/"):
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)
