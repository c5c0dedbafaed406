"""Tests of the rates at which rank networks learn."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from afterstate.agents.daihinmin.learning.game_records import play_log
from afterstate.agents.daihinmin.learning.rank_learner import samples_of
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent
from afterstate.agents.daihinmin.values import rank_net
from afterstate.envs.daihinmin.rules import N_PLAYERS
from benchmarks.speed import rank_nets


@pytest.mark.usefixtures("one_thread")
def test_steps_are_batches_of_the_paper() -> None:
    of = samples_of(play_log([HeuristicAgent()] * N_PLAYERS, 1, seed=1))
    net = rank_net.network("BaseCNN", channels=2)
    before = [weights.detach().clone() for weights in net.parameters()]
    seen: list[int] = []
    net.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    assert rank_nets.learner(net, of)(60) == 75
    assert seen == [25] * 3
    assert any((a != b).any() for a, b in zip(net.parameters(), before, strict=True))
    assert (rank_nets.PRINTED.optimizer, rank_nets.PRINTED.rate) == ("sgd", 3e-4)
