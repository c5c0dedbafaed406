"""The learner of N-tuple networks: settings, counters, threads and files."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from afterstate.agents import config, files
from afterstate.agents.game2048.learning import ntuple_learner
from afterstate.agents.game2048.learning.ntuple_learner import (
    MAX_THREADS,
    NTupleLearner,
    in_threads,
)
from afterstate.agents.game2048.learning.run_settings import (
    MAX_DELAY,
    NetworkSettings,
    NTupleRun,
    NTupleSettings,
    Start,
)
from afterstate.agents.game2048.learning.self_play import self_play
from afterstate.agents.game2048.values.ntuple_file import load, pack_network, save
from afterstate.agents.game2048.values.ntuple_network import network
from afterstate.agents.training.run import Diverged
from tests.support.game2048.learning_checks import memory, name_of
from tests.support.game2048.tuple_networks import by_nibbles

TINY_4X4 = [[0, 1, 4], [5, 6], [1, 2, 5, 6]]
STAGES = [16, 32, 64]
FORWARD = NTupleSettings(order="forward")

EVERY = [
    NTupleSettings(lam=0.25, rate=0.5),
    NTupleSettings(printed=True),
    NTupleSettings("td", lam=0.5, rate=0.1),
    FORWARD,
    NTupleSettings(order="forward", delay=3),
    NTupleSettings(epsilon=0.1, skip="own"),
    NTupleSettings(restart=10),
    NTupleSettings(order="forward", restart=5, epsilon=0.1),
    NTupleSettings(good=0.5),
    NTupleSettings(good=0.75, restart=5),
    NTupleSettings(search_share=0.5, search_from=2_000),
    NTupleSettings(carousel=True),
    NTupleSettings(carousel=True, restart=5, delay=2, order="forward"),
]
by_settings = pytest.mark.parametrize("settings", EVERY, ids=name_of)


def new(settings: NTupleSettings, seed: int = 3, threads: int = 1) -> NTupleLearner:
    return NTupleLearner(network(TINY_4X4, stages=STAGES), settings, seed, threads)


def assert_same(one: NTupleLearner, other: NTupleLearner) -> None:
    """Compare weights, sums, counters, random streams and pools of two learners."""
    assert one.settings == other.settings
    for name in ("n_games", "n_moves", "n_learned", "rng", "threads"):
        assert getattr(one, name) == getattr(other, name), name
    np.testing.assert_array_equal(memory(one.network), memory(other.network))
    np.testing.assert_array_equal(one.sums, other.sums)
    np.testing.assert_array_equal(one._state, other._state)
    for mine, others in zip(one._pools, other._pools, strict=True):
        np.testing.assert_array_equal(mine, others)


# Playing


@by_settings
def test_a_seed_repeats_its_learning_and_another_does_not(settings: NTupleSettings) -> None:
    first, again, other = (new(settings, seed) for seed in (3, 3, 4))
    for learner in (first, again, other):
        learner.learn(4_000)
    assert_same(first, again)
    assert (first.network.weights != other.network.weights).any()


@by_settings
def test_playing_in_pieces_learns_the_same(settings: NTupleSettings) -> None:
    whole, in_pieces = new(settings), new(settings)
    games = whole.learn(4_000)
    scores: list[int] = []
    while in_pieces.n_moves < 4_000:
        scores += in_pieces.learn(1).scores.tolist()
    assert games.scores.tolist() == scores
    assert_same(whole, in_pieces)


@pytest.mark.parametrize("size", [(1, 2), (2, 2), (3, 3), (4, 4)])
@pytest.mark.parametrize("n_moves", [1, 100, 5_000])
def test_play_stops_after_the_game_that_reaches_its_moves(
    size: tuple[int, int], n_moves: int
) -> None:
    learner = NTupleLearner(network([[0, 1]], size), seed=1)
    games = learner.learn(n_moves)
    assert games.n_moves.sum() >= n_moves
    assert games.n_moves[:-1].sum() < n_moves
    assert (learner.n_games, learner.n_moves) == (len(games.scores), games.n_moves.sum())
    assert learner.n_learned == learner.n_moves


def test_the_network_is_trained_in_place() -> None:
    net = network(TINY_4X4)
    weights = net.weights
    NTupleLearner(net, seed=1).learn(1_000)
    assert weights is net.weights
    assert weights.any()


@pytest.mark.parametrize("wrong", [0, -1, 1.5, float("nan"), float("inf")])
def test_numbers_of_moves_are_whole_and_from_one_on(wrong: float) -> None:
    learner = NTupleLearner(network([[0, 1]]), seed=3)
    with pytest.raises(ValueError, match="n_moves"):
        learner.learn(wrong)
    assert learner.n_games == 0
    assert learner.learn(2e3).n_moves.sum() >= 2_000


# Settings


def test_default_lambda_and_step_size_depend_on_order_and_rule() -> None:
    assert (NTupleSettings().lambda_, NTupleSettings().step_size) == (0.5, 1.0)
    assert (FORWARD.lambda_, FORWARD.step_size) == (0.0, 1.0)
    assert NTupleSettings(order="forward", delay=1).lambda_ == 0.5
    assert (NTupleSettings("td").lambda_, NTupleSettings("td").step_size) == (0.5, 0.1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rule": "sarsa"},
        {"rule": "TC"},
        {"order": "sideways"},
        {"skip": "both"},
        {"lam": -0.1},
        {"lam": 1.1},
        {"lam": float("nan")},
        {"order": "forward", "lam": 0.5},
        {"rate": 0.0},
        {"rate": -0.1},
        {"rate": 1.5},
        {"rate": float("nan")},
        {"order": "forward", "delay": -1},
        {"order": "forward", "delay": 1.5},
        {"order": "forward", "delay": True},
        {"order": "forward", "delay": MAX_DELAY + 1},
        {"restart": -1},
        {"restart": 0},  # the last move of a game would be played again for ever
        {"restart": 2.5},
        {"restart": "10"},
        {"good": 0.0},
        {"good": 1.0},
        {"good": float("nan")},
        {"epsilon": -0.1},
        {"epsilon": 1.1},
        {"epsilon": float("nan")},
        {"search_share": -0.1},
        {"search_share": 2},
        {"search_from": -1},
        {"search_from": float("inf")},
        {"search_from": float("nan")},
        {"search_depth": 1},
        {"search_depth": 6},
        {"search_depth": 2.0},
    ],
    ids=repr,
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    name = list(wrong)[-1]
    with pytest.raises(ValueError, match=f"{name} .*got"):
        NTupleSettings(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"delay": 3}, "delay must be 0 in backward"),
        ({"good": 0.5, "order": "forward"}, "good must be none"),
        ({"good": 0.5, "carousel": True}, "good must be none"),
        ({"within_stage": True, "order": "forward"}, "within_stage must be false"),
        ({"within_stage": True, "good": 0.5}, "within_stage must be false"),
        ({"good": 0.5, "jump": 0.5}, "good must be none"),
        ({"carousel_stages": (16,)}, "carousel_stages must be empty"),
        ({"floor": 0.1, "rule": "td"}, "floor is for the rule tc"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NTupleSettings(**wrong)


def test_stages_of_the_carousel_must_be_those_of_the_network() -> None:
    with pytest.raises(ValueError, match=r"carousel_stages must be of \[0, 16, 64\], got \[32\]"):
        NTupleLearner(
            network(TINY_4X4, stages=[16, 64]), NTupleSettings(carousel=True, carousel_stages=(32,))
        )


def test_a_learner_that_jumps_needs_a_log() -> None:
    learner = NTupleLearner(network(TINY_4X4), NTupleSettings(jump=0.5))
    with pytest.raises(ValueError, match=r"jump must be 0 without a log, got 0\.5"):
        learner.learn(100)


# Threads


@pytest.mark.parametrize("threads", [0, -1, MAX_THREADS + 1, 2.0, "2", None, True])
def test_wrong_numbers_of_threads_are_refused(threads: Any) -> None:
    with pytest.raises(ValueError, match=r"threads .* 1\.\.64"):
        new(NTupleSettings(), threads=threads)
    learner = new(NTupleSettings())
    with pytest.raises(ValueError, match="threads"):
        learner.threads = threads
    assert learner.threads == 1


@by_settings
def test_counters_of_threads_add_up(settings: NTupleSettings) -> None:
    learner = new(settings, threads=3)
    n_games, n_moves = 0, 0
    for _ in range(3):
        before = learner.n_moves
        games = learner.learn(5_000)
        n_games, n_moves = n_games + len(games.scores), n_moves + int(games.n_moves.sum())
        assert learner.n_moves >= before + 5_000
        assert learner.n_games == n_games
        if settings.restart is None and not settings.carousel:
            assert learner.n_moves == n_moves
        if settings.good is None:
            assert learner.n_learned == learner.n_moves
    assert learner.n_learned <= learner.n_moves
    assert (learner._state[:, 2] >= 5_000).all()  # each plays its share


def test_threads_play_games_of_their_own() -> None:
    learner = new(NTupleSettings(), threads=4)
    scores = learner.learn(20_000).scores.tolist()
    assert len(set(scores)) > len(scores) // 2
    assert len(set(learner._state[:, 0].tolist())) == 4


def test_the_first_thread_begins_as_a_learner_without_others() -> None:
    assert new(NTupleSettings(), threads=2).rng == new(NTupleSettings()).rng
    assert (
        new(NTupleSettings(), seed=4, threads=2)._state[1, 0]
        != new(NTupleSettings(), threads=2)._state[1, 0]
    )


def test_changing_the_threads_keeps_the_counters() -> None:
    learner = new(NTupleSettings(good=0.5), threads=2)
    learner.learn(5_000)
    counters = learner.n_games, learner.n_moves, learner.n_learned
    first = learner.rng
    for threads in (5, 1, 1, 3, 64, 2):
        learner.threads = threads
        assert learner.threads == threads
        assert (learner.n_games, learner.n_moves, learner.n_learned) == counters
        assert learner.rng == first
    learner.learn(5_000)
    assert learner.n_moves >= counters[1] + 5_000


@pytest.mark.parametrize("changes", [(64,), (3, 64), (2, 3, 5, 9, 64), (64, 1, 2, 64)])
def test_added_threads_have_random_streams_of_their_own(changes: tuple[int, ...]) -> None:
    for seed in range(5):
        learner = new(NTupleSettings(), seed)
        for threads in changes:
            learner.threads = threads
        assert len(set(learner._state[:, 0].tolist())) == 64, seed


@pytest.mark.parametrize("threads", [1, 2])
def test_changing_the_threads_keeps_the_best_score(threads: int) -> None:
    """Good games are those above a share of the best score of all threads."""
    learner = new(NTupleSettings(good=0.5), threads=3)
    learner.learn(20_000)
    best = learner._state[:, 4].max()
    learner._state[:, 4] = [0, 0, best]
    learner.threads = threads
    assert learner._state[:, 4].max() == best


@pytest.mark.slow
def test_two_threads_learn_as_well_as_one() -> None:
    """Means of 200,000 moves after 400,000; from run to run they differ by some ten percent."""
    means = []
    for threads in (1, 2):
        learner = new(NTupleSettings(), threads=threads)
        learner.learn(400_000)
        means.append(learner.learn(200_000).scores.mean())
    assert means[1] == pytest.approx(means[0], rel=0.4)
    assert min(means) > 8_000  # a random player has 1,100


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("failing", ["all", "last"])
def test_an_error_in_a_thread_reaches_the_caller(
    monkeypatch: pytest.MonkeyPatch, threads: int, failing: str
) -> None:
    """The same error object; the learner can play afterwards."""
    error = MemoryError("no memory for a game")

    def kernel(*arguments: Any) -> int:
        if failing == "all" or arguments[4] == threads - 1:  # the row of the thread
            raise error
        return self_play(*arguments)

    learner = new(NTupleSettings(), threads=threads)
    with monkeypatch.context() as patched:
        patched.setattr(ntuple_learner, "self_play", kernel)
        with pytest.raises(MemoryError) as caught:
            learner.learn(1_000)
    assert caught.value is error
    before = learner.n_moves
    learner.learn(1_000)
    assert learner.n_moves >= before + 1_000


def test_results_of_threads_are_in_the_order_of_threads() -> None:
    """The first thread ends last."""
    ended = [threading.Event() for _ in range(4)]

    def run(me: int) -> int:
        if me < 3:
            assert ended[me + 1].wait(60)
        ended[me].set()
        return 10 * me

    assert in_threads(run, 4) == [0, 10, 20, 30]


def test_an_interrupt_in_a_thread_reaches_the_caller_when_all_have_ended() -> None:
    begun, ended = threading.Event(), threading.Event()

    def run(me: int) -> None:
        if me == 0:
            assert begun.wait(60)
            raise SystemExit(7)
        begun.set()
        time.sleep(0.05)
        ended.set()

    with pytest.raises(SystemExit) as caught:
        in_threads(run, 2)
    assert caught.value.code == 7
    assert ended.is_set()


# Files


OPTIONS: list[dict[str, Any]] = [
    {},
    {"promote": True},
    {"fixed_point": True},
    {"symmetric": False, "downgrade": 64},
]


@pytest.mark.parametrize(
    ("settings", "options"), list(zip(2 * EVERY, cycle(OPTIONS), strict=False)), ids=name_of
)
def test_a_loaded_learner_learns_the_same_as_the_saved_one(
    tmp_path: Path, settings: NTupleSettings, options: dict[str, Any]
) -> None:
    """Each of the settings with two kinds of network, each kind with at least six settings."""
    file = tmp_path / "learner.npz"
    learner = NTupleLearner(network(TINY_4X4, stages=STAGES, **options), settings, 7)
    learner.learn(3_000)
    learner.save(file)
    loaded = NTupleLearner.load(file)
    assert_same(loaded, learner)
    for expected, result in zip(learner.learn(3_000), loaded.learn(3_000), strict=True):
        assert result.tolist() == expected.tolist()
    assert_same(loaded, learner)


def test_the_file_of_a_learner_with_threads_has_them_all(tmp_path: Path) -> None:
    learner = new(NTupleSettings(carousel=True), threads=3)
    learner.learn(5_000)
    learner.save(tmp_path / "learner.npz")
    loaded = NTupleLearner.load(tmp_path / "learner.npz")
    assert loaded.threads == 3
    assert_same(loaded, learner)
    loaded.learn(1_000)


@pytest.mark.parametrize(
    ("fixed_point", "wrong"),
    [
        *((True, n) for n in ((1 << 30) + 1, -(1 << 31))),
        *((False, n) for n in (np.nan, np.inf, -np.inf, 1.1e30)),
    ],
)
def test_weights_that_diverged_are_not_saved(
    tmp_path: Path, fixed_point: bool, wrong: float
) -> None:
    learner = NTupleLearner(network(TINY_4X4, fixed_point=fixed_point), seed=1)
    weights = learner.network.fixed if fixed_point else learner.network.weights
    weights[1:3] = (1 << 30, -(1 << 30)) if fixed_point else (9e29, -9e29)
    learner.save(tmp_path / "learner.npz")
    NTupleLearner.load(tmp_path / "learner.npz")
    before = (tmp_path / "learner.npz").read_bytes()
    weights[-1] = wrong
    with pytest.raises(Diverged, match=r"diverged after 0 moves: some are NaN or too large"):
        learner.save(tmp_path / "learner.npz")
    assert (tmp_path / "learner.npz").read_bytes() == before


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_sums_that_diverged_are_not_saved(tmp_path: Path, wrong: float) -> None:
    learner = NTupleLearner(network(TINY_4X4), seed=1)
    learner.sums[-1] = wrong
    with pytest.raises(Diverged, match="some are NaN or too large"):
        learner.save(tmp_path / "learner.npz")


def test_a_file_without_a_learner_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "network.npz"
    save(network(TINY_4X4), file)
    with pytest.raises(ValueError, match=r"network\.npz.*no learner"):
        NTupleLearner.load(file)


def random_learner(seed: int, tuples: Any, stages: list[int]) -> NTupleLearner:
    """A learner with random weights, sums and boards where games entered stages."""
    rng = np.random.default_rng(seed)
    learner = NTupleLearner(network(tuples, stages=stages), seed=1)
    learner.network.weights[:] = rng.normal(size=learner.network.weights.size)
    learner.sums[:] = rng.normal(size=learner.sums.size)
    learner._pools.boards[:] = rng.integers(1, 1 << 60, learner._pools.boards.shape)
    learner._pools.counts[:] = rng.integers(1, 1000, len(learner._pools.counts))
    return learner


def by_stage(learner: NTupleLearner) -> tuple[Any, Any, Any]:
    """Weights, sums and boards of each stage."""
    n = len(learner._pools.counts)
    weights, sums = learner.network.weights.reshape(n, -1), learner.sums.reshape(n, -1)
    return weights, sums, learner._pools.boards


def test_a_learner_may_start_from_one_with_other_stages(tmp_path: Path) -> None:
    """Stages of 16, 2048 and 6144 begin with what the other learned in those of 0, 16 and 4096."""
    first = random_learner(1, TINY_4X4, [16, 4096])
    first.save(tmp_path / "first.npz")
    staged = NetworkSettings(TINY_4X4, stages=[16, 2048, 6144])
    learner = NTupleRun(staged, seed=2, start=[Start(tmp_path / "first.npz")]).new()
    for old, new in zip(by_stage(first)[:2], by_stage(learner)[:2], strict=True):
        assert (new == old[[0, 1, 1, 2]]).all()
    assert (learner._pools.boards[:2] == first._pools.boards[:2]).all()
    assert learner._pools.counts.tolist() == [*first._pools.counts[:2], 0, 0]
    assert learner.n_moves == 0


def test_stages_may_start_from_several_learners_or_from_zero(tmp_path: Path) -> None:
    """The later tuples of the network are not in the second file."""
    early = random_learner(1, [*TINY_4X4, [0, 5]], [16])
    late = random_learner(2, TINY_4X4, [16, 2048])
    early.save(tmp_path / "early.npz")
    late.save(tmp_path / "late.npz")
    staged = NetworkSettings([*TINY_4X4, [0, 5]], stages=[16, 2048, 4096])
    early_file, late_file = tmp_path / "early.npz", tmp_path / "late.npz"
    starts = [Start(early_file), Start(late_file, 2048), Start(early_file, 4096, weights=False)]
    learner = NTupleRun(staged, seed=2, start=starts).new()
    for k, n in ((0, late.network.stage_size), (1, 2 * late.network.stage_size)):
        new = by_stage(learner)[k]
        assert (new[:2] == by_stage(early)[k]).all()
        assert (new[2, :n] == by_stage(late)[k][2]).all()
        assert not new[2, n:].any()
        assert not new[3].any()
    assert (learner._pools.boards[2] == late._pools.boards[2]).all()


def test_starts_are_in_ascending_order(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text('{"start": [{"file": "a.npz"}, {"file": "b.npz", "begin": 4096}]}')
    starts = [Start(Path("a.npz")), Start(Path("b.npz"), 4096)]
    assert config.read(settings, NTupleRun).start == starts
    settings.write_text('{"start": [{"file": "a.npz"}, {"file": "b.npz"}]}')
    with pytest.raises(ValueError, match=r"ascending order of begin, got \[0, 0\]"):
        config.read(settings, NTupleRun)


@pytest.mark.parametrize(
    ("settings", "options", "words"),
    [
        (NTupleSettings("td"), {}, "same rule"),
        (NTupleSettings(), {"downgrade": 1024}, "same rule and network"),
        (NTupleSettings(), {"promote": True}, "same rule and network"),
    ],
)
def test_a_learner_does_not_start_from_another_network_or_rule(
    settings: NTupleSettings, options: dict[str, Any], words: str
) -> None:
    learner = NTupleLearner(network(TINY_4X4, stages=[16]))
    with pytest.raises(ValueError, match=words):
        learner.start_from(NTupleLearner(network(TINY_4X4, **options), settings))
    with pytest.raises(ValueError, match="further tuples"):
        learner.start_from(NTupleLearner(network(TINY_4X4[::-1])))
    promoted = NTupleLearner(network(TINY_4X4, promote=True))
    with pytest.raises(ValueError, match="neither promoted"):
        promoted.start_from(promoted)


@pytest.mark.parametrize(("begin", "end"), [(1024, None), (17, 2048)])
def test_a_start_that_fits_no_stage_is_refused(begin: int, end: int | None) -> None:
    learner = NTupleLearner(network(TINY_4X4, stages=[16]))
    with pytest.raises(ValueError, match=rf"no stage begins from {begin} on.*: they are \[0, 16\]"):
        learner.start_from(NTupleLearner(network(TINY_4X4)), begin, end)


@pytest.mark.parametrize("wrong", ["tc", "", 0, False, []], ids=repr)
def test_settings_of_another_type_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="settings must be NTupleSettings, got "):
        NTupleLearner(network(TINY_4X4), wrong)


@pytest.mark.parametrize("log", [1, True, [1], "moves.npy", np.zeros(2, np.uint64)], ids=repr)
def test_a_log_of_another_type_is_refused(log: Any) -> None:
    with pytest.raises(ValueError, match="log must be the moves of a play log"):
        NTupleLearner(network(TINY_4X4), log=log)


OLD = {"rng": 5, "n_games": 3, "n_moves": 100}
OLD_SETTINGS = {"rule": "tc", "order": "backward", "lam": 0.5, "rate": 1.0}


@pytest.mark.parametrize(
    "metadata",
    [OLD, {**OLD_SETTINGS, **OLD}, {"settings": OLD_SETTINGS, **OLD}],
    ids=["counters only", "settings and counters", "settings by name"],
)
def test_a_learner_of_version_0_1_can_play_but_not_resume(
    tmp_path: Path, metadata: dict[str, Any]
) -> None:
    file, net = tmp_path / "learner.npz", network(TINY_4X4)
    net.weights[:] = np.random.default_rng(1).normal(0, 30, net.weights.size)
    header = {"tuples": TINY_4X4, "size": [4, 4], "learner": metadata}
    sums: Any = np.zeros(2 * net.weights.size, np.float32)
    files.write(file, "ntuple", header, {"weights": net.weights, "sums": sums})
    assert (load(file).weights == net.weights).all()
    with pytest.raises(ValueError, match=r"learner\.npz .*0\.1"):
        NTupleLearner.load(file)


def test_a_learner_with_entries_in_the_order_of_nibbles_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = NTupleLearner(network(TINY_4X4), seed=1)
    learner.learn(2_000)
    learner.save(tmp_path / "learner.npz")
    header, arrays = files.read(tmp_path / "learner.npz")
    places = by_nibbles(learner.network)
    arrays["weights"] = arrays["weights"][places]
    arrays["sums"] = arrays["sums"].reshape(-1, 2)[places].reshape(-1)
    monkeypatch.setattr(files, "VERSION", 1)
    files.write(tmp_path / "older.npz", "ntuple", header, arrays)
    older = NTupleLearner.load(tmp_path / "older.npz")
    assert_same(older, learner)
    older.learn(1_000)
    learner.learn(1_000)
    assert_same(older, learner)


def with_nan(array: Any) -> Any:
    """Return a copy of an array with NaN in one place."""
    changed = array.copy()
    changed[5] = np.nan
    return changed


ARRAYS: list[tuple[str, Any]] = [
    *((name, None) for name in ("sums", "state", "pool_boards", "pool_counts", "weights")),
    ("sums", lambda sums: sums[:-2]),
    ("sums", lambda sums: sums.astype(np.float64)),
    ("state", lambda state: state[:, :5]),
    ("state", lambda state: state.astype(np.int64)),
    ("state", lambda state: state[:0]),
    ("state", lambda state: state[0]),
    ("state", lambda state: state.repeat(65, 0)),
    ("state", lambda state: np.array(3, np.uint64)),
    ("state", lambda state: np.where(np.arange(6) == 5, np.uint64(4), state)),
    ("pool_boards", lambda boards: boards[:2]),
    ("pool_boards", lambda boards: boards[:, :10]),
    ("pool_counts", lambda counts: counts[:1]),
    ("pool_counts", lambda counts: counts - 1),
    ("weights", lambda weights: weights.astype(np.float64)),
    ("weights", lambda weights: weights.astype(np.int32)),
    ("weights", lambda weights: weights[:-1]),
    *((name, with_nan) for name in ("weights", "sums")),
    ("state", lambda state: state | np.uint64(1 << 63)),
]
ENTRIES: list[tuple[str, Any]] = [
    *(("settings", setting) for setting in ({"momentum": 0.9}, {"rule": "sarsa"}, {"rule": "td"})),
    *(("settings", setting) for setting in ({"delay": 1}, {"lam": "half"})),
    ("learner", {}),
    ("learner", None),
    *(("tuples", tuples) for tuples in ([[0, 1, 2, 3]], None)),
    *(("stages", tiles) for tiles in ([], [17], 16)),
    *(("size", size) for size in (4, [2, 2])),
    ("fixed_point", True),
    ("downgrade", 3),
    *(("learner", {"settings": {}, "seconds": value}) for value in (10**400, float("nan"))),
]


@pytest.fixture(scope="module")
def parts() -> tuple[dict[str, Any], files.Arrays]:
    """Return the header and the arrays of a learner's file."""
    learner = new(NTupleSettings(), seed=1)
    header, arrays = pack_network(learner.network)
    header["learner"] = {"settings": asdict(learner.settings), "seconds": 0.0}
    arrays |= {"sums": learner.sums, "state": learner._state}
    arrays |= {"pool_boards": learner._pools.boards, "pool_counts": learner._pools.counts}
    return header, arrays


def refuse(path: Path, header: dict[str, Any], arrays: files.Arrays) -> None:
    files.write(path, "ntuple", header, arrays, level=0)
    with pytest.raises(ValueError, match=r"learner\.npz"):
        NTupleLearner.load(path)


@pytest.mark.parametrize(("name", "change"), ARRAYS)
def test_a_file_with_wrong_arrays_is_refused(
    tmp_path: Path, parts: tuple[dict[str, Any], files.Arrays], name: str, change: Any
) -> None:
    header, arrays = parts
    wrong = {name: change(arrays[name])} if change else {}
    rest = {other: array for other, array in arrays.items() if other != name}
    refuse(tmp_path / "learner.npz", header, rest | wrong)


@pytest.mark.parametrize(("name", "value"), ENTRIES, ids=str)
def test_a_file_with_a_wrong_header_is_refused(
    tmp_path: Path, parts: tuple[dict[str, Any], files.Arrays], name: str, value: Any
) -> None:
    header, arrays = parts
    if name == "settings":
        settings = header["learner"]["settings"] | value
        name, value = "learner", header["learner"] | {"settings": settings}
    refuse(tmp_path / "learner.npz", header | {name: value}, arrays)


def test_a_file_of_unchanged_parts_is_loaded(
    tmp_path: Path, parts: tuple[dict[str, Any], files.Arrays]
) -> None:
    files.write(tmp_path / "learner.npz", "ntuple", *parts, level=0)
    assert_same(NTupleLearner.load(tmp_path / "learner.npz"), new(NTupleSettings(), seed=1))
