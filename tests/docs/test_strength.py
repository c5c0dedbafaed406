"""The figures of the page on strength are those of the committed rows."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from statistics import median

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from afterstate.agents.training.evaluation import half_interval
from afterstate.envs import json_files
from afterstate.envs.json_files import Row
from benchmarks.pretrained import ablations, strength

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"

pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="needs the results of a checkout")

DELAYED = "forward, delayed by 3 moves"


@pytest.fixture(scope="module")
def page() -> str:
    """Return the text of the page."""
    return (ROOT / "docs" / "strength.md").read_text(encoding="utf-8")


def test_regrets(page: str) -> None:
    *_, row = json_files.rows(RESULTS / "search_regrets.jsonl")
    lines = {line["search"]: line for line in row["lines"]}
    shown = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert len(shown) >= 12
    for search, nodes, time, regret in shown:
        line = lines[search.strip("| `")]
        assert nodes == f"{line['nodes']:,.0f}"
        assert float(time.split()[0]) == pytest.approx(line["us"] / 1e3, rel=0.05)
        assert regret.strip(" |") == f"{line['regret']:.1f} ± {line['interval']:.1f}"


def test_regrets_at_the_end_of_games(page: str) -> None:
    (row,) = json_files.rows(RESULTS / "search_regrets_late.jsonl")
    lines = {line["search"]: line for line in row["lines"]}
    text = " ".join(page.split())
    extended, six, four, seven = (
        f"{lines[search]['regret']:.1f} ± {lines[search]['interval']:.1f}"
        for search in ("depth=4,extend=3", "depth=6", "depth=4", "depth=7,cutoff=1e-3")
    )
    assert f"it loses {extended} points, 6-ply search in 80% of the time {six}" in text
    assert (
        f"not extended {four} and 7-ply with a cutoff of 0.001, in half of the time, {seven}"
        in text
    )
    time = lines["depth=4,extend=3"]["us"]
    assert lines["depth=6"]["us"] / time == pytest.approx(0.8, abs=0.05)
    assert lines["depth=7,cutoff=1e-3"]["us"] / time == pytest.approx(0.5, abs=0.06)


def test_games_that_pass_a_score(page: str) -> None:
    rows = json_files.rows(RESULTS / "search_steps.jsonl")
    passed = {row["search"]: np.array([*row["passed"]], int) for row in rows}
    text = " ".join(page.split())
    shares = [
        f"{passed[search].mean():.1%}"
        for search in ("depth=2", "depth=3", "depth=4", "depth=3,extend=3")
    ]
    sentence = "2-ply search passes 400,000 points in {}, 3-ply in {}, 4-ply in {} and extended"
    assert f"{sentence.format(*shares)} 3-ply in {shares[-1]} of them" in text
    extended, four = passed["depth=4,extend=3"], passed["depth=4"]
    n = len(extended)
    gain = extended - four[:n]
    half = half_interval(gain)
    assert (
        f"Of the first {n} it is {extended.mean():.1%} by extended 4-ply search and "
        f"{four[:n].mean():.1%} by 4-ply ({gain.mean():+.1%} ± {half:.1%})"
    ) in text
    assert gain.mean() > half
    for search, each in passed.items():  # "the other differences are not significant"
        if search != "depth=4,extend=3":
            gain = each - four[: len(each)]
            assert abs(gain.mean()) <= half_interval(gain)


def test_threads(page: str) -> None:
    rows = json_files.rows(RESULTS / "search_threads.jsonl")
    runs = [{line["search"]: line for line in row["lines"]} for row in rows]
    pairs = {
        search: [(run[search], run[f"{search},threads=2"]) for run in runs]
        for search in ("depth=3", "depth=4", "depth=5", "depth=6", "depth=4,extend=3")
    }
    less = {
        search: [one["wall_us"] / two["wall_us"] for one, two in each]
        for search, each in pairs.items()
    }
    four, five, six, extended = (f"{median(each):.1f}" for each in list(less.values())[1:])
    text = " ".join(page.split())
    assert f"on two free cores {four} times as fast by 4-ply, {five} times by 5-ply" in text
    assert f"{six} times by 6-ply and {extended} times by extended 4-ply search" in text
    deep = [ratio for search, each in less.items() for ratio in each if search != "depth=3"]
    assert f"single runs vary from {min(deep):.1f} to {max(deep):.1f} times" in text
    assert len(rows) == 3 and max(less["depth=3"]) < 1
    more = [
        two["us"] / one["us"]
        for name, each in pairs.items()
        if name != "depth=3"
        for one, two in each
    ]
    assert f"up to {max(more):.1f} times as much CPU time" in text
    for one, two in (pair for each in pairs.values() for pair in each):  # "lose as much"
        assert two["regret"] == pytest.approx(one["regret"], abs=0.3)
    players = (ROOT / "docs" / "players.md").read_text(encoding="utf-8")
    assert f"{four} to {five} times as fast" in players


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


def last_row(name: str) -> Row:
    """Return the last row of a run of the ablations."""
    row: Row = json_files.rows(RESULTS / "ablations" / f"{ablations.file_name(name)}.jsonl")[-1]
    return row


def score(name: str, depth: str) -> int:
    """Return the last score of a run of the ablations, rounded."""
    mean: float = last_row(name)[depth]["mean"]
    return round(mean)


def difference(name: str, against: str) -> list[int]:
    """Return what a run scores more than another one, greedily and by 2-ply search."""
    depths = "1-ply", "2-ply"
    return [round(score(name, depth) - score(against, depth), -3) for depth in depths]


def cell(name: str, against: str, depth: str) -> str:
    """Return what a run scores more than another one, in thousands; in bold if significant."""
    one, other = (last_row(each)[depth] for each in (name, against))
    gain, half = one["mean"] - other["mean"], math.hypot(one["interval"], other["interval"])
    text = f"{round(gain, -3):+,.0f}" if round(gain, -3) else "0"
    return f"**{text}**" if abs(gain) > half else text


NAMES = [
    "restart",
    "stages",
    "stages, carousel",
    "stages, restart",
    "stages, carousel, restart",
    "late stages, carousel",
    "stages by sets of tiles, carousel",
    "stages, carousel, within stages",
    "stages, late ones optimistic",
    "stages, games from positions of searches",
    "stages, games from made-up boards",
    "8x6, restart",
    "8x6",
    "4x6+5x4, restart",
    "4x6+5x4",
    "4x6+5x4, stages",
    "restart, downgraded from 16384",
    "TD at the rate 0.1",
    "lambda 0",
    "forward",
    "forward, delayed by 3 moves",
    "rates of at least 0.02",
    "forward, optimistic",
]
"""Runs of the ablations, in the order of the table."""


def test_the_table_of_ablations_has_their_differences(page: str) -> None:
    table = page[page.index("| change | against |") :].partition("\n\n")[0].splitlines()[2:]
    assert {*NAMES, "one stage"} == {*ablations.RUNS} and len(table) == len(NAMES)
    for line, name in zip(table, NAMES, strict=True):
        _, against, *cells = (part.strip() for part in line.strip("|").split(" | "))
        assert cells == [cell(name, against, depth) for depth in ("1-ply", "2-ply")]


def test_shares_of_games_that_reach_a_tile(page: str) -> None:
    text = " ".join(page.split())
    searched, before = (
        last_row(name)["1-ply"]["reached"]
        for name in ("stages, games from positions of searches", "stages")
    )
    assert f"a 16384 in {searched['16384']:.0%} instead of {before['16384']:.0%} of" in text
    downgraded = last_row("restart, downgraded from 16384")["1-ply"]["reached"]["32768"]
    assert f"bring {downgraded:.1%} instead of none of the greedy games" in text


def test_the_ablations_have_as_many_settings(page: str) -> None:
    ended = sum(
        (RESULTS / "ablations" / f"{ablations.file_name(name)}.jsonl").exists()
        for name in ablations.RUNS
    )
    hours = sum(last_row(name)["seconds"] for name in ablations.RUNS) / 3600
    assert f"{ended} of {len(ablations.RUNS)} settings, after 1e9, in {hours:.1f} hours" in page
    assert f"All took {hours:.1f} hours of a core" in page


def test_differences_of_searches(page: str) -> None:
    path = RESULTS / "leaderboard" / "2048_differences.csv"
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    four_plies = next(row for row in rows if row["points more than"] == "expectimax, 4-ply")
    text = " ".join(page.split())
    for sentence, other in (
        ("That is {} less than 4-ply search", "expectimax, 7-ply, cutoff 0.001"),
        ("4-ply against 3-ply is +{} (", "expectimax, 3-ply"),
    ):
        mean, half = (round(float(part), -3) for part in four_plies[other].split(" ± "))
        assert sentence.format(f"{mean:,.0f} ± {half:,.0f}") in text


def test_slopes(page: str) -> None:
    base, late = strength.greedy_scores("base"), strength.greedy_scores("late", strength.BASE)
    whole, half = (round(part, -3) for part in strength.slope(base + late))
    text = " ".join(page.split())
    assert f"ten times as many moves are worth {whole:,.0f} ± {half:,.0f} points greedily" in text
    for part, end in (
        ([each for each in late if each.x < strength.CHANGED], " between 4.5e9 and 7.8e9"),
        ([each for each in late if each.x > strength.CHANGED], " from there on"),
    ):
        gain, half = (round(number, -3) for number in strength.slope(part))
        assert f"{gain:,.0f} ± {half:,.0f}{end}" in text


def test_steps_of_the_late_game(page: str) -> None:
    text = " ".join(page.split())
    shares = []
    for row in json_files.rows(RESULTS / "late_game.jsonl"):
        games = {line["score"]: line["games"] for line in row["lines"]}
        shares += [round(100 * (1 - games[s + 20_000] / games[s])) for s in (380_000, 620_000)]
    assert f"380,000 points {shares[0]}% end before 400,000" in text
    assert (
        f"due, {shares[1]}% before 640,000; by 2-ply search {shares[2]}% and {shares[3]}%" in text
    )
