"""Tests of logs: games of players, recorded games, and files."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate.agents import files
from afterstate.agents.daihinmin.learning.game_records import (
    Log,
    join,
    load_log,
    play_log,
    read_log,
    save_log,
)
from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent, RandomAgent, SampleAgent
from afterstate.agents.daihinmin.values.history import decisions
from afterstate.envs.daihinmin import plays
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.records.replay import read
from afterstate.envs.daihinmin.rules import GAME, Game, play, rewind, write_legal
from tests.support.daihinmin.logs import moves_of, same

DATA = Path(__file__).parents[3] / "data" / "daihinmin"
RECORDED = sorted(path.name for path in DATA.glob("*.jsonl.gz") if "positions" not in path.name)


def part(log: Log, rows: slice) -> Log:
    """Return some games of a log."""
    return Log(log.games[rows], log.last_random[rows], log.students[rows])


class Watched:
    """A player that records which of its moves it was asked for."""

    def __init__(self, player: Player, asked: set[tuple[int, int]]) -> None:
        self._player, self._asked = player, asked

    def choose(self, view: Game) -> int:
        """Return the player's choice."""
        self._asked.add((int(view["number"]), int(view["n_actions"])))
        return self._player.choose(view)

    def give(self, view: Game, n: int) -> int:
        """Return the player's gift."""
        return self._player.give(view, n)


# Played


def test_a_log_without_chance_is_a_match_of_its_players() -> None:
    players: list[Player] = [SampleAgent(), HeuristicAgent(), *[SampleAgent()] * 3]
    log = play_log(players, 6, 3)
    seed = int(np.random.default_rng(3).integers(2**63))
    for game, expected in zip(log.games, play_match(players, 6, seed), strict=True):
        assert moves_of(game) == moves_of(expected)
        assert game["places"].tolist() == expected["places"].tolist()
        assert game["turn"] == -1
    assert (log.last_random == -1).all()


def test_after_100_games_another_match_begins() -> None:
    log = play_log([SampleAgent()] * 5, 102, 1)
    assert log.games["number"].tolist() == [*range(1, 101), 1, 2]
    assert len(set(log.games["seed"].tolist())) == 2
    assert (log.games["classes"][[0, 100]] == -1).all()


def test_the_seed_decides_a_log() -> None:
    first, again, other = (play_log([SampleAgent()] * 5, 4, seed, 0.2) for seed in (1, 1, 2))
    assert same(first, again)
    assert not same(first, other)


@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_the_last_random_move_is_the_last_one_that_the_player_did_not_choose(
    epsilon: float,
) -> None:
    """Of moves with a choice, about the share of `epsilon` is random."""
    asked: set[tuple[int, int]] = set()
    log = play_log([Watched(SampleAgent(), asked)] * 5, 20, 7, epsilon)
    n_random = total = 0
    for game, last in zip(log.games, log.last_random, strict=True):
        had_choice = with_choice(game)
        chance = {k for k in range(game["n_actions"]) if (int(game["number"]), k) not in asked}
        assert last == max(chance, default=-1)
        assert chance <= had_choice
        n_random, total = n_random + len(chance), total + len(had_choice)
    deviation = (n_random - epsilon * total) / np.sqrt(epsilon * (1 - epsilon) * total)
    assert abs(deviation) < 4


def with_choice(game: Game) -> set[int]:
    """Return the numbers of the actions of players that had a legal play."""
    again, listed = game.copy(), np.empty(plays.N_PLAYS, np.int64)
    rewind(again)
    numbers = set()
    for k, (_, move) in enumerate(moves_of(game)):
        if write_legal(again, listed):
            numbers.add(k)
        play(again, move)
    return numbers


def test_every_move_with_a_choice_can_be_random() -> None:
    log = play_log([RandomAgent(1)] * 5, 3, 1, 1.0)
    assert [max(with_choice(game)) for game in log.games] == log.last_random.tolist()


def test_moves_before_the_last_random_move_are_no_decisions() -> None:
    log = play_log([SampleAgent()] * 5, 30, 2, 0.03)
    assert 0 < np.count_nonzero(log.last_random >= 0) < 30
    _, facts = decisions(log.games, log.last_random, False)
    _, all_facts = decisions(log.games, np.full(30, -1), False)
    kept = [fact for fact in all_facts.tolist() if fact[1] >= log.last_random[fact[2]]]
    assert facts.tolist() == kept
    assert len(kept) < len(all_facts)


def test_gifts_are_no_decisions_if_any_move_was_random() -> None:
    log = play_log([SampleAgent()] * 5, 40, 3, 0.05)
    log.last_random[20:30] = 0
    _, facts = decisions(log.games, log.last_random, True)
    _, all_facts = decisions(log.games, np.full(40, -1), True)
    _, without = decisions(log.games, np.full(40, -1), False)
    gifts = np.bincount(all_facts[:, 2], minlength=40) - np.bincount(without[:, 2], minlength=40)
    assert gifts.tolist() == [0, *[2] * 39]
    _, moves = decisions(log.games, log.last_random, False)
    kept = np.bincount(facts[:, 2], minlength=40) - np.bincount(moves[:, 2], minlength=40)
    assert kept.tolist() == [
        n if last < 0 else 0 for n, last in zip(gifts, log.last_random, strict=True)
    ]
    assert 0 < kept.sum()


def test_joined_logs_follow_each_other() -> None:
    first, second = play_log([SampleAgent()] * 5, 2, 1), play_log([SampleAgent()] * 5, 3, 2, 0.5)
    both = join([first, second])
    assert same(part(both, slice(2)), first)
    assert same(part(both, slice(2, None)), second)


# Recorded


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_games_are_read_as_they_were_played(name: str) -> None:
    log, entries = read_log(DATA / name), list(read(DATA / name))
    assert len(log.games) == len(entries) > 0
    assert (log.last_random == -1).all()
    for game, entry in zip(log.games, entries, strict=True):
        assert game["number"] == entry["game"]
        assert game["seats"].tolist() == entry["seats"]
        assert np.argsort(game["places"]).tolist() == entry["finish"]
        recorded = [
            (action["p"], plays.parse(action["m"]) if action["ack"] == 9 else plays.PASS)
            for action in entry["actions"]
        ]
        assert moves_of(game) == recorded
    afters, _ = decisions(log.games, log.last_random, True)
    assert len(afters) > len(entries)


def test_recorded_games_exist() -> None:
    assert len(RECORDED) >= 5


def changed(change: Callable[[Any], None], tmp_path: Path, packed: bool = False) -> Path:
    """Write a file of two recorded games, the second one changed."""
    entries = list(read(DATA / "full1.jsonl.gz"))[:2]
    entries = copy.deepcopy([entries[0], entries[-1]])
    change(entries[1])
    path = tmp_path / ("games.jsonl.gz" if packed else "games.jsonl")
    with gzip.open(path, "wt") if packed else open(path, "w") as file:
        file.writelines(json.dumps(entry) + "\n" for entry in entries)
    return path


def test_a_file_may_be_compressed_or_plain(tmp_path: Path) -> None:
    logs = [read_log(changed(lambda entry: None, tmp_path, packed)) for packed in (False, True)]
    assert same(*logs)


WRONG: dict[str, Callable[[Any], Any]] = {
    "no deal": lambda entry: entry.pop("deal"),
    "a card twice": lambda entry: entry["deal"].__setitem__(0, entry["deal"][1]),
    "another player's turn": lambda entry: entry["actions"][0].update(
        p=(entry["actions"][0]["p"] + 1) % 5
    ),
    "cut off": lambda entry: entry["actions"].pop(),
    "an action too many": lambda entry: entry["actions"].append(entry["actions"][-1]),
    "no number": lambda entry: entry.update(seats="abcde"),
    "places twice": lambda entry: entry.update(finish=[0, 0, 1, 2, 3]),
    "other places": lambda entry: entry["finish"].reverse(),
    "no notation": lambda entry: entry["actions"][0].update(m=7),
    "no hand": lambda entry: entry.update(deal=[None] * 5),
    "seats that do not exist": lambda entry: entry.update(seats=[10**12, 4, 1, 0, 3]),
    "classes that do not exist": lambda entry: entry.update(class_reset=False, classes=[7] * 5),
    "one hand": lambda entry: entry.update(deal=[" ".join(entry["deal"]), "", "", "", ""]),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_game_that_breaks_the_rules_is_named(wrong: str, tmp_path: Path) -> None:
    path = changed(WRONG[wrong], tmp_path)
    with pytest.raises(ValueError, match=r"games\.jsonl: game 2"):
        read_log(path)


def test_a_file_without_games_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    with pytest.raises(ValueError, match=r"empty\.jsonl has no games"):
        read_log(path)
    path.write_text("no JSON\n")
    with pytest.raises(ValueError, match="line 1 is not JSON"):
        read_log(path)
    with pytest.raises(FileNotFoundError):
        read_log(tmp_path / "missing.jsonl")


@pytest.mark.parametrize("packed", [False, True])
def test_a_torn_last_line_costs_that_line(
    packed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = changed(lambda entry: None, tmp_path)
    n = len(read_log(whole).games)
    data = whole.read_bytes()[:-100]
    path = tmp_path / ("torn.jsonl.gz" if packed else "torn.jsonl")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert len(read_log(path).games) == n - 1
    assert f"torn.jsonl{'.gz' if packed else ''}: line {n} is not JSON" in caplog.text
    if packed:
        caplog.clear()
        path.write_bytes(path.read_bytes()[:-200])
        assert 1 <= len(read_log(path).games) < n
        assert "left out: 1" in caplog.text


# Files


def test_saved_games_are_loaded_unchanged(tmp_path: Path) -> None:
    log = play_log([HeuristicAgent()] * 5, 5, 1, 0.1)
    save_log(log, tmp_path / "log.npz")
    again = load_log(tmp_path / "log.npz")
    assert same(log, again)
    assert again.games.dtype == GAME
    facts = [decisions(each.games, each.last_random, True)[1].tolist() for each in (log, again)]
    assert facts[0] == facts[1]


def test_some_of_the_games_can_be_saved(tmp_path: Path) -> None:
    log = play_log([SampleAgent()] * 5, 6, 1)
    some = part(log, slice(None, None, 2))
    save_log(some, tmp_path / "log.npz")
    assert same(load_log(tmp_path / "log.npz"), some)


def test_another_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    with pytest.raises(FileNotFoundError):
        load_log(path)
    path.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="file of afterstate"):
        load_log(path)
    files.write(path, "ntuple", {}, {"games": np.zeros(3)})
    with pytest.raises(ValueError, match=r"'ntuple'.*'daihinmin-log'"):
        load_log(path)


def test_a_damaged_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    save_log(play_log([SampleAgent()] * 5, 2, 1), path)
    whole = path.read_bytes()
    for data in (whole[: len(whole) // 2], whole[:-1], whole[:400] + b"\0\1\2" + whole[403:]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"log\.npz"):
            load_log(path)


def test_games_of_other_rules_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    save_log(play_log([SampleAgent()] * 5, 2, 1), path)
    header, arrays = files.read(path)
    rest = {key: header[key] for key in header if key not in ("format", "version", "kind")}
    files.write(path, header["kind"], {**rest, "record": rest["record"][:-1]}, arrays)
    with pytest.raises(ValueError, match="rules"):
        load_log(path)


Arrays = dict[str, Any]

DAMAGED: dict[str, Callable[[Arrays], Any]] = {
    "no students": lambda arrays: arrays.pop("students"),
    "one more": lambda arrays: arrays.update(more=np.zeros(2)),
    "another length": lambda arrays: arrays.update(last_random=np.zeros(3, np.int64)),
    "another type": lambda arrays: arrays.update(students=np.ones(2)),
    "no dimension": lambda arrays: arrays.update(students=np.array(1)),
    "games of another size": lambda arrays: arrays.update(games=np.zeros((2, 8), np.uint8)),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_other_arrays_are_rejected(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    save_log(play_log([SampleAgent()] * 5, 2, 1), path)
    header, arrays = files.read(path)
    DAMAGED[damage](arrays)
    files.write(path, header["kind"], {"record": header["record"]}, arrays)
    with pytest.raises(ValueError, match=r"log\.npz.*arrays"):
        load_log(path)


def swap_actions(game: Game) -> None:
    """Return moves in another order."""
    game["actions"][:2] = game["actions"][1::-1].copy()


UNLIKE: dict[str, Callable[[Log], Any]] = {
    "longer than any": lambda log: log.games["n_actions"].__setitem__(1, 1_061),
    "of negative length": lambda log: log.games["n_actions"].__setitem__(1, -1),
    "not to its end": lambda log: log.games["n_actions"].__setitem__(1, 7),
    "not over": lambda log: log.games["turn"].__setitem__(1, 0),
    "a play that there is not": lambda log: log.games["actions"].__setitem__((1, 3), 65_535),
    "another order": lambda log: swap_actions(log.games[1]),
    "a place twice": lambda log: log.games["places"].__setitem__(1, [0, 0, 2, 3, 4]),
    "a sixth place": lambda log: log.games["places"].__setitem__((1, 0), 5),
    "a sixth seat": lambda log: log.games["seats"].__setitem__((1, 0), 5),
    "a sixth class": lambda log: log.games["classes"].__setitem__((1, 0), 5),
    "a sixth starter": lambda log: log.games["starter"].__setitem__(1, 5),
    "a card twice": lambda log: log.games["hands"].__setitem__(1, log.games["played"][1]),
    "a card too few": lambda log: log.games["played"].__setitem__((1, 0), 0),
    "another count of cards": lambda log: log.games["left"].__setitem__((1, 0), 3),
    "a random move after the last": lambda log: log.last_random.__setitem__(1, 1_000),
    "a viewer": lambda log: log.games["viewer"].__setitem__(1, 99),
    "a lock of 7": lambda log: log.games["lock"].__setitem__(1, 7),
    "a hand of 49 cards": lambda log: log.games["given"].__setitem__((1, 0), (1 << 49) - 1),
    "a sixth student": lambda log: log.students.__setitem__(1, 32),
}


@pytest.mark.parametrize("unlike", UNLIKE)
def test_a_saved_game_that_breaks_the_rules_is_named(unlike: str, tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    log = play_log([SampleAgent()] * 5, 2, 1)
    UNLIKE[unlike](log)
    save_log(log, path)
    with pytest.raises(ValueError, match=r"log\.npz: game 2"):
        load_log(path)


@pytest.mark.parametrize("name", RECORDED)
def test_saved_recorded_games_are_loaded_unchanged(name: str, tmp_path: Path) -> None:
    log = read_log(DATA / name)
    save_log(log, tmp_path / "log.npz")
    assert same(load_log(tmp_path / "log.npz"), log)
