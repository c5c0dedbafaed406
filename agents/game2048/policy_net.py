"""Policy networks of 2048: the move that a stronger player would choose, from planes of a board.

They are those whose inner workings Matsuzaki and Teramura studied: two to five convolutions of 2x2
cells, and one full layer. Boards stay 4x4 cells large, for beyond the right and the bottom edge
stand zeros in every plane, also in that of empty cells. The numbers of filters are such that all
have about the same number of parameters.

    net = network("PolicyCNN", layers=5)
    logits = net(planes(boards))                 # float32[n, 4]: up, right, down, left
    agents.make("policy-net", net="mine.safetensors").act(words)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.value_net import N_PLANES, he, planes
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.words import Words

CHANNELS = {2: 436, 3: 312, 4: 256, 5: 224}
"""The filters of each convolution, by the number of convolutions."""

CHUNK = 1024
"""Boards that a player judges at a time."""

SHIPPED = {layers: Path(__file__).parent / f"policy_{layers}.safetensors" for layers in (2, 5)}
"""The trained networks in the package, by the number of their convolutions."""


class PolicyCNN(nn.Module):
    """Convolutions of 2x2 cells and a full layer.

    Maps planes `[n, 16, 4, 4]` to logits `[n, 4]` of up, right, down and left. There are 817,068,
    819,628, 820,228 and 832,612 parameters with 2, 3, 4 and 5 layers. Weights are drawn as by He et
    al. (2015) from normal distributions, biases begin at 0.

    Args:
        layers: how many convolutions, 2 to 5.

    Raises:
        ValueError: another number of them.
    """

    def __init__(self, layers: int = 5) -> None:
        super().__init__()
        if layers not in CHANNELS:
            raise ValueError(f"layers is one of {list(CHANNELS)}, got {layers!r}")
        self.settings = {"layers": layers}
        n = CHANNELS[layers]
        parts: list[nn.Module] = []
        for i in range(layers):
            edge = nn.ZeroPad2d((0, 1, 0, 1))  # right and bottom
            parts += [edge, nn.Conv2d(N_PLANES if i == 0 else n, n, 2), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*parts, nn.Flatten(), nn.Linear(16 * n, 4))
        self.apply(he)

    def forward(self, planes: Tensor) -> Tensor:
        """The logits `[n, 4]` of planes `[n, 16, 4, 4]`."""
        logits: Tensor = self.body(planes)
        return logits


NETWORKS: dict[str, type[nn.Module]] = {"PolicyCNN": PolicyCNN}
"""The networks by name."""


def network(name: str, **settings: Any) -> nn.Module:
    """A new network of `NETWORKS`: see `nets.network`."""
    return nets.network(NETWORKS, name, **settings)


def load(path: str | Path, device: str = "cpu") -> nn.Module:
    """The network of a file: see `nets.load`."""
    return nets.load(path, network, device)


def chances(net: nn.Module, boards: Tensor) -> Tensor:
    """The probabilities that a network gives the moves of boards, `float32[n, 4]`.

    They are those of its softmax, in which illegal moves have their part, too.

    Args:
        net: on whatever device it is.
        boards: `int64[n]`, on any device.
    """
    device = next(net.parameters()).device
    with torch.inference_mode():
        parts = [net(planes(part.to(device))).float() for part in boards.split(CHUNK)]
        return torch.softmax(torch.cat(parts), 1)


class PolicyNetAgent(Agent):
    """Plays the legal move that a policy network finds most probable.

    Args:
        net: a network that maps planes `[n, 16, 4, 4]` to logits `[n, 4]`, or its file; by default
            the one in the package.
        layers: of the one in the package, 2 or 5.
        device: where the network calculates.

    Raises:
        OSError: the file cannot be read.
        ValueError: a wrong setting, or another file.
    """

    def __init__(
        self, net: nn.Module | str | Path | None = None, layers: int = 5, device: str = "cpu"
    ) -> None:
        nets.check_device(device)
        if net is None and layers not in SHIPPED:
            told = f"the package has networks of {list(SHIPPED)} layers, not {layers!r}"
            raise ValueError(f"{told}: give net, one of your own")
        net = SHIPPED[layers] if net is None else net
        self.net = load(net, device) if isinstance(net, (str, Path)) else net.to(device)

    def chances(self, boards: Words) -> npt.NDArray[np.float32]:
        """The probabilities of up, right, down and left for board words, `float32[n, 4]`."""
        found: npt.NDArray[np.float32] = chances(self.net, torch_rules.from_words(boards)).numpy()
        return found

    def _act(self, boards: Words) -> npt.NDArray[np.int8]:
        on_device = torch_rules.from_words(boards, next(self.net.parameters()).device)
        legal = torch_rules.legal(on_device)
        best = torch.where(legal, chances(self.net, on_device), -1.0).argmax(1)
        actions: npt.NDArray[np.int8] = best.to(torch.int8).cpu().numpy()
        return actions
