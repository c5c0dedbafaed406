"""Value networks of 2048: the expected score still to come, from the planes of an afterstate.

CNN22 is the best network of Matsuzaki (2021, "Developing value networks for game 2048 with
reinforcement learning"), also used in the search of Watanabe and Matsuzaki. Its input is 16 planes,
one of the empty cells and one for each tile from 2 to 32768; two convolutions of 2x2 without
padding and three dense layers follow.

    net = network("CNN22")
    values = net(planes(torch_rules.start((8,), generator)))     # float32[8]
    agents.make("value-net", network="mine.safetensors", depth=2).act(words)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import linear

from afterstate.agents import nets
from afterstate.agents.config import Count, Positive, checked, current_names
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.values.planes import N_PLANES, planes
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.game2048.rules import P_FOUR, P_TWO, check_words
from afterstate.envs.game2048.torch_rules import LOW_BITS, afterstates, occupied
from afterstate.envs.messages import listed, shown
from afterstate.envs.words import Words

MAX_DEPTH = 3
Depth = Annotated[Count, Field(le=MAX_DEPTH)]
MAX_VALUE = 1e30
"""Largest value of an afterstate, in points; outputs of a network may overflow."""

CHUNK = 4096
"""Boards in a batch of a search and a network on the CPU, on a GPU 16 times as many; bounds the
memory that they take."""

PRETRAINED = Path(__file__).parents[1] / "pretrained" / "value.safetensors"
"""The file of the pretrained network."""

Output = Literal["relu", "identity"]


class Conv2x2(nn.Conv2d):
    """A convolution of 2x2 cells without padding, of batches `[n, n_in, rows, columns]`.

    On a CPU it is a product of matrices, the patches and the filters. The results are those of
    torch's convolution but for rounding. With the few cells and many planes of CNN22 it takes half
    of the time; larger planes, as policy networks have, would take longer.

    Args:
        n_in: planes of the input.
        n_out: planes of the output.
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__(n_in, n_out, 2)

    def forward(self, planes: Tensor) -> Tensor:
        """Return the planes `[n, n_out, rows - 1, columns - 1]`."""
        if planes.device.type != "cpu":
            return super().forward(planes)
        cells = planes.movedim(1, -1)
        rows = cells[:, :-1], cells[:, 1:]
        of_patch = [part for row in rows for part in (row[:, :, :-1], row[:, :, 1:])]
        patches = torch.stack(of_patch, -1).flatten(-2)  # in the order of a filter's weights
        return linear(patches, self.weight.flatten(1), self.bias).movedim(-1, 1)


class CNN22(nn.Module):
    """Two convolutions of 2x2 and three dense layers: 2,902,273 parameters, 9.21 MFLOP a board.

    Maps planes `[n, 16, 4, 4]` to values `[n]`. Initial weights are normal as in He et al. (2015),
    initial biases 0.

    Args:
        output: the last activation: `"relu"` as in the figure of Matsuzaki (2021), which may die in
            learning because its gradient is 0 where it is 0, or `"identity"`.

    Raises:
        ValueError: another output.
    """

    def __init__(self, output: Output = "identity") -> None:
        super().__init__()
        if output not in get_args(Output):
            raise ValueError(
                f"output must be one of {listed(get_args(Output))}, got {shown(output)}"
            )
        self.settings = {"output": output}
        self.body = nn.Sequential(
            Conv2x2(N_PLANES, 256),  # [n, 256, 3, 3]
            nn.ReLU(inplace=True),
            Conv2x2(256, 512),  # [n, 512, 2, 2]
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(2048, 1024),
            nn.ReLU(inplace=True),
            nn.Linear(1024, 256),
            nn.ReLU(inplace=True),
            nn.Linear(256, 1),
            nn.ReLU() if output == "relu" else nn.Identity(),
        )
        self.apply(nets.he_init)

    def forward(self, planes: Tensor) -> Tensor:
        """Return the values `[n]` of planes `[n, 16, 4, 4]`; the last layer uses float32.

        Large values in bfloat16 are too coarse to distinguish moves.
        """
        values: Tensor = nets.in_float32(self.body[-2:], self.body[:-2](planes))
        return values[:, 0]


NETWORKS: dict[str, type[nn.Module]] = {"CNN22": CNN22}
"""Network classes by name."""


def network(name: str, **settings: Any) -> nn.Module:
    """Return a new network of `NETWORKS`: see `nets.network`."""
    return nets.network(NETWORKS, name, **settings)


def load(path: str | Path, device: str = "cpu") -> nn.Module:
    """Return the network of a file: see `nets.load`."""
    return nets.load(path, network, device)


def evaluate(net: nn.Module, boards: Tensor) -> Tensor:
    """Return the outputs of a network for boards, `float32[n]`, not yet scaled to points.

    Args:
        net: computes in bfloat16 under `torch.autocast`.
        boards: `int64[n]`, on the device of the network.

    Raises:
        ValueError: the outputs have another shape.
    """
    with torch.inference_mode():
        parts = [net(planes(part)).float() for part in boards.split(_chunk_size(boards))]
        return nets.checked_outputs(torch.cat(parts), (len(boards),))


def _chunk_size(boards: Tensor) -> int:
    """Return the batch size on the device of these boards."""
    return 16 * CHUNK if boards.is_cuda else CHUNK


def outcomes(afters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return all boards that a new tile makes of afterstates, none of which is full.

    Args:
        afters: `int64[n]`.

    Returns:
        `[m]` each: the boards, the index of each one's afterstate, and its probability.
    """
    empty = occupied(afters) ^ LOW_BITS
    shifts = torch.arange(0, 64, 4, device=afters.device)
    origins, cells = ((empty[:, None] >> shifts) & 1).nonzero(as_tuple=True)
    tiles = torch.ones_like(cells) << shifts[cells]
    boards = torch.cat((afters[origins] | tiles, afters[origins] | tiles << 1))
    each = 1 / torch.bincount(origins, minlength=len(afters)).float()[origins]
    return boards, origins.repeat(2), torch.cat((P_TWO * each, P_FOUR * each))


def scale_of(path: str | Path) -> float:
    """Return the value scale in a file's metadata; 1 if there is none.

    Raises:
        OSError: the file cannot be read.
        ValueError: another program's file, a damaged one, or a scale that is not a number > 0.
    """
    scale = current_names(nets.metadata(path)).get("value_scale", 1.0)
    if type(scale) not in (int, float) or not 0 < scale <= sys.float_info.max:
        raise ValueError(f"{path}: value_scale must be a number of points > 0, got {shown(scale)}")
    return float(scale)


class ValueNetAgent(Agent):
    """Plays the move with the largest reward plus value of the afterstate, or by expectimax search.

    The search has no cutoff and goes level by level: the boards of a level form one batch, with
    equal afterstates merged, so that the network evaluates thousands at a time.

    Args:
        network: a network that maps planes `[n, 16, 4, 4]` to values `[n]`, or its file; by default
            the pretrained one.
        depth: depth of the search in moves of the player, 1 (greedy) to 3.
        device: device of the network, such as `"cuda"`; by default its own, and the CPU for a file.
        value_scale: points for each 1 of the network's output; by default that of its file, or 1.
        bf16: if True, the network computes in bfloat16: up to three times as fast on a processor
            with instructions for it (AVX512-BF16, AMX), far slower on others.
        symmetric: if True, a value is the mean over the eight symmetric boards: stronger, and eight
            times as slow.

    Raises:
        OSError: the file cannot be read.
        ValueError: a wrong setting, or not a file of a value network.
    """

    def __init__(
        self,
        network: nn.Module | str | Path | None = None,
        depth: int = 1,
        device: str | None = None,
        value_scale: float | None = None,
        bf16: bool = False,
        symmetric: bool = False,
    ) -> None:
        network = PRETRAINED if network is None else network
        if value_scale is None:
            value_scale = scale_of(network) if isinstance(network, (str, Path)) else 1.0
        self.depth: int = checked("depth", depth, Depth)
        self.value_scale: float = checked("value_scale", value_scale, Positive)
        self._bf16: bool = checked("bf16", bf16, bool)
        self._symmetric: bool = checked("symmetric", symmetric, bool)
        self.network = nets.load_or_move(network, load, device)

    def evaluate(self, boards: Any) -> npt.NDArray[np.float64]:
        """Return the values of the moves up, right, down and left of board words `uint64[...]`.

        Returns:
            The expected score still to come `float64[..., 4]`, minus infinity for illegal moves.
        """
        array = check_words(boards, *self.size)
        values = self._values(array.reshape(-1)).detach().cpu().numpy().astype(np.float64)
        return values.reshape(*array.shape, 4)

    def estimate(self, boards: Any) -> npt.NDArray[np.float64]:
        """Return the network's values of afterstates `uint64[...]` in points, `float64[...]`."""
        array, device = check_words(boards, *self.size), nets.device_of(self.network)
        words = torch_rules.from_words(array.reshape(-1), device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self._bf16):
            values = self._network_values(words)
        return values.cpu().numpy().astype(np.float64).reshape(array.shape)

    def choose_actions(self, boards: Words) -> npt.NDArray[np.int8]:
        """Return the moves `int8[B]` of the largest value."""
        best: npt.NDArray[np.int8] = self._values(boards).argmax(1).to(torch.int8).cpu().numpy()
        return best

    def _values(self, boards: Words) -> Tensor:
        """Return the values of the moves of board words, `float32[n, 4]`."""
        device = nets.device_of(self.network)
        with torch.autocast(device.type, torch.bfloat16, enabled=self._bf16):
            return self._move_values(torch_rules.from_words(boards, device), self.depth)

    def _move_values(self, boards: Tensor, depth: int) -> Tensor:
        """Return the values of the moves of boards, `float32[n, 4]`, by a search of `depth`."""
        afters, rewards = afterstates(boards)
        legal = afters != boards[:, None]
        values = torch.full(afters.shape, -torch.inf, device=boards.device)
        values[legal] = rewards[legal] + self._afterstate_values(afters[legal], depth - 1)
        return values

    def _afterstate_values(self, afters: Tensor, depth: int) -> Tensor:
        """Return the values of afterstates, `float32[n]`, by a search of `depth` moves."""
        distinct, inverse = torch.unique(afters, return_inverse=True)
        if depth == 0:
            return self._network_values(distinct)[inverse]
        parts = distinct.split(max(1, _chunk_size(distinct) // 16))  # each has some dozen outcomes
        return torch.cat([self._expected(part, depth) for part in parts])[inverse]

    def _network_values(self, afters: Tensor) -> Tensor:
        """Return the network's values of afterstates in points, `float32[n]`."""
        if not self._symmetric:
            return self._in_points(evaluate(self.network, afters))
        symmetry = torch.arange(8, device=afters.device).repeat_interleave(len(afters))
        images = torch_rules.symmetric(afters.repeat(8), symmetry)
        return self._in_points(evaluate(self.network, images)).view(8, -1).mean(0)

    def _in_points(self, outputs: Tensor) -> Tensor:
        """Return outputs of the network in points, at most `MAX_VALUE` on either side.

        NaN, as by overflow inside the network, becomes the least value.
        """
        return (self.value_scale * outputs).nan_to_num(-MAX_VALUE).clamp(-MAX_VALUE, MAX_VALUE)

    def _expected(self, afters: Tensor, depth: int) -> Tensor:
        """Return the mean value of the best moves after a new tile; 0 where the game is over."""
        boards, origins, probabilities = outcomes(afters)
        best = self._move_values(boards, depth).amax(1)
        best = torch.where(best.isinf(), 0.0, best)
        return torch.zeros(len(afters), device=afters.device).index_add_(
            0, origins, probabilities * best
        )
