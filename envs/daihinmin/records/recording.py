"""Games as they are recorded: one JSON object a game, as the competition's server played it.

The functions here make a step of a game and return what is written of it, so that a recorder and a
replay have one source. The keys:

    match, game          name of the match, number of the game in it from 1
    names, seats         by player; the player at each seat
    class_reset, classes whether there are no classes; by player, 0 daifugo to 4 daihinmin
    deal, hands          hands by player before and after the exchange, in notation
    exchange             entries {from, to, cards, how}: auto, chosen or penalty
    start                who led first
    actions              p player, m submission, nl legal plays but the pass, nc their card sets,
                         ack answer, rev and lock after it, flow whether the trick flowed then,
                         left cards by player, next player; random_finish if places were drawn
    finish               players by finishing place
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.rules import (
    N_PLAYERS,
    Game,
    advance,
    give,
    list_legal,
    partner,
    submit,
)

ILLEGAL = -1
"""Stands for a submission that is no play at all."""

Entry = dict[str, Any]


def legal_list(game: Game) -> list[int]:
    """The legal plays of the player in turn but the pass."""
    out = np.empty(plays.N_PLAYS, np.int64)
    return [int(play) for play in out[: list_legal(game, out)]]


def counts(legal: list[int]) -> tuple[int, int]:
    """How many legal plays there are, and how many card sets they take."""
    return len(legal), len({int(plays.CARDS[play]) for play in legal})


def _hands(game: Game) -> list[str]:
    """The hands, in notation."""
    return [cards.text(hand) for hand in game["hands"]]


def _gift(game: Game, giver: int, how: str) -> Entry:
    """An entry of the exchange."""
    return {
        "from": giver,
        "to": int(partner(game, giver)),
        "cards": cards.text(game["given"][giver]),
        "how": how,
    }


def opening(game: Game, names: Sequence[str], match: str) -> Entry:
    """What is written of a game that has been dealt, and in which the poor have given."""
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
        "exchange": [_gift(game, giver, "auto") for giver in givers],
    }


def gift(game: Game, chosen: int) -> Entry:
    """The rich player in turn gives cards: makes the step and returns its entry."""
    giver = int(game["turn"])
    return _gift(game, giver, "chosen" if give(game, chosen) else "penalty")


def lead(game: Game) -> Entry:
    """What is written after the exchange."""
    return {"hands": _hands(game), "start": int(game["starter"])}


def action(game: Game, play: int, text: str | None = None, legal: bool = False) -> Entry:
    """The player in turn submits something: makes the step and returns its entry.

    Args:
        game: the game.
        play: the submission, `ILLEGAL` if it is no play.
        text: how it is written, for what is no play.
        legal: whether the legal plays are listed.
    """
    listed = legal_list(game)
    n_legal, n_card_sets = counts(listed)
    entry: Entry = {
        "p": int(game["turn"]),
        "m": plays.text(play) if text is None else text,
        "nl": n_legal,
        "nc": n_card_sets,
    }
    if legal:
        entry["legal"] = [plays.text(play) for play in listed]
    entry["ack"] = int(submit(game, play))
    entry |= {"rev": int(game["revolution"]), "lock": int(game["lock"])}
    drawn = bool(game["idle"] >= game["idle_limit"])
    entry["flow"] = int(advance(game))
    entry["left"] = game["left"].tolist()
    entry["next"] = int(game["turn"]) if game["turn"] >= 0 else None
    if drawn:
        entry["random_finish"] = 1
    return entry


def finish(game: Game) -> list[int]:
    """The players of a finished game in the order of their places."""
    return [int(player) for player in np.argsort(game["places"])]
