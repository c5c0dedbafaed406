"""Files of TDL2048: some written byte by byte as the format says, and two by TDL2048 itself."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from afterstate import agents
from afterstate.agents.game2048.learning.run_settings import SearchValueRun
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.values import pruned, tdl2048
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate
from afterstate.agents.game2048.values.ntuple_file import load
from tests.oracles import game2048 as oracle
from tests.oracles.ntuple import symmetric_boards
from tests.support.game2048.commands import run_prune
from tests.support.memory import at_most

DATA = Path(__file__).parents[3] / "data" / "game2048" / "tdl2048"
Floats = npt.NDArray[np.float32]


def table(cells: str, values: Floats, sums: Floats | None = None) -> bytes:
    """Return a table of the file, with cells as hexadecimal digits."""
    head = struct.pack("<BIIHQ", 4, int(cells, 16), len(cells), 4, len(values))
    learned = b"" if sums is None else struct.pack("<HQ", 4, len(sums)) + sums.tobytes()
    return head + values.tobytes() + learned + struct.pack("<H", 0)


def drawn(cells: str, seed: int, times: int = 1) -> Floats:
    """Return random weights for a table."""
    n: int = times * 16 ** len(cells)
    return np.random.default_rng(seed).random(n, dtype=np.float32)


def contents(*tables: bytes) -> bytes:
    """Return the bytes of a whole file."""
    return struct.pack("<BI", 0, len(tables)) + b"".join(tables)


@pytest.mark.parametrize("tuples", [["0123"], ["123", "0"], ["95", "3210", "a1f"], ["59", "04"]])
@pytest.mark.parametrize("with_sums", [False, True])
def test_a_value_is_the_sum_over_the_eight_boards(
    tmp_path: Path, tuples: list[str], with_sums: bool
) -> None:
    """The first cell is the lowest digit of the index, in whatever order the cells are named."""
    values = [drawn(cells, seed) for seed, cells in enumerate(tuples)]
    sums = [drawn(cells, 9, 2) if with_sums else None for cells in tuples]
    parts = (table(*part) for part in zip(tuples, values, sums, strict=True))
    (tmp_path / "x.w").write_bytes(contents(*parts))
    net = tdl2048.read(tmp_path / "x.w")
    rng = random.Random(1)
    for _ in range(50):
        board = [[rng.choice([0, 0, 1, 2, 3, 7, 12, 15]) for _ in range(4)] for _ in range(4)]
        expected = 0.0
        for cells, weights in zip(tuples, values, strict=True):
            for each in symmetric_boards(board):
                digits = [each[int(cell, 16) // 4][int(cell, 16) % 4] for cell in cells]
                expected += float(weights[sum(d * 16**i for i, d in enumerate(digits))])
        assert estimate(net, oracle.to_word(board)) == pytest.approx(expected, rel=1e-5)


def test_load_gives_a_player_and_make_a_search(tmp_path: Path) -> None:
    file = tmp_path / "x.w"
    file.write_bytes(contents(table("0123", drawn("0123", 1))))
    greedy, search = agents.load(file), agents.make("expectimax", depth=1, network=str(file))
    assert isinstance(greedy, NTupleAgent)
    boards = np.array([0x1234_0021_0000_1111, 0x0001_0002_0003_0012], np.uint64)
    assert greedy.act(boards).tolist() == search.act(boards).tolist()


def test_a_file_is_pruned_and_learned_from(tmp_path: Path) -> None:
    file, small = tmp_path / "x.w", tmp_path / "small.npz"
    file.write_bytes(contents(table("0123", 100 * drawn("0123", 1))))
    run_prune(str(file), str(small), "--weights", "1e5", "--step", "0.25", "--games", "5")
    kept, all_weights = pruned.expand(load(small)).weights, tdl2048.read(file).weights
    is_kept = kept != 0
    assert is_kept.any() and np.abs(kept - all_weights)[is_kept].max() < 2
    model = SearchValueRun(start=str(file)).model()
    boards = np.array([0x1234_0021_0000_1111, 0x0001_0002_0003_0012], np.uint64)
    assert model.estimate(boards).tolist() == estimate(tdl2048.read(file), boards).tolist()


def test_a_missing_file_raises_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        agents.load(tmp_path / "x.w")


GOOD = contents(table("01", drawn("01", 1), drawn("01", 2, 2)), table("5", drawn("5", 3)))


@pytest.mark.parametrize("length", [0, 1, 4, 5, 10, 23, 24, 500, 1_100, len(GOOD) - 1])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, length: int) -> None:
    (tmp_path / "x.w").write_bytes(GOOD[:length])
    with pytest.raises(ValueError, match=r"x\.w"):
        agents.load(tmp_path / "x.w")


@pytest.mark.parametrize(
    "wrong",
    [
        GOOD + b"\0",
        b"\1" + GOOD[1:],
        contents(),
        contents(table("01234567", drawn("0", 1))),
        contents(table("00", drawn("00", 1))),
        contents(table("01", drawn("0", 1))),
        contents(table("01", drawn("01", 1), drawn("0", 1))),
        struct.pack("<BI", 0, 1 << 31) + GOOD[5:],
        b"PK\3\4 some other file",
    ],
)
def test_other_files_are_refused(tmp_path: Path, wrong: bytes) -> None:
    (tmp_path / "x.w").write_bytes(wrong)
    with pytest.raises(ValueError, match=r"x\.w"):
        agents.load(tmp_path / "x.w")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3.4e38, -1e38])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    weights = drawn("01", 1)
    weights[77] = value
    (tmp_path / "x.w").write_bytes(contents(table("5", drawn("5", 3)), table("01", weights)))
    with pytest.raises(ValueError, match=r"x\.w.* NaN or infinite"):
        agents.load(tmp_path / "x.w")


def test_a_table_that_claims_to_be_large_is_refused_before_allocation(tmp_path: Path) -> None:
    """Seven cells have a gigabyte of weights, their sums two."""
    head = struct.pack("<BIIHQ", 4, 0x123_4567, 7, 4, 16**7)
    with_sums = table("5", drawn("5", 3))[:-2] + struct.pack("<HQ", 4, 2 * 16)
    for part in (head, with_sums):
        (tmp_path / "x.w").write_bytes(contents(part))
        with at_most(1 << 20), pytest.raises(ValueError, match=r"x\.w.* cut off"):
            tdl2048.read(tmp_path / "x.w")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "score"), [("2x4td.w", 13_886), ("2x4tc.w", 25_505)])
def test_networks_trained_by_tdl2048_reach_their_scores(name: str, score: float) -> None:
    """Over 3,000 games the mean has a standard error of 0.9%."""
    games = play(agents.load(DATA / name), 3_000, seed=1)
    assert games.scores.mean() == pytest.approx(score, rel=0.03)
