"""Tests of the analyses of policy networks: worked by hand, and against a naive oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from afterstate.agents.game2048.values import policy_net, value_net
from afterstate.agents.game2048.values.planes import planes as to_planes
from afterstate.agents.game2048.values.policy_net import CHANNELS, PolicyCNN, probabilities
from afterstate.envs.game2048 import rules, torch_rules
from benchmarks.experiments.policy_nets import analysis
from benchmarks.experiments.policy_nets.analysis import CELLS, HEURISTICS, PAPER_BOARDS, TILES, Unit

UP, RIGHT, DOWN, LEFT = range(4)

Floats = npt.NDArray[np.float64]

pytestmark = pytest.mark.usefixtures("one_thread")


def board_of(text: str) -> Tensor:
    """Return a board of tiles, `int64[]`."""
    return torch_rules.from_words(np.array(rules.from_text(text), np.uint64))


def boards_of(*texts: str) -> Tensor:
    """Return boards of tiles, `int64[n]`."""
    return torch.stack([board_of(text) for text in texts])


class FixedPolicy(nn.Module):
    """Gives the moves of the first, second, ... board the given probabilities."""

    def __init__(self, *rows: Sequence[float]) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(rows).log())

    def forward(self, planes: Tensor) -> Tensor:
        """Return the logits."""
        return self.logits[: len(planes)]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make policy networks with few filters."""
    monkeypatch.setitem(CHANNELS, 2, 6)
    monkeypatch.setitem(CHANNELS, 5, 3)


@pytest.mark.parametrize(
    ("cell", "row", "column"), [("NW", 0, 0), ("NE", 0, 1), ("SW", 1, 0), ("SE", 1, 1)]
)
def test_weights_of_a_filter_are_in_the_order_of_its_cells_and_tiles(
    tiny: None, cell: str, row: int, column: int
) -> None:
    net = PolicyCNN(2)
    convolution: Any = net.body[1]
    nn.init.zeros_(convolution.weight)
    with torch.no_grad():
        convolution.weight[5, 2, row, column] = 7.0
    weights = analysis.first_layer(net)
    assert weights.shape == (6, 4, 16) and weights.dtype == np.float32
    assert weights[5, CELLS.index(cell), TILES.index("4")] == 7 and np.count_nonzero(weights) == 1
    # The unit that has the only 4 in this cell of its four stands as far up and left of it.
    first = analysis.activations(net, boards_of("_ _ _ _ / _ _ 4 _ / _ 2 _ _ / _ _ _ 8"))[1]
    assert first.reshape(6, 4, 4).nonzero().tolist() == [[5, 1 - row, 2 - column]]


def test_the_values_of_a_cell_are_empty_and_the_tiles_to_32768() -> None:
    assert len(TILES) == 16
    for value, tile in enumerate(TILES):
        board = board_of(f"{'_' if tile == 'empty' else tile} _ _ _" + 3 * " / _ _ _ _")
        assert to_planes(board)[value, 0, 0] == 1


@pytest.mark.parametrize(
    "net", [nn.Linear(16, 4), nn.Conv2d(16, 3, 3), nn.Conv2d(18, 3, 2), nn.Conv2d(16, 3, (2, 1))]
)
def test_other_filters_are_rejected(net: nn.Module) -> None:
    with pytest.raises(ValueError, match="2x2 cells of 16 planes"):
        analysis.first_layer(net)


def test_filters_are_counted_by_their_weights_above_a_threshold() -> None:
    weights = np.zeros((4, 4, 16), np.float32)
    weights[1, 0, 3], weights[1, 2, 15] = 0.25, -0.5  # two weights
    weights[2] = -0.25  # all 64
    weights[3, 1, 1:4] = 0.125  # none: they are at the threshold
    assert analysis.filters_above(weights, 0.125).tolist() == [2, 2, *[1] * 62, 0]
    assert analysis.filters_above(weights, 0.25).tolist() == [1, *[0] * 64]
    assert analysis.filters_above(weights).tolist() == [3, 3, 2, *[1] * 61, 0]  # above 0.1


def turned(filters: npt.NDArray[Any], symmetry: int) -> npt.NDArray[Any]:
    """Return filters `[..., 4, 16]` under a symmetry of boards."""
    quarters = torch_rules.symmetries(board_of("2 2 4 4 / 2 2 4 4 / 8 8 16 16 / 8 8 16 16"))[
        symmetry
    ]
    origins = torch_rules.exponents(quarters)[::3, ::3].flatten() - 1  # of NW, NE, SW, SE
    return filters[..., origins.numpy(), :]


@pytest.mark.parametrize("symmetry", range(8))
def test_the_most_similar_filter_is_found_under_any_symmetry(symmetry: int) -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(20, 4, 16)).astype(np.float32)
    pattern = turned(weights[7], symmetry).astype(np.float64)
    weights[8], weights[9] = -9 * weights[7], 0
    filter_, best, cosine = analysis.most_similar(2 * weights, pattern)
    assert (filter_, best) == (7, symmetry) and cosine == pytest.approx(1)
    np.testing.assert_array_equal(analysis.symmetric(weights)[symmetry], turned(weights, symmetry))
    np.testing.assert_array_equal(analysis.symmetric(weights[7])[symmetry], pattern)


def test_the_similarity_of_a_filter_is_a_cosine() -> None:
    weights, pattern = np.zeros((2, 4, 16), np.float32), np.zeros((4, 16))
    pattern[0, 5] = 2
    weights[0, 3, 5], weights[0, 3, 6] = 3, -4  # of the half turn: 2 * 3 / (2 * 5)
    weights[1, 0, 5], weights[1, 1, 5] = 1, 1e3  # mirrored: nearly 1
    for n, expected in ((1, (0, 3, 0.6)), (2, (1, 1, 1.0))):
        assert analysis.most_similar(weights[:n], pattern) == pytest.approx(expected, abs=1e-6)


class Small(nn.Module):
    """A convolution and a linear layer; the numbers are below."""

    def __init__(self) -> None:
        super().__init__()
        edge, convolution, full = nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(16, 2, 2), nn.Linear(32, 2)
        self.body = nn.Sequential(edge, convolution, nn.ReLU(inplace=True), nn.Flatten(), full)
        for weights in self.parameters():
            nn.init.zeros_(weights)
        with torch.no_grad():
            filters = convolution.weight  # [filter, plane, row, column]
            filters[0, 1, 0, 0], filters[0, 2, 0, 1] = 2, -1  # NW is 2, NE is 4
            filters[1, 2, 0, 0], filters[1, 0, 1, 0] = 1, 3  # NW is 4, SW is empty
            convolution.bias[0] = 0.5  # type: ignore[index]
            units = full.weight.view(2, 2, 4, 4)  # [output, filter, row, column]
            units[1, 0, 0, 0], units[1, 0, 3, 3], units[1, 0, 2, 2] = 4, -2, 2
            units[1, 1, 0, 1], units[1, 1, 3, 2] = 1, 7
            full.bias[1] = 100


SMALL_BOARD = rules.from_text("2 4 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ 2")
# The units that output 1 comes from, as (column, row)#filter:
#   (0, 0)#0 = 1 * 2 + 1 * -1 + 0.5 = 1.5   with the weight  4:  6
#   (3, 3)#0 = 1 * 2          + 0.5 = 2.5                   -2: -5   NE is padding
#   (1, 0)#1 = 1 * 1 + 1 * 3        = 4                      1:  4
#   (2, 2)#0 =                  0.5 = 0.5                    2:  1   only the bias
#   (2, 3)#1 =                      = 0                      7:  0   SW is padding, not empty
# The sum of absolute values is 16.
LAST = {(0, 0, 0): 6 / 16, (3, 3, 0): 5 / 16, (1, 0, 1): 4 / 16, (2, 2, 0): 1 / 16}
# Within the units: (0, 0)#0 has 2/3 of the 2 at (0, 0) and 1/3 of the 4 at (1, 0); (3, 3)#0 all of
# the 2 there; (1, 0)#1 has 1/4 of the 4 and 3/4 of the empty cell at (1, 1); (2, 2)#0 has nothing.
PLANES = {
    (0, 0, 1): 6 / 16 * 2 / 3,
    (1, 0, 2): 6 / 16 * 1 / 3 + 4 / 16 * 1 / 4,
    (3, 3, 1): 5 / 16,
    (1, 1, 0): 4 / 16 * 3 / 4,
}


def shares_of(shares: Floats) -> dict[tuple[int, int, int], float]:
    """Return the shares other than 0, by column, row and filter."""
    places = zip(*np.nonzero(shares), strict=True)
    return {(int(x), int(y), int(f)): float(shares[f, y, x]) for f, y, x in places}


def test_shares_of_a_small_network_are_those_worked_out_by_hand() -> None:
    last, planes = analysis.contributions(Small(), SMALL_BOARD, 1)
    assert last.shape == (2, 4, 4) and planes.shape == (16, 4, 4)
    assert shares_of(last) == pytest.approx(LAST)
    assert shares_of(planes) == pytest.approx(PLANES)
    assert last.sum() == pytest.approx(1) and planes.sum() == pytest.approx(15 / 16)


def test_only_followed_units_pass_on_their_shares() -> None:
    last, planes = analysis.contributions(Small(), SMALL_BOARD, 1, followed=[2])
    assert shares_of(last) == pytest.approx(LAST)  # (0, 0)#0 and (3, 3)#0 are followed
    expected = {(0, 0, 1): 4 / 16, (1, 0, 2): 2 / 16, (3, 3, 1): 5 / 16}
    assert shares_of(planes) == pytest.approx(expected)
    _, planes = analysis.contributions(Small(), SMALL_BOARD, 1, followed=[None, 1])
    assert shares_of(planes) == pytest.approx(PLANES)
    _, planes = analysis.contributions(Small(), SMALL_BOARD, 1, followed=[999])
    assert shares_of(planes) == pytest.approx(PLANES)


def test_shares_are_traced_back_by_the_number_of_layers() -> None:
    (last,) = analysis.contributions(Small(), SMALL_BOARD, 1, n_layers=1)
    assert shares_of(last) == pytest.approx(LAST)
    assert len(analysis.contributions(Small(), SMALL_BOARD, 1, n_layers=2)) == 2
    assert len(analysis.contributions(Small(), SMALL_BOARD, 1, n_layers=9)) == 2


def test_an_output_that_is_zero_has_no_shares() -> None:
    assert [each.sum() for each in analysis.contributions(Small(), SMALL_BOARD, 0)] == [0, 0]


def test_the_bias_of_an_output_has_no_share() -> None:
    net: Any = Small()
    with torch.no_grad():
        net.body[-1].bias[1] = -1e6
    last, planes = analysis.contributions(net, SMALL_BOARD, 1)
    assert shares_of(last) == pytest.approx(LAST) and shares_of(planes) == pytest.approx(PLANES)


def test_a_linear_layer_alone_has_shares_of_the_planes() -> None:
    net: Any = nn.Module()
    net.body = nn.Sequential(nn.Flatten(), nn.Linear(256, 1))
    nn.init.zeros_(net.body[1].weight)
    weights = net.body[1].weight.data.view(16, 4, 4)
    weights[2, 0, 1], weights[1, 3, 3], weights[0, 2, 0], weights[5] = 1, -2, 5, 9
    (planes,) = analysis.contributions(net, SMALL_BOARD, 0)
    assert shares_of(planes) == pytest.approx(
        {(1, 0, 2): 1 / 8, (3, 3, 1): 2 / 8, (0, 2, 0): 5 / 8}
    )


def layers_of(net: nn.Module, board: int) -> list[tuple[Floats, Floats]]:
    """Return the weights of the layers with weights, and their padded inputs."""
    layers: list[tuple[Floats, Floats]] = []

    def note(layer: Any, given: Any) -> None:
        x = given[0][0].clone().numpy()
        layers.append((layer.weight.numpy().astype(np.float64), x.astype(np.float64)))

    with_weights = [each for each in net.modules() if isinstance(each, (nn.Conv2d, nn.Linear))]
    hooks = [layer.register_forward_pre_hook(note) for layer in with_weights]
    with torch.no_grad():
        net(to_planes(torch_rules.from_words(np.array([board], np.uint64))))
        for hook in hooks:
            hook.remove()
        return layers


def naive_contributions(
    net: nn.Module, board: int, output: int, followed: Sequence[int | None]
) -> list[Floats]:
    """Return the shares of the inputs of each layer, computed unit by unit, with the padding."""
    layers, result = layers_of(net, board)[::-1], []
    units = {(output, 0, 0): 1.0}  # (filter, row, column): share
    for i, (weights, x) in enumerate(layers):
        shares = np.zeros_like(x)
        for (filter_, row, column), share in units.items():
            at = np.s_[:] if x.ndim == 1 else np.s_[:, row : row + 2, column : column + 2]
            products = np.abs(x[at] * weights[filter_])
            if products.sum() > 0:
                shares[at] += share * products / products.sum()
        result.append(shares)
        if i + 1 == len(layers):
            break
        n_units, shape = len(layers[i + 1][0]), layers[i + 1][1].shape
        sides = (1, 1) if len(shape) == 1 else (shape[1] - 1, shape[2] - 1)
        if x.ndim == 1:
            shares = shares.reshape(n_units, *sides)
        pairs = np.ndenumerate(shares[:, : sides[0], : sides[1]])
        best = sorted(((share, place) for place, share in pairs if share > 0), reverse=True)
        n = followed[i] if i < len(followed) else None
        units = {(f, row, column): share for share, (f, row, column) in best[:n]}
    return result


def randomly_biased(net: nn.Module) -> nn.Module:
    """Return the network with random biases."""
    for layer in net.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)) and layer.bias is not None:
            nn.init.normal_(layer.bias, std=0.2)
    return net


def check_shares(result: list[Floats], naive: list[Floats]) -> None:
    """Compare shares with naive ones, whose padding must have none."""
    for own, shares in zip(result, naive, strict=True):
        unpadded = shares[:, : own.shape[1], : own.shape[2]] if shares.ndim == 3 else shares
        assert unpadded.sum() == pytest.approx(shares.sum())
        np.testing.assert_allclose(own.ravel(), unpadded.ravel(), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    ("make", "output", "followed"),
    [
        (lambda: PolicyCNN(2), DOWN, ()),
        (lambda: PolicyCNN(2), LEFT, (28,)),
        (lambda: PolicyCNN(5), UP, ()),
        (lambda: PolicyCNN(5), DOWN, (4, None, 50, 7)),
        (value_net.CNN22, 0, ()),
        (value_net.CNN22, 0, (20, 30, None, 40)),
    ],
    ids=["k=2", "k=2 followed", "k=5", "k=5 followed", "CNN22", "CNN22 followed"],
)
def test_shares_equal_those_computed_unit_by_unit(
    make: Any, output: int, followed: Sequence[int | None]
) -> None:
    torch.manual_seed(3)
    net = randomly_biased(make())
    board = int(rules.words(np.random.default_rng(2).integers(0, 9, (4, 4)).astype(np.uint8)))
    shares = analysis.contributions(net, board, output, followed=followed)
    check_shares(shares, naive_contributions(net, board, output, followed))
    passed_on = 1.0
    for each, n in zip(shares, [*followed, *[None] * len(shares)], strict=False):
        assert each.sum() == pytest.approx(passed_on)
        passed_on = np.sort(each, axis=None)[::-1][:n].sum()


def test_negative_inputs_have_shares_as_large_as_positive_ones(tiny: None) -> None:
    torch.manual_seed(1)
    net: Any = randomly_biased(PolicyCNN(5))
    for i, layer in enumerate(net.body):
        if isinstance(layer, nn.ReLU):
            net.body[i] = nn.Identity()
    shares = analysis.contributions(net, SMALL_BOARD, LEFT)
    check_shares(shares, naive_contributions(net, SMALL_BOARD, LEFT, ()))


def test_units_of_linear_layers_are_filters_of_one_cell() -> None:
    torch.manual_seed(1)
    shares = analysis.contributions(value_net.CNN22(), SMALL_BOARD, 0)
    shapes = [(256, 1, 1), (1024, 1, 1), (512, 2, 2), (256, 3, 3), (16, 4, 4)]
    assert [each.shape for each in shares] == shapes


def test_units_are_listed_by_their_shares_as_column_row_and_filter() -> None:
    last, _ = analysis.contributions(Small(), SMALL_BOARD, 1)
    top = analysis.top_units(last, 9)
    assert [str(unit) for unit, _ in top] == ["(0, 0)#0", "(3, 3)#0", "(1, 0)#1", "(2, 2)#0"]
    assert [share for _, share in top] == pytest.approx([6 / 16, 5 / 16, 4 / 16, 1 / 16])
    assert analysis.top_units(last, 2) == top[:2]
    shares = np.zeros((3, 2, 4))
    shares[2, 1, 3], shares[0, 1, 2] = 0.25, 0.75
    assert analysis.top_units(shares, 3) == [(Unit(2, 1, 0), 0.75), (Unit(3, 1, 2), 0.25)]
    assert str(Unit(column=3, row=1, filter=154)) == "(3, 1)#154"


def test_a_network_without_a_body_is_rejected() -> None:
    with pytest.raises(ValueError, match="body"):
        analysis.contributions(nn.Linear(256, 4), SMALL_BOARD, 0)


@pytest.mark.parametrize("output", [-1, 4])
def test_outputs_out_of_range_are_rejected(tiny: None, output: int) -> None:
    with pytest.raises(ValueError, match="output"):
        analysis.contributions(PolicyCNN(2), SMALL_BOARD, output)


def test_padding_before_flatten_is_rejected() -> None:
    net: Any = nn.Module()
    net.body = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Flatten(), nn.Linear(400, 1))
    with pytest.raises(ValueError, match="padding"):
        analysis.contributions(net, SMALL_BOARD, 0)


def test_analyses_leave_the_network_unchanged(tiny: None) -> None:
    net, boards = PolicyCNN(2), boards_of(PAPER_BOARDS["5a"])
    before = probabilities(net, boards)
    analysis.contributions(net, rules.from_text(PAPER_BOARDS["5a"]), DOWN)
    analysis.activations(net, boards)
    assert torch.equal(probabilities(net, boards), before)
    assert all(weights.requires_grad for weights in net.parameters())


ALL_LEGAL = "_ _ _ _ / _ 2 _ _ / _ _ _ _ / _ _ _ _"
RIGHT_OR_DOWN = "2 _ _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _"


def test_the_most_probable_legal_move_is_chosen() -> None:
    net = FixedPolicy([0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.2, 0.3], [0.5, 0.2, 0.0, 0.3])
    boards = boards_of(ALL_LEGAL, RIGHT_OR_DOWN, RIGHT_OR_DOWN)
    assert policy_net.best_moves(net, boards).tolist() == [LEFT, DOWN, RIGHT]


def test_a_move_without_any_probability_is_chosen_if_it_alone_is_legal() -> None:
    only_down = "2 4 2 4 / _ _ _ _ / _ _ _ _ / _ _ _ _"
    moves = policy_net.best_moves(FixedPolicy([0.6, 0.4, 0.0, 0.0]), boards_of(only_down))
    assert moves.tolist() == [DOWN]


def test_agreement_is_counted_board_by_board() -> None:
    moves = torch.tensor([[0, 0, 1, 2, 3, 1], [0, 1, 1, 2, 0, 2], [0, 1, 1, 3, 1, 2]])
    #                      all  1st all 3rd none 1st
    assert analysis.agreement(moves) == analysis.Agreement(6, 2, [2, 0, 1])
    assert analysis.agreement(moves[:2]) == analysis.Agreement(6, 3, [3, 3])
    assert analysis.agreement(moves[[1, 1, 0, 1]]) == analysis.Agreement(6, 3, [0, 0, 3, 0])


def test_legal_moves_share_the_probabilities_among_them() -> None:
    net = FixedPolicy([0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0])
    boards = boards_of(ALL_LEGAL, RIGHT_OR_DOWN, RIGHT_OR_DOWN)
    expected = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0, 0.4, 0.6, 0], [0, 0, 0, 0]])
    torch.testing.assert_close(analysis.legal_probabilities(net, boards), expected)


def test_disagreements_are_in_the_order_of_the_smallest_margin() -> None:
    boards = boards_of(ALL_LEGAL, ALL_LEGAL, ALL_LEGAL, ALL_LEGAL, RIGHT_OR_DOWN, RIGHT_OR_DOWN)
    weak = FixedPolicy(
        [0.5, 0.4, 0.1, 0.0],  # up, by 0.1 over right
        [0.7, 0.1, 0.1, 0.1],  # up, as the other
        [0.7, 0.1, 0.1, 0.1],  # up, by 0.6 over right
        [0.6, 0.2, 0.1, 0.1],  # up, by 0.5 over left
        [0.8, 0.15, 0.05, 0.0],  # right, by (0.15 - 0.05) / 0.2 = 0.5 over down
        [0.9, 0.1, 0.0, 0.0],  # right, as the other where up is illegal
    )
    strong = FixedPolicy(
        [0.0, 1.0, 0.0, 0.0],  # right, by 1
        [0.9, 0.0, 0.1, 0.0],
        [0.1, 0.7, 0.1, 0.1],  # right, by 0.6
        [0.3, 0.0, 0.1, 0.6],  # left, by 0.3
        [0.0, 0.1, 0.9, 0.0],  # down, by 0.8
        [0.0, 0.6, 0.4, 0.0],
    )
    third = FixedPolicy(
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
        [0.4, 0.45, 0.15, 0.0],  # right, by only 0.05
        [0.1, 0.8, 0.1, 0.0],  # right: the others of up do not agree
        [0.0, 0.2, 0.8, 0.0],  # down, by 0.6
        [0.0, 0.4, 0.6, 0.0],
    )
    assert analysis.disagreements(weak, [strong], boards, 9).tolist() == [2, 4, 3, 0]
    assert analysis.disagreements(weak, [strong], boards, 2).tolist() == [2, 4]
    assert analysis.disagreements(strong, [weak], boards, 9).tolist() == [2, 4, 3, 0]
    assert analysis.disagreements(weak, [weak], boards, 9).tolist() == []
    assert analysis.disagreements(weak, [strong, third], boards, 9).tolist() == [4, 0, 2]
    assert analysis.disagreements(weak, [third, strong], boards, 9).tolist() == [4, 0, 2]
    assert analysis.disagreements(weak, [strong, weak], boards, 9).tolist() == []


@pytest.mark.parametrize(
    ("text", "corner", "edge"),
    [
        ("16 8 4 2 / _ _ _ _ / _ _ _ _ / _ _ _ _", True, True),
        ("16 8 8 _ / 2 4 _ _ / _ _ _ _ / _ _ _ _", True, True),  # equal ones, the fourth missing
        ("16 16 16 16 / _ _ _ _ / _ _ _ _ / _ _ _ _", True, True),
        ("8 16 4 2 / 4 _ _ _ / 4 _ _ _ / 16 8 4 2", True, True),  # one of two largest
        ("8 4 2 16 / _ _ _ 8 / _ _ _ 4 / _ _ _ _", True, True),  # along the other edge
        ("16 4 8 2 / 8 _ _ _ / 2 _ _ _ / 4 _ _ _", True, False),  # neither edge falls
        ("16 8 _ _ / 8 _ _ _ / _ _ _ _ / _ _ _ _", True, False),  # the third is missing
        ("16 8 _ 2 / _ 4 _ _ / _ _ _ _ / _ _ _ _", True, False),
        ("8 4 2 _ / _ _ _ _ / _ _ _ _ / _ _ _ 16", True, False),  # down from another tile
        ("16 2 _ _ / 8 4 2 2 / _ _ _ _ / _ _ _ _", True, False),  # not along an edge
        ("8 4 4 2 / _ 16 _ _ / _ _ _ _ / _ _ _ _", False, False),  # inside
        ("8 16 4 2 / _ _ _ _ / _ _ _ _ / _ _ _ _", False, False),  # at an edge
        ("8 16 4 8 / 4 4 2 4 / 2 2 2 2 / _ _ _ _", False, False),
        ("2 4 8 16 / 4 4 2 8 / 2 2 2 2 / _ _ 32768 _", False, False),
        ("2 4 8 16 / _ _ _ _ / 16 _ _ _ / 2048 4096 8192 32768", True, True),  # the highest bit
    ],
)
def test_heuristics_hold_under_all_symmetries(text: str, corner: bool, edge: bool) -> None:
    views = torch_rules.symmetries(board_of(text))
    assert analysis.keeps_corner(views).tolist() == [corner] * 8
    assert analysis.descends(views).tolist() == [edge] * 8


def test_heuristics_take_boards_of_any_shape() -> None:
    boards = boards_of(PAPER_BOARDS["x1"], PAPER_BOARDS["5a"], PAPER_BOARDS["x1"])
    for obeys in HEURISTICS.values():
        assert obeys(boards[0]).item() is True
        assert obeys(boards[:, None]).tolist() == [[True], [False], [True]]


CHOICES = (
    "16 2 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _",  # corner: not right, down
    "_ 16 2 _ / _ _ _ _ / _ _ _ _ / _ _ _ _",  # corner: not right, not down, left
    "16 8 4 2 / 2 _ _ _ / _ _ _ _ / _ _ _ _",  # corner and edge: right, not down
    "4 _ _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _",  # no choice: right, down
    "_ _ _ _ / _ 16 _ _ / _ _ _ _ / _ _ _ _",  # no choice: no move
    "2 4 8 16 / _ _ _ _ / _ _ _ _ / _ _ _ _",  # no choice: down is the only one
)


def test_obedience_counts_boards_where_some_legal_moves_obey() -> None:
    boards = boards_of(*CHOICES)
    result = analysis.obedience("corner", boards, torch.tensor([DOWN, RIGHT, DOWN, DOWN, UP, DOWN]))
    assert result.n == 3
    assert result.obeyed == pytest.approx(1 / 3)  # the first
    assert result.by_chance == pytest.approx((1 / 2 + 1 / 3 + 1 / 2) / 3)
    result = analysis.obedience("corner", boards, torch.tensor([DOWN, LEFT, RIGHT, DOWN, UP, DOWN]))
    assert result.obeyed == 1
    result = analysis.obedience("edge", boards, torch.tensor([DOWN, LEFT, RIGHT, DOWN, UP, DOWN]))
    assert result == (1, 1.0, 0.5)
    result = analysis.obedience("edge", boards, torch.tensor([DOWN, LEFT, DOWN, DOWN, UP, DOWN]))
    assert result == (1, 0.0, 0.5)


def test_obedience_is_unknown_where_there_is_never_a_choice() -> None:
    n, *means = analysis.obedience("corner", boards_of(*CHOICES[3:]), torch.tensor([2, 0, 2]))
    assert n == 0 and np.isnan(means).all()


def test_activations_are_the_planes_and_the_outputs_of_each_relu(tiny: None) -> None:
    net = randomly_biased(PolicyCNN(5))
    boards = boards_of(*CHOICES)
    planes, *outputs = analysis.activations(net, boards)
    x = to_planes(boards)
    assert torch.equal(planes, x.flatten(1)) and len(outputs) == 5
    with torch.no_grad():
        for units, part in zip(outputs, range(1, 15, 3), strict=True):
            convolution: Any = net.get_submodule(f"body.{part}")
            x = convolution(nn.functional.pad(x, (0, 1, 0, 1))).clamp(min=0)
            assert torch.allclose(units, x.flatten(1), atol=1e-6)


def probe(units: Tensor, labels: Tensor) -> float:
    """Return the area of a probe fitted to every other row and tested on the rest."""
    return analysis.probe(units[::2], labels[::2], units[1::2], labels[1::2])


@pytest.mark.slow
def test_a_probe_predicts_linear_labels_and_no_noise() -> None:
    generator = torch.Generator().manual_seed(1)
    units = torch.randn(4000, 4, generator=generator)
    labels = units[:, 1] - units[:, 3] > 0.5
    assert probe(torch.cat((units, labels[:, None].float()), 1), labels) == 1.0
    assert 0.99 < probe(units, labels) <= 1.0
    noise = torch.rand(4000, generator=generator) < 0.3
    assert abs(probe(units, noise) - 0.5) < 0.04


def test_a_probe_is_tested_on_other_rows() -> None:
    labels = torch.rand(200, generator=torch.Generator().manual_seed(1)) < 0.5
    units = labels[:, None].float()
    assert analysis.probe(units, labels, 1 - units[:50], labels[:50]) == 0.0
    assert analysis.probe(units, labels, units[:50], labels[:50]) == 1.0
    assert np.isnan(analysis.probe(units, labels, units[:50], torch.ones(50, dtype=torch.bool)))


def test_a_probe_takes_constant_equal_and_more_units_than_rows() -> None:
    generator = torch.Generator().manual_seed(1)
    labels = torch.rand(60, generator=generator) < 0.5
    units = 0.1 * torch.randn(60, 90, generator=generator)
    units[:, 0] = units[:, 1] = labels.float()
    units[:, 2:20] = 0
    assert probe(units, labels) > 0.95


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    rng = np.random.default_rng(1)
    for n in (2, 3, 10, 40):
        scores, labels = rng.integers(0, 6, n), rng.random(n) < 0.4
        labels[:2] = True, False
        pairs = [(yes, no) for yes in scores[labels] for no in scores[~labels]]
        points = sum(1.0 if yes > no else 0.5 if yes == no else 0.0 for yes, no in pairs)
        area = analysis._area(torch.tensor(scores).float(), torch.tensor(labels))
        assert area == pytest.approx(points / len(pairs))
