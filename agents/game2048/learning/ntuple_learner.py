"""N-tuple networks that learn by self-play: the settings, and the learner with its file.

The rules of learning are in `updates.py`, the games in `self_play.py`, and runs that take hours in
`runs.py` and `training.py`. The order of learning is

- *forward*, during the game: the error of `after_t` is `reward + V(after_t+1) - V(after_t)`;
- *backward*, after the game from its end, with lambda: the target `z` starts at 0, and after the
  update of `after_t` becomes `reward_t + lambda * z + (1 - lambda) * V(after_t)`.

An exponent stops at 15 in a board word: from a 65536 tile on, the learner sees 32768.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from afterstate.agents import files
from afterstate.agents.game2048.learning.self_play import (
    BEST,
    GAMES,
    LEARNED,
    MAX_MOVES,
    MOVES,
    POOL,
    RNG,
    TURN,
    Play,
    Pools,
    self_play,
)
from afterstate.agents.game2048.learning.td import Update, new_path
from afterstate.agents.game2048.play import Games
from afterstate.agents.game2048.search.expectimax import CUTOFF, new_search
from afterstate.agents.game2048.values.ntuple import Network, network, pack_network, unpack_network
from afterstate.envs.words import next_random, seed_word, whole

_Result = TypeVar("_Result")

MAX_THREADS = 64
MAX_DELAY = 64


@dataclass(frozen=True)
class Settings:
    """How to learn.

    Attributes:
        rule: `"tc"` or `"td"`.
        order: `"backward"` after each game, or `"forward"` during it.
        lam: lambda in 0..1, by default 0.5; forward learning without delay has 0.
        rate: the step size, above 0 and at most 1, by default 1 for TC and 0.1 for TD.
        printed: whether TC's accumulators sum the steps, as Matsuzaki 2017 prints it, and not the
            shares of the errors. It learns far worse: see `updates.py`.
        delay: forward learning updates an afterstate so many moves later, by the errors up to then
            weighted with powers of lambda (Jaskowski 2016).
        restart: play again from the middle of what was played last until at most so many moves are
            left, from 1 on (Matsuzaki 2017: 10); None: play each game once.
        good: learn only from games that score above this share of the best score so far, each from
            its beginning; a game that was learned from is not restarted. None: learn from all.
        epsilon: the probability of a random legal move.
        skip: with epsilon, the update that is left out: `"target"`, that of the afterstate before
            the random move, or `"own"`, that of the random move's afterstate.
        search_share: the share of games that are played by expectimax, without restart.
        search_from: the number of moves after which such games begin, a whole one.
        search_depth: of that search, in moves of the player.
        carousel: begin games in turn at the start and where earlier games entered each stage of
            the network (Jaskowski 2016), which must have more than one.

    Raises:
        ValueError: another rule, order or skip, a number out of its range, or settings that do not
            go together.
    """

    rule: str = "tc"
    order: str = "backward"
    lam: float = None  # type: ignore[assignment]  # the default depends on the order,
    rate: float = None  # type: ignore[assignment]  # and on the rule: see __post_init__
    printed: bool = False
    delay: int = 0
    restart: int | None = None
    good: float | None = None
    epsilon: float = 0.0
    skip: str = "target"
    search_share: float = 0.0
    search_from: float = 0
    search_depth: int = 2
    carousel: bool = False

    def __post_init__(self) -> None:
        _one_of("rule", self.rule, ("tc", "td"))
        _one_of("order", self.order, ("backward", "forward"))
        _one_of("skip", self.skip, ("target", "own"))
        for name in ("printed", "carousel"):
            value = getattr(self, name)
            _within(name, value, isinstance(value, (bool, np.bool_)), "true or false")
        for name in ("lam", "rate", "good", "epsilon", "search_share", "search_from"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            has_default = value is None and name in ("lam", "rate", "good")
            _within(name, value, is_number or has_default, "a number")
        forward = self.order == "forward"
        if self.lam is None:
            object.__setattr__(self, "lam", 0.0 if forward and not self.delay else 0.5)
        if self.rate is None:
            object.__setattr__(self, "rate", {"tc": 1.0, "td": 0.1}[self.rule])
        _within("lam", self.lam, 0 <= self.lam <= 1, "in 0..1")
        _within("rate", self.rate, 0 < self.rate <= 1, "above 0 and at most 1")
        _within("delay", self.delay, 0 <= _whole(self.delay) <= MAX_DELAY, f"in 0..{MAX_DELAY}")
        if self.restart is not None:
            is_count = 1 <= _whole(self.restart) <= MAX_MOVES
            _within("restart", self.restart, is_count, f"a number of moves in 1..{MAX_MOVES}")
        if self.good is not None:
            _within("good", self.good, 0 < self.good < 1, "above 0 and below 1")
        _within("epsilon", self.epsilon, 0 <= self.epsilon <= 1, "in 0..1")
        _within("search_share", self.search_share, 0 <= self.search_share <= 1, "in 0..1")
        is_count = 0 <= self.search_from < 2**63 and self.search_from == int(self.search_from)
        _within("search_from", self.search_from, is_count, "a whole number of moves from 0 on")
        _within("search_depth", self.search_depth, 2 <= _whole(self.search_depth) <= 5, "in 2..5")
        if forward and self.lam != 0 and self.delay == 0:
            raise ValueError(f"forward learning without delay has lam 0, got {self.lam!r}")
        if self.delay and not forward:
            raise ValueError("delay is for forward learning: backward learning needs none")
        if self.good is not None and (forward or self.carousel):
            raise ValueError(
                "good is for backward learning from the start: no carousel, no forward"
            )


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuses a word that is not one of those allowed."""
    if value not in allowed:
        raise ValueError(f"{name} is {' or '.join(map(repr, allowed))}, got {value!r}")


def _within(name: str, value: Any, holds: bool, allowed: str) -> None:
    """Refuses a number out of its range."""
    if not holds:
        raise ValueError(f"{name} is {allowed}, got {value!r}")


def _whole(number: Any) -> int:
    """A whole number, or -1 for anything else."""
    found = whole(number)
    return -1 if found is None else found


class Learner:
    """A network that learns by playing, with all that it needs to go on after a break.

    Args:
        net: the network to train, in place; by default `4x6` for the 4x4 board, all zero.
        settings: how to learn.
        seed: of the games; the first is the game that `Game2048-v0` plays from this seed.
        threads: how many threads play at once. They share the weights without locks, so that only
            a learner with one thread repeats its games from a seed.

    Attributes:
        seconds: how long it has played and learned, by the clock, in all its threads together.

    Raises:
        ValueError: not a number of threads in 1..64, or carousel shaping without stages.
    """

    def __init__(
        self,
        net: Network | None = None,
        settings: Settings | None = None,
        seed: int | None = None,
        threads: int = 1,
    ) -> None:
        self.network = network() if net is None else net
        self._settings = self._fitting(settings or Settings())
        self.seconds = 0.0
        tc = self.settings.rule == "tc"
        self.sums = np.zeros(2 * self.network.weights.size if tc else 0, np.float32)
        n_stages = 1 + len(self.network.stage_tiles)
        self._pools = Pools(np.zeros((n_stages, POOL), np.uint64), np.zeros(n_stages, np.int64))
        self._state = np.zeros((1, 6), np.uint64)
        self._state[0, RNG] = seed_word(seed)
        self.threads = threads

    @property
    def settings(self) -> Settings:
        """How it learns; may be changed between games, but not from one rule to the other."""
        return self._settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        if settings.rule != self._settings.rule:
            raise ValueError(f"it learns by {self._settings.rule!r}, not by {settings.rule!r}")
        self._settings = self._fitting(settings)
        self.threads = self.threads  # with the room that the new delay needs

    def _fitting(self, settings: Settings) -> Settings:
        """The settings, if they fit the network."""
        if settings.carousel and not self.network.stage_tiles:
            raise ValueError("carousel begins games at stages: the network has only one")
        return settings

    @property
    def threads(self) -> int:
        """How many threads play at once; may be changed between games."""
        return len(self._state)

    @threads.setter
    def threads(self, threads: int) -> None:
        if not 1 <= _whole(threads) <= MAX_THREADS:
            raise ValueError(f"threads is a number in 1..{MAX_THREADS}, got {threads!r}")
        old, self._state = self._state, np.zeros((threads, 6), np.uint64)
        kept = min(len(old), threads)
        self._state[:kept] = old[:kept]
        for counter in (GAMES, MOVES, LEARNED):
            self._state[0, counter] += old[kept:, counter].sum(dtype=np.uint64)
        self._state[0, BEST] = old[:, BEST].max()
        for i in range(kept, threads):  # each stream starts at a random place of its own
            self._state[i, RNG] = next_random(old[0, RNG] ^ np.uint64(i << 32))[1]
        delay = self.settings.delay
        self._paths = [new_path(self.network, MAX_MOVES, delay) for _ in range(threads)]

    @property
    def n_games(self) -> int:
        """How many games from the start it has played."""
        return int(self._state[:, GAMES].sum())

    @property
    def n_moves(self) -> int:
        """How many moves it has played, those of restarts too."""
        return int(self._state[:, MOVES].sum())

    @property
    def n_learned(self) -> int:
        """How many moves it has learned from."""
        return int(self._state[:, LEARNED].sum())

    @property
    def rng(self) -> int:
        """The state of its random stream, the first thread's if it has several."""
        return int(self._state[0, RNG])

    def play(self, n_moves: float) -> Games:
        """Plays and learns whole games of at least `n_moves` moves together.

        Returns:
            The games that began at the start, as they were played before any restart.

        Raises:
            ValueError: `n_moves` is not a whole number from 1 on.
        """
        share = -(-whole_moves(n_moves) // self.threads)
        how, began = self._update(), time.monotonic()

        def run(me: int) -> list[npt.NDArray[np.int64]]:
            play, batches = self._play(), [np.empty((0, 3), np.int64)]
            end = int(self._state[me, MOVES]) + share
            while (left := end - int(self._state[me, MOVES])) > 0:
                rows = np.empty((left // 32 + 1, 3), np.int64)
                path, pools = self._paths[me], self._pools
                n = self_play(self.network, how, play, self._state, me, pools, path, left, rows)
                batches.append(rows[:n])
            return batches

        try:
            parts = [run(0)] if self.threads == 1 else in_threads(run, self.threads)
        finally:
            self.seconds += time.monotonic() - began
        played = np.concatenate([batch for part in parts for batch in part])
        return Games(played[:, 0], played[:, 1], 1 << played[:, 2])

    def _update(self) -> Update:
        """The settings of learning, as kernels take them."""
        s = self.settings
        skip = {"target": 1, "own": 2}[s.skip]
        return Update(self.sums, np.float32(s.rate), bool(s.printed), np.float32(s.lam), skip)

    def _play(self) -> Play:
        """The settings of play, as kernels take them."""
        s = self.settings
        return Play(
            backward=s.order == "backward",
            delay=int(s.delay),
            restart=-1 if s.restart is None else int(s.restart),
            good=float(s.good or 0),
            epsilon=float(s.epsilon),
            search_share=float(s.search_share),
            search_from=int(s.search_from),
            search_depth=int(s.search_depth),
            carousel=bool(s.carousel),
            search=new_search(self.network, CUTOFF, table_bits=10),
        )

    def save(self, path: str | Path) -> None:
        """Writes everything to a file, from which `load` goes on as if nothing had happened.

        The file is as large as the weights and their sums: it is not compressed, to be fast. A
        file of the values only, for play, is made by `values.ntuple.save`.
        """
        header, arrays = pack_network(self.network)
        header["learner"] = {"settings": asdict(self.settings), "seconds": self.seconds}
        arrays |= {"sums": self.sums, "state": self._state}
        arrays |= {"pool_boards": self._pools.boards, "pool_counts": self._pools.counts}
        files.write(path, "ntuple", header, arrays, level=0)

    @classmethod
    def load(cls, path: str | Path) -> Learner:
        """The learner of a file that `save` wrote.

        Raises:
            ValueError: not such a file, a damaged one, one with a network only, or one written
                by afterstate 0.1.
        """
        header, arrays = files.read(path, "ntuple")
        if "learner" not in header:
            raise ValueError(
                f"{path} has a network but no learner: it can play, not go on learning"
            )
        net = unpack_network(path, header, arrays)
        how = header["learner"]
        if isinstance(how, dict) and "rng" in how:
            raise ValueError(f"{path} was written by afterstate 0.1: it can play, not go on")
        try:
            learner = cls(net, Settings(**how["settings"]))
            learner.seconds = float(how.get("seconds", 0))
            learner._restore(arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        return learner

    def _restore(self, arrays: files.Arrays) -> None:
        """Takes over a file's arrays.

        Raises:
            KeyError: one is missing.
            ValueError: one does not fit the network or the settings.
        """
        state = arrays["state"]
        mine: files.Arrays = {"sums": self.sums, "state": self._state[:1].repeat(len(state), 0)}
        mine |= {"pool_boards": self._pools.boards, "pool_counts": self._pools.counts}
        for name, array in mine.items():
            if arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
                raise ValueError(f"its {name} do not fit its network and its settings")
        n_stages = len(self._pools.counts)
        if (state[:, TURN] >= n_stages).any() or (arrays["pool_counts"] < 0).any():
            raise ValueError("its state does not fit its network")
        self.threads = len(state)
        self._state[:] = state
        self.sums = arrays["sums"]
        self._pools = Pools(arrays["pool_boards"], arrays["pool_counts"])


def in_threads(run: Callable[[int], _Result], n: int) -> list[_Result]:
    """What `run(0)` to `run(n - 1)` return, each in a thread of its own.

    If they are interrupted, those that have begun are waited for before the interrupt goes on. If
    one of them raises, so does this.
    """
    results: dict[int, _Result] = {}
    errors: list[BaseException] = []
    begun: list[threading.Event] = []
    lock, is_closed = threading.Lock(), threading.Event()

    def work(me: int) -> None:
        ended = threading.Event()
        with lock:
            if is_closed.is_set():
                return
            begun.append(ended)
        try:
            results[me] = run(me)
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    workers = [threading.Thread(target=work, args=(me,)) for me in range(n)]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        with lock:
            is_closed.set()
        for ended in begun:
            ended.wait()
    if errors:
        raise errors[0]
    return [results[me] for me in range(n)]


def whole_moves(n_moves: float, least: int = 1) -> int:
    """A number of moves, which may be a whole float such as 5e7.

    Raises:
        ValueError: not a whole number, or below the least.
    """
    if not least <= n_moves < 2**63 or n_moves != int(n_moves):
        raise ValueError(f"n_moves is a whole number from {least} on, got {n_moves!r}")
    return int(n_moves)
