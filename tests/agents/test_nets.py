"""Files of networks with 16-bit weights, and wrong settings of networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")

import safetensors.torch
import torch
from torch import nn

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.game2048.values import value_net


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
    with pytest.raises(ValueError, match=f"Line has no setting .{name}."):
        network("Line", **{name: 1})


def rewrite(path: Path, tensors: dict[str, torch.Tensor] | None = None, **changes: Any) -> None:
    """Write a file of a network with other tensors and metadata."""
    about = {"network": "Line", "settings": {}, **changes}
    own = {name: value.clone() for name, value in Line(1.0, 2.0).state_dict().items()}
    data = safetensors.torch.save({**own, **(tensors or {})}, {"afterstate": json.dumps(about)})
    path.write_bytes(data)


def test_rewriting_alone_does_no_harm(tmp_path: Path) -> None:
    rewrite(tmp_path / "net.safetensors")
    weights = nets.load(tmp_path / "net.safetensors", network).state_dict()["weights"]
    assert weights.tolist() == [1, 2]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_weights_that_are_not_finite_are_refused(
    tmp_path: Path, value: float, dtype: torch.dtype
) -> None:
    """A weight of 64 bits may be finite and infinite with 32."""
    path = tmp_path / "net.safetensors"
    rewrite(path, {"weights": torch.tensor([1.0, value], dtype=torch.float64).to(dtype)})
    with pytest.raises(ValueError, match=r"net\.safetensors"):
        nets.load(path, network)


@pytest.mark.parametrize(
    "changes",
    [
        *({"network": value} for value in (None, ["Line"], {"Line": 1}, 5, "Others")),
        *({"settings": value} for value in (None, ["x"], "x", {"depth": 1}, [["name", "Line"]])),
        {"settings": {"name": "Line"}},
        {"settings": {"": 10**400}},
    ],
    ids=str,
)
def test_metadata_of_another_network_are_refused(tmp_path: Path, changes: Any) -> None:
    path = tmp_path / "net.safetensors"
    rewrite(path, **changes)
    with pytest.raises(ValueError, match=r"net\.safetensors"):
        nets.load(path, network)


@pytest.mark.parametrize("scale", [None, [], "1", True, 0, -1.0, 10**400, float("nan"), 1e999])
def test_a_value_scale_that_is_no_number_is_refused(tmp_path: Path, scale: Any) -> None:
    path = tmp_path / "net.safetensors"
    rewrite(path, value_scale=scale)
    with pytest.raises(ValueError, match=r"net\.safetensors: value_scale must be"):
        value_net.scale_of(path)


def test_metadata_that_are_deep_or_no_json_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    for text in ("[" * 100_000, "", "[1]", "{", '{"network": "Line"}'):
        path.write_bytes(safetensors.torch.save({}, {"afterstate": text}))
        with pytest.raises(ValueError, match=r"net\.safetensors"):
            nets.metadata(path)
    path.write_bytes(safetensors.torch.save({}))
    with pytest.raises(ValueError, match=r"net\.safetensors"):
        nets.metadata(path)


def test_any_changed_byte_of_weights_and_metadata_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    nets.save(nn.Linear(2, 1), path, moves=5)
    whole, rng = path.read_bytes(), np.random.default_rng(1)
    key = whole.index(b"crc32")  # without it, this is a file of another program
    for at in [*range(len(whole) - 12, len(whole)), *rng.integers(8, len(whole), 50)]:
        if key <= at < key + 5:
            continue
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=r"net\.safetensors"):
            nets.tensors(path)
            nets.metadata(path)


@pytest.mark.parametrize(
    "file", sorted(Path(next(iter(agents.__path__))).rglob("*.safetensors")), ids=lambda f: f.name
)
def test_pretrained_networks_have_checksums(file: Path) -> None:
    assert nets.header(file)["crc32"]
