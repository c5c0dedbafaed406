"""Runs of training: their folders, their interruptions, and the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib")
pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

import safetensors.torch
import torch
from torch import Tensor

from afterstate.agents import files
from afterstate.agents.daihinmin import learning, rank_nets, training
from afterstate.agents.daihinmin.classes import POINTS
from afterstate.agents.daihinmin.logs import load_log, play_log, save_log
from afterstate.agents.daihinmin.rank_nets import load
from afterstate.agents.daihinmin.rule_based import SampleAgent
from afterstate.agents.daihinmin.training import (
    Run,
    generate,
    main,
    points_against_sample,
    read_run,
)
from afterstate.envs.daihinmin.match import CLASS_VALUES

DATA = Path(__file__).parent / "data"
TINY: dict[str, Any] = {
    "network": {"name": "FCNN", "hidden": 4},
    "learner": {"batch": 32},
    "games": 10,
    "table": 4,
    "window": 25,
    "pool": 3,
    "iterations": 3,
    "seed": 5,
}


pytestmark = pytest.mark.usefixtures("one_thread")


def run(folder: Path, generations: int, *more: str, **settings: Any) -> Path:
    """Runs the command line for a tiny network; returns the folder of the run."""
    folder.mkdir(exist_ok=True)
    (folder / "tiny.json").write_text(json.dumps({**TINY, **settings}))
    told = [str(folder / "tiny.json"), "--out", str(folder / "run"), "--measure", "4"]
    main([*told, "--generations", str(generations), *more])
    return folder / "run"


def weights_of(out: Path) -> dict[str, Tensor]:
    """The weights that play and those that learn."""
    learner = safetensors.torch.load_file(out / "learner.safetensors")
    return {**safetensors.torch.load_file(out / "net.safetensors"), **learner}


def same_weights(first: Path, second: Path) -> bool:
    """Whether two runs have come to the same."""
    ours, theirs = weights_of(first), weights_of(second)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def rows_of(out: Path) -> list[dict[str, Any]]:
    """The rows of a run without what the clock says."""
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if "second" not in k} for row in rows]


def files_in(folder: Path) -> list[str]:
    """The names of files."""
    return sorted(path.name for path in folder.iterdir())


# Runs


def test_a_run_leaves_what_it_learned_in_its_folder(tmp_path: Path) -> None:
    out = run(tmp_path, 2)
    assert files_in(out) == [
        *("games", "learner.safetensors", "net.safetensors", "pool", "rows.jsonl", "settings.json")
    ]
    told = rank_nets.about(out / "net.safetensors")
    assert (told["network"], told["settings"]) == ("FCNN", {"hidden": 4})
    assert (told["generation"], told["iterations"]) == (2, 6)
    assert read_run(out / "settings.json") == Run(**TINY)
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert [row["generation"] for row in rows] == [1, 2]
    assert [row["iterations"] for row in rows] == [3, 6]
    assert all(np.isfinite([row["loss"], row["rmse"]]).all() for row in rows)
    assert ["against_sample" in row for row in rows] == [False, True]
    assert 100 <= rows[1]["against_sample"] <= 500
    games = load_log(out / "games" / "00002.npz")
    assert len(games.games) == 10


def test_only_the_latest_generations_and_games_are_kept(tmp_path: Path) -> None:
    """Of games 10 a generation: 25 need three of them. The pool has three generations."""
    out = run(tmp_path, 5)
    assert files_in(out / "pool") == [f"0000{n}.safetensors" for n in (3, 4, 5)]
    assert files_in(out / "games") == [f"0000{n}.npz" for n in (3, 4, 5)]
    samples = [row["samples"] for row in rows_of(out)]
    assert samples[0] < samples[1] < samples[2]
    assert abs(samples[4] / samples[2] - 1) < 0.3
    last = load(out / "pool" / "00005.safetensors").state_dict()
    plays = load(out / "net.safetensors").state_dict()
    assert all(torch.equal(last[name], plays[name]) for name in last)


def test_the_first_generation_is_played_by_the_network_as_it_began(tmp_path: Path) -> None:
    out = run(tmp_path, 1)
    assert files_in(out / "pool") == ["00000.safetensors", "00001.safetensors"]
    torch.manual_seed(5)
    first = rank_nets.network("FCNN", hidden=4).state_dict()
    kept = load(out / "pool" / "00000.safetensors").state_dict()
    assert all(torch.equal(first[name], kept[name]) for name in first)


def test_the_seed_decides_a_run(tmp_path: Path) -> None:
    outs = [run(tmp_path / name, 2, seed=seed) for name, seed in [("a", 1), ("b", 1), ("c", 2)]]
    assert same_weights(outs[0], outs[1])
    assert rows_of(outs[0]) == rows_of(outs[1])
    assert not same_weights(outs[0], outs[2])


def test_players_are_drawn_again_for_each_table(tmp_path: Path) -> None:
    """With replacement, from all that may play: tables of 1 game have different players."""
    paths = []
    for k in range(3):
        torch.manual_seed(k)
        paths.append(tmp_path / f"{k}.safetensors")
        rank_nets.save(rank_nets.network("FCNN", hidden=2), paths[-1])
    loaded: list[str] = []
    original = rank_nets.load

    def watched(path: Any, device: str = "cpu") -> Any:
        loaded.append(Path(path).stem)
        return original(path, device)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_nets, "load", watched)
        log = generate(Run(**{**TINY, "games": 12, "table": 3, "pool": 2}), paths, [1, 1], 1, "cpu")
    assert len(log.games) == 12
    assert set(loaded) == {"1", "2"}  # the latest two
    again = generate(Run(**{**TINY, "games": 12, "table": 3, "pool": 2}), paths, [1, 1], 1, "cpu")
    assert np.array_equal(log.games["actions"], again.games["actions"])


def test_guests_sit_at_the_tables_and_are_not_learned_from() -> None:
    run = Run(teacher=["heuristic"], guests=["sample"], guest_share=0.5, games=40, table=4)
    log = generate(run, [], [3], 1, "cpu")
    students = [(mask >> np.arange(5) & 1).sum() for mask in log.students]
    assert min(students) >= 1 and {2, 3} <= set(students)
    for mask in np.unique(log.students):
        of = learning.samples(log).moments
        here = np.isin(of.origins, np.flatnonzero(log.students == mask))
        assert ((mask >> of.players[here]) & 1).all()
    alone = generate(Run(teacher=["heuristic"], games=4, table=4), [], [3], 1, "cpu")
    assert (alone.students == 0b11111).all()


def test_teachers_play_the_games_that_are_learned_from(tmp_path: Path) -> None:
    sample = generate(Run(**{**TINY, "teacher": ["sample"]}), [], [1, 1], 1, "cpu")
    for game in sample.games:
        assert (game["left"] == 0).sum() >= 4
    random = generate(Run(**{**TINY, "teacher": ["sample"], "epsilon": 0.3}), [], [1, 1], 1, "cpu")
    assert not sample.last_random.any()
    assert random.last_random.any()
    out = run(tmp_path, 1, teacher=["sample", "heuristic"], epsilon=0.03)
    assert rows_of(out)[0]["samples"] > 10


def test_logs_of_others_are_learned_from_in_every_generation(tmp_path: Path) -> None:
    recorded = str(DATA / "default5.jsonl.gz")
    alone, both = run(tmp_path / "a", 2), run(tmp_path / "b", 2, logs=[recorded])
    more = [b["samples"] - a["samples"] for a, b in zip(rows_of(alone), rows_of(both), strict=True)]
    assert more[0] > 100
    only = run(tmp_path / "c", 2, logs=[recorded], games=0)
    assert [row["samples"] for row in rows_of(only)] == [more[0]] * 2
    assert files_in(only / "games") == []


def test_a_run_can_begin_with_a_network(tmp_path: Path) -> None:
    torch.manual_seed(9)
    net = rank_nets.network("FCNN", hidden=4)
    rank_nets.save(net, tmp_path / "start.safetensors")
    out = run(tmp_path, 1, start=str(tmp_path / "start.safetensors"))
    kept = load(out / "pool" / "00000.safetensors").state_dict()
    assert all(torch.equal(kept[name], weights) for name, weights in net.state_dict().items())


def test_points_against_sample_clients_are_by_100_games() -> None:
    """Five sample clients have 300 on the average; the error is that of the mean of matches."""
    points, error = points_against_sample("sample", 4_000, 1, Run())
    assert 2 < error < 30
    assert abs(points - 300) < 4 * error
    assert np.isnan(points_against_sample("sample", 50, 1, Run())[1])


def test_points_have_names() -> None:
    assert Run().worth() == POINTS
    assert Run(points="classes").worth() == CLASS_VALUES
    assert Run(points=[1, 2, 3, 4, 5]).worth() == (1, 2, 3, 4, 5)


# Interruptions


def test_a_run_that_is_resumed_comes_to_the_same(tmp_path: Path) -> None:
    settings = {"learner": {"batch": 32, "average": 0.9}, "learned_gifts": True, "epsilon": 0.05}
    whole = run(tmp_path / "whole", 4, **settings)
    parts = run(tmp_path / "parts", 2, **settings)
    run(tmp_path / "parts", 4, "--resume", **settings)
    assert same_weights(whole, parts)
    for name in ("pool", "games"):
        assert files_in(whole / name) == files_in(parts / name)
    ours, theirs = rows_of(whole), rows_of(parts)
    assert "against_sample" in theirs[1]  # the end of the first part
    measured = {"against_sample", "error"}
    for row, other in zip(ours, theirs, strict=True):
        keys = row.keys() - measured
        assert {k: row[k] for k in keys} == {k: other[k] for k in other.keys() - measured}


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


KILLS: dict[str, tuple[Any, str, int]] = {
    "before the games": (training, "generate", 1),
    "before the games are saved": (training, "save_log", 1),
    "before learning": (learning.Learner, "fit", 1),
    "before the first file is written": (files, "replace", 1),
    "between the files": (files, "replace", 2),
    "before the last file": (files, "replace", 3),
    "after the last file": (files, "replace", -3),
}
"""What is called for the so many-th time when it is killed, before that or (-) after it."""


@pytest.mark.parametrize("kill", KILLS)
def test_a_run_that_is_killed_goes_on_from_its_last_whole_generation(
    kill: str, tmp_path: Path
) -> None:
    """Wherever it is killed in generation 3, it comes to the same as without that."""
    out, (owner, name, nth) = run(tmp_path / "killed", 2), KILLS[kill]
    original: Callable[..., Any] = getattr(owner, name)
    calls: list[Any] = []

    def killing(*args: Any, **kwargs: Any) -> Any:
        if name != "replace" or "safetensors" in str(args[0]):
            calls.append(args)
        if len(calls) == abs(nth):
            if nth < 0:
                original(*args, **kwargs)
            raise Killed
        return original(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, killing)
        with pytest.raises(Killed):
            run(tmp_path / "killed", 4, "--resume")
    assert rank_nets.about(out / "net.safetensors")["generation"] == (2 if nth > 0 else 3)
    run(tmp_path / "killed", 4, "--resume")
    whole = run(tmp_path / "whole", 4)
    assert same_weights(out, whole)
    assert files_in(out) == files_in(whole)
    assert files_in(out / "games") == files_in(whole / "games")
    assert set(files_in(whole / "pool")) <= set(files_in(out / "pool"))
    assert [row["generation"] for row in rows_of(out)] == [1, 2, *([3] * (nth > 0)), 4]


def test_a_row_that_was_cut_off_or_came_too_early_is_dropped(tmp_path: Path) -> None:
    out = run(tmp_path, 2)
    with (out / "rows.jsonl").open("a") as file:
        file.write('{"generation": 3, "loss": 1}\n{"generat')
    run(tmp_path, 3, "--resume")
    assert [row["generation"] for row in rows_of(out)] == [1, 2, 3]
    assert "samples" in rows_of(out)[2]


def test_an_interrupted_run_says_how_it_goes_on(tmp_path: Path) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "generate", interrupted)
        with pytest.raises(SystemExit, match=r"saved in .*run: go on with --resume"):
            run(tmp_path, 1)
    assert rank_nets.about(tmp_path / "run" / "net.safetensors")["generation"] == 0
    run(tmp_path, 1, "--resume")


def test_a_run_that_has_come_to_its_end_stays_as_it_is(tmp_path: Path) -> None:
    out = run(tmp_path, 2)
    before = (out / "net.safetensors").read_bytes()
    run(tmp_path, 2, "--resume")
    assert (out / "net.safetensors").read_bytes() == before
    assert len(rows_of(out)) == 2


# What is refused


def test_a_folder_that_has_a_run_is_not_overwritten(tmp_path: Path) -> None:
    out = run(tmp_path, 1)
    before = (out / "net.safetensors").read_bytes()
    with pytest.raises(SystemExit, match="is there: go on with --resume, or choose another --out"):
        run(tmp_path, 2)
    assert (out / "net.safetensors").read_bytes() == before


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is not there: there is nothing to resume"):
        run(tmp_path, 1, "--resume")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"network": {"name": "FCNN", "hidden": 5}}, "another network than the settings ask for"),
        ({"network": {"name": "BaseCNN", "channels": 4}}, "another network"),
        ({"learner": {"optimizer": "sgd", "batch": 32}}, "another network or optimizer"),
    ],
)
def test_a_run_of_another_kind_is_not_resumed(
    settings: dict[str, Any], match: str, tmp_path: Path
) -> None:
    run(tmp_path, 1)
    with pytest.raises(SystemExit, match=match):
        run(tmp_path, 2, "--resume", **settings)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"gams": 3}, r"tiny\.json: it is a JSON object with some of .*'games'"),
        ({"games": 0}, "from 1 on"),
        ({"games": 2.5}, "from 1 on"),
        ({"pool": True}, "from 1 on"),
        ({"window": -1}, "from 1 on"),
        ({"iterations": 0}, "from 1 on"),
        ({"epsilon": 1}, "epsilon is from 0 on and below 1"),
        ({"epsilon": "x"}, "tiny"),
        ({"lam": 2}, "lam is from 0 to 1"),
        ({"points": "much"}, "points are .* or five numbers, got 'much'"),
        ({"points": [1, 2]}, "points are five numbers"),
        ({"learner": {"optimizer": "lbfgs"}}, "the optimizer is adam or sgd"),
        ({"learner": {"speed": 1}}, "tiny.*speed"),
        ({"network": {"name": "LeNet"}}, "there is no network 'LeNet'"),
        ({"network": {"name": "FCNN", "channels": 3}}, "FCNN has"),
        ({"start": "missing.safetensors"}, "missing.safetensors"),
        ({"logs": ["missing.jsonl"]}, "missing.jsonl"),
        ({"teacher": ["nobody"]}, "there is no player 'nobody'"),
    ],
)
def test_wrong_settings_are_told_at_once(
    settings: dict[str, Any], match: str, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match=match) as refused:
        run(tmp_path, 1, **settings)
    assert refused.value.code != 0
    assert not (tmp_path / "run" / "rows.jsonl").exists()


def test_a_settings_file_must_be_there_and_be_json(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    told = [str(path), "--out", str(tmp_path / "run"), "--generations", "1"]
    with pytest.raises(SystemExit, match=r"settings\.json"):
        main(told)
    for text in ("", "[]", "{", '"x"'):
        path.write_text(text)
        with pytest.raises(SystemExit, match=r"settings\.json: ."):
            main(told)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--generations", "x"],
        ["--hours", "0"],
        ["--hours", "nan"],
        ["--generations", "1", "--jobs", "0"],
        ["--generations", "1", "--measure", "0"],
    ],
)
def test_a_wrong_command_line_says_how_to_stop(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["settings.json", "--out", str(tmp_path), *arguments])
    assert refused.value.code == 2
    assert "--generations" in capsys.readouterr().err


def test_damaged_games_in_the_folder_are_told(tmp_path: Path) -> None:
    out = run(tmp_path, 2)
    (out / "games" / "00002.npz").write_bytes(b"damaged")
    with pytest.raises(SystemExit, match=r"00002\.npz"):
        run(tmp_path, 3, "--resume")


def test_the_window_counts_games_of_other_sizes(tmp_path: Path) -> None:
    """When a resumed run plays more games a generation, fewer generations are kept."""
    out = run(tmp_path, 2)
    run(tmp_path, 3, "--resume", games=30)
    assert files_in(out / "games") == ["00003.npz"]
    save_log(play_log([SampleAgent()] * 5, 1, 1), out / "games" / "00009.npz")  # after the last
    run(tmp_path, 4, "--resume")
    assert "00004.npz" in files_in(out / "games")
