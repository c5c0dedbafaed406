"""Makers of the players of 2048 that need a network or settings: see `afterstate.agents.make`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values import ntuple_file, ntuple_network
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.envs.game2048.rules import size_of
from afterstate.envs.messages import shown

if TYPE_CHECKING:
    from afterstate.agents.game2048.search.alphabeta import AlphaBetaAgent
    from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent

PRETRAINED = Path(__file__).parent / "pretrained" / "ntuple.npz"
"""The pretrained N-tuple network, for 4x4 boards."""

BY_NTUPLE_NETWORK = ("ntuple", "expectimax", "mc-softmax")
"""The names of players by an N-tuple network: the pretrained one unless settings have another."""

Tuples = str | Sequence[Sequence[int]]
"""The name of a tuple set, such as `"4x6"`, or the cells of each tuple."""


@cache
def pretrained() -> Network:
    """Return the pretrained N-tuple network, which a process reads once for several players."""
    return ntuple_file.load(PRETRAINED)


def greedy(
    network: Network | str | Path | None = None,
    tuples: Tuples | None = None,
    size: tuple[int, int] | None = None,
) -> NTupleAgent:
    """Return the player that is greedy by an N-tuple network."""
    return NTupleAgent(_network(network, tuples, size))


def expectimax(
    network: Network | str | Path | None = None,
    depth: int | None = None,
    seconds: float | None = None,
    nodes: int | None = None,
    cutoff: float | None = None,
    extend: int = 0,
    threads: int = 1,
    tuples: Tuples | None = None,
    size: tuple[int, int] | None = None,
) -> ExpectimaxAgent:
    """Return the player that searches by expectimax over an N-tuple network."""
    return ExpectimaxAgent(
        _network(network, tuples, size),
        depth=depth,
        seconds=seconds,
        nodes=nodes,
        cutoff=cutoff,
        extend=extend,
        threads=threads,
    )


def mc_softmax(
    network: Any = None,
    tuples: Tuples | None = None,
    size: tuple[int, int] | None = None,
    device: str | None = None,
    value_scale: float | None = None,
    bf16: bool = False,
    symmetric: bool = False,
    **search: Any,
) -> MCSoftmaxAgent:
    """Return the player by Monte-Carlo Softmax search over any value function.

    Its kernels are loaded when the first one is made.
    """
    module = import_module("afterstate.agents.game2048.search.mc_softmax")
    settings = module.MCSoftmaxSettings(**search)
    network = None if isinstance(network, str) and network == "ntuple" else network
    if _is_neural(network):
        value_net = import_module("afterstate.agents.game2048.values.value_net")
        neural = {"value_scale": value_scale, "bf16": bf16, "symmetric": symmetric}
        net = None if network == "value-net" else network
        network = value_net.ValueNetAgent(net, device=device, **neural)
    elif device is not None or value_scale is not None or bf16 or symmetric:
        raise ValueError("device, value_scale, bf16 and symmetric need a neural network, got none")
    if not isinstance(network, module.Estimator):
        network = _network(getattr(network, "network", network), tuples, size)
    else:
        _check_new(tuples, size)
    agent: MCSoftmaxAgent = module.MCSoftmaxAgent(network, settings)
    return agent


def alphabeta(**search: Any) -> AlphaBetaAgent:
    """Return the player by alpha-beta search, whose kernels are loaded when the first is made."""
    module = import_module("afterstate.agents.game2048.search.alphabeta")
    agent: AlphaBetaAgent = module.AlphaBetaAgent(module.AlphaBetaSettings(**search))
    return agent


def _network(
    network: Network | str | Path | None, tuples: Tuples | None, size: tuple[int, int] | None
) -> Network:
    """Return the network itself, that of a file, the pretrained one, or a new one of zeros."""
    if network is None:
        rows_and_cols = (4, 4) if size is None else size_of(size)
        if tuples is None and rows_and_cols == (4, 4):
            return ntuple_file.load(PRETRAINED)
        return ntuple_network.network("4x6" if tuples is None else tuples, rows_and_cols)
    _check_new(tuples, size)
    if isinstance(network, (str, Path)):
        return ntuple_file.load(network)
    if isinstance(network, Network):
        return network
    raise ValueError(
        "network must be a file, a Network, or for mc-softmax a value network or an object with "
        f"size and estimate, got {shown(network)}"
    )


def _check_new(tuples: Tuples | None, size: tuple[int, int] | None) -> None:
    """Raise ValueError if there are settings of a new network, where a network was given."""
    if tuples is not None or size is not None:
        raise ValueError("tuples and size are for a new network, and a network was given as well")


def _is_neural(network: Any) -> bool:
    """Return True for a torch network, the file of one, or the name of the pretrained one."""
    if isinstance(network, (str, Path)):
        return network == "value-net" or Path(network).suffix == ".safetensors"
    return hasattr(network, "state_dict")
