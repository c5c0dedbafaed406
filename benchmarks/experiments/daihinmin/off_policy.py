"""Off-policy Monte-Carlo control, with tables and with function approximation.

The two listings of Kuwabara and Hoki (2018, section 2.2; the first is from Sutton and Barto): a
behavior policy plays episodes, and the part of an episode after its last deviation from the greedy
policy estimates the values of the greedy policy. The paper's rank networks learn by the second
listing with all weights 1 (`rank_learner.py`); here both are complete, for any task with numbered
states and actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


class Step(NamedTuple):
    """One step of an episode."""

    state: int
    action: int
    reward: float  # after the action
    probability: float  # of the action under the behavior policy


class Return(NamedTuple):
    """The return of an action in a state."""

    state: int
    action: int
    value: float  # the sum of the rewards from there on
    weight: float  # importance weight: how much likelier the greedy policy continues like this


def returns(episode: Sequence[Step], policy: Numbers) -> list[Return]:
    """Compute the returns of an episode that estimate the values of a greedy policy.

    These are the returns of each pair of state and action from the episode's last deviation from
    the policy on, at its first occurrence there; of all pairs if the episode never deviates.

    Args:
        episode: the steps.
        policy: `[states]`, the action of the greedy policy in each state.

    Raises:
        ValueError: an action has no probability under the behavior policy.
    """
    if any(step.probability <= 0 for step in episode):
        raise ValueError("probability of each action must be > 0 under the behavior policy")
    deviations = [t for t, step in enumerate(episode) if step.action != policy[step.state]]
    first: dict[tuple[int, int], Return] = {}
    value, weight = 0.0, 1.0
    for t in range(len(episode) - 1, max(deviations, default=0) - 1, -1):
        state, action, reward, probability = episode[t]
        value += reward
        first[state, action] = Return(state, action, value, weight)  # replaces a later one
        weight /= probability
    return list(first.values())[::-1]


class TabularControl:
    """The first listing: weighted means of returns, and the policy that is greedy for them.

    Args:
        n_states: number of states.
        n_actions: number of actions of each state.
        value: initial value of all actions.

    Attributes:
        q: `[states, actions]`, the values: `numerator / denominator` where there is a return.
        policy: `[states]`, the greedy actions, the first of equal ones.
    """

    def __init__(self, n_states: int, n_actions: int, value: float = 0.0) -> None:
        self.q: Reals = np.full((n_states, n_actions), value)
        self.numerator, self.denominator = np.zeros_like(self.q), np.zeros_like(self.q)
        self.policy: Numbers = np.zeros(n_states, np.int64)

    def learn(self, episode: Sequence[Step]) -> None:
        """Learn from one episode."""
        for state, action, value, weight in returns(episode, self.policy):
            pair = state, action
            self.numerator[pair] += weight * value
            self.denominator[pair] += weight
            self.q[pair] = self.numerator[pair] / self.denominator[pair]
        self.policy = self.q.argmax(axis=1)


class ApproximateControl:
    """The second listing: a function is fitted to batches of returns.

    Args:
        values: returns `[states, actions]`, the current values of the function.
        fit: fits the function to returns, to reduce the sum of `weight * error`.
        collect: number of returns of a batch.
        keep: number of latest returns that also belong to the next batch.

    Attributes:
        policy: `[states]`, the greedy actions.

    Raises:
        ValueError: a batch would keep all of its returns.
    """

    def __init__(
        self,
        values: Callable[[], Reals],
        fit: Callable[[Sequence[Return]], None],
        collect: int,
        keep: int = 0,
    ) -> None:
        if not 0 <= keep < collect:
            raise ValueError(f"keep must be from 0 to {collect - 1}, got {keep}")
        self._values, self._fit, self._collect, self._keep = values, fit, collect, keep
        self._data: list[Return] = []
        self.policy: Numbers = values().argmax(axis=1)

    def learn(self, episode: Sequence[Step]) -> None:
        """Learn from one episode."""
        self._data += returns(episode, self.policy)
        if len(self._data) < self._collect:
            return
        self._fit(self._data)
        self._data = self._data[len(self._data) - self._keep :]
        self.policy = self._values().argmax(axis=1)
