"""A visitor's match of Daihinmin, as a record that is kept in a file.

The visitor is player 0, or watches five players. Deals, seats and drawn places are those of
`new_match(seed)`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field, field_validator

from afterstate.envs.daihinmin import cards, plays
from afterstate.envs.daihinmin.match import new_match, next_game, set_up
from afterstate.envs.daihinmin.records import replay
from afterstate.envs.daihinmin.records.validity import check_record
from afterstate.envs.daihinmin.render import CLASSES, PLACES
from afterstate.envs.daihinmin.rules import GAME, N_PLAYERS, Game, give, partner, play, rewind
from afterstate.envs.daihinmin.views import legal_plays, view
from afterstate.envs.messages import counted, shown
from afterstate.web.answers import Json
from afterstate.web.choices import find, player_spec
from afterstate.web.game_2048 import Seed

MAX_GAMES = 100
"""Games of a match at most."""
MAX_EVENTS = 2000
"""Events of a match that are kept, the last ones."""

Places = Annotated[list[int], Field(min_length=N_PLAYERS, max_length=N_PLAYERS)]
"""Finishing places of a game by player."""
Event = Annotated[str, Field(max_length=200)]
"""An event of a game in words, with players as `{number}`."""


class Match(BaseModel):
    """A match of Daihinmin."""

    players: Annotated[list[Json | None], Field(min_length=N_PLAYERS, max_length=N_PLAYERS)]
    """The players; None is the visitor."""
    seed: Seed
    n_games: Annotated[int, Field(ge=1, le=MAX_GAMES)]
    record: Annotated[str, Field(max_length=8000)]
    """The record of the game, in base64."""
    turn: Annotated[int, Field(ge=0)] = 0
    """Number of changes to the match, by which a request names the position it means."""
    places: list[list[int]] = Field(default_factory=list)
    """Finishing places by player of the games that are over."""
    events: Annotated[list[Event], Field(max_length=MAX_EVENTS)] = Field(default_factory=list)
    """The latest events of all games so far."""

    @property
    def is_running(self) -> bool:
        """True if it has begun and is not over."""
        now = state(self, False)
        return bool(now["begun"] and not now["match_over"])

    @field_validator("players")
    @classmethod
    def _check_players(cls, players: list[Json | None]) -> list[Json | None]:
        """Return the players if visitors may choose them."""
        for each in players:
            if each is not None and each.keys() != {"name", "settings"}:
                raise ValueError(f"a player must have a name and settings, got {shown(each)}")
        return [None if each is None else player_spec("daihinmin", **each) for each in players]

    @field_validator("record")
    @classmethod
    def _check(cls, text: str) -> str:
        """Return the record if the rules can reach it."""
        check_record(decode(text))
        return text


def encode(game: Game) -> str:
    """Return a record or a view as text."""
    return base64.b64encode(game.tobytes()).decode()


def decode(text: str) -> Game:
    """Return the record of a text.

    Raises:
        ValueError: it has another length.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"record must be base64: {error}") from None
    if len(data) != GAME.itemsize:
        raise ValueError(f"record must have {GAME.itemsize} bytes, got {len(data)}")
    games = np.zeros(1, GAME)  # aligned, as kernels take it
    games.view(np.uint8)[:] = np.frombuffer(data, np.uint8)
    game: Game = games[0]
    return game


def new(
    players: list[Json | None], seed: int, n_games: int, places: Sequence[Places] = ()
) -> Match:
    """Return a new match whose next game is dealt.

    Args:
        players: the players; None is the visitor.
        seed: seed of the deals, seats and drawn places.
        n_games: its length in games.
        places: finishing places of the games before, whose plays are not known.
    """
    game = new_match(seed)
    for each in places:
        set_up(game)
        game["places"] = each
        game["points"] += N_PLAYERS - game["places"]
    next_game(game)
    match = Match(players=players, seed=seed, n_games=n_games, record=encode(game))
    match.places = [list(each) for each in places]
    _add_events(match, _dealt(game, players))
    return match


def _dealt(game: Game, players: Sequence[Json | None]) -> list[str]:
    """Return the events at the beginning of a game: the deal, and the gifts of the poor."""
    return [f"Game {int(game['number'])} is dealt.", *_gifts(game, players)]


def _gifts(game: Game, players: Sequence[Json | None] = ()) -> list[str]:
    """Return the events of the gifts so far."""
    givers = [giver for giver in range(N_PLAYERS) if game["given"][giver]]
    return [_gift(game, giver, int(game["given"][giver]), players) for giver in givers]


def _gift(game: Game, giver: int, gift: int, players: Sequence[Json | None]) -> str:
    """Return the event of a gift; its cards are named if the visitor has a part in it, or none."""
    receiver, n = int(partner(game, giver)), gift.bit_count()
    visitors = [player for player, each in enumerate(players) if each is None]
    is_seen = not visitors or bool({giver, receiver} & {*visitors})
    what = cards.text(gift) if is_seen else counted(n, "card")
    return f"Exchange, {{{giver}}} to {{{receiver}}}: {what}."


def _add_events(match: Match, events: list[str]) -> list[str]:
    """Add events to those of a match, and return them."""
    match.events = [*match.events, *events][-MAX_EVENTS:]
    return events


def begin_next(match: Match) -> list[str]:
    """Deal the next game; return what happens.

    Raises:
        ValueError: the game is not over, or it was the last.
    """
    game = decode(match.record)
    if game["turn"] >= 0:
        raise ValueError("the game is not over")
    if len(match.places) >= match.n_games:
        raise ValueError("the match is over")
    next_game(game)
    match.record, match.turn = encode(game), match.turn + 1
    return _add_events(match, _dealt(game, match.players))


def in_turn(match: Match) -> tuple[int, bool]:
    """Return the player in turn, -1 if the game is over, and if it is the visitor."""
    player = int(decode(match.record)["turn"])
    return player, player >= 0 and match.players[player] is None


def view_in_turn(match: Match) -> Game:
    """Return what the player in turn sees."""
    game = decode(match.record)
    return view(game, int(game["turn"]))


def apply(match: Match, move: Json) -> list[str]:
    """Make a play (`play`) or a gift (`gift`) of the player in turn; return what happens.

    Raises:
        ValueError: it is illegal; the match is unchanged.
    """
    game = decode(match.record)
    is_gift = "gift" in move
    events = _give(game, move, match.players) if is_gift else _play(game, int(move["play"]))
    match.record, match.turn = encode(game), match.turn + 1
    if game["turn"] < 0:
        match.places.append(game["places"].tolist())
    return _add_events(match, events)


def _give(game: Game, move: Json, players: Sequence[Json | None]) -> list[str]:
    """Give cards away."""
    giver, gift, n = int(game["turn"]), int(move["gift"]), int(game["to_give"])
    if n == 0:
        raise ValueError("no cards are to be given now")
    if gift & ~int(game["hands"][giver]) or gift.bit_count() != n:
        raise ValueError(f"a gift must be {n} of the player's cards, got {cards.text(gift)}")
    give(game, np.uint64(gift))
    return [_gift(game, giver, gift, players)]


def _play(game: Game, action: int) -> list[str]:
    """Make a play."""
    if game["to_give"]:
        raise ValueError("cards must be given first")
    if action != plays.PASS and action not in legal_plays(game):
        raise ValueError(f"{plays.text(action)} is not legal here")
    before, player = game.copy(), int(game["turn"])
    play(game, action)
    return list(events_of(before, game, player, action))


def events_of(before: Game, after: Game, player: int, action: int) -> Iterator[str]:
    """Yield what a play does, with players as `{number}`."""
    yield f"{{{player}}}: {plays.text(action)}."
    if action != plays.PASS:
        if after["revolution"] != before["revolution"]:
            yield "Revolution: the order of the ranks is " + (
                "reversed." if after["revolution"] else "normal again."
            )
        if before["eight_cuts"] and plays.CUTS_AS_8[action]:
            yield "An 8 ends the trick."
        if before["field"] == plays.LONE_JOKER:
            yield "The spade 3 beats the joker and ends the trick."
        if after["lock"] and not before["lock"] and after["field"]:
            yield "Lock: the same suits must follow."
    for other in np.argsort(after["places"]).tolist():
        if after["places"][other] >= 0 > before["places"][other]:
            yield f"{{{other}}}: {PLACES[after['places'][other]]} place."
    if after["turn"] < 0:
        yield "The game is over."
    elif not after["field"] and before["field"] | action:
        yield f"The next trick begins with {{{int(after['turn'])}}}."


def state(match: Match, reveal: bool) -> Json:
    """Return the match as JSON, as the visitor sees it.

    Args:
        match: the match.
        reveal: True to see all hands.
    """
    game = decode(match.record)
    player, is_visitor = in_turn(match)
    seats_visitor = None in match.players
    shown = range(N_PLAYERS) if reveal or not seats_visitor else [0]
    legal = _legal(game) if is_visitor and not game["to_give"] else []
    return {
        **position(game, shown),
        "turn": match.turn,
        "names": names(match.players),
        "visitor": 0 if seats_visitor else None,
        "is_mine": is_visitor,
        "to_give": int(game["to_give"]),
        "legal": legal,
        "can_pass": is_visitor and not game["to_give"],
        "number": int(game["number"]),
        "begun": bool(match.places or game["n_actions"]),
        "n_games": match.n_games,
        "seed": match.seed,
        "over": player < 0,
        "match_over": player < 0 and len(match.places) >= match.n_games,
        "results": match.places,
    }


def names(players: Sequence[Json | None]) -> list[str]:
    """Return the names of players: the labels by which they are chosen, with numbers."""
    return [
        "you" if each is None else f"{find('daihinmin', each['name']).label} {i}"
        for i, each in enumerate(players)
    ]


def position(game: Game, shown: Sequence[int]) -> Json:
    """Return a position as JSON, with the hands of some players."""
    number = int(game["field"])
    classes = [CLASSES[each] if each >= 0 else "" for each in game["classes"].tolist()]
    places = [PLACES[each] if each >= 0 else "" for each in game["places"].tolist()]
    return {
        "seats": game["seats"].tolist(),
        "in_turn": int(game["turn"]),
        "field": _play_json(number) if number else None,
        "last": int(game["last"]),
        "revolution": bool(game["revolution"]),
        "lock": bool(game["lock"]),
        "passed": [bool(int(game["passed"]) >> i & 1) for i in range(N_PLAYERS)],
        "left": game["left"].tolist(),
        "classes": classes,
        "places": places,
        "points": game["points"].tolist(),
        "hands": [
            cards.numbers(game["hands"][i]) if i in shown else None for i in range(N_PLAYERS)
        ],
    }


def _play_json(number: int) -> Json:
    """Return a play as JSON."""
    return {"play": number, "text": plays.text(number), "cards": cards.numbers(plays.CARDS[number])}


def _legal(game: Game) -> list[Json]:
    """Return the legal plays of the player in turn, without the pass."""
    return [_play_json(number) for number in legal_plays(game)]


def _actions(game: Game) -> list[tuple[int, int]]:
    """Return the actions of a game so far, as player and play."""
    coded = game["actions"][: game["n_actions"]].tolist()
    return [divmod(each, plays.N_PLAYS) for each in coded]


# Games step by step

_RECORDED = ("names", "seats", "class_reset", "classes", "deal", "exchange", "actions")


def steps(match: Match) -> Json:
    """Return the current game of a match, step by step."""
    game = decode(match.record)
    start, actions = game.copy(), [number for _, number in _actions(game)]
    if game["to_give"]:
        raise ValueError("the game has not begun: cards are to be given first")
    rewind(start)
    return {"names": names(match.players), "steps": _steps(start, actions), "mismatches": []}


def recorded_steps(entry: Json) -> Json:
    """Return a recorded game step by step, with what differs from the rules.

    Raises:
        ValueError: it is not in the format of recorded games.
    """
    missing = [key for key in _RECORDED if key not in entry]
    if missing:
        raise ValueError(
            f"a recorded game must have {', '.join(_RECORDED)}, as `afterstate serve` writes them; "
            f"missing: {', '.join(missing)}"
        )
    try:
        mismatches = [str(each) for each in replay.replay_game(entry)]
        game = replay.exchanged(entry)
        actions = [max(plays.PASS, replay.parse_submission(each["m"])) for each in entry["actions"]]
        texts = [str(each)[:40] for each in entry["names"]][:N_PLAYERS]
    except replay.FORMAT_ERRORS as error:
        raise ValueError(f"not a recorded game: {replay.fault(error)}") from None
    if game["to_give"] or len(texts) != N_PLAYERS:
        raise ValueError("not a recorded game: its exchange or its names are not complete")
    names_ = [f"{text} {i}" if texts.count(text) > 1 else text for i, text in enumerate(texts)]
    return {"names": names_, "steps": _steps(game, actions), "mismatches": mismatches[:5]}


def _steps(game: Game, actions: Sequence[int]) -> list[Json]:
    """Return the positions of a game, each with what led to it; plays it on."""
    everyone = range(N_PLAYERS)
    dealt = {"events": ["The cards are dealt.", *_gifts(game)]}
    result = [{**position(game, everyone), **dealt}]
    for number in actions:
        if game["turn"] < 0:
            break
        before, player = game.copy(), int(game["turn"])
        play(game, number)
        events = list(events_of(before, game, player, number))
        result.append({**position(game, everyone), "events": events})
    return result
