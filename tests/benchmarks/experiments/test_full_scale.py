"""The arithmetic of the full experiments, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterstate.envs import json_files
from afterstate.leaderboard import gzip_rows
from benchmarks.experiments import full_scale
from benchmarks.experiments.full_scale import (
    MOVES,
    RESULTS,
    Work,
    divided,
    rates,
    searched,
    table,
    works,
)

PAGE = Path(__file__).parents[3] / "docs" / "cluster.md"


def test_cores_beyond_the_number_of_calls_do_not_help() -> None:
    work = divided("runs", 7_200_000, "moves", rate=1_000, cpu="any", n_calls=4)
    assert work.rate == 1_000
    assert [work.hours(cores) for cores in (1, 2, 3, 4, 64)] == [2, 1, 1, 0.5, 0.5]


def test_a_core_takes_the_longest_call_that_is_left() -> None:
    work = Work("runs", 1, "run", [hours * 3600 for hours in (1, 5, 2, 4, 3, 3)], "any")
    assert [work.hours(cores) for cores in (1, 2, 3, 4)] == [18, 9, 6, 5]


@pytest.mark.skipif(not RESULTS.exists(), reason="needs the results of a checkout")
def test_no_work_is_shorter_than_its_longest_run() -> None:
    (work,) = (each for each in works() if "search in self-play" in each.name)
    runs = [n / rates("search")[name].a_second / 3600 for name, n in searched().items()]
    assert work.hours(1) == pytest.approx(5 * sum(runs))
    assert work.hours(1024) == pytest.approx(max(runs))
    assert work.hours(16) > max(5 * sum(runs) / 16, max(runs))


def test_a_rate_is_that_of_the_slowest_run_with_the_most_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_scale, "RESULTS", tmp_path)
    cpus = ("AMD EPYC (family 26, model 2)", "AMD EPYC (family 25, model 1)", "Intel(R) Xeon(R)")
    made = [
        {"run": "a", "share": share, "moves": n * share, "seconds": n * share / rate}
        | {"machine": {"cpu": cpu}, "scale": {"moves": n}}
        for n, rate, cpu in zip((1e9, 1e9, 1e8), (500, 300, 900), cpus, strict=True)
        for share in (0.5, 1)
    ]
    path = tmp_path / "experiments" / "quasi_greedy" / "restart.jsonl"
    path.parent.mkdir(parents=True)
    json_files.append(path, made)
    assert rates("restart") == {"a": (300, "EPYC")}


@pytest.mark.skipif(not RESULTS.exists(), reason="needs the results of a checkout")
def test_moves_of_a_game_are_those_of_the_leaderboard() -> None:
    """Games of several players have 27 to 29 points a move."""
    rows = list(gzip_rows.rows(RESULTS / "leaderboard" / "2048" / "expectimax-3-ply.jsonl.gz"))
    points = sum(row["score"] for row in rows) / sum(row["moves"] for row in rows)
    assert MOVES == pytest.approx(530_000 / points, rel=0.05)


@pytest.mark.skipif(not RESULTS.exists(), reason="needs the results of a checkout")
def test_the_page_has_the_hours_of_the_committed_results() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")
