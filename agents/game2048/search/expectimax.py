"""Expectimax search over an N-tuple network: maximum over moves, mean over tiles.

An *n-ply* search has n moves of the player: 1-ply is greedy, 2-ply is max-chance-max, 3-ply is
max-chance-max-chance-max. An N-tuple network values the afterstates at the end; a board without a
legal move has value 0. The search itself is in `expectimax_search.py`.

Several *threads* search the same position and share the table. Each begins with other tiles, so
that it finds what the others have searched, and the first one that has finished stops the others.

A search with a limit of time or of nodes is one of *iterative deepening*: it searches deeper each
time, until the limit, with the cutoffs of `DEEPENING` or one that is given for all depths. It looks
further ahead where few cells are empty and moves differ in value, because there it has fewer lines
to follow.
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
from afterstate.agents.game2048.search.expectimax_search import (
    LIMIT,
    MAX_DEPTH,
    N_SEARCHED,
    N_TABLE_HITS,
    SALT,
    STOP,
    Search,
    deepen,
    evaluate_boards,
    evaluate_moves,
    finish_games,
    forget,
    new_search,
    sharing_table,
)
from afterstate.agents.game2048.values.ntuple_network import Network, check_network
from afterstate.agents.locks import Lock
from afterstate.envs.game2048.games import check_games
from afterstate.envs.game2048.rules import check_word, check_words
from afterstate.envs.words import Floats, Ints, Words

CUTOFF = 1e-4
"""The default cutoff."""
DEEPENING = (
    *((2, 1e-3), (3, 1e-3), (4, 1e-3), (5, 1e-3), (6, 1e-3), (7, 1e-3)),
    *((8, 3e-4), (9, 3e-4), (10, 1e-4), (11, 3e-5), (12, 1e-5)),
)
"""Depths and cutoffs of the successive searches of one that is limited. With the same cutoff each
takes up to three times as long as the one before."""
TABLE_BITS = 14
"""The transposition table has 2**14 buckets of 64 bytes: 1 MiB."""

_MAX_NODES = 1 << 62
Depth = Annotated[Count, Field(le=MAX_DEPTH)]
TableBits = Annotated[Whole, Field(le=28)]
Nodes = Annotated[Count, Field(le=_MAX_NODES)]
EmptyCells = Annotated[Whole, Field(le=15)]
Threads = Annotated[Count, Field(le=64)]


class SearchResult(NamedTuple):
    """The result of a search."""

    action: int  # the best move; -1 if none is legal
    values: Floats  # of up, right, down and left; minus infinity if illegal or not followed
    depth: int  # of the last search that was finished
    n_searched: int  # afterstates before the last ply, in all searches and threads together
    n_table_hits: int  # others that were found in the transposition table
    cutoff: float  # of the last search that was finished


class ExpectimaxAgent(Agent):
    """Plays the best move of an expectimax search; one search at a time.

    Args:
        network: values the afterstates at the end of the search.
        depth: depth of the search in moves of the player, in 1..12; by default 3. With a limit it
            is the largest depth, by default 12.
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
        threads: number of threads of a search, in 1..64. With several, moves may depend on their
            timing, so they do not go with `nodes`. They pay from some three milliseconds a search
            on.
        table_bits: log2 of the transposition table's buckets, of 64 bytes each.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self,
        network: Network,
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
        check_network(network)
        self.network, self.depth = network, checked("depth", depth, Depth)
        self.seconds = checked("seconds", seconds, Seconds | None)
        self.nodes = checked("nodes", nodes, Nodes | None)
        if cutoff is None and not is_limited:
            cutoff = CUTOFF
        self.cutoff = checked("cutoff", cutoff, ShareBelow1 | None)
        self.extend = checked("extend", extend, EmptyCells)
        self.threads = checked("threads", threads, Threads)
        if nodes is not None and threads > 1:
            raise ValueError(f"threads must be 1 with a limit of nodes, got {threads}")
        self.table_bits = checked("table_bits", table_bits, TableBits)
        self.size = network.size
        self._search = new_search(self.cutoff or 0.0, self.table_bits, self.extend)
        self._searches = sharing_table(self._search, self.threads)
        self._deepening = self._steps() if is_limited else np.empty((0, 2))
        self._lock = Lock()

    def _steps(self) -> Floats:
        """Return the depths and cutoffs of iterative deepening."""
        steps = [step for step in DEEPENING if step[0] <= self.depth]
        if self.cutoff is not None:
            steps = [(depth, self.cutoff) for depth in range(2, self.depth + 1)]
        return np.array(steps, np.float64).reshape(-1, 2)

    @property
    def n_searched(self) -> int:
        """The number of afterstates before the last ply that were searched."""
        return sum(int(search.control[N_SEARCHED]) for search in self._searches)

    @property
    def n_table_hits(self) -> int:
        """The number of afterstates found in the transposition table instead of searched."""
        return sum(int(search.control[N_TABLE_HITS]) for search in self._searches)

    def search(self, board: Any) -> SearchResult:
        """Search a board word, to the depth or the limit of this player.

        Raises:
            ValueError: not a board word.
        """
        word = check_word(board, *self.size)
        values = np.empty(4)
        with self._lock:
            searched, hits = self.n_searched, self.n_table_hits
            depth, cutoff = self._write_values(word, False, values)
            searched, hits = self.n_searched - searched, self.n_table_hits - hits
        action = int(values.argmax()) if np.isfinite(values).any() else -1
        return SearchResult(action, values, depth, searched, hits, cutoff)

    def evaluate(self, boards: Any) -> Floats:
        """Return the values of the moves up, right, down and left of board words `uint64[...]`.

        Returns:
            The expected score still to come `float64[..., 4]`, minus infinity for illegal moves.
        """
        array = check_words(boards, *self.size)
        return self._values(array.reshape(-1), every=True).reshape(*array.shape, 4)

    def choose_actions(self, boards: Words) -> npt.NDArray[np.int8]:
        """Return the moves `int8[B]` of the largest value."""
        actions: npt.NDArray[np.int8] = self._values(boards).argmax(axis=1).astype(np.int8)
        return actions

    def finish(self, games: Words) -> Ints:
        """Play games on in compiled code, each to its end or to a 65536 tile.

        Args:
            games: `uint64[8, B]`, changed in place.

        Returns:
            The number of moves played in each game, `int64[B]`; 0 for a player with `seconds` or
            several threads.

        Raises:
            ValueError: no such games.
        """
        check_games(games)
        n_moves = np.zeros(games.shape[1], np.int64)
        is_compiled = self.seconds is None and self.threads == 1
        if is_compiled and type(self).choose_actions is ExpectimaxAgent.choose_actions:
            limit = self._deepening, self.nodes or 0
            with self._lock:
                finish_games(self.network, self._search, *limit, games, n_moves, self.depth)
        return n_moves

    def _values(self, boards: Words, every: bool = False) -> Floats:
        """Return the values of the moves of board words `uint64[B]`; see `evaluate_moves`."""
        values = np.empty((boards.size, 4))
        with self._lock:
            if self.threads == 1 and not len(self._deepening):
                evaluate_boards(self.network, self._search, boards, self.depth, every, values)
                return values
            for board, row in zip(boards, values, strict=True):
                self._write_values(board, every, row)
        return values

    def _write_values(self, board: np.uint64, every: bool, values: Floats) -> tuple[int, float]:
        """Write the values of the moves of a board; return the depth and cutoff of their search."""
        if self.seconds is not None:  # load the kernel before the clock starts, and search nothing
            deepen(self.network, self._search, self._deepening[:0], board, every, values)
        if not len(self._deepening):
            forget(self._search)
        for search in self._searches:
            control = search.control
            control[STOP], control[SALT] = 0, self._search.control[SALT]
            control[LIMIT] = control[N_SEARCHED] + (self.nodes or _MAX_NODES)
        rows = np.empty((self.threads, 4))
        with self._timer():
            finished = self._in_threads(partial(self._run, board, every), rows)
        best = int(np.argmax(finished))
        values[:] = rows[best]
        # No thread has begun more steps, so none has used a later salt.
        self._search.control[SALT] = self._searches[best].control[SALT]
        if not len(self._deepening):
            return self.depth, self._search.cutoff
        depth, cutoff = self._deepening[finished[best] - 1] if finished[best] else (1, 0)
        return int(depth), float(cutoff)

    def _in_threads(self, run: Callable[[Search, Floats], int], rows: Floats) -> list[int]:
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

    def _run(self, board: np.uint64, every: bool, search: Search, values: Floats) -> int:
        """Write the values of the moves by one thread; return the number of finished searches."""
        if len(self._deepening):
            finished = deepen(self.network, search, self._deepening, board, every, values)
        else:
            evaluate_moves(self.network, search, board, self.depth, every, values, 0)
            finished = int(search.control[STOP] == 0)
        if search.control[STOP] == 0:
            self._stop(search)
        return finished

    def _stop(self, finished: Search | None = None) -> None:
        """Stop all threads but for one that has finished."""
        for search in self._searches:
            if search is not finished:
                search.control[STOP] = 1

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
