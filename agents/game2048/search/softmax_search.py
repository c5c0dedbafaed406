"""Search of boards with the trees of `softmax_tree.py`, one board after the other or in a batch.

With an N-tuple network the whole search is compiled. Other value functions evaluate batches: all
trees are walked until they need values, and again once they have them. Both give the same result.
The last functions read training examples from searched trees.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from afterstate.agents.game2048.kernels import kernel
from afterstate.agents.game2048.search.softmax_tree import (
    MAX,
    Policy,
    Trees,
    back_up_leaf,
    cache_slot,
    draw,
    draw_child,
    read_moves,
    reroot,
    reset,
    simulate,
    weigh,
)
from afterstate.agents.game2048.values.ntuple import prefetch_entries, value_of
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.envs.words import Floats, Ints, Word, Words, fraction, next_random


class BoardBatch(NamedTuple):
    """Boards to be searched and the results, as kernels take them."""

    boards: Words  # [n]
    firsts: Ints  # [n]: the first tree of each
    n_each: int  # trees of each
    simulations: int  # in each tree, fewer if a reused one is full
    seed: Word  # of the tiles
    reuse: bool  # True: search the boards further in the trees that have them
    values: Floats  # [n * n_each, 4], is written to: reward plus value of the moves
    visits: Ints  # [n * n_each, 4], is written to: simulations that began with each move


def new_board_batch(
    boards: Words, firsts: Ints, n_each: int, simulations: int, seed: int, reuse: bool
) -> BoardBatch:
    """Return a batch of boards with memory for the results."""
    n = len(boards) * n_each
    values, visits = np.empty((n, 4)), np.empty((n, 4), np.int64)
    return BoardBatch(boards, firsts, n_each, simulations, np.uint64(seed), reuse, values, visits)


@kernel
def _begin(trees: Trees, batch: BoardBatch, i: int) -> None:
    """Begin the search of board `i`."""
    board, first = batch.boards[i], batch.firsts[i]
    for tree in range(first, first + batch.n_each):
        trees.goals[tree] = batch.simulations
        if batch.reuse and reroot(trees, tree, board):
            left = min(batch.simulations, trees.capacity - trees.sizes[tree])
            trees.goals[tree] = trees.states[tree * trees.capacity].n + left
        else:
            _, bits = next_random(batch.seed ^ board)
            _, bits = next_random(bits + np.uint64(tree - first))
            reset(trees, tree, board, bits)


@kernel
def _end(trees: Trees, batch: BoardBatch, i: int) -> None:
    """Write the result of board `i`."""
    for k in range(batch.n_each):
        root, at = (batch.firsts[i] + k) * trees.capacity, i * batch.n_each + k
        read_moves(trees, root, batch.values[at])
        for action in range(4):
            batch.visits[at, action] = trees.moves[4 * root + action].n


@kernel
def _look_up(net: Network, trees: Trees, state: int) -> bool:
    """Evaluate the moves of a state by a network, unless their afterstates are in the cache.

    Returns:
        True if all values are finite.
    """
    places = trees.workspace.places
    for action in range(4):
        after = trees.moves[4 * state + action].after
        if after != 0:
            places[action] = cache_slot(trees, state // trees.capacity, after)
            if np.isnan(trees.value_cache[places[action]]):
                prefetch_entries(net, after)
    for action in range(4):
        move = trees.moves[4 * state + action]
        if move.after != 0:
            if np.isnan(trees.value_cache[places[action]]):
                trees.value_cache[places[action]] = value_of(net, move.after)
            move.value = move.net = trees.value_cache[places[action]]
            if not np.isfinite(move.net):
                return False
    return True


@kernel
def search(net: Network, trees: Trees, batch: BoardBatch) -> bool:
    """Search boards, one after the other, with the values of an N-tuple network.

    Returns:
        True if all values are finite; the search ends at the first that is not.
    """
    for i in range(batch.boards.size):
        _begin(trees, batch, i)
        for tree in range(batch.firsts[i], batch.firsts[i] + batch.n_each):
            root = tree * trees.capacity
            if trees.states[root].known == 0:
                if not _look_up(net, trees, root):
                    return False
                back_up_leaf(trees, root)
            while trees.states[root].n < trees.goals[tree]:
                state = simulate(trees, tree)
                if state >= 0:
                    if not _look_up(net, trees, state):
                        return False
                    back_up_leaf(trees, state)
        _end(trees, batch, i)
    return True


# Search of a batch, with evaluation in batches


@kernel
def begin(trees: Trees, batch: BoardBatch) -> None:
    """Begin the searches of all boards."""
    for i in range(batch.boards.size):
        _begin(trees, batch, i)


@kernel
def end(trees: Trees, batch: BoardBatch) -> None:
    """Write the results of all boards."""
    for i in range(batch.boards.size):
        _end(trees, batch, i)


class LeafBatch(NamedTuple):
    """Leaves that wait for evaluation, in arrays that are long enough."""

    states: Ints  # the leaves: states that have been added
    afters: Words  # the afterstates of their legal moves that are not in the cache
    places: Ints  # their indices in the `value_cache` of the trees


def new_leaf_batch(n: int) -> LeafBatch:
    """Return an empty batch with memory for `n` states."""
    return LeafBatch(np.empty(n, np.int64), np.empty(4 * n, np.uint64), np.empty(4 * n, np.int64))


@kernel
def _add_leaf(trees: Trees, state: int, waiting: LeafBatch, at: int) -> int:
    """Add the afterstates of a state that are not in the cache; return the end of the batch."""
    for action in range(4):
        after = trees.moves[4 * state + action].after
        if after != 0:
            place = cache_slot(trees, state // trees.capacity, after)
            if np.isnan(trees.value_cache[place]):
                trees.value_cache[place] = np.inf  # requested
                waiting.afters[at], waiting.places[at] = after, place
                at += 1
    return at


@kernel
def collect(trees: Trees, batch: BoardBatch, leaves: int, waiting: LeafBatch) -> tuple[int, int]:
    """Run simulations until there are leaves to evaluate.

    Args:
        trees: the trees.
        batch: the boards whose searches have begun.
        leaves: the number of states that a tree may add before they are evaluated.
        waiting: is written to.

    Returns:
        The number of states added, 0 when all simulations are done, and the number of their
        afterstates to evaluate.
    """
    n = at = 0
    for i in range(batch.boards.size):
        for tree in range(batch.firsts[i], batch.firsts[i] + batch.n_each):
            state, root = tree * trees.capacity, trees.states[tree * trees.capacity]
            is_new = root.known == 0
            if is_new:
                waiting.states[n], at = state, _add_leaf(trees, state, waiting, at)
                n += 1
            added = tries = 0
            while not is_new and root.n < trees.goals[tree] and max(added, tries // 2) < leaves:
                state = simulate(trees, tree)
                if state >= 0:
                    waiting.states[n], at = state, _add_leaf(trees, state, waiting, at)
                    n, added = n + 1, added + 1
                if added > 0:
                    tries += 1
    return n, at


@kernel
def assign(trees: Trees, waiting: LeafBatch, n: int, values: Floats) -> None:
    """Assign values to the afterstates of a batch, and back up its `n` leaves."""
    for at in range(values.size):
        trees.value_cache[waiting.places[at]] = values[at]
    for state in waiting.states[:n]:
        for action in range(4):
            move = trees.moves[4 * state + action]
            if move.after != 0:
                move.value = move.net = trees.value_cache[
                    cache_slot(trees, state // trees.capacity, move.after)
                ]
        back_up_leaf(trees, state)


# Training examples


def root_moves(trees: Trees, batch: BoardBatch, actions: Ints) -> npt.NDArray[Any]:
    """Return one move of each board, `[n]` of MOVE, from the first of its trees.

    Args:
        trees: the trees.
        batch: the boards that were searched.
        actions: actions of the moves, `[n]`.
    """
    moves: npt.NDArray[Any] = trees.moves[4 * batch.firsts * trees.capacity + actions]
    return moves


@kernel
def write_nodes(
    trees: Trees, batch: BoardBatch, min_visits: int, afters: Words, values: Floats
) -> int:
    """Write the expanded afterstates of the trees, those with outcomes; return their number.

    Args:
        trees: the trees.
        batch: the boards that were searched.
        min_visits: the fewest visits of an afterstate that is written.
        afters: `[n]`, is written to.
        values: `[n, 2]`, is written to: by the search, and by the value function.
    """
    n = 0
    for i in range(batch.boards.size):
        for tree in range(batch.firsts[i], batch.firsts[i] + batch.n_each):
            first = 4 * tree * trees.capacity
            for place in range(first, first + 4 * trees.sizes[tree]):
                move = trees.moves[place]
                if move.after != 0 and move.n_outcomes > 0 and move.n >= min_visits:
                    afters[n], values[n, 0], values[n, 1] = move.after, move.value, move.net
                    n += 1
    return n


@kernel
def _write_path(
    trees: Trees, tree: int, temperature: Floats, afters: Words, values: Floats, n: int
) -> int:
    """Write one path after `n` afterstates: see `write_paths`; return their number together."""
    move_values, weights = trees.workspace.values, trees.workspace.weights
    policy = Policy(MAX, False, temperature)
    state = tree * trees.capacity
    while trees.states[state].known == 1 and trees.states[state].n_legal > 0:
        read_moves(trees, state, move_values)
        weigh(policy, 0, move_values, weights)
        trees.random[tree, 0], bits = next_random(trees.random[tree, 0])
        place = 4 * state + draw(weights, fraction(bits))
        move = trees.moves[place]
        if move.n_outcomes == 0:
            break
        afters[n], values[n, 0], values[n, 1] = move.after, move.value, move.net
        n, state = n + 1, draw_child(trees, tree, place)
    return n


@kernel
def write_paths(
    trees: Trees,
    batch: BoardBatch,
    n_paths: int,
    temperatures: Floats,
    afters: Words,
    values: Floats,
) -> int:
    """Write the afterstates on random paths from the roots; return their number.

    A path draws moves in proportion to `exp(v / max v / T)` and outcomes by chance, and ends at an
    afterstate without an outcome.

    Args:
        trees: the trees.
        batch: the boards that were searched.
        n_paths: the number of paths in each tree.
        temperatures: the lowest and the highest T, between which each path draws its own.
        afters: `[n]`, is written to.
        values: `[n, 2]`, is written to: by the search, and by the value function.
    """
    n, temperature = 0, trees.workspace.temperature
    lowest, highest = temperatures[0], temperatures[1]
    for i in range(batch.boards.size):
        for tree in range(batch.firsts[i], batch.firsts[i] + batch.n_each):
            for _ in range(n_paths):
                trees.random[tree, 0], bits = next_random(trees.random[tree, 0])
                temperature[0] = lowest + fraction(bits) * (highest - lowest)
                n = _write_path(trees, tree, temperature, afters, values, n)
    return n
