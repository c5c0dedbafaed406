"""Learning and play are the same on processors with and without the instruction PEXT."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from afterstate.agents.game2048.kernels import HAS_FAST_PEXT

PROGRAM = """
import sys
import zlib
from afterstate import agents
from afterstate.agents.game2048.kernels import HAS_FAST_PEXT
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values.ntuple_network import network

learner = NTupleLearner(network("4x6", stages=[128], promote=True), seed=3)
learner.play(20_000)
scores = play(agents.make(sys.argv[1], network=learner.network), 2).scores.tolist()
print(HAS_FAST_PEXT, zlib.crc32(learner.network.weights), learner.n_games, *scores)
"""


def run(player: str, **variables: str) -> list[str]:
    """Return what the program prints; numba keeps kernels of different processors apart."""
    environment, command = {**os.environ, **variables}, [sys.executable, "-c", PROGRAM, player]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    return result.stdout.split()


@pytest.mark.slow
@pytest.mark.skipif(not HAS_FAST_PEXT, reason="the processor has no PEXT")
@pytest.mark.parametrize(
    "player", ["ntuple", pytest.param("expectimax", marks=pytest.mark.exhaustive)]
)
def test_a_network_learns_and_plays_the_same_without_pext(player: str) -> None:
    with_pext, *expected = run(player)
    without, *result = run(player, NUMBA_CPU_NAME="x86-64")
    assert (with_pext, without) == ("True", "False")
    assert result == expected
