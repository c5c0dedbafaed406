"""Monte-Carlo Softmax search, which needs no playouts and no prior: see `softmax_tree.py`.

    agents.make("mc-softmax", simulations=1000).act(words)
    agents.make("mc-softmax", network="cnn.safetensors", simulations=100, leaves=4).act(words)

Moves are drawn in proportion to `exp(v' / T)`, at first nearly alike and the more simulations there
have been the more often the best ones. The policies are those of Watanabe and Matsuzaki:

- `"L-log"`: v' is ln v, T is 0.4 / 2 ** log10 n, and n counts the simulations that came to a state;
- `"G-log"`: the same, but n counts all simulations;
- `"L-max"`, `"G-max"`: v' is v / max v, and T is 2 / 2 ** log10 n;
- `"ave"`: all moves alike; `"best"`: the best move alone;
- `"falling"`: v' is v / max v, and T falls evenly from 1 in the course of the search, to 1 / n in
  the last of n simulations.

`"sharp"` is `"L-max"` with T = 0.05 / 2 ** log10 n: it soon leaves moves alone that are worth a few
percent less. Any of them can select, and any can back up. The first simulation is that which adds
the root, and n counts the one that is being made, of which the study says nothing: the first move
is drawn with n = 2. With `trees` the search has several trees,
each without chance: a tile after so many moves is drawn once in a tree, before the search. The
value of a move is then the mean over the trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from afterstate.agents.config import check_fields
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.search import softmax_search, softmax_tree
from afterstate.agents.game2048.search.softmax_search import Order, new_order, new_question
from afterstate.agents.game2048.search.softmax_tree import (
    LOG,
    MAX,
    PLAIN,
    Policy,
    Trees,
    Values,
    grown,
    new_trees,
)
from afterstate.agents.game2048.values.ntuple import Network
from afterstate.envs.game2048.rules import check_words
from afterstate.envs.words import Words

TEMPERATURES = {
    **dict.fromkeys(("L-log", "G-log"), 0.4),
    **dict.fromkeys(("L-max", "G-max"), 2.0),
    "falling": 1.0,
    "sharp": 0.05,
}
"""The temperatures of policies after one simulation."""

POLICIES = ("L-log", "G-log", "L-max", "G-max", "ave", "best", "falling", "sharp")
"""The names of policies, those of the study first."""

_ROOM = 1 << 18
"""States in the trees of boards that are searched side by side, about 200 MB."""


@runtime_checkable
class Estimator(Protocol):
    """What values afterstates, such as a `ValueNetAgent` or a `Solution` of `exact.py`."""

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the boards."""
        ...

    def estimate(self, boards: Words) -> npt.NDArray[np.floating[Any]]:
        """The values `[n]` of afterstates `uint64[n]`, in points."""
        ...


@dataclass(frozen=True)
class Settings:
    """How to search.

    Raises:
        ValueError: a wrong setting, or some that do not go together.
    """

    simulations: int = 100
    """In each tree. The first adds the root, so that a single one is the greedy player. A tree
    takes about a kilobyte each, with `reuse` two."""
    select: str = "sharp"
    """The policy that draws moves: one of `POLICIES`. In the study `"L-max"` did best."""
    backup: str = "best"
    """The policy by which a state has its value."""
    select_temperature: float | None = None
    """The temperature of selection after one simulation; by default that of `TEMPERATURES`. It can
    be learned: see `learned_temperature`."""
    backup_temperature: float | None = None
    """The same of backup."""
    trees: int | None = None
    """How many trees without chance; by default there is one, with chance. All trees together have
    10 million simulations at most."""
    unseen: str = "value"
    """What stands for the outcomes of an afterstate that are not in the tree: the mean of those
    that are (`"outcomes"`, the study's), or what the value function says of the afterstate
    (`"value"`): one rare tile then counts for no more than its chance. It changes nothing in trees
    without chance, where an afterstate has a single outcome."""
    widening: float = 1.0
    """After n visits an afterstate has at most n to this power of outcomes, rounded up. 1: all that
    chance draws; less than that, and those that are in the tree are drawn more often. For trees
    with chance."""
    reuse: bool = False
    """Whether the next search goes on with what the tree knows of its board, which is the same or
    comes after a move and a tile. A tree has room for twice the simulations of a search, and gets
    no more of them than that."""
    leaves: int = 1
    """How many states are added to a tree before their moves are valued together. Tables are looked
    up at once, whatever this is."""
    depth: int | None = None
    """How many moves it looks ahead at most, 1 being greedy; by default there is no limit."""
    choose: str = "value"
    """The move that is made: that with the best reward plus value, or with the most `"visits"`."""
    seed: int = 0
    """Of chance. The same seed, board and settings give the same search, if `reuse` is off."""

    def __post_init__(self) -> None:
        check_fields(self, _RANGES, _CHOICES)
        n = (self.trees or 1) * self.simulations
        if n > _MOST:
            told = f"got {n:,}, which would take {n / 1e6:,.0f} GB"
            raise ValueError(f"trees times simulations are at most {_MOST:,}, {told}")
        if self.trees is not None and self.reuse:
            raise ValueError("trees without chance have no tile of the game in them: no reuse")
        if self.trees is not None and self.widening < 1:
            raise ValueError("trees without chance have one outcome of each move: no widening")
        for name in ("select", "backup"):
            told = getattr(self, name)
            if told == "falling" and self.reuse:
                raise ValueError(f"{name} 'falling' is for searches that begin anew: no reuse")
            if told in ("ave", "best") and getattr(self, f"{name}_temperature") is not None:
                raise ValueError(f"{name}_temperature is for other policies than {told!r}")


_MOST = 10**7
"""Simulations in all trees of a board, of about a kilobyte each."""

_RANGES = {
    "simulations": "from 1 to 10 million",
    **dict.fromkeys(("trees", "leaves", "depth"), "from 1 on"),
    **dict.fromkeys(("select_temperature", "backup_temperature"), "above 0"),
    "widening": "from 0 to 1",
    "seed": "from 0 on",
}

_CHOICES = {
    "select": POLICIES,
    "backup": POLICIES,
    "unseen": ("outcomes", "value"),
    "choose": ("value", "visits"),
}


def policy(name: str, simulations: int, temperature: float | None = None) -> Policy:
    """A policy by its name.

    Args:
        name: one of `POLICIES`.
        simulations: how many there will be in a tree.
        temperature: after one simulation; by default that of `TEMPERATURES`.
    """
    if name == "ave":
        return Policy(PLAIN, False, np.array([np.inf]))
    if name == "best":
        return Policy(PLAIN, False, np.array([0.0]))
    n = np.arange(2 * simulations + 2)
    start = TEMPERATURES[name] if temperature is None else temperature
    if name == "falling":
        return Policy(MAX, True, np.maximum(0.0, start * (1 - (n - 1) / simulations)))
    scale = LOG if name.endswith("log") else MAX
    return Policy(scale, name[0] == "G", start / 2 ** np.log10(np.maximum(n, 1)))


class Found(NamedTuple):
    """What searches found."""

    values: Values  # [..., 4]: reward plus value of the moves, minus infinity if illegal
    visits: npt.NDArray[np.int64]  # [..., 4]: how many simulations began with each of them

    @classmethod
    def of(cls, order: Order) -> Found:
        """What was found for the boards of an order, in all trees of each together."""
        n_each = order.n_each
        values, visits = order.values.reshape(-1, n_each, 4), order.visits.reshape(-1, n_each, 4)
        return cls(values.mean(1), visits.sum(1))


class MCSoftmaxAgent(Agent):
    """Plays the move that a Monte-Carlo Softmax search finds best.

    Args:
        net: values afterstates: a network of tables, with which all is compiled, or anything that
            has `estimate`; that is asked for the afterstates of all boards that are searched
            together.
        settings: how to search.

    Several threads may search at a time, each in trees of its own.
    """

    def __init__(self, net: Network | Estimator, settings: Settings | None = None) -> None:
        self._net, self._settings = net, settings or Settings()
        self.size = net.size[0], net.size[1]
        self._spare: list[Trees] = []  # the trees of the last search, while nobody has them

    @property
    def network(self) -> Network | Estimator:
        """What values afterstates."""
        return self._net

    @property
    def settings(self) -> Settings:
        """How it searches. The trees are made for them, so others take another player."""
        return self._settings

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_spare": self._spare if self.settings.reuse else []}

    def search(self, boards: Any) -> Found:
        """Searches board words `uint64[...]`.

        Raises:
            ValueError: not words of boards of the player's size, or not as many values of
                afterstates as were asked for.
            FloatingPointError: some of these values are no numbers.
        """
        array = check_words(boards, *self.size)
        values, visits = self._search(array.reshape(-1))
        return Found(values.reshape(*array.shape, 4), visits.reshape(*array.shape, 4))

    def evaluate(self, boards: Any) -> Values:
        """The values of the moves up, right, down and left of board words `uint64[...]`.

        Returns:
            Expected score still to come `float64[..., 4]`, minus infinity where a move is illegal.
        """
        return self.search(boards).values

    def _act(self, boards: Words) -> npt.NDArray[np.int8]:
        return self.choose(self._search(boards)).astype(np.int8)

    def choose(self, found: Found) -> npt.NDArray[np.int64]:
        """The moves `[n]` that are to be made, by what was found for `n` boards."""
        values = found.values
        if self.settings.choose == "visits":  # and by their values among as many
            visits = np.where(np.isinf(values), -1, found.visits)
            values = np.where(visits == visits.max(1, keepdims=True), values, -np.inf)
        best: npt.NDArray[np.int64] = values.argmax(1)
        return best

    def _search(self, boards: Words) -> Found:
        """Searches board words `uint64[n]`, as many side by side as there is room for."""
        how = self.settings
        size = max(1, _ROOM // ((how.trees or 1) * how.simulations))
        if how.reuse or isinstance(self.network, Network):  # of a table, one after the other
            size = max(1, len(boards))
        parts = [self._search_part(boards[i : i + size]) for i in range(0, len(boards), size)]
        values = np.concatenate([np.empty((0, 4)), *(part.values for part in parts)])
        visits = np.concatenate([np.empty((0, 4), np.int64), *(part.visits for part in parts)])
        return Found(values, visits)

    def _search_part(self, boards: Words) -> Found:
        """Searches board words `uint64[n]`."""
        if not isinstance(self.network, Network) or self.settings.reuse:
            order = self.grow(boards)[1]
        else:  # one after the other, in the same trees
            order = self._order(boards, np.zeros(len(boards), np.int64))
            trees = self._room(order.n_each)
            self._search_tables(self.network, trees, order)
            self._spare = [trees]
        return Found.of(order)

    def grow(self, boards: Words) -> tuple[Trees, Order]:
        """Searches board words `uint64[n]` side by side, and shows the trees.

        Returns:
            The trees, as they are until the next search, and what was found.
        """
        trees = self._room(len(boards) * (self.settings.trees or 1))
        order = self._order(boards, self._places(trees, boards))
        if isinstance(self.network, Network):
            self._search_tables(self.network, trees, order)
        else:
            self._search_together(self.network, trees, order)
        self._spare = [trees]
        return trees, order

    def _order(self, boards: Words, firsts: npt.NDArray[np.int64]) -> Order:
        """Boards that are to be searched in the trees from `firsts` on."""
        how = self.settings
        return new_order(boards, firsts, how.trees or 1, how.simulations, how.seed, how.reuse)

    def _room(self, n_trees: int) -> Trees:
        """Room for so many trees: that of the last search, if it is enough.

        It is taken, for other threads and for the case that the search is interrupted, and is to be
        put back after the search.
        """
        how, net = self.settings, self.network
        try:
            trees = self._spare.pop()
        except IndexError:
            trees = None
        if trees is not None and how.reuse and trees.sizes.size < n_trees:
            return grown(trees, n_trees)
        if trees is None or trees.sizes.size < n_trees:
            trees = new_trees(
                policy(how.select, how.simulations, how.select_temperature),
                policy(how.backup, how.simulations, how.backup_temperature),
                n=n_trees,
                capacity=how.simulations * (2 if how.reuse else 1),
                depth=how.depth,
                fixed=how.trees is not None,
                blend=how.unseen == "value",
                widening=how.widening,
                size=self.size,
                n_entries=net.n_entries if isinstance(net, Network) else 0,
            )
        return trees

    def _places(self, trees: Trees, boards: Words) -> npt.NDArray[np.int64]:
        """The first tree of each board; with `reuse` that which knows the board, if any does."""
        if not self.settings.reuse:
            return np.arange(len(boards)) * (self.settings.trees or 1)
        places = np.empty(len(boards), np.int64)
        taken = np.zeros(trees.sizes.size, np.bool_)
        softmax_tree.follow(trees, boards, places, taken)
        places[places < 0] = np.flatnonzero(~taken)[: np.count_nonzero(places < 0)]
        return places

    def _search_tables(self, net: Network, trees: Trees, order: Order) -> None:
        """Searches with the values of a network of tables.

        Raises:
            FloatingPointError: values are no numbers.
        """
        if not softmax_search.search(net, trees, order):
            raise FloatingPointError("the values of some boards are no numbers")

    def _search_together(self, net: Estimator, trees: Trees, order: Order) -> None:
        """Searches with values that are asked for together.

        Raises:
            ValueError: an answer is not one number a board.
            FloatingPointError: values are no numbers.
        """
        how = self.settings
        question = new_question(len(order.values) * min(how.leaves, how.simulations))
        softmax_search.begin(trees, order)
        while True:
            n, n_asked = softmax_search.gather(trees, order, how.leaves, question)
            if n == 0:
                break
            values = _answer(net, question.afters[:n_asked].copy()) if n_asked else np.empty(0)
            softmax_search.give(trees, question, n, values)
        softmax_search.end(trees, order)


def learned_temperature(player: MCSoftmaxAgent, boards: Any) -> float:
    """The temperature of selection that best foresees what searches find.

    The policy draws a move by what the value function says of the moves before any search; with
    this temperature the moves that `player` makes after its searches are the likeliest.

        strong = agents.make("mc-softmax", simulations=1000)
        agents.make("mc-softmax", select_temperature=learned_temperature(strong, boards))

    Args:
        player: searches, and selects by a policy that has a temperature.
        boards: words `uint64[...]` of its size, in each of which a move is legal; some hundred.

    Returns:
        The temperature after one simulation, between 0.0001 and 10.

    Raises:
        ValueError: the policy has no temperature; there is no board or one without a move; or no
            temperature in this range is the best, as when searches find what is greedy anyway.
    """
    name, words = player.settings.select, check_words(boards, *player.size).reshape(-1)
    if name in ("ave", "best"):
        raise ValueError(f"{name!r} has no temperature that could be learned")
    first = MCSoftmaxAgent(player.network, Settings(simulations=1)).evaluate(words)
    if len(words) == 0 or np.isinf(first).all(1).any():
        raise ValueError("temperatures are learned from boards, in each of which a move is legal")
    made = player.choose(player.search(words))
    tried = np.geomspace(1e-4, 10, 101)
    best = int(np.argmax([_likelihood(policy(name, 1, t), first, made) for t in tried]))
    if best in (0, len(tried) - 1):
        way = "hotter" if best else "colder"
        told = f"the {way} the policy, the better it foresees what these searches find"
        raise ValueError(f"{told}: take more simulations or boards")
    return float(tried[best])


def _likelihood(policy: Policy, values: Values, actions: npt.NDArray[np.int64]) -> float:
    """The logarithm of the probability that a policy draws moves `[n]`, of boards by `values`."""
    weights, total = np.empty(4), 0.0
    for each, action in zip(values, actions, strict=True):
        softmax_tree.weigh(policy, 1, each, weights)
        total += np.log(max(weights[action] / weights.sum(), 1e-300))
    return total


def _answer(net: Estimator, boards: Words) -> Values:
    """The values of boards, checked.

    Raises:
        ValueError: not one real number a board.
        FloatingPointError: values are no numbers, or beyond all that can be added up.
    """
    found = np.asarray(net.estimate(boards))
    if found.shape != boards.shape or np.iscomplexobj(found):
        shape = f"{found.dtype} of shape {found.shape}"
        raise ValueError(f"{len(boards)} boards have as many real numbers as values, got {shape}")
    values = found.astype(np.float64)
    if not (np.abs(values) < 1e300).all():
        raise FloatingPointError("the values of some boards are no numbers")
    return values
