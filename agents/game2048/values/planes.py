"""What neural networks see of a board: 16 planes, one of the empty cells and one for each tile."""

from __future__ import annotations

import torch
from torch import Tensor

from afterstate.envs.game2048.torch_rules import exponents

N_PLANES = 16
"""Empty cells, then the tiles 2 to 32768."""


def planes(boards: Tensor) -> Tensor:
    """The planes `float32[..., 16, 4, 4]` of boards `int64[...]`: one of them is 1 in each cell."""
    which = torch.arange(N_PLANES, device=boards.device)[:, None, None]
    return (exponents(boards)[..., None, :, :] == which).float()
