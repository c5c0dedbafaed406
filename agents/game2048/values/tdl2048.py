"""Networks of the program TDL2048 (Guei), whose files end in `.w`.

All numbers are little-endian. A file is

- a byte 0 and the number of tables (32 bits);
- for each table a byte 4; 32 bits whose hexadecimal digits are the cells of the tuple; the number
  of cells (32 bits); 4, the size of a weight (16 bits); the number of weights (64 bits) and the
  weights as floats of 32 bits; then 0 (16 bits), or if it learned by temporal coherence 4
  (16 bits), twice the number of weights (64 bits), E and A of all weights, and 0 (16 bits).

The exponents of a tuple's cells, the first one lowest, are the nibbles of the table index; cells
may be in any order. The value of a board is the sum over its 8 symmetric boards.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

from afterstate.agents.game2048.values.ntuple_file import check_weights, to_z_order
from afterstate.agents.game2048.values.ntuple_network import MAX_TUPLES, Network, network
from afterstate.envs import durable_files
from afterstate.envs.words import Float32s


def read(path: str | Path) -> Network:
    """Return the network of a `.w` file, without the sums of its learning.

    Raises:
        OSError: it cannot be opened.
        ValueError: another program's file, a damaged one, tuples of more than seven cells, or
            weights that are NaN or infinite.
    """
    with durable_files.open_to_read(path) as file:
        try:
            tables = _read_tables(file)
            if file.read(1):
                raise ValueError("it is too long")
            net = network([cells for cells, _ in tables])
        except (OverflowError, ValueError, struct.error) as error:
            raise ValueError(f"{path} is not a .w file, or it is damaged: {error}") from error
    by_nibbles = np.concatenate([_reordered(cells, weights) for cells, weights in tables])
    net.weights[:] = to_z_order(net, by_nibbles)
    return net


def _read_tables(file: BinaryIO) -> list[tuple[list[int], Float32s]]:
    """Return the cells and the weights of every table."""
    code, n_tables = _read(file, "<BI")
    if code != 0 or not 1 <= n_tables <= MAX_TUPLES:
        raise ValueError(f"it begins with {code} and {n_tables} tables")
    return [_read_table(file) for _ in range(n_tables)]


def _read_table(file: BinaryIO) -> tuple[list[int], Float32s]:
    """Return the cells and the weights of one table; skip its sums."""
    code, digits, n_cells, size, length = _read(file, "<BIIHQ")
    if code != 4 or size != 4 or not 1 <= n_cells <= 7 or length != 16**n_cells:
        raise ValueError(f"a table of {n_cells} cells has {length} weights of {size} bytes")
    cells = [int(digit, 16) for digit in f"{digits:0{n_cells}x}"]
    if len(cells) != n_cells or len(set(cells)) != n_cells:
        raise ValueError(f"a table of {n_cells} cells has the cells {digits:x}")
    weights = _read_floats(file, length)
    (size,) = _read(file, "<H")
    while size == 4:
        (more,) = _read(file, "<Q")
        if more != 2 * length:
            raise ValueError(f"a table of {length} weights has {more} sums")
        _skip_floats(file, more)
        (size,) = _read(file, "<H")
    if size != 0:
        raise ValueError(f"sums have {size} bytes")
    return cells, weights


def _read(file: BinaryIO, layout: str) -> tuple[int, ...]:
    """Read integers of a `struct` format."""
    size = struct.calcsize(layout)
    data = file.read(size)
    if len(data) < size:
        raise ValueError("it is cut off")
    return struct.unpack(layout, data)


def _read_floats(file: BinaryIO, n: int) -> Float32s:
    """Read an array of floats."""
    _check_length(file, n)
    floats = np.frombuffer(file.read(4 * n), "<f4").astype(np.float32)
    check_weights(floats)
    return floats


def _skip_floats(file: BinaryIO, n: int) -> None:
    """Skip an array of floats."""
    _check_length(file, n)
    file.seek(4 * n, os.SEEK_CUR)


def _check_length(file: BinaryIO, n: int) -> None:
    """Raise ValueError unless the file has `n` more floats, before memory is taken for them."""
    if os.fstat(file.fileno()).st_size - file.tell() < 4 * n:
        raise ValueError("it is cut off")


def _reordered(cells: list[int], weights: Float32s) -> Float32s:
    """Return a table's weights, reordered for cells in ascending order."""
    by_cell = weights.reshape((16,) * len(cells))  # the last axis is the first cell
    axes = [len(cells) - 1 - cells.index(cell) for cell in sorted(cells, reverse=True)]
    return by_cell.transpose(axes).reshape(-1)
