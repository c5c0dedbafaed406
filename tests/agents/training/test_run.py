"""`train`: when it stops, reports, saves and evaluates, and what interrupts leave."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from afterstate import agents
from afterstate.agents.game2048.learning import ntuple_learner
from afterstate.agents.game2048.learning.ntuple_learner import Learner, Settings
from afterstate.agents.game2048.learning.self_play import MAX_MOVES, self_play
from afterstate.agents.game2048.play import Games
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate, network
from afterstate.agents.training.run import Progress, train

FORWARD = Settings(order="forward")
TINY_4X4 = [[0, 1, 4], [5, 6], [1, 2, 5, 6]]


@pytest.fixture
def listening() -> Iterator[None]:
    """Ctrl-C is heard, also where the tests run in the background of a shell that ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def new(settings: Settings | None = None, threads: int = 1) -> Learner:
    return Learner(network(TINY_4X4), settings, 1, threads)


def assert_same(one: Learner, other: Learner) -> None:
    """Both have learned the same and stand at the same place."""
    for name in ("n_games", "n_moves", "n_learned", "rng"):
        assert getattr(one, name) == getattr(other, name)
    np.testing.assert_array_equal(one.network.weights, other.network.weights)
    np.testing.assert_array_equal(one.sums, other.sums)


class Clock:
    """A clock that moves only by a learner's playing: each time it plays takes as long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, learner: Learner, step: float) -> None:
        self.now, play = 1000.0, learner.play

        def timed(n_moves: float) -> Games:
            self.now += step
            return play(n_moves)

        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(learner, "play", timed)


# When it stops


def test_train_needs_an_end() -> None:
    with pytest.raises(ValueError, match="n_moves or seconds"):
        train(new())


def test_train_without_an_end_writes_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        train(new(), save_to=tmp_path / "learner.npz")
    assert list(tmp_path.iterdir()) == []


def test_train_stops_after_its_moves_and_reports() -> None:
    learner = new()
    learner.play(1_000)
    before, games_before = learner.n_moves, learner.n_games
    seen: list[Progress] = []
    reports = train(learner, n_moves=30_000, report=seen.append)
    assert reports == seen
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


class Turns:
    """A learner that plays twice for nothing and learns for a second the third time."""

    def __init__(self) -> None:
        self.n_moves = self.n_games = 0
        self.seconds = 0.0

    def play(self, n_moves: float) -> Games:
        """Makes a hundred moves."""
        self.n_moves += 100
        self.seconds += self.n_moves % 300 == 0
        return Games(*(np.empty(0, np.int64) for _ in range(3)))

    def save(self, path: str | Path) -> None:
        """Is not asked for."""


def test_speeds_are_those_of_several_reports() -> None:
    reports = train(Turns(), n_moves=12_000)
    speeds = [report.moves_per_second for report in reports]
    assert np.isnan(speeds[:2]).all() and speeds[2] == 300
    assert speeds[40:] == pytest.approx([300] * (len(speeds) - 40), rel=0.08)  # 13 or 14 s each
    slow = Turns()
    slow.seconds = 1e6  # of an earlier start
    assert train(slow, n_moves=300)[-1].moves_per_second == 300


def test_train_passes_its_end_by_one_game_at_most() -> None:
    learner = new()
    train(learner, n_moves=12_345)
    lone = new()
    while lone.n_moves < 12_345:
        lone.play(1)
    assert learner.n_games == lone.n_games
    assert (learner.network.weights == lone.network.weights).all()


def test_train_reports_the_mean_of_the_latest_thousand_games() -> None:
    learner = Learner(network([[0, 1]], (2, 2)), seed=1)
    reports = train(learner, n_moves=30_000)
    lone = Learner(network([[0, 1]], (2, 2)), seed=1)
    scores: list[int] = []
    for report in reports:
        while lone.n_games < report.n_games:
            scores += lone.play(1).scores.tolist()
        assert report.mean_score == pytest.approx(np.mean(scores[-1_000:]))
        assert report.rate_2048 == 0
    assert len(scores) > 1_000


@pytest.mark.parametrize("limit", ["n_moves", "seconds"])
def test_train_to_an_end_already_reached_only_saves(tmp_path: Path, limit: str) -> None:
    learner = new()
    limits: dict[str, Any] = {limit: 0}
    assert train(learner, **limits, save_to=tmp_path / "learner.npz") == []
    assert learner.n_games == 0
    assert Learner.load(tmp_path / "learner.npz").n_games == 0


def test_train_stops_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = new()
    Clock(monkeypatch, learner, 0.25)
    assert len(train(learner, seconds=1)) == 4
    assert len(train(learner, seconds=0.8)) == 4
    assert len(train(learner, seconds=0.1)) == 1


def test_time_is_that_of_the_clock() -> None:
    learner, start = new(), time.monotonic()
    reports = train(learner, seconds=0.3)
    took = time.monotonic() - start
    assert took >= 0.3
    assert 0 < reports[0].seconds <= reports[-1].seconds == learner.seconds <= took


@pytest.mark.parametrize("took", [0.05, 0.5, 5.0])
def test_reports_come_about_twice_a_second(monkeypatch: pytest.MonkeyPatch, took: float) -> None:
    """What takes too long is halved or less the next time, what is over soon doubled at most."""
    learner = new()
    Clock(monkeypatch, learner, took)
    n_moves = [report.n_moves for report in train(learner, seconds=5 * took)]
    made = [later - earlier for earlier, later in pairwise([0, *n_moves])]
    expected = 1_000
    for moves in made:
        assert expected <= moves < expected + 2_000  # the last game is played to its end
        expected = max(1, int(expected * min(2.0, 0.5 / took)))


def test_train_stops_at_whichever_end_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    by_moves, by_time, lone = new(), new(), new()
    lone.play(2_000)
    train(by_moves, n_moves=2_000, seconds=3_600)
    assert by_moves.n_games == lone.n_games
    Clock(monkeypatch, by_time, 10.0)
    assert len(train(by_time, n_moves=10**12, seconds=15)) == 2


def test_the_time_of_learning_goes_on_after_a_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is what playing took, without saves, evaluations and the time in between."""
    clock = [50.0]

    def kernel(*arguments: Any) -> int:
        clock[0] += 2
        return self_play(*arguments)

    def evaluate(progress: Progress) -> None:
        clock[0] += 100

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(ntuple_learner, "self_play", kernel)
    learner = new()
    first = train(learner, n_moves=600, save_to=tmp_path / "learner.npz", evaluate=evaluate)
    assert [report.seconds for report in first] == [2]
    clock[0] += 1_000
    resumed = Learner.load(tmp_path / "learner.npz")
    assert resumed.seconds == 2
    again = train(resumed, n_moves=6_000, evaluate=evaluate, evaluate_every=1_000)
    assert [report.seconds for report in again] == [4 + 2 * i for i in range(len(again))]
    assert len(again) >= 6
    assert resumed.seconds == again[-1].seconds


def test_train_works_where_the_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that ticks every 16 ms sees no time pass in a short piece of training."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    learner = new()
    train(learner, n_moves=1_000)
    assert learner.n_moves >= 1_000


def test_numbers_of_moves_are_whole() -> None:
    learner = Learner(network([[0, 1]]), seed=3)
    train(learner, n_moves=2e3)
    assert learner.n_moves >= 2_000
    for wrong in (1.5, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="n_moves"):
            train(learner, n_moves=wrong)
    for wrong in (0, 0.5, float("nan")):
        with pytest.raises(ValueError, match="whole number"):
            train(learner, n_moves=1, evaluate_every=wrong)


# Saving


def test_train_saves_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "learner.npz"
    learner = new()
    train(learner, n_moves=2_000, save_to=file)
    loaded = Learner.load(file)
    assert loaded.n_moves == learner.n_moves
    assert (loaded.network.weights == learner.network.weights).all()
    boards: npt.NDArray[np.uint64] = np.arange(1, 2**40, 2**33 + 12_345, dtype=np.uint64)
    agent = agents.load(file)
    assert isinstance(agent, NTupleAgent)
    assert estimate(agent.network, boards).tolist() == estimate(learner.network, boards).tolist()


def test_train_saves_at_intervals(tmp_path: Path) -> None:
    """An interval of 0 seconds is over after each report, one of an hour only at the end."""
    file, learner = tmp_path / "learner.npz", new()
    saved: list[int] = []

    def look(progress: Progress) -> None:
        saved.append(Learner.load(file).n_moves if file.exists() else 0)

    reports = train(learner, 60_000, save_to=file, save_every=0, report=look)
    assert saved == [0, *(report.n_moves for report in reports[:-1])]
    assert len(saved) > 2
    saved.clear()
    train(learner, 60_000, save_to=file, save_every=3600, report=look)
    assert set(saved) == {reports[-1].n_moves}
    assert Learner.load(file).n_moves == learner.n_moves


def test_a_place_where_nothing_can_be_saved_shows_before_training(tmp_path: Path) -> None:
    learner = Learner(network([[0, 1]]), seed=3)
    with pytest.raises(OSError, match="not a file"):
        train(learner, n_moves=1_000, save_to=tmp_path)
    assert learner.n_moves == 0


@pytest.mark.parametrize("save_every", [0, 3_600])
def test_the_learner_is_saved_before_each_evaluation(tmp_path: Path, save_every: float) -> None:
    """What an evaluation of hours may see killed is not lost."""
    file, learner = tmp_path / "learner.npz", new()
    saved: list[int] = []

    def look(progress: Progress) -> None:
        saved.append(Learner.load(file).n_moves)
        assert saved[-1] == progress.n_moves == learner.n_moves

    every: dict[str, Any] = {"evaluate": look, "evaluate_every": 5_000}
    train(learner, 18_000, save_to=file, save_every=save_every, **every)
    assert [n_moves // 5_000 for n_moves in saved] == [1, 2, 3, 3]


# Interrupts


@pytest.fixture
def send_signal() -> Iterator[Callable[[int, float], Callable[[Progress], None]]]:
    """Makes a report that, the first time, has a signal sent to this program after a delay.

    So training has begun when it comes. It is not sent any more when the test has ended.
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


@pytest.mark.parametrize("settings", [Settings(), FORWARD], ids=["backward", "forward"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_training_is_saved_and_goes_on_without_a_difference(
    tmp_path: Path, settings: Settings, error: type[BaseException]
) -> None:
    file = tmp_path / "learner.npz"
    seen: list[Progress] = []

    def interrupt(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == 2:
            raise error("enough")

    with pytest.raises(error, match="enough"):
        train(
            new(settings),
            n_moves=10**9,
            save_to=file,
            report=interrupt,
        )
    resumed = Learner.load(file)
    assert (resumed.n_moves, resumed.n_games) == (seen[1].n_moves, seen[1].n_games)
    train(resumed, n_moves=10_000)
    whole = new(settings)
    train(whole, n_moves=resumed.n_moves)
    assert_same(whole, resumed)


def test_an_interrupt_without_a_file_goes_on_at_once() -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(new(), n_moves=10**9, report=interrupt)


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize("delay", [0.02, 0.05, 0.11])
def test_ctrl_c_leaves_a_learner_whose_counters_fit_its_weights(
    tmp_path: Path, send_signal: Any, delay: float
) -> None:
    """The signal comes while a kernel runs, so Python sees it just after."""
    learner = Learner(network([[0, 1, 4, 5]]), seed=3)
    report = send_signal(signal.SIGINT, delay)
    with pytest.raises(KeyboardInterrupt):
        train(learner, seconds=600, save_to=tmp_path / "learner.npz", report=report)
    saved = Learner.load(tmp_path / "learner.npz")
    straight = Learner(network([[0, 1, 4, 5]]), seed=3)
    while straight.n_games < saved.n_games:
        straight.play(1)
    assert_same(straight, saved)


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize("delay", [0.02, 0.3])
def test_ctrl_c_waits_for_all_threads(tmp_path: Path, send_signal: Any, delay: float) -> None:
    """No thread goes on to learn afterwards, and the file is what they left."""
    learner = new(threads=2)
    report = send_signal(signal.SIGINT, delay)
    with pytest.raises(KeyboardInterrupt):
        train(learner, seconds=600, save_to=tmp_path / "learner.npz", report=report)
    n_moves, sums = learner.n_moves, learner.sums.copy()
    time.sleep(0.1)
    assert learner.n_moves == n_moves
    assert (learner.sums == sums).all()
    saved = Learner.load(tmp_path / "learner.npz")
    assert_same(saved, learner)
    assert (saved._state == learner._state).all()


def test_an_interrupt_while_threads_start_waits_for_those_that_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal may come just after a thread has started, before the program knows of it."""
    learner, start = new(threads=3), threading.Thread.start
    started: list[threading.Thread] = []

    def interrupted_start(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted_start)
        with pytest.raises(KeyboardInterrupt):
            learner.play(600_000)
    n_moves = learner.n_moves
    for thread in started:
        thread.join()
    assert learner.n_moves == n_moves


@pytest.mark.parametrize("threads", [1, 2])
def test_sigterm_saves_and_ends_the_program(tmp_path: Path, send_signal: Any, threads: int) -> None:
    before = signal.getsignal(signal.SIGTERM)
    learner = new(threads=threads)
    report = send_signal(signal.SIGTERM, 0.1)
    with pytest.raises(SystemExit) as caught:
        train(learner, seconds=600, save_to=tmp_path / "learner.npz", report=report)
    assert caught.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before
    assert learner.n_moves > 0
    assert_same(Learner.load(tmp_path / "learner.npz"), learner)


def test_a_thread_that_is_not_the_main_one_may_train() -> None:
    learner = new()
    found: list[Progress] = []
    thread = threading.Thread(target=lambda: found.extend(train(learner, n_moves=2_000)))
    thread.start()
    thread.join()
    assert found[-1].n_moves == learner.n_moves >= 2_000


# Evaluation


def evaluated(learner: Learner, n_moves: int, **arguments: Any) -> list[int]:
    """The numbers of moves at which a training is evaluated."""
    seen: list[int] = []
    train(learner, n_moves, evaluate=lambda progress: seen.append(progress.n_moves), **arguments)
    return seen


def first_games_from(learner: Learner, every: int, end: int) -> list[int]:
    """The numbers of moves after the first game from each multiple of `every` on, and the end."""
    ends: list[int] = []
    while learner.n_moves < end:
        before = learner.n_moves // every
        learner.play(1)
        if learner.n_moves // every > before or learner.n_moves >= end:
            ends.append(learner.n_moves)
    return ends


@pytest.mark.parametrize("every", [700, 5_000, 10_000])
def test_evaluations_come_each_time_so_many_moves_are_made(every: int) -> None:
    assert evaluated(new(), 30_000, evaluate_every=every) == first_games_from(new(), every, 30_000)


def test_evaluations_go_on_where_they_were_after_a_break() -> None:
    learner = new()
    seen = evaluated(learner, 12_000, evaluate_every=5_000)
    seen += evaluated(learner, 18_000, evaluate_every=5_000)
    whole = evaluated(new(), learner.n_moves, evaluate_every=5_000)
    assert [n_moves for n_moves in seen if n_moves in whole] == whole
    assert len(seen) == len(whole) + 1  # the end of the first part


def test_without_a_number_of_moves_only_the_end_is_evaluated() -> None:
    learner = new()
    assert evaluated(learner, 20_000) == [learner.n_moves]
    assert evaluated(new(), 5_000, evaluate_every=10**9)[1:] == []


def test_evaluations_that_nobody_asked_for_do_no_harm() -> None:
    learner = new()
    train(learner, 20_000, evaluate_every=1_000)
    assert learner.n_moves >= 20_000


def test_the_end_is_evaluated_also_if_the_time_is_over_while_saving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    learner, save = new(), Learner.save
    seen: list[Progress] = []

    def slow_save(path: Any) -> None:
        clock[0] += 10
        save(learner, path)

    monkeypatch.setattr(learner, "save", slow_save)
    place = tmp_path / "learner.npz"
    train(learner, seconds=5, save_to=place, save_every=0, evaluate=seen.append)
    assert [progress.n_moves for progress in seen] == [learner.n_moves]


def test_evaluation_shows_the_learner_as_it_is_then() -> None:
    learner = new()

    def check(progress: Progress) -> None:
        assert (learner.n_moves, learner.n_games) == (progress.n_moves, progress.n_games)
        weights = learner.network.weights.copy()
        lone = new()
        while lone.n_games < progress.n_games:
            lone.play(1)
        assert (lone.network.weights == weights).all()

    train(learner, 6_000, evaluate=check, evaluate_every=2_000)
