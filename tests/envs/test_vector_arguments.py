"""Arguments of the vector environments of both games."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afterstate.envs import vector_arguments
from afterstate.envs.checks import check_one_of


@pytest.mark.parametrize(
    "seed",
    [
        *(range(10**12), [range(10**12), 1], [1], [1, 2, 3], [1, -1], [1, 1.5], "ab", {1, 2}),
        *(np.array(1.5), np.array([1.5, 2]), [np.timedelta64(1, "s"), 2]),
    ],
)
def test_wrong_seeds_are_refused_before_they_are_read(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed must"):
        vector_arguments.check_seeds(seed, 2)


def test_a_mode_of_any_other_type_is_refused() -> None:
    deep: Any = []
    for _ in range(10**5):
        deep = [deep]
    modes: list[Any] = [deep, None, 1, "nextstep", np.zeros(2, "i4,i4")]
    modes.append(np.broadcast_to(np.zeros(1), 1 << 50))
    for mode in modes:
        with pytest.raises(ValueError, match="autoreset_mode must be one of"):
            vector_arguments.check_autoreset_mode(mode)


@pytest.mark.parametrize("actions", [range(10**12), [1], "ab", [0, 4], [0, -1], [0.0, 1.0], None])
def test_wrong_actions_are_refused_before_they_are_read(actions: Any) -> None:
    with pytest.raises(ValueError, match="actions must"):
        vector_arguments.check_actions(actions, 2, 4, "0 to 3")


@pytest.mark.parametrize(
    "value", ["c", 1, None, ["a"], {}, np.zeros(2), np.zeros(1, [("a", "U1")])[0], range(10**12)]
)
def test_a_value_of_any_other_type_is_no_choice(value: Any) -> None:
    with pytest.raises(ValueError, match=r"letter must be one of a, b, got"):
        check_one_of(("a", "b"), letter=value)


@pytest.mark.parametrize("value", ["a", np.str_("b"), None])
def test_a_choice_may_be_a_string_of_numpy_or_none(value: Any) -> None:
    check_one_of(("a", "b", None), letter=value)
