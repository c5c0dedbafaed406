"""The routes of 2048."""

from __future__ import annotations

import secrets
from functools import partial

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from afterstate.web import choices, game_2048
from afterstate.web.answers import Json, Refusal
from afterstate.web.requests import Hint, Move, New2048, Run, Turn
from afterstate.web.routes.site import (
    Me,
    Site,
    Starter,
    State,
    at_turn,
    attempt,
    turn_after,
    unchanged,
)
from afterstate.web.visitors import Visitor

router = APIRouter(prefix="/api/2048")


async def _ask(site: State, me: Visitor, request: Json) -> Json:
    """Return the answer of a player, or of the network that the visitor has trained."""
    is_trained = request["player"]["name"] == choices.TRAINED.name
    return await site.searches.run(
        me.key, request, partial(site.learners.ask, me.key) if is_trained else None
    )


@router.post("/new")
async def new(body: New2048, me: Starter, site: Site) -> Json:
    """Start a game, from a seed or from a board; return its position."""
    seed = secrets.randbelow(2**32) if body.seed is None else body.seed
    try:
        start = game_2048.new(seed) if body.board is None else game_2048.set_up(body.board, seed)
    except ValueError as error:
        raise Refusal(422, str(error)) from None
    with site.visitors.changing(me) as games:
        start.turn = turn_after(games.game_2048, body.turn)
        games.game_2048 = start
    return game_2048.state(start)


@router.post("/move")
async def move(body: Move, me: Me, site: Site) -> Json:
    """Play a move; return it with the position after it."""
    game = at_turn(me.game, body.turn)
    if not game_2048.state(game)["legal"][body.action]:
        raise Refusal(409, f"action {body.action} moves no tile")
    with site.visitors.changing(me):
        return game_2048.play(game, body.action)


@router.post("/undo")
async def undo(body: Turn, me: Me, site: Site) -> Json:
    """Take back a move; return the position before it."""
    game = at_turn(me.game, body.turn)
    with site.visitors.changing(me):
        attempt(game_2048.undo, game)
    return game_2048.state(game)


@router.post("/hint")
async def hint(body: Hint, me: Me, site: Site) -> Json:
    """Return the move of a player, and what it thinks of all moves."""
    game = me.game
    if game_2048.state(game)["over"]:
        raise Refusal(409, "no move is left")
    turn, board = game.turn, game.position.board
    request = {"kind": "hint", "player": body.player.spec("2048"), "board": board}
    answer = await _ask(site, me, request | {"detail": body.detail})
    unchanged(me.games.game_2048, game, turn)
    return {"turn": turn, **answer}


@router.post("/run")
async def run(body: Run, me: Me, site: Site) -> JSONResponse:
    """Let a player play moves; return them and the seconds that it took."""
    game = at_turn(me.game, body.turn)
    request = {"kind": "play", "player": body.player.spec("2048"), "until": body.until}
    request |= {"game": game.model_dump(exclude={"past"}), "moves": body.moves}
    request |= {"seed": game.seed, "fresh": game.n_moves == 0}
    answer = await _ask(site, me, request)
    unchanged(me.games.game_2048, game, body.turn)
    with site.visitors.changing(me):
        game_2048.follow(game, game_2048.Game(**answer.pop("game")), answer["played"])
    return JSONResponse(answer)  # as it is: FastAPI would look at each value of each move
