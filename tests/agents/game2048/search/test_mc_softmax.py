"""The player of Monte-Carlo Softmax search: searches, reused trees and unusual values."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

from afterstate import agents
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search import mc_softmax, softmax_tree
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.search.mc_softmax import (
    MCSoftmaxAgent,
    learned_temperature,
)
from afterstate.agents.game2048.search.softmax_settings import POLICIES, MCSoftmaxSettings
from afterstate.agents.game2048.values.ntuple import estimate
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.envs.game2048.rules import from_text
from tests.oracles import game2048 as oracle
from tests.oracles.softmax import followed, picture, roots
from tests.support.game2048.softmax_checks import (
    EARLY,
    OVER,
    Boards,
    Oracle,
    as_estimator,
    as_words,
    check,
    random_boards,
    random_network,
    trees_of,
)

# Batches, seeds and copies


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("settings", [{}, {"trees": 3}, {"leaves": 4}], ids=str)
def test_the_search_of_a_board_does_not_depend_on_its_batch(
    compiled: bool, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    net, boards = random_network(), as_words(random_boards(12, 5))
    config = MCSoftmaxSettings(simulations=40, **settings)
    agent = MCSoftmaxAgent(net if compiled else as_estimator(net), config)
    action, values, visits = agent.search(boards)
    order = np.random.default_rng(1).permutation(12)
    for turned, parts in ((order, [order]), (np.arange(12), np.arange(12)[:, None])):
        result = [agent.search(boards[part]) for part in parts]
        assert np.concatenate([each.action for each in result]).tolist() == action[turned].tolist()
        assert np.concatenate([each.values for each in result]).tolist() == values[turned].tolist()
        assert np.concatenate([each.visits for each in result]).tolist() == visits[turned].tolist()
    monkeypatch.setattr(mc_softmax, "_MAX_STATES", 5 * 40 * (config.trees or 1))
    again = MCSoftmaxAgent(agent.network, config)
    assert again.search(boards).values.tolist() == values.tolist()
    assert trees_of(again).sizes.size == (1 if compiled else 5) * (config.trees or 1)


@pytest.mark.parametrize("n_trees", [None, 4])
def test_another_seed_gives_another_search(n_trees: int | None) -> None:
    """No two trees of a board draw the same numbers, whatever their seeds."""
    net, boards = random_network(), as_words(random_boards(8, 6))
    searches, words = [], set()
    for seed in range(10):
        config = MCSoftmaxSettings(simulations=60, seed=seed, trees=n_trees)
        agent = MCSoftmaxAgent(net, config)
        searches.append(agent.search(boards).visits.tolist())
        assert MCSoftmaxAgent(net, config).search(boards).visits.tolist() == searches[-1]
        assert searches[-1] not in searches[:-1]
        words.update(trees_of(agent).random[:, 1].tolist())
    assert len(words) == 10 * (n_trees or 1)


@pytest.mark.parametrize("reuse", [True, False])
def test_copies_and_pickles_search_alike(reuse: bool) -> None:
    net, size = random_network((2, 3)), (2, 3)
    for values in (net, as_estimator(net)):
        agent = MCSoftmaxAgent(values, MCSoftmaxSettings(simulations=100, reuse=reuse))
        board, rng = oracle.start(*size, 2, 1)
        agent.search(as_words([board]))
        after, _ = oracle.move(board, int(agent.act(as_words([board]))[0]))
        agent.search(as_words([board]))
        board, _ = oracle.spawn(after, rng)
        copies = [copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))]
        result = agent.search(as_words([board]))
        assert (result.visits.sum() > 99) == reuse
        for each in copies:
            again = each.search(as_words([board]))
            assert again.visits.tolist() == result.visits.tolist()
            assert again.values.tolist() == result.values.tolist()


def test_leaves_are_evaluated_in_batches() -> None:
    net, boards = random_network(), as_words(random_boards(4, 7))
    one, many = as_estimator(net), as_estimator(net)
    config: dict[str, Any] = {"simulations": 120, "select": "L-max", "unvisited": "outcomes"}
    MCSoftmaxAgent(one, MCSoftmaxSettings(**config)).search(boards)
    result = MCSoftmaxAgent(many, MCSoftmaxSettings(**config, leaves=4)).search(boards)
    assert max(one.batch_sizes) <= 4 * 4 < max(many.batch_sizes) <= 4 * 4 * 4
    assert len(one.batch_sizes) == 120
    assert 30 < len(many.batch_sizes) < 60
    assert sum(many.batch_sizes) == pytest.approx(sum(one.batch_sizes), rel=0.2)
    assert result.visits.sum(1).tolist() == [119] * 4


@pytest.mark.parametrize("leaves", [1, 8])
def test_an_afterstate_of_a_tree_is_evaluated_once(leaves: int) -> None:
    """Also an early afterstate, to which many lines of play lead."""
    evaluated: list[int] = []
    net = random_network()

    def remember(boards: Boards) -> Any:
        evaluated.extend(boards.tolist())
        return estimate(net, boards)

    agent = MCSoftmaxAgent(Oracle(remember), MCSoftmaxSettings(simulations=300, leaves=leaves))
    for _ in range(2):  # the second search evaluates again, as values may have changed
        evaluated.clear()
        agent.search([EARLY])
        moves = trees_of(agent).moves[: 4 * trees_of(agent).sizes[0]]
        afters = moves["after"][moves["after"] > 0].tolist()
        assert len(afters) > 1.1 * len(evaluated)
        assert len(evaluated) == len(set(evaluated)) and set(evaluated) == set(afters)


# Reuse of trees


@pytest.mark.slow
@pytest.mark.parametrize("widening", [1.0, 0.3])
def test_a_new_root_keeps_its_subtree(widening: float) -> None:
    config = MCSoftmaxSettings(simulations=400, reuse=True, widening=widening)
    agent = MCSoftmaxAgent(random_network(), config)
    largest = 0
    for board in random_boards(3, 8):
        agent.search(as_words([board]))
        whole = picture(trees_of(agent), 0)
        assert not softmax_tree.reroot(trees_of(agent), 0, np.uint64(0))
        assert softmax_tree.reroot(trees_of(agent), 0, as_words([board])[0])
        assert picture(trees_of(agent), 0) == whole
        for word, number in followed(trees_of(agent)).items():
            other = copy.deepcopy(agent)
            trees = trees_of(other)
            before = picture(trees, number)
            assert softmax_tree.reroot(trees, 0, np.uint64(word))
            assert picture(trees, 0) == before
            largest = max(largest, len(check(other)()))
    assert largest > 10


@pytest.mark.parametrize(
    ("leaves", "widening"),
    [(None, 0.5), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((1, 0.5), (6, 1.0)))],
)
def test_reuse_keeps_the_trees_of_games(leaves: int | None, widening: float) -> None:
    """Five games, which end one after the other; without leaves the search is compiled."""
    net = random_network()
    config = MCSoftmaxSettings(simulations=30, reuse=True, leaves=leaves or 1, widening=widening)
    agent = MCSoftmaxAgent(as_estimator(net) if leaves else net, config)
    known: dict[int, dict[int, int]] = {}
    workspaces: set[int] = set()
    reused: list[int] = []

    def watch(running: Any, boards: Boards, actions: Any) -> None:
        trees, before = trees_of(agent), dict(known)
        workspaces.add(id(trees))
        for game, board in zip(running.tolist(), boards.tolist(), strict=True):
            tree, n = roots(trees)[board], before.get(game, {}).get(board, 0)
            if not any(board in before[other] for other in before.keys() - {game}):
                reused.append(n)
                made, full = trees.states[tree * trees.capacity]["n"] - n, trees.capacity == 60
                assert made == 30 or (full and n > 0 and 60 - n <= made < 30)
            if len(reused) % 100 == 0:
                check(agent)(tree)
            after = followed(trees, tree)
            known[game] = {word: int(trees.states[n]["n"]) for word, n in after.items()}

    games = play(agent, 5, seed=4, watch=watch)
    assert len(workspaces) == 1  # all searches use the memory of the first move
    assert len(set(games.n_moves.tolist())) == 5
    assert 0.8 * games.n_moves.sum() < len(reused) < 3 * np.count_nonzero(reused)


@pytest.mark.parametrize("compiled", [True, False])
def test_trees_are_matched_to_boards_in_any_order(compiled: bool) -> None:
    """Four games: b ends, and d comes to a board that is not in its tree; then a ends."""
    net = random_network()
    config = MCSoftmaxSettings(simulations=100, reuse=True)
    agent = MCSoftmaxAgent(net if compiled else as_estimator(net), config)
    shown = dict(zip("abcd*", as_words(random_boards(30, 9)[-5:]).tolist(), strict=True))
    agent.search([shown[game] for game in "abcd"])
    for games in ("ac*", "cd", "cd"):
        trees, expected = trees_of(agent), [99] * len(games)
        for i, game in enumerate(games.removesuffix("*")):
            ways = followed(trees, roots(trees)[shown[game]])
            shown[game] = max(ways, key=lambda word: int(trees.states[ways[word]]["n"]))
            expected[i] += int(trees.states[ways[shown[game]]]["n"])
        assert agent.search([shown[g] for g in games]).visits.sum(1).tolist() == expected, games
        if "*" in games:
            shown["d"] = shown["*"]


@pytest.mark.slow
def test_a_failed_search_does_not_affect_the_next() -> None:
    """The value function fails in the middle of a search, when some states wait for values."""
    net = random_network()
    for n_answers in (1, 2, 5, 10):
        values = as_estimator(net)
        agent = MCSoftmaxAgent(values, MCSoftmaxSettings(simulations=100, reuse=True, leaves=8))

        def fail(boards: Boards, values: Oracle = values, n: int = n_answers) -> Any:
            return estimate(net, boards) if len(values.batch_sizes) <= n else None

        values.of = fail
        with pytest.raises(ValueError, match="values"):
            agent.search([EARLY])
        values.of = partial(estimate, net)
        result = agent.search([EARLY])
        check(agent)()
        fresh = MCSoftmaxAgent(as_estimator(net), agent.settings).search([EARLY])
        assert result.visits.tolist() == fresh.visits.tolist()


# Unusual boards and values


@pytest.mark.parametrize("trees", [None, 3])
@pytest.mark.parametrize("choose", ["value", "visits"])
def test_moves_of_a_finished_game_have_value_minus_infinity(
    trees: int | None, choose: Literal["value", "visits"]
) -> None:
    net = random_network()
    for values in (net, as_estimator(net)):
        agent = MCSoftmaxAgent(
            values, MCSoftmaxSettings(simulations=20, trees=trees, choose=choose)
        )
        result = agent.search([OVER, EARLY, OVER])
        assert result.values[[0, 2]].tolist() == [[-np.inf] * 4] * 2
        assert result.visits.sum(1).tolist() == [0, 19 * (trees or 1), 0]
        assert (result.action < 0).tolist() == [True, False, True]
        assert agent.act([OVER, EARLY, OVER])[[0, 2]].tolist() == [0, 0]
        assert agent.evaluate(OVER).tolist() == [-np.inf] * 4
        assert agent.act(0) == 0  # an empty board


ODD: list[Callable[[Boards], Any]] = [
    lambda boards: np.full(len(boards), -5.0),
    lambda boards: np.zeros(len(boards), np.int64),
    lambda boards: np.full(len(boards), 1e-300),
    lambda boards: 1e12 * np.sin(boards % 1000),
    lambda boards: (np.sin(boards % 1000) * 300).tolist(),
    lambda boards: -1e12 - 1e9 * np.sin(boards % 1000),
]


@pytest.mark.slow
@pytest.mark.parametrize("of", ODD)
def test_unusual_values_give_valid_searches(of: Callable[[Boards], Any]) -> None:
    boards = as_words([*random_boards(3, 10), oracle.from_word(EARLY, 4, 4)])
    legal = np.isfinite(ExpectimaxAgent(random_network(), 1).evaluate(boards))
    for select, backup in zip(POLICIES, [*POLICIES[3:], *POLICIES[:3]], strict=True):
        config = MCSoftmaxSettings(simulations=30, select=select, backup=backup, leaves=2)
        agent = MCSoftmaxAgent(Oracle(of), config)
        result = agent.search(boards)
        assert (np.isfinite(result.values) == legal).all()
        assert (result.values[~legal] == -np.inf).all()
        assert result.visits.sum(1).tolist() == np.where(legal.any(1), 29, 0).tolist()
        assert legal[range(4), agent.act(boards)][legal.any(1)].all()
        for tree in range(4):
            check(agent)(tree)


@pytest.mark.parametrize(
    ("error", "of"),
    [
        (ValueError, lambda boards: np.ones((len(boards), 1))),
        (ValueError, lambda boards: np.ones(len(boards) + 1)),
        (ValueError, lambda boards: 1.0),
        (ValueError, lambda boards: None),
        (ValueError, lambda boards: ["many values"] * len(boards)),
        (FloatingPointError, lambda boards: [np.nan] + [1.0] * (len(boards) - 1)),
        (FloatingPointError, lambda boards: np.full(len(boards), np.inf)),
        (FloatingPointError, lambda boards: np.full(len(boards), 1.7e308)),
        (ValueError, lambda boards: np.full(len(boards), 1 + 2j)),
    ],
)
def test_wrong_values_are_refused(error: type[Exception], of: Callable[[Boards], Any]) -> None:
    with pytest.raises(error, match="values"):
        MCSoftmaxAgent(Oracle(of)).act([EARLY])


def test_estimators_may_write_to_their_argument() -> None:
    def writing(boards: Boards) -> Any:
        values = boards.astype(np.float64) % 1000
        boards[:] = 0
        return values

    def reading(boards: Boards) -> Any:
        return boards.astype(np.float64) % 1000

    result = [MCSoftmaxAgent(Oracle(of)).evaluate(EARLY).tolist() for of in (writing, reading)]
    assert result[0] == result[1]


# Interface


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_tables_with_nan_raise_and_do_not_affect_the_next_search(wrong: float) -> None:
    net = random_network()
    weights = net.weights.copy()
    agent = MCSoftmaxAgent(net, MCSoftmaxSettings(simulations=50))
    net.weights[::7] = wrong
    with pytest.raises(FloatingPointError, match="NaN"):
        agent.search([EARLY])
    net.weights[:] = weights
    result = agent.search([EARLY])
    check(agent)()
    assert result.visits.sum() == 49


@pytest.mark.parametrize("compiled", [True, False])
def test_trees_are_kept_when_there_are_more_boards(compiled: bool) -> None:
    net = random_network()
    agent = MCSoftmaxAgent(
        net if compiled else as_estimator(net), MCSoftmaxSettings(50, reuse=True)
    )
    assert agent.search([EARLY]).visits.sum() == 49
    boards = [*as_words(random_boards(4, 2)).tolist(), EARLY]
    assert agent.search(boards).visits[-1].sum() == 99
    other = MCSoftmaxAgent(
        net if compiled else as_estimator(net), MCSoftmaxSettings(50, reuse=True)
    )
    other.search([EARLY])
    assert other.search([EARLY]).values[0].tolist() == agent.evaluate(EARLY).tolist()


def test_the_same_board_is_searched_further_until_its_tree_is_full() -> None:
    agent = MCSoftmaxAgent(random_network(), MCSoftmaxSettings(simulations=100, reuse=True))
    counts = [int(agent.search([EARLY]).visits.sum()) for _ in range(3)]
    assert counts == [99, 199, 199]
    check(agent)()


def test_settings_and_network_are_read_only() -> None:
    agent: Any = MCSoftmaxAgent(network([[0, 1]], (2, 2)))
    for name in ("settings", "network"):
        with pytest.raises(AttributeError):
            setattr(agent, name, None)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [True, False])
def test_threads_can_share_a_player(compiled: bool) -> None:
    net = random_network()
    agent = MCSoftmaxAgent(
        net if compiled else as_estimator(net), MCSoftmaxSettings(simulations=500)
    )
    boards = as_words(random_boards(64)).reshape(16, 4)
    alone = [agent.search(each).values.tolist() for each in boards]
    with ThreadPoolExecutor(4) as threads:
        together = [result.values.tolist() for result in threads.map(agent.search, boards)]
    assert together == alone


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("compiled", [True, False])
def test_results_have_the_shape_of_the_boards(compiled: bool, reuse: bool) -> None:
    net, boards = random_network(), as_words(random_boards(12, 11)).reshape(3, 4)
    values = net if compiled else as_estimator(net)

    def fresh() -> MCSoftmaxAgent:
        return MCSoftmaxAgent(values, MCSoftmaxSettings(simulations=20, reuse=reuse))

    for empty in (np.empty(0, np.uint64), np.empty((2, 0), np.uint64)):
        assert fresh().search(empty).values.shape == (*empty.shape, 4)
    assert fresh().act(np.empty(0, np.uint64)).shape == (0,)
    result = fresh().search(boards)
    assert [each.shape for each in result] == [(3, 4), (3, 4, 4), (3, 4, 4)]
    assert result.values.dtype == np.float64
    assert result.visits.dtype == np.int64
    assert fresh().act(boards.reshape(-1)).tolist() == result.values.argmax(-1).reshape(-1).tolist()
    assert fresh().search(boards[::2, 1]).values.tolist() == result.values[::2, 1].tolist()
    single = fresh().search(boards[1, 2])
    assert single.values.tolist() == fresh().evaluate(boards[1, 2]).tolist()
    assert single.values.tolist() == result.values[1, 2].tolist()
    assert fresh().act(int(boards[1, 2])).shape == ()
    with pytest.raises(ValueError, match="board"):
        fresh().search(1.5)
    with pytest.raises(ValueError, match="tiles outside"):
        MCSoftmaxAgent(random_network((2, 3))).search(EARLY)


def test_the_move_is_that_with_the_best_value_or_with_the_most_visits() -> None:
    net, boards = random_network(), as_words(random_boards(60, 12))
    acts = []
    for choose in ("value", "visits"):
        agent = MCSoftmaxAgent(net, MCSoftmaxSettings(simulations=60, backup="ave", choose=choose))
        result = agent.search(boards)
        by = result.values if choose == "value" else result.visits
        acts.append(agent.act(boards).tolist())
        assert result.action.tolist() == acts[-1]
        assert by[np.arange(60), acts[-1]].tolist() == by.max(1).tolist()
    assert acts[0] != acts[1]


@cache
def some_boards(n: int) -> Boards:
    """Return boards of games of the greedy player with the pretrained network."""
    seen: list[int] = []
    play(agents.make("ntuple"), 8, seed=1, watch=lambda _, boards, __: seen.extend(boards.tolist()))
    return np.array(seen[:: len(seen) // n][:n], np.uint64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("select", "scale"),
    [
        ("L-max", lambda v: v / v.max()),
        ("L-log", lambda v: np.log(np.maximum(v, 1) / v.max())),
    ],
)
@pytest.mark.parametrize("choose", ["value", "visits"])
def test_the_learned_temperature_maximizes_the_likelihood(
    select: str, scale: Callable[[Any], Any], choose: str
) -> None:
    boards = some_boards(40)
    player: Any = agents.make("mc-softmax", select=select, simulations=40, choose=choose)
    result = learned_temperature(player, boards)
    greedy: Any = agents.make("expectimax", depth=1)

    def likelihood(temperature: float) -> float:
        total = 0.0
        for values, action in zip(greedy.evaluate(boards), player.act(boards), strict=True):
            legal = np.isfinite(values)
            weights = np.exp(scale(values[legal]) / temperature)
            total += np.log(weights[legal[:action].sum()] / weights.sum())
        return total

    step = 10**0.05
    assert likelihood(result) > max(likelihood(result * step), likelihood(result / step))
    assert 0.001 < result < 0.5  # searches mostly agree with values


class Contrary(MCSoftmaxAgent):
    """Plays the worst move."""

    def choose(
        self, values: npt.NDArray[np.float64], visits: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the legal moves with the lowest values."""
        worst: npt.NDArray[np.int64] = np.where(np.isinf(values), np.inf, values).argmin(1)
        return worst


def test_a_best_temperature_at_a_bound_raises() -> None:
    """The coldest policy best predicts the greedy player, the hottest the player of bad moves."""
    boards = as_words([board for board in random_boards(40) if not oracle.is_over(board)])
    kinds: list[tuple[type[MCSoftmaxAgent], int, float]] = [
        *((MCSoftmaxAgent, 1, 1e-4), (Contrary, 1, 10.0), (Contrary, 100, 10.0)),
    ]
    for kind, simulations, bound in kinds:
        player = kind(random_network(), MCSoftmaxSettings(simulations=simulations, select="L-max"))
        with pytest.raises(ValueError, match=f"bound {bound:g}"):
            learned_temperature(player, boards)


def test_learning_a_temperature_needs_boards_with_a_move() -> None:
    greedy = MCSoftmaxAgent(random_network(), MCSoftmaxSettings(select="best"))
    with pytest.raises(ValueError, match="temperature"):
        learned_temperature(greedy, [0x11])
    player = MCSoftmaxAgent(random_network(), MCSoftmaxSettings(simulations=2))
    for boards in ([], [0x11, from_text("2 4 2 4 / 4 2 4 2 / 2 4 2 4 / 4 2 4 2")]):
        with pytest.raises(ValueError, match="boards"):
            learned_temperature(player, boards)


@pytest.mark.parametrize("settings", [{"simulations": 1}, {"depth": 1}], ids=str)
def test_moves_are_legal_without_any_visit(settings: dict[str, Any]) -> None:
    board = from_text("2 4 8 16 / _ _ _ _ / _ _ _ _ / _ _ _ _")
    agent = MCSoftmaxAgent(random_network(), MCSoftmaxSettings(choose="visits", **settings))
    assert agent.search(board).visits.tolist() == [0] * 4
    assert agent.act(board) == 2
