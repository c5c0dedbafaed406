"""Analyses of what policy networks have learned (Matsuzaki and Teramura 2018).

- *Filters* of the first layer are 2x2 cells of 16 planes: weights `[filters, 4, 16]`, of the cells
  north-west, north-east, south-west and south-east, for an empty cell and the tiles 2 to 32768.
- *Contributions* are the shares of an output that come from each unit. A unit adds up `x_i w_i`;
  input i has the share `|x_i w_i| / sum_j |x_j w_j|` of it. From one output back, layer by layer,
  the share of a unit is divided among its inputs; biases do not count. A unit is written `(column,
  row)#filter`, all from 0.
- *Agreement* counts on how many boards networks choose the same move; *disagreements* are the
  boards on which they differ most.
- *Heuristics* are two rules of good play that a network may have learned: a largest tile stays in a
  corner, and tiles descend along an edge from there.

Networks are a `Sequential` called `body` of padding, convolutions, ReLU, and linear layers, such as
`policy_net.PolicyCNN`. `tables.py` and `drawing.py` show the results.
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

PAPER_BOARDS = {
    "x2": "8192 4096 2048 1024 / _ _ _ _ / 8 16 32 8 / 16 8 _ _",
    "x1": "4096 2048 1024 512 / _ _ _ _ / 4 8 16 4 / 8 4 _ _",
    "x0.5": "2048 1024 512 256 / _ _ _ _ / 2 4 8 2 / 4 2 _ _",
    "5a": "_ 4096 2048 128 / _ 4 16 32 / 2 16 32 16 / 8 2 2 4",
    "5b": "2 2 2 _ / 16 16 4 4 / 32 64 128 256 / 2048 4096 2048 1024",
}
"""Boards of Matsuzaki and Teramura, as `rules.from_text` reads them.

Those of figure 5 are as printed. Of figure 4 only the description is known: large tiles along the
first row, the second row empty, and the same with tiles twice and half as large. The first three
are such boards with lower rows of our own; `concentration.py` draws many others."""

Floats = npt.NDArray[np.float64]


def first_layer(net: nn.Module) -> npt.NDArray[np.float32]:
    """Return the weights of the first convolution, `float32[filters, 4, 16]`.

    Raises:
        ValueError: the network does not begin with filters of 2x2 cells of 16 planes.
    """
    convolutions = (layer for layer in net.modules() if isinstance(layer, nn.Conv2d))
    first = next(convolutions, None)
    if first is None or first.weight.shape[1:] != (16, 2, 2):
        raise ValueError("the network does not begin with filters of 2x2 cells of 16 planes")
    weights = first.weight.detach().cpu().float().permute(0, 2, 3, 1)
    filters: npt.NDArray[np.float32] = weights.reshape(-1, 4, 16).numpy()
    return filters


def filters_above(
    weights: npt.NDArray[np.float32], threshold: float = 0.1
) -> npt.NDArray[np.int64]:
    """Return the numbers of filters with more than x weights above a threshold: figure 3.

    Args:
        weights: `[filters, 4, 16]`.
        threshold: of absolute values; the paper does not state its threshold.

    Returns:
        `int64[65]`, for x from 0 to 64, in descending order.
    """
    n_large = (np.abs(weights) > threshold).sum((1, 2))
    counts: npt.NDArray[np.int64] = (n_large > np.arange(65)[:, None]).sum(1)
    return counts


def most_similar(weights: npt.NDArray[np.float32], pattern: Floats) -> tuple[int, int, float]:
    """Return the filter that is most similar to a pattern, under any of the eight symmetries.

    Args:
        weights: `[filters, 4, 16]`.
        pattern: `[4, 16]`.

    Returns:
        Number of the filter, number of the symmetry, and the cosine similarity, at most 1.
    """
    lengths = np.linalg.norm(weights, axis=(1, 2)) * np.linalg.norm(pattern)
    cosines = np.einsum("sfcv,cv->fs", symmetric(weights), pattern)
    cosines /= np.maximum(lengths, 1e-12)[:, None]
    filter_, symmetry = np.unravel_index(cosines.argmax(), cosines.shape)
    return int(filter_), int(symmetry), float(cosines.max())


def symmetric(filters: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return filters `[..., 4, 16]` under the eight symmetries, `[8, ..., 4, 16]`.

    The symmetries are in the order of `torch_rules.symmetries`.
    """
    square = filters.reshape(*filters.shape[:-2], 2, 2, filters.shape[-1])
    four = (square, square[..., ::-1, :], square[..., ::-1, :, :], square[..., ::-1, ::-1, :])
    eight = (*four, *(each.swapaxes(-3, -2) for each in four))
    return np.stack(eight).reshape(8, *filters.shape)


class Unit(NamedTuple):
    """A unit of a layer, all numbers from 0."""

    column: int
    row: int
    filter: int

    def __str__(self) -> str:
        """Return the unit as the paper writes it."""
        return f"({self.column}, {self.row})#{self.filter}"


class _Layer(NamedTuple):
    """A layer with weights, and its inputs on a board."""

    weights: Tensor  # absolute values, [outputs, inputs] or [outputs, inputs, 2, 2]
    x: Tensor  # absolute inputs, with their padding
    shape: tuple[int, ...]  # of the inputs without padding, [filters, rows, columns]


def _body(net: nn.Module) -> nn.Sequential:
    """Return the layers of a network in order."""
    body = getattr(net, "body", None)
    if not isinstance(body, nn.Sequential):
        raise ValueError("the network must have a `body` that is a Sequential")
    return body


def _check(layer: nn.Module) -> None:
    """Raise ValueError if contributions cannot be traced through a layer."""
    if isinstance(layer, nn.ZeroPad2d):
        is_plain = layer.padding[0] == layer.padding[2] == 0
    elif isinstance(layer, nn.Conv2d):
        options = layer.stride, layer.padding, layer.dilation, layer.groups
        is_plain = options == ((1, 1), (0, 0), (1, 1), 1)
    else:
        is_plain = isinstance(layer, (nn.Linear, nn.ReLU, nn.Flatten, nn.Identity))
    if not is_plain:
        raise ValueError(f"contributions cannot be traced through {layer}")


def _layers(net: nn.Module, board: Tensor) -> list[_Layer]:
    """Return the layers with weights, with their inputs on a board."""
    layers, x = [], planes(board[None])
    shape = x.shape[1:]
    with torch.inference_mode():
        for layer in _body(net):
            _check(layer)
            if isinstance(layer, nn.Flatten) and x.shape[1:] != shape:
                raise ValueError("contributions cannot be traced through padding before Flatten")
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                units = tuple(shape) if len(shape) == 3 else (*shape, 1, 1)
                layers.append(_Layer(layer.weight.double().abs(), x[0].double().abs(), units))
            x = layer(x)
            if not isinstance(layer, (nn.Flatten, nn.ZeroPad2d)):
                shape = x.shape[1:]
    return layers


def _input_shares(layer: _Layer, shares: Tensor) -> Tensor:
    """Return the shares of a layer's inputs, given those of its outputs."""
    weights, x, (_, rows, columns) = layer
    if weights.ndim == 2:
        sums = weights @ x
        return (x * (_quotient(shares.flatten(), sums) @ weights)).reshape(layer.shape)
    sums = conv2d(x[None], weights)
    padded = x * conv_transpose2d(_quotient(shares[None], sums), weights)[0]
    return padded[:, :rows, :columns]  # the padding has no share


def _quotient(shares: Tensor, sums: Tensor) -> Tensor:
    """Return shares divided by sums, 0 where a sum is 0."""
    return torch.where(sums > 0, shares / sums.clamp(min=1e-30), 0.0)


def _keep_largest(shares: Tensor, n: int | None) -> Tensor:
    """Return the shares with all but the `n` largest set to 0."""
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
    """Return the contributions of units to an output of a network.

    Args:
        net: a network on the CPU, without an activation after its last layer.
        board: a board word.
        output: number of the output, for a policy network the action.
        n_layers: number of layers to go back; by default to the planes of the board.
        followed: for each layer, the last one first, the number of inputs that are traced further,
            those with the largest shares; None, and by default, all. The paper followed 28 units of
            the network with two layers.

    Returns:
        The shares `float64[filters, rows, columns]` of the inputs of each layer, the last layer
        first. Those of the last layer add up to 1 unless all its inputs are 0.

    Raises:
        ValueError: the network is not a sequence of layers, or has no such output.
    """
    layers = _layers(net, torch_rules.from_words(np.array(board, np.uint64)))[::-1]
    if not 0 <= output < len(layers[0].weights):
        raise ValueError(f"output must be in 0..{len(layers[0].weights) - 1}, got {output}")
    shares = torch.zeros(len(layers[0].weights), 1, 1, dtype=torch.float64)
    shares[output] = 1.0
    result = []
    for i, layer in enumerate(layers[:n_layers]):
        shares = _input_shares(layer, shares)
        result.append(shares.numpy().copy())
        shares = _keep_largest(shares, followed[i] if i < len(followed) else None)
    return result


def top_units(shares: Floats, n: int) -> list[tuple[Unit, float]]:
    """Return the `n` units with the largest shares, and the shares; units without one are left out.

    Args:
        shares: `[filters, rows, columns]`.
        n: number of units.
    """
    order = np.argsort(-shares, axis=None, kind="stable")[:n]
    units = []
    for place in order:
        filter_, row, column = (int(each) for each in np.unravel_index(place, shares.shape))
        if shares[filter_, row, column] > 0:
            units.append((Unit(column, row, filter_), float(shares[filter_, row, column])))
    return units


class Agreement(NamedTuple):
    """Numbers of boards on which networks choose the same move, and on which one differs."""

    n: int
    all_agree: int
    only: list[int]  # for each network, where it alone differs from all others, which agree


def agreement(moves: Tensor) -> Agreement:
    """Return the numbers of boards on which networks agree.

    Args:
        moves: `int64[networks, n]` of at least two networks. Of two networks, each differs alone
            wherever they differ.

    Raises:
        ValueError: fewer than two networks.
    """
    if len(moves) < 2:
        raise ValueError("agreement needs at least two networks")
    only = []
    for i, own in enumerate(moves):
        others = torch.cat((moves[:i], moves[i + 1 :]))
        only.append(int(((others == others[0]).all(0) & (own != others[0])).sum()))
    return Agreement(moves.shape[1], int((moves == moves[0]).all(0).sum()), only)


def legal_probabilities(net: nn.Module, boards: Tensor) -> Tensor:
    """Return the probabilities among the legal moves, `float32[n, 4]`; 0 for illegal moves.

    Args:
        net: a policy network.
        boards: `int64[n]`.
    """
    odds = torch.where(torch_rules.legal(boards), probabilities(net, boards).to(boards.device), 0.0)
    return odds / odds.sum(1, keepdim=True).clamp(min=1e-30)


def disagreements(alone: nn.Module, others: Sequence[nn.Module], boards: Tensor, n: int) -> Tensor:
    """Return the boards on which a network differs most surely from others that agree.

    The margin of a network is the probability of its own move minus that of the other side's move.
    A board counts by the smallest margin of all networks.

    Args:
        alone: a policy network.
        others: at least one other.
        boards: `int64[m]`.
        n: the largest number of boards to return.

    Returns:
        Indices of `boards`, `int64[n]` or fewer.
    """
    probabilities_, *rest = (legal_probabilities(net, boards) for net in (alone, *others))
    own, other = (each.argmax(1, keepdim=True) for each in (probabilities_, rest[0]))
    margin = probabilities_.gather(1, own) - probabilities_.gather(1, other)
    for each in rest:
        opposite = each.gather(1, other) - each.gather(1, own)
        agrees = each.argmax(1, keepdim=True) == other
        margin = torch.where(agrees, torch.minimum(margin, opposite), 0.0)
    order = margin[:, 0].argsort(descending=True, stable=True)[:n]
    return order[margin[order, 0] > 0]


def keeps_corner(boards: Tensor) -> Tensor:
    """Return True where a largest tile is in a corner, `bool[...]`."""
    cells = exponents(boards)
    corners = cells[..., ::3, ::3].flatten(-2)
    return corners.amax(-1) == cells.flatten(-2).amax(-1)


def descends(boards: Tensor) -> Tensor:
    """Return True where tiles descend along an edge from a largest tile in a corner, `bool[...]`.

    None of the edge's four tiles is larger than the one before, and the first three cells are not
    empty.
    """
    views = torch_rules.symmetries(boards)  # the eight edges with their directions
    edges = exponents(views)[..., 0, :]
    largest = exponents(boards).flatten(-2).amax(-1)
    falls = (edges[..., :-1] >= edges[..., 1:]).all(-1) & (edges[..., 2] > 0)
    return (falls & (edges[..., 0] == largest[..., None])).any(-1)


HEURISTICS = {"corner": keeps_corner, "edge": descends}
"""The two heuristics of the paper: functions that return True where a heuristic holds."""


class Obedience(NamedTuple):
    """Rates at which moves obey a heuristic, on boards where some legal moves do and some not."""

    n: int  # number of such boards
    obeyed: float  # share of the given moves that obey it
    by_chance: float  # the same of random moves


def obedience(heuristic: str, boards: Tensor, moves: Tensor) -> Obedience:
    """Return the rate of moves whose afterstates obey a heuristic of `HEURISTICS`.

    Args:
        heuristic: name of the heuristic.
        boards: `int64[n]`.
        moves: `int64[n]`, legal moves.
    """
    afters, _ = torch_rules.afterstates(boards)
    legal = afters != boards[:, None]
    good = HEURISTICS[heuristic](afters) & legal
    choice = good.any(1) & (legal & ~good).any(1)
    shares = good.sum(1) / legal.sum(1).clamp(min=1)
    obeys = good.gather(1, moves[:, None])[:, 0]
    n = int(choice.sum())
    means = (float(x[choice].double().mean()) if n else float("nan") for x in (obeys, shares))
    return Obedience(n, *means)


def activations(net: nn.Module, boards: Tensor) -> list[Tensor]:
    """Return the planes of boards and the outputs of each ReLU, `float32[n, units]`.

    Args:
        net: on the CPU.
        boards: `int64[n]`.
    """
    x, outputs = planes(boards), [planes(boards).flatten(1)]
    with torch.inference_mode():
        for layer in _body(net):
            x = layer(x)
            if isinstance(layer, nn.ReLU):
                outputs.append(x.flatten(1).clone())
    return outputs


def probe(
    units: Tensor, labels: Tensor, test_units: Tensor, test_labels: Tensor, decay: float = 1e-2
) -> float:
    """Return the area under the ROC curve of a linear function of units that predicts labels.

    It is fitted by ridge regression and tested on boards of other games, because boards of one game
    are similar: 0.5 is chance, 1 is perfect.

    Args:
        units: `float32[n, units]`, to which it is fitted.
        labels: `bool[n]`.
        test_units: `float32[m, units]`, on which it is tested.
        test_labels: `bool[m]`.
        decay: weight decay, as a share of the units' mean square.

    Returns:
        The area; nan if all test labels are the same.
    """
    x, test_x = (torch.cat((each, torch.ones(len(each), 1)), 1) for each in (units, test_units))
    products = x @ x.T  # of rows: most layers have more units than there are boards
    products.diagonal().add_(decay * products.diagonal().sum() / x.shape[1])
    weights = x.T @ torch.linalg.solve(products, 2.0 * labels.float() - 1)
    return _area(test_x @ weights, test_labels)


def _area(scores: Tensor, labels: Tensor) -> float:
    """Return the share of pairs of a true and a false label in which the true one scores higher."""
    n_true, n_false = int(labels.sum()), int((~labels).sum())
    if not n_true or not n_false:
        return float("nan")
    _, places, counts = scores.unique(return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0) - (counts - 1) / 2).double()[places]
    return float((ranks[labels].sum() - n_true * (n_true + 1) / 2) / (n_true * n_false))
