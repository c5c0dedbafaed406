"""Forced wins in endgames of Daihinmin.

`mate` searches for a chain of unanswerable plays that empties the hand: it wins whatever cards the
others hold. `duel` solves the game of the last two players, who know each other's cards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int8, int64, njit, types, uint64

from afterstate.agents.daihinmin.afterstates.chains import search
from afterstate.envs.daihinmin.cards import count
from afterstate.envs.daihinmin.plays import CARDS, N_PLAYS, PASS, Numbers, write_plays
from afterstate.envs.daihinmin.rules import (
    N_PLAYERS,
    Game,
    GameType,
    cuts,
    leader,
    lock_after,
    order_after,
)
from afterstate.envs.daihinmin.views import unseen_cards
from afterstate.envs.words import Word, Words

MATE_POSITIONS = 1 << 10
"""The most positions to search for a mate in a decision."""
DUEL_POSITIONS = 1 << 20
"""The most positions to search in the game of the last two players. It was enough for 1,000 games
of the policy, solved from the moment when two players were left."""
NOT_WON, WON, UNKNOWN = 0, 1, 2


@njit(int64(GameType), cache=True)
def mate(view: Game) -> int:
    """Return a play after which the player in turn goes out before any other can play again.

    Args:
        view: the player's view, or the whole game, of which only its hand and open cards count.

    Returns:
        The first play of such a chain, or the pass; -1 if the search finds none.
    """
    first, _, _ = search(view, False, MATE_POSITIONS)
    return int(first)


class Duel(NamedTuple):
    """A position of the last two players, seen by the one in turn."""

    mine: Word  # the hand of the player in turn
    other: Word
    field: int
    revolution: int
    lock: int
    passed: int  # 1 if the other player has passed
    leads: int  # 1 if the player in turn leads when the trick ends
    attacks: int  # 1 if the player in turn is the one that must be able to force going out first


class TranspositionTable(NamedTuple):
    """A transposition table: the results of searched positions at the index of their hash."""

    mine: Words  # [n], n a power of two
    other: Words  # [n]
    rest: Numbers  # [n], 0 for an empty entry
    result: npt.NDArray[np.int8]  # [n]
    visited: Numbers  # [1], the number of positions searched


DuelType = types.NamedTuple((uint64, uint64, *[int64] * 6), Duel)
TranspositionTableType = types.NamedTuple(
    (uint64[::1], uint64[::1], int64[::1], int8[::1], int64[::1]), TranspositionTable
)


@njit(TranspositionTableType(int64), cache=True)
def _new_table(n: int) -> TranspositionTable:
    """Return an empty table of `n` entries."""
    return TranspositionTable(
        np.empty(n, np.uint64),
        np.empty(n, np.uint64),
        np.zeros(n, np.int64),
        np.empty(n, np.int8),
        np.zeros(1, np.int64),
    )


@njit(int64(DuelType), cache=True)
def _rest(at: Duel) -> int:
    """Return a position without its hands as a number above 0."""
    bits = at.field << 2 | at.revolution << 1 | at.lock
    return bits << 4 | at.passed << 3 | at.leads << 2 | at.attacks << 1 | 1


@njit(int64(DuelType, int64, int64), cache=True)
def _place(at: Duel, rest: int, mask: int) -> int:
    """Return the index of a position in the table."""
    bits = np.uint64(at.mine) * np.uint64(0x9E37_79B9_7F4A_7C15) ^ np.uint64(at.other)
    bits = (bits ^ bits >> np.uint64(31)) * np.uint64(0xBF58_476D_1CE4_E5B9) + np.uint64(rest)
    bits = (bits ^ bits >> np.uint64(29)) * np.uint64(0x94D0_49BB_1331_11EB)
    return int(np.int64(bits >> np.uint64(20)) & mask)


@njit(DuelType(DuelType), cache=True)
def _after_pass(at: Duel) -> Duel:
    """Return the position after a pass."""
    if at.passed == 0:
        field, revolution, lock = at.field, at.revolution, at.lock
        leads, attacks = 1 - at.leads, 1 - at.attacks
        return Duel(at.other, at.mine, field, revolution, lock, 1, leads, attacks)
    if at.leads:
        return Duel(at.mine, at.other, PASS, at.revolution, 0, 0, 1, at.attacks)
    return Duel(at.other, at.mine, PASS, at.revolution, 0, 0, 1, 1 - at.attacks)


@njit(DuelType(GameType, DuelType, int64), cache=True)
def _after_play(game: Game, at: Duel, play: int) -> Duel:
    """Return the position after a play that does not empty the hand."""
    mine = at.mine & ~CARDS[play]
    revolution = order_after(game, at.revolution, play)
    if cuts(game, at.field, play):
        return Duel(mine, at.other, PASS, revolution, 0, 0, 1, at.attacks)
    lock = lock_after(game, at.field, at.lock, play)
    if at.passed:
        return Duel(mine, at.other, play, revolution, lock, 1, 1, at.attacks)
    return Duel(at.other, mine, play, revolution, lock, 0, 0, 1 - at.attacks)


@njit(int64(GameType, DuelType, TranspositionTableType, int64), cache=True)
def _solve(game: Game, at: Duel, table: TranspositionTable, limit: int) -> int:
    """Solve a position: the attacker goes out first against all replies, or it does not.

    A pass on the lead never helps the attacker, since the other can return the lead by passing,
    too. So only the other's passes on the lead are searched, without a pass in reply.

    Returns:
        `WON`, `NOT_WON`, or `UNKNOWN` once `limit` positions have been searched.
    """
    rest = _rest(at)
    place = _place(at, rest, len(table.rest) - 1)
    known = table.rest[place] == rest and table.mine[place] == at.mine
    if known and table.other[place] == at.other:
        return int(table.result[place])
    if table.visited[0] >= limit:
        return UNKNOWN
    table.visited[0] += 1
    plays = np.empty(N_PLAYS, np.int64)
    revolution, lock = at.revolution != 0, at.lock != 0
    n = write_plays(at.mine, at.field, revolution, lock, game.sequences != 0, plays)
    good, bad = (WON, NOT_WON) if at.attacks else (NOT_WON, WON)
    result = bad
    for i in range(n):
        if CARDS[plays[i]] == at.mine:
            result = good
    may_pass = at.field != PASS or (at.attacks == 0 and at.passed == 0)
    for i in range(n - 1, -1 - may_pass, -1):  # long plays first
        if result == good:
            break
        child = _after_play(game, at, plays[i]) if i >= 0 else _after_pass(at)
        child_result = _solve(game, child, table, limit)
        if child_result == good:
            result = good
        elif child_result == UNKNOWN:
            result = UNKNOWN
    if result != UNKNOWN:
        table.mine[place], table.other[place] = at.mine, at.other
        table.rest[place], table.result[place] = rest, result
    return int(result)


@njit(types.UniTuple(int64, 2)(GameType, uint64, int64), cache=True)
def duel(game: Game, other: Word, limit: int) -> tuple[int, int]:
    """Solve the game of the last two players.

    Args:
        game: the game, or a view of it, with two players left.
        other: the hand of the player that is not in turn.
        limit: the most positions to search.

    Returns:
        `WON` if the player in turn can force going out first, `NOT_WON` if it cannot, or `UNKNOWN`
        if the search reaches the limit; and a play, or the pass, that wins, else -1. Near the limit
        of passes in a row, after which places are drawn, the result is `UNKNOWN`.
    """
    mine = game.hands[game.turn]
    if game.n_out != N_PLAYERS - 2 or game.idle + 3 >= game.idle_limit:
        return UNKNOWN, -1
    rival = -1
    for player in range(N_PLAYERS):
        if player != game.turn and game.left[player] > 0:
            rival = player
    passed, leads = int(game.passed >> rival & 1), int(leader(game) == game.turn)
    field, revolution, lock = int(game.field), int(game.revolution), int(game.lock)
    at = Duel(mine, other, field, revolution, lock, passed, leads, 1)
    table = _new_table(1 << min(count(mine) + count(other) + 2, 17))
    plays = np.empty(N_PLAYS, np.int64)
    n = write_plays(mine, field, revolution != 0, lock != 0, game.sequences != 0, plays)
    result = NOT_WON
    for i in range(n):
        if CARDS[plays[i]] == mine:
            return WON, plays[i]
    for i in range(n - 1, -1 - int(field != PASS), -1):
        child = _after_play(game, at, plays[i]) if i >= 0 else _after_pass(at)
        child_result = _solve(game, child, table, limit)
        if child_result == WON:
            return WON, plays[i] if i >= 0 else PASS
        if child_result == UNKNOWN:
            result = UNKNOWN
    return result, -1


@njit(int64(GameType), cache=True)
def won_duel(view: Game) -> int:
    """Return a play, or the pass, with which the player in turn beats the only other one.

    Args:
        view: the player's view, or the whole game.

    Returns:
        The play; -1 if there is none, or if more than two players are left.
    """
    if view.n_out != N_PLAYERS - 2:
        return -1
    _, best = duel(view, unseen_cards(view, view.turn), DUEL_POSITIONS)
    return int(best)


@njit(int64(GameType), cache=True)
def forced_win(view: Game) -> int:
    """Return a play that wins against all replies: a mate, or that of `duel` with two players.

    Args:
        view: the view of the player in turn, or the whole game.

    Returns:
        The play, or the pass; -1 if there is none.
    """
    chain = mate(view)
    return chain if chain >= 0 else won_duel(view)
