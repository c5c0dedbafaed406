"""Policy networks: their layers by a second calculation, their files, and the players by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")

import torch
from torch import Tensor, nn

from afterstate.agents import nets
from afterstate.agents.files import NotInWheelError
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values import policy_net
from afterstate.agents.game2048.values.planes import planes
from afterstate.agents.game2048.values.policy_net import (
    PolicyCNN,
    PolicyNetAgent,
    load,
    network,
    probabilities,
)
from afterstate.agents.game2048.values.value_net import CNN22
from afterstate.envs.game2048 import rules, torch_rules
from afterstate.envs.words import Words
from tests.support.devices import on_devices

pytestmark = pytest.mark.usefixtures("one_thread")


UP, RIGHT, DOWN, LEFT = range(4)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks of two and five convolutions with few filters."""
    monkeypatch.setitem(policy_net.CHANNELS, 2, 12)
    monkeypatch.setitem(policy_net.CHANNELS, 5, 8)


class FixedLogits(nn.Module):
    """Gives all boards the same logits."""

    def __init__(self, *logits: float) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {}
        self.logits = nn.Parameter(torch.tensor(logits, dtype=torch.float32))
        self.sizes: list[int] = []  # of the batches

    def forward(self, planes: Tensor) -> Tensor:
        """Return the logits of the moves."""
        self.sizes.append(len(planes))
        return self.logits.repeat(len(planes), 1)


def random_boards(n: int) -> Words:
    """Return boards with a legal move."""
    rng = np.random.default_rng(1)
    cells = rng.integers(16, size=(2 * n, 4, 4)) * (rng.random((2 * n, 4, 4)) < 0.8)
    words = rules.words(cells.astype(np.uint8))
    words = words[[not rules.is_over(word, rules.field(4, 4)) for word in words]][:n]
    assert len(words) == n
    return words


def legal_of(words: Words) -> npt.NDArray[np.bool_]:
    """Return the legal moves, by `rules`, `[n, 4]`."""
    bits = np.array([rules.legal(word, rules.field(4, 4)) for word in words])
    return np.asarray(bits[:, None] >> np.arange(4) & 1 == 1)


def seeded(layers: int) -> PolicyCNN:
    """Return a network with seeded weights and nonzero biases."""
    torch.manual_seed(layers)
    net = PolicyCNN(layers)
    for name, weights in net.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(weights, std=0.3)
    return net


# Networks


@pytest.mark.parametrize(
    ("layers", "channels", "n"),
    [(2, 436, 817_068), (3, 312, 819_628), (4, 256, 820_228), (5, 224, 832_612)],
)
def test_networks_have_the_published_numbers_of_weights_and_filters(
    layers: int, channels: int, n: int
) -> None:
    net = network("PolicyCNN", layers=layers)
    assert sum(weights.numel() for weights in net.parameters()) == n
    convolutions = [each for each in net.modules() if isinstance(each, nn.Conv2d)]
    shapes = [tuple(each.weight.shape) for each in convolutions]
    assert shapes == [(channels, 16, 2, 2)] + [(channels, channels, 2, 2)] * (layers - 1)
    assert net.settings == {"layers": layers}
    assert not net.training


def test_five_convolutions_are_the_default() -> None:
    assert PolicyCNN().settings == {"layers": 5}


def by_hand(net: nn.Module, board: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the logits of planes `[16, 4, 4]`, by loops, as in Matsuzaki and Teramura."""
    weights = [each.detach().double().numpy() for each in net.parameters()]
    values = board.astype(np.float64)
    for kernel, bias in zip(weights[0:-2:2], weights[1:-2:2], strict=True):
        result = np.zeros((len(kernel), 4, 4))
        for row in range(4):
            for col in range(4):
                result[:, row, col] = bias
                for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
                    if row + down < 4 and col + right < 4:  # the padding is 0
                        seen = values[:, row + down, col + right]
                        result[:, row, col] += kernel[:, :, down, right] @ seen
        values = np.maximum(result, 0)
    result = weights[-2] @ values.reshape(-1) + weights[-1]
    return np.asarray(result)


@pytest.mark.parametrize("layers", [2, 5])
def test_logits_are_those_of_a_calculation_by_hand(layers: int) -> None:
    net, boards = seeded(layers), random_boards(4)
    boards[0] = 0  # the empty board, which differs most from the padding
    cells = rules.cells(boards)
    shown = (cells[:, None] == np.arange(16)[:, None, None]).astype(np.float32)
    with torch.inference_mode():
        result = net(torch.from_numpy(shown)).numpy()
    expected = np.array([by_hand(net, each) for each in shown])
    assert np.ptp(expected, axis=0).min() > 0.1
    np.testing.assert_allclose(result, expected, atol=1e-4)


def test_the_padding_is_zero_in_the_plane_of_empty_cells() -> None:
    """A filter that counts the empty cells of its 2x2, on the empty board."""
    net, seen = PolicyCNN(2), []
    first = net.body[1]
    assert isinstance(first, nn.Conv2d)
    nn.init.zeros_(first.weight)
    first.weight.data[7, 0] = 1
    net.body[2].register_forward_hook(lambda _, __, result: seen.append(result[0, 7].tolist()))
    with torch.inference_mode():
        net(planes(torch.zeros(1, dtype=torch.int64)))
    assert seen == [[[4, 4, 4, 2], [4, 4, 4, 2], [4, 4, 4, 2], [2, 2, 2, 1]]]


def test_weights_are_drawn_as_by_he_et_al_and_biases_begin_at_0() -> None:
    torch.manual_seed(1)
    for name, weights in PolicyCNN(3).named_parameters():
        if name.endswith("bias"):
            assert not weights.any()
        else:
            spread = (2 / weights[0].numel()) ** 0.5
            assert float(weights.detach().std()) == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize(
    ("name", "settings", "match"),
    [
        ("CNN22", {}, "network"),
        ("PolicyCNN", {"layers": 1}, "layers"),
        ("PolicyCNN", {"layers": 6}, "layers"),
        ("PolicyCNN", {"layers": "5"}, "layers"),
        ("PolicyCNN", {"layers": None}, "layers"),
        ("PolicyCNN", {"layers": [5]}, "layers"),
        ("PolicyCNN", {"channels": 4}, "PolicyCNN has no setting 'channels'"),
    ],
)
def test_unknown_networks_and_settings_are_refused(
    name: str, settings: dict[str, Any], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        network(name, **settings)


# Files


@pytest.mark.usefixtures("small")
def test_a_network_comes_back_from_its_file(tmp_path: Path) -> None:
    path, net, boards = tmp_path / "net.safetensors", seeded(5), random_boards(20)
    nets.save(net, path, moves=7)
    again = load(path)
    assert nets.metadata(path) == {"network": "PolicyCNN", "settings": {"layers": 5}, "moves": 7}
    assert isinstance(again, PolicyCNN)
    assert not again.training
    shown = planes(torch_rules.from_words(boards))
    with torch.inference_mode():
        assert torch.equal(net(shown), again(shown))


def test_the_file_of_another_kind_of_network_is_refused(tmp_path: Path) -> None:
    nets.save(CNN22(), tmp_path / "value.safetensors")
    with pytest.raises(ValueError, match=r"value\.safetensors .*CNN22"):
        load(tmp_path / "value.safetensors")


# Probabilities


@on_devices
def test_probabilities_are_the_softmax_of_all_four_logits(device: str) -> None:
    """Logits ln 1, ln 2, ln 3, ln 4: tenths, also of moves that are illegal."""
    net = FixedLogits(*np.log([1, 2, 3, 4])).to(device)
    boards = random_boards(50)
    assert not legal_of(boards).all()
    result = probabilities(net, torch_rules.from_words(boards))
    assert result.dtype == torch.float32
    np.testing.assert_allclose(result.cpu().numpy(), [[0.1, 0.2, 0.3, 0.4]] * 50, rtol=1e-5)
    by_player = PolicyNetAgent(net, device=device).probabilities(boards)
    np.testing.assert_array_equal(by_player, result.cpu().numpy())


@pytest.mark.usefixtures("small")
def test_logits_of_a_board_do_not_depend_on_its_batch() -> None:
    """Also not on the number of boards."""
    net, boards = seeded(2), random_boards(30)
    together = PolicyNetAgent(net).probabilities(boards)
    np.testing.assert_allclose(together.sum(1), 1, rtol=1e-5)
    assert len({row.tobytes() for row in together}) == 30
    alone = np.concatenate(
        [PolicyNetAgent(net).probabilities(boards[i : i + 1]) for i in range(30)]
    )
    np.testing.assert_allclose(together, alone, atol=1e-6)
    n = policy_net.CHUNK // 15
    many = PolicyNetAgent(net).probabilities(np.tile(boards, n))
    np.testing.assert_allclose(many, np.tile(together, (n, 1)), atol=1e-6)


def test_batches_have_the_chunk_size() -> None:
    net = FixedLogits(0, 0, 0, 0)
    PolicyNetAgent(net).act(np.resize(random_boards(10), 2 * policy_net.CHUNK + 1))
    assert net.sizes == [1024, 1024, 1]


def test_without_boards_there_are_no_moves() -> None:
    agent = PolicyNetAgent(FixedLogits(0, 0, 0, 0))
    none = np.empty(0, np.uint64)
    assert agent.act(none).shape == (0,)
    assert agent.probabilities(none).shape == (0, 4)


# The player


@pytest.mark.parametrize("best", [UP, RIGHT, DOWN, LEFT])
def test_logits_are_those_of_up_right_down_and_left(best: int) -> None:
    """One tile in the middle can go everywhere; it moves to the edge with the largest logit."""
    board = rules.from_text("0 0 0 0 / 0 2 0 0 / 0 0 0 0 / 0 0 0 0")
    action = int(PolicyNetAgent(FixedLogits(*np.eye(4)[best])).act(np.uint64(board)))
    after, _ = rules.move(np.uint64(board), action, rules.table())
    row, col = {UP: (0, 1), RIGHT: (1, 3), DOWN: (3, 1), LEFT: (1, 0)}[best]
    assert rules.cells(np.uint64(after))[row, col] == 1


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("2 0 0 0 / 4 0 0 0 / 8 0 0 0 / 16 0 0 0", [RIGHT]),
        ("0 0 0 0 / 0 0 0 0 / 0 0 0 0 / 2 4 8 16", [UP]),
        ("2 4 8 2 / 4 8 16 4 / 8 16 32 2 / 16 32 64 2", [UP, DOWN]),
        ("0 0 0 0 / 0 0 0 0 / 0 0 0 0 / 0 0 0 2", [UP, LEFT]),
    ],
)
def test_illegal_moves_are_not_played_whatever_their_probability(
    text: str, legal: list[int]
) -> None:
    """The player takes the legal move with the largest logit."""
    word = np.uint64(rules.from_text(text))
    assert np.flatnonzero(legal_of(np.array([word]))[0]).tolist() == legal
    for wanted in legal:
        logits = np.full(4, 50.0)
        logits[legal] = [2.0 if action == wanted else 1.0 for action in legal]
        assert int(PolicyNetAgent(FixedLogits(*logits)).act(word)) == wanted


def test_moves_are_compared_by_logits_when_probabilities_underflow() -> None:
    """Legal are up and left, e**-200 and e**-150 times as probable as what is not."""
    board = np.uint64(rules.from_text("0 0 0 0 / 0 0 0 0 / 0 0 0 0 / 0 0 0 2"))
    assert int(PolicyNetAgent(FixedLogits(-200, 0, 0, -150)).act(board)) == LEFT


@on_devices
def test_the_most_probable_legal_move_is_played(small: None, tmp_path: Path, device: str) -> None:
    net, boards = seeded(2), random_boards(500)
    nets.save(net, tmp_path / "net.safetensors")
    agent, legal = PolicyNetAgent(tmp_path / "net.safetensors", device=device), legal_of(boards)
    result = agent.probabilities(boards)
    expected = np.where(legal, result, -1).argmax(1)
    assert (expected != result.argmax(1)).sum() > 5
    actions = agent.act(boards)
    assert actions.dtype == np.int8
    assert actions.tolist() == expected.tolist()
    shown = rules.cells(boards[:3])
    assert agent.predict(shown)[0].tolist() == expected[:3].tolist()


@pytest.mark.usefixtures("small")
def test_it_plays_whole_games_by_the_rules() -> None:
    """`play` raises where a move is illegal."""
    games = play(PolicyNetAgent(seeded(5)), 20, 1)
    assert games.n_moves.min() > 20


@pytest.mark.usefixtures("small")
def test_layers_select_the_pretrained_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boards = random_boards(5)
    for layers in (2, 5):
        nets.save(seeded(layers), tmp_path / f"{layers}.safetensors")
        monkeypatch.setitem(policy_net.PRETRAINED, layers, tmp_path / f"{layers}.safetensors")
    for agent, layers in [
        (PolicyNetAgent(), 5),
        (PolicyNetAgent(layers=5), 5),
        (PolicyNetAgent(layers=2), 2),
        (PolicyNetAgent(seeded(2)), 2),
        (PolicyNetAgent(str(tmp_path / "2.safetensors")), 2),
    ]:
        expected = PolicyNetAgent(seeded(layers)).probabilities(boards)
        np.testing.assert_array_equal(agent.probabilities(boards), expected)


def test_pretrained_networks_are_files_of_the_package() -> None:
    folder = Path(policy_net.__file__).parents[1] / "pretrained"
    pretrained = policy_net.PRETRAINED | policy_net.BASELINES
    assert set(pretrained) == {2, 5, "ppo", "maskable-ppo", "dqn", "qrdqn"}
    assert {path.parent for path in pretrained.values()} == {folder}


def test_baselines_play_by_their_names() -> None:
    for algorithm, path in policy_net.BASELINES.items():
        assert nets.metadata(path)["network"] == "ActorCNN"
        agent, same = PolicyNetAgent(algorithm=algorithm), PolicyNetAgent(path)
        boards = random_boards(5)
        np.testing.assert_array_equal(agent.probabilities(boards), same.probabilities(boards))


def test_the_error_for_weights_that_are_not_in_the_wheel_says_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(policy_net.BASELINES, "dqn", tmp_path / "dqn.safetensors")
    with pytest.raises(NotInWheelError) as raised:
        PolicyNetAgent(algorithm="dqn")
    assert str(raised.value).startswith(
        "dqn.safetensors is not in the wheel: save it from https://"
    )
    assert f" to {tmp_path}, or give its path as net" in str(raised.value)


@pytest.mark.parametrize("layers", [3, 4, 1, "5"])
def test_layers_without_a_pretrained_network_are_refused(layers: Any) -> None:
    with pytest.raises(ValueError, match="layers"):
        PolicyNetAgent(layers=layers)


def test_unknown_algorithms_are_refused() -> None:
    with pytest.raises(ValueError, match="algorithm"):
        PolicyNetAgent(algorithm="a2c")


def test_more_than_one_of_net_layers_algorithm_is_refused() -> None:
    for settings in ({"layers": 2}, {"algorithm": "ppo"}):
        with pytest.raises(ValueError, match="only one"):
            PolicyNetAgent(FixedLogits(0, 0, 0, 0), **settings)
    with pytest.raises(ValueError, match="only one"):
        PolicyNetAgent(layers=2, algorithm="ppo")
    with pytest.raises(ValueError, match="net"):
        PolicyNetAgent(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["foo", "", "meta", "cuda:99"])
def test_unknown_devices_are_refused(tmp_path: Path, device: str) -> None:
    nets.save(FixedLogits(0, 0, 0, 0), tmp_path / "net.safetensors")
    for net in (FixedLogits(0, 0, 0, 0), tmp_path / "net.safetensors", None):
        with pytest.raises(ValueError, match=f"device .*'{device}'"):
            PolicyNetAgent(net, device=device)


@pytest.mark.usefixtures("small")
def test_a_damaged_or_missing_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    with pytest.raises(FileNotFoundError, match=r"net\.safetensors"):
        PolicyNetAgent(path)
    nets.save(seeded(2), path)
    whole = path.read_bytes()
    for data in (b"", b"no network", whole[:-1], whole[:100], b"\xff" * 8 + whole[8:]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"net\.safetensors"):
            PolicyNetAgent(path)


def test_a_file_of_weights_of_another_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it had been written when networks had other numbers of filters."""
    with monkeypatch.context() as patched:
        patched.setitem(policy_net.CHANNELS, 2, 12)
        nets.save(PolicyCNN(2), tmp_path / "net.safetensors")
    with pytest.raises(ValueError, match="weights"):
        load(tmp_path / "net.safetensors")


@pytest.mark.usefixtures("small")
def test_weights_with_nan_are_refused(tmp_path: Path) -> None:
    net = seeded(2)
    next(net.parameters()).data[0, 0, 0, 0] = float("nan")
    nets.save(net, tmp_path / "net.safetensors")
    with pytest.raises(ValueError, match="NaN"):
        PolicyNetAgent(tmp_path / "net.safetensors")
