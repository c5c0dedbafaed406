"""A server that runs during the tests, and visitors who call it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.browsers import PATIENCE, running

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")


class Visitor:
    """A client with cookies of its own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.client = httpx.Client(base_url=address, timeout=60)

    def get(self, path: str) -> Any:
        """Return the JSON of an address, which must be there."""
        answer = self.send(path, "GET")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, **body: Any) -> Any:
        """Return the JSON of an accepted request."""
        answer = self.send(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send(self, path: str, method: str = "POST", **request: Any) -> Any:
        """Return the answer to a request, sent again while there are too many of them."""
        while True:
            answer = self.client.request(method, f"/api/{path}", **request)
            if answer.status_code != 429 or "too many requests" not in answer.text:
                return answer
            time.sleep(0.5)

    def refused(self, path: str, **body: Any) -> tuple[int, str]:
        """Return status and message of a refused request."""
        answer = self.send(path, json=body)
        assert answer.status_code >= 400, answer.text
        return answer.status_code, answer.json()["detail"]

    def wait_until_thinking(self) -> None:
        """Wait until a search of the visitor runs."""
        end = time.monotonic() + 30
        while not self.client.get("/api/me").json().get("thinking"):
            assert time.monotonic() < end
            time.sleep(0.02)


class Client:
    """A client of an application within the process, with cookies of its own."""

    def __init__(self, app: Any, address: str = "http://127.0.0.1:8048") -> None:
        self.app, self.address = app, address
        self.cookies = httpx.Cookies()

    def get(self, path: str, **request: Any) -> Any:
        """Return the answer to a request."""
        return asyncio.run(self._send("GET", path, request))

    def post(self, path: str, **request: Any) -> Any:
        """Return the answer to a request."""
        return asyncio.run(self._send("POST", path, request))

    async def _send(self, method: str, path: str, request: Any) -> Any:
        options = {"transport": httpx.ASGITransport(self.app), "base_url": self.address}
        async with httpx.AsyncClient(cookies=self.cookies, **options) as client:
            answer = await client.request(method, path, **request)
        self.cookies = client.cookies
        return answer


class Server:
    """The command `afterstate web` in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.visitors: list[Visitor] = []
        self.start()

    def restart(self) -> None:
        """Start the process again, at the same port."""
        self.start(httpx.URL(self.address).port)

    def start(self, port: int = 0) -> None:
        """Start the process."""
        command = [sys.executable, "-m", "afterstate", "web", "--port", str(port), "--no-open"]
        command += ["--folder", str(self.folder), *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[0]

    def load(self) -> None:
        """Wait until the players are loaded."""
        visitor, end = self.visitor(), time.monotonic() + 600  # compiles if caches are empty
        while time.monotonic() < end:
            with contextlib.suppress(httpx.TransportError):
                if visitor.get("me")["ready"]:
                    return
            time.sleep(0.2)
        raise AssertionError("the server does not become ready")

    def stop(self, how: int = signal.SIGINT) -> int:
        """Stop the process and return its exit code."""
        self.process.send_signal(how)
        code = self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def visitor(self) -> Visitor:
        """Return a new visitor."""
        self.visitors.append(Visitor(self.address))
        return self.visitors[-1]

    def end(self) -> None:
        """Stop the process, if it runs, and close all clients."""
        if self.process.poll() is None:
            self.stop()
        for visitor in self.visitors:
            visitor.client.close()


@pytest.fixture
def new_client(tmp_path: Path) -> Callable[..., Any]:
    """Clients of one server within the process, whose players are not loaded."""
    from afterstate.web.server import create_app

    return partial(Client, create_app(tmp_path / "state"))


@contextlib.contextmanager
def loaded(folder: Path, *options: str) -> Iterator[Server]:
    """A server whose players are loaded, stopped at the end."""
    server = Server(folder, *options)
    try:
        server.load()
        yield server
    finally:
        server.end()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all tests share."""
    with loaded(tmp_path_factory.mktemp("web"), "--seconds", "8") as server:
        yield server


@pytest.fixture
def visitor(server: Server) -> Visitor:
    """A new visitor of the shared server."""
    return server.visitor()


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Servers that a test starts, stopped at its end."""
    started: list[Server] = []

    def start(*options: str) -> Server:
        started.append(Server(tmp_path / "state", *options))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless browser."""
    yield from running()


@pytest.fixture
def open_page(browser: Any, server: Server) -> Iterator[Callable[..., Any]]:
    """Opens pages of visitors of their own; errors in their consoles fail the test."""
    errors: list[str] = []
    contexts = []

    def opened(view: str, address: str = server.address, **options: Any) -> Any:
        contexts.append(browser.new_context(**options))
        # Interception that a test turns on later would miss requests that follow at once.
        contexts[-1].route("**/no-such-address", lambda route: route.abort())
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda text: errors.append(text.text) if is_error(text) else None)
        page.goto(f"{address}#{view}")
        page.wait_for_selector(f"body[data-ready='{view.partition('/')[0]}']")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert errors == []


def is_error(text: Any) -> bool:
    """Return True for errors but those of refused requests, which the page shows."""
    return text.type == "error" and "Failed to load resource" not in text.text
