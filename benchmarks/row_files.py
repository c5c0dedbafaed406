"""Files of rows: compressed JSON lines, which one program appends to and others read meanwhile.

A row is a finished game. Rows that are appended together are a gzip member of their own: nothing
that was written before is touched, and if a program is killed while it writes, it is as if it had
not begun to.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """The rows of a file, without those whose writing was cut off; none if it is not there.

    Raises:
        ValueError: it is damaged.
    """
    return _read(path)[0]


def _read(path: Path) -> tuple[list[Row], bool]:
    """The rows of a file, and whether it is whole."""
    rows: list[Row] = []
    left = path.read_bytes() if path.exists() else b""
    while left:
        member = zlib.decompressobj(wbits=31)
        try:
            text = member.decompress(left)
        except zlib.error as error:
            raise ValueError(f"{path} is damaged ({error}): restore it, or delete it") from error
        if not member.eof:
            return rows, False
        try:
            rows += [json.loads(line) for line in text.splitlines()]
        except ValueError as error:
            raise ValueError(f"{path}, after row {len(rows)}: {error}") from error
        left = member.unused_data
    return rows, True


def append(path: Path, rows: Sequence[Row]) -> None:
    """Adds rows to a file, which is made if it is not there; its folder, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(_packed(rows))


def repair(path: Path) -> None:
    """Takes away what was cut off at the end of a file, so that rows can be added again."""
    rows, whole = _read(path)
    if not whole:
        beside = path.with_suffix(".part")
        beside.write_bytes(_packed(rows))
        os.replace(beside, path)


def _packed(rows: Sequence[Row]) -> bytes:
    """Rows as one gzip member, the same bytes for the same rows."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return gzip.compress(text.encode(), mtime=0)
