"""Checks of every request before it is routed, and the headers of every answer.

The page is meant for its own origin only: requests that name another host (DNS rebinding) or come
from another origin (cross-site requests) are refused, and so are large bodies and too many
requests. Nothing is encrypted and there are no passwords.
"""

from __future__ import annotations

import json
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from hashlib import sha256
from typing import Any

from afterstate.web.settings import Limits

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "afterstate_visitor"
"""Name of the visitor's cookie, without the port (see `cookie_name`)."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Headers of every answer."""

_MAX_BUCKETS = 10_000


class Guard:
    """The application with its requests checked.

    Args:
        app: the application.
        hosts: names of this server, lower case, without ports.
        limits: limits of bodies and requests.
        is_known: returns True for the cookie of a visitor. Requests with other cookies count for
            their address.
    """

    def __init__(
        self, app: App, hosts: frozenset[str], limits: Limits, is_known: Callable[[str], bool]
    ) -> None:
        self.app, self._hosts, self._limits = app, hosts, limits
        self._is_known = is_known
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, _with_headers(scope, send))

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        problem = self._host_problem(scope, headers) or self._body_problem(scope, headers)
        if problem is None and not self._has_budget(self._client(scope, headers)):
            problem = 429, "too many requests, wait a moment"
        if problem is None:
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            await self.app({**scope, "method": method}, receive, send)
            return
        status, text = problem
        body = json.dumps({"detail": text}).encode()
        kind = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": status, "headers": kind})
        await send({"type": "http.response.body", "body": body})

    def _host_problem(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return status and message if a request is for another host or from another origin.

        Links from other sites may lead to the page, but not to the API.
        """
        host = headers.get("host", "")
        if _name(host) not in self._hosts:
            return 421, f"this server is not {host!r:.80}"
        origin = headers.get("origin")
        if origin not in (None, f"http://{host}", f"https://{host}"):  # https: by a proxy
            return 403, "requests from other origins are refused"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            is_link = headers.get("sec-fetch-mode") == "navigate" and not _is_api(scope)
            return None if is_link else (403, "requests from other sites are refused")
        return None

    def _body_problem(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return status and message if a request has another method or a wrong body."""
        if scope["method"] in ("GET", "HEAD"):
            return None
        if scope["method"] != "POST":
            return 405, f"method must be GET, HEAD or POST, got {scope['method']!r:.20}"
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or "transfer-encoding" in headers:
            return 411, "a request must have a content-length"
        if len(length) > 12 or int(length) > self._limits.body:
            return 413, f"a request must have at most {self._limits.body:,} bytes"
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return 415, "a request must be application/json"
        return None

    def _client(self, scope: Scope, headers: Mapping[str, str]) -> str:
        """Return who a request counts for: a visitor, or an address."""
        cookie = cookie_of(headers)
        if cookie is not None and self._is_known(cookie):
            return sha256(cookie.encode()).hexdigest()
        return scope["client"][0] if scope.get("client") else ""

    def _has_budget(self, client: str) -> bool:
        """Count a request of a client; return False if there are too many."""
        now = time.monotonic()
        tokens, last = self._buckets.pop(client, (float(self._limits.burst), now))
        tokens = min(self._limits.burst, tokens + (now - last) * self._limits.requests_per_second)
        self._buckets[client] = (max(0.0, tokens - 1), now)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return tokens >= 1


def _name(host: str) -> str:
    """Return the name in a Host header, lower case, without port and brackets, or an empty text."""
    parts = re.fullmatch(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+))(?::\d*)?", host.lower())
    return (parts[1] or parts[2]) if parts else ""


def cookie_of(headers: Mapping[str, str]) -> str | None:
    """Return the visitor's cookie in the headers of a request, whatever other cookies are there."""
    name = cookie_name(headers.get("host", ""))
    cookie = re.search(rf"(?:^|;)\s*{name}=([\w-]+)\s*(?:;|$)", headers.get("cookie", ""), re.ASCII)
    return cookie[1] if cookie else None


def cookie_name(host: str) -> str:
    """Return the name of the visitor's cookie for a Host header, with its port if it has one.

    Browsers send the cookies of one port to all ports of a machine.
    """
    port = re.search(r":([0-9]+)$", host)
    return f"{COOKIE}_{port[1]}" if port else COOKIE


def _is_api(scope: Scope) -> bool:
    """Return True for a request to the API."""
    return bool(scope["path"].startswith("/api/"))


def _with_headers(scope: Scope, send: Send) -> Send:
    """Return `send` with the headers added that every answer has."""
    more = HEADERS | {"Cache-Control": "no-store" if _is_api(scope) else "no-cache"}
    added = [(name.lower().encode(), value.encode()) for name, value in more.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return sending
