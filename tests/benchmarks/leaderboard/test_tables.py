"""Rows and tables of the leaderboard, by hand."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from afterstate.envs.json_files import Row
from afterstate.leaderboard import games as leaderboard_games
from afterstate.leaderboard import gzip_rows
from afterstate.leaderboard.games import (
    OPPONENTS,
    Entry,
    entry_fields,
    play_games,
    process_fields,
    seeds,
)
from afterstate.leaderboard.results import Result, front, result
from afterstate.leaderboard.rows import missing, row_error, rows_by_seed
from afterstate.leaderboard.tables import PAIRS, as_csv, machines, pairs, table, top

RANDOM = Entry("2048", "random", "random", {}, 2)
SAMPLE = Entry("daihinmin", "the sample client", "daihinmin-sample", {}, 1)


@pytest.fixture(autouse=True)
def _short_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaderboard_games, "CYCLE", 3)


# Rows


def test_what_is_appended_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a" / "rows.jsonl.gz"
    assert list(gzip_rows.rows(path)) == []
    gzip_rows.append(path, [{"a": 1}, {"a": "ä"}])
    gzip_rows.append(path, [{"a": [None]}])
    assert list(gzip_rows.rows(path)) == [{"a": 1}, {"a": "ä"}, {"a": [None]}]


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_rows_before_one_that_was_cut_off_are_kept(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "rows.jsonl.gz"
    gzip_rows.append(path, [{"a": i} for i in range(50)])
    gzip_rows.append(path, [{"a": i} for i in range(90)])
    path.write_bytes(path.read_bytes()[:-cut])
    assert list(gzip_rows.rows(path)) == [{"a": i} for i in range(50)]
    gzip_rows.repair(path)
    gzip_rows.append(path, [{"a": "last"}])
    assert list(gzip_rows.rows(path)) == [*({"a": i} for i in range(50)), {"a": "last"}]


def test_of_a_game_that_was_played_twice_the_later_row_counts() -> None:
    rows = [{"seed": seed, "score": seed % 100} for seed in seeds("2048")[:2]]
    again = {**rows[0], "score": 100}
    first, second = (row["seed"] for row in rows)
    assert rows_by_seed(RANDOM, [*rows, again]) == {first: [again], second: [rows[1]]}


def test_rows_of_other_seeds_and_parts_of_cycles_do_not_count() -> None:
    seed = seeds("daihinmin")
    whole = [{"seed": seed[0], "number": i} for i in (1, 2, 3)]
    part = [{"seed": seed[1], "number": i} for i in (1, 2)]
    other = [{"seed": seed[5], "number": i} for i in (1, 2, 3)]
    entry = SAMPLE._replace(games=2)
    played = rows_by_seed(entry, [*whole, *part, *other])
    assert played == {seed[0]: whole}
    assert missing(entry, played) == [[seed[1]]]
    assert missing(entry._replace(chunk=2), played) == [[seed[0], seed[1]]]
    assert missing(SAMPLE, played) == []


def test_places_and_players_of_rows_are_checked() -> None:
    row = {**entry_fields(SAMPLE), **process_fields(), **play_games(SAMPLE, [77])[0]}
    assert row_error(row, "daihinmin") == ""
    assert row_error({**row, "places": [0, 0, 1, 2, 3]}, "daihinmin").startswith("places must")
    assert row_error({**row, "players": ["me"] * 5}, "daihinmin").startswith("players must")
    del row["commit"]
    assert row_error(row, "daihinmin").startswith("['commit'] missing")
    assert row_error([], "2048").startswith("must be an object")  # type: ignore[arg-type]


# Tables


def rows_2048(
    scores: list[int], tiles: list[int], seconds: float = 0.5, name: str = "a"
) -> list[Row]:
    head = {"game": "2048", "name": name, "player": "p", "settings": {}, "at_once": 1}
    head["machine"] = {"cpu": "an abacus"}
    games = [{"score": s, "max_tile": t} for s, t in zip(scores, tiles, strict=True)]
    return [
        {**head, "seed": i, "moves": 100, "cpu_seconds": seconds, **each}
        for i, each in enumerate(games)
    ]


def test_standings_of_2048_by_hand() -> None:
    results = result(rows_2048([1000, 3000, 2000, 30000], [128, 256, 2048, 4096]), 4)
    assert (results.name, results.games, results.points, results.seconds) == ("a", 4, 9000.0, 0.005)
    assert results.more["median"] == 2500
    assert (results.more["2048"], results.more["4096"], results.more["8192"]) == (0.5, 0.25, 0)
    assert 1000 < results.low < 9000 < results.high < 30000
    many = result(rows_2048([*range(10_000, 11_000)], [1024] * 1000), 1000)
    assert many.high - many.low == pytest.approx(2 * 1.96 * 288.7 / 1000**0.5, rel=0.1)


def test_standings_of_daihinmin_by_hand() -> None:
    players = ["me", *OPPONENTS]
    head = {"game": "daihinmin", "name": "me", "player": "p", "settings": {}, "at_once": 1}
    head |= {"players": players, "decisions": 10, "cpu_seconds": 0.02, "machine": {"cpu": "x"}}
    places = [[0, 1, 2, 3, 4], [1, 0, 2, 3, 4], [4, 0, 1, 2, 3], [0, 4, 3, 2, 1]]
    rows = [{**head, "seed": i // 2, "number": i % 2 + 1, "places": places[i]} for i in range(4)]
    results = result(rows, 4)
    assert results.points == (500 + 400 + 100 + 500) / 4
    assert results.seconds == pytest.approx(0.002)
    assert (results.more["1st"], results.more["2nd"], results.more["5th"]) == (0.5, 0.25, 0.25)
    assert results.more[OPPONENTS[0]] == 0.5
    assert results.more[OPPONENTS[3]] == 0.75
    # two cycles of 450 and 300 points: 375 plus or minus 12.7 standard errors of 75
    assert results.high - results.points == pytest.approx(12.706 * 75, rel=1e-3)
    assert "375.0" in table([results], "daihinmin")
    assert "± 953" in top([results], "daihinmin")
    one_cycle = top([result(rows[:2], 2)], "daihinmin")
    assert "450.0 |" in one_cycle and "nan" not in one_cycle


def test_the_table_is_also_written_as_csv() -> None:
    results = [
        result(rows_2048([9000, 9100], [512, 2048], 0.0001, name="strong"), 2),
        result(rows_2048([1000, 1100], [64, 128], name="weak"), 30),
        result(rows_2048([7], [4], name="once"), 1),
    ]
    lines = table(results, "2048").splitlines()
    assert " | median | 2048 | batch | " in lines[0]  # no player has a 4096
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| strong", "| weak", "| once"]
    assert "50.0%" in lines[2] and "1 µs" in lines[2] and "5 ms" in lines[3]
    mean = "1,050 (1,000\u00a0to\u00a01,100)"
    assert lines[2].startswith("| strong | 2 | 9,050 (9,000\u00a0to\u00a09,100) | 8,000 to 8,000 |")
    assert lines[3].startswith(f"| weak | 2 of 30 | {mean} | not significant | {mean} |")
    assert lines[4].startswith("| once | 1 | 7 |  | 7 |")
    rows = list(csv.DictReader(io.StringIO(as_csv(results))))
    assert [row["player"] for row in rows] == ["strong", "weak", "once"]
    assert float(rows[0]["mean"]) == 9050
    assert float(rows[1]["cpu_seconds_each"]) == 0.005
    assert rows[0]["machine"] == "an abacus"


def test_the_note_names_the_machines_and_who_played_on_each() -> None:
    fast, slow = (result(rows_2048([8], [4], name=name), 1) for name in ("fast", "slow"))
    assert machines([fast, slow]) == "Times are CPU times of one core: an abacus."
    slow = slow._replace(machine="a slide rule")
    assert machines([slow, fast]).endswith(": a slide rule: *slow*; an abacus: *fast*.")


def test_a_player_without_measurable_time_has_a_speed() -> None:
    results = result(rows_2048([1000, 3000], [128, 256], 0.0), 2)
    assert "200,000,000 |" in table([results], "2048")  # 200 moves in a microsecond


def test_pairs_are_compared_on_the_seeds_of_both() -> None:
    one = result(rows_2048([10, 20, 30, 40], [2] * 4, name="one"), 4)
    other = result(rows_2048([10, 5, 60], [2] * 3, name="other"), 3)
    assert pairs([one, other], *PAIRS["pairs"]).splitlines() == [
        "more points than,one,other",
        "one,,0.500",  # a tie, a win and a loss
        "other,0.500,",
    ]
    half = 1.96 * 525**0.5 / 3**0.5  # of 0, 15 and -30
    assert pairs([one, other], *PAIRS["differences"]).splitlines() == [
        "points more than,one,other",
        f"one,,-5.0 ± {half:.1f}",
        f"other,5.0 ± {half:.1f},",
    ]
    single = result(rows_2048([10], [2], name="single"), 1)
    assert pairs([one, single], *PAIRS["differences"]).splitlines()[1] == "one,,"


def test_the_front_has_those_that_no_faster_player_reaches() -> None:
    def one(name: str, points: float, seconds: float) -> Result:
        return Result("2048", name, "", 1, 1, points, 0, 0, seconds, {}, {})

    results = front(
        [one("c", 5, 3), one("a", 2, 1), one("b", 1, 2), one("d", 5, 4), one("e", 1, 1)]
    )
    assert [each.name for each in results] == ["a", "c"]
