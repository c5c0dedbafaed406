"""Shares of games that make a step: the same games move by move, and searches played only once."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("tqdm")

from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple_file import save
from afterstate.envs import json_files
from afterstate.envs.game2048 import games
from benchmarks.pretrained import steps
from tests.support.game2048.tuple_networks import filled

START, END, SEED = 300, 2_000, 3


def played(seed: int, until: int, first: ExpectimaxAgent, then: ExpectimaxAgent) -> list[int]:
    """Return the scores of a game of the environment at `START` and at its end or `until`."""
    env = gym.make("afterstate:Game2048-v0")
    observation, _ = env.reset(seed=seed)
    score, scores, is_over = 0, list[int](), False
    while score < until and not is_over:
        if score >= START and not scores:
            scores.append(score)
        player = then if scores else first
        observation, reward, is_over, _, _ = env.step(player.predict(observation)[0])
        score += int(float(reward))
    return [*scores, score]


def test_games_are_those_of_the_environment() -> None:
    net = filled(3)
    two, deep = ExpectimaxAgent(net, 2), ExpectimaxAgent(net, 3, cutoff=1e-3, extend=2)
    starts = steps.positions(net, 6, START, SEED)
    row = steps.row_of(net, "depth=3,cutoff=1e-3,extend=2", starts, END)
    expected = list[list[int]]()
    seed = SEED
    while len(expected) < 6:
        scores = played(seed, END, two, deep)
        expected += [scores] if len(scores) == 2 else []
        seed += 1
    assert [int(start[games.SCORE, 0]) for start in starts] == [first for first, _ in expected]
    assert row["made"] == "".join("01"[last >= END] for _, last in expected)
    assert {"0", "1"} == set(row["made"])
    assert steps.made(row).tolist() == [int(last >= END) for _, last in expected]


def test_the_command_plays_each_search_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(filled(3), tmp_path / "net.npz")
    out = tmp_path / "rows.jsonl"
    words = ["--player", str(tmp_path / "net.npz"), "--positions", "20", "--start", str(START)]
    words += ["--end", str(END), "--out", str(out)]
    steps.main(["depth=1", *words])
    steps.main(["depth=1", "depth=2", *words])
    rows = json_files.rows(out)
    assert [row["search"] for row in rows] == ["depth=1", "depth=2"]
    lines = [line for line in capsys.readouterr().out.splitlines() if "depth=2" in line]
    shares = [steps.made(row).mean() for row in rows]
    gain = steps.made(rows[1]) - steps.made(rows[0])
    half = 1.96 * np.std(gain, ddof=1) / np.sqrt(20)
    assert f"| {shares[1]:.1%} ± " in lines[0]
    assert f"| {gain.mean():+.1%} ± {half:.1%} |" in lines[0]


def test_the_end_is_behind_the_start() -> None:
    with pytest.raises(SystemExit) as error:
        steps.main(["--start", "500", "--end", "500"])
    assert error.value.code == 2
