"""Mutations of files: of their bytes, numbers and JSON, also within archives and packed files."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

NUMBERS = [
    *(b"0", b"1", b"-1", b"2", b"7", b"16", b"255", b"1.5", b"-0.0", b"1e-400"),
    *(b"4294967296", b"9223372036854775807", b"18446744073709551616", b"1000000000000"),
    *(b"1e999", b"NaN", b"-Infinity", b"9" * 400, b"9" * 5_000),
]
TOKENS = [
    *(b"null", b"true", b"false", b'""', b"[]", b"{}", b"[0]", b'{"a": 1}', b'"\\ud800"', b'"S3"'),
    *(b"[" * 100, b"[" * 100_000, b'{"a":' * 1_000, b'"' + b"x" * 10_000 + b'"', b"\xff", b"\0"),
]
WORDS = [
    *(struct.pack("<f", value) for value in (float("nan"), float("inf"), float("-inf"), 3e38)),
    *(struct.pack("<d", value) for value in (float("nan"), float("inf"), 1e300)),
    *(struct.pack("<q", value) for value in (-1, 1, 5, 1 << 20, 1 << 40, -(1 << 63))),
    *(struct.pack("<I", value) for value in (0, 1, 255, 1 << 31, (1 << 32) - 1)),
    *(bytes([value]) for value in (0, 1, 4, 127, 255)),
]
"""Replacements of the numbers and tokens of a text, and of binary numbers."""

_LONGEST = 1 << 18
"""Most bytes that a mutation repeats."""

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[\w.+-]+')


def _span(data: bytes, rng: random.Random, most: int = 64) -> tuple[int, int]:
    """Return the begin and the end of a random block."""
    begin = rng.randrange(len(data) + 1)
    return begin, min(len(data), begin + rng.randint(1, rng.choice([2, 8, most, len(data) + 1])))


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    """Return the data with some flipped bits."""
    flipped = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8]) if data else 0):
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def cut(data: bytes, rng: random.Random) -> bytes:
    """Return the data without a block, in half of the cases without all that follows it."""
    begin, end = _span(data, rng)
    return data[:begin] + (data[end:] if rng.random() < 0.5 else b"")


def insert(data: bytes, rng: random.Random) -> bytes:
    """Return the data with inserted bytes."""
    at, piece = rng.randrange(len(data) + 1), rng.randbytes(rng.choice([1, 4, 100]))
    return data[:at] + rng.choice([piece, bytes(len(piece)), *TOKENS]) + data[at:]


def duplicate(data: bytes, rng: random.Random) -> bytes:
    """Return the data with a block repeated, there or elsewhere."""
    begin, end = _span(data, rng, 500)
    at, times = rng.choice([end, rng.randrange(len(data) + 1)]), rng.choice([1, 1, 2, 20])
    return data[:at] + data[begin : min(end, begin + _LONGEST // times)] * times + data[at:]


def overwrite(data: bytes, rng: random.Random) -> bytes:
    """Return the data with a binary number replaced."""
    word = rng.choice(WORDS)
    at = rng.randrange(len(data) + 1)
    at -= at % len(word) if rng.random() < 0.5 else 0
    return data[:at] + word + data[at + len(word) :]


def _replaced(data: bytes, rng: random.Random, what: re.Pattern[bytes], by: list[bytes]) -> bytes:
    """Return the data with one match near a random place replaced."""
    match = what.search(data, rng.randrange(len(data) + 1)) or what.search(data)
    if match is None:
        return data
    return data[: match.start()] + rng.choice(by) + data[match.end() :]


def change_number(data: bytes, rng: random.Random) -> bytes:
    """Return a text with a number replaced."""
    return _replaced(data, rng, _NUMBER, NUMBERS)


def change_token(data: bytes, rng: random.Random) -> bytes:
    """Return a text with a JSON token replaced, by another of its own or a strange one."""
    own = rng.sample(_TOKEN.findall(data[:20_000]) or [b""], 1)
    return _replaced(data, rng, _TOKEN, [*own, rng.choice(TOKENS), rng.choice(NUMBERS)])


MUTATIONS = [flip_bits, cut, insert, duplicate, overwrite, change_number, change_token]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return the data with one or some mutations."""
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        data = rng.choice(MUTATIONS)(data, rng)
    return data


# Packed files


class Packing(NamedTuple):
    """A format whose parts are mutated one by one, under valid checksums and lengths."""

    unpack: Callable[[bytes], list[bytes]]
    pack: Callable[[bytes, list[bytes]], bytes]
    """Return a file of other parts, like the given one."""


def _unzip(data: bytes) -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [archive.read(entry) for entry in archive.infolist()]


def _zip(like: bytes, parts: list[bytes]) -> bytes:
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(like)) as old,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name, part in zip(old.namelist(), parts, strict=True):
            new.writestr(name, part)
    return packed.getvalue()


def _split_safetensors(data: bytes) -> list[bytes]:
    end = 8 + int.from_bytes(data[:8], "little")
    layout = json.loads(data[8:end])
    metadata = layout.pop("__metadata__")["afterstate"]
    return [metadata.encode(), json.dumps(layout).encode(), data[end:]]


def _join_safetensors(like: bytes, parts: list[bytes]) -> bytes:
    metadata, layout, tensors = parts
    named: dict[str, Any] = {"afterstate": metadata.decode(errors="replace")}
    header = b'{"__metadata__":' + json.dumps(named).encode() + b"," + layout[1:]
    return len(header).to_bytes(8, "little") + header + tensors


ZIP = Packing(_unzip, _zip)
GZIP = Packing(lambda data: [gzip.decompress(data)], lambda _, parts: gzip.compress(parts[0]))
SAFETENSORS = Packing(_split_safetensors, _join_safetensors)


def mutate_part(data: bytes, packing: Packing, rng: random.Random) -> bytes:
    """Return a packed file with one of its parts mutated."""
    parts = packing.unpack(data)
    which = rng.randrange(len(parts))
    parts[which] = mutate(parts[which], rng)
    return packing.pack(data, parts)
