"""Names of settings and the memory of a network, for tests of learning."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy.typing as npt

from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.values.ntuple_network import Network


def name_of(settings: Any) -> str:
    """Return the settings that differ from the defaults, or from those of the order."""
    if not isinstance(settings, NTupleSettings):
        return str(settings)
    default = asdict(NTupleSettings(settings.rule, settings.order, delay=settings.delay))
    default |= {"rule": "tc", "order": "backward", "delay": 0}
    given = {name: value for name, value in asdict(settings).items() if value != default[name]}
    return "-".join(f"{name}={value}" for name, value in given.items()) or "default"


def memory(net: Network) -> npt.NDArray[Any]:
    """Return the weights as they are stored, floats or fixed-point numbers."""
    return net.fixed if net.fixed.size else net.weights
