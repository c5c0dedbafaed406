"""Runs from the command line: their folder, going on after a break or a kill, wrong settings."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate.agents import files
from afterstate.agents.config import from_dict, read
from afterstate.agents.game2048.learning import ntuple_learner
from afterstate.agents.game2048.learning.ntuple_learner import Learner, Run, Settings, evaluate
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent, network
from afterstate.agents.training.__main__ import main, parse
from afterstate.agents.training.run import EVALUATION_SEED, evaluation_games, summary

tqdm = pytest.importorskip("tqdm")

NETWORK = {"tuples": [[0, 1, 4], [5, 6], [1, 2, 5, 6]], "stages": [64, 256]}
SETTINGS: dict[str, Any] = {"network": NETWORK, "learner": {"restart": 10}, "seed": 1}
FAST = ("--evaluate-every", "5000", "--evaluate", "1:20,2:2")


def settings_file(folder: Path, settings: Any = SETTINGS, name: str = "settings.json") -> str:
    path = folder / name
    path.write_text(settings if isinstance(settings, str) else json.dumps(settings))
    return str(path)


def run(folder: Path, *arguments: str, settings: Any = SETTINGS, out: str = "run") -> Path:
    """Runs the command line, and returns the folder of the run."""
    place = folder / out
    main(["ntuple", settings_file(folder, settings), "--out", str(place), *FAST, *arguments])
    return place


def refusal(folder: Path, *arguments: str, settings: Any = SETTINGS) -> str:
    """The one line with which a run ends before it begins."""
    with pytest.raises(SystemExit) as caught:
        run(folder, *arguments, settings=settings)
    message = caught.value.code
    assert isinstance(message, str)
    assert "\n" not in message
    return message


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def read_rows(place: Path) -> list[dict[str, Any]]:
    """The rows, each a line of JSON without numbers that JSON has not."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    text = (place / "rows.jsonl").read_text()
    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def assert_same(one: Learner, other: Learner) -> None:
    """Both have learned the same and stand at the same place."""
    for name in ("n_games", "n_moves", "n_learned", "rng"):
        assert getattr(one, name) == getattr(other, name)
    np.testing.assert_array_equal(one.network.weights, other.network.weights)
    np.testing.assert_array_equal(one.sums, other.sums)


# A run


def test_a_run_leaves_its_learner_its_rows_and_its_settings(tmp_path: Path) -> None:
    place = run(tmp_path, "--moves", "2e4")
    assert sorted(path.name for path in place.iterdir()) == [
        *("learner.npz", "lock", "rows.jsonl", "settings.json")
    ]
    assert read(place / "settings.json", Run) == from_dict(SETTINGS, Run)
    learner, rows = Learner.load(place / "learner.npz"), read_rows(place)
    assert learner.settings == Settings(restart=10)
    assert learner.network.tuples == NETWORK["tuples"]
    assert learner.network.stage_tiles == NETWORK["stages"]
    assert 20_000 <= learner.n_moves == rows[-1]["n_moves"]
    n_moves = [row["n_moves"] for row in rows]
    assert n_moves == sorted(set(n_moves))
    assert [n // 5_000 for n in n_moves] == [1, 2, 3, 4]
    lone = from_dict(SETTINGS, Run).new()
    for row in rows:
        while lone.n_moves < row["n_moves"]:
            lone.play(1)
        expected = evaluate(lone.network, {1: 20, 2: 2})
        assert {name: row[name] for name in expected} == expected
        assert (row["n_games"], row["n_learned"]) == (lone.n_games, lone.n_learned)
        assert row["seconds"] > 0
    assert_same(lone, learner)


def test_threads_are_as_many_as_asked_for(tmp_path: Path) -> None:
    place = run(tmp_path, "--moves", "1e4", "--threads", "2")
    assert Learner.load(place / "learner.npz").threads == 2
    run(tmp_path, "--moves", "1.5e4", "--threads", "3", "--resume")
    learner = Learner.load(place / "learner.npz")
    assert learner.threads == 3
    assert learner.n_moves >= 15_000


def test_hours_end_a_run_too(tmp_path: Path) -> None:
    start = time.monotonic()
    place = run(tmp_path, "--hours", str(0.3 / 3600))
    assert time.monotonic() - start >= 0.3
    assert Learner.load(place / "learner.npz").n_moves == read_rows(place)[-1]["n_moves"]


@pytest.mark.parametrize(
    ("arguments", "most"),
    [(("--hours", str(0.3 / 3600)), 1e30), (("--hours", "1000", "--moves", "2e4"), 2e4)],
)
def test_the_bar_of_a_run_by_time_shows_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], most: float
) -> None:
    """Where the run will come to in its time, and no farther than its number of moves."""
    ends: list[float | None] = []

    class Bar(tqdm.tqdm):  # type: ignore[misc, name-defined]
        def update(self, n: float = 1) -> None:
            ends.append(self.total)
            super().update(n)

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    run(tmp_path, *arguments)
    assert ends
    assert all(end is not None and 0 < end <= most for end in ends)


@pytest.mark.parametrize("plies", ["1:1", "1:1,2:1", ""])
def test_rows_are_json_however_few_the_games(tmp_path: Path, plies: str) -> None:
    """An interval of a single game is not known, which JSON says by null."""
    rows = read_rows(run(tmp_path, "--moves", "6e3", "--evaluate", plies))
    assert len(rows) == 2


# Going on


def test_a_resumed_run_is_that_without_a_break(tmp_path: Path) -> None:
    """The rows too, but for the one at the end of the first part."""
    straight = run(tmp_path, "--moves", "2e4", out="straight")
    broken = run(tmp_path, "--moves", "7e3", out="broken")
    n_first = Learner.load(broken / "learner.npz").n_moves
    run(tmp_path, "--moves", "2e4", "--resume", out="broken")
    learners = [Learner.load(place / "learner.npz") for place in (straight, broken)]
    assert_same(*learners)
    expected = [played(row) for row in read_rows(straight)]
    rows = [played(row) for row in read_rows(broken)]
    assert [row for row in rows if row["n_moves"] != n_first] == expected
    assert len(rows) == len(expected) + 1


def played(row: dict[str, Any]) -> dict[str, Any]:
    """What of a row depends neither on the speed nor on how many games a part of a run has had."""
    return {name: row[name] for name in row if name[:2] == "n_" or "ply" in name}


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    place = run(tmp_path, "--moves", "6e3")
    learner, rows = Learner.load(place / "learner.npz"), read_rows(place)
    run(tmp_path, "--moves", "6e3", "--resume")
    assert_same(Learner.load(place / "learner.npz"), learner)
    assert read_rows(place) == rows


def test_a_run_is_not_overwritten(tmp_path: Path) -> None:
    place = run(tmp_path, "--moves", "2e3")
    before = contents(place)
    assert "--resume" in refusal(tmp_path, "--moves", "4e3")
    assert contents(place) == before


def test_where_there_is_no_run_none_is_resumed(tmp_path: Path) -> None:
    assert "nothing to resume" in refusal(tmp_path, "--moves", "4e3", "--resume")
    assert not (tmp_path / "run").exists()


def test_rows_of_a_run_that_never_saved_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rows.jsonl").write_text('{"n_moves": 5000}\n{"n_mo')
    assert [row["n_moves"] // 5_000 for row in read_rows(run(tmp_path, "--moves", "1e4"))] == [1, 2]


def test_kept_rows_are_whole_and_not_of_later_moves(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    files.truncate_rows(rows, "n_moves", 100)
    assert not rows.exists()
    rows.write_text('{"n_moves": 50}\n{"n_moves": 100, "x": "ü"}\n{"n_moves": 101}\n{"n_mov')
    files.truncate_rows(rows, "n_moves", 100)
    assert rows.read_text() == '{"n_moves": 50}\n{"n_moves": 100, "x": "ü"}\n'
    assert list(tmp_path.iterdir()) == [rows]


def test_lines_that_are_no_rows_are_dropped(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    wrong = ["5", "[]", '["n_moves"]', "null", "true", '"n_moves"', "{}", '{"n_moves": null}', ""]
    rows.write_text("\n".join(['{"n_moves": 50}', *wrong, '{"n_moves": 60}', *wrong]))
    assert files.truncate_rows(rows, "n_moves", 100) == 60
    assert rows.read_text() == '{"n_moves": 50}\n{"n_moves": 60}\n'


def test_time_is_counted_on_after_a_break(tmp_path: Path) -> None:
    place = run(tmp_path, "--moves", "6e3")
    learner, rows = Learner.load(place / "learner.npz"), read_rows(place)
    assert learner.seconds == rows[-1]["seconds"] > rows[0]["seconds"] > 0
    learner.seconds = 1_000_000.0  # as if it had learned for days
    learner.save(place / "learner.npz")
    run(tmp_path, "--moves", "1.6e4", "--resume")
    seconds = [row["seconds"] for row in read_rows(place)]
    assert seconds == sorted(seconds)
    assert seconds[: len(rows)] == [row["seconds"] for row in rows]
    assert len(seconds) > len(rows)
    assert all(second > 1_000_000 for second in seconds[len(rows) :])
    assert Learner.load(place / "learner.npz").seconds == seconds[-1]


@pytest.mark.parametrize("arguments", [(), ("--resume",)], ids=["new", "resumed"])
def test_what_a_kill_left_of_a_save_is_cleared_away(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    place = tmp_path / "run"
    if arguments:
        run(tmp_path, "--moves", "2e3")
    place.mkdir(exist_ok=True)
    (place / "learner.npz.999.part").write_bytes(b"half a learner")
    (place / "notes.part").write_text("not ours")
    run(tmp_path, "--moves", "4e3", *arguments)
    names = {path.name for path in place.iterdir()}
    assert names == {"learner.npz", "lock", "notes.part", "rows.jsonl", "settings.json"}


def test_a_run_may_go_on_with_other_settings_of_the_learner(tmp_path: Path) -> None:
    place = run(tmp_path, "--moves", "6e3")
    slower = {**SETTINGS, "learner": {"rate": 0.1, "order": "forward", "delay": 3}}
    run(tmp_path, "--moves", "1e4", "--resume", settings=slower)
    learner = Learner.load(place / "learner.npz")
    assert learner.settings == Settings(rate=0.1, order="forward", delay=3)
    assert read(place / "settings.json", Run) == from_dict(slower, Run)


OTHER_NETWORKS: list[dict[str, Any]] = [
    {"tuples": [[0, 1]]},
    {"tuples": "4x6"},
    {"size": [4, 3]},
    {"stages": [64]},
    {"promote": True},
    {"fixed_point": True},
    {"symmetric": False},
    {"downgrade": 512},
]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        *(({"network": {**NETWORK, **net}}, "another network") for net in OTHER_NETWORKS),
        ({"network": {"colour": "red"}}, "colour"),
        ({"learner": {"rule": "td"}}, "rule"),
        ({"learner": {"momentum": 0.9}}, "momentum"),
        ({"learner": {"lam": "half"}}, "lam"),
        ({"steps": 10}, "steps"),
    ],
    ids=str,
)
def test_a_run_does_not_go_on_with_another_network_or_rule(
    tmp_path: Path, other: Any, message: str
) -> None:
    place = run(tmp_path, "--moves", "2e3")
    before, settings = contents(place), {**SETTINGS, **other}
    found = refusal(tmp_path, "--moves", "4e3", "--resume", settings=settings)
    assert re.search(message, found)
    assert contents(place) == before
    with pytest.raises(ValueError, match=message):
        from_dict(settings, Run).resume(place / "learner.npz")


@pytest.mark.parametrize("threads", ["0", "-1", "65"])
def test_a_wrong_number_of_threads_changes_nothing(tmp_path: Path, threads: str) -> None:
    message = "threads"
    assert message in refusal(tmp_path, "--moves", "2e3", "--threads", threads)
    assert not (tmp_path / "run").exists()
    place = run(tmp_path, "--moves", "2e3")
    before = contents(place)
    assert message in refusal(tmp_path, "--moves", "4e3", "--threads", threads, "--resume")
    assert contents(place) == before


def test_a_learner_that_is_damaged_is_not_gone_on_with(tmp_path: Path) -> None:
    place = run(tmp_path, "--moves", "2e3")
    (place / "learner.npz").write_bytes(b"no learner")
    before = contents(place)
    assert "learner.npz" in refusal(tmp_path, "--moves", "4e3", "--resume")
    assert contents(place) == before


# A program that is stopped


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Starts a run without end, and waits until it has saved and evaluated."""
    place = folder / "run"
    file = settings_file(folder)
    often = ("--moves", "1e12", "--save-minutes", "1e-9", "--evaluate-every", "2e4")
    command = [
        sys.executable,
        "-m",
        "afterstate.agents.training",
        "ntuple",
        file,
        "--out",
        str(place),
        *often,
    ]
    before = (place / "rows.jsonl").read_text() if (place / "rows.jsonl").exists() else ""
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen([*command, "--evaluate", "1:5", *arguments], stderr=stderr)
    try:
        wait_for_rows(place / "rows.jsonl", before.count("\n") + 2, process)
    except BaseException:
        process.kill()
        print((folder / "stderr").read_text())
        raise
    return process


def wait_for_rows(rows: Path, n_rows: int, process: subprocess.Popen[bytes]) -> None:
    """Waits until a run that goes on has written so many rows and saved its learner."""
    end = time.monotonic() + 120
    while not (
        rows.with_name("learner.npz").exists()
        and rows.exists()
        and rows.read_text().count("\n") >= n_rows
    ):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)


def assert_whole(place: Path) -> Learner:
    """What a stopped run has saved is what a run of as many moves would have learned."""
    learner, straight = Learner.load(place / "learner.npz"), from_dict(SETTINGS, Run).new()
    straight.play(learner.n_moves)
    assert_same(learner, straight)
    return learner


def test_a_stopped_and_a_killed_program_leave_whole_files_to_go_on_with(tmp_path: Path) -> None:
    """By SIGTERM nothing is lost; by SIGKILL what was learned since the last save is."""
    place = tmp_path / "run"
    process = start(tmp_path)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    stopped = assert_whole(place)
    assert read_rows(place)[-1]["n_moves"] <= stopped.n_moves
    process = start(tmp_path, "--resume")
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    killed = assert_whole(place)
    assert killed.n_moves > stopped.n_moves
    lines = (place / "rows.jsonl").read_text().splitlines()
    assert json.loads(lines[-2])["n_moves"] <= killed.n_moves
    end = killed.n_moves + 30_000
    run(tmp_path, "--moves", str(end), "--resume", "--evaluate-every", "2e4", "--evaluate", "1:5")
    assert assert_whole(place).n_moves >= end
    n_moves = [row["n_moves"] for row in read_rows(place)]
    assert n_moves == sorted(set(n_moves))
    assert {n // 20_000 for n in n_moves} >= set(range(1, end // 20_000))


def test_an_evaluation_that_is_interrupted_is_made_when_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ntuple_learner, "evaluate", interrupted)
        message = refusal(tmp_path, "--moves", "1.2e4")
    assert message == f"saved in {tmp_path / 'run'}: continue with --resume"
    rows = read_rows(run(tmp_path, "--moves", "1.2e4", "--resume"))
    assert [row["n_moves"] // 5_000 for row in rows] == [1, 2, 2]


# Settings and options


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{", "JSON"),
        ("", "JSON"),
        ("[1, 2]", "object"),
        ("17", "object"),
        ({"net": {}}, "net"),
        ({"network": {"colour": "red"}}, "colour"),
        ({"network": {"tuples": "9x9"}}, "9x9"),
        ({"network": {"tuples": [[16]]}}, "16"),
        ({"network": {"tuples": [[0]], "stages": [100]}}, "100"),
        ({"network": NETWORK, "learner": {"momentum": 0.9}}, "momentum"),
        ({"network": NETWORK, "learner": {"lam": 2}}, "lam"),
        ({"network": NETWORK, "seed": -1}, "seed"),
        ({"network": {"tuples": [[0]]}, "learner": {"carousel": True}}, "carousel"),
    ],
)
def test_wrong_settings_say_what_is_wrong(tmp_path: Path, settings: Any, message: str) -> None:
    assert re.search(message, refusal(tmp_path, "--moves", "1e3", settings=settings))
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match=message):
        read(settings_file(tmp_path, settings), Run).new()


@pytest.mark.parametrize(
    ("part", "name", "wrong", "kind"),
    [
        ("network", "tuples", [0, 1], "tuples"),
        ("network", "tuples", [[[1]]], "tuples"),
        ("network", "tuples", None, "tuples"),
        ("network", "stages", 512, "stages"),
        ("network", "size", 4, "size"),
        ("network", "promote", "no", "promote"),
        ("network", "fixed_point", "false", "fixed_point"),
        ("network", "symmetric", 1, "symmetric"),
        ("learner", "lam", "half", "lam"),
        ("learner", "epsilon", None, "epsilon"),
        ("learner", "printed", "no", "printed"),
        ("learner", "carousel", "no", "carousel"),
        ("learner", "search_from", 0.5, "search_from"),
        ("learner", "restart", "10", "restart"),
        ("learner", "rule", None, "rule"),
    ],
)
def test_settings_of_a_wrong_kind_are_named(
    tmp_path: Path, part: str, name: str, wrong: Any, kind: str
) -> None:
    """Also those of a run that goes on, which then stays as it is."""
    place = run(tmp_path, "--moves", "1e3")
    before, settings = contents(place), {**SETTINGS, part: {**SETTINGS[part], name: wrong}}
    assert re.search(kind, refusal(tmp_path, "--moves", "2e3", "--resume", settings=settings))
    assert contents(place) == before
    for path in place.iterdir():
        path.unlink()
    place.rmdir()
    assert re.search(kind, refusal(tmp_path, "--moves", "1e3", settings=settings))
    assert not place.exists()


@pytest.mark.parametrize("wrong", ["x", None, True, [1]], ids=repr)
def test_a_start_value_of_a_wrong_kind_is_refused(tmp_path: Path, wrong: Any) -> None:
    settings = {**SETTINGS, "network": {**NETWORK, "start_value": wrong}}
    message = refusal(tmp_path, "--moves", "1e3", settings=settings)
    assert "start_value" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("wrong", ["one", 1.0, True, [1]], ids=repr)
def test_a_seed_of_a_wrong_kind_is_refused(tmp_path: Path, wrong: Any) -> None:
    message = refusal(tmp_path, "--moves", "1e3", settings={"network": NETWORK, "seed": wrong})
    assert "seed" in message
    assert not (tmp_path / "run").exists()


def test_all_settings_may_be_left_out(tmp_path: Path) -> None:
    assert read(settings_file(tmp_path, {}), Run) == Run()
    learner = from_dict({"network": NETWORK}, Run).new(threads=2)
    assert learner.settings == Settings()
    assert learner.threads == 2


def test_a_settings_file_that_is_missing_is_not_found(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.json")
    with pytest.raises(SystemExit, match=r"missing\.json"):
        main(["ntuple", missing, "--out", str(tmp_path / "run"), "--moves", "10"])
    assert not (tmp_path / "run").exists()
    with pytest.raises(FileNotFoundError, match=r"missing\.json"):
        read(missing, Run)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--moves", "1"],
        ["--out", "run"],
        ["--out", "run", "--moves", "many"],
        ["--out", "run", "--moves", "1", "--evaluate", "three"],
        ["--out", "run", "--moves", "1", "--evaluate", "1:2:3"],
        ["--out", "run", "--moves", "1", "--learner.rate", "2"],
        ["--out", "run", "--moves", "1", "--learner.speed", "2"],
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, arguments: list[str]) -> None:
    with contextlib.chdir(tmp_path), pytest.raises(SystemExit) as caught:
        main(["ntuple", *arguments])
    assert caught.value.code not in (None, 0)
    assert not list(tmp_path.iterdir())


def test_an_unknown_learner_is_refused_with_a_suggestion() -> None:
    with pytest.raises(SystemExit, match="did you mean 'ntuple'"):
        main(["ntupel", "--out", "run", "--moves", "1"])


def test_without_a_learner_the_command_lists_them() -> None:
    with pytest.raises(SystemExit, match="daihinmin-policy"):
        main([])


def test_options_override_the_settings_of_a_file(tmp_path: Path) -> None:
    options = ("--out", "run", "--moves", "1", "--learner.rate", "0.5", "--network.promote")
    settings, _ = parse(["ntuple", settings_file(tmp_path), *options])
    changed = {"learner": {"restart": 10, "rate": 0.5}, "network": {**NETWORK, "promote": True}}
    assert settings == from_dict({**SETTINGS, **changed}, Run)


def test_two_processes_cannot_learn_in_one_folder(tmp_path: Path) -> None:
    process = start(tmp_path)
    try:
        assert "another process" in refusal(tmp_path, "--moves", "1e13", "--resume")
    finally:
        process.kill()
        process.wait(60)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a settings file and of a run that has come to its end."""
    folder = tmp_path_factory.mktemp("finished")
    run(folder, "--moves", "2e3")
    return folder


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        *(("--moves", value) for value in ("nan", "inf", "0", "-5", "1.5", "")),
        *(("--hours", value) for value in ("nan", "inf", "-1", "0", "soon")),
        *(("--evaluate-every", value) for value in ("0", "-1", "0.5", "nan")),
        *(("--save-minutes", value) for value in ("0", "-1", "nan", "inf")),
        *(("--evaluate", value) for value in ("9:5", "0:5", "1:0", "1:5,1:7", "x", "1", "1:x")),
        *(("--threads", value) for value in ("two", "1.5")),
    ],
)
@pytest.mark.parametrize("resumed", [False, True], ids=["new", "resumed"])
def test_options_out_of_their_range_are_refused_before_anything_is_written(
    finished: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    wrong: str,
    resumed: bool,
) -> None:
    before, others = contents(finished / "run"), sorted(path.name for path in finished.iterdir())
    arguments = ["ntuple", str(finished / "settings.json"), "--moves", "4e3", f"{option}={wrong}"]
    arguments += ["--out", str(finished / "run"), "--resume"] if resumed else []
    arguments += [] if resumed else ["--out", str(finished / "new")]
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    message = f"{caught.value.code} {capsys.readouterr().err}"
    assert option[2:].replace("-", "_") in message.replace("-", "_")
    assert contents(finished / "run") == before
    assert sorted(path.name for path in finished.iterdir()) == others


def test_a_number_of_moves_may_be_written_as_a_power_of_ten() -> None:
    _, options = parse(["ntuple", "--out", "run", "--moves", "1.5e3", "--evaluate-every", "2e2"])
    assert (options.amount, options.evaluate_every) == (1_500, 200)
    assert evaluation_games("") == {}


def test_options_have_defaults() -> None:
    _, options = parse(["ntuple", "--out", "run", "--hours", "2"])
    assert (options.amount, options.hours, options.threads, options.resume) == (None, 2.0, 1, False)
    assert options.evaluate_every == 1e9
    assert evaluation_games("1:1000,3:10") == {1: 1000, 3: 10}


# Evaluation


def test_summary_worked_out_by_hand() -> None:
    """The standard deviation of 2, 4, 4 and 6 thousand is the root of 8/3 million."""
    columns = ([2000, 4000, 4000, 6000], [1, 1, 1, 1], [256, 2048, 2048, 65536])
    found = summary(Games(*(np.array(column) for column in columns)))
    assert found == {
        **{"n_games": 4, "mean": 4000.0, "interval": 1600.3, "max": 6000},
        "reached": {"2048": 0.75, **dict.fromkeys(("4096", "8192", "16384"), 0.25)}
        | dict.fromkeys(("32768", "65536"), 0.25),
    }


def test_evaluation_plays_games_of_its_own_seeds_at_each_depth() -> None:
    learner = Learner(network([[0, 1, 4], [5, 6]]), seed=1)
    learner.play(5_000)
    weights = learner.network.weights.copy()
    found = evaluate(learner.network, {1: 30, 2: 3})
    assert list(found) == ["1-ply", "2-ply"]
    greedy = play(NTupleAgent(learner.network), 30, EVALUATION_SEED)
    assert found["1-ply"] == summary(greedy)
    searched = play(ExpectimaxAgent(learner.network, 2), 3, EVALUATION_SEED)
    assert found["2-ply"] == summary(searched)
    assert (learner.network.weights == weights).all()


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_threads_share_an_evaluation_and_change_no_game(threads: int) -> None:
    learner = Learner(network([[0, 1, 4], [5, 6]]), seed=1)
    learner.play(5_000)
    plies = {1: 13, 2: 4, 3: 1}
    assert evaluate(learner.network, plies, threads=threads) == evaluate(learner.network, plies)


def test_no_games_have_no_summary() -> None:
    with pytest.raises(ValueError, match="at least one game"):
        summary(Games(*(np.empty(0, np.int64) for _ in range(3))))
