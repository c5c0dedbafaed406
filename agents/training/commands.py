"""What the commands have in common: numbers above 0, a bar, tables, signals."""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any


def progress_bar() -> Any:
    """The bar of tqdm, which comes with an extra.

    Raises:
        SystemExit: tqdm is not installed.
    """
    try:
        from tqdm import tqdm
    except ImportError as error:
        message = 'the progress bar needs tqdm: pip install "afterstate[train]"'
        raise SystemExit(message) from error
    return tqdm


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def above_0(text: str) -> float:
    """A finite number above 0, of the command line.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"it is a number above 0, not {text!r}")
    return number


def whole_above_0(text: str) -> int:
    """A whole number from 1 on, of the command line, which may be written as 1e9.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    number = above_0(text)
    if number != int(number) or number >= 2**63:
        raise argparse.ArgumentTypeError(f"it is whole and below 2**63, not {text!r}")
    return int(number)


@contextlib.contextmanager
def sigterm_raises(exception: BaseException) -> Iterator[None]:
    """Lets SIGTERM end the program as an exception, so that what must be saved is saved."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can take signals
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
    """Puts Ctrl-C and SIGTERM off until the block has ended, however often they come.

    Where they raise exceptions they may do so at any moment, also between two weights of a step; a
    learner that is saved then has half a step, or has learned what it does not know of. Only the
    main thread takes signals: in others this does nothing.
    """
    with _put_off(signal.SIGINT), _put_off(signal.SIGTERM):
        yield


@contextlib.contextmanager
def _put_off(number: signal.Signals) -> Iterator[None]:
    """Raises a signal that comes in the block again after it."""
    before = signal.getsignal(number)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield  # it is not ours to take
        return
    came: list[int] = []
    try:
        signal.signal(number, lambda which, frame: came.append(which))
        yield
    finally:
        signal.signal(number, before)
        if came:
            signal.raise_signal(number)
