"""Views, which hold what one player sees of a game, and random deals that agree with them.

A *view* is a game record with hidden fields: the other hands are empty (`left` still has their
sizes), the cards that others gave in the exchange are 0, and so are seed and random state. `viewer`
is the player. A view holds what the competition's messages contain and no more: a rich player gives
from a hand that already includes the received cards, and no message names these. (A poor player
could infer which cards it got back, but they tell nothing about other hands.)
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int64, njit, uint64, void

from afterstate.envs.checks import as_int
from afterstate.envs.daihinmin.cards import D3, DECK, N_CARDS, count, strongest
from afterstate.envs.daihinmin.plays import N_PLAYS
from afterstate.envs.daihinmin.records.validity import check_fields, check_view
from afterstate.envs.daihinmin.rules import (
    GAME,
    HEIMIN,
    N_PLAYERS,
    Game,
    Games,
    GameType,
    check_type,
    draw,
    n_exchanged,
    partner,
    write_legal,
)
from afterstate.envs.messages import shown
from afterstate.envs.words import Word, draw_word


@njit(void(GameType, int64, GameType[::1]), cache=True)
def write_view(game: Game, player: int, views: Games) -> None:
    """Write the view of a player into `views[0]`."""
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
    """Return what a player sees of a game, as a new record.

    Raises:
        ValueError: no record of a game, or `player` is not in 0..4.
    """
    game = check_type(game)
    if as_int(player) not in range(N_PLAYERS):
        raise ValueError(f"player must be an integer in 0..{N_PLAYERS - 1}, got {shown(player)}")
    views = np.empty(1, GAME)
    write_view(game, player, views)
    seen: Game = views[0]
    return seen


def legal_plays(game: Game) -> list[int]:
    """Return the legal plays of the player in turn, without the pass.

    Args:
        game: a game, or the view of this player.

    Raises:
        ValueError: no record of a game, a field out of its range, or nobody is in turn.
    """
    record, legal = check_fields(game), np.empty(N_PLAYS, np.int64)
    if record["turn"] < 0:
        raise ValueError("game must have a player in turn, got one that is over or has not begun")
    n_legal = write_legal(record, legal)
    return [int(play) for play in legal[:n_legal]]


@njit(uint64(GameType), cache=True)
def all_played(game: Game) -> Word:
    """Return the cards that have been played in this game."""
    played: Word = np.uint64(0)
    for player in range(N_PLAYERS):
        played |= game.played[player]
    return played


@njit(uint64(GameType, int64), cache=True)
def unseen_cards(game: Game, player: int) -> Word:
    """Return the cards that a player has not seen, which the others hold."""
    hidden: Word = np.uint64(DECK) & ~(game.hands[player] | all_played(game))
    return hidden


@njit(uint64(GameType, int64), cache=True)
def known_cards(view: Game, player: int) -> Word:
    """Return the cards that the viewer knows to be in a player's hand.

    These are the cards that the viewer gave this player in the exchange and that have not been
    played since, and the diamond 3 of the player who led first.
    """
    own: Word = view.hands[view.viewer]
    if player == view.viewer:
        return own
    hidden = unseen_cards(view, view.viewer)
    known: Word = np.uint64(0)
    if player == partner(view, view.viewer):
        known |= view.given[view.viewer] & hidden
    if player == view.starter:
        known |= np.uint64(D3) & hidden
    return known


@njit(uint64(uint64), cache=True)
def _stronger(card: Word) -> Word:
    """Return the cards stronger than a card, in the order of `cards.strongest`."""
    rest = np.uint64(DECK)
    for n in range(1, N_CARDS + 1):
        if strongest(rest, n) & np.uint64(card):
            return strongest(rest, n - 1)
    return np.uint64(0)


@njit(uint64(GameType, uint64, int64), cache=True)
def _draw_cards(game: Game, pool: Word, n: int) -> Word:
    """Return `n` random cards of a pool."""
    drawn = np.uint64(0)
    for _ in range(n):
        rest = np.uint64(pool) & ~drawn
        for _ in range(draw(game, count(rest))):
            rest &= rest - np.uint64(1)
        drawn |= rest & (~rest + np.uint64(1))
    return drawn


@njit(float64(int64, int64), cache=True)
def _ways(n: int, k: int) -> float:
    """Return the binomial coefficient of `n` and `k`; 0 if `k` is larger than `n`."""
    ways = 1.0
    for i in range(k):
        ways *= max(n - i, 0) / (i + 1)
    return ways


@njit(uint64(GameType, uint64, int64, uint64), cache=True)
def _draw_excluded(game: Game, hidden: Word, need: int, remaining: Word) -> Word:
    """Draw the gift that a rich viewer received; return the cards that its partner cannot hold.

    The partner gave its strongest cards, which are in the hand from which the viewer chose. The
    weakest card of that gift is drawn in proportion to the number of gifts and deals it allows.

    Args:
        game: the view.
        hidden: the cards to deal.
        need: number of them that the partner gets.
        remaining: cards that the partner is known to have had after its gift.
    """
    viewer = game.viewer
    full_hand = game.hands[viewer] | game.played[viewer] | game.given[viewer]
    n = n_exchanged(game.classes[viewer])
    ways = np.zeros(N_CARDS)
    excluded = np.zeros(N_CARDS, np.uint64)
    for i in range(n - 1, count(full_hand)):
        weakest_given = strongest(full_hand, i + 1) & ~strongest(full_hand, i)
        excluded[i] = _stronger(weakest_given)
        if excluded[i] & remaining == 0:
            ways[i] = _ways(i, n - 1) * _ways(count(hidden & ~excluded[i]), need)
    threshold = draw(game, 1 << 32) / (1 << 32) * ways.sum()
    for i in range(N_CARDS):
        threshold -= ways[i]
        if threshold < 0:
            excluded_by_gift: Word = excluded[i]
            return excluded_by_gift
    return np.uint64(DECK)


@njit(uint64(GameType), cache=True)
def _undealt(game: Game) -> Word:
    """Return the cards that are in no hand and have not been played."""
    undealt: Word = np.uint64(DECK) & ~all_played(game)
    for player in range(N_PLAYERS):
        undealt &= ~game.hands[player]
    return undealt


@njit(uint64(GameType, int64), cache=True)
def _draw_partner_pool(game: Game, player: int) -> Word:
    """Return the cards that the viewer's partner may get, given a drawn gift to a rich viewer."""
    pool: Word = _undealt(game)
    if game.classes[game.viewer] < HEIMIN:
        need = game.left[player] - count(game.hands[player])
        remaining = (game.hands[player] | game.played[player]) & ~game.given[game.viewer]
        pool &= ~_draw_excluded(game, pool, need, remaining)
    return pool


@njit(boolean(GameType, int64, uint64), cache=True)
def _deal_to(game: Game, player: int, pool: Word) -> bool:
    """Fill a player's hand with random cards of a pool; return True if the pool had enough."""
    need = game.left[player] - count(game.hands[player])
    if need < 0 or need > count(pool):
        return False
    game.hands[player] |= _draw_cards(game, pool, need)
    return True


@njit(boolean(GameType), cache=True)
def fill_hidden(game: Game) -> bool:
    """Deal random cards to the hidden hands of a view.

    The deal agrees with the sizes of the hands, with all cards played, with `known_cards`, and with
    the gift of the viewer's partner. All deals of the pack are equally likely a priori, so a hand
    that several gifts explain is drawn more often. The choices of players (gifts and plays) and the
    exchange between others are not used as evidence.

    Args:
        game: a copy of a view, with `rng` set; becomes a whole game.

    Returns:
        True if there is such a deal. Otherwise the record must not be used any more.
    """
    viewer, partner_ = game.viewer, partner(game, game.viewer)
    for player in range(N_PLAYERS):
        game.hands[player] = known_cards(game, player)
    # The partner first: whichever cards it gets, the rest can be dealt in equally many ways.
    if partner_ >= 0 and not _deal_to(game, partner_, _draw_partner_pool(game, partner_)):
        return False
    for player in range(N_PLAYERS):
        if player not in (viewer, partner_) and not _deal_to(game, player, _undealt(game)):
            return False
    game.viewer = -1
    return bool(_undealt(game) == 0)


def determinise(view: Game, rng: np.random.Generator) -> Game:
    """Return a whole game that agrees with a view, with random hidden cards: see `fill_hidden`.

    Args:
        view: what a player sees; unchanged.
        rng: draws the cards, and the seeds of this game and the games after it.

    Raises:
        ValueError: `view` is a whole game, a field is out of its range, or no deal agrees with it.
    """
    games = np.empty(1, GAME)
    games[0] = check_view(view)
    game: Game = games[0]
    game["rng"], game["seed"] = draw_word(rng), draw_word(rng)
    if not fill_hidden(game):
        raise ValueError("view must allow a deal, got one that no deal agrees with")
    return game
