"""A check of recorded games: replay them and compare every step with the rules.

    python -m afterstate.envs.daihinmin.records.replay FILE...

Files are JSON lines, also packed as `.gz`: games in the format of `recording.py`, or positions
{hand, field, rev, lock, n, nc, legal} with their legal plays. The command prints the numbers of
games, positions, actions and mismatches and the first mismatch, and exits with 1 if there is one.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afterstate.envs import commands
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match
from afterstate.envs.daihinmin.records.recording import (
    ILLEGAL,
    Entry,
    action,
    counts,
    finish,
    gift,
    lead,
    legal_list,
    opening,
)
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game, Options, start


class Mismatch(NamedTuple):
    """A recorded value that differs from the rules."""

    where: str
    recorded: Any
    expected: Any

    def __str__(self) -> str:
        return f"{self.where}: recorded {self.recorded!r}, by the rules {self.expected!r}"


class Report(NamedTuple):
    """Numbers of what was compared, and the first mismatch."""

    games: int = 0
    positions: int = 0
    actions: int = 0
    mismatches: int = 0
    first: str = ""


def read(file: str | Path) -> Iterator[Entry]:
    """Yield the JSON objects of a file, one per line.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not a JSON object.
    """
    open_ = gzip.open if Path(file).suffix == ".gz" else open
    with open_(file, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                raise ValueError(f"line {number} is not JSON: {error}") from error
            if not isinstance(entry, dict):
                raise ValueError(f"line {number} is not a JSON object")
            yield entry


def submission(text: str) -> int:
    """Return the number of a submission, `ILLEGAL` if it is not a play."""
    try:
        return plays.parse(text)
    except ValueError:
        return ILLEGAL


def _compare(where: str, recorded: Entry, expected: Entry) -> Iterator[Mismatch]:
    """Yield the keys of the expected entry whose recorded values differ."""
    for key, value in expected.items():
        recorded_value = recorded.get(key)
        if key == "legal":  # in any order
            recorded_value, value = sorted(recorded[key]), sorted(value)
        if recorded_value != value:
            yield Mismatch(f"{where}{key}", recorded_value, value)


def replay_position(position: Entry) -> Iterator[Mismatch]:
    """Compare the legal plays of a recorded position."""
    game = new_match()
    game["turn"] = 0
    game["hands"][0] = cards.parse(position["hand"])
    game["field"] = plays.parse(position["field"]) if position["field"] else plays.PASS
    game["revolution"], game["lock"] = position["rev"], position["lock"]
    legal = legal_list(game)
    n, nc = counts(legal)
    expected = {"n": n, "nc": nc, "legal": [plays.text(play) for play in legal]}
    yield from _compare("", position, expected)


def dealt(entry: Entry) -> Game:
    """Return the game of a recorded deal, after the gifts of the poor.

    Raises:
        ValueError: the hands are not the whole pack.
    """
    if len(entry["deal"]) != N_PLAYERS or cards.parse(" ".join(entry["deal"])) != cards.DECK:
        raise ValueError("the hands of a deal must be the whole pack")
    game = new_match()
    game["number"] = entry["game"]
    game["seats"] = entry["seats"]
    game["places"] = -1
    game["classes"] = -1 if entry["class_reset"] else entry["classes"]
    game["hands"] = [cards.parse(hand) for hand in entry["deal"]]
    game["left"] = [len(hand.split()) for hand in entry["deal"]]
    start(game)
    return game


def _replay_exchange(game: Game, entry: Entry) -> Iterator[Mismatch]:
    """Make the recorded gifts of the exchange and compare them."""
    expected = opening(game, entry["names"], entry["match"])
    for recorded in entry["exchange"][len(expected["exchange"]) :]:
        if game["to_give"]:
            choice = 0 if recorded["how"] == "penalty" else cards.parse(recorded["cards"])
            expected["exchange"].append(gift(game, choice))
    yield from _compare("", entry, expected)
    if game["to_give"]:
        yield Mismatch("exchange", entry["exchange"], f"player {game['turn']} gives cards, too")
    else:
        yield from _compare("", entry, lead(game))


def _resets_classes(entry: Entry) -> bool:
    """Return True if a game has no classes, by its number."""
    return bool((entry["game"] - 1) % Options().class_reset_every == 0)


def _chain(before: Entry, entry: Entry) -> Iterator[Mismatch]:
    """Compare classes and seats with the result of the previous game of the match."""
    expected: Entry = {}
    if not _resets_classes(entry):
        expected["classes"] = [before["finish"].index(player) for player in range(N_PLAYERS)]
    if (entry["game"] - 1) % Options().reseat_every:
        expected["seats"] = before["seats"]
    yield from _compare("", entry, expected)


def _impossible(entry: Entry) -> Iterator[Mismatch]:
    """Yield values that are impossible in any game, which is not replayed then."""
    yield from _compare("", entry, {"class_reset": _resets_classes(entry)})
    for key in ("seats", "finish") if entry["class_reset"] else ("seats", "finish", "classes"):
        if sorted(entry[key]) != list(range(N_PLAYERS)):
            yield Mismatch(key, entry[key], f"the numbers 0 to {N_PLAYERS - 1} in some order")


def replay_game(entry: Entry, before: Entry | None = None) -> Iterator[Mismatch]:
    """Compare every step of a recorded game with the rules.

    Drawn places cannot be known: only the places before them are compared.

    Args:
        entry: the game.
        before: the previous entry; if it is the previous game of the same match, classes and seats
            are compared as well.
    """
    if before and (before.get("match"), before.get("game")) == (entry["match"], entry["game"] - 1):
        yield from _chain(before, entry)
    impossible = list(_impossible(entry))
    yield from impossible
    if impossible:
        return
    game = dealt(entry)
    yield from _replay_exchange(game, entry)
    for number, recorded in enumerate(entry["actions"], 1):
        if game["turn"] < 0 or game["to_give"]:
            yield Mismatch(f"action {number}: turn", recorded["p"], int(game["turn"]))
            return
        expected = action(game, submission(recorded["m"]), recorded["m"], "legal" in recorded)
        where = f"action {number}, {recorded['m']!r} of player {recorded['p']}: "
        yield from _compare(where, recorded, {"random_finish": None} | expected)
    if game["turn"] >= 0:
        yield Mismatch("turn after the last action", None, int(game["turn"]))
        return
    known = int(np.sum(game["left"] == 0))
    known = len(game["left"]) if known >= 4 else known
    expected = {"finish": finish(game)[:known]}
    yield from _compare("", {"finish": entry["finish"][:known]}, expected)


def replay(file: str | Path) -> Report:
    """Replay all games and positions of a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not in the format; the message names it.
    """
    report = Report()
    before: Entry | None = None
    for number, entry in enumerate(read(file), 1):
        try:
            is_game = "actions" in entry
            mismatches = list(replay_game(entry, before) if is_game else replay_position(entry))
        except (LookupError, TypeError, AttributeError, ArithmeticError, ValueError) as error:
            message = f"line {number} is not a recorded game or position: {error!r}"
            raise ValueError(message) from error
        first = report.first
        if mismatches and not first:
            first = f"line {number}, {mismatches[0]}"
        report = Report(
            report.games + is_game,
            report.positions + (not is_game),
            report.actions + len(entry.get("actions", ())),
            report.mismatches + len(mismatches),
            first,
        )
        before = entry
    return report


@dataclass(frozen=True)
class Args:
    """Replay recorded games of Daihinmin and compare every step with the rules."""

    files: tuple[Path, ...]
    """Files of JSON lines, also packed as .gz."""


def _check(file: Path) -> bool:
    """Replay a file and print the result; return True if all is by the rules."""
    try:
        report = replay(file)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        print(f"{file}: {error}", file=sys.stderr)
        return False
    if report.games + report.positions == 0:
        print(f"{file}: there is nothing to replay", file=sys.stderr)
        return False
    counts = [f"{n:,} {name}" for name, n in zip(report._fields[:-1], report[:-1], strict=True)]
    print(f"{file}: {', '.join(counts)}")
    if report.first:
        print(f"{file}: first mismatch: {report.first}")
    return not report.first


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if there is a mismatch or a file cannot be read."""
    args = commands.parse(Args, "python -m afterstate.envs.daihinmin.records.replay", arguments)
    if not args.files:
        commands.fail("files must be at least one")
    return int(not all([_check(file) for file in args.files]))


if __name__ == "__main__":
    sys.exit(main())
