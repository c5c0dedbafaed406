"""The experiments with rank networks: their arithmetic, and a tiny one from end to end."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from experiments.daihinmin import report, run

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
    "players": {
        "small": {
            "network": {"name": "FCNN", "hidden": 4},
            "published": {"points": 310, "error": 2, "rmse": 0.8},
        },
        "smaller": {"network": {"name": "FCNN", "hidden": 2}, "epsilon": 0.1},
        "policy": {},
        "heuristic": {},
        "sample": {},
    },
    "orders": [{"better": "heuristic", "worse": "sample", "says": "rules help"}],
}


def row(players: list[str], points: list[float], squares: list[float | None]) -> dict[str, Any]:
    """A row of five players."""
    return {"players": players, "points": points, "visits": [10] * 5, "squared_error": squares}


def test_results_are_means_over_sets_with_their_standard_errors() -> None:
    names = list("abcde")
    rows = [
        row(names, [400, 300, 300, 300, 200], [10.0, None, None, None, None]),
        row(names, [440, 300, 300, 260, 200], [30.0, None, None, None, None]),
    ]
    found = report.results(rows)
    # a: mean 420, standard deviation 28.28, over the root of 2; RMSE: root of 40 / 20
    assert found["a"].sets == 2 and found["a"].points == 420
    assert found["a"].error == pytest.approx(20)
    assert found["a"].rmse == pytest.approx(math.sqrt(2))
    assert math.isnan(found["b"].rmse) and found["b"].error == 0


def test_an_order_of_the_study_is_compared_with_its_error() -> None:
    one, other = report.Result(9, 320, 3, 0.8), report.Result(9, 310, 4, 0.9)
    order = {"better": "x", "worse": "y", "says": ""}
    assert report.verdict(order, {"x": one, "y": other}) == (
        "agrees, within two standard errors (+10.0 ± 5.0)"
    )
    assert report.verdict(order, {"x": other, "y": one}).startswith("opposite")
    assert report.verdict(order, {"x": one}) == "not measured"
    far = report.Result(9, 290, 4, 0.9)
    assert report.verdict(order, {"x": one, "y": far}) == "agrees, clearly (+30.0 ± 5.0)"


@pytest.mark.parametrize("name", [path.stem for path in SETTINGS.glob("*.json")])
def test_the_settings_are_those_of_runs_and_name_players_that_are_there(name: str) -> None:
    told = run.experiment(name)
    assert run.runs_of(told)
    for order in told["orders"]:
        assert {order["better"], order["worse"]} <= set(told["players"])


def test_published_values_are_those_of_the_tables() -> None:
    players = run.experiment("logs")["players"]
    points = {name: p["published"]["points"] for name, p in players.items() if "published" in p}
    assert points == {
        "BaseCNN16": 288,
        "BaseCNN32": 300,
        "BaseCNN64": 309,
        "BaseCNN128": 311,
        "BaseCNN32eps": 308,
        "FC-NN": 285,
        "HistoryCNN": 312,
        "Self": 326,
    }
    generations = run.experiment("generations")["players"]
    table_8 = [134.7, 270, 275, 277, 283, 303, 358, 367, 364, 369]
    assert [p["published"]["points"] for p in generations.values()] == table_8


def test_a_tiny_experiment_from_training_to_its_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(run, "GAMES", 4)
    monkeypatch.setattr(run, "points_against_sample", lambda net, n, seed, of: (300.0, 1.0))
    runs = ["--runs", str(tmp_path / "runs")]
    run.main(["tiny", "train", *runs])
    run.main(["tiny", "train", *runs])  # nothing is left to do
    assert len(run.read_rows(tmp_path / "runs" / "tiny" / "small" / "rows.jsonl")) == 2
    run.main(["tiny", "play", *runs, "--draws", "1"])
    run.main(["tiny", "play", *runs, "--draws", "2"])
    rows = run.read_rows(tmp_path / "results" / "tiny.jsonl")
    assert [row["seed"] for row in rows] == [0, 0, 1, 1]
    assert all(sum(row["points"]) == 4 * 15 for row in rows)
    for played in rows:
        known = {n: s for n, s in zip(played["players"], played["squared_error"], strict=True)}
        assert all((known[name] is None) == (name not in ("small", "smaller")) for name in known)
    text = (tmp_path / "results" / "tiny.md").read_text()
    assert "| small | 4 |" in text and "310.0 ± 2.0" in text
    assert "rules help" in capsys.readouterr().out
    figure = (tmp_path / "results" / "tiny.svg").read_bytes()
    run.main(["tiny", "draw"])
    assert (tmp_path / "results" / "tiny.svg").read_bytes() == figure
