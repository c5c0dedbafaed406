"""Server and client survive mutated messages: some seconds here, minutes in `make slow`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tests.fuzz import protocol

Target = Callable[[random.Random], None]
TARGETS: list[Target] = [
    protocol.hostile_client,
    protocol.hostile_server,
    protocol.damaged_tables,
]


def fuzz(target: Target, seconds: float, seed: int) -> int:
    """Call a target for some time; return the number of attacks, or raise and name the seed."""
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        try:
            target(random.Random(f"{seed}-{n}"))
        except Exception as error:
            raise AssertionError(f"{target.__name__}(random.Random('{seed}-{n}'))") from error
        n += 1
    return n


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.exhaustive)])
def test_the_protocol_survives_mutated_messages(target: Target, seconds: float) -> None:
    n = fuzz(target, seconds, seed=1)
    print(f"{n:,} attacks")
    assert n > 2
