"""Tests of settings: checks, JSON files, earlier names and suggestions."""

from __future__ import annotations

from dataclasses import asdict, field, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest
from pydantic import AfterValidator

from afterstate.agents.config import (
    RENAMED_OF_PLAYERS,
    Count,
    Share,
    checked,
    current_names,
    did_you_mean,
    from_dict,
    read,
    settings,
)


@settings
class Inner:
    """Settings inside others."""

    rate: Share = 0.5
    bf16: bool = False


@settings
class Outer:
    """Settings with a part."""

    kind: ClassVar[str] = "outer"
    games: Count = 64
    moves: Count = 1_000_000
    rule: Literal["td", "tc"] = "tc"
    inner: Inner = field(default_factory=Inner)


def test_all_kinds_that_a_setting_may_have_are_in_one_message() -> None:
    @settings
    class Several:
        a: str | int = 1
        b: int = 2

    with pytest.raises(ValueError, match=r"^a must be a string or an integer, got \[4\]; b must"):
        Several(a=[4], b="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tuples": 5}, "tuples must be a string or a list, got 5"),
        ({"tuples": [1]}, "tuples.0 must be a list, got 1"),
        ({"tuples": [[1, "x"]]}, "tuples.0.1 must be an integer, got 'x'"),
        ({"part": 5}, "part must be an object, got 5"),
        ({"part": {"rate": 2}}, "part.rate must be <= 1, got 2"),
        ({"word": 1.5}, "word must be 'one' or a list, got 1.5"),
        ({"Tuples": 1}, "unknown setting 'Tuples', did you mean 'tuples'?"),
        ({"named": {"BaseCNN": {"rate": 2}}}, "named.BaseCNN.rate must be <= 1, got 2"),
        ({"named": {"str": 3}}, "named.str must be an object, got 3"),
        ({"several": 1.5}, "several must be an integer or a list, got 1.5"),
        ({"pair": [1, 0.5, 2]}, "pair.2 must be <= 1, got 2"),
    ],
    ids=str,
)
def test_messages_have_no_words_of_pydantic(values: dict[str, Any], message: str) -> None:
    @settings
    class Several:
        tuples: str | list[list[int]] = "4x6"
        part: Inner | dict[str, Share] = field(default_factory=Inner)
        word: Literal["one"] | list[Share] = "one"
        named: dict[str, Inner] = field(default_factory=dict)
        several: int | list[int] | list[str] = 1
        pair: str | tuple[Share, ...] = ""

    with pytest.raises(ValueError) as error:
        from_dict(values, Several)
    assert str(error.value).startswith(message) and ";" not in str(error.value).split("known")[0]


def test_a_message_without_an_expected_value_is_kept_whole() -> None:
    def refuse(_: int) -> int:
        raise ValueError("needs another package: install it")

    with pytest.raises(ValueError, match=r"^jobs: .*needs another package: install it$"):
        checked("jobs", 1, Annotated[int, AfterValidator(refuse)])


def test_a_missing_setting_is_named() -> None:
    @settings
    class Required:
        title: str
        games: Count

    with pytest.raises(ValueError, match=r"^title is required; games must be >= 1, got 0$"):
        from_dict({"games": 0}, Required)


def test_settings_are_frozen_dataclasses_with_numpy_numbers_as_plain_ones() -> None:
    made = Outer(games=np.int64(3), moves=2e3)  # type: ignore[arg-type]
    assert is_dataclass(made) and type(made.games) is int
    assert asdict(made)["inner"] == {"rate": 0.5, "bf16": False}
    with pytest.raises(AttributeError):
        made.games = 4  # type: ignore[misc]


def test_a_message_has_a_few_errors_only() -> None:
    with pytest.raises(ValueError, match="; and 995 more errors") as caught:
        from_dict({f"x{n}" * 1000: n for n in range(1000)}, Outer)
    assert len(str(caught.value)) < 3_000


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"games": 0}, "games must be >= 1, got 0"),
        ({"games": 1.5}, "games must be .*integer.*, got 1.5"),
        ({"games": True}, "games must be .*, got True"),
        ({"moves": 1.5}, "moves.*1.5"),
        ({"rule": "sarsa"}, "rule must be 'td' or 'tc', got 'sarsa'"),
        ({"inner": {"rate": 2}}, "inner.rate must be <= 1, got 2"),
        ({"inner": {"rate": "x"}}, "inner.rate must be a number, got 'x'"),
        ({"inner": 5}, "inner must be an object, got 5"),
        ({"gams": 3}, "unknown setting 'gams', did you mean 'games'?"),
        ({"inner": {"rte": 3}}, "unknown setting 'inner.rte', did you mean 'rate'?"),
        ({"kind": "x"}, "unknown setting 'kind'"),
    ],
)
def test_wrong_values_are_named_in_one_line(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        from_dict(values, Outer)
    assert "\n" not in str(caught.value)


def test_an_unknown_argument_suggests_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="did you mean 'games'"):
        Outer(gams=3)  # type: ignore[call-arg]
    assert did_you_mean("zzz", ["games"]) == "; known: games"


def test_a_file_may_have_earlier_names(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"games": 5, "inner": {"mixed": true}}')
    assert read(path, Outer) == Outer(games=5, inner=Inner(bf16=True))
    assert current_names({"unseen": 1, "unit": 2, "games": 3}) == {
        "unvisited": 1,
        "value_scale": 2,
        "games": 3,
    }


def test_an_earlier_name_next_to_todays_is_kept() -> None:
    assert current_names({"net": 1}) == {"net": 1}
    assert current_names({"net": 1, "depth": 2}, RENAMED_OF_PLAYERS) == {"network": 1, "depth": 2}
    both = {"network": 1, "net": 2}
    assert current_names(both, RENAMED_OF_PLAYERS) == both


@pytest.mark.parametrize("text", ["", "{", "[1]", "5", "[" * 100_000])
def test_a_file_that_is_no_object_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"settings\.json"):
        read(path, Outer)
