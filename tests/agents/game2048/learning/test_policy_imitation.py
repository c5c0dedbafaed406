"""Policy networks that learn from logs: batches, gradients by hand, checkpoints, and runs."""

from __future__ import annotations

import json
import math
import signal
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from afterstate.agents import nets
from afterstate.agents.config import from_dict, read
from afterstate.agents.game2048 import play as play_module
from afterstate.agents.game2048.learning import policy_imitation
from afterstate.agents.game2048.learning.play_logs import MOVE, Moves
from afterstate.agents.game2048.learning.policy_imitation import PolicyLearner
from afterstate.agents.game2048.learning.run_settings import PolicyRun
from afterstate.agents.game2048.play import evaluation, play
from afterstate.agents.game2048.simple import RewardAgent
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.policy_net import PolicyCNN, PolicyNetAgent, load
from afterstate.agents.training.fitter import Fitter
from afterstate.agents.training.fitting_settings import FittingSettings
from afterstate.agents.training.run import train
from afterstate.envs.game2048 import rules
from afterstate.envs.words import Words
from tests.support.devices import needs_cuda, on_devices
from tests.support.training_runs import TrainingCommand, contents, interrupt, read_rows

pytestmark = pytest.mark.usefixtures("one_thread")


UP, RIGHT, DOWN, LEFT = range(4)


def greedy_scores(net: nn.Module, n: int) -> dict[str, Any]:
    """Return the scores of greedy games of a network."""
    return evaluation(lambda _: PolicyNetAgent(net), {1: n})


def log_of(boards: Any, actions: Any) -> Moves:
    """Return a log of these moves."""
    log = np.empty(len(boards), MOVE)
    log["board"], log["action"] = boards, actions
    return log


def numbered_boards(n: int) -> Words:
    """Return up to 225 boards of two tiles in opposite corners; all four moves are legal."""
    cells = np.zeros((n, 4, 4), np.uint8)
    cells[:, 0, 0], cells[:, 3, 3] = np.arange(n) % 15 + 1, np.arange(n) // 15 + 1
    return rules.words(cells)


def reward_log(n_games: int, seed: int, most: int = 10**9) -> Moves:
    """Return the first moves of games of the player `reward`, shuffled."""
    parts: list[Moves] = []

    def watch(games: Any, boards: Words, actions: npt.NDArray[np.int64]) -> None:
        if len(parts) < most:
            parts.append(log_of(boards, actions))

    play(RewardAgent(seed), n_games, seed, watch=watch)
    return np.random.default_rng(seed).permutation(np.concatenate(parts))


def assert_same(one: PolicyLearner, other: PolicyLearner) -> None:
    """Assert that two learners have learned the same moves and have equal weights and states."""
    assert one.n_moves == other.n_moves
    assert one.fitter.n_steps == other.fitter.n_steps
    for first, second in (
        (one.fitter.tensors(), other.fitter.tensors()),
        (one.network.state_dict(), other.network.state_dict()),
    ):
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)


class Table(nn.Module):
    """A logit for each move and each plane of each cell, initially 0; records its boards."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {}
        self.weights = nn.Parameter(torch.zeros(256, 4))
        self.boards: list[int] = []

    def forward(self, planes: Tensor) -> Tensor:
        """Return the logits `[n, 4]`."""
        cells = planes.argmax(1).numpy().astype(np.uint8)
        self.boards += [int(word) for word in rules.words(cells)]
        return planes.flatten(1) @ self.weights


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let networks have few filters."""
    for layers, channels in ((2, 12), (3, 8)):
        monkeypatch.setitem(policy_net.CHANNELS, layers, channels)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a learner."""
    return tmp_path / "learner.safetensors"


def seeded(seed: int = 1) -> PolicyCNN:
    """Return a network that always has the same weights."""
    torch.manual_seed(seed)
    return PolicyCNN(2)


@pytest.mark.parametrize(("n", "batch"), [(10, 4), (3, 7), (5, 5), (1, 2)])
def test_moves_are_read_in_order_and_again_after_the_last(n: int, batch: int) -> None:
    net, boards = Table(), numbered_boards(n)
    learner = PolicyLearner(net, log_of(boards, 0), FittingSettings(batch=batch, symmetric=False))
    for _ in range(6):
        learner.learn(batch)
    assert net.boards == np.resize(boards, 6 * batch).tolist()
    assert learner.n_moves == 6 * batch


def test_the_number_of_steps_is_the_least_that_has_the_moves() -> None:
    learner = PolicyLearner(Table(), log_of(numbered_boards(20), 0), FittingSettings(batch=4))
    for n_moves, expected in ((1, 4), (4, 8), (9, 20), (1e1, 32)):
        games = learner.learn(n_moves)
        assert learner.n_moves == expected
        assert [len(column) for column in games] == [0, 0, 0]
    assert learner.fitter.n_steps == 8
    assert learner.n_games == 0


def symmetric_pairs(cells: npt.NDArray[Any], action: int) -> list[tuple[int, int]]:
    """Return a board and its move in all eight symmetric positions.

    A quarter turn to the left makes left of up; a mirror exchanges left and right.
    """
    pairs = []
    for mirrored in (cells, cells[:, ::-1]):
        for quarters in range(4):
            moved = action if mirrored is cells else -action
            word = int(rules.words(np.rot90(mirrored, quarters).astype(np.uint8)))
            pairs.append((word, (moved - quarters) % 4))
    return pairs


def test_symmetric_moves_slide_a_tile_to_symmetric_places() -> None:
    cells = np.zeros((4, 4), np.uint8)
    cells[1, 2] = 1
    for action in range(4):
        afters = set()
        for word, move in symmetric_pairs(cells, action):
            after, _ = rules.move(np.uint64(word), move, rules.table())
            afters.add(int(rules.canonical(np.uint64(after), 4, 4, 8)))
        assert len(afters) == 1


@pytest.mark.parametrize("action", [UP, RIGHT, DOWN, LEFT])
def test_a_board_and_its_move_are_turned_together_and_evenly(
    monkeypatch: pytest.MonkeyPatch, action: int
) -> None:
    cells = np.array([[1, 2, 3, 0], [0, 4, 0, 0], [0, 0, 0, 5], [0, 6, 0, 0]], np.uint8)
    net, targets = Table(), list[int]()

    def cross_entropy(logits: Tensor, actions: Tensor) -> Tensor:
        targets.extend(actions.tolist())
        return logits.sum()

    monkeypatch.setattr(policy_imitation, "cross_entropy", cross_entropy)
    log = log_of([rules.words(cells)], action)
    PolicyLearner(net, log, FittingSettings(batch=400), seed=1).learn(800)
    pairs = list(zip(net.boards, targets, strict=True))
    expected = symmetric_pairs(cells, action)
    assert len(pairs) == 800
    assert set(pairs) == set(expected)
    assert len(set(expected)) == 8
    assert min(pairs.count(pair) for pair in expected) > 60


def test_the_turns_depend_on_the_seed_and_not_on_the_calls_of_play() -> None:
    orders = []
    for seed, parts in ((1, [40]), (1, [10, 20, 10]), (2, [40]), (None, [40]), (0, [40])):
        net = Table()
        learner = PolicyLearner(
            net, log_of(numbered_boards(10), 0), FittingSettings(batch=10), seed
        )
        for n_moves in parts:
            learner.learn(n_moves)
        orders.append(net.boards)
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[3] == orders[4] != orders[0]
    assert orders[0][:10] != orders[0][10:20]  # drawn each time


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("2 0 0 0 / 4 0 0 0 / 8 0 0 0 / 16 0 0 0", LEFT),
        ("2 4 2 4 / 4 2 4 2 / 2 4 2 4 / 4 2 4 2", UP),  # the game is over
        ("0 0 0 0 / 0 0 0 0 / 0 0 0 0 / 0 0 0 0", UP),
        ("0 0 0 0 / 0 2 0 0 / 0 0 0 0 / 0 0 0 0", 4),
        ("0 0 0 0 / 0 2 0 0 / 0 0 0 0 / 0 0 0 0", 255),
    ],
)
def test_an_illegal_move_in_the_log_is_refused(text: str, action: int, symmetric: bool) -> None:
    log, net = log_of(numbered_boards(9), 2), Table()
    log[6] = rules.from_text(text), action
    learner = PolicyLearner(net, log, FittingSettings(batch=3, symmetric=symmetric))
    learner.learn(6)
    before = net.weights.tolist()
    with pytest.raises(ValueError, match="illegal move"):
        learner.learn(3)
    assert learner.n_moves == 6
    assert net.weights.tolist() == before


def softmax(logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the probabilities of each row."""
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(odds / odds.sum(1, keepdims=True))


def test_gradients_losses_and_accuracy_equal_those_by_hand() -> None:
    """The gradient of the loss by the logits is the probabilities, less 1 for the move.

    The rates are those of the cosine: 0.4, and after a third 0.3. The accuracy is that before each
    step.
    """
    boards, actions = numbered_boards(6), np.array([0, 1, 2, 3, 1, 1])
    cells = rules.cells(boards).astype(np.int64)
    inputs = np.eye(16)[cells].transpose(0, 3, 1, 2).reshape(6, 256)
    settings = FittingSettings(batch=3, rate=0.4, final_rate=1e-9, decay=9, symmetric=False)
    net = Table()
    learner = PolicyLearner(net, log_of(boards, actions), settings)
    losses, accuracies = [], []
    for i, rate in enumerate((0.4, 0.3, 0.1, 1e-9)):
        at = np.arange(3 * i, 3 * i + 3) % 6
        probabilities = softmax(inputs[at] @ net.weights.detach().numpy())
        targets = np.eye(4)[actions[at]]
        losses.append(-np.log((probabilities * targets).sum(1)).mean())
        accuracies.append((probabilities.argmax(1) == actions[at]).mean())
        learner.learn(3)
        gradient = inputs[at].T @ (probabilities - targets) / 3
        assert net.weights.grad is not None
        np.testing.assert_allclose(net.weights.grad.numpy(), gradient, atol=1e-5)
        assert learner.fitter.optimizer.param_groups[0]["lr"] == pytest.approx(rate)
    assert losses[0] == pytest.approx(math.log(4))
    assert accuracies[0] == pytest.approx(1 / 3)  # the first of equal logits is that of up
    expected = {"loss": float(np.mean(losses)), "accuracy": float(np.mean(accuracies))}
    assert learner.metrics() == pytest.approx(expected, abs=6e-5)


def test_metrics_are_those_since_the_last_call() -> None:
    log = log_of(numbered_boards(4), UP)
    learner = PolicyLearner(Table(), log, FittingSettings(batch=4, symmetric=False))
    assert all(math.isnan(value) for value in learner.metrics().values())
    learner.learn(4)
    assert learner.metrics() == {"loss": 1.3863, "accuracy": 1.0}
    learner.learn(4)
    assert learner.metrics()["loss"] < 1.3863
    assert all(math.isnan(value) for value in learner.metrics().values())


@pytest.mark.slow
@on_devices
def test_it_learns_the_moves_of_a_player(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """The player takes the largest reward, and draws one of at least two moves if tiles merge.

    At random, the loss is ln 4 = 1.386 and the accuracy 1/4. Moves of other games are predicted as
    well as those that it learned from.
    """
    monkeypatch.setitem(policy_net.CHANNELS, 2, 24)
    net, log = seeded().to(device), reward_log(400, 1, 25)
    assert len(log) == 10_000
    learner = PolicyLearner(net, log, FittingSettings(batch=32, rate=0.02, decay=12_000), seed=1)
    learner.learn(1_000)
    first = learner.metrics()
    assert first["loss"] > 1.37
    assert first["accuracy"] < 0.29
    scores = greedy_scores(learner.network, 1)  # which does not change the learner
    assert scores["1-ply"]["n_games"] == 1
    learner.learn(9_000)
    learner.metrics()
    learner.learn(2_000)
    last = learner.metrics()
    assert last["loss"] < first["loss"] - 0.08
    assert last["accuracy"] > first["accuracy"] + 0.04
    others = reward_log(40, 1_000, 25)
    probabilities = PolicyNetAgent(learner.network, device=device).probabilities(others["board"])
    assert -np.log(probabilities[np.arange(1_000), others["action"]]).mean() < 1.3
    assert (probabilities.argmax(1) == others["action"]).mean() > 0.32
    assert next(net.parameters()).device.type == device


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "settings", [{}, {"average": 0.9}, {"bf16": True}, {"clip": 0.5}, {"symmetric": False}], ids=str
)
def test_a_short_log_is_memorized(settings: dict[str, Any]) -> None:
    """Its boards are not symmetric to one another, nor to themselves."""
    tiles = np.array([(a, b, c) for a in range(3) for b in range(3) for c in range(3)])
    cells = np.zeros((27, 4, 4), np.uint8)
    cells[:, 1, 1], cells[:, 1, 2], cells[:, 3, 1] = (tiles + np.array([4, 7, 10])).T
    log = log_of(rules.words(cells), np.array([UP, LEFT, DOWN])[tiles[:, 0]])
    learner = PolicyLearner(seeded(), log, FittingSettings(batch=54, rate=0.02, **settings), seed=1)
    learner.learn(54)
    assert learner.metrics()["loss"] > 1.2
    learner.learn(54 * 120)
    learner.metrics()
    learner.learn(54)
    assert learner.metrics()["loss"] < 0.2
    actions = PolicyNetAgent(learner.network).act(log["board"])
    assert (actions == log["action"]).mean() > 0.95


def test_networks_are_in_training_mode_only_while_they_learn() -> None:
    modes: list[bool] = []
    net = Table().eval()
    net.register_forward_hook(lambda module, _, __: modes.append(module.training))
    PolicyLearner(net, log_of(numbered_boards(4), UP), FittingSettings(batch=4)).learn(8)
    assert modes == [True, True]
    assert not net.training


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "settings",
    [{}, {"average": 0.9}, {"average": 0.5, "decay": 100, "clip": 0.1, "symmetric": False}],
    ids=str,
)
def test_learning_from_a_checkpoint_equals_uninterrupted_learning(
    path: Path, settings: dict[str, Any]
) -> None:
    """Also past the end of the log, and with any initial weights."""
    log, own = log_of(numbered_boards(50), np.arange(50) % 4), FittingSettings(batch=16, **settings)
    whole, first = PolicyLearner(seeded(), log, own, 3), PolicyLearner(seeded(), log, own, 3)
    whole.learn(96)
    first.learn(32)
    first.save(path)
    second = PolicyLearner(PolicyCNN(2), log, own, 3)
    second.resume(path)
    assert_same(first, second)
    assert second.seconds == pytest.approx(first.seconds, abs=0.06)
    second.learn(64)
    assert_same(whole, second)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("place", ["optimizer", "fitter"])
@pytest.mark.parametrize("average", [0.0, 0.9])
def test_an_interrupted_step_is_completed(
    place: str, average: float, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    """The signal arrives in the middle of a step, or before its moves are counted."""
    log, settings = (
        log_of(numbered_boards(50), np.arange(50) % 4),
        FittingSettings(batch=16, average=average),
    )
    whole, learner, resumed = (PolicyLearner(seeded(), log, settings, 3) for _ in range(3))
    owner: Any = learner.fitter.optimizer if place == "optimizer" else learner.fitter
    step = owner.step

    def signalled(*arguments: Any) -> Any:
        result = step(*arguments)
        signal.raise_signal(signal.SIGTERM)
        return result

    with monkeypatch.context() as patched:
        patched.setattr(owner, "step", signalled)
        with pytest.raises(SystemExit):
            train(learner, 10_000, save_to=path)
    assert learner.n_moves == 16
    resumed.resume(path)
    whole.learn(16)
    assert_same(resumed, whole)
    for each in (resumed, whole):
        each.learn(32)
    assert_same(resumed, whole)


@pytest.mark.usefixtures("small")
def test_the_network_that_plays_is_saved_next_to_the_learner(path: Path) -> None:
    settings = FittingSettings(batch=16, average=0.9, rate=0.02, decay=1e3)
    learner = PolicyLearner(seeded(), log_of(numbered_boards(50), UP), settings)
    learner.learn(64)
    learner.save(path)
    file, boards = path.with_name("net.safetensors"), numbered_boards(50)
    probabilities = PolicyNetAgent(load(file)).probabilities(boards)
    np.testing.assert_array_equal(
        probabilities, PolicyNetAgent(learner.network).probabilities(boards)
    )
    assert (probabilities != PolicyNetAgent(learner.fitter.network).probabilities(boards)).any()
    metadata = nets.metadata(file)
    assert metadata.pop("seconds") == round(learner.seconds, 1)
    assert metadata == {
        **{"network": "PolicyCNN", "settings": {"layers": 2}, "n_moves": 64, "seed": 0},
        **{"log": [50, zlib.crc32(2 * learner.log.tobytes())], "learner": asdict(settings)},
    }
    assert set(path.parent.iterdir()) == {path, file}


@pytest.mark.usefixtures("small")
def test_learners_in_a_folder_keep_their_networks(tmp_path: Path) -> None:
    log, boards = log_of(numbered_boards(50), UP), numbered_boards(50)
    learners = [PolicyLearner(seeded(n), log, FittingSettings(batch=16)) for n in (1, 2)]
    for name, learner in zip(("net", "other"), learners, strict=True):
        train(learner, n_moves=16, save_to=tmp_path / f"{name}.safetensors")
    for name, learner in zip(("net", "other"), learners, strict=True):
        PolicyLearner(seeded(), log).resume(tmp_path / f"{name}.safetensors")
        saved = PolicyNetAgent(tmp_path / f"{name}-net.safetensors").probabilities(boards)
        np.testing.assert_array_equal(saved, PolicyNetAgent(learner.network).probabilities(boards))
    with pytest.raises(ValueError, match=r"checkpoint: load the other-net\.safetensors next to it"):
        load(tmp_path / "other.safetensors")


def test_a_file_of_another_kind_is_refused_before_training(tmp_path: Path) -> None:
    learner = PolicyLearner(Table(), log_of(numbered_boards(4), UP))
    with pytest.raises(ValueError, match=r"save_to must end in \.safetensors for this learner"):
        train(learner, n_moves=10, save_to=tmp_path / "net.npz")
    assert learner.n_moves == 0


@pytest.mark.parametrize("wrong", [0, -5, 1.5, math.nan, "3", None])
def test_numbers_of_moves_are_checked(wrong: Any) -> None:
    learner = PolicyLearner(Table(), log_of(numbered_boards(4), UP))
    with pytest.raises(ValueError, match="n_moves must be a whole number >= 1"):
        learner.learn(wrong)


@pytest.mark.parametrize("wrong", [1.5, True, -1, "2"])
def test_seeds_are_checked(wrong: Any) -> None:
    with pytest.raises(ValueError, match="seed must be None or an integer >= 0"):
        PolicyLearner(Table(), log_of(numbered_boards(4), UP), seed=wrong)


def test_other_files_and_files_of_other_learners_are_refused(path: Path) -> None:
    log = log_of(numbered_boards(4), UP)
    PolicyLearner(Table(), log, FittingSettings(batch=4)).save(path)
    with pytest.raises(ValueError, match="another log"):
        PolicyLearner(Table(), log_of(numbered_boards(5), UP)).resume(path)
    whole, net = path.read_bytes(), path.with_name("net.safetensors").read_bytes()
    Fitter(Table(), cross_entropy).save(path, {})
    for data in (path.read_bytes(), b"", b"no learner", whole[:-1], net):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"learner\.safetensors"):
            PolicyLearner(Table(), log).resume(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        PolicyLearner(Table(), log).resume(path)


LEARNER: dict[str, Any] = {"batch": 16, "average": 0.9}


@pytest.fixture
def command(tmp_path: Path, small: None) -> TrainingCommand:
    """The command, with a log in its folder."""
    log = tmp_path / "moves.npy"
    np.save(log, reward_log(2, 1))
    settings = {"network": {"layers": 2}, "log": str(log), "learner": LEARNER, "seed": 1}
    often = ("--evaluate-every", "100", "--evaluate", "1:2")
    return TrainingCommand("policy", tmp_path, settings, *often)


def load_run(command: TrainingCommand, place: Path) -> PolicyLearner:
    """Return the learner of a run."""
    learner = from_dict(command.settings, PolicyRun).new()
    learner.resume(place / "learner.safetensors")
    return learner


@pytest.mark.slow
def test_a_run_writes_its_learner_network_rows_and_settings(command: TrainingCommand) -> None:
    place = command("--moves", "300")
    names = {"learner.safetensors", "lock", "net.safetensors", "rows.jsonl", "settings.json"}
    assert set(contents(place)) == names
    assert read(place / "settings.json", PolicyRun) == from_dict(command.settings, PolicyRun)
    rows, expected = read_rows(place), from_dict(command.settings, PolicyRun).new()
    assert [row["n_moves"] for row in rows] == [112, 208, 304]  # in steps of 16
    for row in rows:
        expected.learn(row["n_moves"] - expected.n_moves)
        values = {**expected.metrics(), **greedy_scores(expected.network, 2)}
        assert {name: row[name] for name in values} == values
        assert (row["n_games"], row["mean_score"], row["rate_2048"]) == (0, None, None)
        assert row["seconds"] > 0
    assert_same(expected, load_run(command, place))
    boards = numbered_boards(20)
    probabilities = PolicyNetAgent(place / "net.safetensors").probabilities(boards)
    np.testing.assert_array_equal(
        probabilities, PolicyNetAgent(expected.network).probabilities(boards)
    )


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one(command: TrainingCommand) -> None:
    straight = command("--moves", "300", out="straight")
    command("--moves", "130")
    place = command("--moves", "300", "--resume")
    assert_same(*(load_run(command, each) for each in (straight, place)))
    games, straight_games = (
        {row["n_moves"]: row["1-ply"] for row in read_rows(each)} for each in (place, straight)
    )
    assert list(games) == [112, 144, 208, 304]
    assert straight_games == {n: games[n] for n in games if n != 144}


def test_a_run_may_be_resumed_with_another_rate(command: TrainingCommand) -> None:
    place = command("--moves", "100", "--evaluate", "none")
    first = load_run(command, place)
    slow = {**command.settings, "learner": {**LEARNER, "rate": 1e-12}}
    command("--moves", "200", "--evaluate", "none", "--resume", settings=slow)
    last = load_run(command, place)
    assert (first.n_moves, last.n_moves) == (112, 208)
    for name, weights in first.fitter.network.state_dict().items():
        np.testing.assert_allclose(last.fitter.network.state_dict()[name], weights, atol=1e-6)
    rows = read_rows(place)
    assert len(rows) == 2
    assert all("1-ply" not in row and row["loss"] > 0 for row in rows)


def test_an_evaluation_repeated_after_resume_has_no_loss(
    command: TrainingCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evaluation was interrupted; the moves learned before are not in its row."""
    with monkeypatch.context() as patched:
        patched.setattr(play_module, "evaluation", interrupt)
        command.error("--moves", "200")
    rows = read_rows(command("--moves", "200", "--resume"))
    assert [row["n_moves"] for row in rows] == [112, 208]
    assert (rows[0]["loss"], rows[0]["accuracy"]) == (None, None)
    assert rows[0]["1-ply"]["n_games"] == 2
    assert rows[1]["loss"] > 0


def test_the_description_of_the_log_is_in_the_metadata(command: TrainingCommand) -> None:
    """Also if it is written only later."""
    description = {"moves": 5, "players": [{"player": "reward", "games": 2, "mean_score": 2_000.5}]}
    place = command("--moves", "16", "--evaluate", "none")
    assert "log_about" not in nets.metadata(place / "net.safetensors")
    (command.folder / "moves.json").write_text(json.dumps(description))
    command("--moves", "32", "--evaluate", "none", "--resume")
    for name in ("net", "learner"):
        metadata = nets.metadata(place / f"{name}.safetensors")
        assert (metadata["log_about"], metadata["seed"]) == (description, 1)


def test_a_damaged_description_of_the_log_is_refused(command: TrainingCommand) -> None:
    (command.folder / "moves.json").write_text("{")
    assert "moves.json" in command.error("--moves", "100")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": {"layers": 6}}, "layers"),
        ({"network": {"channels": 9}}, "channels"),
        ({"network": "PolicyCNN"}, "network"),
        ({"learner": {"rate": 2}}, "rate"),
        ({"learner": {"batch": "many"}}, "batch"),
        ({"learner": {"momentum": 0.9}}, "momentum"),
        ({"learner": None}, "learner"),
        ({"log": None}, "log"),
        ({"log": 5}, "log"),
        ({"log": "missing.npy"}, "missing.npy"),
        ({"log": __file__}, "is not a play log"),
        ({"seed": -1}, "seed"),
        ({"rate": 1e-3}, "rate"),
    ],
)
def test_wrong_settings_are_named(
    command: TrainingCommand, settings: dict[str, Any], message: str
) -> None:
    assert message in command.error("--moves", "100", settings={**command.settings, **settings})
    assert not (command.folder / "run").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("evaluate", value) for value in ("3:5", "1:2,2:1", "2:1")),
        *(("device", value) for value in ("foo", "cuda:99")),
    ],
)
def test_wrong_options_are_named(command: TrainingCommand, option: str, value: str) -> None:
    assert option in command.error("--moves", "100", f"--{option}", value)
    assert not (command.folder / "run").exists()


def test_an_array_of_other_values_is_not_a_log(command: TrainingCommand) -> None:
    for array in (np.zeros(4), np.zeros((2, 2), MOVE), np.zeros(0, MOVE)):
        np.save(command.folder / "moves.npy", array)
        assert "moves.npy is not a play log" in command.error("--moves", "100")


def test_the_weights_depend_on_the_seed(command: TrainingCommand) -> None:
    seeds = (1, 1, 2)
    learners = [from_dict({**command.settings, "seed": seed}, PolicyRun).new() for seed in seeds]
    first = [next(each.network.parameters()).detach().numpy() for each in learners]
    assert (first[0] == first[1]).all()
    assert (first[0] != first[2]).any()
    with pytest.raises(ValueError, match="seed must be an integer, got None"):
        from_dict({**command.settings, "seed": None}, PolicyRun)


def test_the_settings_in_the_docstring_are_valid(command: TrainingCommand) -> None:
    lines = (policy_imitation.__doc__ or "").splitlines()
    settings = json.loads(next(line for line in lines if line.startswith("    {")))
    settings |= {"log": command.settings["log"], "network": {"layers": 2}}
    assert from_dict(settings, PolicyRun).new().settings == FittingSettings(decay=1e7)


@needs_cuda
def test_a_run_learns_and_plays_on_the_gpu(command: TrainingCommand) -> None:
    place = command("--moves", "300", "--device", "cuda")
    assert [row["n_moves"] for row in read_rows(place)] == [112, 208, 304]
    command("--moves", "400", "--device", "cuda", "--resume")
    assert read_rows(place)[-1]["n_moves"] == 400
