"""Players of your own, named `module:factory`: a function or class that returns a player.

    afterstate eval mine:Cautious,depth=3

has the settings of the factory after commas. The module is found in the current folder, or where
Python finds modules. Only command lines and calls from Python name factories: settings files run no
code (`config.NamedPlayer`).
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from afterstate.agents.config import check_names
from afterstate.envs.messages import missing, named, shown
from afterstate.envs.options import name_and_pairs, settings_of


def takes_seed(path: str) -> bool:
    """Return True if a factory `module:factory` takes a seed.

    Raises:
        ImportError, ValueError: see `factory`.
    """
    return "seed" in [each.name for each in _parameters(path, factory(path))]


def make(text: str, seed: int | None = None) -> Any:
    """Return the player of a factory.

    Args:
        text: `module:factory`, and after commas settings of the factory as `name=value`.
        seed: seed of a player whose factory takes one, unless its settings have one.

    Raises:
        ImportError: there is no such module, or one that it imports.
        ValueError: there is no such factory, a wrong setting, or what it returns is no player.
    """
    path, *pairs = name_and_pairs(text)
    maker, settings = factory(path), settings_of(pairs)
    parameters = _parameters(path, maker)
    names = [each.name for each in parameters]
    if not any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        check_names(path, settings, names)
    settings = ({"seed": seed} if seed is not None and "seed" in names else {}) | settings
    with named(path):
        player = _made(maker, settings)
    if not hasattr(player, "act") and not (hasattr(player, "choose") and hasattr(player, "give")):
        got = type(player).__name__
        raise ValueError(f"{path} must return a player (act, or choose and give), got {got}")
    return player


def factory(path: str) -> Any:
    """Return the function or class `module:factory`.

    Raises:
        ImportError: there is no such module, or one that it imports.
        ValueError: the module is not Python, or has no such function or class.
    """
    module, _, name = path.partition(":")
    folder = os.getcwd()
    sys.path.insert(0, folder)  # before installed modules of the same name, as `python -m` has it
    try:
        loaded = import_module(module)
    except ImportError as error:
        if missing(error):
            raise  # a package of an extra
        is_own = error.name in (module, module.partition(".")[0])
        what = f"there is no module {error.name!r}" if is_own else error
        if is_own and module.endswith(".py"):
            what = f"a module has no .py, write {module.removesuffix('.py')}:{name}"
        raise ImportError(f"{path}: {what}") from error
    except SyntaxError as error:
        raise ValueError(f"{path}: {error}") from error
    finally:
        sys.path.remove(folder)
    result = getattr(loaded, name, None)
    if not callable(result):
        file = getattr(loaded, "__file__", None) or "built in"
        raise ValueError(f"{path}: {module} has no function or class {name!r} ({file})")
    return result


def _parameters(path: str, maker: Any) -> list[Parameter]:
    """Return the parameters of a factory."""
    try:
        return list(signature(maker).parameters.values())
    except ValueError as error:  # of a type that is built in
        raise ValueError(f"{path} must return a player, got {shown(maker)}") from error


def _made(maker: Any, settings: dict[str, Any]) -> Any:
    """Return what a factory returns for settings."""
    try:
        signature(maker).bind(**settings)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return maker(**settings)
