"""Train stable-baselines3 and sb3-contrib on 2048.

    python examples/sb3_2048.py --algorithm maskable-ppo
    python examples/sb3_2048.py --algorithm maskable-ppo --resume
    tensorboard --logdir runs

PPO, MaskablePPO, DQN and QR-DQN with a small convolutional network on one-hot planes and
log-scaled rewards. Hyperparameters are in `sb3.yml`; `sb3_training.py` describes a run's folder.
Evaluations are games of the package's player, which takes the best legal move.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from sb3_training import RunArgs, read_settings, train

# isort: split
import numpy as np
import tyro
from quickstart import animate
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecMonitor

from afterstate import agents
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.planes import N_PLANES
from afterstate.agents.game2048.values.policy_net import PolicyNetAgent
from afterstate.agents.training.evaluation import EVALUATION_SEED, summary
from afterstate.envs import Game2048VecEnv

ENV = "Game2048-v0"


@dataclass
class Args(RunArgs):
    """Train stable-baselines3 on 2048."""

    algorithm: Literal["ppo", "maskable-ppo", "dqn", "qrdqn"] = "maskable-ppo"
    """Learning algorithm."""


class Reward(VecEnvWrapper):
    """Learn from `scale * log2(1 + score)` ("log") or `scale * score`; monitors see the score.

    Returns far above 1 let the value loss outweigh the policy's in a shared network, and PPO stops
    exploring.
    """

    def __init__(self, envs: VecEnv, kind: str, scale: float) -> None:
        if kind not in ("score", "log"):
            raise ValueError(f"reward must be 'score' or 'log', got {kind!r}")
        if not scale > 0:
            raise ValueError(f"reward_scale must be > 0, got {scale!r}")
        super().__init__(envs)
        self.kind, self.scale = kind, scale

    def reset(self) -> Any:
        """Start all games."""
        return self.venv.reset()

    def step_wait(self) -> Any:
        """Play the actions."""
        observations, rewards, dones, infos = self.venv.step_wait()
        learned = np.log2(1 + rewards) if self.kind == "log" else rewards
        return observations, self.scale * learned, dones, infos


def make_envs(n_envs: int, seed: int, settings: dict[str, Any], **more: Any) -> VecEnv:
    """Return games that are played in parallel."""
    kwargs = {**settings.get("env_kwargs", {}), **more}
    envs = VecMonitor(Game2048VecEnv(n_envs, observation="onehot", **kwargs))
    envs.seed(seed)
    return Reward(envs, settings["reward"], settings["reward_scale"])


def evaluate(actor: Any, is_last: bool, n_games: int = 50, n_last: int = 200) -> dict[str, Any]:
    """Return the mean score, its 95% interval and more, of the same games in each evaluation."""
    n = n_last if is_last else n_games
    result = summary(play(PolicyNetAgent(actor), n, seed=EVALUATION_SEED))
    return {"games": result.pop("n_games"), **result}


def main(args: Args) -> None:
    """Train, then write an animation of one game."""
    settings = read_settings(args, args.algorithm, ENV)
    folder = args.out / f"{'smoke-' * args.smoke}{args.algorithm}"
    sizes = {"channels": settings["channels"], "hidden": settings["hidden"]}
    n_games, n_last = (5, 10) if args.smoke else (50, 200)
    train(
        args,
        folder,
        {"env": ENV, "algorithm": args.algorithm, "seed": args.seed, **settings},
        envs=make_envs(settings["n_envs"], args.seed, settings),
        # Illegal moves end these games, in which a policy might get stuck otherwise.
        eval_envs=make_envs(5, args.seed + 1, settings, illegal="terminate"),
        make_actor=partial(policy_net.network, "ActorCNN", **sizes),
        n_planes=N_PLANES,
        evaluate=partial(evaluate, n_games=n_games, n_last=n_last),
    )
    animate(agents.load(folder / "actor.safetensors"), args.seed, folder / "game.gif")


if __name__ == "__main__":
    try:
        main(tyro.cli(Args))
    except (OSError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error
