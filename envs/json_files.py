"""Bounded reading of JSON: a text, a file, and the lines of a file, plain or packed by gzip.

Reading takes memory in proportion to the limit below, whatever a file claims, and raises nothing
but OSError and a ValueError, which names the file.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic_core import from_json

MAX_TEXT = 1 << 22
"""Longest JSON text, a line or a whole file, in bytes. A recorded game of Daihinmin has 15,000;
lists within lists take 20 times as much memory."""


def parse(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    >>> parse('{"depth": [1, 2.5, null]}')
    {'depth': [1, 2.5, None]}

    Raises:
        ValueError: it is not JSON, nested in more than 200 levels, or longer than `MAX_TEXT`.
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"must have at most {MAX_TEXT:,} bytes, got {len(text):,}")
    return from_json(text)


def read_bytes(path: str | Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is longer than `MAX_TEXT`.
    """
    with open(path, "rb") as file:
        data = file.read(MAX_TEXT + 1)
    if len(data) > MAX_TEXT:
        raise ValueError(f"{path} must have at most {MAX_TEXT:,} bytes, got more")
    return data.removeprefix(codecs.BOM_UTF8)


def read(path: str | Path) -> Any:
    """Return the value of a JSON file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not JSON, nested in more than 200 levels, or longer than `MAX_TEXT`.
    """
    data = read_bytes(path)
    try:
        return parse(data)
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error


def lines(path: str | Path) -> Iterator[bytes]:
    """Yield the lines of a file, unpacked if its name ends in `.gz`.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is longer than `MAX_TEXT`, or the packed file is damaged or cut off.
    """
    open_ = gzip.open if Path(path).suffix == ".gz" else open
    number = 0
    with open_(path, "rb") as file:
        try:
            while line := file.readline(MAX_TEXT + 1):
                number += 1
                if len(line) > MAX_TEXT:
                    raise ValueError(f"{path}: line {number} has more than {MAX_TEXT:,} bytes")
                yield line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: damaged after line {number}: {error}") from error
