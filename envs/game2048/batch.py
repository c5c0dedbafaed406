"""Kernels on a batch of games, an array `uint64[8, B]`, as `games.py` describes them.

Each row of the array holds one word of every game, and each loop does one part of a step for all
games. Such loops compile to vector instructions (SIMD), which makes them several times as fast as
one loop that steps game after game. The few games that go cell by cell or start over are played by
`games.py` beforehand.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from afterstate.envs.checks import as_array, check_one_of, described
from afterstate.envs.game2048.games import (
    AFTER,
    BOARD,
    EXCESS,
    FLAGS,
    ILLEGAL_BIT,
    LEGAL,
    OVER,
    REWARD,
    RNG,
    SCORE,
    are_games,
    fits,
    illegal_flags,
    max_tile,
    next_flags,
    pack,
    play,
    refresh_flags,
    slide_game,
    start,
    unpack,
)
from afterstate.envs.game2048.rules import (
    MAX_EXPONENT,
    Cells,
    check_size,
    field,
    move,
    spawn,
    table,
    words,
)
from afterstate.envs.game2048.rules import afterstates as slides
from afterstate.envs.words import Flags, Floats, Ints, Word, Words, below, next_random

Bits = npt.NDArray[np.int8]

_0, _1, _4, _32 = (np.uint64(n) for n in (0, 1, 4, 32))
_ILLEGAL = np.uint64(ILLEGAL_BIT)
_MASK = np.uint64(0x0101_0101)


@njit(cache=True)
def start_all(games: Words, mask: Flags, n_tiles: int, rows: int, cols: int) -> None:
    """Start the games of a mask."""
    for i in range(games.shape[1]):
        if mask[i]:
            start(games, i, n_tiles, rows, cols)


@njit(cache=True)
def _play_special(
    games: Words,
    actions: Ints,
    restart: Flags,
    n_tiles: int,
    move_table: Words,
    rows: int,
    cols: int,
) -> Flags:
    """Play the games that start over or hold a 15; return which these are, `bool[B]`."""
    special = np.empty(games.shape[1], np.bool_)
    for i in range(games.shape[1]):
        special[i] = restart[i] or not fits(games[BOARD, i])
        if restart[i]:
            start(games, i, n_tiles, rows, cols)
        elif special[i]:
            play(games, i, actions[i], move_table, rows, cols)
    return special


@njit(cache=True)
def _move(
    boards: Words, actions: Ints, skip: Flags, move_table: Words, afters: Words, rewards: Words
) -> None:
    """Write the afterstates and rewards; an illegal action gives the board and 0."""
    for i in range(boards.size):
        if not skip[i]:
            afters[i], reward = move(boards[i], actions[i], move_table)
            rewards[i] = np.uint64(reward)


@njit(cache=True)
def _spawn(afters: Words, skip: Flags, board_field: Word, boards: Words, rngs: Words) -> None:
    """Add a tile after every legal move, which has an afterstate other than the board."""
    for i in range(boards.size):
        played = (not skip[i]) & (afters[i] != boards[i])
        board, rng = spawn(afters[i], rngs[i], board_field)
        boards[i] = board if played else boards[i]
        rngs[i] = rng if played else rngs[i]


@njit(cache=True)
def _flag(boards: Words, afters: Words, skip: Flags, board_field: Word, flags: Words) -> None:
    """Write the flags after moves and tiles; an illegal action is only counted."""
    for i in range(boards.size):
        played = next_flags(flags[i], boards[i], board_field)
        new = played if afters[i] != boards[i] else illegal_flags(flags[i])
        flags[i] = flags[i] if skip[i] else new


@njit(cache=True)
def _score(rewards: Words, skip: Flags, scores: Words) -> None:
    """Add the rewards to the scores."""
    for i in range(scores.size):
        scores[i] += _0 if skip[i] else rewards[i]


@njit(cache=True)
def play_all(
    games: Words,
    actions: Ints,
    restart: Flags,
    n_tiles: int,
    move_table: Words,
    rows: int,
    cols: int,
) -> None:
    """Play one action of every game, as `games.play` does, or start it where `restart` is set."""
    special = _play_special(games, actions, restart, n_tiles, move_table, rows, cols)
    cells = field(rows, cols)
    _move(games[BOARD], actions, special, move_table, games[AFTER], games[REWARD])
    _spawn(games[AFTER], special, cells, games[BOARD], games[RNG])
    _flag(games[BOARD], games[AFTER], special, cells, games[FLAGS])
    _score(games[REWARD], special, games[SCORE])


@njit(cache=True)
def sample_legal(games: Words, rng: Word, actions: Ints) -> Word:
    """Draw a legal action of every game, 0 where none is; return the advanced random state."""
    rng = np.uint64(rng)
    for i in range(games.shape[1]):
        rng, bits = next_random(rng)
        mask = games[FLAGS, i] & _MASK
        n_legal = (mask * _MASK >> np.uint64(24)) & np.uint64(7)
        drawn = below(bits, n_legal)
        before = mask * np.uint64(0x0101_0100)  # byte a: legal actions before a
        action = 0
        for a in range(4):
            at = np.uint64(8 * a)
            hit = (mask >> at & _1) & np.uint64(before >> at & np.uint64(7) == drawn)
            action += a * int(hit)
        actions[i] = action
    return rng


@njit(cache=True)
def _spread(eight_nibbles: Word) -> Word:
    """Unpack the low eight nibbles into eight bytes."""
    x = np.uint64(eight_nibbles) & np.uint64(0xFFFF_FFFF)
    x = (x | x << np.uint64(16)) & np.uint64(0x0000_FFFF_0000_FFFF)
    x = (x | x << np.uint64(8)) & np.uint64(0x00FF_00FF_00FF_00FF)
    return (x | x << _4) & np.uint64(0x0F0F_0F0F_0F0F_0F0F)


@njit(cache=True)
def _unpack_all(boards: Words, excesses: Words, cells: Cells) -> None:
    """Write the exponents of boards and their excesses as `[B, rows, cols]`."""
    if cells.shape[1] == 4 and cells.shape[2] == 4:
        halves = cells.reshape(-1).view(np.uint64)
        for i in range(boards.size):
            halves[2 * i] = _spread(boards[i]) + _spread(excesses[i])
            halves[2 * i + 1] = _spread(boards[i] >> _32) + _spread(excesses[i] >> _32)
    else:
        for i in range(boards.size):
            unpack(boards[i], excesses[i], cells[i])


@njit("void(uint64[:, ::1], int64, uint8[:, :, ::1])", cache=True)
def read_into(games: Words, at: int, cells: Cells) -> None:
    """Write `BOARD` or `AFTER` of every game as exponents `[B, rows, cols]`."""
    _unpack_all(games[at], games[at + 1], cells)


@njit("void(uint64[::1], int64[::1])", cache=True)
def _write_max_tiles(flags: Words, tiles: Ints) -> None:
    """Write the largest tiles, given the `FLAGS` words."""
    for i in range(flags.size):
        tiles[i] = max_tile(flags[i])


@njit(cache=True)
def read_infos(
    games: Words,
    action_masks: Bits,
    afters: Cells,
    scores: Ints,
    largest_tiles: Ints,
    legal: Flags,
) -> None:
    """Write the infos of all games into arrays.

    Args:
        games: `uint64[8, B]`.
        action_masks: legal moves, `[B, 4]` of zeros and ones.
        afters: afterstates of the last actions, exponents `[B, rows, cols]`.
        scores: scores.
        largest_tiles: largest tiles.
        legal: True for games whose last action was legal.
    """
    read_into(games, AFTER, afters)
    mask_words = action_masks.reshape(-1).view(np.uint32)
    for i in range(games.shape[1]):
        mask_words[i] = np.uint32(games[FLAGS, i])
    for i in range(games.shape[1]):
        scores[i] = np.int64(games[SCORE, i])
    _write_max_tiles(games[FLAGS], largest_tiles)
    for i in range(games.shape[1]):
        legal[i] = games[FLAGS, i] & LEGAL != 0


@njit(cache=True)
def _end_all(
    games: Words,
    elapsed: Ints,
    over: Flags,
    limit: int,
    illegal_ends: bool,
    illegal_limit: int,
    rewards: Floats,
    terminated: Flags,
    truncated: Flags,
) -> int:
    """Write rewards and ends after a step; return the number of games that are over then."""
    ends = OVER | (LEGAL if illegal_ends else _0)
    for i in range(games.shape[1]):
        ended = (games[FLAGS, i] ^ LEGAL) & ends != 0
        terminated[i] = ended & (not over[i])
    for i in range(games.shape[1]):
        elapsed[i] = 0 if over[i] else elapsed[i] + 1
        truncated[i] = elapsed[i] >= limit
    for i in range(games.shape[1]):
        n_illegal = np.int64(games[FLAGS, i] >> _ILLEGAL)
        truncated[i] |= (n_illegal >= illegal_limit) & (not over[i]) & (not terminated[i])
    for i in range(games.shape[1]):
        rewards[i] = np.float64(games[REWARD, i])
    n_over = 0
    for i in range(games.shape[1]):
        over[i] = terminated[i] | truncated[i]
        n_over += over[i]
    return n_over


@njit(cache=True)
def step_all(
    games: Words,
    actions: Ints,
    elapsed: Ints,
    over: Flags,
    limit: int,
    illegal_ends: bool,
    illegal_limit: int,
    n_tiles: int,
    move_table: Words,
    rewards: Floats,
    terminated: Flags,
    truncated: Flags,
    boards: Cells,
    action_masks: Bits,
    afters: Cells,
    scores: Ints,
    largest_tiles: Ints,
    legal: Flags,
) -> int:
    """Play one action of every game, or restart it if it is over.

    Results are arrays of their own and not fields of records, since numba takes microseconds to
    find the types of a record at each call.

    Args:
        games: `uint64[8, B]`, changed in place.
        actions: `[B]` in 0..3.
        elapsed: steps of each game, changed in place.
        over: games to restart; set to those that are over after the step.
        limit: steps after which a game is truncated.
        illegal_ends: True if an illegal action ends the game.
        illegal_limit: illegal actions in a row after which a game is truncated.
        n_tiles: tiles at the start.
        move_table: the move table.
        rewards: rewards, overwritten, `[B]`.
        terminated: True for games that have ended, overwritten.
        truncated: True for games that have reached a limit, overwritten.
        boards: exponents, overwritten, `[B, rows, cols]`.
        action_masks: as in `read_infos`.
        afters: as in `read_infos`.
        scores: as in `read_infos`.
        largest_tiles: as in `read_infos`.
        legal: as in `read_infos`.

    Returns:
        The number of games that are over after the step.
    """
    play_all(games, actions, over, n_tiles, move_table, boards.shape[1], boards.shape[2])
    limits = limit, illegal_ends, illegal_limit
    n_over = _end_all(games, elapsed, over, *limits, rewards, terminated, truncated)
    read_into(games, BOARD, boards)
    read_infos(games, action_masks, afters, scores, largest_tiles, legal)
    return n_over


def read(games: Words, at: int, rows: int, cols: int) -> Cells:
    """Return `BOARD` or `AFTER` of games `uint64[8, B]` as exponents `uint8[B, rows, cols]`.

    Raises:
        ValueError: another field, no such games, or a wrong size.
    """
    _check(games)
    check_one_of((BOARD, AFTER), at=at)
    rows, cols = check_size(rows, cols)
    cells = np.empty((games.shape[1], rows, cols), np.uint8)
    read_into(games, at, cells)
    return cells


def _check(games: Words) -> None:
    """Raise ValueError unless games are `uint64[8, B]`."""
    if not are_games(games):
        raise ValueError(f"games must be uint64[8, B], got {described(games, as_array(games))}")


def board_words(games: Words, rows: int, cols: int) -> Words:
    """Return the boards of games `uint64[8, B]` as words `uint64[B]`, downgraded where needed.

    Raises:
        ValueError: no such games, or a wrong size.
    """
    _check(games)
    if games[EXCESS].any():
        return words(read(games, BOARD, rows, cols))
    boards: Words = games[BOARD].copy()
    return boards


def max_tiles(games: Words) -> Ints:
    """Return the largest tile of games `uint64[8, B]`, 0 on an empty board.

    Raises:
        ValueError: no such games.
    """
    _check(games)
    tiles = np.empty(games.shape[1], np.int64)
    _write_max_tiles(np.ascontiguousarray(games[FLAGS]), tiles)
    return tiles


def masks(games: Words) -> Bits:
    """Return the legal moves of games `uint64[8, B]`: `int8[B, 4]` of zeros and ones.

    Raises:
        ValueError: no such games.
    """
    _check(games)
    bytes_low: Bits = games[FLAGS].astype(np.uint32).view(np.int8)
    return bytes_low.reshape(-1, 4)


@njit(cache=True)
def _slide_all(games: Words, move_table: Words, cells: Cells, rewards: Floats) -> None:
    """Write the four afterstates of every game, `[B, 4, rows, cols]`, and their rewards."""
    n, rows, cols = games.shape[1], cells.shape[2], cells.shape[3]
    afters = np.zeros((2, 4 * n), np.uint64)
    for i in range(n):
        if fits(games[BOARD, i]):
            boards, gains = slides(games[BOARD, i], move_table)
            for action in range(4):
                rewards[i, action] = gains[action]
                afters[0, 4 * i + action] = boards[action]
        else:
            trial = games[:, i : i + 1].copy()
            for action in range(4):
                slide_game(trial, 0, action, rows, cols)
                rewards[i, action] = trial[REWARD, 0]
                for word in range(2):
                    afters[word, 4 * i + action] = trial[AFTER + word, 0]
    _unpack_all(afters[0], afters[1], cells.reshape(4 * n, rows, cols))


def afterstates(games: Words, rows: int, cols: int) -> tuple[Cells, Floats, Flags]:
    """Return the four moves of games `uint64[8, B]`, in the order up, right, down, left.

    Returns:
        Afterstates `uint8[B, 4, rows, cols]`, rewards `[B, 4]` and legal moves `bool[B, 4]`.
        An illegal move leaves the board as it is, with reward 0.

    Raises:
        ValueError: no such games, or a wrong size.
    """
    _check(games)
    rows, cols = check_size(rows, cols)
    boards = np.empty((games.shape[1], 4, rows, cols), np.uint8)
    rewards = np.empty((games.shape[1], 4))
    _slide_all(games, table(rows, cols), boards, rewards)
    return boards, rewards, masks(games).astype(np.bool_)


@njit(cache=True)
def _one_hot(boards: Cells, planes: npt.NDArray[np.float32]) -> int:
    """Set the plane of each cell's exponent; return the first exponent above 17, or 0."""
    for i in range(boards.shape[0]):
        for row in range(boards.shape[1]):
            for col in range(boards.shape[2]):
                if boards[i, row, col] > MAX_EXPONENT:
                    return int(boards[i, row, col])
                planes[i, boards[i, row, col], row, col] = 1.0
    return 0


def _check_boards(boards: Cells) -> None:
    """Raise ValueError unless boards are `uint8[B, rows, cols]`."""
    if not (isinstance(boards, np.ndarray) and boards.dtype == np.uint8 and boards.ndim == 3):
        given = described(boards, as_array(boards))
        raise ValueError(f"boards must be uint8[B, rows, cols], got {given}")


def one_hot(boards: Cells) -> npt.NDArray[np.float32]:
    """Return boards `uint8[B, rows, cols]` as planes `float32[B, 18, rows, cols]`.

    Raises:
        ValueError: other boards, or an exponent above 17.
    """
    _check_boards(boards)
    planes = np.zeros((len(boards), MAX_EXPONENT + 1, *boards.shape[1:]), np.float32)
    wrong = _one_hot(boards, planes)
    if wrong:
        raise ValueError(f"boards must have exponents 0..{MAX_EXPONENT}, got {wrong}")
    return planes


def put(games: Words, boards: Cells) -> None:
    """Start every game of `uint64[8, B]` from its board of exponents `uint8[B, rows, cols]`.

    Raises:
        ValueError: no such games, or boards that do not fit.
    """
    _check(games)
    _check_boards(boards)
    if len(boards) != games.shape[1]:
        raise ValueError(f"boards must be {games.shape[1]}, one per game, got {len(boards)}")
    if (boards > MAX_EXPONENT).any():
        raise ValueError(f"boards must have exponents 0..{MAX_EXPONENT}, got {boards.max()}")
    rows, cols = check_size(*boards.shape[1:])
    padded = np.zeros((games.shape[1], 4, 4), np.uint8)
    padded[:, :rows, :cols] = boards
    games[SCORE] = games[REWARD] = 0
    for i in range(games.shape[1]):
        for at in (BOARD, AFTER):
            pack(padded[i].reshape(16), games, i, at)
        refresh_flags(games, i, rows, cols)
