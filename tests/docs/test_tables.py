"""The leaderboard's tables on the site, which sort by the column that is clicked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browsers import needs_browser, running

pytestmark = [pytest.mark.slow, *needs_browser]

ASSETS = Path(__file__).parents[2] / "docs" / "assets"
ROWS = [
    ("b", "1,200 ± 30", "2 ms", "16"),
    ("c", "90 ± 5", "30 µs", "-"),
    ("a", "10,000 ± 7", "1 s", ""),
    ("d", "900", "", "7"),
]


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """A page with a table and the script."""
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in ROWS)
    heads = "".join(f"<th>{name}</th>" for name in ("player", "score", "time", "games"))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    for browser in running():
        opened = browser.new_page()
        opened.set_content(f"<h1>Leaderboard</h1><div class='md-typeset'>{table}</div>")
        opened.add_script_tag(path=ASSETS / "tables.js")
        yield opened


def clicked(page: Any, column: str) -> tuple[str, str]:
    """Return the players in the order of a column that was clicked, and how it is sorted."""
    page.get_by_role("button", name=column).click()
    players = page.locator("tbody tr td:first-child").all_text_contents()
    head = page.locator("th", has=page.get_by_role("button", name=column))
    return "".join(players), head.get_attribute("aria-sort")


@pytest.mark.parametrize(
    ("column", "first", "second"),
    [
        ("player", ("abcd", "ascending"), ("dcba", "descending")),
        ("score", ("abdc", "descending"), ("cdba", "ascending")),
        ("time", ("abcd", "descending"), ("cbad", "ascending")),
    ],
)
def test_a_click_sorts_and_another_one_turns_the_order(
    page: Any, column: str, first: tuple[str, str], second: tuple[str, str]
) -> None:
    """Numbers begin with the largest, and cells without a value stay at the end."""
    assert (clicked(page, column), clicked(page, column)) == (first, second)


def test_players_stay_in_view_while_a_table_is_scrolled_sideways(page: Any) -> None:
    page.add_style_tag(path=ASSETS / "site.css")
    scroller, cells = page.locator(".md-typeset"), page.locator("tbody tr:first-child td")
    scroller.evaluate("each => Object.assign(each.style, {width: '160px', overflowX: 'auto'})")
    score = cells.nth(1).bounding_box()["x"]
    scroller.evaluate("each => { each.scrollLeft = 40; }")
    assert cells.nth(0).bounding_box()["x"] == scroller.bounding_box()["x"]
    assert cells.nth(1).bounding_box()["x"] == score - 40


def test_texts_among_numbers_come_after_them(page: Any) -> None:
    orders = {clicked(page, "games")[0] for _ in range(2)}
    assert orders == {"cbda", "dbca"}
