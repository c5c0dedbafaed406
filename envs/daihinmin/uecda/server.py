"""A server of the competition's protocol 20070: a match of five clients, or of players of our own.

    python -m afterstate.envs.daihinmin.uecda.server --games 100 --log games.jsonl --seats random

Whatever a client does, the match goes on: who is refused or dropped, and why, is logged, and the
seat of a client that is dropped passes. Nothing tells a late answer from the next one, so that a
client which does not answer in time is dropped for good. While a player of our own thinks, the
server does nothing else.

Own players have the lowest numbers, clients the next ones in the order of their profiles.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afterstate.envs.daihinmin import players
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.plays import PASS
from afterstate.envs.daihinmin.records import recording
from afterstate.envs.daihinmin.rules import ACCEPTED, N_PLAYERS
from afterstate.envs.daihinmin.uecda import tables
from afterstate.envs.daihinmin.uecda.seats import (
    MAX_EARLY,
    ClientSeat,
    Gone,
    OwnSeat,
    Seat,
    read_table,
)
from afterstate.envs.words import draw_word

LOGGER = logging.getLogger(__name__)
MAX_GREETINGS = 32
"""Connections that may be without a seat at the same time."""
GOODBYE_SECONDS = 2.0
"""How long clients may read what is left when the match is over."""
TELL_SECONDS = 0.005
"""After which clients that are not in turn are told what happened: where all play fast, this saves
half of the messages."""
PROGRESS_SECONDS = 10.0
"""Between two lines about the games played."""


class Settings(NamedTuple):
    """What a match is played with."""

    host: str = "127.0.0.1"
    port: int = tables.PORT
    """0: any that is free."""
    games: int = 100
    seed: int | None = None
    """Of deals, seats and drawn places; None: drawn."""
    own: tuple[tuple[str, players.Player], ...] = ()
    """Names and players that fill seats in the server's process."""
    match: str = ""
    """The name of the match in the log; by default the time of its start."""
    log: Path | None = None
    """Finished games are appended, a line each, in the recorded format."""
    events: Path | None = None
    """What happens is appended, a JSON object a line."""
    handshake_seconds: float = 5.0
    """Within which a client must send its profile."""
    reply_seconds: float = 10.0
    """Within which a client must answer."""
    wait_seconds: float = 0.0
    """Within which the seats must be filled; 0: for ever."""


class Standing(NamedTuple):
    """One player's part in a match."""

    name: str
    points: int


class Lines:
    """A file to which JSON lines are appended, each at once and whole or not at all.

    Args:
        path: the file; a last line that was cut off is ended first. None: nothing is written.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = open(path, "a+b", buffering=0) if path else None
        if self._file and self._file.seekable() and self._file.seek(0, os.SEEK_END):
            self._file.seek(-1, os.SEEK_END)
            if self._file.read(1) != b"\n":
                self._file.write(b"\n")

    def append(self, entry: recording.Entry) -> None:
        """Appends a line.

        Raises:
            OSError: it cannot be written; what was written of it is taken back.
        """
        if not self._file:
            return
        start = os.fstat(self._file.fileno()).st_size
        data = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), start)
            raise

    def close(self) -> None:
        """Closes the file."""
        if self._file:
            self._file.close()
        self._file = None


class Journal:
    """What is written of a match as it goes: games, events, and lines for people.

    Who kills the server loses the running game. A game that cannot be written ends the match; an
    event that cannot be written ends the file of events.
    """

    def __init__(self, log: Path | None, events: Path | None) -> None:
        self._log = Lines(log)
        self._events = Lines(events)
        self._told = time.monotonic()

    def event(self, kind: str, text: str, level: int = logging.INFO, **facts: Any) -> None:
        """Something happened: a sentence for people, facts for programs."""
        LOGGER.log(level, "%s", text)
        seconds = round(time.time(), 3)
        try:
            self._events.append({"time": seconds, "event": kind, "text": text} | facts)
        except OSError as error:
            LOGGER.warning("events are written no more: %s", error)
            self._events.close()

    def game(self, game: recording.Entry, points: list[int]) -> None:
        """A game is over.

        Raises:
            OSError: it cannot be written.
        """
        self._log.append(game)
        refused = [0] * N_PLAYERS
        for action in game["actions"]:
            refused[action["p"]] += action["ack"] != ACCEPTED and action["m"] != "pass"
        facts: dict[str, Any] = {"game": game["game"], "finish": game["finish"], "points": points}
        text = f"game {game['game']} is over, points {points}"
        self.event("game", text, self._level(), **facts, illegal=refused)

    def _level(self) -> int:
        """How loud the next result is: people are told one in 10 seconds."""
        if time.monotonic() - self._told < PROGRESS_SECONDS:
            return logging.DEBUG
        self._told = time.monotonic()
        return logging.INFO

    def close(self) -> None:
        """Closes the files."""
        self._log.close()
        self._events.close()


class Server:
    """One match, from the first connection to the last result.

    Args:
        settings: what the match is played with.

    Raises:
        ValueError: a wrong setting.
        OSError: a file cannot be written.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        _check(self.settings)
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
        for number, (name, player) in enumerate(self.settings.own):
            self._seats[number] = OwnSeat(player, name, number, self._on_gone(number))
        self.games = 0
        """Games that have been played to their end."""
        self._journal = Journal(self.settings.log, self.settings.events)

    async def run(self, on_listening: Callable[[int], None] | None = None) -> list[Standing]:
        """Waits for the clients and plays the match.

        Args:
            on_listening: told the port as soon as clients can connect.

        Returns:
            The standings. The match ends early when nobody is left.

        Raises:
            OSError: the port cannot be listened on, or a file not written.
            TimeoutError: not all seats were filled in time.
        """
        try:
            listener = await self._listen()
            try:
                await self._play_match(listener.sockets[0].getsockname()[1], on_listening)
            finally:
                listener.close()
                await self._say_goodbye()
                text = f"{self.games} of {self.settings.games} games played"
                self._journal.event("over", text, **self._facts())
        finally:
            self._journal.close()
        return self.standings()

    async def _listen(self) -> asyncio.Server:
        """Lets clients connect from now on."""
        host, port = self.settings.host, self.settings.port
        try:
            return await asyncio.start_server(self._connected, host, port, limit=MAX_EARLY)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            fix = "choose another --host or --port; --port 0 is any that is free"
            raise OSError(f"cannot listen on {host}:{port} ({why}): {fix}") from error

    def standings(self) -> list[Standing]:
        """Names and points of all games that are over, by player."""
        names = [seat.name if seat else "" for seat in self._seats]
        points = self._match["points"].tolist()
        return [Standing(*pair) for pair in zip(names, points, strict=True)]

    # Before the match

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Someone has connected."""
        if self._is_over:
            writer.transport.abort()
            return
        if len(self._greetings) >= MAX_GREETINGS:  # the one that has been silent longest goes
            self._greetings.pop(next(iter(self._greetings))).transport.abort()
        greeting = asyncio.ensure_future(self._greet(reader, writer))
        self._greetings[greeting] = writer
        greeting.add_done_callback(lambda done: self._greetings.pop(done, None))

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Gives a client that sends its profile the next number, or refuses it."""
        address = "{}:{}".format(*writer.get_extra_info("peername", ("?", "?"))[:2])
        try:
            name = await self._read_name(reader, writer)
            self._take_seat(reader, writer, name, address)
        except Gone as why:
            text = f"refused {address}: it {why}"
            self._journal.event("refused", text, logging.WARNING, address=address, why=str(why))
            writer.close()

    async def _read_name(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """The name in a client's profile.

        Raises:
            Gone: it cannot play.
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
        """The lowest free number; who has hung up before the match begins has lost his."""
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
        """Gives a client its number; the fifth completes the match."""
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
        """What to do when a player is dropped."""

        def note(why: str) -> None:
            seat, game = self._seats[number], int(self._match["number"])
            name = seat.name if seat else ""
            when = f"in game {game}" if game else "before the match"
            text = f"player {number} ({name!r}) is dropped {when}: it {why}"
            who: dict[str, Any] = {"player": number, "name": name, "game": game}
            self._journal.event("dropped", text, logging.WARNING, why=why, **who)

        return note

    async def _wait_for_players(self) -> None:
        """Until all seats are taken."""
        if self._free_number() is None:
            self._is_full.set()
        try:
            await asyncio.wait_for(self._is_full.wait(), self.settings.wait_seconds or None)
        except asyncio.TimeoutError as error:
            missing = self._seats.count(None)
            raise TimeoutError(
                f"{missing} of {N_PLAYERS} players are missing after "
                f"{self.settings.wait_seconds:g} seconds: start them, or fill seats by --seats"
            ) from error

    # The match

    async def _play_match(self, port: int, on_listening: Callable[[int], None] | None) -> None:
        """Waits for the players and plays all games."""
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
        """The five seats, all taken, by player."""
        return [seat for seat in self._seats if seat]

    def _facts(self) -> dict[str, Any]:
        """The result for programs."""
        names, points = zip(*self.standings(), strict=True)
        return {"games": self.games, "names": names, "points": points}

    def _send(self, messages: Sequence[bytes]) -> None:
        """Keeps a message for each player."""
        for seat, message in zip(self._table(), messages, strict=True):
            seat.send(message)

    def _seat_in_turn(self) -> Seat:
        """The seat to be asked now: it is told at once what happened, the others soon."""
        seat = self._table()[int(self._match["turn"])]
        if not isinstance(seat, ClientSeat):
            self._flush()  # while a player of our own thinks, nothing can be sent
            return seat
        seat.flush()
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(TELL_SECONDS, self._flush)
        return seat

    def _flush(self) -> None:
        """Tells all clients what happened."""
        if self._flushing:
            self._flushing.cancel()
            self._flushing = None
        for seat in self._table():
            seat.flush()

    async def _play_game(self) -> recording.Entry:
        """Plays the next game; returns what is logged of it."""
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
        """One action: asks the player in turn and tells all what he did."""
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
        """The field table after an action, as it was before the trick flowed."""
        play, _, joker = self._field
        if joker:
            self._match["joker_column"] = joker[1]
        state = tables.state_of(self._match)._replace(
            player=action["p"], is_empty=play == PASS, lock=bool(action["lock"])
        )
        return tables.to_bytes(tables.field_table(state, play, joker))

    def _end(self) -> int:
        """What the clients are told after an action."""
        if self._match["turn"] >= 0:
            return tables.MORE
        is_last = self._match["number"] == self.settings.games
        return tables.MATCH_OVER if is_last else tables.GAME_OVER

    async def _say_goodbye(self) -> None:
        """Ends all connections."""
        self._is_over = True
        if self._flushing:
            self._flushing.cancel()
        greetings = list(self._greetings)
        for greeting in greetings:
            self._greetings[greeting].transport.abort()
            greeting.cancel()
        closing = [seat.close(GOODBYE_SECONDS) for seat in self._seats if seat]
        await asyncio.gather(*greetings, *closing, return_exceptions=True)


def _check(settings: Settings) -> None:
    """Raises a ValueError for settings that no match can be played with."""
    if not 0 <= settings.port < 2**16:
        raise ValueError(f"a port is a number from 0 to 65535, got {settings.port}")
    if settings.games < 1:
        raise ValueError(f"a match has one game or more, got {settings.games}")
    if len(settings.own) > N_PLAYERS:
        raise ValueError(f"there are {N_PLAYERS} seats, got {len(settings.own)} players for them")
    if settings.seed is not None and not 0 <= settings.seed < 2**64:
        raise ValueError(f"a seed is a number from 0 on, of 64 bits, got {settings.seed}")
    limits = settings.handshake_seconds, settings.reply_seconds
    if not (all(limit > 0 for limit in limits) and settings.wait_seconds >= 0):
        raise ValueError(f"time limits are above 0, got {limits} and {settings.wait_seconds}")


# The command


def _parser() -> argparse.ArgumentParser:
    """The options of the command."""
    default = Settings()
    parser = argparse.ArgumentParser(
        prog="python -m afterstate.envs.daihinmin.uecda.server",
        description="Plays a match of Daihinmin with clients of the UEC competition's protocol "
        "20070, or with players of our own. The standings go to stdout, what happens to stderr. "
        "Ctrl-C and SIGTERM end the match with the results so far.",
    )
    add = parser.add_argument
    hosts = "address to listen on (%(default)s: this machine alone; 0.0.0.0: all networks)"
    add("--host", default=default.host, help=hosts)
    ports = "port to listen on (%(default)s; 0: any that is free)"
    add("--port", type=int, default=default.port, metavar="N", help=ports)
    add("--games", type=int, default=default.games, metavar="N", help="(%(default)s)")
    add(
        "--seed",
        type=int,
        metavar="N",
        help="of deals, seats, drawn places and random players (drawn)",
    )
    own = "our own players, by name, that fill the first seats"
    add("--seats", nargs="+", default=[], metavar="PLAYER", help=own)
    add("--match", default="", metavar="NAME", help="name of the match in the log (the time)")
    log = "append each game, when it is over, in the format of recorded games (uecda-TIME.jsonl)"
    file = Path(time.strftime("uecda-%Y%m%d%H%M%S.jsonl"))
    add("--log", type=Path, default=file, metavar="FILE", help=log)
    add("--no-log", dest="log", action="store_const", const=None, help="keep no games")
    events = "append who came, was refused or dropped, and results, as JSON lines"
    add("--events", type=Path, metavar="FILE", help=events)
    limits = {
        "handshake": "limit for a client to send its profile (%(default)g)",
        "reply": "limit for each answer; who is late is dropped, and passes (%(default)g)",
        "wait": "limit for the seats to be filled (%(default)g; 0: none)",
    }
    for name, text in limits.items():
        seconds = getattr(default, f"{name}_seconds")
        add(f"--{name}-seconds", type=float, default=seconds, metavar="S", help=text)
    return parser


def _settings(options: argparse.Namespace) -> Settings:
    """The settings of the command's options."""
    values = {name: value for name, value in vars(options).items() if name in Settings._fields}
    rng = np.random.default_rng(None if options.seed is None else options.seed % 2**64)
    seeds = rng.integers(2**63, size=len(options.seats)).tolist()
    seated = zip(options.seats, seeds, strict=True)
    return Settings(
        **values, own=tuple((name, players.resolve(name, seed)) for name, seed in seated)
    )


def _print_standings(server: Server) -> None:
    """Writes the result for people."""
    print(f"{server.games:,} of {server.settings.games:,} games")
    standings = enumerate(server.standings())
    for number, (name, points) in sorted(standings, key=lambda standing: -standing[1].points):
        print(f"{points:7,} points  player {number}  {name}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: returns 0 after a whole match, 130 after Ctrl-C, otherwise 1."""
    parser = _parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        server = Server(_settings(options))
    except (ValueError, OSError) as error:
        parser.error(str(error))
    try:
        asyncio.run(server.run())
        code = int(server.games < options.games)
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
