"""The settings of the Monte-Carlo Softmax experiments: `settings.json`, or another file like it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from afterstate.agents import game2048
from afterstate.leaderboard.row_files import Row
from benchmarks.experiments.harness import selected

HERE = Path(__file__).parent
SETTINGS = HERE / "settings.json"
PRETRAINED = Path(str(game2048.__file__)).parent / "pretrained"

NETWORK_FILES = {"ntuple": "ntuple.npz", "value-net": "value.safetensors"}
"""Files of the pretrained networks."""

Measure = Literal["regrets", "scores"]
"""The ways to measure players: by positions or by games."""


class LearnerPlan(NamedTuple):
    """A learner of an experiment."""

    experiment: str
    run: str  # its name
    seed: int
    settings: Row
    moves: float  # number of moves that it learns from
    every: float  # moves from one row to the next


class Study(NamedTuple):
    """The experiments with one file of settings."""

    settings: Row  # with the published values
    out: Path  # folder of the results

    def cells(self, measure: Measure, names: Sequence[str] = ()) -> Iterator[Row]:
        """Yield the players of groups: group, name, settings, numbers of games and network.

        A player with `chunk` plays as many games at a time, so that processes share its games. The
        network is the hash of its file, so that rows of another one do not count.
        """
        groups, networks = self.settings[measure], self.settings["networks"]
        for group in selected(groups, names):
            for plan in groups[group]:
                games = {key: plan[key] for key in ("games", "chunk") if key in plan}
                for settings in _variants(plan):
                    player = {"player": plan.get("player", "mc-softmax"), "settings": settings}
                    cell = {"group": group, **player, **games}
                    yield {**cell, "network_sha256": networks[network_name(cell)]}

    def learners(self, repeats: int = 1) -> Iterator[LearnerPlan]:
        """Yield the learners of all experiments, with the seeds 1, 2, ... one after the other."""
        for seed in range(1, repeats + 1):
            for experiment, plan in self.settings["learners"].items():
                for run, changes in plan["runs"].items():
                    settings = {**plan["base"], **changes, "seed": seed}
                    moves = settings.pop("moves")
                    for part in ("search", "learner"):
                        settings[part] = {**plan["base"].get(part, {}), **changes.get(part, {})}
                    if "start" in settings:
                        settings["start"] = str(PRETRAINED / settings["start"])
                    yield LearnerPlan(experiment, run, seed, settings, moves, plan["every"])

    def check_network(self, name: str) -> None:
        """Check that the installed network is the one of the settings.

        Raises:
            ValueError: it has another hash.
        """
        expected = self.settings["networks"][name]
        installed = sha256((PRETRAINED / NETWORK_FILES[name]).read_bytes()).hexdigest()[:16]
        if installed != expected:
            raise ValueError(
                f"{NETWORK_FILES[name]} must have the hash {expected} of this experiment, got "
                f"{installed}: to repeat it with the installed network, write its hash to networks "
                "in a copy of settings.json, and give that by --settings"
            )


def network_name(cell: Row) -> str:
    """Return the name of the pretrained network of a player."""
    names = cell["player"], cell["settings"].get("network")
    return "value-net" if "value-net" in names else "ntuple"


def _variants(plan: Row) -> Iterator[Row]:
    """Yield the settings of a plan: `each` lists variants, `vary` has all their combinations."""
    varied = plan.get("vary", {})
    combinations = itertools.product(*varied.values())
    for variant in plan.get("each", [dict(zip(varied, v, strict=True)) for v in combinations]):
        settings = {**plan.get("settings", {}), **variant}
        if "network" in plan:
            settings["network"] = plan["network"]
        yield settings
