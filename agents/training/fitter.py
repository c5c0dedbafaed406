"""Fitting of networks: gradient steps, a moving average of the weights, and checkpoints.

The learning rate depends on the number of moves, while torch's `lr_scheduler` counts steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.training.cuda_graphs import CudaGraphed
from afterstate.agents.training.fitting_settings import FittingSettings
from afterstate.envs.messages import shown

_STATE = {"adam": {"step", "exp_avg", "exp_avg_sq"}, "sgd": {"momentum_buffer"}}
"""Names of the state that each optimizer has for a parameter."""

MAX_THREADS = 64


def set_threads(n: int) -> None:
    """Let torch compute in `n` threads; raise ValueError if `n` is out of range."""
    if not 1 <= n <= MAX_THREADS:
        raise ValueError(f"threads must be in 1..{MAX_THREADS}, got {shown(n)}")
    torch.set_num_threads(n)


class Fitter:
    """A network that learns, its optimizer, and the moving average of its weights.

    On a GPU the steps of Adam are recorded as `CudaGraphed` does: the network and the loss must be
    of the kind that it asks for, and the network in one mode, of training or of evaluation. Then
    the whole process multiplies matrices of float32 in TF32, which has 10 bits.

    Args:
        network: the network; it learns in place, on its device.
        loss: loss of the network's outputs, as `float32`, and their targets.
        optimizer: `"adam"` (Kingma and Ba 2015) or `"sgd"`.
        momentum: momentum of `"sgd"`.
        average: decay of the moving average of the weights; 0 is no average.
        bf16: compute in bfloat16 where float32 is not needed.
        clip: maximum norm of a gradient; longer gradients are scaled down.
        encode: returns the network's inputs, given those of `step`; by default they are the same.

    Attributes:
        network: the network that learns.
        played: the network that plays: the average of `network`, or `network` itself.
        n_steps: number of steps made.

    Raises:
        ValueError: `network` is no network, or has no parameters to learn.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        optimizer: str = "adam",
        momentum: float = 0.9,
        average: float = 0.0,
        bf16: bool = False,
        clip: float | None = None,
        encode: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        if not isinstance(network, nn.Module) or next(network.parameters(), None) is None:
            raise ValueError(
                f"network must be a torch.nn.Module with parameters, got {shown(network)}"
            )
        network.eval()
        self.network = network
        self.n_steps = 0
        self._loss, self._encode = loss, encode
        self._name, self._average, self._bf16, self._clip = optimizer, average, bf16, clip
        self.played = deepcopy(network).requires_grad_(False) if average else network
        self._is_recorded = optimizer == "adam" and next(network.parameters()).is_cuda
        self._make_step = self._new_step()
        if self._is_recorded:
            torch.set_float32_matmul_precision("high")
        if optimizer == "adam":
            self.optimizer: torch.optim.Optimizer = torch.optim.Adam(
                network.parameters(), fused=True, capturable=self._is_recorded
            )
        else:
            self.optimizer = torch.optim.SGD(network.parameters(), momentum=momentum)

    def _new_step(self) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the function that makes a step with inputs and targets."""
        return CudaGraphed(self._compute) if self._is_recorded else self._compute

    def step(self, inputs: Tensor, targets: Tensor, rate: float) -> Tensor:
        """Make a gradient step.

        Args:
            inputs: inputs of the network, or of `encode`, on the network's device.
            targets: targets of the loss, on the same device.
            rate: learning rate.

        Returns:
            The loss before the step.
        """
        self._set_rate(rate)
        error = self._make_step(inputs, targets)
        if self.played is not self.network:
            self._update_average()
        self.n_steps += 1
        return error

    def _set_rate(self, rate: float) -> None:
        """Set the learning rate, in place where a recorded step reads it."""
        for group in self.optimizer.param_groups:
            if not self._is_recorded:
                group["lr"] = rate
            elif isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = torch.tensor(rate, device=group["params"][0].device)

    def _compute(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Change the weights by a step, and return the loss before it."""
        encoded = inputs if self._encode is None else self._encode(inputs)
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self._bf16):
            outputs = self.network(encoded)
        error = self._loss(outputs.float(), targets)
        self.optimizer.zero_grad()
        error.backward()
        if self._clip is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self._clip)
        self.optimizer.step()
        return error.detach()

    @torch.no_grad()
    def _update_average(self) -> None:
        """Update the averages of weights; they move faster at first, to forget the start."""
        averages: list[Tensor] = [*self.played.parameters()]
        weights: list[Tensor] = [*self.network.parameters()]
        share = max(1 - self._average, 9 / (self.n_steps + 10))
        torch._foreach_lerp_(averages, weights, share)  # one kernel for all on a GPU
        for buffer, new in zip(self.played.buffers(), self.network.buffers(), strict=True):
            buffer.copy_(new)

    def tensors(self) -> dict[str, Tensor]:
        """Return copies of the learning weights and the optimizer's state, by name, on the CPU."""
        state = self.optimizer.state_dict()["state"]
        named = {f"net/{name}": value for name, value in self.network.state_dict().items()}
        for parameter, each in state.items():
            named |= {f"{parameter}/{k}": v for k, v in each.items() if isinstance(v, Tensor)}
        return {name: value.detach().cpu().contiguous() for name, value in named.items()}

    def resume(self, played: dict[str, Tensor], tensors: dict[str, Tensor], n_steps: int) -> None:
        """Continue learning from a saved state.

        Args:
            played: the weights that play, by name.
            tensors: the result of `tensors`.
            n_steps: number of steps made before.

        Raises:
            ValueError: the tensors are of another network or optimizer.
        """
        state: dict[int, dict[str, Tensor]] = {}
        net: dict[str, Tensor] = {}
        try:
            for name, value in tensors.items():
                of, _, key = name.partition("/")
                if of == "net":
                    net[key] = value
                else:
                    state.setdefault(int(of), {})[key] = value
            self._check(state)
            state = self._laid_out(state)
            types = {name: (t.shape, t.dtype) for name, t in self.network.state_dict().items()}
            if {name: (t.shape, t.dtype) for name, t in net.items()} != types:
                raise ValueError("its weights have other shapes or types")
            self.network.load_state_dict(net)
            if self.played is not self.network:
                self.played.load_state_dict(played)
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": state, "param_groups": groups})
            self._make_step = self._new_step()  # the one before has the optimizer's old state
        except (RuntimeError, KeyError, ValueError) as error:
            raise ValueError(f"tensors of another network or optimizer: {error}") from error
        self.n_steps = n_steps

    def _check(self, state: dict[int, dict[str, Tensor]]) -> None:
        """Raise ValueError unless a state is one of this optimizer for these parameters."""
        if any(set(each) != _STATE[self._name] for each in state.values()):
            raise ValueError(f"the optimizer was not {self._name}")
        shapes = dict(enumerate(weights.shape for weights in self.network.parameters()))
        for i, each in state.items():
            for name, value in each.items():
                shape = torch.Size() if name == "step" else shapes.get(i)
                if value.shape != shape or value.dtype != torch.float32:
                    raise ValueError(f"the optimizer's {name} does not fit parameter {i}")
                if name in ("step", "exp_avg_sq") and bool((value < 0).any()):
                    raise ValueError(f"the optimizer's {name} is negative")

    def _laid_out(self, state: dict[int, dict[str, Tensor]]) -> dict[int, dict[str, Tensor]]:
        """Return the state in the memory layout of its parameters, as fused steps require."""
        weights = list(self.network.parameters())
        return {
            i: {
                k: v if k == "step" else torch.empty_like(weights[i]).copy_(v)
                for k, v in each.items()
            }
            for i, each in state.items()
        }

    def save(self, path: str | Path, others: dict[str, Tensor], **metadata: Any) -> None:
        """Write a checkpoint to a safetensors file.

        Args:
            path: the file.
            others: further tensors, by name.
            **metadata: further entries of the metadata, fit for JSON.

        Raises:
            OSError: the file cannot be written; an older file is not changed.
            ValueError: a tensor has NaN or inf; an older file is not changed.
        """
        played = {} if self.played is self.network else self.played.state_dict()
        more = {f"others/{name}": value for name, value in others.items()}
        more |= {f"played/{name}": value for name, value in played.items()}
        copies = {name: value.detach().cpu().contiguous().clone() for name, value in more.items()}
        tensors = {**self.tensors(), **copies}
        if not nets.all_finite(tensors):  # which `load` would refuse
            message = f"weights or means of gradients diverged (NaN or inf): {path} is not changed"
            raise ValueError(f"{message}; resume from it with a smaller rate, a warm_up or clip")
        entries = {**nets.describe(self.network), "n_steps": self.n_steps, **metadata}
        nets.write(path, tensors, afterstate=json.dumps(entries))

    def load(self, path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Load a file of `save`.

        Returns:
            The metadata, and the other tensors by name.

        Raises:
            OSError: the file cannot be read.
            ValueError: another file, a damaged one, or one of another network or optimizer.
        """
        metadata = nets.metadata(path)
        nets.check_described(path, metadata, self.network)
        tensors = nets.tensors(path)
        try:
            played = _pop(tensors, "played/") or _select(tensors, "net/")
            others = _pop(tensors, "others/")
            self.resume(played, tensors, int(metadata["n_steps"]))
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        return metadata, others


def new_fitter(
    network: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    settings: FittingSettings,
    encode: Callable[[Tensor], Tensor] | None = None,
) -> Fitter:
    """Return a fitter of a network by Adam with the average, bf16 and clip of settings."""
    average, bf16, clip = settings.average, settings.bf16, settings.clip
    return Fitter(network, loss, average=average, bf16=bf16, clip=clip, encode=encode)


def _select(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names have a prefix, by the rest of their names."""
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


def _pop(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names have a prefix as `_select` does, and remove them."""
    selected = _select(tensors, prefix)
    for name in selected:
        del tensors[prefix + name]
    return selected
