"""Games of self-play with every setting, compared with a naive learner of the same seed."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from afterstate.agents.game2048.learning import play_logs
from afterstate.agents.game2048.learning.ntuple_learner import NTupleLearner
from afterstate.agents.game2048.learning.run_settings import NTupleSettings
from afterstate.agents.game2048.learning.self_play import BEST, NEXT_STAGE, POOL, play_forward
from afterstate.agents.game2048.learning.td import new_path
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.search.expectimax import ExpectimaxAgent
from afterstate.agents.game2048.simple import RandomAgent
from afterstate.agents.game2048.values.ntuple import NTupleAgent, estimate
from afterstate.agents.game2048.values.ntuple_network import Network, network
from tests.oracles import game2048 as oracle
from tests.oracles.ntuple import NaiveLearner, Step
from tests.support.game2048.learning_checks import memory, name_of
from tests.support.game2048.tuple_networks import drawn_boards, words

FORWARD = NTupleSettings(order="forward")
ALL_CELLS = [[0, 1, 4, 5]]  # of the 2x2 board
SMALL_4X4 = [[0, 1, 2], [4, 5, 6], [0, 1, 4, 5], [1, 2, 5, 6], [5]]


def pair(
    settings: NTupleSettings, tuples: Any, size: tuple[int, int], seed: int, **options: Any
) -> tuple[NTupleLearner, NaiveLearner]:
    """Return a learner and a naive learner, which both search with expectimax."""
    state = int(np.random.default_rng(seed).integers(0, 2**64, dtype=np.uint64))
    learner = NTupleLearner(network(tuples, size, **options), settings, seed)
    start_value = options.pop("start_value", 0)
    options.pop("start_value_from", None)
    naive = NaiveLearner(settings, tuples, size, state, **options)
    if start_value:
        naive.weights[:] = memory(learner.network)
    twin = learner.network._replace(
        weights=naive.weights.view(np.float32),
        fixed=naive.weights if learner.network.fixed.size else learner.network.fixed,
    )
    agent = ExpectimaxAgent(twin, settings.search_depth, table_bits=0)
    naive.search = lambda board: int(agent.act(oracle.to_word(board)))
    return learner, naive


def play_both(learner: NTupleLearner, naive: NaiveLearner, n_moves: int) -> None:
    """Play with both learners, and compare their games, weights, sums and pools."""
    end, rows = naive.n_moves + n_moves, []
    while naive.n_moves < end:
        if (row := naive.play_game()) is not None:
            rows.append(row)
    games = learner.learn(n_moves)
    assert list(zip(*(column.tolist() for column in games), strict=True)) == rows
    assert learner.rng == naive.state
    assert learner.n_games == naive.n_games
    assert (learner.n_moves, learner.n_learned) == (naive.n_moves, naive.n_learned)
    assert learner._state[0, [BEST, NEXT_STAGE]].tolist() == [naive.best, naive.turn]
    assert learner._pools.counts.tolist() == naive.n_pooled
    for boards, pool in zip(learner._pools.boards.tolist(), naive.pools, strict=True):
        assert boards[: len(pool)] == [oracle.to_word(board) for board in pool]
    assert (memory(learner.network) == naive.weights).all()
    if learner.settings.rule == "tc":
        assert (learner.sums[0::2] == naive.coherent).all()
        assert (learner.sums[1::2] == naive.absolute).all()


# Every setting

PLAIN = [
    NTupleSettings(),
    NTupleSettings(lam=0.0),
    NTupleSettings(lam=0.8, rate=0.5),
    NTupleSettings("td", lam=1.0),
    NTupleSettings("td", lam=0.5, rate=1.0),
    FORWARD,
    NTupleSettings("td", "forward"),
    NTupleSettings(printed=True),
    NTupleSettings(printed=True, order="forward"),
    NTupleSettings(floor=0.3),
]
DELAYED = [
    NTupleSettings(order="forward", delay=3),
    NTupleSettings("td", "forward", lam=0.9, delay=1, rate=0.5),
    NTupleSettings(order="forward", lam=1.0, delay=64),
    NTupleSettings(order="forward", lam=0.0, delay=2),
]
RANDOM = [
    NTupleSettings(epsilon=0.3),
    NTupleSettings(epsilon=0.3, skip="own"),
    NTupleSettings(epsilon=0.7, lam=1.0),
    NTupleSettings(order="forward", epsilon=0.3),
    NTupleSettings(order="forward", epsilon=0.3, skip="own"),
    NTupleSettings(order="forward", delay=3, epsilon=0.2),
    NTupleSettings(order="forward", delay=3, epsilon=0.2, skip="own"),
]
RESTARTED = [
    NTupleSettings(restart=10),
    NTupleSettings(restart=1, lam=0.0),
    NTupleSettings(restart=3, epsilon=0.1),
    NTupleSettings(restart=3, epsilon=0.1, skip="own"),
    NTupleSettings(order="forward", restart=3),
    NTupleSettings(order="forward", restart=2, delay=3, epsilon=0.1),
]
GOOD = [
    NTupleSettings(good=0.75),
    NTupleSettings(good=0.5, lam=0.0),
    NTupleSettings(good=0.75, restart=2),
    NTupleSettings(good=0.95, restart=3, epsilon=0.1),
]
SEARCHED = [
    NTupleSettings(search_share=1.0),
    NTupleSettings(search_share=0.5, restart=3),
    NTupleSettings(search_share=0.5, search_from=100, epsilon=0.1),
    NTupleSettings(search_share=0.4, order="forward", search_depth=3),
]
CAROUSELS = [
    NTupleSettings(carousel=True),
    NTupleSettings(carousel=True, restart=3, epsilon=0.1),
    NTupleSettings(carousel=True, order="forward", delay=2),
    NTupleSettings(carousel=True, search_share=0.3),
    NTupleSettings(carousel=True, within_stage=True),
    NTupleSettings(carousel=True, within_stage=True, restart=2, epsilon=0.1, rule="td"),
]
EVERY = [*PLAIN, *DELAYED, *RANDOM, *RESTARTED, *GOOD, *SEARCHED]


BOARDS: list[tuple[list[list[int]], tuple[int, int], int]] = [
    (ALL_CELLS, (2, 2), 12),
    ([[0, 1, 4, 8], [5]], (3, 2), 6),
    (SMALL_4X4, (4, 4), 2),
]
"""Tuples of cells, the size of their board, and the rounds of games to play."""


@pytest.mark.parametrize(
    ("settings", "board"), list(zip(EVERY, cycle(BOARDS), strict=False)), ids=name_of
)
def test_games_and_weights_equal_the_naive_learners_bit_for_bit(
    settings: NTupleSettings, board: tuple[list[list[int]], tuple[int, int], int]
) -> None:
    tuples, size, n_rounds = board
    learner, naive = pair(settings, tuples, size, 10 * size[0] + size[1])
    for n_moves in range(1, n_rounds + 1):
        play_both(learner, naive, n_moves)
    assert learner.network.weights.any()


@pytest.mark.parametrize(
    ("tuples", "size", "kinds"),
    [
        ([[0]], (1, 2), [NTupleSettings(), FORWARD]),
        ([[0, 1]], (1, 4), [DELAYED[0], RANDOM[0]]),
        ([[0], [4]], (4, 1), [RESTARTED[2], GOOD[2]]),
        ([[0, 4], [0, 1], [1]], (2, 2), [NTupleSettings(), RANDOM[0]]),
        ([[0, 1, 2], [0, 4, 5]], (2, 3), [FORWARD, DELAYED[0], GOOD[2]]),
    ],
    ids=["1x2", "1x4", "4x1", "2x2", "2x3"],
)
def test_games_on_other_boards_equal_the_naive_learners_bit_for_bit(
    tuples: list[list[int]], size: tuple[int, int], kinds: list[NTupleSettings]
) -> None:
    for settings in kinds:
        learner, naive = pair(settings, tuples, size, 10 * size[0] + size[1])
        for _ in range(10):
            play_both(learner, naive, 10)


OPTIONS: list[dict[str, Any]] = [
    {"stages": [8, 16]},
    {"stages": [4, 8, 16], "promote": True},
    {"symmetric": False},
    {"fixed_point": True},
    {"stages": [8, 16], "promote": True, "fixed_point": True, "symmetric": False},
    {"downgrade": 8},
    {"start_value": 40},
    {"start_value": 40, "stages": [8], "promote": True, "fixed_point": True},
    {"start_value": 40, "start_value_from": 8, "stages": [4, 8, 16], "promote": True},
]
KINDS = [
    NTupleSettings(),
    DELAYED[0],
    FORWARD,
    RESTARTED[3],
    GOOD[2],
    SEARCHED[1],
    NTupleSettings("td"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "settings"), list(zip(3 * OPTIONS, cycle(KINDS), strict=False)), ids=str
)
def test_every_kind_of_network_learns_as_the_naive_one(
    options: dict[str, Any], settings: NTupleSettings
) -> None:
    """Each kind of network with three settings, each of the settings with three kinds."""
    learner, naive = pair(settings, [[0, 1, 4], [5], [1, 2]], (2, 3), 5, **options)
    for _ in range(10):
        play_both(learner, naive, 10)


# Forward learning


@pytest.mark.parametrize(
    ("lam", "delay", "epsilon", "skip"),
    [
        (0.0, 0, 0.2, "target"),
        (0.0, 0, 0.2, "own"),
        (0.5, 1, 0.0, "target"),
        (0.5, 3, 0.2, "target"),
        (0.5, 1, 0.2, "own"),
        (0.9, 8, 0.2, "own"),
        (0.9, 8, 0.0, "own"),
        (1.0, 64, 0.2, "target"),
    ],
)
def test_a_delayed_update_is_the_sum_of_the_errors_by_powers_of_lambda(
    lam: float, delay: int, epsilon: float, skip: Any
) -> None:
    """On 2x2 every board has its own weight and never comes back in a game.

    So a game's errors are all of the weights before it, and with rate 1 an afterstate's change is
    the sum of `delay + 1` errors, the k-th times lambda**k; with skip "target" up to the first
    random move, with skip "own" none if its own move was random.
    """
    settings = NTupleSettings(
        "td", "forward", lam=lam, rate=1.0, delay=delay, epsilon=epsilon, skip=skip
    )
    n_random = 0
    for seed in range(8):
        learner, naive = pair(settings, ALL_CELLS, (2, 2), seed, symmetric=False)
        drawn = np.random.default_rng(seed).normal(20, 10, 16**4)
        learner.network.weights[:] = naive.weights[:] = drawn
        path: list[Step] = []
        naive.play_to_end(path, naive.first_board()[0], False)
        values = [*(float(naive.value(step.after)) for step in path), 0.0]
        rewards = [step.reward for step in path[1:]] + [0]
        errors = [rewards[t] + values[t + 1] - values[t] for t in range(len(path))]
        expected: npt.NDArray[Any] = naive.weights.copy()
        for t, step in enumerate(path):
            if skip == "own" and step.is_random:
                continue
            for k, error in enumerate(errors[t : t + delay + 1]):
                toward = path[t + k + 1 : t + k + 2]
                if skip == "target" and toward and toward[0].is_random:
                    break
                expected[naive.entries(step.after)[0]] += lam**k * error
        n_random += sum(step.is_random for step in path)
        learner.learn(1)
        np.testing.assert_allclose(learner.network.weights, expected, rtol=1e-4, atol=1e-3)
        assert (learner.network.weights != drawn.astype(np.float32)).sum() > len(path) // 3
    assert (n_random > 0) == (epsilon > 0)


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_a_truncated_game_counts_as_over_and_leaves_no_error_for_the_next(delay: int) -> None:
    """A path of at most 6 moves on 2x2, where each board has a weight of its own, 100 at first."""
    net = network(ALL_CELLS, (2, 2), symmetric=False, start_value=100)
    learner = NTupleLearner(net, NTupleSettings("td", "forward", rate=1.0, delay=delay), seed=1)
    path = new_path(6, delay)
    board, rng = np.uint64(0x11), np.uint64(1)
    end, *_ = play_forward(
        net, learner._update_rule(), learner._play_settings(), None, False, board, rng, path, 0
    )
    assert end == 6
    assert not path.errors.any()
    assert estimate(net, path.afters[-1]) == 0
    if delay == 0:  # each other one has moved to the reward and the value that followed
        followed = [100 + reward for reward in path.rewards[1:].tolist()]
        assert estimate(net, path.afters).tolist() == [*followed, 0]


# Restart


@pytest.mark.slow
@pytest.mark.parametrize("least", [1, 10])
def test_a_game_is_played_again_from_the_middle_of_what_was_played_last(least: int) -> None:
    """Algorithm 2 of Matsuzaki 2017, by the rounds of the naive learner."""
    learner, naive = pair(NTupleSettings(restart=least), SMALL_4X4, (4, 4), 2)
    for _ in range(2):
        play_both(learner, naive, 1)
        assert naive.rounds[0][0] == 0
        start, end = 0, naive.rounds[0][1]
        for next_start, next_end in naive.rounds[1:]:
            assert next_start == start + (end - start) // 2
            assert end - next_start > least
            start, end = next_start, next_end
        assert end - (start + end) // 2 <= least
        assert len(naive.rounds) > 3
    assert learner.n_learned == learner.n_moves


def test_rows_are_games_from_the_start_before_any_restart() -> None:
    """With a rate of 0 in single precision the network stays as it is, and so does its play."""
    learner = NTupleLearner(
        network(SMALL_4X4), NTupleSettings("td", rate=1e-50, restart=10), seed=4
    )
    games = learner.learn(1)
    assert games.scores.tolist() == play(NTupleAgent(network(SMALL_4X4)), 1, seed=4).scores.tolist()
    assert learner.n_moves > games.n_moves[0]
    assert learner.n_games == 1


# Good plays only


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 0.99])
def test_games_above_a_share_of_the_best_score_are_learned_from(share: float) -> None:
    learner = NTupleLearner(network(SMALL_4X4), NTupleSettings(good=share), seed=1)
    n_learned = best = n_good = 0
    for _ in range(100):
        sums = learner.sums.copy()
        games = learner.learn(1)
        score = int(games.scores[0])
        best = max(best, score)
        if score > share * best:
            n_learned += int(games.n_moves[0])
            n_good += 1
        assert bool((learner.sums != sums).any()) is (score > share * best)
        assert learner.n_learned == n_learned
    assert n_good < 100


@pytest.mark.slow
def test_a_good_game_is_learned_from_once_and_as_a_whole() -> None:
    """Algorithm 4: one that is not good is played again from its middle, until it is."""
    learner, naive = pair(NTupleSettings(good=0.9, restart=5), SMALL_4X4, (4, 4), 1)
    n_rounds: list[int] = []
    for _ in range(9):
        learned_before = naive.n_learned
        play_both(learner, naive, 1)
        start, end = naive.rounds[-1]
        learned = naive.n_learned - learned_before
        assert learned in (0, end)
        assert learned or end - (start + end) // 2 <= 5
        n_rounds.append(len(naive.rounds) if learned else 0)
    assert n_rounds[0] == 1
    assert max(n_rounds) > 1  # one was good only when it was played again
    assert 0 in n_rounds


# Search and random moves


def test_random_moves_are_those_of_a_random_player() -> None:
    """Equal means of a few hundred games each, within four standard errors of the difference."""
    explorer = NTupleLearner(network(SMALL_4X4), NTupleSettings(epsilon=1.0), seed=3)
    drawn = explorer.learn(50_000).scores
    scores = play(RandomAgent(seed=1), 400, seed=1).scores
    error = (drawn.var() / len(drawn) + scores.var() / len(scores)) ** 0.5
    assert abs(drawn.mean() - scores.mean()) < 4 * error


# Games that begin in the middle


@pytest.mark.parametrize(
    "settings",
    [
        NTupleSettings(jump=0.5),
        NTupleSettings(jump=0.3, restart=2, epsilon=0.1),
        NTupleSettings(jump=0.5, order="forward"),
        NTupleSettings(jump=0.4, carousel=True),
        NTupleSettings(jump=1.0, search_share=0.5),
    ],
    ids=name_of,
)
def test_games_from_a_log_equal_the_naive_learners(settings: NTupleSettings) -> None:
    learner, naive = pair(settings, SMALL_4X4, (4, 4), 7, stages=[16, 64])
    log = np.zeros(20, play_logs.MOVE)
    naive.log = drawn_boards(20)
    log["board"] = words(naive.log)
    learner = NTupleLearner(learner.network, settings, 7, log=log)
    for _ in range(3):
        play_both(learner, naive, 80)
    assert (learner.n_games == 0) == (settings.jump == 1)


@pytest.mark.parametrize("settings", CAROUSELS, ids=name_of)
def test_games_of_a_carousel_equal_the_naive_learners(settings: NTupleSettings) -> None:
    learner, naive = pair(settings, ALL_CELLS, (2, 2), 7, stages=[8, 16, 32])
    for _ in range(20):
        play_both(learner, naive, 20)
    assert (learner._pools.counts[1:3] > 0).all()


@pytest.mark.slow
def test_games_of_a_carousel_on_4x4_equal_the_naive_learners() -> None:
    learner, naive = pair(CAROUSELS[1], SMALL_4X4, (4, 4), 7, stages=[4, 8, 32, 64, 512])
    for _ in range(3):
        play_both(learner, naive, 200)
    assert (learner._pools.counts[1:3] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("settings", CAROUSELS[::2], ids=name_of)
def test_stages_are_those_of_downgraded_boards(settings: NTupleSettings) -> None:
    options = {"stages": [8, 16, 32, 64], "downgrade": 32}
    learner, naive = pair(settings, SMALL_4X4, (4, 4), 7, **options)
    for _ in range(3):
        play_both(learner, naive, 200)
    assert (learner._pools.counts[1:3] > 0).all()


@pytest.mark.slow
def test_games_within_the_first_stage_equal_the_naive_learners() -> None:
    settings = NTupleSettings(within_stage=True, restart=2)
    learner, naive = pair(settings, SMALL_4X4, (4, 4), 7, stages=[128])
    for _ in range(3):
        play_both(learner, naive, 200)
    first = learner.network.weights[: learner.network.stage_size]
    assert first.any()
    assert not learner.network.weights[learner.network.stage_size :].any()


@pytest.mark.slow
def test_a_full_pool_forgets_its_oldest_board() -> None:
    learner, naive = pair(NTupleSettings("td", carousel=True), [[0, 1]], (1, 4), 3, stages=[8])
    while naive.n_pooled[1] <= POOL + 100:
        play_both(learner, naive, 500)
    assert learner._pools.counts[1] > POOL + 100


def test_games_begin_in_turn_at_the_start_and_in_each_stage_that_was_reached() -> None:
    """One stage was not reached, so that the turns are 0, 1, 2, 0, 1, 2."""
    net = network(ALL_CELLS, (2, 2), stages=[8, 16, 1024])
    learner = NTupleLearner(net, NTupleSettings(carousel=True), seed=1)
    turns = []
    for _ in range(300):
        turns.append(int(learner._state[0, NEXT_STAGE]))
        learner.learn(1)
    known = turns[turns.index(2) :]
    assert known[:6] == [2, 0, 1, 2, 0, 1]
    assert turns[-6:] in ([0, 1, 2] * 2, [1, 2, 0] * 2, [2, 0, 1] * 2)
    assert learner.n_games == turns.count(0)


def test_games_begin_at_the_chosen_stages_once_they_were_reached() -> None:
    """Within stages, those from the start on end at 8, so 16 is reached from there only."""
    net = network(ALL_CELLS, (2, 2), stages=[8, 16, 1024])
    learner = NTupleLearner(net, NTupleSettings(carousel=True, carousel_stages=(8, 1024)), seed=1)
    turns = []
    for _ in range(100):
        turns.append(int(learner._state[0, NEXT_STAGE]))
        learner.learn(1)
    n_first = turns.index(1)
    assert n_first > 0
    assert turns == [0] * n_first + [1] * (100 - n_first)
    assert learner.n_games == n_first
    first = net.weights[: net.stage_size].copy()
    learner.settings = NTupleSettings(carousel=True, carousel_stages=(16,), within_stage=True)
    learner.learn(1)
    learner.learn(200)
    assert (net.weights[: net.stage_size] == first).all()


@pytest.mark.slow
@pytest.mark.parametrize("order", ["backward", "forward"])
def test_a_network_of_named_tuples_learns_as_the_generic_one(order: Any) -> None:
    net = network("4x6")
    generic = Network(*network("4x6"))
    for each in (net, generic):
        NTupleLearner(each, NTupleSettings(order=order), seed=3).learn(2_000)
    assert (net.weights == generic.weights).all()
    assert np.count_nonzero(net.weights) > 1_000


def test_a_learner_that_leaves_the_carousel_begins_games_at_the_start() -> None:
    net = network(ALL_CELLS, (2, 2), stages=[8, 16])
    learner = NTupleLearner(net, NTupleSettings(carousel=True), seed=1)
    while learner._state[0, NEXT_STAGE] != 1:
        learner.learn(1)
    learner.settings = NTupleSettings()
    assert len(learner.learn(1).scores) == 1
