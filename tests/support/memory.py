"""A bound of the memory that a block of a test may take."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Iterator


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
