"""A server of Daihinmin with four clients, whose log is compared with its events."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from signal import SIGINT, SIGTERM

from afterstate.envs import json_files
from afterstate.envs.daihinmin.players import RandomPlayer
from afterstate.envs.daihinmin.records.replay import replay
from afterstate.envs.daihinmin.rules import Game
from afterstate.envs.daihinmin.uecda.client import play_match
from afterstate.envs.daihinmin.uecda.tables import ProtocolError
from afterstate.envs.json_files import Row
from tests.soak.growth import Usage
from tests.soak.harness import Death, Job


class _Slow(RandomPlayer):
    """A random player that leaves the processor to others."""

    def choose_play(self, view: Game) -> int:
        """Return a random play a little later."""
        time.sleep(0.002)
        return super().choose_play(view)


class Tail:
    """The lines that are appended to a file between two readings."""

    def __init__(self, path: Path) -> None:
        self._path, self._n_read = path, 0

    def read(self) -> tuple[list[Row], bool]:
        """Return the values of new lines, and whether the last one is cut off and left out.

        Raises:
            ValueError: a line before the last one is damaged.
        """
        data = self._path.read_bytes()[self._n_read :] if self._path.exists() else b""
        self._n_read += len(data)
        whole, _, rest = data.rpartition(b"\n")
        return [json_files.parse(line) for line in whole.split(b"\n") if line], bool(rest)

    def remove(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)
        self._n_read = 0


class Server(Job):
    """A server of endless matches, with four clients that come again whenever they are lost."""

    codes = {SIGTERM: 130, SIGINT: 130}
    unit = "games"
    limit = Usage(memory=8 << 20, files=8, threads=2)

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__("server", folder)
        self._port, self._games_file = port, folder / "games.jsonl"
        self._games, self._events = Tail(self._games_file), Tail(folder / "events.jsonl")
        self._n_games, self._n_lives = 0, 0
        self._errors: list[ProtocolError] = []
        for seed in range(4):
            threading.Thread(target=self._join, args=(seed,), daemon=True).start()

    def _join(self, seed: int) -> None:
        """Play one match after the other, also when the server is away."""
        while True:
            try:
                with suppress(OSError):
                    play_match(("127.0.0.1", self._port), _Slow(seed), "soak", 20.0)
            except ProtocolError as error:
                self._errors.append(error)
            time.sleep(0.5)

    def command(self) -> list[str]:
        """Return the arguments of Python."""
        names = {"--log": "games.jsonl", "--events": "events.jsonl"}
        files = [text for key in names for text in (key, str(self.folder / names[key]))]
        server = ["-m", "afterstate", "serve", "--port", str(self._port)]
        return [*server, "--matches", "0", "--games", "30", "--seats", "random", *files]

    def works(self, output: str) -> bool:
        """Return True if it listens."""
        return "listening on" in output

    def check(self, death: Death) -> int:
        """Return the number of games so far, all by the rules and with an event each."""
        (games, games_cut), (events, events_cut) = self._games.read(), self._events.read()
        assert not (death.is_polite and (games_cut or events_cut)), "has cut off a line"
        check_numbers(games)
        check_events(games, events, death.is_polite)
        assert not self._errors, f"answered a client against the protocol: {self._errors[0]}"
        self._n_games, self._n_lives = self._n_games + len(games), self._n_lives + 1
        if self._n_lives % 2 == 0:  # the second life has appended to the files of the first
            self._replay()
        return self._n_games

    def _replay(self) -> None:
        """Replay the games of two lives, of which each may have cut a line off."""
        if self._games_file.exists():
            report = replay(self._games_file)
            assert not report.mismatches, report.first
            assert report.damaged <= 2, f"{report.damaged} damaged lines: {report.damage}"
        self._games.remove()
        self._events.remove()


def check_numbers(games: list[Row]) -> None:
    """Check that the games of each match have the numbers from 1 on."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for game in games:
        numbers[game["match"]].append(game["game"])
    for match, its in numbers.items():
        assert its == [*range(1, len(its) + 1)], f"has lost games of match {match}: {its}"


def check_events(games: list[Row], events: list[Row], is_polite: bool) -> None:
    """Compare the games and the events of a life.

    A game is written before its event: a kill may lose the last event, and a stop loses none.
    """
    logged = [(game["game"], game["finish"]) for game in games]
    over = [(each["game"], each["finish"]) for each in events if each["event"] == "game"]
    n_missing = len(logged) - len(over)
    assert logged[: len(over)] == over, f"has other events than its {len(logged)} games"
    assert 0 <= n_missing <= (not is_polite), f"has no events of {n_missing} games"
    in_match = Counter(game["match"] for game in games)
    ended = [each for each in events if each["event"] == "over"]
    wrong = [each for each in ended if each["games"] != in_match[each["match"]]]
    assert not wrong, f"has not the games of a match that is over: {wrong[:1]}"
    if is_polite:
        metrics = [each["games"] for each in events if each["event"] == "metrics"]
        assert metrics[-1] == len(games), f"counts {metrics[-1]} games and has {len(games)}"
        lost = set(in_match) - {each["match"] for each in ended}
        assert not lost, f"has no event of the end of matches {lost}"
