"""afterstate: 2048 and Daihinmin (UECda) for reinforcement learning.

Importing it registers the environments `Game2048-v0`, `Game2048Flat-v0` (with observations for
networks of dense layers) and `Daihinmin-v0` with Gymnasium:

    import gymnasium as gym

    env = gym.make("afterstate:Game2048-v0")

`afterstate.envs` has the environments and the rules, `afterstate.agents` the players; each is
imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import register

if TYPE_CHECKING:
    from afterstate import agents, envs

__all__ = ["__version__", "agents", "envs"]
__version__ = metadata.version("afterstate")

for _id, _settings in (("Game2048-v0", {}), ("Game2048Flat-v0", {"observation": "flat"})):
    register(
        id=_id,
        entry_point="afterstate.envs.game2048.env:Game2048Env",
        vector_entry_point="afterstate.envs.game2048.vector_env:Game2048VectorEnv",
        kwargs=_settings,
    )
register(
    id="Daihinmin-v0",
    entry_point="afterstate.envs.daihinmin.seat_env:DaihinminEnv",
    vector_entry_point="afterstate.envs.daihinmin.vector_env:DaihinminVectorEnv",
)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in ("agents", "envs"):
        return import_module(f"afterstate.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
