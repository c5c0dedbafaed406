"""An N-tuple network that learns from nothing, in a process of its own."""

from __future__ import annotations

import json
import signal
import time
from collections import deque
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.rules import words
from afterstate.web import game_2048
from afterstate.web.answers import Json
from afterstate.web.thinking import analysis

_MOVES = 20_000  # between two looks at the clock
_KEPT = 1000  # games of the mean
_FRAMES = 60  # boards of the game that is shown
_MOST = 3000  # its moves


class Session:
    """A learner and its recent games.

    Args:
        seed: seed of its games.
    """

    def __init__(self, seed: int) -> None:
        self._learner = NTupleLearner(seed=seed)
        self._players: dict[int, Agent] = {}  # by depth; they share the weights
        self._scores: deque[int] = deque(maxlen=_KEPT)
        self._tiles: deque[int] = deque(maxlen=_KEPT)
        self._compile()

    def _compile(self) -> None:
        """Compile what learns, and hints, whose time is limited."""
        self._learner.learn(1)
        self._learner.seconds = 0.0
        for depth in (1, 2):
            analysis.hint(self._player(depth), game_2048.new(seed=0).position.board, detail=True)

    def answer(self, request: Json, is_stopped: Callable[[], bool]) -> Json:
        """Return the answer to a request: to learn on, for games, for a hint, or for moves.

        Args:
            request: the request.
            is_stopped: returns True when games are to end early.
        """
        if request["kind"] == "learn":
            self._learn(request["seconds"])
            return {**self._progress(), "sample": _sample(self._player(1))}
        if request["kind"] == "games":
            return _games(self._player(1), request["seconds"], is_stopped)
        player = self._player(request["player"]["settings"]["depth"])
        if request["kind"] == "hint":
            return analysis.hint(player, request["board"], request["detail"])
        return analysis.play(player, request)

    def _player(self, depth: int) -> Agent:
        """Return the player by the network as it is now: greedily, or by a search."""
        if depth not in self._players:
            net = self._learner.network
            self._players[depth] = NTupleAgent(net) if depth == 1 else ExpectimaxAgent(net, depth)
        return self._players[depth]

    def _learn(self, seconds: float) -> None:
        """Learn for a time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            played: Games = self._learner.learn(_MOVES)
            self._scores.extend(played.scores.tolist())
            self._tiles.extend(played.max_tiles.tolist())

    def _progress(self) -> Json:
        """Return counts, and the mean of the last games."""
        tiles = np.array(self._tiles)
        return {
            "n_moves": self._learner.n_moves,
            "n_games": self._learner.n_games,
            "seconds": self._learner.seconds,
            "mean_score": float(np.mean(self._scores)),
            "reach_2048": float((tiles >= 2048).mean()),
            "max_tile": int(tiles.max()),
        }


def _games(player: Any, seconds: float, is_stopped: Callable[[], bool]) -> Json:
    """Return the results of the games of seeds 0, 1, ... that begin within a time, one at least."""
    scores: list[int] = []
    tiles: list[int] = []
    play(player, 1)  # loads what is compiled
    start = time.monotonic()
    while not scores or (time.monotonic() < start + seconds and not is_stopped()):
        played = play(player, 1, seed=len(scores))
        scores.extend(played.scores.tolist())
        tiles.extend(played.max_tiles.tolist())
    reached = [1 << n for n in range(11, max(tiles).bit_length())]
    return {
        "n_games": len(scores),
        "seconds": time.monotonic() - start,
        "mean_score": float(np.mean(scores)),
        "max_score": max(scores),
        "reach": {str(tile): float(np.mean(np.array(tiles) >= tile)) for tile in reached},
    }


def _sample(player: Any) -> Json:
    """Return the game of seed 0 by a player: its score, and some of its boards."""
    env = Game2048Env(illegal="raise")
    env.reset(seed=0)
    boards, is_over = [env.get_state()["board"]], False
    while not is_over and len(boards) <= _MOST:
        action = int(player.act(words(boards[-1][None]))[0])
        is_over = env.step(action)[2]
        boards.append(env.get_state()["board"])
    every = max(1, len(boards) // _FRAMES)
    shown = [*boards[:-1:every], boards[-1]]
    return {
        "boards": [board.reshape(-1).tolist() for board in shown],
        "score": env.get_state()["score"],
        "over": is_over,
    }


def work(connection: Connection) -> None:
    """Answer requests until the other end is closed; the first has the seed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    session = cache(Session)
    while True:
        try:
            request = json.loads(connection.recv_bytes())
            if request["kind"] == "stop":  # read by nobody before: what it stops has ended
                continue
            answer = _answer(session, request, connection.poll)
            connection.send_bytes(json.dumps(answer).encode())
        except (EOFError, ConnectionError):  # the server has ended
            return


def _answer(
    session: Callable[[int], Session], request: Json, is_stopped: Callable[[], bool]
) -> Json:
    """Return the answer to a request, or what is wrong; `session` returns that of a seed."""
    try:
        return session(request["seed"]).answer(request, is_stopped)
    except (ValueError, MemoryError) as error:
        return {"error": str(error) or "out of memory"}
