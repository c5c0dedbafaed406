"""Wrong arguments of `Game2048Env` and `Game2048VectorEnv` raise errors and change no game."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from afterstate.agents.game2048.simple import RewardAgent
from afterstate.agents.game2048.values import heuristic
from afterstate.envs.game2048 import rules
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.vector_env import Game2048VectorEnv
from tests.support.env_checks import (
    FULL,
    MODES,
    ONLY_SIDEWAYS,
    assert_same,
    boards_of,
    on_board,
    play,
    play_legal,
    started,
    unchanged,
    unchanged_batch,
)

WRONG_SETTINGS: list[dict[str, Any]] = [
    *({"size": size} for size in [(0, 4), (5, 4), (1, 1), (4.0, 4), (True, 4), (4,), 4, None]),
    *({"observation": observation} for observation in ("pixels", None, ["onehot"])),
    *({"illegal": illegal} for illegal in ("skip", None, ["noop"])),
    *({"start_tiles": n} for n in (0, 17, -1, 2.0, True, "2")),
    {"start_tiles": 7, "size": (2, 3)},
    *({"render_mode": mode} for mode in ("svg", 1, ["ansi"])),
]
WRONG_BATCH_SETTINGS: list[dict[str, Any]] = [
    *({"num_envs": n} for n in (0, -2, 2.0, True)),
    {"render_mode": "human"},
    *({"autoreset_mode": mode} for mode in ("Never", None)),
    *({"max_episode_steps": n} for n in (0, -1, 1.5, "9")),
]


@pytest.mark.parametrize("kind", [Game2048Env, Game2048VectorEnv])
def test_errors_name_the_wrong_setting(kind: Any) -> None:
    own = WRONG_BATCH_SETTINGS if kind is Game2048VectorEnv else []
    for settings in WRONG_SETTINGS + own:
        with pytest.raises(ValueError, match=next(iter(settings))):
            kind(**settings)


def test_a_size_may_be_a_list() -> None:
    size: Any = [2, 3]
    assert Game2048Env(size).reset(seed=1)[0].shape == (2, 3)


@pytest.mark.parametrize(
    "action",
    [4, -1, 2**70, 1.5, 2.0, "up", None, True, [1], np.float32(1), np.array([1]), np.array(4)],
    ids=repr,
)
def test_wrong_actions_change_nothing(action: Any) -> None:
    env = on_board(ONLY_SIDEWAYS)
    unchanged(env, lambda: env.step(action)).match("action")


@pytest.mark.parametrize(
    "actions",
    [
        [0, 1, 2],
        [[0, 1, 2, 3, 0]],
        2,
        None,
        [0, 1, 2, 3, 4],
        [0, 1, -1, 3, 0],
        [2**40, 0, 0, 0, 0],
        np.array([255, 0, 0, 0, 0], np.uint8),
        [0, 1, 2, 3, 1.5],
        [True, False, True, False, True],
        ["up"] * 5,
        [0, 1, 2, 3, [0]],
    ],
    ids=str,
)
def test_wrong_actions_of_a_batch_change_nothing(actions: Any) -> None:
    for mode in MODES:
        envs = started(5, autoreset_mode=mode)
        play_legal(envs, 3)
        unchanged_batch(envs, partial(envs.step, actions)).match("action|shape")


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.uint64])
def test_actions_may_have_any_integer_type(dtype: Any) -> None:
    env, twin = (on_board(ONLY_SIDEWAYS) for _ in range(2))
    envs, twins = started(4), started(4)
    for action in (1, 3, 2, 0):
        expected = twin.step(action)
        assert_same(env.step(dtype(action)), expected)
    actions = np.array([0, 1, 2, 3])
    assert_same(envs.step(actions.astype(dtype)), twins.step(actions))
    strided: Any = np.repeat(actions, 2)[::2]
    assert_same(envs.step(strided), twins.step(actions.tolist()))


WRONG_BOARDS: list[Any] = [
    [[1, 2], [3, 4]],
    np.zeros((4, 5), int),
    np.zeros((1, 4, 4), int),
    np.zeros(16, int),
    [*FULL[:3], [5, 6, 7]],
    *([*FULL[:3], [5, 6, 7, tile]] for tile in (18, 256, -1)),
    np.array(FULL, np.float64),
    np.array(FULL) > 2,
    np.array(FULL).astype(str),
    *(-1, 2**64, 1.0, "2 4", True),
    *(range(10**12), [range(10**12)] * 4),
]


@pytest.mark.parametrize("board", WRONG_BOARDS, ids=str)
def test_wrong_boards_change_nothing(board: Any) -> None:
    env = Game2048Env()
    env.reset(seed=3)
    play(env, 10, 1)
    for seed in (None, 5):
        reset = partial(env.reset, seed=seed, options={"board": board})
        unchanged(env, reset).match("board|exponents")
    unchanged(env, lambda: env.outcomes(board))
    state = {"board": board, "score": 0, "rng": 0}
    unchanged(env, lambda: env.set_state(state)).match("board|exponents")


@pytest.mark.parametrize("options", [{"boards": FULL}, {"board": FULL, "seed": 3}, {3: FULL}])
def test_unknown_reset_options_change_nothing(options: Any) -> None:
    env, envs = on_board(ONLY_SIDEWAYS), started(3)
    unchanged(env, partial(env.reset, options=options)).match("options")
    unchanged_batch(envs, partial(envs.reset, options=options)).match("options")


@pytest.mark.parametrize(
    ("options", "noun"),
    [
        *(({"board": np.zeros(shape, int)}, "board") for shape in [(2, 4, 4), (3, 4, 3)]),
        ({"board": np.zeros((1, 3, 4, 4), int)}, "board"),
        ({"board": [FULL, FULL, [*FULL[:3], [5, 6, 7, 18]]]}, "board"),
        ({"board": np.array([FULL] * 3, float)}, "board"),
        ({"board": [FULL, FULL, FULL[:3]]}, "board"),
        ({"board": [1, 2]}, "board"),
        ({"reset_mask": np.zeros(3, bool)}, "reset_mask"),
        ({"reset_mask": np.ones(2, bool)}, "reset_mask"),
        ({"reset_mask": np.ones(3, int)}, "reset_mask"),
        ({"reset_mask": np.ones((3, 1), bool)}, "reset_mask"),
        ({"reset_mask": "all"}, "reset_mask"),
        ({"reset_mask": range(10**12)}, "reset_mask"),
        ({"board": range(10**12)}, "board"),
        ({"reset_mask": np.array([True, False, True]), "board": -1}, "board"),
    ],
    ids=str,
)
def test_wrong_reset_options_of_a_batch_change_nothing(options: dict[str, Any], noun: str) -> None:
    envs = started(3)
    play_legal(envs, 5)
    seeds: list[Any] = [None, [1, 2, 3]]
    for seed in seeds:
        unchanged_batch(envs, partial(envs.reset, seed=seed, options=options)).match(noun)


def test_a_word_with_tiles_outside_the_board_is_refused() -> None:
    env = on_board([[1, 2], [3, 4]])
    for word in (0x0100, 0x0001_0000_0000, 1 << 63):
        unchanged(env, partial(env.reset, options={"board": word})).match("board")


@pytest.mark.parametrize("seed", [-1, 1.5, "1"])
def test_wrong_seeds_change_nothing(seed: Any) -> None:
    env = on_board(ONLY_SIDEWAYS)
    before = env.get_state()
    with pytest.raises(ValueError, match="seed"):
        env.reset(seed=seed)
    assert_same(env.get_state(), before)
    envs = started(3)
    seeds: list[Any] = [seed, [1, 2, seed], [1, 2], [1, 2, 3, 4], []]
    for wrong in seeds:
        errors = (ValueError, TypeError, gym.error.Error)
        unchanged_batch(envs, partial(envs.reset, seed=wrong), errors)


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        {"board": FULL},
        {"board": FULL, "score": 0, "rng": 0, "more": 1},
        {"board": [[1, 2]], "score": 0, "rng": 0},
        *({"board": FULL, "score": score, "rng": 0} for score in (-1, 2**63, 1.5, None, "4")),
        *({"board": FULL, "score": 0, "rng": rng} for rng in (-1, 2**64, 0.5, None)),
    ],
)
def test_wrong_states_change_nothing(state: Any) -> None:
    env = on_board(ONLY_SIDEWAYS)
    unchanged(env, lambda: env.set_state(state)).match("state|board")


def test_options_of_the_caller_are_not_changed() -> None:
    envs = started(3)
    mask, board = np.array([True, False, True]), np.array([FULL] * 3, np.uint8)
    options = {"reset_mask": mask, "board": board}
    observations, infos = envs.reset(options=options)
    assert options.keys() == {"reset_mask", "board"}
    observations[:], infos["_score"][:] = 0, True
    assert mask.tolist() == [True, False, True] and (board == FULL).all()
    board[:] = 1
    assert boards_of(envs)[0] == boards_of(envs)[2] == FULL


def test_methods_need_a_successful_reset() -> None:
    env, envs = Game2048Env(render_mode="ansi"), Game2048VectorEnv(3, render_mode="ansi")
    some = {"reset_mask": np.array([True, False, True])}
    methods: list[Callable[[], Any]] = [
        *(lambda: env.step(0), lambda: env.board, lambda: envs.boards),
        *(env.action_masks, env.afterstates, env.get_state, env.render),
        *(lambda: envs.step(np.zeros(3, int)), lambda: envs.reset(options=some)),
        *(envs.action_masks, envs.afterstates, envs.sample_legal, envs.render),
    ]
    resets: list[Callable[..., Any]] = [env.reset, envs.reset]
    for _ in range(2):
        for method in methods:
            with pytest.raises(ResetNeeded, match="reset"):
                method()
        for reset in resets:
            with pytest.raises(ValueError, match="options"):
                reset(options={"boards": FULL})
    assert_same(env.reset(seed=1), Game2048Env().reset(seed=1))
    env.close()


def shared(depth: int, n: int) -> Any:
    """Return lists within lists that are one object, so that the paths through them are many."""
    values: Any = 1
    for _ in range(depth):
        values = [values] * n
    return values


def in_itself() -> Any:
    """Return a list that holds itself."""
    values: list[Any] = []
    values += [values] * 4
    return values


@pytest.mark.parametrize("board", [shared(30, 4), in_itself(), [[shared(30, 4)] * 4] * 4])
def test_lists_of_many_paths_are_refused_at_once(board: Any) -> None:
    env, envs = Game2048Env(), Game2048VectorEnv(4)
    calls: list[Callable[[], Any]] = [
        *(partial(each.reset, options={"board": board}) for each in (env, envs)),
        *(partial(check, board) for check in (rules.words, rules.cells)),
        *(partial(RewardAgent().act, board), partial(RewardAgent().predict, board)),
        partial(heuristic.evaluate, board),
    ]
    for call in calls:
        with pytest.raises(ValueError):
            call()


def test_tensors_that_numpy_cannot_read_are_refused_by_name() -> None:
    torch = pytest.importorskip("torch")
    env, envs = Game2048Env(), Game2048VectorEnv(4)
    envs.reset(seed=1)
    for values in (
        torch.ones(4, 4, requires_grad=True),
        torch.ones(4, 4, dtype=torch.bfloat16),
        torch.ones(4, 4).to_sparse(),
    ):
        with pytest.raises(ValueError, match="board"):
            env.reset(options={"board": values})
        with pytest.raises(ValueError, match="actions must be integers"):
            envs.step(values[0] if not values.is_sparse else values)
        with pytest.raises(ValueError, match="reset_mask must be bool"):
            envs.reset(options={"reset_mask": values})


def test_an_index_that_fails_is_no_action() -> None:
    class Bad:
        def __index__(self) -> int:
            raise RuntimeError("no index")

    bad: Any = Bad()
    env = Game2048Env()
    env.reset(seed=1)
    unchanged(env, lambda: env.step(bad))
