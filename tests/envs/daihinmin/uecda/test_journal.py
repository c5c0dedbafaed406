"""The log and the events of a match are written whole or not at all."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from afterstate.envs.daihinmin.uecda import journal, server
from afterstate.envs.daihinmin.uecda.settings import ServerSettings
from tests.support.daihinmin.uecda_peers import RandomPlayer


class FailingFile:
    """A file that accepts seven bytes per write, and fails after `n_writes` writes."""

    name = "lines"

    def __init__(self, file: Any, n_writes: int) -> None:
        self.file, self.n_writes = file, n_writes

    def write(self, data: bytes) -> int:
        """Write up to seven bytes."""
        if self.n_writes == 0:
            raise OSError(28, "No space left on device")
        self.n_writes -= 1
        return int(self.file.write(data[:7]))

    def fileno(self) -> int:
        """Return the number of the file."""
        return int(self.file.fileno())


def append(path: Path, entry: dict[str, Any], n_writes: int | None = None) -> None:
    """Append one line; with `n_writes`, to a file that fails after this many short writes."""
    lines = journal.Lines(path)
    file = lines._file
    if n_writes is not None:
        lines._file = FailingFile(file, n_writes)  # type: ignore[assignment]
    try:
        lines.append(entry)
    finally:
        lines._file = file
        lines.close()


def test_a_line_is_written_whole_by_short_writes(tmp_path: Path) -> None:
    append(tmp_path / "a", {"name": "x" * 50}, 100)
    assert (tmp_path / "a").read_text() == '{"name":"' + "x" * 50 + '"}\n'


def test_a_failed_line_is_removed(tmp_path: Path) -> None:
    append(tmp_path / "a", {"game": 1})
    with pytest.raises(OSError, match="No space left"):
        append(tmp_path / "a", {"name": "x" * 50}, 3)
    assert (tmp_path / "a").read_text() == '{"game":1}\n'


@pytest.mark.parametrize("how", ["removed", "renamed", "replaced"])
def test_a_file_that_is_gone_is_begun_anew(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a"
    lines = journal.Lines(path)
    lines.append({"game": 1})
    if how == "removed":
        path.unlink()
    else:
        path.rename(tmp_path / "old")
    if how == "replaced":
        path.write_text("{}")
    lines.append({"game": 2})
    lines.append({"game": 3})
    lines.close()
    before = "{}\n" if how == "replaced" else ""
    assert path.read_text() == before + '{"game":2}\n{"game":3}\n'
    assert how == "removed" or (tmp_path / "old").read_text() == '{"game":1}\n' or before
    assert caplog.messages == [
        f"{path} was removed or replaced: later lines are written to a new file"
    ]


def test_an_incomplete_line_is_ended_before_the_next(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"game":1}\n{"ga')
    append(tmp_path / "a", {"game": 2})
    assert (tmp_path / "a").read_text() == '{"game":1}\n{"ga\n{"game":2}\n'


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_match_continues_without_events_but_not_without_its_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    full, built_in = Path("/dev/full"), tuple((f"p{i}", RandomPlayer(i)) for i in range(5))
    played = server.Server(ServerSettings(port=0, games=2, events=full), built_in)
    asyncio.run(played.run())
    assert played.games == 2
    assert [r.message.split(":")[0] for r in caplog.records].count(
        "events are no longer written"
    ) == 1
    stopped = server.Server(ServerSettings(port=0, games=2, log=full), built_in)
    with pytest.raises(OSError, match="No space left"):
        asyncio.run(stopped.run())
    assert stopped.games == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_whose_reader_has_stopped_ends_the_events(tmp_path: Path) -> None:
    pipe = tmp_path / "events"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        lines = journal.Lines(pipe)
        with pytest.raises(BlockingIOError):
            for _ in range(1_000):
                lines.append({"text": "x" * 1_000})
        lines.close()
    finally:
        os.close(reader)
