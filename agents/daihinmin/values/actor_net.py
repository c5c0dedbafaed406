"""Actors of Daihinmin: networks that say at once how good each action is, and their player.

An actor sees what `Daihinmin-v0` shows and answers with logits of all 2,422 actions, plays and
gifts alike. Algorithms that learn by policy gradient train them, such as MaskablePPO in
`examples/sb3_daihinmin.py`.

    net = network("ActorMLP", hidden=256)
    logits = net(planes)                          # float32[n, 2422]
    agent = agents.make("daihinmin-actor", net="mine.safetensors")
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.envs.daihinmin.observation import CHANNELS, N_COLUMNS, view_mask, view_planes
from afterstate.envs.daihinmin.plays import N_PLAYS
from afterstate.envs.daihinmin.rules import GAME, Game

PRETRAINED = Path(__file__).parents[1] / "pretrained" / "actor.safetensors"
"""The trained network in the package."""

N_INPUTS = len(CHANNELS) * N_COLUMNS
"""Numbers of an observation."""


class ActorMLP(nn.Module):
    """Two full layers, and one to the actions.

    Maps planes `[n, 116, 15]` to logits `[n, 2422]`. `body` is all but the last layer, `head`.

    Args:
        hidden: units of each of the two layers.
    """

    def __init__(self, hidden: int = 256) -> None:
        super().__init__()
        self.settings = {"hidden": hidden}
        first, second = nn.Linear(N_INPUTS, hidden), nn.Linear(hidden, hidden)
        self.body = nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU())
        self.head = nn.Linear(hidden, N_PLAYS)
        self.apply(nets.he_init)

    def forward(self, planes: Tensor) -> Tensor:
        """The logits `[n, 2422]` of planes `[n, 116, 15]`."""
        logits: Tensor = self.head(self.body(planes))
        return logits


NETWORKS: dict[str, type[nn.Module]] = {"ActorMLP": ActorMLP}
"""The networks by name."""


def network(name: str, **settings: Any) -> nn.Module:
    """A new network of `NETWORKS`: see `nets.network`."""
    return nets.network(NETWORKS, name, **settings)


def load(path: str | Path, device: str = "cpu") -> nn.Module:
    """The network of a file: see `nets.load`."""
    return nets.load(path, network, device)


class ActorAgent:
    """Takes the legal action that an actor finds best, or draws one.

    Args:
        net: the network or its file; by default that in the package.
        temperature: 0 takes the best action, else actions are drawn in proportion to
            `exp(logit / temperature)`.
        seed: of what is drawn.
        device: where the network calculates; by default a network stays where it is, and that of a
            file is on the CPU.

    Raises:
        OSError: the file cannot be read.
        ValueError: a wrong setting, or another file.
    """

    def __init__(
        self,
        net: nn.Module | str | Path | None = None,
        temperature: float = 0.0,
        seed: int | None = None,
        device: str | None = None,
    ) -> None:
        if not temperature >= 0:
            raise ValueError(f"temperature is from 0 on, got {temperature!r}")
        self.net = nets.load_or_move(PRETRAINED if net is None else net, load, device)
        self.temperature = float(temperature)
        self._generator = np.random.default_rng(seed)

    def choose(self, view: Game) -> int:
        """The number of a play, 0 to pass."""
        logits = self._logits(view)
        if self.temperature > 0:
            noise = self._generator.gumbel(size=logits.shape)  # the largest sum is as if drawn
            logits = logits / self.temperature + noise
        return int(logits.argmax())

    def give(self, view: Game, n: int) -> int:
        """The card set of `n` cards to give away, chosen one after the other."""
        games, gift = np.empty(1, GAME), 0
        games[0] = view
        for _ in range(n):
            gift |= 1 << (self.choose(games[0]) - 1)
            games[0]["gift"] = gift
        return gift

    def _logits(self, view: Game) -> Any:
        """The logits of all actions, minus infinity where they are illegal."""
        device = next(self.net.parameters()).device
        seen = torch.as_tensor(view_planes(view)[None], dtype=torch.float32, device=device)
        with torch.inference_mode():
            logits = self.net(seen)[0].cpu().numpy().astype(np.float64)
        return np.where(view_mask(view) == 1, logits, -np.inf)
