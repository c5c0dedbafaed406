"""Runs of training: their folders, their interruptions, and the command line."""

from __future__ import annotations

import json
import re
import runpy
import signal
import subprocess
import sys
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
import tqdm
from torch import Tensor

from afterstate.agents import files, nets
from afterstate.agents.config import from_dict, read
from afterstate.agents.daihinmin.afterstates.class_values import POINTS
from afterstate.agents.daihinmin.learning import rank_learner, rank_training
from afterstate.agents.daihinmin.learning.game_records import load_log, play_log, read_log, save_log
from afterstate.agents.daihinmin.learning.rank_learner import bootstrap, samples
from afterstate.agents.daihinmin.learning.rank_training import (
    Run,
    generate,
    points_against_sample,
)
from afterstate.agents.daihinmin.play import find_player
from afterstate.agents.daihinmin.rule_based.players import SampleAgent
from afterstate.agents.daihinmin.values import rank_net
from afterstate.agents.daihinmin.values.rank_net import load
from afterstate.agents.daihinmin.values.softmax_policy import PolicyAgent
from afterstate.agents.training.__main__ import main
from afterstate.envs.daihinmin.match import CLASS_VALUES

DATA = Path(__file__).parents[3] / "data" / "daihinmin"
RECORDED = str(DATA / "default5.jsonl.gz")
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
    told = [str(folder / "tiny.json"), "--out", str(folder / "run"), "--evaluate", "4"]
    main(["rank", *told, "--generations", str(generations), *more])
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


def learned(out: Path) -> list[dict[str, Any]]:
    """The rows of generations, without those of measurements."""
    return [row for row in rows_of(out) if "loss" in row]


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *more: str, **settings: Any) -> str:
    """What a command line that is refused says."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        run(folder, 2, *more, **settings)
    assert stopped.value.code not in (None, 0)
    told = f"{stopped.value.code} {capsys.readouterr().err}"
    assert "Traceback" not in told
    return told


def files_in(folder: Path) -> list[str]:
    """The names of files."""
    return sorted(path.name for path in folder.iterdir())


# Runs


def test_a_run_leaves_what_it_learned_in_its_folder(tmp_path: Path) -> None:
    out = run(tmp_path, 2)
    assert files_in(out) == [
        *("games", "learner.safetensors", "lock", "net.safetensors", "pool", "rows.jsonl"),
        "settings.json",
    ]
    told = nets.metadata(out / "net.safetensors")
    assert (told["network"], told["settings"]) == ("FCNN", {"hidden": 4})
    assert (told["generation"], told["iterations"]) == (2, 6)
    assert read(out / "settings.json", Run) == from_dict(TINY, Run)
    rows = learned(out)
    assert [row["generation"] for row in rows] == [1, 2]
    assert [row["iterations"] for row in rows] == [3, 6]
    assert all(np.isfinite([row["loss"], row["rmse"]]).all() for row in rows)
    measured = rows_of(out)[2]
    assert 100 <= measured.pop("against_sample") <= 500
    assert measured == {"generation": 2, "error": None}  # of one match there is none
    assert "NaN" not in (out / "rows.jsonl").read_text()
    games = load_log(out / "games" / "00002.npz")
    assert len(games.games) == 10


def test_only_the_latest_generations_and_games_are_kept(tmp_path: Path) -> None:
    """Of games 10 a generation: 25 need three of them. The pool has three generations."""
    out = run(tmp_path, 5)
    assert files_in(out / "pool") == [f"0000{n}.safetensors" for n in (3, 4, 5)]
    assert files_in(out / "games") == [f"0000{n}.npz" for n in (3, 4, 5)]
    n = [row["samples"] for row in learned(out)]
    assert n[0] < n[1] < n[2]
    assert abs(n[4] / n[2] - 1) < 0.3
    last = load(out / "pool" / "00005.safetensors").state_dict()
    plays = load(out / "net.safetensors").state_dict()
    assert all(torch.equal(last[name], plays[name]) for name in last)


def test_the_first_generation_is_played_by_the_network_as_it_began(tmp_path: Path) -> None:
    out = run(tmp_path, 1)
    assert files_in(out / "pool") == ["00000.safetensors", "00001.safetensors"]
    torch.manual_seed(5)
    first = rank_net.network("FCNN", hidden=4).state_dict()
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
        nets.save(rank_net.network("FCNN", hidden=2), paths[-1])
    loaded: list[str] = []
    original = rank_net.load

    def watched(path: Any, device: str = "cpu") -> Any:
        loaded.append(Path(path).stem)
        return original(path, device)

    settings = from_dict({**TINY, "games": 12, "table": 3, "pool": 2}, Run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_net, "load", watched)
        log = generate(settings, paths, [1, 1], 1, "cpu")
    assert len(log.games) == 12
    assert set(loaded) == {"1", "2"}  # the latest two
    again = generate(settings, paths, [1, 1], 1, "cpu")
    assert np.array_equal(log.games["actions"], again.games["actions"])


def test_guests_sit_at_the_tables_and_are_not_learned_from() -> None:
    run = Run(teacher=["heuristic"], guests=["sample"], guest_share=0.5, games=40, table=4)
    log = generate(run, [], [3], 1, "cpu")
    students = [(mask >> np.arange(5) & 1).sum() for mask in log.students]
    assert min(students) >= 1 and {2, 3} <= set(students)
    for mask in np.unique(log.students):
        of = samples(log).moments
        here = np.isin(of.origins, np.flatnonzero(log.students == mask))
        assert ((mask >> of.players[here]) & 1).all()
    alone = generate(Run(teacher=["heuristic"], games=4, table=4), [], [3], 1, "cpu")
    assert (alone.students == 0b11111).all()


def test_teachers_play_the_games_that_are_learned_from(tmp_path: Path) -> None:
    sample = generate(from_dict({**TINY, "teacher": ["sample"]}, Run), [], [1, 1], 1, "cpu")
    for game in sample.games:
        assert (game["left"] == 0).sum() >= 4
    random = generate(
        from_dict({**TINY, "teacher": ["sample"], "epsilon": 0.3}, Run), [], [1, 1], 1, "cpu"
    )
    assert (sample.last_random == -1).all()
    assert (random.last_random >= 0).any()
    out = run(tmp_path, 1, teacher=["sample", "heuristic"], epsilon=0.03)
    assert rows_of(out)[0]["samples"] > 10


def test_logs_of_others_are_learned_from_in_every_generation(tmp_path: Path) -> None:
    alone, both = run(tmp_path / "a", 2), run(tmp_path / "b", 2, logs=[RECORDED])
    more = [b["samples"] - a["samples"] for a, b in zip(learned(alone), learned(both), strict=True)]
    assert more[0] > 100
    only = run(tmp_path / "c", 2, logs=[RECORDED], games=0)
    assert [row["samples"] for row in learned(only)] == [more[0]] * 2
    assert files_in(only / "games") == []


@pytest.mark.slow
def test_targets_come_from_the_network_as_it_is_before_it_learns(tmp_path: Path) -> None:
    """Those of all games, also of those that were there before."""
    targets: list[Any] = []
    original = rank_learner.Learner.fit

    def watched(learner: Any, of: Any, *rest: Any) -> float:
        targets.append(of.targets)
        return original(learner, of, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_learner.Learner, "fit", watched)
        out = run(tmp_path, 2, logs=[RECORDED], lam=0.5, learner={"batch": 32, "rate": 0.05})
    recorded = samples(read_log(RECORDED))
    for generation in range(2):
        net = load(out / "pool" / f"0000{generation}.safetensors")
        expected = bootstrap(net, recorded, 0.5).targets
        np.testing.assert_allclose(targets[generation][: len(expected)], expected, atol=1e-6)
    assert not np.allclose(targets[0][: len(expected)], expected, atol=1e-3)


@pytest.mark.parametrize(
    "settings", [{"network": {"name": "FCNN", "hidden": 0}}, {"learner": {"foo": 1}}]
)
def test_a_run_with_wrong_arguments_is_refused_in_a_program(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"hidden|foo"):
        from_dict(settings, Run)


def test_teachers_of_a_mixed_table_have_their_own_chance_and_the_temperature() -> None:
    seeds: list[int] = []
    temperatures: list[float] = []

    def spy_find_player(name: str, seed: int) -> Any:
        seeds.append(seed)
        return find_player(name, seed)

    def new_policy(temperature: float, seed: int) -> Any:
        seeds.append(seed)
        temperatures.append(temperature)
        return PolicyAgent(temperature=temperature, seed=seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_training, "find_player", spy_find_player)
        patch.setattr(rank_training, "PolicyAgent", new_policy)
        run = Run(teacher=["random", "policy"], temperature=0.7, games=3, table=1)
        generate(run, [], [1, 1], 1, "cpu")
    assert len(seeds) == len(set(seeds)) == 15
    assert 0 < len(temperatures) < 15 and set(temperatures) == {0.7}


def test_it_is_told_how_many_games_have_been_played(tmp_path: Path) -> None:
    told: list[int] = []
    generate(from_dict({**TINY, "teacher": ["sample"]}, Run), [], [1, 1], 1, "cpu", told.append)
    assert told == [4, 4, 2]


def test_bars_show_games_and_iterations_of_each_generation(tmp_path: Path) -> None:
    shown: list[tuple[str, int]] = []

    class Bar(tqdm.tqdm):  # type: ignore[type-arg]
        """A bar that records its updates."""

        def update(self, n: float | None = 1) -> bool | None:
            shown.append((self.unit.strip(), int(n or 0)))
            return bool(super().update(n))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_training, "tqdm", Bar)
        run(tmp_path, 2)
    games = [("games", 4), ("games", 4), ("games", 2)]
    assert shown == [*games, *[("iterations", 1)] * 3] * 2


def test_a_run_can_begin_with_a_network(tmp_path: Path) -> None:
    torch.manual_seed(9)
    net = rank_net.network("FCNN", hidden=4)
    nets.save(net, tmp_path / "start.safetensors")
    out = run(tmp_path, 1, start=str(tmp_path / "start.safetensors"))
    kept = load(out / "pool" / "00000.safetensors").state_dict()
    assert all(torch.equal(kept[name], weights) for name, weights in net.state_dict().items())


@pytest.mark.parametrize(
    "network", [{"name": "FCNN", "hidden": 5}, {"name": "BaseCNN", "channels": 4}]
)
def test_a_run_does_not_begin_with_another_network_than_the_one_asked_for(
    network: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = tmp_path / "start.safetensors"
    nets.save(rank_net.network("FCNN", hidden=4), start)
    told = refused(capsys, tmp_path, start=str(start), network=network)
    assert "start.safetensors has ['FCNN', {'hidden': 4}], not" in told
    assert not (tmp_path / "run").exists()


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


@pytest.mark.parametrize("more", [{}, {"lam": 0.7, "logs": [RECORDED]}])
def test_a_run_that_is_resumed_comes_to_the_same(more: dict[str, Any], tmp_path: Path) -> None:
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


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


def killed(*args: Any) -> None:
    """Takes the place of what a kill shall come at."""
    raise Killed


KILLS: dict[str, tuple[Any, str, int]] = {
    "before the games": (rank_training, "generate", 1),
    "before the games are saved": (rank_training, "save_log", 1),
    "before learning": (rank_learner.Learner, "fit", 1),
    "before the first file is written": (files, "write_bytes", 1),
    "between the files": (files, "write_bytes", 2),
    "before the last file": (files, "write_bytes", 3),
    "after the last file": (files, "write_bytes", -3),
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
        if name != "write_bytes" or "safetensors" in str(args[0]):
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


def test_a_generation_that_is_killed_while_it_is_measured_keeps_its_row(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_training, "points_against_sample", killed)
        with pytest.raises(Killed):
            run(tmp_path, 2)
    run(tmp_path, 3, "--resume")
    assert [row["generation"] for row in rows_of(tmp_path / "run")] == [1, 2, 3, 3]
    assert learned(tmp_path / "run") == learned(run(tmp_path / "whole", 3))


def test_networks_that_do_not_fit_into_a_smaller_pool_do_not_come_back(tmp_path: Path) -> None:
    out = run(tmp_path, 3)
    assert len(files_in(out / "pool")) == 3
    run(tmp_path, 4, "--resume", pool=1)
    assert files_in(out / "pool") == ["00004.safetensors"]
    run(tmp_path, 6, "--resume", pool=4)
    assert files_in(out / "pool") == [f"0000{n}.safetensors" for n in (4, 5, 6)]


def test_games_that_were_all_played_are_not_played_again(tmp_path: Path) -> None:
    out = run(tmp_path, 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_learner.Learner, "fit", killed)
        with pytest.raises(Killed):
            run(tmp_path, 3, "--resume")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_training, "generate", killed)
        run(tmp_path, 3, "--resume")
        with pytest.raises(Killed):
            run(tmp_path, 4, "--resume")
    row = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()][-2]
    assert row["generation"] == 3 and "games_per_second" not in row


def test_games_that_another_run_left_are_not_learned_from(tmp_path: Path) -> None:
    (tmp_path / "run" / "games").mkdir(parents=True)
    save_log(play_log([SampleAgent()] * 5, 10, 1), tmp_path / "run" / "games" / "00002.npz")
    (tmp_path / "run" / "rows.jsonl").write_text('{"generation": 1, "against_sample": 1}\n')
    out = run(tmp_path, 1)
    assert files_in(out / "games") == ["00001.npz"]
    assert ["loss" in row for row in rows_of(out)] == [True, False]


def test_a_run_goes_on_without_the_network_it_began_with(tmp_path: Path) -> None:
    start = tmp_path / "start.safetensors"
    nets.save(rank_net.network("FCNN", hidden=4), start)
    run(tmp_path, 1, start=str(start))
    start.unlink()
    out = run(tmp_path, 2, "--resume", start=str(start))
    assert len(learned(out)) == 2


def test_a_measurement_that_was_killed_is_made_up_for(tmp_path: Path) -> None:
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
        patch.setattr(rank_learner.Learner, "fit", terminated)
        with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
            run(tmp_path, 1)
    assert signal.getsignal(signal.SIGTERM) is before
    assert nets.metadata(tmp_path / "run" / "net.safetensors")["generation"] == 0


def test_a_half_learned_generation_is_not_saved(tmp_path: Path) -> None:
    original = rank_learner.Learner.fit

    def interrupted(*args: Any, **kwargs: Any) -> float:
        original(*args, **kwargs)
        raise KeyboardInterrupt

    for generations, more in ((1, ()), (3, ("--resume",))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rank_learner.Learner, "fit", interrupted)
            with pytest.raises(SystemExit, match="--resume"):
                run(tmp_path, generations, *more)
        run(tmp_path, generations, "--resume")
    assert same_weights(tmp_path / "run", run(tmp_path / "whole", 3))


def test_a_row_that_was_cut_off_or_came_too_early_is_dropped(tmp_path: Path) -> None:
    out = run(tmp_path, 2)
    with (out / "rows.jsonl").open("a") as file:
        file.write('{"generation": 3, "loss": 1}\n{"generat')
    run(tmp_path, 3, "--resume")
    assert [row["generation"] for row in learned(out)] == [1, 2, 3]
    assert "samples" in learned(out)[2]


@pytest.mark.parametrize(
    ("at", "name", "saved"),
    [
        (rank_training, "generate", 0),
        (rank_learner.Learner, "fit", 0),
        (rank_training, "save_log", 0),
        (rank_training, "points_against_sample", 1),
    ],
)
def test_an_interrupted_run_goes_on_from_the_last_complete_generation(
    at: Any, name: str, saved: int, tmp_path: Path
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(at, name, interrupted)
        with pytest.raises(SystemExit, match="continue with --resume"):
            run(tmp_path, 1)
    assert nets.metadata(tmp_path / "run" / "net.safetensors")["generation"] == saved
    run(tmp_path, 2, "--resume")
    assert [row["generation"] for row in learned(tmp_path / "run")] == [1, 2]


def test_a_run_that_has_come_to_its_end_stays_as_it_is(tmp_path: Path) -> None:
    out = run(tmp_path, 2)
    before = (out / "net.safetensors").read_bytes()
    run(tmp_path, 2, "--resume")
    assert (out / "net.safetensors").read_bytes() == before
    assert len(learned(out)) == 2


# What is refused


def test_a_folder_that_has_a_run_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, 1)
    before = (out / "net.safetensors").read_bytes()
    told = refused(capsys, tmp_path)
    assert "--resume" in told
    assert (out / "net.safetensors").read_bytes() == before


def test_there_must_be_something_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(capsys, tmp_path, "--resume")
    assert "nothing to resume" in told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (
            {"network": {"name": "FCNN", "hidden": 5}},
            "network was ['FCNN', {'hidden': 4}] and is ['FCNN', {'hidden': 5}]",
        ),
        ({"learner": {"batch": 32, "average": 0.5}}, "learner was {"),
        ({"epsilon": 0.1, "games": 11}, "epsilon was 0.0 and is 0.1; games was 10 and is 11. "),
        ({"seed": 6}, "seed was 5 and is 6. Resume it with"),
    ],
)
def test_a_run_is_not_resumed_with_other_settings(
    settings: dict[str, Any], match: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, 1)
    before = {path: path.read_bytes() for path in out.iterdir() if path.is_file()}
    assert match in refused(capsys, tmp_path, "--resume", **settings)
    assert before == {path: path.read_bytes() for path in out.iterdir() if path.is_file()}


def test_settings_that_are_left_out_are_the_same_as_those_by_default(tmp_path: Path) -> None:
    run(tmp_path, 1)
    told = {"learner": {"optimizer": "adam", "batch": 32}, "lam": 1.0}
    assert len(learned(run(tmp_path, 2, "--resume", **told))) == 2


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("net.safetensors", "net.safetensors is not a network of afterstate, or it is damaged"),
        ("learner.safetensors", "learner.safetensors is missing or damaged, or not of gener"),
        ("settings.json", "settings.json"),
        ("games/00001.npz", "00001.npz is not a file of afterstate"),
        ("games/00002.npz", "00002.npz is not a file of afterstate"),
    ],
)
def test_a_damaged_file_of_a_run_is_named(
    name: str, match: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, 1)
    (out / name).write_bytes(b"\x10\0\0\0\0\0\0\0junk")
    assert match in refused(capsys, tmp_path, "--resume")


def test_what_is_left_of_a_learner_does_no_harm(tmp_path: Path) -> None:
    out = run(tmp_path, 1)
    (out / "next.safetensors").write_bytes(b"junk")
    assert len(learned(run(tmp_path, 2, "--resume"))) == 2


def test_a_learner_of_another_generation_or_kind_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run(tmp_path, 1) / "learner.safetensors"
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file(tensors, path, {"generation": "0"})
    assert "learner.safetensors is missing or" in refused(capsys, tmp_path, "--resume")
    safetensors.torch.save_file({"net/x": torch.zeros(1)}, path, {"generation": "1"})
    assert "learner.safetensors: " in refused(capsys, tmp_path, "--resume")


@pytest.mark.parametrize("facts", [{}, {"generation": "x", "iterations": 3, "seconds": 1.0}])
def test_a_network_that_is_of_no_run_is_not_resumed(
    facts: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run(tmp_path, 1) / "net.safetensors"
    nets.save(load(path), path, **facts)
    assert "net.safetensors lacks" in refused(capsys, tmp_path, "--resume")


def test_two_processes_do_not_learn_in_one_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fcntl")
    out = run(tmp_path, 1)
    program = (
        "import fcntl, sys; file = open(sys.argv[1], 'r+'); fcntl.lockf(file, fcntl.LOCK_EX); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    told = [sys.executable, "-c", program, str(out / "lock")]
    with subprocess.Popen(told, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"locked\n"
        assert "another process learns in" in refused(capsys, tmp_path, "--resume")
        other.kill()
    assert len(learned(run(tmp_path, 2, "--resume"))) == 2


def test_it_says_that_all_games_were_spoilt_by_random_moves(tmp_path: Path) -> None:
    spoilt = {"teacher": ["policy"], "games": 1, "table": 1, "epsilon": 0.99}
    with pytest.raises(SystemExit, match=r"generation 1 has nothing to learn from.*Lower epsilon"):
        run(tmp_path, 1, **spoilt)


def test_a_teacher_may_have_his_name_in_full() -> None:
    names = ["daihinmin-policy", "sample"]
    assert Run(teacher=names).teacher == ["policy", "sample"]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"gams": 3}, "gams"),
        ({"games": 0}, "games"),
        ({"games": -1}, "games"),
        ({"games": 2.5}, "games"),
        ({"games": None}, "games"),
        ({"pool": True}, "pool"),
        ({"window": -1}, "window"),
        ({"iterations": 0}, "iterations"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"seed": 1 << 70}, "seed"),
        ({"epsilon": 1}, "epsilon"),
        ({"epsilon": "x"}, "epsilon"),
        ({"temperature": 0}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"lam": 2}, "lam"),
        ({"final_rate": "x"}, "final_rate"),
        ({"final_rate": -1}, "final_rate"),
        ({"final_rate": 0}, "final_rate"),
        ({"guest_share": 1.5}, "guest_share"),
        ({"guests": ["nobody"]}, "guests"),
        ({"learned_gifts": "no"}, "learned_gifts"),
        ({"points": "much"}, "points"),
        ({"points": [1, 2]}, "points"),
        ({"points": [float("nan")] * 5}, "points"),
        ({"points": 5}, "points"),
        ({"learner": {"optimizer": "lbfgs"}}, "learner"),
        ({"learner": {"speed": 1}}, "learner"),
        ({"learner": {"batch": 1.5}}, "learner"),
        ({"learner": []}, "learner"),
        ({"network": {"channels": 8}}, "network"),
        ({"network": {"name": ["FCNN"]}}, "network"),
        ({"network": "BaseCNN"}, "network"),
        ({"network": {"name": "LeNet"}}, "LeNet"),
        ({"network": {"name": "FCNN", "channels": 3}}, "FCNN"),
        ({"start": "missing.safetensors"}, "missing"),
        ({"start": 1}, "start"),
        ({"logs": ["missing.jsonl"]}, "missing"),
        ({"logs": "x.jsonl"}, "logs"),
        ({"teacher": ["nobody"]}, "nobody"),
        ({"teacher": "policy"}, "teacher"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_written(
    settings: dict[str, Any], match: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert re.search(match, refused(capsys, tmp_path, **settings))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", [None, "", "[]", "{", '"x"', "[" * 100_000 + "]" * 100_000])
def test_a_settings_file_must_be_there_and_be_json(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match=r"settings\.json"):
        main(["rank", str(path), "--out", str(tmp_path / "run"), "--generations", "1"])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("device", ["foo", "meta", "cpu:x", "", "cuda:99"])
def test_a_device_must_be_there(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(capsys, tmp_path, "--device", device)
    assert "device" in told
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_must_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "torch has no device 'cuda' here" in refused(capsys, tmp_path, "--device", "cuda")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("package", ["joblib", "safetensors.torch", "torch"])
def test_what_is_not_installed_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, rank_training.__name__)
    with pytest.raises(ImportError, match=r'pip install "afterstate\[neural,train\]"'):
        runpy.run_module(rank_training.__name__)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--generations", "x"],
        ["--generations", "0"],
        ["--generations", "-3"],
        ["--hours", "0"],
        ["--hours", "nan"],
        ["--generations", "1", "--jobs", "0"],
        ["--generations", "1", "--evaluate", "0"],
    ],
)
def test_a_wrong_command_line_is_refused(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["rank", "--out", str(tmp_path / "run"), *arguments])
    assert stopped.value.code not in (None, 0)
    assert not files_in(tmp_path)


def test_damaged_games_in_the_folder_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, 2)
    (out / "games" / "00002.npz").write_bytes(b"damaged")
    assert "00002.npz" in refused(capsys, tmp_path, "--resume")


def test_the_window_counts_games_of_other_sizes(tmp_path: Path) -> None:
    """Where a generation has more games than 25, none before it is kept."""
    out = run(tmp_path, 1)
    save_log(play_log([SampleAgent()] * 5, 30, 1), out / "games" / "00002.npz")
    run(tmp_path, 3, "--resume")
    assert files_in(out / "games") == ["00002.npz", "00003.npz"]
