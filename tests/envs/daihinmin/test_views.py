"""Views hide all that a player cannot see; deals that agree with a view are uniform."""

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
    write_legal,
)
from afterstate.envs.daihinmin.views import (
    all_played,
    determinise,
    fill_hidden,
    known_cards,
    legal_plays,
    view,
)
from tests.oracles import daihinmin as oracle
from tests.support.daihinmin.hands import names

HIDDEN = {"hands", "given", "gift", "seed", "rng", "viewer"}
"""The fields in which a view differs from the game."""


def moments(seed: int, n_games: int, every: int) -> Iterator[Game]:
    """Yield one in `every` positions of a random match, all of the exchange, and the ends."""
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


def test_a_view_lacks_the_hands_and_gifts_of_others() -> None:
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


def test_legal_plays_of_a_game_are_those_of_the_view_of_the_player_in_turn() -> None:
    legal = np.empty(plays.N_PLAYS, np.int64)
    for game in moments(2, 4, 3):
        if game["turn"] >= 0 and not game["to_give"]:
            expected = legal[: write_legal(game, legal)].tolist()
            assert legal_plays(game) == legal_plays(view(game, int(game["turn"]))) == expected


def reshuffled(rng: random.Random, game: Game, player: int) -> Game:
    """Return a game that differs only in cards and random states hidden from a player."""
    other = game.copy()
    others = [p for p in range(5) if p != player]
    pool = [card for p in others for card in sorted(names(game["hands"][p]))]
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
    for game in moments(2, 5, 4):
        for player in range(5):
            other = reshuffled(rng, game, player)
            n += other["hands"].tobytes() != game["hands"].tobytes()
            assert view(other, player).tobytes() == view(game, player).tobytes()
    assert n > 500


def test_changing_a_view_does_not_change_the_game() -> None:
    game = next(moments(3, 1, 1))
    before = game.tobytes()
    seen = view(game, 0)
    seen["hands"][0], seen["played"][3], seen["turn"] = 1, 2, 4
    assert game.tobytes() == before


def possible_gifts(seen: Game, remaining: set[str]) -> int:
    """Return the number of gifts after which the viewer's partner can have the remaining cards.

    A gift is any set of cards in the hand from which the rich viewer chose its own.
    """
    viewer = int(seen["viewer"])
    rank = int(seen["classes"][viewer])
    had = names(seen["hands"][viewer] | seen["played"][viewer] | seen["given"][viewer])
    n = 2 - rank
    return sum(
        set(oracle.strongest(remaining | set(received), n)) == set(received)
        for received in combinations(sorted(had), n)
    )


def agrees(seen: Game, hands: list[set[str]]) -> int:
    """Return the number of ways to a deal by the rules of the exchange and the first lead."""
    viewer = int(seen["viewer"])
    played = names(all_played(seen))
    own, mine = names(seen["hands"][viewer]), names(seen["given"][viewer])
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
    return possible_gifts(seen, (hands[other] | names(seen["played"][other])) - mine)


def test_known_cards_are_held() -> None:
    n_known = 0
    for game in moments(4, 40, 7):
        for viewer in range(5):
            seen = view(game, viewer)
            for player in range(5):
                known = known_cards(seen, player)
                assert known & ~int(game["hands"][player]) == 0
                assert known == int(game["hands"][viewer]) or player != viewer
                n_known += bool(known) and player != viewer
    assert n_known > 500


def small_view(viewer: int, hands: list[str], given: list[str], played: list[str]) -> Game:
    """Return a view late in a game; player p has class p, and player 2 played the other cards."""
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


def test_a_poor_player_knows_its_gift_until_the_cards_reappear() -> None:
    hands = ["SA JO", "S9", "H9", "D9", "C9 C2"]
    seen = small_view(4, hands, ["C2 H4", "", "", "", "SA C2"], ["", "", "", "", "H4"])
    assert names(known_cards(seen, 0)) == {"SA"}  # the C2 was returned
    assert names(known_cards(seen, 4)) == {"C9", "C2"}
    assert [known_cards(seen, player) for player in (1, 2, 3)] == [0, 0, 0]
    seen["played"][0] |= cards.parse("SA")
    assert known_cards(seen, 0) == 0


def test_a_rich_player_knows_its_gift() -> None:
    hands = ["S5 SA", "S9", "H9", "D9", "C9 C4"]
    seen = small_view(0, hands, ["S4 C4", "", "", "", "SA HQ"], ["HQ", "", "", "", "S4"])
    assert names(known_cards(seen, 4)) == {"C4"}
    assert [known_cards(seen, player) for player in (1, 2, 3)] == [0, 0, 0]


def test_the_first_leader_holds_the_diamond_3_until_it_is_played() -> None:
    hands = ["S5 SA", "S9", "D3 H9", "D9", "C9 C4"]
    seen = small_view(3, hands, [""] * 5, [""] * 5)
    assert names(known_cards(seen, 2)) == {"D3"}
    seen["played"][2] |= cards.parse("D3")
    assert known_cards(seen, 2) == 0
    seen = small_view(2, hands, [""] * 5, [""] * 5)
    assert names(known_cards(seen, 2)) == {"D3", "H9"}


def test_random_deals_agree_with_the_view_and_can_be_played_out() -> None:
    rng = np.random.default_rng(6)
    out = np.empty(plays.N_PLAYS, np.int64)
    n_other = 0
    for game in moments(6, 20, 9):
        for viewer in range(5):
            seen = view(game, viewer)
            before = seen.tobytes()
            whole = determinise(seen, rng)
            assert seen.tobytes() == before
            assert agrees(seen, [names(hand) for hand in whole["hands"]])
            assert view(whole, viewer).tobytes() == before
            assert whole["viewer"] == -1
            n_other += whole["hands"].tobytes() != game["hands"].tobytes()
            while whole["to_give"]:
                assert give(whole, cards.weakest(whole["hands"][whole["turn"]], whole["to_give"]))
            play_out(whole, out)
            assert sorted(whole["places"].tolist()) == [0, 1, 2, 3, 4]
    assert n_other > 800


def test_the_generator_determines_the_deal() -> None:
    game = next(moments(7, 1, 1))
    seen = view(game, 0)
    first, again, other = (determinise(seen, np.random.default_rng(s)) for s in (1, 1, 2))
    assert first.tobytes() == again.tobytes()
    assert first["hands"].tobytes() != other["hands"].tobytes()
    assert first["rng"] != other["rng"]


def deals(seen: Game) -> dict[tuple[int, ...], int]:
    """Return the number of ways to each deal that agrees with a view, from all permutations."""
    viewer = int(seen["viewer"])
    own = names(seen["hands"][viewer])
    hidden = sorted(set(oracle.PACK) - own - names(all_played(seen)))
    result: dict[tuple[int, ...], int] = {}
    for order in permutations(hidden):
        rest = list(order)
        hands = []
        for player in range(5):
            n = 0 if player == viewer else int(seen["left"][player])
            hands.append(own if player == viewer else set(rest[:n]))
            rest = rest[n:]
        deal = tuple(cards.parse(" ".join(hand)) for hand in hands)
        if deal not in result:
            result[deal] = agrees(seen, hands)
    return {deal: ways for deal, ways in result.items() if ways}


NOTHING = [""] * 5
SMALL_VIEWS = {
    "heimin, nothing known": small_view(2, ["S5 JO", "S9", "H9", "D9 C4", "C9"], NOTHING, NOTHING),
    "hinmin, D3 with the leader": small_view(
        3, ["S5 JO", "S9", "H9 D3", "D9 C4", "C9 HK"], ["", "", "", "S2", ""], NOTHING
    ),
    "daihinmin, one given card hidden": small_view(
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
    "fugo, one card is not excluded": small_view(
        1,
        ["JO C2", "S5 SQ", "SA", "C4", "H2 D2"],
        ["", "S4", "", "SQ", ""],
        ["", "H4", "", "S4", ""],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", SMALL_VIEWS)
def test_deals_are_as_frequent_as_the_ways_to_them(case: str) -> None:
    """Pearson's statistic exceeds Wilson and Hilferty's quantile once in a million times."""
    seen = SMALL_VIEWS[case]
    expected = deals(seen)
    n_way, rng = 100, np.random.default_rng(8)
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


def test_numbers_of_deals_equal_counts_by_hand() -> None:
    six_in_hands_of_1_1_2_2, four_in_hands_of_1_1_2 = 720 // 4, 24 // 2
    assert {case: len(deals(seen)) for case, seen in SMALL_VIEWS.items()} == {
        "heimin, nothing known": six_in_hands_of_1_1_2_2,
        "hinmin, D3 with the leader": six_in_hands_of_1_1_2_2,
        "daihinmin, one given card hidden": six_in_hands_of_1_1_2_2,
        "daifugo, given and excluded cards": 3 * four_in_hands_of_1_1_2,  # two of DQ, H9 and S9
        "fugo, given and excluded cards": 3 * four_in_hands_of_1_1_2,  # two of CJ, H9 and S9
        "fugo, one card is not excluded": 120 // 4,
    }


def test_a_whole_game_cannot_be_determinised() -> None:
    game = next(moments(9, 1, 1))
    with pytest.raises(ValueError, match="view"):
        determinise(game, np.random.default_rng(1))


def impossible_views() -> dict[str, Game]:
    """Return views that no deal agrees with."""
    hands = ["S5 SA", "SQ", "JO CK", "H9", "DQ S9 C4"]
    given, played = ["S4 C4", "", "", "", ""], ["HQ", "", "", "", "S4"]
    views = {name: small_view(0, hands, given, played) for name in ("more", "fewer", "known")}
    views["more"]["left"][1] = 2
    views["fewer"]["left"][1] = 0
    views["known"]["left"][4] = 0  # but it must hold the C4
    views["excluded"] = small_view(0, ["S5 S6", "SQ", "JO CK", "H2", "DQ"], given, played)
    return views


@pytest.mark.parametrize("case", ["more", "fewer", "known", "excluded"])
def test_a_view_without_a_possible_deal_raises_an_error(case: str) -> None:
    seen = impossible_views()[case]
    with pytest.raises(ValueError, match="deal"):
        determinise(seen, np.random.default_rng(1))
    assert not fill_hidden(seen)


@pytest.mark.parametrize("player", [-3, -1, 5, 10**9])
def test_a_view_of_a_wrong_player_raises_an_error(player: int) -> None:
    with pytest.raises(ValueError, match="player"):
        view(next(moments(7, 1, 1)), player)


def test_deals_of_later_games_depend_on_the_generator() -> None:
    seen, out = view(next(moments(7, 1, 1)), 0), np.empty(plays.N_PLAYS, np.int64)
    packs = set()
    for seed in range(5):
        game = determinise(seen, np.random.default_rng(seed))
        play_out(game, out)
        next_game(game)
        packs.add(game["hands"].tobytes())
    assert len(packs) == 5
