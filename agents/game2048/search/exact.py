"""Small boards solved exactly: the best expected score from every afterstate on.

A slide keeps the sum of all tiles and a new tile adds 2 or 4 to it, so no board comes twice in a
game. Boards are kept in *layers* of equal half sum: one pass finds those that occur, layer after
layer, and another, from the last layer back to the first, values them:

    half sum     n                          n+1 and n+2
    board  -- max over moves -->  afterstate  -- mean over tiles -->  board

Boards that are mirrored or turned into each other count as one, as the smallest of their words. So
3x3 takes 49 million boards, not 389 (solved by Galebach 2014 and by Yamashita et al. 2022); 3x4 has
more than 10**12 (Kaneko and Yamashita 2025), out of reach here.

The same passes with a player's moves in place of all moves give the exact expected score of that
player.
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
from afterstate.agents.game2048.play import Player
from afterstate.agents.game2048.values.ntuple import Network
from afterstate.agents.game2048.values.ntuple import network as empty_network
from afterstate.envs.game2048.rules import (
    afterstates,
    canonical,
    cells,
    check_size,
    check_words,
    field,
    legal,
    occupied,
    symmetries,
    table,
    to_text,
)
from afterstate.envs.words import Word, Words

MAX_CELLS = 9
"""Cells of the largest board that is solved."""
MAX_NETWORK_CELLS = 6
"""Cells of the largest board whose values make a network: 16**6 weights are 64 MiB."""

_TOO_MANY = "larger ones come to too many boards to go through them all"
_TOO_LARGE = "its table would have 16 weights to the power of its cells, so play by ExactAgent"

Values = npt.NDArray[np.float64]
Moves = npt.NDArray[np.uint8]  # sets of actions: bit `a` is set where action `a` may be played


class _Game(NamedTuple):
    """A board size, in the form that kernels take."""

    moves: Words  # the move table
    rows: int
    cols: int
    symmetric: int  # how many of a board's symmetries count as the same board; 1 is only itself


def _game(size: tuple[int, int]) -> _Game:
    """The game on one size of boards, all symmetric boards counting as one."""
    return _Game(table(*size), *size, 8 if size[0] == size[1] else 4)


_GAME = numba.typeof(_game((2, 2)))


# Kernels


@njit(uint64(_GAME, uint64), cache=True)
def _canonical(game: _Game, board: Word) -> Word:
    """The smallest word among the boards that count as this one."""
    return canonical(board, game.rows, game.cols, game.symmetric)


@njit(uint64[::1](_GAME, uint64[::1]), cache=True)
def _canonicals(game: _Game, boards: Words) -> Words:
    """The smallest word among the boards that count as each of these."""
    smallest = np.empty_like(boards)
    for i in range(boards.size):
        smallest[i] = _canonical(game, boards[i])
    return smallest


@njit(int64(_GAME, uint64[::1]), cache=True)
def _count(game: _Game, boards: Words) -> int:
    """How many different boards count as these: all symmetries over those that change nothing."""
    n = 0
    for board in boards:
        n_same = 0
        images = symmetries(board, game.rows, game.cols)
        for i in range(8):
            n_same += i < game.symmetric and images[i] == board
        n += game.symmetric // n_same
    return n


@njit(uint64[::1](_GAME, uint64[::1], uint8[::1]), cache=True)
def _slides(game: _Game, boards: Words, permitted: Moves) -> Words:
    """The afterstates of the permitted legal moves, as often as they come about."""
    found, n = np.empty(4 * boards.size, np.uint64), 0
    for i in range(boards.size):
        afters, _ = afterstates(boards[i], game.moves)
        for action in range(4):
            if permitted[i] >> action & 1 and afters[action] != boards[i]:
                found[n] = _canonical(game, afters[action])
                n += 1
    return found[:n]


@njit(uint64[::1](_GAME, uint64[::1], uint64), cache=True)
def _spawns(game: _Game, afters: Words, exponent: Word) -> Words:
    """The boards that a tile in any empty cell makes, as often as they come about."""
    found, n = np.empty(game.rows * game.cols * afters.size, np.uint64), 0
    for after in afters:
        empty: Word = field(game.rows, game.cols) & ~occupied(after)
        while empty != 0:
            cell = empty & (~empty + np.uint64(1))
            empty ^= cell
            found[n] = _canonical(game, after | cell * exponent)
            n += 1
    return found[:n]


@njit(int64(uint64[::1], uint64), cache=True)
def _find(boards: Words, board: Word) -> int:
    """Where a board is among others in ascending order; it must be there."""
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
    game: _Game, afters: Words, with_2: Words, worth_2: Values, with_4: Words, worth_4: Values
) -> Values:
    """The values of afterstates: the mean worth of the boards that a tile makes of them.

    Args:
        game: the board size.
        afters: of one layer.
        with_2: the boards of the next layer, where a 2 leads to.
        worth_2: what these are worth.
        with_4: the boards of the layer after the next.
        worth_4: what these are worth.
    """
    values = np.empty(afters.size)
    for i in range(afters.size):
        empty: Word = field(game.rows, game.cols) & ~occupied(afters[i])
        total, n = 0.0, 0
        while empty != 0:
            cell = empty & (~empty + np.uint64(1))
            empty ^= cell
            n += 1
            two = _canonical(game, afters[i] | cell)
            four = _canonical(game, afters[i] | cell << np.uint64(1))
            total += 0.9 * worth_2[_find(with_2, two)] + 0.1 * worth_4[_find(with_4, four)]
        values[i] = total / n
    return values


@njit(float64[::1](_GAME, uint64[::1], uint8[::1], uint64[::1], float64[::1]), cache=True)
def _maxima(game: _Game, boards: Words, permitted: Moves, afters: Words, values: Values) -> Values:
    """What boards are worth: the best of reward plus value, 0 if no permitted move is legal."""
    worth = np.zeros(boards.size)
    for i in range(boards.size):
        slid, rewards = afterstates(boards[i], game.moves)
        for action in range(4):
            if permitted[i] >> action & 1 and slid[action] != boards[i]:
                value = values[_find(afters, _canonical(game, slid[action]))]
                worth[i] = max(worth[i], rewards[action] + value)
    return worth


@njit(void(_GAME, uint64[::1], uint64[:, ::1], float64[:, ::1]), cache=True)
def _look_ahead(game: _Game, boards: Words, afters: Words, rewards: Values) -> None:
    """Writes the four afterstates of every board, and their rewards."""
    for i in range(boards.size):
        slid, gains = afterstates(boards[i], game.moves)
        for action in range(4):
            afters[i, action], rewards[i, action] = slid[action], gains[action]


@njit(uint8[::1](_GAME, uint64[::1]), cache=True)
def _legal(game: _Game, boards: Words) -> Moves:
    """The legal moves of every board."""
    moves = np.empty(boards.size, np.uint8)
    for i in range(boards.size):
        moves[i] = legal(boards[i], field(game.rows, game.cols))
    return moves


# Layers


def _distinct(boards: Words) -> Words:
    """The different boards, in ascending order: `np.unique` without its slow hashing."""
    ordered = np.sort(boards)
    is_new = np.ones(ordered.size, np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_new]


class _Layer(NamedTuple):
    """The boards of one half sum of tiles that occur, and the afterstates among them."""

    boards: Words  # in ascending order
    permitted: Moves  # of each board
    afters: Words  # of the permitted moves, in ascending order


class _Starts(NamedTuple):
    """Every board with two start tiles, as often as it comes about."""

    boards: Words
    probabilities: Values
    half_sums: npt.NDArray[np.int64]


def _starts(size: tuple[int, int]) -> _Starts:
    """The boards that games of a size start from."""
    on_board = [4 * cell for cell in range(16) if field(*size) >> 4 * cell & 1]
    places = list(permutations(on_board, 2))
    tiles = [(1, 1, 0.81), (1, 2, 0.09), (2, 1, 0.09), (2, 2, 0.01)]
    drawn = [(a << i | b << j, p, a + b) for i, j in places for a, b, p in tiles]
    boards, probabilities, half_sums = zip(*drawn, strict=True)
    return _Starts(
        np.array(boards, np.uint64),
        np.array(probabilities) / len(places),
        np.array(half_sums, np.int64),  # 2 and 4 are half as much as their exponents 1 and 2
    )


def _n_layers(game: _Game) -> int:
    """The number of half sums that boards can have, from 0 on.

    A half sum is a sum of powers of two, one a tile, and 2**(n+1) - 1 has n + 1 ones: too many for
    n cells. Nor can a 4 step over it, for the half sum before it has n ones: no cell is empty.
    """
    return (2 << game.rows * game.cols) - 1


def _find_layers(
    game: _Game, permit: Callable[[Words], Moves], report: Callable[[], Any]
) -> list[_Layer]:
    """The boards that occur in games of permitted moves, by the half sum of their tiles."""
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
) -> tuple[float, list[Values]]:
    """The expected score of a whole game, and the values of each layer's afterstates.

    Takes the layers off their list as it goes, to free their memory.
    """
    starts = _starts((game.rows, game.cols))
    value, values = 0.0, [np.zeros(0)] * len(layers)
    next_2 = next_4 = layers[0].boards, np.zeros(0)  # nothing is beyond the last layer
    while len(layers) > 2:
        boards, permitted, afters = layers.pop()
        half_sum = len(layers)
        values[half_sum] = _means(game, afters, *next_2, *next_4)
        worth = _maxima(game, boards, permitted, afters, values[half_sum])
        at = starts.half_sums == half_sum
        places = np.searchsorted(boards, _canonicals(game, starts.boards[at]))
        value += float(starts.probabilities[at] @ worth[places])
        next_2, next_4 = (boards, worth), next_2
        report()
    return value, values


def _check_cells(size: tuple[int, ...], most: int, why: str) -> tuple[int, int]:
    """The same size.

    Raises:
        ValueError: not a size, or one of too many cells.
    """
    rows, cols = check_size(*size)
    if rows * cols > most:
        raise ValueError(f"a board has at most {most} cells here, got {rows}x{cols}: {why}")
    return rows, cols


# Solutions


class Solution(NamedTuple):
    """A size of boards on which the best play is known."""

    size: tuple[int, int]
    """Rows and columns."""
    value: float
    """The expected score of a whole game of best play, from the two start tiles on."""
    afters: Words
    """Every afterstate, `uint64[n]` in ascending order: the smallest of its symmetric boards."""
    values: Values
    """The expected score that best play adds after each of them, `float64[n]`."""
    n_states: int
    """How many different boards occur, those that the game ends on and symmetric ones included."""
    n_afterstates: int
    """How many different afterstates occur, symmetric ones included."""

    def estimate(self, boards: Any) -> Values:
        """The values of afterstates `uint64[...]`: `float64[...]`.

        Raises:
            ValueError: not board words, or an afterstate that occurs in no game.
        """
        words = check_words(boards, *self.size)
        keys = _canonicals(_game(self.size), words.reshape(-1))
        order = keys.argsort()  # neighbours are found close together, so memory is read in order
        places = np.empty_like(order)
        places[order] = np.searchsorted(self.afters, keys[order]) % self.afters.size
        unknown = self.afters[places] != keys
        if unknown.any():
            text = to_text(words.reshape(-1)[int(unknown.argmax())], *self.size)
            raise ValueError(f"no game comes to the afterstate {text}")
        values: Values = self.values[places].reshape(words.shape)
        return values

    def evaluate(self, boards: Any) -> Values:
        """The values of the moves up, right, down and left of board words `uint64[...]`.

        Returns:
            Expected score still to come `float64[..., 4]`, minus infinity where a move is illegal.

        Raises:
            ValueError: not board words, or a board with a move to an afterstate of no game.
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
    """Solves all games on boards of a size.

    2x3 takes a hundredth of a second, 2x4 two seconds, 3x3 half a minute and 2 GB.

    Args:
        size: rows and columns, at most 9 cells.
        report: called after each layer, in both passes, with how many are done and how many
            there are.

    Raises:
        ValueError: not a size, or more than 9 cells.

    >>> round(solve((2, 2)).value, 6)
    66.964149
    """
    size = _check_cells(size, MAX_CELLS, _TOO_MANY)
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
    """Plays the best move of a solved game, the first among equals.

    On a board with a move to an afterstate that occurs in no game it raises a ValueError.
    """

    def __init__(self, solution: Solution) -> None:
        self.solution = solution
        self.size = solution.size

    def _act(self, boards: Words) -> npt.NDArray[np.int8]:
        actions: npt.NDArray[np.int8] = self.solution.evaluate(boards).argmax(axis=1)
        return actions.astype(np.int8)


def expected_score(agent: Player, size: tuple[int, int] | None = None) -> float:
    """The exact expected score of a whole game of any player.

    The player is shown each board that its games can come to once, a layer at a time, without
    those on which the game is over. So a player that draws its moves is judged with one draw a
    board; and as no board comes twice in a game, its mean over many such draws is its true one.

    On 3x3 a player comes to some 150 million boards, which takes a minute, 3 GB and the player's
    own time; 2x4 has 8 million.

    Args:
        agent: a player without memory.
        size: rows and columns, at most 9 cells; by default the player's `size`, or 4x4 if it has
            none.

    Raises:
        ValueError: not a size, more than 9 cells, not the player's size, or the player's answer is
            not one legal action a board.
    """
    own = tuple(getattr(agent, "size", size or (4, 4)))
    size = _check_cells(size or own, MAX_CELLS, _TOO_MANY)
    if own != size:
        raise ValueError(f"the player plays on boards of {own} cells, not {size}")
    game = _game(size)._replace(symmetric=1)  # its play need not be symmetric
    layers = _find_layers(game, lambda boards: _chosen(agent, game, boards), lambda: None)
    return _value_layers(game, layers, lambda: None)[0]


def _chosen(agent: Player, game: _Game, boards: Words) -> Moves:
    """The player's moves, checked; none where the game is over."""
    moves = _legal(game, boards)
    shown = boards[moves > 0]
    if shown.size == 0:
        return moves
    actions = np.asarray(agent.act(shown))
    if actions.shape != shown.shape or actions.dtype.kind not in "iu":
        raise ValueError(
            f"the player was shown {shown.size} boards and answered {actions.dtype} "
            f"of shape {actions.shape}, not as many actions"
        )
    is_legal = (actions >= 0) & (actions < 4)
    is_legal &= (moves[moves > 0] >> (actions * is_legal).astype(np.uint8) & 1) == 1
    if not is_legal.all():
        wrong = int(np.argmin(is_legal))
        text = to_text(shown[wrong], game.rows, game.cols)
        raise ValueError(f"the player chose {actions[wrong]}, an illegal action, on {text}")
    moves[moves > 0] = 1 << actions
    return moves


def network(solution: Solution) -> Network:
    """A network with one tuple of all cells, whose values are the solution's as float32.

    An afterstate's value is the sum of the entries of its symmetric boards, so each entry is the
    value by their number. Entries of boards that are no afterstates are 0.

    Raises:
        ValueError: the board has more than 6 cells.
    """
    rows, cols = _check_cells(solution.size, MAX_NETWORK_CELLS, _TOO_LARGE)
    every_cell = [4 * row + col for row in range(rows) for col in range(cols)]
    net = empty_network([every_cell], (rows, cols))
    boards = cells(solution.afters, rows, cols)
    turned = [boards[:, ::a, ::b] for a in (1, -1) for b in (1, -1)]
    if rows == cols:
        turned += [each.swapaxes(1, 2) for each in turned]
    for each in turned:
        indices = each.reshape(len(boards), -1) @ (16 ** np.arange(rows * cols))
        net.weights[indices] = solution.values / net.symmetric
    return net
