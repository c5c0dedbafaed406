"""Settings: frozen dataclasses that pydantic checks, from Python, JSON files and command lines.

    @settings
    class Settings:
        games: Count = 64  # and a docstring: "Games played in parallel."

    Settings(games=0)                    # ValueError: games must be >= 1, got 0
    read("run.json", Settings)           # the same checks for a file

A field's range is in its type, its meaning and unit in the docstring below it, its default behind
it; command lines (`afterstate train`) take all three from there.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast, get_type_hints

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

from afterstate.envs import json_files
from afterstate.envs.messages import listed, nearest, needs, shown
from afterstate.envs.options import Player, default_text, is_factory

T = TypeVar("T")


def _of_python(value: Any) -> Any:
    """Return a number of numpy as one of Python; numpy is imported when settings are checked."""
    import numpy as np

    return value.item() if isinstance(value, np.generic) else value


def _whole(value: Any) -> Any:
    """Return a whole number such as 1e9, which JSON has as a float, as an integer."""
    value = _of_python(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


_plain, _integer = BeforeValidator(_of_python), BeforeValidator(_whole)

Number = Annotated[float, _plain, Field(allow_inf_nan=False)]
MAX_SECONDS = 1e6
Seconds = Annotated[float, _plain, Field(gt=0, le=MAX_SECONDS)]
"""A time limit, at most 11 days."""
Positive = Annotated[float, _plain, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, _plain, Field(ge=0, allow_inf_nan=False)]
LEAST_TEMPERATURE = 1e-9
"""The least divisor of scores in a softmax, which a temperature of 0 stands for."""
Share = Annotated[float, _plain, Field(ge=0, le=1)]
"""A number from 0 to 1."""
ShareBelow1 = Annotated[float, _plain, Field(ge=0, lt=1)]
"""A number from 0 on and below 1."""
OpenShare = Annotated[float, _plain, Field(gt=0, lt=1)]
"""A number above 0 and below 1."""
Rate = Annotated[float, _plain, Field(gt=0, le=1)]
"""A number above 0 and at most 1."""
Whole = Annotated[int, _integer, Field(ge=0, lt=1 << 63)]
"""An integer from 0 on, such as a seed; it may be written as 1e9."""
Count = Annotated[int, _integer, Field(ge=1, lt=1 << 63)]
"""An integer from 1 on; it may be written as 1e9."""
Jobs = Annotated[int, _integer, Field(ge=1, le=1024)]
"""A number of processes."""


def _is_installed(backend: str) -> str:
    """Return a backend whose package is installed."""
    if backend == "ray" and find_spec("ray") is None:
        raise ValueError(needs("a Ray cluster", "ray"))
    return backend


Backend = Annotated[Literal["local", "ray"], AfterValidator(_is_installed)]
"""The place of processes: this machine, or a Ray cluster."""


def _is_no_code(player: str) -> str:
    """Return a player that no code of its own makes."""
    if is_factory(player):
        raise ValueError(f"a player of settings must be a name or a file, got {shown(player)}")
    return player


NamedPlayer = Annotated[Player, AfterValidator(_is_no_code)]
"""A player of settings, which may come from another's file: a name or a file."""

_CONFIG = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)


@dataclass_transform(frozen_default=True, kw_only_default=False, field_specifiers=(field,))
def settings(cls: type[T]) -> type[T]:
    """Return the class as a frozen dataclass whose fields are checked when it is made.

    Raises (when it is made):
        ValueError: an unknown name or a value of another type or out of range, in one line.
    """
    made: Any = pydantic.dataclasses.dataclass(cls, frozen=True, config=_CONFIG)
    original = made.__init__

    @functools.wraps(original)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        check_names(cls.__name__, kwargs, [each.name for each in fields(made)])
        try:
            original(self, *args, **kwargs)
        except ValidationError as error:
            raise ValueError(one_line(error, kwargs)) from None

    made.__init__ = checked
    return cast(type[T], made)


def checked(name: str, value: Any, kind: Any) -> Any:
    """Return one setting, checked as a field of that type.

    >>> checked("temperature", 0.5, Positive)
    0.5

    Raises:
        ValueError: another type, or out of its range; it names the setting.
    """
    try:
        return TypeAdapter(kind, config=ConfigDict(strict=True)).validate_python(value)
    except ValidationError as error:
        line = one_line(error, value)
        _, found, wanted = line.partition(" must be ")
        raise ValueError(f"{name} must be {wanted}" if found else f"{name}: {line}") from None


def given_or_default(given: T | None, kind: type[T], name: str = "settings") -> T:
    """Return settings that were given, or the default ones for None.

    Raises:
        ValueError: they are of another class.
    """
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise ValueError(f"{name} must be {kind.__name__}, got {shown(given)}")
    return given


def read(path: str | Path, kind: type[T]) -> T:
    """Return the settings of a JSON file.

    Args:
        path: the file, a JSON object; names of earlier versions are accepted.
        kind: the class of the settings.

    Raises:
        OSError: the file cannot be read.
        ValueError: not such settings; the message names the file.
    """
    values = json_files.read(path)
    try:
        return from_dict(values, kind)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def from_dict(values: Mapping[str, Any], kind: type[T]) -> T:
    """Return the settings of a JSON object, such as one that is part of a file.

    Raises:
        ValueError: not such settings.
    """
    current = _renamed(values)
    try:
        return TypeAdapter(kind).validate_json(json.dumps(current))
    except ValidationError as error:
        raise ValueError(one_line(error, current, kind)) from None


def _renamed(value: Any) -> Any:
    """Return a JSON value with the current names of settings in all its objects."""
    if isinstance(value, Mapping):
        return current_names({name: _renamed(each) for name, each in value.items()})
    return [_renamed(each) for each in value] if isinstance(value, (list, tuple)) else value


class Change(NamedTuple):
    """A setting that differs, as text that reads `learner.rate was 1 and is 0.1`."""

    name: str
    old: str
    new: str

    def __str__(self) -> str:
        """Return the sentence."""
        return f"{self.name} was {self.old} and is {self.new}"


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Return which settings differ; nested ones have their names on the command line."""
    old, new = _flat(before), _flat(now)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return [
        Change(name, default_text(old.get(name)), default_text(new.get(name))) for name in names
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by their names on the command line, such as `learner.rate`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


MAX_MESSAGES = 5
"""Errors of settings that a message has."""


def one_line(error: ValidationError, given: Any, kind: Any = None) -> str:
    """Return what is wrong in one line: `learner.rate must be <= 1, got 2.0`.

    Args:
        error: the error of pydantic.
        given: the values that were checked.
        kind: the class of the settings, whose nearest name is suggested for an unknown one.
    """
    errors = _without_branches(error.errors(include_url=False), given)
    messages = list(dict.fromkeys(_message(each, kind) for each in errors[:MAX_MESSAGES]))
    more = len(errors) - MAX_MESSAGES
    if more > 0:
        messages.append(f"and {more} more errors")
    return "; ".join(messages)


_KINDS = {
    *("string_type", "int_type", "float_type", "bool_type", "list_type", "tuple_type"),
    *("dict_type", "dataclass_type", "dataclass_exact_type", "literal_error"),
}
"""The errors of pydantic for a value of another kind."""
_BRANCH = re.compile(r"str|int|float|bool|(list|tuple|dict|literal)\[.*|[A-Z]\w*")
"""Names of the kinds of value that a setting may have; pydantic adds them to its place."""


def _without_branches(errors: Sequence[Any], given: Any) -> list[Any]:
    """Return errors with one for all kinds of value that a setting may have.

    An error within a list tells more than that the setting is of no other kind.

    Args:
        errors: of pydantic.
        given: the values that were checked.
    """
    placed = [(each, _branches(each["loc"], given)) for each in errors]
    within = {
        each["loc"][:k]
        for each, branches in placed
        for k in branches
        if not _is_of_kind(each, branches) or k < branches[-1]
    }
    merged: dict[Any, Any] = {}
    for number, (each, branches) in enumerate(placed):
        place = tuple(part for k, part in enumerate(each["loc"]) if k not in branches)
        if not _is_of_kind(each, branches):
            merged[place, number] = {**each, "loc": place}
        elif each["loc"][:-1] not in within:
            new = {**each, "loc": place, "type": "literal_error", "kinds": {}}
            kinds = merged.setdefault(place, new)["kinds"]
            kinds[each.get("ctx", {}).get("expected") or _WANTED[each["type"]]] = True
            merged[place]["ctx"] = {"expected": " or ".join(kinds)}
    return list(merged.values())


def _is_of_kind(error: Any, branches: Sequence[int]) -> bool:
    """Return True if an error is that a value is not of the kind that its place ends with."""
    return len(error["loc"]) - 1 in branches and error["type"] in _KINDS


def _branches(place: Sequence[str | int], given: Any) -> list[int]:
    """Return where an error's place names a kind of value, and not a key of the given values."""
    branches, value = [], given
    for k, part in enumerate(place):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and isinstance(part, int) and part < len(value):
            value = value[part]
        elif _BRANCH.fullmatch(str(part)):
            branches.append(k)
    return branches


def _known_names(kind: Any, path: Sequence[str | int]) -> list[str]:
    """Return the names of the settings at a path below a class, none if it is no class there."""
    for name in path:
        kind = get_type_hints(kind).get(str(name)) if is_dataclass(kind) else None
    return [each.name for each in fields(kind)] if is_dataclass(kind) else []


def _message(error: Any, settings_kind: Any) -> str:
    """Return one error of pydantic as `name must be ..., got ...`."""
    name = ".".join(map(str, error["loc"]))[:200]
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind in ("missing", "missing_argument"):
        return f"{name} is required"
    if kind == "json_invalid":
        return f"invalid JSON: {context['error']}"
    if kind == "unexpected_keyword_argument":
        *path, last = error["loc"]
        known = _known_names(settings_kind, path)
        return f"unknown setting {shown(name)}{did_you_mean(last, known) if known else ''}"
    wanted = _WANTED.get(kind, error["msg"][0].lower() + error["msg"][1:])
    if isinstance(error["input"], float) and math.isnan(error["input"]):
        wanted = "a number"
    return f"{name or 'value'} must be {wanted.format(**context)}, got {shown(error['input'])}"


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
"""Expected values by the kind of pydantic's error, where its own message has other words."""


def check_names(of: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError if a name is not one of those known, with the nearest one."""
    known = list(known)
    for name in given:
        if name not in known:
            raise ValueError(f"{of} has no setting {shown(name)}{did_you_mean(name, known)}")


RENAMED = {"unit": "value_scale", "mixed": "bf16", "unseen": "unvisited"}
"""Settings by their names in earlier versions, as files and result rows may still have them."""

RENAMED_OF_PLAYERS = {"net": "network"}
"""The same for the arguments of players, which files of settings may use for other things."""


def current_names(settings: Mapping[str, T], renamed: Mapping[str, str] = RENAMED) -> dict[str, T]:
    """Return settings with the names of earlier versions replaced by those of today.

    A setting that is given by today's name as well keeps its earlier one.
    """
    current = {name: renamed.get(name, name) for name in settings}
    return {name if new in settings else new: settings[name] for name, new in current.items()}


def did_you_mean(name: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    """Return `, did you mean 'x'? (known: ...)` for a name that is not known, nor one of others."""
    known = list(known)
    renamed = RENAMED.get(str(name))
    meant = renamed if renamed in known else nearest(str(name), [*known, *also])
    hint = f", did you mean {meant!r}?" if meant else ";"
    return f"{hint} known: {listed(known) or 'none'}"
