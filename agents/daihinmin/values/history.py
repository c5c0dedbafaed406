"""Decisions of finished games from their records, and the inputs of `HistoryCNN`.

A record of `rules.GAME` holds all actions of its game. `decisions` replays finished games and
returns each afterstate that a player chose, as the player saw it.

`histories` replays what a player has seen: 64 rows of 161 planes over the 15 columns. Row 0 is the
afterstate, its first 10 planes 0. The rows after it are the latest 63 moves, the last first:

      0 -   4  seat      everywhere: the seat of the mover, counted from the deciding player
      5 -   9  cards     card image of the play
     10 - 160  before    the position before the move as the deciding player saw it: `encoding`

Passes of players that could not play, as far as the deciding player knows, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import boolean, float32, int64, njit, types, void

from afterstate.agents.daihinmin.afterstates.chains import (
    AFTERSTATE,
    MOVES_AGAIN,
    Afterstate,
    Afterstates,
    AfterstateType,
    after_pass,
    after_play,
    root,
    write_afterstate,
)
from afterstate.agents.daihinmin.values.encoding import (
    N_PLANES,
    fill,
    write_cards,
    write_position_planes,
)
from afterstate.envs.daihinmin.cards import JOKER
from afterstate.envs.daihinmin.observation import N_COLUMNS
from afterstate.envs.daihinmin.plays import CARDS, N_PLAYS, PASS, SIZE, Numbers, write_plays
from afterstate.envs.daihinmin.rules import (
    FUGO,
    GAME,
    N_PLAYERS,
    Game,
    GameType,
    play,
    rewind,
    seat_of,
    write_legal,
)
from afterstate.envs.daihinmin.views import unseen_cards
from afterstate.envs.words import Float32s

N_ROWS, N_HISTORY_PLANES = 64, 161
_BEFORE = N_HISTORY_PLANES - N_PLANES


Games = npt.NDArray[np.void]
"""Records of `GAME`, or views."""


class Moments(NamedTuple):
    """The game of each afterstate and the moment in it at which its player decided."""

    games: Games  # [m]
    origins: Numbers  # [n] the index of the game
    players: Numbers  # [n] the player that decides
    actions: Numbers  # [n] the number of actions before the decision

    def part(self, rows: slice | Sequence[int] | npt.NDArray[Any]) -> Moments:
        """Return the moments of some afterstates."""
        return Moments(self.games, self.origins[rows], self.players[rows], self.actions[rows])


@njit(void(GameType, int64, AfterstateType), cache=True)
def write_position(game: Game, player: int, out: Afterstate) -> None:
    """Write the position of a game as a player sees it, whoever is in turn."""
    turn = game.turn
    game.turn = player
    write_afterstate(game, root(game), PASS, out)
    out.out |= int(game.passed >> player & 1 or game.left[player] == 0)
    game.turn = turn


# Decisions


@njit(boolean(GameType, int64, AfterstateType, int64[::1]), cache=True)
def write_decision(game: Game, move: int, out: Afterstate, scratch: Numbers) -> bool:
    """Write the afterstate of a move of the player in turn; return True if it was a decision.

    It was none if the player could only pass, if the turn returns to it, if the move empties its
    hand, or if only two players are left.
    """
    leads_and_passes = move == PASS and game.field == PASS
    if game.n_out >= N_PLAYERS - 2 or leads_and_passes or write_legal(game, scratch) == 0:
        return False
    at = root(game)
    if move == PASS:
        again, after = after_pass(game, at)
    else:
        again, after = after_play(game, unseen_cards(game, game.turn), at, move, scratch)
    if again == MOVES_AGAIN or after.hand == np.uint64(0):
        return False
    write_afterstate(game, after, move, out)
    return True


@njit(int64(GameType, int64, AfterstateType[::1], int64[:, ::1], int64), cache=True)
def _gifts(game: Game, number: int, out: Afterstates, facts: Numbers, n: int) -> int:
    """Append the positions of daifugo and fugo after the exchange; return the new number."""
    for player in range(N_PLAYERS):
        if game.given[player] and 0 <= game.classes[player] <= FUGO:
            write_position(game, player, out[n])
            facts[n, 0], facts[n, 1], facts[n, 2] = player, 0, number
            n += 1
    return n


@njit(
    types.Tuple((AfterstateType[::1], int64[:, ::1]))(GameType[::1], int64[::1], boolean),
    cache=True,
)
def decisions(games: Games, first: Numbers, with_gifts: bool) -> tuple[Afterstates, Numbers]:
    """Return the afterstates that players chose in finished games.

    Args:
        games: `GAME[n]`.
        first: `[n]`, the first move of each game to consider; -1: the whole game, its exchange
            included.
        with_gifts: include, in whole games, the positions of daifugo and fugo after the exchange.

    Returns:
        The afterstates, each as its player saw it, and `[n, 3]`: the player, the number of actions
        before, and the index of the game.
    """
    most = (games["n_actions"] + N_PLAYERS).sum()
    out, facts = np.empty(most, AFTERSTATE), np.empty((most, 3), np.int64)
    scratch, replayed, n = np.empty(N_PLAYS, np.int64), np.empty(1, GAME), 0
    for i in range(len(games)):
        replayed[0] = games[i]
        game = replayed[0]
        rewind(game)
        if with_gifts and first[i] < 0:
            n = _gifts(game, i, out, facts, n)
        for k in range(games[i].n_actions):
            player, move = games[i].actions[k] // N_PLAYS, games[i].actions[k] % N_PLAYS
            if k >= first[i] and write_decision(game, move, out[n], scratch):
                facts[n, 0], facts[n, 1], facts[n, 2] = player, k, i
                n += 1
            play(game, move)
    return out[:n], facts[:n]


# The inputs of HistoryCNN


@njit(boolean(GameType, int64, int64[::1]), cache=True)
def could_play(game: Game, viewer: int, scratch: Numbers) -> bool:
    """Return True if the player in turn may have had a legal play, as far as the viewer knows."""
    turn = game.turn
    if turn == viewer:
        return bool(write_legal(game, scratch) > 0)
    if game.field == PASS:
        return True
    unseen = unseen_cards(game, viewer)
    revolution, lock, runs = game.revolution != 0, game.lock != 0, game.sequences != 0
    n = write_plays(unseen, game.field, revolution, lock, runs, scratch)
    return bool(n > 0 and game.left[turn] >= SIZE[game.field])


@njit(void(GameType, int64, int64, AfterstateType, float32[:, :, ::1]), cache=True)
def _write_history(past: Game, viewer: int, actions: int, after: Afterstate, out: Float32s) -> None:
    """Write the rows of an afterstate to `out[64, 15, 161]`."""
    out[:] = 0
    write_position_planes(after, out[0], _BEFORE)
    games, before = np.empty(1, GAME), np.empty(1, AFTERSTATE)
    scratch = np.empty(N_PLAYS, np.int64)
    kept = np.empty(actions, np.int64)
    for pass_ in range(2):  # the first pass marks the moves to keep, the second writes their rows
        games[0] = past
        game = games[0]
        rewind(game)
        for k in range(actions):
            player, move = game.turn, past.actions[k] % N_PLAYS
            if pass_ == 0:
                kept[k] = move != PASS or could_play(game, viewer, scratch)
            row = kept[k:].sum() if pass_ else 0
            if pass_ and kept[k] and row < N_ROWS:
                write_position(game, viewer, before[0])
                fill(out[row], (seat_of(game, player) - seat_of(game, viewer)) % N_PLAYERS)
                write_cards(CARDS[move], game.revolution, out[row], N_PLAYERS)
                if CARDS[move] >> np.uint64(JOKER):
                    fill(out[row], _BEFORE - 1)
                write_position_planes(before[0], out[row], _BEFORE)
            play(game, move)


@njit(
    void(
        GameType[::1],
        int64[::1],
        int64[::1],
        int64[::1],
        AfterstateType[::1],
        float32[:, :, :, ::1],
    ),
    cache=True,
)
def write_histories(
    games: Games,
    origins: Numbers,
    players: Numbers,
    actions: Numbers,
    afters: Afterstates,
    out: Float32s,
) -> None:
    """Write the rows of afterstates to `out[n, 64, 15, 161]`, channels last."""
    for i in range(len(afters)):
        _write_history(games[origins[i]], players[i], actions[i], afters[i], out[i])


def histories(afters: Afterstates, moments: Moments) -> Float32s:
    """Return the inputs of `HistoryCNN`, `float32[n, 161, 64, 15]`, channels last in memory."""
    out = np.empty((len(afters), N_ROWS, N_COLUMNS, N_HISTORY_PLANES), np.float32)
    write_histories(*moments, afters, out)
    return out.transpose(0, 3, 1, 2)
