"""Values that learn from Monte-Carlo Softmax searches (Watanabe and Matsuzaki 2022).

    afterstate train search SETTINGS.json --out RUN --hours 1

A network has `tuples`, or the `name` of a neural network:

    {"network": {"tuples": "4x6"}, "search": {"simulations": 100, "trees": 1, "select": "falling"},
     "learner": {"learn": "paths", "paths": 5, "clip": 100}, "seed": 1}

Games are played in parallel. For each move, `mc_softmax.py` searches every board and makes the move
with the best reward plus value. Then the value function (`table_model.py` or `net_model.py`) learns
from the search trees:

- `"paths"`: the searched values of the afterstates on random paths from the root; the temperature
  of each path is drawn between 0.005 and 1 (experiment 1 of the paper);
- `"nodes"`: the searched values of all expanded afterstates of the tree (experiment 2, first part);
- `"root"`: the value of the root for the afterstate before it, which is the reward plus the value
  of the move that is made. The value is the searched one (NodeV+Reward) or that of the value
  function (EvalV+Reward); 0 if the game is over (experiment 2, second part);
- `"nothing"`: the search plays without learning, for comparison.

Searched values are computed from the values that they are targets of, so learning may diverge. A
run stops when the mean value of the searched boards exceeds the score of any game, or when a value
is NaN or inf; its last row has the last finite values.

The folder of a run has `learner.npz`, from which it is resumed and which `agents.load` reads, or
`learner.safetensors` and `net.safetensors`.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt
from numba import int64, njit, uint64, void

from afterstate.agents import files
from afterstate.agents.config import given_or_default
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.kernels import KERNEL
from afterstate.agents.game2048.learning.run_settings import SearchValueSettings
from afterstate.agents.game2048.play import Games
from afterstate.agents.game2048.search import softmax_search
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.search.softmax_search import BoardBatch
from afterstate.agents.game2048.search.softmax_settings import MCSoftmaxSettings
from afterstate.agents.game2048.search.softmax_tree import Trees
from afterstate.agents.training.run import Diverged, whole_moves
from afterstate.envs.checks import check_seed
from afterstate.envs.compiling import clock
from afterstate.envs.game2048 import batch
from afterstate.envs.game2048.games import (
    BOARD,
    EXCESS,
    RNG,
    SCORE,
    START_TILES,
    new_games,
    refresh_flags,
)
from afterstate.envs.game2048.rules import symmetries, table
from afterstate.envs.signals import uninterrupted
from afterstate.envs.words import Floats, Ints, Words, draw_word, next_random


def score_limit(size: tuple[int, int]) -> int:
    """Return a score that no game on a board of this many rows and columns exceeds.

    It is that of a full board of different tiles, all merged from tiles of 2.
    >>> score_limit((4, 4))
    3932156
    """
    n_cells = size[0] * size[1]
    return (n_cells - 1) * (4 << n_cells) - 4


PATH_TEMPERATURES = np.array([0.005, 1.0])
"""Lowest and highest temperature of a path."""


class Model(Protocol):
    """A value function that can learn."""

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the boards."""

    @property
    def suffix(self) -> str:
        """Ending of its files."""

    def estimate(self, boards: Words) -> Floats:
        """Return the values `[n]` of afterstates `uint64[n]`, in points."""

    def fit(self, afters: Words, targets: Floats, n_moves: int) -> float:
        """Move the values of afterstates toward targets; return the mean squared error before.

        Args:
            afters: `uint64[n]`.
            targets: `float64[n]`, in points.
            n_moves: number of moves made before, which may change the learning rate.
        """

    def player(self) -> Agent:
        """Return the greedy player."""

    def save(self, path: Path, arrays: files.Arrays, metadata: dict[str, Any]) -> None:
        """Write the checkpoint of a run.

        Raises:
            OSError: the file cannot be written.
            ValueError: a value is NaN or inf; the file is not changed.
        """

    def load(self, path: Path) -> tuple[files.Arrays, dict[str, Any]]:
        """Load a file of `save`; return its other arrays and its metadata."""


@njit(void(uint64[:, ::1], uint64, int64, int64), **KERNEL)
def _to_random_symmetry(games: Words, rng: Any, rows: int, cols: int) -> None:
    """Replace games by random ones of their symmetric positions."""
    n = 8 if rows == cols else 4
    for i in range(games.shape[1]):
        rng, bits = next_random(rng)
        which = np.int64(bits >> np.uint64(33)) % n
        games[BOARD, i] = symmetries(games[BOARD, i], rows, cols)[which]
        games[EXCESS, i] = symmetries(games[EXCESS, i], rows, cols)[which]
        refresh_flags(games, i, rows, cols)


class SearchValueLearner:
    """A search player whose value function learns from the searches.

    Args:
        model: the value function; it learns in place.
        search: settings of the search.
        settings: settings of learning.
        seed: seed of the games; None is 0.

    Attributes:
        seconds: wall-clock time of play and learning, without compilation.
        latest: values of the boards of the last move at which they were finite: the mean searched
            value, the mean value by the value function, and the largest searched value.
    """

    def __init__(
        self,
        model: Model,
        search: MCSoftmaxSettings | None = None,
        settings: SearchValueSettings | None = None,
        seed: int | None = None,
    ) -> None:
        self.model = model
        self.size = model.size
        self.settings = given_or_default(settings, SearchValueSettings)
        self.search = given_or_default(search, MCSoftmaxSettings, "search")
        if self.search.reuse:
            wanted = "reuse must be false: reused trees have values from before the update"
            raise ValueError(f"{wanted}, got true")
        self.n_moves = self.n_games = 0
        self.seconds = 0.0
        self.latest: dict[str, float] = {}
        # The search with an N-tuple network is compiled.
        self._agent = MCSoftmaxAgent(getattr(model, "network", model), self.search)
        n = self.settings.games
        self._games = new_games(n)
        rng = np.random.default_rng(check_seed(seed) or 0)
        self._games[RNG] = [draw_word(rng) for _ in range(n)]
        batch.start_all(self._games, np.ones(n, np.bool_), START_TILES, *self.size)
        self._afters = np.zeros(n, np.uint64)  # before the boards; 0 for new games
        self._lengths = np.zeros(n, np.int64)
        self._squares = 0.0  # sum of squared errors since the last report
        self._n_errors = 0
        self._rng = np.uint64(draw_word(rng))
        self._diverged = False
        self._ended: list[npt.NDArray[np.int64]] = []  # not returned yet, `[n, 3]` each

    @property
    def suffix(self) -> str:
        """Ending of its files, which are the model's."""
        return self.model.suffix

    def learn(self, n_moves: float) -> Games:
        """Play and learn at least `n_moves` moves, one in each game at a time.

        Returns:
            The games that ended.

        Raises:
            ValueError: `n_moves` is not a whole number >= 1.
            Diverged: the values diverged.
        """
        start, end = clock(), self.n_moves + whole_moves(n_moves)
        try:
            while self.n_moves < end:
                self._move()
        finally:
            self.seconds += clock() - start
        return self.ended()

    def ended(self) -> Games:
        """Return the games that have ended and were not returned yet, such as before Ctrl-C."""
        ended, self._ended = [np.empty((0, 3), np.int64), *self._ended], []
        return Games(*np.concatenate(ended).T)

    def _move(self) -> None:
        """Make a move in all games, and learn."""
        boards = batch.board_words(self._games, *self.size)
        try:
            trees, order = self._agent.grow(boards)
        except FloatingPointError:
            self._stop()
        result = self._agent.result_of(order)
        actions, over = np.maximum(result.action, 0), result.action < 0
        moves = softmax_search.root_moves(trees, order, actions)
        searched = np.where(over, 0.0, result.values[np.arange(len(boards)), actions])
        rewards, values = (np.where(over, 0.0, moves[name]) for name in ("reward", "net"))
        self._record(searched, rewards + values)
        with uninterrupted():  # a move that is learned from must also be made
            if self.settings.learn == "root":
                self._learn(*self._root_targets(searched, rewards, values))
            else:
                self._learn(*self._tree_targets(trees, order))
            self._ended.append(self._step(actions, over, moves["after"]))

    def _tree_targets(self, trees: Trees, order: BoardBatch) -> tuple[Words, Floats, Floats]:
        """Return the afterstates to learn, their targets and their current values, `[n]` each."""
        learn, paths, n = self.settings.learn, self.settings.paths, 0
        space = len(order.values) * self.search.simulations * (paths if learn == "paths" else 1)
        afters, values = np.empty(space, np.uint64), np.empty((space, 2))
        if learn == "paths":
            n = softmax_search.write_paths(trees, order, paths, PATH_TEMPERATURES, afters, values)
        elif learn == "nodes":
            n = softmax_search.write_nodes(trees, order, self.settings.visits, afters, values)
        return afters[:n], values[:n, 0], values[:n, 1]

    def _root_targets(
        self, searched: Floats, rewards: Floats, values: Floats
    ) -> tuple[Words, Floats, Floats]:
        """Return the same for the afterstates before the roots.

        Args:
            searched: searched values of the moves that are made, rewards included, `[n]`.
            rewards: rewards of these moves.
            values: values of their afterstates by the value function.
        """
        has_after, targets = self._afters != 0, searched
        if self.settings.root == "valued":
            targets = rewards + values
        elif self.settings.reward_twice:
            targets = searched + rewards
        afters = self._afters[has_after]
        current = self.model.estimate(afters) if self.settings.clip else np.empty(0)
        return afters, targets[has_after], current

    def _learn(self, afters: Words, targets: Floats, values: Floats) -> None:
        """Fit the value function.

        Raises:
            Diverged: the error is NaN or inf.
        """
        if self.settings.clip is not None:
            targets = np.clip(targets, values - self.settings.clip, values + self.settings.clip)
        if len(afters):
            loss = self.model.fit(afters, np.ascontiguousarray(targets), self.n_moves)
            if not math.isfinite(loss):
                self._stop()
            self._squares += len(afters) * loss
            self._n_errors += len(afters)

    def _record(self, searched: Floats, valued: Floats) -> None:
        """Record the values of boards by the search and by the value function.

        Raises:
            Diverged: see `_check`.
        """
        latest = {
            "searched": round(float(searched.mean()), 1),
            "valued": round(float(valued.mean()), 1),
            "largest": round(float(np.abs(searched).max()), 1),
        }
        if all(map(math.isfinite, latest.values())):
            self.latest = latest
        self._check(searched)

    def _check(self, values: Floats) -> None:
        """Check the values of boards.

        Raises:
            Diverged: their mean exceeds the score of any game, or is NaN or inf.
        """
        mean, limit = float(np.abs(values).mean()), score_limit(self.size)
        if not mean <= limit:
            self._stop(f"the mean value is {mean:,.0f} points, and no game has more than {limit:,}")

    def _stop(self, reason: str = "some are NaN or inf") -> NoReturn:
        """Raise Diverged."""
        self._diverged = True
        raise Diverged(f"values diverged after {self.n_moves:,} moves: {reason}", self.latest)

    def _step(
        self, actions: Ints, over: npt.NDArray[np.bool_], afters: Words
    ) -> npt.NDArray[np.int64]:
        """Make a move in all games; return scores, moves and largest tiles of those that ended."""
        games, (rows, cols) = self._games, self.size
        tiles = batch.max_tiles(games[:, over])
        ended = np.stack((games[SCORE, over].astype(np.int64), self._lengths[over], tiles), 1)
        batch.play_all(games, actions, over, START_TILES, table(rows, cols), rows, cols)
        if self.settings.turn:
            rng, bits = next_random(self._rng)
            self._rng = np.uint64(rng)  # kernels return words as integers
            _to_random_symmetry(games, np.uint64(bits), rows, cols)
        self._afters = np.where(over, np.uint64(0), afters)
        self._lengths = np.where(over, 0, self._lengths + 1)
        self.n_moves += int((~over).sum())
        self.n_games += len(ended)
        return ended

    def loss(self) -> float:
        """Return the root-mean-square error since the last call, in points."""
        mean = self._squares / self._n_errors if self._n_errors else math.nan
        self._squares = 0.0
        self._n_errors = 0
        return round(math.sqrt(mean), 1)

    def save(self, path: str | Path) -> None:
        """Write the checkpoint of a run; if the values diverged, the file is not changed.

        Raises:
            OSError: the file cannot be written.
            Diverged: the values diverged, also in weights that the games do not reach.
        """
        if self._diverged:
            return
        self._check(self.model.estimate(self._afters))
        state = {"games": self._games.T, "afters": self._afters, "lengths": self._lengths}
        metadata: dict[str, Any] = {
            "n_moves": self.n_moves,
            "n_games": self.n_games,
            "seconds": round(self.seconds, 1),
            "rng": int(self._rng),
            "search": asdict(self.search),
            "learner": asdict(self.settings),
        }
        try:
            self.model.save(Path(path), state, metadata)
        except ValueError:  # a weight is NaN or inf
            self._stop()

    def resume(self, path: str | Path) -> None:
        """Continue from a file of `save`.

        Raises:
            OSError: the file cannot be read.
            ValueError: another file, a damaged one, or one of another network or number of games.
        """
        arrays, metadata = self.model.load(Path(path))
        try:
            for name in ("games", "afters", "lengths"):
                own = self._games.T if name == "games" else getattr(self, f"_{name}")
                if arrays[name].shape != own.shape:
                    raise ValueError(f"it has {len(arrays[name])} games, not {len(own)}")
                own[:] = arrays[name].view(own.dtype)
            self.n_moves, self.n_games = int(metadata["n_moves"]), int(metadata["n_games"])
            self.seconds = float(metadata["seconds"])
            self._rng = np.uint64(metadata["rng"])
            self._ended = []
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path} does not fit the settings: {error}") from error
