"""Exact solution of small boards: the largest expected score from every afterstate on.

A slide keeps the sum of all tiles and a new tile adds 2 or 4, so no board occurs twice in a game.
Boards are grouped in *layers* of equal half sum: a forward pass finds the boards that occur, layer
after layer, and a backward pass computes their values:

    half sum     n                          n+1 and n+2
    board  -- max over moves -->  afterstate  -- mean over tiles -->  board

Symmetric boards are represented by the smallest of their words, which reduces 3x3 from 389 million
boards to 49 million (solved by Galebach 2014 and Yamashita et al. 2022); 3x4 has more than 10**12
(Kaneko and Yamashita 2025), which is infeasible here.

The same passes with one player's moves give that player's exact expected score.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, permutations
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba import float64, int64, njit, uint8, uint64, void

from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.play import Player, actions_of, size_of_player
from afterstate.envs.game2048.rules import (
    P_FOUR,
    P_TWO,
    afterstates,
    canonical,
    check_words,
    field,
    legal,
    lowest_cell,
    occupied,
    size_of,
    symmetries,
    table,
    to_text,
)
from afterstate.envs.messages import shown
from afterstate.envs.words import Floats, Word, Words

MAX_CELLS = 9
"""Cells of the largest board that is solved."""

ActionSets = npt.NDArray[np.uint8]  # bit `a` is set where action `a` may be played


class _Game(NamedTuple):
    """A board size, as kernels take it."""

    move_table: Words
    rows: int
    cols: int
    symmetric: int  # number of symmetries under which boards are merged; 1: none


def _game(size: tuple[int, int]) -> _Game:
    """Return the game of a board size, with symmetric boards merged."""
    return _Game(table(*size), *size, 8 if size[0] == size[1] else 4)


_GAME = numba.typeof(_game((2, 2)))


# Kernels


@njit(uint64(_GAME, uint64), cache=True)
def _canonical(game: _Game, board: Word) -> Word:
    """Return the smallest word among the symmetric boards of this one."""
    return canonical(board, game.rows, game.cols, game.symmetric)


@njit(uint64[::1](_GAME, uint64[::1]), cache=True)
def _canonicals(game: _Game, boards: Words) -> Words:
    """Return the smallest word among the symmetric boards of each of these."""
    smallest = np.empty_like(boards)
    for i in range(boards.size):
        smallest[i] = _canonical(game, boards[i])
    return smallest


@njit(int64(_GAME, uint64[::1]), cache=True)
def _count(game: _Game, boards: Words) -> int:
    """Return the number of distinct boards among these and their symmetric boards."""
    n = 0
    for board in boards:
        n_same = 0
        images = symmetries(board, game.rows, game.cols)
        for i in range(8):
            n_same += i < game.symmetric and images[i] == board
        n += game.symmetric // n_same
    return n


@njit(uint64[::1](_GAME, uint64[::1], uint8[::1]), cache=True)
def _slides(game: _Game, boards: Words, permitted: ActionSets) -> Words:
    """Return the afterstates of all permitted legal moves, with repetitions."""
    slid, n = np.empty(4 * boards.size, np.uint64), 0
    for i in range(boards.size):
        afters, _ = afterstates(boards[i], game.move_table)
        for action in range(4):
            if permitted[i] >> action & 1 and afters[action] != boards[i]:
                slid[n] = _canonical(game, afters[action])
                n += 1
    return slid[:n]


@njit(uint64[::1](_GAME, uint64[::1], uint64), cache=True)
def _spawns(game: _Game, afters: Words, exponent: Word) -> Words:
    """Return the boards with a new tile in each empty cell, with repetitions."""
    boards, n = np.empty(game.rows * game.cols * afters.size, np.uint64), 0
    for after in afters:
        empty: Word = field(game.rows, game.cols) & ~occupied(after)
        while empty != 0:
            cell = lowest_cell(empty)
            empty ^= cell
            boards[n] = _canonical(game, after | cell * exponent)
            n += 1
    return boards[:n]


@njit(int64(uint64[::1], uint64), cache=True)
def _find(boards: Words, board: Word) -> int:
    """Return the index of a board in an ascending array that contains it."""
    at, size = 0, boards.size
    while size > 1:  # the board is in `size` places from `at` on
        half = size >> 1
        at += half * int(boards[at + half] <= board)
        size -= half
    return at


@njit(
    float64[::1](_GAME, uint64[::1], uint64[::1], float64[::1], uint64[::1], float64[::1]),
    cache=True,
)
def _means(
    game: _Game, afters: Words, with_2: Words, values_2: Floats, with_4: Words, values_4: Floats
) -> Floats:
    """Return the values of afterstates: the mean value of their boards after a new tile.

    Args:
        game: the board size.
        afters: the afterstates of one layer.
        with_2: the boards of the next layer, after a 2.
        values_2: their values.
        with_4: the boards of the layer after the next, after a 4.
        values_4: their values.
    """
    values = np.empty(afters.size)
    for i in range(afters.size):
        empty: Word = field(game.rows, game.cols) & ~occupied(afters[i])
        total, n = 0.0, 0
        while empty != 0:
            cell = lowest_cell(empty)
            empty ^= cell
            n += 1
            two = _canonical(game, afters[i] | cell)
            four = _canonical(game, afters[i] | cell << np.uint64(1))
            total += P_TWO * values_2[_find(with_2, two)] + P_FOUR * values_4[_find(with_4, four)]
        values[i] = total / n
    return values


@njit(float64[::1](_GAME, uint64[::1], uint8[::1], uint64[::1], float64[::1]), cache=True)
def _maxima(
    game: _Game, boards: Words, permitted: ActionSets, afters: Words, values: Floats
) -> Floats:
    """Return the values of boards: the largest reward plus value, 0 without a permitted move."""
    best = np.zeros(boards.size)
    for i in range(boards.size):
        slid, rewards = afterstates(boards[i], game.move_table)
        for action in range(4):
            if permitted[i] >> action & 1 and slid[action] != boards[i]:
                value = values[_find(afters, _canonical(game, slid[action]))]
                best[i] = max(best[i], rewards[action] + value)
    return best


@njit(void(_GAME, uint64[::1], uint64[:, ::1], float64[:, ::1]), cache=True)
def _look_ahead(game: _Game, boards: Words, afters: Words, rewards: Floats) -> None:
    """Write the four afterstates of every board and their rewards."""
    for i in range(boards.size):
        slid, gains = afterstates(boards[i], game.move_table)
        for action in range(4):
            afters[i, action], rewards[i, action] = slid[action], gains[action]


@njit(uint8[::1](_GAME, uint64[::1]), cache=True)
def _legal(game: _Game, boards: Words) -> ActionSets:
    """Return the legal moves of every board."""
    moves = np.empty(boards.size, np.uint8)
    for i in range(boards.size):
        moves[i] = legal(boards[i], field(game.rows, game.cols))
    return moves


# Layers


def _distinct(boards: Words) -> Words:
    """Return the distinct boards in ascending order: `np.unique` without its slow hashing."""
    ordered = np.sort(boards)
    is_new = np.ones(ordered.size, np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_new]


class _Layer(NamedTuple):
    """The boards of one half sum that occur, and the afterstates of that half sum."""

    boards: Words  # in ascending order
    permitted: ActionSets  # of each board
    afters: Words  # of the permitted moves, in ascending order


class _Starts(NamedTuple):
    """All boards with two start tiles, with repetitions."""

    boards: Words
    probabilities: Floats
    half_sums: npt.NDArray[np.int64]


def _starts(size: tuple[int, int]) -> _Starts:
    """Return the start boards of a board size."""
    on_board = [4 * cell for cell in range(16) if field(*size) >> 4 * cell & 1]
    places = list(permutations(on_board, 2))
    tiles = [(1, 1, 0.81), (1, 2, 0.09), (2, 1, 0.09), (2, 2, 0.01)]
    drawn = [(a << i | b << j, p, a + b) for i, j in places for a, b, p in tiles]
    boards, probabilities, half_sums = zip(*drawn, strict=True)
    return _Starts(
        np.array(boards, np.uint64),
        np.array(probabilities) / len(places),
        np.array(half_sums, np.int64),  # half of 2 and 4 are their exponents 1 and 2
    )


def _n_layers(game: _Game) -> int:
    """Return the number of half sums that boards can have, from 0 on.

    A half sum is a sum of powers of two, one for each tile, and 2**(n+1) - 1 has n + 1 ones in
    binary, too many for n cells. A 4 cannot skip it, since the half sum before has n ones, so that
    no cell is empty.
    """
    return (2 << game.rows * game.cols) - 1


def _find_layers(
    game: _Game, permit: Callable[[Words], ActionSets], report: Callable[[], Any]
) -> list[_Layer]:
    """Return the boards that occur in games of permitted moves, by half sum."""
    starts = _starts((game.rows, game.cols))
    none = np.zeros(0, np.uint64)
    layers = [_Layer(none, none.astype(np.uint8), none)] * 2
    while len(layers) < _n_layers(game):
        starting = starts.boards[starts.half_sums == len(layers)]
        with_2 = _spawns(game, layers[-1].afters, 1)
        with_4 = _spawns(game, layers[-2].afters, 2)
        boards = _distinct(np.concatenate([_canonicals(game, starting), with_2, with_4]))
        permitted = permit(boards)
        layers.append(_Layer(boards, permitted, _distinct(_slides(game, boards, permitted))))
        report()
    return layers


def _value_layers(
    game: _Game, layers: list[_Layer], report: Callable[[], Any]
) -> tuple[float, list[Floats]]:
    """Return the expected score of a whole game, and the values of each layer's afterstates.

    Removes the layers from their list one by one, to free their memory.
    """
    starts = _starts((game.rows, game.cols))
    value, values = 0.0, [np.zeros(0)] * len(layers)
    next_2 = next_4 = layers[0].boards, np.zeros(0)  # no boards after the last layer
    while len(layers) > 2:
        boards, permitted, afters = layers.pop()
        half_sum = len(layers)
        values[half_sum] = _means(game, afters, *next_2, *next_4)
        best = _maxima(game, boards, permitted, afters, values[half_sum])
        at = starts.half_sums == half_sum
        places = np.searchsorted(boards, _canonicals(game, starts.boards[at]))
        value += float(starts.probabilities[at] @ best[places])
        next_2, next_4 = (boards, best), next_2
        report()
    return value, values


def _check_cells(size: tuple[int, ...]) -> tuple[int, int]:
    """Return the size, checked.

    Raises:
        ValueError: a wrong size, or too many cells.
    """
    rows, cols = size_of(size)
    if rows * cols > MAX_CELLS:
        wanted = f"size must have at most {MAX_CELLS} cells: larger boards have too many states"
        raise ValueError(f"{wanted}, got {rows}x{cols}")
    return rows, cols


# Solutions


class Solution(NamedTuple):
    """The optimal play on boards of one size."""

    size: tuple[int, int]
    """Rows and columns."""
    value: float
    """The expected score of a whole game of optimal play."""
    afters: Words
    """All afterstates, `uint64[n]` in ascending order, each as its smallest symmetric board."""
    values: Floats
    """The expected score still to come after each of them, `float64[n]`."""
    n_states: int
    """Number of boards that occur, including final and symmetric ones."""
    n_afterstates: int
    """Number of afterstates that occur, including symmetric ones."""

    def estimate(self, boards: Any) -> Floats:
        """Return the values of afterstates `uint64[...]`, `float64[...]`.

        Raises:
            ValueError: not board words, or an afterstate that does not occur in games.
        """
        words = check_words(boards, *self.size)
        keys = _canonicals(_game(self.size), words.reshape(-1))
        order = keys.argsort()  # sorted queries read memory in order
        places = np.empty_like(order)
        places[order] = np.searchsorted(self.afters, keys[order]) % self.afters.size
        unknown = self.afters[places] != keys
        if unknown.any():
            text = to_text(words.reshape(-1)[int(unknown.argmax())], *self.size)
            raise ValueError(f"the afterstate {text} does not occur in games")
        values: Floats = self.values[places].reshape(words.shape)
        return values

    def evaluate(self, boards: Any) -> Floats:
        """Return the values of the moves up, right, down and left of board words `uint64[...]`.

        Returns:
            The expected score still to come `float64[..., 4]`, minus infinity for illegal moves.

        Raises:
            ValueError: not board words, or a move to an afterstate that does not occur in games.
        """
        words = check_words(boards, *self.size)
        afters, values = np.empty((words.size, 4), np.uint64), np.empty((words.size, 4))
        _look_ahead(_game(self.size), words.reshape(-1), afters, values)
        is_legal = afters != words.reshape(-1, 1)
        values[is_legal] += self.estimate(afters[is_legal])
        values[~is_legal] = -np.inf
        return values.reshape(*words.shape, 4)


def solve(
    size: tuple[int, int] = (2, 2), report: Callable[[int, int], Any] | None = None
) -> Solution:
    """Solve the game on boards of a size.

    2x3 takes 10 ms, 2x4 2 seconds, 3x3 half a minute and 2 GB.

    Args:
        size: rows and columns, at most 9 cells.
        report: called after each layer, in both passes, with the numbers of layers done and in
            total.

    Raises:
        ValueError: a wrong size, or more than 9 cells.

    >>> round(solve((2, 2)).value, 6)
    66.964149
    """
    size = _check_cells(size)
    game = _game(size)
    done, n_layers = count(1), 2 * (_n_layers(game) - 2)

    def advance() -> None:
        if report is not None:
            report(next(done), n_layers)

    layers = _find_layers(game, lambda boards: np.full(boards.size, 15, np.uint8), advance)
    afters = np.concatenate([layer.afters for layer in layers])
    n_states = sum(_count(game, layer.boards) for layer in layers)
    value, values = _value_layers(game, layers, advance)
    order = afters.argsort()
    return Solution(
        size=size,
        value=value,
        afters=afters[order],
        values=np.concatenate(values)[order],
        n_states=n_states,
        n_afterstates=_count(game, afters),
    )


class ExactAgent(Agent):
    """Plays the optimal move on a solved size, the first among equals.

    `act` raises ValueError for a board with a move to an afterstate that does not occur in games.
    """

    def __init__(self, solution: Solution) -> None:
        self.solution = solution
        self.size = solution.size

    def choose_actions(self, boards: Words) -> npt.NDArray[np.int8]:
        """Return the moves `int8[B]` of the largest value."""
        actions: npt.NDArray[np.int8] = self.solution.evaluate(boards).argmax(axis=1)
        return actions.astype(np.int8)


def expected_score(agent: Player, size: tuple[int, int] | None = None) -> float:
    """Return the exact expected score of a whole game of any player.

    The player gets each unfinished board that its games can reach once, a layer at a time. A player
    with random moves thus draws one move for each board; since no board occurs twice in a game, the
    mean over many such evaluations is its expected score.

    On 3x3 a player reaches some 150 million boards, which takes a minute and 3 GB plus the player's
    own time; 2x4 has 8 million.

    Args:
        agent: a player without memory.
        size: rows and columns, at most 9 cells; by default the player's `size`, or 4x4 if it has
            none.

    Raises:
        ValueError: a wrong size, more than 9 cells, not the player's size, or the player does not
            return one legal action a board.
    """
    own = size_of_player(agent, (4, 4) if size is None else size)
    size = _check_cells(own if size is None else size)
    if own != size:
        raise ValueError(f"size must be the player's, {own}, got {shown(size)}")
    game = _game(size)._replace(symmetric=1)  # the player may treat symmetric boards differently
    layers = _find_layers(game, lambda boards: _player_moves(agent, game, boards), lambda: None)
    return _value_layers(game, layers, lambda: None)[0]


def _player_moves(agent: Player, game: _Game, boards: Words) -> ActionSets:
    """Return the player's moves, checked; none where the game is over."""
    moves = _legal(game, boards)
    unfinished = boards[moves > 0]
    if unfinished.size == 0:
        return moves
    actions = actions_of(agent, unfinished)
    is_legal = (actions >= 0) & (actions < 4)
    is_legal &= (moves[moves > 0] >> (actions * is_legal).astype(np.uint8) & 1) == 1
    if not is_legal.all():
        wrong = int(np.argmin(is_legal))
        text = to_text(unfinished[wrong], game.rows, game.cols)
        raise ValueError(f"the player returned the illegal action {actions[wrong]} on {text}")
    moves[moves > 0] = 1 << actions
    return moves
