"""The commands that make the pretrained N-tuple network, run in their order and resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("scipy")

from afterstate.envs import json_files
from afterstate.envs.commands import exit_code
from benchmarks.pretrained import ntuple

ROOT = Path(__file__).parents[3]


def test_the_commands_name_settings_that_exist_and_prune_to_a_file_of_their_own() -> None:
    *training, pruning = ntuple.commands()
    for command in training:
        program, train, name, config, *_ = command.split()
        assert (program, train, name) == ("afterstate", "train", "ntuple")
        assert (ROOT / config).is_file()
    assert pruning.startswith("afterstate prune out/joined/learner.npz out/ntuple.npz ")


def test_options_of_games_have_no_effect_on_learning(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        exit_code(ntuple.main, ["--learn", "--threads", "1"])
    assert stop.value.code == 2
    assert "--threads has no effect with --learn" in capsys.readouterr().err


def test_what_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    some = ["afterstate train a --out out/a", "afterstate train b --out out/b"]
    monkeypatch.setattr(ntuple, "commands", lambda: some)
    ran: list[list[str]] = []

    def train(words: list[str]) -> None:
        ran.append(words)
        place = Path(words[words.index("--out") + 1])
        place.mkdir(parents=True, exist_ok=True)
        (place / "learner.npz").touch()
        if len(ran) == 2:
            raise KeyboardInterrupt

    monkeypatch.setitem(ntuple.PROGRAMS, "train", train)
    with pytest.raises(KeyboardInterrupt):
        ntuple.learn()
    ntuple.learn()
    ntuple.learn()
    assert ran == [
        ["a", "--out", "out/a"],
        ["b", "--out", "out/b"],
        ["b", "--out", "out/b", "--resume"],
    ]
    rows = json_files.rows("out/ntuple.jsonl")
    assert [row["command"] for row in rows if row["ended"]] == some
    assert [row["command"] for row in rows if not row["ended"]] == some[1:2]
    assert all(row["seconds"] >= 0 for row in rows)
