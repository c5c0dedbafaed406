"""`Game2048VecEnv` equals `DummyVecEnv`, and the algorithms of stable-baselines3 learn on it."""

# ruff: noqa: E402 - the imports below need the packages that the first lines check

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
sb3_contrib = pytest.importorskip("sb3_contrib")

from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_masked
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecMonitor,
)

from afterstate import agents
from afterstate.agents.training.sb3 import BoardFeatures
from afterstate.envs.game2048 import render
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.sb3_vec_env import Game2048VecEnv
from tests.support.env_checks import (
    assert_same,
    by_duplicate,
    by_observation,
    play_batch,
    single,
)

SETTINGS: list[dict[str, Any]] = [
    {},
    {"size": (1, 2)},
    {"size": (2, 3), "illegal": "terminate"},
    {"size": (2, 3), "max_episode_steps": 17},
    {"size": (2, 3), "observation": "onehot", "max_episode_steps": 1},
]
TUPLES = [[0, 1], [2, 3]]

by_settings = pytest.mark.parametrize("settings", SETTINGS, ids=str)
pytestmark = pytest.mark.usefixtures("one_thread")


def dummy(n: int, **settings: Any) -> DummyVecEnv:
    return DummyVecEnv([partial(single, **settings)] * n)


@by_settings
def test_games_are_those_of_dummy_vec_env(settings: dict[str, Any]) -> None:
    """Compare observations, rewards, dones, infos, masks and the infos of resets."""
    env, other = Game2048VecEnv(5, **settings), dummy(5, **settings)
    assert env.observation_space == other.observation_space
    assert env.action_space == other.action_space
    assert env.seed(3) == other.seed(3)
    rng = np.random.default_rng(1)
    n_ends = 0
    for _ in range(2):
        assert_same(env.reset(), other.reset())
        assert_same(env.reset_infos, other.reset_infos)
        for _ in range(200):
            actions = rng.integers(4, size=5)
            step = env.step(actions)
            assert_same(step, other.step(actions))
            assert_same(env.reset_infos, other.reset_infos)
            assert_same(get_action_masks(env), get_action_masks(other))
            n_ends += int(step[2].sum())
    assert n_ends > 0


def test_options_give_each_game_its_board() -> None:
    boards = np.random.default_rng(3).integers(0, 5, (3, 2, 3))
    env, other = Game2048VecEnv(3, size=(2, 3)), dummy(3, size=(2, 3))
    for each in (env, other):
        each.seed(5)
        each.set_options([{"board": board} for board in boards])
    assert_same(env.reset(), other.reset())
    assert_same(env.reset_infos, other.reset_infos)
    assert_same(env.reset(), other.reset())  # options and seeds are used once
    for each in (env, other):
        each.set_options({"board": boards[0]})
    assert_same(env.reset(), other.reset())
    env.set_options([{"board": boards[0]}, {}, {}])
    with pytest.raises(ValueError, match="options"):
        env.reset()


@by_settings
def test_methods_and_attributes_of_each_game_equal_dummy_vec_env(settings: dict[str, Any]) -> None:
    env, other = Game2048VecEnv(4, **settings), dummy(4, **settings)
    for each in (env, other):
        each.seed(2)
        each.reset()
        play_batch(each, 5, 1)
    for indices in (None, 2, [0, 3]):
        for method in ("action_masks", "afterstates"):
            result, expected = (e.env_method(method, indices=indices) for e in (env, other))
            assert_same([tuple(row) for row in result], [tuple(row) for row in expected])
        assert env.env_is_wrapped(Monitor, indices) == other.env_is_wrapped(Monitor, indices)
        for name in (
            *("size", "illegal", "observation", "start_tiles", "render_mode"),
            *("observation_space", "action_space"),
        ):
            assert env.get_attr(name, indices) == other.get_attr(name, indices)


def test_attributes_cannot_be_set() -> None:
    env = Game2048VecEnv(2)
    with pytest.raises(AttributeError, match="illegal"):
        env.set_attr("illegal", "raise")
    assert env.has_attr("action_masks") and not env.has_attr("nothing_of_the_kind")
    assert is_masking_supported(env)


@pytest.mark.parametrize("name", ["reset", "step", "get_state", "close"])
def test_methods_of_all_games_are_refused(name: str) -> None:
    env = Game2048VecEnv(2)
    env.reset()
    before = env.env.boards.tolist()
    with pytest.raises(AttributeError, match=f"method_name must be one of .*, got '{name}'"):
        env.env_method(name, indices=[0])
    assert env.env.boards.tolist() == before


def test_monitor_reports_scores_and_lengths() -> None:
    env = VecMonitor(Game2048VecEnv(4, size=(2, 3)))
    env.seed(1)
    env.reset()
    lengths = np.zeros(4, int)
    n_ends = 0
    for _, _, dones, infos in play_batch(env, 200, 1):
        lengths += 1
        for i in np.flatnonzero(dones):
            assert infos[i]["episode"]["r"] == infos[i]["score"]
            assert infos[i]["episode"]["l"] == lengths[i]
            lengths[i] = 0
            n_ends += 1
    assert n_ends > 10


def test_get_images_returns_a_picture_per_game() -> None:
    pytest.importorskip("PIL")
    env = Game2048VecEnv(2, render_mode="rgb_array")
    observations: Any = env.reset()
    images = env.get_images()
    for image, board in zip(images, observations, strict=True):
        assert_same(image, render.rgb_array(board, 0))
    picture = env.render()
    assert isinstance(picture, np.ndarray) and picture.ndim == 3
    env.close()


@by_duplicate
def test_a_copy_plays_the_same_games(duplicate: Any) -> None:
    env = Game2048VecEnv(3)
    env.seed(1)
    env.reset()
    twin = duplicate(env)
    assert_same(play_batch(env, 200, 1), play_batch(twin, 200, 1))


@pytest.mark.slow
def test_masks_in_several_processes_equal_those_in_one() -> None:
    settings: dict[str, Any] = {"size": (2, 3), "max_episode_steps": 9}
    makers: Any = [partial(gym.make, "afterstate.envs:Game2048-v0", **settings)] * 2
    one: Any = DummyVecEnv(makers)
    many: Any = SubprocVecEnv(makers, start_method="spawn")
    try:
        for env in (one, many):
            env.seed(4)
        assert_same(one.reset(), many.reset())
        for actions in np.random.default_rng(1).integers(4, size=(40, 2)):
            masks = get_action_masks(many)
            assert masks.dtype == np.bool_ and masks.shape == (2, 4)
            assert_same(masks, get_action_masks(one))
            observations, rewards, dones, infos = many.step(actions)
            expected = one.step(actions)
            assert_same(observations, expected[0])
            assert rewards.tolist() == expected[1].tolist()
            assert dones.tolist() == expected[2].tolist()
            assert_same(list(infos), list(expected[3]))
    finally:
        many.close()


@by_observation
def test_maskable_ppo_learns_and_plays_legal_actions_only(observation: str) -> None:
    """An illegal action would raise."""
    env = VecMonitor(Game2048VecEnv(8, size=(2, 3), observation=observation, illegal="raise"))
    model = MaskablePPO(
        "MlpPolicy", env, n_steps=32, batch_size=64, n_epochs=1, seed=1, device="cpu"
    )
    model.learn(512)
    assert model.num_timesteps == 512
    mean, _ = evaluate_masked(model, env, n_eval_episodes=8)
    assert float(np.mean(mean)) > 0


def test_maskable_ppo_learns_on_a_single_environment() -> None:
    env = gym.make("Game2048-v0", illegal="raise")
    model = MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1, device="cpu")
    model.learn(128)
    observation, _ = env.reset(seed=1)
    for _ in range(20):
        action, _ = model.predict(observation, action_masks=get_action_masks(env))
        observation, *_ = env.step(int(action))


@pytest.mark.parametrize("size", [(4, 4), (3, 4)])
def test_dqn_learns_with_convolutions(size: tuple[int, int]) -> None:
    model = DQN(
        "CnnPolicy",
        Game2048VecEnv(4, observation="onehot", size=size),
        policy_kwargs={
            "features_extractor_class": BoardFeatures,
            "features_extractor_kwargs": {"channels": 8},
            "normalize_images": False,
        },
        buffer_size=500,
        learning_starts=32,
        batch_size=16,
        device="cpu",
    )
    model.learn(160)
    assert model.num_timesteps == 160


@pytest.mark.parametrize("shape", [(18, 2, 4), (288,)])
def test_convolutions_need_planes_of_a_board(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="space must be of planes of 3x3 cells or more, got"):
        BoardFeatures(gym.spaces.Box(0, 1, shape))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("random", {"seed": 0, "size": (2, 2)}),
        ("reward", {"seed": 0, "size": (2, 2)}),
        ("expectimax", {"tuples": TUPLES, "depth": 2}),
    ],
)
@by_observation
def test_evaluate_policy_accepts_players(
    name: str, settings: dict[str, Any], observation: str
) -> None:
    size = settings.get("size", (4, 4))
    env = Monitor(gym.make("Game2048-v0", size=size, observation=observation, illegal="raise"))
    env.reset(seed=1)
    scores, lengths = evaluate_policy(
        agents.make(name, **settings), env, n_eval_episodes=3, return_episode_rewards=True
    )
    assert isinstance(scores, list) and isinstance(lengths, list)
    assert len(scores) == len(lengths) == 3
    assert min(lengths) >= 1


def test_evaluate_policy_returns_the_scores_of_a_plain_loop() -> None:
    agent = agents.make("ntuple", tuples=TUPLES)
    for observation in ("exponents", "onehot"):
        env = Monitor(Game2048Env(observation=observation))
        env.reset(seed=7)
        scores, lengths = evaluate_policy(
            agent, env, n_eval_episodes=2, return_episode_rewards=True
        )
        expected = Game2048Env()
        expected.reset(seed=7)
        for score, length in zip(scores, lengths, strict=True):  # type: ignore[arg-type]
            expected.reset()
            steps, info = 0, {"score": 0}
            while expected.action_masks().any():
                *_, info = expected.step(int(agent.act(expected.board)))
                steps += 1
            assert (score, length) == (info["score"], steps)


@pytest.mark.parametrize("name", ["random", "ntuple"])
@by_observation
def test_evaluate_policy_accepts_players_on_the_vec_env(name: str, observation: str) -> None:
    settings: dict[str, Any] = {"seed": 0} if name == "random" else {"tuples": TUPLES}
    env = VecMonitor(Game2048VecEnv(4, observation=observation, illegal="raise"))
    env.seed(2)
    mean, deviation = evaluate_policy(agents.make(name, **settings), env, n_eval_episodes=8)
    assert 400 < float(np.mean(mean)) < 8_000
    assert float(np.mean(deviation)) > 0


def test_the_autoreset_mode_cannot_be_set() -> None:
    with pytest.raises(TypeError, match="autoreset_mode"):
        Game2048VecEnv(3, autoreset_mode="NextStep")


def test_arrays_are_split_by_game_and_other_attributes_are_shared() -> None:
    envs = Game2048VecEnv(num_envs=3)
    envs.seed(1)
    envs.reset()
    words = envs.env.boards
    assert envs.get_attr("boards", indices=[1]) == [words[1]]
    assert envs.get_attr("size") == [(4, 4)] * 3
    with pytest.warns(UserWarning, match=r"render\(\) needs"):
        assert envs.env_method("render") == [None] * 3


def test_wrong_options_are_used_once() -> None:
    envs = Game2048VecEnv(num_envs=2)
    envs.set_options({"boards": 5})
    with pytest.raises(ValueError, match="options"):
        envs.reset()
    envs.reset()
    envs.set_options([{"board": 0x11}, {"board": np.ones((4, 4), np.int64)}])
    with pytest.raises(ValueError, match="board must be a word or exponents"):
        envs.reset()
    envs.set_options([{"board": np.array(0x11)}, {"board": 0x21}])
    envs.reset()
