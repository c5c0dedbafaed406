"""Files of rows: JSON lines, plain or compressed.

Compressed files can be read while another program appends to them. Rows that are appended together
are one gzip member: earlier rows are never rewritten, and a member cut off by a kill is ignored.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from afterstate.agents import files

Row = dict[str, Any]


def read_lines(path: Path) -> list[Row]:
    """Return the rows of a plain file without incomplete lines; none if there is no file."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(ValueError):  # cut off by a kill
            rows.append(json.loads(line))
    return rows


def write_lines(path: Path, rows: Sequence[Row]) -> None:
    """Write a plain file of rows in place of an older one; make its folder if needed."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    files.write_bytes(path, text.encode())


def read(path: Path) -> list[Row]:
    """Return the complete rows of a file; none if there is no file.

    Raises:
        ValueError: the file is damaged.
    """
    return _read(path)[0]


def _read(path: Path) -> tuple[list[Row], bool]:
    """Return the rows of a file, and False if its last member was cut off."""
    rows: list[Row] = []
    rest = path.read_bytes() if path.exists() else b""
    while rest:
        member = zlib.decompressobj(wbits=31)
        try:
            text = member.decompress(rest)
        except zlib.error as error:
            raise ValueError(f"{path} is damaged ({error}): restore it, or delete it") from error
        if not member.eof:
            return rows, False
        try:
            rows += [json.loads(line) for line in text.splitlines()]
        except ValueError as error:
            raise ValueError(f"{path}, after row {len(rows)}: {error}") from error
        rest = member.unused_data
    return rows, True


def append(path: Path, rows: Sequence[Row]) -> None:
    """Append rows to a file; make the file and its folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(_compressed(rows))


def repair(path: Path) -> None:
    """Remove a cut-off member at the end of a file, so that rows can be appended again."""
    rows, complete = _read(path)
    if not complete:
        partial = path.with_suffix(".part")
        partial.write_bytes(_compressed(rows))
        os.replace(partial, path)


def _compressed(rows: Sequence[Row]) -> bytes:
    """Return rows as one gzip member, the same bytes for the same rows."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return gzip.compress(text.encode(), mtime=0)
