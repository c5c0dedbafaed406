"""Networks with random weights or exact values, and boards with largest tiles of all sizes."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from afterstate.agents.game2048.search.exact import Solution
from afterstate.agents.game2048.values.bit_planes import z_order
from afterstate.agents.game2048.values.ntuple_network import STAGES, Network, network
from afterstate.envs.game2048.rules import cells
from tests.oracles import game2048 as oracle
from tests.oracles.ntuple import entry

TUPLES = [[0, 1, 4], [5, 2], [10]]

OPTIONS: list[dict[str, Any]] = [
    {"stages": STAGES},
    {"stages": [1024, 4096, 10240, 16384, 57344], "promote": True},
    {"stages": [4, 8, 16], "promote": True},
    {"stages": [64], "promote": True, "fixed_point": True},
    {"fixed_point": True},
    {"symmetric": False},
    {"symmetric": False, "fixed_point": True},
    {"stages": [32, 256], "promote": True, "symmetric": False},
    {"downgrade": 1024},
    {"stages": STAGES, "downgrade": 4096, "promote": True, "fixed_point": True},
]
by_options = pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))


def filled(seed: int = 1, size: tuple[int, int] = (4, 4), **options: Any) -> Network:
    """Return a network whose weights are zero with probability 1/2, else random."""
    net = network(TUPLES if size == (4, 4) else [[0, 1], [4]], size, **options)
    rng = np.random.default_rng(seed)
    drawn = rng.normal(0, 20, net.weights.size) * rng.integers(0, 2, net.weights.size)
    if options.get("fixed_point"):
        net.fixed[:] = np.round(1024 * drawn)
    else:
        net.weights[:] = drawn
    return net


def exact_network(solution: Solution) -> Network:
    """Return a network with one tuple of all cells and the values of a solution as float32.

    An afterstate's value is the sum of the entries of its symmetric boards, so each entry is the
    value divided by their number. Entries of other boards are 0.
    """
    rows, cols = solution.size
    every_cell = [4 * row + col for row in range(rows) for col in range(cols)]
    net = network([every_cell], (rows, cols))
    boards = cells(solution.afters, rows, cols)
    images = [boards[:, ::a, ::b] for a in (1, -1) for b in (1, -1)]
    if rows == cols:
        images += [each.swapaxes(1, 2) for each in images]
    for each in images:
        nibbles = each.reshape(len(boards), -1) @ (16 ** np.arange(rows * cols))
        net.weights[z_order(nibbles, rows * cols)] = solution.values / net.symmetric
    return net


def drawn_boards(n: int, size: tuple[int, int] = (4, 4)) -> list[oracle.Board]:
    """Return boards with largest tiles of all sizes."""
    rng = random.Random(3)
    tops = [rng.randint(0, 15) for _ in range(n)]
    return [[[rng.randint(0, top) for _ in range(size[1])] for _ in range(size[0])] for top in tops]


def words(boards: list[oracle.Board]) -> npt.NDArray[np.uint64]:
    return np.array([oracle.to_word(board) for board in boards], np.uint64)


def by_nibbles(net: Network) -> list[int]:
    """Return the place of each weight, listed by the exponents side by side as nibbles."""
    places = []
    for stage in range(0, net.weights.size, net.stage_size):
        for start, of_tuple in zip(net.starts.tolist(), net.tuples, strict=True):
            each = itertools.product(range(16), repeat=len(of_tuple))
            places += [stage + start + entry(exponents[::-1]) for exponents in each]
    return places
