"""Options, settings, training loop and checkpoints of both stable-baselines3 examples.

Each run has a folder:

- `settings.json`: algorithm, environment, seed and settings, which `--resume` compares
- `checkpoints/`: models and, for DQN and QR-DQN, replay buffers
- `rows.jsonl`: an evaluation a line: moves, seconds, games, mean, interval (95%), end
- `evaluations.npz`, `best_model.zip`, `tensorboard/`: written by stable-baselines3
- `actor.safetensors`: the learned player, which `afterstate.agents.load` reads

stable-baselines3 unpickles checkpoints, which can run any code: resume no checkpoint of somebody
else. The networks in `actor.safetensors`, which the package plays, contain no code.
"""

from __future__ import annotations

import json
import signal
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import tensorboard  # type: ignore[import-untyped]  # noqa: F401 - checked before training
    import torch
    import yaml
    from sb3_contrib import QRDQN, MaskablePPO
    from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common import callbacks
    from stable_baselines3.common.utils import LinearSchedule
except ModuleNotFoundError as error:
    message = f'{error.name} is missing: pip install "afterstate[examples,neural,sb3]"'
    raise ImportError(message) from error

from afterstate.agents import nets
from afterstate.agents.config import Count, Whole, checked
from afterstate.agents.training.folder import FolderLock
from afterstate.agents.training.sb3 import ActorFeatures, actor_from_sb3
from afterstate.envs import durable_files, json_files

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

    def __post_init__(self) -> None:
        for name in ("evaluate_every", "checkpoint_every", "threads"):
            checked(name, getattr(self, name), Count)
        checked("steps", self.steps, Count | None)
        checked("seed", self.seed, Whole)


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


# Training


def train(
    args: RunArgs,
    folder: Path,
    config: dict[str, Any],
    *,
    envs: Any,
    eval_envs: Any,
    make_actor: Callable[[], Any],
    n_planes: int,
    evaluate: Callable[[Any, bool], dict[str, Any]],
    extra: callbacks.BaseCallback | None = None,
) -> Any:
    """Start or resume a run, train to its end, write `actor.safetensors` and return the model.

    Args:
        args: options of the run.
        folder: of the run.
        config: the settings that `settings.json` gets.
        envs: environments to learn in.
        eval_envs: environments of the evaluations by stable-baselines3.
        make_actor: returns a new network of the package's player.
        n_planes: planes of an observation that the network reads.
        evaluate: returns the result of a network; its second argument is True for the last one.
        extra: one more callback.
    """
    with FolderLock(folder):
        model = start(args, folder, config, envs, make_actor=make_actor, n_planes=n_planes)
        with nets.seeded(None):  # leaves the run's random numbers as they are
            actor = make_actor()
        evaluation = Evaluation(folder / "rows.jsonl", actor, evaluate)
        every = periodic_callbacks(args, folder, config, eval_envs, evaluation)
        every += [] if extra is None else [extra]
        learn(model, config["n_timesteps"], every, folder)
        actor = actor_from_sb3(model.policy, actor)
        facts = {"algorithm": config["algorithm"], "moves": model.num_timesteps}
        nets.save(actor, folder / "actor.safetensors", 16, **facts)
        json_files.truncate(evaluation.file, "moves", model.num_timesteps - 1)
        evaluation.write(is_last=True)
    print(f"written: {folder}")
    return model


def periodic_callbacks(
    args: RunArgs, folder: Path, config: dict[str, Any], envs: Any, evaluation: Evaluation
) -> list[callbacks.BaseCallback]:
    """Return the callbacks that save and evaluate; they count the steps of one environment."""
    is_masked, n_envs = config["algorithm"] == "maskable-ppo", config["n_envs"]
    save = callbacks.CheckpointCallback(
        *(max(1, args.checkpoint_every // n_envs), str(folder / "checkpoints"), "model"),
        save_replay_buffer=True,
    )
    evaluate = (MaskableEvalCallback if is_masked else callbacks.EvalCallback)(
        envs,
        callback_after_eval=evaluation,
        eval_freq=max(1, args.evaluate_every // n_envs),
        log_path=str(folder),
        best_model_save_path=str(folder),
        verbose=0,
    )
    return [save, evaluate]


def learn(model: Any, n_steps: int, every: list[callbacks.BaseCallback], folder: Path) -> None:
    """Train to a number of steps and save a checkpoint, also on Ctrl-C and SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    left, begins = n_steps - model.num_timesteps, model.num_timesteps == 0
    try:
        model.learn(max(0, left), every, reset_num_timesteps=begins, progress_bar=False)
    except KeyboardInterrupt:
        save_checkpoint(model, folder)
        raise SystemExit(f"interrupted: --resume continues in {folder}") from None
    save_checkpoint(model, folder)


def start(
    args: RunArgs,
    folder: Path,
    config: dict[str, Any],
    envs: Any,
    *,
    make_actor: Callable[[], Any],
    n_planes: int,
) -> Any:
    """Return a new model, or that of the latest checkpoint."""
    kind, log = ALGORITHMS[config["algorithm"]], str(folder / "tensorboard")
    checkpoints = find_checkpoints(folder)
    if checkpoints and not args.resume:
        raise ValueError(f"{folder} has a run: use --resume, or choose another --out")
    if args.resume and not checkpoints:
        raise ValueError(f"{folder} has no checkpoint: there is nothing to resume")
    if checkpoints:
        return resume(kind, checkpoints, folder, config, envs, tensorboard_log=log)
    ours = {"policy", "n_timesteps", "n_envs", "env_kwargs", "hidden", "channels", "policy_kwargs"}
    ours |= {"algorithm", "env", "seed", "reward", "reward_scale", "opponents", "against"}
    features = {"actor": make_actor, "n_planes": n_planes}
    policy = {"features_extractor_class": ActorFeatures, "features_extractor_kwargs": features}
    policy |= {"net_arch": []}
    policy |= config.get("policy_kwargs", {})
    own = {name: schedule(value) for name, value in config.items() if name not in ours}
    common = {"seed": args.seed, "tensorboard_log": log, "policy_kwargs": policy}
    model = kind(config["policy"], envs, **common, **own)  # refuses unknown settings
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    (folder / "rows.jsonl").unlink(missing_ok=True)
    durable_files.write(folder / "settings.json", json.dumps(config, indent=1).encode())
    return model


# Callbacks


class Evaluation(callbacks.BaseCallback):
    """Play games with the package's player, and append the result to `rows.jsonl`."""

    def __init__(self, file: Path, actor: Any, evaluate: Callable[[Any, bool], dict[str, Any]]):
        super().__init__()
        self.file, self.actor, self.evaluate = file, actor, evaluate

    def _on_training_start(self) -> None:
        json_files.truncate(self.file, "moves", self.num_timesteps)  # later ones are made again
        rows = json_files.rows(self.file)
        self.start = time.monotonic() - (rows[-1]["seconds"] if rows else 0)

    def _on_step(self) -> bool:
        self.write(is_last=False)
        return True

    def write(self, is_last: bool) -> None:
        """Evaluate the policy and append the row, the last one with more games."""
        net, seconds = actor_from_sb3(self.model.policy, self.actor), time.monotonic() - self.start
        result = self.evaluate(net, is_last)
        row = {"moves": self.model.num_timesteps, "seconds": round(seconds, 1), **result}
        json_files.append(self.file, [{**row, "end": is_last}])
        self.logger.record("eval/mean", result["mean"])
        spread = "" if result["interval"] is None else f" ± {result['interval']:,.1f}"
        print(f"{row['moves']:,} moves: {result['mean']:,.1f}{spread} in {result['games']:,} games")


class SelfPlay(callbacks.BaseCallback):
    """Copy the policy to the opponents before each rollout."""

    def __init__(self, actor: Any) -> None:
        super().__init__()
        self.actor = actor

    def _on_rollout_start(self) -> None:
        actor_from_sb3(self.model.policy, self.actor)

    def _on_step(self) -> bool:
        return True


# Checkpoints


def resume(
    kind: Any, checkpoints: list[Path], folder: Path, config: Any, envs: Any, **more: Any
) -> Any:
    """Return the model of the latest complete checkpoint, with other games than before.

    Raises:
        ValueError: there is none, or the run had other settings.
    """
    try:
        began = json_files.read(folder / "settings.json")
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} cannot resume: {error}") from error
    same = json.loads(json.dumps(config | {"n_timesteps": None}))
    if not isinstance(began, dict) or began | {"n_timesteps": None} != same:
        raise ValueError(f"{folder} cannot resume: settings.json differs from the settings given")
    for checkpoint in reversed(checkpoints):
        try:
            model = kind.load(checkpoint, envs, **more)
            if hasattr(model, "replay_buffer"):
                model.load_replay_buffer(replay_file(checkpoint))
        except Exception as error:  # of archives, torch and stable-baselines3: it was cut off
            print(f"{checkpoint} is not complete: {error}")
            continue
        model.set_random_seed((config["seed"] + model.num_timesteps) % 2**32)
        print(f"resumes from {checkpoint}")
        return model
    raise ValueError(f"{folder} cannot resume: no checkpoint is complete")


def find_checkpoints(folder: Path) -> list[Path]:
    """Return the complete checkpoints, latest last; a kill may leave a part of one."""
    paths = [path for path in folder.glob("checkpoints/model_*.zip") if zipfile.is_zipfile(path)]
    return sorted(paths, key=lambda path: int(path.stem.split("_")[1]))


def replay_file(checkpoint: Path) -> Path:
    """Return the replay buffer's file of a checkpoint."""
    return checkpoint.with_name(f"{checkpoint.stem.replace('model_', 'model_replay_buffer_')}.pkl")


def save_checkpoint(model: Any, folder: Path) -> None:
    """Write a checkpoint as `CheckpointCallback` does."""
    path = folder / "checkpoints" / f"model_{model.num_timesteps}_steps.zip"
    if hasattr(model, "replay_buffer"):
        model.save_replay_buffer(replay_file(path))
    model.save(path)
