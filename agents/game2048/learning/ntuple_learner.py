"""N-tuple networks that learn by self-play: the learner with its file.

    afterstate train ntuple SETTINGS.json --out RUN --moves 1e9

    {"network": {"tuples": "4x6", "stages": [512, 1024]}, "learner": {"restart": 10}, "seed": 1}

The folder of a run has `learner.npz`, the whole learner, from which it is resumed and which
`agents.load` reads. The rules of learning are in `td.py`, the games in `self_play.py`. The order of
learning is

- *forward*, during the game: the error of `after_t` is `reward + V(after_t+1) - V(after_t)`;
- *backward*, after the game from its end, with lambda: the target `z` starts at 0, and after the
  update of `after_t` becomes `reward_t + lambda * z + (1 - lambda) * V(after_t)`.

An exponent stops at 15 in a board word: from a 65536 tile on, the learner sees 32768.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from afterstate.agents import files
from afterstate.agents.config import from_dict
from afterstate.agents.game2048.learning.run_settings import MAX_MOVES, NTupleSettings
from afterstate.agents.game2048.learning.self_play import (
    BEST,
    GAMES,
    LEARNED,
    MOVES,
    NEXT_STAGE,
    POOL,
    RNG,
    PlaySettings,
    Pools,
    self_play,
)
from afterstate.agents.game2048.learning.td import (
    OF_RANDOM,
    TOWARD_RANDOM,
    GamePath,
    Update,
    new_path,
)
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.search.expectimax import CUTOFF, ExpectimaxAgent
from afterstate.agents.game2048.search.expectimax_search import Search, new_search
from afterstate.agents.game2048.values import ntuple_file, ntuple_network
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.agents.game2048.values.ntuple_file import (
    is_by_nibbles,
    pack_network,
    to_z_order,
    unpack_network,
)
from afterstate.agents.game2048.values.ntuple_network import FRACTION, Network
from afterstate.agents.game2048.values.pruned import check_full
from afterstate.agents.training.evaluation import EVALUATION_SEED, summaries
from afterstate.agents.training.run import Diverged, whole_moves
from afterstate.envs.checks import as_int
from afterstate.envs.compiling import clock
from afterstate.envs.game2048.rules import check_words
from afterstate.envs.messages import shown
from afterstate.envs.signals import uninterrupted
from afterstate.envs.words import Words, next_random, seed_word

if TYPE_CHECKING:
    from afterstate.agents.game2048.learning.play_logs import Moves

_Result = TypeVar("_Result")


def _boards_of(log: Moves) -> Words:
    """Return the boards of a play log's moves, in a row."""
    from afterstate.agents.game2048.learning.play_logs import check_moves

    check_moves(log)
    return np.ascontiguousarray(log["board"])


MAX_THREADS = 64
_MAX_COUNT = 1 << 62
"""No run reaches a count of as many games, moves or points."""
_MAX_FIXED = 1 << 20
"""Largest fixed-point weight, in points: half of what 32 bits hold."""


class NTupleLearner:
    """A network that learns by playing, with all that it needs to resume.

    Args:
        network: the network to train, in place; by default `4x6` for the 4x4 board, all zero.
        settings: settings of learning.
        seed: seed of the games; the first is what `Game2048-v0` plays from this seed. None is a
            random one.
        threads: number of threads that play in parallel. They share the weights without locks, so
            only a learner with one thread repeats its games from a seed.
        log: play log for `jump`: see `play_logs.read`.

    Attributes:
        seconds: wall-clock time of play and learning, without compilation.

    Raises:
        ValueError: not a number of threads in 1..64, carousel shaping without stages, or a pruned
            network.
    """

    suffix = ".npz"
    """Ending of its files."""

    def __init__(
        self,
        network: Network | None = None,
        settings: NTupleSettings | None = None,
        seed: int | None = None,
        threads: int = 1,
        log: Moves | None = None,
    ) -> None:
        self.network = ntuple_network.network() if network is None else network
        check_full(self.network)
        self._settings = self._checked(NTupleSettings() if settings is None else settings)
        self.seconds = 0.0
        tc = self.settings.rule == "tc"
        self.sums = np.zeros(2 * self.network.weights.size if tc else 0, np.float32)
        n_stages = 1 + len(self.network.stage_tiles)
        words = np.empty(0, np.uint64) if log is None else _boards_of(log)
        check_words(words, *self.network.size)
        self._pools = Pools(
            np.zeros((n_stages, POOL), np.uint64), np.zeros(n_stages, np.int64), words
        )
        self._state = np.zeros((1, 6), np.uint64)
        self._state[0, RNG] = seed_word(seed)
        self._ended: list[npt.NDArray[np.int64]] = []  # not returned yet: points, moves, exponent
        self.threads = threads

    @property
    def settings(self) -> NTupleSettings:
        """Settings of learning; may be changed between games, but not the rule."""
        return self._settings

    @settings.setter
    def settings(self, settings: NTupleSettings) -> None:
        if settings.rule != self._settings.rule:
            rule = self._settings.rule
            raise ValueError(f"rule must stay {rule!r}, as in the file, got {shown(settings.rule)}")
        self._settings = self._checked(settings)
        if not settings.carousel:
            self._state[:, NEXT_STAGE] = 0
        self._paths = self._new_paths()

    def _checked(self, settings: NTupleSettings) -> NTupleSettings:
        """Return the settings if they fit the network."""
        if not isinstance(settings, NTupleSettings):
            raise ValueError(f"settings must be NTupleSettings, got {shown(settings)}")
        for name in ("carousel", "within_stage"):
            if getattr(settings, name) and not self.network.stage_tiles:
                raise ValueError(f"{name} must be false for a network of one stage, got true")
        begins = self.network.stage_begins
        if not {*settings.carousel_stages} <= {*begins}:
            got = [*settings.carousel_stages]
            raise ValueError(f"carousel_stages must be of {begins}, got {got}")
        return settings

    @property
    def threads(self) -> int:
        """Number of threads that play in parallel; may be changed between games."""
        return len(self._state)

    @threads.setter
    def threads(self, threads: int) -> None:
        number = as_int(threads)
        if number is None or not 1 <= number <= MAX_THREADS:
            raise ValueError(f"threads must be in 1..{MAX_THREADS}, got {shown(threads)}")
        old, self._state = self._state, np.zeros((threads, 6), np.uint64)
        n_same = min(len(old), threads)
        self._state[:n_same] = old[:n_same]
        for counter in (GAMES, MOVES, LEARNED):
            self._state[0, counter] += old[n_same:, counter].sum(dtype=np.uint64)
        self._state[0, BEST] = old[:, BEST].max()
        for i in range(n_same, threads):  # each stream starts at a random place of its own
            self._state[i, RNG] = next_random(old[0, RNG] ^ np.uint64(i << 32))[1]
        self._paths = self._new_paths()

    def _new_paths(self) -> list[GamePath]:
        """Return the memory for a game of each thread, with room for the delay."""
        return [new_path(MAX_MOVES, self.settings.delay) for _ in range(self.threads)]

    @property
    def n_games(self) -> int:
        """Number of games from the start that it has played."""
        return int(self._state[:, GAMES].sum())

    @property
    def n_moves(self) -> int:
        """Number of moves that it has played, those of restarts included."""
        return int(self._state[:, MOVES].sum())

    @property
    def n_learned(self) -> int:
        """Number of moves that it has learned from."""
        return int(self._state[:, LEARNED].sum())

    @property
    def rng(self) -> int:
        """State of its random stream, the first thread's if it has several."""
        return int(self._state[0, RNG])

    def learn(self, n_moves: float) -> Games:
        """Play and learn whole games of at least `n_moves` moves together.

        Returns:
            The games that began at the start, as they were played before any restart.

        Raises:
            ValueError: `n_moves` is not a whole number from 1 on, or `jump` is set without a log.
        """
        if self.settings.jump and not self._pools.log.size:
            raise ValueError(f"jump must be 0 without a log, got {shown(self.settings.jump)}")
        share = -(-whole_moves(n_moves) // self.threads)
        rule, start = self._update_rule(), clock()

        def run(me: int) -> list[npt.NDArray[np.int64]]:
            settings, batches = self._play_settings(), list[npt.NDArray[np.int64]]()
            path, search = self._paths[me], self._new_search()
            end = int(self._state[me, MOVES]) + share
            while (left := end - int(self._state[me, MOVES])) > 0:
                rows = np.empty((left // 32 + 1, 3), np.int64)
                n = self_play(
                    *(self.network, rule, settings, self._state, me, self._pools),
                    *(path, search, left, rows),
                )
                batches.append(rows[:n])
            return batches

        try:
            with uninterrupted():  # games that are learned from must also be returned
                for batches in [run(0)] if self.threads == 1 else in_threads(run, self.threads):
                    self._ended += batches
        finally:
            self.seconds += clock() - start
        return self.ended()

    def ended(self) -> Games:
        """Return the games that have ended and were not returned yet, such as before Ctrl-C."""
        played, self._ended = np.concatenate([np.empty((0, 3), np.int64), *self._ended]), []
        return Games(played[:, 0], played[:, 1], 1 << played[:, 2])

    def start_from(
        self, other: NTupleLearner, begin: int = 0, end: int | None = None, weights: bool = True
    ) -> None:
        """Take over what a learner knows whose network may have other stages or fewer tuples.

        Each stage takes the weights and sums of the stage in which the other network has the boards
        that begin it, so that a new stage begins with all that an earlier one has learned. A stage
        of both takes the boards where games entered it as well. Tuples behind those of the other
        network stay as they are, in a new learner at zero.

        Args:
            other: the learner; it is not changed.
            begin: stages that begin with these tiles or more are taken.
            end: stages that begin with these tiles or more are not taken; by default all are.
            weights: if False, only the boards where games entered the stages are taken.

        Raises:
            ValueError: the other learner has another rule, or a network that differs in more than
                its stages and further tuples; or weights are promoted or fixed-point; or no stage
                is taken.
        """
        mine, its = (pack_network(learner.network)[0] for learner in (self, other))
        first_tuples = mine["tuples"][: len(its["tuples"])]
        same = {**mine, "stages": 0, "tuples": first_tuples} == {**its, "stages": 0}
        if not same or self.settings.rule != other.settings.rule:
            raise ValueError(
                "start must have the same rule and network, but for its stages and further tuples"
            )
        if mine["promote"] or mine["fixed_point"]:
            got = f"promote={mine['promote']} and fixed_point={mine['fixed_point']}"
            wanted = "start must have weights that are neither promoted nor fixed-point"
            raise ValueError(f"{wanted}, got {got}")
        begins = self.network.stage_begins
        taken = [
            (stage, tiles)
            for stage, tiles in enumerate(begins)
            if begin <= tiles and (end is None or tiles < end)
        ]
        if not taken:
            below = "" if end is None else f" and below {end}"
            raise ValueError(f"start: no stage begins from {begin} on{below}: they are {begins}")
        for stage, tiles in taken:
            if weights:
                self._start_weights(stage, tiles, other)
            self._start_pool(stage, tiles, other)

    def _start_weights(self, stage: int, tiles: int, other: NTupleLearner) -> None:
        """Take over the weights and sums of a stage, which begins with these tiles."""
        n = other.network.stage_size
        own = stage * self.network.stage_size
        its = (bisect(other.network.stage_begins, tiles) - 1) * n
        self.network.weights[own : own + n] = other.network.weights[its : its + n]
        if self.sums.size:
            self.sums[2 * own : 2 * (own + n)] = other.sums[2 * its : 2 * (its + n)]

    def _start_pool(self, stage: int, tiles: int, other: NTupleLearner) -> None:
        """Take over the boards where games entered a stage, if both learners have it."""
        begins = other.network.stage_begins
        if tiles in begins:
            its = begins.index(tiles)
            self._pools.boards[stage] = other._pools.boards[its]
            self._pools.counts[stage] = other._pools.counts[its]

    def _update_rule(self) -> Update:
        """Return the update rule, as kernels take it."""
        s = self.settings
        excluded = {"target": TOWARD_RANDOM, "own": OF_RANDOM}[s.skip]
        rate, lam = np.float32(s.step_size), np.float32(s.lambda_)
        return Update(self.sums, rate, np.float32(s.floor), bool(s.printed), lam, excluded)

    def _new_search(self) -> Search | None:
        """Return the memory of a thread's search; None if no game is played by search."""
        return new_search(CUTOFF, table_bits=10) if self.settings.search_share > 0 else None

    def _play_settings(self) -> PlaySettings:
        """Return the settings of self-play, as kernels take them."""
        s = self.settings
        return PlaySettings(
            backward=s.order == "backward",
            delay=int(s.delay),
            restart=-1 if s.restart is None else int(s.restart),
            good=float(s.good or 0),
            epsilon=float(s.epsilon),
            search_share=float(s.search_share),
            search_from=int(s.search_from),
            search_depth=int(s.search_depth),
            carousel=bool(s.carousel),
            carousel_stages=self._carousel_stages(),
            within_stage=bool(s.within_stage),
            jump=float(s.jump),
        )

    def _carousel_stages(self) -> int:
        """Return the stages at which carousel shaping begins games, as bits."""
        begins = self.network.stage_begins
        selected = self.settings.carousel_stages or begins
        return sum(1 << stage for stage, tiles in enumerate(begins) if tiles in selected)

    def save(self, path: str | Path) -> None:
        """Write everything to a file, from which `load` continues as if nothing had happened.

        The file is as large as the weights and their sums: it is not compressed, to be fast. A
        file of the values only, for play, is made by `values.ntuple_file.save`.

        Raises:
            OSError: the file cannot be written.
            Diverged: some weights or sums are NaN, infinite, or so large that a file may not have
                them or fixed-point numbers soon end.
        """
        self._check_weights()
        header, arrays = pack_network(self.network)
        header["learner"] = {"settings": asdict(self.settings), "seconds": self.seconds}
        arrays |= {
            "sums": self.sums,
            "state": self._state,
            "pool_boards": self._pools.boards,
            "pool_counts": self._pools.counts,
        }
        files.write(path, "ntuple", header, arrays, level=0)

    def _check_weights(self) -> None:
        """Raise Diverged for weights or sums of no sensible size."""
        net = self.network
        weights: npt.NDArray[Any] = net.fixed if net.fixed.size else net.weights
        largest = max(-float(weights.min()), float(weights.max()))
        largest /= FRACTION if net.fixed.size else 1
        most = _MAX_FIXED if net.fixed.size else ntuple_file.MAX_WEIGHT
        if not largest <= most or not files.is_finite(self.sums):  # not, as it may be NaN
            text = f"weights diverged after {self.n_moves:,} moves: some are NaN or too large"
            raise Diverged(text, {"largest": largest})

    @classmethod
    def load(cls, path: str | Path, log: Moves | None = None) -> NTupleLearner:
        """Return the learner of a file that `save` wrote.

        Args:
            path: the file.
            log: play log for `jump`, which the file does not have.

        Raises:
            ValueError: not such a file, a damaged one, one with a network only, one with weights
                or sums that are NaN or infinite, or one written by afterstate 0.1.
        """
        header, arrays = ntuple_file.read(path)
        if "learner" not in header:
            raise ValueError(f"{path} has a network but no learner: it can be played, not resumed")
        net = unpack_network(path, header, arrays)
        metadata = header["learner"]
        if isinstance(metadata, dict) and "rng" in metadata:
            raise ValueError(f"{path} was written by afterstate 0.1: it can be played, not resumed")
        try:
            learner = cls(net, from_dict(metadata["settings"], NTupleSettings), log=log)
            learner.seconds = float(metadata.get("seconds", 0))
            if not math.isfinite(learner.seconds):
                raise ValueError(f"its seconds are {learner.seconds}")
            if is_by_nibbles(header) and arrays["sums"].size:
                arrays["sums"] = to_z_order(net, arrays["sums"])
            learner._restore(arrays)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        return learner

    def _restore(self, arrays: files.Arrays) -> None:
        """Take over the arrays of a file.

        Raises:
            KeyError: one is missing.
            ValueError: one does not fit the network or the settings.
        """
        state = arrays["state"]
        own: files.Arrays = {
            "sums": self.sums,
            "state": self._state[:1].repeat(len(state), 0),
            "pool_boards": self._pools.boards,
            "pool_counts": self._pools.counts,
        }
        for name, array in own.items():
            if arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
                raise ValueError(f"{name} does not fit the network and the settings")
        if not files.is_finite(arrays["sums"]):
            raise ValueError("sums are NaN or infinite")
        check_words(arrays["pool_boards"], *self.network.size)
        n_stages = len(self._pools.counts)
        if (state[:, NEXT_STAGE] >= n_stages).any() or (arrays["pool_counts"] < 0).any():
            raise ValueError("state does not fit the network")
        if (state[:, [GAMES, MOVES, LEARNED, BEST]] >= _MAX_COUNT).any():
            raise ValueError("state has counts beyond any run")
        self.threads = len(state)
        self._state[:] = state
        self.sums = arrays["sums"]
        boards, counts = arrays["pool_boards"], arrays["pool_counts"]
        self._pools = self._pools._replace(boards=boards, counts=counts)


def in_threads(run: Callable[[int], _Result], n: int) -> list[_Result]:
    """Return the results of `run(0)` to `run(n - 1)`, each in a thread of its own.

    An interrupt is raised after all started threads have ended, and so is an error of a thread.
    """
    results: dict[int, _Result] = {}
    errors: list[BaseException] = []
    started: list[threading.Event] = []
    lock, is_closed = threading.Lock(), threading.Event()

    def work(me: int) -> None:
        ended = threading.Event()
        with lock:
            if is_closed.is_set():
                return
            started.append(ended)
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
        for ended in started:
            ended.wait()
    if errors:
        raise errors[0]
    return [results[me] for me in range(n)]


# Evaluation and runs


def play_evaluation(
    network: Network, games_by_depth: dict[int, int], threads: int = 1
) -> dict[str, Any]:
    """Return the `summary` of evaluation games of each depth, named as `"1-ply"`.

    Args:
        network: the network, which does not learn.
        games_by_depth: number of games for each depth: 1 is greedy, more is expectimax.
        threads: number of threads that share the games; the games do not depend on it.
    """

    def play_games(depth: int, n_games: int) -> Games:
        return _play_out(network, depth, n_games, min(threads, n_games))

    return summaries(play_games, games_by_depth)


def _play_out(net: Network, depth: int, n_games: int, threads: int) -> Games:
    """Play the evaluation games."""
    if n_games < 1:
        raise ValueError(f"n_games must be >= 1, got {shown(n_games)}")
    bounds = [n_games * i // threads for i in range(threads + 1)]

    def run(me: int) -> Games:
        player = NTupleAgent(net) if depth == 1 else ExpectimaxAgent(net, depth)
        return play(player, bounds[me + 1] - bounds[me], EVALUATION_SEED + bounds[me])

    parts = [run(0)] if threads == 1 else in_threads(run, threads)
    return Games(*(np.concatenate(column) for column in zip(*parts, strict=True)))
