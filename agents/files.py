"""The file of a trained player: a zip archive of a JSON header and numpy arrays.

`numpy.load` opens it too. It holds

- `header.json`: `{"format": "afterstate", "version": 2, "kind": ..., "arrays": {name: [dtype,
  shape]}, ...}` and entries of the kind, such as the tuples of an N-tuple network;
- `NAME.npy` for each array, compressed or stored, without pickled objects.

The archive's checksums detect damage. Every file is written under a temporary name and then
renamed, so a reader sees the old file or the new one, never a part of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

VERSION = 2
"""Version of new files. In version 1, the tables of N-tuple networks have another order."""

_MAX_HEADER = 1 << 20
_MAX_BYTES = 1 << 36  # of all arrays together, 64 GiB

# Errors of reading a damaged archive; a missing or unreadable file fails at opening.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error),
    *(OSError, EOFError, KeyError, RuntimeError, UnicodeError),
)

Arrays = dict[str, npt.NDArray[Any]]


def write(
    path: str | Path, kind: str, header: dict[str, Any], arrays: Arrays, level: int = 1
) -> None:
    """Write a file.

    Args:
        path: the file; its folder is made if it is missing.
        kind: the kind of file, such as `"ntuple"`.
        header: further entries of the header, fit for JSON.
        arrays: by name.
        level: of compression, from 0 (none) to 9 (small and slow).

    Raises:
        OSError: it cannot be written, for example because the disk is full; an older file is kept.
    """
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    shapes = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    first = {"format": "afterstate", "version": VERSION, "kind": kind, "arrays": shapes}
    method = zipfile.ZIP_DEFLATED if level else zipfile.ZIP_STORED
    with (
        atomic_write(path) as file,
        zipfile.ZipFile(file, "w", method, compresslevel=level) as archive,
    ):
        archive.writestr("header.json", json.dumps({**header, **first}, indent=1))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file of any other format, as safely as `write`.

    Raises:
        OSError: it cannot be written; an older file is kept.
    """
    with atomic_write(path) as file:
        file.write(data)


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing, which becomes `path` when the block ends without an error.

    Raises:
        OSError: it cannot be written; an older file is kept.
    """
    path = _target(path)
    temporary = _temporary(path)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def check_writable(path: str | Path) -> None:
    """Raise OSError if `write` could not write this file."""
    temporary = _temporary(_target(path))
    temporary.touch()
    temporary.unlink()


def truncate_rows(path: str | Path, key: str, last: int) -> int:
    """Delete the rows of a JSON-lines file that come after `last`, and incomplete ones.

    Args:
        path: the file; it may be missing.
        key: of the integer by which rows are ordered, such as `"n_moves"`.
        last: the largest integer that is kept.

    Returns:
        The integer of the last row kept, 0 if there is none.
    """
    path = Path(path)
    if not path.exists():
        return 0
    kept, number = [], 0
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError, OverflowError):
            value = int(json.loads(line)[key])
            if value <= last:
                kept.append(line + "\n")
                number = value
    write_bytes(path, "".join(kept).encode())
    return number


def _target(path: str | Path) -> Path:
    """Return the path with links resolved, and make its folder."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise IsADirectoryError(f"{path} is not a file, so no player can be saved there")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _temporary(path: Path) -> Path:
    """Return the name under which a file is written before it is renamed."""
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def read(
    path: str | Path, kind: str | None = None, only: Collection[str] | None = None
) -> tuple[dict[str, Any], Arrays]:
    """Read a file that `write` wrote.

    Args:
        path: the file.
        kind: the expected kind; by default any.
        only: the arrays to read; by default all.

    Returns:
        The header and the arrays by name.

    Raises:
        OSError: the file cannot be opened; FileNotFoundError if there is none.
        ValueError: another program's file, a newer version, another kind, or a damaged file.
    """
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                header = _read_header(path, archive, kind)
                names = [name for name in header["arrays"] if only is None or name in only]
                return header, {n: _read_array(archive, n, header["arrays"][n]) for n in names}
        except _DAMAGE as error:
            raise ValueError(
                f"{path} is not a file of afterstate, or it is damaged or cut off: {error}"
            ) from error


def _read_header(path: str | Path, archive: zipfile.ZipFile, kind: str | None) -> dict[str, Any]:
    """Return the header, checked."""
    if any(entry.compress_type not in (0, 8) for entry in archive.infolist()):
        raise zipfile.BadZipFile("its compression is neither stored nor deflated")
    if archive.getinfo("header.json").file_size > _MAX_HEADER:
        raise zipfile.BadZipFile("its header is too long")
    try:
        header = json.loads(archive.read("header.json"))
        is_ours = header["format"] == "afterstate" and isinstance(header["arrays"], dict)
    except (ValueError, TypeError, KeyError):
        is_ours = False
    if not is_ours:
        raise ValueError(f"{path} is not a file of afterstate: its header has another format")
    if header["version"] not in range(1, VERSION + 1):
        raise ValueError(
            f"{path} has version {header['version']} and this program reads {VERSION}: "
            "update afterstate"
        )
    if kind is not None and header["kind"] != kind:
        raise ValueError(f"{path} is of kind {header['kind']!r}, not {kind!r}")
    return dict(header)


def _read_array(archive: zipfile.ZipFile, name: str, declared: Any) -> npt.NDArray[Any]:
    """Return an array, checked against the header before memory is allocated for it."""
    with archive.open(f"{name}.npy") as entry:
        shape, fortran, dtype = _array_header(entry)
        if [dtype.str, list(shape)] != declared or min(shape, default=0) < 0:
            raise zipfile.BadZipFile(f"the array {name} does not match the header")
        if fortran or dtype.hasobject:
            raise zipfile.BadZipFile(f"the array {name} is in Fortran order or has objects")
        size = int(np.prod(shape, dtype=np.float64)) * dtype.itemsize
        if size > _MAX_BYTES or archive.getinfo(f"{name}.npy").file_size < size:
            raise zipfile.BadZipFile(f"the array {name} is too large")
        array = np.empty(shape, dtype)
        _read_into(entry, array.reshape(-1).view(np.uint8))
        if entry.read(1):
            raise zipfile.BadZipFile(f"the array {name} is too long")
    return array


def _array_header(entry: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of a `.npy` entry."""
    try:
        version = np.lib.format.read_magic(entry)
        if version != (1, 0):
            raise ValueError(f"version {version}")
        return np.lib.format.read_array_header_1_0(entry)
    except ValueError as error:
        raise zipfile.BadZipFile(f"an array's header is wrong: {error}") from error


def _read_into(entry: Any, memory: npt.NDArray[np.uint8]) -> None:
    """Read an entry into memory, 16 MiB at a time."""
    at = 0
    while at < len(memory):
        n = entry.readinto(memory[at : at + (1 << 24)].data)
        if not n:
            raise EOFError("an array is cut off")
        at += n
