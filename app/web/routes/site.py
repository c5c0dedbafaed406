"""Dependencies of the routes: visitors, the state of the server, and checks of games."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response

from afterstate.envs.messages import shown
from afterstate.web import game_2048
from afterstate.web.answers import Refusal
from afterstate.web.game_daihinmin import Match
from afterstate.web.guard import cookie_name, cookie_of
from afterstate.web.settings import Limits
from afterstate.web.thinking.learners import Learners
from afterstate.web.thinking.pool import SearchPool
from afterstate.web.visitors import Games, Visitor, Visitors

Held = TypeVar("Held", game_2048.Game, Match)


@dataclass(frozen=True)
class State:
    """The state of a server: its visitors, their searches and networks, and the limits."""

    limits: Limits
    visitors: Visitors
    searches: SearchPool
    learners: Learners


async def _state_of(request: Request) -> State:
    """Return the state of the server of a request."""
    state: State = request.app.state.site
    return state


Site = Annotated[State, Depends(_state_of)]


async def _visitor_of(request: Request, site: Site) -> Visitor:
    """Return the visitor of a request; without a valid cookie, one without games, who is not kept.

    FastAPI calls coroutines one at a time; plain functions it would call in several threads.
    """
    address = request.client.host if request.client else ""
    visitor = site.visitors.find(cookie_of(request.headers), address)
    return visitor or Visitor(address, Games(), address)


Me = Annotated[Visitor, Depends(_visitor_of)]


async def _starter_of(request: Request, response: Response, site: Site, me: Me) -> Visitor:
    """Return the visitor of a request to start something; one that is not kept is from now on.

    Only these requests make visitors: other sites can send none of them.
    """
    if me in site.visitors:
        return me
    cookie, visitor = site.visitors.new(me.address)
    request.state.new_cookie = cookie  # for the answer if the request is refused
    set_cookie(request, response, cookie)
    return visitor


Starter = Annotated[Visitor, Depends(_starter_of)]


def set_cookie(request: Request, response: Response, cookie: str) -> None:
    """Let the browser keep a visitor's cookie for some days from now on."""
    days: float = request.app.state.site.limits.days
    options: Any = {"httponly": True, "samesite": "strict", "path": "/"}
    name = cookie_name(request.headers["host"])
    response.set_cookie(name, cookie, max_age=int(days * 86_400), **options)


def at_turn(game: Held, turn: int) -> Held:
    """Return a game; raise Refusal if it is not at this turn, such as after a move elsewhere."""
    if game.turn == turn:
        return game
    if game.turn > turn:
        raise Refusal(409, "the game was continued in another window")
    raise Refusal(409, f"turn must be {game.turn}, got {shown(turn)}")


def turn_after(game: Held | None, known: int | None) -> int:
    """Return the turn of a new game: one that windows with the game before it do not have.

    Args:
        game: the game that it replaces.
        known: the turn of the game that the window shows; None to replace any game.

    Raises:
        Refusal: the window does not show the game, which is running.
    """
    if game is None:
        return 0
    if known not in (None, game.turn) and game.is_running:
        why = "a game is running in another window"
        raise Refusal(409, f"{why}: turn must be {game.turn}, got {shown(known)}")
    return game.turn + 1


def unchanged(now: object, game: Held, turn: int) -> None:
    """Raise Refusal unless a visitor's game is the one it was before a search, and at its turn."""
    if now is not game or game.turn != turn:
        raise Refusal(409, "the game has changed while the player was thinking")


def attempt(action: Callable[..., Any], *args: Any) -> Any:
    """Return the result of an action; raise Refusal if the rules do not allow it."""
    try:
        return action(*args)
    except ValueError as error:
        raise Refusal(409, str(error)) from None
