"""Pictures of filters, of their weights and of boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from afterstate.envs.game2048 import rules
from benchmarks.experiments.policy_nets import analysis
from benchmarks.experiments.policy_nets.analysis import CELLS, TILES


def draw_filters(
    weights: npt.NDArray[Any],
    titles: Sequence[str],
    path: str | Path,
    columns: int = 2,
    label: str = "weight",
) -> None:
    """Draw filters of the first layer: positive weights blue, negative ones red.

    Args:
        weights: `[n, 4, 16]`.
        titles: one for each filter.
        path: a picture of any format that matplotlib writes.
        columns: filters in a row of the picture.
        label: label of the color bar.

    Raises:
        OSError: the picture cannot be written.
        ImportError: matplotlib is not installed.
    """
    rows, bound = -(-len(weights) // columns), float(np.abs(weights).max()) or 1.0
    figure, panels = _panels(rows, columns, 5.2 * columns + 0.8, 1.75 * rows + 0.6)
    for panel in panels.flat[len(weights) :]:
        panel.set_axis_off()
    for panel, filter_, title in zip(panels.flat[: len(weights)], weights, titles, strict=True):
        image = panel.imshow(filter_, cmap="RdBu", vmin=-bound, vmax=bound, aspect="auto")
        panel.set_title(title, fontsize=9)
        panel.set_yticks(range(4), CELLS, fontsize=8)
        panel.set_xticks(
            range(16), TILES, fontsize=7, rotation=60, ha="right", rotation_mode="anchor"
        )
        panel.set_xticks(np.arange(15) + 0.5, minor=True)
        panel.set_yticks(np.arange(3) + 0.5, minor=True)
        panel.grid(which="minor", color="white", linewidth=1)
        panel.tick_params(which="both", length=0)
    figure.colorbar(image, ax=panels, label=label, shrink=min(1.0, 2 / rows))
    _save(figure, path)


def draw_weights(
    networks: Mapping[str, npt.NDArray[np.float32]], path: str | Path, threshold: float = 0.1
) -> None:
    """Draw the number of filters with more than x weights above a threshold: figure 3 of the paper.

    Args:
        networks: weights `[filters, 4, 16]` by the name in the legend.
        path: a picture.
        threshold: of absolute values.
    """
    figure, ((panel,),) = _panels(1, 1, 6.4, 4)
    for name, weights in networks.items():
        counts = analysis.filters_above(weights, threshold)
        panel.step(range(65), counts, where="post", label=f"{name}, of {len(weights)} filters")
    panel.set_xlabel("x, of the 64 weights of a filter")
    panel.set_ylabel(
        f"filters with more than x weights\nwhose absolute value is above {threshold:g}"
    )
    panel.set_xlim(0, 64)
    panel.set_ylim(0)
    panel.grid(alpha=0.3)
    panel.legend()
    _save(figure, path)


def draw_boards(
    boards: Sequence[int], captions: Sequence[str], path: str | Path, columns: int = 3
) -> None:
    """Draw boards with captions.

    Args:
        boards: board words.
        captions: one for each board.
        path: a picture.
        columns: boards in a row of the picture.
    """
    rows = max(1, -(-len(boards) // columns))
    figure, panels = _panels(rows, columns, 2.7 * columns, 3.3 * rows)
    for panel in panels.flat:
        panel.set_axis_off()
    for panel, board, caption in zip(panels.flat[: len(boards)], boards, captions, strict=True):
        cells = rules.cells(np.uint64(board))
        panel.imshow(cells, cmap="YlOrBr", vmin=0, vmax=20)
        for (row, column), exponent in np.ndenumerate(cells):
            if exponent:
                text = str(1 << int(exponent))
                panel.text(column, row, text, ha="center", va="center", fontsize=11)
        for edge in np.arange(-0.5, 4):
            panel.axhline(edge, color="white", linewidth=3)
            panel.axvline(edge, color="white", linewidth=3)
        panel.set_title(caption, fontsize=8, loc="left")
    _save(figure, path)


def _panels(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    """Return a figure of matplotlib and its panels `[rows, columns]`."""
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _save(figure: Any, path: str | Path) -> None:
    """Write a figure, in a new folder if there is none."""
    from afterstate.leaderboard import figures

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figures.save(figure, Path(path), bbox_inches=None, dpi=110)
