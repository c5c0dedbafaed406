"""The server of forks: it loads the default players, which all its processes share.

The page's own process imports this module, but not the players.
"""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

from afterstate.web.thinking.memory import limit_memory, without_compiler

MEMORY = 4 << 30
"""Address space of a process in bytes, with the loaded players that it shares."""
LOADS = "AFTERSTATE_WEB_PRELOAD"
"""Variable of the environment of the server of forks: the number of the page's process."""
COMPILING = "AFTERSTATE_WEB_COMPILING"
"""Variable of its environment: the file in which it says what it compiles."""


def load() -> None:
    """Load the players, without the memory of compiling their kernels."""
    with _telling(), without_compiler("AFTERSTATE_WEB_PLAYERS_COMPILED"):
        _load()


@contextmanager
def _telling() -> Iterator[None]:
    """Write the messages on compilation also to the file that the page's process reads."""
    logger = logging.getLogger("afterstate.envs.compiling")

    def tell(record: logging.LogRecord) -> bool:
        _write(record.getMessage())
        return True

    _write("")  # of an earlier start
    logger.addFilter(tell)
    try:
        yield
    finally:
        logger.removeFilter(tell)


def _write(text: str) -> None:
    """Replace the text of the file; one that is gone, as its process is, is not made again."""
    with suppress(OSError), open(os.environ.get(COMPILING, os.devnull), "r+") as file:
        file.truncate()
        file.write(text)


def _load() -> None:
    """Load the players; end if the process that wants them ends before."""
    parent = int(os.environ[LOADS])

    def look(*_: Any) -> None:
        if os.getppid() != parent:
            os._exit(0)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        from afterstate.web.thinking import workers

        workers.warm_up()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def think(connection: Connection) -> None:
    """Answer requests to players until the other end is closed."""
    limit_memory(MEMORY)
    from afterstate.web.thinking import workers

    workers.work(connection)


def learn(connection: Connection) -> None:
    """Answer requests to a learner until the other end is closed."""
    limit_memory(MEMORY)
    from afterstate.web.thinking import learning

    learning.work(connection)


if LOADS in os.environ:
    load()
