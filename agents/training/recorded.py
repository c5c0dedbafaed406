"""Functions of tensors that a GPU records once, as CUDA graphs, and then repeats.

To start the kernels of a gradient step one by one takes several times as long as to compute them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

WARM_UP = 3
"""Calls before one is recorded, in which libraries get their memory."""

MAX_RECORDS = 8
"""Shapes of arguments for which a function is recorded; it is called for others."""


class Recorded:
    """A function of tensors; on a GPU it is recorded for each shape of its arguments.

    Args:
        function: of one or more tensors of a device, returns a tensor or a tuple of tensors. It
            waits for nothing, and what else it reads or changes is in the same place at each call.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._records: dict[Any, _Record] = {}  # by shapes and types of the arguments

    def __call__(self, *tensors: Tensor) -> Any:
        """Return the function's result, in memory of its own."""
        if not tensors[0].is_cuda:
            return self._function(*tensors)
        key = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        if key not in self._records and len(self._records) == MAX_RECORDS:
            return self._function(*tensors)
        return self._records.setdefault(key, _Record(self._function))(tensors)

    def forget(self) -> None:
        """Record it again: what it reads or changes has moved."""
        self._records.clear()


class _Record:
    """A function that is recorded for one shape of its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self._n_calls = function, 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._arguments: list[Tensor] = []
        self._result: Any = None

    def __call__(self, tensors: tuple[Tensor, ...]) -> Any:
        """Return the result, in memory of its own."""
        self._n_calls += 1
        if self._n_calls <= WARM_UP:
            return self._warm_up(tensors)
        if self._graph is None:
            self._record(tensors)
        for argument, tensor in zip(self._arguments, tensors, strict=True):
            argument.copy_(tensor)
        assert self._graph is not None
        self._graph.replay()
        if isinstance(self._result, Tensor):
            return self._result.clone()
        return tuple(each.clone() for each in self._result)

    def _warm_up(self, tensors: tuple[Tensor, ...]) -> Any:
        """Return the result of a call where a record can be made: not on the default stream."""
        stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            result = self._function(*tensors)
        current.wait_stream(stream)
        return result

    def _record(self, tensors: tuple[Tensor, ...]) -> None:
        """Record a call, which computes nothing yet."""
        self._arguments = [tensor.clone() for tensor in tensors]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._result = self._function(*self._arguments)
        self._graph = graph
