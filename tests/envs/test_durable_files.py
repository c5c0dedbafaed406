"""Files are synced where a guarantee needs it, and what cannot be written leaves no part."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from afterstate import agents
from afterstate.agents.game2048.learning import play_logs
from afterstate.envs import durable_files, json_files


def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list to which files and folders are added when they are synced."""
    paths: list[Path] = []
    fsync = os.fsync

    def note(file: int) -> None:
        paths.append(Path(os.readlink(f"/proc/self/fd/{file}")))
        fsync(file)

    monkeypatch.setattr(os, "fsync", note)
    return paths


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system has no /proc")
def test_the_name_of_a_file_that_a_killed_process_made_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.jsonl"
    path.touch()
    paths = synced(monkeypatch)
    durable_files.append(path, b"1\n")
    assert paths == [path, tmp_path]
    durable_files.append(path, b"2\n")
    assert paths == [path, tmp_path, path]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EACCES])
def test_folders_that_cannot_be_synced_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", refuse)
    durable_files.write(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.skipif(not hasattr(os, "set_blocking"), reason="needs pipes that do not block")
def test_a_full_pipe_is_an_error() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(writing, "wb", buffering=0) as file, os.fdopen(reading, "rb"):
        with pytest.raises(BlockingIOError):
            durable_files.append_to(file, bytes(1 << 24))


def test_unfinished_files_are_removed_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "net.npz.999999999.0123abcd.part").touch()
    names = ["net.npz.123.part", "notes.part", "rows.jsonl", "a.part.txt"]
    for name in names:
        (tmp_path / name).touch()
    durable_files.remove_unfinished(tmp_path.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def test_writers_of_one_file_at_the_same_time_leave_a_whole_one(tmp_path: Path) -> None:
    path, sizes = tmp_path / "file", (100, 3_000_000)

    def write(size: int) -> None:
        for _ in range(20):
            durable_files.write(path, b"x" * size, synced=False)
            assert path.stat().st_size in sizes

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(write, sizes)) == [None, None]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="processes cannot be asked for")
def test_unfinished_files_of_running_processes_stay(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        ends = (".part", ".0123abcd.part", ".99999999.part")
        theirs = [tmp_path / f"net.npz.{process.pid}{end}" for end in ends]
        for path in (*theirs, tmp_path / f"net.npz.{os.getpid()}.part"):
            path.touch()
        durable_files.remove_unfinished(tmp_path.iterdir())
        assert sorted(tmp_path.iterdir()) == sorted(theirs)
        process.communicate(b"\n")
    durable_files.remove_unfinished(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(
    "read",
    [
        json_files.read,
        json_files.rows,
        play_logs.read,
        lambda path: agents.load(path.with_suffix(".w")),
        lambda path: agents.load(path.with_suffix(".npz")),
    ],
)
def test_no_reader_waits_for_a_pipe(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    for name in ("pipe", "pipe.w", "pipe.npz"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match="must be a file on a disk"):
        read(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe must be a file, got a pipe"):
        json_files.append(tmp_path / "pipe", [{}])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_an_error_of_writing_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        durable_files.append("/dev/full", b"data")
    with pytest.raises(OSError, match=r"too large: '.*large'"):
        with durable_files.replace(tmp_path / "large"):
            raise OSError(errno.EFBIG, "File too large")
