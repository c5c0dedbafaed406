"""Small files of networks: counting uses, selecting weights, rounding, writing and reading."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from afterstate import agents
from afterstate.agents import files
from afterstate.agents.game2048 import players
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.pruning import (
    count_uses,
    most_used,
    save_pruned,
    steps_by_uses,
)
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate
from afterstate.agents.game2048.values.ntuple_file import load, save
from afterstate.agents.game2048.values.ntuple_network import Network, network
from afterstate.agents.game2048.values.pruned import expand
from tests.oracles import game2048 as oracle
from tests.oracles.ntuple import NaiveNetwork
from tests.support.game2048.commands import run_prune
from tests.support.game2048.learning_checks import memory

TUPLES = {
    (2, 3): [[0, 1, 4], [1, 2]],
    (3, 3): [[0, 1, 4], [0, 1, 2], [1, 5]],
    (4, 4): [[0, 1], [5]],
}
PROMOTED: dict[str, Any] = {"stages": [8, 16, 32], "promote": True}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"stages": [16, 32]},
    PROMOTED,
    {**PROMOTED, "fixed_point": True},
    {**PROMOTED, "symmetric": False},
]

by_options = pytest.mark.parametrize("options", OPTIONS, ids=str)


def learned(size: tuple[int, int] = (3, 3), **options: Any) -> Network:
    """Return a network that has learned for some games."""
    learner = NTupleLearner(network(TUPLES[size], size, **options), seed=1)
    learner.learn(2_000)
    return learner.network


def naive(net: Network) -> NaiveNetwork:
    """Return the same network for the oracle."""
    fixed = net.fixed.size > 0
    options: dict[str, Any] = {"stages": net.stage_tiles, "promote": net.promote}
    options |= {"symmetric": net.symmetric > 1, "fixed_point": fixed}
    return NaiveNetwork(net.tuples, memory(net), **options)


def random_boards(n: int) -> npt.NDArray[np.uint64]:
    """Return boards of 3x3 cells in all stages."""
    drawn = np.random.default_rng(2).integers(
        0, np.arange(2, 9).repeat(n // 7 + 1)[:n, None], (n, 9)
    )
    return np.array([oracle.to_word(each.reshape(3, 3).tolist()) for each in drawn], np.uint64)


# Uses


@pytest.mark.parametrize(
    ("size", "options"),
    [
        *(((3, 3), options) for options in OPTIONS),
        ((2, 3), {}),
        ((2, 3), PROMOTED),
        ((4, 4), PROMOTED),
    ],
    ids=str,
)
@pytest.mark.parametrize("depth", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_uses_are_those_of_a_naive_count(
    size: tuple[int, int], options: dict[str, Any], depth: int
) -> None:
    """The legal moves of each board are compared, in search those of every board that a 2 makes."""
    net = learned(size, **options)
    slow, agent = naive(net), ExpectimaxAgent(net, depth, table_bits=10)
    expected = np.zeros(net.weights.size, np.int64)
    state = int(np.random.default_rng(7).integers(0, 2**64, dtype=np.uint64))
    for _ in range(2):
        board, state = oracle.start(*size, 2, state)
        while not oracle.is_over(board):
            after, _ = oracle.move(board, int(agent.act(oracle.to_word(board))))
            cells = oracle.empty_cells(after)
            ahead = [oracle.with_tile(after, row, col, 1) for row, col in cells]
            for compared in ahead if depth == 2 else [board]:
                for action in oracle.legal_moves(compared):
                    for entry in slow.entries(oracle.move(compared, action)[0]):
                        expected[slow.source(entry)] += 1
            board, state = oracle.spawn(after, state)
    reports: list[None] = []
    uses = count_uses(net, 2, seed=7, report=lambda: reports.append(None), depth=depth)
    assert uses.dtype == np.uint32
    assert uses.tolist() == expected.tolist()
    assert len(reports) == 2
    assert net.stages[15] == 0 or uses[net.stage_size :].any()


def test_counting_changes_no_weight() -> None:
    net = learned(**PROMOTED)
    before = net.weights.copy()
    assert count_uses(net, 1, seed=1).tolist() != count_uses(net, 1, seed=2).tolist()
    assert (net.weights == before).all()
    assert not count_uses(net, 0).any()


# Selection


def worths(net: Network, uses: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    """Return uses times squares; with promotion, of the difference to the stage before."""
    slow, magnitudes = naive(net), []
    for index in range(len(uses)):
        value = slow.entry_value(index)
        if net.promote and index >= net.stage_size:
            value -= slow.entry_value(index - net.stage_size)
        magnitudes.append(abs(float(value)))
    product: npt.NDArray[np.float64] = uses * np.array(magnitudes) ** 2
    return product


@by_options
@pytest.mark.parametrize("n_kept", [1, 10, 100, 10**9])
def test_weights_with_the_largest_uses_times_squares_are_selected(
    options: dict[str, Any], n_kept: int
) -> None:
    net = learned(**options)
    uses = count_uses(net, 3)
    selected, worth = most_used(net, uses, n_kept), worths(net, uses)
    assert (np.diff(selected) > 0).all()
    assert selected.size == min(n_kept, (worth > 0).sum())
    assert worth[selected].min() > 0
    left_out = np.delete(worth, selected)
    assert left_out.max() <= worth[selected].min() * (1 + 1e-6)
    if n_kept == 10**9:
        assert left_out.max() == 0


@pytest.mark.parametrize(
    ("promote", "two", "three"), [(False, [2, 17], [1, 2, 17]), (True, [1, 2], [1, 2, 19])]
)
def test_selected_weights_worked_out_by_hand(
    promote: bool, two: list[int], three: list[int]
) -> None:
    """Two stages of a tuple of one cell: 16 weights of boards below a tile 8, then 16 of others.

    Uses times squares are 256, 400, 500, 0 and 48. With promotion the third, in the second stage,
    is worth only 5 times the squared difference of 10 and 8, and the fourth stands for the one of
    -20.
    """
    uses = np.zeros(32, np.uint32)
    uses[[1, 2, 17, 18, 19]] = [4, 1, 5, 1_000, 3]
    net = network([[0]], stages=[8], promote=promote)
    net.weights[[1, 2, 17, 19]] = [8, -20, 10, -4]
    assert most_used(net, uses, 2).tolist() == two
    assert most_used(net, uses, 3).tolist() == three
    for n_kept in (4, 5, 100):
        assert most_used(net, uses, n_kept).tolist() == [1, 2, 17, 19]


@pytest.mark.parametrize("n_kept", [0, -1, -5])
def test_at_least_one_weight_must_be_selected(n_kept: int) -> None:
    net = network([[0]])
    with pytest.raises(ValueError, match="n_kept"):
        most_used(net, np.ones(16, np.uint32), n_kept)


@by_options
def test_the_step_of_a_weight_is_the_coarsest_whose_error_is_a_quarter_of_the_least_worth(
    options: dict[str, Any],
) -> None:
    net = learned(**options)
    uses = count_uses(net, 20)
    selected = most_used(net, uses, 200)
    least = worths(net, uses)[selected].min()
    steps = steps_by_uses(net, uses, selected, step=0.01).astype(np.float64)
    doublings = np.log2(steps / 0.01)
    assert doublings == pytest.approx(np.rint(doublings), abs=1e-5)
    errors = uses[selected] * steps**2 / 12
    assert errors.max() <= least / 4 * (1 + 1e-4)
    assert (4 * errors).min() > least / 4 * (1 - 1e-4)  # with twice the step
    assert len(set(np.rint(doublings).tolist())) > 1
    assert (steps_by_uses(net, uses, selected, step=1e6) == 1e6).all()
    assert steps_by_uses(net, uses, selected[:0], step=1.0).size == 0


def test_weights_are_rounded_to_their_own_steps(tmp_path: Path) -> None:
    net = network([[0]])
    net.weights[:4] = [10.4, 10.4, 13.9, -6.1]
    steps = np.array([1, 2, 4, 4], np.float32)
    save_pruned(net, tmp_path / "small.npz", np.arange(4), 1.0, steps)
    small = expand(load(tmp_path / "small.npz"))
    assert small.weights[:5].tolist() == [10, 10, 12, -8, 0]


# Files


@pytest.mark.parametrize("step", [0.05, 0.3])
@by_options
def test_a_file_of_all_weights_has_their_values_but_for_the_rounding(
    tmp_path: Path, options: dict[str, Any], step: float
) -> None:
    """With promotion a rounded weight is at least a step: 0 means the value of the stage before."""
    net = learned(**options)
    selected = np.flatnonzero(memory(net))
    save_pruned(net, tmp_path / "small.npz", selected, step)
    small = load(tmp_path / "small.npz")
    assert small.fixed.size == 0
    for name in ("tuples", "size", "stage_tiles", "symmetric", "promote", "downgrade"):
        assert getattr(small, name) == getattr(net, name)
    values = net.values[selected]
    slow = naive(expand(small))
    off = np.abs([slow.entry_value(index) for index in selected.tolist()] - values)
    is_small = np.abs(values) <= step / 2 * (1 + 1e-6)
    assert off[~is_small].max() <= step / 2 * (1 + 1e-4)
    if not net.promote:
        assert off.max() <= step / 2 * (1 + 1e-4)
    elif is_small.any():
        assert off.max() <= 1.5 * step * (1 + 1e-4)
    left_out = np.delete(expand(small).weights, selected)
    assert left_out.tolist() == [0.0] * (net.weights.size - selected.size)
    boards = random_boards(500)
    largest = off.max() * net.n_entries
    assert np.abs(estimate(small, boards) - estimate(net, boards)).max() <= largest + 1e-2


def test_weights_that_are_left_out_are_zero_or_those_of_the_stage_before(tmp_path: Path) -> None:
    """Without a weight of the first stage, the later stages have 0 unless they have their own."""
    selected = np.array([1, 2, 17, 35])
    for promote in (False, True):
        net = network([[0]], stages=[8, 16], promote=promote)
        net.weights[:] = np.arange(100, 148)
        save_pruned(net, tmp_path / "small.npz", selected, step=0.5)
        small = load(tmp_path / "small.npz")
        assert np.flatnonzero(expand(small).weights).tolist() == selected.tolist()
        slow = naive(expand(small))
        values = [[float(slow.entry_value(16 * s + i)) for i in (1, 2, 3, 4)] for s in range(3)]
        expected = [[101.0, 102, 0, 0], [117, 0, 0, 0], [0, 0, 135, 0]]
        if promote:
            expected = [[101.0, 102, 0, 0], [117, 102, 0, 0], [117, 102, 135, 0]]
        assert values == expected
        board = [[1, 2, 3, 1], [4, 1, 2, 3], [1, 4, 3, 2], [2, 3, 1, 4]]
        assert estimate(small, oracle.to_word(board)) == pytest.approx(float(slow.value(board)))


@pytest.mark.parametrize(
    "places",
    [
        [0],
        [4095],
        [0, 4095],
        [253, 254, 255, 256],
        [*range(10), 265, 520, 775],  # gaps of 254
        [0, 256, 512],  # gaps of 255
        [0, 257, 515],  # of 256 and 257
        [508, 1018, 1529, 2041],  # of 508 to 511
        [509, 1020, 1786],  # of 509, 510 and 765
        [510, 4095],
        [*range(4096)],
        [],
    ],
    ids=lambda places: f"{len(places)} from {places[:1]}",
)
def test_gaps_of_any_length_are_stored(tmp_path: Path, places: list[int]) -> None:
    net = network([[0, 1, 2]])
    net.weights[:] = np.random.default_rng(3).normal(0, 30, 4096)
    net.weights[np.abs(net.weights) < 0.01] = 1  # no weight becomes 0, which would be left out
    selected = np.array(places, np.int64)
    save_pruned(net, tmp_path / "small.npz", selected, step=0.01)
    expected = np.zeros(4096)
    expected[selected] = np.rint(net.weights[selected] / 0.01) * 0.01
    assert expand(load(tmp_path / "small.npz")).weights == pytest.approx(expected, abs=1e-4)
    packed = files.read(tmp_path / "small.npz")[1]["gaps"]
    gaps = np.frombuffer(lzma.decompress(packed.tobytes()), np.uint8)
    left_out = np.diff(selected, prepend=-1) - 1
    assert (gaps == 255).sum() == (left_out // 255).sum()
    assert gaps[gaps < 255].tolist() == (left_out % 255).tolist()


def test_the_largest_steps_fit(tmp_path: Path) -> None:
    net = network([[0]])
    net.weights[:4] = [32_767, -32_767, 0.4, -0.6]
    save_pruned(net, tmp_path / "small.npz", np.arange(4), step=1)
    small = expand(load(tmp_path / "small.npz"))
    assert small.weights[:4].tolist() == [32_767, -32_767, 0, -1]
    with pytest.raises(ValueError, match="step"):
        save_pruned(net, tmp_path / "other.npz", np.arange(4), step=0.99)
    assert [path.name for path in tmp_path.iterdir()] == ["small.npz"]


@pytest.mark.parametrize("step", [0, -1, -0.5, float("nan"), float("inf")])
def test_a_step_is_above_0(tmp_path: Path, step: float) -> None:
    net = network([[0]])
    for selected in (np.arange(4), np.arange(0)):
        with pytest.raises(ValueError, match="step"):
            save_pruned(net, tmp_path / "small.npz", selected, step)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_pruned_network_plays_nearly_as_well(tmp_path: Path) -> None:
    learner = NTupleLearner(
        network([[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 4, 5], [1, 2, 5, 6]]), seed=1
    )
    learner.learn(500_000)
    net = learner.network
    selected = most_used(net, count_uses(net, 10), 20_000)
    save_pruned(net, tmp_path / "small.npz", selected, step=4)
    save(net, tmp_path / "whole.npz")
    assert (tmp_path / "small.npz").stat().st_size < (tmp_path / "whole.npz").stat().st_size / 2
    means = [
        play(NTupleAgent(each), 200, seed=5).scores.mean()
        for each in (net, load(tmp_path / "small.npz"))
    ]
    assert means[1] > 0.8 * means[0]


# The command line


def test_the_command_line_writes_a_small_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tqdm")
    learner = NTupleLearner(network(TUPLES[3, 3], (3, 3), **PROMOTED), seed=1)
    learner.learn(2_000)
    learner.save(tmp_path / "learner.npz")
    small = tmp_path / "new folder" / "small.npz"
    options = ["--weights", "5e2", "--step", "0.5", "--games", "3", "--seed", "4"]
    options += ["--downgrade", "32"]
    run_prune(str(tmp_path / "learner.npz"), str(small), *options)
    net = learner.network._replace(downgrade=5)
    uses = count_uses(net, 3, seed=4)
    assert (uses != count_uses(learner.network, 3, seed=4)).any()
    selected = most_used(net, uses, 500)
    steps = steps_by_uses(net, uses, selected, 0.5)
    save_pruned(net, tmp_path / "expected.npz", selected, 0.5, steps)
    assert load(small).downgrade == 5
    expected = expand(load(tmp_path / "expected.npz"))
    assert (expand(load(small)).weights == expected.weights).all()
    size, n = small.stat().st_size, learner.network.weights.size
    printed = capsys.readouterr().out
    assert printed == f"{small}: {selected.size:,} of {n:,} weights, {size:,} bytes\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("weights", wrong) for wrong in ("0", "-5", "0.5", "nan", "inf", "many")),
        *(("games", wrong) for wrong in ("0", "many")),
        *(("step", wrong) for wrong in ("0", "-1", "nan", "many")),
        *(("seed", wrong) for wrong in ("-1", "many")),
        *(("downgrade", wrong) for wrong in ("0", "3", "65536", "many")),
    ],
)
def test_wrong_options_are_refused_by_name(
    tmp_path: Path, name: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "small.npz"
    with pytest.raises(SystemExit) as caught:
        run_prune(str(tmp_path / "network.npz"), str(small), f"--{name}", value)
    assert caught.value.code == 2
    assert name in capsys.readouterr().err
    assert not small.exists()


def test_a_step_too_small_for_the_weights_is_refused(tmp_path: Path) -> None:
    save(learned(), tmp_path / "network.npz")
    small = tmp_path / "small.npz"
    with pytest.raises(ValueError, match="step"):
        run_prune(str(tmp_path / "network.npz"), str(small), "--games", "1", "--step", "1e-9")
    assert not small.exists()


def test_files_that_cannot_be_read_or_written_end_with_a_message(tmp_path: Path) -> None:
    pytest.importorskip("tqdm")
    small = tmp_path / "small.npz"
    with pytest.raises(OSError, match=r"missing\.npz"):
        run_prune(str(tmp_path / "missing.npz"), str(small))
    (tmp_path / "junk.npz").write_bytes(b"no network")
    with pytest.raises(ValueError, match=r"junk\.npz"):
        run_prune(str(tmp_path / "junk.npz"), str(small))
    assert not small.exists()
    save(learned(), tmp_path / "network.npz")
    with pytest.raises(ValueError, match="output must be another file than network, got"):
        run_prune(str(tmp_path / "network.npz"), str(tmp_path / "." / "network.npz"))
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(OSError, match="not a file"):
        run_prune(str(tmp_path / "network.npz"), str(tmp_path / "folder.npz"), "--games", "1")


# The pretrained network


@pytest.mark.slow
def test_the_pretrained_network_is_small_and_plays_well() -> None:
    """Its mean is above 270,000, and that of 20 games has a standard error of some 40,000."""
    assert players.PRETRAINED.stat().st_size <= 12_000_000
    agent: Any = agents.make("ntuple")
    assert agent.size == (4, 4)
    assert agent.network.is_pruned and agent.network.levels.any()
    assert play(agent, 20, seed=1).scores.mean() > 120_000
