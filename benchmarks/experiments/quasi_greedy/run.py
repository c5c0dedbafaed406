"""Repeat the experiments of Matsuzaki's paper on quasi-greedy learning, at any scale.

    python -m benchmarks.experiments.quasi_greedy.run good_plays learn --moves 2e8 --jobs 2
    python -m benchmarks.experiments.quasi_greedy.run search learn --seconds 1800 --jobs 2
    python -m benchmarks.experiments.quasi_greedy.run good_plays report
    python -m benchmarks.experiments.quasi_greedy.run epsilon learn --smoke

`learn` plays each run of the settings file `NAME.json` once for each seed from 1 on. It is
evaluated by greedy play at `--points` places, and by 3-ply expectimax at some of them. The rows of
a run are written when it ends, to `NAME.jsonl` in `benchmarks/results/experiments/quasi_greedy`.
Until then its checkpoint, the learner and its rows, is written to the folder `in_progress` next to
it after each evaluation, every half hour, and on Ctrl-C or SIGTERM: the same command goes on from
there, also after a kill, and plays the missing runs. `learn` and `report` then print the tables
with the published values and write them to `NAME.md`, and the figure to `NAME.svg`; `learn` leaves
them as they are if there are runs of a larger scale.

A run of 4x6 tuples in eight stages has 2.1 GB of weights and 4.3 GB of accumulators. Memory is used
only where a board has been, about half of it after two million moves. But no more jobs are started
than fit in full, unless `--memory` gives the most that a run uses. The checkpoint of a run takes
all of it on the disk, twice while it is written, and in memory once the run goes on from it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from afterstate.agents.config import Count, Positive, Rate, Whole, settings
from afterstate.envs import json_files
from afterstate.envs.commands import parse, run_process
from benchmarks.experiments import harness
from benchmarks.experiments.harness import (
    LearningArgs,
    check_defaults,
    check_options,
    published_texts,
    run_calls,
    selected,
)
from benchmarks.experiments.quasi_greedy import figure, playing, report, rows
from benchmarks.experiments.quasi_greedy.playing import Plan
from benchmarks.experiments.quasi_greedy.settings import (
    FOLDER,
    Experiment,
    Measure,
    Run,
    Scale,
    read,
)

RESULTS = harness.RESULTS / "quasi_greedy"
IN_PROGRESS = "in_progress"
"""Folder of checkpoints, next to the results."""
NOT_WITH_SMOKE = ("points", "greedy_games")
"""Options that have no effect with `--smoke`."""
OPTIONS = dict.fromkeys(
    (
        *("only", "repeats", "jobs", "threads", "backend", "hours", "memory"),
        *("points", "greedy_games", "search_games", "search_at"),
    ),
    ("learn",),
)
"""The commands that use an option, where not all do."""
SMALL = [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 4, 5]]
"""The tuples of `--smoke`."""


@settings
class Args(LearningArgs):
    """Repeat an experiment of Matsuzaki's paper on quasi-greedy learning."""

    name: str
    """Experiment: epsilon, good_plays, restart, search, or a settings file NAME.json."""
    command: Literal["learn", "report"]
    """Play and evaluate the runs, or only write the tables and the figure."""
    moves: Positive | None = None
    """Length of each run, in moves of self-play."""
    seconds: Positive | None = None
    """Length of each run, in seconds of CPU time of self-play."""
    only: tuple[str, ...] = ()
    """Names of the runs to play; by default all."""
    repeats: Count = 3
    """Number of seeds of each run: 1, 2, ..."""
    points: Count = playing.POINTS
    """Evaluations of a run, at equal distances."""
    greedy_games: Count = 300
    """Greedy games of an evaluation."""
    search_games: Whole = 10
    """Games of an evaluation by 3-ply search."""
    search_at: tuple[Rate, ...] | None = None
    """Shares of the run after which 3-ply search plays; by default a half, the end, and those with
    published scores of it."""
    memory: Positive | None = None
    """Most memory that a run uses, in GB; by default all weights and accumulators."""
    smoke: bool = False
    """Play at most two tiny runs of each kind, with a tiny network, into out/experiments, within
    seconds."""
    threads: Count = field(default=1, kw_only=True)
    """Threads of a run; only runs with one repeat their games."""
    out: Path = field(default=RESULTS, kw_only=True)
    """Folder of rows, tables and figure."""

    def __post_init__(self) -> None:
        if self.moves is not None and self.seconds is not None:
            raise ValueError("a run has a length in --moves or in --seconds, not in both")
        if self.command == "learn" and not (self.moves or self.seconds or self.smoke):
            raise ValueError("the length of a run is required: --moves or --seconds")

    @property
    def scale(self) -> Scale | None:
        """Length of a run, if it is given."""
        if self.moves is not None:
            return Scale("moves", self.moves)
        return None if self.seconds is None else Scale("seconds", self.seconds)


class Task(NamedTuple):
    """A run to be played."""

    experiment: Experiment
    run: Run
    seed: int
    plan: Plan


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse(Args, "python -m benchmarks.experiments.quasi_greedy.run", arguments)
    check_options(args, OPTIONS)
    check_defaults(args, NOT_WITH_SMOKE if args.smoke else (), "with --smoke")
    experiment = read(args.name)
    if args.smoke:
        experiment, args = experiment.with_tuples(SMALL), tiny(experiment, args)
    path = args.out / f"{experiment.name}.jsonl"
    if args.command == "learn":
        try:
            play(experiment, args, path)
        except KeyboardInterrupt:
            hint = f"completed runs are in {path}; the same command goes on with the others"
            raise KeyboardInterrupt(hint) from None
    show(experiment, args.scale, path, keep=args.command == "learn")


def tiny(experiment: Experiment, args: Args) -> Args:
    """Return arguments for runs of some seconds."""
    if args.scale is None:
        length = 2e4 if experiment.axis == "moves" else 0.2
        args = Args(**{**vars(args), experiment.axis: length})
    return replace(
        args,
        repeats=min(args.repeats, 2),
        points=2,
        greedy_games=10,
        search_games=min(args.search_games, 1),
        out=Path("out") / "experiments" if args.out == RESULTS else args.out,
    )


# Playing


def play(experiment: Experiment, args: Args, path: Path) -> None:
    """Play the missing runs, and add the rows of each to the file when it ends.

    Raises:
        ValueError: the jobs do not fit in memory.
    """
    assert args.scale is not None
    games: dict[Measure, int] = {"greedy": args.greedy_games, "3-ply": args.search_games}
    plan = playing.make_plan(experiment, args.scale, args.points, games, args.search_at)
    tasks = missing(experiment, plan, args, path)
    jobs = min(args.jobs, len(tasks))
    memory = 1e9 * args.memory if args.memory else experiment.bytes_per_run()
    if args.backend == "local":
        check_memory(memory, jobs)
    folder = args.out / IN_PROGRESS
    for task in planned(experiment, plan, args):
        if task not in tasks:  # a kill may have left the checkpoint of a run that has ended
            of_run = playing.key(experiment, task.run, task.seed, plan.scale)
            shutil.rmtree(playing.folder_of(folder, of_run, plan), ignore_errors=True)
    calls = [partial(playing.play, *task, args.threads, folder) for task in tasks]
    workers = args.workers._replace(jobs=max(1, jobs), memory=int(memory))
    for played in run_calls(calls, workers, args.hours, "runs", save=True):
        rows.add(path, played)
        shutil.rmtree(playing.folder_of(folder, played[0], plan), ignore_errors=True)
    with suppress(OSError):  # others are in progress
        folder.rmdir()


def planned(experiment: Experiment, plan: Plan, args: Args) -> list[Task]:
    """Return the runs that are asked for, seed after seed.

    Raises:
        ValueError: `--only` has the name of no run.
    """
    runs = {run.name: run for run in experiment.runs}
    names, seeds = selected(runs, args.only), range(1, args.repeats + 1)
    return [Task(experiment, runs[name], seed, plan) for seed in seeds for name in names]


def missing(experiment: Experiment, plan: Plan, args: Args, path: Path) -> list[Task]:
    """Return the runs without rows, seed after seed, those with most search first.

    Raises:
        ValueError: `--only` has the name of no run, or the rows have more games than the plan.
    """
    played = json_files.rows(path)
    every = planned(experiment, plan, args)
    tasks = [task for task in every if not rows.is_finished(played, *task)]
    for task in tasks:
        if rows.has_more_games(played, *task):
            raise ValueError(
                f"{path} has more games of {task.run.name!r}, seed {task.seed}, than asked for: "
                "give as many, or another folder with --out"
            )
    print(f"{experiment.name}, {plan.scale} per run: {len(tasks)} of {len(every)} runs are missing")
    return sorted(tasks, key=lambda task: (task.seed, -_search_share(task)))


def _search_share(task: Task) -> float:
    """Return the share of games by search, which take the most time."""
    return float(task.experiment.learner_of(task.run).get("search_share", 0))


def check_memory(needed: float, jobs: int) -> None:
    """Raise ValueError if jobs that need these bytes each do not fit in the available memory."""
    available = available_memory()
    if available is None or jobs * needed <= available:
        return
    n_fit = int(available // needed)
    raise ValueError(
        f"{jobs} parallel runs may use {jobs * needed / 1e9:.1f} GB of memory, but "
        f"{available / 1e9:.1f} GB are available: use {f'--jobs {n_fit}, or ' if n_fit else ''}"
        "--memory with the GB that a run of this length uses at most"
    )


def available_memory() -> int | None:
    """Return the bytes that are available without swapping, None if the system does not say."""
    info = Path("/proc/meminfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


# Results


def show(experiment: Experiment, scale: Scale | None, path: Path, keep: bool = False) -> None:
    """Print the tables, and write the page and the figure next to the rows.

    Args:
        experiment: the experiment.
        scale: of the runs; by default the largest one.
        path: file of the rows.
        keep: write nothing if there are runs of a larger scale.

    Raises:
        ValueError: there are no rows.
    """
    every = json_files.rows(path)
    largest = rows.largest_scale(every, experiment)
    scale = scale or largest
    curves = rows.curves(every, experiment, scale) if scale else {}
    if scale is None or not curves:
        raise ValueError(f"{path} has no runs{f' of {scale}' if scale else ''}: play some first")
    page, picture = path.with_suffix(".md"), path.with_suffix(".svg")
    tables = report.tables(experiment, scale, curves, rows.of_scale(every, experiment, scale))
    if keep and scale != largest:
        print("\n".join(["", *tables, f"{page} keeps the runs of {largest}: see --out, report"]))
        return
    verdicts = published_texts(FOLDER, path.parent, [f"{path.stem}.md"], path.stem)
    text = report.page(experiment, tables, picture.name, verdicts)
    page.write_text(text, encoding="utf-8")
    figure.draw(experiment, scale, curves, picture)
    print("\n".join(["", *tables, f"Written: {page}, {picture}"]))


if __name__ == "__main__":
    from benchmarks.experiments.quasi_greedy import run  # other processes import its functions

    sys.exit(run_process(run.main))
