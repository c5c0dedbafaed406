"""Environments of afterstate, which `import afterstate` registers with Gymnasium.

    import gymnasium as gym, afterstate
    env = gym.make("Game2048-v0")
    env = gym.make("Daihinmin-v0", opponents="sample")

    from afterstate.envs import daihinmin_v0  # for PettingZoo
    env = daihinmin_v0.env()

`daihinmin_v0`, `DaihinminEnv`, `DaihinminVectorEnv`, `Game2048Env`, `Game2048VectorEnv` and
`Game2048VecEnv` (for stable-baselines3) are imported on first access, which keeps this module
light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afterstate.envs import daihinmin_v0
    from afterstate.envs.daihinmin.seat_env import DaihinminEnv
    from afterstate.envs.daihinmin.vector_env import DaihinminVectorEnv
    from afterstate.envs.game2048.env import Game2048Env
    from afterstate.envs.game2048.sb3_vec_env import Game2048VecEnv as Game2048VecEnv
    from afterstate.envs.game2048.vector_env import Game2048VectorEnv

# Names that need no extra:
__all__ = [
    "DaihinminEnv",
    "DaihinminVectorEnv",
    "Game2048Env",
    "Game2048VectorEnv",
    "daihinmin_v0",
]

_MODULES = {
    "DaihinminEnv": "afterstate.envs.daihinmin.seat_env",
    "DaihinminVectorEnv": "afterstate.envs.daihinmin.vector_env",
    "Game2048Env": "afterstate.envs.game2048.env",
    "Game2048VectorEnv": "afterstate.envs.game2048.vector_env",
    "Game2048VecEnv": "afterstate.envs.game2048.sb3_vec_env",
}


def __dir__() -> list[str]:
    return sorted([*_MODULES, "daihinmin_v0"])


def __getattr__(name: str) -> Any:
    if name == "daihinmin_v0":
        return import_module("afterstate.envs.daihinmin_v0")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
