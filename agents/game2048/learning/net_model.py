"""A neural network as the value function of `from_search.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import mse_loss

from afterstate.agents import files, nets
from afterstate.agents.config import current_names, given_or_default
from afterstate.agents.game2048.values.planes import planes
from afterstate.agents.game2048.values.value_net import ValueNetAgent, load, network, scale_of
from afterstate.agents.training.fitter import new_fitter
from afterstate.agents.training.fitting_settings import FittingSettings
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.words import Floats, Words


class NetModel:
    """A value network that learns, by gradient steps on the mean squared error.

    Args:
        network: maps planes `[n, 16, 4, 4]` to values `[n]`; learns in place, on its device.
        fitting: settings of the steps; `symmetric` has no effect, since the learner turns the
            boards.
        value_scale: points per 1 of the network's output.
    """

    size = (4, 4)
    suffix = ".safetensors"
    """Ending of its files."""

    def __init__(
        self,
        network: nn.Module,
        fitting: FittingSettings | None = None,
        value_scale: float = 1_000.0,
    ) -> None:
        self._fitting = given_or_default(fitting, FittingSettings, "fitting")
        self._scale = value_scale
        self._fitter = new_fitter(network, mse_loss, self._fitting, planes)
        self._player = ValueNetAgent(
            self._fitter.played, value_scale=value_scale, bf16=self._fitting.bf16
        )

    def estimate(self, boards: Words) -> Floats:
        """Return the values of afterstates."""
        return self._player.estimate(boards)

    def fit(self, afters: Words, targets: Floats, n_moves: int) -> float:
        """Learn in batches of afterstates, in random order."""
        order = np.random.default_rng(n_moves).permutation(len(afters))
        device, squares = nets.device_of(self._fitter.network), 0.0
        scale, rate = self._scale, self._fitting.rate_after(n_moves)
        self._fitter.network.train()
        for part in np.array_split(order, -(-len(order) // self._fitting.batch)):
            scaled = torch.from_numpy(targets[part] / scale).float().to(device)
            boards = torch_rules.from_words(afters[part], device)
            loss = self._fitter.step(boards, scaled, rate)
            squares += len(part) * float(loss)
        self._fitter.network.eval()
        return squares / len(order) * scale**2

    def player(self) -> ValueNetAgent:
        """Return the greedy player."""
        return self._player

    def save(self, path: Path, arrays: files.Arrays, metadata: dict[str, Any]) -> None:
        """Write the checkpoint to a safetensors file, and the network next to it."""
        others = {name: torch.from_numpy(array.view(np.int64)) for name, array in arrays.items()}
        metadata = {**metadata, "value_scale": self._scale}
        self._fitter.save(path, others, **metadata)
        nets.save(self._fitter.played, nets.network_file(path), **metadata)

    def load(self, path: Path) -> tuple[files.Arrays, dict[str, Any]]:
        """Load a file of `save`."""
        metadata, others = self._fitter.load(path)
        if current_names(metadata).get("value_scale") != self._scale:
            raise ValueError(f"{path} has another value_scale than {self._scale}")
        return {name: tensor.numpy() for name, tensor in others.items()}, metadata


def new(
    settings: Any,
    start: str | None,
    fitting: FittingSettings,
    value_scale: float | None,
    seed: int | None,
    device: str,
) -> NetModel:
    """Return a new model.

    Args:
        settings: name and settings of a new network; not used with `start`.
        start: file of a network to start from; its value scale is the default.
        fitting: settings of learning.
        value_scale: points per 1 of the network's output; by default 1,000 for a new network.
        seed: seed of the weights.
        device: device of the network.

    Raises:
        OSError: the file to start from cannot be read.
        ValueError: wrong settings.
    """
    nets.check_device(device)
    if start is not None:
        return NetModel(load(start, device), fitting, value_scale or scale_of(start))
    with nets.seeded(seed):
        net = network(**settings).to(device)
    return NetModel(net, fitting, value_scale or 1_000.0)
