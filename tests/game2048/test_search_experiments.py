"""The study of Monte-Carlo Softmax search: what it is made of, and a tiny one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib")
pytest.importorskip("matplotlib")
pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

from experiments.mc_softmax import run
from matplotlib.figure import Figure

from afterstate import agents
from afterstate.agents.game2048 import ntuple, search_learning
from afterstate.agents.game2048.mc_softmax import POLICIES, MCSoftmaxAgent
from afterstate.agents.game2048.mc_softmax import Settings as Search
from afterstate.agents.game2048.ntuple import NTupleAgent, network
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.runs import EVALUATION_SEED, Diverged, summary
from afterstate.agents.game2048.value_net import ValueNetAgent

Row = dict[str, Any]

TUPLES = [[0, 1, 4, 5], [0, 1, 2, 3]]


# What it is made of


def settings_of(group: str, player: str = "mc-softmax") -> list[Row]:
    """The settings of a group's players."""
    return [cell["settings"] for cell in run.cells([group]) if cell["player"] == player]


def test_all_pairs_of_policies_play() -> None:
    names = POLICIES[:6]
    assert "falling" not in names
    pairs = [(how["select"], how["backup"]) for how in settings_of("policies")]
    assert pairs == [(select, backup) for select in names for backup in names]
    assert {how["simulations"] for how in settings_of("policies")} == {100}


def test_both_networks_play_with_more_and_more_simulations_beside_other_searches() -> None:
    found = settings_of("simulations")
    for name, most in (("ntuple", 2_000), ("value-net", 200)):
        of = [how for how in found if how["network"] == name and how["unseen"] == "outcomes"]
        numbers = [how["simulations"] for how in of]
        assert numbers == sorted(numbers) and (numbers[0], numbers[-1]) == (10, most)
    others = {(cell["player"], cell["settings"].get("depth", 1)) for cell in run.cells(["lines"])}
    assert {("ntuple", 1), ("expectimax", 3), ("value-net", 1), ("value-net", 3)} <= others


def test_all_that_was_added_plays_beside_the_search_as_it_was() -> None:
    for name in ("ntuple", "value-net"):
        first, *more = (how for how in settings_of("improvements") if how["network"] == name)
        assert more and all(first.items() <= how.items() and len(how) > len(first) for how in more)
    used = {setting for how in settings_of("improvements") for setting in how}
    assert {"unseen", "reuse", "widening", "select_temperature", "choose", "leaves"} <= used


def test_all_settings_are_of_players_that_there_are() -> None:
    names = [run.name(cell) for cell in run.cells()]
    assert len(set(names)) == len(names) > 60
    for cell in run.cells():
        told = {key: value for key, value in cell["settings"].items() if key != "network"}
        if cell["player"] == "mc-softmax":
            Search(**told)
        else:
            assert cell["player"] in agents.names()


def test_players_have_the_network_that_their_cell_says() -> None:
    cell: Row = {"player": "mc-softmax", "settings": {"network": "ntuple", "simulations": 7}}
    made = run.player(cell)
    assert isinstance(made, MCSoftmaxAgent) and isinstance(made.network, ntuple.Network)
    assert made.settings == Search(simulations=7)
    cell["settings"]["network"] = "value-net"
    assert isinstance(run.player(cell).network, ValueNetAgent)
    cell = {"player": "expectimax", "settings": {"depth": 3}}
    assert type(run.player(cell)) is type(agents.make("expectimax"))


def test_learners_are_those_of_the_study() -> None:
    """Trees, simulations and paths of experiment 1; what is learned in experiment 2."""
    found = {(of, name): how for of, name, how, _ in run.learners()}
    first = {
        name: (how["search"]["trees"], how["search"]["simulations"], how["learner"]["paths"])
        for (of, name), how in found.items()
        if of == "experiment 1"
    }
    assert first == {
        "greedy": (1, 10, 1),
        "1 tree": (1, 100, 5),
        "5 trees": (5, 20, 2),
        "10 trees": (10, 10, 2),
    }
    second = {name: how["learner"] for (of, name), how in found.items() if of == "experiment 2"}
    assert second["nodes with more than 10 visits"] == {"learn": "nodes", "visits": 11}
    assert second["nodes, clipped"] == {"learn": "nodes", "clip": 100}
    assert second["EvalV + reward"] == {"learn": "root", "root": "valued"}
    for how in found.values():
        search_learning.Settings(**how["learner"])
        Search(**how["search"])
        assert set(how) <= set(search_learning.SEARCHED.settings)
        assert "start" not in how or (Path(run.HERE).parents[2] / how["start"]).exists()


def test_published_values_are_those_of_the_study() -> None:
    told = run.study()["published"]
    assert (told["greedy"], told["3-ply"]) == (206_802, 394_632)
    assert told["simulations"] == {"50": 206_802, "100": 314_311, "2000": 533_542}
    assert told["experiment 1"] == {"best": "10 trees", "mean": 48_008, "after": 25_000}


# A tiny study


class Study:
    """A study of players of a small network, in a folder."""

    def __init__(self, folder: Path, told: Row) -> None:
        self.runs, self.results, self.told = folder / "runs", folder / "results", told

    def main(self, *arguments: str) -> None:
        """Runs the command line."""
        run.main([*arguments, "--runs", str(self.runs)])

    def rows(self, name: str = "games") -> list[Row]:
        """The rows of a file of results."""
        return run.read(self.results / f"{name}.jsonl")

    def write(self, rows: Sequence[Row], name: str = "games") -> None:
        """Writes such a file."""
        self.results.mkdir(exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.results / f"{name}.jsonl").write_text(text, encoding="utf-8")

    def played(self, means: Sequence[float]) -> None:
        """Writes a row for each player, with these mean scores and some more."""
        made = [
            {**cell, "mean": mean, "interval": mean / 10, "cpu_us_per_move": 2 * mean}
            for cell, mean in zip(run.cells(), means, strict=True)
        ]
        self.write(made)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """The study with few players and games, of a network that has learned nothing."""
    small = network(TUPLES)

    def player(cell: Row) -> Any:
        how = {key: value for key, value in cell["settings"].items() if key != "network"}
        if cell["player"] == "mc-softmax":
            return MCSoftmaxAgent(small, Search(**how))
        return NTupleAgent(small)

    told = run.study()
    search = {"network": "ntuple", "games": 2}
    told["plays"] = {
        "lines": [{"player": "ntuple", "games": 3}, {"player": "value-net", "games": 2}],
        "policies": [
            {**search, "settings": {"simulations": 2}}
            | {"vary": {"select": ["ave", "best"], "backup": ["best"]}}
        ],
        "simulations": [
            {**search, "vary": {"unseen": ["outcomes", "value"], "simulations": [1, 3]}}
        ],
        "improvements": [
            {**search, "settings": {"simulations": 2}, "each": [{}, {"reuse": True, "leaves": 2}]}
        ],
    }
    how = {"search": {"simulations": 2}, "learner": {"games": 2}}
    told["learn"] = {
        "experiment 1": {
            "base": {"network": {"tuples": TUPLES}, **how},
            "hours": 1.0,
            "runs": {"calm": {}, "wild": {"learner": {"games": 3}}},
        }
    }
    monkeypatch.setattr(run, "study", lambda: told)
    monkeypatch.setattr(run, "player", player)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results")
    return Study(tmp_path, told)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The figures by the names of their files, which are made, but empty."""
    kept: dict[str, Any] = {}

    def save(figure: Figure, path: Path, **_: Any) -> None:
        path.touch()
        kept[path.name] = figure

    monkeypatch.setattr(Figure, "savefig", save)
    return kept


# Games


def test_games_are_those_of_the_player_and_counted_as_everywhere(tiny: Study) -> None:
    tiny.main("play", "--only", "improvements", "lines")
    rows = tiny.rows()
    assert [row["group"] for row in rows] == [*["lines"] * 2, *["improvements"] * 2]
    for row, cell in zip(rows, run.cells(["improvements", "lines"]), strict=True):
        games = play(run.player(cell), cell["games"], EVALUATION_SEED)
        expected = {**cell, **summary(games), "moves": int(games.n_moves.sum())}
        assert {key: row[key] for key in expected} == expected
        assert row["cpu_us_per_move"] > 0 and row["machine"]["numba"]
    assert len({row["mean"] for row in rows}) > 1


def test_only_what_has_not_been_played_is_played(
    tiny: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []

    def fake(player: Any, n: int, seed: int) -> Games:
        made.append(player)
        return Games(*np.full((3, n), 64, np.int64))

    monkeypatch.setattr(run, "play", fake)
    tiny.main("play", "--only", "policies")
    assert len(made) == len(tiny.rows()) == 2
    tiny.main("play")
    assert len(made) == len(tiny.rows()) == len(list(run.cells())) == 10
    tiny.told["plays"]["lines"][0]["games"] = 4  # another sample, so it is played again
    tiny.main("play", "--jobs", "1")
    assert len(made) == 11 and tiny.rows()[-1]["n_games"] == 4
    assert "ntuple {}: 64 ± 0" in capsys.readouterr().out


def test_of_players_that_were_played_twice_the_latest_row_counts(tiny: Study) -> None:
    first, second = run.cells(["lines"])
    tiny.write([{**second, "mean": 1}, {**first, "mean": 2}, {**second, "mean": 3}])
    assert [row["mean"] for row in run.of_group("lines")] == [2, 3]
    tiny.told["plays"]["lines"].pop(0)
    assert [row["mean"] for row in run.of_group("lines")] == [3]


# Learning


def test_learners_go_on_until_their_hours_are_over(
    tiny: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def fake(arguments: Sequence[str]) -> None:
        calls.append(list(arguments))
        place = Path(arguments[arguments.index("--out") + 1])
        (place / "learner.npz").touch()
        with (place / "rows.jsonl").open("a", encoding="utf-8") as file:
            seconds = 3_600 * (0.25 if len(calls) < 3 else 1.0)
            file.write(json.dumps({"n_moves": len(calls), "seconds": seconds}) + "\n")

    monkeypatch.setattr(search_learning, "main", fake)
    tiny.main("learn")
    tiny.main("learn", "--only", "experiment 1")
    tiny.main("learn")
    assert [call[call.index("--hours") + 1] for call in calls] == ["1.0", "1.0", "0.75", "0.75"]
    assert ["--resume" in call for call in calls] == [False, False, True, True]
    place = tiny.runs / "experiment_1,_wild"
    assert calls[1][:3] == [str(place / "asked.json"), "--out", str(place)]
    asked = json.loads((place / "asked.json").read_text(encoding="utf-8"))
    base = tiny.told["learn"]["experiment 1"]["base"]
    assert asked == {**base, "learner": {"games": 3}}
    assert [(row["run"], row["n_moves"]) for row in tiny.rows("learning")] == [
        *(("calm", 1), ("calm", 3), ("wild", 2), ("wild", 4))
    ]


def test_learners_whose_values_ran_away_are_left_and_the_others_go_on(
    tiny: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Wild(search_learning.Learner):
        def _learn(self, *rest: Any) -> None:
            if self.settings.games == 3 and self.n_moves:
                raise Diverged("values have run away", {"searched": 5.0})

    monkeypatch.setattr(search_learning, "Learner", Wild)
    tiny.told["learn"]["experiment 1"]["hours"] = 0.01 / 3600
    tiny.told["learn"]["experiment 1"]["runs"] = {"wild": {"learner": {"games": 3}}, "calm": {}}
    monkeypatch.setattr(run, "learners", lambda: hours(tiny))
    tiny.main("learn")
    assert "values have run away" in capsys.readouterr().err
    rows = {row["run"]: row for row in tiny.rows("learning")}
    assert list(rows) == ["wild", "calm"] and rows["wild"]["diverged"] == {"searched": 5.0}
    assert rows["calm"]["1-ply"]["n_games"] == 100
    monkeypatch.setattr(search_learning, "main", None)  # neither has anything left to do
    tiny.main("learn")


def hours(tiny: Study) -> Any:
    """The learners, with enough time for a few moves: at first what counts as none left."""
    plan = tiny.told["learn"]["experiment 1"]
    for name, more in plan["runs"].items():
        yield "experiment 1", name, {**plan["base"], **more}, 0.002


# The report


def test_scores_of_policies_stand_in_a_grid(tiny: Study) -> None:
    played = [{**cell, "mean": 1_000.0 + i, "interval": 10.0} for i, cell in enumerate(run.cells())]
    tiny.write([row for row in played if row["group"] == "policies"])
    assert run.policies() == (
        "| select, back up by | best |\n| --- | --: |\n| ave | 1,002 ± 10 |\n| best | 1,003 ± 10 |"
    )


def test_scores_by_simulations_are_drawn_with_those_of_other_searches(
    tiny: Study, figures: dict[str, Any]
) -> None:
    tiny.played([500, 70, 0, 0, 100, 300, 200, 400, 0, 0])
    assert run.simulations("ntuple", tiny.results / "drawn.svg") == (
        "| simulations |  | mean score | µs of CPU a move |\n| --- | --: | --: | --: |\n"
        "| 1 | as in the study | 100 ± 10 | 200 |\n"
        "| 3 | as in the study | 300 ± 30 | 600 |\n"
        '| 1 | unseen = "value" | 200 ± 20 | 400 |\n'
        '| 3 | unseen = "value" | 400 ± 40 | 800 |\n'
        "| 1-ply |  | 500 ± 50 | 1,000 |"
    )
    (axes,) = figures["drawn.svg"].axes
    found = {line[0].get_xydata().tolist().__repr__() for line in axes.containers}
    assert found == {"[[1.0, 100.0], [3.0, 300.0]]", "[[1.0, 200.0], [3.0, 400.0]]"}
    (line,) = (line for line in axes.lines if line.get_linestyle() == "--")
    assert line.get_label() == "1-ply" and set(line.get_ydata()) == {500}
    assert axes.get_xscale() == "log"


def test_what_was_added_is_told_by_its_settings(tiny: Study) -> None:
    tiny.played([0] * 8 + [1_000, 2_000])
    assert run.improvements().split("\n")[2:] == [
        "| ntuple | simulations 2 | 1,000 ± 100 | 2,000 |",
        "| ntuple | simulations 2, reuse True, leaves 2 | 2,000 ± 200 | 4,000 |",
    ]


def test_what_learners_came_to_is_told_with_those_that_ran_away(
    tiny: Study, figures: dict[str, Any]
) -> None:
    calm, wild = ({"experiment": "experiment 1", "run": name} for name in ("calm", "wild"))
    greedy = {"mean": 1_500.0, "interval": 150.0}
    tiny.write(
        [
            {**calm, "n_moves": 1_000, "seconds": 60, "mean_score": 800.0, "1-ply": greedy},
            {**calm, "n_moves": 2_000, "seconds": 120, "mean_score": 900.4, "1-ply": greedy},
            {**wild, "n_moves": 50, "seconds": 3, "diverged": {"searched": 1e9}},
            {**wild, "experiment": "another", "n_moves": 7, "seconds": 3},
        ],
        "learning",
    )
    table = run.learning("experiment 1", tiny.results / "drawn.svg")
    assert table.split("\n")[2:] == [
        "| calm | 2,000 | 900 | 1,500 ± 150 |  |",
        "| wild | 50 |  |  | run away after 50 moves: {'searched': 1000000000.0} |",
    ]
    (axes,) = figures["drawn.svg"].axes
    (line,) = axes.lines
    assert line.get_label() == "calm" and line.get_xydata().tolist() == [[1, 800], [2, 900.4]]


def test_a_report_has_what_there_is(
    tiny: Study, figures: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.results.mkdir()
    tiny.main("report")
    path = tiny.results / "README.md"
    assert capsys.readouterr().out == f"written: {path}\n"
    heads = ["Monte-Carlo Softmax search (Watanabe and Matsuzaki)"]
    heads += ["Policies of selection and backup", "What was added"]
    assert re.findall("^#+ (.*)", path.read_text(encoding="utf-8"), re.MULTILINE) == heads
    tiny.played([float(n) for n in range(10)])
    row = {"experiment": "experiment 1", "run": "calm", "n_moves": 7, "seconds": 3}
    tiny.write([row], "learning")
    tiny.main("report")
    text = path.read_text(encoding="utf-8")
    heads.insert(2, "Simulations, the network of tables")
    assert re.findall("^#+ (.*)", text, re.MULTILINE) == [*heads, "Learning, experiment 1"]
    links = re.findall(r"!\[\]\((.*?)\)", text)
    assert links == ["simulations_ntuple.svg", "experiment_1.svg"]
    assert set(links) == set(figures) and all((tiny.results / link).exists() for link in links)
    assert run.policies() in text and run.improvements() in text


@pytest.mark.parametrize("words", [[], ["play", "--jobs", "0"], ["tables"]], ids=" ".join)
def test_wrong_words_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run.main(words)
    assert caught.value.code == 2
