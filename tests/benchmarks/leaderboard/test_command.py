"""Tests of leaderboard commands: playing, resuming, verifying and reporting."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import afterstate.envs  # noqa: F401 - registers the environments
from afterstate import agents
from afterstate.agents.training.workers import Call, Workers
from afterstate.envs.json_files import Row
from afterstate.envs.messages import EXTRAS
from afterstate.leaderboard import command as leaderboard
from afterstate.leaderboard import games as leaderboard_games
from afterstate.leaderboard import gzip_rows
from afterstate.leaderboard.__main__ import main
from afterstate.leaderboard.command import README
from afterstate.leaderboard.games import (
    GAMES,
    entries,
    fingerprint,
    play_games,
    seeds,
)
from afterstate.leaderboard.rows import current, rows_file
from tests.support.leaderboard import ENTRIES, RANDOM, all_rows, file_of, run
from tests.support.training_runs import lock_of_another_process

pytestmark = pytest.mark.usefixtures("short_cycles")


def test_every_game_has_a_complete_row(tmp_path: Path, bots: ModuleType) -> None:
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


def test_an_interrupted_run_resumes(tmp_path: Path, bots: ModuleType) -> None:
    file_of(tmp_path, {"2048": ENTRIES["2048"]})
    run("play", tmp_path, "--only", "random")
    path = rows_file(tmp_path, RANDOM)
    before = list(gzip_rows.rows(path))
    path.write_bytes(path.read_bytes()[:-30])
    run("play", tmp_path, "--only", "random")
    after = list(gzip_rows.rows(path))
    assert [row["score"] for row in after] == [row["score"] for row in before]
    run("play", tmp_path)
    assert list(gzip_rows.rows(path)) == after  # all was there
    assert len(all_rows(tmp_path)) == 10


def test_another_process_cannot_play_for_the_same_rows(tmp_path: Path, bots: ModuleType) -> None:
    file_of(tmp_path, {"2048": ENTRIES["2048"]})
    run("play", tmp_path, "--only", "random")
    with lock_of_another_process(rows_file(tmp_path, RANDOM).parents[1]):
        with pytest.raises((SystemExit, ValueError), match="another process writes to"):
            run("play", tmp_path, "--only", "random")


def test_other_settings_or_weights_are_played_again(tmp_path: Path, bots: ModuleType) -> None:
    output: Row = {"2048": {"a table": {"player": "bots:table_of", "games": 2, "chunk": 2}}}
    for settings in ({}, {"value": 3}, {"value": 3}):
        output["2048"]["a table"]["settings"] = settings
        file_of(tmp_path, output)
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


def test_others_continue_when_a_player_fails(tmp_path: Path, bots: ModuleType) -> None:
    stuck = {"player": "bots:Stuck", "games": 2}
    file_of(tmp_path, {"2048": {"stuck": stuck, "random": ENTRIES["2048"]["random"]}})
    first = seeds("2048")[1]
    with pytest.raises(SystemExit, match=rf"'stuck' failed in the games of {first}(.|\n)*illegal"):
        run("play", tmp_path)
    assert [row["name"] for row in all_rows(tmp_path)] == ["random"] * 6


def test_others_play_where_a_player_cannot_be_made(tmp_path: Path, bots: ModuleType) -> None:
    output = {name: {"player": f"bots:{name}", "games": 1} for name in ("broken", "quits")}
    file_of(tmp_path, {"2048": {**output, "random": ENTRIES["2048"]["random"]}})
    with pytest.raises(SystemExit) as raised:
        run("play", tmp_path)
    assert re.fullmatch(
        "2048: 'broken' cannot be made: .*KeyError: 'no such thing'\n"
        "2048: 'quits' cannot be made: .*SystemExit: not today",
        str(raised.value),
    )
    assert [row["name"] for row in all_rows(tmp_path)] == ["random"] * 6


@pytest.mark.slow
def test_the_commands_need_the_extra_examples_and_no_torch() -> None:
    """The modules that they import are of packages that a plain installation has, or `examples`."""
    code = "import sys; import afterstate.leaderboard.command; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    extras = {extra for extra, packages in EXTRAS.items() if {*packages} & imported}
    assert {"scipy", "matplotlib"} <= imported
    assert extras <= {"examples", "render", "train"}  # `examples` brings the others


@pytest.mark.slow
@pytest.mark.parametrize("package", ["matplotlib", "scipy"])
def test_a_missing_package_of_the_commands_is_named_with_the_extra_examples(package: str) -> None:
    code = f"""
import sys

class Without:
    def find_spec(self, name, *_):
        if name == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
from afterstate.__main__ import main
main(["leaderboard", "report"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert f'error: this needs {package}: pip install "afterstate[examples]"\n' in done.stderr


def test_games_of_daihinmin_need_the_extra_of_an_opponent(monkeypatch: pytest.MonkeyPatch) -> None:
    def needs_torch(name: str) -> Any:
        raise ImportError('this player needs torch: pip install "afterstate[neural]"')

    leaderboard_games._opponents.cache_clear()
    monkeypatch.setattr(agents, "make", needs_torch)
    message = r"its opponent daihinmin-\w+: this player needs torch: .*\[neural\]"
    with pytest.raises(ImportError, match=message):
        leaderboard_games._opponents()


@pytest.fixture
def left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Hide the files that the wheel leaves out; return the entries that need them."""
    policy_net = pytest.importorskip("afterstate.agents.game2048.values.policy_net")
    configuration = (README.parent / "pyproject.toml").read_text(encoding="utf-8")
    names = re.findall(r'"game2048/pretrained/(.*)\.\*"', configuration)
    assert len(names) == 5
    for paths in (policy_net.PRETRAINED, policy_net.BASELINES):
        for key, path in list(paths.items()):
            if path.stem in names:
                monkeypatch.setitem(paths, key, tmp_path / "absent" / path.name)
    return ["policy network, 2 layers", "DQN", "QR-DQN", "PPO", "MaskablePPO"]


@pytest.mark.slow
def test_entries_whose_weights_are_not_in_the_wheel_are_skipped_in_one_line(
    tmp_path: Path, left_out: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    package = json.loads(leaderboard_games.OWN.read_text(encoding="utf-8"))["2048"]
    nets = {name: of for name, of in package.items() if of["player"] == "policy-net"}
    file_of(tmp_path, {"2048": {name: {**of, "games": 1, "chunk": 1} for name, of in nets.items()}})
    run("play", tmp_path, "--only", "*")
    lines = [line for line in capsys.readouterr().err.splitlines() if "skipped" in line]
    names = ", ".join(f"'2048/{name}'" for name in left_out)
    assert len(lines) == 1 and lines[0].startswith(f"skipped {names}: the wheel does not have")
    assert [row["name"] for row in all_rows(tmp_path)] == ["policy network, 5 layers"]


@pytest.mark.slow
@pytest.mark.parametrize("only", ["DQN", "2048/DQN"])
def test_an_entry_whose_weights_are_not_in_the_wheel_cannot_be_named(
    tmp_path: Path, left_out: list[str], only: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert only.rpartition("/")[2] in left_out
    message = r"only must name entries whose weights are installed, got '2048/DQN': the wheel"
    with pytest.raises(ValueError, match=message):
        main(["play", "--only", only, "2048/random"])
    assert not list(tmp_path.iterdir())


def test_games_whose_weights_are_not_in_the_wheel_are_not_verified(
    tmp_path: Path, left_out: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (entry,) = (each for each in entries(leaderboard_games.OWN) if each.name == left_out[1])
    result = leaderboard.play_again(entry, [{"seed": 1}])
    why = "not played again, its weights are not in the wheel"
    assert result == ("DQN, 1 of seed 1...", why, False)
    file_of(
        tmp_path,
        {"2048": {"DQN": {"player": entry.player, "settings": entry.settings, "games": 1}}},
    )
    run("play", tmp_path)
    run("verify", tmp_path)
    assert capsys.readouterr().out == f"DQN: {why}\n"


def test_entries_without_rows_are_named_but_not_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file_of(tmp_path, ENTRIES)
    run("play", tmp_path, "--only", "random")
    capsys.readouterr()
    run("verify", tmp_path)
    printed = capsys.readouterr().out
    assert "random, 3 of seed" in printed
    assert "a table: has no rows\n" in printed


def test_the_time_of_a_player_is_that_of_its_moves(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_ctrl_c_ends_with_a_message_and_keeps_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_then_ctrl_c(_: Workers, calls: list[Call]) -> Any:
        yield calls[0]()
        raise KeyboardInterrupt

    monkeypatch.setattr(Workers, "as_they_end", one_then_ctrl_c)
    file_of(tmp_path, {"2048": {"random": ENTRIES["2048"]["random"]}})
    with pytest.raises(KeyboardInterrupt, match="interrupted: the same command"):
        run("play", tmp_path)
    assert len(all_rows(tmp_path)) == 3


def test_objects_with_arrays_have_a_fingerprint() -> None:
    """Arrays count, in lists and parts of parts, in their order; names and circles do not."""

    def output(**parts: Any) -> str | None:
        player: Any = SimpleNamespace(**parts)
        player.policy = player  # a circle
        return fingerprint(player)

    one, other = np.arange(3), np.arange(5.0)
    result = output(network=[one, other])
    assert (
        result
        == output(net=(one, {"b": other}))
        == output(network=SimpleNamespace(net=[one, other]))
    )
    assert len({result, output(network=[other, one]), output(network=one), output()}) == 4
    assert output() is output(depth=3) is None


@pytest.mark.slow
def test_parallel_processes_make_the_same_rows(tmp_path: Path) -> None:
    scores = []
    for jobs in ("1", "2"):
        folder = tmp_path / jobs
        folder.mkdir()
        file_of(folder, {"2048": {"random": ENTRIES["2048"]["random"]}})
        run("play", folder, "--jobs", jobs)
        scores.append(sorted((row["seed"], row["score"]) for row in all_rows(folder)))
    assert scores[0] == scores[1]


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
        output = {"2048": {"random": ENTRIES["2048"]["random"], "one of theirs": one}}
        command = ["play", "--entries", str(file_of(folder, output)), "--rows", str(folder)]
        more = ["--jobs", "2"] if backend == "local" else ["--backend", "ray"]
        subprocess.run(
            [sys.executable, "-m", "afterstate.leaderboard", *command, *more],
            cwd=README.parent,
            check=True,
        )
        rows = [{**row, "cpu_seconds": 0} for row in all_rows(folder)]
        scores.append(sorted(rows, key=lambda row: (row["name"], row["seed"])))
    assert scores[0] == scores[1]
    assert len(scores[0]) == 6 + 4


@pytest.mark.slow
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
    rows = list(gzip_rows.rows(path))
    rows[1]["score"] += 4
    path.unlink()
    gzip_rows.append(path, rows)
    seed = str(rows[1]["seed"])
    with pytest.raises(SystemExit, match="1 differ"):
        run("verify", tmp_path, "--only", "random", "--seed", seed)
    assert f"seed {seed}: score is {rows[1]['score'] - 4}" in capsys.readouterr().out
    entry = entries(tmp_path / "entries.json")[0]
    for of, output in (("weights", "0123"), ("at_once", 50), ("code", "abc"), ("name", "Random")):
        other = {**rows[1], of: output}
        assert f"its {of} changed" in leaderboard.difference(entry, [other], [other["seed"]])
    entry = entries(tmp_path / "entries.json")[2]
    rows = list(gzip_rows.rows(rows_file(tmp_path, entry)))[:3]
    changes: list[Row] = [{"decisions": 10**6}, {"places": [0, 1, 2, 3, 4]}]
    for change in changes:
        (of,) = change
        others = [{**row, **change} for row in rows]
        assert f": {of} is " in leaderboard.difference(entry, others, [rows[0]["seed"]])


@pytest.mark.slow
def test_a_renamed_player_plays_again(
    tmp_path: Path, bots: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("sample client", "Sample client"):
        file_of(tmp_path, {"daihinmin": {name: {"player": "daihinmin-sample", "games": 1}}})
        run("play", tmp_path)
        run("verify", tmp_path)
        assert f"{name}, 3 of seed" in capsys.readouterr().out
    assert len(all_rows(tmp_path)) == 6


def test_missing_games_are_named_and_timed_ones_skipped(
    tmp_path: Path, bots: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    output = {"2048": {**ENTRIES["2048"], "quick": {"player": "reward", "games": 2, "timed": True}}}
    file_of(tmp_path, output)
    run("play", tmp_path)
    run("verify", tmp_path, "--all")
    assert "quick: not played again" in capsys.readouterr().out
    path = rows_file(tmp_path, RANDOM)
    rows = list(gzip_rows.rows(path))
    path.unlink()
    gzip_rows.append(path, rows[1:])
    with pytest.raises(SystemExit, match="1 differ"):
        run("verify", tmp_path)
    printed = capsys.readouterr().out
    assert "random: 1 of 2 chunks are not played" in printed
    assert "a table, 2 of seed" in printed
    with pytest.raises(SystemExit, match="1 differ"):
        run("verify", tmp_path, "--json")
    checks = {each["games"]: each for each in json.loads(capsys.readouterr().out)}
    assert checks["random"] == {
        "games": "random",
        "result": "1 of 2 chunks are not played",
        "wrong": True,
    }
    assert [each["wrong"] for each in checks.values()].count(True) == 1
    assert checks["quick"]["result"] == "not played again, its moves depend on time"
    assert {each["result"] for each in checks.values()} >= {"same"}
    run("verify", tmp_path, "--seed", str(rows[5]["seed"]), "--only", "random")
    with pytest.raises(ValueError, match="seed 5"):
        run("verify", tmp_path, "--seed", "5")


@pytest.mark.slow
def test_published_games_are_reproduced(
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
def test_impossible_rows_are_named(tmp_path: Path, changed: Row, message: str) -> None:
    file_of(tmp_path, {"2048": {"random": ENTRIES["2048"]["random"]}})
    run("play", tmp_path)
    path = rows_file(tmp_path, RANDOM)
    gzip_rows.append(path, [{**next(gzip_rows.rows(path)), **changed}])
    for command in ("play", "verify", "report"):
        with pytest.raises(ValueError, match=rf"random\.jsonl\.gz, row 7: .*{message}"):
            run(command, tmp_path)


@pytest.mark.slow
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
    with pytest.raises(ValueError, match="<!-- leaderboard 2048 -->"):
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


def test_players_are_selected_by_game(tmp_path: Path) -> None:
    one = {"player": "random", "games": 1}
    file_of(
        tmp_path,
        {"2048": {"random": one}, "daihinmin": {"random": {**one, "player": "daihinmin-random"}}},
    )
    run("play", tmp_path, "--only", "2048/ran*")
    assert {row["game"] for row in all_rows(tmp_path)} == {"2048"}


@pytest.mark.slow
def test_a_report_of_own_rows_includes_the_published_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = {"2048": {"random": ENTRIES["2048"]["random"]}}
    monkeypatch.setattr(leaderboard, "OWN", file_of(tmp_path, package))
    monkeypatch.setattr(leaderboard, "PUBLISHED", tmp_path)
    run("play", tmp_path)
    other, (entry,) = tmp_path / "other", entries(tmp_path / "entries.json")
    other.mkdir()
    file_of(other, {"2048": {"mine": {"player": "reward", "games": 2, "chunk": 2}}})
    run("play", other)
    run("report", other)
    names = [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines()[2:4]]
    assert sorted(names) == ["| mine", "| random"]
    assert (other / "2048.md").exists() and not (tmp_path / "2048.md").exists()
    assert len(all_rows(other)) == 2 < len(list(gzip_rows.rows(rows_file(tmp_path, entry))))


@pytest.mark.slow
def test_rows_and_results_are_in_the_working_folder_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="leaderboard has no rows of these entries"):
        main(["report"])
    assert not list(tmp_path.iterdir())
    own = ["--entries", str(file_of(tmp_path, {"2048": {"random": ENTRIES["2048"]["random"]}}))]
    main(["play", *own])
    main(["report", *own])
    assert {path.name for path in tmp_path.iterdir()} == {"entries.json", "leaderboard"}
    assert {path.name for path in (tmp_path / "leaderboard").iterdir()} >= {"2048", "2048.md"}


@pytest.mark.slow
def test_the_templates_of_players_play(tmp_path: Path) -> None:
    examples = README.parent / "examples" / "my_entries.json"
    output = entries(examples)
    main(["play", "--entries", str(examples), "--rows", str(tmp_path), "--only", "most*"])
    scores = [row["score"] for row in all_rows(tmp_path)]
    assert len(scores) == 300
    assert np.mean(scores) > 2_500  # a random player has 1,100
    rows = [row for seed in (1, 2, 3) for row in play_games(output[1], [seed])]
    assert {len(row["places"]) for row in rows} == {5}
