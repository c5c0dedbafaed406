"""The figures of the page on strength are those of the committed rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterstate.envs import json_files

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"

pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="needs the results of a checkout")


@pytest.fixture(scope="module")
def page() -> str:
    """Return the text of the page."""
    return (ROOT / "docs" / "strength.md").read_text(encoding="utf-8")


def test_regrets(page: str) -> None:
    *_, row = json_files.rows(RESULTS / "search_regrets.jsonl")
    lines = {line["search"]: line for line in row["lines"]}
    shown = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert len(shown) >= 7
    for search, nodes, time, regret in shown:
        line = lines[search.strip("| `")]
        assert nodes == f"{line['nodes']:,.0f}"
        assert float(time.split()[0]) == pytest.approx(line["us"] / 1e3, rel=0.05)
        assert regret.strip(" |") == f"{line['regret']:.1f} ± {line['interval']:.1f}"


def test_late_games(page: str) -> None:
    greedy, search = json_files.rows(RESULTS / "late_game.jsonl")
    by_search = {line["score"]: line for line in search["lines"]}
    for line in greedy["lines"]:
        if line["score"] % 100_000 == 0:
            both = [line, by_search[line["score"]]]
            cells = [f"{each[k]:,}" for each in both for k in ("games", "expected", "scored")]
            assert f"| {line['score']:,} | {' | '.join(cells)} |" in page


def test_networks(page: str) -> None:
    for run in ("base", "late", "early_end", "joined"):
        last = json_files.rows(RESULTS / "ntuple_network" / f"{run}.jsonl")[-1]["1-ply"]
        assert f"| {last['mean']:,.0f} ± {last['interval']:,.0f} | {last['n_games']:,} |" in page


def test_the_study(page: str) -> None:
    ends = {}
    for name in (
        *("one_stage", "restart", "8x6_restart", "4x6+5x4_restart"),
        *("stages", "stages_carousel", "stages_restart", "stages_carousel_restart"),
        *("stages_by_sets_of_tiles_carousel", "lambda_0", "TD_at_the_rate_0.1"),
        *("forward", "forward_delayed_by_3_moves", "forward_optimistic"),
        "4x6+5x4_stages",
    ):
        ends[name] = json_files.rows(RESULTS / "study" / f"{name}.jsonl")[-1]

    def gain(name: str, against: str, depth: str) -> str:
        """Return the gain of a run in thousands, as the page has it."""
        return f"{abs(round(ends[name][depth]['mean'] - ends[against][depth]['mean'], -3)):,.0f}"

    text = " ".join(page.split())
    for depth in ("1-ply", "2-ply"):
        assert gain("restart", "one_stage", depth) in text
        assert gain("8x6_restart", "restart", depth) in text
        assert gain("4x6+5x4_restart", "restart", depth) in text
        assert gain("stages", "one_stage", depth) in text
        assert gain("stages_carousel", "stages", depth) in text
        assert gain("stages_restart", "restart", depth) in text
        assert gain("4x6+5x4_stages", "stages", depth) in text
        assert gain("TD_at_the_rate_0.1", "one_stage", depth) in text
        assert gain("forward", "one_stage", depth) in text
        assert gain("stages_by_sets_of_tiles_carousel", "stages_carousel", depth) in text
        assert gain("stages_carousel_restart", "restart", depth) in text
