"""The leaderboard: all players on the same games, with their strength and speed.

    afterstate leaderboard play --jobs 2
    afterstate leaderboard report
    afterstate leaderboard verify --only "expectimax*"

`play` plays the entries of `entries.json`, or of another file of that form, on the seeds of
`seeds.json`. Each game of a finished chunk is a row in a compressed file of the folder `--rows`, so
an interrupted run continues where it stopped; delete an entry's file to play it again. A second
command for the same folder ends with a message. `report` writes tables, CSV files and figures
there, for the entries of the file and those of the package, of which a checkout has published rows.
`verify` plays some games again, or all with `--all`, and compares them with their rows. `readme`
copies the tables of published rows into the README and docs/leaderboard.md:

    afterstate leaderboard report --rows benchmarks/results/leaderboard
    afterstate leaderboard readme

An entry's player is a name of `afterstate.agents.make`, a file of weights, or your own
`module:factory`: see CONTRIBUTING.md.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process per player: more threads compete

import numpy as np

from afterstate.agents.files import NotInWheelError
from afterstate.agents.progress import progress_bar
from afterstate.agents.training.folder import FolderLock
from afterstate.agents.training.workers import Call, Workers
from afterstate.envs.json_files import Row
from afterstate.envs.messages import shown
from afterstate.envs.options import near
from afterstate.envs.signals import sigterm_raises
from afterstate.leaderboard import gzip_rows, tournament
from afterstate.leaderboard.games import (
    GAMES,
    OWN,
    REPEATED_FIELDS,
    ROOT,
    Entry,
    entries,
    entry_fields,
    file_name,
    make,
    play_games,
    process_fields,
)
from afterstate.leaderboard.options import Play, Readme, Report, Tournament, Verify
from afterstate.leaderboard.results import Result, result
from afterstate.leaderboard.rows import (
    PLAYER_FIELDS,
    current,
    missing,
    of_same_player,
    read,
    rows_by_seed,
    rows_file,
)
from afterstate.leaderboard.tables import write

README, PAGE = ROOT / "README.md", ROOT / "docs" / "leaderboard.md"
PUBLISHED = ROOT / "benchmarks" / "results" / "leaderboard"
"""Folder of the published rows; only a checkout has it."""

EXPECTED = (OSError, ValueError, ImportError)
"""Errors of wrong entries, whose messages need no kind."""

# Playing


def play(args: Play) -> None:
    """Play the missing games and append their rows as chunks end.

    Raises:
        OSError: the rows cannot be written.
        SystemExit: players failed; the games of the others are played.
        ValueError: another process writes to the folder of the rows, or `only` names an entry
            whose weights are not in the wheel.
    """
    to_play = selected(args)
    fields, errors = make_players(to_play, args.only)
    held, calls = FolderLock(args.rows), list[Call]()
    for i, head in fields.items():
        gzip_rows.repair(rows_file(args.rows, to_play[i]))
        played = rows_by_seed(to_play[i], of_same_player(read(args.rows, to_play[i]), head))
        calls += [partial(play_chunk, i, to_play[i], each) for each in missing(to_play[i], played)]
    made = Workers(args.jobs, args.backend).as_they_end(calls)
    bar = progress_bar(made, total=len(calls), unit="chunks", disable=not calls)
    for i, rows, failure in bar:
        if failure:
            errors[i] = failure
        else:
            held.check()
            new = [{**fields[i], **row} for row in rows]
            gzip_rows.append(rows_file(args.rows, to_play[i]), new)
    if errors:
        failed = [(to_play[i], text) for i, text in errors.items()]
        raise SystemExit("\n".join(f"{e.game}: {e.name!r} {text}" for e, text in failed))


def make_players(
    to_play: Sequence[Entry], only: Sequence[str]
) -> tuple[dict[int, Row], dict[int, str]]:
    """Make each player once; return the fields of its rows, or its error, by its number.

    Entries whose weights are not in the wheel are left out and named on stderr.

    Raises:
        ValueError: `only` names one of these.
    """
    fields, errors, absent = dict[int, Row](), dict[int, str](), list[Entry]()
    for i, entry in enumerate(to_play):
        try:
            fields[i] = entry_fields(entry)
        except NotInWheelError:
            absent.append(entry)
        except Exception as error:  # a player may raise anything; the others continue
            kind = "" if isinstance(error, EXPECTED) else f"{type(error).__name__}: "
            errors[i] = f"cannot be made: {kind}{error}"
    if absent:
        name_absent(absent, only)
    return fields, errors


def name_absent(absent: Sequence[Entry], only: Sequence[str]) -> None:
    """Name entries without weights on stderr; raise ValueError if `only` names one of them."""
    names = [f"{entry.game}/{entry.name}" for entry in absent]
    reason = (
        f"{', '.join(map(repr, names))}: the wheel does not have their weights, an editable "
        "installation of https://github.com/afterstate/afterstate has them"
    )
    if {*names, *(entry.name for entry in absent)} & {*only}:
        raise ValueError(f"only must name entries whose weights are installed, got {reason}")
    print(f"skipped {reason}", file=sys.stderr)


def play_chunk(i: int, entry: Entry, chunk: list[int]) -> tuple[int, list[Row], str]:
    """Return the entry's number, the rows of a chunk, and the error if it failed."""
    try:
        return i, [{**process_fields(), **row} for row in play_games(entry, chunk)], ""
    except (Exception, SystemExit):  # see `make_players`
        return i, [], f"failed in the games of {chunk[0]}...:\n{traceback.format_exc()}"


# Verifying


class Check(NamedTuple):
    """The result of games that were compared with their rows."""

    games: str
    result: str
    wrong: bool  # they differ, or are missing


def verify(args: Verify) -> None:
    """Play some of the games again and compare them with their rows.

    Raises:
        SystemExit: games differ or are missing.
        ValueError: no entry has rows in the folder, or none plays games of the given seed.
    """
    pairs = [(entry, chunks) for entry in selected(args) if (chunks := with_seed(entry, args.seed))]
    if not pairs:
        raise ValueError(f"no entry plays games of seed {args.seed}")
    files = [rows_file(args.rows, entry) for entry, _ in pairs]
    if not any(file.exists() for file in files) and not all(lacks_weights(e) for e, _ in pairs):
        raise ValueError(f"rows must be a folder with rows of these entries, got {args.rows}")
    checks = []
    for each in compared(pairs, args):
        checks.append(each._asdict())
        if not args.json:
            print(f"{each.games}: {each.result}")
    if args.json:
        print(json.dumps(checks, indent=1))
    n_wrong = sum(each["wrong"] for each in checks)
    if n_wrong:
        raise SystemExit(f"{n_wrong} differ or are missing")


def compared(pairs: list[tuple[Entry, list[list[int]]]], args: Verify) -> Iterator[Check]:
    """Yield the results of entries without games to play again, then those of the others."""
    calls: list[Call] = []
    for entry, chunks in pairs:
        rows = read(args.rows, entry)
        played = current(entry, rows)
        n_missing = sum(chunk in chunks for chunk in missing(entry, played))
        if n_missing and lacks_weights(entry):
            yield Check(entry.name, NO_WEIGHTS, False)
        elif not rows:
            yield Check(entry.name, "has no rows", False)
        elif n_missing:
            yield Check(entry.name, f"{n_missing} of {len(chunks)} chunks are not played", True)
        elif entry.timed:
            yield Check(entry.name, "not played again, its moves depend on time", False)
        else:
            calls += sample(entry, chunks, played, len(chunks) if args.all else args.chunks)
    yield from Workers(args.jobs, args.backend).as_they_end(calls)


NO_WEIGHTS = "not played again, its weights are not in the wheel"


def lacks_weights(entry: Entry) -> bool:
    """Return True if an entry needs weights that the wheel does not have."""
    try:
        make(entry, 0)
    except NotInWheelError:
        return True
    except Exception:  # see `make_players`
        return False
    return False


def with_seed(entry: Entry, seed: int | None) -> list[list[int]]:
    """Return the chunks of an entry that contain a seed; all chunks for None."""
    return [chunk for chunk in entry.chunks() if seed is None or seed in chunk]


def sample(
    entry: Entry, chunks: list[list[int]], played: dict[int, list[Row]], n: int
) -> list[Call]:
    """Return calls that play n random chunks again."""
    order = np.random.default_rng().permutation(len(chunks))[:n]
    samples = [[row for seed in chunks[k] for row in played[seed]] for k in order]
    return [partial(play_again, entry, rows) for rows in samples]


def play_again(entry: Entry, rows: list[Row]) -> Check:
    """Play games again and return the result of comparing them with their rows."""
    seeds = list(dict.fromkeys(row["seed"] for row in rows))
    title = f"{entry.name}, {len(rows)} of seed {seeds[0]}..."
    try:
        first = difference(entry, rows, seeds)
        return Check(title, first or "same", bool(first))
    except NotInWheelError:
        return Check(title, NO_WEIGHTS, False)
    except (Exception, SystemExit) as error:  # see `make_players`
        return Check(title, f"{type(error).__name__}: {error}", True)


def difference(entry: Entry, rows: list[Row], seeds: list[int]) -> str:
    """Play games again; return the first difference from their rows, empty if there is none."""
    now = entry_fields(entry)
    for field in PLAYER_FIELDS:
        if now.get(field) != rows[0].get(field):
            return f"its {field} changed: {now.get(field)}, was {rows[0].get(field)}"
    for row, new in zip(rows, play_games(entry, seeds), strict=True):
        for field in REPEATED_FIELDS[entry.game]:
            if row[field] != new[field]:
                origin = f"played on {row['machine']['cpu']} at commit {row['commit']}"
                return f"seed {row['seed']}: {field} is {new[field]}, was {row[field]} ({origin})"
    return ""


# Results


def entry_results(selection: Sequence[Entry], folder: Path) -> list[Result]:
    """Return the results of entries that have rows in a folder, or published ones."""
    all_results = []
    for entry in progress_bar(selection, unit="entries", leave=False):
        played = current(entry, read(folder, entry)) or current(entry, read(PUBLISHED, entry))
        if played:
            rows = [*chain.from_iterable(played.values())]
            all_results.append(result(rows, entry.games * entry.rows_each))
    return all_results


def report(args: Report) -> None:
    """Write tables and figures of all entries that have rows.

    Raises:
        ValueError: no entry of the file has rows in the folder.
    """
    mine, folder = entries(entries_file(args)), args.rows
    if not any(current(entry, read(folder, entry)) for entry in mine):
        raise ValueError(f"{folder} has no rows of these entries: play them")
    by_file = {(e.game, file_name(e)): e for e in (*entries(OWN), *mine)}
    all_results = entry_results(list(by_file.values()), folder)
    for game in GAMES:
        of_game = [each for each in all_results if each.game == game]
        if of_game:
            print(write(of_game, game, folder))


def readme(args: Readme) -> None:
    """Put the tables of `report` between their marks in README and docs/leaderboard.md.

    Raises:
        ValueError: there is no checkout, or a page has no such marks.
    """
    if not README.is_file() or not args.rows.is_dir():
        here = f"{args.rows} in a checkout, whose README and pages it writes"
        raise ValueError(f"leaderboard readme needs the folder {here}")
    for page, name in ((README, "{}_top.md"), (PAGE, "{}.md")):
        folder = os.path.relpath(args.rows, page.parent)
        for game in GAMES:
            table = (args.rows / name.format(game)).read_text(encoding="utf-8")
            fill(page, game, table.replace("](", f"]({folder}/"))


def fill(page: Path, game: str, table: str) -> None:
    """Replace the text between the marks of a game in a page."""
    begin, end = f"<!-- leaderboard {game} -->", "<!-- end -->"
    before, mark, rest = page.read_text(encoding="utf-8").partition(begin)
    _, stop, after = rest.partition(end)
    if not mark or not stop:
        raise ValueError(f"{page} must have {begin} ... {end}")
    page.write_text(f"{before}{mark}\n{table}{stop}{after}", encoding="utf-8")


# Command line


def entries_file(args: Report) -> Path:
    """Return the JSON file of the entries."""
    return args.entries or OWN


def selected(args: Play) -> list[Entry]:
    """Return the entries of the file that match `only`.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a file of entries, or nothing matches a name.
    """
    all_entries = entries(entries_file(args))
    names = {name for each in all_entries for name in (each.name, f"{each.game}/{each.name}")}
    for name in args.only:
        if not any(_matches(each, name) for each in all_entries):
            hint = near(name, {each: repr(each) for each in names})
            raise ValueError(f"only must match entries, got {shown(name)}{hint}")
    return [each for each in all_entries if any(_matches(each, name) for name in args.only)]


def _matches(entry: Entry, pattern: str) -> bool:
    """Return True if a pattern matches the entry's name, or its game and name."""
    return fnmatchcase(entry.name, pattern) or fnmatchcase(f"{entry.game}/{entry.name}", pattern)


COMMANDS: dict[type[Report], Callable[[Any], None]] = {
    Play: play,
    Verify: verify,
    Report: report,
    Readme: readme,
}


def run(args: Any) -> int:
    """Run a sub-command and return the exit code."""
    if isinstance(args, Tournament):
        return tournament.run(args)
    try:
        with sigterm_raises(KeyboardInterrupt()):
            COMMANDS[type(args)](args)
    except KeyboardInterrupt:
        hint = ": the same command plays what is missing" if type(args) is Play else ""
        raise KeyboardInterrupt(f"interrupted{hint}") from None
    return 0
