"""Monte-Carlo Softmax search by hand, against a plain one, expectimax and solved games."""

from __future__ import annotations

import copy
import math
import pickle
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import oracle
import pytest
import softmax_oracle
from ntuple_oracle import NaiveNetwork
from softmax_oracle import followed, picture, roots, visits_by_path

from afterstate import agents
from afterstate.agents.game2048 import exact, mc_softmax, softmax_tree
from afterstate.agents.game2048.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.mc_softmax import (
    POLICIES,
    MCSoftmaxAgent,
    Settings,
    policy,
)
from afterstate.agents.game2048.ntuple import Network, NTupleAgent, estimate, network, save
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.softmax_tree import PLAIN, Policy, Trees
from afterstate.envs.game2048.rules import from_text

Boards = npt.NDArray[np.uint64]
Values = npt.NDArray[np.float64]

TUPLES = {
    (1, 4): [[0, 1, 2], [2, 3]],
    (2, 2): [[0, 1], [0, 1, 4]],
    (2, 3): [[0, 1, 2], [1, 5]],
    (3, 3): [[0, 1, 2], [4, 5]],
    (4, 4): [[0, 1, 4], [5, 6], [1, 2, 5, 6]],
}

SIX = POLICIES[:6]
"""The policies of the study."""

OVER = from_text("2 4 8 16 / 16 8 4 2 / 2 4 8 16 / 16 8 4 2")
EARLY = from_text("2 _ _ _ / _ 4 _ _ / _ _ 2 _ / _ _ _ _")

solved = cache(exact.solve)


class Oracle:
    """Values boards by a function, and remembers how many it was asked for at a time."""

    def __init__(self, of: Callable[[Any], Any], size: tuple[int, int] = (4, 4)) -> None:
        self.of, self.size = of, size
        self.asked: list[int] = []

    def estimate(self, boards: Boards) -> Any:
        """The function's values."""
        self.asked.append(len(boards))
        return self.of(boards)


def random_network(size: tuple[int, int] = (4, 4), seed: int = 1) -> Network:
    net = network(TUPLES[size], size)
    drawn = np.random.default_rng(seed).uniform(0, 30, net.weights.size)
    return net._replace(weights=drawn.astype(np.float32))


def as_estimator(net: Network) -> Oracle:
    """The same values, so that they are asked for together."""
    return Oracle(partial(estimate, net), net.size)


def naive(net: Network) -> softmax_oracle.Estimate:
    """The same values once more, from the formula."""
    plain = NaiveNetwork(TUPLES[net.size], net.weights)
    return lambda board: float(plain.value(board))


def random_board(rng: random.Random, size: tuple[int, int] = (4, 4)) -> oracle.Board:
    """Boards with many gaps and with none, of small tiles that merge and of any."""
    n_cells = size[0] * size[1]
    tiles = rng.choices(range(1, rng.choice([3, 6, 11])), k=n_cells)
    for cell in rng.sample(range(n_cells), rng.randrange(n_cells - 1)):
        tiles[cell] = 0
    return [tiles[r * size[1] : (r + 1) * size[1]] for r in range(size[0])]


def random_boards(n: int, seed: int = 1, size: tuple[int, int] = (4, 4)) -> list[oracle.Board]:
    rng = random.Random(seed)
    return [random_board(rng, size) for _ in range(n)]


def as_words(boards: list[oracle.Board]) -> Boards:
    return np.array([oracle.to_word(board) for board in boards], np.uint64)


def players_of(net: Network) -> list[Any]:
    """Players of a network, which show it."""
    how = Settings(simulations=2)
    return [NTupleAgent(net), ExpectimaxAgent(net, 2), MCSoftmaxAgent(net, how)]


def trees_of(agent: MCSoftmaxAgent) -> Trees:
    (trees,) = agent._spare
    return trees


def check(agent: MCSoftmaxAgent) -> softmax_oracle.Check:
    """The checker of an agent's trees."""
    net = agent.network

    def value(after: oracle.Board) -> float:
        word = as_words([after])
        return float(estimate(net, word)[0] if isinstance(net, Network) else net.estimate(word)[0])

    return softmax_oracle.Check(trees_of(agent), agent.settings, value)


# Policies


def weigh(policy: Policy, values: list[float], n: int = 1) -> list[float]:
    """The weights of four values, which add up to 1."""
    weights = np.empty(4)
    softmax_tree.weigh(policy, n, np.array(values), weights)
    assert weights.max() == 1
    return [float(weight) for weight in weights / weights.sum()]


@pytest.mark.parametrize(
    ("values", "temperature", "expected", "mean"),
    [
        ([0.5, 0.45, 0.1], 0.2, [0.52243, 0.40687, 0.07070], 0.45138),
        ([0.5, 0.33, 0.1], 0.9, [0.40501, 0.33530, 0.25969], 0.33912),
        ([0.5, 0.45, 0.1], 0.9, [0.38653, 0.36564, 0.24783], 0.38258),
    ],
)
def test_the_examples_of_the_study(
    values: list[float], temperature: float, expected: list[float], mean: float
) -> None:
    weights = weigh(Policy(PLAIN, False, np.array([temperature])), [*values, -np.inf])
    assert weights == pytest.approx([*expected, 0], abs=5e-6)
    assert np.dot(weights[:3], values) == pytest.approx(mean, abs=5e-6)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("max", [2.0, 1.0, 0.5, 0.25, 0.2029]), ("log", [0.4, 0.2, 0.1, 0.05, 0.0406])],
)
@pytest.mark.parametrize("scope", "LG")
def test_temperatures_halve_with_ten_times_the_simulations(
    kind: str, expected: list[float], scope: str
) -> None:
    made = policy(f"{scope}-{kind}", 2000)
    assert made.temperatures[[1, 10, 100, 1000, 2000]] == pytest.approx(expected, abs=5e-5)
    assert made.total == (scope == "G")
    warm = policy(f"{scope}-{kind}", 2000, 3.0)
    assert warm.temperatures == pytest.approx(made.temperatures * 3 / expected[0])


def test_the_falling_temperature_goes_evenly_to_its_end() -> None:
    falling = policy("falling", 5)
    assert falling.temperatures[1:6] == pytest.approx([1, 0.8, 0.6, 0.4, 0.2])
    assert (falling.temperatures[6:] == 0).all()
    assert falling.total
    assert policy("falling", 5, 0.5).temperatures[2] == pytest.approx(0.4)


@pytest.mark.parametrize("scale", range(3))
def test_infinite_temperature_is_the_mean_and_zero_the_first_of_the_best(scale: int) -> None:
    values = [3.0, 70.0, -np.inf, 70.0]
    assert weigh(Policy(scale, False, np.array([np.inf])), values) == [1 / 3, 1 / 3, 0, 1 / 3]
    assert weigh(Policy(scale, False, np.array([0.0])), values) == [0, 1, 0, 0]
    low = [-np.inf, -9.0, -7.0, -8.0]
    assert weigh(Policy(scale, False, np.array([0.0])), low) == [0, 0, 1, 0]


def test_logarithms_and_ratios_weigh_by_hand() -> None:
    """At T = 0.5 ln v weighs by v squared; v / max v = 1, 0.5 by exp(0) and exp(-1)."""
    assert weigh(policy("L-log", 9, 0.5), [1, 2, 4, -np.inf]) == pytest.approx(
        [1 / 21, 4 / 21, 16 / 21, 0]
    )
    halves = weigh(policy("L-max", 9, 0.5), [-np.inf, 10, -np.inf, 20])
    assert halves == pytest.approx([0, math.exp(-1) / (1 + math.exp(-1)), 0, 1 / (1 + 1 / math.e)])


def test_sharp_is_the_best_one_of_the_study_but_colder() -> None:
    sharp, warm, study = policy("sharp", 50), policy("sharp", 50, 2.0), policy("L-max", 50)
    assert warm.temperatures.tolist() == study.temperatures.tolist()
    assert sharp.temperatures[1:3] == pytest.approx([0.05, 0.05 / 2 ** math.log10(2)])
    assert sharp[:2] == warm[:2] == study[:2]


@pytest.mark.parametrize("name", ["L-log", "G-log", "L-max", "G-max", "falling", "sharp"])
def test_values_below_one_count_as_one(name: str) -> None:
    made = policy(name, 100)
    for n in (1, 10, 100):
        low = weigh(made, [-500.0, 0.0, 8.0, 0.99], n)
        assert low == weigh(made, [1.0, 1.0, 8.0, 1.0], n)
        assert weigh(made, [-500.0, 0.0, -8.0, 0.99], n) == [0.25] * 4


@pytest.mark.parametrize("name", POLICIES)
def test_weights_are_those_of_the_plain_policy(name: str) -> None:
    made, rng = policy(name, 50), random.Random(1)
    for _ in range(300):
        values = [rng.choice([-1, 1]) * 10 ** rng.uniform(-3, 6) for _ in range(4)]
        n = rng.randint(1, 101)
        share = softmax_oracle.weights(name, softmax_oracle.temperature(name, n, n, 50), values)
        expected = [each / sum(share) for each in share]
        assert weigh(made, values, n) == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert weigh(made, values, 10_000) == weigh(made, values, 101)


def test_moves_are_drawn_by_their_share_and_never_without_one() -> None:
    weights = np.array([0.0, 1.0, 0.0, 3.0])
    for fraction, action in [(0.0, 1), (0.2499, 1), (0.25, 3), (1 - 2**-53, 3)]:
        assert softmax_tree.draw(weights, fraction) == action
    assert softmax_tree.draw(np.array([1e-300, 0.0, 0.0, 0.0]), 1 - 2**-53) == 0
    assert softmax_tree.fraction(np.uint64(0)) == 0
    assert softmax_tree.fraction(np.uint64(2**63)) == 0.5
    assert 1 - softmax_tree.fraction(np.uint64(2**64 - 1)) == 2**-53


# Against the plain search


def check_search(size: tuple[int, int], settings: Settings, boards: list[oracle.Board]) -> None:
    """Compiled, with values that are asked for, and plain: the same search."""
    net = random_network(size)
    found = MCSoftmaxAgent(net, settings).search(as_words(boards))
    batched = MCSoftmaxAgent(as_estimator(net), settings).search(as_words(boards))
    assert batched.visits.tolist() == found.visits.tolist()
    assert batched.values.tolist() == found.values.tolist()
    value = naive(net)
    for board, values, visits in zip(boards, found.values, found.visits, strict=True):
        expected, counts = softmax_oracle.Search(value, settings)(board)
        assert visits.tolist() == counts, board
        assert values == pytest.approx(expected, rel=1e-9, abs=1e-9), board


@pytest.mark.parametrize("select", SIX)
@pytest.mark.parametrize("backup", SIX)
def test_all_pairs_of_policies_search_as_the_plain_search(select: str, backup: str) -> None:
    seed = 6 * SIX.index(select) + SIX.index(backup)
    settings = Settings(simulations=50, select=select, backup=backup, seed=seed)
    for size in ((4, 4), (2, 3)):
        check_search(size, settings, random_boards(3, seed, size))


@pytest.mark.parametrize("size", TUPLES)
@pytest.mark.parametrize(
    "settings",
    [
        *({"simulations": n} for n in (1, 2, 400)),
        {"trees": 3, "select": "falling", "backup": "falling"},
        {"trees": 2, "select": "ave", "simulations": 80},
        {"trees": 1, "unseen": "value", "depth": 3},
        {"unseen": "value", "backup": "ave"},
        {"unseen": "value", "widening": 0.5, "simulations": 200},
        *({"widening": w, "simulations": 150} for w in (0.0, 0.3, 0.5)),
        *({"depth": depth, "select": "ave"} for depth in (1, 2, 3)),
        {"select_temperature": 0.05, "backup": "L-log", "backup_temperature": 5.0},
        {"select": "falling", "select_temperature": 0.2, "backup": "G-max"},
    ],
    ids=str,
)
def test_all_settings_search_as_the_plain_search(
    size: tuple[int, int], settings: dict[str, Any]
) -> None:
    for seed in (0, 2**63 - 1):
        how = Settings(**{"simulations": 60, "seed": seed, **settings})
        check_search(size, how, random_boards(2, seed % 1000, size))


@pytest.mark.parametrize(
    "text",
    [
        "32768 32768 _ _ / 16384 16384 8 8 / _ _ _ _ / _ _ _ 2",
        "32768 16384 8192 4096 / 256 512 1024 2048 / 128 64 32 16 / 2 2 4 8",
        "2 4 8 16 / 16 8 4 2 / 2 4 8 16 / 16 8 4 4",
        "2 4 8 16 / 16 8 4 2 / 2 4 8 16 / 16 8 4 _",
    ],
)
def test_large_tiles_and_ends_of_games_are_searched_as_by_the_plain_search(text: str) -> None:
    board = oracle.from_word(from_text(text), 4, 4)
    for settings in (Settings(), Settings(trees=2, select="ave"), Settings(unseen="value")):
        check_search((4, 4), settings, [board])


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("size", [(2, 2), (2, 3), (4, 4)])
@pytest.mark.parametrize(
    "settings", [{}, {"widening": 0.5, "unseen": "value"}, {"select": "G-max", "depth": 4}], ids=str
)
def test_a_game_with_kept_trees_is_that_of_the_plain_search(
    size: tuple[int, int], compiled: bool, settings: dict[str, Any]
) -> None:
    how = Settings(simulations=60, reuse=True, seed=3, **settings)
    net = random_network(size)
    agent = MCSoftmaxAgent(net if compiled else as_estimator(net), how)
    plain = softmax_oracle.Search(naive(net), how)
    board, rng = oracle.start(*size, 2, 5)
    n_kept = 0
    for _ in range(20):
        found = agent.search([oracle.to_word(board)])
        values, visits = plain(board)
        assert found.visits[0].tolist() == visits
        assert found.values[0] == pytest.approx(values, rel=1e-9, abs=1e-9)
        n_kept += sum(visits) >= 60
        if oracle.is_over(board):
            break
        board, rng = oracle.spawn(oracle.move(board, int(found.values.argmax()))[0], rng)
    assert n_kept >= 3


# Against other searches, and solved games


@pytest.mark.parametrize("unseen", ["outcomes", "value"])
@pytest.mark.parametrize(
    ("size", "depth", "simulations", "most_empty"),
    [
        *(((2, 2), 2, 5_000, 3), ((2, 3), 2, 20_000, 5)),
        *(((2, 2), 3, 300_000, 2), ((2, 3), 3, 400_000, 1)),
    ],
)
def test_when_everything_is_in_the_tree_values_are_those_of_expectimax(
    size: tuple[int, int], depth: int, simulations: int, most_empty: int, unseen: str
) -> None:
    boards = [
        board
        for board in random_boards(100, 2, size)
        if len(oracle.empty_cells(board)) <= most_empty and not oracle.is_over(board)
    ][:3]
    net = random_network(size)
    how = Settings(simulations=simulations, select="ave", unseen=unseen, depth=depth)
    expected = ExpectimaxAgent(net, depth, cutoff=0).evaluate(as_words(boards))
    found = MCSoftmaxAgent(net, how).evaluate(as_words(boards))
    assert np.isfinite(expected).any(1).all()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    shallow = ExpectimaxAgent(net, depth - 1, cutoff=0).evaluate(as_words(boards))
    assert not np.allclose(found, shallow, rtol=1e-3)


def test_one_simulation_is_the_greedy_player() -> None:
    for size in TUPLES:
        net, boards = random_network(size), as_words(random_boards(200, 3, size))
        net.weights[:] = net.weights.round()  # so that equal moves are equal in 32 bits and in 64
        expected = ExpectimaxAgent(net, 1).evaluate(boards)
        for values in (net, as_estimator(net)):
            for how in (Settings(simulations=1), Settings(simulations=1, trees=4, backup="ave")):
                agent = MCSoftmaxAgent(values, how)
                assert agent.evaluate(boards).tolist() == expected.tolist()
                assert agent.act(boards).tolist() == NTupleAgent(net).act(boards).tolist()


@pytest.mark.parametrize(("simulations", "regret"), [(1, 1e-12), (2, 0.01), (100, 0.001)])
def test_exact_values_are_hardly_spoilt(simulations: int, regret: float) -> None:
    how = Settings(simulations=simulations, unseen="value")
    score = exact.expected_score(MCSoftmaxAgent(solved((2, 2)), how))
    assert score >= (1 - regret) * solved((2, 2)).value
    assert score <= solved((2, 2)).value * (1 + 1e-12)


@pytest.mark.parametrize("unseen", ["outcomes", "value"])
def test_with_exact_values_and_all_outcomes_play_is_perfect(unseen: str) -> None:
    how = Settings(simulations=1000, unseen=unseen, select="ave", depth=2)
    score = exact.expected_score(MCSoftmaxAgent(solved((2, 2)), how))
    assert score == pytest.approx(solved((2, 2)).value, rel=1e-9)


# What a tree holds


@pytest.mark.parametrize("size", [(2, 3), (4, 4)])
@pytest.mark.parametrize(
    "settings",
    [
        *({"backup": name} for name in POLICIES),
        *({"leaves": leaves, "backup": name} for leaves in (2, 16) for name in ("best", "L-max")),
        {"leaves": 4, "backup": "G-log", "widening": 0.5},
        {"leaves": 5, "unseen": "value", "depth": 3, "select": "ave"},
        {"trees": 3, "backup": "ave"},
        {"trees": 2, "leaves": 3, "select": "falling"},
        {"widening": 0.3, "unseen": "value", "backup": "L-log", "backup_temperature": 0.1},
    ],
    ids=str,
)
def test_all_in_a_tree_fits_together(size: tuple[int, int], settings: dict[str, Any]) -> None:
    how = Settings(**{"simulations": 150, **settings})
    boards = as_words(random_boards(5, 4, size))
    agent = MCSoftmaxAgent(as_estimator(random_network(size)), how)
    found = agent.search(boards)
    n_each, trees = how.trees or 1, trees_of(agent)
    for tree in range(5 * n_each):
        check(agent)(tree)
        root = trees.states[tree * trees.capacity]
        assert (root["board"], root["n"]) == (boards[tree // n_each], 150)
    legal = np.isfinite(found.values)
    assert found.visits.sum(1).tolist() == (n_each * 149 * legal.any(1)).tolist()
    assert (found.visits[~legal] == 0).all()


@pytest.mark.parametrize("settings", [{}, {"trees": 1}, {"widening": 0.4, "backup": "G-max"}])
def test_a_simulation_counts_once_on_its_way(settings: dict[str, Any]) -> None:
    """The study's example: the root from 8 to 9, the state that the simulation comes by 2 to 3."""
    net, board = random_network(), from_text("2 4 _ _ / 8 16 4 _ / 2 32 8 2 / 4 8 16 32")
    before: dict[Any, int] = {}
    seen: set[tuple[int, int]] = set()
    for simulations in range(1, 60):
        agent = MCSoftmaxAgent(net, Settings(simulations=simulations, **settings))
        agent.search(board)
        now = visits_by_path(trees_of(agent), 0)
        way = sorted((path for path in now if now[path] != before.get(path)), key=len)
        assert all(now[path] == before.get(path, 0) + 1 for path in way)
        assert [len(path) for path in way] == list(range(0, 2 * len(way), 2))
        assert all(way[-1][: len(path)] == path for path in way)
        seen.update((len(path), now[path]) for path in way)
        before = now
    assert {(0, 9), (2, 3)} <= seen


def test_tiles_of_fixed_trees_depend_on_nothing_but_the_depth() -> None:
    """A place among the empty cells, as a fraction of all, and a tile, drawn for each depth."""
    how = Settings(simulations=100, trees=30, select="ave")
    agent = MCSoftmaxAgent(as_estimator(random_network()), how)
    agent.search([EARLY])
    trees, drawn = trees_of(agent), set()
    for tree in range(30):
        depths = np.array(check(agent)(tree))
        for depth in range(1, depths.max() + 1):
            tiles, low, high = set(), 0.0, 1.0
            for number in tree * 100 + np.flatnonzero(depths == depth):
                after = int(trees.moves[trees.states[number]["parent"]]["after"])
                tile = int(trees.states[number]["board"]) ^ after
                empty = oracle.empty_cells(oracle.from_word(after, 4, 4))
                cell = (tile.bit_length() - 1) // 4
                rank = empty.index(divmod(cell, 4))
                tiles.add(tile >> 4 * cell)
                low, high = max(low, rank / len(empty)), min(high, (rank + 1) / len(empty))
            assert len(tiles) == 1
            assert low < high
            drawn.add((depth, round(low, 3), *tiles))
    assert len(drawn) > 60  # of some 30 * 5
    assert 0.02 < np.mean([tile == 2 for *_, tile in drawn]) < 0.25


# What a search depends on


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("settings", [{}, {"trees": 3}, {"leaves": 4}], ids=str)
def test_a_board_is_searched_alike_in_any_company(
    compiled: bool, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    net, boards = random_network(), as_words(random_boards(12, 5))
    how = Settings(simulations=40, **settings)
    agent = MCSoftmaxAgent(net if compiled else as_estimator(net), how)
    values, visits = agent.search(boards)
    order = np.random.default_rng(1).permutation(12)
    for turned, parts in ((order, [order]), (np.arange(12), np.arange(12)[:, None])):
        found = [agent.search(boards[part]) for part in parts]
        assert np.concatenate([each.values for each in found]).tolist() == values[turned].tolist()
        assert np.concatenate([each.visits for each in found]).tolist() == visits[turned].tolist()
    monkeypatch.setattr(mc_softmax, "_ROOM", 5 * 40 * (how.trees or 1))
    again = MCSoftmaxAgent(agent.network, how)
    assert again.search(boards).values.tolist() == values.tolist()
    assert trees_of(again).sizes.size == (1 if compiled else 5) * (how.trees or 1)


@pytest.mark.parametrize("n_trees", [None, 4])
def test_another_seed_is_another_search(n_trees: int | None) -> None:
    """No two trees of a board draw the same numbers, whatever their seeds."""
    net, boards = random_network(), as_words(random_boards(8, 6))
    searches, words = [], set()
    for seed in range(10):
        how = Settings(simulations=60, seed=seed, trees=n_trees)
        agent = MCSoftmaxAgent(net, how)
        searches.append(agent.search(boards).visits.tolist())
        assert MCSoftmaxAgent(net, how).search(boards).visits.tolist() == searches[-1]
        assert searches[-1] not in searches[:-1]
        words.update(trees_of(agent).random[:, 1].tolist())
    assert len(words) == 10 * (n_trees or 1)


@pytest.mark.parametrize("reuse", [True, False])
def test_copies_and_pickles_go_on_alike(reuse: bool) -> None:
    net, size = random_network((2, 3)), (2, 3)
    for values in (net, as_estimator(net)):
        agent = MCSoftmaxAgent(values, Settings(simulations=100, reuse=reuse))
        board, rng = oracle.start(*size, 2, 1)
        agent.search(as_words([board]))
        after, _ = oracle.move(board, int(agent.act(as_words([board]))[0]))
        agent.search(as_words([board]))
        board, _ = oracle.spawn(after, rng)
        copies = [copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))]
        found = agent.search(as_words([board]))
        assert (found.visits.sum() > 99) == reuse
        for each in copies:
            again = each.search(as_words([board]))
            assert again.visits.tolist() == found.visits.tolist()
            assert again.values.tolist() == found.values.tolist()


def test_several_leaves_are_valued_together() -> None:
    net, boards = random_network(), as_words(random_boards(4, 7))
    one, many = as_estimator(net), as_estimator(net)
    how: dict[str, Any] = {"simulations": 120, "select": "L-max", "unseen": "outcomes"}
    MCSoftmaxAgent(one, Settings(**how)).search(boards)
    found = MCSoftmaxAgent(many, Settings(**how, leaves=4)).search(boards)
    assert max(one.asked) <= 4 * 4 < max(many.asked) <= 4 * 4 * 4
    assert len(one.asked) == 120
    assert 30 < len(many.asked) < 60
    assert sum(many.asked) == pytest.approx(sum(one.asked), rel=0.2)
    assert found.visits.sum(1).tolist() == [119] * 4


@pytest.mark.parametrize("leaves", [1, 8])
def test_an_afterstate_of_a_tree_is_valued_once(leaves: int) -> None:
    """Even the early ones, which many ways lead to."""
    asked: list[int] = []
    net = random_network()

    def remember(boards: Boards) -> Any:
        asked.extend(boards.tolist())
        return estimate(net, boards)

    agent = MCSoftmaxAgent(Oracle(remember), Settings(simulations=300, leaves=leaves))
    for _ in range(2):  # the second search asks anew, for the values may be others by then
        asked.clear()
        agent.search([EARLY])
        moves = trees_of(agent).moves[: 4 * trees_of(agent).sizes[0]]
        afters = moves["after"][moves["after"] > 0].tolist()
        assert len(afters) > 1.1 * len(asked)
        assert len(asked) == len(set(asked)) and set(asked) == set(afters)


# From one move to the next


@pytest.mark.parametrize("widening", [1.0, 0.3])
def test_what_is_kept_is_what_was_known(widening: float) -> None:
    how = Settings(simulations=400, reuse=True, widening=widening)
    agent = MCSoftmaxAgent(random_network(), how)
    largest = 0
    for board in random_boards(6, 8):
        agent.search(as_words([board]))
        whole = picture(trees_of(agent), 0)
        assert not softmax_tree.keep(trees_of(agent), 0, np.uint64(0))
        assert softmax_tree.keep(trees_of(agent), 0, as_words([board])[0])
        assert picture(trees_of(agent), 0) == whole
        for word, number in followed(trees_of(agent)).items():
            other = copy.deepcopy(agent)
            trees = trees_of(other)
            before = picture(trees, number)
            assert softmax_tree.keep(trees, 0, np.uint64(word))
            assert picture(trees, 0) == before
            largest = max(largest, len(check(other)()))
    assert largest > 10


@pytest.mark.parametrize(("leaves", "widening"), [(None, 0.5), (1, 0.5), (6, 1.0)])
def test_games_go_on_in_their_trees(leaves: int | None, widening: float) -> None:
    """Five games, which end one after the other; without leaves they are compiled."""
    net = random_network()
    how = Settings(simulations=30, reuse=True, leaves=leaves or 1, widening=widening)
    agent = MCSoftmaxAgent(as_estimator(net) if leaves else net, how)
    known: dict[int, dict[int, int]] = {}
    rooms: set[int] = set()
    kept: list[int] = []

    def watch(running: Any, boards: Boards, actions: Any) -> None:
        trees, before = trees_of(agent), dict(known)
        rooms.add(id(trees))
        for game, board in zip(running.tolist(), boards.tolist(), strict=True):
            tree, n = roots(trees)[board], before.get(game, {}).get(board, 0)
            if not any(board in before[other] for other in before.keys() - {game}):
                kept.append(n)
                made, full = trees.states[tree * trees.capacity]["n"] - n, trees.capacity == 60
                assert made == 30 or (full and n > 0 and 60 - n <= made < 30)
            if len(kept) % 30 == 0:
                check(agent)(tree)
            after = followed(trees, tree)
            known[game] = {word: int(trees.states[n]["n"]) for word, n in after.items()}

    games = play(agent, 5, seed=4, watch=watch)
    assert len(rooms) == 1  # all in the memory of the first move
    assert len(set(games.n_moves.tolist())) == 5
    assert 0.8 * games.n_moves.sum() < len(kept) < 3 * np.count_nonzero(kept)


@pytest.mark.parametrize("compiled", [True, False])
def test_trees_are_found_wherever_games_have_got_to(compiled: bool) -> None:
    """Four games: b ends, and d comes to a board that is not in its tree; then a ends."""
    net = random_network()
    how = Settings(simulations=100, reuse=True)
    agent = MCSoftmaxAgent(net if compiled else as_estimator(net), how)
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


def test_a_failed_search_leaves_nothing_wrong_for_the_next() -> None:
    """The answers end in the middle of a search, when some states wait for theirs."""
    net = random_network()
    for n_answers in (1, 2, 5, 10):
        values = as_estimator(net)
        agent = MCSoftmaxAgent(values, Settings(simulations=100, reuse=True, leaves=8))

        def fail(boards: Boards, values: Oracle = values, n: int = n_answers) -> Any:
            return estimate(net, boards) if len(values.asked) <= n else None

        values.of = fail
        with pytest.raises(ValueError, match="values"):
            agent.search([EARLY])
        values.of = partial(estimate, net)
        found = agent.search([EARLY])
        check(agent)()
        fresh = MCSoftmaxAgent(as_estimator(net), agent.settings).search([EARLY])
        assert found.visits.tolist() == fresh.visits.tolist()


# Unusual boards and values


@pytest.mark.parametrize("trees", [None, 3])
@pytest.mark.parametrize("choose", ["value", "visits"])
def test_where_the_game_is_over_no_move_has_a_value(trees: int | None, choose: str) -> None:
    net = random_network()
    for values in (net, as_estimator(net)):
        agent = MCSoftmaxAgent(values, Settings(simulations=20, trees=trees, choose=choose))
        found = agent.search([OVER, EARLY, OVER])
        assert found.values[[0, 2]].tolist() == [[-np.inf] * 4] * 2
        assert found.visits.sum(1).tolist() == [0, 19 * (trees or 1), 0]
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


@pytest.mark.parametrize("of", ODD)
def test_values_of_any_kind_make_no_nonsense(of: Callable[[Boards], Any]) -> None:
    boards = as_words([*random_boards(6, 10), oracle.from_word(EARLY, 4, 4)])
    legal = np.isfinite(ExpectimaxAgent(random_network(), 1).evaluate(boards))
    for select, backup in zip(POLICIES, [*POLICIES[3:], *POLICIES[:3]], strict=True):
        how = Settings(simulations=60, select=select, backup=backup, leaves=2)
        agent = MCSoftmaxAgent(Oracle(of), how)
        found = agent.search(boards)
        assert (np.isfinite(found.values) == legal).all()
        assert (found.values[~legal] == -np.inf).all()
        assert found.visits.sum(1).tolist() == np.where(legal.any(1), 59, 0).tolist()
        assert legal[range(7), agent.act(boards)][legal.any(1)].all()
        for tree in range(7):
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
    ],
)
def test_wrong_answers_are_refused(error: type[Exception], of: Callable[[Boards], Any]) -> None:
    with pytest.raises(error, match="values"):
        MCSoftmaxAgent(Oracle(of)).act([EARLY])


# Interface


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_tables_without_numbers_are_refused_and_leave_nothing_wrong(wrong: float) -> None:
    net = random_network()
    weights = net.weights.copy()
    agent = MCSoftmaxAgent(net, Settings(simulations=50))
    net.weights[::7] = wrong
    with pytest.raises(FloatingPointError, match="no numbers"):
        agent.search([EARLY])
    net.weights[:] = weights
    found = agent.search([EARLY])
    check(agent)()
    assert found.visits.sum() == 49


def test_the_same_board_is_searched_further_until_its_tree_is_full() -> None:
    agent = MCSoftmaxAgent(random_network(), Settings(simulations=100, reuse=True))
    counts = [int(agent.search([EARLY]).visits.sum()) for _ in range(3)]
    assert counts == [99, 199, 199]
    check(agent)()


def test_what_the_trees_are_made_for_stays_as_it_is() -> None:
    agent: Any = MCSoftmaxAgent(network([[0, 1]], (2, 2)))
    for name in ("settings", "network"):
        with pytest.raises(AttributeError):
            setattr(agent, name, None)


@pytest.mark.parametrize("compiled", [True, False])
def test_threads_that_share_a_player_search_as_one_does(compiled: bool) -> None:
    net = random_network()
    agent = MCSoftmaxAgent(net if compiled else as_estimator(net), Settings(simulations=500))
    boards = as_words(random_boards(64)).reshape(16, 4)
    alone = [agent.search(each).values.tolist() for each in boards]
    with ThreadPoolExecutor(4) as threads:
        together = [found.values.tolist() for found in threads.map(agent.search, boards)]
    assert together == alone


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("compiled", [True, False])
def test_results_have_the_shape_of_the_boards(compiled: bool, reuse: bool) -> None:
    net, boards = random_network(), as_words(random_boards(12, 11)).reshape(3, 4)
    values = net if compiled else as_estimator(net)

    def fresh() -> MCSoftmaxAgent:
        return MCSoftmaxAgent(values, Settings(simulations=20, reuse=reuse))

    for empty in (np.empty(0, np.uint64), np.empty((2, 0), np.uint64)):
        assert fresh().search(empty).values.shape == (*empty.shape, 4)
        assert fresh().act(empty).shape == empty.shape
    found = fresh().search(boards)
    assert (found.values.shape, found.visits.shape) == ((3, 4, 4), (3, 4, 4))
    assert found.values.dtype == np.float64
    assert found.visits.dtype == np.int64
    assert fresh().act(boards).tolist() == found.values.argmax(-1).tolist()
    assert fresh().search(boards[::2, 1]).values.tolist() == found.values[::2, 1].tolist()
    single = fresh().search(boards[1, 2])
    assert single.values.tolist() == fresh().evaluate(boards[1, 2]).tolist()
    assert single.values.tolist() == found.values[1, 2].tolist()
    assert fresh().act(int(boards[1, 2])).shape == ()
    with pytest.raises(ValueError, match="board"):
        fresh().search(1.5)
    with pytest.raises(ValueError, match="tiles outside"):
        MCSoftmaxAgent(random_network((2, 3))).search(EARLY)


def test_the_move_is_that_with_the_best_value_or_with_the_most_visits() -> None:
    net, boards = random_network(), as_words(random_boards(60, 12))
    acts = []
    for choose in ("value", "visits"):
        agent = MCSoftmaxAgent(net, Settings(simulations=60, backup="ave", choose=choose))
        found = agent.search(boards)
        by = found.values if choose == "value" else found.visits
        acts.append(agent.act(boards).tolist())
        assert by[np.arange(60), acts[-1]].tolist() == by.max(1).tolist()
    assert acts[0] != acts[1]


@pytest.mark.parametrize("settings", [{"simulations": 1}, {"depth": 1}], ids=str)
def test_moves_are_legal_also_where_no_simulation_made_one(settings: dict[str, Any]) -> None:
    board = from_text("2 4 8 16 / _ _ _ _ / _ _ _ _ / _ _ _ _")
    agent = MCSoftmaxAgent(random_network(), Settings(choose="visits", **settings))
    assert agent.search(board).visits.tolist() == [0] * 4
    assert agent.act(board) == 2


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        *(
            (name, value)
            for name in ("simulations", "trees", "leaves", "depth")
            for value in (0, -1, 1.5, "10", True, 2**63)
        ),
        *((name, None) for name in ("simulations", "leaves", "widening", "seed", "reuse")),
        *(
            (f"{name}_temperature", value)
            for name in ("select", "backup")
            for value in (0, -1.0, float("nan"), float("inf"), "1")
        ),
        *((name, v) for name in ("select", "backup") for v in ("l-max", "", None, ["ave"], 1)),
        *(("unseen", value) for value in ("net", None, 0)),
        *(("choose", value) for value in ("best", None, 1)),
        *(("widening", value) for value in (-0.1, 1.1, float("nan"), "1")),
        *(("reuse", value) for value in (1, "yes")),
        *(("seed", value) for value in (-1, 1.5, 2**63)),
    ],
)
def test_wrong_settings_are_refused(setting: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{setting} is .*, got "):
        Settings(**{setting: wrong})
    with pytest.raises(ValueError, match=rf"^{setting} is .*, got "):
        agents.make("mc-softmax", tuples=[[0]], **{setting: wrong})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trees": 2, "reuse": True}, r"trees without chance.*reuse"),
        ({"select": "falling", "reuse": True}, r"select 'falling'.*no reuse"),
        ({"backup": "falling", "reuse": True}, r"backup 'falling'.*no reuse"),
        ({"select": "ave", "select_temperature": 1.0}, r"^select_temperature.*'ave'"),
        ({"backup_temperature": 1.0}, r"^backup_temperature.*'best'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**settings)


def test_the_player_is_made_by_its_name(tmp_path: Path) -> None:
    net, boards = random_network(), as_words(random_boards(10, 13))
    save(net, tmp_path / "net.npz")
    settings: dict[str, Any] = {"simulations": 30, "backup": "ave", "seed": 5}
    how = Settings(**settings)
    expected = MCSoftmaxAgent(net, how).evaluate(boards).tolist()
    file = tmp_path / "net.npz"
    made: list[Any] = [
        agents.make("mc-softmax", network=given, **settings)
        for given in (net, file, str(file), as_estimator(net), *players_of(net))
    ]
    made.append(agents.find(f"mc-softmax,network={file},simulations=30,backup=ave,seed=5"))
    for agent in made:
        assert type(agent) is MCSoftmaxAgent
        assert agent.settings == how
        assert agent.evaluate(boards).tolist() == expected
    small: Any = agents.make("mc-softmax", network=solved((2, 3)))
    assert (small.size, small.settings) == ((2, 3), Settings())
    empty: Any = agents.make("mc-softmax", tuples="5x4", size=(4, 4))
    assert (empty.size, empty.network.masks.size) == ((4, 4), 5)
    assert "mc-softmax" in agents.names()


def test_by_default_it_searches_with_the_network_in_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert agents.SHIPPED.name == "network.npz"
    save(random_network(), tmp_path / "net.npz")
    monkeypatch.setattr(agents, "SHIPPED", tmp_path / "net.npz")
    agent: Any = agents.find("mc-softmax,simulations=10")
    same = MCSoftmaxAgent(random_network(), Settings(simulations=10))
    assert agent.settings == same.settings
    assert agent.evaluate(EARLY).tolist() == same.evaluate(EARLY).tolist()


@pytest.mark.parametrize(
    "settings",
    [
        *({name: 1, "tuples": "5x4"} for name in ("speed", "simulation", "net")),
        {"network": 42},
        {"network": "net.txt"},
        {"network": agents.make("random")},
        {"network": random_network(), "tuples": "4x6"},
        {"network": as_estimator(random_network()), "size": (4, 4)},
        *({"network": random_network(), **way} for way in ({"mixed": True}, {"unit": 1.0})),
        {"network": as_estimator(random_network()), "device": "cpu"},
    ],
    ids="speed simulation net number text no-estimate tuples size mixed unit device".split(),
)
def test_unknown_settings_and_networks_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises((ValueError, FileNotFoundError)):
        agents.make("mc-softmax", **settings)


# Value networks


@pytest.fixture
def cnn(tmp_path: Path, one_thread: None) -> Path:
    """The file of an untrained network, whose unit is 100 points."""
    pytest.importorskip("safetensors")
    pytest.importorskip("torch")
    from afterstate.agents import nets
    from afterstate.agents.game2048.value_net import CNN22

    with nets.seeded(1):
        nets.save(CNN22(), tmp_path / "cnn.safetensors", unit=100.0)
    return tmp_path / "cnn.safetensors"


def test_a_value_network_estimates_what_its_greedy_player_adds_to_rewards(cnn: Path) -> None:
    agent: Any = agents.make("value-net", net=cnn)
    boards = random_boards(6, 14)
    values = agent.evaluate(as_words(boards).reshape(2, 3))
    for board, four in zip(boards, values.reshape(6, 4), strict=True):
        for action in oracle.legal_moves(board):
            after, reward = oracle.move(board, action)
            said = agent.estimate(oracle.to_word(after))
            assert said.shape == ()
            assert four[action] == pytest.approx(reward + said, rel=1e-4, abs=1e-3)
    said = agent.estimate(as_words(boards).reshape(2, 3))
    assert (said.shape, said.dtype) == ((2, 3), np.float64)
    assert said.std() > 1
    assert said[1, 2] == pytest.approx(agent.estimate(as_words(boards)[5:])[0], rel=1e-4)
    half: Any = agents.make("value-net", net=cnn, unit=50)
    assert half.estimate(as_words(boards)) == pytest.approx(said.reshape(-1) / 2, rel=1e-4)
    assert agent.estimate(np.empty((0, 2), np.uint64)).shape == (0, 2)
    with pytest.raises(ValueError, match="board word"):
        agent.estimate([0.5])


def test_a_value_network_is_searched_by_its_file_or_its_player(cnn: Path) -> None:
    boards = as_words([*random_boards(3, 15), oracle.from_word(OVER, 4, 4)])
    player: Any = agents.make("value-net", net=cnn)
    greedy: Any = agents.make("mc-softmax", network=cnn, simulations=1)
    assert greedy.evaluate(boards) == pytest.approx(player.evaluate(boards), rel=1e-4, abs=1e-3)
    made: list[Any] = [
        agents.make("mc-softmax", network=network, simulations=8, leaves=2)
        for network in (cnn, str(cnn), player)
    ]
    how: dict[str, Any] = {"simulations": 8, "leaves": 2, "device": "cpu"}
    made.append(agents.make("mc-softmax", network=player.net, unit=100, **how))
    made.append(agents.find(f"mc-softmax,network={cnn},simulations=8,leaves=2"))
    for agent in made:
        found = agent.search(boards)
        assert found.visits.sum(1).tolist() == [7, 7, 7, 0]
        assert found.values == pytest.approx(made[0].evaluate(boards), rel=1e-6)
    shipped: list[Any] = [
        agents.make("mc-softmax", network=network, simulations=3)
        for network in (agents.make("value-net"), "value-net")
    ]
    found = [agent.evaluate(EARLY).tolist() for agent in shipped]
    assert found[0] == found[1] and np.isfinite(found[0]).all()
    rough: Any = agents.make("mc-softmax", network="value-net", simulations=3, mixed=True)
    assert rough.evaluate(EARLY).tolist() != found[0]
    assert rough.evaluate(EARLY) == pytest.approx(found[0], rel=0.05)


# Whether it is any good


def test_search_plays_better_the_longer_it_is() -> None:
    """The exact values of a small board, each off by some factor, mislead the greedy player."""
    net = exact.network(solved((2, 3)))
    net.weights[:] *= np.exp(np.random.default_rng(1).normal(0, 1, net.weights.size))
    greedy, some, more = (
        exact.expected_score(MCSoftmaxAgent(net, Settings(simulations=n))) for n in (1, 20, 100)
    )
    assert 1.15 * greedy < some < 0.93 * more
    fixed = MCSoftmaxAgent(net, Settings(simulations=10, trees=2, select="falling"))
    blended = MCSoftmaxAgent(net, Settings(simulations=20, unseen="value"))
    assert min(exact.expected_score(agent) for agent in (fixed, blended)) > 1.15 * greedy
    assert more < solved((2, 3)).value
