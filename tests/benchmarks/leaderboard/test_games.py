"""Tests of the games of the leaderboard: entries, players, seeds and fingerprints."""

from __future__ import annotations

import hashlib
import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import afterstate.envs  # noqa: F401 - registers the environments
from afterstate import agents
from afterstate.agents.game2048.values.ntuple_file import save
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.envs.json_files import Row
from afterstate.leaderboard import games as leaderboard_games
from afterstate.leaderboard.__main__ import main
from afterstate.leaderboard.command import PUBLISHED, README
from afterstate.leaderboard.games import (
    OPPONENTS,
    Entry,
    entries,
    entry_fields,
    fingerprint,
    make,
    play_games,
    seeds,
)
from afterstate.leaderboard.rows import of_same_player, rows_file
from afterstate.leaderboard.rows import read as read_rows
from tests.support.leaderboard import ENTRIES, RANDOM, SAMPLE, file_of, run

pytestmark = pytest.mark.usefixtures("short_cycles")


def test_seeds_are_the_published_ones() -> None:
    output = {game: seeds(game) for game in ("2048", "daihinmin")}
    assert {game: len(each) for game, each in output.items()} == {"2048": 4000, "daihinmin": 400}
    assert all(len(set(each)) == len(each) and min(each) >= 0 for each in output.values())
    assert output["2048"][:3] == [924710231, 1282943413, 255094356]
    digest = hashlib.sha256(json.dumps(output).encode()).hexdigest()
    assert digest == "0e85d1ece8e1dc426a1bf2a4851f3194218906cb1e5c32a7946f43641a485c1e"


def test_games_equal_those_of_the_environment() -> None:
    rows = play_games(Entry("2048", "by reward", "reward", {}, 2, 2), seeds("2048")[:2])
    for row in rows:
        env = gym.make("Game2048-v0")
        observation, _ = env.reset(seed=row["seed"])
        agent, score, moves, over = agents.make("reward", seed=row["seed"]), 0.0, 0, False
        while not over:
            observation, reward, over, _, _ = env.step(agent.predict(observation)[0])
            score, moves = score + float(reward), moves + 1
        assert (row["score"], row["moves"]) == (score, moves)
        assert row["max_tile"] == 1 << int(np.max(observation))
        assert row["cpu_seconds"] > 0


def test_games_in_a_batch_equal_games_alone(bots: ModuleType) -> None:
    entry = Entry("2048", "a table", "bots:table_of", {"value": 2.0}, 4, 4)
    together = play_games(entry, [1, 2, 3, 4])
    apart = [row for seed in (1, 2, 3, 4) for row in play_games(entry, [seed])]
    for row in (*together, *apart):
        del row["cpu_seconds"]
    assert together == apart
    assert len({row["score"] for row in together}) > 1


def test_random_players_have_the_seed_of_their_game(bots: ModuleType) -> None:
    ours, theirs = RANDOM, RANDOM._replace(player="bots:by_chance")
    fixed = RANDOM._replace(settings={"seed": 1})
    games = [play_games(each, [5, 9]) for each in (ours, theirs, fixed)]
    scores = [[row["score"] for row in rows] for rows in games]
    assert scores[0] == scores[1] != scores[2]


def test_a_cycle_has_the_same_four_opponents() -> None:
    rows = play_games(SAMPLE, [77])
    assert [row["number"] for row in rows] == [1, 2, 3]
    assert sorted(rows[0]["players"]) == sorted((SAMPLE.name, *OPPONENTS))
    for row in rows:
        assert row["players"] == rows[0]["players"]
        assert sorted(row["places"]) == [0, 1, 2, 3, 4]
        assert row["decisions"] > 0
        assert row["cpu_seconds"] > 0
    again = play_games(SAMPLE, [77])
    assert [row["places"] for row in again] == [row["places"] for row in rows]
    other = play_games(SAMPLE, [78])
    assert [row["places"] for row in other] != [row["places"] for row in rows]


def test_players_of_files_and_their_fingerprints(tmp_path: Path, bots: ModuleType) -> None:
    net = network([[0, 1], [4, 5]])
    net.weights[3] = 5
    save(net, tmp_path / "net.npz")
    entry = Entry("2048", "a file", str(tmp_path / "net.npz"), {}, 1, 1)
    named = Entry("2048", "a", "expectimax", {"network": str(tmp_path / "net.npz")}, 1, 1)
    result = [fingerprint(make(each, 0)) for each in (entry, named)]
    assert result[0] == result[1] is not None
    net.weights[3] = 6
    assert fingerprint(agents.make("ntuple", network=net)) != result[0]
    assert fingerprint(agents.make("random")) is None
    with pytest.raises(ValueError, match="no settings"):
        make(entry._replace(settings={"depth": 2}), 0)
    different = [fingerprint(bots.table_of(value)) for value in (1.0, 2.0)]
    assert different[0] != different[1]


@pytest.mark.slow
def test_published_rows_are_of_the_package_s_networks() -> None:
    named = {each.name: each for each in entries(leaderboard_games.OWN)}
    for name in ("N-tuple network", "MC Softmax, 500 simulations"):
        rows = read_rows(PUBLISHED, named[name])
        assert len(rows) == named[name].games
        assert of_same_player(rows, entry_fields(named[name])) == rows


def test_files_in_settings_and_modules_are_relative_to_the_entries(tmp_path: Path) -> None:
    net = network([[0, 1], [4, 5]])
    save(net, tmp_path / "mine.npz")
    (tmp_path / "a_module_of_theirs.py").write_text(
        "from afterstate import agents\n\ndef greedy():\n    return agents.make('reward', seed=1)\n"
    )
    output: Row = {
        "search": {"player": "expectimax", "settings": {"network": "mine.npz"}, "games": 1},
        "greedy": {"player": "a_module_of_theirs:greedy", "games": 1},
    }
    search, greedy = entries(file_of(tmp_path, {"2048": output}))
    assert fingerprint(make(search, 0)) == fingerprint(agents.load(tmp_path / "mine.npz"))
    assert make(greedy, 0).act(np.array([0x11], np.uint64)).shape == (1,)


def test_batches_are_only_for_players_that_take_them(bots: ModuleType) -> None:
    alone = [
        RANDOM,
        Entry("2048", "search", "expectimax", {"tuples": "5x4", "depth": 1}, 6, 3),
    ]
    assert [entry_fields(entry)["at_once"] for entry in alone] == [1, 1]
    net = Entry("2048", "by a network", "policy-net", {}, 6, 3)
    assert entry_fields(net)["at_once"] == 3


def test_only_players_of_the_package_play_whole_games(bots: ModuleType) -> None:
    theirs = Entry("2048", "forger", "bots:Forger", {}, 6, 3)
    assert entry_fields(theirs)["at_once"] == 3
    ours = Entry("2048", "greedy", "alphabeta", {"depth": 1}, 6, 3)
    scores = [[row["score"] for row in play_games(of, seeds("2048")[:3])] for of in (theirs, ours)]
    assert scores[0] == scores[1]


@pytest.mark.parametrize(
    "name", ["daihinmin-policy", "daihinmin-rank", "daihinmin-mc", "value-net"]
)
def test_learned_players_have_fingerprints(name: str) -> None:
    result = [fingerprint(agents.make(name)) for _ in range(2)]
    assert result[0] == result[1] is not None


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ([], "games"),
        ({"2048": {"a": 3}}, "names"),
        ({"chess": {"a": {"player": "random", "games": 1}}}, "game must"),
        ({"2048": {"a": {"games": 1}}}, "player"),
        ({"2048": {"a": {"player": "random"}}}, "games"),
        ({"2048": {"a": {"player": "random", "games": 1, "depth": 3}}}, "depth"),
        ({"2048": {"a": {"player": 5, "games": 1}}}, "player"),
        ({"2048": {"a": {"player": "random", "games": True}}}, "games"),
        ({"2048": {"a": {"player": "random", "settings": [1], "games": 1}}}, "settings"),
        ({"2048": {n: {"player": "random", "games": 1} for n in ("a-b", "A b")}}, "names"),
        ({"2048": {"a" * 101: {"player": "random", "games": 1}}}, "name"),
        ({"2048": {"?": {"player": "random", "games": 1}}}, "names"),
        ({"2048": {"a|b": {"player": "random", "games": 1}}}, "name"),
        ({"2048": {r"$\frac b$": {"player": "random", "games": 1}}}, "name"),
        ({"2048": {"a": {"player": "./bots.py:Stuck", "games": 1}}}, "module"),
        (
            {"2048": {"PPO": {"player": "random", "games": 1}}},
            "PPO",
        ),
        ({"2048": {"a": {"player": "json:loads", "games": 1}}}, "'a': TypeError: loads"),
        ({"2048": {"a": {"player": "daihinmin-sample", "games": 1}}}, "player of 2048"),
        ({"daihinmin": {"a": {"player": "random", "games": 1}}}, "player of daihinmin"),
        ({"2048": {"a": {"player": "json:JSONDecoder", "games": 1}}}, "player of 2048"),
        ({"2048": {"a": {"player": "random", "games": 0}}}, "games"),
        ({"2048": {"a": {"player": "random", "games": 3, "chunk": 2}}}, "chunk"),
        ({"2048": {"a": {"player": "random", "games": 4001}}}, "games"),
        ({"2048": {"a": {"player": "nobody", "games": 1}}}, "no player 'nobody'"),
        ({"2048": {"a": {"player": "json:nothing", "games": 1}}}, "json:nothing"),
        ({"2048": {"a": {"player": "bots:broken", "games": 1}}}, "'a': KeyError: 'no such thing'"),
        ({"2048": {"a": {"player": "no_such:thing", "games": 1}}}, "no_such"),
        ({"2048": {"a": {"player": "random", "settings": {"x": 1}, "games": 1}}}, "setting"),
        ({"2048": {"a": {"player": "nowhere.npz", "games": 1}}}, "nowhere.npz"),
        ({"daihinmin": {"daihinmin-rank": {"player": "daihinmin-rank", "games": 1}}}, "opponent"),
    ],
    ids=str,
)
def test_wrong_entries_are_rejected(
    tmp_path: Path, bots: ModuleType, output: Any, message: str
) -> None:
    file_of(tmp_path, output)
    with pytest.raises((OSError, ValueError, SystemExit), match=message):
        run("play", tmp_path)
    assert not list(tmp_path.rglob("*.gz"))


def test_an_unwritable_folder_is_named_before_games(tmp_path: Path) -> None:
    file_of(tmp_path, ENTRIES)
    (tmp_path / "file").touch()
    options = ["--entries", str(tmp_path / "entries.json"), "--rows", str(tmp_path / "file")]
    with pytest.raises((OSError, ValueError, SystemExit), match="file"):
        main(["play", *options])


def test_entries_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = file_of(tmp_path, {"2048": {"random": ENTRIES["2048"]["random"]}})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [entry.name for entry in entries(path)] == ["random"]


def test_duplicate_names_are_rejected(tmp_path: Path) -> None:
    one = '"a": {"player": "random", "games": 1}'
    (tmp_path / "entries.json").write_text(f'{{"2048": {{{one}, {one}}}}}', encoding="utf-8")
    with pytest.raises((OSError, ValueError, SystemExit), match=r"duplicate"):
        run("play", tmp_path)


def test_a_module_with_the_name_of_another_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "fractions.py").write_text("def make(): ...", encoding="utf-8")
    file_of(tmp_path, {"2048": {"a": {"player": "fractions:Fraction", "games": 1}}})
    with pytest.raises((OSError, ValueError, SystemExit), match=r"fractions\.py"):
        run("play", tmp_path)


def test_missing_entries_and_rows_are_reported(tmp_path: Path) -> None:
    file_of(tmp_path, ENTRIES)
    with pytest.raises((OSError, ValueError, SystemExit), match="only must match entries"):
        run("play", tmp_path, "--only", "nobody", "random", "chess/random")
    with pytest.raises((OSError, ValueError, SystemExit), match="rows"):
        run("report", tmp_path)
    path = rows_file(tmp_path, RANDOM)
    path.parent.mkdir()
    path.write_bytes(b"no rows at all")
    with pytest.raises((OSError, ValueError, SystemExit), match=r"random\.jsonl\.gz is damaged"):
        run("verify", tmp_path, "--only", "random")
    with pytest.raises((OSError, ValueError, SystemExit), match=r"missing\.json"):
        main(["play", "--entries", str(tmp_path / "missing.json")])


def test_the_checkout_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(leaderboard_games.HERE)
    file = tmp_path / "link" / "games.py"
    output = spec_from_file_location("linked", file)
    assert output and output.loader
    linked = module_from_spec(output)
    output.loader.exec_module(linked)
    assert linked.entries(linked.OWN) == entries(leaderboard_games.OWN)


@pytest.mark.slow
def test_the_entries_of_the_package_can_be_made() -> None:
    output = entries(leaderboard_games.OWN)
    players = {entry.player for entry in output}
    assert set(agents.names()) <= players
    for entry in output:
        make(entry, 1)
    assert README.exists()
