"""HTTP connections that nobody can hold without asking for something."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections import Counter
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
MAX_OPEN = 400
"""Open connections of all addresses; of more, one that waits is closed."""
KEEP_SECONDS = 75
"""Time that a connection is kept after an answer. Clients that use one again just when it is closed
lose their request, so it is longer than the time that they keep it themselves."""


class Server(uvicorn.Server):
    """A server that ends its searches before it waits for the answers that are left.

    Args:
        config: config of uvicorn.
        stop: ends the searches.
    """

    def __init__(self, config: uvicorn.Config, stop: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._stop = stop

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End searches, connections and the application."""
        await self._stop()
        await super().shutdown(sockets)


class _Deadline:
    """Calls a function after some time, unless it is stopped before."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._timer: asyncio.TimerHandle | None = None

    def start(self, seconds: float) -> None:
        """Call the function after this time, counted from now."""
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._call)

    def stop(self) -> None:
        """Do not call the function."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None


class Connection(H11Protocol):
    """A connection that is closed if its client is silent or does not read, or has too many."""

    _is_kept = False
    waits_since: float | None = None
    """Time at which it began to wait for a whole request, None while one is answered."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        self._request, self._reading = _Deadline(self._end), _Deadline(self._abort)
        super().connection_made(transport)
        address = self.client and self.client[0]
        if sum(each.client[:1] == (address,) for each in self._others()) > MAX_CONNECTIONS:
            transport.abort()
        self._wait(REQUEST_SECONDS)
        self._make_room()

    def _wait(self, seconds: float) -> None:
        """Begin to wait for a whole request."""
        self.waits_since = time.monotonic()
        self._request.start(seconds)

    def _make_room(self) -> None:
        """Close a connection of too many: of the address with most, the one that waits longest."""
        every = [each for each in self._others() if not each.transport.is_closing()]
        if len(every) <= MAX_OPEN:
            return
        counts = Counter(each.client[0] for each in every)
        idle = [each for each in every if each.waits_since is not None]
        longest = min(idle, key=lambda each: (-counts[each.client[0]], each.waits_since))
        longest.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._request.stop()
        self._reading.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin to wait until the client has read what was sent."""
        super().pause_writing()
        self._reading.start(READ_SECONDS)

    def resume_writing(self) -> None:
        """Stop waiting until the client has read."""
        self._reading.stop()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._is_kept:
            self._is_kept = False
            self._request.start(REQUEST_SECONDS)
        super().data_received(data)

    def handle_events(self) -> None:
        """Handle what has come; stop waiting once the request is whole."""
        super().handle_events()
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._request.stop()
            self.waits_since = None

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP; drop the answer to the request that they belong to."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # it has been answered already
            self.transport.close()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._is_kept = True
        self._wait(KEEP_SECONDS)
        super().on_response_complete()

    def _others(self) -> list[Any]:
        """Return the connections whose address is known, this one included."""
        return [each for each in self.connections if getattr(each, "client", None)]

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
