"""Checks and conversions of arguments, whose errors name the argument and what was given."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from afterstate.envs.messages import listed, shown


def check_seed(seed: Any, optional: bool = True) -> int | None:
    """Return a seed as an int, or None.

    Raises:
        ValueError: `seed` is not an integer >= 0, nor None if it is optional.
    """
    number = as_int(seed)
    if not (optional and seed is None) and (number is None or number < 0):
        kind = "None or an integer" if optional else "an integer"
        raise ValueError(f"seed must be {kind} >= 0, got {shown(seed)}")
    return number


@overload
def check_count(name: str, number: Any, *, least: int = 1) -> int: ...
@overload
def check_count(name: str, number: Any, optional: bool, *, least: int = 1) -> int | None: ...
def check_count(name: str, number: Any, optional: bool = False, *, least: int = 1) -> int | None:
    """Return a setting as an int, or None.

    Raises:
        ValueError: `number` is not an integer in `least`..2**62, nor None if it is optional.
    """
    count = as_int(number)
    if not (optional and number is None) and (count is None or not least <= count <= 2**62):
        kind = "None or an integer" if optional else "an integer"
        raise ValueError(f"{name} must be {kind} in {least}..2**62, got {shown(number)}")
    return count


def check_text(name: str, value: Any) -> None:
    """Raise ValueError unless an argument is a text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text, got {shown(value)}")


def check_length(name: str, values: Any, length: int) -> None:
    """Raise ValueError if a list or an array has another length, before anything reads it."""
    if isinstance(values, str):
        raise ValueError(f"{name} must have {length} entries, got {shown(values)}")
    is_list = isinstance(values, Sequence) or (isinstance(values, np.ndarray) and values.ndim > 0)
    if is_list and len(values) != length:
        raise ValueError(f"{name} must have {length} entries, got {len(values):,}")


def check_one_of(allowed: Collection[Any], **setting: Any) -> None:
    """Raise ValueError unless the setting has one of the allowed values."""
    types = tuple(type(value) for value in allowed)
    for name, value in setting.items():
        if not isinstance(value, types) or value not in allowed:
            raise ValueError(f"{name} must be one of {listed(allowed)}, got {shown(value)}")


def check_options(options: Any, known: Collection[str]) -> dict[str, Any]:
    """Return the options of a reset, an empty dict for None.

    Raises:
        ValueError: not a dict, or an unknown option.
    """
    given = {} if options is None else options
    if not isinstance(given, Mapping) or not set(given) <= set(known):
        raise ValueError(f"options must be a dict with {listed(known)} only, got {shown(options)}")
    return dict(given)


_MAX_AXES = 4
"""No argument has more axes: boards of some games, as planes."""


def as_array(values: Any, dtype: Any = None) -> npt.NDArray[Any]:
    """Return values as an array; None as an array of no axes if numpy cannot make one.

    Lists of more than four levels give None, too: numpy would follow each path through lists that
    are shared or that hold themselves.
    """
    inner, n_axes = values, 0
    while isinstance(inner, Sequence) and not isinstance(inner, (str, bytes)) and len(inner):
        inner, n_axes = inner[0], n_axes + 1
        if n_axes > _MAX_AXES:
            return np.array(None, object)
    try:
        return np.asarray(values, dtype)
    except Exception:  # such as of tensors, or of the value's own code
        return np.array(None, object)


def described(values: Any, array: npt.NDArray[Any]) -> str:
    """Return type and shape of what `as_array` made of values, or the values if it made none."""
    is_none = array.ndim == 0 and array.dtype == object
    return shown(values) if is_none else f"{array.dtype} of shape {array.shape}"


def as_index(value: Any) -> int | None:
    """Return a value as an int if it can index a list; None for booleans and anything else.

    Unlike `as_int`, it takes arrays and tensors of no axes.
    """
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except Exception:  # no integer, or of the value's own code
        return None


def as_int(number: Any) -> int | None:
    """Return an integer of Python or numpy as int; None for booleans and anything else."""
    is_whole = isinstance(number, (int, np.integer)) and not isinstance(
        number, (bool, np.timedelta64)
    )
    return int(number) if is_whole else None
