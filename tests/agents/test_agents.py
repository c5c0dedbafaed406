"""Players by name and from files, and what all of them can do."""

from __future__ import annotations

import copy
import json
import pickle
import random
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest

import afterstate.envs  # noqa: F401
from afterstate import agents
from afterstate.agents.game2048 import players
from afterstate.agents.game2048.agent import Agent
from afterstate.agents.game2048.learning.ntuple_learner import Learner
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.alphabeta import AlphaBetaAgent
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.simple import RandomAgent, RewardAgent
from afterstate.agents.game2048.values.ntuple import Network, NTupleAgent, estimate, network, save
from afterstate.envs.game2048.rules import from_text, words
from tests.oracles import game2048 as oracle

TUPLES = [[0, 1, 2], [4, 5], [1, 5, 9]]
PAIRS = [[0, 1], [4, 5]]


def random_network(
    tuples: list[list[int]] = TUPLES, size: tuple[int, int] = (4, 4), seed: int = 1
) -> Network:
    net = network(tuples, size)
    net.weights[:] = np.random.default_rng(seed).normal(0, 30, net.weights.size)
    return net


def made() -> list[Agent]:
    """Every player there is."""
    net = random_network()
    return [
        agents.make("random", seed=1),
        agents.make("reward", seed=1),
        agents.make("ntuple", network=net),
        agents.make("expectimax", network=net, depth=2),
        agents.make("mc-softmax", network=net, simulations=10),
        agents.make("alphabeta", depth=2),
    ]


NAMES_2048 = ["random", "reward", "ntuple", "expectimax", "mc-softmax", "alphabeta"]
every_agent = pytest.mark.parametrize("index", range(6), ids=NAMES_2048)


def random_boards(n: int, size: tuple[int, int] = (4, 4), top: int = 15) -> npt.NDArray[np.uint8]:
    """Exponents `[n, rows, cols]`, of few values or of many."""
    rng = random.Random(top)
    palettes = [[0, 0, 1, 2], [0, 1, 2, 3, 4, 5], [*range(top - 3, top + 1)], [*range(top + 1)]]
    drawn = [rng.choices(palette, k=size[0] * size[1]) for palette in rng.choices(palettes, k=n)]
    return np.array(drawn, np.uint8).reshape(n, *size)


def one_hot(exponents: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Planes `[..., 18, rows, cols]`."""
    planes = np.equal(exponents[..., None, :, :], np.arange(18)[:, None, None])
    return np.asarray(planes, np.float32)


# By name


def test_names_are_those_that_make_knows() -> None:
    kinds_of = ("random", "sample", "heuristic", "policy", "mc", "rank", "mc-rank", "actor")
    daihinmin = [f"daihinmin-{kind}" for kind in kinds_of]
    assert agents.names() == [*NAMES_2048, "value-net", "policy-net", *daihinmin]
    kinds = [RandomAgent, RewardAgent, NTupleAgent, ExpectimaxAgent, MCSoftmaxAgent]
    kinds.append(AlphaBetaAgent)
    assert [type(agent) for agent in made()] == kinds
    for agent in made():
        assert isinstance(agent, agents.Agent)
        assert agent.size == (4, 4)


def test_a_list_of_names_is_ones_own_to_change() -> None:
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
def test_network_players_are_made_of_a_network_a_file_or_tuples(
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


def test_network_players_have_the_network_of_the_package_unless_told(
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
    for told in ({"tuples": PAIRS}, {"size": (2, 2), "tuples": PAIRS}):
        new: Any = agents.make("ntuple", **told)
        assert new.network.tuples == PAIRS
        assert not new.network.weights.any()


def test_a_new_network_has_4x6_tuples_if_it_is_asked_for() -> None:
    agent: Any = agents.make("expectimax", tuples="4x6")
    assert len(agent.network.tuples) == 4
    assert agent.network.weights.size == 4 * 16**6


def test_a_network_that_is_given_is_shared() -> None:
    net = random_network()
    agent: Any = agents.make("ntuple", network=net)
    assert agent.network.weights is net.weights


def test_expectimax_searches_as_deep_as_told() -> None:
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
def test_a_network_goes_with_neither_tuples_nor_a_size(
    tmp_path: Path, name: str, others: dict[str, Any], given: str
) -> None:
    """They would be those of another network; that shows before a file is read."""
    file: Any = random_network() if given == "network" else tmp_path / "network.npz"
    if given == "file":
        save(random_network(), file)
    with pytest.raises(ValueError, match="tuples and size"):
        agents.make(name, network=file, **others)


@pytest.mark.parametrize("name", ["", "Random", "alphazero", "load", [], {}, None, 3, ("random",)])
def test_an_unknown_name_is_refused_with_those_there_are(name: Any) -> None:
    with pytest.raises(ValueError, match=r"random.*reward.*ntuple.*expectimax") as caught:
        agents.make(name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "right"), [("ntupel", "ntuple"), ("expectimaxx", "expectimax"), ("daihinmin-m", "mc")]
)
def test_a_misspelled_name_is_told_the_nearest_one(wrong: str, right: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '.*{right}'"):
        agents.make(wrong)


@pytest.mark.parametrize("name", NAMES_2048)
def test_an_unknown_setting_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}.*'speed'.*{agents.setting_names(name)[0]}"):
        agents.make(name, speed=3)


def test_a_misspelled_setting_is_told_the_nearest_one() -> None:
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
        ("random", {"size": (5, 5)}, "board"),
        ("reward", {"size": (1, 1)}, "board"),
        ("ntuple", {"network": 17}, "network"),
    ],
)
def test_wrong_settings_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        agents.make(name, **settings)


def test_a_missing_network_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        agents.make("ntuple", network=tmp_path / "missing.npz")


# From files


def test_a_saved_network_plays_the_same(tmp_path: Path) -> None:
    net = random_network()
    save(net, tmp_path / "network.npz")
    before, after = NTupleAgent(net), agents.load(tmp_path / "network.npz")
    assert play(before, 5, seed=1).scores.tolist() == play(after, 5, seed=1).scores.tolist()


@pytest.mark.parametrize("size", [(4, 4), (2, 2), (3, 2)])
def test_a_saved_learner_plays_the_same(tmp_path: Path, size: tuple[int, int]) -> None:
    learner = Learner(network(PAIRS if size[1] == 2 else TUPLES, size), seed=1)
    learner.play(5_000)
    learner.save(tmp_path / "learner.npz")
    agent: Any = agents.load(str(tmp_path / "learner.npz"))
    assert agent.size == size
    assert agent.network.weights is not learner.network.weights
    assert (agent.network.weights == learner.network.weights).all()
    before = play(NTupleAgent(learner.network), 5, seed=1, size=size)
    assert play(agent, 5, seed=1, size=size).scores.tolist() == before.scores.tolist()
    deep: Any = agents.make("expectimax", network=tmp_path / "learner.npz", depth=2)
    assert (deep.network.weights == learner.network.weights).all()


def test_files_that_are_no_players_are_refused(tmp_path: Path) -> None:
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


# As a command line names them


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
    assert (timed.depth, timed.seconds) == (5, 0.5)
    boards = np.full(100, from_text("_ _ _ _ / _ 2 _ _ / _ _ _ _ / _ _ _ _"), np.uint64)
    expected = agents.make("random", seed=3).act(boards).tolist()
    assert agents.find("random,seed=3").act(boards).tolist() == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("3", 3), ("-1", -1), ("0.5", 0.5), ("1e-3", 1e-3)),
        *(("true", True), ("false", False), ("null", None)),
        *(("a/b.npz", "a/b.npz"), ("None", "None"), ("a=b", "a=b"), ("", ""), ("007", "007")),
    ],
)
def test_settings_are_as_in_json_or_texts(
    monkeypatch: pytest.MonkeyPatch, text: str, value: Any
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(agents, "make", lambda name, **settings: given.update(settings))
    agents.find(f"random,one={text},two=2")
    assert given == {"one": value, "two": 2}
    assert type(given["one"]) is type(value)


@pytest.mark.parametrize("name", ["network.npz", "a,network=b.npz", "expectimax.npz"])
def test_a_player_is_found_by_its_file(tmp_path: Path, name: str) -> None:
    save(random_network(), tmp_path / name)
    boards = words(random_boards(100))
    found = agents.find(str(tmp_path / name))
    assert type(found) is NTupleAgent
    assert found.act(boards).tolist() == NTupleAgent(random_network()).act(boards).tolist()


def test_files_of_tdl2048_are_found_too() -> None:
    file = Path(__file__).parents[1] / "data" / "game2048" / "tdl2048" / "2x4td.w"
    boards = words(random_boards(100))
    assert agents.find(str(file)).act(boards).tolist() == agents.load(file).act(boards).tolist()


@pytest.mark.parametrize("name", ["missing.npz", "missing.w", "missing,depth=2.npz"])
def test_a_missing_file_of_a_player_is_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        agents.find(str(tmp_path / name))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((wrong, r"no player .*random.*reward") for wrong in ("", "Random", " random", "a.txt")),
        *((f"random,{wrong}", "name=value") for wrong in ("", "seed", "3", "size=[2,2]")),
        *((f"random,{wrong}", "random.*setting") for wrong in ("speed=3", "=3", "name=3")),
        *((f"random,seed={wrong}", f"seed.*{wrong}") for wrong in ("x", "1.5", "-1")),
        ("expectimax,tuples=4x6,depth=deep", "depth.*'deep'"),
        ("ntuple,network=3", "network.*3"),
        ("no,seed=3", "no player 'no'"),
    ],
)
def test_what_names_no_player_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        agents.find(text)


def test_a_file_that_is_no_player_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("2048")
    with pytest.raises(ValueError, match=r"text\.npz"):
        agents.find(str(tmp_path / "text.npz"))


# Observations


def answers(agent: Agent, exponents: npt.NDArray[np.uint8]) -> list[int]:
    """What a player answers to boards one by one, from its first answer on."""
    return [int(copy.deepcopy(agent).act(words(board))) for board in exponents]


@every_agent
def test_predict_takes_exponents_and_planes_and_batches_of_them(index: int) -> None:
    agent = made()[index]
    exponents = random_boards(30)
    expected = answers(agent, exponents)
    for board, action in zip(exponents, expected, strict=True):
        for observation in (board, board.astype(np.int64), board.tolist(), one_hot(board)):
            found, state = copy.deepcopy(agent).predict(observation)
            assert found.shape == ()
            assert found.dtype == np.int8
            assert int(found) == action
            assert state is None
    batch = copy.deepcopy(agent).act(words(exponents)).tolist()
    for observations in (exponents, one_hot(exponents), list(exponents)):
        found, _ = copy.deepcopy(agent).predict(observations)
        assert found.shape == (30,)
        assert found.tolist() == batch


@every_agent
def test_predict_plays_legally_in_the_environment(index: int) -> None:
    agent = made()[index]
    for observation_kind in ("exponents", "onehot"):
        arguments: Any = {} if observation_kind == "exponents" else {"observation": "onehot"}
        env = gym.make("Game2048-v0", illegal="raise", **arguments)
        observation, _ = env.reset(seed=1)
        for _ in range(60):
            action, _ = agent.predict(observation, deterministic=True)
            observation, _, terminated, _, _ = env.step(action)
            if terminated:
                break
        env.close()


def test_predict_gives_back_its_state() -> None:
    agent, state = made()[2], (object(),)
    board = random_boards(1)[0]
    assert agent.predict(board, state, np.array([True]), False)[1] is state
    found = agent.predict(board, state=state, episode_start=None, deterministic=False)
    assert found[1] is state


def test_predict_of_other_sizes() -> None:
    agent = agents.make("ntuple", network=random_network([[0, 1, 4], [1, 5]], (2, 3)))
    exponents = random_boards(20, (2, 3), top=5)
    expected = agent.act(words(exponents)).tolist()
    assert agent.predict(exponents)[0].tolist() == expected
    assert agent.predict(one_hot(exponents))[0].tolist() == expected
    for wrong in ((3, 2), (4, 4), (2, 2), (20, 3, 2)):
        with pytest.raises(ValueError, match=r"\[2, 3\]"):
            agent.predict(np.zeros(wrong, np.uint8))


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(16, np.uint8),
        np.zeros((), np.uint8),
        np.zeros((3, 3), np.uint8),
        np.zeros((4, 5), np.uint8),
        np.zeros((2, 2, 4, 4), np.uint8),
        np.zeros((18, 3, 4), np.float32),
        np.zeros((17, 4, 4), np.float32),
        np.zeros((2, 17, 4, 4), np.float32),
        np.zeros((2, 2, 18, 4, 4), np.float32),
        np.zeros((4, 4), np.float32),
        np.full((4, 4), 18, np.uint8),
        np.full((4, 4), -1, np.int8),
        "2 4 8",
        None,
    ],
    ids=lambda wrong: f"{np.asarray(wrong).dtype}{list(np.shape(wrong))}",
)
def test_predict_refuses_what_is_no_observation(wrong: Any) -> None:
    for agent in made():
        with pytest.raises(ValueError):
            agent.predict(wrong)


def test_predict_downgrades_boards_beyond_32768() -> None:
    """Tiles above the largest missing value are halved: 65536 with 8192 missing plays as 32768."""
    agent = made()[2]
    high = np.array([[16, 15, 14, 12], [1, 2, 3, 4], [5, 6, 0, 1], [0, 0, 1, 1]], np.uint8)
    low = np.array([[15, 14, 13, 12], [1, 2, 3, 4], [5, 6, 0, 1], [0, 0, 1, 1]], np.uint8)
    for form in (np.asarray, one_hot):
        form_of: Any = form
        assert agent.predict(form_of(high))[0] == agent.predict(form_of(low))[0]
    boards = random_boards(200, top=17)
    assert boards.max() == 17
    downgraded = [oracle.to_word(oracle.downgrade(board.tolist())) for board in boards]
    expected = agent.act(downgraded).tolist()
    assert agent.predict(boards)[0].tolist() == expected
    assert agent.predict(one_hot(boards))[0].tolist() == expected


# All players


@every_agent
def test_act_answers_one_board_or_any_shape_of_them(index: int) -> None:
    agent = made()[index]
    boards = words(random_boards(12))
    for shape in ((12,), (3, 4), (2, 3, 2), (1,)):
        some = boards[: int(np.prod(shape))].reshape(shape)
        actions = agent.act(some)
        assert actions.shape == shape
        assert actions.dtype == np.int8
    assert agent.act(boards[0]).shape == ()
    assert agent.act(int(boards[0])).shape == ()
    assert agent.act(boards[:0]).shape == (0,)
    assert agent.act([int(board) for board in boards]).shape == (12,)


@every_agent
def test_act_is_legal_and_leaves_the_boards(index: int) -> None:
    agent = made()[index]
    exponents = random_boards(300, top=11)
    boards = words(exponents)
    before = boards.copy()
    for board, action in zip(exponents.tolist(), agent.act(boards).tolist(), strict=True):
        legal = oracle.legal_moves(board)
        assert action in legal if legal else action == 0
    assert (boards == before).all()


@every_agent
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
def test_copies_and_pickles_play_on_the_same_and_on_their_own(index: int, copied: Any) -> None:
    agent = made()[index]
    boards = words(random_boards(200))
    agent.act(boards)
    twin: Agent = copied(agent)
    assert type(twin) is type(agent)
    assert twin.size == agent.size
    expected = copied(agent).act(boards).tolist()
    assert agent.act(boards).tolist() == expected
    assert twin.act(boards).tolist() == expected
    if isinstance(agent, NTupleAgent) and isinstance(twin, NTupleAgent):
        values = estimate(twin.network, boards).tolist()
        agent.network.weights[:] = 0
        assert estimate(twin.network, boards).tolist() == values


def test_a_new_player_needs_only_its_choice() -> None:
    class Corner(Agent):
        def _act(self, boards: npt.NDArray[np.uint64]) -> npt.NDArray[np.int8]:
            assert boards.ndim == 1
            assert boards.dtype == np.uint64
            return np.full(len(boards), 3, np.int8)

    assert Corner().act(np.zeros((2, 3), np.uint64)).tolist() == [[3, 3, 3], [3, 3, 3]]
    assert Corner().predict(np.zeros((4, 4), np.uint8))[0] == 3
    abstract: Any = Agent
    with pytest.raises(TypeError):
        abstract()


@pytest.mark.parametrize(
    "boards", [np.zeros((4, 4), np.uint8), [1.7], np.array([-1]), [-1], [1 << 64], ["1"], [True]]
)
def test_what_is_no_board_word_is_refused(boards: Any) -> None:
    for agent in (agents.make("random", seed=1), agents.make("expectimax", tuples=[[0]])):
        with pytest.raises(ValueError, match="board word"):
            agent.act(boards)


def test_boards_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        agents.make("random", seed=1, size=(2, 2)).act([0x1_0000_0000_0000])


def test_words_in_lists_may_be_large() -> None:
    assert agents.make("random", seed=1).act([1, 0xFFFF_0000_0000_0001]).shape == (2,)


def test_predict_takes_the_masks_of_sb3_contrib_and_has_no_need_of_them() -> None:
    agent = agents.make("reward", seed=1)
    observation = np.array([[1, 1, 2, 0], *[[0] * 4] * 3], np.uint8)
    assert agent.predict(observation, action_masks=np.ones(4, np.bool_))[0] in (1, 3)


def test_whole_numbers_of_numpy_are_numbers() -> None:
    size = (np.int64(2), np.int64(2))
    agent = agents.make("expectimax", depth=np.int64(2), tuples=[[0, 1]], size=size)
    assert agent.size == (2, 2)


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


def test_a_file_of_a_network_of_ones_own_is_loaded_if_its_class_is_known(
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
        with pytest.raises(ValueError, match=r"'Tiny'.*CNN22.*PolicyCNN.*BaseCNN.*net=net.*NETW"):
            agents.load(file)
        with monkeypatch.context() as patched:
            patched.setitem(module.NETWORKS, "Tiny", Tiny)
            loaded = agents.find(str(file))
        made = agents.make(player, net=net)
        assert type(loaded) is type(made)
        assert loaded.act(boards).tolist() == made.act(boards).tolist()


@pytest.mark.parametrize("name", [["CNN22"], {}, None])
def test_a_file_that_names_no_network_is_refused(tmp_path: Path, name: Any) -> None:
    torch, safetensors = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch")
    told = json.dumps({"network": name, "settings": {}})
    file = tmp_path / "odd.safetensors"
    safetensors.save_file({"x": torch.zeros(1)}, file, {"afterstate": told})
    with pytest.raises(ValueError, match=r"odd\.safetensors .*network"):
        agents.load(file)


def test_neural_players_take_networks_of_ones_own() -> None:
    torch = pytest.importorskip("torch")
    from afterstate.agents.game2048.values import policy_net, value_net

    torch.manual_seed(1)
    value = agents.make("value-net", net=value_net.CNN22(), depth=2, value_scale=10.0)
    policy = agents.make("policy-net", net=policy_net.PolicyCNN(2))
    boards = words(random_boards(3))
    for player in (value, policy):
        actions = player.act(boards)
        assert actions.shape == (3,) and actions.dtype == np.int8
    with pytest.raises(ValueError, match="the package has networks of"):
        agents.make("policy-net", layers=3)
    with pytest.raises(ValueError, match=r"layer.*layers"):
        agents.make("policy-net", layer=3)
