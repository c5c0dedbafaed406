"""Bounded reading of JSON: a text, a file, and the lines of a file, plain or packed by gzip.

Reading takes memory in proportion to the limit below, whatever a file claims, and raises nothing
but OSError and a ValueError, which names the file. Rows are lines that a process appends one after
the other: a killed process leaves all of them, or an incomplete last one.
"""

from __future__ import annotations

import codecs
import gzip
import json
import logging
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from pydantic_core import from_json

from afterstate.envs import durable_files
from afterstate.envs.messages import shown

LOGGER = logging.getLogger(__name__)

Row = dict[str, Any]
"""A row of a file: an object of JSON."""

MAX_TEXT = 1 << 22
"""Longest JSON text, a line or a whole file, in bytes. A recorded game of Daihinmin has 15,000;
lists within lists take 20 times as much memory."""
MAX_RATIO = 200
"""Most bytes that one packed byte may stand for; recorded games have 20."""


def parse(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    >>> parse('{"depth": [1, 2.5, null]}')
    {'depth': [1, 2.5, None]}

    Raises:
        ValueError: it is not JSON, nested in more than 200 levels, or longer than `MAX_TEXT`.
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"must have at most {MAX_TEXT:,} bytes, got {len(text):,}")
    return from_json(text.encode() if isinstance(text, str) else text)  # UnicodeError: ValueError


def read_bytes(path: str | Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is longer than `MAX_TEXT`.
    """
    with durable_files.open_to_read(path) as file:
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
        ValueError: a line is longer than `MAX_TEXT`, or the packed file is damaged, cut off or has
            more than `MAX_RATIO` times as many bytes when it is unpacked.
    """
    is_packed, number, n_bytes = Path(path).suffix == ".gz", 0, 0
    with durable_files.open_to_read(path) as packed:
        file = cast(IO[bytes], gzip.open(packed, "rb") if is_packed else packed)
        most = MAX_TEXT + MAX_RATIO * os.stat(path).st_size if is_packed else math.inf
        try:
            while line := file.readline(MAX_TEXT + 1):
                if number == 0:
                    line = line.removeprefix(codecs.BOM_UTF8)
                number, n_bytes = number + 1, n_bytes + len(line)
                if len(line) > MAX_TEXT:
                    raise ValueError(f"{path}: line {number} has more than {MAX_TEXT:,} bytes")
                if n_bytes > most:
                    raise ValueError(f"{path} unpacks to more than {MAX_RATIO} times its size")
                yield line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: damaged after line {number}: {error}") from error


def rows(path: str | Path) -> list[Any]:
    """Return the values of a file's lines; none if there is no file.

    Damaged lines, such as one cut off by a kill, are left out and reported in the log.

    Raises:
        OSError: the file cannot be read.
        ValueError: see `lines`.
    """
    values = [_value(line) for line in lines(path)] if Path(path).exists() else []
    whole = [value for value in values if value is not _DAMAGED]
    if len(whole) < len(values):
        LOGGER.warning("%s: left out damaged lines: %d", path, len(values) - len(whole))
    return whole


_DAMAGED: Any = object()


def _value(line: bytes) -> Any:
    """Return the value of a line, `_DAMAGED` if it is not JSON."""
    try:
        return parse(line)
    except ValueError:
        return _DAMAGED


def write_rows(path: str | Path, values: Sequence[Any]) -> None:
    """Write values as the lines of a file, in place of an older one.

    Raises:
        OSError: it cannot be written; an older file is kept.
    """
    durable_files.write(path, to_lines(values))


def to_lines(values: Sequence[Any]) -> bytes:
    """Return JSON lines of some values."""
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode()


def append(path: str | Path, values: Sequence[Any]) -> None:
    """Append values to a file as lines, after the end of an incomplete one.

    Raises:
        OSError: they cannot be written; the file stays as it was.
    """
    data = to_lines(values)
    if is_cut_off(path):
        data = b"\n" + data
    durable_files.append(path, data)


def truncate(path: str | Path, key: str, last: int) -> int:
    """Delete the rows of a file that come after `last`, and those without a number.

    Rows without a number, such as damaged ones, are appended to a file whose name ends in
    `.damaged`, which is reported in the log.

    Args:
        path: the file; it may be missing.
        key: key of the integer by which rows are ordered, such as `"n_moves"`.
        last: the largest integer that is kept.

    Returns:
        The integer of the last row kept, 0 if there is none.

    Raises:
        OSError: the file cannot be read or written.
        ValueError: see `lines`; or these are rows of something else: none has such an integer, and
            it is not a single damaged one, or one has a smaller integer than the row before.
    """
    if not Path(path).exists():
        return 0
    every = [(_number(_value(line), key), line) for line in lines(path)]
    numbers = [number for number, _ in every if number is not None]
    is_first_torn = len(every) == 1 and _value(every[0][1]) is _DAMAGED
    if numbers != sorted(numbers) or (every and not numbers and not is_first_torn):
        got = shown(every[0][1].decode(errors="replace"))
        raise ValueError(f"{path}: rows must have rising integers {key!r}, got {got} first")
    if left := [line for number, line in every if number is None]:
        damaged = Path(f"{path}.damaged")
        durable_files.append(damaged, b"".join(line.removesuffix(b"\n") + b"\n" for line in left))
        LOGGER.warning("%s: moved lines without %r to %s: %d", path, key, damaged, len(left))
    kept = [(number, line) for number, line in every if number is not None and number <= last]
    data = b"".join(line for _, line in kept)
    if data and not data.endswith(b"\n"):
        data += b"\n"
    durable_files.write(path, data)
    return kept[-1][0] if kept else 0


def _number(row: Any, key: str) -> int | None:
    """Return the integer of a row, which may be written as `100.0`; None if it has none."""
    number = row.get(key) if isinstance(row, dict) else None
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number if type(number) is int else None


def is_cut_off(path: str | Path) -> bool:
    """Return True if the last line of a file is incomplete; False for a pipe or a terminal."""
    if not Path(path).exists() or not Path(path).stat().st_size:
        return False
    with open(path, "rb") as file:
        file.seek(-1, 2)
        return file.read() != b"\n"
