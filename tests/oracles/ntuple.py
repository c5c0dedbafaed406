"""Slow oracles of N-tuple networks, their learning, and exact small games: formulas with loops.

Numbers are float32 scalars, added in the documented order, so that results can be compared bit for
bit. The index of an entry has the lowest bits of its tuple's exponents, then the second lowest, ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tests.oracles import game2048 as oracle
from tests.oracles.game2048 import Board

if TYPE_CHECKING:
    from afterstate.agents.game2048.learning.run_settings import NTupleSettings

Float = np.float32
Tuples = Sequence[Sequence[int]]
Chooser = Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.int8]]

POOL = 1000
"""The number of boards of a stage that carousel shaping keeps."""


def symmetric_boards(board: Board) -> list[Board]:
    """Return the board, its mirror, flip and half turn; of a square board their transposes too."""
    four = [board, oracle.mirror(board), oracle.flip(board), oracle.flip(oracle.mirror(board))]
    if len(board) != len(board[0]):
        return four
    return four + [oracle.transpose(each) for each in four]


def index(board: Board, cells: Sequence[int]) -> int:
    """Return the index of a tuple's entry in its table, for ascending cells; exponents <= 15."""
    return entry([min(board[cell // 4][cell % 4], 15) for cell in cells])


def entry(exponents: Sequence[int]) -> int:
    """Return the index of an entry in its table: all lowest bits, then all second ones, ...

    >>> entry([1, 3])  # bits 01 and 11, so 1 1, then 0 1
    11
    """
    bits = [exponent >> plane & 1 for plane in range(4) for exponent in exponents]
    return sum(bit << i for i, bit in enumerate(bits))


def downgrade(board: Board, top: int) -> Board:
    """Halve all tiles above the largest missing value, until there is no `top` or no such value.

    >>> downgrade([[5, 4], [1, 0]], 4)
    [[3, 2], [1, 0]]
    """
    held = sorted({tile for row in board for tile in row if tile > 0})
    missing = [tile for tile in range(1, max(held, default=0)) if tile not in held]
    if not held or held[-1] < top or not missing:
        return board
    return downgrade([[t - 1 if t > missing[-1] else t for t in row] for row in board], top)


class NaiveNetwork:
    """A network whose tables are concatenated, stage after stage.

    Fixed-point weights are integers in 1024ths.
    """

    def __init__(
        self,
        tuples: Tuples,
        weights: npt.NDArray[Any] | None = None,
        *,
        stages: Sequence[int] = (),
        promote: bool = False,
        symmetric: bool = True,
        fixed_point: bool = False,
        downgrade: int | None = None,
    ) -> None:
        self.tuples = [sorted(cells) for cells in tuples]
        self.starts = [sum(16 ** len(t) for t in tuples[:i]) for i in range(len(tuples))]
        self.stage_size = sum(16 ** len(t) for t in tuples)
        self.stages, self.promote, self.symmetric = stages, promote, symmetric
        self.fixed_point = fixed_point
        self.top = 16 if downgrade is None else downgrade.bit_length() - 1
        if weights is None:
            n = self.stage_size * (1 + len(stages))
            weights = np.zeros(n, np.int32 if fixed_point else np.float32)
        self.weights = weights
        self._entries: dict[str, list[int]] = {}

    def stage(self, board: Board) -> int:
        """Return the stage of a board: the number of sums that its different tiles reach."""
        valued = downgrade(board, self.top)
        tiles = sum(2**exponent for exponent in {e for row in valued for e in row if e > 0})
        return sum(tiles >= begin for begin in self.stages)

    def entries(self, board: Board) -> list[int]:
        """Return the entries of a board: all tuples of one symmetric board, then of the next."""
        key = str(board)
        if key not in self._entries:
            board = downgrade(board, self.top)
            stage = self.stage(board) * self.stage_size
            self._entries[key] = [
                stage + start + index(each, cells)
                for each in (symmetric_boards(board) if self.symmetric else [board])
                for cells, start in zip(self.tuples, self.starts, strict=True)
            ]
        return self._entries[key]

    def source(self, entry: int) -> int:
        """Return the entry that holds an entry's weight: with promotion, the last nonzero one."""
        if self.promote:
            while self.weights[entry] == 0 and entry >= self.stage_size:
                entry -= self.stage_size
        return entry

    def entry_value(self, entry: int) -> Float:
        """Return the value of one entry."""
        weight = self.weights[self.source(entry)]
        return Float(Float(weight) / Float(1024)) if self.fixed_point else Float(weight)

    def value(self, board: Board) -> Float:
        """Return the sum of all entries of a board, as four sums of every fourth entry."""
        sums = [Float(0)] * 4
        for entry in self.entries(board):
            sums = [*sums[1:], sums[0] + self.entry_value(entry)]
        return (sums[0] + sums[1]) + (sums[2] + sums[3])

    def add(self, entry: int, step: Float) -> None:
        """Add to the value of an entry; in fixed point rounded to 1024ths, a half upward."""
        before = self.weights[self.source(entry)]
        if self.fixed_point:
            self.weights[entry] = int(before) + int(np.floor(step * Float(1024) + Float(0.5)))
        else:
            self.weights[entry] = before + step

    def choose(self, board: Board) -> tuple[int, Board, int, Float] | None:
        """Return action, afterstate, reward and reward plus value of the first best legal move."""
        best = None
        for action in oracle.legal_moves(board):
            after, reward = oracle.move(board, action)
            value = Float(reward) + self.value(after)
            if best is None or value > best[3]:
                best = action, after, reward, value
        return best


class Step(NamedTuple):
    """A move of a game."""

    board: Board
    after: Board
    reward: int
    is_random: bool


class NaiveLearner(NaiveNetwork):
    """Self-play by settings, from a random state.

    `search` selects the moves of games that are played by search, `log` has boards of other games.
    """

    def __init__(
        self,
        settings: NTupleSettings,
        tuples: Tuples,
        size: tuple[int, int],
        state: int,
        **options: Any,
    ) -> None:
        super().__init__(tuples, **options)
        self.settings, self.size, self.state = settings, size, state
        self.coherent: npt.NDArray[np.float32] = np.zeros(len(self.weights), np.float32)
        self.absolute = np.zeros_like(self.coherent)
        self.n_games = self.n_moves = self.n_learned = self.best = self.turn = 0
        self.pools: list[list[Board]] = [[] for _ in range(1 + len(self.stages))]
        self.n_pooled = [0] * len(self.pools)
        self.rounds: list[tuple[int, int]] = []  # of the latest game: its first moves and ends
        self.log: list[Board] = []
        self.search: Callable[[Board], int] = lambda board: oracle.legal_moves(board)[0]

    # Chance

    def draw(self) -> float:
        """Return a number in 0..1 of the upper 24 bits."""
        self.state, bits = oracle.splitmix64(self.state)
        return (bits // 2**40) / 2**24

    def draw_below(self, n: int) -> int:
        """Return an integer below `n` by the upper 32 bits."""
        self.state, bits = oracle.splitmix64(self.state)
        return bits // 2**32 * n // 2**32

    # Learning

    def update(self, board: Board, error: Float) -> None:
        """Add its share of the error to every entry, one after the other."""
        entries = self.entries(board)
        share = Float(error) / Float(len(entries))
        rate = Float(self.settings.step_size)
        for i in entries:
            step = rate * share
            if self.settings.rule == "tc":
                j = i if self.absolute[i] > 0 else self.source(i)  # promotion keeps the rate
                coherent, absolute = self.coherent[j], self.absolute[j]
                if absolute > 0:
                    least = Float(self.settings.floor)
                    step = rate * max(abs(coherent) / absolute, least) * share
                summed = step if self.settings.printed else share
                self.coherent[i] = coherent + summed
                self.absolute[i] = absolute + abs(summed)
            self.add(i, step)

    def learn_backward(self, path: list[Step], first: int, goes_on: bool) -> None:
        """Update from the last afterstate, or the one before it, to the one of move `first`."""
        lam, target, end = Float(self.settings.lambda_), Float(0), len(path)
        if goes_on:
            target, end = Float(path[-1].reward) + self.value(path[-1].after), end - 1
        for t in reversed(range(first, end)):
            after, reward = path[t].after, Float(path[t].reward)
            before_random = t + 1 < len(path) and path[t + 1].is_random
            if self.settings.skip == "target" and before_random:
                target = reward + self.value(after)
                continue
            if not (self.settings.skip == "own" and path[t].is_random):
                self.update(after, target - self.value(after))
            target = reward + lam * target + (Float(1) - lam) * self.value(after)

    def learn_waiting(self, path: list[Step], t: int, errors: dict[int, Float]) -> None:
        """Update the afterstate of move `t` by the sum of its errors."""
        error = errors.pop(t)
        if not (self.settings.skip == "own" and path[t].is_random):
            self.update(path[t].after, error)

    def play_forward(self, path: list[Step], board: Board, searching: bool) -> Board:
        """Play to the end, add the moves to the path and learn after each."""
        errors: dict[int, Float] = {}  # of the afterstates that wait, by their move
        since = len(path) - 1 if path else 0  # errors are not propagated beyond this move
        if path:
            errors[since] = Float(0)
        while True:
            result, is_random = self.choose_move(board, searching)
            if is_random and self.settings.skip == "target":
                since = len(path)
            last = len(path) - 1
            if last in errors:
                value = result[3] if result else Float(0)
                error = value - self.value(path[last].after)
                for earlier in range(last, max(since, last - self.settings.delay) - 1, -1):
                    if earlier in errors:
                        errors[earlier] += error
                    error *= Float(self.settings.lambda_)
                if last - self.settings.delay in errors:
                    self.learn_waiting(path, last - self.settings.delay, errors)
            if result is None:
                break
            path.append(Step(board, result[1], result[2], is_random))
            errors[last + 1] = Float(0)
            board, self.state = oracle.spawn(result[1], self.state)
        for t in sorted(errors):
            self.learn_waiting(path, t, errors)
        return board

    # Games

    def choose_move(
        self, board: Board, searching: bool
    ) -> tuple[tuple[int, Board, int, Float] | None, bool]:
        """Return the move as from `choose`, None if none is legal, and True if it was random."""
        is_random = self.settings.epsilon > 0 and self.draw() < self.settings.epsilon
        legal = oracle.legal_moves(board)
        if not is_random and not searching:
            return self.choose(board), False
        drawn = self.draw_below(len(legal)) if is_random else 0
        if not legal:
            return None, False
        action = legal[drawn] if is_random else self.search(board)
        after, reward = oracle.move(board, action)
        return (action, after, reward, Float(reward) + self.value(after)), is_random

    def play_to_end(self, path: list[Step], board: Board, searching: bool) -> Board:
        """Play to the end, add the moves to the path and return the last board."""
        while (result := self.choose_move(board, searching))[0] is not None:
            path.append(Step(board, result[0][1], result[0][2], result[1]))
            board, self.state = oracle.spawn(result[0][1], self.state)
            if self.settings.within_stage and self.enters_stage(path[-1]):
                break
        return board

    def enters_stage(self, step: Step) -> bool:
        """Return True if a move leads to another stage."""
        return self.stage(step.after) != self.stage(step.board)

    def first_board(self) -> tuple[Board, bool]:
        """Return a board of the log or of the current pool, or two tiles; True for the latter."""
        if self.settings.jump > 0 and self.draw() < self.settings.jump:
            return self.log[self.draw_below(len(self.log))], False
        if self.turn > 0:
            pool = self.pools[self.turn]
            return pool[self.draw_below(len(pool))], False
        board, self.state = oracle.start(*self.size, 2, self.state)
        return board, True

    def turn_carousel(self, path: list[Step], last: Board) -> None:
        """Add the first boards of later stages to the pools, and advance to the next pool."""
        boards = [step.board for step in path] + [last] * bool(oracle.legal_moves(last))
        stages = [self.stage(board) for board in boards]
        for t in range(1, len(boards)):
            stage = stages[t]
            if stage > max(stages[:t]):
                if len(self.pools[stage]) < POOL:
                    self.pools[stage].append(boards[t])
                else:
                    self.pools[stage][self.n_pooled[stage] % POOL] = boards[t]
                self.n_pooled[stage] += 1
        self.turn += 1
        if self.turn == len(self.pools) or not self.pools[self.turn]:
            self.turn = 0

    def play_game(self) -> tuple[int, int, int] | None:
        """Play a game with its restarts; return score, moves, largest tile if from the start."""
        s = self.settings
        board, from_start = self.first_board()
        share = s.search_share
        searching = share > 0 and self.draw() < share and self.n_moves >= s.search_from
        path: list[Step] = []
        row, self.rounds = None, []
        while True:
            start, learned = len(path), True
            if s.order == "forward":
                last = self.play_forward(path, board, searching)
            else:
                last = self.play_to_end(path, board, searching)
            score = sum(step.reward for step in path)
            if row is None:
                row = score, len(path), 2 ** max(max(line) for line in last)
                if s.carousel:
                    self.turn_carousel(path, last)
            goes_on = s.within_stage and len(path) > start and self.enters_stage(path[-1])
            if s.good is not None:
                self.best = max(self.best, score)
                learned = score > s.good * self.best
            if s.order == "backward" and learned:
                first = 0 if s.good is not None else max(start - 1, 0)
                self.learn_backward(path, first, goes_on)
            self.n_moves += len(path) - start
            self.rounds.append((start, len(path)))
            if learned:
                self.n_learned += len(path) - (0 if s.good is not None else start)
            middle = (start + len(path)) // 2
            left = len(path) - middle
            is_good = s.good is not None and learned
            if s.restart is None or goes_on or searching or is_good or left <= s.restart:
                break
            board, path = path[middle].board, path[:middle]
        self.n_games += from_start
        return row if from_start else None


# Small games, exactly


def start_outcomes(rows: int, cols: int) -> list[tuple[Board, float]]:
    """Return all boards with two start tiles, with repetitions, and their probabilities."""
    return [
        (second, p * q)
        for first, p in oracle.spawn_outcomes([[0] * cols for _ in range(rows)])
        for second, q in oracle.spawn_outcomes(first)
    ]


@cache
def reachable(rows: int, cols: int) -> list[Board]:
    """Return every reachable board, final ones included, by the sum of its tiles."""
    result: dict[int, Board] = {}
    waiting = [board for board, _ in start_outcomes(rows, cols)]
    while waiting:
        board = waiting.pop()
        if oracle.to_word(board) not in result:
            result[oracle.to_word(board)] = board
            for action in oracle.legal_moves(board):
                waiting += [b for b, _ in oracle.spawn_outcomes(oracle.move(board, action)[0])]
    return sorted(result.values(), key=lambda board: sum(2**t for row in board for t in row if t))


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
