"""The leaderboard: every player on the same games, and how strong and how fast it is.

    python -m benchmarks.leaderboard play --jobs 2
    python -m benchmarks.leaderboard report
    python -m benchmarks.leaderboard verify --only "expectimax*"

`play` plays the entries of `leaderboard.json`, or of another file of that form, on the seeds of
`leaderboard_seeds.json`. Every game of a finished chunk is a row in a compressed file of `--rows`,
so that an interrupted run goes on where it was; what is to be played anew needs its file deleted.
No two should play the same entries into one folder at a time. `report` writes tables,
comma-separated values and figures there, of the entries of the package and of the file, and
`readme` puts the tables into the README. `verify` plays some of the games again, `--all` of them if
asked to, and compares them with their rows.

An entry is told by its player: a name of `afterstate.agents.make`, a file, or `module:factory` of
your own: see CONTRIBUTING.md.
"""

from __future__ import annotations

import argparse
import os
import traceback
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process a player: more threads disturb others

import joblib
import numpy as np
from tqdm import tqdm

from afterstate.agents.training.commands import sigterm_raises, whole_above_0
from benchmarks import row_files
from benchmarks.leaderboard.games import (
    GAMES,
    OWN,
    ROOT,
    SAME,
    Entry,
    about,
    entries,
    here,
    plain,
    play_games,
)
from benchmarks.leaderboard.rows import OF_PLAYER, alike, current, games, missing, read, rows_file
from benchmarks.leaderboard.tables import Result, result, write
from benchmarks.row_files import Row

README, PAGE = ROOT / "README.md", ROOT / "docs" / "leaderboard.md"
RESULTS = ROOT / "benchmarks" / "results" / "leaderboard"

# Playing


def play(chosen: argparse.Namespace) -> None:
    """Plays what is missing, and adds rows as chunks end.

    Raises:
        SystemExit: players failed; the games of the others are played.
    """
    told, heads, work, failed = selected(chosen), {}, [], {}
    writable(chosen.rows)
    for i, entry in enumerate(told):
        row_files.repair(rows_file(chosen.rows, entry))
        try:
            heads[i] = about(entry)
        except Exception as why:  # a player may raise whatever it likes, and others go on
            failed[i] = f"cannot be made: {type(why).__name__}: {why}"
            continue
        played = games(entry, alike(read(chosen.rows, entry), heads[i]))
        left = missing(entry, played)
        work += [joblib.delayed(play_chunk)(i, entry, chunk) for chunk in left]
    for i, rows, error in tqdm(in_parallel(work, chosen), total=len(work), unit=" chunks"):
        if error:
            failed[i] = error
        else:
            new = [{**heads[i], **row} for row in rows]
            row_files.append(rows_file(chosen.rows, told[i]), new)
    if failed:
        lines = [f"{told[i].game}: {told[i].name!r} {error}" for i, error in failed.items()]
        raise SystemExit("\n".join(lines))


def writable(folder: Path) -> None:
    """Makes a folder, and tries whether files can be written there.

    Raises:
        OSError: they cannot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder):
        pass


def play_chunk(i: int, entry: Entry, chunk: list[int]) -> tuple[int, list[Row], str]:
    """The number that the entry has, the rows of a chunk, and why there are none."""
    try:
        return i, [{**here(), **row} for row in play_games(entry, chunk)], ""
    except (Exception, SystemExit):  # see `play`
        return i, [], f"failed in the games of {chunk[0]}...:\n{traceback.format_exc()}"


def in_parallel(jobs: list[Any], chosen: argparse.Namespace) -> Iterator[Any]:
    """What jobs return, as they end; with Ray, which tells only of many, some at a time.

    Raises:
        ImportError: Ray is not installed.
        ValueError: Ray is asked for one process, which joblib would not give to it.
    """
    if chosen.backend == "local":
        n_jobs = chosen.jobs or 1
        yield from joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(jobs)
        return
    if chosen.jobs == 1:
        raise ValueError("--backend ray needs --jobs 2 or more: a single one would be played here")
    try:
        import ray
        from ray.util.joblib import register_ray
    except ModuleNotFoundError as error:
        raise ImportError('--backend ray needs ray: pip install "afterstate[ray]"') from error
    register_ray()
    ray.init(ignore_reinit_error=True)
    with joblib.parallel_config(backend="ray"):
        n_jobs = chosen.jobs or max(2, joblib.effective_n_jobs(-1))
        for i in range(0, len(jobs), 4 * n_jobs):
            yield from joblib.Parallel(n_jobs=n_jobs)(jobs[i : i + 4 * n_jobs])


# Playing again


def verify(chosen: argparse.Namespace) -> None:
    """Plays some of the games again and compares them with their rows.

    Raises:
        SystemExit: they differ, or are not all there.
        ValueError: no entry plays games of the seed that is asked for.
    """
    told = [(entry, chunks) for entry in selected(chosen) if (chunks := asked(entry, chosen.seed))]
    if not told:
        raise ValueError(f"no entry plays games of seed {chosen.seed}")
    work, n_wrong = [], 0
    for entry, chunks in told:
        played = current(entry, read(chosen.rows, entry))
        left = [chunk for chunk in missing(entry, played) if chunk in chunks]
        if left:
            print(f"{entry.name}: {len(left)} of {len(chunks)} chunks are not played")
            n_wrong += 1
        elif entry.timed:
            print(f"{entry.name}: its moves depend on time, so they are not played again")
        else:
            work += drawn(entry, chunks, played, len(chunks) if chosen.all else chosen.chunks)
    for name, wrong in in_parallel(work, chosen):
        print(f"{name}: {wrong or 'as before'}")
        n_wrong += bool(wrong)
    if n_wrong:
        raise SystemExit(f"{n_wrong} differ, or are not there")


def asked(entry: Entry, seed: int | None) -> list[list[int]]:
    """The chunks of an entry, or that with a seed."""
    return [chunk for chunk in entry.chunks() if seed is None or seed in chunk]


def drawn(entry: Entry, chunks: list[list[int]], played: dict[int, list[Row]], n: int) -> list[Any]:
    """Jobs that play some chunks again, drawn by chance."""
    jobs = []
    for k in np.random.default_rng().permutation(len(chunks))[:n]:
        again = [row for seed in chunks[k] for row in played[seed]]
        jobs.append(joblib.delayed(play_again)(entry, again))
    return jobs


def play_again(entry: Entry, rows: list[Row]) -> tuple[str, str]:
    """What is played, and what is not as it was; empty if all is."""
    played = list(dict.fromkeys(row["seed"] for row in rows))
    told = f"{entry.name}, {len(rows)} of seed {played[0]}..."
    try:
        return told, differences(entry, rows, played)
    except (Exception, SystemExit) as error:  # see `play`
        return told, f"{type(error).__name__}: {error}"


def differences(entry: Entry, rows: list[Row], played: list[int]) -> str:
    """What is not as it was when games are played again; empty if all is."""
    now = about(entry)
    for of in OF_PLAYER:
        if now.get(of) != rows[0].get(of):
            return f"it has other {of}: {now.get(of)}, not {rows[0].get(of)}"
    for row, new in zip(rows, play_games(entry, played), strict=True):
        for of in SAME[entry.game]:
            if row[of] != new[of]:
                return f"seed {row['seed']}: {of} is {new[of]}, not {row[of]}{_elsewhere(row)}"
    return ""


def _elsewhere(row: Row) -> str:
    """On what a game was played; networks may answer otherwise on other processors."""
    return f" (as it was played on {row['machine']['cpu']} at commit {row['commit']})"


# Results


def results(selected: Sequence[Entry], folder: Path) -> list[Result]:
    """Return the results of entries that have rows in a folder, or in the checkout."""
    found = []
    for entry in tqdm(selected, unit=" entries", leave=False):
        played = current(entry, read(folder, entry)) or current(entry, read(RESULTS, entry))
        if played:
            rows = [*chain.from_iterable(played.values())]
            found.append(result(rows, entry.games * entry.rows_each))
    return found


def report(chosen: argparse.Namespace) -> None:
    """Writes tables and figures of all entries that have rows.

    Raises:
        ValueError: none has.
    """
    told = {(e.game, plain(e)): e for e in (*entries(OWN), *entries(chosen.entries))}
    found = results(list(told.values()), chosen.rows)
    if not found:
        raise ValueError(f"{chosen.rows} has no rows of these entries: play them")
    for game in GAMES:
        of = [each for each in found if each.game == game]
        if of:
            print(write(of, game, chosen.rows))


def readme(chosen: argparse.Namespace) -> None:
    """Put the tables of `report` between their marks in README and docs/leaderboard.md.

    Raises:
        ValueError: a page has no such marks.
    """
    for page, name in ((README, "{}_top.md"), (PAGE, "{}.md")):
        folder = os.path.relpath(chosen.rows, page.parent)
        for game in GAMES:
            table = (chosen.rows / name.format(game)).read_text(encoding="utf-8")
            fill(page, game, table.replace("](", f"]({folder}/"))


def fill(page: Path, game: str, table: str) -> None:
    """Replace the text between the marks of a game in a page."""
    text, begin, end = (
        page.read_text(encoding="utf-8"),
        f"<!-- leaderboard {game} -->",
        "<!-- end -->",
    )
    before, mark, rest = text.partition(begin)
    _, stop, after = rest.partition(end)
    if not mark or not stop:
        raise ValueError(f"{page} must have {begin} ... {end}")
    page.write_text(f"{before}{mark}\n{table}{stop}{after}", encoding="utf-8")


def selected(chosen: argparse.Namespace) -> list[Entry]:
    """The entries of the file that are asked for.

    Raises:
        OSError, ValueError: see `entries`; or there is no such entry.
    """
    told = entries(chosen.entries)
    vain = [name for name in chosen.only if not any(_fits(entry, name) for entry in told)]
    if vain:
        raise ValueError(f"{chosen.entries} has no entry {' or '.join(vain)}")
    return [entry for entry in told if any(_fits(entry, name) for name in chosen.only)]


def _fits(entry: Entry, name: str) -> bool:
    """Whether an entry is asked for by a name or a pattern, which may begin with the game."""
    return fnmatchcase(entry.name, name) or fnmatchcase(f"{entry.game}/{entry.name}", name)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Puts players on the leaderboard.")
    commands = parser.add_subparsers(required=True)
    play_, verify_, report_, readme_ = (
        commands.add_parser(name, help=told)
        for name, told in {
            "play": "plays what is missing",
            "verify": "plays games again and compares them with their rows",
            "report": "writes tables and figures of all that is played",
            "readme": "puts the tables into the README",
        }.items()
    )
    for command, runs in ((play_, play), (verify_, verify), (report_, report), (readme_, readme)):
        command.set_defaults(runs=runs)
        add = command.add_argument
        add("--entries", type=Path, default=OWN, help="a file of them (%(default)s)")
        add("--rows", type=Path, default=RESULTS, help="a folder (%(default)s)")
    for command in (play_, verify_):
        add = command.add_argument
        add("--only", nargs="+", default=["*"], help='as "random", "2048/random" or "MC*" (all)')
        add("--jobs", type=whole_above_0, help="processes (1; with Ray, all of the cluster)")
        add("--backend", choices=["local", "ray"], default="local", help="of processes")
    add = verify_.add_argument
    add("--seed", type=int, help="of the game or cycle (by chance)")
    add("--chunks", type=whole_above_0, default=1, help="how many of an entry (%(default)s)")
    add("--all", action="store_true", help="all chunks")
    chosen = parser.parse_args(arguments)
    try:
        with sigterm_raises(KeyboardInterrupt()):
            chosen.runs(chosen)
    except (OSError, ValueError, ImportError) as error:
        raise SystemExit(str(error)) from error
    except KeyboardInterrupt:
        goes_on = ": the same command plays what is missing" if chosen.runs is play else ""
        raise SystemExit(f"interrupted{goes_on}") from None


if __name__ == "__main__":
    main()
