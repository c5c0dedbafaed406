"""What the experiments share: options, calls in parallel, runs of learning, means over runs."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")
pytest.importorskip("torch")

from afterstate.agents.training.workers import ALONE, Workers
from afterstate.envs import json_files
from benchmarks.experiments.alphabeta import run as alphabeta
from benchmarks.experiments.daihinmin import run as daihinmin
from benchmarks.experiments.harness import Estimate, over_runs, results, train
from benchmarks.experiments.mc_softmax import run as mc_softmax
from benchmarks.experiments.policy_nets import run as policy_nets


@pytest.mark.parametrize(
    ("main", "words", "message"),
    [
        (mc_softmax.main, "scores --repeats 2", "--repeats is for learn, got scores"),
        (mc_softmax.main, "temperature --hours 1", "--hours is for regrets, scores, learn, got"),
        (mc_softmax.main, "report --only lines", "--only is for regrets, scores, learn, got"),
        (policy_nets.main, "report --jobs 2", "--jobs is for log, train, play, got report"),
        (policy_nets.main, "log --games 5", "--games is for play, got log"),
        (alphabeta.main, "report --hours 1", "--hours is for play, got report"),
        (daihinmin.main, "logs draw --self-play x", "--self-play is for play, got draw"),
        (daihinmin.main, "logs draw --hours 1", "--hours is for train, play, got draw"),
    ],
)
def test_options_without_effect_are_refused(
    main: object, words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(main)
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    assert message in f"{stop.value} {capsys.readouterr().err}"


def waited(seconds: float) -> float:
    """Return a time after having waited for it."""
    time.sleep(seconds)
    return seconds


def test_results_come_as_calls_end_or_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    calls = [partial(waited, seconds) for seconds in (2.0, 0.0)]
    two = Workers(2)
    assert list(results(calls, two, None, "waits")) == [0.0, 2.0]
    assert list(results(calls, two, None, "waits", in_order=True)) == [2.0, 0.0]
    assert "2/2" in capsys.readouterr().err


def test_no_call_begins_after_the_hours(capsys: pytest.CaptureFixture[str]) -> None:
    calls = [partial(waited, 0.2)] * 9
    assert len(list(results(calls, ALONE, 0.5 / 3600, "waits"))) in (2, 3)
    assert "/9" in capsys.readouterr().err


def test_a_learner_goes_on_where_it_was(tmp_path: Path) -> None:
    settings = {"network": {"tuples": [[0, 1]], "size": [2, 2]}, "seed": 1}
    for moves in (50, 50, 100):
        train("ntuple", settings, tmp_path / "run", moves=moves, evaluate="1:2", evaluate_every=50)
    rows = json_files.rows(tmp_path / "run" / "rows.jsonl")
    learned = [row["n_moves"] for row in rows]
    assert len(learned) == 2 and 50 <= learned[0] < 100 <= learned[1]
    with pytest.raises(ValueError, match="restrat"):
        train("ntuple", {"learner": {"restrat": 1}}, tmp_path / "other", moves=50)


def test_one_run_has_the_interval_of_its_games_and_several_that_over_runs() -> None:
    one = Estimate(10.0, 3.0)
    assert over_runs([one]) == one and str(one) == "10 ± 3"
    result = over_runs([one, Estimate(12.0, 3.0), Estimate(14.0, 3.0)])
    assert result.mean == 12 and result.interval == pytest.approx(4.303 * 2 / 3**0.5, rel=1e-3)
    assert str(Estimate(1_234.5, float("nan"))) == "1,234"
