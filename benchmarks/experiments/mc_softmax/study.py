"""What is played and learned in the study of Monte-Carlo Softmax search: `study.json`, read."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.cells import Row

from afterstate.agents import game2048

HERE = Path(__file__).parent
RESULTS = Path(__file__).parents[2] / "results" / "experiments" / "mc_softmax"


def study() -> Row:
    """The settings and the published values."""
    told: Row = json.loads((HERE / "study.json").read_text(encoding="utf-8"))
    return told


def cells(what: str, groups: Sequence[str] | None = None) -> Iterator[Row]:
    """The players that play games (`"plays"`) or are judged by positions (`"judged"`).

    Each is told by its group, its name, its settings, and with `"plays"` its number of games.
    """
    for group, plans in study()[what].items():
        for plan in plans if groups is None or group in groups else ():
            varied = plan.get("vary", {})
            each = [dict(zip(varied, v, strict=True)) for v in itertools.product(*varied.values())]
            for more in plan.get("each", each):
                settings = {**plan.get("settings", {}), **more}
                if "network" in plan:
                    settings["network"] = plan["network"]
                told = {"player": plan.get("player", "mc-softmax"), "settings": settings}
                games = {"games": plan["games"]} if what == "plays" else {}
                yield {"group": group, **told, **games}


def learners() -> Iterator[tuple[str, str, Row, float]]:
    """Experiment, name, settings and hours of each learner."""
    for experiment, plan in study()["learn"].items():
        for run, more in plan["runs"].items():
            settings = {**plan["base"], **more}
            for of in ("search", "learner"):
                settings[of] = {**plan["base"].get(of, {}), **more.get(of, {})}
            if "start" in settings:
                settings["start"] = str(Path(game2048.__file__).with_name(settings["start"]))
            yield experiment, run, settings, plan["hours"]
