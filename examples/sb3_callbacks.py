"""Callbacks of the stable-baselines3 examples."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from afterstate.agents.training.sb3 import actor_from_sb3
from afterstate.envs import json_files


class Evaluation(BaseCallback):
    """Play games with the package's player, and append the result to `rows.jsonl`."""

    def __init__(self, file: Path, actor: Any, evaluate: Callable[[Any, bool], dict[str, Any]]):
        super().__init__()
        self.file, self.actor, self.evaluate = file, actor, evaluate

    def _on_training_start(self) -> None:
        json_files.truncate(self.file, "moves", self.num_timesteps)  # later ones are made again
        rows = json_files.rows(self.file)
        self.start = time.monotonic() - (rows[-1]["seconds"] if rows else 0)

    def _on_step(self) -> bool:
        self.write(end=False)
        return True

    def write(self, end: bool) -> None:
        """Evaluate the policy and append the row, that of the `end` with more games."""
        net, seconds = actor_from_sb3(self.model.policy, self.actor), time.monotonic() - self.start
        result = self.evaluate(net, end)
        row = {"moves": self.model.num_timesteps, "seconds": round(seconds, 1), **result}
        json_files.append(self.file, [{**row, "end": end}])
        self.logger.record("eval/mean", result["mean"])
        spread = "" if result["interval"] is None else f" ± {result['interval']:,.1f}"
        print(f"{row['moves']:,} moves: {result['mean']:,.1f}{spread} in {result['games']:,} games")


class SelfPlay(BaseCallback):
    """Copy the policy to the opponents before each rollout."""

    def __init__(self, actor: Any) -> None:
        super().__init__()
        self.actor = actor

    def _on_rollout_start(self) -> None:
        actor_from_sb3(self.model.policy, self.actor)

    def _on_step(self) -> bool:
        return True
