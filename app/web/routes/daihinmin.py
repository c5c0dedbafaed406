"""The routes of Daihinmin."""

from __future__ import annotations

import secrets
from asyncio import to_thread

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from afterstate.web import game_daihinmin, leaderboard
from afterstate.web.answers import Json, Refusal
from afterstate.web.game_daihinmin import Match
from afterstate.web.requests import (
    Gift,
    HintDaihinmin,
    NewMatch,
    Play,
    Recorded,
    Turn,
    Watch,
)
from afterstate.web.routes.leaderboard import missing_rows
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

router = APIRouter(prefix="/api/daihinmin")


def _moved(site: State, me: Visitor, move: Json) -> Json:
    """Make a move, and return what happens and the match after it."""
    with site.visitors.changing(me):
        events = attempt(game_daihinmin.apply, me.match, move)
    return {"events": events, **game_daihinmin.state(me.match, False)}


@router.post("/new")
async def new(body: NewMatch, me: Starter, site: Site) -> Json:
    """Start a match; return it."""
    seed = secrets.randbelow(2**32) if body.seed is None else body.seed
    with site.visitors.changing(me) as games:
        match = game_daihinmin.new(body.specs(), seed, body.n_games)
        match.turn = turn_after(games.match, body.turn)
        games.match = match
    return {"events": me.match.events, **game_daihinmin.state(me.match, False)}


@router.post("/watch")
async def watch(body: Watch, me: Starter, site: Site) -> Json:
    """Start a match that begins with a game of the leaderboard; return it."""
    with missing_rows(body.name):
        match = await to_thread(leaderboard.match, body.name, body.seed, body.number)
    with site.visitors.changing(me) as games:
        match.turn = turn_after(games.match, body.turn)
        games.match = match
    return game_daihinmin.state(match, False)


@router.get("")
async def current(me: Me, reveal: bool = False) -> Json:
    """Return the match, with all that happened in it."""
    return {"history": me.match.events, **game_daihinmin.state(me.match, reveal)}


@router.post("/play")
async def play(body: Play, me: Me, site: Site) -> Json:
    """Play for the visitor; return what happens."""
    _my_turn(me.match, body.turn)
    return _moved(site, me, {"play": body.play})


@router.post("/give")
async def give(body: Gift, me: Me, site: Site) -> Json:
    """Give cards away for the visitor; return what happens."""
    _my_turn(me.match, body.turn)
    return _moved(site, me, {"gift": sum(1 << card for card in {*body.cards})})


@router.post("/advance")
async def advance(body: Turn, me: Me, site: Site) -> Json:
    """Let the player in turn move; return what happens."""
    match = at_turn(me.match, body.turn)
    player, is_visitor = game_daihinmin.in_turn(match)
    if player < 0 or is_visitor:
        raise Refusal(409, "no other player is in turn")
    request = _request("move", match, match.players[player] or {})
    answer = await site.searches.run(me.key, request | {"seed": match.seed + player})
    unchanged(me.games.match, match, body.turn)
    return _moved(site, me, answer)


@router.post("/next")
async def next_(body: Turn, me: Me, site: Site) -> Json:
    """Deal the next game; return what happens."""
    match = at_turn(me.match, body.turn)
    with site.visitors.changing(me):
        events = attempt(game_daihinmin.begin_next, match)
    return {"events": events, **game_daihinmin.state(match, False)}


@router.post("/hint")
async def hint(body: HintDaihinmin, me: Me, site: Site) -> Json:
    """Return what a player would do for the visitor, and what it thinks of the best plays."""
    match, spec = me.match, body.player.spec("daihinmin")
    _my_turn(match, match.turn)
    turn = match.turn
    answer = await site.searches.run(me.key, _request("hint_daihinmin", match, spec))
    unchanged(me.games.match, match, turn)
    return {"turn": turn, **answer}


@router.get("/steps")
async def steps(me: Me, site: Site) -> JSONResponse:
    """Return the positions of the last game of the match."""
    if None in me.match.players and game_daihinmin.in_turn(me.match)[0] >= 0:
        raise Refusal(409, "the game can be stepped through once it is over")
    request = {"kind": "steps", "match": me.match.model_dump(exclude={"events"})}
    return JSONResponse(await site.searches.run(me.key, request))


@router.post("/recorded")
async def recorded(body: Recorded, me: Starter, site: Site) -> JSONResponse:
    """Return the positions of a recorded game."""
    request = {"kind": "recorded", "game": body.game}
    return JSONResponse(await site.searches.run(me.key, request))


def _request(kind: str, match: Match, spec: Json) -> Json:
    """Return a request to a player in turn."""
    seen = game_daihinmin.encode(game_daihinmin.view_in_turn(match))
    return {"kind": kind, "view": seen, "player": spec, "seed": match.seed}


def _my_turn(match: Match, turn: int) -> None:
    """Raise Refusal unless the visitor is in turn."""
    if not game_daihinmin.in_turn(at_turn(match, turn))[1]:
        raise Refusal(409, "it is not your turn")
