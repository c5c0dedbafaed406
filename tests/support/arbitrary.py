"""Arguments of all kinds, and real values of which several parts are damaged, for Hypothesis."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from afterstate.envs.daihinmin.rules import GAME, Game

NUMBERS = st.integers() | st.floats() | st.booleans() | st.none() | st.complex_numbers()
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
TYPES = st.sampled_from([np.uint64, np.int64, np.int8, np.float32, np.bool_])
ARRAYS = arrays.arrays(TYPES, SHAPES) | arrays.arrays(np.object_, SHAPES, elements=NUMBERS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda each: (
        st.lists(each, max_size=4) | st.dictionaries(st.text(max_size=5), each, max_size=4)
    ),
    max_leaves=8,
)
ANYTHING = NUMBERS | ARRAYS | JSON | st.text(max_size=9) | st.binary(max_size=9)
BOARDS = st.integers(0, 2**64 - 1) | arrays.arrays(np.int64, (4, 4), elements=st.integers(-1, 18))
SMALL = st.integers(-2, 60)
AGENTS = [f"player_{number}" for number in range(5)]


def with_names(names: Collection[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return dictionaries with some of the names, or with others."""
    keys = st.sampled_from(sorted(names)) if names else st.nothing()
    return st.dictionaries(keys | st.text(max_size=5), values, max_size=3)


def actions_of(n: int, most: int) -> st.SearchStrategy[Any]:
    """Return arguments for the actions of `n` games, often in 0..most."""
    numbers = st.sampled_from([np.int64, np.int8, np.uint64, np.float64])
    valid = st.lists(st.integers(0, most), min_size=n, max_size=n)
    return valid | arrays.arrays(numbers, n, elements=st.integers(0, min(most, 127))) | ANYTHING


def damaged_record(data: st.DataObject, game: Game, n_most: int = 5) -> Game:
    """Return a copy of a game record with damage in one to `n_most` places."""
    damaged = game.copy()
    for _ in range(data.draw(st.integers(1, n_most))):
        name = data.draw(st.sampled_from(GAME.names or ()))
        numbers = np.atleast_1d(damaged[name]).copy()
        low, high = int(np.iinfo(numbers.dtype).min), int(np.iinfo(numbers.dtype).max)
        value = data.draw(SMALL | st.integers(low, high))
        at = data.draw(st.integers(0, numbers.size - 1))
        numbers[at] = min(max(value, low), high)
        damaged[name] = numbers.reshape(np.shape(damaged[name]))
    return damaged


def damaged_state(data: st.DataObject, state: dict[str, Any], n_most: int = 4) -> dict[str, Any]:
    """Return a copy of a state with one to `n_most` parts replaced or left out, at any depth."""
    damaged = copy.deepcopy(state)
    for _ in range(data.draw(st.integers(1, n_most))):
        _damage_one(data, damaged)
    return damaged


def _damage_one(data: st.DataObject, state: dict[str, Any]) -> None:
    """Replace one part of a state, or leave it out."""
    if not state or data.draw(st.integers(0, 19)) == 0:
        state[data.draw(st.sampled_from(AGENTS) | st.text(max_size=5))] = data.draw(ANYTHING)
        return
    name = data.draw(st.sampled_from(list(state)))
    if isinstance(state[name], dict) and data.draw(st.booleans()):
        _damage_one(data, state[name])
    elif data.draw(st.integers(0, 9)) == 0:
        del state[name]
    else:
        state[name] = _another(data, state[name])


def _another(data: st.DataObject, value: Any) -> Any:
    """Return a value of the same type, or any other."""
    if isinstance(value, np.void) and data.draw(st.booleans()):
        game: Any = value
        return damaged_record(data, game)
    kinds: dict[type, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: SMALL | st.integers(0, 2**64),
        float: st.floats(),
        str: st.sampled_from(AGENTS),
        list: st.lists(st.sampled_from(AGENTS), max_size=6),
        dict: st.dictionaries(st.sampled_from(AGENTS), st.booleans() | st.floats()),
        np.ndarray: BOARDS,
    }
    return data.draw(kinds.get(type(value), ANYTHING) | ANYTHING)
