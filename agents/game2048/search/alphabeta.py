"""Alpha-beta search with a hand-made evaluation: no learning, and the player that most people know.

    agents.make("alphabeta", depth=3).act(words)

It is the method of the program 2048-AI by Matt Overlan, 2014, under the MIT licence, with the
evaluation in `hand_made`: https://github.com/ovolve/2048-AI.

The player makes the move from which he gets the most against the most annoying tiles (see
`placements`). A tile of 2048 is a win, the sooner the better, and a board without a move is lost.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba import boolean, float64, int8, int64, njit, uint64

from afterstate.agents.config import check_fields
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.kernels import count_zeros
from afterstate.agents.game2048.search.placements import ORDER, cells_of, placements, rougher
from afterstate.agents.game2048.values.heuristic import (
    BOUND,
    COMPARED,
    WIN,
    Heuristic,
    Indices,
    Values,
    Weights,
    evaluate,
    heuristic,
    terms,
    worth,
)
from afterstate.agents.game2048.values.ntuple import INLINED, KERNEL
from afterstate.envs.game2048.rules import afterstates, check_words, largest, table
from afterstate.envs.words import Word, Words

__all__ = [
    "COMPARED",
    "CUTOFFS",
    "TILES",
    "AlphaBetaAgent",
    "Found",
    "Settings",
    "Weights",
    "evaluate",
    "terms",
]

MAX_DEPTH = 32
"""No search looks more moves ahead."""

_1, _15 = np.uint64(1), np.uint64(15)


# Search

TILES = ("annoying", "any", "chance")
"""What tiles a search expects: the most annoying ones, the worst, or all by their chances."""

CUTOFFS = ("worse", "equal")
"""Which lines are cut off: those that are worse than what is had, as in the original, or also those
that are as good, which finds the same moves and values at far fewer positions."""


class Search(NamedTuple):
    """What a search needs, in the form that kernels take."""

    heuristic: Heuristic
    rougher: Words  # by tiles: see `rougher`
    tiles: int  # index in TILES
    equal: bool  # whether lines that are as good are cut off
    goal: int  # the exponent that wins; 0: none
    moves: Words  # the move table
    counts: Indices  # [2]: positions and cutoffs so far
    line: Words  # [plies, plies]: the best play from each ply on: boards after moves and tiles
    lengths: Indices  # [plies]


def new_search(heuristic: Heuristic, tiles: str, cutoffs: str, goal: int) -> Search:
    """A search that begins."""
    n = 2 * MAX_DEPTH + 2
    counts, lengths = np.zeros(2, np.int64), np.zeros(n, np.int64)
    line = np.empty((n, n), np.uint64)
    how = TILES.index(tiles), cutoffs == "equal"
    return Search(heuristic, rougher(), *how, goal, table(), counts, line, lengths)


_SEARCH: numba.types.Type = numba.typeof(new_search(heuristic(), "annoying", "worse", 11))
_ANNOYING, _CHANCE = TILES.index("annoying"), TILES.index("chance")


@njit(numba.void(_SEARCH, int64, uint64), **KERNEL)
def _lead(search: Search, ply: int, board: Word) -> None:
    """Lets the best play from a ply on begin with a board and go on as from the next ply."""
    search.line[ply, 0] = board
    n = search.lengths[ply + 1]
    for i in range(n):
        search.line[ply, i + 1] = search.line[ply + 1, i]
    search.lengths[ply] = n + 1


@njit(boolean(uint64, int64), **KERNEL)
def _has(board: Word, tile: int) -> bool:
    """Whether a board has a tile, by its exponent."""
    return bool(cells_of(board, np.uint64(tile)) != 0)


@njit(float64(uint64, int64, _SEARCH), **INLINED)
def _leaf(board: Word, end: int, search: Search) -> float:
    """What a board is worth where search ends."""
    search.lengths[end] = 0
    return worth(board, search.heuristic)


@njit(float64(uint64, int64, int64, float64, float64, _SEARCH), **KERNEL, nogil=True)
def _value(board: Word, ply: int, end: int, alpha: float, beta: float, search: Search) -> float:
    """What a board is worth by search, within a window.

    On even plies the player moves, on odd ones tiles come. From the first ply on the whole search
    is one function, for a compiled function may call itself and no other that calls it.

    Args:
        board: at ply 0, 2, ... before a move, else an afterstate.
        ply: how many moves and tiles there were before.
        end: the ply at which boards are evaluated, an odd one.
        alpha: what the player has for certain; less is not told apart.
        beta: what he will not be given; more is not told apart.
        search: is written to.
    """
    if ply == end:
        return _leaf(board, end, search)
    search.lengths[ply] = 0
    if ply % 2 == 0:
        best = alpha
        afters, _ = afterstates(board, search.moves)
        for action in range(4):
            after = afters[action]
            if after == board:
                continue
            search.counts[0] += 1
            if search.goal > 0 and _has(after, search.goal):
                search.lengths[ply + 1] = 0
                _lead(search, ply, after)
                return BOUND
            if ply + 1 == end:  # most boards are leaves, and a call takes longer than their value
                score = _leaf(after, end, search)
            else:
                score = _value(after, ply + 1, end, best, beta, search)
            if score > WIN:
                score -= 1.0  # sooner is better
            if score > best:
                best = score
                _lead(search, ply, after)
            if best > beta or (search.equal and best == beta):
                search.counts[1] += 1
                return beta
        return best
    left = placements(board, search.tiles == _ANNOYING, search.rougher)
    best = beta
    while left != 0:
        slot = np.int64(count_zeros(left))
        left &= left - _1
        then = board | np.uint64(1 + slot // 16) << ORDER[slot % 16]
        search.counts[0] += 1
        score = _value(then, ply + 1, end, alpha, best, search)
        if score < best or search.lengths[ply] == 0:  # where all tiles are as good, the first
            best = min(best, score)
            _lead(search, ply, then)
        if best < alpha or (search.equal and best == alpha):
            search.counts[1] += 1
            return alpha
    return best


@njit(float64(uint64, int64, int64, _SEARCH), **KERNEL, nogil=True)
def _expected(board: Word, ply: int, end: int, search: Search) -> float:
    """What a board is worth if tiles come by chance; the arguments are those of `_value`."""
    if ply == end:
        return _leaf(board, end, search)
    search.lengths[ply] = 0
    if ply % 2 == 0:
        best = -BOUND
        afters, _ = afterstates(board, search.moves)
        for action in range(4):
            after = afters[action]
            if after == board:
                continue
            search.counts[0] += 1
            search.lengths[ply + 1] = 0
            won = search.goal > 0 and _has(after, search.goal)
            if won:
                score = BOUND
            elif ply + 1 == end:
                score = _leaf(after, end, search)
            else:
                score = _expected(after, ply + 1, end, search)
            if not won and score > WIN:
                score -= 1.0  # sooner is better
            if score > best:
                best = score
                _lead(search, ply, after)
        return best
    n_empty, total = 0, 0.0
    for i in range(16):
        if board >> ORDER[i] & _15 == 0:
            n_empty += 1
            search.counts[0] += 2
            total += 0.9 * _expected(board | _1 << ORDER[i], ply + 1, end, search)
            total += 0.1 * _expected(board | np.uint64(2) << ORDER[i], ply + 1, end, search)
    search.lengths[ply] = 0  # of many lines none is the best
    return total / n_empty


@njit(float64(uint64, int64, int64, _SEARCH), **KERNEL)
def _searched(board: Word, ply: int, end: int, search: Search) -> float:
    """What a board is worth that stands at a ply, by the search that its tiles ask for."""
    if search.tiles == _CHANCE:
        return _expected(board, ply, end, search)
    return _value(board, ply, end, -BOUND, BOUND, search)


@njit(_SEARCH(uint64, _SEARCH), **KERNEL)
def _begun(board: Word, search: Search) -> Search:
    """A search that begins with a board, without a goal if that is reached."""
    heuristic, rougher, tiles, equal, goal, moves, counts, line, lengths = search
    counts[:] = 0
    ahead = goal if largest(board) < goal else 0
    return Search(heuristic, rougher, tiles, equal, ahead, moves, counts, line, lengths)


@njit(numba.types.Tuple((int64, float64, int64))(uint64, int64, _SEARCH), **KERNEL, nogil=True)
def search_to(board: Word, depth: int, search: Search) -> tuple[int, float, int]:
    """Searches a board to a depth in moves, or less deep where all lines would be lost.

    Args:
        board: before a move.
        depth: from 1 on.
        search: is written to: counts, and the best play from ply 0 on.

    Returns:
        The best move, -1 if none is legal; what it is worth; and the depth.
    """
    while True:
        of = _begun(board, search)
        value = _searched(board, 0, 2 * depth - 1, of)
        if of.lengths[0] > 0:
            break
        if depth == 1:
            return -1, value, depth
        depth -= 1
    afters, action = afterstates(board, of.moves)[0], 0
    while afters[action] != of.line[0, 0]:
        action += 1
    return action, value, depth


@njit(numba.void(uint64[::1], int64, _SEARCH, int8[::1]), **KERNEL, nogil=True)
def choose(boards: Words, depth: int, search: Search, actions: npt.NDArray[np.int8]) -> None:
    """Writes the best moves of boards `[B]`, and 0 where none is legal, to `actions` `[B]`."""
    for i in range(boards.size):
        action, _, _ = search_to(boards[i], depth, search)
        actions[i] = max(action, 0)


@njit(float64(uint64, int64, _SEARCH), **KERNEL, nogil=True)
def _rate(after: Word, end: int, search: Search) -> float:
    """What a move is worth that leaves an afterstate, by a search of its own."""
    search.counts[0] += 1
    if search.goal > 0 and _has(after, search.goal):
        return BOUND
    value = _searched(after, 1, end, search)
    return value - 1.0 if value > WIN else value


@njit(int64(uint64, int64, _SEARCH, float64[::1]), **KERNEL, nogil=True)
def rate_moves(board: Word, depth: int, search: Search, values: Values) -> int:
    """Writes what the moves of a board are worth to `values` `[4]`.

    Returns:
        The depth, which is less than that asked for where all lines would be lost.
    """
    afters, _ = afterstates(board, search.moves)
    while True:
        of, best = _begun(board, search), -BOUND
        for action in range(4):
            legal = afters[action] != board
            values[action] = _rate(afters[action], 2 * depth - 1, of) if legal else -np.inf
            best = max(best, values[action])
        if best > -BOUND or depth == 1:
            return depth
        depth -= 1


# The player


@dataclass(frozen=True)
class Settings(Weights):
    """How to evaluate and to search.

    Raises:
        ValueError: a wrong setting.
    """

    depth: int | None = None
    """How many moves it looks ahead, 1 being greedy, which the original calls depth 0; by default
    as many as time allows. A search to a great depth may take hours, and Ctrl-C waits for it."""
    seconds: float = 0.1
    """After which it begins no deeper search; not used with a depth. What is begun is finished."""
    patience: float | None = 5.0
    """No search is begun that is expected to end after so many times `seconds`: by as much longer
    than the search before it as that took longer than its own. It may take more, on boards with few
    tiles up to four times as much. None: whatever it takes, as in the original, where a search that
    is begun in time may take many times as long."""
    compared: str = "occupied"
    """Which cells monotonicity compares: one of `COMPARED`."""
    tiles: str = "annoying"
    """What tiles it expects: one of `TILES`."""
    cutoffs: str = "worse"
    """Which lines it does not follow to their ends: one of `CUTOFFS`. Not used with chance."""
    goal: int | None = 2048
    """The tile that wins, as long as there is none as large; None if no tile does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, _RANGES, {"compared": COMPARED, "tiles": TILES, "cutoffs": CUTOFFS})
        if self.depth is not None and self.depth > MAX_DEPTH:
            raise ValueError(f"depth is at most {MAX_DEPTH}, got {self.depth}")
        if self.goal is not None and self.goal not in _GOALS:
            raise ValueError(f"goal is a tile from 4 to 32768, got {self.goal}")


_RANGES = {"depth": "from 1 on", "seconds": "above 0", "patience": "from 1 on"}
_GOALS = {1 << exponent: exponent for exponent in range(2, 16)}


class Found(NamedTuple):
    """What a search found."""

    action: int  # the best move; -1 if none is legal
    value: float
    depth: int  # in moves
    line: list[int]  # the best play: boards after each move and each tile
    positions: int  # in the last iteration
    cutoffs: int


class AlphaBetaAgent(Agent):
    """Plays by alpha-beta search with the hand-made evaluation.

    Args:
        settings: how.

    Raises:
        ValueError: no `Settings`.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        if not isinstance(settings, (Settings, type(None))):
            raise ValueError(f"settings are Settings(depth=3, ...), got {settings!r}")
        self.settings = how = settings or Settings()
        self._heuristic = heuristic(how, how.compared)

    def search(self, board: Any) -> Found:
        """Searches a board word, ever deeper until the time is over, or to the depth of settings.

        If the game is lost in all lines, what a shallower search has found counts.

        Raises:
            ValueError: not a board word.
        """
        word, search = self._word(board), self._search()
        for depth in self._depths():
            action, value, reached = search_to(word, depth, search)
            if reached < depth:
                break
        line = search.line[0, : search.lengths[0]].tolist()
        return Found(action, value, reached, line, *search.counts.tolist())

    def evaluate(self, boards: Any) -> Values:
        """The values of the moves up, right, down and left of board words `uint64[...]`.

        It takes about as long as `search`, by the same depth or the same time.

        Returns:
            What each move is worth by a search of its own, `float64[..., 4]`; minus infinity where
            a move is illegal.
        """
        array, search = check_words(boards, *self.size), self._search()
        found = np.empty((array.size, 4))
        for word, values in zip(array.reshape(-1), found, strict=True):
            for depth in self._depths():
                if rate_moves(word, depth, search, values) < depth:
                    break
        return found.reshape(*array.shape, 4)

    def _act(self, boards: Words) -> npt.NDArray[np.int8]:
        actions = np.zeros(boards.size, np.int8)
        if self.settings.depth is not None:
            choose(boards, self.settings.depth, self._search(), actions)
        else:
            actions[:] = [max(0, self.search(word).action) for word in boards]
        return actions

    def _word(self, board: Any) -> Word:
        """A board word, checked."""
        array = check_words(board, *self.size)
        if array.ndim:
            raise ValueError(f"one board at a time, got {array.shape}")
        return np.uint64(array)

    def _search(self) -> Search:
        """What searches need."""
        how = self.settings
        goal = 0 if how.goal is None else _GOALS[how.goal]
        return new_search(self._heuristic, how.tiles, how.cutoffs, goal)

    def _depths(self) -> Iterable[int]:
        """The depths of the searches of a board, one after the other."""
        how = self.settings
        if how.depth is not None:
            return (how.depth,)
        return _ever_deeper(how.seconds, math.inf if how.patience is None else how.patience)


def _ever_deeper(seconds: float, patience: float) -> Iterator[int]:
    """Depths from 1 on as long as there is time; each is searched before the next is asked for."""
    began = ended = time.monotonic()
    took = math.inf
    for depth in range(1, MAX_DEPTH + 1):
        yield depth
        before, started, ended = took, ended, time.monotonic()
        took = max(ended - started, 1e-6)  # clocks may stand still
        expected = took * max(took / before, 1.0)
        passed = ended - began
        if passed >= seconds or passed + expected > patience * seconds:
            return
