"""Networks with stages, promotion, fixed-point weights, downgrading and a start value; files."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from afterstate.agents import files
from afterstate.agents.game2048.learning.pruning import save_pruned
from afterstate.agents.game2048.values.ntuple import STAGES, Network, estimate, load, network, save
from afterstate.envs.game2048.rules import from_text
from tests.oracles import game2048 as oracle
from tests.oracles.ntuple import NaiveNetwork, downgrade, entry
from tests.support.game2048.learning_checks import memory

TUPLES = [[0, 1, 4], [5, 2], [10]]
OPTIONS: list[dict[str, Any]] = [
    {"stages": STAGES},
    {"stages": [4, 8, 16], "promote": True},
    {"stages": [64], "promote": True, "fixed_point": True},
    {"fixed_point": True},
    {"symmetric": False},
    {"symmetric": False, "fixed_point": True},
    {"stages": [32, 256], "promote": True, "symmetric": False},
    {"downgrade": 1024},
    {"stages": STAGES, "downgrade": 4096, "promote": True, "fixed_point": True},
]
by_options = pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))


def filled(seed: int = 1, size: tuple[int, int] = (4, 4), **options: Any) -> Network:
    """Return a network whose weights are zero with probability 1/2, else random."""
    net = network(TUPLES if size == (4, 4) else [[0, 1], [4]], size, **options)
    rng = np.random.default_rng(seed)
    drawn = rng.normal(0, 20, net.weights.size) * rng.integers(0, 2, net.weights.size)
    if options.get("fixed_point"):
        net.fixed[:] = np.round(1024 * drawn)
    else:
        net.weights[:] = drawn
    return net


def drawn_boards(n: int, size: tuple[int, int] = (4, 4)) -> list[oracle.Board]:
    """Return boards with largest tiles of all sizes."""
    rng = random.Random(3)
    tops = [rng.randint(0, 15) for _ in range(n)]
    return [[[rng.randint(0, top) for _ in range(size[1])] for _ in range(size[0])] for top in tops]


def words(boards: list[oracle.Board]) -> npt.NDArray[np.uint64]:
    return np.array([oracle.to_word(board) for board in boards], np.uint64)


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
    assert (net.stages // net.stage_size).tolist() == [0] * 9 + [1, 2, 3, 4, 5, 6, 7]


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
        {"stages": [None]},
        {"downgrade": 2},
        {"downgrade": 1000},
        {"downgrade": 65536},
        {"downgrade": 0},
        {"downgrade": "512"},
    ],
)
def test_invalid_or_unordered_tiles_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="tiles"):
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


def test_a_start_value_may_be_negative() -> None:
    assert estimate(network([[0]], start_value=-8), 0x21) == -8
    assert estimate(network([[0]], start_value=-8, fixed_point=True), 0x21) == -8


@pytest.mark.parametrize("fixed_point", [False, True])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_a_start_value_that_no_weight_can_hold_is_refused(wrong: float, fixed_point: bool) -> None:
    with pytest.raises(ValueError, match="start_value"):
        network([[0]], start_value=wrong, fixed_point=fixed_point)


# Files


def by_nibbles(net: Network) -> list[int]:
    """Return the place of each weight, listed by the exponents side by side as nibbles."""
    places = []
    for stage in range(0, net.weights.size, net.stage_size):
        for start, cells in zip(net.starts.tolist(), net.tuples, strict=True):
            each = itertools.product(range(16), repeat=len(cells))
            places += [stage + start + entry(exponents[::-1]) for exponents in each]
    return places


@by_options
def test_a_file_of_an_older_version_has_entries_in_the_order_of_nibbles(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    net = filled(**options)
    save(net, tmp_path / "network.npz")
    header, arrays = files.read(tmp_path / "network.npz")
    del header["order"]
    older = {"weights": arrays["weights"][by_nibbles(net)]}
    files.write(tmp_path / "older.npz", "ntuple", header, older)
    assert (memory(load(tmp_path / "older.npz")) == memory(net)).all()


@pytest.mark.parametrize("stages", [(), (8, 16)])
def test_a_pruned_file_of_an_older_version_has_entries_in_the_order_of_nibbles(
    tmp_path: Path, stages: tuple[int, ...]
) -> None:
    net = network([[0, 1, 4], [5], [2, 3]], stages=stages)
    kept = np.sort(np.random.default_rng(1).choice(net.weights.size, 500, replace=False))
    older = net._replace(weights=np.zeros_like(net.weights))
    older.weights[kept] = 1 + np.arange(500)
    save_pruned(older, tmp_path / "pruned.npz", kept, step=1.0)
    header, arrays = files.read(tmp_path / "pruned.npz")
    del header["order"]
    files.write(tmp_path / "older.npz", "ntuple", header, arrays)
    net.weights[by_nibbles(net)] = older.weights
    assert (load(tmp_path / "older.npz").weights == net.weights).all()


def test_another_order_is_refused(tmp_path: Path) -> None:
    save(network([[0]]), tmp_path / "network.npz")
    header, arrays = files.read(tmp_path / "network.npz")
    files.write(tmp_path / "other.npz", "ntuple", {**header, "order": "x"}, arrays)
    with pytest.raises(ValueError, match="order"):
        load(tmp_path / "other.npz")


@by_options
@pytest.mark.parametrize("size", [(4, 4), (2, 3)])
def test_save_and_load_give_the_same_network(
    tmp_path: Path, size: tuple[int, int], options: dict[str, Any]
) -> None:
    net = filled(size=size, **options)
    save(net, tmp_path / "network.npz")
    loaded = load(tmp_path / "network.npz")
    assert loaded.weights.dtype == net.weights.dtype
    assert memory(loaded).dtype == memory(net).dtype
    assert (memory(loaded) == memory(net)).all()
    assert np.shares_memory(loaded.weights, memory(loaded))
    for name in ("tuples", "stage_tiles", "stage_size", "n_entries"):
        assert getattr(loaded, name) == getattr(net, name)
    for name in ("size", "symmetric", "promote", "downgrade"):
        assert getattr(loaded, name) == getattr(net, name)
        assert type(getattr(loaded, name)) is type(getattr(net, name))
    boards = words(drawn_boards(100, size))
    assert estimate(loaded, boards).tolist() == estimate(net, boards).tolist()
