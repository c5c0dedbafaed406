"""The page under load: many visitors at once, without an error."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.speed.web import Args, load
from tests.web.conftest import Server

pytestmark = pytest.mark.slow


def test_fifty_visitors_play_without_an_error(server: Server) -> None:
    latencies = asyncio.run(load(server.address, Args(seconds=6.0, runs=1, run_moves=100)))
    assert set(latencies) <= {"move", "hint by 2-ply", "new game", "many moves"}
    assert len(latencies["move"]) > 20 and latencies["hint by 2-ply"] and latencies["many moves"]
