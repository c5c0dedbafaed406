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


EXTRAS = {
    "neural": ("torch", "safetensors"),
    "train": ("filelock", "joblib"),
    "render": ("PIL", "pygame"),
    "video": ("moviepy",),
    "sb3": ("stable_baselines3", "sb3_contrib"),
    "web": ("fastapi", "uvicorn"),
    "ray": ("ray",),
    "examples": ("matplotlib", "pandas", "scipy", "tensorboard", "tyro", "yaml"),
}
"""Modules of packages that only an extra installs."""

_PACKAGES = {
    "PIL": "pillow",
    "pygame": "pygame-ce",
    "sb3_contrib": "sb3-contrib",
    "stable_baselines3": "stable-baselines3",
    "yaml": "pyyaml",
}
"""Packages by the modules that have another name."""


def installed_by(*modules: str) -> str:
    """Return the command that installs modules of extras.

    >>> installed_by("torch", "joblib")
    'pip install "afterstate[neural,train]"'
    """
    extras = [extra for extra, brought in EXTRAS.items() if not {*brought}.isdisjoint(modules)]
    return f'pip install "afterstate[{",".join(extras)}]"'


def needs(user: str, *modules: str) -> str:
    """Return the message of an error that something needs modules of extras.

    >>> needs("the page", "fastapi", "uvicorn")
    'the page needs fastapi and uvicorn: pip install "afterstate[web]"'
    """
    packages = [_PACKAGES.get(each, each) for each in modules]
    return f"{user} needs {' and '.join(packages)}: {installed_by(*modules)}"


def missing(error: Exception, user: str = "this") -> str:
    """Return that a package of an extra is missing, which an import did not find; else no text.

    Args:
        error: of the import.
        user: what needs the package.
    """
    if not isinstance(error, ModuleNotFoundError):
        return ""
    module = error.name or ""
    return needs(user, module) if any(module in each for each in EXTRAS.values()) else ""


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
