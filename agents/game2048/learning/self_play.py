"""Self-play games from which a network learns, in compiled code.

A game is a path of afterstates, `after_0 --(reward_1)--> after_1 -- ... --> after_T`, played
greedily unless the settings say otherwise (`run_settings.NTupleSettings`):

- some games are played by search, and some moves are random;
- *restart* (Matsuzaki 2017): a game that has ended is played again from its middle, then from the
  middle of what followed, until what is left is short;
- *good plays only*: the network learns from a game only if its score is near the best so far;
- *carousel shaping* (Jaskowski 2016): games begin in turn at the start, and where one of the last
  thousand games entered the second stage, the third, and so on;
- *jump*: some games begin at positions of other games, from a play log;
- *within a stage*: a game ends where it enters the next stage, whose value it learns from.

Threads of a learner share the network and the pools and write to them without locks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float32, int64, njit, types, uint64, void

from afterstate.agents.game2048.kernels import KERNEL, inlined, kernel
from afterstate.agents.game2048.learning.td import (
    OF_RANDOM,
    TOWARD_RANDOM,
    GamePath,
    Update,
    learn_backward,
    prefetch_sums,
    update,
)
from afterstate.agents.game2048.search.expectimax_search import Search, search_move
from afterstate.agents.game2048.values.ntuple import (
    looked_up_board,
    prefetch_moves,
    select_move,
    stage_start,
    value_of,
)
from afterstate.agents.game2048.values.ntuple_network import Network, Value
from afterstate.envs.game2048.games import largest_exponent
from afterstate.envs.game2048.rules import field, is_over, legal, spawn
from afterstate.envs.words import Float32s, Ints, Word, Words, below, next_random

POOL = 1000
"""Boards of each stage that carousel shaping keeps."""

RNG, GAMES, MOVES, LEARNED, BEST, NEXT_STAGE = range(6)
"""A thread's row of a learner's state: its random stream, finished games from the start, moves,
moves learned from, best score, and the stage at which carousel shaping begins the next game."""


GREEDY = -2
"""Stands for the network's greedy move, before it is computed."""


class PlaySettings(NamedTuple):
    """Settings of self-play, in the form that kernels take."""

    backward: bool
    delay: int
    restart: int  # stop when at most this many moves are left; -1: play each game once
    good: float  # learn from scores above this share of the best; 0: from all
    epsilon: float
    search_share: float
    search_from: int
    search_depth: int
    carousel: bool
    carousel_stages: int  # the stages at which carousel shaping begins games, as bits
    within_stage: bool
    jump: float  # probability that a game begins at a position from the log


class Pools(NamedTuple):
    """Boards at which games begin in the middle."""

    boards: Words  # where games entered each stage, [stages, POOL], the oldest overwritten first
    counts: Ints  # boards written in each stage
    log: Words  # positions of other games


@njit(types.Tuple((float32, uint64))(uint64), **KERNEL)
def _draw(rng: Word) -> tuple[Value, Word]:
    """Return a random number in [0, 1) and the advanced random state."""
    rng, bits = next_random(rng)
    return np.float32(bits >> np.uint64(40)) * np.float32(2.0**-24), rng


@njit(types.Tuple((int64, uint64))(int64, uint64), **KERNEL)
def _draw_below(n: int, rng: Word) -> tuple[int, Word]:
    """Return a random integer in 0..n-1 and the advanced random state."""
    rng, bits = next_random(rng)
    return int(np.int64(below(bits, n))), rng


@njit(types.Tuple((int64, uint64))(uint64, uint64, uint64), **KERNEL)
def _random_move(board: Word, cells: Word, rng: Word) -> tuple[int, Word]:
    """Return a random legal move, -1 if there is none, and the advanced random state."""
    moves, n_moves = legal(board, cells), 0
    for action in range(4):
        n_moves += moves >> action & 1
    drawn, rng = _draw_below(n_moves, rng)
    for action in range(4):
        drawn -= moves >> action & 1
        if drawn < 0:
            return action, rng
    return -1, rng


@kernel
def _explore(
    net: Network,
    settings: PlaySettings,
    search: Search | None,
    searching: bool,
    board: Word,
    rng: Word,
) -> tuple[int, bool, Word]:
    """Return a random move, or that of the search, as the settings say.

    Returns:
        Action, -1 if none is legal and -2 if the greedy move is to be played; whether the move is
        random; and the advanced random state.
    """
    if settings.epsilon > 0:
        drawn, rng = _draw(rng)
        if drawn < settings.epsilon:
            action, rng = _random_move(board, field(net.size[0], net.size[1]), rng)
            return action, action >= 0, rng
    if search is not None:  # else numba leaves out the search
        if searching:
            return search_move(net, search, board, settings.search_depth), False, rng
    return GREEDY, False, rng


@inlined
def _choose(
    net: Network,
    settings: PlaySettings,
    search: Search | None,
    searching: bool,
    board: Word,
    boards: tuple[Word, ...],
    rewards: tuple[int, ...],
    rng: Word,
) -> tuple[int, Value, bool, Word]:
    """Return the move that the settings say.

    Args:
        net: the network.
        settings: settings of self-play.
        search: memory of the search; None if it plays no game.
        searching: True if search plays this game.
        board: a board word.
        boards: its afterstates.
        rewards: their rewards.
        rng: random state.

    Returns:
        Action, reward plus value, whether the move was random, and the advanced random state;
        action -1 and value 0 if no move is legal.
    """
    action, is_random = GREEDY, False
    if searching or settings.epsilon > 0:
        action, is_random, rng = _explore(net, settings, search, searching, board, rng)
    if action == GREEDY:
        action, value = select_move(net, board, boards, rewards)
    elif action >= 0:
        value = np.float32(rewards[action]) + value_of(net, boards[action])
    else:
        value = np.float32(0)
    return action, value, is_random, rng


@inlined
def _stage(net: Network, board: Word) -> Word:
    """Return the start of the weights of the stage by which a board is valued."""
    start: Word = stage_start(net, looked_up_board(net, board))
    return start


@kernel
def enters_stage(net: Network, path: GamePath, t: int) -> bool:
    """Return True if a move leads to another stage."""
    return bool(_stage(net, path.afters[t]) != _stage(net, path.boards[t]))


@kernel
def play_path(
    net: Network,
    settings: PlaySettings,
    search: Search | None,
    searching: bool,
    board: Word,
    rng: Word,
    path: GamePath,
    start: int,
) -> tuple[int, Word, Word]:
    """Play a game on from the board before move `start`, and write its path from there.

    It ends where no move is legal or, if the settings say so, after a move to another stage.

    Returns:
        The number of moves up to the end, the last board and the advanced random state.
    """
    cells = field(net.size[0], net.size[1])
    for t in range(start, path.boards.size):
        boards, rewards = prefetch_moves(net, board)
        action, _, is_random, rng = _choose(
            net, settings, search, searching, board, boards, rewards, rng
        )
        if action < 0:
            return t, board, rng
        after = boards[action]
        path.boards[t], path.afters[t], path.rewards[t] = board, after, rewards[action]
        path.is_random[t] = is_random
        board, rng = spawn(after, rng, cells)
        if settings.within_stage and enters_stage(net, path, t):
            return t + 1, board, rng
    return path.boards.size, board, rng


@njit(void(float32[::1], int64, int64, float32, float32), **KERNEL)
def _spread(errors: Float32s, since: int, t: int, lam: Value, error: Value) -> None:
    """Add an error to the afterstate of move `t` and, weighted by lambda, to those before it."""
    for earlier in range(t, max(since, t - errors.size + 1) - 1, -1):
        errors[earlier % errors.size] += error
        error *= lam


@inlined
def _learn_delayed(net: Network, rule: Update, path: GamePath, t: int) -> None:
    """Update the afterstate of move `t` by the errors summed up for it."""
    slot = t % path.errors.size
    if not (rule.excluded == OF_RANDOM and path.is_random[t]):
        update(net, rule, path.afters[t], path.errors[slot])
    path.errors[slot] = 0


@kernel
def play_forward(
    net: Network,
    rule: Update,
    settings: PlaySettings,
    search: Search | None,
    searching: bool,
    board: Word,
    rng: Word,
    path: GamePath,
    start: int,
) -> tuple[int, Word, Word]:
    """Play as `play_path` does, and learn during the game.

    An afterstate is updated `delay` moves after its first error is known; its error is the sum of
    the errors up to then, the k-th of them times `lam**k` (Jaskowski 2016). If the network has many
    tuples, the entries of the next board's moves are requested before the update, which hides the
    memory's latency.
    """
    cells = field(net.size[0], net.size[1])
    first = max(start - 1, 0)  # after a restart, the afterstate before it learns as well
    since = first
    boards, rewards = prefetch_moves(net, board)
    t = start
    while t < path.boards.size:
        action, value, is_random, rng = _choose(
            net, settings, search, searching, board, boards, rewards, rng
        )
        if is_random and rule.excluded == TOWARD_RANDOM:
            since = t
        if t > first:
            error = value - value_of(net, path.afters[t - 1])
            _spread(path.errors, since, t - 1, rule.lam, error)
        if action < 0:
            break
        after = boards[action]
        path.boards[t], path.afters[t], path.rewards[t] = board, after, rewards[action]
        path.is_random[t] = is_random
        prefetch_sums(net, rule, after)
        board, rng = spawn(after, rng, cells)
        boards, rewards = prefetch_moves(net, board)
        if t - settings.delay > first:
            _learn_delayed(net, rule, path, t - settings.delay - 1)
        t += 1
    if t == path.boards.size and t > first:  # truncated: the last error is that of a game over
        _spread(path.errors, since, t - 1, rule.lam, -value_of(net, path.afters[t - 1]))
    for waiting in range(max(first, t - settings.delay - 1), t):
        _learn_delayed(net, rule, path, waiting)
    return t, board, rng


@kernel
def _first_board(
    net: Network, settings: PlaySettings, state: Words, me: int, pools: Pools
) -> tuple[Word, bool, Word]:
    """Return the first board of the next game, whether it is a start, and the random state."""
    rng, stage = state[me, RNG], np.int64(state[me, NEXT_STAGE])
    if settings.jump > 0:
        share, rng = _draw(rng)
        if share < settings.jump:
            drawn, rng = _draw_below(pools.log.size, rng)
            return pools.log[drawn], False, rng
    if stage > 0:
        drawn, rng = _draw_below(min(pools.counts[stage], POOL), rng)
        return pools.boards[stage, drawn], False, rng
    board, rng = spawn(np.uint64(0), rng, field(net.size[0], net.size[1]))
    board, rng = spawn(board, rng, field(net.size[0], net.size[1]))
    return board, True, rng


@kernel
def _store_entries(net: Network, pools: Pools, path: GamePath, n_moves: int, last: Word) -> None:
    """Store the boards at which a game entered a stage."""
    stage = _stage(net, path.boards[0]) if n_moves > 0 else np.uint64(0)
    goes_on = not is_over(last, field(net.size[0], net.size[1]))
    for t in range(1, n_moves + goes_on):
        board = path.boards[t] if t < n_moves else last
        entered = _stage(net, board)
        if entered > stage:
            stage = entered
            s = int(entered) // net.stage_size
            pools.boards[s, pools.counts[s] % POOL] = board
            pools.counts[s] += 1


@kernel
def _advance_carousel(settings: PlaySettings, state: Words, me: int, pools: Pools) -> None:
    """Advance to the next stage at which games begin and which games have entered."""
    stage = int(np.int64(state[me, NEXT_STAGE]))
    for _ in range(pools.counts.size):
        stage = stage + 1 if stage + 1 < pools.counts.size else 0
        if settings.carousel_stages >> stage & 1 and (stage == 0 or pools.counts[stage] > 0):
            break
    state[me, NEXT_STAGE] = np.uint64(stage)


@kernel
def _plays_by_search(settings: PlaySettings, state: Words, rng: Word) -> tuple[bool, Word]:
    """Return True if search plays the next game, and the advanced random state."""
    if settings.search_share <= 0:
        return False, rng
    n_moves = 0
    for i in range(len(state)):
        n_moves += int(np.int64(state[i, MOVES]))
    drawn, rng = _draw(rng)
    return n_moves >= settings.search_from and bool(drawn < settings.search_share), rng


@kernel
def _is_good(settings: PlaySettings, state: Words, me: int, score: int) -> bool:
    """Return True if a score is near the best so far; update the best."""
    state[me, BEST] = max(state[me, BEST], np.uint64(score))
    best = np.uint64(0)
    for i in range(len(state)):
        best = max(best, state[i, BEST])
    return bool(score > settings.good * best)


@kernel
def _score(path: GamePath, n_moves: int) -> int:
    """Return the sum of the rewards of a game."""
    score = 0
    for t in range(n_moves):
        score += path.rewards[t]
    return score


@kernel
def _learn_game(
    net: Network,
    rule: Update,
    settings: PlaySettings,
    state: Words,
    me: int,
    pools: Pools,
    path: GamePath,
    search: Search | None,
    row: Ints,
) -> bool:
    """Play a game, and again from its middle as often as the settings say, and learn from it.

    Writes score, number of moves and largest exponent of the first pass, and advances the state.

    Returns:
        True if the game began at the start.
    """
    board, from_start, rng = _first_board(net, settings, state, me, pools)
    searching, rng = _plays_by_search(settings, state, rng)
    start = int(np.int64(0))  # a plain 0 would have play_path compiled for it
    while True:
        if settings.backward:
            end, board, rng = play_path(net, settings, search, searching, board, rng, path, start)
        else:
            end, board, rng = play_forward(
                net, rule, settings, search, searching, board, rng, path, start
            )
        if start == 0:
            row[0], row[1] = _score(path, end), end
            row[2] = largest_exponent(board, np.uint64(0))
            if settings.carousel:
                _store_entries(net, pools, path, end, board)
                _advance_carousel(settings, state, me, pools)
        goes_on = settings.within_stage and end > start and enters_stage(net, path, end - 1)
        selects = settings.good > 0  # then the network learns from the whole game
        good = selects and _is_good(settings, state, me, _score(path, end))
        if settings.backward and (good or not selects):
            learn_backward(net, rule, path, 0 if selects else max(start - 1, 0), end, goes_on)
        state[me, MOVES] += np.uint64(end - start)
        if good or not selects:
            state[me, LEARNED] += np.uint64(end if selects else end - start)
        # Restart from the middle of what was played, until few moves are left (Matsuzaki 2017).
        start = (start + end) // 2
        if settings.restart < 0 or goes_on or searching or good or end - start <= settings.restart:
            break
        board = path.boards[start]
    state[me, RNG] = rng
    return bool(from_start)


@kernel
def self_play(
    net: Network,
    rule: Update,
    settings: PlaySettings,
    state: Words,
    me: int,
    pools: Pools,
    path: GamePath,
    search: Search | None,
    n_moves: int,
    rows: Ints,
) -> int:
    """Play and learn from whole games until they have `n_moves` moves or fill the rows.

    Args:
        net: updated in place.
        rule: the update rule.
        settings: settings of self-play.
        state: one row for each thread, `uint64[threads, 6]`; advanced game by game, so that it
            always matches the weights.
        me: the row of this thread.
        pools: boards at which games begin in the middle.
        path: workspace for one game.
        search: memory of the search of this thread; None if it plays no game.
        n_moves: moves after which to stop.
        rows: score, number of moves and largest exponent of each game that began at the start,
            overwritten.

    Returns:
        The number of rows written.
    """
    end = state[me, MOVES] + np.uint64(n_moves)
    n_rows = 0
    while n_rows < len(rows) and state[me, MOVES] < end:
        if _learn_game(net, rule, settings, state, me, pools, path, search, rows[n_rows]):
            n_rows += 1
            state[me, GAMES] += np.uint64(1)
    return n_rows
