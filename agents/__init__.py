"""Players, by name or from a file.

    from afterstate import agents
    agent = agents.make("expectimax", depth=3, network="network.npz")
    player = agents.make("daihinmin-mc")

Every player of 2048 answers `act(boards)`, board words `uint64[B]` to actions `int8[B]`, and
`predict(observations)`, observations of `Game2048-v0` to actions. Every player of Daihinmin answers
`choose(view)` with a play and `give(view, n)` with cards: see `afterstate.envs.daihinmin.players`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, overload

from afterstate.agents import files
from afterstate.agents.config import check_names
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.search.expectimax import CUTOFF, ExpectimaxAgent
from afterstate.agents.game2048.simple import RandomAgent, RewardAgent
from afterstate.agents.game2048.values import tdl2048
from afterstate.agents.game2048.values.ntuple import Network, NTupleAgent, network
from afterstate.agents.game2048.values.ntuple import load as load_network

__all__ = ["Agent", "find", "load", "make", "names"]

PRETRAINED = Path(__file__).parent / "game2048" / "pretrained" / "ntuple.npz"
"""The trained network in the package."""


def _network(
    net: Network | str | Path | None,
    tuples: str | Sequence[Sequence[int]] | None,
    size: tuple[int, int] | None,
) -> Network:
    """A network as it is, from its file, the one in the package, or a new one, all zero."""
    if net is not None and (tuples is not None or size is not None):
        raise ValueError("a network has its tuples and its size: give it, or tuples and size")
    if isinstance(net, (str, Path)):
        return _read_network(net)
    if net is not None and not isinstance(net, Network):
        raise ValueError(
            "network is a file, a Network or the player of one, and for mc-softmax also a value "
            f"network or what has size and estimate, got {net!r}"
        )
    if net is None and tuples is None and tuple(size or (4, 4)) == (4, 4):
        return load_network(PRETRAINED)
    return network(tuples or "4x6", size or (4, 4)) if net is None else net


def _read_network(file: str | Path) -> Network:
    """The network of a file of afterstate or of TDL2048."""
    return tdl2048.read(file) if Path(file).suffix == ".w" else load_network(file)


def _ntuple(
    network: Network | str | Path | None = None,
    tuples: str | Sequence[Sequence[int]] | None = None,
    size: tuple[int, int] | None = None,
) -> Agent:
    """The greedy player of an N-tuple network."""
    return NTupleAgent(_network(network, tuples, size))


def _expectimax(
    network: Network | str | Path | None = None,
    depth: int | None = None,
    seconds: float | None = None,
    cutoff: float = CUTOFF,
    tuples: str | Sequence[Sequence[int]] | None = None,
    size: tuple[int, int] | None = None,
) -> Agent:
    """The search player of an N-tuple network."""
    return ExpectimaxAgent(_network(network, tuples, size), depth, seconds, cutoff)


def _mc_softmax(
    network: Any = None,
    tuples: str | Sequence[Sequence[int]] | None = None,
    size: tuple[int, int] | None = None,
    device: str | None = None,
    unit: float | None = None,
    mixed: bool = False,
    symmetric: bool = False,
    **settings: Any,
) -> Agent:
    """The Monte-Carlo search player of any network, or of anything that values boards.

    Its kernels are loaded when the first one is made.
    """
    search = import_module("afterstate.agents.game2048.search.mc_softmax")
    how = _settings("mc-softmax", search.Settings, settings)
    network = None if network == "ntuple" else network
    if _is_neural(network):
        own = {} if network == "value-net" else {"net": network}
        network = _value(**own, device=device, unit=unit, mixed=mixed, symmetric=symmetric)
    elif device is not None or unit is not None or mixed or symmetric:
        raise ValueError("device, unit, mixed and symmetric are for a neural network or its file")
    if not isinstance(network, search.Estimator):
        network = _network(getattr(network, "network", network), tuples, size)
    elif tuples is not None or size is not None:
        raise ValueError("what values boards has its size: give it, or tuples and size")
    made: Agent = search.MCSoftmaxAgent(network, how)
    return made


def _settings(name: str, kind: Any, given: dict[str, Any]) -> Any:
    """The settings of a player, a dataclass."""
    check_names(name, given, [each.name for each in fields(kind)])
    return kind(**given)


def _alphabeta(**settings: Any) -> Agent:
    """The player by alpha-beta search, whose kernels are loaded when the first one is made."""
    alphabeta = import_module("afterstate.agents.game2048.search.alphabeta")
    made: Agent = alphabeta.AlphaBetaAgent(_settings("alphabeta", alphabeta.Settings, settings))
    return made


def _is_neural(network: Any) -> bool:
    """Whether it is a neural network, the file of one, or the name of that in the package."""
    if isinstance(network, (str, Path)):
        return network == "value-net" or Path(network).suffix == ".safetensors"
    return hasattr(network, "state_dict")


def _daihinmin(module: str, name: str) -> Callable[..., Any]:
    """The maker of a player of Daihinmin, whose kernels are loaded when the first one is made."""

    def make(**settings: Any) -> Any:
        return getattr(import_module(f"afterstate.agents.daihinmin.{module}"), name)(**settings)

    return make


def _neural_module(module: str) -> Any:
    """A module that needs torch."""
    try:
        return import_module(f"afterstate.agents.{module}")
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "safetensors"):
            raise
        message = f'this player needs {error.name}: pip install "afterstate[neural]"'
        raise ImportError(message) from error


def _neural(module: str, name: str) -> Callable[..., Any]:
    """The maker of a player of a neural network, by default of the one in the package."""

    def make(**settings: Any) -> Any:
        return getattr(_neural_module(module), name)(**settings)

    return make


_value = _neural("game2048.values.value_net", "ValueNetAgent")
_policy = _neural("game2048.values.policy_net", "PolicyNetAgent")
_rank = _neural("daihinmin.values.rank_net", "RankAgent")
_actor = _neural("daihinmin.values.actor_net", "ActorAgent")
_NEURAL = {
    "game2048.values.value_net": _value,
    "game2048.values.policy_net": _policy,
    "daihinmin.values.rank_net": _rank,
    "daihinmin.values.actor_net": _actor,
}
"""The makers by the modules of their networks."""


def _advised(**settings: Any) -> Any:
    """The search player with the advice of a rank network, by default the one in the package."""
    adviser = _rank(**{name: settings.pop(name) for name in ("net", "device") if name in settings})
    return _MAKERS["daihinmin-mc"](adviser=adviser, **settings)


_MAKERS: dict[str, Callable[..., Any]] = {
    "random": RandomAgent,
    "reward": RewardAgent,
    "ntuple": _ntuple,
    "expectimax": _expectimax,
    "mc-softmax": _mc_softmax,
    "alphabeta": _alphabeta,
    "value-net": _value,
    "policy-net": _policy,
    "daihinmin-random": _daihinmin("rule_based.players", "RandomAgent"),
    "daihinmin-sample": _daihinmin("rule_based.players", "SampleAgent"),
    "daihinmin-heuristic": _daihinmin("rule_based.players", "HeuristicAgent"),
    "daihinmin-policy": _daihinmin("values.softmax_policy", "PolicyAgent"),
    "daihinmin-mc": _daihinmin("search.monte_carlo", "MonteCarloAgent"),
    "daihinmin-rank": _rank,
    "daihinmin-mc-rank": _advised,
    "daihinmin-actor": _actor,
}


SEEDED = frozenset(
    [
        *("random", "reward", "mc-softmax"),
        *("daihinmin-" + name for name in ("random", "policy", "mc", "mc-rank", "actor")),
    ]
)
"""Players that take a `seed`."""


def names() -> list[str]:
    """The names that `make` knows."""
    return list(_MAKERS)


@overload
def make(
    name: Literal[
        "random",
        "reward",
        "ntuple",
        "expectimax",
        "mc-softmax",
        "alphabeta",
        "value-net",
        "policy-net",
    ],
    /,
    **settings: Any,
) -> Agent: ...
@overload
def make(name: str, /, **settings: Any) -> Any: ...
def make(name: str, /, **settings: Any) -> Any:
    """Makes a player.

    Args:
        name: one of these.

            - `"random"`: a random legal move (`seed`, `size`)
            - `"reward"`: the largest reward at once (`seed`, `size`)
            - `"ntuple"`: greedy by an N-tuple network (`network`: a file, also one of TDL2048 that
              ends in `.w`, or a `Network`; or `tuples` and `size`, for a new one, all zero;
              with none of them the trained one in the package, for 4x4)
            - `"expectimax"`: n-ply search with that network at the end (the same, and `depth` in
              moves, `seconds` a move, `cutoff`: see `ExpectimaxAgent`)
            - `"mc-softmax"`: Monte-Carlo Softmax search with that network, or another `network`:
              the player of one, `"value-net"` for the neural one in the package (`"ntuple"` is the
              default), a value network of
              torch or its file (`device`, `unit`, `mixed`, `symmetric`), any player or solution
              with `estimate` (`simulations`, `select`, `backup`, `seed` and others: see
              `mc_softmax.Settings`)
            - `"alphabeta"`: alpha-beta search with a hand-made evaluation (`depth` in moves,
              `seconds` a move, `tiles`, weights and others: see `alphabeta.Settings`)
            - `"value-net"`: greedy, or by search, with a neural network's values (`net`: a file or
              a network, by default the one in the package; `depth`, `device`, `unit`, `mixed`,
              `symmetric`: see `ValueNetAgent`); needs torch
            - `"policy-net"`: by a neural network that has learned a stronger player's moves (`net`,
              or `layers`, 2 or 5, of one in the package), or that stable-baselines3 has taught
              (`algorithm`, `"maskable-ppo"` for example; `device`: see `PolicyNetAgent`); needs
              torch
            - `"daihinmin-random"`: a random legal play (`seed`)
            - `"daihinmin-sample"`: the competition's sample client
            - `"daihinmin-heuristic"`: plays by rules, better
            - `"daihinmin-policy"`: by a learned softmax policy alone (`temperature`, `seed`: see
              `PolicyAgent`)
            - `"daihinmin-mc"`: Monte-Carlo search (`playouts` or `milliseconds` a move, `seed`: see
              `MonteCarloAgent`)
            - `"daihinmin-rank"`: by the finishing place that a neural network expects (`net`: a
              file or a network, by default the one in the package; see `RankAgent`); needs torch
            - `"daihinmin-mc-rank"`: the search with such a network's advice (settings of both);
              needs torch
            - `"daihinmin-actor"`: by a network that says how good each action is, taught by
              MaskablePPO (`net`: a file or a network, by default the one in the package;
              `temperature`, `seed`, `device`: see `ActorAgent`); needs torch
        **settings: the settings given in brackets.

    Raises:
        ValueError: an unknown name or a wrong setting.
        ImportError: the player needs what is not installed.
    """
    if not isinstance(name, str) or name not in _MAKERS:
        raise ValueError(f"there is no player {name!r}, but {names()}")
    try:
        return _MAKERS[name](**settings)
    except TypeError as error:
        raise ValueError(f"the player {name!r} got wrong settings: {error}") from error


def load(file: str | Path) -> Any:
    """The player of a file, by what the file holds.

    Args:
        file: an N-tuple network (written by afterstate, or by TDL2048 if its name ends in `.w`), a
            policy for Daihinmin, or a neural network, whose name ends in `.safetensors`; if that is
            of a class of one's own, the class is to be in the `NETWORKS` of its module, such as
            `value_net`.

    Returns:
        The greedy player of the network, or the player of the policy.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: another program's file, or a damaged one.
        ImportError: the player needs what is not installed.
    """
    if Path(file).suffix == ".safetensors":
        return _of_neural(file)(net=file)
    if Path(file).suffix != ".w" and files.read(file, only=())[0]["kind"] == "daihinmin-policy":
        return _MAKERS["daihinmin-policy"](policy=file)
    return NTupleAgent(_read_network(file))


def _of_neural(file: str | Path) -> Callable[..., Any]:
    """The maker of the player of a neural network's file, by which network it says it holds."""
    name, known = _neural_module("nets").about(file)["network"], []
    for module, maker in _NEURAL.items():
        networks = list(_neural_module(module).NETWORKS)
        if name in networks:
            return maker
        known += networks
    raise ValueError(
        f"{file} holds a network {name!r}, and those known are {known}: make a player of one of "
        "your own, such as make('value-net', net=net), or first add its class to the NETWORKS of "
        "value_net, policy_net, rank_nets or actor_net"
    )


def find(text: str) -> Any:
    """The player that a command line names.

    Args:
        text: a file of `load`; or a name of `make`, and after commas its settings as
            `name=value`, such as `expectimax,depth=2`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: an unknown name, a wrong setting, or another program's file.
        ImportError: the player needs what is not installed.
    """
    name, *given = text.split(",")
    if name not in _MAKERS:
        if Path(text).suffix in (".npz", ".safetensors", ".w"):
            return load(text)
        raise ValueError(f"there is no player {name!r}, but {names()}, or a player's file")
    pairs = [each.partition("=") for each in given]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError(f"settings of a player are name=value, got {text!r}")
    return make(name, **{key: _setting(told) for key, _, told in pairs})


def _setting(text: str) -> Any:
    """A number, true, false or null as in JSON, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
