"""Networks with stages, promotion, fixed-point weights, downgrading and a start value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afterstate.agents.game2048.values.ntuple import estimate
from afterstate.agents.game2048.values.ntuple_network import STAGES, network
from afterstate.envs.game2048.rules import from_text
from tests.oracles.ntuple import NaiveNetwork, downgrade, entry
from tests.support.game2048.learning_checks import memory
from tests.support.game2048.tuple_networks import TUPLES, by_options, drawn_boards, filled, words


@by_options
def test_values_equal_the_naive_networks_bit_for_bit(options: dict[str, Any]) -> None:
    net = filled(**options)
    naive = NaiveNetwork(net.tuples, memory(net), **options)
    boards = drawn_boards(300)
    values = estimate(net, words(boards)).tolist()
    assert len(set(values)) > 100
    assert values == [float(naive.value(board)) for board in boards]


# Stages


def test_the_stages_of_matsuzaki_2017_begin_at_512_to_32768() -> None:
    assert STAGES == (512, 1024, 2048, 4096, 8192, 16384, 32768)
    net = network([[0]], stages=STAGES)
    assert net.weights.size == 8 * 16
    assert net.stage_tiles == list(STAGES)
    assert (net.stages // net.stage_size).tolist() == [
        *(9 * [0] + [1, 2]),  # by the largest tile up to 1024
        *([3] + 2 * [4] + 4 * [5] + 8 * [6] + 16 * [7]),  # by the tiles from 2048 on
    ]


@pytest.mark.parametrize("stages", [STAGES, (4,), (8, 64), (32768,), (4, 8, 16, 32), (), [2048]])
def test_a_stage_begins_exactly_with_its_tile(stages: Any) -> None:
    """Every weight is the number of its stage: a board's value is that of its largest tile."""
    net = network([[5]], stages=stages)
    n_stages = len(stages) + 1
    net.weights[:] = np.arange(n_stages).repeat(16)
    for exponent in range(16):
        reached = sum(tile <= 2**exponent for tile in stages)
        for cell in (0, 6, 15):
            board = exponent << 4 * cell | min(exponent, 1) << 4 * 9
            assert estimate(net, board) == 8 * reached, (exponent, cell)


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("8192 8192 4096 2048", 0),
        ("16384 4096 2048 1024", 1),
        ("2 16384 4 8192", 2),
        ("8192 8192 16384 2048", 2),
        ("4096 8192 2048 16384", 3),
        ("16384 16384 8192 2048", 2),  # until they merge
        ("32768 _ _ 2", 4),
        ("32768 8192 4096 2048", 4),
        ("4 32768 2 16384", 5),
        ("32768 16384 8192 2", 5),
    ],
)
def test_a_stage_may_begin_with_several_tiles(text: str, stage: int) -> None:
    """Every weight is the number of its stage."""
    net = network([[2]], (1, 4), stages=[16384, 24576, 28672, 32768, 49152])
    net.weights[:] = np.arange(6).repeat(16)
    assert estimate(net, from_text(text)) == 4 * stage
    assert net.stage_tiles == [16384, 24576, 28672, 32768, 49152]


def test_stages_have_tables_of_their_own() -> None:
    """The tuple {0 1} on 1x2: a pair and its mirror, twice each."""
    net = network([[0, 1]], (1, 2), stages=[8])
    net.weights[entry([1, 2])] = 1  # 2 4, the largest below 8
    net.weights[256 + entry([1, 3])] = 10  # 2 8
    net.weights[entry([1, 3])] = 100  # never read
    boards = [from_text(text) for text in ("2 4", "4 2", "2 8", "8 2", "8 4")]
    assert estimate(net, boards).tolist() == [2, 2, 20, 20, 0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"stages": [3]},
        {"stages": [2]},
        {"stages": [0]},
        {"stages": [65536]},
        {"stages": [-512]},
        {"stages": [512.5]},
        {"stages": [1024, 512]},
        {"stages": [512, 512]},
        {"stages": [True]},
        {"stages": ["512"]},
        {"stages": [1536]},
        {"stages": [3072]},
        {"stages": [65534]},
        {"stages": [24576, 16384]},
        {"stages": [None]},
        {"downgrade": 2},
        {"downgrade": 1000},
        {"downgrade": 65536},
        {"downgrade": 0},
        {"downgrade": "512"},
    ],
)
def test_invalid_or_unordered_tiles_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tile|power of two"):
        network([[0]], **wrong)


# Promotion


@pytest.mark.parametrize("fixed_point", [False, True])
def test_a_zero_weight_has_the_value_of_the_last_stage_that_is_not_zero(fixed_point: bool) -> None:
    """The tuple {0} on 1x2 has four entries, two a cell; the stages begin at 4, 8 and 16."""
    net = network([[0]], (1, 2), stages=[4, 8, 16], promote=True, fixed_point=fixed_point)
    one = 1024 if fixed_point else 1
    weights = memory(net)
    boards = [from_text(f"2 {tile}") for tile in (2, 4, 8, 16, 32)]
    weights[1] = one  # a 2 is worth 1 in every stage
    assert estimate(net, boards).tolist() == [4, 2, 2, 2, 2]
    weights[2 * 16 + 1] = 3 * one  # and 3 from the third stage on
    assert estimate(net, boards).tolist() == [4, 2, 6, 6, 6]
    weights[3 * 16 + 1] = -one
    assert estimate(net, boards).tolist() == [4, 2, 6, -2, -2]
    weights[2 * 16 + 1] = 0
    weights[4] = one // 2 if fixed_point else 0.5  # a 16, which only the last stage can have
    assert estimate(net, boards).tolist() == [4, 2, 2, -1, -2]


# Fixed-point numbers


def test_fixed_point_weights_are_1024ths_in_the_same_memory() -> None:
    net = network([[0]], (1, 2), fixed_point=True)
    assert net.fixed.dtype == np.int32
    assert np.shares_memory(net.fixed, net.weights)
    net.fixed[1], net.fixed[2] = 1, -2560
    assert net.values.tolist() == [0, 2**-10, -2.5, *[0] * 13]
    boards = [from_text(text) for text in ("2 2", "4 4", "2 4")]
    assert estimate(net, boards).tolist() == [4 / 1024, -10, 2 / 1024 - 5]


def test_values_of_float_weights_are_themselves() -> None:
    net = filled()
    assert net.values is net.weights
    assert net.fixed.size == 0


# Downgrading


@pytest.mark.parametrize("tile", [4, 64, 2048, 32768])
@pytest.mark.parametrize("stages", [(), STAGES])
def test_a_board_has_the_value_of_its_downgraded_form(tile: int, stages: Any) -> None:
    top = tile.bit_length() - 1
    plain, downgrading = filled(stages=stages), filled(stages=stages, downgrade=tile)
    boards = drawn_boards(300)
    lower = [downgrade(board, top) for board in boards]
    values = estimate(downgrading, words(boards)).tolist()
    assert values == estimate(plain, words(lower)).tolist()
    assert values == estimate(downgrading, words(lower)).tolist()
    assert any(board != low for board, low in zip(boards, lower, strict=True))


# The start value


@pytest.mark.parametrize("size", [(4, 4), (2, 3)])
@by_options
def test_every_board_has_the_start_value_at_first(
    size: tuple[int, int], options: dict[str, Any]
) -> None:
    tuples = TUPLES if size == (4, 4) else [[0, 1], [4]]
    net = network(tuples, size, **options, start_value=320)
    assert estimate(net, words(drawn_boards(50, size))) == pytest.approx(320, abs=0.02)
    first, later = memory(net)[: net.stage_size], memory(net)[net.stage_size :]
    assert len(set(first.tolist())) == 1
    assert (later == (0 if options.get("promote") else first[0])).all()


@pytest.mark.parametrize("promote", [False, True])
def test_stages_before_the_first_one_with_a_start_value_are_zero(promote: bool) -> None:
    net = network(
        [[0, 1]], stages=[8, 16, 32], promote=promote, start_value=320, start_value_from=16
    )
    boards = np.array([0x21, 0x31, 0x41, 0x51], np.uint64)
    assert estimate(net, boards).tolist() == [0, 0, 320, 320]


def test_a_start_value_begins_with_a_stage() -> None:
    with pytest.raises(ValueError, match=r"start_value_from must be one of \[0, 8\], got 16"):
        network([[0, 1]], stages=[8], start_value=320, start_value_from=16)


def test_a_start_value_may_be_negative() -> None:
    assert estimate(network([[0]], start_value=-8), 0x21) == -8
    assert estimate(network([[0]], start_value=-8, fixed_point=True), 0x21) == -8


@pytest.mark.parametrize("fixed_point", [False, True])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf"), 1e300, 10**400, 1j])
def test_a_start_value_that_no_weight_can_hold_is_refused(wrong: Any, fixed_point: bool) -> None:
    with pytest.raises(ValueError, match="start_value"):
        network([[0]], start_value=wrong, fixed_point=fixed_point)
