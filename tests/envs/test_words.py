"""Random streams of kernels draw what numpy's generators draw."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from afterstate.envs import daihinmin_v0
from afterstate.envs.messages import shown
from afterstate.envs.words import draw_below, next_word, stream_of

BOUNDS = [1, 2, 3, 5, 17, 1 << 20, 3 << 30, (1 << 31) + 5, (1 << 32) - 1]


@pytest.mark.parametrize("seed", range(8))
def test_a_stream_draws_the_numbers_of_its_generator(seed: int) -> None:
    """Words and bounded numbers alternate; a bounded one leaves half a word for the next."""
    generator, order = np.random.default_rng(seed), np.random.default_rng(100 + seed)
    stream = stream_of(generator)
    for _ in range(2_000):
        if order.random() < 0.3:
            assert generator.integers(0, 2**64, dtype=np.uint64) == next_word(stream)
        else:
            n = BOUNDS[order.integers(len(BOUNDS))]
            assert generator.integers(n) == draw_below(stream, n)
    assert stream_of(generator)[:5].tolist() == stream[:5].tolist()


def test_a_stream_may_begin_within_a_word() -> None:
    generator = np.random.default_rng(3)
    generator.integers(5)
    stream = stream_of(generator)
    assert stream[4] == 1
    expected = generator.integers(1000, size=5).tolist()
    assert [draw_below(stream, 1000) for _ in range(5)] == expected


def test_a_generator_of_another_kind_raises_an_error() -> None:
    with pytest.raises(ValueError, match="generator must be one of PCG64, got 'Philox'"):
        stream_of(np.random.Generator(np.random.Philox(1)))


def test_any_value_can_be_shown() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    for value in (deep, "x" * 10**6, 10**5000, {n: deep for n in range(10**4)}):
        assert 0 < len(shown(value)) <= 200
    assert shown([1, "a", None]) == "[1, 'a', None]"


def test_a_shown_value_has_no_control_characters() -> None:
    class Clears:
        def __repr__(self) -> str:
            return "one\r\x1b[2Jtwo\nthree\u202e"

    assert shown(Clears()) == "one  [2Jtwo three "


def test_a_deeply_nested_argument_is_refused_as_any_other() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    game, table = gym.make("Game2048-v0").unwrapped, daihinmin_v0.raw_env()
    game.reset(seed=1)
    table.reset(seed=1)
    for env in (game, table):
        with pytest.raises(ValueError, match="action"):
            env.step(deep)  # type: ignore[arg-type]
        for wrong in ({"seed": deep}, {"options": deep}):
            with pytest.raises(ValueError, match=r"seed|options"):
                env.reset(**wrong)  # type: ignore[arg-type]
