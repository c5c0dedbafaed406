"""Makers of the Monte-Carlo players of Daihinmin: see `afterstate.agents.make`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from afterstate.agents.daihinmin.afterstates.class_values import TRANSITIONS
from afterstate.agents.daihinmin.search.monte_carlo import (
    PLAYOUTS,
    MonteCarloAgent,
    MonteCarloSettings,
    Prior,
)
from afterstate.agents.daihinmin.values.softmax_policy import Policy

if TYPE_CHECKING:
    from torch import nn


def monte_carlo(
    playouts: int | None = PLAYOUTS,
    seconds: float | None = None,
    policy: Policy | str | Path | None = None,
    seed: int | None = None,
    transitions: npt.ArrayLike = TRANSITIONS,
    prior: Prior | None = None,
    **search: Any,
) -> MonteCarloAgent:
    """Return the Monte-Carlo player: see `MonteCarloAgent`; `MonteCarloSettings` has `search`."""
    settings = MonteCarloSettings(**search)
    return MonteCarloAgent(playouts, seconds, policy, seed, settings, transitions, prior)


def monte_carlo_with_rank_net(
    network: nn.Module | str | Path | None = None,
    device: str | None = None,
    playouts: int | None = PLAYOUTS,
    seconds: float | None = None,
    policy: Policy | str | Path | None = None,
    seed: int | None = None,
    transitions: npt.ArrayLike = TRANSITIONS,
    **search: Any,
) -> MonteCarloAgent:
    """Return the Monte-Carlo player with the prior of a rank network.

    Args:
        network: the rank network or its file, by default the pretrained one.
        device: the torch device of the network: see `RankAgent`.
        playouts: playouts a decision; see `MonteCarloAgent` for the rest.
        seconds: time a decision.
        policy: the policy of the playouts.
        seed: seed of the search.
        transitions: transitions of classes, for the values of finishing places.
        **search: see `MonteCarloSettings`.
    """
    rank_net = import_module("afterstate.agents.daihinmin.values.rank_net")
    prior = rank_net.RankAgent(network, device=device)
    return monte_carlo(playouts, seconds, policy, seed, transitions, prior, **search)
