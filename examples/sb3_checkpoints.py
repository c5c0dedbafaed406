"""Checkpoints of the stable-baselines3 examples, in the files of `CheckpointCallback`.

stable-baselines3 unpickles them, which can run any code: resume no checkpoint of somebody else.
The networks in `actor.safetensors`, which the package plays, contain no code.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from afterstate.envs import json_files


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
