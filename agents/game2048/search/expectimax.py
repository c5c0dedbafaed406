"""Expectimax search over an N-tuple network: maximum over moves, mean over tiles.

An *n-ply* search has n moves of the player: 1-ply is greedy, 2-ply is max-chance-max, 3-ply is
max-chance-max-chance-max. An N-tuple network values the afterstates at the end; a board without a
legal move has value 0.

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
  boards, are searched once. Its buckets are cache lines of four entries.

Several *threads* search the same position and share the table. Each begins with other tiles, so
that it finds what the others have searched, and the first one that has finished stops the others.

A search with a limit of time or of nodes is one of *iterative deepening*: `DEEPENING` searches
deeper and with a smaller cutoff each time, until the limit. It looks further ahead where few cells
are empty and moves differ in value, because there it has fewer lines to follow.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from afterstate.agents.config import Count, Seconds, ShareBelow1, Whole, checked
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.kernels import inlined, kernel, mixed
from afterstate.agents.game2048.values.ntuple import (
    best_move,
    prefetch_moves,
    select_move,
    value_of,
)
from afterstate.agents.game2048.values.ntuple_network import Indices, Network, check_network
from afterstate.envs.game2048 import games
from afterstate.envs.game2048.games import check_records
from afterstate.envs.game2048.rules import (
    afterstates,
    canonical,
    check_words,
    count_cells,
    field,
    occupied,
)
from afterstate.envs.messages import shown
from afterstate.envs.words import Word, Words, whole

MAX_DEPTH = 12
CUTOFF = 1e-4
"""The default cutoff."""
DEEPENING = (
    *((2, 1e-3), (3, 1e-3), (4, 1e-3), (5, 1e-3), (6, 1e-3), (7, 1e-3)),
    *((8, 3e-4), (9, 3e-4), (10, 1e-4), (11, 3e-5), (12, 1e-5)),
)
"""Depths and cutoffs of the successive searches of one that is limited. With the same cutoff each
takes up to three times as long as the one before."""
TEMPERATURE = 0.08
"""The temperature of moves, as a share of the value of the empty board."""
MIN_TEMPERATURE = 500.0
"""The lowest temperature, in points, for networks that have hardly learned."""
TABLE_BITS = 14
"""The transposition table has 2**14 buckets of 64 bytes: 1 MiB."""

_SLOTS = 4
_STOP, _SALT, _N_SEARCHED, _N_FOUND, _LIMIT = range(5)
_NEXT_SALT = 0x1E37_79B9_7F4A_7C15  # odd, so that salts repeat only after 2**64 calls

# A plain number in a call has numba compile the kernel once more, for this number.
_ZERO, _ONE, _NO, _YES = np.int64(0), np.int64(1), np.bool_(False), np.bool_(True)

_MAX_NODES = 1 << 62
_NO_LIMIT = (1 << 63) - 1
Nodes = Annotated[Count, Field(le=_MAX_NODES)]
EmptyCells = Annotated[Whole, Field(le=15)]
Threads = Annotated[Count, Field(le=64)]

Values = npt.NDArray[np.float64]


class Search(NamedTuple):
    """Settings and memory of a search, as kernels take them."""

    cutoff: float
    extend: int  # with at most so many empty cells, the next tile and move count half a move
    lowest_last: float  # share of the empty cells, from the first one on, whose tiles come last
    table: Words  # [buckets, 8]: four keys, each by exclusive or with its entry, then four entries
    control: Indices  # stop flag, salt of the keys, two counters, and the limit of the first
    odds: Values  # [2 * depths + 2, 4], scratch memory: probabilities of moves, and values


def new_search(cutoff: float = 0.0, table_bits: int = 0, extend: int = 0) -> Search:
    """Return a search with an empty table."""
    return Search(
        cutoff=float(cutoff),
        extend=int(extend),
        lowest_last=0.0,
        table=np.zeros((1 << table_bits, 2 * _SLOTS), np.uint64),
        control=np.array([0, 0, 0, 0, _NO_LIMIT], np.int64),
        odds=np.empty((2 * MAX_DEPTH + 2, 4)),
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
def _bucket(search: Search, key: Word) -> Word:
    """Return the index of a key's bucket."""
    return mixed(key) & np.uint64(len(search.table) - 1)


@kernel
def _find(search: Search, key: Word, depth: int, probability: float) -> float:
    """Return the stored value of an afterstate, NaN if there is none to use.

    A value is used if it has the same depth and at least a sixteenth of this probability, so it was
    searched about as thoroughly. A key and an entry that threads have written at the same time do
    not fit each other.
    """
    bucket = search.table[_bucket(search, key)]
    sought = _pack(0.0, depth, probability / 16 if search.cutoff > 0 else 0.0)
    for slot in range(_SLOTS):
        entry = bucket[_SLOTS + slot]
        if bucket[slot] ^ entry == key and entry & np.uint64(31) == np.uint64(depth):
            if entry & np.uint64(0xFFFF_FFFF) >= sought:
                return float(np.uint32(entry >> np.uint64(32)).view(np.float32))
    return np.nan


@kernel
def _store(search: Search, key: Word, entry: Word) -> None:
    """Put an entry first in its bucket; the last one is dropped."""
    bucket = search.table[_bucket(search, key)]
    for slot in range(_SLOTS - 1, 0, -1):
        bucket[slot] = bucket[slot - 1]
        bucket[_SLOTS + slot] = bucket[_SLOTS + slot - 1]
    bucket[0], bucket[_SLOTS] = key ^ entry, entry


@kernel
def forget(search: Search) -> None:
    """Invalidate the table by a new salt of its keys, because the network may have changed."""
    search.control[_SALT] += _NEXT_SALT


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
    odds, best = search.odds[depth], -np.inf
    boards, rewards = afterstates(board, net.moves)
    if search.cutoff == 0:
        for action in range(4):
            odds[action] = probability if boards[action] != board else -1.0
        return
    for action in range(4):
        odds[action] = -np.inf
        if boards[action] != board:
            odds[action] = float(rewards[action]) + value_of(net, boards[action])
            best = max(best, odds[action])
    for action in range(4):
        if boards[action] == board:
            odds[action] = -1
        else:
            odds[action] = probability * np.exp((odds[action] - best) / temperature)
            if odds[action] < search.cutoff and odds[action] < probability:
                odds[action] = -1


@kernel
def _last_chance(net: Network, search: Search, after: Word, probability: float) -> float:
    """Return the value of an afterstate by a search of one move.

    The entries of each board of a network with many tuples are requested one step before its value
    is computed, to hide the memory's latency.
    """
    empty: Word = field(net.size[0], net.size[1]) & ~occupied(after)
    n_empty = count_cells(empty)
    with_four = 0.1 * probability / n_empty >= search.cutoff  # else a 4 counts as a 2
    expected, odds = 0.0, 0.0  # probability of the board whose entries were requested
    board = after
    boards: tuple[Word, ...] = (after, after, after, after)
    none: Any = np.int64(0)  # a plain 0 would have select_move compiled for it
    rewards: tuple[int, ...] = (none, none, none, none)
    cell, exponent = empty & (~empty + np.uint64(1)), 1
    while True:
        next_board = after | cell * np.uint64(exponent)
        next_boards, next_rewards = boards, rewards
        if cell != 0:
            next_boards, next_rewards = prefetch_moves(net, next_board)
        if odds > 0:
            expected += odds * float(select_move(net, board, boards, rewards)[1])
        if cell == 0:
            return expected / n_empty
        board, boards, rewards = next_board, next_boards, next_rewards
        odds = 1.0 if not with_four else 0.9 if exponent == 1 else 0.1
        if with_four and exponent == 1:
            exponent = 2
        else:
            empty ^= cell
            cell, exponent = empty & (~empty + np.uint64(1)), 1


@inlined
def _without_lowest(cells: Word, n: int) -> Word:
    """Return cells without the lowest n of them."""
    for _ in range(n):
        cells &= cells - np.uint64(1)
    return cells


@kernel
def _chance(
    net: Network, search: Search, after: Word, depth: int, probability: float, temperature: float
) -> float:
    """Return the value of an afterstate.

    Args:
        net: values the afterstates at the end.
        search: settings and memory, which is written to.
        after: the afterstate.
        depth: to look ahead, in halves of a tile and a move, >= 1.
        probability: of the line of play up to here.
        temperature: of the probabilities of moves.
    """
    if search.control[_STOP] != 0:
        return 0.0
    # Symmetric boards have the same value, so they share one entry.
    after = canonical(after, net.size[0], net.size[1], net.symmetric)
    key = after ^ np.uint64(search.control[_SALT])
    stored = _find(search, key, depth, probability)
    if stored == stored:  # not NaN
        search.control[_N_FOUND] += 1
        return stored
    search.control[_N_SEARCHED] += 1
    if search.control[_N_SEARCHED] == search.control[_LIMIT]:
        search.control[_STOP] = 1
    empty: Word = field(net.size[0], net.size[1]) & ~occupied(after)
    n_empty = count_cells(empty)
    cost = 1 if n_empty <= search.extend else 2  # halves of a tile and a move
    if depth <= cost:
        expected = _last_chance(net, search, after, probability)
        _store(search, key, _pack(expected, depth, probability))
        return float(np.float32(expected))  # as it is stored
    expected, best = 0.0, 0.0
    preferred = _without_lowest(empty, int(n_empty * search.lowest_last))
    while empty != 0:
        cells = empty & preferred if empty & preferred != 0 else empty
        cell = cells & (~cells + np.uint64(1))
        empty ^= cell
        for exponent in range(1, 3):
            chance = 0.9 if exponent == 1 else 0.1
            line = probability * chance / n_empty
            if exponent == 1 or line >= search.cutoff:  # else the 4 counts as a 2
                board = after | cell * np.uint64(exponent)
                if line < search.cutoff:
                    best = float(best_move(net, board)[1])
                else:
                    boards, rewards = afterstates(board, net.moves)
                    _weigh(net, search, board, depth, line, temperature)
                    best = -np.inf
                    for action in range(4):
                        odds = search.odds[depth, action]
                        if odds >= 0:
                            value = _chance(
                                net, search, boards[action], depth - cost, odds, temperature
                            )
                            best = max(best, rewards[action] + value)
                    if best == -np.inf:
                        best = 0.0  # the game is over
            expected += chance * best
    expected /= n_empty
    if search.control[_STOP] == 0:  # after a stop some values are 0
        _store(search, key, _pack(expected, depth, probability))
    return float(np.float32(expected))


@kernel
def _evaluate(
    net: Network, search: Search, board: Word, depth: int, every: bool, values: Values, first: int
) -> None:
    """Write the values of the four moves, NaN for those that a stopped search has not reached.

    Args:
        net: values the afterstates at the end.
        search: settings and memory.
        board: a board word.
        depth: of the search.
        every: also value improbable moves.
        values: of the moves, `float64[4]`, minus infinity for others.
        first: the action that is searched first.
    """
    boards, rewards = afterstates(board, net.moves)
    temperature = _temperature(net)
    top = 2 * depth  # in halves
    if not every:
        _weigh(net, search, board, top, 1.0, temperature)
    for i in range(4):
        action = (first + i) % 4
        values[action] = -np.inf
        if boards[action] != board and (every or search.odds[top, action] >= 0):
            if depth > 1:
                odds = 1.0 if every else search.odds[top, action]
                value = _chance(net, search, boards[action], top - 2, odds, temperature)
                values[action] = rewards[action] + value if search.control[_STOP] == 0 else np.nan
            else:  # in the precision of the greedy player
                values[action] = np.float32(rewards[action]) + value_of(net, boards[action])


@kernel
def _evaluate_all(
    net: Network, search: Search, boards: Words, depth: int, every: bool, values: Values
) -> None:
    """Write the values of the four moves of every board."""
    for i in range(boards.size):
        _evaluate(net, search, boards[i], depth, every, values[i], int(_ZERO))


@kernel
def _best(values: Values) -> int:
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
    values = search.odds[0]
    _evaluate(net, search, board, depth, bool(_NO), values, int(_ZERO))
    return _best(values)


@kernel
def _n_legal(values: Values) -> int:
    """Return the number of legal moves."""
    n = 0
    for action in range(4):
        n += values[action] > -np.inf
    return n


@kernel
def _deepen(
    net: Network, search: Search, deepening: Values, board: Word, every: bool, values: Values
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
        values: of the moves, `float64[4]`; at least those of the greedy search.

    Returns:
        The number of finished searches after the greedy one.
    """
    _evaluate(net, search, board, int(_ONE), bool(_YES), values, int(_ZERO))
    if not every and _n_legal(values) < 2:
        return 0
    deeper = search.odds[2 * MAX_DEPTH + 1]
    for i in range(len(deepening)):
        forget(search)
        cutoff = deepening[i, 1]
        step = Search(
            cutoff, search.extend, search.lowest_last, search.table, search.control, search.odds
        )
        best = _best(values)
        _evaluate(net, step, board, int(deepening[i, 0]), every, deeper, best)
        if search.control[_STOP] == 0 or (not every and np.isfinite(deeper[best])):
            change = deeper[best] - values[best]
            for action in range(4):
                is_reached = not np.isnan(deeper[action])
                values[action] = deeper[action] if is_reached else values[action] + change
        if search.control[_STOP] != 0:
            return i
    return len(deepening)


@kernel
def _choose(
    net: Network, search: Search, deepening: Values, nodes: int, board: Word, depth: int
) -> int:
    """Return the best move by a search of one depth, or by deepening; -1 if none is legal."""
    if len(deepening) == 0:
        return search_move(net, search, board, depth)
    search.control[_STOP] = 0
    search.control[_LIMIT] = search.control[_N_SEARCHED] + nodes
    values = search.odds[0]
    _deepen(net, search, deepening, board, bool(_NO), values)
    return _best(values)


@kernel
def _finish(
    net: Network,
    search: Search,
    deepening: Values,
    nodes: int,
    records: Words,
    n_moves: Indices,
    depth: int,
) -> None:
    """Play games: see `ExpectimaxAgent.finish`."""
    for i in range(records.shape[1]):
        while records[games.EXCESS, i] == 0:
            action = _choose(net, search, deepening, nodes, records[games.BOARD, i], depth)
            if action < 0:
                break
            games.play(records, i, action, net.moves, net.size[0], net.size[1])
            n_moves[i] += 1


class SearchResult(NamedTuple):
    """The result of a search."""

    action: int  # the best move; -1 if none is legal
    values: Values  # of up, right, down and left; minus infinity if illegal or not followed
    depth: int  # of the last search that was finished
    cutoff: float  # of that search
    n_searched: int  # afterstates before the last ply, in all searches and threads together
    n_found: int  # others that were found in the transposition table


class ExpectimaxAgent(Agent):
    """Plays the best move of an expectimax search; one search at a time.

    Args:
        net: values the afterstates at the end of the search.
        depth: of the search in moves of the player, in 1..12; by default 3. With a limit it is the
            largest depth, by default 12.
        seconds: limit of time for each move, for iterative deepening; the moves that an unfinished
            search has reached count. Compilation is not counted. On a busy machine a move takes up
            to 10 ms longer. By default none.
        nodes: limit of searched afterstates for each move, for iterative deepening. Moves do
            not depend on the machine, as they do with `seconds`. By default none.
        cutoff: probability below which lines of play are not followed; 0 follows all. By default
            1e-4, with a limit those of `DEEPENING`.
        extend: with at most this many empty cells, in 0..15, the next tile and move count half a
            move of the depth, so that a search of depth 4 looks up to 7 moves ahead. By default 0,
            which extends no line.
        threads: of a search, in 1..64. With several, moves may depend on their timing, so they do
            not go with `nodes`. They pay from some three milliseconds a search on.
        table_bits: log2 of the transposition table's buckets, of 64 bytes each.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self,
        net: Network,
        depth: int | None = None,
        seconds: float | None = None,
        nodes: int | None = None,
        cutoff: float | None = None,
        extend: int = 0,
        threads: int = 1,
        table_bits: int = TABLE_BITS,
    ) -> None:
        is_limited = seconds is not None or nodes is not None
        if depth is None:
            depth = MAX_DEPTH if is_limited else 3
        if not 1 <= (whole(depth) or 0) <= MAX_DEPTH:
            raise ValueError(f"depth must be an integer in 1..{MAX_DEPTH}, got {shown(depth)}")
        if not 0 <= (-1 if whole(table_bits) is None else table_bits) <= 28:
            raise ValueError(f"table_bits must be an integer in 0..28, got {shown(table_bits)}")
        check_network(net)
        self.network, self.depth = net, int(depth)
        self.seconds = checked("seconds", seconds, Seconds | None)
        self.nodes = checked("nodes", nodes, Nodes | None)
        if cutoff is None and not is_limited:
            cutoff = CUTOFF
        self.cutoff = checked("cutoff", cutoff, ShareBelow1 | None)
        self.extend = checked("extend", extend, EmptyCells)
        self.threads = checked("threads", threads, Threads)
        if nodes is not None and threads > 1:
            raise ValueError(f"threads must be 1 with a limit of nodes, got {threads}")
        self.table_bits, self.size = int(table_bits), net.size
        self._search = new_search(self.cutoff or 0.0, self.table_bits, self.extend)
        self._searches = sharing_table(self._search, self.threads)
        self._deepening = self._steps() if is_limited else np.empty((0, 2))

    def _steps(self) -> Values:
        """Return the depths and cutoffs of iterative deepening."""
        steps = [step for step in DEEPENING if step[0] <= self.depth]
        if self.cutoff is not None:
            steps = [(depth, self.cutoff) for depth in range(2, self.depth + 1)]
        return np.array(steps, np.float64).reshape(-1, 2)

    @property
    def n_searched(self) -> int:
        """Return the number of afterstates before the last ply that were searched."""
        return sum(int(search.control[_N_SEARCHED]) for search in self._searches)

    @property
    def n_found(self) -> int:
        """Return the number of those found in the transposition table instead."""
        return sum(int(search.control[_N_FOUND]) for search in self._searches)

    def search(self, board: Any) -> SearchResult:
        """Search a board word, to the depth or the limit of this player.

        Raises:
            ValueError: not a board word.
        """
        array = check_words(board, *self.size)
        if array.ndim:
            raise ValueError(f"board must be one word, got shape {array.shape}")
        values, searched, found = np.empty(4), self.n_searched, self.n_found
        depth, cutoff = self._write_values(np.uint64(array), False, values)
        action = int(values.argmax()) if np.isfinite(values).any() else -1
        counts = self.n_searched - searched, self.n_found - found
        return SearchResult(action, values, depth, cutoff, *counts)

    def evaluate(self, boards: Any) -> Values:
        """Return the values of the moves up, right, down and left of board words `uint64[...]`.

        Returns:
            The expected score still to come `float64[..., 4]`, minus infinity for illegal moves.
        """
        array = check_words(boards, *self.size)
        return self._values(array.reshape(-1), every=True).reshape(*array.shape, 4)

    def _act(self, boards: Words) -> npt.NDArray[np.int8]:
        actions: npt.NDArray[np.int8] = self._values(boards).argmax(axis=1).astype(np.int8)
        return actions

    def finish(self, records: Words) -> Indices:
        """Play games on in compiled code, each to its end or to a 65536 tile.

        Args:
            records: game records `uint64[8, B]`, changed in place.

        Returns:
            The number of moves played in each game, `int64[B]`; 0 for a player with `seconds` or
            several threads.

        Raises:
            ValueError: other records.
        """
        check_records(records)
        n_moves = np.zeros(records.shape[1], np.int64)
        is_compiled = self.seconds is None and self.threads == 1
        if is_compiled and type(self)._act is ExpectimaxAgent._act:
            limit = self._deepening, self.nodes or 0
            _finish(self.network, self._search, *limit, records, n_moves, self.depth)
        return n_moves

    def _values(self, boards: Words, every: bool = False) -> Values:
        """Return the values of the moves of board words `uint64[B]`; see `_evaluate`."""
        values = np.empty((boards.size, 4))
        if self.threads == 1 and not len(self._deepening):
            forget(self._search)
            _evaluate_all(self.network, self._search, boards, self.depth, every, values)
            return values
        for board, row in zip(boards, values, strict=True):
            self._write_values(board, every, row)
        return values

    def _write_values(self, board: np.uint64, every: bool, values: Values) -> tuple[int, float]:
        """Write the values of the moves of a board; return the depth and cutoff of their search."""
        if self.seconds is not None:  # load the kernel before the clock starts, and search nothing
            _deepen(self.network, self._search, self._deepening[:0], board, every, values)
        if not len(self._deepening):
            forget(self._search)
        for search in self._searches:
            control = search.control
            control[_STOP], control[_SALT] = 0, self._search.control[_SALT]
            control[_LIMIT] = control[_N_SEARCHED] + (self.nodes or _MAX_NODES)
        rows = np.empty((self.threads, 4))
        with self._timer():
            finished = self._in_threads(partial(self._run, board, every), rows)
        best = int(np.argmax(finished))
        values[:] = rows[best]
        # No thread has begun more steps, so none has used a later salt.
        self._search.control[_SALT] = self._searches[best].control[_SALT]
        if not len(self._deepening):
            return self.depth, self._search.cutoff
        depth, cutoff = self._deepening[finished[best] - 1] if finished[best] else (1, 0)
        return int(depth), float(cutoff)

    def _in_threads(self, run: Callable[[Search, Values], int], rows: Values) -> list[int]:
        """Return the result of each thread for its search and its row of values."""
        finished = [0] * self.threads

        def search(i: int) -> None:
            finished[i] = run(self._searches[i], rows[i])

        others = [threading.Thread(target=search, args=(i,)) for i in range(1, self.threads)]
        try:
            for thread in others:
                thread.start()
            search(0)
        finally:
            if others:  # after Ctrl-C, too, none may search on
                self._stop()
            for thread in others:
                if thread.ident is not None:
                    thread.join()
        return finished

    def _run(self, board: np.uint64, every: bool, search: Search, values: Values) -> int:
        """Write the values of the moves by one thread; return the number of finished searches."""
        if len(self._deepening):
            finished = _deepen(self.network, search, self._deepening, board, every, values)
        else:
            _evaluate(self.network, search, board, self.depth, every, values, 0)
            finished = int(search.control[_STOP] == 0)
        if search.control[_STOP] == 0:
            self._stop(search)
        return finished

    def _stop(self, finished: Search | None = None) -> None:
        """Stop all threads but for one that has finished."""
        for search in self._searches:
            if search is not finished:
                search.control[_STOP] = 1

    @contextmanager
    def _timer(self) -> Iterator[None]:
        """Stop the search after `seconds`, if there is such a limit."""
        if self.seconds is None:
            yield
            return
        timer = threading.Timer(self.seconds, self._stop)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
