"""Values and greedy moves of N-tuple networks, compared with sums over lists."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.pruning import count_uses
from afterstate.agents.game2048.learning.table_model import TableModel
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.search.mc_softmax import MCSoftmaxAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent, best_move, estimate, look_up
from afterstate.agents.game2048.values.ntuple_network import (
    TUPLES,
    FixedNetwork4x6,
    Network,
    Network4x6,
    network,
)
from afterstate.envs.game2048.games import new_games
from afterstate.envs.game2048.rules import afterstates, from_text, symmetries, table
from tests.oracles import game2048 as oracle
from tests.oracles.ntuple import NaiveNetwork, entry, index, symmetric_boards
from tests.support.game2048.tuple_networks import words

SIZES = [(4, 4), (3, 3), (2, 2), (2, 3), (3, 2), (4, 2), (3, 4), (1, 2), (4, 1)]
by_size = pytest.mark.parametrize("size", SIZES)


def random_board(rng: random.Random, size: tuple[int, int]) -> oracle.Board:
    palette = rng.choice([[0, 0, 1, 2], [0, 1, 2, 3, 4, 5], range(1, 16), range(16), [1, 2]])
    return [rng.choices(palette, k=size[1]) for _ in range(size[0])]


def random_tuples(rng: random.Random, size: tuple[int, int]) -> list[list[int]]:
    """Return one to five tuples of one to four cells, in any order of the cells."""
    cells = [4 * row + col for row in range(size[0]) for col in range(size[1])]
    return [rng.sample(cells, rng.randint(1, min(4, len(cells)))) for _ in range(rng.randint(1, 5))]


def random_network(tuples: Any, size: tuple[int, int], seed: int = 1) -> Network:
    """Return a network with integer weights, whose sums have no rounding."""
    net = network(tuples, size)
    drawn = np.random.default_rng(seed).integers(-50, 50, net.weights.size)
    return net._replace(weights=drawn.astype(np.float32))


def brute_value(net: Network, tuples: list[list[int]], board: oracle.Board) -> int:
    """Return the sum over symmetric boards and tuples, each with its table of the weights."""
    value, at = 0, 0
    for cells in tuples:
        weights = net.weights[at : at + 16 ** len(cells)]
        at += 16 ** len(cells)
        for each in symmetric_boards(board):
            value += int(weights[index(each, sorted(cells))])
    return value


# Values


@by_size
def test_value_is_the_sum_over_all_symmetric_boards(size: tuple[int, int]) -> None:
    rng = random.Random(str(size))
    for trial in range(10):
        tuples = random_tuples(rng, size)
        net = random_network(tuples, size, trial)
        boards = [random_board(rng, size) for _ in range(50)]
        expected = [brute_value(net, tuples, board) for board in boards]
        assert estimate(net, words(boards)).tolist() == expected, tuples


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tuples"),
    [
        ("4x6", "012345 456789 012456 45689a"),
        ("5x6", "012345 456789 89abcd 012456 45689a"),
        ("8x6", "012456 456789 012345 234569 01259a 345678 134567 01489a"),
    ],
)
def test_value_of_a_named_network_is_the_sum_over_its_tuples_on_eight_boards(
    name: str, tuples: str
) -> None:
    """Tuples as TDL2048 writes them; only the entries that the boards look up are not zero."""
    cells = [[int(cell, 16) for cell in each] for each in tuples.split()]
    assert [list(each) for each in TUPLES[name]] == cells
    net = network(name)
    assert net.weights.shape == (len(cells) * 16**6,)
    assert net.tuples == cells
    naive = NaiveNetwork(cells, net.weights)
    rng = random.Random(2)
    boards = [random_board(rng, (4, 4)) for _ in range(50)]
    for board in boards:
        entries = naive.entries(board)
        assert len(entries) == 8 * len(cells) == net.n_entries
        net.weights[entries] = [rng.random() for _ in entries]
    values = estimate(net, words(boards))
    for board, value in zip(boards, values, strict=True):
        by_tuple = 0.0
        for t, each in enumerate(cells):
            table = net.weights[t * 16**6 : (t + 1) * 16**6]
            by_tuple += sum(float(table[index(b, each)]) for b in symmetric_boards(board))
        assert value == pytest.approx(by_tuple, rel=1e-6)
        assert value == naive.value(board)


def test_names_joined_by_plus_are_all_their_tuples() -> None:
    both = [list(cells) for name in ("4x6", "5x6") for cells in TUPLES[name]]
    assert network("4x6+5x6").tuples == both
    for wrong in ("4x6+", "+4x6", "4x6+9x9", "4x6 + 5x6", "4x6,5x6"):
        with pytest.raises(ValueError, match="tuples"):
            network(wrong)


@pytest.mark.parametrize("n_tuples", range(1, 10))
def test_without_symmetry_only_the_board_itself_is_read(n_tuples: int) -> None:
    """Also for numbers of entries that are no multiple of four; sums are equal bit for bit."""
    rng = random.Random(n_tuples)
    tuples = [rng.sample(range(16), 2) for _ in range(n_tuples)]
    net = network(tuples, symmetric=False)
    assert net.n_entries == n_tuples
    net.weights[:] = np.random.default_rng(n_tuples).normal(size=net.weights.size)
    naive = NaiveNetwork(tuples, net.weights, symmetric=False)
    boards = [random_board(rng, (4, 4)) for _ in range(50)]
    for board, value in zip(boards, estimate(net, words(boards)), strict=True):
        by_hand = sum(
            float(net.weights[256 * t + index(board, sorted(cells))])
            for t, cells in enumerate(tuples)
        )
        assert value == pytest.approx(by_hand, abs=1e-5)
        assert value == naive.value(board)


def test_index_of_a_tuple_is_that_of_its_exponents_in_order_of_the_cells() -> None:
    """On a 1x2 board the tuple {0 1} reads [a b], [b a] and, flipped, both once more."""
    net = network([[0, 1]], (1, 2))
    net.weights[entry([3, 5])], net.weights[entry([5, 3])] = 1, 10
    values = estimate(net, [from_text("8 32"), from_text("32 8"), from_text("8 8")])
    assert values.tolist() == [22, 22, 0]
    corner_and_edge = network([[5], [0, 1]], (4, 4))
    corner_and_edge.weights[16 + entry([4, 2])] = 1  # in the second table
    once = from_text("16 4 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _")
    twice = from_text("16 4 _ _ / 4 _ _ _ / _ _ _ _ / _ _ _ _")
    not_at_all = from_text("4 16 _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _")
    assert estimate(corner_and_edge, [once, twice, not_at_all]).tolist() == [1, 2, 0]


def test_order_of_a_tuples_cells_does_not_matter() -> None:
    net = network([[5, 0, 1]])
    assert net.tuples == [[0, 1, 5]]
    board = from_text("2 4 _ _ / _ 8 _ _ / _ _ _ _ / _ _ _ _")
    net.weights[entry([1, 2, 3])] = 1
    assert estimate(net, [board]).tolist() == [1]


@by_size
def test_symmetric_boards_have_equal_values(size: tuple[int, int]) -> None:
    rng = random.Random(3)
    net = random_network(random_tuples(rng, size), size)
    assert net.symmetric == (8 if size[0] == size[1] else 4)
    for _ in range(50):
        board = oracle.to_word(random_board(rng, size))
        same = np.array(symmetries(board, *size)[: net.symmetric], np.uint64)
        assert len(set(estimate(net, same).tolist())) == 1, hex(board)


def test_estimate_keeps_the_shape_of_its_boards() -> None:
    net = random_network([[0, 1, 4], [5]], (4, 4))
    boards = np.random.default_rng(1).integers(0, 2**64, (3, 2, 5), np.uint64)
    values = estimate(net, boards)
    assert values.shape == (3, 2, 5)
    assert values.dtype == np.float32
    assert values.reshape(-1).tolist() == estimate(net, boards.reshape(-1)).tolist()
    assert (estimate(net, boards[::2, :, ::-1]) == values[::2, :, ::-1]).all()
    assert estimate(net, boards[:0]).shape == (0, 2, 5)
    assert estimate(net, 0x21).shape == ()


def test_new_networks_are_all_zero_and_value_nothing() -> None:
    net = network([[0, 1, 2], [4]])
    assert net.weights.dtype == np.float32
    assert net.weights.shape == (16**3 + 16,)
    assert net.starts.tolist() == [0, 16**3]
    assert not net.weights.any()
    assert estimate(net, [0, 2**64 - 1]).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("tuples", "size"),
    [
        ("9x9", (4, 4)),
        ("", (4, 4)),
        (5, (4, 4)),
        ([[]], (4, 4)),
        ([[0, 1], []], (4, 4)),
        ([[0, 1, 2, 3, 4, 5, 6, 7]], (4, 4)),
        ([[0, 0]], (4, 4)),
        ([[16]], (4, 4)),
        ([[-1]], (4, 4)),
        ([[2]], (2, 2)),
        ([[8]], (2, 4)),
        ("4x6", (3, 3)),
        ([[0]], (5, 4)),
        ([[0]], (0, 4)),
        ([[0]], (1, 1)),
        ([], (4, 4)),
        ([count()], (4, 4)),  # it has no end
        ([np.broadcast_to(np.int64(0), 10**12)], (4, 4)),
    ],
)
def test_bad_tuples_and_sizes_are_refused(tuples: Any, size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"tuple|board"):
        network(tuples, size)


def test_messages_say_what_is_allowed() -> None:
    with pytest.raises(ValueError, match=r"one of 4x6, .*8x6.*, got '9x9'"):
        network("9x9")
    with pytest.raises(ValueError, match=r"\[0, 1, 4, 5\], got \[0, 2\]"):
        network([[0, 2]], (2, 2))


# Greedy moves


@by_size
def test_greedy_move_is_the_first_largest_reward_plus_value(size: tuple[int, int]) -> None:
    rng = random.Random(4)
    tuples = random_tuples(rng, size)
    net = random_network(tuples, size)
    net.weights[:] = np.round(net.weights / 20)  # so that there are equals
    boards = [random_board(rng, size) for _ in range(150)]
    actions = NTupleAgent(net).act(words(boards))
    for board, action in zip(boards, actions.tolist(), strict=True):
        moves = [(a, *oracle.move(board, a)) for a in oracle.legal_moves(board)]
        values = [reward + brute_value(net, tuples, after) for _, after, reward in moves]
        best: tuple[Any, ...] = best_move(net, np.uint64(oracle.to_word(board)))
        if not moves:
            assert action == 0
            assert best == (-1, 0)
            continue
        selected, _, _ = moves[values.index(max(values))]
        assert action == selected, board
        assert best == (selected, max(values)), board


def test_greedy_move_takes_the_first_among_equals() -> None:
    agent = NTupleAgent(network([[0]]))
    lone = from_text("_ _ _ _ / _ 2 _ _ / _ _ _ _ / _ _ _ _")
    top_left = from_text("2 _ _ _ / _ _ _ _ / _ _ _ _ / _ _ _ _")
    top_right = from_text("_ _ _ 2 / _ _ _ _ / _ _ _ _ / _ _ _ _")
    assert agent.act([lone, top_left, top_right]).tolist() == [0, 1, 2]


def test_greedy_move_adds_reward_and_value() -> None:
    """Up merges for 4; to the left lies a corner worth 1 for each of its two symmetric entries."""
    board = from_text("_ 2 / _ 2")
    net = network([[0]], (2, 2))
    assert NTupleAgent(net).act([board]).tolist() == [0]
    net.weights[1] = 1.0  # each tile 2 is worth 2: up has 4, left and right 0 + 4
    assert NTupleAgent(net).act([board]).tolist() == [0]
    net.weights[1] = 1.25
    assert NTupleAgent(net).act([board]).tolist() == [3]


def test_illegal_moves_are_never_selected() -> None:
    net = network([[0]], (1, 2))
    net.weights[:] = -1000.0
    net.weights[1] = 1000.0  # staying as it is would be best
    assert NTupleAgent(net).act([from_text("2 2"), from_text("_ 2")]).tolist() == [1, 3]


def test_act_returns_an_action_for_each_board_of_any_shape() -> None:
    agent = NTupleAgent(random_network([[0, 1, 4], [5, 6]], (4, 4)))
    rng = random.Random(5)
    boards = words([random_board(rng, (4, 4)) for _ in range(24)])
    actions = agent.act(boards)
    assert actions.dtype == np.int8
    assert actions.shape == (24,)
    assert actions.tolist() == [int(agent.act(boards[i : i + 1])[0]) for i in range(24)]
    assert agent.act(boards.tolist()).tolist() == actions.tolist()
    assert (agent.act(boards[::-2]) == actions[::-2]).all()
    assert agent.act(boards[:0]).shape == (0,)
    assert agent.act(boards[0]).shape == ()
    assert agent.act(boards[0]) == actions[0]


def test_acting_changes_neither_boards_nor_weights() -> None:
    net = random_network([[0, 1]], (2, 2))
    boards = words([[[1, 2], [1, 1]], [[0, 0], [1, 1]]])
    before = boards.copy(), net.weights.copy()
    NTupleAgent(net).act(boards)
    estimate(net, boards)
    assert (boards == before[0]).all()
    assert (net.weights == before[1]).all()


# Kernels with the tuples as constants


@pytest.mark.slow
@pytest.mark.parametrize("name", ["4x6", "5x6", "8x6"])
def test_kernels_for_named_tuples_give_the_values_of_the_generic_ones(name: str) -> None:
    net = network(name, stages=[64], promote=True)
    boards = words([random_board(random.Random(i), (4, 4)) for i in range(200)])
    indices = np.empty(net.n_entries, np.int64)
    for board in boards:
        for after in (board, *afterstates(board, table())[0]):
            look_up(net, np.uint64(after), indices)
            net.weights[indices] = np.random.default_rng(int(after)).normal(size=indices.size)
    generic = Network(*net)
    assert type(net) is not Network
    assert (estimate(net, boards) == estimate(generic, boards)).all()
    assert (NTupleAgent(net).act(boards) == NTupleAgent(generic).act(boards)).all()


def test_a_class_with_constants_is_made_for_the_named_tuples_only() -> None:
    assert type(network("4x6")) is Network4x6
    assert type(network("4x6", fixed_point=True)) is FixedNetwork4x6
    assert type(network("4x6", symmetric=False)) is Network
    assert type(network([[0, 1]])) is Network


@pytest.mark.parametrize("kind", ["float", "fixed", "pruned"])
def test_a_network_whose_arrays_do_not_fit_is_refused(kind: str) -> None:
    if kind == "pruned":
        made: Any = agents.make("ntuple")
        net: Network = made.network
        wrong: dict[str, Any] = {"blocks": net.blocks[:-1], "levels": net.levels[:-1]}
    else:
        net = network([[0, 1], [4, 5]], fixed_point=kind == "fixed")
        wrong = {
            "weights": net.weights[:-1],
            "stages": net.stages + 1,
            "move_table": net.move_table[:9],
        }
        wrong |= {"masks": net.masks[:1], "starts": net.starts + 1, "stage_size": 1}
    uses: list[Callable[[Network], object]]
    uses = [NTupleAgent, ExpectimaxAgent, MCSoftmaxAgent, partial(estimate, boards=[0])]
    if kind != "pruned":
        uses += [NTupleLearner, TableModel, partial(count_uses, n_games=1)]
    NTupleAgent(net)
    for name, value in wrong.items():
        for use in uses:
            with pytest.raises(ValueError, match="network must have arrays that fit"):
                use(net._replace(**{name: value}))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("weights", [None, 3, np.zeros(512), np.zeros((2, 256), np.float32)]),
        ("stages", [np.zeros(3, np.int64), None]),
        ("size", [[4, 4], (4,), None]),
        ("symmetric", [None, "a"]),
        ("stage_size", [None, np.int64(512), {4}]),
        ("masks", [3, [1, 2], np.zeros((1, 2), np.uint64)]),
        ("step", [math.nan, math.inf, "1", None]),
        ("promote", [1, "yes"]),
        ("downgrade", [2**40, -1, 0, 3.0, None]),
    ],
)
def test_a_network_with_fields_of_other_types_is_refused(name: str, values: list[Any]) -> None:
    net = network([[0, 1], [4, 5]])
    for value in values:
        with pytest.raises(ValueError, match=f"network must be made by .*{name}"):
            NTupleAgent(net._replace(**{name: value}))


def test_a_network_of_a_class_for_other_arrays_is_refused() -> None:
    """Kernels are compiled for the class: they would read outside of the arrays."""
    fixed, small = network("4x6", fixed_point=True), network("4x6")
    uses: tuple[Callable[[Network], object], ...]
    uses = NTupleAgent, NTupleLearner, partial(estimate, boards=[0])
    for wrong in (fixed._replace(fixed=np.empty(0, np.int32)), type(network("8x6"))(*small)):
        for use in uses:
            with pytest.raises(ValueError, match=r"network must have .*'class'"):
                use(wrong)


def test_a_network_with_a_move_table_that_kernels_do_not_take_is_refused() -> None:
    net = network([[0, 1], [4, 5]])
    fixed = net.move_table.copy()
    fixed.setflags(write=False)
    wrong: Any
    for wrong in (fixed, np.repeat(net.move_table, 2)[::2], net.move_table.view(np.int64)):
        for use in (NTupleAgent, ExpectimaxAgent, NTupleLearner):
            with pytest.raises(ValueError, match=r"made by .*move_table"):
                use(net._replace(move_table=wrong))


@pytest.mark.parametrize("tuples", [[np.array(1)], [[0, 1], np.array(5)], [np.float64(2)]])
def test_a_tuple_is_a_list_of_cells(tuples: Any) -> None:
    with pytest.raises(ValueError, match=r"those of a board of 4x4 are \[0, 1,"):
        network(tuples)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.float16(65504), np.float32(1e6), np.int8(5), np.uint64(7)])
@pytest.mark.parametrize("fixed_point", [True, False])
def test_a_start_value_may_be_any_number_of_numpy(value: Any, fixed_point: bool) -> None:
    net = network([[0]], start_value=value, fixed_point=fixed_point)
    assert estimate(net, [0x1]) == pytest.approx([float(value)], rel=1e-6)


def test_a_learner_needs_weights_in_order_that_it_can_change() -> None:
    net = network([[0, 1], [4, 5]])
    fixed = net.weights.copy()
    fixed.setflags(write=False)
    NTupleAgent(net._replace(weights=fixed))
    with pytest.raises(ValueError, match="got a read-only array"):
        NTupleLearner(net._replace(weights=fixed))
    with pytest.raises(ValueError, match=r"made by .*weights"):
        NTupleAgent(net._replace(weights=fixed[::-1]))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_network_with_weights_that_are_not_finite_is_refused(value: float) -> None:
    net = network([[0, 1], [4, 5]])
    net.weights[7] = value
    uses: tuple[Callable[[Network], object], ...]
    uses = NTupleAgent, ExpectimaxAgent, MCSoftmaxAgent, NTupleLearner, TableModel
    for use in uses:
        with pytest.raises(ValueError, match="network must have finite weights"):
            use(net)


@pytest.mark.parametrize("player", ["ntuple", "expectimax"])
def test_games_of_another_form_are_not_played_on(player: str) -> None:
    made: Any = agents.make(player, tuples=[[0, 1], [4, 5]])
    whole = new_games(6)
    for wrong in (whole[:1], whole.astype(np.int64), whole[:, ::2], whole[0], whole.tolist()):
        with pytest.raises(ValueError, match="games must be"):
            made.finish(wrong)
    assert made.finish(whole.copy()).shape == (6,)
