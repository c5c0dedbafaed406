"""Settings of Monte-Carlo Softmax search, which are read without loading kernels."""

from __future__ import annotations

from typing import Literal, get_args

from afterstate.agents.config import Count, Positive, Share, Whole, settings

TEMPERATURES = {
    **dict.fromkeys(("L-log", "G-log"), 0.4),
    **dict.fromkeys(("L-max", "G-max"), 2.0),
    "falling": 1.0,
    "sharp": 0.05,
}
"""The temperatures of policies after one simulation."""

PolicyName = Literal["L-log", "G-log", "L-max", "G-max", "ave", "best", "falling", "sharp"]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
"""The names of policies, those of Watanabe and Matsuzaki first."""

_MAX_SIMULATIONS = 10**7
"""Simulations in all trees of a board, of about a kilobyte each."""


@settings
class MCSoftmaxSettings:
    """Settings of the search.

    Raises:
        ValueError: a wrong setting, or some that exclude each other.
    """

    simulations: Count = 100
    """Simulations in each tree. The first adds the root, so 1 is the greedy player. A simulation
    takes about 1 kB, with `reuse` 2 kB."""
    select: PolicyName = "sharp"
    """Policy that selects moves. Best in Watanabe and Matsuzaki: `L-max`. All but `ave` and `best`
    count a reward plus value below 1 as 1."""
    backup: PolicyName = "best"
    """Policy by which the value of a state is backed up."""
    select_temperature: Positive | None = None
    """Temperature of selection after one simulation; by default that of the policy."""
    backup_temperature: Positive | None = None
    """Temperature of backup after one simulation; by default that of the policy."""
    trees: Count | None = None
    """Number of trees without chance (determinized: a move has one drawn outcome); by default one
    tree with chance. All trees of a board have at most 10 million simulations together."""
    unvisited: Literal["outcomes", "value"] = "value"
    """Value of an afterstate's outcomes that are not in the tree: the mean of those that are
    (`outcomes`, as in Watanabe and Matsuzaki), or the value function's value of the afterstate
    (`value`), so that one rare tile counts for no more than its probability. Without effect in
    trees without chance."""
    widening: Share = 1.0
    """Progressive widening: after n visits an afterstate has at most n to this power of outcomes,
    rounded up. 1: no limit. Only for trees with chance."""
    reuse: bool = False
    """Keep the part of the tree below the board of the next search, which is the same board or the
    one after a move and a tile. A tree holds twice the simulations of a search and gets no more."""
    leaves: Count = 1
    """States added to a tree before their moves are evaluated in one batch. Without effect for
    N-tuple networks."""
    depth: Count | None = None
    """Largest depth in moves, 1 being greedy; by default no limit."""
    choose: Literal["value", "visits"] = "value"
    """Move that is made: the one with the best reward plus value, or with the most visits."""
    seed: Whole = 0
    """Seed of the tiles. The same seed, board and settings give the same search unless `reuse`."""

    def __post_init__(self) -> None:
        n = (self.trees or 1) * self.simulations
        if n > _MAX_SIMULATIONS:
            memory = f"{n:,}, which would take {n / 1e6:,.0f} GB"
            raise ValueError(f"trees x simulations must be <= {_MAX_SIMULATIONS:,}, got {memory}")
        if self.trees is not None and self.reuse:
            raise ValueError("trees (without chance) exclude reuse: they lack the tile of the game")
        if self.trees is not None and self.widening < 1:
            raise ValueError("trees (without chance) exclude widening: moves have one outcome")
        for name in ("select", "backup"):
            value = getattr(self, name)
            if value == "falling" and self.reuse:
                raise ValueError(f"{name}='falling' excludes reuse: it needs new trees")
            if value in ("ave", "best") and getattr(self, f"{name}_temperature") is not None:
                raise ValueError(f"{name}_temperature must be None for {name}={value!r}")
