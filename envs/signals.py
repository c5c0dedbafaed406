"""Signals that wait until the end of a block."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def delayed(number: int) -> Iterator[None]:
    """Raise a signal that arrives in the block after the block.

    Only the main thread receives signals: in other threads this does nothing.
    """
    before = signal.getsignal(number)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield  # the handler was not set by Python, or this thread receives no signals
        return
    received: list[int] = []
    try:
        signal.signal(number, lambda which, frame: received.append(which))
        yield
    finally:
        signal.signal(number, before)
        if received:
            signal.raise_signal(number)
