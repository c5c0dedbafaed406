"""Searches by trees of `softmax_tree.py`: of boards one after the other, or side by side.

With a network of tables the values are looked up at once, and all is compiled. Other value
functions are asked for many afterstates together: all trees are walked to where they need values,
and go on when they have them. Both find the same. What trees have found can be taken from them as
examples to learn from.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba import boolean, float64, int64, njit, types, uint64, void

from afterstate.agents.game2048.search.softmax_tree import (
    MAX,
    TREES,
    Policy,
    Trees,
    Values,
    draw,
    draw_known,
    fraction,
    keep,
    plant,
    read_moves,
    recall,
    settle,
    simulate,
    weigh,
)
from afterstate.agents.game2048.values.ntuple import (
    KERNEL,
    NETWORK,
    Indices,
    Network,
    look_up,
    total,
)
from afterstate.envs.words import Word, Words, next_random


class Order(NamedTuple):
    """Boards to be searched, in the form that kernels take."""

    boards: Words  # [n]
    firsts: Indices  # [n]: the first tree of each
    n_each: int  # how many trees each has
    simulations: int  # to be made in each tree, fewer if a kept one gets full
    seed: Word  # of chance
    keeps: bool  # whether to go on from what the trees know of the boards
    values: Values  # [n * n_each, 4], is written to: reward plus value of the moves
    visits: Indices  # [n * n_each, 4], is written to: how many simulations began with each of them


def new_order(
    boards: Words, firsts: Indices, n_each: int, simulations: int, seed: int, keeps: bool
) -> Order:
    """An order with room for what will be found."""
    n = len(boards) * n_each
    values, visits = np.empty((n, 4)), np.empty((n, 4), np.int64)
    return Order(boards, firsts, n_each, simulations, np.uint64(seed), keeps, values, visits)


ORDER = numba.typeof(new_order(np.zeros(1, np.uint64), np.zeros(1, np.int64), 1, 1, 0, False))


@njit(void(TREES, ORDER, int64), **KERNEL)
def _begin(trees: Trees, order: Order, i: int) -> None:
    """Begins the search of board `i`."""
    board, first = order.boards[i], order.firsts[i]
    for tree in range(first, first + order.n_each):
        trees.goals[tree] = order.simulations
        if order.keeps and keep(trees, tree, board):
            left = min(order.simulations, trees.capacity - trees.sizes[tree])
            trees.goals[tree] = trees.states[tree * trees.capacity].n + left
        else:
            _, bits = next_random(order.seed ^ board)
            _, bits = next_random(bits + np.uint64(tree - first))
            plant(trees, tree, board, bits)


@njit(void(TREES, ORDER, int64), **KERNEL)
def _end(trees: Trees, order: Order, i: int) -> None:
    """Writes what was found for board `i`."""
    for k in range(order.n_each):
        root, at = (order.firsts[i] + k) * trees.capacity, i * order.n_each + k
        read_moves(trees, root, order.values[at])
        for action in range(4):
            order.visits[at, action] = trees.moves[4 * root + action].n


@njit(boolean(NETWORK, TREES, int64), **KERNEL)
def _look_up(net: Network, trees: Trees, state: int) -> bool:
    """Values the moves of a state by a network, unless their afterstates have been before.

    Returns:
        Whether all values are numbers.
    """
    entries, places, n = trees.room.entries, trees.room.places, net.symmetric * net.masks.size
    for action in range(4):
        after = trees.moves[4 * state + action].after
        if after != 0:
            places[action] = recall(trees, state // trees.capacity, after)
            if np.isnan(trees.said[places[action]]):
                look_up(net, after, entries, action * n)
    for action in range(4):
        move = trees.moves[4 * state + action]
        if move.after != 0:
            if np.isnan(trees.said[places[action]]):
                trees.said[places[action]] = total(net, entries, action * n)
            move.value = move.net = trees.said[places[action]]
            if not np.isfinite(move.net):
                return False
    return True


@njit(boolean(NETWORK, TREES, ORDER), **KERNEL, nogil=True)
def search(net: Network, trees: Trees, order: Order) -> bool:
    """Searches boards, one after the other, with the values of a network of tables.

    Returns:
        Whether all values are numbers. It ends at once where they are not.
    """
    for i in range(order.boards.size):
        _begin(trees, order, i)
        for tree in range(order.firsts[i], order.firsts[i] + order.n_each):
            root = tree * trees.capacity
            if trees.states[root].known == 0:
                if not _look_up(net, trees, root):
                    return False
                settle(trees, root)
            while trees.states[root].n < trees.goals[tree]:
                state = simulate(trees, tree)
                if state >= 0:
                    if not _look_up(net, trees, state):
                        return False
                    settle(trees, state)
        _end(trees, order, i)
    return True


# Searches side by side, whose afterstates are valued together


@njit(void(TREES, ORDER), **KERNEL)
def begin(trees: Trees, order: Order) -> None:
    """Begins the searches of all boards."""
    for i in range(order.boards.size):
        _begin(trees, order, i)


@njit(void(TREES, ORDER), **KERNEL)
def end(trees: Trees, order: Order) -> None:
    """Writes what was found for all boards."""
    for i in range(order.boards.size):
        _end(trees, order, i)


class Question(NamedTuple):
    """What a value function is asked, in arrays that are long enough."""

    states: Indices  # those that have been added
    afters: Words  # the afterstates of their legal moves that are to be valued
    places: Indices  # of the answers, in `said` of the trees


def new_question(n: int) -> Question:
    """Room for the afterstates of `n` states."""
    return Question(np.empty(n, np.int64), np.empty(4 * n, np.uint64), np.empty(4 * n, np.int64))


QUESTION = numba.typeof(new_question(1))


@njit(int64(TREES, int64, QUESTION, int64), **KERNEL)
def _ask(trees: Trees, state: int, question: Question, at: int) -> int:
    """Adds the afterstates of a state that have not been valued; returns how many there are."""
    for action in range(4):
        after = trees.moves[4 * state + action].after
        if after != 0:
            place = recall(trees, state // trees.capacity, after)
            if np.isnan(trees.said[place]):
                trees.said[place] = np.inf  # it is asked for
                question.afters[at], question.places[at] = after, place
                at += 1
    return at


@njit(types.UniTuple(int64, 2)(TREES, ORDER, int64, QUESTION), **KERNEL, nogil=True)
def gather(trees: Trees, order: Order, leaves: int, question: Question) -> tuple[int, int]:
    """Simulates until there are states to value.

    Args:
        trees: the trees.
        order: the boards whose searches have begun.
        leaves: how many states a tree may add before they are valued.
        question: is written to.

    Returns:
        How many states were added, none when all simulations are done, and how many of their
        afterstates are to be valued.
    """
    n = at = 0
    for i in range(order.boards.size):
        for tree in range(order.firsts[i], order.firsts[i] + order.n_each):
            state, root = tree * trees.capacity, trees.states[tree * trees.capacity]
            is_new = root.known == 0
            if is_new:
                question.states[n], n, at = state, n + 1, _ask(trees, state, question, at)
            added = tries = 0
            while not is_new and root.n < trees.goals[tree] and max(added, tries // 2) < leaves:
                state = simulate(trees, tree)
                if state >= 0:
                    question.states[n], n, at = state, n + 1, _ask(trees, state, question, at)
                    added += 1
                if added > 0:
                    tries += 1
    return n, at


@njit(void(TREES, QUESTION, int64, float64[::1]), **KERNEL, nogil=True)
def give(trees: Trees, question: Question, n: int, values: Values) -> None:
    """Answers a question with the values of its afterstates, and backs up its `n` states."""
    for at in range(values.size):
        trees.said[question.places[at]] = values[at]
    for state in question.states[:n]:
        for action in range(4):
            move = trees.moves[4 * state + action]
            if move.after != 0:
                move.value = move.net = trees.said[
                    recall(trees, state // trees.capacity, move.after)
                ]
        settle(trees, state)


# What trees teach


def chosen(trees: Trees, order: Order, actions: Indices) -> npt.NDArray[Any]:
    """A move of each board `[n]` of MOVE, as the first of its trees has it.

    Args:
        trees: the trees.
        order: the boards that were searched.
        actions: `[n]`.
    """
    found: npt.NDArray[Any] = trees.moves[4 * order.firsts * trees.capacity + actions]
    return found


@njit(int64(TREES, ORDER, int64, uint64[::1], float64[:, ::1]), **KERNEL, nogil=True)
def inner(trees: Trees, order: Order, least: int, afters: Words, values: Values) -> int:
    """Writes the afterstates that have outcomes in the trees, and returns how many there are.

    Args:
        trees: the trees.
        order: the boards that were searched.
        least: only those that so many simulations came to.
        afters: `[n]`, is written to.
        values: `[n, 2]`, is written to: what they are worth, and what the value function said.
    """
    n = 0
    for i in range(order.boards.size):
        for tree in range(order.firsts[i], order.firsts[i] + order.n_each):
            first = 4 * tree * trees.capacity
            for place in range(first, first + 4 * trees.sizes[tree]):
                move = trees.moves[place]
                if move.after != 0 and move.n_outcomes > 0 and move.n >= least:
                    afters[n], values[n, 0], values[n, 1] = move.after, move.value, move.net
                    n += 1
    return n


@njit(int64(TREES, int64, float64[::1], uint64[::1], float64[:, ::1], int64), **KERNEL)
def _walk(
    trees: Trees, tree: int, temperature: Values, afters: Words, values: Values, n: int
) -> int:
    """Walks once from the root as long as there are outcomes: see `walk`."""
    worth, weights = trees.room.values, trees.room.weights
    how = Policy(MAX, False, temperature)
    state = tree * trees.capacity
    while trees.states[state].known == 1 and trees.states[state].n_legal > 0:
        read_moves(trees, state, worth)
        weigh(how, 0, worth, weights)
        trees.random[tree, 0], bits = next_random(trees.random[tree, 0])
        place = 4 * state + draw(weights, fraction(bits))
        move = trees.moves[place]
        if move.n_outcomes == 0:
            break
        afters[n], values[n, 0], values[n, 1] = move.after, move.value, move.net
        n, state = n + 1, draw_known(trees, tree, place)
    return n


@njit(int64(TREES, ORDER, int64, float64[::1], uint64[::1], float64[:, ::1]), **KERNEL, nogil=True)
def walk(
    trees: Trees, order: Order, n_paths: int, between: Values, afters: Words, values: Values
) -> int:
    """Writes the afterstates on paths from the roots, and returns how many there are.

    On a path moves are drawn in proportion to `exp(v / max v / T)`, and outcomes by chance. It ends
    where an afterstate has no outcome.

    Args:
        trees: the trees.
        order: the boards that were searched.
        n_paths: in each tree.
        between: the least and the greatest T; each path has one drawn between them.
        afters: `[n]`, is written to.
        values: `[n, 2]`, is written to: what they are worth, and what the value function said.
    """
    n, temperature = 0, trees.room.temperature
    for i in range(order.boards.size):
        for tree in range(order.firsts[i], order.firsts[i] + order.n_each):
            for _ in range(n_paths):
                trees.random[tree, 0], bits = next_random(trees.random[tree, 0])
                temperature[0] = between[0] + fraction(bits) * (between[1] - between[0])
                n = _walk(trees, tree, temperature, afters, values, n)
    return n
