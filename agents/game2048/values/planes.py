"""The input of neural networks: 16 planes of a board, for empty cells and for each tile."""

from __future__ import annotations

import torch
from torch import Tensor

from afterstate.envs.game2048.torch_rules import exponents

N_PLANES = 16
"""Empty cells, then the tiles 2 to 32768."""


def planes(boards: Tensor) -> Tensor:
    """Return the one-hot planes `float32[..., 16, 4, 4]` of boards `int64[...]`."""
    exponent = torch.arange(N_PLANES, device=boards.device)[:, None, None]
    return (exponents(boards)[..., None, :, :] == exponent).float()
