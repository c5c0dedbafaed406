"""The ablations of learning: its settings, and the scores and differences of its table."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from afterstate.agents.config import from_dict
from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.learning.run_settings import NTupleOptions, NTupleRun
from afterstate.agents.game2048.values.ntuple_file import save
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.agents.training import learners
from afterstate.envs import json_files
from afterstate.envs.game2048.rules import cells
from afterstate.envs.json_files import Row
from benchmarks.pretrained import ablations


def row(mean: float, interval: float) -> Row:
    """Return a row of a run with a greedy score."""
    score = {"mean": mean, "interval": interval, "n_games": 9}
    reached = dict.fromkeys(ablations.TILES, 0.25)
    return {"n_moves": 1_000, "seconds": 1800.0, "1-ply": {**score, "reached": reached}}


@pytest.mark.parametrize("name", ablations.RUNS)
def test_settings_are_those_of_learners(name: str) -> None:
    run = from_dict(ablations.RUNS[name]["settings"], NTupleRun)
    tiny = replace(run.network, tuples=[[0, 1]], size=(2, 2))
    learner = replace(run.learner, jump=0)
    assert replace(run, network=tiny, learner=learner, log=None).new().n_moves == 0
    assert Path(ablations.file_name(name)).name == ablations.file_name(name)


def test_differences_are_from_the_run_that_lacks_the_setting() -> None:
    runs = {"one stage": [row(1, 1), row(1_000, 30)], "restart": [row(1_200, 40)]}
    runs |= {"8x6, restart": [row(1_500, 60)], "lambda 0": [row(900, 40)]}
    lines = ablations.table(runs).splitlines()[2:]
    reached = "25.0% | 25.0% | 25.0% |"
    half = math.hypot(30, 40)
    assert lines == [
        f"| one stage |  | 1,000 ± 30 |  | {reached}",
        f"| restart | one stage | 1,200 ± 40 | +200 ± {half:.0f} | {reached}",
        f"| 8x6, restart | restart | 1,500 ± 60 | +300 ± {math.hypot(40, 60):.0f} | {reached}",
        f"| lambda 0 | one stage | 900 ± 40 | -100 ± {half:.0f} | {reached}",
    ]
    del runs["one stage"]
    assert f"| restart | one stage | 1,200 ± 40 |  | {reached}" in ablations.table(runs)


def test_late_scores_that_no_game_passes_are_blank() -> None:
    line = {"score": 200_000, "games": 5, "expected": 1_234, "scored": 99_000}
    table = ablations.late_table([{"setting": "restart", "lines": [line]}])
    assert table.splitlines()[-1] == "| restart |  | 1,234 / 99,000 (5) |  |  |  |"


def test_runs_of_other_lengths_are_not_compared() -> None:
    longer = {**row(1, 1), "n_moves": 2e9}
    with pytest.raises(ValueError, match=r"restart must have the moves and games of the other"):
        ablations.table({"one stage": [row(1, 1)], "restart": [longer]})


def test_the_runs_are_compared_with_runs_of_one_setting_less() -> None:
    compared = {name: run["against"] for name, run in ablations.RUNS.items() if "against" in run}
    assert set(ablations.RUNS) - set(compared) == {"one stage"}
    assert set(compared.values()) <= set(ablations.RUNS)


@pytest.mark.slow
def test_a_figure_of_all_runs_has_a_line_of_its_own_for_each(tmp_path: Path) -> None:
    runs = {name: [row(1_000 + i, 30)] for i, name in enumerate(ablations.RUNS)}
    ablations.draw(runs, tmp_path / "curves.svg")
    drawn = (tmp_path / "curves.svg").read_text()
    assert all(f"<!-- {name} -->" in drawn for name in runs)
    ablations.draw(runs, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == drawn


def test_made_up_boards_have_a_32768_in_the_corner_and_two_to_five_small_tiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations, "N_MADE_UP", 500)
    of_run = ablations.run_settings("stages, games from made-up boards", tmp_path / "runs")
    boards = cells(play_logs.read_whole(of_run["log"])["board"]).reshape(-1, 16)
    assert (boards[:, 0] == 15).all()
    assert boards[:, 1:].max() == 7
    assert set((boards[:, 1:] > 0).sum(1)) == {2, 3, 4, 5}
    assert len(np.unique(boards, axis=0)) > 490


def test_unknown_runs_are_named() -> None:
    with pytest.raises(ValueError, match=r"only must be some of one stage, .*, got 'restrat'"):
        ablations.Args("learn", only=("restrat",))


@pytest.mark.parametrize("evaluate", ["1:1,2:9", "2:9"])
def test_scores_need_intervals(evaluate: str) -> None:
    with pytest.raises(ValueError, match="evaluate must have 1 ply, and at least 2 games of each"):
        ablations.Args("learn", evaluate=evaluate)


def test_the_command_of_the_page_has_the_moves_and_games_that_are_not_the_default() -> None:
    learn = "python -m benchmarks.pretrained.ablations learn"
    games = {"1-ply": {"n_games": 2_000}, "2-ply": {"n_games": 200}}
    assert ablations.command({"n_moves": 1_000_000_900, **games}) == learn
    ours = {"n_moves": 4_012, "moves": 4_000, "1-ply": {"n_games": 9}}
    assert ablations.command(ours) == f"{learn} --moves 4000 --evaluate 1:9"


def test_the_text_is_about_the_published_rows() -> None:
    text = (ablations.RESULTS / "README.md").read_text(encoding="utf-8")
    about = Path(ablations.__file__).with_suffix(".md").read_text(encoding="utf-8")
    assert about in text
    assert about not in ablations.page({"restart": [row(1_000, 30)]}, [])


def test_an_interrupted_run_goes_on_and_has_rows_when_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed: list[bool] = []

    def learn(run: NTupleRun, options: NTupleOptions) -> None:
        assert (run.seed, options.threads, options.moves) == (1, 1, 1_000_000_000)
        resumed.append(options.resume)
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "learner.npz").touch()
        if len(resumed) == 1:
            raise KeyboardInterrupt
        json_files.write_rows(options.out / "rows.jsonl", [row(1_000, 30)])

    monkeypatch.setattr(learners, "run", learn)
    args = ablations.Args("learn", runs=tmp_path / "runs", out=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        ablations.learn("restart", args)
    assert not ablations.ended(args)
    ablations.learn("restart", args)
    assert resumed == [False, True]
    assert [each["1-ply"]["mean"] for each in ablations.ended(args)["restart"]] == [1_000]


def test_late_scores_are_measured_again_for_another_network_or_number_of_games(
    tmp_path: Path,
) -> None:
    args = ablations.Args("learn", runs=tmp_path / "runs", out=tmp_path, late_games=1)
    learner, results = tmp_path / "runs" / "restart" / "learner.npz", tmp_path / "late_game.jsonl"
    json_files.append(results, [{"setting": "one stage"}, {"setting": "restart"}])
    weights = []
    for value, late_games in ((0, 1), (0, 1), (1, 1), (1, 2)):
        net = network([[0, 1]], (2, 2))
        net.weights[:] = value
        learner.parent.mkdir(parents=True, exist_ok=True)
        save(net, learner)
        ablations.measure_late_game("restart", replace(args, late_games=late_games))
        first, row = json_files.rows(results)
        assert first == {"setting": "one stage"}
        assert (row["setting"], row["games"]) == ("restart", late_games)
        weights.append(row["weights"])
    assert weights[0] == weights[1] != weights[2] == weights[3]


@pytest.mark.slow
def test_a_run_is_learned_once_and_its_rows_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "learn --moves 4000 --evaluate 1:4 --late-games 3 --only restart".split()
    words += ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    ablations.main(words)
    rows = json_files.rows(tmp_path / "out" / "restart.jsonl")
    assert len(rows) == 4 and rows[-1]["n_moves"] >= 4_000
    capsys.readouterr()
    ablations.main(words)
    assert json_files.rows(tmp_path / "out" / "restart.jsonl") == rows
    assert "| restart | " in capsys.readouterr().out
    assert rows[0]["threads"] == rows[0]["seed"] == 1 and "cpu" in rows[0]["machine"]
    assert '`{"learner": {"restart": 10}}`' in (tmp_path / "out" / "README.md").read_text()
    (late,) = json_files.rows(tmp_path / "out" / "late_game.jsonl")
    assert (late["setting"], late["games"]) == ("restart", 3)
    capsys.readouterr()
    ablations.main(["report", "--out", str(tmp_path / "out")])
    assert "| restart | " in capsys.readouterr().out
