"""Limits of time, replacements of lost clients, metrics, and matches one after the other."""

from __future__ import annotations

import asyncio
import socket
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.plays import N_PLAYS
from afterstate.envs.daihinmin.records.recording import ILLEGAL
from afterstate.envs.daihinmin.rules import N_PLAYERS, Game
from afterstate.envs.daihinmin.uecda import server
from afterstate.envs.daihinmin.uecda.seats import Clock, Gone, PlayerSeat, read_table
from afterstate.envs.daihinmin.uecda.settings import ServerSettings
from afterstate.envs.daihinmin.uecda.tables import TABLE_BYTES, read_submission
from tests.support.daihinmin.uecda_peers import (
    SOON,
    RandomPlayer,
    Raw,
    Running,
    honest_play,
    serving,
)


def test_the_clock_gives_the_least_of_three_limits() -> None:
    clock = Clock(reply=3, game=10, match=15)
    assert clock.limit(1) == (3, "within 3 seconds")
    clock.spend(8)
    assert clock.limit(1) == (2, "within the 10 seconds for all answers in this game")
    assert clock.limit(2) == (3, "within 3 seconds")
    clock.spend(6)
    assert clock.limit(3) == (1, "within the 15 seconds for all answers in this match")
    clock.spend(2)
    assert clock.limit(4)[0] == 0


def test_the_time_for_a_match_grows_with_its_games() -> None:
    assert ServerSettings(games=100).client_match_seconds() == 3000
    assert ServerSettings(games=100, match_seconds=7).client_match_seconds() == 7


def slowly(client: Raw, view: Game) -> bytes:
    time.sleep(0.04)
    return honest_play(client, view)


@pytest.mark.parametrize("scope", ["game", "match"])
def test_a_client_that_uses_up_its_time_is_dropped(tmp_path: Path, scope: str) -> None:
    limits: dict[str, Any] = {f"{scope}_seconds": 0.1}
    with serving(tmp_path, built_in=4, games=3, **limits) as match, Raw(match.port, slowly) as slow:
        slow.join("slow")
        with pytest.raises(ConnectionError):
            slow.play_match()
        match.result()
    (event,) = match.events("dropped")
    assert f"within the 0.1 seconds for all answers in this {scope}" in event["why"]
    assert match.replayed().mismatches == 0


class LeavesInGame2(RandomPlayer):
    """A random player whose client breaks down in the second game."""

    def choose(self, view: Game) -> int:
        """Return a random legal play, or fail."""
        if view["number"] == 2:
            raise RuntimeError
        return super().choose(view)


def check_replaced(match: Running, player: int) -> None:
    """Check that a player only passed in its place's second game, if at all."""
    games = match.games()
    assert [game["names"][player] for game in games] == ["c1", "c1", "heir for c1", "heir for c1"]
    for game in games:
        plays = [action["m"] for action in game["actions"] if action["p"] == player]
        assert set(plays) != {"pass"}
    assert match.replayed().mismatches == 0


def test_a_lost_client_is_replaced_in_the_same_action(tmp_path: Path) -> None:
    heirs = [("heir", RandomPlayer(7))]
    with serving(tmp_path, built_in=3, games=4, replacements=heirs) as match:
        lost, stayer = match.join(1, LeavesInGame2(1)), match.join(2)
        with pytest.raises(RuntimeError):
            lost.result(timeout=SOON)
        assert stayer.result(timeout=SOON).games == 4
        standings = match.result()
    ((dropped,), (replaced,)) = match.events("dropped"), match.events("replaced")
    player = dropped["player"]
    assert standings[player].name == "heir for c1"
    assert (replaced["player"], replaced["name"], replaced["by"]) == (player, "c1", "heir")
    assert replaced["game"] == 2
    check_replaced(match, player)


def test_a_late_client_is_replaced_in_the_same_action(tmp_path: Path) -> None:
    def silent(client: Raw, view: Game) -> bytes:
        return b"" if view["number"] == 2 else honest_play(client, view)

    heirs = [("heir", RandomPlayer(7))]
    settings: dict[str, Any] = {"games": 4, "reply_seconds": 0.3, "replacements": heirs}
    with serving(tmp_path, built_in=4, **settings) as match, Raw(match.port, silent) as late:
        assert late.join("c1") == 4
        with pytest.raises(ConnectionError):
            late.play_match()
        match.result()
    check_replaced(match, 4)


def test_lost_clients_without_a_replacement_pass(tmp_path: Path) -> None:
    heirs = [("heir", RandomPlayer(7))]
    with serving(tmp_path, built_in=3, games=4, replacements=heirs) as match:
        lost = [match.join(seed, LeavesInGame2(seed)) for seed in range(2)]
        for each in lost:
            with pytest.raises(RuntimeError):
                each.result(timeout=SOON)
        match.result()
    names = [score.name.startswith("heir") for score in match.result()]
    assert sum(names) == 1
    assert [len(match.events(kind)) for kind in ("dropped", "replaced")] == [2, 1]


def test_metrics_count_connections_answers_and_games(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=3, games=2) as match:
        with Raw(match.port) as stranger:
            stranger.send(bytes(480))
            stranger.rest()
        for each in [match.join(seed) for seed in range(2)]:
            each.result(timeout=SOON)
        match.result()
        actions = [action for game in match.games() for action in game["actions"]]
        gifts = [gift for game in match.games() for gift in game["exchange"]]
    metrics = match.events("metrics")
    assert [each["accepted"] for each in metrics] == [0, 2]
    assert metrics[-1]["refused"] == {"protocol": 1}
    answers = sum(action["p"] > 2 for action in actions)
    answers += sum(gift["from"] > 2 and gift["how"] != "auto" for gift in gifts)
    assert metrics[-1]["answers"] == answers
    assert 0 < metrics[-1]["mean_answer_ms"] <= metrics[-1]["longest_answer_ms"] < 1000 * SOON
    assert (metrics[-1]["games"], metrics[-1]["matches"], metrics[-1]["dropped"]) == (2, 1, 0)


def test_metrics_are_reported_from_time_to_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "METRICS_SECONDS", 0.05)
    with serving(tmp_path, built_in=4) as match:
        assert len(match.events("metrics", 3)) >= 3


def test_matches_follow_one_another(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=3, games=2, matches=3, match="cup") as match:
        for _ in range(3):
            clients = [match.join(seed) for seed in range(2)]
            assert [each.result(timeout=SOON).games for each in clients] == [2, 2]
        match.result()
    assert match.server.matches == 3
    over = match.events("over")
    assert [event["match"] for event in over] == ["cup", "cup-2", "cup-3"]
    assert all(sum(event["points"]) == 30 for event in over)
    games = match.games()
    assert [game["game"] for game in games] == [1, 2] * 3
    assert len({str(game["deal"]) for game in games}) == 6
    assert match.replayed().mismatches == 0


@pytest.mark.parametrize("number", [-1, N_PLAYS])
def test_a_number_that_is_no_play_is_illegal_of_a_player_that_stays(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(RandomPlayer):
        def choose(self, view: Game) -> int:
            return number

    seat = PlayerSeat(Wrong(1), "wrong", 0, lambda name: pytest.fail(f"{name} is gone"))
    game = new_match(1)
    next_game(game)
    answer = asyncio.run(seat.play(game))
    assert not seat.gone and read_submission(answer).play == ILLEGAL
    assert caplog.messages == [f"the player 'wrong' chose {number}, which is no play"]


def test_illegal_numbers_of_a_built_in_player_are_counted(tmp_path: Path) -> None:
    class Wrong(RandomPlayer):
        def choose(self, view: Game) -> int:
            return N_PLAYS

    built_in = [Wrong(i) if i == 2 else RandomPlayer(i) for i in range(N_PLAYERS)]
    with serving(tmp_path, built_in=built_in, games=2) as match:
        match.result()
    actions = [a for game in match.games() for a in game["actions"] if a["p"] == 2]
    illegal = [event["illegal"] for event in match.events("game")]
    assert sum(each[2] for each in illegal) == len(actions) > 0
    assert match.replayed().mismatches == 0


def test_a_stop_between_two_matches_loses_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is stopped while the players of the first match still read."""
    calls = count()

    async def close(*_: Any) -> None:
        if next(calls) < N_PLAYERS:
            await asyncio.sleep(SOON)

    monkeypatch.setattr(PlayerSeat, "close", close)
    with serving(tmp_path, built_in=N_PLAYERS, games=1, matches=2, match="cup") as match:
        match.events("metrics", 2)  # the second one is written before the first match is closed
        match.stop()
        with pytest.raises(asyncio.CancelledError):
            match.result()
    assert [event["match"] for event in match.events("over")] == ["cup", "cup-2"]


@pytest.mark.parametrize("n_bytes", [TABLE_BYTES, TABLE_BYTES - 1])
def test_a_table_in_time_counts_although_the_server_was_busy(n_bytes: int) -> None:
    async def play() -> Any:
        ours, its = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        waiting = asyncio.ensure_future(read_table(reader, writer, 0.2, "within 0.2 seconds"))
        await asyncio.sleep(0)
        its.sendall(bytes(n_bytes))
        time.sleep(0.4)  # the loop is busy beyond the limit
        try:
            return await waiting
        finally:
            writer.close()
            its.close()

    if n_bytes == TABLE_BYTES:
        assert not np.any(asyncio.run(play()))
    else:
        with pytest.raises(Gone, match=r"479 of the 480 bytes .* within 0\.2 seconds"):
            asyncio.run(play())
