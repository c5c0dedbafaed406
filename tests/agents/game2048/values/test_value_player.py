"""The player of a value network, compared with a plain recursion and N-tuple networks."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.oracles import game2048 as oracle

pytest.importorskip("safetensors")
pytest.importorskip("torch")

import torch
from torch import Tensor, nn

from afterstate import agents
from afterstate.agents import nets
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values import value_net
from afterstate.agents.game2048.values.ntuple import NTupleAgent
from afterstate.agents.game2048.values.ntuple_network import Network, network
from afterstate.agents.game2048.values.planes import planes
from afterstate.agents.game2048.values.policy_net import PolicyCNN
from afterstate.agents.game2048.values.value_net import ValueNetAgent, evaluate, outcomes
from afterstate.envs.game2048 import torch_rules
from afterstate.envs.game2048.env import Game2048Env
from afterstate.envs.game2048.rules import from_text, words
from tests.oracles.ntuple import symmetric_boards
from tests.support.devices import on_devices

pytestmark = pytest.mark.usefixtures("one_thread")


ILLEGAL = -np.inf


class Tiny(nn.Module):
    """One hidden layer, without symmetry, whose values are of both signs."""

    def __init__(self, hidden: int = 6) -> None:
        super().__init__()
        self.settings = {"hidden": hidden}
        self.first, self.last = nn.Linear(256, hidden), nn.Linear(hidden, 1)
        self.batch_sizes: list[int] = []

    def forward(self, planes: Tensor) -> Tensor:
        """Return the values `[n]` of planes `[n, 16, 4, 4]`."""
        self.batch_sizes.append(len(planes))
        values: Tensor = self.last(torch.tanh(self.first(planes.flatten(1))))
        return values[:, 0]


class Constant(nn.Module):
    """A network with one value for all boards."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.settings = {"value": value}
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, planes: Tensor) -> Tensor:
        """Return the value, once for each board."""
        return self.value * torch.ones(len(planes))


class Linear(nn.Module):
    """A network with a value for each tile in each cell."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {}
        self.body = nn.Linear(256, 1, bias=False)

    def forward(self, planes: Tensor) -> Tensor:
        """Return the sum of the values of the cells."""
        values: Tensor = self.body(planes.flatten(1))
        return values[:, 0]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Tiny:
    """Return a small network with random weights, which can be saved."""
    monkeypatch.setitem(value_net.NETWORKS, "Tiny", Tiny)
    torch.manual_seed(1)
    net = Tiny()
    with torch.no_grad():
        for weights in net.parameters():
            weights.mul_(8)
    return net


def late_board(rng: random.Random, n_empty: int, top: int = 5) -> oracle.Board:
    """Return a board of small tiles with a given number of empty cells."""
    tiles = [0] * n_empty + [rng.randint(1, top) for _ in range(16 - n_empty)]
    rng.shuffle(tiles)
    return [tiles[i : i + 4] for i in (0, 4, 8, 12)]


def word_list(boards: list[oracle.Board]) -> Any:
    return np.array([oracle.to_word(board) for board in boards], np.uint64)


# Search, compared with a plain recursion


class Recursion:
    """Expectimax from its definition, one board at a time, with numbers of 64 bits."""

    def __init__(self, net: Tiny, value_scale: float) -> None:
        first, last = net.first.double(), net.last.double()
        self.weights = first.weight.detach().numpy().reshape(-1, 16, 4, 4)
        self.bias = first.bias.detach().numpy()
        self.last, self.offset = last.weight.detach().numpy()[0], last.bias.item()
        self.value_scale = value_scale
        self.value = cache(self._value)
        net.float()

    def _value(self, word: int) -> float:
        """Return the network's value of a board in points."""
        hidden = self.bias.copy()
        for row, tiles in enumerate(oracle.from_word(word, 4, 4)):
            for col, tile in enumerate(tiles):
                hidden += self.weights[:, tile, row, col]
        return self.value_scale * float(np.tanh(hidden) @ self.last + self.offset)

    def of_after(self, after: oracle.Board, depth: int) -> float:
        """Return the value of an afterstate by a search of `depth` more moves."""
        if depth == 0:
            return self.value(oracle.to_word(after))
        return sum(
            chance * max(self.of_moves(board, depth).values(), default=0.0)
            for board, chance in oracle.spawn_outcomes(after)
        )

    def of_moves(self, board: oracle.Board, depth: int) -> dict[int, float]:
        """Return the values of the legal moves."""
        result = {}
        for action in oracle.legal_moves(board):
            after, reward = oracle.move(board, action)
            result[action] = reward + self.of_after(after, depth - 1)
        return result

    def four(self, board: oracle.Board, depth: int) -> list[float]:
        """Return the values of all moves."""
        result = self.of_moves(board, depth)
        return [result.get(action, ILLEGAL) for action in range(4)]


@pytest.mark.parametrize(
    ("depth", "n_boards", "most_empty"), [(1, 200, 14), (2, 40, 4), (3, 12, 1)]
)
@pytest.mark.parametrize("value_scale", [1.0, 250.0])
@on_devices
def test_values_equal_those_of_the_plain_recursion(
    tiny: Tiny, depth: int, n_boards: int, most_empty: int, value_scale: float, device: str
) -> None:
    """Boards of any kind, also full ones with and without a legal move."""
    rng = random.Random(depth)
    boards = [late_board(rng, rng.randint(0, most_empty)) for _ in range(n_boards)]
    full = [late_board(rng, 0, top=14) for _ in range(100)]
    boards += sorted(full, key=oracle.is_over)[-3:] + sorted(full, key=oracle.is_over)[:3]
    plain, kinds = Recursion(tiny, value_scale), Counter[tuple[bool, bool]]()
    result = ValueNetAgent(tiny, depth, device, value_scale).evaluate(word_list(boards))
    assert result.shape == (n_boards + 6, 4)
    assert result.dtype == np.float64
    for board, values in zip(boards, result, strict=True):
        assert values == pytest.approx(plain.four(board, depth), rel=1e-4, abs=1e-2), board
        kinds[not oracle.empty_cells(board), oracle.is_over(board)] += 1
    assert all(kinds[kind] for kind in [(False, False), (True, False), (True, True)])


@pytest.mark.parametrize(
    ("depth", "up", "left"), [(1, -4000.0, -4000.0), (2, -3596.4, 0.0), (3, 3.6, 0.0)]
)
def test_finished_games_have_value_0_even_if_all_others_are_negative(
    depth: int, up: float, left: float
) -> None:
    """Every afterstate has the network's value -4000; the rest is worked out by hand.

    To the left, row 1 becomes (16 32 64 .) and any tile ends the game. Upwards, column 1 becomes
    (8 1024 2 .): a 4 ends the game; a 2, in 0.9, can be merged for 4. Two plies are worth
    0.9 * (4 - 4000). With three, the merged column is (8 1024 4 .), where the 2 ends the game and
    the 4, in 0.1, leads to 8 - 4000; or (. 8 1024 4), which any tile ends: better, 0.9 * 4.
    """
    board = from_text("_ 16 32 64 / 8 128 256 512 / 1024 2048 4096 8192 / 2 16384 128 32")
    values = ValueNetAgent(Constant(-4.0), depth, value_scale=1000).evaluate(board)
    assert values == pytest.approx([up, ILLEGAL, ILLEGAL, left], rel=1e-5)


# Search, compared with that of N-tuple networks


@pytest.fixture(scope="module")
def twins() -> tuple[Network, nn.Module]:
    """Return the same values as an N-tuple network of single cells and as a torch network."""
    tuples = network([[cell] for cell in range(16)], symmetric=False)
    tuples.weights[:] = np.random.default_rng(1).normal(0, 30, tuples.weights.size)
    net = Linear()
    with torch.no_grad():
        net.body.weight[0] = torch.from_numpy(tuples.weights.reshape(16, 16).T.reshape(-1).copy())
    return tuples, net


@pytest.mark.parametrize(("depth", "n_empty"), [(1, 10), (2, 8), (3, 4)])
def test_values_are_those_of_the_search_of_an_ntuple_network(
    twins: tuple[Network, nn.Module], depth: int, n_empty: int
) -> None:
    tuples, net = twins
    rng = random.Random(depth)
    boards = word_list([late_board(rng, n_empty, top=11) for _ in range(4)])
    expected = ExpectimaxAgent(tuples, depth, cutoff=0).evaluate(boards)
    result = ValueNetAgent(net, depth).evaluate(boards)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-2)
    assert np.isfinite(expected).any(axis=1).all()


def test_games_are_those_of_the_greedy_player_of_an_ntuple_network(
    twins: tuple[Network, nn.Module],
) -> None:
    tuples, net = twins
    expected, result = (play(player, 10, 1) for player in (NTupleAgent(tuples), ValueNetAgent(net)))
    assert result.scores.tolist() == expected.scores.tolist()
    assert result.n_moves.tolist() == expected.n_moves.tolist()


# Batches


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_batch_size_changes_no_value(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    rng = random.Random(1)
    n_boards, n_empty = {1: (50, 8), 2: (10, 4), 3: (3, 1)}[depth]
    boards = word_list([late_board(rng, n_empty) for _ in range(n_boards)])
    agent = ValueNetAgent(tiny, depth)
    whole, n_evaluated = agent.evaluate(boards), sum(tiny.batch_sizes)
    for size in (16, 40):
        tiny.batch_sizes.clear()
        monkeypatch.setattr(value_net, "CHUNK", size)
        np.testing.assert_allclose(agent.evaluate(boards), whole, rtol=1e-5, atol=1e-5)
        assert max(tiny.batch_sizes) <= size
        assert sum(tiny.batch_sizes) >= n_evaluated > size


def test_equal_afterstates_are_evaluated_once(tiny: Tiny) -> None:
    """Mirrored, a board with one tile has other moves to the same afterstates."""
    board = from_text("_ _ _ _ / _ 2 _ _ / _ _ _ _ / _ _ _ _")
    ValueNetAgent(tiny).evaluate([board] * 100)
    assert tiny.batch_sizes == [4]
    board = from_text("2 _ _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _")  # only right and down
    ValueNetAgent(tiny).evaluate([board, from_text("_ 2 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _")])
    assert tiny.batch_sizes == [4, 4]  # left, right and twice down; both boards share right


def test_values_of_a_board_do_not_depend_on_its_batch(tiny: Tiny) -> None:
    rng = random.Random(2)
    boards = word_list([late_board(rng, 2) for _ in range(12)]).reshape(3, 4)
    agent = ValueNetAgent(tiny, 2)
    values = agent.evaluate(boards)
    assert values.shape == (3, 4, 4)
    for i, j in np.ndindex(3, 4):
        assert agent.evaluate(boards[i, j]) == pytest.approx(values[i, j], rel=1e-5)


class Counting(nn.Module):
    """A module without parameters, whose values are numbers of empty cells."""

    def __init__(self, n_axes: int = 1) -> None:
        super().__init__()
        self.n_axes = n_axes

    def forward(self, planes: Tensor) -> Tensor:
        """Return the numbers, `[n]`, or with a second axis `[n, 1]`."""
        values = planes[:, 0].sum((1, 2))
        return values if self.n_axes == 1 else values[:, None]


def test_a_module_needs_no_parameters() -> None:
    agent = ValueNetAgent(Counting())
    board = from_text("2 2 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _")
    assert agent.evaluate(board).tolist() == [-np.inf, 4 + 15, 14, 4 + 15]


@pytest.mark.parametrize("symmetric", [False, True])
def test_outputs_of_a_wrong_shape_are_refused(symmetric: bool) -> None:
    agent = ValueNetAgent(Counting(2), symmetric=symmetric)
    with pytest.raises(ValueError, match=r"network must return \[\d+\] values, got \[\d+, 1\]"):
        agent.act(0x11)


def test_no_boards_have_no_values(tiny: Tiny) -> None:
    for depth in (1, 2, 3):
        agent = ValueNetAgent(tiny, depth)
        assert agent.evaluate(np.empty((0, 2), np.uint64)).shape == (0, 2, 4)
        assert agent.act(np.empty(0, np.uint64)).shape == (0,)


# Outcomes


def test_outcomes_are_those_of_the_environment() -> None:
    rng = random.Random(3)
    afters = [late_board(rng, n_empty, top=15) for n_empty in range(1, 17)]
    boards, origins, chances = outcomes(torch_rules.from_words(word_list(afters)))
    assert len(boards) == 2 * sum(range(1, 17))
    sums = torch.zeros(16).index_add(0, origins, chances)
    assert sums.tolist() == pytest.approx([1.0] * 16)
    env = Game2048Env()
    for number, after in enumerate(afters):
        mine = torch_rules.to_words(boards[origins == number]).tolist()
        result = dict(zip(mine, chances[origins == number].tolist(), strict=True))
        assert len(result) == len(mine)
        others, probabilities = env.outcomes(np.array(after, np.uint8))
        expected = dict(zip(words(others).tolist(), probabilities.tolist(), strict=True))
        assert result == pytest.approx(expected)


def test_no_afterstates_have_no_outcomes() -> None:
    assert [len(part) for part in outcomes(torch.empty(0, dtype=torch.int64))] == [0, 0, 0]


# Evaluation


def test_evaluate_uses_batches_of_the_chunk_size(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    boards = torch_rules.start((50,), torch.Generator().manual_seed(1))
    whole = tiny(planes(boards)).detach()
    tiny.batch_sizes.clear()
    monkeypatch.setattr(value_net, "CHUNK", 20)
    values = evaluate(tiny, boards)
    assert tiny.batch_sizes == [20, 20, 10]
    assert values.tolist() == pytest.approx(whole.tolist(), rel=1e-5, abs=1e-5)
    assert not values.requires_grad
    assert evaluate(tiny, boards[:0]).shape == (0,)


def test_with_bfloat16_values_are_coarser_but_float32(tiny: Tiny) -> None:
    boards = torch_rules.start((200,), torch.Generator().manual_seed(1))
    exact = evaluate(tiny, boards)
    with torch.autocast("cpu", torch.bfloat16):
        rough = evaluate(tiny, boards)
    assert rough.dtype == torch.float32
    assert not torch.equal(rough, exact)
    assert rough.tolist() == pytest.approx(exact.tolist(), rel=0.05, abs=0.2)


@on_devices
def test_the_player_computes_in_bfloat16_if_set(tiny: Tiny, device: str) -> None:
    rng = random.Random(4)
    boards = word_list([late_board(rng, 6) for _ in range(100)])
    agents = [ValueNetAgent(tiny, device=device, bf16=bf16) for bf16 in (False, True)]
    exact, rough = (agent.evaluate(boards) for agent in agents)
    legal = np.isfinite(exact)
    assert (np.isfinite(rough) == legal).all()
    assert not np.array_equal(rough, exact)
    np.testing.assert_allclose(rough[legal], exact[legal], rtol=0.05, atol=0.3)


# The player


@pytest.mark.parametrize("depth", [1, 2])
def test_the_player_chooses_the_move_with_the_largest_value(tiny: Tiny, depth: int) -> None:
    rng = random.Random(5)
    boards = word_list([late_board(rng, 3) for _ in range(30)])
    agent = ValueNetAgent(tiny, depth, value_scale=10)
    actions, values = agent.act(boards), agent.evaluate(boards)
    assert actions.dtype == np.int8
    assert actions.tolist() == values.argmax(-1).tolist()
    assert len(set(actions.tolist())) == 4
    assert agent.act(boards[0]) == actions[0]


def test_symmetric_values_are_means_over_the_symmetric_boards(tiny: Tiny) -> None:
    rng = random.Random(5)
    boards = [late_board(rng, n_empty) for n_empty in (1, 4, 7)]
    plain = ValueNetAgent(tiny, value_scale=50.0)
    mean = ValueNetAgent(tiny, value_scale=50.0, symmetric=True)
    estimates = mean.estimate(word_list(boards))
    for board, value in zip(boards, estimates.tolist(), strict=True):
        eight = plain.estimate(word_list(symmetric_boards(board)))
        assert value == pytest.approx(eight.mean(), rel=1e-5)
        assert eight.std() > 1
        four = mean.evaluate(oracle.to_word(board))
        for action in oracle.legal_moves(board):
            after, reward = oracle.move(board, action)
            eight = plain.estimate(word_list(symmetric_boards(after)))
            assert four[action] == pytest.approx(reward + eight.mean(), rel=1e-5, abs=1e-3)
    deep = ValueNetAgent(tiny, 2, value_scale=50.0, symmetric=True)
    best = [deep.evaluate(each).max() for each in word_list(symmetric_boards(boards[0]))]
    assert best == pytest.approx([best[0]] * 8, rel=1e-5)


@on_devices
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_player_uses_its_device_or_that_of_the_network(
    tiny: Tiny, tmp_path: Path, depth: int, device: str
) -> None:
    nets.save(tiny, tmp_path / "net.safetensors")
    rng = random.Random(9)
    boards = word_list([late_board(rng, 1) for _ in range(4)])
    expected = ValueNetAgent(tmp_path / "net.safetensors", depth).evaluate(boards)
    loaded = ValueNetAgent(tmp_path / "net.safetensors", depth, device)
    for agent in (loaded, ValueNetAgent(tiny.to(device), depth)):
        assert next(agent.network.parameters()).device.type == device
        np.testing.assert_allclose(agent.evaluate(boards), expected, rtol=1e-4, atol=1e-3)
        assert agent.act(boards).tolist() == expected.argmax(-1).tolist()


def test_a_larger_value_scale_makes_rewards_count_less(tiny: Tiny) -> None:
    rng = random.Random(6)
    boards = word_list([late_board(rng, 3) for _ in range(50)])
    by_reward, by_value = (
        ValueNetAgent(tiny, value_scale=value_scale) for value_scale in (1e-6, 1e6)
    )
    afters, rewards = torch_rules.afterstates(torch_rules.from_words(boards))
    illegal = afters == torch_rules.from_words(boards)[:, None]
    most = rewards.masked_fill(illegal, -1).max(1).values
    selected = torch.from_numpy(by_reward.act(boards).astype(np.int64))
    assert torch.equal(rewards.gather(1, selected[:, None])[:, 0], most)
    estimates = evaluate(tiny, afters.reshape(-1)).reshape(-1, 4).masked_fill(illegal, ILLEGAL)
    assert by_value.act(boards).tolist() == estimates.argmax(1).tolist()


def test_predict_returns_the_moves_of_act(tiny: Tiny) -> None:
    rng = random.Random(7)
    cells = np.array([late_board(rng, 5, top=11) for _ in range(6)], np.uint8)
    agent = ValueNetAgent(tiny)
    actions, state = agent.predict(cells, state="any")
    assert state == "any"
    assert actions.tolist() == agent.act(words(cells)).tolist()
    one_hot = np.equal(cells[:, None], np.arange(18)[:, None, None]).astype(np.float32)
    assert agent.predict(one_hot)[0].tolist() == actions.tolist()
    assert agent.predict(cells[0])[0] == actions[0]


def test_a_board_with_a_tile_above_32768_is_downgraded(tiny: Tiny) -> None:
    rng = random.Random(8)
    cells = np.array([late_board(rng, 4) for _ in range(10)], np.uint8)
    cells[:, 0, 0] = 17
    low = np.array([oracle.downgrade(board) for board in cells.tolist()], np.uint8)
    assert low.max() <= 15
    agent = ValueNetAgent(tiny)
    assert agent.predict(cells)[0].tolist() == agent.predict(low)[0].tolist()


# Files and settings


def test_the_value_scale_is_read_from_the_file(tiny: Tiny, tmp_path: Path) -> None:
    nets.save(tiny, tmp_path / "scaled.safetensors", value_scale=250.0)
    nets.save(tiny, tmp_path / "plain.safetensors")
    assert ValueNetAgent(tmp_path / "scaled.safetensors").value_scale == 250
    assert ValueNetAgent(str(tmp_path / "scaled.safetensors"), value_scale=3).value_scale == 3
    assert (
        ValueNetAgent(tmp_path / "plain.safetensors").value_scale
        == ValueNetAgent(tiny).value_scale
        == 1
    )
    board = from_text("2 2 4 4 / _ _ _ _ / _ _ _ _ / 8 8 _ _")
    from_file = ValueNetAgent(tmp_path / "scaled.safetensors", 2).evaluate(board)
    assert from_file.tolist() == ValueNetAgent(tiny, 2, value_scale=250).evaluate(board).tolist()


@pytest.mark.parametrize("depth", [0, 4, -1, 2.5, "2", True, None])
def test_wrong_depths_are_refused(tiny: Tiny, depth: Any) -> None:
    with pytest.raises(ValueError, match="depth"):
        ValueNetAgent(tiny, depth)


def test_the_value_scale_is_read_under_its_earlier_name_unit(tiny: Tiny, tmp_path: Path) -> None:
    nets.save(tiny, tmp_path / "net.safetensors", unit=250.0)
    assert ValueNetAgent(tmp_path / "net.safetensors").value_scale == 250
    assert ValueNetAgent().value_scale == 1000  # the pretrained file


@pytest.mark.parametrize(
    ("earlier", "name"), [({"unit": 5.0}, "value_scale"), ({"mixed": True}, "bf16")]
)
def test_errors_of_earlier_setting_names_suggest_the_name(
    earlier: dict[str, Any], name: str
) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{name}'"):
        agents.make("value-net", **earlier)


@pytest.mark.parametrize("name", ["bf16", "symmetric"])
@pytest.mark.parametrize("wrong", ["False", 0, None])
def test_flags_must_be_bool(tiny: Tiny, name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=name):
        ValueNetAgent(tiny, **{name: wrong})


@pytest.mark.parametrize("value_scale", [0, -1.0, float("inf"), float("nan"), "1000"])
def test_wrong_value_scales_are_refused(tiny: Tiny, tmp_path: Path, value_scale: Any) -> None:
    with pytest.raises(ValueError, match="value_scale"):
        ValueNetAgent(tiny, value_scale=value_scale)
    nets.save(tiny, tmp_path / "net.safetensors", value_scale=value_scale)
    with pytest.raises(ValueError, match="value_scale"):
        ValueNetAgent(tmp_path / "net.safetensors")


@pytest.mark.parametrize("value", [-3e38, 3e38, -3e35])
@pytest.mark.parametrize("symmetric", [False, True])
def test_outputs_that_overflow_lead_to_legal_moves(value: float, symmetric: bool) -> None:
    board = from_text("2 _ _ _/4 _ _ _/2 _ _ _/4 _ _ _")  # up and down are illegal
    for depth in (1, 2):
        player = ValueNetAgent(Constant(value), depth=depth, value_scale=1e3, symmetric=symmetric)
        assert player.act([board])[0] == 1
    assert abs(player.estimate([board])[0]) == pytest.approx(1e30)
    agents.make("mc-softmax", network=player, simulations=3, seed=1).act([board])


def test_unknown_devices_are_refused(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match=r"device must be a name .* got 'abacus'"):
        ValueNetAgent(tiny, device="abacus")


def test_the_file_of_a_policy_network_is_refused(tmp_path: Path) -> None:
    nets.save(PolicyCNN(), tmp_path / "policy.safetensors")
    with pytest.raises(ValueError, match=r"policy\.safetensors .*PolicyCNN"):
        ValueNetAgent(tmp_path / "policy.safetensors")


def test_files_that_are_missing_or_damaged_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ValueNetAgent(tmp_path / "net.safetensors")
    (tmp_path / "net.safetensors").write_bytes(b"no network")
    with pytest.raises(ValueError, match=r"net\.safetensors"):
        ValueNetAgent(tmp_path / "net.safetensors")
    with torch.no_grad():
        tiny.last.bias.fill_(torch.nan)
    nets.save(tiny, tmp_path / "net.safetensors")
    with pytest.raises(ValueError, match="NaN"):
        ValueNetAgent(tmp_path / "net.safetensors")


def test_invalid_boards_are_refused(tiny: Tiny) -> None:
    for wrong in (-1, 1.5, [[2, 4]] * 2 + [1 << 64]):
        with pytest.raises(ValueError, match="board"):
            ValueNetAgent(tiny).evaluate(wrong)
