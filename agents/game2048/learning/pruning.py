"""Small files of large networks: only the weights that play uses most, rounded.

    python -m afterstate.agents.game2048.learning.pruning learner.npz small.npz --weights 6e6

A network of 8x6 has 134 million weights, of which games look up a few millions often and most
never. Kept are those with the largest product of uses and what they are worth, as multiples of a
step; the others become 0. With promotion a weight of a later stage that is left out has the value
of the stage before, so that only the difference counts as its worth. Uses are counted in games of
2-ply search, also of those afterstates that it looks ahead to: search meets boards that greedy
games do not. Six million weights take about 9 MB. In the file are, for all tables one after the
other,

- `gaps`, bytes: how many weights are left out before the next one that is kept; 255 stands for 255
  left out and none kept;
- `levels`, bytes [2, n]: the low and the high bytes of the kept weights in steps, 16 bits, signed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import float32, int64, njit, uint32, uint64, void

from afterstate.agents import files
from afterstate.agents.game2048.kernels import KERNEL
from afterstate.agents.game2048.search.expectimax import (
    CUTOFF,
    SEARCH,
    Search,
    new_search,
    search_move,
)
from afterstate.agents.game2048.values.ntuple import (
    NETWORK,
    Indices,
    Network,
    Weights,
    entry,
    load,
    look_up,
    pack_network,
    source,
)
from afterstate.agents.training.commands import progress_bar
from afterstate.envs.game2048.rules import afterstates, field, occupied, spawn
from afterstate.envs.words import Word, seed_word

MAX_STEP = 1e6
_NONE = 255  # a gap without a weight after it

Counts = npt.NDArray[np.uint32]


@njit(void(NETWORK, uint64, uint32[::1], int64[::1]), **KERNEL)
def _count(net: Network, board: Word, uses: Counts, indices: Indices) -> None:
    """Counts the entries of the afterstates that a greedy move compares."""
    boards, _ = afterstates(board, net.moves)
    for action in range(4):
        if boards[action] != board:
            look_up(net, boards[action], indices, 0)
            for k in range(net.symmetric * net.masks.size):
                uses[source(net, indices[k])] += np.uint32(1)


@njit(uint64(NETWORK, SEARCH, uint64, uint32[::1], int64[::1]), **KERNEL, nogil=True)
def _count_game(net: Network, search: Search, rng: Word, uses: Counts, indices: Indices) -> Word:
    """Plays a game by 2-ply search and counts the entries it looks up for the moves it makes."""
    cells = field(net.size[0], net.size[1])
    board, rng = spawn(np.uint64(0), rng, cells)
    board, rng = spawn(board, rng, cells)
    while True:
        action = search_move(net, search, board, 2)
        if action < 0:
            return rng
        boards, _ = afterstates(board, net.moves)
        empty: Word = cells & ~occupied(boards[action])
        while empty != 0:
            cell = empty & (~empty + np.uint64(1))
            empty ^= cell
            _count(net, boards[action] | cell, uses, indices)
        board, rng = spawn(boards[action], rng, cells)


def count_uses(
    net: Network, n_games: int, seed: int = 0, report: Callable[[], Any] | None = None
) -> Counts:
    """How often games of 2-ply search look up each weight.

    Args:
        net: the network.
        n_games: how many games.
        seed: of the games.
        report: called after each game.

    Returns:
        Uses `uint32[weights]`.
    """
    uses = np.zeros(net.weights.size, np.uint32)
    rng, indices = seed_word(seed), np.empty(net.n_entries, np.int64)
    search = new_search(net, CUTOFF, table_bits=10)
    for _ in range(n_games):
        rng = _count_game(net, search, rng, uses, indices)
        if report is not None:
            report()
    return uses


@njit(void(NETWORK, int64[::1], float32[::1]), **KERNEL)
def _differences(net: Network, indices: Indices, differences: Weights) -> None:
    """By how much each weight differs from what it would be if it were left out."""
    for i in range(indices.size):
        index = indices[i]
        differences[i] = entry(net, index)
        if net.promote and index >= net.stage_size:
            differences[i] -= entry(net, index - net.stage_size)


def most_used(net: Network, uses: Counts, n_kept: int) -> Indices:
    """The weights to keep, at most `n_kept`, as `int64[...]` in ascending order.

    Raises:
        ValueError: `n_kept` is below 1.
    """
    if n_kept < 1:
        raise ValueError(f"at least one weight must be kept, not {n_kept}")
    used = np.flatnonzero(uses)
    differences = np.empty(used.size, np.float32)
    _differences(net, used, differences)
    worth = uses[used] * np.abs(differences)
    used, worth = used[worth > 0], worth[worth > 0]
    if used.size > n_kept:
        used = used[np.argpartition(worth, -n_kept)[-n_kept:]]
    kept: Indices = np.sort(used)
    return kept


def _check_step(step: float) -> None:
    """Refuses what is no step."""
    if not 0 < step <= MAX_STEP:
        raise ValueError(f"step is a number above 0 and up to {MAX_STEP:g}, got {step!r}")


def save_pruned(net: Network, path: str | Path, kept: Indices, step: float = 8.0) -> None:
    """Writes a file of some weights only, from which `ntuple.load` makes a network to play with.

    Args:
        net: the network.
        path: the file.
        kept: the weights to keep, in ascending order.
        step: they are rounded to multiples of this, at most 32,767 of them.

    Raises:
        OSError: the file cannot be written.
        ValueError: the step is not in 0..`MAX_STEP`, or too small for the largest of the weights.
    """
    values, most = net.values[kept], 32767
    _check_step(step)
    if values.size and np.abs(values).max() > (most + 0.5) * step:
        least = math.ceil(1000 * float(np.abs(values).max()) / most) / 1000
        raise ValueError(f"step is at least {least} for these weights, got {step!r}")
    gaps = np.diff(kept, prepend=-1) - 1
    ends = np.cumsum(gaps // _NONE + 1)
    all_gaps = np.full(ends[-1] if kept.size else 0, _NONE, np.uint8)
    all_gaps[ends - 1] = gaps % _NONE
    levels = np.zeros(all_gaps.size, np.int16)
    rounded = np.clip(np.rint(values / np.float32(step)), -most, most)
    if net.promote:  # a later stage's 0 would stand for the value of the stage before
        is_none = (rounded == 0) & (kept >= net.stage_size)
        rounded[is_none] = np.where(values[is_none] < 0, -1, 1)
    levels[ends - 1] = rounded
    header = {**pack_network(net)[0], "fixed_point": False, "pruned": {"step": float(step)}}
    planes = np.stack([levels & 255, levels >> 8 & 255]).astype(np.uint8)
    files.write(path, "ntuple", header, {"gaps": all_gaps, "levels": planes}, level=9)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m afterstate.agents.game2048.learning.pruning",
        description="Writes a small file of an N-tuple network for 2048.",
    )
    parser.add_argument("network", type=Path, help="file of a network or a learner")
    parser.add_argument("small", type=Path, help="file to write")
    parser.add_argument("--weights", type=float, default=6e6, help="how many to keep (%(default)g)")
    parser.add_argument("--step", type=float, default=8.0, help="they are rounded to (%(default)g)")
    parser.add_argument("--games", type=int, default=300, help="to count uses in (%(default)d)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    tqdm = progress_bar()
    try:
        for name in ("weights", "games"):
            if not 1 <= getattr(options, name) < 2**31:
                raise ValueError(f"--{name} is a number from 1 on, got {getattr(options, name)}")
        _check_step(options.step)
        net = load(options.network)
        files.check_writable(options.small)
        with tqdm(total=options.games, unit=" games") as bar:
            uses = count_uses(net, options.games, options.seed, bar.update)
        kept = most_used(net, uses, int(options.weights))
        save_pruned(net, options.small, kept, options.step)
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from error
    size = options.small.stat().st_size
    print(f"{options.small}: {kept.size:,} of {net.weights.size:,} weights, {size:,} bytes")


if __name__ == "__main__":
    main()
