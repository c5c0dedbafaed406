"""Monte-Carlo Softmax search, without playouts and without a prior: see `softmax_tree.py`.

    agents.make("mc-softmax", simulations=1000).act(words)
    agents.make("mc-softmax", network="cnn.safetensors", simulations=100, leaves=4).act(words)

Moves are drawn in proportion to `exp(v' / T)`. The temperature T falls with the number of
simulations, from nearly uniform to nearly greedy. The policies of Watanabe and Matsuzaki are:

- `"L-log"`: v' is ln v, T is 0.4 / 2 ** log10 n, and n counts the visits of the state;
- `"G-log"`: the same, but n counts all simulations;
- `"L-max"`, `"G-max"`: v' is v / max v, and T is 2 / 2 ** log10 n;
- `"ave"`: all moves with equal weight; `"best"`: only the best move;
- `"falling"`: v' is v / max v, and T falls linearly from 1 to 1 / n in the last of n simulations.

`"sharp"` is `"L-max"` with T = 0.05 / 2 ** log10 n: it soon ignores moves whose value is a few
percent less. Each policy can select and can back up. The first simulation adds the root, and n
includes the current simulation, which the paper leaves open: the first move is drawn with n = 2.

With `trees` the search has several trees without chance: the tile after a number of moves is drawn
once for each tree, before the search. The value of a move is then the mean over the trees.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from afterstate.agents.config import given_or_default
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.search import softmax_search, softmax_tree
from afterstate.agents.game2048.search.softmax_search import (
    BoardBatch,
    new_board_batch,
    new_leaf_batch,
)
from afterstate.agents.game2048.search.softmax_settings import TEMPERATURES, MCSoftmaxSettings
from afterstate.agents.game2048.search.softmax_tree import (
    LOG,
    MAX,
    PLAIN,
    Policy,
    Trees,
    enlarged,
    new_trees,
)
from afterstate.agents.game2048.values.ntuple_network import Network, check_network
from afterstate.envs.game2048.rules import check_words
from afterstate.envs.messages import shown
from afterstate.envs.words import Floats, Words

_MAX_STATES = 1 << 18
"""States in the trees of a batch of boards, about 200 MB."""


@runtime_checkable
class Estimator(Protocol):
    """A value function, such as a `ValueNetAgent` or a `Solution` of `exact.py`."""

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the boards."""
        ...

    def estimate(self, boards: Words) -> npt.NDArray[np.floating[Any]]:
        """Return the values `[n]` of afterstates `uint64[n]`, in points.

        Policies other than `ave` and `best` count a reward plus value below 1 as 1, so values on
        another scale, such as 0 to 1, must be multiplied.
        """
        ...


def policy(name: str, simulations: int, temperature: float | None = None) -> Policy:
    """Return a policy by its name.

    Args:
        name: one of `POLICIES`.
        simulations: number of simulations in each tree.
        temperature: temperature after one simulation; by default that of `TEMPERATURES`.
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


class SearchResult(NamedTuple):
    """The result of searches."""

    action: npt.NDArray[np.int64]  # [...]: the moves to make; -1 if none is legal
    values: Floats  # [..., 4]: reward plus value of the moves, minus infinity if illegal
    visits: npt.NDArray[np.int64]  # [..., 4]: simulations that began with each move


class MCSoftmaxAgent(Agent):
    """Plays the best move of a Monte-Carlo Softmax search.

    Several threads may search with one player, each in its own trees.

    Args:
        network: the value function: an N-tuple network, with which the whole search is compiled, or
            any object with `estimate`, which gets the afterstates of a batch of boards.
        settings: settings of the search.
    """

    def __init__(
        self, network: Network | Estimator, settings: MCSoftmaxSettings | None = None
    ) -> None:
        if isinstance(network, Network):
            check_network(network)
        self._network = network
        self._settings = given_or_default(settings, MCSoftmaxSettings)
        self.size = network.size[0], network.size[1]
        self._spare: list[Trees] = []  # the trees of the last search, while no search uses them

    @property
    def network(self) -> Network | Estimator:
        """The value function."""
        return self._network

    @property
    def settings(self) -> MCSoftmaxSettings:
        """The settings, which are fixed because the trees depend on them."""
        return self._settings

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_spare": self._spare if self.settings.reuse else []}

    def search(self, boards: Any) -> SearchResult:
        """Search board words `uint64[...]`.

        Raises:
            ValueError: not words of boards of the player's size, or the value function returns
                another number of values.
            FloatingPointError: some of these values are NaN or inf.
        """
        array = check_words(boards, *self.size)
        action, values, visits = self._search(array.reshape(-1))
        four = (*array.shape, 4)
        return SearchResult(action.reshape(array.shape), values.reshape(four), visits.reshape(four))

    def evaluate(self, boards: Any) -> Floats:
        """Return the values of the moves up, right, down and left of board words `uint64[...]`.

        Returns:
            The expected score still to come `float64[..., 4]`, minus infinity for illegal moves.
        """
        return self.search(boards).values

    def choose_actions(self, boards: Words) -> npt.NDArray[np.int8]:
        """Return the moves `int8[B]` by searches, 0 where none is legal."""
        return np.maximum(self._search(boards).action, 0).astype(np.int8)

    def choose(self, values: Floats, visits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the moves to make `[n]`, by the values and the visits `[n, 4]` of moves."""
        if self.settings.choose == "visits":  # ties by value
            visits = np.where(np.isinf(values), -1, visits)
            values = np.where(visits == visits.max(1, keepdims=True), values, -np.inf)
        best: npt.NDArray[np.int64] = values.argmax(1)
        return best

    def _search(self, boards: Words) -> SearchResult:
        """Search board words `uint64[n]`, in batches that fit into memory."""
        settings = self.settings
        size = max(1, _MAX_STATES // ((settings.trees or 1) * settings.simulations))
        if settings.reuse or isinstance(self.network, Network):  # one by one in the same trees
            size = max(1, len(boards))
        parts = [self._search_part(boards[i : i + size]) for i in range(0, len(boards), size)]
        none = SearchResult(np.empty(0, np.int64), np.empty((0, 4)), np.empty((0, 4), np.int64))
        return SearchResult(*map(np.concatenate, zip(none, *parts, strict=True)))

    def _search_part(self, boards: Words) -> SearchResult:
        """Search board words `uint64[n]` in one batch."""
        if not isinstance(self.network, Network) or self.settings.reuse:
            batch = self.grow(boards)[1]
        else:
            batch = self._batch(boards, np.zeros(len(boards), np.int64))
            trees = self._take_trees(batch.n_each)
            self._search_tables(self.network, trees, batch)
            self._spare = [trees]
        return self.result_of(batch)

    def result_of(self, batch: BoardBatch) -> SearchResult:
        """Return the result of each board of a batch that was searched, over all its trees."""
        n_each = batch.n_each
        values = batch.values.reshape(-1, n_each, 4).mean(1)
        visits = batch.visits.reshape(-1, n_each, 4).sum(1)
        action = np.where(np.isinf(values).all(1), -1, self.choose(values, visits))
        return SearchResult(action, values, visits)

    def grow(self, boards: Words) -> tuple[Trees, BoardBatch]:
        """Search board words `uint64[n]` in one batch and return the trees.

        Returns:
            The trees, valid until the next search, and the batch with the results.
        """
        trees = self._take_trees(len(boards) * (self.settings.trees or 1))
        batch = self._batch(boards, self._places(trees, boards))
        if isinstance(self.network, Network):
            self._search_tables(self.network, trees, batch)
        else:
            self._search_in_batches(self.network, trees, batch)
        self._spare = [trees]
        return trees, batch

    def _batch(self, boards: Words, firsts: npt.NDArray[np.int64]) -> BoardBatch:
        """Return boards as a batch to be searched in the trees from `firsts` on."""
        s = self.settings
        return new_board_batch(boards, firsts, s.trees or 1, s.simulations, s.seed, s.reuse)

    def _take_trees(self, n_trees: int) -> Trees:
        """Return at least `n_trees` trees, those of the last search if they suffice.

        They are taken out of `_spare`, so that no other thread uses them and an interrupted search
        does not leave them half done; after the search they are put back.
        """
        settings = self.settings
        try:
            trees = self._spare.pop()
        except IndexError:
            trees = None
        if trees is not None and settings.reuse and trees.sizes.size < n_trees:
            return enlarged(trees, n_trees)
        if trees is None or trees.sizes.size < n_trees:
            trees = new_trees(
                policy(settings.select, settings.simulations, settings.select_temperature),
                policy(settings.backup, settings.simulations, settings.backup_temperature),
                n=n_trees,
                capacity=settings.simulations * (2 if settings.reuse else 1),
                depth=settings.depth,
                fixed=settings.trees is not None,
                blend=settings.unvisited == "value",
                widening=settings.widening,
                size=self.size,
            )
        return trees

    def _places(self, trees: Trees, boards: Words) -> npt.NDArray[np.int64]:
        """Return the first tree of each board; with `reuse` the one that has the board, if any."""
        if not self.settings.reuse:
            return np.arange(len(boards)) * (self.settings.trees or 1)
        places = np.empty(len(boards), np.int64)
        taken = np.zeros(trees.sizes.size, np.bool_)
        softmax_tree.match_trees(trees, boards, places, taken)
        places[places < 0] = np.flatnonzero(~taken)[: np.count_nonzero(places < 0)]
        return places

    def _search_tables(self, network: Network, trees: Trees, batch: BoardBatch) -> None:
        """Search with the values of an N-tuple network.

        Raises:
            FloatingPointError: values are NaN or inf.
        """
        if not softmax_search.search(network, trees, batch):
            raise FloatingPointError("values of some boards are NaN or inf")

    def _search_in_batches(self, network: Estimator, trees: Trees, batch: BoardBatch) -> None:
        """Search with the values of any value function, evaluated in batches.

        Raises:
            ValueError: the value function does not return one number a board.
            FloatingPointError: values are NaN or inf.
        """
        leaves = self.settings.leaves
        waiting = new_leaf_batch(len(batch.values) * min(leaves, self.settings.simulations))
        softmax_search.begin(trees, batch)
        while True:
            n, n_afters = softmax_search.collect(trees, batch, leaves, waiting)
            if n == 0:
                break
            values = _evaluate(network, waiting.afters[:n_afters].copy())
            softmax_search.assign(trees, waiting, n, values)
        softmax_search.end(trees, batch)


def learned_temperature(player: MCSoftmaxAgent, boards: Any) -> float:
    """Return the temperature of selection that best predicts the moves of searches.

    It maximizes the likelihood of the moves that `player` makes after its searches under the
    selection policy applied to the values before any search.

        strong = agents.make("mc-softmax", simulations=1000)
        agents.make("mc-softmax", select_temperature=learned_temperature(strong, boards))

    Args:
        player: a player whose selection policy has a temperature.
        boards: some hundred words `uint64[...]` of its size, each with a legal move.

    Returns:
        The temperature after one simulation, between 0.0001 and 10.

    Raises:
        ValueError: the policy has no temperature; no boards, or one without a legal move; or the
            best temperature is at a bound, as when all searches return the greedy move.
    """
    name, words = player.settings.select, check_words(boards, *player.size).reshape(-1)
    if name in ("ave", "best"):
        raise ValueError(f"select must be a policy with a temperature, got {shown(name)}")
    first = MCSoftmaxAgent(player.network, MCSoftmaxSettings(simulations=1)).evaluate(words)
    if len(words) == 0 or np.isinf(first).all(1).any():
        raise ValueError("boards must be at least one, and each must have a legal move")
    moves = player.search(words).action
    temperatures = np.geomspace(1e-4, 10, 101)
    best = int(np.argmax([_likelihood(policy(name, 1, t), first, moves) for t in temperatures]))
    if best in (0, len(temperatures) - 1):
        bound = f"the best temperature is at the bound {temperatures[best]:g}"
        raise ValueError(f"{bound}: use more simulations or boards")
    return float(temperatures[best])


def _likelihood(policy: Policy, values: Floats, actions: npt.NDArray[np.int64]) -> float:
    """Return the log-likelihood of moves `[n]` under a policy, by the values `[n, 4]`."""
    weights, total = np.empty(4), 0.0
    for each, action in zip(values, actions, strict=True):
        softmax_tree.weigh(policy, 1, each, weights)
        total += np.log(max(weights[action] / weights.sum(), 1e-300))
    return total


def _evaluate(net: Estimator, boards: Words) -> Floats:
    """Return the values of boards, checked.

    Raises:
        ValueError: not one real number a board.
        FloatingPointError: values are NaN, inf or too large for sums.
    """
    if not boards.size:
        return np.empty(0)
    result = np.asarray(net.estimate(boards))
    if result.shape != boards.shape or np.iscomplexobj(result):
        shape = f"{result.dtype} of shape {result.shape}"
        raise ValueError(f"values must be one real number for each of {len(boards)}, got {shape}")
    values = result.astype(np.float64)
    if not (np.abs(values) < 1e300).all():
        raise FloatingPointError("values of some boards are NaN or inf")
    return values
