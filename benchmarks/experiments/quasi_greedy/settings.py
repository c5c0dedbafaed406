"""Settings of the experiments: one JSON file for each table or figure that is repeated.

A run's own `learner` settings are added to those that all runs share; with a `switch` they hold
only from there on. A published value is `[mean, half of its interval]`, a number or
`{"from": ..., "to": ...}`.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import PlainValidator

from afterstate.agents import config
from afterstate.agents.config import NonNegative, settings
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.envs.messages import listed, shown
from benchmarks.experiments.harness import settings_file

FOLDER = Path(__file__).parent
Axis = Literal["moves", "seconds"]
Measure = Literal["greedy", "3-ply"]

DEPTHS: dict[Measure, int] = {"greedy": 1, "3-ply": 3}
"""Ways to play that are evaluated, with their search depths."""


class Published(NamedTuple):
    """A published value: its bounds, and their middle if the paper has it."""

    low: float
    high: float
    mean: float | None = None

    @property
    def middle(self) -> float:
        """The mean, or the lower bound if the paper has none."""
        return self.low if self.mean is None else self.mean

    @property
    def half_interval(self) -> float:
        """Half of the mean's interval, 0 if the paper has none."""
        return 0 if self.mean is None else self.high - self.mean

    def __str__(self) -> str:
        if self.mean is not None:
            half = f" ± {self.half_interval:,.0f}" if self.half_interval else ""
            return f"{self.mean:,.0f}{half}"
        if math.isinf(self.high):
            return f"over {self.low:,.0f}"
        return f"{self.low:,.0f} to {self.high:,.0f}"


def published(value: Any) -> Published:
    """Return a published value of a settings file.

    Raises:
        ValueError: it is none.
    """
    try:
        if isinstance(value, dict):
            return Published(value["from"], value.get("to", math.inf))
        mean, half = value if isinstance(value, list) else (value, 0)
        return Published(mean - half, mean + half, mean)
    except (KeyError, TypeError, ValueError):
        wanted = 'a number, [mean, half of its interval] or {"from": ..., "to": ...}'
        raise ValueError(f"a published value must be {wanted}, got {shown(value)}") from None


class Scale(NamedTuple):
    """Length of a run."""

    axis: Axis
    amount: float

    def __str__(self) -> str:
        if self.axis == "seconds" and self.amount >= 3600:
            return f"{self.amount / 3600:.3g} hours"
        return f"{short(self.amount)} {self.axis}"


def short(number: float) -> str:
    """Return a number with three digits.

    >>> short(2e8), short(12.7e10), short(1800)
    ('2e8', '1.27e11', '1800')
    """
    if number < 1e6:
        return f"{number:.6g}"
    return f"{number:.3g}".replace("e+0", "e").replace("e+", "e")


@settings
class Anchor:
    """Published results of a run at one place."""

    at: NonNegative
    """Place on the experiment's axis."""
    scores: dict[Measure, Annotated[Published, PlainValidator(published)]] = field(
        default_factory=dict
    )
    """Mean scores by the way to play."""
    learned: float | None = None
    """Number of moves that were learned from."""


@settings
class Claim:
    """An order of runs that the paper states in words."""

    measure: Measure
    better: str
    worse: tuple[str, ...]
    says: str


@settings
class Run:
    """One run of an experiment."""

    name: str
    label: str
    """Name in the paper."""
    learner: dict[str, Any] = field(default_factory=dict)
    """Settings of the learner that differ from those that all runs share."""
    switch: dict[str, int | float] = field(default_factory=dict)
    """Place on each axis where the run changes to its own settings; none: it starts with them."""
    published: tuple[Anchor, ...] = ()
    """Published results, in the order of their places."""


@settings
class Experiment:
    """A table or figure of the paper."""

    title: str
    paper: str
    """Citation."""
    shows: str
    """Tables and figures of the paper."""
    measured: str
    axis: Axis
    """Axis on which runs are compared."""
    length: dict[str, int | float]
    """Length of the paper's runs on each axis."""
    readings: tuple[str, ...]
    """Interpretations of what the paper leaves open."""
    network: dict[str, Any]
    """Arguments of `ntuple_network.network`."""
    learner: dict[str, Any]
    """Settings of the learner that all runs share."""
    runs: tuple[Run, ...]
    claims: tuple[Claim, ...] = ()
    name: str = ""
    """Name of the files of its results."""
    given: str = ""
    """Its name or settings file, as it was given, for the command of the page."""

    def __post_init__(self) -> None:
        names = [run.name for run in self.runs]
        if len(set(names)) < len(names):
            raise ValueError(f"runs must have different names, got {listed(names)}")
        for name in (each for claim in self.claims for each in (claim.better, *claim.worse)):
            if name not in names:
                raise ValueError(f"claims: there is no run {shown(name)}")
        if self.axis not in self.length:
            raise ValueError(f"length.{self.axis} is required")
        for run in self.runs:
            if run.switch and run.switch.keys() != self.length.keys():
                raise ValueError(f"switch of {shown(run.name)} must have {listed(self.length)}")

    def run(self, name: str) -> Run:
        """Return the run of this name."""
        return next(run for run in self.runs if run.name == name)

    def learner_of(self, run: Run) -> dict[str, Any]:
        """Return the settings of a run's learner, after the switch if it has one."""
        return {**self.learner, **run.learner}

    def first_learner_of(self, run: Run) -> dict[str, Any]:
        """Return the settings of a run's learner at the start."""
        return self.learner if run.switch else self.learner_of(run)

    def switch_of(self, run: Run, axis: Axis) -> float | None:
        """Return the share of a run after which its settings change; None if they do not."""
        return round(run.switch[axis] / self.length[axis], 6) if run.switch else None

    def share(self, anchor: Anchor) -> float:
        """Return the place of published results as a share of the paper's run."""
        return round(anchor.at / self.length[self.axis], 6)

    def with_tuples(self, tuples: list[list[int]]) -> Experiment:
        """Return the experiment with another network."""
        return replace(self, network={**self.network, "tuples": tuples})

    def digest(self, run: Run) -> str:
        """Return twelve characters that identify all that a run learns with but scale and seed."""
        learners = [self.first_learner_of(run), self.learner_of(run)]
        decisive = [self.network, *learners, run.switch and self.length, run.switch]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:12]

    def bytes_per_run(self) -> int:
        """Return the memory of a run's network and accumulators once all pages are in use."""
        rules = {self.learner_of(run).get("rule", "tc") for run in self.runs}
        arrays = 3 if "tc" in rules else 1
        return arrays * network(**self.network).weights.nbytes


def read(name: str) -> Experiment:
    """Return the experiment of this name, or of a settings file, whose name it has.

    Raises:
        OSError: its file cannot be read.
        ValueError: there is none, or the file has unknown, missing or wrong settings.
    """
    path = settings_file(name, FOLDER)
    return replace(config.read(path, Experiment), name=path.stem, given=name)
