"""The view of the leaderboard in Chromium: replays, the matches of its rows, narrow windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.browsers import needs_browser
from tests.web.browser.test_views import answer_dialogs, me, press_a_legal_arrow, start_of_match

sync_api = pytest.importorskip("playwright.sync_api")
leaderboard = pytest.importorskip("afterstate.web.leaderboard")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not leaderboard.FOLDER.exists(), reason="needs results of a checkout"),
    *needs_browser,
]

Open = Callable[..., Any]


def test_a_click_watches_a_player_of_daihinmin_at_once(open_page: Open) -> None:
    page = open_page("leaderboard")
    page.get_by_role("button", name="Watch sample client").click()
    page.wait_for_selector("text=Game 1 of 100")
    sync_api.expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert page.url.endswith("#daihinmin")


def test_a_replay_of_daihinmin_is_compared_with_its_row(open_page: Open) -> None:
    page = open_page("daihinmin")
    page.get_by_label("Speed").select_option("0")
    page.locator("nav a", has_text="Leaderboard").click()
    page.get_by_role("button", name="Watch sample client").click()
    page.wait_for_selector("text=Places on the leaderboard in game 1:", timeout=60_000)
    assert ", the same here." in page.locator("body").inner_text()


def test_the_focus_follows_to_the_games_of_a_player(open_page: Open) -> None:
    page = open_page("leaderboard")
    page.get_by_role("button", name="Games of largest reward").click()
    focused = page.locator(":focus")
    sync_api.expect(focused).to_have_text("Games of largest reward")
    page.get_by_role("button", name="Later").click()
    page.wait_for_selector("text=games 31 to")
    sync_api.expect(focused).to_have_text("Games of largest reward")


def delay_an_answer(page: Any, address: str) -> None:
    """Let the next answer from an address take half a second."""

    def delay(route: Any) -> None:
        page.wait_for_timeout(500)
        route.continue_()

    page.route(address, delay, times=1)


def test_only_the_games_that_were_asked_for_last_are_shown(open_page: Open) -> None:
    page = open_page("leaderboard")
    delay_an_answer(page, "**/rows?name=largest%20reward&**")
    page.get_by_role("button", name="Games of largest reward").click()
    page.get_by_role("button", name="Games of random").first.click()
    page.wait_for_timeout(1000)
    sync_api.expect(page.get_by_role("heading", name="Games of")).to_have_text("Games of random")


def test_the_games_of_a_player_are_there_again_on_the_way_back(open_page: Open) -> None:
    page = open_page("leaderboard")
    page.get_by_role("button", name="Games of largest reward").click()
    page.get_by_role("button", name="Later").click()
    page.wait_for_selector("text=games 31 to")
    page.get_by_role("link", name="Learn").click()
    page.wait_for_selector("text=Train from scratch")
    page.go_back()
    page.wait_for_selector("text=games 31 to")


def test_a_view_that_is_left_starts_no_replay(open_page: Open) -> None:
    page = open_page("leaderboard")
    delay_an_answer(page, "**/rows?**")
    page.get_by_role("button", name="Watch largest reward").click()
    page.get_by_role("link", name="Learn").click()
    page.wait_for_selector("text=Train from scratch")
    page.wait_for_timeout(1000)
    assert page.url.endswith("#learn")


def test_tables_are_sorted_by_a_click_and_show_it(open_page: Open) -> None:
    page = open_page("leaderboard")
    table = page.get_by_role("region", name="Results of 2048")
    table.get_by_role("button", name="player").click()
    names = table.locator("tbody th").all_inner_texts()
    assert names == sorted(names, key=str.casefold)
    head = table.locator("thead th").first
    mark = "(node) => getComputedStyle(node.firstChild, '::after').content"
    assert "▲" in head.evaluate(mark)
    table.get_by_role("button", name="player").click()
    assert table.locator("tbody th").all_inner_texts() == names[::-1]
    assert "▼" in head.evaluate(mark)


def test_a_phone_shows_buttons_and_means_beside_the_names(open_page: Open) -> None:
    page = open_page("leaderboard", viewport={"width": 390, "height": 844})
    row = page.locator("tr", has_text="largest reward").first
    for part in (row.get_by_role("button", name="Watch"), row.locator("td").nth(1)):
        box = part.bounding_box()
        assert box["x"] + box["width"] <= 390


def test_a_click_watches_a_player_of_2048_at_once(open_page: Open) -> None:
    page = open_page("leaderboard")
    page.get_by_role("button", name="Watch largest reward").click()
    page.wait_for_selector("text=Score on the leaderboard:", timeout=60_000)
    assert ", the same here." in page.locator("body").inner_text()


def test_any_game_of_a_cycle_is_watched(open_page: Open) -> None:
    page = open_page("leaderboard")
    page.get_by_role("button", name="Games of sample client").click()
    page.get_by_role("button", name="Watch from here").nth(4).click()
    page.wait_for_selector("text=Game 5 of 100")
    sync_api.expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert len(me(page)["match"]["results"]) == 4


@pytest.mark.parametrize("is_agreed", [False, True])
def test_a_running_match_is_left_only_if_agreed(open_page: Open, is_agreed: bool) -> None:
    page = open_page("daihinmin")
    start_of_match(page)
    answer_dialogs(page, is_agreed)
    page.locator("nav a", has_text="Leaderboard").click()
    with page.expect_event("dialog"):
        page.get_by_role("button", name="Watch sample client").click()
    if is_agreed:
        page.wait_for_selector("text=Game 1 of 100")
    assert (me(page)["match"]["visitor"] is None) == is_agreed


@pytest.mark.parametrize("is_agreed", [False, True])
def test_a_replay_keeps_the_running_game_unless_agreed(open_page: Open, is_agreed: bool) -> None:
    page = open_page("2048")
    page.get_by_label("Player", exact=True).select_option("ntuple")
    press_a_legal_arrow(page)
    before = me(page)["game_2048"]
    answer_dialogs(page, is_agreed)
    with page.expect_event("dialog"):
        page.goto(page.url.partition("#")[0] + "#2048/watch/5/reward//1")
    seed = "5" if is_agreed else str(before["seed"])
    sync_api.expect(page.locator(".numbers dd").nth(3)).to_have_text(seed)
    assert str(me(page)["game_2048"]["seed"]) == seed
    page.reload()
    page.wait_for_selector("body[data-ready='2048']")
    assert page.get_by_label("Player", exact=True).input_value() == "ntuple"


def test_names_and_intervals_stay_in_a_narrow_window(open_page: Open) -> None:
    page = open_page("leaderboard", viewport={"width": 390, "height": 844})
    table = page.get_by_role("region", name="Results of 2048")
    name = table.locator("tbody th").first
    x = name.bounding_box()["x"]
    table.evaluate("(node) => { node.scrollLeft = 200; }")
    assert name.bounding_box()["x"] == x and name.bounding_box()["width"] < 160
    page.locator("summary", has_text="Figure").first.click()
    box = page.locator("svg.intervals").first.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
