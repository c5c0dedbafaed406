"""Figures of results: drawn without a screen, and the same file for the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def save(figure: Any, path: Path, **how: Any) -> None:
    """Writes a figure as SVG, without a date or names by chance, and closes it.

    Args:
        figure: of matplotlib.
        path: of the file.
        **how: further settings of `savefig`.
    """
    with plt.rc_context({"svg.hashsalt": "afterstate"}):
        figure.savefig(path, metadata={"Date": None}, **how)
    plt.close(figure)
