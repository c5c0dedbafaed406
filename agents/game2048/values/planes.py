"""The input of neural networks: 16 planes of a board, for empty cells and for each tile."""

from __future__ import annotations

import torch
from torch import Tensor

from afterstate.envs.game2048.torch_rules import exponents

N_PLANES = 16
"""Empty cells, then the tiles 2 to 32768."""

MANY = 16
"""Boards from which on planes have another order in memory."""


def planes(boards: Tensor) -> Tensor:
    """Return the one-hot planes `float32[..., 16, 4, 4]` of boards `int64[...]`.

    In memory, many boards have the planes of a cell side by side, by which convolutions take half
    the time.
    """
    exponent = torch.arange(N_PLANES, device=boards.device)[:, None, None]
    hot = (exponents(boards)[..., None, :, :] == exponent).float()
    many = boards.dim() == 1 and (boards.is_cuda or len(boards) >= MANY)
    return hot.contiguous(memory_format=torch.channels_last) if many else hot
