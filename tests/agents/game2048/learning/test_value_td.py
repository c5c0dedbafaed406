"""Learning of value networks in self-play, against a plain loop over games that are lists."""

from __future__ import annotations

import json
import math
import re
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.oracles import game2048 as oracle
from tests.oracles.ntuple import symmetric_boards

pytest.importorskip("safetensors")
pytest.importorskip("tqdm")
pytest.importorskip("torch")

import safetensors.torch
import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.config import from_dict, read
from afterstate.agents.game2048.learning import play_logs, value_td
from afterstate.agents.game2048.learning.value_td import Learner, Settings
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values import value_net
from afterstate.agents.game2048.values.value_net import ValueNetAgent
from afterstate.agents.training.__main__ import main
from afterstate.agents.training.run import EVALUATION_SEED, train
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.game2048.rules import from_text

pytestmark = pytest.mark.usefixtures("one_thread")

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
on_devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])

UNIT = 100.0


class Tiny(nn.Module):
    """One hidden layer, without symmetry."""

    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.settings = {"hidden": hidden}
        self.body = nn.Sequential(nn.Linear(256, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, planes: Tensor) -> Tensor:
        """The values `[n]` of planes `[n, 16, 4, 4]`."""
        values: Tensor = self.body(planes.flatten(1))
        return values[:, 0]


class Table(nn.Module):
    """A value for each board, nearly, at first too large, so that every move is tried."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {}
        self.values = nn.Parameter(torch.full((1 << 14,), 4.0))
        self.factors = torch.randint(1 << 20, (16,), generator=torch.Generator().manual_seed(1))

    def forward(self, planes: Tensor) -> Tensor:
        """The values `[n]` of planes `[n, 16, 4, 4]`."""
        places = (planes.argmax(1).flatten(1) * self.factors).sum(1) % len(self.values)
        return self.values[places]


class Small(nn.Module):
    """A convolution and a full layer, enough to learn something."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {}
        self.body = nn.Sequential(
            *(nn.Conv2d(16, 32, 2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(288, 32), nn.ReLU(), nn.Linear(32, 1)),
        )

    def forward(self, planes: Tensor) -> Tensor:
        """The values `[n]` of planes `[n, 16, 4, 4]`."""
        values: Tensor = self.body(planes)
        return values[:, 0]


@pytest.fixture(autouse=True)
def _networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The networks of these tests can be in files and in settings."""
    monkeypatch.setitem(value_net.NETWORKS, "Tiny", Tiny)
    monkeypatch.setitem(value_net.NETWORKS, "Small", Small)


def tiny(seed: int = 1) -> Tiny:
    """A network with opinions."""
    torch.manual_seed(seed)
    net = Tiny()
    with torch.no_grad():
        for weights in net.parameters():
            weights.mul_(4)
    return net


def late_log(n: int = 40, seed: int = 1) -> play_logs.Moves:
    """Moves on boards on which a game is soon over."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(3, 12, size=(n, 16))
    cells[np.arange(n), rng.integers(16, size=n)] = 0
    log = np.zeros(n, play_logs.MOVE)
    log["board"] = [oracle.to_word(board) for board in cells.reshape(n, 4, 4).tolist()]
    return log


# The plain loop


class Step(NamedTuple):
    """What the network was fitted to in a step."""

    boards: list[oracle.Board]
    wanted: list[float]  # in the network's unit
    rate: float
    loss: float


class Seen(NamedTuple):
    """What a game shows before a move."""

    after: oracle.Board | None  # the afterstate that came before
    best: float
    reward: int
    is_over: bool


class Game:
    """A game that is being played."""

    def __init__(self, board: oracle.Board, is_from_start: bool) -> None:
        self.path: list[oracle.Board] = []  # boards before moves
        self.after: oracle.Board | None = None
        self.board, self.score = board, 0
        self.first, self.is_from_start = 0, is_from_start


class Naive:
    """The learner's loop from its description, one game after the other, with lists.

    Args:
        how: the settings.
        seed: of chance.
        values: of afterstates, in points.
        log: for jumps.
        device: whose random numbers are drawn.
    """

    def __init__(
        self,
        how: Settings,
        seed: int,
        values: Callable[[list[oracle.Board]], list[float]],
        log: play_logs.Moves | None = None,
        device: str = "cpu",
    ) -> None:
        self.how, self.values, self.log = how, values, log
        self.chance = torch.Generator(device).manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.n_moves, self.n_again, self.n_jumped = 0, 0, 0
        self.segment: list[list[Seen]] = []  # of each move, of each game
        self.games = [Game([], True) for _ in range(how.games)]
        self.begin(list(range(how.games)))

    def spawned(self, boards: list[oracle.Board]) -> list[oracle.Board]:
        """The boards with a tile more, by 64 random bits each."""
        found = []
        for board, bits in zip(
            boards, torch_rules.draw_bits((len(boards),), self.chance).tolist(), strict=True
        ):
            high, low = bits % 2**64 // 2**32, bits % 2**32
            empty = oracle.empty_cells(board)
            if empty:
                row, col = empty[high * len(empty) // 2**32]
                board = oracle.with_tile(board, row, col, 2 if low < 0.1 * 2**32 else 1)
            found.append(board)
        return found

    def starts(self, n: int) -> list[oracle.Board]:
        """Boards with two tiles."""
        empty = [[[0] * 4 for _ in range(4)] for _ in range(n)]
        return self.spawned(self.spawned(empty))

    def best(self, board: oracle.Board) -> tuple[float, oracle.Board, int]:
        """The best move: its reward plus value, its afterstate and its reward."""
        moves = [oracle.move(board, action) for action in oracle.legal_moves(board)]
        values = self.values([after for after, _ in moves])
        found = [(r + value, after, r) for (after, r), value in zip(moves, values, strict=True)]
        return max(found, key=lambda move: move[0])

    def move(self) -> tuple[list[oracle.Board], list[float], list[tuple[int, int, int]]]:
        """Makes a move in all games.

        Returns:
            The afterstates to learn from, their targets in points, and the score, number of moves
            and largest tile of the games that have ended and had begun at the start.
        """
        ended, over = [], []
        self.segment.append([])
        for i, game in enumerate(self.games):
            is_over = oracle.is_over(game.board)
            best, after, reward = (0.0, game.board, 0) if is_over else self.best(game.board)
            self.segment[-1].append(Seen(game.after, best, reward, is_over))
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
        learned, targets = self.lesson() if len(self.segment) == self.how.segment else ([], [])
        boards = self.spawned([game.after or game.board for game in self.games])
        if self.how.symmetric:
            where, n = self.chance.device, len(boards)
            which = torch.randint(8, (n,), generator=self.chance, device=where).tolist()
            boards = [symmetric_boards(b)[i] for b, i in zip(boards, which, strict=True)]
        for game, board in zip(self.games, boards, strict=True):
            game.board = board
        self.begin_again(over)
        return learned, targets, ended

    def lesson(self) -> tuple[list[oracle.Board], list[float]]:
        """The afterstates of the segment and their targets, shuffled."""
        found = []
        for t, seen in enumerate(self.segment):
            for i, each in enumerate(seen):
                if each.after is not None:
                    later = [move[i] for move in self.segment[t:]]
                    found.append((each.after, lambda_return(later, self.how.lam)))
        self.segment, where = [], self.chance.device
        order = torch.randperm(len(found), generator=self.chance, device=where).tolist()
        return [found[k][0] for k in order], [found[k][1] for k in order]

    def begin_again(self, over: list[int]) -> None:
        """Restarts games from their middles; others are new."""
        new = []
        for i in over:
            game = self.games[i]
            middle = (game.first + len(game.path)) // 2
            left = len(game.path) - middle
            if self.how.restart is not None and left > self.how.restart:
                self.n_again += 1
                game.board, game.path, game.first = game.path[middle], game.path[:middle], middle
                game.after, game.is_from_start = None, False
            else:
                new.append(i)
        if new:
            self.begin(new)

    def begin(self, new: list[int]) -> None:
        """Begins games at the start, or at positions of the log."""
        boards, jumps = self.starts(len(new)), [False] * len(new)
        if self.how.jump and self.log is not None:
            jumps = (self.rng.random(len(new)) < self.how.jump).tolist()
            places = self.rng.integers(len(self.log), size=len(new))
            for k, place in enumerate(places):
                if jumps[k]:
                    boards[k] = oracle.from_word(int(self.log["board"][place]), 4, 4)
        self.n_jumped += sum(jumps)
        for i, board, jumped in zip(new, boards, jumps, strict=True):
            self.games[i] = Game(board, not jumped)


def lambda_return(moves: list[Seen], lam: float) -> float:
    """The mean of the returns of 1, 2, ... moves, of which each weighs `lam` times the last.

    What is left of the weights is that of the longest return, to the end of the game or of what is
    known of it.
    """
    returns, reward = [], 0
    for move in moves:
        returns.append(reward + move.best)
        reward += move.reward
        if move.is_over:
            break
    *shorter, longest = returns
    shares = [(1 - lam) * lam**n for n in range(len(shorter))]
    return sum(w * r for w, r in zip(shares, shorter, strict=True)) + longest * (1 - sum(shares))


def watch(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """All that the network is fitted to from now on; it learns nevertheless."""
    steps, step = [], learner.fitter.step

    def spy(inputs: Tensor, loss: Callable[[Tensor], Tensor], rate: float) -> Tensor:
        zeros = torch.zeros(len(inputs), requires_grad=True, device=inputs.device)
        loss(zeros).backward()  # of the mean squared error, -2 / n times what is wanted
        assert zeros.grad is not None
        wanted = (-zeros.grad * len(inputs) / 2).tolist()
        assert float(loss(torch.tensor(wanted).to(zeros))) == pytest.approx(0, abs=1e-9)
        found = step(inputs, loss, rate)
        steps.append(Step(inputs.argmax(1).tolist(), wanted, rate, float(found)))
        return found

    monkeypatch.setattr(learner.fitter, "step", spy)
    return steps


def values_of(net: nn.Module, unit: float) -> Callable[[list[oracle.Board]], list[float]]:
    """What a network says of boards, as it has learned so far, in points."""

    def values(boards: list[oracle.Board]) -> list[float]:
        planes = np.zeros((len(boards), 16, 4, 4), np.float32)
        for i, board in enumerate(boards):
            for row, col in np.ndindex(4, 4):
                planes[i, min(board[row][col], 15), row, col] = 1
        with torch.inference_mode():
            found = net(torch.from_numpy(planes).to(next(net.parameters()).device))
            return [unit * value for value in found.tolist()]

    return values


SETTINGS: list[tuple[dict[str, Any], int]] = [
    ({"batch": 2}, 160),
    ({"restart": 10, "symmetric": False}, 200),
    ({"restart": 10, "jump": 0.7}, 300),
    ({"jump": 1.0, "average": 0.9, "batch": 2, "rate": 1e-2, "decay": 400}, 200),
    ({"value_scale": 3.5, "batch": 1, "restart": 20, "rate": 1e-4}, 200),
    ({"segment": 7, "restart": 10, "jump": 0.7, "batch": 5}, 300),
    ({"segment": 20, "lam": 1.0}, 160),
    ({"segment": 5, "lam": 0.0, "average": 0.9}, 160),
]


@pytest.mark.parametrize(("settings", "n_times"), SETTINGS, ids=str)
@on_devices
def test_each_move_is_that_of_the_plain_loop(
    settings: dict[str, Any], n_times: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared are what the network learns, move after move, and the games that end."""
    log = late_log()
    how = Settings(**{"games": 4, "value_scale": UNIT, "batch": 4, "rate": 1e-3, **settings})
    learner = Learner(tiny().to(device), how, 7, log)
    if learner._history is not None:
        learner._history.boards = learner._history.boards[:, :8].clone()  # it must grow
    naive = Naive(how, 7, values_of(learner.net, how.value_scale), log, device)
    steps, n_games = watch(learner, monkeypatch), 0
    for _ in range(n_times):
        steps.clear()
        rate = how.rate_after(learner.n_moves)
        boards, targets, ended = naive.move()
        found = learner.play(1)
        assert [board for step in steps for board in step.boards] == boards
        wanted = [value * how.value_scale for step in steps for value in step.wanted]
        assert wanted == pytest.approx(targets, rel=1e-4, abs=1e-2)
        sizes = [len(step.boards) for step in steps]
        assert len(sizes) == math.ceil(len(boards) / how.batch)
        assert max(sizes, default=0) - min(sizes, default=0) <= 1
        assert [step.rate for step in steps] == [rate] * len(steps)
        assert list(zip(*(column.tolist() for column in found), strict=True)) == ended
        n_games += len(ended)
        assert (learner.n_moves, learner.n_games) == (naive.n_moves, n_games)
    assert (n_games > 0) == (how.jump < 1)
    assert (naive.n_again > 0) == (how.restart is not None)
    assert (naive.n_jumped > 0) == (how.jump > 0)
    assert 0 < naive.n_moves < n_times * how.games  # no move was made where a game was over


# Restart and jump


def boards_of(learner: Learner) -> list[int]:
    found: list[int] = torch_rules.to_words(learner._tables.boards).tolist()
    return found


def test_a_game_begins_again_where_more_moves_are_left_than_restart_says() -> None:
    """Of 20 moves 10 are left, of 21 there are 11; the last two began at move 10."""
    learner = Learner(tiny(), Settings(games=4, restart=10, value_scale=UNIT), 1)
    assert learner._history is not None
    learner._history.boards = torch.arange(1, 129).reshape(4, 32)
    tables = tables_of([0] * 4, [20, 21, 30, 31])._replace(begins=torch.tensor([0, 0, 10, 10]))
    tables, ended = learner._begin_again(tables, torch.ones(4, dtype=torch.bool))
    assert ended[:, 1].tolist() == [20, 21]
    assert tables.lengths.tolist() == tables.begins.tolist() == [0, 10, 0, 20]
    assert tables.boards[[1, 3]].tolist() == [32 + 11, 96 + 21]
    assert not tables.afters.any()


def test_games_that_begin_again_in_the_middle_are_not_reported() -> None:
    """Five moves of a game suffice for another; without restart all games are reported."""
    reported = {}
    for restart in (None, 5):
        learner = Learner(tiny(), Settings(games=8, restart=restart, value_scale=UNIT), 1)
        games = learner.play(4_800)
        assert len(games.scores) == learner.n_games > 0
        assert (games.scores > 0).all() and (games.max_tiles >= 8).all()
        reported[restart] = int(games.n_moves.sum())
    assert reported[None] > 3_000
    assert 0 < reported[5] < 0.7 * reported[None]


def test_games_that_begin_at_positions_of_the_log_are_not_reported() -> None:
    log, n = late_log(1), 6
    learner = Learner(tiny(), Settings(games=n, jump=1.0, value_scale=UNIT), 1, log)
    games, seen = learner.play(1), 0
    scores = games.scores.tolist()
    for _ in range(250):
        scores += learner.play(1).scores.tolist()
        seen += boards_of(learner).count(int(log["board"][0]))
    assert len(scores) == learner.n_games == 0
    assert seen > 30


def test_only_as_many_games_jump_as_are_to() -> None:
    log = late_log(1)
    learner = Learner(tiny(), Settings(games=4, jump=0.6, value_scale=UNIT), 1, log)
    n_jumped = 0
    for _ in range(600):
        learner.play(1)
        n_jumped += boards_of(learner).count(int(log["board"][0]))
    n_from_start = learner.n_games + 4  # some of the last are not over yet
    assert 0.4 < n_jumped / (n_jumped + n_from_start) < 0.75


def test_jumping_needs_a_log() -> None:
    with pytest.raises(ValueError, match="needs a log"):
        Learner(tiny(), Settings(jump=0.1))


def tables_of(boards: list[int], lengths: list[int]) -> value_td._Tables:
    """Games with these boards and numbers of moves."""
    zeros = torch.zeros(len(boards), dtype=torch.int64)
    words = torch.tensor(boards)
    return value_td._Tables(words, zeros, zeros, torch.tensor(lengths), zeros, zeros > 0)


def test_the_history_is_as_long_as_the_longest_game() -> None:
    history = value_td._History(3, torch.device("cpu"))
    tables = tables_of([1, 2, 3], [0, 0, 0])
    expected: list[list[int]] = [[], [], []]
    for i in range(2_500):
        for game, board in zip(expected, tables.boards.tolist(), strict=True):
            game.append(board)
        history.add(tables)
        tables = tables._replace(lengths=tables.lengths + 1, boards=tables.boards + 1)
        if i == 1_500:  # one of them is over
            tables.lengths[1], expected[1] = 0, []
    assert history.boards.shape[1] < 5_000
    for row, game in zip(history.boards.tolist(), expected, strict=True):
        assert row[: len(game)] == game
    moves = torch.tensor([7, 9, 1_234])
    assert history.at(moves).tolist() == [expected[i][n] for i, n in enumerate(moves.tolist())]


def test_a_long_history_is_taken_up_whole() -> None:
    device, tables = torch.device("cpu"), tables_of([5, 6, 7], [5, 1_500, 2])
    history, again = (value_td._History(3, device) for _ in range(2))
    history.boards = torch.randint(1, 1 << 60, (3, 2_048))
    used = history.used(tables)
    assert used.shape == (3, 1_500) and (used != 0).sum(1).tolist() == [5, 1_500, 2]
    again.restore(used)
    assert torch.equal(again.used(tables), used)
    again.add(tables)
    assert again.boards[:, [5, 1_500, 2]].diagonal().tolist() == [5, 6, 7]


def test_without_restart_there_is_no_history(tmp_path: Path) -> None:
    learner = Learner(tiny(), Settings(games=2, value_scale=UNIT), 1)
    learner.play(100)
    learner.save(tmp_path / "learner.safetensors")
    assert "others/history" not in safetensors.torch.load_file(tmp_path / "learner.safetensors")


# Symmetries


@pytest.mark.parametrize("symmetric", [True, False])
def test_positions_are_turned_if_asked_for(symmetric: bool) -> None:
    """Each of the eight ways as often as the others."""
    learner = Learner(
        tiny(), Settings(games=400, symmetric=symmetric, value_scale=UNIT, batch=400), 1
    )
    learner.play(400 * 20)
    ways = [0] * 8
    tables = learner._tables
    for after, board in zip(tables.afters.tolist(), tables.boards.tolist(), strict=True):
        sides = torch_rules.symmetries(torch.tensor(board)).tolist()
        found = [way for way, side in enumerate(sides) if is_spawned(after, side)]
        assert found or after == 0
        if len(found) == 1:
            ways[BACK[found[0]]] += 1
    assert sum(ways) > 350
    assert (min(ways) > 20) == symmetric
    assert (ways[0] == sum(ways)) == (not symmetric)


BACK = (0, 1, 2, 3, 4, 6, 5, 7)
"""The symmetry that undoes each of the eight: the quarter turns undo one another."""


def is_spawned(after: int, board: int) -> bool:
    """Whether a board is an afterstate with a 2 or a 4 more."""
    pairs = [(after >> shift & 15, board >> shift & 15) for shift in range(0, 64, 4)]
    new = [pair for pair in pairs if pair[0] != pair[1]]
    return new in ([(0, 1)], [(0, 2)])


# Chance, the mean of weights, and losses


def state(learner: Learner) -> dict[str, Any]:
    """All that a learner is."""
    played = {f"played/{name}": t for name, t in learner.net.state_dict().items()}
    found = {**learner.fitter.tensors(), **played, **learner._tables._asdict()}
    found["chance"] = learner._chance.get_state()
    if learner._history is not None:
        found["history"] = learner._history.used(learner._tables)
    found |= {
        f"segment/{i}/{k}": t for i, s in enumerate(learner._segment) for k, t in enumerate(s)
    }
    return {
        **{name: t.tolist() for name, t in found.items()},
        "drawn": learner._rng.bit_generator.state,
        **{name: getattr(learner, name) for name in ("n_moves", "n_games")},
    }


def test_the_same_seed_learns_the_same_and_another_does_not() -> None:
    how = Settings(games=4, value_scale=UNIT, jump=0.5)
    learners = [Learner(tiny(), how, seed, late_log()) for seed in (3, 3, 4)]
    first, same, other = (learner.play(800) for learner in learners)
    assert first.scores.tolist() == same.scores.tolist()
    assert state(learners[0]) == state(learners[1])
    assert first.scores.tolist() != other.scores.tolist()


def test_the_mean_of_the_weights_plays() -> None:
    learner = Learner(tiny(), Settings(games=4, average=0.99, value_scale=UNIT, rate=1e-2), 1)
    assert learner.net is learner.fitter.played is not learner.fitter.net
    learner.play(400)
    learned, played = learner.fitter.net.state_dict(), learner.net.state_dict()
    assert any(not torch.equal(learned[name], played[name]) for name in learned)
    plain = Learner(tiny(), Settings(games=4, value_scale=UNIT), 1)
    assert plain.net is plain.fitter.net


def test_the_loss_is_the_mean_since_it_was_asked_last(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner(tiny(), Settings(games=4, value_scale=UNIT, batch=4), 1)
    assert math.isnan(learner.loss())
    steps = watch(learner, monkeypatch)
    for n_moves in (40, 100):
        steps.clear()
        learner.play(n_moves)
        losses = [step.loss for step in steps]
        assert len(losses) >= 9
        assert learner.loss() == pytest.approx(sum(losses) / len(losses), abs=1e-3)
    assert math.isnan(learner.loss())


def test_with_16_bits_the_weights_still_have_32() -> None:
    learners = [
        Learner(tiny(), Settings(games=4, value_scale=UNIT, bf16=m), 1) for m in (False, True)
    ]
    for learner in learners:
        learner.play(200)
        assert all(t.dtype == torch.float32 for t in learner.net.parameters())
        assert math.isfinite(learner.loss())
    exact, rough = (learner.net.state_dict() for learner in learners)
    assert any(not torch.equal(exact[name], rough[name]) for name in exact)


# Files


@pytest.mark.parametrize(
    "settings",
    [{}, {"restart": 5, "average": 0.9, "jump": 0.5}, {"restart": 5}, {"segment": 43}],
    ids=str,
)
@on_devices
def test_a_learner_goes_on_as_if_it_had_not_been_saved(
    settings: dict[str, Any], device: str, tmp_path: Path
) -> None:
    how, log = Settings(**{"games": 5, "value_scale": UNIT, "batch": 3, **settings}), late_log()
    learner = Learner(tiny().to(device), how, 7, log)
    learner.play(700)
    learner.save(tmp_path / "learner.safetensors")
    again = Learner(tiny(2).to(device), how, 8, log)
    again.resume(tmp_path / "learner.safetensors")
    assert state(again) == state(learner)
    assert again.seconds == pytest.approx(learner.seconds, abs=0.06)
    games, games_again = learner.play(700), again.play(700)
    for column, column_again in zip(games, games_again, strict=True):
        assert column.tolist() == column_again.tolist()
    assert len(games.scores) > 0
    assert state(again) == state(learner)


@pytest.mark.parametrize("at", ["optimizer", "step", "spawn"])
@pytest.mark.parametrize(("average", "segment"), [(0.0, 1), (0.9, 1), (0.9, 8)])
def test_an_interrupted_move_is_made_to_its_end(
    at: str, average: float, segment: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The signal comes in the middle of a step, between two of them, or after the last."""
    told: dict[str, Any] = {"restart": 5, "average": average, "segment": segment}
    how, n_calls = Settings(games=5, value_scale=UNIT, batch=2, **told), [0]
    whole, learner, again = (Learner(tiny(), how, 7) for _ in range(3))
    fitter = learner.fitter
    place = {"optimizer": fitter.optimizer, "step": fitter, "spawn": value_td}[at]
    name = "spawn" if at == "spawn" else "step"
    function = getattr(place, name)

    def signalled(*arguments: Any) -> Any:
        found = function(*arguments)
        n_calls[0] += 1
        if n_calls[0] == 100:
            signal.raise_signal(signal.SIGTERM)
        return found

    path = tmp_path / "learner.safetensors"
    with monkeypatch.context() as patched:
        patched.setattr(place, name, signalled)
        with pytest.raises(SystemExit):
            train(learner, 10_000, save_to=path)
    assert n_calls[0] >= 100 and not learner.fitter.net.training
    again.resume(path)
    whole.play(again.n_moves)
    assert state(again) == state(whole)
    for each in (again, whole):
        each.play(100)
    assert state(again) == state(whole)


def test_after_an_error_in_a_step_networks_play_as_in_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*arguments: Any) -> None:
        assert learner.fitter.net.training
        raise MemoryError

    learner = Learner(tiny(), Settings(games=2, value_scale=UNIT), 1)
    monkeypatch.setattr(learner.fitter, "step", fail)
    with pytest.raises(MemoryError):
        learner.play(10)
    assert not learner.fitter.net.training


def as_of(path: Path, device: str) -> None:
    """Lets the file of a learner say that it learned elsewhere, with a generator of another kind.

    That of a GPU has a state of 16 bytes, which one of a CPU does not take.
    """
    tensors = safetensors.torch.load_file(path)
    with safetensors.safe_open(str(path), "pt") as file:
        about = json.loads(file.metadata()["afterstate"])
    about["device"] = device
    tensors["others/chance"] = torch.zeros(16, dtype=torch.uint8)
    safetensors.torch.save_file(tensors, path, {"afterstate": json.dumps(about)})


GPUS = [("cpu", "cuda"), ("cuda", "cpu")]
OTHERS = [("gpu", "cpu"), *(pytest.param(*p, marks=needs_cuda) for p in GPUS)]


@pytest.mark.parametrize(("before", "after"), OTHERS)
def test_a_learner_goes_on_where_random_numbers_are_others(
    before: str, after: str, tmp_path: Path
) -> None:
    """They are of the seed and the moves made, and so still the same each time."""
    told: dict[str, Any] = {"restart": 5, "average": 0.9, "jump": 0.5, "batch": 3}
    how, log = Settings(games=5, value_scale=UNIT, **told), late_log()
    learner = Learner(tiny().to(before.replace("gpu", "cpu")), how, 7, log)
    learner.play(700)
    path = tmp_path / "learner.safetensors"
    learner.save(path)
    if before == "gpu":
        as_of(path, before)
    found, learned = [], state(learner)
    for seed, n_moves in ((8, 400), (8, 400), (9, 400)):
        again = Learner(tiny(2).to(after), how, seed, log)
        again.resume(path)
        taken = state(again)
        assert taken.pop("chance") != learned.get("chance")
        assert taken == {name: value for name, value in learned.items() if name != "chance"}
        games = again.play(n_moves)
        assert {t.device.type for t in (*again.net.parameters(), *again._tables)} == {after}
        found.append((state(again), games.scores.tolist()))
    assert found[0] == found[1]
    assert found[0][1] and found[0][0]["boards"] != found[2][0]["boards"]


def test_the_network_that_plays_is_saved_beside_the_learner(tmp_path: Path) -> None:
    learner = Learner(tiny(), Settings(games=4, average=0.9, value_scale=UNIT, rate=1e-2), 1)
    learner.play(400)
    learner.save(tmp_path / "learner.safetensors")
    agent = ValueNetAgent(tmp_path / "net.safetensors")
    assert agent.value_scale == UNIT
    for name, values in learner.net.state_dict().items():
        assert torch.equal(agent.net.state_dict()[name], values)
    told = nets.metadata(tmp_path / "net.safetensors")
    assert (told["n_moves"], told["n_games"]) == (learner.n_moves, learner.n_games)
    assert Settings(**told["learner"]) == learner.settings
    assert told["seed"] == 1


def saved(folder: Path, **settings: Any) -> Path:
    """The file of a learner that has played a little."""
    learner = Learner(tiny(), Settings(**{"games": 4, "value_scale": UNIT, **settings}), 1)
    learner.play(40)
    learner.save(folder / "learner.safetensors")
    return folder / "learner.safetensors"


def test_another_number_of_games_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not fit the settings: it has 4 games"):
        Learner(tiny(), Settings(games=5, value_scale=UNIT)).resume(saved(tmp_path))


def test_another_network_is_refused(tmp_path: Path) -> None:
    for net in (Small(), Tiny(9)):
        with pytest.raises(ValueError, match="another network"):
            Learner(net, Settings(games=4, value_scale=UNIT)).resume(saved(tmp_path))


@pytest.mark.parametrize("lost", ["chance", "boards", "lengths", "segment/best"])
def test_a_learner_that_lacks_something_is_refused(lost: str, tmp_path: Path) -> None:
    path = saved(tmp_path, restart=5, segment=1_000)
    tensors = safetensors.torch.load_file(path)
    with safetensors.safe_open(str(path), "pt") as file:
        about = file.metadata()
    del tensors[f"others/{lost}"]
    safetensors.torch.save_file(tensors, path, about)
    with pytest.raises(ValueError, match=f"learner.safetensors .*{lost}"):
        Learner(tiny(), Settings(games=4, value_scale=UNIT, restart=5)).resume(path)


def test_a_network_alone_is_no_learner(tmp_path: Path) -> None:
    saved(tmp_path)
    with pytest.raises(ValueError, match=r"net\.safetensors"):
        Learner(tiny(), Settings(games=4, value_scale=UNIT)).resume(tmp_path / "net.safetensors")


def test_a_segment_of_other_games_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, segment=1_000)
    tensors = safetensors.torch.load_file(path)
    with safetensors.safe_open(str(path), "pt") as file:
        about = file.metadata()
    tensors["others/segment/best"] = tensors["others/segment/best"][:, 1:].contiguous()
    safetensors.torch.save_file(tensors, path, about)
    with pytest.raises(ValueError, match="segment has another number of games"):
        Learner(tiny(), Settings(games=4, value_scale=UNIT)).resume(path)


def test_a_shorter_segment_ends_at_once(tmp_path: Path) -> None:
    """Nothing of what was played is lost when a learner goes on with another."""
    path = saved(tmp_path, segment=20)  # of which 10 moves are made
    learner = Learner(tiny(), Settings(games=4, value_scale=UNIT, segment=5, batch=44), 1)
    learner.resume(path)
    learner.play(1)
    assert learner.fitter.n_steps == 1  # of 11 moves of 4 games


@pytest.mark.parametrize(("before", "after"), [(None, 5), (5, None)])
def test_restart_may_be_turned_on_and_off(
    before: int | None, after: int | None, tmp_path: Path
) -> None:
    """Games whose beginnings are not known begin again from what is known of them."""
    path = saved(tmp_path, restart=before)
    learner = Learner(tiny(), Settings(games=4, value_scale=UNIT, restart=after), 1)
    learner.resume(path)
    games = learner.play(3_000)
    assert len(games.scores) >= 1
    assert (games.n_moves > 10).all()


def test_restart_may_be_turned_on_in_games_of_thousands_of_moves(tmp_path: Path) -> None:
    """They begin again at boards that are known: none of them is empty."""
    before = Learner(tiny(), Settings(games=4, value_scale=UNIT), 1)
    before.play(40)
    before._tables = before._tables._replace(lengths=torch.tensor([3_010, 1_100, 8, 1_023]))
    before.save(tmp_path / "learner.safetensors")
    learner = Learner(tiny(), Settings(games=4, value_scale=UNIT, restart=5), 1)
    learner.play(40)
    learner.resume(tmp_path / "learner.safetensors")
    seen = list[int]()
    for _ in range(400):
        learner.play(1)
        assert all(boards_of(learner))
        seen += learner._tables.begins.tolist()
    assert {3_010, 1_100, 8, 1_023} < set(seen)
    learner.save(tmp_path / "learner.safetensors")
    again = Learner(tiny(), Settings(games=4, value_scale=UNIT, restart=5), 1)
    again.resume(tmp_path / "learner.safetensors")
    assert state(again) == state(learner)


# That it learns


@cache
def exact(word: int) -> dict[int, float]:
    """What the moves of a board are worth with the best play to the end."""
    found, board = {}, oracle.from_word(word, 4, 4)
    for action in oracle.legal_moves(board):
        after, reward = oracle.move(board, action)
        found[action] = reward + sum(
            chance * max(exact(oracle.to_word(each)).values(), default=0.0)
            for each, chance in oracle.spawn_outcomes(after)
        )
    return found


@pytest.mark.parametrize("segment", [1, 8])
def test_the_values_of_an_endgame_become_the_exact_ones(segment: int) -> None:
    """Games begin at a board of which 132 can come; the best move is that to the right."""
    board = from_text("2 _ 32 64 / 4 128 256 512 / 1024 2048 4096 8192 / 2 16384 128 32")
    assert exact(board) == pytest.approx({0: 4.32, 1: 16.37288, 3: 0.0})
    log = np.zeros(1, play_logs.MOVE)
    log["board"] = board
    told: dict[str, Any] = {"rate": 0.1, "final_rate": 1e-3, "decay": 35_000, "symmetric": False}
    told |= {"games": 200, "batch": 64, "segment": segment}
    learner = Learner(Table(), Settings(value_scale=10, jump=1, **told), 1, log)
    learner._tables.boards.fill_(board)
    learner.play(45_000)
    values = ValueNetAgent(learner.net, value_scale=10).evaluate(board)
    assert values.argmax() == 1
    assert values[1] == pytest.approx(16.37, rel=0.05)


def test_a_network_learns_to_play_better_than_by_chance() -> None:
    """A random player's games have 1,100 points on average."""
    torch.manual_seed(1)
    learner = Learner(Small(), Settings(games=64, batch=64, rate=1e-3, value_scale=1000), 1)

    def mean_score() -> float:
        return float(play(ValueNetAgent(learner.net, value_scale=1000), 40, 1).scores.mean())

    assert mean_score() < 1_500
    learner.play(64 * 300)
    assert mean_score() > 2_000


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"games": 0}, "games"),
        ({"games": 2.5}, "games"),
        ({"value_scale": 0}, "value_scale"),
        ({"value_scale": "1000"}, "value_scale"),
        ({"segment": 0}, "segment"),
        ({"lam": 1.1}, "lam"),
        ({"restart": 0}, "restart"),
        ({"restart": True}, "restart"),
        ({"jump": 1.5}, "jump"),
        ({"jump": -0.1}, "jump"),
        ({"batch": 0}, "batch"),
        ({"rate": 1}, "rate"),
        ({"average": 1}, "average"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**settings)


# The command


RUN: dict[str, Any] = {
    "network": {"name": "Tiny"},
    "learner": {"games": 8, "unit": UNIT, "restart": 10, "average": 0.5},
    "seed": 1,
}
FAST = ("--evaluate-every", "500", "--evaluate", "1:2")


def run(folder: Path, *arguments: str, settings: Any = RUN, out: str = "run") -> Path:
    """Runs the command line, and returns the folder of the run."""
    (folder / "settings.json").write_text(json.dumps(settings))
    told = [str(folder / "settings.json"), "--out", str(folder / out), *FAST, *arguments]
    main(["value", *told])
    return folder / out


def refusal(folder: Path, *arguments: str, settings: Any = RUN) -> str:
    """The one line with which a run ends before it begins."""
    with pytest.raises(SystemExit) as caught:
        run(folder, *arguments, settings=settings)
    message = caught.value.code
    assert isinstance(message, str)
    assert "\n" not in message
    assert not (folder / "run" / "rows.jsonl").exists() or "--resume" in arguments
    return message


def rows(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / "rows.jsonl").read_text().splitlines()]


def resumed(path: Path) -> Learner:
    """The learner of a run."""
    learner = from_dict(RUN, value_td.Run).new()
    learner.resume(path)
    return learner


def test_a_run_leaves_its_learner_its_network_and_its_rows(tmp_path: Path) -> None:
    place = run(tmp_path, "--moves", "1100")
    assert sorted(path.name for path in place.iterdir()) == [
        *("learner.safetensors", "lock", "net.safetensors", "rows.jsonl", "settings.json")
    ]
    assert read(place / "settings.json", value_td.Run) == from_dict(RUN, value_td.Run)
    lone, found = from_dict(RUN, value_td.Run).new(), rows(place)
    assert [row["n_moves"] // 500 for row in found] == [1, 2, 2]
    for row in found:
        while lone.n_moves < row["n_moves"]:
            lone.play(1)
        assert row["loss"] == pytest.approx(lone.loss(), abs=1e-3)
        assert row["n_games"] == lone.n_games
        assert row["seconds"] > 0
    again = resumed(place / "learner.safetensors")
    assert state(again) == state(lone)


def test_rows_tell_how_the_network_plays(tmp_path: Path) -> None:
    place = run(tmp_path, "--moves", "16", "--evaluate", "1:3,2:1")
    (row,) = rows(place)
    for depth, n_games in ((1, 3), (2, 1)):
        player = ValueNetAgent(place / "net.safetensors", depth)
        games = play(player, n_games, EVALUATION_SEED)
        assert row[f"{depth}-ply"]["n_games"] == n_games
        assert row[f"{depth}-ply"]["mean"] == round(float(games.scores.mean()), 1)


def test_a_resumed_run_is_that_without_a_break(tmp_path: Path) -> None:
    ends = []
    for parts in (["1200"], ["500", "1200"]):
        for i, n_moves in enumerate(parts):
            again = ["--resume"] * (i > 0)
            place = run(tmp_path, "--moves", n_moves, *again, out=f"in-{len(parts)}")
        learner = resumed(place / "learner.safetensors")
        ends.append((state(learner), rows(place)[-1]["1-ply"]))
    assert ends[0] == ends[1]


def test_a_run_learns_with_a_log(tmp_path: Path) -> None:
    np.save(tmp_path / "moves.npy", late_log())
    how = {**RUN, "log": str(tmp_path / "moves.npy"), "learner": {"games": 3, "jump": 1.0}}
    place = run(tmp_path, "--moves", "700", "--evaluate", "", settings=how)
    assert nets.metadata(place / "learner.safetensors")["n_games"] == 0  # none is from the start


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": {"name": "CNN23"}}, "CNN23"),
        ({"network": {"name": "Tiny", "depth": 3}}, "Tiny got wrong settings: .*depth"),
        ({"network": {"networks": 1}}, "CNN22 got wrong settings: .*networks"),
        ({"learner": {"momentum": 0.9}}, "momentum"),
        ({"learner": {"rate": 2}}, "rate"),
        ({"learner": {"jump": 0.5}}, "needs a log"),
        ({"log": 5}, "log"),
        ({"log": "nowhere.npy"}, r"nowhere\.npy"),
        ({"seed": -1}, "seed"),
        ({"steps": 5}, "steps"),
    ],
    ids=str,
)
def test_wrong_settings_end_a_run_before_it_begins(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    found = refusal(tmp_path, "--moves", "100", settings={**RUN, **settings})
    assert re.search(message, found)


def test_a_run_refuses_what_the_player_cannot_do(tmp_path: Path) -> None:
    assert "evaluate" in refusal(tmp_path, "--moves", "100", "--evaluate", "1:5,4:1")
    assert "no device 'abacus'" in refusal(tmp_path, "--moves", "100", "--device", "abacus")


def test_a_run_does_not_go_on_with_other_games_or_another_network(tmp_path: Path) -> None:
    run(tmp_path, "--moves", "100")
    wrong: dict[str, Any] = {"learner": {**RUN["learner"], "games": 9}}
    message = refusal(tmp_path, "--moves", "200", "--resume", settings={**RUN, **wrong})
    assert "games, not 9" in message
    wrong = {"network": {"name": "Tiny", "hidden": 9}}
    message = refusal(tmp_path, "--moves", "200", "--resume", settings={**RUN, **wrong})
    assert "another network" in message


def test_another_unit_is_refused(tmp_path: Path) -> None:
    first = Learner(tiny(), Settings(games=2, value_scale=2.0), 1)
    first.save(tmp_path / "learner.safetensors")
    with pytest.raises(ValueError, match="value_scale"):
        Learner(tiny(), Settings(games=2, value_scale=3.0), 1).resume(
            tmp_path / "learner.safetensors"
        )


def test_no_moves_are_no_games() -> None:
    learner = Learner(tiny(), Settings(games=2), 1)
    assert learner.play(0).scores.shape == (0,)
    assert learner.n_moves == 0


def test_the_first_games_jump_too() -> None:
    log = late_log()
    learner = Learner(tiny(), Settings(games=30, jump=1.0), 1, log)
    logged = {int(board) for board in log["board"]}
    assert set(torch_rules.to_words(learner._tables.boards).tolist()) <= logged


@needs_cuda
def test_a_run_learns_on_the_gpu_and_goes_on_there_and_elsewhere(tmp_path: Path) -> None:
    place = run(tmp_path, "--moves", "300", "--device", "cuda")
    for n_moves, device in (("400", "cuda"), ("500", "cpu"), ("600", "cuda")):
        run(tmp_path, "--moves", n_moves, "--device", device, "--resume")
        assert nets.metadata(place / "learner.safetensors")["device"] == device
        assert rows(place)[-1]["n_moves"] >= int(n_moves)
        assert rows(place)[-1]["1-ply"]["mean"] > 0
