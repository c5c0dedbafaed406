"""`train`: when it stops, reports, saves and evaluates, and the state after interrupts."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numba.core import event as events

from afterstate import agents
from afterstate.agents.game2048.learning import ntuple_learner
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.run_settings import MAX_MOVES, NTupleSettings
from afterstate.agents.game2048.learning.self_play import self_play
from afterstate.agents.game2048.play import Games
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.agents.training.evaluation import half_interval, of_student
from afterstate.agents.training.run import MoveTraining, Progress, train
from afterstate.envs.compiling import clock
from tests.support.training_runs import assert_same_learner, interrupt

FORWARD = NTupleSettings(order="forward")
TINY_4X4 = [[0, 1, 4], [5, 6], [1, 2, 5, 6]]


def new(settings: NTupleSettings | None = None, threads: int = 1) -> NTupleLearner:
    return NTupleLearner(network(TINY_4X4), settings, 1, threads)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a learner."""
    return tmp_path / "learner.npz"


def set_clock(monkeypatch: pytest.MonkeyPatch, learner: NTupleLearner, step: float) -> None:
    """Let the clock move by `step` seconds each time the learner learns, and otherwise stand."""
    now, learn = [1000.0], learner.learn

    def timed(n_moves: float) -> Games:
        now[0] += step
        return learn(n_moves)

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(learner, "learn", timed)


@pytest.mark.parametrize("name", ["learner", "learner.safetensors", "npz"])
def test_files_of_another_ending_are_refused(file: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"save_to must end in \.npz for this learner, got "):
        train(new(), n_moves=1, save_to=file.with_name(name))


def test_train_without_an_end_is_refused_and_writes_no_file(file: Path) -> None:
    with pytest.raises(ValueError, match="n_moves or seconds"):
        train(new(), save_to=file)
    assert list(file.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("seconds", value) for value in (math.nan, "1", -1)),
        *(("save_every", value) for value in (math.inf, "1", -1)),
        *(("evaluate_every", value) for value in (0, 1.5, "1")),
    ],
)
def test_wrong_arguments_of_train_are_refused(name: str, wrong: Any) -> None:
    learner = new()
    with pytest.raises(ValueError, match=f"^{name} must be "):
        train(learner, **{"n_moves": 10, name: wrong})
    assert learner.n_moves == 0


def test_intervals_are_those_of_student_for_few_values_and_normal_for_many() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(1)
    for n in range(2, 60):
        values = rng.normal(size=n)
        quantile = stats.t.ppf(0.975, n - 1) if n <= 31 else stats.norm.ppf(0.975)
        expected = quantile * stats.sem(values)
        assert of_student(half_interval(values), n) == pytest.approx(expected, rel=1e-3)
    assert math.isnan(of_student(half_interval([5.0]), 1))


def test_train_stops_after_its_moves_and_reports() -> None:
    learner = new()
    learner.learn(1_000)
    before, games_before = learner.n_moves, learner.n_games
    reported: list[Progress] = []
    reports = train(learner, n_moves=30_000, report=reported.append)
    assert reports == reported
    assert len(reports) > 1
    assert 30_000 <= learner.n_moves - before < 30_000 + MAX_MOVES
    assert reports[-1].n_moves == learner.n_moves
    assert reports[-1].n_games == learner.n_games > games_before
    for earlier, later in pairwise(reports):
        assert earlier.n_moves < later.n_moves
        assert earlier.n_games < later.n_games
        assert earlier.seconds <= later.seconds
    assert all(report.moves_per_second > 0 for report in reports)
    assert all(0 <= report.rate_2048 <= 1 for report in reports)


class AlternatingLearner:
    """A learner that plays twice in no time, and the third time learns for a second."""

    def __init__(self) -> None:
        self.n_moves = self.n_games = 0
        self.seconds = 0.0

    def learn(self, n_moves: float) -> Games:
        """Make 100 moves."""
        self.n_moves += 100
        self.seconds += self.n_moves % 300 == 0
        return self.ended()

    def ended(self) -> Games:
        """Return no games."""
        return Games(*(np.empty(0, np.int64) for _ in range(3)))

    def save(self, path: str | Path) -> None:
        """Not used."""


def test_speeds_are_measured_over_several_reports() -> None:
    reports = train(AlternatingLearner(), n_moves=12_000)
    speeds = [report.moves_per_second for report in reports]
    assert np.isnan(speeds[:2]).all() and speeds[2] == 300
    assert speeds[40:] == pytest.approx([300] * (len(speeds) - 40), rel=0.08)  # 13 or 14 s each
    resumed = AlternatingLearner()
    resumed.seconds = 1e6  # of an earlier run
    assert train(resumed, n_moves=300)[-1].moves_per_second == 300


class CompilingLearner(AlternatingLearner):
    """A learner that compiles for a second before its first moves."""

    def learn(self, n_moves: float) -> Games:
        """Make 100 moves in a hundredth of a second."""
        if self.n_moves == 0:
            kernel = SimpleNamespace(py_func=SimpleNamespace(__module__="somebody.else"))
            with events.trigger_event("numba:compile", {"dispatcher": kernel}):
                time.sleep(1)
        time.sleep(0.01)
        return super().learn(n_moves)


def test_compiling_takes_no_time_of_training() -> None:
    start, learner = clock(), CompilingLearner()
    reports = train(learner, seconds=0.5)
    assert len(reports) > 2 and 0.5 <= clock() - start < 1.5


def test_reports_without_a_game_that_ended_keep_nothing() -> None:
    """A run of days has hundreds of thousands of reports."""
    training = MoveTraining(AlternatingLearner(), None)
    for _ in range(5):
        training.advance(100)
    assert training._recent == []


def test_train_passes_its_end_by_one_game_at_most() -> None:
    learner, expected = new(), new()
    train(learner, n_moves=12_345)
    while expected.n_moves < 12_345:
        expected.learn(1)
    assert_same_learner(learner, expected)


def test_train_reports_the_mean_of_the_latest_thousand_games() -> None:
    learner, other = (NTupleLearner(network([[0, 1]], (2, 2)), seed=1) for _ in range(2))
    scores: list[int] = []
    for report in train(learner, n_moves=30_000):
        while other.n_games < report.n_games:
            scores += other.learn(1).scores.tolist()
        assert report.mean_score == pytest.approx(np.mean(scores[-1_000:]))
        assert report.rate_2048 == 0
    assert len(scores) > 1_000


@pytest.mark.parametrize("limit", ["n_moves", "seconds"])
def test_train_to_an_end_already_reached_only_saves(file: Path, limit: str) -> None:
    learner = new()
    limits: dict[str, Any] = {limit: 0}
    assert train(learner, **limits, save_to=file) == []
    assert learner.n_games == 0
    assert NTupleLearner.load(file).n_games == 0


def test_train_stops_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = new()
    set_clock(monkeypatch, learner, 0.25)
    assert len(train(learner, seconds=1)) == 4
    assert len(train(learner, seconds=0.8)) == 4
    assert len(train(learner, seconds=0.1)) == 1


@pytest.mark.parametrize("step", [0.05, 0.5, 5.0])
def test_reports_come_about_twice_a_second(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    """The amount between reports is scaled by 0.5 s / its time, and at most doubled."""
    learner = new()
    set_clock(monkeypatch, learner, step)
    n_moves = [report.n_moves for report in train(learner, seconds=5 * step)]
    expected = 1_000
    for earlier, later in pairwise([0, *n_moves]):
        assert expected <= later - earlier < expected + 2_000  # the last game is finished
        expected = max(1, int(expected * min(2.0, 0.5 / step)))


def test_train_stops_at_the_first_of_two_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    by_moves, by_time, expected = new(), new(), new()
    expected.learn(2_000)
    train(by_moves, n_moves=2_000, seconds=3_600)
    assert by_moves.n_games == expected.n_games
    set_clock(monkeypatch, by_time, 10.0)
    assert len(train(by_time, n_moves=10**12, seconds=15)) == 2


def test_seconds_are_those_of_play_alone_and_continue_after_loading(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saves, evaluations and the time between the runs do not count."""
    clock = [50.0]

    def kernel(*arguments: Any) -> int:
        clock[0] += 2
        return self_play(*arguments)

    def evaluate(progress: Progress) -> None:
        clock[0] += 100

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(ntuple_learner, "self_play", kernel)
    first = train(new(), n_moves=600, save_to=file, evaluate=evaluate)
    assert [report.seconds for report in first] == [2]
    clock[0] += 1_000
    resumed = NTupleLearner.load(file)
    assert resumed.seconds == 2
    reports = train(resumed, n_moves=6_000, evaluate=evaluate, evaluate_every=1_000)
    assert [report.seconds for report in reports] == [4 + 2 * i for i in range(len(reports))]
    assert len(reports) >= 6
    assert resumed.seconds == reports[-1].seconds


def test_train_works_with_a_clock_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that ticks every 16 ms may not move during a short piece of training."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    learner = new()
    train(learner, n_moves=1_000)
    assert learner.n_moves >= 1_000


def test_numbers_of_moves_are_whole() -> None:
    learner = NTupleLearner(network([[0, 1]]), seed=3)
    train(learner, n_moves=2e3)
    assert learner.n_moves >= 2_000
    for wrong in (1.5, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="n_moves"):
            train(learner, n_moves=wrong)
    for wrong in (0, 0.5, float("nan")):
        with pytest.raises(ValueError, match="whole number"):
            train(learner, n_moves=1, evaluate_every=wrong)


def test_train_saves_a_player_at_the_end(tmp_path: Path) -> None:
    file, learner = tmp_path / "new folder" / "learner.npz", new()
    train(learner, n_moves=2_000, save_to=file)
    assert_same_learner(NTupleLearner.load(file), learner)
    boards: npt.NDArray[np.uint64] = np.arange(1, 2**40, 2**33 + 12_345, dtype=np.uint64)
    agent = agents.load(file)
    assert isinstance(agent, NTupleAgent)
    assert estimate(agent.network, boards).tolist() == estimate(learner.network, boards).tolist()


def test_train_saves_at_intervals(file: Path) -> None:
    """An interval of 0 seconds ends after each report, one of an hour only at the end."""
    learner = new()
    saved: list[int] = []

    def check(progress: Progress) -> None:
        saved.append(NTupleLearner.load(file).n_moves if file.exists() else 0)

    reports = train(learner, 60_000, save_to=file, save_every=0, report=check)
    assert saved == [0, *(report.n_moves for report in reports[:-1])]
    assert len(saved) > 2
    saved.clear()
    train(learner, 60_000, save_to=file, save_every=3600, report=check)
    assert set(saved) == {reports[-1].n_moves}
    assert NTupleLearner.load(file).n_moves == learner.n_moves


def test_a_file_that_cannot_be_written_is_refused_before_training(tmp_path: Path) -> None:
    learner = NTupleLearner(network([[0, 1]]), seed=3)
    (folder := tmp_path / "learner.npz").mkdir()
    with pytest.raises(OSError, match="not a file"):
        train(learner, n_moves=1_000, save_to=folder)
    assert learner.n_moves == 0


@pytest.mark.parametrize("save_every", [0, 3_600])
def test_the_learner_is_saved_before_each_evaluation(file: Path, save_every: float) -> None:
    """A kill during a long evaluation loses nothing."""
    learner = new()
    saved: list[int] = []

    def check(progress: Progress) -> None:
        saved.append(NTupleLearner.load(file).n_moves)
        assert saved[-1] == progress.n_moves == learner.n_moves

    every: dict[str, Any] = {"evaluate": check, "evaluate_every": 5_000}
    train(learner, 18_000, save_to=file, save_every=save_every, **every)
    assert [n_moves // 5_000 for n_moves in saved] == [1, 2, 3, 3]


@pytest.fixture
def send_signal() -> Iterator[Callable[[int, float], Callable[[Progress], None]]]:
    """Return a function that makes a report, whose first call sends a signal after a delay.

    So training has begun when the signal arrives. It is not sent after the end of the test.
    """
    timers: list[threading.Timer] = []

    def make(number: int, delay: float) -> Callable[[Progress], None]:
        def report(progress: Progress) -> None:
            if not timers:
                timers.append(threading.Timer(delay, os.kill, (os.getpid(), number)))
                timers[0].start()

        return report

    yield make
    for timer in timers:
        timer.cancel()
        timer.join()


@pytest.mark.parametrize("settings", [NTupleSettings(), FORWARD], ids=["backward", "forward"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_learner_is_saved_and_learns_on_as_an_uninterrupted_one(
    file: Path, settings: NTupleSettings, error: type[BaseException]
) -> None:
    reports: list[Progress] = []

    def raise_later(progress: Progress) -> None:
        reports.append(progress)
        if len(reports) == 2:
            raise error("enough")

    with pytest.raises(error, match="enough"):
        train(new(settings), n_moves=10**9, save_to=file, report=raise_later)
    resumed = NTupleLearner.load(file)
    assert (resumed.n_moves, resumed.n_games) == (reports[1].n_moves, reports[1].n_games)
    train(resumed, n_moves=10_000)
    whole = new(settings)
    train(whole, n_moves=resumed.n_moves)
    assert_same_learner(whole, resumed)


@pytest.mark.parametrize("threads", [1, 2])
def test_games_that_end_before_an_interrupt_count_after_it(
    tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, recent = new(threads=threads), tmp_path / "recent.json"
    training = MoveTraining(learner, recent=recent)
    training.advance(2_000)

    def signalled(*arguments: Any) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return self_play(*arguments)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(ntuple_learner, "self_play", signalled)
        training.advance(2_000)
    training.save()
    saved = json.loads(recent.read_text())
    assert len(saved["scores"]) == learner.n_games < 1_000 and learner.n_moves >= 4_000
    resumed = MoveTraining(learner, recent=recent)
    assert resumed.progress().mean_score == training.progress().mean_score > 0
    assert not learner.ended().scores.size


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("[]", "must be"),
        ("5", "must be"),
        ('{"n_moves": 9, "scores": [99999999999999999999], "max_tiles": [4]}', "scores.0 must be"),
        ('{"n_moves": 9, "scores": ["a"], "max_tiles": [4]}', "scores.0 must be"),
        ('{"n_moves": 9, "scores": 5, "max_tiles": [4]}', "scores must be"),
        ('{"n_moves": 9, "scores": [1, 2], "max_tiles": [4]}', "the same games, got 2 and 1 games"),
    ],
)
def test_a_damaged_file_of_the_last_games_is_named(
    tmp_path: Path, wrong: str, message: str
) -> None:
    (recent := tmp_path / "recent.json").write_text(wrong)
    with pytest.raises(ValueError, match=message) as caught:
        MoveTraining(new(), recent=recent)
    assert str(caught.value).startswith(str(recent))


def test_an_interrupt_ends_training_without_a_file() -> None:
    with pytest.raises(KeyboardInterrupt):
        train(new(), n_moves=10**9, report=interrupt)


@pytest.mark.parametrize("delay", [0.02, 0.11])
def test_ctrl_c_leaves_a_learner_whose_counters_fit_its_weights(
    file: Path, send_signal: Any, delay: float
) -> None:
    """The signal arrives while a kernel runs, so Python handles it just after."""
    learner, straight = (NTupleLearner(network([[0, 1, 4, 5]]), seed=3) for _ in range(2))
    report = send_signal(signal.SIGINT, delay)
    with pytest.raises(KeyboardInterrupt):
        train(learner, seconds=600, save_to=file, report=report)
    saved = NTupleLearner.load(file)
    while straight.n_games < saved.n_games:
        straight.learn(1)
    assert_same_learner(straight, saved)


@pytest.mark.parametrize("delay", [0.02, 0.15])
def test_ctrl_c_waits_for_all_threads(file: Path, send_signal: Any, delay: float) -> None:
    """No thread learns afterwards, and the file has the result of all of them."""
    learner = new(threads=2)
    report = send_signal(signal.SIGINT, delay)
    with pytest.raises(KeyboardInterrupt):
        train(learner, seconds=600, save_to=file, report=report)
    n_moves, sums = learner.n_moves, learner.sums.copy()
    time.sleep(0.1)
    assert learner.n_moves == n_moves
    assert (learner.sums == sums).all()
    saved = NTupleLearner.load(file)
    assert_same_learner(saved, learner)
    assert (saved._state == learner._state).all()


def test_an_interrupt_while_threads_start_waits_for_the_started_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal may arrive just after a thread has started, before its start has returned."""
    learner, start = new(threads=3), threading.Thread.start
    started: list[threading.Thread] = []

    def interrupted_start(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted_start)
        with pytest.raises(KeyboardInterrupt):
            learner.learn(600_000)
    n_moves = learner.n_moves
    for thread in started:
        thread.join()
    assert learner.n_moves == n_moves


@pytest.mark.parametrize("threads", [1, 2])
def test_sigterm_saves_and_ends_the_program(file: Path, send_signal: Any, threads: int) -> None:
    before = signal.getsignal(signal.SIGTERM)
    learner = new(threads=threads)
    report = send_signal(signal.SIGTERM, 0.1)
    with pytest.raises(SystemExit) as caught:
        train(learner, seconds=600, save_to=file, report=report)
    assert caught.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before
    assert learner.n_moves > 0
    assert_same_learner(NTupleLearner.load(file), learner)


def test_a_thread_other_than_the_main_one_may_train() -> None:
    learner = new()
    reports: list[Progress] = []
    thread = threading.Thread(target=lambda: reports.extend(train(learner, n_moves=2_000)))
    thread.start()
    thread.join()
    assert reports[-1].n_moves == learner.n_moves >= 2_000


def evaluations(learner: NTupleLearner, n_moves: int, **arguments: Any) -> list[int]:
    """Return the numbers of moves at which `train` evaluates."""
    result: list[int] = []
    train(learner, n_moves, evaluate=lambda progress: result.append(progress.n_moves), **arguments)
    return result


def first_games_from(learner: NTupleLearner, every: int, end: int) -> list[int]:
    """Return the numbers of moves after the games that pass a multiple of `every`, or the end."""
    result: list[int] = []
    while learner.n_moves < end:
        before = learner.n_moves // every
        learner.learn(1)
        if learner.n_moves // every > before or learner.n_moves >= end:
            result.append(learner.n_moves)
    return result


@pytest.mark.parametrize("every", [700, 5_000, 10_000])
def test_evaluations_are_made_after_each_multiple_of_moves(every: int) -> None:
    expected = first_games_from(new(), every, 30_000)
    assert evaluations(new(), 30_000, evaluate_every=every) == expected


@pytest.mark.slow
def test_many_evaluations_at_short_intervals_are_made() -> None:
    made: list[int] = []
    learner = AlternatingLearner()
    train(learner, 300_000, evaluate_every=100, evaluate=lambda _: made.append(learner.n_moves))
    assert made == [*range(100, 300_001, 100)]


def test_evaluations_continue_at_the_same_moves_in_another_run() -> None:
    learner = new()
    result = evaluations(learner, 12_000, evaluate_every=5_000)
    result += evaluations(learner, 18_000, evaluate_every=5_000)
    whole = evaluations(new(), learner.n_moves, evaluate_every=5_000)
    assert [n_moves for n_moves in result if n_moves in whole] == whole
    assert len(result) == len(whole) + 1  # the end of the first run


def test_only_the_end_is_evaluated_by_default() -> None:
    learner = new()
    assert evaluations(learner, 20_000) == [learner.n_moves]
    assert evaluations(new(), 5_000, evaluate_every=10**9)[1:] == []


def test_evaluate_every_without_evaluate_does_nothing() -> None:
    learner, plain = new(), new()
    train(learner, 20_000, evaluate_every=1_000)
    train(plain, 20_000)
    assert_same_learner(learner, plain)


def test_the_end_is_evaluated_if_the_time_ends_while_saving(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    learner, save = new(), NTupleLearner.save
    reports: list[Progress] = []

    def slow_save(path: Any) -> None:
        clock[0] += 10
        save(learner, path)

    monkeypatch.setattr(learner, "save", slow_save)
    train(learner, seconds=5, save_to=file, save_every=0, evaluate=reports.append)
    assert [progress.n_moves for progress in reports] == [learner.n_moves]


def test_an_evaluation_receives_the_learner_after_the_reported_games() -> None:
    learner = new()

    def check(progress: Progress) -> None:
        assert (learner.n_moves, learner.n_games) == (progress.n_moves, progress.n_games)
        expected = new()
        while expected.n_games < progress.n_games:
            expected.learn(1)
        assert (expected.network.weights == learner.network.weights).all()

    train(learner, 6_000, evaluate=check, evaluate_every=2_000)
