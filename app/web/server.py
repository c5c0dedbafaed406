"""The application: addresses, and what they do."""

from __future__ import annotations

import secrets
from asyncio import to_thread
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from afterstate.envs.messages import shown
from afterstate.web import choices, game_2048, game_daihinmin
from afterstate.web.game_daihinmin import Match
from afterstate.web.guard import COOKIE, Guard, cookie_of
from afterstate.web.requests import (
    Advice,
    GameName,
    Gift,
    Hint,
    Json,
    Learn,
    Move,
    New2048,
    NewMatch,
    Play,
    PlayGames,
    Recorded,
    Run,
    Turn,
    Watch,
)
from afterstate.web.settings import Limits
from afterstate.web.thinking.learners import Learners
from afterstate.web.thinking.pool import Refusal, Thinking
from afterstate.web.visitors import Visitor, Visitors

Held = TypeVar("Held", game_2048.Game, Match)

STATIC = Path(__file__).parent / "static"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


async def visitor_of(request: Request, response: Response) -> Visitor:
    """Return the visitor of a request, a new one if it has no valid cookie.

    FastAPI calls coroutines one at a time; plain functions it would call in several threads.
    """
    visitors: Visitors = request.app.state.visitors
    visitor = visitors.find(cookie_of(request.headers))
    if visitor is None:
        cookie, visitor = visitors.new(request.client.host if request.client else "")
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

    app = FastAPI(
        title="afterstate", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan
    )
    app.state.limits, app.state.visitors = limits, Visitors(folder, limits)
    app.state.thinking, app.state.learners = Thinking(limits), Learners(limits)
    app.add_exception_handler(Refusal, _refuse)
    app.add_exception_handler(RequestValidationError, _explain)
    _add_pages(app)
    _add_2048(app)
    _add_daihinmin(app)
    _add_leaderboard(app)
    _add_learning(app)
    return Guard(app, hosts, limits, lambda each: app.state.visitors.find(each) is not None)


async def stop_searches(app: FastAPI) -> None:
    """Stop all searches and learners; requests that wait for them are refused."""
    app.state.learners.close()
    await app.state.thinking.close()


def _refuse(_: Request, error: Any) -> JSONResponse:
    """Return the answer to a refused request."""
    return _error(error.status, str(error))


def _error(status: int, text: str) -> JSONResponse:
    """Return an answer that says what is wrong; what cannot be sent of a text is escaped."""
    return JSONResponse({"detail": text.encode("utf-8", "backslashreplace").decode()}, status)


def _explain(_: Request, error: Any) -> JSONResponse:
    """Return the answer to a request that is not valid: which value is wrong."""
    return _error(422, "; ".join(_problem(each) for each in error.errors()[:5]))


def _problem(error: Any) -> str:
    """Return what is wrong with one value of a request."""
    place = ".".join(map(str, error["loc"][1:]))[:100] or "body"
    return f"{place}: {error['msg']}, got {shown(error['input'])}"


def _add_pages(app: FastAPI) -> None:
    """Add the page, its files, and what it needs at the start."""

    @app.get("/")
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/api/me")
    async def me(visitor: Me, request: Request) -> Json:
        state = request.app.state
        game, match = visitor.games.game_2048, visitor.games.match
        return {
            "players": choices.listed(),
            "trained": choices.TRAINED.as_json(),
            "ready": state.thinking.is_ready,
            "thinking": state.thinking.is_running(visitor.key),
            "seconds": state.limits.seconds,
            "game_2048": None if game is None else game_2048.state(game),
            "match": None if match is None else game_daihinmin.state(match, False),
        }

    @app.post("/api/stop")
    async def stop(visitor: Me, request: Request) -> Json:
        return {"stopped": request.app.state.thinking.stop(visitor.key)}

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _add_2048(app: FastAPI) -> None:
    """Add the addresses of 2048."""
    visitors: Visitors = app.state.visitors
    thinking: Thinking = app.state.thinking

    learners: Learners = app.state.learners

    async def ask(me: Visitor, request: Json) -> Json:
        """Return the answer of a player, or of the network that the visitor has trained."""
        is_trained = request["player"]["name"] == choices.TRAINED.name
        return await thinking.run(
            me.key, request, partial(learners.ask, me.key) if is_trained else None
        )

    @app.post("/api/2048/new")
    async def new(body: New2048, me: Me) -> Json:
        seed = secrets.randbelow(2**32) if body.seed is None else body.seed
        try:
            start = (
                game_2048.new(seed) if body.board is None else game_2048.set_up(body.board, seed)
            )
        except ValueError as error:
            raise Refusal(422, str(error)) from None
        with visitors.changing(me) as games:
            games.game_2048 = start
        return game_2048.state(start)

    @app.post("/api/2048/move")
    async def move(body: Move, me: Me) -> Json:
        game = _at(me.game, body.turn)
        if not game_2048.state(game)["legal"][body.action]:
            raise Refusal(409, f"action {body.action} moves no tile")
        with visitors.changing(me):
            return game_2048.play(game, body.action)

    @app.post("/api/2048/undo")
    async def undo(body: Turn, me: Me) -> Json:
        game = _at(me.game, body.turn)
        with visitors.changing(me):
            _checked(game_2048.undo, game)
        return game_2048.state(game)

    @app.post("/api/2048/hint")
    async def hint(body: Hint, me: Me) -> Json:
        game = me.game
        if game_2048.state(game)["over"]:
            raise Refusal(409, "no move is left")
        turn, board = game.turn, game.position.board
        request = {"kind": "hint", "player": body.player.spec("2048"), "board": board}
        answer = await ask(me, request | {"detail": body.detail})
        _unchanged(me.games.game_2048, game, turn)
        return {"turn": turn, **answer}

    @app.post("/api/2048/run")
    async def run(body: Run, me: Me) -> Json:
        body.check()
        game = _at(me.game, body.turn)
        request = {"kind": "play", "player": body.player.spec("2048"), "until": body.until}
        request |= {"position": game.position.model_dump(), "moves": body.moves}
        request |= {"seed": game.seed, "fresh": game.n_moves == 0}
        answer = await ask(me, request)
        _unchanged(me.games.game_2048, game, body.turn)
        with visitors.changing(me):
            played = [game_2048.play(game, action) for action in answer["actions"]]
        return {"played": played, "seconds": answer["seconds"]}


def _add_daihinmin(app: FastAPI) -> None:
    """Add the addresses of Daihinmin."""
    visitors: Visitors = app.state.visitors
    thinking: Thinking = app.state.thinking

    def moved(me: Visitor, move: Json) -> Json:
        """Make a move, and return what happens and the match after it."""
        with visitors.changing(me):
            events = _checked(game_daihinmin.apply, me.match, move)
        return {"events": events, **game_daihinmin.state(me.match, False)}

    @app.post("/api/daihinmin/new")
    async def new(body: NewMatch, me: Me) -> Json:
        seed = secrets.randbelow(2**32) if body.seed is None else body.seed
        with visitors.changing(me) as games:
            games.match = game_daihinmin.new(body.specs(), seed, body.n_games)
        return {"events": me.match.events, **game_daihinmin.state(me.match, False)}

    @app.post("/api/daihinmin/watch")
    async def watch(body: Watch, me: Me) -> Json:
        leaderboard = _leaderboard()
        with _missing_rows(leaderboard, body.name):
            match = await to_thread(leaderboard.match, body.name, body.seed, body.number)
        with visitors.changing(me) as games:
            games.match = match
        return game_daihinmin.state(match, False)

    @app.get("/api/daihinmin")
    async def current(me: Me, reveal: bool = False) -> Json:
        return {"history": me.match.events, **game_daihinmin.state(me.match, reveal)}

    @app.post("/api/daihinmin/play")
    async def play(body: Play, me: Me) -> Json:
        _my_turn(me.match, body.turn)
        return moved(me, {"play": body.play})

    @app.post("/api/daihinmin/give")
    async def give(body: Gift, me: Me) -> Json:
        _my_turn(me.match, body.turn)
        return moved(me, {"gift": sum(1 << card for card in {*body.cards})})

    @app.post("/api/daihinmin/advance")
    async def advance(body: Turn, me: Me) -> Json:
        match = _at(me.match, body.turn)
        player, is_visitor = game_daihinmin.in_turn(match)
        if player < 0 or is_visitor:
            raise Refusal(409, "no other player is in turn")
        request = _request("move", match, match.players[player] or {})
        answer = await thinking.run(me.key, request | {"seed": match.seed + player})
        _unchanged(me.games.match, match, body.turn)
        return moved(me, answer)

    @app.post("/api/daihinmin/next")
    async def next_(body: Turn, me: Me) -> Json:
        match = _at(me.match, body.turn)
        with visitors.changing(me):
            events = _checked(game_daihinmin.begin_next, match)
        return {"events": events, **game_daihinmin.state(match, False)}

    @app.post("/api/daihinmin/hint")
    async def hint(body: Advice, me: Me) -> Json:
        match, spec = me.match, body.player.spec("daihinmin")
        _my_turn(match, match.turn)
        turn = match.turn
        answer = await thinking.run(me.key, _request("advice", match, spec))
        _unchanged(me.games.match, match, turn)
        return {"turn": turn, **answer}

    @app.get("/api/daihinmin/steps")
    async def steps(me: Me) -> Json:
        if None in me.match.players and game_daihinmin.in_turn(me.match)[0] >= 0:
            raise Refusal(409, "the game can be stepped through once it is over")
        result: Json = _checked(game_daihinmin.steps, me.match)
        return result

    @app.post("/api/daihinmin/recorded")
    async def recorded(body: Recorded, me: Me) -> Json:
        try:
            return game_daihinmin.recorded_steps(body.game)
        except ValueError as error:
            raise Refusal(422, str(error)) from None


def _add_leaderboard(app: FastAPI) -> None:
    """Add the addresses of the leaderboard."""

    @app.get("/api/leaderboard/{game}")
    def table(game: GameName) -> Json:
        leaderboard = _leaderboard()
        try:
            result: Json = leaderboard.table(game)
        except OSError:
            raise Refusal(404, leaderboard.MISSING) from None
        return result

    @app.get("/api/leaderboard/{game}/rows")
    def played(game: GameName, name: str, first: Annotated[int, Query(ge=0, le=10**6)] = 0) -> Json:
        leaderboard = _leaderboard()
        with _missing_rows(leaderboard, name):
            result: Json = leaderboard.played(game, name, first)
        return result


@contextmanager
def _missing_rows(leaderboard: Any, name: str) -> Iterator[None]:
    """Refuse a request for rows of a player that are not there."""
    try:
        yield
    except LookupError:
        raise Refusal(404, f"there are no such games of a player {shown(name)}") from None
    except OSError:
        raise Refusal(404, leaderboard.MISSING) from None
    except ValueError as error:
        raise Refusal(422, str(error)) from None


def _leaderboard() -> Any:
    """Return the module of the leaderboard, which needs another extra."""
    try:
        return import_module("afterstate.web.leaderboard")
    except ModuleNotFoundError as error:
        raise Refusal(
            501, f'the leaderboard needs {error.name}: pip install "afterstate[examples]"'
        ) from error


def _add_learning(app: FastAPI) -> None:
    """Add the addresses of the learner."""
    learners: Learners = app.state.learners
    thinking: Thinking = app.state.thinking

    @app.get("/api/learn")
    async def state(me: Me) -> Json:
        return learners.state(me.key)

    @app.post("/api/learn/start")
    async def start(body: Learn, me: Me) -> Json:
        if not thinking.is_ready:
            raise Refusal(503, "the players are being loaded, try again in a moment")
        return await learners.start(me.key, body.seed, body.seconds)

    @app.post("/api/learn/resume")
    async def resume(body: Learn, me: Me) -> Json:
        return learners.resume(me.key, body.seconds)

    @app.post("/api/learn/play")
    async def play(body: PlayGames, me: Me) -> Json:
        request = {"kind": "games", "seconds": body.seconds}
        return await thinking.run(me.key, request, partial(learners.ask, me.key))

    @app.post("/api/learn/stop")
    async def stop(me: Me) -> Json:
        return learners.stop(me.key)


def _request(kind: str, match: Match, spec: Json) -> Json:
    """Return a request to a player in turn."""
    seen = game_daihinmin.encode(game_daihinmin.view_in_turn(match))
    return {"kind": kind, "view": seen, "player": spec, "seed": match.seed}


def _my_turn(match: Match, turn: int) -> None:
    """Raise Refusal unless the visitor is in turn."""
    if not game_daihinmin.in_turn(_at(match, turn))[1]:
        raise Refusal(409, "it is not your turn")


def _checked(action: Callable[..., Any], *args: Any) -> Any:
    """Return the result of an action that the rules may refuse."""
    try:
        return action(*args)
    except ValueError as error:
        raise Refusal(409, str(error)) from None


def _unchanged(now: object, game: Held, turn: int) -> None:
    """Raise Refusal unless a visitor's game is the one it was before a search, and at its turn."""
    if now is not game or game.turn != turn:
        raise Refusal(409, "the game has changed while the player was thinking")


def _at(game: Held, turn: int) -> Held:
    """Return a game; raise Refusal if it is not at this turn, such as after a move elsewhere."""
    if game.turn != turn:
        raise Refusal(
            409, f"the game went on in another window: it is at turn {game.turn}, not {shown(turn)}"
        )
    return game
