"""The page itself, its files, and what it needs at the start."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse

from afterstate.web import choices, game_2048, game_daihinmin
from afterstate.web.answers import Json
from afterstate.web.guard import cookie_of
from afterstate.web.routes.site import Me, Site, set_cookie

STATIC = Path(__file__).parents[1] / "static"
router = APIRouter()


@router.get("/")
async def page() -> FileResponse:
    """Return the page."""
    return FileResponse(STATIC / "index.html")


@router.get("/api/me")
async def me(visitor: Me, site: Site, request: Request, response: Response) -> Json:
    """Return the players, the limits, and the visitor's games; renew its cookie."""
    cookie = cookie_of(request.headers)
    if cookie and visitor in site.visitors:
        set_cookie(request, response, cookie)
    game, match = visitor.games.game_2048, visitor.games.match
    return {
        "players": choices.listed(),
        "trained": choices.TRAINED.as_json(),
        "ready": site.searches.is_ready,
        "failed": site.searches.has_failed,
        "compiling": site.searches.compiling,
        "thinking": site.searches.is_running(visitor.key),
        "seconds": site.limits.seconds,
        "game_2048": None if game is None else game_2048.state(game),
        "match": None if match is None else game_daihinmin.state(match, False),
    }


@router.post("/api/stop")
async def stop(visitor: Me, site: Site) -> Json:
    """Stop the visitor's search."""
    return {"stopped": site.searches.stop(visitor.key)}
