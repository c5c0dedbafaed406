"""A server of the competition's protocol 20070: a match of five clients or built-in players.

    python -m afterstate.envs.daihinmin.uecda.server --games 100 --log games.jsonl --seats random

No client can stop the match. The server logs which clients it refuses or drops and why; the seat of
a dropped client passes. A client that does not answer in time is dropped for good, because its late
answer would count as its next one. While a built-in player thinks, the server does nothing else.

Built-in players get the lowest numbers, clients the next ones in the order of their profiles.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afterstate.envs import commands
from afterstate.envs.daihinmin import players
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.plays import PASS
from afterstate.envs.daihinmin.records import recording
from afterstate.envs.daihinmin.rules import ACCEPTED, N_PLAYERS
from afterstate.envs.daihinmin.uecda import tables
from afterstate.envs.daihinmin.uecda.journal import Journal
from afterstate.envs.daihinmin.uecda.seats import (
    MAX_EARLY,
    ClientSeat,
    Gone,
    PlayerSeat,
    Seat,
    read_table,
)
from afterstate.envs.words import draw_word

LOGGER = logging.getLogger(__name__)
MAX_GREETINGS = 32
"""Maximum number of connections without a seat."""
GOODBYE_SECONDS = 2.0
"""Time for clients to read the rest when the match is over."""
BATCH_SECONDS = 0.005
"""Delay of messages to clients that are not in turn; among fast players this saves half of them."""

NamedPlayer = tuple[str, players.Player]
"""A built-in player and its name."""


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a match."""

    host: str = "127.0.0.1"
    """Address to listen on; the default is reachable from this machine only, 0.0.0.0 from all
    networks."""
    port: int = tables.PORT
    """Port to listen on; 0: any free port."""
    games: int = 100
    """Number of games."""
    seed: int | None = None
    """Seed of deals, seats, drawn places and built-in random players; by default random."""
    match: str = ""
    """Name of the match in the log; by default the time of its start."""
    log: Path | None = None
    """File to which finished games are appended, in the format of recorded games."""
    events: Path | None = None
    """File to which events (connections, drops, results) are appended, as JSON lines."""
    handshake_seconds: float = 5.0
    """Time limit for a client to send its profile, in seconds."""
    reply_seconds: float = 10.0
    """Time limit for each answer of a client, in seconds; a late client is dropped and passes."""
    wait_seconds: float = 0.0
    """Time limit for all seats to be filled, in seconds; 0: none."""


class Score(NamedTuple):
    """Name and points of one player."""

    name: str
    points: int


class Server:
    """One match, from the first connection to the last result.

    Args:
        settings: settings of the match.
        own: built-in players that take the first seats.

    Raises:
        ValueError: a wrong setting.
        OSError: a file cannot be written.
    """

    def __init__(
        self, settings: ServerSettings | None = None, own: Sequence[NamedPlayer] = ()
    ) -> None:
        self.settings = settings or ServerSettings()
        _check(self.settings, len(own))
        seed = self.settings.seed
        self._seed = draw_word(np.random.default_rng()) if seed is None else seed
        self._match = new_match(self._seed)
        self._title = self.settings.match or time.strftime("%Y%m%d%H%M%S")
        self._field = tables.NOTHING
        self._greetings: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._is_full = asyncio.Event()
        self._is_over = False
        self._flushing: asyncio.TimerHandle | None = None
        self._seats: list[Seat | None] = [None] * N_PLAYERS
        for number, (name, player) in enumerate(own):
            self._seats[number] = PlayerSeat(player, name, number, self._on_gone(number))
        self.games = 0
        """Number of finished games."""
        self._journal = Journal(self.settings.log, self.settings.events)

    async def run(self, on_listening: Callable[[int], None] | None = None) -> list[Score]:
        """Wait for the clients and play the match.

        Args:
            on_listening: called with the port once clients can connect.

        Returns:
            Names and points by player. The match ends early if all players are gone.

        Raises:
            OSError: the server cannot listen on the port, or a file cannot be written.
            TimeoutError: not all seats were filled in time.
        """
        try:
            listener = await self._listen()
            try:
                await self._play_match(listener.sockets[0].getsockname()[1], on_listening)
            finally:
                listener.close()
                await self._close_connections()
                text = f"{self.games} of {self.settings.games} games played"
                self._journal.event("over", text, **self._facts())
        finally:
            self._journal.close()
        return self.standings()

    async def _listen(self) -> asyncio.Server:
        """Start to listen for clients."""
        host, port = self.settings.host, self.settings.port
        try:
            return await asyncio.start_server(self._connected, host, port, limit=MAX_EARLY)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            fix = "choose another --host or --port; --port 0 takes any free port"
            raise OSError(f"cannot listen on {host}:{port} ({why}): {fix}") from error

    def standings(self) -> list[Score]:
        """Return names and points of all finished games, by player."""
        names = [seat.name if seat else "" for seat in self._seats]
        points = self._match["points"].tolist()
        return [Score(*pair) for pair in zip(names, points, strict=True)]

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Greet a new connection."""
        if self._is_over:
            writer.transport.abort()
            return
        if len(self._greetings) >= MAX_GREETINGS:  # drop the oldest
            self._greetings.pop(next(iter(self._greetings))).transport.abort()
        greeting = asyncio.ensure_future(self._greet(reader, writer))
        self._greetings[greeting] = writer
        greeting.add_done_callback(lambda done: self._greetings.pop(done, None))

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Give the next number to a client that sends its profile, or refuse it."""
        address = "{}:{}".format(*writer.get_extra_info("peername", ("?", "?"))[:2])
        try:
            name = await self._read_name(reader, writer)
            self._take_seat(reader, writer, name, address)
        except Gone as why:
            text = f"refused {address}: it {why}"
            self._journal.event("refused", text, logging.WARNING, address=address, why=str(why))
            writer.close()

    async def _read_name(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """Return the name in a client's profile.

        Raises:
            Gone: the client cannot play.
        """
        if self._free_number() is None:
            raise Gone("came when all seats were taken")
        try:
            profile = await read_table(reader, writer, self.settings.handshake_seconds)
        except Gone as why:
            raise Gone(f"{why}: no profile; clients of protocol 20060 send none") from why
        version, name = tables.read_profile(profile)
        if version != tables.PROTOCOL:
            raise Gone(f"asked for protocol {version}; this server speaks {tables.PROTOCOL} only")
        return name or "unnamed"

    def _free_number(self) -> int | None:
        """Return the lowest free number; clients that hung up before the match lose theirs."""
        if self._is_full.is_set():
            return None
        for number, seat in enumerate(self._seats):
            if isinstance(seat, ClientSeat) and seat.has_hung_up():
                seat.drop("hung up")
                self._seats[number] = None
        return self._seats.index(None) if None in self._seats else None

    def _take_seat(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str, address: str
    ) -> None:
        """Give a client its number; the fifth starts the match."""
        number = self._free_number()
        if number is None:
            raise Gone("came when all seats were taken")
        limit, on_gone = self.settings.reply_seconds, self._on_gone(number)
        self._seats[number] = seat = ClientSeat(reader, writer, name, limit, on_gone)
        text = f"player {number} is {name!r} from {address}"
        self._journal.event("connected", text, player=number, name=name, address=address)
        seat.send(tables.int_bytes(number))
        seat.flush()
        if self._free_number() is None:
            self._is_full.set()

    def _on_gone(self, number: int) -> Callable[[str], None]:
        """Return the function that logs the drop of a player."""

        def log_drop(why: str) -> None:
            seat, game = self._seats[number], int(self._match["number"])
            name = seat.name if seat else ""
            when = f"in game {game}" if game else "before the match"
            text = f"player {number} ({name!r}) is dropped {when}: it {why}"
            who: dict[str, Any] = {"player": number, "name": name, "game": game}
            self._journal.event("dropped", text, logging.WARNING, why=why, **who)

        return log_drop

    async def _wait_for_players(self) -> None:
        """Wait until all seats are taken."""
        if self._free_number() is None:
            self._is_full.set()
        try:
            await asyncio.wait_for(self._is_full.wait(), self.settings.wait_seconds or None)
        except asyncio.TimeoutError as error:
            missing = self._seats.count(None)
            raise TimeoutError(
                f"{missing} of {N_PLAYERS} players are missing after "
                f"{self.settings.wait_seconds:g} seconds: start them, or fill seats with --seats"
            ) from error

    async def _play_match(self, port: int, on_listening: Callable[[int], None] | None) -> None:
        """Wait for the players and play all games."""
        settings = self.settings
        text = f"listening on {settings.host}:{port} for {self._seats.count(None)} clients"
        facts: dict[str, Any] = {"host": settings.host, "port": port, "seed": self._seed}
        self._journal.event("listening", text, match=self._title, **facts)
        if on_listening:
            on_listening(port)
        await self._wait_for_players()
        while self.games < settings.games and not all(seat.gone for seat in self._table()):
            game = await self._play_game()
            self._journal.game(game, self._match["points"].tolist())
            self.games += 1

    def _table(self) -> list[Seat]:
        """Return the five taken seats, by player."""
        return [seat for seat in self._seats if seat]

    def _facts(self) -> dict[str, Any]:
        """Return the result for the file of events."""
        names, points = zip(*self.standings(), strict=True)
        return {"games": self.games, "names": names, "points": points}

    def _send(self, messages: Sequence[bytes]) -> None:
        """Queue a message for each player."""
        for seat, message in zip(self._table(), messages, strict=True):
            seat.send(message)

    def _seat_in_turn(self) -> Seat:
        """Return the seat in turn: it gets its messages now, the others soon."""
        seat = self._table()[int(self._match["turn"])]
        if not isinstance(seat, ClientSeat):
            self._flush()  # nothing can be sent while a built-in player thinks
            return seat
        seat.flush()
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._flush)
        return seat

    def _flush(self) -> None:
        """Send all queued messages."""
        if self._flushing:
            self._flushing.cancel()
            self._flushing = None
        for seat in self._table():
            seat.flush()

    async def _play_game(self) -> recording.Entry:
        """Play the next game and return its log entry."""
        match = self._match
        next_game(match)
        self._field = tables.NOTHING
        names = [seat.name for seat in self._table()]
        game = recording.opening(match, names, self._title)
        self._send(tables.messages(tables.start_tables(match)))
        while match["to_give"]:
            cards = tables.gift(await self._seat_in_turn().give(match))
            game["exchange"].append(recording.gift(match, cards))
        game |= recording.lead(match)
        game["actions"] = []
        while match["turn"] >= 0:
            game["actions"].append(await self._act())
        game["finish"] = recording.finish(match)
        return game

    async def _act(self) -> recording.Entry:
        """Play one action: ask the player in turn and send the result to all."""
        match = self._match
        self._send(tables.messages(tables.turn_tables(match)))
        seat = self._seat_in_turn()
        submission = tables.submission(await seat.play(match))
        action = recording.action(match, submission.play, submission.text)
        if action["ack"] == ACCEPTED and submission.play != PASS:
            self._field = submission
        seat.send(tables.int_bytes(action["ack"]))
        self._send([self._field_message(action) + tables.int_bytes(self._end())] * N_PLAYERS)
        if action["flow"]:
            self._field = tables.NOTHING
        return action

    def _field_message(self, action: recording.Entry) -> bytes:
        """Return the field table after an action, as it was before the end of the trick."""
        play, _, joker = self._field
        if joker:
            self._match["joker_column"] = joker[1]
        state = tables.state_of(self._match)._replace(
            player=action["p"], is_empty=play == PASS, lock=bool(action["lock"])
        )
        return tables.to_bytes(tables.field_table(state, play, joker))

    def _end(self) -> int:
        """Return the number that clients get after an action."""
        if self._match["turn"] >= 0:
            return tables.MORE
        is_last = self._match["number"] == self.settings.games
        return tables.MATCH_OVER if is_last else tables.GAME_OVER

    async def _close_connections(self) -> None:
        """Close all connections."""
        self._is_over = True
        if self._flushing:
            self._flushing.cancel()
        greetings = list(self._greetings)
        for greeting in greetings:
            self._greetings[greeting].transport.abort()
            greeting.cancel()
        closing = [seat.close(GOODBYE_SECONDS) for seat in self._seats if seat]
        await asyncio.gather(*greetings, *closing, return_exceptions=True)


def _check(settings: ServerSettings, n_players: int) -> None:
    """Raise ValueError for settings that no match can be played with."""
    if not 0 <= settings.port < 2**16:
        raise ValueError(f"port must be in 0..65535, got {settings.port}")
    if settings.games < 1:
        raise ValueError(f"games must be >= 1, got {settings.games}")
    if n_players > N_PLAYERS:
        raise ValueError(f"seats must be at most {N_PLAYERS}, got {n_players}")
    if settings.seed is not None and not 0 <= settings.seed < 2**64:
        raise ValueError(f"seed must be in 0..2**64 - 1, got {settings.seed}")
    for name in ("handshake_seconds", "reply_seconds"):
        if not getattr(settings, name) > 0:
            raise ValueError(f"{name} must be > 0, got {getattr(settings, name)}")
    if not settings.wait_seconds >= 0:
        raise ValueError(f"wait_seconds must be >= 0, got {settings.wait_seconds}")


@dataclass(frozen=True)
class Args(ServerSettings):
    """Play a match of Daihinmin with clients of the UEC competition's protocol 20070.

    The standings go to stdout, events to stderr. Ctrl-C and SIGTERM end the match and print the
    results so far.
    """

    seats: tuple[str, ...] = ()
    """Built-in players, by name or file, that fill the first seats."""
    log: Path | None = field(
        default_factory=lambda: Path(time.strftime("uecda-%Y%m%d%H%M%S.jsonl"))
    )
    """File to which finished games are appended, in the format of recorded games."""
    no_log: bool = False
    """Keep no games."""


def _server(args: Args) -> Server:
    """Return the server of a command line."""
    settings = {name: getattr(args, name) for name in ServerSettings.__dataclass_fields__}
    if args.no_log:
        settings["log"] = None
    rng = np.random.default_rng(None if args.seed is None else args.seed % 2**64)
    seeds = rng.integers(2**63, size=len(args.seats)).tolist()
    seated = zip(args.seats, seeds, strict=True)
    return Server(
        ServerSettings(**settings), [(name, players.resolve(name, seed)) for name, seed in seated]
    )


def _print_standings(server: Server) -> None:
    """Print the number of games and the standings, best player first."""
    print(f"{server.games:,} of {server.settings.games:,} games")
    scores = enumerate(server.standings())
    for number, (name, points) in sorted(scores, key=lambda score: -score[1].points):
        print(f"{points:7,} points  player {number}  {name}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 after a whole match, 130 after Ctrl-C, otherwise 1."""
    args = commands.parse(Args, "python -m afterstate.envs.daihinmin.uecda.server", arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        server = _server(args)
    except (ValueError, OSError) as error:
        commands.fail(error)
    try:
        asyncio.run(server.run())
        code = int(server.games < args.games)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 130
    if server.games:
        _print_standings(server)
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    sys.exit(main())
