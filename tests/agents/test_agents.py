"""Tests of players by name, by text and from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afterstate.envs  # noqa: F401
from afterstate import agents
from afterstate.agents.game2048 import players
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.alphabeta import AlphaBetaAgent
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.simple import RandomAgent, RewardAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.agents.game2048.values.ntuple_file import save
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.envs.game2048.rules import from_text, words
from tests.support.game2048.agents import (
    NAMES_2048,
    PAIRS,
    TUPLES,
    all_agents,
    random_boards,
    random_network,
)


def test_names_lists_the_players_of_make() -> None:
    kinds_of = ("random", "sample", "heuristic", "policy", "mc", "rank", "mc-rank", "actor")
    daihinmin = [f"daihinmin-{kind}" for kind in kinds_of]
    assert agents.names() == [*NAMES_2048, "value-net", "policy-net", *daihinmin]
    kinds = [RandomAgent, RewardAgent, NTupleAgent, ExpectimaxAgent, MCSoftmaxAgent]
    kinds.append(AlphaBetaAgent)
    assert [type(agent) for agent in all_agents()] == kinds
    for agent in all_agents():
        assert isinstance(agent, agents.Agent)
        assert agent.size == (4, 4)


def test_the_list_of_names_is_a_copy() -> None:
    agents.names().clear()
    assert "ntuple" in agents.names()


def test_random_players_have_a_seed_and_a_size() -> None:
    for name in ("random", "reward"):
        agent = agents.make(name, seed=3, size=(2, 3))
        assert agent.size == (2, 3)
        first, again = (agents.make(name, seed=3) for _ in range(2))
        boards = np.full(100, from_text("_ _ _ _ / _ 2 _ _ / _ _ _ _ / _ _ _ _"), np.uint64)
        assert first.act(boards).tolist() == again.act(boards).tolist()


@pytest.mark.parametrize(("name", "settings"), [("ntuple", {}), ("expectimax", {"depth": 1})])
def test_network_players_take_a_network_a_file_or_tuples(
    tmp_path: Path, name: str, settings: dict[str, Any]
) -> None:
    net = random_network()
    save(net, tmp_path / "network.npz")
    boards = words(random_boards(200))
    expected = NTupleAgent(net).act(boards).tolist()
    for given in (net, tmp_path / "network.npz", str(tmp_path / "network.npz")):
        assert agents.make(name, network=given, **settings).act(boards).tolist() == expected
    new: Any = agents.make(name, tuples=PAIRS, size=(2, 2), **settings)
    assert new.size == new.network.size == (2, 2)
    assert new.network.tuples == PAIRS
    assert not new.network.weights.any()


def test_network_players_have_the_pretrained_network_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = random_network()
    save(net, tmp_path / "network.npz")
    monkeypatch.setattr(players, "PRETRAINED", tmp_path / "network.npz")
    greedy: Any = agents.make("ntuple")
    search: Any = agents.make("expectimax")
    assert greedy.network.weights is not search.network.weights  # each may learn on
    assert (greedy.network.weights == net.weights).all()
    assert (search.network.weights == net.weights).all()
    assert search.depth == 3
    for settings in ({"tuples": PAIRS}, {"size": (2, 2), "tuples": PAIRS}):
        new: Any = agents.make("ntuple", **settings)
        assert new.network.tuples == PAIRS
        assert not new.network.weights.any()


def test_a_new_network_has_4x6_tuples_by_default() -> None:
    agent: Any = agents.make("expectimax", tuples="4x6")
    assert len(agent.network.tuples) == 4
    assert agent.network.weights.size == 4 * 16**6


def test_a_given_network_is_shared() -> None:
    net = random_network()
    agent: Any = agents.make("ntuple", network=net)
    assert agent.network.weights is net.weights


def test_expectimax_searches_to_the_given_depth() -> None:
    net = random_network(PAIRS, (2, 2))
    boards = words(random_boards(100, (2, 2), top=4))
    for depth in (1, 2, 3, 4, 5):
        agent: Any = agents.make("expectimax", network=net, depth=depth)
        same = ExpectimaxAgent(net, depth).evaluate(boards)
        assert (agent.evaluate(boards) == same).all()


@pytest.mark.parametrize("name", ["ntuple", "expectimax"])
@pytest.mark.parametrize(
    "others",
    [{"tuples": PAIRS}, {"tuples": "4x6"}, {"size": (4, 4)}, {"tuples": PAIRS, "size": (2, 2)}],
    ids=str,
)
@pytest.mark.parametrize("given", ["network", "file", "no such file"])
def test_a_network_excludes_tuples_and_size(
    tmp_path: Path, name: str, others: dict[str, Any], given: str
) -> None:
    """They would be those of another network; that shows before a file is read."""
    file: Any = random_network() if given == "network" else tmp_path / "network.npz"
    if given == "file":
        save(random_network(), file)
    with pytest.raises(ValueError, match="tuples and size"):
        agents.make(name, network=file, **others)


@pytest.mark.parametrize("name", ["", "Random", "alphazero", "load", [], {}, None, 3, ("random",)])
def test_an_unknown_name_is_rejected_with_the_known_ones(name: Any) -> None:
    with pytest.raises(ValueError, match=r"random.*reward.*ntuple.*expectimax") as caught:
        agents.make(name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "right"), [("ntupel", "ntuple"), ("expectimaxx", "expectimax"), ("daihinmin-m", "mc")]
)
def test_the_nearest_name_is_suggested(wrong: str, right: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '.*{right}'"):
        agents.make(wrong)


@pytest.mark.parametrize("name", NAMES_2048)
def test_an_unknown_setting_is_rejected_with_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}.*'speed'.*{agents.setting_names(name)[0]}"):
        agents.make(name, speed=3)


def test_the_nearest_setting_is_suggested() -> None:
    with pytest.raises(ValueError, match="'depht', did you mean 'depth'"):
        agents.make("expectimax", depht=3)
    with pytest.raises(ValueError, match="'simulation', did you mean 'simulations'"):
        agents.make("mc-softmax", simulation=3)


def test_a_type_error_of_a_player_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: RandomAgent, *args: Any, **settings: Any) -> None:
        raise TypeError("a fault in the code of the player")

    monkeypatch.setattr(RandomAgent, "__init__", fails)
    with pytest.raises(TypeError, match="a fault in the code"):
        agents.make("random")


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("ntuple", {"depth": 3}, "depth"),
        ("random", {"network": None}, "network"),
        ("expectimax", {"depth": 0, "tuples": PAIRS}, "depth"),
        ("expectimax", {"depth": 2.5, "tuples": PAIRS}, "depth"),
        ("ntuple", {"tuples": "9x9"}, "tuples"),
        ("ntuple", {"tuples": [[2]], "size": (2, 2)}, "tuple"),
        ("ntuple", {"tuples": [[0]], "size": (5, 5)}, "tuple|board"),
        ("random", {"size": (5, 5)}, "size must be .* board"),
        ("reward", {"size": (1, 1)}, "size must be .* board"),
        ("ntuple", {"network": 17}, "network"),
    ],
)
def test_wrong_settings_are_rejected(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        agents.make(name, **settings)


def test_a_missing_network_file_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        agents.make("ntuple", network=tmp_path / "missing.npz")


def test_a_saved_network_plays_the_same(tmp_path: Path) -> None:
    net = random_network()
    save(net, tmp_path / "network.npz")
    before, after = NTupleAgent(net), agents.load(tmp_path / "network.npz")
    assert play(before, 5, seed=1).scores.tolist() == play(after, 5, seed=1).scores.tolist()


@pytest.mark.parametrize("size", [(4, 4), (2, 2), (3, 2)])
def test_a_saved_learner_plays_the_same(tmp_path: Path, size: tuple[int, int]) -> None:
    learner = NTupleLearner(network(PAIRS if size[1] == 2 else TUPLES, size), seed=1)
    learner.learn(5_000)
    learner.save(tmp_path / "learner.npz")
    agent: Any = agents.load(str(tmp_path / "learner.npz"))
    assert agent.size == size
    assert agent.network.weights is not learner.network.weights
    assert (agent.network.weights == learner.network.weights).all()
    before = play(NTupleAgent(learner.network), 5, seed=1, size=size)
    assert play(agent, 5, seed=1, size=size).scores.tolist() == before.scores.tolist()
    deep: Any = agents.make("expectimax", network=tmp_path / "learner.npz", depth=2)
    assert (deep.network.weights == learner.network.weights).all()


def test_other_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        agents.load(tmp_path / "missing.npz")
    for name, data in (("empty.npz", b""), ("text.txt", b"2048\n" * 50)):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match=name):
            agents.load(tmp_path / name)
    file = tmp_path / "half.npz"
    save(random_network(), file)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"half\.npz"):
        agents.load(file)


def test_a_player_is_found_by_its_name_alone() -> None:
    kinds = {"random": RandomAgent, "reward": RewardAgent}
    assert {name: type(agents.find(name)) for name in kinds} == kinds


def test_a_player_is_found_by_its_name_and_settings(tmp_path: Path) -> None:
    save(random_network(), tmp_path / "network.npz")
    deep = agents.find(f"expectimax,depth=2,network={tmp_path / 'network.npz'},cutoff=1e-3")
    assert type(deep) is ExpectimaxAgent
    assert (deep.depth, deep.cutoff, deep.seconds) == (2, 1e-3, None)
    assert (deep.network.weights == random_network().weights).all()
    timed = agents.find("expectimax,tuples=4x6,seconds=0.5,depth=null")
    assert (timed.depth, timed.seconds) == (12, 0.5)
    boards = np.full(100, from_text("_ _ _ _ / _ 2 _ _ / _ _ _ _ / _ _ _ _"), np.uint64)
    expected = agents.make("random", seed=3).act(boards).tolist()
    assert agents.find("random,seed=3").act(boards).tolist() == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("3", 3), ("-1", -1), ("0.5", 0.5), ("1e-3", 1e-3)),
        *(("true", True), ("false", False), ("null", None)),
        *(("a/b.npz", "a/b.npz"), ("None", None), ("a=b", "a=b"), ("007", "007")),
        *(("[2,3]", [2, 3]), ("~/a.npz", str(Path.home() / "a.npz"))),
    ],
)
def test_settings_are_json_or_text(monkeypatch: pytest.MonkeyPatch, text: str, value: Any) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(agents, "make", lambda name, **settings: given.update(settings))
    agents.find(f"random,one={text},two=2")
    assert given == {"one": value, "two": 2}
    assert type(given["one"]) is type(value)


def test_settings_of_a_file_are_refused() -> None:
    with pytest.raises(ValueError, match=r"has no settings.*expectimax,depth=2,network=a/b\.npz"):
        agents.find("a/b.npz,depth=3")


@pytest.mark.parametrize("name", ["network.npz", "a,network=b.npz", "expectimax.npz"])
def test_a_player_is_found_by_its_file(tmp_path: Path, name: str) -> None:
    save(random_network(), tmp_path / name)
    boards = words(random_boards(100))
    player = agents.find(str(tmp_path / name))
    assert type(player) is NTupleAgent
    assert player.act(boards).tolist() == NTupleAgent(random_network()).act(boards).tolist()


def test_files_of_tdl2048_are_found() -> None:
    file = Path(__file__).parents[1] / "data" / "game2048" / "tdl2048" / "2x4td.w"
    boards = words(random_boards(100))
    assert agents.find(str(file)).act(boards).tolist() == agents.load(file).act(boards).tolist()


@pytest.mark.parametrize("name", ["missing.npz", "missing.w", "missing,depth=2.npz"])
def test_a_missing_player_file_raises(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        agents.find(str(tmp_path / name))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((wrong, r"no player .*random.*reward") for wrong in ("", "Random", " random", "a.txt")),
        *((f"random,{wrong}", "name=value") for wrong in ("", "seed", "3", "seed=")),
        *((f"random,{wrong}", "random.*setting") for wrong in ("speed=3", "=3", "name=3")),
        *((f"random,seed={wrong}", f"seed.*{wrong}") for wrong in ("x", "1.5", "-1")),
        ("expectimax,tuples=4x6,depth=deep", "depth.*'deep'"),
        ("ntuple,network=3", "network.*3"),
        ("no,seed=3", "no player 'no'"),
    ],
)
def test_wrong_player_texts_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        agents.find(text)


def test_a_file_without_a_player_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("2048")
    with pytest.raises(ValueError, match=r"text\.npz"):
        agents.find(str(tmp_path / "text.npz"))


def test_a_file_of_a_neural_network_is_loaded_as_the_player_of_its_game(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from afterstate.agents import nets
    from afterstate.agents.daihinmin.values import rank_net
    from afterstate.agents.game2048.values import policy_net, value_net

    file = tmp_path / "net.safetensors"
    for net, player in [
        (rank_net.network("FCNN", hidden=2), rank_net.RankAgent),
        (policy_net.network("PolicyCNN", layers=2), policy_net.PolicyNetAgent),
        (value_net.network("CNN22"), value_net.ValueNetAgent),
    ]:
        nets.save(net, file, unit=100.0)
        loaded = agents.load(file)
        assert type(loaded) is player
        assert type(agents.find(str(file))) is player
    assert loaded.value_scale == 100.0
    with pytest.raises(ValueError, match="network"):
        policy_net.load(file)


def test_a_file_of_a_user_network_is_loaded_if_its_class_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    from afterstate.agents import nets
    from afterstate.agents.game2048.values import policy_net, value_net

    class Tiny(torch.nn.Linear):  # type: ignore[misc, name-defined]
        def __init__(self, n: int = 1) -> None:
            super().__init__(256, n)
            self.settings = {"n": n}

        def forward(self, planes: Any) -> Any:
            return super().forward(planes.flatten(1)).squeeze(1)

    boards, file = words(random_boards(20)), tmp_path / "tiny.safetensors"
    torch.manual_seed(1)
    for n, module, player in [(1, value_net, "value-net"), (4, policy_net, "policy-net")]:
        net = Tiny(n)
        nets.save(net, file)
        with pytest.raises(
            ValueError, match=r"'Tiny'.*CNN22.*PolicyCNN.*BaseCNN.*network=net.*NETW"
        ):
            agents.load(file)
        with monkeypatch.context() as patched:
            patched.setitem(module.NETWORKS, "Tiny", Tiny)
            loaded = agents.find(str(file))
        made = agents.make(player, network=net)
        assert type(loaded) is type(made)
        assert loaded.act(boards).tolist() == made.act(boards).tolist()


@pytest.mark.parametrize("name", [["CNN22"], {}, None])
def test_a_file_that_names_no_network_is_rejected(tmp_path: Path, name: Any) -> None:
    torch, safetensors = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch")
    metadata = json.dumps({"network": name, "settings": {}})
    file = tmp_path / "odd.safetensors"
    safetensors.save_file({"x": torch.zeros(1)}, file, {"afterstate": metadata})
    with pytest.raises(ValueError, match=r"odd\.safetensors .*network"):
        agents.load(file)


def test_neural_players_take_user_networks() -> None:
    torch = pytest.importorskip("torch")
    from afterstate.agents.game2048.values import policy_net, value_net

    torch.manual_seed(1)
    value: Any = agents.make("value-net", network=value_net.CNN22(), depth=2, value_scale=10.0)
    policy = agents.make("policy-net", network=policy_net.PolicyCNN(2))
    boards = words(random_boards(3))
    for player in (value, policy):
        actions = player.act(boards)
        assert actions.shape == (3,) and actions.dtype == np.int8
    same: Any = agents.make("value-net", net=value.network)  # the earlier name of the setting
    assert same.network is value.network
    with pytest.raises(ValueError, match="has no setting 'net'"):
        agents.make("value-net", net=value.network, network=value.network)
    with pytest.raises(ValueError, match="layers"):
        agents.make("policy-net", layers=3)
    with pytest.raises(ValueError, match=r"layer.*layers"):
        agents.make("policy-net", layer=3)


@pytest.mark.parametrize("file", ["model.zip", "games.jsonl", Path("network"), 5])
def test_files_of_other_kinds_are_refused(file: Any) -> None:
    with pytest.raises(
        ValueError, match=r"file must end in \.npz, \.safetensors, \.w, got"
    ) as error:
        agents.load(file)
    assert ("stable-baselines3" in str(error.value)) == (file == "model.zip")
