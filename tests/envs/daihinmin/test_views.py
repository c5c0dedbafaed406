"""Views, which must hide all hidden fields, and uniformly random deals that agree with them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, permutations

import numpy as np
import pytest

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match, next_game
from afterstate.envs.daihinmin.rules import (
    GAME,
    Game,
    draw_play,
    give,
    give_card,
    partner,
    play,
    play_out,
)
from afterstate.envs.daihinmin.views import (
    all_played,
    determinise,
    excluded_cards,
    fill_hidden,
    known_cards,
    view,
)
from afterstate.envs.words import Word
from tests.oracles import daihinmin as oracle

HIDDEN = {"hands", "given", "gift", "seed", "rng", "viewer"}
"""The fields in which a view differs from the game."""


def names(word: Word) -> set[str]:
    """A card set as names."""
    return set(cards.text(word).split())


def moments(seed: int, n_games: int, every: int) -> Iterator[Game]:
    """Every so many-th moment of a random match, in the exchange too."""
    rng = random.Random(seed)
    out = np.empty(plays.N_PLAYS, np.int64)
    match = new_match(seed)
    for _ in range(n_games):
        next_game(match)
        n = 0
        while match["turn"] >= 0:
            if match["to_give"]:
                yield match
                hand = int(match["hands"][match["turn"]] & ~match["gift"])
                give_card(match, cards.CARD_NUMBERS[rng.choice(sorted(names(hand)))])
                continue
            if n % every == 0:
                yield match
            n += 1
            play(match, draw_play(match, out) if rng.random() < 0.9 else plays.PASS)
        yield match


def test_a_view_is_the_game_without_what_others_hold_and_gave() -> None:
    for game in moments(1, 8, 5):
        for player in range(5):
            seen = view(game, player)
            for name in set(GAME.names or ()) - HIDDEN:
                assert np.array_equal(seen[name], game[name]), name
            for name in ("hands", "given"):
                shown = [int(game[name][p]) if p == player else 0 for p in range(5)]
                assert seen[name].tolist() == shown, name
            assert seen["gift"] == (game["gift"] if game["turn"] == player else 0)
            assert (seen["seed"], seen["rng"], seen["viewer"]) == (0, 0, player)


def reshuffled(rng: random.Random, game: Game, player: int) -> Game:
    """The same game to a player, as far as the cards go that he does not see."""
    other = game.copy()
    others = [p for p in range(5) if p != player]
    pool = [card for p in others for card in sorted(names(int(game["hands"][p])))]
    rng.shuffle(pool)
    for p in others:
        n = int(game["left"][p])
        other["hands"][p] = cards.parse(" ".join(pool[:n]))
        pool = pool[n:]
        other["given"][p] = rng.getrandbits(53)
    if game["turn"] != player:
        other["gift"] = rng.getrandbits(53)
    other["seed"], other["rng"] = rng.getrandbits(64), rng.getrandbits(64)
    return other


def test_hidden_cards_and_random_states_do_not_show() -> None:
    rng = random.Random(2)
    n = 0
    for game in moments(2, 10, 4):
        for player in range(5):
            other = reshuffled(rng, game, player)
            n += other["hands"].tobytes() != game["hands"].tobytes()
            assert view(other, player).tobytes() == view(game, player).tobytes()
    assert n > 1_000


def test_a_view_is_a_record_of_its_own() -> None:
    game = next(moments(3, 1, 1))
    before = game.tobytes()
    seen = view(game, 0)
    seen["hands"][0], seen["played"][3], seen["turn"] = 1, 2, 4
    assert game.tobytes() == before


def possible_gifts(seen: Game, kept: set[str]) -> int:
    """In how many ways the viewer's partner can have given his strongest cards and kept these.

    Tries all cards that the rich viewer had when he chose as those that he had received.
    """
    viewer = int(seen["viewer"])
    rank = int(seen["classes"][viewer])
    had = names(int(seen["hands"][viewer] | seen["played"][viewer] | seen["given"][viewer]))
    n = 2 - rank
    return sum(
        set(oracle.strongest(kept | set(received), n)) == set(received)
        for received in combinations(sorted(had), n)
    )


def agrees(seen: Game, hands: list[set[str]]) -> int:
    """In how many ways a deal can have come about, by the rules of exchange and first lead."""
    viewer = int(seen["viewer"])
    played = names(int(all_played(seen)))
    own, mine = names(int(seen["hands"][viewer])), names(int(seen["given"][viewer]))
    if hands[viewer] != own or [len(hand) for hand in hands] != seen["left"].tolist():
        return 0
    if sorted([*played, *(card for hand in hands for card in hand)]) != sorted(oracle.PACK):
        return 0
    if seen["starter"] >= 0 and "D3" not in played | hands[seen["starter"]]:
        return 0
    other = int(partner(seen, viewer))
    if other < 0:
        return 1
    if not mine <= hands[other] | own | played:
        return 0
    if seen["classes"][viewer] > 1:
        return 1
    return possible_gifts(seen, (hands[other] | names(int(seen["played"][other]))) - mine)


def test_known_cards_are_held_and_excluded_cards_were_not_kept() -> None:
    n_known = n_excluded = 0
    for game in moments(4, 40, 7):
        for viewer in range(5):
            seen = view(game, viewer)
            for player in range(5):
                known, excluded = known_cards(seen, player), excluded_cards(seen, player)
                assert known & ~int(game["hands"][player]) == 0
                assert known == int(game["hands"][viewer]) or player != viewer
                kept = int(game["hands"][player]) & ~int(game["given"][viewer])
                assert excluded & kept == 0
                n_known += bool(known) and player != viewer
                n_excluded += bool(excluded)
    assert min(n_known, n_excluded) > 500


def test_excluded_cards_are_all_that_the_partner_cannot_have_kept() -> None:
    n = 0
    for game in moments(5, 30, 40):
        for viewer in range(5):
            seen = view(game, viewer)
            other = int(partner(game, viewer))
            for player in range(5):
                excluded = names(int(excluded_cards(seen, player)))
                if player != other or game["classes"][viewer] > 1:
                    assert not excluded
                    continue
                had = seen["hands"][viewer] | seen["played"][viewer] | seen["given"][viewer]
                for card in set(oracle.PACK) - names(int(had)):
                    assert (card in excluded) == (possible_gifts(seen, {card}) == 0), card
                    n += card in excluded
    assert n > 500


def small_view(viewer: int, hands: list[str], given: list[str], played: list[str]) -> Game:
    """A view late in a game whose classes are 0 to 4 by player; player 2 played all other cards."""
    game = new_match()
    game["classes"] = range(5)
    game["places"] = -1
    game["turn"] = viewer
    game["hands"] = [cards.parse(hand) for hand in hands]
    game["given"] = [cards.parse(gift) for gift in given]
    game["played"] = [cards.parse(cards_) for cards_ in played]
    game["left"] = [len(hand.split()) for hand in hands]
    game["starter"] = 2
    seen = int(np.bitwise_or.reduce(game["hands"]) | all_played(game))
    game["played"][2] |= np.uint64(cards.DECK & ~seen)
    return view(game, viewer)


def test_a_poor_player_knows_the_cards_he_gave_until_they_are_seen_again() -> None:
    hands = ["SA JO", "S9", "H9", "D9", "C9 C2"]
    seen = small_view(4, hands, ["C2 H4", "", "", "", "SA C2"], ["", "", "", "", "H4"])
    assert names(known_cards(seen, 0)) == {"SA"}  # the C2 came back
    assert names(known_cards(seen, 4)) == {"C9", "C2"}
    assert [known_cards(seen, player) for player in (1, 2, 3)] == [0, 0, 0]
    seen["played"][0] |= cards.parse("SA")
    assert known_cards(seen, 0) == 0


def test_a_rich_player_knows_the_cards_he_gave_and_what_the_partner_cannot_hold() -> None:
    """The daifugo had S5 SA HQ and the two that he gave, so he received no worse than the H Q."""
    hands = ["S5 SA", "S9", "H9", "D9", "C9 C4"]
    seen = small_view(0, hands, ["S4 C4", "", "", "", "SA HQ"], ["HQ", "", "", "", "S4"])
    assert names(known_cards(seen, 4)) == {"C4"}
    excluded = names(excluded_cards(seen, 4))
    assert {"SQ", "SK", "CK", "HA", "C2", "JO"} <= excluded
    assert not {"DQ", "CQ", "SJ", "C4", "HQ"} & excluded
    assert [excluded_cards(seen, player) for player in range(4)] == [0] * 4


def test_the_diamond_3_is_with_the_first_leader_until_it_is_played() -> None:
    hands = ["S5 SA", "S9", "D3 H9", "D9", "C9 C4"]
    seen = small_view(3, hands, [""] * 5, [""] * 5)
    assert names(known_cards(seen, 2)) == {"D3"}
    seen["played"][2] |= cards.parse("D3")
    assert known_cards(seen, 2) == 0
    seen = small_view(2, hands, [""] * 5, [""] * 5)
    assert names(known_cards(seen, 2)) == {"D3", "H9"}


def test_any_moment_of_a_game_can_be_dealt_anew() -> None:
    """The deal agrees, shows the same to the viewer and can be played to the end."""
    rng = np.random.default_rng(6)
    out = np.empty(plays.N_PLAYS, np.int64)
    n_other = 0
    for game in moments(6, 40, 9):
        for viewer in range(5):
            seen = view(game, viewer)
            before = seen.tobytes()
            whole = determinise(seen, rng)
            assert seen.tobytes() == before
            assert agrees(seen, [names(int(hand)) for hand in whole["hands"]])
            assert view(whole, viewer).tobytes() == before
            assert whole["viewer"] == -1
            n_other += whole["hands"].tobytes() != game["hands"].tobytes()
            while whole["to_give"]:
                assert give(whole, cards.weakest(whole["hands"][whole["turn"]], whole["to_give"]))
            play_out(whole, out)
            assert sorted(whole["places"].tolist()) == [0, 1, 2, 3, 4]
    assert n_other > 2_000


def test_the_random_generator_decides_the_deal() -> None:
    game = next(moments(7, 1, 1))
    seen = view(game, 0)
    first, again, other = (determinise(seen, np.random.default_rng(s)) for s in (1, 1, 2))
    assert first.tobytes() == again.tobytes()
    assert first["hands"].tobytes() != other["hands"].tobytes()
    assert first["rng"] != other["rng"]


def deals(seen: Game) -> dict[tuple[int, ...], int]:
    """All deals of hidden cards that agree with a view, found by trying every order of them.

    With each the number of ways in which it can have come about.
    """
    viewer = int(seen["viewer"])
    own = names(int(seen["hands"][viewer]))
    hidden = sorted(set(oracle.PACK) - own - names(int(all_played(seen))))
    found: dict[tuple[int, ...], int] = {}
    for order in permutations(hidden):
        rest = list(order)
        hands = []
        for player in range(5):
            n = 0 if player == viewer else int(seen["left"][player])
            hands.append(own if player == viewer else set(rest[:n]))
            rest = rest[n:]
        deal = tuple(cards.parse(" ".join(hand)) for hand in hands)
        if deal not in found:
            found[deal] = agrees(seen, hands)
    return {deal: ways for deal, ways in found.items() if ways}


NOTHING = [""] * 5
SMALL_VIEWS = {
    "heimin, nothing known": small_view(2, ["S5 JO", "S9", "H9", "D9 C4", "C9"], NOTHING, NOTHING),
    "hinmin, D3 with the leader": small_view(
        3, ["S5 JO", "S9", "H9 D3", "D9 C4", "C9 HK"], ["", "", "", "S2", ""], NOTHING
    ),
    "daihinmin, one given card unseen": small_view(
        4, ["SA JO", "S9 H5", "H9 CT", "D9", "C9 C2"], ["", "", "", "", "SA C2"], NOTHING
    ),
    "daifugo, given and excluded cards": small_view(
        0,
        ["S5 SA", "SQ", "JO CK", "H9", "DQ S9 C4"],
        ["S4 C4", "", "", "", "SA HQ"],
        ["HQ", "", "", "", "S4"],
    ),
    "fugo, given and excluded cards": small_view(
        1,
        ["JO CK", "S5 CQ", "SQ", "CJ S9 C4", "H9"],
        ["", "C4", "", "CQ", ""],
        ["", "H4", "", "", ""],
    ),
    "fugo, all that is left is excluded but one": small_view(
        1,
        ["JO C2", "S5 SQ", "SA", "C4", "H2 D2"],
        ["", "S4", "", "SQ", ""],
        ["", "H4", "", "S4", ""],
    ),
}


@pytest.mark.parametrize("case", SMALL_VIEWS)
def test_deals_are_drawn_as_often_as_there_are_ways_to_them(case: str) -> None:
    """Pearson's statistic against Wilson and Hilferty's quantile, exceeded once in a million."""
    seen = SMALL_VIEWS[case]
    expected = deals(seen)
    n_way, rng = 200, np.random.default_rng(8)
    counts: Counter[tuple[int, ...]] = Counter()
    for _ in range(n_way * sum(expected.values())):
        counts[tuple(determinise(seen, rng)["hands"].tolist())] += 1
    assert set(counts) == set(expected)
    statistic = sum(
        (counts[d] - n_way * ways) ** 2 / (n_way * ways) for d, ways in expected.items()
    )
    freedom = len(expected) - 1
    spread = 2 / (9 * freedom)
    assert statistic < freedom * (1 - spread + 4.76 * spread**0.5) ** 3


def test_the_cases_have_as_many_deals_as_counted_by_hand() -> None:
    six_in_hands_of_1_1_2_2, four_in_hands_of_1_1_2 = 720 // 4, 24 // 2
    assert {case: len(deals(seen)) for case, seen in SMALL_VIEWS.items()} == {
        "heimin, nothing known": six_in_hands_of_1_1_2_2,
        "hinmin, D3 with the leader": six_in_hands_of_1_1_2_2,
        "daihinmin, one given card unseen": six_in_hands_of_1_1_2_2,
        "daifugo, given and excluded cards": 3 * four_in_hands_of_1_1_2,  # two of DQ, H9 and S9
        "fugo, given and excluded cards": 3 * four_in_hands_of_1_1_2,  # two of CJ, H9 and S9
        "fugo, all that is left is excluded but one": 120 // 4,
    }


def test_a_whole_game_cannot_be_determinised() -> None:
    game = next(moments(9, 1, 1))
    with pytest.raises(ValueError, match="view"):
        determinise(game, np.random.default_rng(1))


def impossible_views() -> dict[str, Game]:
    """Views with which no deal agrees."""
    hands = ["S5 SA", "SQ", "JO CK", "H9", "DQ S9 C4"]
    given, played = ["S4 C4", "", "", "", ""], ["HQ", "", "", "", "S4"]
    views = {name: small_view(0, hands, given, played) for name in ("more", "fewer", "known")}
    views["more"]["left"][1] = 2
    views["fewer"]["left"][1] = 0
    views["known"]["left"][4] = 0  # but he must hold the C4
    views["excluded"] = small_view(0, ["S5 S6", "SQ", "JO CK", "H2", "DQ"], given, played)
    return views


@pytest.mark.parametrize("case", ["more", "fewer", "known", "excluded"])
def test_a_view_without_a_possible_deal_is_an_error(case: str) -> None:
    seen = impossible_views()[case]
    with pytest.raises(ValueError, match="deal"):
        determinise(seen, np.random.default_rng(1))
    assert not fill_hidden(seen)


@pytest.mark.parametrize("player", [-3, -1, 5, 10**9])
def test_a_view_of_a_wrong_player_number_is_an_error(player: int) -> None:
    with pytest.raises(ValueError, match="player"):
        view(next(moments(7, 1, 1)), player)


def test_what_comes_after_a_deal_is_drawn_with_it() -> None:
    seen, out = view(next(moments(7, 1, 1)), 0), np.empty(plays.N_PLAYS, np.int64)
    packs = set()
    for seed in range(5):
        game = determinise(seen, np.random.default_rng(seed))
        play_out(game, out)
        next_game(game)
        packs.add(game["hands"].tobytes())
    assert len(packs) == 5
