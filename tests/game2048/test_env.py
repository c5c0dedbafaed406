"""`Game2048Env` by Gymnasium's own checkers, by the oracle, and beside the trainer."""

from __future__ import annotations

import copy
import pickle
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import oracle
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics, RecordVideo, TimeLimit

from afterstate.agents.game2048.learning import Learner, Settings, play_game
from afterstate.agents.game2048.ntuple import Network, NTupleAgent, network
from afterstate.envs.game2048 import render
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.games import seed_word
from afterstate.envs.game2048.rules import DOWN, LEFT, RIGHT, UP, words
from afterstate.envs.game2048.vector_env import Game2048VectorEnv

ACTIONS = (UP, RIGHT, DOWN, LEFT)
SIZES = [(4, 4), (3, 4), (2, 3), (1, 2), (4, 1)]
FULL = [[1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4], [5, 6, 7, 8]]
ALMOST_OVER = [[1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4], [5, 6, 7, 7]]
ONLY_SIDEWAYS = [[0, 1, 2, 0], [0, 2, 1, 0], [0, 1, 2, 0], [0, 2, 1, 0]]

by_size = pytest.mark.parametrize("size", SIZES)
by_observation = pytest.mark.parametrize("observation", ["exponents", "onehot"])

Step = tuple[Any, Any, bool, bool, dict[str, Any]]


def make(**settings: Any) -> Game2048Env:
    """The environment without wrappers, as registered."""
    env = gym.make("Game2048-v0", **settings).unwrapped
    assert isinstance(env, Game2048Env)
    return env


def on_board(board: Any, **settings: Any) -> Game2048Env:
    """An environment on a board."""
    env = Game2048Env(size=np.shape(board), **settings)
    env.reset(seed=3, options={"board": board})
    return env


def assert_same(first: Any, second: Any) -> None:
    """Equal values of equal types, through tuples, lists and dicts."""
    assert type(first) is type(second)
    if isinstance(first, np.ndarray):
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)
    elif isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, (tuple, list)):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    else:
        assert first == second


def play(env: gym.Env[Any, Any], n_steps: int, seed: int) -> list[Any]:
    """What random actions, legal or not, lead to; games that end are followed by others."""
    rng = np.random.default_rng(seed)
    path: list[Any] = []
    for _ in range(n_steps):
        path.append(env.step(int(rng.integers(4))))
        if path[-1][2] or path[-1][3]:
            path.append(env.reset())
    return path


def unchanged(env: Game2048Env, action: Callable[[], Any]) -> pytest.ExceptionInfo[ValueError]:
    """Runs what must raise a ValueError and must leave the game, and the games after it, alone."""
    before, twin = env.get_state(), copy.deepcopy(env)
    with pytest.raises(ValueError) as error:
        action()
    assert_same(env.get_state(), before)
    follower = copy.deepcopy(env)
    follower.illegal = twin.illegal = "noop"
    assert_same(play(follower, 30, 1), play(twin, 30, 1))
    assert_same(follower.reset(), twin.reset())
    return error


# Contract checkers


@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array", "human"])
@pytest.mark.parametrize("illegal", ["noop", "terminate"])
@by_observation
def test_gymnasiums_checker_has_no_complaint(
    render_mode: str | None, illegal: str, observation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It draws in every mode, and any complaint is a warning, which is an error here."""
    pytest.importorskip("PIL")
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(Game2048Env.metadata, "render_fps", 1_000)
    env = make(observation=observation, illegal=illegal, render_mode=render_mode)
    check_env(env)
    env.close()


@by_size
@by_observation
def test_gymnasiums_checker_has_no_complaint_about_sizes(
    size: tuple[int, int], observation: str
) -> None:
    check_env(make(size=size, observation=observation), skip_render_check=True)


@by_size
@by_observation
def test_stable_baselines3s_checker_passes(size: tuple[int, int], observation: str) -> None:
    """Its advice is about shapes only: a board is no vector, and planes are no photograph."""
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checker.check_env(Game2048Env(size, observation), warn=True)
    advice = "unconventional shape" if observation == "exponents" else "image"
    assert [str(w.message) for w in caught if advice not in str(w.message)] == []


@by_size
def test_spaces(size: tuple[int, int]) -> None:
    env, planes = Game2048Env(size), Game2048Env(size, "onehot")
    assert env.action_space == planes.action_space == gym.spaces.Discrete(4)
    assert env.observation_space == gym.spaces.Box(0, 17, size, np.uint8)
    assert planes.observation_space == gym.spaces.Box(0, 1, (18, *size), np.float32)


# Games by the oracle


@by_size
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_seed_plays_the_oracles_game(size: tuple[int, int], seed: int) -> None:
    """Observation, reward, end and info of every step of a game, and of the game after it."""
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
@by_observation
def test_onehot_planes_are_those_of_the_exponents(size: tuple[int, int], observation: str) -> None:
    exponents, planes = Game2048Env(size), Game2048Env(size, "onehot")
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
        env = Game2048Env((2, 4), "onehot")
        plane, _ = env.reset(options={"board": part})
        assert (plane.argmax(axis=0) == part).all()
        assert (plane.sum(axis=0) == 1).all()


@pytest.mark.parametrize("start_tiles", [1, 2, 5, 6])
def test_start_tiles(start_tiles: int) -> None:
    env = Game2048Env((2, 3), start_tiles=start_tiles)
    for seed in range(20):
        board, info = env.reset(seed=seed)
        assert board.tolist() == oracle.start(2, 3, start_tiles, seed_word(seed))[0]
        assert np.count_nonzero(board) == start_tiles
        assert_same(info["afterstate"], board)


# Seeds


def test_same_seed_same_games_and_another_seed_others() -> None:
    def games(seed: int) -> list[Any]:
        env = make()
        return [env.reset(seed=seed), *play(env, 400, 1), env.reset(), *play(env, 50, 2)]

    assert_same(tuple(games(7)), tuple(games(7)))
    assert any((a[0] != b[0]).any() for a, b in zip(games(7), games(8), strict=False))


def test_resets_without_a_seed_go_on_with_other_games() -> None:
    env = Game2048Env()
    starts = [env.reset(seed=1)[0].tolist(), *(env.reset()[0].tolist() for _ in range(20))]
    assert len({str(board) for board in starts}) > 15
    again = [env.reset(seed=1)[0].tolist(), *(env.reset()[0].tolist() for _ in range(20))]
    assert again == starts


def test_games_without_a_seed_differ() -> None:
    starts = {str(Game2048Env().reset()[0].tolist()) for _ in range(20)}
    assert len(starts) > 10


def test_a_reset_to_a_board_goes_on_with_the_random_stream() -> None:
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


# One game everywhere


def random_network(size: tuple[int, int]) -> Network:
    """A network that prefers some moves over others."""
    net = network([[0, 1], [0, 4], [1, 5]] if min(size) > 1 else [[0, 1]], size)
    net.weights[:] = np.random.default_rng(9).normal(0, 50, net.weights.size)
    return net


@pytest.mark.parametrize("net", [network([[0, 1]]), random_network((4, 4)), random_network((2, 3))])
@pytest.mark.parametrize("seed", [0, 11])
def test_environment_vector_environment_and_trainer_play_one_game(net: Network, seed: int) -> None:
    """Three games in a row, board by board."""
    agent = NTupleAgent(net)
    env, envs = Game2048Env(net.size), Game2048VectorEnv(2, net.size, autoreset_mode="SameStep")
    rng = Learner(net, seed=seed).rng
    assert rng == seed_word(seed)
    batch, infos = envs.reset(seed=seed)
    for game in range(3):
        afters, rewards = np.empty(10_000, np.uint64), np.empty(10_000, np.int64)
        n_moves, last, rng = play_game(net, rng, afters, rewards)
        board, info = env.reset(seed=None if game else seed)
        for t in range(n_moves):
            action, _ = agent.predict(board)
            assert_same(batch[0], board)
            batch, vector_rewards, *_, infos = envs.step(agent.act(envs.boards).astype(np.int64))
            board, reward, terminated, _, info = env.step(action.item())
            assert terminated is (t == n_moves - 1)
            final = infos["final_info"] if terminated else infos
            assert words(info["afterstate"]) == words(final["afterstate"][0]) == afters[t]
            assert reward == vector_rewards[0] == rewards[t]
        assert words(board) == last == env.board
        assert info["score"] == infos["final_info"]["score"][0] == rewards[:n_moves].sum()
        assert infos["final_obs"][0].tolist() == board.tolist()
        assert env.get_state()["rng"] == rng


@pytest.mark.parametrize("order", ["backward", "forward"])
def test_the_first_game_of_a_learner_is_the_environments(order: str) -> None:
    """Its rate is 0 in single precision, so that the network stays as it is."""
    settings = Settings("td", order, 0.0, 1e-50)
    learner = Learner(network([[0, 1]]), settings, seed=21)
    games = learner.play(1)
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


# Afterstates and chance


@by_size
def test_afterstates_are_the_oracles(size: tuple[int, int]) -> None:
    env, rng = Game2048Env(size), np.random.default_rng(2)
    for _ in range(100):
        drawn = rng.integers(0, rng.integers(2, 17), size)
        env.reset(options={"board": drawn})
        boards, rewards, legal = env.afterstates()
        expected = [oracle.move(drawn.tolist(), action) for action in ACTIONS]
        assert boards.dtype == np.uint8 and rewards.dtype == np.float64 and legal.dtype == np.bool_
        assert boards.tolist() == [board for board, _ in expected]
        assert rewards.tolist() == [reward for _, reward in expected]
        assert np.flatnonzero(legal).tolist() == oracle.legal_moves(drawn.tolist())


def test_a_step_goes_through_the_afterstate_of_its_action() -> None:
    env, rng = Game2048Env(), np.random.default_rng(3)
    env.reset(seed=3)
    for _ in range(300):
        boards, rewards, legal = env.afterstates()
        action = int(rng.integers(4))
        board, reward, terminated, _, info = env.step(action)
        assert_same(info["afterstate"], boards[action])
        assert reward == rewards[action]
        assert info["legal"] is bool(legal[action])
        assert np.count_nonzero(board != info["afterstate"]) == int(info["legal"])
        if terminated:
            env.reset()


@by_size
def test_outcomes_are_the_oracles(size: tuple[int, int]) -> None:
    env, rng = Game2048Env(size), np.random.default_rng(4)
    for _ in range(30):
        after = rng.integers(0, 3, size)
        after.flat[rng.integers(after.size)] = 0
        boards, probabilities = env.outcomes(after)
        expected = oracle.spawn_outcomes(after.tolist())
        assert boards.dtype == np.uint8 and probabilities.dtype == np.float64
        got = {str(b): p for b, p in zip(boards.tolist(), probabilities, strict=True)}
        assert got == pytest.approx({str(board): p for board, p in expected})
        assert len(got) == len(boards)
        assert probabilities.sum() == pytest.approx(1)
        assert_same(env.outcomes(int(words(after)))[0], boards)


def test_a_full_afterstate_has_one_outcome() -> None:
    boards, probabilities = Game2048Env().outcomes(FULL)
    assert boards.tolist() == [FULL]
    assert probabilities.tolist() == [1]


def test_every_step_leads_to_an_outcome_of_its_afterstate() -> None:
    env = Game2048Env((3, 3))
    env.reset(seed=6)
    for board, _, terminated, _, info in play_steps(env, 300):
        if info["legal"]:
            boards, probabilities = env.outcomes(info["afterstate"])
            assert ((boards == board).all(axis=(1, 2)) & (probabilities > 0)).sum() == 1
        if terminated:
            env.reset()


def play_steps(env: Game2048Env, n_steps: int) -> Iterator[Step]:
    rng = np.random.default_rng(7)
    for _ in range(n_steps):
        yield env.step(int(rng.integers(4)))


def test_outcomes_come_as_often_as_their_probabilities_say() -> None:
    """A chi-square of 7 degrees of freedom exceeds 24.3 once in a thousand times."""
    board = [[0, 3, 0], [4, 0, 5]]
    env = Game2048Env((2, 3))
    env.reset(seed=8)
    n_steps, seen = 8_000, Counter[str]()
    after: Any = None
    for _ in range(n_steps):
        env.reset(options={"board": board})
        result, *_, info = env.step(DOWN)
        after = info["afterstate"]
        seen[str(result.tolist())] += 1
    boards, probabilities = env.outcomes(after)
    assert len(boards) == 6
    expected = {
        str(b): n_steps * p for b, p in zip(boards.tolist(), probabilities.tolist(), strict=True)
    }
    assert seen.keys() <= expected.keys()
    assert sum((seen[key] - n) ** 2 / n for key, n in expected.items()) < 20.5


# Copies


@by_observation
def test_what_the_environment_hands_out_is_the_callers(observation: str) -> None:
    """Whatever is done to it, the game goes on as its twin does."""
    env, twin = (Game2048Env(observation=observation) for _ in range(2))
    rng = np.random.default_rng(5)

    def spoil(value: Any) -> None:
        if isinstance(value, np.ndarray):
            value[...] = 1
        elif isinstance(value, (tuple, list)):
            for part in value:
                spoil(part)
        elif isinstance(value, dict):
            for part in value.values():
                spoil(part)
            value.clear()

    spoil(env.reset(seed=5))
    twin.reset(seed=5)
    for _ in range(60):
        for looked in (env.afterstates, env.action_masks, env.get_state):
            spoil(looked())
        boards, _ = env.outcomes(FULL)
        spoil(boards)
        action = int(rng.integers(4))
        step = env.step(action)
        assert_same(step, twin.step(action))
        assert_same(env.get_state(), twin.get_state())
        spoil(step)
        assert_same(env.get_state(), twin.get_state())
        assert_same(env.afterstates(), twin.afterstates())
        assert_same(env.action_masks(), twin.action_masks())
    assert env.outcomes(FULL)[0].tolist() == [FULL]


def test_results_of_earlier_steps_stay_as_they_were() -> None:
    env = Game2048Env()
    kept: list[Any] = [env.reset(seed=9), *play(env, 100, 3)]
    copies = copy.deepcopy(kept)
    play(env, 100, 4)
    assert_same(tuple(kept), tuple(copies))


def test_a_board_given_to_the_environment_is_copied() -> None:
    board = np.array(ONLY_SIDEWAYS, np.uint8)
    env = on_board(board)
    state = env.get_state()
    board[...] = 5
    assert env.get_state()["board"].tolist() == ONLY_SIDEWAYS
    env.set_state(state)
    state["board"][...] = 5
    assert env.get_state()["board"].tolist() == ONLY_SIDEWAYS
    after = np.array(FULL, np.uint8)
    env.outcomes(after)[0][...] = 0
    assert after.tolist() == FULL


def copied(env: Any) -> Any:
    return copy.deepcopy(env)


def pickled(env: Any) -> Any:
    return pickle.loads(pickle.dumps(env))


@pytest.mark.parametrize("duplicate", [copied, pickled])
@pytest.mark.parametrize("wrapped", [False, True])
@by_observation
def test_a_copy_plays_the_same_game_on_its_own(
    duplicate: Callable[[Any], Any], wrapped: bool, observation: str
) -> None:
    env: Any = gym.make("Game2048-v0", observation=observation)
    env = env if wrapped else env.unwrapped
    env.reset(seed=2)
    play(env, 20, 1)
    twin, third = duplicate(env), duplicate(env)
    path = play(env, 400, 2)
    assert_same(tuple(path), tuple(play(twin, 400, 2)))
    play(third, 5, 3)
    assert_same(env.unwrapped.get_state(), twin.unwrapped.get_state())
    assert_same(env.reset(), twin.reset())
    assert_same(env.reset(seed=8), third.reset(seed=8))


@pytest.mark.parametrize("duplicate", [copied, pickled])
def test_a_copy_of_a_new_environment_is_a_new_environment(
    duplicate: Callable[[Any], Any],
) -> None:
    twin = duplicate(Game2048Env((2, 3)))
    with pytest.raises(ResetNeeded):
        twin.step(0)
    assert_same(twin.reset(seed=1), Game2048Env((2, 3)).reset(seed=1))


def test_a_pickle_is_small() -> None:
    env = make()
    assert len(pickle.dumps(env)) < 20_000
    env.reset(seed=1)
    play(env, 10, 1)
    assert len(pickle.dumps(env)) < 20_000
    assert len(pickle.dumps(Game2048Env((2, 3)))) < 20_000


def test_an_environment_with_a_window_is_copied_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = make(render_mode="human")
    env.reset(seed=1)
    twins = [copied(env), pickled(env)]
    env.close()
    for twin in twins:
        assert_same(twin.step(UP), make_stepped())
        twin.close()


def make_stepped() -> Any:
    env = Game2048Env()
    env.reset(seed=1)
    return env.step(UP)


# States


@by_size
def test_a_state_replays_the_game_and_those_after_it(size: tuple[int, int]) -> None:
    env = Game2048Env(size)
    env.reset(seed=12)
    play(env, 15, 1)
    if env.get_state()["board"].all() and not env.action_masks().any():
        env.reset()
    state = env.get_state()
    path = (*play(env, 300, 2), env.reset(), *play(env, 20, 3))
    env.set_state(state)
    assert_same(env.get_state(), state)
    assert_same((*play(env, 300, 2), env.reset(), *play(env, 20, 3)), path)
    for other in (Game2048Env(size), Game2048Env(size)):
        other.set_state(pickle.loads(pickle.dumps(state)))
        assert_same((*play(other, 300, 2), other.reset(), *play(other, 20, 3)), path)
    seeded = Game2048Env(size)
    seeded.reset(seed=99)
    play(seeded, 5, 4)
    seeded.set_state(state)
    assert_same((*play(seeded, 300, 2), seeded.reset(), *play(seeded, 20, 3)), path)


def test_a_state_holds_score_and_large_tiles() -> None:
    env = on_board([[16, 16], [15, 0]])
    env.step(LEFT)
    state = env.get_state()
    assert state["score"] == 131_072 and type(state["score"]) is int
    assert 17 in state["board"]
    other = Game2048Env((2, 2))
    other.set_state(state)
    assert_same(other.step(DOWN), env.step(DOWN))


def test_a_seed_after_set_state_starts_the_games_of_that_seed() -> None:
    env = Game2048Env()
    env.reset(seed=1)
    state = env.get_state()
    expected = Game2048Env().reset(seed=5)
    env.set_state(state)
    assert_same(env.reset(seed=5), expected)
    fresh = Game2048Env()
    fresh.set_state(state)
    assert_same(fresh.reset(seed=5), expected)


# Words


def test_board_is_a_word() -> None:
    env = on_board([[1, 2, 3], [0, 11, 15]])
    assert type(env.board) is int
    assert env.board == 0x0FB0_0321
    env.reset(options={"board": 0x0001_0100})
    assert env.board == 0x0001_0100
    assert env.get_state()["board"].tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    "board", [[[17, 16], [3, 1]], [[16, 15], [14, 13]], [[17, 0], [0, 17]], [[16, 14], [0, 1]]]
)
def test_board_word_of_a_large_tile_is_downgraded(board: oracle.Board) -> None:
    env = on_board(board)
    assert env.board == oracle.to_word(oracle.downgrade(board))
    assert env.get_state()["board"].tolist() == board


def test_a_board_word_may_use_all_64_bits() -> None:
    env = Game2048Env()
    board, _ = env.reset(options={"board": 0xF123_4567_1234_5671})
    assert env.board == 0xF123_4567_1234_5671
    assert board[3].tolist() == [3, 2, 1, 15]
    env.reset(options={"board": np.uint64(0xF123_4567_1234_5671)})
    assert env.board == 0xF123_4567_1234_5671


# Start from a board


@by_observation
def test_reset_to_a_board(observation: str) -> None:
    env = Game2048Env(observation=observation)
    env.reset(seed=1)
    play(env, 10, 1)
    for given in (ONLY_SIDEWAYS, np.array(ONLY_SIDEWAYS), int(words(ONLY_SIDEWAYS))):
        seen, info = env.reset(options={"board": given})
        board = seen if observation == "exponents" else seen.argmax(axis=0)
        assert board.tolist() == info["afterstate"].tolist() == ONLY_SIDEWAYS
        assert info["score"] == 0 and info["max_tile"] == 4 and info["legal"] is True
        assert info["action_mask"].tolist() == [0, 1, 0, 1]


def test_no_board_and_no_options_start_a_usual_game() -> None:
    options: list[Any] = [None, {}, {"board": None}]
    for given in options:
        assert_same(Game2048Env().reset(seed=4, options=given), Game2048Env().reset(seed=4))


def test_an_empty_board_has_no_tile_and_no_move() -> None:
    env = Game2048Env()
    _, info = env.reset(options={"board": np.zeros((4, 4), int)})
    assert info["max_tile"] == 0
    assert not info["action_mask"].any()


@pytest.mark.parametrize("exponent", [15, 16])
@pytest.mark.parametrize("action", ACTIONS)
def test_the_largest_tiles_are_made_and_shown(exponent: int, action: int) -> None:
    """32768 + 32768 = 65536 and 65536 + 65536 = 131072, among smaller tiles, in each direction."""
    line = [exponent, exponent, 0, 0]
    board = [line, [1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4]]
    board = board if action in (RIGHT, LEFT) else oracle.transpose(board)
    env = on_board(board)
    boards, rewards, legal = env.afterstates()
    observation, reward, terminated, _, info = env.step(action)
    expected, _ = oracle.move(board, action)
    assert reward == rewards[action] == 2.0 ** (exponent + 1)
    assert legal[action] and not terminated
    assert info["afterstate"].tolist() == boards[action].tolist() == expected
    assert info["max_tile"] == 2 ** (exponent + 1)
    assert observation.max() == exponent + 1
    assert env.observation_space.contains(observation)
    after = [b.tolist() for b in env.outcomes(info["afterstate"])[0]]
    assert observation.tolist() in after


def test_two_of_the_largest_tiles_stay_the_largest() -> None:
    env = on_board([[17, 17]])
    board, reward, *_, info = env.step(LEFT)
    assert board[0, 0] == 17 and reward == 262_144 and info["max_tile"] == 131_072


# Illegal actions


def test_noop_changes_nothing() -> None:
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


def test_terminate_ends_the_episode_and_changes_nothing_else() -> None:
    env = on_board(ONLY_SIDEWAYS, illegal="terminate")
    before = env.get_state()
    board, reward, terminated, truncated, info = env.step(UP)
    assert (reward, terminated, truncated, info["legal"]) == (0.0, True, False, False)
    assert board.tolist() == ONLY_SIDEWAYS
    assert_same(env.get_state(), before)
    env.reset(options={"board": ONLY_SIDEWAYS})
    assert env.step(LEFT)[2] is False


def test_raise_names_the_legal_actions() -> None:
    env = on_board(ONLY_SIDEWAYS, illegal="raise")
    error = unchanged(env, lambda: env.step(UP))
    for part in ("0 up", "1 right", "3 left"):
        assert part in str(error.value)
    assert "2 down" not in str(error.value)
    assert env.step(LEFT)[4]["legal"] is True


@pytest.mark.parametrize("illegal", ["noop", "terminate"])
def test_the_move_that_leaves_no_move_ends_the_game(illegal: str) -> None:
    """The merge makes room for one tile, which is a 2 or a 4 beside other tiles."""
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


# Bad input


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({"size": (0, 4)}, "1 to 4"),
        ({"size": (5, 4)}, "1 to 4"),
        ({"size": (1, 1)}, "at least two cells"),
        ({"size": (4.0, 4)}, "1 to 4"),
        ({"size": (True, 4)}, "1 to 4"),
        ({"size": ("4", 4)}, "1 to 4"),
        ({"size": (4,)}, r"\(rows, cols\)"),
        ({"size": (4, 4, 4)}, r"\(rows, cols\)"),
        ({"size": 4}, r"\(rows, cols\)"),
        ({"size": None}, r"\(rows, cols\)"),
        ({"observation": "pixels"}, "'exponents', 'onehot'"),
        ({"observation": None}, "'exponents', 'onehot'"),
        ({"observation": 1}, "'exponents', 'onehot'"),
        ({"observation": ["onehot"]}, "'exponents', 'onehot'"),
        ({"illegal": "skip"}, "'noop', 'terminate', 'raise'"),
        ({"illegal": None}, "'noop', 'terminate', 'raise'"),
        ({"illegal": ["noop"]}, "'noop', 'terminate', 'raise'"),
        ({"start_tiles": 0}, r"1\.\.16"),
        ({"start_tiles": 17}, r"1\.\.16"),
        ({"start_tiles": -1}, r"1\.\.16"),
        ({"start_tiles": 2.0}, r"1\.\.16"),
        ({"start_tiles": True}, r"1\.\.16"),
        ({"start_tiles": "2"}, r"1\.\.16"),
        ({"start_tiles": 7, "size": (2, 3)}, r"1\.\.6"),
        ({"render_mode": "svg"}, "'ansi', 'rgb_array', 'human'"),
        ({"render_mode": 1}, "'ansi', 'rgb_array', 'human'"),
        ({"render_mode": ["ansi"]}, "'ansi', 'rgb_array', 'human'"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed):
        Game2048Env(**settings)


def test_a_size_may_be_a_list() -> None:
    size: Any = [2, 3]
    env = Game2048Env(size)
    assert env.reset(seed=1)[0].shape == (2, 3)
    assert env.reset(options={"board": [[1, 2, 3], [4, 5, 6]]})[0].tolist() == [
        [1, 2, 3],
        [4, 5, 6],
    ]


@pytest.mark.parametrize(
    "action",
    [
        4,
        -1,
        100,
        2**70,
        1.5,
        2.0,
        "up",
        None,
        np.float32(1),
        np.array([0, 1]),
        np.array([1]),
        np.array(4),
        [1],
        np.int64(4),
        np.uint8(255),
    ],
    ids=repr,
)
def test_wrong_actions_are_refused(action: Any) -> None:
    env = on_board(ONLY_SIDEWAYS)
    error = unchanged(env, lambda: env.step(action))
    assert "0 up, 1 right, 2 down or 3 left" in str(error.value)


@pytest.mark.parametrize("kind", [int, np.int8, np.int64, np.uint8, np.uint64, np.array])
def test_whole_numbers_of_any_type_are_actions(kind: Callable[[int], Any]) -> None:
    env, twin = (on_board(ONLY_SIDEWAYS) for _ in range(2))
    for action in (1, 3, 2, 0):
        assert_same(env.step(kind(action)), twin.step(action))


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"boards": FULL}, "'board'"),
        ({"board": FULL, "seed": 3}, "'board'"),
        ({3: FULL}, "'board'"),
        ({"board": [[1, 2], [3, 4]]}, r"\(4, 4\)"),
        ({"board": np.zeros((4, 5), int)}, r"\(4, 4\)"),
        ({"board": np.zeros((1, 4, 4), int)}, r"\(4, 4\)"),
        ({"board": np.zeros(16, int)}, r"\(4, 4\)"),
        ({"board": [*FULL[:3], [5, 6, 7]]}, r"\(4, 4\)|\[4, 4\]"),
        ({"board": [*FULL[:3], [5, 6, 7, 18]]}, "17"),
        ({"board": [*FULL[:3], [5, 6, 7, 2048]]}, "17"),
        ({"board": [*FULL[:3], [5, 6, 7, 256]]}, "17"),
        ({"board": [*FULL[:3], [5, 6, 7, -1]]}, "0"),
        ({"board": np.array(FULL, np.float64)}, "whole exponents"),
        ({"board": np.array(FULL) > 2}, "whole exponents"),
        ({"board": np.array(FULL).astype(str)}, "whole exponents"),
        ({"board": -1}, "word"),
        ({"board": 2**64}, "word"),
        ({"board": 1.0}, "word"),
        ({"board": "2 4"}, "word"),
        ({"board": True}, "word"),
    ],
)
def test_wrong_reset_options_are_refused(options: dict[Any, Any], allowed: str) -> None:
    env = Game2048Env()
    env.reset(seed=3)
    play(env, 10, 1)
    for seed in (None, 5):
        unchanged(env, partial(env.reset, seed=seed, options=options)).match(allowed)


def test_a_word_with_tiles_off_the_board_is_refused() -> None:
    env = on_board([[1, 2], [3, 4]])
    for word in (0x0100, 0x0001_0000_0000, 1 << 63):
        error = unchanged(env, partial(env.reset, options={"board": word}))
        error.match("outside its 2 rows and 2 columns")


def test_a_wrong_seed_is_refused() -> None:
    env = on_board(ONLY_SIDEWAYS)
    before = env.get_state()
    for seed in (-1, 1.5, "1"):
        wrong: Any = seed
        with pytest.raises(gym.error.Error):
            env.reset(seed=wrong)
        assert_same(env.get_state(), before)


@pytest.mark.parametrize(
    "board", [[[1, 2]], np.zeros((4, 4)), [*FULL[:3], [5, 6, 7, 18]], -1, None, "2 4"]
)
def test_outcomes_of_what_is_no_board_are_refused(board: Any) -> None:
    env = on_board(ONLY_SIDEWAYS)
    unchanged(env, lambda: env.outcomes(board))


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {},
        {"board": FULL},
        {"board": FULL, "score": 0, "rng": 0, "more": 1},
        {"board": [[1, 2]], "score": 0, "rng": 0},
        {"board": [*FULL[:3], [5, 6, 7, 18]], "score": 0, "rng": 0},
        {"board": np.array(FULL, float), "score": 0, "rng": 0},
        {"board": None, "score": 0, "rng": 0},
        {"board": FULL, "score": -1, "rng": 0},
        {"board": FULL, "score": 2**63, "rng": 0},
        {"board": FULL, "score": 1.5, "rng": 0},
        {"board": FULL, "score": None, "rng": 0},
        {"board": FULL, "score": "4", "rng": 0},
        {"board": FULL, "score": 0, "rng": -1},
        {"board": FULL, "score": 0, "rng": 2**64},
        {"board": FULL, "score": 0, "rng": 0.5},
        {"board": FULL, "score": 0, "rng": None},
    ],
)
def test_wrong_states_are_refused(wrong: Any) -> None:
    env = Game2048Env()
    env.reset(seed=3)
    play(env, 10, 1)
    error = unchanged(env, lambda: env.set_state(wrong))
    error.match("get_state|state has|board|exponents")


def test_nothing_can_be_asked_before_the_first_reset() -> None:
    env = Game2048Env(render_mode="ansi")
    asked: list[Callable[[], Any]] = [
        lambda: env.step(0),
        lambda: env.board,
        env.action_masks,
        env.afterstates,
        env.get_state,
        env.render,
    ]
    for ask in asked:
        with pytest.raises(ResetNeeded, match="reset"):
            ask()
    with pytest.raises(ValueError, match="action"):
        env.step(4)
    assert_same(env.reset(seed=1), Game2048Env().reset(seed=1))
    env.close()


def test_a_refused_first_reset_starts_nothing() -> None:
    env = Game2048Env()
    with pytest.raises(ValueError, match="board"):
        env.reset(options={"boards": FULL})
    with pytest.raises(ResetNeeded):
        env.step(0)


# Wrappers


def test_statistics_are_those_of_the_game() -> None:
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


def test_a_limit_of_steps_truncates() -> None:
    env = TimeLimit(Game2048Env(), 5)
    for _ in range(2):
        env.reset(seed=1)
        ends = [env.step(a % 4)[2:4] for a in range(5)]
        assert ends == [(False, False)] * 4 + [(False, True)]


def test_action_masks_reach_through_wrappers() -> None:
    env: Any = FlattenObservation(RecordEpisodeStatistics(gym.make("Game2048-v0")))
    env.reset(seed=1, options={"board": ONLY_SIDEWAYS})
    masks = env.get_wrapper_attr("action_masks")()
    assert masks.dtype == np.bool_ and masks.tolist() == [False, True, False, True]
    assert env.has_wrapper_attr("afterstates") and env.has_wrapper_attr("outcomes")


def test_a_video_is_recorded(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    pytest.importorskip("PIL")
    env: Any = RecordVideo(
        gym.make("Game2048-v0", size=(2, 2), render_mode="rgb_array"), str(tmp_path / "videos")
    )
    env.reset(seed=1)
    while not env.step(int(env.action_space.sample()))[2]:
        pass
    env.close()
    (video,) = tmp_path.glob("videos/*.mp4")
    assert video.stat().st_size > 1_000


# Pictures


def test_ansi_is_the_board_and_score_as_text() -> None:
    env = on_board([[1, 1], [0, 17]], render_mode="ansi")
    assert env.render() == render.ansi([[1, 1], [0, 17]], 0)
    board, *_, info = env.step(LEFT)
    assert env.render() == render.ansi(board, info["score"])
    assert "score 4" in env.render() and "131072" in env.render()


@by_observation
def test_rgb_array_is_the_picture_of_board_and_score(observation: str) -> None:
    pytest.importorskip("PIL")
    env = on_board(ONLY_SIDEWAYS, render_mode="rgb_array", observation=observation)
    *_, info = env.step(LEFT)
    picture = env.render()
    board = env.get_state()["board"]
    assert_same(picture, render.rgb_array(board, info["score"]))
    picture[:] = 0
    assert_same(env.render(), render.rgb_array(board, info["score"]))


def test_render_without_a_mode_warns_and_gives_nothing() -> None:
    env = on_board(FULL)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


def test_human_mode_shows_each_board_and_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(Game2048Env.metadata, "render_fps", 1_000)

    def shown() -> npt.NDArray[Any]:
        pixels: npt.NDArray[Any] = pygame.surfarray.array3d(pygame.display.get_surface())
        return pixels.swapaxes(0, 1)

    env = Game2048Env(render_mode="human")
    board, info = env.reset(seed=1)
    np.testing.assert_array_equal(shown(), render.rgb_array(board, 0))
    for action in (0, 1, 2, 3) * 3:
        board, *_, info = env.step(action)
        np.testing.assert_array_equal(shown(), render.rgb_array(board, info["score"]))
        assert env.render() is None
    env.close()
    env.close()
    assert not pygame.display.get_init()
    env.reset(seed=1)
    assert pygame.display.get_init()
    env.close()


def test_play_goes_on_when_the_window_is_closed_by_its_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env, twin = Game2048Env(render_mode="human"), Game2048Env()
    env.reset(seed=1)
    twin.reset(seed=1)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    for action in (0, 1, 2, 3) * 5:
        assert_same(env.step(action), twin.step(action))
    assert not pygame.display.get_init()
    env.close()


def test_human_mode_keeps_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty-one pictures at a hundred a second take a fifth of a second at least."""
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(Game2048Env.metadata, "render_fps", 100)
    env = Game2048Env(render_mode="human")
    env.reset(seed=1)
    began = time.perf_counter()
    for _ in range(20):
        env.step(0)
    took = time.perf_counter() - began
    env.close()
    assert took > 0.18
