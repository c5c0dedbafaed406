"""Kernels with a network's tuples as constants do the same as the generic ones.

The generic kernels are compared with naive versions in the tests of the modules.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.search.softmax_settings import MCSoftmaxSettings
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate, look_up
from afterstate.agents.game2048.values.ntuple_network import (
    Network,
    network,
    network_without_weights,
)
from afterstate.agents.game2048.values.pruned import fill
from tests.support.game2048.learning_checks import memory
from tests.support.game2048.tuple_networks import drawn_boards, words

pytestmark = pytest.mark.slow  # numba takes a minute for each class of networks

OPTIONS: list[dict[str, Any]] = [
    {"downgrade": 64},
    {"fixed_point": True, "stages": [64], "promote": True},
]
MORE_OPTIONS: list[dict[str, Any]] = [
    {},
    {"stages": [32]},
    {"stages": [64], "promote": True},
    {"fixed_point": True},
]
LEARNING = [
    NTupleSettings(),
    NTupleSettings(printed=True),
    NTupleSettings("td", lam=0.5, rate=0.1),
    NTupleSettings(order="forward", delay=3),
    NTupleSettings("td", order="forward", restart=5, epsilon=0.1),
    NTupleSettings(restart=10, epsilon=0.1, skip="own"),
    NTupleSettings(good=0.75),
    NTupleSettings(carousel=True, restart=5),
    NTupleSettings(search_share=0.5),
]


def of_classes(first: list[dict[str, Any]], others: list[dict[str, Any]]) -> pytest.MarkDecorator:
    """Return a test's networks, of which only the first are tested every time."""
    exhaustive = [pytest.param(each, marks=pytest.mark.exhaustive) for each in others]
    return pytest.mark.parametrize("options", [*first, *exhaustive], ids="-".join)


by_options = of_classes(OPTIONS, MORE_OPTIONS)
of_stages = of_classes(OPTIONS[1:], OPTIONS[:1] + MORE_OPTIONS)


def both(options: dict[str, Any], tuples: str = "4x6") -> tuple[Network, Network]:
    """Return a new network of a class with constants, and a generic one."""
    return network(tuples, **options), Network(*network(tuples, **options))


def learned(options: dict[str, Any]) -> tuple[Network, Network]:
    """Return two networks with the same weights, learned in a few games, as `both` does."""
    constant, _ = both(options)
    NTupleLearner(constant, seed=5).learn(3_000)
    return constant, Network(*constant)


def pruned(tuples: str) -> Network:
    """Return a pruned network with half of the weights that the drawn boards look up."""
    net = network_without_weights("pruned", tuples, (4, 4), stages=[64], promote=True)
    boards = words(drawn_boards(200))
    indices = np.empty((boards.size, net.n_entries), np.int64)
    for board, row in zip(boards, indices, strict=True):
        look_up(net, board, row)
    weights, rng = np.unique(indices)[::2], np.random.default_rng(1)
    return fill(net, weights, rng.integers(-500, 500, weights.size).astype(np.int16), 0.25)


@pytest.mark.parametrize(
    "settings",
    [*LEARNING[:-1], pytest.param(LEARNING[-1], marks=pytest.mark.exhaustive)],
    ids=[str(number) for number in range(len(LEARNING))],
)
@by_options
def test_learning_is_the_same(settings: NTupleSettings, options: dict[str, Any]) -> None:
    if settings.carousel and "stages" not in options:
        pytest.skip("carousel needs stages")
    constant, generic = both(options)
    learners = [NTupleLearner(net, settings, seed=5) for net in (constant, generic)]
    scores = [learner.learn(3_000).scores.tolist() for learner in learners]
    assert scores[0] == scores[1]
    assert np.count_nonzero(memory(generic)) > 100
    assert (memory(constant) == memory(generic)).all()
    assert (learners[0].sums == learners[1].sums).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize("fixed_point", [False, True])
@pytest.mark.parametrize("order", ["forward", "backward"])
def test_learning_of_more_than_four_tuples_is_the_same(order: Any, fixed_point: bool) -> None:
    """Such networks request the next board's entries early."""
    nets = both({"fixed_point": fixed_point}, "5x6")
    learners = [NTupleLearner(net, NTupleSettings(order=order), seed=5) for net in nets]
    scores = [learner.learn(3_000).scores.tolist() for learner in learners]
    assert scores[0] == scores[1]
    assert (memory(nets[0]) == memory(nets[1])).all()
    games = [play(ExpectimaxAgent(net, 2), 2, seed=1) for net in nets]
    assert games[0].scores.tolist() == games[1].scores.tolist()


@of_stages
def test_greedy_play_and_search_are_the_same(options: dict[str, Any]) -> None:
    constant, generic = learned(options)
    for player in (NTupleAgent, lambda net: ExpectimaxAgent(net, 2)):
        games = [play(player(net), 3, seed=1) for net in (constant, generic)]
        assert games[0].scores.tolist() == games[1].scores.tolist()
    boards = words(drawn_boards(40))
    values, expected = (ExpectimaxAgent(net, 3).evaluate(boards) for net in (constant, generic))
    assert (values == expected).all()


@pytest.mark.parametrize(
    "tuples",
    ["8x6", *(pytest.param(other, marks=pytest.mark.exhaustive) for other in ("4x6", "8x6+5x4"))],
)
def test_pruned_networks_are_the_same(tuples: str) -> None:
    small = pruned(tuples)
    assert type(small) is not Network
    nets = [small, Network(*small)]
    boards = words(drawn_boards(200))
    values, expected = (estimate(net, boards) for net in nets)
    assert np.unique(values).size > 100
    assert (values == expected).all()
    games = [play(ExpectimaxAgent(net, 2), 2, seed=1) for net in nets]
    assert games[0].scores.tolist() == games[1].scores.tolist()
    games = [play(NTupleAgent(net), 20, seed=1) for net in nets]
    assert games[0].scores.tolist() == games[1].scores.tolist()


@of_stages
def test_monte_carlo_softmax_search_is_the_same(options: dict[str, Any]) -> None:
    boards, settings = words(drawn_boards(20)), MCSoftmaxSettings(simulations=100)
    values, expected = (MCSoftmaxAgent(net, settings).evaluate(boards) for net in learned(options))
    assert (values == expected).all()
