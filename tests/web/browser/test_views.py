"""The views of the page in Chromium: focus, pauses, double clicks, outages, a second window."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from afterstate.envs.game2048.env import ACTION_NAMES
from tests.support.browsers import eventually, needs_browser
from tests.web.conftest import Server

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.slow, *needs_browser]

DATA = Path(__file__).parents[2] / "data" / "daihinmin"
Open = Callable[..., Any]
CURVE = "fetch('/api/learn').then(async (answer) => (await answer.json()).curve)"
"""Learning curve that the server knows of the visitor's network."""


def board(page: Any) -> str:
    """Return the board that a view of 2048 shows, as text."""
    text: str = page.locator(".board").first.get_attribute("aria-label")
    return text


def me(page: Any) -> Any:
    """Return what the server knows of the visitor."""
    return page.evaluate("fetch('/api/me').then((answer) => answer.json())")


def press_a_legal_arrow(page: Any) -> None:
    """Press an arrow that moves a tile, and wait until the server has made the move."""
    game = me(page)["game_2048"]
    options = {"board": np.reshape(game["board"], (4, 4))}
    _, info = gymnasium.make("Game2048-v0").reset(options=options)
    key = f"Arrow{ACTION_NAMES[int(np.argmax(info['action_mask']))].capitalize()}"

    def is_made() -> bool:
        return bool(me(page)["game_2048"]["n_moves"] > game["n_moves"])

    for _ in range(15):  # a view that is not ready takes no key
        page.keyboard.press(key)
        if eventually(page, is_made, seconds=2):
            return
    raise AssertionError("no move was made")


def n_moves_shown(page: Any) -> Any:
    """Return where a view of 2048 shows the number of moves."""
    return page.locator(".numbers dd").nth(2)


def start_of_2048(page: Any, seed: int) -> None:
    """Start the game of a seed."""
    page.get_by_label("seed", exact=True).fill(str(seed))
    page.get_by_role("button", name="New game").click()
    sync_api.expect(page.locator(".numbers dd").nth(3)).to_have_text(str(seed))


LARGE = [1, 2, 3, 4, 8, 7, 6, 5, 9, 10, 3, 2, 0, 1, 0, 0]


def set_up(page: Any, board: Sequence[int] = LARGE) -> None:
    """Set up a position, and show it."""
    body = json.dumps({"board": board})
    page.evaluate(
        "(body) => fetch('/api/2048/new', { method: 'POST', body, "
        "headers: { 'Content-Type': 'application/json' } })",
        body,
    )
    page.reload()
    page.wait_for_selector("[data-game=ready]")


def start_of_match(page: Any, seed: int = 3) -> None:
    """Start a match of Daihinmin and wait for the visitor's turn."""
    page.get_by_label("Speed").select_option("0")
    page.get_by_label("Seed").fill(str(seed))
    page.get_by_role("button", name="Start").click()
    page.wait_for_selector("text=Your turn")


def start_to_watch(page: Any, speed: str = "0") -> None:
    """Start a match of five players."""
    page.get_by_label("watch five players").check()
    page.get_by_label("Speed").select_option(speed)
    page.get_by_role("button", name="Start").click()
    page.wait_for_selector("ol.log li")


def answer_dialogs(page: Any, is_agreed: bool) -> None:
    """Agree to all questions of a page, or to none."""
    page.on("dialog", lambda dialog: dialog.accept() if is_agreed else dialog.dismiss())


# Views


def test_a_view_remains_until_the_server_answers(open_page: Open) -> None:
    page = open_page("2048")
    start_of_2048(page, 1)
    page.route("**/api/me", lambda route: route.abort())
    page.get_by_role("link", name="Daihinmin").click()
    page.wait_for_selector("text=The server does not answer")
    assert page.locator(".board").first.is_visible()
    assert page.locator("nav a[aria-current]").inner_text() == "Daihinmin"
    assert page.locator("#view").get_attribute("aria-busy") == "true"
    before = board(page)
    for key in ("ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
    assert board(page) == before
    page.unroute("**/api/me")
    page.wait_for_selector("text=New match")
    sync_api.expect(page.locator("#message")).to_be_empty()
    assert page.locator("nav a[aria-current]").inner_text() == "Daihinmin"


def test_a_lost_network_is_said(open_page: Open) -> None:
    point = {"seconds": 1.0, "n_moves": 9, "n_games": 2, "mean_score": 5.0}
    learning = {"exists": True, "running": True, "sample": {}, "error": ""}
    learning["curve"] = [{**point, "reach_2048": 0.0, "max_tile": 64}]
    page = open_page("2048")
    page.route("**/api/learn", lambda route: route.fulfill(json=learning))
    page.get_by_role("link", name="Learn").click()
    page.wait_for_selector("text=reach 2048")
    page.route("**/api/learn", lambda route: route.abort())
    page.wait_for_selector("text=The server does not answer")
    nothing = {"exists": False, "running": False, "curve": [], "sample": {}}
    page.route("**/api/learn", lambda route: route.fulfill(json=nothing))
    page.wait_for_selector("text=your network is gone")


def test_missing_results_are_said_with_their_place_while_players_load(open_page: Open) -> None:
    page = open_page("learn")
    loading = {**me(page), "ready": False}
    page.route("**/api/me", lambda route: route.fulfill(json=loading))
    page.route("**/api/leaderboard/*", lambda route: route.fulfill(status=404, json={}))
    page.get_by_role("link", name="Leaderboard").click()
    page.wait_for_selector("code:text('pip install --editable')")
    assert page.locator("main a").get_attribute("href").endswith("/docs/leaderboard.md")
    sync_api.expect(page.locator("#notice")).to_contain_text("Players are still loading")


def test_players_that_cannot_be_loaded_are_said(open_page: Open) -> None:
    page = open_page("learn")
    failed = {**me(page), "ready": False, "failed": True}
    page.route("**/api/me", lambda route: route.fulfill(json=failed))
    page.get_by_role("link", name="2048").click()
    sync_api.expect(page.locator("#notice")).to_contain_text("The players cannot be loaded")


def test_a_hint_after_a_restart_says_that_players_load(open_page: Open) -> None:
    page = open_page("2048")
    loading = {**me(page), "ready": False}
    page.route("**/api/2048/hint", lambda route: None)  # a search that does not end
    page.route("**/api/me", lambda route: route.fulfill(json=loading))
    page.keyboard.press("?")
    text = page.locator("#notice")
    sync_api.expect(text).to_contain_text("Players are still loading")
    page.route("**/api/me", lambda route: route.abort())
    sync_api.expect(text).to_contain_text("The server does not answer")
    page.unroute("**/api/me")
    sync_api.expect(text).to_be_empty()


def test_a_notice_stays_while_moves_are_made(open_page: Open) -> None:
    page = open_page("learn")
    loading = {**me(page), "ready": False}
    page.route("**/api/me", lambda route: route.fulfill(json=loading))
    page.get_by_role("link", name="2048").click()
    page.wait_for_selector("[data-game=ready]")
    sync_api.expect(page.locator("#notice")).to_contain_text("Players are still loading")
    top = page.locator(".board").first.bounding_box()["y"]
    for key in ("ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
        assert page.locator(".board").first.bounding_box()["y"] == top


def test_the_kernels_that_are_compiled_are_named(open_page: Open) -> None:
    page = open_page("learn")
    loading = {**me(page), "ready": False, "compiling": "compiling the rules: about 4 seconds"}
    page.route("**/api/me", lambda route: route.fulfill(json=loading))
    page.get_by_role("link", name="Daihinmin").click()
    text = page.locator("#notice")
    sync_api.expect(text).to_contain_text("(compiling the rules: about 4 seconds; a minute or two")
    page.unroute("**/api/me")
    sync_api.expect(text).to_be_empty()


# Keys and focus


def test_the_skip_link_moves_the_focus_and_keeps_the_view(open_page: Open) -> None:
    page = open_page("learn")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "view"
    assert page.url.endswith("#learn") and page.locator("text=Train from scratch").count()


def test_enter_on_a_link_follows_it_and_plays_no_card(open_page: Open) -> None:
    page = open_page("daihinmin")
    start_of_match(page)
    page.keyboard.press("?")
    page.wait_for_selector("p:has-text('Hint:')")
    turn = me(page)["match"]["turn"]
    page.locator("nav a", has_text="Learn").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Train from scratch")
    assert me(page)["match"]["turn"] == turn


def test_enter_deals_the_next_game_and_all_that_happened_is_listed(open_page: Open) -> None:
    page = open_page("daihinmin")
    page.get_by_role("spinbutton", name="Games").fill("2")
    start_to_watch(page)
    page.wait_for_selector("text=Next game", timeout=60_000)
    n_before = page.locator("ol.log li").count()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Game 2 of 2")
    page.wait_for_selector("text=The match is over", timeout=60_000)
    lines = page.locator("ol.log li").all_inner_texts()
    assert lines[n_before] == "Game 2 is dealt." and len(lines) > 60


def test_arrows_scroll_the_values_and_move_no_tile(open_page: Open) -> None:
    page = open_page("2048", viewport={"width": 390, "height": 800})
    page.keyboard.press("?")
    page.wait_for_selector("text=Best move:")
    before = board(page)
    page.get_by_role("region", name="Values of the moves").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_timeout(300)
    assert board(page) == before


def test_enter_in_the_seed_field_starts_its_game(open_page: Open) -> None:
    page = open_page("2048")
    page.get_by_label("seed", exact=True).fill("7")
    page.keyboard.press("Enter")
    sync_api.expect(page.locator(".numbers dd").nth(3)).to_have_text("7")
    press_a_legal_arrow(page)


def test_arrows_move_tiles_after_a_choice_of_player(open_page: Open) -> None:
    page = open_page("2048")
    select = page.get_by_label("Player", exact=True)
    select.click()
    select.select_option("alphabeta")
    page.keyboard.press("Escape")
    press_a_legal_arrow(page)
    assert select.input_value() == "alphabeta"


def test_keys_play_and_stop_after_a_choice_of_speed(open_page: Open) -> None:
    page = open_page("2048")
    start_of_2048(page, 1)
    speed = page.get_by_label("Speed")
    speed.click()
    press_a_legal_arrow(page)
    page.get_by_role("button", name="Run").click()
    speed.focus()
    page.keyboard.press("ArrowLeft")
    sync_api.expect(speed).to_be_focused()
    page.keyboard.press("Escape")
    page.wait_for_selector("button:text('Run')")


def test_the_end_of_a_game_is_said_with_its_last_move(open_page: Open) -> None:
    page = open_page("2048")
    set_up(page, [1, 1, 3, 4, 5, 6, 7, 8, 3, 4, 5, 6, 7, 8, 9, 10])
    page.keyboard.press("ArrowLeft")
    sync_api.expect(page.locator("#status")).to_contain_text("Game over")
    assert page.locator("#status").inner_text().startswith("left, plus 4.")


def test_damaged_choices_of_the_browser_are_forgotten(open_page: Open) -> None:
    page = open_page("2048")
    for text in ("{bad", "null", "5", '{"name": "expectimax", "settings": {"depth": 99}}'):
        page.evaluate("(text) => localStorage.setItem('player-2048', text)", text)
        page.reload()
        page.wait_for_selector("[data-game=ready]")
        sync_api.expect(page.get_by_label("depth")).to_have_value("2")


def test_keys_that_choose_a_player_keep_the_focus_until_enter(open_page: Open) -> None:
    page = open_page("2048")
    select = page.get_by_label("Player", exact=True)
    select.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    sync_api.expect(select).to_be_focused()
    chosen = select.input_value()
    page.keyboard.press("Enter")
    press_a_legal_arrow(page)
    assert select.input_value() == chosen != "expectimax"


@pytest.mark.parametrize("is_agreed", [False, True])
def test_a_running_game_is_given_up_only_if_agreed(open_page: Open, is_agreed: bool) -> None:
    page = open_page("2048")
    press_a_legal_arrow(page)
    answer_dialogs(page, is_agreed)
    with page.expect_event("dialog"):
        page.keyboard.press("n")
    if is_agreed:
        sync_api.expect(n_moves_shown(page)).to_have_text("0")
    assert (me(page)["game_2048"]["n_moves"] == 0) == is_agreed


def test_a_cancelled_swipe_is_no_move(open_page: Open) -> None:
    page = open_page("2048")
    before = board(page)
    for kind, x in (("pointerdown", 200), ("pointercancel", 0), ("pointerup", 0)):
        where = {"clientX": x, "clientY": 100, "bubbles": True, "isPrimary": True}
        page.locator(".board").first.dispatch_event(kind, where)
    page.wait_for_timeout(300)
    assert board(page) == before


def swipe(page: Any, n_fingers: int, key: str) -> None:
    """Swipe over the board as an arrow key would move, with one finger or two."""
    x, y = {"Left": (-150, 0), "Right": (150, 0), "Up": (0, -150), "Down": (0, 150)}[key]
    for kind in ("pointerdown", "pointerup"):
        for finger in range(n_fingers):
            at = {"clientX": 200, "clientY": 200, "bubbles": True, "isPrimary": finger == 0}
            if kind == "pointerup":
                at |= {"clientX": 200 + x, "clientY": 200 + y}
            page.locator(".board").first.dispatch_event(kind, at)


def test_one_finger_moves_and_two_do_not(open_page: Open) -> None:
    page = open_page("2048")
    before = board(page)
    for n_fingers in (2, 1):
        for key in ("Left", "Up"):
            swipe(page, n_fingers, key)
        page.wait_for_timeout(500)
        assert (board(page) == before) == (n_fingers == 2)


# Addresses


@pytest.mark.parametrize("view", ["constructor", "toString/x", "nothing"])
def test_an_unknown_view_is_that_of_2048(open_page: Open, view: str) -> None:
    page = open_page("2048")
    page.goto(page.url.partition("#")[0] + f"#{view}")
    page.wait_for_timeout(300)
    sync_api.expect(page.locator("nav a[aria-current]")).to_have_text("2048")
    assert page.url.endswith("/#2048")
    press_a_legal_arrow(page)


def test_an_unknown_player_is_named_and_a_game_is_shown(open_page: Open) -> None:
    page = open_page("2048/watch/1/nosuch")
    sync_api.expect(page.locator("#message")).to_have_text("there is no player nosuch here")
    press_a_legal_arrow(page)


def test_a_view_that_was_left_before_it_was_loaded_takes_no_keys(open_page: Open) -> None:
    page = open_page("learn")
    page.route("**/api/me", lambda route: (page.wait_for_timeout(300), route.continue_()))
    page.evaluate(
        "location.hash = '#2048'; setTimeout(() => { location.hash = '#daihinmin'; }, 50)"
    )
    page.wait_for_selector("text=New match")
    page.unroute("**/api/me")
    page.wait_for_timeout(500)
    assert not page.locator(".board").count()
    moves: list[str] = []
    page.on("request", lambda request: moves.append(request.url))
    for key in ("ArrowLeft", "ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_timeout(300)
    assert moves == []


@pytest.mark.parametrize("text", ["1e400", "-1", "0.5"])
def test_a_seed_must_be_a_whole_number(open_page: Open, text: str) -> None:
    page = open_page("2048")
    before = board(page)
    page.get_by_label("seed", exact=True).fill(text)
    page.get_by_role("button", name="New game").click()
    sync_api.expect(page.locator("#message")).to_contain_text("seed must be a whole number")
    assert board(page) == before


# Outages and second windows


def test_the_board_is_that_of_the_server_after_an_outage(open_page: Open) -> None:
    page = open_page("2048")
    before = board(page)
    page.route("**/api/**", lambda route: route.abort())
    for key in ("ArrowLeft", "ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_selector("text=The server does not answer")
    page.wait_for_timeout(300)
    sync_api.expect(page.locator(".board").first).to_have_attribute("aria-label", before)
    page.unroute("**/api/**")
    press_a_legal_arrow(page)
    sync_api.expect(n_moves_shown(page)).to_have_text("1")
    tiles = [2**each if each else "empty" for each in me(page)["game_2048"]["board"]]
    rows = [", ".join(map(str, tiles[i : i + 4])) for i in range(0, 16, 4)]
    assert board(page) == "Board. " + " ".join(f"Row {i}: {row}." for i, row in enumerate(rows, 1))


def test_an_answer_that_is_lost_is_caught_up(open_page: Open) -> None:
    """The server has made the move."""
    page = open_page("2048")
    lost: list[int] = []

    def lose(route: Any) -> None:
        lost.append(route.fetch().status)
        route.abort()

    page.route("**/api/2048/move", lose)
    before = me(page)["game_2048"]["n_moves"]
    press_a_legal_arrow(page)
    assert eventually(page, lambda: 200 in lost)
    page.unroute("**/api/2048/move", lose)
    n_moves = me(page)["game_2048"]["n_moves"]
    assert n_moves > before
    sync_api.expect(n_moves_shown(page)).to_have_text(str(n_moves))


def test_a_hint_in_a_window_left_behind_shows_the_position(open_page: Open) -> None:
    page = open_page("2048")
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("body[data-ready='2048']")
    press_a_legal_arrow(other)
    sync_api.expect(n_moves_shown(other)).to_have_text("1")
    assert board(page) != board(other)
    page.keyboard.press("?")
    sync_api.expect(page.locator("#message")).to_contain_text("in another window")
    assert board(page) == board(other)


@pytest.mark.parametrize("is_agreed", [False, True])
def test_a_game_of_another_window_is_given_up_only_if_agreed(
    open_page: Open, is_agreed: bool
) -> None:
    page = open_page("2048")
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("[data-game=ready]")
    press_a_legal_arrow(other)
    answer_dialogs(page, is_agreed)
    with page.expect_event("dialog") as asked:
        page.keyboard.press("n")
    assert "in another window" in asked.value.message
    page.wait_for_timeout(500)
    assert (me(page)["game_2048"]["n_moves"] == 0) == is_agreed


def test_stop_stops_no_search_of_another_window(open_page: Open) -> None:
    page = open_page("2048")
    stops: list[str] = []
    page.on("request", lambda sent: stops.append(sent.url) if "/stop" in sent.url else None)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Stop").click()
    page.wait_for_timeout(300)
    assert not stops


def test_an_undo_in_a_window_left_behind_shows_the_position(open_page: Open) -> None:
    page = open_page("2048")
    press_a_legal_arrow(page)
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("body[data-ready='2048']")
    press_a_legal_arrow(other)
    sync_api.expect(n_moves_shown(other)).to_have_text("2")
    page.keyboard.press("u")
    sync_api.expect(page.locator("#message")).to_contain_text("was continued in another window")
    shown = page.locator(".board").first
    sync_api.expect(shown).to_have_attribute("aria-label", board(other))


# Runs, hints and replays


def ask_for_a_slow_hint(page: Any) -> None:
    """Ask for a hint that takes seconds, and wait until it is computed."""
    set_up(page)
    page.get_by_label("Player", exact=True).select_option("alphabeta")
    page.get_by_label("depth in moves").fill("10")
    page.get_by_label("tiles", exact=True).select_option("chance")
    page.get_by_role("button", name="Hint").click()
    page.wait_for_selector("text=thinking ...")
    assert eventually(page, lambda: me(page)["thinking"])


@pytest.mark.parametrize("how", ["leave", "reload"])
def test_a_hint_ends_when_its_view_is_left(open_page: Open, how: str) -> None:
    page = open_page("2048")
    ask_for_a_slow_hint(page)
    if how == "leave":
        page.locator("nav a", has_text="Leaderboard").click()
    else:
        page.reload()
    assert eventually(page, lambda: not me(page)["thinking"], seconds=5)


def test_an_empty_setting_is_named(open_page: Open) -> None:
    page = open_page("2048")
    page.get_by_label("Player", exact=True).select_option("expectimax")
    for name in ("Hint", "Run"):
        page.get_by_label("depth in moves").fill("")
        page.get_by_role("button", name=name).click()
        text = "depth in moves must be a whole number from 1 to 5, got nothing"
        sync_api.expect(page.locator("#message")).to_have_text(text)


def test_a_double_click_asks_once(open_page: Open) -> None:
    page = open_page("2048")
    page.get_by_role("button", name="Hint").dblclick()
    page.wait_for_selector("text=Best move:")
    assert page.locator("#message").inner_text() == ""


def test_a_move_ends_a_slow_hint_and_another_is_asked_for(open_page: Open) -> None:
    page = open_page("2048")
    ask_for_a_slow_hint(page)
    press_a_legal_arrow(page)
    assert eventually(page, lambda: not me(page)["thinking"], seconds=5)
    page.get_by_role("button", name="Hint").click()
    page.wait_for_selector("text=thinking ...")
    page.get_by_label("Player", exact=True).select_option("reward")
    page.get_by_role("button", name="Hint").click()
    page.wait_for_selector("text=Best move:", timeout=6000)
    sync_api.expect(page.locator("#message")).to_be_empty()


def test_a_slow_step_is_said_to_think(open_page: Open) -> None:
    page = open_page("2048")
    page.route("**/api/2048/run", lambda route: (page.wait_for_timeout(1000), route.continue_()))
    page.keyboard.press(" ")
    page.wait_for_selector("text=thinking ...")
    page.wait_for_selector("text=ms per move")


def test_a_hint_is_shown_as_that_of_its_player(open_page: Open) -> None:
    page = open_page("2048")
    page.get_by_label("Player", exact=True).select_option("expectimax")
    page.route("**/api/2048/hint", lambda route: (page.wait_for_timeout(300), route.continue_()))
    page.get_by_role("button", name="Hint").click()
    page.get_by_label("Player", exact=True).select_option("value-net")
    page.wait_for_selector("text=Best move:")
    assert not page.locator("text=What the network sees").count()


def test_a_key_ends_the_slowest_run_at_once(open_page: Open) -> None:
    """A move of this run takes a second."""
    page = open_page("2048")
    start_of_2048(page, 1)
    page.get_by_label("Player", exact=True).select_option("ntuple")
    page.get_by_label("Speed").fill("0")
    n_moves = n_moves_shown(page)
    page.get_by_role("button", name="Run").click()
    for number in ("1", "2"):
        sync_api.expect(n_moves).to_have_text(number)
    page.get_by_role("button", name="Pause").click()
    press_a_legal_arrow(page)
    sync_api.expect(n_moves).to_have_text("3", timeout=500)


def test_a_run_stops_at_the_tile_that_is_chosen_meanwhile(open_page: Open) -> None:
    page = open_page("2048")
    start_of_2048(page, 1)
    page.get_by_label("Player", exact=True).select_option("ntuple")
    page.get_by_label("Stop at").select_option("16384")
    page.get_by_label("Speed").fill("3")
    page.get_by_role("button", name="Run").click()
    page.get_by_label("Stop at").select_option("2048")
    page.get_by_label("Speed").fill("4")
    sync_api.expect(page.locator("button.main")).to_have_text("Run (R)", timeout=60_000)
    sync_api.expect(page.locator(".numbers dd").nth(1)).to_have_text("2,048")


def test_a_run_that_waits_is_stopped(open_page: Open) -> None:
    page = open_page("2048")
    start_of_2048(page, 1)
    runs: list[str] = []
    page.on("request", lambda sent: runs.append(sent.url) if "2048/run" in sent.url else None)
    delay = "**/api/2048/move"
    page.route(delay, lambda route: (page.wait_for_timeout(300), route.continue_()))
    for key in ("ArrowLeft", "ArrowUp", "r", "r"):
        page.keyboard.press(key)
    sync_api.expect(page.locator("button.main")).to_have_text("Run (R)")
    page.wait_for_timeout(1000)
    assert not runs


def test_a_run_says_few_of_its_moves_and_its_end(open_page: Open) -> None:
    page = open_page("2048")
    start_of_2048(page, 1)
    page.evaluate(
        """() => {
          window.said = 0;
          new MutationObserver(() => { window.said += 1; })
            .observe(document.getElementById("status"), { childList: true });
        }"""
    )
    page.get_by_label("Speed").fill("3")
    page.get_by_role("button", name="Run").click()
    assert eventually(page, lambda: int(n_moves_shown(page).inner_text()) >= 20)
    page.get_by_role("button", name="Pause").click()
    sync_api.expect(page.locator("#status")).to_contain_text("Stopped. Score ")
    assert page.evaluate("window.said") < 10


def test_a_paused_replay_stays_where_it_is_and_goes_on(open_page: Open) -> None:
    page = open_page("2048")
    played = me(page)["game_2048"]
    page.evaluate("localStorage.setItem('speed', '3')")
    page.goto(page.url.partition("#")[0] + "#2048/watch/5/reward//1")
    sync_api.expect(page.locator(".numbers dd").nth(3)).to_have_text("5")
    assert eventually(page, lambda: int(n_moves_shown(page).inner_text()) >= 3)
    page.keyboard.press("r")
    page.wait_for_timeout(300)
    n_shown = int(n_moves_shown(page).inner_text())
    n_moves = me(page)["game_2048"]["n_moves"]
    assert n_shown < n_moves and played != me(page)["game_2048"]
    page.keyboard.press(" ")
    sync_api.expect(n_moves_shown(page)).to_have_text(str(n_shown + 1))
    page.get_by_label("Speed").fill("4")
    page.get_by_role("button", name="Run").click()
    page.wait_for_selector("text=Score on the leaderboard: 1, different here.")
    sync_api.expect(n_moves_shown(page)).to_have_text(str(n_moves))


def test_a_new_match_takes_the_place_of_a_recorded_game(open_page: Open) -> None:
    page = open_page("daihinmin")
    start_of_match(page)
    page.locator("summary", has_text="Recorded games").click()
    page.get_by_label("File").set_input_files(DATA / "mixstrong.jsonl.gz")
    page.get_by_role("button", name="Step through it").click()
    page.wait_for_selector("text=The cards are dealt.")
    page.keyboard.press("ArrowRight")
    assert not page.locator("text=Your turn").count()
    answer_dialogs(page, True)
    page.locator("summary", has_text="New match").click()
    page.get_by_role("button", name="Start").click()
    page.wait_for_selector("text=Your turn")
    assert not page.get_by_role("button", name="Forward").count()


# Sizes and motion


def test_a_board_fits_in_a_low_window_with_the_buttons_of_the_player(open_page: Open) -> None:
    page = open_page("2048", viewport={"width": 740, "height": 360})
    assert page.locator(".board").first.bounding_box()["height"] < 300
    page.set_viewport_size({"width": 375, "height": 740})
    box = page.get_by_role("button", name="Stop").bounding_box()
    assert box["y"] + box["height"] < 740


def test_a_phone_shows_four_columns_and_a_tree_that_scrolls(open_page: Open) -> None:
    page = open_page("2048", viewport={"width": 390, "height": 800})
    page.get_by_role("button", name="Set up a position").click()
    tops = [
        page.get_by_label(f"Tile at row 1, column {i}").bounding_box()["y"] for i in (1, 2, 3, 4)
    ]
    assert len(set(tops)) == 1
    page.get_by_label("Player", exact=True).select_option("mc-softmax")
    page.get_by_label("show lines, outcomes and tree with hints").check()
    page.get_by_role("button", name="Hint").click()
    assert page.locator("svg.tree").bounding_box()["width"] >= 640
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(("width", "is_cut"), [(1280, False), (390, True), (320, True)])
def test_a_tree_that_is_cut_shows_that_it_scrolls(
    open_page: Open, width: int, is_cut: bool
) -> None:
    page = open_page("2048", viewport={"width": width, "height": 800})
    set_up(page)
    page.get_by_label("Player", exact=True).select_option("mc-softmax")
    page.get_by_label("show lines, outcomes and tree with hints").check()
    page.get_by_role("button", name="Hint").click()
    tree = page.get_by_role("region", name="Tree")
    assert tree.evaluate("(node) => node.scrollWidth > node.clientWidth") == is_cut
    assert "local" in tree.evaluate("(node) => getComputedStyle(node).backgroundAttachment")
    values = page.get_by_role("region", name="Values of the moves")
    assert values.evaluate("(node) => node.scrollWidth <= node.clientWidth")


@pytest.mark.parametrize(
    ("player", "meaning"),
    [
        ("expectimax", "expected score to come"),
        ("alphabeta", "evaluation"),
        ("reward", "reward"),
    ],
)
def test_a_hint_says_what_its_values_are(open_page: Open, player: str, meaning: str) -> None:
    page = open_page("2048")
    page.get_by_label("Player", exact=True).select_option(player)
    page.get_by_label("show lines, outcomes and tree with hints").check()
    page.get_by_role("button", name="Hint").click()
    page.wait_for_selector("text=Best move")
    assert page.locator("thead th").nth(1).inner_text() == meaning
    if player == "expectimax":
        assert page.locator("text=best moves by expectimax of depth 1;").count() == 1


def test_no_question_is_asked_before_wrong_input_is_refused(open_page: Open) -> None:
    page = open_page("2048")
    press_a_legal_arrow(page)
    asked: list[str] = []
    page.on("dialog", lambda dialog: asked.append(dialog.message))
    answer_dialogs(page, is_agreed=False)
    page.get_by_label("seed", exact=True).fill("-1")
    page.get_by_role("button", name="New game").click()
    sync_api.expect(page.locator("#message")).to_contain_text("seed must be")
    assert not asked


def test_keys_wait_for_the_answer_to_an_undo(open_page: Open) -> None:
    page = open_page("2048")
    for number in ("1", "2"):
        press_a_legal_arrow(page)
        sync_api.expect(n_moves_shown(page)).to_have_text(number)
    page.route("**/api/2048/undo", lambda route: (page.wait_for_timeout(200), route.continue_()))
    page.keyboard.press("u")
    page.keyboard.press("u")
    sync_api.expect(n_moves_shown(page)).to_have_text("0")
    sync_api.expect(page.locator("#message")).to_be_empty()


def test_nothing_to_undo_is_said_and_not_an_error(open_page: Open) -> None:
    page = open_page("2048")
    start_of_2048(page, 3)
    page.keyboard.press("u")
    sync_api.expect(page.locator("#status")).to_have_text("There is nothing to undo.")
    sync_api.expect(page.locator("#message")).to_be_empty()


def test_a_position_that_is_set_up_has_the_focus(open_page: Open) -> None:
    page = open_page("2048")
    page.get_by_role("button", name="Set up a position").click()
    page.get_by_role("button", name="Start from here").click()
    page.wait_for_selector("fieldset", state="detached")
    assert page.evaluate("document.activeElement.className").startswith("board")


def test_a_network_is_replaced_only_if_agreed(
    open_page: Open, new_server: Callable[..., Server]
) -> None:
    server = new_server()  # whose place for a network is free
    server.load()
    page = open_page("learn", server.address)
    asked: list[str] = []
    answers = [False, True]

    def answer(dialog: Any) -> None:
        asked.append(dialog.message)
        (dialog.accept if answers[len(asked) - 1] else dialog.dismiss)()

    starts: list[str] = []
    page.on("dialog", answer)
    page.on("request", lambda sent: starts.append(sent.url) if "learn/start" in sent.url else None)
    start = page.get_by_role("button", name="Train from scratch")
    page.get_by_label("Seconds", exact=True).fill("1")
    start.click()
    page.wait_for_selector("text=mean score of the last", timeout=120_000)
    sync_api.expect(page.get_by_role("button", name="Continue training")).to_be_enabled(
        timeout=60_000
    )
    assert not asked
    learned = page.evaluate(CURVE)
    for n_starts in (1, 2):
        with page.expect_event("dialog"):
            start.click()
        assert asked == ["Replace your trained network?"] * n_starts
        page.wait_for_timeout(300)
        assert len(starts) == n_starts
        if n_starts == 1:
            assert page.evaluate(CURVE) == learned
    assert eventually(page, lambda: page.evaluate(CURVE) != learned)


def test_a_network_without_values_is_said_to_be_prepared(open_page: Open) -> None:
    page = open_page("learn")
    state = {"running": True, "exists": False, "error": "", "curve": [], "sample": {}}
    page.route("**/api/learn/start", lambda route: route.fulfill(json=state))
    page.route("**/api/learn", lambda route: route.fulfill(json=state))
    page.get_by_role("button", name="Train from scratch").click()
    page.wait_for_selector("text=The network is being prepared")


def test_a_sample_game_is_shown_to_its_end_while_the_network_learns(open_page: Open) -> None:
    boards = [[i, *[0] * 15] for i in range(1, 12)]
    point = {"seconds": 1.0, "n_moves": 9, "n_games": 2, "mean_score": 5.0}
    learning = {"exists": True, "running": True, "error": ""}
    learning["curve"] = [{**point, "reach_2048": 0.0, "max_tile": 64}]
    scores = iter(range(1000))

    def answer(route: Any) -> None:
        route.fulfill(json={**learning, "sample": {"boards": boards, "score": next(scores)}})

    page = open_page("2048")
    page.route("**/api/learn", answer)
    page.get_by_role("link", name="Learn").click()
    page.wait_for_selector("text=reach 2048")
    until_the_end = """() => new Promise((resolve) => {
      const seen = new Set(), board = document.querySelector(".board");
      new MutationObserver(() => {
        seen.add(Number(board.querySelector(".tile").textContent));
        if (seen.has(2048)) resolve([...seen]);
      }).observe(board, { childList: true });
    })"""
    page.evaluate(until_the_end)
    assert page.evaluate(until_the_end) == [2**i for i in range(1, 12)]  # of the next game


def test_a_refused_start_is_not_said_to_learn(open_page: Open) -> None:
    page = open_page("learn")
    page.get_by_label("Seconds", exact=True).fill("9999")
    page.get_by_role("button", name="Train from scratch").click()
    sync_api.expect(page.locator("#message")).not_to_be_empty()
    sync_api.expect(page.locator("#status")).to_have_text("Learn")
