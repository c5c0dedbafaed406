"""The calls of scripts of other projects work on `afterstate:Game2048Flat-v0` by its id alone."""

# ruff: noqa: E402 - the imports below need the packages that the first lines check

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
sb3_contrib = pytest.importorskip("sb3_contrib")

from gymnasium.wrappers import RecordEpisodeStatistics
from sb3_contrib import QRDQN, MaskablePPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from torch import nn

ID = "afterstate:Game2048Flat-v0"
ALGORITHMS = [A2C, DQN, MaskablePPO, PPO, QRDQN]
pytestmark = pytest.mark.usefixtures("one_thread")


def vector(n: int) -> gym.vector.SyncVectorEnv:
    """Return games as CleanRL makes them, which restart in the step that ends them."""
    games = [lambda: RecordEpisodeStatistics(gym.make(ID))] * n
    return gym.vector.SyncVectorEnv(games, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)


def dense(envs: gym.vector.VectorEnv[Any, Any, Any], n_outputs: int) -> nn.Sequential:
    """Return a network of dense layers for the observations, as CleanRL sizes it."""
    n_inputs = int(np.array(envs.single_observation_space.shape).prod())
    return nn.Sequential(nn.Linear(n_inputs, 64), nn.Tanh(), nn.Linear(64, n_outputs))


def test_a_policy_gradient_step_as_in_cleanrl() -> None:
    """The rollout, the estimate of advantages and the step of CleanRL's `ppo.py`."""
    envs, n_steps = vector(4), 32
    assert isinstance(envs.single_action_space, gym.spaces.Discrete)
    actor, critic = dense(envs, int(envs.single_action_space.n)), dense(envs, 1)
    observations = torch.zeros((n_steps, 4, *(envs.single_observation_space.shape or ())))
    actions, rewards, dones = (torch.zeros((n_steps, 4)) for _ in range(3))
    following, _ = envs.reset(seed=1)
    for t in range(n_steps):
        observations[t] = torch.Tensor(following)
        with torch.no_grad():
            chosen = torch.distributions.Categorical(logits=actor(observations[t])).sample()
        following, reward, ends, cuts, _ = envs.step(chosen.numpy())
        actions[t], rewards[t] = chosen, torch.tensor(reward)
        dones[t] = torch.Tensor(np.logical_or(ends, cuts))
    values = critic(observations).squeeze(-1)
    logits = torch.distributions.Categorical(logits=actor(observations)).log_prob(actions)
    loss = ((rewards - values) ** 2).mean() - (logits * (rewards - values.detach())).mean()
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in actor.parameters())


def test_a_replay_buffer_as_in_cleanrl() -> None:
    """The loop of CleanRL's `dqn.py` over its replay buffer, which takes the env's spaces."""
    envs = vector(1)
    net = dense(envs, 4)
    spaces = envs.single_observation_space, envs.single_action_space
    buffer = ReplayBuffer(500, *spaces, "cpu", handle_timeout_termination=False)
    observations, infos = envs.reset(seed=1)
    n_ended = 0
    for _ in range(300):
        legal = infos["action_mask"]
        actions = np.where(legal, net(torch.Tensor(observations)).detach(), -np.inf).argmax(axis=1)
        following, rewards, ends, _, infos = envs.step(actions)
        last = following.copy()
        for i in np.flatnonzero(ends):
            last[i] = infos["final_obs"][i]
        n_ended += int(ends.sum())
        # Each step merges tiles or adds one: the boards differ, and none is the start of a game.
        assert (last != observations).any(axis=1).all() and legal.any(axis=1).all()
        buffer.add(observations, last, actions, rewards, ends, [infos])
        observations = following
    assert n_ended > 0
    data = buffer.sample(32)
    assert data.observations.dtype == torch.float32
    assert net(data.observations).gather(1, data.actions).shape == (32, 1)


def test_the_checker_of_stable_baselines3_has_nothing_to_say() -> None:
    check_env(gym.make(ID).unwrapped)  # warnings are errors


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda kind: kind.__name__)
def test_games_of_a_deterministic_policy_end_within_seconds(algorithm: Any) -> None:
    """An untrained policy repeats an illegal action sooner or later."""
    model = algorithm("MlpPolicy", gym.make(ID), seed=1)
    start = time.process_time()
    env = Monitor(gym.make(ID))
    evaluate_policy(model, env, n_eval_episodes=2)
    assert time.process_time() - start < 20
    assert len(env.get_episode_lengths()) == 2
    assert max(env.get_episode_lengths()) < 3_000


@pytest.mark.slow
def test_an_evaluation_callback_ends() -> None:
    callback = EvalCallback(Monitor(gym.make(ID)), n_eval_episodes=1, eval_freq=64, verbose=0)
    PPO("MlpPolicy", ID, n_steps=64, batch_size=64, seed=1).learn(64, callback)
    assert callback.best_mean_reward >= 0
