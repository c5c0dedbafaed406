from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("joblib")
pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from afterstate.agents.game2048.learning.ntuple_learner import Settings
from afterstate.agents.game2048.values.ntuple import STAGES, network
from benchmarks.experiments.quasi_greedy import figure, playing, report, rows, run, settings
from benchmarks.experiments.quasi_greedy.rows import Estimate
from benchmarks.experiments.quasi_greedy.settings import Experiment, Published, Scale

NAMES = ("epsilon", "good_plays", "restart", "search")
GAMES = {"greedy": 5, "3-ply": 1}
ROOT = Path(__file__).parents[3]


def tiny(name: str = "epsilon") -> Experiment:
    """An experiment with a network of three small tuples."""
    return settings.read(name).with_tuples(run.SMALL)


def row(
    experiment: Experiment, name: str, seed: int, share: float = 1.0, /, **more: Any
) -> playing.Row:
    """A row as it could be of a run of 1,000 moves."""
    named = playing.key(experiment, experiment.run(name), seed, Scale("moves", 1000.0))
    made = {"share": share, "moves": 1000 * share, "learned": 0, "seconds": 1.0}
    return {**named, **made, **more}


def games(mean: float, n_games: int = 5) -> dict[str, Any]:
    return {"n_games": n_games, "mean": mean, "interval": 10.0}


# The settings files


def test_there_is_a_file_for_each_experiment() -> None:
    assert tuple(settings.names()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_accepted(name: str) -> None:
    experiment = settings.read(name)
    for each in experiment.runs:
        for learner in (each.first, each.learner):
            made = Settings(**learner)
            assert (made.rule, made.order, made.lam, made.rate) == ("tc", "backward", 0, 1)
            assert not made.printed
    net = network(**experiment.network)
    assert (net.stage_tiles, net.fixed.size) == (list(STAGES), 536_870_912)
    assert experiment.bytes_per_run() == 3 * net.weights.nbytes == 6_442_450_944


@pytest.mark.parametrize("name", NAMES)
def test_settings_files_are_complete(name: str) -> None:
    experiment = settings.read(name)
    assert "Matsuzaki" in experiment.study and "Figure" in experiment.shows
    assert any("printed" in reading for reading in experiment.readings)
    names = [each.name for each in experiment.runs]
    assert len(set(names)) == len(names) <= len(figure.COLORS)
    for said in experiment.orders:
        assert {said.better, *said.worse} <= set(names)
        assert said.measure in settings.DEPTHS


def test_runs_differ_as_in_the_paper() -> None:
    learners = {n: [each.learner for each in settings.read(n).runs] for n in NAMES}
    assert [x["restart"] for x in learners["restart"]] == [10, None]
    assert [x["epsilon"] for x in learners["epsilon"]] == [0, 0.01, 0.05, 0.1]
    assert {(x["restart"], x["skip"]) for x in learners["epsilon"]} == {(10, "target")}
    good = [None, 0.75, 0.5, 0.25]
    assert [x["good"] for x in learners["good_plays"]] == good + good
    assert [x["restart"] for x in learners["good_plays"]] == 4 * [None] + 4 * [10]
    assert [x["search_share"] for x in learners["search"]] == [0, 0.25, 0.5, 0.75, 1, 1]
    assert {(x["restart"], x["search_depth"]) for x in learners["search"]} == {(10, 2)}


def test_a_switch_is_scaled_with_the_run() -> None:
    experiment = settings.read("search")
    after_25, after_12 = experiment.runs[4:]
    assert (after_25.first["search_share"], after_25.learner["search_share"]) == (0, 1)
    assert experiment.switch(after_25, "moves") == round(9 / 12.7, 6)
    assert experiment.switch(after_25, "seconds") == round(25 / 36, 6)
    assert experiment.switch(after_12, "moves") == round(4.5 / 12.7, 6)
    assert experiment.switch(after_12, "seconds") == round(12 / 36, 6)
    assert experiment.switch(experiment.runs[0], "moves") is None


@pytest.mark.parametrize(
    ("name", "label", "at", "greedy", "search", "learned"),
    [
        ("good_plays", "no restart, 0.75", 1e10, (11_507, 2_648), (38_154, 11_484), 0.14e8),
        ("good_plays", "no restart, 0.75", 5e10, (11_735, 3_053), (34_249, 11_963), 0.20e8),
        ("good_plays", "no restart, 0.50", 1e10, (21_491, 8_295), (52_131, 16_750), 3.57e8),
        ("good_plays", "no restart, 0.50", 5e10, (19_776, 8_484), (52_669, 19_685), 4.51e8),
        ("good_plays", "no restart, 0.25", 1e10, (23_606, 6_642), (106_515, 28_999), 17.7e8),
        ("good_plays", "no restart, 0.25", 5e10, (20_614, 6_046), (72_373, 17_404), 24.6e8),
        ("good_plays", "restart, 0.75", 1e10, (9_586, 5_721), (20_416, 9_033), 0.38e8),
        ("good_plays", "restart, 0.75", 5e10, (9_421, 5_683), (18_060, 7_416), 0.68e8),
        ("good_plays", "restart, 0.50", 1e10, (13_438, 7_489), (29_007, 13_080), 9.52e8),
        ("good_plays", "restart, 0.50", 5e10, (12_733, 6_458), (26_907, 12_036), 13.1e8),
        ("good_plays", "restart, 0.25", 1e10, (17_194, 4_624), (33_362, 13_230), 48.7e8),
        ("good_plays", "restart, 0.25", 5e10, (15_964, 3_713), (26_354, 7_311), 98.9e8),
        ("good_plays", "baseline (Table 2)", 5e10, (209_400, 4_421), (445_120, 17_917), None),
        ("epsilon", "Gr 100%", 5e10, (209_400, 4_421), (445_120, 17_917), None),
        ("epsilon", "Gr 99%/Rn 1%", 5e10, (140_399, 2_705), (318_071, 13_187), None),
        ("epsilon", "Gr 95%/Rn 5%", 5e10, (95_594, 808), (161_944, 2_903), None),
        ("epsilon", "Gr 90%/Rn 10%", 5e10, (68_120, 441), (118_126, 4_465), None),
        ("search", "Gr 100%", 129_600, (238_297, 12_457), (458_626, 26_431), 12.7e10),
        ("search", "Gr 75%, Ex 25%", 129_600, (210_082, 12_696), (459_371, 24_527), 7.4e10),
        ("search", "Gr 50%, Ex 50%", 129_600, (179_955, 15_215), (428_166, 52_089), 4.5e10),
        ("search", "Gr 25%, Ex 75%", 129_600, (141_206, 20_771), (408_619, 35_635), 2.5e10),
        ("search", "Ex after 25h", 129_600, (37_532, 2_379), (423_203, 32_302), 9.5e10),
        ("search", "Ex after 12h", 129_600, (16_880, 4_185), (412_141, 27_552), 5.5e10),
    ],
)
def test_published_values(
    name: str,
    label: str,
    at: float,
    greedy: tuple[float, float],
    search: tuple[float, float],
    learned: float | None,
) -> None:
    found = next(each for each in settings.read(name).runs if each.label == label)
    anchor = next(anchor for anchor in found.published if anchor.at == at)
    for measure, (mean, interval) in (("greedy", greedy), ("3-ply", search)):
        assert anchor.values[measure] == Published(mean - interval, mean + interval, mean)
    assert anchor.learned == learned


def test_published_values_of_figures_7_and_8() -> None:
    baseline = settings.read("restart").run("restart")
    at_some, at_end = baseline.published
    assert (at_some.at, at_some.share) == (2.5e10, 0.625)
    assert at_some.values == {"3-ply": Published(414_440, 414_440, 414_440)}
    assert str(at_end.values["greedy"]) == "200,000 to 230,000"
    assert str(at_end.values["3-ply"]) == "over 400,000"


@pytest.mark.parametrize("module", [settings, rows])
def test_docstring_examples_are_true(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted > 0 and found.failed == 0


def test_settings_that_do_not_exist_are_refused() -> None:
    data = json.loads((settings.FOLDER / "epsilon.json").read_text(encoding="utf-8"))
    for wrong in ({"colour": 1}, {"runs": [{"name": "a", "label": "b", "switched": {}}]}):
        with pytest.raises(ValueError, match="not a settings file"):
            settings.experiment("epsilon", {**data, **wrong})


# Statistics


def test_intervals_of_repeats_are_by_students_t() -> None:
    assert rows.quantile(4) == 2.776
    assert rows.quantile(15) == pytest.approx(2.131, abs=0.005)
    found = rows.estimate([10.0, 12.0, 14.0])
    assert found.mean == 12 and found.interval == pytest.approx(4.303 * 2 / 3**0.5)


def test_orders_of_a_table_made_by_hand() -> None:
    published = {
        "a": Published(90, 110, 100),
        "b": Published(40, 60, 50),
        "c": Published(55, 75, 65),  # not apart from b
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
    found = report.orders_of_values("greedy", 1, published, ours)
    verdicts = {(order.better, order.worse): order.verdict() for order in found}
    assert verdicts == {
        ("a", "b"): "same, significant",
        ("a", "c"): "same, not significant",
        ("d", "a"): "opposite, not significant",
        ("d", "b"): "same, not significant",
        ("d", "c"): "opposite, not significant",
        ("a", "e"): "not measured",
        ("b", "e"): "not measured",
        ("c", "e"): "not measured",
        ("d", "e"): "not measured",
    }
    assert report.counts(found).startswith("3 of 5 pairs of runs")
    assert "of the 1 pairs whose 95% intervals here do not overlap, 1" in report.counts(found)


def test_orders_said_in_words_are_of_the_end() -> None:
    experiment = tiny("restart")
    made = [
        row(experiment, "restart", 1, greedy=games(100), **{"3-ply": games(500)}),
        row(experiment, "no restart", 1, greedy=games(90), **{"3-ply": games(400)}),
        row(experiment, "no restart", 1, 0.5, greedy=games(900)),
    ]
    found = report.orders(experiment, rows.curves(made, experiment, Scale("moves", 1000.0)))
    verdicts = [(order.measure, order.better, order.verdict()) for order in found]
    assert verdicts == [
        ("greedy", "no restart", "opposite, not significant"),
        ("3-ply", "restart", "same, significant"),
    ]


# The file of rows


def test_points_are_means_over_repeats() -> None:
    experiment = tiny()
    made = [row(experiment, "greedy only", i, greedy=games(10 * i)) for i in (1, 2, 3)]
    other_scale = {**made[0], "scale": {"moves": 5.0}}
    other_settings = {**made[0], "settings": "before"}
    found = rows.curves([*made, other_scale, other_settings], experiment, Scale("moves", 1000.0))
    (point,) = found["greedy only"]
    assert point.values["greedy"].mean == 20 and point.repeats == {"greedy": [10, 20, 30]}
    assert list(found) == ["greedy only"]


def test_rows_replace_those_of_the_same_run(tmp_path: Path) -> None:
    experiment, path = tiny(), tmp_path / "folder" / "rows.jsonl"
    for seed, mean in ((1, 10.0), (2, 20.0), (1, 30.0)):
        rows.add(path, [row(experiment, "greedy only", seed, greedy=games(mean))])
    assert [(made["seed"], made["greedy"]["mean"]) for made in rows.read(path)] == [
        (2, 20),
        (1, 30),
    ]


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    experiment, path = tiny(), tmp_path / "rows.jsonl"
    rows.add(path, [row(experiment, "greedy only", 1, greedy=games(1))])
    path.write_text(path.read_text() + '{"experiment": "eps')
    rows.add(path, [row(experiment, "greedy only", 2, greedy=games(2))])
    assert [json.loads(line)["seed"] for line in path.read_text().splitlines()] == [1, 2]


def test_a_run_is_finished_with_all_that_is_asked_for() -> None:
    experiment = tiny()
    plan = playing.plan(experiment, Scale("moves", 1000.0), 2, GAMES, [1.0])
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


# Playing


def test_search_is_played_where_the_paper_has_values_of_it() -> None:
    scale = Scale("moves", 1e6)
    assert playing.plan(settings.read("restart"), scale, 4, GAMES).search_shares == (0.5, 0.625, 1)
    plan = playing.plan(settings.read("good_plays"), scale, 4, GAMES)
    assert plan.search_shares == (0.2, 0.5, 1)
    assert plan.shares == (0.2, 0.25, 0.5, 0.75, 1)
    assert plan.asked(0.25) == {"greedy": 5} and plan.asked(0.2) == GAMES


def test_a_run_is_the_same_again_and_turns_to_search() -> None:
    experiment = tiny("search")
    plan = playing.plan(experiment, Scale("moves", 6000.0), 2, GAMES)
    done: list[float] = []
    each = experiment.run("search after 12 h")
    first, second = (playing.play(experiment, each, 1, plan, done.append) for _ in range(2))
    for made in (*first, *second):
        made.pop("seconds")
    assert first == second
    assert [made["share"] for made in first] == [0.5, 1] and "machine" in first[-1]
    assert first[-1]["moves"] >= 6000 and "3-ply" in first[-1]
    greedy = playing.play(experiment, experiment.run("greedy only"), 1, plan, done.append)
    assert greedy[0]["moves"] != first[0]["moves"]  # it has restarted since, the other searched
    assert max(done) == pytest.approx(playing.cost(experiment, each, plan))


def test_costs_grow_with_search() -> None:
    experiment = settings.read("search")
    plan = playing.plan(experiment, Scale("moves", 2e8), 10, {"greedy": 300, "3-ply": 10})
    costs = [playing.cost(experiment, each, plan) for each in experiment.runs]
    assert costs[:4] == sorted(costs[:4]) and costs[4] < costs[5]


def test_no_more_jobs_are_started_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "available_memory", lambda: 8 * 10**9)
    run.check_memory(4e9, 2)
    with pytest.raises(SystemExit, match=r"may take 12.0 GB, of which 8.0 GB .*: --jobs 2, or "):
        run.check_memory(4e9, 3)
    with pytest.raises(SystemExit, match=r"available: --memory with"):
        run.check_memory(9e9, 1)
    monkeypatch.setattr(run, "available_memory", lambda: None)
    run.check_memory(9e9, 100)


# The command


def smoke(name: str, out: Path, *more: str) -> None:
    run.main([name, "--smoke", "--repeats", "1", "--out", str(out), *more])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_writes_rows_table_and_figure(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke(name, tmp_path)
    made, experiment = rows.read(tmp_path / f"{name}.jsonl"), settings.read(name)
    assert {row["run"] for row in made} == {each.name for each in experiment.runs}
    printed, written = capsys.readouterr().out, (tmp_path / f"{name}.md").read_text("utf-8")
    for table in ("| run ", "| of the run |", "pairs of runs that the paper orders"):
        assert table in printed and table in written
    assert written.startswith(f"# {experiment.title}\n") and f"({name}.svg)" in written
    picture = (tmp_path / f"{name}.svg").read_text("utf-8")
    assert picture.count("<svg") == 1 and len(picture) > 20_000

    lines = (tmp_path / f"{name}.jsonl").read_bytes()
    smoke(name, tmp_path)
    assert f"0 of {len(experiment.runs)} runs are to be played" in capsys.readouterr().out
    assert (tmp_path / f"{name}.jsonl").read_bytes() == lines
    assert (tmp_path / f"{name}.svg").read_text("utf-8") == picture


@pytest.mark.slow
def test_interrupted_runs_are_played_when_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played: list[str] = []
    play = playing.play

    def stop(experiment: Experiment, each: settings.Run, *rest: Any, **named: Any) -> list[Any]:
        played.append(each.name)
        if len(played) == 3:
            raise KeyboardInterrupt
        return play(experiment, each, *rest, **named)

    monkeypatch.setattr(playing, "play", stop)
    with pytest.raises(SystemExit, match="interrupted"):
        smoke("epsilon", tmp_path)
    assert len({row["run"] for row in rows.read(tmp_path / "epsilon.jsonl")}) == 2
    smoke("epsilon", tmp_path)
    assert "2 of 4 runs are to be played" in capsys.readouterr().out
    assert len(played) == 5 and len(set(played)) == 4


@pytest.mark.slow
def test_the_command_plays_in_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.experiments.quasi_greedy.run", "restart"]
    more = ["--smoke", "--repeats", "2", "--jobs", "2", "--out", str(tmp_path)]
    made = subprocess.run(
        [*command, *more], capture_output=True, text=True, cwd=ROOT, timeout=300, check=False
    )
    assert made.returncode == 0, made.stderr
    assert "4 of 4 runs are to be played" in made.stdout and "100%" in made.stderr
    found = {(row["run"], row["seed"]) for row in rows.read(tmp_path / "restart.jsonl")}
    assert found == {(name, seed) for name in ("restart", "no restart") for seed in (1, 2)}


def test_drawing_needs_rows(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no runs: play some first"):
        run.main(["epsilon", "--draw", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="has no runs of 2e8 moves"):
        run.main(["epsilon", "--draw", "--moves", "2e8", "--out", str(tmp_path)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["epsilon"], "say how long a run is"),
        (["epsilon", "--moves", "1e5", "--seconds", "2"], "not both"),
        (["epsilon", "--moves", "-1"], "above 0"),
        (["epsilon", "--moves", "1e5", "--jobs", "0"], "--jobs is a number from 1 on"),
        (["epsilon", "--moves", "1e5", "--search-at", "1.5"], "shares of the run"),
        (["epsilon", "--moves", "1e5", "--search-games", "-1"], "from 0 on"),
        (["tables"], "invalid choice"),
    ],
)
def test_wrong_options_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run.main(arguments)
    assert message in capsys.readouterr().err
