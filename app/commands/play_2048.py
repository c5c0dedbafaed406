"""2048, played by a person in the terminal or a window."""

from __future__ import annotations

import os
import sys
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from afterstate.commands.options import Play2048
from afterstate.commands.players import move_2048, player_2048
from afterstate.envs.game2048 import render
from afterstate.envs.game2048.env import ACTION_NAMES, Game2048Env
from afterstate.envs.game2048.rules import DOWN, LEFT, RIGHT, UP
from afterstate.envs.pictures import Window

if TYPE_CHECKING:
    import blessed

KEYS = {
    **{"w": UP, "k": UP, "up": UP},
    **{"d": RIGHT, "l": RIGHT, "right": RIGHT},
    **{"s": DOWN, "j": DOWN, "down": DOWN},
    **{"a": LEFT, "h": LEFT, "left": LEFT},
}
"""Action of each key."""
_ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
_CTRL_D = ("\x04", "ctrl_d")
"""The end of the input; its name depends on the version of blessed."""

HELP = "arrows move, ? hint, U undo, N new game, Q quit"


class Screen(Protocol):
    """The output of a game and its keys."""

    def reading(self) -> AbstractContextManager[object]:
        """Return a context in which each key that is pressed is kept for `key`."""

    def show(self, board: Any, score: int, message: str) -> None:
        """Show a position."""

    def key(self) -> str:
        """Wait for a key and return its name, such as `"up"` or `"u"`; `"q"` at the end."""


class Terminal:
    """A game in the terminal; from a pipe or a file, each character is a key."""

    def __init__(self) -> None:
        is_live = sys.stdin.isatty() and sys.stdout.isatty()
        self._terminal = _terminal() if is_live else None

    def reading(self) -> AbstractContextManager[object]:
        """Return a context in which keys are not echoed, and need no Enter."""
        return self._terminal.cbreak() if self._terminal else nullcontext()

    def show(self, board: Any, score: int, message: str) -> None:
        """Print a position, in a terminal in place of the one before."""
        clear = f"{self._terminal.home}{self._terminal.clear}" if self._terminal else ""
        picture = render.ansi(board, score, color=sys.stdout.isatty())
        print(f"{clear}{picture}\n{message}", flush=True)

    def key(self) -> str:
        """Return the next key."""
        if self._terminal:
            try:
                pressed = self._terminal.inkey()
            except UnicodeDecodeError:  # a key of a terminal with another encoding
                self._terminal._keyboard_decoder.reset()
                return ""
            key = (pressed.name or str(pressed)).removeprefix("KEY_").lower()
            return "q" if key in _CTRL_D else key
        typed = sys.stdin.read(1)
        if typed == "\x1b":  # an arrow is ESC, [ or O, and a letter
            return _ARROWS.get(sys.stdin.read(2)[1:], "escape")
        return typed.lower() or "q"


def _terminal() -> blessed.Terminal:
    """Return the terminal that the program runs in."""
    # It asks for the terminal's name and version, waits for 5 s each time if there is no answer,
    # and drops keys meanwhile.
    os.environ.setdefault("BLESSED_QUERY_TIMEOUT_SECONDS", "0.1")
    import blessed

    return blessed.Terminal()


class Graphical:
    """A game in a window of pygame."""

    def __init__(self) -> None:
        self._window = Window("2048", fps=30)
        self._picture: Any = None
        self._pressed: deque[Any] = deque()  # events that pygame has given, before `key` did

    def reading(self) -> AbstractContextManager[object]:
        """Return a context that does nothing: the window keeps its keys."""
        return nullcontext()

    def show(self, board: Any, score: int, message: str) -> None:
        """Draw a position; the message goes to the terminal."""
        self._picture = render.rgb_array(board, score)
        self._window.show(self._picture)
        print(message, flush=True)

    def key(self) -> str:
        """Return the next key; `"q"` if the window is closed."""
        import pygame

        while not self._window.closed:
            self._pressed.extend(pygame.event.get(pygame.KEYDOWN))
            if self._pressed:
                event = self._pressed.popleft()
                return "?" if event.unicode == "?" else pygame.key.name(event.key)
            self._window.show(self._picture)  # waits for the next frame
        return "q"


class Game:
    """A game that can be taken back, with a player that gives hints.

    Args:
        options: options of the command.
    """

    def __init__(self, options: Play2048) -> None:
        self._env = Game2048Env((options.rows, options.cols))
        self._hints = options.hints
        self._player: Any = None
        drawn = int(np.random.default_rng().integers(2**32))
        self._seed = drawn if options.seed is None else options.seed
        self._past: list[Any] = []
        self.begin()

    def begin(self) -> str:
        """Start a game and return a message."""
        _, self._info = self._env.reset(seed=self._seed)
        self._past.clear()
        message = f"game of seed {self._seed}: {HELP}"
        self._seed += 1
        return message

    def show(self, screen: Screen, message: str) -> None:
        """Show the position."""
        screen.show(self._env.get_state()["board"], self._info["score"], message)

    def move(self, action: int) -> str:
        """Play a move, if it is legal, and return a message."""
        if not self._info["action_mask"][action]:
            return f"{ACTION_NAMES[action]} moves no tile"
        self._past.append((self._env.get_state(), self._info))
        _, reward, over, _, self._info = self._env.step(action)
        if over:
            largest = f"the largest tile is {self._info['max_tile']}"
            return f"no move is left, {largest}: U undo, N new game, Q quit"
        return f"{ACTION_NAMES[action]}, {reward:+g}"

    def undo(self) -> str:
        """Take back a move and return a message."""
        if not self._past:
            return "this is the start of the game"
        state, self._info = self._past.pop()
        self._env.set_state(state)
        return "took back a move"

    def hint(self) -> str:
        """Return a message with the move that the player selects."""
        if not self._info["action_mask"].any():
            return "no move is left"
        try:
            self._player = self._player or player_2048(self._hints)
            action = move_2048(self._player, self._env.get_state()["board"])
        except (OSError, ValueError, ImportError) as error:
            return f"there is no hint: {error}"
        return f"hint of {self._hints}: {ACTION_NAMES[action]}"


def run(options: Play2048) -> None:
    """Let a person play.

    Raises:
        OSError, ValueError, ImportError: a wrong size, seed or player for hints.
    """
    game, screen = Game(options), Graphical() if options.window else Terminal()
    message = HELP
    with screen.reading():
        while message:
            game.show(screen, message)
            message = _after_key(game, screen)


def _after_key(game: Game, screen: Screen) -> str:
    """Wait for a key that does something; return its message, an empty one to quit."""
    message = ""
    while not message:
        key = screen.key()
        if key == "q":
            break
        message = answer(game, key)
    return message


def answer(game: Game, key: str) -> str:
    """Do what a key asks for and return a message; an empty one for other keys."""
    if key in KEYS:
        return game.move(KEYS[key])
    commands = {"?": game.hint, "u": game.undo, "n": game.begin}
    return commands[key]() if key in commands else ""
