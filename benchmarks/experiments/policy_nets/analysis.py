"""What happens inside policy networks, as Matsuzaki and Teramura looked at it.

- *Filters* of the first layer are 2x2 cells of 16 planes: weights `[filters, 4, 16]`, of the cells
  north-west, north-east, south-west and south-east, for an empty cell and the tiles 2 to 32768.
- *Contributions* say which units an output comes from. A unit adds up `x_i w_i`; input i has the
  share `|x_i w_i| / sum_j |x_j w_j|` of it. From one output back, layer by layer, what a unit has
  is divided among its inputs in these shares; biases do not count. A unit is called `(column, row)
  #filter`, all from 0.
- *Agreement* counts on how many positions networks choose the same move, and finds those where they
  differ most.
- *Heuristics* are two rules of good play that a network may have learned: a largest tile stays in a
  corner, and tiles descend along an edge from there.

Networks are a `Sequential` called `body` of padding, convolutions, ReLU, and full layers, as
`policy_net.PolicyCNN` is. `inside.py` makes tables and pictures of all this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, conv_transpose2d

from afterstate.agents.game2048.values.planes import planes
from afterstate.agents.game2048.values.policy_net import probabilities
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.game2048.torch_rules import exponents

CELLS = ("NW", "NE", "SW", "SE")
"""The cells of a filter, in order."""

TILES = ("empty", *(str(1 << exponent) for exponent in range(1, 16)))
"""The values of a cell, in order."""

STUDY_BOARDS = {
    "x2": "8192 4096 2048 1024 / _ _ _ _ / 8 16 32 8 / 16 8 _ _",
    "x1": "4096 2048 1024 512 / _ _ _ _ / 4 8 16 4 / 8 4 _ _",
    "x0.5": "2048 1024 512 256 / _ _ _ _ / 2 4 8 2 / 4 2 _ _",
    "5a": "_ 4096 2048 128 / _ 4 16 32 / 2 16 32 16 / 8 2 2 4",
    "5b": "2 2 2 _ / 16 16 4 4 / 32 64 128 256 / 2048 4096 2048 1024",
}
"""Boards of Matsuzaki and Teramura, as `rules.from_text` reads them.

Those of figure 5 are as printed. Of figure 4 only the description is known: large tiles along the
first row, the second row empty, and the same with tiles twice and half as large. The first three
are such boards; their lower rows are ours, and `concentration.py` draws many others."""

Floats = npt.NDArray[np.float64]


# Filters


def first_layer(net: nn.Module) -> npt.NDArray[np.float32]:
    """The weights of the first convolution, `float32[filters, 4, 16]`.

    Raises:
        ValueError: the network does not begin with filters of 2x2 cells of 16 planes.
    """
    convolutions = (layer for layer in net.modules() if isinstance(layer, nn.Conv2d))
    first = next(convolutions, None)
    if first is None or first.weight.shape[1:] != (16, 2, 2):
        raise ValueError("the network does not begin with filters of 2x2 cells of 16 planes")
    weights = first.weight.detach().cpu().float().permute(0, 2, 3, 1)
    found: npt.NDArray[np.float32] = weights.reshape(-1, 4, 16).numpy()
    return found


def filters_above(
    weights: npt.NDArray[np.float32], threshold: float = 0.1
) -> npt.NDArray[np.int64]:
    """How many filters have more than x weights above a threshold, for x from 0 to 64: figure 3.

    Args:
        weights: `[filters, 4, 16]`.
        threshold: of absolute values; the study does not say which it has.

    Returns:
        `int64[65]`, from the largest number down to 0.
    """
    counts = (np.abs(weights) > threshold).sum((1, 2))
    found: npt.NDArray[np.int64] = (counts > np.arange(65)[:, None]).sum(1)
    return found


def most_similar(weights: npt.NDArray[np.float32], pattern: Floats) -> tuple[int, int, float]:
    """The filter that is most like a pattern, seen from any of the eight sides.

    Args:
        weights: `[filters, 4, 16]`.
        pattern: `[4, 16]`.

    Returns:
        The filter, the side of `sides` from which it is like the pattern, and the cosine of the
        angle between the two, at most 1.
    """
    lengths = np.linalg.norm(weights, axis=(1, 2)) * np.linalg.norm(pattern)
    cosines = np.einsum("sfcv,cv->fs", sides(weights), pattern)
    cosines /= np.maximum(lengths, 1e-12)[:, None]
    filter_, side = np.unravel_index(cosines.argmax(), cosines.shape)
    return int(filter_), int(side), float(cosines.max())


def sides(filters: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Filters `[..., 4, 16]` from their eight sides, `[8, ..., 4, 16]`.

    The sides are in the order of `torch_rules.symmetries`.
    """
    square = filters.reshape(*filters.shape[:-2], 2, 2, filters.shape[-1])
    four = (square, square[..., ::-1, :], square[..., ::-1, :, :], square[..., ::-1, ::-1, :])
    eight = (*four, *(each.swapaxes(-3, -2) for each in four))
    return np.stack(eight).reshape(8, *filters.shape)


# Contributions


class Unit(NamedTuple):
    """A unit of a layer, all numbers from 0."""

    column: int
    row: int
    filter: int

    def __str__(self) -> str:
        """As the study writes it."""
        return f"({self.column}, {self.row})#{self.filter}"


class _Layer(NamedTuple):
    """A layer with weights in a network that looks at a board."""

    weights: Tensor  # absolute values, [outputs, inputs] or [outputs, inputs, 2, 2]
    x: Tensor  # its inputs, padded if they are
    shape: tuple[int, ...]  # of these units as the layer before gave them


def _body(net: nn.Module) -> nn.Sequential:
    """The layers of a network, one after the other."""
    body = getattr(net, "body", None)
    if not isinstance(body, nn.Sequential):
        raise ValueError("the network has no `body` of layers one after the other")
    return body


def _check(layer: nn.Module) -> None:
    """Raises a ValueError if shares are not divided here as a layer would have it."""
    if isinstance(layer, nn.ZeroPad2d):
        is_plain = layer.padding[0] == layer.padding[2] == 0
    elif isinstance(layer, nn.Conv2d):
        how = layer.stride, layer.padding, layer.dilation, layer.groups
        is_plain = how == ((1, 1), (0, 0), (1, 1), 1)
    else:
        is_plain = isinstance(layer, (nn.Linear, nn.ReLU, nn.Flatten, nn.Identity))
    if not is_plain:
        raise ValueError(f"contributions are not traced through {layer}")


def _layers(net: nn.Module, board: Tensor) -> list[_Layer]:
    """The layers of a network that have weights."""
    found, x = [], planes(board[None])
    shape = x.shape[1:]
    with torch.inference_mode():
        for layer in _body(net):
            _check(layer)
            if isinstance(layer, nn.Flatten) and x.shape[1:] != shape:
                raise ValueError("contributions are not traced through padding that is made flat")
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                units = tuple(shape) if len(shape) == 3 else (*shape, 1, 1)
                found.append(_Layer(layer.weight.double().abs(), x[0].double().abs(), units))
            x = layer(x)
            if not isinstance(layer, (nn.Flatten, nn.ZeroPad2d)):
                shape = x.shape[1:]
    return found


def _before(layer: _Layer, shares: Tensor) -> Tensor:
    """The shares of a layer's inputs, from those of its outputs `[filters, rows, columns]`."""
    weights, x, (_, rows, columns) = layer
    if weights.ndim == 2:
        sums = weights @ x
        return (x * (_quotient(shares.flatten(), sums) @ weights)).reshape(layer.shape)
    sums = conv2d(x[None], weights)
    found = x * conv_transpose2d(_quotient(shares[None], sums), weights)[0]
    return found[:, :rows, :columns]  # the padding has no share


def _quotient(shares: Tensor, sums: Tensor) -> Tensor:
    """Shares by sums, 0 where nothing is added up."""
    return torch.where(sums > 0, shares / sums.clamp(min=1e-30), 0.0)


def _best(shares: Tensor, n: int | None) -> Tensor:
    """The `n` largest shares where they are, and 0 elsewhere."""
    if n is None or n >= shares.numel():
        return shares
    flat = shares.flatten()
    best = flat.topk(n).indices
    return torch.zeros_like(flat).index_copy(0, best, flat[best]).reshape(shares.shape)


def contributions(
    net: nn.Module,
    board: int,
    output: int,
    n_layers: int | None = None,
    followed: Sequence[int | None] = (),
) -> list[Floats]:
    """From which units an output of a network comes.

    Args:
        net: a network on the CPU, without an activation behind its last layer.
        board: a word of `rules.py`.
        output: its number, for a policy network the action.
        n_layers: how many layers to go back; by default to the planes of the board.
        followed: of each layer from the last on, how many of the inputs with the largest shares are
            followed further; None or nothing: all of them. The study followed 28 units of the
            network with two layers.

    Returns:
        The shares `float64[filters, rows, columns]` of the inputs of each layer, from the last one
        back. Those of the last layer add up to 1 unless all its inputs are 0.

    Raises:
        ValueError: the network is not a sequence of layers, or has no such output.
    """
    layers = _layers(net, torch_rules.from_words(np.array(board, np.uint64)))[::-1]
    if not 0 <= output < len(layers[0].weights):
        raise ValueError(f"there are outputs 0 to {len(layers[0].weights) - 1}, not {output}")
    shares = torch.zeros(len(layers[0].weights), 1, 1, dtype=torch.float64)
    shares[output] = 1.0
    found = []
    for i, layer in enumerate(layers[:n_layers]):
        shares = _before(layer, shares)
        found.append(shares.numpy().copy())
        shares = _best(shares, followed[i] if i < len(followed) else None)
    return found


def top_units(shares: Floats, n: int) -> list[tuple[Unit, float]]:
    """The `n` units with the largest shares, and these; units without a share are left out.

    Args:
        shares: `[filters, rows, columns]`.
        n: how many.
    """
    order = np.argsort(-shares, axis=None, kind="stable")[:n]
    found = []
    for place in order:
        filter_, row, column = (int(each) for each in np.unravel_index(place, shares.shape))
        if shares[filter_, row, column] > 0:
            found.append((Unit(column, row, filter_), float(shares[filter_, row, column])))
    return found


# Agreement


class Agreement(NamedTuple):
    """On how many boards networks choose the same move."""

    n: int
    all_agree: int
    only: list[int]  # each network alone chooses another move than all others, who agree


def agreement(chosen: Tensor) -> Agreement:
    """Counts on how many boards networks agree.

    Args:
        chosen: `int64[networks, n]`, at least two networks. With two of them, each is alone where
            they differ.

    Raises:
        ValueError: fewer networks.
    """
    if len(chosen) < 2:
        raise ValueError("agreement is between at least two networks")
    only = []
    for i, mine in enumerate(chosen):
        others = torch.cat((chosen[:i], chosen[i + 1 :]))
        only.append(int(((others == others[0]).all(0) & (mine != others[0])).sum()))
    return Agreement(chosen.shape[1], int((chosen == chosen[0]).all(0).sum()), only)


def legal_chances(net: nn.Module, boards: Tensor) -> Tensor:
    """The probabilities of moves if only the legal ones count, `float32[n, 4]`; 0 of the others.

    Args:
        net: a policy network.
        boards: `int64[n]`.
    """
    odds = torch.where(torch_rules.legal(boards), probabilities(net, boards).to(boards.device), 0.0)
    return odds / odds.sum(1, keepdim=True).clamp(min=1e-30)


def disagreements(alone: nn.Module, others: Sequence[nn.Module], boards: Tensor, n: int) -> Tensor:
    """The boards on which a network differs most surely from others that agree.

    How sure a network is, is how much more probable its own move is to it than that of the other
    side; what counts is the least sure of all.

    Args:
        alone: a policy network.
        others: at least one.
        boards: `int64[m]`.
        n: how many.

    Returns:
        Places in `boards`, `int64[n]` or fewer.
    """
    mine, *theirs = (legal_chances(net, boards) for net in (alone, *others))
    own, other = (each.argmax(1, keepdim=True) for each in (mine, theirs[0]))
    least = mine.gather(1, own) - mine.gather(1, other)
    for each in theirs:
        surer = each.gather(1, other) - each.gather(1, own)
        agrees = each.argmax(1, keepdim=True) == other
        least = torch.where(agrees, torch.minimum(least, surer), 0.0)
    order = least[:, 0].argsort(descending=True, stable=True)[:n]
    return order[least[order, 0] > 0]


# Heuristics


def keeps_corner(boards: Tensor) -> Tensor:
    """Whether a largest tile stands in a corner, `bool[...]`."""
    cells = exponents(boards)
    corners = cells[..., ::3, ::3].flatten(-2)
    return corners.amax(-1) == cells.flatten(-2).amax(-1)


def descends(boards: Tensor) -> Tensor:
    """Whether from a largest tile in a corner tiles descend along an edge, `bool[...]`.

    Each of the edge's four tiles is at most as large as the one before, and the third is there.
    """
    views = torch_rules.symmetries(boards)  # the eight edges with their directions
    edges = exponents(views)[..., 0, :]
    largest = exponents(boards).flatten(-2).amax(-1)
    falls = (edges[..., :-1] >= edges[..., 1:]).all(-1) & (edges[..., 2] > 0)
    return (falls & (edges[..., 0] == largest[..., None])).any(-1)


HEURISTICS = {"corner": keeps_corner, "edge": descends}
"""The study's two heuristics, by name: whether boards obey them."""


class Obedience(NamedTuple):
    """How often moves obey a heuristic where there is a choice."""

    n: int  # boards on which some legal moves obey and some do not
    obeyed: float  # the share of moves chosen there that do
    by_chance: float  # and of random ones


def obedience(heuristic: str, boards: Tensor, chosen: Tensor) -> Obedience:
    """How often moves obey a heuristic of `HEURISTICS`, by the afterstates they lead to.

    Args:
        heuristic: its name.
        boards: `int64[n]`.
        chosen: `int64[n]`, legal moves.
    """
    afters, _ = torch_rules.afterstates(boards)
    legal = afters != boards[:, None]
    good = HEURISTICS[heuristic](afters) & legal
    choice = good.any(1) & (legal & ~good).any(1)
    shares = good.sum(1) / legal.sum(1).clamp(min=1)
    kept = good.gather(1, chosen[:, None])[:, 0]
    n = int(choice.sum())
    means = (float(x[choice].double().mean()) if n else float("nan") for x in (kept, shares))
    return Obedience(n, *means)


def activations(net: nn.Module, boards: Tensor) -> list[Tensor]:
    """The planes of boards and the outputs of each ReLU, `float32[n, units]`.

    Args:
        net: on the CPU.
        boards: `int64[n]`.
    """
    x, found = planes(boards), [planes(boards).flatten(1)]
    with torch.inference_mode():
        for layer in _body(net):
            x = layer(x)
            if isinstance(layer, nn.ReLU):
                found.append(x.flatten(1).clone())
    return found


def probe(
    units: Tensor, answers: Tensor, others: Tensor, theirs: Tensor, decay: float = 1e-2
) -> float:
    """How well a linear function of units tells a yes from a no: the area under its ROC curve.

    It is fitted by ridge regression to the boards of some games, and judged by those of others,
    because boards of one game are much alike: 0.5 is chance, 1 is perfect.

    Args:
        units: `float32[n, units]`, to which it is fitted.
        answers: `bool[n]`.
        others: `float32[m, units]`, by which it is judged.
        theirs: `bool[m]`, the answers to these.
        decay: of the weights, as a share of the units' mean square.

    Returns:
        The area, nan if one answer does not occur among those by which it is judged.
    """
    x, asked = (torch.cat((each, torch.ones(len(each), 1)), 1) for each in (units, others))
    products = x @ x.T  # of rows: most layers have more units than there are boards
    products.diagonal().add_(decay * products.diagonal().sum() / x.shape[1])
    weights = x.T @ torch.linalg.solve(products, 2.0 * answers.float() - 1)
    return _area(asked @ weights, theirs)


def _area(scores: Tensor, answers: Tensor) -> float:
    """The share of pairs of a yes and a no in which the yes has the larger score."""
    n_yes, n_no = int(answers.sum()), int((~answers).sum())
    if not n_yes or not n_no:
        return float("nan")
    _, places, counts = scores.unique(return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0) - (counts - 1) / 2).double()[places]
    return float((ranks[answers].sum() - n_yes * (n_yes + 1) / 2) / (n_yes * n_no))
