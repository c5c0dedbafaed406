"""Checkpoints of value learners, interrupts in the middle of a move, and runs of the command."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("tqdm")
pytest.importorskip("torch")

import safetensors.torch
import torch

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.config import from_dict, read
from afterstate.agents.game2048.learning import value_td
from afterstate.agents.game2048.learning.run_settings import ValueRun, ValueSettings
from afterstate.agents.game2048.learning.value_td import ValueLearner
from afterstate.agents.game2048.play import Games
from afterstate.agents.game2048.values import value_net
from afterstate.agents.game2048.values.value_net import CNN22, ValueNetAgent
from afterstate.agents.training.evaluation import EVALUATION_SEED
from afterstate.agents.training.run import train
from tests.support.devices import needs_cuda, on_devices
from tests.support.game2048.value_learners import SCALE, Tiny, late_log, state, tiny
from tests.support.training_runs import TrainingCommand, contents, read_rows

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files and settings have the network of these tests."""
    monkeypatch.setitem(value_net.NETWORKS, "Tiny", Tiny)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a learner."""
    return tmp_path / "learner.safetensors"


def new(net_seed: int = 1, device: str = "cpu", seed: int = 7, **settings: Any) -> ValueLearner:
    """Return a learner with a tiny network and a log."""
    own = ValueSettings(**{"games": 5, "value_scale": SCALE, "batch": 5, **settings})
    return ValueLearner(tiny(net_seed).to(device), own, seed, late_log())


def saved(path: Path, **settings: Any) -> Path:
    """Save a learner after 10 moves of each game, and return the file."""
    learner = new(**settings)
    learner.learn(10 * learner.settings.games)
    learner.save(path)
    return path


@pytest.mark.parametrize(
    "settings",
    [{}, {"restart": 5, "average": 0.9, "jump": 0.5}, {"restart": 5}, {"segment": 43}],
    ids=str,
)
@on_devices
def test_learning_from_a_checkpoint_equals_uninterrupted_learning(
    settings: dict[str, Any], device: str, path: Path
) -> None:
    learner = new(device=device, **settings)
    learner.learn(300)
    learner.save(path)
    resumed = new(2, device, 8, **settings)
    resumed.resume(path)
    assert state(resumed) == state(learner)
    assert resumed.seconds == pytest.approx(learner.seconds, abs=0.06)
    games, resumed_games = learner.learn(400), resumed.learn(400)
    for column, resumed_column in zip(games, resumed_games, strict=True):
        assert column.tolist() == resumed_column.tolist()
    assert len(games.scores) > 0
    assert state(resumed) == state(learner)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["optimizer", "step", "spawn"])
@pytest.mark.parametrize(("average", "segment"), [(0.0, 1), (0.9, 8)])
def test_an_interrupted_move_is_completed(
    place: str, average: float, segment: int, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    """The signal arrives in the middle of a step, between two steps, or after the last one."""
    settings: dict[str, Any] = {"restart": 5, "average": average, "segment": segment, "batch": 2}
    whole, learner, resumed = (new(**settings) for _ in range(3))
    fitter, n_calls = learner.fitter, 0
    owner = {"optimizer": fitter.optimizer, "step": fitter, "spawn": value_td}[place]
    name = "spawn" if place == "spawn" else "step"
    function = getattr(owner, name)

    def signalled(*arguments: Any) -> Any:
        nonlocal n_calls
        result = function(*arguments)
        n_calls += 1
        if n_calls == 60:
            signal.raise_signal(signal.SIGTERM)
        return result

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, signalled)
        with pytest.raises(SystemExit):
            train(learner, 10_000, save_to=path)
    assert n_calls >= 60 and not learner.fitter.network.training
    assert not learner.ended().scores.size  # those that ended before the signal were taken
    resumed.resume(path)
    whole.learn(resumed.n_moves)
    assert state(resumed) == state(whole)
    for each in (resumed, whole):
        each.learn(100)
    assert state(resumed) == state(whole)


def rewrite(path: Path, device: str | None = None, **tensors: Any) -> None:
    """Replace tensors of a checkpoint, or remove those that are None, and its device."""
    own = safetensors.torch.load_file(path)
    with safetensors.safe_open(str(path), "pt") as file:
        metadata = json.loads(file.metadata()["afterstate"])
    metadata["device"] = device or metadata["device"]
    for name, tensor in tensors.items():
        own[f"others/{name}"] = tensor
        if tensor is None:
            del own[f"others/{name}"]
    safetensors.torch.save_file(own, path, {"afterstate": json.dumps(metadata)})


GPUS = [("cpu", "cuda"), ("cuda", "cpu")]
OTHERS = [("gpu", "cpu"), *(pytest.param(*p, marks=needs_cuda) for p in GPUS)]


@pytest.mark.parametrize(("before", "after"), OTHERS)
def test_a_learner_can_be_resumed_on_another_device(before: str, after: str, path: Path) -> None:
    """Its random numbers then depend on the seed and the moves made, and are repeatable.

    The generator of a GPU has a state of 16 bytes, which that of a CPU refuses.
    """
    settings: dict[str, Any] = {"restart": 5, "average": 0.9, "jump": 0.5}
    learner = new(device=before.replace("gpu", "cpu"), **settings)
    learner.learn(400)
    learner.save(path)
    if before == "gpu":
        rewrite(path, before, chance=torch.zeros(16, dtype=torch.uint8))
    results, learned = [], state(learner)
    for seed in (8, 8, 9):
        resumed = new(2, after, seed, **settings)
        resumed.resume(path)
        restored = state(resumed)
        assert restored.pop("chance") != learned.get("chance")
        assert restored == {name: value for name, value in learned.items() if name != "chance"}
        games = resumed.learn(400)
        assert {t.device.type for t in (*resumed.network.parameters(), *resumed._games)} == {after}
        results.append((state(resumed), games.scores.tolist()))
    assert results[0] == results[1]
    assert results[0][1] and results[0][0]["boards"] != results[2][0]["boards"]


def test_the_network_that_plays_is_saved_next_to_the_learner(path: Path) -> None:
    learner = new(average=0.9, rate=1e-2)
    learner.learn(400)
    learner.save(path)
    agent = ValueNetAgent(path.with_name("net.safetensors"))
    assert agent.value_scale == SCALE
    for name, values in learner.network.state_dict().items():
        assert torch.equal(agent.network.state_dict()[name], values)
    metadata = nets.metadata(path.with_name("net.safetensors"))
    assert (metadata["n_moves"], metadata["n_games"]) == (learner.n_moves, learner.n_games)
    assert ValueSettings(**metadata["learner"]) == learner.settings
    assert metadata["seed"] == 7
    assert "others/history" not in safetensors.torch.load_file(path)  # there is no restart


def test_the_checkpoint_of_another_learner_is_refused(path: Path) -> None:
    saved(path)
    with pytest.raises(ValueError, match="5 games"):
        new(games=6).resume(path)
    with pytest.raises(ValueError, match="value_scale"):
        new(value_scale=3.0).resume(path)
    for net in (CNN22(), Tiny(9)):
        with pytest.raises(ValueError, match="must hold the network"):
            ValueLearner(net, ValueSettings(games=5, value_scale=SCALE)).resume(path)
    with pytest.raises(ValueError, match=r"net\.safetensors"):
        new().resume(path.with_name("net.safetensors"))


@pytest.mark.parametrize("name", ["chance", "boards", "lengths", "segment/best"])
def test_a_checkpoint_that_lacks_a_tensor_is_refused(name: str, path: Path) -> None:
    rewrite(saved(path, restart=5, segment=1_000), **{name: None})
    with pytest.raises(ValueError, match=f"learner.safetensors .*{name}"):
        new(restart=5).resume(path)


def test_a_segment_of_another_number_of_games_is_refused(path: Path) -> None:
    saved(path, segment=1_000)
    best: Any = safetensors.torch.load_file(path)["others/segment/best"]
    rewrite(path, **{"segment/best": best[:, 1:].contiguous()})
    with pytest.raises(ValueError, match="segment"):
        new().resume(path)


def test_a_shorter_segment_learns_from_all_moves_before_resume(path: Path) -> None:
    learner = new(games=4, segment=5, batch=44)
    learner.resume(saved(path, games=4, segment=20))  # 10 moves are made
    learner.learn(1)
    assert learner.fitter.n_steps == 1  # from 11 moves of 4 games


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(None, 5), (5, None)])
def test_restart_may_be_turned_on_and_off(
    before: int | None, after: int | None, path: Path
) -> None:
    """Games whose beginnings are unknown restart from the boards that are known."""
    learner = new(games=8, restart=after, batch=64)
    learner.resume(saved(path, games=8, restart=before))
    games = learner.learn(3_000)
    assert len(games.scores) >= 1
    assert (games.n_moves > 10).all()


@pytest.mark.slow
def test_restart_may_be_turned_on_in_games_of_thousands_of_moves(path: Path) -> None:
    """They restart at boards that are known: none of them is empty."""
    lengths = [3_010, 1_100, 8, 1_023]
    before, learner, resumed = new(games=4), *(new(games=4, restart=5) for _ in range(2))
    before.learn(40)
    before._games = before._games._replace(lengths=torch.tensor(lengths))
    before.save(path)
    learner.learn(40)
    learner.resume(path)
    begins = list[int]()
    for _ in range(400):
        learner.learn(1)
        assert learner._games.boards.all()
        begins += learner._games.begins.tolist()
    assert set(lengths) < set(begins)
    learner.save(path)
    resumed.resume(path)
    assert state(resumed) == state(learner)


RUN: dict[str, Any] = {
    "network": {"name": "Tiny"},
    "learner": {"games": 8, "unit": SCALE, "restart": 10, "average": 0.5},
    "seed": 1,
}


@pytest.fixture
def command(tmp_path: Path) -> TrainingCommand:
    fast = ("--evaluate-every", "500", "--evaluate", "none")
    return TrainingCommand("value", tmp_path, RUN, *fast)


def resumed_run(place: Path) -> ValueLearner:
    """Return the learner of a run."""
    learner = from_dict(RUN, ValueRun).new()
    learner.resume(place / "learner.safetensors")
    return learner


@pytest.mark.slow
def test_a_run_writes_its_learner_network_and_rows(command: TrainingCommand) -> None:
    place = command("--moves", "1100")
    assert agents.load(place / "net.safetensors")
    with pytest.raises(ValueError, match=r"checkpoint: load the net\.safetensors next to it"):
        agents.load(place / "learner.safetensors")
    names = {"learner.safetensors", "lock", "net.safetensors", "rows.jsonl", "settings.json"}
    assert set(contents(place)) == names | {"recent.json"}
    assert read(place / "settings.json", ValueRun) == from_dict(RUN, ValueRun)
    expected, rows = from_dict(RUN, ValueRun).new(), read_rows(place)
    assert [row["n_moves"] // 500 for row in rows] == [1, 2, 2]
    for row in rows:
        while expected.n_moves < row["n_moves"]:
            expected.learn(1)
        assert row["loss"] == pytest.approx(expected.loss(), abs=1e-3)
        assert row["n_games"] == expected.n_games
        assert row["seconds"] > 0
    assert state(resumed_run(place)) == state(expected)


def test_rows_have_the_evaluation_at_each_depth(
    command: TrainingCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    def play(player: ValueNetAgent, n_games: int, seed: int) -> Games:
        calls.append((player.depth, player.value_scale, n_games, seed))
        return Games(*(np.full(n_games, 4 * player.depth) for _ in Games._fields))

    monkeypatch.setattr("afterstate.agents.game2048.play.play", play)
    (row,) = read_rows(command("--moves", "16", "--evaluate", "1:3,2:1"))
    assert calls == [(1, SCALE, 3, EVALUATION_SEED), (2, SCALE, 1, EVALUATION_SEED)]
    for depth, n_games in ((1, 3), (2, 1)):
        result = row[f"{depth}-ply"]
        assert (result["n_games"], result["mean"]) == (n_games, 4.0 * depth)


def test_a_resumed_run_equals_an_uninterrupted_one(command: TrainingCommand) -> None:
    straight = command("--moves", "800", "--evaluate", "1:2", out="straight")
    command("--moves", "500")
    place = command("--moves", "800", "--evaluate", "1:2", "--resume")
    assert state(resumed_run(place)) == state(resumed_run(straight))
    assert read_rows(place)[-1]["1-ply"] == read_rows(straight)[-1]["1-ply"]


def test_a_run_learns_with_a_log(command: TrainingCommand) -> None:
    log = command.folder / "moves.npy"
    np.save(log, late_log())
    settings = {**RUN, "log": str(log), "learner": {"games": 8, "jump": 1.0}}
    place = command("--moves", "700", settings=settings)
    assert nets.metadata(place / "learner.safetensors")["n_games"] == 0  # none is from the start


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({"network": {"name": "CNN23"}}, "", "CNN23"),
        ({"network": {"name": "Tiny", "depth": 3}}, "", "Tiny .*depth"),
        ({"network": {"networks": 1}}, "", "CNN22 .*networks"),
        ({"learner": {"momentum": 0.9}}, "", "momentum"),
        ({"learner": {"rate": 2}}, "", "rate"),
        ({"learner": {"jump": 0.5}}, "", "log"),
        ({"log": 5}, "", "log"),
        ({"log": "nowhere.npy"}, "", r"nowhere\.npy"),
        ({"seed": -1}, "", "seed"),
        ({"steps": 5}, "", "steps"),
        ({}, "--evaluate 1:5,4:1", "evaluate"),
        ({}, "--device abacus", "got 'abacus'"),
    ],
)
def test_wrong_settings_and_options_are_refused(
    settings: dict[str, Any], options: str, message: str, command: TrainingCommand
) -> None:
    error = command.error("--moves", "100", *options.split(), settings={**RUN, **settings})
    assert re.search(message, error)
    assert not (command.folder / "run").exists()


@needs_cuda
def test_a_run_learns_on_the_gpu_and_can_be_resumed_there_and_elsewhere(
    command: TrainingCommand,
) -> None:
    command("--moves", "300", "--device", "cuda")
    for n_moves, device in (("400", "cuda"), ("500", "cpu"), ("600", "cuda")):
        options = ("--moves", n_moves, "--device", device, "--evaluate", "1:2", "--resume")
        place = command(*options)
        assert nets.metadata(place / "learner.safetensors")["device"] == device
        row = read_rows(place)[-1]
        assert row["n_moves"] >= int(n_moves)
        assert row["1-ply"]["mean"] > 0
