"""Boards of the games of networks, from play logs."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import torch

from afterstate.agents.game2048.learning import play_logs
from afterstate.envs.game2048 import torch_rules
from benchmarks.experiments.harness import record_settings, write_log


def boards(path: Path, player: Path, games: int, seed: int, share: float) -> torch.Tensor:
    """Return boards of a network's games without the first 100 moves, which are played if needed.

    Args:
        path: the play log.
        player: the network's file.
        games: number of games.
        seed: seed of the first game; the others have the seeds after it.
        share: share of the boards to keep.
    """
    options = {"games": games, "skip": 100, "batch": 20, "share": share, "seed": seed}
    network = sha256(player.read_bytes()).hexdigest()
    record_settings(path.with_suffix(".config.json"), {**options, "network_sha256": network})
    if not path.exists():
        write_log(path, {"player": player, **options})
    return torch_rules.from_words(play_logs.read(path)["board"])
