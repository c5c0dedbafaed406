"""Whole games by players: the environment's games, played in parallel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest

import afterstate.envs  # noqa: F401
from afterstate.agents.game2048.play import play, size_of_player
from afterstate.agents.game2048.simple import RandomAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.envs.game2048.games import BOARD, EXCESS, SCORE, new_games, refresh_flags
from afterstate.envs.game2048.rules import from_text, words
from afterstate.envs.words import Ints

Boards = npt.NDArray[np.uint64]
Actions = npt.NDArray[np.int8]


def player(size: tuple[int, int], seed: int = 1) -> NTupleAgent:
    """Return a greedy player with random weights."""
    cells = [4 * row + col for row in range(size[0]) for col in range(size[1])]
    net = network([cells[:3], cells[-2:]], size)
    net.weights[:] = np.random.default_rng(seed).normal(0, 50, net.weights.size)
    return NTupleAgent(net)


class BoardByBoard:
    """A player with `act` alone."""

    def __init__(self, agent: NTupleAgent) -> None:
        self.agent, self.size = agent, agent.size

    def act(self, boards: Boards) -> Actions:
        """Return the actions of the player."""
        return self.agent.act(boards)


@pytest.mark.parametrize("size", [(4, 4), (2, 2), (3, 4), (1, 2), (4, 1)])
def test_games_are_those_of_the_environment_with_following_seeds(size: tuple[int, int]) -> None:
    agent = player(size)
    played = play(agent, 12, seed=100, size=size)
    assert all(column.shape == (12,) and column.dtype == np.int64 for column in played)
    env = gym.make("Game2048-v0", size=size)
    for i in range(12):
        observation, info = env.reset(seed=100 + i)
        n_moves, score, terminated = 0, 0.0, not info["action_mask"].any()
        while not terminated:
            action, _ = agent.predict(observation)
            observation, reward, terminated, _, info = env.step(int(action))
            n_moves, score = n_moves + 1, score + float(reward)
        assert played.scores[i] == info["score"] == score
        assert played.n_moves[i] == n_moves
        assert played.max_tiles[i] == info["max_tile"] == 2 ** int(observation.max())
    env.close()


def test_games_do_not_depend_on_their_batch() -> None:
    agent = player((4, 4))
    together = play(agent, 6, seed=3)
    apart = [play(agent, 1, seed=3 + i) for i in range(6)]
    assert together.scores.tolist() == [int(games.scores[0]) for games in apart]
    assert together.n_moves.tolist() == [int(games.n_moves[0]) for games in apart]
    assert len(set(together.scores.tolist())) > 1


def test_each_game_may_have_its_own_seed() -> None:
    agent, seeds = player((4, 4)), [5, 2**40, 5, 3]
    together = play(agent, 4, seed=seeds)
    apart = [play(agent, 1, seed=seed) for seed in seeds]
    assert together.scores.tolist() == [int(games.scores[0]) for games in apart]
    with pytest.raises(ValueError, match="seed"):
        play(agent, 4, seed=seeds[:3])
    with pytest.raises(ValueError, match="seed"):
        play(agent, 2, seed=[1, -1])


def test_without_games_the_results_are_empty() -> None:
    assert [len(column) for column in play(player((4, 4)), 0)] == [0, 0, 0]


def test_report_counts_the_games_that_have_ended_and_the_moves() -> None:
    seen: list[tuple[int, int]] = []
    agent = BoardByBoard(player((2, 2)))
    played = play(agent, 20, report=lambda *numbers: seen.append(numbers))
    rounds = range(1, int(played.n_moves.max()) + 1)
    assert [ended for ended, _ in seen] == [int((played.n_moves <= t).sum()) for t in rounds]
    assert [moves for _, moves in seen] == [int(played.n_moves.clip(max=t).sum()) for t in rounds]


def test_report_counts_the_games_that_a_player_finishes_by_itself() -> None:
    seen: list[tuple[int, int]] = []
    played = play(player((2, 2)), 20, report=lambda *numbers: seen.append(numbers))
    ended, n_moves = zip(*seen, strict=True)
    assert list(n_moves) == [int(played.n_moves[:i].sum()) for i in ended]
    assert ended[-1] == 20
    assert list(ended) == sorted(ended)


def watched(player: Any, n_games: int, seed: int, size: tuple[int, int]) -> list[list[Any]]:
    """Return the boards and actions that a watcher gets of each game."""
    seen: list[list[Any]] = [[] for _ in range(n_games)]

    def watch(games: Ints, boards: Boards, actions: Ints) -> None:
        assert games.shape == boards.shape == actions.shape
        assert games.dtype == actions.dtype == np.int64
        assert boards.dtype == np.uint64
        for i, board, action in zip(*map(np.ndarray.tolist, (games, boards, actions)), strict=True):
            seen[i].append((board, action))

    played = play(player, n_games, seed, size, watch=watch)
    assert [len(moves) for moves in seen] == played.n_moves.tolist()
    return seen


@pytest.mark.parametrize("size", [(4, 4), (2, 2), (3, 4), (1, 2)])
def test_watchers_get_each_board_of_the_environment_and_the_action(
    size: tuple[int, int],
) -> None:
    agent = player(size)
    seen = watched(agent, 8, 100, size)
    env = gym.make("Game2048-v0", size=size)
    for i in range(8):
        observation, info = env.reset(seed=100 + i)
        for board, action in seen[i]:
            assert board == int(words(observation))
            assert action == int(agent.predict(observation)[0])
            observation, _, _, _, info = env.step(action)
        assert not info["action_mask"].any()
    env.close()


@pytest.mark.parametrize("size", [(4, 4), (2, 2)])
def test_watching_changes_no_game(size: tuple[int, int]) -> None:
    """Also for a player that can finish games by itself."""
    agent = player(size)
    alone = play(agent, 20, 5, size)
    for each in (agent, BoardByBoard(agent)):
        result = play(each, 20, 5, size, watch=lambda *shown: None)
        for one, other in zip(result, alone, strict=True):
            assert one.tolist() == other.tolist()
    assert watched(agent, 20, 5, size) == watched(BoardByBoard(agent), 20, 5, size)


def test_finish_is_not_used_with_watch() -> None:
    class Finisher(BoardByBoard):
        def finish(self, games: Boards) -> Ints:
            raise AssertionError("it finished a game")

    agent = Finisher(player((2, 2)))
    assert play(agent, 3, watch=lambda *shown: None).n_moves.all()
    with pytest.raises(AssertionError, match="it finished a game"):
        play(agent, 3)


def test_watch_is_called_before_a_move_and_report_after_it() -> None:
    order: list[str] = []
    played = play(
        player((2, 2)),
        9,
        report=lambda ended, n_moves: order.append(f"report {n_moves}"),
        watch=lambda games, boards, actions: order.append(f"watch {len(games)}"),
    )
    left = [int((played.n_moves > t).sum()) for t in range(played.n_moves.max())]
    rounds = [(f"watch {n}", f"report {sum(left[: t + 1])}") for t, n in enumerate(left)]
    assert order == [each for both in rounds for each in both]


def test_watchers_get_copies() -> None:
    """Later moves do not change the arrays of earlier calls."""
    seen: list[Any] = []

    def watch(games: Ints, boards: Boards, actions: Ints) -> None:
        seen.append([array.copy() for array in (games, boards, actions)])
        seen.append([games, boards, actions])

    agent = player((2, 2))
    play(agent, 9, watch=watch)
    for copies, arrays in zip(seen[::2], seen[1::2], strict=True):
        for copy, array in zip(copies, arrays, strict=True):
            assert (copy == array).all()


def test_an_illegal_move_is_not_watched() -> None:
    shown: list[Any] = []
    with pytest.raises(ValueError, match="illegal"):
        play(SameAction(5), 3, watch=lambda *arrays: shown.append(arrays))
    assert not shown


@pytest.mark.parametrize("size", [(4, 4), (2, 2), (3, 4), (1, 2)])
def test_a_player_that_finishes_games_plays_them_as_it_would_board_by_board(
    size: tuple[int, int],
) -> None:
    agent = player(size)
    finished, played = (play(each, 70, seed=5) for each in (agent, BoardByBoard(agent)))
    for one, other in zip(finished, played, strict=True):
        assert one.tolist() == other.tolist()


def test_a_network_player_finishes_games_up_to_a_65536_tile() -> None:
    """From there on a board word does not hold the game: the next boards are downgraded."""
    games = new_games(2)
    games[BOARD, 0] = from_text("32768 32768 2 4 / 4 2 4 2 / 2 4 2 4 / 4 2 4 2")
    games[BOARD, 1] = from_text("2 4 2 4 / 4 2 4 2 / 2 4 2 4 / 4 2 4 2")
    for i in range(2):
        refresh_flags(games, i, 4, 4)
    assert NTupleAgent(network([[0]])).finish(games).tolist() == [1, 0]
    assert games[SCORE].tolist() == [65_536, 0]
    assert (games[EXCESS] > 0).tolist() == [True, False]


def test_the_player_gets_only_unfinished_games() -> None:
    agent, shown = player((2, 2)), []

    class Watched:
        def act(self, boards: Boards) -> Actions:
            assert boards.dtype == np.uint64
            shown.append(len(boards))
            return agent.act(boards)

    played = play(Watched(), 9, size=(2, 2))
    assert shown == [int((played.n_moves > t).sum()) for t in range(played.n_moves.max())]


class SameAction:
    """Returns the same action for every board, and raises after a thousand calls."""

    def __init__(self, action: Any, n: int | None = None) -> None:
        self.action, self.n, self.calls = action, n, 0

    def act(self, boards: Boards) -> Any:
        """Return the same actions again."""
        self.calls += 1
        if self.calls > 1_000:
            raise RuntimeError("play did not stop")
        return np.full(len(boards) if self.n is None else self.n, self.action, np.int8)


@pytest.mark.parametrize("action", [0, 1, 2, 3, 4, -1, 100])
def test_an_illegal_move_is_refused(action: int) -> None:
    with pytest.raises(ValueError, match="illegal action"):
        play(SameAction(action), 3)


def test_one_illegal_move_among_many_is_refused() -> None:
    """Moves are legal except in the third game."""
    agent = player((4, 4))

    class Slip:
        def act(self, boards: Boards) -> Actions:
            actions = agent.act(boards)
            actions[2] = 0 if actions[2] else actions[2]
            return actions

    with pytest.raises(ValueError, match="illegal action"):
        play(Slip(), 4)


@pytest.mark.parametrize("offset", [-4, 4, 8])
def test_actions_are_not_counted_modulo_four(offset: int) -> None:
    agent = player((4, 4))

    class Shifted:
        def act(self, boards: Boards) -> Actions:
            return agent.act(boards) + np.int8(offset)

    with pytest.raises(ValueError):
        play(Shifted(), 1)


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_another_number_of_actions_than_boards_is_refused(n: int) -> None:
    """Up is legal in the first games of the seeds 0, 1 and 2, so that only the number is wrong."""
    with pytest.raises(ValueError):
        play(SameAction(0, n), 3, seed=first_seed_with_up_legal())


def first_seed_with_up_legal() -> int:
    """Return a seed such that its game and the next two allow the action up at first."""
    env = gym.make("Game2048-v0")
    masks = [env.reset(seed=seed)[1]["action_mask"][0] for seed in range(200)]
    env.close()
    return next(i for i in range(197) if all(masks[i : i + 3]))


@pytest.mark.parametrize("n_games", [-1, 10**12, 1.5, None, "1", True])
def test_wrong_numbers_of_games_are_refused(n_games: Any) -> None:
    with pytest.raises(ValueError, match=r"n_games must be an integer in 0\.\.10,000,000"):
        play(SameAction(0), n_games)


@pytest.mark.parametrize(
    "seed",
    [
        *(-1, None, 1.5, np.array(2), np.ones((2, 1), int)),
        *("ab", b"ab", bytearray(2), [1], range(10**12), [1, -1], [1, None]),
    ],
    ids=repr,
)
def test_wrong_seeds_are_refused(seed: Any) -> None:
    with pytest.raises(ValueError, match=r"seed must be (one integer or 2|an integer >= 0)"):
        play(SameAction(0), 2, seed)


@pytest.mark.parametrize("size", [(1, 1), (5, 4), (0, 2)])
def test_wrong_sizes_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="rows and columns"):
        play(SameAction(0), 1, size=size)


@pytest.mark.parametrize("size", [5, 0, (4,), (2, 2), "44"])
def test_a_wrong_size_is_named(size: Any) -> None:
    with pytest.raises(ValueError, match="size"):
        play(RandomAgent(seed=1), 1, size=size)


def test_the_message_has_the_shape_of_many_actions() -> None:
    with pytest.raises(ValueError, match=r"for each of 50 boards, got int8 of shape \(49,\)"):
        play(SameAction(0, 49), 50)


@pytest.mark.parametrize("size", [np.array([2, 2]), [2, 2], (2, 2)])
def test_a_size_may_be_an_array(size: Any) -> None:
    player: Any = SimpleNamespace(size=size)
    assert size_of_player(player) == (2, 2)


@pytest.mark.parametrize("size", [None, 4, np.array(4), np.zeros(2), "ab"])
def test_a_wrong_size_is_that_of_the_player(size: Any) -> None:
    player: Any = SimpleNamespace(size=size)
    with pytest.raises(ValueError, match="the player's size: "):
        size_of_player(player)
