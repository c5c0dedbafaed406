"""Requests from elsewhere, too large or too many, and options of the command."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("uvicorn")

import uvicorn

from afterstate.__main__ import main
from afterstate.commands.options import Web
from afterstate.web import connections
from afterstate.web.guard import COOKIE, Guard
from afterstate.web.settings import Limits
from tests.web.conftest import Server, Visitor, httpx

pytestmark = pytest.mark.slow

MOVE = "/api/2048/new"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:80"}, 421),
        ({"Host": "[::1]evil.example"}, 421),
        ({"Host": "[::1"}, 421),
        ({"Host": "localhost:80:80"}, 421),
        ({"Host": "localhost:evil"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_requests_from_elsewhere_are_refused(
    visitor: Visitor, headers: dict[str, str], status: int
) -> None:
    headers = {"Content-Type": "application/json", **headers}
    answer = visitor.client.post(MOVE, content=b"{}", headers=headers)
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers


def test_own_requests_are_accepted(visitor: Visitor) -> None:
    for origin in (visitor.address, visitor.address.replace("http:", "https:")):
        headers = {"Origin": origin.rstrip("/"), "Sec-Fetch-Site": "same-origin"}
        assert visitor.client.post(MOVE, json={}, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 422),
        (b"[]", 422),
        (b"null", 422),
        (b'{"\\ud800": 1}', 422),
        *((content, 400) for content in (b"[" * 100_000, b"1" * 5_000)),
        (b"x" * 300_000, 413),
    ],
)
def test_bodies_must_be_small_objects(visitor: Visitor, content: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json"}
    answer = visitor.client.post(MOVE, content=content, headers=headers)
    assert answer.status_code == status and answer.json()["detail"]
    assert status != 400 or answer.json()["detail"].startswith("body must be JSON without")


def test_other_methods_and_addresses_are_refused(visitor: Visitor) -> None:
    assert visitor.client.delete(MOVE).status_code == 405
    assert visitor.client.get("/api/none").status_code == 404
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/docs", "/openapi.json"):
        assert visitor.client.get(path).status_code in (404, 405)


def test_every_answer_has_the_headers(visitor: Visitor) -> None:
    for path in ("/", "/static/main.js", "/api/me", "/api/none"):
        headers = visitor.client.get(path).headers
        assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    cookie = httpx.post(visitor.address + "api/2048/new", json={}).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict"} <= {each.strip() for each in cookie.split(";")}


def test_a_link_from_another_site_makes_no_visitor(new_client: Callable[..., Any]) -> None:
    """Browsers send no cookie with it, and keep a new one instead of that which they have."""
    client = new_client()
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    for headers, status in ((link, 403), ({}, 200)):
        answers = [client.get(path, headers=headers) for path in ("/", "/api/me", "/api/learn")]
        assert [each.status_code for each in answers] == [200, status, status]
        assert not any("set-cookie" in each.headers for each in answers)


OTHERS = ['prefs={"theme":"dark"}', "flag", "a=b c", "na/me=1", "x=" + "y" * 4_100]


@pytest.mark.parametrize("other", OTHERS)
def test_cookies_of_other_applications_hide_no_visitor(
    new_client: Callable[..., Any], other: str
) -> None:
    client = new_client()
    game = client.post(MOVE, json={}).json()
    ((name, value),) = client.cookies.items()
    client.cookies.clear()
    for cookies in (
        f"{other}; {name}={value}",
        f"{name}={value}; {other}",
        f"x{name}=1; {name}={value}",
    ):
        assert client.get("/api/me", headers={"Cookie": cookies}).json()["game_2048"] == game


def test_servers_of_two_ports_have_cookies_of_their_own(new_client: Callable[..., Any]) -> None:
    """Browsers send the cookies of all ports of a machine to each of them."""
    addresses = [f"http://127.0.0.1{port}" for port in (":8048", ":8049", "")]
    clients = [new_client(each) for each in addresses]
    games = [each.post(MOVE, json={"seed": n}).json() for n, each in enumerate(clients)]
    jar = [item for each in clients for item in each.cookies.items()]
    names = [name for name, _ in jar]
    assert names == [f"{COOKIE}_8048", f"{COOKIE}_8049", COOKIE]
    header = "; ".join(f"{name}={value}" for name, value in jar)
    for each, game in zip(clients, games, strict=True):
        each.cookies.clear()
        assert each.get("/api/me", headers={"Cookie": header}).json()["game_2048"] == game


def test_a_head_is_answered_like_a_get_without_its_body(visitor: Visitor) -> None:
    for path in ("/", "/api/me", "/static/main.js", "/api/none"):
        head, got = visitor.client.head(path), visitor.client.get(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers["content-length"] == got.headers["content-length"]


def test_too_many_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 may come at once, and 50 a second after that, from each visitor and other address."""
    now = 1000.0
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("afterstate.web.guard.time", clock)
    statuses: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Any:
        raise AssertionError("the guard reads nothing")

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    def accepted(n: int, client: str, cookie: str = "") -> int:
        """Return how many of some requests are accepted."""
        headers = [(b"host", b"localhost"), (b"cookie", f"{COOKIE}={cookie}".encode())]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
        statuses.clear()

        async def request() -> None:
            for _ in range(n):
                await guard(scope | {"client": (client, 1)}, receive, send)

        asyncio.run(request())
        assert set(statuses) <= {200, 429} and len(statuses) == n
        return statuses.count(200)

    guard = Guard(app, frozenset({"localhost"}), Limits(), lambda cookie: cookie in ("a", "b"))
    assert accepted(250, "127.0.0.1", "a") == 200
    assert accepted(250, "127.0.0.1", "b") == 200
    assert accepted(150, "127.0.0.1", "made up") + accepted(150, "127.0.0.1") == 200
    assert accepted(10, "127.0.0.2") == 10
    now += 1.0
    assert accepted(100, "127.0.0.1", "a") == 50


OPEN = ["--host", "0.0.0.0", "--beyond-loopback"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "--beyond-loopback allows it"),
        (["--host", "192.0.2.1"], "host must be a loopback address, got '192.0.2.1'"),
        (OPEN, "names must be those that browsers use"),
        ([*OPEN, "--names", "a.b:80"], "names must be host names"),
        ([*OPEN, "--names", "http://a.b"], "got 'http://a.b'"),
        ([*OPEN, "--names", "*"], "got '*'"),
        ([*OPEN, "--names", ""], "got ''"),
        (["--names", "a b"], "got 'a b'"),
        (["--port", "70000"], "port must be in 0..65535"),
        (["--seconds", "0"], "seconds must be > 0"),
        (["--searches", "0"], "searches must be in 1..64"),
        (["--visitors", "0"], "visitors must be in 1..100000"),
    ],
)
def test_wrong_options_are_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["web", "--no-open", *options])
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_silent_connections_keep_nobody_away(server: Server) -> None:
    """600 of them are open, and half a header is as silent as none."""
    port = httpx.URL(server.address).port
    assert port is not None
    opened = []
    try:
        for n in range(600):
            opened.append(socket.socket())
            opened[-1].bind(("127.0.0.2", 0))
            opened[-1].connect(("127.0.0.1", port))
            if n % 2:
                opened[-1].send(b"GET / HTTP/1.1\r\nHost: ")
        visitor = server.visitor()
        assert visitor.client.get("/api/me").status_code == 200
        kept = opened[:100]
        for each in kept:
            each.settimeout(30)
            assert each.recv(1) == b""  # the server closes them
        assert visitor.client.get("/api/me").status_code == 200
    finally:
        for each in opened:
            each.close()


async def large(scope: Any, receive: Any, send: Any) -> None:
    """Answer with more than the system keeps for a client that does not read."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": bytes(1 << 26)})


def test_a_client_that_does_not_read_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)

    async def ask() -> None:
        config = uvicorn.Config(large, port=0, http=connections.Connection, lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.05)
        _, writer = await asyncio.open_connection(*server.servers[0].sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        transport: Any = writer.transport
        transport.pause_reading()
        while not server.server_state.total_requests:
            await asyncio.sleep(0.05)
        start = time.monotonic()
        while server.server_state.connections:
            assert time.monotonic() < start + 10
            await asyncio.sleep(0.05)
        transport.abort()
        server.should_exit = True
        await serving

    asyncio.run(ask())


def connection(address: str, waits_since: float | None) -> Any:
    """Return a connection that notes in its transport when it is closed."""
    closed = SimpleNamespace(is_closed=False)
    transport: Any = SimpleNamespace(
        is_closing=lambda: closed.is_closed,
        close=lambda: setattr(closed, "is_closed", True),
    )
    made = connections.Connection.__new__(connections.Connection)
    made.client, made.transport, made.waits_since = (address, 1), transport, waits_since
    return made


def test_of_too_many_connections_the_longest_idle_of_an_address_with_most_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MAX_OPEN", 4)
    many = [connection("192.0.2.1", since) for since in (None, 5.0, 3.0, 4.0)]
    new = connection("192.0.2.2", 1.0)
    for each in (*many, new):
        each.connections = {*many, new}
    new._make_room()
    closed = [each.transport.is_closing() for each in (*many, new)]
    assert closed == [False, False, True, False, False]
    new._make_room()  # there is room now
    assert sum(each.transport.is_closing() for each in many) == 1


def test_warnings_that_strangers_cause_are_bounded() -> None:
    from afterstate.web.command import Sparing

    sparing, now = Sparing(), 1000.0

    def is_written(text: str, level: int = logging.WARNING, seconds: float = 0.0) -> bool:
        record = logging.LogRecord("", level, "", 0, text, (), None)
        record.created = now + seconds
        return sparing.filter(record)

    assert not is_written("No supported WebSocket library detected.")
    assert sum(is_written("Invalid HTTP request received.") for _ in range(90)) == 50
    assert is_written("Traceback", logging.ERROR)
    assert not is_written("Exceeded concurrency limit.", seconds=9)
    assert is_written("Exceeded concurrency limit.", seconds=10)


def test_a_port_in_use_is_reported(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    port = str(httpx.URL(server.address).port)
    with pytest.raises(SystemExit):
        main(["web", "--no-open", "--port", port, "--folder", str(tmp_path)])
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_the_page_is_small_and_loads_nothing_from_outside(visitor: Visitor) -> None:
    from afterstate.web.routes.pages import STATIC

    files = [path for path in STATIC.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 300_000
    for path in files:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        text = text.replace("https://github.com/afterstate/afterstate/", "")  # links to follow
        assert "http:" not in text and "https:" not in text
        assert "eval(" not in text and "innerHTML" not in text


def test_names_beyond_loopback_are_those_given() -> None:
    from afterstate.web.command import allowed_hosts

    options: dict[str, Any] = {"beyond_loopback": True, "names": ("Play.Example",)}
    assert allowed_hosts(Web(host="0.0.0.0", **options)) == {"play.example"}
    names = ("192.0.2.7", "2001:db8::1")
    assert allowed_hosts(Web(host="::", beyond_loopback=True, names=names)) == set(names)
    assert allowed_hosts(Web(host="192.0.2.1", beyond_loopback=True)) == {"192.0.2.1"}
    assert "localhost" in allowed_hosts(Web())
    assert {"localhost", "play.example"} <= allowed_hosts(Web(names=("Play.Example",)))  # a proxy


@pytest.mark.parametrize("variable", ["", "relative", "/absolute"])
def test_the_folder_of_games_is_absolute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    from afterstate.web.command import default_folder

    monkeypatch.setenv("XDG_STATE_HOME", variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    base = Path(variable) if variable.startswith("/") else tmp_path / ".local" / "state"
    assert default_folder() == base / "afterstate" / "web"


BROKEN = (
    b"POST /api/2048/new HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_a_broken_body_is_refused_in_one_line(
    new_server: Callable[..., Server], capfd: pytest.CaptureFixture[str], seconds: float
) -> None:
    """Also if it comes after the answer to its head."""
    server = new_server()
    address = httpx.URL(server.address)
    for _ in range(3):
        with socket.create_connection((address.host, address.port or 0), timeout=10) as client:
            client.send(BROKEN)
            time.sleep(seconds)
            client.send(b"zz\r\n{}\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 4")
    assert server.stop() == 130
    err = capfd.readouterr().err
    assert "Traceback" not in err and err.count("Invalid HTTP request") <= 3
