"""Signals that are delayed until the end of a block, or end a program in order."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def delayed(number: int) -> Iterator[None]:
    """Hold a signal that arrives in the block back until the block ends.

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


@contextlib.contextmanager
def blocked(number: int) -> Iterator[None]:
    """Block a signal in this thread until the end of the block, and in processes that it starts.

    They receive it when they unblock it, if they do; where threads have no signals of their own,
    as on Windows, this does nothing.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # multiprocessing unblocks signals when it starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def sigterm_raises(exception: BaseException) -> Iterator[None]:
    """Let SIGTERM raise an exception in the block, so that `finally` clauses can save results."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return

    def leave(number: int, frame: Any) -> None:
        raise exception

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the end of the block.

    Otherwise they may raise an exception at any moment, for example after a learner has updated
    half of its weights but before it counts the move, and the learner would be saved like that.
    Only the main thread receives signals: in other threads this does nothing.
    """
    with delayed(signal.SIGINT), delayed(signal.SIGTERM):
        yield
