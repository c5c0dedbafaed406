"""Value networks of 2048: the score still to come, from the planes of an afterstate.

CNN22 is the network that Matsuzaki (2021, "Developing value networks for game 2048 with
reinforcement learning") found best, as Watanabe and Matsuzaki use it in their search. A position is
16 planes, one of the empty cells and one for each tile from 2 to 32768; two convolutions of 2x2
without padding look at what is adjacent, three full layers put it together.

    net = network("CNN22")
    values = net(planes(torch_rules.start((8,), generator)))     # float32[8]
    agents.make("value-net", net="mine.safetensors", depth=2).act(words)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.values.planes import N_PLANES, planes
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.game2048.rules import check_words
from afterstate.envs.game2048.torch_rules import LOW_BITS, afterstates, occupied
from afterstate.envs.words import Words, whole

MAX_DEPTH = 3

CHUNK = 4096
"""Boards that a search looks at and a network judges at a time, on a GPU 16 times as many.

It bounds the memory that they take."""

PRETRAINED = Path(__file__).parents[1] / "pretrained" / "value.safetensors"
"""The trained network in the package."""


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
        self.apply(nets.he)

    def forward(self, planes: Tensor) -> Tensor:
        """The values `[n]` of planes `[n, 16, 4, 4]`, whose last layer always has 32 bits.

        With 16 bits large values would differ in steps that are larger than what moves differ in.
        """
        values: Tensor = nets.in_32_bits(self.body[-2:], self.body[:-2](planes))
        return values[:, 0]


NETWORKS: dict[str, type[nn.Module]] = {"CNN22": CNN22}
"""The networks by name."""


def network(name: str, **settings: Any) -> nn.Module:
    """A new network of `NETWORKS`: see `nets.network`."""
    return nets.network(NETWORKS, name, **settings)


def load(path: str | Path, device: str = "cpu") -> nn.Module:
    """The network of a file: see `nets.load`."""
    return nets.load(path, network, device)


# Search


def evaluate(net: nn.Module, boards: Tensor) -> Tensor:
    """What a network says of boards, `float32[n]`, in its unit.

    Args:
        net: calculates with 16 bits if it is called under `torch.autocast`.
        boards: `int64[n]`, where the network is.
    """
    with torch.inference_mode():
        return torch.cat([net(planes(part)).float() for part in boards.split(_chunk(boards))])


def _chunk(boards: Tensor) -> int:
    """How many boards are looked at at a time where these are."""
    return 16 * CHUNK if boards.is_cuda else CHUNK


def outcomes(afters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The boards that chance makes of afterstates that are not full.

    Args:
        afters: `int64[n]`.

    Returns:
        All boards, the number of the afterstate that each is of, and its probability, `[m]` each.
    """
    empty = occupied(afters) ^ LOW_BITS
    shifts = torch.arange(0, 64, 4, device=afters.device)
    origins, cells = ((empty[:, None] >> shifts) & 1).nonzero(as_tuple=True)
    tiles = torch.ones_like(cells) << shifts[cells]
    boards = torch.cat((afters[origins] | tiles, afters[origins] | tiles << 1))
    chances = 1 / torch.bincount(origins, minlength=len(afters)).float()[origins]
    return boards, origins.repeat(2), torch.cat((0.9 * chances, 0.1 * chances))


class ValueNetAgent(Agent):
    """Plays the move with the largest reward plus value of the afterstate, or that of a search.

    The search is expectimax without a cut-off, level by level: all boards of a level stand side by
    side, equal afterstates once, and the network is asked for thousands of values at a time; a
    choice with 3 moves takes that many.

    Args:
        net: a network that maps planes `[n, 16, 4, 4]` to values `[n]`, or its file; by default the
            one in the package.
        depth: how many moves of the player it looks ahead, 1 (greedy) to 3.
        device: where it calculates; by default a network stays where it is, that of a file is on
            the CPU.
        unit: what 1 of the network is in points; by default what its file says, or 1.
        mixed: whether the network calculates with 16 bits (bfloat16): twice as fast on a processor
            that has instructions for it (AVX512-BF16, AMX), far slower on others.
        symmetric: whether a value is the mean of those of the eight symmetric boards: slower by as
            much, and stronger.

    Raises:
        OSError: the file cannot be read.
        ValueError: a wrong setting, or another file.
    """

    def __init__(
        self,
        net: nn.Module | str | Path = PRETRAINED,
        depth: int = 1,
        device: str | None = None,
        unit: float | None = None,
        mixed: bool = False,
        symmetric: bool = False,
    ) -> None:
        if not 1 <= (whole(depth) or 0) <= MAX_DEPTH:
            raise ValueError(f"depth is a number of moves in 1..{MAX_DEPTH}, got {depth!r}")
        told = nets.about(net) if isinstance(net, (str, Path)) else {}
        unit = told.get("unit", 1.0) if unit is None else unit
        if not isinstance(unit, (int, float)) or not 0 < unit < float("inf"):
            raise ValueError(f"unit is a number of points above 0, got {unit!r}")
        if not isinstance(mixed, bool) or not isinstance(symmetric, bool):
            raise ValueError(f"mixed and symmetric are true or false, got {mixed!r}, {symmetric!r}")
        self.depth, self.unit = int(depth), float(unit)
        self._mixed, self._symmetric = mixed, symmetric
        self.net = nets.placed(net, load, device)

    def evaluate(self, boards: Any) -> npt.NDArray[np.float64]:
        """The values of the moves up, right, down and left of board words `uint64[...]`.

        Returns:
            Expected score still to come `float64[..., 4]`, minus infinity where a move is illegal.
        """
        array = check_words(boards, *self.size)
        values = self._values(array.reshape(-1)).detach().cpu().numpy().astype(np.float64)
        return values.reshape(*array.shape, 4)

    def estimate(self, boards: Any) -> npt.NDArray[np.float64]:
        """The values of afterstates `uint64[...]` as the network says them, `float64[...]`."""
        array, device = check_words(boards, *self.size), next(self.net.parameters()).device
        words = torch_rules.from_words(array.reshape(-1), device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self._mixed):
            values = self._said(words)
        return values.cpu().numpy().astype(np.float64).reshape(array.shape)

    def _act(self, boards: Words) -> npt.NDArray[np.int8]:
        best: npt.NDArray[np.int8] = self._values(boards).argmax(1).to(torch.int8).cpu().numpy()
        return best

    def _values(self, boards: Words) -> Tensor:
        """The values of the moves of board words, `float32[n, 4]`."""
        device = next(self.net.parameters()).device
        with torch.autocast(device.type, torch.bfloat16, enabled=self._mixed):
            return self._of_moves(torch_rules.from_words(boards, device), self.depth)

    def _of_moves(self, boards: Tensor, depth: int) -> Tensor:
        """The values of the moves of boards, `float32[n, 4]`, which look `depth` moves ahead."""
        afters, rewards = afterstates(boards)
        legal = afters != boards[:, None]
        values = torch.full(afters.shape, -torch.inf, device=boards.device)
        values[legal] = rewards[legal] + self._of_afterstates(afters[legal], depth - 1)
        return values

    def _of_afterstates(self, afters: Tensor, depth: int) -> Tensor:
        """The values of afterstates, `float32[n]`, with `depth` moves to look ahead."""
        different, places = torch.unique(afters, return_inverse=True)
        if depth == 0:
            return self._said(different)[places]
        parts = different.split(max(1, _chunk(different) // 16))  # each has some dozen outcomes
        return torch.cat([self._expected(part, depth) for part in parts])[places]

    def _said(self, afters: Tensor) -> Tensor:
        """What the network says of afterstates, in points, `float32[n]`."""
        if not self._symmetric:
            return self.unit * evaluate(self.net, afters)
        which = torch.arange(8, device=afters.device).repeat_interleave(len(afters))
        turned = torch_rules.symmetric(afters.repeat(8), which)
        return self.unit * evaluate(self.net, turned).view(8, -1).mean(0)

    def _expected(self, afters: Tensor, depth: int) -> Tensor:
        """What the best moves are worth after chance, on average; 0 where the game is over."""
        boards, origins, chances = outcomes(afters)
        best = self._of_moves(boards, depth).amax(1)
        best = torch.where(best.isinf(), 0.0, best)
        return torch.zeros(len(afters), device=afters.device).index_add_(0, origins, chances * best)
