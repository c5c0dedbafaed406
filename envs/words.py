"""The 64-bit words of both games, random streams of such words, and arrays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

from afterstate.envs import compiling  # noqa: F401 - has to precede the first kernel
from afterstate.envs.checks import check_seed
from afterstate.envs.messages import shown

Word: TypeAlias = int | np.uint64
"""64 bits. Kernels return an `int` to Python; those with a signature take either, the others need a
`np.uint64`. numba sees a `uint64` in both."""
Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Float32s = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]


@njit("UniTuple(uint64, 2)(uint64)", cache=True)
def next_random(rng: Word) -> tuple[Word, Word]:
    """Return the next state of splitmix64 (Steele, Lea and Flood 2014) and 64 random bits."""
    rng = np.uint64(rng) + np.uint64(0x9E37_79B9_7F4A_7C15)
    bits = (rng ^ (rng >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return rng, bits ^ (bits >> np.uint64(31))


@njit("uint64(uint64, uint64)", cache=True, forceinline=True)
def below(bits: Word, n: Word) -> Word:
    """Return the number in 0..n-1 that the upper half of random bits picks, uniform within n/2**32.

    >>> below(0x8000_0000_0000_0000, 6)
    3
    """
    return (np.uint64(bits) >> np.uint64(32)) * np.uint64(n) >> np.uint64(32)


@njit("float64(uint64)", cache=True, forceinline=True)
def fraction(bits: Word) -> float:
    """Return random bits as a number >= 0 and < 1: the upper 53 of them.

    >>> fraction(0x8000_0000_0000_0000)
    0.5
    """
    return float(np.int64(np.uint64(bits) >> np.uint64(11))) / 9007199254740992.0  # 2**53


@njit("uint64(uint64, uint64)", cache=True)
def _high_product(a: Word, b: Word) -> Word:
    """Return the upper 64 bits of a product of 128 bits."""
    low, half = np.uint64(0xFFFF_FFFF), np.uint64(32)
    a, b = np.uint64(a), np.uint64(b)
    middle = (a & low) * (b & low) >> half
    middle += (a >> half) * (b & low)
    other = (middle & low) + (a & low) * (b >> half)
    return (a >> half) * (b >> half) + (middle >> half) + (other >> half)


@njit("uint64(uint64[::1])", cache=True)
def next_word(stream: Words) -> Word:
    """Return the next 64 bits of a stream of `stream_of`: PCG XSL RR 128/64 (O'Neill 2014)."""
    high, low = stream[0], stream[1]
    multiplier = np.uint64(0x4385_DF64_9FCC_F645)
    product = low * multiplier
    carried = _high_product(low, multiplier) + high * multiplier
    carried += low * np.uint64(0x2360_ED05_1FC6_5DA4)
    low = product + stream[3]
    high = carried + stream[2] + np.uint64(low < product)
    stream[0], stream[1] = high, low
    bits, turn = high ^ low, high >> np.uint64(58)
    turned: Word = bits >> turn | bits << (np.uint64(64) - turn & np.uint64(63))
    return turned


@njit("uint64(uint64[::1])", cache=True)
def _next_half(stream: Words) -> Word:
    """Return the next 32 bits of a stream: the lower half of a word, then its upper half."""
    if stream[4]:
        stream[4] = np.uint64(0)
        left: Word = stream[5]
        return left
    bits = next_word(stream)
    stream[4], stream[5] = np.uint64(1), bits >> np.uint64(32)
    return bits & np.uint64(0xFFFF_FFFF)


@njit("int64(uint64[::1], int64)", cache=True)
def draw_below(stream: Words, n: int) -> int:
    """Return the number in 0..n-1, n < 2**32, that numpy's `Generator.integers(n)` draws.

    See Lemire, Fast Random Integer Generation in an Interval (2019). It draws no bits if n is 1.
    """
    if n == 1:
        return 0
    low, bound = np.uint64(0xFFFF_FFFF), np.uint64(n)
    product = _next_half(stream) * bound
    if product & low < bound:
        threshold = (low - bound + np.uint64(1)) % bound
        while product & low < threshold:
            product = _next_half(stream) * bound
    return int(product >> np.uint64(32))


def stream_of(generator: np.random.Generator) -> Words:
    """Return the state of a numpy generator as `uint64[6]`, which kernels draw the same from.

    State and increment of PCG64, 128 bits each with the upper word first, then 1 if 32 bits are
    left over from the last word, and these bits.

    Raises:
        ValueError: no generator, or one of another kind.
    """
    _check_generator(generator)
    state: Any = generator.bit_generator.state
    if state["bit_generator"] != "PCG64":
        raise ValueError(f"generator must be one of PCG64, got {shown(state['bit_generator'])}")
    number, increment = state["state"]["state"], state["state"]["inc"]
    words = [part for each in (number, increment) for part in (each >> 64, each % 2**64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


def _check_generator(generator: Any) -> None:
    """Raise ValueError unless it is a random generator of numpy."""
    if not isinstance(generator, np.random.Generator):
        raise ValueError(f"generator must be a numpy.random.Generator, got {shown(generator)}")


def seed_word(seed: int | None) -> int:
    """Return the random state of the game that an environment plays after `reset(seed=seed)`.

    Raises:
        ValueError: `seed` is neither None nor an integer >= 0.
    """
    return draw_word(np.random.default_rng(check_seed(seed)))


def draw_word(generator: np.random.Generator) -> int:
    """Return a random state for a game, drawn from a numpy generator.

    Raises:
        ValueError: no such generator.
    """
    _check_generator(generator)
    return int(generator.integers(0, 2**64, dtype=np.uint64))
