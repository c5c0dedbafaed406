"""Recorded functions: the same results as the function itself, on a CPU and on a GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from afterstate.agents.training import recorded
from afterstate.agents.training.optimizer import Fitter
from afterstate.agents.training.recorded import Recorded

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
on_devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])


@on_devices
def test_each_call_has_its_own_result(device: str) -> None:
    """Also the calls before a function is recorded, and those of other shapes."""
    function = Recorded(lambda a, b: (a + b, a * b))
    kept = []
    for i in range(3 * recorded.WARM_UP):
        for n in (1, 5):
            a, b = torch.full((n,), float(i), device=device), torch.arange(n, device=device)
            kept.append((a, b, function(a, b)))
    for a, b, (total, product) in kept:
        assert torch.equal(total, a + b)
        assert torch.equal(product, a * b)


@on_devices
def test_more_shapes_than_are_recorded(device: str) -> None:
    function = Recorded(lambda a: 2 * a)
    for _ in range(2 * recorded.WARM_UP):
        for n in range(1, recorded.MAX_RECORDS + 3):
            assert function(torch.ones(n, device=device)).tolist() == [2.0] * n


@on_devices
def test_a_function_reads_what_lies_in_one_place(device: str) -> None:
    table = torch.zeros(3, device=device)
    function = Recorded(lambda a: table[a])
    for i in range(2 * recorded.WARM_UP):
        table.fill_(i)
        assert function(torch.tensor([0, 2], device=device)).tolist() == [i, i]


def steps(device: str, average: float, bf16: bool) -> list[Tensor]:
    """Return the weights after each of ten steps, the fifth of them with another shape."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
    fitter, weights = Fitter(net, average=average, bf16=bf16, clip=1.0), []
    for i in range(10):
        inputs = torch.randn(7 if i == 4 else 6, 3).to(device)
        fitter.step(inputs, inputs.sum(1, keepdim=True), mse_loss, 0.1 / (i + 1))
        weights.append(torch.cat([each.detach().cpu().flatten() for each in net.parameters()]))
    return weights


@needs_cuda
@pytest.mark.parametrize("average", [0.0, 0.9])
def test_steps_on_a_gpu_are_those_on_a_cpu(average: float) -> None:
    for on_gpu, on_cpu in zip(
        steps("cuda", average, False), steps("cpu", average, False), strict=True
    ):
        torch.testing.assert_close(on_gpu, on_cpu, rtol=1e-3, atol=1e-4)


@needs_cuda
def test_steps_in_bfloat16_learn_as_well_when_recorded() -> None:
    first, *_, last = steps("cuda", 0.0, True)
    assert last.isfinite().all() and not torch.equal(first, last)
