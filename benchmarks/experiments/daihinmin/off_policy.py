"""Off-policy Monte-Carlo control, by tables and by function approximation.

The two listings of Kuwabara and Hoki (2018, section 2.2; the first is that of Sutton and Barto): a
behaviour policy plays episodes, and what follows its last deviation from the greedy policy tells
what the greedy policy is worth. The study's own learning is the second with all weights 1, see
`learning.py`; here they are whole, for any task with numbered states and actions.
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
    reward: float  # that followed the action
    probability: float  # with which the behaviour policy took this action there


class Return(NamedTuple):
    """What an action at a state brought."""

    state: int
    action: int
    value: float  # the sum of the rewards from there on
    weight: float  # how much likelier the greedy policy is to go on like this


def returns(episode: Sequence[Step], policy: Numbers) -> list[Return]:
    """The returns of an episode that tell of a greedy policy.

    These are of the pairs of state and action from the last step on at which the episode deviates
    from the policy, each at its first occurrence there. (From the first step on if it never does.)

    Args:
        episode: its steps.
        policy: `[states]`, the action of the greedy policy at each state.

    Raises:
        ValueError: an action was taken that the behaviour policy never takes.
    """
    if any(step.probability <= 0 for step in episode):
        raise ValueError("the behaviour policy must take each of its actions with some probability")
    deviations = [t for t, step in enumerate(episode) if step.action != policy[step.state]]
    found: dict[tuple[int, int], Return] = {}
    value, weight = 0.0, 1.0
    for t in range(len(episode) - 1, max(deviations, default=0) - 1, -1):
        state, action, reward, probability = episode[t]
        value += reward
        found[state, action] = Return(state, action, value, weight)  # an earlier one replaces it
        weight /= probability
    return list(found.values())[::-1]


class TabularControl:
    """The first listing: means of returns, weighted, and the policy that is greedy by them.

    Args:
        n_states: how many states there are.
        n_actions: how many actions each has.
        value: of all actions at first.

    Attributes:
        q: `[states, actions]`, the values: `numerator / denominator` where there is a return.
        policy: `[states]`, the greedy actions; of equals the first.
    """

    def __init__(self, n_states: int, n_actions: int, value: float = 0.0) -> None:
        self.q: Reals = np.full((n_states, n_actions), value)
        self.numerator, self.denominator = np.zeros_like(self.q), np.zeros_like(self.q)
        self.policy: Numbers = np.zeros(n_states, np.int64)

    def learn(self, episode: Sequence[Step]) -> None:
        """Learns from one episode."""
        for state, action, value, weight in returns(episode, self.policy):
            pair = state, action
            self.numerator[pair] += weight * value
            self.denominator[pair] += weight
            self.q[pair] = self.numerator[pair] / self.denominator[pair]
        self.policy = self.q.argmax(axis=1)


class ApproximateControl:
    """The second listing: a function is fitted, from time to time, to the returns collected.

    Args:
        values: gives `[states, actions]`, the values by the function as it is.
        fit: adjusts the function to returns, so as to lessen the sum of `weight * error`.
        collect: how many returns are collected before each adjustment.
        keep: how many of them, the latest, are kept for the next one.

    Attributes:
        policy: `[states]`, the greedy actions.
    """

    def __init__(
        self,
        values: Callable[[], Reals],
        fit: Callable[[Sequence[Return]], None],
        collect: int,
        keep: int = 0,
    ) -> None:
        if not 0 <= keep < collect:
            raise ValueError(f"of {collect} returns 0 to {collect - 1} can be kept, not {keep}")
        self._values, self._fit, self._collect, self._keep = values, fit, collect, keep
        self._data: list[Return] = []
        self.policy: Numbers = values().argmax(axis=1)

    def learn(self, episode: Sequence[Step]) -> None:
        """Learns from one episode."""
        self._data += returns(episode, self.policy)
        if len(self._data) < self._collect:
            return
        self._fit(self._data)
        self._data = self._data[len(self._data) - self._keep :]
        self.policy = self._values().argmax(axis=1)
