"""Bounded reading of JSON: what is read, and what is refused before it takes memory or time."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from afterstate.envs import json_files
from tests.support.memory import at_most


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2.5, true, null]", [1, 2.5, True, None]),
        ('{"a": {"b": "ü"}}', {"a": {"b": "ü"}}),
        ("18446744073709551615", 2**64 - 1),
        ("[" * 100 + "]" * 100, None),
    ],
)
def test_json_is_parsed(text: str, value: Any) -> None:
    for each in (text, text.encode()):
        assert value is None or json_files.parse(each) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1,]", "nothing", "{'a': 1}", "1 2", '"\\ud800"', "9" * 10_000),
        *("[" * 1_000_000, '{"a":' * 1_000_000, "[" * 10_000 + "]" * 10_000),
        *(b"\xff\xfe", b"\0", b'"\x01"'),
    ],
)
def test_anything_else_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        json_files.parse(text)


def test_a_file_is_read_with_and_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for data in (b'{"a": 1}', b'\xef\xbb\xbf{"a": 1}'):
        path.write_bytes(data)
        assert json_files.read(path) == json_files.read(str(path)) == {"a": 1}


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"[" * 100_000)
    with pytest.raises(ValueError, match=r"a\.json is not valid JSON"):
        json_files.read(path)
    with pytest.raises(FileNotFoundError):
        json_files.read(tmp_path / "missing.json")
    with pytest.raises(IsADirectoryError):
        json_files.read(tmp_path)


def test_an_endless_file_is_refused_at_the_limit() -> None:
    with (
        at_most(3 * json_files.MAX_TEXT),
        pytest.raises(ValueError, match="/dev/zero must be a file"),
    ):
        json_files.read("/dev/zero")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_lines_are_those_of_the_file(tmp_path: Path, name: str) -> None:
    data = b"one\r\ntwo\n\nfour"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert list(json_files.lines(tmp_path / name)) == [b"one\r\n", b"two\n", b"\n", b"four"]
    assert list(json_files.lines(tmp_path / name))[-1] == b"four"


@pytest.mark.slow
def test_an_endless_line_is_refused_in_little_memory(tmp_path: Path) -> None:
    """A gigabyte of zeros, packed into a megabyte."""
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(64):
            file.write(bytes(1 << 24))
    message = r"a\.jsonl\.gz: line 1 has more than"
    with at_most(4 * json_files.MAX_TEXT), pytest.raises(ValueError, match=message):
        list(json_files.lines(path))


@pytest.mark.slow
def test_empty_lines_without_end_are_refused(tmp_path: Path) -> None:
    """Ten million line breaks, packed into some 10,000 bytes."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n" * 10_000_000))
    with pytest.raises(ValueError, match=r"a\.jsonl\.gz unpacks to more than 200 times its size"):
        assert all(line == b"\n" for line in json_files.lines(path))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-5], "damaged after line 3: .* ended before"),
        (lambda data: data[:-8] + bytes(8), "damaged after line 3: CRC"),
        (lambda data: b"hello", "damaged after line 0: Not a gzipped file"),
        (lambda data: data[:30] + b"\xff" * 9 + data[39:], "damaged after line"),
    ],
)
def test_lines_before_the_damage_of_a_packed_file_are_read(
    tmp_path: Path, damage: Any, message: str
) -> None:
    path = tmp_path / "a.gz"
    lines: list[bytes] = []
    path.write_bytes(damage(gzip.compress(b"one line\nanother line\na third line\n", mtime=0)))
    with pytest.raises(ValueError, match=rf"a\.gz: {message}"):
        lines.extend(json_files.lines(path))


def test_damaged_rows_are_left_out_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rows.jsonl"
    assert json_files.rows(path) == []
    json_files.append(path, [{"a": 1}, {"a": "ä"}])
    assert not caplog.messages
    with path.open("ab") as file:
        file.write(b'{"a": 3')
    assert json_files.rows(path) == [{"a": 1}, {"a": "ä"}]
    assert caplog.messages == [f"{path}: left out damaged lines: 1"]
    json_files.append(path, [{"a": 4}])
    assert json_files.rows(path) == [{"a": 1}, {"a": "ä"}, {"a": 4}]
