"""README and CONTRIBUTING: their code runs and prints what they show; see also `tests/docs`."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]

TEXTS = {page.name: page.read_text(encoding="utf-8") for page in PAGES}


def _title(block: str) -> str:
    """The first line that is not an import."""
    return next(line for line in block.splitlines() if line and "import" not in line)


def _blocks(kind: str) -> list[Any]:
    """The blocks of a kind, with their pages; commands for contributors take long."""
    slow = [pytest.mark.slow]
    return [
        pytest.param(
            block,
            id=f"{name}: {_title(block)}",
            marks=slow if (kind, name) == ("sh", "CONTRIBUTING.md") else [],
        )
        for name, text in TEXTS.items()
        for block in re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)
    ]


def test_pages_install_in_a_checkout_and_add_extras_to_what_is_installed() -> None:
    """Extras are quoted and the package's; the index has another project of the package's name."""
    extras = set(re.findall(r"^(\w+) = \[.*\]", _optional_dependencies(), re.MULTILINE))
    for page in (*PAGES, *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8")
        for command in re.findall(r"(?<![\w/])pip install [^`\n]*", text):
            match = re.fullmatch(
                r'pip install (?:--editable )?(?:\.|"(?:afterstate|\.)\[([\w,]+)\]")',
                command,
            )
            assert match, f"{page.name}: {command}"
            assert set((match[1] or "all").split(",")) <= extras, command


def _optional_dependencies() -> str:
    """Return the extras in `pyproject.toml`."""
    configuration = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return configuration.partition("[project.optional-dependencies]")[2].partition("\n[")[0]


def test_readme_plays_both_games_and_trains() -> None:
    blocks = "".join(re.findall(r"```python\n(.*?)```", TEXTS["README.md"], re.DOTALL))
    for part in ("gym.make(", "agents.make(", "play_match(", "train("):
        assert part in blocks


def test_all_blocks_are_of_a_kind_that_runs() -> None:
    for text in TEXTS.values():
        assert set(re.findall(r"^```(.+)$", text, re.MULTILINE)) <= {"json", "python", "sh", "text"}


@pytest.mark.parametrize("block", _blocks("json"))
def test_entries_of_the_leaderboard_are_well_formed(block: str, tmp_path: Path) -> None:
    leaderboard_games = pytest.importorskip("afterstate.leaderboard.games")
    (tmp_path / "entries.json").write_text(block, encoding="utf-8")
    assert len(leaderboard_games.entries(tmp_path / "entries.json")) == 4


@pytest.mark.slow
@pytest.mark.parametrize("block", _blocks("python"))
def test_python_block_runs_and_prints_what_the_page_shows(
    block: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "sb3_contrib" in block or "stable_baselines3" in block:
        pytest.importorskip("sb3_contrib")
        import torch

        torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(block, "a page", "exec"), {"__name__": "readme"})
    shown = _shown_below(block)
    if shown is not None:
        printed = [line.rstrip() for line in capsys.readouterr().out.strip().splitlines()]
        assert printed == [line.rstrip() for line in shown.strip().splitlines()]


def _shown_below(block: str) -> str | None:
    """Return the text that a page shows as the output of a block."""
    for text in TEXTS.values():
        match = re.search(re.escape(f"{block}```\n\n```text\n") + "(.*?)```", text, re.DOTALL)
        if match:
            return match[1]
    return None


@pytest.mark.slow
@pytest.mark.parametrize("block", _blocks("sh"))
def test_shell_block_runs(block: str, tmp_path: Path) -> None:
    """`make` only says what it would do: set up an environment, and run these tests."""
    for folder in ("benchmarks", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    runs = re.sub("^make", f"make --dry-run --directory {ROOT}", block, flags=re.MULTILINE)
    runs = re.sub(r"^pip install \.$", "afterstate --version", runs, flags=re.MULTILINE)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shell = ["bash", "-e", "-c", runs]
    env = {**os.environ, "PATH": path}
    done = subprocess.run(shell, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


COMMANDS = sorted(
    {
        line
        for text in TEXTS.values()
        for line in re.findall(
            r"python ((?:-m afterstate|-m benchmarks|examples/)[^`\n]*)", text.replace("\\\n", " ")
        )
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_have_the_options_that_pages_say(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(command, comments=True)
    options = [word for word in words if word.startswith("--")]
    with pytest.raises(SystemExit) as ended:
        if words[0] == "-m":
            subcommand = [word for word in words[2:3] if re.fullmatch(r"[a-z][\w-]*", word)]
            monkeypatch.setattr(sys, "argv", [words[1], *subcommand, "--help"])
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)
                runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            monkeypatch.setattr(sys, "argv", [words[0], "--help"])
            runpy.run_path(str(ROOT / words[0]), run_name="__main__")
    assert not ended.value.code
    text = capsys.readouterr().out
    assert [option for option in options if not re.search(rf"{option}\b", text)] == []
