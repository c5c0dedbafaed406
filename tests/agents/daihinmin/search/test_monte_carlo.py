"""The search player: moves that it must find, weights of deals, budgets and seeds."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.agents.daihinmin.afterstates.chains import afterstates
from afterstate.agents.daihinmin.afterstates.class_values import class_values
from afterstate.agents.daihinmin.afterstates.exchange import gift_afterstates
from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.daihinmin.rule_based.players import SampleAgent
from afterstate.agents.daihinmin.search import monte_carlo
from afterstate.agents.daihinmin.search.deals import Parameters, log_likelihoods
from afterstate.agents.daihinmin.search.monte_carlo import (
    MonteCarloAgent,
    MonteCarloSettings,
    search,
)
from afterstate.agents.daihinmin.values.softmax_policy import (
    Policy,
    PolicyAgent,
    find_policy,
    new_policy,
    new_workspace,
)
from afterstate.envs.daihinmin import cards, plays, rules
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.players import Player
from afterstate.envs.daihinmin.rules import GAME, Game, Rules
from afterstate.envs.daihinmin.views import determinise, view


def dealt_to(*hands: str) -> Game:
    """Return the view of player 0, who leads, if all hold only these cards; the rest is played."""
    game = new_match()
    held = [cards.parse(hand) for hand in hands]
    game["hands"] = held
    game["left"] = [cards.count(hand) for hand in held]
    game["played"][4] = cards.DECK & ~sum(held)
    game["places"] = -1
    game["turn"] = game["last"] = game["starter"] = 0
    game["number"] = 1
    return view(game, 0)


def exchange_view(class_: int, seed: int = 4) -> Game:
    """Return the view of the daifugo (0) or the fugo (1) in the exchange."""
    match = new_match(seed)
    match["places"] = range(5)
    match["number"] = 1
    next_game(match)
    for _ in range(class_):
        rules.give(match, cards.weakest(match["hands"][match["turn"]], match["to_give"]))
    return view(match, int(match["turn"]))


def positions(n_games: int, variant: Rules | None = None, seed: int = 1) -> list[Game]:
    """Return the views of the players in turn in games of the policy, with their exchanges."""
    views, match = [], new_match(seed, variant)
    agent = PolicyAgent(temperature=1.0, seed=seed)
    for _ in range(n_games):
        next_game(match)
        while (turn := int(match["turn"])) >= 0:
            seen = view(match, turn)
            views.append(seen)
            if n := int(match["to_give"]):
                rules.give(match, agent.give(seen, n))
            else:
                rules.play(match, agent.choose(seen))
    return views


@pytest.mark.parametrize(
    ("hands", "best"),
    [
        # nobody can answer the pair, then the last card goes out
        (["S9 H9 S4", "S5 D6", "HJ DK", "CQ DA", "C7 CT"], {"S9 H9"}),
        # the 8 wins the trick, then the last card goes out
        (["S8 S4", "S5 D6", "HJ DK", "CQ DA", "C7 CT"], {"S8"}),
        # after a lead of the 4 another player goes out with its last card
        (["S4 HA", "S5", "D6", "C7", "CT"], {"HA"}),
    ],
)
def test_the_winning_play_is_found(hands: Sequence[str], best: set[str]) -> None:
    seen = dealt_to(*hands)
    assert plays.text(MonteCarloAgent(200, seed=1).choose(seen)) in best
    result = MonteCarloAgent(2000, seed=1).values(seen)
    assert plays.text(int(result.actions[np.argmax(result.values)])) in best


def test_values_are_those_of_finishing_places() -> None:
    seen = dealt_to("S8 S4", "S5 D6", "HJ DK", "CQ DA", "C7 CT")
    result = MonteCarloAgent(500, seed=1).values(seen)
    values = {plays.text(int(a)): v for a, v in zip(result.actions, result.values, strict=True)}
    assert values["S8"] == pytest.approx(class_values(99)[0])
    assert values["S4"] < values["S8"]


def test_rewards_are_from_0_to_1_for_any_transitions(monkeypatch: Any) -> None:
    """One game follows this one, in which the classes lead to other places."""
    seen, rewards = dealt_to("S8 S4", "S5 D6", "HJ DK", "CQ DA", "C7 CT"), []
    seen["number"] = 99

    def watched(*args: Any) -> int:
        rewards.append(args[3])
        return search(*args)

    monkeypatch.setattr(monte_carlo, "search", watched)
    next_place = [4, 0, 2, 3, 1]  # values of places: 5, 8, 5, 3 and 4 points
    result = MonteCarloAgent(500, seed=1, transitions=np.eye(5)[next_place]).values(seen)
    assert rewards.pop().tolist() == [0.4, 1, 0.4, 0, 0.2]
    assert plays.text(int(result.actions[0])) == "S4"
    assert -1 < result.values[0] < 4
    assert result.values[1:] == pytest.approx([1] * (len(result.values) - 1))
    result = MonteCarloAgent(500, seed=1, transitions=np.eye(5)[::-1]).values(seen)
    assert rewards.pop().tolist() == [0] * 5
    assert result.visits.all()
    assert not result.values.any()


@pytest.mark.slow
def test_every_play_is_tried_within_the_budget() -> None:
    listed = np.empty(plays.N_PLAYS, np.int64)
    agent = MonteCarloAgent(100, seed=1)
    for seen in positions(3):
        if seen["to_give"]:
            continue
        result = agent.values(seen)
        legal = {int(play) for play in listed[: rules.write_legal(seen, listed)]}
        assert {int(a) for a in result.actions} <= legal | {plays.PASS}
        played = {int(plays.CARDS[int(a)]) for a in result.actions}
        assert played - {0} == {int(plays.CARDS[play]) for play in legal}
        assert result.visits.sum() <= 100
        assert result.visits.any() == (len(result.visits) > 1)


def log_likelihood(game: Game, viewer: int, policy: Policy, model: int = 0) -> float:
    """Return the log likelihood of the plays of all but the viewer, by a model."""
    settings = MonteCarloSettings(temperature=1.0)
    parameters = Parameters(*(float(getattr(settings, name)) for name in Parameters._fields))
    out, weights, scratch = np.empty((2, 5)), policy.weights.reshape(-1), np.empty(1, GAME)
    log_likelihoods(game, viewer, scratch, weights, parameters, new_workspace(), out)
    assert not out[:, viewer].any()
    return float(out[model].sum())


def after_plays(match: Game, player: Player, n: int) -> Game:
    """Return the view of the player in turn after `n` plays of the next game."""
    next_game(match)
    while match["to_give"]:
        rules.give(match, cards.weakest(match["hands"][match["turn"]], match["to_give"]))
    for _ in range(n):
        rules.play(match, player.choose(view(match, int(match["turn"]))))
    return view(match, int(match["turn"]))


@pytest.mark.parametrize("model", [0, 1])
def test_plays_are_more_likely_by_the_true_deal_than_by_random_deals(model: int) -> None:
    players: list[Player] = [PolicyAgent(temperature=1.0, seed=2), SampleAgent()]
    rng, match, policy = np.random.default_rng(1), new_match(3), find_policy(None)
    ahead = []
    for _ in range(20):
        seen = after_plays(match, players[model], 25)
        viewer = int(seen["viewer"])
        true = log_likelihood(match, viewer, policy, model)
        drawn = [log_likelihood(determinise(seen, rng), viewer, policy, model) for _ in range(20)]
        ahead.append(true - np.mean(drawn))
        match["places"] = rng.permutation(5)
    assert np.mean(ahead) > 2.0
    assert np.mean(np.array(ahead) > 0) > 0.8


def test_the_likelihood_by_a_uniform_policy_is_one_over_the_options() -> None:
    match = new_match(5)
    next_game(match)
    first, listed = int(match["turn"]), np.empty(plays.N_PLAYS, np.int64)
    legal = listed[: rules.write_legal(match, listed)]
    n = len({int(plays.CARDS[play]) for play in legal})
    rules.play(match, int(legal[0]))
    assert log_likelihood(match, (first + 1) % 5, new_policy()) == pytest.approx(-np.log(n))
    assert log_likelihood(match, first, new_policy()) == 0


@pytest.mark.slow
def test_sample_clients_are_detected() -> None:
    agent = MonteCarloAgent(100, seed=1)
    others: list[Player] = [SampleAgent(), PolicyAgent(seed=1), SampleAgent(), PolicyAgent(seed=2)]
    for _ in play_match([agent, *others], 12, seed=3):
        pass
    assert agent.opponents()[1:] == ["sample", "policy", "sample", "policy"]
    for _ in play_match([agent, *reversed(others)], 12, seed=4):
        pass
    assert agent.opponents()[1:] == ["policy", "sample", "policy", "sample"]


def test_the_same_seed_makes_the_same_choices() -> None:
    seen = positions(2)
    agents = [MonteCarloAgent(60, seed=7) for _ in range(2)]
    agents.append(pickle.loads(pickle.dumps(MonteCarloAgent(60, seed=7))))
    first, *others = [
        [a.give(v, v["to_give"]) if v["to_give"] else a.choose(v) for v in seen] for a in agents
    ]
    assert all(first == other for other in others)


def test_gifts_are_weak_cards() -> None:
    agent = MonteCarloAgent(400, seed=1)
    for class_, n in ((0, 2), (1, 1)):
        seen = exchange_view(class_)
        gift = agent.give(seen, n)
        assert cards.count(gift) == n
        assert not gift & ~int(seen["hands"][seen["turn"]])
        assert not gift & cards.parse("JO S2 H2 D2 C2 SA HA DA CA S8 H8 D8 C8")
        result = agent.values(seen)
        assert gift in result.actions
        assert 20 >= len(result.actions) > 5


def test_a_single_option_is_played_without_a_search() -> None:
    seen = dealt_to("S4", "S5 D6", "HJ DK", "CQ DA", "C7 CT")
    result = MonteCarloAgent(100, seed=1).values(seen)
    assert [plays.text(int(a)) for a in result.actions] == ["S4"]
    assert result.visits.tolist() == [0]


@pytest.mark.parametrize(
    "variant",
    [
        Rules(exchanges=False),
        Rules(sequences=False, locks=False),
        Rules(revolutions=False, eight_cuts=False, class_reset_every=0),
        Rules(reseat_every=0, class_reset_every=2, idle_limit=1),
    ],
)
def test_choices_are_legal_under_all_rules(variant: Rules) -> None:
    agent = MonteCarloAgent(20, seed=1)
    for seen in positions(4, variant):
        if n := int(seen["to_give"]):
            gift = agent.give(seen, n)
            assert cards.count(gift) == n
            assert not gift & ~int(seen["hands"][seen["turn"]])
        else:
            assert rules.is_legal(seen, agent.choose(seen))


class Clock:
    """A clock that advances by a fixed time at each reading."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self.tick, self.readings = 0.0, tick, 0

    def perf_counter(self) -> float:
        """Return the time in seconds before it advances."""
        self.readings += 1
        self.now += self.tick
        return self.now - self.tick


def test_more_time_is_more_playouts_and_both_limits_hold(monkeypatch: Any) -> None:
    seen, chunk, tick = positions(1)[0], 64, 1 / 128
    for n_chunks in (1, 2, 20):
        monkeypatch.setattr(monte_carlo, "time", Clock(tick))
        agent = MonteCarloAgent(None, tick * n_chunks, seed=1)
        assert agent.values(seen).visits.sum() == n_chunks * chunk
    assert MonteCarloAgent(50, 60, seed=1).values(seen).visits.sum() <= 50


def test_the_time_of_a_decision_includes_the_search_for_a_forced_win(monkeypatch: Any) -> None:
    seen, clock = positions(1)[0], Clock()

    def slow(view: Game) -> int:
        clock.now += 1.0
        return -1

    monkeypatch.setattr(monte_carlo, "time", clock)
    monkeypatch.setattr(monte_carlo, "forced_win", slow)
    MonteCarloAgent(2000, seconds=0.5, seed=1).choose(seen)
    assert clock.readings == 2  # at the start, and after the first playouts


def test_without_a_consistent_deal_the_policy_decides() -> None:
    seen = dealt_to("S4 HA", "S5 D6", "HJ DK", "CQ DA", "C7 CT")
    seen["left"][1] = 9
    agent = MonteCarloAgent(100, seed=1)
    assert not agent.values(seen).visits.any()
    assert rules.is_legal(seen, agent.choose(seen))


class Favours:
    """A prior that expects to win by some actions and to be last by all others."""

    def __init__(self, wanted: set[int]) -> None:
        self._wanted = wanted

    def expect(self, view: Game) -> tuple[Any, Any]:
        """Return all actions, the first one twice, and their places."""
        if view["to_give"]:
            actions = gift_afterstates(view)[1]
        else:
            actions = afterstates(view)["play"].astype(np.uint64)
        places = [np.eye(5)[0 if int(action) in self._wanted else 4] for action in actions]
        return np.concatenate([actions, actions[:1]]), np.array([*places, np.eye(5)[4]])


@pytest.mark.parametrize("size", [-1, 0, 1], ids=["exchange", "lead", "follow a single"])
def test_a_prior_counts_as_many_visits_as_it_is_given(size: int) -> None:
    seen = exchange_view(0)
    if size >= 0:
        views = (seen for seen in positions(1) if not seen["to_give"])
        seen = next(seen for seen in views if plays.SIZE[seen["field"]] == size)
    alone = MonteCarloAgent(400, seed=7).values(seen)
    assert len(alone.actions) > 2
    for action in alone.actions:
        prior = Favours({int(action)})
        strong = MonteCarloAgent(
            400, seed=7, settings=MonteCarloSettings(prior_visits=1e9), prior=prior
        )
        result = strong.values(seen)
        assert result.actions[result.visits.argmax()] == action
    ignored = MonteCarloAgent(
        400, seed=7, settings=MonteCarloSettings(prior_visits=0.0), prior=prior
    )
    assert ignored.values(seen).visits.tolist() == alone.visits.tolist()


def test_the_pretrained_rank_network_is_a_prior() -> None:
    pytest.importorskip("torch")
    agent, seen = agents.make("daihinmin-mc-rank", playouts=50, seed=1), positions(1)[-1]
    assert rules.is_legal(seen, agent.choose(seen)) or agent.choose(seen) == plays.PASS


@pytest.mark.slow
def test_few_playouts_beat_four_sample_clients() -> None:
    players: list[Player] = [MonteCarloAgent(100, seed=1), *(SampleAgent() for _ in range(4))]
    *_, match = play_match(players, 60, seed=11)
    assert match["points"][0] > 60 * 4.1


@pytest.mark.slow
def test_the_search_beats_its_policy() -> None:
    """Matches are short, since in long ones classes carry luck from game to game."""
    points = 0.0
    for seed in range(10):
        others = [PolicyAgent(seed=i) for i in range(4)]
        *_, match = play_match([MonteCarloAgent(300, seed=seed), *others], 10, seed=seed)
        points += match["points"][0]
    assert points > 100 * 3.3


@pytest.mark.parametrize(
    "wrong",
    [
        {"playouts": 0},
        {"playouts": None},
        {"playouts": 1.5},
        {"seconds": 0},
        {"seconds": "5"},
        {"seconds": float("nan")},
        {"settings": 3},
        {"transitions": np.eye(3)},
        {"policy": 5},
        {"prior": 3},
        {"prior": "rank.safetensors"},
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        MonteCarloAgent(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"deals": 0},
        {"gifts": 1.5},
        {"noise": 0},
        {"temperature": 0},
        {"likelihood_power": float("inf")},
        {"detect_sample_clients": 0.5},
        {"prior_visits": -1},
        {"trust": 0.25},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        MonteCarloSettings(**wrong)


def test_earlier_names_of_settings_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"adviser.*prior"):
        agents.make("daihinmin-mc", adviser=None)


def test_settings_are_given_by_name() -> None:
    made = agents.find("mc,playouts=20,likelihood_power=0", seed=1)
    with_net: Any = agents.make("daihinmin-mc-rank", playouts=20, likelihood_power=0)
    settings = MonteCarloSettings(likelihood_power=0.0)
    assert made._settings == with_net._settings == settings
    assert made._parameters == MonteCarloAgent(20, settings=settings)._parameters


def _out_with_cards(seen: Game) -> None:
    seen["left"][seen["turn"]], seen["n_out"] = 0, 1


def _gives_in_play(seen: Game) -> None:
    seen["to_give"] = 1


def _gives_without_class(seen: Game) -> None:
    seen["to_give"], seen["classes"] = 1, [-1, 0, 1, 2, 4]


@pytest.mark.parametrize("damage", [_out_with_cards, _gives_in_play, _gives_without_class])
def test_views_that_no_game_has_are_refused_or_answered(damage: Callable[[Game], None]) -> None:
    player = agents.make("daihinmin-mc", playouts=2, seed=1)
    for seen in positions(3):
        damage(seen)
        n, hand = int(seen["to_give"]), int(seen["hands"][seen["turn"]])
        try:
            answer = player.give(seen, n) if n else player.choose(seen)
        except ValueError as error:
            assert re.search(" must .*got ", str(error)), error
            continue
        is_gift = n == answer.bit_count() and answer & ~hand == 0
        assert is_gift if n else rules.is_legal(seen, answer)
