"""Trees of Monte-Carlo Softmax search (Watanabe and Matsuzaki): simulations in compiled code.

    state ──move──► afterstate ──tile──► state ──move──► ...

A *state* is a board before a move. Its four *moves* lead to afterstates, the chance nodes of the
tree, and these to further states, their *outcomes*. A simulation

1. *selects*: walks from the root, drawing moves by the selection policy and tiles by chance, to a
   state that is not in the tree;
2. *expands*: adds this state and its legal moves;
3. *evaluates* the afterstates of these moves by a value function, without a playout;
4. *backs up* from this state to the root: the value of a state is the mean of reward plus value of
   its moves, weighted by the backup policy; the value of an afterstate is the mean of its outcomes
   in the tree, weighted by their probabilities, or that of the value function if it has none.

The first simulation adds the root. An afterstate that occurs several times in a tree is evaluated
once. The arrays hold a batch of trees. The paper is "Monte Carlo Softmax search for 2048".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from afterstate.agents.game2048.kernels import hash_board, kernel, trailing_zeros
from afterstate.envs.game2048.rules import (
    P_FOUR,
    P_TWO,
    afterstates,
    count_cells,
    field,
    occupied,
    spawn_cell,
    table,
)
from afterstate.envs.words import Floats, Ints, Word, Words, fraction, next_random

STATE = np.dtype(
    [
        ("board", np.uint64),
        ("value", np.float64),  # expected score still to come
        ("chance", np.float64),  # probability of its tile after the afterstate before it
        ("n", np.int64),  # simulations that visited it, including the one that added it
        ("parent", np.int64),  # the index of the move before; -1 for the root
        ("n_legal", np.int64),  # number of legal moves
        ("known", np.int64),  # 1 once its moves have been evaluated, else 0
    ]
)
"""A state of a tree. State `i` has the moves `4 * i` to `4 * i + 3`."""

MOVE = np.dtype(
    [
        ("after", np.uint64),  # 0 if the move is illegal
        ("reward", np.float64),
        ("value", np.float64),  # of the afterstate
        ("net", np.float64),  # of the afterstate by the value function
        ("mass", np.float64),  # total probability of the outcomes in the tree
        ("sum", np.float64),  # of their values times their probabilities
        ("n", np.int64),  # simulations that made it
        ("n_outcomes", np.int64),  # number of its outcomes in the tree
    ]
)
"""A move of a state, and the afterstate that it leads to."""

PLAIN, LOG, MAX = range(3)
"""Scalings of values by policies: none, ln v, or v / max v."""


class Policy(NamedTuple):
    """A softmax policy: the weight of move `i` is `exp(v'_i / T)`, with its scaled value v'.

    The temperature depends on the number n of simulations, including the current one. Temperature 0
    gives all weight to the first of the best moves, infinity the same weight to all.
    """

    scale: int  # PLAIN, LOG or MAX
    total: bool  # True: n counts all simulations; False: those that visited the state
    temperatures: Floats  # by n; the last one holds for all larger n


class Workspace(NamedTuple):
    """Scratch memory of kernels."""

    values: Floats  # [4]
    weights: Floats  # [4]
    places: Ints  # [4]
    temperature: Floats  # [1]


class Trees(NamedTuple):
    """A batch of trees and the settings of their search, as kernels take them."""

    select: Policy
    backup: Policy
    depth: int  # the largest number of moves between the root and a state
    fixed: bool  # True: an afterstate has a single outcome, drawn before the search
    blend: bool  # True: outcomes that are not in the tree have the value function's value
    widening: float  # exponent: after n visits an afterstate has at most n ** widening outcomes
    capacity: int  # states for which each tree has memory
    states: npt.NDArray[Any]  # [trees * capacity] of STATE; the first of each tree is its root
    moves: npt.NDArray[Any]  # [4 * states] of MOVE
    outcomes: npt.NDArray[np.int32]  # [moves, 32]: states by cell and tile, or -1
    cache_keys: Words  # [trees * cache_size]: a hash table of each tree's afterstates; 0: empty
    value_cache: Floats  # [trees * cache_size]: their values by the value function; NaN: unknown
    cache_size: int  # a power of 2 above the number of afterstates in a tree
    sizes: Ints  # [trees]: number of states
    goals: Ints  # [trees]: visits of the root at which the search ends
    random: Words  # [trees, 2]: the random state, and the seed of fixed outcomes
    move_table: Words
    size: tuple[int, int]  # rows and columns of the board
    workspace: Workspace


def new_trees(
    select: Policy,
    backup: Policy,
    *,
    n: int = 1,
    capacity: int = 1,
    depth: int | None = None,
    fixed: bool = False,
    blend: bool = False,
    widening: float = 1.0,
    size: tuple[int, int] = (4, 4),
) -> Trees:
    """Return `n` empty trees of `capacity` states each, up to a kilobyte a state."""
    cache_size = 1 << (6 * capacity).bit_length()
    return Trees(
        select=select,
        backup=backup,
        depth=1 << 40 if depth is None else depth,
        fixed=fixed,
        blend=blend,
        widening=float(widening),
        capacity=capacity,
        states=np.empty(n * capacity, STATE),
        moves=np.empty(4 * n * capacity, MOVE),
        outcomes=np.empty((4 * n * capacity, 32), np.int32),
        cache_keys=np.empty(n * cache_size, np.uint64),
        value_cache=np.empty(n * cache_size),
        cache_size=cache_size,
        sizes=np.zeros(n, np.int64),
        goals=np.zeros(n, np.int64),
        random=np.zeros((n, 2), np.uint64),
        move_table=table(*size),
        size=size,
        workspace=Workspace(np.empty(4), np.empty(4), np.empty(4, np.int64), np.empty(1)),
    )


def enlarged(trees: Trees, n: int) -> Trees:
    """Return the same trees followed by empty ones, `n` together."""
    more: dict[str, Any] = {}
    n_before = trees.sizes.size
    for name in (
        "states",
        "moves",
        "outcomes",
        "cache_keys",
        "value_cache",
        "sizes",
        "goals",
        "random",
    ):
        before = getattr(trees, name)
        more[name] = np.zeros((len(before) // n_before * n, *before.shape[1:]), before.dtype)
        more[name][: len(before)] = before
    return trees._replace(**more)


# Policies


@kernel
def weigh(policy: Policy, n: int, values: Floats, weights: Floats) -> None:
    """Write the weights of moves; the best ones have weight 1.

    Args:
        policy: the policy.
        n: the number of simulations that determines the temperature.
        values: reward plus value of the moves, minus infinity where a move is illegal; at least one
            is legal. LOG and MAX raise values below 1 to 1, since they need positive ones.
        weights: is written to; 0 where a move is illegal.
    """
    temperature = policy.temperatures[min(n, policy.temperatures.size - 1)]
    best, first = -np.inf, 0
    for action in range(4):
        if values[action] > best:
            best, first = values[action], action
    top = max(best, 1.0)
    for action in range(4):
        value = values[action]
        if value == -np.inf:
            weights[action] = 0.0
        elif temperature == 0:
            weights[action] = 1.0 if action == first else 0.0
        elif policy.scale == LOG:
            weights[action] = np.exp(np.log(max(value, 1.0) / top) / temperature)
        elif policy.scale == MAX:
            weights[action] = np.exp((max(value, 1.0) / top - 1.0) / temperature)
        else:
            weights[action] = np.exp((value - best) / temperature)


@kernel
def draw(weights: Floats, fraction: float) -> int:
    """Return the move in whose share of the interval from 0 to 1 the fraction lies."""
    left = fraction * (weights[0] + weights[1] + weights[2] + weights[3])
    drawn = 0
    for action in range(4):
        if weights[action] > 0:
            drawn = action
            if left < weights[action]:
                break
            left -= weights[action]
    return drawn


@kernel
def read_moves(trees: Trees, state: int, values: Floats) -> None:
    """Write reward plus value of the moves of a state, minus infinity for illegal ones."""
    for action in range(4):
        move = trees.moves[4 * state + action]
        values[action] = -np.inf if move.after == 0 else move.reward + move.value


@kernel
def _backed_up_value(trees: Trees, state: int, n_all: int) -> float:
    """Return the value of a state by the backup policy, 0 if the game is over.

    Args:
        trees: the trees.
        state: its index.
        n_all: the number of simulations in its tree.
    """
    if trees.states[state].n_legal == 0:
        return 0.0
    values, weights = trees.workspace.values, trees.workspace.weights
    read_moves(trees, state, values)
    weigh(trees.backup, n_all if trees.backup.total else trees.states[state].n, values, weights)
    weighted = all_weights = 0.0
    for action in range(4):
        if weights[action] > 0:
            weighted += weights[action] * values[action]
            all_weights += weights[action]
    return weighted / all_weights


# Growing


@kernel
def cache_slot(trees: Trees, tree: int, after: Word) -> int:
    """Return the index in `value_cache` of an afterstate of a tree, added with NaN if it is new."""
    first, mask = tree * trees.cache_size, trees.cache_size - 1
    at = np.int64(hash_board(after)) & mask
    while trees.cache_keys[first + at] != after:
        if trees.cache_keys[first + at] == 0:
            trees.cache_keys[first + at], trees.value_cache[first + at] = after, np.nan
            break
        at = (at + 1) & mask
    return int(first + at)


@kernel
def _clear_cache(trees: Trees, tree: int) -> None:
    """Empty a tree's value cache."""
    trees.cache_keys[tree * trees.cache_size : (tree + 1) * trees.cache_size] = 0


@kernel
def _add(trees: Trees, tree: int, board: Word, chance: float) -> int:
    """Add a state without a parent, whose moves are to be evaluated next, and return its index."""
    index = tree * trees.capacity + trees.sizes[tree]
    trees.sizes[tree] += 1
    state = trees.states[index]
    state.board, state.value, state.chance = board, 0.0, chance
    state.n, state.parent, state.n_legal, state.known = 1, -1, 0, 0
    afters, rewards = afterstates(board, trees.move_table)
    for action in range(4):
        move = trees.moves[4 * index + action]
        move.after, move.n = 0, 0
        if afters[action] != board:
            move.after, move.reward = afters[action], rewards[action]
            move.mass, move.sum, move.n_outcomes = 0.0, 0.0, 0
            state.n_legal += 1
    return int(index)


@kernel
def reset(trees: Trees, tree: int, board: Word, rng: Word) -> None:
    """Replace a tree by a new root, whose moves are to be evaluated next."""
    trees.sizes[tree] = 0
    _clear_cache(trees, tree)
    trees.random[tree, 0], trees.random[tree, 1] = next_random(rng)
    _add(trees, tree, board, 1.0)


@kernel
def _draw_slot(trees: Trees, tree: int, place: int, depth: int) -> int:
    """Draw a tile for the afterstate of a move, as 2 * cell, plus 1 for a 4.

    In trees without chance it depends only on the tree and the depth.
    """
    after = trees.moves[place].after
    empty: Word = field(trees.size[0], trees.size[1]) & ~occupied(after)
    if trees.fixed:
        odd = np.uint64(2 * depth + 1) * np.uint64(0x9E37_79B9_7F4A_7C15)
        tile, _ = spawn_cell(empty, trees.random[tree, 1] ^ odd)
    else:
        tile, trees.random[tree, 0] = spawn_cell(empty, trees.random[tree, 0])
    at = np.int64(trailing_zeros(tile))
    return int((at >> 2) * 2 + (at & 3))


@kernel
def draw_child(trees: Trees, tree: int, place: int) -> int:
    """Draw one of a move's outcomes in the tree by their probabilities.

    Outcomes that wait for evaluation are skipped; if all do, the first is returned.
    """
    trees.random[tree, 0], bits = next_random(trees.random[tree, 0])
    left, drawn, first = fraction(bits) * trees.moves[place].mass, -1, -1
    for state in trees.outcomes[place]:
        if state >= 0:
            first = state if first < 0 else first
            if trees.states[state].known == 1 and left >= 0:
                drawn = state
                left -= trees.states[state].chance
    return int(drawn if drawn >= 0 else first)


@kernel
def _outcome(trees: Trees, tree: int, place: int, depth: int) -> int:
    """Return the state that a drawn tile makes of a move's afterstate, added if it is new.

    Args:
        trees: the trees.
        tree: the index of the tree.
        place: the index of the move.
        depth: the number of moves between the root and this one.
    """
    move, outcomes = trees.moves[place], trees.outcomes[place]
    if move.n_outcomes == 0:
        outcomes[:] = -1
    slot = _draw_slot(trees, tree, place, depth)
    if outcomes[slot] < 0 and trees.widening < 1:
        if move.n_outcomes >= max(1.0, move.n**trees.widening):
            return draw_child(trees, tree, place)
    if outcomes[slot] < 0:
        n_empty = count_cells(field(trees.size[0], trees.size[1]) & ~occupied(move.after))
        chance = 1.0 if trees.fixed else (P_FOUR if slot & 1 else P_TWO) / n_empty
        tile = np.uint64(1 + (slot & 1)) << np.uint64(4 * (slot >> 1))
        outcomes[slot] = _add(trees, tree, move.after | tile, chance)
        trees.states[outcomes[slot]].parent = place
        move.n_outcomes += 1
    return int(outcomes[slot])


# A simulation


@kernel
def _back_up(trees: Trees, tree: int, state: int) -> None:
    """Update the values from a state up to the root."""
    root = tree * trees.capacity
    n_all = trees.states[root].n
    while True:
        value, node = _backed_up_value(trees, state, n_all), trees.states[state]
        change, node.value = value - node.value, value
        if state == root:
            return
        move = trees.moves[node.parent]
        move.sum += node.chance * change
        if trees.blend:
            move.value = move.sum + (1.0 - move.mass) * move.net
        else:
            move.value = move.sum / move.mass
        state = node.parent // 4


@kernel
def back_up_leaf(trees: Trees, state: int) -> None:
    """Back up a new state whose moves have been evaluated."""
    leaf = trees.states[state]
    leaf.known = 1
    if leaf.parent >= 0:
        trees.moves[leaf.parent].mass += leaf.chance
    _back_up(trees, state // trees.capacity, state)


@kernel
def _undo(trees: Trees, place: int) -> None:
    """Uncount the visit of a simulation to a move and to all nodes before it."""
    while place >= 0:
        trees.moves[place].n -= 1
        trees.states[place // 4].n -= 1
        place = trees.states[place // 4].parent


@kernel
def simulate(trees: Trees, tree: int) -> int:
    """Run one simulation from the root of a tree, up to the evaluation.

    Returns:
        The state that it added, whose moves are to be evaluated; -1 if it reached the end of a game
        or the largest depth, which is backed up already; -2 if it reached a state that still waits
        for its evaluation, in which case the simulation does not count.
    """
    values, weights = trees.workspace.values, trees.workspace.weights
    state, n_all = tree * trees.capacity, trees.states[tree * trees.capacity].n + 1
    for depth in range(trees.depth):
        here = trees.states[state]
        if here.known == 0:
            _undo(trees, here.parent)
            return -2
        here.n += 1
        if here.n_legal == 0 or depth == trees.depth - 1:
            break
        read_moves(trees, state, values)
        weigh(trees.select, n_all if trees.select.total else here.n, values, weights)
        trees.random[tree, 0], bits = next_random(trees.random[tree, 0])
        place = 4 * state + draw(weights, fraction(bits))
        trees.moves[place].n += 1
        n_states = trees.sizes[tree]
        state = _outcome(trees, tree, place, depth)
        if trees.sizes[tree] > n_states:
            if trees.states[state].n_legal > 0:
                return state
            back_up_leaf(trees, state)
            return -1
    _back_up(trees, tree, state)
    return -1


# From one search to the next


@kernel
def _find(trees: Trees, tree: int, board: Word) -> int:
    """Return the state of a board, the root or one after a move and a tile; -1 if there is none."""
    root = tree * trees.capacity
    if trees.sizes[tree] > 0:
        if trees.states[root].board == board:
            return root
        for place in range(4 * root, 4 * root + 4):
            move = trees.moves[place]
            if move.after != 0 and move.n_outcomes > 0:
                for state in trees.outcomes[place]:
                    if state >= 0 and trees.states[state].board == board:
                        return int(state)
    return -1


@kernel
def _move_state(trees: Trees, old: int, new: int) -> None:
    """Move a state to another index, relink its parent, and mark its children: see `reroot`."""
    trees.states[new] = trees.states[old]
    parent = trees.states[new].parent
    if parent >= 0:
        for slot in range(32):
            if trees.outcomes[parent, slot] == old:
                trees.outcomes[parent, slot] = new
    for action in range(4):
        trees.moves[4 * new + action] = trees.moves[4 * old + action]
        move = trees.moves[4 * new + action]
        if move.after != 0 and move.n_outcomes > 0:
            for slot in range(32):
                state = trees.outcomes[4 * old + action, slot]
                trees.outcomes[4 * new + action, slot] = state
                if state >= 0:
                    trees.states[state].parent, trees.states[state].known = 4 * new + action, 1


@kernel
def reroot(trees: Trees, tree: int, board: Word) -> bool:
    """Make a board, the root of a tree or an outcome of one of its moves, the new root.

    States are numbered in the order of their addition, parents first, so that the subtree can be
    moved to the front one state after the other. After a search all states are `known`, so the
    field is free to mark the states of the subtree, which alone remain.

    Args:
        trees: the trees.
        tree: the index of the tree.
        board: the new root.

    Returns:
        False if the board is not in the tree, which is then to be `reset`.
    """
    root = tree * trees.capacity
    subtree = _find(trees, tree, board)
    if subtree < 0 or subtree == root:
        return subtree == root
    end, new = root + trees.sizes[tree], root
    for state in range(root, end):
        trees.states[state].known = 0
    top = trees.states[subtree]
    top.known, top.parent, top.chance = 1, -1, 1.0
    for state in range(subtree, end):
        if trees.states[state].known == 1:
            _move_state(trees, state, new)
            new += 1
    trees.sizes[tree] = new - root
    _clear_cache(trees, tree)  # else the cache would fill up over many moves
    return True


@kernel
def match_trees(trees: Trees, boards: Words, places: Ints, taken: npt.NDArray[np.bool_]) -> None:
    """Write for each board the tree that has it as root or after a move and a tile, or -1.

    Args:
        trees: the trees.
        boards: mostly in the order of their trees.
        places: is written to: the index of the tree.
        taken: is written to: True for trees that belong to a board; all False at first.
    """
    n_trees, last = trees.sizes.size, -1
    for i in range(boards.size):
        places[i] = -1
        for k in range(n_trees):
            tree = (last + 1 + k) % n_trees
            if not taken[tree] and _find(trees, tree, boards[i]) >= 0:
                places[i], taken[tree], last = tree, True, tree
                break
