"""Gains by downgraded boards: pairs of the same games, which differ where boards are downgraded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.agents.game2048.values.ntuple_file import save
from afterstate.agents.training.evaluation import EVALUATION_SEED
from benchmarks.pretrained import downgrading
from tests.support.game2048.tuple_networks import filled


def test_gains_are_differences_of_the_same_games(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = filled(3)._replace(downgrade=5)  # from a 32 on: most games differ
    save(net, tmp_path / "net.npz")
    words = ["--player", str(tmp_path / "net.npz"), "--games", "20"]
    downgrading.main([*words, "--out", str(tmp_path / "rows.jsonl")])
    row = json.loads((tmp_path / "rows.jsonl").read_text())
    both = [
        play(NTupleAgent(net._replace(downgrade=exponent)), 20, EVALUATION_SEED).scores
        for exponent in (16, 5)
    ]
    assert (row["without"], row["with"]) == tuple(round(scores.mean()) for scores in both)
    assert row["gain"] == pytest.approx(row["with"] - row["without"], abs=1)
    assert 0 < row["different"] == (both[0] != both[1]).sum() and row["interval"] > 0
    assert "20 pairs of games" in capsys.readouterr().out


@pytest.mark.slow
def test_boards_that_no_game_reaches_make_no_difference() -> None:
    row = downgrading.gain(filled(3)._replace(downgrade=15), 2, 3)
    assert (row["gain"], row["interval"], row["different"]) == (0, 0, 0)


def test_a_network_without_downgraded_boards_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one that downgrades boards"):
        downgrading.gain(filled(3)._replace(downgrade=16), 1, 2)
