"""Bodies of requests, checked before anything changes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from afterstate.web import choices
from afterstate.web.choices import Spec
from afterstate.web.game_2048 import Board, Seed
from afterstate.web.thinking.pool import Refusal

MAX_MOVES = 2000
"""Moves of 2048 that one request may ask for."""

_TILES = tuple(1 << n for n in range(2, 18))


class Request(BaseModel):
    """A body; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Turn(Request):
    """A change of the position with this number."""

    turn: Annotated[int, Field(ge=0)]


class Player(Request):
    """A player and its settings."""

    name: Annotated[str, Field(max_length=40)]
    settings: Annotated[dict[str, int | float | str], Field(max_length=10)] = Field(
        default_factory=dict
    )

    def spec(self, game: str) -> Spec:
        """Return the player, checked.

        Raises:
            Refusal: it cannot be chosen.
        """
        try:
            return choices.checked(game, self.name, self.settings)
        except ValueError as error:
            raise Refusal(422, str(error)) from None


class New2048(Request):
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
    until: Annotated[int, Field()] | None = None

    def check(self) -> None:
        """Raise Refusal unless `until` is a tile."""
        if self.until is not None and self.until not in _TILES:
            raise Refusal(422, f"until must be a tile from 4 to 131072, got {self.until}")


Json = dict[str, Any]
GameName = Literal["2048", "daihinmin"]
