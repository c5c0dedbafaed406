"""Values and greedy moves by N-tuple networks: see `ntuple_network.py`.

A board's value is the sum of the entries of its symmetric boards. Kernels for the classes of
networks with names are compiled with their tuples as constants: see `tuple_constants.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.kernels import inlined, kernel, prefetch
from afterstate.agents.game2048.values.bit_planes import symmetries, table_index, to_planes
from afterstate.agents.game2048.values.ntuple_network import (
    BLOCK_BITS,
    FRACTION,
    Network,
    Value,
    check_arrays,
    check_network,
)
from afterstate.agents.game2048.values.tuple_constants import (
    called_if_generic,
    has_constants,
    is_compiled_fixed,
    is_compiled_pruned,
    n_tuples,
    table_start,
    tuple_mask,
)
from afterstate.envs.game2048.games import (
    BOARD,
    EXCESS,
    check_games,
    play_after,
    refresh_flags,
)
from afterstate.envs.game2048.rules import LOW_BITS, afterstates, check_words, downgrade, largest
from afterstate.envs.words import Float32s, Ints, Word, Words

FEW_TUPLES = 4
"""Networks with more tuples prefetch the entries of all moves before they look up the first."""


@inlined
def _stage_key(board: Word) -> int:
    """Return which tiles from 2048 on a board has, as a number from 11 on, or its largest exponent.

    `_KEY_TILES` are the tiles of each number, so a larger number is a larger sum of tiles.
    """
    ones = np.uint64(board)
    twos, fours, eights = ones >> np.uint64(1), ones >> np.uint64(2), ones >> np.uint64(3)
    top = eights & fours & LOW_BITS  # cells from 4096 on
    tiles = int((eights & ~fours & twos & ones & LOW_BITS) != 0)
    tiles |= int((top & ~twos & ~ones) != 0) << 1
    tiles |= int((top & ~twos & ones) != 0) << 2
    tiles |= int((top & twos & ~ones) != 0) << 3
    tiles |= int((top & twos & ones) != 0) << 4
    return tiles + 10 if tiles else largest(board)


@inlined
def stage_start(net: Network, board: Word) -> Word:
    """Return the start of the weights of a board's stage."""
    if net.stages[-1] == 0:
        return np.uint64(0)
    start: Word = np.uint64(net.stages[_stage_key(board)])
    return start


@inlined
def looked_up_board(net: Network, board: Word) -> Word:
    """Return the board that is looked up in the tables: itself, or its downgraded form."""
    if net.downgrade < 16:
        board = downgrade(board, net.downgrade)
    return board


@inlined
def symmetric_planes(net: Network, board: Word) -> tuple[tuple[Word, ...], Word]:
    """Return the bit planes of a board's symmetric boards, and the start of its stage's weights."""
    board = looked_up_board(net, board)
    planes = symmetries(to_planes(board), net.size[0], net.size[1])
    return planes, stage_start(net, board)


@inlined
def is_past_last(net: Network, symmetry: int) -> bool:
    """Return True if there are no symmetric boards from number `symmetry` on.

    Loops run over all 8, a constant number, so that the compiler unrolls them.
    """
    return not has_constants(net) and symmetry == net.symmetric


@inlined
def index_of(net: Network, stage: Word, planes: Word, t: int) -> Word:
    """Return the index of the entry of tuple `t` on one of the symmetric boards.

    It is unsigned, because numba tests a signed one for being negative at every access.
    """
    index: Word = stage + table_start(net, t) + table_index(planes, tuple_mask(net, t))
    return index


@inlined
def is_fixed(net: Network) -> bool:
    """Return True if the weights are fixed-point numbers."""
    return is_compiled_fixed(net) or (not has_constants(net) and net.fixed.size > 0)


@inlined
def is_pruned(net: Network) -> bool:
    """Return True if the network is pruned."""
    return is_compiled_pruned(net) or (not has_constants(net) and net.blocks.size > 0)


@kernel
def look_up(net: Network, board: Word, indices: Ints) -> None:
    """Write the indices of a board's entries, all tuples of one symmetric board after the other."""
    boards, stage = symmetric_planes(net, board)
    for symmetry in range(8):
        if is_past_last(net, symmetry):
            break
        for t in range(n_tuples(net)):
            indices[symmetry * n_tuples(net) + t] = index_of(net, stage, boards[symmetry], t)


@inlined
def prefetch_entries(net: Network, board: Word) -> None:
    """Prefetch the entries of a board, so that `value_of` soon after does not wait for memory."""
    called_if_generic(net)
    boards, stage = symmetric_planes(net, board)
    for symmetry in range(8):
        if is_past_last(net, symmetry):
            break
        for t in range(n_tuples(net)):
            if is_pruned(net):
                prefetch(net.levels, _place_of(net, stage, boards[symmetry], t))
            else:
                prefetch(net.weights, index_of(net, stage, boards[symmetry], t))


@inlined
def _place_of(net: Network, stage: Word, planes: Word, t: int) -> Word:
    """Return the place in the levels of a pruned network of the entry that `index_of` returns."""
    bits = np.uint64(BLOCK_BITS)
    index = table_index(planes, tuple_mask(net, t))
    block = (stage >> bits) + (table_start(net, t) >> bits) + (index >> bits)
    place: Word = np.uint64(net.blocks[block]) + (index & np.uint64((1 << BLOCK_BITS) - 1))
    return place


@inlined
def source(net: Network, index: Word) -> Word:
    """Return the index of an entry's weight: itself, or with promotion the last nonzero one."""
    if net.promote:
        size = np.uint64(net.stage_size)
        if is_fixed(net):
            while net.fixed[index] == 0 and index >= size:
                index -= size
        else:
            while net.weights[index] == 0 and index >= size:
                index -= size
    return index


@inlined
def entry(net: Network, index: Word) -> Value:
    """Return the value of one entry."""
    index = source(net, index)
    if is_fixed(net):
        return np.float32(net.fixed[index]) / np.float32(FRACTION)
    value: Value = net.weights[index]
    return value


@inlined
def _own_entry(net: Network, index: Word) -> Value:
    """Return the value of one entry of a network with constants, or with float weights."""
    if is_compiled_fixed(net):
        return np.float32(net.fixed[index]) / np.float32(FRACTION)
    value: Value = net.weights[index]
    return value


@kernel
def _indirect_value(net: Network, board: Word) -> Value:
    """Return the value of an afterstate whose weights are promoted, or fixed-point and generic.

    It is called, not inlined, so that `value_of` stays small in the many kernels that contain it.
    """
    boards, stage = symmetric_planes(net, board)
    a = b = c = d = np.float32(0)
    for symmetry in range(8):
        if is_past_last(net, symmetry):
            break
        for t in range(n_tuples(net)):
            a, b, c, d = b, c, d, a + entry(net, index_of(net, stage, boards[symmetry], t))
    return (a + b) + (c + d)


@inlined
def _pruned_value(net: Network, board: Word) -> Value:
    """Return the value of an afterstate by a pruned network, whose levels are summed exactly."""
    called_if_generic(net)
    boards, stage = symmetric_planes(net, board)
    levels = np.int64(0)
    for symmetry in range(8):
        if is_past_last(net, symmetry):
            break
        for t in range(n_tuples(net)):
            levels += net.levels[_place_of(net, stage, boards[symmetry], t)]
    return np.float32(levels) * np.float32(net.step)


@inlined
def value_of(net: Network, board: Word) -> Value:
    """Return the value of an afterstate: the sum of its entries."""
    called_if_generic(net)
    if is_pruned(net):
        return _pruned_value(net, board)
    boards, stage = symmetric_planes(net, board)
    if (net.promote and stage > 0) or (not has_constants(net) and is_fixed(net)):
        return _indirect_value(net, board)
    a = b = c = d = np.float32(0)  # four independent sums run in parallel
    for symmetry in range(8):
        if is_past_last(net, symmetry):
            break
        for t in range(n_tuples(net)):
            a, b, c, d = b, c, d, a + _own_entry(net, index_of(net, stage, boards[symmetry], t))
    return (a + b) + (c + d)


@inlined
def prefetch_moves(net: Network, board: Word) -> tuple[tuple[Word, ...], tuple[int, ...]]:
    """Return the afterstates and rewards of a board's moves, and prefetch their entries.

    Those of few tuples are not prefetched: processors look ahead far enough to overlap them.
    """
    boards, rewards = afterstates(board, net.move_table)
    if n_tuples(net) > FEW_TUPLES:
        for action in range(4):
            if boards[action] != board:
                prefetch_entries(net, boards[action])
    return boards, rewards


@inlined
def _better(
    net: Network, board: Word, after: Word, reward: int, action: Any, best: tuple[Any, Value]
) -> tuple[Any, Value]:
    """Return the better one of a move and the best before it, each with reward plus value."""
    if after != board:
        value = np.float32(reward) + value_of(net, after)
        if value > best[1]:
            return action, value
    return best


@inlined
def select_move(
    net: Network, board: Word, boards: tuple[Word, ...], rewards: tuple[int, ...]
) -> tuple[int, Value]:
    """Return the legal move with the largest reward plus value, the first among equals.

    Args:
        net: the network.
        board: a board word.
        boards: its four afterstates.
        rewards: their rewards.

    Returns:
        Action, and reward plus value; -1 and 0 if no move is legal.
    """
    # A loop would choose its move by an indirect jump. Plain numbers are types of their own, for
    # each of which numba would compile `_better` again.
    best: tuple[Any, Value] = np.int64(-1), np.float32(-np.inf)
    best = _better(net, board, boards[0], rewards[0], np.int64(0), best)
    best = _better(net, board, boards[1], rewards[1], np.int64(1), best)
    best = _better(net, board, boards[2], rewards[2], np.int64(2), best)
    best = _better(net, board, boards[3], rewards[3], np.int64(3), best)
    return best[0], best[1] if best[0] >= 0 else np.float32(0)


@kernel
def best_move(net: Network, board: Word) -> tuple[int, Value]:
    """Return the greedy move of a board and its reward plus value: see `select_move`."""
    boards, rewards = prefetch_moves(net, board)
    return select_move(net, board, boards, rewards)


@kernel
def _estimate(net: Network, boards: Words, values: Float32s) -> None:
    """Write the value of every board: see `estimate`."""
    for i in range(boards.size):
        values[i] = value_of(net, boards[i])


def estimate(net: Network, boards: Any) -> Float32s:
    """Return the values of afterstates `uint64[...]`, as a new `float32[...]`.

    Raises:
        ValueError: boards that are no words of 2048, or a network whose arrays do not fit its
            tuples.
    """
    check_arrays(net)
    return estimate_checked(net, boards)


def estimate_checked(net: Network, boards: Any) -> Float32s:
    """Return the values of afterstates by a network that `check_network` has passed."""
    words = check_words(boards, *net.size)
    values = np.empty(words.shape, np.float32)
    _estimate(net, words.reshape(-1), values.reshape(-1))
    return values


@kernel
def _act(net: Network, boards: Words, actions: npt.NDArray[np.int8]) -> None:
    """Write the greedy move of every board, 0 where no move is legal."""
    for i in range(boards.size):
        actions[i] = max(0, best_move(net, boards[i])[0])


@kernel
def _finish(net: Network, games: Words, n_moves: Ints) -> None:
    """Play games greedily: see `NTupleAgent.finish`."""
    rows, cols = net.size
    for i in range(games.shape[1]):
        while games[EXCESS, i] == 0:
            board = games[BOARD, i]
            boards, rewards = prefetch_moves(net, board)
            action, _ = select_move(net, board, boards, rewards)
            if action < 0:
                break
            play_after(games, i, action, boards[action], rewards[action], rows, cols)
            n_moves[i] += 1
        if n_moves[i] > 0:
            refresh_flags(games, i, rows, cols)


class NTupleAgent(Agent):
    """Plays the move with the largest reward plus value of the afterstate (1-ply, greedy)."""

    def __init__(self, network: Network) -> None:
        check_network(network)
        self.network = network
        self.size = network.size

    def choose_actions(self, boards: Words) -> npt.NDArray[np.int8]:
        """Return the moves `int8[B]` of the largest reward plus value."""
        actions = np.empty(len(boards), np.int8)
        _act(self.network, boards, actions)
        return actions

    def finish(self, games: Words) -> Ints:
        """Play games on in compiled code, each to its end or to a 65536 tile.

        Args:
            games: `uint64[8, B]`, changed in place.

        Returns:
            The number of moves played in each game, `int64[B]`.

        Raises:
            ValueError: no such games.
        """
        check_games(games)
        n_moves = np.zeros(games.shape[1], np.int64)
        if type(self).choose_actions is not NTupleAgent.choose_actions:
            return n_moves  # a subclass with other moves
        _finish(self.network, games, n_moves)
        return n_moves
