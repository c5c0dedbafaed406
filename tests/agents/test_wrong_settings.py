"""Wrong settings and arguments of players: a ValueError in few words names each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.envs.game2048.rules import check_words

RECORD = np.zeros(1, [("a", "f8"), ("b", "U3")])[0]
HUGE = 10**400


class _Raising:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")


RAISING = _Raising()

WRONG: list[tuple[str, str, list[Any]]] = [
    ("random", "size", [3, None, "44", (4,), (4, 4, 4), 0, [], {}, np.array([4, 4]), RECORD]),
    ("reward", "seed", [-1, 1.5, "1", True, RECORD, {}]),
    ("ntuple", "size", [3, "44", (4,), 0, [], {}, np.array([4, 4]), RECORD]),
    ("expectimax", "cutoff", ["abc", 1, -0.1, np.nan, HUGE, RECORD, True]),
    ("expectimax", "seconds", ["abc", 0, -1, np.inf, HUGE, RECORD, np.True_, 2**63]),
    ("alphabeta", "seconds", ["abc", 0, -1, np.inf, HUGE, RECORD, np.True_, 2**63]),
    ("daihinmin-policy", "temperature", ["a", None, -1, np.inf, np.nan, [], 1j, HUGE, RECORD]),
    ("daihinmin-policy", "seed", [-1, 1.5, "1", np.True_, (4, 4), RECORD, {}]),
    ("daihinmin-mc", "seed", [-1, 1.5, "1", np.True_, (4, 4), RECORD, {}]),
    ("daihinmin-mc", "playouts", [0, -1, 1.5, "1", True, RECORD, HUGE]),
    ("daihinmin-mc", "transitions", ["x", {}, 1, HUGE, [HUGE] * 5, RAISING, range(2**62), None]),
    ("daihinmin-mc", "seconds", [0, -1, "1", np.inf, HUGE, RECORD, True]),
]
NEURAL: list[tuple[str, str, list[Any]]] = [
    ("value-net", "value_scale", [0, -1, "1", np.inf, HUGE, RECORD, True]),
    ("value-net", "device", ["abc", 2**63, 1.5, RECORD]),
    ("policy-net", "layers", [3, "2", RECORD, np.array([2, 5])]),
    ("policy-net", "algorithm", ["a2c", 1, RECORD, np.array(["ppo", "dqn"])]),
    ("daihinmin-actor", "temperature", ["a", None, -1, np.inf, np.nan, [], 1j, HUGE, RECORD]),
    ("daihinmin-rank", "points", [{}, 1, HUGE, [HUGE] * 5, RAISING, [RAISING] * 5, range(2**62)]),
    ("daihinmin-actor", "seed", [-1, 1.5, "1", np.True_, (4, 4), RECORD]),
]


def cases(table: list[tuple[str, str, list[Any]]]) -> list[Any]:
    """Return a test for each value."""
    return [
        pytest.param(name, setting, value, id=f"{name}-{setting}-{str(value)[:12]}")
        for name, setting, values in table
        for value in values
    ]


@pytest.mark.parametrize(("name", "setting", "value"), cases(WRONG))
def test_an_error_names_the_setting(name: str, setting: str, value: Any) -> None:
    network = {"tuples": [[0, 1]]} if name == "expectimax" else {}  # the pretrained one is large
    with pytest.raises(ValueError, match=setting) as error:
        agents.make(name, **network, **{setting: value})
    assert len(str(error.value)) < 1000
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "setting", "value"), cases(NEURAL))
def test_an_error_names_the_setting_of_a_network(name: str, setting: str, value: Any) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=setting) as error:
        agents.make(name, **{setting: value})
    assert len(str(error.value)) < 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "reward", "alphabeta", "expectimax"])
def test_boards_may_be_read_only(name: str) -> None:
    boards = np.array([0x21, 0x1234], np.uint64)
    settings: dict[str, Any] = {} if name in ("random", "reward") else {"depth": 1}
    expected = agents.make(name, **settings, **({"seed": 1} if not settings else {}))
    player = agents.make(name, **settings, **({"seed": 1} if not settings else {}))
    read_only = np.frombuffer(boards.tobytes(), np.uint64)
    assert not read_only.flags.writeable
    assert check_words(read_only, 4, 4).flags.writeable  # kernels compile for such arrays only
    assert player.act(read_only).tolist() == expected.act(boards).tolist()


@pytest.mark.parametrize("observation", [[[1, 2], [3]], None, "board", [], [[[1]]]])
def test_a_wrong_observation_is_named(observation: Any) -> None:
    with pytest.raises(ValueError, match="observation must be exponents"):
        agents.make("random").predict(observation)


def test_probabilities_of_a_policy_network_need_board_words() -> None:
    pytest.importorskip("torch")
    player: Any = agents.make("policy-net")
    assert player.probabilities([0x21, 0x1234]).shape == (2, 4)
    for boards in ([-1], [2**64], None, [33.7], "33"):
        with pytest.raises(ValueError, match="boards must be board words, integers in"):
            player.probabilities(boards)
