"""Fuzz targets of the network protocol: hostile clients, hostile servers, and damaged tables.

Each target takes a random generator, makes one attack with it, and raises if server or client
crashes, hangs, or plays a game that the rules do not allow. The same generator makes the same
attack, but for the times at which bytes arrive.
"""

from __future__ import annotations

import random
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.plays import N_PLAYS
from afterstate.envs.daihinmin.rules import GAME, Game, advance, lay, rewind, skip
from afterstate.envs.daihinmin.uecda import tables
from afterstate.envs.daihinmin.uecda.client import Result, play_match
from afterstate.envs.daihinmin.uecda.client_view import ClientView
from afterstate.envs.daihinmin.uecda.tables import ProtocolError
from tests.fuzz.mutations import flip_bits
from tests.support.daihinmin.uecda_peers import RandomPlayer, Raw, Running, serving

LIMIT = 0.5
"""Time limit of server and client for each message, in seconds."""
DEADLINE = 30.0
"""Time after which an attack counts as a hang, in seconds."""
NUMBERS = [*range(-7, 16), 20060, 20070, 20140, 2**31 - 1, -(2**31), 1 << 24]

Blocks = list[bytes]
"""Messages in the order in which they are sent; b"" is a pause."""


def change_number(data: bytes, rng: random.Random) -> bytes:
    """Return data with another number at a random place."""
    at = 4 * rng.randrange(max(len(data) // 4, 1))
    return data[:at] + struct.pack(">i", rng.choice(NUMBERS)) + data[at + 4 :]


def cut(data: bytes, rng: random.Random) -> bytes:
    """Return data without a range of it."""
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.choice((1, 4, 480, rng.randrange(1, 500))) :]


def insert(data: bytes, rng: random.Random) -> bytes:
    """Return data with random or equal bytes inserted."""
    at, n = rng.randrange(len(data) + 1), rng.choice((1, 4, 60, 480, 5000))
    return data[:at] + rng.choice((rng.randbytes(n), bytes(n), b"\xff" * n)) + data[at:]


def swap_cells(data: bytes, rng: random.Random) -> bytes:
    """Return data with two numbers swapped, such as cards in a table."""
    numbers = [data[at : at + 4] for at in range(0, len(data), 4)]
    i, j = rng.randrange(len(numbers)), rng.randrange(len(numbers))
    numbers[i], numbers[j] = numbers[j], numbers[i]
    return b"".join(numbers)


def repeat(data: bytes, rng: random.Random) -> bytes:
    """Return data several times."""
    return data * rng.choice((2, 2, 3, 50))


CHANGES = (change_number, change_number, swap_cells, flip_bits, cut, insert, repeat)


def change(data: bytes, rng: random.Random) -> bytes:
    """Return changed data."""
    return rng.choice(CHANGES)(data, rng) if data else rng.randbytes(rng.choice((1, 4, 480)))


def drip(connection: socket.socket, data: bytes, rng: random.Random) -> None:
    """Send the beginning of data in small pieces with pauses."""
    size = rng.choice((1, 7, 100))
    for _ in range(rng.randrange(50)):
        connection.sendall(data[:size])
        data = data[size:]
        time.sleep(rng.choice((0, 0, 0.001, 0.01)))
    connection.sendall(data)


def hang_up(connection: socket.socket, rng: random.Random) -> None:
    """Close a connection in one of several ways."""
    with suppress(OSError):
        ways: list[Callable[[], object]] = [
            connection.close,
            partial(connection.shutdown, socket.SHUT_WR),
            partial(connection.shutdown, socket.SHUT_RD),
            partial(reset, connection),
        ]
        rng.choice(ways)()


def reset(connection: socket.socket) -> None:
    """Close a connection by a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class HostileClient:
    """A client of random plays that sends some of its messages changed, or hangs up.

    Args:
        port: port of the server.
        rng: determines the attack.
    """

    def __init__(self, port: int, rng: random.Random) -> None:
        self._rng = rng
        self._rate = rng.choice((0.02, 0.1, 0.5, 1))
        self._client = Raw(port, self._play, self._gift, self._watch, seed=rng.randrange(1000))

    def attack(self) -> None:
        """Play until the match is over or one side hangs up."""
        with self._client, suppress(OSError, ProtocolError):
            data = tables.to_bytes(tables.profile_table("hostile"))
            self._client.send(self._answer(data))
            number = self._client.connection.number("number", range(5))
            self._client.client_view = ClientView(number)
            self._client.play_match()

    def _answer(self, data: bytes) -> bytes:
        """Return a message, changed at the rate of the attack."""
        if self._rng.random() >= self._rate:
            return data
        action = self._rng.random()
        if action < 0.1:
            hang_up(self._client.socket, self._rng)
        elif action < 0.2:
            drip(self._client.socket, data, self._rng)
            return b""
        return change(data, self._rng)

    def _play(self, client: Raw, view: Game) -> bytes:
        """Return the bytes of a play."""
        return self._answer(tables.to_bytes(tables.play_table(client.player.choose(view))))

    def _gift(self, client: Raw, view: Game) -> bytes:
        """Return the bytes of a gift."""
        gift = client.player.give(view, int(view["to_give"]))
        return self._answer(tables.to_bytes(tables.gift_table(gift)))

    def _watch(self) -> None:
        """Send something while another player is in turn, now and then."""
        if self._rng.random() < 0.05 * self._rate:
            self._client.send(change(bytes(480), self._rng))


def hostile_client(rng: random.Random) -> None:
    """Attack a server by one or two clients; an honest client must play a whole correct match."""
    n_hostile = rng.choice((1, 1, 2))
    limits = {"reply_seconds": LIMIT, "handshake_seconds": LIMIT, "wait_seconds": DEADLINE}
    heirs = [("heir", RandomPlayer(1))] * rng.randrange(2)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(
            Path(folder), 4 - n_hostile, heirs, games=2, seed=rng.randrange(2**32), **limits
        ) as match,
    ):
        honest = match.join(1)
        attacks = [
            match.spawn(partial(attack_until, match, honest.done, random.Random(rng.random())))
            for _ in range(n_hostile)
        ]
        result = honest.result(timeout=DEADLINE)
        for attack in attacks:
            attack.result(timeout=DEADLINE)
        check_match(match, result)


def attack_until(match: Running, is_over: Callable[[], bool], rng: random.Random) -> None:
    """Attack a server by one client after the other, until a function returns True."""
    while not is_over():
        with suppress(OSError):
            HostileClient(match.port, rng).attack()


def check_match(match: Running, result: Result) -> None:
    """Check that the log of a match agrees with rules, standings and an honest client's result."""
    standings, report = match.result(), match.replayed()
    assert (report.games, report.mismatches, report.first) == (2, 0, "")
    assert sum(score.points for score in standings) == 2 * 15
    assert result.games == 2
    finishes = [game["finish"] for game in match.games()]
    points = [sum(5 - finish.index(player) for finish in finishes) for player in range(5)]
    assert [score.points for score in standings] == points
    drawn = [action for action in match.games()[-1]["actions"] if "random_finish" in action]
    assert drawn or result.points == points


class CheckedPlayer(RandomPlayer):
    """A random player that checks its views."""

    def choose(self, view: Game) -> int:
        """Return a random legal play."""
        check_view(view)
        return super().choose(view)

    def give(self, view: Game, n: int) -> int:
        """Return random cards of the hand."""
        hand = int(view["hands"][view["viewer"]])
        assert 0 < n <= 2 and cards.count(hand) == view["left"][view["viewer"]] <= 13
        return super().give(view, n)


def check_view(view: Game) -> None:
    """Check that a view is one of a game by the rules: its actions are played again.

    Only its lock is the server's.
    """
    games = np.empty(1, GAME)
    games[0] = view
    again = games[0]
    rewind(again)
    hand, seen = int(again["hands"][view["viewer"]]), 0
    assert cards.count(hand) == again["left"][view["viewer"]]
    assert sorted(again["left"].tolist()) == [10, 10, 11, 11, 11]
    for action in view["actions"][: view["n_actions"]].tolist():
        player, play = divmod(action, N_PLAYS)
        assert again["turn"] == player
        if play == plays.PASS:
            skip(again)
        else:
            used, is_mine = int(plays.CARDS[play]), player == view["viewer"]
            field, revolution, lock = (int(again[n]) for n in ("field", "revolution", "lock"))
            assert plays.follows(play, field, bool(revolution), bool(lock))
            assert not used & seen and (used & hand == used if is_mine else not used & hand)
            seen |= used
            lay(again, play)
        advance(again)
    for name in ("turn", "field", "revolution", "passed", "n_out", "left", "hands"):
        assert np.array_equal(again[name], view[name]), name


@lru_cache(maxsize=8)
def transcript(seed: int) -> tuple[bytes, ...]:
    """Return the messages that a client gets in an honest match of two games."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), 4, games=2, seed=seed) as match,
    ):
        listener = Listener()
        address = "127.0.0.1", match.port
        match.spawn(partial(listener.relay, address))
        play_match(("127.0.0.1", listener.port), RandomPlayer(seed), "honest", DEADLINE)
    return tuple(split(listener.received))


class Listener:
    """A relay between one client and a server, which keeps what the server sends."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.received = b""

    def relay(self, address: tuple[str, int]) -> None:
        """Relay a connection until both sides have closed it."""
        client, _ = self._listener.accept()
        with self._listener, client, socket.create_connection(address, DEADLINE) as server:
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=self._pass_on, args=(client, server))
            back.start()
            while data := server.recv(1 << 16):
                self.received += data
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            back.join(DEADLINE)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        """Relay the client's bytes."""
        with suppress(OSError):
            while data := client.recv(1 << 16):
                server.sendall(data)


def split(data: bytes) -> Iterator[bytes]:
    """Yield the messages of a server's stream."""
    yield data[:4]
    at, end = 4, 1
    while at < len(data):
        if end != tables.MORE:
            yield data[at : at + 480]
            at += 480
        is_mine = tables.read_state(tables.from_bytes(data[at : at + 480])).is_mine
        sizes = (480, 4, 480, 4) if is_mine else (480, 480, 4)
        for size in sizes:
            yield data[at : at + size]
            at += size
        end = tables.int_from_bytes(data[at - 4 : at])


def damaged(messages: tuple[bytes, ...], rng: random.Random) -> Blocks:
    """Return messages of which some are changed, removed, repeated, swapped or delayed."""
    blocks = list(messages)
    for _ in range(rng.choice((1, 1, 1, 2, 10))):
        i, j = rng.randrange(len(blocks)), rng.randrange(len(blocks))
        attack = rng.randrange(8)
        if attack == 0:
            blocks[i], blocks[j] = blocks[j], blocks[i]
        elif attack == 1:
            blocks[i : i + rng.randrange(1, 8)] = []
        elif attack == 2:
            blocks[i:i] = blocks[j : j + rng.randrange(1, 8)]
        elif attack == 3:
            blocks[i + 1 :] = []
        elif attack == 4:
            blocks.insert(i, b"")
        else:
            blocks[i] = change(blocks[i], rng)
        blocks = blocks or [b""]
    return blocks


def send_blocks(connection: socket.socket, blocks: Blocks, rng: random.Random) -> None:
    """Send the messages of a hostile server and hang up."""
    dripping = rng.choice((0, 0, 0.005))
    with connection, suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for block in blocks:
            if not block:
                time.sleep(rng.choice((0.01, 1.5 * LIMIT)))
            elif rng.random() < dripping:
                drip(connection, block, rng)
            else:
                connection.sendall(block)
        if rng.random() < 0.3:
            hang_up(connection, rng)
        connection.settimeout(2 * LIMIT)
        while connection.recv(1 << 16):
            pass


@contextmanager
def hostile_serving(blocks: Blocks, rng: random.Random) -> Iterator[int]:
    """Run a server that sends the messages to one client, whatever the client answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(DEADLINE)

        def serve() -> None:
            send_blocks(listener.accept()[0], blocks, rng)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            thread.join(DEADLINE)
    assert not thread.is_alive()


def hostile_server(rng: random.Random) -> None:
    """Attack a client: it must end soon, with a result or an error that it declares."""
    seed = rng.randrange(8)
    blocks = damaged(transcript(seed), rng)
    start = time.monotonic()
    with hostile_serving(blocks, random.Random(rng.random())) as port:
        with suppress(OSError, ProtocolError):
            result = play_match(("127.0.0.1", port), CheckedPlayer(seed), "honest", LIMIT)
            assert result.player in range(5) and result.games in (1, 2)
            assert sum(result.points) == 15 * result.games
    assert time.monotonic() - start < DEADLINE


def damaged_tables(rng: random.Random) -> None:
    """Read damaged tables in all ways: the only error is a ProtocolError."""
    data = rng.choice(transcript(rng.randrange(8)))
    if len(data) < tables.TABLE_BYTES:
        data = tables.to_bytes(tables.play_table(rng.randrange(N_PLAYS)))
    for _ in range(rng.randrange(1, 5)):
        data = rng.choice((change_number, swap_cells, flip_bits))(data, rng)
    table = tables.from_bytes(data)
    read = tables.read_submission(table)
    assert -1 <= read.play < N_PLAYS and isinstance(read.text, str)
    assert 0 <= tables.read_gift(table) <= cards.DECK and 0 <= tables.read_hand(table) <= cards.DECK
    version, name = tables.read_profile(table)
    assert -(2**31) <= version < 2**31 and len(name) <= tables.MAX_NAME and name.isprintable()
    with suppress(ProtocolError):
        tables.read_state(table)
