"""The memory, open files and threads of a process, and their growth over its life."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.support.memory import resident


class Usage(NamedTuple):
    """Resources of a process, or their growth, or a limit of it."""

    memory: float
    """Resident bytes."""
    files: float
    """Open file descriptors."""
    threads: float


def usage(process: int) -> Usage | None:
    """Return the resources of a process; None if it has ended or there is no `/proc`."""
    folder = Path(f"/proc/{process}")
    try:
        n_files, n_threads = (sum(1 for _ in (folder / of).iterdir()) for of in ("fd", "task"))
        memory = resident(process)
    except OSError:
        return None
    return Usage(memory, n_files, n_threads) if memory else None


def growth(usages: Sequence[Usage]) -> Usage:
    """Return the medians of the last third of a life less those of its middle third.

    In the first third a program may still compile and fill its caches.

    >>> growth([Usage(1, 3, 1)] * 2 + [Usage(10, 3, 1)] * 2 + [Usage(99, 9, 1), Usage(12, 3, 2)])
    Usage(memory=45.5, files=3.0, threads=0.5)
    """
    n = max(1, len(usages) // 3)
    middle, last = zip(*usages[-2 * n : -n], strict=True), zip(*usages[-n:], strict=True)
    changes = [median(new) - median(old) for old, new in zip(middle, last, strict=True)]
    return Usage(*changes)


def excess(grown: Usage, limit: Usage) -> str:
    """Return the resources that grew by more than a limit, as a text; empty if none did.

    >>> excess(Usage(5e6, 0, 3), Usage(4e6, 1, 5))
    'memory by 5,000,000 (limit 4,000,000)'
    """
    rows = zip(Usage._fields, grown, limit, strict=True)
    parts = [f"{name} by {by:,.0f} (limit {most:,.0f})" for name, by, most in rows if by > most]
    return ", ".join(parts)
