"""Fitting of networks: rates, steps and averages by hand, checkpoints, and wrong files."""

from __future__ import annotations

import json
import os
import pickle
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
from torch.nn.functional import mse_loss

from afterstate.agents import nets
from afterstate.agents.training.fitter import Fitter, new_fitter
from afterstate.agents.training.fitting_settings import FittingSettings
from tests.support.training_runs import disk_full, fill_disk

pytestmark = pytest.mark.usefixtures("one_thread")

Floats = npt.NDArray[np.float64]


class Line(nn.Module):
    """Maps each row of the inputs to its product with the weights, plus a bias."""

    def __init__(self, n: int = 2, **others: Any) -> None:
        super().__init__()
        self.settings = {"n": n, **others}
        self.weights = nn.Parameter(torch.linspace(-1, 1, n))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs `[rows, 1]`."""
        return inputs @ self.weights[:, None] + self.bias


class Plane(nn.Conv2d):
    """A convolution, in `channels_last`, with the same weights at first in each network."""

    def __init__(self) -> None:
        with nets.seeded(1):
            super().__init__(3, 3, (2, 3))
        self.weight.data = self.weight.data.contiguous(memory_format=torch.channels_last)


class Other(Line):
    """The same network by another name."""


def weights_of(net: nn.Module) -> Floats:
    """Return all weights of a network in one array."""
    parts = [each.detach().double().flatten().numpy() for each in net.parameters()]
    return np.concatenate(parts)


def slope(outputs: Tensor, gradient: Tensor) -> Tensor:
    """Return a loss with this gradient by the weights of a `Line`, for inputs of a unit matrix.

    The gradient by the bias is the sum.
    """
    return (outputs[:, 0] * gradient).sum()


def make_steps(fitter: Fitter, n: int) -> None:
    """Make steps that differ by the number of steps before them."""
    for _ in range(n):
        rng = np.random.default_rng(fitter.n_steps)
        inputs = torch.from_numpy(rng.normal(size=(5, 2)).astype(np.float32))
        fitter.step(inputs, torch.ones(5, 1), 0.01)


@pytest.mark.parametrize(
    ("n_moves", "rate"),
    [
        *((0, 0.9), (1_500, 0.5 + 0.4 * 0.5**0.5), (2_000, 0.7), (3_000, 0.5), (4_000, 0.3)),
        *((6_000, 0.1), (6_001, 0.1), (10**12, 0.1)),
    ],
)
def test_the_rate_falls_as_a_cosine_and_then_stays(n_moves: int, rate: float) -> None:
    """The decay of 6,000 moves is half a period: the cosine of a third of it is 0.5."""
    settings = FittingSettings(rate=0.9, final_rate=0.1, decay=6_000)
    assert settings.rate_after(n_moves) == pytest.approx(rate, rel=1e-12)


def test_the_rate_rises_linearly_in_the_warm_up_and_is_constant_without_a_decay() -> None:
    settings = FittingSettings(rate=0.5, final_rate=0.1, warm_up=9, decay=100)
    assert [settings.rate_after(n) for n in (0, 4, 8)] == pytest.approx([0.05, 0.25, 0.45])
    assert settings.rate_after(9) == FittingSettings(
        rate=0.5, final_rate=0.1, decay=100
    ).rate_after(9)
    assert FittingSettings(rate=0.5, warm_up=9).rate_after(9) == 0.5
    assert {FittingSettings(rate=0.25).rate_after(n) for n in (0, 1, 10**12)} == {0.25}


WRONG: dict[str, list[Any]] = {
    "batch": [0, 1.5, 1 << 63, True, None],
    "rate": [0, 1.0, float("nan"), "fast", False],
    "final_rate": [-1e-9],
    "decay": [0, float("inf"), "1e7"],
    "symmetric": [1, "no"],
    "average": [1, -0.1],
    "bf16": [None],
    "clip": [0.0, [1]],
}


@pytest.mark.parametrize(("name", "value"), [(n, value) for n in WRONG for value in WRONG[n]])
def test_a_wrong_setting_is_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        FittingSettings(**{name: value})


def test_settings_may_be_at_the_ends_of_their_ranges() -> None:
    settings = FittingSettings(
        batch=1, rate=0.999, final_rate=1e-30, decay=1, average=0, clip=10**9
    )
    assert (settings.batch, settings.average, settings.decay, settings.clip) == (1, 0, 1, 10**9)


def test_steps_of_adam_equal_those_by_hand() -> None:
    """Kingma and Ba (2015): moments with decays 0.9 and 0.999, corrected for their start at 0."""
    net = Line(2)
    fitter, weights = Fitter(net, slope), np.array([-1.0, 1.0, 0.0])
    first, second = np.zeros(3), np.zeros(3)
    steps = [(0.1, 2.0, -0.5), (0.1, -1.0, -0.5), (0.02, 0.0, 3.0)]
    for i, (rate, *gradient) in enumerate(steps, 1):
        fitter.step(torch.eye(2), torch.tensor(gradient), rate)
        g = np.array([*gradient, sum(gradient)])
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        mean, square = first / (1 - 0.9**i), second / (1 - 0.999**i)
        weights = weights - rate * mean / (np.sqrt(square) + 1e-8)
        np.testing.assert_allclose(weights_of(net), weights, atol=1e-6)
        assert fitter.n_steps == i


def test_steps_of_descent_with_momentum_equal_those_by_hand() -> None:
    """The speeds are 4, 0.5 * 4 + 4 = 6 and 0.5 * 6 + 4 = 7; the weight begins at -1."""
    net = Line(1)
    fitter, weights = Fitter(net, slope, "sgd", momentum=0.5), []
    for _ in range(3):
        fitter.step(torch.eye(1), torch.tensor([4.0]), 0.25)
        weights.append(net.weights.item())
    assert weights == [-2.0, -3.5, -5.25]


def test_a_step_returns_the_loss_before_it() -> None:
    fitter = Fitter(Line(2), slope)
    losses = [fitter.step(torch.eye(2), torch.tensor([1.0, 3.0]), 0.5) for _ in range(2)]
    assert losses[0].item() == 2.0  # 1 * -1 + 3 * 1
    assert losses[1].item() == pytest.approx(2 - 0.5 * (1 + 3) - 0.5 * 4, abs=1e-5)
    assert not losses[0].requires_grad


@pytest.mark.parametrize(("clip", "share"), [(None, 1.0), (5.0, 0.5), (10.0, 1.0), (99.0, 1.0)])
def test_longer_gradients_are_scaled_down_to_the_clip(clip: float | None, share: float) -> None:
    """The gradient of all parameters is one vector, here in the ratios 2 : -4 : 8 and 6 (bias)."""
    net = Line(3)
    before = weights_of(net)
    gradient = np.array([2.0, -4.0, 8.0, 6.0]) * 10 / 120**0.5  # of length 10
    fitter = Fitter(net, slope, "sgd", momentum=0, clip=clip)
    fitter.step(torch.eye(3), torch.tensor(gradient[:3]), 0.5)
    np.testing.assert_allclose(weights_of(net), before - 0.5 * share * gradient, atol=1e-5)


def test_the_average_of_the_weights_equals_that_by_hand() -> None:
    """It moves by 9 / 10, 9 / 11, ... of the way, until that is less than 1 - average."""
    net = Line(1)
    fitter = Fitter(net, slope, "sgd", momentum=0, average=0.25)
    weights, average = np.array([-1.0, 0.0]), np.array([-1.0, 0.0])
    np.testing.assert_array_equal(weights_of(fitter.played), average)
    for share in (9 / 10, 9 / 11, 0.75, 0.75):
        fitter.step(torch.eye(1), torch.tensor([2.0]), 0.5)
        weights = weights - 1
        average = average + share * (weights - average)
        np.testing.assert_allclose(weights_of(net), weights, atol=1e-6)
        np.testing.assert_allclose(weights_of(fitter.played), average, atol=1e-6)


def test_without_an_average_the_network_itself_plays() -> None:
    net = Line()
    assert Fitter(net, mse_loss).played is net
    averaged = Fitter(net, mse_loss, average=0.5)
    assert averaged.network is net
    assert averaged.played is not net


@pytest.mark.parametrize("options", [{}, {"average": 0.5}, {"bf16": True}, {"clip": 1e-9}], ids=str)
def test_a_fitter_of_settings_makes_the_same_steps(options: dict[str, Any]) -> None:
    fitter, expected = (
        new_fitter(Line(), mse_loss, FittingSettings(**options)),
        Fitter(Line(), mse_loss, **options),
    )
    make_steps(fitter, 3)
    make_steps(expected, 3)
    assert_same(fitter, expected)
    make_steps(plain := Fitter(Line(), mse_loss), 3)
    assert (weights_of(plain.played) != weights_of(fitter.played)).any() == bool(options)


def test_networks_are_in_evaluation_mode_and_the_average_copies_buffers() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).train()
    fitter = Fitter(net, mse_loss, average=0.9)
    assert not any(layer.training for layer in (*net.modules(), *fitter.played.modules()))
    net.train()
    fitter.step(torch.randn(8, 2), torch.zeros(8, 1), 0.1)
    means = [dict(each.named_buffers())["1.running_mean"] for each in (net, fitter.played)]
    assert means[0].abs().sum() > 0 and torch.equal(*means)


@pytest.mark.parametrize("bf16", [False, True])
def test_only_the_network_computes_in_bfloat16(bf16: bool) -> None:
    """Losses and weights are float32."""
    types: list[torch.dtype] = []

    class Product(Line):
        """Records the type of its product."""

        def forward(self, inputs: Tensor) -> Tensor:
            """Return the product."""
            product = inputs @ self.weights[:, None]
            types.append(product.dtype)
            return product

    def loss(outputs: Tensor, _: Tensor) -> Tensor:
        types.append(outputs.dtype)
        return outputs.sum()

    net = Product()
    value = Fitter(net, loss, bf16=bf16).step(torch.eye(2), torch.zeros(2), 0.1)
    assert types == [torch.bfloat16 if bf16 else torch.float32, torch.float32]
    assert value.dtype == net.weights.dtype == torch.float32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a checkpoint."""
    return tmp_path / "a.safetensors"


def assert_same(one: Fitter, other: Fitter) -> None:
    """Assert that the weights, states and averages are equal to the last bit."""
    assert one.n_steps == other.n_steps
    for first, second in (
        (one.tensors(), other.tensors()),
        (one.played.state_dict(), other.played.state_dict()),
    ):
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("n_steps", [0, 4])
@pytest.mark.parametrize(
    "settings",
    [{}, {"average": 0.9}, {"optimizer": "sgd", "average": 0.5}, {"optimizer": "sgd", "clip": 0.1}],
    ids=str,
)
def test_learning_from_a_checkpoint_equals_uninterrupted_learning(
    path: Path, settings: dict[str, Any], n_steps: int
) -> None:
    whole, first, second = (Fitter(Line(), mse_loss, **settings) for _ in range(3))
    make_steps(whole, n_steps + 3)
    make_steps(first, n_steps)
    make_steps(second, 1)
    first.save(path, {})
    second.load(path)
    assert_same(first, second)
    assert second.n_steps == n_steps
    make_steps(second, 3)
    assert_same(whole, second)
    assert (weights_of(second.network) != weights_of(second.played)).any() == (
        "average" in settings
    )


def test_weights_in_channels_last_learn_on_from_a_checkpoint(path: Path) -> None:
    whole, first, second = (Fitter(Plane(), mse_loss) for _ in range(3))
    generator = torch.Generator().manual_seed(1)
    batches = [torch.randn(2, 5, 3, 4, 4, generator=generator) for _ in range(6)]
    for inputs, targets in batches:
        whole.step(inputs, targets[:, :, :3, :2], 0.1)
    for inputs, targets in batches[:3]:
        first.step(inputs, targets[:, :, :3, :2], 0.1)
    first.save(path, {})
    second.load(path)
    for inputs, targets in batches[3:]:
        second.step(inputs, targets[:, :, :3, :2], 0.1)
    assert_same(whole, second)


def test_metadata_and_other_tensors_are_restored(path: Path) -> None:
    fitter, table = Fitter(Line(average=3), mse_loss, average=0.5), torch.arange(12).reshape(3, 4)
    make_steps(fitter, 2)
    others = {
        "state": torch.tensor([1, 255], dtype=torch.uint8),
        "net/weights": torch.tensor([[1 << 62], [-1]]),  # the name of one of the network's
        "none": torch.zeros(0, 3),
        "column": table[:, 1],
        "turned": table.T,
    }
    fitter.save(path, others, n_moves=7, learner={"batch": 2, "decay": None})
    metadata, restored = Fitter(Line(average=3), mse_loss, average=0.5).load(path)
    assert metadata == {
        **{"network": "Line", "settings": {"n": 2, "average": 3}, "n_steps": 2},
        **{"n_moves": 7, "learner": {"batch": 2, "decay": None}},
    }
    assert restored.keys() == others.keys()
    for name, tensor in others.items():
        assert restored[name].dtype == tensor.dtype
        assert torch.equal(restored[name], tensor)


def test_an_average_that_is_turned_on_later_begins_with_the_network(path: Path) -> None:
    fitter, other = Fitter(Line(), mse_loss), Fitter(Line(), mse_loss, average=0.5)
    make_steps(fitter, 3)
    fitter.save(path, {})
    other.load(path)
    np.testing.assert_array_equal(weights_of(other.played), weights_of(fitter.network))
    assert other.played is not other.network


@pytest.mark.parametrize("net", [Line(3), Line(2, more=1), Other(2)], ids=["size", "more", "name"])
def test_the_file_of_another_network_is_refused(path: Path, net: nn.Module) -> None:
    Fitter(net, mse_loss).save(path, {})
    fitter = Fitter(Line(), mse_loss)
    before = weights_of(fitter.network)
    with pytest.raises(ValueError, match="must hold the network"):
        fitter.load(path)
    np.testing.assert_array_equal(weights_of(fitter.network), before)


@pytest.mark.parametrize("names", [("adam", "sgd"), ("sgd", "adam")])
def test_the_file_of_another_optimizer_is_refused(path: Path, names: tuple[str, str]) -> None:
    fitter, other = (Fitter(Line(), mse_loss, optimizer=name) for name in names)
    make_steps(fitter, 1)
    fitter.save(path, {})
    before = weights_of(other.network)
    with pytest.raises(ValueError, match="optimizer"):
        other.load(path)
    np.testing.assert_array_equal(weights_of(other.network), before)


class Trap:
    """Raises an error if it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemError('it was unpickled')",)


@pytest.mark.parametrize(
    "data",
    [b"", b"no learner", bytes(1_000), pickle.dumps(Trap()), safetensors.torch.save({})],
    ids=["empty", "text", "zeros", "pickle", "safetensors"],
)
def test_a_file_of_another_kind_is_refused_and_never_unpickled(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.safetensors"):
        Fitter(Line(), mse_loss).load(path)


def test_a_missing_file_and_the_file_of_the_network_alone_are_refused(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"a\.safetensors"):
        Fitter(Line(), mse_loss).load(path)
    nets.save(Line(), path, n_steps=3)
    with pytest.raises(ValueError, match="damaged"):
        Fitter(Line(), mse_loss).load(path)


def test_a_file_cut_off_anywhere_is_refused(path: Path) -> None:
    fitter = Fitter(Line(), mse_loss, average=0.5)
    make_steps(fitter, 1)
    fitter.save(path, {"table": torch.arange(9)})
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 13), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"a\.safetensors"):
            Fitter(Line(), mse_loss, average=0.5).load(path)


MISSING_TENSORS = ("net/weights", "played/weights", "0/exp_avg")
WRONG_TENSORS = {
    **{"net/weights": 3, "net/others": 3, "played/weights": 3},
    **{"stray": 3, "0/momentum_buffer": 2},
}
"""Lengths of tensors that do not fit."""

MISSING_METADATA = ("n_steps", "network")
WRONG_METADATA: list[tuple[str, Any]] = [
    *(("n_steps", "many"), ("n_steps", None), ("network", "Other")),
    *(("settings", {"n": 3}), ("settings", None), ("n_steps", 1e999)),
]


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        *(("tensors", name, None) for name in MISSING_TENSORS),
        *(("tensors", name, torch.zeros(n)) for name, n in WRONG_TENSORS.items()),
        ("tensors", "net/weights", torch.full((2,), 1e300, dtype=torch.float64)),
        ("tensors", "0/exp_avg_sq", torch.full((2,), torch.inf)),
        ("tensors", "0/step", torch.zeros(2)),
        ("tensors", "0/step", torch.tensor(-1.0)),
        ("tensors", "0/exp_avg_sq", torch.full((2,), -1.0)),
        *(("metadata", name, ...) for name in MISSING_METADATA),
        *(("metadata", *wrong) for wrong in WRONG_METADATA),
    ],
)
def test_a_file_with_missing_or_wrong_entries_is_refused(
    path: Path, part: str, name: str, value: Any
) -> None:
    fitter, other = Fitter(Line(), mse_loss, average=0.5), Fitter(Line(), mse_loss, average=0.5)
    make_steps(fitter, 1)
    fitter.save(path, {})
    tensors, metadata = safetensors.torch.load_file(path), nets.metadata(path)
    path.write_bytes(safetensors.torch.save(tensors, {"afterstate": json.dumps(metadata)}))
    other.load(path)  # rewriting alone does no harm
    assert_same(fitter, other)
    entries: dict[str, Any] = tensors if part == "tensors" else metadata
    if value is ... or (part == "tensors" and value is None):
        del entries[name]
    else:
        entries[name] = value
    path.write_bytes(safetensors.torch.save(tensors, {"afterstate": json.dumps(metadata)}))
    with pytest.raises(ValueError, match=r"a\.safetensors"):
        Fitter(Line(), mse_loss, average=0.5).load(path)


@pytest.mark.parametrize("function", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    fitter = Fitter(Line(), mse_loss, average=0.5)
    make_steps(fitter, 1)
    fitter.save(path, {})
    before = path.read_bytes()
    make_steps(fitter, 1)
    with monkeypatch.context() as patched:
        if function == "write":
            fill_disk(patched)
        else:
            patched.setattr(os, function, disk_full)
        with pytest.raises(OSError, match="No space left"):
            fitter.save(path, {"more": torch.zeros(100)})
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == before


def test_metadata_unfit_for_json_leaves_the_old_file(path: Path) -> None:
    fitter = Fitter(Line(), mse_loss)
    fitter.save(path, {})
    before = path.read_bytes()
    with pytest.raises(TypeError):
        fitter.save(path, {}, when=object())
    assert path.read_bytes() == before


@pytest.mark.parametrize("part", ["weights", "optimizer", "average", "others"])
def test_nan_and_inf_are_not_saved(path: Path, part: str) -> None:
    """Adam squares gradients, so its state may overflow while the weights are finite."""
    fitter = Fitter(Line(), slope, average=0.5)
    fitter.save(path, {})
    before, others = path.read_bytes(), {"table": torch.zeros(2)}
    if part == "weights":
        next(fitter.network.parameters()).data[0] = float("nan")
    elif part == "optimizer":
        fitter.step(torch.eye(2), torch.tensor([1e22, 1e22]), 0.01)
        assert not fitter.tensors()["0/exp_avg_sq"].isfinite().any()
    elif part == "average":
        next(fitter.played.parameters()).data[0] = float("inf")
    else:
        others["table"][1] = float("nan")
    assert np.isfinite(weights_of(fitter.network)).all() == (part != "weights")
    with pytest.raises(ValueError, match="NaN or inf"):
        fitter.save(path, others)
    assert path.read_bytes() == before


@pytest.mark.parametrize("net", [1, "net.safetensors", None, nn.Flatten()])
def test_only_a_network_with_parameters_learns(net: Any) -> None:
    with pytest.raises(
        ValueError, match=r"network must be a torch\.nn\.Module with parameters, got"
    ):
        Fitter(net, mse_loss)
