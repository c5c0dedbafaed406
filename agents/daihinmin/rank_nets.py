"""Networks that predict the finishing place from an afterstate, and the players that follow them.

Kuwabara and Hoki (2018): a network maps an afterstate to the probabilities of the five finishing
places; its value is the points that are to be expected; the player takes the action that leads to
the afterstate of the largest value.

    net = load("rank.safetensors")
    values(net, afterstates(view))          # expected points of each afterstate
    agent = RankAgent(net)                  # or agents.make("daihinmin-rank")
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from afterstate.agents.daihinmin import encoding
from afterstate.agents.daihinmin.chains import Afterstates
from afterstate.agents.daihinmin.history import N_HISTORY_PLANES, N_ROWS, Moments, histories
from afterstate.envs.daihinmin.rules import N_PLAYERS

POINTS = (5.0, 4.0, 3.0, 2.0, 1.0)
"""What the places are worth in the game at hand."""


def _xavier(module: nn.Module) -> None:
    """Weights by Glorot and Bengio (2010), no bias, as in the study."""
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


def _along_columns(n_in: int, n_out: int) -> nn.Conv2d:
    """A convolution over three columns."""
    return nn.Conv2d(n_in, n_out, (1, 3), padding=(0, 1))


class BaseCNN(nn.Module):
    """Ten convolutions over the columns, one to a single channel, and a full layer.

    Maps planes `[n, 151, 15]` to the logits of the places `[n, 5]`.

    Args:
        channels: of the ten convolutions; the study has 16, 32, 64 and 128.
    """

    encode = "planes"

    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        self.settings = {"channels": channels}
        layers: list[nn.Module] = []
        for n_in in (encoding.N_PLANES, *[channels] * 9):
            layers += [_along_columns(n_in, channels), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers, nn.Conv2d(channels, 1, 1))
        self.head = nn.Linear(encoding.N_COLUMNS, N_PLAYERS)
        self.apply(_xavier)

    def forward(self, planes: Tensor) -> Tensor:
        """The logits of the places."""
        logits: Tensor = self.head(self.body(planes.unsqueeze(2)).flatten(1))
        return logits


class HistoryCNN(nn.Module):
    """Convolutions over moves and columns, halving the moves four times.

    Maps `[n, 161, 64, 15]` (see `history.py`) to the logits of the places `[n, 5]`.
    """

    encode = "history"

    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        self.settings = {"channels": channels}
        layers: list[nn.Module] = []
        n_in = N_HISTORY_PLANES
        for n_convolutions in (2, 2, 2, 1):
            for _ in range(n_convolutions):
                layers += [nn.Conv2d(n_in, channels, 3, padding=1), nn.ReLU(inplace=True)]
                n_in = channels
            layers.append(nn.MaxPool2d((2, 1)))
        self.body = nn.Sequential(*layers, nn.Conv2d(channels, 1, 3, padding=1))
        self.head = nn.Linear(N_ROWS // 16 * encoding.N_COLUMNS, N_PLAYERS)
        self.apply(_xavier)

    def forward(self, planes: Tensor) -> Tensor:
        """The logits of the places."""
        logits: Tensor = self.head(self.body(planes).flatten(1))
        return logits


class FCNN(nn.Module):
    """One hidden layer of 700: maps units `[n, 750]` to the logits of the places `[n, 5]`."""

    encode = "units"

    def __init__(self, hidden: int = 700) -> None:
        super().__init__()
        self.settings = {"hidden": hidden}
        self.body = nn.Sequential(nn.Linear(encoding.N_UNITS, hidden), nn.ReLU(inplace=True))
        self.head = nn.Linear(hidden, N_PLAYERS)
        self.apply(_xavier)

    def forward(self, units: Tensor) -> Tensor:
        """The logits of the places."""
        logits: Tensor = self.head(self.body(units))
        return logits


class _Block(nn.Module):
    """Two convolutions, added to what came in (He et al. 2016)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = _along_columns(channels, channels)
        self.second = _along_columns(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.second(torch.relu(self.first(x))))


class RankResNet(nn.Module):
    """A residual network of one's own size; not from the study.

    Maps planes `[n, 151, 15]` to the logits of the places `[n, 5]`.

    Args:
        channels: of the convolutions.
        blocks: of two convolutions each.
        hidden: of the full layer before the last.
    """

    encode = "planes"

    def __init__(self, channels: int = 64, blocks: int = 5, hidden: int = 64) -> None:
        super().__init__()
        self.settings = {"channels": channels, "blocks": blocks, "hidden": hidden}
        self.body = nn.Sequential(
            _along_columns(encoding.N_PLANES, channels),
            nn.ReLU(inplace=True),
            *(_Block(channels) for _ in range(blocks)),
            nn.Conv2d(channels, 8, 1),
            nn.ReLU(inplace=True),
        )
        self.head = nn.Sequential(
            nn.Linear(8 * encoding.N_COLUMNS, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, N_PLAYERS),
        )
        self.apply(_xavier)

    def forward(self, planes: Tensor) -> Tensor:
        """The logits of the places."""
        logits: Tensor = self.head(self.body(planes.unsqueeze(2)).flatten(1))
        return logits


# Judging afterstates

CHUNK = 512
"""Afterstates that are encoded and judged at a time: 4.6 MB of planes."""


def inputs(net: nn.Module, afters: Afterstates, moments: Moments | None = None) -> Tensor:
    """Afterstates as a network wants them.

    Raises:
        ValueError: a network that looks back is not told at what moments of which games they are.
    """
    if net.encode == "planes":
        return torch.from_numpy(encoding.planes(afters))
    if net.encode == "units":
        return torch.from_numpy(encoding.units(afters))
    if moments is None:
        raise ValueError("this network looks at what was played before: give it the moments")
    return torch.from_numpy(histories(afters, moments))


def predict(
    net: nn.Module, afters: Afterstates, moments: Moments | None = None
) -> npt.NDArray[np.float32]:
    """The probabilities of the places, `float32[n, 5]`.

    Args:
        net: on whatever device it is.
        afters: `AFTERSTATE[n]`.
        moments: of the games that they are of, for a network that looks back.
    """
    device = next(net.parameters()).device
    found = np.empty((len(afters), N_PLAYERS), np.float32)
    with torch.inference_mode():
        for at in range(0, len(afters), CHUNK):
            rows = slice(at, at + CHUNK)
            past = None if moments is None else moments.part(rows)
            logits = net(inputs(net, afters[rows], past).to(device))
            found[rows] = torch.softmax(logits.float(), 1).cpu().numpy()
    return found


def values(
    net: nn.Module,
    afters: Afterstates,
    moments: Moments | None = None,
    points: Sequence[float] = POINTS,
) -> npt.NDArray[np.float64]:
    """The points to be expected of afterstates, `float64[n]`: see `predict`."""
    return predict(net, afters, moments) @ np.asarray(points, np.float64)
