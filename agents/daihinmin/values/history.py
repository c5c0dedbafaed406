"""What was decided in a game, found again from its record, and the inputs of `HistoryCNN`.

A record of `rules.GAME` has all actions of its game. `decisions` replays games that are over, and
gives each afterstate that a player chose, as he saw it.

`draw_history` replays what a player has seen: 64 rows of 161 planes over the 15 columns. Row 0 is
the afterstate, its first 10 planes 0. The rows after it are the latest 63 moves, the last first:

      0 -   4  seat      everywhere: who moved, counted from the player who decides on
      5 -   9  cards     card image: what he played
     10 - 160  before    the position before the move as the player who decides saw it: `encoding`

Passes of those who could not play, as far as he knows, are left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import boolean, float32, int64, njit, types, void

from afterstate.agents.daihinmin.afterstates.chains import (
    AFTERSTATE,
    ASKED_AGAIN,
    Afterstates,
    AfterstateType,
    after_pass,
    after_play,
    root,
    write_afterstate,
)
from afterstate.agents.daihinmin.values.encoding import (
    N_COLUMNS,
    N_PLANES,
    Planes,
    draw_cards,
    draw_position,
    fill,
)
from afterstate.envs.daihinmin.cards import JOKER
from afterstate.envs.daihinmin.plays import CARDS, N_PLAYS, PASS, SIZE, Numbers, legal_plays
from afterstate.envs.daihinmin.rules import (
    FUGO,
    GAME,
    N_PLAYERS,
    Game,
    GameType,
    list_legal,
    play,
    rewind,
    seat_of,
)
from afterstate.envs.daihinmin.views import unseen_cards

N_ROWS, N_HISTORY_PLANES = 64, 161
_BEFORE = N_HISTORY_PLANES - N_PLANES


class Moments(NamedTuple):
    """At what moments of which games afterstates were reached, or may be."""

    games: npt.NDArray[np.void]  # GAME[m], or what a player sees of them
    origins: Numbers  # [n] the number of the game
    players: Numbers  # [n] who decides
    actions: Numbers  # [n] how many actions there were before

    def part(self, rows: Any) -> Moments:
        """Those of some afterstates."""
        return Moments(self.games, self.origins[rows], self.players[rows], self.actions[rows])


@njit(void(GameType, int64, AfterstateType), cache=True)
def write_position(game: Game, player: int, out: Any) -> None:
    """Writes a position as a player sees it, whosever turn it is."""
    turn = game.turn
    game.turn = player
    write_afterstate(game, root(game), PASS, out)
    out.out |= int(game.passed >> player & 1 or game.left[player] == 0)
    game.turn = turn


# What was decided


@njit(boolean(GameType, int64, AfterstateType, int64[::1]), cache=True)
def decided(game: Game, move: int, out: Any, scratch: Numbers) -> bool:
    """Writes the afterstate of a move of the player in turn, if it is one that he chose.

    It is none if he could only pass, if the turn comes back to him, if the move empties his hand,
    or if only two players are left.
    """
    leads_and_passes = move == PASS and game.field == PASS
    if game.n_out >= N_PLAYERS - 2 or leads_and_passes or list_legal(game, scratch) == 0:
        return False
    at = root(game)
    if move == PASS:
        asked, after = after_pass(game, at)
    else:
        asked, after = after_play(game, unseen_cards(game, game.turn), at, move, scratch)
    if asked == ASKED_AGAIN or after.hand == np.uint64(0):
        return False
    write_afterstate(game, after, move, out)
    return True


@njit(int64(GameType, int64, AfterstateType[::1], int64[:, ::1], int64), cache=True)
def _gifts(game: Game, number: int, out: Afterstates, facts: Numbers, n: int) -> int:
    """Adds what the rich were left with after the exchange; returns the number of all."""
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
def decisions(
    games: npt.NDArray[np.void], first: Numbers, gifts_too: bool
) -> tuple[Afterstates, Numbers]:
    """The afterstates that were chosen in games that are over.

    Args:
        games: `GAME[n]`.
        first: `[n]`, the number of the first move of each game that is looked at; -1: the whole
            game, its exchange included.
        gifts_too: whether whole games begin with what the rich were left with.

    Returns:
        The afterstates, each as the player saw it who moved, and `[n, 3]`: the player, how many
        actions there were before, and the game's number.
    """
    room = (games["n_actions"] + N_PLAYERS).sum()
    out, facts = np.empty(room, AFTERSTATE), np.empty((room, 3), np.int64)
    scratch, replayed, n = np.empty(N_PLAYS, np.int64), np.empty(1, GAME), 0
    for i in range(len(games)):
        replayed[0] = games[i]
        game = replayed[0]
        rewind(game)
        if gifts_too and first[i] < 0:
            n = _gifts(game, i, out, facts, n)
        for k in range(games[i].n_actions):
            player, move = games[i].actions[k] // N_PLAYS, games[i].actions[k] % N_PLAYS
            if k >= first[i] and decided(game, move, out[n], scratch):
                facts[n, 0], facts[n, 1], facts[n, 2] = player, k, i
                n += 1
            play(game, move)
    return out[:n], facts[:n]


# The inputs of HistoryCNN


@njit(boolean(GameType, int64, int64[::1]), cache=True)
def could_play(game: Game, viewer: int, scratch: Numbers) -> bool:
    """Whether the player in turn may have had a legal play, as far as another one knows."""
    turn = game.turn
    if turn == viewer:
        return bool(list_legal(game, scratch) > 0)
    if game.field == PASS:
        return True
    unseen = unseen_cards(game, viewer)
    revolution, lock, runs = game.revolution != 0, game.lock != 0, game.sequences != 0
    n = legal_plays(unseen, game.field, revolution, lock, runs, scratch)
    return bool(n > 0 and game.left[turn] >= SIZE[game.field])


@njit(void(GameType, int64, int64, AfterstateType, float32[:, :, ::1]), cache=True)
def _draw_history(past: Game, viewer: int, actions: int, after: Any, out: Planes) -> None:
    """Writes the rows of an afterstate into `out[64, 15, 161]`."""
    out[:] = 0
    draw_position(after, out[0], _BEFORE)
    games, before = np.empty(1, GAME), np.empty(1, AFTERSTATE)
    scratch = np.empty(N_PLAYS, np.int64)
    kept = np.empty(actions, np.int64)
    for again in range(2):  # first which moves are kept, then their rows
        games[0] = past
        game = games[0]
        rewind(game)
        for k in range(actions):
            player, move = game.turn, past.actions[k] % N_PLAYS
            if again == 0:
                kept[k] = move != PASS or could_play(game, viewer, scratch)
            row = kept[k:].sum() if again else 0
            if again and kept[k] and row < N_ROWS:
                write_position(game, viewer, before[0])
                fill(out[row], (seat_of(game, player) - seat_of(game, viewer)) % N_PLAYERS)
                draw_cards(CARDS[move], game.revolution, out[row], N_PLAYERS)
                if CARDS[move] >> np.uint64(JOKER):
                    fill(out[row], _BEFORE - 1)
                draw_position(before[0], out[row], _BEFORE)
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
def draw_histories(
    games: Any, origins: Numbers, players: Numbers, actions: Numbers, afters: Any, out: Planes
) -> None:
    """Writes the rows of afterstates, channels last: `out[n, 64, 15, 161]`, overwritten."""
    for i in range(len(afters)):
        _draw_history(games[origins[i]], players[i], actions[i], afters[i], out[i])


def histories(afters: Afterstates, moments: Moments) -> Planes:
    """The inputs of `HistoryCNN`, `float32[n, 161, 64, 15]`, channels last in memory."""
    drawn = np.empty((len(afters), N_ROWS, N_COLUMNS, N_HISTORY_PLANES), np.float32)
    draw_histories(*moments, afters, drawn)
    return drawn.transpose(0, 3, 1, 2)
