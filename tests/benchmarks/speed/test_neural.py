"""Tests of the speed measurements of neural networks: subjects, turns and printed figures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

import torch
from torch import Tensor, nn

from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.search.softmax_settings import MCSoftmaxSettings
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.value_net import ValueNetAgent
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.words import Words
from benchmarks.speed import neural as speed_neural
from benchmarks.speed.neural import Timed, measure, positions, subjects
from tests.support.devices import needs_cuda, on_devices

pytestmark = pytest.mark.usefixtures("one_thread")


class Tiny(nn.Module):
    """A value network that costs nearly nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(256, 1)

    def forward(self, planes: Tensor) -> Tensor:
        """Return the values `[n]` of planes `[n, 16, 4, 4]`."""
        values: Tensor = self.body(planes.flatten(1))
        return values[:, 0]


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make networks small and turns short."""
    monkeypatch.setattr(speed_neural, "CNN22", Tiny)
    monkeypatch.setattr(speed_neural, "SECONDS", 1e-3)
    monkeypatch.setattr(speed_neural, "SEARCH", MCSoftmaxSettings(simulations=2))
    for layers in (2, 5):
        monkeypatch.setitem(policy_net.CHANNELS, layers, 3)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the turns of two subjects that replace the others: a does 6, b does 9 at a time."""
    names: list[str] = []

    def timed(name: str, unit: str, n: int) -> Timed:
        def work() -> int:
            names.append(name)
            return n

        return Timed(name, unit, work)

    both = [timed("a", "boards/s", 6), timed("b", "moves/s", 9)]
    monkeypatch.setattr(speed_neural, "subjects", lambda device, bf16: both)
    return names


@on_devices
def test_positions_are_of_running_games(device: str) -> None:
    boards = positions(100, device)
    assert boards.shape == (100,) and boards.device.type == device
    assert torch_rules.legal(boards).any(1).all()
    assert len(boards.unique()) > 90
    # 40 moves add 40 tiles, each a 2 or a 4, to the two of the start; merging leaves the sum.
    sums = ((1 << torch_rules.exponents(boards)) * (torch_rules.exponents(boards) > 0)).sum((1, 2))
    assert (sums <= 42 * 4).all() and (sums >= 42 * 2).float().mean() > 0.95
    assert torch.equal(positions(100, device), boards)
    assert (torch_rules.exponents(positions(50, device, n_moves=0)) > 0).sum() == 2 * 50


NAMES = [
    ("CNN22 evaluates, 32 bits", "boards/s", 1_024),
    ("CNN22 evaluates, 16 bits", "boards/s", 1_024),
    ("CNN22 plays 1-ply, 256 boards, 16 bits", "moves/s", 256),
    ("CNN22 plays 2-ply, 8 boards, 16 bits", "moves/s", 8),
    ("CNN22 plays 3-ply, 1 boards, 16 bits", "moves/s", 1),
    ("CNN22, MC Softmax, 64 games, 16 bits", "sims/s", 128),
    ("CNN22, MC Softmax, 1 games, 16 bits", "sims/s", 2),
    ("CNN22, MC Softmax, 1 games, 4 leaves, 16 bits", "sims/s", 2),
    ("CNN22, MC Softmax, 1 games, 16 leaves, 16 bits", "sims/s", 2),
    ("CNN22 learns, 128 games, 16 bits", "moves/s", 128),
    ("policy, k = 2, evaluates, 16 bits", "boards/s", 1_024),
    ("policy, k = 2, learns, batch 512, 16 bits", "moves/s", 512),
    ("policy, k = 5, evaluates, 16 bits", "boards/s", 1_024),
    ("policy, k = 5, learns, batch 512, 16 bits", "moves/s", 512),
]


@pytest.mark.slow
def test_each_subject_returns_its_number_of_positions() -> None:
    timed = subjects("cpu", True)
    done = [subject.work() for subject in timed]
    assert [(*subject[:2], n) for subject, n in zip(timed, done, strict=True)] == NAMES


@pytest.mark.slow
def test_with_32_bits_no_subject_has_16() -> None:
    expected = [(name.replace("16 bits", "32 bits"), unit) for name, unit, _ in NAMES]
    assert [subject[:2] for subject in subjects("cpu", False)] == expected[1:]


@needs_cuda
def test_a_gpu_has_batches_64_times_as_large() -> None:
    done = {subject.name: subject.work() for subject in subjects("cuda", True)}
    assert done["CNN22 evaluates, 16 bits"] == 64 * 1_024
    assert done["CNN22 plays 1-ply, 16384 boards, 16 bits"] == 64 * 256
    assert done["CNN22 plays 3-ply, 1 boards, 16 bits"] == 1
    assert done["CNN22 learns, 8192 games, 16 bits"] == 64 * 128
    assert done["policy, k = 5, learns, batch 32768, 16 bits"] == 64 * 512


@on_devices
def test_the_policy_subject_learns(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = policy_net.PolicyCNN(2)
    before = [weights.clone() for weights in net.parameters()]
    monkeypatch.setattr(speed_neural, "PolicyCNN", lambda layers: net)
    learns = speed_neural.learning_policy(2, False, 8, device)
    assert learns.name == "policy, k = 2, learns, batch 8, 32 bits"
    assert [learns.work() for _ in range(6)] == [8] * 6  # more than once around its log
    for old, new in zip(before, net.parameters(), strict=True):
        assert new.device.type == device and not torch.equal(old, new.detach().cpu())


def test_evaluation_has_the_stated_bits() -> None:
    kinds: list[torch.dtype] = []

    def evaluate(boards: Tensor) -> Tensor:
        values: Tensor = nn.functional.linear(torch.rand(2, 3), torch.rand(1, 3))
        kinds.append(values.dtype)
        return values

    both = [speed_neural.evaluating("x", evaluate, torch.zeros(5), bf16) for bf16 in (False, True)]
    assert [subject.name for subject in both] == ["x evaluates, 32 bits", "x evaluates, 16 bits"]
    assert [subject.work() for subject in both] == [5, 5]
    assert kinds == [torch.float32, torch.bfloat16]


def test_the_share_of_the_network_in_searches_is_that_of_its_estimates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search estimates twice, in half a second, and takes a second more."""
    now = [0.0]

    def estimate(player: ValueNetAgent, boards: Words) -> npt.NDArray[np.float64]:
        now[0] += 0.25
        return np.zeros(len(boards))

    def act(player: MCSoftmaxAgent, boards: Words) -> npt.NDArray[np.int8]:
        now[0] += 1
        return play(player, boards)

    play = MCSoftmaxAgent.act
    monkeypatch.setattr(ValueNetAgent, "estimate", estimate)
    monkeypatch.setattr(MCSoftmaxAgent, "act", act)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    name, unit, shares = speed_neural.in_network("cpu", True, 3)
    assert (name, unit) == ("CNN22, MC Softmax, time in the network", "%")
    assert shares == pytest.approx(3 * [100 / 3])


def ticks() -> Iterator[float]:
    """Yield the time of a clock that advances one second at each call."""
    return (float(second) for second in count())


def test_speeds_are_of_turns_after_the_first(
    turns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn begins at 0, works at 1 and 2, and ends at 4 seconds; 2.5 are the least."""
    time = ticks()
    monkeypatch.setattr(speed_neural, "SECONDS", 2.5)
    monkeypatch.setattr(speed_neural, "clock", lambda device: next(time))
    first, second = measure("cpu", True, 3)
    assert turns == 4 * ["a", "a", "b", "b"]
    assert first == ("a", "boards/CPU s", [12 / 4] * 3)
    assert second == ("b", "moves/CPU s", [18 / 4] * 3)
    assert [figure.unit for figure in measure("cuda", True, 1)] == ["boards/s", "moves/s"]


def test_the_clock_of_a_cpu_is_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.process_time", lambda: 12.5)
    assert speed_neural.clock("cpu") == 12.5


def test_figures_are_printed_and_written(
    turns: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "speed.txt"
    speed_neural.main(["--rounds", "2", "--out", str(out)])
    printed = capsys.readouterr().out
    assert out.read_text(encoding="utf-8") == printed
    head, *rows = printed.splitlines()
    assert head.startswith("cpu ") and head.endswith(", on one thread") and ", numba " in head
    assert [row.split()[0] for row in rows] == ["a", "b", "CNN22,"]
    assert "boards/CPU s" in rows[0] and "moves/CPU s" in rows[1] and "% " in rows[2]
    assert all(row.endswith("n = 2)") for row in rows)


@needs_cuda
def test_a_gpu_is_timed_in_wall_time_and_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    speed_neural.main(["--device", "cuda", "--rounds", "1"])
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.endswith(f", on {torch.cuda.get_device_name()}")
    assert len(rows) == len(NAMES) + 1 and "% " in rows.pop()
    assert all("/s " in row and "CPU s" not in row for row in rows)
