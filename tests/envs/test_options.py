"""Options of command lines: how words are read, defaults are shown, and errors name options."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from afterstate.envs.commands import Part, help_of, parse, read
from afterstate.envs.options import (
    NAMED,
    POSITIONAL,
    Device,
    File,
    Player,
    build,
    default_text,
    options_of,
    settings_of,
    value_of,
    whole_number,
)


@dataclass(frozen=True)
class Network:
    """Settings of the network."""

    name: str = "small"
    """Name of the network."""
    symmetric: bool = True
    """Read symmetric boards; see `name` and `other`."""
    n_layers: int = 2
    """Number of layers."""

    def __post_init__(self) -> None:
        if self.n_layers < 1:
            raise ValueError(f"n_layers must be >= 1, got {self.n_layers}")


@dataclass(frozen=True)
class Some:
    """Some options.

    Read half, 50%, of them.

    Raises:
        ValueError: a number of layers below 1.
    """

    out: Annotated[File, NAMED]
    """File to write."""
    players: tuple[Player, ...]
    """Players, 100% of them."""
    count: int = 20_000
    """Number of things, as `network.name` says."""
    rate: float | None = None
    """Rate; by default that of the rule."""
    flag: bool = False
    """Do it."""
    network: Network = field(default_factory=Network)
    to: Literal["window"] | File = "window"
    """Place of the picture."""
    size: tuple[int, int] = (4, 4)
    """Rows and columns."""
    tiles: list[int] = field(default_factory=lambda: [8])
    """Tiles."""
    cells: str | list[list[int]] = "4x6"
    """Name or cells."""
    points: Literal["game"] | list[float] = "game"
    """Points of the places."""
    device: Device = "cpu"
    """Device that computes."""
    kind: Network | dict[str, Any] = field(default_factory=lambda: {"name": "CNN", "channels": 32})
    """Kind of network."""
    parts: list[Network] = field(default_factory=list)
    """Only for files."""


@dataclass(frozen=True)
class What:
    """Options of a list."""

    what: Annotated[Literal["all", "players"], POSITIONAL] = "all"
    """Kind of things."""


@dataclass(frozen=True)
class Sized:
    """Options without a positional argument."""

    size: tuple[int, int] = (4, 4)
    """Rows and columns."""
    name: str = ""
    """Name of the board."""


def some(*words: str) -> Some:
    """Return the options of a command line."""
    return parse(Some, "some", ["one", "--out", "x", *words])


def error_of(capsys: pytest.CaptureFixture[str], kind: Any, *words: str) -> str:
    """Return the message of a wrong command line."""
    with pytest.raises(SystemExit, match="2"):
        parse(kind, "some", words)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and line.endswith("; see some --help")
    return line.removeprefix("error: ").removesuffix("; see some --help")


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("two --count 1e3", "players", ("one", "two")),
        ("--count 1e3", "count", 1000),
        ("--count=-1", "count", -1),
        ("--count -1", "count", -1),
        ("--count -1e3", "count", -1000),
        ("--count -1_000", "count", -1000),
        ("--rate -.5", "rate", -0.5),
        ("--rate -inf", "rate", -math.inf),
        ("--rate 1_0.5", "rate", 10.5),
        ("--rate None", "rate", None),
        ("--flag", "flag", True),
        ("--network.no-symmetric", "network", Network(symmetric=False)),
        ("--network.n-layers 3 --network.name big", "network", Network("big", n_layers=3)),
        ("--to window", "to", "window"),
        ("--to a.gif", "to", Path("a.gif")),
        ("--size 3 2", "size", (3, 2)),
        ("--tiles 4 1_6", "tiles", [4, 16]),
        ("--tiles 4 --tiles 8 16", "tiles", [4, 8, 16]),
        ("--tiles none", "tiles", []),
        ("--cells 5x4", "cells", "5x4"),
        ("--cells [[0,1]]", "cells", [[0, 1]]),
        ("--points game", "points", "game"),
        ("--points 5 4 3.5 2 1", "points", [5, 4, 3.5, 2, 1]),
        ("--kind ResNet,blocks=1e1", "kind", {"name": "ResNet", "blocks": 10}),
    ],
)
def test_words_are_read_by_the_type(words: str, name: str, value: Any) -> None:
    assert getattr(some(*words.split()), name) == value


def test_options_may_be_before_and_among_positional_words() -> None:
    words = "--flag a --out x b --count 3 c".split()
    assert parse(Some, "some", words).players == ("a", "b", "c")
    assert parse(Some, "some", ["--out", "x", "--", "-h", "--flag"]).players == ("-h", "--flag")
    ended = ["a", "--out", "x", "b", "--", "-h", "c"]
    assert parse(Some, "some", ended).players == ("a", "b", "-h", "c")
    assert parse(What, "what", ["--", "players"]).what == "players"
    assert parse(What, "what", []).what == "all"
    assert parse(What, "what", ["players"]).what == "players"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "--out and PLAYER must be given"),
        ("a", "--out must be given"),
        ("--out x --tiles 1 2", "PLAYER must be given before --tiles, which takes all words that"),
        ("a --out=", "--out must be a path, got ''"),
        ("a --out x --count 1.5", "--count must be an integer, got '1.5'"),
        ("a --out x --count ten", "--count must be an integer, got 'ten'"),
        ("a --out x --count", "--count must have a value"),
        ("a --out x --tiles", "--tiles must have a value"),
        ("a --out x --size 3", "--size must have 2 values"),
        ("a --out x --size 3 x", "--size must be an integer, got 'x'"),
        ("a --out x --rate high", "--rate must be a number, got 'high'"),
        ("a --out x --rate \u0661", "--rate must be a number, got '\u0661'"),
        ("a --out x --flag=1", "--flag must have no value, got '1'"),
        ("a --out x --flags", "there is no option '--flags', did you mean --flag?"),
        ("a --out x --no-flag", "there is no option '--no-flag'"),
        ("a --out x --no-network.symmetric", "did you mean --network.no-symmetric?"),
        ("a --out x --network.symmetric=0", "--network.symmetric must have no value, got '0'"),
        ("a --out x --network.nlayers 3", "'--network.nlayers', did you mean --network.n-layers?"),
        ("a --out x --network.n-layers 0", "--network.n-layers must be >= 1, got 0"),
        ("a --out x --cells [[0", "--cells must be a text or a list in JSON, got '[[0'"),
        ("a --out x --points gmae", "--points must be game or a number, got 'gmae'"),
        ("a --out x --kind CNN,channels", "--kind must be a name and settings, got 'CNN,channels'"),
    ],
)
def test_errors_name_the_option(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in error_of(capsys, Some, *words.split())


def test_a_wrong_choice_or_word_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    expected = "WHAT must be one of all, players, got 'player', did you mean players?"
    assert error_of(capsys, What, "player") == expected
    assert error_of(capsys, What, "all", "players") == "there is no argument 'players'"
    assert error_of(capsys, What, "all", "--", "-x") == "there is no argument '-x'"


def test_a_value_too_many_is_named_with_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    expected = "there is no argument '5' after --size, which has 2 values"
    assert error_of(capsys, Sized, *"--size 3 4 5".split()) == expected
    expected = "there is no argument 'b' after --name, which has 1 value"
    assert error_of(capsys, Sized, *"--size 3 4 --name a b".split()) == expected


def test_an_instance_has_the_defaults() -> None:
    default = some("--flag", "--count", "7")
    values = read([Part(Some, default)], "some", ["--no-flag", "--rate", "2"], "")
    made = build(Some, values, default)
    assert (made.flag, made.count, made.rate, made.out) == (False, 7, 2.0, Path("x"))


def test_helps_name_fields_as_options_and_show_defaults() -> None:
    helps = {each.name: help_of(each) for each in options_of(Some)}
    assert helps["--out"] == "File to write. (required)"
    assert helps["--count"] == "Number of things, as --network.name says. (default: 20_000)"
    assert helps["--rate"] == "Rate; by default that of the rule."
    symmetric = "Read symmetric boards; see --network.name and other. (default: on)"
    assert helps["--network.symmetric"] == symmetric
    assert helps["--kind"] == "Kind of network. (default: CNN,channels=32)"
    assert "--parts" not in helps and next(options_of(Some)).default is MISSING


def test_a_help_names_the_words_of_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        parse(Some, "some", ["--help"])
    out = capsys.readouterr().out
    assert out.startswith("usage: some PLAYER [PLAYER ...] --out FILE [options]\n\nSome options.\n")
    for words in ("--to window|FILE", "--size INT INT", "--tiles INT [INT ...]", "100% of them"):
        assert words in out
    assert (
        "Raises" not in out
        and "half, 50%, of" in out
        and "--network.symmetric, --network.no-symmetric" in out
    )


@pytest.mark.parametrize("word", ["1e3", "1E3", "1_000", "+1000", "1000.0", "0.1e4", "10e2"])
def test_whole_numbers_have_several_forms(word: str) -> None:
    assert whole_number(word) == 1000


@pytest.mark.parametrize(
    "word",
    ["", "1e", "e3", "1.5", "1e-3", "1__0", "_1", "1 0", "0x10", "\u0661", "1e999", "9" * 200],
)
def test_others_are_no_whole_numbers(word: str) -> None:
    with pytest.raises(ValueError, match="must be an integer, got "):
        whole_number(word)


@pytest.mark.parametrize(
    ("default", "text"),
    [
        (None, "none"),
        ((), "none"),
        ("", "none"),
        (False, "off"),
        (0, "0"),
        (0.0, "0"),
        (9_000, "9000"),
        (42_485, "42485"),
        (1e9, "1_000_000_000"),
        (1e-5, "1e-05"),
        (Path("a/b"), "a/b"),
        (Path.cwd() / "a", "a"),
        (("a", "b"), "a b"),
        ({"name": "CNN", "channels": 8}, "CNN,channels=8"),
        ({"channels": 8}, "channels=8"),
        ([[0, 1]], "[[0, 1]]"),
    ],
)
def test_defaults_are_shown_as_they_can_be_given(default: Any, text: str) -> None:
    assert default_text(default) == str(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, None) for text in ("none", "None", "null")),
        *(("True", True), ("true", True), ("False", False)),
    ],
)
def test_settings_of_players_have_python_s_and_json_s_words(text: str, value: Any) -> None:
    assert settings_of([f"name={text}"]) == {"name": value}


def test_settings_of_players_have_numbers_in_several_forms() -> None:
    given = settings_of(["a=1e3", "b=1_000", "c=1.5", "d=007", "e=x_1", "f=1e-3", "g=true"])
    assert [*given.values()] == [1000, 1000, 1.5, "007", "x_1", 0.001, True]


def test_types_that_no_command_line_has_give_no_option() -> None:
    assert value_of(list[Network]) is None
    with pytest.raises(TypeError, match="no option has values of bytes"):
        value_of(bytes)
