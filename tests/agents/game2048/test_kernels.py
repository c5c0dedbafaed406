"""Instructions of the processor, compared with loops over the bits."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import numpy.typing as npt
import pytest
from numba import njit

from afterstate.agents.game2048.kernels import HAS_FAST_PEXT, pack_bits, prefetch, trailing_zeros
from afterstate.envs.words import Words

ALL = 2**64 - 1


@njit("float64(float32[::1], int64, int64)")
def _sum_prefetched(array: npt.NDArray[np.float32], first: int, n: int) -> float:
    """Prefetch `n` entries from `first` on, which may lie outside, and sum the array."""
    for k in range(first, first + n):
        prefetch(array, k)
    total = 0.0
    for value in array:
        total += value
    return total


@njit("void(uint64[::1], uint64[::1])")
def _count_all(words: Words, counts: Words) -> None:
    for i in range(words.size):
        counts[i] = trailing_zeros(words[i])


@pytest.mark.skipif(not HAS_FAST_PEXT, reason="the processor has no PEXT")
def test_pack_bits_gathers_the_bits_under_the_mask() -> None:
    @njit("void(uint64[::1], uint64[::1], uint64[::1])")
    def pack_all(words: Words, masks: Words, packed: Words) -> None:
        for i in range(words.size):
            packed[i] = pack_bits(words[i], masks[i])

    rng = random.Random(1)
    words = [rng.getrandbits(64) for _ in range(500)] + [0, ALL]
    masks = [rng.getrandbits(64) & rng.getrandbits(64) for _ in range(500)] + [ALL, 1 << 63]
    packed = np.zeros(len(words), np.uint64)
    pack_all(np.array(words, np.uint64), np.array(masks, np.uint64), packed)
    for word, mask, result in zip(words, masks, packed.tolist(), strict=True):
        bits = [word >> i & 1 for i in range(64) if mask >> i & 1]
        assert result == sum(bit << i for i, bit in enumerate(bits)), (hex(word), hex(mask))


def test_count_zeros_is_the_place_of_the_lowest_one() -> None:
    words = [1 << i | (ALL << i + 1 & ALL) for i in range(64)] + [0]
    counts = np.zeros(65, np.uint64)
    _count_all(np.array(words, np.uint64), counts)
    assert counts.tolist() == list(range(65))


@pytest.mark.parametrize("first", [0, 90, -5, 10**6, 2**50])
def test_prefetch_changes_nothing_and_may_point_anywhere(first: int) -> None:
    array = np.arange(100, dtype=np.float32)
    assert _sum_prefetched(array, first, 20) == 4950
    assert array.tolist() == list(range(100))


PLAY_AND_LEARN = """
from numba import njit
from numba.core import event
from afterstate import agents
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner

with event.install_recorder("numba:compile") as compiled:
    learner = NTupleLearner(seed=1)
    learner.learn(1)
    for player in ("ntuple", "expectimax", "mc-softmax"):
        agents.make(player, network=learner.network).act([0x1001])
print([entry.data["dispatcher"] for _, entry in compiled.buffer])
with event.install_recorder("numba:compile") as compiled:
    njit(lambda: 1)()
assert compiled.buffer
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing() -> None:
    command = [sys.executable, "-c", PLAY_AND_LEARN]
    for _ in range(2):
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
