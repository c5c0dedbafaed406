"""The experiments with rank networks: their statistics, and tiny runs."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

import pandas as pd
import torch
from torch import nn

from afterstate.agents.config import from_dict
from afterstate.agents.daihinmin.learning import rank_training
from afterstate.agents.daihinmin.learning.rank_training import RankTraining
from afterstate.agents.daihinmin.values import rank_net
from afterstate.envs import json_files
from afterstate.envs.commands import exit_code
from afterstate.envs.json_files import Row
from benchmarks.experiments.daihinmin import report, run, settings
from benchmarks.experiments.daihinmin.settings import Claim, Experiment

TINY: Row = {
    "title": "Tiny",
    "paper": "None",
    "shows": "nothing",
    "readings": [],
    "run": {
        "teacher": ["heuristic"],
        "learner": {"batch": 64},
        "games": 10,
        "table": 10,
        "window": 20,
        "iterations": 2,
    },
    "generations": 2,
    "sets": 2,
    "paper_games": 1e5,
    "players": {
        "small": {
            "network": {"name": "FCNN", "hidden": 4},
            "published": {"points": 310, "error": 2, "rmse": 0.8, "iterations": 5e6},
        },
        "smaller": {"network": {"name": "FCNN", "hidden": 2}, "epsilon": 0.1},
        "policy": {},
        "heuristic": {},
        "sample": {},
    },
    "claims": [{"better": "heuristic", "worse": "sample", "says": "rules help"}],
}
EXPERIMENT = from_dict(TINY, Experiment)
NAMES = list("abcde")


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"better": "nobody", "worse": "small"}, "claims: there is no player 'nobody'"),
        ({"says": "x"}, "claims: there is no player ''"),
        ({"equal": ["small", "smaller", "sample"]}, "claims.0.equal"),
    ],
)
def test_claims_are_about_two_players(claim: Row, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        from_dict({**TINY, "claims": [{"says": "x", **claim}]}, Experiment)


# Statistics


def row(
    seed: int, points: list[float], squares: list[float | None] | None = None, n_sets: int = 1
) -> Row:
    """Return a row of five players."""
    first = {"seed": seed, "sets": n_sets, "players": NAMES, "points": points}
    return first | {"visits": [10] * 5, "squared_error": squares or [None] * 5}


def two_sets(seed: int) -> list[Row]:
    """Return the rows of a draw of two sets."""
    return [row(seed, [300.0] * 5, n_sets=2) | {"set": i} for i in range(2)]


def correlated(n_draws: int, n_sets: int, seed: int) -> list[Row]:
    """Return rows that vary between draws, not between sets: the mean of all players is 300."""
    rng = np.random.default_rng(seed)
    rows = []
    for draw in range(n_draws):
        luck = rng.normal(0, 30, 5)
        means = 300 + luck - luck.mean()
        rows += [row(draw, (means + rng.normal(0, 1, 5)).tolist()) for _ in range(n_sets)]
    return rows


def result(*points: float, first: int = 0) -> report.Result:
    """Return the result of a player in draws from a seed on."""
    return report.Result(pd.Series(dict(enumerate(map(float, points), first))), 0.8, 0.1)


def test_results_are_means_over_draws_with_their_standard_errors() -> None:
    rows = [
        row(0, [400, 300, 300, 300, 200], [10.0, None, None, None, None]),
        row(1, [440, 300, 300, 260, 200], [30.0, None, None, None, None]),
    ]
    results = report.results(rows)
    # a: mean 420, standard deviation 28.28, over the root of 2; RMSE: root of 40 / 20
    assert results["a"].draws.to_dict() == {0: 400, 1: 440} and results["a"].points == 420
    assert results["a"].error == pytest.approx(20)
    # the mean square is 1 and 3 in the draws: 2, with an error of 1
    assert results["a"].rmse == pytest.approx(math.sqrt(2))
    assert results["a"].rmse_error == pytest.approx(1 / (2 * math.sqrt(2)))
    assert math.isnan(results["b"].rmse) and results["b"].error == 0
    single = report.results(rows[:1])["a"]
    assert math.isnan(single.error) and math.isnan(single.rmse_error)


@pytest.mark.slow
def test_sets_of_a_draw_are_not_independent() -> None:
    once, often = correlated(10, 1, seed=1), correlated(10, 1, seed=1) * 10
    single, repeated = report.results(once), report.results(often)
    for name in NAMES:  # repeated rows add no information
        assert repeated[name].points == pytest.approx(single[name].points)
        assert repeated[name].error == pytest.approx(single[name].error)
    samples = [report.results(correlated(10, 5, seed))["a"] for seed in range(40)]
    deviation = np.std([each.points for each in samples])
    assert np.mean([each.error for each in samples]) == pytest.approx(deviation, rel=0.2)


def test_the_error_of_a_gap_accounts_for_common_draws() -> None:
    one, other = result(310, 290, 330), result(290, 310, 270)
    # the gap is 20, -20 and 60 in the three draws: standard deviation 40, over the root of 3
    assert report.gap(one, other) == pytest.approx((20, 40 / math.sqrt(3)))
    separate = result(290, 310, 270, first=3)
    independent = math.hypot(one.error, separate.error)
    assert report.gap(one, separate) == pytest.approx((20, independent))


@pytest.mark.slow
def test_leads_of_equal_players_are_seldom_significant() -> None:
    claim = Claim(better="a", worse="b", says="")
    pairs = [report.comparison(claim, report.results(correlated(20, 1, i))) for i in range(60)]
    significant = sum("not significant" not in text for text in pairs)
    assert 0 < significant < 6  # one in twenty is expected


def test_a_claim_is_compared_with_its_interval() -> None:
    one, other = result(317, 323), result(306, 314, first=2)
    claim = Claim(better="x", worse="y", says="")
    near = {"x": one, "y": other}
    assert report.comparison(claim, near) == "+10.0 ± 10.0: same, not significant"
    assert report.comparison(claim, {"x": one}) == "not measured"
    far = result(286, 294, first=2)
    assert report.comparison(claim, {"x": one, "y": far}) == "+30.0 ± 10.0: same, significant"
    assert report.comparison(claim, {"x": far, "y": one}) == "-30.0 ± 10.0: opposite, significant"
    single = report.comparison(claim, {"x": one, "y": result(290)})
    assert single == "+30.0: too few draws or runs for an interval"


def test_players_that_the_paper_calls_equal_are_compared() -> None:
    one = result(317, 323)
    claim = Claim(equal=("x", "y"), says="")

    def compared(x: report.Result, y: report.Result) -> str:
        return report.comparison(claim, {"x": x, "y": y}).split(": ")[1]

    assert compared(one, result(306, 314, first=2)) == "no significant difference"
    assert compared(one, result(286, 294, first=2)) == "a significant difference"
    near = result(318, 320), result(317, 319, first=2)
    assert compared(*near) == "no significant difference, less than 9 apart"


# Tables


def test_the_page_counts_draws() -> None:
    curves: dict[str, list[Row]] = {
        "x": [{"seconds": 60.0}, {"seconds": 3600.0}],
        "y": [{"seconds": 720.0}],
    }
    text = report.page(EXPERIMENT, "tiny", correlated(3, 4, seed=1), curves)
    assert "1,200 games: 3 draws of five, who played 12 sets of 100" in text
    command = "`python -m benchmarks.experiments.daihinmin.run tiny"
    assert f"{command} train --runs runs`, then {command} play --runs runs --draws 3`" in text
    assert "Learning took 1.2 hours. " in text
    rows = correlated(3, 4, seed=1)
    rows[0] |= {"seconds": 5400.0, "machine": {"cpu": "One"}}
    curves["y"][0]["machine"] = {"cpu": "Other"}
    text = report.page(EXPERIMENT, "tiny", rows, curves)
    assert "Learning took 1.2 hours and playing 1.5 core hours (One, Other). " in text


def test_an_outlier_shows_in_the_correlations_without_one_network() -> None:
    line = {"a": (300, 0.9), "b": (310, 0.95), "c": (320, 0.9), "d": (100, 1.9)}
    players = {
        name: report.Result(pd.Series([float(points)]), rmse, math.nan)
        for name, (points, rmse) in line.items()
    }
    text = report.correlations(EXPERIMENT, players)
    assert re.search(r"networks: -1\.00 \(without any one of them -1\.00 to 0\.00\)", text)


def test_the_extent_of_training_is_next_to_the_papers() -> None:
    # The window holds two generations of 10 games, so each sample is learned from in two.
    rows = [
        {"generation": 1, "iterations": 2, "samples": 100, "loss": 1.5},
        {"generation": 1, "against_sample": 300.0, "error": 1.0},
        {"generation": 2, "iterations": 4, "samples": 220, "against_sample": 300.0, "error": 1.0},
        {"generation": 3, "iterations": 6, "samples": 240, "loss": 1.5},
    ]
    samples = 100 + 110 + 120
    assert report.learned(EXPERIMENT.runs()["small"], rows) == (6, samples, 6 * 64 / samples)
    table = report.training_table(EXPERIMENT, {"small": rows, "smaller": []})
    assert table.splitlines()[2:] == [
        "| small | 6 | 330 | 1.16 | 5,000,000 | 50 |",
        "| smaller | - | - | - | - | - |",
    ]


def test_published_uses_of_each_sample_are_58_to_88() -> None:
    lines = report.training_table(settings.read("logs"), {}).splitlines()[2:]
    uses = {line.split(" | ")[0].strip("| "): line.split(" | ")[-1].strip("| ") for line in lines}
    assert uses["BaseCNN16"] == "58" and uses["BaseCNN128eps"] == "88"
    assert uses["HistoryCNN"] == "15" and uses["Self"] == "-"


def test_a_player_has_settings_of_its_own() -> None:
    """Such as the paper's plain SGD, in batches of 25."""
    sgd = {"optimizer": "sgd", "rate": 0.0003, "batch": 25}
    player = settings.Player(network={"name": "BaseCNN", "channels": 16}, learner=sgd)
    logs = settings.read("logs")
    players = {"SGD": player, "all": logs.players["BaseCNN16"]}
    run = replace(logs, players=players, claims=()).runs()
    assert run["SGD"].learner.optimizer == "sgd" and run["SGD"].learner.batch == 25
    assert run["SGD"].learner.bf16 and run["all"].learner.optimizer == "adam"
    assert run["SGD"].games == run["all"].games == 40_000


@pytest.mark.parametrize("name", ["generations", "logs"])
def test_claims_are_of_players_and_runs_can_be_made(name: str) -> None:
    experiment = settings.read(name)
    assert experiment.runs() and experiment.claims
    for claim in experiment.claims:
        assert set(claim.players) <= set(experiment.players)


# Training


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the settings of tiny experiments, for their results and their runs."""
    others = {name: player for name, player in TINY["players"].items() if name != "sample"}
    with_self = {**TINY, "players": {**others, "Self": {"is_from_self_play": True}}, "claims": []}
    for name, experiment in {"tiny": TINY, "other": with_self}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(experiment))
    monkeypatch.setattr(settings, "FOLDER", tmp_path)
    monkeypatch.setattr(run, "GAMES_PER_CYCLE", 4)
    monkeypatch.setattr(
        rank_training, "points_against_sample", lambda net, n, seed, of: (300.0, 1.0)
    )
    return tmp_path


@pytest.mark.slow
def test_a_tiny_experiment_from_training_to_its_figure(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = ["--runs", str(tiny / "runs")]
    run.main(["tiny", "train", *runs])
    assert "small: 100%" in capsys.readouterr().err
    run.main(["tiny", "train", *runs])  # nothing is missing
    rows = json_files.rows(tiny / "runs" / "tiny" / "small" / "rows.jsonl")
    assert [("loss" in row, "against_sample" in row) for row in rows] == 2 * [
        (True, False),
        (False, True),
    ]
    run.main(["tiny", "play", "--out", str(tiny / "results"), *runs, "--draws", "1"])
    run.main(
        ["tiny", "play", "--out", str(tiny / "results"), *runs, "--draws", "2", "--device", "cpu"]
    )
    rows = json_files.rows(tiny / "results" / "tiny.jsonl")
    assert [(row["seed"], row["set"]) for row in rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(sum(row["points"]) == 4 * 15 for row in rows)
    for played in rows:
        known = {n: s for n, s in zip(played["players"], played["squared_error"], strict=True)}
        assert all((known[name] is None) == (name not in ("small", "smaller")) for name in known)
    text = (tiny / "results" / "tiny.md").read_text()
    assert "| small | 1 | 2 |" in text and "310.0 ± 4.0" in text
    assert "| small | 4 | " in text and " | 5,000,000 | 50 |" in text
    assert "rules help" in capsys.readouterr().out
    figure = (tiny / "results" / "tiny.svg").read_bytes()
    run.main(["tiny", "report", "--out", str(tiny / "results")])
    assert (tiny / "results" / "tiny.svg").read_bytes() == figure
    run.main([str(tiny / "tiny.json"), "report", "--out", str(tiny / "results")])  # its file
    assert (tiny / "results" / "tiny.svg").read_bytes() == figure


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_networks_of_several_seeds_play_and_their_runs_are_compared(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = ["--runs", str(tiny / "runs"), "--repeats", "2"]
    run.main(["tiny", "train", *runs, "--hours", "1e-300"])
    assert not (tiny / "runs").exists()
    run.main(["tiny", "train", *runs, "--only", "small", "--threads", "2"])
    assert torch.get_num_threads() == 2
    folders = [tiny / "runs" / "tiny" / name for name in ("small", "small_seed_2")]
    assert sorted((tiny / "runs" / "tiny").iterdir()) == folders
    first, second = (json_files.rows(folder / "rows.jsonl")[0]["loss"] for folder in folders)
    assert first != second
    rows = [(folder / "rows.jsonl").read_bytes() for folder in folders]
    run.main(["tiny", "train", *runs, "--only", "small", "--jobs", "2"])  # nothing is missing
    assert [(folder / "rows.jsonl").read_bytes() for folder in folders] == rows
    for jobs in ("2", "1"):
        run.main(
            ["tiny", "play", "--out", str(tiny / "results"), *runs, "--draws", "3", "--jobs", jobs]
        )
        path = tiny / "results" / "tiny.jsonl"
        path = path.rename(tiny / f"{jobs}.jsonl")
    played = [json_files.rows(tiny / f"{jobs}.jsonl") for jobs in (1, 2)]
    assert all(row.pop("seconds") > 0 for rows in played for row in rows if "seconds" in row)
    assert played[0] == played[1]
    by_player = report.results(json_files.rows(tiny / "1.jsonl"))
    assert {"small", "small, seed 2"} <= set(by_player)
    points = [by_player[name].points for name in ("small", "small, seed 2")]
    text = (tiny / "results" / "tiny.md").read_text()
    half = 12.706 * np.std(points, ddof=1) / 2**0.5
    assert f"| small | 2 | 6 | {np.mean(points):.1f} ± {half:.1f} |" in text
    assert "| small, seed 2 | 4 |" in text  # of the table of training


def test_a_lead_over_several_runs_has_an_interval_over_runs() -> None:
    claim = Claim(says="", better="x", worse="y")
    runs = {"x": result(300, 320), "x, seed 2": result(304, 324), "y": result(290, 294)}
    runs["y, seed 2"] = result(296, 296)
    half = 4.3027 * 8**0.5  # of 310 and 314, 292 and 296: standard errors of 2, two degrees (Welch)
    number, words = report.comparison(claim, runs).split(": ")
    assert number.startswith("+18.0 ± ") and words == "same, significant"
    assert float(number.split()[-1]) == pytest.approx(half, abs=0.1)
    del runs["y, seed 2"]
    expected = "+20.0: too few draws or runs for an interval"
    assert report.comparison(claim, runs) == expected


def test_an_evaluation_missing_after_a_kill_is_made_up_for(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*args: Any) -> None:
        raise KeyboardInterrupt

    train = ["tiny", "train", "--only", "small", "--runs", str(tiny / "runs")]
    path = tiny / "runs" / "tiny" / "small" / "rows.jsonl"
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(rank_training, "points_against_sample", killed)
        run.main(train)
    assert ["against_sample" in row for row in json_files.rows(path)] == [False]
    run.main(train)
    rows = json_files.rows(path)
    assert [row["generation"] for row in rows] == [1, 1, 2, 2]
    assert ["against_sample" in row for row in rows] == [False, True, False, True]
    assert not (tiny / "runs" / "tiny" / "smaller").exists()


@pytest.mark.parametrize("saves", [False, True], ids=["before", "after"])
def test_a_kill_around_a_save_leaves_one_row_per_generation(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, saves: bool
) -> None:
    train = ["tiny", "train", "--only", "small", "--runs", str(tiny / "runs")]
    save = RankTraining.save

    def killed(trainee: RankTraining) -> None:
        if saves or not trainee.generation:
            save(trainee)
        if trainee.generation:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(RankTraining, "save", killed)
        run.main(train)
    run.main(train)
    rows = json_files.rows(tiny / "runs" / "tiny" / "small" / "rows.jsonl")
    assert [row["generation"] for row in rows if "loss" in row] == [1, 2]


def test_generations_that_play_stay_after_the_pool_has_dropped_them(tiny: Path) -> None:
    network = {"network": {"name": "FCNN", "hidden": 2}}
    grown = {**TINY, "run": TINY["run"] | network | {"pool": 1}, "generations": 3, "claims": []}
    grown["players"] = {"0": {}, "1": {}, "3": {}}
    (tiny / "grown.json").write_text(json.dumps(grown))
    run.main(["grown", "train", "--runs", str(tiny / "runs")])
    folder = tiny / "runs" / "grown"
    assert [path.stem for path in (folder / "all" / "pool").iterdir()] == ["00003"]
    assert list(run.load_players(settings.read("grown"), folder, None)) == ["0", "1", "3"]
    assert len(list((folder / "all" / "players").iterdir())) == 3


# Playing


def test_an_incomplete_draw_is_played_again(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "timed_draw", lambda players, names, n, seed, games: two_sets(seed))
    players, path = {name: name for name in NAMES}, tiny / "results" / "tiny.jsonl"
    run.play(EXPERIMENT, players, 3, path)
    complete = path.read_text()
    lines = complete.splitlines(keepends=True)
    for cut in ("".join(lines[:5]), "".join(lines[:4]) + lines[4][:30], complete[:-9], lines[0]):
        path.write_text(cut)
        run.play(EXPERIMENT, players, 3, path)
        assert path.read_text() == complete
    path.write_text("".join(lines[:5]) + lines[5][:30])
    assert {row["seed"] for row in run.complete_draws(json_files.rows(path))} == {0, 1}


@pytest.mark.slow
def test_searches_play_in_the_draws_too() -> None:
    """Points add up, only networks have errors, and other playouts are another player."""
    nets = [rank_net.network("FCNN", hidden=2) for _ in range(2)]
    players: dict[str, Any] = {"MC": "mc,playouts=5", "a": nets[0], "b": nets[1]}
    players |= {"heuristic": "heuristic", "sample": "sample"}
    rows = run.play_draw(players, list(players), 2, 7, 3)
    assert [sum(row["points"]) for row in rows] == [45, 45]
    known = [[error is not None for error in row["squared_error"]] for row in rows]
    assert known == 2 * [[False, True, True, False, False]]
    first, second = run.timed_draw(players, list(players), 2, 7, 3)
    assert first.pop("seconds") > 0 and first.pop("machine")["cpu"]
    assert [first, second] == rows
    searched = run.fingerprint(players)
    assert searched != run.fingerprint(players | {"MC": "mc,playouts=6"})


def test_a_file_has_draws_of_the_same_players_only(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "timed_draw", lambda players, names, n, seed, games: two_sets(seed))
    path = tiny / "results" / "tiny.jsonl"
    players: dict[str, Any] = {name: name for name in NAMES} | {"net": nn.Linear(2, 2)}
    run.play(EXPERIMENT, players, 1, path)
    run.play(EXPERIMENT, players, 2, path)
    complete = path.read_text()
    for others in ({name: name for name in NAMES}, players | {"net": nn.Linear(2, 2)}):
        with pytest.raises(ValueError, match="other players"):
            run.play(EXPERIMENT, others, 3, path)
    with pytest.raises(ValueError, match="another number of sets than 3"):
        run.play(replace(EXPERIMENT, sets=3), players, 3, path)
    assert path.read_text() == complete
    path.write_text("")
    json_files.append(path, two_sets(0))  # rows of earlier versions do not name their players
    with pytest.raises(ValueError, match="other players"):
        run.play(EXPERIMENT, players, 2, path)


# The command


@pytest.mark.parametrize(
    ("arguments", "noun"),
    [
        (["tiny", "train"], "--runs"),
        (["nothing", "train", "--runs", "runs"], "NAME.json"),
        (["tiny", "train", "--runs", "runs", "--only", "tall"], "'tall'"),
        (["tiny", "train", "--runs", "runs", "--jobs", "0"], "jobs"),
        (["tiny", "play", "--runs", "runs", "--draws", "0"], "draws"),
        (["tiny", "train", "--runs", "runs", "--device", "abacus"], "'abacus'"),
        (["tiny", "play", "--runs", "typo"], "there is no folder"),
        (["tiny", "play", "--runs", "runs"], "five players"),
        (["tiny", "report", "--runs", "typo"], "there is no folder"),
        (["tiny", "play", "--runs", "runs", "--self-play", "tiny.json"], "not used"),
        (["other", "play", "--runs", "runs", "--self-play", "typo"], "there is no file typo"),
        (["other", "play", "--runs", "runs", "--self-play", "tiny.json"], "is not a network"),
        (["tiny", "report"], "has no draws"),
        (["tiny", "report", "--repeats", "2"], "no effect with report without --runs"),
    ],
)
def test_wrong_arguments_are_refused(
    tiny: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    noun: str,
) -> None:
    monkeypatch.chdir(tiny)
    for name in ("tiny", "other"):
        (tiny / "runs" / name).mkdir(parents=True)
    with pytest.raises(SystemExit) as caught:
        exit_code(run.main, arguments)
    assert caught.value.code == 2 and noun in capsys.readouterr().err
    assert not (tiny / "results").exists()


def test_a_short_run_does_not_replace_the_rows_of_a_longer_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longer, shorter = ([{"generation": 1, "iterations": n}] for n in (5, 4))
    copy, rows = tmp_path / "tiny.training.json", tmp_path / "small" / "rows.jsonl"
    copy.write_text(json.dumps({"small": longer}))
    json_files.append(rows, shorter)
    assert run.training_rows(EXPERIMENT, tmp_path, copy, 1)["small"] == longer
    assert "keeps the rows of small" in capsys.readouterr().out
    json_files.append(rows, longer)
    assert run.training_rows(EXPERIMENT, tmp_path, copy, 1)["small"] == [*shorter, *longer]


def test_drawing_needs_the_rows_of_training(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny / "results" / "tiny.jsonl"
    path.parent.mkdir()
    json_files.append(path, two_sets(0))
    with pytest.raises(ValueError, match="--runs is required"):
        run.main(["tiny", "report", "--out", str(tiny / "results")])
    learned: Row = {"generation": 1, "iterations": 2, "samples": 40, "loss": 1.5, "rmse": None}
    rows = [learned, {"generation": 1, "against_sample": 300.0, "error": 1.0}]
    (tiny / "runs" / "tiny" / "small").mkdir(parents=True)
    json_files.append(tiny / "runs" / "tiny" / "small" / "rows.jsonl", rows)
    run.main(["tiny", "report", "--out", str(tiny / "results"), "--runs", str(tiny / "runs")])
    assert "| small | 2 | 40 | 3.20 |" in (tiny / "results" / "tiny.md").read_text()
