"""Values that learn from Monte-Carlo Softmax searches (Watanabe and Matsuzaki 2021).

    python -m afterstate.agents.training search SETTINGS.json --out RUN --hours 1

A network has `tuples`, or the `name` of a neural network:

    {"network": {"tuples": "4x6"}, "search": {"simulations": 100, "trees": 1, "select": "falling"},
     "learner": {"learn": "paths", "paths": 5, "clip": 100}, "seed": 1}

Games are played in parallel. In each move of all of them every board is searched (`mc_softmax.py`),
the move with the best reward plus value is made, and the value function learns from the trees:

- `"paths"`: the searched values of the afterstates on random paths from the root, once per path, by
  a temperature that is drawn for each path between 0.005 and 1 (experiment 1 of the paper);
- `"nodes"`: the searched values of all afterstates with outcomes in the tree (experiment 2, first
  part);
- `"root"`: the afterstate before the root learns the root's value, which is reward plus value of
  the move that is made; the value is the searched one (NodeV+Reward) or that of the value function
  (EvalV+Reward). The value of a game that is over is 0 (experiment 2, second part);
- `"nothing"`: the search plays, for comparison.

Searched values are targets of the values that they are made of, so learning may diverge. A run
stops when the mean value of the searched boards exceeds the points of any game, or a value is NaN
or inf; its last row has the last finite values.

The folder of a run has `learner.npz`, from which it is resumed and which `agents.load` reads, or
`learner.safetensors` and `net.safetensors`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import asdict, field, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NoReturn, Protocol

import numpy as np
import numpy.typing as npt
from numba import float64, int64, njit, uint64, void
from pydantic import Field

from afterstate.agents import files
from afterstate.agents.config import Amount, Count, Positive, Rate, Whole, check_names, settings
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.kernels import KERNEL
from afterstate.agents.game2048.learning.ntuple_learner import DEFAULT_RATES, NetworkSettings
from afterstate.agents.game2048.learning.td import UPDATE, Update, update
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.search import mc_softmax, softmax_search
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent, SearchResult
from afterstate.agents.game2048.search.softmax_search import BoardBatch
from afterstate.agents.game2048.search.softmax_tree import Trees, Values
from afterstate.agents.game2048.values import ntuple
from afterstate.agents.game2048.values.ntuple import (
    NETWORK,
    Indices,
    Network,
    NTupleAgent,
    estimate,
    look_up,
    total,
)
from afterstate.agents.training.commands import uninterrupted
from afterstate.agents.training.fitting import Fitting
from afterstate.agents.training.folder import RunFolder
from afterstate.agents.training.run import (
    EVALUATION_SEED,
    Diverged,
    Evaluation,
    MoveTraining,
    NeuralOptions,
    summary,
)
from afterstate.envs.game2048 import games as records
from afterstate.envs.game2048.games import BOARD, EXCESS, FLAGS, RNG, SCORE
from afterstate.envs.game2048.rules import symmetries, table
from afterstate.envs.words import Words, next_random, seed_word


def most(size: tuple[int, int]) -> int:
    """Return the points that no game on a board of rows and columns can exceed.

    The board is full of one tile of each kind, made of 2s as far as that goes.

    >>> most((4, 4))
    3932156
    """
    n_cells = size[0] * size[1]
    return (n_cells - 1) * (4 << n_cells) - 4


PATH_TEMPERATURES = np.array([0.005, 1.0])
"""Range of the temperature of a path."""


@settings
class Settings:
    """Settings of learning from searches.

    Raises:
        ValueError: a wrong setting, or settings that do not go together.
    """

    games: Count = 64
    """Games played in parallel."""
    learn: Literal["paths", "nodes", "root", "nothing"] = "root"
    """Afterstates that are learned: on random paths, all inner nodes, or the one before the
    root."""
    paths: Count = 1
    """Paths in each tree."""
    visits: Count = 1
    """Least number of simulations through a node that is learned."""
    root: Literal["searched", "valued"] = "searched"
    """Value in the root's target: by the search (NodeV), or by the value function (EvalV)."""
    reward_twice: bool = False
    """Add the reward to a searched value of the root, which includes it already: another reading
    of NodeV+Reward."""
    clip: Positive | None = None
    """Largest difference of a target from the present value, in points."""
    turn: bool = True
    """Turn boards to one of the eight symmetric positions after each move, at random. It makes no
    difference to tables that are symmetric themselves."""

    def __post_init__(self) -> None:
        if self.reward_twice and (self.learn, self.root) != ("root", "searched"):
            raise ValueError("reward_twice is for learning the searched value of the root")
        for name, learn, default in _OF_ONE_WAY:
            if self.learn != learn and getattr(self, name) != default:
                raise ValueError(f"{name} is for learning {learn!r}, not {self.learn!r}")
        if self.clip is not None and self.learn == "nothing":
            raise ValueError("clip is for learning, and this learns nothing")


_OF_ONE_WAY = (("paths", "paths", 1), ("visits", "nodes", 1), ("root", "root", "searched"))
"""Settings that are for one way of learning alone, the way, and their defaults."""


class Model(Protocol):
    """A value function that can learn."""

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the boards."""
        ...

    def estimate(self, boards: Words) -> Values:
        """Return the values `[n]` of afterstates `uint64[n]`, in points."""
        ...

    def fit(self, afters: Words, targets: Values, n_moves: int) -> float:
        """Move the values of afterstates toward targets; return the mean squared error before.

        Args:
            afters: `uint64[n]`.
            targets: `float64[n]`, in points.
            n_moves: number of moves before, on which the rate may depend.
        """
        ...

    def player(self) -> Agent:
        """Return the greedy player."""
        ...

    def save(self, path: Path, arrays: files.Arrays, metadata: dict[str, Any]) -> None:
        """Write it with all that is needed to resume.

        Raises:
            OSError: the file cannot be written.
            ValueError: a value is NaN or inf; the file is not changed.
        """
        ...

    def load(self, path: Path) -> tuple[files.Arrays, dict[str, Any]]:
        """Continue from a file of `save`; return its other arrays and its metadata."""
        ...


# Tables


@njit(float64(NETWORK, UPDATE, uint64[::1], float64[::1], int64[::1]), **KERNEL, nogil=True)
def _fit(net: Network, rule: Update, afters: Words, targets: Values, indices: Indices) -> float:
    """Update afterstates one after the other; return the sum of squared errors."""
    squares = 0.0
    for i in range(afters.size):
        look_up(net, afters[i], indices, 0)
        error = targets[i] - total(net, indices, 0)
        squares += error * error
        update(net, rule, indices, 0, np.float32(error))
    return squares


class TableModel:
    """An N-tuple network that learns.

    Args:
        net: learns in place.
        rule: `"tc"` or `"td"`: see `td.py`.
        rate: step size; by default 1 of TC and 0.1 of TD.
    """

    def __init__(self, net: Network, rule: str = "tc", rate: float | None = None) -> None:
        if rule not in DEFAULT_RATES:
            raise ValueError(f"rule must be one of {list(DEFAULT_RATES)}, got {rule!r}")
        rate = DEFAULT_RATES[rule] if rate is None else rate
        if type(rate) not in (int, float) or not 0 < rate <= 1:
            raise ValueError(f"rate must be > 0 and <= 1, got {rate!r}")
        self.network, self.size = net, net.size
        sums = np.zeros(2 * net.weights.size if rule == "tc" else 0, np.float32)
        self._update = Update(sums, np.float32(rate), False, np.float32(0), 1)

    def estimate(self, boards: Words) -> Values:
        """Return the values of afterstates."""
        return estimate(self.network, boards).astype(np.float64)

    def fit(self, afters: Words, targets: Values, n_moves: int) -> float:
        """Learn, one afterstate after the other."""
        indices = np.empty(self.network.n_entries, np.int64)
        return _fit(self.network, self._update, afters, targets, indices) / max(1, len(afters))

    def player(self) -> Agent:
        """Return the greedy player."""
        return NTupleAgent(self.network)

    def save(self, path: Path, arrays: files.Arrays, metadata: dict[str, Any]) -> None:
        """Write everything to a file of `files.py`.

        Raises:
            OSError: the file cannot be written.
            ValueError: a value is NaN or inf; the file is not changed.
        """
        header, own = ntuple.pack_network(self.network)
        more = {**own, "sums": self._update.sums, **arrays}
        if not all(np.isfinite(array).all() for array in more.values()):
            raise ValueError(f"weights are NaN or inf, so {path} is not changed")
        files.write(path, "ntuple", {**header, "search": metadata}, more, level=0)

    def load(self, path: Path) -> tuple[files.Arrays, dict[str, Any]]:
        """Continue from a file of `save`."""
        header, arrays = files.read(path, "ntuple")
        if "search" not in header or "sums" not in arrays:
            raise ValueError(f"{path} has no learner from searches: it can play, not resume")
        net = ntuple.unpack_network(path, header, arrays)
        same = ntuple.pack_network(net)[0] == ntuple.pack_network(self.network)[0]
        if not same or arrays["sums"].shape != self._update.sums.shape:
            raise ValueError(f"{path} has another network or rule than the settings")
        self.network.weights[:], self._update.sums[:] = net.weights, arrays["sums"]
        return arrays, header["search"]


# Learning


@njit(void(uint64[:, ::1], uint64, int64, int64), **KERNEL)
def _turn(games: Words, rng: Any, rows: int, cols: int) -> None:
    """Turn games to symmetric positions, at random."""
    n = 8 if rows == cols else 4
    for i in range(len(games)):
        rng, bits = next_random(rng)
        which = np.int64(bits >> np.uint64(33)) % n
        games[i, BOARD] = symmetries(games[i, BOARD], rows, cols)[which]
        games[i, EXCESS] = symmetries(games[i, EXCESS], rows, cols)[which]
        records.look(games, i, rows, cols)


class Learner:
    """A player by search, from whose searches a value function learns.

    Args:
        model: learns in place.
        search: settings of the search.
        settings: of learning.
        seed: of chance; None is 0.

    Attributes:
        seconds: of play and learning, by the clock.
        latest: of the last move of all games, the mean of the searched values and of those by the
            value function, and the largest searched one.
    """

    def __init__(
        self,
        model: Model,
        search: mc_softmax.Settings | None = None,
        settings: Settings | None = None,
        seed: int | None = None,
    ) -> None:
        self.model, self.settings, self.size = model, settings or Settings(), model.size
        self.search = search or mc_softmax.Settings()
        if self.search.reuse:
            raise ValueError("reuse must be false: reused trees have values from before the update")
        self.n_moves, self.n_games, self.seconds = 0, 0, 0.0
        self.latest: dict[str, float] = {}
        # With tables the search is compiled.
        self._agent = MCSoftmaxAgent(getattr(model, "network", model), self.search)
        n = self.settings.games
        self._games = np.zeros((n, 8), np.uint64)
        self._games[:, RNG] = [seed_word((seed or 0) + i) for i in range(n)]
        records.start_all(self._games, np.ones(n, np.bool_), 2, *self.size)
        self._afters = np.zeros(n, np.uint64)  # before the boards; 0 for new games
        self._lengths = np.zeros(n, np.int64)
        self._loss = np.zeros(2)
        self._rng = np.uint64(seed_word(seed or 0))
        self._diverged = False

    def play(self, n_moves: float) -> Games:
        """Play and learn at least `n_moves` moves, in moves of all games.

        Returns:
            The games that have ended.

        Raises:
            Diverged: the values diverged.
        """
        start, end = time.monotonic(), self.n_moves + n_moves
        ended = [np.empty((0, 3), np.int64)]
        try:
            while self.n_moves < end:
                ended.append(self._move())
        finally:
            self.seconds += time.monotonic() - start
        return Games(*np.concatenate(ended).T)

    def _move(self) -> npt.NDArray[np.int64]:
        """Make a move in all games, and learn; return the games that ended, `[n, 3]`."""
        boards = records.board_words(self._games, *self.size)
        try:
            trees, order = self._agent.grow(boards)
        except FloatingPointError:
            self._stop()
        result = SearchResult.of(order)
        actions, over = self._agent.choose(result), np.isinf(result.values).all(1)
        moves = softmax_search.root_moves(trees, order, actions)
        searched = np.where(over, 0.0, result.values[np.arange(len(boards)), actions])
        rewards, values = (np.where(over, 0.0, moves[name]) for name in ("reward", "net"))
        self._note(searched, rewards + values)
        with uninterrupted():  # the values must not learn a move that is not made
            if self.settings.learn == "root":
                self._learn(*self._root_targets(searched, rewards, values))
            else:
                self._learn(*self._tree_targets(trees, order))
            return self._step(actions, over, moves["after"])

    def _tree_targets(self, trees: Trees, order: BoardBatch) -> tuple[Words, Values, Values]:
        """Return the afterstates to learn, their targets and their present values, `[n]` each."""
        own = self.settings
        n_trees = len(order.values)
        most = n_trees * self.search.simulations * (own.paths if own.learn == "paths" else 1)
        afters, values = np.empty(most, np.uint64), np.empty((most, 2))
        n = 0
        if own.learn == "paths":
            n = softmax_search.walk(trees, order, own.paths, PATH_TEMPERATURES, afters, values)
        elif own.learn == "nodes":
            n = softmax_search.inner(trees, order, own.visits, afters, values)
        return afters[:n], values[:n, 0], values[:n, 1]

    def _root_targets(
        self, searched: Values, rewards: Values, values: Values
    ) -> tuple[Words, Values, Values]:
        """Return the same of the afterstates before the roots.

        Args:
            searched: values of the moves that are made, by the search, rewards included.
            rewards: of these moves.
            values: of their afterstates, by the value function.
        """
        known, targets = self._afters != 0, searched
        if self.settings.root == "valued":
            targets = rewards + values
        elif self.settings.reward_twice:
            targets = searched + rewards
        afters = self._afters[known]
        present = self.model.estimate(afters) if self.settings.clip else np.empty(0)
        return afters, targets[known], present

    def _learn(self, afters: Words, targets: Values, values: Values) -> None:
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
            self._loss += len(afters) * loss, len(afters)

    def _note(self, searched: Values, valued: Values) -> None:
        """Note the values of boards: by the search, and by the value function.

        Raises:
            Diverged: they are larger than those of any board.
        """
        self.latest = {
            "searched": round(float(searched.mean()), 1),
            "valued": round(float(valued.mean()), 1),
            "largest": round(float(np.abs(searched).max()), 1),
        }
        self._check(searched)

    def _check(self, values: Values) -> None:
        """Check the values of boards.

        Raises:
            Diverged: their mean is more than the points of any game, or NaN or inf.
        """
        mean, limit = float(np.abs(values).mean()), most(self.size)
        if not mean <= limit:
            self._stop(f"the mean value is {mean:,.0f} points, and no game has more than {limit:,}")

    def _stop(self, reason: str = "some are NaN or inf") -> NoReturn:
        """Raise Diverged."""
        self._diverged = True
        raise Diverged(f"values diverged after {self.n_moves:,} moves: {reason}", self.latest)

    def _step(self, actions: Indices, over: Any, afters: Words) -> npt.NDArray[np.int64]:
        """Play a move of all games; return scores, lengths and largest tiles of those over."""
        games, (rows, cols) = self._games, self.size
        tiles = np.int64(1) << (games[over, FLAGS] >> np.uint64(48)).astype(np.int64)
        ended = np.stack((games[over, SCORE].astype(np.int64), self._lengths[over], tiles), 1)
        records.play_all(games, actions, over, 2, table(rows, cols), rows, cols)
        if self.settings.turn:
            self._rng, bits = (np.uint64(each) for each in next_random(self._rng))
            _turn(games, bits, rows, cols)
        self._afters = np.where(over, np.uint64(0), afters)
        self._lengths = np.where(over, 0, self._lengths + 1)
        self.n_moves, self.n_games = self.n_moves + int((~over).sum()), self.n_games + len(ended)
        return ended

    def loss(self) -> float:
        """Return the root of the mean squared error since the last call, in points."""
        squares, n = self._loss.tolist()
        self._loss[:] = 0
        return round(math.sqrt(squares / n), 1) if n else math.nan

    def save(self, path: str | Path) -> None:
        """Write all that it takes to resume; if the values diverged, the file is not changed.

        Raises:
            OSError: the file cannot be written.
            Diverged: the values have diverged, also in weights that the games do not reach.
        """
        if self._diverged:
            return
        self._check(self.model.estimate(self._afters))
        state = {"games": self._games, "afters": self._afters, "lengths": self._lengths}
        metadata: dict[str, Any] = {"n_moves": self.n_moves, "n_games": self.n_games}
        metadata |= {"seconds": round(self.seconds, 1), "rng": int(self._rng)}
        metadata |= {"search": asdict(self.search), "learner": asdict(self.settings)}
        try:
            self.model.save(Path(path), state, metadata)
        except ValueError:
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
                own = getattr(self, f"_{name}")
                if arrays[name].shape != own.shape:
                    raise ValueError(f"it has {len(arrays[name])} games, not {len(own)}")
                own[:] = arrays[name].view(own.dtype)
            self.n_moves, self.n_games = int(metadata["n_moves"]), int(metadata["n_games"])
            self.seconds, self._rng = float(metadata["seconds"]), np.uint64(metadata["rng"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path} does not fit the settings: {error}") from error


# Runs


def _check_defaults(of: Any, names: Iterable[str], reason: str) -> None:
    """Raise ValueError if a setting has another value than its default."""
    for each in fields(of):
        default = each.default_factory() if callable(each.default_factory) else each.default
        if each.name in names and getattr(of, each.name) != default:
            raise ValueError(f"{each.name} is {reason}")


@settings
class SearchFitting(Fitting):
    """Settings of fitting: `rule` and `rate` of an N-tuple network, the others of a neural one."""

    rule: Literal["tc", "td"] | None = None
    """Rule of an N-tuple network; by default temporal coherence."""
    rate: Rate | None = None  # type: ignore[assignment]
    """Learning rate; by default 1 of TC, 0.1 of TD and 0.001 of Adam."""
    value_scale: Positive | None = None
    """Points per 1 of the neural network's output; by default 1,000, or that of `start`."""

    def neural(self) -> Fitting:
        """Return those of a neural network."""
        given = {each.name: getattr(self, each.name) for each in fields(Fitting)}
        return Fitting(**{name: value for name, value in given.items() if value is not None})


_OF_NEURAL = [each.name for each in fields(SearchFitting) if each.name not in ("rule", "rate")]


@settings
class SearchOptions(NeuralOptions):
    """Options of a run that learns from searches."""

    evaluate_every: Amount = 100_000
    """Moves from one evaluation to the next."""
    evaluate: Evaluation = "1:100"
    """Evaluation games of the greedy player, 1:GAMES."""


@settings
class Run:
    """Settings of a run in which values of 2048 learn from Monte-Carlo Softmax searches."""

    options: ClassVar = SearchOptions
    row_key: ClassVar[str] = "n_moves"
    evaluation_key: ClassVar[str] = "searched"

    network: Annotated[
        NetworkSettings | dict[str, str | int], Field(union_mode="left_to_right")
    ] = field(default_factory=NetworkSettings)
    """N-tuple network, or the name of a neural one of `value_net.py` and its settings."""
    start: str | None = None
    """File of a network to start from, instead of a new one."""
    fitting: SearchFitting = field(default_factory=SearchFitting)
    search: mc_softmax.Settings = field(default_factory=mc_softmax.Settings)
    learner: Settings = field(default_factory=Settings)
    seed: Whole | None = 0
    """Seed of the weights and of chance."""

    def __post_init__(self) -> None:
        if isinstance(self.network, dict) and "name" not in self.network:
            check_names("network", self.network, [each.name for each in fields(NetworkSettings)])
            raise ValueError(f"network must have tuples or a name, got {self.network}")
        if self.start is not None and self.network != NetworkSettings():
            raise ValueError("start has a network: the settings need no other")
        if not self.is_neural:
            _check_defaults(self.fitting, _OF_NEURAL, "for neural networks")
        elif self.fitting.rule is not None:
            raise ValueError("rule is for N-tuple networks")

    @property
    def is_neural(self) -> bool:
        """True for a neural network, which needs torch."""
        if self.start is not None:
            return Path(self.start).suffix == ".safetensors"
        return isinstance(self.network, dict)

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """File of the learner."""
        return ("learner.safetensors" if self.is_neural else "learner.npz",)

    def model(self, device: str = "cpu") -> Model:
        """Return the value function.

        Raises:
            OSError: the network to start from cannot be read.
            ValueError: wrong settings.
            ImportError: a neural network needs an extra that is not installed.
        """
        if self.is_neural or isinstance(self.network, dict):
            module = import_module("afterstate.agents.game2048.learning.net_model")
            scale, fitting = self.fitting.value_scale, self.fitting.neural()
            model: Model = module.new(self.network, self.start, fitting, scale, self.seed, device)
            return model
        net = self.network.new() if self.start is None else ntuple.load(self.start)
        return TableModel(net, self.fitting.rule or "tc", self.fitting.rate)

    def new(self, device: str = "cpu") -> Learner:
        """Return a new learner: see `model`."""
        return Learner(self.model(device), self.search, self.learner, self.seed)

    def begin(self, options: SearchOptions, folder: RunFolder) -> MoveTraining:
        """Return the learner, a new one or that of the folder."""
        if set(options.games) - {1}:
            raise ValueError("evaluate must be 1:GAMES: the greedy player is evaluated")
        if self.is_neural:
            import_module("afterstate.agents.training.optimizer").set_threads(options.threads)
        elif options.threads != 1 or options.device != "cpu":
            raise ValueError("threads must be 1 and device cpu for an N-tuple network")
        learner, path = self.new(options.device), folder.path / self.checkpoints[0]
        if options.resume:
            learner.resume(path)

        def judge() -> dict[str, Any]:
            row: dict[str, Any] = {"error": learner.loss(), **learner.latest}
            if 1 in options.games:
                games = play(learner.model.player(), options.games[1], EVALUATION_SEED)
                row["1-ply"] = summary(games)
            return row

        return MoveTraining(learner, path, judge)
