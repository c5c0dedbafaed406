"""Learning from Monte-Carlo Softmax searches, compared with a plain loop over lists."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")

from torch import Tensor

from afterstate.agents import nets
from afterstate.agents.game2048.learning.from_search import SearchValueLearner, score_limit
from afterstate.agents.game2048.learning.net_model import NetModel
from afterstate.agents.game2048.learning.run_settings import NTupleSettings, SearchValueSettings
from afterstate.agents.game2048.learning.table_model import TableModel
from afterstate.agents.game2048.search import exact
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.search.softmax_search import BoardBatch, write_nodes, write_paths
from afterstate.agents.game2048.search.softmax_settings import MCSoftmaxSettings
from afterstate.agents.game2048.search.softmax_tree import Trees
from afterstate.agents.game2048.values import value_net
from afterstate.agents.game2048.values.ntuple import estimate
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.agents.training.fitting_settings import FittingSettings
from afterstate.agents.training.run import Diverged
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.game2048.games import BOARD
from tests.oracles import game2048 as oracle
from tests.oracles.from_search import NaiveSearchLearner
from tests.oracles.ntuple import NaiveLearner, entry
from tests.oracles.softmax import outcomes
from tests.support.game2048.search_learners import (
    SCALE,
    TUPLES,
    Script,
    Tiny,
    random_boards,
    scattered,
)

pytestmark = pytest.mark.usefixtures("one_thread")

LIMIT = score_limit((4, 4))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    "settings", [{}, {"trees": 3, "select": "falling"}, {"widening": 0.5}, {"reuse": True}], ids=str
)
def test_write_nodes_writes_those_with_outcomes_and_enough_visits(
    compiled: bool, settings: dict[str, Any]
) -> None:
    """They are read from the trees once more in Python."""
    net, search = network(TUPLES[4, 4]), MCSoftmaxSettings(**{"simulations": 60, **settings})
    net.weights[:] = np.random.default_rng(1).uniform(0, 30, net.weights.size)
    grower = MCSoftmaxAgent(net if compiled else Script(partial(estimate, net)), search)
    searcher, n_each = MCSoftmaxAgent(net, search), search.trees or 1
    for boards in (random_boards(4), random_boards(2), random_boards(5)[1:]):
        (trees, order), result = grower.grow(boards), searcher.search(boards)
        assert order.values.reshape(-1, n_each, 4).mean(1).tolist() == result.values.tolist()
        assert order.visits.reshape(-1, n_each, 4).sum(1).tolist() == result.visits.tolist()
        firsts = (order.firsts[:, None] + np.arange(n_each)).reshape(-1)
        roots = trees.states["board"][firsts * trees.capacity].reshape(-1, n_each)
        assert (roots == boards[:, None]).all()
        ends = zip(firsts * trees.capacity, trees.sizes[firsts], strict=True)
        places = [place for first, n in ends for place in range(4 * first, 4 * (first + n))]
        moves = [trees.moves[place] for place in places if outcomes(trees, place)]
        for least in (1, 2, 11):
            expected = [[m["after"], m["value"], m["net"]] for m in moves if m["n"] >= least]
            afters, values = np.zeros(1_000, np.uint64), np.full((1_000, 2), np.nan)
            n = write_nodes(trees, order, least, afters, values)
            assert list(map(list, zip(afters[:n], *values[:n].T, strict=True))) == expected
            assert n > 10 / least and (values[:n, 0] != values[:n, 1]).any()
            assert (afters[n:] == 0).all() and np.isnan(values[n:]).all()


def paths(trees: Trees, order: BoardBatch, n_paths: int, *temperatures: float) -> list[int]:
    """Return the afterstates on random paths."""
    afters = np.zeros(n_paths * len(trees.states), np.uint64)
    values = np.zeros((len(afters), 2))
    n = write_paths(trees, order, n_paths, np.array(temperatures), afters, values)
    result: list[int] = afters[:n].tolist()
    return result


def test_cold_paths_follow_the_best_moves_and_hot_paths_are_uniform() -> None:
    """In trees with a single outcome of each move, cold paths are deterministic."""
    player = MCSoftmaxAgent(
        Script(scattered), MCSoftmaxSettings(simulations=60, trees=3, select="ave")
    )
    trees, order = player.grow(random_boards(4))
    expected: list[int] = []
    for tree in range(12):
        state: int | None = tree * trees.capacity
        while state is not None and trees.states[state]["n_legal"]:
            moves = trees.moves[4 * state : 4 * state + 4]
            values = [float(m["reward"] + m["value"]) if m["after"] else -math.inf for m in moves]
            best = values.index(max(values))
            state = next(iter(outcomes(trees, 4 * state + best).values()), None)
            expected += [int(moves[best]["after"])] * (state is not None)
    assert len(expected) > 20
    assert paths(trees, order, 1, 1e-9, 1e-9) == paths(trees, order, 1, 0.0, 0.0) == expected
    trees, order = player.grow(random_boards(1))
    assert (trees.moves["n_outcomes"][:4] == 1).all()
    counts = Counter(paths(trees, order, 4_000, 1e9, 1e9))  # in three trees
    firsts = [counts[after] for after in trees.moves["after"][:4].tolist()]
    assert firsts == pytest.approx([3_000] * 4, abs=250)


@pytest.mark.parametrize(("rate", "error", "end"), [(0.5, 62.5, 17.5), (1.0, 50.0, 20.0)])
def test_a_temporal_difference_equals_that_by_hand(rate: float, error: float, end: float) -> None:
    """An entry of value 10 is learned twice toward 20, the second time from its new value."""
    net = network([[0, 1]], (2, 2), symmetric=False)
    net.weights[entry([1, 2])] = 10
    model, afters = TableModel(net, "td", rate), np.array([0x34_0021, 0x21], np.uint64)
    assert model.fit(afters, np.array([20.0, 20.0]), 7) == error
    assert model.estimate(afters).tolist() == [end, end]
    assert np.flatnonzero(net.weights).tolist() == [entry([1, 2])]


@pytest.mark.parametrize("rule", ["td", "tc"])
@pytest.mark.parametrize("size", TUPLES)
def test_tables_learn_by_the_rules_of_self_play(size: tuple[int, int], rule: Any) -> None:
    naive = NaiveLearner(NTupleSettings(rule, rate=0.7), TUPLES[size], size, 1)
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


def test_a_network_is_fitted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each afterstate is in one step; their order and the rate depend on the number of moves."""
    fitting, steps = FittingSettings(batch=2, rate=1e-3, decay=1_000), list[list[int]]()
    model, afters = NetModel(Tiny(), fitting, SCALE), random_boards(5)
    squares = {int(after): i * 100.0**i for i, after in enumerate(afters)}

    def step(boards: Tensor, targets: Tensor, rate: float) -> Tensor:
        error = targets.square().mean()  # that of values of 0
        steps.append(torch_rules.to_words(boards).tolist())
        expected = np.mean([squares[board] for board in steps[-1]])
        assert float(error) * SCALE**2 == pytest.approx(expected, rel=1e-5)
        assert rate == fitting.rate_after(500 if len(steps) <= 6 else 600)
        return error

    monkeypatch.setattr(model._fitter, "step", step)
    mean = sum(squares.values()) / 5
    for n_moves in (500, 500, 600):
        error = model.fit(afters, np.sqrt(list(squares.values())), n_moves)
        assert error == pytest.approx(mean, rel=1e-5)
    assert sorted(map(len, steps)) == [1] * 3 + [2] * 6
    assert sorted(board for boards in steps[:3] for board in boards) == sorted(squares)
    assert steps[:3] == steps[3:6] != steps[6:]


@pytest.mark.parametrize(("name", "n_times", "rate"), [("Tiny", 150, 1e-2), ("CNN22", 8, 3e-4)])
def test_the_error_of_a_network_falls(
    name: str, n_times: int, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(value_net.NETWORKS, "Tiny", Tiny)
    with nets.seeded(1):
        model = NetModel(
            value_net.network(name), FittingSettings(batch=16, rate=rate, average=0.5), SCALE
        )
    afters = random_boards(32)
    targets = 300 + 5 * scattered(afters)
    errors = [model.fit(afters, targets, n) for n in range(n_times)]
    assert errors[-1] < 0.2 * errors[0]
    assert ((model.estimate(afters) - targets) ** 2).mean() < 0.5 * errors[0]
    assert model.player().estimate(afters).tolist() == model.estimate(afters).tolist()


@pytest.mark.parametrize(
    ("size", "search", "settings"),
    [
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
    ],
    ids=str,
)
def test_each_move_equals_that_of_the_plain_loop(
    size: tuple[int, int], search: dict[str, Any], settings: dict[str, Any]
) -> None:
    """The afterstates and targets, the boards, and the games that end are compared."""
    own, searches = (
        SearchValueSettings(**{"games": 3, **settings}),
        MCSoftmaxSettings(**{"simulations": 12, **search}),
    )
    script: Any = Script(scattered, size)
    learner, naive = (
        SearchValueLearner(script, searches, own, 7),
        NaiveSearchLearner(own, searches, 7, size),
    )
    n_ended, errors = 0, list[float]()
    for i in range(40):
        script.loss, n_before = float(i), naive.n_moves
        expected, ended = naive.move()
        games = learner.learn(max(1, naive.n_moves - n_before))
        assert [n_moves for _, _, n_moves in script.fits] == [n_before] * bool(expected)
        samples = [pair for fit in script.fits for pair in zip(*fit[:2], strict=True)]
        script.fits.clear()
        if own.learn == "nodes":
            samples, expected = sorted(samples), sorted(expected)
        assert [after for after, _ in samples] == [after for after, _ in expected]
        targets = [target for _, target in expected]
        assert [target for _, target in samples] == pytest.approx(targets, rel=1e-9, abs=1e-9)
        searched, valued = np.array(naive.latest).T
        latest = {"searched": searched.mean(), "valued": valued.mean(), "largest": searched.max()}
        assert learner.latest == pytest.approx(latest, abs=0.06)
        boards = [oracle.to_word(game.board) for game in naive.games]
        assert learner._games[BOARD].tolist() == boards
        assert np.stack(games, 1).tolist() == ended
        n_ended, errors = n_ended + len(ended), errors + [float(i)] * len(samples)
        assert (learner.n_moves, learner.n_games) == (naive.n_moves, n_ended)
    assert n_ended > 0
    assert (len(errors) > 60) == (own.learn != "nothing")
    assert (naive.n_clipped > 10) == (own.clip is not None)
    if errors:
        assert learner.loss() == round(math.sqrt(np.mean(errors)), 1)
    assert math.isnan(learner.loss())


@pytest.mark.parametrize(
    ("settings", "target"),
    [({}, 8.0), ({"reward_twice": True}, 16.0), ({"root": "valued"}, 13.0)],
    ids=str,
)
def test_targets_of_roots_equal_those_by_hand(settings: dict[str, Any], target: float) -> None:
    """On boards of 1x2 two 2s merge to a 4. Then a new 2 ends the game, a new 4 merges to an 8.

    The search of two 4s finds that both moves have a reward of 8 and end the game. It makes the
    first one, to the right, for which the value function adds 5.
    """
    values = {0x02: 10.0, 0x20: 3.0, 0x03: 20.0, 0x30: 5.0}
    script: Any = Script(lambda boards: [values[board] for board in boards.tolist()], (1, 2))
    own = SearchValueSettings(games=64, turn=False, **settings)
    learner = SearchValueLearner(
        script, MCSoftmaxSettings(simulations=3, select="best", unvisited="outcomes"), own, 1
    )
    learner.learn(1)
    assert script.fits == []  # there is no previous afterstate
    afters, boards, n_moves = learner._afters, learner._games[BOARD], learner.n_moves
    pairs = zip(afters.tolist(), boards.tolist(), strict=True)
    expected = [(after, target if board == 0x22 else 0.0) for after, board in pairs if after]
    assert 0 < len(expected) < 64 and len({target for _, target in expected}) == 2
    learner.learn(1)
    ((learned, targets, n_before),) = script.fits
    assert list(zip(learned, targets, strict=True)) == expected
    assert n_before == n_moves


@pytest.mark.slow
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
    """The greedy player reaches this share of the best score; on 2x3 it begins at a sixth."""
    model = TableModel(network([[0, 1, 4, 5], [0, 1]], size))
    learner = SearchValueLearner(
        model, MCSoftmaxSettings(simulations=simulations), SearchValueSettings(**settings), 1
    )
    best, before = exact.solve(size).value, exact.expected_score(model.player())
    assert before < 0.9 * share * best
    learner.learn(40_000)
    assert share * best < exact.expected_score(model.player()) <= best * (1 + 1e-9)


def test_rewards_that_count_twice_make_values_too_large() -> None:
    searched = []
    for twice in (False, True):
        model = TableModel(network([[0, 1, 4, 5]], (2, 2)))
        learner = SearchValueLearner(
            model, MCSoftmaxSettings(simulations=1), SearchValueSettings(reward_twice=twice), 1
        )
        learner.learn(20_000)
        searched.append(learner.latest["searched"])
    assert 1.5 * searched[0] < searched[1] < 2.2 * searched[0] < 2.2 * exact.solve((2, 2)).value


def scripted(script: Any, games: int = 3, simulations: int = 2) -> SearchValueLearner:
    return SearchValueLearner(
        script, MCSoftmaxSettings(simulations=simulations), SearchValueSettings(games=games), 1
    )


@pytest.mark.parametrize("value", [LIMIT + 1, -LIMIT - 2_000, math.nan, math.inf, -math.inf])
def test_learning_stops_at_values_that_no_board_can_have(value: float) -> None:
    for is_table in (False, True):
        table = TableModel(network([[0]], symmetric=False))
        learner = scripted(
            table if is_table else Script(lambda boards: np.full(len(boards), value))
        )
        table.network.weights[:] = value
        with pytest.raises(Diverged, match="diverged after 0 moves") as caught:
            learner.learn(10)
        assert learner.n_moves == 0
        if math.isfinite(value):
            assert abs(caught.value.last["searched"]) > LIMIT
            assert "no game has more than 3,932,156" in str(caught.value)
        else:
            assert caught.value.last == {}
            assert "NaN" in str(caught.value)


@pytest.mark.parametrize(("games", "diverges"), [(4, False), (2, True)])
def test_the_mean_value_of_the_boards_is_limited(games: int, diverges: bool) -> None:
    learner = scripted(Script(lambda boards: 1e7 * (np.arange(len(boards)) == 0)), games, 1)
    with pytest.raises(Diverged) if diverges else nullcontext():
        learner.learn(1)
    assert diverges or learner.latest["largest"] >= 1e7 > 3 * learner.latest["searched"]


@pytest.mark.parametrize("wrong", ["loss", "values"])
def test_the_error_has_the_last_finite_values(wrong: str) -> None:
    script, same = Script(scattered), scripted(Script(scattered))
    learner = scripted(script)
    learner.learn(30)
    same.learn(31 if wrong == "loss" else 30)
    script.loss = math.nan
    if wrong == "values":
        script.function = lambda boards: np.where(boards % 2 == 0, np.nan, 1.0)
    with pytest.raises(Diverged, match="NaN") as caught:
        learner.learn(1)
    sent = pickle.loads(pickle.dumps(caught.value))  # from another process
    assert caught.value.last == same.latest == sent.last and str(sent) == str(caught.value)
    assert set(same.latest) == {"searched", "valued", "largest"}


WRONG: list[tuple[dict[str, Any], str]] = [
    *(({name: value}, name) for name in ("games", "paths", "visits") for value in (0, 2.5)),
    *(({name: value}, name) for name in ("turn", "reward_twice") for value in (1, None)),
    *(({"learn": value}, "learn") for value in ("leaves", None)),
    *(({"root": value}, "root") for value in ("real", 1)),
    *(({"clip": value}, "clip") for value in (0, -1.5, "100", math.nan)),
    ({"reward_twice": True, "root": "valued"}, "reward_twice"),
    ({"reward_twice": True, "learn": "paths"}, "reward_twice"),
    ({"paths": 2}, "paths is for learn='paths'"),
    ({"visits": 2, "learn": "paths"}, "visits is for learn='nodes'"),
    ({"root": "valued", "learn": "nodes"}, "root is for learn='root'"),
    ({"clip": 10, "learn": "nothing"}, "clip"),
    ({"steps": 5}, "steps"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG, ids=str)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SearchValueSettings(**settings)


def test_a_search_that_reuses_trees_is_refused() -> None:
    script: Any = Script(scattered)
    with pytest.raises(ValueError, match="reuse"):
        SearchValueLearner(script, MCSoftmaxSettings(reuse=True))
