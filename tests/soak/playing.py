"""Players of 2048 write play logs, and those of both games play on a leaderboard."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

from afterstate.agents.game2048.learning.play_logs import MOVE, SAVE_SECONDS
from afterstate.envs import json_files
from afterstate.envs.json_files import Row
from afterstate.leaderboard import rows as leaderboard
from afterstate.leaderboard.games import REPEATED_FIELDS, Entry, entries
from tests.soak.growth import Usage
from tests.soak.harness import Death, Job
from tests.soak.progress import bar, shown


class PlayLog(Job):
    """The moves of games are logged; a log that is whole must be that of a run without kills."""

    codes = {SIGTERM: 130, SIGINT: 130}
    unit, n_temporary = "games", 2  # the log and its description
    N_GAMES = 3_000

    def __init__(self, folder: Path) -> None:
        super().__init__("play log", folder)
        self._n_logs = self._n_games = 0
        self._log, self._expected = folder / "moves.npy", folder / "expected.npy"
        self._parts = self._log.with_suffix(".parts")
        print(f"playing {2 * self.N_GAMES:,} games for later comparisons", flush=True)
        subprocess.run(
            [sys.executable, *self._play(self._expected)], check=True, capture_output=True
        )

    def _play(self, log: Path) -> list[str]:
        """Return the arguments of Python for a log."""
        amounts = ["--player", "ntuple", "reward", "--games", str(self.N_GAMES), "--batch", "100"]
        module = ["-m", "afterstate", "log", str(log)]
        return [*module, *amounts, "--share", "0.05"]

    def command(self) -> list[str]:
        """Return the arguments of Python."""
        return self._play(self._log) + ["--resume"] * self._parts.exists()

    def works(self, output: str) -> bool:
        """Return True if there is a progress bar."""
        return bar(self.unit).search(output) is not None

    def is_done(self) -> bool:
        """Return True if the log is whole and its parts are gone."""
        return self._log.exists() and not self._parts.exists()

    def check(self, death: Death) -> int:
        """Return the number of games in whole logs and in that which is played."""
        if self.is_done():
            self._compare()
        elif not self._log.exists():
            self._check_parts(death)
        return self._n_logs * self.N_GAMES + self._n_games

    def _compare(self) -> None:
        """Compare a whole log with the expected one, and remove it."""
        for suffix in (".npy", ".json"):
            mine, expected = (each.with_suffix(suffix) for each in (self._log, self._expected))
            assert mine.read_bytes() == expected.read_bytes(), f"{mine} differs from {expected}"
            mine.unlink()
        self._n_logs, self._n_games = self._n_logs + 1, 0

    def _check_parts(self, death: Death) -> None:
        """Check that the moves of all rounds are there that are recorded as saved."""
        state = self._parts / "state.json"
        if not state.exists():
            assert not self._n_games, "has lost its state"
            return
        saved = json_files.read(state)
        for bucket, n_moves in enumerate(saved["sizes"]):
            path, size = self._parts / f"{bucket:03}.moves", n_moves * MOVE.itemsize
            has = path.stat().st_size if path.exists() else 0
            right = has == size if death.is_polite else has >= size
            assert right, f"has {has} bytes in {path}, and {size} by its state"
        n_games = min(saved["games"])
        assert n_games >= self._n_games, f"had {self._n_games} games and now has {n_games}"
        self._n_games = n_games
        self._check_lost(death, n_games, death.time - state.stat().st_mtime)

    def _check_lost(self, death: Death, n_games: int, age: float) -> None:
        """Check that a stop has lost no round, and a kill only the rounds of the last seconds."""
        if death.is_polite:
            games = shown(death.output, self.unit)
            assert n_games >= games, f"showed {games} games and saved {n_games}"
        round_seconds = 60  # at most, on a busy machine
        late = min(age, death.worked) - SAVE_SECONDS - round_seconds
        assert late < 0, f"was saved {age:.0f} seconds before it was killed"


class Leaderboard(Job):
    """Players of both games play on a leaderboard, which is compared with an earlier one."""

    codes = {SIGTERM: 130, SIGINT: 130}
    unit = "rows"
    limit = Usage(memory=96 << 20, files=4, threads=2)
    """Memory for the kernels of the second game, which it loads when the first one is played."""
    ENTRIES = {
        "2048": {"largest reward": {"player": "reward", "games": 4_000, "chunk": 20}},
        "daihinmin": {"the sample client": {"player": "daihinmin-sample", "games": 60}},
    }

    def __init__(self, folder: Path) -> None:
        super().__init__("leaderboard", folder)
        self._board, self._file = folder / "board", folder / "entries.json"
        self._file.write_text(json.dumps(self.ENTRIES))
        self._entries = entries(self._file)
        self._rows: dict[str, list[Row]] = {entry.name: [] for entry in self._entries}
        self._first: dict[str, Any] = {}  # results of the first complete leaderboard
        self._n_chunks = self._n_before = 0

    def command(self) -> list[str]:
        """Return the arguments of Python."""
        files = ["--entries", str(self._file), "--rows", str(self._board)]
        return ["-m", "afterstate", "leaderboard", "play", *files]

    def works(self, output: str) -> bool:
        """Return True if there is a progress bar."""
        return bar("chunks").search(output) is not None

    def is_done(self) -> bool:
        """Return True if all games are played."""
        return not any(self._missing(entry) for entry in self._entries)

    def _missing(self, entry: Entry) -> list[list[int]]:
        """Return the chunks without rows."""
        return leaderboard.missing(entry, {row["seed"] for row in self._read(entry)})

    def _read(self, entry: Entry) -> list[Row]:
        """Return the rows of an entry."""
        return leaderboard.read(self._board, entry)

    def check(self, death: Death) -> int:
        """Return the number of rows; there must be those of all chunks that were shown as played.

        A row is written before its chunk is shown, so that also a kill loses none.
        """
        n_chunks = sum(self._check_entry(entry, death) for entry in self._entries)
        least = self._n_chunks + shown(death.output, "chunks")
        assert n_chunks >= least, f"showed {least} chunks and has {n_chunks}"
        self._n_chunks = n_chunks
        if self.is_done():
            self._compare()
        return self._n_before + sum(map(len, self._rows.values()))

    def _check_entry(self, entry: Entry, death: Death) -> int:
        """Check the rows of an entry, and return the number of its chunks."""
        rows, before = self._read(entry), self._rows[entry.name]
        assert rows[: len(before)] == before, f"has lost or changed rows of {entry.name}"
        self._rows[entry.name] = rows
        times = Counter((row["seed"], row.get("number")) for row in rows)
        assert all(n == 1 for n in times.values()), f"has games of {entry.name} twice"
        chunks = entry.chunks()
        whole = [chunk for chunk in chunks if chunk not in self._missing(entry)]
        n_rows = sum(map(len, whole)) * entry.rows_each
        assert len(rows) == n_rows, f"has {len(rows)} rows of {entry.name}, {n_rows} in chunks"
        path = leaderboard.rows_file(self._board, entry)
        if death.is_polite and path.exists():
            gzip.decompress(path.read_bytes())  # raises EOFError if it is cut off
        return len(whole)

    def _compare(self) -> None:
        """Compare a complete leaderboard with the first one, and remove it."""
        results = {
            f"{entry.name}, {row['seed']}, {row.get('number')}": [
                row[field] for field in REPEATED_FIELDS[entry.game]
            ]
            for entry in self._entries
            for row in self._rows[entry.name]
        }
        self._first = self._first or results
        wrong = [name for name in results if results[name] != self._first[name]]
        assert not wrong, f"has other results than before: {wrong[:3]}"
        self._n_before, self._n_chunks = self._n_before + len(results), 0
        self._rows = {name: [] for name in self._rows}
        shutil.rmtree(self._board)
