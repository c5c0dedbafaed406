"""Connections without a seat: crowds keep nobody out, limits hold, and the refused get a reason."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from afterstate.envs.daihinmin.uecda import client, journal, lobby, server, tables
from afterstate.envs.daihinmin.uecda.client_view import ClientView
from afterstate.envs.daihinmin.uecda.tables import RefusalCode
from tests.support.daihinmin.uecda_peers import SOON, RandomPlayer, Raw, Running, serving

OTHER = "127.0.0.2"


class Crowd:
    """Makes silent connections, and closes them."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []

    def __call__(self, match: Running, n: int, host: str = OTHER) -> list[socket.socket]:
        """Return silent connections of an address."""
        for _ in range(n):
            connection = socket.create_connection(("127.0.0.1", match.port), SOON, (host, 0))
            self._open.append(connection)
        return self._open[len(self._open) - n :]

    def close(self, newest: int = 0) -> None:
        """Close all connections but the newest ones."""
        while len(self._open) > newest:
            self._open.pop(0).close()

    def reset(self) -> None:
        """Close all connections by a reset."""
        for each in self._open:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    """A source of silent connections, which are closed at the end."""
    source = Crowd()
    yield source
    source.close()


def is_closed(connection: socket.socket, seconds: float = SOON) -> bool:
    """Return True if the server closes a connection within a time."""
    connection.settimeout(seconds)
    try:
        while connection.recv(100):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize("before", [0, 10, 20])
def test_a_burst_does_not_evict_a_client_that_sent_its_profile(
    crowd: Crowd, tmp_path: Path, before: int
) -> None:
    with serving(tmp_path, built_in=4, games=1) as match:
        match.block(0.3)
        crowd(match, before, "127.0.0.1")
        with Raw(match.port) as good:
            good.send(tables.to_bytes(tables.profile_table("good")))
            crowd(match, 60 - before, "127.0.0.1")
            assert good.connection.number("number", range(5)) == 4
            good.client_view = ClientView(4)
            good.play_match()
    assert [event["name"] for event in match.events("connected")] == ["good"]


@contextmanager
def bursts(match: Running, crowd: Crowd, size: int, seconds: float) -> Iterator[None]:
    """Open bursts of silent connections in another thread, one after the other."""
    stop = threading.Event()

    def attack() -> None:
        with suppress(ConnectionError):  # when the match is over
            while not stop.wait(seconds):
                match.block(0.01)
                crowd(match, size)
                crowd.close(size)

    attacking = match.spawn(attack)
    try:
        yield
    finally:
        stop.set()
        attacking.result(timeout=SOON)


@pytest.mark.slow
def test_bursts_keep_no_client_of_another_address_from_a_seat(crowd: Crowd, tmp_path: Path) -> None:
    with serving(tmp_path, built_in=3, games=1) as match, bursts(match, crowd, 40, 0.004):
        time.sleep(0.2)
        start = time.monotonic()
        clients = [match.join(seed) for seed in range(2)]
        match.events("connected", 2)
        assert time.monotonic() - start < 3
        assert [each.result(timeout=SOON).games for each in clients] == [1, 1]
        match.result()


def test_a_silent_client_keeps_its_place_for_a_moment(
    crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lobby, "PATIENCE_SECONDS", SOON)
    with serving(tmp_path, built_in=4, games=1, connections_per_address=1) as match:
        with Raw(match.port) as slow:
            crowd(match, 5, "127.0.0.1")
            assert slow.join() == 4
            slow.play_match()


def test_an_address_has_a_limit_of_silent_connections(crowd: Crowd, tmp_path: Path) -> None:
    with serving(tmp_path, built_in=4, connections_per_address=3, handshake_seconds=SOON) as match:
        stranger = crowd(match, 1, "127.0.0.3")
        first = crowd(match, 3)
        time.sleep(lobby.PATIENCE_SECONDS + 0.05)
        later = crowd(match, 2)
        assert is_closed(first[0]) and is_closed(first[1])
        assert not any(is_closed(each, 0.05) for each in [*first[2:], *later, *stranger])
        assert [event["reason"] for event in match.events("refused", 2)[:2]] == ["crowd", "crowd"]


def test_a_full_lobby_takes_places_from_the_address_with_most(
    crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lobby, "PATIENCE_SECONDS", SOON)
    with serving(tmp_path, built_in=4, games=1, connections=4, handshake_seconds=SOON) as match:
        many = crowd(match, 4)
        (last,) = crowd(match, 1)
        assert is_closed(last)  # its address has most, and none has been silent for a moment
        (stranger,) = crowd(match, 1, "127.0.0.3")
        assert is_closed(many[0])
        assert not any(is_closed(each, 0.05) for each in [*many[1:], stranger])
        with Raw(match.port) as good:
            assert good.join() == 4
            good.play_match()


def test_an_address_has_a_limit_of_seats(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=2, games=1, seats_per_address=2) as match:
        with Raw(match.port, host=OTHER) as first, Raw(match.port, host=OTHER) as second:
            assert (first.join(), second.join()) == (2, 3)
            with Raw(match.port, host=OTHER) as third:
                third.send(tables.to_bytes(tables.profile_table("third")))
                assert third.rest() == tables.int_to_bytes(RefusalCode.ADDRESS)
            playing = [match.spawn(each.play_match) for each in (first, second)]
            match.join(1).result(timeout=SOON)
            for each in playing:
                each.result(timeout=SOON)
    (refused,) = match.events("refused")
    assert (refused["reason"], refused["address"].split(":")[0]) == ("address", OTHER)


def test_a_flood_of_profiles_takes_no_seat(
    crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Honest clients of other addresses, also two of one address, get theirs within a second."""
    monkeypatch.setattr(lobby, "ARRIVAL_SECONDS", 20)  # a busy machine makes a slow flood
    settings: dict[str, Any] = {"games": 1, "sharing_seconds": 0.3, "reply_seconds": 0.5}
    with serving(tmp_path, built_in=2, **settings) as match:
        profile = tables.to_bytes(tables.profile_table("flood"))
        crowd(match, lobby.MAX_ARRIVALS + 1)
        time.sleep(0.3)  # its first profiles would get a seat
        for each in crowd(match, 20):
            each.send(profile)
        time.sleep(0.1)
        start = time.monotonic()
        playing = [match.join(seed) for seed in range(2)]
        with Raw(match.port, host="127.0.0.3") as third:
            third.join("third")
            match.events("connected", 3)
            assert time.monotonic() - start < 2
            third.play_match()
        for joined in playing:
            joined.result(timeout=SOON)
    names = [event["name"] for event in match.events("connected")]
    assert sorted(names) == ["c0", "c1", "third"]
    assert match.events("metrics")[-1]["refused"]["address"] == 20


def enter(crowd: Crowd, match: Running, host: str, has_profile: bool = False) -> socket.socket:
    """Return a connection of an address, which sends its profile or is silent."""
    (connection,) = crowd(match, 1, host)
    if has_profile:
        connection.sendall(tables.to_bytes(tables.profile_table("crowd")))
    return connection


def wait_for_seating(match: Running, n: int) -> None:
    """Wait until some clients wait for a seat."""
    deadline = time.monotonic() + SOON
    while len(match.server._seating) < n and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(match.server._seating) == n


def is_refused(connection: socket.socket) -> bool:
    """Return True if the server refuses a client because of a crowd."""
    data = connection.recv(4)
    return data == tables.int_to_bytes(RefusalCode.CROWD) and is_closed(connection)


@pytest.mark.parametrize("seats", [1, 5])
def test_an_address_has_a_limit_of_clients_that_wait_for_a_seat(
    crowd: Crowd, tmp_path: Path, seats: int
) -> None:
    """The rest is refused immediately; a client of another address gets its seat."""
    most = seats + lobby.SPARE_CLIENTS
    settings: dict[str, Any] = {"sharing_seconds": SOON, "seats_per_address": seats}
    with serving(tmp_path, built_in=3, games=1, **settings) as match:
        match.block(0.2)
        for _ in range(most + 20):
            enter(crowd, match, OTHER, has_profile=True)
        refused = match.events("refused", 20)
        assert {event["reason"] for event in refused} == {"address"}
        assert len(refused) == 20 and len(match.server._seating) <= most
        with Raw(match.port) as stranger:
            assert stranger.join() in (3, 4)


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_client_that_hangs_up_does_not_wait_for_a_seat(
    crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_reset: bool
) -> None:
    """Clients that hang up again and again do not use up the places of their address."""
    monkeypatch.setattr(lobby, "SPARE_CLIENTS", 0)
    with serving(tmp_path, built_in=4, games=1, sharing_seconds=SOON, seats_per_address=1) as match:
        monkeypatch.setattr(server, "WATCH_SECONDS", SOON)
        enter(crowd, match, OTHER, has_profile=True)
        wait_for_seating(match, 1)
        if is_reset:
            crowd.reset()
        else:
            crowd.close()
        assert match.events("refused", 1)[0]["why"] == "hung up before it got a seat"
        monkeypatch.setattr(server, "WATCH_SECONDS", 0.1)
        with Raw(match.port, host=OTHER) as good:
            assert good.join() == 4
            good.play_match()


def test_clients_that_wait_for_a_seat_count_as_connections(
    crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent connection makes room for a client with a profile, but no such client does."""
    monkeypatch.setattr(server, "WATCH_SECONDS", SOON)
    with serving(tmp_path, connections=3, handshake_seconds=SOON) as match:
        seated = [enter(crowd, match, f"127.0.0.{n}", has_profile=True) for n in (2, 3)]
        wait_for_seating(match, 2)
        silent = enter(crowd, match, "127.0.0.4")
        assert not is_closed(silent, 0.05)
        seated.append(enter(crowd, match, "127.0.0.5", has_profile=True))
        assert is_refused(silent)
        wait_for_seating(match, 3)
        assert is_refused(enter(crowd, match, "127.0.0.6"))
        assert is_refused(enter(crowd, match, "127.0.0.7", has_profile=True))
        assert not any(is_closed(each, 0.05) for each in seated)


@pytest.mark.slow
def test_a_flood_that_pauses_takes_no_seat(
    crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lobby, "ARRIVAL_SECONDS", 2)  # a slow machine makes a slow flood
    with serving(tmp_path, built_in=4, games=1) as match:
        crowd(match, lobby.MAX_ARRIVALS + 1)
        time.sleep(3)  # longer than a period
        with Raw(match.port, host=OTHER) as early:
            early.send(tables.to_bytes(tables.profile_table("early")))
            assert early.rest() == tables.int_to_bytes(RefusalCode.ADDRESS)
        time.sleep(lobby.FLOOD_SECONDS + 1)
        with Raw(match.port, host=OTHER) as late:
            assert late.join() == 4
            late.play_match()


def test_a_refused_client_names_the_reason(tmp_path: Path) -> None:
    with serving(tmp_path, built_in=5, games=10**6) as match:
        for _ in range(20):
            with pytest.raises(ConnectionError, match="refused the client: all seats are taken"):
                client.play_match(("127.0.0.1", match.port), RandomPlayer(0), "late", SOON)


def test_an_old_client_that_is_refused_finds_the_end_of_the_stream(tmp_path: Path) -> None:
    """The sample client takes any number, and ends when it reads no start table after it."""
    with serving(tmp_path, built_in=5, games=10**6) as match, Raw(match.port) as old:
        old.send(tables.to_bytes(tables.profile_table("old")))
        assert int.from_bytes(old.socket.recv(4), "big", signed=True) == RefusalCode.FULL
        assert old.socket.recv(480) == b""


def test_events_about_strangers_are_limited_but_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_VISITS", 10)
    with serving(tmp_path, built_in=4, games=1) as match:
        for each in range(30):
            with Raw(match.port) as stranger:
                stranger.send(bytes(480))
                assert stranger.rest() == tables.int_to_bytes(RefusalCode.PROTOCOL), each
        match.join(1).result(timeout=SOON)
        match.result()
    assert len(match.events("refused")) == 10
    assert match.events("metrics")[-1]["refused"] == {"protocol": 30}


def test_the_lobby_survives_a_lack_of_file_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, failures = socket.socket.accept, [OSError(24, "Too many open files")] * 3

    def failing(listener: socket.socket) -> tuple[socket.socket, tuple[str, int]]:
        if failures:
            raise failures.pop()
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", failing)
    with serving(tmp_path, built_in=4, games=1) as match:
        assert match.join(1).result(timeout=SOON).games == 1
        match.result()
    assert len(match.events("paused")) == 3
