"""HTTP connections that nobody can hold without asking for something."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 128
"""Open connections of an address; more are closed."""
REQUEST_SECONDS = 10.0
"""Time in which a connection must send a whole request, after it was opened or began to send it."""
READ_SECONDS = 10.0
"""Time in which a client must read so much of its answers that the server can go on."""
KEEP_SECONDS = 75
"""Time that a connection is kept after an answer. Clients that use one again just when it is closed
lose their request, so it is longer than the time that they keep it themselves."""


class Server(uvicorn.Server):
    """A server that ends its searches before it waits for the answers that are left.

    Args:
        config: of uvicorn.
        stop: ends the searches.
    """

    def __init__(self, config: uvicorn.Config, stop: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._stop = stop

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End searches, connections and the application."""
        await self._stop()
        await super().shutdown(sockets)


class Connection(H11Protocol):
    """A connection that is closed if its client is silent or does not read, or has too many."""

    _deadline: asyncio.TimerHandle | None = None
    _read_deadline: asyncio.TimerHandle | None = None
    _is_kept = False

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        address = self.client and self.client[0]
        if sum(each.client[:1] == (address,) for each in self._others()) > MAX_CONNECTIONS:
            transport.abort()
        self._wait(REQUEST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop to wait."""
        self._stop()
        self._stop_read_deadline()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin to wait until the client has read what was sent."""
        super().pause_writing()
        self._stop_read_deadline()
        self._read_deadline = self.loop.call_later(READ_SECONDS, self._abort)

    def resume_writing(self) -> None:
        """Stop to wait until the client has read."""
        self._stop_read_deadline()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._is_kept:
            self._is_kept = False
            self._wait(REQUEST_SECONDS)
        super().data_received(data)

    def handle_events(self) -> None:
        """Handle what has come, and stop to wait when the request is whole."""
        super().handle_events()
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._is_kept = True
        self._wait(KEEP_SECONDS)
        super().on_response_complete()

    def _others(self) -> list[Any]:
        """Return the connections whose address is known, this one included."""
        return [each for each in self.connections if getattr(each, "client", None)]

    def _wait(self, seconds: float) -> None:
        """Close the connection after this time."""
        self._stop()
        self._deadline = self.loop.call_later(seconds, self._end)

    def _end(self) -> None:
        """Close the connection, also if the client has not read all that was sent."""
        if self.transport.get_write_buffer_size():
            self._abort()
        else:
            self.transport.close()

    def _abort(self) -> None:
        """Close the connection at once, and keep nothing for a client that does not read."""
        linger = struct.pack("ii", 1, 0)
        self.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, linger
        )
        self.transport.abort()

    def _stop_read_deadline(self) -> None:
        """Wait no longer until the client has read."""
        if self._read_deadline is not None:
            self._read_deadline.cancel()
        self._read_deadline = None

    def _stop(self) -> None:
        """Wait no longer."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None
