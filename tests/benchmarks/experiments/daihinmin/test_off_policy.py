"""Off-policy Monte-Carlo control: the two listings by hand, and learning a small game."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.experiments.daihinmin.off_policy import (
    ApproximateControl,
    Reals,
    Return,
    Step,
    TabularControl,
    returns,
)

# The listings by hand


def rounded(results: Sequence[Return]) -> list[tuple[float, ...]]:
    """Return returns without the last bits of their weights."""
    return [tuple(round(number, 9) for number in each) for each in results]


def test_returns_start_at_the_last_deviation() -> None:
    """Greedy is action 0 everywhere. tau = 1, where action 1 is taken.

    t   s  a  r  p      R               w
    0   0  1  5  0.2    (before tau)
    1   1  1  1  0.5    1 + 2 + 4 = 7   1 / (0.8 * 0.4) = 3.125
    2   2  0  2  0.8    2 + 4 = 6       1 / 0.4 = 2.5
    3   3  0  4  0.4    4               1 (empty product)
    """
    policy = np.zeros(4, np.int64)
    episode = [Step(0, 1, 5, 0.2), Step(1, 1, 1, 0.5), Step(2, 0, 2, 0.8), Step(3, 0, 4, 0.4)]
    expected = [(1, 1, 7, 3.125), (2, 0, 6, 2.5), (3, 0, 4, 1)]
    assert rounded(returns(episode, policy)) == expected


def test_an_episode_without_a_deviation_has_returns_of_all_steps() -> None:
    policy = np.array([1, 0])
    episode = [Step(0, 1, 1, 0.5), Step(1, 0, 2, 0.25)]
    assert returns(episode, policy) == [Return(0, 1, 3, 4), Return(1, 0, 2, 1)]


def test_an_episode_whose_last_step_deviates_has_its_return_only() -> None:
    episode = [Step(0, 0, 1, 0.5), Step(1, 1, 2, 0.25)]
    assert returns(episode, np.zeros(2, np.int64)) == [Return(1, 1, 2, 1)]
    assert returns([], np.zeros(2, np.int64)) == []


def test_a_repeated_pair_counts_at_its_first_occurrence_after_the_deviation() -> None:
    """Tau = 1: the (0, 0) at t = 0 is before it; of those at 2 and 4 the first counts.

    t   s  a  r  p      R    w
    2   0  0  1  0.5    10   1 / (0.8 * 0.5 * 0.8) = 3.125
    3   1  0  2  0.8     9   1 / (0.5 * 0.8) = 2.5, and not 1 at t = 5
    """
    policy = np.zeros(2, np.int64)
    episode = [
        *(Step(0, 0, 9, 0.5), Step(1, 1, 0, 0.2), Step(0, 0, 1, 0.5)),
        *(Step(1, 0, 2, 0.8), Step(0, 0, 3, 0.5), Step(1, 0, 4, 0.8)),
    ]
    expected = [(1, 1, 10, 6.25), (0, 0, 10, 3.125), (1, 0, 9, 2.5)]
    assert rounded(returns(episode, policy)) == expected


@pytest.mark.parametrize("probability", [0, -0.5])
def test_an_action_without_probability_is_refused(probability: float) -> None:
    episode = [Step(0, 0, 1, probability), Step(0, 1, 1, 0.5)]
    with pytest.raises(ValueError, match="probability"):
        returns(episode, np.zeros(1, np.int64))


def test_the_first_listing_by_hand() -> None:
    """Two states, two actions; N / D = Q after each episode, the policy being [0, 0] at first."""
    control = TabularControl(2, 2)
    assert control.policy.tolist() == [0, 0]
    # tau = 0. (0, 1): R = 1 + 3 = 4, w = 1 / 0.5 = 2. (1, 0): R = 3, w = 1.
    control.learn([Step(0, 1, 1, 0.5), Step(1, 0, 3, 0.5)])
    assert control.numerator.tolist() == [[0, 8], [3, 0]]
    assert control.denominator.tolist() == [[0, 2], [1, 0]]
    assert control.q.tolist() == [[0, 4], [3, 0]]
    assert control.policy.tolist() == [1, 0]
    # Now 1 is greedy at 0. tau = 1. (1, 1): R = 6, w = 1.
    control.learn([Step(0, 1, 7, 0.25), Step(1, 1, 6, 0.5)])
    assert control.q.tolist() == [[0, 4], [3, 6]]
    assert control.policy.tolist() == [1, 1]
    # No deviation. (0, 1): R = 2, w = 1 / 0.25 = 4: N = 8 + 8, D = 2 + 4. (1, 1): R = 0, w = 1.
    control.learn([Step(0, 1, 2, 0.5), Step(1, 1, 0, 0.25)])
    assert control.numerator.tolist() == [[0, 16], [3, 6]]
    assert control.denominator.tolist() == [[0, 6], [1, 2]]
    assert control.q.tolist() == [[0, 16 / 6], [3, 3]]
    assert control.policy.tolist() == [1, 0]  # of equals the first


def test_initial_values_stay_until_there_is_a_return() -> None:
    control = TabularControl(1, 3, value=5)
    control.learn([Step(0, 1, 1, 0.5)])
    assert control.q.tolist() == [[5, 1, 5]]
    assert control.policy.tolist() == [0]


def test_the_second_listing_by_hand() -> None:
    """The function is fitted to batches of three returns, and keeps one for the next batch."""
    table, fitted = np.zeros((2, 2)), []

    def fit(data: Sequence[Return]) -> None:
        fitted.append(list(data))
        for each in data:
            table[each.state, each.action] = each.value

    control = ApproximateControl(lambda: table.copy(), fit, collect=3, keep=1)
    assert control.policy.tolist() == [0, 0]
    first, second = Return(0, 1, 4, 2), Return(1, 0, 3, 1)
    control.learn([Step(0, 1, 1, 0.5), Step(1, 0, 3, 0.5)])
    assert fitted == []
    assert control.policy.tolist() == [0, 0]  # as the function is still the same
    third = Return(1, 1, 6, 1)
    control.learn([Step(0, 1, 7, 0.25), Step(1, 1, 6, 0.5)])
    assert fitted == [[first, second, third]]
    assert control.policy.tolist() == [1, 1]
    control.learn([Step(0, 0, 1, 0.5)])
    assert len(fitted) == 1
    control.learn([Step(0, 0, 2, 0.5)])
    assert fitted[1] == [third, Return(0, 0, 1, 1), Return(0, 0, 2, 1)]


def test_by_default_no_returns_are_kept() -> None:
    fitted: list[int] = []
    control = ApproximateControl(
        lambda: np.zeros((1, 2)), lambda data: fitted.append(len(data)), collect=2
    )
    for _ in range(6):
        control.learn([Step(0, 0, 1, 0.5)])
    assert fitted == [2, 2, 2]


@pytest.mark.parametrize(("collect", "keep"), [(3, 3), (3, -1), (0, 0)])
def test_a_batch_cannot_keep_all_its_returns(collect: int, keep: int) -> None:
    with pytest.raises(ValueError, match="keep"):
        ApproximateControl(lambda: np.zeros((1, 1)), lambda data: None, collect, keep)


# Learning a corridor of four states

N_STATES, LEAVE, CONTINUE = 4, 0, 1
"""Leaving state s pays `PRIZES[s]` and ends the episode. Continuing leads to the next state with
probability 0.7 and otherwise ends the episode without a reward; from the last state it pays 2."""
PRIZES = (3.0, 1.0, 2.0, 7.0)
# Values by hand, from the last state back: state 3: leave 7, continue 0.7 * 2 = 1.4; state 2: leave
# 2, continue 0.7 * 7 = 4.9; 1: leave 1, continue 0.7 * 4.9 = 3.43; 0: leave 3, continue 0.7 * 3.43.
BEST = np.array([[3.0, 2.401], [1.0, 3.43], [2.0, 4.9], [7.0, 1.4]])


def episode(rng: np.random.Generator, policy: np.ndarray, epsilon: float, state: int) -> list[Step]:
    """Return an episode of the epsilon-greedy behavior policy from a state on."""
    steps: list[Step] = []
    while True:
        greedy = int(policy[state])
        action = greedy if rng.random() >= epsilon else int(rng.integers(2))
        probability = epsilon / 2 + (1 - epsilon) * (action == greedy)
        lucky = rng.random() < 0.7
        if action == LEAVE or not lucky or state == N_STATES - 1:
            last = state == N_STATES - 1
            reward = PRIZES[state] if action == LEAVE else 2.0 * (lucky and last)
            return [*steps, Step(state, action, reward, probability)]
        steps.append(Step(state, action, 0.0, probability))
        state += 1


@pytest.mark.parametrize("first", [[0, 0, 0, 0], [1, 1, 1, 1]])
def test_tables_converge_to_the_best_policy_and_its_values(first: list[int]) -> None:
    rng, control = np.random.default_rng(1), TabularControl(N_STATES, 2)
    control.policy = np.array(first)
    for _ in range(6_000):
        control.learn(episode(rng, control.policy, 0.3, int(rng.integers(N_STATES))))
    assert control.policy.tolist() == BEST.argmax(1).tolist() == [0, 1, 1, 0]
    np.testing.assert_allclose(control.q, BEST, atol=0.3)


def test_a_linear_function_learns_the_best_policy() -> None:
    """Features are shared by the states; the least squares are weighted as in the listing.

    The prize of leaving is linear in two features of the states, and continuing in three.
    """
    features = np.array([[1, 3, 2.401], [1, 1, 3.43], [1, 2, 4.9], [1, 7, 1.4]])
    theta, rng = np.zeros((2, 3)), np.random.default_rng(2)

    def values() -> Reals:
        return features @ theta.T

    def fit(data: Sequence[Return]) -> None:
        for action in range(2):
            rows = [each for each in data if each.action == action]
            weights = np.sqrt([each.weight for each in rows])
            inputs = features[[each.state for each in rows]] * weights[:, np.newaxis]
            targets = np.array([each.value for each in rows]) * weights
            theta[action] = np.linalg.lstsq(inputs, targets, rcond=None)[0]

    control = ApproximateControl(values, fit, collect=2_000, keep=500)
    for _ in range(8_000):
        control.learn(episode(rng, control.policy, 0.4, int(rng.integers(N_STATES))))
    assert control.policy.tolist() == [0, 1, 1, 0]
    np.testing.assert_allclose(values(), BEST, atol=0.6)
