"""The view of Daihinmin in Chromium: buttons that stay, second windows, outages, recorded games."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.browsers import eventually, needs_browser
from tests.web.browser.test_views import answer_dialogs, me, start_of_match, start_to_watch
from tests.web.conftest import Server

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.slow, *needs_browser]

DATA = Path(__file__).parents[2] / "data" / "daihinmin"
Open = Callable[..., Any]


def second_window(page: Any) -> Any:
    """Return another window of the same visitor, at the visitor's turn."""
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("text=Your turn")
    return other


def open_recorded(page: Any, file: Any = DATA / "mixstrong.jsonl.gz", number: str = "1") -> None:
    """Ask for a recorded game."""
    page.locator("summary", has_text="Recorded games").click()
    page.get_by_label("File").set_input_files(file)
    page.get_by_label("Game number").fill(number)
    page.get_by_role("button", name="Step through it").click()


# Buttons and keys


def test_buttons_keep_the_focus_and_clicks_while_others_play(open_page: Open) -> None:
    page = open_page("daihinmin")
    start_to_watch(page, "300")
    page.get_by_role("button", name="Step").focus()
    pause = page.get_by_role("button", name="Pause")
    box = pause.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    n_events = page.locator("ol.log li").count()
    page.mouse.down()
    page.wait_for_selector(f"ol.log li:nth-child({n_events + 2})")
    page.mouse.up()
    sync_api.expect(page.get_by_role("button", name="Continue")).to_be_focused()
    page.wait_for_timeout(500)  # what was asked before is answered
    page.get_by_role("button", name="Step").focus()
    n_events = page.locator("ol.log li").count()
    page.keyboard.press("Enter")
    page.wait_for_selector(f"ol.log li:nth-child({n_events + 1})")
    assert page.evaluate("document.activeElement.textContent") == "Step"


def test_keys_work_while_a_box_has_the_focus(open_page: Open) -> None:
    page = open_page("daihinmin")
    start_of_match(page)
    page.get_by_label("show all hands").check()
    page.keyboard.press("?")
    page.wait_for_selector("p:has-text('Hint:')")


def test_enter_selects_the_focused_card_and_plays_it_when_it_is_selected(open_page: Open) -> None:
    page = open_page("daihinmin")
    start_of_match(page)
    cards = page.locator("[aria-label^='Your hand'] button")
    usable = page.locator(".card.usable")
    usable.first.focus()
    page.keyboard.press("Enter")
    sync_api.expect(usable.first).to_have_attribute("aria-pressed", "true")
    turn, n = me(page)["match"]["turn"], cards.count()
    page.locator(".card[aria-pressed=false]").last.focus()
    page.keyboard.press("Enter")
    sync_api.expect(page.locator(".card:focus")).to_have_attribute("aria-pressed", "true")
    assert (me(page)["match"]["turn"], cards.count()) == (turn, n)
    page.keyboard.press("?")
    page.wait_for_selector("p:has-text('Hint:')")
    if page.locator("p:has-text('Hint:') strong").inner_text() != "pass":
        page.keyboard.press("Enter")
        sync_api.expect(cards).not_to_have_count(n)


def plays_of_two(page: Any) -> list[Any]:
    """Start a match, and return the legal plays of the spade 3 with the joker, which are three."""
    start_of_match(page, 8)
    match = page.evaluate("async () => (await fetch('/api/daihinmin')).json()")
    return [{**each, "turn": match["turn"]} for each in match["legal"] if each["cards"] == [0, 52]]


def test_enter_plays_what_the_hint_says(open_page: Open) -> None:
    page = open_page("daihinmin")
    *_, last = plays_of_two(page)
    hint = {**last, "listed": [], "seconds": 0.001}
    page.route("**/api/daihinmin/hint", lambda route: route.fulfill(json=hint))
    page.keyboard.press("?")
    page.wait_for_selector("p:has-text('Hint: 3♠ joker=3♣')")
    page.keyboard.press("Enter")
    page.wait_for_selector("ol.log li:has-text('you: 3♠ joker=3♣')")


def test_enter_asks_which_play_cards_make(open_page: Open) -> None:
    page = open_page("daihinmin")
    n_plays = len(plays_of_two(page))
    page.get_by_label("3 of spades").click()
    page.get_by_label("joker", exact=True).click()
    page.keyboard.press("Enter")
    buttons = page.get_by_role("button", name="Play 3♠ joker=")
    assert buttons.count() == n_plays == 3
    sync_api.expect(buttons.first).to_be_focused()
    sync_api.expect(page.locator("#status")).to_contain_text("make 3 plays: choose one")


def test_enter_in_a_field_starts_a_match(open_page: Open) -> None:
    page = open_page("daihinmin")
    page.get_by_label("Speed").select_option("0")
    page.get_by_label("Seed").fill("3")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Your turn")
    assert me(page)["match"]["seed"] == 3


@pytest.mark.parametrize("is_agreed", [False, True])
def test_a_running_match_is_given_up_only_if_agreed(open_page: Open, is_agreed: bool) -> None:
    page = open_page("daihinmin")
    start_of_match(page)
    answer_dialogs(page, is_agreed)
    page.locator("summary", has_text="New match").click()
    page.get_by_label("Seed").fill("4")
    with page.expect_event("dialog"):
        page.get_by_role("button", name="Start").click()
    seed = 4 if is_agreed else 3
    assert eventually(page, lambda: me(page)["match"]["seed"] == seed)


def test_a_held_key_passes_once(open_page: Open) -> None:
    page = open_page("daihinmin")
    start_of_match(page)
    with page.expect_response("**/api/daihinmin/play"):
        page.keyboard.down("p")
    passes = page.locator("li:has-text('you: pass')")
    sync_api.expect(passes).to_have_count(1)
    page.wait_for_selector("text=Your turn")
    page.keyboard.down("p")  # repeated, as it was not released
    page.wait_for_timeout(500)
    sync_api.expect(passes).to_have_count(1)


def test_an_empty_field_is_named(open_page: Open) -> None:
    page = open_page("daihinmin")
    page.get_by_role("spinbutton", name="Games").fill("")
    page.get_by_role("button", name="Start").click()
    text = "Games must be a whole number from 1 to 100, got nothing"
    sync_api.expect(page.locator("#message")).to_have_text(text)


# Second windows, outages and reloads


@pytest.mark.parametrize("name", ["Pass", "Hint"])
def test_a_window_left_behind_shows_the_position_and_says_why(open_page: Open, name: str) -> None:
    page = open_page("daihinmin")
    start_of_match(page)
    other = second_window(page)
    other.keyboard.press("p")
    other.wait_for_selector("li:has-text('you: pass')")
    other.wait_for_selector("text=Your turn")
    page.get_by_role("button", name=name).click()
    sync_api.expect(page.locator("#message")).to_contain_text("was continued in another window")
    sync_api.expect(page.locator("li:has-text('you: pass')")).to_have_count(1)


@pytest.mark.parametrize("is_agreed", [False, True])
def test_a_match_of_another_window_is_given_up_only_if_agreed(
    open_page: Open, is_agreed: bool
) -> None:
    page = open_page("daihinmin")
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("body[data-ready=daihinmin]")
    start_of_match(other)
    if not me(page)["match"]["begun"]:
        other.keyboard.press("p")
        other.wait_for_selector("li:has-text('you: pass')")
    answer_dialogs(page, is_agreed)
    page.get_by_label("Seed").fill("4")
    with page.expect_event("dialog") as asked:
        page.get_by_role("button", name="Start").click()
    assert "in another window" in asked.value.message
    seed = 4 if is_agreed else 3
    assert eventually(page, lambda: me(page)["match"]["seed"] == seed)


def test_pause_stops_no_search_of_another_window(open_page: Open) -> None:
    page = open_page("daihinmin")
    start_of_match(page)
    stops: list[str] = []
    page.on("request", lambda sent: stops.append(sent.url) if "/stop" in sent.url else None)
    page.route("**/api/daihinmin/hint", lambda route: None)  # a search that does not end
    page.keyboard.press("Escape")
    page.wait_for_timeout(300)
    assert not stops
    page.keyboard.press("?")
    page.wait_for_selector("text=thinking ...")
    page.keyboard.press("Escape")
    assert eventually(page, lambda: len(stops) == 1)


def test_all_hands_can_be_shown_while_an_answer_is_under_way(open_page: Open) -> None:
    """Each event is listed once, though both answers tell it."""
    page = open_page("daihinmin")
    start_of_match(page)

    def delay(route: Any) -> None:
        answer = route.fetch()
        page.get_by_label("show all hands").check()
        page.wait_for_timeout(500)  # the hands are asked for meanwhile
        route.fulfill(response=answer)

    page.route("**/api/daihinmin/play", delay, times=1)
    page.keyboard.press("p")
    page.wait_for_selector(".seat .card")
    page.wait_for_selector("text=Your turn")
    history = page.evaluate("fetch('/api/daihinmin').then(async (a) => (await a.json()).history)")
    assert eventually(page, lambda: page.locator("ol.log li").count() >= len(history))
    assert page.locator("ol.log li").count() == len(history)


def test_a_link_to_watch_says_why_there_is_no_match(open_page: Open) -> None:
    page = open_page("daihinmin")
    start_of_match(page)
    page.route("**/api/daihinmin?reveal=false", lambda route: route.abort())
    page.goto(page.url.partition("#")[0] + "#daihinmin/watch/1/0-1-2-3-4")
    sync_api.expect(page.locator("#message")).to_contain_text("The server does not answer")


def test_a_step_in_a_window_left_behind_shows_the_position(open_page: Open) -> None:
    page = open_page("daihinmin")
    start_to_watch(page, "2000")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(500)  # what was asked before is answered
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("ol.log li")
    n_events = other.locator("ol.log li").count()
    other.get_by_role("button", name="Step").click()
    other.wait_for_selector(f"ol.log li:nth-child({n_events + 1})")
    page.get_by_role("button", name="Step").click()
    sync_api.expect(page.locator("#message")).to_contain_text("was continued in another window")
    sync_api.expect(page.locator("ol.log li")).to_have_text(
        other.locator("ol.log li").all_inner_texts()
    )


def test_an_outage_with_all_hands_shown_is_said(open_page: Open) -> None:
    page = open_page("daihinmin")
    start_of_match(page)
    page.get_by_label("show all hands").check()
    page.wait_for_selector(".seat .card")
    page.route("**/api/daihinmin?reveal=true", lambda route: route.abort())
    page.keyboard.press("p")
    sync_api.expect(page.locator("#message")).to_contain_text("The server does not answer")


def test_a_reload_keeps_all_that_happened(open_page: Open) -> None:
    page = open_page("daihinmin")
    page.get_by_role("spinbutton", name="Games").fill("2")
    start_to_watch(page)
    page.get_by_role("button", name="Next game").click(timeout=60_000)
    page.wait_for_selector("text=The match is over", timeout=60_000)
    assert not page.locator("text=any play may lead").count()
    before = page.locator("ol.log").inner_text()
    assert "Exchange, " in before and "Game 2 is dealt." in before
    page.reload()
    page.wait_for_selector("text=The match is over")
    assert page.locator("ol.log").inner_text() == before


def test_a_step_waits_until_the_players_are_loaded(
    open_page: Open, new_server: Callable[..., Server]
) -> None:
    page = open_page("daihinmin", new_server().address)
    start_to_watch(page)
    assert me(page)["ready"] is False
    sync_api.expect(page.locator("#notice")).to_contain_text("Players are still loading")
    page.wait_for_selector("ol.log li:nth-child(2)", timeout=600_000)
    sync_api.expect(page.locator("#notice")).to_be_empty()


def test_a_table_fits_its_window_after_a_resize(open_page: Open) -> None:
    page = open_page("daihinmin", viewport={"width": 375, "height": 740})
    start_of_match(page)
    table = page.locator(".table")
    assert table.evaluate("(node) => node.parentNode.style.minHeight")
    page.set_viewport_size({"width": 1000, "height": 740})
    assert eventually(
        page, lambda: not table.evaluate("(node) => node.parentNode.style.minHeight"), seconds=5
    )


def test_hands_are_shown_in_a_match_only(open_page: Open) -> None:
    page = open_page("daihinmin")
    box = page.get_by_label("show all hands")
    sync_api.expect(box).to_be_disabled()
    assert not page.get_by_role("heading", name="History").is_visible()
    start_of_match(page)
    sync_api.expect(box).to_be_enabled()


# Recorded games


def test_home_and_end_lead_to_the_ends_of_a_recorded_game(open_page: Open) -> None:
    page = open_page("daihinmin")
    open_recorded(page)
    page.wait_for_selector("text=The cards are dealt.")
    page.get_by_role("button", name="Forward").focus()
    page.keyboard.press("End")
    slider = page.get_by_label("Step", exact=True)
    assert slider.input_value() == slider.get_attribute("max") != "0"
    page.keyboard.press("Home")
    assert slider.input_value() == "0"


def test_closing_a_recorded_game_leaves_nothing_of_it(open_page: Open) -> None:
    page = open_page("daihinmin")
    open_recorded(page)
    page.wait_for_selector("text=The cards are dealt.")
    page.get_by_role("button", name="Close").click()
    assert page.get_by_role("region", name="Table").inner_text() == ""


@pytest.mark.parametrize("has_match", [False, True])
def test_closing_a_recorded_game_gives_the_focus_back(open_page: Open, has_match: bool) -> None:
    page = open_page("daihinmin")
    if has_match:
        start_of_match(page)
    open_recorded(page)
    sync_api.expect(page.locator("#status")).to_contain_text("The cards are dealt.")
    page.get_by_role("button", name="Close").focus()
    page.keyboard.press("Enter")
    focused = page.locator(".card:focus" if has_match else "summary:focus")
    sync_api.expect(focused).to_have_count(1)


@pytest.mark.parametrize(
    ("name", "content", "number", "text"),
    [
        ("a.jsonl", b"hello", "1", "a.jsonl must be a recorded game as JSON"),
        ("a.jsonl", b"null", "1", "a.jsonl must be a recorded game as JSON"),
        ("a.jsonl", b"{}", "1", "a recorded game must have names, seats"),
        ("a.jsonl", b"", "1", "a.jsonl must have a game in each line, and is empty"),
        ("a.jsonl", b"{}", "0", "Game number must be a whole number from 1 on, got 0"),
        ("a.jsonl", b"{}", "", "Game number must be a whole number from 1 on, got nothing"),
        ("a.jsonl", b"{}", "9", "must be a whole number from 1 to 1, the lines of a.jsonl, got 9"),
        ("a.jsonl.gz", b"hello", "1", "a.jsonl.gz must be packed by gzip"),
    ],
)
def test_a_file_without_the_recorded_game_is_explained(
    open_page: Open, name: str, content: bytes, number: str, text: str
) -> None:
    page = open_page("daihinmin")
    file = {"name": name, "mimeType": "text/plain", "buffer": content}
    open_recorded(page, file, number)
    sync_api.expect(page.locator("#message")).to_contain_text(text)
