"""The experiments of a paper, as their settings files have them.

A settings file is a JSON object, one for each table or figure that is repeated:

- `title`, `study` (the citation), `shows` (its tables and figures), `measured`, and `readings`,
  what is made of points that the paper leaves open;
- `axis`, what runs are compared after, `"moves"` or `"seconds"`, and `length`, how many the paper
  has, to which a run of ours is scaled;
- `network` and `learner`, the arguments of `ntuple.network` and the fields of `learning.Settings`
  that all runs share;
- `runs`, each with its `name`, the paper's `label`, the fields of `learner` that differ, and what
  is `published` of it. With `switch` its own fields hold only from there on;
- `orders`, what the paper says of runs in words where it gives no numbers.

A published value is `[mean, interval]`, a number, or `{"from": ..., "to": ...}`; `at` is where on
the axis it was measured.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from afterstate.agents.game2048.values.ntuple import network

FOLDER = Path(__file__).parent
DEPTHS = {"greedy": 1, "3-ply": 3}
"""The ways to play that are measured, with their depths of search."""


class Published(NamedTuple):
    """A value as it was published: between two numbers, and their middle if it was given."""

    low: float
    high: float
    mean: float | None = None

    def __str__(self) -> str:
        if self.mean is not None:
            spread = self.high - self.mean
            return f"{self.mean:,.0f} ± {spread:,.0f}" if spread else f"{self.mean:,.0f}"
        if math.isinf(self.high):
            return f"over {self.low:,.0f}"
        return f"{self.low:,.0f} to {self.high:,.0f}"


class Anchor(NamedTuple):
    """What was published of a run at one place."""

    at: float  # in moves or seconds, as the experiment's axis says
    share: float  # of the whole run
    values: dict[str, Published]  # by the way to play
    learned: float | None  # moves learned from


class Scale(NamedTuple):
    """How long a run of ours is."""

    axis: str  # "moves" or "seconds"
    amount: float

    def __str__(self) -> str:
        return f"{short(self.amount)} {self.axis}"


class Said(NamedTuple):
    """Runs whose order the paper says in words."""

    measure: str
    better: str
    worse: list[str]
    says: str


@dataclass(frozen=True)
class Run:
    """One run of an experiment.

    Attributes:
        name: ours.
        label: the paper's.
        first: the learner's settings at first.
        learner: the learner's settings, from the switch on if there is one.
        switch: where that is, on each axis, in the paper's units.
        published: in the order of their places.
    """

    name: str
    label: str
    first: dict[str, Any]
    learner: dict[str, Any]
    switch: dict[str, float] = field(default_factory=dict)
    published: tuple[Anchor, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper: see the top of this file."""

    name: str
    title: str
    study: str
    shows: str
    measured: str
    axis: str
    length: dict[str, float]
    readings: tuple[str, ...]
    network: dict[str, Any]
    runs: tuple[Run, ...]
    orders: tuple[Said, ...] = ()

    def run(self, name: str) -> Run:
        """The run of a name."""
        return next(run for run in self.runs if run.name == name)

    def switch(self, run: Run, axis: str) -> float | None:
        """The share of a run after which it turns to its own settings; None: from the first on."""
        return round(run.switch[axis] / self.length[axis], 6) if run.switch else None

    def with_tuples(self, tuples: list[list[int]]) -> Experiment:
        """The same with another network, to try it."""
        return replace(self, network={**self.network, "tuples": tuples})

    def digest(self, run: Run) -> str:
        """A short name of everything that decides what a run learns, but for scale and seed."""
        settings = [self.network, run.first, run.learner, run.switch and self.length, run.switch]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]

    def bytes_per_run(self) -> int:
        """The memory of a run's network and accumulators, all of it once every page is touched."""
        arrays = 3 if any(run.learner.get("rule", "tc") == "tc" for run in self.runs) else 1
        return arrays * network(**self.network).weights.nbytes  # no page of it is touched


def short(number: float) -> str:
    """A number to three digits.

    >>> short(2e8), short(12.7e10), short(1800)
    ('2e8', '1.27e11', '1800')
    """
    if number < 1e6:
        return f"{number:.6g}"
    return f"{number:.3g}".replace("e+0", "e").replace("e+", "e")


def names() -> list[str]:
    """The experiments that there are."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def read(name: str) -> Experiment:
    """The experiment of a name."""
    return experiment(name, json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def experiment(name: str, data: Mapping[str, Any]) -> Experiment:
    """The experiment of a settings file.

    Raises:
        ValueError: it has something that a settings file does not have, or lacks something.
    """
    rest = {**data}
    try:
        shared, length = rest.pop("learner"), rest["length"][rest["axis"]]
        runs = tuple(_run(shared, length, settings) for settings in rest.pop("runs"))
        orders = tuple(Said(**said) for said in rest.pop("orders", ()))
        readings = tuple(rest.pop("readings"))
        return Experiment(name=name, runs=runs, orders=orders, readings=readings, **rest)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{name} is not a settings file of an experiment: {error}") from error


def _run(shared: dict[str, Any], length: float, settings: Mapping[str, Any]) -> Run:
    """A run, with the settings that all share."""
    rest = {**settings}
    learner = {**shared, **rest.pop("learner", {})}
    anchors = tuple(_anchor(length, anchor) for anchor in rest.pop("published", ()))
    first = shared if "switch" in rest else learner
    return Run(first=first, learner=learner, published=anchors, **rest)


def _anchor(length: float, anchor: Mapping[str, Any]) -> Anchor:
    """What was published at one place."""
    values = {measure: _value(anchor[measure]) for measure in DEPTHS if measure in anchor}
    unknown = set(anchor) - {"at", "learned", *DEPTHS}
    if unknown:
        raise TypeError(f"published values have no {sorted(unknown)}")
    return Anchor(anchor["at"], round(anchor["at"] / length, 6), values, anchor.get("learned"))


def _value(value: Any) -> Published:
    """A published value."""
    if isinstance(value, dict):
        return Published(value["from"], value.get("to", math.inf))
    mean, spread = value if isinstance(value, list) else (value, 0)
    return Published(mean - spread, mean + spread, mean)
