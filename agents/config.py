"""Settings that may come from a file: dataclasses whose fields are checked by type and range."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "None": ("null", lambda x: x is None),
    "bool": ("true or false", lambda x: isinstance(x, bool)),
    "int": ("a whole number", lambda x: type(x) is int and abs(x) < 1 << 63),
    "float": ("a number", lambda x: type(x) in (int, float) and abs(x) < 1e300),
    "str": ("a text", lambda x: isinstance(x, str)),
    "dict[str, Any]": ("an object", lambda x: isinstance(x, dict)),
    "list[str]": ("a list of texts", lambda x: _is_list(x, "str")),
    "list[float]": ("a list of numbers", lambda x: _is_list(x, "float")),
}
"""What the fields of settings can be, in the words of JSON, and how that is seen."""

_WITHIN: dict[str, Callable[[float], bool]] = {
    "from 0 on": lambda x: x >= 0,
    "from 1 on": lambda x: x >= 1,
    "from 1 to 10 million": lambda x: 1 <= x <= 10**7,
    "from 0 to 1": lambda x: 0 <= x <= 1,
    "from 0 on and below 1": lambda x: 0 <= x < 1,
    "above 0": lambda x: x > 0,
    "above 0 and below 1": lambda x: 0 < x < 1,
}
"""The ranges in which numbers can be."""


def _is_list(value: Any, kind: str) -> bool:
    """Whether it is a list of things of a kind."""
    return isinstance(value, list) and all(map(_KINDS[kind][1], value))


def check_fields(
    told: Any, ranges: Mapping[str, str], choices: Mapping[str, Collection[str]] | None = None
) -> None:
    """Checks settings that may come from a file; numbers of numpy become those of Python.

    Args:
        told: a dataclass, all of whose types are in `_KINDS`.
        ranges: by name of a number, one of `_WITHIN`.
        choices: by name of a text, those that it can be.

    Raises:
        ValueError: a field is not of its type, not in its range or none of its choices.
    """
    for each in fields(told):
        value, kinds = getattr(told, each.name), str(each.type).split(" | ")
        if isinstance(value, np.generic):
            value = value.item()
            object.__setattr__(told, each.name, value)
        if not any(_KINDS[kind][1](value) for kind in kinds):
            words = " or ".join(_KINDS[kind][0] for kind in kinds)
            raise ValueError(f"{each.name} is {words}, got {value!r}")
        within = ranges.get(each.name)
        if within is not None and value is not None and not _WITHIN[within](value):
            raise ValueError(f"{each.name} is {within}, got {value!r}")
    for name, known in (choices or {}).items():
        if getattr(told, name) not in known:
            raise ValueError(f"{name} is one of {list(known)}, got {getattr(told, name)!r}")


def check_names(of: str, settings: Any, known: Iterable[str]) -> None:
    """Refuses settings that there are not."""
    if not isinstance(settings, dict) or not set(settings) <= set(known):
        raise ValueError(f"settings of the {of} are {list(known)}, got {settings!r}")
