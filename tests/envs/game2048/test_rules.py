"""The rules of 2048 on words equal slow rules, published examples and stored counts."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

import pytest

from afterstate.envs.game2048.rules import (
    DOWN,
    LEFT,
    LOW_BITS,
    RIGHT,
    UP,
    afterstates,
    cells,
    downgrade,
    field,
    flip,
    from_text,
    is_over,
    largest,
    legal,
    mirror,
    move,
    occupied,
    spawn,
    spawn_cell,
    symmetries,
    table,
    to_text,
    transpose,
)
from afterstate.envs.words import Word, next_random
from tests.oracles import game2048 as oracle
from tests.oracles.ntuple import downgrade as naive_downgrade
from tests.support.rules_checks import ACTIONS, by_size, random_board

TERMINAL = "4 2 2048 2 / 32 4 128 8 / 16 64 16 32 / 2 8 32 2"  # Matsuzaki, figure 2


@pytest.mark.parametrize(
    ("row", "after", "reward"),
    [
        ("2 2 2 _", "_ _ 2 4", 4),
        ("4 2 2 _", "_ _ 4 4", 4),
        ("_ 4 2 2", "_ _ 4 4", 4),
        ("2 2 2 2", "_ _ 4 4", 8),
        ("32768 32768 2 2", "_ _ 32768 4", 65_540),
    ],
)
def test_published_rows_move_as_in_the_papers(row: str, after: str, reward: int) -> None:
    assert move(from_text(row), RIGHT, table(1, 4)) == (from_text(after), reward)
    column, column_after = row.replace(" ", "/"), after.replace(" ", "/")
    assert move(from_text(column), DOWN, table(4, 1)) == (from_text(column_after), reward)


@cache
def expected_entries(width: int) -> list[int]:
    """Return the table of a line width, by the oracle."""
    entries = []
    for index in range(16**width):
        row = tuple(index // 16**i % 16 for i in range(width))
        toward_first, reward = oracle.slide(row)
        toward_last = oracle.slide(row[::-1])[0][::-1]
        first, last = oracle.to_word([toward_first]), oracle.to_word([toward_last])
        entries.append(first + last * 2**16 + reward * 2**32)
    return entries


@by_size
def test_the_table_of_every_size_equals_the_oracle(rows: int, cols: int) -> None:
    entries = table(rows, cols)
    assert len(entries) == (65_536 if rows == cols else 131_072)
    assert entries[: 16**cols].tolist() == expected_entries(cols)
    columns = entries[len(entries) - 65_536 :]
    assert columns[: 16**rows].tolist() == expected_entries(rows)


@pytest.mark.parametrize("n_boards", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_moves_and_afterstates_equal_the_oracle(n_boards: int) -> None:
    rng = random.Random(n_boards)
    rows = table()
    for _ in range(n_boards):
        board = random_board(rng)
        word = oracle.to_word(board)
        boards, rewards = afterstates(word, rows)
        for action in ACTIONS:
            after, reward = oracle.move(board, action)
            expected = oracle.to_word(after), reward
            assert move(word, action, rows) == expected, (hex(word), action)
            assert (boards[action], rewards[action]) == expected, (hex(word), action)


def boards_of(rows: int, cols: int, n: int, exponents: Iterable[int]) -> list[oracle.Board]:
    """Return all boards of up to four cells with these exponents, or `n` random larger ones."""
    if rows * cols <= 4:
        flat = product(exponents, repeat=rows * cols)
        return [[list(cell[cols * r : cols * (r + 1)]) for r in range(rows)] for cell in flat]
    rng = random.Random(100 * rows + cols)
    return [random_board(rng, rows, cols) for _ in range(n)]


@pytest.mark.parametrize(
    ("n", "exponents"),
    [
        (800, (0, 1, 2, 3, 4, 5, 13, 14, 15)),
        pytest.param(3_000, range(16), marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
@by_size
def test_legal_moves_and_afterstates_equal_the_oracle_on_every_size(
    rows: int, cols: int, n: int, exponents: Iterable[int]
) -> None:
    lines, mask = table(rows, cols), field(rows, cols)
    for board in boards_of(rows, cols, n, exponents):
        word = oracle.to_word(board)
        boards, rewards = afterstates(word, lines)
        expected = [oracle.move(board, action) for action in ACTIONS]
        assert list(zip(boards, rewards, strict=True)) == [
            (oracle.to_word(after), reward) for after, reward in expected
        ], hex(word)
        legal_moves = [action for action in ACTIONS if expected[action][0] != board]
        bits = legal(word, mask)
        assert [action for action in ACTIONS if bits >> action & 1] == legal_moves, hex(word)
        assert [action for action in ACTIONS if boards[action] != word] == legal_moves, hex(word)
        assert bits < 16
        assert is_over(word, mask) is not bool(legal_moves)


def test_a_published_final_board_is_over_and_a_changed_one_is_not() -> None:
    board = from_text(TERMINAL)
    assert is_over(board, field(4, 4))
    assert afterstates(board, table()) == ((board,) * 4, (0,) * 4)
    assert not is_over(from_text(TERMINAL.replace("2048", "2")), field(4, 4))
    gap = from_text(TERMINAL.replace("2048", "_"))  # in the first row: nothing moves down
    assert legal(gap, field(4, 4)) == 1 << UP | 1 << RIGHT | 1 << LEFT


@by_size
def test_field_marks_the_cells_of_the_board(rows: int, cols: int) -> None:
    assert field(rows, cols) == oracle.to_word([[1] * cols] * rows)


def test_occupied_marks_every_tile() -> None:
    rng = random.Random(2)
    for _ in range(1_000):
        board = random_board(rng)
        marks = [[int(tile > 0) for tile in row] for row in board]
        assert occupied(oracle.to_word(board)) == oracle.to_word(marks)


def test_largest_is_the_largest_exponent() -> None:
    assert largest(0) == 0
    for cell, exponent in product(range(16), range(16)):
        assert largest(exponent << 4 * cell) == exponent
    rng = random.Random(11)
    for _ in range(2_000):
        board = random_board(rng)
        assert largest(oracle.to_word(board)) == max(map(max, board))


@pytest.mark.parametrize(
    ("board", "top", "lower"),
    [
        ("32768 16384 4 2", 15, "16384 8192 4 2"),  # 8192 was the largest missing
        ("32768 16384 4 2", 16, "32768 16384 4 2"),
        ("32768 16384 4 2", 14, "8192 4096 4 2"),
        ("32768 16384 4 2", 13, "4096 2048 4 2"),
        ("32768 16384 4 2", 4, "16 8 4 2"),  # every value is there: it stays at 16
        ("32768 16384 4 2", 3, "16 8 4 2"),
        ("16 8 4 2", 2, "16 8 4 2"),
        ("32768 32768 _ 2", 15, "16384 16384 _ 2"),
        ("64 16 16 _", 6, "32 16 16 _"),  # 32 is missing
        ("64 16 16 _", 5, "16 8 8 _"),  # then 8
        ("64 16 16 _", 1, "4 2 2 _"),
        ("32 8 8 2", 5, "16 8 8 2"),
        ("32 8 8 2", 4, "8 4 4 2"),
        ("32768 _ _ _", 9, "256 _ _ _"),
        ("_ _ _ _", 1, "_ _ _ _"),
    ],
)
def test_boards_downgraded_by_hand(board: str, top: int, lower: str) -> None:
    """While the largest exponent is not below `top`, all above the largest missing value halve."""
    assert to_text(downgrade(from_text(board), top), 1, 4) == lower


def test_downgrading_equals_the_oracle_and_keeps_the_order_of_tiles() -> None:
    rng = random.Random(12)
    for _ in range(2_000):
        board, top = random_board(rng), rng.randint(2, 16)
        word = oracle.to_word(board)
        lower = downgrade(word, top)
        assert lower == oracle.to_word(naive_downgrade(board, top)), (hex(word), top)
        assert downgrade(lower, top) == lower
        cells_before, cells_after = cells([word, lower]).reshape(2, 16).tolist()
        pairs = sorted(set(zip(cells_before, cells_after, strict=True)))
        for (before, after), (next_before, next_after) in pairwise(pairs):
            assert before < next_before
            assert after < next_after
        held = {after for _, after in pairs} - {0}
        assert largest(lower) < top or held == set(range(1, largest(lower) + 1))


IMAGES: list[tuple[int, ...]] = [(0, 1, 2, 3), (0, 3, 2, 1), (2, 1, 0, 3), (2, 3, 0, 1)]
"""The images of up, right, down and left under mirror, flip and half turn; then transposed."""
IMAGES += [tuple(3 - action for action in image) for image in IMAGES]


@by_size
def test_symmetries_equal_the_oracle(rows: int, cols: int) -> None:
    rng = random.Random(3)
    for _ in range(200):
        board = random_board(rng, rows, cols)
        word = oracle.to_word(board)
        four = [board, oracle.mirror(board), oracle.flip(board)]
        four.append(oracle.flip(oracle.mirror(board)))
        eight = [*four, *map(oracle.transpose, four)]
        assert symmetries(word, rows, cols) == tuple(oracle.to_word(b) for b in eight)
        assert [mirror(word, cols), flip(word, rows)] == [oracle.to_word(b) for b in eight[1:3]]
        assert transpose(word) == oracle.to_word(eight[4])


@by_size
def test_moves_commute_with_symmetries(rows: int, cols: int) -> None:
    """For example, moving left and then mirroring equals mirroring and then moving right."""
    rng = random.Random(5)
    tables = [table(rows, cols)] * 4 + [table(cols, rows)] * 4
    fields = [field(rows, cols)] * 4 + [field(cols, rows)] * 4
    for _ in range(40):
        word = oracle.to_word(random_board(rng, rows, cols))
        bits = legal(word, fields[0])
        images = symmetries(word, rows, cols)
        for action in ACTIONS:
            after, reward = move(word, action, tables[0])
            turned_afters = symmetries(after, rows, cols)
            for k in range(8):
                turned = IMAGES[k][action]
                assert move(images[k], turned, tables[k]) == (turned_afters[k], reward)
                assert legal(images[k], fields[k]) >> turned & 1 == bits >> action & 1


def test_random_bits_equal_published_ones_of_splitmix64() -> None:
    state: Word = 1_234_567
    bits = []
    for _ in range(5):
        state, drawn = next_random(state)
        bits.append(drawn)
    assert bits == [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
        4_593_380_528_125_082_431,
        16_408_922_859_458_223_821,
    ]


def test_random_bits_equal_the_oracle_from_any_state() -> None:
    rng = random.Random(6)
    for state in [0, 1, 2**63 - 1, 2**63, 2**64 - 1, *(rng.getrandbits(64) for _ in range(2_000))]:
        assert next_random(state) == oracle.splitmix64(state)


def state_before(bits: int) -> int:
    """Return the random state whose next 64 bits are `bits`."""

    def unshift(x: int, n: int) -> int:
        y = x
        for _ in range(64 // n):
            y = x ^ (y >> n)
        return y

    bits = unshift(bits, 31) * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    bits = unshift(bits, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    return (unshift(bits, 30) - 0x9E3779B97F4A7C15) % 2**64


def test_spawn_equals_the_oracle_for_every_pattern_of_empty_cells() -> None:
    rng = random.Random(7)
    whole = field(4, 4)
    for pattern in range(65_536):
        filled = [pattern >> cell & 1 and 1 + cell % 15 for cell in range(16)]
        board = [filled[4 * r : 4 * r + 4] for r in range(4)]
        word, state = oracle.to_word(board), rng.getrandbits(64)
        after, advanced = oracle.spawn(board, state)
        assert spawn(word, state, whole) == (oracle.to_word(after), advanced), hex(word)


@by_size
def test_spawn_on_every_size_stays_in_the_field_and_equals_the_oracle(rows: int, cols: int) -> None:
    rng = random.Random(8)
    blank = [[0] * cols for _ in range(rows)]
    boards = [blank, *(random_board(rng, rows, cols) for _ in range(200))]
    for board in boards * 2:
        state = rng.getrandbits(64)
        after, advanced = oracle.spawn(board, state)
        drawn = spawn(oracle.to_word(board), state, field(rows, cols))
        assert drawn == (oracle.to_word(after), advanced), board


@pytest.mark.parametrize("low", [0, 1, 429_496_729, 429_496_730, 429_496_731, 2**32 - 1])
def test_spawn_at_the_edges_of_the_draw(low: int) -> None:
    """Test the first and last random bits of every cell and of the 4, for 1 to 16 empty cells."""
    rng = random.Random(9)
    tile = 2 if low <= 429_496_729 else 1
    for n_empty in range(1, 17):
        empty = sorted(rng.sample(range(16), n_empty))
        cells_word = sum(1 << 4 * cell for cell in empty)
        board = int(LOW_BITS) * 7 - 7 * cells_word
        for k, cell in enumerate(empty):
            first = -(-k * 2**32 // n_empty)
            last = -(-(k + 1) * 2**32 // n_empty) - 1
            for high in (first, last):
                state = state_before(high << 32 | low)
                assert oracle.splitmix64(state)[1] == high << 32 | low
                assert spawn_cell(cells_word, state)[0] == tile << 4 * cell
                assert spawn(board, state, field(4, 4))[0] == board | tile << 4 * cell


@pytest.mark.parametrize("full_cells", [(), (0, 3, 5, 6, 9, 10, 12, 13, 15)])
def test_spawn_draws_cells_uniformly_and_a_4_with_probability_0_1(
    full_cells: tuple[int, ...],
) -> None:
    """Pearson's statistic of 16 or 7 cells, a 2 or a 4 each.

    With 31 degrees of freedom it exceeds 80 once in 300,000 fair draws; the draw is seeded.
    """
    board = sum(7 << 4 * cell for cell in full_cells)
    empty = [cell for cell in range(16) if cell not in full_cells]
    counts = {tile << 4 * cell: 0 for cell in empty for tile in (1, 2)}
    n = 70_000
    state: Word = 10
    for _ in range(n):
        after, state = spawn(board, state, field(4, 4))
        counts[int(after) - board] += 1
    statistic = 0.0
    for cell, (tile, odds) in product(empty, ((1, 0.9), (2, 0.1))):
        expected = n * odds / len(empty)
        statistic += (counts[tile << 4 * cell] - expected) ** 2 / expected
    assert statistic < 80


class Perft(NamedTuple):
    """An entry of `data/game2048/perft.json`: the numbers of leaves at depth 1, 2, ..."""

    board: str
    rows: int
    cols: int
    leaves: list[int]


DATA = Path(__file__).parents[2] / "data" / "game2048"
PERFTS = [Perft(**case) for case in json.loads((DATA / "perft.json").read_text())]
by_perft = pytest.mark.parametrize("case", PERFTS, ids=[case.board for case in PERFTS])


def outcomes(after: Word, rows: int, cols: int) -> list[tuple[int, float]]:
    """Return the boards that chance makes of an afterstate and their probabilities."""
    after = int(after)
    empty = int(field(rows, cols)) & ~int(occupied(after))
    holes = [1 << 4 * cell for cell in range(16) if empty >> 4 * cell & 1]
    tiles = ((1, 0.9), (2, 0.1))
    return [(after | hole * tile, odds / len(holes)) for hole in holes for tile, odds in tiles]


def perft(board: int, rows: int, cols: int, depth: int) -> int:
    if depth == 0:
        return 1
    leaves = 0
    for action in ACTIONS:
        after, _ = move(board, action, table(rows, cols))
        if after != board:
            leaves += sum(perft(b, rows, cols, depth - 1) for b, _ in outcomes(after, rows, cols))
    return leaves


@by_perft
def test_perft_of_the_kernels_equals_the_stored_counts(case: Perft) -> None:
    for depth, leaves in enumerate(case.leaves, 1):
        assert perft(from_text(case.board), case.rows, case.cols, depth) == leaves, depth


@by_perft
def test_perft_of_the_oracle_equals_the_stored_counts(case: Perft) -> None:
    """To add a board, write it into the file and take the counts that this test prints."""
    board = oracle.from_word(from_text(case.board), case.rows, case.cols)
    counted = [oracle.perft(board, depth) for depth in range(1, len(case.leaves) + 1)]
    assert counted == case.leaves


def test_optimal_play_on_the_2x2_board_has_the_known_value() -> None:
    """The value is 66.964149 at the start and 67.696264 from any two 2s; no tile exceeds 32."""
    lines = table(2, 2)
    after_values: dict[int, float] = {}

    @cache
    def value(board: int) -> float:
        best = 0.0
        for action in ACTIONS:
            moved, reward = move(board, action, lines)
            after = int(moved)
            if after == board:
                continue
            if after not in after_values:
                after_values[after] = sum(p * value(b) for b, p in outcomes(after, 2, 2))
            best = max(best, reward + after_values[after])
        return best

    first_tiles = outcomes(0, 2, 2)
    start = sum(p * q * value(b) for a, p in first_tiles for b, q in outcomes(a, 2, 2))
    assert start == pytest.approx(66.964149, abs=5e-7)
    for pair in ("2 2 / _ _", "2 _ / 2 _", "2 _ / _ 2", "_ 2 / 2 _", "_ _ / 2 2", "_ 2 / _ 2"):
        assert value(from_text(pair)) == pytest.approx(67.696264, abs=5e-7)
    assert (value.cache_info().currsize, len(after_values)) == (662, 464)
    assert max(cells(list(after_values), 2, 2).max(axis=(1, 2))) == 5
