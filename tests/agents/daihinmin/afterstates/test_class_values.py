"""The value of a class, by hand arithmetic and by matches that were played."""

import numpy as np
import pytest

from afterstate.agents.daihinmin.afterstates.class_values import (
    HORIZON,
    class_values,
    count_transitions,
    games_left,
)
from afterstate.envs.daihinmin.match import CLASS_VALUES, POINTS, new_match, next_game
from afterstate.envs.daihinmin.rules import Rules


def test_in_the_last_game_only_points_count() -> None:
    assert class_values(0).tolist() == [4, 3, 2, 1, 0]


def test_one_more_game_adds_the_expected_points_of_the_class() -> None:
    expected = POINTS + np.array([4.253, 3.694, 2.772, 2.255, 2.034])
    np.testing.assert_allclose(class_values(1), expected - expected[-1], atol=0.01)


def test_two_more_games_by_hand() -> None:
    matrix = np.zeros((5, 5))
    matrix[:2, :2] = 0.5  # the best two change places at random
    matrix[2:, 2:] = np.eye(3)
    # places 1 and 2: 5, 4 points and then 4.5 a game; the others keep their place and its points
    expected = np.array([5 + 4.5 * 2, 4 + 4.5 * 2, 9, 6, 3])
    np.testing.assert_allclose(class_values(2, matrix), expected - 3)


def test_a_player_that_keeps_its_place_gets_its_points_each_game() -> None:
    np.testing.assert_allclose(class_values(6, np.eye(5)), [28, 21, 14, 7, 0])


def test_classes_without_effect_have_no_value() -> None:
    np.testing.assert_allclose(class_values(9, np.full((5, 5), 0.2)), class_values(0))


def test_the_default_values_converge_near_the_champions() -> None:
    values = class_values(HORIZON)
    np.testing.assert_allclose(values, CLASS_VALUES, atol=0.15)
    np.testing.assert_allclose(class_values(10 * HORIZON), values, atol=1e-3)
    assert (np.diff(values) < 0).all()


@pytest.mark.parametrize(
    ("number", "every", "left"),
    [(1, 100, HORIZON), (100, 100, 0), (99, 100, 1), (101, 100, HORIZON), (7, 5, 3), (50, 0, 32)],
)
def test_games_until_the_reset(number: int, every: int, left: int) -> None:
    match = new_match(1, Rules(class_reset_every=every))
    match["number"] = number
    assert games_left(match) == left


def test_without_exchanges_no_games_count() -> None:
    match = new_match(1, Rules(exchanges=False))
    next_game(match)
    assert games_left(match) == 0


def test_transitions_are_counted_from_games() -> None:
    classes = [[-1] * 5, [0, 1, 2, 3, 4], [1, 0, 2, 3, 4]]
    places = [[0, 1, 2, 3, 4], [1, 0, 2, 3, 4], [1, 0, 2, 4, 3]]
    expected = np.eye(5)
    expected[:2, :2] = 0.5
    expected[3:, 3:] = 0.5
    np.testing.assert_allclose(count_transitions(classes, places), expected)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="games_left"):
        class_values(-1)
    for matrix in (np.eye(4), np.ones((5, 5)), -np.eye(5)):
        with pytest.raises(ValueError, match="5x5 matrix"):
            class_values(1, matrix)
    with pytest.raises(ValueError, match="every class"):
        count_transitions([[-1] * 5], [[0, 1, 2, 3, 4]])
