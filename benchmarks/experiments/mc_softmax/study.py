"""What is played and learned in the study of Monte-Carlo Softmax search: `study.json`, read."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from afterstate.agents import game2048
from benchmarks.row_files import Row

HERE = Path(__file__).parent
RESULTS = Path(__file__).parents[2] / "results" / "experiments" / "mc_softmax"


def study() -> Row:
    """The settings and the published values."""
    told: Row = json.loads((HERE / "study.json").read_text(encoding="utf-8"))
    return told


def of_package(name: str) -> Path:
    """A network's file in the package."""
    return Path(str(game2048.__file__)).parent / "pretrained" / name


def check_groups(told: Row, groups: Sequence[str] | None) -> list[str]:
    """The groups that are asked for, by default all.

    Raises:
        ValueError: there is no such group.
    """
    for group in groups or ():
        if group not in told:
            raise ValueError(f"there is no {group!r}, but {list(told)}")
    return [group for group in told if groups is None or group in groups]


def cells(what: str, groups: Sequence[str] | None = None) -> Iterator[Row]:
    """The players that play games (`"plays"`) or are judged by positions (`"judged"`).

    Each is told by its group, its name, its settings, and with `"plays"` its number of games.
    """
    plans = study()[what]
    for group in check_groups(plans, groups):
        for plan in plans[group]:
            varied = plan.get("vary", {})
            each = [dict(zip(varied, v, strict=True)) for v in itertools.product(*varied.values())]
            for more in plan.get("each", each):
                settings = {**plan.get("settings", {}), **more}
                if "network" in plan:
                    settings["network"] = plan["network"]
                told = {"player": plan.get("player", "mc-softmax"), "settings": settings}
                games = {"games": plan["games"]} if what == "plays" else {}
                yield {"group": group, **told, **games}


class Plan(NamedTuple):
    """A learner of an experiment."""

    experiment: str
    run: str  # its name
    settings: Row
    moves: float  # how many it learns from
    every: float  # after how many of them there is a row


def learners() -> Iterator[Plan]:
    """The learners of all experiments."""
    for experiment, plan in study()["learn"].items():
        for run, more in plan["runs"].items():
            settings = {**plan["base"], **more}
            moves = settings.pop("moves")
            for of in ("search", "learner"):
                settings[of] = {**plan["base"].get(of, {}), **more.get(of, {})}
            if "start" in settings:
                settings["start"] = str(of_package(settings["start"]))
            yield Plan(experiment, run, settings, moves, plan["every"])
