"""Slow oracle of the evaluation and search of 2048-AI, on lists of rows.

A board is a list of rows of exponents as in `game2048.py`. Cells are tried column by column, 2s
before 4s, with the window of the original, so that even the counts are the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tests.oracles import game2048 as oracle
from tests.oracles.game2048 import Board

WIN, LOST = 10_000.0, -10_000.0


@dataclass
class Counts:
    """Counts of a search."""

    positions: int = 0
    cutoffs: int = 0


def columns(board: Board) -> Board:
    """Return the columns from left to right, each from above."""
    return [list(column) for column in zip(*board, strict=True)]


def smoothness(board: Board) -> int:
    """Return minus the differences of tiles and the next ones to the right and below."""
    result = 0
    for line in (*board, *columns(board)):
        tiles = [tile for tile in line if tile]
        for i in range(len(tiles) - 1):
            result -= abs(tiles[i] - tiles[i + 1])
    return result


def monotonicity(board: Board, compared: str) -> int:
    """Return the larger of minus rises and minus falls, for rows plus for columns."""
    result = 0
    for lines in (board, columns(board)):
        rises = falls = 0
        for line in lines:
            at, then = 0, 1
            while then < 4:
                if compared == "occupied":
                    while then < 4 and not line[then]:
                        then += 1
                    then = min(then, 3)
                change = line[then] - line[at]
                rises, falls = rises - max(change, 0), falls + min(change, 0)
                at, then = then, then + 1
        result += max(rises, falls)
    return result


def islands(board: Board) -> int:
    """Return the number of groups of equal neighbors."""
    seen: set[tuple[int, int]] = set()

    def mark(row: int, col: int, tile: int) -> None:
        inside = 0 <= row < 4 and 0 <= col < 4
        if inside and board[row][col] == tile and (row, col) not in seen:
            seen.add((row, col))
            for side in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                mark(row + side[0], col + side[1], tile)

    n = 0
    for row in range(4):
        for col in range(4):
            if board[row][col] and (row, col) not in seen:
                mark(row, col, board[row][col])
                n += 1
    return n


def evaluate(board: Board, weights: tuple[float, ...], compared: str = "occupied") -> float:
    """Return the weighted sum; minus infinity for a full board."""
    n_empty = len(oracle.empty_cells(board))
    empty = math.log(n_empty) if n_empty else -math.inf
    result = weights[0] * smoothness(board) + weights[1] * monotonicity(board, compared)
    return result + (weights[2] * empty if weights[2] else 0) + weights[3] * max(map(max, board))


def placements(board: Board, pruned: bool) -> list[Board]:
    """Return the boards with a new tile that are searched."""
    cells = [(r, c) for c in range(4) for r in range(4) if not board[r][c]]
    boards = [oracle.with_tile(board, r, c, tile) for tile in (1, 2) for r, c in cells]
    if not pruned:
        return boards
    scores = [islands(each) - smoothness(each) for each in boards]
    return [each for each, score in zip(boards, scores, strict=True) if score == max(scores)]


class Search:
    """Alpha-beta search, and expectimax search for tiles by chance."""

    def __init__(
        self, weights: tuple[float, ...], compared: str, pruned: bool, goal: int | None
    ) -> None:
        self.weights, self.compared, self.pruned, self.goal = weights, compared, pruned, goal
        self.counts = Counts()

    def player(self, board: Board, depth: int, alpha: float, beta: float) -> tuple[int, float]:
        """Return the best move, -1 if none is better than alpha, and its score, at most beta."""
        best, selected = alpha, -1
        for action in oracle.legal_moves(board):
            after, _ = oracle.move(board, action)
            self.counts.positions += 1
            if self.goal is not None and any(self.goal in row for row in after):
                return action, WIN
            if depth == 1:
                score = evaluate(after, self.weights, self.compared)
            else:
                score = self.chance(after, depth - 1, best, beta)
                score -= score > 9_900
            if score > best:
                best, selected = score, action
            if best > beta:
                self.counts.cutoffs += 1
                return selected, beta
        return selected, best

    def chance(self, after: Board, depth: int, alpha: float, beta: float) -> float:
        """Return the score of the worst tile, at least alpha."""
        best = beta
        for board in placements(after, self.pruned):
            self.counts.positions += 1
            best = min(best, self.player(board, depth, alpha, best)[1])
            if best < alpha:
                self.counts.cutoffs += 1
                return alpha
        return best

    def expected(self, board: Board, depth: int) -> float:
        """Return the expectimax value of a board before a move."""
        best = LOST
        for action in oracle.legal_moves(board):
            after, _ = oracle.move(board, action)
            if self.goal is not None and any(self.goal in row for row in after):
                best = WIN
            else:
                value = self.expected_after(after, depth - 1)
                best = max(best, value - 1 if value > 9_900 else value)
        return best

    def expected_after(self, after: Board, depth: int) -> float:
        """Return the expectimax value of an afterstate."""
        if depth == 0:
            return evaluate(after, self.weights, self.compared)
        outcomes = oracle.spawn_outcomes(after)
        return sum(p * self.expected(board, depth) for board, p in outcomes)
