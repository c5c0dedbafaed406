"""Targets of processes in tests. The module imports little, so that they start soon."""

from __future__ import annotations

import json
import time
from multiprocessing.connection import Connection
from typing import Any


def echo(connection: Connection) -> None:
    """Answer each request with itself."""
    while True:
        try:
            connection.send_bytes(connection.recv_bytes())
        except EOFError:
            return


def sleep(connection: Connection) -> None:
    """Answer each request with itself after the time that it names."""
    while True:
        try:
            request = json.loads(connection.recv_bytes())
        except EOFError:
            return
        time.sleep(request["time"])
        connection.send_bytes(json.dumps(request).encode())


def _allocate(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request for memory, of Python or of torch."""
    if request["torch"]:
        import torch

        return {"n": torch.empty(request["n"], dtype=torch.uint8).numel()}
    return {"n": len(bytearray(request["n"]))}


def allocate(connection: Connection) -> None:
    """Answer requests for memory as the processes that think do."""
    from afterstate.web.thinking import preload, workers

    workers._ANSWERS["allocate"] = _allocate
    preload.think(connection)
