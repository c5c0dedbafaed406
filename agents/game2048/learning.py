"""N-tuple networks that learn by self-play: temporal differences and temporal coherence.

A game is a path of afterstates, `after_0 --(reward_1)--> after_1 -- ... --> after_T`. Playing
greedily, each afterstate's value is moved toward the reward and value that followed:

- *forward*, during the game: the error of `after_t` is `reward + V(after_t+1) - V(after_t)`;
- *backward*, after the game from its end, with lambda: the target `z` starts at 0, and after the
  update of `after_t` becomes `reward_t + lambda * z + (1 - lambda) * V(after_t)`.

Of the error each of the m entries of a board gets the share `error / m`, times

- TD: the fixed rate;
- TC: its own rate `|E| / A`, where E sums the shares of the entry and A their absolute values
  (temporal coherence, Beal and Smith 1999; Jaskowski 2016): 1 at first and while all errors have
  one sign, and less the more they cancel.

The previous value is read again at its update, for the update before may have moved it. An
exponent stops at 15 in a board word: from a 65536 tile on, the learner sees 32768.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import boolean, float32, int64, njit, types, uint64, void

from afterstate.agents import files
from afterstate.agents.game2048.intrinsics import prefetch
from afterstate.agents.game2048.ntuple import (
    NETWORK,
    Indices,
    Network,
    Value,
    Weights,
    best_move,
    look_up,
    network,
    pack_network,
    total,
    unpack_network,
)
from afterstate.agents.game2048.play import Games
from afterstate.envs.game2048.games import largest_exponent, seed_word
from afterstate.envs.game2048.rules import Word, Words, field, spawn

MAX_MOVES = 1 << 18
"""A game is cut here, four times as long as the tile 131072 takes, as if it were over."""

_RNG, _GAMES, _MOVES = 0, 1, 2  # a learner's state

_AHEAD = 4  # how many updates ahead entries are asked for
_RING = 8


@dataclass(frozen=True)
class Settings:
    """How to learn.

    Attributes:
        rule: `"tc"` or `"td"`.
        order: `"backward"` after each game, or `"forward"` during it.
        lam: lambda of backward learning in 0..1, by default 0.5; forward learning has 0.
        rate: the step size, above 0 and at most 1, by default 1 for TC and 0.1 for TD.

    Raises:
        ValueError: another rule or order, or a number out of its range.
    """

    rule: str = "tc"
    order: str = "backward"
    lam: float = None  # type: ignore[assignment]  # the default depends on the order,
    rate: float = None  # type: ignore[assignment]  # and on the rule: see __post_init__

    def __post_init__(self) -> None:
        if self.rule not in ("tc", "td"):
            raise ValueError(f"rule is 'tc' or 'td', got {self.rule!r}")
        if self.order not in ("backward", "forward"):
            raise ValueError(f"order is 'backward' or 'forward', got {self.order!r}")
        by_order, by_rule = {"backward": 0.5, "forward": 0.0}, {"tc": 1.0, "td": 0.1}
        lam = by_order[self.order] if self.lam is None else self.lam
        rate = by_rule[self.rule] if self.rate is None else self.rate
        if not 0 <= lam <= 1 or (self.order == "forward" and lam != 0):
            raise ValueError(f"lam is in 0..1, and 0 for forward learning, got {lam!r}")
        if not 0 < rate <= 1:
            raise ValueError(f"rate is above 0 and at most 1, got {rate!r}")
        object.__setattr__(self, "lam", float(lam))
        object.__setattr__(self, "rate", float(rate))


class Update(NamedTuple):
    """What an update needs beside the network, in the form that kernels take."""

    sums: Weights  # TC: E and A of each weight, side by side; TD: empty
    rate: np.float32


UPDATE = numba.typeof(Update(np.zeros(2, np.float32), np.float32(1)))


@njit(void(NETWORK, UPDATE, int64[::1], int64, float32), cache=True)
def update(net: Network, how: Update, indices: Indices, at: int, error: Value) -> None:
    """Moves the value at `indices[at:]` toward its target, `error` away, entry after entry.

    An entry that a board has twice is updated twice.
    """
    n = net.symmetric * net.masks.size
    share = error / np.float32(n)
    for k in range(at, at + n):
        i = indices[k]
        rate = how.rate
        if how.sums.size > 0:
            coherent, absolute = how.sums[2 * i], how.sums[2 * i + 1]
            if absolute > 0:
                rate *= abs(coherent) / absolute
            how.sums[2 * i] = coherent + share
            how.sums[2 * i + 1] = absolute + abs(share)
        net.weights[i] += rate * share


@njit(void(UPDATE, int64[::1], int64, int64), cache=True)
def _prefetch_sums(how: Update, indices: Indices, at: int, n: int) -> None:
    """Asks for the sums of entries that will be updated."""
    if how.sums.size > 0:
        for k in range(at, at + n):
            prefetch(how.sums, 2 * indices[k])


@njit("UniTuple(uint64, 2)(uint64, uint64)", cache=True)
def _first_board(rng: Word, cells: Word) -> tuple[Word, Word]:
    """A board with two tiles, and the advanced random state."""
    board, rng = spawn(np.uint64(0), rng, cells)
    return spawn(board, rng, cells)


@njit(
    types.Tuple((int64, uint64, uint64))(NETWORK, uint64, uint64[::1], int64[::1]),
    cache=True,
)
def play_game(net: Network, rng: Word, afters: Words, rewards: Indices) -> tuple[int, Word, Word]:
    """Plays a greedy game and writes the path of its afterstates and rewards.

    Returns:
        The number of moves, the last board and the advanced random state.
    """
    cells = field(net.size[0], net.size[1])
    indices = np.empty(4 * net.symmetric * net.masks.size, np.int64)
    board, rng = _first_board(rng, cells)
    for t in range(afters.size):
        action, after, reward, _ = best_move(net, board, indices)
        if action < 0:
            return t, board, rng
        afters[t], rewards[t] = after, reward
        board, rng = spawn(after, rng, cells)
    return afters.size, board, rng


@njit(void(NETWORK, UPDATE, float32, uint64[::1], int64[::1], int64), cache=True)
def learn_backward(
    net: Network, how: Update, lam: Value, afters: Words, rewards: Indices, n_moves: int
) -> None:
    """Updates the afterstates of a game of `n_moves` moves from its last to its first.

    The entries of the afterstates ahead are looked up and asked for early: they lie in a ring.
    """
    n = net.symmetric * net.masks.size
    ring = np.empty(_RING * n, np.int64)
    target = float32(0)
    for ahead in range(n_moves - 1, -1 - _AHEAD, -1):
        if ahead >= 0:
            at = ahead % _RING * n
            look_up(net, afters[ahead], ring, at)
            _prefetch_sums(how, ring, at, n)
        t = ahead + _AHEAD
        if t < n_moves:
            at = t % _RING * n
            update(net, how, ring, at, target - total(net.weights, ring, at, n))
            value = total(net.weights, ring, at, n)
            target = float32(rewards[t]) + lam * target + (float32(1) - lam) * value


@njit(
    types.Tuple((int64, int64, uint64, uint64))(NETWORK, UPDATE, uint64),
    cache=True,
)
def play_forward(net: Network, how: Update, rng: Word) -> tuple[int, int, Word, Word]:
    """Plays a greedy game and updates each afterstate as soon as the next one is known.

    Returns:
        The number of moves, the score, the last board and the advanced random state.
    """
    n = net.symmetric * net.masks.size
    cells = field(net.size[0], net.size[1])
    indices = np.empty(4 * n, np.int64)
    before = np.empty(n, np.int64)  # the entries of the last afterstate
    score = 0
    board, rng = _first_board(rng, cells)
    for t in range(MAX_MOVES):
        action, after, reward, value = best_move(net, board, indices)
        if t > 0:
            update(net, how, before, 0, value - total(net.weights, before, 0, n))
        if action < 0:
            return t, score, board, rng
        for k in range(n):
            before[k] = indices[action * n + k]
        _prefetch_sums(how, before, 0, n)
        score += reward
        board, rng = spawn(after, rng, cells)
    return MAX_MOVES, score, board, rng


@njit(
    int64(
        NETWORK,
        UPDATE,
        boolean,
        float32,
        uint64[::1],
        int64,
        uint64[::1],
        int64[::1],
        int64[:, ::1],
    ),
    cache=True,
)
def _self_play(
    net: Network,
    how: Update,
    backward: bool,
    lam: Value,
    state: Words,
    n_moves: int,
    afters: Words,
    rewards: Indices,
    rows: Indices,
) -> int:
    """Plays and learns whole games until they have `n_moves` moves or fill the rows.

    A row is the score, the number of moves and the largest exponent of a game. The learner's
    state is advanced here, game by game, so that it always fits the weights.

    Returns:
        The number of games.
    """
    moves = 0
    for game in range(len(rows)):
        if backward:
            length, board, state[_RNG] = play_game(net, state[_RNG], afters, rewards)
            learn_backward(net, how, lam, afters, rewards, length)
            score = rewards[:length].sum()
        else:
            length, score, board, state[_RNG] = play_forward(net, how, state[_RNG])
        rows[game, 0], rows[game, 1] = score, length
        rows[game, 2] = largest_exponent(board, np.uint64(0))
        state[_GAMES] += np.uint64(1)
        state[_MOVES] += np.uint64(length)
        moves += length
        if moves >= n_moves:
            return game + 1
    return len(rows)


class Learner:
    """A network that learns by playing, with all that it needs to go on after a break.

    Args:
        net: the network to train, in place; by default `4x6` for the 4x4 board, all zero.
        settings: how to learn.
        seed: of the games; the first is the game that `Game2048-v0` plays from this seed.
    """

    def __init__(
        self, net: Network | None = None, settings: Settings | None = None, seed: int | None = None
    ) -> None:
        self.network = network() if net is None else net
        self.settings = settings or Settings()
        self._state = np.array([seed_word(seed), 0, 0], np.uint64)
        tc = self.settings.rule == "tc"
        self.sums = np.zeros(2 * self.network.weights.size if tc else 0, np.float32)
        self._path = np.empty(MAX_MOVES, np.uint64), np.empty(MAX_MOVES, np.int64)

    @property
    def n_games(self) -> int:
        """How many games it has learned from."""
        return int(self._state[_GAMES])

    @property
    def n_moves(self) -> int:
        """How many moves these games had."""
        return int(self._state[_MOVES])

    @property
    def rng(self) -> int:
        """The state of its random stream."""
        return int(self._state[_RNG])

    def play(self, n_moves: float) -> Games:
        """Plays and learns whole games of at least `n_moves` moves together.

        Raises:
            ValueError: `n_moves` is not a whole number from 1 on.
        """
        n_moves = _count(n_moves)
        s = self.settings
        how = Update(self.sums, np.float32(s.rate))
        backward, lam = s.order == "backward", np.float32(s.lam)
        end = self.n_moves + n_moves
        batches = []
        while self.n_moves < end:
            left = end - self.n_moves
            rows = np.empty((left // 32 + 1, 3), np.int64)
            n = _self_play(self.network, how, backward, lam, self._state, left, *self._path, rows)
            batches.append(rows[:n])
        played = np.concatenate(batches)
        return Games(played[:, 0], played[:, 1], 1 << played[:, 2])

    def save(self, path: str | Path) -> None:
        """Writes everything to a file, from which `load` goes on as if nothing had happened."""
        header, arrays = pack_network(self.network)
        header["learner"] = {
            "settings": asdict(self.settings),
            "rng": self.rng,
            "n_games": self.n_games,
            "n_moves": self.n_moves,
        }
        files.write(path, "ntuple", header, {**arrays, "sums": self.sums})

    @classmethod
    def load(cls, path: str | Path) -> Learner:
        """The learner of a file that `save` wrote.

        Raises:
            ValueError: not such a file, a damaged one, or one with a network only.
        """
        header, arrays = files.read(path, "ntuple")
        if "learner" not in header:
            raise ValueError(
                f"{path} has a network but no learner: it can play, not go on learning"
            )
        net = unpack_network(path, header, arrays)
        try:
            state, sums = header["learner"], arrays["sums"]
            learner = cls(net, Settings(**state["settings"]))
            if sums.shape != learner.sums.shape or sums.dtype != np.float32:
                raise ValueError("its sums do not fit its network")
            learner._state[:] = [operator.index(state[k]) for k in ("rng", "n_games", "n_moves")]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        learner.sums = sums
        return learner


class Progress(NamedTuple):
    """How far training is: see `train`."""

    n_games: int
    n_moves: int
    seconds: float  # since `train` began
    moves_per_second: float  # since the last report
    mean_score: float  # of the last 1,000 games
    rate_2048: float  # share of them that reached 2048


def train(
    learner: Learner,
    n_moves: float | None = None,
    seconds: float | None = None,
    save_to: str | Path | None = None,
    report: Callable[[Progress], Any] | None = None,
) -> list[Progress]:
    """Trains a learner, and saves it at the end and when it is interrupted.

    Args:
        learner: learns in place.
        n_moves: stop after so many moves more.
        seconds: stop after so long.
        save_to: file to save the learner to, also on Ctrl-C, before the interrupt goes on.
        report: called about twice a second.

    Returns:
        The reports.

    Raises:
        ValueError: neither `n_moves` nor `seconds` is given, or not a number of moves.
        OSError: `save_to` cannot be written; this shows before training.
    """
    if n_moves is None and seconds is None:
        raise ValueError("train needs n_moves or seconds, or it would never end")
    end = None if n_moves is None else learner.n_moves + _count(n_moves, least=0)
    if save_to is not None:
        files.prepare(save_to)
    start = time.monotonic()
    reports: list[Progress] = []
    recent: list[Games] = []
    chunk = 10_000
    try:
        while not _is_done(learner, end, start, seconds):
            began = time.monotonic()
            left = chunk if end is None else min(chunk, end - learner.n_moves)
            games = learner.play(left)
            took = max(1e-3, time.monotonic() - began)
            recent = _last(recent, games)
            reports.append(_progress(learner, recent, start, int(games.n_moves.sum()) / took))
            if report is not None:
                report(reports[-1])
            chunk = max(1_000, int(chunk * min(2.0, 0.5 / took)))
    finally:
        if save_to is not None:
            learner.save(save_to)
    return reports


def _count(n_moves: float, least: int = 1) -> int:
    """A number of moves, which may be a whole float such as 5e7.

    Raises:
        ValueError: not a whole number, or below the least.
    """
    if not least <= n_moves < 2**63 or n_moves != int(n_moves):
        raise ValueError(f"n_moves is a whole number from {least} on, got {n_moves!r}")
    return int(n_moves)


def _is_done(learner: Learner, end: int | None, start: float, seconds: float | None) -> bool:
    """Whether training has reached its number of moves or its time."""
    if end is not None and learner.n_moves >= end:
        return True
    return seconds is not None and time.monotonic() - start >= seconds


def _last(recent: list[Games], games: Games) -> list[Games]:
    """The latest batches of games that have 1,000 games together."""
    recent = [*recent, games]
    while sum(len(batch.scores) for batch in recent[1:]) >= 1_000:
        recent = recent[1:]
    return recent


def _progress(learner: Learner, recent: list[Games], start: float, speed: float) -> Progress:
    """A report on a learner, given its latest games."""
    scores = np.concatenate([batch.scores for batch in recent])[-1_000:]
    tiles = np.concatenate([batch.max_tiles for batch in recent])[-1_000:]
    return Progress(
        n_games=learner.n_games,
        n_moves=learner.n_moves,
        seconds=time.monotonic() - start,
        moves_per_second=speed,
        mean_score=float(scores.mean()),
        rate_2048=float((tiles >= 2048).mean()),
    )
