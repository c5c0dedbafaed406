"""The page in Chromium: games by keys, hints, runs, recorded games, accessibility and speed.

Skipped without Playwright or a Chromium of the system.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.browsers import eventually, needs_browser
from tests.web.browser.test_views import n_moves_shown, press_a_legal_arrow
from tests.web.conftest import Server

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.slow, *needs_browser]

DATA = Path(__file__).parents[2] / "data" / "daihinmin"


def score(page: Any) -> int:
    """Return the score that the page of 2048 shows."""
    return int(page.locator(".numbers dd").first.inner_text().replace(",", ""))


def test_a_game_is_played_by_keys_with_a_hint_and_undo(open_page: Callable[..., Any]) -> None:
    page = open_page("2048")
    for key in ["ArrowLeft", "ArrowUp", "d", "s"] * 6:
        page.keyboard.press(key)
        page.wait_for_timeout(60)
    page.keyboard.press("?")
    best = page.locator("p:has-text('Best move:') strong").inner_text()  # after all moves
    before = page.locator(".board").first.get_attribute("aria-label")
    page.keyboard.press(f"Arrow{best.capitalize()}")
    sync_api.expect(page.locator(".board").first).not_to_have_attribute("aria-label", before)
    sync_api.expect(page.locator("#status")).to_contain_text(f"{best}, ")
    page.keyboard.press("u")
    sync_api.expect(page.locator(".board").first).to_have_attribute("aria-label", before)
    page.reload()
    page.wait_for_selector("body[data-ready='2048']")
    assert page.locator(".board").first.get_attribute("aria-label") == before


def test_a_run_reaches_2048_and_stops(open_page: Callable[..., Any]) -> None:
    page = open_page("2048")
    page.get_by_label("Speed").fill("4")
    page.get_by_label("seed", exact=True).fill("1")
    page.get_by_role("button", name="New game").click()
    sync_api.expect(page.locator(".tile")).to_have_count(2)
    page.keyboard.press("r")
    sync_api.expect(page.locator(".numbers dd").nth(1)).to_have_text("2,048", timeout=30_000)
    sync_api.expect(page.locator("button.main")).to_have_text("Run (R)")
    assert score(page) > 18_000


def test_a_position_is_set_up(open_page: Callable[..., Any]) -> None:
    page = open_page("2048")
    page.get_by_role("button", name="Set up a position").click()
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Tile at row 4, column 4").select_option("10")
    page.get_by_label("Tile at row 4, column 3").select_option("10")
    page.get_by_role("button", name="Start from here").click()
    sync_api.expect(page.locator(".numbers dd").nth(1)).to_have_text("1,024", timeout=30_000)
    sync_api.expect(page.locator(".tile")).to_have_count(2)
    page.keyboard.press("ArrowLeft")
    sync_api.expect(page.locator(".numbers dd").nth(1)).to_have_text("2,048", timeout=30_000)
    assert score(page) == 2048


def test_a_key_starts_the_motion_within_50_ms(open_page: Callable[..., Any]) -> None:
    page = open_page("2048")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint < 1000
    times = page.evaluate(
        """async () => {
          const board = document.querySelector(".board"), times = [];
          for (const key of ["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown", "ArrowLeft"]) {
            const moved = new Promise((resolve) => {
              new MutationObserver((_, o) => { o.disconnect(); resolve(performance.now()); })
                .observe(board, { subtree: true, attributes: true });
              setTimeout(() => resolve(NaN), 300);
            });
            const start = performance.now();
            document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            times.push((await moved) - start);
            await new Promise((resolve) => setTimeout(resolve, 200));
          }
          return times.filter((each) => !Number.isNaN(each));
        }"""
    )
    assert times and max(times) < 50


def test_a_hand_of_daihinmin_is_played_with_an_exchange(open_page: Callable[..., Any]) -> None:
    page = open_page("daihinmin")
    page.get_by_label("Speed").select_option("0")
    page.get_by_label("Seed").fill("3")
    page.get_by_role("button", name="Start").click()
    end = time.monotonic() + 60
    while not page.get_by_role("button", name="Next game").count():
        assert time.monotonic() < end
        if page.locator("text=Your turn").count():
            page.keyboard.press("?")
            hint = page.locator("p:has-text('Hint:') strong").inner_text()
            page.keyboard.press("p" if hint == "pass" else "Enter")
        page.wait_for_timeout(150)
    page.get_by_role("button", name="Next game").click()
    page.wait_for_selector("text=to give away")
    cards = page.locator("[aria-label^='Your hand'] button")
    n = cards.count()
    asked = page.locator("h2:has-text('to give away')").inner_text()  # Choose 1 card, or 2 cards
    for i in range(int(asked.split()[1])):
        cards.nth(i).click()
    assert cards.first.get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="Give").click()
    page.wait_for_selector("text=Exchange, you to")
    assert eventually(page, lambda: cards.count() < n)


def test_a_recorded_game_is_stepped_through(open_page: Callable[..., Any]) -> None:
    page = open_page("daihinmin")
    page.locator("summary", has_text="Recorded games").click()
    page.get_by_label("File").set_input_files(DATA / "mixstrong.jsonl.gz")
    page.get_by_label("Game number").fill("2")
    page.get_by_role("button", name="Step through it").click()
    page.wait_for_selector("text=The cards are dealt.")
    page.locator("#view").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert page.locator("p[aria-live]:has-text('5 of ')").count() == 1


def test_two_visitors_play_beside_a_slow_player(open_page: Callable[..., Any]) -> None:
    slow, fast = open_page("2048"), open_page("2048")
    slow.get_by_label("Player", exact=True).select_option("expectimax")
    slow.get_by_label("depth in moves").fill("5")
    slow.keyboard.press("Tab")
    slow.get_by_role("button", name="Run").click()
    seeds = [each.locator(".numbers dd").nth(3).inner_text() for each in (slow, fast)]
    assert seeds[0] != seeds[1]
    for _ in range(5):
        fast.keyboard.press("?")
        fast.wait_for_selector("text=Best move:")
    slow.get_by_role("button", name="Stop").click()
    sync_api.expect(slow.locator("button.main")).to_have_text("Run (R)")


def test_a_restart_in_the_middle_keeps_the_game(
    open_page: Callable[..., Any], new_server: Callable[..., Server]
) -> None:
    server = new_server()
    page = open_page("2048", server.address)
    for n_moves in ("1", "2"):
        press_a_legal_arrow(page)
        sync_api.expect(n_moves_shown(page)).to_have_text(n_moves)
    before = page.locator(".board").first.get_attribute("aria-label")
    server.stop()
    page.get_by_role("button", name="Hint").click()
    page.wait_for_selector("text=The server does not answer")
    server.restart()
    page.reload()
    page.wait_for_selector("body[data-ready='2048']")
    sync_api.expect(page.locator(".board").first).to_have_attribute("aria-label", before)


def test_a_network_learns_and_plays_against_time(
    open_page: Callable[..., Any], new_server: Callable[..., Server]
) -> None:
    server = new_server()
    server.load()
    page = open_page("learn", server.address)
    page.set_default_timeout(180_000)  # compiles if caches are empty
    play = page.get_by_role("button", name="Timed games")
    sync_api.expect(play).to_be_disabled()
    page.get_by_role("button", name="Train from scratch").click()
    page.wait_for_selector("svg.curve")
    page.get_by_role("button", name="Stop").click()
    page.get_by_label("Seconds of play").fill("1")
    page.get_by_label("Seconds of play").fill("30")
    play.click()
    page.get_by_role("button", name="Stop playing").click()
    sync_api.expect(play).to_be_visible()
    page.wait_for_timeout(2_000)  # the present game ends
    page.get_by_label("Seconds of play").fill("1")
    play.click()
    results = page.get_by_label("Results of timed games")
    sync_api.expect(results).to_contain_text("mean score", timeout=60_000)
    assert int(results.locator("dd").first.inner_text().replace(",", "")) >= 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["2048", "daihinmin", "leaderboard", "learn"])
def test_pages_are_accessible(open_page: Callable[..., Any], view: str, scheme: str) -> None:
    """In the dark only the colors of most pages are others."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = open_page(view, color_scheme=scheme, viewport={"width": 390, "height": 800})
    if view == "2048":
        player = "mc-softmax" if scheme == "dark" else "expectimax"
        page.get_by_label("Player", exact=True).select_option(player)
        page.get_by_label("show lines, outcomes and tree with hints").check()
        page.keyboard.press("?")
        page.wait_for_selector("text=Best move:")
    if view == "daihinmin":
        page.get_by_role("button", name="Start").click()
        page.wait_for_selector("text=Your turn")
    colors = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
    only = colors if scheme == "dark" and view != "2048" else None
    violations = axe.Axe().run(page, options=only).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in violations] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
