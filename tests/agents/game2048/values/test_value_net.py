"""The value network: its published layers, its planes, and its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from afterstate.agents import nets
from afterstate.agents.game2048.values import value_net
from afterstate.agents.game2048.values.planes import CHANNELS_LAST_FROM
from afterstate.agents.game2048.values.planes import planes as to_planes
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.game2048.rules import words


def boards_of(cells: Any) -> torch.Tensor:
    """Return boards of exponents."""
    return torch_rules.from_words(np.atleast_1d(words(np.array(cells, np.uint8))))


def test_the_parameters_of_each_layer_are_those_published() -> None:
    net = value_net.CNN22()
    layers = [layer for layer in net.body if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear))]
    counts = [sum(weights.numel() for weights in layer.parameters()) for layer in layers]
    assert counts == [16_640, 524_800, 2_098_176, 262_400, 257]
    assert sum(weights.numel() for weights in net.parameters()) == 2_902_273


def test_layers_see_two_by_two_cells_without_padding() -> None:
    shapes = []
    net = value_net.CNN22()
    for layer in net.body:
        layer.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape)))
    net(torch.zeros(3, 16, 4, 4))
    convolved = [shape for shape in shapes if len(shape) == 4]
    assert convolved == [(3, 256, 3, 3)] * 2 + [(3, 512, 2, 2)] * 2


def test_planes_have_a_1_at_the_exponent_of_each_cell() -> None:
    cells = np.arange(16).reshape(4, 4)
    result = to_planes(boards_of(cells)).numpy()
    assert result.shape == (1, 16, 4, 4) and result.sum() == 16
    for exponent in range(16):
        assert result[0, exponent, exponent // 4, exponent % 4] == 1
    assert to_planes(boards_of(np.zeros((4, 4))))[0, 0].sum() == 16
    assert to_planes(torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 3, 16, 4, 4)


@pytest.mark.parametrize("n", [CHANNELS_LAST_FROM - 1, CHANNELS_LAST_FROM])
def test_large_batches_are_in_channels_last(n: int) -> None:
    boards = boards_of(np.random.default_rng(1).integers(16, size=(n, 4, 4)))
    planes, one_by_one = to_planes(boards), torch.cat([to_planes(board[None]) for board in boards])
    assert torch.equal(planes, one_by_one)
    is_large = n == CHANNELS_LAST_FROM
    assert planes.is_contiguous(memory_format=torch.channels_last) == is_large
    assert planes.is_contiguous() != is_large
    net = value_net.CNN22()
    with torch.inference_mode():
        torch.testing.assert_close(net(planes), net(one_by_one), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_convolution_of_2x2_cells_is_that_of_torch(layout: torch.memory_format) -> None:
    torch.manual_seed(1)
    ours, theirs = value_net.Conv2x2(3, 5).double(), torch.nn.Conv2d(3, 5, 2).double()
    theirs.load_state_dict(ours.state_dict())
    planes = torch.randn(7, 3, 4, 6).double().contiguous(memory_format=layout)
    inputs = [planes.clone().requires_grad_() for _ in range(2)]
    outputs = [net(each) for net, each in zip((ours, theirs), inputs, strict=True)]
    assert outputs[0].shape == (7, 5, 3, 5)
    torch.testing.assert_close(*outputs)
    for output in outputs:
        (output * torch.arange(5.0)[:, None, None]).square().sum().backward()
    torch.testing.assert_close(*(each.grad for each in inputs))
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("output", ["relu", "identity"])
def test_only_relu_bounds_values_below(output: Any) -> None:
    torch.manual_seed(1)
    net = value_net.CNN22(output)
    boards = torch_rules.start((256,), torch.Generator().manual_seed(1))
    with torch.inference_mode():
        bare = net.body[:-1](to_planes(boards))
        last: Any = net.body[-2]
        last.bias.fill_(-bare.mean())
        values = net(to_planes(boards))
    assert values.shape == (256,)
    assert (values < 0).any().item() == (output == "identity") and (values > 0).any()


def test_a_file_holds_the_network_and_its_settings(tmp_path: Path) -> None:
    torch.manual_seed(1)
    net = value_net.network("CNN22", output="relu")
    nets.save(net, tmp_path / "net.safetensors", moves=7)
    again = value_net.load(tmp_path / "net.safetensors")
    assert nets.metadata(tmp_path / "net.safetensors") == {
        "network": "CNN22",
        "settings": {"output": "relu"},
        "moves": 7,
    }
    planes = to_planes(torch_rules.start((8,), torch.Generator().manual_seed(1)))
    with torch.inference_mode():
        assert torch.equal(net(planes), again(planes))


@pytest.mark.parametrize(
    ("name", "settings"),
    [("CNN23", {}), ("CNN22", {"output": "tanh"}), ("CNN22", {"channels": 4})],
)
def test_wrong_networks_are_refused(name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"CNN22|output"):
        value_net.network(name, **settings)


def test_large_values_keep_their_precision_with_bfloat16(one_thread: None) -> None:
    """16 bits alone would have steps of 1 at 150."""
    torch.manual_seed(1)
    net = value_net.CNN22()
    last: Any = net.body[-2]
    with torch.no_grad():
        last.bias.fill_(150.0)
    boards = torch_rules.start((512,), torch.Generator().manual_seed(1))
    exact = value_net.evaluate(net, boards)
    with torch.autocast("cpu", torch.bfloat16):
        bf16 = value_net.evaluate(net, boards)
    assert exact.std() > 0.1
    assert (bf16 - exact).abs().max() < 0.05
    assert len(bf16.unique()) > 100
