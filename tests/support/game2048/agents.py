"""Small players of 2048 and boards for them."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest

import afterstate.envs  # noqa: F401
from afterstate import agents
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.values.ntuple_network import Network, network

TUPLES = [[0, 1, 2], [4, 5], [1, 5, 9]]
PAIRS = [[0, 1], [4, 5]]


def random_network(
    tuples: list[list[int]] = TUPLES, size: tuple[int, int] = (4, 4), seed: int = 1
) -> Network:
    """Return a network with random weights."""
    net = network(tuples, size)
    net.weights[:] = np.random.default_rng(seed).normal(0, 30, net.weights.size)
    return net


def all_agents() -> list[Agent]:
    """Return one player of each name."""
    net = random_network()
    return [
        agents.make("random", seed=1),
        agents.make("reward", seed=1),
        agents.make("ntuple", network=net),
        agents.make("expectimax", network=net, depth=2),
        agents.make("mc-softmax", network=net, simulations=10),
        agents.make("alphabeta", depth=2),
    ]


NAMES_2048 = ["random", "reward", "ntuple", "expectimax", "mc-softmax", "alphabeta"]
every_agent = pytest.mark.parametrize("index", range(6), ids=NAMES_2048)


def random_boards(n: int, size: tuple[int, int] = (4, 4), top: int = 15) -> npt.NDArray[np.uint8]:
    """Return exponents `[n, rows, cols]`, of few values or of many."""
    rng = random.Random(top)
    palettes = [[0, 0, 1, 2], [0, 1, 2, 3, 4, 5], [*range(top - 3, top + 1)], [*range(top + 1)]]
    drawn = [rng.choices(palette, k=size[0] * size[1]) for palette in rng.choices(palettes, k=n)]
    return np.array(drawn, np.uint8).reshape(n, *size)


def one_hot(exponents: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return planes `[..., 18, rows, cols]`."""
    planes = np.equal(exponents[..., None, :, :], np.arange(18)[:, None, None])
    return np.asarray(planes, np.float32)
