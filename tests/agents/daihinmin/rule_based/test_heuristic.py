"""The heuristic player: its points, forced wins, and kernels against brute force."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from afterstate import agents
from afterstate.agents.daihinmin.play import play_match
from afterstate.agents.daihinmin.rule_based.heuristic import (
    Weights,
    _can_be_beaten,
    _can_force_out,
    _hand_cost,
    _sequence_cost,
    heuristic_gift,
    heuristic_play,
)
from afterstate.agents.daihinmin.rule_based.players import HeuristicAgent, RandomAgent, SampleAgent
from afterstate.envs.daihinmin import cards, players, plays, rules
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.rules import Game, Rules
from afterstate.envs.daihinmin.views import all_played, legal_plays, view
from tests.oracles import sample_client as oracle
from tests.support.daihinmin.hands import NAMES, TEXTS, dealt_to, on_field


class Watched:
    """The heuristic player with checks of every choice."""

    def __init__(self) -> None:
        self._agent = HeuristicAgent()
        self.finished = self.gifts = 0

    def choose(self, view: Game) -> int:
        """Return its play: legal, no pass on a lead, and the whole hand if that is one play."""
        play, hand = self._agent.choose(view), view["hands"][view["turn"]]
        legal = legal_plays(view)
        assert play in legal or (play == plays.PASS and view["field"] != plays.PASS)
        if any(plays.CARDS[other] == hand for other in legal):
            assert plays.CARDS[play] == hand
            self.finished += 1
        return play

    def give(self, view: Game, n: int) -> int:
        """Return its gift: `n` cards of its hand without the joker."""
        gift = self._agent.give(view, n)
        assert cards.count(gift) == n
        assert gift & ~int(view["hands"][view["turn"]]) == 0
        assert gift >> cards.JOKER == 0
        self.gifts += 1
        return gift


def points(table: Sequence[players.Player], n_games: int, seed: int) -> float:
    """Return the first player's points a game."""
    *_, match = play_match(table, n_games, seed)
    return float(match["points"][0]) / n_games


@pytest.mark.slow
def test_the_heuristic_player_gets_4_points_a_game_against_sample_clients() -> None:
    watched = Watched()
    assert points([watched, *(SampleAgent() for _ in range(4))], 1_200, seed=3) >= 4.0
    assert watched.gifts > 800
    assert watched.finished > 400


@pytest.mark.slow
def test_the_heuristic_player_beats_random_players() -> None:
    table: list[players.Player] = [Watched(), *(RandomAgent(seed) for seed in range(4))]
    assert points(table, 600, seed=2) > 4.7


@pytest.mark.slow
def test_five_heuristic_players_play_by_the_rules() -> None:
    watched = [Watched() for _ in range(5)]
    points(watched, 300, seed=4)
    assert all(player.finished for player in watched)


def test_choices_are_the_same_for_the_view_and_the_whole_game() -> None:
    agent, weights, n_choices = HeuristicAgent(), Weights(), Counter[bool]()
    match = new_match(5)
    for _ in range(100):
        next_game(match)
        while (turn := int(match["turn"])) >= 0:
            seen, n = view(match, turn), int(match["to_give"])
            n_choices[n > 0] += 1
            if n:
                gift = heuristic_gift(match, weights)
                assert agent.give(seen, n) == gift
                rules.give(match, gift)
            else:
                play = heuristic_play(match, weights)
                assert agent.choose(seen) == play
                rules.play(match, play)
    assert n_choices[True] == 2 * 99
    assert n_choices[False] > 3_000


@pytest.mark.parametrize("play", range(1, plays.N_PLAYS, 7))
def test_a_hand_that_is_one_play_is_played_whole(play: int) -> None:
    hand = cards.text(plays.CARDS[play])
    others = [name for name in NAMES if name not in hand.split()]
    game = dealt_to(hand, *(" ".join(others[i::4]) for i in range(4)))
    assert plays.CARDS[HeuristicAgent().choose(view(game, 0))] == plays.CARDS[play]


def is_played_out(game: Game) -> bool:
    """Return True if player 0, the heuristic player, goes out before another player can lay cards.

    Args:
        game: a game in which player 0 is to move; it is played on.
    """
    agent = HeuristicAgent()
    while game["left"][0]:
        if game["turn"] == 0:
            rules.play(game, agent.choose(view(game, 0)))
        elif legal_plays(game):
            return False
        else:
            rules.play(game, plays.PASS)
    return True


LOW_HANDS = ("H4 D4 D5 S7 H7 DJ DQ", "C4 D7 CK", "S5 D8", "H5 C5 C7 C8 D9 CT SJ CQ")
"""Opponents' hands without a joker, 3, ace or 2, three of a rank above T, or four of a rank."""


@pytest.mark.parametrize(
    ("hand", "field", "revolution", "first"),
    [
        ("H8 SA S4", "", False, {"H8", "SA"}),  # the 8 ends the trick, the ace is the highest
        ("H8 S8 S4", "", False, {"H8", "S8", "H8 S8"}),
        ("S6 H6 H8", "C3", False, {"H8"}),
        ("SA S4 H4", "CJ", False, {"SA"}),
        ("JO S6 H6", "H2", False, {"JO"}),  # the spade 3 is gone
        ("S3 S6 H6", "JO", False, {"S3"}),
        ("S6 H6 D6 C6 H3 S9", "", False, {"S6 H6 D6 C6"}),  # then the 3 is the highest
        ("H3 HT", "", True, {"H3"}),
        ("S3 HT ST", "C6", True, {"S3"}),
        ("C8 C9 CJ CQ JO S4", "", False, {"C8", "C8 C9 JO=CT", "C8 C9 JO=CT CJ CQ"}),
    ],
)
def test_certain_wins_are_played_out(
    hand: str, field: str, revolution: bool, first: set[str]
) -> None:
    mine = {*hand.split(), *field.split()}
    held = [" ".join(name for name in other.split() if name not in mine) for other in LOW_HANDS]
    game = dealt_to(hand, *held, revolution=revolution)
    if field:
        on_field(game, field)
    assert TEXTS[HeuristicAgent().choose(view(game, 0))] in first
    assert is_played_out(game)


def is_certain(game: Game) -> bool:
    """Return True if player 0 leads and nobody can stop it."""
    if game["turn"] != 0 or game["field"] != plays.PASS:
        return False
    hand = game["hands"][0]
    unseen = np.uint64(cards.DECK) & ~(hand | all_played(game))
    largest = int(game["left"][1:].max())
    return bool(_can_force_out(hand, unseen, game["revolution"], largest, 3))


@pytest.mark.parametrize("field", ["", "CK"])
def test_a_certain_win_stays_certain_on_the_own_cards(field: str) -> None:
    """Nobody beats the ace, nor the three Ts after it; then the last pair goes out."""
    game = dealt_to("CA S6 H6 ST DT JO", *LOW_HANDS)
    if field:
        on_field(game, "DK")
    assert TEXTS[HeuristicAgent().choose(view(game, 0))] == "CA"
    assert is_played_out(game)


@pytest.mark.slow
def test_certain_wins_of_random_games_are_played_out() -> None:
    rng, agent, certain = random.Random(6), HeuristicAgent(), 0
    match = new_match(6, Rules(class_reset_every=1))
    for _ in range(1_250):
        next_game(match)
        while match["turn"] >= 0 and match["left"][0]:
            if is_certain(match):
                certain += 1
                assert is_played_out(match)
                break
            legal = legal_plays(match)
            if match["turn"] == 0:
                rules.play(match, agent.choose(view(match, 0)))
            else:
                rules.play(match, rng.choice(legal) if legal else plays.PASS)
    assert certain > 1_000


@pytest.mark.parametrize(
    ("hand", "field", "loose"),
    [
        ("S9 D9 CJ H3 D3", "H5", "CJ"),
        ("S6 H6 D9 ST C4", "D5", "D9"),
        ("SK HK CQ H6", "DT", "CQ"),
        ("S7 D7 C9 HJ SA DA", "C6", "C9"),
        ("ST HT SQ C4 D4 H6 SK", "C9", "SQ"),
    ],
)
def test_a_loose_card_follows_before_one_of_a_pair(hand: str, field: str, loose: str) -> None:
    rng = random.Random(hand)
    others = [name for name in NAMES if name not in (*hand.split(), field)]
    for _ in range(20):
        rng.shuffle(others)
        game = dealt_to(hand, *(" ".join(others[10 * i : 10 * i + 9]) for i in range(4)))
        assert TEXTS[HeuristicAgent().choose(view(on_field(game, field), 0))] == loose


def test_the_heuristic_player_follows_its_weights() -> None:
    game = on_field(dealt_to("S9 D9 CJ H3 D3", *LOW_HANDS), "H6")
    passive = agents.make("daihinmin-heuristic", weights=Weights(lead=-100.0, danger=0.0))
    eager = agents.make("daihinmin-heuristic", weights=Weights(lead=100.0))
    assert passive.choose(view(game, 0)) == plays.PASS
    assert TEXTS[eager.choose(view(game, 0))] == "CJ"


# Kernels against brute force


def legal_for(hand: int, field: int, revolution: bool) -> list[int]:
    """Return the legal plays of a hand on a field without a lock."""
    out = np.empty(plays.N_PLAYS, np.int64)
    n = plays.write_plays(hand, field, revolution, False, True, out)
    return [int(play) for play in out[:n]]


def random_cards(rng: random.Random, n: int, among: int = cards.DECK) -> int:
    """Return `n` cards of a set, or all; half of the time of neighboring ranks."""
    free = [card for card in range(cards.N_CARDS) if among >> card & 1]
    if rng.random() < 0.5:
        start = rng.randrange(53)
        near = [card for card in free if card == cards.JOKER or abs(card - start) < 10]
        free = near if len(near) >= n else free
    return sum(1 << card for card in rng.sample(free, min(n, len(free))))


def answers(unseen: int, play: int, revolution: bool, largest: int = 53) -> list[int]:
    """Return the answers to a play that the unseen cards, held by one player, allow."""
    if plays.CUTS_AS_8[play]:
        return []
    return [other for other in legal_for(unseen, play, revolution) if plays.SIZE[other] <= largest]


@pytest.mark.slow
def test_a_play_can_be_beaten_if_the_unseen_cards_hold_an_answer() -> None:
    rng, counts = random.Random(1), Counter[tuple[int, bool]]()
    for number in range(30_000):
        play = number % (plays.N_PLAYS - 1) + 1
        unseen = random_cards(rng, rng.randint(1, 30), cards.DECK & ~int(plays.CARDS[play]))
        revolution, largest = rng.random() < 0.5, rng.choice([53, rng.randint(0, 11)])
        expected = bool(answers(unseen, play, revolution, largest))
        position = (cards.text(unseen), TEXTS[play], revolution, largest)
        assert _can_be_beaten(unseen, play, revolution, largest) == expected, position
        counts[int(plays.KIND[play]), expected] += 1
    assert min(counts[kind, expected] for kind in (1, 2, 3, 4) for expected in (False, True)) >= 3


def meld_cost(meld: Sequence[oracle.Cell], revolution: int, prices: Any, w: Weights) -> float:
    """Return the cost of cards as one meld; infinity if they are none."""
    rows, columns = {row for row, _ in meld}, sorted(column for _, column in meld)
    if len(set(columns)) == 1:
        return float(prices[len(meld), columns[0]])
    if len(rows) == 1 and len(meld) >= 3 and columns[-1] - columns[0] == len(meld) - 1:
        return float(_sequence_cost(columns[0], len(meld), revolution, w))
    return float("inf")


def least_cost(hand: list[oracle.Cell], revolution: int, prices: Any, w: Weights) -> float:
    """Return the least cost of all divisions of a hand, its first card with any of the others."""
    if not hand:
        return 0.0
    costs = []
    for subset in range(1, 2 ** len(hand), 2):
        meld = [cell for i, cell in enumerate(hand) if subset >> i & 1]
        cost = meld_cost(meld, revolution, prices, w)
        if cost < float("inf"):
            rest = [cell for cell in hand if cell not in meld]
            costs.append(cost + least_cost(rest, revolution, prices, w))
    return min(costs)


def test_the_cost_of_a_hand_is_that_of_its_cheapest_division() -> None:
    """The kernel tries not every pair of three or four of a rank, where its cost may be higher."""
    rng, w, exact = random.Random(3), Weights(), 0
    for number in range(2_000):
        prices = np.array([[rng.uniform(-1, 1) for _ in range(15)] for _ in range(5)])
        first, revolution = rng.randint(1, 9), number % 2
        near = [(row, column) for column in range(first, first + 5) for row in range(4)]
        cells = sorted(rng.sample(near, rng.randint(1, 7)), key=lambda cell: (cell[1], cell[0]))
        hand = sum(1 << 4 * (column - 1) + row for row, column in cells)
        least = least_cost(cells, revolution, prices, w)
        cost = _hand_cost(hand, revolution, prices, w)
        ranks = Counter(column for _, column in cells)
        if max(ranks.values()) <= 2:
            assert cost == pytest.approx(least), cards.text(hand)
            exact += 1
        else:
            assert cost >= least - 1e-9, cards.text(hand)
        with_joker = _hand_cost(hand | 1 << cards.JOKER, revolution, prices, w)
        assert with_joker <= cost - w.joker + 1e-9, cards.text(hand)
    assert exact > 500


def out_by_force(hand: int, unseen: int, revolution: bool, largest: int) -> bool:
    """Return True if the leader goes out when any answer of the pooled opponents stops it."""
    for play in legal_for(hand, plays.PASS, revolution):
        rest = hand & ~int(plays.CARDS[play])
        order = revolution ^ bool(plays.REVOLVES[play])
        if not rest:
            return True
        if not answers(unseen, play, order, largest) and out_by_force(rest, unseen, order, largest):
            return True
    return False


def test_a_hand_is_out_by_force_if_no_answer_of_pooled_opponents_stops_it() -> None:
    rng, counts = random.Random(4), Counter[tuple[bool, bool]]()
    for number in range(5_000):
        hand = random_cards(rng, rng.randint(1, 5))
        unseen = random_cards(rng, rng.randint(1, 12), cards.DECK & ~hand)
        revolution, largest = number % 2 == 1, rng.choice([53, rng.randint(1, 6)])
        expected = out_by_force(hand, unseen, revolution, largest)
        position = (cards.text(hand), cards.text(unseen), revolution, largest)
        assert _can_force_out(hand, unseen, revolution, largest, 5) == expected, position
        assert not _can_force_out(hand, unseen, revolution, largest, 2) or expected, position
        is_one_play = any(plays.CARDS[p] == hand for p in legal_for(hand, plays.PASS, False))
        counts[is_one_play, expected] += 1
    assert counts[False, True] > 100
    assert counts[False, False] > 100
