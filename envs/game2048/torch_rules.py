"""The rules of 2048 on torch tensors: batches of boards on a CPU or a GPU.

A board is the word of 16 nibbles of `rules.py`, here as `int64`, because torch has few operations
on unsigned numbers; the sign is just the highest bit of the last cell. Functions take boards of any
shape on any device and return results on the same device. They have the names of `rules.py` and
support 4x4 boards only. Boards of another type are a ValueError, and so are actions and symmetries
out of their range on a CPU; on a GPU a check would wait for it.

    generator = torch.Generator("cuda").manual_seed(1)
    boards = start((4096,), generator)
    actions = random_legal(legal(boards), generator)
    afters, rewards = move(boards, actions)
    boards = spawn(afters, draw_bits((4096,), generator))

Needs torch, of the extra `neural`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from afterstate.envs.game2048 import rules
from afterstate.envs.messages import needs, shown
from afterstate.envs.words import Words

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise ImportError(needs("this module", "torch")) from error

LOW_BITS = 0x1111_1111_1111_1111
"""The lowest bit of every cell."""

_ROW = 0xFFFF
_HALF = 0xFFFF_FFFF
_FOUR_HALF_WORDS = int(rules.FOUR_HALF_WORDS)


def from_words(words: Words, device: torch.device | str = "cpu") -> Tensor:
    """Return boards `uint64[...]` of `rules.py` as `int64[...]` with the same bits.

    Raises:
        ValueError: not board words.
    """
    boards = np.array(rules.check_words(words, 4, 4))
    return torch.from_numpy(boards.view(np.int64)).to(device)


def to_words(boards: Tensor) -> Words:
    """Return boards as `uint64[...]` for the functions of `rules.py`."""
    check_boards(boards)
    return boards.cpu().contiguous().numpy().view(np.uint64)


def check_boards(boards: Any) -> None:
    """Raise ValueError unless boards are a tensor of int64."""
    if not isinstance(boards, Tensor) or boards.dtype != torch.int64:
        kind = boards.dtype if isinstance(boards, Tensor) else type(boards).__name__
        raise ValueError(f"boards must be a tensor of int64, got {kind}")


def _check_numbers(name: str, numbers: Any, most: int, shape: torch.Size) -> None:
    """Raise ValueError unless numbers are integers of a shape, and on a CPU in 0..most."""
    if not isinstance(numbers, Tensor) or numbers.dtype != torch.int64 or numbers.shape != shape:
        got = [numbers.dtype, list(numbers.shape)] if isinstance(numbers, Tensor) else numbers
        raise ValueError(f"{name} must be a tensor of int64 {list(shape)}, got {shown(got)}")
    if numbers.device.type == "cpu" and ((numbers < 0) | (numbers > most)).any():
        raise ValueError(f"{name} must be in 0..{most}, got {numbers.min()} to {numbers.max()}")


def exponents(boards: Tensor) -> Tensor:
    """Return the exponents of the cells, `int64[..., 4, 4]`: 0 is empty, 11 the 2048 tile."""
    check_boards(boards)
    shifts = torch.arange(0, 64, 4, device=boards.device).reshape(4, 4)
    return boards[..., None, None] >> shifts & 15


def transpose(boards: Tensor) -> Tensor:
    """Swap rows and columns."""
    check_boards(boards)
    swap = (boards ^ (boards >> 12)) & 0x0000_F0F0_0000_F0F0
    boards = boards ^ swap ^ (swap << 12)
    swap = (boards ^ (boards >> 24)) & 0x0000_0000_FF00_FF00
    return boards ^ swap ^ (swap << 24)


def mirror(boards: Tensor) -> Tensor:
    """Reverse every row."""
    check_boards(boards)
    nibbles, pairs = 0x0F0F_0F0F_0F0F_0F0F, 0x00FF_00FF_00FF_00FF
    boards = (boards & nibbles) << 4 | (boards >> 4) & nibbles
    return (boards & pairs) << 8 | (boards >> 8) & pairs


def flip(boards: Tensor) -> Tensor:
    """Reverse the order of the rows."""
    check_boards(boards)
    low, halves = 0x0000_0000_FFFF_FFFF, 0x0000_FFFF_0000_FFFF
    boards = boards << 32 | (boards >> 32) & low
    return (boards & halves) << 16 | (boards >> 16) & halves


def symmetries(boards: Tensor) -> Tensor:
    """Return the eight symmetric boards, `int64[..., 8]`, in the order of `rules.symmetries`."""
    mirrored, flipped = mirror(boards), flip(boards)
    four = torch.stack((boards, mirrored, flipped, flip(mirrored)), -1)
    return torch.cat((four, transpose(four)), -1)


SYMMETRIC_ACTIONS = (
    (0, 1, 2, 3),
    (0, 3, 2, 1),
    (2, 1, 0, 3),
    (2, 3, 0, 1),
    (3, 2, 1, 0),
    (3, 0, 1, 2),
    (1, 2, 3, 0),
    (1, 0, 3, 2),
)
"""The images of up, right, down and left under each of the eight symmetries."""


@cache
def _symmetric_actions(device: torch.device) -> Tensor:
    """Return `SYMMETRIC_ACTIONS` on a device, cached."""
    return torch.tensor(SYMMETRIC_ACTIONS, device=device)


def symmetric(boards: Tensor, symmetry: Tensor) -> Tensor:
    """Return one symmetric board of each, `int64[...]`.

    Args:
        boards: `int64[...]`.
        symmetry: the symmetry of each board, `int64[...]` of 0 to 7, in the order of `symmetries`.

    Raises:
        ValueError: another type or shape, or on a CPU another number.
    """
    check_boards(boards)
    _check_numbers("symmetry", symmetry, 7, boards.shape)
    for bit, turn in ((1, mirror), (2, flip), (4, transpose)):
        boards = torch.where((symmetry & bit).bool(), turn(boards), boards)
    return boards


def symmetric_actions(actions: Tensor, symmetry: Tensor) -> Tensor:
    """Return the images of actions under the symmetries that `symmetric` applies to boards.

    Raises:
        ValueError: another type or shape, or on a CPU another number.
    """
    _check_numbers("symmetry", symmetry, 7, symmetry.shape)
    _check_numbers("actions", actions, 3, symmetry.shape)
    return _symmetric_actions(actions.device)[symmetry, actions]


@cache
def _table(device: torch.device) -> Tensor:
    """Return the move table of `rules.table` on a device, `int64[65536]` (0.5 MB), cached."""
    return torch.from_numpy(rules.table().view(np.int64).copy()).to(device)


def afterstates(boards: Tensor) -> tuple[Tensor, Tensor]:
    """Return the afterstates of up, right, down and left, and their rewards, both `int64[..., 4]`.

    A move is illegal exactly if its afterstate equals the board; its reward is 0.
    """
    both = torch.stack((transpose(boards), boards))  # rows of the first: columns of the board
    table = _table(boards.device)
    first, last, reward = (torch.zeros_like(both) for _ in range(3))
    for shift in (0, 16, 32, 48):
        entry = table[both >> shift & _ROW]
        first |= (entry & _ROW) << shift
        last |= (entry >> 16 & _ROW) << shift
        reward += entry >> 32
    up, down = transpose(torch.stack((first[0], last[0])))
    afters = torch.stack((up, last[1], down, first[1]), -1)
    vertical, horizontal = reward
    return afters, torch.stack((vertical, horizontal, vertical, horizontal), -1)


def move(boards: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the afterstates of one action per board, `int64[...]` of 0 to 3, and their rewards.

    Raises:
        ValueError: another type or shape, or on a CPU another action.
    """
    check_boards(boards)
    _check_numbers("actions", actions, 3, boards.shape)
    afters, rewards = afterstates(boards)
    at = actions[..., None]
    return afters.gather(-1, at)[..., 0], rewards.gather(-1, at)[..., 0]


def legal(boards: Tensor) -> Tensor:
    """Return the legal moves, `bool[..., 4]`."""
    return afterstates(boards)[0] != boards[..., None]


def is_over(boards: Tensor) -> Tensor:
    """Return True for boards without a legal move, `bool[...]`."""
    return ~legal(boards).any(-1)


def occupied(boards: Tensor) -> Tensor:
    """Return the lowest bit of the nibble of every cell that holds a tile."""
    check_boards(boards)
    boards = boards | boards >> 2  # the sign bit is spread only if the last cell holds a tile
    return (boards | boards >> 1) & LOW_BITS


def draw_bits(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return 64 random bits for each board, `int64[shape]`, on the generator's device."""
    return torch.randint(
        -(1 << 63), (1 << 63) - 1, shape, generator=generator, device=generator.device
    )


def spawn(boards: Tensor, bits: Tensor) -> Tensor:
    """Add a tile to an empty cell of each board; a full board stays unchanged.

    A 2 comes with probability 0.9, a 4 with 0.1; every empty cell is equally likely, within 2**-28.
    With the same bits the tile is that of `rules.spawn`.

    Args:
        boards: `int64[...]`.
        bits: `int64[...]` of `draw_bits`. The high half selects the cell, the low half the tile.

    Raises:
        ValueError: another type, or bits of another shape.
    """
    check_boards(boards)
    if not isinstance(bits, Tensor) or (bits.dtype, bits.shape) != (boards.dtype, boards.shape):
        raise ValueError(f"bits must be a tensor of int64 {list(boards.shape)}, got {shown(bits)}")
    empty = occupied(boards) ^ LOW_BITS
    counts = empty * LOW_BITS  # of empty cells up to and including each, modulo 16
    n_empty = (counts >> 60 & 15) + 16 * (boards == 0)
    k = ((bits >> 32 & _HALF) * n_empty >> 32) + 1 & 15
    cell = empty & (occupied(counts ^ k * LOW_BITS) ^ LOW_BITS)
    return boards | torch.where((bits & _HALF) < _FOUR_HALF_WORDS, cell << 1, cell)


def start(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return boards with the two tiles of a new game, `int64[shape]`, on the generator's device."""
    boards = torch.zeros(shape, dtype=torch.int64, device=generator.device)
    for _ in range(2):
        boards = spawn(boards, draw_bits(shape, generator))
    return boards


def random_legal(legal: Tensor, generator: torch.Generator) -> Tensor:
    """Return a random legal action of each board, `int64[...]`; 0 where none is legal.

    Args:
        legal: `bool[..., 4]`.
        generator: generator on the same device.

    Raises:
        ValueError: not a mask of four moves for each board.
    """
    if not isinstance(legal, Tensor) or legal.dtype != torch.bool or legal.shape[-1:] != (4,):
        raise ValueError(f"legal must be a tensor of bool [..., 4], got {shown(legal)}")
    keys = torch.rand(legal.shape, generator=generator, device=legal.device)
    return torch.where(legal, keys, -1.0).argmax(-1)
