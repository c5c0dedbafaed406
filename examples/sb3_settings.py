"""Settings and options of the stable-baselines3 examples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import tensorboard  # type: ignore[import-untyped]  # noqa: F401 - checked before training
    import torch
    import yaml
    from sb3_contrib import QRDQN, MaskablePPO
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common.utils import LinearSchedule
except ModuleNotFoundError as error:
    message = f'{error.name} is missing: pip install "afterstate[examples,neural,sb3]"'
    raise ImportError(message) from error

from afterstate.envs import json_files

ALGORITHMS: dict[str, Any] = {
    **{"ppo": PPO, "maskable-ppo": MaskablePPO},
    **{"dqn": DQN, "qrdqn": QRDQN},
}
SETTINGS = Path(__file__).with_name("sb3.yml")


@dataclass
class RunArgs:
    """Options of a training run."""

    settings: Path = SETTINGS
    """YAML file of hyperparameters."""
    out: Path = Path("runs/sb3")
    """Folder that holds the run's folder."""
    steps: int | None = None
    """Environment steps of the run, instead of `n_timesteps` of the settings."""
    evaluate_every: int = 100_000
    """Steps between evaluations."""
    checkpoint_every: int = 200_000
    """Steps between checkpoints."""
    seed: int = 1
    """Random seed."""
    threads: int = 1
    """Threads of torch; more slow such small networks down."""
    resume: bool = False
    """Continue from the latest checkpoint."""
    smoke: bool = False
    """Run for seconds, with two rollouts and a few games."""


def read_settings(args: RunArgs, algorithm: str, env: str) -> dict[str, Any]:
    """Return the settings of an algorithm on an environment; --smoke shortens its rollouts."""
    torch.set_num_threads(args.threads)
    try:
        text = json_files.read_bytes(args.settings)
        settings: dict[str, Any] = yaml.safe_load(text)[algorithm][env]
    except (OSError, LookupError, TypeError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"{args.settings}: no settings of {algorithm} on {env}: {error}") from None
    if args.smoke:  # two rollouts: the learning rate of the second one is not 0 yet
        settings |= {"n_steps": 32} if "ppo" in algorithm else {"learning_starts": 100}
        args.steps = args.steps or 64 * settings["n_envs"]
        args.evaluate_every = args.checkpoint_every = args.steps // 2
    settings["n_timesteps"] = int(args.steps or settings["n_timesteps"])
    return settings


def schedule(value: Any) -> Any:
    """Return a number as it is and `lin_x` as a schedule from x to 0."""
    if not str(value).startswith("lin_"):
        return value
    return LinearSchedule(float(value.removeprefix("lin_")), 0.0, 1.0)
