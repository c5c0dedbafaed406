"""Files of networks with 16 bits, and settings that are none."""

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
    """Some weights."""

    def __init__(self, *weights: float) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.tensor(weights or (0.0, 0.0)))
        self.register_buffer("n_steps", torch.tensor(1 << 40))


def network(name: str, **settings: Any) -> nn.Module:
    """A new one."""
    return nets.network({"Line": Line}, name, **settings)


def test_16_bits_are_half_as_long_and_nearly_the_same(tmp_path: Path) -> None:
    path, weights = tmp_path / "net.safetensors", torch.tensor([1 / 3, -65_504.0])
    nets.save(Line(*weights.tolist()), path, bits=16)
    found = nets.load(path, network).state_dict()
    assert found["n_steps"] == 1 << 40
    assert found["weights"].dtype == torch.float32
    torch.testing.assert_close(found["weights"], weights, rtol=2**-11, atol=0)
    assert (found["weights"] != weights).tolist() == [True, False]


@pytest.mark.parametrize("weight", [1e5, -65_520.0, float("nan")])
def test_weights_that_16_bits_cannot_hold_are_refused(tmp_path: Path, weight: float) -> None:
    path = tmp_path / "net.safetensors"
    nets.save(Line(1.0, 2.0), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="16 bits hold numbers up to 65,504"):
        nets.save(Line(1.0, weight), path, bits=16)
    assert path.read_bytes() == before


@pytest.mark.parametrize("bits", [8, 64, "16"])
def test_other_numbers_of_bits_are_refused(tmp_path: Path, bits: Any) -> None:
    with pytest.raises(ValueError, match=r"bits are one of \[32, 16\], got "):
        nets.save(Line(), tmp_path / "net.safetensors", bits=bits)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["networks", "depth"])
def test_settings_that_a_network_has_not_are_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"Line got wrong settings: .*{name}"):
        network("Line", **{name: 1})
