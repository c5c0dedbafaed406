"""What one player sees of a game, and the deals that agree with it.

A *view* is a game record with holes: the other hands are empty (but `left` says how many cards they
hold), what others gave away in the exchange is 0, and so are seed and random state. `viewer` is the
player. It holds what the competition's messages tell and no more: a rich player gives from a hand
that the received cards are already in, and is not told which they are. (A poor player could tell
which he received. They are in his hand, and that they were given says nothing of other hands.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, float64, int64, njit, uint64, void

from afterstate.envs.daihinmin.cards import D3, DECK, N_CARDS, count, strongest
from afterstate.envs.daihinmin.rules import (
    GAME,
    HEIMIN,
    N_PLAYERS,
    Game,
    GameType,
    draw,
    n_exchanged,
    partner,
)
from afterstate.envs.words import Word, draw_word


@njit(void(GameType, int64, GameType[::1]), cache=True)
def look(game: Game, player: int, views: Any) -> None:
    """Writes what a player sees of a game into `views[0]`."""
    views[0] = game
    view = views[0]
    for other in range(N_PLAYERS):
        if other != player:
            view.hands[other] = view.given[other] = np.uint64(0)
    if game.turn != player:
        view.gift = np.uint64(0)
    view.seed = view.rng = np.uint64(0)
    view.viewer = player


def view(game: Game, player: int) -> Game:
    """What a player sees of a game: a new record, without what he cannot know.

    Raises:
        ValueError: there is no such player.
    """
    if not 0 <= player < N_PLAYERS:
        raise ValueError(f"players are 0 to {N_PLAYERS - 1}, got {player!r}")
    seen = np.empty(1, GAME)
    look(game, player, seen)
    return seen[0]


@njit(uint64(GameType), cache=True)
def all_played(game: Game) -> Word:
    """The cards that have been played in this game."""
    played = np.uint64(0)
    for player in range(N_PLAYERS):
        played |= game.played[player]
    return played


@njit(uint64(GameType, int64), cache=True)
def unseen_cards(game: Game, player: int) -> Word:
    """The cards that a player has not seen, so that others hold them."""
    return np.uint64(DECK) & ~(game.hands[player] | all_played(game))


@njit(uint64(GameType, int64), cache=True)
def known_cards(view: Game, player: int) -> Word:
    """The cards that the viewer knows a player to hold now.

    Those that he gave him in the exchange and that have not been seen since, and the diamond 3 of
    the player who led first.
    """
    own = view.hands[view.viewer]
    if player == view.viewer:
        return own
    unseen = unseen_cards(view, view.viewer)
    known = np.uint64(0)
    if player == partner(view, view.viewer):
        known |= view.given[view.viewer] & unseen
    if player == view.starter:
        known |= np.uint64(D3) & unseen
    return known


@njit(uint64(uint64), cache=True)
def _stronger(card: Word) -> Word:
    """The cards stronger than a card, in the order in which the poor give them away."""
    rest = np.uint64(DECK)
    for n in range(1, N_CARDS + 1):
        if strongest(rest, n) & np.uint64(card):
            return strongest(rest, n - 1)
    return np.uint64(0)


@njit(uint64(GameType, int64), cache=True)
def excluded_cards(view: Game, player: int) -> Word:
    """The cards that the viewer knows a player not to hold, unless he gave them to him.

    A rich player's partner gave him the strongest cards that he had. Whichever these were, all the
    partner kept is weaker than the second strongest (the fugo's: the strongest) card of the hand
    that the rich player then chose from.
    """
    viewer = view.viewer
    rank = view.classes[viewer]
    if player != partner(view, viewer) or rank >= HEIMIN:
        return np.uint64(0)
    chosen_from = view.hands[viewer] | view.played[viewer] | view.given[viewer]
    n = n_exchanged(rank)
    weakest_received = strongest(chosen_from, n) & ~strongest(chosen_from, n - 1)
    return _stronger(weakest_received)


@njit(uint64(GameType, uint64, int64), cache=True)
def _draw_cards(game: Game, pool: Word, n: int) -> Word:
    """`n` random cards of a pool."""
    drawn = np.uint64(0)
    for _ in range(n):
        rest = np.uint64(pool) & ~drawn
        for _ in range(draw(game, count(rest))):
            rest &= rest - np.uint64(1)
        drawn |= rest & (~rest + np.uint64(1))
    return drawn


@njit(float64(int64, int64), cache=True)
def _ways(n: int, k: int) -> float:
    """How many ways there are to choose `k` of `n`; 0 if there are too few."""
    ways = 1.0
    for i in range(k):
        ways *= max(n - i, 0) / (i + 1)
    return ways


@njit(uint64(GameType, uint64, int64, uint64), cache=True)
def _draw_not_kept(game: Game, hidden: Word, need: int, kept: Word) -> Word:
    """The cards that a rich viewer's partner cannot have kept, after drawing which he gave.

    Of the hand that the viewer chose from, the partner gave the strongest of all that were his. The
    weakest card of that gift is drawn by the number of gifts and deals that it allows.

    Args:
        game: the view.
        hidden: the cards to be dealt.
        need: how many of them the partner gets.
        kept: cards that the partner kept, as far as they are known.
    """
    viewer = game.viewer
    had = game.hands[viewer] | game.played[viewer] | game.given[viewer]
    n = n_exchanged(game.classes[viewer])
    ways = np.zeros(N_CARDS)
    barred = np.zeros(N_CARDS, np.uint64)
    for i in range(n - 1, count(had)):
        weakest_given = strongest(had, i + 1) & ~strongest(had, i)
        barred[i] = _stronger(weakest_given)
        if barred[i] & kept == 0:
            ways[i] = _ways(i, n - 1) * _ways(count(hidden & ~barred[i]), need)
    chosen = draw(game, 1 << 32) / (1 << 32) * ways.sum()
    for i in range(N_CARDS):
        chosen -= ways[i]
        if chosen < 0:
            return barred[i]
    return np.uint64(DECK)


@njit(boolean(GameType), cache=True)
def fill_hidden(game: Game) -> bool:
    """Fills the holes of a view with random cards.

    What is drawn agrees with the numbers of cards, with everything played, with `known_cards`, and
    with what the viewer's partner gave him: as if every deal of the pack were as likely, so that a
    hand that can have been kept after several gifts comes the more often. Nothing is made of what
    players chose to give or to play, and of what others exchanged.

    Args:
        game: a copy of a view, with `rng` set; becomes a whole game.

    Returns:
        Whether there is such a deal. If not, the record is of no use any more.
    """
    viewer = game.viewer
    hidden = unseen_cards(game, viewer)
    for player in range(N_PLAYERS):
        if player != viewer:
            game.hands[player] = known_cards(game, player)
            hidden &= ~game.hands[player]
    # The partner's cards first: whichever they are, the rest can be dealt in as many ways.
    bound = partner(game, viewer)
    for turn in range(-1, N_PLAYERS):
        player = bound if turn < 0 else turn
        if player < 0 or player == viewer or (turn >= 0 and player == bound):
            continue
        need, pool = game.left[player] - count(game.hands[player]), hidden
        if turn < 0 and game.classes[viewer] < HEIMIN:
            kept = (game.hands[player] | game.played[player]) & ~game.given[viewer]
            pool &= ~_draw_not_kept(game, hidden, need, kept)
        if need < 0 or need > count(pool):
            return False
        cards = _draw_cards(game, pool, need)
        game.hands[player] |= cards
        hidden &= ~cards
    game.viewer = -1
    return bool(hidden == 0)


def determinise(view: Game, rng: np.random.Generator) -> Game:
    """A whole game that agrees with a view, its hidden cards dealt at random: see `fill_hidden`.

    Args:
        view: what a player sees; it is left as it is.
        rng: draws the cards, and the seeds of what will be drawn in this game and those after it.

    Raises:
        ValueError: no deal agrees with the view, or it is none.
    """
    if view["viewer"] < 0:
        raise ValueError("this is a whole game, not what a player sees of one")
    game = np.empty(1, GAME)
    game[0] = view
    game[0]["rng"], game[0]["seed"] = draw_word(rng), draw_word(rng)
    if not fill_hidden(game[0]):
        raise ValueError("no deal agrees with this view")
    return game[0]
