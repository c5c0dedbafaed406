"""Compressed files of rows: JSON lines by gzip.

They can be read while another program appends to them. Rows that are appended together are one gzip
member: earlier rows are never rewritten. A last member that a kill cut off or a power loss
damaged is left out, and reported in the log.
"""

from __future__ import annotations

import gzip
import io
import logging
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from afterstate.envs import durable_files, json_files
from afterstate.envs.json_files import Row
from afterstate.envs.messages import shown

LOGGER = logging.getLogger(__name__)

MAX_BYTES = 1 << 27
"""Largest compressed file, unpacked. 40,000 rows of Daihinmin, the most of a player, have 32 MB."""

_PIECE = 1 << 16  # bytes that are read and unpacked at a time
_START = gzip.compress(b"", mtime=0)[:8]  # of each member


def rows(path: Path) -> Iterator[Row]:
    """Yield the complete rows of a file; none if there is no file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is damaged, larger than `MAX_BYTES`, or a row is not a JSON object.
    """
    number = 0
    for text, _ in _members(path):
        for line in io.BytesIO(text):
            number += 1
            yield _row(path, number, line)


def _row(path: Path, number: int, line: bytes) -> Row:
    """Return the row of a line."""
    try:
        row = json_files.parse(line)
    except ValueError as error:
        raise ValueError(f"{path}, row {number}: {error}") from error
    if not isinstance(row, dict):
        raise ValueError(f"{path}, row {number}: must be an object, got {shown(row)}")
    return row


def _members(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield the text of each complete member of a file, and the number of bytes up to its end."""
    if not path.exists():
        return
    end, why = 0, "cut off"
    with durable_files.open_to_read(path) as file:
        size = path.stat().st_size  # more may be appended meanwhile
        try:
            for text, end in _unpack(path, file):
                yield text, end
        except zlib.error as error:
            why = f"damaged ({error})"
        if size > end:
            _check_is_last(path, file, end, size, why)
            LOGGER.warning("%s: rows after its first %d bytes are %s, and left out", path, end, why)


def _unpack(path: Path, file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield texts and ends of the members up to one that is incomplete.

    Raises:
        ValueError: the file is too large.
        zlib.error: a member is damaged.
    """
    total, rest = 0, b""
    while True:
        member, text = zlib.decompressobj(wbits=31), bytearray()
        while not member.eof:
            rest = rest or file.read(_PIECE)
            if not rest:
                return  # the file ends, perhaps within a member
            text += member.decompress(rest, _PIECE)
            rest = member.unconsumed_tail
            if total + len(text) > MAX_BYTES:
                raise ValueError(f"{path} must have at most {MAX_BYTES:,} bytes, got more")
        total, rest = total + len(text), member.unused_data
        yield bytes(text), file.tell() - len(rest)


def _check_is_last(path: Path, file: IO[bytes], start: int, size: int, why: str) -> None:
    """Raise ValueError unless an incomplete member is the last one, of which all may be lost.

    A damaged member may seem to go on up to the end of the file, over those after it.
    """
    file.seek(start)
    data = file.read(size - start)
    is_ours = start > 0 or _START.startswith(data[: len(_START)].rstrip(b"\0"))
    if not is_ours or data.find(_START, 1) >= 0:
        message = f"{path} is damaged before its last rows ({why}): restore it, or delete it"
        raise ValueError(message)


def append(path: Path, rows: Sequence[Row]) -> None:
    """Append rows to a file; make the file and its folder if needed."""
    durable_files.append(path, _compressed(rows))


def repair(path: Path) -> None:
    """Remove a cut-off member at the end of a file, so that rows can be appended again."""
    size = max((end for _, end in _members(path)), default=0)
    if path.exists() and path.stat().st_size > size:
        durable_files.truncate(path, size)


def _compressed(rows: Sequence[Row]) -> bytes:
    """Return rows as one gzip member, the same bytes for the same rows."""
    return gzip.compress(json_files.to_lines(rows), mtime=0)
