"""`Game2048VectorEnv` plays the games of Gymnasium's `SyncVectorEnv` of single environments."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from afterstate.envs.game2048 import render
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.vector_env import Game2048VectorEnv
from tests.oracles import game2048 as oracle
from tests.support.env_checks import (
    DISABLED,
    FULL,
    MODES,
    NEXT_STEP,
    ONLY_SIDEWAYS,
    SAME_STEP,
    assert_same,
    boards_of,
    by_mode,
    masked,
    play_batch,
    play_legal,
    single,
    started,
    unchanged_batch,
)

SETTINGS: list[dict[str, Any]] = [
    {},
    {"size": (1, 2)},
    {"size": (2, 2), "observation": "onehot", "start_tiles": 1},
    {"size": (2, 3), "illegal": "terminate"},
    {"size": (2, 3), "max_episode_steps": 17, "illegal": "terminate"},
    {"size": (2, 3), "max_episode_steps": 1},
    {"size": (2, 2), "illegal_limit": 2, "observation": "flat"},
    {"size": (2, 2), "illegal_limit": 1, "max_episode_steps": 9},
]

by_settings = pytest.mark.parametrize("settings", SETTINGS, ids=str)


def singles(num_envs: int, mode: AutoresetMode = NEXT_STEP, **settings: Any) -> SyncVectorEnv:
    """Return Gymnasium's vector environment of single environments."""
    return SyncVectorEnv([partial(single, **settings)] * num_envs, autoreset_mode=mode)


@by_mode
@by_settings
def test_games_are_those_of_single_environments(
    settings: dict[str, Any], mode: AutoresetMode
) -> None:
    """Compare observations, rewards, ends, infos, masks, afterstates and words, also of ends."""
    envs = Game2048VectorEnv(6, autoreset_mode=mode, **settings)
    others = singles(6, mode, **settings)
    rng = np.random.default_rng(3)
    assert_same(envs.reset(seed=20), others.reset(seed=20))
    n_ends = 0
    for t in count():
        if t >= 40 and n_ends:
            break
        actions = rng.integers(4, size=6)
        step, other = envs.step(actions), others.step(actions)
        assert_same((*step[:4], masked(step[4])), other)
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
            assert_same((first[0], masked(first[1])), second)
    assert_same(envs.reset(), others.reset())


def assert_same_batches(batch: Any, each: Sequence[Any]) -> None:
    """Check that an array over all games, or a tuple of them, equals the values of each game."""
    if isinstance(batch, tuple):
        for part, parts in zip(batch, zip(*each, strict=True), strict=True):
            assert_same_batches(part, parts)
    else:
        assert_same(batch, np.stack(each))


def test_disabled_needs_a_reset_of_finished_games() -> None:
    envs = Game2048VectorEnv(2, (1, 2), autoreset_mode=DISABLED)
    envs.reset(seed=4, options={"board": np.array([[[3, 3]], [[1, 0]]])})
    envs.step(np.array([3, 1]))
    before = copy.deepcopy(envs)
    with pytest.raises(ResetNeeded, match="reset_mask"):
        envs.step(np.array([0, 0]))
    options = {"reset_mask": np.array([True, False])}
    assert_same(envs.reset(options=dict(options)), before.reset(options=dict(options)))
    assert_same(play_legal(envs, 1), play_legal(before, 1))


def test_an_autoreset_mode_may_be_a_name() -> None:
    for mode in MODES:
        for name in (mode, mode.value):
            envs = Game2048VectorEnv(2, autoreset_mode=name)
            assert envs.autoreset_mode is envs.metadata["autoreset_mode"] is mode
    assert Game2048VectorEnv(2).metadata["autoreset_mode"] is NEXT_STEP
    assert Game2048VectorEnv.metadata["autoreset_mode"] is NEXT_STEP
    made = gym.make_vec("Game2048-v0", num_envs=2, autoreset_mode=SAME_STEP)
    assert made.metadata["autoreset_mode"] is SAME_STEP


@pytest.mark.parametrize("number", [np.uint8(255), np.int8(127), np.uint16(65535), np.int64(3)])
def test_the_number_of_games_may_be_an_integer_of_numpy(number: Any) -> None:
    envs = gym.make_vec(
        "Game2048-v0", num_envs=number, vectorization_mode="vector_entry_point", size=(2, 2)
    )
    observations, _ = envs.reset(seed=1)
    assert len(observations) == number
    envs.reset()
    rewards = envs.step(np.zeros(int(number), np.int64))[1]
    assert len(rewards) == number


@by_settings
def test_spaces_and_attributes_are_those_of_sync_vector_env(settings: dict[str, Any]) -> None:
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
            assert_same((first[0], masked(first[1])), second)
            assert first[1]["_score"].tolist() == mask.tolist()
            assert (envs.boards == before)[~mask].all()


@pytest.mark.parametrize("seed", [0, 77, [3, 1, 4, 1], (3, 1, 4, 1), np.array([9, 8, 7, 6])])
def test_a_game_starts_like_the_environment_of_its_seed(seed: Any) -> None:
    envs = Game2048VectorEnv(4)
    for _ in range(2):
        observations, _ = envs.reset(seed=seed)
        each = [seed + i for i in range(4)] if isinstance(seed, int) else [int(s) for s in seed]
        expected = [Game2048Env().reset(seed=one)[0].tolist() for one in each]
        assert observations.tolist() == expected
        play_batch(envs, 10, 1)


def test_a_seed_of_none_continues_the_random_stream() -> None:
    envs, others = Game2048VectorEnv(3), singles(3)
    for seed in (8, [None, 5, None], None, [1, None, None]):
        assert_same(envs.reset(seed=seed), others.reset(seed=seed))
        assert_same(play_batch(envs, 30, 1), play_batch(others, 30, 1))


def test_games_without_a_seed_differ() -> None:
    starts = Game2048VectorEnv(50).reset()[0]
    others = Game2048VectorEnv(50).reset()[0]
    assert len({str(board.tolist()) for board in (*starts, *others)}) > 60


@pytest.mark.parametrize("kind", ["word", "exponents", "each"])
def test_reset_starts_from_given_boards(kind: str) -> None:
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


def test_games_with_large_tiles_equal_single_environments() -> None:
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
    assert_same(play_batch(envs, 300, 2), play_batch(others, 300, 2))


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


def test_actions_and_masks_may_be_read_only_or_slices() -> None:
    envs, others = started(6, 1), started(6, 1)
    actions, mask = np.arange(12) % 4, np.arange(12) % 4 == 0
    copies = actions[::2].copy(), mask[::2].copy()
    for array in (actions, mask):
        array.flags.writeable = False
    assert_same(envs.step(actions[::2]), others.step(copies[0]))
    expected = others.reset(options={"reset_mask": copies[1]})
    assert_same(envs.reset(options={"reset_mask": mask[::2]}), expected)


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


def test_sample_legal_does_not_change_the_games() -> None:
    envs, twin = started(5), started(5)
    rng = np.random.default_rng(2)
    for _ in range(200):
        for _ in range(rng.integers(3)):
            envs.sample_legal()
        actions = rng.integers(4, size=5)
        assert_same(envs.step(actions), twin.step(actions))
    assert_same(envs.reset(), twin.reset())


def test_sample_legal_is_the_same_for_the_same_seed() -> None:
    def drawn(seed: Any) -> list[list[int]]:
        envs = started(20, seed)
        actions = []
        for _ in range(50):
            actions.append(envs.sample_legal())
            envs.step(actions[-1])
        return [each.tolist() for each in actions]

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)
    assert drawn(range(20)) == drawn(list(range(20)))
    envs = started(20, 3)
    play_batch(envs, 5, 1)
    envs.sample_legal()
    envs.reset(seed=3)
    assert envs.sample_legal().tolist() == drawn(3)[0]


def test_raise_plays_no_game_if_one_action_is_illegal() -> None:
    boards = np.array([[[1, 1], [2, 3]], [[1, 2], [2, 0]], [[3, 3], [1, 1]]])
    envs = Game2048VectorEnv(3, (2, 2), illegal="raise")
    envs.reset(seed=1, options={"board": boards})
    unchanged_batch(envs, lambda: envs.step(np.array([3, 0, 3]))).match("game 1")
    assert boards_of(envs) == boards.tolist()
    assert envs.step(np.array([3, 2, 3]))[4]["legal"].all()


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_raise_accepts_any_action_of_a_game_that_restarts(mode: AutoresetMode) -> None:
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


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_recorded_statistics_are_scores_and_lengths(mode: AutoresetMode) -> None:
    envs = RecordEpisodeStatistics(
        gym.make_vec("Game2048-v0", num_envs=4, size=(2, 3), autoreset_mode=mode)
    )
    envs.reset(seed=1)
    n_episodes = 0
    score: npt.NDArray[Any] = np.zeros(4)
    for step in play_batch(envs, 300, 2):
        *_, infos = step
        over = step[2]
        if over.any():
            finals = infos["final_info"] if mode is SAME_STEP else infos
            score = finals["score"]
            assert infos["_episode"].tolist() == over.tolist()
            assert (infos["episode"]["r"] == score)[over].all()
            n_episodes += int(over.sum())
    assert n_episodes == envs.episode_count > 10


def test_render_returns_a_text_per_game() -> None:
    envs = started(3, size=(2, 3), render_mode="ansi")
    *_, infos = envs.step(np.array([0, 1, 2]))
    texts = envs.render()
    boards, scores = boards_of(envs), infos["score"].tolist()
    assert texts == tuple(render.ansi(b, s) for b, s in zip(boards, scores, strict=True))
    with pytest.warns(UserWarning, match=r"render\(\) needs render_mode='ansi' or 'rgb_array'"):
        assert started(2).render() is None


def test_render_returns_a_picture_per_game() -> None:
    pytest.importorskip("PIL")
    envs = started(2, size=(2, 3), render_mode="rgb_array")
    pictures = envs.render()
    assert pictures is not None and len(pictures) == 2
    for picture, board in zip(pictures, boards_of(envs), strict=True):
        assert_same(picture, render.rgb_array(board, 0))
