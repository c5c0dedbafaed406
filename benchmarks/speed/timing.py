"""Timing subjects in turn, so that a change in the machine's speed meets them alike."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata, util
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeAlias

from benchmarks.machine import machine

Steps: TypeAlias = Callable[[int], int]
"""Continue from the last call for about n steps; return the number of steps made."""


class Subject(NamedTuple):
    """A subject to time: `start` loads it. The first call of its steps may compile."""

    name: str
    start: Callable[[], Steps]
    unit: str = "steps/CPU s"


class Figure(NamedTuple):
    """One line of the table."""

    name: str
    unit: str
    values: list[float]


class Peer(NamedTuple):
    """Another program: `name` is its distribution, `module` the module it needs.

    `kind` is the subject of this package it is compared with, `game` its game if it has several.
    No program is imported before it is started, so any of them may be missing.
    """

    name: str
    kind: str
    start: Callable[[], Steps]
    module: str
    game: str = ""


def installed(peers: Sequence[Peer]) -> list[Peer]:
    """Return the peers whose modules are installed, without importing them."""
    return [peer for peer in peers if util.find_spec(peer.module)]


def full_name(peer: Peer) -> str:
    """Return a peer's name, version, game and kind."""
    game = f", {peer.game}" if peer.game else ""
    return f"{peer.name} {metadata.version(peer.name)}{game} ({peer.kind})"


def as_subjects(peers: Sequence[Peer]) -> list[Subject]:
    """Return the peers as subjects."""
    return [Subject(full_name(peer), peer.start) for peer in peers]


def in_turn(subjects: Sequence[Subject], rounds: int) -> list[Figure]:
    """Time the subjects in turn, each for about one CPU second per round.

    The first call of each is not counted.
    """
    running = [subject.start() for subject in subjects]
    sizes = []
    for steps in running:
        steps(1)
        start = time.process_time()
        done = steps(2_000)
        sizes.append(max(2_000, int(done / (time.process_time() - start + 1e-9))))
    values: list[list[float]] = [[] for _ in running]
    for _ in range(rounds):
        for i, steps in enumerate(running):
            start = time.process_time()
            done = steps(sizes[i])
            values[i].append(done / (time.process_time() - start))
    return [Figure(s.name, s.unit, rates) for s, rates in zip(subjects, values, strict=True)]


def ratios(
    figures: Sequence[Figure], ours: dict[str, str], peers: Sequence[Peer]
) -> dict[str, float]:
    """Return how many times faster our subject is than each peer: the median over the rounds.

    Args:
        figures: of subjects and peers, timed in the same rounds.
        ours: the name of our subject by kind.
        peers: the peers that were timed.
    """
    values = {figure.name: figure.values for figure in figures}
    result = {}
    for peer in peers:
        pairs = zip(values[ours[peer.kind]], values[full_name(peer)], strict=True)
        result[f"{ours[peer.kind]} : {full_name(peer)}"] = median(a / b for a, b in pairs)
    return result


def fresh_process(code: str, cache: str | None = None) -> float:
    """Return the seconds that code takes in a new Python process, optionally with its own cache."""
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    timed = f"import time; t = time.perf_counter()\n{code}\nprint(time.perf_counter() - t)"
    command = [sys.executable, "-c", timed]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(run.stdout)


def lines(figures: Sequence[Figure]) -> list[str]:
    """Return one line per figure: median, unit, range and number of values."""
    result = []
    for name, unit, values in figures:
        digits = 0 if "/" in unit else 2
        middle, low, high = (f"{v:,.{digits}f}" for v in (median(values), min(values), max(values)))
        spread = f"({low} to {high}, n = {len(values)})"
        result.append(f"{name:52}{middle:>14} {unit:12} {spread}")
    return result


def show(figures: Sequence[Figure], out: Path | None = None, **facts: Any) -> None:
    """Print the machine, further facts and the figures; write them to a file if one is given."""
    head = ", ".join(f"{name} {value}" for name, value in {**machine(), **facts}.items())
    text = "\n".join([head, *lines(figures)])
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")
