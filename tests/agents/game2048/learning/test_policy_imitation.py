"""Policy networks learn from logs: batches, steps by hand, going on, and runs of the command."""

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

import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.config import from_dict, read
from afterstate.agents.game2048.learning import policy_imitation
from afterstate.agents.game2048.learning.play_logs import MOVE, Moves
from afterstate.agents.game2048.learning.policy_imitation import Learner, Run, evaluate
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.simple import RewardAgent
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.policy_net import PolicyCNN, PolicyNetAgent, load
from afterstate.agents.training.__main__ import main
from afterstate.agents.training.optimizer import Fitter, Fitting
from afterstate.agents.training.run import EVALUATION_SEED, summary, train
from afterstate.envs.game2048 import rules
from afterstate.envs.words import Words

pytestmark = pytest.mark.usefixtures("one_thread")

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
on_devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])

UP, RIGHT, DOWN, LEFT = range(4)


class Table(nn.Module):
    """A logit for each move and each plane of each cell, 0 at first; notes the boards it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {}
        self.weights = nn.Parameter(torch.zeros(256, 4))
        self.seen: list[int] = []

    def forward(self, planes: Tensor) -> Tensor:
        """The logits of the moves."""
        cells = planes.argmax(1).numpy().astype(np.uint8)
        self.seen += [int(word) for word in rules.words(cells)]
        return planes.flatten(1) @ self.weights


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks with few filters."""
    for layers, channels in ((2, 12), (3, 8)):
        monkeypatch.setitem(policy_net.CHANNELS, layers, channels)


def log_of(boards: Any, actions: Any) -> Moves:
    """A log of these moves."""
    log = np.empty(len(boards), MOVE)
    log["board"], log["action"] = boards, actions
    return log


def numbered(n: int) -> Words:
    """Different boards of two tiles, in opposite corners; up to 225 of them.

    Each can be moved in all four directions.
    """
    cells = np.zeros((n, 4, 4), np.uint8)
    cells[:, 0, 0], cells[:, 3, 3] = np.arange(n) % 15 + 1, np.arange(n) // 15 + 1
    return rules.words(cells)


def played(n_games: int, seed: int, most: int = 10**9) -> Moves:
    """The first moves of games of the player that takes the largest reward, shuffled."""
    parts: list[Moves] = []

    def watch(games: Any, boards: Words, actions: npt.NDArray[np.int64]) -> None:
        if len(parts) < most:
            parts.append(log_of(boards, actions))

    play(RewardAgent(seed), n_games, seed, watch=watch)
    return np.random.default_rng(seed).permutation(np.concatenate(parts))


def seeded(layers: int = 2) -> PolicyCNN:
    """A network whose weights are always the same."""
    torch.manual_seed(1)
    return PolicyCNN(layers)


def assert_same(one: Learner, other: Learner) -> None:
    """Both have learned the same, to the last bit, and stand at the same place."""
    assert one.n_moves == other.n_moves
    assert one.fitter.n_steps == other.fitter.n_steps
    for first, second in (
        (one.fitter.tensors(), other.fitter.tensors()),
        (one.net.state_dict(), other.net.state_dict()),
    ):
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)


# Batches


@pytest.mark.parametrize(("n", "batch"), [(10, 4), (3, 7), (5, 5), (1, 2)])
def test_moves_come_as_the_log_has_them_and_after_the_last_the_first(n: int, batch: int) -> None:
    net, boards = Table(), numbered(n)
    learner = Learner(net, log_of(boards, 0), Fitting(batch=batch, symmetric=False))
    for _ in range(6):
        learner.play(batch)
    assert net.seen == np.resize(boards, 6 * batch).tolist()
    assert learner.n_moves == 6 * batch


def test_steps_are_whole_and_as_many_as_are_needed() -> None:
    learner = Learner(Table(), log_of(numbered(20), 0), Fitting(batch=4))
    for n_moves, expected in ((0, 0), (1, 4), (4, 8), (9, 20), (1e1, 32)):
        games = learner.play(n_moves)
        assert learner.n_moves == expected
        assert [len(column) for column in games] == [0, 0, 0]
    assert learner.fitter.n_steps == 8
    assert learner.n_games == 0


def turned(cells: npt.NDArray[Any], action: int) -> list[tuple[int, int]]:
    """A board and a move in all eight positions.

    A quarter turn to the left makes left of up, a mirror exchanges left and right.
    """
    found = []
    for mirrored in (cells, cells[:, ::-1]):
        for quarters in range(4):
            moved = action if mirrored is cells else -action
            word = int(rules.words(np.rot90(mirrored, quarters).astype(np.uint8)))
            found.append((word, (moved - quarters) % 4))
    return found


def test_quarter_turns_and_mirrors_of_moves_by_hand() -> None:
    """What the test below relies on: a tile slides to the same place of the turned board."""
    cells = np.zeros((4, 4), np.uint8)
    cells[1, 2] = 1
    for action in range(4):
        afters = set()
        for word, move in turned(cells, action):
            after, _ = rules.move(np.uint64(word), move, rules.table())
            afters.add(int(rules.canonical(np.uint64(after), 4, 4, 8)))
        assert len(afters) == 1


@pytest.mark.parametrize("action", [UP, RIGHT, DOWN, LEFT])
def test_a_board_and_its_move_are_turned_together_to_one_of_eight_positions(
    monkeypatch: pytest.MonkeyPatch, action: int
) -> None:
    """Each of them about as often."""
    cells = np.array([[1, 2, 3, 0], [0, 4, 0, 0], [0, 0, 0, 5], [0, 6, 0, 0]], np.uint8)
    net, targets = Table(), list[int]()

    def cross_entropy(logits: Tensor, actions: Tensor) -> Tensor:
        targets.extend(actions.tolist())
        return logits.sum()

    monkeypatch.setattr(policy_imitation, "cross_entropy", cross_entropy)
    log = log_of([rules.words(cells)], action)
    Learner(net, log, Fitting(batch=400), seed=1).play(800)
    pairs = list(zip(net.seen, targets, strict=True))
    expected = turned(cells, action)
    assert len(pairs) == 800
    assert set(pairs) == set(expected)
    assert len(set(expected)) == 8
    assert min(pairs.count(pair) for pair in expected) > 60


def test_without_symmetry_moves_are_seen_as_they_are() -> None:
    net = Table()
    Learner(net, log_of(numbered(3), 1), Fitting(batch=100, symmetric=False)).play(100)
    assert set(net.seen) == set(numbered(3).tolist())


def test_the_seed_decides_how_boards_are_turned_and_breaks_do_not() -> None:
    orders = []
    for seed, parts in ((1, [40]), (1, [10, 20, 10]), (2, [40]), (None, [40]), (0, [40])):
        net = Table()
        learner = Learner(net, log_of(numbered(10), 0), Fitting(batch=10), seed)
        for n_moves in parts:
            learner.play(n_moves)
        orders.append(net.seen)
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[3] == orders[4] != orders[0]
    assert orders[0][:10] != orders[0][10:20]  # drawn each time


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("2 0 0 0 / 4 0 0 0 / 8 0 0 0 / 16 0 0 0", LEFT),
        ("2 4 2 4 / 4 2 4 2 / 2 4 2 4 / 4 2 4 2", UP),  # it is over
        ("0 0 0 0 / 0 0 0 0 / 0 0 0 0 / 0 0 0 0", UP),
        ("0 0 0 0 / 0 2 0 0 / 0 0 0 0 / 0 0 0 0", 4),
        ("0 0 0 0 / 0 2 0 0 / 0 0 0 0 / 0 0 0 0", 255),
    ],
)
def test_an_illegal_move_in_the_log_is_refused(text: str, action: int, symmetric: bool) -> None:
    log = log_of(numbered(9), 2)
    log[6] = rules.from_text(text), action
    net = Table()
    learner = Learner(net, log, Fitting(batch=3, symmetric=symmetric))
    learner.play(6)
    before = net.weights.tolist()
    with pytest.raises(ValueError, match="the log has an illegal move"):
        learner.play(3)
    assert learner.n_moves == 6
    assert net.weights.tolist() == before


# Steps


def softmax(logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Chances by hand, of each row."""
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(odds / odds.sum(1, keepdims=True))


def test_steps_losses_and_moves_foreseen_by_hand() -> None:
    """The gradient of the loss by logits is chances - 1 of the move, and by a weight 0 or that.

    Steps are those of Adam, at the rates of the cosine: 0.4 and, after a third, 0.3. What was
    foreseen is counted before the step.
    """
    boards, actions = numbered(6), np.array([0, 1, 2, 3, 1, 1])
    cells = rules.cells(boards).astype(np.int64)
    inputs = np.eye(16)[cells].transpose(0, 3, 1, 2).reshape(6, 256)
    how = Fitting(batch=3, rate=0.4, final_rate=1e-9, decay=9, symmetric=False)
    net = Table()
    learner = Learner(net, log_of(boards, actions), how)
    weights, first, second = (np.zeros((256, 4)) for _ in range(3))
    losses, hits = [], []
    for i, rate in enumerate((0.4, 0.3, 0.1, 1e-9), 1):
        at = np.arange(3 * (i - 1), 3 * i) % 6
        chances, wanted = softmax(inputs[at] @ weights), np.eye(4)[actions[at]]
        losses.append(-np.log((chances * wanted).sum(1)).mean())
        hits.append((chances.argmax(1) == actions[at]).mean())
        gradient = inputs[at].T @ (chances - wanted) / 3
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        mean, square = first / (1 - 0.9**i), second / (1 - 0.999**i)
        weights = weights - rate * mean / (np.sqrt(square) + 1e-8)
        learner.play(3)
        np.testing.assert_allclose(net.weights.detach().numpy(), weights, atol=1e-5)
    assert losses[0] == pytest.approx(math.log(4))
    assert hits[0] == pytest.approx(1 / 3)  # of equal logits that of up is taken
    expected = {"loss": float(np.mean(losses)), "foreseen": float(np.mean(hits))}
    assert learner.learned() == pytest.approx(expected, abs=6e-5)


def test_what_was_learned_is_told_once() -> None:
    learner = Learner(Table(), log_of(numbered(4), UP), Fitting(batch=4, symmetric=False))
    assert all(math.isnan(value) for value in learner.learned().values())
    learner.play(4)
    assert learner.learned() == {"loss": 1.3863, "foreseen": 1.0}
    learner.play(4)
    assert learner.learned()["loss"] < 1.3863
    assert all(math.isnan(value) for value in learner.learned().values())


def test_the_clip_bounds_a_step() -> None:
    """Adam divides by the length of gradients; only what is as small as its 1e-8 makes it slow."""
    log, nets_ = log_of(numbered(8), UP), [Table(), Table()]
    for net, clip in zip(nets_, (None, 1e-9), strict=True):
        Learner(net, log, Fitting(batch=8, clip=clip)).play(8)
    free, bound = (net.weights.abs().max().item() for net in nets_)
    assert free == pytest.approx(1e-3, rel=1e-3)
    assert 0 < bound < 1e-4


def test_the_mean_of_the_weights_plays() -> None:
    """After the first step it has moved by 9 / 10 of the way from 0."""
    net = Table()
    learner = Learner(net, log_of(numbered(8), UP), Fitting(batch=8, average=0.99))
    assert learner.fitter.net is net
    assert learner.net is not net
    learner.play(8)
    mean = learner.net.state_dict()["weights"]
    assert net.weights.abs().max() > 1e-4
    np.testing.assert_allclose(mean, 0.9 * net.weights.detach(), rtol=1e-5)
    assert Learner(net, log_of(numbered(8), UP)).net is net


@on_devices
def test_it_learns_the_moves_of_a_player(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device: str
) -> None:
    """That of the largest reward, which draws one of two moves at least where tiles merge.

    By chance the loss is ln 4 = 1.386, and a quarter is foreseen. Moves of other games are foreseen
    as well as those that it learned from.
    """
    monkeypatch.setitem(policy_net.CHANNELS, 2, 24)
    net, log = seeded().to(device), played(400, 1, 25)
    assert len(log) == 10_000
    learner = Learner(net, log, Fitting(batch=32, rate=0.02, decay=12_000), seed=1)
    learner.play(1_000)
    first = learner.learned()
    assert first["loss"] > 1.37
    assert first["foreseen"] < 0.29
    assert evaluate(learner.net, 1)["n_games"] == 1  # it goes on where it was
    learner.play(9_000)
    learner.learned()
    learner.play(2_000)
    last = learner.learned()
    assert last["loss"] < first["loss"] - 0.08
    assert last["foreseen"] > first["foreseen"] + 0.04
    unseen = played(40, 1_000, 25)
    found = PolicyNetAgent(learner.net, device=device).probabilities(unseen["board"])
    assert -np.log(found[np.arange(1_000), unseen["action"]]).mean() < 1.3
    assert (found.argmax(1) == unseen["action"]).mean() > 0.32
    assert next(net.parameters()).device.type == device


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "how", [{}, {"average": 0.9}, {"bf16": True}, {"clip": 0.5}, {"symmetric": False}], ids=str
)
def test_a_short_log_is_learned_by_heart(how: dict[str, Any]) -> None:
    """Of boards that are not symmetric to one another, nor to themselves."""
    tiles = np.array([(a, b, c) for a in range(3) for b in range(3) for c in range(3)])
    cells = np.zeros((27, 4, 4), np.uint8)
    cells[:, 1, 1], cells[:, 1, 2], cells[:, 3, 1] = (tiles + np.array([4, 7, 10])).T
    log = log_of(rules.words(cells), np.array([UP, LEFT, DOWN])[tiles[:, 0]])
    learner = Learner(seeded(), log, Fitting(batch=54, rate=0.02, **how), seed=1)
    learner.play(54)
    assert learner.learned()["loss"] > 1.2
    learner.play(54 * 120)
    learner.learned()
    learner.play(54)
    assert learner.learned()["loss"] < 0.2
    found = PolicyNetAgent(learner.net).act(log["board"])
    assert (found == log["action"]).mean() > 0.95


@pytest.mark.usefixtures("small")
def test_evaluations_are_games_of_their_own_seeds() -> None:
    net = seeded()
    expected = summary(play(PolicyNetAgent(net), 5, EVALUATION_SEED))
    assert evaluate(net, 5) == expected
    assert expected["n_games"] == 5


def test_networks_learn_in_training_mode_and_play_in_the_other() -> None:
    modes: list[bool] = []
    net = Table().eval()
    net.register_forward_hook(lambda module, _, __: modes.append(module.training))
    learner = Learner(net, log_of(numbered(4), UP), Fitting(batch=4))
    learner.play(8)
    assert modes == [True, True]
    assert not net.training


# Going on


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "how",
    [{}, {"average": 0.9}, {"average": 0.5, "decay": 100, "clip": 0.1, "symmetric": False}],
    ids=str,
)
def test_learning_goes_on_as_if_it_had_not_been_interrupted(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    """Also past the end of the log, and whatever weights the network begins with."""
    log, settings = log_of(numbered(50), np.arange(50) % 4), Fitting(batch=16, **how)
    whole, first = Learner(seeded(), log, settings, 3), Learner(seeded(), log, settings, 3)
    whole.play(96)
    first.play(32)
    first.save(tmp_path / "learner.safetensors")
    second = Learner(PolicyCNN(2), log, settings, 3)
    second.resume(tmp_path / "learner.safetensors")
    assert_same(first, second)
    second.play(64)
    assert_same(whole, second)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("at", ["optimizer", "step"])
@pytest.mark.parametrize("average", [0.0, 0.9])
def test_an_interrupted_step_is_made_to_its_end(
    at: str, average: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The signal comes in the middle of a step, or before its moves are counted."""
    log, how = log_of(numbered(50), np.arange(50) % 4), Fitting(batch=16, average=average)
    whole, learner, again = (Learner(seeded(), log, how, 3) for _ in range(3))
    place: Any = learner.fitter.optimizer if at == "optimizer" else learner.fitter
    step = place.step

    def signalled(*arguments: Any) -> Any:
        found = step(*arguments)
        signal.raise_signal(signal.SIGTERM)
        return found

    path = tmp_path / "learner.safetensors"
    with monkeypatch.context() as patched:
        patched.setattr(place, "step", signalled)
        with pytest.raises(SystemExit):
            train(learner, 10_000, save_to=path)
    assert learner.n_moves == 16
    again.resume(path)
    whole.play(16)
    assert_same(again, whole)
    for each in (again, whole):
        each.play(32)
    assert_same(again, whole)


@pytest.mark.usefixtures("small")
def test_the_network_that_plays_is_saved_beside_the_learner(tmp_path: Path) -> None:
    how = Fitting(batch=16, average=0.9, rate=0.02, decay=1e3)
    learner = Learner(seeded(), log_of(numbered(50), UP), how)
    learner.play(64)
    learner.save(tmp_path / "learner.safetensors")
    again, boards = load(tmp_path / "net.safetensors"), numbered(50)
    chances = PolicyNetAgent(again).probabilities(boards)
    np.testing.assert_array_equal(chances, PolicyNetAgent(learner.net).probabilities(boards))
    assert (chances != PolicyNetAgent(learner.fitter.net).probabilities(boards)).any()
    told = nets.metadata(tmp_path / "net.safetensors")
    assert told.pop("seconds") == round(learner.seconds, 1)
    assert told == {
        **{"network": "PolicyCNN", "settings": {"layers": 2}},
        **{
            "n_moves": 64,
            "seed": 0,
            "log": [50, zlib.crc32(2 * learner.log.tobytes())],
            "learner": asdict(how),
        },
    }
    assert {path.name for path in tmp_path.iterdir()} == {"learner.safetensors", "net.safetensors"}


def test_time_is_counted_on(tmp_path: Path) -> None:
    log = log_of(numbered(4), UP)
    learner = Learner(Table(), log, Fitting(batch=4))
    learner.play(4)
    assert learner.seconds > 0
    learner.seconds = 1_000_000.0  # as if it had learned for days
    learner.save(tmp_path / "learner.safetensors")
    again = Learner(Table(), log, Fitting(batch=4))
    again.resume(tmp_path / "learner.safetensors")
    again.play(4)
    assert 1_000_000 < again.seconds < 1_000_060


def test_what_is_no_learner_is_not_taken_up(tmp_path: Path) -> None:
    log, path = log_of(numbered(4), UP), tmp_path / "learner.safetensors"
    first = Learner(Table(), log, Fitting(batch=4))
    first.play(4)
    first.save(path)
    whole = path.read_bytes()
    foreign = [b"", b"no learner", whole[:-1], (tmp_path / "net.safetensors").read_bytes()]
    for data in foreign:
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"learner\.safetensors"):
            Learner(Table(), log).resume(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        Learner(Table(), log).resume(path)


def test_the_file_of_another_learner_is_refused(tmp_path: Path) -> None:
    Fitter(Table()).save(tmp_path / "learner.safetensors", {})
    with pytest.raises(ValueError, match=r"learner\.safetensors"):
        Learner(Table(), log_of(numbered(4), UP)).resume(tmp_path / "learner.safetensors")


# The command

tqdm = pytest.importorskip("tqdm")

LEARNER: dict[str, Any] = {"batch": 16, "average": 0.9}


@pytest.fixture
def folder(tmp_path: Path, small: None) -> Path:
    """Of runs, with a log; networks are small."""
    np.save(tmp_path / "moves.npy", played(2, 1))
    return tmp_path


def settings_of(folder: Path, **others: Any) -> dict[str, Any]:
    """Settings, some of them replaced."""
    log = str(folder / "moves.npy")
    return {"network": {"layers": 2}, "log": log, "learner": LEARNER, "seed": 1, **others}


def run(folder: Path, *arguments: str, out: str = "run", **others: Any) -> Path:
    """Runs the command line, and returns the folder of the run."""
    file = folder / "settings.json"
    file.write_text(json.dumps(settings_of(folder, **others)))
    often = ("--evaluate-every", "100", "--evaluate", "1:2")
    main(["policy", str(file), "--out", str(folder / out), *often, *arguments])
    return folder / out


def refusal(folder: Path, *arguments: str, **others: Any) -> str:
    """The one line with which a run ends before it begins."""
    with pytest.raises(SystemExit) as caught:
        run(folder, *arguments, **others)
    message = caught.value.code
    assert isinstance(message, str)
    assert "\n" not in message
    return message


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read_rows(place: Path) -> list[dict[str, Any]]:
    """The rows, each a line of JSON without numbers that JSON has not."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    lines = (place / "rows.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


def resumed(path: Path, settings: dict[str, Any]) -> Learner:
    """The learner of a file."""
    learner = from_dict(settings, Run).new()
    learner.resume(path)
    return learner


def taken_up(folder: Path, place: Path) -> Learner:
    """The learner of a run."""
    return resumed(place / "learner.safetensors", settings_of(folder))


def test_a_run_leaves_its_learner_its_network_its_rows_and_its_settings(folder: Path) -> None:
    place = run(folder, "--moves", "300")
    assert contents(place).keys() == {
        *("learner.safetensors", "lock", "net.safetensors", "rows.jsonl", "settings.json")
    }
    assert read(place / "settings.json", Run) == from_dict(settings_of(folder), Run)
    rows, lone = read_rows(place), from_dict(settings_of(folder), Run).new()
    assert [row["n_moves"] for row in rows] == [112, 208, 304]  # in steps of 16
    for row in rows:
        lone.play(row["n_moves"] - lone.n_moves)
        expected = {**lone.learned(), "1-ply": evaluate(lone.net, 2)}
        assert {name: row[name] for name in expected} == expected
        assert (row["n_games"], row["mean_score"], row["rate_2048"]) == (0, None, None)
        assert row["seconds"] > 0
    assert_same(lone, taken_up(folder, place))
    boards = numbered(20)
    found = PolicyNetAgent(place / "net.safetensors").probabilities(boards)
    np.testing.assert_array_equal(found, PolicyNetAgent(lone.net).probabilities(boards))


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_resumed_run_is_that_without_a_break(folder: Path, average: float) -> None:
    how = {**LEARNER, "average": average}
    straight = run(folder, "--moves", "300", out="straight", learner=how)
    broken = run(folder, "--moves", "130", out="broken", learner=how)
    run(folder, "--moves", "300", "--resume", out="broken", learner=how)
    settings = settings_of(folder, learner=how)
    assert_same(*(resumed(at / "learner.safetensors", settings) for at in (straight, broken)))
    games = [{row["n_moves"]: row["1-ply"] for row in read_rows(at)} for at in (straight, broken)]
    assert list(games[1]) == [112, 144, 208, 304]
    assert games[0] == {n: found for n, found in games[1].items() if n != 144}


def test_a_run_may_go_on_with_another_rate(folder: Path) -> None:
    place = run(folder, "--moves", "100")
    first = taken_up(folder, place)
    run(folder, "--moves", "200", "--resume", learner={**LEARNER, "rate": 1e-12})
    last = taken_up(folder, place)
    assert (first.n_moves, last.n_moves) == (112, 208)
    for name, weights in first.fitter.net.state_dict().items():
        np.testing.assert_allclose(last.fitter.net.state_dict()[name], weights, atol=1e-6)


def test_a_run_does_not_go_on_with_another_network(folder: Path) -> None:
    place = run(folder, "--moves", "100")
    before = contents(place)
    told = refusal(folder, "--moves", "200", "--resume", network={"layers": 3})
    assert told == (f"{place / 'learner.safetensors'} has another network than the settings")
    assert contents(place) == before


def test_a_run_is_neither_overwritten_nor_taken_up_where_there_is_none(folder: Path) -> None:
    assert "nothing to resume" in refusal(folder, "--moves", "200", "--resume")
    assert not (folder / "run").exists()
    before = contents(run(folder, "--moves", "100"))
    assert "--resume" in refusal(folder, "--moves", "200")
    assert contents(folder / "run") == before


def test_an_evaluation_after_a_break_has_no_loss_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was interrupted; what was learned before the break is not known any more."""

    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(policy_imitation, "evaluate", interrupted)
        told = refusal(folder, "--moves", "200")
    assert told == f"saved in {folder / 'run'}: continue with --resume"
    rows = read_rows(run(folder, "--moves", "200", "--resume"))
    assert [row["n_moves"] for row in rows] == [112, 208]
    assert (rows[0]["loss"], rows[0]["foreseen"]) == (None, None)
    assert rows[0]["1-ply"]["n_games"] == 2
    assert rows[1]["loss"] > 0


def test_the_network_says_what_is_told_of_its_log(folder: Path) -> None:
    told = {"moves": 5, "players": [{"player": "reward", "games": 2, "mean_score": 2_000.5}]}
    place = run(folder, "--moves", "16")
    assert "log_about" not in nets.metadata(place / "net.safetensors")
    (folder / "moves.json").write_text(json.dumps(told))
    for name in ("net", "learner"):  # also if it is told only later
        place = run(folder, "--moves", "32", "--resume")
        about = nets.metadata(place / f"{name}.safetensors")
        assert (about["log_about"], about["seed"]) == (told, 1)


def test_a_damaged_description_of_the_log_is_refused(folder: Path) -> None:
    (folder / "moves.json").write_text("{")
    assert "moves.json" in refusal(folder, "--moves", "100")


@pytest.mark.parametrize("plies", ["3:5", "1:2,2:1", "2:1"])
def test_a_policy_network_does_not_search(folder: Path, plies: str) -> None:
    told = refusal(folder, "--moves", "100", "--evaluate", plies)
    assert "evaluate" in told
    assert not (folder / "run").exists()
    before = contents(run(folder, "--moves", "100"))
    assert refusal(folder, "--moves", "200", "--resume", "--evaluate", plies) == told
    assert contents(folder / "run") == before


def test_a_run_needs_no_games(folder: Path) -> None:
    rows = read_rows(run(folder, "--moves", "200", "--evaluate", ""))
    assert len(rows) == 2
    assert all("1-ply" not in row and row["loss"] > 0 for row in rows)


@pytest.mark.parametrize(
    ("others", "told"),
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
    ids=lambda told: told if isinstance(told, str) else "",
)
def test_wrong_settings_say_what_is_wrong(folder: Path, others: dict[str, Any], told: str) -> None:
    assert told in refusal(folder, "--moves", "100", **others)
    assert not (folder / "run").exists()


def test_an_array_of_something_else_is_no_log(folder: Path) -> None:
    for array in (np.zeros(4), np.zeros((2, 2), MOVE), np.zeros(0, MOVE)):
        np.save(folder / "moves.npy", array)
        assert "moves.npy is not a play log" in refusal(folder, "--moves", "100")


@pytest.mark.parametrize("device", ["foo", "cuda:99"])
def test_a_device_that_there_is_not_is_refused(folder: Path, device: str) -> None:
    told = f"torch has no device '{device}' here"
    with pytest.raises(SystemExit, match=told):
        run(folder, "--moves", "100", "--device", device)
    assert not (folder / "run").exists()


def test_the_seed_decides_the_weights(folder: Path) -> None:
    weights = [
        from_dict(settings_of(folder, seed=seed), Run).new().net for seed in (1, 1, 2, 0, None)
    ]
    first = [next(net.parameters()).detach().numpy() for net in weights]
    assert (first[0] == first[1]).all()
    assert (first[0] != first[2]).any()
    assert (first[3] == first[4]).all()


def test_the_settings_in_the_description_are_some(folder: Path) -> None:
    """And what they leave out is there by default."""
    line = next(
        line for line in (policy_imitation.__doc__ or "").splitlines() if line.startswith("    {")
    )
    told = {**json.loads(line), "log": str(folder / "moves.npy")}
    learner = from_dict({**told, "network": {"layers": 2}}, Run).new()
    assert learner.settings == Fitting(decay=1e7)


@needs_cuda
def test_a_run_learns_and_plays_on_the_gpu(folder: Path) -> None:
    place = run(folder, "--moves", "300", "--device", "cuda")
    assert [row["n_moves"] for row in read_rows(place)] == [112, 208, 304]
    run(folder, "--moves", "400", "--device", "cuda", "--resume")
    assert read_rows(place)[-1]["n_moves"] == 400
