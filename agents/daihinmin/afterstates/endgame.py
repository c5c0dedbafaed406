"""Surely won endings of Daihinmin.

`mate` looks for a chain of plays that nobody can answer, and that empties the hand: it is sure
whatever cards the others hold. `duel` solves the game of the last two players, who know each
other's cards: it says whether the player in turn can surely go out first, and how.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int8, int64, njit, types, uint64

from afterstate.agents.daihinmin.afterstates.chains import search
from afterstate.envs.daihinmin.cards import count
from afterstate.envs.daihinmin.plays import CARDS, N_PLAYS, PASS, legal_plays
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
from afterstate.envs.words import Word

MATE_POSITIONS = 1 << 10
"""So many positions of a decision are searched for a mate."""
DUEL_POSITIONS = 1 << 20
"""So many positions are searched, at most, to solve the game of the last two. It is enough for all
of 1,000 games of the policy, from the moment when two are left."""
NOT_WON, WON, UNKNOWN = 0, 1, 2


@njit(int64(GameType), cache=True)
def mate(view: Game) -> int:
    """A play after which the player in turn surely goes out before anybody else plays again.

    Args:
        view: what he sees, or the whole game, of which only his hand and the open cards are used.

    Returns:
        The first play of such a chain, or the pass; -1 if none is found.
    """
    first, _, _ = search(view, False, MATE_POSITIONS)
    return int(first)


class Duel(NamedTuple):
    """A position of the last two players, as the one in turn has it."""

    mine: Word  # the hand of the player in turn
    other: Word
    field: int
    revolution: int
    lock: int
    passed: int  # whether the other has passed
    leads: int  # whether the player in turn leads if the trick flows
    attacks: int  # whether it is he who wants to be sure to go out first


class Memory(NamedTuple):
    """Results of positions: where their hash points, with what tells them from others."""

    mine: Any  # uint64[n], n a power of two
    other: Any
    rest: Any  # int64[n], 0 where there is none
    result: Any  # int8[n]
    visited: Any  # int64[1], how many positions have been searched


DuelType = types.NamedTuple((uint64, uint64, *[int64] * 6), Duel)
MemoryType = types.NamedTuple((uint64[::1], uint64[::1], int64[::1], int8[::1], int64[::1]), Memory)


@njit(MemoryType(int64), cache=True)
def _memory(n: int) -> Memory:
    """An empty memory of `n` places."""
    return Memory(
        np.empty(n, np.uint64),
        np.empty(n, np.uint64),
        np.zeros(n, np.int64),
        np.empty(n, np.int8),
        np.zeros(1, np.int64),
    )


@njit(int64(DuelType), cache=True)
def _rest(at: Duel) -> int:
    """A position without the hands, as a number above 0."""
    bits = at.field << 2 | at.revolution << 1 | at.lock
    return bits << 4 | at.passed << 3 | at.leads << 2 | at.attacks << 1 | 1


@njit(int64(DuelType, int64, int64), cache=True)
def _place(at: Duel, rest: int, mask: int) -> int:
    """Where a position is remembered."""
    bits = np.uint64(at.mine) * np.uint64(0x9E37_79B9_7F4A_7C15) ^ np.uint64(at.other)
    bits = (bits ^ bits >> np.uint64(31)) * np.uint64(0xBF58_476D_1CE4_E5B9) + np.uint64(rest)
    bits = (bits ^ bits >> np.uint64(29)) * np.uint64(0x94D0_49BB_1331_11EB)
    return int(np.int64(bits >> np.uint64(20)) & mask)


@njit(DuelType(DuelType), cache=True)
def _after_pass(at: Duel) -> Duel:
    """What a pass leads to."""
    if at.passed == 0:
        field, revolution, lock = at.field, at.revolution, at.lock
        leads, attacks = 1 - at.leads, 1 - at.attacks
        return Duel(at.other, at.mine, field, revolution, lock, 1, leads, attacks)
    if at.leads:
        return Duel(at.mine, at.other, PASS, at.revolution, 0, 0, 1, at.attacks)
    return Duel(at.other, at.mine, PASS, at.revolution, 0, 0, 1, 1 - at.attacks)


@njit(DuelType(GameType, DuelType, int64), cache=True)
def _after_play(game: Game, at: Duel, play: int) -> Duel:
    """What a play that does not empty the hand leads to."""
    mine = at.mine & ~CARDS[play]
    revolution = order_after(game, at.revolution, play)
    if cuts(game, at.field, play):
        return Duel(mine, at.other, PASS, revolution, 0, 0, 1, at.attacks)
    lock = lock_after(game, at.field, at.lock, play)
    if at.passed:
        return Duel(mine, at.other, play, revolution, lock, 1, 1, at.attacks)
    return Duel(at.other, mine, play, revolution, lock, 0, 0, 1 - at.attacks)


@njit(int64(GameType, DuelType, MemoryType, int64), cache=True)
def _solve(game: Game, at: Duel, memory: Memory, limit: int) -> int:
    """Whether the player who attacks surely goes out first, whatever the other does.

    To pass when one leads brings the attacker nothing, for the other can give the lead back by
    passing, too; so only the other's passes are looked at there, and not answered by a pass.

    Returns:
        `WON`, `NOT_WON`, or `UNKNOWN` once `limit` positions have been searched.
    """
    rest = _rest(at)
    place = _place(at, rest, len(memory.rest) - 1)
    known = memory.rest[place] == rest and memory.mine[place] == at.mine
    if known and memory.other[place] == at.other:
        return int(memory.result[place])
    if memory.visited[0] >= limit:
        return UNKNOWN
    memory.visited[0] += 1
    plays = np.empty(N_PLAYS, np.int64)
    revolution, lock = at.revolution != 0, at.lock != 0
    n = legal_plays(at.mine, at.field, revolution, lock, game.sequences != 0, plays)
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
        found = _solve(game, child, memory, limit)
        if found == good:
            result = good
        elif found == UNKNOWN:
            result = UNKNOWN
    if result != UNKNOWN:
        memory.mine[place], memory.other[place] = at.mine, at.other
        memory.rest[place], memory.result[place] = rest, result
    return int(result)


@njit(types.UniTuple(int64, 2)(GameType, uint64, int64), cache=True)
def duel(game: Game, other: Word, limit: int) -> tuple[int, int]:
    """Solves the game of the last two players.

    Args:
        game: the game, or what the player in turn sees of it; two players are left.
        other: the hand of the other player.
        limit: how many positions are searched at most.

    Returns:
        `WON` if the player in turn can surely go out first, `NOT_WON` if he cannot, or `UNKNOWN`
        if the limit was reached; and a play, or the pass, that wins, otherwise -1. Near the end of
        the competition's patience with passes, where places may be drawn, it is `UNKNOWN`.
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
    memory = _memory(1 << min(count(mine) + count(other) + 2, 17))
    plays = np.empty(N_PLAYS, np.int64)
    n = legal_plays(mine, field, revolution != 0, lock != 0, game.sequences != 0, plays)
    result = NOT_WON
    for i in range(n):
        if CARDS[plays[i]] == mine:
            return WON, plays[i]
    for i in range(n - 1, -1 - int(field != PASS), -1):
        child = _after_play(game, at, plays[i]) if i >= 0 else _after_pass(at)
        found = _solve(game, child, memory, limit)
        if found == WON:
            return WON, plays[i] if i >= 0 else PASS
        if found == UNKNOWN:
            result = UNKNOWN
    return result, -1


@njit(int64(GameType), cache=True)
def won_duel(view: Game) -> int:
    """A play, or the pass, by which the player in turn surely goes out before the only other one.

    Args:
        view: what he sees, or the whole game.

    Returns:
        The play; -1 if none is found, or if more than two players are left.
    """
    if view.n_out != N_PLAYERS - 2:
        return -1
    _, chosen = duel(view, unseen_cards(view, view.turn), DUEL_POSITIONS)
    return int(chosen)


@njit(int64(GameType), cache=True)
def sure_play(view: Game) -> int:
    """A play that surely wins: a mate, or with two players left what `duel` finds.

    Args:
        view: what the player in turn sees, or the whole game.

    Returns:
        The play, or the pass; -1 if none is found.
    """
    chain = mate(view)
    return chain if chain >= 0 else won_duel(view)
