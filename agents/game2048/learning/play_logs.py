"""Play logs: shuffled moves of any players, from which networks learn.

    afterstate log logs/moves.npy --moves 1e7
    afterstate log logs/moves.npy --moves 1e7 --resume

A log is a numpy file, an array of records of 9 bytes: the board, as a word of `rules.py`, and the
action that the player selected.

    log = np.load("logs/moves.npy", mmap_mode="r")    # of [("board", "<u8"), ("action", "u1")]

The records are uniformly shuffled, so a learner can read them in order, and any part of a log is a
sample of it. The 600 million moves of Matsuzaki and Teramura take 5.4 GB. `moves.json`, next to the
log, describes its players and games and has a checksum of its moves.

A log need not fit into memory. While games are played, each move goes to one of 256 random buckets
in the folder `moves.parts`; at the end each bucket is shuffled in memory and appended to the log.
The buckets are deleted when the log is complete, so the disk needs twice its size. A run that was
interrupted, killed or ran out of disk space continues with `--resume`, also with another number of
games or moves. The same settings make the same file, whatever the number of jobs and interruptions,
unless a player has a time limit per move.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import zlib
from collections.abc import Generator, Iterator
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from afterstate import agents
from afterstate.agents import files
from afterstate.agents.game2048.learning.options import LogOptions
from afterstate.agents.game2048.play import Player, play
from afterstate.agents.training.folder import LOCK_FILE, FolderLock
from afterstate.agents.training.workers import Workers
from afterstate.envs import durable_files, json_files
from afterstate.envs.messages import shown
from afterstate.envs.options import name_and_pairs
from afterstate.envs.signals import sigterm_raises, uninterrupted
from afterstate.envs.words import Words

MOVE = np.dtype([("board", "<u8"), ("action", "u1")])
"""A record of a log, 9 bytes."""

_MAX_COUNT = 1 << 52
"""No log reaches as many games, moves or points."""

SAVE_SECONDS = 10.0
"""Time after which moves are made to survive a kill or a power loss."""

N_BUCKETS = 256
"""Moves are divided among this many files before they are shuffled."""

Moves = npt.NDArray[np.void]
"""Records `MOVE[n]`."""


def check_moves(log: Any) -> None:
    """Raise ValueError unless a log has the records of a play log."""
    if not isinstance(log, np.ndarray) or log.dtype != MOVE or log.ndim != 1:
        raise ValueError(f"log must be the moves of a play log, an array MOVE[n], got {shown(log)}")


class Sampling(NamedTuple):
    """Settings of the games and of the moves that are logged."""

    players: tuple[str, ...]  # as for `agents.find`; they take turns, one round each
    batch: int = 32  # games of a round, played in parallel
    skip: int = 0  # number of first moves of each game that are not logged
    share: float = 1.0  # probability that each other move is logged
    seed: int = 1  # of the first game (one more for each next game) and of the sampling


class Round(NamedTuple):
    """Result of a round: games that were played in parallel."""

    moves: Moves
    player: int  # its index
    scores: list[int]
    n_played: int  # moves of these games, logged or not


def _player(text: str, seed: int) -> Player:
    """Return a player: a new one with this seed if it takes one, unless its settings have one.

    Raises:
        OSError: its file cannot be read.
        ValueError: it is unknown, or does not play 2048 on 4x4 boards.
        ImportError: it needs an extra that is not installed.
    """
    if not agents.takes_seed(name_and_pairs(text)[0]):
        return _cached_player(text)
    return _player_of_2048(text, seed)


def _player_of_2048(text: str, seed: int | None = None) -> Player:
    """Return a player, or raise ValueError if it does not play 2048 on 4x4 boards."""
    player: Player = agents.find(text, seed)
    if not hasattr(player, "act") or getattr(player, "size", (4, 4)) != (4, 4):
        raise ValueError(f"player must play 2048 on 4x4 boards, got {shown(text)}")
    return player


_cached_player = cache(_player_of_2048)
"""Players without a seed, loaded once in each process."""


def play_round(sampling: Sampling, number: int) -> Round:
    """Play the games of a round, numbered from 0; each round has its own seeds.

    Raises:
        ValueError: the player's actions are not legal.
    """
    turn, first = number % len(sampling.players), sampling.seed + number * sampling.batch
    rng, parts = np.random.default_rng([sampling.seed, number]), []
    n_before = np.zeros(sampling.batch, np.int64)
    player = _player(sampling.players[turn], int(rng.integers(2**63)))

    def watch(games: npt.NDArray[np.int64], boards: Words, actions: npt.NDArray[np.int64]) -> None:
        mask = n_before[games] >= sampling.skip
        if sampling.share < 1:
            mask &= rng.random(len(games)) < sampling.share
        n_before[games] += 1
        moves = np.empty(np.count_nonzero(mask), MOVE)
        moves["board"], moves["action"] = boards[mask], actions[mask]
        parts.append(moves)

    games = play(player, sampling.batch, first, (4, 4), watch=watch)
    moves = np.concatenate(parts)
    return Round(moves, turn, games.scores.tolist(), int(games.n_moves.sum()))


def play_rounds(sampling: Sampling, first: int, workers: Workers) -> Generator[Round, None, None]:
    """Yield the rounds from `first` on, without end and in order; `workers` play them."""
    return workers.results(partial(play_round, sampling, number) for number in count(first))


def _checksum(state: dict[str, Any]) -> int:
    """Return the CRC-32 of a state, as JSON."""
    return zlib.crc32(json.dumps(state, sort_keys=True).encode())


class Buckets:
    """The moves logged so far, divided at random among files of a folder.

    Args:
        folder: a folder to make, or one with the buckets of a run to resume, which must then be
            `truncate`d.
        sampling: settings of the run.

    Raises:
        OSError: the folder cannot be read or written.
        ValueError: the folder has moves of another sampling, or another process writes to it.
    """

    def __init__(self, folder: Path, sampling: Sampling) -> None:
        self._folder, self._state = folder, folder / "state.json"
        self._lock = FolderLock(folder)
        self.sampling = sampling
        self.n_rounds, self.n_played = 0, 0
        self.games = [0] * len(sampling.players)  # by player
        self._scores = [0] * len(sampling.players)  # sums by player
        self._sizes = np.zeros(N_BUCKETS, np.int64)
        self._checksums = [0] * N_BUCKETS
        self._saved = time.monotonic()
        if self._state.exists():
            self._resume()
        else:
            self.save()

    def _resume(self) -> None:
        """Read the state after the last save."""
        try:
            state = json_files.read(self._state)
            if state.pop("checksum") != _checksum(state):
                raise ValueError("it has another checksum")
            before = Sampling(tuple(state["sampling"][0]), *state["sampling"][1:])
            self.n_rounds, self.n_played = int(state["n_rounds"]), int(state["n_played"])
            self.games = [int(n) for n in state["games"]]
            self._scores = [int(total) for total in state["scores"]]
            self._sizes = np.array(state["sizes"], np.int64)
            self._checksums = [int(checksum) for checksum in state["crc32"]]
            if self._sizes.shape != (N_BUCKETS,) or not len(self.games) == len(self._scores):
                raise ValueError("it has other buckets or players")
            if len(self._checksums) != N_BUCKETS:
                raise ValueError("it has other checksums")
            counts = [self.n_rounds, self.n_played, *self.games, *self._scores, *self._sizes]
            if not all(0 <= count < _MAX_COUNT for count in counts):
                raise ValueError("it has counts that no run reaches")
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{self._state} is damaged: start over") from error
        if before != self.sampling or len(self.games) != len(before.players):
            raise ValueError(f"{self._folder} has moves of {before!s:.200}: use another file")

    def truncate(self) -> None:
        """Delete the moves that were written after the last save.

        Raises:
            OSError: the buckets cannot be read or written.
            ValueError: moves of earlier rounds are missing.
        """
        for bucket, size in enumerate(self._sizes * MOVE.itemsize):
            with durable_files.open_to_append(self._file(bucket)) as file:
                if file.tell() < size:
                    raise ValueError(f"{self._file(bucket)} has lost moves: start over")
                file.truncate(int(size))

    def _file(self, bucket: int) -> Path:
        """Return the file of a bucket."""
        return self._folder / f"{bucket:03}.moves"

    @property
    def n_moves(self) -> int:
        """Number of moves in the buckets."""
        return int(self._sizes.sum())

    def add(self, result: Round) -> None:
        """Append the moves of a round; a kill loses those of the last `SAVE_SECONDS`.

        Raises:
            OSError: they cannot be written, or the folder is no longer the one of the run.
        """
        self._lock.check()
        rng = np.random.default_rng([self.sampling.seed, self.n_rounds, 1])
        buckets = rng.integers(N_BUCKETS, size=len(result.moves), dtype=np.uint8)
        moves = result.moves[np.argsort(buckets, kind="stable")]
        sizes, checksums = np.bincount(buckets, minlength=N_BUCKETS), list(self._checksums)
        for bucket, part in enumerate(np.split(moves, np.cumsum(sizes)[:-1])):
            data = part.tobytes()
            with durable_files.open_to_append(self._file(bucket)) as file:
                durable_files.append_to(file, data, synced=False)
            checksums[bucket] = zlib.crc32(data, checksums[bucket])
        with uninterrupted():
            self._sizes, self._checksums = self._sizes + sizes, checksums
            self.n_rounds, self.n_played = self.n_rounds + 1, self.n_played + result.n_played
            self.games[result.player] += len(result.scores)
            self._scores[result.player] += sum(result.scores)
        if time.monotonic() - self._saved > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Record that the rounds so far are complete, when their moves are on the disk.

        Raises:
            OSError: the buckets cannot be written, or the folder is no longer the one of the run.
        """
        self._lock.check()
        state = {"sampling": self.sampling, "n_rounds": self.n_rounds, "n_played": self.n_played}
        state |= {"sizes": self._sizes.tolist(), "crc32": self._checksums}
        state |= {"games": self.games, "scores": self._scores}
        state["checksum"] = _checksum(state)
        with uninterrupted():
            for bucket in np.flatnonzero(self._sizes).tolist():
                with durable_files.open_to_append(self._file(bucket)) as file:
                    durable_files.sync(file)
            durable_files.sync_folder(self._folder)
            durable_files.write(self._state, json.dumps(state).encode())
        self._saved = time.monotonic()

    def write(self, path: Path, n_moves: int | None = None) -> None:
        """Write the log, with all moves or a random sample of them, and remove the saved buckets.

        Raises:
            OSError: the log cannot be written; the buckets are kept.
            ValueError: a bucket is damaged.
        """
        remaining = n = self.n_moves if n_moves is None else min(n_moves, self.n_moves)
        rng = np.random.default_rng([self.sampling.seed, self.n_rounds, 2])
        header = {"descr": MOVE.descr, "fortran_order": False, "shape": (n,)}
        checksum = 0
        with durable_files.replace(path) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for bucket in rng.permutation(N_BUCKETS):
                moves = np.fromfile(self._file(bucket), MOVE)
                if zlib.crc32(moves.data) != self._checksums[bucket]:
                    raise ValueError(f"{self._file(bucket)} is damaged: start over")
                sample = rng.permutation(moves)[:remaining].tobytes()
                remaining -= file.write(sample) // MOVE.itemsize
                checksum = zlib.crc32(sample, checksum)
            about = self._metadata(n, checksum)
            durable_files.write(path.with_suffix(".json"), about)  # before the log exists
        self.remove()

    def is_written(self, path: Path) -> bool:
        """Return True if an existing log has these moves, so that the buckets can be removed.

        Raises:
            OSError: the log cannot be read.
            ValueError: the file is not a log.
        """
        metadata, log = path.with_suffix(".json"), read(path)
        mine = self._metadata(len(log), zlib.crc32(log.data))
        if not metadata.exists():
            return False
        with durable_files.open_to_read(metadata) as file:
            return file.read(len(mine) + 1) == mine

    def remove(self) -> None:
        """Remove the remaining buckets, and the state when none can come back."""
        self._lock.release()
        for bucket in range(N_BUCKETS):
            self._file(bucket).unlink(missing_ok=True)
        (self._folder / LOCK_FILE).unlink(missing_ok=True)
        durable_files.sync_folder(self._folder)
        for state in self._folder.glob("state.json*"):
            state.unlink()
        with contextlib.suppress(OSError):  # the folder has other files
            self._folder.rmdir()

    def _metadata(self, n_moves: int, checksum: int) -> bytes:
        """Return the JSON file next to a log with `n_moves` of the moves."""
        sums = zip(self.sampling.players, self.games, self._scores, strict=True)
        metadata = {
            "moves": n_moves,
            "of_moves": self.n_played,
            "players": [
                {"player": player, "games": n, "mean_score": total / n if n else None}
                for player, n, total in sums
            ],
            **{name: getattr(self.sampling, name) for name in ("skip", "share", "batch", "seed")},
            "crc32": checksum,
        }
        return (json.dumps(metadata, indent=1) + "\n").encode()


def read(path: str | Path) -> Moves:
    """Return the moves of a log, `MOVE[n]`, memory-mapped.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a log, or is damaged.
    """
    with durable_files.open_to_read(path) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            start = 10 + int.from_bytes(file.read(10)[8:], "little")
            n, rest = divmod(size - start, MOVE.itemsize)
            if n < 1 or rest:
                raise ValueError(f"it has {size} bytes, which is no whole number of moves")
            file.seek(0)
            files.check_npy_header(file, MOVE.descr, (n,))
        except ValueError as error:
            raise ValueError(f"{path} is not a play log, or it is damaged: {error}") from error
    return np.memmap(path, MOVE, "r", start, n)


def read_whole(path: str | Path) -> Moves:
    """Return the moves of a log as `read` does, if they have the checksum of its description.

    Moves without a description, or with one of afterstate 0.1, are not checked.

    Raises:
        OSError: a file cannot be read.
        ValueError: the file is not a log, or is damaged, or its description is not JSON.
    """
    log, about = read(path), description(path)
    checksum = about.get("crc32") if isinstance(about, dict) else None
    if checksum not in (None, zlib.crc32(log.data)):
        raise ValueError(f"{path} is damaged: its checksum is not that of its description")
    return log


def description(path: str | Path) -> Any:
    """Return the description next to a log, or None.

    Raises:
        OSError: the description cannot be read.
        ValueError: the description is not JSON.
    """
    file = Path(path).with_suffix(".json")
    return json_files.read(file) if file.exists() else None


def _done(options: LogOptions, buckets: Buckets) -> int:
    """Return the number of moves or games in the buckets."""
    return buckets.n_moves if options.moves is not None else min(buckets.games)


def _check_files(options: LogOptions) -> None:
    """Raise ValueError unless the existing files fit a new run, or one to resume."""
    folder = options.folder
    is_run, exists = (folder / "state.json").exists(), folder.exists()
    for path in () if is_run else (options.log, options.log.with_suffix(".json")):
        if path.exists():
            raise ValueError(f"{path} exists: use another file")
    names = {path.name.split(".")[0] for path in folder.iterdir()} if exists else set()
    if not is_run and names - {"state", LOCK_FILE}:
        raise ValueError(f"{folder} exists and has no buckets of a log: use another file")
    if exists and not options.resume:
        raise ValueError(f"{folder} exists: continue with --resume")
    if options.resume and not exists:
        raise ValueError(f"{folder} does not exist: there is nothing to resume")


def _begin(options: LogOptions) -> Buckets:
    """Return the buckets of a new run, or of one to resume or to clean up.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a wrong player, or files that do not fit the options.
        ImportError: a player needs an extra that is not installed.
    """
    _check_files(options)
    for player in options.player:
        _player(player, options.seed)
    durable_files.check_writable(options.log)
    sampling = Sampling(
        tuple(options.player), options.batch, options.skip, options.share, options.seed
    )
    buckets = Buckets(options.folder, sampling)
    unfinished = [
        *options.log.parent.glob(f"{options.log.stem}.*.part"),
        *options.folder.glob("*.part"),
    ]
    durable_files.remove_unfinished(unfinished)
    if not options.log.exists():
        buckets.truncate()
    elif not buckets.is_written(options.log):
        raise ValueError(f"{options.log} exists and has other moves: use another file")
    return buckets


def _fill(options: LogOptions, buckets: Buckets, bar: Any) -> None:
    """Play until there are enough games or moves."""
    if _done(options, buckets) >= options.target:
        return
    workers = Workers(options.jobs, options.backend)
    with contextlib.closing(play_rounds(buckets.sampling, buckets.n_rounds, workers)) as rounds:
        for each in rounds:
            buckets.add(each)
            if not buckets.n_moves:
                raise ValueError("no move is logged: --skip is too large or --share too small")
            bar.update(min(bar.total, _done(options, buckets)) - bar.n)
            bar.set_description(f"mean score {np.mean(each.scores):,.0f}")
            if _done(options, buckets) >= options.target:
                return


@contextlib.contextmanager
def _saved(buckets: Buckets) -> Iterator[None]:
    """Save the buckets at the end of the block, also if it fails or is interrupted."""
    try:
        yield
    finally:
        buckets.save()


def _write(options: LogOptions, buckets: Buckets) -> None:
    """Play the missing rounds and write the log."""
    from afterstate.agents.progress import progress_bar

    bar = progress_bar(
        total=options.target,
        initial=_done(options, buckets),
        unit="moves" if options.moves else "games",
        unit_scale=True,
    )
    with sigterm_raises(KeyboardInterrupt()), bar:
        try:
            with _saved(buckets):
                _fill(options, buckets, bar)
            buckets.write(options.log, options.moves)
        except KeyboardInterrupt:
            bar.close()
            message = f"interrupted: {buckets.n_moves:,} moves are kept, continue with --resume"
            raise KeyboardInterrupt(message) from None
        except (OSError, ValueError):
            bar.close()
            if buckets.n_rounds and not buckets.n_moves:  # it says that none will be
                buckets.remove()
            else:
                print("the moves so far are kept: continue with --resume", file=sys.stderr)
            raise


def write(options: LogOptions) -> None:
    """Play the games and write the log, or go on with an interrupted run.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a wrong player, or files that do not fit the options.
        ImportError: a player needs an extra that is not installed.
        KeyboardInterrupt: of Ctrl-C or SIGTERM; its text says how to go on.
    """
    try:
        buckets = _begin(options)
        if options.log.exists():  # a run was killed while it removed its buckets
            buckets.remove()
            print(f"{options.log} is complete; its buckets are removed")
            return
    except KeyboardInterrupt:
        hint = "continue with --resume" if options.folder.exists() else "nothing was written"
        raise KeyboardInterrupt(f"interrupted: {hint}") from None
    _write(options, buckets)
