"""The file of a trained player: one format for all that is made of arrays.

It is a zip archive that numpy can open too (`np.load`), with

- `header.json`: `{"format": "afterstate", "version": 1, "kind": ..., "arrays": {name: [dtype,
  shape]}, ...}` and what the kind needs, such as the tuples of an N-tuple network;
- `NAME.npy` for each array, compressed or as it is, without pickled objects.

The archive's checksums tell a damaged file. Files are written beside their place and then renamed,
so that a file is always whole: the old one or the new one.
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

VERSION = 1
_MAX_HEADER = 1 << 20
_MAX_BYTES = 1 << 36  # of all arrays together, 64 GiB

# What reading a damaged archive may raise; that it is missing or closed to us shows at opening.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error),
    *(OSError, EOFError, KeyError, RuntimeError, UnicodeError),
)

Arrays = dict[str, npt.NDArray[Any]]


def write(
    path: str | Path, kind: str, header: dict[str, Any], arrays: Arrays, level: int = 1
) -> None:
    """Writes a file.

    Args:
        path: where; its folder is made if it is missing.
        kind: what the file is, such as `"ntuple"`.
        header: further entries of the header, fit for JSON.
        arrays: by name.
        level: of compression: 9 is small and slow, 0 as they are.

    Raises:
        OSError: it cannot be written, for example because the disk is full; a file that was there
            before is still there, whole.
    """
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    shapes = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    first = {"format": "afterstate", "version": VERSION, "kind": kind, "arrays": shapes}
    method = zipfile.ZIP_DEFLATED if level else zipfile.ZIP_STORED
    with (
        replaced(path) as file,
        zipfile.ZipFile(file, "w", method, compresslevel=level) as archive,
    ):
        archive.writestr("header.json", json.dumps({**header, **first}, indent=1))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def replace(path: str | Path, data: bytes) -> None:
    """Writes a file of any other format, as `write` does.

    Raises:
        OSError: it cannot be written; a file that was there before is still there, whole.
    """
    with replaced(path) as file:
        file.write(data)


@contextlib.contextmanager
def replaced(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write beside the place, which goes there when it is whole.

    Raises:
        OSError: it cannot be written; a file that was there before is still there, whole.
    """
    path = _place(path)
    beside = _beside(path)
    try:
        with open(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def prepare(path: str | Path) -> None:
    """Makes sure that `write` can write a file, before what it will hold is there.

    Raises:
        OSError: it cannot be written there.
    """
    beside = _beside(_place(path))
    beside.touch()
    beside.unlink()


def keep_rows(path: str | Path, key: str, last: int) -> int:
    """Drops the rows of a file of JSON lines that come after `last`, and those cut off by a kill.

    Args:
        path: the file; it need not be there.
        key: of the number that says when a row was made.
        last: the largest that is kept.

    Returns:
        The number of the last row that is kept, 0 if there is none.
    """
    path = Path(path)
    if not path.exists():
        return 0
    kept, number = [], 0
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError, OverflowError):
            made = int(json.loads(line)[key])
            if made <= last:
                kept.append(line + "\n")
                number = made
    replace(path, "".join(kept).encode())
    return number


def _place(path: str | Path) -> Path:
    """Where the file will be: follows links, refuses what is not a file and makes its folder."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise IsADirectoryError(f"{path} is not a file, so no player can be saved there")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _beside(path: Path) -> Path:
    """The file that is written first."""
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def read(
    path: str | Path, kind: str | None = None, only: Collection[str] | None = None
) -> tuple[dict[str, Any], Arrays]:
    """Reads a file that `write` wrote.

    Args:
        path: the file.
        kind: what it must be; by default anything.
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
    """The header, checked."""
    if any(entry.compress_type not in (0, 8) for entry in archive.infolist()):
        raise zipfile.BadZipFile("it is not compressed as our files are")
    if archive.getinfo("header.json").file_size > _MAX_HEADER:
        raise zipfile.BadZipFile("its header is too long")
    try:
        header = json.loads(archive.read("header.json"))
        is_ours = header["format"] == "afterstate" and isinstance(header["arrays"], dict)
    except (ValueError, TypeError, KeyError):
        is_ours = False
    if not is_ours:
        raise ValueError(f"{path} is not a file of afterstate: its header says something else")
    if header["version"] != VERSION:
        raise ValueError(
            f"{path} has version {header['version']} and this program reads {VERSION}: "
            "update afterstate"
        )
    if kind is not None and header["kind"] != kind:
        raise ValueError(f"{path} is of kind {header['kind']!r}, not {kind!r}")
    return dict(header)


def _read_array(archive: zipfile.ZipFile, name: str, declared: Any) -> npt.NDArray[Any]:
    """An array, checked against what the header says of it before there is room made for it."""
    with archive.open(f"{name}.npy") as entry:
        shape, fortran, dtype = _array_header(entry)
        if [dtype.str, list(shape)] != declared or min(shape, default=0) < 0:
            raise zipfile.BadZipFile(f"the array {name} is not what the header says")
        if fortran or dtype.hasobject:
            raise zipfile.BadZipFile(f"the array {name} is of a kind that is not written here")
        size = int(np.prod(shape, dtype=np.float64)) * dtype.itemsize
        if size > _MAX_BYTES or archive.getinfo(f"{name}.npy").file_size < size:
            raise zipfile.BadZipFile(f"the array {name} is too large")
        array = np.empty(shape, dtype)
        _fill(entry, array.reshape(-1).view(np.uint8))
        if entry.read(1):
            raise zipfile.BadZipFile(f"the array {name} is too long")
    return array


def _array_header(entry: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of a `.npy` entry."""
    try:
        version = np.lib.format.read_magic(entry)
        if version != (1, 0):
            raise ValueError(f"version {version}")
        return np.lib.format.read_array_header_1_0(entry)
    except ValueError as error:
        raise zipfile.BadZipFile(f"an array's header is wrong: {error}") from error


def _fill(entry: Any, room: npt.NDArray[np.uint8]) -> None:
    """Reads an entry into memory, a piece at a time."""
    at = 0
    while at < len(room):
        n = entry.readinto(room[at : at + (1 << 24)].data)
        if not n:
            raise EOFError("an array is cut off")
        at += n
