"""N-tuple networks, their learning rules and small games solved, from the formulas with loops.

Numbers are float32 scalars, added in the order that the formulas are documented in, so that results
can be compared bit for bit. A tuple is read with its first cell as the lowest hexadecimal digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import oracle
from oracle import Board

Float = np.float32
Tuples = Sequence[Sequence[int]]
Chooser = Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.int8]]


def symmetric_boards(board: Board) -> list[Board]:
    """The board, its mirror, flip and half turn; of a square board their transposes too."""
    four = [board, oracle.mirror(board), oracle.flip(board), oracle.flip(oracle.mirror(board))]
    if len(board) != len(board[0]):
        return four
    return four + [oracle.transpose(each) for each in four]


def index(board: Board, cells: Sequence[int]) -> int:
    """The entry of a tuple, of cells in ascending order, in its own table; digits end at 15."""
    return sum(min(board[cell // 4][cell % 4], 15) * 16**i for i, cell in enumerate(cells))


class NaiveNetwork:
    """A network whose tables lie one after the other."""

    def __init__(self, tuples: Tuples, weights: npt.NDArray[np.float32] | None = None) -> None:
        self.tuples = [sorted(cells) for cells in tuples]
        self.starts = [sum(16 ** len(t) for t in tuples[:i]) for i in range(len(tuples))]
        n = sum(16 ** len(t) for t in tuples)
        self.weights = np.zeros(n, np.float32) if weights is None else weights
        self._entries: dict[str, list[int]] = {}

    def entries(self, board: Board) -> list[int]:
        """The entries of a board: all tuples of one symmetric board, then those of the next."""
        key = str(board)
        if key not in self._entries:
            self._entries[key] = [
                start + index(each, cells)
                for each in symmetric_boards(board)
                for cells, start in zip(self.tuples, self.starts, strict=True)
            ]
        return self._entries[key]

    def value(self, board: Board) -> Float:
        """The sum of all entries of a board, as four sums of every fourth entry."""
        sums = [Float(0)] * 4
        for k, entry in enumerate(self.entries(board)):
            sums[k % 4] = sums[k % 4] + self.weights[entry]
        return (sums[0] + sums[1]) + (sums[2] + sums[3])

    def choose(self, board: Board) -> tuple[int, Board, int, Float] | None:
        """Action, afterstate, reward and reward plus value of the first best legal move."""
        best = None
        for action in oracle.legal_moves(board):
            after, reward = oracle.move(board, action)
            value = Float(reward) + self.value(after)
            if best is None or value > best[3]:
                best = action, after, reward, value
        return best


class NaiveLearner(NaiveNetwork):
    """Self-play from a random state: games of two start tiles, updates of every afterstate."""

    def __init__(
        self, tuples: Tuples, size: tuple[int, int], rule: str, rate: float, lam: float, state: int
    ) -> None:
        super().__init__(tuples)
        self.size, self.rule, self.state = size, rule, state
        self.rate, self.lam = Float(rate), Float(lam)
        self.coherent = np.zeros_like(self.weights)
        self.absolute = np.zeros_like(self.weights)

    def update(self, board: Board, error: Float) -> None:
        """Adds its share of the error to every entry, one after the other."""
        entries = self.entries(board)
        share = error / Float(len(entries))
        for i in entries:
            rate = self.rate
            if self.rule == "tc":
                if self.absolute[i] > 0:
                    rate = rate * (abs(self.coherent[i]) / self.absolute[i])
                self.coherent[i] += share
                self.absolute[i] += abs(share)
            self.weights[i] += rate * share

    def play_backward(self) -> list[int]:
        """A game, then its updates from the last to the first: score, moves, largest exponent."""
        path: list[tuple[Board, int]] = []
        board, self.state = oracle.start(*self.size, 2, self.state)
        while (best := self.choose(board)) is not None:
            path.append((best[1], best[2]))
            board, self.state = oracle.spawn(best[1], self.state)
        target = Float(0)
        for after, reward in reversed(path):
            self.update(after, target - self.value(after))
            value = self.value(after)
            target = Float(reward) + self.lam * target + (Float(1) - self.lam) * value
        return [sum(reward for _, reward in path), len(path), max(map(max, board))]

    def play_forward(self) -> list[int]:
        """A game with an update as soon as the next afterstate is known; then as above."""
        before: Board | None = None
        score = n_moves = 0
        board, self.state = oracle.start(*self.size, 2, self.state)
        while (best := self.choose(board)) is not None:
            _, after, reward, value = best
            if before is not None:
                self.update(before, value - self.value(before))
            before, score, n_moves = after, score + reward, n_moves + 1
            board, self.state = oracle.spawn(after, self.state)
        if before is not None:
            self.update(before, Float(0) - self.value(before))
        return [score, n_moves, max(map(max, board))]


# Small games, exactly


def start_outcomes(rows: int, cols: int) -> list[tuple[Board, float]]:
    """Every board with two start tiles, as often as it comes about, with its probability."""
    return [
        (second, p * q)
        for first, p in oracle.spawn_outcomes([[0] * cols for _ in range(rows)])
        for second, q in oracle.spawn_outcomes(first)
    ]


@cache
def reachable(rows: int, cols: int) -> list[Board]:
    """Every board that a player can come to move on or end on, by the sum of its tiles."""
    found: dict[int, Board] = {}
    waiting = [board for board, _ in start_outcomes(rows, cols)]
    while waiting:
        board = waiting.pop()
        if oracle.to_word(board) not in found:
            found[oracle.to_word(board)] = board
            for action in oracle.legal_moves(board):
                waiting += [b for b, _ in oracle.spawn_outcomes(oracle.move(board, action)[0])]
    return sorted(found.values(), key=lambda board: sum(2**t for row in board for t in row if t))


def _expected(after: Board, worth: dict[int, float]) -> float:
    """The mean worth of what chance makes of an afterstate."""
    return sum(p * worth[oracle.to_word(b)] for b, p in oracle.spawn_outcomes(after))


def solve(rows: int, cols: int) -> tuple[float, dict[int, float]]:
    """The best expected score from the start, and from each afterstate (by its word) on."""
    worth: dict[int, float] = {}
    values: dict[int, float] = {}
    for board in reversed(reachable(rows, cols)):  # a move and a tile always add to the sum
        worth[oracle.to_word(board)] = 0.0
        options = []
        for action in oracle.legal_moves(board):
            after, reward = oracle.move(board, action)
            values[oracle.to_word(after)] = _expected(after, worth)
            options.append(reward + values[oracle.to_word(after)])
        worth[oracle.to_word(board)] = max(options, default=0.0)
    return sum(p * worth[oracle.to_word(b)] for b, p in start_outcomes(rows, cols)), values


def expected_score(rows: int, cols: int, choose: Chooser) -> float:
    """The exact expected score of a player without memory or chance; it must play legally."""
    boards = reachable(rows, cols)[::-1]
    words: npt.NDArray[Any] = np.array([oracle.to_word(board) for board in boards], np.uint64)
    worth: dict[int, float] = {}
    for board, action in zip(boards, choose(words).tolist(), strict=True):
        worth[oracle.to_word(board)] = 0.0
        if not oracle.is_over(board):
            assert action in oracle.legal_moves(board)
            after, reward = oracle.move(board, action)
            worth[oracle.to_word(board)] = reward + _expected(after, worth)
    return sum(p * worth[oracle.to_word(b)] for b, p in start_outcomes(rows, cols))
