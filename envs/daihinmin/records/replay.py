"""A check of recorded games: replay them and compare every step with the rules.

    afterstate replay FILE...

Files are JSON lines, also packed as `.gz`: games in the format of `recording.py`, or positions
{hand, field, rev, lock, n, nc, legal} with their legal plays.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afterstate.envs import json_files
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match
from afterstate.envs.daihinmin.records.recording import (
    ILLEGAL,
    Entry,
    counts,
    deal_entry,
    finishing_order,
    give_and_record,
    lead_entry,
    play_and_record,
)
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game, Rules, give, start
from afterstate.envs.daihinmin.views import legal_plays
from afterstate.envs.messages import is_text, shown

LOGGER = logging.getLogger(__name__)


class Mismatch(NamedTuple):
    """A recorded value that differs from the rules."""

    where: str
    recorded: Any
    expected: Any

    def __str__(self) -> str:
        recorded, expected = f"{self.recorded!r:.500}", f"{self.expected!r:.500}"
        return f"{self.where}: recorded {recorded}, by the rules {expected}"


class Report(NamedTuple):
    """Numbers of what was compared, the first mismatch, and the damage."""

    games: int = 0
    positions: int = 0
    actions: int = 0
    mismatches: int = 0
    first: str = ""
    damaged: int = 0  # number of lines that cannot be read
    damage: str = ""  # what is wrong with the first of them, with the name of the file


def read(file: str | Path) -> Iterator[Entry]:
    """Yield the JSON objects of a file, one per line.

    Damaged lines, such as one cut off by a kill, are left out, and so is the end of a packed file
    from a damaged place on; both are reported in the log.

    Raises:
        OSError: the file cannot be read.
        ValueError: there is damage, and no JSON object.
    """
    n_read, damage = 0, list[str]()
    try:
        for number, line in enumerate(json_files.lines(file), 1):
            try:
                entry = _entry(line)
            except ValueError as error:
                damage.append(f"{file}: line {number} is {error}")
                continue
            n_read += 1
            yield entry
    except ValueError as error:
        damage.append(str(error))
    if damage and not n_read:
        raise ValueError(damage[0])
    if damage:
        LOGGER.warning("%s (left out: %d)", damage[0], len(damage))


def _entry(line: bytes) -> Entry:
    """Return the JSON object of a line."""
    if not is_text(line):
        raise ValueError("not text: recorded games are in text files of JSON lines (.jsonl)")
    try:
        entry = json_files.parse(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(entry, dict):
        raise ValueError("not a JSON object")
    return entry


def parse_submission(text: str) -> int:
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
    if not {position["rev"], position["lock"]} <= {0, 1}:
        raise ValueError("rev and lock of a position must be 0 or 1")
    game = new_match()
    game["turn"] = 0
    game["hands"][0] = cards.parse(position["hand"])
    game["field"] = plays.parse(position["field"]) if position["field"] else plays.PASS
    game["revolution"], game["lock"] = position["rev"], position["lock"]
    legal = legal_plays(game)
    n, nc = counts(legal)
    expected = {"n": n, "nc": nc, "legal": [plays.text(play) for play in legal]}
    yield from _compare("", position, expected)


def dealt(entry: Entry) -> Game:
    """Return the game of a recorded deal, after the gifts of the poor.

    Raises:
        ValueError: the hands are not the whole pack in equal shares, or seats or classes are not
            those of five players.
    """
    if len(entry["deal"]) != N_PLAYERS or cards.parse(" ".join(entry["deal"])) != cards.DECK:
        raise ValueError("the hands of a deal must be the whole pack")
    if {len(hand.split()) for hand in entry["deal"]} != {10, 11}:
        raise ValueError("the hands of a deal must have 10 or 11 cards")
    for key in ("seats",) if entry["class_reset"] else ("seats", "classes"):
        if sorted(entry[key]) != list(range(N_PLAYERS)):
            raise ValueError(f"{key} must be the numbers 0 to {N_PLAYERS - 1} in some order")
    game = new_match()
    game["number"] = entry["game"]
    game["seats"] = entry["seats"]
    game["places"] = -1
    game["classes"] = -1 if entry["class_reset"] else entry["classes"]
    game["hands"] = [cards.parse(hand) for hand in entry["deal"]]
    game["left"] = [len(hand.split()) for hand in entry["deal"]]
    start(game)
    return game


def exchanged(entry: Entry) -> Game:
    """Return the game of a recorded deal after the recorded gifts, which may be incomplete.

    Raises:
        ValueError: see `dealt`; or a gift in wrong notation.
    """
    game = dealt(entry)
    for gift in entry["exchange"]:
        if game["to_give"] and gift["how"] != "auto":
            give(game, _choice(gift))
    return game


def _choice(gift: Entry) -> int:
    """Return the cards that led to a recorded gift of the rich; 0, a wrong choice, to a penalty."""
    return 0 if gift["how"] == "penalty" else cards.parse(gift["cards"])


def _replay_exchange(game: Game, entry: Entry) -> Iterator[Mismatch]:
    """Make the recorded gifts of the exchange and compare them."""
    expected = deal_entry(game, entry["names"], entry["match"])
    for recorded in entry["exchange"][len(expected["exchange"]) :]:
        if game["to_give"]:
            expected["exchange"].append(give_and_record(game, _choice(recorded)))
    yield from _compare("", entry, expected)
    if game["to_give"]:
        yield Mismatch("exchange", entry["exchange"], f"player {game['turn']} gives cards, too")
    else:
        yield from _compare("", entry, lead_entry(game))


def _resets_classes(entry: Entry) -> bool:
    """Return True if a game has no classes, by its number."""
    return bool((entry["game"] - 1) % Rules().class_reset_every == 0)


def _chain(before: Entry, entry: Entry) -> Iterator[Mismatch]:
    """Compare classes and seats with the result of the previous game of the match."""
    expected: Entry = {}
    if not _resets_classes(entry):
        expected["classes"] = [before["finish"].index(player) for player in range(N_PLAYERS)]
    if (entry["game"] - 1) % Rules().reseat_every:
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
        expected = play_and_record(
            game, parse_submission(recorded["m"]), recorded["m"], "legal" in recorded
        )
        where = f"action {number}, {shown(recorded['m'])} of player {shown(recorded['p'])}: "
        yield from _compare(where, recorded, {"random_finish": None} | expected)
    if game["turn"] >= 0:
        yield Mismatch("turn after the last action", None, int(game["turn"]))
        return
    known = int(np.sum(game["left"] == 0))
    known = len(game["left"]) if known >= 4 else known
    expected = {"finish": finishing_order(game)[:known]}
    yield from _compare("", {"finish": entry["finish"][:known]}, expected)


FORMAT_ERRORS = (LookupError, TypeError, AttributeError, ArithmeticError, ValueError)
"""Errors of replaying an entry that is not in the format."""

MAX_DAMAGED = 1_000
"""Number of damaged lines after which a file is not read further."""


def replay(file: str | Path) -> Report:
    """Replay all games and positions of a file; damaged lines are counted and left out.

    Raises:
        OSError: the file cannot be read.
    """
    report = Report()
    before: Entry | None = None
    try:
        for number, line in enumerate(json_files.lines(file), 1):
            try:
                report, before = _replay_line(report, number, _entry(line), before)
            except ValueError as error:
                report = _damaged(report, f"{file}: line {number} is {error}")
            if report.damaged >= MAX_DAMAGED:
                break
    except ValueError as error:  # a packed file is cut off or damaged, or a line is far too long
        report = _damaged(report, str(error))
    return report


def fault(error: Exception) -> str:
    """Return what is wrong with an entry, by one of `FORMAT_ERRORS`."""
    text = str(error) or type(error).__name__
    if isinstance(error, KeyError):
        return f"it has no entry {text}"
    if isinstance(error, (TypeError, AttributeError)):
        return "a value has another type than the format"
    return text if len(text) <= 200 else f"{text[:200]} ..."


def _replay_line(
    report: Report, number: int, entry: Entry, before: Entry | None
) -> tuple[Report, Entry]:
    """Return the report with an entry added, and the entry.

    Raises:
        ValueError: the entry is not in the format.
    """
    is_game = "actions" in entry
    try:
        mismatches = list(replay_game(entry, before) if is_game else replay_position(entry))
        n_actions = len(entry.get("actions", ()))
    except FORMAT_ERRORS as error:
        raise ValueError(f"not a recorded game or position: {fault(error)}") from error
    first = f"line {number}, {mismatches[0]}" if mismatches and not report.first else report.first
    compared = report._replace(
        games=report.games + is_game,
        positions=report.positions + (not is_game),
        actions=report.actions + n_actions,
        mismatches=report.mismatches + len(mismatches),
        first=first,
    )
    return compared, entry


def _damaged(report: Report, damage: str) -> Report:
    """Return the report with damage added."""
    return report._replace(damaged=report.damaged + 1, damage=report.damage or f"{damage:.500}")
