"""Learning on the page: a network improves, stops, goes on, and plays."""

from __future__ import annotations

import time
from typing import Any

import pytest

from afterstate.web.thinking import learning
from tests.web.conftest import Server, Visitor

pytestmark = pytest.mark.slow


def wait_for(visitor: Visitor, n_points: int) -> Any:
    """Return the state of a learner once it has a number of points or has ended."""
    end = time.monotonic() + 300  # compiles if caches are empty
    while time.monotonic() < end:
        state = visitor.get("learn")
        if len(state["curve"]) >= n_points:
            return state
        time.sleep(0.2)
    raise AssertionError("nothing is learned")


def test_compiling_takes_no_time_of_learning() -> None:
    learner = learning.Session(seed=1)._learner
    assert learner.n_games > 0 and learner.seconds == 0


def test_a_network_learns_stops_goes_on_and_plays(server: Server) -> None:
    visitor, other = server.visitor(), server.visitor()
    assert visitor.get("learn")["exists"] is False
    assert visitor.refused("learn/resume", seconds=5)[0] == 404
    assert visitor.refused("learn/start", seconds=1000)[0] == 422
    visitor.post("2048/new", seed=1)
    trained = {"name": "trained"}
    assert "let one learn" in visitor.refused("2048/hint", player=trained)[1]
    assert visitor.post("learn/start", seconds=30)["running"]
    first = wait_for(visitor, 2)
    assert first["running"] and first["sample"]["score"] > 0
    status, text = other.refused("learn/start", seconds=5)
    assert status == 503 and "networks of other visitors have all places" in text
    other.post("2048/new", seed=1)
    other.post("2048/hint", player={"name": "expectimax"})
    assert not visitor.post("learn/stop")["running"]
    hint = visitor.post("2048/hint", player=trained, detail=True)  # after the step under way
    n = len(visitor.get("learn")["curve"])
    assert len(hint["values"]) == 4 and hint["line"]
    assert visitor.post("2048/run", player=trained, moves=5, turn=0)["played"][-1]["turn"] == 5
    deep = {**trained, "settings": {"depth": 3}}
    assert (
        visitor.post("2048/hint", player=deep)["values"]
        != visitor.post("2048/hint", player=trained)["values"]
    )
    assert visitor.refused("2048/hint", player={**trained, "settings": {"depth": 4}})[0] == 422
    played = visitor.post("learn/play", seconds=1)
    assert visitor.refused("learn/play", seconds=31)[0] == 422
    assert other.refused("learn/play", seconds=1)[0] == 404
    assert 1 <= played["seconds"] < 10 and played["n_games"] > 1
    assert 0 < played["mean_score"] <= played["max_score"]
    assert [*played["reach"].values()] == sorted(played["reach"].values(), reverse=True)
    assert len(visitor.get("learn")["curve"]) == n
    visitor.post("learn/resume", seconds=30)
    curve = wait_for(visitor, n + 3)["curve"]
    assert curve[-1]["mean_score"] > curve[0]["mean_score"]
    visitor.post("learn/stop")
