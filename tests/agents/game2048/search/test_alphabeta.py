"""Alpha-beta search, compared with values of the program 2048-AI and with a plain search."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search import alphabeta, placements
from afterstate.agents.game2048.search.alphabeta import (
    AlphaBetaAgent,
    AlphaBetaSettings,
    Tiles,
)
from afterstate.agents.game2048.values.heuristic import COMPARED, Compared, Weights, evaluate, terms
from afterstate.envs.game2048.rules import from_text, words
from tests.oracles import alphabeta as plain
from tests.oracles import game2048 as oracle

BLOG = "8 2 2 _ / _ 4 4 _ / _ 2 2 2 / 2 2 _ _"
CORNERS = "2 _ _ _ / _ _ _ _ / _ _ _ _ / _ _ _ 2"
SNAKE = "2 4 8 16 / 256 128 64 32 / 512 1024 _ _ / _ _ _ _"
FULL = "2 4 8 16 / 16 8 4 2 / 2 4 8 16 / 16 8 4 4"
OVER = "2 4 8 16 / 16 8 4 2 / 2 4 8 16 / 16 8 4 2"

WEIGHTS = (0.1, 1.0, 2.7, 1.0)


def rows(text: str) -> oracle.Board:
    return oracle.from_word(from_text(text), 4, 4)


def random_board(
    rng: random.Random, most: int = 11, gaps: Sequence[int] = (1, 2, 4, 8, 12)
) -> oracle.Board:
    """Return a board with many gaps or with few."""
    n_empty = rng.choice(gaps)
    cells = [0] * n_empty + [rng.randint(1, rng.choice([2, 5, most])) for _ in range(16 - n_empty)]
    rng.shuffle(cells)
    return [cells[4 * i : 4 * i + 4] for i in range(4)]


# Evaluation


@pytest.mark.parametrize(
    ("text", "value", "smoothness", "monotonicity", "islands"),
    [
        (BLOG, 1.037750566915749, -8, -6, 4),
        (CORNERS, 6.125454789961198, 0, -2, 2),
        (SNAKE, -11.862249433084251, -27, -24, 10),
    ],
)
def test_evaluations_and_their_terms_equal_those_of_2048_ai(
    text: str, value: float, smoothness: int, monotonicity: int, islands: int
) -> None:
    word = from_text(text)
    for board in (word, rows(text), np.array(rows(text), np.uint8)):
        assert evaluate(board) == pytest.approx(value, abs=1e-12)
    nothing = {"smoothness": 0, "monotonicity": 0, "empty": 0, "largest": 0}
    assert evaluate(word, Weights(**{**nothing, "smoothness": 1})) == smoothness
    assert plain.islands(rows(text)) == islands
    assert evaluate(word, Weights(**nothing)) == 0
    n_empty, largest = sum(row.count(0) for row in rows(text)), max(map(max, rows(text)))
    assert terms(word) == {
        "smoothness": smoothness,
        "monotonicity": monotonicity,
        "empty": math.log(n_empty),
        "largest": largest,
    }


def test_adjacent_monotonicity_compares_neighbors() -> None:
    """On the board of the author's text: -4 by columns, -3 by rows; the program has -6 in all."""
    only = Weights(smoothness=0, monotonicity=1, empty=0, largest=0)
    assert evaluate(from_text(BLOG), only, compared="adjacent") == -7


def test_a_full_board_has_value_minus_infinity() -> None:
    assert evaluate(from_text(FULL)) == -math.inf
    assert evaluate(from_text(FULL), Weights(empty=0)) > -100


@pytest.mark.parametrize("compared", COMPARED)
def test_evaluations_equal_those_of_the_oracle(compared: Compared) -> None:
    rng = random.Random(1)
    for _ in range(2_000):
        board = random_board(rng, 15)
        weights = tuple(rng.choice([0.0, 0.1, 1.0, 2.7]) for _ in range(4))
        result = evaluate(oracle.to_word(board), Weights(*weights), compared)
        assert result == pytest.approx(plain.evaluate(board, weights, compared), abs=1e-12)


def checkered(one: int, other: int) -> int:
    """Return the board word of two tiles that alternate."""
    return oracle.to_word([[(one, other)[(r + c) % 2] for c in range(4)] for r in range(4)])


def test_values_are_within_the_bound_of_the_weights() -> None:
    nothing = {"smoothness": 0, "monotonicity": 0, "empty": 0, "largest": 0}
    rough, unordered = (Weights(**{**nothing, t: 1}) for t in ("smoothness", "monotonicity"))
    assert evaluate(checkered(1, 15), rough) == -rough.most() == -336
    assert evaluate(checkered(0, 15), unordered, "adjacent") == -unordered.most() == -180
    assert evaluate(0, Weights(**{**nothing, "empty": -1})) == -math.log(16)
    rng = random.Random(7)
    for _ in range(1_000):
        weights = Weights(*(rng.uniform(-10, 10) for _ in range(4)))
        board, compared = oracle.to_word(random_board(rng, 15)), rng.choice(COMPARED)
        assert abs(evaluate(board, weights, compared)) < weights.most()


@pytest.mark.parametrize(
    "weights", [{"smoothness": 1e4}, {"largest": 5_000}, {"monotonicity": -55}, {"empty": 1e299}]
)
def test_weights_that_allow_values_beyond_a_win_raise(weights: dict[str, float]) -> None:
    for made in (Weights, AlphaBetaSettings):
        with pytest.raises(ValueError, match="smoothness"):
            made(**weights)


@pytest.mark.parametrize("pruned", [True, False])
def test_placements_equal_those_of_the_oracle(pruned: bool) -> None:
    rng, losses = random.Random(2), placements.smoothness_losses()
    for i in range(1_500):
        board = random_board(rng, 3 if i % 3 else 15)
        word = np.uint64(oracle.to_word(board))
        slots = int(placements.placements(word, pruned, losses))
        result = [
            int(word) | (1 + slot // 16) << int(placements.ORDER[slot % 16])
            for slot in range(32)
            if slots >> slot & 1
        ]
        assert result == [oracle.to_word(each) for each in plain.placements(board, pruned)]


# Search


@pytest.mark.parametrize(
    ("depth", "value", "positions", "cutoffs"),
    [
        (1, 8.816979751083924, 4, 0),
        (2, 9.7743172365556, 53, 0),
        (3, 9.974317236555601, 513, 11),
        (4, 8.974317236555601, 4_057, 154),
    ],
)
def test_results_and_counts_equal_those_of_2048_ai(
    depth: int, value: float, positions: int, cutoffs: int
) -> None:
    result = AlphaBetaAgent(AlphaBetaSettings(depth=depth)).search(from_text(BLOG))
    assert (result.action, result.depth) == (3, depth)
    assert result.value == pytest.approx(value, abs=1e-12)
    assert (result.n_searched, result.n_cutoffs) == (positions, cutoffs)


@pytest.mark.parametrize(
    ("tiles", "depth", "compared", "goal"),
    [
        ("annoying", 1, "occupied", 64),
        ("annoying", 2, "occupied", 2048),
        ("annoying", 3, "occupied", None),
        ("annoying", 3, "occupied", 64),
        ("annoying", 3, "adjacent", 2048),
        ("any", 2, "occupied", 64),
        ("any", 2, "adjacent", None),
    ],
)
def test_searches_equal_those_of_the_oracle(
    tiles: Tiles, depth: int, compared: Compared, goal: int | None
) -> None:
    rng = random.Random(3)
    exponent = None if goal is None else int(math.log2(goal))
    agent = AlphaBetaAgent(
        AlphaBetaSettings(depth=depth, tiles=tiles, goal=goal, compared=compared)
    )
    for _ in range(40):
        board = random_board(rng, 5)
        naive = plain.Search(WEIGHTS, compared, tiles == "annoying", exponent)
        if exponent is not None and max(map(max, board)) >= exponent:
            naive.goal = None
        action, value = naive.player(board, depth, -10_000, 10_000)
        if action < 0:
            continue  # then a shallower search counts
        result = agent.search(oracle.to_word(board))
        assert result.action == action
        assert result.value == pytest.approx(value, abs=1e-9)
        assert result.n_searched == naive.counts.positions
        assert result.n_cutoffs == naive.counts.cutoffs


@pytest.mark.parametrize(
    ("tiles", "depth", "goal"),
    [("annoying", 4, 32), ("annoying", 4, 2048), ("annoying", 5, None), ("any", 3, 32)],
)
def test_cutting_equal_lines_changes_no_result(tiles: Tiles, depth: int, goal: int | None) -> None:
    """Results are the same up to the last tile of the best line."""
    rng, n, n_without = random.Random(9), 0, 0
    every, without = (
        AlphaBetaAgent(AlphaBetaSettings(depth=depth, tiles=tiles, goal=goal, cutoffs=cutoffs))
        for cutoffs in alphabeta.CUTOFFS
    )
    for _ in range(40):
        word = oracle.to_word(random_board(rng, 5, gaps=(1, 2, 4, 8)))
        result, fewer = every.search(word), without.search(word)
        assert fewer == result._replace(n_searched=fewer.n_searched, n_cutoffs=fewer.n_cutoffs)
        np.testing.assert_array_equal(without.evaluate(word), every.evaluate(word))
        n, n_without = n + result.n_searched, n_without + fewer.n_searched
    assert 0 < n_without < n / 2


def test_pruning_by_alpha_and_beta_changes_no_value() -> None:
    """Against a search of everything, with a window that is never closed."""

    def all_of(board: oracle.Board, depth: int) -> float:
        scores = []
        for action in oracle.legal_moves(board):
            after = oracle.move(board, action)[0]
            if depth == 1:
                scores.append(plain.evaluate(after, WEIGHTS))
            else:
                tried = plain.placements(after, True)
                scores.append(min(all_of(each, depth - 1) for each in tried))
        return max(scores, default=-10_000)

    rng, agent = random.Random(4), AlphaBetaAgent(AlphaBetaSettings(depth=3, goal=None))
    for _ in range(15):
        board = random_board(rng, 4)
        result = agent.search(oracle.to_word(board))
        if result.depth == 3:
            assert result.value == pytest.approx(all_of(board, 3), abs=1e-9)
            values = agent.evaluate(oracle.to_word(board))
            assert values.max() == pytest.approx(result.value, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "n", "compared", "wins"),
    [
        (1, 60, "occupied", True),
        (1, 60, "adjacent", False),
        (2, 15, "occupied", False),
        (2, 15, "adjacent", True),
        (3, 6, "occupied", True),
    ],
)
def test_tiles_by_chance_are_expectimax(depth: int, n: int, compared: Compared, wins: bool) -> None:
    """The next larger tile wins, or none does."""
    rng, n_won = random.Random(5), 0
    for _ in range(n):
        board = random_board(rng, 5, gaps=(1, 2, 3) if depth == 3 else (1, 2, 4, 8))
        goal = max(map(max, board)) + 1 if wins else None
        goal_tile = None if goal is None else 1 << goal
        config = AlphaBetaSettings(depth=depth, tiles="chance", goal=goal_tile, compared=compared)
        result = AlphaBetaAgent(config).search(oracle.to_word(board))
        if result.depth < depth or result.action < 0:
            continue
        naive = plain.Search(WEIGHTS, compared, False, goal)
        assert result.value == pytest.approx(naive.expected(board, depth), abs=1e-9)
        after = oracle.move(board, result.action)[0]
        assert result.line == [oracle.to_word(after)]  # then tiles come by chance
        if result.value == 10_000:
            assert any(goal in row for row in after)
        else:
            value = naive.expected_after(after, depth - 1)
            assert result.value == pytest.approx(value - (value > 9_900), abs=1e-9)
        n_won += result.value > 1_000
    assert (n_won > 0) == wins


def test_every_board_is_better_than_a_lost_game() -> None:
    """With weights that make some unfinished boards worth far less than others."""
    rng, weights = random.Random(8), (0.1, 50.0, 2.7, 1.0)
    config = AlphaBetaSettings(*weights, depth=2, tiles="chance", goal=None)
    agent, naive = AlphaBetaAgent(config), plain.Search(weights, "occupied", False, None)
    least = 0.0
    for _ in range(60):
        board = random_board(rng, 8, gaps=(1, 2))
        values = agent.evaluate(oracle.to_word(board))
        for action in oracle.legal_moves(board):
            after = oracle.move(board, action)[0]
            least = min(least, plain.evaluate(after, weights))
            if values.max() > -10_000 and agent.search(oracle.to_word(board)).depth == 2:
                assert values[action] == pytest.approx(naive.expected_after(after, 1), abs=1e-8)
    assert -10_000 < least < -1_000


@pytest.mark.parametrize("tiles", ["annoying", "any"])
def test_the_best_line_is_legal(tiles: Tiles) -> None:
    """Moves and tiles alternate, and the last board is the one that was evaluated."""
    rng, n = random.Random(6), 0
    agent = AlphaBetaAgent(AlphaBetaSettings(depth=3, tiles=tiles, goal=None))
    for _ in range(40):
        board = random_board(rng, 6)
        result = agent.search(oracle.to_word(board))
        here = board
        for i, word in enumerate(result.line):
            then = oracle.from_word(word, 4, 4)
            if i % 2 == 0:
                assert then in [oracle.move(here, a)[0] for a in oracle.legal_moves(here)]
            else:
                assert then in plain.placements(here, tiles == "annoying")
            here = then
        if result.action >= 0:
            assert oracle.move(board, result.action)[0] == oracle.from_word(result.line[0], 4, 4)
            assert evaluate(result.line[-1]) == pytest.approx(result.value, abs=1e-9)
            assert len(result.line) == 2 * result.depth - 1
            n += result.depth == 3
    assert n > 15


@pytest.mark.parametrize(("tiles", "depth"), [("annoying", 4), ("any", 3), ("chance", 3)])
def test_the_soonest_win_is_preferred(tiles: Tiles, depth: int) -> None:
    agent = AlphaBetaAgent(AlphaBetaSettings(depth=depth, tiles=tiles))
    now = from_text("1024 1024 _ _ / _ _ _ _ / _ _ _ _ / 2 _ _ _")
    immediate = agent.search(now)
    assert (immediate.value, immediate.action, len(immediate.line)) == (10_000, 1, 1)
    assert agent.evaluate(now)[[1, 3]].tolist() == [10_000, 10_000]
    next_ = agent.search(from_text("1024 512 512 _ / _ _ _ _ / _ _ _ _ / _ _ _ _"))
    assert next_.value == pytest.approx(9_999, abs=1e-9)
    assert next_.action in (1, 3) and len(next_.line) == (1 if tiles == "chance" else 3)
    after = agent.search(from_text("2048 1024 _ _ / 1024 _ _ _ / _ _ _ _ / _ _ _ _"))
    assert after.value < 100  # reached before the search, the goal does not count


LOST = "4 8 16 32 / 32 16 8 4 / 64 128 256 16 / 8 4 512 512"
"""The second move is the last, whatever tile comes."""


@pytest.mark.parametrize("tiles", ["annoying", "any"])
def test_a_shallower_search_counts_if_all_lines_are_lost(tiles: Tiles) -> None:
    for config in (
        AlphaBetaSettings(depth=6, tiles=tiles),
        AlphaBetaSettings(seconds=0.2, tiles=tiles),
    ):
        agent = AlphaBetaAgent(config)
        result, values = agent.search(from_text(LOST)), agent.evaluate(from_text(LOST))
        assert result.action in (1, 3) and result.depth == 1
        assert values.max() == result.value and np.isfinite(values).tolist() == [0, 1, 0, 1]
        over = agent.search(from_text(OVER))
        assert (over.action, over.line) == (-1, [])
        assert agent.act(from_text(OVER)) == 0
        assert (agent.evaluate(from_text(OVER)) == -np.inf).all()


@pytest.mark.slow
def test_more_time_gives_deeper_searches() -> None:
    board = from_text("2 4 8 16 / 2 _ 4 2 / _ 2 _ _ / _ _ _ _")
    short, long = (AlphaBetaAgent(AlphaBetaSettings(seconds=s)).search(board) for s in (1e-9, 0.3))
    assert short.depth == 1 < 4 <= long.depth
    same = AlphaBetaAgent(AlphaBetaSettings(depth=long.depth)).search(board)
    assert same == long


@pytest.mark.parametrize(
    ("times", "patience", "n"),
    [
        # the third begins in time, and ends later
        ([0.01, 0.04, 0.16, 0.64], 5, 3),
        ([0.01, 0.02, 0.03, 0.045, 1], 5, 4),
        ([0.2, 0.2], 5, 1),
        ([0.001, 0.02, 0.4], 5, 3),  # expected to end after 0.421 s, within five times 0.1 s
        ([0.001, 0.024, 0.6], 5, 2),  # expected to end after 0.601 s
        ([0.001, 0.024, 0.6], 7, 3),
        ([0.001, 0.09, 99], math.inf, 3),
        ([0.0] * 99, 5, alphabeta.MAX_DEPTH),
    ],
)
def test_no_search_begins_that_is_expected_to_exceed_the_patience(
    times: list[float], patience: float, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [5.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    depths = []
    for depth in alphabeta._deepening(0.1, patience):
        depths.append(depth)
        clock[0] += times[depth - 1]
    assert depths == list(range(1, n + 1))


def test_without_patience_searches_begin_until_time_is_up() -> None:
    for patience, expected in ((None, math.inf), (2.5, 2.5)):
        depths: Any = AlphaBetaAgent(AlphaBetaSettings(seconds=3.0, patience=patience))._depths()
        assert depths.gi_frame.f_locals == {"seconds": 3.0, "patience": expected}


def test_a_timed_search_equals_the_search_to_its_depth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_depth, by_time = (
        AlphaBetaAgent(AlphaBetaSettings(depth=3)),
        AlphaBetaAgent(AlphaBetaSettings(seconds=0.1)),
    )
    monkeypatch.setattr(alphabeta, "_deepening", lambda *_: range(1, 4))
    boards = np.array([from_text(text) for text in (BLOG, SNAKE, LOST, OVER)], np.uint64)
    assert [by_time.search(word) for word in boards] == [by_depth.search(word) for word in boards]
    assert np.array_equal(by_time.evaluate(boards), by_depth.evaluate(boards))
    assert np.array_equal(by_time.act(boards), by_depth.act(boards))


# The player


def test_values_of_moves_are_searches_of_their_own() -> None:
    agent = AlphaBetaAgent(AlphaBetaSettings(depth=3, goal=None))
    boards = np.array([from_text(text) for text in (BLOG, SNAKE, OVER)], np.uint64)
    values = agent.evaluate(boards.reshape(3, 1))
    assert values.shape == (3, 1, 4)
    assert (values[2] == -np.inf).all()
    naive = plain.Search(WEIGHTS, "occupied", True, None)
    for board, four in zip((rows(BLOG), rows(SNAKE)), values[:2, 0], strict=True):
        for action in range(4):
            if action in oracle.legal_moves(board):
                after = oracle.move(board, action)[0]
                assert four[action] == pytest.approx(naive.chance(after, 2, -1e4, 1e4), abs=1e-9)
            else:
                assert four[action] == -np.inf
    assert agent.act(boards).tolist()[:2] == values[:2, 0].argmax(1).tolist()


@pytest.mark.parametrize("tiles", alphabeta.TILES)
@pytest.mark.parametrize("weights", [{}, {"smoothness": 28}, {"largest": -600}, {"empty": -3_000}])
def test_moves_are_legal_and_those_of_the_search(tiles: Tiles, weights: dict[str, Any]) -> None:
    rng = random.Random(9)
    boards = [random_board(rng, 6, gaps=(0, 1, 2, 3)) for _ in range(60)]
    words = np.array([oracle.to_word(board) for board in boards], np.uint64)
    agent = AlphaBetaAgent(AlphaBetaSettings(depth=2, tiles=tiles, **weights))
    result = [agent.search(word) for word in words]
    assert agent.act(words).tolist() == [max(0, one.action) for one in result]
    for board, one in zip(boards, result, strict=True):
        legal = oracle.legal_moves(board)
        assert one.action in legal if legal else (one.action, one.value) == (-1, -10_000)


@pytest.mark.slow
def test_it_mostly_reaches_2048_and_more_often_with_depth() -> None:
    rates = []
    for depth in (1, 4):
        games = play(agents.make("alphabeta", depth=depth), 30, seed=1)
        rates.append((games.max_tiles >= 2048).mean())
    assert rates[0] < 0.2 < 0.6 < rates[1]


def test_the_player_is_made_by_its_name() -> None:
    made: Any = agents.make("alphabeta", depth=2, smoothness=0.5, tiles="any", goal=None)
    assert made.settings == AlphaBetaSettings(depth=2, smoothness=0.5, tiles="any", goal=None)
    result: Any = agents.find("alphabeta,depth=2,compared=adjacent")
    assert result.settings == AlphaBetaSettings(depth=2, compared="adjacent")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depth": 0}, "depth"),
        ({"depth": 33}, "depth"),
        ({"depth": 2.5}, "depth"),
        ({"seconds": 0}, "seconds"),
        ({"patience": 0.5}, "patience"),
        ({"smoothness": "1"}, "smoothness"),
        ({"compared": "all"}, "compared"),
        ({"tiles": "worst"}, "tiles"),
        ({"cutoffs": "all"}, "cutoffs"),
        ({"goal": 2}, "goal"),
        ({"goal": 100}, "goal"),
        ({"speed": 1}, "speed"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        agents.make("alphabeta", **settings)


@pytest.mark.parametrize(
    "wrong", [[[1, 2], [3, 4]], -1, 0.5, [0, 1], [[[0] * 4] * 4], "2", [[16] * 4] * 4]
)
def test_invalid_boards_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"board|shape|exponents"):
        evaluate(wrong)


def test_wrong_types_of_boards_and_settings_are_refused() -> None:
    exponents = [[3, 1, 1, 0], [0, 2, 2, 0], [0, 1, 1, 1], [1, 1, 0, 0]]
    player = agents.make("alphabeta", depth=1)
    for wrong in (exponents, np.array([exponents])):
        with pytest.raises(ValueError, match="board words"):
            player.act(wrong)
    assert player.act(np.full(16, words(exponents))).shape == (16,)
    with pytest.raises(ValueError, match="settings"):
        AlphaBetaAgent({"depth": 3})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weights"):
        evaluate(0x11, {"smoothness": 1})  # type: ignore[arg-type]
