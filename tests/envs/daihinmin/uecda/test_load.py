"""A server under a flood of connections, and over many matches, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from afterstate.envs.daihinmin.records.replay import replay
from afterstate.envs.daihinmin.uecda import tables
from afterstate.envs.daihinmin.uecda.client_view import ClientView
from afterstate.envs.daihinmin.uecda.tables import ProtocolError, RefusalCode
from tests.support.daihinmin import connection_flood
from tests.support.daihinmin.uecda_peers import SOON, Raw
from tests.support.daihinmin.uecda_server import Serving, serving_command
from tests.support.memory import resident

FLOODER, VISITORS = "127.0.0.2", ("127.0.0.1", "127.0.0.3")
RATE = 1000
"""Connections per second."""


@contextmanager
def flooding(port: int, seconds: float, share: float) -> Iterator[subprocess.Popen[str]]:
    """Run a flood of connections in another process."""
    words = [connection_flood.__file__, str(port), str(seconds), str(RATE), FLOODER, str(share)]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


class Visitor:
    """An honest client that plays one match after the other until the server ends.

    Attributes:
        joined: seconds from the first connection to a number, by match; a client that finds all
            seats taken tries again.
        played: seconds of whole matches.
    """

    def __init__(self, port: int, host: str) -> None:
        self.joined: list[float] = []
        self.played: list[float] = []
        self.is_over = threading.Event()
        self._port, self._host = port, host

    def play(self) -> None:
        """Play whole matches until the server ends."""
        first = time.monotonic()
        while not self.is_over.is_set():
            try:
                if self._play_match(first):
                    first = time.monotonic()
                else:
                    time.sleep(0.01)
            except (OSError, ProtocolError):
                if not self.is_over.is_set():
                    self.is_over.set()
                    raise

    def _play_match(self, first: float) -> bool:
        """Play a match; return False if all seats are taken."""
        with Raw(self._port, host=self._host) as client:
            client.connection.send(tables.profile_table(f"v{self._host[-1]}"))
            number = client.connection.number("number", [*range(5), RefusalCode.FULL])
            if number == RefusalCode.FULL:
                return False
            seated = time.monotonic()
            self.joined.append(seated - first)
            client.client_view = ClientView(number)
            client.play_match()
            self.played.append(time.monotonic() - seated)
        return True


@contextmanager
def visiting(server: Serving, hosts: Sequence[str] = VISITORS) -> Iterator[list[Visitor]]:
    """Let honest clients play until the server ends, which is at the end of the context."""
    visitors = [Visitor(server.port, host) for host in hosts]
    with ThreadPoolExecutor(len(hosts)) as pool:
        playing = [pool.submit(each.play) for each in visitors]
        try:
            yield visitors
        finally:
            for each in visitors:
                each.is_over.set()
            server.stop()
        for future in playing:
            future.result(timeout=SOON)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "share"),
    [
        *((4, 0.05), (4, 0.2), (4, 1)),
        *(pytest.param(60, share, marks=pytest.mark.exhaustive) for share in (0.05, 0.2, 1)),
    ],
)
def test_a_flood_of_connections_keeps_nobody_from_playing(
    tmp_path: Path, seconds: int, share: float
) -> None:
    """Seated clients play on, and honest newcomers soon get a seat.

    The flood gets no seat, whatever share of it sends profiles.
    """
    options = "--matches 0 --games 2".split()
    with serving_command(tmp_path, 3, *options) as server:
        with flooding(server.port, seconds, share) as flood, visiting(server) as visitors:
            opened = int(flood.communicate(timeout=seconds + SOON)[0])
        metrics = server.events("metrics")[-1]
        lost = {event["name"] for event in server.events("dropped")}
    most = 1 if seconds == 60 else 2  # the short one shares the machine with other tests
    assert opened > 0.8 * RATE * seconds
    for visitor in visitors:
        assert len(visitor.played) > seconds / 2
        assert max(visitor.joined) < most  # 0.105 s on a quiet machine
        assert max(visitor.played) < 5
    assert not lost
    assert metrics["accepted"] + sum(metrics["refused"].values()) > 0.8 * opened
    print(f"{opened:,} connections, {metrics}")
    print(f"longest join {max(max(each.joined) for each in visitors):.3f} s")
    assert replay(tmp_path / "games.jsonl").mismatches == 0


@pytest.mark.slow
def test_five_clients_of_one_address_that_keep_trying_play_all_matches(tmp_path: Path) -> None:
    with serving_command(
        tmp_path, 0, *"--matches 0 --games 2 --sharing-seconds 0.1".split()
    ) as server:
        with visiting(server, ["127.0.0.1"] * 5) as visitors:
            wait_for_matches(server, visitors, 4)
    assert min(len(each.played) for each in visitors) >= 4


def wait_for_matches(server: Serving, visitors: list[Visitor], n: int) -> None:
    """Wait until some matches are over."""
    deadline = time.monotonic() + 600
    while len(server.events("over")) < n:
        assert not any(each.is_over.is_set() for each in visitors)
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.parametrize(
    ("n", "n_games"),
    [
        pytest.param(100, 1, marks=pytest.mark.slow),
        pytest.param(1000, 3, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system has no /proc")
def test_memory_does_not_grow_over_many_matches(tmp_path: Path, n: int, n_games: int) -> None:
    """The first 200 matches fill caches; a thousand more may add 2 MiB."""
    with serving_command(tmp_path, 3, *f"--matches 0 --games {n_games}".split()) as server:
        with visiting(server) as visitors:
            wait_for_matches(server, visitors, 200)
            before = resident(server.process.pid) / 2**20
            wait_for_matches(server, visitors, 200 + n)
            growth = resident(server.process.pid) / 2**20 - before
    print(f"{before:.1f} MiB after 200 matches, {growth:+.2f} MiB after {n:,} more")
    assert growth < 2
