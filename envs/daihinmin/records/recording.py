"""The format of recorded games: one JSON object per game, as played by the competition's server.

The recorder and the replay both call the functions here: `give_and_record` and `play_and_record`
make a step of a game and return its entry, the others read the game only. The keys:

    match, game          name of the match, number of the game in it from 1
    names, seats         by player; the player at each seat
    class_reset, classes true if there are no classes; by player, 0 daifugo to 4 daihinmin
    deal, hands          hands by player before and after the exchange, in notation
    exchange             entries {from, to, cards, how}: auto, chosen or penalty
    start                the first leader
    actions              p player, m submission, nl number of legal plays without the pass, nc of
                         their card sets, ack answer, rev and lock after it, flow 1 if the trick
                         ended, left cards by player, next player; random_finish if places were
                         drawn
    finish               players by finishing place
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.arguments import check_names
from afterstate.envs.daihinmin.records.validity import check_fields
from afterstate.envs.daihinmin.rules import (
    N_PLAYERS,
    Game,
    advance,
    give,
    partner,
    submit,
)
from afterstate.envs.daihinmin.views import legal_plays

ILLEGAL = -1
"""The number of a submission that is not a play."""

Entry = dict[str, Any]


def counts(legal: list[int]) -> tuple[int, int]:
    """Return the number of legal plays and of their card sets."""
    return len(legal), len({int(plays.CARDS[play]) for play in legal})


def _hands(game: Game) -> list[str]:
    """Return the hands in notation."""
    return [cards.text(hand) for hand in game["hands"]]


def _gift_entry(game: Game, giver: int, kind: str) -> Entry:
    """Return an entry of the exchange."""
    return {
        "from": giver,
        "to": int(partner(game, giver)),
        "cards": cards.text(game["given"][giver]),
        "how": kind,
    }


def deal_entry(game: Game, names: Sequence[str], match: str) -> Entry:
    """Return the entry of a game that has been dealt, after the gifts of the poor.

    Raises:
        ValueError: a field out of its range, or not five names.
    """
    game = check_fields(game)
    check_names(names)
    deal = game["hands"].copy()
    givers = sorted(np.flatnonzero(game["given"]).tolist(), key=lambda p: -game["classes"][p])
    for giver in givers:
        deal[giver] |= game["given"][giver]
        deal[partner(game, giver)] &= ~game["given"][giver]
    reset = bool(game["classes"][0] < 0)
    return {
        "match": match,
        "game": int(game["number"]),
        "names": list(names),
        "seats": game["seats"].tolist(),
        "class_reset": reset,
        "classes": [0] * N_PLAYERS if reset else game["classes"].tolist(),
        "deal": [cards.text(hand) for hand in deal],
        "exchange": [_gift_entry(game, giver, "auto") for giver in givers],
    }


def give_and_record(game: Game, chosen: int) -> Entry:
    """Give cards of the rich player in turn and return the entry of the gift.

    Raises:
        ValueError: a field out of its range, or no set of cards.
    """
    cards.check_set(chosen)
    giver = int(check_fields(game)["turn"])
    return _gift_entry(game, giver, "chosen" if give(game, chosen) else "penalty")


def lead_entry(game: Game) -> Entry:
    """Return the entry after the exchange.

    Raises:
        ValueError: a field out of its range.
    """
    game = check_fields(game)
    return {"hands": _hands(game), "start": int(game["starter"])}


def play_and_record(game: Game, play: int, text: str | None = None, legal: bool = False) -> Entry:
    """Submit a play of the player in turn, pass the turn on and return the entry of the action.

    Args:
        game: the game.
        play: the submission, `ILLEGAL` if it is not a play.
        text: its notation, needed if it is not a play.
        legal: True to list the legal plays.

    Raises:
        ValueError: a field out of its range.
    """
    choices = legal_plays(game)
    n_legal, n_card_sets = counts(choices)
    entry: Entry = {
        "p": int(game["turn"]),
        "m": plays.text(play) if text is None else text,
        "nl": n_legal,
        "nc": n_card_sets,
    }
    if legal:
        entry["legal"] = [plays.text(play) for play in choices]
    entry["ack"] = int(submit(game, play))
    entry |= {"rev": int(game["revolution"]), "lock": int(game["lock"])}
    places_drawn = bool(game["idle"] >= game["idle_limit"])
    entry["flow"] = int(advance(game))
    entry["left"] = game["left"].tolist()
    entry["next"] = int(game["turn"]) if game["turn"] >= 0 else None
    if places_drawn:
        entry["random_finish"] = 1
    return entry


def finishing_order(game: Game) -> list[int]:
    """Return the players of a finished game in the order of their places.

    Raises:
        ValueError: a field out of its range.
    """
    return [int(player) for player in np.argsort(check_fields(game)["places"])]
