"""A visitor's game of 2048, as a record that is kept in a file.

Moves and tiles are those of `Game2048-v0` after `reset(seed=seed)`. A board here is a list of 16
exponents, row by row.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field

from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.rules import MAX_EXPONENT, words
from afterstate.envs.words import Words
from afterstate.web.answers import Json

MAX_UNDO = 200
"""Number of moves that can be taken back."""

Exponent = Annotated[int, Field(ge=0, le=MAX_EXPONENT, strict=True)]
Board = Annotated[list[Exponent], Field(min_length=16, max_length=16)]
Seed = Annotated[int, Field(ge=0, lt=1 << 53, strict=True)]
"""A seed that JavaScript can represent."""


class Position(BaseModel):
    """A board, its score and the random state of the next tile."""

    board: Board
    score: Annotated[int, Field(ge=0, lt=1 << 62)]
    rng: Annotated[int, Field(ge=0, lt=1 << 64)]


class Game(BaseModel):
    """A game of 2048."""

    seed: Seed | None
    position: Position
    n_moves: Annotated[int, Field(ge=0)] = 0
    turn: Annotated[int, Field(ge=0)] = 0
    """Number of changes to the game, by which a request names the position it means."""
    past: Annotated[list[Position], Field(max_length=MAX_UNDO)] = Field(default_factory=list)

    @property
    def is_running(self) -> bool:
        """True if it has begun and is not over."""
        return self.n_moves > 0 and not state(self)["over"]


_ENV = Game2048Env(illegal="raise")


def new(seed: int) -> Game:
    """Return the game of a seed."""
    _ENV.reset(seed=seed)
    return Game(seed=seed, position=_position())


def set_up(board: list[int], seed: int) -> Game:
    """Return a game that starts from a board; the seed determines its tiles.

    Raises:
        ValueError: the board is empty.
    """
    if not any(board):
        raise ValueError("board must have a tile, got an empty one")
    _ENV.reset(seed=seed, options={"board": cells(board)})
    return Game(seed=None, position=_position())


def play(game: Game, action: int) -> Json:
    """Play a move and return it as JSON: afterstate, reward, new tile and the next position.

    Raises:
        ValueError: the move is illegal; the game is unchanged.
    """
    before = game.position
    _enter(before)
    _, reward, _, _, info = _ENV.step(action)
    game.past = [*game.past, before][-MAX_UNDO:]
    game.position = _position()
    game.n_moves, game.turn = game.n_moves + 1, game.turn + 1
    after = info["afterstate"].reshape(-1).tolist()
    board = game.position.board
    cell = next(i for i in range(16) if after[i] != board[i])
    played = {"action": action, "after": after, "reward": int(float(reward))}
    return played | {"tile": {"cell": cell, "exponent": board[cell]}} | state(game)


def undo(game: Game) -> None:
    """Take back a move.

    Raises:
        ValueError: there is none to take back.
    """
    if not game.past:
        raise ValueError("no move can be taken back")
    *game.past, game.position = game.past
    game.n_moves, game.turn = max(0, game.n_moves - 1), game.turn + 1


def state(game: Game) -> Json:
    """Return the position as JSON."""
    _enter(game.position)
    legal = [bool(each) for each in _ENV.action_masks()]
    largest = max(game.position.board)
    return {
        "seed": game.seed,
        "board": game.position.board,
        "score": game.position.score,
        "n_moves": game.n_moves,
        "turn": game.turn,
        "can_undo": len(game.past),
        "legal": legal,
        "over": not any(legal),
        "max_tile": 1 << largest if largest else 0,
    }


def cells(board: list[int]) -> Any:
    """Return a board as exponents `uint8[4, 4]`."""
    return np.array(board, np.uint8).reshape(4, 4)


def word_batch(board: list[int]) -> Words:
    """Return the board that players see as a batch of one word, downgraded above 32768."""
    return words(cells(board)[None])


def board_of(word: int) -> list[int]:
    """Return the exponents of a board word."""
    return [int(word) >> 4 * cell & 15 for cell in range(16)]


def let_play(
    player: Any, game: Game, most: int, until: int | None = None
) -> tuple[list[Json], float]:
    """Return the moves that a player plays in a game, as `play` does, and its seconds of thought.

    Args:
        player: any player of 2048.
        game: goes on by the moves.
        most: number of moves at most.
        until: the tile at which to stop.
    """
    played: list[Json] = []
    seconds, now = 0.0, state(game)
    while len(played) < most and not now["over"]:
        start = time.perf_counter()
        action = int(player.act(word_batch(game.position.board))[0])
        seconds += time.perf_counter() - start
        now = play(game, action)
        played.append(now)
        if until is not None and now["max_tile"] >= until:
            break
    return played, seconds


def follow(game: Game, later: Game, played: list[Json]) -> None:
    """Update a game, and the moves of a copy that was played on without the past, by that copy."""
    for number, move in enumerate(played, len(game.past) + 1):
        move["can_undo"] = min(number, MAX_UNDO)
    game.past = [*game.past, *later.past][-MAX_UNDO:]
    game.position, game.n_moves, game.turn = later.position, later.n_moves, later.turn


def _enter(position: Position) -> None:
    """Set the environment to a position."""
    board = cells(position.board)
    _ENV.set_state({"board": board, "score": position.score, "rng": position.rng})


def _position() -> Position:
    """Return the position of the environment."""
    now = _ENV.get_state()
    board = now["board"].reshape(-1).tolist()
    return Position.model_construct(board=board, score=now["score"], rng=now["rng"])


def outcomes(after: list[int]) -> tuple[list[list[int]], list[float]]:
    """Return the boards that may follow an afterstate, and their probabilities."""
    boards, odds = _ENV.outcomes(cells(after))
    return boards.reshape(len(boards), 16).tolist(), odds.tolist()


def afterstates(board: list[int]) -> tuple[list[list[int]], list[int], list[bool]]:
    """Return the afterstates of the four moves, their rewards and if they are legal."""
    _enter(Position.model_construct(board=board, score=0, rng=0))
    boards, rewards, legal = _ENV.afterstates()
    return boards.reshape(4, 16).tolist(), [int(each) for each in rewards], legal.tolist()
