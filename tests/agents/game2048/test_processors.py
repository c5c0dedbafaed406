"""Learning and play are the same on processors with and without the instruction PEXT."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from afterstate.agents.game2048.kernels import HAS_FAST_PEXT

VALUES = """
import zlib
import numpy as np
from afterstate.agents.game2048.kernels import HAS_FAST_PEXT
from afterstate.agents.game2048.values.ntuple import estimate
from afterstate.agents.game2048.values.ntuple_network import network

net, rng = network("4x6", stages=[128]), np.random.default_rng(3)
net.weights[:] = rng.standard_normal(net.weights.size, np.float32)
values = estimate(net, rng.integers(0, 1 << 63, 100_000).astype(np.uint64))
print(HAS_FAST_PEXT, zlib.crc32(values), np.ptp(values) > 1)
"""
PROGRAM = """
import sys
import zlib
from afterstate import agents
from afterstate.agents.game2048.kernels import HAS_FAST_PEXT
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values.ntuple_network import network

learner = NTupleLearner(network("4x6", stages=[128], promote=True), seed=3)
learner.learn(20_000)
scores = play(agents.make(sys.argv[1], network=learner.network), 2).scores.tolist()
print(HAS_FAST_PEXT, zlib.crc32(learner.network.weights), learner.n_games, *scores)
"""


def run(*program: str, **variables: str) -> list[str]:
    """Return what a program prints; numba keeps kernels of different processors apart."""
    environment, command = {**os.environ, **variables}, [sys.executable, "-c", *program]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    return result.stdout.split()


@pytest.mark.skipif(not HAS_FAST_PEXT, reason="the processor has no PEXT")
@pytest.mark.parametrize(
    "program",
    [
        pytest.param((VALUES,), marks=pytest.mark.slow),
        pytest.param((PROGRAM, "ntuple"), marks=pytest.mark.exhaustive),
        pytest.param((PROGRAM, "expectimax"), marks=pytest.mark.exhaustive),
    ],
)
def test_a_network_is_the_same_without_pext(program: tuple[str, ...]) -> None:
    with_pext, *expected = run(*program)
    without, *result = run(*program, NUMBA_CPU_NAME="x86-64")
    assert (with_pext, without) == ("True", "False")
    assert result == expected
