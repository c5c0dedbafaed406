"""Parts that commands share: a line on memory, tables in Markdown, and signals."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from afterstate.envs.signals import delayed


def memory() -> str:
    """Return the memory of this process and its share in huge pages, where the system tells it.

    Tables of some hundred MiB are read faster in huge pages, which numpy asks the system for.
    """
    file = Path("/proc/self/smaps_rollup")
    lines = file.read_text().splitlines() if file.exists() else []
    kib = {line.split(":")[0]: line.split()[1] for line in lines[1:]}
    if not {"Rss", "AnonHugePages"} <= kib.keys():
        return "memory: unknown on this system"
    total, huge = (int(kib[name]) / 1024 for name in ("Rss", "AnonHugePages"))
    return f"memory: {total:,.0f} MiB, {huge:,.0f} MiB of it in huge pages"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, with the first column left-aligned and the others right."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a table for a terminal, with the first columns left-aligned and the others right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def cell(i: int, text: str) -> str:
        return text.ljust(widths[i]) if i < left else text.rjust(widths[i])

    lines = [head, ["-" * len(name) for name in head], *rows]
    return "\n".join("  ".join(map(cell, range(len(head)), line)).rstrip() for line in lines)


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
