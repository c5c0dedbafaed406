"""Train stable-baselines3 and sb3-contrib on 2048, and see what they have learned.

    python examples/sb3_2048.py maskable-ppo
    python examples/sb3_2048.py qrdqn --steps 1e6
    tensorboard --logdir runs/sb3

PPO, MaskablePPO, DQN and QR-DQN with a small convolutional network on one-hot planes, and with
log-scaled rewards. Settings are in `sb3.yml`; `sb3_runs.py` tells what a run writes. Whatever the
algorithm, what it has learned is evaluated as a player that takes the best legal move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

# First, for it tells what is to be installed.
from sb3_runs import ALGORITHMS, Game, Run, one_line, parser, settings

# isort: split
import numpy as np
from quickstart import animate
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from afterstate.agents.game2048.play import Player, play
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.planes import N_PLANES
from afterstate.agents.game2048.values.policy_net import PolicyNetAgent
from afterstate.agents.training.run import EVALUATION_SEED, summary
from afterstate.envs import Game2048VecEnv

ENV = "Game2048-v0"
NEEDED = ("channels", "reward", "reward_scale")
"""Settings of this environment alone."""


class Reward(VecEnvWrapper):
    """What is learned from: the score of a move or its logarithm, scaled.

    Args:
        envs: games, whose monitors see the score.
        kind: `"score"`, or `"log"` for the logarithm of base 2 of 1 + score.
        scale: what it is multiplied by. Returns far above 1 make the error of the values outweigh
            all else in networks that policy and values share, and PPO gives up exploring at once.

    Raises:
        ValueError: there is no such kind, or the scale is not above 0.
    """

    def __init__(self, envs: VecEnv, kind: str, scale: float) -> None:
        if kind not in ("score", "log"):
            raise ValueError(f"reward is score or log, got {kind!r}")
        if not 0 < scale < math.inf:
            raise ValueError(f"reward_scale is above 0, got {scale!r}")
        super().__init__(envs)
        self.kind, self.scale = kind, scale

    def reset(self) -> Any:
        """Starts all games."""
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Plays the actions."""
        observations, rewards, dones, infos = self.venv.step_wait()
        told = np.log2(1 + rewards) if self.kind == "log" else rewards
        return observations, self.scale * told, dones, infos


def games(n_envs: int, seed: int, told: dict[str, Any]) -> VecEnv:
    """Games side by side.

    Raises:
        ValueError: a wrong setting.
    """
    envs = VecMonitor(Game2048VecEnv(n_envs, observation="onehot", **told.get("env_kwargs", {})))
    envs.seed(seed)
    return Reward(envs, told["reward"], told["reward_scale"])


def evaluate(player: Player, n_games: int) -> dict[str, Any]:
    """What a player reaches in games that are the same in every evaluation."""
    found = summary(play(player, n_games, seed=EVALUATION_SEED))
    return {"games": found.pop("n_games"), **found}


def game(told: dict[str, Any], seed: int, n_games: tuple[int, int] = (50, 200)) -> Game:
    """What a run is to know."""

    def film(player: Any, path: Path) -> None:
        animate(player, seed, path)

    sizes = {"channels": told["channels"], "hidden": told["hidden"]}
    actor = partial(policy_net.network, "ActorCNN", **sizes)
    return Game(ENV, "points", actor, N_PLANES, PolicyNetAgent, evaluate, film, n_games)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the example."""
    of = parser("Train stable-baselines3 on 2048.", "runs/sb3")
    of.add_argument("algorithm", choices=list(ALGORITHMS))
    chosen = of.parse_args(arguments)
    name, seed = chosen.algorithm, chosen.seed
    told = settings(name, ENV, chosen.settings, NEEDED)
    with one_line(f"{chosen.settings}: {name} on {ENV}"):
        envs = games(told["n_envs"], seed, told)
    what = game(told, seed, (5, 10)) if chosen.smoke else game(told, seed)
    run = Run(name, what, name, told, chosen)
    run.go(envs, partial(games, 10, seed + 1, told))
    print(f"written: {run.folder}")


if __name__ == "__main__":
    main()
