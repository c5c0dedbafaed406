"""Players that visitors may choose, and the bounds of their settings.

Only settings listed here can be set from the page: none names a file, and none takes more memory or
time than the limits of a search allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from afterstate import agents
from afterstate.agents.config import check_names, did_you_mean
from afterstate.agents.game2048.search.softmax_settings import POLICIES
from afterstate.envs.messages import shown
from afterstate.web.answers import Json

Number = int | float


SCORE, REWARD = "expected score to come", "reward"
_IN_POINTS = (SCORE, REWARD)
"""Meanings of values that are points of 2048, shown without decimals."""


class Setting(NamedTuple):
    """A setting of a player: a number within bounds, or one of some values with their labels."""

    name: str
    label: str
    default: Number | str | None
    low: Number = 0
    high: Number = 0
    choices: Mapping[str, str] = MappingProxyType({})

    def as_json(self) -> Json:
        """Return the setting as the page shows it."""
        step = 1 if isinstance(self.default, int) else "any"
        return self._asdict() | {"choices": dict(self.choices), "step": step}


class Choice(NamedTuple):
    """A player that visitors may choose."""

    name: str
    label: str
    settings: tuple[Setting, ...] = ()
    player: str = ""  # of `agents.make`; by default the name
    fixed: Mapping[str, Any] = MappingProxyType({})  # settings that visitors do not choose
    values: str = SCORE  # the meaning of the values of moves in a hint

    @property
    def made(self) -> str:
        """The name of the player for `agents.make`."""
        return self.player or self.name

    @property
    def needs_torch(self) -> bool:
        """True if the player needs torch."""
        return agents.needs_torch(self.made)

    def as_json(self) -> Json:
        """Return the player as the page shows it."""
        return {
            "name": self.name,
            "label": self.label,
            "made": self.made,
            "values": self.values,
            "digits": 0 if self.values in _IN_POINTS else 3,
            "needs_torch": self.needs_torch,
            "settings": [setting.as_json() for setting in self.settings],
        }


_SELECT = {"sharp": "sharp"} | {name: name for name in POLICIES}  # the default first
_TILES = {"annoying": "the worst by a quick measure", "chance": "by chance"}
_CUTOFFS = {"worse": "moves worse than the bound", "equal": "worse or equal moves"}
_PLAYOUTS = Setting("playouts", "playouts at most", 500, 1, 5000)
_TEMPERATURE = Setting("temperature", "temperature", 0.0, 0.0, 10.0)

CHOICES: dict[str, tuple[Choice, ...]] = {
    "2048": (
        Choice("expectimax", "Expectimax", (Setting("depth", "depth in moves", 2, 1, 5),)),
        Choice(
            "expectimax-nodes",
            "Expectimax by positions",
            (Setting("nodes", "searched positions", 500, 1, 5000),),
            player="expectimax",
        ),
        Choice(
            "expectimax-deep",
            "Expectimax without unlikely tiles",
            (Setting("depth", "depth in moves", 7, 1, 8),),
            player="expectimax",
            fixed=MappingProxyType({"cutoff": 1e-3}),
        ),
        Choice(
            "expectimax-extended",
            "Expectimax, deeper with few empty cells",
            (Setting("depth", "depth in moves", 4, 1, 5),),
            player="expectimax",
            fixed=MappingProxyType({"extend": 3}),
        ),
        Choice("ntuple", "N-tuple network, greedy"),
        Choice(
            "mc-softmax",
            "Monte-Carlo Softmax",
            (
                Setting("simulations", "simulations", 200, 1, 5000),
                Setting("select", "selection policy", "sharp", choices=_SELECT),
            ),
        ),
        Choice(
            "alphabeta",
            "Alpha-beta",
            (
                Setting("depth", "depth in moves", 5, 1, 10),
                Setting("tiles", "tiles", "annoying", choices=_TILES),
                Setting("cutoffs", "cut off", "worse", choices=_CUTOFFS),
            ),
            values="evaluation",
        ),
        Choice("value-net", "Value network", (Setting("depth", "depth in moves", 1, 1, 2),)),
        Choice("policy-net", "Policy network", values="probability"),
        *(
            Choice(name, label, player="policy-net", fixed=fixed, values=values)
            for name, label, fixed, values in (
                ("policy-2", "Policy network, 2 layers", {"layers": 2}, "probability"),
                ("maskable-ppo", "MaskablePPO", {"algorithm": "maskable-ppo"}, "probability"),
                ("ppo", "PPO", {"algorithm": "ppo"}, "probability"),
                ("qrdqn", "QR-DQN", {"algorithm": "qrdqn"}, "softmax of the action values"),
                ("dqn", "DQN", {"algorithm": "dqn"}, "softmax of the action values"),
            )
        ),
        Choice("reward", "Largest reward", values=REWARD),
        Choice("random", "Random"),
    ),
    "daihinmin": (
        Choice("daihinmin-heuristic", "Heuristic"),
        Choice("daihinmin-mc", "Monte Carlo", (_PLAYOUTS,)),
        Choice("daihinmin-policy", "Policy", (_TEMPERATURE,)),
        Choice("daihinmin-sample", "Sample client"),
        Choice("daihinmin-rank", "Rank network"),
        Choice("daihinmin-mc-rank", "Monte Carlo with rank network", (_PLAYOUTS,)),
        Choice("daihinmin-actor", "MaskablePPO", (_TEMPERATURE,)),
        Choice("daihinmin-random", "Random"),
    ),
}
"""Players by game, the default first."""

_NETWORKS = Path(str(agents.__file__)).parent / "game2048" / "pretrained"

TRAINED = Choice(
    "trained",
    "Your network (Learn)",
    (Setting("depth", "depth in moves", 1, 1, 3),),
    player="ntuple",
)
"""The player of 2048 that the visitor has trained on the page; with depth 1 it plays greedily."""


def listed() -> dict[str, list[Json]]:
    """Return the players that can be made here, as JSON."""
    return {
        game: [each.as_json() for each in choices if _is_here(each)]
        for game, choices in CHOICES.items()
    }


def _is_here(choice: Choice) -> bool:
    """Return True if what a player needs is installed; some networks are not in the wheel."""
    if agents.missing_packages(choice.made):
        return False
    network = choice.fixed.get("algorithm", f"policy_{choice.fixed.get('layers', 5)}")
    return choice.made != "policy-net" or (_NETWORKS / f"{network}.safetensors").exists()


def find(game: str, name: str) -> Choice:
    """Return the player of a name.

    Raises:
        ValueError: there is none.
    """
    known = {each.name: each for each in CHOICES[game]}
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"there is no player {shown(name)} of {game}{did_you_mean(name, known)}")
    return known[name]


def needs_torch(name: str) -> bool:
    """Return True if the player of a name that visitors may choose needs torch."""
    return any(each.name == name and each.needs_torch for game in CHOICES.values() for each in game)


def of_player(game: str, player: str, settings: Mapping[str, Any]) -> Json:
    """Return the choice that is a player of `agents.make` with these settings.

    Raises:
        ValueError: visitors cannot choose it.
    """
    for each in CHOICES[game]:
        rest = {key: value for key, value in settings.items() if key not in each.fixed}
        is_fixed = all(settings.get(key) == value for key, value in each.fixed.items())
        if each.made == player and is_fixed and rest.keys() <= {s.name for s in each.settings}:
            return player_spec(game, each.name, rest)
    raise ValueError(f"the page has no player {shown(player)} with {shown(settings)}")


def player_spec(game: str, name: str, settings: Json) -> Json:
    """Return a player with all its settings, as `{"name": ..., "settings": {...}}`.

    Raises:
        ValueError: an unknown player or setting, or a value out of bounds.
    """
    if not isinstance(settings, dict):
        raise ValueError(f"settings of a player must be an object, got {shown(settings)}")
    choice = TRAINED if (game, name) == ("2048", TRAINED.name) else find(game, name)
    bounds = {each.name: each for each in choice.settings}
    check_names(f"player {shown(name)}", settings, bounds)
    values = {key: _value(each, settings.get(key, each.default)) for key, each in bounds.items()}
    return {"name": name, "settings": values}


def _value(setting: Setting, value: Any) -> Any:
    """Return the value of a setting; raise ValueError if it is not allowed."""
    if setting.choices:
        if not isinstance(value, str) or value not in setting.choices:
            allowed = ", ".join(setting.choices)
            raise ValueError(f"{setting.name} must be one of {allowed}, got {shown(value)}")
        return value
    kinds = (int,) if isinstance(setting.default, int) else (int, float)
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if not is_number or not setting.low <= value <= setting.high:
        kind = "an integer" if kinds == (int,) else "a number"
        bounds = f"{setting.low}..{setting.high}"
        raise ValueError(f"{setting.name} must be {kind} in {bounds}, got {shown(value)}")
    return value
