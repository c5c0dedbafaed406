"""Functions as CUDA graphs: the same results as the function itself, on a CPU and on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from afterstate.agents.training import cuda_graphs
from afterstate.agents.training.cuda_graphs import CudaGraphed
from afterstate.agents.training.fitter import Fitter
from tests.support.devices import needs_cuda, on_devices


@on_devices
def test_each_call_has_its_own_result(device: str) -> None:
    """Also the calls before a function is recorded, and those of other shapes."""
    function = CudaGraphed(lambda a, b: (a + b, a * b))
    kept = []
    for i in range(3 * cuda_graphs.WARM_UP):
        for n in (1, 5):
            a, b = torch.full((n,), float(i), device=device), torch.arange(n, device=device)
            kept.append((a, b, function(a, b)))
    for a, b, (total, product) in kept:
        assert torch.equal(total, a + b)
        assert torch.equal(product, a * b)


@on_devices
def test_more_shapes_than_are_recorded(device: str) -> None:
    function = CudaGraphed(lambda a: 2 * a)
    for _ in range(2 * cuda_graphs.WARM_UP):
        for n in range(1, cuda_graphs.MAX_GRAPHS + 3):
            assert function(torch.ones(n, device=device)).tolist() == [2.0] * n


@on_devices
def test_a_function_reads_what_lies_in_one_place(device: str) -> None:
    table = torch.zeros(3, device=device)
    function = CudaGraphed(lambda a: table[a])
    for i in range(2 * cuda_graphs.WARM_UP):
        table.fill_(i)
        assert function(torch.tensor([0, 2], device=device)).tolist() == [i, i]


def learner(device: str, average: float = 0.0, bf16: bool = False) -> Fitter:
    """Return a fitter of a small network with batch normalization."""
    torch.manual_seed(1)
    layers = (nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    net = nn.Sequential(*layers).to(device)
    return Fitter(net, mse_loss, average=average, bf16=bf16, clip=1.0)


def make_steps(fitter: Fitter, n: int) -> list[Tensor]:
    """Return the weights that play after each of `n` steps, with 6 and 7 inputs by turns."""
    device, weights = next(fitter.network.parameters()).device, []
    for _ in range(n):
        generator = torch.Generator().manual_seed(fitter.n_steps)
        inputs = torch.randn(6 + fitter.n_steps % 2, 3, generator=generator).to(device)
        fitter.network.train()
        fitter.step(inputs, inputs.sum(1, keepdim=True), 0.1 / (fitter.n_steps + 1))
        fitter.network.eval()
        state = fitter.played.state_dict().values()
        weights.append(torch.cat([each.detach().cpu().double().flatten() for each in state]))
    return weights


@needs_cuda
@pytest.mark.parametrize("average", [0.0, 0.9])
def test_steps_on_a_gpu_are_those_on_a_cpu(average: float) -> None:
    """Means and variances of the batch normalization are compared, too."""
    n = 4 * cuda_graphs.WARM_UP
    on_gpu, on_cpu = (make_steps(learner(device, average), n) for device in ("cuda", "cpu"))
    for ours, plain in zip(on_gpu, on_cpu, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-2, atol=1e-3)
    assert not torch.equal(on_gpu[-2], on_gpu[-1])


@needs_cuda
def test_a_fitter_goes_on_from_a_file_after_steps_were_recorded(tmp_path: Path) -> None:
    fitter, path, n = learner("cuda"), tmp_path / "a.safetensors", 4 * cuda_graphs.WARM_UP
    make_steps(fitter, n)
    fitter.save(path, {})
    expected = make_steps(fitter, n)
    fitter.load(path)
    for ours, before in zip(make_steps(fitter, n), expected, strict=True):
        torch.testing.assert_close(ours, before, rtol=1e-2, atol=1e-3)


@needs_cuda
def test_steps_in_bfloat16_learn_when_they_are_recorded() -> None:
    weights = make_steps(learner("cuda", bf16=True), 4 * cuda_graphs.WARM_UP)
    assert weights[-1].isfinite().all()
    assert not torch.equal(weights[-2], weights[-1])
