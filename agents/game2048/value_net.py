"""Value networks of 2048: the score still to come, from the planes of an afterstate.

CNN22 is the network that Matsuzaki (2021, "Developing value networks for game 2048 with
reinforcement learning") found best, as Watanabe and Matsuzaki use it in their search. A position is
16 planes, one of the empty cells and one for each tile from 2 to 32768; two convolutions of 2x2
without padding look at what is adjacent, three full layers put it together.

    net = network("CNN22")
    values = net(planes(torch_rules.start((8,), generator)))     # float32[8]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.envs.game2048.torch_rules import exponents

N_PLANES = 16
"""Empty cells, then the tiles 2 to 32768."""


def planes(boards: Tensor) -> Tensor:
    """The planes `float32[..., 16, 4, 4]` of boards `int64[...]`: one of them is 1 in each cell."""
    which = torch.arange(N_PLANES, device=boards.device)[:, None, None]
    return (exponents(boards)[..., None, :, :] == which).float()


class CNN22(nn.Module):
    """Two convolutions of 2x2 and three full layers: 2,902,273 parameters, 9.21 MFLOP a board.

    Maps planes `[n, 16, 4, 4]` to values `[n]`. Weights are drawn as by He et al. (2015) from
    normal distributions, biases begin at 0.

    Args:
        output: of the last unit. `"relu"` as in the study's figure, which may fall silent in
            learning: it has no gradient where it is 0; `"identity"` has no such trap.

    Raises:
        ValueError: another output.
    """

    def __init__(self, output: Literal["relu", "identity"] = "identity") -> None:
        super().__init__()
        if output not in ("relu", "identity"):
            raise ValueError(f"output is 'relu' or 'identity', got {output!r}")
        self.settings = {"output": output}
        self.body = nn.Sequential(
            nn.Conv2d(N_PLANES, 256, 2),  # [n, 256, 3, 3]
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 512, 2),  # [n, 512, 2, 2]
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(2048, 1024),
            nn.ReLU(inplace=True),
            nn.Linear(1024, 256),
            nn.ReLU(inplace=True),
            nn.Linear(256, 1),
            nn.ReLU() if output == "relu" else nn.Identity(),
        )
        self.apply(he)

    def forward(self, planes: Tensor) -> Tensor:
        """The values `[n]` of planes `[n, 16, 4, 4]`."""
        values: Tensor = self.body(planes)
        return values[:, 0]


def he(module: nn.Module) -> None:
    """Weights by He et al. (2015), no bias."""
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)


NETWORKS: dict[str, type[nn.Module]] = {"CNN22": CNN22}
"""The networks by name."""


def network(name: str, **settings: Any) -> nn.Module:
    """A new network of `NETWORKS`: see `nets.network`."""
    return nets.network(NETWORKS, name, **settings)


def load(path: str | Path, device: str = "cpu") -> nn.Module:
    """The network of a file: see `nets.load`."""
    return nets.load(path, network, device)
