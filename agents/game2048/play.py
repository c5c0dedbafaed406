"""Play whole games with any player, many in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from afterstate.agents.training.evaluation import EVALUATION_SEED, MAX_GAMES, summaries
from afterstate.envs.checks import as_array, as_int, check_seed
from afterstate.envs.game2048 import batch
from afterstate.envs.game2048.games import RNG, SCORE, START_TILES, new_games
from afterstate.envs.game2048.rules import size_of, table
from afterstate.envs.messages import listed, named, shown
from afterstate.envs.words import Ints, Words, seed_word


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
    watch: Callable[[Ints, Words, Ints], Any] | None = None,
) -> Games:
    """Play games to their ends, all in parallel.

    Args:
        player: gets the boards of all unfinished games at each step. If it has `finish`, like
            `NTupleAgent`, that plays each game first, as far as it can.
        n_games: the number of games, at most 10,000,000.
        seed: game `i` is what `Game2048-v0` plays after `reset(seed=seed + i)`; or a list of
            one seed for each game.
        size: rows and columns; by default the player's `size`, or 4x4 if it has none.
        report: called after each step of all games, or after each game that `finish` plays, with
            the numbers of finished games and of moves so far.
        watch: called before each step of all games, with the indices of the unfinished games, their
            boards and the selected actions, all `[B]`. The player's `finish` is not used then.

    Raises:
        ValueError: a wrong number of games, size or seed, or the player does not return one legal
            action a board.
    """
    if not hasattr(player, "act"):
        expected = 'a player of 2048, such as agents.make("reward")'
        raise ValueError(f"player must be {expected}, got {shown(player)}")
    rows, cols = own = size_of_player(player, (4, 4) if size is None else size)
    if size is not None and size_of(size) != own:
        raise ValueError(f"size must be the player's, {own}, got {shown(size)}")
    seeds = _seed_words(n_games, seed)  # checks the number of games, too
    games = new_games(n_games)
    games[RNG] = seeds
    batch.start_all(games, np.ones(n_games, np.bool_), START_TILES, rows, cols)
    n_moves = np.zeros(n_games, np.int64)
    finish = getattr(player, "finish", None) if watch is None else None
    if finish is not None:
        _finish_each(finish, games, n_moves, report)
    _play_steps(player, games, n_moves, own, report, watch)
    return Games(games[SCORE].astype(np.int64), n_moves, batch.max_tiles(games))


def evaluation(
    player_of: Callable[[int], Player], games_by_depth: dict[int, int]
) -> dict[str, dict[str, Any]]:
    """Return the `summary` of evaluation games of each depth, named as `"1-ply"`.

    Args:
        player_of: returns the player for a depth: 1 is greedy, more is expectimax.
        games_by_depth: number of games for each depth.
    """
    return summaries(lambda depth, n: play(player_of(depth), n, EVALUATION_SEED), games_by_depth)


def _finish_each(
    finish: Callable[[Words], Any],
    games: Words,
    n_moves: Ints,
    report: Callable[[int, int], Any] | None,
) -> None:
    """Play each game by itself, as far as the player's `finish` can."""
    for i in range(n_moves.size):
        game = games[:, i : i + 1].copy()
        n_moves[i] = _moves(finish(game))
        games[:, i : i + 1] = game
        if report is not None:
            report(i + 1, int(n_moves.sum()))


def _play_steps(
    player: Player,
    games: Words,
    n_moves: Ints,
    size: tuple[int, int],
    report: Callable[[int, int], Any] | None,
    watch: Callable[[Ints, Words, Ints], Any] | None,
) -> None:
    """Play unfinished games to their ends, a move in each at a time."""
    rows, cols = size
    move_table = table(rows, cols)
    running = np.flatnonzero(batch.masks(games).any(axis=1))
    while running.size:
        part = np.take(games, running, axis=1)
        boards = batch.board_words(part, rows, cols)
        actions = _legal_actions(player, part, boards)
        if watch is not None:
            watch(running, boards, actions)
        none = np.zeros(running.size, np.bool_)
        batch.play_all(part, actions, none, START_TILES, move_table, rows, cols)
        games[:, running] = part
        n_moves[running] += 1
        running = running[batch.masks(part).any(axis=1)]
        if report is not None:
            report(n_moves.size - running.size, int(n_moves.sum()))


def _seed_words(n_games: int, seed: int | Sequence[int]) -> list[int]:
    """Return the random state with which each game begins."""
    number = as_int(n_games)
    if number is None or not 0 <= number <= MAX_GAMES:
        raise ValueError(f"n_games must be an integer in 0..{MAX_GAMES:,}, got {shown(n_games)}")
    first = as_int(seed)
    given: Any = seed if first is None else range(first, first + number)
    if not _is_list(given) or len(given) != number:
        raise ValueError(f"seed must be one integer or {number} of them, got {shown(seed)}")
    return [seed_word(check_seed(each, optional=False)) for each in given]


def _is_list(value: Any) -> bool:
    """Return True for a list, a tuple, a range or an array with one axis."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def size_of_player(player: Any, default: tuple[int, int] = (4, 4)) -> tuple[int, int]:
    """Return rows and columns of the boards that a player plays on.

    Raises:
        ValueError: its `size` is not that of a board.
    """
    size = getattr(player, "size", default)
    with named("the player's size"):
        return size_of(size.tolist() if isinstance(size, np.ndarray) else size)


def actions_of(player: Any, boards: Words) -> Ints:
    """Return the player's actions, one for each board.

    Raises:
        ValueError: it returns something else.
    """
    given = player.act(boards)
    actions = as_array(given)
    if actions.shape != boards.shape or actions.dtype.kind not in "iu":
        expected = f"the player must return one integer action for each of {len(boards)} boards"
        is_long = actions.size > 10
        got = f"{actions.dtype} of shape {actions.shape}" if is_long else shown(given)
        raise ValueError(f"{expected}, got {got}")
    return actions


def _moves(given: Any) -> int:
    """Return the number of moves that `finish` of a player has returned."""
    values = as_array(given).reshape(-1).tolist()
    number = as_int(values[0]) if len(values) == 1 else None
    if number is None or not 0 <= number < 1 << 62:
        expected = "finish of the player must return its number of moves"
        raise ValueError(f"{expected}, got {shown(given)}")
    return number


def _legal_actions(player: Player, games: Words, boards: Words) -> Ints:
    """Return the player's actions, legal ones."""
    actions = actions_of(player, boards)
    in_range = (actions >= 0) & (actions < 4)
    masks = batch.masks(games)
    is_legal = in_range & (masks[np.arange(len(boards)), actions * in_range] == 1)
    if not is_legal.all():
        wrong = int(np.argmin(is_legal))
        legal = listed(np.flatnonzero(masks[wrong]))
        got = f"the illegal action {actions[wrong]} for board {wrong}"
        raise ValueError(f"the player returned {got}, legal are {legal}")
    return actions.astype(np.int64)
