"""Slow oracle of learning from Monte-Carlo Softmax searches: one board after the other, with lists.

Random numbers are drawn in the same order as by the learner, so the same seed plays the same games.
The value function is `scattered_value` of a board, and does not learn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from afterstate.envs.words import draw_word
from tests.oracles import game2048 as oracle
from tests.oracles import softmax
from tests.oracles.game2048 import Board
from tests.oracles.ntuple import symmetric_boards
from tests.oracles.softmax import Move, State, Tree

if TYPE_CHECKING:
    from afterstate.agents.game2048.learning.run_settings import SearchValueSettings
    from afterstate.agents.game2048.search.softmax_settings import MCSoftmaxSettings

T = TypeVar("T")


def scattered_value(board: Board) -> float:
    """Return a value from 0 to 100 without any symmetry."""
    return (oracle.to_word(board) * softmax.GAMMA % 2**64 >> 44) * (100 / 2**20)


class Game:
    """A game that is being played."""

    def __init__(self, board: Board, rng: int) -> None:
        self.board, self.rng = board, rng
        self.after: Board | None = None
        self.score = self.length = 0


def draw(tree: Tree, values: list[T], weights: list[float]) -> T:
    """Draw one of some values in proportion to their weights."""
    remaining, last = tree._fraction() * sum(weights), len(values) - 1
    for i, weight in enumerate(weights):
        remaining -= weight
        if remaining < 0 or i == last:
            break
    return values[i]


def nodes(state: State) -> Iterator[Move]:
    """Yield all moves with outcomes from a state on."""
    for move in state.moves.values():
        if move.outcomes:
            yield move
        for each in move.outcomes.values():
            yield from nodes(each)


def random_path(tree: Tree) -> Iterator[Move]:
    """Yield the moves on a path from the root, at a temperature between 0.005 and 1."""
    temperature, state = 0.005 + tree._fraction() * (1 - 0.005), tree.root
    while state.moves:
        moves = list(state.moves.values())
        values = [move.reward + move.value(tree.settings.unvisited) for move in moves]
        move = draw(tree, moves, softmax.weights("L-max", temperature, values))
        if not move.outcomes:
            return
        yield move
        slots = sorted(move.outcomes)
        children = [move.outcomes[slot] for slot in slots]
        state = draw(tree, children, [move.chances[slot] for slot in slots])


class NaiveSearchLearner:
    """The games of a learner, and the afterstates and targets that it learns.

    Attributes:
        latest: searched value and value by the value function of each board of the last move.
        n_clipped: number of clipped targets.
    """

    def __init__(
        self,
        settings: SearchValueSettings,
        search: MCSoftmaxSettings,
        seed: int,
        size: tuple[int, int],
    ):
        self.settings, self.search, self.size = settings, search, size
        self.n_moves, self.n_clipped = 0, 0
        rng = np.random.default_rng(seed)
        seeds = [draw_word(rng) for _ in range(settings.games)]
        self.turns = draw_word(rng)
        self.games = [Game(*oracle.start(*size, 2, rng)) for rng in seeds]
        self.latest: list[tuple[float, float]] = []

    def move(self) -> tuple[list[tuple[int, float]], list[list[int]]]:
        """Make a move in all games.

        Returns:
            The afterstates to learn with their targets, and the score, number of moves and largest
            tile of the games that ended.
        """
        samples, ended, clip = [], [], self.settings.clip or math.inf
        self.latest = []
        for i, game in enumerate(self.games):
            numbers = range(self.search.trees or 1)
            trees = [Tree(game.board, scattered_value, self.search, k) for k in numbers]
            for tree in trees:
                tree.grow(self.search.simulations)
            columns = zip(*(tree.result()[0] for tree in trees), strict=True)
            values = [sum(column) / len(trees) for column in columns]
            move = trees[0].root.moves.get(values.index(max(values)))
            self.latest.append((max(values), move.reward + move.net) if move else (0.0, 0.0))
            for after, target, value in self.samples(game, trees, move):
                clipped = min(max(target, value - clip), value + clip)
                samples.append((oracle.to_word(after), clipped))
                self.n_clipped += clipped != target
            if move is None:
                ended.append([game.score, game.length, 2 ** max(map(max, game.board))])
                self.games[i] = Game(*oracle.start(*self.size, 2, game.rng))
            else:
                self.n_moves += 1
                game.after, game.score = move.after, game.score + move.reward
                game.length += 1
                game.board, game.rng = oracle.spawn(move.after, game.rng)
        if self.settings.turn:
            self.turn()
        return samples, ended

    def samples(
        self, game: Game, trees: list[Tree], move: Move | None
    ) -> Iterator[tuple[Board, float, float]]:
        """Yield afterstates, their targets, and their values by the value function."""
        settings, learned = self.settings, list[Move]()
        if settings.learn == "root" and game.after is not None:
            target = self.latest[-1][settings.root == "valued"]
            if settings.reward_twice and move is not None:
                target += move.reward
            yield game.after, target, scattered_value(game.after)
        for tree in trees:
            if settings.learn == "nodes":
                learned += [each for each in nodes(tree.root) if each.n >= settings.visits]
            for _ in range(settings.paths if settings.learn == "paths" else 0):
                learned += random_path(tree)
        for each in learned:
            yield each.after, each.value(self.search.unvisited), each.net

    def turn(self) -> None:
        """Turn all boards to random symmetric ones."""
        self.turns, rng = oracle.splitmix64(self.turns)
        for game in self.games:
            rng, bits = oracle.splitmix64(rng)
            boards = symmetric_boards(game.board)
            game.board = boards[(bits >> 33) % len(boards)]
