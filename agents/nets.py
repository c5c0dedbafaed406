"""Files of neural networks: safetensors, with the network's name and settings beside the weights.

Nothing in them is code. A file says which network it holds by a name and arguments, which the
package makes itself; weights are read only if they are of that network's shapes.

    save(net, "mine.safetensors", moves=1e8)
    net = load("mine.safetensors", rank_nets.network)
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from afterstate.agents import files

_BITS = {32: torch.float32, 16: torch.float16}
"""Of a weight in a file."""


def kind(net: nn.Module) -> dict[str, Any]:
    """The name and the settings of a network, which make another like it.

    A network of one's own need not have `settings`; it is then one without arguments.
    """
    return {"network": type(net).__name__, "settings": getattr(net, "settings", {})}


def save(net: nn.Module, path: str | Path, /, bits: int = 32, **facts: Any) -> None:
    """Writes a network to a safetensors file, with its settings beside the weights.

    Args:
        net: the network; its `settings`, if it has them, are the arguments that make another.
        path: the file.
        bits: of a weight, 32 or 16 (float16), which are half as long and nearly as good to play
            with; a network that is read has 32 again.
        **facts: what else is to be known of it, fit for JSON.

    Raises:
        OSError: it cannot be written; a file that was there before is still there, whole.
        ValueError: another number of bits, or weights that 16 bits cannot hold.
    """
    if bits not in _BITS:
        raise ValueError(f"bits are one of {list(_BITS)}, got {bits!r}")
    about, dtype = {**kind(net), **facts}, _BITS[bits]
    weights = {name: t.detach().cpu().contiguous() for name, t in net.state_dict().items()}
    tensors = {name: t.to(dtype) if t.is_floating_point() else t for name, t in weights.items()}
    if bits == 16 and not are_finite(tensors):
        most = torch.finfo(dtype).max
        raise ValueError(f"16 bits hold numbers up to {most:,.0f}, and some weights are others")
    files.replace(path, safetensors.torch.save(tensors, {"afterstate": json.dumps(about)}))


def are_finite(tensors: Mapping[str, Tensor]) -> bool:
    """Whether tensors hold neither an infinity nor what is no number."""
    return all(bool(t.isfinite().all()) for t in tensors.values())


def about(path: str | Path) -> dict[str, Any]:
    """What a file of a network says of it: its name, its settings, and the facts.

    Raises:
        OSError: it cannot be read.
        ValueError: another file, or a damaged one.
    """
    with open(path, "rb"):
        pass  # tells a missing file from a damaged one
    try:
        with safetensors.safe_open(str(path), "pt") as file:
            told = json.loads((file.metadata() or {})["afterstate"])
    except (KeyError, ValueError, RecursionError, safetensors.SafetensorError) as error:
        raise ValueError(f"{path} is not a network of afterstate, or it is damaged") from error
    if not isinstance(told, dict) or not {"network", "settings"} <= told.keys():
        raise ValueError(f"{path} does not say which network it is")
    return told


def load(path: str | Path, network: Callable[..., nn.Module], device: str = "cpu") -> nn.Module:
    """Reads a network from a file of `save`.

    Args:
        path: the file.
        network: makes a network of a name and settings, or raises a ValueError.
        device: where the network shall be, such as `"cuda"`.

    Raises:
        OSError: it cannot be read.
        ValueError: another file, or a damaged one; or there is no such device.
    """
    check_device(device)
    told = about(path)
    try:
        tensors = safetensors.torch.load_file(path)
        with torch.device("meta"):  # takes no memory, whatever the file asks for
            asked = network(told["network"], **told["settings"]).state_dict()
        if {name: t.shape for name, t in asked.items()} != {n: t.shape for n, t in tensors.items()}:
            raise ValueError("its weights are of another network")
        if not are_finite(tensors):
            raise ValueError("some of its weights are no numbers")
        net = network(told["network"], **told["settings"])
        net.load_state_dict(tensors)
    except (TypeError, ValueError, RuntimeError, safetensors.SafetensorError) as error:
        raise ValueError(f"{path} does not hold what it says: {error}") from error
    return net.to(device)


def network(networks: Mapping[str, type[nn.Module]], name: str, /, **settings: Any) -> nn.Module:
    """A new network.

    Args:
        networks: by name.
        name: one of them.
        **settings: its arguments.

    Raises:
        ValueError: an unknown name or a wrong setting.
    """
    if not isinstance(name, str) or name not in networks:
        raise ValueError(f"there is no network {name!r}, but {list(networks)}")
    try:
        return networks[name](**settings).eval()
    except TypeError as error:
        raise ValueError(f"{name} got wrong settings: {error}") from error


def placed(
    net: nn.Module | str | Path, read: Callable[..., nn.Module], device: str | None
) -> nn.Module:
    """The network that a player is given, where it shall calculate.

    Args:
        net: a network, or its file.
        read: reads a file to a device.
        device: where; by default a network stays where it is, and that of a file is on the CPU.

    Raises:
        OSError: the file cannot be read.
        ValueError: neither a network nor a file of one; or there is no such device.
    """
    if not isinstance(net, (str, Path, nn.Module)):
        raise ValueError(f"net is a network or its file, got {net!r}")
    if device is not None:
        check_device(device)
    if isinstance(net, nn.Module):
        return (net if device is None else net.to(device)).eval()
    return read(net, "cpu" if device is None else device)


def he(module: nn.Module) -> None:
    """Draws the weights of a layer as He et al. (2015) do, without bias; for `nn.Module.apply`."""
    if isinstance(module, (nn.Conv2d, nn.Linear)) and not module.weight.is_meta:
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Lets torch draw from a seed, None is 0, and then go on as if it had not."""
    with torch.random.fork_rng():
        torch.manual_seed((seed or 0) % 2**63)
        yield


def in_32_bits(layers: nn.Module, inputs: Tensor) -> Tensor:
    """The outputs of layers that calculate with 32 bits, also under `torch.autocast`."""
    with torch.autocast(inputs.device.type, enabled=False):
        outputs: Tensor = layers(inputs.float())
    return outputs


def check_device(device: str) -> None:
    """Raises a ValueError unless torch has a device of this name."""
    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise ValueError(f"torch has no device {device!r} here: {error}") from error
