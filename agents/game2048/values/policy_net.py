"""Policy networks of 2048: the probability of each move, from planes of a board.

The networks are those that Matsuzaki and Teramura analyzed, trained to imitate a stronger player:
two to five convolutions of 2x2 cells and one dense layer. Zero padding at the right and bottom edge
of every plane, also that of empty cells, keeps boards at 4x4. The numbers of filters give all
networks about the same number of parameters.

    net = network("PolicyCNN", layers=5)
    logits = net(planes(boards))                 # float32[n, 4]: up, right, down, left
    agents.make("policy-net", network="mine.safetensors").act(words)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.files import NotInWheelError
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.values.planes import N_PLANES, planes
from afterstate.envs.checks import check_one_of
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.game2048.rules import check_words
from afterstate.envs.messages import listed, shown
from afterstate.envs.words import Words

CHANNELS = {2: 436, 3: 312, 4: 256, 5: 224}
"""Filters of each convolution, by the number of convolutions."""

CHUNK = 1024
"""Boards in a batch of a network on the CPU; on a GPU 64 times as many."""

FOLDER = Path(__file__).parents[1] / "pretrained"
PRETRAINED = {layers: FOLDER / f"policy_{layers}.safetensors" for layers in (2, 5)}
"""Files of the pretrained networks that imitate a stronger player, by their layers."""

REPOSITORY = "https://github.com/afterstate/afterstate/tree/main/agents/game2048/pretrained"
"""The folder of all pretrained networks of 2048."""

BASELINES = {
    algorithm: FOLDER / f"{algorithm}.safetensors"
    for algorithm in ("ppo", "maskable-ppo", "dqn", "qrdqn")
}
"""Files of the pretrained networks of stable-baselines3, by the algorithm that trained them."""


class PolicyCNN(nn.Module):
    """Convolutions of 2x2 cells and one dense layer.

    Maps planes `[n, 16, 4, 4]` to logits `[n, 4]` of up, right, down and left. There are 817,068,
    819,628, 820,228 and 832,612 parameters with 2, 3, 4 and 5 layers. Initial weights
    are normal as in He et al. (2015), initial biases 0.

    Args:
        layers: the number of convolutions, 2 to 5.

    Raises:
        ValueError: another number of layers.
    """

    def __init__(self, layers: int = 5) -> None:
        super().__init__()
        if type(layers) is not int or layers not in CHANNELS:
            raise ValueError(f"layers must be one of {listed(CHANNELS)}, got {shown(layers)}")
        self.settings = {"layers": layers}
        n = CHANNELS[layers]
        parts: list[nn.Module] = []
        for i in range(layers):
            padding = nn.ZeroPad2d((0, 1, 0, 1))  # right and bottom
            parts += [padding, nn.Conv2d(N_PLANES if i == 0 else n, n, 2), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*parts, nn.Flatten(), nn.Linear(16 * n, 4))
        self.apply(nets.he_init)

    def forward(self, planes: Tensor) -> Tensor:
        """Return the logits `[n, 4]` of planes `[n, 16, 4, 4]`; the last layer uses float32."""
        return nets.in_float32(self.body[-1], self.body[:-1](planes))


class ActorCNN(nn.Module):
    """A small network for reinforcement learning, such as stable-baselines3's algorithms.

    Two convolutions of 2x2 cells without padding and two dense layers. Maps planes `[n, 16, 4, 4]`
    to logits, or to values of the moves, `[n, 4]`. `head` is the last layer, `body` all before it.

    Args:
        channels: filters of each convolution.
        hidden: units of the first dense layer.
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
        self.apply(nets.he_init)

    def forward(self, planes: Tensor) -> Tensor:
        """Return the logits or values `[n, 4]` of planes `[n, 16, 4, 4]`."""
        return nets.in_float32(self.head, self.body(planes))


NETWORKS: dict[str, type[nn.Module]] = {"PolicyCNN": PolicyCNN, "ActorCNN": ActorCNN}
"""Network classes by name."""


def network(name: str, **settings: Any) -> nn.Module:
    """Return a new network of `NETWORKS`: see `nets.network`."""
    return nets.network(NETWORKS, name, **settings)


def load(path: str | Path, device: str = "cpu") -> nn.Module:
    """Return the network of a file: see `nets.load`."""
    return nets.load(path, network, device)


def logits(net: nn.Module, boards: Tensor) -> Tensor:
    """Return the logits of all four moves of boards, `float32[n, 4]`, illegal ones included.

    Args:
        net: network on any device.
        boards: `int64[n]`, on any device.

    Raises:
        ValueError: the outputs have another shape.
    """
    device = nets.device_of(net)
    size = 64 * CHUNK if device.type == "cuda" else CHUNK
    with torch.inference_mode():
        parts = [net(planes(part.to(device))).float() for part in boards.split(size)]
        return nets.checked_outputs(torch.cat(parts), (len(boards), 4))


def probabilities(net: nn.Module, boards: Tensor) -> Tensor:
    """Return the probabilities of all four moves of boards: the softmax of `logits`."""
    return torch.softmax(logits(net, boards), 1)


def best_moves(net: nn.Module, boards: Tensor) -> Tensor:
    """Return the most probable legal moves, `int64[n]`, on the device of the boards."""
    finite = logits(net, boards).to(boards.device).clamp(min=-1e30)
    return torch.where(torch_rules.legal(boards), finite, -torch.inf).argmax(1)


class PolicyNetAgent(Agent):
    """Plays the legal move that is the most probable by a policy network.

    Args:
        network: a network that maps planes `[n, 16, 4, 4]` to logits `[n, 4]`, or its file; by
            default a pretrained one.
        layers: number of layers of the pretrained network that imitates a stronger player, 2 or 5
            (default).
        device: device of the network, such as `"cuda"`; by default its own, and the CPU for a file.
        algorithm: algorithm of stable-baselines3 that trained the pretrained network, a name of
            `BASELINES`; by default none.

    Raises:
        OSError: the file cannot be read; NotInWheelError if the wheel does not have it: of the
            pretrained networks only that of 5 layers is in the wheel.
        ValueError: a wrong setting, or another file.
    """

    def __init__(
        self,
        network: nn.Module | str | Path | None = None,
        layers: int | None = None,
        device: str | None = None,
        algorithm: str | None = None,
    ) -> None:
        sources = {"network": network, "layers": layers, "algorithm": algorithm}
        given = [name for name, value in sources.items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"only one of {listed(sources)} must be given, got {listed(given)}")
        check_one_of((None, *PRETRAINED), layers=layers)
        check_one_of((None, *BASELINES), algorithm=algorithm)
        pretrained = PRETRAINED[layers or 5] if algorithm is None else BASELINES[algorithm]
        if network is None and not pretrained.exists():
            raise NotInWheelError(
                f"{pretrained.name} is not in the wheel: save it from {REPOSITORY} to "
                f"{pretrained.parent}, or give its path as network"
            )
        self.network = nets.load_or_move(pretrained if network is None else network, load, device)

    def probabilities(self, boards: Words) -> npt.NDArray[np.float32]:
        """Return the probabilities of up, right, down and left for board words, `float32[n, 4]`."""
        words = torch_rules.from_words(check_words(boards, *self.size).reshape(-1))
        return np.asarray(probabilities(self.network, words).cpu().numpy())

    def choose_actions(self, boards: Words) -> npt.NDArray[np.int8]:
        """Return the most probable legal moves, `int8[B]`."""
        device = nets.device_of(self.network)
        best = best_moves(self.network, torch_rules.from_words(boards, device))
        return np.asarray(best.to(torch.int8).cpu().numpy())
