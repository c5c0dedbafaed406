"""Solved boards against a naive solver, simulated games and published counts."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from afterstate.agents.game2048.play import Player, play
from afterstate.agents.game2048.search.exact import ExactAgent, expected_score, solve
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.simple import RandomAgent, RewardAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.envs.game2048.rules import field, from_text, legal
from tests.oracles import game2048 as oracle
from tests.oracles.ntuple import expected_score as naive_score
from tests.oracles.ntuple import reachable, symmetric_boards
from tests.oracles.ntuple import solve as naive_solve
from tests.support.game2048.tuple_networks import exact_network

Boards = npt.NDArray[np.uint64]

SIZES = [(1, 2), (2, 1), (1, 3), (3, 1), (1, 4), (4, 1), (2, 2), (2, 3), (3, 2)]

by_size = pytest.mark.parametrize(
    "size",
    [
        *SIZES[:-2],
        pytest.param(SIZES[-2], marks=pytest.mark.slow),
        pytest.param(SIZES[-1], marks=pytest.mark.exhaustive),  # of the same boards, transposed
    ],
)
"""The naive solver takes long for the last two."""

solved = cache(solve)  # 2x4 takes two seconds


class FirstLegal:
    """Plays the first legal move, counted from a different action on every board.

    Symmetric boards get moves that are not symmetric.
    """

    def __init__(self, size: tuple[int, int], shift: int = 7) -> None:
        self.size, self.shift = size, shift

    def act(self, boards: Boards) -> npt.NDArray[np.int8]:
        """Return the moves of boards; 0 where the game is over."""
        return np.array([self.choose(board) for board in boards.tolist()], np.int8)

    def choose(self, board: int) -> int:
        """Return the move of a board."""
        order = [(board % self.shift + k) % 4 for k in range(4)]
        moves = legal(board, field(*self.size))
        return next((action for action in order if moves >> action & 1), 0)


def images(word: int, size: tuple[int, int]) -> list[int]:
    """Return the words of all symmetric boards."""
    return [oracle.to_word(board) for board in symmetric_boards(oracle.from_word(word, *size))]


# Values


@by_size
def test_values_and_counts_equal_those_of_the_naive_solver(size: tuple[int, int]) -> None:
    value, values = naive_solve(*size)
    solution = solved(size)
    assert solution.size == size
    assert solution.value == pytest.approx(value, rel=1e-12)
    assert solution.n_states == len(reachable(*size))
    assert solution.n_afterstates == len(values)
    assert solution.estimate(list(values)) == pytest.approx(list(values.values()), rel=1e-12)


@by_size
def test_afterstates_are_kept_once_as_the_smallest_of_the_symmetric_boards(
    size: tuple[int, int],
) -> None:
    solution = solved(size)
    everything: set[int] = set()
    for word in solution.afters.tolist():
        assert word == min(images(word, size))
        everything.update(images(word, size))
    assert (np.diff(solution.afters) > 0).all()
    assert len(everything) == solution.n_afterstates
    assert solution.afters.dtype == np.uint64
    assert solution.values.dtype == np.float64
    assert solution.afters.shape == solution.values.shape


def test_two_cells_worked_out_by_hand() -> None:
    """Two 2 (0.81) make a 4, and an 8 too only if the next tile is a 4 (0.1); two 4 (0.01) an 8.

    A 2 and a 4 end the game without a move, and so do an 8 and any tile.
    """
    solution = solved((1, 2))
    assert solution.value == pytest.approx(0.81 * (4 + 0.1 * 8) + 0.01 * 8)
    assert solution.estimate([from_text("4 _"), from_text("_ 8")]) == pytest.approx([0.8, 0])
    assert solution.evaluate(from_text("2 2")) == pytest.approx([-np.inf, 4.8, -np.inf, 4.8])
    assert solution.evaluate(from_text("2 4")).tolist() == [-np.inf] * 4
    assert (solution.n_states, solution.n_afterstates) == (8, 4)


def test_four_cells() -> None:
    """The published counts: 662 boards, 464 afterstates; and one value of two 2s anywhere."""
    solution = solve()
    assert solution.size == (2, 2)
    assert solution.value == pytest.approx(66.964149, abs=5e-7)
    assert (solution.n_states, solution.n_afterstates) == (662, 464)
    starts = ["2 2 / _ _", "2 _ / 2 _", "2 _ / _ 2", "_ 2 / 2 _", "_ 2 / _ 2", "_ _ / 2 2"]
    best = solution.evaluate([from_text(start) for start in starts]).max(axis=1)
    assert best == pytest.approx([67.696264] * 6, abs=5e-7)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(2, 4), pytest.param((4, 2), marks=pytest.mark.slow)])
def test_eight_cells(size: tuple[int, int]) -> None:
    solution = solved(size)
    assert solution.afters.size == 3_406_686
    assert (solution.n_states, solution.n_afterstates) == (19_920_382, 13_625_764)
    assert solution.value == pytest.approx(2641.873036, abs=5e-7)
    assert solution.values.min() == 0


@pytest.mark.exhaustive
def test_nine_cells() -> None:
    """31,431,374 afterstates and 5468.49 points: Yamashita et al. 2022, Galebach 2014."""
    solution = solve((3, 3))
    assert solution.afters.size == 31_431_374
    assert (solution.n_states, solution.n_afterstates) == (388_921_077, 251_166_532)
    assert solution.value == pytest.approx(5468.486797, abs=5e-7)
    scores = play(ExactAgent(solution), 4000, seed=1).scores
    assert abs(scores.mean() - solution.value) < 3 * scores.std() / 4000**0.5


@pytest.mark.parametrize("size", [(2, 2), (2, 3), (2, 4)])
def test_symmetric_boards_have_equal_values(size: tuple[int, int]) -> None:
    solution = solved(size)
    boards = random.Random(1).choices(solution.afters.tolist(), k=300)
    for word, value in zip(boards, solution.estimate(boards).tolist(), strict=True):
        same = images(word, size)
        assert len(same) == 8 if size == (2, 2) else 4
        assert solution.estimate(same).tolist() == [value] * len(same)


def test_a_move_has_the_value_of_reward_plus_afterstate() -> None:
    solution = solved((2, 2))
    for board in reachable(2, 2):
        expected = [-np.inf] * 4
        for action in oracle.legal_moves(board):
            after, reward = oracle.move(board, action)
            expected[action] = reward + float(solution.estimate(oracle.to_word(after)))
        assert solution.evaluate(oracle.to_word(board)).tolist() == expected


def test_an_afterstate_has_the_mean_value_of_its_boards() -> None:
    solution = solved((2, 4))
    for word in random.Random(2).sample(solution.afters.tolist(), 200):
        outcomes = oracle.spawn_outcomes(oracle.from_word(word, 2, 4))
        best = solution.evaluate([oracle.to_word(board) for board, _ in outcomes]).max(axis=1)
        mean = np.maximum(best, 0) @ [p for _, p in outcomes]
        assert float(solution.estimate(word)) == pytest.approx(mean, rel=1e-12)


# Players


@by_size
def test_expected_scores_of_players_equal_those_of_the_naive_solver(size: tuple[int, int]) -> None:
    player = FirstLegal(size)
    assert expected_score(player) == pytest.approx(naive_score(*size, player.act), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("size", [*SIZES, (2, 4)])
def test_the_exact_player_scores_the_optimum(size: tuple[int, int]) -> None:
    solution = solved(size)
    assert expected_score(ExactAgent(solution)) == pytest.approx(solution.value, rel=1e-12)


@pytest.mark.parametrize("size", [(2, 2), (2, 3), (2, 4)])
def test_the_exact_player_scores_the_optimum_in_games(size: tuple[int, int]) -> None:
    solution = solved(size)
    scores = play(ExactAgent(solution), 4000, seed=1).scores
    assert abs(scores.mean() - solution.value) < 3 * scores.std() / 4000**0.5


@pytest.mark.slow
@pytest.mark.parametrize("size", [(2, 2), (2, 3)])
def test_no_player_scores_more_than_the_optimum(size: tuple[int, int]) -> None:
    best = solved(size).value
    empty = network([[0]], size)
    players: list[Player] = [NTupleAgent(empty)]
    for n in (3, 7):
        players += [FirstLegal(size, n), RandomAgent(n, size), RewardAgent(n, size)]
    scores = [expected_score(player) for player in players]
    assert max(scores) < 0.95 * best
    assert max(scores) < expected_score(ExpectimaxAgent(empty, 4)) < best * (1 + 1e-12)


@pytest.mark.parametrize("size", [5, (2, 2, 2), "22"])
def test_the_size_of_a_player_is_checked(size: Any) -> None:
    player = FirstLegal((2, 2))
    player.size = size
    with pytest.raises(ValueError, match="size"):
        expected_score(player)


def test_players_get_each_unfinished_board_once() -> None:
    shown: list[int] = []

    class Watched(FirstLegal):
        def act(self, boards: Boards) -> npt.NDArray[np.int8]:
            shown.extend(boards.tolist())
            return super().act(boards)

    expected_score(Watched((2, 2)))
    unfinished = {oracle.to_word(b) for b in reachable(2, 2) if not oracle.is_over(b)}
    assert len(shown) == len(set(shown)) < len(unfinished)
    assert set(shown) < unfinished


@pytest.mark.slow
def test_the_mean_over_random_players_is_the_score_of_random_moves() -> None:
    """By the recursion over all boards of 2x2: 400 drawn players against one that always draws."""
    worth: dict[int, float] = {}
    for board in reachable(2, 2)[::-1]:
        options = [oracle.move(board, action) for action in oracle.legal_moves(board)]
        values = [
            reward + sum(p * worth[oracle.to_word(b)] for b, p in oracle.spawn_outcomes(after))
            for after, reward in options
        ]
        worth[oracle.to_word(board)] = sum(values) / max(len(values), 1)
    start = [[0, 0], [0, 0]]
    random_score = sum(
        p * q * worth[oracle.to_word(board)]
        for first, p in oracle.spawn_outcomes(start)
        for board, q in oracle.spawn_outcomes(first)
    )
    scores = np.array([expected_score(RandomAgent(seed, (2, 2))) for seed in range(400)])
    assert abs(scores.mean() - random_score) < 3 * scores.std() / 400**0.5


# Networks


@by_size
def test_the_network_has_the_values_of_all_afterstates(size: tuple[int, int]) -> None:
    solution = solved(size)
    net = exact_network(solution)
    assert net.size == size
    assert (estimate(net, solution.afters) == solution.values.astype(np.float32)).all()
    boards = [board for word in solution.afters.tolist()[::50] for board in images(word, size)]
    assert estimate(net, boards).tolist() == solution.estimate(boards).astype(np.float32).tolist()
    assert np.count_nonzero(net.weights) <= solution.n_afterstates


# Interface


def test_estimate_and_evaluate_keep_the_shape_of_their_boards() -> None:
    solution = solved((2, 3))
    boards = solution.afters[1000:1024].reshape(2, 3, 4)
    values = solution.estimate(boards)
    assert values.tolist() == solution.values[1000:1024].reshape(2, 3, 4).tolist()
    assert solution.estimate(boards[:, ::2]).tolist() == values[:, ::2].tolist()
    assert solution.estimate(int(boards[0, 1, 2])).shape == ()
    assert solution.estimate(boards[:0]).shape == (0, 3, 4)
    board = np.uint64(from_text("2 _ _ / _ _ 4"))
    assert solution.evaluate([[board, board]]).shape == (1, 2, 4)
    assert solution.evaluate(board).tolist() == solution.evaluate([[board]])[0, 0].tolist()
    assert solution.evaluate([]).shape == (0, 4)


def test_the_exact_player_takes_the_first_among_equals() -> None:
    agent = ExactAgent(solved((2, 2)))
    assert agent.size == (2, 2)
    corners, below, over = from_text("2 _ / _ 2"), from_text("2 4 / _ _"), from_text("2 4 / 4 2")
    values = agent.solution.evaluate(corners)
    assert values.tolist() == [values[0]] * 4
    actions = agent.act([corners, below, over])
    assert actions.tolist() == [0, 2, 0]
    assert actions.dtype == np.int8


def test_progress_is_reported_layer_by_layer() -> None:
    seen: list[tuple[int, int]] = []
    quiet, reported = solve((2, 2)), solve((2, 2), lambda done, n: seen.append((done, n)))
    assert quiet.value == reported.value
    assert seen == [(i + 1, len(seen)) for i in range(len(seen))]
    n_sums = len({sum(2**t for row in b for t in row if t) for b in reachable(2, 2)})
    assert len(seen) == 2 * n_sums


@pytest.mark.parametrize("size", [(4, 4), (3, 4), (0, 2), (1, 1), (2, 5), (2.0, 2), (-1, 2)])
def test_wrong_sizes_are_refused(size: Any) -> None:
    with pytest.raises(ValueError, match=r"size|board"):
        solve(size)
    with pytest.raises(ValueError, match=r"size|board"):
        expected_score(FirstLegal(size))


@pytest.mark.parametrize("text", ["2 _ / _ 2", "64 _ / _ _", "8 8 / 8 8"])
def test_boards_that_are_not_afterstates_are_refused(text: str) -> None:
    solution = solved((2, 2))
    with pytest.raises(ValueError, match=f"afterstate {text}"):
        solution.estimate([from_text("4 _ / _ _"), from_text(text)])


def test_boards_that_do_not_occur_are_refused() -> None:
    agent = ExactAgent(solved((2, 2)))
    for board in (from_text("64 _ / 2 _"), from_text("2 _ / _ _")):
        with pytest.raises(ValueError, match="afterstate"):
            agent.solution.evaluate(board)
        with pytest.raises(ValueError, match="afterstate"):
            agent.act(board)
    for method in (agent.solution.estimate, agent.solution.evaluate, agent.act):
        with pytest.raises(ValueError, match="outside"):
            method(from_text("2 _ 4"))


def test_players_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"size|board"):
        expected_score(FirstLegal((2, 2)), (2, 3))


class Constant:
    """A player without a size that returns the same answer for any boards."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def act(self, boards: Boards) -> Any:
        """Return the answer if it is a list, else repeat it for each board."""
        return self.answer if isinstance(self.answer, list) else np.full(boards.shape, self.answer)


@pytest.mark.parametrize("answer", [0, 1, 2, 3, -1, 4, 260, 2**33])
def test_illegal_actions_are_refused(answer: int) -> None:
    with pytest.raises(ValueError, match="illegal action"):
        expected_score(Constant(answer), (2, 2))


@pytest.mark.parametrize("answer", [0.5, True, [0], [[0, 1]], []])
def test_answers_that_are_not_actions_are_refused(answer: Any) -> None:
    with pytest.raises(ValueError, match="action"):
        expected_score(Constant(answer), (2, 2))


def test_players_without_a_size_take_any() -> None:
    player = FirstLegal((2, 2))
    anonymous = Constant([])
    anonymous.act = player.act  # type: ignore[method-assign]
    assert expected_score(anonymous, (2, 2)) == expected_score(player)
    with pytest.raises(ValueError, match="4x4"):
        expected_score(anonymous)
