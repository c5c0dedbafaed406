"""The learners of `afterstate train`, by name, and their training in a folder."""

from __future__ import annotations

import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

from afterstate.agents.config import changes, did_you_mean, read
from afterstate.agents.training.folder import SETTINGS_FILE, RunFolder
from afterstate.agents.training.options import Options
from afterstate.agents.training.run import Diverged, Limits, RunSettings, Trainee, advance
from afterstate.envs.messages import shown


class Learner(NamedTuple):
    """Module and class of a learner's run, and a description for helps."""

    module: str  # below `afterstate.agents`
    run: str
    description: str


_2048, _DAIHINMIN = "game2048.learning", "daihinmin.learning"

LEARNERS = {
    "ntuple": Learner(
        f"{_2048}.run_settings",
        "NTupleRun",
        "train an N-tuple network of 2048 by TD self-play",
    ),
    "value": Learner(
        f"{_2048}.run_settings",
        "ValueRun",
        "train a neural value network of 2048 by TD self-play",
    ),
    "policy": Learner(
        f"{_2048}.run_settings",
        "PolicyRun",
        "train a policy network of 2048 to imitate the player of a play log",
    ),
    "search": Learner(
        f"{_2048}.run_settings",
        "SearchValueRun",
        "train a value function of 2048 by Monte-Carlo Softmax searches",
    ),
    "rank": Learner(
        f"{_DAIHINMIN}.rank_settings",
        "RankRun",
        "train a rank network of Daihinmin in generations of games",
    ),
    "daihinmin-policy": Learner(
        f"{_DAIHINMIN}.policy_settings",
        "DaihinminPolicyRun",
        "train a softmax policy of Daihinmin by policy gradient or imitation",
    ),
}
"""Learners by name."""


def run_settings(learner: str) -> Any:
    """Return the class of a learner's settings.

    Raises:
        ValueError: an unknown learner.
        ImportError: the learner needs an extra that is not installed.
    """
    if learner not in LEARNERS:
        raise ValueError(f"unknown learner {shown(learner)}{did_you_mean(learner, LEARNERS)}")
    module = import_module(f"afterstate.agents.{LEARNERS[learner].module}")
    return getattr(module, LEARNERS[learner].run)


def start(settings: RunSettings, options: Options) -> tuple[Trainee, RunFolder]:
    """Return a new learner or the one in the folder, and the folder.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: wrong settings, or a folder that does not fit them.
    """
    if not options.has_end:
        raise ValueError(f"--{options.amount_name} or --hours must be given, got neither")
    import filelock  # noqa: F401 - a run needs it, and to begin one may take long

    folder = RunFolder(options.out, options.resume, settings.checkpoints)
    trainee = settings.begin(options, folder)
    if options.resume:
        _compare(settings, options.out / SETTINGS_FILE)
    folder.open(asdict(cast(Any, settings)), settings.row_key, trainee.amount)
    return trainee, folder


_OF_NEW_RUNS = ("seed", "start", "network.start_value", "network.start_value_from")
"""Settings that have no effect on a run that is resumed."""


def _compare(settings: RunSettings, path: Path) -> None:
    """Print which settings differ from those in the folder of a run that is resumed.

    Raises:
        ValueError: one of them would have no effect.
    """
    if not path.exists():
        return
    before, now = (asdict(cast(Any, each)) for each in (read(path, type(settings)), settings))
    differ = changes(before, now)
    for name, old, new in differ:
        if name in _OF_NEW_RUNS:
            raise ValueError(f"{name} must be {old}, as in the run that is resumed, got {new}")
    if differ:
        print(f"settings changed: {'; '.join(map(str, differ))}", file=sys.stderr)


def run(settings: RunSettings, options: Options) -> None:
    """Train a learner in its folder.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: wrong settings, or a folder that does not fit them.
        KeyboardInterrupt: the run was interrupted; it says how to go on.
        Diverged: the learned values diverged; the last row says so.
    """
    trainee, folder = start(settings, options)
    if options.tensorboard:
        folder.write_to_tensorboard()
    try:
        _advance(trainee, settings, options, folder)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_resume_hint(settings, options)) from None
    except SystemExit:  # of SIGTERM
        print(_resume_hint(settings, options), file=sys.stderr)
        raise
    except Diverged as error:
        folder.add_row({**trainee.counters(), "diverged": error.last})
        message = f"{error}; {options.out} has the last saved learner"
        raise Diverged(message, error.last) from error


def _resume_hint(settings: RunSettings, options: Options) -> str:
    """Return what an interrupted run has saved, and how to go on."""
    if any((options.out / name).exists() for name in settings.checkpoints):
        return f"saved in {options.out}: continue with --resume"
    return f"nothing was saved in {options.out} yet: start again without --resume"


def _limits(trainee: Trainee, settings: RunSettings, options: Options, folder: RunFolder) -> Limits:
    """Return when a run ends, and when it is saved and evaluated."""
    key, evaluation = settings.row_key, settings.evaluation_key
    return Limits(
        end=options.amount,
        seconds=None if options.hours is None else 3600 * options.hours,
        save_every=0.0 if trainee.saves_each_chunk else 60 * options.save_minutes,
        evaluate_every=options.evaluate_every,
        evaluated=max((row[key] for row in folder.rows() if evaluation in row), default=0),
    )


def _advance(trainee: Trainee, settings: RunSettings, options: Options, folder: RunFolder) -> None:
    """Advance a trainee to the end of its run, with a progress bar."""
    from afterstate.agents.progress import progress_bar
    from afterstate.envs.compiling import clock

    limits = _limits(trainee, settings, options, folder)
    start_time, before, total = clock(), trainee.amount, limits.end_of(trainee)
    if total is not None and before >= total:
        text = f"{options.out} has {before:,} {trainee.amount_unit}: {total:,} are reached already"
        print(text, file=sys.stderr)

    def report() -> None:
        folder.check()
        bar.total = limits.end_of(trainee)
        if limits.seconds is not None:  # the total is the expected amount at the end of the time
            share = (clock() - start_time) / limits.seconds
            expected = before + (trainee.amount - before) / max(min(share, 1.0), 1e-9)
            bar.total = min(expected, bar.total or expected)
        bar.update(min(trainee.amount, bar.total or trainee.amount) - bar.n)
        bar.set_postfix(trainee.report(), refresh=False)

    def evaluate() -> None:
        if getattr(options, "evaluate", None):  # games
            bar.set_description_str("evaluation")
        folder.add_row({**trainee.counters(), **trainee.evaluate()})
        bar.set_description_str(None)

    with progress_bar(
        total=total, initial=before, unit=trainee.amount_unit, unit_scale=True
    ) as bar:
        try:
            advance(trainee, limits, report, evaluate, folder.check)
        finally:
            bar.write(memory(), file=sys.stderr)


def memory() -> str:
    """Return the memory of this process and its share in huge pages, where the system tells it.

    Tables of some hundred MiB are read faster in huge pages, which numpy asks the system for.
    """
    file = Path("/proc/self/smaps_rollup")
    lines = file.read_text().splitlines() if file.exists() else []
    kib = {line.split(":")[0]: line.split()[1] for line in lines[1:]}
    if not {"Rss", "AnonHugePages"} <= kib.keys():
        return "memory: unknown on this system"
    total, huge = (int(kib[name]) / 1024 for name in ("Rss", "AnonHugePages"))
    return f"memory: {total:,.0f} MiB, {huge:,.0f} MiB of it in huge pages"
