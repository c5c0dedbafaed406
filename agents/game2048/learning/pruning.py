"""Small files of large networks: only the weights that play uses most, rounded.

    afterstate prune learner.npz small.npz --weights 6e6

A network of 8x6 tuples has 134 million weights; games look up a few million of them often and most
never. The weights with the largest product of uses and square are kept, the others become 0: that
product is what one dropped adds to the squared error of all values. Kept weights are rounded to
multiples of a step, those that are rarely used of a coarser one: see `steps_by_uses`. With
promotion, a dropped weight of a later stage has the value of the stage before, so the difference to
that value is squared. Uses are counted in greedy games; or in games by 2-ply search, also of the
afterstates that it looks ahead to after the move that it plays and a new 2. Ten million weights
take about 12 MB.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from afterstate.agents.game2048.kernels import kernel
from afterstate.agents.game2048.learning.options import MAX_STEP, PruneOptions
from afterstate.agents.game2048.search.expectimax import CUTOFF
from afterstate.agents.game2048.search.expectimax_search import Search, new_search, search_move
from afterstate.agents.game2048.values import pruned
from afterstate.agents.game2048.values.ntuple import entry, look_up, source
from afterstate.agents.game2048.values.ntuple_file import load, save
from afterstate.agents.game2048.values.ntuple_network import (
    Network,
    downgrade_exponent,
    network_without_weights,
)
from afterstate.envs import durable_files
from afterstate.envs.game2048.rules import afterstates, field, lowest_cell, occupied, spawn
from afterstate.envs.messages import shown
from afterstate.envs.words import Float32s, Ints, Word, seed_word

Counts = npt.NDArray[np.uint32]


@kernel
def _count(net: Network, board: Word, uses: Counts, indices: Ints) -> None:
    """Count the entries of the afterstates that a greedy move compares."""
    boards, _ = afterstates(board, net.move_table)
    for action in range(4):
        if boards[action] != board:
            look_up(net, boards[action], indices)
            for k in range(indices.size):
                uses[source(net, np.uint64(indices[k]))] += np.uint32(1)


@kernel
def _count_game(
    net: Network, search: Search, depth: int, rng: Word, uses: Counts, indices: Ints
) -> Word:
    """Play a game, greedily or by 2-ply search, and count the entries that its moves look up."""
    cells = field(net.size[0], net.size[1])
    board, rng = spawn(np.uint64(0), rng, cells)
    board, rng = spawn(board, rng, cells)
    while True:
        action = search_move(net, search, board, depth)
        if action < 0:
            return rng
        boards, _ = afterstates(board, net.move_table)
        if depth == 1:
            _count(net, board, uses, indices)
        empty: Word = cells & ~occupied(boards[action]) if depth == 2 else np.uint64(0)
        while empty != 0:
            cell = lowest_cell(empty)
            empty ^= cell
            _count(net, boards[action] | cell, uses, indices)
        board, rng = spawn(boards[action], rng, cells)


def count_uses(
    net: Network,
    n_games: int,
    seed: int = 0,
    report: Callable[[], Any] | None = None,
    depth: int = 1,
) -> Counts:
    """Return the number of times that games look up each weight.

    Args:
        net: the network.
        n_games: number of games.
        seed: seed of the games.
        report: called after each game.
        depth: 1 for greedy games, 2 for games by 2-ply search.

    Returns:
        Uses `uint32[weights]`.

    Raises:
        ValueError: the network is pruned.
    """
    pruned.check_full(net)
    uses = np.zeros(net.weights.size, np.uint32)
    rng = np.uint64(seed_word(seed))
    indices = np.empty(net.n_entries, np.int64)
    search = new_search(CUTOFF, table_bits=10)
    for _ in range(n_games):
        rng = np.uint64(_count_game(net, search, depth, rng, uses, indices))
        if report is not None:
            report()
    return uses


@kernel
def _differences(net: Network, indices: Ints, differences: Float32s) -> None:
    """Write the difference of each weight from its value if it were dropped."""
    for i in range(indices.size):
        index = np.uint64(indices[i])
        differences[i] = entry(net, index)
        if net.promote and index >= np.uint64(net.stage_size):
            differences[i] -= entry(net, index - np.uint64(net.stage_size))


def _worths(net: Network, uses: Counts, indices: Ints) -> npt.NDArray[np.float64]:
    """Return uses times square of weights: the squared error of all values if one is dropped."""
    differences = np.empty(indices.size, np.float32)
    _differences(net, indices, differences)
    worths: npt.NDArray[np.float64] = uses[indices] * differences.astype(np.float64) ** 2
    return worths


def most_used(net: Network, uses: Counts, n_kept: int) -> Ints:
    """Return the weights to keep, at most `n_kept`, as `int64[n]` in ascending order.

    Raises:
        ValueError: `n_kept` is below 1.
    """
    if n_kept < 1:
        raise ValueError(f"n_kept must be >= 1, got {shown(n_kept)}")
    used = np.flatnonzero(uses)
    worth = _worths(net, uses, used)
    used, worth = used[worth > 0], worth[worth > 0]
    if used.size > n_kept:
        used = used[np.argpartition(worth, -n_kept)[-n_kept:]]
    selected: Ints = np.sort(used)
    return selected


def steps_by_uses(net: Network, uses: Counts, selected: Ints, step: float) -> Float32s:
    """Return the steps to which weights are rounded, coarse ones where they are rarely used.

    A weight's step is the largest double, fourfold, ... of `step` with which rounding adds at most
    a quarter of the squared error that dropping the least of the weights would add, on average.

    Args:
        net: the network.
        uses: counts of `count_uses`.
        selected: entries of `most_used`.
        step: the finest step.
    """
    if not selected.size:
        return np.empty(0, np.float32)
    least = _worths(net, uses, selected).min()
    coarsest = np.sqrt(3 * least / uses[selected])  # the mean square of rounding is step**2 / 12
    doublings = np.maximum(np.floor(np.log2(coarsest / step)), 0)
    steps: Float32s = (step * 2**doublings).astype(np.float32)
    return steps


def _check_step(step: float) -> None:
    """Raise ValueError unless it is a step."""
    if not 0 < step <= MAX_STEP:
        raise ValueError(f"step must be > 0 and <= {MAX_STEP:g}, got {shown(step)}")


def save_pruned(
    net: Network,
    path: str | Path,
    selected: Ints,
    step: float = 8.0,
    steps: Float32s | None = None,
) -> None:
    """Write a file of some of the weights, from which `ntuple_file.load` makes a network for play.

    Args:
        net: the network.
        path: the file.
        selected: the weights to keep, in ascending order.
        step: weights are rounded to multiples of it, at most 32,767 times it.
        steps: the step of each selected weight, `step` times a whole number; by default all are
            rounded to `step`.

    Raises:
        OSError: the file cannot be written.
        ValueError: the network is pruned; or the step is not in 0..`MAX_STEP`, or too small for the
            largest of the weights.
    """
    pruned.check_full(net)
    _check_step(step)
    values, most = net.values[selected], 32767
    if values.size and np.abs(values).max() > (most + 0.5) * step:
        least = math.ceil(1000 * float(np.abs(values).max()) / most) / 1000
        raise ValueError(f"step must be >= {least} for these weights, got {shown(step)}")
    multiples = np.ones(values.size) if steps is None else np.rint(steps / step)
    rounded = np.clip(np.rint(values / (step * multiples)) * multiples, -most, most)
    if net.promote:  # a later stage's 0 would stand for the value of the stage before
        is_none = (rounded == 0) & (selected >= net.stage_size)
        rounded[is_none] = np.where(values[is_none] < 0, -1, 1)
    settings = {name: each for name, each in net.settings.items() if name != "fixed_point"}
    small = network_without_weights("pruned", **settings)
    save(pruned.fill(small, selected, rounded.astype(np.int16), float(step)), path)


def prune(options: PruneOptions) -> None:
    """Count uses, select the weights, write the file, and print its size.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: not a network, or both files are the same.
    """
    from afterstate.agents.progress import progress_bar

    if options.output.exists() and options.output.samefile(options.network):
        raise ValueError(f"output must be another file than network, got {options.output}")
    net = pruned.expand(load(options.network))
    if options.downgrade is not None:
        net = net._replace(downgrade=downgrade_exponent(options.downgrade))
    durable_files.check_writable(options.output)
    with progress_bar(total=options.games, unit="games") as bar:
        uses = count_uses(net, options.games, options.seed, bar.update, options.depth)
    selected = most_used(net, uses, options.weights)
    steps = steps_by_uses(net, uses, selected, options.step)
    save_pruned(net, options.output, selected, options.step, steps)
    size = options.output.stat().st_size
    print(f"{options.output}: {selected.size:,} of {net.weights.size:,} weights, {size:,} bytes")
