"""A server of the competition's protocol 20070: matches of five clients or built-in players.

    afterstate serve --games 100 --log games.jsonl --seats random

No client can stop a match. The server logs which clients it refuses or drops and why; the seat of a
dropped client passes, or a built-in player takes over. A client that does not answer in time is
dropped for good, because its late answer would count as its next one. While a built-in player
thinks, the server does nothing else.

Built-in players get the lowest numbers, clients the next ones in the order of their
profiles; of one address, the second gets a seat a little later.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afterstate.envs.daihinmin.arguments import check_opening
from afterstate.envs.daihinmin.match import first_game, new_match
from afterstate.envs.daihinmin.players import check_turn
from afterstate.envs.daihinmin.uecda import tables
from afterstate.envs.daihinmin.uecda.hosting import HostedMatch, NamedPlayer, Score
from afterstate.envs.daihinmin.uecda.journal import Journal
from afterstate.envs.daihinmin.uecda.lobby import Lobby, Refused
from afterstate.envs.daihinmin.uecda.seats import Client, Stream, open_stream
from afterstate.envs.daihinmin.uecda.settings import ServerSettings, check
from afterstate.envs.daihinmin.uecda.tables import RefusalCode, Table
from afterstate.envs.daihinmin.views import view
from afterstate.envs.messages import counted
from afterstate.envs.words import draw_word

WATCH_SECONDS = 0.1
"""Time after which a client gets its seat, to see whether its address floods the server."""
METRICS_SECONDS = 60.0
"""Time between two reports of metrics in the file of events."""


def _compile_checks() -> None:
    """Check a view as players do, so that nothing is compiled in the first match."""
    game = new_match(0)
    first_game(game, *check_opening({}))
    check_turn(view(game, int(game["turn"])))


async def _watch(reader: Stream, seconds: float) -> None:
    """Wait for a time; raise Refused as soon as the client hangs up."""
    if not await reader.stays(seconds):
        raise Refused(RefusalCode.NO_PROFILE, "hung up before it got a seat")


class Server:
    """A server, from the first connection to the result of its last match.

    Args:
        settings: settings of the server.
        built_in: built-in players that take the first seats.
        replacements: built-in players that take over the seats of lost clients, in this order;
            without one, a seat passes.

    Attributes:
        n_cut_short: number of matches that ended early, since all players were gone.

    Raises:
        ValueError: a wrong setting.
        OSError: a file cannot be written.
    """

    def __init__(
        self,
        settings: ServerSettings | None = None,
        built_in: Sequence[NamedPlayer] = (),
        replacements: Sequence[NamedPlayer] = (),
    ) -> None:
        self.settings = settings or ServerSettings()
        check(self.settings, len(built_in))
        seed = self.settings.seed
        self._seed = draw_word(np.random.default_rng()) if seed is None else seed
        now = time.strftime("%Y%m%d%H%M%S")  # another server may start in this second
        self._title = self.settings.match or f"{now}_{secrets.token_hex(3)}"
        self._built_in, self._replacements = built_in, replacements
        self._journal = Journal(self.settings.log, self.settings.events)
        self._seating: dict[asyncio.Task[None], str] = {}
        self._lobby = Lobby(
            self.settings, self._journal, self._seating, self._check_open, self._admit
        )
        self._metrics_timer: asyncio.TimerHandle | None = None
        self.n_cut_short = 0
        self._match = self._new_match()

    @property
    def games(self) -> int:
        """Number of finished games of the last match."""
        return self._match.games

    @property
    def matches(self) -> int:
        """Number of finished matches."""
        return self._journal.metrics.matches

    def standings(self) -> list[Score]:
        """Return names and points of all finished games of the last match, by player."""
        return self._match.standings()

    def _new_match(self) -> HostedMatch:
        """Return the next match, before its first client."""
        title = f"{self._title}-{self.matches + 1}" if self.matches else self._title
        seed = (self._seed + self.matches) % 2**64
        players = self._built_in, self._replacements
        return HostedMatch(self.settings, seed, title, self._journal, *players)

    async def run(self, on_listening: Callable[[int], None] | None = None) -> list[Score]:
        """Wait for the clients and play the matches.

        Args:
            on_listening: called with the port once clients can connect.

        Returns:
            Names and points of the last match, by player. A match ends early if all players are
            gone.

        Raises:
            OSError: the server cannot listen on the port, or a file cannot be written.
            TimeoutError: not all seats were filled in time.
        """
        _compile_checks()
        try:
            port = self._listen()
            try:
                self._log_start(port)
                if on_listening:
                    on_listening(port)
                self._report_metrics()
                await self._play_matches()
            finally:
                await self._close()
        finally:
            self._journal.close()
        return self.standings()

    def _listen(self) -> int:
        """Start to accept connections and open the files; return the port."""
        port = self._lobby.listen()  # before the files, which another server may be writing
        try:
            self._journal.open()
        except OSError:
            self._lobby.close()
            raise
        return port

    def _log_start(self, port: int) -> None:
        """Log that clients can connect."""
        host = self.settings.host
        clients = counted(self._match.n_missing(), "client")
        text = f"listening on {host}:{port} for {clients}"
        facts: dict[str, Any] = {"host": host, "port": port, "seed": self._seed}
        self._journal.event("listening", text, match=self._title, **facts)

    def _report_metrics(self) -> None:
        """Log the metrics now and from time to time."""
        self._journal.report_metrics()
        loop = asyncio.get_running_loop()
        self._metrics_timer = loop.call_later(METRICS_SECONDS, self._report_metrics)

    async def _play_matches(self) -> None:
        """Play all matches; clients of the next one are seated while the last one is closed."""
        while True:
            await self._match.play()
            self._journal.metrics.matches += 1
            self.n_cut_short += self._match.games < self.settings.games
            if self.matches == self.settings.matches:
                return
            over, self._match = self._match, self._new_match()
            self._journal.report_metrics()
            await over.close()

    def _check_open(self) -> None:
        """Raise Refused if all seats of the match are taken."""
        self._match.check_open()

    def _admit(self, connection: socket.socket, profile: Table, host: str, address: str) -> None:
        """Give a seat to a client that sent its profile.

        Raises:
            Refused: it gets no seat.
        """
        name = self._match.check(profile, host)
        self._lobby.check_crowd(host)
        shares = host in self._seating.values() or self._match.n_clients(host) > 0
        seating = asyncio.ensure_future(self._seat(connection, name, host, address, shares))
        self._seating[seating] = host
        seating.add_done_callback(self._seating.pop)

    async def _seat(
        self, connection: socket.socket, name: str, host: str, address: str, shares: bool
    ) -> None:
        """Give a seat to a client after a delay, unless it must be refused by then.

        The delay shows whether its address opens many connections; it is longer if the address does
        or has a seat already.
        """
        reader, writer = await open_stream(connection)
        try:
            await _watch(reader, WATCH_SECONDS)
            if shares or self._lobby.has_many(host):
                await _watch(reader, self.settings.sharing_seconds)
            self._lobby.check_rate(host)
            self._match.take_seat(Client(reader, writer, name, host, address))
        except Refused as refused:
            writer.write(tables.int_to_bytes(refused.code))
            writer.close()
            self._lobby.log(address, refused)
        except asyncio.CancelledError:
            writer.transport.abort()
            raise

    async def _close(self) -> None:
        """Close all connections."""
        if self._metrics_timer:
            self._metrics_timer.cancel()
        self._lobby.close()
        seating = list(self._seating)
        for each in seating:
            each.cancel()
        await asyncio.gather(*seating, return_exceptions=True)
        self._journal.report_metrics()
        await self._match.close()
