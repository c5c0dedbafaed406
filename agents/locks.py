"""A lock that can be copied and pickled with the player that has it."""

from __future__ import annotations

import threading
from typing import Any


class Lock:
    """A lock for the working memory of a player; a copy of the player has one of its own.

    >>> with Lock():
    ...     print("nobody else is here")
    nobody else is here
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return Lock, ()
