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

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from afterstate.agents.files import is_finite
from afterstate.agents.game2048.values.bit_planes import cells_mask
from afterstate.envs.checks import as_int
from afterstate.envs.game2048.rules import check_size, check_tile, field, table
from afterstate.envs.messages import listed, shown
from afterstate.envs.words import Float32s, Ints, Words

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
"""Named sets of tuples: 4x6 by Wu et al. 2014, 5x6 and 5x4 by Jaskowski 2016, 8x6 by Matsuzaki 2016
as in TDL2048. 5x4, lines and squares, is added to any of the others as a redundant encoding that
generalizes early (Jaskowski 2016)."""

STAGES = (512, 1024, 2048, 4096, 8192, 16384, 32768)
"""The tiles that begin the stages 2 to 8 of Matsuzaki (2017); the first stage ends with 256."""

FRACTION = 1024
"""The integer that a fixed-point weight of 1 is stored as."""

MAX_TUPLES = 64
"""Tuples of a network, so that a board has at most 512 entries."""

BLOCK_BITS = 7
"""Logarithm of the number of weights in a block of a pruned network."""

Kind = Literal["float", "fixed", "pruned"]
"""Ways in which a network stores its weights."""

_KEY_TILES = np.array([1 << e for e in range(11)] + [n << 11 for n in range(1, 32)])
"""The sum of the tiles of each stage key: see `ntuple._stage_key`."""

Value = np.float32


def _masks(tuples: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return each tuple's cells, as ones in all bit planes."""
    return tuple(cells_mask(cells) for cells in tuples)


class Network(NamedTuple):
    """An N-tuple network for boards of one size, as kernels take it.

    Its weights are shared, not copied: a learner changes them in place.
    """

    weights: Float32s  # of all tables, concatenated, stage after stage; empty if pruned
    fixed: npt.NDArray[np.int32]  # the same memory as integers if fixed-point; else empty
    blocks: npt.NDArray[np.uint32]  # if pruned the place in `levels` of each block; else empty
    levels: npt.NDArray[np.int16]  # if pruned the weights of its blocks, in steps; else empty
    step: float  # a level of 1 as a value
    masks: Words  # the cells of each tuple, as ones in all bit planes
    starts: Ints  # the index of each tuple's table in its stage
    stages: Ints  # the start of a stage's weights, by `_stage_key`
    stage_size: int  # weights of a stage; if pruned those of whole blocks
    move_table: Words  # of `rules.table`
    size: tuple[int, int]  # rows and columns of the board
    symmetric: int  # number of symmetric boards looked up: 8, 4 if not square, or 1
    promote: bool  # True: a weight of 0 has the value of the one a stage before
    downgrade: int  # boards are downgraded below this exponent; 16: none is

    @property
    def tuples(self) -> list[list[int]]:
        """The cells of each tuple, numbered on 4x4 cells row by row."""
        return [[cell for cell in range(16) if mask >> cell & 1] for mask in self.masks.tolist()]

    @property
    def stage_tiles(self) -> list[int]:
        """The tiles, or sums of tiles, that begin a new stage."""
        begins: list[int] = _KEY_TILES[1:][np.diff(self.stages) > 0].tolist()
        return begins

    @property
    def stage_begins(self) -> list[int]:
        """The tiles, or sums of tiles, that begin each stage, 0 for the first one."""
        return [0, *self.stage_tiles]

    @property
    def n_stages(self) -> int:
        """The number of stages."""
        return len(self.stage_begins)

    @property
    def n_entries(self) -> int:
        """The number of entries that a board's value is the sum of."""
        return self.symmetric * self.masks.size

    @property
    def n_weights(self) -> int:
        """The number of weights in all stages, of a pruned network before pruning."""
        return self.n_weights_of_stage * self.n_stages

    @property
    def n_weights_of_stage(self) -> int:
        """The number of weights of one stage."""
        return sum(16 ** len(cells) for cells in self.tuples)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments with which `network` makes such a network without weights."""
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
        """True if the network has few of its weights, and can play but not learn."""
        return self.blocks.size > 0

    @property
    def values(self) -> Float32s:
        """The weights as floats, of a pruned network those of its blocks."""
        if self.is_pruned:
            return np.float32(self.step) * self.levels
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
    start_value_from: int = 0,
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
            2021). Without promotion all stages start from it. In the paper it pays off after some
            1e11 moves of forward learning; backward learning alone soon undoes it.
        start_value_from: the tiles that begin the first stage with this value, those before it are
            zero; by default all have it.

    Raises:
        ValueError: a wrong size; an unknown name, no tuple, or a tuple that is empty, has more than
            seven cells, a cell twice or a cell off the board; tiles not ascending in 4..32768, or
            not tiles or sums of different ones; a start value beyond the weights' range, or
            from tiles that begin no stage; a flag that is not a bool.
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
    _set_start_value(net, start_value, start_value_from)
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
        kind: storage of the weights.
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
        raise ValueError(f"size must be rows and columns, got {shown(size)}")
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
        move_table=table(*size),
        size=size,
        symmetric=n_symmetric,
        promote=bool(promote),
        downgrade=16 if downgrade is None else downgrade_exponent(downgrade),
    )


def check_network(net: Network) -> None:
    """Raise ValueError unless a network fits (see `check_arrays`) and its weights are finite.

    Integers of a fixed-point or a pruned network are finite by their type.
    """
    check_arrays(net)
    if not net.fixed.size and not is_finite(net.weights):
        raise ValueError("network must have finite weights, got NaN or infinite ones")


def check_arrays(net: Network) -> None:
    """Raise ValueError unless a network's class, arrays and numbers fit its tuples and stages.

    Kernels are compiled for the class, and look up weights without a check of their places.
    """
    wrong = [name for name, is_right in _FIELDS.items() if not is_right(getattr(net, name, None))]
    if wrong:
        got = f"other {wrong}" if isinstance(net, Network) else shown(net)
        raise ValueError(f"network must be made by `network` or `load`, got {got}")
    kind: Kind = "pruned" if net.is_pruned else "fixed" if net.fixed.size else "float"
    settings = {name: value for name, value in net.settings.items() if name != "fixed_point"}
    fitting = network_without_weights(kind, **settings)
    fields = ("masks", "starts", "stages", "stage_size", "move_table", "symmetric")
    wrong = [name for name in fields if not _same(getattr(net, name), getattr(fitting, name))]
    if type(net) not in (type(fitting), Network):
        wrong.append("class")
    wrong += _wrong_sizes(net, kind)
    if wrong:
        raise ValueError(f"network must have arrays that fit its tuples, got other {wrong}")


def _row_of(dtype: Any) -> Callable[[Any], bool]:
    """Return a check that a value is an array with one axis, of this type and in C order."""
    return lambda value: (
        isinstance(value, np.ndarray)
        and (value.ndim, value.dtype) == (1, dtype)
        and value.flags.c_contiguous
    )


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "weights": _row_of(np.float32),
    "fixed": _row_of(np.int32),
    "blocks": _row_of(np.uint32),
    "levels": _row_of(np.int16),
    "masks": _row_of(np.uint64),
    "starts": _row_of(np.int64),
    "move_table": lambda value: _row_of(np.uint64)(value) and value.flags.writeable,
    "stages": lambda value: _row_of(np.int64)(value) and value.shape == _KEY_TILES.shape,
    "stage_size": lambda value: type(value) is int,
    "size": lambda value: type(value) is tuple and [type(n) for n in value] == [int, int],
    "symmetric": lambda value: type(value) is int,
    "step": lambda value: isinstance(value, float) and math.isfinite(value),
    "promote": lambda value: type(value) is bool,
    "downgrade": lambda value: type(value) is int and 1 < value <= 16,
}
"""Checks of type and shape, by the field of a network."""


def _wrong_sizes(net: Network, kind: Kind) -> list[str]:
    """Return the names of the arrays with weights that have another size than the tuples need."""
    n = net.n_stages * net.stage_size
    if kind == "pruned":
        n_levels = int(net.blocks.max(initial=0)) + (1 << BLOCK_BITS)
        fits = {"blocks": net.blocks.size == n >> BLOCK_BITS, "levels": net.levels.size >= n_levels}
    else:
        fits = {"weights": net.weights.size == n, "fixed": kind == "float" or net.fixed.size == n}
    return [name for name, is_right in fits.items() if not is_right]


def _same(given: Any, fitting: Any) -> bool:
    """Return True if a field of a network has the values that fit, of the same type."""
    types = np.asarray(given).dtype, np.asarray(fitting).dtype
    return types[0] == types[1] and bool(np.array_equal(given, fitting))


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


def _set_start_value(net: Network, value: float, since: int) -> None:
    """Set the weights so that boards of all stages from some tiles on have this value."""
    begins = net.stage_begins
    if as_int(since) not in begins:
        raise ValueError(f"start_value_from must be one of {begins}, got {shown(since)}")
    number = float(value) if isinstance(value, (float, np.floating)) else as_int(value)
    if number is None:
        raise ValueError(f"start_value must be a number, got {shown(value)}")
    is_small = abs(number) < 2**62
    weight = number / net.n_entries * (FRACTION if net.fixed.size else 1) if is_small else math.inf
    if not abs(weight) < 2**31:
        raise ValueError(f"start_value must be within the weights' range, got {shown(value)}")
    if number:
        memory = net.fixed if net.fixed.size else net.weights
        start = begins.index(since) * net.stage_size
        end = start + net.stage_size if net.promote else None
        memory[start:end] = round(weight) if net.fixed.size else weight


def _check_tuples(tuples: str | Sequence[Sequence[int]], size: tuple[int, int]) -> list[list[int]]:
    """Return the cells of each tuple: see `network`."""
    names = tuples.split("+") if isinstance(tuples, str) else []
    if not set(names) <= set(TUPLES):
        raise ValueError(
            f"tuples must be lists of cells or one of {listed(TUPLES)}, got {shown(tuples)}"
        )
    cell_lists = [cells for name in names for cells in TUPLES[name]] if names else tuples
    if not isinstance(cell_lists, Sequence) or isinstance(cell_lists, str) or not len(cell_lists):
        raise ValueError(f"tuples must be at least one list of cells, got {shown(tuples)}")
    if len(cell_lists) > MAX_TUPLES:
        raise ValueError(f"tuples must be at most {MAX_TUPLES}, got {len(cell_lists)}")
    on_board = [cell for cell in range(16) if field(*size) >> 4 * cell & 1]
    checked = []
    for cells in cell_lists:
        is_list = isinstance(cells, Iterable) and getattr(cells, "ndim", 1) != 0
        each = [as_int(cell) for cell in islice(cells, 8)] if is_list else []
        if not 1 <= len(each) <= 7 or any(each.count(c) > 1 or c not in on_board for c in each):
            raise ValueError(
                "tuples must be lists of 1 to 7 different cells, those of a board of "
                f"{size[0]}x{size[1]} are {on_board}, got {shown(cells)}; named tuples: "
                f"{listed(TUPLES)}"
            )
        checked.append([cell for cell in each if cell is not None])
    return checked


def _check_flag(name: str, flag: bool) -> None:
    """Raise ValueError unless an argument is True or False."""
    if not isinstance(flag, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {shown(flag)}")


def _check_stages(tiles: Sequence[int]) -> list[int]:
    """Return the tiles that begin stages, or their sums, which must be in ascending order."""
    allowed = _KEY_TILES[2:].tolist()
    in_order = isinstance(tiles, Sequence) and all(as_int(tile) in allowed for tile in tiles)
    if not in_order or list(tiles) != sorted(set(tiles)):
        raise ValueError(
            "stages must be tiles in 4..32768, or sums of different tiles in 2048..32768, "
            f"in ascending order, got {shown(tiles)}"
        )
    return [int(tile) for tile in tiles]


def downgrade_exponent(tile: int) -> int:
    """Return the exponent of the tile that `downgrade` names.

    Raises:
        ValueError: it is not a tile in 4..32768.
    """
    return check_tile("downgrade", tile, 32768).bit_length() - 1
