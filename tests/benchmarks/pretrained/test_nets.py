"""Tests of publishing pretrained networks, and of the counted steps of the torch rules."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")

import safetensors.torch
import torch
from torch import Tensor, nn

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values import policy_net, value_net
from afterstate.agents.training.evaluation import summary
from afterstate.envs.commands import exit_code
from afterstate.envs.game2048 import torch_rules
from benchmarks.pretrained import nets as pretrained_nets
from benchmarks.speed import game2048 as speed_2048

pytestmark = pytest.mark.usefixtures("one_thread")

LOG = {
    "moves": 100,
    "of_moves": 120,
    "players": [
        {"player": "expectimax,depth=2", "games": 3, "mean_score": 300.5},
        {"player": "ntuple,network=/secret/folder/mine.npz", "games": 2, "mean_score": 20.0},
        {"player": "../secret/k5.safetensors", "games": 2, "mean_score": None},
    ],
    "skip": 0,
    "share": 1.0,
    "beside": 32,
    "seed": 7,
}
"""Metadata of a play log."""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that replaces the package, with old files; policy networks are small."""
    folder = tmp_path / "package"
    folder.mkdir()
    for name in pretrained_nets.NAMES:
        for ending in ("safetensors", "json"):
            (folder / f"{name}.{ending}").write_text("before")
    monkeypatch.setattr(pretrained_nets, "PACKAGE", folder)
    for layers in policy_net.CHANNELS:
        monkeypatch.setitem(policy_net.CHANNELS, layers, 3)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def run_of(folder: Path, net: nn.Module, is_of_log: bool = True) -> Path:
    """Write the folder of a finished run and return its network."""
    log = folder / "logs" / "moves.npy"
    for each in (log.parent, folder / "run"):
        each.mkdir()
    log.with_suffix(".json").write_text(json.dumps(LOG))
    settings = {"network": {}, "learner": {}, "seed": 5, "log": str(log) if is_of_log else None}
    (folder / "run" / "settings.json").write_text(json.dumps(settings))
    file = folder / "run" / "net.safetensors"
    nets.save(net, file, n_moves=1_000, learner={"rate": 0.1}, log=[100, 12345])
    return file


def refusal(*arguments: Any) -> str:
    """Return the error of a command that publishes no network."""
    with pytest.raises((OSError, ValueError)) as caught:
        pretrained_nets.main([str(each) for each in arguments])
    return str(caught.value)


@pytest.mark.parametrize("layers", [2, 5])
def test_a_policy_network_is_published_with_its_training(
    tmp_path: Path, package: Path, layers: int
) -> None:
    """The metadata has the seed of the run and its play log, without folders."""
    torch.manual_seed(1)
    net, name = policy_net.PolicyCNN(layers), f"policy_{layers}"
    before = contents(package)
    pretrained_nets.main([str(run_of(tmp_path, net)), name, "--evaluate", "1:3"])
    file = package / f"{name}.safetensors"
    metadata = json.loads(file.with_suffix(".json").read_text())
    players = ["expectimax,depth=2", "ntuple,network=mine.npz", "k5.safetensors"]
    each = zip(LOG["players"], players, strict=True)  # type: ignore[call-overload]
    facts = {
        "network": "PolicyCNN",
        "settings": {"layers": layers},
        "n_moves": 1_000,
        "learner": {"rate": 0.1},
        "seed": 5,
        "log": {**LOG, "players": [{**one, "player": player} for one, player in each]},
    }
    assert nets.metadata(file) == facts
    result = summary(play(agents.make("policy-net", network=file), 3))
    expected = {**facts, "1-ply": result, "bits": 16, "machine": metadata["machine"]}
    assert metadata == expected
    assert all(t.dtype == torch.float16 for t in safetensors.torch.load_file(file).values())
    others = {name: data for name, data in contents(package).items() if file.stem not in name}
    assert others == {name: data for name, data in before.items() if file.stem not in name}


@pytest.mark.parametrize("output", ["identity", "relu"])
def test_a_value_network_has_no_log(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch, output: Any
) -> None:
    """It may search; the test checks which games are played, not their scores."""
    net, played = value_net.CNN22(output), []

    def fake_play(player: Any, n_games: int) -> Any:
        played.append((type(player), player.depth, player._symmetric, n_games))
        return play(agents.make("random", seed=1), n_games)

    monkeypatch.setattr(pretrained_nets, "play", fake_play)
    file = run_of(tmp_path, net, is_of_log=False)
    nets.save(net, file, unit=100.0)
    pretrained_nets.main([str(file), "value", "--evaluate", "1:4,3:2", "--symmetric", "5"])
    metadata = json.loads((package / "value.json").read_text())
    assert metadata["settings"] == {"output": output} and metadata["seed"] == 5
    assert metadata["1-ply"]["n_games"] == 4 and metadata["3-ply"]["n_games"] == 2
    assert metadata["1-ply, symmetric"]["n_games"] == 5 and "log" not in metadata
    agent = value_net.ValueNetAgent
    assert played == [(agent, 1, False, 4), (agent, 3, False, 2), (agent, 1, True, 5)]
    assert agents.load(package / "value.safetensors").value_scale == 100.0


@pytest.mark.parametrize(
    ("net", "name", "message"),
    [
        (lambda: policy_net.PolicyCNN(2), "policy_5", "policy_5.*'layers': 5.*'layers': 2"),
        (lambda: policy_net.PolicyCNN(3), "policy_2", "policy_2.*'layers': 2.*'layers': 3"),
        (lambda: policy_net.PolicyCNN(5), "value", "CNN22.*PolicyCNN"),
        (value_net.CNN22, "policy_2", "PolicyCNN.*CNN22"),
    ],
)
def test_a_network_that_does_not_fit_its_name_is_rejected(
    tmp_path: Path, package: Path, net: Any, name: str, message: str
) -> None:
    before, file = contents(package), run_of(tmp_path, net())
    assert re.search(message, refusal(file, name, "--evaluate", "1:1"))
    assert contents(package) == before


@pytest.mark.parametrize(
    ("file", "data"),
    [
        *(("run/net.safetensors", data) for data in (None, b"", b"2048" * 100)),
        *(("run/settings.json", data) for data in (None, b"{")),
        *(("logs/moves.json", data) for data in (None, b"no JSON")),
    ],
)
def test_a_missing_or_damaged_file_is_named(
    tmp_path: Path, package: Path, file: str, data: bytes | None
) -> None:
    before, net = contents(package), run_of(tmp_path, policy_net.PolicyCNN(2))
    (tmp_path / file).unlink()
    if data is not None:
        (tmp_path / file).write_bytes(data)
    assert str(tmp_path / file) in refusal(net, "policy_2", "--evaluate", "1:1")
    assert contents(package) == before


@pytest.mark.parametrize("plies", ["1", "1:", "0:5", "4:5", "1:0", "1:-3", "x:y", "1:2:3", "2:5"])
def test_wrong_plies_are_rejected(
    tmp_path: Path, package: Path, capsys: pytest.CaptureFixture[str], plies: str
) -> None:
    """A policy network plays 1-ply only."""
    before, net = contents(package), run_of(tmp_path, policy_net.PolicyCNN(2))
    with pytest.raises(SystemExit, match=r"^2$"):
        exit_code(pretrained_nets.main, [str(net), "policy_2", "--evaluate", plies])
    assert "evaluate must be" in capsys.readouterr().err
    assert contents(package) == before


def test_the_package_is_unchanged_until_games_are_played(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*rest: Any) -> Any:
        assert contents(package) == before
        raise KeyboardInterrupt

    before, net = contents(package), run_of(tmp_path, policy_net.PolicyCNN(2))
    monkeypatch.setattr(pretrained_nets, "play", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pretrained_nets.main([str(net), "policy_2", "--evaluate", "1:1"])
    assert contents(package) == before


def is_start(board: Tensor) -> bool:
    """Return True if a board has two tiles, each a 2 or a 4."""
    tiles = torch_rules.exponents(board)
    return int((tiles > 0).sum()) == 2 and int(tiles.max()) <= 2


def test_counted_steps_are_moves_of_running_games(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A board follows from a legal afterstate by one tile; after a game ends, by a new start."""
    seen: list[tuple[Tensor, Tensor]] = []

    def watched(boards: Tensor) -> tuple[Tensor, Tensor]:
        afters, rewards = afterstates(boards)
        seen.append((boards, afters))
        return afters, rewards

    afterstates = torch_rules.afterstates
    monkeypatch.setattr(torch_rules, "afterstates", watched)
    steps = speed_2048.start_torch_rules("cpu", 8)
    counted = [steps(n) for n in (1, 8, 8 * 400)]
    n_going = [int((afters != boards[:, None]).any(1).sum()) for boards, afters in seen]
    assert counted == [n_going[0], n_going[1], sum(n_going[2:])]
    starts: list[int] = []
    for (before, afters), (after, _) in pairwise(seen):
        for board, each, following in zip(before, afters, after, strict=True):
            added = torch_rules.exponents(following ^ each[each != board])
            if len(added):
                assert ((added > 0).sum((1, 2)) == 1).any()
            else:
                assert is_start(following)
                starts.append(int(following))
    assert len(starts) > 10 and len(set(starts)) > len(starts) / 2
