"""Players, by name or from a file.

    from afterstate import agents

    agent = agents.make("expectimax", depth=3)
    player = agents.make("daihinmin-mc")

A player of 2048 answers `act(boards)`, board words `uint64[B]` to actions `int8[B]`, and
`predict(observations)`, observations of `Game2048-v0` to actions. A player of Daihinmin answers
`choose(view)` with a play and `give(view, n)` with cards: see `afterstate.envs.daihinmin.players`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from afterstate.agents import factories
from afterstate.agents.config import (
    RENAMED_OF_PLAYERS,
    check_names,
    current_names,
    did_you_mean,
)
from afterstate.envs.messages import EXTRAS, listed, missing, named, shown
from afterstate.envs.options import is_factory, name_and_pairs, settings_of

if TYPE_CHECKING:
    from afterstate.agents.game2048.agent import Agent
    from afterstate.envs.daihinmin.players import Player

__all__ = [
    "Agent",
    "find",
    "load",
    "make",
    "missing_packages",
    "names",
    "needs_torch",
    "setting_names",
    "takes_seed",
]


class _Entry(NamedTuple):
    """Module and factory of a player."""

    module: str  # below `afterstate.agents`
    maker: str  # a class or a function there
    settings: tuple[str, str] | None = None  # module and class of settings it takes as well
    needs_torch: bool = False


_2048 = "game2048.players"
_NETS = "game2048.values"
_RULES = "daihinmin.rule_based.players"
_MONTE_CARLO = ("daihinmin.search.monte_carlo", "MonteCarloSettings")

_PLAYERS: dict[str, _Entry] = {
    "random": _Entry("game2048.simple", "RandomAgent"),
    "reward": _Entry("game2048.simple", "RewardAgent"),
    "ntuple": _Entry(_2048, "greedy"),
    "expectimax": _Entry(_2048, "expectimax"),
    "mc-softmax": _Entry(
        _2048, "mc_softmax", ("game2048.search.softmax_settings", "MCSoftmaxSettings")
    ),
    "alphabeta": _Entry(_2048, "alphabeta", ("game2048.search.alphabeta", "AlphaBetaSettings")),
    "value-net": _Entry(f"{_NETS}.value_net", "ValueNetAgent", needs_torch=True),
    "policy-net": _Entry(f"{_NETS}.policy_net", "PolicyNetAgent", needs_torch=True),
    "daihinmin-random": _Entry(_RULES, "RandomAgent"),
    "daihinmin-sample": _Entry(_RULES, "SampleAgent"),
    "daihinmin-heuristic": _Entry(_RULES, "HeuristicAgent"),
    "daihinmin-policy": _Entry("daihinmin.values.softmax_policy", "PolicyAgent"),
    "daihinmin-mc": _Entry("daihinmin.players", "monte_carlo", _MONTE_CARLO),
    "daihinmin-rank": _Entry("daihinmin.values.rank_net", "RankAgent", needs_torch=True),
    "daihinmin-mc-rank": _Entry(
        "daihinmin.players", "monte_carlo_with_rank_net", _MONTE_CARLO, needs_torch=True
    ),
    "daihinmin-actor": _Entry("daihinmin.values.actor_net", "ActorAgent", needs_torch=True),
}

SUFFIXES = (".npz", ".safetensors", ".w")
"""The endings of files that `load` reads."""

_SB3 = "https://github.com/afterstate/afterstate/blob/main/docs/tutorials/ppo_dqn.md"

_BY_NETWORK = ("value-net", "policy-net", "daihinmin-rank", "daihinmin-actor")
"""The players whose module lists the networks, by name, that its files can hold."""


def __getattr__(name: str) -> Any:
    if name == "Agent":  # imported when it is first used, since it loads the rules
        return import_module("afterstate.agents.game2048.agent").Agent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def names() -> list[str]:
    """Return the names that `make` knows."""
    return list(_PLAYERS)


def setting_names(name: str) -> list[str]:
    """Return the settings that a player takes, by its name in `make`.

    >>> setting_names("random")
    ['seed', 'size']
    """
    entry = _entry(name)
    named = [each for each in _parameters(_maker(entry)) if each.kind is not Parameter.VAR_KEYWORD]
    if entry.settings:
        module, name = entry.settings
        named += _parameters(getattr(_import(module), name))
    return [each.name for each in named]


def needs_torch(name: str) -> bool:
    """Return True if a name of `make` is that of a player that needs torch.

    >>> needs_torch("value-net"), needs_torch("ntuple")
    (True, False)

    Raises:
        ValueError: an unknown name.
    """
    return _entry(name).needs_torch


def missing_packages(name: str) -> list[str]:
    """Return the packages that a player of `make` needs and that are not installed.

    >>> missing_packages("ntuple")
    []

    Raises:
        ValueError: an unknown name.
    """
    packages = EXTRAS["neural"] if needs_torch(name) else ()
    return [each for each in packages if find_spec(each) is None]


def takes_seed(name: str) -> bool:
    """Return True if the player of a name of `make`, or of your own `module:factory`, takes a seed.

    >>> takes_seed("random"), takes_seed("ntuple"), takes_seed("unknown")
    (True, False, False)

    Raises:
        ImportError, ValueError: there is no such module or function.
    """
    if isinstance(name, str) and is_factory(name):
        return factories.takes_seed(name)
    return name in _PLAYERS and "seed" in setting_names(name)


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
def make(
    name: Literal[
        "daihinmin-random",
        "daihinmin-sample",
        "daihinmin-heuristic",
        "daihinmin-policy",
        "daihinmin-mc",
        "daihinmin-rank",
        "daihinmin-mc-rank",
        "daihinmin-actor",
    ],
    /,
    **settings: Any,
) -> Player: ...
@overload
def make(name: str, /, **settings: Any) -> Any: ...
def make(name: str, /, **settings: Any) -> Any:
    """Return a player.

    Args:
        name: one of `names()`. Of 2048:

            - `"random"`: a random legal move (`seed`, `size`)
            - `"reward"`: the move with the largest immediate reward (`seed`, `size`)
            - `"ntuple"`: greedy by an N-tuple network (`network`: a file, also one of TDL2048 that
              ends in `.w`, or a `Network`; or `tuples` and `size` for a new one, all zero; by
              default the pretrained one for 4x4)
            - `"expectimax"`: expectimax search over that network (the same, and `depth` in moves,
              `seconds` or `nodes` a move, `cutoff`: see `ExpectimaxAgent`)
            - `"mc-softmax"`: Monte-Carlo Softmax search over that network or another value
              function (`network`: also `"value-net"`, a value network or its file, or any object
              with `estimate`; `simulations`, `select`, `backup`, `seed` and others: see
              `softmax_settings.MCSoftmaxSettings`)
            - `"alphabeta"`: alpha-beta search with a hand-made evaluation (`depth` in moves,
              `seconds` a move, weights and others: see `alphabeta.AlphaBetaSettings`)
            - `"value-net"`: greedy, or by search, with the values of a neural network (`network`: a
              network or its file, by default the pretrained one; `depth`, `device` and others: see
              `ValueNetAgent`); needs torch
            - `"policy-net"`: a neural network that imitates a stronger player (`network`, or
              `layers`, 2 or 5, of a pretrained one) or was trained by stable-baselines3
              (`algorithm`, such as `"maskable-ppo"`); needs torch

            And of Daihinmin:

            - `"daihinmin-random"`: a random legal play (`seed`)
            - `"daihinmin-sample"`: the competition's sample client
            - `"daihinmin-heuristic"`: a stronger player by rules
            - `"daihinmin-policy"`: a learned softmax policy (`temperature`, `seed`)
            - `"daihinmin-mc"`: Monte-Carlo search (`playouts` or `seconds` a move, `seed` and
              others: see `MonteCarloAgent` and `monte_carlo.MonteCarloSettings`)
            - `"daihinmin-rank"`: a neural network that predicts finishing places (`network`: a
              network or its file, by default the pretrained one: see `RankAgent`); needs torch
            - `"daihinmin-mc-rank"`: the search with that network's prior (the same, and
              `network`); needs torch
            - `"daihinmin-actor"`: a policy network trained by MaskablePPO (`network`,
              `temperature`, `seed`: see `ActorAgent`); needs torch
        **settings: those in brackets; `setting_names(name)` lists all of a player.

    Raises:
        ValueError: an unknown name, or a setting that is unknown or out of range.
        ImportError: the player needs an extra that is not installed.
    """
    entry = _entry(name)
    settings = current_names(settings, RENAMED_OF_PLAYERS)
    check_names(f"player {shown(name)}", settings, setting_names(name))
    with named(name), _extra_named():
        return _maker(entry)(**settings)


def load(file: str | Path) -> Any:
    """Return the player of a file, by what the file holds.

    Args:
        file: an N-tuple network (of afterstate, or of TDL2048 if its name ends in `.w`), a policy
            of Daihinmin, or a neural network, whose name ends in `.safetensors`. The class of a
            network of your own must be in the `NETWORKS` of its module, such as `value_net`.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: another program's file, or a damaged one.
        ImportError: the player needs an extra that is not installed.
    """
    from afterstate.agents import files

    if not isinstance(file, (str, Path)) or Path(file).suffix not in SUFFIXES:
        given = str(file) if isinstance(file, Path) else file
        advice = _suggestion(given) if Path(str(file)).suffix == ".zip" else ""
        raise ValueError(f"file must end in {', '.join(SUFFIXES)}, got {shown(given)}{advice}")
    if Path(file).suffix == ".safetensors":
        return make(_player_of_net(file), network=file)
    if Path(file).suffix != ".w" and files.read(file, only=())[0]["kind"] == "daihinmin-policy":
        return make("daihinmin-policy", policy=file)
    return make("ntuple", network=file)


def find(text: str, seed: int | None = None) -> Any:
    """Return the player that a command line names.

    Args:
        text: a file for `load`; or a name for `make`, with or without `daihinmin-` (`random` is the
            player of 2048), and after commas its settings as `name=value`, such as
            `expectimax,depth=2`; or a function or class of your own, `module:factory`, which
            returns a player, with its settings.
        seed: seed of a player that chooses by chance, unless its settings have one.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: an unknown name, a wrong setting, or another program's file.
        ImportError: there is no such module, or the player needs an extra that is not installed.
    """
    if not isinstance(text, str):
        raise ValueError(f"player must be a text, got {shown(text)}")
    if is_factory(text):
        return factories.make(text, seed)
    name, *pairs = name_and_pairs(text)
    if name not in _PLAYERS and f"daihinmin-{name}" in _PLAYERS:
        name = f"daihinmin-{name}"
    if name not in _PLAYERS and Path(text).suffix in SUFFIXES:
        return load(text)
    if name not in _PLAYERS and Path(name).suffix in SUFFIXES:
        raise ValueError(
            f"a player's file has no settings, got {shown(text)}; others may have it as their "
            f"network, such as expectimax,depth=2,network={name}"
        )
    _entry(name)
    settings = {} if seed is None or not takes_seed(name) else {"seed": seed}
    return make(name, **(settings | settings_of(pairs)))


def _entry(name: str) -> _Entry:
    """Return the entry of a name; raise ValueError with the nearest one if there is none."""
    if not isinstance(name, str) or name not in _PLAYERS:
        advice = _suggestion(name if isinstance(name, str) else "")
        raise ValueError(f"there is no player {shown(name)}{advice}")
    return _PLAYERS[name]


def _suggestion(name: str) -> str:
    """Return what may be meant by the unknown name of a player."""
    path = Path(name)
    if path.suffix == ".zip":
        return f": {_SB3} shows how to make a player of a model of stable-baselines3"
    if "," in name:
        first, *pairs = name_and_pairs(name)
        return f': settings are arguments of their own, make("{first}", {", ".join(pairs)})'
    if "=" in name:
        return f": settings follow a player's name and a comma, such as expectimax,{name}"
    if 0 < len(name) < 200 and path.is_dir():
        files = {each.name for each in path.iterdir() if each.suffix in SUFFIXES}
        files.discard("learner.safetensors")  # which does not play
        return f": it is a folder, files of players in it: {', '.join(sorted(files)) or 'none'}"
    if 0 < len(name) < 200 and path.is_file():
        return f": files of networks must end in {', '.join(SUFFIXES)}"
    if f"daihinmin-{name}" in _PLAYERS:
        return f", did you mean 'daihinmin-{name}'?"
    names = did_you_mean(name, _PLAYERS, [each.removeprefix("daihinmin-") for each in _PLAYERS])
    return f"{names}; or a file that ends in {', '.join(SUFFIXES)}"


def _import(module: str) -> Any:
    """Return a module below `afterstate.agents`, or raise ImportError with the extra it needs."""
    with _extra_named():
        return import_module(f"afterstate.agents.{module}")


@contextmanager
def _extra_named() -> Iterator[None]:
    """Name the extra of a missing package in the message of the error."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not (message := missing(error, "this player")):
            raise
        raise ImportError(message) from error


def _maker(entry: _Entry) -> Any:
    """Return the class or function that makes a player."""
    return getattr(_import(entry.module), entry.maker)


def _parameters(maker: Any) -> list[Parameter]:
    """Return the parameters of a class or a function."""
    return list(signature(maker).parameters.values())


def _player_of_net(file: str | Path) -> str:
    """Return the name of the player that plays the neural network of a file."""
    nets = _import("nets")
    nets.refuse_checkpoint(file)
    network, known = nets.metadata(file)["network"], []
    for name in _BY_NETWORK:
        networks = list(_import(_PLAYERS[name].module).NETWORKS)
        if network in networks:
            return name
        known += networks
    raise ValueError(
        f"{file} holds a network {shown(network)}, known are {listed(known)}: make its player "
        "yourself, such as make('value-net', network=net), or first add its class to the NETWORKS "
        "of its module"
    )
