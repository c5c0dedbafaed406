"""Positions of Daihinmin built from hands, for tests of players."""

from __future__ import annotations

from afterstate.envs.daihinmin import cards, plays, rules
from afterstate.envs.daihinmin.match import new_match
from afterstate.envs.daihinmin.rules import Game

TEXTS = [plays.text(play) for play in range(plays.N_PLAYS)]
"""All plays in notation, by number."""
NAMES = [cards.card_text(card) for card in range(cards.N_CARDS)]
"""All cards in notation, by number."""


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
