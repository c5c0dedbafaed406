"""Trees of Monte-Carlo Softmax search: what a simulation does, in compiled code.

    state ──move──► afterstate ──tile──► state ──move──► ...

A *state* is a board before a move. Its four *moves* lead to afterstates, which are the chance nodes
of the tree, and these to further states, their *outcomes*. A simulation

1. *selects*: walks from the root by moves that the policy of selection draws, and by tiles that
   chance draws, to a state that is not in the tree;
2. *expands*: adds this state and its legal moves;
3. *evaluates* the afterstates of these moves by a value function, without a playout;
4. *backs up*: from this state to the root, a state is worth the mean of reward plus value of its
   moves, weighted by the policy of backup, and an afterstate the mean of its outcomes in the tree,
   weighted by their probabilities. Without an outcome it is worth what the value function says.

The first simulation adds the root. An afterstate that occurs in several places of a tree is valued
once. Many trees stand side by side in the same arrays. Watanabe and
Matsuzaki, "Monte Carlo Softmax search for 2048", describe the search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba import boolean, float64, int64, njit, uint64, void

from afterstate.agents.game2048.kernels import count_zeros
from afterstate.agents.game2048.values.ntuple import KERNEL, Indices
from afterstate.envs.game2048.rules import (
    afterstates,
    count_cells,
    field,
    occupied,
    spawn_cell,
    table,
)
from afterstate.envs.words import Word, Words, next_random

STATE = np.dtype(
    [
        ("board", np.uint64),
        ("value", np.float64),  # expected score still to come
        ("chance", np.float64),  # of its tile, in the afterstate before
        ("n", np.int64),  # how many simulations came here, with the one that added it
        ("parent", np.int64),  # the move before; -1 for the root
        ("n_legal", np.int64),  # how many moves are legal
        ("known", np.int64),  # whether its moves have been valued
    ]
)
"""A state of a tree. That with number `i` has the moves `4 * i` to `4 * i + 3`."""

MOVE = np.dtype(
    [
        ("after", np.uint64),  # 0 if the move is illegal
        ("reward", np.float64),
        ("value", np.float64),  # of the afterstate
        ("net", np.float64),  # what the value function says of it
        ("mass", np.float64),  # the probability of the outcomes that are in the tree, together
        ("sum", np.float64),  # their values, times their probabilities
        ("n", np.int64),  # how many simulations made it
        ("n_outcomes", np.int64),  # how many of its outcomes are in the tree
    ]
)
"""A move of a state, and the afterstate that it leads to."""

PLAIN, LOG, MAX = range(3)
"""What a policy does with values before it weighs them: nothing, ln v, or v / max v."""

Values = npt.NDArray[np.float64]


class Policy(NamedTuple):
    """A softmax policy: the weight of move `i` is `exp(v'_i / T)`, by its value.

    The temperature goes by a number n of simulations, with the one that is being made. Temperature
    0 gives all weight to the first of the best moves, infinity the same to all.
    """

    scale: int  # PLAIN, LOG or MAX
    total: bool  # whether n counts all simulations, else those that came to the state
    temperatures: Values  # by n, from 0; the last one holds from there on


class Room(NamedTuple):
    """Where kernels write for a moment."""

    values: Values  # [4]
    weights: Values  # [4]
    places: Indices  # [4]
    entries: Indices  # [4 * entries of the network]
    temperature: Values  # [1]


class Trees(NamedTuple):
    """Trees side by side, and how to search, in the form that kernels take."""

    select: Policy
    backup: Policy
    depth: int  # no state is further than so many moves from the root
    fixed: bool  # whether an afterstate has a single outcome, drawn before the search
    blend: bool  # whether the value function speaks for outcomes that are not in the tree
    widening: float  # after n visits an afterstate has at most n ** widening outcomes, rounded up
    capacity: int  # how many states each has room for
    states: npt.NDArray[Any]  # [trees * capacity] of STATE; the first of each tree is its root
    moves: npt.NDArray[Any]  # [4 * states] of MOVE
    outcomes: npt.NDArray[np.int32]  # [moves, 32]: states by cell and tile, or -1
    seen: Words  # [trees * span]: the afterstates of each tree, in open addressing, or 0
    said: Values  # [trees * span]: what the value function says of them, NaN before it is asked
    span: int  # a power of 2, more than there are afterstates in a tree
    sizes: Indices  # [trees]: how many states each has
    goals: Indices  # [trees]: how many simulations its root is to have seen
    random: Words  # [trees, 2]: the random state, and that from which fixed outcomes are drawn
    table: Words  # the move table
    size: tuple[int, int]  # rows and columns of the board
    room: Room


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
    n_entries: int = 0,
) -> Trees:
    """Room for `n` trees of `capacity` states each: up to a kilobyte a state."""
    span = 1 << (6 * capacity).bit_length()
    places, entries = np.empty(4, np.int64), np.empty(4 * n_entries, np.int64)
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
        seen=np.empty(n * span, np.uint64),
        said=np.empty(n * span),
        span=span,
        sizes=np.zeros(n, np.int64),
        goals=np.zeros(n, np.int64),
        random=np.zeros((n, 2), np.uint64),
        table=table(*size),
        size=size,
        room=Room(np.empty(4), np.empty(4), places, entries, np.empty(1)),
    )


def grown(trees: Trees, n: int) -> Trees:
    """The same trees, and empty ones after them: `n` together."""
    more: dict[str, Any] = {}
    n_before = trees.sizes.size
    for name in ("states", "moves", "outcomes", "seen", "said", "sizes", "goals", "random"):
        before = getattr(trees, name)
        more[name] = np.zeros((len(before) // n_before * n, *before.shape[1:]), before.dtype)
        more[name][: len(before)] = before
    return trees._replace(**more)


_ANY = Policy(PLAIN, False, np.zeros(1))
POLICY = numba.typeof(_ANY)
TREES = numba.typeof(new_trees(_ANY, _ANY))


# Policies


@njit(void(POLICY, int64, float64[::1], float64[::1]), **KERNEL)
def weigh(policy: Policy, n: int, values: Values, weights: Values) -> None:
    """Writes the weights of moves, of which the best ones have 1.

    Args:
        policy: the policy.
        n: the number of simulations that its temperature goes by.
        values: reward plus value of the moves, minus infinity where a move is illegal; at least one
            is legal. LOG and MAX take values below 1 as 1, for ln v and v / max v need some.
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


@njit(float64(uint64), **KERNEL)
def fraction(bits: Word) -> float:
    """Random bits as a number from 0 on and below 1."""
    return float(np.int64(np.uint64(bits) >> np.uint64(11))) / 9007199254740992.0  # 2**53


@njit(int64(float64[::1], float64), **KERNEL)
def draw(weights: Values, fraction: float) -> int:
    """The move that a number from 0 on and below 1 stands for, when moves share this interval."""
    left = fraction * (weights[0] + weights[1] + weights[2] + weights[3])
    chosen = 0
    for action in range(4):
        if weights[action] > 0:
            chosen = action
            if left < weights[action]:
                break
            left -= weights[action]
    return chosen


@njit(void(TREES, int64, float64[::1]), **KERNEL)
def read_moves(trees: Trees, state: int, values: Values) -> None:
    """Writes reward plus value of the moves of a state."""
    for action in range(4):
        move = trees.moves[4 * state + action]
        values[action] = -np.inf if move.after == 0 else move.reward + move.value


@njit(float64(TREES, int64, int64), **KERNEL)
def _worth(trees: Trees, state: int, n_all: int) -> float:
    """What a state is worth by the policy of backup, 0 if the game is over.

    Args:
        trees: the trees.
        state: its number.
        n_all: how many simulations there were in its tree.
    """
    if trees.states[state].n_legal == 0:
        return 0.0
    values, weights = trees.room.values, trees.room.weights
    read_moves(trees, state, values)
    weigh(trees.backup, n_all if trees.backup.total else trees.states[state].n, values, weights)
    weighted = all_weights = 0.0
    for action in range(4):
        if weights[action] > 0:
            weighted += weights[action] * values[action]
            all_weights += weights[action]
    return weighted / all_weights


# Growing


@njit(int64(TREES, int64, uint64), **KERNEL)
def recall(trees: Trees, tree: int, after: Word) -> int:
    """The place in `said` of what the value function says of an afterstate of a tree."""
    first, mask = tree * trees.span, trees.span - 1
    at = np.int64((after * np.uint64(0x9E37_79B9_7F4A_7C15)) >> np.uint64(32)) & mask
    while trees.seen[first + at] != after:
        if trees.seen[first + at] == 0:
            trees.seen[first + at], trees.said[first + at] = after, np.nan
            break
        at = (at + 1) & mask
    return int(first + at)


@njit(void(TREES, int64), **KERNEL)
def _forget(trees: Trees, tree: int) -> None:
    """Forgets what the value function said of a tree's afterstates."""
    trees.seen[tree * trees.span : (tree + 1) * trees.span] = 0


@njit(int64(TREES, int64, int64, uint64, float64), **KERNEL)
def _add(trees: Trees, tree: int, parent: int, board: Word, chance: float) -> int:
    """Adds a state, whose moves are to be valued then, and returns its number."""
    number = tree * trees.capacity + trees.sizes[tree]
    trees.sizes[tree] += 1
    state = trees.states[number]
    state.board, state.value, state.chance = board, 0.0, chance
    state.n, state.parent, state.n_legal, state.known = 1, parent, 0, 0
    afters, rewards = afterstates(board, trees.table)
    for action in range(4):
        move = trees.moves[4 * number + action]
        move.after, move.n = 0, 0
        if afters[action] != board:
            move.after, move.reward = afters[action], rewards[action]
            move.mass, move.sum, move.n_outcomes = 0.0, 0.0, 0
            state.n_legal += 1
    return int(number)


@njit(void(TREES, int64, uint64, uint64), **KERNEL)
def plant(trees: Trees, tree: int, board: Word, rng: Word) -> None:
    """Makes a tree anew, of its root alone, whose moves are to be valued then."""
    trees.sizes[tree] = 0
    _forget(trees, tree)
    trees.random[tree, 0], trees.random[tree, 1] = next_random(rng)
    _add(trees, tree, -1, board, 1.0)


@njit(int64(TREES, int64, int64, int64), **KERNEL)
def _draw_slot(trees: Trees, tree: int, place: int, depth: int) -> int:
    """Draws a tile for the afterstate of a move, as 2 * cell, plus 1 for a 4.

    A fixed one depends on the tree and on how many moves from the root it is, and on nothing else.
    """
    after = trees.moves[place].after
    empty: Word = field(trees.size[0], trees.size[1]) & ~occupied(after)
    if trees.fixed:
        odd = np.uint64(2 * depth + 1) * np.uint64(0x9E37_79B9_7F4A_7C15)
        tile, _ = spawn_cell(empty, trees.random[tree, 1] ^ odd)
    else:
        tile, trees.random[tree, 0] = spawn_cell(empty, trees.random[tree, 0])
    at = np.int64(count_zeros(tile))
    return int((at >> 2) * 2 + (at & 3))


@njit(int64(TREES, int64, int64), **KERNEL)
def draw_known(trees: Trees, tree: int, place: int) -> int:
    """Draws one of the outcomes of a move that are in the tree, by their probabilities.

    Those that wait for their values are drawn only if all do, and then it is the first.
    """
    trees.random[tree, 0], bits = next_random(trees.random[tree, 0])
    left, chosen, first = fraction(bits) * trees.moves[place].mass, -1, -1
    for state in trees.outcomes[place]:
        if state >= 0:
            first = state if first < 0 else first
            if trees.states[state].known == 1 and left >= 0:
                chosen = state
                left -= trees.states[state].chance
    return int(chosen if chosen >= 0 else first)


@njit(int64(TREES, int64, int64, int64), **KERNEL)
def _outcome(trees: Trees, tree: int, place: int, depth: int) -> int:
    """The state that chance makes of the afterstate of a move, added if it is not in the tree.

    Args:
        trees: the trees.
        tree: which.
        place: of the move.
        depth: how many moves from the root it is.
    """
    move, outcomes = trees.moves[place], trees.outcomes[place]
    if move.n_outcomes == 0:
        outcomes[:] = -1
    slot = _draw_slot(trees, tree, place, depth)
    if outcomes[slot] < 0 and trees.widening < 1:
        if move.n_outcomes >= max(1.0, move.n**trees.widening):
            return draw_known(trees, tree, place)
    if outcomes[slot] < 0:
        n_empty = count_cells(field(trees.size[0], trees.size[1]) & ~occupied(move.after))
        chance = 1.0 if trees.fixed else (0.1 if slot & 1 else 0.9) / n_empty
        tile = np.uint64(1 + (slot & 1)) << np.uint64(4 * (slot >> 1))
        outcomes[slot] = _add(trees, tree, place, move.after | tile, chance)
        move.n_outcomes += 1
    return int(outcomes[slot])


# A simulation


@njit(void(TREES, int64, int64), **KERNEL)
def _back_up(trees: Trees, tree: int, state: int) -> None:
    """Brings what a state is worth to all before it, up to the root."""
    root = tree * trees.capacity
    n_all = trees.states[root].n
    while True:
        value, found = _worth(trees, state, n_all), trees.states[state]
        change, found.value = value - found.value, value
        if state == root:
            return
        move = trees.moves[found.parent]
        move.sum += found.chance * change
        if trees.blend:
            move.value = move.sum + (1.0 - move.mass) * move.net
        else:
            move.value = move.sum / move.mass
        state = found.parent // 4


@njit(void(TREES, int64), **KERNEL)
def settle(trees: Trees, state: int) -> None:
    """Backs up a new state, whose moves have been valued."""
    found = trees.states[state]
    found.known = 1
    if found.parent >= 0:
        trees.moves[found.parent].mass += found.chance
    _back_up(trees, state // trees.capacity, state)


@njit(void(TREES, int64), **KERNEL)
def _undo(trees: Trees, place: int) -> None:
    """Takes back that a simulation came by a move, and by all before it."""
    while place >= 0:
        trees.moves[place].n -= 1
        trees.states[place // 4].n -= 1
        place = trees.states[place // 4].parent


@njit(int64(TREES, int64), **KERNEL)
def simulate(trees: Trees, tree: int) -> int:
    """Walks from the root of a tree to where the simulation ends.

    Returns:
        The state that it has added and whose moves are to be valued; -1 if it came to the end of a
        game or of what may be searched, which is backed up already; -2 if it came to a state that
        still waits for its values: it does not count then.
    """
    values, weights = trees.room.values, trees.room.weights
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
            settle(trees, state)
            return -1
    _back_up(trees, tree, state)
    return -1


# From one search to the next


@njit(int64(TREES, int64, uint64), **KERNEL)
def _find(trees: Trees, tree: int, board: Word) -> int:
    """The state that is a board: the root, or one after a move and a tile; -1 if there is none."""
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


@njit(void(TREES, int64, int64), **KERNEL)
def _move_state(trees: Trees, old: int, new: int) -> None:
    """Moves a state to another place; tells its parent, and its children that they are kept."""
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


@njit(boolean(TREES, int64, uint64), **KERNEL)
def keep(trees: Trees, tree: int, board: Word) -> bool:
    """Keeps what a tree knows of a board, its root or an outcome of that, as the new tree.

    States are numbered in the order in which they were added, parents first, so that they can be
    moved to the front one after the other.

    Args:
        trees: the trees.
        tree: which.
        board: the new root.

    Returns:
        Whether it is kept. If not, the tree is to be planted.
    """
    root = tree * trees.capacity
    found = _find(trees, tree, board)
    if found < 0 or found == root:
        return found == root
    end, new = root + trees.sizes[tree], root
    for state in range(root, end):
        trees.states[state].known = 0
    trees.states[found].known, trees.states[found].parent, trees.states[found].chance = 1, -1, 1.0
    for state in range(found, end):
        if trees.states[state].known == 1:
            _move_state(trees, state, new)
            new += 1
    trees.sizes[tree] = new - root
    _forget(trees, tree)  # or the memory would be full some day
    return True


@njit(void(TREES, uint64[::1], int64[::1], boolean[::1]), **KERNEL)
def follow(trees: Trees, boards: Words, places: Indices, taken: npt.NDArray[np.bool_]) -> None:
    """Writes for each board which tree has it, at once or after a move and a tile, or -1.

    Args:
        trees: the trees.
        boards: mostly in the order of their trees.
        places: is written to.
        taken: which trees belong to a board, none at first; is written to.
    """
    n_trees, last = trees.sizes.size, -1
    for i in range(boards.size):
        places[i] = -1
        for k in range(n_trees):
            tree = (last + 1 + k) % n_trees
            if not taken[tree] and _find(trees, tree, boards[i]) >= 0:
                places[i], taken[tree], last = tree, True, tree
                break
