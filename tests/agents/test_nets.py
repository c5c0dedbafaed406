"""Files of networks with 16-bit weights, and wrong settings of networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")

import torch
from torch import nn

from afterstate.agents import nets


class Line(nn.Module):
    """A module of one parameter and one integer buffer."""

    def __init__(self, *weights: float) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.tensor(weights or (0.0, 0.0)))
        self.register_buffer("n_steps", torch.tensor(1 << 40))


def network(name: str, **settings: Any) -> nn.Module:
    """Return a new module."""
    return nets.network({"Line": Line}, name, **settings)


def test_weights_saved_with_16_bits_are_read_back_rounded(tmp_path: Path) -> None:
    path, weights = tmp_path / "net.safetensors", torch.tensor([1 / 3, -65_504.0])
    nets.save(Line(*weights.tolist()), path, bits=16)
    loaded = nets.load(path, network).state_dict()
    assert loaded["n_steps"] == 1 << 40
    assert loaded["weights"].dtype == torch.float32
    torch.testing.assert_close(loaded["weights"], weights, rtol=2**-11, atol=0)
    assert (loaded["weights"] != weights).tolist() == [True, False]


@pytest.mark.parametrize("weight", [1e5, -65_520.0, float("nan")])
def test_weights_beyond_16_bits_raise_and_leave_the_file(tmp_path: Path, weight: float) -> None:
    path = tmp_path / "net.safetensors"
    nets.save(Line(1.0, 2.0), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="bits"):
        nets.save(Line(1.0, weight), path, bits=16)
    assert path.read_bytes() == before


@pytest.mark.parametrize("bits", [8, 64, "16"])
def test_other_numbers_of_bits_raise_and_write_no_file(tmp_path: Path, bits: Any) -> None:
    with pytest.raises(ValueError, match="bits"):
        nets.save(Line(), tmp_path / "net.safetensors", bits=bits)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["networks", "depth"])
def test_an_unknown_setting_of_a_network_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"Line got wrong settings: .*{name}"):
        network("Line", **{name: 1})
