"""Extracting bits, compared with a loop over the bits, and prefetching."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from numba import njit

from afterstate.agents.game2048 import kernels
from afterstate.agents.game2048.kernels import extract_by_runs, prefetch
from afterstate.envs.words import Word, Words

ALL = 2**64 - 1

_extract = kernels.extract  # what the kernels of this processor call


@njit("void(uint64[::1], uint64[::1], uint64[::1])")
def _extract_all(words: Words, masks: Words, packed: Words) -> None:
    for i in range(words.size):
        packed[i] = _extract(words[i], masks[i])


@njit("float64(float32[::1], int64, int64)")
def _sum_prefetched(array: npt.NDArray[np.float32], first: int, n: int) -> float:
    """Prefetch `n` entries from `first` on, which may lie outside, and sum the array."""
    for k in range(first, first + n):
        prefetch(array, k)
    total = 0.0
    for value in array:
        total += value
    return total


def extract(word: int, mask: int) -> int:
    packed = np.zeros(1, np.uint64)
    _extract_all(np.array([word], np.uint64), np.array([mask], np.uint64), packed)
    return int(packed[0])


def extracted(word: int, mask: int) -> int:
    """Return the bits of the word where the mask has ones, the lowest first."""
    bits = [word >> i & 1 for i in range(64) if mask >> i & 1]
    return sum(bit << i for i, bit in enumerate(bits))


def masks(rng: random.Random) -> list[int]:
    """Return random masks: sparse, dense, of whole nibbles, of one run; and special ones."""
    drawn = [rng.getrandbits(64) for _ in range(500)]
    drawn += [rng.getrandbits(64) & rng.getrandbits(64) & rng.getrandbits(64) for _ in range(300)]
    drawn += [rng.getrandbits(64) | rng.getrandbits(64) | rng.getrandbits(64) for _ in range(300)]
    for n in range(1, 17):
        for _ in range(30):
            drawn.append(sum(15 << 4 * cell for cell in rng.sample(range(16), n)))
    for _ in range(300):
        low, high = sorted(rng.sample(range(65), 2))
        drawn.append((1 << high) - (1 << low))
    return [*drawn, 0, ALL, 1, 1 << 63, ALL ^ 1, ALL >> 1, 0x5555_5555_5555_5555]


both = pytest.mark.parametrize("pack", [extract, extract_by_runs])


@both
def test_extract_gathers_the_bits_under_the_mask(pack: Callable[[Word, Word], Word]) -> None:
    rng = random.Random(1)
    for mask in masks(rng):
        for word in (rng.getrandbits(64), ALL, mask, mask ^ ALL):
            assert int(pack(word, mask)) == extracted(word, mask), (hex(word), hex(mask))


@both
def test_extract_reads_a_tuple_with_its_first_cell_lowest(
    pack: Callable[[Word, Word], Word],
) -> None:
    board, cells_1_2_4_15 = 0xFEDC_BA98_7654_3210, 0xF000_0000_000F_0FF0
    assert pack(board, cells_1_2_4_15) == 0xF421
    assert pack(board, 0) == 0
    assert pack(board, ALL) == board


def test_pext_is_used_only_where_the_processor_has_it() -> None:
    assert (kernels.extract is extract_by_runs) == (not kernels.HAS_PEXT)


@pytest.mark.parametrize("first", [0, 90, -5, 10**6, 2**50])
def test_prefetch_changes_nothing_and_may_point_anywhere(first: int) -> None:
    array = np.arange(100, dtype=np.float32)
    assert _sum_prefetched(array, first, 20) == 4950
    assert array.tolist() == list(range(100))
