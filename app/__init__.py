"""afterstate: 2048 and Daihinmin (UECda) for reinforcement learning.

Importing it registers the environments `Game2048-v0`, `Game2048Flat-v0` (with observations for
networks of dense layers) and `Daihinmin-v0` with Gymnasium:

    import gymnasium as gym

    env = gym.make("afterstate:Game2048-v0")

`afterstate.envs` has the environments and the rules, `afterstate.agents` the players; each is
imported when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afterstate import agents, envs

__all__ = ["__version__", "agents", "envs"]
__version__: str


def _register() -> None:
    """Register the environments."""
    from gymnasium.envs.registration import register

    for name, settings in (("Game2048-v0", {}), ("Game2048Flat-v0", {"observation": "flat"})):
        register(
            id=name,
            entry_point="afterstate.envs.game2048.env:Game2048Env",
            vector_entry_point="afterstate.envs.game2048.vector_env:Game2048VectorEnv",
            kwargs=settings,
        )
    register(
        id="Daihinmin-v0",
        entry_point="afterstate.envs.daihinmin.seat_env:DaihinminEnv",
        vector_entry_point="afterstate.envs.daihinmin.vector_env:DaihinminVectorEnv",
    )


def _is_only_help() -> bool:
    """Return True if this process is the command `afterstate`, which only prints a help.

    A help needs no Gymnasium, whose import takes longer. Where a program has imported it already,
    registering costs nothing.
    """
    program, *words = sys.argv or [""]
    if Path(program).stem != "afterstate" or "gymnasium" in sys.modules:
        return False
    from afterstate.envs.commands import asks_for_help

    return asks_for_help(words)


if not _is_only_help():
    _register()


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in ("agents", "envs"):
        return import_module(f"afterstate.{name}")
    if name == "__version__":
        from importlib import metadata

        return metadata.version("afterstate")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
