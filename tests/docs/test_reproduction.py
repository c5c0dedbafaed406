"""The page of what was reproduced has the verdicts of the result pages."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reproduction.md"
RESULTS = ROOT / "benchmarks" / "results" / "experiments"

PAGES = {
    "Quasi-greedy learning": [
        f"quasi_greedy/{name}.md" for name in ("restart", "epsilon", "good_plays", "search")
    ],
    "Inside policy networks": ["policy_nets/README.md"],
    "Monte-Carlo Softmax search": ["mc_softmax/README.md"],
    "Expected places in Daihinmin": ["daihinmin/generations.md", "daihinmin/logs.md"],
    "2048-AI": ["alphabeta/README.md"],
}
"""Result pages of a paper, by the beginning of its heading."""

pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="needs the results of a checkout")


def verdicts(section: str) -> list[str]:
    """Return the lines of the first table of a section, without its head."""
    lines = section.split("\n|", 1)[1].split("\n\n")[0].splitlines()
    return lines[2:]


@pytest.mark.parametrize("paper", PAGES)
def test_claims_have_the_verdicts_of_the_result_pages(paper: str) -> None:
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {paper}")[1].split("\n## ")[0]
    expected = []
    for name in PAGES[paper]:
        page = (RESULTS / name).read_text(encoding="utf-8")
        expected += verdicts(page.split("\n## What was reproduced\n")[1].split("\n## ")[0])
    assert verdicts(section) == expected
    assert len(expected) >= len(PAGES[paper])
    assert all(row.count(" | ") == 3 for row in expected)
