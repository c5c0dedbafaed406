"""Replays recorded games and compares every step with the rules.

    python -m afterstate.envs.daihinmin.records.replay FILE...

Files are JSON lines, also packed by gzip (`.gz`): games as `recording.py` describes them, or
positions {hand, field, rev, lock, n, nc, legal} with their legal plays. It prints the numbers of
games, positions, actions and mismatches and the first mismatch, and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

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
    """Where a recorded value differs from the rules."""

    where: str
    recorded: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.where}: recorded {self.recorded!r}, by the rules {self.ours!r}"


class Report(NamedTuple):
    """What was compared."""

    games: int = 0
    positions: int = 0
    actions: int = 0
    mismatches: int = 0
    first: str = ""


def read(file: str | Path) -> Iterator[Entry]:
    """The JSON objects of a file, one a line.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is no JSON object.
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
    """The number of a submission, `ILLEGAL` if it is none of the plays."""
    try:
        return plays.parse(text)
    except ValueError:
        return ILLEGAL


def _compare(where: str, recorded: Entry, ours: Entry) -> Iterator[Mismatch]:
    """The keys of our entry whose recorded values differ."""
    for key, value in ours.items():
        told = recorded.get(key)
        if key == "legal":  # in any order
            told, value = sorted(recorded[key]), sorted(value)
        if told != value:
            yield Mismatch(f"{where}{key}", told, value)


def replay_position(position: Entry) -> Iterator[Mismatch]:
    """Compares the legal plays of a recorded position."""
    game = new_match()
    game["turn"] = 0
    game["hands"][0] = cards.parse(position["hand"])
    game["field"] = plays.parse(position["field"]) if position["field"] else plays.PASS
    game["revolution"], game["lock"] = position["rev"], position["lock"]
    legal = legal_list(game)
    n, nc = counts(legal)
    ours = {"n": n, "nc": nc, "legal": [plays.text(play) for play in legal]}
    yield from _compare("", position, ours)


def dealt(entry: Entry) -> Game:
    """The game of a recorded deal, in which the poor have given.

    Raises:
        ValueError: the hands are not the pack.
    """
    if len(entry["deal"]) != N_PLAYERS or cards.parse(" ".join(entry["deal"])) != cards.DECK:
        raise ValueError("the hands of the deal are not the whole pack")
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
    """Makes the recorded choices of the exchange and compares what was given."""
    ours = opening(game, entry["names"], entry["match"])
    for recorded in entry["exchange"][len(ours["exchange"]) :]:
        if game["to_give"]:
            chosen = 0 if recorded["how"] == "penalty" else cards.parse(recorded["cards"])
            ours["exchange"].append(gift(game, chosen))
    yield from _compare("", entry, ours)
    if game["to_give"]:
        yield Mismatch("exchange", entry["exchange"], f"player {game['turn']} gives cards, too")
    else:
        yield from _compare("", entry, lead(game))


def _resets_classes(entry: Entry) -> bool:
    """Whether a game has no classes, by its number."""
    return bool((entry["game"] - 1) % Options().class_reset_every == 0)


def _chain(before: Entry, entry: Entry) -> Iterator[Mismatch]:
    """Compares classes and seats with what the game before in the same match left."""
    ours: Entry = {}
    if not _resets_classes(entry):
        ours["classes"] = [before["finish"].index(player) for player in range(N_PLAYERS)]
    if (entry["game"] - 1) % Options().reseat_every:
        ours["seats"] = before["seats"]
    yield from _compare("", entry, ours)


def _impossible(entry: Entry) -> Iterator[Mismatch]:
    """What cannot be in any game: it is not played then."""
    yield from _compare("", entry, {"class_reset": _resets_classes(entry)})
    for key in ("seats", "finish") if entry["class_reset"] else ("seats", "finish", "classes"):
        if sorted(entry[key]) != list(range(N_PLAYERS)):
            yield Mismatch(key, entry[key], f"the numbers 0 to {N_PLAYERS - 1} in some order")


def replay_game(entry: Entry, before: Entry | None = None) -> Iterator[Mismatch]:
    """Compares every step of a recorded game with the rules.

    Places that were drawn cannot be known: only those before them are compared.

    Args:
        entry: the game.
        before: the entry before it; if that is the game before in the same match, classes and
            seats are compared as well.
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
        ours = action(game, submission(recorded["m"]), recorded["m"], "legal" in recorded)
        where = f"action {number}, {recorded['m']!r} of player {recorded['p']}: "
        yield from _compare(where, recorded, {"random_finish": None} | ours)
    if game["turn"] >= 0:
        yield Mismatch("turn after the last action", None, int(game["turn"]))
        return
    known = int(np.sum(game["left"] == 0))
    known = len(game["left"]) if known >= 4 else known
    ours = {"finish": finish(game)[:known]}
    yield from _compare("", {"finish": entry["finish"][:known]}, ours)


def replay(file: str | Path) -> Report:
    """Replays all games and positions of a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not in the format; the message names the line.
    """
    report = Report()
    before: Entry | None = None
    for number, entry in enumerate(read(file), 1):
        try:
            is_game = "actions" in entry
            found = list(replay_game(entry, before) if is_game else replay_position(entry))
        except (LookupError, TypeError, AttributeError, ArithmeticError, ValueError) as error:
            raise ValueError(f"line {number} is no recorded game or position: {error!r}") from error
        first = f"line {number}, {found[0]}" if found and not report.first else report.first
        report = Report(
            report.games + is_game,
            report.positions + (not is_game),
            report.actions + len(entry.get("actions", ())),
            report.mismatches + len(found),
            first,
        )
        before = entry
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: returns 1 if a mismatch was found or a file could not be read."""
    parser = argparse.ArgumentParser(
        prog="python -m afterstate.envs.daihinmin.records.replay",
        description="Replays recorded games of Daihinmin and compares every step with the rules.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="JSON lines, also .gz")
    failed = False
    for file in parser.parse_args(arguments).files:
        try:
            report = replay(file)
        except (OSError, ValueError, EOFError, zlib.error) as error:
            print(f"{file}: {error}", file=sys.stderr)
            failed = True
            continue
        if report.games + report.positions == 0:
            print(f"{file}: there is nothing to replay", file=sys.stderr)
            failed = True
            continue
        told = [f"{n:,} {name}" for name, n in zip(report._fields[:-1], report[:-1], strict=True)]
        print(f"{file}: {', '.join(told)}")
        if report.first:
            print(f"{file}: first mismatch: {report.first}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
