"""Tests of the Monte-Carlo Softmax experiments, with a tiny network."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib")
pytest.importorskip("matplotlib")
pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

import torch
from torch import Tensor, nn

from afterstate import agents
from afterstate.agents.config import from_dict
from afterstate.agents.game2048 import players
from afterstate.agents.game2048.learning import from_search, play_logs
from afterstate.agents.game2048.learning.run_settings import SearchOptions, SearchValueRun
from afterstate.agents.game2048.play import Games, play
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent, learned_temperature
from afterstate.agents.game2048.search.softmax_settings import MCSoftmaxSettings
from afterstate.agents.game2048.values import ntuple_file, value_net
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.agents.game2048.values.value_net import ValueNetAgent
from afterstate.agents.training import learners
from afterstate.agents.training.evaluation import EVALUATION_SEED, summary
from afterstate.agents.training.run import Diverged
from afterstate.envs import json_files
from afterstate.envs.json_files import Row
from benchmarks.experiments import entries
from benchmarks.experiments.harness import ExperimentFolder
from benchmarks.experiments.mc_softmax import report, run
from benchmarks.experiments.mc_softmax.settings import (
    NETWORK_FILES,
    PRETRAINED,
    SETTINGS,
    Experiment,
    Measure,
)

pytestmark = pytest.mark.slow

TUPLES = [[0, 1, 4, 5], [0, 1, 2, 3]]


class Tiny:
    """An experiment with players of a small network, in a folder."""

    def __init__(self, folder: Path, settings: Row) -> None:
        self.runs, self.results, self.settings = folder / "runs", folder / "results", settings

    def main(self, *arguments: str) -> None:
        """Run the command."""
        path = self.runs.parent / "settings.json"
        path.write_text(json.dumps(self.settings), encoding="utf-8")
        runs = [] if arguments[0] in ("scores", "report") else ["--runs", str(self.runs)]
        run.main([*arguments, *runs, "--settings", str(path), "--out", str(self.results)])

    @property
    def experiment(self) -> Experiment:
        """Return the settings as they are read."""
        return from_dict(self.settings, Experiment)

    @property
    def folder(self) -> ExperimentFolder[Experiment]:
        """Return the settings and the folder of the results."""
        return ExperimentFolder(self.experiment, self.results)

    def rows(self, name: str = "games") -> list[Row]:
        """Return the rows of a file of results."""
        return json_files.rows(self.results / f"{name}.jsonl")

    def write(self, rows: Sequence[Row], name: str = "games") -> None:
        """Write a file of results."""
        self.results.mkdir(exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.results / f"{name}.jsonl").write_text(text, encoding="utf-8")

    def scores(self, means: Sequence[float]) -> None:
        """Write a row for each player that plays games, with these mean scores."""
        rows = [
            {
                **entry,
                "mean": mean,
                "interval": mean / 10,
                "cpu_us_per_move": 2 * mean,
                "n_games": 1000,
            }
            for entry, mean in zip(self.experiment.entries("scores"), means, strict=True)
        ]
        self.write(rows)

    def regrets(self, regrets: Sequence[float]) -> None:
        """Write a row for each player that is measured by positions, with these regrets."""
        rows = [
            {**entry, "regret": regret, "interval": regret / 10, "cpu_us_per_move": 2 * regret}
            | {"best_moves": regret / 100}
            for entry, regret in zip(self.experiment.entries("regrets"), regrets, strict=True)
        ]
        self.write(rows, "regrets")


def tiny_learner() -> Row:
    """Return the settings of tiny learners."""
    return {"search": {"simulations": 2}, "learner": {"games": 2}}


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tiny:
    """Return an experiment with few players, games and positions, and an untrained network."""
    small = network(TUPLES)

    def player(entry: Row, **more: Any) -> Any:
        options = {**entry["settings"], **more}
        options.pop("network", None)
        if entry["player"] == "mc-softmax":
            return MCSoftmaxAgent(small, from_dict(options, MCSoftmaxSettings))
        return NTupleAgent(small)

    settings = json_files.read(SETTINGS)
    settings["networks"] = {
        name: sha256((PRETRAINED / file).read_bytes()).hexdigest()[:16]
        for name, file in NETWORK_FILES.items()
    }
    search = {"network": "ntuple", "games": 2}
    policies = {"select": ["ave", "best"], "backup": ["best"]}
    settings["positions"] |= {"player": "random", "games": 20, "share": 0.1, "n": 40, "seeds": 2}
    settings["positions"] |= {"reference": {"depth": 1}, "most": 50}
    settings["temperature"]["positions"] |= {"player": "random", "games": 5, "share": 0.1, "n": 20}
    settings["temperature"]["searches"]["simulations"] = 20
    settings["regrets"] = {
        "other searches": [{"player": "ntuple"}],
        "policies": [{"network": "ntuple", "settings": {"simulations": 2}, "vary": policies}],
    }
    settings["scores"] = {
        "lines": [{"player": "ntuple", "games": 3}, {"player": "value-net", "games": 2}],
        "policies": [{**search, "settings": {"simulations": 2}, "vary": policies}],
        "simulations": [
            {
                **search,
                "settings": {"select": "L-max"},
                "vary": {"unvisited": ["outcomes", "value"], "simulations": [1, 100]},
            }
        ],
        "what was added": [
            {**search, "settings": {"simulations": 2}, "each": [{}, {"reuse": True, "leaves": 2}]}
        ],
    }
    settings["learners"] = {
        "experiment 1": {
            "about": "Published: something.",
            "base": {"network": {"tuples": TUPLES}, **tiny_learner()},
            "every": 1e4,
            "runs": {"calm": {"moves": 50}, "wild": {"moves": 90, "learner": {"learn": "nodes"}}},
        }
    }
    settings["searched"] = 2
    monkeypatch.setattr(run, "make_player", player)
    return Tiny(tmp_path, settings)


def test_regrets_are_the_values_that_moves_lose(tiny: Tiny) -> None:
    """Regrets are at most 50 points, and are means over two seeds for searches with chance."""
    tiny.main("regrets")
    rows = tiny.rows("regrets")
    boards, values = run.positions(tiny.experiment, tiny.runs)
    assert len(boards) == 40 and values.shape == (40, 4)
    reference: Any = agents.make("expectimax", depth=1)
    assert np.array_equal(values, reference.evaluate(boards))
    for row, entry in zip(rows, tiny.experiment.entries("regrets"), strict=True):
        seeds = [{"seed": 0}, {"seed": 1}] if entry["player"] == "mc-softmax" else [{}]
        losses = []
        for seed in seeds:
            actions = run.make_player(entry, **seed).act(boards)
            losses.append([max(v) - v[a] for v, a in zip(values.tolist(), actions, strict=True)])
        means = np.minimum(losses, 50).mean(0)
        assert row["regret"] == pytest.approx(means.mean(), abs=0.006)
        assert row["interval"] == pytest.approx(1.96 * means.std(ddof=1) / 40**0.5, abs=0.006)
        assert row["best_moves"] == pytest.approx((np.array(losses) == 0).mean(), abs=1e-4)
        assert (row["positions"], row["seeds"]) == (40, len(seeds))
        assert row["cpu_us_per_move"] > 0 and row["machine"]["numba"]
    assert all(0 < row["regret"] < 50 for row in rows)
    assert rows[0]["regret"] != rows[1]["regret"]


def test_positions_are_computed_once(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run.search_positions(tiny.experiment, tiny.runs)
    boards, values = run.positions(tiny.experiment, tiny.runs)
    monkeypatch.setattr(play_logs, "write", None)
    monkeypatch.setattr(agents, "make", None)
    assert run.search_positions(tiny.experiment, tiny.runs)
    again, others = run.positions(tiny.experiment, tiny.runs)
    assert np.array_equal(boards, again) and np.array_equal(values, others)


def test_only_missing_values_are_computed(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run.search_positions(tiny.experiment, tiny.runs)
    boards, values = run.positions(tiny.experiment, tiny.runs)
    lost, searched = run.value_files(tiny.runs)[7::40], list[int]()

    def counted(settings_json: str) -> Any:
        searched.append(1)
        if len(searched) == 2:
            raise KeyboardInterrupt
        return reference(settings_json)

    reference = run.reference
    monkeypatch.setattr(run, "reference", counted)
    for file in lost:
        file.unlink()
    with pytest.raises(KeyboardInterrupt):
        run.search_positions(tiny.experiment, tiny.runs)
    assert [file.exists() for file in lost] == [True, False, False]
    assert run.search_positions(tiny.experiment, tiny.runs)
    assert np.array_equal(run.positions(tiny.experiment, tiny.runs)[1], values)
    assert len(searched) == 4 and len(boards) == 40


def test_no_player_is_measured_while_positions_are_left(
    tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hours that are over before the first part of the positions leave all of them."""
    tiny.main("regrets", "--hours", "1e-300")
    assert "100 of 100 parts are left" in capsys.readouterr().out
    assert not tiny.rows("regrets") and not any(f.exists() for f in run.value_files(tiny.runs))


def test_files_with_other_settings_are_rejected(tiny: Tiny) -> None:
    run.search_positions(tiny.experiment, tiny.runs)
    tiny.settings["positions"]["seed"] += 1
    with pytest.raises((OSError, ValueError), match="other settings"):
        tiny.main("regrets")


def test_a_temperature_is_learned_from_other_positions(
    tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.main("temperature")
    path = tiny.results / "temperature.json"
    row = json.loads(path.read_text(encoding="utf-8"))
    assert capsys.readouterr().out == f"temperature {row['temperature']}\n"
    boards = play_logs.read(tiny.runs / "temperature.npy")["board"][:20]
    others = run.boards_of_positions(tiny.experiment, tiny.runs)
    assert len(boards) == row["boards"] == 20 and not np.isin(boards, others).all()
    searches = MCSoftmaxAgent(
        ntuple_file.load(players.PRETRAINED), from_dict(row["searches"], MCSoftmaxSettings)
    )
    expected = learned_temperature(searches, np.array(boards, np.uint64))
    assert row["temperature"] == pytest.approx(expected, abs=5e-5)


def test_rows_identify_the_network(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "has_bfloat16", lambda: False)
    tiny.main("regrets")
    tiny.main("scores", "--only", "lines")
    tables, neural = tiny.rows()
    networks = tiny.settings["networks"]
    assert tables["network_sha256"] == networks["ntuple"] and "bits" not in tables
    assert neural["network_sha256"] == networks["value-net"] and neural["bits"] == 32
    assert {row["network_sha256"] for row in tiny.rows("regrets")} == {networks["ntuple"]}


def test_rows_of_another_network_do_not_count(tiny: Tiny) -> None:
    tiny.main("scores", "--only", "lines")
    assert len(report.rows(tiny.folder, "scores", "lines")) == 2
    tiny.settings["networks"]["ntuple"] = "another"
    assert [row["player"] for row in report.rows(tiny.folder, "scores", "lines")] == ["value-net"]
    message = (
        r"ntuple\.npz must have the hash another of this experiment, got [0-9a-f]{16}: to repeat"
    )
    for words in (["scores", "--only", "lines"], ["temperature"]):
        with pytest.raises((OSError, ValueError), match=message):
            tiny.main(*words)
    assert len(tiny.rows()) == 2
    assert not (tiny.results / "temperature.json").exists()


def test_rows_have_the_summary_of_the_players_games(tiny: Tiny) -> None:
    tiny.main("scores", "--only", "what was added", "lines")
    rows = tiny.rows()
    assert [row["group"] for row in rows] == [*["lines"] * 2, *["what was added"] * 2]
    for row, entry in zip(
        rows, tiny.experiment.entries("scores", ["what was added", "lines"]), strict=True
    ):
        games = play(run.make_player(entry), entry["games"], EVALUATION_SEED)
        expected = {**entry, **summary(games), "moves": int(games.n_moves.sum())}
        assert {key: row[key] for key in expected} == expected
        assert row["cpu_us_per_move"] > 0 and row["machine"]["numba"]
    assert len({row["mean"] for row in rows}) > 1


def test_only_players_without_a_row_play(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played: list[str] = []

    def fake(player: Any, n: int, seed: int) -> Games:
        played.append(player)
        return Games(*np.full((3, n), 64, np.int64))

    monkeypatch.setattr(entries, "play", fake)
    tiny.main("scores", "--only", "policies")
    assert len(played) == len(tiny.rows()) == 2
    tiny.main("scores")
    assert len(played) == len(tiny.rows()) == len(list(tiny.experiment.entries("scores"))) == 10
    tiny.settings["scores"]["lines"][0]["games"] = 4  # another sample, so it is played again
    tiny.main("scores", "--jobs", "1")
    assert len(played) == 11 and tiny.rows()[-1]["n_games"] == 4
    assert "ntuple {}: 64 ± 0" in capsys.readouterr().out


def test_the_latest_row_of_a_player_counts(tiny: Tiny) -> None:
    first, second = tiny.experiment.entries("scores", ["lines"])
    tiny.write([{**second, "mean": 1}, {**first, "mean": 2}, {**second, "mean": 3}])
    assert [row["mean"] for row in report.rows(tiny.folder, "scores", "lines")] == [2, 3]
    tiny.settings["scores"]["lines"].pop(0)
    assert [row["mean"] for row in report.rows(tiny.folder, "scores", "lines")] == [3]


def test_learners_resume_until_they_have_made_their_moves(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[SearchValueRun, SearchOptions]] = []

    def fake(settings: SearchValueRun, options: SearchOptions) -> None:
        calls.append((settings, options))
        (options.out / "learner.npz").touch()
        n_moves = 40 if len(calls) < 3 else options.moves
        json_files.append(options.out / "rows.jsonl", [{"n_moves": n_moves, "seconds": 5}])

    monkeypatch.setattr(learners, "run", fake)
    monkeypatch.setattr(run, "play_by_search", lambda place, plan, n_games: None)
    tiny.main("learn")
    tiny.main("learn", "--only", "experiment 1")
    tiny.main("learn")
    assert [options.moves for _, options in calls] == [50, 90, 50, 90]
    assert [options.resume for _, options in calls] == [False, False, True, True]
    assert {options.evaluate_every for _, options in calls} == {10_000}
    settings, options = calls[1]
    assert options.out == tiny.runs / "experiment_1,_wild,_seed_1"
    base = tiny.settings["learners"]["experiment 1"]["base"]
    wild = {**base, "learner": {"games": 2, "learn": "nodes"}, "seed": 1}
    assert settings == from_dict(wild, SearchValueRun)
    assert [(row["run"], row["n_moves"]) for row in tiny.rows("learning")] == [
        *(("calm", 40), ("calm", 50), ("wild", 40), ("wild", 90))
    ]


def test_learners_are_identified_by_their_settings_in_any_folder(tiny: Tiny) -> None:
    plan = tiny.experiment.learner_plan("experiment 1", "calm", 1)
    here, there = (
        plan._replace(settings={**plan.settings, "start": f"{folder}/ntuple.npz"})
        for folder in ("/here", "/there")
    )
    assert here.digest == there.digest != plan.digest
    assert plan.digest != plan._replace(settings={**plan.settings, "seed": 2}).digest


def test_each_seed_of_a_learner_is_a_run(tiny: Tiny) -> None:
    tiny.settings["learners"]["experiment 1"]["runs"] = {"calm": {"moves": 50}}
    tiny.main("learn")
    first = tiny.rows("learning")
    tiny.main("learn", "--repeats", "3")
    rows = tiny.rows("learning")
    assert rows[: len(first)] == first
    by_seed = {seed: [row for row in rows if row["seed"] == seed] for seed in (1, 2, 3)}
    played = {seed: group[-1]["search_play"]["mean"] for seed, group in by_seed.items()}
    assert len(rows) == 3 * len(first) and len(set(played.values())) > 1
    tiny.main("report")
    text = (tiny.results / "README.md").read_text(encoding="utf-8")
    mean, half = np.mean([*played.values()]), 4.3027 * np.std([*played.values()], ddof=1) / 3**0.5
    assert "| calm | 3 |" in text and f"| {mean:,.0f} ± {half:,.0f} |" in text


def test_no_learner_begins_after_the_hours(tiny: Tiny) -> None:
    tiny.main("learn", "--hours", "1e-300")
    assert not tiny.runs.exists() and not tiny.rows("learning")


def test_learners_do_not_resume_with_other_settings(tiny: Tiny) -> None:
    plan = tiny.settings["learners"]["experiment 1"]
    plan["runs"] = {"calm": {"moves": 20}}
    tiny.main("learn")
    plan["base"]["learner"]["games"] = 3
    plan["runs"]["calm"]["moves"] = 40
    with pytest.raises((OSError, ValueError), match="other settings"):
        tiny.main("learn")


def test_the_report_of_own_settings_may_lack_groups(tiny: Tiny) -> None:
    tiny.settings |= {"regrets": {}, "scores": {}}
    tiny.main("report")
    text = (tiny.results / "README.md").read_text(encoding="utf-8")
    assert "## Policies" not in text and "## Simulations" not in text


class TinyNet(nn.Module):
    """A value network that costs nearly nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: Row = {}
        self.body = nn.Linear(256, 1)

    def forward(self, planes: Tensor) -> Tensor:
        """Return the values `[n]` of planes `[n, 16, 4, 4]`."""
        values: Tensor = self.body(planes.flatten(1))
        return values[:, 0]


@pytest.mark.usefixtures("one_thread")
def test_a_learned_neural_network_plays_by_its_search(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(value_net.NETWORKS, "TinyNet", TinyNet)
    plan = tiny.settings["learners"]["experiment 1"]
    plan["base"]["network"], plan["runs"] = {"name": "TinyNet"}, {"net": {"moves": 4}}
    tiny.main("learn", "--threads", "2")
    assert torch.get_num_threads() == 2
    *_, last, searched = tiny.rows("learning")
    learned = value_net.load(tiny.runs / "experiment_1,_net,_seed_1" / "net.safetensors")
    player = MCSoftmaxAgent(
        ValueNetAgent(learned, value_scale=1_000), MCSoftmaxSettings(simulations=2)
    )
    assert searched["search_play"] == summary(play(player, 2, EVALUATION_SEED))
    assert searched["n_moves"] == last["n_moves"] >= 4


def test_a_learner_that_diverged_does_not_stop_the_others(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Wild(from_search.SearchValueLearner):
        def _learn(self, *rest: Any) -> None:
            if self.settings.learn == "nodes" and self.n_moves:
                raise Diverged("values diverged", {"searched": 5.0})

    monkeypatch.setattr(from_search, "SearchValueLearner", Wild)
    plan = tiny.settings["learners"]["experiment 1"]
    plan["runs"] = {"wild": plan["runs"]["wild"], "calm": {"moves": 2_000}}
    tiny.main("learn")
    assert "values diverged" in capsys.readouterr().err
    rows = tiny.rows("learning")
    wild = next(row for row in rows if row["run"] == "wild")
    assert wild["diverged"] == {"searched": 5.0}
    *_, calm, searched = (row for row in rows if row["run"] == "calm")
    assert calm["1-ply"]["n_games"] == 100
    learned = agents.load(tiny.runs / "experiment_1,_calm,_seed_1" / "learner.npz").network
    games = play(MCSoftmaxAgent(learned, MCSoftmaxSettings(simulations=2)), 2, EVALUATION_SEED)
    assert searched["search_play"] == summary(games) and searched["n_moves"] == calm["n_moves"]
    tiny.main("report")  # of the rows as learners write them
    text = (tiny.results / "README.md").read_text(encoding="utf-8")
    assert (
        f"| calm | 1 | {calm['n_moves']:,} |" in text and "boards were worth 5 on average" in text
    )
    assert (tiny.results / "experiment_1_values.svg").exists()
    monkeypatch.setattr(learners, "run", None)  # neither has anything left to do
    monkeypatch.setattr(run, "play", None)
    tiny.main("learn")


def test_policies_are_a_table_of_selection_and_backup(tiny: Tiny) -> None:
    tiny.scores([0, 0, 1_000, 2_000, *[0] * 6])
    tiny.regrets([0, 30, 40])
    head = "| select, back up by | best |\n| --- | --: |\n"
    assert (
        report.policies(tiny.folder, "scores")
        == head + "| ave | 1,000 ± 100 |\n| best | 2,000 ± 200 |"
    )
    assert (
        report.policies(tiny.folder, "regrets")
        == head + "| ave | 30.0 ± 3.0 |\n| best | 40.0 ± 4.0 |"
    )


def test_scores_by_simulations_are_drawn_with_those_of_other_searches(
    tiny: Tiny, figures: dict[str, Any]
) -> None:
    tiny.scores([500, 70, 0, 0, 100, 300, 200, 400, 0, 0])
    assert report.simulations(tiny.folder, "ntuple") == (
        "|  |  | mean score | games | µs of CPU a move | published, CNN22 |\n"
        "| --- | --: | --: | --: | --: | --: |\n"
        "| 1 simulations | the paper's settings: L-max, best | 100 ± 10 | 1000 | 200 |  |\n"
        "| 100 simulations | the paper's settings: L-max, best | 300 ± 30 | 1000 | 600 "
        "| 314,311 |\n"
        "| 1 simulations | L-max, unvisited: value | 200 ± 20 | 1000 | 400 |  |\n"
        "| 100 simulations | L-max, unvisited: value | 400 ± 40 | 1000 | 800 |  |\n"
        "| 1-ply |  | 500 ± 50 | 1000 | 1,000 | 206,802 |"
    )
    (axes,) = figures["simulations_ntuple.svg"].axes
    curves = {str(line[0].get_xydata().tolist()) for line in axes.containers}
    assert curves == {"[[1.0, 100.0], [100.0, 300.0]]", "[[1.0, 200.0], [100.0, 400.0]]"}
    (line,) = (line for line in axes.lines if line.get_linestyle() == "--")
    assert line.get_label() == "1-ply" and set(line.get_ydata()) == {500}
    assert axes.get_xscale() == "log"


def test_published_scores_are_by_simulations_and_plies(tiny: Tiny) -> None:
    plan = tiny.settings["scores"]["simulations"][0]
    plan["vary"] = {"unvisited": ["outcomes"], "simulations": [50, 100, 2_000]}
    tiny.settings["scores"]["lines"] = [
        {"player": "expectimax", "settings": {"depth": 3}, "games": 1}
    ]
    tiny.scores([1] * 8)
    table = [
        row.removeprefix("| ").removesuffix(" |").split(" | ")
        for row in report.simulations(tiny.folder, "ntuple").split("\n")[2:]
    ]
    assert [(row[0], row[-1]) for row in table] == [
        ("50 simulations", ""),
        ("100 simulations", "314,311"),
        ("2,000 simulations", "533,542"),
        ("3-ply", "394,632"),
    ]


def test_scores_of_other_networks_are_listed_by_their_hash(tiny: Tiny) -> None:
    tiny.scores([0, 0, 0, 0, 100, 300, 200, 400, 0, 0])
    assert not report.of_other_networks(tiny.folder)
    path = tiny.folder.path / report.FILES["scores"]
    rows = json_files.rows(path)
    json_files.append(path, [{**rows[4], "network_sha256": "0123456789abcdef"}])
    assert report.of_other_networks(tiny.folder).split("\n")[2:] == [
        "| 0123456789abcdef | 1 | the paper's settings: L-max, best | 100 ± 10 | 1000 | 200 |  |"
    ]
    named = replace(tiny.folder.experiment, other_networks={"0123456789abcdef": "another"})
    assert "| another | 1 |" in report.of_other_networks(replace(tiny.folder, experiment=named))


def test_other_players_are_listed_by_their_settings(tiny: Tiny) -> None:
    tiny.scores([0] * 8 + [1_000, 2_000])
    assert report.by_settings(tiny.folder, "scores", "what was added").split("\n")[2:] == [
        "| mc-softmax | simulations 2 | the N-tuple network | 1,000 ± 100 | 2,000 |",
        "| mc-softmax | simulations 2, reuse True, leaves 2 | the N-tuple network "
        "| 2,000 ± 200 | 4,000 |",
    ]
    tiny.regrets([10, 0, 0])
    assert report.by_settings(tiny.folder, "regrets", "other searches").split("\n") == [
        "| player | settings | network | regret | best moves, % |",
        "| --- | --: | --: | --: | --: |",
        "| ntuple |  | the N-tuple network | 10.0 ± 1.0 | 10.0 |",
    ]


def test_results_of_learners_include_those_that_diverged(
    tiny: Tiny, figures: dict[str, Any]
) -> None:
    calm, wild = (
        run.key_of(tiny.experiment.learner_plan("experiment 1", name, 1))
        for name in ("calm", "wild")
    )
    first, second = (
        {"mean": mean, "interval": mean / 10, "n_games": 1000} for mean in (1_500.0, 2_500.0)
    )
    games = zip((19, 20, 1_000), (900, 800, 700), strict=True)
    few, many, more = ({"n_games": n, "mean_score": mean} for n, mean in games)
    tiny.write(
        [
            {**calm, "n_moves": 500, "searched": 9.4, "1-ply": first, **few},
            {**calm, "n_moves": 1_000, "searched": 9.5, "1-ply": first, **many},
            {**calm, "n_moves": 2_000, "searched": 9.6, "1-ply": second, **more},
            {**calm, "n_moves": 2_000, "search_play": first},
            {**wild, "n_moves": 50, "seconds": 3, "diverged": {"searched": 1e9}},
            {**wild, "experiment": "another", "n_moves": 7, "seconds": 3},
            {**calm, "settings": "0" * 12, "n_moves": 9_000, "1-ply": second, **more},
            {**calm, "run": "gone", "n_moves": 9_000, "1-ply": second, **more},
        ],
        "learning",
    )
    text = report.learning(tiny.folder, "experiment 1").split("\n\n")[1]
    table = [row.strip("| ").split(" | ") for row in text.split("\n")]
    assert table[2] == ["calm", "1", "2,000", "800", "700", "1,500 ± 150", "2,500 ± 250"]
    gone = "diverged: boards were worth 1,000,000,000 on average"
    assert [cell for cell in table[3] if cell.strip()] == ["wild", "1", "50", gone]
    (axes,) = figures["experiment_1.svg"].axes
    drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert drawn == {"calm": [[1_000, 800], [2_000, 700]], "wild": []}
    assert report.growth(tiny.folder, "experiment 1") == "experiment_1_values.svg"
    (axes,) = figures["experiment_1_values.svg"].axes
    drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert drawn == {"calm": [[500, 9.4], [1_000, 9.5], [2_000, 9.6]], "wild": [[50, 1e9]]}


def test_scores_are_of_the_games_of_the_last_moves() -> None:
    """Of 30 games with 100 points each, then 20 with 250, then 25 with 400."""
    games = zip((30, 50, 75), (100.0, 160.0, 240.0), strict=True)
    evaluations = [
        {"n_moves": 1_000 * (i + 1), "n_games": n, "mean_score": mean}
        for i, (n, mean) in enumerate(games)
    ]
    assert report.scores(evaluations, None) == [(1_000, 100.0), (2_000, 160.0), (3_000, 240.0)]
    assert report.scores(evaluations, 1_000) == [(1_000, 100.0), (2_000, 250.0), (3_000, 400.0)]
    assert report.scores(evaluations, 5_000) == report.scores(evaluations, None)
    assert report.scores([{"n_moves": 5, "n_games": 0, "mean_score": None}], 10) == []


def test_scores_after_a_thousand_games_are_of_the_last_thousand() -> None:
    """Of 1,000 games with 100 points each, then 500 with 300."""
    rows = [
        {"n_moves": 1_000, "n_games": 1_000, "mean_score": 100.0},
        {"n_moves": 2_000, "n_games": 1_500, "mean_score": 200.0},
    ]
    assert report.scores(rows, 1_000) == [(1_000, 100.0), (2_000, 200.0)]
    assert report._lately(1_000, rows[:1]) == "last 1,000 moves"
    assert report._lately(1_000, rows) == "last 1,000 moves, or 1,000 games from then on"


def test_intervals_of_few_games_are_not_shown(tiny: Tiny, figures: dict[str, Any]) -> None:
    tiny.scores([float(n) for n in range(10)])
    rows = tiny.rows()
    rows[4]["n_games"] = 3
    tiny.write(rows)
    table = report.simulations(tiny.folder, "ntuple")
    assert "| 4 | 3 |" in table and "| 5 ± 1 | 1000 |" in table
    (axes,) = figures["simulations_ntuple.svg"].axes
    ends = [path for line in axes.containers for path in line[2][0].get_segments()]
    assert [np.ptp(end[:, 1]) > 0 for end in ends if len(end)] == [True, True, True]


def test_every_player_has_a_row() -> None:
    experiment = run.Args("report").folder.experiment
    measures: tuple[Measure, ...] = ("regrets", "scores")
    for measure in measures:
        rows = json_files.rows(run.RESULTS / report.FILES[measure])
        expected = {entries.entry_id(entry) for entry in experiment.entries(measure)}
        assert expected <= {entries.entry_id(row) for row in rows}
    learned = json_files.rows(run.RESULTS / report.FILES["learners"])
    plans = {(plan.experiment, plan.run) for plan in experiment.learner_plans()}
    assert {(row["experiment"], row["run"]) for row in learned} == plans


def test_a_report_has_the_sections_with_rows(
    tiny: Tiny, figures: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.results.mkdir()
    tiny.main("report")
    path = tiny.results / "README.md"
    assert capsys.readouterr().out.endswith(f"has (no file)\nwritten: {path}\n")
    title = "Monte-Carlo Softmax search (Watanabe and Matsuzaki)"
    heads = [title]
    titles = re.findall("^#+ (.*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert titles == [*heads, "Readings"]
    tiny.scores([float(n) for n in range(10)])
    tiny.regrets([1.0, 2.0, 3.0])
    of_run = run.key_of(tiny.experiment.learner_plan("experiment 1", "calm", 1))
    tiny.write([{**of_run, "n_moves": 7, "seconds": 3}], "learning")
    tiny.main("report")
    text = path.read_text(encoding="utf-8")
    assert re.findall("^#+ (.*)", text, re.MULTILINE) == [
        *heads,
        "Policies of selection and backup: regrets",
        "Policies of selection and backup: mean scores",
        "Simulations, the N-tuple network",
        "Other searches: regrets",
        "What was added: scores",
        "Learning, experiment 1",
        "Readings",
    ]
    links = re.findall(r"!\[\]\((.*?)\)", text)
    assert links == ["simulations_ntuple.svg", "experiment_1.svg", "experiment_1_values.svg"]
    assert set(links) == set(figures) and all((tiny.results / link).exists() for link in links)
    for part in (
        report.policies(tiny.folder, "scores"),
        report.policies(tiny.folder, "regrets"),
        "Published: something.",
    ):
        assert part in text


@pytest.mark.parametrize("words", [[], ["scores", "--jobs", "0"], ["tables"]], ids=" ".join)
def test_wrong_arguments_are_rejected(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run.main(words)
    assert caught.value.code == 2
