"""Pruned networks have the values of the same networks with all their weights."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.pruning import count_uses, save_pruned
from afterstate.agents.game2048.learning.table_model import TableModel
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.search.softmax_settings import MCSoftmaxSettings
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate
from afterstate.agents.game2048.values.ntuple_file import load, save
from afterstate.agents.game2048.values.ntuple_network import (
    Network,
    network,
    network_without_weights,
)
from afterstate.agents.game2048.values.pruned import BLOCK, expand, fill, kept
from tests.support.game2048.tuple_networks import drawn_boards, words
from tests.support.memory import at_most

TUPLES = [[0, 1, 4], [5], [2, 3], [1, 2, 3, 7]]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"stages": [8, 16, 64]},
    {"stages": [8, 16, 64], "promote": True},
    {"stages": [16], "promote": True, "symmetric": False},
    {"downgrade": 64},
]
by_options = pytest.mark.parametrize("options", OPTIONS, ids=str)


def pruned(n: int = 3_000, tuples: Any = TUPLES, **options: Any) -> Network:
    """Return a network with `n` weights, some of them next to each other."""
    net = network_without_weights("pruned", tuples, (4, 4), **options)
    rng = np.random.default_rng(4)
    places = np.sort(rng.choice(net.n_weights, n, replace=False))
    levels = rng.integers(1, 1_000, n) * rng.choice([-1, 1], n)
    return fill(net, places, levels.astype(np.int16), 0.5)


@by_options
def test_values_and_moves_are_those_of_the_network_with_all_weights(
    options: dict[str, Any],
) -> None:
    small = pruned(**options)
    full = expand(small)
    assert small.is_pruned and not full.is_pruned
    assert np.count_nonzero(full.weights) == 3_000
    boards = words(drawn_boards(500))
    assert estimate(small, boards).tolist() == estimate(full, boards).tolist()
    assert np.unique(estimate(small, boards)).size > 30
    for player in (NTupleAgent, lambda net: ExpectimaxAgent(net, 2)):
        scores = [play(player(net), 20, seed=1).scores.tolist() for net in (small, full)]
        assert scores[0] == scores[1]


def test_monte_carlo_softmax_search_is_that_of_the_network_with_all_weights() -> None:
    small, settings = pruned(), MCSoftmaxSettings(simulations=50)
    boards = words(drawn_boards(20))
    values = [MCSoftmaxAgent(net, settings).evaluate(boards) for net in (small, expand(small))]
    assert (values[0] == values[1]).all()


@by_options
def test_kept_weights_are_those_that_were_given(options: dict[str, Any]) -> None:
    """All places and levels come back, also those of tables that are smaller than a block."""
    net = network_without_weights("pruned", TUPLES, (4, 4), **options)
    rng = np.random.default_rng(5)
    places = np.sort(rng.choice(net.n_weights, 2_000, replace=False))
    levels = (1 + np.arange(2_000)).astype(np.int16)
    small = fill(net, places, levels, 2.0)
    assert kept(small)[0].tolist() == places.tolist()
    assert kept(small)[1].tolist() == levels.tolist()
    assert expand(small).weights[places].tolist() == (2.0 * levels).tolist()


@by_options
@pytest.mark.parametrize("n", [0, 1, 3_000])
def test_a_file_has_the_same_network(tmp_path: Path, options: dict[str, Any], n: int) -> None:
    small = pruned(n, **options)
    save(small, tmp_path / "small.npz")
    loaded = load(tmp_path / "small.npz")
    assert loaded.settings == small.settings and loaded.step == small.step
    assert (loaded.blocks == small.blocks).all() and (loaded.levels == small.levels).all()
    played = play(agents.load(tmp_path / "small.npz"), 5, seed=2).scores
    assert played.tolist() == play(NTupleAgent(small), 5, seed=2).scores.tolist()
    copied = pickle.loads(pickle.dumps(small))
    assert type(copied) is type(small) and (copied.levels == small.levels).all()


def test_a_few_weights_of_a_large_network_take_little_memory() -> None:
    """134 million weights in 3 stages: all together would take 1.6 GB."""
    with at_most(1 << 25):
        small = pruned(1_000, "8x6", stages=[8192, 16384])
        assert small.levels.size <= 1_001 * BLOCK
        assert small.blocks.size == small.n_weights // BLOCK


def test_a_weight_beyond_the_network_is_refused() -> None:
    net = network_without_weights("pruned", TUPLES, (4, 4))
    with pytest.raises(ValueError, match="weights do not match its tuples"):
        fill(net, np.array([net.n_weights]), np.array([1], np.int16), 1.0)


def test_a_pruned_network_neither_learns_nor_is_pruned_again(tmp_path: Path) -> None:
    small = pruned()
    for refused in (
        lambda: NTupleLearner(small),
        lambda: TableModel(small),
        lambda: count_uses(small, 1),
        lambda: save_pruned(small, tmp_path / "smaller.npz", np.arange(3)),
    ):
        with pytest.raises(ValueError, match=r"must have all weights, got a pruned one"):
            refused()
    NTupleLearner(expand(small), seed=1).learn(100)
    assert not list(tmp_path.iterdir())


def test_a_full_network_is_expanded_to_itself() -> None:
    net = network(TUPLES)
    assert expand(net) is net
