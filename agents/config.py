"""Settings: frozen dataclasses that pydantic checks, from Python, JSON files and command lines.

    @settings
    class Settings:
        games: Count = 64  # and a docstring: "Games played in parallel."

    Settings(games=0)                    # ValueError: games must be >= 1, got 0
    read("run.json", Settings)           # the same checks for a file

A field's range is in its type, its meaning and unit in the docstring below it, its default behind
it; command lines (`afterstate.agents.training`) take all three from there.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import numpy as np
import pydantic
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)
from typing_extensions import dataclass_transform

T = TypeVar("T")

_plain = BeforeValidator(lambda value: value.item() if isinstance(value, np.generic) else value)

Number = Annotated[float, _plain, Field(allow_inf_nan=False)]
Positive = Annotated[float, _plain, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, _plain, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, _plain, Field(ge=0, le=1)]
"""A number from 0 to 1."""
Rate = Annotated[float, _plain, Field(gt=0, le=1)]
"""A number above 0 and at most 1."""
Whole = Annotated[int, _plain, Field(ge=0, lt=1 << 63)]
"""An integer from 0 on, such as a seed."""
Count = Annotated[int, _plain, Field(ge=1, lt=1 << 63)]
"""An integer from 1 on."""


def _whole_number(value: float) -> float:
    """Return the value if it is an integer."""
    if value != int(value):
        raise ValueError(f"amount must be a whole number, got {value}")
    return value


Amount = Annotated[float, _plain, Field(ge=1, lt=1 << 63), AfterValidator(_whole_number)]
"""A whole number from 1 on that may be written as `1e9`, such as a number of moves."""

AmountFrom0 = Annotated[float, _plain, Field(ge=0, lt=1 << 63), AfterValidator(_whole_number)]
"""A whole number from 0 on that may be written as `1e9`."""

_CONFIG = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)


@dataclass_transform(frozen_default=True, kw_only_default=False)
def settings(cls: type[T]) -> type[T]:
    """Return the class as a frozen dataclass whose fields are checked when it is made.

    Raises (when it is made):
        ValueError: an unknown name or a value of another type or out of range, in one line.
    """
    made: Any = pydantic.dataclasses.dataclass(cls, frozen=True, config=_CONFIG)
    original = made.__init__

    @functools.wraps(original)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        check_names(cls.__name__, kwargs, made.__dataclass_fields__)
        try:
            original(self, *args, **kwargs)
        except ValidationError as error:
            raise ValueError(one_line(error)) from None

    made.__init__ = checked
    return cast(type[T], made)


def read(path: str | Path, kind: type[T]) -> T:
    """Return the settings of a JSON file.

    Args:
        path: the file, a JSON object.
        kind: the class of the settings.

    Raises:
        OSError: the file cannot be read.
        ValueError: not such settings; the message names the file.
    """
    try:
        return TypeAdapter(kind).validate_json(Path(path).read_bytes())
    except ValidationError as error:
        raise ValueError(f"{path}: {one_line(error)}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def from_dict(values: Mapping[str, Any], kind: type[T]) -> T:
    """Return the settings of a JSON object, such as one that is part of a file.

    Raises:
        ValueError: not such settings.
    """
    try:
        return TypeAdapter(kind).validate_json(json.dumps(values))
    except ValidationError as error:
        raise ValueError(one_line(error)) from None


def one_line(error: ValidationError) -> str:
    """Return what is wrong in one line: `learner.rate must be <= 1, got 2.0`."""
    return "; ".join(dict.fromkeys(_told(each) for each in error.errors(include_url=False)))


def _told(error: Any) -> str:
    """Return one error of pydantic as `name must be ..., got ...`."""
    name = ".".join(map(str, error["loc"]))
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "json_invalid":
        return f"invalid JSON: {context['error']}"
    if kind == "unexpected_keyword_argument":
        return f"unknown setting {name!r}"
    wanted = _WANTED.get(kind, error["msg"][0].lower() + error["msg"][1:])
    return f"{name or 'value'} must be {wanted.format(**context)}, got {error['input']!r}"


_WANTED = {
    "greater_than_equal": ">= {ge}",
    "greater_than": "> {gt}",
    "less_than_equal": "<= {le}",
    "less_than": "< {lt}",
    "finite_number": "finite",
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "dataclass_type": "an object",
    "dataclass_exact_type": "an object",
    "none_required": "null",
    "literal_error": "{expected}",
}
"""What each kind of error of pydantic expected, where its own message has other words."""


def check_names(of: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError if a name is not one of those known, with the nearest one."""
    known = list(known)
    for name in given:
        if name not in known:
            raise ValueError(f"{of} has no setting {name!r}{did_you_mean(name, known)}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'x'? (known: ...)` for a name that is not known."""
    known = list(known)
    near = get_close_matches(str(name), known, n=1)
    hint = f", did you mean {near[0]!r}?" if near else ";"
    return f"{hint} known: {', '.join(map(str, known)) or 'none'}"


# The previous checks, for classes that are not `settings` yet.

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
