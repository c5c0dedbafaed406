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
from collections.abc import Sequence
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


def _asks_for_help(words: Sequence[str]) -> bool:
    """Return True if the words of a command line ask for its help."""
    options = words[: words.index("--")] if "--" in words else words
    return bool({"-h", "--help"} & {*options})


_COMMAND, *_words = sys.argv or [""]
if not (Path(_COMMAND).stem == "afterstate" and _asks_for_help(_words)):
    _register()  # helps of the command need no gymnasium, which takes longer than they do


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in ("agents", "envs"):
        return import_module(f"afterstate.{name}")
    if name == "__version__":
        from importlib import metadata

        return metadata.version("afterstate")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
