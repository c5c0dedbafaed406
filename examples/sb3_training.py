"""Training loop of both stable-baselines3 examples.

Each run has a folder:

- `settings.json`: algorithm, environment, seed and settings, which `--resume` compares
- `checkpoints/`: models and, for DQN and QR-DQN, replay buffers
- `rows.jsonl`: an evaluation a line: moves, seconds, games, mean, interval (95%), end
- `evaluations.npz`, `best_model.zip`, `tensorboard/`: written by stable-baselines3
- `actor.safetensors`: the learned player, which `afterstate.agents.load` reads
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sb3_callbacks import Evaluation
from sb3_checkpoints import find_checkpoints, resume, save_checkpoint
from sb3_settings import ALGORITHMS, RunArgs, schedule

# isort: split
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from stable_baselines3.common import callbacks

from afterstate.agents import nets
from afterstate.agents.training.folder import FolderLock
from afterstate.agents.training.sb3 import ActorFeatures, actor_from_sb3
from afterstate.envs import durable_files, json_files


def train(
    args: RunArgs,
    folder: Path,
    config: dict[str, Any],
    envs: Any,
    eval_envs: Any,
    make_actor: Callable[[], Any],
    n_planes: int,
    evaluate: Callable[[Any, bool], dict[str, Any]],  # actor, whether it is the last evaluation
    extra: callbacks.BaseCallback | None = None,
) -> Any:
    """Start or resume a run, train to its end and write `actor.safetensors`."""
    with FolderLock(folder):
        model = start(args, folder, config, envs, make_actor, n_planes)
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
        evaluation.write(end=True)
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
    args: RunArgs, folder: Path, config: dict[str, Any], envs: Any, actor: Any, n_planes: int
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
    network = {"features_extractor_kwargs": {"actor": actor, "n_planes": n_planes}, "net_arch": []}
    policy = {"features_extractor_class": ActorFeatures, **network}
    policy |= config.get("policy_kwargs", {})
    own = {name: schedule(value) for name, value in config.items() if name not in ours}
    common = {"seed": args.seed, "tensorboard_log": log, "policy_kwargs": policy}
    model = kind(config["policy"], envs, **common, **own)  # refuses unknown settings
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    (folder / "rows.jsonl").unlink(missing_ok=True)
    durable_files.write(folder / "settings.json", json.dumps(config, indent=1).encode())
    return model
