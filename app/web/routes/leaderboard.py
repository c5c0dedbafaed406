"""The routes of the leaderboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Query

from afterstate.envs.messages import shown
from afterstate.web import leaderboard
from afterstate.web.answers import Json, Refusal
from afterstate.web.requests import GameName

router = APIRouter(prefix="/api/leaderboard")


@router.get("/{game}")
def table(game: GameName) -> Json:
    """Return the results of a game."""
    with reading():
        return leaderboard.table(game)


@router.get("/{game}/rows")
def played(game: GameName, name: str, first: Annotated[int, Query(ge=0, le=10**6)] = 0) -> Json:
    """Return some rows of a player, from `first` on."""
    with missing_rows(name):
        return leaderboard.played(game, name, first)


@contextmanager
def reading() -> Iterator[None]:
    """Refuse a request for results that are not there, or are damaged."""
    try:
        yield
    except FileNotFoundError:
        raise Refusal(404, leaderboard.MISSING) from None
    except OSError as error:
        raise Refusal(500, str(error)) from None


@contextmanager
def missing_rows(name: str) -> Iterator[None]:
    """Refuse a request for rows of a player that are not there."""
    try:
        with reading():
            yield
    except LookupError:
        raise Refusal(404, f"there are no such games of a player {shown(name)}") from None
    except ValueError as error:
        raise Refusal(422, str(error)) from None
