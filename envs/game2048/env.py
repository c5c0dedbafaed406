"""2048 as a Gymnasium environment with its afterstates in the open."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from afterstate.envs.game2048 import games
from afterstate.envs.game2048.games import AFTER, BOARD, FLAGS, REWARD, RNG, SCORE
from afterstate.envs.game2048.rules import (
    MAX_EXPONENT,
    Cells,
    cells,
    check_cells,
    check_size,
    table,
)
from afterstate.envs.words import check_seed, draw_word, whole

if TYPE_CHECKING:
    from afterstate.envs.pictures import Window

OBSERVATIONS = ("exponents", "onehot")
ILLEGAL = ("noop", "terminate", "raise")
ACTION_NAMES = ("up", "right", "down", "left")

_MASKS = {
    sum((moves >> a & 1) << 8 * a for a in range(4)): np.array(
        [moves >> a & 1 for a in range(4)], np.int8
    )
    for moves in range(16)
}


class Game2048Env(gym.Env[npt.NDArray[Any], np.int64]):
    """The puzzle 2048: slide and merge tiles until no move is legal.

    Each step is a deterministic move to an *afterstate* and then a new tile: a 2 (0.9) or a 4 (0.1)
    in a random empty cell. The reward is the sum of the tiles made by merging, so the return is the
    game's score. Boards are exact up to 131072, the largest tile there can be.

    Actions: 0 up, 1 right, 2 down, 3 left.

    Observations: exponents `uint8[rows, cols]` in 0..17 (0 = empty, 11 = the 2048 tile), or with
    `observation="onehot"` planes `float32[18, rows, cols]`, one an exponent.

    Info, at reset and after each step; arrays are copies:

    - `action_mask`: `int8[4]`, 1 where the next action is legal
    - `afterstate`: exponents `uint8[rows, cols]` before the last tile came; at reset, and after an
      illegal action, the board itself
    - `score`: the sum of rewards, an int
    - `max_tile`: the largest tile, such as 2048
    - `legal`: whether the last action was legal (True at reset)

    Args:
        size: rows and columns, each 1 to 4.
        observation: `"exponents"` or `"onehot"`.
        illegal: what an illegal action does: nothing with reward 0 (`"noop"`), the same and end the
            episode (`"terminate"`), or a ValueError that leaves the game as it is (`"raise"`).
            On a board without a legal action any action does nothing and ends the episode.
        start_tiles: tiles on the board at the start.
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
        observation: str = "exponents",
        illegal: str = "noop",
        start_tiles: int = 2,
        render_mode: str | None = None,
    ) -> None:
        self.size = rows, cols = check_settings(size, observation, illegal, start_tiles)
        check_render_mode(render_mode, self.metadata["render_modes"])
        self.observation, self.illegal, self.start_tiles = observation, illegal, start_tiles
        self.render_mode = render_mode
        self.observation_space = observation_space(observation, rows, cols)
        self.action_space = spaces.Discrete(4)
        self._table = table(rows, cols)
        self._game = np.zeros((1, 8), np.uint64)
        self._stream: np.random.Generator | None = None  # what the random state was drawn from
        self._started = False
        self._window: Window | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[Any], dict[str, Any]]:
        """Starts a game.

        Args:
            seed: starts the random stream of this and the following games; without it the stream
                goes on.
            options: `{"board": ...}` starts from a board instead, exponents `[rows, cols]` or a
                word, with score 0.

        Raises:
            ValueError: a wrong seed, an unknown option or not a board of this size; the game is
                unchanged.
        """
        start = self._start_board(options)
        super().reset(seed=check_seed(seed))
        if self.np_random is not self._stream:
            self._game[0, RNG] = draw_word(self.np_random)
            self._stream = self.np_random
        if start is None:
            games.start(self._game, 0, self.start_tiles, *self.size)
        else:
            games.put(self._game, start[None])
        self._started = True
        if self.render_mode == "human":
            self.render()
        after, board = (games.read(self._game, at, *self.size)[0] for at in (AFTER, BOARD))
        return self._observe(board), self._info(after, self._game.item(FLAGS))

    def step(
        self, action: SupportsIndex
    ) -> tuple[npt.NDArray[Any], SupportsFloat, bool, bool, dict[str, Any]]:
        """Plays an action: see the class.

        Raises:
            ValueError: not an action, or an illegal one where `illegal="raise"`; the game is
                unchanged.
        """
        move = check_action(action)
        game = self._running()
        boards = np.empty((2, *self.size), np.uint8)
        games.step(game, move, self._table, boards)
        flags = game.item(FLAGS)
        legal, over = bool(flags >> 32 & 1), bool(flags >> 40 & 1)
        if not legal and not over and self.illegal == "raise":
            raise ValueError(illegal_message(move, flags))
        terminated = over or (not legal and self.illegal == "terminate")
        if self.render_mode == "human":
            self.render()
        after, board = boards
        observation = self._observe(board)
        return observation, float(game.item(REWARD)), terminated, False, self._info(after, flags)

    # Afterstates and chance

    @property
    def board(self) -> int:
        """The board as a word of 16 nibbles, downgraded if a tile is above 32768."""
        return games.board_words(self._running(), *self.size).item()

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The legal actions as `bool[4]`: what sb3-contrib's MaskablePPO asks for."""
        return games.masks(self._running()).astype(np.bool_).reshape(4)

    def afterstates(self) -> tuple[Cells, npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """What each of the four actions leads to before chance adds a tile.

        Returns:
            Afterstates `uint8[4, rows, cols]`, rewards `float64[4]` and legal `bool[4]`. An illegal
            action leaves the board as it is, with reward 0.
        """
        boards, rewards, legal = games.afterstates(self._running(), *self.size)
        return boards[0], rewards[0], legal[0]

    def outcomes(self, afterstate: Any) -> tuple[Cells, npt.NDArray[np.float64]]:
        """The boards that chance can make of an afterstate, exponents `[rows, cols]` or a word.

        Returns:
            Boards `uint8[n, rows, cols]` and their probabilities `float64[n]`, which sum to 1.

        Raises:
            ValueError: not a board of this size.
        """
        return games.outcomes(check_board(afterstate, self.size))

    def get_state(self) -> dict[str, Any]:
        """The whole game: `board` (exponents), `score` and `rng`, the state of its random stream.

        After `set_state` of it the same actions give the same game, and so do later games that
        `reset()` starts without a seed.
        """
        game = self._running()
        board = games.read(game, BOARD, *self.size)[0]
        return {"board": board, "score": game.item(SCORE), "rng": game.item(RNG)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes back to a state from `get_state`, of this or another environment of the same size.

        Raises:
            ValueError: not such a state; the game is unchanged.
        """
        board, score, rng = check_state(state, self.size)
        games.put(self._game, board[None])
        self._game[0, SCORE], self._game[0, RNG] = score, rng
        self._stream = self.np_random
        self._started = True

    # Pictures

    def render(self) -> Any:
        """The board as text (`"ansi"`) or picture (`"rgb_array"`); None and a window for `"human"`.

        Raises:
            DependencyNotInstalled: pictures need the extra `afterstate[render]`.
        """
        from afterstate.envs import pictures
        from afterstate.envs.game2048 import render

        board = games.read(self._running(), BOARD, *self.size)[0]
        score = self._game.item(SCORE)
        if self.render_mode == "ansi":
            return render.ansi(board, score)
        if self.render_mode is None:
            gym.logger.warn("render() needs gym.make(..., render_mode='ansi' | 'rgb_array')")
            return None
        picture = render.rgb_array(board, score)
        if self.render_mode == "rgb_array":
            return picture
        if self._window is None:
            self._window = pictures.Window("2048", self.metadata["render_fps"])
        self._window.show(picture)
        return None

    def close(self) -> None:
        """Closes the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None

    # Inside

    def _start_board(self, options: dict[str, Any] | None) -> Cells | None:
        """The board of the reset options, checked."""
        board = check_options(options, ("board",)).get("board")
        return None if board is None else check_board(board, self.size)

    def _running(self) -> npt.NDArray[np.uint64]:
        """The game, once there is one."""
        if not self._started:
            raise ResetNeeded("call reset() before playing, looking at or copying the game")
        return self._game

    def _observe(self, board: Cells) -> npt.NDArray[Any]:
        """The observation of a board of exponents."""
        return board if self.observation == "exponents" else games.one_hot(board[None])[0]

    def _info(self, after: Cells, flags: int) -> dict[str, Any]:
        """The info of the game as it stands, given its `FLAGS`."""
        return {
            "action_mask": _MASKS[flags & 0x0101_0101].copy(),
            "afterstate": after,
            "score": self._game.item(SCORE),
            "max_tile": 1 << (flags >> 48) if flags >> 48 else 0,
            "legal": bool(flags >> 32 & 1),
        }

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None, "_window": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._table = table(*self.size)  # shared by all, so not copied with each environment


# Settings and arguments, checked alike by the environment and the vector environment


def check_settings(
    size: tuple[int, int], observation: str, illegal: str, start_tiles: int
) -> tuple[int, int]:
    """Raises a ValueError for a wrong setting of an environment; returns rows and columns."""
    if not isinstance(size, (tuple, list)) or len(size) != 2:
        raise ValueError(f"size is (rows, cols), got {size!r}")
    rows, cols = check_size(*size)
    if observation not in OBSERVATIONS:
        raise ValueError(f"observation is one of {OBSERVATIONS}, got {observation!r}")
    if illegal not in ILLEGAL:
        raise ValueError(f"illegal is one of {ILLEGAL}, got {illegal!r}")
    tiles = whole(start_tiles)
    if tiles is None or not 1 <= tiles <= rows * cols:
        raise ValueError(f"start_tiles is a number in 1..{rows * cols}, got {start_tiles!r}")
    return rows, cols


def check_render_mode(render_mode: Any, modes: list[str]) -> None:
    """Raises a ValueError unless the render mode is None or one of the modes."""
    if render_mode not in (None, *modes):
        raise ValueError(f"render_mode is None or one of {modes}, got {render_mode!r}")


def observation_space(observation: str, rows: int, cols: int) -> spaces.Box:
    """The space of one board's observations."""
    if observation == "onehot":
        return spaces.Box(0.0, 1.0, (MAX_EXPONENT + 1, rows, cols), np.float32)
    return spaces.Box(0, MAX_EXPONENT, (rows, cols), np.uint8)


def check_options(options: Any, known: tuple[str, ...]) -> dict[str, Any]:
    """The options of a reset, none for None.

    Raises:
        ValueError: not a dict, or an option that is not known.
    """
    if options is None:
        return {}
    if not isinstance(options, dict) or set(options) - set(known):
        raise ValueError(
            f"options of a reset are a dict with {' and '.join(map(repr, known))}, got {options!r}"
        )
    return options


def check_action(action: Any) -> int:
    """The action as an int.

    Raises:
        ValueError: not a whole number in 0..3.
    """
    try:
        number = operator.index(action)
    except TypeError:
        number = -1
    if not 0 <= number < 4 or isinstance(action, bool):
        raise ValueError(f"an action is 0 up, 1 right, 2 down or 3 left, got {action!r}")
    return number


def illegal_message(action: int, flags: int) -> str:
    """What an illegal action raises, given the game's `FLAGS`."""
    legal = [f"{a} {ACTION_NAMES[a]}" for a in range(4) if flags >> 8 * a & 1]
    return f"action {action} {ACTION_NAMES[action]} is illegal here, legal are: {legal}"


def check_board(board: Any, *shapes: tuple[int, ...]) -> Cells:
    """A board, or boards, given as exponents or as words, as exponents of one of the shapes.

    The last two numbers of every shape are the rows and columns of a board.

    Raises:
        ValueError: not such boards.
    """
    try:
        array = cells(board, *shapes[0][-2:]) if are_words(board) else check_cells(board)
        if array.shape not in shapes:
            raise ValueError(f"got shape {array.shape}")
    except ValueError as error:
        allowed = " or ".join(map(str, shapes))
        message = f"a board here is a word or exponents of shape {allowed}: {error}"
        raise ValueError(message) from None
    return array


def are_words(board: Any) -> bool:
    """Whether boards are given as words: a number or a row of them, not exponents."""
    if whole(board) is not None or getattr(board, "shape", None) == ():
        return True
    return isinstance(board, (Sequence, np.ndarray)) and all(whole(b) is not None for b in board)


def check_state(state: Any, size: tuple[int, int]) -> tuple[Cells, int, int]:
    """Board, score and random state of a state from `get_state`.

    Raises:
        ValueError: not such a state.
    """
    if not isinstance(state, dict) or set(state) != {"board", "score", "rng"}:
        raise ValueError("a state is what get_state() returns: a dict of board, score and rng")
    score, rng = state["score"], state["rng"]
    if whole(score) is None or whole(rng) is None:
        raise ValueError(f"a state has whole numbers as score and rng, got {score!r}, {rng!r}")
    if not (0 <= score < 2**63 and 0 <= rng < 2**64):
        raise ValueError(f"a state has a score and a 64-bit rng, got {score} and {rng}")
    return check_board(state["board"], size), int(score), int(rng)
