"""The input of neural networks: 16 planes of a board, for empty cells and for each tile."""

from __future__ import annotations

import torch
from torch import Tensor

from afterstate.envs.game2048.torch_rules import exponents

N_PLANES = 16
"""Empty cells, then the tiles 2 to 32768."""

CHANNELS_LAST_FROM = 16
"""Boards of the smallest batch on a CPU that is faster in torch's `channels_last`."""


def planes(boards: Tensor) -> Tensor:
    """Return the one-hot planes `float32[..., 16, 4, 4]` of boards `int64[...]`.

    In a batch of `CHANNELS_LAST_FROM` boards the planes of a cell lie side by side in memory, with
    which convolutions are faster (torch's `channels_last`; such a tensor has no `view`, but
    `flatten` and `reshape`).
    """
    exponent = torch.arange(N_PLANES, device=boards.device)
    hot = (exponents(boards)[..., None] == exponent).float().movedim(-1, -3)
    is_large = boards.dim() == 1 and (boards.is_cuda or len(boards) >= CHANNELS_LAST_FROM)
    return hot if is_large else hot.contiguous()
