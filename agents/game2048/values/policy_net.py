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
from afterstate.agents.game2048.values.planes import N_PLANES, planes
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.words import Words

CHANNELS = {2: 436, 3: 312, 4: 256, 5: 224}
"""The filters of each convolution, by the number of convolutions."""

CHUNK = 1024
"""Boards that a network judges at a time, on a GPU 64 times as many."""

FOLDER = Path(__file__).parents[1] / "pretrained"
PRETRAINED = {layers: FOLDER / f"policy_{layers}.safetensors" for layers in (2, 5)}
"""The networks in the package that have learned a stronger player's moves, by their layers."""

BASELINES = {
    algorithm: FOLDER / f"{algorithm}.safetensors"
    for algorithm in ("ppo", "maskable-ppo", "dqn", "qrdqn")
}
"""Those that algorithms of stable-baselines3 have learned by playing."""


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
        if type(layers) is not int or layers not in CHANNELS:
            raise ValueError(f"layers is one of {list(CHANNELS)}, got {layers!r}")
        self.settings = {"layers": layers}
        n = CHANNELS[layers]
        parts: list[nn.Module] = []
        for i in range(layers):
            edge = nn.ZeroPad2d((0, 1, 0, 1))  # right and bottom
            parts += [edge, nn.Conv2d(N_PLANES if i == 0 else n, n, 2), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*parts, nn.Flatten(), nn.Linear(16 * n, 4))
        self.apply(nets.he)

    def forward(self, planes: Tensor) -> Tensor:
        """The logits `[n, 4]` of planes `[n, 16, 4, 4]`, whose last layer always has 32 bits."""
        return nets.in_32_bits(self.body[-1], self.body[:-1](planes))


class ActorCNN(nn.Module):
    """A small network for algorithms that learn by playing, such as stable-baselines3's.

    Two convolutions of 2x2 cells, of which nothing stands beyond the edges, and two full layers.
    Maps planes `[n, 16, 4, 4]` to logits, or to values of the moves, `[n, 4]`. `body` is all but
    the last layer, `head`.

    Args:
        channels: filters of each convolution.
        hidden: units of the first full layer.
    """

    def __init__(self, channels: int = 128, hidden: int = 256) -> None:
        super().__init__()
        self.settings = {"channels": channels, "hidden": hidden}
        self.body = nn.Sequential(
            *(nn.Conv2d(N_PLANES, channels, 2), nn.ReLU()),
            *(nn.Conv2d(channels, channels, 2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(4 * channels, hidden), nn.ReLU()),
        )
        self.head = nn.Linear(hidden, 4)
        self.apply(nets.he)

    def forward(self, planes: Tensor) -> Tensor:
        """The logits or values `[n, 4]` of planes `[n, 16, 4, 4]`."""
        return nets.in_32_bits(self.head, self.body(planes))


NETWORKS: dict[str, type[nn.Module]] = {"PolicyCNN": PolicyCNN, "ActorCNN": ActorCNN}
"""The networks by name."""


def network(name: str, **settings: Any) -> nn.Module:
    """A new network of `NETWORKS`: see `nets.network`."""
    return nets.network(NETWORKS, name, **settings)


def load(path: str | Path, device: str = "cpu") -> nn.Module:
    """The network of a file: see `nets.load`."""
    return nets.load(path, network, device)


def judge(net: nn.Module, boards: Tensor) -> Tensor:
    """The logits that a network gives the moves of boards, `float32[n, 4]`, illegal ones too.

    Args:
        net: on whatever device it is.
        boards: `int64[n]`, on any device.
    """
    device = next(net.parameters()).device
    size = 64 * CHUNK if device.type == "cuda" else CHUNK
    with torch.inference_mode():
        return torch.cat([net(planes(part.to(device))).float() for part in boards.split(size)])


def chances(net: nn.Module, boards: Tensor) -> Tensor:
    """The probabilities that a network gives the moves of boards: the softmax of `judge`."""
    return torch.softmax(judge(net, boards), 1)


def choices(net: nn.Module, boards: Tensor) -> Tensor:
    """The legal moves that a network finds most probable, `int64[n]`, where the boards are."""
    logits = judge(net, boards).to(boards.device).clamp(min=-1e30)  # above that of illegal moves
    return torch.where(torch_rules.legal(boards), logits, -torch.inf).argmax(1)


class PolicyNetAgent(Agent):
    """Plays the legal move that a policy network finds most probable.

    Args:
        net: a network that maps planes `[n, 16, 4, 4]` to logits `[n, 4]`, or its file; by default
            one in the package.
        layers: which of those in the package that have learned a stronger player's moves, 2 or 5;
            by default 5.
        algorithm: which of those in the package that stable-baselines3 has taught, a name of
            `BASELINES`; then layers is not to be given.
        device: where the network calculates; by default a network stays where it is, and that of a
            file is on the CPU.

    Raises:
        OSError: the file cannot be read.
        ValueError: a wrong setting, or another file.
    """

    def __init__(
        self,
        net: nn.Module | str | Path | None = None,
        layers: int | None = None,
        device: str | None = None,
        algorithm: str | None = None,
    ) -> None:
        given = [each for each in (net, layers, algorithm) if each is not None]
        if len(given) > 1:
            raise ValueError("net is a network: give it, or layers or algorithm of one we ship")
        if layers not in (None, *PRETRAINED):
            told = f"the package has networks of {list(PRETRAINED)} layers, not {layers!r}"
            raise ValueError(f"{told}: give net, one of your own")
        if algorithm not in (None, *BASELINES):
            told = f"the package has networks of {list(BASELINES)}, not of {algorithm!r}"
            raise ValueError(f"{told}: give net, one of your own")
        shipped = PRETRAINED[layers or 5] if algorithm is None else BASELINES[algorithm]
        self.net = nets.placed(shipped if net is None else net, load, device)

    def chances(self, boards: Words) -> npt.NDArray[np.float32]:
        """The probabilities of up, right, down and left for board words, `float32[n, 4]`."""
        found = chances(self.net, torch_rules.from_words(boards))
        return np.asarray(found.cpu().numpy())

    def _act(self, boards: Words) -> npt.NDArray[np.int8]:
        device = next(self.net.parameters()).device
        best = choices(self.net, torch_rules.from_words(boards, device))
        return np.asarray(best.to(torch.int8).cpu().numpy())
