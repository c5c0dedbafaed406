"""Environments of afterstate. Importing this module registers `Game2048-v0` with Gymnasium.

    import gymnasium as gym, afterstate.envs
    env = gym.make("Game2048-v0")

`Game2048Env`, `Game2048VectorEnv` and `Game2048VecEnv` (for stable-baselines3) are imported when
they are first asked for, so that this module is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import register

if TYPE_CHECKING:
    from afterstate.envs.game2048.env import Game2048Env
    from afterstate.envs.game2048.sb3_vec_env import Game2048VecEnv as Game2048VecEnv
    from afterstate.envs.game2048.vector_env import Game2048VectorEnv

__all__ = ["Game2048Env", "Game2048VectorEnv"]  # what needs no extra

_HOMES = {
    "Game2048Env": "afterstate.envs.game2048.env",
    "Game2048VectorEnv": "afterstate.envs.game2048.vector_env",
    "Game2048VecEnv": "afterstate.envs.game2048.sb3_vec_env",
}

register(
    id="Game2048-v0",
    entry_point="afterstate.envs.game2048.env:Game2048Env",
    vector_entry_point="afterstate.envs.game2048.vector_env:Game2048VectorEnv",
)


def __dir__() -> list[str]:
    return sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
