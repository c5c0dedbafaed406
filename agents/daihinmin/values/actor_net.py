"""Policy networks of Daihinmin (actors): logits of all actions from an observation; their player.

An actor maps an observation of `Daihinmin-v0` to logits of all 2,422 actions, plays and gifts
alike. Policy-gradient algorithms train it, such as MaskablePPO in `examples/sb3_daihinmin.py`.

    net = network("ActorMLP", hidden=256)
    logits = net(planes)                          # float32[n, 2422]
    agent = agents.make("daihinmin-actor", network="mine.safetensors")
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.config import LEAST_TEMPERATURE, NonNegative, checked
from afterstate.envs.checks import check_seed
from afterstate.envs.daihinmin.observation import CHANNELS, N_COLUMNS, view_mask, view_planes
from afterstate.envs.daihinmin.players import CheckedPlayer
from afterstate.envs.daihinmin.plays import N_PLAYS
from afterstate.envs.daihinmin.rules import GAME, Game

PRETRAINED = Path(__file__).parents[1] / "pretrained" / "actor.safetensors"
"""The file of the pretrained network."""

N_INPUTS = len(CHANNELS) * N_COLUMNS
"""Size of a flattened observation."""


class ActorMLP(nn.Module):
    """A multilayer perceptron with two hidden layers.

    It maps planes `[n, 116, 15]` to logits `[n, 2422]`. `head` is the last layer, `body` the rest.

    Args:
        hidden: units of each hidden layer.
    """

    def __init__(self, hidden: int = 256) -> None:
        super().__init__()
        self.settings = {"hidden": hidden}
        first, second = nn.Linear(N_INPUTS, hidden), nn.Linear(hidden, hidden)
        self.body = nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU())
        self.head = nn.Linear(hidden, N_PLAYS)
        self.apply(nets.he_init)

    def forward(self, planes: Tensor) -> Tensor:
        """Return the logits `[n, 2422]` of planes `[n, 116, 15]`."""
        logits: Tensor = self.head(self.body(planes))
        return logits


NETWORKS: dict[str, type[nn.Module]] = {"ActorMLP": ActorMLP}
"""The networks by name."""


def network(name: str, **settings: Any) -> nn.Module:
    """Return a new network of `NETWORKS`: see `nets.network`."""
    return nets.network(NETWORKS, name, **settings)


def load(path: str | Path, device: str = "cpu") -> nn.Module:
    """Return the network of a file: see `nets.load`."""
    return nets.load(path, network, device)


class ActorAgent(CheckedPlayer):
    """A player that takes the legal action of the largest logit, or draws one by softmax.

    Args:
        network: the network or its file; by default the pretrained one.
        temperature: 0 takes the best action; otherwise the player draws actions in proportion to
            `exp(logit / temperature)`.
        seed: seed of the draws.
        device: the torch device, such as `"cuda"`; by default a network stays where it is, and a
            file is loaded to the CPU.

    Raises:
        OSError: the file cannot be read.
        ValueError: a wrong setting, or not a file of an actor.
    """

    def __init__(
        self,
        network: nn.Module | str | Path | None = None,
        temperature: float = 0.0,
        seed: int | None = None,
        device: str | None = None,
    ) -> None:
        temperature = checked("temperature", temperature, NonNegative)
        check_seed(seed)
        self.network = nets.load_or_move(PRETRAINED if network is None else network, load, device)
        self.temperature = temperature
        self._generator = np.random.default_rng(seed)

    def choose_play(self, view: Game) -> int:
        """Return the number of a play, 0 to pass."""
        logits = self._logits(view)
        if self.temperature > 0:
            # The Gumbel-max trick: the largest sum is a draw by softmax.
            ahead = (logits - logits.max()) / max(self.temperature, LEAST_TEMPERATURE)
            logits = ahead + self._generator.gumbel(size=logits.shape)
        return int(logits.argmax())

    def choose_gift(self, view: Game, n: int) -> int:
        """Return the card set of `n` cards to give away, chosen one after the other."""
        games, gift = np.empty(1, GAME), 0
        games[0] = view
        for _ in range(n):
            games[0]["gift"] = gift
            gift |= 1 << (self.choose_play(games[0]) - 1)
        return gift

    def _logits(self, view: Game) -> npt.NDArray[np.float64]:
        """Return the logits of all actions, minus infinity for illegal ones."""
        device = nets.device_of(self.network)
        planes = torch.as_tensor(view_planes(view)[None], dtype=torch.float32, device=device)
        with torch.inference_mode():
            logits = self.network(planes)[0].cpu().numpy().astype(np.float64)
        return np.where(view_mask(view) == 1, logits, -np.inf)
