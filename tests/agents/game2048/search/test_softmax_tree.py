"""Monte-Carlo Softmax search by hand, and against a plain search, expectimax and solved games."""

from __future__ import annotations

import math
import random
from itertools import cycle
from typing import Any, Literal

import numpy as np
import pytest

from afterstate.agents.game2048.search import exact, softmax_tree
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent, policy
from afterstate.agents.game2048.search.softmax_settings import (
    POLICIES,
    MCSoftmaxSettings,
    PolicyName,
)
from afterstate.agents.game2048.search.softmax_tree import PLAIN, Policy, Trees
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.envs import words
from afterstate.envs.game2048.rules import from_text
from tests.oracles import game2048 as oracle
from tests.oracles import softmax as softmax_oracle
from tests.oracles.softmax import outcomes, visits_by_path
from tests.support.game2048.softmax_checks import (
    EARLY,
    SIX,
    TUPLES,
    Boards,
    as_estimator,
    as_words,
    check,
    naive,
    random_boards,
    random_network,
    solved,
    trees_of,
)
from tests.support.game2048.tuple_networks import exact_network

SIZES = list(TUPLES)

# Policies


def weigh(policy: Policy, values: list[float], n: int = 1) -> list[float]:
    """Return the weights of four values, which add up to 1."""
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
def test_temperatures_equal_the_examples_of_the_paper(
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


def test_the_falling_temperature_is_linear() -> None:
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


def test_sharp_is_l_max_with_a_lower_temperature() -> None:
    sharp, warm, l_max = policy("sharp", 50), policy("sharp", 50, 2.0), policy("L-max", 50)
    assert warm.temperatures.tolist() == l_max.temperatures.tolist()
    assert sharp.temperatures[1:3] == pytest.approx([0.05, 0.05 / 2 ** math.log10(2)])
    assert sharp[:2] == warm[:2] == l_max[:2]


@pytest.mark.parametrize("name", ["L-log", "G-log", "L-max", "G-max", "falling", "sharp"])
def test_values_below_one_count_as_one(name: str) -> None:
    made = policy(name, 100)
    for n in (1, 10, 100):
        low = weigh(made, [-500.0, 0.0, 8.0, 0.99], n)
        assert low == weigh(made, [1.0, 1.0, 8.0, 1.0], n)
        assert weigh(made, [-500.0, 0.0, -8.0, 0.99], n) == [0.25] * 4


@pytest.mark.parametrize("name", POLICIES)
def test_weights_equal_those_of_the_oracle(name: str) -> None:
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
    assert words.fraction(np.uint64(0)) == 0
    assert words.fraction(np.uint64(2**63)) == 0.5
    assert 1 - words.fraction(np.uint64(2**64 - 1)) == 2**-53


# Against the plain search


def check_search(
    size: tuple[int, int], settings: MCSoftmaxSettings, boards: list[oracle.Board]
) -> None:
    """Compare the compiled search, the search that evaluates batches, and the plain search.

    The compiled search evaluates one leaf at a time, whatever `leaves` is.
    """
    net = random_network(size)
    batched = MCSoftmaxAgent(as_estimator(net), settings).search(as_words(boards))
    result = MCSoftmaxAgent(net, settings).search(as_words(boards))
    if settings.leaves == 1:
        assert batched.visits.tolist() == result.visits.tolist()
        assert batched.values.tolist() == result.values.tolist()
    value = naive(net)
    for board, values, visits in zip(boards, batched.values, batched.visits, strict=True):
        expected, counts = softmax_oracle.Search(value, settings)(board)
        assert visits.tolist() == counts, board
        assert values == pytest.approx(expected, rel=1e-9, abs=1e-9), board


@pytest.mark.parametrize("select", SIX)
@pytest.mark.parametrize("backup", SIX)
def test_all_pairs_of_policies_search_as_the_oracle(select: PolicyName, backup: PolicyName) -> None:
    seed = 6 * SIX.index(select) + SIX.index(backup)
    size = SIZES[seed % len(SIZES)]
    settings = MCSoftmaxSettings(simulations=50, select=select, backup=backup, seed=seed)
    check_search(size, settings, random_boards(3, seed, size))


SEARCHES: list[dict[str, Any]] = [
    *({"simulations": n} for n in (1, 2, 400)),
    {"trees": 3, "select": "falling", "backup": "falling"},
    {"trees": 2, "select": "ave", "simulations": 80},
    {"trees": 1, "unvisited": "value", "depth": 3},
    {"unvisited": "value", "backup": "ave"},
    {"unvisited": "value", "widening": 0.5, "simulations": 200},
    *({"widening": w, "simulations": 150} for w in (0.0, 0.3, 0.5)),
    *({"depth": depth, "select": "ave"} for depth in (1, 2, 3)),
    {"select_temperature": 0.05, "backup": "L-log", "backup_temperature": 5.0},
    {"select": "falling", "select_temperature": 0.2, "backup": "G-max"},
    *({"leaves": leaves, "simulations": 70} for leaves in (2, 5, 16, 100)),
    {"leaves": 4, "widening": 0.3, "backup": "L-log"},
    {"leaves": 8, "trees": 2, "select": "L-max", "backup": "G-max"},
    {"leaves": 3, "depth": 3, "select": "ave", "unvisited": "outcomes"},
]


@pytest.mark.parametrize(
    ("settings", "size"), list(zip(2 * SEARCHES, cycle(SIZES), strict=False)), ids=str
)
def test_all_settings_search_as_the_oracle(size: tuple[int, int], settings: dict[str, Any]) -> None:
    """Each of the settings on boards of two sizes."""
    for seed in (0, 2**63 - 1):
        config = MCSoftmaxSettings(**{"simulations": 60, "seed": seed, **settings})
        check_search(size, config, random_boards(1, seed % 1000, size))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "32768 32768 _ _ / 16384 16384 8 8 / _ _ _ _ / _ _ _ 2",
        "32768 16384 8192 4096 / 256 512 1024 2048 / 128 64 32 16 / 2 2 4 8",
        "2 4 8 16 / 16 8 4 2 / 2 4 8 16 / 16 8 4 4",
        "2 4 8 16 / 16 8 4 2 / 2 4 8 16 / 16 8 4 _",
    ],
)
def test_large_tiles_and_ends_of_games_are_searched_as_by_the_oracle(text: str) -> None:
    board = oracle.from_word(from_text(text), 4, 4)
    for settings in (
        MCSoftmaxSettings(),
        MCSoftmaxSettings(trees=2, select="ave"),
        MCSoftmaxSettings(unvisited="value"),
    ):
        check_search((4, 4), settings, [board])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "compiled", "settings"),
    [
        ((2, 2), True, {}),
        ((2, 3), False, {}),
        ((2, 3), True, {"widening": 0.5, "unvisited": "value"}),
        ((4, 4), False, {"widening": 0.5, "unvisited": "value"}),
        ((4, 4), True, {"select": "G-max", "depth": 4}),
        ((2, 2), False, {"select": "G-max", "depth": 4}),
    ],
    ids=str,
)
def test_a_game_with_reuse_equals_that_of_the_oracle(
    size: tuple[int, int], compiled: bool, settings: dict[str, Any]
) -> None:
    config = MCSoftmaxSettings(simulations=60, reuse=True, seed=3, **settings)
    net = random_network(size)
    agent = MCSoftmaxAgent(net if compiled else as_estimator(net), config)
    plain = softmax_oracle.Search(naive(net), config)
    board, rng = oracle.start(*size, 2, 5)
    n_kept = 0
    for _ in range(20):
        result = agent.search([oracle.to_word(board)])
        values, visits = plain(board)
        assert result.visits[0].tolist() == visits
        assert result.values[0] == pytest.approx(values, rel=1e-9, abs=1e-9)
        n_kept += sum(visits) >= 60
        if oracle.is_over(board):
            break
        board, rng = oracle.spawn(oracle.move(board, int(result.values.argmax()))[0], rng)
    assert n_kept >= 3


# Against other searches, and solved games


def boards_to_exhaust(size: tuple[int, int], most_empty: int) -> Boards:
    """Return three unfinished boards of at most `most_empty` empty cells."""
    boards = [
        board
        for board in random_boards(100, 2, size)
        if len(oracle.empty_cells(board)) <= most_empty and not oracle.is_over(board)
    ]
    return as_words(boards[:3])


@pytest.mark.parametrize(
    ("size", "depth", "simulations", "most_empty", "unvisited"),
    [
        ((2, 2), 2, 5_000, 3, "value"),
        ((2, 3), 2, 20_000, 5, "outcomes"),
        ((2, 2), 3, 300_000, 2, "outcomes"),
        ((2, 3), 3, 400_000, 1, "value"),
        ((4, 4), 2, 20_000, 3, "value"),
    ],
)
def test_with_all_outcomes_in_the_tree_values_equal_expectimax(
    size: tuple[int, int],
    depth: int,
    simulations: int,
    most_empty: int,
    unvisited: Literal["outcomes", "value"],
) -> None:
    boards, net = boards_to_exhaust(size, most_empty), random_network(size)
    config = MCSoftmaxSettings(
        simulations=simulations, select="ave", unvisited=unvisited, depth=depth
    )
    expected = ExpectimaxAgent(net, depth, cutoff=0).evaluate(boards)
    result = MCSoftmaxAgent(net, config).evaluate(boards)
    assert np.isfinite(expected).any(1).all()
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    shallow = ExpectimaxAgent(net, depth - 1, cutoff=0).evaluate(boards)
    assert not np.allclose(result, shallow, rtol=1e-3)


@pytest.mark.parametrize(
    ("backup", "temperature", "leaves"),
    [("L-log", 1e-9, None), ("G-max", 1e-9, 4), ("falling", 1e-9, 1), ("L-max", 1e-3, None)],
)
def test_backup_is_that_of_expectimax_also_as_its_temperature_goes_to_0(
    backup: str, temperature: float, leaves: int | None
) -> None:
    """By means of exponentials, not by the best move alone; without leaves it is compiled."""
    net = random_network((2, 3))
    settings = {"select": "ave", "backup": backup, "backup_temperature": temperature}
    for depth, simulations, most_empty in ((2, 20_000, 5), (3, 400_000, 1))[: 1 if leaves else 2]:
        limits = {"simulations": simulations, "depth": depth, "leaves": leaves or 1}
        config = MCSoftmaxSettings(**settings, **limits)  # type: ignore[arg-type]
        boards = boards_to_exhaust((2, 3), most_empty)
        result = MCSoftmaxAgent(as_estimator(net) if leaves else net, config).evaluate(boards)
        expected = ExpectimaxAgent(net, depth, cutoff=0).evaluate(boards)
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_one_simulation_is_the_greedy_player() -> None:
    for size in TUPLES:
        net, boards = random_network(size), as_words(random_boards(200, 3, size))
        net.weights[:] = net.weights.round()  # so that equal moves are equal in 32 bits and in 64
        expected = ExpectimaxAgent(net, 1).evaluate(boards)
        for values in (net, as_estimator(net)):
            for config in (
                MCSoftmaxSettings(simulations=1),
                MCSoftmaxSettings(simulations=1, trees=4, backup="ave"),
            ):
                agent = MCSoftmaxAgent(values, config)
                assert agent.evaluate(boards).tolist() == expected.tolist()
                assert agent.act(boards).tolist() == NTupleAgent(net).act(boards).tolist()


@pytest.mark.parametrize(("simulations", "regret"), [(1, 1e-12), (2, 0.01), (100, 0.001)])
def test_search_with_exact_values_is_nearly_optimal(simulations: int, regret: float) -> None:
    config = MCSoftmaxSettings(simulations=simulations, unvisited="value")
    score = exact.expected_score(MCSoftmaxAgent(solved((2, 2)), config))
    assert score >= (1 - regret) * solved((2, 2)).value
    assert score <= solved((2, 2)).value * (1 + 1e-12)


@pytest.mark.parametrize("unvisited", ["outcomes", "value"])
def test_with_exact_values_and_all_outcomes_play_is_perfect(
    unvisited: Literal["outcomes", "value"],
) -> None:
    config = MCSoftmaxSettings(simulations=1000, unvisited=unvisited, select="ave", depth=2)
    score = exact.expected_score(MCSoftmaxAgent(solved((2, 2)), config))
    assert score == pytest.approx(solved((2, 2)).value, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "most", "mean"),
    [
        (MCSoftmaxSettings(simulations=3000, select="ave", depth=2), 1e-3, 1e-3),
        (
            MCSoftmaxSettings(simulations=3000, select="ave", depth=2, unvisited="outcomes"),
            1e-3,
            1e-3,
        ),
        (MCSoftmaxSettings(simulations=1000), 30, 0.5),
        (MCSoftmaxSettings(simulations=1000, select="L-max", unvisited="outcomes"), 30, 0.5),
    ],
    ids=str,
)
def test_moves_with_exact_values_are_nearly_optimal_on_2x3(
    config: MCSoftmaxSettings, most: float, mean: float
) -> None:
    """Perfectly where all outcomes are in the tree; regrets are in points, of 480 a game."""
    rng, solution = random.Random(7), solved((2, 3))
    boards = [oracle.from_word(int(after), 2, 3) for after in solution.afters]
    boards = rng.sample([board for board in boards if oracle.empty_cells(board)], 300)
    for i, board in enumerate(boards):
        row, column = rng.choice(oracle.empty_cells(board))
        board[row][column] = 1 + i % 2  # as many 4s as 2s
    words = as_words([board for board in boards if not oracle.is_over(board)])
    best = solution.evaluate(words)
    made = MCSoftmaxAgent(exact_network(solution), config).act(words)
    regrets = best.max(1) - best[np.arange(len(words)), made]
    assert len(words) > 100
    assert regrets.max() <= most
    assert regrets.mean() <= mean


@pytest.mark.slow
def test_whole_games_on_2x3_are_nearly_optimal() -> None:
    """On some of the 40,000 boards there is an outcome that no simulation draws."""
    config, best = MCSoftmaxSettings(simulations=300, select="ave", depth=2), solved((2, 3)).value
    score = exact.expected_score(MCSoftmaxAgent(exact_network(solved((2, 3))), config))
    assert (1 - 1e-4) * best < score <= (1 + 1e-12) * best


@pytest.mark.slow
def test_search_plays_better_the_longer_it_is() -> None:
    """The exact values of a small board, each off by some factor, mislead the greedy player."""
    net = exact_network(solved((2, 3)))
    net.weights[:] *= np.exp(np.random.default_rng(1).normal(0, 1, net.weights.size))
    greedy, some, more = (
        exact.expected_score(MCSoftmaxAgent(net, MCSoftmaxSettings(simulations=n)))
        for n in (1, 20, 100)
    )
    assert 1.15 * greedy < some < 0.93 * more
    fixed = MCSoftmaxAgent(net, MCSoftmaxSettings(simulations=10, trees=2, select="falling"))
    blended = MCSoftmaxAgent(net, MCSoftmaxSettings(simulations=20, unvisited="value"))
    assert min(exact.expected_score(agent) for agent in (fixed, blended)) > 1.15 * greedy
    assert more < solved((2, 3)).value


# Trees


TREES: list[dict[str, Any]] = [
    *({"backup": name} for name in POLICIES),
    *({"leaves": leaves, "backup": name} for leaves in (2, 16) for name in ("best", "L-max")),
    {"leaves": 4, "backup": "G-log", "widening": 0.5},
    {"leaves": 5, "unvisited": "value", "depth": 3, "select": "ave"},
    {"trees": 3, "backup": "ave"},
    {"trees": 2, "leaves": 3, "select": "falling"},
    {"widening": 0.3, "unvisited": "value", "backup": "L-log", "backup_temperature": 0.1},
]


@pytest.mark.parametrize(
    ("settings", "size"), list(zip(TREES, cycle([(2, 3), (4, 4)]), strict=False)), ids=str
)
def test_trees_are_consistent(size: tuple[int, int], settings: dict[str, Any]) -> None:
    config = MCSoftmaxSettings(**{"simulations": 50, **settings})
    boards = as_words(random_boards(3, 4, size))
    agent = MCSoftmaxAgent(as_estimator(random_network(size)), config)
    result = agent.search(boards)
    n_each, trees = config.trees or 1, trees_of(agent)
    for tree in range(3 * n_each):
        check(agent)(tree)
        root = trees.states[tree * trees.capacity]
        assert (root["board"], root["n"]) == (boards[tree // n_each], 50)
    legal = np.isfinite(result.values)
    assert result.visits.sum(1).tolist() == (n_each * 49 * legal.any(1)).tolist()
    assert (result.visits[~legal] == 0).all()


@pytest.mark.parametrize("settings", [{}, {"trees": 1}, {"widening": 0.4, "backup": "G-max"}])
def test_a_simulation_adds_one_visit_along_its_path(settings: dict[str, Any]) -> None:
    """The paper's example: the root goes from 8 to 9 visits, the state on the path from 2 to 3."""
    net, board = random_network(), from_text("2 4 _ _ / 8 16 4 _ / 2 32 8 2 / 4 8 16 32")
    before: dict[Any, int] = {}
    seen: set[tuple[int, int]] = set()
    for simulations in range(1, 60):
        agent = MCSoftmaxAgent(net, MCSoftmaxSettings(simulations=simulations, **settings))
        agent.search(board)
        now = visits_by_path(trees_of(agent), 0)
        way = sorted((path for path in now if now[path] != before.get(path)), key=len)
        assert all(now[path] == before.get(path, 0) + 1 for path in way)
        assert [len(path) for path in way] == list(range(0, 2 * len(way), 2))
        assert all(way[-1][: len(path)] == path for path in way)
        seen.update((len(path), now[path]) for path in way)
        before = now
    assert {(0, 9), (2, 3)} <= seen


def value_moves(trees: Trees, state: int, values: float | list[float]) -> None:
    """Assign values to the legal moves of a state, without rewards."""
    moves = trees.moves[4 * state : 4 * state + 4]
    moves["reward"] = 0
    for name in ("value", "net"):
        moves[name][moves["after"] > 0] = values


def grow_example(trees: Trees, seed: int) -> None:
    """Grow the tree of the paper's example to 8 simulations, which change no value."""
    board, worth = from_text("_ 2 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _"), [0.5, 0.45, 0.1]
    softmax_tree.reset(trees, 0, np.uint64(board), np.uint64(seed))
    value_moves(trees, 0, worth)
    softmax_tree.back_up_leaf(trees, 0)
    for _ in range(7):
        state = softmax_tree.simulate(trees, 0)
        if state >= 0:
            value_moves(trees, state, worth[trees.states[state]["parent"] - 1])
            softmax_tree.back_up_leaf(trees, state)


def test_the_tree_equals_the_example_of_the_paper() -> None:
    """A child falls from 0.45 to 0.33; its third visit lowers the parent from 0.38 to 0.34."""
    cold, warm = (Policy(PLAIN, False, np.array([t])) for t in (0.2, 0.9))
    trees = softmax_tree.new_trees(cold, warm, capacity=9, depth=2, fixed=True)
    drawn, n_came = np.zeros(4), 0
    for seed in range(300):
        grow_example(trees, seed)
        drawn += trees.moves["n"][:4]
        assert trees.states["n"][0] == 8
        assert trees.states["value"][0] == pytest.approx(0.38258, abs=5e-6)
        if trees.moves["n"][2] == 2:
            (child,) = outcomes(trees, 2).values()
            value_moves(trees, child, 0.33)
            softmax_tree.simulate(trees, 0)
            came = trees.moves["n"][2] == 3
            assert trees.states["n"][[0, child]].tolist() == [9, 2 + came]
            worth = 0.33912 if came else 0.38258  # of the parent after this visit
            assert trees.states["value"][0] == pytest.approx(worth, abs=5e-6)
            assert trees.moves["value"][1:4] == pytest.approx([0.5, 0.33 if came else 0.45, 0.1])
            n_came += came
    assert n_came > 10
    assert drawn / drawn.sum() == pytest.approx([0, 0.52243, 0.40687, 0.07070], abs=0.03)


@pytest.mark.slow
def test_tiles_of_trees_without_chance_depend_only_on_the_depth() -> None:
    """For each depth the search draws a tile, and a fraction that chooses the empty cell."""
    config = MCSoftmaxSettings(simulations=100, trees=30, select="ave")
    agent = MCSoftmaxAgent(as_estimator(random_network()), config)
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
