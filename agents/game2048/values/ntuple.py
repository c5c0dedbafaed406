"""N-tuple networks: the value of an afterstate as a sum of table entries.

A *tuple* is a set of cells; their exponents form the index into the tuple's table of weights. Each
tuple is applied to all symmetric boards, so a 4x4 board has 8 entries for each tuple, and its value
is the sum of all entries (Szubert and Jaskowski 2014; the four six-tuples: Wu et al. 2014).

    0  1  2  3        the tuples of 4x6:
    4  5  6  7          {0 1 2 3 4 5}   {4 5 6 7 8 9}
    8  9 10 11          {0 1 2 4 5 6}   {4 5 6 8 9 10}
    12 13 14 15

A six-tuple's table has 16**6 weights, 64 MiB: 4x6 takes 256 MiB, and learning 512 MiB more.

The entries of a table are in Z-order: see `bit_planes.py`.

A network may have *stages*, each with its own tables, selected by the board's large tiles (Wu et
al. 2014). With *promotion* (Jaskowski 2016) a weight that was never changed takes the value and the
learning rate of the same weight one stage before. Weights are floats, or *fixed-point* numbers of
32 bits, 10 of them for the fraction (Matsuzaki 2017). A *pruned* network, for play only, has few of
its weights: see `pruned.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.kernels import inlined, kernel, prefetch
from afterstate.agents.game2048.values.bit_planes import (
    cells_mask,
    symmetries,
    table_index,
    to_planes,
)
from afterstate.agents.game2048.values.tuple_constants import (
    called_if_generic,
    has_blocks,
    has_constants,
    has_fixed_point,
    n_tuples,
    table_start,
    tuple_mask,
)
from afterstate.envs.game2048 import games
from afterstate.envs.game2048.rules import (
    LOW_BITS,
    afterstates,
    check_size,
    check_words,
    downgrade,
    field,
    largest,
    table,
)
from afterstate.envs.words import Word, Words, whole

TUPLES: dict[str, tuple[tuple[int, ...], ...]] = {
    "4x6": ((0, 1, 2, 3, 4, 5), (4, 5, 6, 7, 8, 9), (0, 1, 2, 4, 5, 6), (4, 5, 6, 8, 9, 10)),
    "5x6": (
        *((0, 1, 2, 3, 4, 5), (4, 5, 6, 7, 8, 9), (8, 9, 10, 11, 12, 13)),
        *((0, 1, 2, 4, 5, 6), (4, 5, 6, 8, 9, 10)),
    ),
    "8x6": (
        *((0, 1, 2, 4, 5, 6), (4, 5, 6, 7, 8, 9), (0, 1, 2, 3, 4, 5), (2, 3, 4, 5, 6, 9)),
        *((0, 1, 2, 5, 9, 10), (3, 4, 5, 6, 7, 8), (1, 3, 4, 5, 6, 7), (0, 1, 4, 8, 9, 10)),
    ),
    "5x4": ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 4, 5), (1, 2, 5, 6), (5, 6, 9, 10)),
}
"""Named sets of tuples: 4x6 by Wu et al. 2014, 5x6 and 5x4 by Jaskowski 2016, 8x6 by Matsuzaki 2017
as in TDL2048. 5x4, lines and squares, is added to any of the others as a redundant encoding that
generalizes early (Jaskowski 2016)."""

STAGES = (512, 1024, 2048, 4096, 8192, 16384, 32768)
"""The tiles that begin the stages 2 to 8 of Matsuzaki (2017); the first stage ends with 256."""

FEW_TUPLES = 4
"""Networks with more tuples prefetch the entries of all moves before they look up the first."""

FRACTION = 1024
"""The integer that a fixed-point weight of 1 is stored as."""

BLOCK_BITS = 8
"""Logarithm of the number of weights in a block of a pruned network."""

Kind = Literal["float", "fixed", "pruned"]
"""How a network stores its weights."""

Weights = npt.NDArray[np.float32]
Value = np.float32
Indices = npt.NDArray[np.int64]


def _masks(tuples: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return each tuple's cells, as ones in all bit planes."""
    return tuple(cells_mask(cells) for cells in tuples)


class Network(NamedTuple):
    """An N-tuple network for boards of one size, as kernels take it.

    Its weights are shared, not copied: a learner changes them in place.
    """

    weights: Weights  # of all tables, concatenated, stage after stage; empty if pruned
    fixed: npt.NDArray[np.int32]  # the same memory as integers if fixed-point; else empty
    blocks: npt.NDArray[np.uint32]  # if pruned the place in `levels` of each block; else empty
    levels: npt.NDArray[np.int16]  # if pruned the weights of its blocks, in steps; else empty
    step: float  # a level of 1 as a value
    masks: Words  # the cells of each tuple, as ones in all bit planes
    starts: Indices  # the index of each tuple's table in its stage
    stages: Indices  # the start of a stage's weights, by `_stage_key`
    stage_size: int  # weights of a stage; if pruned those of whole blocks
    moves: Words  # the move table
    size: tuple[int, int]  # rows and columns of the board
    symmetric: int  # number of symmetric boards looked up: 8, 4 if not square, or 1
    promote: bool  # True: a weight of 0 has the value of the one a stage before
    downgrade: int  # boards are downgraded below this exponent; 16: none is

    @property
    def tuples(self) -> list[list[int]]:
        """Return the cells of each tuple, numbered on 4x4 cells row by row."""
        return [[cell for cell in range(16) if mask >> cell & 1] for mask in self.masks.tolist()]

    @property
    def stage_tiles(self) -> list[int]:
        """Return the tiles, or sums of tiles, that begin a new stage."""
        begins: list[int] = _KEY_TILES[1:][np.diff(self.stages) > 0].tolist()
        return begins

    @property
    def n_entries(self) -> int:
        """Return the number of entries that a board's value is the sum of."""
        return self.symmetric * self.masks.size

    @property
    def n_weights(self) -> int:
        """Return the number of weights in all stages, of a pruned network before pruning."""
        return self.n_weights_of_stage * (1 + len(self.stage_tiles))

    @property
    def n_weights_of_stage(self) -> int:
        """Return the number of weights of one stage."""
        return sum(16 ** len(cells) for cells in self.tuples)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the arguments with which `network` makes such a network without weights."""
        return {
            "tuples": self.tuples,
            "size": self.size,
            "stages": self.stage_tiles,
            "promote": bool(self.promote),
            "symmetric": self.symmetric > 1,
            "fixed_point": self.fixed.size > 0,
            "downgrade": None if self.downgrade == 16 else 1 << self.downgrade,
        }

    @property
    def is_pruned(self) -> bool:
        """Return True if the network has few of its weights, and can play but not learn."""
        return self.blocks.size > 0

    @property
    def values(self) -> Weights:
        """Return the weights as floats, converted if they are fixed-point."""
        return np.float32(1 / FRACTION) * self.fixed if self.fixed.size else self.weights


class Network4x6(Network):
    """A network of the tuples 4x6, which kernels are compiled for: see `tuple_constants.py`."""

    __slots__ = ()
    compiled_masks = _masks(TUPLES["4x6"])


class Network5x6(Network):
    """A network of the tuples 5x6, which kernels are compiled for."""

    __slots__ = ()
    compiled_masks = _masks(TUPLES["5x6"])


class Network8x6(Network):
    """A network of the tuples 8x6, which kernels are compiled for."""

    __slots__ = ()
    compiled_masks = _masks(TUPLES["8x6"])


class Network4x6With5x4(Network):
    """A network of the tuples 4x6+5x4, which kernels are compiled for."""

    __slots__ = ()
    compiled_masks = _masks(TUPLES["4x6"] + TUPLES["5x4"])


class Network8x6With5x4(Network):
    """A network of the tuples 8x6+5x4, which kernels are compiled for."""

    __slots__ = ()
    compiled_masks = _masks(TUPLES["8x6"] + TUPLES["5x4"])


class FixedNetwork4x6(Network4x6):
    """A network of the tuples 4x6 with fixed-point weights."""

    __slots__ = ()
    compiled_fixed = True


class FixedNetwork5x6(Network5x6):
    """A network of the tuples 5x6 with fixed-point weights."""

    __slots__ = ()
    compiled_fixed = True


class FixedNetwork8x6(Network8x6):
    """A network of the tuples 8x6 with fixed-point weights."""

    __slots__ = ()
    compiled_fixed = True


class PrunedNetwork4x6(Network4x6):
    """A pruned network of the tuples 4x6."""

    __slots__ = ()
    compiled_pruned = True


class PrunedNetwork8x6(Network8x6):
    """A pruned network of the tuples 8x6."""

    __slots__ = ()
    compiled_pruned = True


class PrunedNetwork8x6With5x4(Network8x6With5x4):
    """A pruned network of the tuples 8x6+5x4."""

    __slots__ = ()
    compiled_pruned = True


_FLOAT = (Network4x6, Network5x6, Network8x6, Network4x6With5x4, Network8x6With5x4)
_FIXED = (FixedNetwork4x6, FixedNetwork5x6, FixedNetwork8x6)
_PRUNED = (PrunedNetwork4x6, PrunedNetwork8x6, PrunedNetwork8x6With5x4)

_COMPILED: dict[tuple[tuple[int, ...], Kind], type[Network]] = {
    **{(each.compiled_masks, "float"): each for each in _FLOAT},
    **{(each.compiled_masks, "fixed"): each for each in _FIXED},
    **{(each.compiled_masks, "pruned"): each for each in _PRUNED},
}


def network(
    tuples: str | Sequence[Sequence[int]] = "4x6",
    size: tuple[int, int] = (4, 4),
    *,
    stages: Sequence[int] = (),
    promote: bool = False,
    symmetric: bool = True,
    fixed_point: bool = False,
    downgrade: int | None = None,
    start_value: float = 0.0,
) -> Network:
    """Return a new network, zero or with equal weights in its first stage.

    Args:
        tuples: a name of `TUPLES`, several joined by `+`, or the cells of each tuple, numbered on
            4x4 cells row by row.
        size: rows and columns of the board.
        stages: the tiles that begin a new stage, such as `STAGES`; by default one stage. A sum of
            tiles from 2048 on begins one where all of them are on the board, or a larger one:
            16384 + 8192 (Wu et al. 2014).
        promote: if True, a weight of 0 in a later stage has the value of the stage before.
        symmetric: if True, tuples are applied to all symmetric boards.
        fixed_point: if True, weights are integers of 32 bits, in 1024ths.
        downgrade: boards with this tile or a larger one are downgraded before they are valued: all
            tiles above the largest missing tile are halved, until none is as large (Guei, Chen
            and Wu 2021); by default no board is.
        start_value: the initial value of every board, optimistic if it is large (Guei, Chen and Wu
            2021). Without promotion all stages start from it. It pays off in long forward
            learning, or with restart and random moves; backward learning alone soon undoes it.

    Raises:
        ValueError: a wrong size; an unknown name, no tuple, or a tuple that is empty, has more than
            seven cells, a cell twice or a cell off the board; tiles not ascending in 4..32768, or
            not tiles or sums of different ones; a start value beyond the weights' range; a flag
            that is not a bool.
    """
    _check_flag("fixed_point", fixed_point)
    net = network_without_weights(
        "fixed" if fixed_point else "float",
        tuples,
        size,
        stages=stages,
        promote=promote,
        symmetric=symmetric,
        downgrade=downgrade,
    )
    weights = np.zeros(net.n_weights, np.float32)
    net = net._replace(weights=weights, fixed=weights.view(np.int32) if fixed_point else net.fixed)
    _set_start_value(net, start_value)
    return net


def network_without_weights(
    kind: Kind,
    tuples: str | Sequence[Sequence[int]],
    size: tuple[int, int],
    *,
    stages: Sequence[int] = (),
    promote: bool = False,
    symmetric: bool = True,
    downgrade: int | None = None,
) -> Network:
    """Return a network that lacks the arrays of its weights.

    Args:
        kind: how they will be stored.
        tuples: see `network`, also for the others.
        size: rows and columns of the board.
        stages: the tiles that begin a new stage.
        promote: True for a network with promotion.
        symmetric: True if tuples are applied to all symmetric boards.
        downgrade: the tile from which on boards are downgraded.

    Raises:
        ValueError: see `network`.
    """
    if not isinstance(size, Sequence) or len(size) != 2:
        raise ValueError(f"size must be rows and columns, got {size!r}")
    size = check_size(*size)
    _check_flag("promote", promote)
    _check_flag("symmetric", symmetric)
    masks = _masks(_check_tuples(tuples, size))
    lengths = [16 ** (mask.bit_count() // 4) for mask in masks]
    begins = _check_stages(stages)
    n_symmetric = (8 if size[0] == size[1] else 4) if symmetric else 1
    of_class = _COMPILED.get((masks, kind), Network) if n_symmetric == 8 else Network
    if kind == "pruned":
        lengths = [max(length, 1 << BLOCK_BITS) for length in lengths]
    stage_size = sum(lengths)
    return of_class(
        weights=np.empty(0, np.float32),
        fixed=np.empty(0, np.int32),
        blocks=np.empty(0, np.uint32),
        levels=np.empty(0, np.int16),
        step=1.0,
        masks=np.array(masks, np.uint64),
        starts=np.cumsum([0, *lengths[:-1]]).astype(np.int64),
        stages=np.searchsorted(begins, _KEY_TILES, side="right") * np.int64(stage_size),
        stage_size=stage_size,
        moves=table(*size),
        size=size,
        symmetric=n_symmetric,
        promote=bool(promote),
        downgrade=16 if downgrade is None else _check_tile("downgrade", downgrade),
    )


def n_weights(
    tuples: str | Sequence[Sequence[int]], size: tuple[int, int], stages: Sequence[int] = ()
) -> int:
    """Return the number of weights of a network, in all its stages.

    >>> n_weights("4x6", (4, 4)) == 4 * 16**6
    True

    Raises:
        ValueError: see `network`.
    """
    cells = _check_tuples(tuples, check_size(*size))
    n: int = sum(16 ** len(each) for each in cells) * (1 + len(_check_stages(stages)))
    return n


def _set_start_value(net: Network, value: float) -> None:
    """Set the weights so that every board has this value."""
    if not isinstance(value, (int, float, np.number)) or isinstance(value, bool):
        raise ValueError(f"start_value must be a number, got {value!r}")
    weight = value / net.n_entries * (FRACTION if net.fixed.size else 1)
    if not abs(weight) < 2**31:
        raise ValueError(f"start_value must be within the weights' range, got {value!r}")
    if value:
        memory = net.fixed if net.fixed.size else net.weights
        memory[: net.stage_size if net.promote else None] = (
            round(weight) if net.fixed.size else weight
        )


def _check_tuples(
    tuples: str | Sequence[Sequence[int]], size: tuple[int, int]
) -> Sequence[Sequence[int]]:
    """Return the cells of each tuple: see `network`."""
    names = tuples.split("+") if isinstance(tuples, str) else []
    if not set(names) <= set(TUPLES):
        raise ValueError(f"tuples must be lists of cells or one of {list(TUPLES)}, got {tuples!r}")
    cell_lists = [cells for name in names for cells in TUPLES[name]] if names else tuples
    if not isinstance(cell_lists, Sequence) or isinstance(cell_lists, str) or not len(cell_lists):
        raise ValueError(f"tuples must be at least one list of cells, got {tuples!r}")
    on_board = [cell for cell in range(16) if field(*size) >> 4 * cell & 1]
    for cells in cell_lists:
        each = list(cells) if isinstance(cells, Iterable) else []
        if not 1 <= len(each) <= 7 or any(each.count(c) > 1 or c not in on_board for c in each):
            raise ValueError(
                f"a tuple on a board of {size[0]}x{size[1]} must have 1 to 7 different cells of "
                f"{on_board}, got {cells!r}; named tuples: {list(TUPLES)}"
            )
    return cell_lists


def _check_flag(name: str, flag: bool) -> None:
    """Raise ValueError unless an argument is True or False."""
    if not isinstance(flag, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {flag!r}")


def _check_stages(tiles: Sequence[int]) -> list[int]:
    """Return the tiles that begin stages, or their sums, which must be in ascending order."""
    allowed = _KEY_TILES[2:].tolist()
    in_order = isinstance(tiles, Sequence) and all(whole(tile) in allowed for tile in tiles)
    if not in_order or list(tiles) != sorted(set(tiles)):
        raise ValueError(
            "stages must be tiles in 4..32768, or sums of different tiles in 2048..32768, "
            f"in ascending order, got {tiles!r}"
        )
    return [int(tile) for tile in tiles]


def _check_tile(name: str, tile: int) -> int:
    """Return the exponent of a tile."""
    allowed = [1 << exponent for exponent in range(2, 16)]
    if whole(tile) not in allowed:
        raise ValueError(f"{name} must be one of the tiles {allowed}, got {tile!r}")
    return int(tile).bit_length() - 1


@inlined
def _stage_key(board: Word) -> int:
    """Return which tiles from 2048 on a board has, as a number from 11 on, or its largest exponent.

    `_KEY_TILES` are the tiles of each number, so a larger number is a larger sum of tiles.
    """
    ones = np.uint64(board)
    twos, fours, eights = ones >> np.uint64(1), ones >> np.uint64(2), ones >> np.uint64(3)
    top = eights & fours & LOW_BITS  # cells from 4096 on
    tiles = int((eights & ~fours & twos & ones & LOW_BITS) != 0)
    tiles |= int((top & ~twos & ~ones) != 0) << 1
    tiles |= int((top & ~twos & ones) != 0) << 2
    tiles |= int((top & twos & ~ones) != 0) << 3
    tiles |= int((top & twos & ones) != 0) << 4
    return tiles + 10 if tiles else largest(board)


_KEY_TILES = np.array([1 << e for e in range(11)] + [n << 11 for n in range(1, 32)])


@inlined
def stage_start(net: Network, board: Word) -> Word:
    """Return the start of the weights of a board's stage."""
    if net.stages[-1] == 0:
        return np.uint64(0)
    start: Word = np.uint64(net.stages[_stage_key(board)])
    return start


@inlined
def symmetric_planes(net: Network, board: Word) -> tuple[tuple[Word, ...], Word]:
    """Return the bit planes of a board's symmetric boards, and the start of its stage's weights."""
    if net.downgrade < 16:
        board = downgrade(board, net.downgrade)
    planes = symmetries(to_planes(board), net.size[0], net.size[1])
    return planes, stage_start(net, board)


@inlined
def is_last(net: Network, symmetry: int) -> bool:
    """Return True if there are no symmetric boards from number `symmetry` on.

    Loops run over all 8, a constant number, so that the compiler unrolls them.
    """
    return not has_constants(net) and symmetry == net.symmetric


@inlined
def index_of(net: Network, stage: Word, planes: Word, t: int) -> Word:
    """Return the index of the entry of tuple `t` on one of the symmetric boards.

    It is unsigned, because numba tests a signed one for being negative at every access.
    """
    index: Word = stage + table_start(net, t) + table_index(planes, tuple_mask(net, t))
    return index


@inlined
def is_fixed(net: Network) -> bool:
    """Return True if the weights are fixed-point numbers."""
    return has_fixed_point(net) or (not has_constants(net) and net.fixed.size > 0)


@inlined
def is_pruned(net: Network) -> bool:
    """Return True if the network is pruned."""
    return has_blocks(net) or (not has_constants(net) and net.blocks.size > 0)


@kernel
def look_up(net: Network, board: Word, indices: Indices) -> None:
    """Write the indices of a board's entries, all tuples of one symmetric board after the other."""
    boards, stage = symmetric_planes(net, board)
    for symmetry in range(8):
        if is_last(net, symmetry):
            break
        for t in range(n_tuples(net)):
            indices[symmetry * n_tuples(net) + t] = index_of(net, stage, boards[symmetry], t)


@inlined
def prefetch_entries(net: Network, board: Word) -> None:
    """Prefetch the entries of a board, so that `value_of` soon after does not wait for memory."""
    called_if_generic(net)
    boards, stage = symmetric_planes(net, board)
    for symmetry in range(8):
        if is_last(net, symmetry):
            break
        for t in range(n_tuples(net)):
            if is_pruned(net):
                prefetch(net.levels, _place_of(net, stage, boards[symmetry], t))
            else:
                prefetch(net.weights, index_of(net, stage, boards[symmetry], t))


@inlined
def _place_of(net: Network, stage: Word, planes: Word, t: int) -> Word:
    """Return the place in the levels of a pruned network of the entry that `index_of` returns."""
    bits = np.uint64(BLOCK_BITS)
    index = table_index(planes, tuple_mask(net, t))
    block = (stage >> bits) + (table_start(net, t) >> bits) + (index >> bits)
    place: Word = np.uint64(net.blocks[block]) + (index & np.uint64((1 << BLOCK_BITS) - 1))
    return place


@inlined
def source(net: Network, index: Word) -> Word:
    """Return the index of an entry's weight: itself, or with promotion the last nonzero one."""
    if net.promote:
        size = np.uint64(net.stage_size)
        if is_fixed(net):
            while net.fixed[index] == 0 and index >= size:
                index -= size
        else:
            while net.weights[index] == 0 and index >= size:
                index -= size
    return index


@inlined
def entry(net: Network, index: Word) -> Value:
    """Return the value of one entry."""
    index = source(net, index)
    if is_fixed(net):
        return np.float32(net.fixed[index]) / np.float32(FRACTION)
    value: Value = net.weights[index]
    return value


@inlined
def _own_entry(net: Network, index: Word) -> Value:
    """Return the value of one entry of a network with constants, or with float weights."""
    if has_fixed_point(net):
        return np.float32(net.fixed[index]) / np.float32(FRACTION)
    value: Value = net.weights[index]
    return value


@kernel
def _indirect_value(net: Network, board: Word) -> Value:
    """Return the value of an afterstate whose weights are promoted, or fixed-point and generic.

    It is called, not inlined, so that `value_of` stays small in the many kernels that contain it.
    """
    boards, stage = symmetric_planes(net, board)
    a = b = c = d = np.float32(0)
    for symmetry in range(8):
        if is_last(net, symmetry):
            break
        for t in range(n_tuples(net)):
            a, b, c, d = b, c, d, a + entry(net, index_of(net, stage, boards[symmetry], t))
    return (a + b) + (c + d)


@inlined
def _pruned_value(net: Network, board: Word) -> Value:
    """Return the value of an afterstate by a pruned network, whose levels are summed exactly."""
    called_if_generic(net)
    boards, stage = symmetric_planes(net, board)
    levels = np.int64(0)
    for symmetry in range(8):
        if is_last(net, symmetry):
            break
        for t in range(n_tuples(net)):
            levels += net.levels[_place_of(net, stage, boards[symmetry], t)]
    return np.float32(levels) * np.float32(net.step)


@inlined
def value_of(net: Network, board: Word) -> Value:
    """Return the value of an afterstate: the sum of its entries."""
    called_if_generic(net)
    if is_pruned(net):
        return _pruned_value(net, board)
    boards, stage = symmetric_planes(net, board)
    if (net.promote and stage > 0) or (not has_constants(net) and is_fixed(net)):
        return _indirect_value(net, board)
    a = b = c = d = np.float32(0)  # four independent sums run in parallel
    for symmetry in range(8):
        if is_last(net, symmetry):
            break
        for t in range(n_tuples(net)):
            a, b, c, d = b, c, d, a + _own_entry(net, index_of(net, stage, boards[symmetry], t))
    return (a + b) + (c + d)


@inlined
def prefetch_moves(net: Network, board: Word) -> tuple[tuple[Word, ...], tuple[int, ...]]:
    """Return the afterstates and rewards of a board's moves, and prefetch their entries.

    Those of few tuples are not prefetched: processors look ahead far enough to overlap them.
    """
    boards, rewards = afterstates(board, net.moves)
    if n_tuples(net) > FEW_TUPLES:
        for action in range(4):
            if boards[action] != board:
                prefetch_entries(net, boards[action])
    return boards, rewards


@inlined
def _better(
    net: Network, board: Word, after: Word, reward: int, action: Any, best: tuple[Any, Value]
) -> tuple[Any, Value]:
    """Return the better one of a move and the best before it, each with reward plus value."""
    if after != board:
        value = np.float32(reward) + value_of(net, after)
        if value > best[1]:
            return action, value
    return best


@inlined
def select_move(
    net: Network, board: Word, boards: tuple[Word, ...], rewards: tuple[int, ...]
) -> tuple[int, Value]:
    """Return the legal move with the largest reward plus value, the first among equals.

    Args:
        net: the network.
        board: a board word.
        boards: its four afterstates.
        rewards: their rewards.

    Returns:
        Action, and reward plus value; -1 and 0 if no move is legal.
    """
    # A loop would choose its move by an indirect jump. Plain numbers are types of their own, for
    # each of which numba would compile `_better` again.
    best: tuple[Any, Value] = np.int64(-1), np.float32(-np.inf)
    best = _better(net, board, boards[0], rewards[0], np.int64(0), best)
    best = _better(net, board, boards[1], rewards[1], np.int64(1), best)
    best = _better(net, board, boards[2], rewards[2], np.int64(2), best)
    best = _better(net, board, boards[3], rewards[3], np.int64(3), best)
    return best[0], best[1] if best[0] >= 0 else np.float32(0)


@kernel
def best_move(net: Network, board: Word) -> tuple[int, Value]:
    """Return the greedy move of a board and its reward plus value: see `select_move`."""
    boards, rewards = prefetch_moves(net, board)
    return select_move(net, board, boards, rewards)


@kernel
def _estimate(net: Network, boards: Words, values: Weights) -> None:
    """Write the value of every board: see `estimate`."""
    for i in range(boards.size):
        values[i] = value_of(net, boards[i])


def estimate(net: Network, boards: Any) -> Weights:
    """Return the values of afterstates `uint64[...]`, as a new `float32[...]`."""
    words = check_words(boards, *net.size)
    values = np.empty(words.shape, np.float32)
    _estimate(net, words.reshape(-1), values.reshape(-1))
    return values


@kernel
def _act(net: Network, boards: Words, actions: npt.NDArray[np.int8]) -> None:
    """Write the greedy move of every board, 0 where no move is legal."""
    for i in range(boards.size):
        actions[i] = max(0, best_move(net, boards[i])[0])


@kernel
def _finish(net: Network, records: Words, n_moves: Indices) -> None:
    """Play games greedily: see `NTupleAgent.finish`."""
    rows, cols = net.size
    for i in range(records.shape[1]):
        while records[games.EXCESS, i] == 0:
            board = records[games.BOARD, i]
            boards, rewards = prefetch_moves(net, board)
            action, _ = select_move(net, board, boards, rewards)
            if action < 0:
                break
            games.play_after(records, i, action, boards[action], rewards[action], rows, cols)
            n_moves[i] += 1
        if n_moves[i] > 0:
            games.look(records, i, rows, cols)


class NTupleAgent(Agent):
    """Plays the move with the largest reward plus value of the afterstate (1-ply, greedy)."""

    def __init__(self, net: Network) -> None:
        self.network = net
        self.size = net.size

    def _act(self, boards: Words) -> npt.NDArray[np.int8]:
        actions = np.empty(len(boards), np.int8)
        _act(self.network, boards, actions)
        return actions

    def finish(self, records: Words) -> Indices:
        """Play games on in compiled code, each to its end or to a 65536 tile.

        Args:
            records: game records `uint64[8, B]`, changed in place.

        Returns:
            The number of moves played in each game, `int64[B]`.
        """
        n_moves = np.zeros(records.shape[1], np.int64)
        if type(self)._act is not NTupleAgent._act:
            return n_moves  # a subclass with other moves
        _finish(self.network, records, n_moves)
        return n_moves
