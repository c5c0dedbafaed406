"""The rules on tensors equal the rules on words, on single boards and in whole games."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest
import torch
from numba import njit

import afterstate.envs  # noqa: F401 - registers the environment
from afterstate.envs.game2048 import rules, torch_rules
from afterstate.envs.words import Words, next_random, seed_word
from tests.support.devices import on_devices
from tests.support.rules_checks import PALETTES

N_BOARDS = 200_000
TABLE, FIELD = rules.table(), rules.field(4, 4)
Numbers = npt.NDArray[np.int64]


def random_boards(n: int) -> Words:
    """Return boards of cells drawn from the palettes, an eighth of them from each."""
    rng = np.random.default_rng(1)
    cells = [rng.choice(palette, (n // len(PALETTES), 4, 4)) for palette in PALETTES]
    return rules.words(np.concatenate(cells).astype(np.uint8))


@njit
def all_afterstates(boards: Words, table: Words) -> tuple[Any, Any, Any]:
    """Return afterstates and rewards `[n, 4]` and the legal moves as bits `[n]`, by `rules`."""
    afters, rewards = np.empty((len(boards), 4), np.uint64), np.empty((len(boards), 4), np.int64)
    bits = np.empty(len(boards), np.int64)
    for i in range(len(boards)):
        after, gained = rules.afterstates(boards[i], table)
        bits[i] = rules.legal(boards[i], rules.LOW_BITS)
        for action in range(4):
            afters[i, action], rewards[i, action] = after[action], gained[action]
    return afters, rewards, bits


@njit
def all_spawned(boards: Words, states: Words) -> tuple[Any, Any]:
    """Return the boards with a new tile, by `rules`, and the random bits of the draw."""
    spawned, bits = np.empty_like(boards), np.empty_like(boards)
    for i in range(len(boards)):
        spawned[i] = rules.spawn(boards[i], states[i], rules.LOW_BITS)[0]
        bits[i] = next_random(states[i])[1]
    return spawned, bits


@njit
def all_symmetries(boards: Words) -> Any:
    """Return the symmetric boards `[n, 8]`, by `rules`."""
    result = np.empty((len(boards), 8), np.uint64)
    for i in range(len(boards)):
        each = rules.symmetries(boards[i], 4, 4)
        for j in range(8):
            result[i, j] = each[j]
    return result


@on_devices
def test_afterstates_rewards_and_legal_moves_equal_those_of_words(device: str) -> None:
    words = random_boards(N_BOARDS)
    boards = torch_rules.from_words(words, device)
    afters, rewards, bits = all_afterstates(words, TABLE)
    result, gained = torch_rules.afterstates(boards)
    assert (torch_rules.to_words(result) == afters).all()
    assert (gained.cpu().numpy() == rewards).all()
    legal = bits[:, None] >> np.arange(4) & 1 == 1
    assert (torch_rules.legal(boards).cpu().numpy() == legal).all()
    assert (torch_rules.is_over(boards).cpu().numpy() == (bits == 0)).all()
    assert 0 < (bits == 0).mean() < 0.2


@on_devices
def test_move_plays_one_action_per_board(device: str) -> None:
    boards = torch_rules.from_words(random_boards(8_000), device)
    actions = torch.arange(len(boards), device=device) % 4
    afters, rewards = torch_rules.afterstates(boards)
    result, gained = torch_rules.move(boards, actions)
    rows = torch.arange(len(boards), device=device)
    assert (result == afters[rows, actions]).all() and (gained == rewards[rows, actions]).all()


@on_devices
def test_the_same_random_bits_add_the_same_tile(device: str) -> None:
    words = random_boards(N_BOARDS)
    words[:1_000] = 0
    states = np.random.default_rng(2).integers(2**64, size=len(words), dtype=np.uint64)
    spawned, bits = all_spawned(words, states)
    result = torch_rules.spawn(
        torch_rules.from_words(words, device), torch_rules.from_words(bits, device)
    )
    assert (torch_rules.to_words(result) == spawned).all()


@on_devices
def test_symmetries_equal_those_of_words(device: str) -> None:
    words = random_boards(N_BOARDS)
    result = torch_rules.symmetries(torch_rules.from_words(words, device))
    assert (torch_rules.to_words(result) == all_symmetries(words)).all()


def test_functions_accept_boards_of_any_shape() -> None:
    words = random_boards(80).reshape(2, 5, 8)
    boards = torch_rules.from_words(words)
    assert (torch_rules.to_words(boards) == words).all()
    assert (torch_rules.exponents(boards).numpy() == rules.cells(words)).all()
    assert torch_rules.afterstates(boards)[0].shape == (2, 5, 8, 4)
    assert torch_rules.legal(boards[0, 0, 0]).shape == (4,)
    assert torch_rules.symmetries(boards).shape == (2, 5, 8, 8)
    scalar = torch_rules.from_words(words[0, 0, 0])
    assert torch_rules.to_words(scalar) == words[0, 0, 0]


@on_devices
def test_random_bits_and_legal_actions_are_uniform_and_repeatable(device: str) -> None:
    def drawn() -> tuple[Any, Any, Any]:
        generator = torch.Generator(device).manual_seed(3)
        boards = torch_rules.start((100_000,), generator)
        bits = torch_rules.draw_bits((100_000,), generator)
        legal = torch.tensor([True, False, True, True], device=device).expand(100_000, 4)
        return boards, bits, torch_rules.random_legal(legal, generator)

    boards, bits, actions = drawn()
    again = drawn()
    assert all((a == b).all() for a, b in zip((boards, bits, actions), again, strict=True))
    shares = (bits[:, None] >> torch.arange(64, device=device) & 1).double().mean(0)
    assert (shares - 0.5).abs().max() < 0.01  # six standard errors
    counts = actions.bincount(minlength=4).cpu().numpy() / 100_000
    assert counts[1] == 0 and np.abs(counts[[0, 2, 3]] - 1 / 3).max() < 0.01
    tiles = torch_rules.exponents(boards).reshape(-1, 16)
    assert ((tiles > 0).sum(1) == 2).all() and tiles.max() == 2
    fours = (tiles == 2).double().sum().item() / 200_000
    assert fours == pytest.approx(0.1, abs=0.004)
    where = (tiles > 0).double().mean(0)
    assert (where - 1 / 8).abs().max() < 0.007


def test_the_action_of_a_finished_game_is_0() -> None:
    generator, none = torch.Generator().manual_seed(1), torch.zeros(3, 4, dtype=torch.bool)
    assert torch_rules.random_legal(none, generator).tolist() == [0, 0, 0]


class Stream:
    """The random bits of the environment's games, by their seeds."""

    def __init__(self, seeds: range) -> None:
        self._states = [seed_word(seed) for seed in seeds]

    def bits(self) -> Any:
        """Return the next bits of each game."""
        drawn = [next_random(np.uint64(state)) for state in self._states]
        self._states = [int(state) for state, _ in drawn]
        return torch_rules.from_words(np.array([bits for _, bits in drawn], np.uint64))


def test_whole_games_equal_those_of_the_environments() -> None:
    seeds = range(20)
    env = gym.make("Game2048-v0", disable_env_checker=True)
    envs: Any = gym.make_vec("Game2048-v0", num_envs=len(seeds), autoreset_mode="Disabled")
    observed, _ = envs.reset(seed=list(seeds))
    stream = Stream(seeds)
    boards = torch_rules.spawn(torch.zeros(len(seeds), dtype=torch.int64), stream.bits())
    boards = torch_rules.spawn(boards, stream.bits())
    assert (torch_rules.exponents(boards).numpy() == observed).all()
    generator, moves = torch.Generator().manual_seed(1), []
    while not torch_rules.is_over(boards).any():
        actions = torch_rules.random_legal(torch_rules.legal(boards), generator)
        moves.append(actions[0].item())
        afters, rewards = torch_rules.move(boards, actions)
        boards = torch_rules.spawn(afters, stream.bits())
        observed, gained, *_ = envs.step(actions.numpy())
        assert (torch_rules.exponents(boards).numpy() == observed).all()
        assert (rewards.numpy() == gained).all()
    assert len(moves) > 30
    env.reset(seed=0)
    for action in moves:
        single = env.step(action)[0]
    assert (single == torch_rules.exponents(boards)[0].numpy()).all()


def test_a_symmetric_action_on_a_symmetric_board_leads_to_the_symmetric_afterstate() -> None:
    boards = torch_rules.from_words(random_boards(2_000))
    actions = torch.randint(4, (2_000,), generator=torch.Generator().manual_seed(1))
    for which in range(8):
        symmetry = torch.full_like(actions, which)
        turned = torch_rules.symmetric(boards, symmetry)
        assert (turned == torch_rules.symmetries(boards)[:, which]).all()
        after, reward = torch_rules.move(turned, torch_rules.symmetric_actions(actions, symmetry))
        expected, same_reward = torch_rules.move(boards, actions)
        assert (after == torch_rules.symmetric(expected, symmetry)).all()
        assert (reward == same_reward).all()


BOARDS = torch_rules.from_words(np.array([0x21, 0x12, 0x33], np.uint64))
ONES = torch.ones(3, dtype=torch.int64)
WRONG_CALLS: dict[str, Callable[[], Any]] = {
    "a fraction as word": lambda: torch_rules.from_words([1.5]),  # type: ignore[arg-type]
    "a negative word": lambda: torch_rules.from_words(np.array([-5])),
    "NaN as word": lambda: torch_rules.from_words(np.array([np.nan])),
    "fewer actions": lambda: torch_rules.move(BOARDS, ONES[:2]),
    "action 4": lambda: torch_rules.move(BOARDS, 4 * ONES),
    "action -1": lambda: torch_rules.move(BOARDS, -ONES),
    "actions of int32": lambda: torch_rules.move(BOARDS, ONES.int()),
    "boards of int32": lambda: torch_rules.flip(BOARDS.int()),
    "boards of bool": lambda: torch_rules.legal(BOARDS.bool()),
    "boards of float64": lambda: torch_rules.to_words(BOARDS.double()),
    "boards of numpy": lambda: torch_rules.mirror(np.array([1])),  # type: ignore[arg-type]
    "symmetry 8": lambda: torch_rules.symmetric(BOARDS, 8 * ONES),
    "action -1 of a symmetry": lambda: torch_rules.symmetric_actions(-ONES, 0 * ONES),
    "fewer bits": lambda: torch_rules.spawn(BOARDS, ONES[:2]),
    "a mask of numbers": lambda: torch_rules.random_legal(BOARDS, torch.Generator()),
}


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_wrong_tensors_are_refused(call: str) -> None:
    with pytest.raises(ValueError, match=r"must be|must have"):
        WRONG_CALLS[call]()
