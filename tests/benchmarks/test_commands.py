"""Tests that every command of the benchmarks starts and has help."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

for name in ("matplotlib", "pandas", "scipy", "torch", "tqdm", "yaml"):
    pytest.importorskip(name)

FOLDER = Path(__file__).parents[2] / "benchmarks"
COMMANDS = sorted(
    ".".join(("benchmarks", *path.relative_to(FOLDER).with_suffix("").parts))
    for path in FOLDER.rglob("*.py")
    if path.name != "__main__.py" and "def main(arguments" in path.read_text(encoding="utf-8")
)


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 12


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        import_module(name).main(["--help"])
    assert caught.value.code == 0
    assert "usage" in capsys.readouterr().out
