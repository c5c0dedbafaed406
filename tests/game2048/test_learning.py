"""Learning rules against tables worked out by hand and against whole games by a naive learner."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ntuple_oracle import NaiveLearner, expected_score, solve

from afterstate import agents
from afterstate.agents import files
from afterstate.agents.game2048 import learning
from afterstate.agents.game2048.learning import (
    Learner,
    Progress,
    Settings,
    Update,
    learn_backward,
    train,
    update,
)
from afterstate.agents.game2048.ntuple import Network, NTupleAgent, estimate, network, save
from afterstate.agents.game2048.play import play
from afterstate.agents.game2048.players import RandomAgent

FORWARD = Settings(order="forward", lam=0.0)
ALL_CELLS = [[0, 1, 4, 5]]  # of the 2x2 board
TINY_4X4 = [[0, 1, 4], [5, 6], [1, 2, 5, 6]]
SMALL_4X4 = [[0, 1, 2], [4, 5, 6], [0, 1, 4, 5], [1, 2, 5, 6], [5]]


def weight_table(net: Network) -> dict[int, float]:
    """The weights that are not zero, by their entries."""
    return {int(i): float(net.weights[i]) for i in np.flatnonzero(net.weights)}


# Updates by hand


def updates(
    rule: str, rate: float, entries: list[int], errors: list[float]
) -> list[list[list[float]]]:
    """[weight, E, A] of entries 3 and 5 after each update of a board that has `entries`."""
    net = network([[0]], (1, 2))
    assert net.symmetric == len(entries)
    sums = np.zeros(2 * net.weights.size if rule == "tc" else 0, np.float32)
    rows = []
    for error in errors:
        update(net, Update(sums, np.float32(rate)), np.array(entries), 0, np.float32(error))
        kept = sums.reshape(-1, 2) if rule == "tc" else np.zeros((16, 2))
        rows.append([[float(net.weights[i]), *kept[i].tolist()] for i in (3, 5)])
        assert set(weight_table(net)) <= {3, 5}
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


def test_update_reads_its_entries_from_the_given_place_on() -> None:
    net = network([[0]], (1, 2))
    how = Update(np.zeros(0, np.float32), np.float32(1))
    update(net, how, np.array([1, 1, 1, 1, 7, 7, 8, 9, 2, 2]), 4, np.float32(4))
    assert weight_table(net) == {7: 2, 8: 1, 9: 1}


# Backward games by hand: a 1x2 board with the tuple {0 1}, entries a + 16b and b + 16a, both twice


def learn(net: Network, how: Update, lam: float, path: list[tuple[int, int]]) -> None:
    afters = np.array([after for after, _ in path], np.uint64)
    rewards = np.array([reward for _, reward in path], np.int64)
    learn_backward(net, how, np.float32(lam), afters, rewards, len(path))


def test_backward_tc_lambda_of_two_games_by_hand() -> None:
    """The path (1 2) with reward 4, then (3 _) with reward 8; lambda is a half.

    First game: nothing follows (3 _), worth 0: no error, and z = 8. The error of (1 2) is 8, its
    shares 2; entries 33 and 18 are hit twice at rate 1: weights 4, E = A = 4, value 16.
    Second game: z = 8 again, error 8 - 16, shares -2. First hit: rate 1, weight 2, E 2, A 6;
    second hit: rate 2/6, weight 4/3, E 0, A 8.
    """
    net = network([[0, 1]], (1, 2))
    sums = np.zeros(512, np.float32)
    how = Update(sums, np.float32(1))
    path = [(0x21, 4), (0x03, 8)]
    learn(net, how, 0.5, path)
    assert weight_table(net) == {33: 4, 18: 4}
    assert sums.reshape(-1, 2)[[33, 18, 3, 48]].tolist() == [[4, 4], [4, 4], [0, 0], [0, 0]]
    learn(net, how, 0.5, path)
    assert weight_table(net) == pytest.approx({33: 4 / 3, 18: 4 / 3})
    assert sums.reshape(-1, 2)[[33, 18]].tolist() == [[0, 8], [0, 8]]


@pytest.mark.parametrize(("lam", "corner"), [(0.0, 1.25), (0.5, 1.125), (1.0, 1.0)])
def test_backward_td_lambda_mixes_target_and_new_value(lam: float, corner: float) -> None:
    """Rate 1/4; (3 _) is worth 4 * 1 before and, after its error of -4, 4 * (1 - 2/4) = 2.

    The target of (1 2) is 8 + lambda * 0 + (1 - lambda) * 2, that is 10, 9 or 8; its entries get
    twice a quarter of a quarter of it.
    """
    net = network([[0, 1]], (1, 2))
    net.weights[[3, 48]] = 1
    learn(net, Update(np.zeros(0, np.float32), np.float32(0.25)), lam, [(0x21, 4), (0x03, 8)])
    assert weight_table(net) == {3: 0.5, 48: 0.5, 33: corner, 18: corner}


def test_backward_reward_into_an_afterstate_is_not_its_own() -> None:
    """Of a game of one move nothing is learned, whatever its reward."""
    net = network([[0, 1]], (1, 2))
    learn(net, Update(np.zeros(512, np.float32), np.float32(1)), 0.5, [(0x03, 8)])
    assert weight_table(net) == {}


# Whole games


@pytest.mark.parametrize(
    ("tuples", "size", "n_games"),
    [
        ([[0]], (1, 2), 40),
        ([[0, 1]], (1, 4), 40),
        ([[0, 4], [0, 1], [1]], (2, 2), 60),
        (ALL_CELLS, (2, 2), 60),
        ([[0, 1, 2], [0, 4, 5]], (2, 3), 25),
        ([[0, 1, 4, 8], [5]], (3, 2), 25),
        (SMALL_4X4, (4, 4), 4),
    ],
)
@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(lam=0.0),
        Settings(lam=0.8, rate=0.5),
        Settings(rule="td", lam=1.0, rate=0.1),
        Settings(rule="td", lam=0.5, rate=1.0),
        FORWARD,
        Settings(rule="td", order="forward", lam=0.0, rate=0.1),
    ],
    ids=lambda s: f"{s.rule}-{s.order}-{s.lam}-{s.rate}",
)
def test_games_and_weights_equal_the_naive_learners_bit_for_bit(
    tuples: list[list[int]], size: tuple[int, int], n_games: int, settings: Settings
) -> None:
    seed = 10 * size[0] + size[1]
    state = int(np.random.default_rng(seed).integers(0, 2**64, dtype=np.uint64))
    naive = NaiveLearner(tuples, size, settings.rule, settings.rate, settings.lam, state)
    learner = Learner(network(tuples, size), settings, seed)
    play_naively = naive.play_backward if settings.order == "backward" else naive.play_forward
    while learner.n_games < n_games:
        games = learner.play(1)
        for played in zip(*(column.tolist() for column in games), strict=True):
            score, n_moves, largest = play_naively()
            assert played == (score, n_moves, 2**largest)
    assert learner.rng == naive.state
    assert learner.network.weights.any() or learner.sums.any()
    assert (learner.network.weights == naive.weights).all()
    if settings.rule == "tc":
        assert (learner.sums[0::2] == naive.coherent).all()
        assert (learner.sums[1::2] == naive.absolute).all()


def test_first_training_game_is_that_of_a_player_without_knowledge() -> None:
    learner = Learner(network(TINY_4X4), seed=5)
    games = learner.play(1)
    played = play(NTupleAgent(network(TINY_4X4)), 1, seed=5)
    assert games.scores.tolist() == played.scores.tolist()
    assert games.n_moves.tolist() == played.n_moves.tolist()
    assert games.max_tiles.tolist() == played.max_tiles.tolist()


def trained(settings: Settings, seed: int, n_moves: int = 5_000) -> Learner:
    learner = Learner(network(TINY_4X4), settings, seed)
    learner.play(n_moves)
    return learner


@pytest.mark.parametrize("settings", [Settings(), FORWARD], ids=["backward", "forward"])
def test_a_seed_repeats_its_learning_and_another_does_not(settings: Settings) -> None:
    first, again, other = (trained(settings, seed) for seed in (3, 3, 4))
    assert (first.network.weights == again.network.weights).all()
    assert first.rng == again.rng
    assert (first.network.weights != other.network.weights).any()


@pytest.mark.parametrize("settings", [Settings(), FORWARD], ids=["backward", "forward"])
def test_playing_in_pieces_learns_the_same(settings: Settings) -> None:
    at_once = trained(settings, 3)
    in_pieces = Learner(network(TINY_4X4), settings, 3)
    scores = [int(in_pieces.play(1).scores[0]) for _ in range(at_once.n_games)]
    assert in_pieces.n_games == at_once.n_games
    assert in_pieces.n_moves == at_once.n_moves
    assert (in_pieces.network.weights == at_once.network.weights).all()
    assert (in_pieces.sums == at_once.sums).all()
    games = Learner(network(TINY_4X4), settings, 3).play(5_000)
    assert games.scores.tolist() == scores


@pytest.mark.parametrize("size", [(1, 2), (2, 2), (3, 3), (4, 4)])
@pytest.mark.parametrize("n_moves", [1, 100, 5_000])
def test_play_stops_after_the_game_that_reaches_its_moves(
    size: tuple[int, int], n_moves: int
) -> None:
    learner = Learner(network([[0, 1]], size), seed=1)
    games = learner.play(n_moves)
    assert games.n_moves.sum() >= n_moves
    assert games.n_moves[:-1].sum() < n_moves
    assert (learner.n_games, learner.n_moves) == (len(games.scores), games.n_moves.sum())


def test_the_network_is_trained_in_place() -> None:
    net = network(TINY_4X4)
    weights = net.weights
    Learner(net, seed=1).play(1_000)
    assert weights is net.weights
    assert weights.any()


@pytest.mark.parametrize(
    "wrong",
    [
        {"rule": "sarsa"},
        {"rule": "TC"},
        {"order": "sideways"},
        {"lam": -0.1},
        {"lam": 1.1},
        {"lam": float("nan")},
        {"order": "forward", "lam": 0.5},
        {"order": "forward", "lam": 0.5},
        {"rate": 0.0},
        {"rate": -0.1},
        {"rate": 1.5},
        {"rate": float("nan")},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    name = "lam" if wrong == {"order": "forward"} else list(wrong)[-1]
    with pytest.raises(ValueError, match=f"{name} is .* got"):
        Settings(**wrong)


# It does learn


def exact_score(learner: Learner) -> float:
    """The exact expected score of the greedy player on the 2x2 board."""
    return expected_score(2, 2, NTupleAgent(learner.network).act)


def test_the_solved_2x2_game_has_the_known_optimum() -> None:
    best, values = solve(2, 2)
    assert best == pytest.approx(66.964149, abs=5e-7)
    assert len(values) == 464


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(lam=0.0),
        FORWARD,
        Settings(rule="td", order="forward", lam=0.0, rate=0.5),
    ],
    ids=["tc", "tc-0", "tc-forward", "td-forward"],
)
def test_learning_2x2_comes_near_the_exact_optimum(settings: Settings) -> None:
    learner = Learner(network(ALL_CELLS, (2, 2)), settings, seed=1)
    while learner.n_moves < 50_000:
        learner.play(1)
    score = exact_score(learner)
    assert 0.95 * 66.964149 <= score <= 66.964149 + 5e-7


def test_played_games_of_a_2x2_learner_have_the_exact_mean() -> None:
    """The mean of 4,000 games is within four standard errors of the exact expectation."""
    learner = Learner(network(ALL_CELLS, (2, 2)), seed=2)
    while learner.n_moves < 5_000:
        learner.play(1)
    scores = play(NTupleAgent(learner.network), 4_000, seed=1, size=(2, 2)).scores
    error = float(scores.std(ddof=1)) / len(scores) ** 0.5
    assert abs(float(scores.mean()) - exact_score(learner)) < 4 * error


def curve(settings: Settings) -> tuple[float, float]:
    """Mean scores of the first and of the last 100 games in 300,000 moves of learning."""
    learner = Learner(network(SMALL_4X4), settings, seed=1)
    scores = learner.play(300_000).scores
    return float(scores[:100].mean()), float(scores[-100:].mean())


def test_learning_4x4_doubles_the_score_of_a_random_player_and_tc_beats_td() -> None:
    random_score = float(play(RandomAgent(seed=1), 200, seed=1).scores.mean())
    first, last = curve(Settings())
    assert last >= 2 * random_score
    assert last > 1.5 * first
    tc = curve(FORWARD)[1]
    td = curve(Settings(rule="td", order="forward", lam=0.0, rate=0.1))[1]
    assert tc > 1.1 * td
    assert td > random_score


# Files


@pytest.mark.parametrize(
    "settings",
    [Settings(lam=0.25, rate=0.5), FORWARD, Settings(rule="td", lam=0.5, rate=0.1)],
    ids=["backward", "forward", "td"],
)
def test_a_saved_learner_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, settings: Settings
) -> None:
    file = tmp_path / "learner.npz"
    learner = trained(settings, 7)
    learner.save(file)
    loaded = Learner.load(file)
    assert loaded.settings == settings
    assert (loaded.n_games, loaded.n_moves) == (learner.n_games, learner.n_moves)
    on, again = learner.play(5_000), loaded.play(5_000)
    for here, there in zip(on, again, strict=True):
        assert here.tolist() == there.tolist()
    assert (loaded.network.weights == learner.network.weights).all()
    assert (loaded.sums == learner.sums).all()
    assert loaded.rng == learner.rng


def test_a_network_without_learner_cannot_go_on(tmp_path: Path) -> None:
    file = tmp_path / "network.npz"
    save(network(TINY_4X4), file)
    with pytest.raises(ValueError, match=r"network\.npz.*no learner"):
        Learner.load(file)


def without_sums(header: dict[str, Any], arrays: files.Arrays) -> None:
    del arrays["sums"]


def short_sums(header: dict[str, Any], arrays: files.Arrays) -> None:
    arrays["sums"] = arrays["sums"][:-2]


def double_sums(header: dict[str, Any], arrays: files.Arrays) -> None:
    arrays["sums"] = arrays["sums"].astype(np.float64)


def empty_learner(header: dict[str, Any], arrays: files.Arrays) -> None:
    header["learner"] = {}


def unknown_setting(header: dict[str, Any], arrays: files.Arrays) -> None:
    header["learner"]["settings"]["momentum"] = 0.9


def unknown_rule(header: dict[str, Any], arrays: files.Arrays) -> None:
    header["learner"]["settings"]["rule"] = "sarsa"


def text_state(header: dict[str, Any], arrays: files.Arrays) -> None:
    header["learner"]["rng"] = "seventeen"


def no_tuples(header: dict[str, Any], arrays: files.Arrays) -> None:
    del header["tuples"]


def other_tuples(header: dict[str, Any], arrays: files.Arrays) -> None:
    header["tuples"] = [[0, 1, 2, 3]]


def double_weights(header: dict[str, Any], arrays: files.Arrays) -> None:
    arrays["weights"] = arrays["weights"].astype(np.float64)


def flat_size(header: dict[str, Any], arrays: files.Arrays) -> None:
    header["size"] = 4


@pytest.mark.parametrize(
    "spoil",
    [
        without_sums,
        short_sums,
        double_sums,
        empty_learner,
        unknown_setting,
        unknown_rule,
        text_state,
        no_tuples,
        other_tuples,
        double_weights,
        flat_size,
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused(tmp_path: Path, spoil: Any) -> None:
    file = tmp_path / "learner.npz"
    Learner(network(TINY_4X4), seed=1).save(file)
    header, arrays = files.read(file)
    for name in ("format", "version", "kind", "arrays"):
        del header[name]
    spoil(header, arrays)
    files.write(file, "ntuple", header, arrays)
    with pytest.raises(ValueError, match=r"learner\.npz"):
        Learner.load(file)


# Training


def test_train_needs_an_end() -> None:
    with pytest.raises(ValueError, match="n_moves or seconds"):
        train(Learner(network(TINY_4X4), seed=1))


def test_train_without_an_end_writes_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        train(Learner(network(TINY_4X4), seed=1), save_to=tmp_path / "learner.npz")
    assert list(tmp_path.iterdir()) == []


def test_train_stops_after_its_moves_and_reports() -> None:
    learner = Learner(network(TINY_4X4), seed=1)
    learner.play(1_000)
    before, games_before = learner.n_moves, learner.n_games
    seen: list[Progress] = []
    reports = train(learner, n_moves=30_000, report=seen.append)
    assert reports == seen
    assert len(reports) > 1
    assert 30_000 <= learner.n_moves - before < 30_000 + learning.MAX_MOVES
    assert reports[-1].n_moves == learner.n_moves
    assert reports[-1].n_games == learner.n_games > games_before
    for earlier, later in pairwise(reports):
        assert earlier.n_moves < later.n_moves
        assert earlier.n_games < later.n_games
        assert earlier.seconds <= later.seconds
    assert all(report.moves_per_second > 0 for report in reports)
    assert all(0 <= report.rate_2048 <= 1 for report in reports)


def test_train_passes_its_end_by_one_game_at_most() -> None:
    learner = Learner(network(TINY_4X4), seed=1)
    train(learner, n_moves=12_345)
    lone = Learner(network(TINY_4X4), seed=1)
    while lone.n_moves < 12_345:
        lone.play(1)
    assert learner.n_games == lone.n_games
    assert (learner.network.weights == lone.network.weights).all()


def test_train_reports_the_mean_of_the_latest_thousand_games() -> None:
    learner = Learner(network([[0, 1]], (2, 2)), seed=1)
    reports = train(learner, n_moves=30_000)
    lone = Learner(network([[0, 1]], (2, 2)), seed=1)
    scores: list[int] = []
    for report in reports:
        while lone.n_games < report.n_games:
            scores += lone.play(1).scores.tolist()
        assert report.mean_score == pytest.approx(np.mean(scores[-1_000:]))
        assert report.rate_2048 == 0
    assert len(scores) > 1_000


@pytest.mark.parametrize("limit", ["n_moves", "seconds"])
def test_train_to_an_end_already_reached_only_saves(tmp_path: Path, limit: str) -> None:
    learner = Learner(network(TINY_4X4), seed=1)
    limits: dict[str, Any] = {limit: 0}
    assert train(learner, **limits, save_to=tmp_path / "learner.npz") == []
    assert learner.n_games == 0
    assert Learner.load(tmp_path / "learner.npz").n_games == 0


def test_train_stops_after_its_time() -> None:
    learner = Learner(network(TINY_4X4), seed=1)
    start = time.monotonic()
    reports = train(learner, seconds=0.3)
    took = time.monotonic() - start
    assert 0.3 <= took < 5
    assert reports[-1].seconds >= 0.3
    assert learner.n_moves > 0


def test_train_stops_at_whichever_end_comes_first() -> None:
    learner = Learner(network(TINY_4X4), seed=1)
    start = time.monotonic()
    train(learner, n_moves=2_000, seconds=60)
    assert time.monotonic() - start < 10
    assert learner.n_moves >= 2_000


def test_train_works_where_the_clock_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that ticks every 16 ms sees no time pass in a short piece of training."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    learner = Learner(network(TINY_4X4), seed=1)
    train(learner, n_moves=1_000)
    assert learner.n_moves >= 1_000


def test_train_saves_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "learner.npz"
    learner = Learner(network(TINY_4X4), seed=1)
    train(learner, n_moves=2_000, save_to=file)
    loaded = Learner.load(file)
    assert loaded.n_moves == learner.n_moves
    assert (loaded.network.weights == learner.network.weights).all()
    boards: npt.NDArray[np.uint64] = np.arange(1, 2**40, 2**33 + 12_345, dtype=np.uint64)
    agent = agents.load(file)
    assert isinstance(agent, NTupleAgent)
    assert estimate(agent.network, boards).tolist() == estimate(learner.network, boards).tolist()


@pytest.mark.parametrize("settings", [Settings(), FORWARD], ids=["backward", "forward"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_training_is_saved_and_goes_on_without_a_difference(
    tmp_path: Path, settings: Settings, error: type[BaseException]
) -> None:
    file = tmp_path / "learner.npz"
    seen: list[Progress] = []

    def interrupt(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == 2:
            raise error("enough")

    with pytest.raises(error, match="enough"):
        train(
            Learner(network(TINY_4X4), settings, seed=1),
            n_moves=10**9,
            save_to=file,
            report=interrupt,
        )
    resumed = Learner.load(file)
    assert (resumed.n_moves, resumed.n_games) == (seen[1].n_moves, seen[1].n_games)
    train(resumed, n_moves=10_000)
    whole = Learner(network(TINY_4X4), settings, seed=1)
    train(whole, n_moves=resumed.n_moves)
    assert (whole.n_games, whole.n_moves) == (resumed.n_games, resumed.n_moves)
    assert whole.rng == resumed.rng
    assert (whole.network.weights == resumed.network.weights).all()
    assert (whole.sums == resumed.sums).all()


def test_an_interrupt_without_a_file_goes_on_at_once() -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(Learner(network(TINY_4X4), seed=1), n_moves=10**9, report=interrupt)


def test_what_settings_leave_open_follows_from_the_order_and_the_rule() -> None:
    assert (Settings().lam, Settings().rate) == (0.5, 1.0)
    assert (Settings(order="forward").lam, Settings(order="forward").rate) == (0.0, 1.0)
    assert (Settings(rule="td").lam, Settings(rule="td").rate) == (0.5, 0.1)


@pytest.fixture
def listening() -> Iterator[None]:
    """Ctrl-C is heard, also where the tests run in the background of a shell that ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
@pytest.mark.parametrize("delay", [0.02, 0.05, 0.11])
def test_ctrl_c_leaves_a_learner_whose_counters_fit_its_weights(
    tmp_path: Path, delay: float
) -> None:
    """The signal comes while a kernel runs, so Python sees it just after."""
    learner = Learner(network([[0, 1, 4, 5]]), seed=3)
    learner.play(1)
    threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        train(learner, seconds=20, save_to=tmp_path / "learner.npz")
    saved = Learner.load(tmp_path / "learner.npz")
    straight = Learner(network([[0, 1, 4, 5]]), seed=3)
    while straight.n_games < saved.n_games:
        straight.play(1)
    assert (straight.n_games, straight.n_moves) == (saved.n_games, saved.n_moves)
    assert straight.rng == saved.rng
    np.testing.assert_array_equal(straight.network.weights, saved.network.weights)
    np.testing.assert_array_equal(straight.sums, saved.sums)


def test_numbers_of_moves_are_whole() -> None:
    learner = Learner(network([[0, 1]]), seed=3)
    train(learner, n_moves=2e3)
    assert learner.n_moves >= 2_000
    for wrong in (1.5, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="n_moves is a whole number"):
            train(learner, n_moves=wrong)
        with pytest.raises(ValueError, match="n_moves is a whole number"):
            learner.play(wrong)


def test_a_place_where_nothing_can_be_saved_shows_before_training(tmp_path: Path) -> None:
    learner = Learner(network([[0, 1]]), seed=3)
    with pytest.raises(OSError, match="not a file"):
        train(learner, n_moves=1_000, save_to=tmp_path)
    assert learner.n_moves == 0
