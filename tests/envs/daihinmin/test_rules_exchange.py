"""The exchange of cards before a game."""

from __future__ import annotations

import pytest

from afterstate.envs.daihinmin import cards
from afterstate.envs.daihinmin.rules import (
    Game,
    Options,
    give,
    give_card,
    of_class,
    partner,
    start,
)
from tests.support.daihinmin.positions import hands, table


def exchange(*hands_: str, classes: str = "01234", options: Options | None = None) -> Game:
    """Return a game with these hands, after the gifts of the poor."""
    game = table(*hands_, options=options)
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
    game = exchange(*RICH_AND_POOR, options=Options(exchanges=False))
    assert [partner(game, player) for player in range(5)] == [-1] * 5
    assert (game["turn"], game["to_give"], game["starter"]) == (2, 0, 2)
    assert game["given"].tolist() == [0] * 5
