"""Values that learn from Monte-Carlo Softmax searches, as Watanabe and Matsuzaki tried it.

    python -m afterstate.agents.game2048.learning.from_search SETTINGS.json --out RUN --hours 1

A settings file is a JSON object, all of it optional; a network has `tuples` or a `name`:

    {"network": {"tuples": "4x6"}, "search": {"simulations": 100, "trees": 1, "select": "falling"},
     "learner": {"learn": "paths", "paths": 5, "clip": 100}, "seed": 1}

Games stand side by side. In each move of all of them every board is searched (`mc_softmax.py`), the
move with the best reward plus value is made, and the value function learns from the trees:

- `"paths"`: what the afterstates on random paths from the root are worth, once per path, by a
  temperature that is drawn for each path between 0.005 and 1 (experiment 1 of the study);
- `"nodes"`: what all afterstates with outcomes in the tree are worth (experiment 2, first part);
- `"root"`: the afterstate that came before the root learns what the root is worth, which is reward
  plus value of the move that is made; the value is the one that was searched (NodeV+Reward) or the
  one that the value function says (EvalV+Reward). A game that is over is worth 0 (experiment 2,
  second part);
- `"nothing"`: the search plays, for comparison.

Searched values are targets of what they are made of, and they may run away from it. When the boards
that are searched are on average worth more than any game has points, or a number is none any more,
a run stops, and its last row says what the values were.

In the folder of a run are `learner.npz`, from which it goes on and which `agents.load` reads, or
`learner.safetensors` and for play `net.safetensors`, and `rows.jsonl` and `settings.json`: see
`runs.py`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt
from numba import float64, int64, njit, uint64, void

from afterstate.agents import files
from afterstate.agents.config import check_fields, check_names, current_names
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.kernels import KERNEL
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
    network,
    total,
)
from afterstate.agents.training import run
from afterstate.agents.training.commands import uninterrupted
from afterstate.agents.training.run import EVALUATION_SEED, Diverged, Kind, check_seed, summary
from afterstate.envs.game2048 import games as records
from afterstate.envs.game2048.games import BOARD, EXCESS, FLAGS, RNG, SCORE
from afterstate.envs.game2048.rules import symmetries, table
from afterstate.envs.words import Words, next_random, seed_word


def most(size: tuple[int, int]) -> int:
    """The points that no game on a board of rows and columns can exceed.

    The board is full of one tile of each kind, made of 2s as far as that goes.

    >>> most((4, 4))
    3932156
    """
    n_cells = size[0] * size[1]
    return (n_cells - 1) * (4 << n_cells) - 4


PATH_TEMPERATURES = np.array([0.005, 1.0])
"""Between which the temperature of a path is drawn."""


@dataclass(frozen=True)
class Settings:
    """How values are learned from searches.

    Raises:
        ValueError: a wrong setting, or some that do not go together.
    """

    games: int = 64
    """Played side by side."""
    learn: str = "root"
    """From what: `"paths"`, `"nodes"`, `"root"` or `"nothing"`."""
    paths: int = 1
    """How many in each tree."""
    visits: int = 1
    """How many simulations must have come to an afterstate that is learned as a node."""
    root: str = "searched"
    """What the value in the root's target is: `"searched"` (NodeV), or `"valued"` by the value
    function (EvalV)."""
    reward_twice: bool = False
    """Whether the reward is added to a searched value of the root that has it already, another
    reading of NodeV+Reward."""
    clip: float | None = None
    """How far a target may be from the value that there is, in points."""
    turn: bool = True
    """Whether boards are turned to one of the eight symmetric positions after each move, by chance.
    Networks of tables that are symmetric themselves do not mind."""

    def __post_init__(self) -> None:
        whole = ("games", "paths", "visits")
        ranges = {**dict.fromkeys(whole, "from 1 on"), "clip": "above 0"}
        check_fields(self, ranges, _CHOICES)
        if self.reward_twice and (self.learn, self.root) != ("root", "searched"):
            raise ValueError("reward_twice is for learning the searched value of the root")
        for name, learn, default in _OF_A_KIND:
            if self.learn != learn and getattr(self, name) != default:
                raise ValueError(f"{name} is for learning {learn!r}, not {self.learn!r}")
        if self.clip is not None and self.learn == "nothing":
            raise ValueError("clip is for learning, and this learns nothing")


_OF_A_KIND = (("paths", "paths", 1), ("visits", "nodes", 1), ("root", "root", "searched"))
"""Settings that are for one way of learning alone, the way, and their defaults."""

_CHOICES = {"learn": ("paths", "nodes", "root", "nothing"), "root": ("searched", "valued")}


class Model(Protocol):
    """A value function that can learn."""

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the boards."""
        ...

    def estimate(self, boards: Words) -> Values:
        """The values `[n]` of afterstates `uint64[n]`, in points."""
        ...

    def fit(self, afters: Words, targets: Values, n_moves: int) -> float:
        """Moves the values of afterstates toward targets; returns the mean squared error before.

        Args:
            afters: `uint64[n]`.
            targets: `float64[n]`, in points.
            n_moves: how many moves were made before, of which the rate may depend.
        """
        ...

    def player(self) -> Agent:
        """The greedy player."""
        ...

    def save(self, path: Path, arrays: files.Arrays, facts: dict[str, Any]) -> None:
        """Writes it with all that is needed to go on.

        Raises:
            OSError: the file cannot be written.
            ValueError: some of it is no finite number any more; the file is left as it was.
        """
        ...

    def load(self, path: Path) -> tuple[files.Arrays, dict[str, Any]]:
        """Takes up what `save` wrote, and returns the rest of it."""
        ...


# Tables


@njit(float64(NETWORK, UPDATE, uint64[::1], float64[::1], int64[::1]), **KERNEL, nogil=True)
def _fit(net: Network, how: Update, afters: Words, targets: Values, indices: Indices) -> float:
    """Updates afterstates one after the other; returns the sum of squared errors."""
    squares = 0.0
    for i in range(afters.size):
        look_up(net, afters[i], indices, 0)
        error = targets[i] - total(net, indices, 0)
        squares += error * error
        update(net, how, indices, 0, np.float32(error))
    return squares


_RATES = {"tc": 1.0, "td": 0.1}


class TableModel:
    """An N-tuple network that learns.

    Args:
        net: learns in place.
        rule: `"tc"` or `"td"`: see `updates.py`.
        rate: of learning; by default 1 of TC and 0.1 of TD.
    """

    def __init__(self, net: Network, rule: str = "tc", rate: float | None = None) -> None:
        if rule not in _RATES:
            raise ValueError(f"rule is one of {list(_RATES)}, got {rule!r}")
        rate = _RATES[rule] if rate is None else rate
        if type(rate) not in (int, float) or not 0 < rate <= 1:
            raise ValueError(f"rate is above 0 and at most 1, got {rate!r}")
        self.network, self.size = net, net.size
        sums = np.zeros(2 * net.weights.size if rule == "tc" else 0, np.float32)
        self._how = Update(sums, np.float32(rate), False, np.float32(0), 1)

    def estimate(self, boards: Words) -> Values:
        """The values of afterstates."""
        return estimate(self.network, boards).astype(np.float64)

    def fit(self, afters: Words, targets: Values, n_moves: int) -> float:
        """Learns, one afterstate after the other."""
        indices = np.empty(self.network.n_entries, np.int64)
        return _fit(self.network, self._how, afters, targets, indices) / max(1, len(afters))

    def player(self) -> Agent:
        """The greedy player."""
        return NTupleAgent(self.network)

    def save(self, path: Path, arrays: files.Arrays, facts: dict[str, Any]) -> None:
        """Writes all to a file of `files.py`.

        Raises:
            OSError: the file cannot be written.
            ValueError: some of it is no finite number any more; the file is left as it was.
        """
        header, own = ntuple.pack_network(self.network)
        more = {**own, "sums": self._how.sums, **arrays}
        if not all(np.isfinite(array).all() for array in more.values()):
            raise ValueError(f"some weights are no numbers, so {path} is left as it was")
        files.write(path, "ntuple", {**header, "search": facts}, more, level=0)

    def load(self, path: Path) -> tuple[files.Arrays, dict[str, Any]]:
        """Takes up a file of `save`."""
        header, arrays = files.read(path, "ntuple")
        if "search" not in header or "sums" not in arrays:
            raise ValueError(f"{path} has no learner of this kind: it can play, not go on")
        net = ntuple.unpack_network(path, header, arrays)
        same = ntuple.pack_network(net)[0] == ntuple.pack_network(self.network)[0]
        if not same or arrays["sums"].shape != self._how.sums.shape:
            raise ValueError(f"{path} has another network or rule than the settings ask for")
        self.network.weights[:], self._how.sums[:] = net.weights, arrays["sums"]
        return arrays, header["search"]


# Learning


@njit(void(uint64[:, ::1], uint64, int64, int64), **KERNEL)
def _turn(games: Words, rng: Any, rows: int, cols: int) -> None:
    """Turns games to symmetric positions, by chance."""
    n = 8 if rows == cols else 4
    for i in range(len(games)):
        rng, bits = next_random(rng)
        which = np.int64(bits >> np.uint64(33)) % n
        games[i, BOARD] = symmetries(games[i, BOARD], rows, cols)[which]
        games[i, EXCESS] = symmetries(games[i, EXCESS], rows, cols)[which]
        records.look(games, i, rows, cols)


class Learner:
    """Plays by search, and lets a value function learn from it.

    Args:
        model: learns in place.
        search: how to search.
        settings: how to learn.
        seed: of chance; None is 0.

    Attributes:
        seconds: how long it has played and learned, by the clock.
        told: of the last move of all games, the mean of the values that the search found and of
            those that the value function said, and the largest of them.
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
            raise ValueError("kept trees have values from before what was learned: no reuse")
        self.n_moves, self.n_games, self.seconds = 0, 0, 0.0
        self.told: dict[str, float] = {}
        # With tables the search is compiled.
        self._agent = MCSoftmaxAgent(getattr(model, "network", model), self.search)
        n = self.settings.games
        self._games = np.zeros((n, 8), np.uint64)
        self._games[:, RNG] = [seed_word((seed or 0) + i) for i in range(n)]
        records.start_all(self._games, np.ones(n, np.bool_), 2, *self.size)
        self._afters = np.zeros(n, np.uint64)  # that came before the boards; 0 for new games
        self._lengths = np.zeros(n, np.int64)
        self._loss = np.zeros(2)
        self._rng = np.uint64(seed_word(seed or 0))
        self._diverged = False

    def play(self, n_moves: float) -> Games:
        """Plays and learns at least `n_moves` moves, in moves of all games.

        Returns:
            The games that have ended.

        Raises:
            Diverged: the values have run away.
        """
        began, end = time.monotonic(), self.n_moves + n_moves
        ended = [np.empty((0, 3), np.int64)]
        try:
            while self.n_moves < end:
                ended.append(self._move())
        finally:
            self.seconds += time.monotonic() - began
        return Games(*np.concatenate(ended).T)

    def _move(self) -> npt.NDArray[np.int64]:
        """Makes a move in all games, and learns; returns what games have ended, `[n, 3]`."""
        boards = records.board_words(self._games, *self.size)
        try:
            trees, order = self._agent.grow(boards)
        except FloatingPointError:
            self._stop()
        found = SearchResult.of(order)
        actions, over = self._agent.choose(found), np.isinf(found.values).all(1)
        chosen = softmax_search.root_moves(trees, order, actions)
        searched = np.where(over, 0.0, found.values[np.arange(len(boards)), actions])
        rewards, values = (np.where(over, 0.0, chosen[name]) for name in ("reward", "net"))
        self._look(searched, rewards + values)
        with uninterrupted():  # the values must not learn a move that is not made
            if self.settings.learn == "root":
                self._learn(*self._root(searched, rewards, values))
            else:
                self._learn(*self._inside(trees, order))
            return self._step(actions, over, chosen["after"])

    def _inside(self, trees: Trees, order: BoardBatch) -> tuple[Words, Values, Values]:
        """The afterstates to learn, their targets, and their values as they are, `[n]` each."""
        how = self.settings
        n_trees = len(order.values)
        room = n_trees * self.search.simulations * (how.paths if how.learn == "paths" else 1)
        afters, values = np.empty(room, np.uint64), np.empty((room, 2))
        n = 0
        if how.learn == "paths":
            n = softmax_search.walk(trees, order, how.paths, PATH_TEMPERATURES, afters, values)
        elif how.learn == "nodes":
            n = softmax_search.inner(trees, order, how.visits, afters, values)
        return afters[:n], values[:n, 0], values[:n, 1]

    def _root(
        self, searched: Values, rewards: Values, values: Values
    ) -> tuple[Words, Values, Values]:
        """The same of the afterstates before the roots.

        Args:
            searched: what the moves that are made are worth by the search, with their rewards.
            rewards: of these moves.
            values: what the value function says of their afterstates.
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
        """Lets the value function learn.

        Raises:
            Diverged: the error is no number any more.
        """
        if self.settings.clip is not None:
            targets = np.clip(targets, values - self.settings.clip, values + self.settings.clip)
        if len(afters):
            loss = self.model.fit(afters, np.ascontiguousarray(targets), self.n_moves)
            if not math.isfinite(loss):
                self._stop()
            self._loss += len(afters) * loss, len(afters)

    def _look(self, searched: Values, valued: Values) -> None:
        """Notes what boards are worth: by the search, and by the value function.

        Raises:
            Diverged: more than any board can be.
        """
        self.told = {
            "searched": round(float(searched.mean()), 1),
            "valued": round(float(valued.mean()), 1),
            "largest": round(float(np.abs(searched).max()), 1),
        }
        self._check(searched)

    def _check(self, values: Values) -> None:
        """Checks what boards are worth.

        Raises:
            Diverged: on average more than any game has points, or no numbers.
        """
        mean, limit = float(np.abs(values).mean()), most(self.size)
        if not mean <= limit:
            self._stop(f"boards are worth {mean:,.0f} points, and no game has more than {limit:,}")

    def _stop(self, why: str = "some are no numbers any more") -> NoReturn:
        """Raises Diverged."""
        self._diverged = True
        raise Diverged(f"values have run away after {self.n_moves:,} moves: {why}", self.told)

    def _step(self, actions: Indices, over: Any, afters: Words) -> npt.NDArray[np.int64]:
        """Plays a move of all games; returns scores, lengths and largest tiles of those over."""
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
        """The root of the mean squared error, in points, since it was asked last."""
        squares, n = self._loss.tolist()
        self._loss[:] = 0
        return round(math.sqrt(squares / n), 1) if n else math.nan

    def save(self, path: str | Path) -> None:
        """Writes all that it takes to go on.

        When the values have run away it leaves the file as it is.

        Raises:
            OSError: the file cannot be written.
            Diverged: this shows now, also in weights that none of the games comes to.
        """
        if self._diverged:
            return
        self._check(self.model.estimate(self._afters))
        state = {"games": self._games, "afters": self._afters, "lengths": self._lengths}
        facts: dict[str, Any] = {"n_moves": self.n_moves, "n_games": self.n_games}
        facts |= {"seconds": round(self.seconds, 1), "rng": int(self._rng)}
        facts |= {"search": asdict(self.search), "learner": asdict(self.settings)}
        try:
            self.model.save(Path(path), state, facts)
        except ValueError:
            self._stop()

    def resume(self, path: str | Path) -> None:
        """Takes up what `save` wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: another file, a damaged one, or one of another network or number of games.
        """
        arrays, told = self.model.load(Path(path))
        try:
            for name in ("games", "afters", "lengths"):
                mine = getattr(self, f"_{name}")
                if arrays[name].shape != mine.shape:
                    raise ValueError(f"it has {len(arrays[name])} games, not {len(mine)}")
                mine[:] = arrays[name].view(mine.dtype)
            self.n_moves, self.n_games = int(told["n_moves"]), int(told["n_games"])
            self.seconds, self._rng = float(told["seconds"]), np.uint64(told["rng"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path} does not fit the settings: {error}") from error


# The command


def new_learner(settings: dict[str, Any], device: str = "cpu") -> Learner:
    """A learner from settings.

    Raises:
        OSError: the network to start from cannot be read.
        ValueError: wrong settings.
        ImportError: a neural network needs what is not installed.
    """
    settings = {**settings, "search": current_names(settings["search"])}
    for name, known in (("search", mc_softmax.Settings), ("learner", Settings)):
        check_names(name, settings[name], [each.name for each in fields(known)])
    check_seed(settings["seed"])
    model = new_model(settings, device)
    search = mc_softmax.Settings(**settings["search"])
    return Learner(model, search, Settings(**settings["learner"]), settings["seed"])


def _is_neural(settings: dict[str, Any]) -> bool:
    """Whether a network of settings is neural."""
    start = settings["start"]
    if isinstance(start, str):
        return Path(start).suffix == ".safetensors"
    return isinstance(settings["network"], dict) and "name" in settings["network"]


def new_model(settings: dict[str, Any], device: str = "cpu") -> Model:
    """The value function of settings.

    Raises:
        OSError: the network to start from cannot be read.
        ValueError: wrong settings.
        ImportError: a neural network needs what is not installed.
    """
    start, told = settings["start"], settings["network"]
    if not isinstance(told, dict) or not isinstance(start, (str, NoneType)):
        raise ValueError(f"network is an object and start a file, got {told!r} and {start!r}")
    if start is not None and told:
        raise ValueError("start is a network: the settings need no other")
    if _is_neural(settings):
        made: Model = import_module("afterstate.agents.game2048.learning.net_model").new(
            settings, device
        )
        return made
    check_names("fitting", settings["fitting"], ("rule", "rate"))
    check_names("network", told, signature(network).parameters)
    net = network(**told) if start is None else ntuple.load(start)
    return TableModel(net, **settings["fitting"])


def _evaluate(learner: Learner, chosen: argparse.Namespace) -> dict[str, Any]:
    """What rows say of a learner."""
    found: dict[str, Any] = {"error": learner.loss(), **learner.told}
    if 1 in chosen.evaluate:
        found["1-ply"] = summary(play(learner.model.player(), chosen.evaluate[1], EVALUATION_SEED))
    return found


def _begin(settings: dict[str, Any], chosen: argparse.Namespace, path: Path | None) -> Learner:
    """A learner from settings and options, which goes on from a file if there is one."""
    if set(chosen.evaluate) - {1}:
        raise ValueError("rows tell how the values play greedily: --evaluate is 1:GAMES")
    if _is_neural(settings):
        import_module("afterstate.agents.training.optimizer").set_threads(chosen.threads)
    elif chosen.threads != 1 or chosen.device != "cpu":
        raise ValueError("a network of tables learns from searches in one thread of the CPU")
    learner = new_learner(settings, chosen.device)
    if path is not None:
        learner.resume(path)
    return learner


SEARCHED = Kind(
    module="search_learning",
    what="a value function, from searches,",
    file=lambda settings: "learner.safetensors" if _is_neural(settings) else "learner.npz",
    settings={
        "network": {},
        "start": None,
        "fitting": {},
        "search": {},
        "learner": {},
        "seed": 0,
    },
    begin=_begin,
    evaluate=_evaluate,
    evaluate_every=1e5,
    plies="1:100",
    devices=True,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    run.run(SEARCHED, arguments)


if __name__ == "__main__":
    main()
