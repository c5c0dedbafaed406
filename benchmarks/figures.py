"""Figures of results: drawn without a screen, and the same file for the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def save(figure: Any, path: Path) -> None:
    """Writes a figure as SVG, without a date or names by chance, and closes it.

    Args:
        figure: of matplotlib.
        path: of the file.
    """
    with plt.rc_context({"svg.hashsalt": "afterstate"}):
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
