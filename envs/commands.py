"""Command lines, read by tyro into dataclasses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


def parse(kind: type[T], program: str, arguments: Sequence[str] | None = None) -> T:
    """Return the settings of a command line; fields without a default are positional.

    Args:
        kind: a dataclass, whose docstrings are the help texts.
        program: name of the command in its usage.
        arguments: words of the command line, by default those of this process.

    Raises:
        SystemExit: the command line is wrong or asks for help.
    """
    import tyro

    return tyro.cli(kind, prog=program, args=arguments, config=_config())


def parse_one_of(
    kinds: Mapping[str, type[Any]], program: str, arguments: Sequence[str] | None = None
) -> Any:
    """Return the settings of a command line that begins with the name of a sub-command.

    Args:
        kinds: a dataclass for each sub-command.
        program: name of the command in its usage.
        arguments: words of the command line, by default those of this process.

    Raises:
        SystemExit: the command line is wrong or asks for help.
    """
    import tyro

    named: dict[str, Any] = dict(kinds)
    options: Any = {"prog": program, "args": arguments, "config": _config()}
    return tyro.extras.subcommand_cli_from_dict(named, **options)


def _config() -> tuple[Any, ...]:
    """Return how tyro reads all commands: required fields are positional, flags have one form."""
    import tyro

    return tyro.conf.PositionalRequiredArgs, tyro.conf.FlagCreatePairsOff


def exit_code(command: Callable[..., Any], *arguments: Any) -> int:
    """Run a command and return its exit code.

    Args:
        command: returns its exit code, None for 0. Its errors of files, values and missing packages
            are what is wrong with its input; a `KeyboardInterrupt` may say how to go on.
        arguments: of the command.

    Returns:
        The code, 130 if the command was interrupted.

    Raises:
        SystemExit: 2 with a message on stderr for wrong input.
    """
    try:
        return int(command(*arguments) or 0)
    except BrokenPipeError:
        raise
    except (OSError, ValueError, ImportError) as error:
        fail(missing(error) or error)
    except KeyboardInterrupt as interrupt:
        print(*interrupt.args, file=sys.stderr)
        return 130


EXTRAS = {
    "neural": ("torch", "safetensors"),
    "train": ("filelock", "joblib"),
    "render": ("PIL", "pygame"),
    "video": ("moviepy",),
    "sb3": ("stable_baselines3", "sb3_contrib"),
    "web": ("fastapi", "uvicorn"),
    "ray": ("ray",),
    "examples": ("adjustText", "matplotlib", "pandas", "scipy", "tensorboard", "yaml"),
}
"""Packages that only an extra installs."""


def missing(error: Exception) -> str:
    """Return how to install a package that an import did not find; an empty text if unknown."""
    package = (getattr(error, "name", None) or "").partition(".")[0]
    extras = [extra for extra, packages in EXTRAS.items() if package in packages]
    if not extras or not str(error).startswith("No module named"):
        return ""
    return f'this needs {package}: pip install "afterstate[{extras[0]}]"'


def fail(error: object) -> NoReturn:
    """Print what is wrong with a command line and exit with 2."""
    print(f"error: {error}", file=sys.stderr)
    raise SystemExit(2)
