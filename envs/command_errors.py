"""Errors of command lines in one line: what is wrong, what was expected, and where help is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from afterstate.envs.messages import shown


class CommandLineError(Exception):
    """A wrong command line; its text says what is wrong with it."""


@contextmanager
def in_one_line(kind: Any) -> Iterator[None]:
    """Raise CommandLineError where tyro would print a box of several lines.

    There is no public way to it: a version of tyro with other names prints its boxes.

    Args:
        kind: the dataclass that tyro reads.
    """
    try:
        from tyro._errors import on_parse_error
    except ImportError:
        yield
        return

    def handle(event: Any) -> None:
        raise CommandLineError(_problem(event, kind))

    with on_parse_error(handle):
        yield


def _problem(event: Any, kind: Any) -> str:
    """Return what is wrong, by the name of tyro's event."""
    name = type(event).__name__
    if name == "UnrecognizedArgs" or (name == "MissingArgs" and event.unrecognized_tokens):
        unknown = event.tokens if name == "UnrecognizedArgs" else event.unrecognized_tokens
        return _unknown(unknown[0], [*_option_names(kind), "--help"])
    if name == "MissingArgs":
        missing = [_name(each.arg) for each in event.missing_arguments]
        return f"{' and '.join(missing)} must be given"
    if name == "InvalidChoice":
        expected = f"{_name(event.argument)} must be one of {', '.join(event.choices)}"
        return f"{expected}, got {shown(event.value)}{_near(event.value, event.choices)}"
    if name == "BadValue":
        return f"{_name(event.argument)} must have a value"
    if name == "InstantiationFailure":
        place = f"{_name(event.argument)} " if event.argument is not None else ""
        return place + " ".join(event.message.split())
    return f"wrong options ({name})"


def _unknown(word: str, known: list[str]) -> str:
    """Return that an option or word is unknown, with the nearest option."""
    option = word.partition("=")[0]
    what = "option" if word.startswith("-") else "argument"
    return f"there is no {what} {shown(option)}{_near(option, known)}"


def _near(word: str, known: Any) -> str:
    """Return the nearest of the known words, as a question."""
    near = get_close_matches(word, list(known), 1)
    return f", did you mean {near[0]}?" if near else ""


def _name(argument: Any) -> str:
    """Return the name of an argument in its usage."""
    if argument.is_positional():
        return str(argument.field.intern_name).replace("_", "-")
    return str(argument.lowered.name_or_flags[-1])


def _option_names(kind: Any, prefix: str = "--") -> list[str]:
    """Return the options of a dataclass, those of nested ones as `--learner.rate`."""
    names: list[str] = []
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        hint, name = hints[each.name], each.name.replace("_", "-")
        if get_origin(hint) is Annotated:
            hint, *metadata = get_args(hint)
            name = "" if "" in [getattr(m, "name", None) for m in metadata] else name
        if is_dataclass(hint):
            names += _option_names(hint, f"{prefix}{name}." if name else prefix)
        else:
            names.append(prefix + name)
    return names
