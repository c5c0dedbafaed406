"""Figures of the leaderboard: colors, sizes, and names that cover nothing."""

from __future__ import annotations

import csv
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.path import Path as Line
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from afterstate.leaderboard.figures import N_STRONGEST, distributions, family_color, strength
from afterstate.leaderboard.games import GAMES, ROOT
from afterstate.leaderboard.results import Result, front

UNITS = {"2048": "score", "daihinmin": "points per 100 games"}


def published(game: str) -> list[Result]:
    """Return the published results of a game, the strongest last, with invented points by seed."""
    path = ROOT / "benchmarks" / "results" / "leaderboard" / f"{game}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[::-1]
    return [
        Result(
            game,
            row["player"],
            row["machine"],
            int(row["batch"]),
            int(row["games"]),
            float(row["mean"]),
            float(row["low"]),
            float(row["high"]),
            float(row["cpu_seconds_each"]),
            {},
            {seed: float(row["mean"]) * (1 + seed / 20) for seed in range(10)},
        )
        for row in rows
    ]


@pytest.fixture(params=list(GAMES))
def drawn(request: pytest.FixtureRequest) -> Any:
    """The results of a game, and the figure of strength against time."""
    results = published(request.param)
    figure = strength(results, UNITS[request.param])
    figure.draw_without_rendering()
    yield results, figure
    plt.close(figure)


def names_of(axes: Any) -> dict[str, Bbox]:
    """Return the names in a figure with the pixels that they fill."""
    return {text.get_text(): Text.get_window_extent(text) for text in axes.texts}


def test_names_cover_no_name_mark_interval_line_or_legend(drawn: Any) -> None:
    results, figure = drawn
    axes, pixels = figure.axes[0], figure.axes[0].transData.transform
    names = names_of(axes)
    assert not [pair for pair in combinations(names, 2) if names[pair[0]].overlaps(names[pair[1]])]
    shapes = {
        f"interval of {each.name}": pixels([(each.seconds, each.low), (each.seconds, each.high)])
        for each in results
    }
    for a, b in pairwise(front(results)):
        shapes[f"line to {b.name}"] = pixels([(a.seconds, a.points), (b.seconds, b.points)])
    legend = axes.get_legend().get_window_extent()
    for name, box in names.items():
        assert not [of for of, ends in shapes.items() if Line(ends).intersects_bbox(box)], name
        for each in results:
            x, y = pixels((each.seconds, each.points))
            assert not box.overlaps(Bbox.from_extents(x - 4, y - 4, x + 4, y + 4)), (
                name,
                each.name,
            )
        assert not box.overlaps(legend)
        assert all(axes.bbox.contains(*corner) for corner in box.corners()), name


def test_every_player_has_a_name(drawn: Any) -> None:
    """The strongest of 2048 have theirs in a part of their own."""
    results, figure = drawn
    named = {*names_of(figure.axes[0])}
    if results[0].game == "2048":
        labels = [label.get_text().split("\n") for label in figure.axes[1].get_yticklabels()]
        named |= {", ".join(label[:-1]) for label in labels}
        assert len(labels) == N_STRONGEST
    assert named == {each.name for each in results}


@pytest.mark.parametrize("game", GAMES)
def test_distributions_are_landscape_in_the_colors_of_families(game: str) -> None:
    results = published(game)
    figure = distributions(results, UNITS[game])
    width, height = figure.get_size_inches()
    boxes = figure.axes[0].patches
    assert width > 1.4 * height
    colors = [to_hex(box.get_facecolor()) for box in boxes]
    assert colors == [to_hex(family_color(each.name)) for each in results]
    assert len({*colors}) >= 4
    plt.close(figure)


@pytest.mark.parametrize("seconds", [1e-3, 2e-5, 3.7617994e-05])
def test_a_single_game_has_a_figure(seconds: float) -> None:
    one = Result("2048", "once", "", 1, 1, 7.0, np.nan, np.nan, seconds, {}, {1: 7.0})
    figure = strength([one], "score")
    assert [*names_of(figure.axes[0])] == ["once"]
    plt.close(figure)
