"""Expected and real scores late in games, compared with games played move by move."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tqdm")

from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate
from afterstate.agents.game2048.values.ntuple_file import save
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.agents.training.evaluation import EVALUATION_SEED
from afterstate.envs.game2048.rules import afterstates, table
from benchmarks.pretrained import late_game
from tests.support.game2048.tuple_networks import filled


def naive(net: Network, depth: int, seed: int, scores: list[int]) -> list[tuple[float, int]]:
    """Return expectation and score to come at the first board at each score or above."""
    player: Any = NTupleAgent(net) if depth == 1 else ExpectimaxAgent(net, depth)
    so_far, boards, expected = 0, [], []

    def watch(_: Any, words: Any, actions: Any) -> None:
        nonlocal so_far
        afters, rewards = afterstates(words[0], table(4, 4))
        after, reward = afters[actions[0]], rewards[actions[0]]
        boards.append(so_far)
        expected.append(reward + float(estimate(net, after)))
        so_far += reward

    total = int(play(player, 1, seed, watch=watch).scores[0])
    firsts = [next((i for i, s in enumerate(boards) if s >= score), None) for score in scores]
    return [(expected[i], total - boards[i]) for i in firsts if i is not None]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
def test_scores_and_expectations_are_those_of_the_game(depth: int) -> None:
    net = filled(3)
    scores = [1, 100, 200, 300, 500, 10**6]
    expected, scored = late_game.expected_and_scored(net, depth, 7, np.array(scores))
    rows = naive(net, depth, 7, scores)
    assert 3 <= len(rows) < len(scores)
    for k, (expectation, left) in enumerate(rows):
        assert expected[k] == pytest.approx(expectation, abs=0.01)
        assert scored[k] == left
    assert np.isnan(expected[len(rows) :]).all() and np.isnan(scored[len(rows) :]).all()


def test_the_command_prints_and_keeps_a_line_for_each_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(late_game, "STEP", 200)
    save(filled(3), tmp_path / "net.npz")
    out = tmp_path / "rows.jsonl"
    words = ["--player", str(tmp_path / "net.npz"), "--games", "20", "--out", str(out)]
    late_game.main(words)
    row = json.loads(out.read_text())
    assert (row["player"], row["depth"], row["games"]) == (str(tmp_path / "net.npz"), 1, 20)
    scores = play(NTupleAgent(filled(3)), 20, EVALUATION_SEED).scores
    passed = [int((scores > line["score"]).sum()) for line in row["lines"]]
    assert [line["games"] for line in row["lines"]] == passed
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 + len(row["lines"])
    save(filled(4), tmp_path / "net.npz")
    late_game.main(words)
    other = json.loads(out.read_text().splitlines()[1])
    assert other["weights"] != row["weights"]


def test_a_player_without_a_network_is_refused() -> None:
    with pytest.raises(ValueError, match="player must have an N-tuple network, got 'reward'"):
        late_game.main(["--player", "reward"])
