"""2048 as a Gymnasium environment that exposes its afterstates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, SupportsFloat, SupportsIndex, TypeAlias

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from afterstate.envs.checks import as_index, as_int, check_one_of, check_options, check_seed
from afterstate.envs.game2048 import batch, games
from afterstate.envs.game2048.games import (
    AFTER,
    BOARD,
    FLAGS,
    ILLEGAL_BIT,
    LEGAL_BIT,
    MAX_ILLEGAL,
    OVER_BIT,
    REWARD,
    RNG,
    SCORE,
    START_TILES,
)
from afterstate.envs.game2048.rules import (
    DOWN,
    LEFT,
    MAX_EXPONENT,
    RIGHT,
    UP,
    Cells,
    cells,
    check_cells,
    size_of,
    table,
)
from afterstate.envs.messages import shown
from afterstate.envs.pictures import Window, warn_no_render_mode
from afterstate.envs.words import Word, draw_word

OBSERVATIONS = ("exponents", "onehot", "flat")
ILLEGAL = ("noop", "terminate", "raise")
MAX_SCORE = 2**62 - 1
"""Largest score of a state; vector environments sum scores in int64."""
BoardLike: TypeAlias = Word | npt.ArrayLike
"""A board or boards: a word or words (see `rules.py`), or exponents."""
ACTION_NAMES = ("up", "right", "down", "left")


class Status(NamedTuple):
    """Meaning of a `FLAGS` word of `games.py`."""

    mask: npt.NDArray[np.int8]
    """The next legal actions, `[4]`; to be copied before it is given away."""
    legal: bool
    """True if the last action was legal."""
    over: bool
    """True if no action is legal."""
    max_tile: int
    """The largest tile, 0 on an empty board."""


def _status(flags: int) -> Status:
    """Return the meaning of a `FLAGS` word."""
    return _status_of(flags & (1 << ILLEGAL_BIT) - 1)


@cache
def _status_of(flags: int) -> Status:
    """Return the meaning of the other bits of `FLAGS`, which have some hundred values."""
    mask = np.array([flags >> 8 * action & 1 for action in range(4)], np.int8)
    legal, over = bool(flags >> LEGAL_BIT & 1), bool(flags >> OVER_BIT & 1)
    return Status(mask, legal, over, games.max_tile(flags))


class Game2048Env(gym.Env[npt.NDArray[Any], np.int64]):
    """The puzzle 2048: slide and merge tiles until no move is legal.

    Each step is a deterministic move to an *afterstate* and then a new tile: a 2 (0.9) or a 4 (0.1)
    in a random empty cell. The reward is the sum of the tiles made by merging, so the return is the
    game's score. Boards are exact up to 131072, the largest tile there can be.

    Actions: 0 up, 1 right, 2 down, 3 left.

    Observations: exponents `uint8[rows, cols]` in 0..17 (0 = empty, 11 = the 2048 tile); with
    `observation="onehot"` planes `float32[18, rows, cols]`, one per exponent; with `"flat"` the
    same as one row `float32[18 * rows * cols]`, for networks of dense layers. `Game2048Flat-v0` is
    registered with the last one.

    Info, at reset and after each step (arrays are copies):

    - `action_mask`: `int8[4]`, 1 where the next action is legal
    - `afterstate`: exponents `uint8[rows, cols]` before the last new tile; at reset and after an
      illegal action, the board itself
    - `score`: the sum of rewards, an int
    - `max_tile`: the largest tile, such as 2048
    - `legal`: True if the last action was legal, and at reset

    Args:
        size: rows and columns, each 1 to 4.
        observation: `"exponents"`, `"onehot"` or `"flat"`.
        illegal: effect of an illegal action. `"noop"`: no change, reward 0. `"terminate"`: the same
            and the episode ends. `"raise"`: a ValueError that leaves the game unchanged. Without a
            legal action, any action changes nothing and ends the episode.
        illegal_limit: the episode is truncated after this many illegal actions in a row, 1 to 2047,
            so that a deterministic policy that repeats one comes to an end; None: never. A state
            that is set begins at 0.
        start_tiles: number of tiles on the board at the start.
        render_mode: `"ansi"` (text), `"rgb_array"` or `"human"` (a window).

    Version history:

    - v0: first version
    """

    metadata: dict[str, Any] = {
        "render_modes": ["ansi", "rgb_array", "human"],
        "render_fps": 10,
    }

    def __init__(
        self,
        size: tuple[int, int] = (4, 4),
        *,
        observation: str = "exponents",
        illegal: str = "noop",
        illegal_limit: int | None = 1000,
        start_tiles: int = START_TILES,
        render_mode: str | None = None,
    ) -> None:
        self.size = rows, cols = check_settings(size, observation, illegal, start_tiles)
        self.illegal_limit = check_illegal_limit(illegal_limit)
        check_one_of((None, *self.metadata["render_modes"]), render_mode=render_mode)
        self.observation, self.illegal, self.start_tiles = observation, illegal, start_tiles
        self.render_mode = render_mode
        self.observation_space = observation_space(observation, rows, cols)
        self.action_space = spaces.Discrete(4)
        self._table = table(rows, cols)
        self._game = games.new_games(1)
        self._generator: np.random.Generator | None = None  # has drawn the random state
        self._started = False
        self._window = self._new_window()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[Any], dict[str, Any]]:
        """Start a game.

        Args:
            seed: seed of the random stream of this and later games; None continues the stream.
            options: `{"board": ...}` starts from a given board, exponents `[rows, cols]` or a word
                (see `rules.py`), with score 0.

        Raises:
            ValueError: a wrong seed, an unknown option or not a board of this size; the game is
                unchanged.
        """
        start = self._start_board(options)
        super().reset(seed=check_seed(seed))
        if self.np_random is not self._generator:
            self._game[RNG] = draw_word(self.np_random)
            self._generator = self.np_random
        if start is None:
            games.start(self._game, 0, self.start_tiles, *self.size)
        else:
            batch.put(self._game, start[None])
        self._started = True
        if self.render_mode == "human":
            self.render()
        after, board = (batch.read(self._game, at, *self.size)[0] for at in (AFTER, BOARD))
        return self._observe(board), self._info(after, _status(self._game.item(FLAGS)))

    def step(
        self, action: SupportsIndex
    ) -> tuple[npt.NDArray[Any], SupportsFloat, bool, bool, dict[str, Any]]:
        """Play an action: see the class.

        Raises:
            ValueError: not an action, or an illegal one with `illegal="raise"`; the game is
                unchanged.
        """
        move = check_action(action)
        game = self._running()
        boards = np.empty((2, *self.size), np.uint8)
        games.step(game, move, self._table, boards)
        flags = game.item(FLAGS)
        status = _status(flags)
        terminated = status.over
        if not status.legal and not terminated:
            if self.illegal == "raise":
                raise ValueError(illegal_message(move, status.mask))
            terminated = self.illegal == "terminate"
        truncated = not terminated and flags >> ILLEGAL_BIT >= (self.illegal_limit or np.inf)
        if self.render_mode == "human":
            self.render()
        info = self._info(boards[0], status)
        return self._observe(boards[1]), float(game.item(REWARD)), terminated, truncated, info

    @property
    def board(self) -> int:
        """The board as a word of 16 nibbles, downgraded if a tile is above 32768."""
        return batch.board_words(self._running(), *self.size).item()

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Return the legal actions as `bool[4]`, for sb3-contrib's MaskablePPO."""
        return batch.masks(self._running()).astype(np.bool_).reshape(4)

    def afterstates(self) -> tuple[Cells, npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Return the afterstate of each action, before chance adds a tile.

        Returns:
            Afterstates `uint8[4, rows, cols]`, rewards `float64[4]` and legal `bool[4]`. An illegal
            action leaves the board as it is, with reward 0.
        """
        boards, rewards, legal = batch.afterstates(self._running(), *self.size)
        return boards[0], rewards[0], legal[0]

    def outcomes(self, afterstate: BoardLike) -> tuple[Cells, npt.NDArray[np.float64]]:
        """Return the possible boards after an afterstate (exponents `[rows, cols]` or a word).

        Returns:
            Boards `uint8[n, rows, cols]` and their probabilities `float64[n]`, which sum to 1.

        Raises:
            ValueError: not a board of this size.
        """
        return games.outcomes(check_board(afterstate, self.size))

    def get_keys_to_action(self) -> dict[str, int]:
        """Return the action of each key for `gymnasium.utils.play.play`: W, D, S and A."""
        return {"w": UP, "d": RIGHT, "s": DOWN, "a": LEFT}

    def get_state(self) -> dict[str, Any]:
        """Return the whole game: `board` (exponents), `score`, and `rng`, the random state.

        After `set_state` with it, the same actions give the same game, and so do later games that
        `reset()` starts without a seed.
        """
        game = self._running()
        board = batch.read(game, BOARD, *self.size)[0]
        score = min(game.item(SCORE), MAX_SCORE)
        return {"board": board, "score": score, "rng": game.item(RNG)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Return to a state from `get_state`, of this or another environment of the same size.

        Raises:
            ValueError: not such a state; the game is unchanged.
        """
        board, score, rng = check_state(state, self.size)
        batch.put(self._game, board[None])
        self._game[SCORE], self._game[RNG] = score, rng
        self._generator = self.np_random
        self._started = True

    def render(self) -> Any:
        """Return the board as text (`"ansi"`) or picture (`"rgb_array"`); `"human"` opens a window.

        Raises:
            DependencyNotInstalled: pictures need the extra `afterstate[render]`.
        """
        from afterstate.envs.game2048 import render

        board = batch.read(self._running(), BOARD, *self.size)[0]
        score = self._game.item(SCORE)
        if self.render_mode == "ansi":
            return render.ansi(board, score)
        if self.render_mode is None:
            warn_no_render_mode(self.metadata["render_modes"])
            return None
        picture = render.rgb_array(board, score)
        if self.render_mode == "rgb_array":
            return picture
        self._window.show(picture)
        return None

    def close(self) -> None:
        """Close the window, if there is one; a later game opens another."""
        self._window.close()
        self._window = self._new_window()

    def _new_window(self) -> Window:
        """Return a window that is not open yet."""
        return Window("2048", self.metadata["render_fps"])

    def _start_board(self, options: dict[str, Any] | None) -> Cells | None:
        """Return the board of the reset options, checked."""
        board = check_options(options, ("board",)).get("board")
        return None if board is None else check_board(board, self.size)

    def _running(self) -> npt.NDArray[np.uint64]:
        """Return the game in an array of one."""
        if not self._started:
            raise ResetNeeded("call reset() first")
        return self._game

    def _observe(self, board: Cells) -> npt.NDArray[Any]:
        """Return the observation of a board of exponents."""
        observation: npt.NDArray[Any] = observe(board[None], self.observation)[0]
        return observation

    def _info(self, after: Cells, status: Status) -> dict[str, Any]:
        """Return the current info."""
        return {
            "action_mask": status.mask.copy(),
            "afterstate": after,
            "score": self._game.item(SCORE),
            "max_tile": status.max_tile,
            "legal": status.legal,
        }

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._table = table(*self.size)  # shared, so not copied with each environment


def check_settings(
    size: tuple[int, int], observation: str, illegal: str, start_tiles: int
) -> tuple[int, int]:
    """Return rows and columns; raise ValueError for a wrong setting of an environment."""
    rows, cols = size_of(size)
    check_one_of(OBSERVATIONS, observation=observation)
    check_one_of(ILLEGAL, illegal=illegal)
    tiles = as_int(start_tiles)
    if tiles is None or not 1 <= tiles <= rows * cols:
        raise ValueError(f"start_tiles must be in 1..{rows * cols}, got {shown(start_tiles)}")
    return rows, cols


def check_illegal_limit(limit: Any) -> int | None:
    """Return the limit of illegal actions in a row, None for none.

    Raises:
        ValueError: not None or an integer in 1..2047.
    """
    number = as_int(limit)
    if limit is not None and (number is None or not 1 <= number <= MAX_ILLEGAL):
        raise ValueError(f"illegal_limit must be in 1..{MAX_ILLEGAL} or None, got {shown(limit)}")
    return number


def observation_space(observation: str, rows: int, cols: int) -> spaces.Box:
    """Return the space of one board's observations."""
    planes = MAX_EXPONENT + 1, rows, cols
    if observation == "onehot":
        return spaces.Box(0.0, 1.0, planes, np.float32)
    if observation == "flat":
        return spaces.Box(0.0, 1.0, (math.prod(planes),), np.float32)
    return spaces.Box(0, MAX_EXPONENT, (rows, cols), np.uint8)


def observe(boards: Cells, observation: str) -> npt.NDArray[Any]:
    """Return the observations `[B, ...]` of boards of exponents `uint8[B, rows, cols]`."""
    if observation == "exponents":
        return boards
    planes = batch.one_hot(boards)
    return planes if observation == "onehot" else planes.reshape(len(boards), -1)


def check_action(action: Any) -> int:
    """Return the action as an int.

    Raises:
        ValueError: not an integer in 0..3.
    """
    number = as_index(action)
    if number is None or not 0 <= number < 4:
        raise ValueError(f"action must be 0 up, 1 right, 2 down or 3 left, got {shown(action)}")
    return number


def illegal_message(action: int, mask: npt.NDArray[np.int8]) -> str:
    """Return the error message of an illegal action, given the legal ones as a mask."""
    legal = [f"{a} {ACTION_NAMES[a]}" for a in range(4) if mask[a]]
    return f"action must be legal here, one of {legal}, got {action} {ACTION_NAMES[action]}"


def check_board(board: BoardLike, *shapes: tuple[int, ...]) -> Cells:
    """Return a board or boards, given as exponents or words, as exponents of one of the shapes.

    The last two numbers of every shape are the rows and columns of a board.

    Raises:
        ValueError: not such boards.
    """
    try:
        if not any(_has_lengths(board, shape) for shape in shapes):
            shape = f"shape {board.shape}" if isinstance(board, np.ndarray) else "other lengths"
            raise ValueError(f"got {shape}")
        array = cells(board, *shapes[0][-2:]) if are_words(board) else check_cells(board)
        if array.shape not in shapes:
            raise ValueError(f"got shape {array.shape}")
    except ValueError as error:
        allowed = " or ".join(map(str, shapes))
        message = f"board must be a word or exponents of shape {allowed}: {error}"
        raise ValueError(message) from None
    return array


def _has_lengths(board: BoardLike, shape: tuple[int, ...]) -> bool:
    """Return False if an array has another shape, or a list (or one within it) another length.

    A list within one of the last axis has none of the shape, whatever its length.
    """
    if isinstance(board, np.ndarray):
        return board.shape in (shape, shape[:-2])
    if not isinstance(board, Sequence) or isinstance(board, str):
        return True
    return (
        bool(shape)
        and len(board) == shape[0]
        and all(_has_lengths(each, shape[1:]) for each in board)
    )


def are_words(board: BoardLike) -> bool:
    """Return True if boards are given as words: an integer or a row of integers."""
    if as_int(board) is not None or getattr(board, "shape", None) == ():
        return True
    return isinstance(board, (Sequence, np.ndarray)) and all(as_int(b) is not None for b in board)


def check_state(state: Any, size: tuple[int, int]) -> tuple[Cells, int, int]:
    """Return board, score and random state of a state from `get_state`.

    Raises:
        ValueError: not such a state.
    """
    if not isinstance(state, dict) or set(state) != {"board", "score", "rng"}:
        raise ValueError(f"state must be a dict of board, score and rng, got {shown(state)}")
    score, rng = state["score"], state["rng"]
    if as_int(score) is None or as_int(rng) is None:
        got = f"{shown(score)} and {shown(rng)}"
        raise ValueError(f"score and rng of a state must be integers, got {got}")
    if not (0 <= score <= MAX_SCORE and 0 <= rng < 2**64):
        raise ValueError(f"score and rng of a state must be in range, got {score} and {rng}")
    return check_board(state["board"], size), int(score), int(rng)
