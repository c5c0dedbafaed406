"""The routes of the network that a visitor trains."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter

from afterstate.web.answers import Json, Refusal
from afterstate.web.requests import Learn, PlayGames
from afterstate.web.routes.site import Me, Site, Starter

router = APIRouter(prefix="/api/learn")


@router.get("")
async def state(me: Me, site: Site) -> Json:
    """Return the state of the visitor's network."""
    return site.learners.state(me.key)


@router.post("/start")
async def start(body: Learn, me: Starter, site: Site) -> Json:
    """Let a new network learn for a time; return its state."""
    if not site.searches.is_ready:
        raise Refusal(503, "the players are being loaded, try again in a moment")
    return await site.learners.start(me.key, body.seed, body.seconds)


@router.post("/resume")
async def resume(body: Learn, me: Me, site: Site) -> Json:
    """Let the network learn on for a time; return its state."""
    return site.learners.resume(me.key, body.seconds)


@router.post("/play")
async def play(body: PlayGames, me: Me, site: Site) -> Json:
    """Let the network play for a time; return what it reaches."""
    request = {"kind": "games", "seconds": body.seconds}
    return await site.searches.run(me.key, request, partial(site.learners.ask, me.key))


@router.post("/stop")
async def stop(me: Me, site: Site) -> Json:
    """Stop learning; return the state of the network."""
    return site.learners.stop(me.key)
