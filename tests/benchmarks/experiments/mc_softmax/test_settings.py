"""Tests of the settings of the Monte-Carlo Softmax experiment: players, networks, learners."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("joblib")
pytest.importorskip("matplotlib")
pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

from afterstate import agents
from afterstate.agents.config import current_names, from_dict
from afterstate.agents.game2048.learning.run_settings import SearchValueRun, SearchValueSettings
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.search.softmax_settings import POLICIES, MCSoftmaxSettings
from afterstate.agents.game2048.values.ntuple_network import Network
from afterstate.agents.game2048.values.value_net import ValueNetAgent
from afterstate.envs import json_files
from afterstate.envs.json_files import Row
from benchmarks.experiments import entries
from benchmarks.experiments.mc_softmax import run
from benchmarks.experiments.mc_softmax.settings import SETTINGS, Experiment, Measure

EXPERIMENT = run.Args("report").folder.experiment


def settings_of(measure: Measure, group: str) -> list[Row]:
    """Return the settings of a group's players of this search."""
    players = EXPERIMENT.entries(measure, [group])
    return [entry["settings"] for entry in players if entry["player"] == "mc-softmax"]


@pytest.mark.parametrize("measure", ["regrets", "scores"])
def test_settings_have_all_pairs_of_policies(measure: Measure) -> None:
    names = POLICIES[:6]
    assert "falling" not in names
    settings = settings_of(measure, "policies")
    pairs = [(each["select"], each["backup"]) for each in settings]
    assert pairs == [(select, backup) for select in names for backup in names]
    assert {each["simulations"] for each in settings} == {100}


def test_both_networks_play_with_more_and_more_simulations_and_other_searches() -> None:
    settings = settings_of("scores", "simulations")
    for name in ("ntuple", "value-net"):
        group = [each for each in settings if each["network"] == name]
        numbers = [each["simulations"] for each in group if each["select"] == "L-max"]
        assert numbers == sorted(numbers) and (numbers[0], numbers[-1]) == (10, 2_000)
    lines = EXPERIMENT.entries("scores", ["lines"])
    others = {(entry["player"], entry["settings"].get("depth", 1)) for entry in lines}
    assert {("ntuple", 1), ("expectimax", 3), ("value-net", 1), ("value-net", 3)} <= others


def test_all_additions_are_measured_with_the_plain_search() -> None:
    used, measures = set(), list[Measure](["regrets", "scores"])
    for measure in measures:
        groups = [name for name in EXPERIMENT.groups(measure) if name.startswith("what was added")]
        for group, name in product(groups, ("ntuple", "value-net")):
            settings = [each for each in settings_of(measure, group) if each["network"] == name]
            plain, *additions = settings or [{}]
            assert all(each != plain and plain.keys() <= each.keys() for each in additions)
            used |= {key for each in settings for key in each}
    assert {"unvisited", "reuse", "widening", "select_temperature", "choose", "leaves"} <= used


@pytest.mark.parametrize("measure", ["regrets", "scores"])
def test_settings_belong_to_existing_players(measure: Measure) -> None:
    names = [entries.entry_id(entry) for entry in EXPERIMENT.entries(measure)]
    assert len(set(names)) == len(names) > 60
    for entry in EXPERIMENT.entries(measure):
        options = {key: value for key, value in entry["settings"].items() if key != "network"}
        if entry["player"] == "mc-softmax":
            MCSoftmaxSettings(**current_names(options))
        else:
            assert entry["player"] in agents.names()


def test_regrets_count_for_their_positions_only() -> None:
    other = replace(EXPERIMENT, positions=replace(EXPERIMENT.positions, most=100))
    for measure in list[Measure](["regrets", "scores"]):
        ours, theirs = (
            {entries.entry_id(entry) for entry in of.entries(measure)} for of in (EXPERIMENT, other)
        )
        assert not ours & theirs if measure == "regrets" else ours == theirs


@pytest.mark.slow
def test_players_have_the_network_of_their_entry() -> None:
    entry: Row = {"player": "mc-softmax", "settings": {"network": "ntuple", "simulations": 7}}
    made = run.make_player(entry)
    assert isinstance(made, MCSoftmaxAgent) and isinstance(made.network, Network)
    assert made.settings == MCSoftmaxSettings(simulations=7)
    entry["settings"]["network"] = "value-net"
    assert isinstance(run.make_player(entry).network, ValueNetAgent)
    entry = {"player": "expectimax", "settings": {"depth": 3}}
    assert type(run.make_player(entry)) is type(agents.make("expectimax"))
    entry = {"player": "mc-softmax", "settings": {}}
    assert run.make_player(entry, seed=3).settings.seed == 3


def test_repeats_of_learners_differ_in_their_seeds_only() -> None:
    first, again = list(EXPERIMENT.learner_plans()), list(EXPERIMENT.learner_plans(2))
    assert again[: len(first)] == first and {plan.seed for plan in first} == {1}
    for plan, other in zip(first, again[len(first) :], strict=True):
        assert other == plan._replace(seed=2, settings={**plan.settings, "seed": 2})


def test_learners_have_the_settings_of_the_paper() -> None:
    """Trees, simulations and paths of experiment 1; what is learned in experiment 2."""
    settings = {(plan.experiment, plan.run): plan.settings for plan in EXPERIMENT.learner_plans()}
    first = {name: each for (paper, name), each in settings.items() if paper == "experiment 1"}
    sizes = {
        name: (each["search"]["trees"], each["search"]["simulations"], each["learner"]["paths"])
        for name, each in first.items()
    }
    assert sizes == {
        "greedy": (1, 10, 1),
        "1 tree": (1, 100, 5),
        "5 trees": (5, 20, 2),
        "10 trees": (10, 10, 2),
        "10 trees, best backup": (10, 10, 2),  # ours
    }
    for name, each in first.items():
        policies = "best" if name == "greedy" else "falling"
        backup = "best" if "best" in name else policies
        assert (each["search"]["select"], each["search"]["backup"]) == (policies, backup)
        assert (each["learner"]["learn"], each["learner"]["clip"]) == ("paths", 100)
    second = {
        name: {key: value for key, value in each["learner"].items() if key != "games"}
        for (paper, name), each in settings.items()
        if paper == "experiment 2"
    }
    assert second == {
        "no learning": {"learn": "nothing"},
        "all inner nodes": {"learn": "nodes"},
        "nodes with more than 10 visits": {"learn": "nodes", "visits": 11},
        "nodes, clipped": {"learn": "nodes", "clip": 100},
        "NodeV + reward": {"learn": "root"},
        "NodeV + reward, twice": {"learn": "root", "reward_twice": True},
        "EvalV + reward": {"learn": "root", "root": "valued"},
        "no search": {"learn": "root", "root": "valued"},  # ours
    }
    for each in settings.values():
        SearchValueSettings(**each["learner"])
        from_dict(each, SearchValueRun)
        assert "start" not in each or Path(each["start"]).exists()


@pytest.mark.parametrize("command", ["regrets", "scores", "learn"])
def test_unknown_groups_are_rejected(command: str, tmp_path: Path) -> None:
    with pytest.raises((OSError, ValueError), match="polices"):
        run.main([command, "--only", "polices", "--out", str(tmp_path)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"networks": {"ntuple": "0"}}, "networks.value-net is required"),
        ({"scores": {"lines": [{"player": "ntuple"}]}}, "scores.lines.games is required"),
        ({"regrets": {"a": [{"network": "value_net"}]}}, "'ntuple, batched' or 'value-net'"),
        ({"regrets": {"a": [{"each": [{}], "vary": {"depth": [1]}}]}}, "each and vary must not"),
    ],
)
def test_wrong_settings_are_named(change: Row, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        from_dict({**json_files.read(SETTINGS), **change}, Experiment)
