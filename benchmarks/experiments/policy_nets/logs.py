"""Play logs: that which networks learn from, and boards of the networks' own games."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from afterstate.agents.game2048.learning import play_logs
from afterstate.envs.game2048 import torch_rules


def write(path: Path, options: Mapping[str, Any]) -> None:
    """Write a play log, or continue one that was interrupted."""
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    resume = ["--resume"] if path.with_suffix(".parts").exists() else []
    play_logs.main([str(path), *words, *resume])


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
        write(path, {**options, "share": share, "seed": seed})
    return torch_rules.from_words(play_logs.read(path)["board"])
