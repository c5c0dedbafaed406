"""The command of the server: results, interruption, and errors of its options."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from afterstate.__main__ import main
from afterstate.envs.daihinmin import players
from afterstate.envs.daihinmin.records.replay import replay
from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.envs.daihinmin.uecda import server, tables
from afterstate.envs.daihinmin.uecda.client import play_match
from afterstate.envs.daihinmin.uecda.settings import N_SEATS, ServerSettings
from tests.support.daihinmin.uecda_peers import SOON, RandomPlayer, Raw
from tests.support.daihinmin.uecda_server import Serving, serving_command, start_command

PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def wait_for_games(command: subprocess.Popen[str], folder: Path, n: int) -> None:
    """Wait until the log has `n` games."""
    log, deadline = folder / "games.jsonl", time.monotonic() + SOON
    while not log.exists() or log.read_bytes().count(b"\n") < n:
        assert command.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "ignored"),
    [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)],
)
def test_ctrl_c_and_sigterm_print_the_results_so_far(
    number: signal.Signals, ignored: bool, tmp_path: Path
) -> None:
    games = ("--games", str(10**6))
    with start_command(tmp_path, 5, *games, ignored=ignored, **PIPES) as command:
        try:
            wait_for_games(command, tmp_path, 3)
            command.send_signal(number)
            out, err = command.communicate(timeout=SOON)
        finally:
            command.kill()
    assert command.returncode == 130
    assert "Traceback" not in err
    report = replay(tmp_path / "games.jsonl")
    assert report.mismatches == 0
    lines = out.splitlines()
    assert lines[0] == f"{report.games:,} of 1,000,000 games"
    assert sum(int(line.split()[0].replace(",", "")) for line in lines[1:]) == 15 * report.games
    last = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["games"]) == ("over", report.games)


@pytest.mark.slow
def test_a_killed_server_loses_only_the_running_game(tmp_path: Path) -> None:
    with start_command(tmp_path, 5, "--games", str(10**6), **PIPES) as command:
        try:
            wait_for_games(command, tmp_path, 3)
        finally:
            command.kill()
            command.communicate(timeout=SOON)
    assert (tmp_path / "games.jsonl").read_bytes().endswith(b"}\n")
    report = replay(tmp_path / "games.jsonl")
    assert (report.games >= 3, report.mismatches) == (True, 0)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert report.games - sum(event["event"] == "game" for event in events) in (0, 1)


def test_the_command_prints_the_standings_and_logs_the_games(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(players, "resolve", lambda name, seed=None: RandomPlayer(len(name)))
    arguments = "--port 0 --games 2 --seed 5 --seats a bb ccc dddd eeeee".split()
    assert main(["serve", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 of 2 games"
    rows = [line.split() for line in lines[1:]]
    points = [int(row[0]) for row in rows]
    assert (sum(points), points) == (30, sorted(points, reverse=True))
    assert sorted((row[3], row[4]) for row in rows) == [
        ("0", "a"),
        ("1", "bb"),
        ("2", "ccc"),
        ("3", "dddd"),
        ("4", "eeeee"),
    ]
    (log,) = tmp_path.glob("uecda-*.jsonl")
    assert replay(log).games == 2


def test_a_used_port_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert main(["serve", "--port", str(port), "--log", "none"]) == 1
        options = ["--log", str(tmp_path / "log"), "--events", str(tmp_path / "events")]
        assert main(["serve", "--port", str(port), *options]) == 1
    assert list(tmp_path.iterdir()) == [], "nothing was played"
    out, err = capsys.readouterr()
    assert out == ""
    line, _ = [line for line in err.splitlines() if line.startswith("error: ")]
    assert f"cannot listen on 127.0.0.1:{port}" in line
    assert "--port 0" in line


def test_a_server_without_an_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Such as of an unset variable: the system would listen on all networks."""
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "--host", "", "--port", "0", "--log", "none"])
    assert "host must be an address, got ''" in capsys.readouterr().err


@pytest.mark.slow
def test_a_server_on_a_used_port_leaves_the_files_of_the_other_one(tmp_path: Path) -> None:
    with serving_command(tmp_path, 4) as other:
        log, events = tmp_path / "games.jsonl", tmp_path / "events.jsonl"
        assert log.stat().st_size == 0
        before = events.read_bytes()
        files = ["--log", str(log), "--events", str(events)]
        assert main(["serve", "--port", str(other.port), *files]) == 1
        assert log.exists() and events.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "noun"),
    [
        ("--port 65536", "--port"),
        ("--games 0", "--games"),
        ("--reply-seconds 0", "--reply-seconds"),
        ("--reply-seconds nan", "--reply-seconds"),
        ("--handshake-seconds nan", "--handshake-seconds"),
        ("--wait-seconds -1", "--wait-seconds"),
        ("--game-seconds 0", "--game-seconds"),
        ("--match-seconds nan", "--match-seconds"),
        ("--matches -1", "--matches"),
        ("--connections 0", "--connections"),
        ("--connections-per-address 0", "--connections-per-address"),
        ("--seats-per-address 0", "--seats-per-address"),
        ("--log /nowhere/games.jsonl", "/nowhere"),
        ("--log .", ". is a folder"),
        ("--events .", ". is a folder"),
        ("--log none/../games --events games", "events"),
        ("--seats a b c d e f", "seats"),
    ],
)
def test_errors_name_the_wrong_option(
    arguments: str,
    noun: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(players, "resolve", lambda name, seed=None: RandomPlayer(1))
    with pytest.raises(SystemExit) as stop:
        main(
            ["serve", *arguments.split(), *(["--log", "none"] if "--log" not in arguments else [])]
        )
    assert stop.value.code == 2
    assert noun in capsys.readouterr().err


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_links_to_one_file_are_no_two_files(
    tmp_path: Path, link: Callable[[Path, Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    log, events = tmp_path / "log", tmp_path / "events"
    log.touch()
    link(events, log)
    with pytest.raises(SystemExit):
        main(["serve", "--log", str(log), "--events", str(events)])
    assert "events must be another file than log" in capsys.readouterr().err


def test_servers_that_start_in_the_same_second_have_matches_of_their_own() -> None:
    """They may write to one log, in which the name tells the games of a match."""
    settings = ServerSettings(log=None)
    assert len({server.Server(settings)._title for _ in range(20)}) == 20


def test_the_replacement_gets_a_player_per_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int | None]] = []

    def resolve(name: str, seed: int | None = None) -> RandomPlayer:
        made.append((name, seed))
        return RandomPlayer(1)

    async def run(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(players, "resolve", resolve)
    monkeypatch.setattr(server.Server, "run", run)
    assert main("serve --log none --seats a b --replacement heir --seed 3".split()) == 130
    assert [name for name, _ in made] == ["a", "b", "heir", "heir", "heir"]
    assert len({seed for _, seed in made}) == 5


@pytest.mark.slow
@pytest.mark.parametrize("n_whole", [0, 1])
def test_a_match_that_ends_early_is_a_failure(tmp_path: Path, n_whole: int) -> None:
    options = ["--games", "2", "--matches", str(1 + n_whole)]
    with serving_command(tmp_path, 0, *options) as server:
        with ExitStack() as stack:
            for _ in range(N_PLAYERS):
                client = stack.enter_context(Raw(server.port))
                client.connection.send(tables.profile_table("x"))
                client.connection.number("number", range(5))
        if n_whole:
            server.wait_for("over", 1)
            with ThreadPoolExecutor(N_PLAYERS) as pool:
                players = [RandomPlayer(i) for i in range(N_PLAYERS)]
                address = ("127.0.0.1", server.port)
                list(pool.map(lambda player: play_match(address, player, "y"), players))
        assert server.process.wait(SOON) == 1
    assert [each["games"] for each in server.events("over")] == [1, 2][: 1 + n_whole]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.parametrize("pause", [0.02, 0.1])
def test_two_signals_end_a_server_like_one(tmp_path: Path, pause: float) -> None:
    words = ["serve", "--port", "0", "--log", "none", "--events", str(tmp_path / "events.jsonl")]
    command = [sys.executable, "-m", "afterstate", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            Serving(process, tmp_path).wait_until_listening()
            process.terminate()
            time.sleep(pause)
            process.terminate()
            assert "Traceback" not in process.communicate(timeout=SOON)[1]
        finally:
            process.kill()
    assert process.returncode == 130


@pytest.mark.skipif(os.name == "nt", reason="arguments are bytes elsewhere")
@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("serve --log none --port 0 --match \udcff", "match"),
        ("serve --log none --port 0 --seats heuristic,x=\udcff", "settings of a player"),
        ("join --port 1 --player heuristic,x=\udcff", "settings of a player"),
        ("eval expectimax,depth=\udcff --games 1", "settings of a player"),
    ],
)
def test_bytes_that_are_no_text_are_refused(
    words: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    assert stop.value.code == 2
    assert f"{name} must be text that UTF-8 can encode, got" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--seats", "--replacement"])
def test_an_error_names_the_unknown_player(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["serve", "--log", "none", option, "nobody-of-that-name"])
    assert stop.value.code == 2
    assert "nobody-of-that-name" in capsys.readouterr().err


def test_the_seats_are_the_players_of_the_rules() -> None:
    """The settings of the server import no rules."""
    assert N_SEATS == N_PLAYERS
