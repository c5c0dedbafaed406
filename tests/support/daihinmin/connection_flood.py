"""A flood of connections to a server, as a program of its own: `PORT SECONDS RATE HOST SHARE`.

A share of the connections sends a profile; the others are silent, cut off, or send garbage or a
part of a profile. Each is held for up to a second, so that thousands are open. The program prints
how many were opened.
"""

from __future__ import annotations

import random
import socket
import struct
import sys
import time
from collections import deque
from contextlib import suppress

HELD = 1000
"""Maximum number of connections that are open."""
PROFILE = struct.pack(">16i", 20070, *[0] * 14, 70) + bytes(480 - 64)
"""A profile of the name F."""
BIND_WITHOUT_PORT = 24  # IP_BIND_ADDRESS_NO_PORT: the port is chosen at connect
RESET = struct.pack("ii", 1, 0)  # closing resets the connection, which leaves no port in use


def connect(port: int, host: str) -> socket.socket:
    """Return a connection from an address."""
    connection = socket.socket()
    connection.setsockopt(socket.IPPROTO_IP, BIND_WITHOUT_PORT, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.settimeout(1)
    connection.bind((host, 0))
    connection.connect(("127.0.0.1", port))
    return connection


def misbehave(connection: socket.socket, rng: random.Random, share: float) -> None:
    """Send a whole profile with a probability; or nothing, garbage or a part of it; or hang up."""
    action = 5 if rng.random() < share else rng.randrange(5)
    if action == 1:
        connection.close()
    elif action > 1:
        connection.send((rng.randbytes(480), PROFILE[:240], PROFILE[:479], PROFILE)[action - 2])


def flood(port: int, seconds: float, rate: float, host: str, share: float) -> int:
    """Try to connect at a rate for some time; return how many connections were opened."""
    rng, held, tried, opened = random.Random(1), deque[socket.socket](), 0, 0
    start = time.monotonic()
    while (now := time.monotonic() - start) < seconds:
        if tried >= now * rate:
            time.sleep(0.001)
            continue
        tried += 1
        with suppress(OSError):
            held.append(connect(port, host))
            opened += 1
            misbehave(held[-1], rng, share)
        while len(held) > HELD:
            held.popleft().close()
    for each in held:
        each.close()
    return opened


if __name__ == "__main__":
    port, seconds, rate, host, share = sys.argv[1:]
    print(flood(int(port), float(seconds), float(rate), host, float(share)))
