"""Runs of the command in which policy networks learn from a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

import torch

from afterstate.agents import nets
from afterstate.agents.config import from_dict, read
from afterstate.agents.game2048.learning import policy_imitation
from afterstate.agents.game2048.learning.play_logs import MOVE
from afterstate.agents.game2048.learning.policy_imitation import Learner, Run, evaluate
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.policy_net import PolicyNetAgent
from afterstate.agents.training.fitting import Fitting
from tests.support.policy_learners import assert_same, numbered_boards, reward_log
from tests.support.training_runs import TrainingCommand, contents, interrupt, read_rows

pytestmark = pytest.mark.usefixtures("one_thread")

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

LEARNER: dict[str, Any] = {"batch": 16, "average": 0.9}


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainingCommand:
    """The command, with networks of few filters and a log in its folder."""
    for layers, channels in ((2, 12), (3, 8)):
        monkeypatch.setitem(policy_net.CHANNELS, layers, channels)
    log = tmp_path / "moves.npy"
    np.save(log, reward_log(2, 1))
    settings = {"network": {"layers": 2}, "log": str(log), "learner": LEARNER, "seed": 1}
    often = ("--evaluate-every", "100", "--evaluate", "1:2")
    return TrainingCommand("policy", tmp_path, settings, *often)


def load(command: TrainingCommand, place: Path) -> Learner:
    """Return the learner of a run."""
    learner = from_dict(command.settings, Run).new()
    learner.resume(place / "learner.safetensors")
    return learner


def test_a_run_writes_its_learner_network_rows_and_settings(command: TrainingCommand) -> None:
    place = command("--moves", "300")
    names = {"learner.safetensors", "lock", "net.safetensors", "rows.jsonl", "settings.json"}
    assert set(contents(place)) == names
    assert read(place / "settings.json", Run) == from_dict(command.settings, Run)
    rows, expected = read_rows(place), from_dict(command.settings, Run).new()
    assert [row["n_moves"] for row in rows] == [112, 208, 304]  # in steps of 16
    for row in rows:
        expected.play(row["n_moves"] - expected.n_moves)
        values = {**expected.metrics(), "1-ply": evaluate(expected.net, 2)}
        assert {name: row[name] for name in values} == values
        assert (row["n_games"], row["mean_score"], row["rate_2048"]) == (0, None, None)
        assert row["seconds"] > 0
    assert_same(expected, load(command, place))
    boards = numbered_boards(20)
    probabilities = PolicyNetAgent(place / "net.safetensors").probabilities(boards)
    np.testing.assert_array_equal(probabilities, PolicyNetAgent(expected.net).probabilities(boards))


def test_a_resumed_run_equals_an_uninterrupted_one(command: TrainingCommand) -> None:
    straight = command("--moves", "300", out="straight")
    command("--moves", "130")
    place = command("--moves", "300", "--resume")
    assert_same(*(load(command, each) for each in (straight, place)))
    games, straight_games = (
        {row["n_moves"]: row["1-ply"] for row in read_rows(each)} for each in (place, straight)
    )
    assert list(games) == [112, 144, 208, 304]
    assert straight_games == {n: games[n] for n in games if n != 144}


def test_a_run_may_be_resumed_with_another_rate(command: TrainingCommand) -> None:
    place = command("--moves", "100", "--evaluate", "")
    first = load(command, place)
    slow = {**command.settings, "learner": {**LEARNER, "rate": 1e-12}}
    command("--moves", "200", "--evaluate", "", "--resume", settings=slow)
    last = load(command, place)
    assert (first.n_moves, last.n_moves) == (112, 208)
    for name, weights in first.fitter.net.state_dict().items():
        np.testing.assert_allclose(last.fitter.net.state_dict()[name], weights, atol=1e-6)
    rows = read_rows(place)
    assert len(rows) == 2
    assert all("1-ply" not in row and row["loss"] > 0 for row in rows)


def test_an_evaluation_repeated_after_resume_has_no_loss(
    command: TrainingCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evaluation was interrupted; the moves learned before are not in its row."""
    with monkeypatch.context() as patched:
        patched.setattr(policy_imitation, "evaluate", interrupt)
        command.error("--moves", "200")
    rows = read_rows(command("--moves", "200", "--resume"))
    assert [row["n_moves"] for row in rows] == [112, 208]
    assert (rows[0]["loss"], rows[0]["foreseen"]) == (None, None)
    assert rows[0]["1-ply"]["n_games"] == 2
    assert rows[1]["loss"] > 0


def test_the_description_of_the_log_is_in_the_metadata(command: TrainingCommand) -> None:
    """Also if it is written only later."""
    description = {"moves": 5, "players": [{"player": "reward", "games": 2, "mean_score": 2_000.5}]}
    place = command("--moves", "16", "--evaluate", "")
    assert "log_about" not in nets.metadata(place / "net.safetensors")
    (command.folder / "moves.json").write_text(json.dumps(description))
    command("--moves", "32", "--evaluate", "", "--resume")
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
    seeds = (1, 1, 2, 0, None)
    learners = [from_dict({**command.settings, "seed": seed}, Run).new() for seed in seeds]
    first = [next(each.net.parameters()).detach().numpy() for each in learners]
    assert (first[0] == first[1]).all()
    assert (first[0] != first[2]).any()
    assert (first[3] == first[4]).all()


def test_the_settings_in_the_docstring_are_valid(command: TrainingCommand) -> None:
    lines = (policy_imitation.__doc__ or "").splitlines()
    settings = json.loads(next(line for line in lines if line.startswith("    {")))
    settings |= {"log": command.settings["log"], "network": {"layers": 2}}
    assert from_dict(settings, Run).new().settings == Fitting(decay=1e7)


@needs_cuda
def test_a_run_learns_and_plays_on_the_gpu(command: TrainingCommand) -> None:
    place = command("--moves", "300", "--device", "cuda")
    assert [row["n_moves"] for row in read_rows(place)] == [112, 208, 304]
    command("--moves", "400", "--device", "cuda", "--resume")
    assert read_rows(place)[-1]["n_moves"] == 400
