"""The JSON that commands print: valid, alone on stdout, and with the names of the documentation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

import pytest

from afterstate.__main__ import main

ROOT = Path(__file__).parents[2]
GAMES = ROOT / "tests" / "data" / "daihinmin" / "lazymix.jsonl.gz"


def documented(title: str) -> set[str]:
    """Return the names that the page of the command has for what is printed."""
    page = (ROOT / "docs" / "command.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| {re.escape(title)} \|.*\| (.*) \|$", page, re.MULTILINE)
    return {*re.findall("`([a-z_0-9]+)`", re.sub(r" \([^()]*\)", "", row))}


def printed(words: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what a command prints, which must be JSON as other languages read it, without NaN."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(constant)

    assert main([*words.split(), "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=refuse)


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("eval random reward --games 2", "`eval`, 2048"),
        ("eval random --games 1", "`eval`, 2048"),
        ("eval sample heuristic --games 100", "`eval`, Daihinmin"),
        (f"replay {GAMES}", "`replay`"),
        (
            "leaderboard tournament sample sample sample sample random --cycles 1 --games 1",
            "`leaderboard tournament`",
        ),
    ],
)
def test_results_have_the_documented_names(
    words: str, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if words.startswith("leaderboard"):
        pytest.importorskip("scipy")
    results = printed(words, capsys)
    assert results and all(each.keys() == documented(title) for each in results)


def test_lists_have_the_documented_names(capsys: pytest.CaptureFixture[str]) -> None:
    lists = printed("list", capsys)
    assert lists.keys() == documented("`list`")
    for kind in ("environment", "player", "network"):
        title = f"- a{'n' * (kind == 'environment')} {kind}"
        assert all(each.keys() == documented(title) for each in lists[f"{kind}s"])
    assert {each["extra"] for each in lists["players"]} == {None, "neural"}
    for each in lists["networks"]:
        file = next((ROOT / "agents").glob(f"*/pretrained/{each['file']}"), None)
        assert file is None or each["bytes"] == file.stat().st_size
        assert each["score"] is None or each["score"].keys() == {"mean", "interval", "unit"}


def test_checks_have_the_documented_names() -> None:
    pytest.importorskip("pandas")
    from afterstate.leaderboard.command import Check

    assert {*Check._fields} == documented("`leaderboard verify`")
