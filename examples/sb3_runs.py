"""What the stable-baselines3 examples share: settings, networks, and a run that can be resumed.

A run has a folder with `tensorboard/`, `checkpoints/`, of which `--resume` takes the last one,
`evaluations.npz` and `best_model.zip`, and at the end `actor.safetensors`, the player: a network of
the package alone, without pickled code, that `afterstate.agents.load` reads.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

import torch
import yaml
from sb3_contrib import QRDQN, MaskablePPO
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn
from tqdm import tqdm

from afterstate.agents import files, nets

SETTINGS = Path(__file__).with_name("sb3.yml")
ALGORITHMS: dict[str, type[BaseAlgorithm]] = {
    "ppo": PPO,
    "maskable-ppo": MaskablePPO,
    "dqn": DQN,
    "qrdqn": QRDQN,
}
OURS = ("n_timesteps", "n_envs", "env_kwargs", "reward", "channels", "hidden")
"""Settings that are not the algorithm's."""


def settings(algorithm: str, env: str, file: Path = SETTINGS) -> dict[str, Any]:
    """The settings of an algorithm on an environment."""
    told: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    if env not in told.get(algorithm, {}):
        raise SystemExit(f"{file} has no settings of {algorithm} on {env}")
    return dict(told[algorithm][env])


def linear(told: Any) -> Any:
    """A number, or for `lin_x` a schedule that falls evenly from x to 0."""
    if isinstance(told, str) and told.startswith("lin_"):
        start = float(told.removeprefix("lin_"))
        return lambda left: left * start
    return told


class Features(BaseFeaturesExtractor):
    """All but the last layer of an actor, which sees the first of an observation's planes.

    Args:
        space: of observations.
        actor: makes the actor.
        n_planes: how many planes it sees.
    """

    def __init__(self, space: Any, actor: Callable[[], nn.Module], n_planes: int) -> None:
        made: Any = actor()
        super().__init__(space, made.head.in_features)
        self.body, self.n_planes = made.body, n_planes

    def forward(self, observations: Tensor) -> Tensor:
        """The features `[n, hidden]` of observations."""
        features: Tensor = self.body(observations[:, : self.n_planes].float())
        return features


def copy_actor(model: BaseAlgorithm, actor: Any) -> Any:
    """Copies what an algorithm has learned to an actor, which it returns.

    The logits of DQN are values of actions, those of QR-DQN the means of their quantiles.
    """
    policy: Any = model.policy
    if isinstance(model, QRDQN):
        net, last = policy.quantile_net, policy.quantile_net.quantile_net[-1]
    elif isinstance(model, DQN):
        net, last = policy.q_net, policy.q_net.q_net[-1]
    else:
        net, last = policy, policy.action_net
    actor.body.load_state_dict(net.features_extractor.body.state_dict())
    n_actions = len(actor.head.bias)
    with torch.no_grad():
        actor.head.weight.copy_(last.weight.view(-1, n_actions, last.in_features).mean(0))
        actor.head.bias.copy_(last.bias.view(-1, n_actions).mean(0))
    return actor


# A run


class Progress(BaseCallback):
    """A progress bar."""

    def _on_training_start(self) -> None:
        total = int(self.locals["total_timesteps"])
        self.bar = tqdm(total=total, initial=self.num_timesteps, unit=" moves", unit_scale=True)

    def _on_step(self) -> bool:
        self.bar.update(self.num_timesteps - self.bar.n)
        return True

    def _on_training_end(self) -> None:
        self.bar.close()


class Run:
    """A run of an algorithm, in a folder.

    Args:
        algorithm: one of `ALGORITHMS`.
        told: its settings, as `settings` reads them.
        actor: makes the network that the policy and the player have.
        n_planes: how many planes of an observation it sees.
        chosen: the command line.
    """

    def __init__(
        self,
        algorithm: str,
        told: dict[str, Any],
        actor: Callable[[], nn.Module],
        n_planes: int,
        chosen: argparse.Namespace,
    ) -> None:
        torch.set_num_threads(chosen.threads)
        self.algorithm, self.told, self.actor, self.n_planes = algorithm, told, actor, n_planes
        self.folder: Path = chosen.out / algorithm
        self.n_steps = int(chosen.steps or told["n_timesteps"])
        self.seed, self.resume, self.every = chosen.seed, chosen.resume, chosen.evaluate_every
        if chosen.smoke:
            self.n_steps, self.every = told["n_envs"] * told.get("n_steps", 64), 1_000

    @property
    def masks(self) -> bool:
        """Whether the algorithm knows which actions are legal."""
        return ALGORITHMS[self.algorithm] is MaskablePPO

    def model(self, envs: VecEnv) -> BaseAlgorithm:
        """The algorithm, new or as it was at the last checkpoint."""
        log = str(self.folder / "tensorboard")
        last = self.checkpoint()
        if last is not None:
            print(f"goes on from {last}")
            return ALGORITHMS[self.algorithm].load(last, envs, tensorboard_log=log)
        features = {"actor": self.actor, "n_planes": self.n_planes}
        policy = {
            "net_arch": [],
            "features_extractor_class": Features,
            "features_extractor_kwargs": features,
            **self.told.get("policy_kwargs", {}),
        }
        rest = {k: linear(v) for k, v in self.told.items() if k not in (*OURS, "policy_kwargs")}
        made: Any = ALGORITHMS[self.algorithm]
        model: BaseAlgorithm = made(
            "MlpPolicy", envs, policy_kwargs=policy, seed=self.seed, tensorboard_log=log, **rest
        )
        return model

    def checkpoint(self) -> Path | None:
        """The last checkpoint, None if the run begins anew.

        Raises:
            SystemExit: there are checkpoints, and `--resume` was not said, or the other way round.
        """
        found = sorted(self.folder.glob("checkpoints/*.zip"), key=_steps)
        if bool(found) != self.resume:
            has = "has checkpoints: --resume goes on with them" if found else "has no checkpoint"
            raise SystemExit(f"{self.folder} {has}")
        return found[-1] if found else None

    def callbacks(self, evaluation: VecEnv, n_games: int) -> list[BaseCallback]:
        """Checkpoints and evaluations, ten times as many of these."""
        evaluate = MaskableEvalCallback if self.masks else EvalCallback
        often = max(1, self.every // self.told["n_envs"])
        return [
            CheckpointCallback(10 * often, str(self.folder / "checkpoints"), "model"),
            evaluate(
                evaluation,
                n_eval_episodes=n_games,
                eval_freq=often,
                log_path=str(self.folder),
                best_model_save_path=str(self.folder),
                deterministic=self.masks,  # others would try an illegal action for ever
                verbose=0,
            ),
        ]

    def learn(self, model: BaseAlgorithm, callbacks: list[BaseCallback]) -> Any:
        """Learns, and writes the actor; what is interrupted leaves a checkpoint."""
        left = self.n_steps - model.num_timesteps
        try:
            if left > 0:
                again = model.num_timesteps == 0
                model.learn(left, [*callbacks, Progress()], reset_num_timesteps=again)
        except KeyboardInterrupt:
            self.save(model)
            raise SystemExit(f"interrupted; --resume goes on in {self.folder}") from None
        self.save(model)
        actor = copy_actor(model, self.actor())
        facts = {"algorithm": self.algorithm, "moves": model.num_timesteps}
        nets.save(actor, self.folder / "actor.safetensors", 16, **facts)
        return actor.eval()

    def save(self, model: BaseAlgorithm) -> None:
        """Writes a checkpoint."""
        path = self.folder / "checkpoints" / f"model_{model.num_timesteps}_steps.zip"
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replaced(path) as file:
            model.save(cast(BufferedIOBase, file))


def _steps(path: Path) -> int:
    """After how many steps a checkpoint was written."""
    found = re.search(r"_(\d+)_steps$", path.stem)
    return int(found[1]) if found else -1


def parser(about: str) -> argparse.ArgumentParser:
    """The command line of a run."""
    made = argparse.ArgumentParser(description=about)
    made.add_argument("--settings", type=Path, default=SETTINGS, help="(%(default)s)")
    made.add_argument("--steps", type=float, help="instead of those of the settings")
    made.add_argument("--evaluate-every", type=int, default=100_000, help="steps (%(default)s)")
    made.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    made.add_argument("--threads", type=int, default=1, help="of torch (%(default)s)")
    made.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    made.add_argument("--smoke", action="store_true", help="only some seconds")
    return made
