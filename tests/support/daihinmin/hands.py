"""Card sets by name, and positions of Daihinmin built from hands."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from afterstate.envs.daihinmin import cards, plays, rules
from afterstate.envs.daihinmin.match import new_match
from afterstate.envs.daihinmin.rules import Game

TEXTS = [plays.text(play) for play in range(plays.N_PLAYS)]
"""All plays in notation, by number."""
NUMBERS = {text: number for number, text in enumerate(TEXTS)}
"""The numbers of all plays, by notation."""
NAMES = [cards.card_text(card) for card in range(cards.N_CARDS)]
"""All cards in notation, by number."""


def word(names: Collection[str]) -> int:
    """Return a hand of card names as a card set."""
    return sum(1 << cards.CARD_NUMBERS[name] for name in names)


def names(word: Any) -> set[str]:
    """Return the names of the cards in a set."""
    return {name for card, name in enumerate(NAMES) if int(word) >> card & 1}


def dealt_to(*hands: str, revolution: bool = False) -> Game:
    """Return a game in which player 0 leads and all hold only these cards; the rest is played."""
    game = new_match()
    held = [cards.parse(hand) for hand in hands] + [0] * (5 - len(hands))
    game["hands"] = held
    game["left"] = [cards.count(hand) for hand in held]
    game["played"][4] = cards.DECK & ~sum(held)
    game["places"] = -1
    game["turn"] = game["last"] = 0
    game["revolution"] = revolution
    return game


def on_field(game: Game, text: str) -> Game:
    """Return the game after player 4 has laid an additional play; player 0 is to move."""
    play = plays.parse(text)
    game["turn"] = 4
    game["hands"][4] |= plays.CARDS[play]
    game["left"][4] += plays.SIZE[play]
    game["played"][4] &= ~plays.CARDS[play]
    rules.lay(game, play)
    game["turn"] = 0
    return game
