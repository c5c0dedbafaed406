"""Small files of large networks: only the weights that play uses most, rounded.

    python -m afterstate.agents.game2048.pruning runs/mine/learner.npz small.npz --weights 6e6

A network of 8x6 has 134 million weights, of which games look up a few millions often and most
never. Kept are those with the largest product of size and uses in greedy games, as multiples of a
step; the others become 0. Six million take about 10 MB. In the file are, for all tables one after
the other,

- `gaps`, bytes: how many weights are left out before the next one that is kept; 255 stands for 255
  left out and none kept;
- `levels`, bytes [2, n]: the low and the high bytes of the kept weights in steps, 16 bits, signed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numba import int64, njit, uint32, uint64

from afterstate.agents import files
from afterstate.agents.game2048.ntuple import (
    KERNEL,
    NETWORK,
    Indices,
    Network,
    best_move,
    load,
    pack_network,
)
from afterstate.envs.game2048.games import seed_word
from afterstate.envs.game2048.rules import Word, afterstates, field, spawn

_NONE = 255  # a gap without a weight after it

Counts = npt.NDArray[np.uint32]


@njit(uint64(NETWORK, uint64, uint32[::1], int64[::1]), **KERNEL)
def _count_game(net: Network, rng: Word, uses: Counts, indices: Indices) -> Word:
    """Plays a greedy game and counts the entries of the afterstates it compares."""
    n = net.symmetric * net.masks.size
    cells = field(net.size[0], net.size[1])
    board, rng = spawn(np.uint64(0), rng, cells)
    board, rng = spawn(board, rng, cells)
    while True:
        best, after, _, _ = best_move(net, board, indices)
        if best < 0:
            return rng
        boards, _ = afterstates(board, net.moves)
        for action in range(4):
            if boards[action] != board:
                for k in range(action * n, action * n + n):
                    uses[indices[k]] += np.uint32(1)
        board, rng = spawn(after, rng, cells)


def count_uses(net: Network, n_games: int, seed: int = 0) -> Counts:
    """How often greedy games look up each weight: `uint32[weights]`."""
    uses = np.zeros(net.weights.size, np.uint32)
    rng, indices = seed_word(seed), np.empty(4 * net.n_entries, np.int64)
    for _ in range(n_games):
        rng = _count_game(net, rng, uses, indices)
    return uses


def most_used(net: Network, uses: Counts, n_kept: int) -> Indices:
    """The weights to keep, `int64[n_kept]` in ascending order; fewer if fewer are in use."""
    worth = uses * np.abs(net.values)
    n_kept = min(n_kept, int(np.count_nonzero(worth)))
    kept: Indices = np.sort(np.argpartition(worth, -n_kept)[-n_kept:])
    return kept


def save_pruned(net: Network, path: str | Path, kept: Indices, step: float = 8.0) -> None:
    """Writes a file of some weights only, from which `ntuple.load` makes a network to play with.

    Args:
        net: the network.
        path: the file.
        kept: the weights to keep, in ascending order.
        step: they are rounded to multiples of this, at most 32,767 of them.

    Raises:
        OSError: the file cannot be written.
    """
    gaps = np.diff(kept, prepend=-1) - 1
    ends = np.cumsum(gaps // _NONE + 1)
    all_gaps = np.full(ends[-1] if kept.size else 0, _NONE, np.uint8)
    all_gaps[ends - 1] = gaps % _NONE
    levels = np.zeros(all_gaps.size, np.int16)
    levels[ends - 1] = np.clip(np.rint(net.values[kept] / np.float32(step)), -32767, 32767)
    header = {**pack_network(net)[0], "fixed_point": False, "pruned": {"step": float(step)}}
    planes = np.stack([levels & 255, levels >> 8 & 255]).astype(np.uint8)
    files.write(path, "ntuple", header, {"gaps": all_gaps, "levels": planes}, level=9)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m afterstate.agents.game2048.pruning",
        description="Writes a small file of an N-tuple network for 2048.",
    )
    parser.add_argument("network", type=Path, help="file of a network or a learner")
    parser.add_argument("small", type=Path, help="file to write")
    parser.add_argument("--weights", type=float, default=6e6, help="how many to keep (%(default)g)")
    parser.add_argument("--step", type=float, default=8.0, help="they are rounded to (%(default)g)")
    parser.add_argument("--games", type=int, default=2_000, help="to count uses in (%(default)d)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    net = load(options.network)
    kept = most_used(net, count_uses(net, options.games, options.seed), int(options.weights))
    save_pruned(net, options.small, kept, options.step)
    size = options.small.stat().st_size
    print(f"{options.small}: {kept.size:,} of {net.weights.size:,} weights, {size:,} bytes")


if __name__ == "__main__":
    main()
