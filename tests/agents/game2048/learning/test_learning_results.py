"""Tests of the results of learning: exact optima of small games, order of settings, known curves.

A run with one thread is repeated exactly by its seed. The margins exceed the differences between
seeds, so that they hold where numbers are rounded otherwise.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search import exact
from afterstate.agents.game2048.simple import RandomAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.envs.game2048.rules import cells
from tests.support.game2048.learning_checks import name_of

pytestmark = pytest.mark.slow

FIVES = [[0, 1, 2, 4, 5], [4, 5, 6, 8, 9], [0, 1, 2, 3, 4], [4, 5, 6, 7, 8]]


@cache
def solved(size: tuple[int, int]) -> exact.Solution:
    """Return the solution of a small board."""
    return exact.solve(size)


def new(
    size: tuple[int, int], settings: NTupleSettings, seed: int = 1, **options: Any
) -> NTupleLearner:
    """Return a learner of a small board with one tuple of all its cells."""
    every_cell = [4 * row + col for row in range(size[0]) for col in range(size[1])]
    return NTupleLearner(network([every_cell], size, **options), settings, seed)


def exact_score(learner: NTupleLearner) -> float:
    """Return the exact expected score of the greedy player."""
    return exact.expected_score(NTupleAgent(learner.network))


@pytest.mark.parametrize(
    ("size", "best"), [((2, 2), 66.964149), ((2, 3), 480.258272), ((3, 2), 480.258272)]
)
def test_small_games_have_the_known_optimum(size: tuple[int, int], best: float) -> None:
    assert solved(size).value == pytest.approx(best, abs=5e-7)


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (NTupleSettings(), {}),
        (NTupleSettings(lam=0.0), {}),
        (NTupleSettings(order="forward"), {}),
        (NTupleSettings("td", "forward", rate=0.5), {}),
        (NTupleSettings(order="forward", delay=2), {}),
        (NTupleSettings(restart=3), {}),
        (NTupleSettings(epsilon=0.05), {}),
        (NTupleSettings(carousel=True, order="forward"), {"stages": [16, 32], "start_value": 80}),
        (NTupleSettings(), {"stages": [8, 16], "promote": True}),
        (NTupleSettings(), {"fixed_point": True}),
        (NTupleSettings(epsilon=0.2, restart=1, lam=0.0), {"symmetric": False}),
        (NTupleSettings(order="forward"), {"start_value": 80}),
        (NTupleSettings(search_share=0.5), {}),
    ],
    ids=name_of,
)
def test_learning_2x2_reaches_99_percent_of_the_optimum(
    settings: NTupleSettings, options: dict[str, Any]
) -> None:
    """Greedy play learns all values; more afterstates, as without symmetry, need exploration."""
    learner, best = new((2, 2), settings, **options), solved((2, 2)).value
    learner.learn(200_000)
    assert 0.99 * best <= exact_score(learner) <= best + 1e-9


@pytest.mark.parametrize(
    ("size", "settings"),
    [
        ((2, 3), NTupleSettings(order="forward", restart=1, epsilon=0.1)),
        ((3, 2), NTupleSettings(lam=0.0, restart=1, epsilon=0.1)),
    ],
    ids=name_of,
)
def test_learning_six_cells_reaches_99_percent_of_the_optimum(
    size: tuple[int, int], settings: NTupleSettings
) -> None:
    """Other seeds reached 0.991 to 0.997 of the optimum."""
    learner, best = new(size, settings, start_value=500), solved(size).value
    learner.learn(15_000_000)
    assert 0.99 * best <= exact_score(learner) <= best + 1e-9


@cache
def greedy_2x3_score() -> float:
    """Return the exact score on 2x3 cells after a million moves without exploration."""
    learner = new((2, 3), NTupleSettings())
    learner.learn(1_000_000)
    return exact_score(learner)


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (NTupleSettings(epsilon=0.1), {}),
        (NTupleSettings(epsilon=0.1, order="forward"), {}),
        (NTupleSettings(order="forward"), {"start_value": 500}),
        (NTupleSettings(search_share=0.3), {}),
    ],
    ids=name_of,
)
def test_six_cells_are_not_learned_without_exploration(
    settings: NTupleSettings, options: dict[str, Any]
) -> None:
    """Greedy play repeats its first choices, however long it learns."""
    explorer = new((2, 3), settings, **options)
    explorer.learn(1_000_000)
    assert exact_score(explorer) > 1.2 * greedy_2x3_score()
    assert greedy_2x3_score() < 0.7 * solved((2, 3)).value


class Late(NamedTuple):
    """Knowledge of late afterstates of the 2x3 board, the mean of three runs."""

    error: float  # mean error with a largest tile of 64, as a share of the mean value
    known: float  # share of those with a largest tile of 128 that have a value
    n_games: float  # from the start


@cache
def late_2x3(settings: NTupleSettings, **options: Any) -> Late:
    """Return the knowledge of late afterstates after a million moves."""
    solution = solved((2, 3))
    largest = cells(solution.afters, 2, 3).max(axis=(1, 2))
    is_64, is_128 = largest == 6, largest == 7
    runs = []
    for seed in (1, 2, 3):
        learner = new((2, 3), settings, seed, **options)
        learner.learn(1_000_000)
        values = estimate(learner.network, solution.afters)
        error = np.abs(values - solution.values)[is_64].mean() / solution.values[is_64].mean()
        runs.append((error, (values[is_128] != 0).mean(), learner.n_games))
    return Late(*np.mean(runs, axis=0).tolist())


@pytest.mark.parametrize(
    ("others", "shaping", "error", "known"),
    [
        ({"lam": 0.0}, {"restart": 1}, 0.93, 3),
        ({"lam": 0.5}, {"carousel": True}, 0.98, 1.3),
        ({"order": "forward"}, {"restart": 3}, 0.96, 2),
        ({"order": "forward"}, {"carousel": True}, 0.98, 1.3),
    ],
    ids=str,
)
def test_restart_and_carousel_teach_more_of_late_boards(
    others: dict[str, Any], shaping: dict[str, Any], error: float, known: float
) -> None:
    """The number of moves is the same; fewer games begin at the start."""
    plain = late_2x3(NTupleSettings(epsilon=0.1, **others))
    options = {"stages": (16, 32, 64)} if "carousel" in shaping else {}
    shaped = late_2x3(NTupleSettings(epsilon=0.1, **others, **shaping), **options)
    assert shaped.error < error * plain.error
    assert shaped.known > known * plain.known
    assert shaped.n_games < 0.5 * plain.n_games


def test_played_games_of_a_2x2_learner_have_the_exact_mean() -> None:
    """The mean of 4,000 games is within four standard errors of the exact expectation."""
    learner = new((2, 2), NTupleSettings(), seed=2)
    learner.learn(5_000)
    scores = play(NTupleAgent(learner.network), 4_000, seed=1, size=(2, 2)).scores
    error = float(scores.std(ddof=1)) / len(scores) ** 0.5
    assert abs(float(scores.mean()) - exact_score(learner)) < 4 * error


@cache
def late_mean(settings: NTupleSettings, n_moves: int, **options: Any) -> float:
    """Return the mean score of the last quarter of the games of a run."""
    learner = NTupleLearner(network(FIVES, **options), settings, seed=1)
    scores = learner.learn(n_moves).scores
    return float(scores[-len(scores) // 4 :].mean())


TC, FORWARD = NTupleSettings(), NTupleSettings(order="forward")


@pytest.mark.parametrize(
    ("better", "factor", "worse"),
    [
        (TC, 1.07, NTupleSettings(lam=0.0)),
        (TC, 1.07, NTupleSettings(printed=True)),
        (FORWARD, 1.2, NTupleSettings("td", "forward")),
        (FORWARD, 1.3, NTupleSettings(printed=True, order="forward")),
        (NTupleSettings(order="forward", delay=3), 1.1, FORWARD),
        (NTupleSettings("td", "forward", delay=3), 1.03, NTupleSettings("td", "forward")),
    ],
    ids=name_of,
)
def test_a_rule_that_is_known_to_be_better_is_better(
    better: NTupleSettings, factor: float, worse: NTupleSettings
) -> None:
    assert late_mean(better, 2_000_000) > factor * late_mean(worse, 2_000_000)


@pytest.mark.parametrize(
    ("better", "factor", "worse"),
    [
        (TC, 1.15, NTupleSettings(epsilon=0.01)),
        (NTupleSettings(epsilon=0.01), 1.5, NTupleSettings(epsilon=0.1)),
        (TC, 2, NTupleSettings(epsilon=0.1, skip="own")),
        (TC, 1.8, NTupleSettings(good=0.75)),
        (NTupleSettings(good=0.25), 1.5, NTupleSettings(good=0.75)),
        (TC, 1.8, NTupleSettings(good=0.75, restart=10)),
    ],
    ids=name_of,
)
def test_good_plays_only_and_random_moves_are_harmful(
    better: NTupleSettings, factor: float, worse: NTupleSettings
) -> None:
    """Matsuzaki 2017 reports the same."""
    assert late_mean(better, 1_000_000) > factor * late_mean(worse, 1_000_000)


@pytest.mark.parametrize(
    ("factor", "options"),
    [(1.15, {"stages": (256, 512, 1024)}), (2, {"symmetric": False}), (2, {"start_value": 1e5})],
)
def test_more_to_learn_takes_longer(factor: float, options: dict[str, Any]) -> None:
    assert late_mean(TC, 1_000_000) > factor * late_mean(TC, 1_000_000, **options)


def test_more_games_by_search_score_more() -> None:
    """The games are those of the 100,000 moves after greedy learning."""
    means = []
    for share in (0.0, 0.5, 1.0):
        settings = NTupleSettings(search_share=share, search_from=300_000)
        learner = NTupleLearner(network(FIVES), settings, seed=1)
        learner.learn(300_000)
        means.append(learner.learn(100_000).scores.mean())
    assert means[1] > 1.05 * means[0]
    assert means[2] > 1.05 * means[1]
    assert means[2] > 1.25 * means[0]


def test_promotion_helps_stages_at_first() -> None:
    stages = (256, 512, 1024)
    promoted = late_mean(TC, 500_000, stages=stages, promote=True)
    assert promoted > 1.03 * late_mean(TC, 500_000, stages=stages)


@pytest.mark.parametrize(
    ("settings", "options", "low", "high"),
    [
        (NTupleSettings(restart=10), {}, 0.8, 1.25),
        (TC, {"fixed_point": True}, 0.8, 1.2),
        (TC, {"downgrade": 1024}, 0.8, 1.25),
    ],
)
def test_other_settings_learn_about_as_well(
    settings: NTupleSettings, options: dict[str, Any], low: float, high: float
) -> None:
    assert low < late_mean(settings, 1_000_000, **options) / late_mean(TC, 1_000_000) < high


def test_every_learner_is_far_better_than_random_moves() -> None:
    chance = float(play(RandomAgent(seed=1), 200, seed=1).scores.mean())
    for settings in (TC, NTupleSettings(epsilon=0.1), NTupleSettings(epsilon=0.1, skip="own")):
        assert late_mean(settings, 1_000_000) > 4 * chance


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("settings", "n_moves", "published"),
    [
        (NTupleSettings(), 20_000_000, 59_600),
        (NTupleSettings(lam=0.0), 18_000_000, 51_800),
        (NTupleSettings(order="forward"), 16_000_000, 45_000),
        (NTupleSettings("td", "forward"), 8_900_000, 21_700),
    ],
    ids=["TC(0.5)", "TC backward", "TC forward", "TD(0)"],
)
def test_mean_score_is_that_of_tdl2048_after_the_same_moves(
    settings: NTupleSettings, n_moves: int, published: float
) -> None:
    """Means of the last 1,000 games of single runs vary by more than their standard error of 2%."""
    learner = NTupleLearner(settings=settings, seed=1)
    scores: list[int] = []
    while learner.n_moves < n_moves:
        scores += learner.learn(1_000_000).scores.tolist()
    assert np.mean(scores[-1_000:]) == pytest.approx(published, rel=0.12)
