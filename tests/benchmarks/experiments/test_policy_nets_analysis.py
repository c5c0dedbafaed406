"""What is found inside networks: by hand, and against the study's words taken literally."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
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
from benchmarks.experiments.policy_nets.analysis import CELLS, HEURISTICS, STUDY_BOARDS, TILES, Unit

UP, RIGHT, DOWN, LEFT = range(4)

Floats = npt.NDArray[np.float64]

pytestmark = pytest.mark.usefixtures("one_thread")


def board_of(text: str) -> Tensor:
    """A board of tiles, `int64[]`."""
    return torch_rules.from_words(np.array(rules.from_text(text), np.uint64))


def boards_of(*texts: str) -> Tensor:
    """Boards of tiles, `int64[n]`."""
    return torch.stack([board_of(text) for text in texts])


class Says(nn.Module):
    """Gives the moves of the first, second, ... board the given probabilities."""

    def __init__(self, *rows: Sequence[float]) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(rows).log())

    def forward(self, planes: Tensor) -> Tensor:
        """The logits."""
        return self.logits[: len(planes)]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policy networks have few filters."""
    monkeypatch.setitem(CHANNELS, 2, 6)
    monkeypatch.setitem(CHANNELS, 5, 3)


# Filters


@pytest.mark.parametrize(
    ("cell", "row", "column"), [("NW", 0, 0), ("NE", 0, 1), ("SW", 1, 0), ("SE", 1, 1)]
)
def test_a_filter_has_its_cells_and_tiles_where_it_looks(
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
def test_networks_without_such_filters_are_refused(net: nn.Module) -> None:
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


def turned(filters: npt.NDArray[Any], side: int) -> npt.NDArray[Any]:
    """Filters `[..., 4, 16]` turned as boards are."""
    quarters = torch_rules.symmetries(board_of("2 2 4 4 / 2 2 4 4 / 8 8 16 16 / 8 8 16 16"))[side]
    origins = torch_rules.exponents(quarters)[::3, ::3].flatten() - 1  # of NW, NE, SW, SE
    return filters[..., origins.numpy(), :]


@pytest.mark.parametrize("side", range(8))
def test_the_most_similar_filter_is_the_pattern_when_it_is_turned(side: int) -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(20, 4, 16)).astype(np.float32)
    pattern = turned(weights[7], side).astype(np.float64)
    weights[8], weights[9] = -9 * weights[7], 0
    found, seen, likeness = analysis.most_similar(2 * weights, pattern)
    assert (found, seen) == (7, side) and likeness == pytest.approx(1)
    np.testing.assert_array_equal(analysis.sides(weights)[side], turned(weights, side))
    np.testing.assert_array_equal(analysis.sides(weights[7])[side], pattern)


def test_the_likeness_of_a_filter_is_a_cosine() -> None:
    weights, pattern = np.zeros((2, 4, 16), np.float32), np.zeros((4, 16))
    pattern[0, 5] = 2
    weights[0, 3, 5], weights[0, 3, 6] = 3, -4  # of the half turn: 2 * 3 / (2 * 5)
    weights[1, 0, 5], weights[1, 1, 5] = 1, 1e3  # mirrored: nearly 1
    for n, expected in ((1, (0, 3, 0.6)), (2, (1, 1, 1.0))):
        assert analysis.most_similar(weights[:n], pattern) == pytest.approx(expected, abs=1e-6)


# Contributions


class Small(nn.Module):
    """One convolution and a full layer, whose numbers are below."""

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
# The units that output 1 looks at, as (column, row)#filter:
#   (0, 0)#0 = 1 * 2 + 1 * -1 + 0.5 = 1.5   with the weight  4:  6
#   (3, 3)#0 = 1 * 2          + 0.5 = 2.5                   -2: -5   NE is padding
#   (1, 0)#1 = 1 * 1 + 1 * 3        = 4                      1:  4
#   (2, 2)#0 =                  0.5 = 0.5                    2:  1   it is but its bias
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


def shares_of(found: Floats) -> dict[tuple[int, int, int], float]:
    """The shares that are not 0, by column, row, and filter."""
    places = zip(*np.nonzero(found), strict=True)
    return {(int(x), int(y), int(f)): float(found[f, y, x]) for f, y, x in places}


def test_shares_of_a_small_network_are_those_worked_out_by_hand() -> None:
    last, planes = analysis.contributions(Small(), SMALL_BOARD, 1)
    assert last.shape == (2, 4, 4) and planes.shape == (16, 4, 4)
    assert shares_of(last) == pytest.approx(LAST)
    assert shares_of(planes) == pytest.approx(PLANES)
    assert last.sum() == pytest.approx(1) and planes.sum() == pytest.approx(15 / 16)


def test_only_the_units_that_are_followed_hand_their_shares_on() -> None:
    last, planes = analysis.contributions(Small(), SMALL_BOARD, 1, followed=[2])
    assert shares_of(last) == pytest.approx(LAST)  # (0, 0)#0 and (3, 3)#0 are followed
    expected = {(0, 0, 1): 4 / 16, (1, 0, 2): 2 / 16, (3, 3, 1): 5 / 16}
    assert shares_of(planes) == pytest.approx(expected)
    _, planes = analysis.contributions(Small(), SMALL_BOARD, 1, followed=[None, 1])
    assert shares_of(planes) == pytest.approx(PLANES)
    _, planes = analysis.contributions(Small(), SMALL_BOARD, 1, followed=[999])
    assert shares_of(planes) == pytest.approx(PLANES)


def test_as_many_layers_as_asked_for_are_gone_back() -> None:
    (last,) = analysis.contributions(Small(), SMALL_BOARD, 1, n_layers=1)
    assert shares_of(last) == pytest.approx(LAST)
    assert len(analysis.contributions(Small(), SMALL_BOARD, 1, n_layers=2)) == 2
    assert len(analysis.contributions(Small(), SMALL_BOARD, 1, n_layers=9)) == 2


def test_an_output_of_nothing_comes_from_nothing() -> None:
    assert [each.sum() for each in analysis.contributions(Small(), SMALL_BOARD, 0)] == [0, 0]


def test_the_bias_of_an_output_has_no_share() -> None:
    net: Any = Small()
    with torch.no_grad():
        net.body[-1].bias[1] = -1e6
    last, planes = analysis.contributions(net, SMALL_BOARD, 1)
    assert shares_of(last) == pytest.approx(LAST) and shares_of(planes) == pytest.approx(PLANES)


def test_a_full_layer_alone_looks_at_the_planes() -> None:
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
    """The weights of the layers that have some, and what each is given, padded if it is."""
    found: list[tuple[Floats, Floats]] = []

    def note(layer: Any, given: Any) -> None:
        x = given[0][0].clone().numpy()
        found.append((layer.weight.numpy().astype(np.float64), x.astype(np.float64)))

    with_weights = [each for each in net.modules() if isinstance(each, (nn.Conv2d, nn.Linear))]
    hooks = [layer.register_forward_pre_hook(note) for layer in with_weights]
    with torch.no_grad():
        net(to_planes(torch_rules.from_words(np.array([board], np.uint64))))
        for hook in hooks:
            hook.remove()
        return found


def naive_contributions(
    net: nn.Module, board: int, output: int, followed: Sequence[int | None]
) -> list[Floats]:
    """The shares of the inputs of each layer, unit by unit, with the padding."""
    layers, found = layers_of(net, board)[::-1], []
    units = {(output, 0, 0): 1.0}  # (filter, row, column): share
    for i, (weights, x) in enumerate(layers):
        shares = np.zeros_like(x)
        for (filter_, row, column), share in units.items():
            at = np.s_[:] if x.ndim == 1 else np.s_[:, row : row + 2, column : column + 2]
            products = np.abs(x[at] * weights[filter_])
            if products.sum() > 0:
                shares[at] += share * products / products.sum()
        found.append(shares)
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
    return found


def randomly_biased(net: nn.Module) -> nn.Module:
    """The network with some bias everywhere."""
    for layer in net.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)) and layer.bias is not None:
            nn.init.normal_(layer.bias, std=0.2)
    return net


def check_shares(found: list[Floats], naive: list[Floats]) -> None:
    """Compares shares with those found unit by unit, where the padding has none."""
    for mine, shares in zip(found, naive, strict=True):
        inside = shares[:, : mine.shape[1], : mine.shape[2]] if shares.ndim == 3 else shares
        assert inside.sum() == pytest.approx(shares.sum())
        np.testing.assert_allclose(mine.ravel(), inside.ravel(), rtol=1e-9, atol=1e-15)


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
def test_shares_are_those_of_the_study_taken_literally(
    make: Any, output: int, followed: Sequence[int | None]
) -> None:
    torch.manual_seed(3)
    net = randomly_biased(make())
    board = int(rules.words(np.random.default_rng(2).integers(0, 9, (4, 4)).astype(np.uint8)))
    found = analysis.contributions(net, board, output, followed=followed)
    check_shares(found, naive_contributions(net, board, output, followed))
    handed_on = 1.0
    for mine, n in zip(found, [*followed, *[None] * len(found)], strict=False):
        assert mine.sum() == pytest.approx(handed_on)
        handed_on = np.sort(mine, axis=None)[::-1][:n].sum()


def test_negative_inputs_have_shares_as_large_as_positive_ones(tiny: None) -> None:
    torch.manual_seed(1)
    net: Any = randomly_biased(PolicyCNN(5))
    for i, layer in enumerate(net.body):
        if isinstance(layer, nn.ReLU):
            net.body[i] = nn.Identity()
    found = analysis.contributions(net, SMALL_BOARD, LEFT)
    check_shares(found, naive_contributions(net, SMALL_BOARD, LEFT, ()))


def test_units_of_inner_full_layers_are_filters_of_one_cell() -> None:
    torch.manual_seed(1)
    found = analysis.contributions(value_net.CNN22(), SMALL_BOARD, 0)
    shapes = [(256, 1, 1), (1024, 1, 1), (512, 2, 2), (256, 3, 3), (16, 4, 4)]
    assert [each.shape for each in found] == shapes


def test_units_are_listed_by_their_shares_as_column_row_and_filter() -> None:
    last, _ = analysis.contributions(Small(), SMALL_BOARD, 1)
    found = analysis.top_units(last, 9)
    assert [str(unit) for unit, _ in found] == ["(0, 0)#0", "(3, 3)#0", "(1, 0)#1", "(2, 2)#0"]
    assert [share for _, share in found] == pytest.approx([6 / 16, 5 / 16, 4 / 16, 1 / 16])
    assert analysis.top_units(last, 2) == found[:2]
    shares = np.zeros((3, 2, 4))
    shares[2, 1, 3], shares[0, 1, 2] = 0.25, 0.75
    assert analysis.top_units(shares, 3) == [(Unit(2, 1, 0), 0.75), (Unit(3, 1, 2), 0.25)]
    assert str(Unit(column=3, row=1, filter=154)) == "(3, 1)#154"


def test_a_network_that_is_no_sequence_is_refused() -> None:
    with pytest.raises(ValueError, match="body"):
        analysis.contributions(nn.Linear(256, 4), SMALL_BOARD, 0)


@pytest.mark.parametrize("output", [-1, 4])
def test_outputs_that_there_are_not_are_refused(tiny: None, output: int) -> None:
    with pytest.raises(ValueError, match=f"outputs 0 to 3, not {output}"):
        analysis.contributions(PolicyCNN(2), SMALL_BOARD, output)


def test_padding_that_is_made_flat_is_refused() -> None:
    net: Any = nn.Module()
    net.body = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Flatten(), nn.Linear(400, 1))
    with pytest.raises(ValueError, match="padding that is made flat"):
        analysis.contributions(net, SMALL_BOARD, 0)


def test_asking_for_contributions_leaves_the_network_as_it_was(tiny: None) -> None:
    net, boards = PolicyCNN(2), boards_of(STUDY_BOARDS["5a"])
    before = probabilities(net, boards)
    analysis.contributions(net, rules.from_text(STUDY_BOARDS["5a"]), DOWN)
    analysis.activations(net, boards)
    assert torch.equal(probabilities(net, boards), before)
    assert all(weights.requires_grad for weights in net.parameters())


# Agreement

ALL_LEGAL = "_ _ _ _ / _ 2 _ _ / _ _ _ _ / _ _ _ _"
RIGHT_OR_DOWN = "2 _ _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _"


def test_the_most_probable_legal_move_is_chosen() -> None:
    net = Says([0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.2, 0.3], [0.5, 0.2, 0.0, 0.3])
    boards = boards_of(ALL_LEGAL, RIGHT_OR_DOWN, RIGHT_OR_DOWN)
    assert policy_net.best_moves(net, boards).tolist() == [LEFT, DOWN, RIGHT]


def test_a_move_without_any_probability_is_chosen_if_it_alone_is_legal() -> None:
    only_down = "2 4 2 4 / _ _ _ _ / _ _ _ _ / _ _ _ _"
    found = policy_net.best_moves(Says([0.6, 0.4, 0.0, 0.0]), boards_of(only_down))
    assert found.tolist() == [DOWN]


def test_agreement_is_counted_board_by_board() -> None:
    chosen = torch.tensor([[0, 0, 1, 2, 3, 1], [0, 1, 1, 2, 0, 2], [0, 1, 1, 3, 1, 2]])
    #                       all  1st all 3rd none 1st
    assert analysis.agreement(chosen) == analysis.Agreement(6, 2, [2, 0, 1])
    assert analysis.agreement(chosen[:2]) == analysis.Agreement(6, 3, [3, 3])
    assert analysis.agreement(chosen[[1, 1, 0, 1]]) == analysis.Agreement(6, 3, [0, 0, 3, 0])


def test_legal_moves_share_the_probabilities_among_them() -> None:
    net = Says([0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0])
    boards = boards_of(ALL_LEGAL, RIGHT_OR_DOWN, RIGHT_OR_DOWN)
    expected = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0, 0.4, 0.6, 0], [0, 0, 0, 0]])
    torch.testing.assert_close(analysis.legal_chances(net, boards), expected)


def test_disagreements_stand_in_the_order_of_the_least_sure_network() -> None:
    boards = boards_of(ALL_LEGAL, ALL_LEGAL, ALL_LEGAL, ALL_LEGAL, RIGHT_OR_DOWN, RIGHT_OR_DOWN)
    weak = Says(
        [0.5, 0.4, 0.1, 0.0],  # up, by 0.1 over right
        [0.7, 0.1, 0.1, 0.1],  # up, as the other
        [0.7, 0.1, 0.1, 0.1],  # up, by 0.6 over right
        [0.6, 0.2, 0.1, 0.1],  # up, by 0.5 over left
        [0.8, 0.15, 0.05, 0.0],  # right, by (0.15 - 0.05) / 0.2 = 0.5 over down
        [0.9, 0.1, 0.0, 0.0],  # right, as the other where up is illegal
    )
    strong = Says(
        [0.0, 1.0, 0.0, 0.0],  # right, by 1
        [0.9, 0.0, 0.1, 0.0],
        [0.1, 0.7, 0.1, 0.1],  # right, by 0.6
        [0.3, 0.0, 0.1, 0.6],  # left, by 0.3
        [0.0, 0.1, 0.9, 0.0],  # down, by 0.8
        [0.0, 0.6, 0.4, 0.0],
    )
    third = Says(
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


# Heuristics


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
def test_boards_obey_the_heuristics_from_all_sides(text: str, corner: bool, edge: bool) -> None:
    views = torch_rules.symmetries(board_of(text))
    assert analysis.keeps_corner(views).tolist() == [corner] * 8
    assert analysis.descends(views).tolist() == [edge] * 8


def test_heuristics_judge_boards_of_any_shape() -> None:
    boards = boards_of(STUDY_BOARDS["snake"], STUDY_BOARDS["5a"], STUDY_BOARDS["snake"])
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
    found = analysis.obedience("corner", boards, torch.tensor([DOWN, RIGHT, DOWN, DOWN, UP, DOWN]))
    assert found.n == 3
    assert found.obeyed == pytest.approx(1 / 3)  # the first
    assert found.by_chance == pytest.approx((1 / 2 + 1 / 3 + 1 / 2) / 3)
    found = analysis.obedience("corner", boards, torch.tensor([DOWN, LEFT, RIGHT, DOWN, UP, DOWN]))
    assert found.obeyed == 1
    found = analysis.obedience("edge", boards, torch.tensor([DOWN, LEFT, RIGHT, DOWN, UP, DOWN]))
    assert found == (1, 1.0, 0.5)
    found = analysis.obedience("edge", boards, torch.tensor([DOWN, LEFT, DOWN, DOWN, UP, DOWN]))
    assert found == (1, 0.0, 0.5)


def test_obedience_is_unknown_where_there_is_never_a_choice() -> None:
    n, *means = analysis.obedience("corner", boards_of(*CHOICES[3:]), torch.tensor([2, 0, 2]))
    assert n == 0 and np.isnan(means).all()


def test_activations_are_planes_and_what_each_convolution_lets_through(tiny: None) -> None:
    net = randomly_biased(PolicyCNN(5))
    boards = boards_of(*CHOICES)
    planes, *found = analysis.activations(net, boards)
    x = to_planes(boards)
    assert torch.equal(planes, x.flatten(1)) and len(found) == 5
    with torch.no_grad():
        for units, part in zip(found, range(1, 15, 3), strict=True):
            convolution: Any = net.get_submodule(f"body.{part}")
            x = convolution(nn.functional.pad(x, (0, 1, 0, 1))).clamp(min=0)
            assert torch.allclose(units, x.flatten(1), atol=1e-6)


def probe(units: Tensor, answers: Tensor) -> float:
    """Fitted to every other row, and judged by the rest."""
    return analysis.probe(units[::2], answers[::2], units[1::2], answers[1::2])


def test_a_probe_finds_an_answer_that_is_there_and_none_that_is_not() -> None:
    generator = torch.Generator().manual_seed(1)
    units = torch.randn(4000, 4, generator=generator)
    answers = units[:, 1] - units[:, 3] > 0.5
    assert probe(torch.cat((units, answers[:, None].float()), 1), answers) == 1.0
    assert 0.99 < probe(units, answers) <= 1.0
    noise = torch.rand(4000, generator=generator) < 0.3
    assert abs(probe(units, noise) - 0.5) < 0.04


def test_a_probe_is_judged_by_the_rows_that_it_has_not_seen() -> None:
    answers = torch.rand(200, generator=torch.Generator().manual_seed(1)) < 0.5
    units = answers[:, None].float()
    assert analysis.probe(units, answers, 1 - units[:50], answers[:50]) == 0.0
    assert analysis.probe(units, answers, units[:50], answers[:50]) == 1.0
    assert np.isnan(analysis.probe(units, answers, units[:50], torch.ones(50, dtype=torch.bool)))


def test_a_probe_bears_units_that_are_silent_alike_or_more_than_the_rows() -> None:
    generator = torch.Generator().manual_seed(1)
    answers = torch.rand(60, generator=generator) < 0.5
    units = 0.1 * torch.randn(60, 90, generator=generator)
    units[:, 0] = units[:, 1] = answers.float()
    units[:, 2:20] = 0
    assert probe(units, answers) > 0.95


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    rng = np.random.default_rng(1)
    for n in (2, 3, 10, 40):
        scores, answers = rng.integers(0, 6, n), rng.random(n) < 0.4
        answers[:2] = True, False
        pairs = [(yes, no) for yes in scores[answers] for no in scores[~answers]]
        points = sum(1.0 if yes > no else 0.5 if yes == no else 0.0 for yes, no in pairs)
        area = analysis._area(torch.tensor(scores).float(), torch.tensor(answers))
        assert area == pytest.approx(points / len(pairs))


# The boards of the study


def test_the_boards_of_figure_5_are_as_printed() -> None:
    printed = {
        "5a": [[0, 4096, 2048, 128], [0, 4, 16, 32], [2, 16, 32, 16], [8, 2, 2, 4]],
        "5b": [[2, 2, 2, 0], [16, 16, 4, 4], [32, 64, 128, 256], [2048, 4096, 2048, 1024]],
    }
    for name, tiles in printed.items():
        cells = rules.cells(np.uint64(rules.from_text(STUDY_BOARDS[name]))).astype(np.int64)
        assert np.where(cells > 0, 1 << cells, 0).tolist() == tiles


def test_the_three_snakes_have_the_same_tiles_each_half_as_large() -> None:
    words = [rules.from_text(STUDY_BOARDS[name]) for name in ("snake x2", "snake", "snake x0.5")]
    snakes = [rules.cells(np.uint64(word)).astype(np.int64) for word in words]
    for larger, smaller in pairwise(snakes):
        assert ((larger > 0) == (smaller > 0)).all()
        assert (larger - smaller == (smaller > 0)).all()


@pytest.mark.parametrize("name", ["snake x2", "snake", "snake x0.5"])
def test_down_is_the_only_move_of_a_snake_that_breaks_its_rules(name: str) -> None:
    board = board_of(STUDY_BOARDS[name])
    afters, _ = torch_rules.afterstates(board)
    assert torch_rules.legal(board).tolist() == [False, True, True, False]
    for obeys in HEURISTICS.values():
        assert obeys(board) and obeys(afters[RIGHT]) and not obeys(afters[DOWN])
