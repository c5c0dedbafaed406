"""Tests of the interface that all players of 2048 share."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest

import afterstate.envs  # noqa: F401
from afterstate import agents
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.simple import RewardAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate
from afterstate.envs.game2048.rules import words
from tests.oracles import game2048 as oracle
from tests.support.game2048.agents import (
    all_agents,
    every_agent,
    one_hot,
    random_boards,
    random_network,
)


def answers(agent: Agent, exponents: npt.NDArray[np.uint8]) -> list[int]:
    """What a player answers to boards one by one, from its first answer on."""
    return [int(copy.deepcopy(agent).act(words(board))) for board in exponents]


@every_agent
def test_predict_takes_exponents_and_planes_and_batches_of_them(index: int) -> None:
    agent = all_agents()[index]
    exponents = random_boards(30)
    expected = answers(agent, exponents)
    for board, action in zip(exponents, expected, strict=True):
        planes = one_hot(board)
        integers = planes.astype(np.uint8)
        for observation in (
            *(board, board.astype(np.int64), board.tolist()),
            *(planes, planes.ravel(), integers, integers.ravel()),
        ):
            answer, state = copy.deepcopy(agent).predict(observation)
            assert answer.shape == ()
            assert answer.dtype == np.int8
            assert int(answer) == action
            assert state is None
    batch = copy.deepcopy(agent).act(words(exponents)).tolist()
    planes = one_hot(exponents)
    integers = planes.astype(np.uint8)
    for observations in (exponents, planes, planes.reshape(30, -1), integers, list(exponents)):
        answer, _ = copy.deepcopy(agent).predict(observations)
        assert answer.shape == (30,)
        assert answer.tolist() == batch


@every_agent
def test_predict_plays_legally_in_the_environment(index: int) -> None:
    agent = all_agents()[index]
    for observation_kind in ("exponents", "onehot"):
        arguments: Any = {} if observation_kind == "exponents" else {"observation": "onehot"}
        env = gym.make("Game2048-v0", illegal="raise", **arguments)
        observation, _ = env.reset(seed=1)
        for _ in range(60):
            action, _ = agent.predict(observation, deterministic=True)
            observation, _, terminated, _, _ = env.step(action)
            if terminated:
                break
        env.close()


def test_eighteen_boards_are_no_planes() -> None:
    boards = random_boards(18)
    boards[:, 0, 0] = 1
    for observations in (boards, np.ones_like(boards)):
        assert RewardAgent(seed=1).predict(observations)[0].shape == (18,)


def test_predict_returns_its_state() -> None:
    agent, state = all_agents()[2], (object(),)
    board = random_boards(1)[0]
    assert agent.predict(board, state, np.array([True]), False)[1] is state
    answer = agent.predict(board, state=state, episode_start=None, deterministic=False)
    assert answer[1] is state


def test_predict_of_other_sizes() -> None:
    agent = agents.make("ntuple", network=random_network([[0, 1, 4], [1, 5]], (2, 3)))
    exponents = random_boards(20, (2, 3), top=5)
    expected = agent.act(words(exponents)).tolist()
    assert agent.predict(exponents)[0].tolist() == expected
    assert agent.predict(one_hot(exponents))[0].tolist() == expected
    for wrong in ((3, 2), (4, 4), (2, 2), (20, 3, 2)):
        with pytest.raises(ValueError, match=r"\[2, 3\]"):
            agent.predict(np.zeros(wrong, np.uint8))


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(16, np.uint8),
        np.zeros((), np.uint8),
        np.zeros((3, 3), np.uint8),
        np.zeros((4, 5), np.uint8),
        np.zeros((2, 2, 4, 4), np.uint8),
        np.zeros((18, 3, 4), np.float32),
        np.zeros((17, 4, 4), np.float32),
        np.zeros((2, 17, 4, 4), np.float32),
        np.zeros((2, 2, 18, 4, 4), np.float32),
        np.zeros((4, 4), np.float32),
        np.full((4, 4), 18, np.uint8),
        np.full((4, 4), -1, np.int8),
        "2 4 8",
        None,
    ],
    ids=lambda wrong: f"{np.asarray(wrong).dtype}{list(np.shape(wrong))}",
)
def test_predict_rejects_other_observations(wrong: Any) -> None:
    for agent in all_agents():
        with pytest.raises(ValueError):
            agent.predict(wrong)


def test_predict_downgrades_boards_beyond_32768() -> None:
    """Tiles above the largest missing value are halved: 65536 with 8192 missing plays as 32768."""
    agent = all_agents()[2]
    high = np.array([[16, 15, 14, 12], [1, 2, 3, 4], [5, 6, 0, 1], [0, 0, 1, 1]], np.uint8)
    low = np.array([[15, 14, 13, 12], [1, 2, 3, 4], [5, 6, 0, 1], [0, 0, 1, 1]], np.uint8)
    for form in (np.asarray, one_hot):
        form_of: Any = form
        assert agent.predict(form_of(high))[0] == agent.predict(form_of(low))[0]
    boards = random_boards(200, top=17)
    assert boards.max() == 17
    downgraded = [oracle.to_word(oracle.downgrade(board.tolist())) for board in boards]
    expected = agent.act(downgraded).tolist()
    assert agent.predict(boards)[0].tolist() == expected
    assert agent.predict(one_hot(boards))[0].tolist() == expected


@every_agent
def test_act_takes_one_board_or_many(index: int) -> None:
    agent = all_agents()[index]
    boards = words(random_boards(12))
    for n in (12, 1):
        actions = agent.act(boards[:n])
        assert actions.shape == (n,)
        assert actions.dtype == np.int8
    assert agent.act(boards[0]).shape == ()
    assert agent.act(int(boards[0])).shape == ()
    assert agent.act(boards[:0]).shape == (0,)
    assert agent.act([int(board) for board in boards]).shape == (12,)


@every_agent
def test_act_is_legal_and_does_not_change_the_boards(index: int) -> None:
    agent = all_agents()[index]
    exponents = random_boards(300, top=11)
    boards = words(exponents)
    before = boards.copy()
    for board, action in zip(exponents.tolist(), agent.act(boards).tolist(), strict=True):
        legal = oracle.legal_moves(board)
        assert action in legal if legal else action == 0
    assert (boards == before).all()


@every_agent
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
def test_copies_and_pickles_continue_independently(index: int, copied: Any) -> None:
    agent = all_agents()[index]
    boards = words(random_boards(200))
    agent.act(boards)
    twin: Agent = copied(agent)
    assert type(twin) is type(agent)
    assert twin.size == agent.size
    expected = copied(agent).act(boards).tolist()
    assert agent.act(boards).tolist() == expected
    assert twin.act(boards).tolist() == expected
    if isinstance(agent, NTupleAgent) and isinstance(twin, NTupleAgent):
        values = estimate(twin.network, boards).tolist()
        agent.network.weights[:] = 0
        assert estimate(twin.network, boards).tolist() == values


def test_a_subclass_needs_only_choose_actions() -> None:
    class Corner(Agent):
        def choose_actions(self, boards: npt.NDArray[np.uint64]) -> npt.NDArray[np.int8]:
            assert boards.ndim == 1
            assert boards.dtype == np.uint64
            return np.full(len(boards), 3, np.int8)

    assert Corner().act(np.zeros(3, np.uint64)).tolist() == [3, 3, 3]
    assert Corner().predict(np.zeros((4, 4), np.uint8))[0] == 3
    abstract: Any = Agent
    with pytest.raises(TypeError):
        abstract()


@pytest.mark.parametrize(
    "boards", [np.zeros((4, 4), np.uint8), [1.7], np.array([-1]), [-1], [1 << 64], ["1"], [True]]
)
def test_other_values_than_board_words_are_rejected(boards: Any) -> None:
    for agent in (agents.make("random", seed=1), agents.make("expectimax", tuples=[[0]])):
        with pytest.raises(ValueError, match="board word"):
            agent.act(boards)


@pytest.mark.parametrize("boards", [[[1, 2], [3, 4]], np.zeros((4, 4), np.int64), [[]]])
def test_act_refuses_observations(boards: Any) -> None:
    with pytest.raises(ValueError, match=r"got shape \(\d, \d\): predict takes observations"):
        agents.make("random", seed=1).act(boards)


def test_boards_of_another_size_are_rejected() -> None:
    with pytest.raises(ValueError, match="outside"):
        agents.make("random", seed=1, size=(2, 2)).act([0x1_0000_0000_0000])


def test_words_in_lists_may_be_large() -> None:
    assert agents.make("random", seed=1).act([1, 0xFFFF_0000_0000_0001]).shape == (2,)


def test_predict_accepts_and_ignores_masks_of_sb3_contrib() -> None:
    agent = agents.make("reward", seed=1)
    observation = np.array([[1, 1, 2, 0], *[[0] * 4] * 3], np.uint8)
    assert agent.predict(observation, action_masks=np.ones(4, np.bool_))[0] in (1, 3)


def test_whole_numbers_of_numpy_are_numbers() -> None:
    size = (np.int64(2), np.int64(2))
    agent = agents.make("expectimax", depth=np.int64(2), tuples=[[0, 1]], size=size)
    assert agent.size == (2, 2)
