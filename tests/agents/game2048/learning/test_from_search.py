"""Learning of values from Monte-Carlo Softmax searches, against a plain loop over lists."""

from __future__ import annotations

import errno
import io
import json
import math
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from tests.oracles import game2048 as oracle
from tests.oracles import softmax as softmax_oracle
from tests.oracles.ntuple import NaiveLearner, symmetric_boards
from tests.oracles.softmax import Move, State, Tree, outcomes

pytest.importorskip("safetensors")
pytest.importorskip("tqdm")
pytest.importorskip("torch")

import torch
from torch import Tensor, nn

from afterstate import agents
from afterstate.agents import files, nets
from afterstate.agents.config import from_dict, read
from afterstate.agents.game2048.learning import from_search, ntuple_learner
from afterstate.agents.game2048.learning.from_search import (
    Learner,
    Run,
    Settings,
    TableModel,
    most,
)
from afterstate.agents.game2048.learning.net_model import NetModel
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search import exact
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.search.mc_softmax import Settings as Search
from afterstate.agents.game2048.search.softmax_search import BoardBatch, inner, walk
from afterstate.agents.game2048.search.softmax_tree import Trees
from afterstate.agents.game2048.values import ntuple, value_net
from afterstate.agents.game2048.values.ntuple import estimate, network
from afterstate.agents.training.__main__ import main
from afterstate.agents.training.optimizer import Fitting
from afterstate.agents.training.run import EVALUATION_SEED, Diverged, summary
from afterstate.envs.game2048.games import BOARD
from afterstate.envs.words import seed_word

pytestmark = pytest.mark.usefixtures("one_thread")

Boards = npt.NDArray[np.uint64]
Thing = TypeVar("Thing")

TUPLES = {(2, 3): [[0, 1, 2], [0, 4], [1, 5]], (4, 4): [[0, 1, 4], [5, 6], [1, 2, 5, 6]]}
UNIT, MOST = 100.0, most((4, 4))

solved = cache(exact.solve)


class Tiny(nn.Sequential):
    """One hidden layer."""

    def __init__(self, hidden: int = 8) -> None:
        last = (nn.Linear(hidden, 1), nn.Flatten(0))
        super().__init__(nn.Flatten(), nn.Linear(256, hidden), nn.Tanh(), *last)
        self.settings = {"hidden": hidden}


@pytest.fixture(autouse=True)
def _networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network of these tests can be in files and in settings."""
    monkeypatch.setitem(value_net.NETWORKS, "Tiny", Tiny)


class Script:
    """Values by a function; remembers what it is to learn, and does not learn it."""

    def __init__(self, of: Callable[[Boards], Any], size: tuple[int, int] = (4, 4)) -> None:
        self.of, self.size, self.loss = of, size, 0.25
        self.fits: list[tuple[list[int], list[float], int]] = []

    def estimate(self, boards: Boards) -> Any:
        """The function's values."""
        return np.asarray(self.of(boards), np.float64)

    def fit(self, afters: Boards, targets: npt.NDArray[np.float64], n_moves: int) -> float:
        """Returns an error that is given."""
        self.fits.append((afters.tolist(), targets.tolist(), n_moves))
        return self.loss


def scattered(boards: Boards) -> npt.NDArray[np.float64]:
    """Values from 0 to 100 without any symmetry."""
    bits = boards * np.uint64(softmax_oracle.GAMMA) >> np.uint64(44)
    return bits.astype(np.float64) * (100 / 2**20)


def scattered_one(board: oracle.Board) -> float:
    return (oracle.to_word(board) * softmax_oracle.GAMMA % 2**64 >> 44) * (100 / 2**20)


def random_boards(n: int, size: tuple[int, int] = (4, 4)) -> Boards:
    """Boards of small tiles with gaps."""
    rng = random.Random(1)
    tiles = [rng.choices([0, 0, 1, 2, 3, 5], k=size[0] * size[1]) for _ in range(n)]
    split = [[each[i : i + size[1]] for i in range(0, len(each), size[1])] for each in tiles]
    return np.array([oracle.to_word(board) for board in split], np.uint64)


# What trees teach


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    "settings", [{}, {"trees": 3, "select": "falling"}, {"widening": 0.5}, {"reuse": True}], ids=str
)
def test_trees_of_a_search_are_shown_with_their_inner_nodes(
    compiled: bool, settings: dict[str, Any]
) -> None:
    """Read once more in plain Python: the moves with outcomes and at least so many visits."""
    net, how = network(TUPLES[4, 4]), Search(**{"simulations": 60, **settings})
    net.weights[:] = np.random.default_rng(1).uniform(0, 30, net.weights.size)
    shown = MCSoftmaxAgent(net if compiled else Script(partial(estimate, net)), how)
    hidden, n_each = MCSoftmaxAgent(net, how), how.trees or 1
    for boards in (random_boards(4), random_boards(2), random_boards(5)[1:]):
        (trees, order), found = shown.grow(boards), hidden.search(boards)
        assert order.values.reshape(-1, n_each, 4).mean(1).tolist() == found.values.tolist()
        assert order.visits.reshape(-1, n_each, 4).sum(1).tolist() == found.visits.tolist()
        firsts = (order.firsts[:, None] + np.arange(n_each)).reshape(-1)
        roots = trees.states["board"][firsts * trees.capacity].reshape(-1, n_each)
        assert (roots == boards[:, None]).all()
        ends = zip(firsts * trees.capacity, trees.sizes[firsts], strict=True)
        places = [place for first, n in ends for place in range(4 * first, 4 * (first + n))]
        moves = [trees.moves[place] for place in places if outcomes(trees, place)]
        for least in (1, 2, 11):
            expected = [[m["after"], m["value"], m["net"]] for m in moves if m["n"] >= least]
            afters, values = np.zeros(1_000, np.uint64), np.full((1_000, 2), np.nan)
            n = inner(trees, order, least, afters, values)
            assert list(map(list, zip(afters[:n], *values[:n].T, strict=True))) == expected
            assert n > 10 / least and (values[:n, 0] != values[:n, 1]).any()
            assert (afters[n:] == 0).all() and np.isnan(values[n:]).all()


def paths(trees: Trees, order: BoardBatch, n_paths: int, *between: float) -> list[int]:
    """The afterstates on paths."""
    afters = np.zeros(n_paths * len(trees.states), np.uint64)
    n = walk(trees, order, n_paths, np.array(between), afters, np.zeros((len(afters), 2)))
    found: list[int] = afters[:n].tolist()
    return found


def test_cold_paths_are_those_of_the_best_moves_and_hot_ones_spread() -> None:
    """In trees with a single outcome of each move, cold paths are without chance."""
    player = MCSoftmaxAgent(Script(scattered), Search(simulations=60, trees=3, select="ave"))
    trees, order = player.grow(random_boards(4))
    expected: list[int] = []
    for tree in range(12):
        state: int | None = tree * trees.capacity
        while state is not None and trees.states[state]["n_legal"]:
            moves = trees.moves[4 * state : 4 * state + 4]
            worth = [float(m["reward"] + m["value"]) if m["after"] else -math.inf for m in moves]
            best = worth.index(max(worth))
            state = next(iter(outcomes(trees, 4 * state + best).values()), None)
            expected += [int(moves[best]["after"])] * (state is not None)
    assert len(expected) > 20
    assert paths(trees, order, 1, 1e-9, 1e-9) == paths(trees, order, 1, 0.0, 0.0) == expected
    trees, order = player.grow(random_boards(1))
    assert (trees.moves["n_outcomes"][:4] == 1).all()
    found = Counter(paths(trees, order, 4_000, 1e9, 1e9))  # in three trees
    firsts = [found[after] for after in trees.moves["after"][:4].tolist()]
    assert firsts == pytest.approx([3_000] * 4, abs=250)


# Value functions


@pytest.mark.parametrize(("rate", "error", "end"), [(0.5, 62.5, 17.5), (1.0, 50.0, 20.0)])
def test_a_temporal_difference_by_hand(rate: float, error: float, end: float) -> None:
    """Twice the same entry, worth 10, toward 20: what is learned first is there then."""
    net = network([[0, 1]], (2, 2), symmetric=False)
    net.weights[0x21] = 10
    model, afters = TableModel(net, "td", rate), np.array([0x34_0021, 0x21], np.uint64)
    assert model.fit(afters, np.array([20.0, 20.0]), 7) == error
    assert model.estimate(afters).tolist() == [end, end]
    assert np.flatnonzero(net.weights).tolist() == [0x21]


@pytest.mark.parametrize("rule", ["td", "tc"])
@pytest.mark.parametrize("size", TUPLES)
def test_tables_learn_by_the_rules_of_self_play(size: tuple[int, int], rule: Any) -> None:
    naive = NaiveLearner(ntuple_learner.Settings(rule, rate=0.7), TUPLES[size], size, 1)
    model, rng = TableModel(network(TUPLES[size], size), rule, 0.7), np.random.default_rng(1)
    for _ in range(5):
        afters, targets = rng.choice(random_boards(10, size), 30), rng.normal(50, 60, 30)
        squares = []
        for after, target in zip(afters.tolist(), targets.tolist(), strict=True):
            board = oracle.from_word(after, *size)
            squares.append((target - float(naive.value(board))) ** 2)
            naive.update(board, np.float32(target - float(naive.value(board))))
        assert model.fit(afters, targets, 0) == pytest.approx(np.mean(squares), rel=1e-12)
    assert model.network.weights.tolist() == naive.weights.tolist()


def test_a_network_is_fitted_in_steps_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """All afterstates once, by chance that the moves decide, and with the rate after them."""
    how, steps = Fitting(batch=2, rate=1e-3, decay=1_000), list[list[int]]()
    model, afters = NetModel(Tiny(), how, UNIT), random_boards(5)
    squares = {int(after): i * 100.0**i for i, after in enumerate(afters)}

    def step(inputs: Tensor, loss: Callable[[Tensor], Tensor], rate: float) -> Tensor:
        found = loss(torch.zeros(len(inputs)))  # the mean of the squares that are wanted
        steps.append([oracle.to_word(board) for board in inputs.argmax(1).tolist()])
        wanted = np.mean([squares[board] for board in steps[-1]])
        assert float(found) * UNIT**2 == pytest.approx(wanted, rel=1e-5)
        assert rate == how.rate_after(500 if len(steps) <= 6 else 600)
        return found

    monkeypatch.setattr(model._fitter, "step", step)
    mean = sum(squares.values()) / 5
    for n_moves in (500, 500, 600):
        error = model.fit(afters, np.sqrt(list(squares.values())), n_moves)
        assert error == pytest.approx(mean, rel=1e-5)
    assert sorted(map(len, steps)) == [1] * 3 + [2] * 6
    assert sorted(board for boards in steps[:3] for board in boards) == sorted(squares)
    assert steps[:3] == steps[3:6] != steps[6:]


@pytest.mark.parametrize(("name", "n_times", "rate"), [("Tiny", 150, 1e-2), ("CNN22", 8, 3e-4)])
def test_the_error_of_a_network_falls(name: str, n_times: int, rate: float) -> None:
    with nets.seeded(1):
        model = NetModel(value_net.network(name), Fitting(batch=16, rate=rate, average=0.5), UNIT)
    afters = random_boards(32)
    targets = 300 + 5 * scattered(afters)
    errors = [model.fit(afters, targets, n) for n in range(n_times)]
    assert errors[-1] < 0.2 * errors[0]
    assert ((model.estimate(afters) - targets) ** 2).mean() < 0.5 * errors[0]
    assert model.player().estimate(afters).tolist() == model.estimate(afters).tolist()


# The plain loop


class Game:
    """A game that is being played."""

    def __init__(self, board: oracle.Board, rng: int) -> None:
        self.board, self.rng = board, rng
        self.after: oracle.Board | None = None
        self.score = self.length = 0


def drawn(tree: Tree, things: list[Thing], shares: list[float]) -> Thing:
    """One of some things, by their shares."""
    left, last = tree._fraction() * sum(shares), len(things) - 1
    for i, share in enumerate(shares):
        left -= share
        if left < 0 or i == last:
            break
    return things[i]


def nodes(state: State) -> Iterator[Move]:
    """All moves with outcomes from a state on."""
    for move in state.moves.values():
        if move.outcomes:
            yield move
        for each in move.outcomes.values():
            yield from nodes(each)


def path(tree: Tree) -> Iterator[Move]:
    """The moves on a path from the root, at a temperature between 0.005 and 1."""
    temperature, state = 0.005 + tree._fraction() * (1 - 0.005), tree.root
    while state.moves:
        moves = list(state.moves.values())
        worth = [move.reward + move.value(tree.settings.unvisited) for move in moves]
        move = drawn(tree, moves, softmax_oracle.weights("L-max", temperature, worth))
        if not move.outcomes:
            return
        yield move
        slots = sorted(move.outcomes)
        children = [move.outcomes[slot] for slot in slots]
        state = drawn(tree, children, [move.chances[slot] for slot in slots])


class Plain:
    """The learner's loop from its description, one board after the other, with lists.

    Attributes:
        told: what the last boards are worth by the search and by the value function.
        clipped: how many targets were.
    """

    def __init__(self, how: Settings, search: Search, seed: int, size: tuple[int, int]) -> None:
        self.how, self.search, self.size = how, search, size
        self.turns, self.n_moves, self.clipped = seed_word(seed), 0, 0
        seeds = [seed_word(seed + i) for i in range(how.games)]
        self.games = [Game(*oracle.start(*size, 2, rng)) for rng in seeds]
        self.told: list[tuple[float, float]] = []

    def move(self) -> tuple[list[tuple[int, float]], list[list[int]]]:
        """Makes a move in all games.

        Returns:
            The afterstates to learn with their targets, and the score, number of moves and largest
            tile of the games that have ended.
        """
        lessons, ended, clip = [], [], self.how.clip or math.inf
        self.told = []
        for i, game in enumerate(self.games):
            numbers = range(self.search.trees or 1)
            trees = [Tree(game.board, scattered_one, self.search, k) for k in numbers]
            for tree in trees:
                tree.grow(self.search.simulations)
            found = zip(*(tree.result()[0] for tree in trees), strict=True)
            values = [sum(column) / len(trees) for column in found]
            move = trees[0].root.moves.get(values.index(max(values)))
            self.told.append((max(values), move.reward + move.net) if move else (0.0, 0.0))
            for after, target, value in self.lessons(game, trees, move):
                clipped = min(max(target, value - clip), value + clip)
                lessons.append((oracle.to_word(after), clipped))
                self.clipped += clipped != target
            if move is None:
                ended.append([game.score, game.length, 2 ** max(map(max, game.board))])
                self.games[i] = Game(*oracle.start(*self.size, 2, game.rng))
            else:
                self.n_moves += 1
                game.after, game.score = move.after, game.score + move.reward
                game.length += 1
                game.board, game.rng = oracle.spawn(move.after, game.rng)
        if self.how.turn:
            self.turn()
        return lessons, ended

    def lessons(
        self, game: Game, trees: list[Tree], move: Move | None
    ) -> Iterator[tuple[oracle.Board, float, float]]:
        """Afterstates, what they are worth, and what the value function says."""
        how, taught = self.how, list[Move]()
        if how.learn == "root" and game.after is not None:
            target = self.told[-1][how.root == "valued"]
            if how.reward_twice and move is not None:
                target += move.reward
            yield game.after, target, scattered_one(game.after)
        for tree in trees:
            if how.learn == "nodes":
                taught += [each for each in nodes(tree.root) if each.n >= how.visits]
            for _ in range(how.paths if how.learn == "paths" else 0):
                taught += path(tree)
        for each in taught:
            yield each.after, each.value(self.search.unvisited), each.net

    def turn(self) -> None:
        """Turns all boards by chance."""
        self.turns, rng = oracle.splitmix64(self.turns)
        for game in self.games:
            rng, bits = oracle.splitmix64(rng)
            ways = symmetric_boards(game.board)
            game.board = ways[(bits >> 33) % len(ways)]


LOOPS: list[tuple[tuple[int, int], dict[str, Any], dict[str, Any]]] = [
    ((2, 3), {}, {}),
    ((2, 2), {"trees": 2, "select": "falling"}, {"root": "valued"}),
    ((2, 3), {"unvisited": "value"}, {"reward_twice": True, "turn": False}),
    ((3, 3), {"simulations": 1}, {"clip": 20.0}),
    ((2, 3), {"seed": 5}, {"root": "valued", "clip": 3}),
    ((2, 2), {}, {"learn": "nodes"}),
    ((2, 3), {"simulations": 30, "widening": 0.5}, {"learn": "nodes", "visits": 11}),
    ((2, 3), {"trees": 2, "select": "ave"}, {"learn": "nodes", "visits": 2, "clip": 15}),
    ((2, 2), {"trees": 2, "select": "falling"}, {"learn": "paths", "paths": 3}),
    ((2, 3), {"unvisited": "value", "depth": 3}, {"learn": "paths", "clip": 10.0}),
    ((2, 2), {"simulations": 3}, {"learn": "nothing"}),
]


@pytest.mark.parametrize(("size", "search", "settings"), LOOPS, ids=str)
def test_each_move_is_that_of_the_plain_loop(
    size: tuple[int, int], search: dict[str, Any], settings: dict[str, Any]
) -> None:
    """Compared are the lessons of each move, the games that go on, and those that end."""
    how, searched = Settings(**{"games": 3, **settings}), Search(**{"simulations": 12, **search})
    script: Any = Script(scattered, size)
    learner, plain = Learner(script, searched, how, 7), Plain(how, searched, 7, size)
    n_ended, errors = 0, list[float]()
    for i in range(40):
        script.loss, n_before = float(i), plain.n_moves
        lessons, ended = plain.move()
        found = learner.play(max(1, plain.n_moves - n_before))
        assert [n_moves for _, _, n_moves in script.fits] == [n_before] * bool(lessons)
        pairs = [pair for fit in script.fits for pair in zip(*fit[:2], strict=True)]
        script.fits.clear()
        if how.learn == "nodes":
            pairs, lessons = sorted(pairs), sorted(lessons)
        assert [after for after, _ in pairs] == [after for after, _ in lessons]
        targets = [target for _, target in lessons]
        assert [target for _, target in pairs] == pytest.approx(targets, rel=1e-9, abs=1e-9)
        worth, said = np.array(plain.told).T
        told = {"searched": worth.mean(), "valued": said.mean(), "largest": worth.max()}
        assert learner.latest == pytest.approx(told, abs=0.06)
        boards = [oracle.to_word(game.board) for game in plain.games]
        assert learner._games[:, BOARD].tolist() == boards
        assert np.stack(found, 1).tolist() == ended
        n_ended, errors = n_ended + len(ended), errors + [float(i)] * len(pairs)
        assert (learner.n_moves, learner.n_games) == (plain.n_moves, n_ended)
    assert n_ended > 0
    assert (len(errors) > 60) == (how.learn != "nothing")
    assert (plain.clipped > 10) == (how.clip is not None)
    if errors:
        assert learner.loss() == round(math.sqrt(np.mean(errors)), 1)
    assert math.isnan(learner.loss())


@pytest.mark.parametrize(
    ("settings", "target"),
    [({}, 8.0), ({"reward_twice": True}, 16.0), ({"root": "valued"}, 13.0)],
    ids=str,
)
def test_targets_of_roots_by_hand(settings: dict[str, Any], target: float) -> None:
    """On boards of 1x2 two 2s are made one 4; a 2 then ends the game, and a 4 may be made an 8.

    Of these two 4s, simulations find that the better afterstate, to the left, ends the game, and so
    does the other. Each is worth its reward of 8; that to the right is the first, and made; the
    value function says 5 more.
    """
    values = {0x02: 10.0, 0x20: 3.0, 0x03: 20.0, 0x30: 5.0}
    script: Any = Script(lambda boards: [values[board] for board in boards.tolist()], (1, 2))
    how = Settings(games=64, turn=False, **settings)
    learner = Learner(script, Search(simulations=3, select="best", unvisited="outcomes"), how, 1)
    learner.play(1)
    assert script.fits == []  # nothing came before
    afters, boards, n_moves = learner._afters, learner._games[:, BOARD], learner.n_moves
    known = zip(afters.tolist(), boards.tolist(), strict=True)
    expected = [(after, target if board == 0x22 else 0.0) for after, board in known if after]
    assert 0 < len(expected) < 64 and len({target for _, target in expected}) == 2
    learner.play(1)
    ((learned, targets, n_before),) = script.fits
    assert list(zip(learned, targets, strict=True)) == expected
    assert n_before == n_moves


# That it learns


@pytest.mark.parametrize(
    ("size", "simulations", "settings", "share"),
    [
        ((2, 2), 4, {}, 0.99),
        ((2, 2), 4, {"root": "valued"}, 0.99),
        ((2, 3), 1, {}, 0.7),
        ((2, 3), 8, {"learn": "paths", "paths": 2, "clip": 100}, 0.5),
        ((2, 3), 8, {"learn": "nodes", "clip": 100}, 0.6),
    ],
)
def test_tables_learn_to_play(
    size: tuple[int, int], simulations: int, settings: dict[str, Any], share: float
) -> None:
    """The greedy player has this share of the best score; at first, it has a sixth on 2x3."""
    model = TableModel(network([[0, 1, 4, 5], [0, 1]], size))
    learner = Learner(model, Search(simulations=simulations), Settings(**settings), 1)
    best, before = solved(size).value, exact.expected_score(model.player())
    assert before < 0.9 * share * best
    learner.play(40_000)
    assert share * best < exact.expected_score(model.player()) <= best * (1 + 1e-9)


def test_rewards_that_count_twice_make_values_too_large() -> None:
    found = []
    for twice in (False, True):
        model = TableModel(network([[0, 1, 4, 5]], (2, 2)))
        learner = Learner(model, Search(simulations=1), Settings(reward_twice=twice), 1)
        learner.play(20_000)
        found.append(learner.latest["searched"])
    assert 1.5 * found[0] < found[1] < 2.2 * found[0] < 2.2 * solved((2, 2)).value


# Values that run away


def scripted(script: Any, games: int = 3, simulations: int = 2) -> Learner:
    return Learner(script, Search(simulations=simulations), Settings(games=games), 1)


@pytest.mark.parametrize("value", [MOST + 1, -MOST - 2_000, math.nan, math.inf, -math.inf])
def test_values_that_no_board_can_have_end_it(value: float) -> None:
    table = TableModel(network([[0]], symmetric=False))
    table.network.weights[:] = value
    for model in (Script(lambda boards: np.full(len(boards), value)), table):
        learner = scripted(model)
        with pytest.raises(Diverged, match="diverged after 0 moves") as caught:
            learner.play(10)
        assert learner.n_moves == 0
        if math.isfinite(value):
            assert abs(caught.value.last["searched"]) > MOST
            assert "no game has more than 3,932,156" in str(caught.value)
        else:
            assert caught.value.last == {}
            assert "NaN" in str(caught.value)


@pytest.mark.parametrize(("games", "runs_away"), [(4, False), (2, True)])
def test_values_run_away_when_they_are_too_large_on_average(games: int, runs_away: bool) -> None:
    learner = scripted(Script(lambda boards: 1e7 * (np.arange(len(boards)) == 0)), games, 1)
    with pytest.raises(Diverged) if runs_away else nullcontext():
        learner.play(1)
    assert runs_away or learner.latest["largest"] >= 1e7 > 3 * learner.latest["searched"]


@pytest.mark.parametrize("wrong", ["loss", "of"])
def test_the_last_values_are_told(wrong: str) -> None:
    """Those of the last boards that were searched."""
    script, same = Script(scattered), scripted(Script(scattered))
    learner = scripted(script)
    learner.play(30)
    same.play(31 if wrong == "loss" else 30)
    script.loss = math.nan
    if wrong == "of":
        script.of = lambda boards: np.where(boards % 2 == 0, np.nan, 1.0)
    with pytest.raises(Diverged, match=f"after {learner.n_moves} moves: some are NaN") as caught:
        learner.play(1)
    assert caught.value.last == same.latest
    assert set(same.latest) == {"searched", "valued", "largest"}


# Files


TABLES: dict[str, Any] = {
    "network": {"tuples": TUPLES[2, 3], "size": [2, 3]},
    **{"search": {"simulations": 4}, "learner": {"games": 8}, "seed": 1},
}
NEURAL: dict[str, Any] = {
    **{"network": {"name": "Tiny"}, "fitting": {"unit": UNIT, "batch": 16, "average": 0.5}},
    **{"search": {"simulations": 3}, "learner": {"games": 8}, "seed": 1},
}
KINDS = pytest.mark.parametrize("settings", [TABLES, NEURAL], ids=["tables", "neural"])


def made(settings: dict[str, Any], place: Path | None = None, **others: Any) -> Learner:
    """The learner of settings, or of a run with them."""
    run_settings = from_dict({**settings, **others}, Run)
    learner = run_settings.new()
    if place is not None:
        learner.resume(place / run_settings.checkpoints[0])
    return learner


def state(learner: Learner) -> dict[str, Any]:
    """All that a learner is."""
    names = ("n_moves", "n_games", "_rng", "_games", "_afters", "_lengths")
    found: dict[str, Any] = {name: getattr(learner, name) for name in names}
    if isinstance(learner.model, TableModel):
        found |= {"weights": learner.model.network.weights, "sums": learner.model._update.sums}
    elif isinstance(learner.model, NetModel):
        fitter = learner.model._fitter
        found |= {**fitter.tensors(), **fitter.played.state_dict()}
    return {name: np.asarray(value).tolist() for name, value in found.items()}


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("learn", ["root", "paths"])
def test_the_same_seed_learns_the_same_and_another_does_not(learn: str) -> None:
    how = {"games": 6, "learn": learn}
    learners = [made(TABLES, seed=seed, learner=how) for seed in (3, 3, 4, None, 0)]
    scores = [learner.play(600).scores.tolist() for learner in learners]
    assert len(scores[0]) > 5
    assert scores[0] != scores[2]
    assert state(learners[0]) == state(learners[1])
    assert state(learners[3]) == state(learners[4])  # no seed is 0


@pytest.mark.parametrize("how", [{}, {"learn": "nodes", "clip": 50}, {"learn": "paths"}], ids=str)
@KINDS
def test_a_learner_goes_on_as_if_it_had_not_been_saved(
    settings: dict[str, Any], how: dict[str, Any], tmp_path: Path
) -> None:
    learner, again = (made(settings, learner={"games": 5, **how}, seed=seed) for seed in (1, 2))
    learner.play(200)
    learner.save(tmp_path / "learner.file")
    again.resume(tmp_path / "learner.file")
    assert state(again) == state(learner)
    assert again.seconds == pytest.approx(learner.seconds, abs=0.06)
    assert learner.play(200).scores.tolist() == again.play(200).scores.tolist()
    assert state(again) == state(learner)


def interrupted(*arguments: Any) -> Any:
    """What Ctrl-C does."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["fit", "_step"])
@pytest.mark.parametrize("how", [{}, {"learn": "nodes", "clip": 50}], ids=str)
@KINDS
def test_an_interrupted_learner_is_whole(
    settings: dict[str, Any], how: dict[str, Any], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes while it learns, or is about to make the moves; it finishes both."""
    learner, other = (made(settings, learner={"games": 5, **how}) for _ in range(2))
    learner.play(60)
    whose: Any = learner.model if where == "fit" else learner
    go_on = getattr(whose, where)

    def signalled(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return go_on(*arguments)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(whose, where, signalled)
        learner.play(60)
    other.play(learner.n_moves)
    assert 60 < learner.n_moves == other.n_moves < 120
    assert state(learner) == state(other)


class FullDisk(io.FileIO):
    """A file on a disk without room."""

    def write(self, data: Any, /) -> int:
        """Fails."""
        raise OSError(errno.ENOSPC, "No space left on device")


@KINDS
def test_what_cannot_or_must_not_be_saved_leaves_the_old_file(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, and when values have run away."""
    learner, path = made(settings), tmp_path / "learner.file"
    learner.play(30)
    learner.save(path)
    before = contents(tmp_path)
    learner.play(30)
    with monkeypatch.context() as patched:
        patched.setattr(files, "open", FullDisk, raising=False)
        with pytest.raises(OSError, match="No space left"):
            learner.save(path)
    assert contents(tmp_path) == before
    monkeypatch.setattr(learner.model, "fit", lambda *arguments: math.inf)
    with pytest.raises(Diverged):
        learner.play(30)
    learner.save(path)
    learner.save(tmp_path / "other.file")
    assert contents(tmp_path) == before


def spoil(model: Any) -> None:
    """Makes something infinite that no board of a game shows: an entry, a mean of gradients."""
    if isinstance(model, TableModel):
        full = np.array([0xFFF_0FFF], np.uint64)  # of tiles of 32768
        assert math.isfinite(model.fit(full, np.array([1e39]), 0))
    else:
        (kept, *_) = model._fitter.optimizer.state.values()
        kept["exp_avg_sq"].view(-1)[0] = math.inf


@KINDS
def test_what_is_no_number_is_not_saved_even_where_no_board_looks(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    learner, path = made(settings), tmp_path / "learner.file"
    learner.play(30)
    learner.save(path)
    before = contents(tmp_path)
    spoil(learner.model)
    learner.play(30)
    assert np.isfinite(learner.model.estimate(learner._afters)).all()
    with pytest.raises(Diverged, match=f"after {learner.n_moves} moves: some are NaN") as caught:
        learner.save(path)
    assert caught.value.last == learner.latest
    learner.save(path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("where", ["weights", "sums"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_each_number_of_tables_is_looked_at_before_it_is_saved(
    wrong: float, where: str, tmp_path: Path
) -> None:
    learner = made(TABLES)
    model: Any = learner.model
    array = model.network.weights if where == "weights" else model._update.sums
    array[-1] = wrong
    with pytest.raises(Diverged):
        learner.save(tmp_path / "learner.npz")
    assert contents(tmp_path) == {}


@KINDS
def test_a_run_ends_when_what_it_saves_is_no_number(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = TableModel if settings is TABLES else NetModel
    fit = kind.fit

    def spoilt(model: Any, afters: Boards, targets: Any, n_moves: int) -> float:
        loss = float(fit(model, afters, targets, n_moves))
        if n_moves > 300:
            monkeypatch.setattr(kind, "fit", fit)
            spoil(model)
        return loss

    monkeypatch.setattr(kind, "fit", spoilt)
    message = refusal(tmp_path, "--moves", "1e4", settings=settings)
    assert re.search(r"diverged after 4\d\d moves: some are NaN.*as it was saved last$", message)
    *others, last = rows(tmp_path / "run")
    assert [row["n_moves"] // 200 for row in others] == [1]
    assert set(last["diverged"]) == {"searched", "valued", "largest"}
    assert made(settings, tmp_path / "run").n_moves == others[0]["n_moves"]


@KINDS
def test_damaged_and_other_files_are_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    path, net = tmp_path / "a.file", network(TUPLES[2, 3], (2, 3))
    made(settings).save(path)
    whole = path.read_bytes()
    others: list[Any] = [whole[: len(whole) // 2], whole[:-1], b"", b"no learner"]
    others += [made(TABLES if settings is NEURAL else NEURAL).save, partial(nets.save, Tiny())]
    others += [partial(ntuple.save, net), ntuple_learner.Learner(net, seed=1).save]
    for other in others:
        _ = path.write_bytes(other) if isinstance(other, bytes) else other(path)
        with pytest.raises(ValueError, match=r"a\.file"):
            made(settings).resume(path)


# The command


def run(folder: Path, *arguments: str, settings: Any = TABLES, out: str = "run") -> Path:
    """Runs the command line, and returns the folder of the run."""
    (folder / "settings.json").write_text(json.dumps(settings))
    fast = ("--evaluate-every", "200", "--evaluate", "1:3")
    told = [str(folder / "settings.json"), "--out", str(folder / out), *fast, *arguments]
    main(["search", *told])
    return folder / out


def refusal(folder: Path, *arguments: str, settings: Any = TABLES) -> str:
    """The one line with which a run ends."""
    with pytest.raises(SystemExit) as caught:
        run(folder, *arguments, settings=settings)
    message = caught.value.code
    assert isinstance(message, str)
    assert "\n" not in message
    return message


def rows(place: Path) -> list[dict[str, Any]]:
    """The rows, each a line of JSON without numbers that JSON has not."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    lines = (place / "rows.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


@KINDS
def test_a_run_leaves_its_learner_and_its_rows(settings: dict[str, Any], tmp_path: Path) -> None:
    place = run(tmp_path, "--moves", "500", settings=settings)
    player = "learner.npz" if settings is TABLES else "net.safetensors"
    names = {"lock", "rows.jsonl", "settings.json", player, player.replace("net.", "learner.")}
    assert {path.name for path in place.iterdir()} == names
    assert read(place / "settings.json", Run) == from_dict(settings, Run)
    lone, found = made(settings), rows(place)
    assert [row["n_moves"] // 200 for row in found] == [1, 2, 2]
    for row in found:
        while lone.n_moves < row["n_moves"]:
            lone.play(1)
        told = {"error": lone.loss(), **lone.latest, "n_games": lone.n_games}
        assert {name: row[name] for name in told} == pytest.approx(told, abs=0.2)
        assert set(lone.latest) == {"searched", "valued", "largest"}
    assert state(made(settings, place)) == state(lone)
    loaded = agents.load(place / player)
    assert found[-1]["1-ply"] == summary(play(loaded, 3, EVALUATION_SEED))
    boards = random_boards(9, loaded.size)
    assert loaded.act(boards).tolist() == lone.model.player().act(boards).tolist()
    if settings is NEURAL:
        facts = nets.metadata(place / player)
        assert (facts["unit"], facts["learner"]) == (UNIT, asdict(lone.settings))


@KINDS
def test_a_resumed_run_is_that_without_a_break(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it is interrupted in an evaluation, which is then made anew."""
    straight = run(tmp_path, "--moves", "650", settings=settings, out="straight")
    with monkeypatch.context() as patched:
        patched.setattr(from_search.Learner, "loss", interrupted)
        message = refusal(tmp_path, "--moves", "250", settings=settings)
    assert message == f"saved in {tmp_path / 'run'}: continue with --resume"
    run(tmp_path, "--moves", "450", "--resume", settings=settings)
    place = run(tmp_path, "--moves", "650", "--resume", settings=settings)
    assert state(made(settings, place)) == state(made(settings, straight))
    assert [row["n_moves"] // 200 for row in rows(place)] == [1, 2, 2, 3, 3]
    assert rows(place)[-1]["1-ply"] == rows(straight)[-1]["1-ply"]


AWAY: dict[str, Any] = {
    **{"network": {"tuples": [[0]]}, "fitting": {"rule": "td", "rate": 0.05}},
    "search": {"simulations": 10, "select": "L-max", "unseen": "outcomes"},
    **{"learner": {"games": 32}, "seed": 1},
}
"""What is learned of one corner is soon beyond all bounds."""


def test_a_run_whose_values_run_away_ends_with_a_row_and_its_last_file(tmp_path: Path) -> None:
    often = ("--evaluate-every", "2e3")
    message = refusal(tmp_path, "--moves", "1e6", *often, settings=AWAY)
    assert re.search(r"diverged after [\d,]+ moves: .*as it was saved", message)
    *others, last = rows(tmp_path / "run")
    assert set(last) == {"n_games", "n_moves", "seconds", "diverged"}
    assert set(last["diverged"]) == {"searched", "valued", "largest"}
    assert MOST < last["diverged"]["searched"] < 3 * MOST
    grows = [row["searched"] for row in others]
    assert grows == sorted(grows) and grows[-1] > 10 * grows[0]
    assert len(others) > 2 and all("1-ply" in row and "diverged" not in row for row in others)
    learner = made(AWAY, tmp_path / "run")
    assert learner.n_moves == others[-1]["n_moves"] < last["n_moves"]
    other = {**AWAY, "learner": {"games": 32, "learn": "nothing"}}
    place = run(tmp_path, "--moves", "1e4", "--resume", *often, settings=other)
    assert rows(place)[: len(others)] == others
    assert not any("diverged" in row for row in rows(place))


LEARNERS: list[tuple[dict[str, Any], str]] = [
    *(({name: 0}, name) for name in ("games", "paths", "visits")),
    *(({name: 2.5}, name) for name in ("games", "paths", "visits")),
    *(({name: v}, name) for name in ("turn", "reward_twice") for v in (1, None)),
    *(({"learn": v}, "learn") for v in ("leaves", None)),
    *(({"root": v}, "root") for v in ("real", 1)),
    *(({"clip": v}, "clip") for v in (0, -1.5, "100", math.nan)),
    ({"reward_twice": True, "root": "valued"}, "reward_twice is for learning the searched"),
    ({"reward_twice": True, "learn": "paths"}, "reward_twice is for learning the searched"),
    ({"paths": 2}, "paths is for learning 'paths', not 'root'"),
    ({"visits": 2, "learn": "paths"}, "visits is for learning 'nodes', not 'paths'"),
    ({"root": "valued", "learn": "nodes"}, "root is for learning 'root', not 'nodes'"),
    ({"clip": 10, "learn": "nothing"}, "learns nothing"),
    ({"steps": 5}, "steps"),
]

WRONG: list[tuple[dict[str, Any], Any, str]] = [
    *((TABLES, {"learner": told}, message) for told, message in LEARNERS),
    (TABLES, {"fitting": {"batch": 16}}, "batch"),
    *((TABLES, {"fitting": {"rate": v}}, "rate") for v in (0, 2, "1", True)),
    (TABLES, {"fitting": {"rule": "sgd"}}, "rule"),
    (TABLES, {"network": {"colour": 1}}, "colour"),
    (TABLES, {"network": [1]}, "network"),
    (TABLES, {"search": {"depth": 0}}, "depth"),
    (TABLES, {"search": {"playouts": 1}}, "playouts"),
    (TABLES, {"seed": -1}, "seed"),
    (TABLES, {"start": "net.npz"}, "start"),
    (NEURAL, {"start": "net.safetensors"}, "start"),
    ({}, {"start": 5}, "start"),
    ({}, {"start": "nowhere.npz"}, r"nowhere\.npz"),
    ({}, {"start": "nowhere.safetensors"}, r"nowhere\.safetensors"),
    (NEURAL, {"network": {"name": "Tiny", "depth": 3}}, "Tiny got wrong settings: .*depth"),
    (NEURAL, {"fitting": {"rule": "tc"}}, "rule"),
    (NEURAL, {"fitting": {"unit": 0}}, "value_scale"),
    *((each, "--evaluate 1:5,2:5", "evaluate") for each in (TABLES, NEURAL)),
    (TABLES, "--threads 2", "threads"),
    (NEURAL, "--threads 0", "threads"),
    (NEURAL, "--device abacus", "no device 'abacus'"),
]


@pytest.mark.parametrize(("settings", "wrong", "message"), WRONG)
def test_wrong_settings_and_options_end_a_run_before_it_begins(
    settings: dict[str, Any], wrong: Any, message: str, tmp_path: Path
) -> None:
    options, others = (wrong.split(), {}) if isinstance(wrong, str) else ([], wrong)
    found = refusal(tmp_path, "--moves", "100", *options, settings={**settings, **others})
    assert re.search(message, found)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "other", "message"),
    [
        (TABLES, {"learner": {"games": 9}}, "games, not 9"),
        (TABLES, {"fitting": {"rule": "td"}}, "another network or rule"),
        (TABLES, {"network": {"tuples": [[0]], "size": [2, 3]}}, "another network or rule"),
        (NEURAL, {"learner": {"games": 9}}, "games, not 9"),
        (NEURAL, {"fitting": {"unit": 5}}, "another value_scale"),
        (NEURAL, {"network": {"name": "Tiny", "hidden": 9}}, "another network"),
    ],
)
def test_a_run_does_not_go_on_as_another(
    settings: dict[str, Any], other: dict[str, Any], message: str, tmp_path: Path
) -> None:
    place = run(tmp_path, "--moves", "50", "--evaluate", "", settings=settings)
    (row,), before = rows(place), contents(place)
    assert not any(name.endswith("ply") for name in row)
    found = refusal(tmp_path, "--moves", "99", "--resume", settings={**settings, **other})
    assert message in found and "learner." in found
    assert contents(place) == before


@KINDS
def test_a_run_is_not_overwritten(settings: dict[str, Any], tmp_path: Path) -> None:
    """Neither by one of its kind nor by one of the other."""
    place = run(tmp_path, "--moves", "50", settings=settings)
    before = contents(place)
    for other in (TABLES, NEURAL):
        assert "--resume" in refusal(tmp_path, "--moves", "50", settings=other)
        assert contents(place) == before


@KINDS
def test_a_run_starts_from_a_network(settings: dict[str, Any], tmp_path: Path) -> None:
    """That of a player, that of a run; in the unit of its file, or in that of the settings."""
    first = run(tmp_path, "--moves", "50", settings=settings, out="first")
    source = first / ("learner.npz" if settings is TABLES else "net.safetensors")
    told = {name: settings[name] for name in ("search", "learner")} | {"start": str(source)}
    player, learner = agents.load(source), made(told)
    boards = random_boards(9, player.size)
    values = made(settings, first).model.estimate(boards)
    assert learner.model.estimate(boards).tolist() == values.tolist()
    assert (learner.n_moves, np.abs(values).max() > 1) == (0, True)
    place = run(tmp_path, "--moves", "50", settings=told)
    assert made(told, place).model.estimate(boards).tolist() != values.tolist()
    if settings is TABLES:
        ntuple.save(player.network, tmp_path / "net.npz")
        again = made({**told, "start": str(tmp_path / "net.npz")})
        assert again.model.estimate(boards).tolist() == values.tolist()
    else:
        other = made({**told, "fitting": {"unit": 5}}).model.estimate(boards)
        assert other == pytest.approx(values / UNIT * 5, rel=1e-5)
