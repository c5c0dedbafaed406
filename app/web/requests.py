"""Bodies of requests, checked before anything changes."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from afterstate.envs.daihinmin.cards import N_CARDS
from afterstate.envs.daihinmin.plays import N_PLAYS
from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.envs.game2048.rules import check_tile
from afterstate.web import choices
from afterstate.web.answers import Json, Refusal
from afterstate.web.game_2048 import Board, Seed
from afterstate.web.game_daihinmin import MAX_GAMES

MAX_MOVES = 2000
"""Moves of 2048 that one request may ask for."""

GameName = Literal["2048", "daihinmin"]
Card = Annotated[int, Field(ge=0, lt=N_CARDS)]


class Request(BaseModel):
    """A body; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Turn(Request):
    """A change of the position with this number."""

    turn: Annotated[int, Field(ge=0)]


class Player(Request):
    """A player and its settings."""

    name: Annotated[str, Field(max_length=40)]
    settings: Annotated[Json, Field(max_length=10)] = Field(default_factory=dict)

    def spec(self, game: str) -> Json:
        """Return the player, checked.

        Raises:
            Refusal: it cannot be chosen.
        """
        try:
            return choices.player_spec(game, self.name, self.settings)
        except ValueError as error:
            raise Refusal(422, str(error)) from None


class Start(Request):
    """A new game in place of the one at a turn, -1 for none; without a turn, of any game."""

    turn: Annotated[int, Field(ge=-1)] | None = None


class New2048(Start):
    """A new game of 2048, by seed, or from a board."""

    seed: Seed | None = None
    board: Board | None = None


class Move(Turn):
    """A move of 2048."""

    action: Annotated[int, Field(ge=0, le=3)]


class Hint(Request):
    """A hint."""

    player: Player
    detail: bool = False


class Run(Turn):
    """Moves of a player of 2048."""

    player: Player
    moves: Annotated[int, Field(ge=1, le=MAX_MOVES)] = 1
    until: Annotated[int, AfterValidator(partial(check_tile, "until"))] | None = None


class NewMatch(Start):
    """A match of Daihinmin: four players against the visitor, or five to watch."""

    players: Annotated[list[Player], Field(min_length=4, max_length=5)]
    seed: Seed | None = None
    n_games: Annotated[int, Field(ge=1, le=MAX_GAMES)] = 3

    def specs(self) -> list[Json | None]:
        """Return the players, with None for the visitor; raise Refusal for a wrong one."""
        others: list[Json | None] = [each.spec("daihinmin") for each in self.players]
        return others if len(others) == N_PLAYERS else [None, *others]


class Watch(Start):
    """A match of Daihinmin that begins with a game of the leaderboard."""

    name: Annotated[str, Field(max_length=100)]
    seed: Seed
    number: Annotated[int, Field(ge=1, le=MAX_GAMES)]


class Play(Turn):
    """A play of the visitor."""

    play: Annotated[int, Field(ge=0, lt=N_PLAYS)]


class Gift(Turn):
    """Cards that the visitor gives away."""

    cards: Annotated[list[Card], Field(min_length=1, max_length=2)]


class HintDaihinmin(Request):
    """A hint in Daihinmin."""

    player: Player


class Learn(Request):
    """Seconds to learn."""

    seconds: Annotated[float, Field(ge=1, le=300)] = 60
    seed: Seed = 1


class PlayGames(Request):
    """Seconds to play games."""

    seconds: Annotated[float, Field(ge=1, le=30)] = 10


class Recorded(Request):
    """A recorded game."""

    game: Json

    @field_validator("game")
    @classmethod
    def _check_text(cls, game: Json) -> Json:
        """Return the game if its texts can be sent."""
        try:
            json.dumps(game, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("its texts must be Unicode, without lone surrogates") from None
        except RecursionError:
            raise ValueError("its values must not be nested that deep") from None
        return game
