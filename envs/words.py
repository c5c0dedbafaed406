"""Machine words, which both games are made of, and random words."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

Word: TypeAlias = Any  # a uint64: numba checks it, and Python may hold it as int or np.uint64
Words = npt.NDArray[np.uint64]


@njit("UniTuple(uint64, 2)(uint64)", cache=True)
def next_random(rng: Word) -> tuple[Word, Word]:
    """One step of splitmix64 (Steele, Lea and Flood 2014): the new state and 64 random bits."""
    rng = np.uint64(rng) + np.uint64(0x9E37_79B9_7F4A_7C15)
    bits = (rng ^ (rng >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return rng, bits ^ (bits >> np.uint64(31))


def check_seed(seed: Any) -> None:
    """Raise ValueError unless it is an integer from 0 on, or None."""
    if seed is not None and (whole(seed) is None or seed < 0):
        raise ValueError(f"seed must be an integer >= 0 or None, got {seed!r}")


def seed_word(seed: int | None) -> int:
    """Return the random state of the game that an environment plays after `reset(seed=seed)`.

    Raises:
        ValueError: the seed is neither an integer from 0 on nor None.
    """
    check_seed(seed)
    return draw_word(np.random.default_rng(seed))


def draw_word(generator: np.random.Generator) -> int:
    """A random state for a game, drawn from a numpy generator."""
    return int(generator.integers(0, 2**64, dtype=np.uint64))


def whole(number: Any) -> int | None:
    """A whole number of Python or numpy as int; None for anything else, booleans too."""
    is_whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
    return int(number) if is_whole else None
