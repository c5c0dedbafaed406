"""What `Game2048Env` refuses: settings, actions, options, seeds, boards, states; what it takes."""

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
        with pytest.raises(ValueError, match="seed"):
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
