"""The figure of strength: its slopes, and that the rows and players that it names exist."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from afterstate.envs.json_files import Row
from benchmarks.pretrained import strength
from benchmarks.pretrained.strength import Point


def test_a_slope_is_the_gain_by_ten_times_as_many_moves() -> None:
    points = [Point(1e7, 100, 5), Point(1e8, 130, 5), Point(1e9, 160, 5)]
    assert strength.slope(points)[0] == pytest.approx(30)


def test_moves_before_a_run_are_added_to_its_own() -> None:
    alone, after = strength.greedy_scores("late"), strength.greedy_scores("late", before=4e9)
    assert [each.x + 4e9 for each in alone] == [each.x for each in after]


@pytest.mark.slow
def test_the_figure_has_all_players_that_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strength.main(["--out", str(tmp_path / "strength.svg")])
    drawn = (tmp_path / "strength.svg").read_text()
    assert all(f"<!-- package, {name} -->" in drawn for name in ("1-ply to 4-ply", "500 nodes"))
    assert "points for ten times as many moves" in capsys.readouterr().out
    fast, slow = strength.player_scores("expectimax, 3-ply", "N-tuple network")
    assert 0 < 20 * fast.x < slow.x and fast.score < slow.score


def test_times_are_those_of_all_searches_in_whole_games() -> None:
    every: Row = {"lines": [{"search": search} for search in strength.SEARCHES.values()]}
    old, new = {**every, "seed": 1}, {**every, "seed": 2, "last": 0}
    others = [{**every, "last": 150}, {"lines": every["lines"][1:]}]
    assert strength.measured_searches([old, new, *others]) is new
    assert strength.measured_searches([old, *others]) is old
    with pytest.raises(ValueError, match=r"rows must have one of .*regrets depth=1 "):
        strength.measured_searches(others)


def test_all_searches_of_the_figure_have_a_score_and_a_time() -> None:
    assert len(strength.player_scores(*strength.SEARCHES)) == len(strength.SEARCHES)
