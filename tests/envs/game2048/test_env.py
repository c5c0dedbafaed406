"""`Game2048Env` by Gymnasium's checkers and wrappers, by the oracle, and by the learner's games."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics

from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.learning.self_play import play_path
from afterstate.agents.game2048.learning.td import new_path
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.agents.game2048.values.ntuple_network import Network, network
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.rules import DOWN, LEFT, RIGHT, UP, field, spawn, words
from afterstate.envs.game2048.vector_env import Game2048VectorEnv
from afterstate.envs.words import Word, seed_word
from tests.oracles import game2048 as oracle
from tests.support.env_checks import (
    ACTIONS,
    FULL,
    ONLY_SIDEWAYS,
    assert_same,
    by_observation,
    by_size,
    make,
    on_board,
    play,
    unchanged,
)


@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array", "human"])
def test_check_env_passes_in_every_render_mode(
    render_mode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any complaint is a warning, which is an error here."""
    pytest.importorskip("PIL")
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(Game2048Env.metadata, "render_fps", 1_000)
    env = make(illegal="terminate", render_mode=render_mode)
    check_env(env)
    env.close()


@by_size
@by_observation
def test_check_env_passes_on_every_size(size: tuple[int, int], observation: str) -> None:
    check_env(make(size=size, observation=observation), skip_render_check=True)


@by_size
@by_observation
def test_check_env_of_stable_baselines3_passes(size: tuple[int, int], observation: str) -> None:
    """It only warns that a board is no vector, or that planes are no image."""
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checker.check_env(Game2048Env(size, observation=observation), warn=True)
    expected = "unconventional shape" if observation == "exponents" else "image"
    assert [str(w.message) for w in caught if expected not in str(w.message)] == []


@by_size
def test_spaces_have_the_size_of_the_board(size: tuple[int, int]) -> None:
    env, planes = Game2048Env(size), Game2048Env(size, observation="onehot")
    assert env.action_space == planes.action_space == gym.spaces.Discrete(4)
    assert env.observation_space == gym.spaces.Box(0, 17, size, np.uint8)
    assert planes.observation_space == gym.spaces.Box(0, 1, (18, *size), np.float32)


@by_size
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_seed_gives_the_games_of_the_oracle(size: tuple[int, int], seed: int) -> None:
    """Every observation, reward, end and info is equal in two games of one random stream."""
    env, rng = Game2048Env(size), np.random.default_rng(seed)
    state = seed_word(seed)
    for game in range(2):
        board, state = oracle.start(*size, 2, state)
        observation, info = env.reset(seed=None if game else seed)
        after, score, legal, reward = board, 0, True, 0
        while True:
            assert observation.dtype == np.uint8
            assert observation.tolist() == board
            masks = [int(action in oracle.legal_moves(board)) for action in ACTIONS]
            largest = max(max(row) for row in board)
            expected = {
                "action_mask": np.array(masks, np.int8),
                "afterstate": np.array(after, np.uint8),
                "score": score,
                "max_tile": 2**largest,
                "legal": legal,
            }
            assert_same(info, expected)
            assert env.observation_space.contains(observation)
            assert env.action_masks().tolist() == [bool(mask) for mask in masks]
            if oracle.is_over(board):
                break
            action = int(rng.integers(4))
            after, reward = oracle.move(board, action)
            legal = after != board
            if legal:
                board, state = oracle.spawn(after, state)
            score += reward
            observation, got, terminated, truncated, info = env.step(action)
            assert type(got) is float and got == reward
            assert terminated is oracle.is_over(board)
            assert truncated is False


@by_size
def test_onehot_planes_mark_the_exponents(size: tuple[int, int]) -> None:
    exponents, planes = Game2048Env(size), Game2048Env(size, observation="onehot")
    pairs = [(exponents.reset(seed=5)[0], planes.reset(seed=5)[0])]
    for one, other in zip(play(exponents, 200, 1), play(planes, 200, 1), strict=True):
        pairs.append((one[0], other[0]))
        assert_same(one[1:], other[1:])
    for board, plane in pairs:
        assert plane.dtype == np.float32 and plane.shape == (18, *size)
        assert (plane == (np.arange(18)[:, None, None] == board)).all()


def test_every_exponent_has_its_plane() -> None:
    board = np.arange(18).reshape(2, 9)[:, :4]
    for part in (board, board + 4, board + 5):
        env = Game2048Env((2, 4), observation="onehot")
        plane, _ = env.reset(options={"board": part})
        assert (plane.argmax(axis=0) == part).all()
        assert (plane.sum(axis=0) == 1).all()


@pytest.mark.parametrize("start_tiles", [1, 6])
def test_a_game_starts_with_the_number_of_tiles_set(start_tiles: int) -> None:
    env = Game2048Env((2, 3), start_tiles=start_tiles)
    for seed in range(5):
        board, info = env.reset(seed=seed)
        assert board.tolist() == oracle.start(2, 3, start_tiles, seed_word(seed))[0]
        assert np.count_nonzero(board) == start_tiles
        assert_same(info["afterstate"], board)


def test_games_without_a_seed_differ() -> None:
    starts = {str(Game2048Env().reset()[0].tolist()) for _ in range(20)}
    assert len(starts) > 10


def test_a_reset_to_a_board_continues_the_random_stream() -> None:
    env = Game2048Env()
    env.reset(seed=4)
    env.reset(options={"board": ONLY_SIDEWAYS})
    first = env.step(LEFT)[0]
    env.reset(options={"board": ONLY_SIDEWAYS})
    second = env.step(LEFT)[0]
    _, state = oracle.start(4, 4, 2, seed_word(4))
    after, _ = oracle.move(ONLY_SIDEWAYS, LEFT)
    expected, state = oracle.spawn(after, state)
    assert first.tolist() == expected
    assert second.tolist() == oracle.spawn(after, state)[0]


@by_observation
def test_reset_starts_from_a_given_board(observation: str) -> None:
    env = Game2048Env(observation=observation)
    env.reset(seed=1)
    play(env, 10, 1)
    for given in (ONLY_SIDEWAYS, np.array(ONLY_SIDEWAYS), int(words(ONLY_SIDEWAYS))):
        observed, info = env.reset(options={"board": given})
        board = observed if observation == "exponents" else observed.argmax(axis=0)
        assert board.tolist() == info["afterstate"].tolist() == ONLY_SIDEWAYS
        assert info["score"] == 0 and info["max_tile"] == 4 and info["legal"] is True
        assert info["action_mask"].tolist() == [0, 1, 0, 1]


def test_a_reset_without_a_board_starts_a_random_game() -> None:
    options: list[Any] = [None, {}, {"board": None}]
    for empty in options:
        assert_same(Game2048Env().reset(seed=4, options=empty), Game2048Env().reset(seed=4))


def test_an_empty_board_has_no_tile_and_no_move() -> None:
    env = Game2048Env()
    _, info = env.reset(options={"board": np.zeros((4, 4), int)})
    assert info["max_tile"] == 0
    assert not info["action_mask"].any()


def test_an_illegal_action_changes_nothing_with_noop() -> None:
    env = on_board(ONLY_SIDEWAYS)
    env.step(LEFT)
    play(env, 5, 2)
    env.reset(options={"board": ONLY_SIDEWAYS})
    before = env.get_state()
    for action in (UP, DOWN, UP):
        board, reward, terminated, truncated, info = env.step(action)
        assert_same(env.get_state(), before)
        assert board.tolist() == info["afterstate"].tolist() == ONLY_SIDEWAYS
        assert (reward, terminated, truncated) == (0.0, False, False)
        assert info["legal"] is False and info["action_mask"].tolist() == [0, 1, 0, 1]
    assert env.step(LEFT)[4]["legal"] is True


@pytest.mark.parametrize("limit", [1, 2, 100, 2047])
def test_illegal_actions_in_a_row_truncate_the_episode(limit: int) -> None:
    env = on_board(ONLY_SIDEWAYS, illegal_limit=limit)
    for _ in range(limit - 1):
        assert env.step(UP)[2:4] == (False, False)
    env.step(LEFT)  # the count begins again
    env.reset(options={"board": ONLY_SIDEWAYS})
    ends = [env.step(UP)[2:4] for _ in range(limit)]
    assert ends == [(False, False)] * (limit - 1) + [(False, True)]
    env.set_state(env.get_state())
    assert env.step(UP)[3] == (limit == 1)


def test_without_a_limit_illegal_actions_never_end_the_episode() -> None:
    env = on_board(ONLY_SIDEWAYS, illegal_limit=None)
    assert all(env.step(UP)[2:4] == (False, False) for _ in range(2500))


def test_the_default_limit_is_1000_and_an_end_goes_before_it() -> None:
    env = on_board(ONLY_SIDEWAYS)
    assert [env.step(UP)[3] for _ in range(1000)] == [False] * 999 + [True]
    env = on_board(ONLY_SIDEWAYS, illegal="terminate", illegal_limit=1)
    assert env.step(UP)[2:4] == (True, False)
    assert on_board(FULL, illegal_limit=1).step(UP)[2:4] == (True, False)


@pytest.mark.parametrize("limit", [0, -1, 2048, 1.5, "100", True])
def test_wrong_limits_of_illegal_actions_are_refused(limit: Any) -> None:
    with pytest.raises(ValueError, match=r"illegal_limit must be in 1\.\.2047 or None, got"):
        Game2048Env(illegal_limit=limit)
    with pytest.raises(ValueError, match="illegal_limit must be"):
        Game2048VectorEnv(2, illegal_limit=limit)


def test_flat_observations_are_the_planes_in_one_row() -> None:
    flat, planes = Game2048Env(observation="flat"), Game2048Env(observation="onehot")
    for env in (flat, planes):
        assert env.observation_space.contains(env.reset(seed=4)[0])
    for action in range(4):
        row, expected = (env.step(action)[0] for env in (flat, planes))
        assert row.dtype == np.float32
        np.testing.assert_array_equal(row, expected.reshape(-1))
    registered = gym.make("afterstate:Game2048Flat-v0")
    assert registered.observation_space == flat.observation_space


def test_an_illegal_action_ends_the_episode_with_terminate() -> None:
    env = on_board(ONLY_SIDEWAYS, illegal="terminate")
    before = env.get_state()
    board, reward, terminated, truncated, info = env.step(UP)
    assert (reward, terminated, truncated, info["legal"]) == (0.0, True, False, False)
    assert board.tolist() == ONLY_SIDEWAYS
    assert_same(env.get_state(), before)
    env.reset(options={"board": ONLY_SIDEWAYS})
    assert env.step(LEFT)[2] is False


def test_an_illegal_action_raises_an_error_with_raise() -> None:
    env = on_board(ONLY_SIDEWAYS, illegal="raise")
    unchanged(env, lambda: env.step(UP)).match("action")
    assert env.step(LEFT)[4]["legal"] is True


@pytest.mark.parametrize("illegal", ["noop", "terminate"])
def test_the_move_that_leaves_no_move_ends_the_game(illegal: str) -> None:
    """The merge frees one cell, for a 2 or a 4."""
    env = on_board([[3, 3]], illegal=illegal)
    board, reward, terminated, truncated, info = env.step(RIGHT)
    assert (reward, terminated, truncated, info["legal"]) == (16.0, True, False, True)
    assert board[0, 1] == 4 and board[0, 0] in (1, 2)
    assert not info["action_mask"].any() and not env.action_masks().any()
    assert not env.afterstates()[2].any()


def test_a_finished_game_stays_finished() -> None:
    env = on_board(FULL)
    before = env.get_state()
    for action in ACTIONS:
        _, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["legal"]) == (0.0, True, False)
        assert_same(env.get_state(), before)
    assert on_board(FULL, illegal="raise").step(UP)[2]


def test_recorded_statistics_are_score_and_length() -> None:
    env = RecordEpisodeStatistics(gym.make("Game2048-v0"))
    rng = np.random.default_rng(0)
    for seed in range(3):
        _, info = env.reset(seed=seed)
        steps = 0
        while "episode" not in info:
            *_, info = env.step(int(rng.integers(4)))
            steps += 1
        assert info["episode"]["r"] == info["score"] > 0
        assert info["episode"]["l"] == steps


def test_action_masks_reach_through_wrappers() -> None:
    env: Any = FlattenObservation(RecordEpisodeStatistics(gym.make("Game2048-v0")))
    env.reset(seed=1, options={"board": ONLY_SIDEWAYS})
    masks = env.get_wrapper_attr("action_masks")()
    assert masks.dtype == np.bool_ and masks.tolist() == [False, True, False, True]
    assert env.has_wrapper_attr("afterstates") and env.has_wrapper_attr("outcomes")


def random_network(size: tuple[int, int]) -> Network:
    """Return a network with random weights."""
    net = network([[0, 1], [0, 4], [1, 5]] if min(size) > 1 else [[0, 1]], size)
    net.weights[:] = np.random.default_rng(9).normal(0, 50, net.weights.size)
    return net


@pytest.mark.parametrize("net", [network([[0, 1]]), random_network((4, 4)), random_network((2, 3))])
@pytest.mark.parametrize("seed", [0, 11])
def test_environment_vector_environment_and_learner_play_the_same_games(
    net: Network, seed: int
) -> None:
    """Compare three consecutive games, board by board."""
    agent = NTupleAgent(net)
    env, envs = Game2048Env(net.size), Game2048VectorEnv(2, net.size, autoreset_mode="SameStep")
    learner, path = NTupleLearner(net, seed=seed), new_path(10_000)
    rng: Word = learner.rng
    cells = field(*net.size)
    assert rng == seed_word(seed)
    batch, infos = envs.reset(seed=seed)
    for game in range(3):
        first, rng = (np.uint64(word) for word in spawn(*spawn(0, rng, cells), cells))
        n_moves, last, rng = play_path(
            net, learner._play_settings(), None, False, first, rng, path, 0
        )
        board, info = env.reset(seed=None if game else seed)
        for t in range(n_moves):
            action, _ = agent.predict(board)
            assert_same(batch[0], board)
            assert words(board) == path.boards[t]
            batch, vector_rewards, *_, infos = envs.step(agent.act(envs.boards).astype(np.int64))
            board, reward, terminated, _, info = env.step(action.item())
            assert terminated is (t == n_moves - 1)
            final = infos["final_info"] if terminated else infos
            assert words(info["afterstate"]) == words(final["afterstate"][0]) == path.afters[t]
            assert reward == vector_rewards[0] == path.rewards[t]
        assert words(board) == last == env.board
        assert info["score"] == infos["final_info"]["score"][0] == path.rewards[:n_moves].sum()
        assert infos["final_obs"][0].tolist() == board.tolist()
        assert env.get_state()["rng"] == rng


@pytest.mark.parametrize("order", ["backward", "forward"])
def test_the_first_game_of_a_learner_is_that_of_its_seed(order: Any) -> None:
    """The learning rate is 0 in single precision, so the network does not change."""
    settings = NTupleSettings("td", order, 0.0, 1e-50)
    learner = NTupleLearner(network([[0, 1]]), settings, seed=21)
    games = learner.learn(1)
    env, agent = Game2048Env(), NTupleAgent(network([[0, 1]]))
    board, info = env.reset(seed=21)
    n_moves = 0
    while info["action_mask"].any():
        board, *_, info = env.step(agent.predict(board)[0].item())
        n_moves += 1
    assert games.scores.tolist() == [info["score"]]
    assert games.n_moves.tolist() == [n_moves]
    assert games.max_tiles.tolist() == [info["max_tile"]]
    assert env.get_state()["rng"] == learner.rng
