"""Files of rows: damage is named, and bombs are refused before they take memory."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import pytest

from afterstate.envs import json_files
from afterstate.leaderboard import gzip_rows
from afterstate.leaderboard.games import entries
from afterstate.leaderboard.rows import read, rows_file
from tests.support.leaderboard import RANDOM
from tests.support.memory import at_most


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl.gz"


@pytest.mark.slow
def test_a_bomb_is_refused_in_little_memory(path: Path) -> None:
    """A gigabyte, packed into a megabyte."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(64):
            file.write(bytes(1 << 24))
    message = r"rows\.jsonl\.gz must have at most"
    with at_most(2 * gzip_rows.MAX_BYTES), pytest.raises(ValueError, match=message):
        list(gzip_rows.rows(path))


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes")
def test_a_pipe_is_refused(path: Path) -> None:
    """Opening it would wait for a writer."""
    os.mkfifo(path)
    for use in (lambda path: [*gzip_rows.rows(path)], gzip_rows.repair):
        with pytest.raises(ValueError, match="must be a file on a disk, got a device or a pipe"):
            use(path)


def test_many_small_members_are_bounded_together(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gzip_rows, "MAX_BYTES", 1_000)
    path.write_bytes(gzip.compress(b'{"a": 1}\n') * 100)
    assert len(list(gzip_rows.rows(path))) == 100
    path.write_bytes(gzip.compress(b'{"a": 1}\n') * 120)
    with pytest.raises(ValueError, match=r"rows\.jsonl\.gz must have at most 1,000 bytes"):
        list(gzip_rows.rows(path))


def test_a_file_of_another_game_is_refused_at_its_first_row(tmp_path: Path) -> None:
    path = rows_file(tmp_path, RANDOM)
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"{}\n" * 1_000_000))
    with at_most(1 << 24), pytest.raises(ValueError, match=r"random\.jsonl\.gz, row 1: "):
        read(tmp_path, RANDOM)


@pytest.mark.parametrize("line", [b"{", b"[" * 100_000, b"[1]", b"5", b"", b"\xff", b'{"a": 1}}'])
def test_a_line_that_is_no_object_is_named(path: Path, line: bytes) -> None:
    path.write_bytes(gzip.compress(b'{"a": 1}\n' + line + b'\n{"a": 2}\n'))
    with pytest.raises(ValueError, match=r"rows\.jsonl\.gz, row 2: "):
        list(gzip_rows.rows(path))


def test_a_repair_only_cuts_the_file(path: Path) -> None:
    gzip_rows.append(path, [{"a": 1}])
    whole = path.read_bytes()
    gzip_rows.append(path, [{"a": 2}])
    path.write_bytes(path.read_bytes()[:-3])
    gzip_rows.repair(path)
    assert path.read_bytes() == whole
    gzip_rows.repair(path)
    assert path.read_bytes() == whole
    gzip_rows.repair(path.with_name("missing.gz"))


@pytest.mark.parametrize("end", [b"", bytes(40), b"\x1f\x8b\x08\x00" + bytes(9), b"garbage"])
def test_a_damaged_end_costs_itself_and_is_reported(
    path: Path, caplog: pytest.LogCaptureFixture, end: bytes
) -> None:
    gzip_rows.append(path, [{"a": 1}])
    whole = path.read_bytes()
    path.write_bytes(whole + end)
    assert list(gzip_rows.rows(path)) == [{"a": 1}]
    assert len(caplog.messages) == bool(end)
    gzip_rows.repair(path)
    assert path.read_bytes() == whole


def test_damage_before_other_rows_and_another_file_are_errors(path: Path) -> None:
    gzip_rows.append(path, [{"a": 1}])
    first = path.read_bytes()
    gzip_rows.append(path, [{"a": 2}])
    for content in (first[:15] + b"x" + path.read_bytes()[16:], b"no gzip"):
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=r"damaged before its last rows .* restore it, or delete it"
        ):
            list(gzip_rows.rows(path))
        with pytest.raises(ValueError, match="is damaged"):
            gzip_rows.repair(path)
        assert path.read_bytes() == content


def test_rows_between_damaged_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    deep = b"[" * 100_000
    path.write_bytes(b'{"a": 1}\n{"a": \n\xff\n' + deep + b'\n{"a": 2}\n{"a"')
    assert json_files.rows(path) == [{"a": 1}, {"a": 2}]


@pytest.mark.slow
def test_entries_that_are_deep_or_large_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "entries.json"
    for text in ("[" * 100_000, '{"2048":' * 10_000, json.dumps({"2048": {"a": [[]] * 10**6}})):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"entries\.json"):
            entries(path)


@pytest.mark.parametrize("bit", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("number", range(5))
def test_a_header_that_runs_over_later_members_is_damage(
    path: Path, number: int, bit: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A flag of a header may let the reader look for a field up to the end of the file."""
    starts = []
    for a in range(6):
        starts.append(path.stat().st_size if path.exists() else 0)
        gzip_rows.append(path, [{"a": a}])
    content = bytearray(path.read_bytes())
    content[starts[number] + 3] ^= 1 << bit
    path.write_bytes(content)
    if bit == 0:  # FTEXT means nothing
        assert len(list(gzip_rows.rows(path))) == 6
        return
    damaged = pytest.raises(ValueError, match=r"rows\.jsonl\.gz is damaged before its last rows")
    with damaged:
        list(gzip_rows.rows(path))
    with damaged:
        gzip_rows.repair(path)
    assert path.read_bytes() == content and not caplog.messages
