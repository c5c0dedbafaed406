"""The training command: folders of runs, resuming after stops and kills, and wrong settings."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate.agents.config import from_dict, read
from afterstate.agents.game2048.learning import ntuple_learner, play_logs
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner, play_evaluation
from afterstate.agents.game2048.learning.run_settings import NTupleRun, NTupleSettings
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.agents.training.__main__ import main, parse
from afterstate.agents.training.evaluation import EVALUATION_SEED, evaluation_games, summary
from afterstate.agents.training.learners import memory
from afterstate.envs import json_files
from tests.support.training_runs import (
    TrainingCommand,
    assert_same_learner,
    contents,
    interrupt,
    read_rows,
)

tqdm = pytest.importorskip("tqdm")

NETWORK = {"tuples": [[0, 1, 4], [5, 6], [1, 2, 5, 6]], "stages": [64, 256]}
SETTINGS: dict[str, Any] = {"network": NETWORK, "learner": {"restart": 10}, "seed": 1}
FAST = ("--evaluate-every", "5000", "--evaluate", "1:20,2:2")


@pytest.fixture
def train(tmp_path: Path) -> TrainingCommand:
    return TrainingCommand("ntuple", tmp_path, SETTINGS, *FAST)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> TrainingCommand:
    """A command with a run that has ended, which no test changes."""
    command = TrainingCommand("ntuple", tmp_path_factory.mktemp("finished"), SETTINGS, *FAST)
    command("--moves", "1e3")
    return command


def load(place: Path) -> NTupleLearner:
    """Return the learner of a run."""
    return NTupleLearner.load(place / "learner.npz")


def test_a_run_writes_its_learner_rows_and_settings(train: TrainingCommand) -> None:
    place = train("--moves", "2e4")
    names = {"learner.npz", "lock", "recent.json", "rows.jsonl", "settings.json"}
    assert set(contents(place)) == names
    assert read(place / "settings.json", NTupleRun) == from_dict(SETTINGS, NTupleRun)
    learner, rows = load(place), read_rows(place)
    assert learner.settings == NTupleSettings(restart=10)
    assert learner.network.tuples == NETWORK["tuples"]
    assert learner.network.stage_tiles == NETWORK["stages"]
    assert 20_000 <= learner.n_moves == rows[-1]["n_moves"]
    assert [row["n_moves"] // 5_000 for row in rows] == [1, 2, 3, 4]
    expected = from_dict(SETTINGS, NTupleRun).new()
    for row in rows:
        while expected.n_moves < row["n_moves"]:
            expected.learn(1)
        scores = play_evaluation(expected.network, {1: 20, 2: 2})
        assert {name: row[name] for name in scores} == scores
        assert (row["n_games"], row["n_learned"]) == (expected.n_games, expected.n_learned)
        assert row["seconds"] > 0
    assert_same_learner(expected, learner)


def test_a_resumed_run_has_the_settings_in_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "run"
    new = ["--network.tuples", "5x4", "--learner.restart", "3", "--seed", "7", *FAST]
    main(["ntuple", "--out", str(place), "--moves", "1e3", *new])
    before = (place / "settings.json").read_bytes()
    capsys.readouterr()
    main(["ntuple", "--out", str(place), "--moves", "2e3", "--resume", *FAST])
    assert (place / "settings.json").read_bytes() == before
    assert load(place).settings.restart == 3 and load(place).n_moves >= 2_000
    printed = capsys.readouterr().err
    assert "settings changed" not in printed and "memory: " in printed
    changed = ["--learner.restart", "5", *FAST]
    main(["ntuple", "--out", str(place), "--moves", "3e3", "--resume", *changed])
    assert load(place).settings.restart == 5
    assert "settings changed: learner.restart was 3 and is 5\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "8"], "seed must be 7, as in the run that is resumed, got 8"),
        (["--seed", "7", "--network.start-value", "5"], "network.start_value must be 0.*got 5"),
    ],
)
def test_settings_of_new_runs_do_not_change_when_resumed(
    tmp_path: Path, words: list[str], message: str
) -> None:
    run = ["ntuple", "--out", str(tmp_path / "run"), "--network.tuples", "5x4", *FAST]
    main([*run, "--seed", "7", "--moves", "1e3"])
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=message):
        main([*run, *words, "--moves", "2e3", "--resume"])
    assert contents(tmp_path) == before


def test_a_run_has_the_given_number_of_threads(train: TrainingCommand) -> None:
    assert load(train("--moves", "1e4", "--threads", "2")).threads == 2
    learner = load(train("--moves", "1.5e4", "--threads", "3", "--resume"))
    assert learner.threads == 3
    assert learner.n_moves >= 15_000


@pytest.mark.parametrize(
    ("arguments", "most"),
    [(("--hours", str(0.3 / 3600)), 1e30), (("--hours", "1000", "--moves", "2e4"), 2e4)],
)
def test_a_run_by_time_ends_and_its_bar_shows_the_expected_end(
    train: TrainingCommand,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    most: float,
) -> None:
    totals, amounts = list[float | None](), list[float]()

    class Bar(tqdm.tqdm):  # type: ignore[misc, name-defined]
        def update(self, n: float = 1) -> None:
            totals.append(self.total)
            super().update(n)
            amounts.append(self.n)

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    place = train(*arguments)
    assert totals
    assert all(total is not None and 0 < total <= most for total in totals)
    n_moves = read_rows(place)[-1]["n_moves"]
    assert load(place).n_moves == n_moves and amounts[-1] == min(n_moves, most)


@pytest.mark.parametrize("plies", ["1:1,2:1", "none"])
def test_rows_are_json_with_one_evaluation_game_or_none(
    train: TrainingCommand, plies: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The interval of a single game is null, and the bar tells of games only."""
    rows = read_rows(train("--moves", "6e3", "--evaluate", plies))
    assert len(rows) == 2
    printed = capsys.readouterr().err
    assert ("evaluation: 100%" in printed) == (plies != "none") and ": :" not in printed
    assert "6.00k/6.00k" in printed


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a row that do not depend on speed."""
    return {name: row[name] for name in row if name not in ("seconds", "moves_per_second")}


def test_a_resumed_run_equals_an_uninterrupted_one(train: TrainingCommand) -> None:
    """Only the row at the end of the first part is more."""
    straight = train("--moves", "2e4", out="straight")
    n_first = load(train("--moves", "7e3", out="resumed")).n_moves
    resumed = train("--moves", "2e4", "--resume", out="resumed")
    assert_same_learner(load(straight), load(resumed))
    rows = [comparable(row) for row in read_rows(resumed)]
    assert [row for row in rows if row["n_moves"] != n_first] == [
        comparable(row) for row in read_rows(straight)
    ]
    assert len(rows) == len(read_rows(straight)) + 1


def test_a_run_with_games_from_a_log_is_resumed(train: TrainingCommand) -> None:
    log = np.zeros(3, play_logs.MOVE)
    log["board"] = [0x2111, 0x5431_0000_3211, 0x0765_0000_0001_0203]
    np.save(train.folder / "log.npy", log)
    settings = {**SETTINGS, "log": str(train.folder / "log.npy"), "learner": {"jump": 0.5}}
    straight = train("--moves", "2e4", out="straight", settings=settings)
    train("--moves", "7e3", out="resumed", settings=settings)
    resumed = train("--moves", "2e4", "--resume", out="resumed", settings=settings)
    assert_same_learner(load(straight), load(resumed))
    assert 0 < load(resumed).n_games


def test_resuming_a_finished_run_changes_nothing(train: TrainingCommand) -> None:
    place = train("--moves", "6e3")
    learner, rows = load(place), read_rows(place)
    train("--moves", "6e3", "--resume")
    assert_same_learner(load(place), learner)
    assert read_rows(place) == rows


def test_a_run_is_not_overwritten(finished: TrainingCommand) -> None:
    before = contents(finished.folder / "run")
    assert "--resume" in finished.error("--moves", "4e3")
    assert contents(finished.folder / "run") == before


def test_an_empty_folder_cannot_be_resumed(train: TrainingCommand) -> None:
    assert "nothing to resume" in train.error("--moves", "4e3", "--resume")
    assert not (train.folder / "run").exists()


def test_rows_of_a_run_that_never_saved_are_deleted(train: TrainingCommand) -> None:
    (train.folder / "run").mkdir()
    (train.folder / "run" / "rows.jsonl").write_text('{"n_moves": 5000}\n{"n_mo')
    assert [row["n_moves"] // 5_000 for row in read_rows(train("--moves", "1e4"))] == [1, 2]


@pytest.mark.parametrize(
    "data",
    [
        b'{"generation": 5}\n',
        b'{"n_moves": 9}\n{"n_moves": 8}\n',
        b'{"n_moves": 9.5}\n',
        b"my,own\ntable,1\n",
        '{"n_moves": 9}\n'.encode("utf-16"),
    ],
)
def test_rows_of_something_else_are_not_deleted(tmp_path: Path, data: bytes) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(data)
    with pytest.raises(ValueError, match=r"rows\.jsonl: rows must have rising integers 'n_moves'"):
        json_files.truncate(rows, "n_moves", 100)
    assert rows.read_bytes() == data and list(tmp_path.iterdir()) == [rows]


def test_rows_that_other_programs_have_written_are_kept(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(b'\xef\xbb\xbf{"n_moves":50}\r\n{"n_moves":100.0,"x":1}')
    assert json_files.truncate(rows, "n_moves", 100) == 100
    assert rows.read_bytes() == b'{"n_moves":50}\r\n{"n_moves":100.0,"x":1}\n'
    assert [row["n_moves"] for row in json_files.rows(rows)] == [50, 100]


def test_rows_after_a_number_of_moves_are_deleted_and_damaged_lines_moved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = tmp_path / "rows.jsonl"
    assert json_files.truncate(rows, "n_moves", 100) == 0
    assert not rows.exists()
    valid = ['{"n_moves": 50}', '{"n_moves": 100, "x": "ü"}']
    others = ["5", "[]", '["n_moves"]', "null", "true", '"n_moves"', "{}", '{"n_moves": null}', ""]
    lines = [valid[0], *others, valid[1], *others, '{"n_moves": 101}', '{"n_mov']
    rows.write_text("\n".join(lines))
    with caplog.at_level(logging.WARNING):
        assert json_files.truncate(rows, "n_moves", 100) == 100
    damaged = tmp_path / "rows.jsonl.damaged"
    expected = f"{rows}: moved lines without 'n_moves' to {damaged}: 19"
    assert caplog.messages == [expected]
    assert rows.read_text() == "".join(f"{line}\n" for line in valid)
    assert damaged.read_text() == "".join(f"{line}\n" for line in [*others, *others, '{"n_mov'])
    rows.write_text(valid[0] + "\n{")
    json_files.truncate(rows, "n_moves", 100)
    assert damaged.read_text().endswith('\n{"n_mov\n{\n')


@pytest.mark.parametrize("arguments", [(), ("--resume",)], ids=["new", "resumed"])
def test_unfinished_files_of_a_killed_run_are_deleted(
    train: TrainingCommand, arguments: tuple[str, ...]
) -> None:
    place = train.folder / "run"
    if arguments:
        train("--moves", "2e3")
    place.mkdir(exist_ok=True)
    (place / "learner.npz.999.part").write_bytes(b"half a learner")
    (place / "notes.part").write_text("not of a run")
    train("--moves", "4e3", *arguments)
    names = {"learner.npz", "lock", "notes.part", "recent.json", "rows.jsonl", "settings.json"}
    assert set(contents(place)) == names


def test_a_run_may_be_resumed_with_other_settings_of_the_learner(train: TrainingCommand) -> None:
    train("--moves", "6e3")
    slower = {**SETTINGS, "learner": {"rate": 0.1, "order": "forward", "delay": 3}}
    place = train("--moves", "1e4", "--resume", settings=slower)
    assert load(place).settings == NTupleSettings(rate=0.1, order="forward", delay=3)
    assert read(place / "settings.json", NTupleRun) == from_dict(slower, NTupleRun)


def test_an_interrupted_evaluation_is_repeated_after_resume(
    train: TrainingCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ntuple_learner, "play_evaluation", interrupt)
        message = train.error("--moves", "1.2e4")
    assert message == f"saved in {train.folder / 'run'}: continue with --resume"
    rows = read_rows(train("--moves", "1.2e4", "--resume"))
    assert [row["n_moves"] // 5_000 for row in rows] == [1, 2, 2]


def start(train: TrainingCommand, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a run without end as a program, and wait until it has saved and evaluated twice."""
    place, file = train.folder / "run", train.folder / "settings.json"
    file.write_text(json.dumps(SETTINGS))
    rows = place / "rows.jsonl"
    n_rows = rows.read_text().count("\n") + 2 if rows.exists() else 2
    command = [sys.executable, "-m", "afterstate.agents.training", "ntuple", str(file)]
    command += ["--out", str(place), "--moves", "1e12", "--save-minutes", "1e-9"]
    command += ["--evaluate-every", "2e4", "--evaluate", "1:5", *arguments]
    with (train.folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr)
    try:
        wait_for_rows(rows, n_rows, process)
    except BaseException:
        process.kill()
        print((train.folder / "stderr").read_text())
        raise
    return process


def wait_for_rows(rows: Path, n_rows: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a run has written this many rows and saved its learner."""
    end = time.monotonic() + 120
    while not (
        rows.with_name("learner.npz").exists()
        and rows.exists()
        and rows.read_text().count("\n") >= n_rows
    ):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)


def assert_uninterrupted(place: Path) -> NTupleLearner:
    """Assert that a stopped run saved the learner of an uninterrupted run of as many moves."""
    learner, straight = load(place), from_dict(SETTINGS, NTupleRun).new()
    straight.learn(learner.n_moves)
    assert_same_learner(learner, straight)
    return learner


@pytest.mark.slow
def test_a_running_program_locks_its_folder_and_can_be_stopped_or_killed(
    train: TrainingCommand,
) -> None:
    """SIGTERM loses nothing; SIGKILL loses what was learned since the last save."""
    process, place = start(train), train.folder / "run"
    try:
        assert "another process" in train.error("--moves", "1e13", "--resume")
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert f"saved in {place}: continue with --resume" in (train.folder / "stderr").read_text()
    stopped = assert_uninterrupted(place)
    assert read_rows(place)[-1]["n_moves"] <= stopped.n_moves
    process = start(train, "--resume")
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    killed = assert_uninterrupted(place)
    assert killed.n_moves > stopped.n_moves
    lines = (place / "rows.jsonl").read_text().splitlines()
    assert json.loads(lines[-2])["n_moves"] <= killed.n_moves
    end = killed.n_moves + 30_000
    train("--moves", str(end), "--resume", "--evaluate-every", "2e4", "--evaluate", "1:5")
    assert assert_uninterrupted(place).n_moves >= end
    n_moves = [row["n_moves"] for row in read_rows(place)]
    assert n_moves == sorted(set(n_moves))
    assert {n // 20_000 for n in n_moves} >= set(range(1, end // 20_000))


def assert_refused(train: TrainingCommand, settings: Any, message: str) -> None:
    """Assert that a run with these settings neither begins nor resumes, and writes nothing."""
    before = contents(train.folder / "run")
    for arguments, out in ((("--resume",), "run"), ((), "new")):
        error = train.error("--moves", "4e3", *arguments, settings=settings, out=out)
        assert re.search(message, error)
    assert contents(train.folder / "run") == before
    assert not (train.folder / "new").exists()


def with_network(**settings: Any) -> dict[str, Any]:
    return {"network": {**NETWORK, **settings}}


def with_learner(**settings: Any) -> dict[str, Any]:
    return {"learner": {**SETTINGS["learner"], **settings}}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        *((with_network(tuples=tuples), "tuples") for tuples in ([0, 1], [[[1]]], None)),
        (with_network(tuples="9x9"), "9x9"),
        (with_network(tuples=[[16]]), "16"),
        (with_network(stages=[100]), "100"),
        (with_network(stages=512), "stages"),
        (with_network(size=4), "size"),
        (with_network(promote="no"), "promote"),
        (with_network(fixed_point="false"), "fixed_point"),
        (with_network(symmetric=1), "symmetric"),
        (with_network(colour="red"), "colour"),
        *((with_network(start_value=value), "start_value") for value in ("x", None, True, [1])),
        *((with_learner(lam=lam), "lam") for lam in (2, "half")),
        (with_learner(epsilon=None), "epsilon"),
        (with_learner(printed="no"), "printed"),
        (with_learner(carousel="no"), "carousel"),
        (with_learner(search_from=0.5), "search_from"),
        (with_learner(restart="10"), "restart"),
        (with_learner(rule=None), "rule"),
        (with_learner(floor=-1), "floor"),
        (with_learner(jump=0.5), "jump must be 0 without a log"),
        (with_network(start_value_from=512), "start.value.from"),
        ({"log": "nowhere.npy"}, r"nowhere\.npy"),
        (with_learner(momentum=0.9), "momentum"),
        ({"network": {"tuples": [[0]]}, "learner": {"carousel": True}}, "carousel|network"),
        *(({"seed": seed}, "seed") for seed in (-1, "one", 1.5, True, [1])),
        ({"net": {}}, "net"),
        ({"steps": 10}, "steps"),
    ],
    ids=str,
)
def test_wrong_settings_are_named_before_anything_is_written(
    finished: TrainingCommand, part: dict[str, Any], message: str
) -> None:
    assert_refused(finished, {**SETTINGS, **part}, message)


@pytest.mark.parametrize(
    ("text", "message"), [("{", "JSON"), ("", "JSON"), ("[1, 2]", "object"), ("17", "object")]
)
def test_a_settings_file_must_be_a_json_object(
    finished: TrainingCommand, text: str, message: str
) -> None:
    assert_refused(finished, text, message)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (with_network(tuples=[[0, 1]]), "must hold the network"),
        (with_network(tuples="4x6"), "must hold the network"),
        (with_network(size=[4, 3]), "must hold the network"),
        (with_network(stages=[64]), "must hold the network"),
        (with_network(promote=True), "must hold the network"),
        (with_network(fixed_point=True), "must hold the network"),
        (with_network(symmetric=False), "must hold the network"),
        (with_network(downgrade=512), "must hold the network"),
        (with_learner(rule="td"), "rule"),
    ],
    ids=str,
)
def test_a_run_is_not_resumed_with_another_network_or_rule(
    finished: TrainingCommand, part: dict[str, Any], message: str
) -> None:
    before, settings = contents(finished.folder / "run"), {**SETTINGS, **part}
    assert re.search(message, finished.error("--moves", "4e3", "--resume", settings=settings))
    assert contents(finished.folder / "run") == before
    with pytest.raises(ValueError, match=message):
        from_dict(settings, NTupleRun).resume(finished.folder / "run" / "learner.npz")


def test_a_damaged_learner_is_not_resumed(train: TrainingCommand) -> None:
    place = train("--moves", "1e3")
    (place / "learner.npz").write_bytes(b"no learner")
    before = contents(place)
    assert "learner.npz" in train.error("--moves", "4e3", "--resume")
    assert contents(place) == before


def test_all_settings_have_defaults(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{}")
    assert read(tmp_path / "settings.json", NTupleRun) == NTupleRun()
    learner = from_dict({"network": NETWORK}, NTupleRun).new(threads=2)
    assert learner.settings == NTupleSettings()
    assert learner.threads == 2


def test_a_missing_settings_file_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.json")
    with pytest.raises(OSError, match=r"missing\.json"):
        main(["ntuple", missing, "--out", str(tmp_path / "run"), "--moves", "10"])
    assert not (tmp_path / "run").exists()
    with pytest.raises(FileNotFoundError, match=r"missing\.json"):
        read(missing, NTupleRun)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--moves", "1"],
        ["--out", "run"],
        ["--out", "run", "--moves", "1", "--learner.rate", "2"],
        ["--out", "run", "--moves", "1", "--learner.speed", "2"],
    ],
)
def test_incomplete_or_wrong_options_are_refused(
    tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((SystemExit, ValueError)) as caught:
        main(["ntuple", *arguments])
    assert getattr(caught.value, "code", 2) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        *(("--moves", value) for value in ("nan", "inf", "0", "-5", "1.5", "", "many")),
        *(("--hours", value) for value in ("nan", "-1", "0", "soon")),
        *(("--evaluate-every", value) for value in ("0", "0.5")),
        *(("--save-minutes", value) for value in ("0", "inf")),
        *(("--evaluate", value) for value in ("9:5", "0:5", "1:0", "1:5,1:7", "x", "1", "1:2:3")),
        *(("--threads", value) for value in ("two", "1.5", "0", "-1", "65")),
    ],
)
def test_options_out_of_range_are_named_before_anything_is_written(
    finished: TrainingCommand, capsys: pytest.CaptureFixture[str], option: str, wrong: str
) -> None:
    before = contents(finished.folder / "run")
    for arguments, out in ((["--resume"], "run"), ([], "new")):
        with pytest.raises((SystemExit, ValueError)) as caught:
            finished("--moves", "4e3", f"{option}={wrong}", *arguments, out=out)
        message = f"{caught.value} {capsys.readouterr().err}"
        assert option[2:].replace("-", "_") in message.replace("-", "_")
    assert contents(finished.folder / "run") == before
    assert not (finished.folder / "new").exists()


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], "nothing"),
        (["ntupel", "--out", "a"], "'ntupel', did you mean ntuple?"),
        (["-x"], "'-x', options come after it"),
    ],
)
def test_an_unknown_learner_is_refused_with_those_there_are(
    words: list[str], given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    expected = "must be followed by one of ntuple, value, policy, search, rank, daihinmin-policy"
    assert f"{expected}, got {given}; see afterstate train --help" in capsys.readouterr().err


def test_options_override_the_settings_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps(SETTINGS))
    options = ("--out", "run", "--moves", "1", "--learner.rate", "0.5", "--network.promote")
    settings, _ = parse(["ntuple", str(tmp_path / "settings.json"), *options])
    changed = {**with_learner(rate=0.5), **with_network(promote=True)}
    assert settings == from_dict({**SETTINGS, **changed}, NTupleRun)


def test_numbers_of_moves_may_be_powers_of_ten_and_options_have_defaults() -> None:
    _, options = parse(["ntuple", "--out", "run", "--moves", "1.5e3", "--evaluate-every", "2e2"])
    assert (options.amount, options.evaluate_every) == (1_500, 200)
    _, options = parse(["ntuple", "--out", "run", "--hours", "2"])
    assert (options.amount, options.hours, options.resume) == (None, 2.0, False)
    assert options.evaluate_every == 1e9
    assert evaluation_games("1:1000,3:10") == {1: 1000, 3: 10}
    assert evaluation_games(None) == {}


@pytest.mark.parametrize(
    "text", ["", "1:1,", "1", "6:1", "1:0", "1:1,1:2", "1:10000001", "5:" + "9" * 5000]
)
def test_wrong_numbers_of_evaluation_games_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="evaluate must"):
        evaluation_games(text)


def test_the_summary_of_games_equals_one_computed_by_hand() -> None:
    """The standard deviation of 2, 4, 4 and 6 thousand is the root of 8/3 million."""
    columns = ([2000, 4000, 4000, 6000], [1, 1, 1, 1], [256, 2048, 2048, 65536])
    assert summary(Games(*(np.array(column) for column in columns))) == {
        **{"n_games": 4, "mean": 4000.0, "interval": 1600.3, "max": 6000},
        "reached": {"2048": 0.75, **dict.fromkeys(("4096", "8192", "16384"), 0.25)}
        | dict.fromkeys(("32768", "65536"), 0.25),
    }


def test_a_summary_needs_a_game() -> None:
    with pytest.raises(ValueError, match="game"):
        summary(Games(*(np.empty(0, np.int64) for _ in range(3))))


def test_evaluations_have_their_own_seeds_and_do_not_depend_on_threads() -> None:
    learner = NTupleLearner(network([[0, 1, 4], [5, 6]]), seed=1)
    learner.learn(5_000)
    net, weights = learner.network, learner.network.weights.copy()
    result = play_evaluation(net, {1: 13, 2: 3})
    assert list(result) == ["1-ply", "2-ply"]
    assert result["1-ply"] == summary(play(NTupleAgent(net), 13, EVALUATION_SEED))
    assert result["2-ply"] == summary(play(ExpectimaxAgent(net, 2), 3, EVALUATION_SEED))
    for threads in (2, 3, 16):
        assert play_evaluation(net, {1: 13, 2: 3}, threads=threads) == result
    assert (net.weights == weights).all()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the memory of a process")
def test_memory_of_a_process_includes_its_arrays() -> None:
    """A new process, since this one may free the arrays of other tests meanwhile."""
    program = (
        "import numpy as np; from afterstate.agents.training.learners import memory; "
        "print(memory()); array = np.ones(100 << 17); print(memory())"  # 100 MiB
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    printed = re.findall(r"memory: ([\d,]+) MiB, ([\d,]+) MiB of it in huge pages\n", run.stdout)
    before, after = ([int(number.replace(",", "")) for number in line] for line in printed)
    assert 95 <= after[0] - before[0] <= 110
    assert 0 <= after[1] - before[1] <= 110


def test_memory_is_unknown_on_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda path: False)
    assert memory() == "memory: unknown on this system"
