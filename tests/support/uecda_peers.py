"""A server in a thread, and clients good and bad: what the tests of server and client share."""

from __future__ import annotations

import asyncio
import json
import queue
import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.records.replay import Report, replay
from afterstate.envs.daihinmin.rules import Game, list_legal
from afterstate.envs.daihinmin.uecda import tables
from afterstate.envs.daihinmin.uecda.client import Connection, Result, play_match
from afterstate.envs.daihinmin.uecda.server import Server, Settings, Standing
from afterstate.envs.daihinmin.uecda.watching import Watcher

SOON = 60.0
"""A limit for what happens within a second or two: only a test that fails waits for so long."""


class RandomPlayer:
    """Plays at random, passes only where it must follow, and gives random cards."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.out = np.empty(plays.N_PLAYS, np.int64)

    def choose(self, view: Game) -> int:
        """A random legal play."""
        n = list_legal(view, self.out)
        chosen = self.random.randrange(n + (view["field"] != plays.PASS))
        return int(self.out[chosen]) if chosen < n else plays.PASS

    def give(self, view: Game, n: int) -> int:
        """Random cards."""
        held = cards.text(view["hands"][view["viewer"]]).split()
        return cards.parse(" ".join(self.random.sample(held, n)))


class Recorder(RandomPlayer):
    """Keeps the views that it is asked with."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seen: list[Game] = []

    def choose(self, view: Game) -> int:
        """A random legal play."""
        self.seen.append(view.copy())
        return super().choose(view)

    def give(self, view: Game, n: int) -> int:
        """Random cards."""
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
        self._match: Future[list[Standing]] = pool.submit(asyncio.run, self._run())

    async def _run(self) -> list[Standing]:
        """The match, which can be stopped from another thread."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._stop = partial(loop.call_soon_threadsafe, task.cancel)
        return await self.server.run(self._ports.put)

    def wait_until_listening(self) -> None:
        """Until clients can connect."""
        self.port = self._ports.get(timeout=SOON)

    def result(self) -> list[Standing]:
        """The standings, when the match is over."""
        return self._match.result(timeout=SOON)

    def stop(self) -> None:
        """Stops a match that has not come to its end."""
        if not self._match.done():
            self._stop()

    def join(self, seed: int, player: RandomPlayer | None = None) -> Future[Result]:
        """A good client, in a thread of its own."""
        return self.spawn(
            lambda: play_match(
                ("127.0.0.1", self.port), player or RandomPlayer(seed), f"c{seed}", SOON
            )
        )

    def spawn(self, work: Callable[[], Any]) -> Future[Any]:
        """Does something in another thread."""
        return self._pool.submit(work)

    # What it wrote

    def events(self, kind: str, n: int = 0) -> list[dict[str, Any]]:
        """Its events of one kind, when there are so many."""
        file = self.server.settings.events
        assert file is not None
        deadline = time.monotonic() + SOON
        while time.monotonic() < deadline:
            entries = [json.loads(line) for line in file.read_text().splitlines()]
            found = [entry for entry in entries if entry["event"] == kind]
            if len(found) >= n:
                return found
            time.sleep(0.02)
        raise TimeoutError(f"{len(found)} of {n} events {kind!r}: {entries}")

    def games(self) -> list[dict[str, Any]]:
        """The games that it logged."""
        file = self.server.settings.log
        assert file is not None
        return [json.loads(line) for line in file.read_text().splitlines()]

    def replayed(self) -> Report:
        """Its log, replayed by the rules."""
        assert self.server.settings.log is not None
        return replay(self.server.settings.log)


@contextmanager
def serving(folder: Path, own: int | Sequence[Player] = 0, **settings: Any) -> Iterator[Running]:
    """A server whose first seats are filled by players of its own, random ones by default."""
    players = [RandomPlayer(100 + i) for i in range(own)] if isinstance(own, int) else own
    seats = tuple((f"own{number}", player) for number, player in enumerate(players))
    files = {"log": folder / "games.jsonl", "events": folder / "events.jsonl"}
    defaults: dict[str, Any] = {"port": 0, "seed": 1, "reply_seconds": SOON} | files
    with ThreadPoolExecutor(16) as pool:
        running = Running(Server(Settings(**defaults | settings), seats), pool)
        try:
            running.wait_until_listening()
            yield running
        finally:
            running.stop()


class Raw:
    """A client that plays at random, but for what a test replaces.

    Args:
        port: of the server.
        play: what it sends in its turn.
        gift: what it sends in the exchange.
        watch: called where another player is to move.
        seed: of its random plays.
    """

    def __init__(
        self,
        port: int,
        play: Answer | None = None,
        gift: Answer | None = None,
        watch: Callable[[], None] | None = None,
        seed: int = 0,
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), SOON)
        self.connection = Connection(self.socket, SOON)
        self.player = RandomPlayer(seed)
        self.watcher = Watcher(0)
        self._play, self._gift, self._watch = play or honest_play, gift or honest_gift, watch

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self.socket.sendall(data)

    def join(self, name: str = "raw") -> int:
        """The handshake; returns its number."""
        self.connection.send(tables.profile_table(name))
        number = self.connection.number("number", range(5))
        self.watcher = Watcher(number)
        return number

    def is_cut(self) -> bool:
        """Whether the server hangs up, whatever it sends before."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        return True

    def play_match(self) -> list[int]:
        """Plays to the end of the match; returns the points."""
        end = tables.MORE
        while end != tables.MATCH_OVER:
            self.watcher.start(self.connection.table())
            if self.watcher.view["to_give"]:
                self.send(self._gift(self, self.watcher.view))
            end = self._play_game()
        return self.watcher.points

    def _play_game(self) -> int:
        """Plays a game from its first turn on."""
        end = tables.MORE
        while end == tables.MORE:
            if self.watcher.turn(self.connection.table()):
                self.send(self._play(self, self.watcher.view))
                self.connection.number("answer", (8, 9))
            elif self._watch:
                self._watch()
            self.watcher.field(self.connection.table())
            end = self.connection.number("end", (0, 1, 2))
        return end


Answer = Callable[[Raw, Game], bytes]
"""What a client sends for what it sees."""


def honest_play(client: Raw, view: Game) -> bytes:
    """A random legal play."""
    return tables.to_bytes(tables.play_table(client.player.choose(view)))


def honest_gift(client: Raw, view: Game) -> bytes:
    """Random cards of the hand."""
    n = int(view["to_give"])
    return tables.to_bytes(tables.gift_table(client.player.give(view, n)))
