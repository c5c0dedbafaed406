"""`afterstate watch`: players play, in the terminal, a window or a file."""

from __future__ import annotations

import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from afterstate.commands.options import Watch
from afterstate.commands.players import fill_seats, five_players, game_of, move_2048, player_2048
from afterstate.envs import durable_files, pictures
from afterstate.envs.checks import check_seed
from afterstate.envs.daihinmin.uecda.settings import N_SEATS
from afterstate.envs.messages import listed, shown
from afterstate.envs.signals import sigterm_raises

FILES = (".gif", ".mp4")
MOST_PICTURES = 1000
"""The most pictures of a file: all are in memory, of some megabytes each."""


class Position(NamedTuple):
    """The text and the picture of a position; the picture is drawn only where it is needed."""

    text: str
    draw: Any  # returns the picture


def positions_2048(options: Watch) -> Iterator[Position]:
    """Yield the positions of a game of 2048 up to its end."""
    from afterstate.agents.game2048.play import size_of_player
    from afterstate.envs.game2048 import render
    from afterstate.envs.game2048.env import ACTION_NAMES, Game2048Env

    player = player_2048(options.players[0], options.seed)
    env = Game2048Env(size_of_player(player))
    _, info = env.reset(seed=options.seed)
    message, over = "", False
    while True:
        board, score = env.get_state()["board"], int(info["score"])
        text = f"{render.ansi(board, score, color=sys.stdout.isatty())}\n{message}"
        yield Position(text, lambda board=board, score=score: render.rgb_array(board, score))
        if over or (options.until and info["max_tile"] >= options.until):
            return
        action = move_2048(player, board)
        if not info["action_mask"][action]:
            legal = listed(np.flatnonzero(info["action_mask"]))
            raise ValueError(f"the player returned the illegal action {action}, legal are {legal}")
        _, _, over, _, info = env.step(action)
        message = ACTION_NAMES[action]


def positions_daihinmin(options: Watch) -> Iterator[Position]:
    """Yield the positions of a game of Daihinmin up to its end."""
    from afterstate.envs import daihinmin_v0
    from afterstate.envs.daihinmin import render
    from afterstate.envs.daihinmin.players import actions_of

    seated = fill_seats(options.players, N_SEATS)
    names = [f"{name.removeprefix('daihinmin-')} {i}" for i, name in enumerate(seated)]
    players, env = five_players(options.players, options.seed), daihinmin_v0.raw_env()
    env.reset(seed=options.seed)
    while True:
        game = env.get_state()["game"]
        text = render.ansi(game, names)
        yield Position(text, lambda game=game: render.rgb_array(game, names))
        agent = env.agent_selection
        if env.terminations[agent]:
            return
        number = env.possible_agents.index(agent)
        for action in actions_of(players[number], env.view(agent)):
            env.step(action)


def run(options: Watch) -> None:
    """Let players play one game and show it.

    Raises:
        OSError, ValueError, ImportError: a wrong option, a player that is not found, or a file that
            cannot be written.
    """
    _check(options)
    is_2048 = game_of(options.players) == "2048"
    if options.until is not None and not is_2048:
        raise ValueError("until must be left out for Daihinmin, which has no tiles")
    if is_2048 and len(options.players) > 1:
        given = " ".join(options.players)
        raise ValueError(f"players must be one player of 2048, or 1 to 5 of Daihinmin, got {given}")
    if options.to == "window":
        with pictures.require_extra():  # before anything is compiled
            import pygame  # noqa: F401
    positions = positions_2048(options) if is_2048 else positions_daihinmin(options)
    positions = _limited(positions, options.moves)
    if options.to == "terminal":
        _to_terminal(positions, options.speed)
    elif options.to == "window":
        _to_window(positions, options.speed)
    else:
        _check_file(Path(options.to))
        _to_file(positions, options)


def _check_file(path: Path) -> None:
    """Raise an error, before a game is played, if it could not be written to the file."""
    durable_files.check_writable(path)
    with pictures.require_extra():
        import PIL  # noqa: F401
    if path.suffix.lower() == ".mp4":
        pictures.film_writer()


def _check(options: Watch) -> None:
    """Raise ValueError for an option that is out of range."""
    if isinstance(options.to, Path) and options.to.suffix.lower() not in FILES:
        given = shown(str(options.to))
        raise ValueError(f"to must be terminal, window or a .gif or .mp4 file, got {given}")
    check_seed(options.seed, optional=False)
    if options.speed != 0 and not 0.01 <= options.speed <= 1000:
        raise ValueError(f"speed must be 0 or in 0.01..1000 moves per second, got {options.speed}")
    if options.until is not None:
        from afterstate.envs.game2048.rules import check_tile

        check_tile("until", options.until)
    if not 1 <= options.last <= MOST_PICTURES:
        raise ValueError(f"last must be in 1..{MOST_PICTURES}, got {options.last}")
    if options.moves is not None and options.moves < 0:
        raise ValueError(f"moves must be >= 0, got {options.moves}")


def _limited(positions: Iterator[Position], moves: int | None) -> Iterator[Position]:
    """Yield the positions up to a number of moves."""
    for number, position in enumerate(positions):
        yield position
        if number == moves:
            return


def _to_terminal(positions: Iterator[Position], speed: float) -> None:
    """Print positions, in a terminal each in place of the one before; elsewhere only the last."""
    is_live = sys.stdout.isatty()
    text = ""
    for text, _ in positions:
        if is_live:
            print(f"\x1b[H\x1b[2J{text}", flush=True)
            time.sleep(1 / speed if speed else 0)
    if not is_live:
        print(text)


def _to_window(positions: Iterator[Position], speed: float) -> None:
    """Show positions in a window until it is closed."""
    window = pictures.Window("afterstate", fps=speed)
    picture: Any = np.zeros((1, 1, 3), np.uint8)
    for _, draw in positions:
        picture = draw()
        window.show(picture)
        if window.closed:
            return
    window.fps = 30
    while not window.closed:  # the end of the game stays
        window.show(picture)


def _to_file(positions: Iterator[Position], options: Watch) -> None:
    """Write the last positions to a GIF or an MP4."""
    from afterstate.agents.progress import progress_bar

    path, speed = Path(options.to), options.speed or 30
    with sigterm_raises(SystemExit(128 + signal.SIGTERM)):
        kept = deque(progress_bar(positions, unit="moves"), maxlen=options.last)
        frames = [draw() for _, draw in kept]
        if path.suffix.lower() == ".gif":
            pictures.gif(frames, path, fps=min(speed, 50))
        else:
            pictures.mp4(frames, path, speed)
    print(path)
