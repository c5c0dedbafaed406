"""Fitting: rates, steps and means by hand, what is saved and taken up again, and wrong files."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")

import safetensors.torch
import torch
from torch import Tensor, nn

from afterstate.agents import files, nets
from afterstate.agents.training.commands import sigterm_raises, uninterrupted
from afterstate.agents.training.optimizer import Fitter, Fitting

pytestmark = pytest.mark.usefixtures("one_thread")

Floats = npt.NDArray[np.float64]


class Line(nn.Module):
    """One number for each row of the inputs: its product with the weights, plus a bias."""

    def __init__(self, n: int = 2, **others: Any) -> None:
        super().__init__()
        self.settings = {"n": n, **others}
        self.weights = nn.Parameter(torch.linspace(-1, 1, n))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        """The numbers."""
        return inputs @ self.weights[:, None] + self.bias


class Other(Line):
    """The same by another name."""


def numbers(net: nn.Module) -> Floats:
    """All weights of a network, one after another."""
    parts = [each.detach().double().flatten().numpy() for each in net.parameters()]
    return np.concatenate(parts)


def slope(*gradient: float) -> Callable[[Tensor], Tensor]:
    """A loss of which the weights' gradient is told, if the inputs are a unit matrix.

    That of the bias is the sum.
    """
    return lambda outputs: (outputs[:, 0] * torch.tensor(gradient)).sum()


def some_steps(fitter: Fitter, n: int) -> None:
    """Steps that differ, each by how many came before it."""
    for _ in range(n):
        rng = np.random.default_rng(fitter.n_steps)
        inputs = torch.from_numpy(rng.normal(size=(5, 2)).astype(np.float32))
        fitter.step(inputs, lambda outputs: ((outputs - 1) ** 2).mean(), 0.01)


# Settings


@pytest.mark.parametrize(
    ("n_moves", "rate"),
    [
        *((0, 0.9), (1_500, 0.5 + 0.4 * 0.5**0.5), (2_000, 0.7), (3_000, 0.5), (4_000, 0.3)),
        *((6_000, 0.1), (6_001, 0.1), (10**12, 0.1)),
    ],
)
def test_the_rate_goes_down_as_a_cosine_does_and_then_stays(n_moves: int, rate: float) -> None:
    """Half a turn in 6,000 moves: the cosine of a third of it is 0.5."""
    how = Fitting(rate=0.9, final_rate=0.1, decay=6_000)
    assert how.rate_after(n_moves) == pytest.approx(rate, rel=1e-12)


def test_without_a_decay_the_rate_stays() -> None:
    how = Fitting(rate=0.25, final_rate=0.125)
    assert {how.rate_after(n) for n in (0, 1, 10**12)} == {0.25}


@pytest.mark.parametrize(
    "settings",
    [
        {"batch": 0},
        {"batch": 1.5},
        {"batch": 1 << 63},
        {"batch": True},
        {"batch": None},
        {"rate": 0},
        {"rate": 1.0},
        {"rate": float("nan")},
        {"rate": "fast"},
        {"rate": False},
        {"final_rate": -1e-9},
        {"decay": 0},
        {"decay": float("inf")},
        {"decay": "1e7"},
        {"symmetric": 1},
        {"symmetric": "no"},
        {"average": 1},
        {"average": -0.1},
        {"bf16": None},
        {"clip": 0.0},
        {"clip": [1]},
    ],
)
def test_wrong_settings_are_refused_and_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Fitting(**settings)


def test_settings_at_the_ends_of_their_ranges_are_taken() -> None:
    how = Fitting(batch=1, rate=0.999, final_rate=1e-30, decay=1, average=0, clip=10**9)
    assert (how.batch, how.average, how.decay, how.clip) == (1, 0, 1, 10**9)


# Steps


def test_steps_of_adam_by_hand() -> None:
    """Kingma and Ba (2015): moments of 0.9 and 0.999, of which what they began with is undone."""
    net = Line(2)
    fitter, weights = Fitter(net), np.array([-1.0, 1.0, 0.0])
    first, second = np.zeros(3), np.zeros(3)
    steps = [(0.1, 2.0, -0.5), (0.1, -1.0, -0.5), (0.02, 0.0, 3.0)]
    for i, (rate, *gradient) in enumerate(steps, 1):
        fitter.step(torch.eye(2), slope(*gradient), rate)
        g = np.array([*gradient, sum(gradient)])
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        mean, square = first / (1 - 0.9**i), second / (1 - 0.999**i)
        weights = weights - rate * mean / (np.sqrt(square) + 1e-8)
        np.testing.assert_allclose(numbers(net), weights, atol=1e-6)
        assert fitter.n_steps == i


def test_steps_of_descent_with_momentum_by_hand() -> None:
    """Speeds 4, 0.5 * 4 + 4 = 6, 0.5 * 6 + 4 = 7."""
    net = Line(1)
    fitter = Fitter(net, "sgd", momentum=0.5)
    found = []
    for _ in range(3):
        fitter.step(torch.eye(1), slope(4.0), 0.25)
        found.append(net.weights.item())
    assert found == [-2.0, -3.5, -5.25]  # from -1 on


def test_a_step_returns_the_loss_before_it() -> None:
    net = Line(2)
    fitter = Fitter(net)
    losses = [fitter.step(torch.eye(2), slope(1.0, 3.0), 0.5) for _ in range(2)]
    assert losses[0].item() == 2.0  # 1 * -1 + 3 * 1
    assert losses[1].item() == pytest.approx(2 - 0.5 * (1 + 3) - 0.5 * 4, abs=1e-5)
    assert not losses[0].requires_grad


@pytest.mark.parametrize(("clip", "share"), [(None, 1.0), (5.0, 0.5), (10.0, 1.0), (99.0, 1.0)])
def test_gradients_longer_than_the_bound_are_shortened_to_it(
    clip: float | None, share: float
) -> None:
    """Those of all weights together are one vector, here (2, -4, 8) and 6 of the bias, to scale."""
    net = Line(3)
    before = numbers(net)
    gradient = np.array([2.0, -4.0, 8.0, 6.0]) * 10 / 120**0.5  # 10 long
    fitter = Fitter(net, "sgd", momentum=0, clip=clip)
    fitter.step(torch.eye(3), slope(*gradient[:3]), 0.5)
    np.testing.assert_allclose(numbers(net), before - 0.5 * share * gradient, atol=1e-5)


def test_the_mean_of_the_weights_by_hand() -> None:
    """It moves by 9 / 10, 9 / 11, ... of the way, until that is less than 1 - average."""
    net = Line(1)
    fitter = Fitter(net, "sgd", momentum=0, average=0.25)
    weights, mean = np.array([-1.0, 0.0]), np.array([-1.0, 0.0])
    np.testing.assert_array_equal(numbers(fitter.played), mean)
    for share in (9 / 10, 9 / 11, 0.75, 0.75):
        fitter.step(torch.eye(1), slope(2.0), 0.5)
        weights = weights - 1
        mean = mean + share * (weights - mean)
        np.testing.assert_allclose(numbers(net), weights, atol=1e-6)
        np.testing.assert_allclose(numbers(fitter.played), mean, atol=1e-6)


def test_without_a_mean_the_network_itself_plays() -> None:
    net = Line()
    assert Fitter(net).played is net
    averaged = Fitter(net, average=0.5)
    assert averaged.net is net
    assert averaged.played is not net


@pytest.mark.parametrize("mixed", [False, True])
def test_16_bits_are_for_the_network_alone(mixed: bool) -> None:
    """Losses and weights have 32."""
    kinds: list[torch.dtype] = []

    class Product(Line):
        """Notes in what the product is."""

        def forward(self, inputs: Tensor) -> Tensor:
            """The numbers."""
            product = inputs @ self.weights[:, None]
            kinds.append(product.dtype)
            return product

    def loss(outputs: Tensor) -> Tensor:
        kinds.append(outputs.dtype)
        return outputs.sum()

    net = Product()
    found = Fitter(net, bf16=mixed).step(torch.eye(2), loss, 0.1)
    assert kinds == [torch.bfloat16 if mixed else torch.float32, torch.float32]
    assert found.dtype == net.weights.dtype == torch.float32


# Files

WAYS: list[dict[str, Any]] = [
    {},
    {"average": 0.9},
    {"optimizer": "sgd", "average": 0.5},
    {"optimizer": "sgd", "clip": 0.1},
]


def assert_same(one: Fitter, other: Fitter) -> None:
    """Both have the same weights, state and mean, to the last bit."""
    assert one.n_steps == other.n_steps
    for first, second in (
        (one.tensors(), other.tensors()),
        (one.played.state_dict(), other.played.state_dict()),
    ):
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_learning_goes_on_from_a_file_as_if_it_had_not_been_interrupted(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    whole, first, second = (Fitter(Line(), **how) for _ in range(3))
    some_steps(whole, 7)
    some_steps(first, 4)
    first.save(tmp_path / "a.safetensors", {})
    second.load(tmp_path / "a.safetensors")
    assert_same(first, second)
    assert second.n_steps == 4
    some_steps(second, 3)
    assert_same(whole, second)
    assert (numbers(second.net) != numbers(second.played)).any() == ("average" in how)


def test_facts_and_other_tensors_come_back(tmp_path: Path) -> None:
    fitter, path = Fitter(Line(average=3), average=0.5), tmp_path / "a.safetensors"
    some_steps(fitter, 2)
    others = {
        "state": torch.tensor([1, 255], dtype=torch.uint8),
        "net/weights": torch.tensor([[1 << 62], [-1]]),  # is not taken for those of the network
        "none": torch.zeros(0, 3),
    }
    fitter.save(path, others, n_moves=7, learner={"batch": 2, "decay": None})
    told, found = Fitter(Line(average=3), average=0.5).load(path)
    assert told == {
        **{"network": "Line", "settings": {"n": 2, "average": 3}, "n_steps": 2},
        **{"n_moves": 7, "learner": {"batch": 2, "decay": None}},
    }
    assert found.keys() == others.keys()
    for name, tensor in others.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_other_tensors_may_be_parts_of_larger_ones(tmp_path: Path) -> None:
    table = torch.arange(12).reshape(3, 4)
    others = {"column": table[:, 1], "turned": table.T}
    Fitter(Line()).save(tmp_path / "a.safetensors", others)
    _, found = Fitter(Line()).load(tmp_path / "a.safetensors")
    assert all(torch.equal(found[name], others[name]) for name in others)


def test_what_has_not_made_a_step_goes_on_too(tmp_path: Path) -> None:
    fitter, other = Fitter(Line(), average=0.5), Fitter(Line(), average=0.5)
    some_steps(other, 3)
    fitter.save(tmp_path / "a.safetensors", {})
    other.load(tmp_path / "a.safetensors")
    some_steps(fitter, 2)
    some_steps(other, 2)
    assert_same(fitter, other)


def test_a_mean_that_is_asked_for_later_begins_with_the_network(tmp_path: Path) -> None:
    fitter, other = Fitter(Line()), Fitter(Line(), average=0.5)
    some_steps(fitter, 3)
    fitter.save(tmp_path / "a.safetensors", {})
    other.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(numbers(other.played), numbers(fitter.net))
    assert other.played is not other.net


@pytest.mark.parametrize("net", [Line(3), Line(2, more=1), Other(2)], ids=["size", "more", "name"])
def test_the_file_of_another_network_is_refused(tmp_path: Path, net: nn.Module) -> None:
    path = tmp_path / "a.safetensors"
    Fitter(net).save(path, {})
    fitter = Fitter(Line())
    before = numbers(fitter.net)
    with pytest.raises(ValueError, match=r"a\.safetensors has another network"):
        fitter.load(path)
    np.testing.assert_array_equal(numbers(fitter.net), before)


@pytest.mark.parametrize("others", [("adam", "sgd"), ("sgd", "adam")])
def test_the_file_of_another_optimizer_is_refused(tmp_path: Path, others: tuple[str, str]) -> None:
    fitter, other = (Fitter(Line(), optimizer=name) for name in others)
    some_steps(fitter, 1)
    fitter.save(tmp_path / "a.safetensors", {})
    before = numbers(other.net)
    with pytest.raises(ValueError, match="optimizer"):
        other.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(numbers(other.net), before)


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.safetensors"):
        Fitter(Line()).load(tmp_path / "missing.safetensors")


class Trap:
    """Raises an error of its own where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemError('it was unpickled')",)


@pytest.mark.parametrize(
    "data",
    [b"", b"no learner", bytes(1_000), pickle.dumps(Trap()), safetensors.torch.save({})],
    ids=["empty", "text", "zeros", "pickle", "safetensors"],
)
def test_a_file_of_another_kind_is_refused_and_never_unpickled(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.safetensors is not a network of afterstate"):
        Fitter(Line()).load(path)


def test_the_file_of_the_network_alone_is_refused(tmp_path: Path) -> None:
    """Such as `net.safetensors`, which stands beside it."""
    nets.save(Line(), tmp_path / "net.safetensors", n_steps=3)
    with pytest.raises(ValueError, match=r"net\.safetensors is damaged"):
        Fitter(Line()).load(tmp_path / "net.safetensors")


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    path, fitter = tmp_path / "a.safetensors", Fitter(Line(), average=0.5)
    some_steps(fitter, 1)
    fitter.save(path, {"table": torch.arange(9)})
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 13), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"a\.safetensors"):
            Fitter(Line(), average=0.5).load(path)


Change = Callable[[dict[str, Tensor], dict[str, Any]], Any]
"""Of the tensors of a file and of what it says."""


def without(name: str) -> Change:
    """Takes a tensor out of a file."""
    return lambda tensors, told: tensors.pop(name)


def with_(name: str, tensor: Tensor) -> Change:
    """Puts a tensor into a file."""
    return lambda tensors, told: tensors.update({name: tensor})


def telling(**facts: Any) -> Change:
    """Changes what a file says."""
    return lambda tensors, told: told.update(facts)


def untold(name: str) -> Change:
    """Takes out what a file says."""
    return lambda tensors, told: told.pop(name)


@pytest.mark.parametrize(
    "change",
    [
        without("net/weights"),
        without("played/weights"),
        without("0/exp_avg"),
        with_("net/weights", torch.zeros(3)),
        with_("net/others", torch.zeros(3)),
        with_("played/weights", torch.zeros(3)),
        with_("stray", torch.zeros(3)),
        with_("0/momentum_buffer", torch.zeros(2)),
        telling(n_steps="many"),
        telling(n_steps=None),
        telling(network="Other"),
        telling(settings={"n": 3}),
        telling(settings=None),
        untold("n_steps"),
        untold("network"),
    ],
)
def test_a_file_that_holds_something_else_than_it_says_is_refused(
    tmp_path: Path, change: Change
) -> None:
    path, fitter = tmp_path / "a.safetensors", Fitter(Line(), average=0.5)
    some_steps(fitter, 1)
    fitter.save(path, {})
    tensors, told = safetensors.torch.load_file(path), nets.metadata(path)
    path.write_bytes(safetensors.torch.save(tensors, {"afterstate": json.dumps(told)}))
    other = Fitter(Line(), average=0.5)
    other.load(path)  # to write it again does no harm
    assert_same(fitter, other)
    change(tensors, told)
    path.write_bytes(safetensors.torch.save(tensors, {"afterstate": json.dumps(told)}))
    with pytest.raises(ValueError, match=r"a\.safetensors"):
        Fitter(Line(), average=0.5).load(path)


# A write that fails


class FullDisk(io.FileIO):
    """A file on a disk that has room for so many more bytes."""

    room = 0

    def write(self, data: Any, /) -> int:
        """Writes all or nothing."""
        size = memoryview(data).nbytes
        if size > FullDisk.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        FullDisk.room -= size
        return super().write(data)


def full_disk(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(files, "open", FullDisk, raising=False)


def failing(function: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Lets a function of the system fail."""

    def fail(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    return lambda patched: patched.setattr(os, function, fail)


@pytest.mark.parametrize("prepare", [full_disk, failing("fsync"), failing("replace")])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[pytest.MonkeyPatch], None],
) -> None:
    path, fitter = tmp_path / "a.safetensors", Fitter(Line(), average=0.5)
    some_steps(fitter, 1)
    fitter.save(path, {})
    before = path.read_bytes()
    some_steps(fitter, 1)
    with monkeypatch.context() as patched:
        prepare(patched)
        with pytest.raises(OSError, match="No space left"):
            fitter.save(path, {"more": torch.zeros(100)})
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


def test_facts_unfit_for_json_leave_the_old_file(tmp_path: Path) -> None:
    path, fitter = tmp_path / "a.safetensors", Fitter(Line())
    fitter.save(path, {})
    before = path.read_bytes()
    with pytest.raises(TypeError):
        fitter.save(path, {}, when=object())
    assert path.read_bytes() == before


def test_the_rate_goes_up_in_a_straight_line_before_it_goes_down() -> None:
    how = Fitting(rate=0.5, final_rate=0.1, warm_up=9, decay=100)
    assert [how.rate_after(n) for n in (0, 4, 8)] == pytest.approx([0.05, 0.25, 0.45])
    assert how.rate_after(9) == Fitting(rate=0.5, final_rate=0.1, decay=100).rate_after(9)
    assert Fitting(rate=0.5, warm_up=9).rate_after(9) == 0.5


def test_weights_that_are_no_numbers_are_not_saved(tmp_path: Path) -> None:
    fitter, path = Fitter(Line()), tmp_path / "learner.safetensors"
    fitter.save(path, {})
    before = path.read_bytes()
    with torch.no_grad():
        next(fitter.net.parameters()).view(-1)[0] = float("nan")
    with pytest.raises(ValueError, match="smaller rate"):
        fitter.save(path, {})
    assert path.read_bytes() == before


@pytest.mark.parametrize("of", ["the optimizer", "the mean", "the others"])
def test_nothing_is_saved_that_is_no_number(tmp_path: Path, of: str) -> None:
    """It could not be taken up again: Adam squares gradients, though weights stay finite."""
    fitter, path = Fitter(Line(), average=0.5), tmp_path / "learner.safetensors"
    fitter.save(path, {})
    before, others = path.read_bytes(), {"table": torch.zeros(2)}
    if of == "the optimizer":
        fitter.step(torch.eye(2), slope(1e22, 1e22), 0.01)
        assert not fitter.tensors()["0/exp_avg_sq"].isfinite().any()
    elif of == "the mean":
        next(fitter.played.parameters()).data[0] = float("inf")
    else:
        others["table"][1] = float("nan")
    assert np.isfinite(numbers(fitter.net)).all()
    with pytest.raises(ValueError, match="not changed"):
        fitter.save(path, others)
    assert path.read_bytes() == before


# Signals


@pytest.fixture
def listening() -> Iterator[None]:
    """Ctrl-C is heard, also where the tests run in the background of a shell that ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def handlers() -> list[Any]:
    """What Ctrl-C and SIGTERM do."""
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize(
    ("numbers", "error"),
    [
        ([signal.SIGINT], KeyboardInterrupt),
        ([signal.SIGTERM], SystemExit),
        ([signal.SIGINT] * 3, KeyboardInterrupt),
        ([signal.SIGTERM, signal.SIGINT, signal.SIGTERM], KeyboardInterrupt),
    ],
)
def test_signals_wait_for_the_end_of_a_block(
    numbers: list[signal.Signals], error: type[BaseException]
) -> None:
    done: list[int] = []
    with sigterm_raises(SystemExit(143)):
        before = handlers()
        with pytest.raises(error):
            with uninterrupted():
                for number in numbers:
                    signal.raise_signal(number)
                    done.append(number)
            done.append(0)
        assert handlers() == before
    assert done == numbers


@pytest.mark.usefixtures("listening")
def test_a_block_without_a_signal_changes_nothing() -> None:
    before = handlers()
    with uninterrupted():
        pass
    with pytest.raises(ZeroDivisionError), uninterrupted():
        raise ZeroDivisionError
    assert handlers() == before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_signals_that_are_ignored_stay_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
    assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN


def test_other_threads_take_no_signals() -> None:
    seen: list[list[Any]] = []

    def look() -> None:
        with uninterrupted():
            seen.append(handlers())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [handlers()]


def test_networks_play_as_in_evaluation_and_the_mean_takes_buffers_along() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).train()
    fitter = Fitter(net, average=0.9)
    assert not any(layer.training for layer in (*net.modules(), *fitter.played.modules()))
    net.train()
    fitter.step(torch.randn(8, 2), lambda outputs: outputs.square().mean(), 0.1)
    means = [dict(each.named_buffers())["1.running_mean"] for each in (net, fitter.played)]
    assert means[0].abs().sum() > 0 and torch.equal(*means)
