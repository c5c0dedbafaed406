"""Whatever is sent, the page answers or says what is wrong, and plays on."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import mutate
from tests.web.conftest import Server, Visitor

pytestmark = pytest.mark.slow

BOARD = [1, 2, 3, 4, 8, 7, 6, 5, 9, 10, 3, 2, 0, 1, 0, 0]
SEARCH = {"name": "expectimax", "settings": {"depth": 2}}
SAMPLE = {"name": "daihinmin-sample", "settings": {}}

BODIES: dict[str, list[dict[str, Any]]] = {
    "2048/new": [{"seed": 1}, {"seed": 2, "board": BOARD}],
    "2048/move": [{"turn": 0, "action": action} for action in range(4)],
    "2048/undo": [{"turn": 1}],
    "2048/hint": [{"player": SEARCH, "detail": True}, {"player": {"name": "reward"}}],
    "2048/run": [{"turn": 0, "player": SEARCH, "moves": 3, "until": 64}],
    "daihinmin/new": [{"players": [SAMPLE] * n, "seed": 1, "n_games": 2} for n in (4, 5)],
    "daihinmin/watch": [{"name": "heuristic", "seed": 1189918613, "number": n} for n in (1, 40)],
    "daihinmin/play": [{"turn": 0, "play": play} for play in (0, 1, 20)],
    "daihinmin/give": [{"turn": 0, "cards": [3, 52]}],
    "daihinmin/advance": [{"turn": 0}],
    "daihinmin/next": [{"turn": 0}],
    "daihinmin/hint": [{"player": {"name": "daihinmin-mc", "settings": {"playouts": 20}}}],
    "daihinmin/recorded": [{"game": {"hands": [[0], [1], [2], [3], [4]], "events": []}}],
    "learn/resume": [{"seconds": 1, "seed": 1}],
    "learn/play": [{"seconds": 1}],
    "learn/stop": [{}],
    "stop": [{}],
}
"""Bodies of requests that are valid, by address, when they are sent at the right time."""


def damaged(path: str, rng: random.Random) -> bytes:
    """Return the body of a request, in three of four cases damaged."""
    body = json.dumps(rng.choice(BODIES[path])).encode()
    return body if rng.random() < 0.25 else mutate(body, rng)


def assert_answered_or_refused(visitor: Visitor, path: str, body: bytes) -> None:
    """Assert that a request is answered, or refused with a reason."""
    answer = visitor.send(path, content=body, headers={"Content-Type": "application/json"})
    result = answer.json()
    if answer.status_code != 200:
        is_slow = answer.status_code == 503 and "choose a faster player" in result["detail"]
        assert is_slow or 400 <= answer.status_code < 500, (path, body, answer.text)
        assert 0 < len(result["detail"]) < 2_000


@given(requests=st.lists(st.tuples(st.sampled_from([*BODIES]), st.integers(0)), max_size=8))
@settings(max_examples=settings().max_examples // 2)
def test_any_requests_are_answered_or_refused(
    server: Server, requests: list[tuple[str, int]]
) -> None:
    visitor = server.visitor()
    with visitor.client:  # too many connections of one address would be closed
        for path in ("2048/new", "daihinmin/new"):
            visitor.post(path, **BODIES[path][0])
        for path, seed in requests:
            assert_answered_or_refused(visitor, path, damaged(path, random.Random(seed)))
        assert visitor.get("me")["match"]["turn"] >= 0
        start = visitor.post("2048/new", board=BOARD)
        moved = visitor.post("2048/move", turn=start["turn"], action=start["legal"].index(True))
        assert moved["turn"] == start["turn"] + 1
