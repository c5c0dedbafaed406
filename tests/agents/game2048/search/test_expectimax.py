"""Expectimax search, compared with a plain recursion and on a game with known exact values."""

from __future__ import annotations

import copy
import pickle
import random
import threading
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from afterstate.agents.game2048.kernels import hash_board
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search import expectimax, expectimax_search
from afterstate.agents.game2048.search.expectimax import (
    CUTOFF,
    DEEPENING,
    ExpectimaxAgent,
)
from afterstate.agents.game2048.simple import RandomAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate
from afterstate.agents.game2048.values.ntuple_network import Network, network
from afterstate.envs.game2048.rules import afterstates, from_text, symmetries
from tests.oracles import game2048 as oracle
from tests.oracles.ntuple import NaiveNetwork, expected_score, index, reachable, solve

SIZES: list[tuple[int, int]] = [(1, 2), (2, 2), (2, 3), (3, 2), (1, 4), (3, 3), (4, 4)]
TUPLES = {
    (1, 2): [[0, 1]],
    (2, 2): [[0, 1], [0, 1, 4]],
    (2, 3): [[0, 1, 2], [1, 5]],
    (3, 2): [[0, 4, 8], [1, 4]],
    (1, 4): [[0, 1, 2], [2, 3]],
    (3, 3): [[0, 1, 2], [4, 5]],
    (4, 4): [[0, 1, 2, 3], [5, 6]],
}

DEPTHS = range(1, 8)

by_size = pytest.mark.parametrize("size", SIZES)


def random_network(size: tuple[int, int]) -> Network:
    net = network(TUPLES[size], size)
    drawn = np.random.default_rng(1).normal(0, 30, net.weights.size)
    return net._replace(weights=drawn.astype(np.float32))


def random_board(rng: random.Random, size: tuple[int, int]) -> oracle.Board:
    """Return a small board of any kind, or a late large one: few gaps, few equal neighbors."""
    n_cells = size[0] * size[1]
    palette = [0, 1, 2, 3, 4] if n_cells <= 6 else [*range(1, 12)]
    tiles = rng.choices(palette, k=n_cells)
    if n_cells > 6 and rng.random() < 0.7:
        tiles[rng.randrange(n_cells)] = 0
    return [tiles[r * size[1] : (r + 1) * size[1]] for r in range(size[0])]


def move_values(
    naive: NaiveNetwork, board: oracle.Board, depth: float, extend: int = 0
) -> dict[int, float]:
    """Return reward plus value of each legal move by plain expectimax.

    Args:
        naive: values the afterstates at the end.
        board: the board.
        depth: moves of the player.
        extend: with at most this many empty cells, the next tile and move count half.
    """

    def value(after: oracle.Board, depth: float) -> float:
        if depth <= 0:
            return float(naive.value(after))
        step = 0.5 if sum(row.count(0) for row in after) <= extend else 1
        return sum(
            p * max(values(board, depth - step).values(), default=0.0)
            for board, p in oracle.spawn_outcomes(after)
        )

    def values(board: oracle.Board, depth: float) -> dict[int, float]:
        moves = {action: oracle.move(board, action) for action in oracle.legal_moves(board)}
        return {a: reward + value(after, depth) for a, (after, reward) in moves.items()}

    return values(board, depth - 1)


def check_values(agent: ExpectimaxAgent, size: tuple[int, int], n_boards: int) -> None:
    """Check values against the plain recursion, on drawn boards."""
    rng = random.Random(agent.depth)
    naive = NaiveNetwork(TUPLES[size], agent.network.weights)
    boards = [random_board(rng, size) for _ in range(n_boards)]
    result = agent.evaluate([oracle.to_word(board) for board in boards])
    assert result.shape == (n_boards, 4)
    assert result.dtype == np.float64
    for board, values in zip(boards, result.tolist(), strict=True):
        expected = [-np.inf] * 4
        for action, move_value in move_values(naive, board, agent.depth, agent.extend).items():
            expected[action] = move_value
        assert values == pytest.approx(expected, rel=1e-5, abs=1e-3), board


@by_size
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_values_equal_those_of_the_plain_recursion(size: tuple[int, int], depth: int) -> None:
    agent = ExpectimaxAgent(random_network(size), depth, cutoff=0)
    check_values(agent, size, {1: 200, 2: 60, 3: 10, 4: 2}[depth])


@pytest.mark.slow
@by_size
@pytest.mark.parametrize(("depth", "extend"), [(1, 3), (2, 1), (2, 2), (3, 1)])
def test_with_few_empty_cells_moves_count_half(
    size: tuple[int, int], depth: int, extend: int
) -> None:
    agent = ExpectimaxAgent(random_network(size), depth, cutoff=0, extend=extend)
    check_values(agent, size, 5 if depth == 3 else 20)


def test_an_extended_search_looks_further_ahead_where_few_cells_are_empty() -> None:
    """Each move on the full board leaves one empty cell, so two plies are three there."""
    net = random_network((4, 4))
    full = from_text("2 4 2 4 / 4 2 4 2 / 2 4 2 4 / 4 2 4 4")
    plain, extended = ExpectimaxAgent(net, 3, cutoff=0), ExpectimaxAgent(net, 2, cutoff=0, extend=1)
    empty = from_text("2 4 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _")
    assert extended.evaluate(full).tolist() == plain.evaluate(full).tolist()
    assert extended.evaluate(empty).tolist() == ExpectimaxAgent(net, 2).evaluate(empty).tolist()


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_boards_at_the_end_of_lines_are_downgraded(depth: int) -> None:
    """Rewards stay those of the board, and values are those of its downgraded form."""
    rng = random.Random(depth)
    net = random_network((4, 4))._replace(downgrade=5)
    naive = NaiveNetwork(TUPLES[4, 4], net.weights, downgrade=32)
    plain = NaiveNetwork(TUPLES[4, 4], net.weights)
    agent, differ = ExpectimaxAgent(net, depth, cutoff=0), 0
    for board in [random_board(rng, (4, 4)) for _ in range(6 if depth == 3 else 30)]:
        expected = move_values(naive, board, depth)
        values = agent.evaluate(oracle.to_word(board))
        assert [values[action] for action in expected] == pytest.approx(
            [*expected.values()], rel=1e-5, abs=1e-3
        )
        differ += expected != move_values(plain, board, depth)
    assert differ > 0


@by_size
def test_one_ply_is_the_greedy_player(size: tuple[int, int]) -> None:
    rng = random.Random(7)
    net = random_network(size)
    boards = np.array([oracle.to_word(random_board(rng, size)) for _ in range(300)], np.uint64)
    agent = ExpectimaxAgent(net, 1)
    assert agent.act(boards).tolist() == NTupleAgent(net).act(boards).tolist()
    for board, values in zip(boards.tolist(), agent.evaluate(boards), strict=True):
        afters, rewards = afterstates(board, net.move_table)
        greedy = estimate(net, np.array(afters, np.uint64)) + np.array(rewards)
        greedy[np.array(afters, np.uint64) == board] = -np.inf
        assert values == pytest.approx(greedy, rel=1e-6)


@pytest.mark.parametrize("depth", DEPTHS)
def test_illegal_moves_have_value_minus_infinity(depth: int) -> None:
    net = random_network((2, 2))
    agent = ExpectimaxAgent(net, depth)
    over, only_down = from_text("2 4 / 4 2"), from_text("2 4 / _ _")
    assert agent.evaluate(over).tolist() == [-np.inf] * 4
    assert np.isfinite(agent.evaluate(only_down)).tolist() == [False, False, True, False]
    assert agent.act([over, only_down]).tolist() == [0, 2]


def test_two_plies_worked_out_by_hand() -> None:
    """(2 2) on 1x2 with weight 1 of the tuple {0} for a tile 4, else 0: a board has 4 entries.

    Both moves make a 4 for reward 4. The next tile is a 2 (0.9): game over, worth 0. Or a 4 (0.1):
    merged for 8, afterstate worth 0. So a move is worth 4 + 0.1 * 8, and with one move only 4
    and the two entries of the 4.
    """
    net = network([[0]], (1, 2))
    net.weights[2] = 1
    board = from_text("2 2")
    assert ExpectimaxAgent(net, 1).evaluate(board).tolist() == [-np.inf, 6, -np.inf, 6]
    for depth in (2, 3):
        values = ExpectimaxAgent(net, depth).evaluate(board)
        assert values == pytest.approx([-np.inf, 4.8, -np.inf, 4.8])


@pytest.mark.parametrize(("depth", "by_hand"), [(2, -3596.4), (3, 3.6), (4, 3.6), (5, 5.76)])
def test_finished_games_have_value_0_even_if_all_others_are_negative(
    depth: int, by_hand: float
) -> None:
    """Every afterstate at the end of the search is worth -4000, an end of the game 0.

    (2 8 _) has one move, to the right. In 0.1 a 4 comes and (4 2 8) is over; in 0.9 (2 2 8) merges
    for 4. Two plies: 0.9 * (4 - 4000). Three plies and four: merged to the left, (4 8 _) is over
    with any tile: 0.9 * 4. Five: merged to the right, (_ 4 8) is over in 0.9, and in 0.1 two
    more moves have rewards 8 and 16 before it is over with any tile: 0.9 * (4 + 0.1 * 24).
    """
    net = network([[0]], (1, 3))
    net.weights[:] = -1000
    values = ExpectimaxAgent(net, depth).evaluate(from_text("2 8 _"))
    assert values == pytest.approx([-np.inf, by_hand, -np.inf, -np.inf])


# The exact values of the 2x2 board as a network: it then plays perfectly at every depth


@pytest.fixture(scope="module")
def solved() -> Network:
    """Return a tuple of all cells, each entry an eighth of its afterstate's exact value."""
    net = network([[0, 1, 4, 5]], (2, 2))
    for word, exact_value in solve(2, 2)[1].items():
        net.weights[index(oracle.from_word(word, 2, 2), [0, 1, 4, 5])] = exact_value / 8
    return net


@pytest.mark.parametrize("depth", DEPTHS)
def test_with_exact_values_every_depth_plays_perfectly(solved: Network, depth: int) -> None:
    agent = ExpectimaxAgent(solved, depth)
    assert expected_score(2, 2, agent.act) == pytest.approx(66.964149, abs=1e-5)


@pytest.mark.parametrize("depth", range(2, 8))
def test_searching_exact_values_does_not_change_them(solved: Network, depth: int) -> None:
    boards = [oracle.to_word(board) for board in reachable(2, 2)]
    one = ExpectimaxAgent(solved, 1).evaluate(boards)
    deep = ExpectimaxAgent(solved, depth, cutoff=0)
    assert deep.evaluate(boards) == pytest.approx(one, rel=1e-5)


def test_deeper_search_of_an_empty_network_plays_better() -> None:
    empty = network([[0]], (2, 2))
    scores = [expected_score(2, 2, ExpectimaxAgent(empty, depth).act) for depth in (1, 3, 5)]
    assert scores[0] < scores[1] < scores[2] <= 66.964149 + 5e-7


# Interface


def test_evaluate_and_act_keep_the_shape_of_their_boards() -> None:
    rng = random.Random(9)
    agent = ExpectimaxAgent(random_network((4, 4)), 2)
    drawn = [oracle.to_word(random_board(rng, (4, 4))) for _ in range(12)]
    boards = np.array(drawn, np.uint64).reshape(3, 4)
    values, actions = agent.evaluate(boards), agent.act(boards.reshape(-1))
    assert values.shape == (3, 4, 4)
    assert actions.shape == (12,)
    assert actions.dtype == np.int8
    assert (values.argmax(axis=-1).reshape(-1) == actions).all()
    for i, j in np.ndindex(3, 4):
        assert agent.evaluate(boards[i, j]).tolist() == values[i, j].tolist()
        assert agent.act(boards[i, j]) == actions[4 * i + j]
    assert agent.evaluate(boards[:, ::2]).tolist() == values[:, ::2].tolist()
    assert agent.evaluate(boards[:0]).shape == (0, 4, 4)


@pytest.mark.parametrize("depth", [0, -1, 13, 2.5, "3", True])
def test_wrong_depths_are_refused(depth: Any) -> None:
    with pytest.raises(ValueError, match="depth must be"):
        ExpectimaxAgent(network([[0]]), depth)


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        *(("seconds", value) for value in (0, -1, float("inf"), float("nan"))),
        *(("nodes", value) for value in (0, -1, 2.5, 1 << 63, True)),
        *(("cutoff", value) for value in (-0.1, 1, float("nan"))),
        *(("extend", value) for value in (-1, 16, 0.5, True)),
        *(("threads", value) for value in (0, 65, 1.5, True)),
        *(("table_bits", value) for value in (-1, 29, 2.5, True)),
    ],
)
def test_wrong_settings_are_refused(setting: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=setting):
        ExpectimaxAgent(network([[0]]), **{setting: wrong})


# The transposition table


def late_boards(n: int, seed: int) -> list[int]:
    """Return boards with few gaps, on which lines of play often meet."""
    rng = random.Random(seed)
    return [oracle.to_word(random_board(rng, (4, 4))) for _ in range(n)]


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_table_changes_no_value(depth: int) -> None:
    """A table of one bucket and a large one agree, and the large one saves searches."""
    net, boards = random_network((4, 4)), late_boards(20, depth)
    tiny = ExpectimaxAgent(net, depth, cutoff=0, table_bits=0)
    large = ExpectimaxAgent(net, depth, cutoff=0, table_bits=18)
    assert tiny.evaluate(boards).tolist() == large.evaluate(boards).tolist()
    if depth > 2:  # with two plies lines of play cannot meet
        assert large.n_table_hits > 0
        assert large.n_searched < tiny.n_searched


@pytest.mark.parametrize("row", range(4))
def test_boards_that_differ_in_one_row_are_spread_over_the_buckets(row: int) -> None:
    board = np.uint64(oracle.to_word(random_board(random.Random(1), (4, 4))))
    boards = board ^ np.arange(2**16, dtype=np.uint64) << np.uint64(16 * row)
    assert len({int(hash_board(each)) % 2**14 for each in boards}) > 0.9 * 2**14


def test_symmetric_boards_share_their_entries() -> None:
    net, search = random_network((4, 4)), expectimax_search.new_search(0.0, 20)
    n_searched = set()
    for board in np.array(symmetries(late_boards(1, 5)[0], 4, 4), np.uint64):
        expectimax_search.evaluate_moves(net, search, board, 3, True, np.empty(4), 0)
        n_searched.add(int(search.control[expectimax_search.N_SEARCHED]))
    assert len(n_searched) == 1 and n_searched != {0}


def test_without_symmetries_symmetric_boards_have_their_own_entries() -> None:
    net = network(TUPLES[4, 4], symmetric=False)
    np.random.default_rng(1).random(dtype=np.float32, out=net.weights)
    board = late_boards(1, 6)[0]
    boards = np.array(symmetries(board, 4, 4), np.uint64)
    agent = ExpectimaxAgent(net, 3, cutoff=0)
    alone = [ExpectimaxAgent(net, 3, cutoff=0).evaluate(each).tolist() for each in boards]
    assert agent.evaluate(boards).tolist() == alone
    assert max(alone[0]) != max(alone[1])


def test_the_table_is_invalidated_when_the_network_learns() -> None:
    net, boards = random_network((4, 4)), late_boards(20, 7)
    agent = ExpectimaxAgent(net, 3)
    agent.evaluate(boards)
    net.weights[:] *= -1
    assert agent.evaluate(boards).tolist() == ExpectimaxAgent(net, 3).evaluate(boards).tolist()


# The cutoff


@pytest.mark.parametrize("depth", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_a_search_does_not_depend_on_earlier_ones(learned: Network, depth: int) -> None:
    """A small table drops entries, so that a value depends on what is found again.

    The first moves of games have the most boards in common.
    """
    boards = first_boards(8 if depth == 3 else 3, 25)
    alone = ExpectimaxAgent(learned, depth, table_bits=3)
    together = ExpectimaxAgent(learned, depth, table_bits=3).evaluate(boards)
    for _ in range(2):
        assert [alone.evaluate(board).tolist() for board in boards] == together.tolist()
    actions = [int(alone.act(board)) for board in boards]
    assert actions == ExpectimaxAgent(learned, depth, table_bits=3).act(boards).tolist()


@pytest.fixture(scope="module")
def learned() -> Network:
    """Return a network that has learned for 300,000 moves."""
    learner = NTupleLearner(
        network([[0, 1, 4, 5], [1, 2, 5, 6], [0, 1, 2, 3], [4, 5, 6, 7]]), seed=1
    )
    learner.learn(300_000)
    return learner.network


def first_boards(n_games: int, n_moves: int) -> npt.NDArray[np.uint64]:
    """Return the boards of the first moves of games of random moves, game by game."""
    boards: list[npt.NDArray[np.uint64]] = []
    play(RandomAgent(seed=1), n_games, 1, watch=lambda _, shown, __: boards.append(shown.copy()))
    return np.stack(boards[:n_moves], axis=1).reshape(-1)


def played_boards(net: Network, n: int) -> npt.NDArray[np.uint64]:
    """Return boards drawn from all moves of some games."""
    shown: list[npt.NDArray[np.uint64]] = []

    class Recorder(RandomAgent):
        def act(self, boards: Any) -> npt.NDArray[np.int8]:
            shown.append(boards)
            return NTupleAgent(net).act(boards)

    play(Recorder(), 20, seed=3)
    return np.random.default_rng(1).choice(np.concatenate(shown), n, replace=False)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [2, 3])
def test_the_default_cutoff_hardly_changes_a_choice(learned: Network, depth: int) -> None:
    boards = played_boards(learned, {2: 5_000, 3: 1_500}[depth])
    whole, cut = ExpectimaxAgent(learned, depth, cutoff=0), ExpectimaxAgent(learned, depth)
    assert (whole.act(boards) == cut.act(boards)).mean() >= 0.999


@pytest.mark.slow
def test_a_larger_cutoff_searches_less(learned: Network) -> None:
    boards = played_boards(learned, 200)
    legal = np.isfinite(ExpectimaxAgent(learned, 1).evaluate(boards))
    searched = []
    for cutoff in (1e-4, 1e-3, 1e-2, 0.1, 0.5):
        agent = ExpectimaxAgent(learned, 3, cutoff=cutoff)
        values = agent.evaluate(boards)
        assert (np.isfinite(values) == legal).all()
        searched.append(agent.n_searched)
    assert searched == sorted(searched, reverse=True)
    assert searched[-1] < 0.3 * searched[0]


@pytest.mark.parametrize(
    ("empty", "temperature"), [(-1e6, 500.0), (0.0, 500.0), (6e3, 500.0), (1e5, 8e3)]
)
@pytest.mark.parametrize("gap", [100.0, 2_000.0])
def test_a_move_is_followed_if_its_probability_reaches_the_cutoff(
    empty: float, temperature: float, gap: float
) -> None:
    """(_ 2 _) moves left to (2 _ _) or right to (_ _ 2): only cell 0 counts, so right loses `gap`.

    The temperature is 8% of the value of the empty board and at least 500.
    """
    net = network([[0]], (1, 3), symmetric=False)
    net.weights[[0, 1]] = empty, empty + gap
    probability = float(np.exp(-gap / temperature))
    for cutoff, n_followed in ((0.99 * probability, 2), (1.01 * probability, 1)):
        if cutoff < 1:
            agent = ExpectimaxAgent(net, 2, cutoff=cutoff)
            agent.act(np.array([from_text("_ 2 _")], np.uint64))
            assert agent.n_searched == n_followed


def test_an_improbable_four_counts_as_a_two() -> None:
    """One empty cell and a cutoff above 0.1: only the 2 is tried.

    (8 2 _) on 1x3 moves right to (_ 8 2). A 2 next to the 8 ends the game, and so would a 4: the
    value is 0 either way. On (2 8 _) -> (_ 2 8) a 2 merges for 4, a 4 does not.
    """
    net = network([[0]], (1, 3))
    board = from_text("2 8 _")
    assert ExpectimaxAgent(net, 2, cutoff=0.2).evaluate(board)[1] == pytest.approx(4)
    assert ExpectimaxAgent(net, 2, cutoff=0).evaluate(board)[1] == pytest.approx(3.6)


# Limits


def test_with_enough_time_or_nodes_the_whole_depth_is_searched() -> None:
    net, boards = random_network((4, 4)), late_boards(3, 8)
    for depth in (1, 2, 3):
        expected = ExpectimaxAgent(net, depth, cutoff=1e-4).evaluate(boards).tolist()
        limits: list[dict[str, Any]] = [{"seconds": 60}, {"nodes": 10**9}]
        for limit in limits:
            agent = ExpectimaxAgent(net, depth, cutoff=1e-4, **limit)
            assert agent.evaluate(boards).tolist() == expected


@pytest.mark.slow
def test_a_limited_search_has_values_of_its_last_two_steps(learned: Network) -> None:
    """More nodes finish more of the steps, and no search takes more than it may.

    The moves that the last step has reached, the best one first, have its values. The others keep
    their difference to the best one.
    """
    n_partly = 0
    for board in played_boards(learned, 20):
        reached = []
        for nodes in (1, 10, 30, 100, 1_000, 10_000):
            result = ExpectimaxAgent(learned, nodes=nodes, cutoff=0, table_bits=18).search(board)
            assert result.n_searched <= nodes
            reached.append(result.depth)
            finished, partly = (
                ExpectimaxAgent(learned, depth, cutoff=0, table_bits=18).search(board).values
                for depth in (result.depth, result.depth + 1)
            )
            best = int(finished.argmax())
            later = np.isclose(result.values, partly, rtol=1e-6)
            if later[best] and not np.allclose(result.values, finished, rtol=1e-6):
                n_partly += 1
                in_order = np.roll(np.arange(4), -best)
                reaches = later[in_order[np.isfinite(finished[in_order])]].tolist()
                assert reaches == sorted(reaches, reverse=True)
                finished += partly[best] - finished[best]
            others = ~later
            assert np.allclose(result.values[others], finished[others], rtol=1e-6)
        assert reached == sorted(reached)
        assert reached[0] < reached[-1]
    assert n_partly > 10


@pytest.mark.slow
def test_a_limited_search_goes_through_the_steps(learned: Network) -> None:
    """Its last finished step has about the values of that search alone, in another order."""
    steps = [(1, 0.0), *DEEPENING]
    for board in played_boards(learned, 20):
        reached = []
        for nodes in (1, 10, 30, 100, 1_000, 10_000):
            agent = ExpectimaxAgent(learned, nodes=nodes, table_bits=18)
            result, values = agent.search(board), agent.evaluate(board)
            reached.append(steps.index((result.depth, result.cutoff)))
            assert result.n_searched <= nodes
            alone = ExpectimaxAgent(learned, result.depth, cutoff=result.cutoff, table_bits=18)
            is_legal = np.isfinite(values)
            if nodes == 1:
                assert values.tolist() == alone.evaluate(board).tolist()
            assert np.allclose(result.values[is_legal], values[is_legal], rtol=0.1)
        assert reached == sorted(reached)
        assert reached[0] < reached[-1]


def test_the_result_of_a_search_has_its_counts(learned: Network) -> None:
    agent = ExpectimaxAgent(learned, 3)
    board = played_boards(learned, 1)[0]
    first, second = agent.search(board), agent.search(board)
    assert (first.action, *first[2:]) == (second.action, *second[2:])
    assert (agent.n_searched, agent.n_table_hits) == (2 * first.n_searched, 2 * first.n_table_hits)
    assert first.n_table_hits > 0
    assert (first.depth, first.cutoff) == (3, CUTOFF)
    assert agent.act(board) == first.action
    over = agent.search(from_text("2 4 2 4 / 4 2 4 2 / 2 4 2 4 / 4 2 4 2"))
    assert (over.action, over.values.tolist()) == (-1, [-np.inf] * 4)
    with pytest.raises(ValueError, match="one word"):
        agent.search([board, board])


def test_a_limited_search_of_the_only_legal_move_is_greedy(learned: Network) -> None:
    board = from_text("2 4 8 16 / 4 8 16 32 / 8 16 32 64 / 2 2 4 4")
    only_left_and_right = ExpectimaxAgent(learned, nodes=1000).search(board)
    assert only_left_and_right.n_searched > 0
    only_down = from_text("2 4 8 16 / 4 8 16 32 / 8 16 32 64 / _ _ _ _")
    result = ExpectimaxAgent(learned, nodes=1000).search(only_down)
    assert (result.action, result.depth, result.n_searched) == (2, 1, 0)


def test_with_hardly_any_time_the_search_is_shallow_but_complete() -> None:
    net = random_network((4, 4))
    board = from_text("2 4 8 _ / 16 _ 2 _ / _ 4 _ 2 / 64 _ 32 _")
    agent = ExpectimaxAgent(net, seconds=1e-9, cutoff=0)
    shallow = [
        ExpectimaxAgent(net, depth, cutoff=0).evaluate(board).tolist() for depth in range(1, 6)
    ]
    assert agent.evaluate(board).tolist() in shallow


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2 4 8 2 / 16 _ 2 4 / _ 4 _ 2 / 64 8 32 _", 0.0005),
        ("2 4 8 _ / 16 _ 2 _ / _ 4 _ 2 / 64 _ 32 _", 0.002),
        ("2 4 8 2 / 16 _ 2 4 / _ 4 _ 2 / 64 8 32 _", 0.01),
    ],
)
def test_an_interrupted_search_does_not_affect_the_next_board(text: str, seconds: float) -> None:
    """Boards that are searched one after the other share the table; each has those of some depth.

    All values are about 16,000, so one that was cut short and counted as 0 would show. Depths 4
    and 5 take some 5 and 100 ms.
    """
    net = network(TUPLES[4, 4])
    net.weights[:] = np.random.default_rng(1).normal(1000, 30, net.weights.size)
    board = from_text(text)
    depths = range(1, 6)
    whole = [ExpectimaxAgent(net, depth, cutoff=0).evaluate(board).tolist() for depth in depths]
    agent = ExpectimaxAgent(net, seconds=seconds, cutoff=0)
    for _ in range(3):
        for values in agent.evaluate(np.full(10, board, np.uint64)).tolist():
            assert values in whole


class ExpiredTimer:
    """A timer of 60 seconds that fires as soon as it is started."""

    def __init__(self, seconds: float, function: Any) -> None:
        assert seconds == 60
        self.start = function

    def cancel(self) -> None:
        """Do nothing."""

    def join(self) -> None:
        """Do nothing."""


def test_a_search_ends_when_its_timer_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five plies of an almost empty board, without a useful table, would take minutes."""
    net = random_network((4, 4))
    monkeypatch.setattr(threading, "Timer", ExpiredTimer)
    agent = ExpectimaxAgent(net, seconds=60, cutoff=0, table_bits=0)
    boards = [from_text("2 4 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ 2")] * 2
    assert agent.evaluate(boards).tolist() == ExpectimaxAgent(net, 1).evaluate(boards).tolist()


def test_compilation_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, deepen = list[int](), expectimax_search.deepen

    def compiled_at_first(*arguments: Any) -> int:
        """Search; the first call takes longer than the limit."""
        calls.append(1)
        if len(calls) == 1:
            time.sleep(0.5)
        return deepen(*arguments)

    board = from_text("2 4 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ 2")
    agent = ExpectimaxAgent(random_network((4, 4)), seconds=0.4)
    agent.search(board)  # loads the kernel in this test as well
    monkeypatch.setattr(expectimax, "deepen", compiled_at_first)
    assert agent.search(board).depth > 1


def test_a_running_search_is_interrupted_by_its_timer() -> None:
    """The search of this board would take minutes without the timer."""
    agent = ExpectimaxAgent(random_network((4, 4)), seconds=0.05, cutoff=0, table_bits=0)
    assert agent.act(from_text("2 4 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ 2")) in range(4)


# Threads


@pytest.mark.parametrize("n", [2, 3, 8])
def test_threads_find_the_values_of_one(n: int) -> None:
    """Without a cutoff values are equal but for rounding, whichever thread has searched them."""
    net, boards = random_network((4, 4)), late_boards(20, 10)
    one = ExpectimaxAgent(net, 3, cutoff=0)
    several = ExpectimaxAgent(net, 3, cutoff=0, threads=n)
    assert several.evaluate(boards) == pytest.approx(one.evaluate(boards), rel=1e-5, abs=1e-3)
    assert several.act(boards).tolist() == one.act(boards).tolist()
    again = pickle.loads(pickle.dumps(several))
    assert again.act(boards).tolist() == one.act(boards).tolist()
    assert all(search.table is again._searches[0].table for search in again._searches)


@pytest.mark.slow
def test_threads_share_their_work(learned: Network) -> None:
    """Two threads together search about as much as one, and each of them a part of it."""
    boards = played_boards(learned, 20)
    one, two = (ExpectimaxAgent(learned, 5, threads=n, table_bits=18) for n in (1, 2))
    one.act(boards)
    two.act(boards)
    parts = [int(search.control[expectimax_search.N_SEARCHED]) for search in two._searches]
    assert sum(parts) == two.n_searched < 1.5 * one.n_searched
    assert min(parts) > 0


def test_searches_of_threads_begin_with_other_tiles() -> None:
    searches = expectimax_search.sharing_table(expectimax_search.new_search(0.1, 3, 2), 4)
    assert [search.lowest_last for search in searches] == [0, 0.25, 0.5, 0.75]
    assert all(search.table is searches[0].table for search in searches)
    assert {(search.cutoff, search.extend) for search in searches} == {(0.1, 2)}
    assert len({search.control.ctypes.data for search in searches}) == 4


def test_torn_entries_are_not_found() -> None:
    """The key of one position with the entry of another, as two threads may leave them."""
    search = expectimax_search.new_search(0.0, 0)
    key, other = np.uint64(0x123), np.uint64(0x456)
    entry, wrong = expectimax_search._pack(7.0, 3, 1.0), expectimax_search._pack(8.0, 3, 1.0)
    expectimax_search._store(search, key, entry)
    assert expectimax_search._find(search, key, 3, 1.0) == 7
    assert np.isnan(expectimax_search._find(search, other, 3, 1.0))
    search.table[0, expectimax_search._SLOTS] = wrong
    assert np.isnan(expectimax_search._find(search, key, 3, 1.0))


def test_threads_stop_after_the_limit_and_search_the_next_board() -> None:
    """Values of an interrupted search would show: all are about 16,000."""
    net = network(TUPLES[4, 4])
    net.weights[:] = np.random.default_rng(1).normal(1000, 30, net.weights.size)
    board = from_text("2 4 8 2 / 16 _ 2 4 / _ 4 _ 2 / 64 8 32 _")
    whole = [ExpectimaxAgent(net, depth, cutoff=0).evaluate(board) for depth in range(1, 6)]
    agent = ExpectimaxAgent(net, seconds=0.005, cutoff=0, threads=3)
    for _ in range(20):
        result = agent.search(board)
        values = agent.evaluate(board)
        assert any(np.allclose(values, expected, rtol=1e-5) for expected in whole)
        assert np.isfinite(result.values).any()


def test_no_thread_searches_on_after_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    net, board = random_network((4, 4)), from_text("2 4 8 _ / 16 _ 2 _ / _ 4 _ 2 / 64 _ 32 _")
    agent = ExpectimaxAgent(net, 6, cutoff=0, threads=3)
    evaluate, searching = expectimax_search.evaluate_moves, threading.Barrier(3)

    def interrupted(net: Network, search: expectimax_search.Search, *others: Any) -> None:
        """Search in the threads, which would take minutes, and interrupt the first one."""
        searching.wait(60)
        if search is agent._searches[0]:
            raise KeyboardInterrupt
        evaluate(net, search, *others)

    ExpectimaxAgent(net, 2, cutoff=0, threads=2).act(board)  # loads the kernel
    before = threading.active_count()
    monkeypatch.setattr(expectimax, "evaluate_moves", interrupted)
    with pytest.raises(KeyboardInterrupt):
        agent.act(board)
    assert threading.active_count() == before
    monkeypatch.undo()
    agent.depth = 2
    assert agent.act(board) == ExpectimaxAgent(net, 2, cutoff=0).act(board)


def test_threads_do_not_go_with_nodes() -> None:
    with pytest.raises(ValueError, match="threads must be 1 with a limit of nodes, got 2"):
        ExpectimaxAgent(random_network((4, 4)), nodes=100, threads=2)


# Whole games


@pytest.mark.slow
def test_games_in_compiled_code_are_those_of_acting_move_by_move(learned: Network) -> None:
    class OnlyActs:
        size = (4, 4)

        def act(self, boards: npt.NDArray[np.uint64]) -> npt.NDArray[np.int8]:
            return agent.act(boards)

    several: list[dict[str, Any]] = [
        *({"depth": 1}, {"depth": 2}, {"depth": 2, "threads": 2}, {"depth": 2, "extend": 3}),
        *({"nodes": 20}, {"nodes": 50, "extend": 3}),
    ]
    for settings in several:
        agent = ExpectimaxAgent(learned, **settings)
        compiled, by_move = play(agent, 3, seed=5), play(OnlyActs(), 3, seed=5)
        for finished, acted in zip(compiled, by_move, strict=True):
            assert finished.tolist() == acted.tolist()


def test_copies_and_pickles_play_alike() -> None:
    agent = ExpectimaxAgent(random_network((4, 4)), 2)
    boards = late_boards(20, 9)
    again = pickle.loads(pickle.dumps(agent))
    assert again.evaluate(boards).tolist() == agent.evaluate(boards).tolist()
    assert copy.deepcopy(agent).act(boards).tolist() == agent.act(boards).tolist()


@pytest.mark.parametrize("seconds", [1e10, 1e300, float("inf"), 0, -1])
def test_times_that_no_clock_holds_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"seconds must be (> 0|<= 1000000)"):
        ExpectimaxAgent(network([[0, 1]]), seconds=seconds)
