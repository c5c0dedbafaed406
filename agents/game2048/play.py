"""Play whole games with any player, many in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from afterstate.envs.game2048 import batch
from afterstate.envs.game2048.games import RNG, SCORE
from afterstate.envs.game2048.rules import check_size, table
from afterstate.envs.words import Words, seed_word

Indices = npt.NDArray[np.int64]


class Player(Protocol):
    """A player: any agent of `afterstate.agents`, or your own."""

    def act(self, boards: Words) -> npt.NDArray[np.int8]:
        """Return the actions `int8[B]` of board words `uint64[B]`."""
        ...


class Games(NamedTuple):
    """The results of finished games, one entry each."""

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
    """Play games to their ends, all in parallel.

    Args:
        player: gets the boards of all unfinished games at each step. If it has `finish`, like
            `NTupleAgent`, that plays each game first, as far as it can.
        n_games: the number of games.
        seed: game `i` is what `Game2048-v0` plays after `reset(seed=seed + i)`; or a list of
            one seed for each game.
        size: rows and columns; by default the player's `size`, or 4x4 if it has none.
        report: called after each step of all games, or after each game that `finish` plays, with
            the numbers of finished games and of moves so far.
        watch: called before each step of all games, with the indices of the unfinished games, their
            boards and the selected actions, all `[B]`. The player's `finish` is not used then.

    Raises:
        ValueError: a wrong size or seed, or the player does not return one legal action a board.
    """
    own = tuple(getattr(player, "size", size or (4, 4)))
    rows, cols = check_size(*(size or own))
    if own != (rows, cols):
        raise ValueError(f"size must be the player's, {own}, got {(rows, cols)}")
    seeds = _seeds(n_games, seed)
    moves = table(rows, cols)
    games = np.zeros((8, n_games), np.uint64)
    games[RNG] = [seed_word(each) for each in seeds]
    batch.start_all(games, np.ones(n_games, np.bool_), 2, rows, cols)
    n_moves = np.zeros(n_games, np.int64)
    finish = getattr(player, "finish", None) if watch is None else None
    if finish is not None:
        for i in range(n_games):
            game = games[:, i : i + 1].copy()
            n_moves[i : i + 1] = finish(game)
            games[:, i : i + 1] = game
            if report is not None:
                report(i + 1, int(n_moves.sum()))
    running = np.flatnonzero(batch.masks(games).any(axis=1))
    while running.size:
        part = np.take(games, running, axis=1)
        boards = batch.board_words(part, rows, cols)
        actions = _legal_actions(player, part, boards)
        if watch is not None:
            watch(running, boards, actions)
        batch.play_all(part, actions, np.zeros(running.size, np.bool_), 2, moves, rows, cols)
        games[:, running] = part
        n_moves[running] += 1
        running = running[batch.masks(part).any(axis=1)]
        if report is not None:
            report(n_games - running.size, int(n_moves.sum()))
    return Games(games[SCORE].astype(np.int64), n_moves, batch.max_tiles(games))


def _seeds(n_games: int, seed: int | Sequence[int]) -> list[int]:
    """Return the seed of each game."""
    given = [seed] if isinstance(seed, (int, np.integer)) else list(seed)
    if n_games < 0 or min(given, default=0) < 0:
        raise ValueError(f"n_games and seed must be >= 0, got {n_games} and {seed}")
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + i for i in range(n_games)]
    if len(given) != n_games:
        raise ValueError(f"seed must be one integer or {n_games} of them, got {len(given)}")
    return given


def _legal_actions(player: Player, games: Words, boards: Words) -> Indices:
    """Return the player's actions, checked."""
    actions = np.asarray(player.act(boards))
    if actions.shape != boards.shape or actions.dtype.kind not in "iu":
        raise ValueError(
            f"the player must return one integer action for each of {len(boards)} boards, "
            f"got {actions.dtype} of shape {actions.shape}"
        )
    in_range = (actions >= 0) & (actions < 4)
    legal = in_range & (batch.masks(games)[np.arange(len(boards)), actions * in_range] == 1)
    if not legal.all():
        wrong = actions[int(np.argmin(legal))]
        raise ValueError(f"the player returned the illegal action {wrong}")
    return actions.astype(np.int64)
