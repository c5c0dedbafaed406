"""The settings of the experiment with policy networks, `settings.json`, and its networks' files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from afterstate.leaderboard.row_files import Row
from benchmarks.experiments import harness
from benchmarks.experiments.policy_nets.analysis import TILES

HERE = Path(__file__).parent
SETTINGS = HERE / "settings.json"
RESULTS = harness.RESULTS / "policy_nets"


class Study(NamedTuple):
    """The experiment with one file of settings."""

    settings: Row  # with the published values
    out: Path  # folder of the results


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
