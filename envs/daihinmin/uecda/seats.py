"""The seats of a server's match: clients at the other end of a connection, and built-in players.

A seat always answers. If its client is gone, it passes in the tricks and gives no cards in the
exchange, which the rules punish by taking its strongest ones; unless a built-in player takes over.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import Game
from afterstate.envs.daihinmin.uecda.guarded_player import GuardedPlayer, PlayerError
from afterstate.envs.daihinmin.uecda.tables import (
    SHAPE,
    TABLE_BYTES,
    Table,
    from_bytes,
    gift_table,
    part_of_table,
    submission_table,
)
from afterstate.envs.daihinmin.views import view
from afterstate.envs.messages import shown

MAX_UNREAD = 1 << 20
"""Limit of bytes that a client has not read yet: about 10 games."""
MAX_EARLY = 4 * TABLE_BYTES
"""Limit of a client's stream: the server stops reading when twice as much is buffered."""


class Gone(Exception):
    """The reason why a client is gone, as the end of a sentence that starts with `it`."""


class Stream(asyncio.StreamReader):
    """The stream from a client.

    Attributes:
        n_bytes: number of bytes that came so far.
    """

    n_bytes = 0

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._end = asyncio.Event()

    @property
    def ended(self) -> bool:
        """True if it will send nothing more; what it sent before may still be unread."""
        return self._end.is_set()

    async def stays(self, seconds: float) -> bool:
        """Return True after a time, or False as soon as the client will send nothing more."""
        try:
            await asyncio.wait_for(self._end.wait(), seconds)
        except asyncio.TimeoutError:
            return True
        return False

    def feed_data(self, data: Any) -> None:
        """Count what comes."""
        self.n_bytes += len(data)
        super().feed_data(data)

    def feed_eof(self) -> None:
        """Note that the client will send nothing more."""
        self._end.set()
        super().feed_eof()

    def set_exception(self, exc: Exception) -> None:
        """Note that the connection failed."""
        self._end.set()
        super().set_exception(exc)


async def open_stream(connection: socket.socket) -> tuple[Stream, asyncio.StreamWriter]:
    """Return what reads from a connected client and what writes to it."""
    loop, reader = asyncio.get_running_loop(), Stream(MAX_EARLY)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.create_connection(lambda: protocol, sock=connection)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class Client(NamedTuple):
    """A connected client that sent its profile."""

    reader: Stream
    writer: asyncio.StreamWriter
    name: str
    host: str
    address: str
    """Host and port."""


class Clock:
    """The time that a client has left for its answers.

    Args:
        reply: time limit for each answer, in seconds.
        game: the same for all answers of a game.
        match: the same for all answers of a match.
    """

    def __init__(self, reply: float, game: float, match: float) -> None:
        self._reply, self._per_game = reply, game
        self._limits = {"in this game": game, "in this match": match}
        self._left = dict(self._limits)
        self._game = 0

    def limit(self, game: int) -> tuple[float, str]:
        """Return the seconds that are left for the next answer, and the limit in words.

        Args:
            game: number of the game.
        """
        if game != self._game:
            self._game, self._left["in this game"] = game, self._per_game
        scope = min(self._left, key=lambda scope: self._left[scope])
        if self._reply <= self._left[scope]:
            return self._reply, f"within {self._reply:g} seconds"
        text = f"within the {self._limits[scope]:g} seconds for all answers {scope}"
        return max(self._left[scope], 0), text

    def spend(self, seconds: float) -> None:
        """Subtract the time of an answer."""
        for scope in self._left:
            self._left[scope] -= seconds


async def read_table(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float, limit: str
) -> Table:
    """Return the next table of a client, or cut the connection after a time limit.

    A table that arrived in time counts, also if the server was too busy to read it then.

    Args:
        reader: stream from the client.
        writer: stream to the client.
        seconds: the time limit.
        limit: the same in words.

    Raises:
        Gone: the client hung up or was too slow.
    """
    loop, late = asyncio.get_running_loop(), list[str]()

    def cut() -> None:
        late.append(f" {limit}")
        writer.transport.abort()

    def read_then_cut() -> None:
        timers.append(loop.call_soon(cut))  # what has arrived is read before

    timers: list[asyncio.Handle] = [loop.call_later(seconds, read_then_cut)]
    try:
        data = await reader.readexactly(TABLE_BYTES)
    except asyncio.IncompleteReadError as error:
        data = error.partial
    except OSError as error:
        raise Gone(f"hung up ({error})") from error
    finally:
        timers[-1].cancel()
    if late or len(data) < TABLE_BYTES:
        sent = part_of_table(data)
        raise Gone(f"sent {sent}{late[0]}" if late else f"hung up after {sent}")
    return from_bytes(data)


class Seat(Protocol):
    """A player as the server sees it: it receives messages and answers with tables."""

    name: str
    gone: bool

    def send(self, data: bytes) -> None:
        """Queue bytes for the next `flush`."""

    def flush(self) -> None:
        """Send the queued bytes in one piece."""

    async def give(self, game: Game) -> Table:
        """Return the cards that the player gives away in the exchange."""
        ...

    async def play(self, game: Game) -> Table:
        """Return the play that the player submits."""
        ...

    async def close(self, seconds: float) -> None:
        """Close the connection once all is sent, or after a time limit."""
        ...


class ClientSeat:
    """A client at the other end of a connection.

    Args:
        client: the client.
        clock: its time for answers.
        on_gone: called once with the reason when the client is dropped.
    """

    def __init__(self, client: Client, clock: Clock, on_gone: Callable[[str], None]) -> None:
        self.name, self.host = client.name, client.host
        self.gone = False
        self._reader, self._writer = client.reader, client.writer
        self._clock = clock
        self._on_gone = on_gone
        self._unsent: list[bytes] = []

    def send(self, data: bytes) -> None:
        """Queue bytes for the next `flush`."""
        self._unsent.append(data)

    def flush(self) -> None:
        """Send the queued bytes; drop a client that has hung up or does not read."""
        data = b"".join(self._unsent)
        self._unsent.clear()
        if self.gone:
            return
        if self.has_hung_up():
            self.drop("hung up")
            return
        if data:
            self._writer.write(data)
        if self._writer.transport.get_write_buffer_size() > MAX_UNREAD:
            self.drop(f"left {MAX_UNREAD:,} bytes unread")

    def has_hung_up(self) -> bool:
        """Return True if all that the client sent is read, and it will send nothing more."""
        return self._is_closed() or self._reader.at_eof()

    def leaving(self) -> str:
        """Return why a client that waits for the match loses its seat; an empty text if not.

        One that sends much is not read to its end, so it could hang up unseen.
        """
        if self._is_closed() or self._reader.ended:
            return "hung up"
        is_early = self._reader.n_bytes > MAX_EARLY
        return f"sent more than {MAX_EARLY:,} bytes before the match" if is_early else ""

    def _is_closed(self) -> bool:
        """Return True if the connection has failed or is being closed."""
        return self._reader.exception() is not None or self._writer.transport.is_closing()

    def drop(self, reason: str) -> None:
        """Cut the connection; from now on the seat passes."""
        if not self.gone:
            self.gone = True
            self._writer.transport.abort()
            self._on_gone(reason)

    async def give(self, game: Game) -> Table:
        """Return the client's answer to the start table."""
        return await self._answer(game)

    async def play(self, game: Game) -> Table:
        """Return the client's answer to the turn table."""
        return await self._answer(game)

    async def _answer(self, game: Game) -> Table:
        """Return the next table of the client; an empty one once the client is gone."""
        if not self.gone:
            start = time.monotonic()
            try:
                limit = self._clock.limit(int(game["number"]))
                return await read_table(self._reader, self._writer, *limit)
            except Gone as gone:
                self.drop(str(gone))
            finally:
                self._clock.spend(time.monotonic() - start)
        return np.zeros(SHAPE, np.int32)

    async def close(self, seconds: float) -> None:
        """Close the connection once the client has read all, or after a time limit."""
        self.flush()
        self._writer.close()
        try:
            await asyncio.wait_for(self._writer.wait_closed(), seconds)
        except (asyncio.TimeoutError, OSError):
            self._writer.transport.abort()


class PlayerSeat:
    """A built-in player, which runs in the server's process.

    Args:
        player: the player.
        name: its name.
        number: its number in the match.
        on_gone: called once with the reason when the player fails.
    """

    def __init__(
        self, player: Player, name: str, number: int, on_gone: Callable[[str], None]
    ) -> None:
        self.name = name
        self.gone = False
        self._player = GuardedPlayer(player, name)
        self._number = number
        self._on_gone = on_gone

    def send(self, data: bytes) -> None:
        """Do nothing: the player sees the game itself."""

    def flush(self) -> None:
        """Do nothing."""

    async def close(self, seconds: float) -> None:
        """Do nothing."""

    async def give(self, game: Game) -> Table:
        """Return the cards that the player gives away."""
        seen, n = view(game, self._number), int(game["to_give"])
        return await self._ask(lambda: gift_table(self._player.give(seen, n)))

    async def play(self, game: Game) -> Table:
        """Return the play that the player chooses."""
        seen = view(game, self._number)
        return await self._ask(lambda: submission_table(self._player.choose(seen), game))

    async def _ask(self, answer: Callable[[], Table]) -> Table:
        """Return the player's answer. A player that raises is gone, and its seat passes."""
        await asyncio.sleep(0)  # so that a match of built-in players alone can be interrupted
        if not self.gone:
            try:
                return answer()
            except PlayerError as error:
                self.gone = True
                self._on_gone(f"raised {shown(error.__cause__)}")
        return np.zeros(SHAPE, np.int32)
