"""Runs in which a player of 2048 learns: short ones in a program, long ones from a command line.

    train(learner, n_moves=1e6, save_to="mine.npz")

`training.py`, `value_learning.py`, `policy_learning.py` and `search_learning.py` are the commands.
They read a settings file, which is a JSON object, and have a folder for a run. In it are

- the learner, in the file of its kind, written beside and renamed at intervals, before evaluations,
  at the end, and on Ctrl-C or SIGTERM. A run that is killed loses what it did since.
- `rows.jsonl`: one JSON object an evaluation, with moves, games, seconds, the mean of the last
  1,000 training games since the run began or was resumed, and mean, 95% interval and shares of
  tiles for each way to play.
- `settings.json`: what was asked for. A run may be resumed with other settings of the learner, for
  example a smaller rate for its last part, but not with another network.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from afterstate.agents import files
from afterstate.agents.game2048.learning.ntuple_learner import whole_moves
from afterstate.agents.game2048.play import Games
from afterstate.agents.training.commands import above_0, progress_bar, sigterm_raises, whole_above_0
from afterstate.envs.words import whole

EVALUATION_SEED = 1 << 40
"""Evaluation games have seeds from here on, so that they are the same in every evaluation."""


class Trainee(Protocol):
    """What is trained, such as a `learning.Learner`."""

    @property
    def n_moves(self) -> int:
        """How many moves it has learned from."""
        ...

    @property
    def n_games(self) -> int:
        """How many games it has played."""
        ...

    seconds: float
    """How long it has learned."""

    def play(self, n_moves: float) -> Games:
        """Learns from about so many moves more, and returns the games that ended."""
        ...

    def save(self, path: str | Path) -> None:
        """Writes it to a file."""
        ...


class Diverged(ArithmeticError):
    """Values have run away in learning.

    Args:
        message: what happened.
        last: the last values that were numbers, by name.
    """

    def __init__(self, message: str, last: dict[str, float]) -> None:
        super().__init__(message)
        self.last = last


class Progress(NamedTuple):
    """How far training is: see `train`."""

    n_games: int
    n_moves: int
    seconds: float  # of play and learning, by the clock, since the learner's first move
    moves_per_second: float  # of the last 40 reports
    mean_score: float  # of the last 1,000 games of this `train`; nan if there was none
    rate_2048: float  # share of them that reached 2048


def train(
    learner: Trainee,
    n_moves: float | None = None,
    seconds: float | None = None,
    save_to: str | Path | None = None,
    report: Callable[[Progress], Any] | None = None,
    save_every: float | None = None,
    evaluate: Callable[[Progress], Any] | None = None,
    evaluate_every: float | None = None,
    evaluated: int | None = None,
) -> list[Progress]:
    """Trains a learner, and saves it at intervals, at the end and when it is interrupted.

    Args:
        learner: learns in place.
        n_moves: stop after so many moves more.
        seconds: stop after so long.
        save_to: file to save the learner to, also on Ctrl-C or SIGTERM, which then go on.
        report: called about twice a second.
        save_every: seconds from one save to the next; it is saved before each evaluation, too. By
            default only the last.
        evaluate: called each time the learner has made another `evaluate_every` moves, counted
            from its first, and at the end.
        evaluate_every: see `evaluate`; by default only at the end.
        evaluated: how many moves the learner had made at its last evaluation; by default as many
            as now. An evaluation that is overdue is made first.

    Returns:
        The reports.

    Raises:
        ValueError: neither `n_moves` nor `seconds` is given, or not a number of moves.
        OSError: `save_to` cannot be written; this shows before training.
    """
    if n_moves is None and seconds is None:
        raise ValueError("train needs n_moves or seconds, or it would never end")
    end = None if n_moves is None else learner.n_moves + whole_moves(n_moves, least=0)
    every = None if evaluate_every is None else whole_moves(evaluate_every)
    if save_to is not None:
        files.check_writable(save_to)
    last = learner.n_moves if evaluated is None else evaluated
    run = _Standing(learner, end, seconds, every, last, save_to)
    with sigterm_raises(SystemExit(128 + signal.SIGTERM)):
        try:
            is_done = False
            while not is_done:
                is_done = run.is_done()
                if evaluate is not None and run.is_evaluation_due(is_done):
                    if save_every is not None:
                        run.save()  # an evaluation may take longer than the interval
                    evaluate(run.progress())
                if not is_done:
                    run.go_on()
                    if report is not None:
                        report(run.reports[-1])
                    if run.is_save_due(save_every):
                        run.save()
        finally:
            run.save()
    return run.reports


class _Standing:
    """Where a training run stands."""

    def __init__(
        self,
        learner: Trainee,
        end: int | None,
        seconds: float | None,
        every: int | None,
        evaluated: int,
        save_to: str | Path | None,
    ) -> None:
        self.learner, self.end, self.seconds, self.every = learner, end, seconds, every
        self.evaluated = evaluated  # moves at the last evaluation
        self.reports: list[Progress] = []
        self._save_to, self._in_file = save_to, -1  # moves of the learner that is in the file
        self._start = self._saved = time.monotonic()
        self._chunk = 1_000  # moves until the next report
        # Learners may play and learn in turns of many moves: only several reports have a speed.
        self._marks = deque([(learner.seconds, learner.n_moves)], maxlen=41)
        self._recent: list[Games] = []

    def is_done(self) -> bool:
        """Whether training has reached its number of moves or its time."""
        if self.end is not None and self.learner.n_moves >= self.end:
            return True
        return self.seconds is not None and time.monotonic() - self._start >= self.seconds

    def go_on(self) -> None:
        """Learns for about half a second, and reports."""
        began, n_before = time.monotonic(), self.learner.n_moves
        limits = [self._chunk]
        if self.end is not None:
            limits.append(self.end - n_before)
        if self.every is not None:
            limits.append(self.every - n_before % self.every)
        games = self.learner.play(min(limits))
        took = max(1e-3, time.monotonic() - began)
        self._recent = _last([*self._recent, games])
        self._chunk = max(1, int(self._chunk * min(2.0, 0.5 / took)))
        self._marks.append((self.learner.seconds, self.learner.n_moves))
        self.reports.append(self.progress())

    def progress(self) -> Progress:
        """How far training is."""
        empty = Games(*(np.empty(0, np.int64) for _ in range(3)))
        scores, _, tiles = (
            np.concatenate(parts)[-1_000:] for parts in zip(empty, *self._recent, strict=True)
        )
        return Progress(
            n_games=self.learner.n_games,
            n_moves=self.learner.n_moves,
            seconds=self.learner.seconds,
            moves_per_second=self._speed(),
            mean_score=float(scores.mean()) if scores.size else float("nan"),
            rate_2048=float((tiles >= 2048).mean()) if tiles.size else float("nan"),
        )

    def _speed(self) -> float:
        """Moves per second of play and learning, lately; nan at first."""
        (began, first), (now, last) = self._marks[0], self._marks[-1]
        return (last - first) / (now - began) if now > began else float("nan")

    def is_evaluation_due(self, is_done: bool) -> bool:
        """Whether the learner has come past another `every` moves, or to the end."""
        now, before = self.learner.n_moves, self.evaluated
        is_due = self.every is not None and now // self.every > before // self.every
        if not is_due and not (is_done and now > before):
            return False
        self.evaluated = now
        return True

    def is_save_due(self, save_every: float | None) -> bool:
        """Whether the last save is so long ago."""
        return save_every is not None and time.monotonic() - self._saved >= save_every

    def save(self) -> None:
        """Saves the learner if there is a file for it, unless it is there as it is."""
        if self._save_to is None or self._in_file == self.learner.n_moves:
            return
        self._saved = time.monotonic()
        self.learner.save(self._save_to)
        self._in_file = self.learner.n_moves


def _last(batches: list[Games]) -> list[Games]:
    """The latest batches of games that have 1,000 games together."""
    while sum(len(batch.scores) for batch in batches[1:]) >= 1_000:
        batches = batches[1:]
    return batches


# Evaluation


def summary(games: Games) -> dict[str, Any]:
    """The mean score of games with its 95% interval (normal), and the shares of largest tiles.

    The interval of a single game is None.

    Raises:
        ValueError: there is no game.
    """
    n = len(games.scores)
    if n == 0:
        raise ValueError("a summary needs at least one game")
    spread = 1.96 * float(games.scores.std(ddof=1)) / n**0.5 if n > 1 else None
    tiles = (2048, 4096, 8192, 16384, 32768, 65536)
    return {
        "n_games": n,
        "mean": round(float(games.scores.mean()), 1),
        "interval": None if spread is None else round(spread, 1),
        "max": int(games.scores.max()),
        "reached": {str(tile): float((games.max_tiles >= tile).mean()) for tile in tiles},
    }


# The command line


class Kind(NamedTuple):
    """A kind of learners, for the command that trains them."""

    module: str  # of the command
    what: str  # is trained
    settings: dict[str, Any]  # what a settings file may have, and what stands for what it has not
    file: Callable[[dict[str, Any]], str]  # of the learner with such settings, in its folder
    begin: Callable[[dict[str, Any], argparse.Namespace, Path | None], Any]
    """A learner from settings and options, which goes on from a file if there is one."""
    evaluate: Callable[[Any, argparse.Namespace], dict[str, Any]]  # what rows say of a learner
    evaluate_every: float  # moves, unless the command line says otherwise
    plies: str  # and games
    devices: bool  # whether it may be elsewhere than on the CPU


def read_settings(path: str | Path, known: dict[str, Any]) -> dict[str, Any]:
    """The settings of a file, checked as far as can be without making the network.

    Args:
        path: the file.
        known: what it may have, and what stands for what it has not.

    Raises:
        OSError: it cannot be read.
        ValueError: not such settings.
    """
    try:
        settings = json.loads(Path(path).read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(settings, dict) or not set(settings) <= set(known):
        raise ValueError(f"{path} is not a JSON object with {sorted(known)}")
    return {**known, **settings}


def check_seed(seed: Any) -> None:
    """Raises a ValueError unless it is a seed of settings, or null."""
    if seed is not None and (whole(seed) is None or seed < 0):
        raise ValueError(f"seed is a whole number from 0 on or null, got {seed!r}")


def _plies(text: str) -> dict[int, int]:
    """`1:1000,3:20` as depths and numbers of games."""
    pairs = [part.split(":") for part in text.split(",") if part]
    try:
        plies = {int(depth): int(n_games) for depth, n_games in pairs}
    except ValueError:
        plies = {0: 0}
    if len(plies) < len(pairs) or not all(d in range(1, 6) and n > 0 for d, n in plies.items()):
        raise argparse.ArgumentTypeError(f"plies are 1 to 5, each once, with games, not {text!r}")
    return plies


def options(kind: Kind, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m afterstate.agents.game2048.{kind.module}",
        description=f"Trains {kind.what} for 2048.",
    )
    add = parser.add_argument
    add("settings", type=Path, help="JSON file with the network and how to learn")
    add("--out", type=Path, required=True, help="folder of the run")
    add("--moves", type=whole_above_0, help="stop when the learner has made so many moves")
    add("--hours", type=above_0, help="stop after so long, counted from this start")
    add("--threads", type=int, default=1)
    add("--resume", action="store_true", help="go on with the run in the folder")
    add("--save-minutes", type=above_0, default=10, help="between two saves (%(default)s)")
    every = kind.evaluate_every
    add("--evaluate-every", type=whole_above_0, default=every, help="moves (%(default)g)")
    add("--evaluate", type=_plies, default=kind.plies, metavar="PLIES:GAMES,...", help=kind.plies)
    if kind.devices:
        add("--device", default="cpu", help="where it learns and plays: cpu or cuda (%(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.moves is None and chosen.hours is None:
        parser.error("say where to stop: --moves or --hours")
    return chosen


def _begin(kind: Kind, chosen: argparse.Namespace) -> tuple[Trainee, Path, int]:
    """The learner of a new or a resumed run, its file, and its moves at the last evaluation kept.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: wrong settings, or a folder that does not fit what is asked for.
    """
    settings = read_settings(chosen.settings, kind.settings)
    place = chosen.out / kind.file(settings)
    others = [path for path in chosen.out.glob("learner.*") if path.suffix != ".part"]
    own = [place, chosen.out / "net.safetensors", chosen.out / "rows.jsonl"]
    for path in [*others, own[1]] if not chosen.resume else ():  # rows may be of one never saved
        if path.exists():
            raise ValueError(f"{path} is there: go on with --resume, or choose another --out")
    if chosen.resume and not place.exists():
        raise ValueError(f"{place} is not there: there is nothing to resume")
    learner: Trainee = kind.begin(settings, chosen, place if chosen.resume else None)
    chosen.out.mkdir(parents=True, exist_ok=True)
    for cut_off in (part for path in own for part in chosen.out.glob(f"{path.name}.*.part")):
        cut_off.unlink()  # by a kill
    evaluated = files.truncate_rows(chosen.out / "rows.jsonl", "n_moves", learner.n_moves)
    (chosen.out / "settings.json").write_text(json.dumps(settings, indent=1) + "\n")
    return learner, place, evaluated


def _write_row(folder: Path, row: dict[str, Any]) -> None:
    """Adds a row to those of a run; what is nan becomes null, for it is not JSON."""
    row = {name: None if value != value else value for name, value in row.items()}
    with (folder / "rows.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def _run(
    kind: Kind,
    chosen: argparse.Namespace,
    learner: Trainee,
    place: Path,
    evaluated: int,
    bar: Any,
) -> None:
    """Trains as the command line says, and shows it on a progress bar."""
    began, n_before = time.monotonic(), learner.n_moves
    seconds = None if chosen.hours is None else 3600 * chosen.hours

    def show(progress: Progress) -> None:
        if seconds is not None:  # as far as it will come in this time
            share = (time.monotonic() - began) / seconds
            end = n_before + (progress.n_moves - n_before) / max(share, 1e-9)
            bar.total = min(end, chosen.moves or end)
        bar.update(progress.n_moves - bar.n)
        if progress.mean_score == progress.mean_score:
            bar.set_description(f"mean {progress.mean_score:,.0f}", refresh=False)

    def note(progress: Progress) -> None:
        row = {**progress._asdict(), **kind.evaluate(learner, chosen)}
        _write_row(chosen.out, row)
        found = (f"{name} {row[name]['mean']:,.0f}" for name in row if name.endswith("ply"))
        bar.set_postfix_str(", ".join(found))

    train(
        learner,
        n_moves=None if chosen.moves is None else max(0, chosen.moves - n_before),
        seconds=seconds,
        save_to=place,
        report=show,
        save_every=60 * chosen.save_minutes,
        evaluate=note,
        evaluate_every=chosen.evaluate_every,
        evaluated=evaluated,
    )


def run(kind: Kind, arguments: Sequence[str] | None = None) -> None:
    """Runs the command line that trains a kind of learners."""
    chosen, tqdm = options(kind, arguments), progress_bar()
    try:
        learner, place, evaluated = _begin(kind, chosen)
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error
    with tqdm(total=chosen.moves, initial=learner.n_moves, unit=" moves", unit_scale=True) as bar:
        try:
            _run(kind, chosen, learner, place, evaluated, bar)
        except KeyboardInterrupt:
            bar.close()
            raise SystemExit(f"saved in {chosen.out}: go on with --resume") from None
        except Diverged as error:
            bar.close()
            told = {"n_games": learner.n_games, "n_moves": learner.n_moves}
            _write_row(chosen.out, {**told, "seconds": learner.seconds, "diverged": error.last})
            saved = f": {place} is as it was saved last" if place.exists() else ""
            raise SystemExit(f"{error}{saved}") from error
        except (OSError, ValueError) as error:
            bar.close()
            raise SystemExit(str(error)) from error
