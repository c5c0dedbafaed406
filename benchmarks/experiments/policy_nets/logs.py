"""Boards of the games of networks, from play logs."""

from __future__ import annotations

from pathlib import Path

import torch

from afterstate.agents.game2048.learning import play_logs
from afterstate.envs.game2048 import torch_rules
from benchmarks.experiments.harness import write_log


def boards(path: Path, player: Path, games: int, seed: int, share: float) -> torch.Tensor:
    """Return boards of a network's games without the first 100 moves, which are played if needed.

    Args:
        path: the play log.
        player: the network's file.
        games: number of games.
        seed: seed of the first game; the others have the seeds after it.
        share: share of the boards to keep.
    """
    if not path.exists():
        options = {"player": player, "games": games, "skip": 100, "batch": 20}
        write_log(path, {**options, "share": share, "seed": seed})
    return torch_rules.from_words(play_logs.read(path)["board"])
