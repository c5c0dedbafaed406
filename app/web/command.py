"""`afterstate web`: serve the page."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import socket
import sys
import threading
import webbrowser
from collections import deque
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from afterstate.commands.options import Web
from afterstate.envs.messages import needs, shown
from afterstate.web.settings import Limits

EXPOSED = """The page is open to everyone who reaches {host}:{port}.
It has no passwords and no encryption: others can read and change what is sent, take over games
by their cookies, and use this machine's processor within the limits. Put it behind a proxy with
TLS and authentication, or in a network that you trust."""


def run(options: Web) -> None:
    """Serve the page until Ctrl-C.

    Raises:
        ImportError: the extra is missing.
        OSError: the address cannot be listened on, or the folder cannot be written.
        ValueError: a wrong option.
    """
    hosts = allowed_hosts(options)
    limits, folder = _limits(options), options.folder or default_folder()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"folder must be a folder, got the file {folder}")
    try:
        import uvicorn

        with _imports():
            from afterstate.web.connections import KEEP_SECONDS, Connection, Server
            from afterstate.web.server import create_app, stop_searches
    except ModuleNotFoundError as error:
        raise ImportError(needs("the page", "fastapi", "uvicorn")) from error
    _log()
    app: Any = create_app(folder, limits, hosts)
    with listen(options.host, options.port) as listener:
        _announce(options, listener.getsockname()[1])
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            forwarded_allow_ips="127.0.0.1",  # a proxy here names its clients
            limit_concurrency=500,
            timeout_keep_alive=KEEP_SECONDS,
            timeout_graceful_shutdown=3,
        )
        Server(config, partial(stop_searches, app.app)).run([listener])


def _log() -> None:
    """Write messages with the time to the standard error stream."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    errors = logging.getLogger("uvicorn.error")
    errors.setLevel(logging.WARNING)
    errors.addFilter(Sparing())


class Sparing(logging.Filter):
    """Passes warnings that strangers cause only so often, and none that advise to install more."""

    _MOST, _SECONDS = 50, 10.0

    def __init__(self) -> None:
        super().__init__()
        self._times: deque[float] = deque(maxlen=self._MOST)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if a message is to be written."""
        if record.levelno > logging.WARNING:
            return True
        is_full = len(self._times) == self._MOST and record.created < self._times[0] + self._SECONDS
        if is_full or "WebSocket library" in record.msg:
            return False
        self._times.append(record.created)
        return True


def _imports() -> Any:
    """Return the context of imports: a process of this command starts again if they compile."""
    from afterstate.web.thinking.memory import without_compiler

    is_own = sys.argv[1:2] == ["web"]
    return without_compiler("AFTERSTATE_WEB_COMPILED") if is_own else nullcontext()


def _announce(options: Web, port: int) -> None:
    """Print the address, and open it in a browser."""
    if not is_loopback(options.host):
        print(EXPOSED.format(host=options.host, port=port), file=sys.stderr, flush=True)
    address = f"http://{_bracketed(options.host)}:{port}/"
    print(f"{address}  (Ctrl-C ends)", flush=True)
    if not options.no_open and is_loopback(options.host):
        threading.Timer(0.5, webbrowser.open, [address]).start()


def _limits(options: Web) -> Limits:
    """Return the limits of the command line.

    Raises:
        ValueError: an option out of range.
    """
    if not 0 < options.seconds <= 600:
        raise ValueError(f"seconds must be > 0 and <= 600, got {options.seconds}")
    if not 1 <= options.searches <= 64:
        raise ValueError(f"searches must be in 1..64, got {options.searches}")
    if not 1 <= options.visitors <= 100_000:
        raise ValueError(f"visitors must be in 1..100000, got {options.visitors}")
    slow = max(1, options.searches * 2)
    return Limits(
        fast=options.searches, slow=slow, seconds=options.seconds, visitors=options.visitors
    )


def allowed_hosts(options: Web) -> frozenset[str]:
    """Return the names by which requests may call the server.

    Raises:
        ValueError: the address is beyond loopback without the flag, or no name is known.
    """
    if not 0 <= options.port < 2**16:
        raise ValueError(f"port must be in 0..65535, got {options.port}")
    names = {_checked_name(name) for name in options.names}
    if is_loopback(options.host):
        return frozenset({"127.0.0.1", "localhost", "::1", options.host.lower()}) | names
    if not options.beyond_loopback:
        raise ValueError(
            f"host must be a loopback address, got {options.host!r}: others could use this "
            "machine; --beyond-loopback allows it"
        )
    if options.host not in ("0.0.0.0", "::"):
        names.add(options.host.lower())
    if not names:
        raise ValueError(f"names must be those that browsers use for {options.host}, got none")
    return frozenset(names)


def _checked_name(name: str) -> str:
    """Return a name as requests have it.

    Raises:
        ValueError: it is none, or has more than the name.
    """
    lower = name.lower()
    if not re.fullmatch(r"[a-z0-9._-]+", lower) and not _is_address(lower):
        raise ValueError(f"names must be host names without scheme and port, got {shown(name)}")
    return lower


def _is_address(text: str) -> bool:
    """Return True if a text is an address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _bracketed(host: str) -> str:
    """Return a host as an address has it."""
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Return True if a name or address is that of this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        OSError: the address is in use or unknown; the message names it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol given, asyncio turns off Nagle's algorithm, which would delay answers.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listener


def default_folder() -> Path:
    """Return the folder of visitors' games."""
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not base.is_absolute():  # the XDG specification ignores it then
        base = Path.home() / ".local" / "state"
    return base / "afterstate" / "web"
