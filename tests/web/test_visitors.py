"""The visitors of the page: limits per address, and files that are damaged, old or no files."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")


from afterstate.web import game_2048
from afterstate.web.guard import COOKIE
from afterstate.web.server import VIEWS
from afterstate.web.settings import Limits
from afterstate.web.thinking.pool import Refusal
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
    first, second = (visitor.client.get("/api/me").headers["set-cookie"] for _ in range(2))
    assert first == second and "Max-Age=2592000" in second
    forgotten = {"Cookie": f"{COOKIE}={'x' * 43}"}
    cookies = server.visitor().client.get("/api/me", headers=forgotten).headers
    (new,) = cookies.get_list("set-cookie")
    assert new.startswith(COOKIE) and "xxx" not in new
