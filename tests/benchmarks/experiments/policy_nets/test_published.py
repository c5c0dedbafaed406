"""Tests of the published values that the policy network experiment compares with."""

from __future__ import annotations

from dataclasses import asdict

from afterstate.agents.config import from_dict, read
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.training.fitting_settings import FittingSettings
from benchmarks.experiments.policy_nets import report, settings
from benchmarks.experiments.policy_nets.analysis import CELLS, TILES
from benchmarks.experiments.policy_nets.settings import Experiment
from tests.benchmarks.experiments.policy_nets.test_run import PUBLISHED, SCORES, published_rows


def test_published_values_are_those_of_the_paper() -> None:
    published = read(settings.SETTINGS, Experiment).published
    assert (published.moves, published.games) == (600e6, 10_000)
    scores = {layers: (each.mean, each.max) for layers, each in published.scores.items()}
    assert scores == SCORES
    counts = {"boards": 77_253, "all": 22_807, "only_2": 5_915}
    assert asdict(published.agreement) == counts
    assert published.figure_5 == {
        "5a": {2: (0.243, 0.405, 0.104, 0.248), 5: (0.470, 0.470, 0.000, 0.060)},
        "5b": {2: "up", 3: "left", 4: "left", 5: "left"},
    }
    for what, layers in PUBLISHED:
        rows = [(row[0], *map(float, row[1:])) for row in published_rows(what, layers)]
        assert list(published.contributions[what][layers]) == rows
        assert report.ROWS[what][layers] == len(rows)
    assert {what: len(of) for what, of in published.contributions.items()} == {
        "last layer": 2,
        "layer before": 2,
    }


def test_settings_belong_to_existing_networks_and_learners() -> None:
    experiment = read(settings.SETTINGS, Experiment)
    assert list(experiment.layers) == list(policy_net.CHANNELS) == list(SCORES)
    from_dict(experiment.learner, FittingSettings)


def test_there_are_twelve_published_filters_with_weights_of_cells_and_tiles() -> None:
    filters = settings.published_filters()
    of_two, of_five = ([name for k, name in filters if k == layers] for layers in (2, 5))
    assert of_two == ["74", "363", "17", "432", "120", "154"]
    assert of_five == ["198", "213", "93", "98", "unnamed-1", "unnamed-2"]
    assert len(filters) == 12
    assert {weights.shape for weights in filters.values()} == {(4, 16)}
    for layers, name, cell, tile, weight in [
        (2, "74", "NW", "4", 0.57),
        (2, "74", "NW", "empty", 0.19),
        (2, "74", "SE", "32768", -0.01),
        (2, "17", "NW", "empty", -1.18),
        (2, "17", "NE", "empty", 1.37),
        (2, "154", "NW", "2048", 0.66),
        (2, "154", "NE", "4096", 0.56),
        (5, "198", "NW", "4", 0.61),
    ]:
        assert filters[layers, name][CELLS.index(cell), TILES.index(tile)] == weight
