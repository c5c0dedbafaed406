"""Who sits at a server's table: clients at the other end of a connection, and players of our own.

Whatever a client does, its seat answers: a client that is gone passes and gives no cards, which the
rules punish by its strongest ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

import numpy as np

from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import Game
from afterstate.envs.daihinmin.uecda.tables import (
    SHAPE,
    TABLE_BYTES,
    Table,
    from_bytes,
    gift_table,
    lone_joker_cell,
    play_table,
)
from afterstate.envs.daihinmin.views import view

LOGGER = logging.getLogger(__name__)
MAX_UNREAD = 1 << 20
"""Bytes that may wait for a client to read them: about 10 games."""
MAX_EARLY = 4 * TABLE_BYTES
"""Limit of a client's stream: where twice as much waits to be asked for, no more is read."""


class Gone(Exception):
    """Why a client is no longer there, as the end of a sentence that starts with `it`."""


async def read_table(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float
) -> Table:
    """The next table of a client, whole within a time limit; otherwise the connection is cut.

    Raises:
        Gone: it hung up, or was too slow.
    """
    late: list[str] = []

    def cut() -> None:
        late.append(f" within {seconds:g} seconds")
        writer.transport.abort()

    timer = asyncio.get_running_loop().call_later(seconds, cut)
    try:
        data = await reader.readexactly(TABLE_BYTES)
    except asyncio.IncompleteReadError as error:
        data = error.partial
    except OSError as error:
        raise Gone(f"hung up ({error})") from error
    finally:
        timer.cancel()
    if late or len(data) < TABLE_BYTES:
        sent = f"{len(data)} of the {TABLE_BYTES} bytes of a table"
        raise Gone(f"sent {sent}{late[0]}" if late else f"hung up after {sent}")
    return from_bytes(data)


class Seat(Protocol):
    """What the server asks for tables and tells what happens."""

    name: str
    gone: bool

    def send(self, data: bytes) -> None:
        """Keeps bytes to be sent by the next `flush`."""

    def flush(self) -> None:
        """Sends what was kept, in one piece."""

    async def give(self, game: Game) -> Table:
        """The cards that the player gives away in the exchange."""
        ...

    async def play(self, game: Game) -> Table:
        """What the player submits in his turn."""
        ...

    async def close(self, seconds: float) -> None:
        """Hangs up, when all is sent or after a time limit."""
        ...


class ClientSeat:
    """A client at the other end of a connection.

    Args:
        reader: its side of the connection, past the profile.
        writer: ours.
        name: its name.
        seconds: within which it must answer.
        on_gone: told once why it is dropped.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        name: str,
        seconds: float,
        on_gone: Callable[[str], None],
    ) -> None:
        self.name = name
        self.gone = False
        self._reader, self._writer = reader, writer
        self._seconds = seconds
        self._on_gone = on_gone
        self._unsent: list[bytes] = []

    def send(self, data: bytes) -> None:
        """Keeps bytes to be sent by the next `flush`."""
        self._unsent.append(data)

    def flush(self) -> None:
        """Sends what was kept; drops a client that has hung up or does not read."""
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
        """Whether nothing more will come from it."""
        closed = self._reader.exception() is not None or self._writer.transport.is_closing()
        return closed or self._reader.at_eof()

    def drop(self, why: str) -> None:
        """Cuts the connection: from now on its seat passes."""
        if not self.gone:
            self.gone = True
            self._writer.transport.abort()
            self._on_gone(why)

    async def give(self, game: Game) -> Table:
        """The table that the client answers the start table with."""
        return await self._answer()

    async def play(self, game: Game) -> Table:
        """The table that the client answers the turn table with."""
        return await self._answer()

    async def _answer(self) -> Table:
        """The next table of the client; an empty one, from now on, if none comes."""
        if not self.gone:
            try:
                return await read_table(self._reader, self._writer, self._seconds)
            except Gone as why:
                self.drop(str(why))
        return np.zeros(SHAPE, np.int32)

    async def close(self, seconds: float) -> None:
        """Hangs up, when the client has read all or after a time limit."""
        self.flush()
        self._writer.close()
        try:
            await asyncio.wait_for(self._writer.wait_closed(), seconds)
        except (asyncio.TimeoutError, OSError):
            self._writer.transport.abort()


class OwnSeat:
    """A player of our own, in the server's process.

    Args:
        player: the player.
        name: its name.
        number: its number in the match.
        on_gone: told once that it failed.
    """

    def __init__(
        self, player: Player, name: str, number: int, on_gone: Callable[[str], None]
    ) -> None:
        self.name = name
        self.gone = False
        self._player = player
        self._number = number
        self._on_gone = on_gone

    def send(self, data: bytes) -> None:
        """Nothing: it sees the game itself."""

    def flush(self) -> None:
        """Nothing."""

    async def close(self, seconds: float) -> None:
        """Nothing."""

    async def give(self, game: Game) -> Table:
        """The cards that the player gives away."""
        seen, n = view(game, self._number), int(game["to_give"])
        return await self._ask(lambda: gift_table(self._player.give(seen, n)))

    async def play(self, game: Game) -> Table:
        """What the player chooses."""
        seen = view(game, self._number)
        cell = lone_joker_cell(game)
        return await self._ask(lambda: play_table(self._player.choose(seen), cell))

    async def _ask(self, answer: Callable[[], Table]) -> Table:
        """The player's answer; a failure ends its part in the match, but not the match."""
        await asyncio.sleep(0)  # a match of own players alone can be interrupted, too
        if not self.gone:
            try:
                return answer()
            except Exception as error:
                LOGGER.exception("the player %r failed", self.name)
                self.gone = True
                self._on_gone(f"raised {error!r}")
        return np.zeros(SHAPE, np.int32)
