"""Logs of finished games: played here, read from our files, or recorded by others.

A game is a record of `rules.GAME`, which holds every move.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from afterstate.agents import files
from afterstate.agents.daihinmin.play import GAMES_PER_CYCLE, play_match
from afterstate.envs.daihinmin.players import Player, RandomPlayer
from afterstate.envs.daihinmin.plays import N_PLAYS, Numbers
from afterstate.envs.daihinmin.records.recording import Entry
from afterstate.envs.daihinmin.records.replay import (
    FORMAT_ERRORS,
    exchanged,
    parse_submission,
    read,
)
from afterstate.envs.daihinmin.records.validity import status
from afterstate.envs.daihinmin.rules import (
    GAME,
    N_PLAYERS,
    Game,
    play,
    write_legal,
)
from afterstate.envs.messages import shown

_KIND = "daihinmin-log"


class Log(NamedTuple):
    """Finished games."""

    games: npt.NDArray[np.void]  # GAME[n]
    last_random: Numbers  # [n] number of a game's last random move, from 0; -1: none
    students: Numbers  # [n] the players to learn from, as bits


ALL = (1 << N_PLAYERS) - 1
"""All players, as bits."""


def new_log(games: npt.NDArray[np.void]) -> Log:
    """Return a log of games without random moves, to learn from all players."""
    return Log(games, np.full(len(games), -1), np.full(len(games), ALL))


def join(logs: Sequence[Log]) -> Log:
    """Return the games of several logs, in order."""
    return Log(*(np.concatenate(column) for column in zip(*logs, strict=True)))


# Played


def play_log(players: Sequence[Player], n_games: int, seed: int = 0, epsilon: float = 0.0) -> Log:
    """Return games between any players, played in matches of 100.

    Args:
        players: five, by player number.
        n_games: number of games.
        seed: seed of deals, seats and random moves.
        epsilon: probability that a play, where there is a choice, is random.
    """
    log = new_log(np.empty(n_games, GAME))
    rng = np.random.default_rng(seed)
    seated = [_WithRandomMoves(player, epsilon, rng) for player in players]
    for begin in range(0, n_games, GAMES_PER_CYCLE):
        match_seed, n = int(rng.integers(2**63)), min(GAMES_PER_CYCLE, n_games - begin)
        for i, match in enumerate(play_match(seated, n, match_seed), begin):
            log.games[i] = match
            log.last_random[i] = max(player.last for player in seated)
            for player in seated:
                player.last = -1
    return log


class _WithRandomMoves:
    """A player that makes a random play with probability epsilon.

    Args:
        player: makes the other plays.
        epsilon: probability of a random play, where there is a choice.
        rng: generator of the random plays.

    Attributes:
        last: the number of the last random move, -1 if none; reset it for each game.
    """

    def __init__(self, player: Player, epsilon: float, rng: np.random.Generator) -> None:
        self._player, self._epsilon, self._rng = player, epsilon, rng
        self._random, self._listed = RandomPlayer(rng), np.empty(N_PLAYS, np.int64)
        self.last = -1

    def choose(self, view: Game) -> int:
        """Return the player's play, or a random one."""
        has_choice = self._epsilon and write_legal(view, self._listed)
        if has_choice and self._rng.random() < self._epsilon:
            self.last = int(view["n_actions"])
            return self._random.choose(view)
        return self._player.choose(view)

    def give(self, view: Game, n: int) -> int:
        """Return the player's gift."""
        return self._player.give(view, n)


# Recorded


def read_log(path: str | Path) -> Log:
    """Return the games of a file of `recording.py`, JSON lines, also compressed by gzip.

    Where the last places of a game were drawn by chance, the recorded ones are used. Damaged lines
    are left out and reported in the log.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has no games, or one that breaks the rules.
    """
    games = []
    for number, entry in enumerate(read(path), 1):
        try:
            games.append(_recorded(entry))
        except FORMAT_ERRORS as error:
            raise ValueError(f"{path}: game {number} breaks the rules: {error!s:.300}") from error
    if not games:
        raise ValueError(f"{path} has no games")
    return new_log(np.array(games, GAME))


def _recorded(entry: Entry) -> Game:
    """Return the record of a game that others recorded."""
    game = exchanged(entry)
    for action in entry["actions"]:
        if game["turn"] != action["p"] or game["to_give"]:
            raise ValueError(f"player {shown(action['p'])} moves out of turn")
        play(game, parse_submission(action["m"]))
    if game["turn"] >= 0 or sorted(entry["finish"]) != list(range(N_PLAYERS)):
        raise ValueError("the game is not finished")
    for place, player in enumerate(entry["finish"]):
        if game["left"][player] == 0 and game["places"][player] != place:
            raise ValueError(f"player {shown(player)} does not finish as recorded")
        game["places"][player] = place
    return game


# Files


def save_log(log: Log, path: str | Path) -> None:
    """Write games to a file.

    Raises:
        OSError: the file cannot be written.
    """
    rows = np.ascontiguousarray(log.games).view(np.uint8).reshape(len(log.games), -1)
    arrays: files.Arrays = {"games": rows, "last_random": log.last_random, "students": log.students}
    files.write(path, _KIND, {"record": _record()}, arrays)


def load_log(path: str | Path) -> Log:
    """Return the games of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: another file, a damaged one, one of another version of the rules, or a game that
            breaks the rules.
    """
    header, arrays = files.read(path, _KIND)
    if header.get("record") != _record():
        raise ValueError(f"{path} has games of another version of the rules")
    shapes = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
    n = shapes.get("students", ("", ()))[1][:1] or (0,)
    numbers = np.dtype(np.int64).str, n
    games = "|u1", (*n, GAME.itemsize)
    if shapes != {"games": games, "last_random": numbers, "students": numbers}:
        raise ValueError(f"{path} has other arrays than a log: {shown(shapes)}")
    log = Log(arrays["games"].view(GAME).reshape(-1), arrays["last_random"], arrays["students"])
    valid = (log.last_random >= -1) & (log.last_random < log.games["n_actions"])
    valid &= (log.students >= 0) & (log.students <= ALL) & (log.games["turn"] == -1)
    for i, game in enumerate(log.games):
        if not valid[i] or status(game):
            raise ValueError(f"{path}: game {i + 1} breaks the rules")
    return log


def _record() -> list[str]:
    """Return the fields of a game, as in the header of a file."""
    return [f"{name} {GAME[name].str} {GAME[name].shape}" for name in GAME.names or ()]
