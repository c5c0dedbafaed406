"""A client of the competition's protocol 20070: one player at a server's table.

    python -m afterstate.envs.daihinmin.uecda.client --port 42485 --player random

It plays on any server of that protocol, the competition's own one as well.
"""

from __future__ import annotations

import argparse
import logging
import socket
import sys
from collections.abc import Sequence
from typing import NamedTuple

from afterstate.envs.daihinmin import players, plays
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import ACCEPTED, N_PLAYERS, REFUSED, Game
from afterstate.envs.daihinmin.uecda import tables
from afterstate.envs.daihinmin.uecda.tables import ProtocolError, Table
from afterstate.envs.daihinmin.uecda.watching import Watcher
from afterstate.envs.daihinmin.views import view

LOGGER = logging.getLogger(__name__)
SILENCE_SECONDS = 3600.0
"""How long a client waits for a server that sends nothing, as while players are missing."""
CONNECT_SECONDS = 10.0
_CHUNK = 1 << 16


class Result(NamedTuple):
    """What a client knows of a match at its end."""

    player: int
    """Its number."""
    games: int
    points: list[int]
    """By player: see `Watcher.points`."""


class Connection:
    """A connection to a server, read and written in whole messages.

    Args:
        connected: the socket.
        seconds: how long to wait for a server that sends nothing.
    """

    def __init__(self, connected: socket.socket, seconds: float = SILENCE_SECONDS) -> None:
        connected.settimeout(seconds)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._seconds = seconds
        self._unread = bytearray()

    def _read(self, n: int) -> bytes:
        """The next bytes.

        Raises:
            ConnectionError: the server hung up.
            TimeoutError: it sends nothing.
        """
        while len(self._unread) < n:
            try:
                data = self._socket.recv(_CHUNK)
            except TimeoutError as error:
                raise TimeoutError(
                    f"the server sent nothing for {self._seconds:g} seconds"
                ) from error
            if not data:
                raise ConnectionError("the server hung up")
            self._unread += data
        message = bytes(self._unread[:n])
        del self._unread[:n]
        return message

    def table(self) -> Table:
        """The next message, a table."""
        return tables.from_bytes(self._read(tables.TABLE_BYTES))

    def number(self, what: str, allowed: Sequence[int]) -> int:
        """The next message, a number.

        Raises:
            ProtocolError: the server sent another one than allowed.
        """
        number = tables.read_int(self._read(tables.INT_BYTES))
        if number not in allowed:
            raise ProtocolError(f"the server sent {number} as {what}, one of {list(allowed)}")
        return number

    def send(self, table: Table) -> None:
        """Sends a table.

        Raises:
            ConnectionError: the server hung up, or does not read.
        """
        try:
            self._socket.sendall(tables.to_bytes(table))
        except OSError as error:
            raise ConnectionError(f"the server took no table ({error})") from error


def play_match(
    address: tuple[str, int], player: Player, name: str, seconds: float = SILENCE_SECONDS
) -> Result:
    """Plays a match on a server, to its end.

    Args:
        address: host and port of the server.
        player: who chooses.
        name: under which it is listed.
        seconds: how long to wait for a server that sends nothing.

    Raises:
        OSError: the server cannot be reached, hung up, or fell silent.
        ProtocolError: it sent what the protocol does not know.
    """
    with socket.create_connection(address, CONNECT_SECONDS) as connected:
        connection = Connection(connected, seconds)
        watcher = Watcher(_number(connection, name))
        LOGGER.info("player %d, waiting for the others", watcher.viewer)
        while _play_game(connection, watcher, player) != tables.MATCH_OVER:
            pass
    return Result(watcher.viewer, int(watcher.view["number"]), watcher.points)


def _number(connection: Connection, name: str) -> int:
    """The number that the server gives a client that sends its profile."""
    try:
        connection.send(tables.profile_table(name))
        return connection.number("the number of a player", range(N_PLAYERS))
    except ConnectionError as error:
        raise ConnectionError(
            "the server hung up before it gave a number: all seats are taken, or it does not "
            f"speak protocol {tables.PROTOCOL}"
        ) from error


def _play_game(connection: Connection, watcher: Watcher, player: Player) -> int:
    """Plays one game; returns the server's last word."""
    watcher.start(connection.table())
    n = int(watcher.view["to_give"])
    if n:
        connection.send(tables.gift_table(player.give(_seen(watcher), n)))
    end = tables.MORE
    while end == tables.MORE:
        if watcher.turn(connection.table()):
            _submit(connection, watcher, player)
        watcher.field(connection.table())
        end = connection.number("the end", (tables.MORE, tables.GAME_OVER, tables.MATCH_OVER))
    LOGGER.debug("game %d is over, points %s", watcher.view["number"], watcher.points)
    return end


def _submit(connection: Connection, watcher: Watcher, player: Player) -> None:
    """The player's turn."""
    play = player.choose(_seen(watcher))
    connection.send(tables.play_table(play, tables.lone_joker_cell(watcher.view)))
    answer = connection.number("its answer", (ACCEPTED, REFUSED))
    if answer == REFUSED and play != plays.PASS:
        LOGGER.warning("the server refused %s", plays.text(play))


def _seen(watcher: Watcher) -> Game:
    """The view, for the player to keep."""
    return view(watcher.view, watcher.viewer)


# The command


def _parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m afterstate.envs.daihinmin.uecda.client",
        description="Plays a match of Daihinmin on a server of the UEC competition's protocol "
        "20070, which is the only one it speaks.",
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="of the server (%(default)s)")
    add("--port", type=int, default=tables.PORT, metavar="N", help="of the server (%(default)s)")
    add("--player", default="random", help="by name (%(default)s)")
    add("--name", help="in the server's lists, 9 characters (that of the player)")
    text = "give up when the server sends nothing for so long (%(default)g)"
    add("--silence-seconds", type=float, default=SILENCE_SECONDS, metavar="S", help=text)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: returns 0 after a whole match, 130 after Ctrl-C, otherwise 1."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not 0 < options.port < 2**16 or not 0 < options.silence_seconds < 1e9:
        parser.error("a port is a number from 1 to 65535, a time limit above 0 and below 1e9")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        player = players.resolve(options.player)
    except ValueError as error:
        parser.error(str(error))
    address = options.host, options.port
    try:
        result = play_match(
            address, player, options.name or options.player, options.silence_seconds
        )
    except ConnectionRefusedError:
        print(f"error: no server listens on {options.host}:{options.port}", file=sys.stderr)
        return 1
    except (OSError, UnicodeError, ProtocolError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(f"player {result.player}: {result.games} games, points {result.points}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
