"""Tests of the boards of figures 4 and 5 of the policy network experiment."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from afterstate.envs.game2048 import rules, torch_rules
from benchmarks.experiments.policy_nets import concentration
from benchmarks.experiments.policy_nets.analysis import HEURISTICS, PAPER_BOARDS
from tests.benchmarks.experiments.policy_nets.test_analysis import DOWN, RIGHT, board_of

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_boards_of_figure_5_are_as_printed() -> None:
    printed = {
        "5a": [[0, 4096, 2048, 128], [0, 4, 16, 32], [2, 16, 32, 16], [8, 2, 2, 4]],
        "5b": [[2, 2, 2, 0], [16, 16, 4, 4], [32, 64, 128, 256], [2048, 4096, 2048, 1024]],
    }
    for name, tiles in printed.items():
        cells = rules.cells(np.uint64(rules.from_text(PAPER_BOARDS[name]))).astype(np.int64)
        assert np.where(cells > 0, 1 << cells, 0).tolist() == tiles


def test_the_boards_of_figure_4_have_the_same_tiles_each_half_as_large() -> None:
    words = [rules.from_text(PAPER_BOARDS[name]) for name in ("x2", "x1", "x0.5")]
    boards = [rules.cells(np.uint64(word)).astype(np.int64) for word in words]
    for larger, smaller in pairwise(boards):
        assert ((larger > 0) == (smaller > 0)).all()
        assert (larger - smaller == (smaller > 0)).all()


@pytest.mark.parametrize("name", ["x2", "x1", "x0.5"])
def test_figure_4_has_large_tiles_in_the_first_row_an_empty_second_and_a_bad_move(
    name: str,
) -> None:
    cells = rules.cells(np.uint64(rules.from_text(PAPER_BOARDS[name]))).astype(np.int64)
    assert (np.diff(cells[0]) < 0).all() and not cells[1].any()
    assert cells[0].min() > cells[2:].max()
    board = board_of(PAPER_BOARDS[name])
    afters, _ = torch_rules.afterstates(board)
    assert torch_rules.legal(board)[DOWN]
    for obeys in HEURISTICS.values():
        assert obeys(board) and obeys(afters[RIGHT]) and not obeys(afters[DOWN])


def test_random_patterns_are_of_that_form_too() -> None:
    for density in concentration.LOWER_ROWS:
        for boards in concentration.patterns(density, 5):
            cells = [rules.cells(np.uint64(word)).astype(np.int64) for word in boards]
            for larger, smaller in pairwise(cells):
                assert (larger - smaller == (smaller > 0)).all() and not larger[1].any()
                assert (np.diff(larger[0]) < 0).all()
