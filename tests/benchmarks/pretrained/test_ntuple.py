"""The commands that make the pretrained N-tuple network, run in their order and resumed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tqdm")

from afterstate.envs import json_files
from benchmarks.pretrained import ntuple

ROOT = Path(__file__).parents[3]


def test_the_commands_name_settings_that_exist_and_prune_to_a_file_of_their_own() -> None:
    *training, pruning = ntuple.commands()
    for command in training:
        program, train, name, config, *_ = command.split()
        assert (program, train, name) == ("afterstate", "train", "ntuple")
        assert (ROOT / config).is_file()
    assert pruning.startswith("afterstate prune out/joined/learner.npz out/ntuple.npz ")


def test_what_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ntuple, "commands", lambda: ["train a --out out/a", "train b --out out/b"])
    ran: list[list[str]] = []

    def run(words: list[str], check: bool) -> None:
        assert check
        ran.append(words[2:])
        place = Path(words[words.index("--out") + 1])
        place.mkdir(parents=True, exist_ok=True)
        (place / "learner.npz").touch()
        if len(ran) == 2:
            raise KeyboardInterrupt

    fake: Any = run
    monkeypatch.setattr(subprocess, "run", fake)
    monkeypatch.setattr(ntuple, "machine", dict)
    with pytest.raises(KeyboardInterrupt):
        ntuple.learn()
    ntuple.learn()
    ntuple.learn()
    assert ran == [
        ["train", "a", "--out", "out/a"],
        ["train", "b", "--out", "out/b"],
        ["train", "b", "--out", "out/b", "--resume"],
    ]
    commands = [row["command"] for row in json_files.rows("out/ntuple.jsonl")]
    assert commands == ["train a --out out/a", "train b --out out/b"]
