"""Messages about slow compilation of kernels, which signals do not interrupt.

A line on the standard error stream says so when kernels are compiled for more than a second. They
are compiled on their first call and kept in a cache on disk, so that a first start takes
longer than later ones. The line is a warning of the logger `afterstate.envs.compiling`; with the
environment variable `AFTERSTATE_QUIET=1` it is not written.

Ctrl-C, SIGTERM and timers whose handlers are in Python take effect when a kernel is compiled, or
loaded from the cache: an exception in the middle of it would leave kernels that cannot be called,
or end the process.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack
from typing import Any

from numba.core import event as events

from afterstate.envs.signals import delayed

LOGGER = logging.getLogger(__name__)

GROUPS = {
    "afterstate.envs.game2048.rules": ("the rules of 2048", 4),
    "afterstate.envs.game2048": ("games of 2048", 7),
    "afterstate.envs.daihinmin": ("the rules of Daihinmin", 20),
    "afterstate.agents.game2048.learning": ("learning of 2048", 30),
    "afterstate.agents.game2048.search.expectimax": ("expectimax search", 25),
    "afterstate.agents.game2048.search.softmax": ("Monte-Carlo Softmax search", 20),
    "afterstate.agents.game2048": ("players of 2048", 10),
    "afterstate.agents.daihinmin.afterstates": ("endgames of Daihinmin", 10),
    "afterstate.agents.daihinmin.learning": ("learning of Daihinmin", 10),
    "afterstate.agents.daihinmin.rule_based": ("rule-based players of Daihinmin", 10),
    "afterstate.agents.daihinmin.search": ("the search of Daihinmin", 10),
    "afterstate.agents.daihinmin": ("policies and networks of Daihinmin", 10),
}
"""The purpose of the kernels of each package, and about how many seconds they are compiled.

A module is in the first group that its name begins with.
"""

SECONDS = 1.0
"""Time after which the line is written."""
SIGNALS = tuple(
    number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGALRM")
)
"""Signals that wait."""


class _Listener(events.Listener):
    """Measures how long the kernels of each group are compiled."""

    def __init__(self, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._seconds = dict.fromkeys(GROUPS, 0.0)
        self._announced = set[str]()
        self._group: str | None = None
        self._depth, self._start = 0, 0.0

    def on_start(self, event: Any) -> None:
        """Begin to measure, or look at the time; kernels that others call are compiled within."""
        if self._depth == 0:
            self._group = _group(event.data["dispatcher"].py_func.__module__)
            self._start = time.monotonic()
        self._depth += 1
        self._look(time.monotonic() - self._start)

    def on_end(self, event: Any) -> None:
        """Add the time of the outermost kernel."""
        self._depth -= 1
        if self._depth == 0:
            if self._group is not None:
                self._seconds[self._group] += time.monotonic() - self._start

    def _look(self, running: float) -> None:
        """Write the line of the group once it has taken long."""
        group = self._group
        if group is None or self._is_quiet or group in self._announced:
            return
        if self._seconds[group] + running < SECONDS:
            return
        self._announced.add(group)
        what, seconds = GROUPS[group]
        from tqdm import tqdm

        with tqdm.external_write_mode(sys.stderr):  # progress bars give way
            LOGGER.warning("compiling %s: about %d seconds, the first time only", what, seconds)


class _Delay(events.Listener):
    """Delays signals with handlers in Python while the main thread holds the compiler's lock."""

    def __init__(self) -> None:
        self._depth = 0
        self._signals = ExitStack()

    def on_start(self, event: Any) -> None:
        """Delay the signals at the outermost lock."""
        if threading.current_thread() is not threading.main_thread():
            return
        if self._depth == 0:
            for number in SIGNALS:
                if callable(signal.getsignal(number)):
                    self._signals.enter_context(delayed(number))
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Raise the signals that came, after the outermost lock."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        if self._depth == 0:
            self._signals.close()


def _group(module: str) -> str | None:
    """Return the group of a module, None if it is not of this package."""
    return next((group for group in GROUPS if module.startswith(group)), None)


events.register("numba:compile", _Listener(os.environ.get("AFTERSTATE_QUIET", "") not in ("", "0")))
events.register("numba:compiler_lock", _Delay())  # also when a kernel is loaded from the cache
