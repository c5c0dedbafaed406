"""Games recorded by the competition's server follow the rules, and wrong records are found.

`data/daihinmin` has a part of these games; the environment variable AFTERSTATE_GAMES names a folder
with all of them.
"""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate.__main__ import main
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.records import recording
from afterstate.envs.daihinmin.records.replay import Report, read, replay, replay_game
from afterstate.envs.daihinmin.rules import draw_play

Entry = dict[str, Any]
Path_ = tuple[str | int, ...]
"""Keys and indices of a value in an entry."""

DATA = Path(__file__).parents[3] / "data" / "daihinmin"
GIVEN = os.environ.get("AFTERSTATE_GAMES")
GAMES = Path(GIVEN) if GIVEN else Path(__file__).parents[5] / "shared" / "uecda" / "games"

STORED = {  # games, positions, actions
    "chaos5.jsonl.gz": (36, 0, 4_129),
    "default5.jsonl.gz": (55, 0, 4_391),
    "full1.jsonl.gz": (26, 0, 2_183),
    "lazymix.jsonl.gz": (20, 0, 2_080),
    "legal_positions.jsonl.gz": (0, 1_500, 0),
    "mixstrong.jsonl.gz": (30, 0, 2_481),
    "mixtnd.jsonl.gz": (12, 0, 1_007),
    "passer5.jsonl.gz": (20, 0, 491),
    "random5.jsonl.gz": (15, 0, 1_759),
}


@pytest.mark.slow
@pytest.mark.skipif(not GAMES.is_dir(), reason="needs recorded games in AFTERSTATE_GAMES")
def test_all_recorded_games_follow_the_rules() -> None:
    reports = [replay(file) for file in sorted(GAMES.glob("*.jsonl*"))]
    assert [report.first for report in reports] == [""] * len(reports)
    assert sum(report.games for report in reports) == 3_374
    assert sum(report.positions for report in reports) == 15_000


@pytest.mark.parametrize("name", STORED)
def test_stored_games_follow_the_rules(name: str) -> None:
    assert replay(DATA / name) == Report(*STORED[name], mismatches=0, first="")


def entries(name: str) -> list[Entry]:
    """Return the entries of a stored file."""
    return list(read(DATA / f"{name}.jsonl.gz"))


def recorded_match(seed: int, n_games: int) -> list[Entry]:
    """Return the record of a random match with illegal submissions and wrong gifts."""
    rng = random.Random(seed)
    match, out = new_match(seed), np.empty(plays.N_PLAYS, np.int64)
    games = []
    for _ in range(n_games):
        next_game(match)
        entry = recording.deal_entry(match, list("abcde"), "ours")
        while match["to_give"]:
            hand = cards.text(match["hands"][match["turn"]]).split()
            gift = " ".join(rng.sample(hand, int(match["to_give"]) + (rng.random() < 0.3)))
            entry["exchange"].append(recording.give_and_record(match, cards.parse(gift)))
        entry |= recording.lead_entry(match)
        entry["actions"] = []
        while match["turn"] >= 0:
            play, text = draw_play(match, out), None
            if rng.random() < 0.2:
                play, text = rng.choice(
                    [(plays.PASS, None), (1, None), (recording.ILLEGAL, "?0,0=1")]
                )
            entry["actions"].append(
                recording.play_and_record(match, play, text, legal=rng.random() < 0.1)
            )
        entry["finish"] = recording.finishing_order(match)
        games.append(entry)
    return games


def written(file: Path, recorded: list[Entry]) -> Path:
    """Write entries to a file and return it."""
    file.write_text("".join(json.dumps(entry) + "\n" for entry in recorded))
    return file


@pytest.mark.slow
def test_a_recorded_random_match_follows_the_rules(tmp_path: Path) -> None:
    recorded = recorded_match(1, 103)
    report = replay(written(tmp_path / "ours.jsonl", recorded))
    n_actions = sum(len(entry["actions"]) for entry in recorded)
    assert report == Report(103, 0, n_actions, 0, "")


def values(entry: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Yield the path and the value of each value; a list of legal plays is one value."""
    items: list[tuple[str | int, Any]] = []
    if isinstance(entry, dict):
        items = list(entry.items())
    elif isinstance(entry, list) and path[-1] != "legal":
        items = list(enumerate(entry))
    else:
        yield path, entry
    for key, value in items:
        yield from values(value, (*path, key))


def another(rng: random.Random, value: Any) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice([-1, 1])
    if value is None:
        return rng.randrange(5)
    if isinstance(value, list):
        return value[1:] if value and rng.random() < 0.5 else [*value, "S3"]
    if value in ("auto", "chosen", "penalty"):
        return rng.choice(sorted({"auto", "chosen", "penalty"} - {value}))
    names = value.split()
    names[rng.randrange(len(names))] = rng.choice([c for c in cards.CARD_NUMBERS if c not in names])
    return " ".join(names)


def with_value(entry: Entry, path: Path_, value: Any) -> Entry:
    """Return a copy of an entry with one other value."""
    changed = copy.deepcopy(entry)
    part: Any = changed
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return changed


FREE = {"match", "game", "names", "nf"}
"""Keys that no rule determines."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "index"), [("chaos5", 1), ("chaos5", 2), ("full1", 4), ("passer5", 1), ("lazymix", 4)]
)
def test_a_changed_value_is_found_and_named(name: str, index: int) -> None:
    """Other tests change `deal`, `m` and `how`. The seats of games 2 and 3 of a match are fixed."""
    rng = random.Random(index)
    before, entry = entries(name)[index - 1 : index + 1]
    drawn = any("random_finish" in action for action in entry["actions"])
    for path, value in values(entry):
        key = [step for step in path if isinstance(step, str)][-1]
        if key in FREE | {"deal", "m", "how"} or (drawn and key == "finish"):
            continue
        if path[0] == "actions" and rng.random() > 0.08:  # there are many
            continue
        changed = with_value(entry, path, another(rng, value))
        mismatches = list(replay_game(changed, before))
        assert mismatches, path
        if path[0] == "actions":
            action = changed["actions"][path[1]]
            where = f"action {int(path[1]) + 1}, {action['m']!r} of player {action['p']}: {key}"
            assert [mismatch.where for mismatch in mismatches] == [where]
            assert mismatches[0].recorded != mismatches[0].expected
        elif path[0] == "seats" and entry["game"] % 3 == 1:  # drawn seats: only the turns
            assert mismatches[0].where.endswith(": next")
        elif path[0] == "exchange" and key == "cards" and int(path[1]) >= 2:
            assert mismatches[0].where in ("exchange", "hands")
        else:
            assert mismatches[0].where == path[0]


def test_a_missing_value_is_found() -> None:
    before, entry = entries("full1")[:2]
    for key in ("seats", "classes", "class_reset", "deal", "exchange", "finish"):
        broken = {k: value for k, value in entry.items() if k != key}
        with pytest.raises(KeyError, match=key):
            list(replay_game(broken, before))
    for key in ("hands", "start"):
        mismatches = list(replay_game({k: v for k, v in entry.items() if k != key}, before))
        assert [mismatch.where for mismatch in mismatches] == [key]
    for key in ("ack", "rev", "lock", "flow", "left", "next", "nl", "nc"):
        changed = copy.deepcopy(entry)
        del changed["actions"][20][key]
        mismatches = list(replay_game(changed, before))
        assert [m.where.rpartition(": ")[2] for m in mismatches] == [key]


def test_swapped_cards_of_two_hands_are_found() -> None:
    before, entry = entries("chaos5")[:2]
    for player in range(4):
        first, second = (entry["deal"][p].split() for p in (player, player + 1))
        first[0], second[0] = second[0], first[0]
        changed = with_value(entry, ("deal", player), " ".join(first))
        changed["deal"][player + 1] = " ".join(second)
        assert next(replay_game(changed, before)).where in ("exchange", "hands", "deal")


@pytest.mark.parametrize("index", [1, 4])
def test_a_changed_gift_is_found(index: int) -> None:
    before, entry = entries("mixstrong")[index - 1 : index + 1]
    gifts = [i for i, gift in enumerate(entry["exchange"]) if gift["how"] == "chosen"]
    assert len(gifts) == 2
    for i in gifts:
        for kind in ("penalty", "auto", ""):
            changed = with_value(entry, ("exchange", i, "how"), kind)
            assert next(replay_game(changed, before)).where == "exchange"
    changed = with_value(entry, ("exchange",), entry["exchange"][:-1])
    assert next(replay_game(changed, before)).where in ("exchange", "hands")
    changed = with_value(entry, ("exchange",), [*entry["exchange"], entry["exchange"][0]])
    assert next(replay_game(changed, before)).where == "exchange"


def test_another_submission_is_found_in_its_action() -> None:
    """Plays become passes, malformed plays or plays of other sizes; passes become legal plays."""
    rng = random.Random(3)
    before, entry = entries("full1")[:2]
    for number, action in enumerate(entry["actions"], 1):
        others = [text for text in action["legal"] if set(text.split()) != set(action["m"].split())]
        texts = rng.sample(others, 1) if others else []
        for text in texts + (["pass", "?0,0=1"] if action["m"] != "pass" else []):
            if len(text.split()) == len(action["m"].split()) and text != "pass":
                continue  # see the next test
            changed = with_value(entry, ("actions", number - 1, "m"), text)
            where = next(replay_game(changed, before)).where
            assert where.startswith(f"action {number}, {text!r} of player {action['p']}: ")


def test_a_play_of_other_cards_is_found() -> None:
    """Not of the last player, who may hold either cards at the end."""
    before, entry = entries("full1")[:2]
    n = 0
    for number, action in enumerate(entry["actions"]):
        taken = plays.CARDS[plays.parse(action["m"])]
        for text in action["legal"]:
            if plays.CARDS[plays.parse(text)] != taken and action["p"] != entry["finish"][4]:
                changed = with_value(entry, ("actions", number, "m"), text)
                assert list(replay_game(changed, before)), (number, text)
                n += 1
    assert n > 100


def test_missing_and_additional_actions_are_found() -> None:
    before, entry = entries("chaos5")[:2]
    actions = entry["actions"]
    for number in range(0, len(actions), 3):
        changed = with_value(entry, ("actions",), actions[:number] + actions[number + 1 :])
        assert list(replay_game(changed, before)), number
    mismatches = list(replay_game(with_value(entry, ("actions",), actions[:-1]), before))
    assert mismatches[-1].where == "turn after the last action"
    changed = with_value(entry, ("actions",), [*actions, actions[-1]])
    assert list(replay_game(changed, before))[-1].where == f"action {len(actions) + 1}: turn"


def test_classes_and_seats_follow_from_the_previous_game() -> None:
    first, second, third, fourth = entries("chaos5")[:4]
    mismatches = list(replay_game(third, with_value(second, ("finish",), second["finish"][::-1])))
    assert [mismatch.where for mismatch in mismatches] == ["classes"]
    mismatches = list(replay_game(second, with_value(first, ("seats",), first["seats"][::-1])))
    assert [mismatch.where for mismatch in mismatches] == ["seats"]
    assert not list(replay_game(fourth, with_value(third, ("seats",), third["seats"][::-1])))
    for other in ({"match": "other"}, {"game": 7}):  # not the previous game
        assert not list(replay_game(third, second | {"finish": second["finish"][::-1]} | other))


def test_places_before_drawn_places_are_compared() -> None:
    for before, entry in zip(entries("lazymix")[1:], entries("lazymix")[2:], strict=False):
        known = entry["actions"][-1]["left"].count(0)
        if 1 <= known <= 3 and entry["actions"][-1].get("random_finish"):
            finish = entry["finish"]
            changed = with_value(entry, ("finish",), finish[1:] + finish[:1])
            assert [m.where for m in replay_game(changed, before)] == ["finish"]
            drawn = with_value(entry, ("finish",), finish[:known] + finish[known:][::-1])
            assert not list(replay_game(drawn, before))
            return
    raise AssertionError("no such game is stored")


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        ({}, ""),
        ({"n": 5}, "n: recorded 5, by the rules 6"),
        ({"nc": 3}, "nc: recorded 3, by the rules 2"),
        ({"legal": []}, "legal: recorded [], by the rules ['JO=D9 C9', 'JO=H9 C9', 'JO=S9 C9', "),
        ({"hand": "S4 H4 C9 S7"}, "n: recorded 6, by the rules 0"),
        ({"field": "S7 H7"}, "n: recorded 6, by the rules 3"),
        ({"field": ""}, "n: recorded 6, by the rules "),
        ({"rev": 1}, "n: recorded 6, by the rules 7"),
        ({"lock": 1}, "n: recorded 6, by the rules 1"),
    ],
)
def test_changed_positions_are_found(changed: Entry, first: str, tmp_path: Path) -> None:
    """With `rev`, the legal plays are the 4s, and each 4 with the joker in another suit."""
    legal = ["S7 JO=H7", "S7 JO=D7", "S7 JO=C7", "JO=S9 C9", "JO=H9 C9", "JO=D9 C9"]
    position: Entry = {"hand": "S4 H4 C9 S7 JO", "field": "S5 H5", "rev": 0, "lock": 0}
    position |= {"n": 6, "nc": 2, "legal": legal}
    report = replay(written(tmp_path / "positions.jsonl", [position, position | changed]))
    assert report.positions == 2
    assert (report.mismatches > 0) == bool(changed)
    assert report.first.startswith(f"line 2, {first}" if changed else "")


def test_the_command_prints_counts_and_the_first_mismatch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    games = entries("chaos5")[:3]
    fine = written(tmp_path / "fine.jsonl", games)
    n = [len(game["actions"]) for game in games]
    assert main(["replay", str(fine)]) == 0
    counts = f"3 games, 0 positions, {sum(n)} actions"
    assert capsys.readouterr() == (f"{fine}: {counts}, 0 mismatches\n", "")
    action = games[1]["actions"][10]
    games[1] = with_value(games[1], ("actions", 10, "rev"), 1 - action["rev"])
    games[2] = with_value(games[2], ("actions", 3, "next"), 9)
    wrong = written(tmp_path / "wrong.jsonl", games)
    assert main(["replay", str(wrong), str(fine)]) == 1
    where = f"line 2, action 11, {action['m']!r} of player {action['p']}: rev"
    out = f"recorded {1 - action['rev']}, by the rules {action['rev']}"
    assert capsys.readouterr() == (
        f"{wrong}: {counts}, 2 mismatches\n"
        f"{wrong}: first mismatch: {where}: {out}\n"
        f"{fine}: {counts}, 0 mismatches\n",
        "",
    )


@pytest.mark.slow
def test_the_command_runs_as_a_module(tmp_path: Path) -> None:
    wrong = entries("passer5")[0] | {"start": 9}
    file = written(tmp_path / "wrong.jsonl", [wrong])
    command = [sys.executable, "-m", "afterstate", "replay", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[1].startswith(
        f"{file}: first mismatch: line 1, start: recorded 9"
    )


def packed() -> bytes:
    """Return the bytes of a stored file."""
    return (DATA / "chaos5.jsonl.gz").read_bytes()


def first_game(**changes: Any) -> bytes:
    """Return a line with a correct game and a line with a changed one."""
    game = entries("chaos5")[0]
    return f"{json.dumps(game)}\n{json.dumps(game | changes)}\n".encode()


POSITION = {"hand": "S3", "field": "", "rev": 0, "lock": 0, "n": 1, "nc": 1, "legal": ["S3"]}
BAD_FILES: dict[str, tuple[str, bytes, str]] = {
    "no gzip": ("a.jsonl.gz", b"hello", "Not a gzipped file"),
    "truncated": ("a.jsonl.gz", packed()[:3_000], "ended before the end-of-stream marker"),
    "wrong checksum": ("a.jsonl.gz", packed()[:-8] + bytes(8), "CRC check failed"),
    "no JSON": ("a.jsonl", b'{"hand": \n', "line 1 is not JSON: "),
    "empty line": ("a.jsonl", first_game() + b"\n", "line 3 is not JSON: "),
    "no object": ("a.jsonl", b"[1, 2]\n", "line 1 is not a JSON object"),
    "no text": ("a.jsonl", b"\xff\xfe{}\n", "line 1 is not text: recorded games are in"),
    "no keys": (
        "a.jsonl",
        b"{}\n",
        "recorded game or position: it has no entry 'rev'",
    ),
    "actions are no list": ("a.jsonl", first_game(actions=7), "line 2 is not a recorded game"),
    "an action is no object": ("a.jsonl", first_game(actions=[7]), "line 2 is not a recorded game"),
    "no submission": ("a.jsonl", first_game(actions=[{"p": 3}]), "no entry 'm'"),
    "no finish": ("a.jsonl", first_game(finish=None), "line 2 is not a recorded game"),
    "no names": ("a.jsonl", first_game(names=None), "line 2 is not a recorded game"),
    "a card twice": ("a.jsonl", first_game(deal=["S3 S3"] * 5), "S3 twice"),
    "cards are missing": ("a.jsonl", first_game(deal=["S3"] + [""] * 4), "whole pack"),
    "no card": ("a.jsonl", first_game(deal=["S1"] + [""] * 4), "S1"),
    "corrupt": ("a.jsonl.gz", packed()[:500] + b"\xff" * 100 + packed()[600:], "decompress"),
    "huge": (
        "a.jsonl",
        json.dumps(POSITION | {"rev": 10**30}).encode(),
        "line 1 is not a recorded",
    ),
    "deep": ("a.jsonl", b"[" * 100_000, "line 1"),
    "nothing": ("a.jsonl", b"", "nothing to replay"),
    "no field": ("a.jsonl", json.dumps(POSITION | {"field": "S3 S4"}).encode(), "a play must be"),
    "a lock of 7": ("a.jsonl", json.dumps(POSITION | {"lock": 7}).encode(), "must be 0 or 1"),
    "unequal hands": (
        "a.jsonl",
        first_game(deal=[" ".join(cards.CARD_NUMBERS), "", "", "", ""]),
        "10 or 11 cards",
    ),
    "an endless line": ("a.jsonl.gz", gzip.compress(bytes(1 << 27)), "line 1 has more than"),
    "a bomb of lines": ("a.jsonl.gz", gzip.compress(b"\n" * (1 << 24)), "of 1,000 damaged lines"),
    "no hand": ("a.jsonl", json.dumps(POSITION | {"hand": 3}).encode(), "line 1 is not a recorded"),
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seats", [0, 1, 2, 3]),
        ("seats", [10**12, 4, 1, 0, 3]),
        ("finish", [0, 1, 2, 3, 4, 4]),
        ("finish", [7] * 5),
        ("class_reset", False),
    ],
)
def test_impossible_players_are_a_mismatch(
    key: str, value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(first_game(**{key: value}))
    assert main(["replay", str(file)]) == 1
    out, error = capsys.readouterr()
    assert f"first mismatch: line 2, {key}: recorded {value!r}" in out
    assert error == ""


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_an_error_and_the_other_files_are_replayed(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, content, message = BAD_FILES[case]
    bad, good = tmp_path / name, DATA / "passer5.jsonl.gz"
    bad.write_bytes(content)
    assert main(["replay", str(bad), str(good)]) == 1
    out, error = capsys.readouterr()
    lines = [line for line in out.splitlines() if not line.startswith(f"{bad}: ")]
    assert lines == [f"{good}: 20 games, 0 positions, 491 actions, 0 mismatches"]
    assert "first mismatch" not in out
    assert error.startswith(f"{bad}: ")
    assert message in error
    assert error.count("\n") == 1


def test_a_torn_line_is_reported_and_the_other_games_are_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a killed server leaves its log, to which the next one appends."""
    games = [json.dumps(game).encode() for game in entries("chaos5")[:5]]
    file = tmp_path / "log.jsonl"
    file.write_bytes(b"\n".join([*games[:3], games[3][:2_000], *games[4:], b"", games[0][:99]]))
    report = replay(file)
    assert (report.games, report.mismatches, report.damaged) == (4, 0, 3)
    assert report.damage.startswith(f"{file}: line 4 is not JSON: ")
    assert main(["replay", str(file)]) == 1
    out, error = capsys.readouterr()
    assert out == f"{file}: 4 games, 0 positions, {report.actions} actions, 0 mismatches\n"
    assert error == f"{report.damage} (the first of 3 damaged lines)\n"


def test_games_before_the_end_of_a_cut_off_file_are_replayed(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl.gz"
    file.write_bytes(packed()[:-5_000])
    report = replay(file)
    assert (report.games > 20, report.mismatches, report.damaged) == (True, 0, 1)
    assert f"{file}: damaged after line {report.games}: " in report.damage


def test_a_mismatch_is_told_in_some_words(tmp_path: Path) -> None:
    """Also that of a deep or long value."""
    for value in ([[[0]] * 1_000] * 100, json.loads("[" * 150 + "]" * 150), "x" * 100_000):
        report = replay(written(tmp_path / "a.jsonl", [entries("chaos5")[0] | {"start": value}]))
        assert report.mismatches == 1
        assert len(report.first) < 2_000


@pytest.mark.parametrize("name", ["none.jsonl.gz", "."])
def test_a_missing_file_and_a_folder_are_errors(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["replay", str(tmp_path / name)])
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert str(tmp_path / name) in error


def test_the_command_needs_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["replay"])
    assert "FILE must be given" in capsys.readouterr().err


def test_a_missing_gift_is_a_mismatch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    game = next(entry for entry in entries("default5") if entry["exchange"])
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(game | {"exchange": game["exchange"][:3]}))
    assert main(["replay", str(file)]) == 1
    assert "first mismatch: line 1, exchange: recorded" in capsys.readouterr().out
