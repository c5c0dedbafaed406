"""Networks that are fitted: steps against a gradient, the mean of the weights, and resuming."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from afterstate.agents import files, nets
from afterstate.agents.config import check_fields

_KEPT = {"adam": {"step", "exp_avg", "exp_avg_sq"}, "sgd": {"momentum_buffer"}}
"""What optimizers keep for each parameter."""


MAX_THREADS = 64


def set_threads(n: int) -> None:
    """Lets torch calculate in `n` threads, or raises a ValueError if that is not a sane number."""
    if not 1 <= n <= MAX_THREADS:
        raise ValueError(f"threads are from 1 to {MAX_THREADS}, got {n}")
    torch.set_num_threads(n)


_RANGES = {
    "batch": "from 1 on",
    "rate": "above 0 and below 1",
    "final_rate": "above 0 and below 1",
    "decay": "above 0",
    "warm_up": "above 0",
    "average": "from 0 on and below 1",
    "clip": "above 0",
}


@dataclass(frozen=True)
class Fitting:
    """How a network of 2048 is fitted.

    Raises:
        ValueError: a wrong setting.
    """

    batch: int = 512
    """Positions of a step."""
    rate: float = 1e-3
    """Of learning, at first, by Adam (Kingma and Ba 2015)."""
    final_rate: float = 1e-5
    """And in the end."""
    decay: float | None = None
    """Moves in which the rate goes down from one to the other, as a cosine does; by default it
    stays."""
    warm_up: float | None = None
    """Moves in which the rate goes up to this from 0, in a straight line; by default it does not.
    The first steps of Adam are large whatever the error, and may silence units for good."""
    symmetric: bool = True
    """Whether each position is turned to one of the eight symmetric ones, by chance."""
    average: float = 0.0
    """Share of the mean of the weights that stays in a step, the rest being the new weights. The
    mean plays. 0: the weights as they are play."""
    mixed: bool = False
    """Whether to calculate with 16 bits where that does no harm (bfloat16): faster on a GPU or a
    processor that has instructions for it (AVX512-BF16, AMX), far slower on others."""
    clip: float | None = None
    """The largest norm of a gradient, to which longer ones are shortened."""

    def __post_init__(self) -> None:
        check_fields(self, _RANGES)

    def rate_after(self, n_moves: int) -> float:
        """The rate after so many moves."""
        if self.warm_up is not None and n_moves < self.warm_up:
            return self.rate * (n_moves + 1) / (self.warm_up + 1)
        if self.decay is None:
            return self.rate
        done = min(1.0, n_moves / self.decay)
        return self.final_rate + (self.rate - self.final_rate) * (1 + math.cos(math.pi * done)) / 2


class Fitter:
    """A network that learns, its optimizer, and the mean of its weights.

    Args:
        net: learns in place, on the device that it is on.
        optimizer: `"adam"` (Kingma and Ba 2015) or `"sgd"`.
        momentum: of `"sgd"`.
        average: the share of the mean of the weights that stays in a step, the rest being the new
            weights. 0: there is no mean.
        mixed: whether the network calculates with 16 bits (bfloat16) where that does no harm.
        clip: the largest norm of a gradient, to which longer ones are shortened.

    Attributes:
        net: the network that learns.
        played: the one that is to play: the mean of `net`, or `net` itself.
        n_steps: how many steps have been made.
    """

    def __init__(
        self,
        net: nn.Module,
        optimizer: str = "adam",
        momentum: float = 0.9,
        average: float = 0.0,
        mixed: bool = False,
        clip: float | None = None,
    ) -> None:
        self.net, self.n_steps = net.eval(), 0
        self.played = copy.deepcopy(net) if average else net
        self._name, self._average, self._mixed, self._clip = optimizer, average, mixed, clip
        if optimizer == "adam":
            on_gpu = next(net.parameters()).is_cuda
            self.optimizer: torch.optim.Optimizer = torch.optim.Adam(net.parameters(), fused=on_gpu)
        else:
            self.optimizer = torch.optim.SGD(net.parameters(), momentum=momentum)

    def step(self, inputs: Tensor, loss: Callable[[Tensor], Tensor], rate: float) -> Tensor:
        """Makes a step.

        Args:
            inputs: of the network, on its device.
            loss: of the network's outputs, as `float32`.
            rate: of learning.

        Returns:
            The loss before the step.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self._mixed):
            outputs = self.net(inputs)
        found = loss(outputs.float())
        self.optimizer.zero_grad()
        found.backward()
        if self._clip is not None:
            nn.utils.clip_grad_norm_(self.net.parameters(), self._clip)
        self.optimizer.step()
        if self.played is not self.net:
            self._move_mean()
        self.n_steps += 1
        return found.detach()

    def _move_mean(self) -> None:
        """Moves the mean of the weights; at first it moves faster, not to stay where they began."""
        share = max(1 - self._average, 9 / (self.n_steps + 10))
        with torch.no_grad():
            for mean, new in zip(self.played.parameters(), self.net.parameters(), strict=True):
                mean.lerp_(new, share)
            for kept, latest in zip(self.played.buffers(), self.net.buffers(), strict=True):
                kept.copy_(latest)

    def tensors(self) -> dict[str, Tensor]:
        """The weights that learn and the state of the optimizer, by name, on the CPU."""
        state = self.optimizer.state_dict()["state"]
        named = {f"net/{name}": value for name, value in self.net.state_dict().items()}
        for parameter, kept in state.items():
            named |= {f"{parameter}/{k}": v for k, v in kept.items() if isinstance(v, Tensor)}
        return {name: value.detach().cpu().contiguous() for name, value in named.items()}

    def resume(self, played: dict[str, Tensor], tensors: dict[str, Tensor], n_steps: int) -> None:
        """Takes up learning where it was.

        Args:
            played: the weights that play, by name.
            tensors: what `tensors` gave.
            n_steps: how many had been made.

        Raises:
            ValueError: these are of another network or optimizer.
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
            self.net.load_state_dict(net)
            if self.played is not self.net:
                self.played.load_state_dict(played)
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        except (RuntimeError, KeyError, ValueError) as error:
            raise ValueError(f"this is of another network or optimizer: {error}") from error
        self.n_steps = n_steps

    def _check(self, state: dict[int, dict[str, Tensor]]) -> None:
        """Raises a ValueError unless a state is one of this optimizer for these parameters."""
        if any(set(kept) != _KEPT[self._name] for kept in state.values()):
            raise ValueError(f"it is not of {self._name}")
        shapes = dict(enumerate(weights.shape for weights in self.net.parameters()))
        for i, kept in state.items():
            for name, value in kept.items():
                if name != "step" and value.shape != shapes.get(i):
                    raise ValueError(f"the optimizer's {name} does not fit parameter {i}")

    def save(self, path: str | Path, others: dict[str, Tensor], **facts: Any) -> None:
        """Writes all that it takes to go on to a file of safetensors.

        Args:
            path: the file.
            others: further tensors, by name.
            **facts: what else is to be known, fit for JSON.

        Raises:
            OSError: it cannot be written; a file that was there before is still there, whole.
            ValueError: some of it is no finite number any more; the same.
        """
        played = {} if self.played is self.net else self.played.state_dict()
        more = {f"others/{name}": value for name, value in others.items()}
        more |= {f"played/{name}": value for name, value in played.items()}
        copies = {name: value.detach().cpu().contiguous().clone() for name, value in more.items()}
        tensors = {**self.tensors(), **copies}
        if not nets.all_finite(tensors):  # which `load` would refuse
            told = f"weights or means of gradients have run away, so {path} is left as it was"
            raise ValueError(f"{told}: go on from it with a smaller rate, a warm_up or clip")
        about = {**nets.describe(self.net), "n_steps": self.n_steps, **facts}
        files.write_bytes(path, safetensors.torch.save(tensors, {"afterstate": json.dumps(about)}))

    def load(self, path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Goes on from a file of `save`.

        Returns:
            The facts, and the other tensors.

        Raises:
            OSError: the file cannot be read.
            ValueError: another file, a damaged one, or one of another network or optimizer.
        """
        told = nets.metadata(path)
        if {name: told[name] for name in ("network", "settings")} != nets.describe(self.net):
            raise ValueError(f"{path} has another network than the settings ask for")
        try:
            tensors = safetensors.torch.load_file(path)
            if not nets.all_finite(tensors):
                raise ValueError("some of its numbers are none")
            played = _taken(tensors, "played/") or _named(tensors, "net/")
            others = _taken(tensors, "others/")
            self.resume(played, tensors, int(told["n_steps"]))
        except (
            KeyError,
            TypeError,
            ValueError,
            RuntimeError,
            safetensors.SafetensorError,
        ) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        return told, others


def _named(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names have a prefix, by the rest of their names."""
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


def _taken(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The same, taken from the others."""
    found = _named(tensors, prefix)
    for name in found:
        del tensors[prefix + name]
    return found
