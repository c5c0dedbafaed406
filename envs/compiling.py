"""The compilation of kernels: their cache on disk, messages when it is slow, signals that wait.

Kernels are compiled on their first call and kept in the cache, so that a first start takes longer
than later ones. They are compiled again if their sources change. numba looks at a kernel's own file
alone. After an edit, or an upgrade of the package, a kernel from the cache would still have the old
code of those that it calls in other files. Here the names of its cached files have a hash of its
module and of all modules of the package that this one imports, directly or not. Files with another
hash are removed, since they will not be read again. This is so where the sources are files, and
unless NUMBA_CACHE_LOCATOR_CLASSES names other places.

A line on the standard error stream says so when kernels are compiled for more than a second. It is
a warning of the logger `afterstate.envs.compiling`; with the environment variable
`AFTERSTATE_QUIET=1` it is not written.

Ctrl-C, SIGTERM and timers whose handlers are in Python take effect when a kernel is compiled, or
loaded from the cache: an exception in the middle of it would leave kernels that cannot be called,
or end the process.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numba.core import caching
from numba.core import event as events

from afterstate.envs.signals import delayed

PACKAGE = __name__.partition(".")[0]
_IMPORT = re.compile(
    rf"^ *from ({PACKAGE}[\w.]*) import (\([^)]*\)|.*)|^ *import ({PACKAGE}[\w.]+)", re.M
)

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
    """Measures how long the kernels of each group are compiled, and all together."""

    def __init__(self, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._seconds = dict.fromkeys(GROUPS, 0.0)
        self._announced = set[str]()
        self._group: str | None = None
        self._depth, self._start = 0, 0.0
        # Seconds of kernels that are compiled, and the start of one that is not; read by threads.
        self._measured: tuple[float, float | None] = 0.0, None

    def seconds(self, now: float) -> float:
        """Return the time that all kernels were compiled until now."""
        total, start = self._measured
        return total if start is None else total + now - start

    def on_start(self, event: Any) -> None:
        """Begin to measure, or look at the time; kernels that others call are compiled within."""
        if self._depth == 0:
            self._group = _group(event.data["dispatcher"].py_func.__module__)
            self._start = time.monotonic()
            self._measured = self._measured[0], self._start
        self._depth += 1
        self._look(time.monotonic() - self._start)

    def on_end(self, event: Any) -> None:
        """Add the time of the outermost kernel."""
        self._depth -= 1
        if self._depth == 0:
            seconds = time.monotonic() - self._start
            self._measured = self._measured[0] + seconds, None
            if self._group is not None:
                self._seconds[self._group] += seconds

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


def clock() -> float:
    """Return the seconds of a monotonic clock that stands still while kernels are compiled."""
    now = time.monotonic()
    return now - _LISTENER.seconds(now)


@cache
def _folder(package: str) -> Path | None:
    """Return the folder of `afterstate.envs` or another part of the package."""
    spec = find_spec(package)
    places = None if spec is None else spec.submodule_search_locations
    return Path(next(iter(places))) if places else None


@cache
def _file(module: str) -> Path | None:
    """Return the file of a module of the package, None for a folder or another name."""
    _, *parts = module.split(".")
    folder = _folder(f"{PACKAGE}.{parts[0]}") if parts else None
    file = None if folder is None else folder.joinpath(*parts[1:]).with_suffix(".py")
    return file if file is not None and file.is_file() else None


@cache
def _imports(module: str) -> tuple[bytes, frozenset[str]]:
    """Return the source of a module, and the modules of the package that it imports."""
    file = _file(module)
    source = b"" if file is None else file.read_bytes()
    imported: set[str] = set()
    for parent, names, alone in _IMPORT.findall(source.decode()):
        imported |= {alone or parent, *(f"{parent}.{name}" for name in re.findall(r"\w+", names))}
    return source, frozenset(name for name in imported if _file(name) is not None)


@cache
def digest(module: str) -> str:
    """Return a hash of the sources of a module and of all that it imports of the package."""
    modules, left = set[str](), {module}
    while left:
        modules |= left
        left = {name for each in left for name in _imports(each)[1]} - modules
    total = hashlib.sha256()
    for name in sorted(modules):
        total.update(name.encode() + b"\0" + _imports(name)[0])
    return total.hexdigest()[:16]


@cache
def _remove_old(folder: Path, stem: str, of_now: str) -> None:
    """Remove the cached files of a module's kernels that have another hash of their sources."""
    for file in folder.glob(f"{stem}.*.nb[ci]"):
        if of_now not in file.name:
            with suppress(OSError):  # another process may have removed it
                file.unlink()


class KernelLocator:
    """Places of numba's cache for the kernels of this package, which numba asks for first."""

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Any:
        """Return the place that numba has for a kernel, with the hash in the names of files."""
        if (function.__module__ or "").partition(".")[0] != PACKAGE:
            return None
        places = (other.from_function(function, file) for other in _LOCATORS if other is not cls)
        place = next((place for place in places if place is not None), None)
        if place is not None:
            of_now = f".{digest(function.__module__)}."
            name = f"{place.get_disambiguator()}{of_now[:-1]}"
            place.get_disambiguator = lambda: name
            _remove_old(Path(place.get_cache_path()), Path(file).stem, of_now)
        return place


_IMPLEMENTATION: Any = getattr(caching, "CacheImpl", None) or getattr(caching, "_CacheImpl")  # noqa: B009
_LOCATORS: list[Any] = _IMPLEMENTATION._locator_classes
_LOCATORS.insert(0, KernelLocator)
_LISTENER = _Listener(os.environ.get("AFTERSTATE_QUIET", "") not in ("", "0"))
events.register("numba:compile", _LISTENER)
events.register("numba:compiler_lock", _Delay())  # also when a kernel is loaded from the cache
