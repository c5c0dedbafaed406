"""The leaderboard on the page: its numbers are those of the committed results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from afterstate.leaderboard import games
from tests.web.conftest import Server, Visitor, httpx, loaded

pytest.importorskip("fastapi")

from afterstate.web import choices, leaderboard

pytestmark = pytest.mark.slow

HAS_RESULTS = leaderboard.FOLDER.exists()


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that gives players a minute: each process of a player loads torch, for seconds."""
    with loaded(tmp_path_factory.mktemp("web"), "--seconds", "60") as server:
        yield server


@pytest.mark.skipif(not HAS_RESULTS, reason="needs the results of a checkout")
@pytest.mark.parametrize("game", ["2048", "daihinmin"])
def test_tables_have_all_entries(visitor: Visitor, game: str) -> None:
    results = visitor.get(f"leaderboard/{game}")["results"]
    names = [each.name for each in games.entries(games.OWN) if each.game == game]
    assert sorted(each["name"] for each in results) == sorted(names)
    assert all(each["low"] <= each["mean"] <= each["high"] for each in results)


@pytest.mark.skipif(not HAS_RESULTS, reason="needs the results of a checkout")
@pytest.mark.parametrize("name", ["N-tuple network", "largest reward", "alpha-beta, depth 3"])
def test_a_row_is_replayed_from_its_seed(visitor: Visitor, name: str) -> None:
    replay(visitor, name)


@pytest.mark.skipif(not HAS_RESULTS, reason="needs the results of a checkout")
def test_rows_of_networks_are_replayed(patient: Server) -> None:
    pytest.importorskip("torch")
    for name in ("DQN", "PPO", "policy network, 2 layers"):
        replay(patient.visitor(), name)


def replay(visitor: Visitor, name: str) -> None:
    """Play a row of a player on the page; it must be the same game."""
    table = visitor.get("leaderboard/2048")["results"]
    player = next(each["player"] for each in table if each["name"] == name)
    path = str(httpx.QueryParams(name=name, first=3))
    row = visitor.get(f"leaderboard/2048/rows?{path}")["rows"][0]
    visitor.post("2048/new", seed=row["seed"])
    played: list[Any] = []
    while not played or not played[-1]["over"]:
        body = {"player": player, "moves": 200, "turn": len(played)}
        played += visitor.post("2048/run", **body)["played"]
    last = played[-1]
    assert (last["score"], last["max_tile"]) == (row["score"], row["max_tile"])
    assert len(played) == row["moves"]


@pytest.mark.skipif(not HAS_RESULTS, reason="needs the results of a checkout")
def test_games_of_a_cycle_are_played_again(patient: Server) -> None:
    pytest.importorskip("torch")
    for number in (1, 40):
        play_again(patient.visitor(), number)


def play_again(visitor: Visitor, number: int) -> None:
    """Play a game of the first cycle of a player of Daihinmin; it must be the same one."""
    rows = played(visitor, "sample client", number)
    body = {"name": "sample client", "seed": rows[0]["seed"], "number": number}
    state = visitor.post("daihinmin/watch", **body)
    assert (state["number"], state["n_games"], state["visitor"]) == (number, 100, None)
    assert state["results"] == [row["places"] for row in rows[:-1]]
    while not state["over"]:
        state = visitor.post("daihinmin/advance", turn=state["turn"])
    assert state["results"][-1] == rows[-1]["places"]
    assert sum(state["points"]) == 15 * number
    assert visitor.refused("daihinmin/watch", **{**body, "number": 101})[0] == 422
    assert visitor.refused("daihinmin/watch", **{**body, "seed": 1})[0] == 404


def played(visitor: Visitor, name: str, n: int) -> Any:
    """Return the first rows of a player of Daihinmin."""
    rows: list[Any] = []
    while len(rows) < n:
        path = str(httpx.QueryParams(name=name, first=len(rows)))
        rows += visitor.get(f"leaderboard/daihinmin/rows?{path}")["rows"]
    return rows[:n]


def test_all_players_of_the_leaderboard_but_timed_ones_can_be_chosen() -> None:
    for entry in games.entries(games.OWN):
        if not entry.timed:
            spec = choices.of_player(entry.game, entry.player, entry.settings)
            choice = choices.find(entry.game, spec["name"])
            assert choice.made == entry.player
            assert entry.settings.items() <= {**choice.fixed, **spec["settings"]}.items()
    with pytest.raises(ValueError, match="the page has no player 'expectimax' with"):
        choices.of_player("2048", "expectimax", {"seconds": 1})


def test_unknown_players_and_games_are_not_there(visitor: Visitor) -> None:
    for path in ("chess", "2048/rows?name=none", "2048/rows?name=../../x", "2048/rows"):
        assert visitor.client.get(f"/api/leaderboard/{path}").status_code in (404, 422)


def test_missing_results_are_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    with pytest.raises(OSError):
        leaderboard.table("2048", tmp_path)
    with pytest.raises(FileNotFoundError, match="in the repository only"):
        leaderboard.played("2048", "random", 0, tmp_path)
