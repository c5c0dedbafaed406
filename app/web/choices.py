"""Players that visitors may choose, and the bounds of their settings.

Only settings listed here can be set from the page: none names a file, and none takes more memory or
time than the limits of a search allow.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

from afterstate import agents
from afterstate.agents.config import did_you_mean

Number = int | float
Spec = dict[str, Any]
"""A player as `{"name": ..., "settings": {...}}`."""


class Setting(NamedTuple):
    """A setting of a player: a number within bounds, or one of some values."""

    name: str
    label: str
    default: Number | str | None
    low: Number = 0
    high: Number = 0
    choices: tuple[str, ...] = ()


class Choice(NamedTuple):
    """A player that visitors may choose."""

    name: str  # of `agents.make`
    label: str
    settings: tuple[Setting, ...] = ()

    @property
    def needs_torch(self) -> bool:
        """True if the player needs torch."""
        return agents.needs_torch(self.name)


_SELECT = ("sharp", "L-max", "G-max", "L-log", "G-log", "falling", "ave", "best")
_PLAYOUTS = Setting("playouts", "playouts per decision", 500, 1, 5000)
_TEMPERATURE = Setting("temperature", "temperature", 0.0, 0.0, 10.0)

CHOICES: dict[str, tuple[Choice, ...]] = {
    "2048": (
        Choice("expectimax", "Expectimax", (Setting("depth", "depth in moves", 2, 1, 5),)),
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
                Setting("tiles", "tiles", "annoying", choices=("annoying", "chance")),
                Setting("cutoffs", "cutoffs", "worse", choices=("worse", "equal")),
            ),
        ),
        Choice("value-net", "Value network", (Setting("depth", "depth in moves", 1, 1, 2),)),
        Choice("policy-net", "Policy network"),
        Choice("reward", "Largest reward"),
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

TRAINED = "trained"
"""Name of the player of 2048 that the visitor has trained on the page."""


def listed() -> dict[str, list[dict[str, Any]]]:
    """Return the players that can be made here, as JSON."""
    has_torch = find_spec("torch") is not None and find_spec("safetensors") is not None
    return {
        game: [
            {**each._asdict(), "settings": [setting._asdict() for setting in each.settings]}
            for each in choices
            if has_torch or not each.needs_torch
        ]
        for game, choices in CHOICES.items()
    }


def checked(game: str, name: str, settings: dict[str, Any]) -> Spec:
    """Return a player with all its settings.

    Raises:
        ValueError: an unknown player or setting, or a value out of bounds.
    """
    if game == "2048" and name == TRAINED and not settings:
        return {"name": TRAINED, "settings": {}}
    known = {each.name: each for each in CHOICES[game]}
    if not isinstance(settings, dict):
        raise ValueError(f"settings of a player must be an object, got {settings!r:.40}")
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"there is no player {name!r} of {game}{did_you_mean(name, known)}")
    bounds = {each.name: each for each in known[name].settings}
    for key in settings:
        if key not in bounds:
            raise ValueError(f"player {name!r} has no setting {key!r}{did_you_mean(key, bounds)}")
    values = {key: _value(each, settings.get(key, each.default)) for key, each in bounds.items()}
    return {"name": name, "settings": values}


def _value(setting: Setting, value: Any) -> Any:
    """Return the value of a setting; raise ValueError if it is not allowed."""
    if setting.choices:
        if value not in setting.choices:
            allowed = ", ".join(setting.choices)
            raise ValueError(f"{setting.name} must be one of {allowed}, got {value!r:.40}")
        return value
    kinds = (int,) if isinstance(setting.default, int) else (int, float)
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if not is_number or not setting.low <= value <= setting.high:
        kind = "an integer" if kinds == (int,) else "a number"
        bounds = f"{setting.low}..{setting.high}"
        raise ValueError(f"{setting.name} must be {kind} in {bounds}, got {value!r:.40}")
    return value
