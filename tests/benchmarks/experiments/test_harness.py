"""Parts that experiments share: options, calls in parallel, runs of learning, means over runs."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import runpy
import subprocess
import sys
import time
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")
pytest.importorskip("torch")

from scipy.stats import ttest_ind

from afterstate.agents.config import read
from afterstate.agents.training import learners
from afterstate.agents.training.workers import Workers
from afterstate.envs import json_files
from afterstate.envs.commands import exit_code
from benchmarks.experiments import harness
from benchmarks.experiments.alphabeta import run as alphabeta
from benchmarks.experiments.alphabeta.settings import SETTINGS
from benchmarks.experiments.daihinmin import run as daihinmin
from benchmarks.experiments.harness import (
    Estimate,
    difference,
    over_runs,
    published_texts,
    run_calls,
    train,
)
from benchmarks.experiments.mc_softmax import run as mc_softmax
from benchmarks.experiments.policy_nets import run as policy_nets
from benchmarks.experiments.quasi_greedy import run as quasi_greedy


@pytest.mark.parametrize(
    ("main", "words", "message"),
    [
        (mc_softmax.main, "scores --repeats 2", "--repeats is for learn, got scores"),
        (mc_softmax.main, "temperature --hours 1", "--hours is for regrets, scores, learn, got"),
        (mc_softmax.main, "report --only lines", "--only is for regrets, scores, learn, got"),
        (policy_nets.main, "report --jobs 2", "--jobs is for log, train, play, got report"),
        (policy_nets.main, "log --games 5", "--games is for play, got log"),
        (alphabeta.main, "report --hours 1", "--hours is for play, reach, got report"),
        (daihinmin.main, "logs report --self-play x", "--self-play is for play, got report"),
        (mc_softmax.main, "report --runs x", "--runs is for regrets, temperature, learn, got"),
        (policy_nets.main, "renew --moves 9", "--moves is for log, train, play, report, got"),
        (daihinmin.main, "nope report", "name must be generations, logs or a file NAME.json, got"),
        (quasi_greedy.main, "nope report", "name must be epsilon, good_plays, restart, search or"),
        (daihinmin.main, "logs report --hours 1", "--hours is for train, play, got report"),
    ],
)
def test_options_without_effect_are_refused(
    main: object, words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(main)
    with pytest.raises(SystemExit) as stop:
        exit_code(main, words.split())
    assert stop.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"terms": None}, "terms is required"),
        ({"dephts": {}}, "unknown setting 'dephts', did you mean 'depths'?"),
        ({"reach": {"tile": 2048, "games": 0}}, "reach.seconds is required"),
        ({"evaluations": {"all": {"depth": 9}}}, "evaluations.all must not have depth"),
        ({"chunk": "many"}, "chunk must be an integer, got 'many'"),
        ([], "value must be an object, got []"),
    ],
)
def test_settings_of_another_kind_are_refused(
    change: object, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded, file = change, tmp_path / "mine.json"
    if isinstance(change, dict):
        loaded = {**json_files.read(SETTINGS), **change}
        loaded = {name: value for name, value in loaded.items() if value is not None}
    file.write_text(json.dumps(loaded))
    with pytest.raises(SystemExit) as stop:
        exit_code(alphabeta.main, ["play", "--settings", str(file), "--out", str(tmp_path)])
    assert stop.value.code == 2 and message in " ".join(capsys.readouterr().err.split())


def waited(seconds: float) -> float:
    """Return a time after having waited for it."""
    time.sleep(seconds)
    return seconds


@pytest.mark.slow
def test_results_come_as_calls_end_or_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    calls = [partial(waited, seconds) for seconds in (2.0, 0.0)]
    two = Workers(2)
    assert list(run_calls(calls, two, None, "waits")) == [0.0, 2.0]
    assert list(run_calls(calls, two, None, "waits", in_order=True)) == [2.0, 0.0]
    assert "2/2" in capsys.readouterr().err


def test_no_call_begins_after_the_hours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = itertools.count()  # a second between two looks
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    within = harness.within([partial(waited, 0.0)] * 9, 3 / 3600)
    assert len(list(within)) == 2
    assert len(list(harness.within([partial(waited, 0.0)] * 9, None))) == 9


def test_rows_wait_for_another_process_at_their_file_only(tmp_path: Path) -> None:
    code = (
        "import sys, time; from afterstate.agents.training.folder import *; "
        "lock = FolderLock(Path(sys.argv[1]), name='rows.jsonl.lock'); "
        "print(flush=True); input(); time.sleep(0.5); lock.release(); input()"
    )
    words, pipe = [sys.executable, "-c", code, str(tmp_path)], subprocess.PIPE
    json_files.write_rows(tmp_path / "run" / "rows.jsonl", [{"n_moves": 5}])
    rows = tmp_path / "rows.jsonl"
    with subprocess.Popen(words, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        with pytest.raises(ValueError, match=r"another process writes to .*rows\.jsonl: stop it"):
            harness.rows_lock(rows)
        with harness.rows_lock(tmp_path / "others.jsonl"):
            process.stdin.write(b"\n")
            process.stdin.flush()
        harness.copy_rows(rows, {"run": "a"}, tmp_path / "run", "rows.jsonl")
        process.communicate(b"\n")
    assert json_files.rows(rows) == [{"run": "a", "n_moves": 5}]


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
    assert result.mean == 12 and result.half_interval == pytest.approx(4.303 * 2 / 3**0.5, rel=1e-3)
    assert str(Estimate(1_234.5, float("nan"))) == "1,234" and (one.runs, result.runs) == (1, 3)


def test_a_difference_of_several_runs_has_the_interval_of_welchs_test() -> None:
    means = [10.0, 12.0, 15.0], [20.0, 21.0]
    one, other = (over_runs([Estimate(mean, 1.0) for mean in each]) for each in means)
    low, high = ttest_ind(*means, equal_var=False).confidence_interval()
    assert difference(one, other).mean == pytest.approx((low + high) / 2)
    assert difference(one, other).half_interval == pytest.approx((high - low) / 2)
    assert math.isnan(difference(one, Estimate(12.0, 4.0)).half_interval)  # of runs and of games
    of_games = Estimate(10.0, 3.0), Estimate(12.0, 4.0)
    assert difference(*of_games) == (-2, 5, 1)


def test_verdicts_are_about_the_published_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digests = {each: sha256(each.encode()).hexdigest() for each in ("a.jsonl", "b.jsonl")}
    lines = "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    (tmp_path / "published.sha256").write_text(lines)
    (tmp_path / "verdicts.md").write_text("All agree.\n")

    def texts(stem: str = "") -> list[str]:
        return published_texts(tmp_path, tmp_path, ["verdicts.md"], stem)

    (tmp_path / "a.jsonl").write_text("a.jsonl")
    assert not texts()
    assert "other rows than" in (out := capsys.readouterr().out) and "b.jsonl has (no file)" in out
    (tmp_path / "b.jsonl").write_text("b.jsonl")
    assert texts() == ["All agree."]
    (tmp_path / "a.jsonl").write_text("a.jsonl, with another row")
    assert texts("b") == ["All agree."] and not capsys.readouterr().out
    assert not texts() and not texts("a") and capsys.readouterr().out
    assert not texts("own") and not capsys.readouterr().out  # of a user's own settings file


def test_rows_of_a_run_replace_its_own_and_no_others(tmp_path: Path) -> None:
    path, folder = tmp_path / "results" / "rows.jsonl", tmp_path / "run"
    others = [{"run": "a", "seed": 1, "n": 1}, {"run": "b", "seed": 2, "n": 1}]
    json_files.append(path, [others[0], {"run": "b", "seed": 1, "n": 5}, others[1]])
    folder.mkdir()
    json_files.append(folder / "rows.jsonl", [{"n": 7}, {"n": 8}])
    json_files.append(folder / "search.jsonl", [{"n": 9}])
    for _ in range(2):
        harness.copy_rows(path, {"run": "b", "seed": 1}, folder, "rows.jsonl", "search.jsonl")
        new = [{"run": "b", "seed": 1, "n": n} for n in (7, 8, 9)]
        assert json_files.rows(path) == [others[0], *new, others[1]]
    harness.copy_rows(path, {"run": "c", "seed": 1}, folder, "search.jsonl")
    assert json_files.rows(path)[-1] == {"run": "c", "seed": 1, "n": 9}


def test_rows_of_a_longer_run_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, folder = tmp_path / "results" / "rows.jsonl", tmp_path / "run"
    for n_moves, kept in ((100, 100), (50, 100), (200, 200)):
        json_files.write_rows(folder / "rows.jsonl", [{"n_moves": 10}, {"n_moves": n_moves}])
        harness.copy_rows(path, {"run": "a"}, folder, "rows.jsonl")
        assert [row["n_moves"] for row in json_files.rows(path)] == [10, kept]
    assert capsys.readouterr().out.startswith(f"{path} keeps the rows of a longer run; those of")


def test_an_interrupted_learner_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*run: object) -> None:
        raise KeyboardInterrupt("saved in it: continue with --resume")

    monkeypatch.setattr(learners, "run", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"run: the same command goes on$"):
        train("ntuple", {}, tmp_path / "run", moves=50)


@pytest.mark.parametrize("name", ["alphabeta", "daihinmin", "mc_softmax", "policy_nets"])
def test_commands_run_functions_that_other_processes_can_import(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function of `__main__` would be sent by its code, without what it calls there."""
    module, called = f"benchmarks.experiments.{name}.run", list[bool]()
    imported = importlib.import_module(module)
    monkeypatch.setattr(imported, "main", lambda: called.append(True))
    with pytest.raises(SystemExit), pytest.warns(RuntimeWarning, match="found in sys.modules"):
        runpy.run_module(module, run_name="__main__")
    assert called == [True]


@pytest.mark.parametrize("experiment", ["alphabeta", "mc_softmax", "daihinmin"])
def test_the_settings_of_the_tests_on_a_cluster_are_valid(experiment: str) -> None:
    """These tests run only where Ray is installed."""
    kind = importlib.import_module(f"benchmarks.experiments.{experiment}.settings").Experiment
    file = Path(__file__).parents[2] / "data" / "experiments" / f"{experiment}.json"
    assert read(file, kind).title == "A tiny experiment"
