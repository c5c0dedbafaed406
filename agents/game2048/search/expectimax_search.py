"""Search of boards by expectimax over an N-tuple network, in compiled code.

The search is fast because:

- The last move of the player is the network's greedy one, without search.
- *Cutoff*: each line of play has a probability, the product of those of its tiles and its moves. A
  move whose network value is below the best one by g has probability `exp(-g / temperature)`; the
  temperature is 8% of the network's value of the empty board, the score that it expects.
  Lines less probable than the cutoff are not followed: an improbable move is skipped, an improbable
  4 counts as a 2, and an improbable board gets the value of its greedy move. With cutoff 0 the
  search is plain expectimax.
- *Extension*, if it is set: where few cells are empty, the next tile and move count half a move. So
  the search looks further ahead where games end and there are few lines to follow.
- *Transposition table* of afterstates: positions reached by several lines, also as symmetric
  boards, are searched once. Its buckets are cache lines of four entries. Threads may share it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from afterstate.agents.game2048.kernels import hash_board, inlined, kernel
from afterstate.agents.game2048.values.ntuple import (
    best_move,
    prefetch_moves,
    select_move,
    value_of,
)
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.envs.game2048.games import BOARD, EXCESS, play
from afterstate.envs.game2048.rules import (
    P_FOUR,
    P_TWO,
    afterstates,
    canonical,
    count_cells,
    field,
    lowest_cell,
    occupied,
)
from afterstate.envs.words import Floats, Ints, Word, Words

MAX_DEPTH = 12
TEMPERATURE = 0.08
"""The temperature of moves, as a share of the value of the empty board."""
MIN_TEMPERATURE = 500.0
"""The lowest temperature, in points, for networks that have hardly learned."""

STOP, SALT, N_SEARCHED, N_TABLE_HITS, LIMIT = range(5)
"""Places in `Search.control`."""

_SLOTS = 4
_NEXT_SALT = 0x1E37_79B9_7F4A_7C15  # odd, so that salts repeat only after 2**64 calls
_NO_LIMIT = (1 << 63) - 1

# A plain number in a call has numba compile the kernel once more, for this number.
_ZERO, _ONE, _NO, _YES = np.int64(0), np.int64(1), np.bool_(False), np.bool_(True)


class Search(NamedTuple):
    """Settings and memory of a search, as kernels take them."""

    cutoff: float
    extend: int  # with at most this many empty cells, the next tile and move count half a move
    lowest_last: float  # share of the empty cells, from the first one on, whose tiles come last
    table: Words  # [buckets, 8]: four keys, each by exclusive or with its entry, then four entries
    control: Ints  # stop flag, salt of the keys, two counters, and the limit of the first
    scratch: Floats  # [2 * depths + 2, 4]: lines of moves by depth; the first and last row: values


def new_search(cutoff: float = 0.0, table_bits: int = 0, extend: int = 0) -> Search:
    """Return a search with an empty table."""
    return Search(
        cutoff=float(cutoff),
        extend=int(extend),
        lowest_last=0.0,
        table=np.zeros((1 << table_bits, 2 * _SLOTS), np.uint64),
        control=np.array([0, 0, 0, 0, _NO_LIMIT], np.int64),
        scratch=np.empty((2 * MAX_DEPTH + 2, 4)),
    )


def sharing_table(search: Search, n: int) -> list[Search]:
    """Return the searches of n threads, the first one as it was given."""
    others = (new_search(search.cutoff, extend=search.extend) for _ in range(1, n))
    shared = (
        other._replace(lowest_last=i / n, table=search.table)
        for i, other in enumerate(others, start=1)
    )
    return [search, *shared]


# The table


@kernel
def _pack(value: float, depth: int, probability: float) -> Word:
    """Return a value, its depth in halves and its probability (rounded) in one word.

    Positive floats have the order of their bits, so packed probabilities can be compared.
    """
    high = np.uint64(np.float32(value).view(np.uint32)) << np.uint64(32)
    low = np.float32(probability).view(np.uint32) >> np.uint32(5)
    return high | np.uint64(low) << np.uint64(5) | np.uint64(depth)


@kernel
def _bucket(search: Search, after: Word) -> Word:
    """Return the index of an afterstate's bucket.

    It does not depend on the salt: entries displace each other in the same way in every search.
    """
    return hash_board(after) & np.uint64(len(search.table) - 1)


@kernel
def _find(search: Search, after: Word, depth: int, probability: float) -> float:
    """Return the stored value of an afterstate, NaN if there is none to use.

    A value is used if it has the same depth and at least a sixteenth of this probability, so it was
    searched about as thoroughly. A key and an entry that threads have written at the same time do
    not fit each other.
    """
    bucket = search.table[_bucket(search, after)]
    key = after ^ np.uint64(search.control[SALT])
    sought = _pack(0.0, depth, probability / 16 if search.cutoff > 0 else 0.0)
    for slot in range(_SLOTS):
        entry = bucket[_SLOTS + slot]
        if bucket[slot] ^ entry == key and entry & np.uint64(31) == np.uint64(depth):
            if entry & np.uint64(0xFFFF_FFFF) >= sought:
                return float(np.uint32(entry >> np.uint64(32)).view(np.float32))
    return np.nan


@kernel
def _store(search: Search, after: Word, entry: Word) -> None:
    """Put an afterstate's entry first in its bucket; the last one is dropped."""
    bucket = search.table[_bucket(search, after)]
    key = after ^ np.uint64(search.control[SALT])
    for slot in range(_SLOTS - 1, 0, -1):
        bucket[slot] = bucket[slot - 1]
        bucket[_SLOTS + slot] = bucket[_SLOTS + slot - 1]
    bucket[0], bucket[_SLOTS] = key ^ entry, entry


@inlined
def _store_value(
    search: Search, after: Word, depth: int, probability: float, value: float
) -> float:
    """Store the value of an afterstate, and return it as it is stored."""
    _store(search, after, _pack(value, depth, probability))
    return float(np.float32(value))


@kernel
def forget(search: Search) -> None:
    """Invalidate the table by a new salt of its keys.

    Each search begins so: the network may have changed, and values do not depend on other boards.
    """
    search.control[SALT] += _NEXT_SALT


# The search


@kernel
def _temperature(net: Network) -> float:
    """Return the points by which a move's value is below the best one at probability 1/e."""
    return max(MIN_TEMPERATURE, TEMPERATURE * float(value_of(net, np.uint64(0))))


@kernel
def _weigh(
    net: Network, search: Search, board: Word, depth: int, probability: float, temperature: float
) -> None:
    """Write the probability of each move's line, -1 for those that are not followed."""
    lines, best = search.scratch[depth], -np.inf
    boards, rewards = afterstates(board, net.move_table)
    if search.cutoff == 0:
        for action in range(4):
            lines[action] = probability if boards[action] != board else -1.0
        return
    for action in range(4):  # at first their values
        lines[action] = -np.inf
        if boards[action] != board:
            lines[action] = float(rewards[action]) + value_of(net, boards[action])
            best = max(best, lines[action])
    for action in range(4):
        if boards[action] == board:
            lines[action] = -1
        else:
            lines[action] = probability * np.exp((lines[action] - best) / temperature)
            if lines[action] < search.cutoff and lines[action] < probability:
                lines[action] = -1


@kernel
def _last_chance(net: Network, search: Search, after: Word, probability: float) -> float:
    """Return the value of an afterstate by a search of one move.

    The entries of each board of a network with many tuples are requested one step before its value
    is computed, to hide the memory's latency.
    """
    empty: Word = field(net.size[0], net.size[1]) & ~occupied(after)
    n_empty = count_cells(empty)
    with_four = P_FOUR * probability / n_empty >= search.cutoff  # else a 4 counts as a 2
    expected, p_tile = 0.0, 0.0  # of the tile of the board whose entries were requested
    board = after
    boards: tuple[Word, ...] = (after, after, after, after)
    none: Any = np.int64(0)  # a plain 0 would have select_move compiled for it
    rewards: tuple[int, ...] = (none, none, none, none)
    cell, exponent = lowest_cell(empty), 1
    while True:
        next_board = after | cell * np.uint64(exponent)
        next_boards, next_rewards = boards, rewards
        if cell != 0:
            next_boards, next_rewards = prefetch_moves(net, next_board)
        if p_tile > 0:
            expected += p_tile * float(select_move(net, board, boards, rewards)[1])
        if cell == 0:
            return expected / n_empty
        board, boards, rewards = next_board, next_boards, next_rewards
        p_tile = 1.0 if not with_four else P_TWO if exponent == 1 else P_FOUR
        if with_four and exponent == 1:
            exponent = 2
        else:
            empty ^= cell
            cell, exponent = lowest_cell(empty), 1


@inlined
def _without_lowest(cells: Word, n: int) -> Word:
    """Return cells without the lowest n of them."""
    for _ in range(n):
        cells &= cells - np.uint64(1)
    return cells


@inlined
def _next_cell(empty: Word, preferred: Word) -> Word:
    """Return the lowest empty cell, of the preferred ones if there are any."""
    cell: Word = lowest_cell(empty & preferred if empty & preferred != 0 else empty)
    return cell


@inlined
def _count(search: Search) -> None:
    """Count a searched afterstate, and stop the search at its limit."""
    search.control[N_SEARCHED] += 1
    if search.control[N_SEARCHED] == search.control[LIMIT]:
        search.control[STOP] = 1


@kernel
def _chance(
    net: Network, search: Search, after: Word, depth: int, probability: float, temperature: float
) -> float:
    """Return the value of an afterstate.

    Args:
        net: values the afterstates at the end.
        search: settings and memory, which is written to.
        after: the afterstate.
        depth: depth to look ahead, in halves of a tile and a move, >= 1.
        probability: probability of the line of play up to here.
        temperature: temperature of the probabilities of moves.
    """
    if search.control[STOP] != 0:
        return 0.0
    # Symmetric boards have the same value, so they share one entry.
    after = canonical(after, net.size[0], net.size[1], net.symmetric)
    stored = _find(search, after, depth, probability)
    if not np.isnan(stored):
        search.control[N_TABLE_HITS] += 1
        return stored
    _count(search)
    empty: Word = field(net.size[0], net.size[1]) & ~occupied(after)
    n_empty = count_cells(empty)
    cost = 1 if n_empty <= search.extend else 2  # halves of a tile and a move
    if depth <= cost:
        value = _last_chance(net, search, after, probability)
        return _store_value(search, after, depth, probability, value)
    expected, value = 0.0, 0.0
    preferred = _without_lowest(empty, int(n_empty * search.lowest_last))
    while empty != 0:
        cell = _next_cell(empty, preferred)
        empty ^= cell
        for exponent in range(1, 3):
            p_tile = P_TWO if exponent == 1 else P_FOUR
            p_line = probability * p_tile / n_empty
            board = after | cell * np.uint64(exponent)
            if p_line >= search.cutoff:
                boards, rewards = afterstates(board, net.move_table)
                _weigh(net, search, board, depth, p_line, temperature)
                value = -np.inf
                for action in range(4):
                    p_move = search.scratch[depth, action]
                    if p_move >= 0:
                        later = _chance(
                            net, search, boards[action], depth - cost, p_move, temperature
                        )
                        value = max(value, rewards[action] + later)
                if value == -np.inf:
                    value = 0.0  # the game is over
            elif exponent == 1:
                value = float(best_move(net, board)[1])
            # An improbable 4 counts as a 2: `value` is still that of the 2 in this cell.
            expected += p_tile * value
    if search.control[STOP] != 0:
        return 0.0  # some of the values are
    return _store_value(search, after, depth, probability, expected / n_empty)


@kernel
def evaluate_moves(
    net: Network, search: Search, board: Word, depth: int, every: bool, values: Floats, first: int
) -> None:
    """Write the values of the four moves, NaN for those that a stopped search has not reached.

    Args:
        net: values the afterstates at the end.
        search: settings and memory.
        board: a board word.
        depth: depth of the search.
        every: also value improbable moves.
        values: values of the moves, `float64[4]`, minus infinity for others.
        first: the action that is searched first.
    """
    boards, rewards = afterstates(board, net.move_table)
    temperature = _temperature(net)
    top = 2 * depth  # in halves
    if not every:
        _weigh(net, search, board, top, 1.0, temperature)
    for i in range(4):
        action = (first + i) % 4
        values[action] = -np.inf
        if boards[action] != board and (every or search.scratch[top, action] >= 0):
            if depth > 1:
                p_move = 1.0 if every else search.scratch[top, action]
                value = _chance(net, search, boards[action], top - 2, p_move, temperature)
                values[action] = rewards[action] + value if search.control[STOP] == 0 else np.nan
            else:  # in the precision of the greedy player
                values[action] = np.float32(rewards[action]) + value_of(net, boards[action])


@kernel
def evaluate_boards(
    net: Network, search: Search, boards: Words, depth: int, every: bool, values: Floats
) -> None:
    """Write the values of the four moves of every board, each by a search of its own."""
    for i in range(boards.size):
        forget(search)
        evaluate_moves(net, search, boards[i], depth, every, values[i], int(_ZERO))


@kernel
def _best(values: Floats) -> int:
    """Return the action with the largest value, -1 if none is legal."""
    best = -1
    for action in range(4):
        if values[action] > (values[best] if best >= 0 else -np.inf):
            best = action
    return best


@kernel
def search_move(net: Network, search: Search, board: Word, depth: int) -> int:
    """Return the best move of a new search, -1 if none is legal."""
    forget(search)
    values = search.scratch[0]
    evaluate_moves(net, search, board, depth, bool(_NO), values, int(_ZERO))
    return _best(values)


@kernel
def _n_legal(values: Floats) -> int:
    """Return the number of legal moves."""
    n = 0
    for action in range(4):
        n += values[action] > -np.inf
    return n


@kernel
def deepen(
    net: Network, search: Search, deepening: Floats, board: Word, every: bool, values: Floats
) -> int:
    """Write the values of the four moves by deeper and deeper searches until one is stopped.

    The best move is searched first. If the last search has got beyond it, the values of the moves
    that it has reached count, and the others keep their difference to the best one; not if every
    move is valued.

    Args:
        net: values the afterstates at the end.
        search: memory, with the stop flag and the limit of searched afterstates.
        deepening: depths and cutoffs of the searches, `float64[n, 2]`.
        board: a board word.
        every: also value improbable moves, and search even if there is one legal move only.
        values: values of the moves, `float64[4]`; at least those of the greedy search.

    Returns:
        The number of finished searches after the greedy one.
    """
    evaluate_moves(net, search, board, int(_ONE), bool(_YES), values, int(_ZERO))
    if not every and _n_legal(values) < 2:
        return 0
    deeper = search.scratch[2 * MAX_DEPTH + 1]
    for i in range(len(deepening)):
        forget(search)
        cutoff = deepening[i, 1]
        step = Search(
            cutoff, search.extend, search.lowest_last, search.table, search.control, search.scratch
        )
        best = _best(values)
        evaluate_moves(net, step, board, int(deepening[i, 0]), every, deeper, best)
        if search.control[STOP] == 0 or (not every and np.isfinite(deeper[best])):
            change = deeper[best] - values[best]
            for action in range(4):
                is_reached = not np.isnan(deeper[action])
                values[action] = deeper[action] if is_reached else values[action] + change
        if search.control[STOP] != 0:
            return i
    return len(deepening)


@kernel
def _choose(
    net: Network, search: Search, deepening: Floats, nodes: int, board: Word, depth: int
) -> int:
    """Return the best move by a search of one depth, or by deepening; -1 if none is legal."""
    if len(deepening) == 0:
        return search_move(net, search, board, depth)
    search.control[STOP] = 0
    search.control[LIMIT] = search.control[N_SEARCHED] + nodes
    values = search.scratch[0]
    deepen(net, search, deepening, board, bool(_NO), values)
    return _best(values)


@kernel
def finish_games(
    net: Network,
    search: Search,
    deepening: Floats,
    nodes: int,
    games: Words,
    n_moves: Ints,
    depth: int,
) -> None:
    """Play games on, and add up their moves; see `ExpectimaxAgent.finish`."""
    for i in range(games.shape[1]):
        while games[EXCESS, i] == 0:
            action = _choose(net, search, deepening, nodes, games[BOARD, i], depth)
            if action < 0:
                break
            play(games, i, action, net.move_table, net.size[0], net.size[1])
            n_moves[i] += 1
