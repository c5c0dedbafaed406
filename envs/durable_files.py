"""Files that survive a kill, a full disk and a power loss.

What a function here has written is on the disk when it returns. `replace` and `write` leave the old
file or the new one; `append` leaves the old lines and, after a power loss, perhaps a damaged
part of the new ones.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO


def open_to_read(path: str | Path) -> BinaryIO:
    """Return a file of a disk, opened for reading.

    Raises:
        OSError: it cannot be opened; FileNotFoundError if there is none.
        ValueError: a device or a pipe: opening or reading it might wait for ever.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ValueError(f"{path} must be a file on a disk, got a device or a pipe")
    return open(path, "rb")


def open_to_append(path: Path) -> IO[bytes]:
    """Return a file opened for appending without a buffer, a new one if there is none.

    Raises:
        OSError: it cannot be opened.
        ValueError: a pipe: opening it would wait for a reader.
    """
    if path.is_fifo():
        raise ValueError(f"{path} must be a file, got a pipe")
    return open(path, "ab", buffering=0)


@contextlib.contextmanager
def replace(path: str | Path, synced: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file for writing, which becomes `path` when the block ends without an error.

    Args:
        path: the file; its folder is made if it is missing.
        synced: whether it is on the disk at the end; otherwise a kill keeps it, a power loss
            may leave neither file.

    Raises:
        OSError: it cannot be written; an older file is kept.
    """
    path = _target(path)
    temporary = _temporary(path)
    try:
        with open(temporary, "xb") as file:
            yield file
            if synced:
                sync(file)
        os.replace(temporary, path)
        if synced:
            sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            add_name(error, path)
        raise


def write(path: str | Path, data: bytes, synced: bool = True) -> None:
    """Write a file in place of an older one: see `replace`.

    Raises:
        OSError: it cannot be written; an older file is kept.
    """
    with replace(path, synced) as file:
        file.write(data)


def append(path: str | Path, data: bytes) -> None:
    """Append data to a file; make the file and its folder if needed.

    Raises:
        OSError: it cannot be written; the part already written is removed.
        ValueError: the path is that of a pipe.
    """
    path = Path(path)
    make_folder(path.parent)
    with open_to_append(path) as file:
        is_empty = not os.fstat(file.fileno()).st_size  # also if a killed process has made it
        append_to(file, data)
    if is_empty:
        sync_folder(path.parent)


def is_at(path: Path, file: os.stat_result) -> bool:
    """Return True if a path is still that of a file, which was neither removed nor replaced."""
    try:
        return os.path.samestat(os.stat(path), file)
    except OSError:
        return False


def append_to(file: IO[bytes], data: bytes, synced: bool = True) -> None:
    """Append data to a file that was opened by its path, for appending without a buffer.

    Args:
        file: the file.
        data: the data.
        synced: whether the data is on the disk at the end; otherwise a kill keeps it, a loss of
            power may not.

    Raises:
        OSError: it cannot be written; the part already written is removed.
    """
    start, n_written = os.fstat(file.fileno()).st_size, 0
    try:
        while n_written < len(data):
            n = file.write(data[n_written:])
            if n is None:
                raise BlockingIOError(errno.EAGAIN, "the reader at the other end does not read")
            n_written += n
        if synced:
            sync(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            if os.fstat(file.fileno()).st_size == start + n_written:  # nobody else has appended
                os.ftruncate(file.fileno(), start)
        add_name(error, file.name)
        raise


def add_name(error: OSError, path: str | Path) -> None:
    """Add the name of the file to an error of writing, for which the system gives none."""
    if error.filename is None:
        error.filename = str(path)


def sync(file: IO[bytes]) -> None:
    """Write a file to the disk; nothing is done for a pipe or a terminal.

    Raises:
        OSError: it cannot be written.
    """
    file.flush()
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        os.fsync(file.fileno())


def truncate(path: Path, size: int) -> None:
    """Cut a file off after some bytes.

    Raises:
        OSError: it cannot be written.
    """
    with open(path, "r+b") as file:
        file.truncate(size)
        sync(file)


def rename(path: Path, new: Path) -> None:
    """Rename a synced file, in place of another one.

    Raises:
        OSError: it cannot be renamed.
    """
    os.replace(path, new)
    sync_folder(new.parent)


def make_folder(path: Path) -> None:
    """Make a folder and those above it; they stay if there are such folders.

    Raises:
        OSError: one cannot be made, or is a file.
    """
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "must be a folder, got a file", str(path))
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Write the names of a folder's files to the disk, where the system can.

    Windows does so by itself; some network file systems cannot.
    """
    if os.name == "nt":
        return
    try:
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EINVAL, errno.ENOTSUP):
            raise


def remove_unfinished(paths: Iterable[Path]) -> None:
    """Remove those of the files that are temporary ones of processes that no longer run."""
    for path in list(paths):
        process = process_of(path.name)
        if process is not None and not _runs(process):
            path.unlink(missing_ok=True)


def process_of(name: str) -> int | None:
    """Return the number of the process that has made a temporary file; None for other files.

    >>> process_of("net.npz.123.45678901.part"), process_of("notes.part")
    (123, None)
    """
    match = re.fullmatch(r".+?\.(\d{1,9})(?:\.[0-9a-f]{8})?\.part", name)
    return int(match[1]) if match else None


def _runs(process: int) -> bool:
    """Return True if there is another process of this number; False where it cannot be asked."""
    if os.name == "nt" or process in (0, os.getpid()):
        return False
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def check_writable(path: str | Path) -> None:
    """Raise OSError if `write` could not write this file."""
    temporary = _temporary(_target(path))
    try:
        temporary.touch()
        temporary.unlink()
    except OSError as error:
        message = f"the file cannot be written: {error.strerror}"
        raise OSError(error.errno, message, str(path)) from error


def _target(path: str | Path) -> Path:
    """Return the path with links resolved, and make its folder."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise IsADirectoryError(f"{path} is not a file")
    make_folder(path.parent)
    return path


def _temporary(path: Path) -> Path:
    """Return a name under which a file is written before it is renamed, another one each time."""
    return path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
