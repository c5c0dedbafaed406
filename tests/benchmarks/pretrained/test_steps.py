"""Shares of games that pass a score: the same games move by move, and games played only once."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("scipy")

from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple_file import save
from afterstate.agents.game2048.values.ntuple_network import network
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
    reached = steps.passed(deep, starts, END)
    expected = list[list[int]]()
    seed = SEED
    while len(expected) < 6:
        scores = played(seed, END, two, deep)
        expected += [scores] if len(scores) == 2 else []
        seed += 1
    assert [int(start[games.SCORE, 0]) for start in starts] == [first for first, _ in expected]
    assert reached == "".join("01"[last >= END] for _, last in expected)
    assert set(reached) == {"0", "1"}


def test_the_command_plays_no_game_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(filled(3), tmp_path / "net.npz")
    out = tmp_path / "rows.jsonl"
    words = ["--player", str(tmp_path / "net.npz"), "--start", str(START), "--end", str(END)]
    words += ["--out", str(out)]
    steps.main(["depth=1", *words, "--positions", "15"])
    (before,) = json_files.rows(out)
    steps.main(["depth=1", "depth=2", *words, "--positions", "20"])
    rows = json_files.rows(out)
    assert [row["search"] for row in rows] == ["depth=1", "depth=2"]
    assert rows[0]["passed"][:15] == before["passed"]
    first, second = (np.array([*row["passed"]], int) for row in rows)
    assert len(first) == len(second) == 20
    gain = second - first
    half = 2.093 * np.std(gain, ddof=1) / np.sqrt(20)
    (line,) = (each for each in capsys.readouterr().out.splitlines() if "depth=2" in each)
    assert f"| 20 | {second.mean():.1%} (" in line
    assert f"| {gain.mean():+.1%} ± {half:.1%} |" in line


def test_gains_are_those_of_the_games_of_both() -> None:
    row, first = ({"search": "", "passed": digits, "cpu_seconds": 8.0} for digits in ("1101", "01"))
    assert steps.cells(row, first)[1:] == [
        *("4", "75.0% (30.1% to 95.4%)"),
        *("+50.0% ± 635.3%", "2.00 s"),
    ]
    assert steps.cells({**row, "passed": "1" * 20}, first)[2] == "100.0% (83.9% to 100.0%)"


@pytest.mark.parametrize(
    ("search", "error"),
    [
        ("nodes=500", "must have depth, cutoff and extend, got nodes"),
        ("depth=2,threads=2", "must have depth, cutoff and extend, got threads"),
        ("depth=13", "depth must be <= 12"),
        ("depth=2,extend=16", "extend must be <= 15"),
    ],
)
def test_wrong_searches_are_refused(search: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        steps.searches_of(network([[0, 1]]), [search])


def test_the_end_is_behind_the_start() -> None:
    with pytest.raises(SystemExit) as error:
        steps.main(["--start", "500", "--end", "500"])
    assert error.value.code == 2
