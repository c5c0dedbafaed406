"""The connections of a server that have no seat yet: who is admitted, and who is refused and why.

A client sends its profile as soon as it is connected. So the server reads it when it accepts the
connection, and only connections without a profile wait. They cannot keep others out: one that is
silent makes room for a new one of its address, and if there are too many in all, the address that
has most of them loses its oldest. Clients whose profile has arrived keep their places until they
get seats, so further ones are refused if there are too many.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from afterstate.envs.daihinmin.uecda import tables
from afterstate.envs.daihinmin.uecda.journal import Journal
from afterstate.envs.daihinmin.uecda.settings import N_SEATS, ServerSettings
from afterstate.envs.daihinmin.uecda.tables import RefusalCode, Table

PATIENCE_SECONDS = 0.1
"""Time for which a silent connection keeps its place though there are too many of its address."""
ARRIVAL_SECONDS = 0.25
"""Length of the periods in which the connections of an address are counted."""
MAX_ARRIVALS = 150
"""Maximum number of connections in a period from an address that gets seats.

It is more than five clients open that try again every 10 milliseconds while all seats are taken.
"""
MANY_ARRIVALS = 30
"""Maximum number of connections in a period from an address whose first client gets a seat soon.

One client that tries again every 10 milliseconds opens fewer.
"""
SPARE_CLIENTS = 5
"""Maximum number of clients of an address that wait for a seat, beyond those that may get one.

A client that is cut off and tries again counts twice for a time.
"""
FLOOD_SECONDS = 5.0
"""Time for which an address gets no seats after it has opened too many connections."""
BACKLOG = 4096
"""Maximum number of connections that the system keeps while the server is busy."""
BATCH = 64
"""Maximum number of connections that are accepted before seated clients are served again."""
PAUSE_SECONDS = 0.1
"""Time without new connections after the system refused one to the server."""


class Refused(Exception):
    """The reason why a client gets no seat.

    Args:
        code: the number that the client gets.
        reason: the same for the log, as the end of a sentence that starts with `it`.
    """

    def __init__(self, code: RefusalCode, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


def dismiss(connection: socket.socket, code: RefusalCode) -> None:
    """Tell a client why it gets no seat, and close the connection.

    What the client has sent is read, because the system would otherwise discard the reason.
    """
    with suppress(OSError):
        connection.send(tables.int_to_bytes(code))
        connection.shutdown(socket.SHUT_WR)
        connection.recv(2 * tables.TABLE_BYTES)
    connection.close()


class Waiting:
    """A connection whose profile has not arrived."""

    def __init__(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        self.connection = connection
        self.host = peer[0]
        self.address = f"{peer[0]}:{peer[1]}"
        self.since = time.monotonic()
        self.profile = b""
        self.timer: asyncio.TimerHandle | None = None

    def read(self) -> bool:
        """Read what has arrived; return True if the profile is complete.

        Raises:
            Refused: the client hung up.
        """
        missing = tables.TABLE_BYTES - len(self.profile)
        try:
            data = self.connection.recv(missing)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise self.no_profile(f"hung up ({error})") from error
        self.profile += data
        if not data:
            raise self.no_profile(f"hung up after {tables.part_of_table(self.profile)}")
        return len(data) == missing

    def no_profile(self, reason: str) -> Refused:
        """Return the refusal of a client that sends no profile."""
        text = f"{reason}: no profile; clients of protocol 20060 send none"
        return Refused(RefusalCode.NO_PROFILE, text)


class Lobby:
    """The socket on which a server listens, and the connections without a seat.

    Args:
        settings: limits of time and number.
        journal: gets an event for connections that are refused.
        seating: the clients that sent their profile and wait for a seat, with their addresses.
        check_open: raises Refused if no client can get a seat.
        admit: takes over the connection of a client that sent its profile: called with connection,
            profile and address (host, and host with port); raises Refused.
    """

    def __init__(
        self,
        settings: ServerSettings,
        journal: Journal,
        seating: Mapping[Any, str],
        check_open: Callable[[], None],
        admit: Callable[[socket.socket, Table, str, str], None],
    ) -> None:
        self._settings, self._journal = settings, journal
        self._seating, self._check_open, self._admit = seating, check_open, admit
        self._listener: socket.socket | None = None
        self._waiting: dict[str, dict[Waiting, None]] = {}
        self._n_waiting = 0
        self._arrived: Counter[str] = Counter()  # in this period
        self._arrived_before: Counter[str] = Counter()  # in the last one
        self._flooded: dict[str, float] = {}  # the time of the last connection too many, by address
        self._period = 0

    def listen(self) -> int:
        """Start to accept connections; return the port.

        Raises:
            OSError: the server cannot listen on this address.
        """
        host, port = self._settings.host, self._settings.port
        try:
            self._listener = _listener(host, port)
        except (OSError, UnicodeError) as error:
            fix = "choose another --host or --port; --port 0 takes any free port"
            raise OSError(f"cannot listen on {host}:{port} ({_reason(error)}): {fix}") from error
        self._open()
        return int(self._listener.getsockname()[1])

    def _open(self) -> None:
        """Accept connections from now on."""
        if self._listener:
            loop = asyncio.get_running_loop()
            loop.add_reader(self._listener, self._accept, self._listener)

    def close(self) -> None:
        """Close the listening socket and all connections without a seat."""
        if self._listener:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for waiting in [each for queue in self._waiting.values() for each in queue]:
            self._forget(waiting)
            waiting.connection.close()

    def _accept(self, listener: socket.socket) -> None:
        """Accept the connections that have arrived, at most a batch of them."""
        for _ in range(BATCH):
            try:
                connection, peer = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listener, error)
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._enter(Waiting(connection, peer[:2]))

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """Accept nothing for a moment, because the system has no resources for more."""
        self._journal.visit("paused", f"cannot accept connections: {error}", logging.WARNING)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        loop.call_later(PAUSE_SECONDS, self._open)

    def _enter(self, waiting: Waiting) -> None:
        """Admit a new connection if its profile is there, otherwise let it wait."""
        self._count(waiting.host)
        try:
            is_complete = waiting.read()
            if not is_complete:
                self._check_open()
                self._make_room(waiting.host)
        except Refused as refused:
            self._refuse(waiting, refused)
            return
        if is_complete:
            self._hand_over(waiting)
        else:
            self._wait(waiting)

    def _wait(self, waiting: Waiting) -> None:
        """Wait for the profile of a connection."""
        self._waiting.setdefault(waiting.host, {})[waiting] = None
        self._n_waiting += 1
        loop = asyncio.get_running_loop()
        loop.add_reader(waiting.connection, self._read, waiting)
        waiting.timer = loop.call_later(self._settings.handshake_seconds, self._give_up, waiting)

    def _read(self, waiting: Waiting) -> None:
        """Read from a connection that waits; admit or refuse it if that ends its wait."""
        try:
            is_complete = waiting.read()
        except Refused as refused:
            self._forget(waiting)
            self._refuse(waiting, refused)
            return
        if is_complete:
            self._forget(waiting)
            self._hand_over(waiting)

    def _give_up(self, waiting: Waiting) -> None:
        """Refuse a connection that sent no profile in time."""
        self._forget(waiting)
        limit = f"within {self._settings.handshake_seconds:g} seconds"
        sent = tables.part_of_table(waiting.profile)
        self._refuse(waiting, waiting.no_profile(f"sent {sent} {limit}"))

    def _hand_over(self, waiting: Waiting) -> None:
        """Hand over a client that sent its profile, or refuse it."""
        profile = tables.from_bytes(waiting.profile)
        try:
            self.check_rate(waiting.host)
            self._admit(waiting.connection, profile, waiting.host, waiting.address)
        except Refused as refused:
            self._refuse(waiting, refused)

    def _count(self, host: str) -> None:
        """Count a new connection of an address in this period."""
        now = time.monotonic()
        period = int(now / ARRIVAL_SECONDS)
        if period != self._period:
            is_next = period == self._period + 1
            self._arrived_before = self._arrived if is_next else Counter()
            self._arrived, self._period = Counter(), period
            recent = now - FLOOD_SECONDS
            self._flooded = {each: last for each, last in self._flooded.items() if last > recent}
        self._arrived[host] += 1
        if self._arrived[host] > MAX_ARRIVALS:
            self._flooded[host] = now

    def has_many(self, host: str) -> bool:
        """Return True if an address has opened many connections in this period or the last one."""
        return max(self._arrived[host], self._arrived_before[host]) > MANY_ARRIVALS

    def check_rate(self, host: str) -> None:
        """Raise Refused if an address opens too many connections, or did so seconds ago."""
        if self._flooded.get(host, -math.inf) > time.monotonic() - FLOOD_SECONDS:
            raise Refused(RefusalCode.ADDRESS, "came when its address opened too many connections")

    def check_crowd(self, host: str) -> None:
        """Close a silent connection if there are too many for one more client with a profile.

        Raises:
            Refused: too many clients of its address or in all wait for a seat.
        """
        n_own = list(self._seating.values()).count(host)
        if n_own >= min(self._settings.seats_per_address, N_SEATS) + SPARE_CLIENTS:
            raise Refused(
                RefusalCode.ADDRESS, "came when too many of its address waited for a seat"
            )
        if self._is_full():
            if not self._waiting:
                raise Refused(RefusalCode.CROWD, "came when there were too many")
            self._evict(max(self._waiting.values(), key=len))

    def _is_full(self) -> bool:
        """Return True if there are as many connections without a seat as there may be."""
        return self._n_waiting + len(self._seating) >= self._settings.connections

    def _evict(self, queue: Mapping[Waiting, None]) -> None:
        """Close the oldest of some silent connections."""
        oldest = next(iter(queue))
        self._forget(oldest)
        self._refuse(oldest, Refused(RefusalCode.CROWD, "was silent when there were too many"))

    def _make_room(self, host: str) -> None:
        """Close a silent connection if there are too many for another one of an address.

        Raises:
            Refused: the new one is one too many.
        """
        own, is_full = self._waiting.get(host, {}), self._is_full()
        if not is_full and len(own) < self._settings.connections_per_address:
            return
        queue = max(self._waiting.values(), key=len, default=own) if is_full else own
        recent = time.monotonic() - PATIENCE_SECONDS
        is_old = bool(queue) and next(iter(queue)).since <= recent
        if is_old or (is_full and len(queue) > len(own)):
            self._evict(queue)
        elif is_full:
            raise Refused(RefusalCode.CROWD, "came when there were too many")

    def _forget(self, waiting: Waiting) -> None:
        """Remove a connection from those that wait."""
        asyncio.get_running_loop().remove_reader(waiting.connection)
        if waiting.timer:
            waiting.timer.cancel()
        queue = self._waiting[waiting.host]
        del queue[waiting]
        self._n_waiting -= 1
        if not queue:
            del self._waiting[waiting.host]

    def _refuse(self, waiting: Waiting, refused: Refused) -> None:
        """Refuse a connection and log it."""
        dismiss(waiting.connection, refused.code)
        self.log(waiting.address, refused)

    def log(self, address: str, refused: Refused) -> None:
        """Log a connection that was refused."""
        code = refused.code.name.lower()
        self._journal.metrics.refused[code] += 1
        text = f"refused {address}: it {refused.reason}"
        facts = {"address": address, "reason": code, "why": refused.reason}  # names of the log
        self._journal.visit("refused", text, logging.WARNING, **facts)


def _reason(error: Exception) -> str:
    """Return why a server cannot listen, without what `socket.create_server` adds."""
    number = getattr(error, "errno", None)
    if isinstance(error, socket.gaierror) or number is None:
        return getattr(error, "strerror", None) or str(error)
    return os.strerror(number)


def _listener(host: str, port: int) -> socket.socket:
    """Return a listening socket; IPv4 is preferred where a name has both kinds of addresses."""
    addresses = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, _, _, _, address = min(addresses, key=lambda info: info[0] != socket.AF_INET)
    listener = socket.create_server(address, family=family, backlog=BACKLOG)
    listener.setblocking(False)
    return listener
