"""The application: its routes, and the answers to refused requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from afterstate.envs.messages import shown
from afterstate.web.answers import Refusal
from afterstate.web.guard import Guard
from afterstate.web.routes import daihinmin, game_2048, leaderboard, learning, pages
from afterstate.web.routes.site import State, set_cookie
from afterstate.web.settings import Limits
from afterstate.web.thinking.learners import Learners
from afterstate.web.thinking.pool import SearchPool
from afterstate.web.visitors import Visitors

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
VIEWS = (pages, game_2048, daihinmin, leaderboard, learning)
"""The modules with the routes."""


def create_app(
    folder: Path, limits: Limits | None = None, hosts: frozenset[str] = LOOPBACK
) -> Guard:
    """Return the application.

    Args:
        folder: folder of the visitors' files.
        limits: limits of visitors and searches.
        hosts: names of the server that requests may have.
    """
    limits = limits or Limits()
    site = State(limits, Visitors(folder, limits), SearchPool(limits), Learners(limits))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(site.searches.start())
        yield
        loading.cancel()

    app = FastAPI(
        title="afterstate", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan
    )
    app.state.site = site
    app.add_exception_handler(Refusal, _refuse)
    app.add_exception_handler(RequestValidationError, _explain)
    app.add_exception_handler(HTTPException, _explain_body)
    for view in VIEWS:
        app.include_router(view.router)
    app.mount("/static", StaticFiles(directory=pages.STATIC), name="static")
    return Guard(app, hosts, limits, lambda each: site.visitors.find(each) is not None)


async def stop_searches(app: FastAPI) -> None:
    """Stop all searches and learners; requests that wait for them are refused."""
    app.state.site.learners.close()
    await app.state.site.searches.close()


def _refuse(request: Request, error: Any) -> JSONResponse:
    """Return the answer to a refused request."""
    return _error(request, error.status, str(error))


def _error(request: Request, status: int, text: str) -> JSONResponse:
    """Return an answer that says what is wrong; what cannot be sent of a text is escaped.

    A visitor who is new keeps the cookie, so that the next request does not make another one.
    """
    content = {"detail": text.encode("utf-8", "backslashreplace").decode()}
    answer = JSONResponse(content, status)
    if hasattr(request.state, "new_cookie"):
        set_cookie(request, answer, request.state.new_cookie)
    return answer


def _explain(request: Request, error: Any) -> JSONResponse:
    """Return the answer to a request that is not valid: which value is wrong."""
    return _error(request, 422, "; ".join(_problem(each) for each in error.errors()[:5]))


async def _explain_body(request: Request, error: Any) -> Response:
    """Return the answer to a request whose body Python does not read, or FastAPI's to another."""
    if error.status_code != 400:
        return await http_exception_handler(request, error)
    text = "body must be JSON without numbers of thousands of digits and not nested that deep"
    return _error(request, 400, text)


def _problem(error: Any) -> str:
    """Return what is wrong with one value of a request."""
    if error["type"] == "json_invalid":
        return f"body must be JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
    place = ".".join(map(str, error["loc"][1:]))[:100] or "body"
    return f"{place}: {error['msg']}, got {shown(error['input'])}"
