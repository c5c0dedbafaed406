"""The 64-bit words of both games, a random generator of such words, and checks of settings."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

Word: TypeAlias = int | np.uint64
"""64 bits. Kernels return an `int` to Python and take either; numba sees a `uint64` in both."""
Words = npt.NDArray[np.uint64]


@njit("UniTuple(uint64, 2)(uint64)", cache=True)
def next_random(rng: Word) -> tuple[Word, Word]:
    """Return the next state of splitmix64 (Steele, Lea and Flood 2014) and 64 random bits."""
    rng = np.uint64(rng) + np.uint64(0x9E37_79B9_7F4A_7C15)
    bits = (rng ^ (rng >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return rng, bits ^ (bits >> np.uint64(31))


def check_seed(seed: Any) -> int | None:
    """Return a seed as an int, or None.

    Raises:
        ValueError: `seed` is neither None nor an integer >= 0.
    """
    number = whole(seed)
    if seed is not None and (number is None or number < 0):
        raise ValueError(f"seed must be None or an integer >= 0, got {seed!r}")
    return number


def check_count(name: str, number: Any, optional: bool = False) -> None:
    """Raise ValueError unless a setting is an integer >= 1, or None if it is optional."""
    if not (optional and number is None) and (whole(number) or 0) < 1:
        kind = "None or an integer" if optional else "an integer"
        raise ValueError(f"{name} must be {kind} >= 1, got {number!r}")


def check_one_of(allowed: Collection[Any], **setting: Any) -> None:
    """Raise ValueError unless the setting has one of the allowed values."""
    for name, value in setting.items():
        if value not in allowed:
            raise ValueError(f"{name} must be one of {tuple(allowed)}, got {value!r}")


def seed_word(seed: int | None) -> int:
    """Return the random state of the game that an environment plays after `reset(seed=seed)`.

    Raises:
        ValueError: `seed` is neither None nor an integer >= 0.
    """
    return draw_word(np.random.default_rng(check_seed(seed)))


def draw_word(generator: np.random.Generator) -> int:
    """Return a random state for a game, drawn from a numpy generator."""
    return int(generator.integers(0, 2**64, dtype=np.uint64))


def whole(number: Any) -> int | None:
    """Return an integer of Python or numpy as int; None for booleans and anything else."""
    is_whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
    return int(number) if is_whole else None
