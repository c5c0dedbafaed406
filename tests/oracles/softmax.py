"""Slow oracle of Monte-Carlo Softmax search, with lists and recursion: every mean is recomputed.

Random numbers are drawn in the same order as in the search, so the same seed grows the same tree. A
board is a list of rows as in `game2048.py`, with exponents up to 15 as in a board word. Values of
afterstates come from a function of the board.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracles import game2048 as oracle
from tests.oracles.game2048 import Board

if TYPE_CHECKING:
    from afterstate.agents.game2048.search.softmax_settings import MCSoftmaxSettings
    from afterstate.agents.game2048.search.softmax_tree import Trees

Estimate = Callable[[Board], float]

GAMMA = 0x9E3779B97F4A7C15
"""The increment of splitmix64."""

TEMPERATURES = {"L-log": 0.4, "G-log": 0.4, "L-max": 2.0, "G-max": 2.0, "sharp": 0.05}


def temperature(
    name: str, visits: int, total: int, simulations: int, start: float | None = None
) -> float:
    """Return the temperature of a policy.

    Args:
        name: of the policy.
        visits: simulations of the state.
        total: simulations of the whole tree so far.
        simulations: simulations of the tree at the end.
        start: the temperature after one simulation; by default that of Watanabe and Matsuzaki.
    """
    if name in ("ave", "best"):
        return math.inf if name == "ave" else 0.0
    if name == "falling":
        return max(0.0, (1.0 if start is None else start) * (1 - (total - 1) / simulations))
    first = TEMPERATURES[name] if start is None else start
    return first / 2 ** math.log10(max(total if name[0] == "G" else visits, 1))


def weights(name: str, temperature: float, values: list[float]) -> list[float]:
    """Return the weights of values by a policy; the largest weight is 1."""
    if temperature == 0:
        return [float(i == values.index(max(values))) for i in range(len(values))]
    scaled = values
    if name != "ave":
        scaled = [max(value, 1.0) for value in values]
        if name.endswith("log"):
            scaled = [math.log(value) for value in scaled]
        else:
            scaled = [value / max(scaled) for value in scaled]
    return [math.exp((value - max(scaled)) / temperature) for value in scaled]


def random_word(board: Board, seed: int, tree: int) -> int:
    """Return the seed of a tree."""
    _, bits = oracle.splitmix64(seed ^ oracle.to_word(board))
    return oracle.splitmix64((bits + tree) % 2**64)[1]


def move_of_word(board: Board, action: int) -> tuple[Board, int]:
    """Return the afterstate and reward of a move, with exponents up to 15."""
    after, reward = oracle.move(board, action)
    return [[min(tile, 15) for tile in row] for row in after], reward


def chance(after: Board, slot: int) -> float:
    """Return the probability of an outcome: a cell, and a 2 or a 4."""
    return (0.9, 0.1)[slot % 2] / len(oracle.empty_cells(after))


class Move:
    """A legal move of a state, and the afterstate that it leads to."""

    def __init__(self, after: Board, reward: int, net: float) -> None:
        self.after, self.reward, self.net = after, reward, net
        self.n = 0
        self.outcomes: dict[int, State] = {}
        self.chances: dict[int, float] = {}

    def value(self, unvisited: str) -> float:
        """Return the value of the afterstate: the mean of its outcomes."""
        known = {slot: state for slot, state in self.outcomes.items() if state.known}
        if not known:
            return self.net
        mass = sum(self.chances[slot] for slot in known)
        result = sum(self.chances[slot] * state.value for slot, state in known.items())
        return result + (1 - mass) * self.net if unvisited == "value" else result / mass


class State:
    """A board before a move."""

    def __init__(self, board: Board, estimate: Estimate) -> None:
        self.board, self.n, self.value = board, 0, 0.0
        self.known = True
        self.moves: dict[int, Move] = {}
        for action in oracle.legal_moves(board):
            after, reward = move_of_word(board, action)
            self.moves[action] = Move(after, reward, estimate(after))


class Tree:
    """A tree and its random numbers."""

    def __init__(
        self, board: Board, estimate: Estimate, settings: MCSoftmaxSettings, number: int = 0
    ) -> None:
        self.estimate, self.settings = estimate, settings
        self.root = State(board, estimate)
        self.rng, self.fixed = oracle.splitmix64(random_word(board, settings.seed, number))

    def grow(self, goal: int) -> None:
        """Run simulations until the root has `goal` visits."""
        if self.root.n == 0:
            self._add(self.root)
        while self.root.n < goal:
            if self.settings.leaves == 1:
                self._visit(self.root, 0)
            else:
                self._add_batch(goal)

    def move_to(self, board: Board) -> bool:
        """Make the first state with a board the root, now or after a move and a tile.

        Returns:
            True if there is one.
        """
        moves = self.root.moves.values()
        below = [state for move in moves for state in move.outcomes.values()]
        same = [state for state in [self.root, *below] if state.board == board]
        if same:
            self.root = same[0]
        return bool(same)

    def free_states(self) -> int:
        """Return the number of states that can still be added."""

        def size(state: State) -> int:
            below = [each for move in state.moves.values() for each in move.outcomes.values()]
            return 1 + sum(map(size, below))

        return 2 * self.settings.simulations - size(self.root)

    def result(self) -> tuple[list[float], list[int]]:
        """Return reward plus value and the visits of the four moves."""
        values, visits = [-math.inf] * 4, [0] * 4
        for action, move in self.root.moves.items():
            values[action] = move.reward + move.value(self.settings.unvisited)
            visits[action] = move.n
        return values, visits

    def _add(self, state: State) -> None:
        state.n = 1
        self._back_up(state)

    def _visit(self, state: State, depth: int) -> None:
        """Run a simulation from a state of the tree at this depth."""
        state.n += 1
        if state.moves and depth + 1 != self.settings.depth:
            move = state.moves[self._select(state)]
            move.n += 1
            slot, board = self._tile(move, depth)
            if slot in move.outcomes:
                self._visit(move.outcomes[slot], depth + 1)
            else:
                move.outcomes[slot] = State(board, self.estimate)
                move.chances[slot] = 1.0 if self.settings.trees else chance(move.after, slot)
                self._add(move.outcomes[slot])
        self._back_up(state)

    def _add_batch(self, goal: int) -> None:
        """Walk until enough states wait for their values, then assign these."""
        waiting: list[list[State]] = []
        tries = 0
        while self.root.n < goal and max(len(waiting), tries // 2) < self.settings.leaves:
            path = self._walk()
            if path and path[-1].known:
                self._back_up_all(path)
            elif path and path[-1].moves:
                waiting.append(path)
            elif path:
                path[-1].known = True
                self._back_up_all(path)
            tries += len(waiting) > 0
        for path in waiting:
            path[-1].known = True
            self._back_up_all(path)

    def _walk(self) -> list[State]:
        """Return the states of a simulation; none if it meets a state that waits for its value."""
        state = self.root
        path: list[State] = []
        made: list[Move] = []
        while True:
            if not state.known:
                for before, move in zip(path, made, strict=True):
                    before.n, move.n = before.n - 1, move.n - 1
                return []
            state.n += 1
            path.append(state)
            if not state.moves or len(path) == self.settings.depth:
                return path
            move = state.moves[self._select(state)]
            move.n += 1
            made.append(move)
            slot, board = self._tile(move, len(path) - 1)
            if slot not in move.outcomes:
                new = move.outcomes[slot] = State(board, self.estimate)
                move.chances[slot] = 1.0 if self.settings.trees else chance(move.after, slot)
                new.n, new.known = 1, False
                return [*path, new]
            state = move.outcomes[slot]

    def _back_up_all(self, path: list[State]) -> None:
        for state in reversed(path):
            self._back_up(state)

    def _weights(self, state: State, name: str, start: float | None, visits: int) -> list[float]:
        """Return the weights of the legal moves of a state."""
        at = temperature(name, visits, self.root.n, self.settings.simulations, start)
        return weights(name, at, self._values(state))

    def _values(self, state: State) -> list[float]:
        return [move.reward + move.value(self.settings.unvisited) for move in state.moves.values()]

    def _select(self, state: State) -> int:
        """Draw a move by the selection policy."""
        config = self.settings
        shares = self._weights(state, config.select, config.select_temperature, state.n)
        left = self._fraction() * sum(shares)
        drawn = -1
        for action, share in zip(state.moves, shares, strict=True):
            if share > 0:
                drawn = action
                if left < share:
                    break
                left -= share
        return drawn

    def _tile(self, move: Move, depth: int) -> tuple[int, Board]:
        """Draw an outcome, as twice its cell plus 1 for a 4, and its board."""
        if self.settings.trees:
            board, _ = oracle.spawn(move.after, self.fixed ^ (2 * depth + 1) * GAMMA % 2**64)
        else:
            board, self.rng = oracle.spawn(move.after, self.rng)
        tile = oracle.to_word(board) - oracle.to_word(move.after)
        slot = next(s for s in range(32) if (1 + s % 2) * 16 ** (s // 2) == tile)
        many = len(move.outcomes) >= move.n**self.settings.widening
        if slot in move.outcomes or not move.outcomes or not many:
            return slot, board
        known = sorted(slot for slot, state in move.outcomes.items() if state.known)
        left = self._fraction() * sum(move.chances[slot] for slot in known)
        for slot in known or [min(move.outcomes)]:  # the first if all wait
            left -= move.chances[slot]
            if left < 0:
                break
        return slot, move.outcomes[slot].board

    def _fraction(self) -> float:
        """Return a random number >= 0 and < 1 of 53 bits."""
        self.rng, bits = oracle.splitmix64(self.rng)
        return (bits >> 11) / 2**53

    def _back_up(self, state: State) -> None:
        config = self.settings
        if state.moves:
            shares = self._weights(state, config.backup, config.backup_temperature, state.n)
            pairs = zip(shares, self._values(state), strict=True)
            state.value = sum(share * value for share, value in pairs) / sum(shares)


class Search:
    """Search of the boards of a game, one after the other."""

    def __init__(self, estimate: Estimate, settings: MCSoftmaxSettings) -> None:
        self.estimate, self.settings = estimate, settings
        self.tree: Tree | None = None

    def __call__(self, board: Board) -> tuple[list[float], list[int]]:
        """Return reward plus value of the moves, the mean over all trees, and their visits."""
        n_trees = self.settings.trees or 1
        goal = self.settings.simulations
        if self.settings.reuse and self.tree is not None and self.tree.move_to(board):
            trees = [self.tree]
            goal = self.tree.root.n + min(goal, self.tree.free_states())
        else:
            trees = [Tree(board, self.estimate, self.settings, i) for i in range(n_trees)]
        for tree in trees:
            tree.grow(goal)
        self.tree = trees[0]
        result = [tree.result() for tree in trees]
        values = [sum(result[i][0][a] for i in range(n_trees)) / n_trees for a in range(4)]
        return values, [sum(result[i][1][a] for i in range(n_trees)) for a in range(4)]


# Compiled trees


def outcomes(trees: Trees, place: int) -> dict[int, int]:
    """Return the outcomes of a move by twice their cell plus 1 for a 4."""
    if trees.moves[place]["after"] == 0 or trees.moves[place]["n_outcomes"] == 0:
        return {}
    return {slot: int(n) for slot, n in enumerate(trees.outcomes[place]) if n >= 0}


def visits_by_path(trees: Trees, number: int, path: tuple[int, ...] = ()) -> dict[Any, int]:
    """Return the visits of each state, by the moves and tiles that lead there."""
    result = {path: int(trees.states[number]["n"])}
    for action in range(4):
        for slot, child in outcomes(trees, 4 * number + action).items():
            result |= visits_by_path(trees, child, (*path, action, slot))
    return result


def picture(trees: Trees, number: int) -> Any:
    """Return the subtree of a state, independent of the states' indices."""
    state = trees.states[number]
    moves = []
    for place in range(4 * number, 4 * number + 4):
        if trees.moves[place]["after"]:
            below = [(s, picture(trees, n)) for s, n in outcomes(trees, place).items()]
            moves.append((trees.moves[place].tolist(), below))
    return state[["board", "value", "n", "n_legal", "known"]].tolist(), moves


def roots(trees: Trees) -> dict[int, int]:
    """Return the indices of trees by the boards of their roots."""
    firsts = range(0, trees.states.size, trees.capacity)
    return {int(trees.states[first]["board"]): first // trees.capacity for first in firsts}


def followed(trees: Trees, tree: int = 0) -> dict[int, int]:
    """Return the states after one move and one tile by their boards, the first of each."""
    result: dict[int, int] = {}
    for place in range(4 * tree * trees.capacity, 4 * tree * trees.capacity + 4):
        for number in outcomes(trees, place).values():
            result.setdefault(int(trees.states[number]["board"]), number)
    return result


class Check:
    """Consistency check of a compiled tree.

    If the temperature of backup depends on all simulations, values were backed up at different
    temperatures, and only the root's value is checked.
    """

    def __init__(self, trees: Trees, settings: MCSoftmaxSettings, estimate: Estimate) -> None:
        self.trees, self.settings, self.estimate = trees, settings, estimate

    def __call__(self, tree: int = 0) -> list[int]:
        """Check a tree and return the depth of each of its states in moves."""
        first, size = tree * self.trees.capacity, int(self.trees.sizes[tree])
        root = self.trees.states[first]
        assert 1 <= size <= self.trees.capacity
        assert (root["parent"], root["chance"]) == (-1, 1)
        depths = {first: 0}
        for number in range(first, first + size):
            self.state(number, int(root["n"]))
            for place in range(4 * number, 4 * number + 4):
                result = outcomes(self.trees, place).values()
                depths |= dict.fromkeys(result, depths[number] + 1)
        assert sorted(depths) == list(range(first, first + size))
        assert max(depths.values()) < (self.settings.depth or 1000)
        return [depths[number] for number in range(first, first + size)]

    def state(self, number: int, n_all: int) -> None:
        """Check a state against its moves, after `n_all` simulations in the tree."""
        config, state = self.settings, self.trees.states[number]
        board = oracle.from_word(int(state["board"]), *self.trees.size)
        legal, action_values = oracle.legal_moves(board), []
        assert (state["known"], state["n_legal"]) == (1, len(legal))
        for action in range(4):
            place = 4 * number + action
            if action in legal:
                action_values.append(self.move(place, *move_of_word(board, action)))
            else:
                assert self.trees.moves[place][["after", "n"]].tolist() == (0, 0)
        n_moves = self.trees.moves["n"][4 * number : 4 * number + 4].sum()
        assert n_moves == (state["n"] - 1 if legal else 0) or (config.depth and n_moves == 0)
        if not legal:
            assert state["value"] == 0
        elif number % self.trees.capacity == 0 or config.backup[0] not in "Gf":
            at = temperature(
                config.backup, int(state["n"]), n_all, config.simulations, config.backup_temperature
            )
            shares = weights(config.backup, at, action_values)
            mean = sum(w * v for w, v in zip(shares, action_values, strict=True)) / sum(shares)
            assert state["value"] == pytest.approx(mean, rel=1e-9)

    def move(self, place: int, after: Board, reward: int) -> float:
        """Check a legal move against its outcomes and return reward plus value."""
        move, result = self.trees.moves[place], outcomes(self.trees, place)
        assert (int(move["after"]), move["reward"]) == (oracle.to_word(after), reward)
        assert move["net"] == pytest.approx(self.estimate(after), rel=1e-9)
        assert move["n_outcomes"] == len(result)
        mass = total = 0.0
        for slot, number in result.items():
            state, (row, col) = self.trees.states[number], divmod(slot // 2, 4)
            assert after[row][col] == 0
            board = oracle.with_tile(after, row, col, 1 + slot % 2)
            assert (int(state["board"]), state["parent"]) == (oracle.to_word(board), place)
            expected = 1.0 if self.trees.fixed else chance(after, slot)
            assert state["chance"] == pytest.approx(expected, rel=1e-12)
            mass, total = mass + expected, total + expected * state["value"]
        assert move["n"] == sum(int(self.trees.states[number]["n"]) for number in result.values())
        assert not result or len(result) < move["n"] ** self.settings.widening + 1
        assert not self.trees.fixed or len(result) <= 1
        if result:
            assert (move["mass"], move["sum"]) == pytest.approx((mass, total), rel=1e-9, abs=1e-9)
            total = total + (1 - mass) * move["net"] if self.trees.blend else total / mass
        assert move["value"] == pytest.approx(total if result else move["net"], rel=1e-9, abs=1e-9)
        return float(move["reward"] + move["value"])
