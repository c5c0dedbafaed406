"""A neural network as the value function that `search_learning.py` lets learn."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import mse_loss

from afterstate.agents import files, nets
from afterstate.agents.config import check_names
from afterstate.agents.game2048.search.softmax_tree import Values
from afterstate.agents.game2048.values.planes import planes
from afterstate.agents.game2048.values.value_net import ValueNetAgent, load, network
from afterstate.agents.training.optimizer import Fitter, Fitting
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.words import Words

_FITTING = [each.name for each in fields(Fitting) if each.name != "symmetric"]


class NetModel:
    """A value network that learns.

    Args:
        net: maps planes `[n, 16, 4, 4]` to values `[n]`; learns in place, where it is.
        fitting: how; `symmetric` says nothing here, for the learner turns the boards.
        unit: what 1 of the network is in points.
    """

    size = (4, 4)

    def __init__(
        self, net: nn.Module, fitting: Fitting | None = None, unit: float = 1_000.0
    ) -> None:
        self._how = how = fitting or Fitting()
        self._fitter = Fitter(net, average=how.average, mixed=how.mixed, clip=how.clip)
        self._player = ValueNetAgent(self._fitter.played, value_scale=unit, bf16=how.mixed)

    def estimate(self, boards: Words) -> Values:
        """The values of afterstates."""
        return self._player.estimate(boards)

    def fit(self, afters: Words, targets: Values, n_moves: int) -> float:
        """Learns in steps of a batch, in an order by chance."""
        order = np.random.default_rng(n_moves).permutation(len(afters))
        device, squares = next(self._fitter.net.parameters()).device, 0.0
        unit, rate = self._player.value_scale, self._how.rate_after(n_moves)
        self._fitter.net.train()
        for part in np.array_split(order, -(-len(order) // self._how.batch)):
            wanted = torch.from_numpy(targets[part] / unit).float().to(device)
            inputs = planes(torch_rules.from_words(afters[part], device))
            loss = self._fitter.step(inputs, partial(mse_loss, target=wanted), rate)
            squares += len(part) * float(loss)
        self._fitter.net.eval()
        return squares / len(order) * unit**2

    def player(self) -> ValueNetAgent:
        """The greedy player."""
        return self._player

    def save(self, path: Path, arrays: files.Arrays, facts: dict[str, Any]) -> None:
        """Writes all to a file of safetensors, and the network beside it."""
        others = {name: torch.from_numpy(array.view(np.int64)) for name, array in arrays.items()}
        facts = {**facts, "unit": self._player.value_scale}
        self._fitter.save(path, others, **facts)
        nets.save(self._fitter.played, path.with_name("net.safetensors"), **facts)

    def load(self, path: Path) -> tuple[files.Arrays, dict[str, Any]]:
        """Takes up a file of `save`."""
        told, others = self._fitter.load(path)
        if told.get("unit") != self._player.value_scale:
            raise ValueError(f"{path} has another unit than {self._player.value_scale}")
        return {name: tensor.numpy() for name, tensor in others.items()}, told


def new(settings: dict[str, Any], device: str) -> NetModel:
    """The network of settings.

    Raises:
        OSError: the file to start from cannot be read.
        ValueError: wrong settings.
    """
    nets.check_device(device)
    check_names("fitting", settings["fitting"], [*_FITTING, "unit"])
    how = dict(settings["fitting"])
    unit = how.pop("unit", None)
    start = settings["start"]
    if start is not None:
        unit = nets.metadata(start).get("unit", 1.0) if unit is None else unit
        return NetModel(load(start, device), Fitting(**how), unit)
    with nets.seeded(settings["seed"]):
        net = network(**settings["network"]).to(device)
    return NetModel(net, Fitting(**how), 1_000.0 if unit is None else unit)
