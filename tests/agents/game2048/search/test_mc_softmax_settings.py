"""The player of Monte-Carlo Softmax search: its settings, value networks, and `agents.make`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.agents.config import current_names
from afterstate.agents.game2048 import players
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.search.softmax_settings import MCSoftmaxSettings
from afterstate.agents.game2048.values.ntuple_file import save
from tests.oracles import game2048 as oracle
from tests.oracles import softmax as softmax_oracle
from tests.support.game2048.softmax_checks import (
    EARLY,
    OVER,
    as_estimator,
    as_words,
    players_of,
    random_boards,
    random_network,
    solved,
    trees_of,
)

# Settings


def test_numpy_numbers_are_accepted_as_settings() -> None:
    made = MCSoftmaxSettings(np.int32(5), select_temperature=np.float32(0.5), reuse=True)  # type: ignore[arg-type]
    assert made == MCSoftmaxSettings(5, select_temperature=0.5, reuse=True)
    assert [type(each) for each in (made.simulations, made.select_temperature)] == [int, float]
    with pytest.raises(ValueError, match="simulations"):
        MCSoftmaxSettings(simulations=np.float64(1.5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        *(
            (name, value)
            for name in ("simulations", "trees", "leaves", "depth")
            for value in (0, -1, 1.5, "10", True, 2**63)
        ),
        *((name, None) for name in ("simulations", "leaves", "widening", "seed", "reuse")),
        *(
            (f"{name}_temperature", value)
            for name in ("select", "backup")
            for value in (0, -1.0, float("nan"), float("inf"), "1")
        ),
        *((name, v) for name in ("select", "backup") for v in ("l-max", "", None, ["ave"], 1)),
        *(("unvisited", value) for value in ("net", None, 0)),
        *(("choose", value) for value in ("best", None, 1)),
        *(("widening", value) for value in (-0.1, 1.1, float("nan"), "1")),
        *(("reuse", value) for value in (1, "yes")),
        *(("seed", value) for value in (-1, 1.5, 2**63)),
    ],
)
def test_wrong_settings_are_refused(setting: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=setting):
        MCSoftmaxSettings(**{setting: wrong})
    with pytest.raises(ValueError, match=setting):
        agents.make("mc-softmax", tuples=[[0]], **{setting: wrong})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trees": 2, "reuse": True}, "trees.*reuse"),
        *(({"trees": n, "widening": 0.99}, "trees.*widening") for n in (1, 2)),
        ({"select": "falling", "reuse": True}, "select.*reuse"),
        ({"backup": "falling", "reuse": True}, "backup.*reuse"),
        ({"select": "ave", "select_temperature": 1.0}, "^select_temperature"),
        ({"backup_temperature": 1.0}, "^backup_temperature"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MCSoftmaxSettings(**settings)


def test_settings_by_their_earlier_names_are_translated() -> None:
    earlier: dict[str, Any] = {"simulations": 5, "unseen": "outcomes"}
    assert MCSoftmaxSettings(**current_names(earlier)) == MCSoftmaxSettings(5, unvisited="outcomes")
    with pytest.raises(ValueError, match="did you mean 'unvisited'"):
        MCSoftmaxSettings(**earlier)


@pytest.mark.parametrize("config", [{"trees": 10**7}, {"trees": 10**5 + 1, "simulations": 100}])
def test_too_many_simulations_for_memory_are_refused(config: dict[str, int]) -> None:
    """Raised before any memory is allocated: a simulation takes about a kilobyte."""
    with pytest.raises(ValueError, match="simulations"):
        MCSoftmaxSettings(**config)  # type: ignore[arg-type]
    for trees, simulations in ((None, 10**7), (1, 10**7), (10**5, 100), (10**7, 1)):
        assert MCSoftmaxSettings(simulations, trees=trees).trees == trees
    agent = MCSoftmaxAgent(random_network(), MCSoftmaxSettings(100, trees=10))
    agent.search(EARLY)
    arrays = (
        getattr(trees_of(agent), name)
        for name in "states moves outcomes cache_keys value_cache".split()
    )
    assert 900 < sum(each.nbytes for each in arrays) / 1000 < 1050


def test_the_player_is_made_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, boards = random_network(), as_words(random_boards(10, 13))
    save(net, tmp_path / "net.npz")
    settings: dict[str, Any] = {"simulations": 30, "backup": "ave", "seed": 5}
    config = MCSoftmaxSettings(**settings)
    expected = MCSoftmaxAgent(net, config).evaluate(boards).tolist()
    file = tmp_path / "net.npz"
    monkeypatch.setattr(players, "PRETRAINED", file)
    made: list[Any] = [
        agents.make("mc-softmax", network=given, **settings)
        for given in (net, file, str(file), "ntuple", as_estimator(net), *players_of(net))
    ]
    made.append(agents.find(f"mc-softmax,network={file},simulations=30,backup=ave,seed=5"))
    for agent in made:
        assert type(agent) is MCSoftmaxAgent
        assert agent.settings == config
        assert agent.evaluate(boards).tolist() == expected
    small: Any = agents.make("mc-softmax", network=solved((2, 3)))
    assert (small.size, small.settings) == ((2, 3), MCSoftmaxSettings())
    empty: Any = agents.make("mc-softmax", tuples="5x4", size=(4, 4))
    assert (empty.size, empty.network.masks.size) == ((4, 4), 5)
    assert "mc-softmax" in agents.names()


def test_by_default_it_searches_with_the_pretrained_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert players.PRETRAINED.name == "ntuple.npz"
    save(random_network(), tmp_path / "net.npz")
    monkeypatch.setattr(players, "PRETRAINED", tmp_path / "net.npz")
    agent: Any = agents.find("mc-softmax,simulations=10")
    same = MCSoftmaxAgent(random_network(), MCSoftmaxSettings(simulations=10))
    assert agent.settings == same.settings
    assert agent.evaluate(EARLY).tolist() == same.evaluate(EARLY).tolist()


@pytest.mark.parametrize(
    "settings",
    [
        *({name: 1, "tuples": "5x4"} for name in ("speed", "simulation", "net")),
        {"network": 42},
        {"network": "net.txt"},
        {"network": agents.make("random")},
        {"network": random_network(), "tuples": "4x6"},
        {"network": as_estimator(random_network()), "size": (4, 4)},
        *({"network": random_network(), **way} for way in ({"bf16": True}, {"value_scale": 1.0})),
        {"network": as_estimator(random_network()), "device": "cpu"},
    ],
    ids="speed simulation net number text no-estimate tuples size bf16 value_scale device".split(),
)
def test_unknown_settings_and_networks_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises((ValueError, FileNotFoundError)):
        agents.make("mc-softmax", **settings)


# Value networks


@pytest.fixture
def cnn(tmp_path: Path, one_thread: None) -> Path:
    """Return the file of an untrained network with a value scale of 100 points."""
    pytest.importorskip("safetensors")
    pytest.importorskip("torch")
    from afterstate.agents import nets
    from afterstate.agents.game2048.values.value_net import CNN22

    with nets.seeded(1):
        nets.save(CNN22(), tmp_path / "cnn.safetensors", unit=100.0)
    return tmp_path / "cnn.safetensors"


def test_estimates_are_the_greedy_players_values_minus_rewards(cnn: Path) -> None:
    agent: Any = agents.make("value-net", network=cnn)
    boards = random_boards(6, 14)
    values = agent.evaluate(as_words(boards).reshape(2, 3))
    for board, four in zip(boards, values.reshape(6, 4), strict=True):
        for action in oracle.legal_moves(board):
            after, reward = oracle.move(board, action)
            estimates = agent.estimate(oracle.to_word(after))
            assert estimates.shape == ()
            assert four[action] == pytest.approx(reward + estimates, rel=1e-4, abs=1e-3)
    estimates = agent.estimate(as_words(boards).reshape(2, 3))
    assert (estimates.shape, estimates.dtype) == ((2, 3), np.float64)
    assert estimates.std() > 1
    assert estimates[1, 2] == pytest.approx(agent.estimate(as_words(boards)[5:])[0], rel=1e-4)
    half: Any = agents.make("value-net", network=cnn, value_scale=50)
    assert half.estimate(as_words(boards)) == pytest.approx(estimates.reshape(-1) / 2, rel=1e-4)
    assert agent.estimate(np.empty((0, 2), np.uint64)).shape == (0, 2)
    with pytest.raises(ValueError, match="board word"):
        agent.estimate([0.5])


@pytest.mark.parametrize("leaves", [1, 4])
def test_a_batch_is_searched_as_by_the_oracle(leaves: int, one_thread: None) -> None:
    """The pretrained network evaluates all boards in a batch, or one afterstate at a time."""
    player: Any = agents.make("value-net")
    config, boards = MCSoftmaxSettings(simulations=16, leaves=leaves), random_boards(4, 5)
    result = MCSoftmaxAgent(player, config).search(as_words(boards))
    plain = softmax_oracle.Search(
        lambda board: float(player.estimate(as_words([board]))[0]), config
    )
    for board, values, visits in zip(boards, result.values, result.visits, strict=True):
        expected, counts = plain(board)
        assert visits.tolist() == counts
        assert values == pytest.approx(expected, rel=1e-4)


def test_a_value_network_is_searched_by_its_file_or_its_player(cnn: Path) -> None:
    boards = as_words([*random_boards(3, 15), oracle.from_word(OVER, 4, 4)])
    player: Any = agents.make("value-net", network=cnn)
    greedy: Any = agents.make("mc-softmax", network=cnn, simulations=1)
    assert greedy.evaluate(boards) == pytest.approx(player.evaluate(boards), rel=1e-4, abs=1e-3)
    made: list[Any] = [
        agents.make("mc-softmax", network=network, simulations=8, leaves=2)
        for network in (cnn, str(cnn), player)
    ]
    config: dict[str, Any] = {"simulations": 8, "leaves": 2, "device": "cpu"}
    made.append(agents.make("mc-softmax", network=player.network, value_scale=100, **config))
    made.append(agents.find(f"mc-softmax,network={cnn},simulations=8,leaves=2"))
    for agent in made:
        result = agent.search(boards)
        assert result.visits.sum(1).tolist() == [7, 7, 7, 0]
        assert result.values == pytest.approx(made[0].evaluate(boards), rel=1e-6)
    pretrained: list[Any] = [
        agents.make("mc-softmax", network=network, simulations=3)
        for network in (agents.make("value-net"), "value-net")
    ]
    result = [agent.evaluate(EARLY).tolist() for agent in pretrained]
    assert result[0] == result[1] and np.isfinite(result[0]).all()
    rough: Any = agents.make("mc-softmax", network="value-net", simulations=3, bf16=True)
    assert rough.evaluate(EARLY).tolist() != result[0]
    assert rough.evaluate(EARLY) == pytest.approx(result[0], rel=0.05)
