"""N-tuple networks: the value of an afterstate as a sum of table entries.

A *tuple* is a set of cells; the exponents on them are the index into the tuple's table of weights.
Each tuple is read on all symmetric boards, so that a board of 4x4 has 8 entries a tuple, and the
value is the sum of all entries (Szubert and Jaskowski 2014; the four six-tuples: Wu et al. 2014).

    0  1  2  3        the tuples of 4x6:
    4  5  6  7          {0 1 2 3 4 5}   {4 5 6 7 8 9}
    8  9 10 11          {0 1 2 4 5 6}   {4 5 6 8 9 10}
    12 13 14 15

A six-tuple's table has 16**6 weights, 64 MiB: 4x6 takes 256 MiB, and learning 512 MiB more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np
import numpy.typing as npt
from numba import float32, int8, int64, njit, types, uint64, void

from afterstate.agents import files
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.intrinsics import extract, prefetch
from afterstate.envs.game2048.rules import (
    Word,
    Words,
    afterstates,
    check_size,
    check_words,
    field,
    symmetries,
    table,
)

TUPLES: dict[str, tuple[tuple[int, ...], ...]] = {
    "4x6": ((0, 1, 2, 3, 4, 5), (4, 5, 6, 7, 8, 9), (0, 1, 2, 4, 5, 6), (4, 5, 6, 8, 9, 10)),
}
"""Named sets of tuples."""

Weights = npt.NDArray[np.float32]
Value: TypeAlias = Any  # a float32, as numba has it
Indices = npt.NDArray[np.int64]


class Network(NamedTuple):
    """An N-tuple network for boards of one size, in the form that kernels take.

    Its weights are shared with whoever holds it: a learner changes them in place.
    """

    weights: Weights  # of all tables, one after the other
    masks: Words  # the cells of each tuple, as ones in their nibbles
    starts: Indices  # where the table of each tuple starts
    moves: Words  # the move table
    size: tuple[int, int]  # rows and columns of the board
    symmetric: int  # how many symmetric boards there are: 8, or 4 if the board is not square

    @property
    def tuples(self) -> list[list[int]]:
        """The cells of each tuple, on 4x4 cells row by row."""
        return [
            [cell for cell in range(16) if mask >> 4 * cell & 1] for mask in self.masks.tolist()
        ]


def network(
    tuples: str | Sequence[Sequence[int]] = "4x6", size: tuple[int, int] = (4, 4)
) -> Network:
    """A network with all weights zero.

    Args:
        tuples: a name of `TUPLES`, or the cells of each tuple, numbered on 4x4 cells row by row.
        size: rows and columns of the board.

    Raises:
        ValueError: not a size, an unknown name, no tuple, or a tuple that is empty, has more than
            seven cells, a cell twice or a cell off the board.
    """
    size = check_size(*size)
    if isinstance(tuples, str) and tuples not in TUPLES:
        raise ValueError(f"tuples are a list of cells or one of {list(TUPLES)}, got {tuples!r}")
    chosen = TUPLES[tuples] if isinstance(tuples, str) else tuples
    if not isinstance(chosen, Sequence) or len(chosen) == 0:
        raise ValueError(f"tuples are a list of at least one list of cells, got {tuples!r}")
    on_board = [cell for cell in range(16) if field(*size) >> 4 * cell & 1]
    for cells in chosen:
        if not 1 <= len(cells) <= 7 or len(set(cells)) < len(cells) or set(cells) - set(on_board):
            raise ValueError(
                f"a tuple on {size[0]}x{size[1]} cells has 1 to 7 different ones of {on_board}, "
                f"got {list(cells)}"
            )
    masks = [sum(15 << 4 * int(cell) for cell in cells) for cells in chosen]
    lengths = [16 ** len(cells) for cells in chosen]
    return Network(
        weights=np.zeros(sum(lengths), np.float32),
        masks=np.array(masks, np.uint64),
        starts=np.cumsum([0, *lengths[:-1]]).astype(np.int64),
        moves=table(*size),
        size=size,
        symmetric=8 if size[0] == size[1] else 4,
    )


NETWORK = numba.typeof(network([[0]]))
"""The numba type of a network."""


@njit(void(NETWORK, uint64, int64[::1], int64), cache=True)
def look_up(net: Network, board: Word, indices: Indices, at: int) -> None:
    """Writes the entries of a board, all tuples of one symmetric board after the other.

    They are asked for in advance, so that a sum over them soon after does not wait for memory.
    """
    boards = symmetries(board, net.size[0], net.size[1])
    for symmetry in range(8):  # a fixed number of rounds, which the compiler can lay out
        if symmetry == net.symmetric:
            break
        for t in range(net.masks.size):
            index = net.starts[t] + np.int64(extract(boards[symmetry], net.masks[t]))
            indices[at] = index
            prefetch(net.weights, index)
            at += 1


@njit(float32(float32[::1], int64[::1], int64, int64), cache=True)
def total(weights: Weights, indices: Indices, at: int, n: int) -> Value:
    """The sum of `n` entries from `at` on; `n` is a multiple of 4."""
    a = b = c = d = np.float32(0)  # four sums at once do not wait for each other
    for k in range(at, at + n, 4):
        a += weights[indices[k]]
        b += weights[indices[k + 1]]
        c += weights[indices[k + 2]]
        d += weights[indices[k + 3]]
    return (a + b) + (c + d)


@njit(
    types.Tuple((int64, uint64, int64, float32))(NETWORK, uint64, int64[::1]),
    cache=True,
)
def best_move(net: Network, board: Word, indices: Indices) -> tuple[int, Word, int, Value]:
    """The legal move with the largest reward plus value, the first among equals.

    Args:
        net: the network.
        board: a board word.
        indices: room for the entries of four boards; those of action `a` start at `a` times the
            entries of a board.

    Returns:
        Action, afterstate, reward, and reward plus value; action -1 and 0 if no move is legal.
    """
    boards, rewards = afterstates(board, net.moves)
    n = net.symmetric * net.masks.size
    for action in range(4):
        if boards[action] != board:
            look_up(net, boards[action], indices, action * n)
    best, best_value = -1, np.float32(-np.inf)
    for action in range(4):
        if boards[action] != board:
            value = np.float32(rewards[action]) + total(net.weights, indices, action * n, n)
            if value > best_value:
                best, best_value = action, value
    if best < 0:
        return -1, board, 0, np.float32(0)
    return best, boards[best], rewards[best], best_value


@njit(void(NETWORK, uint64[::1], float32[::1]), cache=True)
def _estimate(net: Network, boards: Words, values: Weights) -> None:
    """The value of every board: see `estimate`."""
    n = net.symmetric * net.masks.size
    indices = np.empty(n, np.int64)
    for i in range(boards.size):
        look_up(net, boards[i], indices, 0)
        values[i] = total(net.weights, indices, 0, n)


def estimate(net: Network, boards: Any) -> Weights:
    """The values of afterstates `uint64[...]`, as a new `float32[...]`."""
    words = check_words(boards, *net.size)
    values = np.empty(words.shape, np.float32)
    _estimate(net, words.reshape(-1), values.reshape(-1))
    return values


@njit(void(NETWORK, uint64[::1], int8[::1]), cache=True)
def _act(net: Network, boards: Words, actions: npt.NDArray[np.int8]) -> None:
    """The greedy move of every board; 0 where no move is legal."""
    indices = np.empty(4 * net.symmetric * net.masks.size, np.int64)
    for i in range(boards.size):
        actions[i] = max(0, best_move(net, boards[i], indices)[0])


def pack_network(net: Network) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The header and the arrays of a network's file."""
    return {"tuples": net.tuples, "size": list(net.size)}, {"weights": net.weights}


def unpack_network(
    path: str | Path, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
) -> Network:
    """The network of a file's header and arrays.

    Raises:
        ValueError: they do not fit together.
    """
    try:
        net = network(header["tuples"], tuple(header["size"]))
        if arrays["weights"].shape != net.weights.shape or arrays["weights"].dtype != np.float32:
            raise ValueError("its weights do not fit its tuples")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    return net._replace(weights=arrays["weights"])


def save(net: Network, path: str | Path) -> None:
    """Writes a network to a file that `afterstate.agents.load` reads."""
    files.write(path, "ntuple", *pack_network(net))


def load(path: str | Path) -> Network:
    """The network of a file that `save` or a learner wrote.

    Raises:
        ValueError: not such a file, or a damaged one.
    """
    return unpack_network(path, *files.read(path, "ntuple", only=("weights",)))


class NTupleAgent(Agent):
    """Plays the move with the largest reward plus value of the afterstate (1-ply, greedy)."""

    def __init__(self, net: Network) -> None:
        self.network = net
        self.size = net.size

    def _act(self, boards: Words) -> npt.NDArray[np.int8]:
        actions = np.empty(len(boards), np.int8)
        _act(self.network, boards, actions)
        return actions
