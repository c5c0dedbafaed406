"""afterstate: 2048 and Daihinmin (UECda) for reinforcement learning.

Importing it registers the environments `Game2048-v0`, `Game2048Flat-v0` (with observations for
networks of dense layers) and `Daihinmin-v0` with Gymnasium:

    import gymnasium as gym

    env = gym.make("afterstate:Game2048-v0")

`afterstate.envs` has the environments and the rules, `afterstate.agents` the players; each is
imported when it is first used.
"""

from __future__ import annotations

import signal
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


def _is_command() -> bool:
    """Return True if this process is the command `afterstate`, and no program that imports it."""
    program = sys.argv[0] if sys.argv else ""
    by_module = program == "-m" and "afterstate" in sys.orig_argv
    return (by_module or Path(program).stem == "afterstate") and "gymnasium" not in sys.modules


def _asks_for_help() -> bool:
    """Return True if the command only prints a help.

    A help needs no Gymnasium, whose import takes longer.
    """
    from afterstate.envs.commands import asks_for_help

    return asks_for_help(sys.argv[1:])


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it, without a traceback of imports
if not (_is_command() and _asks_for_help()):
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
