"""Boards, networks and value functions for tests of Monte-Carlo Softmax search."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from afterstate.agents.game2048.search import exact
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.search.softmax_settings import POLICIES, MCSoftmaxSettings
from afterstate.agents.game2048.search.softmax_tree import Trees
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate
from afterstate.agents.game2048.values.ntuple_network import Network, network
from afterstate.envs.game2048.rules import from_text
from tests.oracles import game2048 as oracle
from tests.oracles import softmax as softmax_oracle
from tests.oracles.ntuple import NaiveNetwork

Boards = npt.NDArray[np.uint64]

TUPLES = {
    (1, 4): [[0, 1, 2], [2, 3]],
    (2, 2): [[0, 1], [0, 1, 4]],
    (2, 3): [[0, 1, 2], [1, 5]],
    (3, 3): [[0, 1, 2], [4, 5]],
    (4, 4): [[0, 1, 4], [5, 6], [1, 2, 5, 6]],
}

SIX = POLICIES[:6]
"""The policies of Watanabe and Matsuzaki."""

OVER = from_text("2 4 8 16 / 16 8 4 2 / 2 4 8 16 / 16 8 4 2")
EARLY = from_text("2 _ _ _ / _ 4 _ _ / _ _ 2 _ / _ _ _ _")

solved = cache(exact.solve)


class Oracle:
    """A value function that records the sizes of the batches it evaluates."""

    def __init__(self, of: Callable[[Any], Any], size: tuple[int, int] = (4, 4)) -> None:
        self.of, self.size = of, size
        self.batch_sizes: list[int] = []

    def estimate(self, boards: Boards) -> Any:
        """Return the function's values."""
        self.batch_sizes.append(len(boards))
        return self.of(boards)


def random_network(size: tuple[int, int] = (4, 4), seed: int = 1) -> Network:
    net = network(TUPLES[size], size)
    drawn = np.random.default_rng(seed).uniform(0, 30, net.weights.size)
    return net._replace(weights=drawn.astype(np.float32))


def as_estimator(net: Network) -> Oracle:
    """Return the same values as an estimator, so that search evaluates batches."""
    return Oracle(partial(estimate, net), net.size)


def naive(net: Network) -> softmax_oracle.Estimate:
    """Return the same values from the oracle."""
    plain = NaiveNetwork(TUPLES[net.size], net.weights)
    return lambda board: float(plain.value(board))


def random_board(rng: random.Random, size: tuple[int, int] = (4, 4)) -> oracle.Board:
    """Return a board with any number of gaps, of small tiles that merge or of any tiles."""
    n_cells = size[0] * size[1]
    tiles = rng.choices(range(1, rng.choice([3, 6, 11])), k=n_cells)
    for cell in rng.sample(range(n_cells), rng.randrange(n_cells - 1)):
        tiles[cell] = 0
    return [tiles[r * size[1] : (r + 1) * size[1]] for r in range(size[0])]


def random_boards(n: int, seed: int = 1, size: tuple[int, int] = (4, 4)) -> list[oracle.Board]:
    rng = random.Random(seed)
    return [random_board(rng, size) for _ in range(n)]


def as_words(boards: list[oracle.Board]) -> Boards:
    return np.array([oracle.to_word(board) for board in boards], np.uint64)


def players_of(net: Network) -> list[Any]:
    """Return players that have the attribute `network`."""
    config = MCSoftmaxSettings(simulations=2)
    return [NTupleAgent(net), ExpectimaxAgent(net, 2), MCSoftmaxAgent(net, config)]


def trees_of(agent: MCSoftmaxAgent) -> Trees:
    (trees,) = agent._spare
    return trees


def check(agent: MCSoftmaxAgent) -> softmax_oracle.Check:
    """Return the checker of an agent's trees."""
    net = agent.network

    def value(after: oracle.Board) -> float:
        word = as_words([after])
        return float(estimate(net, word)[0] if isinstance(net, Network) else net.estimate(word)[0])

    return softmax_oracle.Check(trees_of(agent), agent.settings, value)
