"""Tests of learning rank networks: samples, targets, batches, averages, and a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("safetensors")
pytest.importorskip("torch")

import torch
from torch import Tensor, nn

from afterstate.agents.daihinmin.afterstates.chains import AFTERSTATE
from afterstate.agents.daihinmin.learning.game_records import Log, play_log
from afterstate.agents.daihinmin.learning.rank_learner import (
    RankLearner,
    Samples,
    bootstrap,
    join,
    rmse,
    samples_of,
    without_games,
)
from afterstate.agents.daihinmin.learning.rank_settings import RankSettings
from afterstate.agents.daihinmin.learning.self_play import play_games
from afterstate.agents.daihinmin.rule_based.players import SampleAgent
from afterstate.agents.daihinmin.values.history import Moments, decisions
from afterstate.agents.daihinmin.values.rank_net import network, predict
from afterstate.envs.daihinmin.rules import GAME

pytestmark = pytest.mark.usefixtures("one_thread")


def log_of(n_games: int, seed: int) -> Log:
    """Return games of the heuristic player."""
    return play_games(["heuristic"] * 5, n_games, seed, n_matches=5)


def seeded(name: str = "FCNN", **settings: int) -> nn.Module:
    """Return a network with fixed weights."""
    torch.manual_seed(1)
    return network(name, **settings)


class Bias(nn.Module):
    """Five logits, the same for all afterstates; `seen` records the afterstates."""

    encode = "units"

    def __init__(self, logits: tuple[float, ...] = (0.0,) * 5) -> None:
        super().__init__()
        self.settings: dict[str, int] = {}
        self.logits = nn.Parameter(torch.tensor(logits))
        self.seen: list[int] = []

    def forward(self, units: Tensor) -> Tensor:
        """Return the logits of the places."""
        self.seen += (units[:, :20] @ (2.0 ** torch.arange(20))).int().tolist()
        return self.logits.repeat(len(units), 1)


def numbered(places: list[int], players: list[int] | None = None) -> Samples:
    """Return samples of one game; the hand of each is its number, as cards."""
    n, afters = len(places), np.zeros(len(places), AFTERSTATE)
    afters["hand"] = np.arange(n)
    zeros = np.zeros(n, np.int64)
    moments = Moments(np.empty(1, GAME), zeros, np.array(players or zeros), np.arange(n))
    return Samples(afters, np.array(places), np.eye(5, dtype=np.float32)[places], moments)


# Samples


@pytest.mark.parametrize("gifts_too", [False, True])
def test_samples_are_decisions_with_the_places_of_their_players(gifts_too: bool) -> None:
    log = play_log([SampleAgent()] * 5, 12, 1, 0.02)
    of = samples_of(log, gifts_too)
    afters, facts = decisions(log.games, log.last_random, gifts_too)
    assert all(np.array_equal(of.afters[name], afters[name]) for name in AFTERSTATE.names or ())
    for i, (player, action, game) in enumerate(facts.tolist()):
        place = log.games[game]["places"][player]
        assert of.places[i] == place
        assert of.targets[i].tolist() == [float(k == place) for k in range(5)]
        moment = of.moments.origins[i], of.moments.players[i], of.moments.actions[i]
        assert moment == (game, player, action)


def test_a_game_between_competent_players_has_about_25_samples() -> None:
    """Kuwabara and Hoki 2018 report this for the champion's games."""
    log = log_of(200, 1)
    assert 20 < len(samples_of(log).places) / 200 < 30


def test_samples_are_those_of_students_only() -> None:
    log = log_of(6, 4)
    both = samples_of(log, gifts_too=True)
    wanted = np.array([0b00001, 0b11111, 0, 0b10010, 0b00100, 0b01000])
    selected = samples_of(log._replace(students=wanted), gifts_too=True)
    kept = (wanted[both.moments.origins] >> both.moments.players & 1) == 1
    assert 0 < kept.sum() < len(kept)
    assert (selected.afters["hand"] == both.afters["hand"][kept]).all()
    assert (selected.moments.players == both.moments.players[kept]).all()
    assert (selected.places == both.places[kept]).all()


def test_joined_samples_keep_their_games() -> None:
    first, second = samples_of(log_of(3, 1)), samples_of(log_of(4, 2))
    both = join([first, second])
    assert len(both.moments.games) == 7
    n = len(first.places)
    for part, rows, shift in ((first, slice(0, n), 0), (second, slice(n, None), 3)):
        assert np.array_equal(both.places[rows], part.places)
        assert np.array_equal(both.targets[rows], part.targets)
        assert np.array_equal(both.afters["hand"][rows], part.afters["hand"])
        assert np.array_equal(both.moments.origins[rows], part.moments.origins + shift)
        assert np.array_equal(both.moments.players[rows], part.moments.players)
        assert np.array_equal(both.moments.actions[rows], part.moments.actions)
    net = seeded("HistoryCNN", channels=1)
    some = [0, n, len(both.places) - 1]
    separate = np.concatenate(
        [
            predict(net, part.afters[at], part.moments.part(at))
            for part, at in ((first, [0]), (second, [0, -1]))
        ]
    )
    np.testing.assert_allclose(predict(net, both.afters[some], both.moments.part(some)), separate)


def test_networks_without_history_need_no_games() -> None:
    """The number of games stays, so that parts keep their own."""
    parts = [samples_of(log_of(n, n)) for n in (1, 4)]
    whole, short = join(parts), join([without_games(part) for part in parts])
    assert len(short.moments.games) == 5
    assert short.moments.games.nbytes == 5
    assert np.array_equal(whole.moments.origins, short.moments.origins)
    net = seeded(hidden=4)
    assert np.array_equal(bootstrap(net, whole, 0.5).targets, bootstrap(net, short, 0.5).targets)
    with pytest.raises(TypeError):
        predict(seeded("HistoryCNN", channels=1), short.afters, short.moments)


def test_the_error_by_hand() -> None:
    """Probabilities of 0.2 expect 3 points; the squared errors of 5, 5, 4, 1 are 4, 4, 1, 4."""
    assert rmse(Bias(), numbered([0, 0, 1, 4])) == pytest.approx((13 / 4) ** 0.5)


# Targets


def test_targets_by_hand() -> None:
    """Two players in turns; lambda 0.25, and the network expects 0.5, 0.25, 0.25, 0, 0.

    Player 0 has the samples 0, 2 and 3 and the third place, player 1 has 1 and 4 and the first.
    The last of each is its place. Sample 2 is 0.75 * network + 0.25 * place, and sample 0 is 0.75 *
    network + 0.25 * that of sample 2.
    """
    net = Bias((0.5, 0.25, 0.25, 1e-30, 1e-30))
    net.logits.data = net.logits.data.log()
    of = bootstrap(net, numbered([2, 0, 2, 2, 0], [0, 1, 0, 0, 1]), 0.25)
    expected: list[list[float]] = [
        [0.46875, 0.234375, 0.296875, 0, 0],
        [0.625, 0.1875, 0.1875, 0, 0],
        [0.375, 0.1875, 0.4375, 0, 0],
        [0, 0, 1, 0, 0],
        [1, 0, 0, 0, 0],
    ]
    np.testing.assert_allclose(of.targets, expected, atol=1e-6)
    assert of.places.tolist() == [2, 0, 2, 2, 0]


def test_targets_of_a_game_do_not_come_from_the_next_one() -> None:
    of = join([numbered([2, 2]), numbered([1, 1])])
    targets = bootstrap(Bias(), of, 0.0).targets
    even, second, third = np.full(5, 0.2), np.eye(5)[1], np.eye(5)[2]
    np.testing.assert_allclose(targets, [even, third, even, second], atol=1e-6)


def test_with_lambda_1_targets_are_the_places() -> None:
    of = numbered([0, 3, 1])
    assert np.array_equal(bootstrap(Bias((9.0, 0, 0, 0, 0)), of, 1.0).targets, of.targets)


# Batches


@pytest.mark.slow
def test_each_sample_is_used_once_per_epoch() -> None:
    for seed in range(2):
        net = Bias()
        RankLearner(net, RankSettings(batch=4), seed).fit(numbered([0] * 10), 10)
        assert len(net.seen) == 40
        for begin in range(0, 40, 10):
            assert sorted(net.seen[begin : begin + 10]) == list(range(10))
        assert net.seen[:10] != net.seen[10:20]


def test_a_batch_may_be_larger_than_the_samples() -> None:
    net = Bias()
    RankLearner(net, RankSettings(batch=7)).fit(numbered([0, 1, 2]), 3)
    assert sorted(net.seen) == [0] * 7 + [1] * 7 + [2] * 7


def test_the_seed_decides_the_order() -> None:
    orders = []
    for seed in (1, 1, 2):
        net = Bias()
        RankLearner(net, RankSettings(batch=4), seed).fit(numbered([0] * 12), 6)
        orders.append(net.seen)
    assert orders[0] == orders[1] != orders[2]


def test_suits_are_exchanged_only_if_set() -> None:
    """A hand of the heart 3, bit 1, becomes one of H, D or C, bits 1 to 3; spades stay."""
    of = numbered([0] * 300)
    of.afters["hand"][:150], of.afters["hand"][150:] = 2, 1
    for symmetries, seen in [(False, {1, 2}), (True, {1, 2, 4, 8})]:
        net = Bias()
        RankLearner(net, RankSettings(batch=300, symmetries=symmetries)).fit(of, 1)
        assert set(net.seen) == seen
        assert net.seen.count(1) == 150
        if symmetries:
            assert min(net.seen.count(k) for k in (2, 4, 8)) > 30
    assert set(of.afters["hand"].tolist()) == {1, 2}  # not in place


# Steps


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return probabilities, worked by hand."""
    odds = np.exp(logits - logits.max())
    return np.asarray(odds / odds.sum())


def test_steps_means_and_rates_by_hand() -> None:
    """Plain descent: the gradient of the loss by the logits is chances - target.

    The mean moves by 9 / 10, 9 / 11, ... of the way, until that is less than 1 - average.
    """
    net = Bias((0.5, 0, 0, 0, -0.5))
    learner = RankLearner(net, RankSettings("sgd", rate=0.4, momentum=0, batch=2, average=0.2))
    rates: list[float] = []
    group = learner.fitter.optimizer.param_groups[0]
    loss = learner.fit(numbered([1, 1]), 4, 0.2, lambda _: rates.append(group["lr"]))
    assert rates == pytest.approx([0.4, 0.35, 0.3, 0.25])  # from 0.4 on to 0.2 in a straight line
    logits, target, losses = np.array([0.5, 0, 0, 0, -0.5]), np.array([0, 1.0, 0, 0, 0]), []
    mean = logits
    for i in range(4):
        losses.append(-np.log(softmax(logits)[1]))
        logits = logits - rates[i] * (softmax(logits) - target)
        mean = mean + max(0.8, 9 / (i + 10)) * (logits - mean)
    np.testing.assert_allclose(net.logits.detach().numpy(), logits, atol=1e-6)
    np.testing.assert_allclose(learner.played.state_dict()["logits"].numpy(), mean, atol=1e-6)
    assert loss == pytest.approx(np.mean(losses))
    assert learner.iterations == 4


def test_the_rate_can_decay_to_0() -> None:
    learner, rates = RankLearner(Bias(), RankSettings("sgd", rate=0.4, batch=2)), list[float]()
    group = learner.fitter.optimizer.param_groups[0]
    learner.fit(numbered([1, 1]), 4, 0.0, lambda _: rates.append(group["lr"]))
    assert rates == pytest.approx([0.4, 0.3, 0.2, 0.1])


def test_momentum_by_hand() -> None:
    net = Bias()
    RankLearner(net, RankSettings("sgd", rate=0.5, momentum=0.9, batch=1)).fit(numbered([0]), 3)
    logits, speed = np.zeros(5), np.zeros(5)
    for _ in range(3):
        speed = 0.9 * speed + softmax(logits) - [1, 0, 0, 0, 0]
        logits = logits - 0.5 * speed
    np.testing.assert_allclose(net.logits.detach().numpy(), logits, atol=1e-6)


def test_targets_between_0_and_1_are_learned() -> None:
    """With one target of 0.3 and 0.7 the probabilities become these."""
    of = numbered([0])._replace(targets=np.array([[0.3, 0.7, 0, 0, 0]], np.float32))
    net = Bias()
    RankLearner(net, RankSettings("sgd", rate=0.9, batch=1)).fit(of, 600)
    assert torch.softmax(net.logits, 0).tolist() == pytest.approx([0.3, 0.7, 0, 0, 0], abs=0.01)


def test_without_averaging_the_network_itself_plays() -> None:
    net = Bias()
    assert RankLearner(net).played is net
    averaged = RankLearner(net, RankSettings(average=0.9))
    assert averaged.played is not net
    assert averaged.network is net


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BaseCNN", "FCNN"])
@pytest.mark.parametrize("bf16", [False, True])
def test_values_of_other_games_improve(name: str, bf16: bool) -> None:
    """All places are equally frequent, so 3 points have an error of sqrt(2) without learning."""
    seen, unseen = samples_of(log_of(250, 1)), samples_of(log_of(80, 2))
    net = seeded(name, **({"channels": 8} if name == "BaseCNN" else {"hidden": 16}))
    before = rmse(net, unseen)
    learner = RankLearner(net, RankSettings(rate=3e-3, batch=128, bf16=bf16))
    first, last = learner.fit(seen, 20), learner.fit(seen, 150)
    assert last < first - 0.05
    assert rmse(net, unseen) < min(before, 1.25)
    assert not net.training


# Going on


@pytest.mark.parametrize(
    "settings",
    [
        RankSettings(batch=16, average=0.9, symmetries=True),
        RankSettings(batch=16),
        RankSettings("sgd", 0.01, batch=16),
    ],
)
def test_resumed_learning_equals_learning_without_a_break(settings: RankSettings) -> None:
    of = samples_of(log_of(10, 3))
    whole, first, second = (RankLearner(seeded(hidden=6), settings, 3) for _ in range(3))
    for _ in range(2):
        whole.fit(of, 5)
    first.fit(of, 5)
    played = seeded(hidden=6)
    played.load_state_dict(first.played.state_dict())
    second.resume(played, first.tensors(), first.iterations)
    second.fit(of, 5)
    assert second.iterations == whole.iterations == 10
    for name, weights in whole.network.state_dict().items():
        assert torch.equal(weights, second.network.state_dict()[name])
        assert torch.equal(whole.played.state_dict()[name], second.played.state_dict()[name])


def test_without_samples_there_is_nothing_to_learn() -> None:
    none = samples_of(log_of(1, 1)).part(slice(0))
    with pytest.raises(ValueError, match="samples"):
        RankLearner(seeded(hidden=6)).fit(none, 1)
    assert np.isnan(rmse(seeded(hidden=6), none))


def test_a_single_part_is_not_copied() -> None:
    of = samples_of(log_of(1, 1))
    assert join([of]) is of


def test_a_learner_of_another_network_or_optimizer_is_rejected() -> None:
    of = samples_of(log_of(2, 4))
    adam = RankLearner(seeded(hidden=6), RankSettings(batch=4))
    adam.fit(of, 2)
    others = [
        RankLearner(seeded(hidden=7), RankSettings(batch=4)),
        RankLearner(seeded("BaseCNN", channels=2), RankSettings(batch=4)),
        RankLearner(seeded(hidden=6), RankSettings("sgd", batch=4)),
    ]
    for other in others:
        with pytest.raises(ValueError, match="network or optimizer"):
            other.resume(adam.played, adam.tensors(), 2)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"optimizer": "rprop"}, "optimizer"),
        ({"optimizer": 1}, "optimizer"),
        ({"rate": 0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"rate": "fast"}, "rate"),
        ({"rate": 10**400}, "rate"),
        ({"momentum": 1}, "momentum"),
        ({"average": 1.0}, "average"),
        ({"average": False}, "average"),
        ({"batch": 0}, "batch"),
        ({"batch": 1.5}, "batch"),
        ({"bf16": 1}, "bf16"),
        ({"symmetries": "no"}, "symmetries"),
    ],
)
def test_wrong_settings_are_rejected(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        RankSettings(**settings)
