"""Files after a simulated power loss: see `tests.support.power_loss`."""

from __future__ import annotations

import gzip
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from afterstate.envs import durable_files, json_files
from afterstate.envs.daihinmin.uecda.journal import Lines
from afterstate.leaderboard import gzip_rows
from tests.support.power_loss import disk, write_state

if sys.platform != "linux":
    pytest.skip("finds the names of open files in /proc", allow_module_level=True)

N = 12
"""States of each moment."""

ROWS = [{"n_moves": i, "text": "x" * 3 * i} for i in range(1, 7)]


def test_the_simulation_loses_what_is_not_synced(tmp_path: Path) -> None:
    """Renaming without a sync loses the old file and the new one."""
    path = tmp_path / "file"
    durable_files.write(path, b"old")
    with disk(tmp_path) as watched:
        path.with_suffix(".part").write_bytes(b"new content")
        os.replace(path.with_suffix(".part"), path)
    contents = {state.get("file", b"missing") for state in watched.states(random.Random(1), 50)}
    assert {b"old", b"new content", b"", bytes(11)} <= contents


def test_a_replaced_file_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    old, new = b"old" * 50, b"new" * 40
    path = tmp_path / "runs" / "deep" / "file"
    with disk(tmp_path) as watched:
        durable_files.write(path, old)
        n_first = len(watched.moments)
        durable_files.write(path, new)
    name = str(path.relative_to(tmp_path))
    states = list(watched.states(random.Random(1), N))
    assert {state.get(name) for state in states} == {None, old, new}
    assert all(state.get(name) for state in states[N * n_first :])
    folders = {"runs/": b"", "runs/deep/": b""}
    assert all(state == {**folders, name: new} for state in states[-N:])


def test_the_simulation_loses_files_with_their_folder(tmp_path: Path) -> None:
    """A file that was synced, also by name, is lost with a folder whose name was not."""
    with disk(tmp_path) as watched:
        (tmp_path / "new").mkdir()
        durable_files.write(tmp_path / "new" / "file", b"new")
    last = [sorted(state) for state in watched.states(random.Random(1), 50)][-50:]
    assert last[0] == []
    assert last[1] == ["new/", "new/file"]
    assert [] in last[2:]


def append_json(path: Path) -> None:
    for row in ROWS:
        json_files.append(path, [row])


def append_log(path: Path) -> None:
    lines = Lines(path, synced=True)
    for row in ROWS:
        lines.append(row)
    lines.close()


def append_gzip(path: Path) -> None:
    for row in ROWS:
        gzip_rows.append(path, [row])


def append_again(path: Path) -> None:
    """Append after a kill, as the leaderboard does."""
    gzip_rows.repair(path)
    append_gzip(path)


def read_gzip(path: Path) -> list[object]:
    return list(gzip_rows.rows(path))


def mend_gzip(path: Path) -> None:
    gzip_rows.repair(path)
    gzip_rows.append(path, [{"n_moves": 99}])


def mend_log(path: Path) -> None:
    lines = Lines(path, synced=True)
    lines.append({"n_moves": 99})
    lines.close()


@pytest.mark.parametrize(
    ("name", "append", "read", "mend"),
    [
        (
            "rows.jsonl",
            append_json,
            json_files.rows,
            lambda p: json_files.append(p, [{"n_moves": 99}]),
        ),
        ("log.jsonl", append_log, json_files.rows, mend_log),
        ("rows.jsonl.gz", append_gzip, read_gzip, mend_gzip),
    ],
)
def test_appended_rows_survive_and_a_torn_one_costs_itself(
    tmp_path: Path,
    name: str,
    append: Callable[[Path], None],
    read: Callable[[Path], list[object]],
    mend: Callable[[Path], None],
) -> None:
    root = tmp_path / "run"
    root.mkdir()
    with disk(root) as watched:
        append(root / name)
    n_before = 0
    for i, state in enumerate(watched.states(random.Random(1), N)):
        write_state(state, tmp_path / str(i))
        path = tmp_path / str(i) / name
        rows = read(path)
        assert rows == ROWS[: len(rows)]
        if i % N == 0:  # nothing that was not synced
            assert len(rows) >= n_before
            n_before = len(rows)
        assert len(rows) >= n_before
        mend(path)
        assert read(path) == [*rows, {"n_moves": 99}]
    assert n_before == len(ROWS)


@pytest.mark.parametrize(
    ("name", "append", "torn"),
    [
        ("rows.jsonl", append_json, b'{"n_moves": 1'),
        ("log.jsonl", append_log, b'{"n_moves": 1'),
        ("rows.jsonl.gz", append_again, gzip.compress(b'{"n_moves": 1}', mtime=0)[:-9]),
    ],
    ids=["rows", "log", "gzip"],
)
def test_rows_after_a_torn_one_survive_a_loss_of_power(
    tmp_path: Path, name: str, append: Callable[[Path], None], torn: bytes
) -> None:
    """A program is killed within a row; the next one appends until the power fails."""
    root, reader = tmp_path / "run", read_gzip if name.endswith(".gz") else json_files.rows
    durable_files.write(root / name, torn)
    with disk(root) as watched:
        append(root / name)
    n_before = 0
    for i, state in enumerate(watched.states(random.Random(1), N)):
        write_state(state, tmp_path / str(i))
        rows = reader(tmp_path / str(i) / name)
        assert rows == ROWS[: len(rows)]
        n_before = max(n_before, len(rows)) if i % N == 0 else n_before
        assert len(rows) >= n_before
    assert n_before == len(ROWS)


def resumes(folder: Path, checkpoint: str) -> tuple[str, ...]:
    """Return the option that continues a run, as a person would give it."""
    return ("--resume",) if (folder / checkpoint).exists() else ()


@pytest.mark.parametrize(
    "n",
    [pytest.param(1, marks=pytest.mark.slow), pytest.param(6, marks=pytest.mark.exhaustive)],
)
def test_a_training_run_goes_on_from_a_checkpoint_with_all_its_rows(tmp_path: Path, n: int) -> None:
    from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
    from tests.support.training_runs import TrainingCommand, assert_same_learner, read_rows

    settings = {"network": {"tuples": [[0, 1], [4, 5]]}, "seed": 1}
    options = ("--moves", "3e3", "--evaluate-every", "1e3", "--evaluate", "1:5,2:1")
    command = TrainingCommand("ntuple", tmp_path, settings, *options)
    straight = command(out="straight")
    root = tmp_path / "run"
    root.mkdir()
    with disk(root) as watched:
        command()
    for i, state in enumerate(watched.states(random.Random(n), n)):
        write_state(state, tmp_path / str(i))
        arguments = resumes(tmp_path / str(i), "learner.npz")
        run = command(*arguments, out=str(i))
        learners = [NTupleLearner.load(each / "learner.npz") for each in (run, straight)]
        assert_same_learner(*learners)
        amounts = [[row["n_moves"] for row in read_rows(each)] for each in (run, straight)]
        assert amounts[0] == amounts[1]


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_a_play_log_goes_on_to_the_same_moves(
    tmp_path: Path, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("joblib")
    from afterstate.agents.game2048.learning import play_logs
    from tests.support.game2048.commands import run_log
    from tests.support.training_runs import contents

    def command(folder: Path, *arguments: str) -> None:
        play = ["--player", "random", "--batch", "2", "--games", "8"]
        run_log(str(folder / "log.npy"), *play, *arguments)

    monkeypatch.setattr(play_logs, "N_BUCKETS", 3)
    monkeypatch.setattr(play_logs, "SAVE_SECONDS", -1.0)  # after every round
    roots = [tmp_path / name for name in ("straight", "watched")]
    for root in roots:
        root.mkdir()
    command(roots[0])
    with disk(roots[1]) as watched:
        command(roots[1])
    for i, state in enumerate(watched.states(random.Random(n), n)):
        folder = tmp_path / str(i)
        write_state(state, folder)
        if not (folder / "log.npy").exists() or (folder / "log.parts" / "state.json").exists():
            command(folder, *resumes(folder, "log.parts"))
        assert contents(folder) == contents(roots[0])
