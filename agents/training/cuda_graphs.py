"""Functions of tensors that a GPU records once, as CUDA graphs, and then repeats.

To start the kernels of a gradient step one by one takes several times as long as to compute them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

WARM_UP = 3
"""Calls before one is recorded, in which libraries get their memory."""

MAX_GRAPHS = 8
"""Shapes of arguments for which a function is recorded; with others it is called."""


class CudaGraphed:
    """A function of tensors; on a GPU it is recorded for each shape of its arguments.

    Args:
        function: function of one or more tensors of a device that returns a tensor or a tuple of
            tensors. What else it reads or changes must be in the same place at each call. It is
            not called again once it is recorded, so it may neither read a value (`item()`) nor
            depend on anything but tensors.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._n_calls: Counter[Any] = Counter()  # by shapes and types of the arguments
        self._graphs: dict[Any, _Graph] = {}

    def __call__(self, *tensors: Tensor) -> Any:
        """Return the function's result, in memory of its own."""
        if not tensors[0].is_cuda:
            return self._function(*tensors)
        key = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        self._n_calls[key] += 1
        with torch.cuda.device(tensors[0].device):
            if self._n_calls[key] <= WARM_UP:
                return self._warm_up(tensors)
            if key not in self._graphs:
                if len(self._graphs) == MAX_GRAPHS:
                    return self._function(*tensors)
                self._graphs[key] = _Graph(self._function, tensors)
            return self._graphs[key](tensors)

    def _warm_up(self, tensors: tuple[Tensor, ...]) -> Any:
        """Return the function's result, computed on a stream of its own, as recording requires."""
        stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream), warnings.catch_warnings():
            # Optimizers say that they are slower where they can be recorded, but are not yet.
            warnings.filterwarnings("ignore", message=".*capturable=True")
            result = self._function(*tensors)
        current.wait_stream(stream)
        return result


class _Graph:
    """The kernels of a call, for arguments of its shapes.

    Args:
        function: is called once; its kernels are recorded and not started.
        tensors: arguments.
    """

    def __init__(self, function: Callable[..., Any], tensors: tuple[Tensor, ...]) -> None:
        self._arguments = [tensor.clone() for tensor in tensors]
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=torch.cuda.Stream()):
            self._result = function(*self._arguments)

    def __call__(self, tensors: tuple[Tensor, ...]) -> Any:
        """Start the kernels with these arguments, and return a copy of the result."""
        for argument, tensor in zip(self._arguments, tensors, strict=True):
            argument.copy_(tensor)
        self._graph.replay()
        if isinstance(self._result, Tensor):
            return self._result.clone()
        return tuple(each.clone() for each in self._result)
