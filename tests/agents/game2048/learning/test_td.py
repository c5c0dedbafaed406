"""Learning rules by tables worked out by hand; backward learning compared with a naive learner."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.learning.td import (
    GamePath,
    Update,
    learn_backward,
    new_path,
    update,
)
from afterstate.agents.game2048.values.ntuple import estimate
from afterstate.agents.game2048.values.ntuple_network import Network, network
from tests.oracles import game2048 as oracle
from tests.oracles.ntuple import NaiveLearner, Step


def rule(
    net: Network,
    name: str = "tc",
    rate: float = 1.0,
    lam: float = 0.0,
    printed: bool = False,
    skip: str = "target",
    floor: float = 0.0,
) -> Update:
    """Return a learning rule with new sums."""
    sums = np.zeros(2 * net.weights.size if name == "tc" else 0, np.float32)
    excluded = {"target": 1, "own": 2}[skip]
    numbers = np.float32(rate), np.float32(floor)
    return Update(sums, *numbers, printed, np.float32(lam), excluded)


def weight_table(net: Network) -> dict[int, float]:
    """Return the nonzero weights by their entries."""
    return {int(i): float(net.values[i]) for i in np.flatnonzero(net.values)}


# Updates by hand


def shared_table(**settings: Any) -> Network:
    """Return a network for four cells, whose exponents are a board's entries: one table for all."""
    net = network([[0], [1], [2], [3]], (1, 4), symmetric=False, **settings)
    return net._replace(starts=np.zeros(4, np.int64), stage_size=16)


def update_entries(net: Network, rule: Update, entries: list[int], error: float) -> None:
    """Update the board that has four entries, all of one stage."""
    stages = np.full(16, min(entries) // 16 * 16)
    board = sum(entry % 16 << 4 * cell for cell, entry in enumerate(entries))
    update(net._replace(stages=stages), rule, np.uint64(board), np.float32(error))


def updates(
    name: str, rate: float, entries: list[int], errors: Sequence[float], printed: bool = False
) -> list[list[list[float]]]:
    """Return [weight, E, A] of entries 3 and 5 after each update of a board that has `entries`."""
    net = shared_table()
    learning_rule = rule(net, name, rate, printed=printed)
    rows = []
    for error in errors:
        update_entries(net, learning_rule, entries, error)
        sums = learning_rule.sums.reshape(-1, 2) if name == "tc" else np.zeros((64, 2))
        rows.append([[float(net.weights[i]), *sums[i].tolist()] for i in (3, 5)])
        assert set(weight_table(net)) <= set(entries)
    return rows


def test_td_adds_rate_times_error_over_the_number_of_entries() -> None:
    """Four entries: a share is a quarter of the error; an entry hit thrice moves thrice."""
    rows = updates("td", 0.5, [3, 3, 5, 3], [8, -4, 0, 16])
    assert [[row[0] for row in each] for each in rows] == [
        [3, 1],
        [1.5, 0.5],
        [1.5, 0.5],
        [7.5, 2.5],
    ]


def test_tc_follows_the_table_worked_out_by_hand() -> None:
    """Entries 3 and 5 are hit once in turn and then once more, so that each row has two steps.

    error  share   first step: rate, w, E, A       second step: rate, w, E, A
      8      2       1      2       2   2            1      4       4   4
     -4     -1       4/4    3       3   5            3/5    2.4     2   6
     -8     -2       2/6    1.7333  0   8            0/8    1.7333 -2  10
      4      1       2/10   1.9333 -1  11            1/11   2.0242  0  12
      4      1       0/12   2.0242  1  13            1/13   2.1012  2  14
    """
    rows = updates("tc", 1.0, [3, 5, 3, 5], [8, -4, -8, 4, 4])
    expected = [[4, 4, 4], [2.4, 2, 6], [1.733333, -2, 10], [2.024242, 0, 12], [2.101166, 2, 14]]
    for row, by_hand in zip(rows, expected, strict=True):
        assert row[0] == row[1] == pytest.approx(by_hand, abs=1e-6)


def test_tc_rate_scales_the_step_but_not_the_sums() -> None:
    """With rate 0.5: w = 1 and 2, then 2 - 0.5 and 1.5 - 0.5 * 3/5, E and A as with rate 1."""
    rows = updates("tc", 0.5, [3, 5, 3, 5], [8, -4])
    assert rows[0][0] == [2, 4, 4]
    assert rows[1][0] == pytest.approx([1.2, 2, 6], abs=1e-6)


def test_tc_of_an_error_of_zero_leaves_the_first_step_whole() -> None:
    rows = updates("tc", 1.0, [3, 3, 3, 5], [0, 4])
    assert rows[0] == [[0, 0, 0], [0, 0, 0]]
    assert rows[1] == [[3, 3, 3], [1, 1, 1]]


def test_printed_tc_sums_the_steps() -> None:
    """As the table above, but E and A sum what is added; E is then what the weight has learned.

    error  share   first step: rate, w = E, A      second step: rate, w = E, A
      8      2       1          2        2           1          4        4
     -4     -1       4/4        3        5           3/5        2.4      5.6
     -8     -2       2.4/5.6    1.54286  6.45714     0.238938   1.06498  6.93502
    """
    rows = updates("tc", 1.0, [3, 5, 3, 5], [8, -4, -8], printed=True)
    expected = [[4, 4, 4], [2.4, 2.4, 5.6], [1.064981, 1.064981, 6.935019]]
    for row, by_hand in zip(rows, expected, strict=True):
        assert row[0] == row[1] == pytest.approx(by_hand, abs=1e-6)


def test_printed_tc_sums_steps_after_their_rate() -> None:
    """With rate 0.5 the shares 2 and -1 are steps of 1 and -0.5, all at coherence 1."""
    rows = updates("tc", 0.5, [3, 5, 7, 9], [8, -4], printed=True)
    assert [row[0] for row in rows] == [[1, 1, 1], [0.5, 0.5, 1.5]]


def test_an_exact_cancellation_freezes_an_entry_of_printed_tc() -> None:
    """The steps 2 and -2 leave E = 0; the error form skips one step only."""
    errors = [8, -8, 4, 400, -1000, 1]
    frozen = updates("tc", 1.0, [3, 5, 7, 9], errors, printed=True)
    assert frozen[0][0] == [2, 2, 2]
    assert [row[0] for row in frozen[1:]] == [[0, 0, 4]] * 5
    by_errors = updates("tc", 1.0, [3, 5, 7, 9], errors)
    assert [row[0] for row in by_errors[1:3]] == [[0, 0, 4], [0, 1, 5]]
    assert by_errors[3][0] == pytest.approx([100 / 5, 101, 105])


@pytest.mark.parametrize(
    ("step", "rounded"),
    [
        *[(1024, 1024), (1.4, 1), (1.5, 2), (1.6, 2), (0.49, 0), (0.5, 1), (-0.5, 0)],
        *[(-0.51, -1), (-1.5, -1), (-1.6, -2), (100, 100), (-100, -100)],
    ],
)
def test_fixed_point_steps_are_rounded_a_half_upward(step: float, rounded: int) -> None:
    """Four entries, rate 1: the error is four times the step, here in 1024ths."""
    net = shared_table(fixed_point=True)
    net.fixed[:] = 7
    update_entries(net, rule(net, "td"), [3, 4, 5, 6], 4 * step / 1024)
    assert (net.fixed - 7)[:16].tolist() == [0] * 3 + [rounded] * 4 + [0] * 9


def test_fixed_point_tc_keeps_its_sums_as_floats() -> None:
    """Shares of 0.4/1024: three of them never move the weight, but are in the sums."""
    net = shared_table(fixed_point=True)
    learning_rule = rule(net)
    for _ in range(3):
        update_entries(net, learning_rule, [3, 4, 5, 6], 1.6 / 1024)
    assert not net.fixed.any()
    assert learning_rule.sums[6:8] * 1024 == pytest.approx([1.2, 1.2])


@pytest.mark.parametrize("fixed_point", [False, True])
def test_an_unchanged_entry_of_a_later_stage_starts_from_its_promoted_value(
    fixed_point: bool,
) -> None:
    """Entry 3 of the stages 1, 2, 3: 5 is promoted to stage 3, where 1 and 1 again are added."""
    net = shared_table(stages=[4, 8], promote=True, fixed_point=fixed_point)
    weights: npt.NDArray[Any] = net.fixed if fixed_point else net.weights
    one = 1024 if fixed_point else 1
    weights[3] = 5 * one
    learning_rule = rule(net)
    update_entries(net, learning_rule, [35, 36, 35, 37], 4)
    assert weight_table(net) == {3: 5, 35: 7, 36: 1, 37: 1}
    assert np.flatnonzero(learning_rule.sums).tolist() == [70, 71, 72, 73, 74, 75]
    update_entries(net, learning_rule, [19, 20, 21, 22], -8)
    assert weight_table(net) == {3: 5, 19: 3, 20: -2, 21: -2, 22: -2, 35: 7, 36: 1, 37: 1}


def test_a_promoted_weight_keeps_its_rate_until_it_has_sums_of_its_own() -> None:
    """Entry 3 with E = -2, A = 8, rate 1/4: shares of 4, first from 5 + 1, E = 2, A = 12; 2/12."""
    net = shared_table(stages=[4, 8], promote=True)
    net.weights[3] = 5
    learning_rule = rule(net)
    learning_rule.sums[6:8] = -2, 8
    update_entries(net, learning_rule, [35, 35, 36, 37], 16)
    assert weight_table(net) == pytest.approx({3: 5, 35: 6 + 4 * 2 / 12, 36: 4, 37: 4})
    sums = learning_rule.sums.reshape(-1, 2)
    assert sums[[3, 35, 36]].tolist() == [[-2, 8], [6, 16], [4, 4]]


def test_without_promotion_an_entry_of_a_later_stage_starts_from_zero() -> None:
    net = shared_table(stages=[4])
    net.weights[3] = 5
    update_entries(net, rule(net), [19, 20, 19, 20], 4)
    assert weight_table(net) == {3: 5, 19: 2, 20: 2}


# Backward games by hand: a 1x2 board with the tuple {0 1}, entries a + 16b and b + 16a, both twice


def path_of(net: Network, moves: list[tuple[int, int]], drawn: tuple[int, ...] = ()) -> GamePath:
    """Return the path of afterstates, with rewards of the moves into them, some of them random."""
    path = new_path(len(moves))
    path.afters[:] = [after for after, _ in moves]
    path.rewards[:] = [reward for _, reward in moves]
    path.is_random[:] = [t in drawn for t in range(len(moves))]
    return path


def learn(
    net: Network, learning_rule: Update, moves: list[tuple[int, int]], drawn: tuple[int, ...] = ()
) -> None:
    learn_backward(net, learning_rule, path_of(net, moves, drawn), 0, len(moves), False)


def test_backward_tc_lambda_of_two_games_by_hand() -> None:
    """The path (1 2) with reward 4, then (3 _) with reward 8; lambda is a half.

    Entries have the bits of both exponents in turn: (1 2) 9, (2 1) 6, (3 _) 5, (_ 3) 10.
    First game: nothing follows (3 _), worth 0: no error, and z = 8. The error of (1 2) is 8, its
    shares 2; entries 9 and 6 are hit twice at rate 1: weights 4, E = A = 4, value 16.
    Second game: z = 8 again, error 8 - 16, shares -2. First hit: rate 1, weight 2, E 2, A 6;
    second hit: rate 2/6, weight 4/3, E 0, A 8.
    """
    net = network([[0, 1]], (1, 2))
    learning_rule = rule(net, lam=0.5)
    path = [(0x21, 4), (0x03, 8)]
    learn(net, learning_rule, path)
    assert weight_table(net) == {9: 4, 6: 4}
    sums = learning_rule.sums.reshape(-1, 2)
    assert sums[[9, 6, 5, 10]].tolist() == [[4, 4], [4, 4], [0, 0], [0, 0]]
    learn(net, learning_rule, path)
    assert weight_table(net) == pytest.approx({9: 4 / 3, 6: 4 / 3})
    assert sums[[9, 6]].tolist() == [[0, 8], [0, 8]]


@pytest.mark.parametrize(("lam", "corner"), [(0.0, 1.25), (0.5, 1.125), (1.0, 1.0)])
def test_backward_td_lambda_mixes_target_and_new_value(lam: float, corner: float) -> None:
    """Rate 1/4; (3 _) is worth 4 * 1 before and, after its error of -4, 4 * (1 - 2/4) = 2.

    The target of (1 2) is 8 + lambda * 0 + (1 - lambda) * 2, that is 10, 9 or 8; its entries get
    twice a quarter of a quarter of it.
    """
    net = network([[0, 1]], (1, 2))
    net.weights[[5, 10]] = 1
    learn(net, rule(net, "td", 0.25, lam), [(0x21, 4), (0x03, 8)])
    assert weight_table(net) == {5: 0.5, 10: 0.5, 9: corner, 6: corner}


def test_backward_reward_into_an_afterstate_is_not_its_own() -> None:
    """A game of one move changes no weight, whatever its reward."""
    net = network([[0, 1]], (1, 2))
    learn(net, rule(net, lam=0.5), [(0x03, 8)])
    assert weight_table(net) == {}


@pytest.mark.parametrize(
    ("skip", "drawn", "values"),
    [
        ("target", (), [11.25, 11, 4]),
        ("own", (), [11.25, 11, 4]),
        ("target", (2,), [6, 4, 4]),
        ("own", (2,), [12, 12, 8]),
        ("target", (1,), [0, 11, 4]),
        ("own", (1,), [9.5, 4, 4]),
        ("target", (0,), [11.25, 11, 4]),
        ("own", (0,), [0, 11, 4]),
        ("target", (1, 2), [0, 4, 4]),
        ("own", (0, 1, 2), [0, 4, 8]),
    ],
)
def test_backward_updates_around_a_random_move_by_hand(
    skip: str, drawn: tuple[int, ...], values: list[float]
) -> None:
    """The moves into A, B and C have rewards 4, 8 and 16; their values are 0, 4 and 8 at first.

    TD with rate 1/4, that is half the error of a board whose entries are hit twice; lambda 1/2.
    Without random moves: C 8 - 8/2 = 4, z = 16 + 0 + 4/2 = 18; B 4 + 14/2 = 11, z = 8 + 18/2 + 11/2
    = 22.5; A 22.5/2. With a random move into C and

    - skip "target": B is not updated, and z = 8 + 4 starts anew; A 12/2;
    - skip "own": C is not updated, z = 16 + 8/2 = 20; B 4 + 16/2 = 12, z = 8 + 10 + 6; A 24/2.

    With one into B and skip "own", z = 8 + 18/2 + 4/2 = 19; A 19/2.
    """
    net = network([[0, 1]], (1, 2))
    net.weights[[5, 10]], net.weights[[16, 32]] = 1, 2
    a, b, c = 0x21, 0x03, 0x04
    learn(net, rule(net, "td", 0.25, 0.5, skip=skip), [(a, 4), (b, 8), (c, 16)], drawn)
    assert estimate(net, [a, b, c]).tolist() == values


def test_backward_learning_of_a_part_leaves_the_rest() -> None:
    net = network([[0, 1]], (1, 2))
    path = path_of(net, [(0x21, 4), (0x03, 8), (0x04, 16), (0x05, 32)])
    learn_backward(net, rule(net), path, 1, 3, False)
    assert estimate(net, path.afters).tolist() == [0, 32, 0, 0]  # 2 * 16, hit twice at rate 1


@pytest.mark.parametrize("skip", ["target", "own"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stages": [8, 16, 32, 64], "promote": True},
        {"fixed_point": True, "symmetric": False},
        {"fixed_point": True, "stages": [32], "promote": True, "downgrade": 128},
    ],
    ids=["plain", "promoted", "fixed", "both"],
)
def test_backward_learning_of_any_path_equals_the_naive_learners(
    skip: Any, options: dict[str, Any]
) -> None:
    """Paths from 1 to 40 moves with random boards, rewards and random moves, from any start."""
    rng = random.Random(1)
    tuples, size = [[0, 1, 4], [1, 5]], (2, 3)
    for trial in range(40):
        settings = NTupleSettings(
            rng.choice(["tc", "td"]),
            lam=rng.choice([0.0, 0.5, 1.0, 0.3]),
            rate=rng.choice([1.0, 0.1]),
            printed=rng.random() < 0.3,
            skip=skip,
        )
        if settings.rule == "tc":
            settings = replace(settings, floor=rng.choice([0.0, 0.25]))
        net = network(tuples, size, **options)
        naive = NaiveLearner(settings, tuples, size, 0, **options)
        numbers = settings.step_size, settings.lambda_
        learning_rule = rule(net, settings.rule, *numbers, settings.printed, skip, settings.floor)
        for _ in range(2):
            steps = [
                Step([], [rng.choices(range(6 + trial % 10), k=3) for _ in range(2)], *drawn)
                for drawn in zip(
                    rng.choices([0, 4, 8, 36], k=1 + trial),
                    rng.choices([False, False, True], k=1 + trial),
                    strict=True,
                )
            ]
            start, goes_on = rng.choice([0, 0, len(steps) // 2, len(steps) - 1]), rng.random() < 0.3
            path = path_of(net, [(oracle.to_word(step.after), step.reward) for step in steps])
            path.is_random[:] = [step.is_random for step in steps]
            learn_backward(net, learning_rule, path, start, len(steps), goes_on)
            naive.learn_backward(steps, start, goes_on)
        weights = net.fixed if net.fixed.size else net.weights
        assert (weights == naive.weights).all(), settings
        if settings.rule == "tc":
            assert (learning_rule.sums[0::2] == naive.coherent).all()
            assert (learning_rule.sums[1::2] == naive.absolute).all()
