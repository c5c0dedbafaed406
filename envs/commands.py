"""Command lines, read by tyro into dataclasses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn, TypeVar

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

    config = (tyro.conf.PositionalRequiredArgs, tyro.conf.FlagCreatePairsOff)
    return tyro.cli(kind, prog=program, args=arguments, config=config)


def fail(error: object) -> NoReturn:
    """Print what is wrong with a command line and exit with 2."""
    print(f"error: {error}", file=sys.stderr)
    raise SystemExit(2)
