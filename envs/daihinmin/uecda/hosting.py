"""One match at a server: its seats, and its course from the first client to the last result."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.plays import PASS
from afterstate.envs.daihinmin.records import recording
from afterstate.envs.daihinmin.rules import ACCEPTED, N_PLAYERS
from afterstate.envs.daihinmin.uecda import tables
from afterstate.envs.daihinmin.uecda.journal import Journal
from afterstate.envs.daihinmin.uecda.lobby import Refused
from afterstate.envs.daihinmin.uecda.seats import Client, ClientSeat, Clock, PlayerSeat, Seat
from afterstate.envs.daihinmin.uecda.settings import ServerSettings
from afterstate.envs.daihinmin.uecda.tables import RefusalCode, Table

GOODBYE_SECONDS = 2.0
"""Time for clients to read the rest when the match is over."""
BATCH_SECONDS = 0.005
"""Delay of messages to clients that are not in turn; among fast players this saves half of them."""

NamedPlayer = tuple[str, Player]
"""A built-in player and its name."""


class Score(NamedTuple):
    """Name and points of one player."""

    name: str
    points: int


class HostedMatch:
    """A match, from its first client to its last result.

    Args:
        settings: settings of the server.
        seed: seed of the match.
        title: name of the match in the log.
        journal: gets its games and events.
        built_in: built-in players that take the first seats.
        replacements: built-in players that take over the seats of lost clients, in this order;
            without one, a seat passes.
    """

    def __init__(
        self,
        settings: ServerSettings,
        seed: int,
        title: str,
        journal: Journal,
        built_in: Sequence[NamedPlayer] = (),
        replacements: Sequence[NamedPlayer] = (),
    ) -> None:
        self.games = 0
        """Number of finished games."""
        self._settings, self._title, self._journal = settings, title, journal
        self._match = new_match(seed)
        self._field = tables.NOTHING
        self._is_full = asyncio.Event()
        self._is_playing = False
        self._flushing: asyncio.TimerHandle | None = None
        self._replacements = list(replacements)
        self._seats: list[Seat | None] = [None] * N_PLAYERS
        for number, (name, player) in enumerate(built_in):
            self._seats[number] = PlayerSeat(player, name, number, self._on_gone(number))

    def standings(self) -> list[Score]:
        """Return names and points of all finished games, by player."""
        names = [seat.name if seat else "" for seat in self._seats]
        points = self._match["points"].tolist()
        return [Score(*pair) for pair in zip(names, points, strict=True)]

    def n_missing(self) -> int:
        """Return the number of seats that are not taken."""
        return self._seats.count(None)

    def check(self, profile: Table, host: str) -> str:
        """Return the name of a client that may take a seat, by its profile.

        Raises:
            Refused: it gets no seat.
        """
        version, name = tables.read_profile(profile)
        if version != tables.PROTOCOL:
            speaks = f"this server speaks {tables.PROTOCOL} only"
            raise Refused(RefusalCode.PROTOCOL, f"asked for protocol {version}; {speaks}")
        self._check_seat(host)
        return name or "unnamed"

    def check_open(self) -> None:
        """Free the seats of clients that left; raise Refused if all others are taken."""
        self._drop_leavers()
        if not self.n_missing():
            raise Refused(RefusalCode.FULL, "came when all seats were taken")

    def _check_seat(self, host: str) -> None:
        """Free the seats of clients that left; raise Refused if an address gets none."""
        self.check_open()
        if self.n_clients(host) >= self._settings.seats_per_address:
            raise Refused(RefusalCode.ADDRESS, "came when its address had its share of the seats")

    def n_clients(self, host: str) -> int:
        """Return the number of clients of an address."""
        return sum(isinstance(seat, ClientSeat) and seat.host == host for seat in self._seats)

    def _drop_leavers(self) -> None:
        """Free the seats of clients that left, unless the match is full."""
        if self._is_full.is_set():
            return
        for number, seat in enumerate(self._seats):
            if isinstance(seat, ClientSeat) and (reason := seat.leaving()):
                seat.drop(reason)
                self._seats[number] = None

    def _start_if_full(self) -> None:
        """Free the seats of clients that left; let the match start if all seats are taken."""
        self._drop_leavers()
        if not self.n_missing():
            self._is_full.set()

    def take_seat(self, client: Client) -> None:
        """Give a client the lowest free number; the fifth starts the match.

        Raises:
            Refused: it gets no seat.
        """
        self._check_seat(client.host)
        number, settings = self._seats.index(None), self._settings
        clock = Clock(
            settings.reply_seconds, settings.game_seconds, settings.client_match_seconds()
        )
        self._seats[number] = seat = ClientSeat(client, clock, self._on_gone(number))
        self._journal.metrics.accepted += 1
        text = f"player {number} is {client.name!r} from {client.address}"
        facts: dict[str, Any] = {"player": number, "name": client.name, "address": client.address}
        self._journal.visit("connected", text, **facts)
        seat.send(tables.int_to_bytes(number))
        seat.flush()
        self._start_if_full()

    def _on_gone(self, number: int) -> Callable[[str], None]:
        """Return the function that logs the loss of a player and replaces a client."""

        def lose(reason: str) -> None:
            seat, game = self._seats[number], int(self._match["number"])
            name = seat.name if seat else ""
            when = f"in game {game}" if game else "before the match"
            text = f"player {number} ({name!r}) is dropped {when}: it {reason}"
            log = self._journal.event if game else self._journal.visit
            self._journal.metrics.dropped += 1
            facts: dict[str, Any] = {"player": number, "name": name, "game": game, "why": reason}
            log("dropped", text, logging.WARNING, **facts)
            if self._is_playing and isinstance(seat, ClientSeat) and self._replacements:
                self._replace(number, name)

        return lose

    def _replace(self, number: int, lost: str) -> None:
        """Give the seat of a lost client to the next replacement."""
        by, player = self._replacements.pop(0)
        self._seats[number] = PlayerSeat(player, f"{by} for {lost}", number, self._on_gone(number))
        text = f"{by!r} plays on as player {number} for {lost!r}"
        facts: dict[str, Any] = {"player": number, "name": lost, "by": by}
        self._journal.event("replaced", text, game=int(self._match["number"]), **facts)

    async def play(self) -> None:
        """Wait for the players and play all games; end early if all players are gone.

        Raises:
            OSError: a game cannot be logged.
            TimeoutError: not all seats were filled in time.
        """
        await self._wait_for_players()
        self._is_playing = True
        while self.games < self._settings.games and not self._is_deserted():
            game = await self._play_game()
            self._journal.game(game, self._match["points"].tolist())
            self.games += 1
        self._is_playing = False

    def _is_deserted(self) -> bool:
        """Return True if all players are gone."""
        return all(seat.gone for seat in self._taken_seats())

    async def _wait_for_players(self) -> None:
        """Wait until all seats are taken."""
        self._start_if_full()
        limit = self._settings.wait_seconds
        try:
            await asyncio.wait_for(self._is_full.wait(), limit or None)
        except asyncio.TimeoutError as error:
            raise TimeoutError(
                f"{self.n_missing()} of {N_PLAYERS} players are missing after {limit:g} seconds: "
                "start them, or fill seats with --seats"
            ) from error

    def _taken_seats(self) -> list[Seat]:
        """Return the seats that are taken, by player: in a match all five."""
        return [seat for seat in self._seats if seat]

    def _send(self, messages: Sequence[bytes]) -> None:
        """Queue a message for each player."""
        for seat, message in zip(self._taken_seats(), messages, strict=True):
            seat.send(message)

    def _seat_in_turn(self) -> Seat:
        """Return the seat of the player in turn."""
        return self._taken_seats()[int(self._match["turn"])]

    def _flush_turn(self) -> None:
        """Send queued messages: those of the player in turn now, those of the others soon."""
        seat = self._seat_in_turn()
        if isinstance(seat, ClientSeat):
            seat.flush()
            if self._flushing is None:
                loop = asyncio.get_running_loop()
                self._flushing = loop.call_later(BATCH_SECONDS, self._flush)
        else:
            self._flush()  # nothing can be sent while a built-in player thinks

    def _flush(self) -> None:
        """Send all queued messages."""
        if self._flushing:
            self._flushing.cancel()
            self._flushing = None
        for seat in self._taken_seats():
            seat.flush()

    async def _answer(self, ask: Callable[[Seat], Awaitable[Table]]) -> Table:
        """Return the answer of the player in turn; if it is lost, that of its replacement."""
        self._flush_turn()
        seat, start = self._seat_in_turn(), time.monotonic()
        is_client = isinstance(seat, ClientSeat) and not seat.gone
        answer = await ask(seat)
        if is_client:
            self._journal.metrics.answered(time.monotonic() - start)
        replacement = self._seat_in_turn()
        return answer if replacement is seat else await ask(replacement)

    async def _play_game(self) -> recording.Entry:
        """Play the next game and return its log entry."""
        match = self._match
        next_game(match)
        self._field = tables.NOTHING
        names = [seat.name for seat in self._taken_seats()]
        game = recording.deal_entry(match, names, self._title)
        self._send(tables.messages(tables.start_tables(match)))
        while match["to_give"]:
            cards = tables.read_gift(await self._answer(lambda seat: seat.give(match)))
            game["exchange"].append(recording.give_and_record(match, cards))
        game |= recording.lead_entry(match)
        game["actions"] = []
        while match["turn"] >= 0:
            game["actions"].append(await self._act())
        game["finish"] = recording.finishing_order(match)
        return game

    async def _act(self) -> recording.Entry:
        """Play one action: ask the player in turn and send the result to all."""
        match = self._match
        self._send(tables.messages(tables.turn_tables(match)))
        submission = tables.read_submission(await self._answer(lambda seat: seat.play(match)))
        action = recording.play_and_record(match, submission.play, submission.text)
        if action["ack"] == ACCEPTED and submission.play != PASS:
            self._put_on_field(submission)
        self._taken_seats()[action["p"]].send(tables.int_to_bytes(action["ack"]))
        self._send([self._field_message(action) + tables.int_to_bytes(self._end())] * N_PLAYERS)
        if action["flow"]:
            self._field = tables.NOTHING
        return action

    def _put_on_field(self, submission: tables.Submission) -> None:
        """Put an accepted play on the field, a lone joker in the column that its player chose."""
        self._field = submission
        if submission.joker:
            self._match["joker_column"] = submission.joker[1]

    def _field_message(self, action: recording.Entry) -> bytes:
        """Return the field table after an action, as it was before the end of the trick."""
        play, _, joker = self._field
        state = tables.state_of(self._match)._replace(
            player=action["p"], is_empty=play == PASS, lock=bool(action["lock"])
        )
        return tables.to_bytes(tables.field_table(state, play, joker))

    def _end(self) -> int:
        """Return the number that clients get after an action."""
        if self._match["turn"] >= 0:
            return tables.MORE
        is_last = self._match["number"] == self._settings.games
        return tables.MATCH_OVER if is_last else tables.GAME_OVER

    async def close(self) -> None:
        """Close the connections of all clients, and log the result, also if this is cancelled."""
        if self._flushing:
            self._flushing.cancel()
        closing = [seat.close(GOODBYE_SECONDS) for seat in self._taken_seats()]
        try:
            await asyncio.gather(*closing, return_exceptions=True)
        finally:
            self._log_result()

    def _log_result(self) -> None:
        """Log the names and points of all players."""
        names, points = zip(*self.standings(), strict=True)
        facts: dict[str, Any] = {"games": self.games, "names": names, "points": points}
        text = f"{self.games} of {self._settings.games} games played"
        self._journal.event("over", text, match=self._title, **facts)
