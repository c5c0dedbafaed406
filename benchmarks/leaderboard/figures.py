"""Figures drawn without a display, byte for byte the same for the same data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def save(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib as SVG, without a date or random names, and close it."""
    with plt.rc_context({"svg.hashsalt": "afterstate"}):
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
