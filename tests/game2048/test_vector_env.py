"""`Game2048VectorEnv` beside as many single environments, by Gymnasium's own vector environment."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import oracle
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from gymnasium.wrappers.vector import FlattenObservation, RecordEpisodeStatistics

from afterstate.envs.game2048 import render
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.vector_env import Game2048VectorEnv

NEXT_STEP, SAME_STEP, DISABLED = (
    AutoresetMode.NEXT_STEP,
    AutoresetMode.SAME_STEP,
    AutoresetMode.DISABLED,
)
MODES = [NEXT_STEP, SAME_STEP, DISABLED]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"observation": "onehot"},
    {"size": (2, 3)},
    {"size": (1, 2)},
    {"size": (2, 2), "observation": "onehot", "start_tiles": 1},
    {"illegal": "terminate"},
    {"size": (2, 3), "illegal": "terminate"},
    {"max_episode_steps": 17},
    {"size": (2, 3), "max_episode_steps": 17, "illegal": "terminate"},
    {"size": (2, 3), "max_episode_steps": 1},
]
ONLY_SIDEWAYS = [[0, 1, 2, 0], [0, 2, 1, 0], [0, 1, 2, 0], [0, 2, 1, 0]]
FULL = [[1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4], [5, 6, 7, 8]]

by_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
by_settings = pytest.mark.parametrize("settings", SETTINGS, ids=str)


def single(max_episode_steps: int | None = None, **settings: Any) -> gym.Env[Any, Any]:
    """One environment with the settings of a vector environment."""
    env: gym.Env[Any, Any] = Game2048Env(**settings)
    return env if max_episode_steps is None else TimeLimit(env, max_episode_steps)


def singles(num_envs: int, mode: AutoresetMode = NEXT_STEP, **settings: Any) -> SyncVectorEnv:
    """Gymnasium's vector environment over single environments."""
    return SyncVectorEnv([partial(single, **settings)] * num_envs, autoreset_mode=mode)


def started(num_envs: int = 5, seed: int = 1, **settings: Any) -> Game2048VectorEnv:
    """A vector environment at its start."""
    envs = Game2048VectorEnv(num_envs, **settings)
    envs.reset(seed=seed)
    return envs


def boards_of(envs: Game2048VectorEnv) -> list[oracle.Board]:
    """The boards from their words."""
    return [oracle.from_word(word, *envs.size) for word in envs.boards.tolist()]


def assert_same(first: Any, second: Any) -> None:
    """Equal values of equal types, through tuples, lists and dicts."""
    assert type(first) is type(second)
    if isinstance(first, np.ndarray):
        assert (first.dtype, first.shape) == (second.dtype, second.shape)
        if first.dtype == object:
            assert_same(first.tolist(), second.tolist())
        else:
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


def told(infos: dict[str, Any], mask: Any = None) -> dict[str, Any]:
    """Infos without what their masks leave open: zero there, as Gymnasium has it."""
    result = {}
    for key, value in infos.items():
        if key.startswith("_"):
            result[key] = value
        elif isinstance(value, dict):
            result[key] = told(value)
        else:
            result[key] = value.copy()
            result[key][~infos[f"_{key}"]] = None if value.dtype == object else 0
    return result


def play(envs: Any, n_steps: int, seed: int) -> list[Any]:
    """What random actions, legal or not, lead to."""
    rng = np.random.default_rng(seed)
    return [envs.step(rng.integers(4, size=envs.num_envs)) for _ in range(n_steps)]


def unchanged(
    envs: Game2048VectorEnv,
    action: Callable[[], Any],
    expected: type[Exception] | tuple[type[Exception], ...] = ValueError,
) -> pytest.ExceptionInfo[Exception]:
    """Runs what must raise and must leave the games, and those after them, as they are."""
    twin = copy.deepcopy(envs)
    with pytest.raises(expected) as error:
        action()
    assert_same(envs.boards, twin.boards)
    follower = copy.deepcopy(envs)
    assert_same(follower.sample_legal(), twin.sample_legal())
    assert_same(legal_play(follower, 20), legal_play(twin, 20))
    assert_same(follower.reset(), twin.reset())
    assert_same(legal_play(follower, 5), legal_play(twin, 5))
    return error


def legal_play(envs: Game2048VectorEnv, n_steps: int) -> list[Any]:
    """What the first legal actions lead to."""
    return [envs.step(envs.action_masks().argmax(axis=1)) for _ in range(n_steps)]


# As many single environments


@by_mode
@by_settings
def test_games_are_those_of_single_environments(
    settings: dict[str, Any], mode: AutoresetMode
) -> None:
    """Observations, rewards, ends, infos, masks, afterstates and words of 250 steps."""
    envs = Game2048VectorEnv(6, autoreset_mode=mode, **settings)
    others = singles(6, mode, **settings)
    rng = np.random.default_rng(3)
    assert_same(envs.reset(seed=20), others.reset(seed=20))
    n_ends = 0
    for _ in range(250):
        actions = rng.integers(4, size=6)
        step, other = envs.step(actions), others.step(actions)
        assert_same((*step[:4], told(step[4])), other)
        assert_same(step[4], other[4])
        assert envs.observation_space.contains(step[0])
        for name in ("action_masks", "afterstates"):
            assert_same_batches(getattr(envs, name)(), others.call(name))
        assert envs.boards.tolist() == list(others.get_attr("board"))
        over = step[2] | step[3]
        n_ends += int(over.sum())
        if mode is DISABLED and over.any():
            first = envs.reset(options={"reset_mask": over.copy()})
            second = others.reset(options={"reset_mask": over.copy()})
            assert_same((first[0], told(first[1])), second)
    assert n_ends > 0 or settings in ({}, {"observation": "onehot"})
    assert_same(envs.reset(), others.reset())


def assert_same_batches(batch: Any, each: Sequence[Any]) -> None:
    """An array over all games, or a tuple of such arrays, and what each game has for itself."""
    if isinstance(batch, tuple):
        for part, parts in zip(batch, zip(*each, strict=True), strict=True):
            assert_same_batches(part, parts)
    else:
        assert_same(batch, np.stack(each))


@by_mode
def test_4x4_games_that_end_are_those_of_single_environments(mode: AutoresetMode) -> None:
    envs, others = Game2048VectorEnv(4, autoreset_mode=mode), singles(4, mode)
    assert_same(envs.reset(seed=1), others.reset(seed=1))
    rng = np.random.default_rng(3)
    n_ends = 0
    while n_ends < 10:
        actions = rng.integers(4, size=4)
        step, other = envs.step(actions), others.step(actions)
        assert_same(step, other)
        n_ends += int(step[2].sum())
        if mode is DISABLED and step[2].any():
            envs.reset(options={"reset_mask": step[2].copy()})
            others.reset(options={"reset_mask": step[2].copy()})


def test_same_step_leaves_the_end_of_a_game_in_the_infos() -> None:
    board = [[3, 3]]
    envs = Game2048VectorEnv(3, (1, 2), autoreset_mode=SAME_STEP)
    envs.reset(seed=4, options={"board": np.array([board, [[1, 0]], board])})
    observations, rewards, terminations, truncations, infos = envs.step(np.array([3, 1, 1]))
    assert terminations.tolist() == [True, False, True] and not truncations.any()
    assert rewards.tolist() == [16, 0, 16]
    assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == [True, False, True]
    assert infos["final_obs"].dtype == object and infos["final_obs"][1] is None
    assert infos["final_obs"][0][0, 0] == 4 and infos["final_obs"][2][0, 1] == 4
    final = infos["final_info"]
    assert final["score"].tolist() == [16, 0, 16]
    assert final["max_tile"].tolist() == [16, 0, 16]
    assert final["afterstate"].tolist() == [[[4, 0]], [[0, 0]], [[0, 4]]]
    assert final["_score"].tolist() == [True, False, True]
    assert infos["score"].tolist() == [0, 0, 0] and infos["_score"].all()
    for game in (0, 2):  # already the next games
        assert observations[game].tolist() == infos["afterstate"][game].tolist()
        assert 0 < observations[game].max() <= 2


def test_next_step_starts_the_next_game_with_the_next_step() -> None:
    envs = Game2048VectorEnv(2, (1, 2))
    envs.reset(seed=4, options={"board": np.array([[[3, 3]], [[1, 0]]])})
    observations, _, terminations, _, infos = envs.step(np.array([3, 1]))
    assert terminations.tolist() == [True, False]
    assert observations[0, 0, 0] == 4 and infos["score"].tolist() == [16, 0]
    observations, rewards, terminations, _, infos = envs.step(np.array([3, 0]))
    assert terminations.tolist() == [False, False] and rewards[0] == 0
    assert infos["score"][0] == 0 and infos["legal"].tolist() == [True, False]
    assert observations[0].max() <= 2
    assert not {"final_obs", "final_info"} & infos.keys()


def test_disabled_asks_for_the_reset_of_finished_games() -> None:
    envs = Game2048VectorEnv(2, (1, 2), autoreset_mode=DISABLED)
    envs.reset(seed=4, options={"board": np.array([[[3, 3]], [[1, 0]]])})
    envs.step(np.array([3, 1]))
    before = copy.deepcopy(envs)
    with pytest.raises(ResetNeeded, match=r"\[0\] are over.*reset_mask"):
        envs.step(np.array([0, 0]))
    options = {"reset_mask": np.array([True, False])}
    assert_same(envs.reset(options=dict(options)), before.reset(options=dict(options)))
    assert_same(legal_play(envs, 1), legal_play(before, 1))


def test_a_mode_may_be_given_by_its_value() -> None:
    for mode in MODES:
        for given in (mode, mode.value):
            envs = Game2048VectorEnv(2, autoreset_mode=given)
            assert envs.autoreset_mode is envs.metadata["autoreset_mode"] is mode
    assert Game2048VectorEnv(2).metadata["autoreset_mode"] is NEXT_STEP
    assert Game2048VectorEnv.metadata["autoreset_mode"] is NEXT_STEP
    made = gym.make_vec("Game2048-v0", num_envs=2, autoreset_mode=SAME_STEP)
    assert made.metadata["autoreset_mode"] is SAME_STEP


@by_settings
def test_spaces_and_attributes_are_gymnasiums(settings: dict[str, Any]) -> None:
    envs, others = Game2048VectorEnv(3, **settings), singles(3, **settings)
    for name in (
        "num_envs",
        "observation_space",
        "action_space",
        "single_observation_space",
        "single_action_space",
        "render_mode",
    ):
        assert getattr(envs, name) == getattr(others, name), name
    assert envs.unwrapped is envs
    envs.close()
    assert envs.closed


def test_a_thousand_games() -> None:
    envs, others = Game2048VectorEnv(1_000, (3, 3)), singles(1_000, size=(3, 3))
    assert_same(envs.reset(seed=0), others.reset(seed=0))
    rng = np.random.default_rng(1)
    for _ in range(5):
        actions = rng.integers(4, size=1_000)
        assert_same(envs.step(actions), others.step(actions))


# Resets


@by_mode
def test_reset_mask_resets_some_games(mode: AutoresetMode) -> None:
    settings: dict[str, Any] = {"size": (2, 3), "max_episode_steps": 9}
    envs, others = (
        Game2048VectorEnv(6, autoreset_mode=mode, **settings),
        singles(6, mode, **settings),
    )
    rng = np.random.default_rng(5)
    assert_same(envs.reset(seed=2), others.reset(seed=2))
    for t in range(80):
        actions = rng.integers(4, size=6)
        step = envs.step(actions)
        assert_same(step, others.step(actions))
        mask = (step[2] | step[3]) if mode is DISABLED else rng.random(6) < 0.2
        if mask.any():
            options: dict[str, Any] = {"board": [[0, 1, 2], [4, 3, 1]]} if t % 3 == 0 else {}
            seed: Any = None if t % 2 else rng.integers(0, 1_000, 6).tolist()
            before = envs.boards
            first = envs.reset(seed=seed, options={**options, "reset_mask": mask.copy()})
            second = others.reset(seed=seed, options={**options, "reset_mask": mask.copy()})
            assert_same((first[0], told(first[1])), second)
            assert first[1]["_score"].tolist() == mask.tolist()
            assert (envs.boards == before)[~mask].all()


@pytest.mark.parametrize("seed", [0, 77, [3, 1, 4, 1], (3, 1, 4, 1), np.array([9, 8, 7, 6])])
def test_seeds_of_all_games(seed: Any) -> None:
    envs = Game2048VectorEnv(4)
    for _ in range(2):
        observations, _ = envs.reset(seed=seed)
        each = [seed + i for i in range(4)] if isinstance(seed, int) else [int(s) for s in seed]
        expected = [Game2048Env().reset(seed=one)[0].tolist() for one in each]
        assert observations.tolist() == expected
        play(envs, 10, 1)


def test_a_seed_of_none_lets_a_game_go_on_with_its_stream() -> None:
    envs, others = Game2048VectorEnv(3), singles(3)
    for seed in (8, [None, 5, None], None, [1, None, None]):
        assert_same(envs.reset(seed=seed), others.reset(seed=seed))
        assert_same(play(envs, 30, 1), play(others, 30, 1))


def test_games_without_a_seed_differ() -> None:
    starts = Game2048VectorEnv(50).reset()[0]
    others = Game2048VectorEnv(50).reset()[0]
    assert len({str(board.tolist()) for board in (*starts, *others)}) > 60


@pytest.mark.parametrize("kind", ["word", "exponents", "each"])
def test_reset_to_boards(kind: str) -> None:
    rng = np.random.default_rng(6)
    boards = rng.integers(0, 16, (3, 2, 3), dtype=np.uint8)
    given: Any = boards
    if kind != "each":
        boards[1:] = boards[0]
        given = boards[0] if kind == "exponents" else oracle.to_word(boards[0].tolist())
    envs = Game2048VectorEnv(3, (2, 3))
    observations, infos = envs.reset(seed=1, options={"board": given})
    assert_same(observations, boards)
    assert_same(infos["afterstate"], boards)
    assert not infos["score"].any()
    for i in range(3):
        env = Game2048Env((2, 3))
        expected, info = env.reset(seed=1 + i, options={"board": boards[i]})
        assert_same(observations[i], expected)
        assert_same(infos["action_mask"][i], info["action_mask"])
        assert infos["max_tile"][i] == info["max_tile"]


def test_large_tiles_of_some_games() -> None:
    boards = np.zeros((4, 4, 4), np.uint8)
    boards[0, 0, :2], boards[1, 1, 2:], boards[2, 2, :2], boards[3, 3, :2] = 15, 16, 17, 14
    boards[:, 0, 3] = 1
    envs, others = Game2048VectorEnv(4), singles(4)
    envs.reset(seed=1, options={"board": boards})
    for i, env in enumerate(others.envs):
        env.reset(seed=1 + i, options={"board": boards[i]})
    step, other = envs.step(np.full(4, 3)), others.step(np.full(4, 3))
    assert_same(step, other)
    assert step[4]["max_tile"].tolist() == [65_536, 131_072, 131_072, 32_768]
    assert step[1].tolist() == [65_536, 131_072, 262_144, 32_768]
    assert envs.boards.tolist() == list(others.get_attr("board"))
    assert_same(play(envs, 300, 2), play(others, 300, 2))


# Random legal actions


def test_sample_legal_is_legal_and_covers_all_legal_actions() -> None:
    envs = started(40, 1)
    drawn = np.zeros((40, 4), bool)
    masks = envs.action_masks()
    for _ in range(100):
        actions = envs.sample_legal()
        assert actions.dtype == np.int64 and actions.shape == (40,)
        assert masks[np.arange(40), actions].all()
        drawn[np.arange(40), actions] = True
    assert (drawn == masks).all()
    for _ in range(300):
        actions = envs.sample_legal()
        masks = envs.action_masks()
        assert (masks[np.arange(40), actions] | ~masks.any(axis=1)).all()
        envs.step(actions)


@pytest.mark.parametrize(
    ("board", "legal"),
    [
        ([[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], [0, 1, 2, 3]),
        ([[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], [1, 2]),
        (ONLY_SIDEWAYS, [1, 3]),
        ([[1, 2, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], [1, 2]),
        ([[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], [1, 2, 3]),
    ],
)
def test_sample_legal_is_uniform(board: oracle.Board, legal: list[int]) -> None:
    """A chi-square of at most 3 degrees of freedom exceeds 16.3 once in a thousand times."""
    assert oracle.legal_moves(board) == legal
    envs = Game2048VectorEnv(5_000)
    envs.reset(seed=7, options={"board": board})
    counts = np.bincount(np.concatenate([envs.sample_legal() for _ in range(8)]), minlength=4)
    assert counts.sum() == counts[legal].sum() == 40_000
    expected = 40_000 / len(legal)
    assert ((counts[legal] - expected) ** 2 / expected).sum() < 16.3


def test_sample_legal_of_a_finished_game_is_0() -> None:
    envs = Game2048VectorEnv(2)
    envs.reset(seed=1, options={"board": np.array([FULL, ONLY_SIDEWAYS])})
    assert {tuple(envs.sample_legal().tolist()) for _ in range(50)} == {(0, 1), (0, 3)}


def test_sample_legal_does_not_disturb_the_games() -> None:
    envs, twin = started(5), started(5)
    rng = np.random.default_rng(2)
    for _ in range(200):
        for _ in range(rng.integers(3)):
            envs.sample_legal()
        actions = rng.integers(4, size=5)
        assert_same(envs.step(actions), twin.step(actions))
    assert_same(envs.reset(), twin.reset())


def test_sample_legal_is_the_same_for_the_same_seed() -> None:
    def drawn(seed: int) -> list[list[int]]:
        envs = started(20, seed)
        actions = []
        for _ in range(50):
            actions.append(envs.sample_legal())
            envs.step(actions[-1])
        return [each.tolist() for each in actions]

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)
    envs = started(20, 3)
    play(envs, 5, 1)
    envs.sample_legal()
    envs.reset(seed=3)
    assert envs.sample_legal().tolist() == drawn(3)[0]


def test_sample_legal_is_the_same_for_the_same_list_of_seeds() -> None:
    def drawn() -> list[int]:
        envs = Game2048VectorEnv(30)
        envs.reset(seed=list(range(30)))
        return [int(action) for _ in range(10) for action in envs.sample_legal()]

    assert drawn() == drawn()


# Illegal actions


def test_raise_plays_no_game_if_one_action_is_illegal() -> None:
    boards = np.array([[[1, 1], [2, 3]], [[1, 2], [2, 0]], [[3, 3], [1, 1]]])
    envs = Game2048VectorEnv(3, (2, 2), illegal="raise")
    envs.reset(seed=1, options={"board": boards})
    error = unchanged(envs, lambda: envs.step(np.array([3, 0, 3])))
    for part in ("game 1", "action 0 up", "1 right", "2 down"):
        assert part in str(error.value)
    assert "3 left" not in str(error.value)
    assert boards_of(envs) == boards.tolist()
    assert envs.step(np.array([3, 2, 3]))[4]["legal"].all()


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_raise_takes_any_action_for_a_game_that_starts_anew(mode: AutoresetMode) -> None:
    settings: dict[str, Any] = {"size": (1, 2), "illegal": "raise", "start_tiles": 1}
    envs, others = (
        Game2048VectorEnv(2, autoreset_mode=mode, **settings),
        singles(2, mode, **settings),
    )
    assert_same(envs.reset(seed=3), others.reset(seed=3))
    n_ends = 0
    for _ in range(60):
        actions = envs.sample_legal()
        step = envs.step(actions)
        assert_same(step, others.step(actions))
        n_ends += int(step[2].sum())
    assert n_ends > 3


# Bad input


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({"num_envs": 0}, "from 1 on"),
        ({"num_envs": -2}, "from 1 on"),
        ({"num_envs": 2.0}, "from 1 on"),
        ({"num_envs": True}, "from 1 on"),
        ({"size": (5, 4)}, "1 to 4"),
        ({"size": (1, 1)}, "at least two cells"),
        ({"size": 4}, r"\(rows, cols\)"),
        ({"observation": "pixels"}, "'exponents', 'onehot'"),
        ({"illegal": "skip"}, "'noop', 'terminate', 'raise'"),
        ({"start_tiles": 17}, r"1\.\.16"),
        ({"render_mode": "human"}, "'ansi', 'rgb_array'"),
        ({"autoreset_mode": "Never"}, "'NextStep', 'SameStep', 'Disabled'"),
        ({"autoreset_mode": None}, "'NextStep', 'SameStep', 'Disabled'"),
        ({"max_episode_steps": 0}, "None or from 1 on"),
        ({"max_episode_steps": -1}, "None or from 1 on"),
        ({"max_episode_steps": 1.5}, "None or from 1 on"),
        ({"max_episode_steps": "9"}, "None or from 1 on"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed):
        Game2048VectorEnv(**settings)


@pytest.mark.parametrize(
    ("actions", "allowed"),
    [
        ([0, 1, 2], r"\(5,\)"),
        ([[0, 1, 2, 3, 0]], r"\(5,\)"),
        (2, r"\(5,\)"),
        (None, r"\(5,\)"),
        ([0, 1, 2, 3, 4], "0 up, 1 right, 2 down or 3 left"),
        ([0, 1, -1, 3, 0], "0 up, 1 right, 2 down or 3 left"),
        ([2**40, 0, 0, 0, 0], "0 up, 1 right, 2 down or 3 left"),
        (np.array([255, 0, 0, 0, 0], np.uint8), "0 up, 1 right, 2 down or 3 left"),
        ([0.0, 1.0, 2.0, 3.0, 0.0], "integers"),
        ([0, 1, 2, 3, 1.5], "integers"),
        ([True, False, True, False, True], "integers"),
        (["up"] * 5, "integers"),
        ([0, 1, 2, 3, None], "integers"),
        ([0, 1, 2, 3, [0]], r"integers|\(5,\)"),
    ],
    ids=str,
)
@by_mode
def test_wrong_actions_are_refused(actions: Any, allowed: str, mode: AutoresetMode) -> None:
    envs = started(5, autoreset_mode=mode)
    legal_play(envs, 3)
    unchanged(envs, lambda: envs.step(actions)).match(allowed)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64, list])
def test_actions_may_be_of_any_integer_type(dtype: Any) -> None:
    envs, twin = started(4), started(4)
    actions = np.array([0, 1, 2, 3])
    given = actions.tolist() if dtype is list else actions.astype(dtype)
    assert_same(envs.step(given), twin.step(actions))
    strided: Any = np.repeat(actions, 2)[::2]
    assert_same(envs.step(strided), twin.step(actions))


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"boards": FULL}, "'board' and 'reset_mask'"),
        ({"board": FULL, "mask": 1}, "'board' and 'reset_mask'"),
        ({"board": [[1, 2], [3, 4]]}, r"\(4, 4\)"),
        ({"board": np.zeros((2, 4, 4), int)}, r"\(3, 4, 4\)"),
        ({"board": np.zeros((3, 4, 3), int)}, r"\(3, 4, 4\)"),
        ({"board": np.zeros((3, 5, 4), int)}, r"\(3, 4, 4\)|1 to 4"),
        ({"board": np.zeros((1, 3, 4, 4), int)}, r"\(4, 4\)"),
        ({"board": [FULL, FULL, [*FULL[:3], [5, 6, 7, 18]]]}, "17"),
        ({"board": [FULL, FULL, [*FULL[:3], [5, 6, 7, -1]]]}, "0"),
        ({"board": np.array([FULL] * 3, float)}, "whole exponents"),
        ({"board": np.array(FULL, float)}, "whole exponents"),
        ({"board": [FULL, FULL, FULL[:3]]}, r"\(3, 4, 4\)|\(4, 4\)"),
        ({"board": [1, 2, 3]}, r"\(4, 4\)"),
        ({"board": -1}, "word"),
        ({"reset_mask": np.zeros(3, bool)}, "at least one True"),
        ({"reset_mask": np.ones(2, bool)}, r"bool\[3\]"),
        ({"reset_mask": np.ones(3, int)}, r"bool\[3\]"),
        ({"reset_mask": np.ones((3, 1), bool)}, r"bool\[3\]"),
        ({"reset_mask": None}, r"bool\[3\]"),
        ({"reset_mask": "all"}, r"bool\[3\]"),
        ({"reset_mask": np.array([True, False, True]), "board": -1}, "word"),
    ],
    ids=str,
)
def test_wrong_reset_options_are_refused(options: dict[str, Any], allowed: str) -> None:
    envs = started(3)
    legal_play(envs, 5)
    seeds: list[Any] = [None, 9, [1, 2, 3]]
    for seed in seeds:
        unchanged(envs, partial(envs.reset, seed=seed, options=options)).match(allowed)


@pytest.mark.parametrize(
    "seed", [[1, 2], [1, 2, 3, 4], [], [1, 2, -3], [1, 2, 1.5], [1, 2, "3"], 1.5, -1, "abc"]
)
def test_wrong_seeds_are_refused(seed: Any) -> None:
    envs = started(3)
    legal_play(envs, 5)
    unchanged(envs, lambda: envs.reset(seed=seed), (ValueError, TypeError, gym.error.Error))


def test_options_stay_the_callers() -> None:
    envs = started(3)
    mask, board = np.array([True, False, True]), np.array([FULL] * 3, np.uint8)
    options = {"reset_mask": mask, "board": board}
    observations, infos = envs.reset(options=options)
    assert options.keys() == {"reset_mask", "board"}
    observations[:], infos["_score"][:] = 0, True
    assert mask.tolist() == [True, False, True] and (board == FULL).all()
    board[:] = 1
    assert boards_of(envs)[0] == boards_of(envs)[2] == FULL


def test_nothing_can_be_asked_before_the_first_reset() -> None:
    envs = Game2048VectorEnv(3, render_mode="ansi")
    asked: list[Callable[[], Any]] = [
        lambda: envs.step(np.zeros(3, int)),
        lambda: envs.boards,
        envs.action_masks,
        envs.afterstates,
        envs.sample_legal,
        envs.render,
        lambda: envs.reset(options={"reset_mask": np.array([True, False, True])}),
    ]
    for ask in asked:
        with pytest.raises(ResetNeeded, match="reset"):
            ask()
    with pytest.raises(ValueError, match="options"):
        envs.reset(options={"boards": FULL})
    with pytest.raises(ResetNeeded):
        envs.boards  # noqa: B018


# Copies


@by_mode
def test_what_the_environment_hands_out_is_the_callers(mode: AutoresetMode) -> None:
    """Whatever is done to it, the games go on as their twins do."""
    settings: dict[str, Any] = {"size": (2, 3), "max_episode_steps": 9, "autoreset_mode": mode}
    envs, twin = (Game2048VectorEnv(4, **settings) for _ in range(2))
    rng = np.random.default_rng(5)

    def spoil(value: Any) -> None:
        if isinstance(value, np.ndarray):
            value[...] = 1
        elif isinstance(value, tuple):
            for part in value:
                spoil(part)
        elif isinstance(value, dict):
            for part in value.values():
                spoil(part)

    spoil(envs.reset(seed=5))
    twin.reset(seed=5)
    for _ in range(80):
        for looked in (
            envs.afterstates(),
            envs.action_masks(),
            envs.boards,
        ):
            spoil(looked)
        actions = rng.integers(4, size=4)
        step = envs.step(actions)
        assert_same(step, twin.step(actions))
        over = step[2] | step[3]
        spoil(step)
        actions[:] = 77
        if mode is DISABLED and over.any():
            spoil(envs.reset(options={"reset_mask": over.copy()}))
            twin.reset(options={"reset_mask": over})
        assert_same(envs.afterstates(), twin.afterstates())
        assert_same(envs.action_masks(), twin.action_masks())
        assert_same(envs.boards, twin.boards)


@by_mode
@pytest.mark.parametrize("observation", ["exponents", "onehot"])
def test_results_of_earlier_steps_stay_as_they_were(mode: AutoresetMode, observation: str) -> None:
    envs = Game2048VectorEnv(4, (3, 3), observation, autoreset_mode=mode)
    kept: list[Any] = [envs.reset(seed=9), *legal_play(envs, 15)]
    copies = copy.deepcopy(kept)
    legal_play(envs, 5)
    envs.reset(seed=3)
    assert_same(kept, copies)


def copied(envs: Any) -> Any:
    return copy.deepcopy(envs)


def pickled(envs: Any) -> Any:
    return pickle.loads(pickle.dumps(envs))


@pytest.mark.parametrize("duplicate", [copied, pickled])
@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_a_copy_plays_the_same_games_on_its_own(
    duplicate: Callable[[Any], Any], mode: AutoresetMode
) -> None:
    envs = started(4, size=(2, 3), autoreset_mode=mode, max_episode_steps=11)
    play(envs, 15, 1)
    twin, third = duplicate(envs), duplicate(envs)
    assert_same(play(envs, 100, 2), play(twin, 100, 2))
    play(third, 7, 3)
    assert_same(envs.sample_legal(), twin.sample_legal())
    assert_same(envs.reset(), twin.reset())
    assert_same(envs.reset(seed=4), third.reset(seed=4))


@pytest.mark.parametrize("duplicate", [copied, pickled])
def test_a_copy_of_a_new_environment_is_a_new_environment(
    duplicate: Callable[[Any], Any],
) -> None:
    twin = duplicate(Game2048VectorEnv(3))
    with pytest.raises(ResetNeeded):
        twin.sample_legal()
    assert_same(twin.reset(seed=1), Game2048VectorEnv(3).reset(seed=1))


def test_a_pickle_is_small() -> None:
    envs = gym.make_vec("Game2048-v0", num_envs=4)
    envs.reset(seed=1)
    assert len(pickle.dumps(envs)) < 20_000


# Wrappers and pictures


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_statistics_are_those_of_the_games(mode: AutoresetMode) -> None:
    envs = RecordEpisodeStatistics(
        gym.make_vec("Game2048-v0", num_envs=4, size=(2, 3), autoreset_mode=mode)
    )
    envs.reset(seed=1)
    n_episodes = 0
    score: npt.NDArray[Any] = np.zeros(4)
    for step in play(envs, 300, 2):
        *_, infos = step
        over = step[2]
        if over.any():
            finals = infos["final_info"] if mode is SAME_STEP else infos
            score = finals["score"]
            assert infos["_episode"].tolist() == over.tolist()
            assert (infos["episode"]["r"] == score)[over].all()
            n_episodes += int(over.sum())
    assert n_episodes == envs.episode_count > 10


def test_observation_wrappers_apply() -> None:
    envs = FlattenObservation(gym.make_vec("Game2048-v0", num_envs=4))
    observations, _ = envs.reset(seed=1)
    assert observations.shape == (4, 16)
    assert_same(observations.reshape(4, 4, 4), Game2048VectorEnv(4).reset(seed=1)[0])


def test_render_gives_a_picture_of_each_game() -> None:
    envs = started(3, size=(2, 3), render_mode="ansi")
    *_, infos = envs.step(np.array([0, 1, 2]))
    texts = envs.render()
    boards, scores = boards_of(envs), infos["score"].tolist()
    assert texts == tuple(render.ansi(b, s) for b, s in zip(boards, scores, strict=True))
    assert started(2).render() is None


def test_render_gives_pixels_of_each_game() -> None:
    pytest.importorskip("PIL")
    envs = started(2, size=(2, 3), render_mode="rgb_array")
    pictures = envs.render()
    assert pictures is not None and len(pictures) == 2
    for picture, board in zip(pictures, boards_of(envs), strict=True):
        assert_same(picture, render.rgb_array(board, 0))
