"""Rank networks: probabilities of the finishing places of an afterstate; and their player.

After Kuwabara and Hoki (2018): a network maps an afterstate to the probabilities of the five
finishing places; the value of the afterstate is the expected number of points; the player takes the
action that leads to the afterstate of the largest value.

    net = load("rank.safetensors")
    values(net, afterstates(view))          # expected points of each afterstate
    agent = RankAgent(net)                  # or agents.make("daihinmin-rank")
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.daihinmin.afterstates.chains import Afterstates, afterstates
from afterstate.agents.daihinmin.afterstates.class_values import class_values, games_left
from afterstate.agents.daihinmin.afterstates.endgame import won_duel
from afterstate.agents.daihinmin.afterstates.exchange import gift, gift_afterstates
from afterstate.agents.daihinmin.values import encoding
from afterstate.agents.daihinmin.values.history import N_HISTORY_PLANES, N_ROWS, Moments, histories
from afterstate.envs.checks import as_array
from afterstate.envs.daihinmin.match import POINTS
from afterstate.envs.daihinmin.observation import N_COLUMNS
from afterstate.envs.daihinmin.players import CheckedPlayer, check_turn
from afterstate.envs.daihinmin.rules import GAME, N_PLAYERS, Game
from afterstate.envs.messages import shown
from afterstate.envs.words import Words

PRETRAINED = Path(__file__).parents[1] / "pretrained" / "rank.safetensors"
"""The file of the pretrained network."""


def _xavier(module: nn.Module) -> None:
    """Draw weights as Glorot and Bengio (2010) do and zero biases, as Kuwabara and Hoki (2018)."""
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def _along_columns(n_in: int, n_out: int) -> nn.Conv2d:
    """Return a convolution over three columns."""
    return nn.Conv2d(n_in, n_out, (1, 3), padding=(0, 1))


class BaseCNN(nn.Module):
    """Ten convolutions over the columns, one to a single channel, and a fully connected layer.

    It maps planes `[n, 151, 15]` to the logits of the places `[n, 5]`.

    Args:
        channels: channels of the ten convolutions; Kuwabara and Hoki (2018) use 16, 32, 64 and 128.
    """

    encode = "planes"

    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        self.settings = {"channels": channels}
        layers: list[nn.Module] = []
        for n_in in (encoding.N_PLANES, *[channels] * 9):
            layers += [_along_columns(n_in, channels), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers, nn.Conv2d(channels, 1, 1))
        self.head = nn.Linear(N_COLUMNS, N_PLAYERS)
        self.apply(_xavier)

    def forward(self, planes: Tensor) -> Tensor:
        """Return the logits of the places."""
        logits: Tensor = self.head(self.body(planes.unsqueeze(2)).flatten(1))
        return logits


class HistoryCNN(nn.Module):
    """Convolutions over moves and columns that halve the number of moves four times.

    It maps planes `[n, 161, 64, 15]` (see `history.py`) to the logits of the places `[n, 5]`.

    Args:
        channels: channels of the convolutions.
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
        self.head = nn.Linear(N_ROWS // 16 * N_COLUMNS, N_PLAYERS)
        self.apply(_xavier)

    def forward(self, planes: Tensor) -> Tensor:
        """Return the logits of the places."""
        logits: Tensor = self.head(self.body(planes).flatten(1))
        return logits


class FCNN(nn.Module):
    """One hidden layer: it maps units `[n, 750]` to the logits of the places `[n, 5]`.

    Args:
        hidden: units of the hidden layer.
    """

    encode = "units"

    def __init__(self, hidden: int = 700) -> None:
        super().__init__()
        self.settings = {"hidden": hidden}
        self.body = nn.Sequential(nn.Linear(encoding.N_UNITS, hidden), nn.ReLU(inplace=True))
        self.head = nn.Linear(hidden, N_PLAYERS)
        self.apply(_xavier)

    def forward(self, units: Tensor) -> Tensor:
        """Return the logits of the places."""
        logits: Tensor = self.head(self.body(units))
        return logits


class _Block(nn.Module):
    """Two convolutions with a skip connection (He et al. 2016)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = _along_columns(channels, channels)
        self.second = _along_columns(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs `[n, channels, columns]` of the block, of the shape of its inputs."""
        return torch.relu(x + self.second(torch.relu(self.first(x))))


class RankResNet(nn.Module):
    """A residual network, which is not from Kuwabara and Hoki (2018).

    It maps planes `[n, 151, 15]` to the logits of the places `[n, 5]`.

    Args:
        channels: channels of the convolutions.
        blocks: number of residual blocks of two convolutions each.
        hidden: units of the fully connected layer before the last.
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
            nn.Linear(8 * N_COLUMNS, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, N_PLAYERS),
        )
        self.apply(_xavier)

    def forward(self, planes: Tensor) -> Tensor:
        """Return the logits of the places."""
        logits: Tensor = self.head(self.body(planes.unsqueeze(2)).flatten(1))
        return logits


NETWORKS: dict[str, type[nn.Module]] = {
    kind.__name__: kind for kind in (BaseCNN, HistoryCNN, FCNN, RankResNet)
}
"""The networks by name."""


def network(name: str, **settings: Any) -> nn.Module:
    """Return a new network.

    Args:
        name: one of `NETWORKS`.
        **settings: its arguments, integers from 1 to 4096.

    Raises:
        ValueError: an unknown name or a wrong setting.
    """
    for key, value in settings.items():
        if type(value) is not int or not 1 <= value <= 4_096:
            raise ValueError(f"{key} must be an integer from 1 to 4096, got {shown(value)}")
    net = nets.network(NETWORKS, name, **settings)
    for weights in net.parameters():
        if weights.dim() == 4:  # the memory layout of the planes: twice as fast
            weights.data = weights.data.contiguous(memory_format=torch.channels_last)
    return net


def load(path: str | Path, device: str = "cpu") -> nn.Module:
    """Return the network of a file of `nets.save`.

    Args:
        path: the file.
        device: the torch device to load it to, such as `"cuda"`.

    Raises:
        OSError: the file cannot be read.
        ValueError: another or a damaged file, or an unknown device.
    """
    return nets.load(path, network, device)


# Values of afterstates

CHUNK = 512
"""Afterstates in a batch: 4.6 MB of planes."""


def inputs(net: nn.Module, afters: Afterstates, moments: Moments | None = None) -> Tensor:
    """Return the inputs of a network for afterstates.

    Raises:
        ValueError: moments are missing for a network whose input is the history of the game.
    """
    if net.encode == "planes":
        return torch.from_numpy(encoding.planes(afters))
    if net.encode == "units":
        return torch.from_numpy(encoding.units(afters))
    if moments is None:
        raise ValueError(
            "moments must be given to a network whose input is the history of the game"
        )
    return torch.from_numpy(histories(afters, moments))


def predict(
    net: nn.Module, afters: Afterstates, moments: Moments | None = None
) -> npt.NDArray[np.float32]:
    """Return the probabilities of the places, `float32[n, 5]`.

    Args:
        net: the network, on any device.
        afters: `AFTERSTATE[n]`.
        moments: their moments in games, for a network whose input is the history of the game.
    """
    device = nets.device_of(net)
    probabilities = np.empty((len(afters), N_PLAYERS), np.float32)
    with torch.inference_mode():
        for at in range(0, len(afters), CHUNK):
            rows = slice(at, at + CHUNK)
            past = None if moments is None else moments.part(rows)
            logits = net(inputs(net, afters[rows], past).to(device))
            probabilities[rows] = torch.softmax(logits.float(), 1).cpu().numpy()
    return probabilities


def values(
    net: nn.Module,
    afters: Afterstates,
    moments: Moments | None = None,
    points: Sequence[float] | npt.NDArray[np.float64] = POINTS,
) -> npt.NDArray[np.float64]:
    """Return the expected points of afterstates, `float64[n]`: see `predict`."""
    return predict(net, afters, moments).astype(np.float64) @ np.asarray(points, np.float64)


# The player


class RankAgent(CheckedPlayer):
    """A player that takes the action whose afterstate has the most expected points.

    It plays forced wins first: see `endgame.py`. Of the best action it makes the first play; if the
    turn returns, it decides again.

    Args:
        network: the network or its file, by default the pretrained one.
        points: the values of the places, five numbers; `"classes"`: their values until the next
            class reset (see `class_values.py`); `"game"`: 5 to 1. By default the metadata of the
            file decides, or `"game"`.
        exchange: `"net"` gives the cards that leave the hand of the largest value, `"hand"` applies
            the rule of Kuwabara and Hoki (2018): see `exchange.py`. By default the metadata of the
            file decides, or `"hand"`.
        device: the torch device, such as `"cuda"`; by default a network stays where it is, and a
            file is loaded to the CPU.

    Raises:
        OSError: the file cannot be read.
        ValueError: a wrong setting, or not a file of a rank network.
    """

    def __init__(
        self,
        network: nn.Module | str | Path | None = None,
        points: Sequence[float] | Literal["game", "classes"] | None = None,
        exchange: Literal["net", "hand"] | None = None,
        device: str | None = None,
    ) -> None:
        network = PRETRAINED if network is None else network
        self.network = nets.load_or_move(network, load, device)
        own = play_settings(network) if isinstance(network, (str, Path)) else ("game", "hand")
        self._points = _checked_points(own[0] if points is None else points)
        self._exchange = _checked_exchange(own[1] if exchange is None else exchange)

    def _place_values(self, view: Game) -> npt.NDArray[np.float64]:
        """Return the values of the places in a game."""
        if self._points is None:
            return class_values(games_left(view))
        return self._points

    def _predict(self, view: Game, afters: Afterstates) -> npt.NDArray[np.float64]:
        """Return the probabilities of the viewer's places, `[n, 5]`.

        A network with the history as input sees the moves before the decision but not the plays of
        the action itself, of which an afterstate keeps only the first. In training, the last play
        of an action is the decision and the plays before it are moves: see `history.decisions`.
        """
        if afters[0]["hand"] == 0:
            return np.eye(N_PLAYERS)[[view["n_out"]]]
        n, games = len(afters), np.empty(1, GAME)
        games[0] = view
        players, actions = np.full(n, view["turn"]), np.full(n, view["n_actions"])
        moments = Moments(games, np.zeros(n, np.int64), players, actions)
        return predict(self.network, afters, moments).astype(np.float64)

    def _values(self, view: Game, afters: Afterstates) -> npt.NDArray[np.float64]:
        """Return the values of afterstates for the viewer."""
        return self._predict(view, afters) @ self._place_values(view)

    def values(self, view: Game) -> tuple[Afterstates, npt.NDArray[np.float64]]:
        """Return the afterstates of all actions and their values, `[n]`, in points.

        If an action empties the hand, its afterstate is the only one and has the value of the next
        place. In the exchange actions are the gifts, in the order of `expect`.

        Args:
            view: the view of the player in turn.
        """
        afters, _ = _actions(check_turn(view))
        return afters, self._values(view, afters)

    def expect(self, view: Game) -> tuple[Words, npt.NDArray[np.float64]]:
        """Return the actions and the probabilities of the places after each of them.

        Args:
            view: the view of the player in turn.

        Returns:
            The first play of each action, or in the exchange the cards given, `uint64[n]`; and the
            probabilities `[n, 5]`. Several actions may start with the same play.
        """
        afters, actions = _actions(check_turn(view))
        return actions, self._predict(view, afters)

    def choose_play(self, view: Game) -> int:
        """Return the first play of the best action."""
        afters = afterstates(view)
        if (afters["play"] == afters["play"][0]).all():  # also if an action empties the hand
            return int(afters["play"][0])
        won = won_duel(view)
        if won >= 0:
            return int(won)
        return int(afters["play"][self._values(view, afters).argmax()])

    def choose_gift(self, view: Game, n: int) -> int:
        """Return the gift that leaves the best hand."""
        if self._exchange == "hand":
            return int(gift(view["hands"][view["turn"]], n))
        afters, gifts = gift_afterstates(view)
        return int(gifts[self._values(view, afters).argmax()])


def _actions(view: Game) -> tuple[Afterstates, Words]:
    """Return the afterstates of all actions, and their first plays or gifts."""
    if view["to_give"] > 0:
        return gift_afterstates(view)
    afters = afterstates(view)
    return afters, afters["play"].astype(np.uint64)


def play_settings(path: str | Path) -> tuple[Any, str]:
    """Return the points and the exchange that a file's metadata name, or else the default ones.

    Raises:
        OSError: the file cannot be read.
        ValueError: another program's file, or the metadata are wrong.
    """
    metadata = nets.metadata(path)
    points, exchange = metadata.get("points", "game"), metadata.get("exchange", "hand")
    try:
        _checked_points(points)
        return points, _checked_exchange(exchange)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _checked_exchange(exchange: Any) -> str:
    """Return the rule of the exchange; raise ValueError if it is not one."""
    if not isinstance(exchange, str) or exchange not in ("net", "hand"):
        raise ValueError(f"exchange must be 'net' or 'hand', got {shown(exchange)}")
    return exchange


def _checked_points(points: Any) -> npt.NDArray[np.float64] | None:
    """Return the values of the places, or None for `"classes"`; raise ValueError otherwise."""
    if isinstance(points, str) and points in ("game", "classes"):
        return None if points == "classes" else np.array(POINTS)
    values = as_array(points, np.float64)
    if values.shape != (N_PLAYERS,) or not np.isfinite(values).all():
        raise ValueError(f"points must be 'game', 'classes' or five numbers, got {shown(points)}")
    return values
