"""Tests of the settings of the Monte-Carlo Softmax experiment: players, networks, learners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("joblib")
pytest.importorskip("matplotlib")
pytest.importorskip("safetensors")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

from afterstate import agents
from afterstate.agents.config import current_names, from_dict
from afterstate.agents.game2048.learning import from_search
from afterstate.agents.game2048.search.mc_softmax import POLICIES, MCSoftmaxAgent
from afterstate.agents.game2048.search.mc_softmax import Settings as Search
from afterstate.agents.game2048.values import ntuple
from afterstate.agents.game2048.values.value_net import ValueNetAgent
from benchmarks.experiments import cells
from benchmarks.experiments.mc_softmax import run
from benchmarks.experiments.mc_softmax import study as studied

Row = dict[str, Any]


def settings_of(what: str, group: str) -> list[Row]:
    """The settings of a group's players of this search."""
    found = studied.cells(what, [group])
    return [cell["settings"] for cell in found if cell["player"] == "mc-softmax"]


@pytest.mark.parametrize("what", ["judged", "plays"])
def test_settings_have_all_pairs_of_policies(what: str) -> None:
    names = POLICIES[:6]
    assert "falling" not in names
    pairs = [(how["select"], how["backup"]) for how in settings_of(what, "policies")]
    assert pairs == [(select, backup) for select in names for backup in names]
    assert {how["simulations"] for how in settings_of(what, "policies")} == {100}


def test_both_networks_play_with_more_and_more_simulations_beside_other_searches() -> None:
    found = settings_of("plays", "simulations")
    for name in ("ntuple", "value-net"):
        of = [how for how in found if how["network"] == name and how["select"] == "L-max"]
        numbers = [how["simulations"] for how in of]
        assert numbers == sorted(numbers) and (numbers[0], numbers[-1]) == (10, 2_000)
    lines = studied.cells("plays", ["lines"])
    others = {(cell["player"], cell["settings"].get("depth", 1)) for cell in lines}
    assert {("ntuple", 1), ("expectimax", 3), ("value-net", 1), ("value-net", 3)} <= others


def test_all_that_was_added_is_measured_beside_the_search_as_it_was() -> None:
    used = set()
    for what in ("judged", "plays"):
        for group in (each for each in studied.study()[what] if each.startswith("what was added")):
            for name in ("ntuple", "value-net"):
                of = [how for how in settings_of(what, group) if how["network"] == name]
                assert all(how != of[0] and of[0].keys() <= how.keys() for how in of[1:])
                used |= {setting for how in of for setting in how}
    assert {"unseen", "reuse", "widening", "select_temperature", "choose", "leaves"} <= used


@pytest.mark.parametrize("what", ["judged", "plays"])
def test_settings_belong_to_existing_players(what: str) -> None:
    names = [cells.name(cell) for cell in studied.cells(what)]
    assert len(set(names)) == len(names) > 60
    for cell in studied.cells(what):
        told = {key: value for key, value in cell["settings"].items() if key != "network"}
        if cell["player"] == "mc-softmax":
            Search(**current_names(told))
        else:
            assert cell["player"] in agents.names()


@pytest.mark.slow
def test_players_have_the_network_that_their_cell_says() -> None:
    cell: Row = {"player": "mc-softmax", "settings": {"network": "ntuple", "simulations": 7}}
    made = run.player(cell)
    assert isinstance(made, MCSoftmaxAgent) and isinstance(made.network, ntuple.Network)
    assert made.settings == Search(simulations=7)
    cell["settings"]["network"] = "value-net"
    assert isinstance(run.player(cell).network, ValueNetAgent)
    cell = {"player": "expectimax", "settings": {"depth": 3}}
    assert type(run.player(cell)) is type(agents.make("expectimax"))
    cell = {"player": "mc-softmax", "settings": {}}
    assert run.player(cell, seed=3).settings.seed == 3


def test_learners_have_the_settings_of_the_paper() -> None:
    """Trees, simulations and paths of experiment 1; what is learned in experiment 2."""
    found = {(plan.experiment, plan.run): plan.settings for plan in studied.learners()}
    first = {name: how for (of, name), how in found.items() if of == "experiment 1"}
    told = {
        name: (how["search"]["trees"], how["search"]["simulations"], how["learner"]["paths"])
        for name, how in first.items()
    }
    assert told == {
        "greedy": (1, 10, 1),
        "1 tree": (1, 100, 5),
        "5 trees": (5, 20, 2),
        "10 trees": (10, 10, 2),
        "10 trees, best backup": (10, 10, 2),  # ours
    }
    for name, how in first.items():
        policies = "best" if name == "greedy" else "falling"
        backup = "best" if "best" in name else policies
        assert (how["search"]["select"], how["search"]["backup"]) == (policies, backup)
        assert (how["learner"]["learn"], how["learner"]["clip"]) == ("paths", 100)
    second = {name: how["learner"] for (of, name), how in found.items() if of == "experiment 2"}
    assert {
        name: {k: v for k, v in how.items() if k != "games"} for name, how in second.items()
    } == {
        "no learning": {"learn": "nothing"},
        "all inner nodes": {"learn": "nodes"},
        "nodes with more than 10 visits": {"learn": "nodes", "visits": 11},
        "nodes, clipped": {"learn": "nodes", "clip": 100},
        "NodeV + reward": {"learn": "root"},
        "NodeV + reward, twice": {"learn": "root", "reward_twice": True},
        "EvalV + reward": {"learn": "root", "root": "valued"},
        "no search": {"learn": "root", "root": "valued"},  # ours
    }
    for how in found.values():
        from_search.Settings(**how["learner"])
        from_dict(how, from_search.Run)
        assert "start" not in how or Path(how["start"]).exists()


@pytest.mark.parametrize("command", ["judge", "play", "learn"])
def test_unknown_groups_are_refused(command: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="polices"):
        run.main([command, "--only", "polices", "--runs", str(tmp_path)])
