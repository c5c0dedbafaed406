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
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.daihinmin.afterstates.chains import Afterstates, afterstates
from afterstate.agents.daihinmin.afterstates.class_values import POINTS, class_values, games_left
from afterstate.agents.daihinmin.afterstates.endgame import won_duel
from afterstate.agents.daihinmin.afterstates.exchange import gift, hands_left
from afterstate.agents.daihinmin.values import encoding
from afterstate.agents.daihinmin.values.history import N_HISTORY_PLANES, N_ROWS, Moments, histories
from afterstate.envs.daihinmin.rules import GAME, N_PLAYERS, Game
from afterstate.envs.words import Words

PRETRAINED = Path(__file__).parents[1] / "pretrained" / "rank.safetensors"
"""The trained network in the package."""


def _xavier(module: nn.Module) -> None:
    """Weights by Glorot and Bengio (2010), no bias, as in the study."""
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
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


NETWORKS: dict[str, type[nn.Module]] = {
    kind.__name__: kind for kind in (BaseCNN, HistoryCNN, FCNN, RankResNet)
}
"""The networks by name."""


def network(name: str, **settings: Any) -> nn.Module:
    """A new network.

    Args:
        name: one of `NETWORKS`.
        **settings: its arguments.

    Raises:
        ValueError: an unknown name or a wrong setting.
    """
    if name not in NETWORKS:
        raise ValueError(f"there is no network {name!r}, but {list(NETWORKS)}")
    known = signature(NETWORKS[name]).parameters
    if not set(settings) <= set(known) or not all(
        type(n) is int and 0 < n <= 4_096 for n in settings.values()
    ):
        raise ValueError(f"{name} has {list(known)}, each from 1 to 4096, got {settings}")
    net = NETWORKS[name](**settings).eval()
    for weights in net.parameters():
        if weights.dim() == 4:  # as the planes are in memory: twice as fast
            weights.data = weights.data.contiguous(memory_format=torch.channels_last)
    return net


def load(path: str | Path, device: str = "cpu") -> nn.Module:
    """Reads a network from a file of `nets.save`.

    Args:
        path: the file.
        device: where the network shall be, such as `"cuda"`.

    Raises:
        OSError: it cannot be read.
        ValueError: another file, or a damaged one; or there is no such device.
    """
    return nets.load(path, network, device)


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
    points: Sequence[float] | npt.NDArray[np.float64] = POINTS,
) -> npt.NDArray[np.float64]:
    """The points to be expected of afterstates, `float64[n]`: see `predict`."""
    return predict(net, afters, moments).astype(np.float64) @ np.asarray(points, np.float64)


# The player


class RankAgent:
    """Takes the action whose afterstate promises the most points.

    Sure wins are played first: see `endgame.py`. A play that may bring the turn back is made when
    the best action begins with it, and what follows is decided anew, from the same position.

    Args:
        net: a network or its file, by default the one in the package.
        points: what the places are worth, five numbers. With `"classes"` it is what they bring
            until classes are reset (see `classes.py`), with `"game"` 5 to 1. By default what the
            file says that the network has learned for, or `"game"`.
        exchange: `"net"` gives what leaves the hand of the largest value, `"hand"` goes by the
            parts of the hand (see `exchange.py`), as in the study. By default what the file says.
        device: where the network calculates.

    Raises:
        OSError: the file cannot be read.
        ValueError: a wrong setting, or another file.
    """

    def __init__(
        self,
        net: nn.Module | str | Path = PRETRAINED,
        points: Sequence[float] | Literal["game", "classes"] | None = None,
        exchange: Literal["net", "hand"] | None = None,
        device: str = "cpu",
    ) -> None:
        if not isinstance(net, (str, Path, nn.Module)):
            raise ValueError(f"net is a network or its file, got {net!r}")
        nets.check_device(device)
        told = nets.metadata(net) if isinstance(net, (str, Path)) else {}
        points = told.get("points", "game") if points is None else points
        exchange = told.get("exchange", "hand") if exchange is None else exchange
        if exchange not in ("net", "hand"):
            raise ValueError(f"exchange is 'net' or 'hand', got {exchange!r}")
        self._points = _checked_points(points)
        self._exchange = exchange
        self.net = load(net, device) if isinstance(net, (str, Path)) else net.to(device)

    def _worth(self, view: Game) -> npt.NDArray[np.float64]:
        """What the places are worth in a game."""
        if self._points is None:
            return class_values(games_left(view))
        return self._points

    def _predict(self, view: Game, afters: Afterstates) -> npt.NDArray[np.float64]:
        """The probabilities of the places of the player who sees the view, `[n, 5]`.

        A network that looks back sees the moves before the decision, and not those of the action
        itself, of which an afterstate has the first only. Where an action is several plays, a
        network has learned its last one (see `history.decisions`) with those before it as moves.
        """
        if afters[0]["hand"] == 0:
            return np.eye(N_PLAYERS)[[view["n_out"]]]
        n, games = len(afters), np.empty(1, GAME)
        games[0] = view
        players, actions = np.full(n, view["turn"]), np.full(n, view["n_actions"])
        moments = Moments(games, np.zeros(n, np.int64), players, actions)
        return predict(self.net, afters, moments).astype(np.float64)

    def _values(self, view: Game, afters: Afterstates) -> npt.NDArray[np.float64]:
        """The values of afterstates of the player who sees the view."""
        return self._predict(view, afters) @ self._worth(view)

    def values(self, view: Game) -> tuple[Afterstates, npt.NDArray[np.float64]]:
        """The afterstates of all actions and their values, `[n]`, in points.

        Where the hand can be played out it is only that, an afterstate with an empty hand, and its
        value is that of the next place. In the exchange actions are the gifts, in the order of
        `expect`.

        Args:
            view: what the player in turn sees.
        """
        afters, _ = _actions(view)
        return afters, self._values(view, afters)

    def expect(self, view: Game) -> tuple[Words, npt.NDArray[np.float64]]:
        """The probabilities of the places after each action, also in the exchange.

        Args:
            view: what the player in turn sees.

        Returns:
            The first play of each action, or the cards given, `uint64[n]`; and `[n, 5]`. Several
            actions may begin with the same play.
        """
        afters, actions = _actions(view)
        return actions, self._predict(view, afters)

    def choose(self, view: Game) -> int:
        """The first play of the best action.

        Raises:
            ValueError: cards are to be given.
        """
        if view["to_give"] > 0:
            raise ValueError("cards are to be given: ask `give`")
        afters = afterstates(view)
        if (afters["play"] == afters["play"][0]).all():  # also where the hand can be played out
            return int(afters["play"][0])
        won = won_duel(view)
        if won >= 0:
            return int(won)
        return int(afters["play"][self._values(view, afters).argmax()])

    def give(self, view: Game, n: int) -> int:
        """The gift that leaves the best hand."""
        if self._exchange == "hand":
            return int(gift(view["hands"][view["turn"]], n))
        afters, gifts = hands_left(view)
        return int(gifts[self._values(view, afters).argmax()])


def _actions(view: Game) -> tuple[Afterstates, Words]:
    """The afterstates of all actions, and these: their first plays, or the gifts."""
    if view["to_give"] > 0:
        return hands_left(view)
    afters = afterstates(view)
    return afters, afters["play"].astype(np.uint64)


def _checked_points(points: Any) -> npt.NDArray[np.float64] | None:
    """What the places are worth, None if that depends on the games to come."""
    if isinstance(points, str):
        if points not in ("game", "classes"):
            raise ValueError(f"points are 'game', 'classes' or five numbers, got {points!r}")
        return None if points == "classes" else np.array(POINTS)
    try:
        worth = np.asarray(points, np.float64)
    except (TypeError, ValueError):
        worth = np.empty(0)
    if worth.shape != (N_PLAYERS,) or not np.isfinite(worth).all():
        raise ValueError(f"points are five numbers, got {points!r}")
    return worth
