"""Repeats the experiments of Matsuzaki's paper on quasi-greedy learning, at a scale of your choice.

    python -m benchmarks.experiments.quasi_greedy.run good_plays --moves 2e8 --repeats 3 --jobs 2
    python -m benchmarks.experiments.quasi_greedy.run search --seconds 1800 --repeats 3 --jobs 2
    python -m benchmarks.experiments.quasi_greedy.run good_plays --draw
    python -m benchmarks.experiments.quasi_greedy.run epsilon --smoke

Each run of the settings file `NAME.json` is played once for each seed from 1 on. On its way it is
evaluated, by greedy play at `--points` places and by 3-ply expectimax at some of them. The rows of
a run are written when it ends, to `benchmarks/results/experiments/NAME.jsonl`, so that Ctrl-C loses
only the runs under way; the same command goes on with those that are missing. Then, and with
`--draw` alone, come the table with the published values, on the screen and in `NAME.md`, and the
figure `NAME.svg`.

A run of 4x6 tuples in eight stages has 2.1 GB of weights and 4.3 GB of accumulators. It takes
memory only where it has been, about half of this after two million moves; but no more jobs are
started than fit whole, unless `--memory` says what a run takes at most.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from tqdm import tqdm

from benchmarks.experiments.quasi_greedy import figure, playing, report, rows, settings
from benchmarks.experiments.quasi_greedy.playing import Plan, Row
from benchmarks.experiments.quasi_greedy.settings import Experiment, Run, Scale

RESULTS = Path(__file__).parents[2] / "results" / "experiments" / "quasi_greedy"
SMALL = [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 4, 5]]
"""The tuples of `--smoke`."""


class Task(NamedTuple):
    """A run to be played."""

    experiment: Experiment
    run: Run
    seed: int
    plan: Plan

    def cost(self) -> float:
        """About how many seconds it takes."""
        return playing.cost(self.experiment, self.run, self.plan)


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Repeats an experiment of the paper.")
    add = parser.add_argument
    add("name", choices=settings.names())
    add("--moves", type=float, help="of self-play in each run")
    add("--seconds", type=float, help="of self-play in each run, of the processor")
    add(
        "--repeats",
        type=int,
        default=3,
        help="seeds 1, 2, ... of each run; 3 make an interval (%(default)s)",
    )
    add("--jobs", type=int, default=1, help="runs at once (%(default)s)")
    add("--points", type=int, default=10, help="evaluations on the way (%(default)s)")
    add("--greedy-games", type=int, default=300, help="in each evaluation (%(default)s)")
    add("--search-games", type=int, default=10, help="by 3-ply search, 0: none (%(default)s)")
    at_search = "shares of the run where 3-ply search plays (half, end, where the paper has values)"
    add("--search-at", type=float, nargs="+", metavar="SHARE", help=at_search)
    add("--memory", type=float, metavar="GB", help="of a run at most (all its weights and sums)")
    add("--out", type=Path, help=f"folder of rows, table and figure ({RESULTS.name} in results)")
    add("--draw", action="store_true", help="play nothing: table and figure of the rows there are")
    add("--smoke", action="store_true", help="a tiny network and run, into out/, to see it work")
    chosen = parser.parse_args(arguments)
    if chosen.moves is not None and chosen.seconds is not None:
        parser.error("--moves or --seconds, not both")
    _check(parser, chosen)
    return chosen


def _check(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    """Refuses numbers that make no sense, and a run without a length."""
    for name in ("repeats", "jobs", "points", "greedy_games"):
        if getattr(chosen, name) < 1:
            parser.error(f"--{name.replace('_', '-')} is a number from 1 on")
    if chosen.search_games < 0:
        parser.error("--search-games is a number from 0 on")
    if not all(0 < share <= 1 for share in chosen.search_at or []):
        parser.error("--search-at are shares of the run, above 0 and at most 1")
    for length in (chosen.moves, chosen.seconds):
        if length is not None and not 0 < length < float("inf"):
            parser.error("--moves and --seconds are above 0")
    if not (chosen.moves or chosen.seconds or chosen.draw or chosen.smoke):
        parser.error("say how long a run is: --moves or --seconds")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    chosen = options(arguments)
    experiment = settings.read(chosen.name)
    if chosen.smoke:
        experiment = make_tiny(experiment, chosen)
    folder = chosen.out or RESULTS
    place, scale = folder / f"{experiment.name}.jsonl", _scale(chosen)
    if not chosen.draw:
        assert scale is not None
        games = {"greedy": chosen.greedy_games, "3-ply": chosen.search_games}
        plan = playing.plan(experiment, scale, chosen.points, games, chosen.search_at)
        try:
            tasks = missing(experiment, plan, chosen.repeats, place)
            needed = 1e9 * chosen.memory if chosen.memory else experiment.bytes_per_run()
            play_all(tasks, min(chosen.jobs, len(tasks)), needed, place)
        except KeyboardInterrupt:
            message = f"\ninterrupted: the runs that ended are in {place}; the same command goes on"
            raise SystemExit(message) from None
    show(experiment, scale, place)


def _scale(chosen: argparse.Namespace) -> Scale | None:
    """How long a run is, if it was said."""
    if chosen.moves is not None:
        return Scale("moves", chosen.moves)
    return None if chosen.seconds is None else Scale("seconds", chosen.seconds)


def make_tiny(experiment: Experiment, chosen: argparse.Namespace) -> Experiment:
    """Makes the chosen options those of a run of seconds, and returns it with a tiny network."""
    if chosen.moves is None and chosen.seconds is None:
        chosen.moves, chosen.seconds = {"moves": (2e4, None), "seconds": (None, 0.2)}[
            experiment.axis
        ]
    chosen.repeats, chosen.points = min(chosen.repeats, 2), 2
    chosen.greedy_games, chosen.search_games = 10, min(chosen.search_games, 1)
    chosen.out = chosen.out or Path("out") / "experiments"
    return experiment.with_tuples(SMALL)


# Playing


def missing(experiment: Experiment, plan: Plan, repeats: int, place: Path) -> list[Task]:
    """The runs that are not in the file yet, seed after seed, the longest first."""
    there = rows.read(place)
    asked = [Task(experiment, run, 1 + i, plan) for i in range(repeats) for run in experiment.runs]
    tasks = [task for task in asked if not rows.is_finished(there, *task)]
    print(
        f"{experiment.name}, {plan.scale} a run: {len(tasks)} of {len(asked)} runs are to be played"
    )
    return sorted(tasks, key=lambda task: (task.seed, -task.cost()))


def play_all(tasks: list[Task], jobs: int, needed: float, place: Path) -> None:
    """Plays runs, and adds the rows of each to the file when it ends.

    Args:
        tasks: the runs.
        jobs: how many at once.
        needed: the memory of one, in bytes.
        place: the file.

    Raises:
        SystemExit: so many jobs do not fit into memory.
    """
    if not tasks:
        return
    check_memory(needed, jobs)
    costs = [task.cost() for task in tasks]
    print(f"This takes about {_time(max(sum(costs) / jobs, *costs))}.")
    with _progress(costs) as (bar, board):
        ready = (delayed(_play)(task, i, board) for i, task in enumerate(tasks))
        for n, played in enumerate(Parallel(jobs, return_as="generator_unordered")(ready), 1):
            rows.add(place, played)
            bar.set_postfix_str(f"{n} of {len(tasks)} runs")


def _play(task: Task, i: int, board: Path) -> list[Row]:
    """Plays a run in any process, and writes how far it is to its place on the board."""
    board_of_all = np.memmap(board, np.float64, "r+")

    def note(done: float) -> None:
        board_of_all[i] = done

    return playing.play(*task, report=note)


@contextmanager
def _progress(costs: list[float]) -> Iterator[tuple[Any, Path]]:
    """A bar of the costs of all tasks, which goes on as they write to a board in a file."""
    layout = "{percentage:3.0f}%|{bar}| {elapsed}, {remaining} left{postfix}"
    total, ended = sum(costs), threading.Event()
    with (
        tempfile.TemporaryDirectory() as folder,
        tqdm(total=total, bar_format=layout, smoothing=0.05) as bar,
    ):
        board = Path(folder) / "board"
        done = np.memmap(board, np.float64, "w+", shape=len(costs))

        def watch() -> None:
            while not ended.wait(0.5):
                bar.update(min(total, float(done.sum())) - bar.n)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield bar, board
        finally:
            ended.set()
            watcher.join()
            bar.update(min(total, float(done.sum())) - bar.n)


def check_memory(needed: float, jobs: int) -> None:
    """Refuses to start more jobs than fit into the memory that is available.

    Raises:
        SystemExit: they do not fit.
    """
    available = available_memory()
    if available is None or jobs * needed <= available:
        return
    fitting = int(available // needed)
    raise SystemExit(
        f"{jobs} runs at once may take {jobs * needed / 1e9:.1f} GB, of which "
        f"{available / 1e9:.1f} GB are available: {f'--jobs {fitting}, or ' if fitting else ''}"
        "--memory with the GB that a run of this length takes at most"
    )


def available_memory() -> int | None:
    """The bytes that can be taken without swapping, None where the system does not say."""
    info = Path("/proc/meminfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


def _time(seconds: float) -> str:
    """A time in words."""
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


# Showing


def show(experiment: Experiment, scale: Scale | None, place: Path) -> None:
    """Prints the table, and writes it and the figure beside the rows.

    Raises:
        SystemExit: there are no rows.
    """
    there = rows.read(place)
    scale = scale or rows.latest_scale(there)
    curves = rows.curves(there, experiment, scale) if scale else {}
    if scale is None or not curves:
        raise SystemExit(f"{place} has no runs{f' of {scale}' if scale else ''}: play some first")
    used = rows.of_scale(there, experiment, scale)
    text, picture = place.with_suffix(".md"), place.with_suffix(".svg")
    found = report.tables(experiment, scale, curves, used)
    text.write_text(report.markdown(experiment, found, picture.name), encoding="utf-8")
    figure.draw(experiment, scale, curves, picture)
    print("\n".join(["", *found, f"Written: {text}, {picture}"]))


if __name__ == "__main__":
    main()
