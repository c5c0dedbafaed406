"""The helps of all commands: a meaning, a unit and a default of each option, no inner names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from afterstate.__main__ import COMMANDS, main, option_classes
from afterstate.agents.training.__main__ import parts_of
from afterstate.agents.training.learners import LEARNERS
from afterstate.envs.commands import Part, summary
from afterstate.envs.options import Option

COMMAND = Path(sys.executable).with_name("afterstate")

HELPS = {
    f"{name} {sub_command}" if len(COMMANDS[name].options) > 1 else name: [Part(kind)]
    for name in COMMANDS
    if COMMANDS[name].options
    for sub_command, kind in option_classes(name).items()
} | {f"train {name}": parts_of(name) for name in LEARNERS}
"""Dataclasses of the options of each command and sub-command."""
ALL = ["", *COMMANDS, *(name for name in HELPS if " " in name)]
"""The words before each `--help`."""


def options_of(name: str) -> list[Option]:
    """Return the options of a command."""
    return [option for part in HELPS[name] for option in part.options()]


def printed(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the help of a command, its lines not wrapped."""
    monkeypatch.setenv("COLUMNS", "2000")
    try:
        assert main([*name.split(), "--help"]) == 0
    except SystemExit as stop:
        assert stop.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", HELPS)
def test_every_option_has_a_meaning_and_a_default(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = printed(name, capsys, monkeypatch)
    default = r"(by default .*|.*must be given.*|.* \((required|default: .+)\))$"
    for option in options_of(name):
        assert re.fullmatch(r"[A-Z0-9].{12,}\.", option.help), option.name
        (line,) = re.findall(rf"^ .*\b{re.escape(option.help)}.*$", out, re.MULTILINE)
        assert re.search(default, line, re.IGNORECASE), line
        first = option.placeholder if option.is_positional else option.name
        assert re.search(rf"^  {re.escape(first)}(?!\w)", out, re.MULTILINE), first


@pytest.mark.parametrize("name", HELPS)
def test_an_option_of_a_time_has_its_unit(name: str) -> None:
    for option in options_of(name):
        for unit in ("seconds", "minutes", "hours"):
            if unit in option.name:
                assert unit in option.help.lower(), option.name


@pytest.mark.parametrize("name", ALL)
def test_helps_have_no_inner_names(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither types, constants, classes, calls, dumps nor places of this machine."""
    out = printed(name, capsys, monkeypatch).replace("NUMBA_CACHE_DIR", "")
    assert out.startswith(f"usage: afterstate {name}".rstrip())
    constants, calls = r"\b[A-Z]+_[A-Z_]+\b", r"\w\(|`"
    python = r"\b(None|True|False|str|int|float|bool|dict|Path|PosixPath)\b"
    dumps = r"[{\[(]'|<\w+|: ''|\b\w+_\w+="
    for pattern in (constants, calls, python, dumps, re.escape(str(Path.cwd())), str(Path.home())):
        assert re.findall(pattern, out) == [], pattern
    names = {"BaseCNN", "HistoryCNN", "RankResNet", "TensorBoard", "EvalV", "NodeV"}
    assert {*re.findall(r"\b[A-Z][a-z]+[A-Z]\w*", out)} <= names


@pytest.mark.parametrize("name", [name for name in HELPS if not name.startswith("train ")])
def test_every_class_of_options_has_an_example(name: str) -> None:
    (part,) = HELPS[name]
    assert f"Example: afterstate {name}" in str(part.kind.__doc__)


@pytest.mark.parametrize("name", ["play", "leaderboard", "train"])
def test_a_command_lists_its_sub_commands(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = printed(name, capsys, monkeypatch)
    for each in (each for each in HELPS if each.startswith(f"{name} ")):
        first = summary(HELPS[each][0].kind) if name != "train" else "train an? "
        assert re.search(rf"^  {each.removeprefix(f'{name} ')} +{first}", out, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.skipif(not COMMAND.exists(), reason="needs the installed command")
@pytest.mark.parametrize("name", ALL)
def test_help_imports_nothing_that_takes_long(name: str) -> None:
    """A help with numpy, gymnasium, a compiler or torch would take half a second or more."""
    command = [sys.executable, "-X", "importtime", str(COMMAND), *name.split(), "--help"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    slow = {"gymnasium", "pettingzoo", "numpy", "numba", "torch", "scipy", "joblib"}
    assert "argparse" in imported and not slow & imported
