"""The file of a trained player: a zip archive of a JSON header and numpy arrays.

`numpy.load` opens it too. It holds

- `header.json`: `{"format": "afterstate", "version": 2, "kind": ..., "arrays": {name: [dtype,
  shape]}, ...}` and entries of the kind, such as the tuples of an N-tuple network;
- `NAME.npy` for each array, compressed or stored, without pickled objects.

The archive's checksums detect damage. A file is written under a temporary name and then renamed: a
reader sees the old file or the new one, never a part of it.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from afterstate.envs import durable_files, json_files
from afterstate.envs.messages import shown

VERSION = 2
"""Version of new files. In version 1, the tables of N-tuple networks have another order."""

_MAX_HEADER = 1 << 20
_MAX_RATIO = 1032  # bytes that deflate can make of one
_DTYPES = {np.dtype(order + kind).str for order in "<>" for kind in "?bBhHiIqQefd"}

# Errors of reading a damaged archive; a missing or unreadable file fails at opening.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error),
    *(OSError, EOFError, LookupError, MemoryError, OverflowError, RuntimeError, ValueError),
)

Arrays = dict[str, npt.NDArray[Any]]


class NotInWheelError(FileNotFoundError):
    """The file of a pretrained network that only the repository has."""


def write(
    path: str | Path, kind: str, header: dict[str, Any], arrays: Arrays, level: int = 1
) -> None:
    """Write a file.

    Args:
        path: the file; its folder is made if it is missing.
        kind: the kind of file, such as `"ntuple"`.
        header: further entries of the header, fit for JSON.
        arrays: arrays by name.
        level: level of compression, from 0 (none) to 9 (small and slow).

    Raises:
        OSError: it cannot be written, for example because the disk is full; an older file is kept.
    """
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    shapes = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    first = {"format": "afterstate", "version": VERSION, "kind": kind, "arrays": shapes}
    method = zipfile.ZIP_DEFLATED if level else zipfile.ZIP_STORED
    with (
        durable_files.replace(path) as file,
        zipfile.ZipFile(file, "w", method, compresslevel=level) as archive,
    ):
        archive.writestr("header.json", json.dumps({**header, **first}, indent=1))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def read(
    path: str | Path,
    kind: str | None = None,
    only: Collection[str] | None = None,
    check: Callable[[dict[str, Any], int], Any] | None = None,
) -> tuple[dict[str, Any], Arrays]:
    """Read a file that `write` wrote.

    Args:
        path: the file.
        kind: the expected kind; by default any.
        only: the arrays to read; by default all.
        check: called with the header and the bytes of the file before an array is read; it may
            raise ValueError.

    Returns:
        The header and the arrays by name.

    Raises:
        OSError: the file cannot be opened; FileNotFoundError if there is none.
        ValueError: another program's file, a newer version, another kind, or a damaged file.
    """
    with durable_files.open_to_read(path) as file:
        with _damage_of(path):
            archive = zipfile.ZipFile(file)
            header = _read_header(archive)
        _check_header(path, header, kind)
        size = os.fstat(file.fileno()).st_size
        if check is not None:
            check(header, size)
        with _damage_of(path):
            names = [name for name in header["arrays"] if only is None or name in only]
            layouts = {name: _layout(name, header["arrays"][name]) for name in names}
            _check_sizes(archive, layouts, size)
            arrays = {name: _read_array(archive, name, *layouts[name]) for name in names}
    return header, arrays


@contextlib.contextmanager
def _damage_of(path: str | Path) -> Iterator[None]:
    """Raise ValueError that names the file for any error of a damaged archive."""
    try:
        yield
    except _DAMAGE as error:
        raise ValueError(
            f"{path} is not a file of afterstate, or it is damaged or cut off: {error!s:.500}"
        ) from error


def _read_header(archive: zipfile.ZipFile) -> Any:
    """Return the JSON of the header."""
    if any(entry.compress_type not in (0, 8) for entry in archive.infolist()):
        raise zipfile.BadZipFile("its compression is neither stored nor deflated")
    with archive.open("header.json") as entry:
        text = entry.read(_MAX_HEADER + 1)  # whatever length the directory claims
    if len(text) > _MAX_HEADER:
        raise zipfile.BadZipFile("its header is too long")
    return json_files.parse(text)


def _check_header(path: str | Path, header: Any, kind: str | None) -> None:
    """Raise ValueError unless a header is of this version and kind."""
    types = {"format": str, "kind": str, "arrays": dict}
    is_ours = isinstance(header, dict) and header.get("format") == "afterstate"
    if not is_ours or any(not isinstance(header.get(key), of) for key, of in types.items()):
        raise ValueError(f"{path} is not a file of afterstate: its header has another format")
    if header.get("version") not in range(1, VERSION + 1):
        raise ValueError(
            f"{path} has version {shown(header.get('version'))} and this program reads {VERSION}: "
            "update afterstate"
        )
    if kind is not None and header["kind"] != kind:
        raise ValueError(f"{path} is of kind {shown(header['kind'])}, not {kind!r}")


_Layout = tuple[np.dtype[Any], tuple[int, ...]]
"""Type and shape of an array."""


def _layout(name: str, declared: Any) -> _Layout:
    """Return the type and the shape that a header declares for an array."""
    dtype, shape = declared if isinstance(declared, list) and len(declared) == 2 else ("", ())
    is_shape = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not is_shape or not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"the array {name} has no valid type and shape in the header")
    return np.dtype(dtype), tuple(shape)


def _check_sizes(archive: zipfile.ZipFile, layouts: dict[str, _Layout], file_size: int) -> None:
    """Raise ValueError if a file of this size cannot hold the arrays, however it is compressed."""
    left = file_size
    for name, (dtype, shape) in layouts.items():
        size, packed = math.prod(shape) * dtype.itemsize, archive.getinfo(f"{name}.npy")
        left -= packed.compress_size
        ratio = _MAX_RATIO if packed.compress_type else 1
        if left < 0 or size > ratio * packed.compress_size:
            raise ValueError(f"the array {name} of {size:,} bytes does not fit into the file")


def _read_array(
    archive: zipfile.ZipFile, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Return an array of the archive, which must have the type and the shape of the header."""
    with archive.open(f"{name}.npy") as entry:
        try:
            check_npy_header(entry, dtype.str, shape)
        except (ValueError, struct.error) as error:
            raise ValueError(f"the array {name} does not match the header: {error}") from error
        array = np.empty(shape, dtype)
        _read_into(entry, array.reshape(-1).view(np.uint8))
        if entry.read(1):
            raise ValueError(f"the array {name} is too long")
    return array


def check_npy_header(file: IO[bytes], descr: Any, shape: tuple[int, ...]) -> None:
    """Read the header of an array in numpy's format 1.0 and compare it; it is never parsed.

    Args:
        file: file at the beginning of the array; afterwards at its data.
        descr: the expected type, as numpy writes it.
        shape: the expected shape, in C order.

    Raises:
        ValueError: it is another header.
        struct.error: the file ends.
    """
    wanted = io.BytesIO()
    described = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(wanted, described)
    magic, (length,) = file.read(8), struct.unpack("<H", file.read(2))
    text, expected = file.read(length), wanted.getvalue()
    if magic != expected[:8] or text.split() != expected[10:].split():
        raise ValueError(f"its header is {text[:200]!r}, not {expected[10:].strip()!r}")


def _read_into(entry: Any, memory: npt.NDArray[np.uint8]) -> None:
    """Read an entry into memory, 16 MiB at a time."""
    at = 0
    while at < len(memory):
        n = entry.readinto(memory[at : at + (1 << 24)].data)
        if not n:
            raise EOFError("an array is cut off")
        at += n


def is_finite(array: npt.NDArray[Any]) -> bool:
    """Return True if no number of an array is NaN or infinite; takes no memory for a mask."""
    with np.errstate(invalid="ignore"):
        return not array.size or bool(np.isfinite([array.min(), array.max()]).all())
