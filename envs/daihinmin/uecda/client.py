"""A client of the competition's protocol 20070: one player at a server's table.

    afterstate join --port 42485 --player random

It plays on any server of that protocol, including the competition's own.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.players import Player, check_turn
from afterstate.envs.daihinmin.records.recording import ILLEGAL
from afterstate.envs.daihinmin.rules import ACCEPTED, N_PLAYERS, REFUSED, Game
from afterstate.envs.daihinmin.uecda import tables
from afterstate.envs.daihinmin.uecda.client_view import ClientView
from afterstate.envs.daihinmin.uecda.guarded_player import GuardedPlayer
from afterstate.envs.daihinmin.uecda.settings import SILENCE_SECONDS
from afterstate.envs.daihinmin.uecda.tables import ProtocolError, RefusalCode, Table
from afterstate.envs.daihinmin.views import view
from afterstate.envs.messages import listed

LOGGER = logging.getLogger(__name__)
CONNECT_SECONDS = 10.0
_CHUNK = 1 << 16


class Result(NamedTuple):
    """The result of a match, as far as a client knows it."""

    player: int
    """Number of the client."""
    games: int
    points: list[int]
    """Points by player: see `ClientView.points`."""


class Connection:
    """A connection to a server, read and written in whole messages.

    Args:
        connected: the socket.
        seconds: time limit for each message of the server.
    """

    def __init__(self, connected: socket.socket, seconds: float = SILENCE_SECONDS) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._seconds = seconds
        self._unread = bytearray()

    def _read(self, n: int) -> bytes:
        """Return the next bytes.

        Raises:
            ConnectionError: the server hung up.
            TimeoutError: the server does not send them in time.
        """
        deadline = time.monotonic() + self._seconds
        while len(self._unread) < n:
            data = self._receive(deadline)
            if not data:
                raise ConnectionError("the server hung up")
            self._unread += data
        message = bytes(self._unread[:n])
        del self._unread[:n]
        return message

    def _receive(self, deadline: float) -> bytes:
        """Return some bytes, empty ones if the server hung up."""
        left = deadline - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            return self._socket.recv(_CHUNK)
        except ConnectionError as error:
            raise ConnectionError(f"the server hung up ({error.strerror or error})") from error
        except TimeoutError as error:
            sent = f"{len(self._unread)} bytes of a message" if self._unread else "nothing"
            raise TimeoutError(f"the server sent {sent} for {self._seconds:g} seconds") from error

    def table(self) -> Table:
        """Return the next message, a table."""
        return tables.from_bytes(self._read(tables.TABLE_BYTES))

    def number(self, meaning: str, allowed: Sequence[int]) -> int:
        """Return the next message, a number.

        Raises:
            ProtocolError: the number is not one of those allowed.
        """
        number = tables.int_from_bytes(self._read(tables.INT_BYTES))
        if number not in allowed:
            raise ProtocolError(f"{meaning} must be one of {listed(allowed)}, got {number}")
        return number

    def send(self, table: Table) -> None:
        """Send a table.

        Raises:
            ConnectionError: the server hung up or does not read.
        """
        try:
            self._socket.settimeout(self._seconds)
            self._socket.sendall(tables.to_bytes(table))
        except OSError as error:
            raise ConnectionError(f"the server did not accept a table ({error})") from error


def play_match(
    address: tuple[str, int], player: Player, name: str, seconds: float = SILENCE_SECONDS
) -> Result:
    """Play a whole match on a server.

    Args:
        address: host and port of the server.
        player: the player.
        name: its name in the server's lists.
        seconds: time limit for each message of the server.

    Raises:
        OSError: the server cannot be reached, refused the client, hung up, or fell silent.
        PlayerError: the player failed.
        ProtocolError: the server does not follow the protocol or the rules.
    """
    guarded = GuardedPlayer(player, name)
    with _connect(address) as connected:
        connection = Connection(connected, seconds)
        client_view = ClientView(_join(connection, name))
        LOGGER.info("player %d, waiting for the others", client_view.viewer)
        while _play_game(connection, client_view, guarded) != tables.MATCH_OVER:
            pass
    return Result(client_view.viewer, int(client_view.view["number"]), client_view.points)


def _connect(address: tuple[str, int]) -> socket.socket:
    """Return a connection to an address.

    Raises:
        OSError: it is unknown, or the connection is refused or not accepted in time.
    """
    try:
        return socket.create_connection(address, CONNECT_SECONDS)
    except TimeoutError as error:
        host, port = address
        seconds = f"{CONNECT_SECONDS:g} seconds"
        raise TimeoutError(f"no answer from {host}:{port} within {seconds}") from error


def _join(connection: Connection, name: str) -> int:
    """Send the profile and return the number that the server gives.

    Raises:
        ConnectionError: the server refused the client or hung up.
    """
    with suppress(ConnectionError):  # a server that refuses before it reads has sent the reason
        connection.send(tables.profile_table(name))
    try:
        number = connection.number(
            "the number of a player", [*range(N_PLAYERS), *map(int, RefusalCode)]
        )
    except ConnectionError as error:
        raise ConnectionError(
            "the server hung up before it gave a number: all seats are taken, or it does not "
            f"speak protocol {tables.PROTOCOL}"
        ) from error
    except ProtocolError as error:
        raise ProtocolError(f"no server of Daihinmin answers there: {error}") from error
    if number < 0:
        reason = tables.REASONS[RefusalCode(number)]
        raise ConnectionError(f"the server refused the client: {reason}")
    return number


def _play_game(connection: Connection, client_view: ClientView, player: GuardedPlayer) -> int:
    """Play one game; return the server's last number."""
    client_view.read_start(connection.table())
    n = int(client_view.view["to_give"])
    if n:
        connection.send(tables.gift_table(player.give(_seen(client_view), n)))
    end = tables.MORE
    while end == tables.MORE:
        play = None
        if client_view.read_turn(connection.table()):
            play = _submit(connection, client_view, player)
        client_view.read_field(connection.table(), play)
        end = connection.number(
            "the end of an action", (tables.MORE, tables.GAME_OVER, tables.MATCH_OVER)
        )
        client_view.check_end(end != tables.MORE)
    LOGGER.debug("game %d is over, points %s", client_view.view["number"], client_view.points)
    return end


def _submit(connection: Connection, client_view: ClientView, player: GuardedPlayer) -> int:
    """Submit a play of the player; return the play, `plays.PASS` if the server refused it."""
    play = player.choose(_seen(client_view))
    connection.send(tables.submission_table(play, client_view.view))
    answer = connection.number("the answer to a play", (ACCEPTED, REFUSED))
    if answer == ACCEPTED and play != ILLEGAL:
        return play
    if play not in (ILLEGAL, plays.PASS):
        LOGGER.warning("the server refused %s", plays.text(play))
    return plays.PASS


def _seen(client_view: ClientView) -> Game:
    """Return a copy of the view, which the player may keep.

    Raises:
        ProtocolError: no game has this position.
    """
    try:
        return check_turn(view(client_view.view, client_view.viewer))
    except ValueError as error:
        raise ProtocolError(f"the server's tables show an impossible position: {error}") from error
