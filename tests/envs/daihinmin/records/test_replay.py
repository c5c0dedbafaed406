"""Games that the competition's server recorded go by our rules, and a wrong record is found.

`data/` holds lines of the files that are listed under `RECORDED`, unchanged: runs of games, so that
classes are passed on, and every tenth position.
"""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.records import recording
from afterstate.envs.daihinmin.records.replay import Report, main, read, replay, replay_game
from afterstate.envs.daihinmin.rules import draw_play

Entry = dict[str, Any]
Path_ = tuple[str | int, ...]
"""Keys and indices of a value in an entry."""

DATA = Path(__file__).parents[3] / "data" / "daihinmin"
ROOT = Path(__file__).parents[4]
GIVEN = os.environ.get("AFTERSTATE_GAMES")
GAMES = Path(GIVEN) if GIVEN else ROOT.parent / "shared" / "uecda" / "games"

RECORDED = {  # games, positions, actions
    "blau1def4.jsonl.gz": (100, 0, 7_986),
    "blau5.jsonl.gz": (40, 0, 3_120),
    "blaupol1def4.jsonl.gz": (300, 0, 23_876),
    "blaupol5.jsonl.gz": (300, 0, 23_414),
    "chaos5.jsonl.gz": (176, 0, 20_056),
    "coldtoufu.jsonl.gz": (200, 0, 15_946),
    "default5.jsonl.gz": (300, 0, 23_747),
    "full1.jsonl.gz": (60, 0, 4_985),
    "ganesa1def4.jsonl.gz": (300, 0, 24_507),
    "ganesa5.jsonl.gz": (60, 0, 4_945),
    "lazymix.jsonl.gz": (60, 0, 6_074),
    "legal_positions.jsonl.gz": (0, 15_000, 0),
    "mixstrong.jsonl.gz": (200, 0, 16_326),
    "mixtnd.jsonl.gz": (258, 0, 22_349),
    "mixweak.jsonl.gz": (400, 0, 33_902),
    "passer5.jsonl.gz": (20, 0, 491),
    "random5.jsonl.gz": (400, 0, 48_209),
    "strong5.jsonl.gz": (90, 0, 7_150),
    "strong5b.jsonl.gz": (110, 0, 8_859),
}
STORED = {
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

needs_games = pytest.mark.skipif(
    not GIVEN and not GAMES.is_dir(),
    reason=f"no {GAMES}, nor another folder in AFTERSTATE_GAMES; tests/daihinmin/data is replayed",
)


@needs_games
@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_game_goes_by_the_rules(name: str) -> None:
    assert replay(GAMES / name) == Report(*RECORDED[name], mismatches=0, first="")


@needs_games
def test_all_files_of_recorded_games_are_listed() -> None:
    assert {path.name for path in GAMES.glob("*.jsonl*")} == set(RECORDED)


@pytest.mark.parametrize("name", STORED)
def test_every_stored_game_goes_by_the_rules(name: str) -> None:
    assert replay(DATA / name) == Report(*STORED[name], mismatches=0, first="")


def test_all_stored_files_are_listed_and_small_enough_for_the_repository() -> None:
    files = list(DATA.iterdir())
    assert {path.name for path in files} == set(STORED)
    assert sum(path.stat().st_size for path in files) < 400_000


@needs_games
@pytest.mark.parametrize("name", STORED)
def test_stored_lines_are_lines_of_the_recorded_files(name: str) -> None:
    with gzip.open(DATA / name, "rt") as stored, gzip.open(GAMES / name, "rt") as recorded:
        lines = iter(recorded)  # in their order
        assert all(line in lines for line in stored)


def entries(name: str) -> list[Entry]:
    """The entries of a stored file."""
    return list(read(DATA / f"{name}.jsonl.gz"))


def happenings(entry: Entry) -> Iterator[str]:
    """Return the features that a recorded game shows."""
    if entry["class_reset"]:
        yield "no classes after the first game" if entry["game"] > 1 else "no classes"
    yield from entry["names"]
    yield from (gift["how"] for gift in entry["exchange"])
    revolution = 0
    for action in entry["actions"]:
        text, accepted = action["m"], action["ack"] == 9
        if text != "pass":
            yield f"{len(text.split())} cards" if accepted else "illegal"
        elif accepted:
            yield "pass on a lead"
        yield from (name for name in ("lock", "random_finish", "legal") if action.get(name))
        if action["rev"] != revolution:
            yield "revolution"
        if accepted and "JO=" in text:
            yield "joker below 3 or above 2" if text[-1] in "+" or "-" in text else "joker"
        revolution = action["rev"]


def test_stored_games_show_all_that_the_rules_speak_of() -> None:
    files = [entries(name.split(".")[0]) for name in STORED if name[:5] != "legal"]
    seen = Counter(event for file in files for entry in file for event in happenings(entry))
    expected = {"no classes", "no classes after the first game", "default", "murata", "ganesa"}
    expected |= {"auto", "chosen", "penalty", "illegal", "pass on a lead", "lock", "legal"}
    expected |= {"random_finish", "revolution", "joker", "1 cards", "2 cards", "3 cards", "4 cards"}
    assert expected <= set(seen), seen


def recorded_match(seed: int, n_games: int) -> list[Entry]:
    """A random match as it would be recorded, with illegal submissions and wrong gifts."""
    rng = random.Random(seed)
    match, out = new_match(seed), np.empty(plays.N_PLAYS, np.int64)
    found = []
    for _ in range(n_games):
        next_game(match)
        entry = recording.opening(match, list("abcde"), "ours")
        while match["to_give"]:
            hand = cards.text(match["hands"][match["turn"]]).split()
            chosen = " ".join(rng.sample(hand, int(match["to_give"]) + (rng.random() < 0.3)))
            entry["exchange"].append(recording.gift(match, cards.parse(chosen)))
        entry |= recording.lead(match)
        entry["actions"] = []
        while match["turn"] >= 0:
            play, text = draw_play(match, out), None
            if rng.random() < 0.2:
                play, text = rng.choice(
                    [(plays.PASS, None), (1, None), (recording.ILLEGAL, "?0,0=1")]
                )
            entry["actions"].append(recording.action(match, play, text, legal=rng.random() < 0.1))
        entry["finish"] = recording.finish(match)
        found.append(entry)
    return found


def written(file: Path, recorded: list[Entry]) -> Path:
    """A file of entries."""
    file.write_text("".join(json.dumps(entry) + "\n" for entry in recorded))
    return file


def test_a_match_that_we_record_is_replayed_without_a_mismatch(tmp_path: Path) -> None:
    recorded = recorded_match(1, 110)
    report = replay(written(tmp_path / "ours.jsonl", recorded))
    n_actions = sum(len(entry["actions"]) for entry in recorded)
    assert report == Report(110, 0, n_actions, 0, "")


def values(entry: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """All values of an entry, and where they are; a list of legal plays is one value."""
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
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice([-1, 1])
    if value is None:
        return rng.randrange(5)
    if isinstance(value, list):
        return value[1:] if value and rng.random() < 0.5 else [*value, "S3"]
    if value in ("auto", "chosen", "penalty"):
        return rng.choice([how for how in ("auto", "chosen", "penalty") if how != value])
    names = value.split()
    names[rng.randrange(len(names))] = rng.choice([c for c in cards.CARD_NUMBERS if c not in names])
    return " ".join(names)


def with_value(entry: Entry, path: Path_, value: Any) -> Entry:
    """A copy of an entry with one other value."""
    changed = copy.deepcopy(entry)
    part: Any = changed
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return changed


FREE = {"match", "game", "names", "nf"}
"""Keys that no rule determines."""
PROBED = {"chaos5": [1, 2, 4], "full1": [1, 4], "passer5": [1], "lazymix": [1, 4]}
"""Indices of games that are changed: in the second and the third of a match seats stay."""


@pytest.mark.parametrize(("name", "index"), [(n, i) for n, games in PROBED.items() for i in games])
def test_any_changed_value_is_found_and_named(name: str, index: int) -> None:
    """All but `deal` and `m`, see below, `how` where the strongest cards go, and drawn places."""
    rng = random.Random(index)
    before, entry = entries(name)[index - 1 : index + 1]
    drawn = any("random_finish" in action for action in entry["actions"])
    for path, value in values(entry):
        key = [step for step in path if isinstance(step, str)][-1]
        if key in FREE | {"deal", "m", "how"} or (drawn and key == "finish"):
            continue
        if path[0] == "actions" and rng.random() > 0.2:  # there are many
            continue
        changed = with_value(entry, path, another(rng, value))
        found = list(replay_game(changed, before))
        assert found, path
        if path[0] == "actions":
            action = changed["actions"][path[1]]
            where = f"action {int(path[1]) + 1}, {action['m']!r} of player {action['p']}: {key}"
            assert [mismatch.where for mismatch in found] == [where]
            assert found[0].recorded != found[0].expected
        elif path[0] == "seats" and entry["game"] % 3 == 1:  # drawn seats show by the turn alone
            assert found[0].where.endswith(": next")
        elif path[0] == "exchange" and key == "cards" and int(path[1]) >= 2:
            assert found[0].where in ("exchange", "hands")  # it may be a possible choice
        else:
            assert found[0].where == path[0]


def test_a_left_out_value_is_found() -> None:
    before, entry = entries("full1")[:2]
    for key in ("seats", "classes", "class_reset", "deal", "exchange", "finish"):
        broken = {k: value for k, value in entry.items() if k != key}
        with pytest.raises(KeyError, match=key):
            list(replay_game(broken, before))
    for key in ("hands", "start"):
        found = list(replay_game({k: v for k, v in entry.items() if k != key}, before))
        assert [mismatch.where for mismatch in found] == [key]
    for key in ("ack", "rev", "lock", "flow", "left", "next", "nl", "nc"):
        changed = copy.deepcopy(entry)
        del changed["actions"][20][key]
        found = list(replay_game(changed, before))
        assert [m.where.rpartition(": ")[2] for m in found] == [key]


def test_cards_exchanged_between_two_dealt_hands_are_found() -> None:
    before, entry = entries("chaos5")[:2]
    for player in range(4):
        first, second = (entry["deal"][p].split() for p in (player, player + 1))
        first[0], second[0] = second[0], first[0]
        changed = with_value(entry, ("deal", player), " ".join(first))
        changed["deal"][player + 1] = " ".join(second)
        found = list(replay_game(changed, before))
        assert found[0].where in ("exchange", "hands", "deal")


@pytest.mark.parametrize("index", [1, 4])
def test_a_changed_choice_of_the_exchange_is_found(index: int) -> None:
    before, entry = entries("mixstrong")[index - 1 : index + 1]
    chosen = [i for i, gift in enumerate(entry["exchange"]) if gift["how"] == "chosen"]
    assert len(chosen) == 2
    for i in chosen:
        for how in ("penalty", "auto", ""):
            changed = with_value(entry, ("exchange", i, "how"), how)
            assert next(iter(replay_game(changed, before))).where == "exchange"
    changed = with_value(entry, ("exchange",), entry["exchange"][:-1])
    assert next(iter(replay_game(changed, before))).where in ("exchange", "hands")
    changed = with_value(entry, ("exchange",), [*entry["exchange"], entry["exchange"][0]])
    assert next(iter(replay_game(changed, before))).where == "exchange"


def test_another_submission_is_found_in_its_action() -> None:
    """A play for another one, for a pass or for nothing, and a legal play for a pass."""
    rng = random.Random(3)
    before, entry = entries("full1")[:2]
    for number, action in enumerate(entry["actions"], 1):
        others = [text for text in action["legal"] if set(text.split()) != set(action["m"].split())]
        texts = rng.sample(others, 1) if others else []
        for text in texts + (["pass", "?0,0=1"] if action["m"] != "pass" else []):
            if len(text.split()) == len(action["m"].split()) and text != "pass":
                continue  # shows in what is left to play: see below
            changed = with_value(entry, ("actions", number - 1, "m"), text)
            found = list(replay_game(changed, before))
            assert found[0].where.startswith(f"action {number}, {text!r} of player {action['p']}: ")


def test_a_play_of_other_cards_is_found_at_the_latest_when_they_are_missing() -> None:
    """The cards that the last player keeps are played by nobody, and may be others."""
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


def test_left_out_and_added_actions_are_found() -> None:
    before, entry = entries("chaos5")[:2]
    actions = entry["actions"]
    for number in range(len(actions)):
        changed = with_value(entry, ("actions",), actions[:number] + actions[number + 1 :])
        assert list(replay_game(changed, before)), number
    found = list(replay_game(with_value(entry, ("actions",), actions[:-1]), before))
    assert found[-1].where == "turn after the last action"
    found = list(replay_game(with_value(entry, ("actions",), [*actions, actions[-1]]), before))
    assert found[-1].where == f"action {len(actions) + 1}: turn"


def test_classes_and_seats_are_those_that_the_game_before_left() -> None:
    first, second, third, fourth = entries("chaos5")[:4]
    found = list(replay_game(third, with_value(second, ("finish",), second["finish"][::-1])))
    assert [mismatch.where for mismatch in found] == ["classes"]
    found = list(replay_game(second, with_value(first, ("seats",), first["seats"][::-1])))
    assert [mismatch.where for mismatch in found] == ["seats"]
    assert not list(replay_game(fourth, with_value(third, ("seats",), third["seats"][::-1])))
    for other in ({"match": "other"}, {"game": 7}):  # is not the game before
        assert not list(replay_game(third, second | {"finish": second["finish"][::-1]} | other))


def test_places_before_drawn_ones_are_compared() -> None:
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
    """With rev: the pair of 4s, and each 4 with the joker as one of the three other suits."""
    legal = ["S7 JO=H7", "S7 JO=D7", "S7 JO=C7", "JO=S9 C9", "JO=H9 C9", "JO=D9 C9"]
    position: Entry = {"hand": "S4 H4 C9 S7 JO", "field": "S5 H5", "rev": 0, "lock": 0}
    position |= {"n": 6, "nc": 2, "legal": legal}
    report = replay(written(tmp_path / "positions.jsonl", [position, position | changed]))
    assert report.positions == 2
    assert (report.mismatches > 0) == bool(changed)
    assert report.first.startswith(f"line 2, {first}" if changed else "")


def test_the_command_counts_and_names_the_first_mismatch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    games = entries("chaos5")[:3]
    fine = written(tmp_path / "fine.jsonl", games)
    n = [len(game["actions"]) for game in games]
    assert main([str(fine)]) == 0
    counts = f"3 games, 0 positions, {sum(n)} actions"
    assert capsys.readouterr() == (f"{fine}: {counts}, 0 mismatches\n", "")
    action = games[1]["actions"][10]
    games[1] = with_value(games[1], ("actions", 10, "rev"), 1 - action["rev"])
    games[2] = with_value(games[2], ("actions", 3, "next"), 9)
    wrong = written(tmp_path / "wrong.jsonl", games)
    assert main([str(wrong), str(fine)]) == 1
    where = f"line 2, action 11, {action['m']!r} of player {action['p']}: rev"
    out = f"recorded {1 - action['rev']}, by the rules {action['rev']}"
    assert capsys.readouterr() == (
        f"{wrong}: {counts}, 2 mismatches\n"
        f"{wrong}: first mismatch: {where}: {out}\n"
        f"{fine}: {counts}, 0 mismatches\n",
        "",
    )


def test_the_command_runs_as_a_module(tmp_path: Path) -> None:
    wrong = entries("passer5")[0] | {"start": 9}
    file = written(tmp_path / "wrong.jsonl", [wrong])
    command = [sys.executable, "-m", "afterstate.envs.daihinmin.records.replay", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[1].startswith(
        f"{file}: first mismatch: line 1, start: recorded 9"
    )


def packed() -> bytes:
    """A stored file as it is."""
    return (DATA / "chaos5.jsonl.gz").read_bytes()


def first_game(**changes: Any) -> bytes:
    """A line with a good game and one that is changed."""
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
    "no text": ("a.jsonl", b"\xff\xfe{}\n", "can't decode byte 0xff"),
    "no keys": ("a.jsonl", b"{}\n", "line 1 is not a recorded game or position: KeyError('hand')"),
    "actions are no list": ("a.jsonl", first_game(actions=7), "line 2 is not a recorded game"),
    "an action is no object": ("a.jsonl", first_game(actions=[7]), "line 2 is not a recorded game"),
    "no submission": ("a.jsonl", first_game(actions=[{"p": 3}]), "KeyError('m')"),
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
    "no field": ("a.jsonl", json.dumps(POSITION | {"field": "S3 S4"}).encode(), "a play must be"),
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
def test_players_that_cannot_be_are_a_mismatch(
    key: str, value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(first_game(**{key: value}))
    assert main([str(file)]) == 1
    out, error = capsys.readouterr()
    assert f"first mismatch: line 2, {key}: recorded {value!r}" in out
    assert error == ""


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_one_line_of_error_and_the_others_are_replayed(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, content, message = BAD_FILES[case]
    bad, good = tmp_path / name, DATA / "passer5.jsonl.gz"
    bad.write_bytes(content)
    assert main([str(bad), str(good)]) == 1
    out, error = capsys.readouterr()
    assert out == f"{good}: 20 games, 0 positions, 491 actions, 0 mismatches\n"
    assert error.startswith(f"{bad}: ")
    assert message in error
    assert error.count("\n") == 1


def test_a_missing_file_and_a_folder_are_one_line_of_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path / "none.jsonl.gz", tmp_path):
        assert main([str(path)]) == 1
        out, error = capsys.readouterr()
        assert out == ""
        assert str(path) in error
        assert error.count("\n") == 1


def test_the_command_needs_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([])
    assert "files" in capsys.readouterr().err


def test_a_gift_that_is_not_recorded_is_a_mismatch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    game = next(entry for entry in entries("default5") if entry["exchange"])
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(game | {"exchange": game["exchange"][:3]}))
    assert main([str(file)]) == 1
    assert "first mismatch: line 1, exchange: recorded" in capsys.readouterr().out


def test_a_file_with_nothing_to_replay_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "empty.jsonl"
    file.touch()
    assert main([str(file)]) == 1
    assert capsys.readouterr().err == f"{file}: there is nothing to replay\n"
