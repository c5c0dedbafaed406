"""The pages of the documentation: their code runs and prints what they show."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest

from afterstate import __main__ as command
from tests.docs.run_page import KINDS, MARKS, ROOT, blocks

DOCS = ROOT / "docs"
PAGES = {
    page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8")
    for page in sorted(DOCS.rglob("*.md"))
}
"""The text of each page, by its path."""
SLOW = {
    "command.md",
    "index.md",
    "leaderboard.md",
    "learning.md",
    "players.md",
    "questions.md",
    "tutorials/afterstate_learning.md",
    "tutorials/enter_leaderboard.md",
    "tutorials/mc_softmax.md",
    "tutorials/own_value_function.md",
    "tutorials/ppo_dqn.md",
    "tutorials/reproduce_paper.md",
    "web.md",
}
"""Pages that take longer than a few seconds."""
EXTRAS = {
    "fastapi": r"^afterstate web",
    "moviepy": r"\bRecordVideo\b|\.mp4\b",
    "sb3_contrib": r"^(import|from) sb3_contrib\b",
    "stable_baselines3": r"^(import|from) stable_baselines3\b",
    "torch": r"^(import|from) torch\b",
}
"""Modules that not every installation has, each with what pages that need it have."""


def _runnable() -> list[object]:
    """Return the pages that have code to run."""
    params: list[object] = []
    for name, text in PAGES.items():
        if any(b.kind in ("python", "sh") and "skip" not in b.marks for b in blocks(text)):
            params.append(pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []))
    return params


@pytest.mark.parametrize("name", PAGES)
def test_all_blocks_are_of_a_kind_that_runs(name: str) -> None:
    fences = re.findall(r"^ *```+(.*)$", PAGES[name], re.MULTILINE)
    listed = list(blocks(PAGES[name]))
    assert len(fences) == 2 * len(listed)
    assert {block.kind for block in listed} <= set(KINDS)
    assert {mark for block in listed for mark in block.marks} <= set(MARKS)


@pytest.mark.parametrize("name", PAGES)
def test_blocks_run_or_say_why_not(name: str) -> None:
    listed = list(blocks(PAGES[name]))
    assert [b.line for b in listed if ("skip" in b.marks) != bool(b.reason)] == []
    runs = [b for b in listed if b.kind in ("python", "sh") and not b.reason and not b.title]
    shown = [b.shown for b in runs if b.shown and "serves" not in b.marks]
    assert [b.line for b in listed if b.kind == "text" and b.code not in shown] == []
    assert [b.line for b in listed if b.kind == "json" and not b.title] == []


@pytest.mark.parametrize("name", PAGES)
def test_extras_that_a_page_installs_exist(name: str) -> None:
    named = ",".join(re.findall(r"afterstate\[([\w,]+)\]", PAGES[name]))
    known = metadata("afterstate").get_all("Provides-Extra") or []
    assert set(filter(None, named.split(","))) <= set(known)


@pytest.mark.slow
@pytest.mark.parametrize("name", _runnable())
def test_code_of_a_page_runs_and_prints_what_the_page_shows(name: str, tmp_path: Path) -> None:
    for module, used in EXTRAS.items():
        if re.search(used, PAGES[name], re.MULTILINE):
            pytest.importorskip(module)
    script = Path(__file__).parent / "run_page.py"
    words = [sys.executable, str(script), str(DOCS / name)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def _commands() -> list[object]:
    """Return the programs that pages name but do not run, each with the options they give it."""
    options: dict[tuple[str, ...], set[str]] = {}
    for text in PAGES.values():
        skipped = "\n".join(b.code for b in blocks(text) if b.kind == "sh" and "skip" in b.marks)
        inline = re.findall(r"`((?:afterstate|python -m [\w.]+) [^`]+)`", text.replace("\n", " "))
        for line in [*skipped.replace("\\\n", " ").splitlines(), *inline]:
            words = shlex.split(line, comments=True)
            if words[:1] == ["afterstate"] or words[:2] == ["python", "-m"]:
                program = _program(words)
            elif words[:1] == ["python"]:
                program = tuple(words[:2])
            else:
                continue
            named = {word.partition("=")[0] for word in words if word.startswith("--")}
            options.setdefault(program, set()).update(named)
    return [
        pytest.param(program, sorted(named), id=" ".join(program), marks=_marks(program))
        for program, named in sorted(options.items())
    ]


def _program(words: list[str]) -> tuple[str, ...]:
    """Return a command up to the first word that may be an argument."""
    if words[0] == "afterstate":
        return tuple(words[: 3 if words[1] in ("leaderboard", "train") else 2])
    has_subcommand = re.fullmatch("[a-z_]+", "".join(words[3:4])) and not words[2].endswith(".run")
    return tuple(words[: 4 if has_subcommand else 3])


def _marks(program: tuple[str, ...]) -> list[pytest.MarkDecorator]:
    """Return the mark of programs of a checkout, which import much."""
    return [] if program[0] == "afterstate" else [pytest.mark.slow]


@pytest.mark.parametrize(("program", "options"), _commands())
def test_commands_have_the_options_that_pages_say(
    program: tuple[str, ...], options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands that no test runs; `--help` lists their options."""
    if program[0] == "afterstate":
        shown = _help(command.main, program[1:], capsys)
    elif program[1] == "-m":
        module = import_module(program[2])
        main = module.main if hasattr(module, "main") else _main_of(program[2])
        shown = _help(main, program[3:], capsys)
    elif (ROOT / program[1]).exists():
        words = [sys.executable, *program[1:], "--help"]
        shown = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    else:
        pytest.skip("a program of another project")
    assert [option for option in options if not re.search(rf"{option}\b", shown)] == []


def _main_of(package: str) -> Any:
    """Return the function that a package runs as a program."""
    return import_module(f"{package}.__main__").main


def _help(main: Any, words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the help that a program's function prints."""
    with contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return capsys.readouterr().out
