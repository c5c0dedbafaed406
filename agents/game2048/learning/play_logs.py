"""Play logs: the moves of any players, shuffled, for whoever learns from them.

    python -m afterstate.agents.game2048.learning.play_logs logs/moves.npy --moves 1e7
    python -m afterstate.agents.game2048.learning.play_logs logs/moves.npy --moves 1e7 --resume

A log is a file of numpy, an array of records of 9 bytes: the board, a word of `rules.py`, and the
action that the player chose.

    log = np.load("logs/moves.npy", mmap_mode="r")    # of [("board", "<u8"), ("action", "u1")]

The records stand in random order, each of them as likely in every place, so that a learner reads
them one after the other, and any part of a log is a sample of it. 600 million moves, those of the
study of Matsuzaki and Teramura, take 5.4 GB. Beside a log, `moves.json` tells what it is of.

Neither writing nor reading needs room in memory for a log. Moves go to one of 256 heaps by chance
while they are played, in the folder `moves.parts`; in the end each heap is shuffled in memory, and
they are written one after the other. The heaps go when the log is whole, so that for a while the
disk has both, 10.8 GB of 600 million moves. What was played is safe from then on: a run that is
interrupted, killed or out of disk goes on with `--resume`, also with other numbers of games or
moves. The same settings make the same file, whatever the number of jobs and interruptions, unless a
player has a time for its moves.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tokenize
import warnings
from collections.abc import Generator, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from afterstate import agents
from afterstate.agents import files
from afterstate.agents.game2048.play import Player, play
from afterstate.agents.training.commands import progress_bar, sigterm_raises, whole_above_0
from afterstate.envs.words import Words

MOVE = np.dtype([("board", "<u8"), ("action", "u1")])
"""A record of a log, 9 bytes."""

HEAPS = 256
"""Among which moves are divided."""

Moves = npt.NDArray[np.void]
"""Records `MOVE[n]`."""


class Sampling(NamedTuple):
    """Which games are played, and which of their moves are kept."""

    players: tuple[str, ...]  # as `agents.find` wants them; they play in turn
    beside: int = 32  # games that a player plays side by side, one round
    skip: int = 0  # moves at the beginning of each game that are not kept
    share: float = 1.0  # the chance of each other move to be kept
    seed: int = 1  # of the first game, of others one more each, and of chance


class Round(NamedTuple):
    """What games that were played side by side have left."""

    moves: Moves
    player: int
    scores: list[int]
    n_played: int  # moves of these games, kept or not


# Playing


def _player(text: str, seed: int) -> Player:
    """A player; one that draws is made anew for each round, with this seed unless it has its own.

    Raises:
        OSError: its file cannot be read.
        ValueError: it is unknown, or does not play 2048 on 4x4 cells.
        ImportError: it needs what is not installed.
    """
    name, *settings = text.split(",")
    if "seed" not in agents.setting_names(name):
        return _lasting(text)
    is_seeded = any(each.startswith("seed=") for each in settings)
    return _checked(text if is_seeded else f"{text},seed={seed}")


def _checked(text: str) -> Player:
    """A player of 2048."""
    found: Player = agents.find(text)
    if not hasattr(found, "act") or getattr(found, "size", (4, 4)) != (4, 4):
        raise ValueError(f"{text} is not a player of 2048 on 4x4 cells")
    return found


_lasting = cache(_checked)
"""A player that does not draw, once for each process."""


def play_round(sampling: Sampling, number: int) -> Round:
    """Plays a round, from 0, of games; they have other seeds than those of other rounds.

    Raises:
        ValueError: the player's actions are not legal.
    """
    which, first = number % len(sampling.players), sampling.seed + number * sampling.beside
    rng, kept = np.random.default_rng([sampling.seed, number]), []
    n_seen = np.zeros(sampling.beside, np.int64)
    player = _player(sampling.players[which], int(rng.integers(2**63)))

    def watch(games: npt.NDArray[np.int64], boards: Words, actions: npt.NDArray[np.int64]) -> None:
        is_kept = n_seen[games] >= sampling.skip
        if sampling.share < 1:
            is_kept &= rng.random(len(games)) < sampling.share
        n_seen[games] += 1
        moves = np.empty(np.count_nonzero(is_kept), MOVE)
        moves["board"], moves["action"] = boards[is_kept], actions[is_kept]
        kept.append(moves)

    played = play(player, sampling.beside, first, (4, 4), watch=watch)
    moves = np.concatenate(kept)
    return Round(moves, which, played.scores.tolist(), int(played.n_moves.sum()))


def play_rounds(sampling: Sampling, first: int, jobs: int) -> Generator[Round, None, None]:
    """Plays round after round without end, `jobs` of them at once, in their order."""
    from joblib import Parallel, delayed

    rounds = (delayed(play_round)(sampling, number) for number in count(first))
    yield from Parallel(jobs, return_as="generator", pre_dispatch=jobs)(rounds)


# Shuffling


class Heaps:
    """The moves that were played, in random heaps in a folder, and what is known of them.

    Args:
        folder: is made, or has the heaps of a run that goes on, which are to be `cut` then.
        sampling: of the run.

    Raises:
        OSError: the folder cannot be read or written.
        ValueError: it has moves of another sampling.
    """

    def __init__(self, folder: Path, sampling: Sampling) -> None:
        self._folder, self._state = folder, folder / "state.json"
        self.sampling = sampling
        self.n_rounds, self.n_played = 0, 0
        self.games = [0] * len(sampling.players)  # of each player
        self._scores = [0] * len(sampling.players)  # the sums of theirs
        self._sizes = np.zeros(HEAPS, np.int64)
        if self._state.exists():
            self._go_on()
        else:
            folder.mkdir(parents=True, exist_ok=True)
            self._note()

    def _go_on(self) -> None:
        """Takes up the heaps as they were after the last whole round."""
        try:
            told = json.loads(self._state.read_text(encoding="utf-8"))
            before = Sampling(tuple(told["sampling"][0]), *told["sampling"][1:])
            self.n_rounds, self.n_played = int(told["n_rounds"]), int(told["n_played"])
            self.games, self._scores = list(told["games"]), list(told["scores"])
            self._sizes = np.array(told["sizes"], np.int64)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ValueError(f"{self._state} is damaged: begin anew") from error
        if before != self.sampling:
            raise ValueError(f"{self._folder} has moves of {before}: choose another file")

    def cut(self) -> None:
        """Drops what came to the heaps after the last whole round.

        Raises:
            OSError: they cannot be read or written.
            ValueError: they have lost moves.
        """
        for heap, size in enumerate(self._sizes * MOVE.itemsize):
            with open(self._heap(heap), "ab") as file:
                if file.tell() < size:
                    raise ValueError(f"{self._heap(heap)} has lost moves: begin anew")
                file.truncate(int(size))

    def _heap(self, number: int) -> Path:
        """The file of a heap."""
        return self._folder / f"{number:03}.moves"

    @property
    def n_moves(self) -> int:
        """How many moves are kept."""
        return int(self._sizes.sum())

    def add(self, played: Round) -> None:
        """Adds a round."""
        rng = np.random.default_rng([self.sampling.seed, self.n_rounds, 1])
        heaps = rng.integers(HEAPS, size=len(played.moves), dtype=np.uint8)
        moves = played.moves[np.argsort(heaps, kind="stable")]
        sizes = np.bincount(heaps, minlength=HEAPS)
        for heap, part in enumerate(np.split(moves, np.cumsum(sizes)[:-1])):
            with open(self._heap(heap), "ab") as file:
                file.write(part.tobytes())
        self._sizes += sizes
        self.n_rounds, self.n_played = self.n_rounds + 1, self.n_played + played.n_played
        self.games[played.player] += len(played.scores)
        self._scores[played.player] += sum(played.scores)
        self._note()

    def _note(self) -> None:
        """Writes down that the round is whole."""
        told = {"sampling": self.sampling, "n_rounds": self.n_rounds, "n_played": self.n_played}
        told |= {"sizes": self._sizes.tolist(), "games": self.games, "scores": self._scores}
        files.write_bytes(self._state, json.dumps(told).encode())

    def write(self, path: Path, n_moves: int | None = None) -> None:
        """Writes the log, all moves or a random part of them, and removes the heaps.

        Raises:
            OSError: it cannot be written; the heaps are still there then.
        """
        left = n = self.n_moves if n_moves is None else min(n_moves, self.n_moves)
        rng = np.random.default_rng([self.sampling.seed, self.n_rounds, 2])
        header = {"descr": MOVE.descr, "fortran_order": False, "shape": (n,)}
        with files.atomic_write(path) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for heap in rng.permutation(HEAPS):
                moves = np.fromfile(self._heap(heap), MOVE)
                left -= file.write(rng.permutation(moves)[:left].tobytes()) // MOVE.itemsize
            files.write_bytes(path.with_suffix(".json"), self._told(n))  # there before the log is
        self.remove()

    def is_written(self, path: Path) -> bool:
        """Whether a log that is there is that of these moves, so that the heaps may go.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not a log.
        """
        beside = path.with_suffix(".json")
        return beside.exists() and beside.read_bytes() == self._told(len(read(path)))

    def _told(self, n_moves: int) -> bytes:
        """What stands beside a log."""
        return (json.dumps(self.about(n_moves), indent=1) + "\n").encode()

    def remove(self) -> None:
        """Removes the heaps, or those that are left of them."""
        for heap in range(HEAPS):
            self._heap(heap).unlink(missing_ok=True)
        for state in self._folder.glob("state.json*"):
            state.unlink()
        with contextlib.suppress(OSError):  # what others have put there stays
            self._folder.rmdir()

    def about(self, n_moves: int) -> dict[str, Any]:
        """What a log of so many of the moves is of."""
        each = zip(self.sampling.players, self.games, self._scores, strict=True)
        return {
            "moves": n_moves,
            "of_moves": self.n_played,
            "players": [
                {"player": player, "games": n, "mean_score": total / n if n else None}
                for player, n, total in each
            ],
            **{name: getattr(self.sampling, name) for name in ("skip", "share", "beside", "seed")},
        }


# Reading


def read(path: str | Path) -> Moves:
    """The moves of a log, `MOVE[n]`, in a file that is read where they are looked at.

    Raises:
        OSError: it cannot be read.
        ValueError: another file, or a damaged one.
    """
    try:
        log = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, tokenize.TokenError) as error:
        raise ValueError(f"{path} is not a play log, or it is damaged: {error}") from error
    if log.dtype != MOVE or log.ndim != 1 or not len(log):
        raise ValueError(f"{path} is not a play log: it has no records of {MOVE.descr}")
    return log


# The command line


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m afterstate.agents.game2048.learning.play_logs",
        description="Writes a shuffled log of the moves of players of 2048.",
    )
    add = parser.add_argument
    add("log", type=Path, help="the file, which ends in .npy")
    of = "a file, or a name and settings such as expectimax,depth=2; several play in turn"
    add("--player", nargs="+", default=["expectimax"], help=of + " (expectimax)")
    add("--games", type=whole_above_0, help="stop after so many games of each player")
    add("--moves", type=whole_above_0, help="stop when so many moves are kept")
    add("--skip", type=int, default=0, help="moves of each game left out at its beginning")
    add("--share", type=float, default=1.0, help="of the others, kept by chance (%(default)s)")
    add("--beside", type=whole_above_0, default=32, help="games of a round (%(default)s)")
    add("--seed", type=int, default=1)
    add("--jobs", type=whole_above_0, default=1, help="processes that play (%(default)s)")
    add("--resume", action="store_true", help="go on with a log that was interrupted")
    chosen = parser.parse_args(arguments)
    if (chosen.games is None) == (chosen.moves is None):
        parser.error("say where to stop: --games or --moves")
    if chosen.log.suffix != ".npy":
        parser.error("a log is a file that ends in .npy")
    if chosen.skip < 0 or chosen.seed < 0 or not 0 < chosen.share <= 1:
        parser.error("--skip and --seed are from 0 on, --share is above 0 and at most 1")
    return chosen


def _check_place(chosen: argparse.Namespace, folder: Path) -> None:
    """Raises a ValueError unless the folder and the files are as a new run or one to resume has."""
    is_run, is_there = (folder / "state.json").exists(), folder.exists()
    for path in () if is_run else (chosen.log, chosen.log.with_suffix(".json")):
        if path.exists():
            raise ValueError(f"{path} is there: choose another file")
    if is_there and not is_run and not all(p.name.startswith("state.") for p in folder.iterdir()):
        raise ValueError(f"{folder} is there, and not of a log: choose another file")
    if is_there != chosen.resume:
        told = "go on with --resume" if is_there else "there is nothing to resume"
        raise ValueError(f"{folder} is {'' if is_there else 'not '}there: {told}")


def _begin(chosen: argparse.Namespace, folder: Path) -> Heaps:
    """The heaps of a new log, of one that goes on, or what is left of those of one that is whole.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a wrong player, or a folder that does not fit what is asked for.
        ImportError: a player needs what is not installed.
    """
    _check_place(chosen, folder)
    for player in chosen.player:
        _player(player, chosen.seed)
    names = ("beside", "skip", "share", "seed")
    sampling = Sampling(tuple(chosen.player), *(getattr(chosen, name) for name in names))
    files.check_writable(chosen.log)
    heaps = Heaps(folder, sampling)
    if not chosen.log.exists():
        heaps.cut()
    elif not heaps.is_written(chosen.log):
        raise ValueError(f"{chosen.log} is there, of other moves: choose another file")
    return heaps


def _done(chosen: argparse.Namespace, heaps: Heaps) -> int:
    """How many of the moves or games that are asked for are there."""
    return heaps.n_moves if chosen.moves is not None else min(heaps.games)


def _is_done(chosen: argparse.Namespace, heaps: Heaps) -> bool:
    """Whether there are as many games or moves as are asked for."""
    return _done(chosen, heaps) >= int(chosen.moves or chosen.games)


def _fill(chosen: argparse.Namespace, heaps: Heaps, bar: Any) -> None:
    """Plays until there is enough."""
    if _is_done(chosen, heaps):
        return
    with (
        warnings.catch_warnings(),
        contextlib.closing(play_rounds(heaps.sampling, heaps.n_rounds, chosen.jobs)) as rounds,
    ):
        warnings.filterwarnings("ignore", ".*have been cancelled")  # rounds that are not needed
        for played in rounds:
            heaps.add(played)
            if not heaps.n_moves:
                raise ValueError(
                    "no move is kept: no game is longer than --skip, or --share is tiny"
                )
            bar.update(min(bar.total, _done(chosen, heaps)) - bar.n)
            bar.set_description(f"mean score {np.mean(played.scores):,.0f}")
            if _is_done(chosen, heaps):
                return


def _write(chosen: argparse.Namespace, heaps: Heaps, tqdm: Any) -> None:
    """Plays what is not there yet, and writes the log."""
    unit, total = (" moves", chosen.moves) if chosen.moves else (" games", chosen.games)
    with (
        sigterm_raises(KeyboardInterrupt()),
        tqdm(total=total, initial=_done(chosen, heaps), unit=unit, unit_scale=True) as bar,
    ):
        try:
            _fill(chosen, heaps, bar)
            heaps.write(chosen.log, chosen.moves)
        except KeyboardInterrupt:
            bar.close()
            told = f"{heaps.n_moves:,} moves are kept: go on with --resume"
            raise SystemExit(told) from None
        except (OSError, ValueError) as error:
            raise SystemExit(f"{error}\nwhat was played is kept: go on with --resume") from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    chosen, tqdm = options(arguments), progress_bar()
    folder = chosen.log.with_suffix(".parts")
    try:
        heaps = _begin(chosen, folder)
        if chosen.log.exists():  # a run was killed when its heaps were not gone yet
            heaps.remove()
            return print(f"{chosen.log} is whole, and its heaps are gone")
    except (OSError, ValueError, ImportError) as error:
        raise SystemExit(str(error)) from error
    except KeyboardInterrupt:
        told = "go on with --resume" if folder.exists() else "nothing was begun"
        raise SystemExit(f"interrupted: {told}") from None
    _write(chosen, heaps, tqdm)


if __name__ == "__main__":  # processes are sent functions of a module that they can import
    from afterstate.agents.game2048.learning import play_logs

    play_logs.main()
