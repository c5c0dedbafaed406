"""The learning rules of N-tuple networks: temporal differences and temporal coherence.

Each of the m table entries of an afterstate moves by the share `error / m` of its error, times

- TD: the fixed rate;
- TC: its own rate `|E| / A`, where E sums the shares of the entry and A their absolute values
  (temporal coherence, Beal and Smith 1999; Jaskowski 2016): 1 at first and while all errors have
  one sign, and less the more they cancel, but at least a floor.

In the *printed form* of TC (Matsuzaki 2017) E and A sum the steps, that is the shares after their
rate. An entry whose steps cancel once never moves again. It is an option to repeat that paper.

The value of an afterstate is read again when it is updated, because the update before may have
changed it. A promoted weight keeps the rate that it learned in the stage before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float32

from afterstate.agents.game2048.kernels import inlined, kernel, prefetch
from afterstate.agents.game2048.values.ntuple import (
    index_of,
    is_fixed,
    is_past_last,
    prefetch_entries,
    source,
    symmetric_planes,
    value_of,
)
from afterstate.agents.game2048.values.ntuple_network import FRACTION, Network, Value
from afterstate.agents.game2048.values.tuple_constants import called_if_generic, n_tuples
from afterstate.envs.words import Float32s, Ints, Word, Words

AHEAD = 4
"""Backward learning prefetches the entries of this many updates ahead."""

_1 = np.uint64(1)  # indices are unsigned: see `ntuple.index_of`


TOWARD_RANDOM, OF_RANDOM = 1, 2
"""Afterstates that are not updated: those before a random move, or a random move's own."""


class Update(NamedTuple):
    """The update rule, in the form that kernels take."""

    sums: Float32s  # TC: E and A of each weight, interleaved; TD: empty
    rate: np.float32
    floor: np.float32  # the least rate of an entry by TC, as a share of `rate`
    printed: bool  # E and A sum the steps instead of the shares
    lam: np.float32
    excluded: int  # `TOWARD_RANDOM` or `OF_RANDOM`


class GamePath(NamedTuple):
    """The moves of a game, in the order of play."""

    boards: Words  # before the move
    afters: Words  # after it, before chance
    rewards: Ints
    is_random: npt.NDArray[np.bool_]  # the move was exploratory
    errors: Float32s  # of the last afterstates so far, for delayed updates


def new_path(n_moves: int, delay: int = 0) -> GamePath:
    """Return an empty path for a game of at most `n_moves` moves."""
    return GamePath(
        np.empty(n_moves, np.uint64),
        np.empty(n_moves, np.uint64),
        np.empty(n_moves, np.int64),
        np.zeros(n_moves, np.bool_),
        np.zeros(delay + 1, np.float32),
    )


@inlined
def _is_unchanged(net: Network, rule: Update, index: Word) -> bool:
    """Return True if an entry has no weight or no rate of its own."""
    weight = net.fixed[index] if is_fixed(net) else net.weights[index]
    return weight == 0 or (rule.sums.size > 0 and rule.sums[index + index + _1] == 0)


@kernel
def _promote(net: Network, rule: Update, index: Word) -> None:
    """Give an entry of a later stage the weight and the rate that it has from earlier stages."""
    earlier = source(net, index)
    if is_fixed(net):
        net.fixed[index] = net.fixed[earlier]
    else:
        net.weights[index] = net.weights[earlier]
    if rule.sums.size > 0 and rule.sums[index + index + _1] == 0:
        for which in range(2):
            own, its = index + index + np.uint64(which), earlier + earlier + np.uint64(which)
            rule.sums[own] = rule.sums[its]


@inlined
def _add(net: Network, index: Word, step: Value) -> None:
    """Add a step to the value of an entry."""
    if is_fixed(net):
        net.fixed[index] += np.int32(np.floor(step * np.float32(FRACTION) + np.float32(0.5)))
    else:
        net.weights[index] += step


@inlined
def _coherent_step(rule: Update, index: Word, share: Value) -> Value:
    """Return the step of an entry by temporal coherence, and add to its sums."""
    at = index + index
    coherent, absolute = rule.sums[at], rule.sums[at + _1]
    step = rule.rate * share
    if absolute > 0:
        step = rule.rate * max(abs(coherent) / absolute, rule.floor) * share
    summed = step if rule.printed else share
    rule.sums[at] = coherent + summed
    rule.sums[at + _1] = absolute + abs(summed)
    return step


@inlined
def update(net: Network, rule: Update, board: Word, error: Value) -> None:
    """Move the value of an afterstate by its error, one entry after the other.

    An entry that occurs twice on the board is updated twice.
    """
    called_if_generic(net)
    boards, stage = symmetric_planes(net, board)
    promoted = net.promote and stage > 0
    share = error / np.float32(net.symmetric * n_tuples(net))
    for symmetry in range(8):
        if is_past_last(net, symmetry):
            break
        for t in range(n_tuples(net)):
            index = index_of(net, stage, boards[symmetry], t)
            if promoted and _is_unchanged(net, rule, index):
                _promote(net, rule, index)
            if rule.sums.size > 0:
                _add(net, index, _coherent_step(rule, index, share))
            else:
                _add(net, index, rule.rate * share)


@inlined
def prefetch_sums(net: Network, rule: Update, board: Word) -> None:
    """Prefetch the sums of an afterstate that will be updated."""
    called_if_generic(net)
    if rule.sums.size == 0:
        return
    boards, stage = symmetric_planes(net, board)
    for symmetry in range(8):
        if is_past_last(net, symmetry):
            break
        for t in range(n_tuples(net)):
            index = index_of(net, stage, boards[symmetry], t)
            prefetch(rule.sums, index + index)


@kernel
def learn_backward(
    net: Network, rule: Update, path: GamePath, start: int, end: int, goes_on: bool
) -> None:
    """Update the afterstates of moves `start` to `end - 1` of a game, last one first.

    The target starts at 0; if the game goes on after its last afterstate, at that one's value. It
    becomes `reward + lam * target + (1 - lam) * value`, the value read after its update. Where
    the move after an afterstate was random and is excluded, there is no update, and the target
    becomes `reward + value`. Entries are prefetched some moves ahead.
    """
    target, last = float32(0), end - 1
    if goes_on:
        target = float32(path.rewards[last]) + value_of(net, path.afters[last])
        last -= 1
    for ahead in range(last, start - 1 - AHEAD, -1):
        if ahead >= start:
            prefetch_entries(net, path.afters[ahead])
            prefetch_sums(net, rule, path.afters[ahead])
        t = ahead + AHEAD
        if t > last:
            continue
        after = path.afters[t]
        toward_random = rule.excluded == TOWARD_RANDOM and t + 1 < end and path.is_random[t + 1]
        if not toward_random and not (rule.excluded == OF_RANDOM and path.is_random[t]):
            update(net, rule, after, target - value_of(net, after))
        value = value_of(net, after)
        lam = float32(0) if toward_random else rule.lam
        target = float32(path.rewards[t]) + lam * target + (float32(1) - lam) * value
