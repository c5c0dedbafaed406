"""Gifts of the exchange: the rule of snowl by hand and by an oracle, and all possible gifts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations

import pytest

from afterstate.agents.daihinmin.afterstates.exchange import gift, gift_afterstates, in_sequences
from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.rules import Game, Rules, give
from afterstate.envs.daihinmin.views import view
from tests.oracles import chains as oracle
from tests.oracles.daihinmin import PACK, RANKS, SUITS


def given(hand: str, n: int) -> set[str]:
    """Return the gift of a hand in notation."""
    return set(oracle.names(int(gift(cards.parse(hand), n))))


# By the parts of a hand


@pytest.mark.parametrize(
    ("hand", "two"),
    [
        # Loose cards, the weakest first; suits S, H, D, C
        ("S4 D5 H6 C9 DT SK HA C2 S8 JO", "S4 D5"),
        ("H5 C6 D7 ST HJ CK DA S2 H8 D3", "H5 C6"),
        # 3s, 8s, and J and above are kept while there are others
        ("S3 D8 HJ CQ SK C9 DA C2 ST", "C9 ST"),
        # Groups are kept together
        ("S4 D4 H6 C6 D7 ST HJ CK DA S2", "D7 ST"),
        ("S4 D4 H4 C6 S6 H9 D9 CT SJ HQ", "CT SJ"),  # and no 6
        # Sequences are kept together
        ("S4 S5 S6 D7 HT CJ DQ SK HA C2", "D7 HT"),
        # If there are too few, loose 3s go, then 8s, then J and Q, then groups, then sequences
        ("S3 H9 SJ HQ DK CA S2 H2 D8 JO", "H9 S3"),
        ("S3 H8 SJ HQ DK CA S2 JO DJ H2", "S3 H8"),
        ("S8 SJ DQ DK CA H2 HK DA S2 JO", "S8 SJ"),
        ("SJ DQ HK CK SA DA D2 H2", "SJ DQ"),
        ("S4 D4 C4 SJ SK DK CA DA S2 H2", "SJ S4"),
        ("S4 S5 S6 H9 D9 SK DK CA DA S2", "H9 D9"),
        ("S4 S5 S6 H7 H8 H9 D9 DT DJ DQ", "S4 S5"),
    ],
)
def test_gifts_by_hand(hand: str, two: str) -> None:
    assert given(hand, 2) == set(two.split())
    assert given(hand, 1) == {two.split()[0]}


@pytest.mark.parametrize(
    ("hand", "aside"),
    [
        ("S4 S5 S6 H9", "S4 S5 S6"),
        ("S4 S5 H6 H9", ""),
        ("S4 S5 S6 S7 S8 H9", "S4 S5 S6 S7 S8"),
        ("S4 S5 S6 H5 H6 H7", "S4 S5 S6 H5 H6 H7"),
        ("S4 S6 JO H9", "S4 S6 JO"),  # in the gap
        ("S4 S5 JO HJ", "S4 S5 JO"),  # at the end
        ("S4 S5 S7 S8 JO HJ", "S4 S5 S7 S8 JO"),
        ("S4 S5 H9 HT JO", "S4 S5 JO"),  # once only, in the weakest
        ("S4 S6 S8 JO", "S4 S6 JO"),
        ("S4 H9 JO", ""),
        ("SQ SK SA C2", "SQ SK SA"),
    ],
)
def test_sequences_are_set_aside_from_the_weakest_on_with_the_joker_once(
    hand: str, aside: str
) -> None:
    assert set(oracle.names(int(in_sequences(cards.parse(hand))))) == set(aside.split())


def sequence_from(hand: set[str], suit: str, first: int) -> list[str]:
    """Return the longest run of a suit from a rank on, the joker in a gap or at its end."""
    run: list[str] = []
    for rank in RANKS[first:]:
        if suit + rank in hand:
            run.append(suit + rank)
        elif run and "JO" in hand and "JO" not in run:
            run.append("JO")
        else:
            break
    return run


def naive_gift(hand: set[str], n: int) -> set[str]:
    """Return the gift by the text of the rule: sequences are set aside, the rest is sorted."""
    rest, runs = set(hand), set[str]()
    for first in range(13):
        for suit in SUITS:
            run = sequence_from(rest, suit, first)
            if len(run) >= 3:
                runs |= set(run)
                rest -= set(run)
    of_rank = {rank: [card for card in rest if card[1] == rank] for rank in RANKS}
    groups = {card for alike in of_rank.values() if len(alike) >= 2 for card in alike}
    loose = rest - groups - {"JO"}
    kinds = [
        {card for card in loose if card[1] in "45679T"},
        {card for card in loose if card[1] == "3"},
        {card for card in loose if card[1] == "8"},
        {card for card in loose if card[1] in "JQ"},
        groups,
        runs - {"JO"},
        loose,
        {"JO"},
    ]
    order: list[str] = []
    for kind in kinds:
        order += sorted(kind - set(order), key=PACK.index)
    return set(order[:n])


@pytest.mark.parametrize("n", [1, 2])
def test_gifts_of_random_hands_are_those_of_the_rule(n: int) -> None:
    rng = random.Random(n)
    for _ in range(2_000):
        hand = rng.sample(PACK, rng.randint(10, 13))
        if rng.random() < 0.5:  # of two suits: more sequences
            hand = rng.sample([card for card in PACK if card[0] in "SHJ"], len(hand))
        assert given(" ".join(hand), n) == naive_gift(set(hand), n), hand


# All gifts


def exchanges(seed: int, n_games: int, rules: Rules | None = None) -> Iterator[Game]:
    """Yield games in which a player must give."""
    rng = random.Random(seed)
    match = new_match(seed, rules)
    match["places"] = rng.sample(range(5), 5)
    for _ in range(n_games):
        match["number"] = 1  # so that there are classes
        match["n_out"], match["turn"] = 5, -1
        next_game(match)
        while match["to_give"]:
            yield match
            hand = sorted(oracle.names(match["hands"][match["turn"]]))
            give(match, oracle.word(frozenset(rng.sample(hand, int(match["to_give"])))))
        match["places"] = rng.sample(range(5), 5)


def test_all_gifts_are_listed_once() -> None:
    for game in exchanges(1, 20):
        hand, n = oracle.names(game["hands"][game["turn"]]), int(game["to_give"])
        _, gifts = gift_afterstates(view(game, int(game["turn"])))
        expected = {oracle.word(frozenset(pair)) for pair in combinations(hand, n)}
        assert len(gifts) == len(expected)
        assert set(map(int, gifts)) == expected


def test_the_afterstate_of_a_gift_is_the_position_after_the_exchange() -> None:
    rng = random.Random(2)
    n_games = 0
    for game in exchanges(2, 30):
        me = int(game["turn"])
        afters, gifts = gift_afterstates(view(game, me))
        assert len(afters) == len(gifts)
        for i in rng.sample(range(len(gifts)), 3):
            played = game.copy()
            give(played, gifts[i])
            while played["to_give"]:
                give(played, cards.weakest(played["hands"][played["turn"]], played["to_give"]))
            played["turn"] = me
            # The daifugo does not see yet that a card comes back, so the card is not known.
            at = oracle.seen(view(played, me))
            expected = oracle.fields_of(at, oracle.root(at))
            assert oracle.record_of(afters[i]) == expected
            assert afters[i]["play"] == plays.PASS
            n_games += 1
    assert n_games == 180


def test_a_gift_is_known_to_be_with_the_partner_in_seat_order() -> None:
    game = next(exchanges(3, 1))
    me = int(game["turn"])
    partner = game["classes"].tolist().index(4)
    seats = game["seats"].tolist()
    at = (seats.index(partner) - seats.index(me)) % 5
    afters, gifts = gift_afterstates(view(game, me))
    for after, cards_ in zip(afters, gifts, strict=True):
        assert after["known"].tolist() == [int(cards_) if i + 1 == at else 0 for i in range(4)]
        assert after["left"].tolist().count(10) == 2  # 53 cards are 11 11 11 10 10
