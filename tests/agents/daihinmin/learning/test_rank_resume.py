"""Tests of interrupted and resumed runs that train rank networks."""

from __future__ import annotations

import errno
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("joblib")
pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

import safetensors.torch
import torch

from afterstate.agents import nets
from afterstate.agents.daihinmin.learning import rank_learner, rank_training
from afterstate.agents.daihinmin.learning.game_records import play_log, save_log
from afterstate.agents.daihinmin.rule_based.players import SampleAgent
from afterstate.agents.daihinmin.values import rank_net
from afterstate.agents.daihinmin.values.rank_net import load
from afterstate.agents.training.folder import RunFolder
from afterstate.envs import durable_files
from tests.support.daihinmin.rank_runs import (
    RECORDED,
    files_in,
    learned,
    rejected,
    rows_of,
    run,
    same_weights,
)
from tests.support.training_runs import lock_of_another_process

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("more", [{}, {"lam": 0.7, "logs": [RECORDED]}])
def test_a_resumed_run_equals_one_without_a_break(more: dict[str, Any], tmp_path: Path) -> None:
    settings = {"learner": {"batch": 32, "average": 0.9}, "learned_gifts": True, "epsilon": 0.05}
    settings |= more
    whole = run(tmp_path / "whole", 4, **settings)
    parts = run(tmp_path / "parts", 2, **settings)
    run(tmp_path / "parts", 4, "--resume", **settings)
    assert same_weights(whole, parts)
    for name in ("pool", "games"):
        assert files_in(whole / name) == files_in(parts / name)
    assert learned(whole) == learned(parts)
    assert [row["generation"] for row in rows_of(whole)] == [1, 2, 3, 4, 4]
    assert [row["generation"] for row in rows_of(parts)] == [1, 2, 2, 3, 4, 4]


@pytest.mark.slow
def test_teachers_in_processes_play_the_games_of_one_process(tmp_path: Path) -> None:
    settings = {"teacher": ["heuristic", "sample"], "epsilon": 0.05, "table": 5}
    alone = run(tmp_path / "alone", 2, **settings)
    parts = run(tmp_path / "parts", 1, "--jobs", "2", **settings)
    run(tmp_path / "parts", 2, "--resume", "--jobs", "2", **settings)
    assert same_weights(alone, parts)
    assert files_in(alone / "games") == files_in(parts / "games") != []
    assert learned(alone) == learned(parts)


class Killed(BaseException):
    """The end of the process, which nothing catches."""


def killed(*args: Any) -> None:
    """Replace a function at which the process is killed."""
    raise Killed


KILLS: dict[str, tuple[Any, str, int]] = {
    "before the games": (rank_training, "generate", 1),
    "before the games are saved": (rank_training, "save_log", 1),
    "before learning": (rank_learner.RankLearner, "fit", 1),
    "before the first file is written": (durable_files, "write", 1),
    "between the files": (durable_files, "write", 2),
    "before the last file": (durable_files, "write", 3),
    "after the last file": (durable_files, "write", -3),
}
"""The function at whose n-th call the process is killed, before it or (negative) after it."""


@pytest.mark.slow
@pytest.mark.parametrize("kill", KILLS)
def test_a_run_that_is_killed_goes_on_from_its_last_whole_generation(
    kill: str, tmp_path: Path
) -> None:
    """A kill anywhere in generation 3 does not change the result."""
    out, (owner, name, nth) = run(tmp_path / "killed", 2), KILLS[kill]
    original: Callable[..., Any] = getattr(owner, name)
    calls: list[Any] = []

    def killing(*args: Any, **kwargs: Any) -> Any:
        if name != "write" or str(args[0]).endswith((".safetensors", ".next")):
            calls.append(args)
        if len(calls) >= abs(nth):  # nor does anything after it, such as another attempt to save
            if len(calls) == -nth:
                original(*args, **kwargs)
            raise Killed
        return original(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, killing)
        with pytest.raises(Killed):
            run(tmp_path / "killed", 4, "--resume")
    assert nets.metadata(out / "net.safetensors")["generation"] == (2 if nth > 0 else 3)
    run(tmp_path / "killed", 4, "--resume")
    whole = run(tmp_path / "whole", 4)
    assert same_weights(out, whole)
    assert files_in(out) == files_in(whole)
    assert files_in(out / "games") == files_in(whole / "games")
    assert set(files_in(whole / "pool")) <= set(files_in(out / "pool"))
    assert learned(out) == learned(whole)


@pytest.mark.slow
def test_a_generation_that_is_killed_while_it_is_measured_keeps_its_row(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_training, "points_against_sample", killed)
        with pytest.raises(Killed):
            run(tmp_path, 2)
    run(tmp_path, 3, "--resume")
    assert [row["generation"] for row in rows_of(tmp_path / "run")] == [1, 2, 3, 3]
    assert learned(tmp_path / "run") == learned(run(tmp_path / "whole", 3))


@pytest.mark.parametrize("is_written", [False, True])
def test_a_signal_while_a_row_is_written_neither_loses_nor_doubles_it(
    is_written: bool, tmp_path: Path
) -> None:
    """A signal is delivered between two lines of Python, such as before or after the write."""
    original, n_rows = RunFolder.add_row, 0

    def signalled(folder: RunFolder, row: dict[str, Any]) -> None:
        nonlocal n_rows
        n_rows += "loss" in row
        if is_written:
            original(folder, row)
        if n_rows == 2:
            signal.raise_signal(signal.SIGTERM)
        if not is_written:
            original(folder, row)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "add_row", signalled)
        with pytest.raises(SystemExit):
            run(tmp_path, 4)
    out = tmp_path / "run"
    assert nets.metadata(out / "net.safetensors")["generation"] == 2
    fits = [row["generation"] for row in rows_of(out) if "loss" in row]
    assert fits == [1, 2]


@pytest.mark.slow
def test_networks_dropped_from_a_smaller_pool_do_not_return(tmp_path: Path) -> None:
    out = run(tmp_path, 3)
    assert len(files_in(out / "pool")) == 3
    run(tmp_path, 4, "--resume", pool=1)
    assert files_in(out / "pool") == ["00004.safetensors"]
    run(tmp_path, 6, "--resume", pool=4)
    assert files_in(out / "pool") == [f"0000{n}.safetensors" for n in (4, 5, 6)]


@pytest.mark.slow
def test_a_complete_generation_of_games_is_not_played_again(tmp_path: Path) -> None:
    out = run(tmp_path, 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_learner.RankLearner, "fit", killed)
        with pytest.raises(Killed):
            run(tmp_path, 3, "--resume")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_training, "generate", killed)
        run(tmp_path, 3, "--resume")
        with pytest.raises(Killed):
            run(tmp_path, 4, "--resume")
    row = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()][-2]
    assert row["generation"] == 3 and "games_per_second" not in row


def test_games_of_an_earlier_run_are_not_learned_from(tmp_path: Path) -> None:
    (tmp_path / "run" / "games").mkdir(parents=True)
    save_log(play_log([SampleAgent()] * 5, 10, 1), tmp_path / "run" / "games" / "00002.npz")
    (tmp_path / "run" / "rows.jsonl").write_text('{"generation": 1, "against_sample": 1}\n')
    out = run(tmp_path, 1)
    assert files_in(out / "games") == ["00001.npz"]
    assert ["loss" in row for row in rows_of(out)] == [True, False]


def test_a_run_resumes_without_its_start_file(tmp_path: Path) -> None:
    start = tmp_path / "start.safetensors"
    nets.save(rank_net.network("FCNN", hidden=4), start)
    run(tmp_path, 1, start=str(start))
    start.unlink()
    out = run(tmp_path, 2, "--resume", start=str(start))
    assert len(learned(out)) == 2


def test_a_killed_evaluation_is_repeated(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_training, "points_against_sample", killed)
        with pytest.raises(Killed):
            run(tmp_path, 2)
    out = run(tmp_path, 2, "--resume")
    run(tmp_path, 2, "--resume")
    assert ["against_sample" in row for row in rows_of(out)] == [False, False, True]


def test_sigterm_interrupts_a_run(tmp_path: Path) -> None:
    def terminated(*args: Any) -> None:
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_learner.RankLearner, "fit", terminated)
        with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
            run(tmp_path, 1)
    assert signal.getsignal(signal.SIGTERM) is before
    assert nets.metadata(tmp_path / "run" / "net.safetensors")["generation"] == 0


@pytest.mark.slow
def test_a_half_learned_generation_is_not_saved(tmp_path: Path) -> None:
    original = rank_learner.RankLearner.fit

    def interrupted(*args: Any, **kwargs: Any) -> float:
        original(*args, **kwargs)
        raise KeyboardInterrupt

    for generations, more in ((1, ()), (3, ("--resume",))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rank_learner.RankLearner, "fit", interrupted)
            with pytest.raises(KeyboardInterrupt, match="--resume"):
                run(tmp_path, generations, *more)
        run(tmp_path, generations, "--resume")
    assert same_weights(tmp_path / "run", run(tmp_path / "whole", 3))


def test_an_incomplete_or_premature_row_is_dropped(tmp_path: Path) -> None:
    out = run(tmp_path, 2)
    with (out / "rows.jsonl").open("a") as file:
        file.write('{"generation": 3, "loss": 1}\n{"generat')
    run(tmp_path, 3, "--resume")
    assert [row["generation"] for row in learned(out)] == [1, 2, 3]
    assert "samples" in learned(out)[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "name", "saved"),
    [
        (rank_training, "generate", 0),
        (rank_learner.RankLearner, "fit", 0),
        (rank_training, "save_log", 0),
        (rank_training, "points_against_sample", 1),
    ],
)
def test_an_interrupted_run_resumes_from_the_last_complete_generation(
    at: Any, name: str, saved: int, tmp_path: Path
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(at, name, interrupted)
        with pytest.raises(KeyboardInterrupt, match="continue with --resume"):
            run(tmp_path, 1)
    assert nets.metadata(tmp_path / "run" / "net.safetensors")["generation"] == saved
    run(tmp_path, 2, "--resume")
    assert [row["generation"] for row in learned(tmp_path / "run")] == [1, 2]


def test_a_finished_run_stays_unchanged(tmp_path: Path) -> None:
    out = run(tmp_path, 2)
    before = (out / "net.safetensors").read_bytes()
    run(tmp_path, 2, "--resume")
    assert (out / "net.safetensors").read_bytes() == before
    assert len(learned(out)) == 2


def test_a_run_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(tmp_path, 1)
    before = (out / "net.safetensors").read_bytes()
    error = rejected(capsys, tmp_path)
    assert "--resume" in error
    assert (out / "net.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (
            {"network": {"name": "FCNN", "hidden": 5}},
            "network was FCNN,hidden=4 and is FCNN,hidden=5",
        ),
        (
            {"learner": {"batch": 32, "average": 0.5}},
            "learner.average was 0 and is 0.5. ",
        ),
        ({"epsilon": 0.1, "games": 11}, "epsilon was 0 and is 0.1; games was 10 and is 11. "),
        ({"seed": 6}, "seed was 5 and is 6. Resume it with"),
    ],
)
def test_a_run_is_not_resumed_with_other_settings(
    settings: dict[str, Any], match: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, 1)
    before = {path: path.read_bytes() for path in out.iterdir() if path.is_file()}
    assert match in rejected(capsys, tmp_path, "--resume", **settings)
    assert before == {path: path.read_bytes() for path in out.iterdir() if path.is_file()}


def test_omitted_settings_equal_the_defaults(tmp_path: Path) -> None:
    run(tmp_path, 1)
    settings = {"learner": {"optimizer": "adam", "batch": 32}, "lam": 1.0}
    assert len(learned(run(tmp_path, 2, "--resume", **settings))) == 2


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("net.safetensors", "net.safetensors is not a network of afterstate, or it is damaged"),
        ("learner.safetensors", "learner.safetensors is missing or damaged, or not of gener"),
        ("settings.json", "settings.json"),
        ("games/00001.npz", "00001.npz is not a file of afterstate"),
    ],
)
def test_a_damaged_file_of_a_run_is_named(
    name: str, match: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, 1)
    (out / name).write_bytes(b"\x10\0\0\0\0\0\0\0junk")
    assert match in rejected(capsys, tmp_path, "--resume")


def test_missing_games_that_are_learned_from_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, 2)
    (out / "games" / "00001.npz").unlink()
    assert "00001.npz" in rejected(capsys, tmp_path, "--resume")


def test_damaged_games_of_the_next_generation_are_played_again(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", 2)
    out = run(tmp_path, 1)
    (out / "games" / "00002.npz").write_bytes((out / "games" / "00001.npz").read_bytes()[:1_000])
    run(tmp_path, 2, "--resume")
    networks = (safetensors.torch.load_file(each / "net.safetensors") for each in (out, whole))
    first, second = networks
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_files_of_the_user_are_kept(tmp_path: Path) -> None:
    names = ("games/mine.npz", "games/1.npz", "pool/best.safetensors", "pool/000001.safetensors")
    for name in names:
        file = tmp_path / "run" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"mine")
    out = run(tmp_path, 2)
    assert [(out / name).read_bytes() for name in names] == [b"mine"] * 4


def test_a_run_whose_disk_was_full_at_once_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(nets, "save", full)
        run(tmp_path, 1)
    assert len(learned(run(tmp_path, 1))) == 1


def test_an_unfinished_learner_file_is_ignored(tmp_path: Path) -> None:
    out = run(tmp_path, 1)
    (out / "learner.next").write_bytes(b"junk")
    assert len(learned(run(tmp_path, 2, "--resume"))) == 2


def test_a_learner_of_another_generation_or_kind_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run(tmp_path, 1) / "learner.safetensors"
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file(tensors, path, {"generation": "0"})
    assert "learner.safetensors is missing or" in rejected(capsys, tmp_path, "--resume")
    safetensors.torch.save_file({"net/x": torch.zeros(1)}, path, {"generation": "1"})
    assert "learner.safetensors: " in rejected(capsys, tmp_path, "--resume")


@pytest.mark.parametrize("facts", [{}, {"generation": "x", "iterations": 3, "seconds": 1.0}])
def test_a_network_without_a_run_is_not_resumed(
    facts: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run(tmp_path, 1) / "net.safetensors"
    nets.save(load(path), path, **facts)
    assert "net.safetensors lacks" in rejected(capsys, tmp_path, "--resume")


def test_two_processes_do_not_learn_in_one_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, 1)
    with lock_of_another_process(out):
        assert "another process writes to" in rejected(capsys, tmp_path, "--resume")
    assert len(learned(run(tmp_path, 2, "--resume"))) == 2


def test_damaged_games_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(tmp_path, 2)
    (out / "games" / "00002.npz").write_bytes(b"damaged")
    assert "00002.npz" in rejected(capsys, tmp_path, "--resume")


@pytest.mark.slow
def test_the_window_counts_games_of_other_sizes(tmp_path: Path) -> None:
    """No earlier games stay if a generation has more games than the window of 25."""
    out = run(tmp_path, 1)
    save_log(play_log([SampleAgent()] * 5, 30, 1), out / "games" / "00002.npz")
    run(tmp_path, 3, "--resume")
    assert files_in(out / "games") == ["00002.npz", "00003.npz"]
