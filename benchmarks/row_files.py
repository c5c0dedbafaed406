"""Files of rows: JSON lines, plain or compressed.

Compressed files can be read while another program appends to them. Rows that are appended together
are one gzip member: earlier rows are never rewritten, and a member cut off by a kill is ignored.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from afterstate.agents import files
from afterstate.envs import json_files

MAX_BYTES = 1 << 27
"""Largest compressed file, unpacked. 40,000 rows of Daihinmin, the most of a player, have 32 MB."""

_PIECE = 1 << 16  # bytes that are read and unpacked at a time

Row = dict[str, Any]


def read_lines(path: Path) -> list[Row]:
    """Return the rows of a plain file without incomplete lines; none if there is no file."""
    rows = []
    for line in json_files.lines(path) if path.exists() else ():
        with contextlib.suppress(ValueError):  # cut off by a kill
            rows.append(json_files.parse(line))
    return rows


def write_lines(path: Path, rows: Sequence[Row]) -> None:
    """Write a plain file of rows in place of an older one; make its folder if needed."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    files.write_bytes(path, text.encode())


def read(path: Path) -> list[Row]:
    """Return the complete rows of a file: see `rows`."""
    return list(rows(path))


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
        raise ValueError(f"{path}, row {number}: must be an object, got {row!r:.40}")
    return row


def _members(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield the text of each complete member of a file, and the number of bytes up to its end."""
    total, rest = 0, b""
    with path.open("rb") if path.exists() else io.BytesIO() as file:
        while True:
            member, text = zlib.decompressobj(wbits=31), bytearray()
            while not member.eof:
                rest = rest or file.read(_PIECE)
                if not rest:
                    return  # the file ends, perhaps within a member
                text += _unpacked(path, member, rest)
                rest = member.unconsumed_tail
                if total + len(text) > MAX_BYTES:
                    raise ValueError(f"{path} must have at most {MAX_BYTES:,} bytes, got more")
            total, rest = total + len(text), member.unused_data
            yield bytes(text), file.tell() - len(rest)


def _unpacked(path: Path, member: Any, data: bytes) -> bytes:
    """Return the beginning of a piece of a member, unpacked."""
    try:
        text: bytes = member.decompress(data, _PIECE)
    except zlib.error as error:
        raise ValueError(f"{path} is damaged ({error}): restore it, or delete it") from error
    return text


def append(path: Path, rows: Sequence[Row]) -> None:
    """Append rows to a file; make the file and its folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(_compressed(rows))


def repair(path: Path) -> None:
    """Remove a cut-off member at the end of a file, so that rows can be appended again."""
    size = max((end for _, end in _members(path)), default=0)
    if path.exists() and path.stat().st_size > size:
        os.truncate(path, size)


def _compressed(rows: Sequence[Row]) -> bytes:
    """Return rows as one gzip member, the same bytes for the same rows."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return gzip.compress(text.encode(), mtime=0)
