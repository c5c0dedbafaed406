"""The visitors of the page: limits per address, and files that are damaged, old or no files."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")


from afterstate.web import game_2048, game_daihinmin
from afterstate.web.answers import Refusal
from afterstate.web.guard import COOKIE
from afterstate.web.leaderboard import FOLDER
from afterstate.web.server import VIEWS
from afterstate.web.settings import Limits
from afterstate.web.visitors import Visitor, Visitors
from tests.web.conftest import Server

LIMITS = Limits(visitors=5, visitors_of_address=3)


def with_game(visitors: Visitors, address: str) -> tuple[str, Visitor]:
    """Return a new visitor who has begun a game, with the cookie."""
    cookie, visitor = visitors.new(address)
    with visitors.changing(visitor) as games:
        games.game_2048 = game_2048.new(1)
    return cookie, visitor


def files(folder: Path) -> set[str]:
    """Return the names of the visitors' files."""
    return {path.name for path in folder.iterdir()} - {"lock"}


def calls_of(dependant: Any) -> list[Any]:
    """Return the functions that FastAPI calls for a request."""
    return [dependant.call, *(call for each in dependant.dependencies for call in calls_of(each))]


def test_no_part_of_a_request_runs_in_a_thread_beside_others() -> None:
    """Visitors have no lock: in threads, two new ones could forget the same visitor."""
    routes: list[Any] = [each for view in VIEWS for each in view.router.routes]
    of_visitors = [each for each in routes if each.dependant.dependencies]
    for route in of_visitors:
        assert all(map(inspect.iscoroutinefunction, calls_of(route.dependant))), route.path
    assert len(of_visitors) > 15


def test_an_address_forgets_only_its_own_visitors(tmp_path: Path) -> None:
    visitors = Visitors(tmp_path, LIMITS)
    honest, _ = with_game(visitors, "10.0.0.1")
    flood = [with_game(visitors, "10.0.0.2")[0] for _ in range(20)]
    assert visitors.find(honest) is not None
    assert [visitors.find(each) is not None for each in flood] == [False] * 17 + [True] * 3
    newcomer, _ = with_game(visitors, "10.0.0.3")
    assert visitors.find(newcomer) is not None
    assert len(visitors) == len(files(tmp_path)) == 5


def test_a_newcomer_takes_the_place_of_the_one_longest_away(tmp_path: Path) -> None:
    visitors = Visitors(tmp_path, LIMITS)
    cookies = [with_game(visitors, f"10.0.0.{i}")[0] for i in range(6)]
    assert [visitors.find(each) is not None for each in cookies] == [False, *[True] * 5]
    idle, _ = visitors.new("10.0.0.7")
    assert visitors.find(idle) is not None and visitors.find(cookies[1]) is None
    visitors.new("10.0.0.8")
    assert visitors.find(idle) is None, "those without a game go first"


def test_a_forgotten_visitor_leaves_no_file(tmp_path: Path) -> None:
    visitors = Visitors(tmp_path, Limits(visitors=1))
    _, first = with_game(visitors, "10.0.0.1")
    with_game(visitors, "10.0.0.2")
    with pytest.raises(Refusal, match="too many visitors"):
        with visitors.changing(first):
            pass
    assert len(files(tmp_path)) == 1


def test_a_change_that_cannot_be_saved_is_not_made(tmp_path: Path) -> None:
    visitors = Visitors(tmp_path / "state", LIMITS)
    _, visitor = with_game(visitors, "10.0.0.1")
    before = visitor.games.model_copy(deep=True)
    (tmp_path / "state").rename(tmp_path / "moved")
    (tmp_path / "state").write_text("no folder", "utf-8")
    with pytest.raises(Refusal, match="cannot be saved"), visitors.changing(visitor) as games:
        assert games.game_2048 is not None
        game_2048.play(
            games.game_2048, int(np.flatnonzero(game_2048.state(games.game_2048)["legal"])[0])
        )
    assert visitor.games == before
    with pytest.raises(Refusal, match="cannot be saved"), visitors.changing(visitor) as games:
        games.game_2048 = game_2048.new(2)
    assert visitor.games == before
    (tmp_path / "state").unlink()
    (tmp_path / "moved").rename(tmp_path / "state")
    with pytest.raises(ZeroDivisionError), visitors.changing(visitor) as games:
        games.game_2048 = None
        raise ZeroDivisionError
    assert visitor.games == before


def test_games_are_not_saved_in_a_folder_that_lost_its_lock(tmp_path: Path) -> None:
    visitors = Visitors(tmp_path / "state", LIMITS)
    _, visitor = with_game(visitors, "10.0.0.1")
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(Refusal, match="cannot be saved"), visitors.changing(visitor) as games:
        games.game_2048 = game_2048.new(2)
    assert not (tmp_path / "state").exists()


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(NotADirectoryError, match="must be a folder, got a file"):
        Visitors(tmp_path / "state", LIMITS)


def test_a_folder_has_one_page(tmp_path: Path) -> None:
    code = "import sys, pathlib; from afterstate.agents.training.folder import FolderLock; "
    code += "lock = FolderLock(pathlib.Path(sys.argv[1])); print(flush=True); input()"
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline()
        message = f"the page runs already on {tmp_path}: choose another folder with --folder"
        with pytest.raises(ValueError, match=re.escape(message)):
            Visitors(tmp_path, LIMITS)
        other.kill()


def test_games_are_kept_for_the_next_server(tmp_path: Path) -> None:
    visitors = Visitors(tmp_path, LIMITS)
    cookie, visitor = with_game(visitors, "10.0.0.1")
    again = Visitors(tmp_path, LIMITS).find(cookie)
    assert again is not None and again.games == visitor.games


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes and links")
def test_what_is_no_file_of_a_visitor_is_left_out(tmp_path: Path) -> None:
    cookie, _ = with_game(Visitors(tmp_path, LIMITS), "10.0.0.1")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "dangling.json").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "damaged.json").write_text('{"game_2048": 3}')
    (tmp_path / "large.json").write_bytes(b" " * (LIMITS.file + 1))
    (tmp_path / "x.json.999999999.part").write_bytes(b"{}")
    visitors = Visitors(tmp_path, LIMITS)
    assert len(visitors) == 1 and visitors.find(cookie) is not None
    assert not (tmp_path / "x.json.999999999.part").exists()


@pytest.mark.parametrize("stamp", [0, 2**32])
def test_times_of_files_cost_no_games(stamp: float, tmp_path: Path) -> None:
    """Those of a backup that is restored may be any, and those of a wrong clock."""
    first = Visitors(tmp_path, LIMITS)
    cookies = [with_game(first, f"10.0.0.{i}")[0] for i in range(LIMITS.visitors)]
    for path in tmp_path.glob("*.json"):
        os.utime(path, (stamp, stamp))
    again = Visitors(tmp_path, LIMITS)
    here = cookies[0]
    assert len(again) == LIMITS.visitors and again.find(here) is not None
    for _ in range(2):
        with_game(again, "10.0.1.1")
        assert again.find(here) is not None


@pytest.mark.slow
def test_a_visit_renews_the_cookie(server: Server) -> None:
    visitor = server.visitor()
    visitor.post("2048/new")
    first, second = (visitor.client.get("/api/me").headers["set-cookie"] for _ in range(2))
    assert first == second and "Max-Age=2592000" in second
    name = second.partition("=")[0]
    assert name.startswith(COOKIE)
    forgotten = {"Cookie": f"{name}={'x' * 43}"}
    client = server.visitor().client
    assert "set-cookie" not in client.get("/api/me", headers=forgotten).headers
    cookies = client.post("/api/2048/new", json={}, headers=forgotten).headers
    (new,) = cookies.get_list("set-cookie")
    assert new.startswith(name) and "xxx" not in new


PLAYERS = [{"name": "daihinmin-sample"}] * 4


def test_only_what_starts_something_makes_a_visitor(new_client: Callable[..., Any]) -> None:
    client = new_client()
    visitors = client.app.app.state.site.visitors
    for path in ("me", "learn", "daihinmin"):
        client.get(f"/api/{path}")
    for path, body in (("2048/undo", {"turn": 0}), ("2048/hint", {"player": PLAYERS[0]})):
        refused = client.post(f"/api/{path}", json=body)
        assert (refused.status_code, "start one" in refused.text) == (404, True)
    assert len(visitors) == 0 and not client.cookies
    client.post("/api/daihinmin/new", json={"players": PLAYERS})
    assert len(visitors) == 1 and client.cookies


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("2048/new", {"seed": -1}),
        ("2048/new", {"board": [0] * 16}),
        ("daihinmin/new", {"players": [{"name": "nobody"}] * 4}),
        ("daihinmin/watch", {"name": "nobody", "seed": 1, "number": 1}),
        ("learn/start", {"seconds": 1}),
    ],
)
def test_a_visitor_whose_first_request_is_refused_has_one_place(
    new_client: Callable[..., Any], path: str, body: dict[str, Any]
) -> None:
    client = new_client()
    for _ in range(3):
        assert client.post(f"/api/{path}", json=body).status_code >= 400
    assert len(client.app.app.state.site.visitors) == 1


def test_a_game_that_runs_in_another_window_is_not_replaced(
    new_client: Callable[..., Any],
) -> None:
    """A window says which game it shows, -1 for none, or nothing once its visitor has agreed."""
    client = new_client()

    def post(path: str, **body: Any) -> Any:
        return client.post(f"/api/{path}", json=body)

    start = post("2048/new", seed=1, turn=-1).json()
    assert post("2048/new", seed=2, turn=-1).status_code == 200  # the other has not begun
    start = client.get("/api/me").json()["game_2048"]
    post("2048/move", turn=start["turn"], action=start["legal"].index(True))
    for known in (start["turn"], -1):
        refused = post("2048/new", seed=3, turn=known)
        assert (refused.status_code, "another window" in refused.text) == (409, True)
    assert client.get("/api/me").json()["game_2048"]["n_moves"] == 1
    assert post("2048/new", seed=3, turn=start["turn"] + 1).json()["n_moves"] == 0
    assert post("2048/new", seed=4).json()["seed"] == 4


CYCLE = {"name": "heuristic", "seed": 1189918613, "number": 1}
needs_results = pytest.mark.skipif(not FOLDER.exists(), reason="needs the results of a checkout")


@pytest.mark.parametrize(
    ("path", "body"),
    [("new", {"players": PLAYERS}), pytest.param("watch", CYCLE, marks=needs_results)],
)
def test_a_match_that_runs_in_another_window_is_not_replaced(
    new_client: Callable[..., Any], path: str, body: dict[str, Any]
) -> None:
    client = new_client()
    turn = client.post("/api/daihinmin/new", json={"players": PLAYERS, "seed": 1}).json()["turn"]
    visitors = client.app.app.state.site.visitors
    (visitor,) = visitors
    legal = game_daihinmin._legal(game_daihinmin.decode(visitor.match.record))
    with visitors.changing(visitor):
        game_daihinmin.apply(visitor.match, {"play": legal[0]["play"]})
    for known, status in ((turn, 409), (-1, 409), (turn + 1, 200)):
        answer = client.post(f"/api/daihinmin/{path}", json={**body, "turn": known})
        assert answer.status_code == status, known


def test_an_address_leaves_half_of_few_places_to_others(tmp_path: Path) -> None:
    visitors = Visitors(tmp_path, Limits(visitors=4))
    honest = [with_game(visitors, f"10.0.0.{i}")[0] for i in range(2)]
    for _ in range(20):
        with_game(visitors, "10.0.1.1")
    assert all(visitors.find(each) is not None for each in honest)


def test_an_address_keeps_its_limit_after_a_restart(tmp_path: Path) -> None:
    visitors = Visitors(tmp_path, LIMITS)
    cookies = [with_game(visitors, "10.0.0.2")[0] for _ in range(3)]
    again = Visitors(tmp_path, LIMITS)
    for each in cookies:
        assert again.find(each, "10.0.0.2") is not None
    newcomer, _ = with_game(again, "10.0.0.2")
    assert [again.find(each) is not None for each in (*cookies, newcomer)] == [False, *[True] * 3]


@pytest.mark.slow
@pytest.mark.parametrize("n", [5_000, 10_000])
def test_a_new_visitor_takes_no_longer_among_many(tmp_path: Path, n: int) -> None:
    """Also when all places are taken."""
    visitors = Visitors(tmp_path, Limits(visitors=5_000))
    end = time.monotonic() + 30
    for number in range(n):
        visitors.new(f"10.0.{number >> 8}.{number & 255}")
        assert time.monotonic() < end, number
