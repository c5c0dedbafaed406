"""Regrets of searches: none for the deep search itself, and those of its values for others."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tqdm")

from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple_file import save
from benchmarks.pretrained import regrets
from tests.support.game2048.tuple_networks import filled


def test_regrets_are_losses_by_the_values_of_the_deep_search() -> None:
    net = filled(3)
    boards = regrets.positions(net, 2, 25, seed=1)
    assert (boards == regrets.positions(net, 2, 25, seed=1)).all()
    assert boards.shape == (2, 25) and len(np.unique(boards)) == 50
    deep = ExpectimaxAgent(net, 3, cutoff=0)
    values = deep.evaluate(boards)
    same = regrets.regret(net, "depth=3,cutoff=0", boards, values)
    assert (same["regret"], same["best"]) == (0, 1)
    greedy = regrets.regret(net, "depth=1", boards, values)
    actions = ExpectimaxAgent(net, 1).act(boards.reshape(-1))
    lost = [max(v) - v[a] for v, a in zip(values.reshape(-1, 4), actions, strict=True)]
    assert greedy["regret"] == pytest.approx(np.mean(lost), abs=0.01)
    means = np.mean(np.reshape(lost, (2, 25)), axis=1)
    half = 1.96 * np.std(means, ddof=1) / math.sqrt(2)
    assert greedy["interval"] == pytest.approx(half, abs=0.01)
    assert greedy["beyond"] == np.mean(np.array(lost) > 3_000)
    assert 0 < greedy["regret"] and greedy["best"] < 1 and greedy["nodes"] == 0


def test_positions_are_from_the_end_of_games() -> None:
    net, played = filled(3), list[int]()
    play(ExpectimaxAgent(net, 2), 1, 4, watch=lambda _, boards, __: played.extend(boards))
    drawn = regrets.positions(net, 1, 30, seed=4, last=30)[0].tolist()
    assert sorted(drawn) == sorted(played[-30:])


def test_the_command_prints_and_keeps_its_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(filled(3), tmp_path / "net.npz")
    words = ["depth=1", "nodes=5", "--player", str(tmp_path / "net.npz"), "--games", "1"]
    words += ["--positions", "20", "--depth", "2", "--out", str(tmp_path / "rows.jsonl")]
    regrets.main(words)
    assert "| nodes=5 |" in capsys.readouterr().out
    row = json.loads((tmp_path / "rows.jsonl").read_text())
    assert [line["search"] for line in row["lines"]] == ["depth=1", "nodes=5"]
    nodes = [line["nodes"] for line in row["lines"]]
    assert nodes[0] == 0 and 0 < nodes[1] <= 5
