"""The application: addresses, and what they do."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from afterstate.web import choices, game_2048
from afterstate.web.guard import COOKIE, Guard, cookie_of
from afterstate.web.requests import Hint, Json, Move, New2048, Run, Turn
from afterstate.web.settings import Limits
from afterstate.web.thinking.pool import Refusal, Thinking
from afterstate.web.visitors import Visitor, Visitors

STATIC = Path(__file__).parent / "static"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def visitor_of(request: Request, response: Response) -> Visitor:
    """Return the visitor of a request, a new one if it has no valid cookie."""
    visitors: Visitors = request.app.state.visitors
    visitor = visitors.find(cookie_of(request.headers))
    if visitor is None:
        cookie, visitor = visitors.new()
        age = int(request.app.state.limits.days * 86_400)
        options: Any = {"httponly": True, "samesite": "strict", "path": "/", "max_age": age}
        response.set_cookie(COOKIE, cookie, **options)
    return visitor


Me = Annotated[Visitor, Depends(visitor_of)]


def create_app(
    folder: Path, limits: Limits | None = None, hosts: frozenset[str] = LOOPBACK
) -> Guard:
    """Return the application.

    Args:
        folder: of the visitors' files.
        limits: of visitors and searches.
        hosts: names of the server that requests may have.
    """
    limits = limits or Limits()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        import asyncio

        loading = asyncio.create_task(app.state.thinking.start())
        yield
        loading.cancel()
        await app.state.thinking.close()

    app = FastAPI(
        title="afterstate", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan
    )
    app.state.limits, app.state.visitors = limits, Visitors(folder, limits)
    app.state.thinking = Thinking(limits)
    app.add_exception_handler(Refusal, _refuse)
    app.add_exception_handler(RequestValidationError, _explain)
    _add_pages(app)
    _add_2048(app)
    return Guard(app, hosts, limits, lambda each: app.state.visitors.find(each) is not None)


def _refuse(_: Request, error: Any) -> JSONResponse:
    """Return the answer to a refused request."""
    return JSONResponse({"detail": str(error)}, error.status)


def _explain(_: Request, error: Any) -> JSONResponse:
    """Return the answer to a request that is not valid: which value is wrong."""
    problems = [
        f"{'.'.join(map(str, each['loc'][1:])) or 'body'}: {each['msg']}, got {each['input']!r:.60}"
        for each in error.errors()[:5]
    ]
    return JSONResponse({"detail": "; ".join(problems)}, 422)


def _add_pages(app: FastAPI) -> None:
    """Add the page, its files, and what it needs at the start."""

    @app.get("/")
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/api/me")
    async def me(visitor: Me, request: Request) -> Json:
        state = request.app.state
        game = visitor.games.game_2048
        return {
            "players": choices.listed(),
            "ready": state.thinking.is_ready,
            "seconds": state.limits.seconds,
            "game_2048": None if game is None else game_2048.state(game),
        }

    @app.post("/api/stop")
    async def stop(visitor: Me, request: Request) -> Json:
        return {"stopped": request.app.state.thinking.stop(visitor.key)}

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _add_2048(app: FastAPI) -> None:
    """Add the addresses of 2048."""
    visitors: Visitors = app.state.visitors
    thinking: Thinking = app.state.thinking

    @app.post("/api/2048/new")
    async def new(body: New2048, me: Me) -> Json:
        seed = secrets.randbelow(2**32) if body.seed is None else body.seed
        try:
            start = (
                game_2048.new(seed) if body.board is None else game_2048.set_up(body.board, seed)
            )
        except ValueError as error:
            raise Refusal(422, str(error)) from None
        me.games.game_2048 = start
        visitors.save(me)
        return game_2048.state(start)

    @app.post("/api/2048/move")
    async def move(body: Move, me: Me) -> Json:
        game = _at(me.game, body.turn)
        if not game_2048.state(game)["legal"][body.action]:
            raise Refusal(409, f"action {body.action} moves no tile")
        played = game_2048.play(game, body.action)
        visitors.save(me)
        return played

    @app.post("/api/2048/undo")
    async def undo(body: Turn, me: Me) -> Json:
        game = _at(me.game, body.turn)
        try:
            game_2048.undo(game)
        except ValueError as error:
            raise Refusal(409, str(error)) from None
        visitors.save(me)
        return game_2048.state(game)

    @app.post("/api/2048/hint")
    async def hint(body: Hint, me: Me) -> Json:
        game = me.game
        if game_2048.state(game)["over"]:
            raise Refusal(409, "no move is left")
        turn, board = game.turn, game.position.board
        request = {"kind": "hint", "player": body.player.spec("2048"), "board": board}
        return {"turn": turn, **await thinking.run(me.key, request | {"detail": body.detail})}

    @app.post("/api/2048/run")
    async def run(body: Run, me: Me) -> Json:
        body.check()
        game = _at(me.game, body.turn)
        request = {"kind": "play", "player": body.player.spec("2048"), "until": body.until}
        request |= {"position": game.position.model_dump(), "moves": body.moves}
        request |= {"seed": game.seed, "fresh": game.n_moves == 0}
        answer = await thinking.run(me.key, request)
        game = _at(me.game, body.turn)
        played = [game_2048.play(game, action) for action in answer["actions"]]
        visitors.save(me)
        return {"played": played, "seconds": answer["seconds"]}


def _at(game: game_2048.Game, turn: int) -> game_2048.Game:
    """Return a game; raise Refusal if it is not at this turn, such as after a move elsewhere."""
    if game.turn != turn:
        raise Refusal(409, f"the game is at turn {game.turn}, not {turn}: reload the page")
    return game
