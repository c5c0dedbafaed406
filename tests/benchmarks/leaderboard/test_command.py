"""The leaderboard: what it plays, the rows it keeps, and what it says of them."""

from __future__ import annotations

import hashlib
import json
import math
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import afterstate.envs  # noqa: F401 - registers the environments
from afterstate import agents
from afterstate.agents.game2048.values.ntuple import network, save
from benchmarks import row_files
from benchmarks.leaderboard import command as leaderboard
from benchmarks.leaderboard import games as leaderboard_games
from benchmarks.leaderboard.command import README, main
from benchmarks.leaderboard.games import (
    GAMES,
    OPPONENTS,
    Entry,
    entries,
    entry_fields,
    fingerprint,
    make,
    play_games,
    seeds,
)
from benchmarks.leaderboard.rows import current, rows_file
from benchmarks.row_files import Row

RANDOM = Entry("2048", "random", "random", {}, 6, 3)
SAMPLE = Entry("daihinmin", "the sample client", "daihinmin-sample", {}, 1, 1)


@pytest.fixture(autouse=True)
def _short_cycles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Cycles are short, and no rows are published."""
    monkeypatch.setattr(leaderboard_games, "CYCLE", 3)
    monkeypatch.setattr(leaderboard, "RESULTS", tmp_path / "published")


@pytest.fixture
def bots(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A third party's module: players of 2048 by chance and without."""
    module = ModuleType("bots")

    def by_chance(seed: int) -> Any:
        return agents.make("random", seed=seed)

    def table_of(value: float = 1.0) -> Any:
        net = network([[0, 1, 2]])
        net.weights[:] = value * np.arange(net.weights.size)
        return agents.make("ntuple", network=net)

    def broken() -> Any:
        raise KeyError("no such thing")

    def quits() -> Any:
        sys.exit("not today")

    class Stuck:
        """Answers with a move that is illegal sooner or later."""

        def act(self, boards: Any) -> Any:
            return np.zeros(len(boards), np.int8)

    class Forger:
        """Would play whole games itself, and tell its own score."""

        size = 5

        def act(self, boards: Any) -> Any:
            return agents.make("alphabeta", depth=1).act(boards)

        def finish(self, games: Any) -> Any:
            raise AssertionError("it was let to")

    for made in (by_chance, table_of, broken, quits, Stuck, Forger):
        monkeypatch.setattr(module, made.__name__, made, raising=False)
    monkeypatch.setitem(sys.modules, "bots", module)
    return module


def file_of(folder: Path, told: Row) -> Path:
    path = folder / "entries.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    return path


def run(command: str, folder: Path, *more: str) -> None:
    main([command, "--entries", str(folder / "entries.json"), "--rows", str(folder), *more])


def all_rows(folder: Path) -> list[Row]:
    return [row for path in sorted(folder.rglob("*.gz")) for row in row_files.read(path)]


# What is played


def test_the_seeds_are_those_that_were_published() -> None:
    told = {game: seeds(game) for game in ("2048", "daihinmin")}
    assert {game: len(each) for game, each in told.items()} == {"2048": 4000, "daihinmin": 400}
    assert all(len(set(each)) == len(each) and min(each) >= 0 for each in told.values())
    assert told["2048"][:3] == [924710231, 1282943413, 255094356]
    digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()
    assert digest == "0e85d1ece8e1dc426a1bf2a4851f3194218906cb1e5c32a7946f43641a485c1e"


def test_a_game_is_that_of_the_environment() -> None:
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


def test_games_side_by_side_are_those_played_alone(bots: ModuleType) -> None:
    entry = Entry("2048", "a table", "bots:table_of", {"value": 2.0}, 4, 4)
    together = play_games(entry, [1, 2, 3, 4])
    apart = [row for seed in (1, 2, 3, 4) for row in play_games(entry, [seed])]
    for row in (*together, *apart):
        del row["cpu_seconds"]
    assert together == apart
    assert len({row["score"] for row in together}) > 1


def test_players_by_chance_have_the_seed_of_their_game(bots: ModuleType) -> None:
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
    found = [fingerprint(make(each, 0)) for each in (entry, named)]
    assert found[0] == found[1] is not None
    net.weights[3] = 6
    assert fingerprint(agents.make("ntuple", network=net)) != found[0]
    assert fingerprint(agents.make("random")) is None
    with pytest.raises(ValueError, match="no settings"):
        make(entry._replace(settings={"depth": 2}), 0)
    different = [fingerprint(bots.table_of(value)) for value in (1.0, 2.0)]
    assert different[0] != different[1]


def test_files_in_settings_and_modules_are_beside_the_entries(tmp_path: Path) -> None:
    net = network([[0, 1], [4, 5]])
    save(net, tmp_path / "mine.npz")
    (tmp_path / "a_module_of_theirs.py").write_text(
        "from afterstate import agents\n\ndef greedy():\n    return agents.make('reward', seed=1)\n"
    )
    told: Row = {
        "search": {"player": "expectimax", "settings": {"network": "mine.npz"}, "games": 1},
        "greedy": {"player": "a_module_of_theirs:greedy", "games": 1},
    }
    search, greedy = entries(file_of(tmp_path, {"2048": told}))
    assert fingerprint(make(search, 0)) == fingerprint(agents.load(tmp_path / "mine.npz"))
    assert make(greedy, 0).act(np.array([0x11], np.uint64)).shape == (1,)


def test_games_are_side_by_side_only_where_the_player_can(bots: ModuleType) -> None:
    alone = [
        RANDOM,
        Entry("2048", "search", "expectimax", {"tuples": "5x4", "depth": 1}, 6, 3),
    ]
    assert [entry_fields(entry)["at_once"] for entry in alone] == [1, 1]
    net = Entry("2048", "by a network", "policy-net", {}, 6, 3)
    assert entry_fields(net)["at_once"] == 3


def test_only_players_of_the_package_play_whole_games_themselves(bots: ModuleType) -> None:
    theirs = Entry("2048", "forger", "bots:Forger", {}, 6, 3)
    assert entry_fields(theirs)["at_once"] == 3
    ours = Entry("2048", "greedy", "alphabeta", {"depth": 1}, 6, 3)
    scores = [[row["score"] for row in play_games(of, seeds("2048")[:3])] for of in (theirs, ours)]
    assert scores[0] == scores[1]


@pytest.mark.parametrize(
    "name", ["daihinmin-policy", "daihinmin-rank", "daihinmin-mc", "value-net"]
)
def test_players_that_have_learned_have_fingerprints(name: str) -> None:
    found = [fingerprint(agents.make(name)) for _ in range(2)]
    assert found[0] == found[1] is not None


# Playing, and playing on


ENTRIES: Row = {
    "2048": {
        "random": {"player": "random", "games": 6, "chunk": 3},
        "a table": {"player": "bots:table_of", "settings": {"value": 2}, "games": 4, "chunk": 2},
    },
    "daihinmin": {"the sample client": {"player": "daihinmin-sample", "games": 2}},
}


def test_every_game_has_a_row_that_says_all(tmp_path: Path, bots: ModuleType) -> None:
    file_of(tmp_path, ENTRIES)
    run("play", tmp_path)
    rows = all_rows(tmp_path)
    counts = {name: sum(row["name"] == name for row in rows) for name in ("random", "a table")}
    assert counts == {"random": 6, "a table": 4}
    assert len(rows) == 10 + 2 * 3
    for row in rows:
        assert row["env"] in ("Game2048-v0", "Daihinmin-v0")
        assert row["machine"]["cpu"]
        assert {"afterstate", "commit", "settings", "player", "weights"} <= row.keys()
        assert (row["weights"] is None) == (row["name"] != "a table")
    for game in ("2048", "daihinmin"):
        of = {row["seed"] for row in rows if row["game"] == game}
        assert of <= set(seeds(game)[:6])


def test_an_interrupted_run_goes_on(tmp_path: Path, bots: ModuleType) -> None:
    file_of(tmp_path, {"2048": ENTRIES["2048"]})
    run("play", tmp_path, "--only", "random")
    path = rows_file(tmp_path, RANDOM)
    before = row_files.read(path)
    path.write_bytes(path.read_bytes()[:-30])
    run("play", tmp_path, "--only", "random")
    after = row_files.read(path)
    assert [row["score"] for row in after] == [row["score"] for row in before]
    run("play", tmp_path)
    assert row_files.read(path) == after  # all was there
    assert len(all_rows(tmp_path)) == 10


def test_other_settings_or_weights_are_played_anew(tmp_path: Path, bots: ModuleType) -> None:
    told: Row = {"2048": {"a table": {"player": "bots:table_of", "games": 2, "chunk": 2}}}
    for settings in ({}, {"value": 3}, {"value": 3}):
        told["2048"]["a table"]["settings"] = settings
        file_of(tmp_path, told)
        run("play", tmp_path)
    rows = all_rows(tmp_path)
    assert [row["settings"] for row in rows] == [{}, {}, {"value": 3}, {"value": 3}]
    (now,) = entries(tmp_path / "entries.json")
    assert [row for (row,) in current(now, rows).values()] == rows[2:]
    for of in ("weights", "opponents", "code"):
        changed = [*rows, *({**row, of: "other"} for row in rows[2:])]
        assert [row for (row,) in current(now, changed).values()] == changed[4:]
    of_other_rules = [*rows, *({**row, "env": "Game2048-v9"} for row in rows[2:])]
    assert [row for (row,) in current(now, of_other_rules).values()] == rows[2:]


def test_others_go_on_when_a_player_fails(tmp_path: Path, bots: ModuleType) -> None:
    stuck = {"player": "bots:Stuck", "games": 2}
    file_of(tmp_path, {"2048": {"stuck": stuck, "random": ENTRIES["2048"]["random"]}})
    first = seeds("2048")[1]
    with pytest.raises(SystemExit, match=rf"'stuck' failed in the games of {first}(.|\n)*illegal"):
        run("play", tmp_path)
    assert [row["name"] for row in all_rows(tmp_path)] == ["random"] * 6


def test_others_play_where_a_player_cannot_be_made(tmp_path: Path, bots: ModuleType) -> None:
    told = {name: {"player": f"bots:{name}", "games": 1} for name in ("broken", "quits")}
    file_of(tmp_path, {"2048": {**told, "random": ENTRIES["2048"]["random"]}})
    with pytest.raises(SystemExit) as raised:
        run("play", tmp_path)
    assert re.fullmatch(
        "2048: 'broken' cannot be made: .*KeyError: 'no such thing'\n"
        "2048: 'quits' cannot be made: .*SystemExit: not today",
        str(raised.value),
    )
    assert [row["name"] for row in all_rows(tmp_path)] == ["random"] * 6


def test_the_time_of_a_player_is_that_of_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by a second when it is looked at, and by nine in an answer."""
    clock = [0.0]

    def tick() -> float:
        clock[0] += 1
        return clock[0]

    class Slow:
        size, asked = (4, 4), 0

        def act(self, boards: Any) -> Any:
            self.asked += 1
            clock[0] += 9
            return inner.act(boards)

    inner, player = agents.make("reward"), Slow()
    monkeypatch.setattr("time.process_time", tick)
    timed: Any = leaderboard_games.Timed(player)
    assert timed.size == (4, 4) and not hasattr(timed, "finish")
    rows = leaderboard_games._play_2048(player, seeds("2048")[:3])
    assert sum(row["cpu_seconds"] for row in rows) == pytest.approx(10 * player.asked, abs=1e-3)
    shares = [row["cpu_seconds"] / row["moves"] for row in rows]
    assert shares == pytest.approx([shares[0]] * 3, rel=1e-3)


def test_ctrl_c_ends_with_a_word_and_keeps_what_was_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_then_ctrl_c(jobs: list[Any], chosen: Any) -> Any:
        function, told, _ = jobs[0]
        yield function(*told)
        raise KeyboardInterrupt

    monkeypatch.setattr(leaderboard, "run_parallel", one_then_ctrl_c)
    file_of(tmp_path, {"2048": {"random": ENTRIES["2048"]["random"]}})
    with pytest.raises(SystemExit, match="interrupted: the same command"):
        run("play", tmp_path)
    assert len(all_rows(tmp_path)) == 3


def test_whatever_holds_arrays_has_a_fingerprint() -> None:
    """Arrays count, in lists and parts of parts, in their order; names and circles do not."""

    def told(**parts: Any) -> str | None:
        player: Any = SimpleNamespace(**parts)
        player.policy = player  # a circle
        return fingerprint(player)

    one, other = np.arange(3), np.arange(5.0)
    found = told(network=[one, other])
    assert found == told(net=(one, {"b": other})) == told(network=SimpleNamespace(net=[one, other]))
    assert len({found, told(network=[other, one]), told(network=one), told()}) == 4
    assert told() is told(depth=3) is None


@pytest.mark.slow
def test_processes_side_by_side_make_the_same_rows(tmp_path: Path) -> None:
    scores = []
    for jobs in ("1", "2"):
        folder = tmp_path / jobs
        folder.mkdir()
        file_of(folder, {"2048": {"random": ENTRIES["2048"]["random"]}})
        run("play", folder, "--jobs", jobs)
        scores.append(sorted((row["seed"], row["score"]) for row in all_rows(folder)))
    assert scores[0] == scores[1]


def test_ray_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    file_of(tmp_path, {"2048": {"random": ENTRIES["2048"]["random"]}})
    with pytest.raises(SystemExit, match=r"pip install .*\[ray\]"):
        run("play", tmp_path, "--backend", "ray")
    with pytest.raises(SystemExit, match="--jobs 2 or more"):
        run("play", tmp_path, "--backend", "ray", "--jobs", "1")


@pytest.mark.slow
def test_ray_makes_the_same_rows(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    scores = []
    for backend in ("local", "ray"):
        folder = tmp_path / backend
        folder.mkdir()
        player = (README.parent / "examples" / "my_player.py").read_text(encoding="utf-8")
        (folder / "players.py").write_text(player, encoding="utf-8")
        one = {"player": "players:MostEmptyCells", "games": 4, "chunk": 2}
        told = {"2048": {"random": ENTRIES["2048"]["random"], "one of theirs": one}}
        command = ["play", "--entries", str(file_of(folder, told)), "--rows", str(folder)]
        more = ["--jobs", "2"] if backend == "local" else ["--backend", "ray"]
        subprocess.run(
            [sys.executable, "-m", "benchmarks.leaderboard", *command, *more],
            cwd=README.parent,
            check=True,
        )
        rows = [{**row, "cpu_seconds": 0} for row in all_rows(folder)]
        scores.append(sorted(rows, key=lambda row: (row["name"], row["seed"])))
    assert scores[0] == scores[1]
    assert len(scores[0]) == 6 + 4


# Playing again


def test_rows_are_verified(
    tmp_path: Path, bots: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    file_of(tmp_path, ENTRIES)
    run("play", tmp_path)
    run("verify", tmp_path, "--chunks", "5")
    out = capsys.readouterr().out
    assert out.count(": same") == 2 + 2 + 2
    assert "random, 3 of seed 924710231...: same" in out
    path = rows_file(tmp_path, RANDOM)
    rows = row_files.read(path)
    rows[1]["score"] += 4
    path.unlink()
    row_files.append(path, rows)
    seed = str(rows[1]["seed"])
    with pytest.raises(SystemExit, match="1 differ"):
        run("verify", tmp_path, "--only", "random", "--seed", seed)
    assert f"seed {seed}: score is {rows[1]['score'] - 4}" in capsys.readouterr().out
    entry = entries(tmp_path / "entries.json")[0]
    for of, told in (("weights", "0123"), ("at_once", 50), ("code", "abc"), ("name", "Random")):
        other = {**rows[1], of: told}
        assert f"its {of} changed" in leaderboard.difference(entry, [other], [other["seed"]])
    entry = entries(tmp_path / "entries.json")[2]
    rows = row_files.read(rows_file(tmp_path, entry))[:3]
    changes: list[Row] = [{"decisions": 10**6}, {"places": [0, 1, 2, 3, 4]}]
    for change in changes:
        (of,) = change
        others = [{**row, **change} for row in rows]
        assert f": {of} is " in leaderboard.difference(entry, others, [rows[0]["seed"]])


def test_a_player_of_another_name_plays_anew(
    tmp_path: Path, bots: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("sample client", "Sample client"):
        file_of(tmp_path, {"daihinmin": {name: {"player": "daihinmin-sample", "games": 1}}})
        run("play", tmp_path)
        run("verify", tmp_path)
        assert f"{name}, 3 of seed" in capsys.readouterr().out
    assert len(all_rows(tmp_path)) == 6


def test_games_that_are_missing_are_told_and_those_by_time_are_left(
    tmp_path: Path, bots: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"2048": {**ENTRIES["2048"], "quick": {"player": "reward", "games": 2, "timed": True}}}
    file_of(tmp_path, told)
    run("play", tmp_path)
    run("verify", tmp_path, "--all")
    assert "quick: not played again" in capsys.readouterr().out
    path = rows_file(tmp_path, RANDOM)
    rows = row_files.read(path)
    path.unlink()
    row_files.append(path, rows[1:])
    with pytest.raises(SystemExit, match="1 differ"):
        run("verify", tmp_path)
    printed = capsys.readouterr().out
    assert "random: 1 of 2 chunks are not played" in printed
    assert "a table, 2 of seed" in printed
    run("verify", tmp_path, "--seed", str(rows[5]["seed"]), "--only", "random")
    with pytest.raises(SystemExit, match="no entry plays games of seed 5"):
        run("verify", tmp_path, "--seed", "5")


@pytest.mark.slow
def test_published_games_are_played_as_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(leaderboard_games, "CYCLE", 100)
    rows = ["--rows", str(leaderboard_games.ROOT / "benchmarks" / "results" / "leaderboard")]
    players = {
        "2048": ["2048/random", "largest reward", "alpha-beta, depth [35]"],
        "daihinmin": ["daihinmin/random", "sample client"],
    }
    for game, names in players.items():
        main(["verify", *rows, "--only", *names, "--seed", str(seeds(game)[0])])
    assert capsys.readouterr().out.count(": same") == 4 + 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"score": "1000"}, r"score"),
        ({"moves": True}, r"moves"),
        ({"score": -4}, ">= 0"),
        ({"cpu_seconds": math.nan}, "finite"),
        ({"cpu_seconds": -0.1}, ">= 0"),
        ({"max_tile": 3}, "max_tile"),
        ({"seed": None}, r"seed"),
        ({"moves": 0}, "moves"),
        ({"machine": {}}, "cpu"),
        ({"game": "daihinmin"}, "game"),
    ],
    ids=str,
)
def test_rows_that_no_game_makes_are_told(tmp_path: Path, changed: Row, message: str) -> None:
    file_of(tmp_path, {"2048": {"random": ENTRIES["2048"]["random"]}})
    run("play", tmp_path)
    path = rows_file(tmp_path, RANDOM)
    row_files.append(path, [{**row_files.read(path)[0], **changed}])
    for command in ("play", "verify", "report"):
        with pytest.raises(SystemExit, match=rf"random\.jsonl\.gz, row 7: .*{message}"):
            run(command, tmp_path)


# Results


def test_report_and_readme(
    tmp_path: Path, bots: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_of(tmp_path, ENTRIES)
    run("play", tmp_path)
    run("report", tmp_path)
    pictures = [
        tmp_path / f"{game}_{of}.svg"
        for game in ("2048", "daihinmin")
        for of in ("points", "strength")
    ]
    drawn = [path.read_bytes() for path in pictures]
    assert all(b"the sample client" in each or b"random" in each for each in drawn)
    run("report", tmp_path)
    assert drawn == [path.read_bytes() for path in pictures]
    pages = {"README": "2048_top.md", "PAGE": "2048.md"}
    for name in pages:
        path = tmp_path / f"{name}.md"
        monkeypatch.setattr(leaderboard, name, path)
        path.write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match="<!-- leaderboard 2048 -->"):
        run("readme", tmp_path)
    marks = "".join(f"before\n<!-- leaderboard {game} -->\n<!-- end -->\n" for game in GAMES)
    for _ in range(2):  # a second time the tables replace those of the first
        for name in pages:
            (tmp_path / f"{name}.md").write_text(marks, encoding="utf-8")
        run("readme", tmp_path)
        for name, table in pages.items():
            text = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
            shown = (tmp_path / table).read_text(encoding="utf-8").replace("](", "](./")
            assert shown in text and text.count("before\n") == 2
            assert all((tmp_path / link).exists() for link in re.findall(r"\]\(\./(.*?)\)", shown))


def test_the_top_table_has_five_players_in_order() -> None:
    published = leaderboard_games.ROOT / "benchmarks" / "results" / "leaderboard"
    for game in GAMES:
        rows = (published / f"{game}_top.md").read_text(encoding="utf-8").splitlines()[2:]
        whole = (published / f"{game}.md").read_text(encoding="utf-8").splitlines()[2:7]
        names = [[line.split(" | ")[0] for line in lines] for lines in (rows, whole)]
        assert len(rows) == 5 and names[0] == names[1]


def test_players_of_one_game_are_asked_for_by_it(tmp_path: Path) -> None:
    one = {"player": "random", "games": 1}
    file_of(
        tmp_path,
        {"2048": {"random": one}, "daihinmin": {"random": {**one, "player": "daihinmin-random"}}},
    )
    run("play", tmp_path, "--only", "2048/ran*")
    assert {row["game"] for row in all_rows(tmp_path)} == {"2048"}


def test_a_report_of_own_rows_has_the_published_ones_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = {"2048": {"random": ENTRIES["2048"]["random"]}}
    monkeypatch.setattr(leaderboard, "OWN", file_of(tmp_path, package))
    monkeypatch.setattr(leaderboard, "RESULTS", tmp_path)
    run("play", tmp_path)
    other, (entry,) = tmp_path / "other", entries(tmp_path / "entries.json")
    other.mkdir()
    file_of(other, {"2048": {"mine": {"player": "reward", "games": 2, "chunk": 2}}})
    run("play", other)
    run("report", other)
    names = [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines()[2:4]]
    assert sorted(names) == ["| mine", "| random"]
    assert (other / "2048.md").exists() and not (tmp_path / "2048.md").exists()
    assert len(all_rows(other)) == 2 < len(row_files.read(rows_file(tmp_path, entry)))


def test_the_templates_of_players_play(tmp_path: Path) -> None:
    examples = README.parent / "examples" / "my_entries.json"
    told = entries(examples)
    main(["play", "--entries", str(examples), "--rows", str(tmp_path), "--only", "most*"])
    scores = [row["score"] for row in all_rows(tmp_path)]
    assert len(scores) == 300
    assert np.mean(scores) > 2_500  # a random player has 1,100
    rows = [row for seed in (1, 2, 3) for row in play_games(told[1], [seed])]
    assert {len(row["places"]) for row in rows} == {5}


# What is wrong


@pytest.mark.parametrize(
    ("told", "message"),
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
def test_wrong_entries_are_refused(
    tmp_path: Path, bots: ModuleType, told: Any, message: str
) -> None:
    file_of(tmp_path, told)
    with pytest.raises(SystemExit, match=message):
        run("play", tmp_path)
    assert not list(tmp_path.rglob("*.gz"))


def test_a_folder_where_nothing_can_be_written_is_told_before_games(tmp_path: Path) -> None:
    file_of(tmp_path, ENTRIES)
    (tmp_path / "file").touch()
    how = ["--entries", str(tmp_path / "entries.json"), "--rows", str(tmp_path / "file")]
    with pytest.raises(SystemExit, match="file"):
        main(["play", *how])


def test_entries_may_begin_with_a_mark_of_their_encoding(tmp_path: Path) -> None:
    path = file_of(tmp_path, {"2048": {"random": ENTRIES["2048"]["random"]}})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [entry.name for entry in entries(path)] == ["random"]


def test_duplicate_names_are_refused(tmp_path: Path) -> None:
    one = '"a": {"player": "random", "games": 1}'
    (tmp_path / "entries.json").write_text(f'{{"2048": {{{one}, {one}}}}}', encoding="utf-8")
    with pytest.raises(SystemExit, match=r"duplicate"):
        run("play", tmp_path)


def test_a_module_with_the_name_of_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fractions.py").write_text("def make(): ...", encoding="utf-8")
    file_of(tmp_path, {"2048": {"a": {"player": "fractions:Fraction", "games": 1}}})
    with pytest.raises(SystemExit, match=r"fractions\.py"):
        run("play", tmp_path)


def test_missing_entries_and_rows_are_reported(tmp_path: Path) -> None:
    file_of(tmp_path, ENTRIES)
    with pytest.raises(SystemExit, match="no entry nobody or chess/random"):
        run("play", tmp_path, "--only", "nobody", "random", "chess/random")
    with pytest.raises(SystemExit, match="no rows of these entries"):
        run("report", tmp_path)
    path = rows_file(tmp_path, RANDOM)
    path.parent.mkdir()
    path.write_bytes(b"no rows at all")
    with pytest.raises(SystemExit, match=r"random\.jsonl\.gz is damaged"):
        run("verify", tmp_path, "--only", "random")
    with pytest.raises(SystemExit, match=r"missing\.json"):
        main(["play", "--entries", str(tmp_path / "missing.json")])


def test_the_checkout_may_be_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(leaderboard_games.HERE)
    file = tmp_path / "link" / "games.py"
    told = spec_from_file_location("linked", file)
    assert told and told.loader
    linked = module_from_spec(told)
    told.loader.exec_module(linked)
    assert linked.entries(linked.OWN) == entries(leaderboard_games.OWN)


def test_the_entries_of_the_package_can_be_made() -> None:
    told = entries(leaderboard_games.OWN)
    players = {entry.player for entry in told}
    assert set(agents.names()) <= players
    for entry in told:
        make(entry, 1)
    assert README.exists()
