"""The deal, the exchange of cards before a game, drawn numbers and random play."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match
from afterstate.envs.daihinmin.rules import (
    MAX_ACTIONS,
    Game,
    Rules,
    deal,
    draw,
    draw_play,
    give,
    give_card,
    holder,
    lay,
    of_class,
    partner,
    play_out,
    start,
)
from tests.support.daihinmin.positions import hands, on_field, table


def exchange(*hands_: str, classes: str = "01234", rules: Rules | None = None) -> Game:
    """Return a game with these hands, after the gifts of the poor."""
    game = table(*hands_, rules=rules)
    game["classes"] = [int(rank) for rank in classes]
    start(game)
    return game


RICH_AND_POOR = ("S4 S5 S6", "S7 H8 S9", "D3 H3", "SA HA H4", "JO S2 H2 C3")


def test_the_poor_give_their_strongest_cards_first() -> None:
    game = exchange(*RICH_AND_POOR)
    assert hands(game) == ["JO S4 S5 S6 S2", "S7 H8 S9 SA", "H3 D3", "H4 HA", "C3 H2"]
    assert [cards.text(given) for given in game["given"]] == ["", "", "", "SA", "JO S2"]
    assert game["left"].tolist() == [5, 4, 2, 2, 2]
    assert (game["turn"], game["to_give"]) == (0, 2)


def test_the_daifugo_gives_before_the_fugo_and_the_diamond_3_leads() -> None:
    game = exchange(*RICH_AND_POOR, classes="10234")
    assert (game["turn"], game["to_give"]) == (1, 2)
    assert give(game, cards.parse("S7 H8"))
    assert (game["turn"], game["to_give"]) == (0, 1)
    assert give(game, cards.parse("S4"))
    assert hands(game) == ["S5 S6 SA", "JO S9 S2", "H3 D3", "S4 H4 HA", "C3 S7 H8 H2"]
    assert game["left"].tolist() == [3, 3, 2, 3, 4]
    assert (game["turn"], game["starter"], game["to_give"], game["last"]) == (2, 2, 0, 2)


def test_the_receiver_of_the_diamond_3_leads() -> None:
    game = exchange("D3 S4 S5", "S7", "H3", "SA HA", "JO S2 C3")
    give(game, cards.parse("S4 D3"))
    give(game, cards.parse("S7"))
    assert game["turn"] == game["starter"] == 4


def test_received_cards_may_be_returned() -> None:
    game = exchange(*RICH_AND_POOR)
    assert give(game, cards.parse("JO S2"))
    assert give(game, cards.parse("SA"))
    dealt = [cards.text(cards.parse(hand)) for hand in RICH_AND_POOR]
    assert hands(game) == dealt


@pytest.mark.parametrize("choice", ["", "S4", "S4 S5 S6", "S4 H2", "H2 C3", "S4 S5 S6 S2 JO"])
def test_a_wrong_choice_is_punished_by_the_strongest_cards(choice: str) -> None:
    game = exchange(*RICH_AND_POOR)
    assert not give(game, cards.parse(choice))
    assert cards.text(game["given"][0]) == "JO S2"
    assert hands(game)[0] == "S4 S5 S6"
    assert hands(game)[4] == "C3 JO S2 H2"
    assert not give(game, cards.parse("S7 H8"))
    assert cards.text(game["given"][1]) == "SA"
    assert hands(game)[3] == "H4 SA HA"


def test_bits_outside_the_pack_make_a_choice_wrong() -> None:
    game = exchange(*RICH_AND_POOR)
    assert not give(game, cards.parse("S4") | 1 << 60)
    assert cards.text(game["given"][0]) == "JO S2"


def test_cards_can_be_given_one_by_one() -> None:
    game = exchange(*RICH_AND_POOR)
    assert give_card(game, cards.CARD_NUMBERS["S5"])
    assert (game["turn"], game["to_give"], cards.text(game["gift"])) == (0, 2, "S5")
    assert "S5" in hands(game)[0]
    assert give_card(game, cards.CARD_NUMBERS["S4"])
    assert cards.text(game["given"][0]) == "S4 S5"
    assert (game["turn"], game["to_give"], game["gift"]) == (1, 1, 0)
    assert give_card(game, cards.CARD_NUMBERS["S9"])
    assert game["turn"] == 2


@pytest.mark.parametrize("second", [-1, 53, 10**6, "S4", "H2"])
def test_a_wrong_card_or_one_chosen_twice_is_punished(second: int | str) -> None:
    game = exchange(*RICH_AND_POOR)
    assert give_card(game, cards.CARD_NUMBERS["S4"])
    card = second if isinstance(second, int) else cards.CARD_NUMBERS[second]
    assert not give_card(game, card)
    assert cards.text(game["given"][0]) == "JO S2"
    assert (game["turn"], game["gift"]) == (1, 0)


def test_heimin_and_players_without_classes_exchange_no_cards() -> None:
    game = exchange(*RICH_AND_POOR, classes="31240")
    assert [partner(game, player) for player in range(5)] == [1, 0, -1, 4, 3]
    assert [of_class(game, rank) for rank in range(5)] == [4, 1, 2, 0, 3]
    game = table(*RICH_AND_POOR)
    start(game)
    assert [partner(game, player) for player in range(5)] == [-1] * 5
    assert (game["turn"], game["to_give"], game["starter"]) == (2, 0, 2)
    game = exchange(*RICH_AND_POOR, rules=Rules(exchanges=False))
    assert [partner(game, player) for player in range(5)] == [-1] * 5
    assert (game["turn"], game["to_give"], game["starter"]) == (2, 0, 2)
    assert game["given"].tolist() == [0] * 5


def test_draws_are_uniform() -> None:
    """Each of 7 numbers in 70,000 draws is within 5 standard deviations of 10,000."""
    game = new_match(5)
    counts = Counter(draw(game, 7) for _ in range(70_000))
    assert sorted(counts) == list(range(7))
    assert max(abs(n - 10_000) for n in counts.values()) < 5 * (70_000 / 7 * 6 / 7) ** 0.5
    assert holder(game, cards.D3) == -1


def test_random_plays_are_legal_and_uniform_and_leaders_never_pass() -> None:
    """Each of 5 choices in 20,000 draws is within 5 standard deviations of 4,000."""
    out = np.empty(plays.N_PLAYS, np.int64)
    leading = table("S4 S5 S6 C9")
    following = table("S4 S5 S6 C9")
    following["field"] = plays.parse("H3")
    for game, choices in ((leading, {"S4 S5 S6"}), (following, {"pass"})):
        choices = choices | {"S4", "S5", "S6", "C9"}
        counts = Counter(plays.text(draw_play(game, out)) for _ in range(20_000))
        assert set(counts) == choices
        assert max(abs(n - 4_000) for n in counts.values()) < 5 * (20_000 / 5 * 4 / 5) ** 0.5


def test_random_games_end() -> None:
    out = np.empty(plays.N_PLAYS, np.int64)
    for seed in range(100):
        game = new_match(seed)
        game["places"], game["rng"] = -1, seed
        deal(game, 0)
        start(game)
        n = play_out(game, out)
        assert n == game["n_actions"] <= MAX_ACTIONS
        assert game["turn"] == -1
        assert sorted(game["places"].tolist()) == [0, 1, 2, 3, 4]
        for player in range(5):
            assert game["hands"][player] & game["played"][player] == 0
            assert cards.count(game["hands"][player]) == game["left"][player]


def test_lay_does_not_check_legality() -> None:
    game = table("S4 C9")
    game["field"] = plays.parse("S9")
    lay(game, plays.parse("S4"))
    assert (on_field(game), hands(game)[0]) == ("S4", "C9")
