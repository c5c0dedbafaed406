"""Games of players that are measured: their parts, and their rows after an interruption."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy")

from afterstate import agents
from afterstate.agents.game2048.play import play
from afterstate.agents.training.evaluation import EVALUATION_SEED, summary
from afterstate.agents.training.workers import ALONE, Workers
from afterstate.envs import json_files
from afterstate.envs.json_files import Row
from benchmarks.experiments.entries import chunks, entry_id, play_entries, play_part, row_of

ENTRIES: list[Row] = [
    {"player": "alphabeta", "settings": {"depth": 1}, "games": 7, "chunk": 3},
    {"player": "alphabeta", "settings": {"depth": 2}, "games": 4},
]


def player_of(entry: Row) -> Any:
    """Return the player of an entry."""
    return agents.make(entry["player"], **entry["settings"])


def play_some(log: Path, entry: Row, seeds: range) -> Row:
    """Play some games, and write their seeds to a log."""
    json_files.append(log, [[seeds[0], len(seeds)]])
    return play_part(entry, seeds, player_of(entry), bits=32)


def interrupted(n: int, log: Path, entry: Row, seeds: range) -> Row:
    """Play some games, until n parts have been played."""
    if len(json_files.rows(log)) == n:
        raise KeyboardInterrupt
    return play_some(log, entry, seeds)


def without_times(rows: list[Row]) -> list[Row]:
    """Return rows without what depends on the machine."""
    return [
        {key: value for key, value in row.items() if key not in ("cpu_us_per_move", "machine")}
        for row in rows
    ]


def test_chunks_have_all_seeds_once() -> None:
    assert [len(each) for each in chunks(ENTRIES[0])] == [3, 3, 1]
    seeds = [seed for each in chunks(ENTRIES[0]) for seed in each]
    assert seeds == list(range(EVALUATION_SEED, EVALUATION_SEED + 7))
    assert [len(each) for each in chunks(ENTRIES[1])] == [4]


@pytest.mark.parametrize(
    "workers",
    [ALONE, pytest.param(Workers(2), marks=pytest.mark.slow)],
    ids=["one process", "two"],
)
def test_rows_are_those_of_all_games(tmp_path: Path, workers: Workers) -> None:
    path = tmp_path / "games.jsonl"
    play_entries(path, ENTRIES, partial(play_some, tmp_path / "log"), workers, tiles=(16,))
    rows = sorted(json_files.rows(path), key=lambda row: -row["games"])
    for row, entry in zip(rows, ENTRIES, strict=True):
        games = play(player_of(entry), entry["games"], EVALUATION_SEED)
        expected = {**entry, **summary(games), "moves": int(games.n_moves.sum())}
        expected["reached"] = {"16": float((games.max_tiles >= 16).mean()), **expected["reached"]}
        expected |= {"seed": EVALUATION_SEED, "bits": 32}
        assert {key: row[key] for key in expected} == expected
        assert row["cpu_us_per_move"] > 0 and row["machine"]["numba"]
    assert sorted(json_files.rows(tmp_path / "log")) == [
        [EVALUATION_SEED + first, n] for first, n in ((0, 3), (0, 4), (3, 3), (6, 1))
    ]
    assert not (tmp_path / "games.parts.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("n", range(5))
def test_games_of_an_interrupted_player_are_kept(tmp_path: Path, n: int) -> None:
    whole, path, log = tmp_path / "whole.jsonl", tmp_path / "games.jsonl", tmp_path / "log"
    play_entries(whole, ENTRIES, partial(play_some, tmp_path / "other"), ALONE)
    if n < 4:
        with pytest.raises(KeyboardInterrupt):
            play_entries(path, ENTRIES, partial(interrupted, n, log), ALONE)
    for _ in range(2):
        play_entries(path, ENTRIES, partial(play_some, log), ALONE)
    assert len(json_files.rows(log)) == 4  # each part once
    assert without_times(json_files.rows(path)) == without_times(json_files.rows(whole))


def test_a_row_is_written_once_though_its_parts_are_still_there(tmp_path: Path) -> None:
    path, log = tmp_path / "games.jsonl", tmp_path / "log"
    parts = [play_some(log, ENTRIES[0], seeds) for seeds in chunks(ENTRIES[0])]
    row = row_of(parts)
    json_files.append(tmp_path / "games.parts.jsonl", parts[::-1])
    for _ in range(2):  # killed before the row, and after it
        play_entries(path, ENTRIES[:1], partial(play_some, log), ALONE)
        assert json_files.rows(path) == [row] and entry_id(row) == entry_id(ENTRIES[0])
        json_files.append(tmp_path / "games.parts.jsonl", parts)
    assert len(json_files.rows(log)) == 3


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 3), (4, 6), (6, 5), (3, 7)])
def test_parts_of_another_size_do_not_count(tmp_path: Path, before: int, after: int) -> None:
    path, log, entry = tmp_path / "games.jsonl", tmp_path / "log", ENTRIES[0]
    with pytest.raises(KeyboardInterrupt):
        play_entries(
            path, [entry | {"chunk": before}], partial(interrupted, 7 // before, log), ALONE
        )
    play_entries(path, [entry | {"chunk": after}], partial(play_some, log), ALONE)
    (row,) = json_files.rows(path)
    games = play(player_of(entry), 7, EVALUATION_SEED)
    assert {key: row[key] for key in summary(games)} == summary(games) and row["chunk"] == after
    assert not (tmp_path / "games.parts.jsonl").exists()


@pytest.mark.parametrize("wrong", [{"games": 0}, {"chunk": 0}, {"chunk": -1}, {"chunk": "5"}])
def test_wrong_numbers_of_games_are_refused(tmp_path: Path, wrong: Row) -> None:
    (key,) = wrong
    with pytest.raises(ValueError, match=rf"^{key} must be an integer >= 1, got {wrong[key]!r}"):
        play_entries(
            tmp_path / "games.jsonl", [ENTRIES[0] | wrong], partial(play_some, tmp_path), ALONE
        )


@pytest.mark.parametrize("part", [{"a": 1}, 3, {"cell": ENTRIES[0], "seed": 1}])
def test_a_file_of_something_else_is_refused(tmp_path: Path, part: Any) -> None:
    json_files.append(tmp_path / "games.parts.jsonl", [part])
    with pytest.raises(
        ValueError, match=r"games.parts.jsonl must have parts of games, got .*: del"
    ):
        play_entries(tmp_path / "games.jsonl", ENTRIES, partial(play_some, tmp_path), ALONE)
