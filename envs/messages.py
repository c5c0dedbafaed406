"""Values in messages of errors; imports nothing but the standard library."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

_LONGEST = 4000
_TEXTS = reprlib.Repr()
_TEXTS.maxlevel = 4
_TEXTS.maxdict = _TEXTS.maxlist = _TEXTS.maxtuple = _TEXTS.maxset = 20
_TEXTS.maxstring = _TEXTS.maxlong = _TEXTS.maxother = 200


def shown(value: Any) -> str:
    """Return a value as a message shows it, in a line of at most 200 characters."""
    try:
        text = _TEXTS.repr(value)[:200]
        return "".join(each if each.isprintable() else " " for each in text)
    except Exception:  # of the value's own code, or an integer of too many digits
        return f"a value of type {type(value).__name__}"


def printable(text: str) -> str:
    """Return the first 4,000 characters of a text, with spaces for control characters."""
    kept = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
    return "".join(each if each.isprintable() or each == "\n" else " " for each in kept)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that another one is probably meant for; None if none is like it.

    >>> nearest("Ntupel", ["ntuple", "random"]), nearest("ntupel", ["random"])
    ('ntuple', None)
    """
    by_lower = {each.lower(): each for each in known}
    matches = get_close_matches(word.lower(), list(by_lower), 1, 0.7)
    return by_lower[matches[0]] if matches else None


def listed(values: Iterable[Any]) -> str:
    """Return values as messages list them: `a, b, c`."""
    return ", ".join(map(str, values))


def counted(n: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "card"), counted(2, "card")
    ('1 card', '2 cards')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def is_text(value: str | bytes) -> bool:
    """Return True if UTF-8 has all characters; False for bytes of a command line that are none."""
    try:
        value.decode() if isinstance(value, bytes) else value.encode()
    except UnicodeError:
        return False
    return True


@contextmanager
def named(setting: str) -> Iterator[None]:
    """Put the name of a setting before the messages of errors about its value."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{setting}: {error}") from error
