"""Small value networks, logs and comparisons for the tests of value learners."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.learning.value_td import ValueLearner
from tests.oracles import game2048 as oracle

SCALE = 100.0
"""Value scale of the learners in the tests."""


class Tiny(nn.Module):
    """One hidden layer, without symmetry."""

    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.settings = {"hidden": hidden}
        self.body = nn.Sequential(nn.Linear(256, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, planes: Tensor) -> Tensor:
        """Return the values `[n]` of planes `[n, 16, 4, 4]`."""
        values: Tensor = self.body(planes.flatten(1))
        return values[:, 0]


def tiny(seed: int = 1) -> Tiny:
    """Return a network whose values differ widely."""
    torch.manual_seed(seed)
    net = Tiny()
    with torch.no_grad():
        for weights in net.parameters():
            weights.mul_(4)
    return net


def late_log(n: int = 40, seed: int = 1) -> play_logs.Moves:
    """Return a log of boards from which games end soon."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(3, 12, size=(n, 16))
    cells[np.arange(n), rng.integers(16, size=n)] = 0
    log = np.zeros(n, play_logs.MOVE)
    log["board"] = [oracle.to_word(board) for board in cells.reshape(n, 4, 4).tolist()]
    return log


def state(learner: ValueLearner) -> dict[str, Any]:
    """Return the whole state of a learner, to be compared."""
    played = {f"played/{name}": t for name, t in learner.network.state_dict().items()}
    tensors = {**learner.fitter.tensors(), **played, **learner._games._asdict()}
    tensors["chance"] = learner._chance.get_state()
    if learner._history is not None:
        tensors["history"] = learner._history.used(learner._games)
    for i, step in enumerate(learner._segment):
        tensors |= {f"segment/{i}/{name}": t for name, t in step._asdict().items()}
    return {
        **{name: t.tolist() for name, t in tensors.items()},
        "drawn": learner._rng.bit_generator.state,
        **{name: getattr(learner, name) for name in ("n_moves", "n_games")},
    }
