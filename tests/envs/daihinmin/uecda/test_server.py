"""The server plays matches to their end with correct, slow, silent and malformed clients."""

from __future__ import annotations

import logging
import re
import socket
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Condition
from typing import Any

import pytest

from afterstate import agents
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.rules import Game
from afterstate.envs.daihinmin.uecda import seats, server, tables
from afterstate.envs.daihinmin.uecda.settings import ServerSettings
from afterstate.envs.daihinmin.uecda.tables import RefusalCode
from tests.support.daihinmin.uecda_peers import (
    SOON,
    Answer,
    RandomPlayer,
    Raw,
    Running,
    honest_play,
    serving,
)


def check_result(match: Running, games: int) -> None:
    """Check that a match was played to its end and that its log agrees with rules and result."""
    standings, report = match.result(), match.replayed()
    assert report.first == ""
    assert (report.games, report.mismatches) == (games, 0)
    places = [game["finish"] for game in match.games()]
    points = [sum(5 - finish.index(player) for finish in places) for player in range(5)]
    assert [score.points for score in standings] == points
    over = match.events("over")
    assert [(event["games"], event["points"]) for event in over] == [(games, points)]


def refusals(match: Running, n: int = 0) -> list[str]:
    """Return the reasons of refusals, once there are `n`."""
    return [event["why"] for event in match.events("refused", n)]


def drops(match: Running, n: int = 0) -> list[tuple[int, int, str]]:
    """Return player, game and reason of drops, once there are `n`."""
    return [(event["player"], event["game"], event["why"]) for event in match.events("dropped", n)]


def passes_from(match: Running, player: int, first: int = 1) -> bool:
    """Return True if a player only passes from a game on."""
    actions = [action for game in match.games()[first - 1 :] for action in game["actions"]]
    return {action["m"] for action in actions if action["p"] == player} == {"pass"}


def test_five_clients_play_a_match(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path, games=10, match="five") as match:
        clients = [match.join(seed) for seed in range(5)]
        results = [client.result(timeout=SOON) for client in clients]
        check_result(match, games=10)
    assert sorted(result.player for result in results) == [0, 1, 2, 3, 4]
    names = [score.name for score in match.result()]
    assert sorted(names) == ["c0", "c1", "c2", "c3", "c4"]
    connected = match.events("connected")
    assert [event["player"] for event in connected] == [0, 1, 2, 3, 4]
    assert [event["name"] for event in connected] == names
    assert all(game["names"] == names and game["match"] == "five" for game in match.games())
    assert drops(match) == []
    assert refusals(match) == []
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


def test_built_in_players_play_a_repeatable_match(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=5, games=4) as match:
        check_result(match, games=4)
    first = match.games()
    (tmp_path / "again").mkdir()
    with serving(tmp_path / "again", built_in=5, games=4) as match:
        check_result(match, games=4)
    assert [game["actions"] for game in match.games()] == [game["actions"] for game in first]


def test_names_are_shortened_and_cleaned(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=3, games=1) as match:
        with Raw(match.port) as first, Raw(match.port) as second:
            assert (first.join("twins\x07and more"), second.join("")) == (3, 4)
            both = match.spawn(first.play_match), match.spawn(second.play_match)
            assert [len(future.result(timeout=SOON)) for future in both] == [5, 5]
        assert [score.name for score in match.result()][3:] == ["twins?and", "unnamed"]


def test_a_slow_client_that_answers_in_time_is_not_dropped(tmp_path: Path) -> None:
    def in_pieces(client: Raw, view: Game) -> bytes:
        data = honest_play(client, view)
        for at in range(0, 480, 160):
            client.send(data[at : at + 160])
            time.sleep(0.002)
        return b""

    with serving(tmp_path, built_in=4, games=2) as match, Raw(match.port, in_pieces) as slow:
        slow.join()
        slow.play_match()
        check_result(match, games=2)
        assert drops(match) == []


def test_all_clients_get_their_messages_while_one_thinks(tmp_path: Path) -> None:
    received: set[tuple[int, int]] = set()
    change = Condition()

    def think(client: Raw, view: Game) -> bytes:
        with change:
            now = int(view["number"]), int(view["n_actions"])
            assert change.wait_for(lambda: now in received, SOON)
        return honest_play(client, view)

    def listen() -> None:
        view = listener.client_view.view
        with change:
            received.add((int(view["number"]), int(view["n_actions"])))
            change.notify_all()

    with serving(tmp_path, built_in=3, games=2) as match:
        with Raw(match.port, think) as thinker, Raw(match.port, watch=listen) as listener:
            thinker.join()
            listener.join()
            both = match.spawn(thinker.play_match), match.spawn(listener.play_match)
            assert both[0].result(timeout=SOON) == both[1].result(timeout=SOON)
        check_result(match, games=2)


def profile(version: int) -> bytes:
    """Return a profile of a version of the protocol."""
    table = tables.profile_table("other")
    table[0, 0] = version
    return tables.to_bytes(table)


def test_clients_of_other_protocols_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=4, games=1) as match:
        for data in (profile(20060), profile(20140), b"GET / HTTP/1.1\r\n" * 30):
            with Raw(match.port) as stranger:
                stranger.send(data)
                assert stranger.rest() == tables.int_to_bytes(RefusalCode.PROTOCOL)
        match.join(1).result(timeout=SOON)
        check_result(match, games=1)
    for version, why in zip((20060, 20140, 1195725856), refusals(match), strict=True):
        assert why.startswith(f"asked for protocol {version}; ")


def test_clients_without_a_profile_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=4, games=1, handshake_seconds=0.5) as match:
        with Raw(match.port), Raw(match.port) as half, Raw(match.port) as gone:
            half.send(profile(20070)[:479])
            gone.send(profile(20070)[:240])
            gone.socket.shutdown(socket.SHUT_WR)
            assert half.rest() == tables.int_to_bytes(RefusalCode.NO_PROFILE)
            assert gone.is_cut()
            reasons = refusals(match, 3)
    for part in ("sent 0 of", "sent 479 of", "hung up after 240 of"):
        assert sum(why.startswith(part) for why in reasons) == 1


def test_a_silent_connection_does_not_delay_other_clients(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=3, games=2, handshake_seconds=SOON) as match:
        with Raw(match.port):
            clients = [match.join(seed) for seed in range(2)]
            assert [client.result(timeout=SOON).games for client in clients] == [2, 2]
            check_result(match, games=2)


def test_the_sixth_client_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=4, games=1) as match, Raw(match.port) as fifth:
        assert fifth.join() == 4
        with Raw(match.port) as sixth:
            assert sixth.rest() == tables.int_to_bytes(RefusalCode.FULL)
        fifth.play_match()
        check_result(match, games=1)
    assert refusals(match) == ["came when all seats were taken"]


@pytest.mark.parametrize("n_bytes", [0, 1, 1920, 1921, 3841, 100_000])
def test_a_number_is_free_again_if_its_client_hangs_up_before_the_match(
    tmp_path: Path, n_bytes: int
) -> None:
    with serving(tmp_path, built_in=3, games=1) as match:
        with Raw(match.port) as early:
            assert early.join("early") == 3
            early.socket.sendall(bytes(n_bytes))
        clients = [match.join(seed) for seed in range(2)]
        assert sorted(client.result(timeout=SOON).player for client in clients) == [3, 4]
        check_result(match, games=1)
    ((player, game, why),) = drops(match)
    assert (player, game) == (3, 0) and ("hung up" in why or "more than 1,920 bytes" in why)


def test_waiting_for_players_has_a_time_limit(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=4, wait_seconds=0.2) as match:
        with pytest.raises(TimeoutError, match="players"):
            match.result()


class HangsUp(Exception):
    """Raised by a client that leaves."""


def half_a_table(client: Raw, view: Game) -> bytes:
    return bytes(240)


def nothing(client: Raw, view: Game) -> bytes:
    return b""


def trickle(client: Raw, view: Game) -> bytes:
    for _ in range(479):
        client.send(b"\0")
        time.sleep(0.01)
    return b""


def leave(*_: object) -> bytes:
    raise HangsUp


def leave_in_table(client: Raw, view: Game) -> bytes:
    client.send(bytes(100))
    raise HangsUp


def watch_and_leave() -> None:
    raise HangsUp


@pytest.mark.parametrize(
    ("answer", "why"),
    [(nothing, "sent 0 of"), (half_a_table, "sent 240 of"), (trickle, r"sent \d+ of")],
)
def test_a_client_that_does_not_answer_is_dropped(tmp_path: Path, answer: Answer, why: str) -> None:
    with serving(tmp_path, built_in=4, games=3, reply_seconds=0.5) as match:
        with Raw(match.port, answer) as late:
            assert late.join("late") == 4
            with pytest.raises(ConnectionError):
                late.play_match()
        check_result(match, games=3)
    (event,) = match.events("dropped")
    assert (event["player"], event["name"], event["game"]) == (4, "late", 1)
    assert re.match(why, event["why"])
    assert passes_from(match, 4)


@pytest.mark.parametrize(
    ("habits", "games"),
    [
        ({"play": leave}, 2),
        ({"play": leave_in_table}, 2),
        ({"watch": watch_and_leave}, 2),
        ({"gift": leave}, 12),
    ],
)
def test_a_client_that_hangs_up_is_dropped(
    tmp_path: Path, habits: dict[str, Any], games: int
) -> None:
    with serving(tmp_path, built_in=3, games=games) as match:
        with Raw(match.port, **habits) as leaver:
            assert leaver.join() == 3
            stayer = match.join(1)
            with pytest.raises(HangsUp):
                leaver.play_match()
        assert stayer.result(timeout=SOON).games == games
        check_result(match, games=games)
    ((player, game, why),) = drops(match)
    assert (player, why.startswith("hung up")) == (3, True)
    assert passes_from(match, 3, game + 1)
    gifts = match.games()[game - 1]["exchange"]
    penalties = [gift["from"] for gift in gifts if gift["how"] == "penalty"]
    assert penalties == ([3] if "gift" in habits else [])


def test_a_client_that_hangs_up_before_its_first_table_is_dropped(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=3, games=2) as match:
        with Raw(match.port) as leaver:
            assert leaver.join() == 3
            stayer = match.join(1)
            leaver.connection.table()
        assert stayer.result(timeout=SOON).games == 2
        check_result(match, games=2)
    ((player, _, why),) = drops(match)
    assert (player, why.startswith("hung up")) == (3, True)


def test_the_match_ends_when_all_clients_have_left(tmp_path: Path) -> None:
    def play_and_leave(client: Raw) -> None:
        with client, pytest.raises((HangsUp, ConnectionError)):
            client.play_match()

    with serving(tmp_path, games=50) as match:
        clients = [Raw(match.port, leave, seed=seed) for seed in range(5)]
        for client in clients:
            client.join()
        leaving = [match.spawn(partial(play_and_leave, client)) for client in clients]
        for one in leaving:
            one.result(timeout=SOON)
        check_result(match, games=1)
    assert {player for player, _, _ in drops(match)} == {0, 1, 2, 3, 4}


def cards_not_held(client: Raw, view: Game) -> bytes:
    missing = cards.DECK & ~int(view["hands"][view["viewer"]])
    card = (missing & -missing).bit_length() - 1
    wrong = [
        tables.play_table(plays.single(card)),
        tables.gift_table(cards.parse("S3 H4 JO")),
        tables.play_table(plays.parse("JO=S- S3 S4 S5 S6 S7 S8")),
    ]
    return tables.to_bytes(client.player.random.choice(wrong))


def garbage(client: Raw, view: Game) -> bytes:
    return client.player.random.randbytes(480)


@pytest.mark.parametrize("answer", [cards_not_held, garbage])
def test_illegal_plays_and_garbage_count_as_passes(tmp_path: Path, answer: Answer) -> None:
    with serving(tmp_path, built_in=3, games=3) as match:
        with Raw(match.port, answer) as fool:
            assert fool.join() == 3
            stayer = match.join(1)
            fool.play_match()
        assert stayer.result(timeout=SOON).games == 3
        check_result(match, games=3)
    assert drops(match) == []
    actions = [a for game in match.games() for a in game["actions"] if a["p"] == 3]
    assert {action["ack"] for action in actions} == {8}
    refused = sum(event["illegal"][3] for event in match.events("game"))
    assert refused == sum(action["m"] != "pass" for action in actions) > 0


def a_card_too_many(client: Raw, view: Game) -> bytes:
    given = client.player.give(view, int(view["to_give"]) + 1)
    return tables.to_bytes(tables.gift_table(given))


def gift_not_held(client: Raw, view: Game) -> bytes:
    missing = cards.DECK & ~int(view["hands"][view["viewer"]])
    return tables.to_bytes(tables.gift_table(int(cards.weakest(missing, view["to_give"]))))


def no_gift(client: Raw, view: Game) -> bytes:
    return bytes(480)


@pytest.mark.parametrize("gift", [a_card_too_many, gift_not_held, no_gift, garbage])
def test_a_wrong_gift_is_punished(tmp_path: Path, gift: Answer) -> None:
    with serving(tmp_path, built_in=4, games=8) as match:
        with Raw(match.port, gift=gift) as giver:
            giver.join()
            giver.play_match()
        check_result(match, games=8)
    gifts = [gift for game in match.games() for gift in game["exchange"] if gift["from"] == 4]
    assert {gift["how"] for gift in gifts} == {"auto", "penalty"}
    assert drops(match) == []


@pytest.mark.slow
def test_a_lone_joker_may_be_in_any_cell(tmp_path: Path) -> None:
    columns = set()

    def joker_in_c6(client: Raw, view: Game) -> bytes:
        if view["field"] == plays.PASS and view["hands"][view["viewer"]] >> cards.JOKER:
            return tables.to_bytes(tables.play_table(plays.LONE_JOKER, (3, 4)))
        return honest_play(client, view)

    def look(client: Raw, view: Game) -> bytes:
        if view["field"] == plays.LONE_JOKER:
            columns.add(int(view["joker_column"]))
        return honest_play(client, view)

    built_in = [RandomPlayer(100), RandomPlayer(101), agents.make("daihinmin-sample")]
    with serving(tmp_path, built_in=built_in, games=12, seed=3) as match:
        with Raw(match.port, joker_in_c6) as odd, Raw(match.port, look) as looker:
            odd.join()
            looker.join()
            both = match.spawn(odd.play_match), match.spawn(looker.play_match)
            assert both[0].result(timeout=SOON) == both[1].result(timeout=SOON)
        check_result(match, games=12)
    assert 4 in columns
    assert drops(match) == []


def flood(client: Raw) -> None:
    with suppress(OSError):
        while True:
            client.send(bytes(48_000))


def test_a_flood_is_not_read(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=4, games=3) as match:
        with Raw(match.port) as client:
            client.join()
            flooding = match.spawn(partial(flood, client))
            assert client.is_cut()
            check_result(match, games=3)
            client.socket.close()
            flooding.result(timeout=SOON)
    assert passes_from(match, 4)


def test_streams_of_clients_are_limited_and_not_delayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, without_delay = [], []

    async def open_stream(connection: socket.socket) -> Any:
        without_delay.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        reader, writer = await seats.open_stream(connection)
        limits.append(reader._limit)  # type: ignore[attr-defined]
        return reader, writer

    monkeypatch.setattr(server, "open_stream", open_stream)
    with serving(tmp_path, built_in=4, games=1) as match:
        match.join(1).result(timeout=SOON)
    assert without_delay == [1]
    assert limits == [seats.MAX_EARLY] and seats.MAX_EARLY <= 4 * tables.TABLE_BYTES


@pytest.mark.slow
def test_a_client_that_does_not_read_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seats, "MAX_UNREAD", 1000)
    with serving(tmp_path, built_in=4, games=10**6) as match:
        with Raw(match.port) as deaf:
            deaf.join()
            match.spawn(partial(flood, deaf)).result(timeout=SOON)
            ((player, _, why),) = drops(match, 1)
    assert (player, why) == (4, "left 1,000 bytes unread")
    assert match.replayed().mismatches == 0


@pytest.mark.parametrize("answer", [None, 0.5, "S3"])
def test_a_failing_built_in_player_passes_from_then_on(
    tmp_path: Path, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(RandomPlayer):
        def choose(self, view: Game) -> int:
            return answer if view["number"] == 2 else super().choose(view)

    built_in = [Broken(i) if i == 2 else RandomPlayer(i) for i in range(5)]
    with serving(tmp_path, games=3, built_in=built_in) as match:
        check_result(match, games=3)
    ((player, game, why),) = drops(match)
    assert (player, game, why[:7]) == (2, 2, "raised ")
    assert {a["m"] for a in match.games()[2]["actions"] if a["p"] == 2} == {"pass"}
    assert f"must return an integer, got {answer!r}" in caplog.text
    assert "Traceback" not in caplog.text  # the player itself raised nothing


def test_the_default_address_is_loopback(tmp_path: Path) -> None:
    assert ServerSettings().host == "127.0.0.1"
    with serving(tmp_path) as match:
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.2", match.port), 1)
        socket.create_connection(("127.0.0.1", match.port), SOON).close()
        assert refusals(match, 1)
