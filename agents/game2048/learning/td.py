"""The learning rules of N-tuple networks: temporal differences and temporal coherence.

Each of the m table entries of an afterstate moves by the share `error / m` of its error, times

- TD: the fixed rate;
- TC: its own rate `|E| / A`, where E sums the shares of the entry and A their absolute values
  (temporal coherence, Beal and Smith 1999; Jaskowski 2016): 1 at first and while all errors have
  one sign, and less the more they cancel.

In the *printed form* of TC (Matsuzaki 2017) E and A sum the steps, that is the shares after their
rate. An entry whose steps cancel once never moves again. It is an option to repeat that paper.

The value of an afterstate is read again when it is updated, because the update before may have
changed it. A promoted weight keeps the rate that it learned in the stage before.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba import float32, int64, njit, void

from afterstate.agents.game2048.kernels import INLINED, KERNEL, prefetch
from afterstate.agents.game2048.values.ntuple import (
    FRACTION,
    NETWORK,
    Indices,
    Network,
    Value,
    Weights,
    look_up,
    network,
    source,
    total,
)
from afterstate.envs.words import Words

AHEAD = 4
"""Backward learning prefetches the entries of this many updates ahead."""
_RING = 8


class Update(NamedTuple):
    """The update rule, in the form that kernels take."""

    sums: Weights  # TC: E and A of each weight, interleaved; TD: empty
    rate: np.float32
    printed: bool  # E and A sum the steps instead of the shares
    lam: np.float32
    excluded: int  # 1: no update toward a random move; 2: none of a random move's afterstate


class Path(NamedTuple):
    """The moves of a game, in the order of play."""

    boards: Words  # before the move
    afters: Words  # after it, before chance
    rewards: Indices
    is_random: npt.NDArray[np.bool_]  # the move was exploratory
    indices: Indices  # workspace: the entries of four boards
    ring: Indices  # workspace: the entries of the next afterstates to update
    errors: Weights  # their errors so far, for delayed updates


def new_path(net: Network, n_moves: int, delay: int = 0) -> Path:
    """Return an empty path for a game of at most `n_moves` moves."""
    return Path(
        np.empty(n_moves, np.uint64),
        np.empty(n_moves, np.uint64),
        np.empty(n_moves, np.int64),
        np.zeros(n_moves, np.bool_),
        np.empty(4 * net.n_entries, np.int64),
        np.empty(max(_RING, delay + 1) * net.n_entries, np.int64),
        np.zeros(delay + 1, np.float32),
    )


UPDATE = numba.typeof(Update(np.zeros(2, np.float32), np.float32(1), False, np.float32(0), 1))
PATH = numba.typeof(new_path(network([[0]]), 1))


@njit(void(NETWORK, int64, float32), **INLINED)
def _step(net: Network, index: int, step: Value) -> None:
    """Add a step to the value of an entry."""
    if net.fixed.size > 0:
        rounded = np.int32(np.floor(step * np.float32(FRACTION) + np.float32(0.5)))
        net.fixed[index] = net.fixed[source(net, index)] + rounded
    elif net.promote:
        net.weights[index] = net.weights[source(net, index)] + step
    else:
        net.weights[index] += step


@njit(void(NETWORK, UPDATE, int64[::1], int64, float32), **KERNEL)
def update(net: Network, rule: Update, indices: Indices, at: int, error: Value) -> None:
    """Move the value of the entries at `indices[at:]` by its error, one entry after the other.

    An entry that occurs twice on the board is updated twice.
    """
    n = net.symmetric * net.masks.size
    share = error / np.float32(n)
    if rule.sums.size == 0:
        for k in range(at, at + n):
            _step(net, indices[k], rule.rate * share)
        return
    for k in range(at, at + n):
        i = indices[k]
        coherent, absolute = rule.sums[2 * i], rule.sums[2 * i + 1]
        if net.promote and absolute == 0:  # a promoted weight keeps its rate
            earlier = source(net, i)
            coherent, absolute = rule.sums[2 * earlier], rule.sums[2 * earlier + 1]
        step = rule.rate * share
        if absolute > 0:
            step = rule.rate * (abs(coherent) / absolute) * share
        summed = step if rule.printed else share
        rule.sums[2 * i] = coherent + summed
        rule.sums[2 * i + 1] = absolute + abs(summed)
        _step(net, i, step)


@njit(void(UPDATE, int64[::1], int64, int64), **KERNEL)
def prefetch_sums(rule: Update, indices: Indices, at: int, n: int) -> None:
    """Prefetch the sums of entries that will be updated."""
    if rule.sums.size > 0:
        for k in range(at, at + n):
            prefetch(rule.sums, 2 * indices[k])


@njit(void(NETWORK, UPDATE, PATH, int64, int64), **KERNEL)
def learn_backward(net: Network, rule: Update, path: Path, start: int, end: int) -> None:
    """Update the afterstates of moves `start` to `end - 1` of a finished game, last one first.

    The target starts at 0 and becomes `reward + lam * target + (1 - lam) * value`, the value read
    after its update. Where the move after an afterstate was random and is excluded, there is no
    update, and the target becomes `reward + value`. The entries of the afterstates ahead are
    looked up and prefetched early, into a ring.
    """
    n, ring = net.symmetric * net.masks.size, path.ring
    target = float32(0)
    for ahead in range(end - 1, start - 1 - AHEAD, -1):
        if ahead >= start:
            at = ahead % _RING * n
            look_up(net, path.afters[ahead], ring, at)
            prefetch_sums(rule, ring, at, n)
        t = ahead + AHEAD
        if t >= end:
            continue
        at = t % _RING * n
        toward_random = rule.excluded == 1 and t + 1 < end and path.is_random[t + 1]
        if not toward_random and not (rule.excluded == 2 and path.is_random[t]):
            update(net, rule, ring, at, target - total(net, ring, at))
        value = total(net, ring, at)
        lam = float32(0) if toward_random else rule.lam
        target = float32(path.rewards[t]) + lam * target + (float32(1) - lam) * value
