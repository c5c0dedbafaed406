"""Whole games by any player, many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from afterstate.envs.game2048 import games as records
from afterstate.envs.game2048.games import FLAGS, RNG, SCORE
from afterstate.envs.game2048.rules import check_size, table
from afterstate.envs.words import Words, seed_word

Indices = npt.NDArray[np.int64]


class Player(Protocol):
    """What plays: any agent of `afterstate.agents`, or your own."""

    def act(self, boards: Words) -> npt.NDArray[np.int8]:
        """The actions `int8[B]` of board words `uint64[B]`."""
        ...


class Games(NamedTuple):
    """Finished games, one entry each."""

    scores: npt.NDArray[np.int64]
    n_moves: npt.NDArray[np.int64]
    max_tiles: npt.NDArray[np.int64]


def play(
    player: Player,
    n_games: int,
    seed: int | Sequence[int] = 0,
    size: tuple[int, int] | None = None,
    report: Callable[[int, int], Any] | None = None,
    watch: Callable[[Indices, Words, Indices], Any] | None = None,
) -> Games:
    """Plays games to their ends, side by side.

    Args:
        player: is shown the boards of all games that go on. If it has `finish`, as
            `NTupleAgent` has, that plays the games first, as far as it can.
        n_games: how many.
        seed: game `i` is what `Game2048-v0` plays after `reset(seed=seed + i)`; or the seeds of all
            games.
        size: rows and columns; by default the player's `size`, or 4x4 if it has none.
        report: called after each move of all games, or after some games, with the numbers of games
            that have ended and of moves so far.
        watch: called before each move of all games, with the numbers of those that go on, from 0,
            their boards and the actions chosen, all `[B]`. The player's `finish` is not used then.

    Raises:
        ValueError: a wrong size or seed, or the player's answer is not one legal action a board.
    """
    own = tuple(getattr(player, "size", size or (4, 4)))
    rows, cols = check_size(*(size or own))
    if own != (rows, cols):
        raise ValueError(f"the player plays on boards of {own} cells, not {(rows, cols)}")
    seeds = _seeds(n_games, seed)
    moves = table(rows, cols)
    games = np.zeros((n_games, 8), np.uint64)
    games[:, RNG] = [seed_word(each) for each in seeds]
    records.start_all(games, np.ones(n_games, np.bool_), 2, rows, cols)
    n_moves = np.zeros(n_games, np.int64)
    finish = getattr(player, "finish", None) if watch is None else None
    if finish is not None:
        for i in range(n_games):
            n_moves[i : i + 1] = finish(games[i : i + 1])
            if report is not None:
                report(i + 1, int(n_moves.sum()))
    running = np.flatnonzero(records.masks(games).any(axis=1))
    while running.size:
        part = games[running]
        boards = records.board_words(part, rows, cols)
        actions = _legal_actions(player, part, boards)
        if watch is not None:
            watch(running, boards, actions)
        records.play_all(part, actions, np.zeros(running.size, np.bool_), 2, moves, rows, cols)
        games[running] = part
        n_moves[running] += 1
        running = running[records.masks(part).any(axis=1)]
        if report is not None:
            report(n_games - running.size, int(n_moves.sum()))
    max_tiles = np.int64(1) << (games[:, FLAGS] >> np.uint64(48)).astype(np.int64)
    return Games(games[:, SCORE].astype(np.int64), n_moves, max_tiles)


def _seeds(n_games: int, seed: int | Sequence[int]) -> list[int]:
    """The seed of each game."""
    given = [seed] if isinstance(seed, (int, np.integer)) else list(seed)
    if n_games < 0 or min(given, default=0) < 0:
        raise ValueError(f"n_games and seed are from 0 on, got {n_games} and {seed}")
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + i for i in range(n_games)]
    if len(given) != n_games:
        raise ValueError(f"{n_games} games have as many seeds, got {len(given)}")
    return given


def _legal_actions(player: Player, games: Words, boards: Words) -> Indices:
    """The player's actions, checked."""
    actions = np.asarray(player.act(boards))
    if actions.shape != (len(games),) or actions.dtype.kind not in "iu":
        raise ValueError(
            f"the player was shown {len(games)} boards and answered {actions.dtype} "
            f"of shape {actions.shape}, not as many actions"
        )
    in_range = (actions >= 0) & (actions < 4)
    legal = in_range & (records.masks(games)[np.arange(len(games)), actions * in_range] == 1)
    if not legal.all():
        wrong = actions[int(np.argmin(legal))]
        raise ValueError(f"the player chose {wrong}, an illegal action")
    return actions.astype(np.int64)
