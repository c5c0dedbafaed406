"""Files of N-tuple networks: all weights, or those that pruning kept.

The entries of a table are in Z-order (`bit_planes.py`). A file of version 1 has them in the order
of the exponents side by side as nibbles; they are reordered when it is read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from afterstate.agents import files
from afterstate.agents.game2048.values import pruned
from afterstate.agents.game2048.values.bit_planes import z_order
from afterstate.agents.game2048.values.ntuple_network import (
    Network,
    n_weights,
    network,
    network_without_weights,
)
from afterstate.envs.messages import shown

MAX_WEIGHT = 1e30
"""Largest weight that a file may have; a board has at most 512 entries."""


def tables(net: Network) -> Iterator[tuple[slice, int]]:
    """Return the place of each table of each stage in the weights, and its number of cells."""
    begin = 0
    for _ in range(net.n_stages):
        for cells in net.tuples:
            yield slice(begin, begin + 16 ** len(cells)), len(cells)
            begin += 16 ** len(cells)


def is_by_nibbles(header: dict[str, Any]) -> bool:
    """Return True if the entries in a file are in the order of nibbles."""
    return bool(header["version"] < 2)


def to_z_order(net: Network, by_nibbles: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array with one or more numbers for each weight, from the order of nibbles.

    Raises:
        ValueError: the array does not have as many numbers.
    """
    entries = by_nibbles.reshape(net.weights.size, -1)
    ordered = np.empty_like(entries)
    for table, n_cells in tables(net):
        ordered[table][z_order(np.arange(16**n_cells), n_cells)] = entries[table]
    return ordered.reshape(-1)


_SETTINGS = ("stages", "promote", "symmetric", "fixed_point", "downgrade")


def pack_network(net: Network) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the header and the arrays of a network's file."""
    header = {**net.settings, "size": list(net.size)}
    if net.is_pruned:
        n_gaps, arrays = pruned.pack(*pruned.kept(net))
        return {**header, "pruned": {"step": net.step, "gaps": n_gaps}}, arrays
    return header, {"weights": net.fixed if net.fixed.size else net.weights}


def check_same(path: str | Path, net: Network, own: Network) -> None:
    """Raise ValueError unless the network of a file has the settings of another one."""
    given, wanted = pack_network(net)[0], pack_network(own)[0]
    if given != wanted:
        names = [name for name in {**wanted, **given} if wanted.get(name) != given.get(name)]
        both = (f"{name} {shown(wanted.get(name))}, got {shown(given.get(name))}" for name in names)
        raise ValueError(f"{path} must hold the network of the settings: {'; '.join(both)}")


def unpack_network(
    path: str | Path, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
) -> Network:
    """Return the network of the header and arrays that `read` returned.

    Raises:
        ValueError: they do not match, or a weight is NaN or infinite.
    """
    try:
        settings = {name: header[name] for name in _SETTINGS if name in header}
        shape = (header["tuples"], tuple(header["size"]))
        if "pruned" in header:
            if settings.pop("fixed_point", False) is not False:
                raise ValueError("it is pruned, and its weights are fixed-point")
            net = network_without_weights("pruned", *shape, **settings)
            return _unpack_pruned(net, header, arrays)
        return _with_weights(network(*shape, **settings), arrays["weights"], is_by_nibbles(header))
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    except MemoryError as error:
        raise ValueError(f"{path} has a network that does not fit in memory: {error}") from error


def check_header(header: dict[str, Any], file_size: int) -> None:
    """Raise ValueError unless the arrays that a file's header declares fit its network and size."""
    n = n_weights(header["tuples"], tuple(header["size"]), header.get("stages", ()))
    shapes = {name: tuple(shape) for name, (_, shape) in header["arrays"].items()}
    if "pruned" in header:
        if not isinstance(header["pruned"], dict):
            raise ValueError(f"its header has pruned = {shown(header['pruned'])}")
        n_gaps = header["pruned"].get("gaps", math.prod(shapes["gaps"]))
        pruned.check_sizes(n_gaps, n, file_size)
        fits = shapes.keys() == {"gaps", "levels"}
    else:
        n_sums = math.prod(shapes.get("sums", (0,)))
        fits = shapes["weights"] == (n,) and n_sums in (0, 2 * n)
    if not fits:
        raise ValueError("its weights do not match its tuples")


def _with_weights(net: Network, weights: npt.NDArray[Any], by_nibbles: bool) -> Network:
    """Return a network with the weights of a file."""
    if weights.dtype != (net.fixed if net.fixed.size else net.weights).dtype:
        raise ValueError(f"its weights are of type {weights.dtype}")
    check_weights(weights)
    if by_nibbles:
        weights = to_z_order(net, weights)
    fixed = weights if net.fixed.size else net.fixed
    return net._replace(weights=weights.view(np.float32), fixed=fixed)


def check_weights(weights: npt.NDArray[Any]) -> None:
    """Raise ValueError unless all weights are numbers whose sum for a board is finite."""
    most = max(-float(weights.min()), float(weights.max())) if weights.size else 0.0
    if not most <= MAX_WEIGHT:
        raise ValueError("its weights are NaN or infinite, or too large to be summed")


def _unpack_pruned(net: Network, header: dict[str, Any], arrays: files.Arrays) -> Network:
    """Return the network of a file that keeps only some of the weights.

    Raises:
        ValueError: they do not match the network.
    """
    step = header["pruned"]["step"]
    if type(step) not in (int, float) or not 0 < step < 1e25:  # the largest weight is 32,767 steps
        raise ValueError(f"its step is {step!r:.50}")
    places, levels = pruned.unpack(arrays, header["pruned"].get("gaps"))
    if is_by_nibbles(header):
        for table, n_cells in tables(net):
            part = slice(*np.searchsorted(places, [table.start, table.stop]))
            places[part] = table.start + z_order(places[part] - table.start, n_cells)
        order = np.argsort(places)
        places, levels = places[order], levels[order]
    return pruned.fill(net, places, levels, float(step))


def save(net: Network, path: str | Path) -> None:
    """Write a network to a compressed file, which `afterstate.agents.load` reads."""
    files.write(path, "ntuple", *pack_network(net), level=0 if net.is_pruned else 1)


def read(
    path: str | Path, only: Collection[str] | None = None
) -> tuple[dict[str, Any], files.Arrays]:
    """Return the header and the arrays of a file: see `files.read`.

    Raises:
        OSError: it cannot be opened.
        ValueError: not such a file, a damaged one, or arrays of sizes that do not fit the network.
    """

    def check(header: dict[str, Any], size: int) -> None:
        try:
            check_header(header, size)
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error

    return files.read(path, "ntuple", only, check)


def load(path: str | Path) -> Network:
    """Return the network of a file, for play: a pruned one stays so.

    Args:
        path: a file that `save` or a learner wrote, or one of TDL2048, whose name ends in `.w`.

    Raises:
        OSError: it cannot be opened.
        ValueError: another program's file, or a damaged one.
    """
    if Path(path).suffix == ".w":
        from afterstate.agents.game2048.values import tdl2048  # it imports this module

        return tdl2048.read(path)
    return unpack_network(path, *read(path, only=("weights", "gaps", "levels")))
