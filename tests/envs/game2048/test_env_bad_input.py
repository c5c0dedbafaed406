"""Arguments of `Game2048Env`: wrong settings, actions, options, seeds, boards and states."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from afterstate.envs.game2048.env import Game2048Env
from tests.support.env_checks import FULL, ONLY_SIDEWAYS, assert_same, on_board, play, unchanged


@pytest.mark.parametrize(
    "settings",
    [
        {"size": (0, 4)},
        {"size": (5, 4)},
        {"size": (1, 1)},
        {"size": (4.0, 4)},
        {"size": (True, 4)},
        {"size": ("4", 4)},
        {"size": (4,)},
        {"size": (4, 4, 4)},
        {"size": 4},
        {"size": None},
        {"observation": "pixels"},
        {"observation": None},
        {"observation": 1},
        {"observation": ["onehot"]},
        {"illegal": "skip"},
        {"illegal": None},
        {"illegal": ["noop"]},
        {"start_tiles": 0},
        {"start_tiles": 17},
        {"start_tiles": -1},
        {"start_tiles": 2.0},
        {"start_tiles": True},
        {"start_tiles": "2"},
        {"start_tiles": 7, "size": (2, 3)},
        {"render_mode": "svg"},
        {"render_mode": 1},
        {"render_mode": ["ansi"]},
    ],
)
def test_wrong_settings_raise_errors_that_name_them(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
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
def test_wrong_actions_raise_errors_and_change_nothing(action: Any) -> None:
    env = on_board(ONLY_SIDEWAYS)
    error = unchanged(env, lambda: env.step(action))
    error.match("action")


@pytest.mark.parametrize("kind", [int, np.int8, np.int64, np.uint8, np.uint64, np.array])
def test_whole_numbers_of_any_type_are_actions(kind: Callable[[int], Any]) -> None:
    env, twin = (on_board(ONLY_SIDEWAYS) for _ in range(2))
    for action in (1, 3, 2, 0):
        assert_same(env.step(kind(action)), twin.step(action))


@pytest.mark.parametrize(
    ("options", "noun"),
    [
        ({"boards": FULL}, "options"),
        ({"board": FULL, "seed": 3}, "options"),
        ({3: FULL}, "options"),
        ({"board": [[1, 2], [3, 4]]}, "board|exponents"),
        ({"board": np.zeros((4, 5), int)}, "board|exponents"),
        ({"board": np.zeros((1, 4, 4), int)}, "board|exponents"),
        ({"board": np.zeros(16, int)}, "board|exponents"),
        ({"board": [*FULL[:3], [5, 6, 7]]}, "board|exponents"),
        ({"board": [*FULL[:3], [5, 6, 7, 18]]}, "board|exponents"),
        ({"board": [*FULL[:3], [5, 6, 7, 2048]]}, "board|exponents"),
        ({"board": [*FULL[:3], [5, 6, 7, 256]]}, "board|exponents"),
        ({"board": [*FULL[:3], [5, 6, 7, -1]]}, "board|exponents"),
        ({"board": np.array(FULL, np.float64)}, "board|exponents"),
        ({"board": np.array(FULL) > 2}, "board|exponents"),
        ({"board": np.array(FULL).astype(str)}, "board|exponents"),
        ({"board": -1}, "board|exponents"),
        ({"board": 2**64}, "board|exponents"),
        ({"board": 1.0}, "board|exponents"),
        ({"board": "2 4"}, "board|exponents"),
        ({"board": True}, "board|exponents"),
    ],
)
def test_wrong_reset_options_raise_errors_and_change_nothing(
    options: dict[Any, Any], noun: str
) -> None:
    env = Game2048Env()
    env.reset(seed=3)
    play(env, 10, 1)
    for seed in (None, 5):
        unchanged(env, partial(env.reset, seed=seed, options=options)).match(noun)


def test_a_word_with_tiles_outside_the_board_is_an_error() -> None:
    env = on_board([[1, 2], [3, 4]])
    for word in (0x0100, 0x0001_0000_0000, 1 << 63):
        unchanged(env, partial(env.reset, options={"board": word})).match("board")


def test_a_wrong_seed_is_an_error() -> None:
    env = on_board(ONLY_SIDEWAYS)
    before = env.get_state()
    for seed in (-1, 1.5, "1"):
        wrong: Any = seed
        with pytest.raises(ValueError, match="seed"):
            env.reset(seed=wrong)
        assert_same(env.get_state(), before)


@pytest.mark.parametrize(
    "board", [[[1, 2]], np.zeros((4, 4)), [*FULL[:3], [5, 6, 7, 18]], -1, None, "2 4"]
)
def test_outcomes_of_a_wrong_board_are_an_error(board: Any) -> None:
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
def test_wrong_states_raise_errors_and_change_nothing(wrong: Any) -> None:
    env = Game2048Env()
    env.reset(seed=3)
    play(env, 10, 1)
    error = unchanged(env, lambda: env.set_state(wrong))
    error.match("state|board|exponents")


def test_methods_raise_errors_before_the_first_reset() -> None:
    env = Game2048Env(render_mode="ansi")
    methods: list[Callable[[], Any]] = [
        lambda: env.step(0),
        lambda: env.board,
        env.action_masks,
        env.afterstates,
        env.get_state,
        env.render,
    ]
    for method in methods:
        with pytest.raises(ResetNeeded, match="reset"):
            method()
    with pytest.raises(ValueError, match="action"):
        env.step(4)
    assert_same(env.reset(seed=1), Game2048Env().reset(seed=1))
    env.close()


def test_a_failed_first_reset_starts_no_game() -> None:
    env = Game2048Env()
    with pytest.raises(ValueError, match="options"):
        env.reset(options={"boards": FULL})
    with pytest.raises(ResetNeeded):
        env.step(0)
