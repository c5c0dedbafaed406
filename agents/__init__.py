"""Players, by name or from a file.

    from afterstate import agents
    agent = agents.make("expectimax", depth=3, network="network.npz")

Every player answers `act(boards)`, board words `uint64[B]` to actions `int8[B]`, and
`predict(observations)`, observations of `Game2048-v0` to actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.ntuple import Network, NTupleAgent, network
from afterstate.agents.game2048.ntuple import load as load_network
from afterstate.agents.game2048.players import RandomAgent, RewardAgent

__all__ = ["Agent", "load", "make", "names"]


def _network(
    net: Network | str | Path | None, tuples: str | Sequence[Sequence[int]], size: tuple[int, int]
) -> Network:
    """A network as it is, from its file, or a new one with all weights zero."""
    if isinstance(net, (str, Path)):
        return load_network(net)
    if net is not None and not isinstance(net, Network):
        raise ValueError(f"network is a file or a Network, got {net!r}")
    return network(tuples, size) if net is None else net


def _ntuple(
    network: Network | str | Path | None = None,
    tuples: str | Sequence[Sequence[int]] = "4x6",
    size: tuple[int, int] = (4, 4),
) -> Agent:
    """The greedy player of an N-tuple network."""
    return NTupleAgent(_network(network, tuples, size))


def _expectimax(
    network: Network | str | Path | None = None,
    depth: int = 3,
    tuples: str | Sequence[Sequence[int]] = "4x6",
    size: tuple[int, int] = (4, 4),
) -> Agent:
    """The search player of an N-tuple network."""
    return ExpectimaxAgent(_network(network, tuples, size), depth)


_MAKERS: dict[str, Callable[..., Agent]] = {
    "random": RandomAgent,
    "reward": RewardAgent,
    "ntuple": _ntuple,
    "expectimax": _expectimax,
}


def names() -> list[str]:
    """The names that `make` knows."""
    return list(_MAKERS)


def make(name: str, **settings: Any) -> Agent:
    """Makes a player.

    Args:
        name: one of these.

            - `"random"`: a random legal move (`seed`, `size`)
            - `"reward"`: the largest reward at once (`seed`, `size`)
            - `"ntuple"`: greedy by an N-tuple network (`network`: a file or a `Network`; without
              it a new one, all zero, of `tuples` and `size`)
            - `"expectimax"`: n-ply search with that network at the end (the same, and `depth`)
        **settings: the settings given in brackets.

    Raises:
        ValueError: an unknown name or a wrong setting.
    """
    if name not in _MAKERS:
        raise ValueError(f"there is no player {name!r}, but {names()}")
    try:
        return _MAKERS[name](**settings)
    except TypeError as error:
        raise ValueError(f"the player {name!r} got wrong settings: {error}") from error


def load(file: str | Path) -> Agent:
    """The player of a file that `afterstate` wrote: the greedy player of an N-tuple network.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: another program's file, or a damaged one.
    """
    return NTupleAgent(load_network(file))
