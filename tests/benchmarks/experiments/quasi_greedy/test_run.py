"""The experiments of quasi-greedy learning: settings, statistics, plans and tiny runs."""

from __future__ import annotations

import doctest
import errno
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib")
pytest.importorskip("matplotlib")
pytest.importorskip("pandas")
pytest.importorskip("scipy")
pytest.importorskip("tqdm")

from afterstate.agents.config import from_dict
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.agents.training.run import Diverged
from afterstate.envs import json_files
from afterstate.envs.commands import exit_code
from afterstate.envs.json_files import Row
from benchmarks.experiments.harness import Estimate, over_runs
from benchmarks.experiments.quasi_greedy import figure, playing, report, rows, run, settings
from benchmarks.experiments.quasi_greedy.settings import Experiment, Measure, Published, Scale

pytestmark = pytest.mark.slow

NAMES = ("epsilon", "good_plays", "restart", "search")
GAMES: dict[Measure, int] = {"greedy": 5, "3-ply": 1}
SCALE = Scale("moves", 1000.0)
ROOT = Path(__file__).parents[4]


def tiny(name: str = "epsilon") -> Experiment:
    """Return an experiment with a network of three small tuples."""
    return settings.read(name).with_tuples(run.SMALL)


def row(experiment: Experiment, name: str, seed: int, share: float = 1.0, /, **scores: Any) -> Row:
    """Return a row of a run of 1,000 moves."""
    key = playing.key(experiment, experiment.run(name), seed, SCALE)
    return {**key, "share": share, "moves": 1000 * share, "learned": 0, "seconds": 1.0, **scores}


def games(mean: float, n_games: int = 5) -> dict[str, Any]:
    """Return the summary of evaluation games."""
    return {"n_games": n_games, "mean": mean, "interval": 10.0}


@pytest.mark.parametrize(
    ("points", "search_at", "options"),
    [
        (10, (0.5, 1.0), "--greedy-games 5 --search-games 2"),
        (36, (0.5, 1.0), "--points 36 --greedy-games 5 --search-games 2"),
        (10, (0.25, 1.0), "--greedy-games 5 --search-games 2 --search-at 0.25 1"),
        (4, (), "--points 4 --greedy-games 5 --search-games 0"),
    ],
)
def test_the_command_of_a_page_repeats_its_evaluations(
    points: int, search_at: tuple[float, ...], options: str
) -> None:
    experiment = tiny()
    counts: dict[Measure, int] = {"greedy": 5, "3-ply": 2}
    plan = playing.make_plan(experiment, SCALE, points, counts, search_at)
    evaluated = [
        row(
            *(experiment, "greedy only", 1, share),
            **{measure: games(1.0, n) for measure, n in plan.games_at(share).items()},
        )
        for share in plan.shares
    ]
    assert report._options_of_evaluations(experiment, evaluated) == options


def test_the_command_of_a_page_repeats_runs_with_their_numbers_of_seeds() -> None:
    experiment = tiny("restart")
    seeds = dict(zip([run.name for run in experiment.runs], (1, 3, 2, 3), strict=True))
    one, *more = (f'"{name}"' for name in seeds)
    text = report._command(experiment, [], SCALE, seeds)
    assert "--repeats 1`, and the same with" in text and one not in text
    assert text.endswith(
        f"`--repeats 2 --only {more[1]}`, "
        f"and the same with `--repeats 3 --only {more[0]} {more[2]}`"
    )


def test_the_command_of_a_page_repeats_the_length_and_only_the_runs_that_were_played() -> None:
    experiment = tiny("restart")
    first, _, second, *_ = (run.name for run in experiment.runs)
    for amount, text in ((2e8, "2e8"), (123_456_789.0, "123456789.0"), (1_234_567, "1234567")):
        command = report._command(experiment, [], Scale("moves", amount), {first: 2, second: 2})
        assert f"--moves {text} " in command
        assert command.endswith(f'--repeats 2 --only "{first}" "{second}"`')
    assert "--only" not in report._command(
        experiment, [], SCALE, {run.name: 2 for run in experiment.runs}
    )


# Settings


@pytest.mark.parametrize("name", NAMES)
def test_all_runs_can_be_made(name: str) -> None:
    experiment = settings.read(name)
    assert len(experiment.runs) <= len(figure.COLORS)
    for each in experiment.runs:
        for learner in (experiment.first_learner_of(each), experiment.learner_of(each)):
            NTupleSettings(**learner)
    for claim in experiment.claims:
        assert all(experiment.run(other) for other in (claim.better, *claim.worse))
    weights = network(**experiment.network).weights.nbytes
    assert experiment.bytes_per_run() == 3 * weights == 6_442_450_944


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": {"seconds": 1}}, "length.moves is required"),
        ({"runs": [{"name": "a", "label": ""}] * 2, "claims": []}, "must have different names"),
        ({"runs": [{"name": "a", "label": ""}]}, "claims: there is no run"),
        (
            {"runs": [{"name": "a", "label": "", "switch": {"seconds": 1}}], "claims": []},
            "switch of 'a' must have moves",
        ),
        (
            {
                "runs": [
                    {"name": "a", "label": "", "published": [{"at": 1, "scores": {"greedy": [1]}}]}
                ]
            },
            'must be a number, [mean, half of its interval] or {"from": ..., "to": ...}, got [1]',
        ),
    ],
)
def test_wrong_settings_are_named(change: dict[str, Any], message: str) -> None:
    loaded = json_files.read(settings.FOLDER / "restart.json")
    with pytest.raises(ValueError, match=re.escape(message)):
        from_dict({**loaded, **change}, settings.Experiment)


@pytest.mark.parametrize("name", NAMES)
def test_committed_rows_are_of_the_settings(name: str) -> None:
    experiment = settings.read(name)
    committed = {(r["run"], r["settings"]) for r in json_files.rows(run.RESULTS / f"{name}.jsonl")}
    assert committed == {(each.name, experiment.digest(each)) for each in experiment.runs}


def test_a_switch_scales_with_the_run() -> None:
    experiment = settings.read("search")
    after_25, after_12 = experiment.runs[4:]
    assert experiment.first_learner_of(after_25)["search_share"] == 0
    assert experiment.learner_of(after_25)["search_share"] == 1
    assert experiment.switch_of(after_25, "moves") == round(9 / 12.7, 6)
    assert experiment.switch_of(after_25, "seconds") == round(25 / 36, 6)
    assert experiment.switch_of(after_12, "moves") == round(4.5 / 12.7, 6)
    assert experiment.switch_of(experiment.runs[0], "moves") is None


def test_published_scores_are_means_numbers_or_bounds() -> None:
    experiment = settings.read("restart")
    partial, end = experiment.run("restart").published
    assert experiment.share(partial) == 0.625
    assert partial.scores == {"3-ply": Published(414_440, 414_440, 414_440)}
    assert str(end.scores["greedy"]) == "200,000 to 230,000"
    assert str(end.scores["3-ply"]) == "over 400,000"
    assert str(settings.read("epsilon").runs[0].published[0].scores["greedy"]) == "209,400 ± 4,421"


def test_docstring_examples_are_true() -> None:
    result = doctest.testmod(settings)
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize(
    "wrong",
    [{"colour": 1}, {"runs": [{"name": "a", "label": "b", "switched": {}}]}, {"axis": "games"}],
    ids=str,
)
def test_wrong_settings_are_refused(
    wrong: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.loads((settings.FOLDER / "epsilon.json").read_text(encoding="utf-8"))
    (tmp_path / "epsilon.json").write_text(json.dumps({**data, **wrong}))
    monkeypatch.setattr(settings, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"colour|switched|axis"):
        settings.read("epsilon")


# Statistics


def test_orders_of_a_table_made_by_hand() -> None:
    published = {
        "a": Published(90, 110, 100),
        "b": Published(40, 60, 50),
        "c": Published(45, 65, 55),  # does not differ significantly from b
        "d": Published(200, float("inf")),
        "e": Published(10, 12, 11),
    }
    ours: dict[str, Estimate | None] = {
        "a": Estimate(10, 1),
        "b": Estimate(5, 1),
        "c": Estimate(9, 1),
        "d": Estimate(8, 4),
        "e": None,
    }
    pairs = list(report.orders_of_scores("greedy", 1, published, ours))
    assert {(order.better, order.worse): order.verdict() for order in pairs} == {
        ("a", "b"): "same, significant",
        ("a", "c"): "same, not significant",
        ("c", "b"): "a significant difference",
        ("d", "a"): "opposite, not significant",
        ("d", "b"): "same, not significant",
        ("d", "c"): "opposite, not significant",
        ("a", "e"): "not measured",
        ("b", "e"): "not measured",
        ("c", "e"): "not measured",
        ("d", "e"): "not measured",
    }
    assert report.counts(pairs).startswith("At the end, 3 of 5 pairs of runs")
    assert "1 of them differ significantly here, 1 in the" in report.counts(pairs)
    assert "Of 1 pairs without a significant difference in the paper, 0" in report.counts(pairs)
    deviations = np.array([1, 1]) * 5**0.5 / 2.776  # of single runs of a and b, here
    freedom = 4 * (1 + 1) ** 2 / (1 + 1)
    a_and_b = pytest.importorskip("scipy.stats").t.ppf(0.975, freedom) * np.linalg.norm(deviations)
    assert pairs[0].spread == pytest.approx(a_and_b, rel=1e-3) and pairs[0].gap == 5
    assert (
        "1 of 2 pairs that its scores order differ significantly here, 1 in its order, and 0"
        in (report.counts(pairs))
    )
    mixed = {**ours, "b": Estimate(5, 1, runs=3)}  # no interval against one run's games
    pairs = list(report.orders_of_scores("greedy", 1, published, mixed))
    deviations = np.array([1, 1 / 3**0.5]) * 5**0.5 / 2.776
    freedom = 4 * (1 + 1 / 3) ** 2 / (1 + 1 / 9)
    a_and_b = pytest.importorskip("scipy.stats").t.ppf(0.975, freedom) * np.linalg.norm(deviations)
    assert pairs[0].spread == pytest.approx(a_and_b, rel=1e-3)
    verdicts = {order.better: order.verdict() for order in pairs if order.worse == "b"}
    assert verdicts == {"a": "same, no interval", "c": "no interval", "d": "same, no interval"}
    assert "0 of them differ significantly" in report.counts(pairs)
    assert "without a significant difference" not in report.counts(pairs)
    near = {**ours, "c": Estimate(6, 1)}
    pairs = list(report.orders_of_scores("greedy", 1, published, near))
    verdicts = {order.worse: order.verdict() for order in pairs if order.better == "c"}
    assert verdicts == {"b": "no significant difference", "e": "not measured"}
    assert "Of 1 pairs without a significant difference in the paper, 1" in report.counts(pairs)


def test_published_means_differ_if_the_interval_of_their_difference_has_no_zero() -> None:
    """Intervals of five runs may overlap though their means differ: 12 with an interval of 11.7."""
    published = {"low": Published(40, 60, 50), "high": Published(52, 72, 62)}
    ours: dict[str, Estimate | None] = {"low": Estimate(5, 1), "high": Estimate(9, 1)}
    (pair,) = report.orders_of_scores("greedy", 1, published, ours)
    assert (pair.better, pair.differs, pair.verdict()) == ("high", True, "same, significant")
    nearer = {**published, "high": Published(51, 71, 61)}
    (pair,) = report.orders_of_scores("greedy", 1, nearer, ours)
    assert (pair.differs, pair.verdict()) == (False, "a significant difference")


def test_claims_in_words_are_about_the_end_of_runs() -> None:
    experiment = tiny("restart")
    made = [
        row(experiment, "restart", 1, greedy=games(100), **{"3-ply": games(500)}),
        row(experiment, "no restart", 1, greedy=games(90), **{"3-ply": games(400)}),
        row(experiment, "no restart", 1, 0.5, greedy=games(900)),
    ]
    pairs = report.orders(experiment, rows.curves(made, experiment, SCALE))
    assert [(order.measure, order.better, order.verdict()) for order in pairs] == [
        ("greedy", "no restart", "opposite, not significant"),
        ("greedy", "no restart, printed form", "not measured"),
        ("3-ply", "restart", "same, significant"),
        ("3-ply", "restart, printed form", "not measured"),
    ]


def point(share: float, moves: float, greedy: float) -> rows.Point:
    """Return a point with a greedy score that has an interval of 10."""
    return rows.Point(share, moves, 1.0, 0.0, {"greedy": Estimate(greedy, 10.0)}, {})


def test_runs_of_equal_time_are_compared_at_equal_moves() -> None:
    experiment, scale = settings.read("search"), Scale("seconds", 10.0)
    curves = {
        "greedy only": [point(0.1, 2e6, 300), point(0.5, 1e7, 500), point(1, 2e7, 700)],
        "75 % search": [point(0.5, 1e6, 100), point(1, 3e6, 200)],
    }
    text = report._equal_moves(experiment, scale, curves)
    assert text.endswith("| 75 % search | 3e6 | 2e6 | 200 ± 10 | 300 ± 10 | - | - |\n\n")
    curves["75 % search"].append(point(1, 1.9e7, 400))  # nearer to 2e7 moves
    text = report._equal_moves(experiment, scale, curves)
    assert text.endswith("| 75 % search | 1.9e7 | 2e7 | 400 ± 10 | 700 ± 10 | - | - |\n\n")
    assert report._equal_moves(experiment, Scale("moves", 1e7), curves) == ""


def test_gains_go_on_to_the_papers_length() -> None:
    experiment = settings.read("restart")  # the paper has 4e10 moves: two doublings more
    curves = {
        "restart": [point(0.5, 5e9, 100), point(1, 1e10, 150)],
        "no restart": [point(0.5, 5e9, 100), point(1, 1e10, 110)],
    }
    text = report._extrapolation(experiment, Scale("moves", 1e10), curves)
    half, far = math.hypot(10, 10), math.hypot(30, 20)
    assert text.splitlines()[-2:] == [
        f"| restart | 50 ± {half:.0f} | 250 ± {far:.0f} | - | - |",
        f"| no restart | 10 ± {half:.0f} | - | - | - |",  # it may be no gain
    ]
    changed = {"search after 12 h": curves["restart"]}
    text = report._extrapolation(settings.read("search"), Scale("seconds", 3600.0), changed)
    assert "search after 12 h" not in text


def test_gains_of_several_runs_are_means_of_the_gains_of_each() -> None:
    scores = {0.5: [100.0, 300.0, 200.0], 1: [150.0, 352.0, 248.0]}
    points = [
        rows.Point(
            share,
            *(1e9, 1.0, 0.0),
            {"greedy": over_runs([Estimate(mean, 1.0) for mean in means])},
            {"greedy": means},
        )
        for share, means in scores.items()
    ]
    half = 4.3027 * 2 / 3**0.5  # of gains of 50, 52 and 48
    gain, far = report._gains(points, "greedy", 1)
    assert gain == f"50 ± {half:.0f}"
    assert far.startswith("300 ± ")
    assert report._gains(points, "3-ply", 1) == ["-", "-"]


# Rows


def test_points_are_means_over_repeats() -> None:
    experiment = tiny()
    made = [row(experiment, "greedy only", i, greedy=games(10 * i)) for i in (1, 2, 3)]
    other_scale = {**made[0], "scale": {"moves": 5.0}}
    other_settings = {**made[0], "settings": "before"}
    curves = rows.curves([*made, other_scale, other_settings], experiment, SCALE)
    assert list(curves) == ["greedy only"]
    (point,) = curves["greedy only"]
    assert point.scores["greedy"].mean == 20 and point.repeats == {"greedy": [10, 20, 30]}
    assert rows.curves([other_scale], experiment, SCALE) == {}


def test_rows_replace_those_of_the_same_run_and_incomplete_lines(tmp_path: Path) -> None:
    experiment, path = tiny(), tmp_path / "folder" / "rows.jsonl"
    for seed, mean in ((1, 10.0), (2, 20.0), (1, 30.0)):
        rows.add(path, [row(experiment, "greedy only", seed, greedy=games(mean))])
    path.write_text(path.read_text() + '{"experiment": "eps')
    rows.add(path, [row(experiment, "greedy only", 3, greedy=games(1))])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(made["seed"], made["greedy"]["mean"]) for made in lines] == [(2, 20), (1, 30), (3, 1)]


def test_a_run_is_finished_with_all_evaluations_of_the_plan() -> None:
    experiment = tiny()
    plan = playing.make_plan(experiment, SCALE, 2, GAMES, [1.0])
    assert (plan.shares, plan.search_shares) == ((0.5, 1.0), (1.0,))
    half = row(experiment, "greedy only", 1, 0.5, greedy=games(1))
    end = row(experiment, "greedy only", 1, greedy=games(1), **{"3-ply": games(1, 1)})
    without_search = row(experiment, "greedy only", 1, greedy=games(1))
    each = experiment.run("greedy only")
    assert rows.is_finished([half, end], experiment, each, 1, plan)
    assert not rows.is_finished([half, end], experiment, each, 2, plan)
    assert not rows.is_finished([half, end], experiment, experiment.run("1 % random"), 1, plan)
    assert not rows.is_finished([half], experiment, each, 1, plan)
    assert not rows.is_finished([half, without_search], experiment, each, 1, plan)
    more = plan._replace(games={"greedy": 6, "3-ply": 1})
    assert not rows.is_finished([half, end], experiment, each, 1, more)


def test_the_largest_scale_of_fitting_runs_is_drawn() -> None:
    experiment = tiny()
    made = [
        {**row(experiment, "greedy only", 1), "scale": {"moves": amount}} for amount in (5e3, 9e3)
    ]
    other = {**row(experiment, "greedy only", 1), "scale": {"moves": 1e9}, "settings": "others"}
    assert rows.largest_scale([*made, other, made[0]], experiment) == ("moves", 9e3)
    assert rows.largest_scale([other], experiment) is None


# Playing


def test_search_plays_where_the_paper_has_scores_of_it() -> None:
    restart = playing.make_plan(settings.read("restart"), SCALE, 4, GAMES)
    assert restart.search_shares == (0.5, 0.625, 1)
    plan = playing.make_plan(settings.read("good_plays"), SCALE, 4, GAMES)
    assert plan.search_shares == (0.2, 0.5, 1)
    assert plan.shares == (0.2, 0.25, 0.5, 0.75, 1)
    assert plan.games_at(0.25) == {"greedy": 5} and plan.games_at(0.2) == GAMES


class Killed(BaseException):
    """The end of a process that can save nothing."""


@pytest.mark.parametrize("stopped_at", ["evaluation", "save"])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not(
    stopped_at: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also between the row of an evaluation and the learner's file, and at a switch of settings."""
    experiment = tiny("search")
    plan = playing.make_plan(experiment, Scale("moves", 6000.0), 3, GAMES)
    each = experiment.run("search after 12 h")
    whole = playing.play(experiment, each, 1, plan, 1, tmp_path / "whole")

    owner: Any = playing._Progress if stopped_at == "evaluation" else NTupleLearner
    called, method = [], getattr(owner, stopped_at)

    def stop(*args: Any) -> Any:
        called.append(args)
        if len(called) == 3:
            raise Killed
        return method(*args)

    monkeypatch.setattr(owner, stopped_at, stop)
    with pytest.raises(Killed):
        playing.play(experiment, each, 1, plan, 1, tmp_path)
    capsys.readouterr()
    other = playing.make_plan(experiment, Scale("moves", 6000.0), 4, GAMES)
    paths = {playing.folder_of(tmp_path, whole[0], made) for made in (plan, other)}
    assert [path.exists() for path in sorted(paths)].count(True) == 1 and len(paths) == 2
    rest = playing.play(experiment, each, 1, plan, 1, tmp_path)
    assert capsys.readouterr().out.count("\n") == len(plan.shares) - 2
    for made in (*whole, *rest):
        made.pop("seconds")
    assert rest == whole


def test_seconds_go_with_the_learner_that_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full after the first save."""
    experiment, saves = tiny("search"), []
    plan = playing.make_plan(experiment, Scale("seconds", 0.4), 2, GAMES)
    task = (experiment, experiment.run("greedy only"), 1, plan, 1, tmp_path)
    save = NTupleLearner.save

    def once(learner: NTupleLearner, path: Path) -> None:
        saves.append(learner.n_moves)
        if len(saves) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(learner, path)

    monkeypatch.setattr(NTupleLearner, "save", once)
    with pytest.raises(OSError, match="No space"):
        playing.play(*task)
    first, second = playing.play(*task)
    assert first["moves"] == saves[0] < second["moves"]
    assert 0.2 <= first["seconds"] < 0.4 <= second["seconds"]


def test_compiling_takes_no_time_of_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    experiment, games = tiny("search"), []
    plan = playing.make_plan(experiment, Scale("seconds", 0.1), 1, GAMES)
    learn, clock = NTupleLearner.learn, time.process_time
    compiled: set[float] = set()

    def slow_at_first(learner: NTupleLearner, n_moves: float) -> Any:
        games.append(learner.settings.search_share)
        if games[-1] not in compiled:
            compiled.add(games[-1])
            end = clock() + 1
            while clock() < end:
                pass
        return learn(learner, n_moves)

    monkeypatch.setattr(NTupleLearner, "learn", slow_at_first)
    each = experiment.run("search after 12 h")
    *_, last = playing.play(experiment, each, 1, plan, 1, tmp_path)
    assert len(compiled) == 2 and last["seconds"] < 1


def test_a_run_whose_weights_diverge_ends_with_its_last_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def save(learner: NTupleLearner, path: Path) -> None:
        if learner.n_moves > 1_000:
            raise Diverged("weights diverged", {"largest": 2e6})

    monkeypatch.setattr(NTupleLearner, "save", save)
    words = ["--only", "restart", "--moves", "2000", "--repeats", "1"]
    smoke("restart", tmp_path, *words)
    assert "restart, seed 1: weights diverged\n" in capsys.readouterr().err
    (last,) = json_files.rows(tmp_path / "restart.jsonl")
    assert last["share"] == 0.5 and last["diverged"] == {"largest": 2e6}
    smoke("restart", tmp_path, *words)
    assert "0 of 1 runs are missing" in capsys.readouterr().out
    page = (tmp_path / "restart.md").read_text(encoding="utf-8")
    assert f"The weights of restart diverged after {last['moves']} moves." in page


SHARED = [
    ("epsilon", "greedy only", "restart"),
    ("good_plays", "all games", "no restart"),
    ("good_plays", "all games, restart", "restart"),
]
"""Runs whose rows are those of a run of the experiment with restart."""


@pytest.mark.parametrize(("name", "own", "other"), SHARED)
def test_runs_that_experiments_share_learn_the_same(name: str, own: str, other: str) -> None:
    learners = []
    for experiment, each in ((tiny(name), own), (tiny("restart"), other)):
        options = from_dict(experiment.learner_of(experiment.run(each)), NTupleSettings)
        learners.append(NTupleLearner(network(**experiment.network), options, seed=1))
        learners[-1].learn(5_000)
    first, second = learners
    assert first.n_moves == second.n_moves
    assert first.network.fixed.tobytes() == second.network.fixed.tobytes()


@pytest.mark.skipif(not run.RESULTS.exists(), reason="needs the results of a checkout")
@pytest.mark.parametrize(("name", "own", "other"), SHARED)
def test_runs_that_experiments_share_have_the_same_rows(name: str, own: str, other: str) -> None:
    def place(row: Row) -> tuple[Any, ...]:
        return (row["seed"], *row["scale"].items(), row["share"])

    every = json_files.rows(run.RESULTS / "restart.jsonl")
    by_place = {place(row): row for row in every if row["run"] == other}
    shared = [row for row in json_files.rows(run.RESULTS / f"{name}.jsonl") if row["run"] == own]
    assert shared
    for row in shared:
        names = {each: row[each] for each in ("experiment", "run", "settings")}
        assert row == by_place[place(row)] | names


def test_rows_of_more_games_are_not_replaced(tmp_path: Path) -> None:
    smoke("restart", tmp_path, "--only", "restart", "--moves", "2000")
    before = (tmp_path / "restart.jsonl").read_bytes()
    few = run.Args("restart", "learn", moves=2000, only=("restart",), repeats=1, out=tmp_path)
    experiment = settings.read("restart").with_tuples(run.SMALL)
    plan = playing.make_plan(experiment, Scale("moves", 2000.0), 4, {"greedy": 2, "3-ply": 0})
    with pytest.raises(ValueError, match="has more games of 'restart', seed 1"):
        run.missing(experiment, plan, few, tmp_path / "restart.jsonl")
    assert (tmp_path / "restart.jsonl").read_bytes() == before


def test_the_checkpoint_of_a_run_that_has_ended_is_removed(tmp_path: Path) -> None:
    """A kill may leave it."""
    smoke("restart", tmp_path, "--only", "restart", "--moves", "2000")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        smoke("restart", tmp_path, "--only", "no restart", "--moves", "2000")
    assert (tmp_path / run.IN_PROGRESS).exists()
    smoke("restart", tmp_path, "--only", "no restart", "--moves", "2000")
    assert not (tmp_path / run.IN_PROGRESS).exists()


def test_more_runs_than_colors_are_drawn(tmp_path: Path) -> None:
    experiment = tiny("epsilon")
    names = [f"run {i}" for i in range(11)]
    many = replace(experiment, runs=tuple(replace(experiment.runs[0], name=n) for n in names))
    ends = [
        point(share, 1e6 * share, 300)._replace(repeats={"greedy": [300]}) for share in (0.5, 1)
    ]
    figure.draw(many, SCALE, dict.fromkeys(names, ends), tmp_path / "many.svg")
    assert (tmp_path / "many.svg").stat().st_size > 0
    looks = {(figure._color(i), figure._marker(i)) for i in range(64)}
    assert len(looks) == 64


def test_several_threads_learn_in_a_run(tmp_path: Path) -> None:
    experiment = tiny()
    plan = playing.make_plan(experiment, Scale("moves", 6000.0), 1, GAMES)
    *_, last = playing.play(experiment, experiment.runs[0], 1, plan, 2, tmp_path)
    assert last["moves"] >= 6000 and last["greedy"]["n_games"] == 5


def test_a_run_is_reproducible_and_switches_to_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = tiny("search")
    plan = playing.make_plan(experiment, Scale("moves", 6000.0), 2, GAMES)
    each = experiment.run("search after 12 h")
    first, second = (
        playing.play(experiment, each, 1, plan, 1, tmp_path / name) for name in ("first", "second")
    )
    for made in (*first, *second):
        made.pop("seconds")
    assert first == second
    assert [made["share"] for made in first] == [0.5, 1] and "machine" in first[-1]
    assert first[-1]["moves"] >= 6000 and "3-ply" in first[-1]
    greedy = playing.play(experiment, experiment.run("greedy only"), 1, plan, 1, tmp_path)
    assert greedy[0]["moves"] != first[0]["moves"]  # one has restarted since, the other searched
    assert "search after 12 h, seed 1, 50.0%: greedy " in capsys.readouterr().out


def test_runs_with_most_search_start_first(tmp_path: Path) -> None:
    experiment = tiny("search")
    plan = playing.make_plan(experiment, SCALE, 2, GAMES)
    args, path = run.Args("search", "learn", seconds=1, repeats=2), tmp_path / "search.jsonl"
    tasks = run.missing(experiment, plan, args, path)
    assert [task.seed for task in tasks] == 6 * [1] + 6 * [2]
    assert [task.run.name for task in tasks[2:6]] == [
        *("75 % search", "50 % search"),
        *("25 % search", "greedy only"),
    ]
    few = replace(args, only=("greedy only", "75 % search"))
    assert [(task.run.name, task.seed) for task in run.missing(experiment, plan, few, path)] == [
        *(("75 % search", 1), ("greedy only", 1)),
        *(("75 % search", 2), ("greedy only", 2)),
    ]
    with pytest.raises(ValueError, match="--only must be of greedy only"):
        run.missing(experiment, plan, replace(args, only=("greedy",)), path)


def test_no_more_jobs_start_than_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "available_memory", lambda: 8 * 10**9)
    run.check_memory(4e9, 2)
    with pytest.raises(ValueError, match=r"12\.0 GB.*--jobs 2"):
        run.check_memory(4e9, 3)
    with pytest.raises(ValueError, match=r"available: use --memory"):
        run.check_memory(9e9, 1)
    monkeypatch.setattr(run, "available_memory", lambda: None)
    run.check_memory(9e9, 100)


# The command


def smoke(name: str, out: Path, *more: str) -> None:
    """Run the command with `--smoke` and one seed."""
    run.main([name, "learn", "--smoke", "--repeats", "1", "--out", str(out), *more])


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_writes_rows_tables_and_figure(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke(name, tmp_path)
    made, experiment = json_files.rows(tmp_path / f"{name}.jsonl"), settings.read(name)
    assert {row["run"] for row in made} == {each.name for each in experiment.runs}
    assert not (tmp_path / run.IN_PROGRESS).exists()
    printed, written = capsys.readouterr().out, (tmp_path / f"{name}.md").read_text("utf-8")
    for table in ("| run ", "| share of the run |", "pairs of runs that the paper orders"):
        assert table in printed and table in written
    assert written.startswith(f"# {experiment.title}\n") and f"({name}.svg)" in written
    picture = (tmp_path / f"{name}.svg").read_text("utf-8")
    assert picture.count("<svg") == 1 and len(picture) > 20_000

    lines = (tmp_path / f"{name}.jsonl").read_bytes()
    smoke(name, tmp_path)
    assert f"0 of {len(experiment.runs)} runs are missing" in capsys.readouterr().out
    assert (tmp_path / f"{name}.jsonl").read_bytes() == lines
    assert (tmp_path / f"{name}.svg").read_text("utf-8") == picture


def test_interrupted_runs_are_played_by_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played: list[str] = []
    play = playing.play

    def stop(experiment: Experiment, each: settings.Run, *rest: Any) -> list[Any]:
        played.append(each.name)
        if len(played) == 3:
            raise KeyboardInterrupt
        return play(experiment, each, *rest)

    monkeypatch.setattr(playing, "play", stop)
    only = ["--only", *(each.name for each in settings.read("epsilon").runs[:4])]
    with pytest.raises(KeyboardInterrupt, match="the same command goes on"):
        smoke("epsilon", tmp_path, *only)
    assert len({row["run"] for row in json_files.rows(tmp_path / "epsilon.jsonl")}) == 2
    smoke("epsilon", tmp_path, *only)
    assert "2 of 4 runs are missing" in capsys.readouterr().out
    assert len(played) == 5 and len(set(played)) == 4


def test_an_interrupted_run_goes_on_between_its_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = settings.read("restart").with_tuples(run.SMALL)
    plan = playing.make_plan(experiment, Scale("moves", 20_000), 2, {"greedy": 5, "3-ply": 0})
    task = (experiment, experiment.runs[0], 1, plan, 1)
    straight = playing.play(*task, tmp_path / "straight")
    learned = NTupleLearner.learn
    for stop in (6_000, 15_000):  # before the first evaluation, and after it

        def interrupted(learner: NTupleLearner, n_moves: float, stop: int = stop) -> Any:
            if learner.n_moves >= stop:
                os.kill(os.getpid(), signal.SIGINT if stop == 6_000 else signal.SIGTERM)
            return learned(learner, min(n_moves, 1_000))

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(NTupleLearner, "learn", interrupted)
            playing.play(*task, tmp_path / "interrupted")
        (file,) = (tmp_path / "interrupted").rglob("learner.npz")
        assert stop <= NTupleLearner.load(file).n_moves < stop + 4_000
    rows = playing.play(*task, tmp_path / "interrupted")
    seconds = [row["seconds"] for row in rows]
    assert len(rows) == len(plan.shares) and seconds == sorted(seconds) and seconds[0] > 0
    for row, other in zip(rows, straight, strict=True):
        assert {**row, "seconds": 0, "machine": 0} == {**other, "seconds": 0, "machine": 0}


def test_the_command_plays_in_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.experiments.quasi_greedy.run", "restart"]
    command += [*"learn --smoke --moves 2000 --repeats 2 --jobs 2 --out".split(), str(tmp_path)]
    made = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=False
    )
    assert made.returncode == 0, made.stderr
    assert "8 of 8 runs are missing" in made.stdout and "100%" in made.stderr
    played = {(row["run"], row["seed"]) for row in json_files.rows(tmp_path / "restart.jsonl")}
    assert {seed for _, seed in played} == {1, 2} and len(played) == 8


def test_a_short_trial_keeps_the_page_of_longer_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke("epsilon", tmp_path, "--moves", "8000")
    page = (tmp_path / "epsilon.md").read_bytes()
    smoke("epsilon", tmp_path, "--moves", "4000")
    assert "keeps the runs of 8000 moves" in capsys.readouterr().out
    assert (tmp_path / "epsilon.md").read_bytes() == page
    run.main(["epsilon", "report", "--smoke", "--moves", "4000", "--out", str(tmp_path)])
    assert b"Here: 4000 moves per run" in (tmp_path / "epsilon.md").read_bytes()


def test_experiments_of_other_settings_files_have_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = json_files.read(settings.FOLDER / "epsilon.json")
    loaded["runs"] = loaded["runs"][:1]
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(loaded))
    smoke(str(file), tmp_path)
    played = json_files.rows(tmp_path / "mine.jsonl")
    assert {row["run"] for row in played} == {loaded["runs"][0]["name"]}
    assert {row["experiment"] for row in played} == {"mine"}
    assert f"quasi_greedy.run {file} learn --moves" in (tmp_path / "mine.md").read_text()


def test_drawing_needs_rows(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no runs:"):
        run.main(["epsilon", "report", "--out", str(tmp_path)])
    with pytest.raises(ValueError, match="2e8 moves"):
        run.main(["epsilon", "report", "--moves", "2e8", "--out", str(tmp_path)])


@pytest.mark.parametrize(
    ("arguments", "noun"),
    [
        (["epsilon"], "COMMAND must be given"),
        (["epsilon", "learn"], "length"),
        (["epsilon", "learn", "--moves", "1e5", "--seconds", "2"], "not in both"),
        (["epsilon", "learn", "--moves", "-1"], "moves"),
        (["epsilon", "learn", "--moves", "1e5", "--jobs", "0"], "jobs"),
        (["epsilon", "learn", "--moves", "1e5", "--search-at", "1.5"], "search_at"),
        (["epsilon", "learn", "--moves", "1e5", "--search-games", "-1"], "--search-games"),
        (
            ["epsilon", "learn", "--smoke", "--greedy-games", "9"],
            "--greedy-games has no effect with --smoke",
        ),
        (["epsilon", "report", "--hours", "1"], "--hours is for learn, got report"),
        (["tables", "report"], "name must be epsilon, good_plays, restart, search or a file"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str], noun: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        exit_code(run.main, arguments)
    assert caught.value.code == 2 and noun in " ".join(capsys.readouterr().err.split())
