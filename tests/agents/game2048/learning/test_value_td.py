"""Self-play learning of value networks, compared with a plain loop over games that are lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")

import torch
from torch import Tensor, nn

from afterstate.agents.game2048.learning import play_logs, value_td
from afterstate.agents.game2048.learning.run_settings import ValueSettings
from afterstate.agents.game2048.learning.value_td import ValueLearner
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values.value_net import ValueNetAgent
from afterstate.envs.game2048.rules import from_text
from afterstate.envs.game2048.torch_rules import exponents
from tests.oracles import game2048 as oracle
from tests.oracles.value_td import NaiveSelfPlay
from tests.support.devices import on_devices
from tests.support.game2048.value_learners import SCALE, late_log, tiny

pytestmark = pytest.mark.usefixtures("one_thread")


def new(log: play_logs.Moves | None = None, seed: int = 1, **settings: Any) -> ValueLearner:
    """Return a learner with a tiny network."""
    return ValueLearner(
        tiny(), ValueSettings(**{"games": 4, "value_scale": SCALE, **settings}), seed, log
    )


class Step(NamedTuple):
    """A step of the fitter."""

    boards: list[oracle.Board]
    targets: list[float]  # of the network's outputs
    rate: float
    loss: float


def record_steps(learner: ValueLearner, monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """Return a list to which each step of the fitter is appended from now on."""
    steps, step = [], learner.fitter.step

    def spy(boards: Tensor, targets: Tensor, rate: float) -> Tensor:
        error = step(boards, targets, rate)
        steps.append(Step(exponents(boards).tolist(), targets.tolist(), rate, float(error)))
        return error

    monkeypatch.setattr(learner.fitter, "step", spy)
    return steps


def values_of(net: nn.Module, value_scale: float) -> Callable[[list[oracle.Board]], list[float]]:
    """Return a function of boards that returns the network's current values, in points."""

    def values(boards: list[oracle.Board]) -> list[float]:
        planes = np.zeros((len(boards), 16, 4, 4), np.float32)
        for i, board in enumerate(boards):
            for row, col in np.ndindex(4, 4):
                planes[i, min(board[row][col], 15), row, col] = 1
        with torch.inference_mode():
            outputs = net(torch.from_numpy(planes).to(next(net.parameters()).device))
            return [value_scale * value for value in outputs.tolist()]

    return values


@pytest.mark.parametrize(
    ("settings", "n_times"),
    [
        ({"batch": 2}, 110),
        ({"restart": 10, "symmetric": False}, 130),
        ({"restart": 10, "jump": 0.7}, 130),
        ({"jump": 1.0, "average": 0.9, "batch": 2, "rate": 1e-2, "decay": 400}, 60),
        pytest.param(
            {"value_scale": 3.5, "batch": 1, "restart": 20, "rate": 1e-4},
            160,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"segment": 7, "restart": 10, "jump": 0.7, "batch": 5}, 200, marks=pytest.mark.slow
        ),
        ({"segment": 20, "lam": 1.0}, 110),
        ({"segment": 5, "lam": 0.0, "average": 0.9}, 110),
    ],
    ids=str,
)
@on_devices
def test_each_move_equals_that_of_the_plain_loop(
    settings: dict[str, Any], n_times: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The afterstates and targets of each step and the games that end are compared."""
    log = late_log()
    own = ValueSettings(**{"games": 4, "value_scale": SCALE, "batch": 4, "rate": 1e-3, **settings})
    learner = ValueLearner(tiny().to(device), own, 7, log)
    if learner._history is not None:
        learner._history.boards = learner._history.boards[:, :8].clone()  # it must grow
    naive = NaiveSelfPlay(own, 7, values_of(learner.network, own.value_scale), log, device)
    steps, n_games = record_steps(learner, monkeypatch), 0
    for _ in range(n_times):
        steps.clear()
        rate = own.rate_after(learner.n_moves)
        boards, expected, ended = naive.move()
        games = learner.learn(1)
        assert len(steps) == math.ceil(len(boards) / own.batch)
        size = math.ceil(len(boards) / len(steps)) if steps else 0
        if device == "cuda" and len(steps) > 1:
            size = own.batch
        assert [len(step.boards) for step in steps] == [size] * len(steps)
        filling = len(steps) * size - len(boards)  # of the last step
        learned = [board for step in steps for board in step.boards]
        assert learned == boards + boards[:filling]
        targets = [value * own.value_scale for step in steps for value in step.targets]
        assert targets == pytest.approx(expected + expected[:filling], rel=1e-4, abs=1e-2)
        assert [step.rate for step in steps] == [rate] * len(steps)
        assert list(zip(*(column.tolist() for column in games), strict=True)) == ended
        n_games += len(ended)
        assert (learner.n_moves, learner.n_games) == (naive.n_moves, n_games)
    assert (n_games > 0) == (own.jump < 1)
    assert (naive.n_restarted > 0) == (own.restart is not None)
    assert (naive.n_jumped > 0) == (own.jump > 0)
    assert 0 < naive.n_moves < n_times * own.games  # some games were over


def test_numbers_of_moves_and_seeds_are_checked() -> None:
    learner = new()
    for wrong in (0, -5, math.nan, "3"):
        with pytest.raises(ValueError, match="n_moves must be a whole number >= 1"):
            learner.learn(wrong)  # type: ignore[arg-type]
    assert learner.n_moves == 0
    with pytest.raises(ValueError, match=r"seed must be None or an integer >= 0, got 1\.5"):
        ValueLearner(learner.network, seed=1.5)  # type: ignore[arg-type]


def games_of(boards: list[int], lengths: list[int]) -> value_td._GameBatch:
    """Return games with these boards and numbers of moves."""
    zeros, words = torch.zeros(len(boards), dtype=torch.int64), torch.tensor(boards)
    return value_td._GameBatch(words, zeros, zeros, torch.tensor(lengths), zeros, zeros > 0)


def test_a_game_restarts_if_more_moves_remain_than_restart_says() -> None:
    """Of 20 moves 10 remain after the middle, of 21 there are 11; the last two began at move 10."""
    learner = new(restart=10)
    assert learner._history is not None
    learner._history.boards = torch.arange(1, 129).reshape(4, 32)
    games = games_of([0] * 4, [20, 21, 30, 31])._replace(begins=torch.tensor([0, 0, 10, 10]))
    games, ended = learner._begin_again(games, torch.ones(4, dtype=torch.bool))
    assert ended[:, 1].tolist() == [20, 21]
    assert games.lengths.tolist() == games.begins.tolist() == [0, 10, 0, 20]
    assert games.boards[[1, 3]].tolist() == [32 + 11, 96 + 21]
    assert not games.afters.any()


def test_jumping_needs_a_log() -> None:
    with pytest.raises(ValueError, match="log"):
        new(jump=0.1)


def test_the_history_grows_with_the_longest_game() -> None:
    history = value_td._History(3, torch.device("cpu"))
    games = games_of([1, 2, 3], [0, 0, 0])
    expected: list[list[int]] = [[], [], []]
    for i in range(2_500):
        for game, board in zip(expected, games.boards.tolist(), strict=True):
            game.append(board)
        history.add(games)
        games = games._replace(lengths=games.lengths + 1, boards=games.boards + 1)
        if i == 1_500:  # one of them is over
            games.lengths[1], expected[1] = 0, []
    assert history.boards.shape[1] < 5_000
    for row, game in zip(history.boards.tolist(), expected, strict=True):
        assert row[: len(game)] == game
    moves = torch.tensor([7, 9, 1_234])
    assert history.at(moves).tolist() == [expected[i][n] for i, n in enumerate(moves.tolist())]


def test_a_long_history_is_restored() -> None:
    device, games = torch.device("cpu"), games_of([5, 6, 7], [5, 1_500, 2])
    history, restored = (value_td._History(3, device) for _ in range(2))
    history.boards = torch.randint(1, 1 << 60, (3, 2_048))
    used = history.used(games)
    assert used.shape == (3, 1_500) and (used != 0).sum(1).tolist() == [5, 1_500, 2]
    restored.restore(used)
    assert torch.equal(restored.used(games), used)
    restored.add(games)
    assert restored.boards[:, [5, 1_500, 2]].diagonal().tolist() == [5, 6, 7]


def test_the_loss_is_the_mean_since_the_last_call(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = new(batch=4)
    assert math.isnan(learner.loss())
    steps = record_steps(learner, monkeypatch)
    for n_moves in (40, 100):
        steps.clear()
        learner.learn(n_moves)
        losses = [step.loss for step in steps]
        assert len(losses) >= 9
        assert learner.loss() == pytest.approx(sum(losses) / len(losses), abs=1e-3)
    assert math.isnan(learner.loss())


def test_bf16_changes_the_learning_but_not_the_type_of_the_weights() -> None:
    learners = [new(bf16=bf16) for bf16 in (False, True)]
    for learner in learners:
        learner.learn(200)
        assert all(t.dtype == torch.float32 for t in learner.network.parameters())
        assert math.isfinite(learner.loss())
    exact, rough = (learner.network.state_dict() for learner in learners)
    assert any(not torch.equal(exact[name], rough[name]) for name in exact)


def test_the_network_is_in_evaluation_mode_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = new(games=2)

    def fail(*arguments: Any) -> None:
        assert learner.fitter.network.training
        raise MemoryError

    monkeypatch.setattr(learner.fitter, "step", fail)
    with pytest.raises(MemoryError):
        learner.learn(10)
    assert not learner.fitter.network.training


class Table(nn.Module):
    """A value for almost every board, initially too large, so that every move is tried."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {}
        self.values = nn.Parameter(torch.full((1 << 14,), 4.0))
        self.factors = torch.randint(1 << 20, (16,), generator=torch.Generator().manual_seed(1))

    def forward(self, planes: Tensor) -> Tensor:
        """Return the values `[n]` of planes `[n, 16, 4, 4]`."""
        places = (planes.argmax(1).flatten(1) * self.factors).sum(1) % len(self.values)
        return self.values[places]


@cache
def exact_values(word: int) -> dict[int, float]:
    """Return the expected points of each move of a board with the best play to the end."""
    result, board = {}, oracle.from_word(word, 4, 4)
    for action in oracle.legal_moves(board):
        after, reward = oracle.move(board, action)
        result[action] = reward + sum(
            probability * max(exact_values(oracle.to_word(each)).values(), default=0.0)
            for each, probability in oracle.spawn_outcomes(after)
        )
    return result


@pytest.mark.slow
@pytest.mark.parametrize("segment", [1, 8])
def test_values_of_an_endgame_converge_to_the_exact_ones(segment: int) -> None:
    """Games begin at a board from which 132 are reachable; the best move is to the right."""
    board = from_text("2 _ 32 64 / 4 128 256 512 / 1024 2048 4096 8192 / 2 16384 128 32")
    assert exact_values(board) == pytest.approx({0: 4.32, 1: 16.37288, 3: 0.0})
    log = np.zeros(1, play_logs.MOVE)
    log["board"] = board
    options: dict[str, Any] = {"rate": 0.1, "final_rate": 1e-3, "decay": 35_000, "jump": 1}
    options |= {"games": 200, "batch": 64, "segment": segment, "symmetric": False}
    learner = ValueLearner(Table(), ValueSettings(value_scale=10, **options), 1, log)
    learner._games.boards.fill_(board)
    learner.learn(45_000)
    values = ValueNetAgent(learner.network, value_scale=10).evaluate(board)
    assert values.argmax() == 1
    assert values[1] == pytest.approx(16.37, rel=0.05)


@pytest.mark.slow
def test_a_network_learns_to_play_better_than_at_random() -> None:
    """A random player's mean score is 1,100."""
    torch.manual_seed(1)
    net = nn.Sequential(
        *(nn.Conv2d(16, 32, 2), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(288, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0)),
    )
    learner = ValueLearner(net, ValueSettings(games=64, batch=64, rate=1e-3, value_scale=1000), 1)

    def mean_score() -> float:
        return float(play(ValueNetAgent(learner.network, value_scale=1000), 40, 1).scores.mean())

    assert mean_score() < 1_500
    learner.learn(64 * 300)
    assert mean_score() > 2_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("games", value) for value in (0, 2.5)),
        *(("value_scale", value) for value in (0, "1000")),
        *(("segment", 0), ("lam", 1.1), ("batch", 0), ("rate", 1), ("average", 1)),
        *(("restart", value) for value in (0, True)),
        *(("jump", value) for value in (1.5, -0.1)),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        ValueSettings(**{name: value})
