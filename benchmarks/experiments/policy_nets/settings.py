"""The settings of the experiment with policy networks, `settings.json`, and its networks' files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from afterstate.agents.config import Count, NamedPlayer, Whole, settings
from benchmarks.experiments import harness
from benchmarks.experiments.policy_nets.analysis import TILES

HERE = Path(__file__).parent
SETTINGS = HERE / "settings.json"
RESULTS = harness.RESULTS / "policy_nets"


@settings
class Log:
    """The games that networks learn from, as in `afterstate log`."""

    player: NamedPlayer
    moves: Count
    seed: Whole


@settings
class Scores:
    """Published scores of a network."""

    mean: Count
    max: Count


@settings
class Agreement:
    """Published numbers of boards on which networks have the same move."""

    boards: Count
    all: Whole
    """On which all four have."""
    only_2: Whole
    """On which all but k = 2 have."""


@settings
class Published:
    """The paper's values, by layers of networks."""

    moves: Count
    """Learned from."""
    games: Count
    scores: dict[int, Scores]
    """Table 2."""
    agreement: Agreement
    figure_5: dict[str, dict[int, tuple[float, ...] | str]]
    """Probabilities or the move on each board."""
    contributions: dict[str, dict[int, tuple[tuple[str, float, float, float], ...]]]
    """Tables 4 to 7: units of a layer with their shares on three boards, in percent."""


@settings
class Experiment:
    """Networks, what they learn from, their games and the published values."""

    title: str
    log: Log
    moves: Count
    """To learn from."""
    learner: dict[str, Any]
    """Settings of the learner, those of `afterstate train policy`."""
    layers: tuple[Literal[2, 3, 4, 5], ...]
    """Of the networks."""
    games: Count
    """Of each network."""
    chunk: Count
    """Games that a process plays at a time."""
    published: Published


def published_filters() -> dict[tuple[int, str], npt.NDArray[np.float64]]:
    """Return the filters of table 3, `[4, 16]` each, by layers and name."""
    rows = pd.read_csv(HERE / "published_filters.csv", dtype={"filter": str})
    groups = rows.groupby(["layers", "filter"], sort=False)[list(TILES)]
    return {(int(layers), name): group.to_numpy(float) for (layers, name), group in groups}


def run_folder(runs: Path, layers: int, seed: int) -> Path:
    """Return the folder of a network's training run."""
    return runs / f"k{layers}_seed_{seed}"


def network_file(runs: Path, layers: int, seed: int = 1) -> Path:
    """Return the file of a trained network."""
    return run_folder(runs, layers, seed) / "net.safetensors"


def label(layers: int) -> str:
    """Return the name of a player in tables; the one without layers makes random moves."""
    return f"k = {layers}" if layers else "random moves"
