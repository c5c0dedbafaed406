"""Train stable-baselines3 and sb3-contrib on 2048, and see what they have learned.

    python examples/sb3_2048.py maskable-ppo
    python examples/sb3_2048.py qrdqn --steps 1e6
    tensorboard --logdir runs/sb3

PPO, MaskablePPO, DQN and QR-DQN with a small convolutional network on one-hot planes, and with
log-scaled rewards. Settings are in `sb3.yml`; `sb3_runs.py` tells what a run writes. At the end the
network plays greedily among the legal moves, and one game of it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from quickstart import animate
from sb3_runs import ALGORITHMS, Run, parser, settings
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from afterstate.agents.game2048 import policy_net
from afterstate.agents.game2048.encoding import N_PLANES
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.policy_net import PolicyNetAgent
from afterstate.agents.game2048.runs import summary
from afterstate.envs import Game2048VecEnv

ENV = "Game2048-v0"


class LogReward(VecEnvWrapper):
    """Rewards as the logarithm of base 2 of 1 + score; monitors below it see the score."""

    def reset(self) -> Any:
        """Starts all games."""
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Plays the actions."""
        observations, rewards, dones, infos = self.venv.step_wait()
        return observations, np.log2(1 + rewards), dones, infos


def games(n_envs: int, seed: int, told: dict[str, Any]) -> VecEnv:
    """Games side by side."""
    envs = VecMonitor(Game2048VecEnv(n_envs, observation="onehot", **told.get("env_kwargs", {})))
    envs.seed(seed)
    return LogReward(envs) if told.get("reward") == "log" else envs


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the example."""
    of = parser("Train stable-baselines3 on 2048.")
    of.add_argument("algorithm", choices=list(ALGORITHMS))
    of.add_argument("--out", type=Path, default=Path("runs/sb3"), help="folder (%(default)s)")
    chosen = of.parse_args(arguments)
    told = settings(chosen.algorithm, ENV, chosen.settings)
    sizes = {"channels": told["channels"], "hidden": told["hidden"]}
    actor = partial(policy_net.network, "ActorCNN", **sizes)
    run = Run(chosen.algorithm, told, actor, N_PLANES, chosen)
    model = run.model(games(told["n_envs"], chosen.seed, told))
    callbacks = run.callbacks(games(10, chosen.seed + 1, told), 5 if chosen.smoke else 50)
    player = PolicyNetAgent(run.learn(model, callbacks))
    found = summary(play(player, 10 if chosen.smoke else 200, seed=chosen.seed))
    print(f"{found['mean']:,.0f} ± {found['interval']:,.0f} points in {found['n_games']} games")
    animate(player, chosen.seed, run.folder / "game.gif")
    print(f"written: {run.folder}")


if __name__ == "__main__":
    main()
