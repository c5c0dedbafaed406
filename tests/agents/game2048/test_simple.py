"""Baseline players without learning."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.simple import RandomAgent, RewardAgent
from afterstate.envs.game2048.rules import from_text
from tests.oracles import game2048 as oracle

SIZES = [(4, 4), (2, 2), (3, 2), (1, 4), (2, 4)]
by_size = pytest.mark.parametrize("size", SIZES)
both = pytest.mark.parametrize("maker", [RandomAgent, RewardAgent])


def random_boards(size: tuple[int, int], n: int, seed: int = 1) -> list[oracle.Board]:
    rng = random.Random(seed)
    palettes = [[0, 0, 1, 2], [0, 1, 2, 3, 4, 5], [*range(1, 13)], [1, 2, 3]]
    return [
        [rng.choices(palette, k=size[1]) for _ in range(size[0])]
        for palette in rng.choices(palettes, k=n)
    ]


def shares(agent: RandomAgent, board: str) -> dict[int, float]:
    """Return the share of each action in 40,000 draws."""
    actions = agent.act(np.full(40_000, from_text(board), np.uint64))
    return {action: n / 40_000 for action, n in Counter(actions.tolist()).items()}


@both
@by_size
def test_moves_are_legal(maker: type[RandomAgent], size: tuple[int, int]) -> None:
    boards = random_boards(size, 1_000)
    actions = maker(seed=1, size=size).act([oracle.to_word(board) for board in boards])
    assert actions.dtype == np.int8
    for board, action in zip(boards, actions.tolist(), strict=True):
        legal = oracle.legal_moves(board)
        assert action in legal if legal else action == 0, board


@by_size
def test_the_reward_player_takes_the_largest_reward(size: tuple[int, int]) -> None:
    boards = random_boards(size, 1_000, seed=2)
    actions = RewardAgent(seed=1, size=size).act([oracle.to_word(board) for board in boards])
    for board, action in zip(boards, actions.tolist(), strict=True):
        rewards = {a: oracle.move(board, a)[1] for a in oracle.legal_moves(board)}
        if rewards:
            assert rewards[action] == max(rewards.values()), board


def test_the_random_player_draws_every_legal_move_as_often() -> None:
    """0.02 is more than seven standard errors of a share of 40,000 draws."""
    anywhere = shares(RandomAgent(seed=1), "_ _ _ _ / _ 2 _ _ / _ _ _ _ / _ _ _ _")
    assert anywhere == pytest.approx(dict.fromkeys(range(4), 1 / 4), abs=0.02)
    corner = shares(RandomAgent(seed=1), "2 _ _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _")
    assert corner == pytest.approx({1: 1 / 2, 2: 1 / 2}, abs=0.02)
    edge = shares(RandomAgent(seed=1), "_ 2 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _")
    assert edge == pytest.approx({1: 1 / 3, 2: 1 / 3, 3: 1 / 3}, abs=0.02)


def test_the_reward_player_draws_among_equals() -> None:
    merge = shares(RewardAgent(seed=1), "2 2 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _")
    assert merge == pytest.approx({1: 1 / 2, 3: 1 / 2}, abs=0.02)
    nothing = shares(RewardAgent(seed=1), "_ 2 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _")
    assert nothing == pytest.approx({1: 1 / 3, 2: 1 / 3, 3: 1 / 3}, abs=0.02)
    larger = shares(RewardAgent(seed=1), "2 2 _ 8 / _ _ _ 8 / _ _ _ _ / _ _ _ _")
    assert larger == pytest.approx({0: 1 / 2, 2: 1 / 2}, abs=0.02)


@both
def test_a_seed_repeats_the_moves_and_another_does_not(maker: type[RandomAgent]) -> None:
    board = from_text("_ _ _ _ / _ 2 _ _ / _ _ _ _ / _ _ _ _")
    first, again, other = (maker(seed=seed) for seed in (1, 1, 2))
    boards = np.full(200, board, np.uint64)
    moves = first.act(boards).tolist()
    assert moves == again.act(boards).tolist() != other.act(boards).tolist()
    assert first.act(boards).tolist() != moves
    pieces = maker(seed=1)
    one_by_one = [int(pieces.act(boards[i : i + 1])[0]) for i in range(200)]
    assert one_by_one == moves


def test_taking_rewards_scores_more_than_chance() -> None:
    by_chance = play(RandomAgent(seed=1), 300, seed=1).scores
    by_reward = play(RewardAgent(seed=1), 300, seed=1).scores
    assert 900 < by_chance.mean() < 1_300
    assert by_reward.mean() > 1.5 * by_chance.mean()
