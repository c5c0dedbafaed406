"""Imported by the server of forks: loads the default players, which all its processes share."""

import os
import signal
from typing import Any

from afterstate.web.thinking import workers

LOADS = "AFTERSTATE_WEB_PRELOAD"
"""Variable of the environment that is set in the server of forks."""


def load() -> None:
    """Load the players; end if the process that wants them ends before."""
    parent = os.getppid()

    def look(*_: Any) -> None:
        if os.getppid() != parent:
            os._exit(0)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        workers.warm_up()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if LOADS in os.environ:
    load()
