"""The Monte-Carlo player with the prior of a rank network, for `afterstate.agents.make`."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from afterstate.agents.daihinmin.search.monte_carlo import MonteCarloAgent
from afterstate.agents.daihinmin.values.rank_net import PRETRAINED, RankAgent
from afterstate.agents.daihinmin.values.softmax_policy import Policy


def monte_carlo_with_rank_net(
    net: nn.Module | str | Path = PRETRAINED,
    device: str | None = None,
    playouts: int | None = 2000,
    milliseconds: float | None = None,
    policy: Policy | str | Path | None = None,
    seed: int | None = None,
) -> MonteCarloAgent:
    """Return the Monte-Carlo player with the prior of a rank network.

    Args:
        net: the rank network or its file, by default the pretrained one.
        device: the torch device of the network: see `RankAgent`.
        playouts: playouts a decision; see `MonteCarloAgent` for the rest.
        milliseconds: time a decision.
        policy: the policy of the playouts.
        seed: of the search.
    """
    prior = RankAgent(net=net, device=device)
    return MonteCarloAgent(playouts, milliseconds, policy, seed, prior=prior)
