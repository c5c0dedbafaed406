"""The checks of the programs notice what is lost; a short soak finds no fault."""

from __future__ import annotations

import doctest
import json
import socket
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("needs POSIX signals", allow_module_level=True)
for extra in ("torch", "safetensors", "joblib", "matplotlib"):
    pytest.importorskip(extra)

from afterstate.envs.json_files import Row  # noqa: E402
from tests.soak import progress  # noqa: E402
from tests.soak.__main__ import soak  # noqa: E402 - after the skips
from tests.soak.harness import Times  # noqa: E402
from tests.soak.playing import PlayLog  # noqa: E402
from tests.soak.progress import shown  # noqa: E402
from tests.soak.serving import Tail, check_events, check_numbers  # noqa: E402


@pytest.mark.parametrize(
    ("output", "amount"),
    [
        ("", 0),
        ("  0%|          | 0.00/10.0T [00:00<?, ? moves/s]", 0),
        ("1.22M/10.0T [00:12<7:51, 5 moves/s]\r1.23M/10.0T [00:12<7:51, 9 moves/s]", 1_225_000),
        ("  0%|  | 88.0/10.0T [00:31<9:47:41, 5.28s/ moves, loss=1.56]", 88),
        ("100%|  | 20.0/20.0 [00:02<00:00, 7.40 games/s]", 0),
    ],
)
def test_the_last_amount_of_a_progress_bar_is_read(output: str, amount: int) -> None:
    assert shown(output, "moves") == amount
    assert doctest.testmod(progress) == doctest.TestResults(failed=0, attempted=2)


GAMES: list[Row] = [{"match": "cup", "game": n, "finish": [n]} for n in (1, 2, 3)]
EVENTS: list[Row] = [
    *({"event": "game", "game": n, "finish": [n]} for n in (1, 2, 3)),
    {"event": "metrics", "games": 3},
    {"event": "over", "match": "cup", "games": 3},
]


@pytest.mark.parametrize("is_polite", [False, True])
def test_games_are_compared_with_their_events(is_polite: bool) -> None:
    check_numbers(GAMES)
    check_events(GAMES, EVENTS, is_polite)
    check_events([], [{"event": "metrics", "games": 0}], is_polite)


@pytest.mark.parametrize(
    ("games", "events", "text"),
    [
        (GAMES[:2], EVENTS, "other events than its 2 games"),
        ([GAMES[0], GAMES[2]], EVENTS[:3], "other events"),
        (GAMES, EVENTS[:1], "no events of 2 games"),
        (GAMES, [*EVENTS[:3], EVENTS[4] | {"games": 4}], "not the games of a match"),
    ],
)
def test_a_lost_game_or_event_is_found(games: list[Row], events: list[Row], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_events(games, events, is_polite=False)


def test_after_a_polite_stop_no_event_may_be_lost() -> None:
    check_events(GAMES, EVENTS[:2], is_polite=False)
    with pytest.raises(AssertionError, match="no events of 1 games"):
        check_events(GAMES, EVENTS[:2], is_polite=True)
    with pytest.raises(AssertionError, match="no event of the end of matches"):
        check_events(GAMES, EVENTS[:4], is_polite=True)
    with pytest.raises(AssertionError, match="counts 2 games and has 3"):
        check_events(GAMES, [*EVENTS, {"event": "metrics", "games": 2}], is_polite=True)


def test_a_missing_number_of_a_game_is_found() -> None:
    with pytest.raises(AssertionError, match="lost games of match cup"):
        check_numbers([GAMES[0], GAMES[2]])


def test_lines_are_read_once_without_one_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    tail = Tail(path)
    assert tail.read() == ([], False)
    path.write_bytes(b'{"n":1}\n{"n":')
    assert tail.read() == ([{"n": 1}], True)
    path.write_bytes(path.read_bytes() + b'\n{"n":2}\n')
    assert tail.read() == ([{"n": 2}], False)
    path.write_bytes(path.read_bytes() + b'{"n":\n')
    with pytest.raises(ValueError, match="EOF"):
        tail.read()


@pytest.mark.exhaustive
def test_a_soak_of_two_minutes_finds_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlayLog, "N_GAMES", 300)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    folder = tmp_path / "soak"
    soak(folder, minutes=2, seed=2, port=port, times=Times(life=(15, 40), long=2))
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["fault"] is None
    assert summary["checks"]["files"] >= 12
