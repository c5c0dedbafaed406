"""Slow oracle of self-play learning of value networks: one game after the other, with lists.

Random numbers are drawn in the same order as by the learner, so the same seed plays the same games.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from afterstate.envs.game2048 import torch_rules
from tests.oracles import game2048 as oracle
from tests.oracles.game2048 import Board
from tests.oracles.ntuple import symmetric_boards

if TYPE_CHECKING:
    from afterstate.agents.game2048.learning.play_logs import Moves
    from afterstate.agents.game2048.learning.run_settings import ValueSettings


class Step(NamedTuple):
    """A move of a game."""

    after: Board | None  # the previous afterstate
    best: float  # reward plus value of the best move
    reward: int
    is_over: bool


class Game:
    """A game that is being played."""

    def __init__(self, board: Board, is_from_start: bool) -> None:
        self.path: list[Board] = []  # boards before moves
        self.after: Board | None = None
        self.board, self.score = board, 0
        self.first, self.is_from_start = 0, is_from_start


class NaiveSelfPlay:
    """The games of a learner, and the afterstates and targets that it learns.

    Args:
        settings: settings of the learner.
        seed: seed of the games.
        values: returns the values of afterstates, in points.
        log: play log for `jump`.
        device: device whose random numbers are drawn.
    """

    def __init__(
        self,
        settings: ValueSettings,
        seed: int,
        values: Callable[[list[Board]], list[float]],
        log: Moves | None = None,
        device: str = "cpu",
    ) -> None:
        self.settings, self.values, self.log = settings, values, log
        self.chance = torch.Generator(device).manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.n_moves, self.n_restarted, self.n_jumped = 0, 0, 0
        self.segment: list[list[Step]] = []  # by move and game
        self.games = [Game([], True) for _ in range(settings.games)]
        self.begin(list(range(settings.games)))

    def spawned(self, boards: list[Board]) -> list[Board]:
        """Return the boards with a new tile; each takes 64 random bits."""
        result = []
        all_bits = torch_rules.draw_bits((len(boards),), self.chance).tolist()
        for board, bits in zip(boards, all_bits, strict=True):
            high, low = bits % 2**64 // 2**32, bits % 2**32
            empty = oracle.empty_cells(board)
            if empty:
                row, col = empty[high * len(empty) // 2**32]
                board = oracle.with_tile(board, row, col, 2 if low < 0.1 * 2**32 else 1)
            result.append(board)
        return result

    def best(self, board: Board) -> tuple[float, Board, int]:
        """Return the best move: its reward plus value, its afterstate and its reward."""
        moves = [oracle.move(board, action) for action in oracle.legal_moves(board)]
        values = self.values([after for after, _ in moves])
        rated = [(r + value, after, r) for (after, r), value in zip(moves, values, strict=True)]
        return max(rated, key=lambda move: move[0])

    def move(self) -> tuple[list[Board], list[float], list[tuple[int, int, int]]]:
        """Make a move in all games.

        Returns:
            The afterstates to learn, their targets in points, and the score, number of moves and
            largest tile of the games that ended and had begun at the start.
        """
        ended, over = [], []
        self.segment.append([])
        for i, game in enumerate(self.games):
            is_over = oracle.is_over(game.board)
            best, after, reward = (0.0, game.board, 0) if is_over else self.best(game.board)
            self.segment[-1].append(Step(game.after, best, reward, is_over))
            if is_over:
                over.append(i)
                if game.is_from_start:
                    largest = 2 ** max(map(max, game.board))
                    ended.append((game.score, len(game.path), largest))
                continue
            game.path.append(game.board)
            game.after = after
            game.score += reward
            self.n_moves += 1
        is_complete = len(self.segment) == self.settings.segment
        afters, targets = self.targets() if is_complete else ([], [])
        boards = self.spawned([game.after or game.board for game in self.games])
        if self.settings.symmetric:
            device, n = self.chance.device, len(boards)
            which = torch.randint(8, (n,), generator=self.chance, device=device).tolist()
            boards = [symmetric_boards(b)[i] for b, i in zip(boards, which, strict=True)]
        for game, board in zip(self.games, boards, strict=True):
            game.board = board
        self.begin_again(over)
        return afters, targets, ended

    def targets(self) -> tuple[list[Board], list[float]]:
        """Return the afterstates of the segment and their targets, shuffled."""
        pairs = []
        for t, steps in enumerate(self.segment):
            for i, step in enumerate(steps):
                if step.after is not None:
                    later = [move[i] for move in self.segment[t:]]
                    pairs.append((step.after, lambda_return(later, self.settings.lam)))
        self.segment, device = [], self.chance.device
        order = torch.randperm(len(pairs), generator=self.chance, device=device).tolist()
        return [pairs[k][0] for k in order], [pairs[k][1] for k in order]

    def begin_again(self, over: list[int]) -> None:
        """Restart games from their middles; replace others by new ones."""
        new = []
        for i in over:
            game = self.games[i]
            middle = (game.first + len(game.path)) // 2
            remaining = len(game.path) - middle
            if self.settings.restart is not None and remaining > self.settings.restart:
                self.n_restarted += 1
                game.board, game.path, game.first = game.path[middle], game.path[:middle], middle
                game.after, game.is_from_start = None, False
            else:
                new.append(i)
        if new:
            self.begin(new)

    def begin(self, new: list[int]) -> None:
        """Begin games at the start, or at positions from the log."""
        empty = [[[0] * 4 for _ in range(4)] for _ in new]
        boards, jumps = self.spawned(self.spawned(empty)), [False] * len(new)
        if self.settings.jump and self.log is not None:
            jumps = (self.rng.random(len(new)) < self.settings.jump).tolist()
            places = self.rng.integers(len(self.log), size=len(new))
            for k, place in enumerate(places):
                if jumps[k]:
                    boards[k] = oracle.from_word(int(self.log["board"][place]), 4, 4)
        self.n_jumped += sum(jumps)
        for i, board, jumped in zip(new, boards, jumps, strict=True):
            self.games[i] = Game(board, not jumped)


def lambda_return(moves: list[Step], lam: float) -> float:
    """Return the mean of the returns of 1, 2, ... moves; each weighs `lam` times the one before.

    The longest return, to the end of the game or of the moves, has the rest of the weights.
    """
    returns, reward = [], 0
    for move in moves:
        returns.append(reward + move.best)
        reward += move.reward
        if move.is_over:
            break
    *shorter, longest = returns
    weights = [(1 - lam) * lam**n for n in range(len(shorter))]
    total = sum(w * r for w, r in zip(weights, shorter, strict=True))
    return total + longest * (1 - sum(weights))
