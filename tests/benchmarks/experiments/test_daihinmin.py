"""The experiments with rank networks: their arithmetic, and a tiny one from end to end."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from torch import nn

from afterstate.agents.daihinmin.learning import rank_training
from afterstate.agents.daihinmin.learning.rank_training import RankTraining
from benchmarks.experiments.daihinmin import report, run

SETTINGS = Path(run.__file__).parent

TINY: dict[str, Any] = {
    "title": "Tiny",
    "study": "None",
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
    "study_games": 1e5,
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
    "orders": [{"better": "heuristic", "worse": "sample", "says": "rules help"}],
}


NAMES = list("abcde")


def row(
    seed: int, points: list[float], squares: list[float | None] | None = None, n_sets: int = 1
) -> dict[str, Any]:
    """A row of five players."""
    squared = squares or [None] * 5
    told = {"seed": seed, "sets": n_sets, "players": NAMES, "points": points}
    return told | {"visits": [10] * 5, "squared_error": squared}


def test_results_are_means_over_draws_with_their_standard_errors() -> None:
    rows = [
        row(0, [400, 300, 300, 300, 200], [10.0, None, None, None, None]),
        row(1, [440, 300, 300, 260, 200], [30.0, None, None, None, None]),
    ]
    found = report.results(rows)
    # a: mean 420, standard deviation 28.28, over the root of 2; RMSE: root of 40 / 20
    assert found["a"].draws == {0: 400, 1: 440} and found["a"].points == 420
    assert found["a"].error == pytest.approx(20)
    assert found["a"].rmse == pytest.approx(math.sqrt(2))
    assert math.isnan(found["b"].rmse) and found["b"].error == 0
    assert math.isnan(report.results(rows[:1])["a"].error)


def correlated(n_draws: int, n_sets: int, seed: int) -> list[dict[str, Any]]:
    """Rows in which what varies are the draws, not the sets: all players' mean is 300."""
    rng = np.random.default_rng(seed)
    rows = []
    for draw in range(n_draws):
        luck = rng.normal(0, 30, 5)
        means = 300 + luck - luck.mean()
        rows += [row(draw, (means + rng.normal(0, 1, 5)).tolist()) for _ in range(n_sets)]
    return rows


def test_sets_of_a_draw_are_not_independent() -> None:
    once, often = correlated(10, 1, seed=1), correlated(10, 1, seed=1) * 10
    alone, together = report.results(once), report.results(often)
    for name in NAMES:  # the same again and again tells nothing new
        assert together[name].points == pytest.approx(alone[name].points)
        assert together[name].error == pytest.approx(alone[name].error)
    spread = [report.results(correlated(10, 10, seed))["a"] for seed in range(100)]
    off = np.std([found.points for found in spread])
    assert np.mean([found.error for found in spread]) == pytest.approx(off, rel=0.2)


def test_the_error_of_a_gap_counts_what_one_gains_and_the_other_loses() -> None:
    one = report.Result({0: 310.0, 1: 290.0, 2: 330.0}, math.nan)
    other = report.Result({0: 290.0, 1: 310.0, 2: 270.0}, math.nan)
    # the gap is 20, -20 and 60 in the three draws: standard deviation 40, over the root of 3
    assert report.gap(one, other) == pytest.approx((20, 40 / math.sqrt(3)))
    elsewhere = report.Result({3: 290.0, 4: 310.0, 5: 270.0}, math.nan)
    apart = math.hypot(one.error, elsewhere.error)
    assert report.gap(one, elsewhere) == pytest.approx((20, apart))


def test_orders_of_equal_players_are_seldom_significant() -> None:
    order = {"better": "a", "worse": "b", "says": ""}
    found = [report.results(correlated(20, 10, seed)) for seed in range(200)]
    verdicts = [report.verdict(order, each) for each in found]
    significant = sum(not verdict.startswith("not significant") for verdict in verdicts)
    assert 0 < significant < 0.1 * len(found)  # one in twenty is to be expected


def result(*points: float, first: int = 0) -> report.Result:
    """What a player reached in draws."""
    return report.Result(dict(enumerate(points, first)), 0.8)


def test_an_order_of_the_paper_is_compared_with_its_error() -> None:
    one, other = result(317, 323), result(306, 314, first=2)
    order = {"better": "x", "worse": "y", "says": ""}
    assert report.verdict(order, {"x": one, "y": other}) == "not significant (+10.0 ± 5.0)"
    assert report.verdict(order, {"x": one}) == "not measured"
    far = result(286, 294, first=2)
    assert report.verdict(order, {"x": one, "y": far}) == "reproduced (+30.0 ± 5.0)"
    assert report.verdict(order, {"x": far, "y": one}) == "opposite (-30.0 ± 5.0)"
    single = report.verdict(order, {"x": one, "y": result(290)})
    assert single == "too few draws for an error (+30.0)"
    equal = {"equal": ["x", "y"], "says": ""}
    assert report.verdict(equal, {"x": one, "y": other}).startswith("reproduced: no sig")
    assert report.verdict(equal, {"x": one, "y": far}).startswith("not reproduced: they differ")


def test_the_title_counts_draws() -> None:
    text = report.table(TINY, correlated(3, 4, seed=1), {})
    assert "1,200 games: 3 draws of five players, who played 12 sets of 100" in text
    assert "standard errors over draws" in text


def test_what_was_learned_from_stands_beside_the_table_of_the_study() -> None:
    # The window holds two generations of 10 games, so each sample is learned from in two.
    rows = [
        {"generation": 1, "iterations": 2, "samples": 100, "loss": 1.5},
        {"generation": 1, "against_sample": 300.0, "error": 1.0},
        {"generation": 2, "iterations": 4, "samples": 220, "against_sample": 300.0, "error": 1.0},
        {"generation": 3, "iterations": 6, "samples": 240, "loss": 1.5},
    ]
    samples = 100 + 110 + 120
    assert report.learned(TINY, rows) == (6, samples, 6 * 64 / samples)
    lines = report.training_table(TINY, {"small": rows, "smaller": []})[2:]
    assert lines == [
        "| small | 6 | 330 | 1.16 | 5,000,000 | 50 |",
        "| smaller | - | - | - | - | - |",
    ]


@pytest.mark.parametrize("name", [path.stem for path in SETTINGS.glob("*.json")])
def test_orders_name_players_that_are_there_as_the_study_has_them(name: str) -> None:
    told = run.experiment(name)
    assert run.runs_of(told) and told["orders"]
    for order in told["orders"]:
        if "equal" in order:
            assert len(set(order["equal"]) & set(told["players"])) == 2
            continue
        better, worse = (told["players"][order[key]]["published"] for key in ("better", "worse"))
        assert better["points"] > worse["points"] + better["error"]


TABLES_5_AND_7 = {  # points, RMSE, millions of iterations
    "BaseCNN16": (288, 0.809, 580),
    "BaseCNN32": (300, 0.796, 600),
    "BaseCNN64": (309, 0.792, 860),
    "BaseCNN128": (311, 0.786, 700),
    "BaseCNN32eps": (308, 0.770, 880),  # BaseCNN128eps
    "FC-NN": (285, 0.823, 850),
    "HistoryCNN": (312, 0.794, 150),
    "HistoryCNNeps": (307, 0.808, 190),
    "Self": (326, 0.778, 1280),
}

TABLE_8 = {  # points, RMSE
    0: (134.7, 1.8280),
    1: (270, 0.9772),
    2: (275, 0.9644),
    4: (277, 0.9671),
    8: (283, 0.9372),
    16: (303, 0.8453),
    32: (358, 0.7999),
    64: (367, 0.7913),
    128: (364, 0.7884),
    256: (369, 0.8355),
}


def published(name: str) -> dict[str, Any]:
    """The published values of an experiment, by player."""
    players = run.experiment(name)["players"].items()
    return {player: told["published"] for player, told in players if "published" in told}


def test_published_values_are_those_of_tables_5_and_7() -> None:
    assert published("logs") == {
        name: {"points": points, "error": 2, "rmse": rmse, "iterations": millions * 1e6}
        for name, (points, rmse, millions) in TABLES_5_AND_7.items()
    }
    others = run.experiment("logs")["others"]
    assert others == {"snowl": 268, "beersong": 298, "kou2": 262, "Glicine": 336}
    points = [*(each[0] for each in TABLES_5_AND_7.values()), *others.values()]
    assert np.mean(points) == pytest.approx(300, abs=1)  # of whoever sits at five places


def test_published_uses_of_each_sample_are_58_to_88() -> None:
    lines = report.training_table(run.experiment("logs"), {})[2:]
    uses = {line.split(" | ")[0].strip("| "): line.split(" | ")[-1].strip("| ") for line in lines}
    assert uses["BaseCNN16"] == "58" and uses["BaseCNN32eps"] == "88"
    assert uses["HistoryCNN"] == "15" and uses["Self"] == "-"
    assert len(uses) == len(TABLES_5_AND_7)


def test_published_values_are_those_of_table_8() -> None:
    assert published("generations") == {
        str(generation): {"points": points, "error": 1 if generation else 0.3, "rmse": rmse}
        for generation, (points, rmse) in TABLE_8.items()
    }


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the settings of the tiny experiment, for its results and its runs."""
    elsewhere = {name: player for name, player in TINY["players"].items() if name != "sample"}
    with_self = {**TINY, "players": {**elsewhere, "Self": {"file": True}}}
    for name, told in {"tiny": TINY, "other": with_self}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(told))
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(run, "GAMES", 4)
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
    run.main(["tiny", "train", *runs])  # nothing is left to do
    rows = run.read_rows(tiny / "runs" / "tiny" / "small" / "rows.jsonl")
    assert [("loss" in row, "against_sample" in row) for row in rows] == 2 * [
        (True, False),
        (False, True),
    ]
    run.main(["tiny", "play", *runs, "--draws", "1"])
    run.main(["tiny", "play", *runs, "--draws", "2", "--device", "cpu"])
    rows = run.read_rows(tiny / "results" / "tiny.jsonl")
    assert [(row["seed"], row["set"]) for row in rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(sum(row["points"]) == 4 * 15 for row in rows)
    for played in rows:
        known = {n: s for n, s in zip(played["players"], played["squared_error"], strict=True)}
        assert all((known[name] is None) == (name not in ("small", "smaller")) for name in known)
    text = (tiny / "results" / "tiny.md").read_text()
    assert "| small | 2 |" in text and "310.0 ± 2.0" in text
    assert "| small | 4 | " in text and " | 5,000,000 | 50 |" in text
    assert "rules help" in capsys.readouterr().out
    figure = (tiny / "results" / "tiny.svg").read_bytes()
    run.main(["tiny", "draw"])
    assert (tiny / "results" / "tiny.svg").read_bytes() == figure


def test_a_measurement_that_a_kill_left_out_is_made_up_for(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*rest: Any) -> None:
        raise KeyboardInterrupt

    train = ["tiny", "train", "--only", "small", "--runs", str(tiny / "runs")]
    path = tiny / "runs" / "tiny" / "small" / "rows.jsonl"
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(rank_training, "points_against_sample", killed)
        run.main(train)
    assert ["against_sample" in row for row in run.read_rows(path)] == [False]
    run.main(train)
    rows = run.read_rows(path)
    assert [row["generation"] for row in rows] == [1, 1, 2, 2]
    assert ["against_sample" in row for row in rows] == [False, True, False, True]
    assert not (tiny / "runs" / "tiny" / "smaller").exists()


def test_a_draw_that_a_kill_cut_off_is_played_again(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "play_draw", lambda players, names, n, seed: two_sets(seed))
    players, path = {name: name for name in NAMES}, tiny / "results" / "tiny.jsonl"
    run.play(TINY, players, 3, path)
    whole = path.read_text()
    lines = whole.splitlines(keepends=True)
    for cut in ("".join(lines[:5]), "".join(lines[:4]) + lines[4][:30], whole[:-9], lines[0]):
        path.write_text(cut)
        run.play(TINY, players, 3, path)
        assert path.read_text() == whole
    path.write_text("".join(lines[:5]) + lines[5][:30])
    assert {row["seed"] for row in run.whole_draws(run.read_rows(path))} == {0, 1}


def test_draws_of_other_players_are_not_mixed(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "play_draw", lambda players, names, n, seed: two_sets(seed))
    path = tiny / "results" / "tiny.jsonl"
    players: dict[str, Any] = {name: name for name in NAMES} | {"net": nn.Linear(2, 2)}
    run.play(TINY, players, 1, path)
    run.play(TINY, players, 2, path)
    whole = path.read_text()
    learned = nn.Linear(2, 2)
    for others in ({name: name for name in NAMES}, players | {"net": learned}):
        with pytest.raises(SystemExit, match=r"are of other players, or of .*delete it"):
            run.play(TINY, others, 3, path)
    assert path.read_text() == whole
    path.write_text("")
    run.add_rows(path, two_sets(0))  # as they were before
    assert run.whole_draws(run.read_rows(path))
    with pytest.raises(SystemExit, match="move it away or delete it"):
        run.play(TINY, players, 2, path)


def test_generations_that_play_stay_when_the_pool_has_dropped_them(tiny: Path) -> None:
    network = {"network": {"name": "FCNN", "hidden": 2}}
    players: dict[str, Any] = {"0": {}, "1": {}, "3": {}}
    told = {**TINY, "run": TINY["run"] | network | {"pool": 1}, "players": players}
    told["generations"] = 3
    (tiny / "grown.json").write_text(json.dumps(told))
    run.main(["grown", "train", "--runs", str(tiny / "runs")])
    folder = tiny / "runs" / "grown"
    assert [path.stem for path in (folder / "all" / "pool").iterdir()] == ["00003"]
    assert list(run.load_players(told, folder, None)) == ["0", "1", "3"]
    assert len(list((folder / "all" / "players").iterdir())) == 3


def test_a_row_is_there_before_its_generation_is_saved(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = ["tiny", "train", "--only", "small", "--runs", str(tiny / "runs")]
    path = tiny / "runs" / "tiny" / "small" / "rows.jsonl"
    save = RankTraining.save
    for at_once in (True, False):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):

            def killing(trainee: RankTraining, at_once: bool = at_once) -> None:
                if trainee.generation and at_once:
                    raise KeyboardInterrupt
                save(trainee)
                if trainee.generation:
                    raise KeyboardInterrupt

            patched.setattr(RankTraining, "save", killing)
            run.main(train)
    run.main(train)
    rows = [row["generation"] for row in run.read_rows(path) if "loss" in row]
    assert rows == [1, 2]


def two_sets(seed: int) -> list[dict[str, Any]]:
    """The rows of a draw of two sets."""
    return [row(seed, [300.0] * 5, n_sets=2) | {"set": i} for i in range(2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tiny", "train"], "say where the training runs are"),
        (["tiny", "train", "--runs", "runs", "--only", "tall"], "no network is called 'tall', but"),
        (["tiny", "train", "--runs", "runs", "--jobs", "0"], "from 1 on"),
        (["tiny", "play", "--runs", "runs", "--draws", "0"], "from 1 on"),
        (["tiny", "train", "--runs", "runs", "--device", "abacus"], "no device 'abacus'"),
        (["tiny", "play", "--runs", "typo"], "is not there: train first"),
        (["tiny", "play", "--runs", "runs"], "five players sit down"),
        (["tiny", "draw", "--runs", "typo"], "is not there: train first"),
        (["tiny", "play", "--runs", "runs", "--self", "tiny.json"], "leave out --self"),
        (["other", "play", "--runs", "runs", "--self", "typo"], "there is no file typo for --self"),
        (["other", "play", "--runs", "runs", "--self", "tiny.json"], "is not a network"),
        (["tiny", "draw"], "has no draws: play some first"),
    ],
)
def test_wrong_options_are_refused(
    tiny: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tiny)
    for name in ("tiny", "other"):
        (tiny / "runs" / name).mkdir(parents=True)
    with pytest.raises(SystemExit) as stopped:
        run.main(arguments)
    assert message in capsys.readouterr().err + str(stopped.value)
    assert not (tiny / "results").exists()


def test_drawing_without_the_rows_of_training_says_what_to_do(tiny: Path) -> None:
    path = tiny / "results" / "tiny.jsonl"
    path.parent.mkdir()
    run.add_rows(path, two_sets(0))
    with pytest.raises(SystemExit, match="say where the training runs are"):
        run.main(["tiny", "draw"])
    learned: dict[str, Any] = {
        "generation": 1,
        "iterations": 2,
        "samples": 40,
        "loss": 1.5,
        "rmse": None,
    }
    rows = [learned, {"generation": 1, "against_sample": 300.0, "error": 1.0}]
    (tiny / "runs" / "tiny" / "small").mkdir(parents=True)
    run.add_rows(tiny / "runs" / "tiny" / "small" / "rows.jsonl", rows)
    run.main(["tiny", "draw", "--runs", str(tiny / "runs")])
    assert "| small | 2 | 40 | 3.20 |" in (tiny / "results" / "tiny.md").read_text()
