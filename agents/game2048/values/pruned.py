"""Pruned networks: the few weights that play uses most, in blocks of 128.

`afterstate prune` keeps some percent of a network's weights, as *levels*: integers of 16 bits, in
steps of some points. In memory each table is cut into blocks of 128 neighbors, and the blocks in
which any weight was kept are stored whole; the place of each block is in a list of its own, 0 for
those without, whose weights are all 0. With promotion, a block of a later stage without weights of
its own is the one of the stage before, and the others have its weights where they have none of
their own, so play does not have to look for them. Ten million of 673 million weights take 220 MB.
Smaller blocks take less, but their list does not fit in the caches.

Such a network plays. To learn on, or to be pruned again, it is expanded.

A file has, for all tables one after the other, two lists, each compressed by xz: the gaps, bytes,
the number of weights dropped before the next kept one, where 255 stands for 255 dropped and none
kept; and the level after each gap, 16 bits, signed. Files of older versions have the lists
themselves, the levels as two lists of their low and high bytes.
"""

from __future__ import annotations

import lzma
from typing import Any

import numpy as np
import numpy.typing as npt

from afterstate.agents.files import Arrays
from afterstate.agents.game2048.values.ntuple_network import (
    BLOCK_BITS,
    Network,
    check_network,
    network,
)
from afterstate.envs.checks import as_int
from afterstate.envs.words import Ints

BLOCK = 1 << BLOCK_BITS

_NONE = 255
"""A gap without a weight after it."""

_MOST_MEMORY = 1 << 27
"""Bytes that xz may take."""

_MOST_WEIGHTS = 1 << 28
"""Weights of a network that a file may have, however few it keeps: the list of its blocks takes
16 MiB."""

Levels = npt.NDArray[np.int16]


def fill(net: Network, places: Ints, levels: Levels, step: float) -> Network:
    """Return a pruned network with its weights.

    Args:
        net: a network of the kind `pruned` without weights.
        places: the indices of the weights that are not 0, in ascending order; all stages have their
            weights one after the other.
        levels: these weights, in steps.
        step: a level of 1 as a value.

    Raises:
        ValueError: an index is beyond the network.
    """
    if places.size and places[-1] >= net.n_weights:
        raise ValueError("its weights do not match its tuples")
    ends, shifts = _shifts(net)
    if shifts.any():
        places = places + shifts[np.searchsorted(ends, places, "right")]
    is_first = np.diff(places >> BLOCK_BITS, prepend=-1) > 0
    used, which = places[is_first] >> BLOCK_BITS, np.cumsum(is_first, dtype=np.int32) - 1
    n_blocks = net.stage_size // BLOCK
    blocks = np.zeros((net.n_stages, n_blocks), np.uint32)
    all_levels = np.zeros((1 + used.size, BLOCK), np.int16)
    for stage, of_stage in enumerate(blocks):
        if net.promote and stage:
            of_stage[:] = blocks[stage - 1]
        first, end = np.searchsorted(used, [stage * n_blocks, (stage + 1) * n_blocks])
        own = used[first:end] - stage * n_blocks
        all_levels[1 + first : 1 + end] = all_levels[of_stage[own] // BLOCK]
        of_stage[own] = np.arange(1 + first, 1 + end) * BLOCK
        first, end = np.searchsorted(which, [first, end])
        all_levels[1 + which[first:end], places[first:end] % BLOCK] = levels[first:end]
    return net._replace(blocks=blocks.reshape(-1), levels=all_levels.reshape(-1), step=step)


def _shifts(net: Network) -> tuple[Ints, Ints]:
    """Return where each table ends among all weights, and how far those before it are shifted.

    Tables of one cell, of 16 weights, take a block of 128 each.
    """
    lengths = np.tile([16 ** len(cells) for cells in net.tuples], net.n_stages)
    in_blocks = np.maximum(lengths, BLOCK)
    return np.cumsum(lengths), np.cumsum(in_blocks - lengths) - (in_blocks - lengths)


def kept(net: Network) -> tuple[Ints, Levels]:
    """Return the places and the levels of a pruned network's weights: see `fill`.

    With promotion those that are equal to the weight of the stage before are left out.
    """
    levels = net.levels.reshape(-1, BLOCK)
    places, own_levels = [], []
    before = np.zeros(net.stage_size // BLOCK, np.uint32)
    for stage, blocks in enumerate(net.blocks.reshape(-1, before.size)):
        changed = np.flatnonzero(blocks != before)
        row, column = np.nonzero(
            levels[blocks[changed] // BLOCK] != levels[before[changed] // BLOCK]
        )
        places.append(stage * net.stage_size + changed[row] * BLOCK + column)
        own_levels.append(levels[blocks[changed[row]] // BLOCK, column])
        if net.promote:
            before = blocks
    kept_places = np.concatenate(places)
    ends, shifts = _shifts(net)
    if shifts.any():
        kept_places -= shifts[np.searchsorted(ends + shifts, kept_places, "right")]
    return kept_places, np.concatenate(own_levels)


def pack(places: Ints, levels: Levels) -> tuple[int, Arrays]:
    """Return the number of gaps and the arrays of a file: see the module."""
    gaps = np.diff(places, prepend=-1) - 1
    ends = np.cumsum(gaps // _NONE + 1)
    all_gaps = np.full(ends[-1] if places.size else 0, _NONE, np.uint8)
    all_gaps[ends - 1] = gaps % _NONE
    all_levels = np.zeros(all_gaps.size, "<i2")
    all_levels[ends - 1] = levels
    packed = {"gaps": _compress(all_gaps, 0), "levels": _compress(all_levels, 1)}
    return all_gaps.size, packed


def check_sizes(n_gaps: Any, n_weights: int, file_size: int) -> None:
    """Raise ValueError unless a file may have as many gaps and a network as large.

    A file that is read takes memory of at most some hundred times its size, or some 100 MB.

    Args:
        n_gaps: the number of gaps, as the header has it.
        n_weights: number of weights of the network before pruning.
        file_size: bytes of the file.
    """
    most = min(n_weights + n_weights // _NONE, 4 * file_size + (1 << 20))
    if as_int(n_gaps) is None or not 0 <= n_gaps <= most:
        raise ValueError(f"it cannot have {n_gaps!r:.50} gaps")
    if n_weights > max(_MOST_WEIGHTS, 1024 * file_size):
        raise ValueError("its weights do not match its tuples")


def unpack(arrays: Arrays, n_gaps: int | None) -> tuple[Ints, Levels]:
    """Return the places and the levels of a file's weights: see `fill`.

    Args:
        arrays: arrays of the file.
        n_gaps: the number of gaps; None for a file of an older version.

    Raises:
        ValueError: they do not match each other.
    """
    gaps, levels = arrays["gaps"], arrays["levels"]
    if gaps.dtype != np.uint8 or levels.dtype != np.uint8 or gaps.ndim != 1:
        raise ValueError("its gaps and levels are not bytes")
    if n_gaps is None:
        if levels.shape != (2, gaps.size):
            raise ValueError("its gaps and levels do not match")
        levels = np.stack(list(levels), axis=1).reshape(-1)
    else:
        gaps, levels = _decompress(gaps, n_gaps), _decompress(levels, 2 * n_gaps)
    is_kept = gaps < _NONE
    steps = gaps + is_kept.view(np.uint8)  # at most 255
    places = np.cumsum(steps, dtype=np.int64)[is_kept] - 1
    return places, levels.view("<i2")[is_kept]


def _compress(numbers: npt.NDArray[Any], position_bits: int) -> npt.NDArray[np.uint8]:
    """Return numbers of `2**position_bits` bytes, compressed by xz."""
    bits = {"lp": position_bits, "pb": position_bits}
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, **bits}]
    packed = lzma.compress(numbers.tobytes(), lzma.FORMAT_XZ, filters=filters)
    return np.frombuffer(packed, np.uint8)


def _decompress(packed: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of `_compress`, at most `size` of them.

    Raises:
        ValueError: there are more or fewer, or they are damaged.
    """
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, _MOST_MEMORY)
    try:
        numbers = decompressor.decompress(packed.tobytes(), size + 1)
    except lzma.LZMAError as error:
        raise ValueError(f"its lists are damaged: {error}") from error
    if len(numbers) != size or not decompressor.eof or decompressor.unused_data:
        raise ValueError(f"its lists do not have the length {size}")
    return np.frombuffer(numbers, np.uint8)


def check_full(net: Network) -> None:
    """Raise ValueError if a network cannot learn: it is pruned, read-only, or no valid one."""
    check_network(net)
    if not net.weights.flags.writeable:
        raise ValueError("network must have weights that can be written to, got a read-only array")
    if net.is_pruned:
        raise ValueError("the network must have all weights, got a pruned one: see pruned.expand")


def expand(net: Network) -> Network:
    """Return the same network with all its weights: itself if it is not pruned."""
    if not net.is_pruned:
        return net
    full = network(**net.settings)
    places, levels = kept(net)
    full.weights[places] = levels * np.float32(net.step)
    return full
