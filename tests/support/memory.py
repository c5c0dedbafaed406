"""The memory of a process, and a bound of the memory that a block of a test may take."""

from __future__ import annotations

import contextlib
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def at_most(n_bytes: int) -> Iterator[None]:
    """Assert that Python and numpy allocate no more than this at a time in the block."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= n_bytes, f"{peak:,} bytes"


def resident(process: int) -> int:
    """Return the bytes that a process has in memory.

    Raises:
        OSError: there is no such process, or no `/proc`.
    """
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
