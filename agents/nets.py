"""Files of neural networks: safetensors whose metadata name the network and its settings.

A file contains no code. Its metadata give the name and the arguments of a network class, which the
package constructs itself; weights are read only if their shapes are those of that network.

    save(net, "mine.safetensors", moves=1e8)
    net = load("mine.safetensors", rank_net.network)
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, signature
from itertools import chain
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from afterstate.agents.config import check_names
from afterstate.envs import durable_files, json_files
from afterstate.envs.messages import listed, shown

_DTYPES = {32: torch.float32, 16: torch.float16}
"""The type of weights in a file, by its bits."""

_CHECKSUM = "crc32"
"""Entry of a file's header; files of other programs and of afterstate 0.1 have none."""

_DAMAGE = (LookupError, TypeError, ValueError, OverflowError, RuntimeError)
"""Errors of reading a damaged file, and of making the network that it describes."""


def describe(net: nn.Module) -> dict[str, Any]:
    """Return the name and the settings of a network, from which `load` makes another.

    A network class of your own need not have `settings`; it is then made without arguments.
    """
    return {"network": type(net).__name__, "settings": getattr(net, "settings", {})}


def check_described(path: str | Path, metadata: Mapping[str, Any], net: nn.Module) -> None:
    """Raise ValueError unless the metadata of a file describe a network."""
    own = describe(net)
    given = {name: metadata.get(name) for name in own}
    if given != own:
        raise ValueError(f"{path} must hold the network {shown(own)}, got {shown(given)}")


def save(net: nn.Module, path: str | Path, /, bits: int = 32, **metadata: Any) -> None:
    """Write a network to a safetensors file.

    Args:
        net: the network; its `settings`, if it has them, are the arguments that make another.
        path: the file.
        bits: number of bits of a weight in the file: 32, or 16 (float16), which halves the file
            and hardly changes the play; a network that is read has 32 again.
        **metadata: further metadata, fit for JSON.

    Raises:
        OSError: it cannot be written; an older file is kept.
        ValueError: another number of bits, or weights beyond the range of 16 bits.
    """
    if bits not in _DTYPES:
        raise ValueError(f"bits must be one of {listed(_DTYPES)}, got {shown(bits)}")
    metadata, dtype = {**describe(net), **metadata}, _DTYPES[bits]
    weights = {name: t.detach().cpu().contiguous() for name, t in net.state_dict().items()}
    tensors = {name: t.to(dtype) if t.is_floating_point() else t for name, t in weights.items()}
    if bits == 16 and not all_finite(tensors):
        most = torch.finfo(dtype).max
        raise ValueError(f"bits=16 holds weights up to {most:,.0f}, got larger ones, NaN or inf")
    write(path, tensors, afterstate=json.dumps(metadata))


def write(path: str | Path, tensors: Mapping[str, Tensor], /, **header: str) -> None:
    """Write tensors to a safetensors file, with a checksum in its header.

    Args:
        path: the file.
        tensors: tensors by name; contiguous, on the CPU.
        **header: further entries of the header.

    Raises:
        OSError: it cannot be written; an older file is kept.
    """
    header[_CHECKSUM] = _checksum(tensors, header)
    durable_files.write(path, safetensors.torch.save(dict(tensors), header))


def _checksum(tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    """Return the checksum of tensors and of the entries of a header."""
    entries = sorted((name, text) for name, text in header.items() if name != _CHECKSUM)
    total = zlib.crc32(json.dumps(entries).encode())
    for name in sorted(tensors):
        total = zlib.crc32(name.encode(), total)
        total = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, total)
    return f"{total:08x}"


def all_finite(tensors: Mapping[str, Tensor]) -> bool:
    """Return True if no tensor holds NaN or inf."""
    return all(bool(t.isfinite().all()) for t in tensors.values())


def metadata(path: str | Path) -> dict[str, Any]:
    """Return the metadata of a network's file: `network`, `settings` and the others of `save`.

    Raises:
        OSError: it cannot be read.
        ValueError: another program's file, or a damaged one.
    """
    try:
        entries: dict[str, Any] = json_files.parse(header(path)["afterstate"])
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} is not a network of afterstate, or it is damaged") from error
    types = {"network": str, "settings": dict}
    names = isinstance(entries, dict) and all(
        isinstance(entries.get(name), kind) for name, kind in types.items()
    )
    if not names:
        raise ValueError(f"{path} does not name its network and settings")
    return entries


def header(path: str | Path) -> dict[str, str]:
    """Return the metadata of a safetensors file of any program.

    Raises:
        OSError: the file cannot be read.
        ValueError: another program's file, or a damaged one.
    """
    with _open(path) as file:
        return file.metadata() or {}


def network_file(checkpoint: str | Path) -> Path:
    """Return the file of the network next to the checkpoint of a learner.

    It is `net.safetensors` for `learner.safetensors`, and `NAME-net.safetensors` for another NAME,
    so that several learners may be saved in a folder.

    >>> network_file("runs/learner.safetensors").name, network_file("runs/mine.safetensors").name
    ('net.safetensors', 'mine-net.safetensors')
    """
    path = Path(checkpoint)
    before = "" if path.stem == "learner" else f"{path.stem}-"
    return path.with_name(f"{before}net.safetensors")


def refuse_checkpoint(path: str | Path) -> None:
    """Raise ValueError if a file is the checkpoint of a learner, which does not play.

    Raises:
        OSError: the file cannot be read.
    """
    is_checkpoint = False
    with contextlib.suppress(ValueError), _open(path) as file:  # who reads another file explains it
        is_checkpoint = any(name.startswith("net/") for name in file.keys())
    if is_checkpoint:
        net = network_file(path).name
        raise ValueError(f"{path} is a learner's checkpoint: load the {net} next to it")


def tensors(path: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name.

    Raises:
        OSError: the file cannot be read.
        ValueError: another program's file, a damaged one, or one with NaN or infinite numbers.
    """
    with _open(path) as file:
        named = {name: file.get_tensor(name) for name in file.keys()}
        header = file.metadata() or {}
        if header.get(_CHECKSUM, "") not in ("", _checksum(named, header)):
            raise ValueError("its checksum is that of other data")
        if not all_finite(named):
            raise ValueError("it contains NaN or inf")
    return named


@contextlib.contextmanager
def _open(path: str | Path) -> Iterator[Any]:
    """Open a safetensors file; errors name it."""
    with durable_files.open_to_read(path):
        pass  # OSError for a missing file, which safe_open does not tell from a damaged one
    try:
        with safetensors.safe_open(str(path), "pt") as file:
            yield file
    except (*_DAMAGE, safetensors.SafetensorError) as error:
        raise ValueError(f"{path} is not a safetensors file, or it is damaged: {error}") from error


def load(path: str | Path, network: Callable[..., nn.Module], device: str = "cpu") -> nn.Module:
    """Read a network from a file of `save`.

    Args:
        path: the file.
        network: makes a network of a name and settings, or raises ValueError.
        device: the device of the network, such as `"cuda"`.

    Raises:
        OSError: it cannot be read.
        ValueError: another program's file, a damaged one, or an unknown device.
    """
    check_device(device)
    refuse_checkpoint(path)
    described, weights = metadata(path), tensors(path)
    name, settings = described["network"], described["settings"]
    try:
        with torch.device("meta"):  # allocates nothing, whatever the file asks for
            expected = network(name, **settings).state_dict()
        if {n: t.shape for n, t in expected.items()} != {n: t.shape for n, t in weights.items()}:
            raise ValueError("its weights have the shapes of another network")
        if any(t.dtype not in (expected[n].dtype, torch.float16) for n, t in weights.items()):
            raise ValueError("its weights have another type")
        net = network(name, **settings)
        net.load_state_dict(weights)
    except _DAMAGE as error:
        raise ValueError(f"{path} does not hold the network that it names: {error}") from error
    return net.to(device)


def network(networks: Mapping[str, type[nn.Module]], name: str, /, **settings: Any) -> nn.Module:
    """Return a new network.

    Args:
        networks: the classes by name.
        name: one of them.
        **settings: its arguments.

    Raises:
        ValueError: an unknown name or a wrong setting.
    """
    if not isinstance(name, str) or name not in networks:
        raise ValueError(f"network must be one of {listed(networks)}, got {shown(name)}")
    parameters = signature(networks[name]).parameters
    if all(each.kind is not Parameter.VAR_KEYWORD for each in parameters.values()):
        check_names(name, settings, parameters)
    try:
        return networks[name](**settings).eval()
    except TypeError as error:
        message = str(error).partition("\n")[0][:200]  # torch adds where it was in C++
        raise ValueError(f"{name} got wrong settings: {message}") from error


def load_or_move(
    net: nn.Module | str | Path, read: Callable[..., nn.Module], device: str | None
) -> nn.Module:
    """Return the network that a player is given, on its device.

    Args:
        net: a network, or its file.
        read: reads a file to a device.
        device: its device; by default that of the network itself, and the CPU for a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: neither a network nor a file of one, or an unknown device.
    """
    if not isinstance(net, (str, Path, nn.Module)):
        raise ValueError(f"network must be a network or its file, got {shown(net)}")
    if device is not None:
        check_device(device)
    if isinstance(net, nn.Module):
        return (net if device is None else net.to(device)).eval()
    return read(net, "cpu" if device is None else device)


def he_init(module: nn.Module) -> None:
    """Draw a layer's weights as He et al. (2015), with zero biases; for `nn.Module.apply`."""
    if isinstance(module, (nn.Conv2d, nn.Linear)) and not module.weight.is_meta:
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seed torch inside the block, by 0 for None, and restore its random state afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed((seed or 0) % 2**63)
        yield


def checked_outputs(outputs: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the outputs of a network; raise ValueError if they have another shape."""
    if outputs.shape != shape:
        raise ValueError(f"network must return {list(shape)} values, got {list(outputs.shape)}")
    return outputs


def device_of(net: nn.Module) -> torch.device:
    """Return the device of a network's first parameter or buffer, the CPU if it has neither."""
    tensor = next(chain(net.parameters(), net.buffers()), None)
    return torch.device("cpu") if tensor is None else tensor.device


def in_float32(layers: nn.Module, inputs: Tensor) -> Tensor:
    """Return the outputs of layers computed in float32, also under `torch.autocast`."""
    with torch.autocast(inputs.device.type, enabled=False):
        outputs: Tensor = layers(inputs.float())
    return outputs


def check_device(device: str) -> None:
    """Raise ValueError unless torch has a device of this name."""
    try:
        torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        wanted = "device must be a name that torch knows, such as 'cpu' or 'cuda:0'"
        raise ValueError(f"{wanted}, got {shown(device)}") from error
    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, TypeError, ValueError, ImportError) as error:
        raise ValueError(f"torch has no device {shown(device)} here: {error}") from error
