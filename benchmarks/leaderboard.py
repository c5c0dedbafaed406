"""The leaderboard: every player on the same games, and how strong and how fast it is.

    python benchmarks/leaderboard.py play --jobs 2
    python benchmarks/leaderboard.py report
    python benchmarks/leaderboard.py verify --only "expectimax*"

`play` plays the entries of `leaderboard.json`, or of another file of that form, on the seeds of
`leaderboard_seeds.json`. Every finished game is a row in a compressed file of `--rows`, so that an
interrupted run goes on where it was; what is to be played anew needs its file deleted. `report`
writes tables, comma-separated values and figures there, of the entries of the package and of the
file, and `readme` puts the tables into the README. `verify` plays some of the games again and
compares them with their rows.

An entry is told by its player: a name of `afterstate.agents.make`, a file, or `module:factory` of
your own: see CONTRIBUTING.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process a player: more threads disturb others

import fresh_kernels  # noqa: F401 - first of all that uses numba
import joblib
import numpy as np
import row_files
from leaderboard_games import (
    GAMES,
    HERE,
    SAME,
    Entry,
    about,
    entries,
    fingerprint,
    make,
    plain,
    play_games,
    seeds,
)
from leaderboard_tables import Standing, alike, by_seed, current, standing, write
from row_files import Row
from tqdm import tqdm

from afterstate.agents.commands import whole_above_0

README = HERE.parent / "README.md"
OWN = HERE / "leaderboard.json"
"""The entries of the package."""


def rows_file(folder: Path, entry: Entry) -> Path:
    """The file of an entry's rows."""
    return folder / entry.game / f"{plain(entry)}.jsonl.gz"


def chunks(entry: Entry) -> list[list[int]]:
    """The seeds of an entry, as they are played by one process."""
    told, size = seeds(entry.game)[: entry.games], entry.at_once
    return [told[i : i + size] for i in range(0, len(told), size)]


# Playing


def head_and_missing(entry: Entry, folder: Path) -> tuple[Row, list[list[int]]]:
    """What the rows of an entry have in common, and the chunks that are not played yet."""
    head, path = about(entry), rows_file(folder, entry)
    row_files.repair(path)
    played = {row["seed"] for row in alike(row_files.read(path), head)}
    return head, [chunk for chunk in chunks(entry) if not played.issuperset(chunk)]


def play(chosen: argparse.Namespace) -> None:
    """Plays what is missing, and adds rows as games end."""
    told, heads, work = selected(chosen), [], []
    for i, entry in enumerate(told):
        head, left = head_and_missing(entry, chosen.rows)
        heads.append(head)
        work += [(i, chunk) for chunk in left]
    jobs = [joblib.delayed(play_chunk)(i, told[i], chunk) for i, chunk in work]
    for i, rows in tqdm(in_parallel(jobs, chosen), total=len(work), unit=" chunks"):
        row_files.append(rows_file(chosen.rows, told[i]), [{**heads[i], **row} for row in rows])


def play_chunk(i: int, entry: Entry, chunk: list[int]) -> tuple[int, list[Row]]:
    """The rows of a chunk, with the number that the entry has."""
    return i, play_games(entry, chunk)


def in_parallel(jobs: list[Any], chosen: argparse.Namespace) -> Iterator[Any]:
    """What jobs return, as they end; with Ray, which tells only of many, some at a time.

    Raises:
        ImportError: Ray is not installed.
    """
    if chosen.backend == "local":
        yield from joblib.Parallel(n_jobs=chosen.jobs, return_as="generator_unordered")(jobs)
        return
    try:
        from ray.util.joblib import register_ray
    except ModuleNotFoundError as error:
        raise ImportError('--backend ray needs ray: pip install "afterstate[ray]"') from error
    register_ray()
    with joblib.parallel_config(backend="ray"):
        for i in range(0, len(jobs), 4 * chosen.jobs):
            yield from joblib.Parallel(n_jobs=chosen.jobs)(jobs[i : i + 4 * chosen.jobs])


# Playing again


def verify(chosen: argparse.Namespace) -> None:
    """Plays some of the games again and compares them with their rows.

    Raises:
        SystemExit: they differ.
        ValueError: nothing was played of them.
    """
    rng, n_wrong = np.random.default_rng(), 0
    for entry in selected(chosen):
        played = by_seed(current(entry, row_files.read(rows_file(chosen.rows, entry))))
        whole = [chunk for chunk in chunks(entry) if played.keys() >= set(chunk)]
        if chosen.seed is not None:
            whole = [chunk for chunk in whole if chosen.seed in chunk]
        if not whole:
            which = "" if chosen.seed is None else f" of seed {chosen.seed}"
            raise ValueError(f"{chosen.rows} has no games{which} by {entry.name!r}: play them")
        for k in rng.permutation(len(whole))[: chosen.chunks]:
            wrong = differences(entry, [row for seed in whole[k] for row in played[seed]])
            print(f"{entry.name}: {len(whole[k])} of seed {whole[k][0]}... {wrong or 'as before'}")
            n_wrong += bool(wrong)
    if n_wrong:
        raise SystemExit(f"{n_wrong} differ")


def differences(entry: Entry, rows: list[Row]) -> str:
    """What is not as it was when a chunk is played again; empty if all is."""
    if entry.timed:
        return "its moves depend on time: not played again"
    weights = fingerprint(make(entry, 0))
    if weights != rows[0]["weights"]:
        return f"it has other weights: {weights}, not {rows[0]['weights']}"
    again = play_games(entry, list(dict.fromkeys(row["seed"] for row in rows)))
    for row, new in zip(rows, again, strict=True):
        for of in SAME[entry.game]:
            if row[of] != new[of]:
                return f"seed {row['seed']}: {of} is {new[of]}, not {row[of]}"
    return ""


# Results


def standings(told: Sequence[Entry], folder: Path) -> list[Standing]:
    """The results of the entries that have rows."""
    every = [current(entry, row_files.read(rows_file(folder, entry))) for entry in told]
    return [standing(rows) for rows in every if rows]


def report(chosen: argparse.Namespace) -> None:
    """Writes tables and figures of all entries that have rows.

    Raises:
        ValueError: none has.
    """
    told = {(e.game, plain(e)): e for e in (*entries(OWN), *entries(chosen.entries))}
    found = standings(list(told.values()), chosen.rows)
    if not found:
        raise ValueError(f"{chosen.rows} has no rows of these entries: play them")
    for game in GAMES:
        of = [each for each in found if each.game == game]
        if of:
            print(write(of, game, chosen.rows))


def readme(chosen: argparse.Namespace) -> None:
    """Puts the tables of `report` into the README, between their marks.

    Raises:
        ValueError: the README has no such marks.
    """
    text = README.read_text(encoding="utf-8")
    folder = os.path.relpath(chosen.rows, README.parent)
    for game in GAMES:
        begin, end = f"<!-- leaderboard {game} -->", "<!-- end -->"
        before, mark, rest = text.partition(begin)
        _, stop, after = rest.partition(end)
        if not mark or not stop:
            raise ValueError(f"{README} has no {begin} ... {end}")
        told = (chosen.rows / f"{game}.md").read_text(encoding="utf-8")
        told = told.replace("](", f"]({folder}/")
        text = f"{before}{mark}\n{told}{stop}{after}"
    README.write_text(text, encoding="utf-8")


def selected(chosen: argparse.Namespace) -> list[Entry]:
    """The entries of the file that are asked for.

    Raises:
        OSError, ValueError: see `entries`; or there is no such entry.
    """
    found = [
        entry
        for entry in entries(chosen.entries)
        if any(fnmatchcase(entry.name, pattern) for pattern in chosen.only)
    ]
    if not found:
        raise ValueError(f"{chosen.entries} has no entry {' or '.join(chosen.only)}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Puts players on the leaderboard.")
    commands = {"play": play, "verify": verify, "report": report, "readme": readme}
    parser.add_argument("command", choices=list(commands))
    parser.add_argument("--entries", type=Path, default=OWN, help="a file of them (%(default)s)")
    results = HERE / "results" / "leaderboard"
    parser.add_argument("--rows", type=Path, default=results, help="a folder (%(default)s)")
    parser.add_argument(
        "--only", nargs="+", default=["*"], help="of play and verify: names of entries, or patterns"
    )
    parser.add_argument("--jobs", type=whole_above_0, default=1, help="of play (%(default)s)")
    parser.add_argument("--backend", choices=["local", "ray"], default="local", help="of play")
    parser.add_argument("--seed", type=int, help="of the game or cycle to verify (by chance)")
    parser.add_argument("--chunks", type=whole_above_0, default=1, help="to verify (%(default)s)")
    chosen = parser.parse_args(arguments)
    sys.path.append(str(chosen.entries.parent.resolve()))  # modules beside the file are found
    try:
        commands[chosen.command](chosen)
    except (OSError, ValueError, ImportError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
