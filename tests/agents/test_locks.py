"""Players that several threads share."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.agents.daihinmin.values.softmax_policy import PolicyAgent
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.agents.locks import Lock
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.views import view

BOARDS = np.random.default_rng(1).integers(1, 1 << 63, 200).astype(np.uint64) & np.uint64(
    0x5555_5555_5555_5555  # tiles up to 32
)


@pytest.mark.parametrize("settings", [{"depth": 3}, {"nodes": 100}])
def test_threads_that_share_a_search_get_the_values_of_one(settings: dict[str, Any]) -> None:
    net = network("5x4")
    net.weights[:] = np.random.default_rng(2).random(net.weights.size)
    player = ExpectimaxAgent(net, **settings, table_bits=10)
    expected = [player.evaluate(board).tolist() for board in BOARDS]
    with ThreadPoolExecutor(4) as threads:
        values = list(threads.map(lambda board: player.evaluate(board).tolist(), BOARDS))
    assert values == expected


def test_threads_that_share_a_policy_get_the_plays_of_one() -> None:
    player = PolicyAgent(temperature=0, seed=1)
    views = []
    for seed in range(100):
        match = new_match(seed)
        next_game(match)
        views.append(view(match, match["turn"]))
    expected = [player.choose(each) for each in views]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(player.choose, views)) == expected


def test_a_lock_is_not_shared_by_copies() -> None:
    lock = Lock()
    with lock, copy.deepcopy(lock), pickle.loads(pickle.dumps(lock)):
        pass
    player = agents.make("expectimax", depth=1, network=network("5x4"))
    assert pickle.loads(pickle.dumps(player)).act(0x11) == player.act(0x11)
