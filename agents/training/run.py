"""The loop of all training runs: advance a learner, report, evaluate and save at intervals.

    train(learner, n_moves=1e6, save_to="mine.npz")

`afterstate train` trains any learner of the package in a folder; `train` trains
a learner of 2048 from Python. Both call `advance` with a `Trainee` and save it at intervals, before
evaluations, at the end, and on Ctrl-C or SIGTERM. A run that is killed loses what it learned since
the last save.
"""

from __future__ import annotations

import json
import math
import signal
import time
from collections import deque
from collections.abc import Callable
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from afterstate.agents.config import NonNegative, Whole, checked, read, settings
from afterstate.agents.training.evaluation import Games
from afterstate.agents.training.folder import RunFolder
from afterstate.envs import durable_files
from afterstate.envs.messages import shown
from afterstate.envs.signals import sigterm_raises, uninterrupted

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

N_RECENT = 1_000
"""Number of latest games of 2048 whose mean score is reported."""

SECONDS_PER_REPORT = 0.5


class Diverged(ArithmeticError):
    """Error of a learner whose values diverged.

    Args:
        message: the reason.
        last: the last finite values, by name.
    """

    def __init__(self, message: str, last: dict[str, float]) -> None:
        super().__init__(message)
        self.last = last

    def __reduce__(self) -> tuple[Any, ...]:
        return Diverged, (str(self), self.last)  # to another process


class Trainee(Protocol):
    """A learner as the loop of a run sees it."""

    amount_unit: ClassVar[str]
    """Unit of `amount`, such as `"moves"`."""
    chunk: ClassVar[int]
    """Amount to learn before the first report."""
    saves_each_chunk: ClassVar[bool]
    """True if it must be saved after each `advance`, and not at intervals."""

    @property
    def amount(self) -> int:
        """Number of moves, generations or steps learned since the beginning."""

    @property
    def end(self) -> int | None:
        """Amount at which learning is complete; None if there is none, or it is not known yet."""

    def advance(self, amount: int) -> None:
        """Learn about this amount, or a smaller complete part of it."""

    def counters(self) -> dict[str, Any]:
        """Return the first entries of each row: the amount and the seconds."""

    def report(self) -> dict[str, Any]:
        """Return the entries that the progress bar shows."""

    def evaluate(self) -> dict[str, Any]:
        """Return the entries of an evaluation's row."""

    def save(self) -> None:
        """Write the checkpoint."""


class RunSettings(Protocol):
    """Settings of a run, from a JSON file and the command line."""

    options: ClassVar[Any]
    """Class of the options, such as `Options`."""
    row_key: ClassVar[str]
    """Name of the amount in rows."""
    evaluation_key: ClassVar[str]
    """Name of an entry that only rows of evaluations have."""

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """Names of the files from any of which a run is resumed."""

    def begin(self, options: Any, folder: RunFolder) -> Trainee:
        """Return a new learner, or the one in the folder; nothing is written.

        Raises:
            OSError: a file cannot be read.
            ValueError: wrong settings, or a folder that does not fit them.
        """


class Limits(NamedTuple):
    """Limits at which a run stops, saves and evaluates; None is no limit."""

    end: int | None = None  # amount of the learner at which to stop
    seconds: float | None = None  # of this run without compilation
    save_every: float | None = None  # seconds; None: save only at the end
    evaluate_every: int | None = None  # amount; the end is always evaluated
    evaluated: int | None = None  # amount of the learner at its last evaluation; None: as now

    def end_of(self, trainee: Trainee) -> int | None:
        """Return the amount at which a trainee reaches its own end or that of the run."""
        return min((end for end in (self.end, trainee.end) if end is not None), default=None)


def advance(
    trainee: Trainee,
    limits: Limits,
    report: Callable[[], Any],
    evaluate: Callable[[], Any] | None = None,
    check: Callable[[], Any] | None = None,
) -> None:
    """Advance a trainee to its limits.

    Args:
        trainee: the learner; it learns in place.
        limits: limits of the run.
        report: called about twice a second.
        evaluate: called at each evaluation; an overdue one is made first.
        check: called before each save, also the last one; raises OSError if nothing may be written.
    """
    state = _RunState(trainee, limits, check)
    with sigterm_raises(SystemExit(128 + signal.SIGTERM)):
        try:
            is_done = False
            while not is_done:
                is_done = state.is_done()
                if evaluate is not None and state.is_evaluation_due(is_done):
                    if limits.save_every is not None:
                        state.save()  # an evaluation may take longer than the interval
                    state.evaluated = trainee.amount
                    evaluate()
                if not is_done:
                    state.advance()
                    report()
                    if state.is_save_due():
                        state.save()
        finally:
            with uninterrupted():
                state.save()


class _RunState:
    """State of a run between two chunks."""

    def __init__(
        self, trainee: Trainee, limits: Limits, check: Callable[[], Any] | None = None
    ) -> None:
        from afterstate.envs.compiling import clock  # numba, which helps do not need

        self.trainee, self.limits = trainee, limits
        self._check = check or (lambda: None)
        self.evaluated = trainee.amount if limits.evaluated is None else limits.evaluated
        # Amount of the trainee in its file. A trainee that is saved after each chunk must not be
        # saved in the middle of one, when it is interrupted.
        self._in_file = trainee.amount if trainee.saves_each_chunk else -1
        self._clock, self._saved = clock, time.monotonic()
        self._start = clock()
        self._chunk = trainee.chunk  # amount until the next report

    @property
    def end(self) -> int | None:
        """Amount at which the run ends, None if that is not known."""
        return self.limits.end_of(self.trainee)

    def is_done(self) -> bool:
        """Return True if the run has reached its end or its time limit."""
        if self.end is not None and self.trainee.amount >= self.end:
            return True
        seconds = self.limits.seconds
        return seconds is not None and self._clock() - self._start >= seconds

    def advance(self) -> None:
        """Learn for about half a second."""
        start, before = self._clock(), self.trainee.amount
        most = [self._chunk]
        if self.end is not None:
            most.append(self.end - before)
        if self.limits.evaluate_every is not None:
            most.append(self.limits.evaluate_every - before % self.limits.evaluate_every)
        step = min(most)
        self.trainee.advance(step)
        if step == self._chunk:  # not cut short
            elapsed = max(1e-3, self._clock() - start)
            self._chunk = max(1, int(step * min(2.0, SECONDS_PER_REPORT / elapsed)))

    def is_evaluation_due(self, is_done: bool) -> bool:
        """Return True if the trainee has passed another multiple of `evaluate_every` or its end."""
        now, before, every = self.trainee.amount, self.evaluated, self.limits.evaluate_every
        has_passed = every is not None and now // every > before // every
        return has_passed or (is_done and now > before)

    def is_save_due(self) -> bool:
        """Return True if the time since the last save is at least the interval."""
        every = self.limits.save_every
        return every is not None and time.monotonic() - self._saved >= every

    def save(self) -> None:
        """Save the trainee, unless its file is up to date."""
        if self._in_file == self.trainee.amount:
            return
        self._check()
        self._saved = time.monotonic()
        try:
            self.trainee.save()
        except OSError:
            self._check()  # perhaps because the folder was removed meanwhile
            raise
        self._in_file = self.trainee.amount


class LastGames(NamedTuple):
    """The last games, `[n]` each."""

    scores: npt.NDArray[np.int64]
    max_tiles: npt.NDArray[np.int64]


class MoveLearner(Protocol):
    """A learner of 2048, such as `ntuple_learner.NTupleLearner`."""

    @property
    def n_moves(self) -> int:
        """Number of moves learned from."""

    @property
    def n_games(self) -> int:
        """Number of games played."""

    seconds: float
    """Wall-clock time of play and learning without compilation, in seconds."""

    def learn(self, n_moves: float) -> Games:
        """Learn from about this many more moves, and return the games that ended meanwhile."""

    def ended(self) -> Games:
        """Return the games that have ended and were not returned yet, such as before Ctrl-C."""

    def save(self, path: str | Path) -> None:
        """Write the checkpoint to a file."""


class Progress(NamedTuple):
    """Progress of training: see `train`."""

    n_games: int
    n_moves: int
    seconds: float  # of play and learning without compilation, since the learner's first move
    moves_per_second: float  # in the last 40 reports
    mean_score: float  # of the last 1,000 games; nan if no game has ended
    rate_2048: float  # share of these games that reached 2048


@settings
class SavedGames:
    """The last games of a run, as its file has them.

    Raises:
        ValueError: the lists differ in length.
    """

    n_moves: Whole = 0
    """Number of moves of the learner."""
    scores: tuple[Whole, ...] = ()
    max_tiles: tuple[Whole, ...] = ()

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.max_tiles):
            lengths = f"{len(self.scores)} and {len(self.max_tiles)} games"
            raise ValueError(f"scores and max_tiles must be of the same games, got {lengths}")


class MoveTraining:
    """Trainee that wraps a learner of 2048; its amount is the number of moves.

    Args:
        learner: the learner; it learns in place.
        save_to: file of the checkpoint; None: it is not saved.
        evaluation: returns further entries of the row of an evaluation.
        recent: file of the last games, for the mean score after the run is resumed; None: the mean
            is then of the games after that alone.
    """

    amount_unit: ClassVar[str] = "moves"
    chunk: ClassVar[int] = 1_000
    saves_each_chunk: ClassVar[bool] = False
    end = None

    def __init__(
        self,
        learner: MoveLearner,
        save_to: str | Path | None = None,
        evaluation: Callable[[], dict[str, Any]] = dict,
        recent: Path | None = None,
    ) -> None:
        self.learner, self._save_to, self._evaluation = learner, save_to, evaluation
        # Learners may alternate long phases of play and learning: speeds need several reports.
        self._marks = deque([(learner.seconds, learner.n_moves)], maxlen=41)
        self._recent_file = recent
        self._recent: list[Games] = [] if recent is None else self._saved_games(recent)

    @property
    def amount(self) -> int:
        """Number of moves."""
        return self.learner.n_moves

    def advance(self, amount: int) -> None:
        """Learn from about this many more moves."""
        try:
            self._keep(self.learner.learn(amount))
        except BaseException:
            self._keep(self.learner.ended())
            raise
        while sum(len(batch.scores) for batch in self._recent[1:]) >= N_RECENT:
            del self._recent[0]
        self._marks.append((self.learner.seconds, self.learner.n_moves))

    def _keep(self, games: Games) -> None:
        """Keep games that have ended, if there are any."""
        if len(games.scores):
            self._recent.append(games)

    def progress(self) -> Progress:
        """Return the progress."""
        scores, tiles = self._last_games()
        return Progress(
            n_games=self.learner.n_games,
            n_moves=self.learner.n_moves,
            seconds=self.learner.seconds,
            moves_per_second=self._speed(),
            mean_score=float(scores.mean()) if scores.size else float("nan"),
            rate_2048=float((tiles >= 2048).mean()) if tiles.size else float("nan"),
        )

    def _last_games(self) -> LastGames:
        """Return the last games, at most 1,000."""
        import numpy as np

        none = np.empty(0, np.int64)
        scores = np.concatenate([none, *(games.scores for games in self._recent)])[-N_RECENT:]
        tiles = np.concatenate([none, *(games.max_tiles for games in self._recent)])[-N_RECENT:]
        return LastGames(scores, tiles)

    def _saved_games(self, file: Path) -> list[Games]:
        """Return the last games of a file, if they were saved with the learner as it is now."""
        import numpy as np

        saved = read(file, SavedGames) if file.exists() else SavedGames()
        if saved.n_moves != self.learner.n_moves:
            return []
        return [LastGames(*(np.array(each, np.int64) for each in (saved.scores, saved.max_tiles)))]

    def _speed(self) -> float:
        """Return the recent moves per second of play and learning; nan at first."""
        (start, first), (now, last) = self._marks[0], self._marks[-1]
        return (last - first) / (now - start) if now > start else float("nan")

    def report(self) -> dict[str, Any]:
        """Return the mean score, if a game has ended."""
        mean = self.progress().mean_score
        return {} if math.isnan(mean) else {"mean": f"{mean:,.0f}"}

    def counters(self) -> dict[str, Any]:
        """Return the numbers of games and moves and the seconds."""
        return {name: getattr(self.learner, name) for name in ("n_games", "n_moves", "seconds")}

    def evaluate(self) -> dict[str, Any]:
        """Return the progress and the evaluation of the learner."""
        return {**self.progress()._asdict(), **self._evaluation()}

    def save(self) -> None:
        """Save the learner, if it has a file, and the last games."""
        if self._save_to is not None:
            self.learner.save(self._save_to)
        if self._recent_file is not None:
            self._save_games(self._recent_file)

    def _save_games(self, file: Path) -> None:
        """Save the last games, if any has ended."""
        games = self._last_games()
        if games.scores.size:
            lists = {name: values.tolist() for name, values in games._asdict().items()}
            saved = json.dumps({"n_moves": self.learner.n_moves, **lists})
            durable_files.write(file, saved.encode())


def train(
    learner: MoveLearner,
    n_moves: float | None = None,
    seconds: float | None = None,
    save_to: str | Path | None = None,
    report: Callable[[Progress], Any] | None = None,
    save_every: float | None = None,
    evaluate: Callable[[Progress], Any] | None = None,
    evaluate_every: float | None = None,
    evaluated: int | None = None,
) -> list[Progress]:
    """Train a learner of 2048, and save it at intervals, at the end and when it is interrupted.

    Args:
        learner: the learner; it learns in place.
        n_moves: stop after this many more moves.
        seconds: stop after this time, compilation not counted.
        save_to: file for the learner's checkpoint, `.npz` of an N-tuple network or `.safetensors`
            of a neural one, with the network next to it. It is also written on Ctrl-C or SIGTERM,
            before their exception leaves this function.
        report: called about twice a second.
        save_every: seconds from one save to the next; the learner is also saved before each
            evaluation. By default it is only saved at the end.
        evaluate: called each time the learner's number of moves passes a multiple of
            `evaluate_every`, and at the end.
        evaluate_every: number of moves; by default only the end is evaluated.
        evaluated: the learner's number of moves at its last evaluation; by default as now. An
            evaluation that is overdue is made first.

    Returns:
        The reports.

    Raises:
        ValueError: neither `n_moves` nor `seconds` is given, or a wrong value of an argument.
        OSError: `save_to` cannot be written; this is checked before training.
    """
    if n_moves is None and seconds is None:
        raise ValueError("train needs n_moves or seconds, or it would never end")
    end = None if n_moves is None else learner.n_moves + whole_moves(n_moves, least=0)
    every = None if evaluate_every is None else whole_moves(evaluate_every, name="evaluate_every")
    seconds = checked("seconds", seconds, NonNegative | None)
    save_every = checked("save_every", save_every, NonNegative | None)
    if save_to is not None:
        _check_file(save_to, learner)
    training, reports = MoveTraining(learner, save_to), list[Progress]()

    def record() -> None:
        reports.append(training.progress())
        if report is not None:
            report(reports[-1])

    advance(
        training,
        Limits(end, seconds, save_every, every, evaluated),
        record,
        None if evaluate is None else lambda: evaluate(training.progress()),
    )
    return reports


def _check_file(save_to: str | Path, learner: MoveLearner) -> None:
    """Check that a learner can be saved to a file.

    Raises:
        ValueError: the file has not the ending of the learner's files.
        OSError: it cannot be written.
    """
    suffix = getattr(learner, "suffix", "")
    if not str(save_to).endswith(suffix):
        raise ValueError(f"save_to must end in {suffix} for this learner, got {shown(save_to)}")
    durable_files.check_writable(save_to)


def whole_moves(n_moves: float, least: int = 1, name: str = "n_moves") -> int:
    """Return a number of moves, which may be a whole float such as 5e7.

    Raises:
        ValueError: not a whole number, or below the least.
    """
    is_number = isinstance(n_moves, Real)
    if not is_number or not least <= n_moves < 2**63 or n_moves != int(n_moves):
        raise ValueError(f"{name} must be a whole number >= {least}, got {shown(n_moves)}")
    return int(n_moves)
