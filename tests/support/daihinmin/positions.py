"""Positions of Daihinmin written as hands in notation, and their actions and legal plays."""

from __future__ import annotations

import numpy as np

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match
from afterstate.envs.daihinmin.rules import (
    N_PLAYERS,
    Game,
    Rules,
    play,
    write_legal,
)

FULL = "C4 C5 C6 C7"
"""The hand of players who only pass."""


def table(*hands: str, seats: str = "01234", rules: Rules | None = None) -> Game:
    """Return a game with these hands by player; player 0 leads, and the others hold `FULL`."""
    game = new_match(1, rules)
    game["number"] = 1
    game["places"] = -1
    game["seats"] = [int(player) for player in seats]
    given = [*hands, *[FULL] * (N_PLAYERS - len(hands))]
    game["hands"] = [cards.parse(hand) for hand in given]
    game["left"] = [len(hand.split()) for hand in given]
    game["turn"] = game["starter"] = game["last"] = 0
    return game


def run(game: Game, *actions: str) -> list[int]:
    """Play actions and return the answers.

    Args:
        game: the game.
        actions: such as `0 S5`, or `12 pass` for passes of player 1 and then player 2; each player
            must be in turn.
    """
    answers = []
    for action in actions:
        players, _, text = action.partition(" ")
        for player in players:
            assert game["turn"] == int(player), f"{action} in the turn of {game['turn']}"
            answers.append(int(play(game, plays.parse(text) if text != "illegal" else -1)))
    return answers


def on_field(game: Game) -> str:
    """Return the play on the field."""
    return plays.text(int(game["field"]))


def legal(game: Game) -> set[str]:
    """Return the legal plays of the player in turn, without the pass."""
    out = np.empty(plays.N_PLAYS, np.int64)
    return {plays.text(int(p)) for p in out[: write_legal(game, out)]}


def hands(game: Game) -> list[str]:
    """Return the hands in notation."""
    return [cards.text(hand) for hand in game["hands"]]
