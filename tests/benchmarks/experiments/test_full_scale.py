"""The arithmetic of the full experiments, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.experiments.full_scale import RESULTS, Work, table

PAGE = Path(__file__).parents[3] / "docs" / "cluster.md"


def test_cores_beyond_the_number_of_calls_do_not_help() -> None:
    work = Work("runs", 7_200_000, "moves", rate=1_000, calls=4)
    assert [work.hours(cores) for cores in (1, 2, 4, 64)] == [2, 1, 0.5, 0.5]


@pytest.mark.skipif(not RESULTS.exists(), reason="needs the results of a checkout")
def test_the_page_has_the_hours_of_the_committed_results() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")
