"""The softmax policy: features against a slow oracle, probabilities, files and players."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from afterstate.agents import files
from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.daihinmin.rule_based.players import SampleAgent
from afterstate.agents.daihinmin.values import features as f
from afterstate.agents.daihinmin.values.features import N_CONTEXTS, N_FEATURES
from afterstate.agents.daihinmin.values.softmax_policy import (
    KIND,
    Policy,
    PolicyAgent,
    find_policy,
    load,
    new_workspace,
    save,
    weigh_gifts,
    weigh_options,
)
from afterstate.envs.daihinmin import cards, plays, rules
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.rules import Game, Rules
from afterstate.envs.daihinmin.views import all_played, view

JOKER = "JO"
SINGLE_LEVELS = [0, 1, 2, 4, 6, 9, 13, 18, 25]  # the most cards above of levels 0 to 8


def names(word: Any) -> set[str]:
    """Return the names of the cards of a set."""
    return set(cards.text(word).split())


def column(card: str) -> int:
    """Return the column of a card that is not the joker."""
    return cards.RANKS.index(card[1])


def beats(order: int, a: int, b: int) -> bool:
    """Return True if a column beats another."""
    return a < b if order else a > b


SEQUENCES = {
    play: names(plays.CARDS[play])
    for play in range(plays.N_PLAYS)
    if plays.KIND[play] == plays.SEQUENCE
}
"""The cards of the sequences."""


class SlowFeatures:
    """An oracle of the features of one decision, with sets and loops."""

    def __init__(self, game: Game) -> None:
        self.game, turn = game, int(game["turn"])
        self.hand = names(game["hands"][turn])
        self.unseen = names(cards.DECK & ~int(game["hands"][turn]) & ~int(all_played(game)))
        others = [p for p in range(5) if p != turn and game["left"][p] > 0]
        near = min(int(game["left"][p]) for p in others)
        self.answering = max(
            [int(game["left"][p]) for p in others if not game["passed"] >> p & 1], default=0
        )
        self.field = int(game["field"])
        near_context = 0 if near <= 2 else 1 if near <= 5 else 2
        self.context = 6 * (self.field != 0) + 3 * (len(self.hand) <= 5) + near_context

    def level(self, at: int, size: int, order: int, suits: str = cards.SUITS) -> int:
        """Return the level of a group."""
        above = [c for c in self.unseen - {JOKER} if beats(order, column(c), at)]
        joker = JOKER in self.unseen
        if size == 1:
            n = sum(card[0] in suits for card in above) + joker
            return sum(n > most for most in SINGLE_LEVELS)
        return min(sum(n + joker >= size for n in Counter(map(column, above)).values()), 9)

    def stays(self, hand: set[str], order: int) -> tuple[list[int], int]:
        """Return the features of a hand that stays and the number of its losers."""
        features, n_melds, n_losers = [], 0, 0
        loose = hand - {JOKER}
        for suit in cards.SUITS:
            run: list[int] = []
            held = {column(c) for c in hand - {JOKER} if c[0] == suit}
            for at in range(1, 15):
                if at in held:
                    run.append(at)
                    continue
                if len(run) >= 3:
                    loose -= {suit + cards.RANKS[i] for i in run}
                    high = run[0] <= 4 if order else run[-1] >= 10
                    with_8 = self.game["eight_cuts"] and 6 in run
                    features.append(f.RUNS + (2 if with_8 else int(high)))
                    n_melds += 1
                run = []
        for at, size in Counter(map(column, loose)).items():
            n_melds += 1
            if at == 6 and self.game["eight_cuts"]:
                features.append(f.EIGHTS + (size > 1))
                continue
            level = self.level(at, size, order)
            n_losers += level > 0
            features.append(f.LOOSE + 10 * (size - 1) + level)
            if size <= 2:
                features.append(f.RANKS + 13 * (size - 1) + (13 - at if order else at - 1))
        if JOKER in hand:
            features.append(f.JOKER_STAYS)
            n_melds += 1
        if "S3" in hand and JOKER in self.unseen:
            features.append(f.S3_STAYS)
        features += [f.MELDS + min(n_melds, 8), f.LOSERS + min(n_losers, 7)]
        features.append(f.BALANCE + min(max(n_melds - 2 * n_losers, -4), 4) + 4)
        features.append(f.LEFT + min(len(hand), 12))
        return features, n_losers

    def play_level(self, play: int, order: int, suits: str) -> int:
        """Return the level of a play on the field."""
        if play == plays.LONE_JOKER:
            return int("S3" in self.unseen)
        size = int(plays.SIZE[play])
        if plays.KIND[play] != plays.SEQUENCE:
            return self.level(int(plays.LOW[play]), size, order, suits)
        locked = suits != cards.SUITS
        answers = [
            other
            for other, used in SEQUENCES.items()
            if used <= self.unseen and plays.follows(other, play, bool(order), locked)
        ]
        return min(len(answers), 9)

    def pass_(self) -> list[int]:
        """Return the features of the pass."""
        game, field = self.game, self.field
        features, n_losers = self.stays(self.hand, int(game["revolution"]))
        suits = suits_of(field) if game["lock"] else cards.SUITS
        width = min(int(plays.SIZE[field]), 3) - 1
        level = self.play_level(field, int(game["revolution"]), suits)
        out = {int(game["turn"]), int(game["last"])}
        followers = [
            p
            for p in set(range(5)) - out
            if game["left"][p] > 0 and not int(game["passed"]) >> p & 1
        ]
        owner = int(game["left"][game["last"]])
        return [
            *features,
            f.PASSES + (game["last"] == game["turn"]),
            f.PASS_LOSERS + min(n_losers, 7),
            f.PASS_LEVEL + 10 * width + level,
            f.PASS_FOLLOWERS + len(followers),
            f.PASS_OWNER + (0, 0, 1, 2, 3, 3, 4)[min(owner, 6)],
        ]

    def play(self, play: int) -> list[int]:
        """Return the features of a play."""
        game, kind, size = self.game, int(plays.KIND[play]), int(plays.SIZE[play])
        used = names(plays.CARDS[play])
        order = int(game["revolution"]) ^ int(game["revolutions"] and plays.REVOLVES[play])
        on_joker = self.field == plays.LONE_JOKER
        sets_lock = (
            game["locks"]
            and self.field not in (plays.PASS, plays.LONE_JOKER)
            and play != plays.LONE_JOKER
            and suits_of(play) == suits_of(self.field)
        )
        is_locked = play != plays.LONE_JOKER and (game["lock"] or sets_lock)
        features, n_losers = self.stays(self.hand - used, order)
        level = self.play_level(play, order, suits_of(play) if is_locked else cards.SUITS)
        cut = on_joker or bool(game["eight_cuts"] and plays.CUTS_AS_8[play])
        wins = level == 0 or size > self.answering or cut
        shape = {plays.JOKER_SINGLE: 4, plays.SEQUENCE: min(size, 5) + 2}.get(
            kind, min(size, 4) - 1
        )
        width = min(size, 3) - 1
        features += [f.PLAYED + shape, f.LEVEL + 10 * width + level]
        features.append(f.WINS + 5 * wins + min(n_losers, 4))
        if play != plays.LONE_JOKER:
            low, high = max(int(plays.LOW[play]), 1), min(int(plays.HIGH[play]), 13)
            family = 3 if kind == plays.SEQUENCE else width
            features.append(f.STRENGTH + 13 * family + (13 - high if order else low - 1))
        flags = {
            f.LOCKS: sets_lock and not game["lock"],
            f.TURNS: order != game["revolution"],
            f.USES_JOKER: JOKER in used,
            f.RISKS_JOKER: play == plays.LONE_JOKER and "S3" in self.unseen,
            f.BEATS_JOKER: on_joker,
            f.CUTS: cut and not on_joker,
            f.BREAKS_RUN: kind != plays.SEQUENCE and used & self.in_runs(),
        }
        features += [f.FLAGS + flag for flag, is_set in flags.items() if is_set]
        if kind in (plays.SINGLE, plays.GROUP):
            held = sum(column(c) == plays.LOW[play] for c in self.hand - {JOKER})
            if held > size - (JOKER in used):
                features.append(f.FLAGS + f.BREAKS_GROUP + held - 2)
        return features

    def in_runs(self) -> set[str]:
        """Return the cards of the hand that are in runs of three or more."""
        naturals = self.hand - {JOKER}
        return set().union(*(run for run in SEQUENCES.values() if run <= naturals))


def suits_of(play: int) -> str:
    """Return the suits of a play."""
    return "".join(suit for row, suit in enumerate(cards.SUITS) if plays.ROWS[play] >> row & 1)


def positions(n_games: int, seed: int, variant: Rules | None = None) -> list[Game]:
    """Return positions of random games with several options."""
    chance = random.Random(seed)
    match, views = new_match(seed, variant), []
    workspace = new_workspace()
    for _ in range(n_games):
        next_game(match)
        while match["turn"] >= 0:
            if match["to_give"]:
                rules.give(match, cards.weakest(match["hands"][match["turn"]], match["to_give"]))
                continue
            seen = view(match, int(match["turn"]))
            n = f.list_options(seen, workspace.options)
            if n > 1:
                views.append(seen)
            rules.play(match, int(workspace.options[chance.randrange(n)]))
    return views


@pytest.mark.parametrize("variant", [Rules(), Rules(eight_cuts=False, locks=False)])
def test_features_are_those_of_the_oracle(variant: Rules) -> None:
    workspace = new_workspace()
    for seen in positions(4, 3, variant):
        n = weigh_options(seen, np.zeros(N_CONTEXTS * N_FEATURES), 1.0, workspace)
        slow = SlowFeatures(seen)
        for i in range(n):
            play = int(workspace.options[i])
            expected = slow.play(play) if play else slow.pass_()
            result = (
                workspace.features[i, : workspace.sizes[i]].astype(int) - slow.context * N_FEATURES
            )
            assert sorted(result) == sorted(map(int, expected)), plays.text(play)


def test_features_of_gifts_are_those_of_the_hand_that_stays() -> None:
    match = new_match(4)
    match["places"] = range(5)
    match["number"] = 1
    next_game(match)
    seen, workspace = view(match, int(match["turn"])), new_workspace()
    n = weigh_gifts(seen, np.zeros(N_CONTEXTS * N_FEATURES), 1.0, workspace)
    hand = names(seen["hands"][seen["turn"]])
    assert n == len(hand) * (len(hand) - 1) // 2
    slow = SlowFeatures(seen)
    for i in range(n):
        expected, _ = slow.stays(hand - names(workspace.options[i]), 0)
        result = workspace.features[i, : workspace.sizes[i]].astype(int) - f.GIFTS * N_FEATURES
        assert sorted(result) == sorted(map(int, expected))


def test_a_play_that_empties_the_hand_is_the_only_option() -> None:
    game = positions(1, 5)[0].copy()
    hand = cards.parse("S5 H5")
    game["hands"][game["turn"]], game["field"] = hand, 0
    workspace = new_workspace()
    assert f.list_options(game, workspace.options) == 1
    assert int(plays.CARDS[workspace.options[0]]) == hand


def test_probabilities_follow_the_scores_and_the_temperature() -> None:
    weights = np.random.default_rng(1).normal(size=N_CONTEXTS * N_FEATURES)
    workspace = new_workspace()
    for seen in positions(2, 6)[:40]:
        for temperature in (0.5, 1.0, 3.0):
            n = weigh_options(seen, weights, temperature, workspace)
            scores = [weights[workspace.features[i, : workspace.sizes[i]]].sum() for i in range(n)]
            expected = np.exp((np.array(scores) - max(scores)) / temperature)
            np.testing.assert_allclose(workspace.masses[:n], expected)


def test_the_pretrained_policy_beats_the_sample_client() -> None:
    *_, match = play_match([PolicyAgent(), *(SampleAgent() for _ in range(4))], 200, seed=3)
    assert match["points"][0] > 200 * 4.0


def test_policies_are_saved_and_loaded(tmp_path: Any) -> None:
    weights = np.random.default_rng(1).integers(-9, 9, (N_CONTEXTS, N_FEATURES)) / 4
    save(Policy(weights), tmp_path / "a.npz", learned="by chance")
    np.testing.assert_array_equal(load(tmp_path / "a.npz").weights, weights)
    np.testing.assert_array_equal(find_policy(tmp_path / "a.npz").weights, weights)


def test_a_pickled_player_makes_the_same_choices() -> None:
    seen = positions(3, 8)
    agent = PolicyAgent(temperature=1.0, seed=5)
    other = pickle.loads(pickle.dumps(agent))
    assert [agent.choose(v) for v in seen] == [other.choose(v) for v in seen]


@pytest.mark.parametrize(
    "variant",
    [Rules(exchanges=False), Rules(sequences=False), Rules(revolutions=False, locks=False)],
)
def test_choices_are_legal_under_all_rules(variant: Rules) -> None:
    match = new_match(2, variant)
    agent = PolicyAgent(temperature=1.0, seed=1)
    for _ in range(5):
        next_game(match)
        while (turn := int(match["turn"])) >= 0:
            seen = view(match, turn)
            if n := int(match["to_give"]):
                assert rules.give(match, agent.give(seen, n))
            else:
                play = agent.choose(seen)
                assert rules.is_legal(match, play)
                rules.play(match, play)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e300])
def test_weights_that_a_file_may_not_have_are_refused(wrong: float, tmp_path: Any) -> None:
    weights = np.zeros((N_CONTEXTS, N_FEATURES))
    weights[-1, -1] = wrong
    with pytest.raises(ValueError, match="weights are NaN, infinite or too large"):
        save(Policy(weights), tmp_path / "a.npz")
    assert not (tmp_path / "a.npz").exists()
    if not np.isfinite(wrong):
        with pytest.raises(ValueError, match="policy must have finite weights"):
            PolicyAgent(Policy(weights))


def test_wrong_policies_and_settings_are_refused(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="temperature"):
        PolicyAgent(temperature=-1)
    with pytest.raises(ValueError, match="policy"):
        PolicyAgent(policy=Policy(np.zeros(3)))
    weights = np.full((N_CONTEXTS, N_FEATURES), np.nan, np.float32)
    files.write(tmp_path / "nan.npz", KIND, {}, {"weights": weights})
    with pytest.raises(ValueError, match="NaN"):
        load(tmp_path / "nan.npz")
    save(Policy(np.zeros((2, 3))), tmp_path / "other.npz")
    with pytest.raises(ValueError, match="other features"):
        load(tmp_path / "other.npz")
