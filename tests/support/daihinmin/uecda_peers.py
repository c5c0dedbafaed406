"""A server in a thread, and correct and faulty clients, for tests of server and client."""

from __future__ import annotations

import asyncio
import json
import queue
import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.records.replay import Report, replay
from afterstate.envs.daihinmin.rules import Game, write_legal
from afterstate.envs.daihinmin.uecda import tables
from afterstate.envs.daihinmin.uecda.client import Connection, Result, play_match
from afterstate.envs.daihinmin.uecda.client_view import ClientView
from afterstate.envs.daihinmin.uecda.hosting import NamedPlayer, Score
from afterstate.envs.daihinmin.uecda.server import Server
from afterstate.envs.daihinmin.uecda.settings import ServerSettings

SOON = 60.0
"""Time limit for events that take a second or two; only failing tests wait for so long."""


class RandomPlayer:
    """A player of random legal plays and gifts, which passes only where it must follow."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.out = np.empty(plays.N_PLAYS, np.int64)

    def choose(self, view: Game) -> int:
        """Return a random legal play."""
        n = write_legal(view, self.out)
        index = self.random.randrange(n + (view["field"] != plays.PASS))
        return int(self.out[index]) if index < n else plays.PASS

    def give(self, view: Game, n: int) -> int:
        """Return random cards of the hand."""
        held = cards.text(view["hands"][view["viewer"]]).split()
        return cards.parse(" ".join(self.random.sample(held, n)))


class Recorder(RandomPlayer):
    """A random player that stores its views."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seen: list[Game] = []

    def choose(self, view: Game) -> int:
        """Return a random legal play."""
        self.seen.append(view.copy())
        return super().choose(view)

    def give(self, view: Game, n: int) -> int:
        """Return random cards of the hand."""
        self.seen.append(view.copy())
        return super().give(view, n)


class Running:
    """A server that runs in another thread."""

    def __init__(self, server: Server, pool: ThreadPoolExecutor) -> None:
        self.server = server
        self.port = 0
        self._pool = pool
        self._ports: queue.Queue[int] = queue.Queue()
        self._stop: Callable[[], object] = lambda: None
        self._block: Callable[[float], object] = lambda seconds: None
        self._match: Future[list[Score]] = pool.submit(asyncio.run, self._run())

    async def _run(self) -> list[Score]:
        """Run the match, which another thread can stop."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._stop = partial(loop.call_soon_threadsafe, task.cancel)
        self._block = lambda seconds: loop.call_soon_threadsafe(partial(time.sleep, seconds))
        return await self.server.run(self._ports.put)

    def wait_until_listening(self) -> None:
        """Wait until clients can connect."""
        self.port = self._ports.get(timeout=SOON)

    def result(self) -> list[Score]:
        """Return the standings at the end of the match."""
        return self._match.result(timeout=SOON)

    def block(self, seconds: float) -> None:
        """Make the server busy for some time, in which it neither accepts nor reads."""
        with suppress(RuntimeError):  # the loop may be closed by now
            self._block(seconds)

    def stop(self) -> None:
        """Stop a match that is not over."""
        if not self._match.done():
            with suppress(RuntimeError):  # the loop may be closed by now
                self._stop()

    def join(self, seed: int, player: RandomPlayer | None = None) -> Future[Result]:
        """Start a correct client in another thread."""
        return self.spawn(
            lambda: play_match(
                ("127.0.0.1", self.port), player or RandomPlayer(seed), f"c{seed}", SOON
            )
        )

    def spawn(self, work: Callable[[], Any]) -> Future[Any]:
        """Start work in another thread."""
        return self._pool.submit(work)

    def events(self, kind: str, n: int = 0) -> list[dict[str, Any]]:
        """Return the events of one kind, once there are `n` of them."""
        file = self.server.settings.events
        assert file is not None
        deadline = time.monotonic() + SOON
        while time.monotonic() < deadline:
            entries = [json.loads(line) for line in file.read_text().splitlines()]
            matching = [entry for entry in entries if entry["event"] == kind]
            if len(matching) >= n:
                return matching
            time.sleep(0.02)
        raise TimeoutError(f"{len(matching)} of {n} events {kind!r}: {entries}")

    def games(self) -> list[dict[str, Any]]:
        """Return the logged games."""
        file = self.server.settings.log
        assert file is not None
        return [json.loads(line) for line in file.read_text().splitlines()]

    def replayed(self) -> Report:
        """Replay the log by the rules."""
        assert self.server.settings.log is not None
        return replay(self.server.settings.log)


@contextmanager
def serving(
    folder: Path,
    built_in: int | Sequence[Player] = 0,
    replacements: Sequence[NamedPlayer] = (),
    **settings: Any,
) -> Iterator[Running]:
    """Run a server whose first seats have built-in players, random ones by default."""
    players = (
        [RandomPlayer(100 + i) for i in range(built_in)] if isinstance(built_in, int) else built_in
    )
    seats = tuple((f"built_in{number}", player) for number, player in enumerate(players))
    files = {"log": folder / "games.jsonl", "events": folder / "events.jsonl"}
    defaults: dict[str, Any] = {"port": 0, "seed": 1, "reply_seconds": SOON, "sharing_seconds": 0}
    with ThreadPoolExecutor(16) as pool:
        server = Server(ServerSettings(**defaults | files | settings), seats, replacements)
        running = Running(server, pool)
        try:
            running.wait_until_listening()
            yield running
        finally:
            running.stop()


class Raw:
    """A client of random plays, parts of which a test replaces.

    Args:
        port: port of the server.
        play: returns the bytes of its plays.
        gift: returns the bytes of its gifts.
        watch: called when another player is to move.
        seed: seed of its random plays.
        host: its own address.
    """

    def __init__(
        self,
        port: int,
        play: Answer | None = None,
        gift: Answer | None = None,
        watch: Callable[[], None] | None = None,
        seed: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), SOON, (host, 0))
        self.connection = Connection(self.socket, SOON)
        self.player = RandomPlayer(seed)
        self.client_view = ClientView(0)
        self._play, self._gift, self._watch = play or honest_play, gift or honest_gift, watch

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self.socket.sendall(data)

    def join(self, name: str = "raw") -> int:
        """Send the profile and return the client's number."""
        self.connection.send(tables.profile_table(name))
        number = self.connection.number("number", range(5))
        self.client_view = ClientView(number)
        return number

    def rest(self) -> bytes:
        """Return all that the server sends until it hangs up."""
        data = b""
        with suppress(ConnectionError):
            while more := self.socket.recv(1 << 16):
                data += more
        return data

    def is_cut(self) -> bool:
        """Read until the server hangs up, then return True."""
        self.rest()
        return True

    def play_match(self) -> list[int]:
        """Play to the end of the match; return the points."""
        end = tables.MORE
        while end != tables.MATCH_OVER:
            self.client_view.read_start(self.connection.table())
            if self.client_view.view["to_give"]:
                self.send(self._gift(self, self.client_view.view))
            end = self._play_game()
        return self.client_view.points

    def _play_game(self) -> int:
        """Play a game from its first turn on."""
        end = tables.MORE
        while end == tables.MORE:
            if self.client_view.read_turn(self.connection.table()):
                self.send(self._play(self, self.client_view.view))
                self.connection.number("answer", (8, 9))
            elif self._watch:
                self._watch()
            self.client_view.read_field(self.connection.table())
            end = self.connection.number("end", (0, 1, 2))
        return end


Answer = Callable[[Raw, Game], bytes]
"""Returns the bytes that a client sends, given itself and its view."""


def honest_play(client: Raw, view: Game) -> bytes:
    """Return a random legal play."""
    return tables.to_bytes(tables.play_table(client.player.choose(view)))


def honest_gift(client: Raw, view: Game) -> bytes:
    """Return random cards of the hand."""
    n = int(view["to_give"])
    return tables.to_bytes(tables.gift_table(client.player.give(view, n)))
