"""Alpha-beta search with a hand-made evaluation, as in the program 2048-AI.

    agents.make("alphabeta", depth=3).act(words)

The program is by Matt Overlan, 2014, MIT licence: https://github.com/ovolve/2048-AI. The evaluation
is in `values/heuristic.py`.

The search maximizes over moves and minimizes over the tiles that are worst by a quick
measure (see `placements`). A 2048 tile wins, the sooner the better, and a board without a move is
lost.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numba
import numpy as np
import numpy.typing as npt
from numba import boolean, float64, int8, int64, njit, uint64
from pydantic import Field

from afterstate.agents.config import Count, Number, Seconds, Whole, given_or_default, settings
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.kernels import INLINED, KERNEL, trailing_zeros
from afterstate.agents.game2048.search.placements import (
    ORDER,
    cells_of,
    placements,
    smoothness_losses,
)
from afterstate.agents.game2048.values.heuristic import (
    BOUND,
    WIN,
    Compared,
    Heuristic,
    Weights,
    heuristic,
    value_of,
)
from afterstate.envs.game2048.rules import (
    P_FOUR,
    P_TWO,
    afterstates,
    check_tile,
    check_word,
    check_words,
    largest,
    table,
)
from afterstate.envs.words import Floats, Ints, Word, Words

MAX_DEPTH = 32
"""The largest depth of a search, in moves."""

_1, _15 = np.uint64(1), np.uint64(15)


# Search

Tiles = Literal["annoying", "any", "chance"]
TILES: tuple[Tiles, ...] = get_args(Tiles)
"""Tiles that a search expects: only those worst by a quick measure, as in 2048-AI (`annoying`), the
worst of all for the search (`any`), or all by chance."""

Cutoffs = Literal["worse", "equal"]
CUTOFFS: tuple[Cutoffs, ...] = get_args(Cutoffs)
"""Lines that are cut off: those worse than the bound, as in 2048-AI, or also those equal to it,
which gives the same moves and values with far fewer positions."""


class Search(NamedTuple):
    """Settings and memory of a search, as kernels take them."""

    heuristic: Heuristic
    losses: Words  # see `smoothness_losses`
    tiles: int  # an index in TILES
    equal: bool  # True: lines equal to the bound are cut off
    goal: int  # the exponent that wins; 0: none
    move_table: Words
    counts: Ints  # [2]: number of positions and of cutoffs
    line: Words  # [plies, plies]: the best play from each ply on: boards after moves and tiles
    lengths: Ints  # [plies]


def new_search(heuristic: Heuristic, tiles: Tiles, cutoffs: Cutoffs, goal: int) -> Search:
    """Return a new search."""
    n = 2 * MAX_DEPTH + 2
    counts, lengths = np.zeros(2, np.int64), np.zeros(n, np.int64)
    line = np.empty((n, n), np.uint64)
    kind, equal = TILES.index(tiles), cutoffs == "equal"
    losses = smoothness_losses()
    return Search(heuristic, losses, kind, equal, goal, table(), counts, line, lengths)


_SEARCH: numba.types.Type = numba.typeof(new_search(heuristic(), "annoying", "worse", 11))
_ANNOYING, _CHANCE = TILES.index("annoying"), TILES.index("chance")


@njit(numba.void(_SEARCH, int64, uint64), **KERNEL)
def _extend_line(search: Search, ply: int, board: Word) -> None:
    """Set the best line from a ply on to a board followed by the line from the next ply on."""
    search.line[ply, 0] = board
    n = search.lengths[ply + 1]
    for i in range(n):
        search.line[ply, i + 1] = search.line[ply + 1, i]
    search.lengths[ply] = n + 1


@njit(boolean(uint64, int64), **KERNEL)
def _has(board: Word, tile: int) -> bool:
    """Return True if a board has a tile, given by its exponent."""
    return bool(cells_of(board, np.uint64(tile)) != 0)


@njit(float64(uint64, int64, _SEARCH), **INLINED)
def _leaf(board: Word, end: int, search: Search) -> float:
    """Return the value of a board at the end of the search."""
    search.lengths[end] = 0
    return value_of(board, search.heuristic)


@njit(float64(uint64, int64, int64, float64, float64, _SEARCH), **KERNEL, nogil=True)
def _value(board: Word, ply: int, end: int, alpha: float, beta: float, search: Search) -> float:
    """Return the alpha-beta value of a board, clipped to the window (fail-hard).

    The player moves at even plies, tiles appear at odd ones. The search is one function because
    a compiled function may call itself, but not another one that calls it.

    Args:
        board: board before a move at ply 0, 2, ..., otherwise an afterstate.
        ply: the number of moves and tiles before the board.
        end: the ply at which boards are evaluated, an odd one.
        alpha: lower bound (fail-hard).
        beta: upper bound (fail-hard).
        search: is written to.
    """
    if ply == end:
        return _leaf(board, end, search)
    search.lengths[ply] = 0
    if ply % 2 == 0:
        best = alpha
        afters, _ = afterstates(board, search.move_table)
        for action in range(4):
            after = afters[action]
            if after == board:
                continue
            search.counts[0] += 1
            if search.goal > 0 and _has(after, search.goal):
                search.lengths[ply + 1] = 0
                _extend_line(search, ply, after)
                return BOUND
            if ply + 1 == end:  # inlined: most boards are leaves
                score = _leaf(after, end, search)
            else:
                score = _value(after, ply + 1, end, best, beta, search)
            if score > WIN:
                score -= 1.0  # sooner is better
            if score > best:
                best = score
                _extend_line(search, ply, after)
            if best > beta or (search.equal and best == beta):
                search.counts[1] += 1
                return beta
        return best
    left = placements(board, search.tiles == _ANNOYING, search.losses)
    best = beta
    while left != 0:
        slot = np.int64(trailing_zeros(left))
        left &= left - _1
        child = board | np.uint64(1 + slot // 16) << ORDER[slot % 16]
        search.counts[0] += 1
        score = _value(child, ply + 1, end, alpha, best, search)
        if score < best or search.lengths[ply] == 0:  # among equals the first
            best = min(best, score)
            _extend_line(search, ply, child)
        if best < alpha or (search.equal and best == alpha):
            search.counts[1] += 1
            return alpha
    return best


@njit(float64(uint64, int64, int64, _SEARCH), **KERNEL, nogil=True)
def _expected(board: Word, ply: int, end: int, search: Search) -> float:
    """Return the expectimax value of a board; the arguments are those of `_value`."""
    if ply == end:
        return _leaf(board, end, search)
    search.lengths[ply] = 0
    if ply % 2 == 0:
        best = -BOUND
        afters, _ = afterstates(board, search.move_table)
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
                _extend_line(search, ply, after)
        return best
    n_empty, total = 0, 0.0
    for i in range(16):
        if board >> ORDER[i] & _15 == 0:
            n_empty += 1
            search.counts[0] += 2
            total += P_TWO * _expected(board | _1 << ORDER[i], ply + 1, end, search)
            total += P_FOUR * _expected(board | np.uint64(2) << ORDER[i], ply + 1, end, search)
    search.lengths[ply] = 0  # no single best line
    return total / n_empty


@njit(float64(uint64, int64, int64, _SEARCH), **KERNEL)
def _search_value(board: Word, ply: int, end: int, search: Search) -> float:
    """Return the value of a board at a ply, by alpha-beta or expectimax search."""
    if search.tiles == _CHANCE:
        return _expected(board, ply, end, search)
    return _value(board, ply, end, -BOUND, BOUND, search)


@njit(_SEARCH(uint64, _SEARCH), **KERNEL)
def _reset(board: Word, search: Search) -> Search:
    """Return the search with counts at 0, and without a goal that the board has reached."""
    heuristic, losses, tiles, equal, goal, move_table, counts, line, lengths = search
    counts[:] = 0
    ahead = goal if largest(board) < goal else 0
    return Search(heuristic, losses, tiles, equal, ahead, move_table, counts, line, lengths)


@njit(numba.types.Tuple((int64, float64, int64))(_SEARCH, uint64, int64), **KERNEL, nogil=True)
def search_to(search: Search, board: Word, depth: int) -> tuple[int, float, int]:
    """Search a board to a depth in moves, or less deep if all lines are lost.

    Args:
        search: is written to: counts, and the best line from ply 0 on.
        board: board before a move.
        depth: moves to search, 1 or more.

    Returns:
        The best move, -1 if none is legal; its value; and the depth.
    """
    while True:
        fresh = _reset(board, search)
        value = _search_value(board, 0, 2 * depth - 1, fresh)
        if fresh.lengths[0] > 0:
            break
        if depth == 1:
            return -1, value, depth
        depth -= 1
    afters, action = afterstates(board, fresh.move_table)[0], 0
    while afters[action] != fresh.line[0, 0]:
        action += 1
    return action, value, depth


@njit(numba.void(_SEARCH, uint64[::1], int64, int8[::1]), **KERNEL, nogil=True)
def choose(search: Search, boards: Words, depth: int, actions: npt.NDArray[np.int8]) -> None:
    """Write the best moves of boards `[B]` to `actions` `[B]`, 0 where none is legal."""
    for i in range(boards.size):
        action, _, _ = search_to(search, boards[i], depth)
        actions[i] = max(action, 0)


@njit(float64(uint64, int64, _SEARCH), **KERNEL, nogil=True)
def _move_value(after: Word, end: int, search: Search) -> float:
    """Return the value of a move to an afterstate, by a search of its own."""
    search.counts[0] += 1
    if search.goal > 0 and _has(after, search.goal):
        return BOUND
    value = _search_value(after, 1, end, search)
    return value - 1.0 if value > WIN else value


@njit(int64(_SEARCH, uint64, int64, float64[::1]), **KERNEL, nogil=True)
def evaluate_moves(search: Search, board: Word, depth: int, values: Floats) -> int:
    """Write the values of the moves of a board to `values` `[4]`.

    Returns:
        The depth, which is reduced while all lines are lost.
    """
    afters, _ = afterstates(board, search.move_table)
    while True:
        fresh, best = _reset(board, search), -BOUND
        for action in range(4):
            legal = afters[action] != board
            values[action] = _move_value(afters[action], 2 * depth - 1, fresh) if legal else -np.inf
            best = max(best, values[action])
        if best > -BOUND or depth == 1:
            return depth
        depth -= 1


# The player

Depth = Annotated[Count, Field(le=MAX_DEPTH)]
AtLeast1 = Annotated[Number, Field(ge=1)]


@settings
class AlphaBetaSettings(Weights):
    """Settings of the evaluation and the search.

    Raises:
        ValueError: a wrong setting.
    """

    depth: Depth | None = None
    """Depth in moves, 1 being greedy (which 2048-AI calls 0); by default as deep as time allows. A
    deep search may take hours, and Ctrl-C waits for it."""
    seconds: Seconds = 0.1
    """Time after which no deeper search begins; unused with a depth. A search that has begun is
    finished."""
    patience: AtLeast1 | None = 5.0
    """A search begins only if it is expected to end within this many times `seconds`, extrapolated
    from the two searches before; it may take up to four times as long on boards with few tiles.
    None: no limit, as in 2048-AI, where a search may take many times `seconds`."""
    compared: Compared = "occupied"
    """Cells that monotonicity compares."""
    tiles: Tiles = "annoying"
    """Tiles that the search expects."""
    cutoffs: Cutoffs = "worse"
    """Lines that are cut off; unused with `tiles="chance"`."""
    goal: Whole | None = 2048
    """Tile that wins, from 4 to 32768, on boards without one as large; None: no tile wins."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.goal is not None:
            check_tile("goal", self.goal, 32768)


class SearchResult(NamedTuple):
    """The result of a search."""

    action: int  # the best move; -1 if none is legal
    value: float  # of the best move; those of the others are only bounded: see `evaluate`
    depth: int  # in moves
    n_searched: int  # boards after a move or a tile, in the last iteration
    n_cutoffs: int  # in the last iteration
    line: list[int]  # the best line: boards after each move and each tile


class AlphaBetaAgent(Agent):
    """Plays by alpha-beta search with the hand-made evaluation.

    Args:
        settings: settings of evaluation and search.

    Raises:
        ValueError: not `AlphaBetaSettings`.
    """

    def __init__(self, settings: AlphaBetaSettings | None = None) -> None:
        self.settings = given_or_default(settings, AlphaBetaSettings)
        self._heuristic = heuristic(self.settings, self.settings.compared)

    def search(self, board: Any) -> SearchResult:
        """Search a board word by iterative deepening until time is up, or to the depth of settings.

        If all lines are lost, the result is that of a shallower search.

        Raises:
            ValueError: not a board word.
        """
        word, search = check_word(board, *self.size), self._search()
        if self.settings.depth is None:  # load the kernel before the clock starts
            search_to(self._search(), word, 1)
        for depth in self._depths():
            action, value, reached = search_to(search, word, depth)
            if reached < depth:
                break
        line = search.line[0, : search.lengths[0]].tolist()
        n_searched, n_cutoffs = search.counts.tolist()
        return SearchResult(action, value, reached, n_searched, n_cutoffs, line)

    def evaluate(self, boards: Any) -> Floats:
        """Return the values of the moves up, right, down and left of board words `uint64[...]`.

        It takes about as long as `search` with the same settings.

        Returns:
            The value of each move by a search of its own, `float64[..., 4]`, minus infinity for
            illegal moves.
        """
        array, search = check_words(boards, *self.size), self._search()
        result = np.empty((array.size, 4))
        for word, values in zip(array.reshape(-1), result, strict=True):
            for depth in self._depths():
                if evaluate_moves(search, word, depth, values) < depth:
                    break
        return result.reshape(*array.shape, 4)

    def choose_actions(self, boards: Words) -> npt.NDArray[np.int8]:
        """Return the moves `int8[B]` that the searches find."""
        actions = np.zeros(boards.size, np.int8)
        if self.settings.depth is not None:
            choose(self._search(), boards, self.settings.depth, actions)
        else:
            actions[:] = [max(0, self.search(word).action) for word in boards]
        return actions

    def _search(self) -> Search:
        """Return a new search by the settings."""
        goal = 0 if self.settings.goal is None else self.settings.goal.bit_length() - 1
        return new_search(self._heuristic, self.settings.tiles, self.settings.cutoffs, goal)

    def _depths(self) -> Iterable[int]:
        """Return the depths of the successive searches of a board."""
        settings = self.settings
        if settings.depth is not None:
            return (settings.depth,)
        patience = math.inf if settings.patience is None else settings.patience
        return _deepening(settings.seconds, patience)


def _deepening(seconds: float, patience: float) -> Iterator[int]:
    """Yield depths from 1 on while there is time; each is searched before the next is drawn."""
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
