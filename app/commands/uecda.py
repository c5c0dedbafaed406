"""`afterstate serve` and `afterstate join`: server and client of the competition's protocol."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from pathlib import Path
from typing import Any, cast

import numpy as np

from afterstate.agents.config import MAX_SECONDS
from afterstate.commands.options import Join, Serve
from afterstate.commands.players import player_daihinmin
from afterstate.envs.commands import code_of, print_error
from afterstate.envs.daihinmin.rules import N_PLAYERS
from afterstate.envs.daihinmin.uecda.client import play_match
from afterstate.envs.daihinmin.uecda.guarded_player import PlayerError
from afterstate.envs.daihinmin.uecda.server import Server
from afterstate.envs.daihinmin.uecda.settings import ServerSettings
from afterstate.envs.daihinmin.uecda.tables import MAX_SENT_NAME, ProtocolError
from afterstate.envs.messages import named, shown


def serve(options: Serve) -> int:
    """Serve matches; return 0 after whole ones, 130 after Ctrl-C, otherwise 1.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a wrong option.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    server = _server(options)
    code = _run(server)
    if server.games:
        _print_standings(server)
    return code


def _run(server: Server) -> int:
    """Play all matches and return the exit code."""
    try:
        asyncio.run(_until_sigterm(server))
    except (socket.gaierror, UnicodeError) as error:
        raise ValueError(_unknown_host(server.settings.host, error)) from error
    except OSError as error:
        print_error(error)
        return code_of(error) if error.filename else 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    return int(server.n_cut_short > 0)


async def _until_sigterm(server: Server) -> None:
    """Play all matches, or until SIGTERM, also where a shell lets the server ignore Ctrl-C."""
    loop, task = asyncio.get_running_loop(), cast("asyncio.Task[None]", asyncio.current_task())

    def cancel(number: int, frame: Any) -> None:
        loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGTERM, cancel)
    try:
        await server.run()
    finally:
        signal.signal(signal.SIGTERM, before)


def _server(options: Serve) -> Server:
    """Return the server of a command line."""
    settings = {name: getattr(options, name) for name in ServerSettings.__dataclass_fields__}
    if options.log is not None:
        now = time.strftime("%Y%m%d%H%M%S")
        settings["log"] = Path(str(options.log).replace("{time}", now))
    lost = [options.replacement] * (N_PLAYERS - len(options.seats)) if options.replacement else []
    rng = np.random.default_rng(None if options.seed is None else options.seed % 2**64)
    seeds = iter(rng.integers(2**63, size=len(options.seats) + len(lost)).tolist())
    with named("seats"):
        built_in = [(name, player_daihinmin(name, next(seeds))) for name in options.seats]
    with named("replacement"):
        replacements = [(name, player_daihinmin(name, next(seeds))) for name in lost]
        if options.replacement and not lost:
            player_daihinmin(options.replacement)
    return Server(ServerSettings(**settings), built_in, replacements)


def _print_standings(server: Server) -> None:
    """Print the number of games and the standings, best player first."""
    if server.settings.matches != 1:
        print(f"{server.matches:,} matches, the last one:")
    print(f"{server.games:,} of {server.settings.games:,} games")
    scores = enumerate(server.standings())
    for number, (name, points) in sorted(scores, key=lambda score: -score[1].points):
        print(f"{points:7,} points  player {number}  {name}")


def join(options: Join) -> int:
    """Play a match on a server; return 0 after a whole one, 130 after Ctrl-C, otherwise 1.

    Raises:
        OSError: the player's file cannot be read.
        ValueError: a wrong option, or a host that is not known.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    _check(options)
    player = player_daihinmin(options.player)
    address, name = (options.host, options.port), options.name or options.player
    try:
        result = play_match(address, player, name, options.silence_seconds)
    except ConnectionRefusedError:
        print_error(f"no server listens on {options.host}:{options.port}")
        return 1
    except (socket.gaierror, UnicodeError) as error:
        raise ValueError(_unknown_host(options.host, error)) from error
    except (OSError, PlayerError, ProtocolError) as error:
        print_error(error)
        return 1
    except KeyboardInterrupt:
        return 130
    print(f"player {result.player}: {result.games} games, points {result.points}")
    return 0


def _unknown_host(host: str, error: Exception) -> str:
    """Return that a host has no address."""
    reason = getattr(error, "strerror", None) or error
    return f"host must be a known address, got {shown(host)}: {reason}"


def _check(options: Join) -> None:
    """Raise ValueError for a wrong port or time limit."""
    if not 0 < options.port < 2**16:
        raise ValueError(f"port must be in 1..65535, got {options.port}")
    if options.name and len(options.name) > MAX_SENT_NAME:
        raise ValueError(f"name must have at most {MAX_SENT_NAME} characters, got {options.name!r}")
    if not 0 < options.silence_seconds <= MAX_SECONDS:
        bounds, given = f"> 0 and <= {MAX_SECONDS:g}", options.silence_seconds
        raise ValueError(f"silence_seconds must be {bounds}, got {given}")
